//! How long a launch and a stop take to answer.

use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::place::Place;
use crate::terminal::{Terminal, pair, spawn_on};
use crate::{SIZE, alone, is_installed, median, row, show};

const ROUNDS: usize = 21;

pub(crate) fn launches() {
    let place = Place::new();
    let mut batch = place.batch();
    let has_tmux = is_installed("tmux");
    if has_tmux {
        // The server is there before; its start is nobody's launch.
        place.ask_tmux(&["new-session", "-d", "sleep 3600"]);
        batch.launch("tmux", &["true"]);
    }
    batch.launch("pty", &["true"]);
    let (mut pty, mut tmux, mut bare, mut client) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut stop_pty, mut stop_tmux, mut stop_bare) = (Vec::new(), Vec::new(), Vec::new());
    let mut count = 0;
    for _ in 0..ROUNDS {
        pty.push(timed(|| drop(batch.launch("pty", &["true"]))));
        bare.push(timed(in_a_pty));
        let session = batch.launch("pty", &["sleep", "3600"]);
        stop_pty.push(timed(|| drop(batch.ask(&json!({"cmd": "stop", "session": session})))));
        stop_bare.push(bare_stop());
        if has_tmux {
            tmux.push(timed(|| drop(batch.launch("tmux", &["true"]))));
            client.push(timed(|| place.ask_tmux(&["new-session", "-d", "true"])));
            let session = batch.launch("tmux", &["sleep", "3600"]);
            stop_tmux.push(timed(|| drop(batch.ask(&json!({"cmd": "stop", "session": session})))));
        }
        count += 1;
    }
    let (ours, others) = (median(&mut pty), median(&mut bare));
    row("launch of true in a PTY (bare: spawn and wait)", ours, others, "");
    alone("added to a launch in a PTY", &show(ours.saturating_sub(others)), "5 ms");
    let stop_bare = median(&mut stop_bare);
    row("stop of sleep in a PTY (bare: spawn, kill, wait)", median(&mut stop_pty), stop_bare, "");
    if has_tmux {
        let (ours, others) = (median(&mut tmux), median(&mut client));
        row("launch of true in tmux (bare: tmux new-session -d)", ours, others, "");
        alone("added to a launch in tmux", &show(ours.saturating_sub(others)), "");
        row("stop of sleep in tmux (bare: spawn, kill, wait)", median(&mut stop_tmux), stop_bare, "");
    } else {
        println!("tmux is not installed: skipped");
    }
    let start = Instant::now();
    drop(batch);
    alone(&format!("end of the batch after {} sessions", count * 4), &show(start.elapsed()), "");
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Runs `true` in a PTY of its own, to its end.
fn in_a_pty() {
    let (master, slave): (OwnedFd, OwnedFd) = pair(SIZE);
    let mut child = spawn_on(Terminal::command("true"), &slave);
    child.wait().unwrap();
    drop((master, slave));
}

fn bare_stop() -> Duration {
    timed(|| {
        let mut child = Command::new("sleep").arg("3600").stdin(Stdio::null()).spawn().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    })
}
