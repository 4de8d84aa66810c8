//! Looking back in a real terminal: search, copy, the mouse, the editor.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::Terminal;
use super::clipboard::await_clipboard;

fn shell_with_text(terminal: &Terminal) {
    terminal.tmux(&["set-option", "-s", "set-clipboard", "on"]);
    // An editor that shows that it has the terminal, and keeps what it was given.
    let editor = terminal.folder.path().join("editor");
    let kept = terminal.folder.path().join("kept");
    let script = format!("#!/bin/sh\ncp \"$2\" {}\nclear\necho EDITING $1\nread -r line\n", kept.display());
    fs::write(&editor, script).unwrap();
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o700)).unwrap();
    terminal.line(&format!("unset VISUAL; export EDITOR='{} flag'", editor.display()));
    terminal.start();
    drop(terminal.start_shell());
    terminal.key("Enter");
    terminal.await_text("TYPING");
    terminal.line("for i in $(seq 1 200); do echo entry-$i; done; printf 'w%0200d-end\\n' 7; echo all-$((40 + 2))");
    terminal.await_text("all-42");
    terminal.key("C-\\");
    terminal.await_that("the end of typing", |text| !text.contains("TYPING"));
    // From the list to the terminal: `/` searches it.
    terminal.key("Tab");
}

fn check(cols: u16, rows: u16) {
    let terminal = Terminal::new(cols, rows);
    shell_with_text(&terminal);
    terminal.key("/");
    terminal.await_text("paused");
    terminal.tmux(&["send-keys", "-l", "^entry-1\\d\\d$"]);
    terminal.await_text("100 of 100");
    terminal.key("Enter");
    terminal.key("N");
    terminal.await_text("99 of 100");
    terminal.await_text("entry-198");
    terminal.key("y");
    await_clipboard(&terminal, "entry-198");
    terminal.await_text("copied 1 line");
    // A line that the terminal wrapped is one line.
    terminal.key("/");
    terminal.await_text("paused");
    terminal.tmux(&["send-keys", "-l", "w0+7-end"]);
    terminal.await_text("1 of 1");
    for key in ["Enter", "v", "j", "j", "j", "j", "j", "$", "y"] {
        terminal.key(key);
    }
    terminal.await_that("a copy", |text| text.contains("copied") && !text.contains("paused"));
    let copied = String::from_utf8_lossy(&terminal.tmux(&["show-buffer"]).stdout).into_owned();
    assert_eq!(copied.lines().next(), Some(format!("w{:0200}-end", 7).as_str()), "{copied:?}");
    // The editor has the terminal for as long as it runs.
    terminal.key("[");
    terminal.await_text("paused");
    terminal.key("e");
    terminal.await_text("EDITING flag");
    assert!(!terminal.text().contains("Sessions"));
    let text = fs::read_to_string(terminal.folder.path().join("kept")).unwrap();
    assert!(text.contains("\nentry-1\n") && text.contains(&format!("\nw{:0200}-end\n", 7)), "{text}");
    terminal.key("Enter");
    terminal.await_that("the screen again", |text| text.contains("paused") && !text.contains("EDITING"));
    terminal.key("Escape");
    terminal.await_that("the live screen", |text| !text.contains("paused"));
    terminal.key("q");
    terminal.await_text("These sessions end");
    terminal.confirm("These sessions end");
    terminal.await_text("prompt>");
    terminal.assert_restored();
}

#[test]
fn text_is_found_and_copied_at_140x40() {
    check(140, 40);
}

#[test]
fn text_is_found_and_copied_at_80x24() {
    check(80, 24);
}

#[test]
fn dragging_the_mouse_copies() {
    let terminal = Terminal::new(140, 40);
    shell_with_text(&terminal);
    let text = terminal.text();
    let (row, line) =
        text.lines().enumerate().find(|(_, line)| line.contains("all-42") && !line.contains("echo")).unwrap();
    let column = line.split("all-42").next().unwrap().chars().count();
    // As a terminal tells of the mouse (SGR): rows and columns from 1.
    let mouse = |button: u8, at: usize, end: char| {
        let sequence = format!("\x1b[<{button};{};{}{end}", at + 1, row + 1);
        let hex: Vec<String> = sequence.bytes().map(|byte| format!("{byte:02x}")).collect();
        let mut arguments = vec!["send-keys", "-H"];
        arguments.extend(hex.iter().map(String::as_str));
        assert!(terminal.tmux(&arguments).status.success());
    };
    mouse(0, column, 'M');
    mouse(32, column + 3, 'M');
    terminal.await_text("paused");
    mouse(32, column + 5, 'M');
    mouse(0, column + 5, 'm');
    await_clipboard(&terminal, "all-42");
}

/// What a session in tmux has left is seen whole, however wide its window was, and a line of it copied as one.
#[test]
fn what_is_left_in_tmux_is_wrapped_and_copied_as_a_line() {
    let terminal = Terminal::new(140, 40);
    terminal.tmux(&["set-option", "-s", "set-clipboard", "on"]);
    let text = format!("begins {}界面 ends", "with words ".repeat(10));
    let program = format!(
        "{} --state-dir {} --tmux-socket {}o",
        env!("CARGO_BIN_EXE_cookbook-tui"),
        terminal.state().display(),
        terminal.socket
    );
    // As wide as this terminal: wider than the pane that shows it.
    terminal.line(&format!("{program} launch --host tmux --kind serve --name left -- sh -c 'echo {text}; exit 3'"));
    terminal.await_text("serve-");
    terminal.start_to("exit 3");
    terminal.await_that("the end of the line", |shown| shown.contains("│begins with") && shown.contains("界面 ends"));
    assert!(!terminal.text().contains(&text), "it is wrapped:\n{}", terminal.text());
    terminal.key("[");
    terminal.await_text("paused");
    terminal.key("/");
    terminal.tmux(&["send-keys", "-l", "begins"]);
    terminal.await_text("1 of 1");
    terminal.key("Enter");
    terminal.key("V");
    terminal.key("y");
    await_clipboard(&terminal, &text);
    terminal.key("q");
    terminal.await_text("prompt>");
    terminal.assert_restored();
}
