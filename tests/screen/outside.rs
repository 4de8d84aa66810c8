//! A terminal of a test's own with the built binary in it: every byte that it is sent can be looked at.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cookbook_tui::pty::screen::{HistoryLimit, Screen, Size};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::PATIENCE;

/// What a terminal was sent.
pub(super) struct Seen {
    pub(super) screen: Screen,
    pub(super) bytes: Vec<u8>,
}

/// A terminal with the built binary in it.
pub(super) struct Outside {
    keyboard: File,
    pub(super) seen: Arc<Mutex<Seen>>,
    pub(super) child: Child,
    pub(super) folder: tempfile::TempDir,
}

impl Outside {
    /// Starts it; with `answers` the terminal answers what it is asked, and has kitty's keyboard protocol.
    pub(super) fn new(answers: bool) -> Self {
        Self::with(answers, |_, _| {})
    }

    /// Starts it with other arguments or another environment; `change` is told of the folder of this test.
    pub(super) fn with(answers: bool, change: impl FnOnce(&mut Command, &Path)) -> Self {
        Self::behind(&[], answers, change)
    }

    /// Starts it by another program.
    pub(super) fn behind(starter: &[&str], answers: bool, change: impl FnOnce(&mut Command, &Path)) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = rustix::fs::open(ptsname(&master, Vec::new()).unwrap(), flags, Mode::empty()).unwrap();
        tcsetwinsize(&master, Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let folder = tempfile::Builder::new().prefix("ck").tempdir().unwrap();
        let mut command = Command::new("setsid");
        command.arg("--ctty").args(starter).args([env!("CARGO_BIN_EXE_cookbook-tui"), "--state-dir"]);
        command.arg(folder.path().join("s"));
        command.args(["--tmux-socket", &format!("{}o", folder.path().file_name().unwrap().display())]);
        command.envs([("TERM", "xterm-256color"), ("LC_ALL", "C.UTF-8"), ("SHELL", "/bin/sh"), ("EDITOR", "true")]);
        command.env("HOME", folder.path()).env("XDG_CONFIG_HOME", folder.path().join("c"));
        command.env_remove("TMUX").env_remove("VISUAL").env_remove("ENV").env("PS1", "in-it> ");
        change(&mut command, folder.path());
        let copy = |slave: &OwnedFd| slave.try_clone().unwrap();
        let child = command.stdin(copy(&slave)).stdout(copy(&slave)).stderr(slave).spawn().unwrap();
        let screen = Screen::new(Size::clamped(30, 100), HistoryLimit::default());
        let seen = Arc::new(Mutex::new(Seen { screen, bytes: Vec::new() }));
        let keyboard = File::from(master);
        let (mut display, shared) = (keyboard.try_clone().unwrap(), Arc::clone(&seen));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = display.read(&mut buffer) {
                let mut seen = shared.lock().unwrap();
                seen.bytes.extend_from_slice(&buffer[..count]);
                seen.screen.process(&buffer[..count]);
                let replies = seen.screen.take_replies();
                if answers {
                    display.write_all(&replies).unwrap();
                }
            }
        });
        Self { keyboard, seen, child, folder }
    }

    /// Returns the name of the tmux server of its own.
    pub(super) fn own_socket(&self) -> String {
        format!("{}o", self.folder.path().file_name().unwrap().display())
    }

    pub(super) fn press(&mut self, bytes: &str) {
        self.keyboard.write_all(bytes.as_bytes()).unwrap();
    }

    pub(super) fn text(&self) -> String {
        self.seen.lock().unwrap().screen.lines().join("\n")
    }

    /// Returns where in the bytes each of these begins.
    pub(super) fn places(&self, sequence: &[u8]) -> Vec<usize> {
        let seen = self.seen.lock().unwrap();
        let found = seen.bytes.windows(sequence.len()).enumerate().filter(|(_, window)| *window == sequence);
        found.map(|(at, _)| at).collect()
    }

    pub(super) fn await_that(&self, what: &str, is: impl Fn(&Self) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !is(self) {
            assert!(Instant::now() < until, "{what} does not come:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(super) fn await_text(&self, wanted: &str) {
        self.await_that(wanted, |outside| outside.text().contains(wanted));
    }

    pub(super) fn start_shell(&mut self) {
        self.await_text("No sessions yet");
        self.press("s");
        self.await_text("Start");
        self.await_text("shell");
        // The first one that is offered is the demo.
        self.press("\x1b[B\r");
        self.await_text("running");
        self.press("\r");
        self.await_text("TYPING");
    }

    /// Says yes to a question, which takes no answer in its first moment.
    pub(super) fn confirm(&mut self, question: &str) {
        let until = Instant::now() + PATIENCE;
        while self.text().contains(question) {
            assert!(Instant::now() < until, "it stays:\n{}", self.text());
            self.press("y");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Ends it by the keys, or sees that it has ended.
    pub(super) fn leave(&mut self) {
        self.press("q");
        let until = Instant::now() + PATIENCE;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "it does not end:\n{}", self.text());
            if self.text().contains("Quit") {
                self.press("y");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        Command::new("tmux").args(["-L", &self.own_socket(), "kill-server"]).output().unwrap();
    }
}
