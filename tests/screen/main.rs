//! The screen in a real terminal: the built binary inside a real tmux, driven by keys at three sizes.
//!
//! tmux is only the terminal here, on a private socket that each test ends. Deaths are seen by pidfds that
//! the test holds.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests hold their own oracles")]

mod adopted;
mod attach;
mod attention;
mod autostart;
mod clipboard;
mod cut;
mod demo;
mod finding;
mod form;
mod history;
mod kept;
mod kitty;
mod live;
mod marks;
mod orphans;
mod outside;
mod pictures;
mod programs;
mod raw;
mod remote;
mod soak;
mod strangers;
mod unseen;
mod walk;
mod why;

use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

const PATIENCE: Duration = Duration::from_secs(25);

/// A terminal of some size with a shell in it.
struct Terminal {
    socket: String,
    folder: tempfile::TempDir,
}

impl Terminal {
    fn new(cols: u16, rows: u16) -> Self {
        let folder = tempfile::Builder::new().prefix("cs").tempdir().unwrap();
        let socket = folder.path().file_name().unwrap().to_str().unwrap().to_owned();
        let terminal = Self { socket, folder };
        let size = [cols.to_string(), rows.to_string()];
        // No start-up file of anybody: what a person's shell does first is not what is tested.
        let shell = "env -u TMUX -u ENV LC_ALL=C.UTF-8 SHELL=/bin/sh sh";
        let made = terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &size[0], "-y", &size[1], shell]);
        assert!(made.status.success(), "{made:?}");
        // Not exported: the sessions have prompts of their own.
        terminal.line("PS1='prompt'; PS1=\"$PS1> \"");
        terminal.await_text("prompt>");
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        let mut tmux = Command::new("tmux");
        tmux.args(["-u", "-L", &self.socket]).args(arguments);
        tmux.env("LC_ALL", "C.UTF-8").env("TERM", "xterm-256color").output().unwrap()
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    /// Starts the screen and waits for its first words.
    fn start(&self) {
        self.start_to("No sessions yet");
    }

    /// Starts the screen and waits until it shows a text.
    fn start_to(&self, wanted: &str) {
        let state = self.state();
        let own = format!("{}o", self.socket);
        let line =
            format!("{} --state-dir {} --tmux-socket {own}", env!("CARGO_BIN_EXE_cookbook-tui"), state.display());
        self.line(&line);
        self.await_text(wanted);
    }

    /// Confirms the preview with this title: asked again until it has been on the screen and counts.
    fn confirm(&self, title: &str) {
        let until = Instant::now() + PATIENCE;
        while self.text().contains(title) {
            assert!(Instant::now() < until, "{}", self.text());
            self.key("y");
            std::thread::sleep(Duration::from_millis(150));
        }
    }

    fn key(&self, key: &str) {
        assert!(self.tmux(&["send-keys", key]).status.success());
    }

    fn line(&self, text: &str) {
        assert!(self.tmux(&["send-keys", "-l", text]).status.success());
        self.key("Enter");
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p"]).stdout).into_owned()
    }

    fn await_text(&self, wanted: &str) {
        self.await_that(wanted, |text| text.contains(wanted));
    }

    fn await_that(&self, what: &str, is: impl Fn(&str) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !is(&self.text()) {
            assert!(Instant::now() < until, "{what} does not come:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(40));
        }
    }

    /// Types a command into the start box, for a session in tmux.
    fn start_in_tmux(&self, line: &str) {
        self.key("s");
        self.await_text("Start");
        self.key(":");
        self.await_text("A command for sh -c");
        self.key("Down");
        self.key("Down");
        self.await_text("host tmux");
        self.line(line);
    }

    /// Starts the built-in shell and returns a pidfd of it.
    fn start_shell(&self) -> OwnedFd {
        self.key("s");
        self.await_text("shell");
        self.await_text("Start");
        // The first one that is offered is the demo.
        self.key("Down");
        self.key("Enter");
        self.await_that("a running shell", |text| text.contains("running"));
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(pid) = self.workloads().first() {
                return pidfd_open(*pid, PidfdFlags::empty()).unwrap();
            }
            assert!(Instant::now() < until, "no record");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Begins to stop the built-in shell, which is made deaf to all but KILL, and returns a pidfd of it.
    fn stop_a_stubborn_shell(&self) -> OwnedFd {
        self.start();
        let shell = self.start_shell();
        self.key("Enter");
        self.await_text("TYPING");
        self.line("trap '' HUP TERM; echo stub''born");
        self.await_text("stubborn");
        self.key("C-\\");
        self.await_that("the end of typing", |text| !text.contains("TYPING"));
        self.key("x");
        self.await_text("to signal");
        self.confirm("Stop: shell");
        self.await_text("Stopping: shell");
        shell
    }

    /// Returns the workloads that are on record.
    fn workloads(&self) -> Vec<Pid> {
        let entries = fs::read_dir(self.state().join("sessions")).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "json"));
        let pid = |path: PathBuf| {
            let record: serde_json::Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
            Pid::from_raw(i32::try_from(record["workload"]["pid"].as_i64()?).ok()?)
        };
        paths.filter_map(pid).collect()
    }

    /// Returns the screen's processes: the parent that the shell knows, and the cockpit itself.
    fn screens(&self) -> Vec<Pid> {
        let mark = self.state().display().to_string();
        let listed = Command::new("ps").args(["-A", "-ww", "-o", "pid=,args="]).output().unwrap();
        let text = String::from_utf8_lossy(&listed.stdout).into_owned();
        let ours = text.lines().filter(|line| line.contains(&mark) && line.contains("--tmux-socket"));
        let pid = |line: &str| Pid::from_raw(line.split_whitespace().next()?.parse().ok()?);
        ours.filter_map(pid).collect()
    }

    /// Counts the children of the screen's processes that have ended and were not reaped.
    fn zombies(&self) -> usize {
        let count = |parent: Pid| {
            let parent = parent.as_raw_nonzero().to_string();
            let listed = Command::new("ps").args(["-o", "stat=", "--ppid", &parent]).output().unwrap();
            String::from_utf8_lossy(&listed.stdout).lines().filter(|state| state.starts_with('Z')).count()
        };
        self.screens().into_iter().map(count).sum()
    }

    /// The shell answers, its terminal echoes and edits lines again, and is not the alternate screen.
    fn assert_restored(&self) {
        self.line("stty -a | tr ' ' '\\n' | grep -cx -e icanon -e echo -e isig");
        self.await_that("a sane terminal", |text| {
            text.lines().any(|line| line.trim_start_matches("prompt> ").trim() == "3")
        });
        let alternate = self.tmux(&["display-message", "-p", "#{alternate_on}#{mouse_any_flag}"]);
        assert_eq!(String::from_utf8_lossy(&alternate.stdout).trim(), "00");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
        Command::new("tmux").args(["-L", &format!("{}o", self.socket), "kill-server"]).output().unwrap();
    }
}

fn ends(pidfd: &OwnedFd) -> bool {
    let patience = Timespec { tv_sec: i64::try_from(PATIENCE.as_secs()).unwrap(), tv_nsec: 0 };
    matches!(poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&patience)), Ok(1))
}

fn check_a_whole_visit(cols: u16, rows: u16) {
    let terminal = Terminal::new(cols, rows);
    terminal.start();
    let shell = terminal.start_shell();
    terminal.key("Enter");
    terminal.await_text("TYPING");
    terminal.line("echo answer-$((40 + 2)) 模型");
    terminal.await_text("answer-42 模型");
    terminal.key("C-\\");
    terminal.await_that("the end of typing", |text| !text.contains("TYPING"));
    terminal.key("x");
    terminal.await_text("Stop: shell");
    terminal.await_that("the plan", |text| text.contains("signalled") || text.contains("to signal"));
    terminal.confirm("Stop: shell");
    assert!(ends(&shell));
    terminal.await_that("the word that it ended", |text| {
        text.contains("HUP") || text.contains("stopped") || text.contains("ended")
    });
    let until = Instant::now() + PATIENCE;
    while terminal.zombies() > 0 {
        assert!(Instant::now() < until, "a child that has ended is never reaped");
        std::thread::sleep(Duration::from_millis(100));
    }
    terminal.key("q");
    terminal.await_text("prompt>");
    terminal.assert_restored();
}

#[test]
fn a_whole_visit_at_140x40() {
    check_a_whole_visit(140, 40);
}

#[test]
fn a_whole_visit_at_80x24() {
    check_a_whole_visit(80, 24);
}

#[test]
fn a_whole_visit_at_60x15() {
    check_a_whole_visit(60, 15);
}

/// A signal ends the screen, restores the terminal, and takes the PTY sessions along.
fn check_signal(name: &str) {
    let terminal = Terminal::new(100, 30);
    terminal.start();
    let shell = terminal.start_shell();
    let known = terminal.screens().into_iter().min_by_key(|pid| pid.as_raw_nonzero()).unwrap();
    let sent = Command::new("kill").args([&format!("-{name}"), &known.as_raw_nonzero().to_string()]).status().unwrap();
    assert!(sent.success());
    terminal.await_text("prompt>");
    assert!(ends(&shell), "{name}");
    terminal.assert_restored();
}

#[test]
fn a_signal_ends_it_and_restores_the_terminal() {
    check_signal("TERM");
    check_signal("HUP");
}

#[test]
fn it_ends_with_its_terminal() {
    let terminal = Terminal::new(100, 30);
    terminal.start();
    let shell = terminal.start_shell();
    let screens: Vec<OwnedFd> =
        terminal.screens().into_iter().filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()).collect();
    assert_eq!(screens.len(), 2);
    terminal.tmux(&["kill-server"]);
    assert!(screens.iter().all(ends) && ends(&shell));
}

#[test]
fn a_suspended_screen_holds_up_no_session() {
    let terminal = Terminal::new(100, 30);
    terminal.start();
    let _shell = terminal.start_shell();
    terminal.key("Enter");
    terminal.await_text("TYPING");
    // More than a pseudo-terminal holds, again and again, with a mark after each round.
    let rounds = terminal.folder.path().join("rounds");
    terminal.line(&format!("while :; do seq 1 20000; echo x >> {}; done", rounds.display()));
    let count = || fs::read(&rounds).map_or(0, |text| text.len());
    let until = Instant::now() + PATIENCE;
    while count() == 0 {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(20));
    }
    terminal.key("C-\\");
    terminal.await_that("the end of typing", |text| !text.contains("TYPING"));
    terminal.key("Z");
    terminal.await_text("prompt>");
    terminal.assert_restored();
    let before = count();
    while count() < before + 20 {
        assert!(Instant::now() < until, "it stands still while suspended");
        std::thread::sleep(Duration::from_millis(20));
    }
    terminal.line("fg");
    terminal.await_text("Sessions");
    terminal.key("q");
    let until = Instant::now() + PATIENCE;
    while !terminal.text().contains("prompt>") || terminal.text().contains("Sessions") {
        assert!(Instant::now() < until, "{}", terminal.text());
        terminal.key("y");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Two pasted lines are seen as two, start nothing by themselves, and run as two.
#[test]
fn a_pasted_script_stays_a_script() {
    let terminal = Terminal::new(100, 30);
    terminal.start();
    terminal.key("s");
    terminal.await_text("Start");
    terminal.key(":");
    terminal.await_text("A command for sh -c");
    terminal.tmux(&["set-buffer", "echo first-$((1 + 1))\necho second-$((1 + 2)); read -r line\n"]);
    // As a terminal pastes: in brackets where they were asked for, with CR for line ends.
    assert!(terminal.tmux(&["paste-buffer", "-p"]).status.success());
    terminal.await_text("2 lines: sh runs them as a script");
    terminal.await_text("↵echo second");
    assert_eq!(terminal.workloads(), [], "nothing was started yet");
    terminal.key("Enter");
    terminal.await_that("the output of both lines", |text| text.contains("first-2") && text.contains("second-3"));
}
