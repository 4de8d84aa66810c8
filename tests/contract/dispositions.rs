//! A workload begins as from a fresh login: default dispositions, an empty mask, whatever the manager was given.

use std::fs;

use serde_json::json;

use crate::oracle::Bystanders;
use crate::rig::{Rig, until};

/// Ignores and blocks signals, then becomes the program.
fn wrapper(ignored: &str, blocked: &str) -> Vec<String> {
    let program = format!(
        "import os,signal,sys\nfor n in {ignored}: signal.signal(n, signal.SIG_IGN)\n\
         signal.pthread_sigmask(signal.SIG_BLOCK, {blocked})\nos.execv(sys.argv[1], sys.argv[1:])"
    );
    ["python3", "-c", &program].map(str::to_owned).to_vec()
}

/// Signals 32 and 33 belong to the C library, whose `posix_spawn(3)` leaves them ignored in every child.
const OF_THE_LIBRARY: u64 = 0b11 << 31;

/// Returns the masks of `/proc/<pid>/status`: blocked, ignored, caught.
fn masks(pid: i32) -> [u64; 3] {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    ["SigBlk:", "SigIgn:", "SigCgt:"].map(|name| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        u64::from_str_radix(line[name.len()..].trim(), 16).unwrap() & !OF_THE_LIBRARY
    })
}

fn check(host: &str, ignored: &str, blocked: &str) {
    let rig = Rig::new();
    let nap = rig.nap();
    let mut strangers = Bystanders::new(&["sleep", &nap]);
    let ledger = rig.ledger("ledger");
    let wrapper = wrapper(ignored, blocked);
    let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    let mut batch = rig.batch_with(&wrapper, &[]);
    // sleep(1) itself changes nothing: what it has is what it was given.
    let session = batch.launch(json!({"command": ledger.noted(&["sleep", &nap]), "host": host, "kind": "serve"}));
    let workload = ledger.one();
    until("it is sleep by now", || crate::oracle::argv_of(workload.pid)[0] == "sleep");
    assert_eq!(masks(workload.pid), [0; 3], "{host}, manager with {ignored} ignored and {blocked} blocked");
    // The manager knows how its children end, and can end what it started.
    let short = batch.launch(json!({"command": "exit 3", "host": host}));
    let waited = batch.ok(json!({"cmd": "wait", "session": short, "for": "exit", "timeout_s": 20}));
    assert_eq!(waited["exit_code"], 3, "{host}");
    let receipt = batch.ok(json!({"cmd": "stop", "session": session}));
    assert_eq!((&receipt["dead"], &receipt["escalated"]), (&json!(true), &json!(false)), "{host}: {receipt}");
    workload.assert_ends();
    strangers.assert_alive();
    assert_eq!(batch.finish(), Some(0));
    rig.assert_empty();
}

#[test]
fn a_plain_manager_gives_nothing_on() {
    check("pty", "[]", "[]");
    check("tmux", "[]", "[]");
}

#[test]
fn ignored_and_blocked_signals_stop_at_the_manager_in_a_pty() {
    check("pty", "[signal.SIGCHLD, signal.SIGINT]", "[signal.SIGTERM]");
}

#[test]
fn ignored_and_blocked_signals_stop_at_the_manager_in_tmux() {
    check("tmux", "[signal.SIGCHLD, signal.SIGINT]", "[signal.SIGTERM]");
}

/// Everything but what nobody can ignore, and what a program in safe Rust cannot take back (ILL, FPE, SEGV).
const EVERYTHING: &str = "[n for n in range(1, 65) if n not in (4, 8, 9, 11, 19, 32, 33)]";

#[test]
fn everything_ignored_and_blocked_stops_at_the_manager_in_a_pty() {
    check("pty", EVERYTHING, "[n for n in range(1, 65) if n not in (32, 33)]");
}

#[test]
fn everything_ignored_and_blocked_stops_at_the_manager_in_tmux() {
    check("tmux", EVERYTHING, "[n for n in range(1, 65) if n not in (32, 33)]");
}

#[test]
fn a_manager_that_was_started_deaf_still_hears_that_it_is_to_end() {
    let rig = Rig::new();
    let ledger = rig.ledger("ledger");
    let wrapper = wrapper("[signal.SIGTERM]", "[signal.SIGTERM]");
    let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    let mut batch = rig.batch_with(&wrapper, &[]);
    batch.launch(json!({"command": ledger.noted(&["sleep", &rig.nap()])}));
    let workload = ledger.one();
    batch.signal(rustix::process::Signal::TERM);
    workload.assert_ends();
    assert!(batch.ended().is_some());
    rig.assert_empty();
}
