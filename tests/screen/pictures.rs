//! What can be read at each size, on the built binary with made-up sessions.
//!
//! `PICTURES=1 cargo test --test screen pictures::` paints what was looked at into `assets/`, for the README.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use super::Terminal;

/// A model server as far as anybody outside can tell: it loads, listens, answers, and has two workers.
const SERVER: &str = r"
import http.server, subprocess, sys
port = int(sys.argv[sys.argv.index('--port') + 1])
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass
print('llama_model_loader: loaded meta data with 26 key-value pairs and 339 tensors')
print('load_tensors: offloaded 29/29 layers to GPU')
for gpu in '01':
    subprocess.Popen(['python3', '-m', 'tiny.worker', '--device', gpu, '--of', str(port)])
server = http.server.HTTPServer(('127.0.0.1', port), Health)
print(f'main: server is listening on http://127.0.0.1:{port}', flush=True)
server.serve_forever()
";

const WORKER: &str = "import time\nwhile True: time.sleep(100)\n";

/// Where the made-up person of the pictures works: as long as the name of a temporary folder of these tests.
const PLACE: &str = "/home/cook/ai";

const AGENT: &str = "#!/bin/sh\nprintf '\\033[1;35m* reviewer\\033[m  reading src/parser.rs\\n\\n'\nprintf '  \\033[32m+ 14\\033[m \
                     \\033[31m- 3\\033[m  handle an empty input\\n\\n'\nprintf '\\033[1mRun the tests?\\033[m (y/n) '\nread -r _\n";

/// A screen of some size with a server, an agent and a shell that somebody could have.
struct Stage {
    terminal: Terminal,
    port: u16,
}

impl Stage {
    fn new(cols: u16, rows: u16) -> Self {
        let terminal = Terminal::new(cols, rows);
        let (bin, home) = (terminal.folder.path().join("bin"), terminal.folder.path().join("me"));
        for folder in
            [&bin, &home.join("models"), &home.join("tiny"), &home.join("parser/.git"), &home.join("c/cookbook-tui")]
        {
            fs::create_dir_all(folder).unwrap();
        }
        for (name, text) in [("llama-server", "#!/bin/sh\n"), ("review", AGENT)] {
            fs::write(bin.join(name), text).unwrap();
            fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(home.join("parser/.git/HEAD"), "ref: refs/heads/empty\n").unwrap();
        fs::write(home.join("tiny/server.py"), SERVER).unwrap();
        fs::write(home.join("tiny/worker.py"), WORKER).unwrap();
        for model in ["coder-7b-q4.gguf", "small-3b-q4.gguf"] {
            fs::write(home.join("models").join(model), format!("GGUF\x03\0\0\0{}", "\0".repeat(24))).unwrap();
        }
        let python = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
        symlink(String::from_utf8(python.stdout).unwrap().trim(), bin.join("python3")).unwrap();
        // The binary under a name that can be shown.
        let binary = bin.join("cookbook-tui");
        if fs::hard_link(env!("CARGO_BIN_EXE_cookbook-tui"), &binary).is_err() {
            fs::copy(env!("CARGO_BIN_EXE_cookbook-tui"), &binary).unwrap();
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let parser = home.join("parser").display().to_string();
        let recipes = format!(
            "[[recipe]]\nname = \"coder-7b\"\nkind = \"serve\"\nautostart = true\n\
             command = [\"python3\", \"-m\", \"tiny.server\", \"--model\", \"models/coder-7b-q4.gguf\", \"--port\", \"{port}\"]\n\n\
             [[recipe]]\nname = \"reviewer\"\nkind = \"agent\"\nhost = \"pty\"\ncommand = [\"review\"]\ncwd = \"{parser}\"\nautostart = true\n\n\
             [[recipe]]\nname = \"notes\"\nkind = \"shell\"\ncommand = [\"sh\"]\nenv = {{ PS1 = \"~ $ \" }}\nautostart = true\n"
        );
        fs::write(home.join("c/cookbook-tui/config.toml"), recipes).unwrap();
        fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
        let (home, bin) = (home.display().to_string(), bin.display().to_string());
        terminal.line(&format!(
            "cd {home}; export HOME={home} XDG_CONFIG_HOME={home}/c XDG_RUNTIME_DIR={home} PATH={bin}:$PATH COLORTERM=truecolor"
        ));
        terminal.line(&format!("cookbook-tui --state-dir ../s --tmux-socket {}o", terminal.socket));
        terminal.await_that("a server that is ready", |text| {
            text.lines().any(|line| line.contains("coder-7b") && line.contains("ready"))
        });
        Self { terminal, port }
    }

    /// Selects the server, whatever was started last.
    fn select_the_server(&self) {
        self.terminal.key("g");
        self.terminal.await_that("the server", |text| {
            text.lines().any(|line| line.starts_with('\u{258c}') && line.contains("coder-7b"))
        });
    }

    fn must_read(&self, what: &str, words: &[&str]) {
        self.terminal.await_that(&format!("{what}: {words:?}"), |text| words.iter().all(|word| text.contains(word)));
        // Nothing is cut in the middle of a frame: every frame that begins ends.
        let text = self.terminal.text();
        let count = |c: char| text.chars().filter(|other| *other == c).count();
        assert_eq!((count('\u{256d}'), count('\u{2570}')), (count('\u{256e}'), count('\u{256f}')), "{what}:\n{text}");
    }

    /// Paints what is seen into `assets/`, where somebody asked for it.
    fn paint(&self, name: &str, cols: u16) {
        if std::env::var_os("PICTURES").is_none() {
            return;
        }
        let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
        let captured = self.terminal.tmux(&["capture-pane", "-p", "-e"]).stdout;
        let folder = self.terminal.folder.path().display().to_string();
        assert_eq!(folder.len(), PLACE.len(), "{folder}");
        let captured = String::from_utf8_lossy(&captured).replace(&folder, PLACE);
        fs::write(self.terminal.folder.path().join("captured"), captured).unwrap();
        let painted = Command::new("python3")
            .arg(assets.join("screenshot.py"))
            .arg(cols.to_string())
            .stdin(Stdio::from(fs::File::open(self.terminal.folder.path().join("captured")).unwrap()))
            .stdout(Stdio::from(fs::File::create(assets.join(name)).unwrap()))
            .status();
        assert!(painted.unwrap().success());
    }
}

/// What must be readable at a size, besides what must be at every one.
struct Wanted {
    size: (u16, u16),
    list: &'static [&'static str],
    tree: &'static [&'static str],
    preview: &'static [&'static str],
    form: &'static [&'static str],
    /// Of the list, the preview and the form.
    pictures: [Option<&'static str>; 3],
}

fn check(wanted: &Wanted) {
    let (cols, rows) = wanted.size;
    let stage = Stage::new(cols, rows);
    let terminal = &stage.terminal;
    stage.select_the_server();
    stage.must_read("list", &["coder-7b", "ready"]);
    stage.must_read("list", wanted.list);
    if cols >= 80 {
        stage.must_read("the port", &[&stage.port.to_string()]);
    }
    if !wanted.tree.is_empty() {
        if !terminal.text().contains("Processes") {
            terminal.key("t");
        }
        stage.must_read("tree", wanted.tree);
    }
    if let Some(name) = wanted.pictures[0] {
        stage.paint(name, cols);
    }
    terminal.key("x");
    stage.must_read("preview", &["Stop: coder-7b"]);
    stage.must_read("preview", wanted.preview);
    if let Some(name) = wanted.pictures[1] {
        stage.paint(name, cols);
    }
    terminal.key("Escape");
    terminal.await_that("no preview", |text| !text.contains("Stop: "));
    terminal.key("a");
    stage.must_read("form", &["Launch", "command"]);
    terminal.key("Tab");
    for (text, offered) in [("llama-ser", "llama-server"), ("-m sm", "small-3b-q4.gguf")] {
        terminal.tmux(&["send-keys", "-l", "--", text]);
        // Offered below the line, and then taken into it. Servers of others may be listed beside the form, and a recipe of
        // that name is offered before the line has the keys.
        terminal.await_that(text, |shown| shown.lines().any(|line| line.contains("command") && line.contains(text)));
        let is_offer = |part: &str| part.starts_with("     ") && part.trim_start().starts_with(offered);
        terminal.await_that(offered, |shown| shown.lines().any(|line| line.split('\u{2502}').any(is_offer)));
        terminal.key("Right");
        terminal
            .await_that(offered, |shown| shown.lines().any(|line| line.contains(offered) && line.contains("command")));
    }
    stage.must_read("form", wanted.form);
    if let Some(name) = wanted.pictures[2] {
        stage.paint(name, cols);
    }
    terminal.key("Escape");
    terminal.await_that("no form", |text| !text.contains("\u{2500} Launch"));
    stop_all(&stage);
}

/// Stops the server, which would outlive the screen, and leaves.
fn stop_all(stage: &Stage) {
    let terminal = &stage.terminal;
    terminal.key("x");
    terminal.await_text("Stop: coder-7b");
    terminal.confirm("Stop: coder-7b");
    terminal.await_that("its end", |_| terminal.workloads().len() <= 2);
    terminal.key("q");
    terminal.await_text("Quit");
    terminal.confirm("Quit");
    terminal.await_text("prompt>");
    terminal.assert_restored();
}

#[test]
fn at_200x60() {
    check(&Wanted {
        size: (200, 60),
        list: &[
            "reviewer",
            "parser (empty)",
            "notes",
            "Servers 1",
            "Agents 1",
            "Shells 1",
            "serve \u{b7} tmux",
            "llama_model_loader",
        ],
        tree: &["Processes", "tiny.worker --device 0", "tiny.worker --device 1", "owned"],
        preview: &["tiny.worker --device 1", "3 processes to signal", "owned", "TERM", "cancel"],
        form: &["models/small-3b-q4.gguf", "[ Launch ]", "[ Save as recipe ]", "venv"],
        pictures: [Some("large.svg"), None, None],
    });
}

#[test]
fn at_140x40() {
    check(&Wanted {
        size: (140, 40),
        list: &["reviewer", "notes", "Servers 1", "Agents 1", "Shells 1", "llama_model_loader"],
        tree: &["Processes", "tiny.worker", "owned"],
        preview: &["tiny.worker --device 1", "3 processes to signal", "owned", "TERM", "cancel"],
        form: &["models/small-3b-q4.gguf", "[ Launch ]", "[ Save as recipe ]"],
        pictures: [Some("screen.svg"), Some("preview.svg"), None],
    });
}

#[test]
fn at_80x24() {
    check(&Wanted {
        size: (80, 24),
        list: &["reviewer", "llama_model_loader", "? help"],
        tree: &["tiny.worker", "owned"],
        preview: &["tiny.server", "3 processes to signal", "owned", "TERM", "cancel"],
        form: &["small-3b-q4.gguf", "[ Launch ]"],
        pictures: [None, None, Some("form.svg")],
    });
}

#[test]
fn at_60x15() {
    check(&Wanted {
        size: (60, 15),
        list: &["reviewer", "notes", "? help"],
        tree: &[],
        preview: &["owned", "cancel"],
        form: &["small-3b-q4.gguf"],
        pictures: [Some("narrow.svg"), None, None],
    });
}

#[test]
fn at_40x10() {
    check(&Wanted {
        size: (40, 10),
        list: &["?"],
        tree: &[],
        preview: &["3 processes to signal", "Esc"],
        form: &["small-3b-q4.gguf"],
        pictures: [Some("tiny.svg"), None, None],
    });
}
