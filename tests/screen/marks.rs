//! Sessions that are marked are stopped together, after one preview that names them all.

use std::os::fd::OwnedFd;

use rustix::process::{PidfdFlags, pidfd_open};

use super::finding::launch;
use super::{Terminal, ends};

fn check(cols: u16, rows: u16) {
    let terminal = Terminal::new(cols, rows);
    for name in ["alpha", "beta", "gamma"] {
        launch(&terminal, name);
    }
    terminal.start_to("gamma");
    let workloads: Vec<OwnedFd> =
        terminal.workloads().into_iter().map(|pid| pidfd_open(pid, PidfdFlags::empty()).unwrap()).collect();
    assert_eq!(workloads.len(), 3);
    terminal.key("g");
    terminal.key("Space");
    terminal.key("Space");
    terminal.await_text("2 marked");
    terminal.key("x");
    terminal.await_text("2 sessions · 2 processes to signal");
    terminal.confirm("all that are marked");
    terminal.await_that("two that have stopped", |text| {
        let stopped = |name: &str| text.lines().any(|line| line.contains(name) && line.contains("stopped"));
        stopped("alpha") && stopped("beta") && !stopped("gamma")
    });
    assert_eq!(workloads.iter().filter(|pidfd| has_ended(pidfd)).count(), 2);
    // Both are forgotten together.
    terminal.key("g");
    terminal.key("Space");
    terminal.key("Space");
    terminal.key("f");
    terminal.await_text("is forgotten");
    terminal.confirm("all that are marked");
    terminal.await_that("gamma alone", |text| !text.contains("stopped") && text.contains("gamma"));
    terminal.key("x");
    terminal.await_text("1 process to signal");
    terminal.confirm("Stop: gamma");
    assert!(workloads.iter().all(ends));
    terminal.key("q");
    terminal.await_text("prompt>");
    terminal.assert_restored();
}

fn has_ended(pidfd: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&now)), Ok(1))
}

#[test]
fn two_of_three_are_stopped_together_at_140x40() {
    check(140, 40);
}

#[test]
fn two_of_three_are_stopped_together_at_80x24() {
    check(80, 24);
}
