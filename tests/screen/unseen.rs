//! A stop that is held, what is typed into many, bells and output that nobody saw, and what the next run remembers:
//! by the built binary in a real terminal.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Terminal, ends};

fn is_alive(pidfd: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&now)).unwrap() == 0
}

#[test]
fn a_stop_is_held_before_kill_and_let_go_on() {
    let terminal = Terminal::new(140, 40);
    let shell = terminal.stop_a_stubborn_shell();
    terminal.key("H");
    terminal.await_text("held before KILL, for ");
    let held = Instant::now();
    // Its grace is 2 s.
    while held.elapsed() < Duration::from_secs(5) {
        assert!(is_alive(&shell), "{}", terminal.text());
        std::thread::sleep(Duration::from_millis(100));
    }
    terminal.key("H");
    assert!(ends(&shell));
    terminal.await_text("Receipt: shell");
    terminal.key("Escape");
    terminal.await_that("the end of the panel", |text| !text.contains("Receipt: shell"));
    terminal.key("q");
    terminal.await_text("prompt>");
    terminal.assert_restored();
}

#[test]
fn a_stop_that_is_held_goes_on_when_the_screen_goes() {
    let terminal = Terminal::new(80, 24);
    let shell = terminal.stop_a_stubborn_shell();
    terminal.key("H");
    terminal.await_text("held before KILL");
    terminal.key("Escape");
    terminal.await_that("the end of the panel", |text| !text.contains("Stopping: shell"));
    terminal.key("q");
    terminal.await_that("the question or the end", |text| text.contains("Quit") || text.contains("prompt>"));
    terminal.confirm("Quit");
    assert!(ends(&shell));
    terminal.await_text("prompt>");
    terminal.assert_restored();
}

/// Writes what it reads into a file, and rings and prints when a file appears. All but `two` want brackets around a paste.
fn launch(terminal: &Terminal, name: &str) {
    let launched = launching(terminal, name, "tmux").output().unwrap();
    assert!(launched.status.success(), "{launched:?}");
}

/// Returns what launches such a program, and owns it where it is in a PTY.
fn launching(terminal: &Terminal, name: &str, host: &str) -> std::process::Command {
    let place = terminal.folder.path().display();
    let ask = if name == "two" { "" } else { "printf '\\033[?2004h'; " };
    let line = format!(
        "(while [ ! -e {place}/{name}.ring ]; do sleep 0.1; done; printf '\\a'; echo rang) & {ask}echo {name}; exec cat > {place}/{name}.got"
    );
    let own = format!("{}o", terminal.socket);
    let mut launch = std::process::Command::new(env!("CARGO_BIN_EXE_cookbook-tui"));
    launch.arg("--state-dir").arg(terminal.state());
    launch.args(["--tmux-socket", &own, "launch", "--host", host, "--kind", "shell", "--name", name]);
    launch.args(["--", "sh", "-c", &line]);
    launch
}

/// A manager in the foreground, which ends its session with itself.
struct Owner(std::process::Child);

impl Drop for Owner {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).ok();
        self.0.wait().ok();
    }
}

/// Whoever owns a PTY knows whether its program wants brackets.
#[test]
fn a_paste_to_all_is_one_in_the_terminal_of_another_manager() {
    let terminal = Terminal::new(140, 40);
    launch(&terminal, "one");
    let _owners = ["four", "two"].map(|name| {
        let mut launch = launching(&terminal, name, "pty");
        Owner(launch.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    });
    let place = terminal.folder.path().to_owned();
    terminal.start_to("one");
    terminal.await_that("three sessions", |text| ["one", "two", "four"].iter().all(|name| text.contains(name)));
    terminal.key("g");
    terminal.key("Space");
    terminal.key("Space");
    terminal.key("Space");
    terminal.await_text("3 marked");
    // A server of somebody else may stand below them.
    terminal.key("g");
    terminal.await_that("its terminal", |text| text.lines().any(|line| line.contains("│one")));
    terminal.key("B");
    terminal.await_text("BROADCAST to 3");
    let wanted = [("one", BRACKETED), ("four", BRACKETED), ("two", "pasted to all\n\n")];
    paste_to_all(&terminal, &place, wanted);
    assert!(!fs::read_to_string(place.join("two.got")).unwrap().contains("200~"));
    terminal.key("C-\\");
    terminal.await_text("the broadcast has ended");
    terminal.key("q");
    terminal.await_text("prompt>");
    terminal.assert_restored();
}

/// How a program that asks for brackets hears [`paste_to_all`].
const BRACKETED: &str = "\x1b[200~pasted to all\n\x1b[201~\n";

/// Pastes a line, and waits until each of those by their names has heard it so.
#[track_caller]
fn paste_to_all(terminal: &Terminal, place: &Path, wanted: [(&str, &str); 3]) {
    terminal.tmux(&["set-buffer", "pasted to all\n"]);
    terminal.tmux(&["paste-buffer", "-p"]);
    terminal.key("Enter");
    for (name, wanted) in wanted {
        await_file(&place.join(format!("{name}.got")), wanted);
    }
}

fn await_file(path: &Path, wanted: &str) {
    let until = Instant::now() + super::PATIENCE;
    while !fs::read_to_string(path).unwrap_or_default().contains(wanted) {
        assert!(Instant::now() < until, "{} has {:?}", path.display(), fs::read_to_string(path));
        std::thread::sleep(Duration::from_millis(40));
    }
}

#[test]
fn what_nobody_saw_is_marked_typed_into_together_and_remembered() {
    let terminal = Terminal::new(140, 40);
    let names = ["one", "two", "three"];
    for name in names {
        launch(&terminal, name);
    }
    terminal.start_to("three");
    terminal.key("j");
    terminal.key("j");
    terminal.await_that("its terminal", |text| text.lines().any(|line| line.contains("│three")));
    std::thread::sleep(Duration::from_millis(2_200));
    let place = terminal.folder.path().to_owned();
    // The last one is shown; the first rings its bell behind its back.
    fs::write(place.join("one.ring"), "").unwrap();
    terminal.await_that("the bell of a session that is not shown", |text| text.contains("bell (guess)"));
    fs::write(place.join("two.ring"), "").unwrap();
    terminal.await_that("two bells", |text| text.matches("bell (guess)").count() == 2);
    terminal.key("g");
    terminal.key("Space");
    terminal.key("Space");
    terminal.await_text("2 marked");
    terminal.await_that("its terminal", |text| text.lines().any(|line| line.contains("│three")));
    terminal.key("B");
    terminal.await_text("BROADCAST to 3");
    terminal.line("to all of you");
    for name in names {
        await_file(&place.join(format!("{name}.got")), "to all of you");
    }
    // Whether brackets are wanted is known to tmux, also of those that nobody looks at.
    let wanted = [("one", BRACKETED), ("two", "you\npasted to all\n\n"), ("three", BRACKETED)];
    paste_to_all(&terminal, &place, wanted);
    terminal.key("C-\\");
    terminal.await_text("the broadcast has ended");
    terminal.key("Enter");
    terminal.await_text("TYPING");
    terminal.line("to one");
    await_file(&place.join("three.got"), "to one");
    for name in ["one", "two"] {
        assert!(!fs::read_to_string(place.join(format!("{name}.got"))).unwrap().contains("to one"), "{name}");
    }
    terminal.key("C-\\");
    terminal.await_that("the end of typing", |text| !text.contains("TYPING"));
    // The next run begins where this one ended.
    terminal.key("Escape");
    terminal.await_that("the list with the keys", |text| text.starts_with('━'));
    terminal.key("k");
    terminal.key("t");
    terminal.await_that("no tree", |text| !text.contains("Processes"));
    terminal.key("q");
    terminal.await_text("prompt>");
    // The prompt is there before the program has ended.
    await_file(&terminal.state().join("screen.json"), "\"tree\":false");
    terminal.line("clear");
    terminal.start_to("Shells");
    terminal.await_that("the second one's terminal", |text| {
        text.lines().any(|line| line.contains("│two")) && !text.contains("Processes")
    });
    terminal.key("q");
    terminal.await_text("prompt>");
    // It is remembered last of all: the shell has to have its turn again before.
    terminal.line("echo over-$((1 + 1))");
    terminal.await_text("over-2");
    // What is damaged is ignored, and said.
    fs::write(terminal.state().join("screen.json"), "{\"tree\": 3}").unwrap();
    terminal.line("clear");
    terminal.start_to("was ignored");
    terminal.await_text("Processes");
    terminal.key("g");
    for name in names {
        terminal.key("x");
        terminal.await_text("to signal");
        terminal.confirm("Stop: ");
        terminal.await_that(name, |text| text.contains("stopped"));
        terminal.key("f");
        terminal.await_that("it is forgotten", |text| !text.contains("stopped"));
    }
    terminal.key("q");
    terminal.await_text("prompt>");
    terminal.assert_restored();
}
