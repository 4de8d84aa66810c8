//! What the keys of a file mean, and the exact text of every error.

use proptest::prelude::*;

use super::super::colour::Colour;
use super::*;
use crate::text::noise::{cases, damaged};

fn read(content: &str) -> Result<Layer, ConfigError> {
    let (path, dir, home) = (Path::new("config.toml"), Path::new("/etc/cookbook"), Some(Path::new("/home/me")));
    parse(content, &Origin { path, dir, home, source: Source::User })
}

fn one(rest: &str) -> Recipe {
    let content = format!("[[recipe]]\nname = \"r\"\ncommand = [\"prog\"]\n{rest}\n");
    read(&content).unwrap().recipes.remove(0)
}

const EVERY_KEY: &str = r#"
        [[recipe]]
        name = "tiny"
        kind = "serve"
        host = "tmux"
        command = ["llama-server", "-m", "tiny.gguf", "--port", "8080"]
        cwd = "."
        env = { HF_HOME = "/data/hf" }
        gpus = "0,1"
        venv = "~/venvs/vllm"
        needs = ["embedder"]
        exclusive = "gpu0"
        ready = { http = "http://127.0.0.1:8080/health" }
        stop = { signal = "INT", grace_s = 2.5, command = "docker stop x", keys = ["C-c", "Enter"] }
        ceiling_s = 86400
        restart = "on-failure"
        escapees = "report"
        autostart = true

        [[machine]]
        name = "gpu1"
        ssh = "me@gpu1"

        [tmux]
        socket = "mine"
        [cookbook]
        data_dir = "~/odysseus/data"
        socket = "theirs"
        [ui]
        theme = "mono"
        escape = "C-]"
    "#;

#[test]
fn every_key_is_read() {
    let content = EVERY_KEY;
    let layer = read(content).unwrap();
    let argv = ["llama-server", "-m", "tiny.gguf", "--port", "8080"].map(String::from).to_vec();
    let expected = Recipe {
        name: "tiny".into(),
        kind: Kind::Serve,
        host: Some(HostKind::Tmux),
        command: CommandLine::Argv(argv),
        cwd: Some("/etc/cookbook".into()),
        env: BTreeMap::from([("HF_HOME".into(), "/data/hf".into())]),
        gpus: Some("0,1".into()),
        venv: Some("/home/me/venvs/vllm".into()),
        needs: vec!["embedder".into()],
        exclusive: Some("gpu0".into()),
        ready: Some(Ready::Http("http://127.0.0.1:8080/health".into())),
        stop: Stop {
            signal: Some("INT".into()),
            grace_s: Some(2.5),
            command: Some(CommandLine::Line("docker stop x".into())),
            keys: Some(vec!["C-c".into(), "Enter".into()]),
        },
        ceiling_s: Some(86_400.0),
        restart: Restart::OnFailure,
        escapees: Escapees::Report,
        autostart: true,
        source: Source::User,
        program_found: false,
        refused: None,
    };
    assert_eq!(layer.recipes, [expected]);
    assert_eq!(layer.machines, [Machine { name: "gpu1".into(), ssh: "me@gpu1".into() }]);
    assert_eq!(layer.tmux_socket.as_deref(), Some("mine"));
    assert_eq!(layer.cookbook_data_dir.as_deref(), Some(Path::new("/home/me/odysseus/data")));
    assert_eq!(layer.cookbook_socket.as_deref(), Some("theirs"));
    assert_eq!(layer.theme, Some(Theme::Mono));
    assert_eq!(layer.escape, Some("C-]".parse().unwrap()));
}

#[test]
fn what_is_not_said_has_a_default() {
    let recipe = one("");
    assert_eq!((recipe.kind, recipe.host, recipe.cwd.clone()), (Kind::Shell, None, None));
    assert_eq!((recipe.restart, recipe.autostart, recipe.stop.clone()), (Restart::No, false, Stop::default()));
    for (kind, host, escapees) in [
        ("shell", HostKind::Pty, Escapees::Report),
        ("serve", HostKind::Tmux, Escapees::Sweep),
        ("agent", HostKind::Tmux, Escapees::Sweep),
        ("download", HostKind::Tmux, Escapees::Sweep),
    ] {
        let recipe = one(&format!("kind = \"{kind}\""));
        assert_eq!((recipe.usual_host(), recipe.escapees), (host, escapees), "{kind}");
    }
    assert!(read("").unwrap().recipes.is_empty());
}

#[test]
fn paths_are_made_absolute() {
    let cases = [
        (".", "/etc/cookbook"),
        ("./a/./b/", "/etc/cookbook/a/b"),
        ("../a", "/etc/cookbook/../a"),
        ("/a", "/a"),
        ("~", "/home/me"),
        ("~/a", "/home/me/a"),
        ("a/~", "/etc/cookbook/a/~"),
    ];
    for (text, expected) in cases {
        assert_eq!(one(&format!("cwd = \"{text}\"")).cwd.unwrap(), Path::new(expected), "{text}");
    }
    let origin = Origin { path: Path::new("c"), dir: Path::new("/"), home: None, source: Source::User };
    let error = parse("[cookbook]\ndata_dir = \"~/x\"", &origin).unwrap_err();
    let expected = "c:2: `data_dir` in [cookbook] must be a path without `~` while HOME is not set, found `~/x`";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn good_values_are_taken() {
    for good in [
        "command = 'x | y'",
        "gpus = '0'",
        "gpus = '0,10,2'",
        "ceiling_s = 0.5",
        "ceiling_s = 1_000",
        "stop.grace_s = 0",
        "stop.grace_s = 0.0",
        "ready = { tcp = 65535 }",
        "ready = { log = '(?i)ready$' }",
        "ready = { http = 'http://[::1]:8080/health' }",
        "ready = { http = 'http://localhost' }",
        "env = {}",
        "env = { A = '', b_1 = 'x=y' }",
        "needs = []",
    ] {
        let command = if good.starts_with("command") { "" } else { "command = ['p']\n" };
        let content = format!("[[recipe]]\nname = 'r'\n{command}{good}\n");
        assert!(read(&content).is_ok(), "{good}: {}", read(&content).unwrap_err());
    }
    for ssh in ["gpu1", "me@gpu1", "ssh://me@gpu1:22", "me@10.0.0.1", "fe80::1"] {
        assert!(read(&format!("[[machine]]\nname = 'm'\nssh = '{ssh}'")).is_ok(), "{ssh}");
    }
}

#[test]
fn errors_name_line_key_and_the_way_out() {
    let cases = [
        // Unknown keys.
        (
            "x = 1",
            "config.toml:1: unknown key `x` in the file; known are recipe, machine, pattern, tmux, cookbook, containment, ui, theme, keys",
        ),
        ("\n[[recipes]]\nname = 'r'", "config.toml:2: unknown key `recipes` in the file; did you mean `recipe`?"),
        ("[ui]\n\ntheem = 'dark'", "config.toml:3: unknown key `theem` in [ui]; did you mean `theme`?"),
        ("[tmux]\nsock = 'x'", "config.toml:2: unknown key `sock` in [tmux]; did you mean `socket`?"),
        ("[cookbook]\ndatadir = 'x'", "config.toml:2: unknown key `datadir` in [cookbook]; did you mean `data_dir`?"),
        (
            "[[machine]]\nname = 'm'\nhost = 'x'",
            "config.toml:3: unknown key `host` in [[machine]]; known are name, ssh",
        ),
        (
            "[recipe]\nname = 'r'",
            "config.toml:1: `recipe` in the file must be a list of tables, each begun by [[recipe]], found a table",
        ),
        ("recipe = [1]", "config.toml:1: `recipe[0]` in the file must be a table, found an integer"),
        ("[[tmux]]", "config.toml:1: `tmux` in the file must be a table, found a list"),
        // Names.
        ("[[recipe]]\ncommand = ['p']", "config.toml:1: missing key `name` in [[recipe]]"),
        ("\n[[recipe]]\nname = 'r'", "config.toml:2: missing key `command` in [[recipe]]"),
        ("[[machine]]\nname = 'm'", "config.toml:1: missing key `ssh` in [[machine]]"),
        (
            "[[recipe]]\nname = 'r'\ncommand = 'p'\n[[recipe]]\nname = 'r'\ncommand = 'p'",
            "config.toml:5: duplicate name `r` in [[recipe]]; first used on line 2",
        ),
        (
            "[[recipe]]\nname = ''",
            "config.toml:2: `name` in [[recipe]] must be a name of 1 to 64 visible characters that does not begin with `-` or `$`, found ``",
        ),
        (
            "[[recipe]]\nname = '$last'",
            "config.toml:2: `name` in [[recipe]] must be a name of 1 to 64 visible characters that does not begin with `-` or `$`, found `$last`",
        ),
        (
            "[[recipe]]\nname = \"a\\u001bb\"",
            "config.toml:2: `name` in [[recipe]] must be a name of 1 to 64 visible characters that does not begin with `-` or `$`, found `a\\x1bb`",
        ),
        ("[[recipe]]\nname = 5", "config.toml:2: `name` in [[recipe]] must be a string, found an integer"),
        (
            "[[machine]]\nname = 'local'\nssh = 'x'",
            "config.toml:2: `name` in [[machine]] must be another name: `local` is this computer, found `local`",
        ),
        (
            "[[machine]]\nname = 'm'\nssh = '-oProxyCommand=x'",
            "config.toml:3: `ssh` in [[machine]] must be a destination for ssh, without blanks, whose user and host do not begin with `-`, found `-oProxyCommand=x`",
        ),
        (
            "[[machine]]\nname = 'm'\nssh = 'me@-x'",
            "config.toml:3: `ssh` in [[machine]] must be a destination for ssh, without blanks, whose user and host do not begin with `-`, found `me@-x`",
        ),
        (
            "[[machine]]\nname = 'm'\nssh = ''",
            "config.toml:3: `ssh` in [[machine]] must be a destination for ssh, without blanks, whose user and host do not begin with `-`, found ``",
        ),
        (
            "[[machine]]\nname = 'm'\nssh = 'a b'",
            "config.toml:3: `ssh` in [[machine]] must be a destination for ssh, without blanks, whose user and host do not begin with `-`, found `a b`",
        ),
        // Settings.
        (
            "[tmux]\nsocket = '/tmp/x'",
            "config.toml:2: `socket` in [tmux] must be a name of letters, digits, `_`, `-` and `.` that does not begin with `-` or `.`, found `/tmp/x`",
        ),
        (
            "[cookbook]\nsocket = '-x'",
            "config.toml:2: `socket` in [cookbook] must be a name of letters, digits, `_`, `-` and `.` that does not begin with `-` or `.`, found `-x`",
        ),
        (
            "[ui]\ntheme = 'drak'",
            "config.toml:2: `theme` in [ui] must be one of auto, dark, light, mono, high-contrast, found `drak`; did you mean `dark`?",
        ),
        ("[ui]\ntheme = true", "config.toml:2: `theme` in [ui] must be a string, found a boolean"),
        (
            "[ui]\nescape = 'x'",
            "config.toml:2: `escape` in [ui] must be a key such as `C-\\`, `C-]`, `M-x` or `F12` (not Ctrl with [, i, j or m, which terminals cannot tell apart), found `x`",
        ),
    ];
    for (content, expected) in cases {
        assert_eq!(read(content).unwrap_err().to_string(), expected, "{content}");
    }
}

#[test]
fn what_is_not_toml_is_an_error_with_its_line() {
    let cases = [
        ("a = = 1", 1),
        ("[ui]\ntheme = 'dark\n", 2),
        ("[ui]\ntheme = 'dark'\ntheme = 'light'\n", 3),
        ("[ui]\n[tmux]\n[ui]\n", 3),
        ("\n\nrecipe", 3),
    ];
    for (content, line) in cases {
        let text = read(content).unwrap_err().to_string();
        assert!(text.starts_with(&format!("config.toml:{line}: ")), "{content:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

/// Checks the error of one line in a recipe that is sound without it.
fn check(line: &str, expected: &str) {
    let content = format!("[[recipe]]\nname = 'r'\ncommand = ['p']\n{line}\n");
    assert_eq!(read(&content).unwrap_err().to_string(), format!("config.toml:4: {expected}"), "{line}");
}

#[test]
fn errors_of_recipes_name_line_key_and_the_way_out() {
    let cases = [
        ("comand = 'x'", "unknown key `comand` in [[recipe]]; did you mean `command`?"),
        ("ready = { htp = 'x' }", "unknown key `htp` in `ready` of [[recipe]]; did you mean `http`?"),
        ("stop.grace = 1", "unknown key `grace` in `stop` of [[recipe]]; did you mean `grace_s`?"),
        (
            "kind = 'server'",
            "`kind` in [[recipe]] must be one of serve, agent, shell, download, found `server`; did you mean `serve`?",
        ),
        ("host = 'screen'", "`host` in [[recipe]] must be one of pty, tmux, found `screen`"),
        ("cwd = 1", "`cwd` in [[recipe]] must be a string, found an integer"),
        ("cwd = ''", "`cwd` in [[recipe]] must be a string that is not empty, found ``"),
        (
            "venv = '~you/x'",
            "`venv` in [[recipe]] must be a path; of home directories only one's own, `~/...`, is known, found `~you/x`",
        ),
        ("env = ['A=1']", "`env` in [[recipe]] must be a table, found a list"),
        ("env = { A = 5 }", "`A` in `env` of [[recipe]] must be a string, found an integer"),
        (
            "env = { \"A=B\" = 'topsecret' }",
            "`A=B` in `env` of [[recipe]] must be the name of a variable, without `=`, found `A=B`",
        ),
        ("env = { A = \"topsecret\\u0000\" }", "`A` in `env` of [[recipe]] must be a string, found one with NUL"),
        ("gpus = 0", "`gpus` in [[recipe]] must be a string, found an integer"),
        ("gpus = '0,'", "`gpus` in [[recipe]] must be device numbers such as `0,1`, found `0,`"),
        ("gpus = 'all'", "`gpus` in [[recipe]] must be device numbers such as `0,1`, found `all`"),
        ("gpus = ''", "`gpus` in [[recipe]] must be device numbers such as `0,1`, found ``"),
        ("needs = 'x'", "`needs` in [[recipe]] must be a list of recipe names, found a string"),
        ("needs = ['r']", "`needs[0]` in [[recipe]] must be the name of another recipe, found `r`"),
        ("exclusive = ' '", "`exclusive` in [[recipe]] must be a string that is not empty, found ` `"),
    ];
    for (line, expected) in cases {
        check(line, expected);
    }
}

#[test]
fn errors_of_ready_and_stop_name_line_key_and_the_way_out() {
    let cases = [
        ("ready = 'x'", "`ready` in [[recipe]] must be a table, found a string"),
        ("ready = {}", "`ready` in [[recipe]] must be a table with exactly one of http, log, tcp, found a table"),
        (
            "ready = { tcp = 1, log = 'x' }",
            "`ready` in [[recipe]] must be a table with exactly one of http, log, tcp, found a table",
        ),
        ("ready = { tcp = 0 }", "`tcp` in `ready` of [[recipe]] must be a port from 1 to 65535, found 0"),
        ("ready = { tcp = 65536 }", "`tcp` in `ready` of [[recipe]] must be a port from 1 to 65535, found 65536"),
        ("ready = { tcp = '1' }", "`tcp` in `ready` of [[recipe]] must be a port from 1 to 65535, found a string"),
        (
            "ready = { log = '(' }",
            "`log` in `ready` of [[recipe]] must be a regular expression (unclosed group), found `(`",
        ),
        (
            "ready = { http = 'https://x' }",
            "`http` in `ready` of [[recipe]] must be a URL such as `http://127.0.0.1:8080/health`, found `https://x`",
        ),
        (
            "ready = { http = 'http://:80' }",
            "`http` in `ready` of [[recipe]] must be a URL such as `http://127.0.0.1:8080/health`, found `http://:80`",
        ),
        (
            "ready = { http = 'http://x:99999' }",
            "`http` in `ready` of [[recipe]] must be a URL such as `http://127.0.0.1:8080/health`, found `http://x:99999`",
        ),
        (
            "stop = { signal = 'TREM' }",
            "`signal` in `stop` of [[recipe]] must be one of TERM, INT, HUP, QUIT, USR1, USR2, KILL, found `TREM`; did you mean `TERM`?",
        ),
        ("stop = { grace_s = -1 }", "`grace_s` in `stop` of [[recipe]] must be a number of seconds from 0, found -1"),
        ("stop = { grace_s = nan }", "`grace_s` in `stop` of [[recipe]] must be a number of seconds from 0, found nan"),
        (
            "stop = { grace_s = '2' }",
            "`grace_s` in `stop` of [[recipe]] must be a number of seconds from 0, found a string",
        ),
        (
            "stop = { keys = ['C-c', 'Entre'] }",
            "`keys[1]` in `stop` of [[recipe]] must be a key by its name, such as Enter, Escape, Up, F1, C-c or M-x, found `Entre`",
        ),
        (
            "stop = { keys = [] }",
            "`keys` in `stop` of [[recipe]] must be a list of keys such as `C-c`, found an empty list",
        ),
        (
            "stop = { keys = 'C-c' }",
            "`keys` in `stop` of [[recipe]] must be a list of keys such as `C-c`, found a string",
        ),
        (
            "stop = { command = [] }",
            "`command` in `stop` of [[recipe]] must be a list that begins with a program, found an empty list",
        ),
    ];
    for (line, expected) in cases {
        check(line, expected);
    }
}

#[test]
fn errors_of_durations_and_words_name_line_key_and_the_way_out() {
    let cases = [
        ("ceiling_s = nan", "`ceiling_s` in [[recipe]] must be a number of seconds above 0, found nan"),
        ("ceiling_s = inf", "`ceiling_s` in [[recipe]] must be a number of seconds above 0, found inf"),
        ("ceiling_s = -inf", "`ceiling_s` in [[recipe]] must be a number of seconds above 0, found -inf"),
        ("ceiling_s = 0", "`ceiling_s` in [[recipe]] must be a number of seconds above 0, found 0"),
        ("ceiling_s = -0.0", "`ceiling_s` in [[recipe]] must be a number of seconds above 0, found -0.0"),
        ("ceiling_s = -5", "`ceiling_s` in [[recipe]] must be a number of seconds above 0, found -5"),
        ("ceiling_s = 0x10", "`ceiling_s` in [[recipe]] must be a number of seconds above 0, found 0x10"),
        ("ceiling_s = 1e300", "`ceiling_s` in [[recipe]] must be at most a hundred years in seconds, found 1e300"),
        ("restart = 'always'", "`restart` in [[recipe]] must be one of no, on-failure, found `always`"),
        ("restart = false", "`restart` in [[recipe]] must be a string, found a boolean"),
        (
            "escapees = 'keep'",
            "`escapees` in [[recipe]] must be one of sweep, report, found `keep`; did you mean `sweep`?",
        ),
        ("autostart = 'yes'", "`autostart` in [[recipe]] must be true or false, found a string"),
    ];
    for (line, expected) in cases {
        check(line, expected);
    }
}

#[test]
fn errors_of_commands_name_line_key_and_the_way_out() {
    let commands = [
        ("''", "`command` in [[recipe]] must be a string that is not empty, found ``"),
        ("' '", "`command` in [[recipe]] must be a string that is not empty, found ` `"),
        ("[]", "`command` in [[recipe]] must be a list that begins with a program, found an empty list"),
        ("['']", "`command` in [[recipe]] must be a list that begins with a program, found a list"),
        ("['p', 8080]", "`command[1]` in [[recipe]] must be a string, found an integer"),
        ("\"a\\u0000\"", "`command` in [[recipe]] must be a string, found one with NUL"),
        ("{ x = 1 }", "`command` in [[recipe]] must be a string for sh -c or a list of strings, found a table"),
    ];
    for (value, expected) in commands {
        let content = format!("[[recipe]]\nname = 'r'\ncommand = {value}\n");
        assert_eq!(read(&content).unwrap_err().to_string(), format!("config.toml:3: {expected}"), "{value}");
    }
    let content = "[[recipe]]\nname = 'r'\ncommand = [\n  'p',\n  5,\n]\n";
    let expected = "config.toml:5: `command[1]` in [[recipe]] must be a string, found an integer";
    assert_eq!(read(content).unwrap_err().to_string(), expected, "an item of a list has a line of its own");
}

#[test]
fn the_look_is_read() {
    let layer =
        read("[ui]\ntheme = 'high-contrast'\nglyphs = 'ascii'\ntitle = false\n[theme]\nbad = '#ff0000'\ndim = 8\ntext = 'default'\n")
            .unwrap();
    assert_eq!((layer.theme, layer.glyphs), (Some(Theme::HighContrast), Some(Glyphs::Ascii)));
    assert_eq!(layer.title, Some(false));
    let of = |role: Role| layer.colours[role as usize];
    assert_eq!(of(Role::Bad), Some(Colour::Rgb(255, 0, 0)));
    assert_eq!(
        (of(Role::Dim), of(Role::Text), of(Role::Good)),
        (Some(Colour::Indexed(8)), Some(Colour::Default), None)
    );
    for (text, expected) in [
        ("[theme]\nbed = 'red'", "config.toml:2: unknown key `bed` in [theme]; did you mean `bad`?"),
        ("[theme]\nbad = 'redd'", "config.toml:2: `bad` in [theme] must be a colour: `default`, a name"),
        ("[theme]\nbad = 256", "found 256"),
        ("[theme]\nbad = true", "must be a string, found a boolean"),
        ("[ui]\ntheme = 'hight-contrast'", "did you mean `high-contrast`?"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

proptest! {
    #![proptest_config(cases(300))]

    /// A file is a configuration, or an error that says where.
    #[test]
    fn any_file_is_read_or_is_an_error_with_its_place(bytes in prop_oneof![
        damaged(EVERY_KEY.as_bytes().to_vec()),
        proptest::collection::vec(any::<u8>(), 0..120),
        proptest::collection::vec(prop::sample::select(&[
            "[[recipe]]", "[ui]", "name", "command", "theme", "=", "\n", "\"x\"", "[", "]", "{", "}", "1", "true", ".", "ready", "#", "''",
        ][..]), 0..24).prop_map(|words| words.concat().into_bytes()),
    ]) {
        let content = String::from_utf8_lossy(&bytes).into_owned();
        match read(&content) {
            Ok(layer) => prop_assert!(layer.recipes.iter().all(|recipe| !recipe.name.is_empty())),
            Err(error) => {
                let said = error.to_string();
                let line = said.strip_prefix("config.toml:").and_then(|rest| rest.split(':').next()?.parse().ok());
                let lines = content.split('\n').count();
                prop_assert!(line.is_some_and(|line: usize| (1..=lines).contains(&line)), "{} in {} lines", said, lines);
                prop_assert!(!said.contains(char::is_control), "{:?}", said);
            }
        }
    }
}
