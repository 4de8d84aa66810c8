//! Typing into one session while another one prints without end, and leaving in the midst of it.

use std::time::{Duration, Instant};

use crate::frames::{open, quit, start_session};
use crate::place::{Place, SIZE};
use crate::report::{Report, figure, part, timed};
use crate::terminal::Terminal;

pub(crate) fn echo(report: &mut Report) {
    let count = report.rounds(200, 20);
    let mut bare = bare(count);
    let mut tmux = report.peers.has("tmux").then(|| tmux(count));
    let mut tmux = |share| tmux.as_mut().map(|times| part(times, share));
    for (beside, flood, told) in [
        ("nothing else", None, false),
        ("`yes`", Some("yes"), true),
        ("endless seq", Some("while :; do seq 1 100000; done"), false),
    ] {
        let (mut times, end) = ours(flood, count);
        for (name, share) in [("p50", 0.5), ("p95", 0.95)] {
            let what = format!("key to echo, {name}, beside {beside}");
            let row = figure(&what, part(&mut times, share)).beside("a bare PTY alone", part(&mut bare, share));
            let row = row.beside_any("tmux beside `yes`", tmux(share));
            let row = if share > 0.5 { row.at_most(Duration::from_millis(5)) } else { row };
            report.put(if told && share > 0.5 { row.told() } else { row });
        }
        report.put(figure(&format!("quit beside {beside}"), end).at_most(Duration::from_millis(100)));
    }
}

/// From a key to what it draws, while 20 sessions print without end.
pub(crate) fn keys(report: &mut Report) {
    let (sessions, count) = (report.rounds(20, 4), report.rounds(300, 10));
    let place = Place::new();
    let cockpit = open(&place, SIZE);
    for _ in 0..sessions {
        start_session(&cockpit, "yes");
        cockpit.wait("the dialog's end", |screen| !screen.contents().contains("Start"));
    }
    std::thread::sleep(Duration::from_secs(1));
    let mut times = Vec::new();
    for index in 0..count {
        // Not in step with the frames of anybody.
        std::thread::sleep(Duration::from_micros(10_000 + (u64::try_from(index).unwrap() * 7_919) % 20_000));
        times.push(timed(|| {
            cockpit.type_bytes(b"/");
            cockpit.wait("the filter", is_filtering);
        }));
        // A lone escape is known as such only after a while, so it is not timed.
        cockpit.type_bytes(b"\x1b");
        cockpit.wait("its end", |screen| !is_filtering(screen));
    }
    let what = format!("key to frame, p99, with {sessions} sessions flooding");
    report.put(figure(&what, part(&mut times, 0.99)).at_most(Duration::from_millis(16)).told());
    let end = quit(cockpit);
    report.put(figure(&format!("quit with {sessions} sessions flooding"), end));
}

/// Tells whether the filter stands behind the title of the list.
fn is_filtering(screen: &vt100::Screen) -> bool {
    screen.rows(0, SIZE.1).next().is_some_and(|row| row.contains("  /"))
}

/// Types letters one by one, each when the one before has come back.
fn letters(terminal: &Terminal, count: usize) -> Vec<Duration> {
    let mut times = Vec::new();
    for index in 0..count {
        // Not in step with the frames of anybody.
        std::thread::sleep(Duration::from_micros(20_000 + (u64::try_from(index).unwrap() * 7_919) % 20_000));
        if index % 40 == 39 {
            let before = terminal.cursor();
            terminal.type_bytes(b"\r");
            terminal.wait("the next line", |screen| screen.cursor_position() != before);
            terminal.settle(Duration::from_millis(100));
        }
        let letter = char::from(b'a' + u8::try_from(index % 26).unwrap());
        let (line, column) = terminal.cursor();
        let start = Instant::now();
        terminal.type_bytes(letter.to_string().as_bytes());
        terminal.wait("the echo", |screen| {
            let cell = screen.cell(line, column).map(|cell| cell.contents() == letter.to_string());
            screen.cursor_position() == (line, column + 1) && cell == Some(true)
        });
        times.push(start.elapsed());
    }
    times
}

fn bare(count: usize) -> Vec<Duration> {
    let terminal = Terminal::start(Terminal::command("cat"), SIZE);
    std::thread::sleep(Duration::from_millis(100));
    letters(&terminal, count)
}

/// Returns the echo times in the cockpit, and how long its end took.
fn ours(flood: Option<&str>, count: usize) -> (Vec<Duration>, Duration) {
    let place = Place::new();
    let cockpit = open(&place, SIZE);
    if let Some(flood) = flood {
        start_session(&cockpit, flood);
        std::thread::sleep(Duration::from_millis(500));
    }
    start_session(&cockpit, "echo here it is; exec cat");
    cockpit.wait("the session", |screen| screen.rows(0, SIZE.1).any(|row| row.trim_end().ends_with("here it is")));
    std::thread::sleep(Duration::from_millis(300));
    cockpit.type_bytes(b"\r");
    cockpit.wait_for("TYPING");
    std::thread::sleep(Duration::from_millis(1500));
    let times = letters(&cockpit, count);
    cockpit.type_bytes(b"\x1c");
    cockpit.wait("leaving", |screen| !screen.contents().contains("TYPING"));
    (times, quit(cockpit))
}

fn tmux(count: usize) -> Vec<Duration> {
    let place = Place::new();
    let terminal = place.tmux(SIZE, &["new", "yes", ";", "new-window", "cat"]);
    std::thread::sleep(Duration::from_secs(1));
    letters(&terminal, count)
}
