//! `wait`: for the exit, for nobody to be left, for output; and how workloads end, or never begin.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Batch;
use crate::oracle::Bystanders;
use crate::rig::{Rig, walk};

const HOSTS: [&str; 2] = ["pty", "tmux"];

/// Keeps the tmux server alive, for tests that are not about its end.
fn anchor(rig: &Rig, batch: &mut Batch) {
    batch.launch(json!({"command": ["sleep", rig.nap()], "host": "tmux", "name": "anchor"}));
}

fn wait(session: &str, what: &str) -> Value {
    json!({"cmd": "wait", "session": session, "for": what, "timeout_s": 25})
}

#[test]
fn exits_and_signals_are_told_apart() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    anchor(&rig, &mut batch);
    let cases = [
        ("exit 0", json!({"phase": "exited", "exit_code": 0})),
        ("exit 3", json!({"phase": "failed", "exit_code": 3})),
        ("exit 255", json!({"phase": "failed", "exit_code": 255})),
        // A shell's way to say 128 + 9 is not a signal.
        ("exit 137", json!({"phase": "failed", "exit_code": 137})),
        ("kill -SEGV $$", json!({"phase": "failed", "signal": "SEGV"})),
        ("kill -KILL $$", json!({"phase": "failed", "signal": "KILL"})),
        ("kill -PIPE $$", json!({"phase": "failed", "signal": "PIPE"})),
        ("kill -USR1 $$", json!({"phase": "failed", "signal": "USR1"})),
    ];
    for host in HOSTS {
        for (script, expected) in &cases {
            let session = batch.launch(json!({"command": ["sh", "-c", script], "host": host}));
            assert_eq!(&batch.ok(wait(&session, "exit")), expected, "{host}: {script}");
            assert_eq!(&batch.ok(wait(&session, "gone")), expected, "{host}: {script}");
            let rows = batch.ok(json!({"cmd": "list"}))["sessions"].take();
            let row = rows.as_array().unwrap().iter().find(|row| row["session"] == session).unwrap().clone();
            let known = |key: &str| expected.get(key).cloned().unwrap_or(Value::Null);
            assert_eq!(
                (&row["phase"], &row["exit_code"], &row["signal"], &row["verdict"]),
                (&known("phase"), &known("exit_code"), &known("signal"), &json!("gone")),
                "{host}: {script}: {row}"
            );
        }
    }
    assert_eq!(batch.finish(), Some(0), "how a workload ends is no failure of a command");
}

#[test]
fn gone_means_everybody() {
    for host in HOSTS {
        let rig = Rig::new();
        let nap = rig.nap();
        let mut strangers = Bystanders::new(&["sleep", &nap]);
        let ledger = rig.ledger("ledger");
        let mut batch = rig.batch();
        let daemon = ledger.noted_line(&format!("sleep {nap}"));
        let written = rig.path("ledger");
        let script = format!(
            "setsid -f {daemon} >/dev/null 2>&1 </dev/null; while [ ! -s {} ]; do sleep 0.02; done; exit 0",
            written.display()
        );
        let session = batch.launch(json!({"command": script, "host": host, "kind": "serve"}));
        let daemon = ledger.one();
        assert_eq!(batch.ok(wait(&session, "exit"))["exit_code"], 0);
        let mut short = wait(&session, "gone");
        short["timeout_s"] = json!(0.3);
        assert_eq!(batch.err(short).0, "timeout");
        let mut gone = wait(&session, "gone");
        gone["async"] = json!(true);
        let gone = batch.send(gone);
        daemon.kill();
        assert_eq!(batch.answer(&gone)["result"]["phase"], "exited");
        daemon.assert_ends();
        strangers.assert_alive();
    }
}

#[test]
fn output_counts_from_the_first_byte() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    anchor(&rig, &mut batch);
    for host in HOSTS {
        let session = batch.launch(json!({"command": "echo early; read x; echo late; sleep 3600", "host": host}));
        assert_eq!(batch.expect_output(&session, "^ear"), "ear");
        // It came before this wait.
        assert_eq!(batch.expect_output(&session, "early$"), "early");
        let mut late = wait(&session, "output");
        (late["regex"], late["async"]) = (json!("^late$"), json!(true));
        let late = batch.send(late);
        assert!(!batch.has_answer(&late));
        batch.ok(json!({"cmd": "send", "session": session, "keys": ["Enter"]}));
        assert_eq!(batch.answer(&late)["result"]["match"], "late");
    }
}

#[test]
fn output_is_found_across_the_edge_of_the_screen() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    anchor(&rig, &mut batch);
    for host in HOSTS {
        for (cols, filler) in [(80, 70), (20, 15), (10, 9)] {
            let script = format!("printf '%{filler}s' x; echo ' loading weights: 100% of 7 shards'; sleep 3600");
            let session = batch.launch(json!({"command": script, "host": host, "cols": cols, "rows": 10}));
            let found = batch.expect_output(&session, "loading weights: \\d+% of 7 shards$");
            assert_eq!(found, "loading weights: 100% of 7 shards", "{host}, {cols} columns");
            let screen = batch.ok(json!({"cmd": "screen", "session": session}));
            assert!(
                screen["lines"].as_array().unwrap().iter().all(|line| !line.as_str().unwrap().contains("7 shards of"))
            );
        }
    }
}

#[test]
fn output_that_scrolled_away_is_found() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    anchor(&rig, &mut batch);
    for host in HOSTS {
        let session = batch.launch(json!({"command": "echo needle-42; seq 2000; sleep 3600", "host": host}));
        batch.expect_output(&session, "^2000$");
        assert_eq!(batch.expect_output(&session, "needle-\\d+"), "needle-42", "{host}");
    }
}

#[test]
fn output_that_can_no_longer_come_fails_at_once() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    anchor(&rig, &mut batch);
    for host in HOSTS {
        let session = batch.launch(json!({"command": "echo said; read x; exit 7", "host": host}));
        batch.expect_output(&session, "said");
        let mut never = wait(&session, "output");
        (never["regex"], never["async"], never["timeout_s"]) = (json!("unsaid"), json!(true), json!(600));
        let never = batch.send(never);
        batch.ok(json!({"cmd": "send", "session": session, "keys": ["Enter"]}));
        let error = batch.answer(&never)["error"].take();
        let message = error["message"].as_str().unwrap();
        assert_eq!(error["kind"], "failed", "{message}");
        assert!(message.contains(&session) && message.contains("exit status 7"), "{message}");
        // What was said is still found, the end notwithstanding.
        assert_eq!(batch.expect_output(&session, "sa.d"), "said", "{host}");
        // Readiness can no longer come, either.
        let ready = json!({"cmd": "wait", "session": session, "for": "ready", "timeout_s": 600});
        assert_eq!(batch.err(ready).0, "failed");
    }
}

#[test]
fn the_last_words_of_a_workload_are_heard() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    anchor(&rig, &mut batch);
    for host in HOSTS {
        for turn in 0..12 {
            let kind = if turn % 2 == 0 { "serve" } else { "shell" };
            let command = format!("echo last-words-{turn}; exit 1");
            let session = batch.launch(json!({"command": command, "host": host, "kind": kind}));
            let found = batch.expect_output(&session, "last-words-\\d+$");
            assert_eq!(found, format!("last-words-{turn}"), "{host}, {kind}");
            batch.ok(wait(&session, "exit"));
            let logs = batch.ok(json!({"cmd": "logs", "session": session}));
            assert!(logs["lines"].as_array().unwrap().contains(&json!(found)), "{host}, {kind}: {logs}");
        }
    }
}

/// An exit is the end of the process: neither does a terminal in the hands of a child hold it up, nor is a terminal that
/// the workload has closed an end of anything.
#[test]
fn a_terminal_that_stays_open_holds_up_no_exit_and_a_closed_one_is_none() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    anchor(&rig, &mut batch);
    for host in HOSTS {
        let nap = rig.nap();
        let holder = format!("trap '' HUP; (trap '' HUP; sleep {nap}) & exit 4");
        let session = batch.launch(json!({"command": holder, "host": host, "kind": "serve"}));
        let mut exit = wait(&session, "exit");
        exit["timeout_s"] = json!(10);
        assert_eq!(batch.ok(exit), json!({"phase": "failed", "exit_code": 4}), "{host}");
        let closer = format!(
            "exec < /dev/null > /dev/null 2>&1; sleep 0.4; echo > {}; sleep {nap}",
            rig.work().join(host).display()
        );
        let session = batch.launch(json!({"command": closer, "host": host, "kind": "serve"}));
        crate::rig::until("its terminal is closed", || rig.work().join(host).exists());
        let rows = batch.ok(json!({"cmd": "list"}))["sessions"].take();
        let row = rows.as_array().unwrap().iter().find(|row| row["session"] == session).unwrap();
        assert_eq!((&row["phase"], &row["verdict"]), (&json!("running"), &json!("owned")), "{host}: {row}");
    }
}

#[test]
fn what_cannot_be_executed_leaves_nothing() {
    let rig = Rig::new();
    rig.write("work/plain", "text");
    rig.write("work/odd", "#!/no/such/interpreter\n");
    fs::set_permissions(rig.path("work/odd"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut batch = rig.batch();
    for host in HOSTS {
        for kind in ["shell", "serve", "agent"] {
            for (program, why) in [
                ("no-such-program", "was not found on the PATH of the session: install it"),
                ("/no/such/program", "No such file"),
                ("./plain", "Permission denied"),
                ("./odd", "No such file"),
                (".", "Permission denied"),
                ("/", "Permission denied"),
            ] {
                let launch = json!({"cmd": "launch", "command": [program, "x"], "host": host, "kind": kind});
                let (found, message) = batch.err(launch);
                assert_eq!(found, "failed", "{host}: {program}: {message}");
                assert!(message.contains(program) && message.contains(why), "{host}: {program}: {message}");
                assert!(!message.contains("os error"), "{message}");
            }
            let launch = json!({"cmd": "launch", "command": ["true"], "host": host, "kind": kind, "cwd": "/no/such"});
            assert_eq!(batch.err(launch).0, "usage");
        }
    }
    assert_eq!(batch.ok(json!({"cmd": "list"}))["sessions"], json!([]));
    assert_eq!(rig.records(), [""; 0]);
    assert_eq!(batch.finish(), Some(1));
    rig.assert_empty();
}

#[test]
fn a_failed_launch_leaves_no_file() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    anchor(&rig, &mut batch);
    let before = walk(&rig.state()).len();
    for host in HOSTS {
        for kind in ["serve", "agent"] {
            for _ in 0..4 {
                batch.err(json!({"cmd": "launch", "command": ["no-such-program"], "host": host, "kind": kind}));
            }
        }
    }
    // What tmux started to write the log may be late.
    std::thread::sleep(Duration::from_millis(200));
    let after = walk(&rig.state());
    assert_eq!(after.len(), before, "logs of what never ran: {after:?}");
    assert_eq!(rig.passing(), Vec::<PathBuf>::new());
}

#[test]
fn an_agent_that_was_stopped_leaves_no_tmux_directory() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    anchor(&rig, &mut batch);
    for host in HOSTS {
        let session = batch.launch(json!({"command": ["sleep", rig.nap()], "host": host, "kind": "agent"}));
        assert_eq!(batch.ok(json!({"cmd": "stop", "session": session}))["dead"], json!(true));
    }
    assert_eq!(rig.passing(), Vec::<PathBuf>::new());
}

#[test]
fn a_launch_right_after_the_last_session_works() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    for _ in 0..25 {
        let session = batch.launch(json!({"command": ["true"], "host": "tmux"}));
        batch.ok(wait(&session, "exit"));
    }
}

#[test]
fn the_program_is_looked_for_where_the_workload_would() {
    let rig = Rig::new();
    rig.executable("bin/only-here", "#!/bin/sh\necho found \"$1\"\nsleep 3600\n");
    let mut batch = rig.batch();
    anchor(&rig, &mut batch);
    let path = format!("{}:{}", rig.path("bin").display(), std::env::var("PATH").unwrap());
    for host in HOSTS {
        assert_eq!(batch.err(json!({"cmd": "launch", "command": ["only-here"], "host": host})).0, "failed");
        let launch = json!({"command": ["only-here", host], "host": host, "env": {"PATH": path}});
        let session = batch.launch(launch);
        assert_eq!(batch.expect_output(&session, "found \\w+"), format!("found {host}"));
    }
}
