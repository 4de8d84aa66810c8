//! Two screens on one state directory: the terminal that one owns is seen, and typed into, on the other.

use super::{Terminal, ends};

/// Starts a second screen beside one that has a shell, and selects that shell.
fn beside(owner: &Terminal, cols: u16, rows: u16) -> Terminal {
    let visitor = Terminal::new(cols, rows);
    let (binary, state) = (env!("CARGO_BIN_EXE_cookbook-tui"), owner.state());
    visitor.line(&format!("{binary} --state-dir {} --tmux-socket {}o", state.display(), owner.socket));
    visitor.await_text("Sessions");
    visitor.await_text("owned by pid");
    visitor
}

#[test]
fn a_terminal_of_another_screen_is_seen_and_typed_into() {
    let owner = Terminal::new(120, 30);
    owner.start();
    let shell = owner.start_shell();
    owner.key("Enter");
    owner.await_text("TYPING");
    owner.line("printf 'seen \\033[31mred\\033[m %s\\n' $((40 + 2))");
    owner.await_text("seen red 42");

    let visitor = beside(&owner, 140, 40);
    visitor.await_text("seen red 42");
    let coloured = String::from_utf8_lossy(&visitor.tmux(&["capture-pane", "-p", "-e"]).stdout).into_owned();
    assert!(coloured.contains("seen \x1b[38;5;1mred"), "{coloured:?}");
    visitor.key("Enter");
    visitor.await_text("TYPING");
    visitor.line("echo from-$((50 + 5))");
    visitor.await_text("from-55");
    owner.await_text("from-55");
    // Every key in its order, and what is no text as well.
    let typed: String = (0..40).map(|n| char::from(b'a' + n % 26)).collect();
    visitor.key("C-u");
    for letter in typed.chars() {
        visitor.key(&letter.to_string());
    }
    owner.await_text(&typed);
    visitor.key("C-c");
    visitor.line("stty size");
    // The size stays the owner's.
    let own_size = |terminal: &Terminal| {
        let text = terminal.text();
        let mut words =
            text.lines().filter_map(|line| line.split_once('│').map_or(line, |(_, own)| own).trim().split_once(' '));
        words.find_map(|(rows, cols)| Some((rows.parse::<u16>().ok()?, cols.trim().parse::<u16>().ok()?)))
    };
    owner.await_that("the answer of stty", |_| own_size(&owner).is_some());
    let (_, cols) = own_size(&owner).unwrap();
    assert!(cols < 120, "the owner's pane decides, not the visitor's: {cols}");

    visitor.key("C-\\");
    visitor.await_that("the end of typing", |text| !text.contains("TYPING"));
    // A visitor that leaves takes nothing along.
    visitor.key("q");
    visitor.await_text("prompt>");
    visitor.assert_restored();
    owner.line("echo still-$((60 + 6))");
    owner.await_text("still-66");
    owner.tmux(&["kill-server"]);
    assert!(ends(&shell));
}

/// The owner of what is watched is suspended, and then gone: the screen says so and goes on.
#[test]
fn an_owner_that_does_not_answer_is_told() {
    let owner = Terminal::new(100, 30);
    owner.start();
    let shell = owner.start_shell();
    let visitor = beside(&owner, 140, 40);
    visitor.key("Enter");
    visitor.await_text("TYPING");
    let cockpits = owner.screens();
    let mut cockpits: Vec<_> = cockpits.into_iter().filter(|pid| !visitor_of(&visitor).contains(pid)).collect();
    cockpits.sort_by_key(|pid| pid.as_raw_nonzero());
    let cockpit = *cockpits.last().unwrap();
    rustix::process::kill_process(cockpit, rustix::process::Signal::STOP).unwrap();
    visitor.await_text("it may be suspended");
    rustix::process::kill_process(cockpit, rustix::process::Signal::KILL).unwrap();
    assert!(ends(&shell));
    visitor.await_that("the end of typing", |text| !text.contains("TYPING"));
    let until = std::time::Instant::now() + super::PATIENCE;
    while !visitor.text().contains("prompt>") {
        assert!(std::time::Instant::now() < until, "{}", visitor.text());
        // Keys that come at once were meant for the terminal.
        std::thread::sleep(std::time::Duration::from_secs(1));
        visitor.key("q");
    }
}

/// The processes of a visitor: those below its own server.
fn visitor_of(visitor: &Terminal) -> Vec<rustix::process::Pid> {
    let pane = visitor.tmux(&["display-message", "-p", "#{pane_pid}"]);
    let mut open = vec![String::from_utf8_lossy(&pane.stdout).trim().to_owned()];
    let mut found = Vec::new();
    while let Some(parent) = open.pop() {
        let listed = std::process::Command::new("ps").args(["-o", "pid=", "--ppid", &parent]).output().unwrap();
        for pid in String::from_utf8_lossy(&listed.stdout).split_whitespace() {
            found.extend(pid.parse().ok().and_then(rustix::process::Pid::from_raw));
            open.push(pid.to_owned());
        }
    }
    found
}
