//! How long a launch and a stop take to answer.

use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::place::{Place, SIZE};
use crate::report::{Report, figure, median, timed};
use crate::terminal::{Terminal, pair, spawn_on};

pub(crate) fn launches(report: &mut Report) {
    let place = Place::new();
    let mut batch = place.batch();
    let has_tmux = report.peers.has("tmux");
    if has_tmux {
        // The server is there before; its start is nobody's launch.
        place.ask_tmux(&["new-session", "-d", "sleep 600"]);
        batch.launch("tmux", &["true"]);
    }
    batch.launch("pty", &["true"]);
    let (mut pty, mut tmux, mut bare, mut client) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut stop_pty, mut stop_tmux, mut stop_bare) = (Vec::new(), Vec::new(), Vec::new());
    let mut count = 0;
    for _ in 0..report.rounds(21, 2) {
        pty.push(timed(|| drop(batch.launch("pty", &["true"]))));
        bare.push(timed(in_a_pty));
        let session = batch.launch("pty", &["sleep", "600"]);
        stop_pty.push(timed(|| drop(batch.ask(&json!({"cmd": "stop", "session": session})))));
        stop_bare.push(bare_stop());
        if has_tmux {
            tmux.push(timed(|| drop(batch.launch("tmux", &["true"]))));
            client.push(timed(|| place.ask_tmux(&["new-session", "-d", "true"])));
            let session = batch.launch("tmux", &["sleep", "600"]);
            stop_tmux.push(timed(|| drop(batch.ask(&json!({"cmd": "stop", "session": session})))));
        }
        count += 1;
    }
    let (ours, others) = (median(&mut pty), median(&mut bare));
    report.put(figure("launch of `true` in a PTY", ours).beside("spawn and wait", others));
    report.put(figure("added to a launch in a PTY", ours.saturating_sub(others)).at_most(Duration::from_millis(5)));
    let stop_bare = median(&mut stop_bare);
    let row =
        |what, times: &mut Vec<Duration>| figure(what, median(times)).beside("spawn, kill, wait", stop_bare).told();
    report.put(row("stop of `sleep` in a PTY, to the receipt", &mut stop_pty));
    if has_tmux {
        let (ours, others) = (median(&mut tmux), median(&mut client));
        report.put(figure("launch of `true` in tmux", ours).beside("tmux new-session -d", others));
        report.put(row("stop of `sleep` in tmux, to the receipt", &mut stop_tmux));
    }
    let start = Instant::now();
    drop(batch);
    report.put(figure(&format!("end of the batch after {} sessions", count * 4), start.elapsed()));
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
        let mut child = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    })
}
