//! An owner that is killed, and its sessions: when the last of them died, by pidfds that the harness holds.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::held::Flock;
use crate::place::Place;
use crate::report::{Report, figure, median};
use crate::stops::write_job;

/// Between the first signal and KILL.
const GRACE: Duration = Duration::from_millis(500);
/// What may be added to a grace, where somebody waits for it.
const GOAL: Duration = Duration::from_millis(500);

pub(crate) fn owner(report: &mut Report) {
    let rounds = report.rounds(11, 1);
    let has_tmux = report.peers.has("tmux");
    let mut row = |what: &str, workload: &str, host: &str, in_a_stop: bool, waits: Duration| {
        let mut times: Vec<Duration> =
            (0..rounds).map(|number| killed(workload, host, in_a_stop, number).saturating_sub(waits)).collect();
        report.put(figure(what, median(&mut times)).at_most(GOAL).told());
    };
    let pty = "an owner is killed, to the last death of its PTY session";
    row(pty, "setsid daemon", "pty", false, Duration::ZERO);
    row(&format!("{pty}, deaf, beyond its grace"), "deaf to all", "pty", false, GRACE);
    row(&format!("{pty}, deaf, in the middle of its stop, beyond a grace"), "deaf to all", "pty", true, GRACE);
    let tmux = "a manager is killed in the middle of a stop, to the last death in tmux, deaf, beyond a grace";
    if has_tmux {
        row(tmux, "deaf to all", "tmux", true, GRACE);
    }
}

/// Kills the manager of a session; returns how long the last of it lived on.
fn killed(workload: &str, host: &str, in_a_stop: bool, number: usize) -> Duration {
    let place = Place::new();
    let dir = place.dir();
    let ledger = dir.join(format!("{number}.ledger"));
    let job = write_job(dir, workload, &ledger);
    let mut flock = Flock::follow(&ledger);
    let mut batch = place.batch();
    let grace_s = GRACE.as_secs_f64();
    let request = json!({
        "cmd": "launch", "host": host, "kind": "serve", "grace_s": grace_s, "command": ["bash", job],
    });
    let session = batch.ask(&request)["session"].clone();
    flock.wait_for(&["leader", "child"], &[]).unwrap();
    if in_a_stop {
        batch.send(&json!({ "cmd": "stop", "session": session }));
        std::thread::sleep(GRACE / 5);
    }
    let begun = Instant::now();
    batch.kill();
    let mut last = Duration::ZERO;
    while flock.alive() > 0 && begun.elapsed() < 20 * GOAL {
        if flock.wait(Duration::from_millis(2)) {
            last = begun.elapsed();
        }
    }
    assert_eq!(flock.alive(), 0, "{workload} in {host}: somebody outlives the owner");
    last
}
