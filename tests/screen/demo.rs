//! The two minutes of the README, as they are written there.

use super::Terminal;

#[test]
fn the_tour_of_the_readme_is_as_it_says() {
    let terminal = Terminal::new(140, 40);
    terminal.start();
    terminal.await_text("start one");
    terminal.key("s");
    terminal.await_text("Start");
    terminal.await_text("demo");
    terminal.key("Enter");
    terminal.await_text("loading shard");
    terminal.await_that("a ready server", |text| text.contains("demo is ready") && text.contains("ready"));
    // One of its workers has left its parent.
    terminal.await_text("sleep 1d");
    terminal.key("w");
    terminal.await_text("Why: ");
    terminal.key("Escape");
    terminal.key("x");
    terminal.await_text("Stop: demo");
    terminal.await_text("to signal");
    terminal.confirm("Stop: demo");
    terminal.await_text("Stopping: demo");
    terminal.await_text("KILL in ");
    terminal.await_text("by KILL");
    terminal.key("e");
    terminal.await_text("demo has ended");
    terminal.key("Escape");
    terminal.key("q");
    terminal.await_text("prompt>");
    terminal.assert_restored();
}
