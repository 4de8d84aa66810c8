//! A person attaches to a session from a smaller terminal while the screen shows it: their terminal decides the
//! size as long as it is attached, and the screen's after that.

use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::{PATIENCE, Terminal, ends};

/// Columns and rows of the only pane on the sessions' own server.
fn size(terminal: &Terminal) -> (u16, u16) {
    let own = format!("{}o", terminal.socket);
    let format = "#{pane_width} #{pane_height}";
    let listed = Command::new("tmux").args(["-L", &own, "list-panes", "-a", "-F", format]).output().unwrap();
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut numbers = text.split_whitespace().map(|number| number.parse().unwrap());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn await_size(terminal: &Terminal, what: &str, is: impl Fn((u16, u16)) -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is(size(terminal)) {
        assert!(Instant::now() < until, "{what}: {:?}\n{}", size(terminal), terminal.text());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a session in tmux, and waits until it runs.
pub(super) fn start_in_tmux(terminal: &Terminal, line: &str) {
    terminal.start_in_tmux(line);
    terminal.await_that("a running session", |text| text.contains("running"));
}

#[test]
fn the_window_is_the_screens_again_when_a_person_has_left() {
    let terminal = Terminal::new(140, 40);
    terminal.start();
    start_in_tmux(&terminal, "exec sh");
    // The list and the divider take the rest.
    await_size(&terminal, "the size of the view", |(cols, rows)| cols == 81 && rows < 40);
    let view = size(&terminal);
    let visitor = Terminal::new(60, 15);
    let state = terminal.state().display().to_string();
    let binary = env!("CARGO_BIN_EXE_cookbook-tui");
    visitor.line(&format!("{binary} --state-dir {state} --tmux-socket {}o attach sh", terminal.socket));
    await_size(&terminal, "the size of the visitor", |size| size == (60, 15));
    // Whatever the screen does meanwhile: the visitor's terminal decides.
    assert!(terminal.tmux(&["resize-window", "-x", "150", "-y", "42"]).status.success());
    terminal.await_that("the larger screen", |text| text.lines().any(|line| line.chars().count() > 140));
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(size(&terminal), (60, 15), "{}", terminal.text());
    assert!(terminal.tmux(&["resize-window", "-x", "140", "-y", "40"]).status.success());
    visitor.key("C-b");
    visitor.key("d");
    visitor.await_text("prompt>");
    await_size(&terminal, "the size of the view again", |size| size == view);
    // And again, past us: tmux itself lets the one who attached decide.
    visitor.line(&format!("tmux -L {}o attach", terminal.socket));
    await_size(&terminal, "the size of the visitor", |size| size == (60, 15));
    drop(visitor);
    await_size(&terminal, "the size of the view after a terminal was closed", |size| size == view);
}

/// Returns the clients of the sessions' own server.
pub(super) fn clients(terminal: &Terminal) -> Vec<Pid> {
    let own = format!("{}o", terminal.socket);
    let listed = Command::new("tmux").args(["-L", &own, "list-clients", "-F", "#{client_pid}"]).output().unwrap();
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect()
}

/// Killed while it had not read everything that a session printed: a client whose output nobody takes cannot
/// leave by itself.
#[test]
fn a_killed_screen_leaves_no_client_behind() {
    let terminal = Terminal::new(140, 40);
    terminal.start();
    start_in_tmux(&terminal, "while :; do seq 1 2000; done");
    let until = Instant::now() + PATIENCE;
    while clients(&terminal).is_empty() {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(20));
    }
    let held: Vec<OwnedFd> = clients(&terminal).into_iter().map(hold).collect();
    assert_eq!(held.len(), 1);
    let screens: Vec<OwnedFd> = terminal.screens().into_iter().map(hold).collect();
    assert_eq!(screens.len(), 2);
    for (signal, pause) in [(Signal::STOP, 1), (Signal::KILL, 0)] {
        for screen in &screens {
            pidfd_send_signal(screen, signal).unwrap();
        }
        std::thread::sleep(Duration::from_secs(pause));
    }
    assert!(screens.iter().all(ends) && held.iter().all(ends));
    let until = Instant::now() + PATIENCE;
    while !clients(&terminal).is_empty() {
        assert!(Instant::now() < until, "its session still counts it as attached");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(super) fn hold(pid: Pid) -> OwnedFd {
    pidfd_open(pid, PidfdFlags::empty()).unwrap()
}

/// Two sessions on one server: who attaches to one is shown that one.
#[test]
fn the_session_that_was_named_is_attached_to() {
    let terminal = Terminal::new(100, 30);
    let own = format!("{}o", terminal.socket);
    let state = terminal.state().display().to_string();
    let base = format!("{} --state-dir {state} --tmux-socket {own}", env!("CARGO_BIN_EXE_cookbook-tui"));
    for name in ["first", "second", "third"] {
        let script = format!("echo this is the {name}; exec sleep 1000");
        terminal.line(&format!(
            "{base} launch --host tmux --kind shell --name {name} -- sh -c '{script}' > /dev/null; echo $?-{name}"
        ));
        terminal.await_text(&format!("0-{name}"));
    }
    terminal.line(&format!("clear; {base} attach second"));
    terminal.await_that("the second one", |text| {
        text.contains("this is the second") && !text.contains("first") && !text.contains("third")
    });
}

/// While a tmux server answers nobody, nobody can tell how its sessions are, and the screen says so.
#[test]
fn a_server_that_is_stopped_is_shown() {
    let terminal = Terminal::new(140, 40);
    terminal.start();
    start_in_tmux(&terminal, "exec sh");
    let own = format!("{}o", terminal.socket);
    let named = Command::new("tmux").args(["-L", &own, "display-message", "-p", "#{pid}"]).output().unwrap();
    let server = hold(Pid::from_raw(String::from_utf8(named.stdout).unwrap().trim().parse().unwrap()).unwrap());
    pidfd_send_signal(&server, Signal::STOP).unwrap();
    terminal.await_that("that nobody can tell", |text| text.contains("unverifiable") && text.contains("kill -CONT"));
    pidfd_send_signal(&server, Signal::CONT).unwrap();
    terminal.await_that("that it runs", |text| text.contains("running") && !text.contains("unverifiable"));
}
