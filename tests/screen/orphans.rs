//! The group of orphans: what a stop could not end is listed with its reason, given more time, adopted, reaped.

use std::fs;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::{Terminal, ends};

/// A process that hears nothing but KILL, which it gets at the latest with the end of its test.
struct Deaf(OwnedFd);

impl Deaf {
    fn lives(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&now)), Ok(0))
    }
}

impl Drop for Deaf {
    fn drop(&mut self) {
        pidfd_send_signal(&self.0, Signal::KILL).ok();
    }
}

/// Leaves a deaf session behind that a stop could not end in time; returns its workload.
fn stubborn(terminal: &Terminal) -> Deaf {
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cookbook-tui"));
        command.arg("--state-dir").arg(terminal.state()).args(["--tmux-socket", &format!("{}o", terminal.socket)]);
        command.args(arguments).env_remove("TMUX").output().unwrap()
    };
    let deaf = terminal.folder.path().join("deaf");
    let line = format!("trap '' TERM HUP INT; touch {}; while :; do sleep 1; done", deaf.display());
    let launched = run(&["launch", "--name", "deaf", "--grace", "0.3", "--host", "tmux", "--", "sh", "-c", &line]);
    assert!(launched.status.success(), "{launched:?}");
    while !deaf.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = terminal.workloads()[0];
    let workload = Deaf(pidfd_open(pid, PidfdFlags::empty()).unwrap());
    let stopped = run(&["stop", "deaf", "--grace", "60", "--timeout", "0.2"]);
    assert_eq!(stopped.status.code(), Some(3), "{stopped:?}");
    assert!(workload.lives());
    workload
}

#[test]
fn orphans_are_listed_adopted_and_reaped() {
    let terminal = Terminal::new(140, 40);
    let workload = stubborn(&terminal);
    let record = terminal.state().join("sessions/serve-00000bad.json");
    fs::write(&record, "{\"schema_version\": 99}").unwrap();
    terminal.start_to("Orphans 2");
    terminal.await_that("the orphan with its reason", |text| {
        text.contains("survived: ali") && text.contains("left alone: serve-00000bad.json")
    });
    terminal.key("+");
    terminal.await_text("How long may deaf live");
    terminal.key("C-u");
    terminal.line("2h");
    terminal.await_text("deaf may live for another 2h");
    // Taken over, it is a session like any other.
    terminal.key("A");
    terminal.await_text("deaf is adopted");
    terminal.await_text("Orphans 1");
    assert!(workload.lives());
    terminal.key("X");
    terminal.await_text("Force stop: deaf");
    terminal.confirm("Force stop: deaf");
    assert!(ends(&workload.0));
    assert_eq!(fs::read_to_string(&record).unwrap(), "{\"schema_version\": 99}");
    terminal.key("q");
    terminal.await_text("prompt>");
}

#[test]
fn an_orphan_is_reaped_after_its_preview() {
    let terminal = Terminal::new(100, 30);
    let workload = stubborn(&terminal);
    terminal.start_to("Orphans 1");
    terminal.key("O");
    terminal.await_text("Reap: deaf");
    terminal.await_text("Will be signalled");
    assert!(workload.lives());
    terminal.confirm("Reap: deaf");
    assert!(ends(&workload.0));
    // It plays out, and ends in its receipt.
    terminal.await_text("Receipt: deaf");
    terminal.key("Escape");
    terminal.await_that("the end of the group", |text| !text.contains("Orphans"));
    terminal.key("q");
    terminal.await_text("prompt>");
    terminal.assert_restored();
}
