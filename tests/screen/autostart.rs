//! Recipes with `autostart` are launched when the screen opens, once, those that they need first.

use std::fs;

use super::Terminal;

#[test]
fn recipes_are_started_with_the_screen_and_once() {
    let terminal = Terminal::new(120, 40);
    let config = terminal.folder.path().join("c.toml");
    let recipe = |name: &str, command: &str, more: &str| {
        format!("[[recipe]]\nname = \"{name}\"\nhost = \"tmux\"\nkind = \"serve\"\ncommand = \"{command}\"\n{more}\n")
    };
    let recipes = [
        recipe("aaa", "exec sleep 3600", "autostart = true\nneeds = [\"base\"]"),
        recipe("base", "sleep 0.5; echo up; exec sleep 3600", "ready = { log = \"^up$\" }"),
        recipe("bad", "exec sleep 3600", "autostart = true\nneeds = [\"nobody\"]"),
        recipe("idle", "exec sleep 3600", ""),
    ];
    fs::write(&config, recipes.concat()).unwrap();
    terminal.line(&format!("export COOKBOOK_TUI_CONFIG={}", config.display()));
    for _ in 0..2 {
        terminal.start_to("Sessions");
        terminal.await_that("both, ready or running", |text| text.contains("aaa") && text.contains("base"));
        terminal.key("e");
        terminal.await_text("it needs nobody");
        terminal.key("Escape");
        terminal.await_that("no more than these", |text| text.contains("Sessions") && !text.contains("queued"));
        assert_eq!(terminal.workloads().len(), 2, "{}", terminal.text());
        terminal.key("q");
        terminal.await_text("prompt>");
    }
    // They live in tmux and stay; the test ends them.
    for name in ["aaa", "base"] {
        let own = format!("{}o", terminal.socket);
        let state = terminal.state();
        terminal.line(&format!(
            "clear; {} --state-dir {} --tmux-socket {own} stop {name}",
            env!("CARGO_BIN_EXE_cookbook-tui"),
            state.display()
        ));
        terminal.await_text("dead");
    }
}
