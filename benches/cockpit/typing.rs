//! Typing into one session while another one prints without end, and leaving in the midst of it.

use std::time::{Duration, Instant};

use crate::place::Place;
use crate::terminal::Terminal;
use crate::{SIZE, alone, is_installed, open, quantile, quit, row, show, start_session};

const LETTERS: usize = 200;

pub(crate) fn echo() {
    let mut bare = bare();
    let (mut quiet, quiet_end) = ours(None);
    let (mut flooded, flooded_end) = ours(Some("yes"));
    let (mut seq, seq_end) = ours(Some("while :; do seq 1 100000; done"));
    let (p50, p95) = (quantile(&mut bare, 0.5), quantile(&mut bare, 0.95));
    let rows = |what: &str, times: &mut [Duration], goal: &str| {
        row(&format!("key to echo, p50, {what}"), quantile(times, 0.5), p50, "");
        row(&format!("key to echo, p95, {what}"), quantile(times, 0.95), p95, goal);
    };
    rows("nothing else (bare: a PTY)", &mut quiet, "");
    rows("beside `yes`", &mut flooded, "< 10 ms");
    rows("beside endless seq", &mut seq, "< 10 ms");
    if is_installed("tmux") {
        let mut tmux = tmux();
        row("key to echo, p50, beside `yes`, against tmux", quantile(&mut flooded, 0.5), quantile(&mut tmux, 0.5), "");
        row(
            "key to echo, p95, beside `yes`, against tmux",
            quantile(&mut flooded, 0.95),
            quantile(&mut tmux, 0.95),
            "",
        );
    } else {
        println!("tmux is not installed: skipped");
    }
    alone("quit with one quiet session", &show(quiet_end), "200 ms");
    alone("quit while `yes` prints", &show(flooded_end), "200 ms");
    alone("quit while endless seq prints", &show(seq_end), "200 ms");
}

/// Types letters one by one, each when the one before has come back.
fn letters(terminal: &Terminal) -> Vec<Duration> {
    let mut times = Vec::new();
    for index in 0..LETTERS {
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

fn bare() -> Vec<Duration> {
    let terminal = Terminal::start(Terminal::command("cat"), SIZE);
    std::thread::sleep(Duration::from_millis(100));
    letters(&terminal)
}

/// Returns the echo times in the cockpit, and how long its end took.
fn ours(flood: Option<&str>) -> (Vec<Duration>, Duration) {
    let place = Place::new();
    let cockpit = open(&place);
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
    let times = letters(&cockpit);
    cockpit.type_bytes(b"\x1c");
    cockpit.wait("leaving", |screen| !screen.contents().contains("TYPING"));
    (times, quit(cockpit))
}

fn tmux() -> Vec<Duration> {
    let place = Place::new();
    let terminal = place.tmux(SIZE, &["new", "yes", ";", "new-window", "cat"]);
    std::thread::sleep(Duration::from_secs(1));
    letters(&terminal)
}
