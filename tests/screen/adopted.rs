//! A session that somebody else has launched, on the screen: watched, typed into and stopped, and never resized.

use std::process::{Command, Output};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{Terminal, ends};

impl Terminal {
    /// Asks the server whose sessions the screen shows.
    fn theirs(&self, arguments: &[&str]) -> Output {
        let mut tmux = Command::new("tmux");
        tmux.args(["-u", "-L", &format!("{}o", self.socket)]).args(arguments);
        tmux.env("LC_ALL", "C.UTF-8").env("TERM", "xterm-256color").env_remove("TMUX").output().unwrap()
    }

    #[track_caller]
    fn ask(&self, arguments: &[&str]) -> String {
        let output = self.theirs(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

#[test]
fn a_session_of_others_is_watched_as_it_is() {
    let terminal = Terminal::new(140, 40);
    let shell = "env PS1=theirs-in-it: SHELL=/bin/sh sh";
    terminal.ask(&["-f", "/dev/null", "new-session", "-d", "-s", "main", "-x", "61", "-y", "17", shell]);
    let pid: i32 = terminal.ask(&["list-panes", "-t", "=main:", "-F", "#{pane_pid}"]).parse().unwrap();
    let theirs = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap();
    let own = format!("{}o", terminal.socket);
    let mut adopt = Command::new(env!("CARGO_BIN_EXE_cookbook-tui"));
    adopt.arg("--state-dir").arg(terminal.state()).args(["--tmux-socket", &own, "adopt", "main", "--socket", &own]);
    let adopted = adopt.env_remove("TMUX").output().unwrap();
    assert!(adopted.status.success(), "{adopted:?}");
    let shape = || {
        let windows = ["list-windows", "-a", "-F", "#{window_id} #{window_width}x#{window_height} #{window_layout}"];
        let options = [["show-options", "-g"], ["show-options", "-t=main:"], ["show-options", "-wt=main:"]];
        let options: Vec<String> = options.iter().map(|words| terminal.ask(words)).collect();
        (terminal.ask(&windows), options)
    };
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
    terminal.await_that("its end", |text| text.contains("exited") && text.contains("no processes are left"));
    terminal.key("q");
    terminal.await_text("prompt>");
}
