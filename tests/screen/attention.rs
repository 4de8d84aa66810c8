//! Who asks for a person is marked in the list, and somebody who looks elsewhere is told by the terminal outside.

use std::fs;
use std::time::{Duration, Instant};

use super::{PATIENCE, Terminal};

/// What the screen asks a terminal to say.
const SAYS: &str = "\u{1b}]9;cookbook-tui: ";

fn check(start: impl Fn(&Terminal)) {
    let terminal = Terminal::new(140, 40);
    let written = terminal.folder.path().join("written");
    let pipe = format!("cat > {}", written.display());
    assert!(terminal.tmux(&["pipe-pane", &pipe]).status.success());
    terminal.start();
    start(&terminal);
    terminal.await_that("a running session", |text| text.contains("running"));
    terminal.key("Enter");
    terminal.await_text("TYPING");
    terminal.line("sleep 3; printf '\\a'");
    // As a terminal tells that it has lost the focus, on the way to another window.
    assert!(terminal.tmux(&["send-keys", "-l", "\u{1b}[O"]).status.success());
    terminal.await_text("bell (guess)");
    terminal.await_text("wants you: bell (a guess)");
    let said = || String::from_utf8_lossy(&fs::read(&written).unwrap_or_default()).into_owned();
    let until = Instant::now() + PATIENCE;
    while !said().contains("bell (a guess)\u{7}") {
        assert!(Instant::now() < until, "{:?}", said());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(said().matches(SAYS).count(), 1);
    // Somebody is back, and types: it is answered. What the agent says then is marked, and said to nobody else.
    assert!(terminal.tmux(&["send-keys", "-l", "\u{1b}[I"]).status.success());
    terminal.line("true");
    terminal.await_that("an answer", |text| !text.contains("bell (guess)"));
    terminal.line(&format!("{} notify --state waiting --message 'may I?'", env!("CARGO_BIN_EXE_cookbook-tui")));
    terminal.await_text("! waiting");
    terminal.await_text("wants you: waiting: may I?");
    terminal.key("Enter");
    terminal.await_that("an answer", |text| !text.contains("! waiting"));
    assert_eq!(said().matches(SAYS).count(), 1, "they look here");
    terminal.key("C-\\");
    terminal.await_that("the end of typing", |text| !text.contains("TYPING"));
}

#[test]
fn of_a_session_in_a_pty() {
    check(|terminal| drop(terminal.start_shell()));
}

#[test]
fn of_a_session_in_tmux() {
    check(|terminal| terminal.start_in_tmux("exec sh"));
}
