//! The filter of the list and the command palette, by keys.

use super::Terminal;

/// Starts a session with a name by the command line of the screen's own program.
pub(super) fn launch(terminal: &Terminal, name: &str) {
    let own = format!("{}o", terminal.socket);
    let launched = std::process::Command::new(env!("CARGO_BIN_EXE_cookbook-tui"))
        .arg("--state-dir")
        .arg(terminal.state())
        .args([
            "--tmux-socket",
            &own,
            "launch",
            "--host",
            "tmux",
            "--kind",
            "shell",
            "--name",
            name,
            "--",
            "sleep",
            "1000",
        ])
        .output()
        .unwrap();
    assert!(launched.status.success(), "{launched:?}");
}

fn check(cols: u16, rows: u16) {
    let terminal = Terminal::new(cols, rows);
    for name in ["alpha", "beta", "gamma"] {
        launch(&terminal, name);
    }
    terminal.start_to("gamma");
    terminal.key("/");
    terminal.key("b");
    terminal.key("t");
    terminal.await_that("only what matches", |text| {
        text.contains("1 of 3") && text.contains("beta") && !text.contains("gamma")
    });
    terminal.key("Enter");
    terminal.key("Escape");
    terminal.await_text("gamma");
    // By its words, and by its name.
    terminal.key(":");
    terminal.await_text("type into");
    terminal.tmux(&["send-keys", "-l", "how this host"]);
    terminal.await_that("the one command", |text| text.contains("how this host") && !text.contains("type into"));
    terminal.key("Enter");
    terminal.await_text("Doctor");
    terminal.key("Escape");
    terminal.await_that("the panes", |text| !text.contains("Doctor"));
    terminal.key(":");
    terminal.await_text("type into");
    terminal.tmux(&["send-keys", "-l", "alp"]);
    terminal.await_that("the one session", |text| text.contains("▌ go to       alpha"));
    terminal.key("Enter");
    terminal.await_that("alpha as selected", |text| {
        text.lines().any(|line| line.starts_with('▌') && line.contains("alpha"))
    });
    // A group that is folded is one line.
    terminal.key("-");
    terminal.await_that("a folded group", |text| {
        text.contains("▌Shells 3 …") && !text.lines().any(|line| line.starts_with(" ●"))
    });
    terminal.key("-");
    terminal.await_that("all of it", |text| text.lines().any(|line| line.contains("gamma")));
    terminal.key("q");
    terminal.await_text("prompt>");
    terminal.assert_restored();
}

#[test]
fn sessions_and_commands_are_found_at_140x40() {
    check(140, 40);
}

#[test]
fn sessions_and_commands_are_found_at_60x15() {
    check(60, 15);
}
