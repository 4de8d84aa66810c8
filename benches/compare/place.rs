//! The place of one run: directories, a tmux server of its own, and the end of everything in it.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::terminal::{Size, Terminal};

/// Of the terminals that are not about their size.
pub(crate) const SIZE: Size = (40, 140);

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_cookbook-tui");

/// A state directory, a home and a tmux socket that belong to one run.
pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        // Unix sockets below it need a short path.
        let dir = tempfile::Builder::new().prefix("cb").tempdir_in("/tmp").unwrap();
        for name in ["run", "home"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self { dir }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Gives a command the environment of this place, and nothing of the person's who runs the bench.
    pub(crate) fn settle(&self, command: &mut Command) {
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).current_dir(self.dir.path());
        command.env("HOME", self.path("home")).env("XDG_RUNTIME_DIR", self.path("run"));
        command.env("TMUX_TMPDIR", self.dir.path()).env("LC_ALL", "C.UTF-8").env("TERM", "xterm-256color");
        command.env("SHELL", "/bin/sh");
    }

    /// Writes a file of this place and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn arguments(&self) -> [std::ffi::OsString; 4] {
        ["--state-dir".into(), self.path("state").into(), "--tmux-socket".into(), "bench".into()]
    }

    /// Opens the screen in a terminal of this size.
    pub(crate) fn cockpit(&self, size: Size) -> Terminal {
        let mut command = Terminal::command(PROGRAM);
        command.args(self.arguments());
        self.settle(&mut command);
        Terminal::start(command, size)
    }

    /// Opens an attached tmux in a terminal of this size.
    pub(crate) fn tmux(&self, size: Size, arguments: &[&str]) -> Terminal {
        let mut command = Terminal::command("tmux");
        command.args(["-L", "bench", "-f", "/dev/null"]).args(arguments);
        self.settle(&mut command);
        Terminal::start(command, size)
    }

    /// Runs a tmux client to its end; a server that is not there is no fault here.
    pub(crate) fn ask_tmux(&self, arguments: &[&str]) {
        let mut command = Command::new("tmux");
        command.args(["-L", "bench", "-f", "/dev/null"]).args(arguments);
        self.settle(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    }

    /// Returns the pid of the server.
    pub(crate) fn tmux_server(&self) -> u32 {
        let mut command = Command::new("tmux");
        command.args(["-L", "bench", "display-message", "-p", "#{pid}"]);
        self.settle(&mut command);
        let output = command.stdin(Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().parse().unwrap()
    }

    /// Runs a subcommand to its end.
    pub(crate) fn run(&self, arguments: &[impl AsRef<OsStr>]) {
        let mut command = Command::new(PROGRAM);
        command.args(self.arguments()).args(arguments);
        self.settle(&mut command);
        assert!(command.stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap().success());
    }

    pub(crate) fn batch(&self) -> Batch {
        let mut command = Command::new(PROGRAM);
        command.args(self.arguments()).arg("--batch");
        self.settle(&mut command);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Batch { child, input, output }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.ask_tmux(&["kill-server"]);
    }
}

/// A running `cookbook-tui --batch`.
pub(crate) struct Batch {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Batch {
    /// Sends a request, which must be a success, and returns its result.
    pub(crate) fn ask(&mut self, request: &Value) -> Value {
        self.try_ask(request).unwrap_or_else(|answer| panic!("{request}: {answer}"))
    }

    /// Sends a request, and returns its result, or the answer that is none.
    pub(crate) fn try_ask(&mut self, request: &Value) -> Result<Value, Value> {
        self.send(request);
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let mut answer: Value = serde_json::from_str(&line).unwrap();
        if answer["ok"] == json!(true) { Ok(answer["result"].take()) } else { Err(answer) }
    }

    /// Sends a request, and waits for no answer.
    pub(crate) fn send(&mut self, request: &Value) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{request}\n").as_bytes()).unwrap();
        input.flush().unwrap();
    }

    /// Kills it, without a warning.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    pub(crate) fn launch(&mut self, host: &str, argv: &[&str]) -> String {
        let launched = self.ask(&json!({"cmd": "launch", "host": host, "command": argv}));
        launched["session"].as_str().unwrap().to_owned()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // The end of its input ends it, and it ends its sessions.
        drop(self.input.take());
        self.child.wait().unwrap();
    }
}
