//! A stop that takes its time is seen as it goes: the signal, the countdown, KILL.

use super::{Terminal, ends};

#[test]
fn a_stubborn_process_is_seen_on_its_way_to_kill() {
    let terminal = Terminal::new(140, 40);
    let shell = terminal.stop_a_stubborn_shell();
    terminal.await_that("the signals and the countdown", |text| {
        text.contains("0 of 1 gone   KILL in") && text.contains("signalled HUP")
    });
    assert!(ends(&shell));
    terminal.await_that("the receipt in its place", |text| {
        text.contains("Receipt: shell") && !text.contains("Stopping: shell")
    });
    terminal.key("Escape");
    terminal.await_that("the list", |text| text.contains("stopped") && !text.contains("Receipt:"));
    terminal.key("q");
    terminal.await_text("prompt>");
    terminal.assert_restored();
}
