//! Which files count, in which order, and what keeps a file of a directory inert.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use tempfile::TempDir;

use super::super::model::{Notify, Theme};
use super::super::trust::{self, Trusted, trust_seen};
use super::*;
use crate::app::contract::{CommandLine, Kind};

/// A home, a project with a folder in it, a state directory and a PATH of one directory.
struct World {
    root: TempDir,
}

impl World {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for dir in ["config/cookbook-tui", "project/deep/er", "bin"] {
            fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        Self { root }
    }

    fn path(&self, name: &str) -> PathBuf {
        // As the program itself resolves it, wherever the temporary directory is.
        self.root.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn program(&self, name: &str) {
        let path = self.write(&format!("bin/{name}"), "");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn state(&self) -> PathBuf {
        self.path("state")
    }

    fn load(&self, explicit: Option<&Path>) -> Result<Config, ConfigError> {
        load(&Inputs {
            explicit: explicit.map(Path::to_owned),
            config_home: self.path("config"),
            cwd: self.path("project/deep/er"),
            state_dir: self.state(),
            path: Some(self.path("bin").into_os_string()),
            home: Some(self.path("home")),
        })
    }
}

/// Trusts a file whatever it holds.
fn trust(file: &Path, state_dir: &Path) -> io::Result<Trusted> {
    trust::trust(file, state_dir, |_, _| Ok(()))
}

const USER: &str = "config/cookbook-tui/config.toml";
const DIRECTORY: &str = "project/cookbook.toml";

fn recipe(name: &str, command: &str) -> String {
    format!("[[recipe]]\nname = '{name}'\ncommand = '{command}'\n")
}

fn line(config: &Config, name: &str) -> Option<String> {
    match &config.recipe(name)?.command {
        CommandLine::Line(line) => Some(line.clone()),
        CommandLine::Argv(argv) => Some(argv.join(" ")),
    }
}

#[test]
fn without_any_file_a_shell_and_the_demo_are_offered() {
    let config = World::new().load(None).unwrap();
    let names: Vec<&str> = config.recipes.iter().map(|recipe| recipe.name.as_str()).collect();
    assert_eq!(names, ["demo", "shell"]);
    assert!(config.rows().iter().all(|row| row.available));
    assert_eq!((config.sources.len(), &config.untrusted, config.notes.len()), (0, &None, 0));
    assert_eq!((config.tmux.socket.as_str(), config.cookbook.socket.as_str()), ("cookbook", "default"));
}

#[test]
fn built_in_recipes_are_offered_when_their_program_is_there() {
    let world = World::new();
    world.program("vllm");
    world.program("claude");
    let config = world.load(None).unwrap();
    let rows: Vec<_> = config.rows().into_iter().map(|row| (row.name, row.kind, row.source, row.available)).collect();
    let row = |name: &str, kind| (name.to_owned(), kind, "built-in".to_owned(), true);
    let [demo, shell] = [row("demo", Kind::Serve), row("shell", Kind::Shell)];
    assert_eq!(rows, [row("vllm", Kind::Serve), demo, row("claude", Kind::Agent), shell]);
}

#[test]
fn every_built_in_recipe_is_sound() {
    let origin = Origin { path: Path::new("b"), dir: Path::new("/"), home: None, source: Source::BuiltIn };
    let layer = parse(BUILT_IN, &origin).unwrap();
    assert!(layer.recipes.len() > 10);
    for kind in Kind::ALL {
        assert!(layer.recipes.iter().any(|recipe| recipe.kind == kind), "{kind:?}");
    }
    for recipe in &layer.recipes {
        assert!(recipe.kind != Kind::Serve || recipe.ready.is_some(), "{}", recipe.name);
        let is_a_script = ["shell", "demo"].contains(&recipe.name.as_str());
        assert!(is_a_script || recipe.program().is_some(), "{} could not be looked up", recipe.name);
        assert!(!recipe.autostart, "{}", recipe.name);
    }
}

#[test]
fn later_files_win_by_name() {
    let world = World::new();
    world.program("vllm");
    let all = |who: &str, names: &[&str]| names.iter().map(|name| recipe(name, who)).collect::<String>();
    world.write(USER, &(all("user", &["vllm", "mine", "both"]) + "[tmux]\nsocket = 'u'\n[ui]\ntheme = 'dark'\n"));
    let file = world.write(DIRECTORY, &(all("dir", &["both", "new"]) + "[tmux]\nsocket = 'd'\n"));
    trust(&file, &world.state()).unwrap();

    let config = world.load(None).unwrap();
    let get = |name| line(&config, name).unwrap();
    assert_eq!(["vllm", "mine", "both", "new"].map(get), ["user", "user", "dir", "dir"]);
    assert_eq!(config.recipes.len(), 6, "four, the demo and the shell; no name twice");
    assert_eq!(config.recipe("both").unwrap().source, Source::Directory);
    assert_eq!((config.tmux.socket.as_str(), config.ui.theme), ("d", Theme::Dark));
    assert_eq!(config.sources, [world.path(USER), file]);

    let explicit = world.write("explicit.toml", &recipe("only", "explicit"));
    let config = world.load(Some(&explicit)).unwrap();
    let names: Vec<_> = config.recipes.iter().map(|recipe| recipe.name.as_str()).collect();
    assert_eq!(names, ["vllm", "demo", "shell", "only"], "--config replaces both files, not what is built in");
    assert_eq!((config.sources, config.untrusted), (vec![explicit], None));
    assert_eq!(config.tmux.socket, "cookbook");
}

#[test]
fn a_recipe_is_replaced_as_a_whole() {
    let world = World::new();
    world.write(
        USER,
        "[[recipe]]\nname = 'r'\nkind = 'serve'\ncommand = 'a'\nenv = { A = '1' }\nstop = { command = 'b' }",
    );
    let file = world.write(DIRECTORY, &recipe("r", "c"));
    trust(&file, &world.state()).unwrap();
    let config = world.load(None).unwrap();
    let recipe = config.recipe("r").unwrap();
    assert_eq!((recipe.kind, recipe.env.len(), &recipe.stop.command), (Kind::Shell, 0, &None));
}

#[test]
fn a_file_that_was_asked_for_must_exist() {
    let world = World::new();
    let error = world.load(Some(Path::new("missing.toml"))).unwrap_err();
    assert_eq!(error.to_string(), "failed to read missing.toml: No such file or directory (os error 2)");
    fs::create_dir(world.path(USER)).unwrap();
    let error = world.load(None).unwrap_err().to_string();
    assert_eq!(error, format!("failed to read {}: it is a directory, not a regular file", world.path(USER).display()));
}

#[test]
fn errors_name_the_file() {
    let world = World::new();
    let path = world.write(USER, "\n[ui]\nthem = 'x'\n");
    let error = world.load(None).unwrap_err().to_string();
    assert_eq!(error, format!("{}:3: unknown key `them` in [ui]; did you mean `theme`?", path.display()));
    fs::write(&path, b"[ui]\n# \xff\n").unwrap();
    assert_eq!(world.load(None).unwrap_err().to_string(), format!("{}:2: not valid UTF-8", path.display()));
    fs::write(&path, vec![b'#'; 2 << 20]).unwrap();
    let error = world.load(None).unwrap_err().to_string();
    assert_eq!(error, format!("failed to read {}: it is longer than 1 MiB", path.display()));
}

#[test]
fn a_notification_is_asked_of_the_terminal_unless_somebody_says_otherwise() {
    let world = World::new();
    assert_eq!(world.load(None).unwrap().ui.notify, Notify::Terminal);
    let path = world.write(USER, "[ui]\nnotify = 'none'\n");
    assert_eq!(world.load(None).unwrap().ui.notify, Notify::None);
    fs::write(&path, "[ui]\nnotify = 'mail'\n").unwrap();
    let error = world.load(None).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}:2: ", path.display())), "{error}");
    assert!(error.contains("notify") && error.contains("none") && error.contains("terminal"), "{error}");
}

#[test]
fn paths_are_relative_to_their_file() {
    let world = World::new();
    world.write(USER, "[[recipe]]\nname = 'u'\ncommand = 'x'\ncwd = 'sub'");
    let file = world.write(DIRECTORY, "[[recipe]]\nname = 'd'\ncommand = 'x'\ncwd = '.'\nvenv = '~/v'");
    trust(&file, &world.state()).unwrap();
    let config = world.load(None).unwrap();
    assert_eq!(config.recipe("u").unwrap().cwd, Some(world.path("config/cookbook-tui/sub")));
    assert_eq!(config.recipe("d").unwrap().cwd, Some(world.path("project")));
    assert_eq!(config.recipe("d").unwrap().venv, Some(world.path("home/v")));

    world.write("project/deep/er/explicit.toml", "[[recipe]]\nname = 'e'\ncommand = 'x'\ncwd = 'sub'");
    let config = world.load(Some(Path::new("explicit.toml"))).unwrap();
    assert_eq!(config.recipe("e").unwrap().cwd, Some(world.path("project/deep/er/sub")));
}

#[test]
fn a_program_that_is_missing_is_said() {
    let world = World::new();
    world.program("there");
    fs::create_dir_all(world.path("home/venv/bin")).unwrap();
    fs::copy(world.path("bin/there"), world.path("home/venv/bin/inside")).unwrap();
    let argv = |name: &str, argv: &str, rest: &str| format!("[[recipe]]\nname = '{name}'\ncommand = {argv}\n{rest}\n");
    let content = [
        argv("found", "['there', '--api-key', 'secret']", ""),
        argv("lost", "['gone', '--api-key', 'secret']", ""),
        argv("venv", "['inside']", "venv = '~/venv'"),
        argv("relative", "['./there']", "cwd = '~/../bin'"),
        argv("own-path", "['there']", "env = { PATH = '/nowhere' }"),
        argv("line", "'gone --token secret'", ""),
    ];
    world.write(USER, &content.concat());
    let rows = world.load(None).unwrap().rows();
    let rows: Vec<_> =
        rows.iter().skip(2).map(|row| (row.name.as_str(), row.available, row.reason.as_deref())).collect();
    let gone = Some("program `gone` was not found");
    let there = Some("program `there` was not found");
    assert_eq!(
        rows,
        [
            ("found", true, None),
            ("lost", false, gone),
            ("venv", true, None),
            ("relative", true, None),
            ("own-path", false, there),
            ("line", true, None),
        ]
    );
    let rows = world.load(None).unwrap().rows();
    assert_eq!(rows[2].command, "there --api-key ***");
    assert_eq!(rows[7].command, "gone --token ***");
    assert!(!serde_json::to_string(&rows).unwrap().contains("secret"));
}

#[test]
fn needs_that_lead_nowhere_are_noted() {
    let world = World::new();
    world.write(USER, "[[recipe]]\nname = 'a'\ncommand = 'x'\nneeds = ['shell', 'nobody']");
    assert_eq!(world.load(None).unwrap().notes, ["recipe `a` needs `nobody`, which is no recipe"]);
}

#[test]
fn a_file_of_a_directory_is_inert_until_it_is_trusted() {
    let world = World::new();
    let file = world.write(DIRECTORY, "this is not even TOML");
    let config = world.load(None).unwrap();
    let untrusted = config.untrusted.unwrap();
    assert_eq!(untrusted, Untrusted { path: file.clone(), sha256: fingerprint(b"this is not even TOML") });
    assert_eq!((config.sources.len(), config.notes.len()), (0, 0));

    // Trusted once, it counts, and counts again at the next start.
    fs::write(&file, recipe("mine", "x")).unwrap();
    trust(&file, &world.state()).unwrap();
    for _ in 0..2 {
        let config = world.load(None).unwrap();
        assert_eq!((config.untrusted, config.sources), (None, vec![file.clone()]));
        assert_eq!(config.recipes.len(), 3);
    }

    // Other bytes under the same path.
    fs::write(&file, recipe("mine", "y")).unwrap();
    let config = world.load(None).unwrap();
    assert_eq!((config.recipes.len(), config.sources.len()), (2, 0));
    let seen = config.untrusted.unwrap();
    assert_eq!(seen.path, file);

    // The same bytes under another path, nearer than the first.
    fs::write(&file, recipe("mine", "x")).unwrap();
    let moved = world.write("project/deep/cookbook.toml", &recipe("mine", "x"));
    let config = world.load(None).unwrap();
    assert_eq!(config.untrusted.unwrap().path, moved, "the nearest file is the only one that is looked at");
    assert_eq!(config.recipes.len(), 2);

    // What was shown is trusted, and nothing else.
    let error = trust_seen(&seen, &world.state()).unwrap_err().to_string();
    assert_eq!(error, format!("{}: it has changed since it was shown", file.display()));
    fs::remove_file(moved).unwrap();
    fs::write(&file, recipe("mine", "y")).unwrap();
    trust_seen(&seen, &world.state()).unwrap();
    assert_eq!(world.load(None).unwrap().untrusted, None);
}

#[test]
fn what_cannot_be_trusted_is_passed_over_with_a_note() {
    let world = World::new();
    let file = world.path(DIRECTORY);
    let real = world.write("real.toml", &recipe("mine", "x"));
    trust(&real, &world.state()).unwrap();
    let note = |why: &str| vec![format!("{} is not used: {why}", file.display())];

    symlink(&real, &file).unwrap();
    let config = world.load(None).unwrap();
    assert_eq!((config.notes, config.untrusted), (note("it is a symbolic link"), None));
    let error = trust(&file, &world.state()).unwrap_err().to_string();
    assert_eq!(error, format!("{}: it is a symbolic link", file.display()));

    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(world.load(None).unwrap().notes, note("it is not a regular file"));

    fs::remove_dir(&file).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &file, fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    assert_eq!(world.load(None).unwrap().notes, note("it is not a regular file"), "and nobody waits for a writer");

    fs::remove_file(&file).unwrap();
    fs::write(&file, vec![b'#'; 2 << 20]).unwrap();
    assert_eq!(world.load(None).unwrap().notes, note("it is longer than 1 MiB"));

    if rustix::process::geteuid().is_root() {
        fs::write(&file, recipe("mine", "x")).unwrap();
        std::os::unix::fs::chown(&file, Some(12_345), None).unwrap();
        let config = world.load(None).unwrap();
        assert_eq!((config.notes, config.untrusted), (note("it belongs to user 12345"), None));
    }
}

#[test]
fn a_damaged_ledger_trusts_nothing_and_stays() {
    let world = World::new();
    let file = world.write(DIRECTORY, &recipe("mine", "x"));
    trust(&file, &world.state()).unwrap();
    let ledger = world.path("state/trusted.json");
    let cases = [
        ("{", "EOF while parsing an object at line 1 column 1"),
        ("{\"schema_version\": 2, \"new\": []}", "it has schema version 2, this program knows 1"),
    ];
    for (content, why) in cases {
        fs::write(&ledger, content).unwrap();
        let config = world.load(None).unwrap();
        assert_eq!(config.untrusted.unwrap().path, file);
        assert_eq!(config.notes, [format!("no directory is trusted: {}: {why}", ledger.display())]);
        let error = trust(&file, &world.state()).unwrap_err().to_string();
        assert_eq!(error, format!("{}: {why}", ledger.display()));
        assert_eq!(fs::read_to_string(&ledger).unwrap(), content, "it is never overwritten");
    }
}
