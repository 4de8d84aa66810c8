//! A session writes the clipboard of the terminal outside only while somebody types into it.

use std::time::{Duration, Instant};

use super::{PATIENCE, Terminal};

/// What the terminal outside has on its clipboard: tmux keeps it in a buffer.
fn clipboard(terminal: &Terminal) -> String {
    String::from_utf8_lossy(&terminal.tmux(&["show-buffer"]).stdout).into_owned()
}

pub(super) fn await_clipboard(terminal: &Terminal, wanted: &str) {
    let until = Instant::now() + PATIENCE;
    while clipboard(terminal) != wanted {
        assert!(Instant::now() < until, "{:?} is on the clipboard\n{}", clipboard(terminal), terminal.text());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A line that puts text on the clipboard, as a program would.
fn copies(text: &str) -> String {
    format!("printf '\\033]52;c;%s\\007' \"$(printf %s {text} | base64)\"")
}

fn check(start: impl Fn(&Terminal)) {
    let terminal = Terminal::new(140, 40);
    terminal.tmux(&["set-option", "-s", "set-clipboard", "on"]);
    terminal.start();
    start(&terminal);
    terminal.await_that("a running session", |text| text.contains("running"));
    terminal.key("Enter");
    terminal.await_text("TYPING");
    terminal.line(&copies("focused"));
    await_clipboard(&terminal, "focused");
    terminal.await_text("copied 7 bytes to the clipboard");
    // A question is answered by nobody: the next line is read as it was typed.
    terminal.line("printf '\\033]52;c;?\\007'; sleep 0.3; read -r line; echo \"read<$line>\"");
    std::thread::sleep(Duration::from_millis(600));
    terminal.line("typed");
    terminal.await_text("read<typed>");
    let mark = terminal.folder.path().join("mark");
    terminal.line(&format!("sleep 1; {}; echo > {}", copies("behind"), mark.display()));
    terminal.key("C-\\");
    terminal.await_that("the end of typing", |text| !text.contains("TYPING"));
    let until = Instant::now() + PATIENCE;
    while !mark.exists() {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(20));
    }
    // Nor does it come when the focus does.
    terminal.key("Enter");
    terminal.await_text("TYPING");
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(clipboard(&terminal), "focused");
    terminal.line(&copies("again"));
    await_clipboard(&terminal, "again");
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
