//! A session that somebody else has launched, on the screen: watched, typed into and stopped, and never resized.

use std::os::fd::OwnedFd;
use std::process::{Command, Output};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{Terminal, ends};

impl Terminal {
    /// Asks the server whose sessions the screen shows.
    pub(super) fn theirs(&self, arguments: &[&str]) -> Output {
        let mut tmux = Command::new("tmux");
        tmux.args(["-u", "-L", &format!("{}o", self.socket)]).args(arguments);
        tmux.env("LC_ALL", "C.UTF-8").env("TERM", "xterm-256color").env_remove("TMUX").output().unwrap()
    }

    #[track_caller]
    pub(super) fn ask(&self, arguments: &[&str]) -> String {
        let output = self.theirs(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

impl Terminal {
    /// Makes a session of somebody else's, adopts it, and returns a pidfd of what runs in it.
    pub(super) fn adopt(&self) -> OwnedFd {
        let shell = "env PS1=theirs-in-it: SHELL=/bin/sh sh";
        self.ask(&["-f", "/dev/null", "new-session", "-d", "-s", "main", "-x", "61", "-y", "17", shell]);
        let pid: i32 = self.ask(&["list-panes", "-t", "=main:", "-F", "#{pane_pid}"]).parse().unwrap();
        let theirs = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap();
        let own = format!("{}o", self.socket);
        let mut adopt = Command::new(env!("CARGO_BIN_EXE_cookbook-tui"));
        adopt.arg("--state-dir").arg(self.state()).args(["--tmux-socket", &own, "adopt", "main", "--socket", &own]);
        let adopted = adopt.env_remove("TMUX").output().unwrap();
        assert!(adopted.status.success(), "{adopted:?}");
        theirs
    }

    /// Returns the sizes and the options of what was adopted.
    pub(super) fn shape(&self) -> (String, Vec<String>) {
        let windows =
            ["list-windows", "-t=main:", "-F", "#{window_id} #{window_width}x#{window_height} #{window_layout}"];
        let options = [["show-options", "-g"], ["show-options", "-t=main:"], ["show-options", "-wt=main:"]];
        (self.ask(&windows), options.iter().map(|words| self.ask(words)).collect())
    }
}

#[test]
fn a_session_of_others_is_watched_as_it_is() {
    let terminal = Terminal::new(140, 40);
    let theirs = terminal.adopt();
    let shape = || terminal.shape();
    let before = shape();
    terminal.start_to(" ◦ running");
    terminal.await_text("theirs-in-it:");
    terminal.key("Enter");
    terminal.await_text("TYPING");
    terminal.line("echo answer-$((40 + 2))");
    terminal.await_text("answer-42");
    assert_eq!(shape(), before, "it was only watched");
    terminal.key("C-\\");
    terminal.await_that("the end of typing", |text| !text.contains("TYPING"));
    terminal.await_text("no warden");
    terminal.key("x");
    terminal.await_text("Stop: main");
    terminal.await_that("the plan", |text| text.contains("signalled") || text.contains("to signal"));
    assert_eq!(shape(), before, "it was only looked at");
    terminal.confirm("Stop: main");
    assert!(ends(&theirs));
    terminal.await_that("its end", |text| text.contains("◦ stopped") && text.contains("no processes are left"));
    terminal.key("q");
    terminal.await_text("prompt>");
}

/// It has no log of ours; its server is asked, and nothing of it is changed.
#[test]
fn what_others_print_and_that_they_have_ended_is_marked_until_it_is_looked_at() {
    let terminal = Terminal::new(140, 40);
    let theirs = terminal.adopt();
    terminal.start_to(" ◦ running");
    terminal.await_text("theirs-in-it:");
    let before = terminal.shape();
    // A session of ours has the screen from now on.
    drop(terminal.start_shell());
    let marked = |text: &str, mark: char| text.lines().any(|line| line.contains("main") && line.contains(mark));
    std::thread::sleep(Duration::from_secs(3));
    assert!(!marked(&terminal.text(), '◆'), "nothing was printed since:\n{}", terminal.text());
    terminal.ask(&["send-keys", "-t", "=main:", "echo unseen-$((40 + 2))", "Enter"]);
    terminal.await_that("the mark of output", |text| marked(text, '◆'));
    assert_eq!(terminal.shape(), before);
    terminal.key("j");
    terminal.await_text("unseen-42");
    terminal.await_that("the end of the mark", |text| !marked(text, '◆'));
    // What is printed while somebody looks is seen.
    terminal.ask(&["send-keys", "-t", "=main:", "echo watched-$((40 + 2))", "Enter"]);
    terminal.await_text("watched-42");
    terminal.key("g");
    terminal.await_that("the other one", |text| !text.contains("watched-42"));
    std::thread::sleep(Duration::from_secs(4));
    assert!(!marked(&terminal.text(), '◆'), "{}", terminal.text());
    assert_eq!(terminal.shape(), before);
    terminal.ask(&["send-keys", "-t", "=main:", "exit", "Enter"]);
    assert!(ends(&theirs));
    terminal.await_that("the mark of its end", |text| marked(text, '■'));
    std::thread::sleep(Duration::from_secs(3));
    assert!(marked(&terminal.text(), '■'), "it stays until somebody looks:\n{}", terminal.text());
    terminal.key("j");
    terminal.await_that("the end of that mark", |text| !marked(text, '■'));
    terminal.key("q");
    terminal.await_that("the question or the end", |text| text.contains("Quit") || text.contains("prompt>"));
    terminal.confirm("Quit");
    terminal.await_text("prompt>");
}
