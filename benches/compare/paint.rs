//! The screen by itself, in this process: from the state to the bytes for a terminal, without one.

use std::hint::black_box;
use std::time::{Duration, Instant};

use cookbook_tui::app::config::Chord;
use cookbook_tui::app::tui::model::Model;
use cookbook_tui::app::tui::{Theme, UiEvent, draw, encode, update};
use cookbook_tui::pty::screen::{HistoryLimit, Screen, Size};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::json;

use crate::report::{Report, figure, median, timed};

const COLUMNS: u16 = 200;
const ROWS: u16 = 60;

pub(crate) fn paint(report: &mut Report) {
    let rounds = report.rounds(2000, 50);
    let (model, mut screen) = (model(), screen());
    let blank = || Buffer::empty(Rect::new(0, 0, COLUMNS, ROWS));
    // As the screen does it: the next frame takes the memory of the one before the last.
    let (empty, mut shown, mut next) = (blank(), blank(), blank());
    let mut whole = Vec::new();
    for _ in 0..rounds {
        whole.push(timed(|| {
            next.reset();
            draw(&model, Some(&screen), &mut next);
            assert!(black_box(bytes(&empty, &next)) > 1000);
        }));
    }
    draw(&model, Some(&screen), &mut shown);
    let mut row = Vec::new();
    for round in 0..rounds {
        // From the output of one program to the bytes.
        row.push(timed(|| {
            screen.process(format!("\x1b[20;1Hrow {round:08}").as_bytes());
            next.reset();
            draw(&model, Some(&screen), &mut next);
            let length = black_box(bytes(&shown, &next));
            assert!((1..300).contains(&length), "{length}");
            std::mem::swap(&mut shown, &mut next);
        }));
    }
    let name = format!("{COLUMNS}x{ROWS} in this process");
    report
        .put(figure(&format!("full repaint of {name}"), median(&mut whole)).at_most(Duration::from_micros(350)).told());
    report.put(
        figure(&format!("one changed row of {name}"), median(&mut row)).at_most(Duration::from_micros(100)).told(),
    );
}

/// Returns how many bytes bring a terminal from one frame to the next.
fn bytes(shown: &Buffer, next: &Buffer) -> usize {
    let mut bytes = Vec::new();
    encode(shown, next, false, &mut bytes);
    bytes.len()
}

/// Twenty sessions, the first of which is looked at.
fn model() -> Model {
    let mut model = Model::new((COLUMNS, ROWS), Theme::default(), Chord::default(), Instant::now());
    let rows = (0..20).map(|number| {
        json!({
            "session": format!("shell-{number:08}"), "name": format!("session {number}"), "kind": "shell", "host": "pty",
            "machine": "local", "lifetime": "grant", "phase": "running", "pid": 4242, "verdict": "owned",
            "uptime_s": 7400.0, "cpu_pct": 12.4, "rss_bytes": 1_288_490_189_u64, "gpu_bytes": null, "ports": [8080],
            "exit_code": null, "signal": null, "adopted": false, "owner": null, "not_after": null,
            "containment": ["tree", "warden"], "command": "sh", "cwd": "/srv/models", "processes": 3,
        })
    });
    let rows = serde_json::from_value(rows.collect()).unwrap();
    update(&mut model, UiEvent::Sessions(rows), Instant::now());
    model
}

/// A program's screen that is full of coloured text.
fn screen() -> Screen {
    let mut screen = Screen::new(Size::clamped(ROWS, COLUMNS), HistoryLimit::default());
    for row in 1..=ROWS {
        let colour = row % 7 + 31;
        let line =
            format!("\x1b[{row};1H\x1b[{colour}mINFO\x1b[0m {} \x1b[1m{row}\x1b[0m", "a word and another ".repeat(5));
        screen.process(line.as_bytes());
    }
    screen
}
