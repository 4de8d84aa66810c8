//! Ceilings, orphans, records that cannot be read, and the doctor.

use std::fs;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::oracle::Bystanders;
use crate::rig::{Ran, Rig, until};

fn check_ok(ran: &Ran) -> String {
    assert_eq!((ran.code, ran.error().as_str()), (Some(0), ""), "{ran:?}");
    ran.text()
}

/// Seconds from now until the ceiling of the only session.
fn left(rig: &Rig) -> f64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    rig.json(&["ls"])["sessions"][0]["not_after"].as_f64().unwrap() - now
}

#[test]
fn a_ceiling_can_be_moved() {
    let rig = Rig::new();
    let nap = rig.nap();
    let mut strangers = Bystanders::new(&["sleep", &nap]);
    let ledger = rig.ledger("ledger");
    rig.launch_tmux(&["--name", "n", "--ceiling", "2.5"], &ledger.noted(&["sleep", &nap]));
    let workload = ledger.one();
    assert!(left(&rig) <= 2.5);
    let answer = rig.json(&["extend", "n", "7200"]);
    assert!((7100.0..=7200.0).contains(&left(&rig)), "{answer}");
    assert!(check_ok(&rig.run(&["extend", "n", "3600"])).contains('n'));
    assert!((3500.0..=3600.0).contains(&left(&rig)));
    for wrong in ["0", "-1", "NaN", "inf", "1e300", "soon"] {
        let ran = rig.run(&["extend", "--json", "n", "--", wrong]);
        assert_eq!(ran.code, Some(2), "{wrong}: {ran:?}");
    }
    assert!((3500.0..=3600.0).contains(&left(&rig)));
    assert_eq!(rig.run(&["extend", "nobody", "60"]).code, Some(4));
    // Beyond its first ceiling, and beyond the time that a ladder would take.
    std::thread::sleep(Duration::from_millis(3700));
    workload.assert_alive();
    strangers.assert_alive();
}

#[test]
fn a_ceiling_that_comes_ends_the_session() {
    for (host, kind) in [("pty", "serve"), ("tmux", "shell"), ("tmux", "serve")] {
        let rig = Rig::new();
        let nap = rig.nap();
        let mut strangers = Bystanders::new(&["sleep", &nap]);
        let ledger = rig.ledger("ledger");
        let mut batch = rig.batch();
        let command = ledger.noted(&["sleep", &nap]);
        let session = batch.launch(json!({"command": command, "host": host, "ceiling_s": 1.0, "kind": kind}));
        ledger.one().assert_ends();
        strangers.assert_alive();
        assert_eq!(batch.finish(), Some(0));
        // A pane may stay so that its text can be read, as long as somebody knows of it.
        let stopped = rig.run(&["stop", &session]);
        assert!(matches!(stopped.code, Some(0 | 4)), "{host}, {kind}: {stopped:?}");
        until(&format!("{host}, {kind}: nothing is left, and nobody could stop it"), || rig.processes().is_empty());
    }
}

/// As many sessions that are over as are kept to be read.
const KEPT: usize = 100;

/// What is over can be read until somebody dismisses it, or until a sweep of the records finds too many.
#[test]
fn what_is_over_is_kept_and_bounded() {
    let rig = Rig::new();
    let ledger = rig.ledger("ledger");
    let mut batch = rig.batch();
    let lives = batch.launch(json!({"command": ledger.noted(&["sleep", &rig.nap()]), "host": "pty"}));
    let workload = ledger.one();
    let over: Vec<String> = (0..KEPT + 2)
        .map(|number| {
            let command = format!("echo words of {number}; exit 3");
            batch.launch(json!({"command": command, "kind": "serve", "host": "pty"}))
        })
        .collect();
    for session in &over {
        // None goes before its time.
        batch.ok(json!({"cmd": "wait", "session": session, "for": "exit", "timeout_s": 20}));
    }
    batch.ok(json!({"cmd": "wait", "session": over[1], "for": "gone", "timeout_s": 20}));
    batch.ok(json!({"cmd": "orphans", "reap": true}));
    let (gone, kept) = over.split_at(2);
    let list = batch.ok(json!({"cmd": "list"}));
    let rows = list["sessions"].as_array().unwrap();
    let ids: Vec<&str> = rows.iter().map(|row| row["session"].as_str().unwrap()).collect();
    let expected: Vec<&str> = [&lives].into_iter().chain(kept).map(String::as_str).collect();
    assert_eq!(ids, expected, "the oldest go, and nobody who lives");
    workload.assert_alive();
    assert_eq!(batch.err(json!({"cmd": "screen", "session": gone[0]})).0, "not_found");
    let records = rig.records();
    assert!(!records.iter().any(|name| gone.iter().any(|id| name.contains(id))), "{records:?}");
    for (number, session) in [(2, &kept[0]), (KEPT + 1, &kept[KEPT - 1])] {
        let words = format!("words of {number}");
        let screen = batch.ok(json!({"cmd": "screen", "session": session}));
        assert_eq!(screen["lines"][0].as_str().unwrap().trim_end(), words);
        assert_eq!(batch.ok(json!({"cmd": "logs", "session": session}))["lines"][0], words);
        let row = rows.iter().find(|row| row["session"] == **session).unwrap();
        assert_eq!((&row["phase"], &row["exit_code"]), (&json!("failed"), &json!(3)), "{row}");
    }
    batch.ok(json!({"cmd": "dismiss", "session": kept[0]}));
    assert_eq!(batch.err(json!({"cmd": "screen", "session": kept[0]})).0, "not_found");
    batch.signal(rustix::process::Signal::KILL);
    workload.assert_ends();
}

#[test]
fn without_orphans_it_says_so() {
    let rig = Rig::new();
    assert_eq!(check_ok(&rig.run(&["orphans"])), "no orphans\n");
    let answer = rig.json(&["orphans", "--reap"]);
    assert_eq!((&answer["orphans"], &answer["quarantined"], &answer["swept"]), (&json!([]), &json!([]), &json!([])));
    assert!(answer["report"].is_object(), "{answer}");
}

#[test]
fn a_record_that_cannot_be_read_is_shown_and_left_alone() {
    let rig = Rig::new();
    check_ok(&rig.run(&["ls"]));
    let path = rig.state().join("sessions/serve-deadbeef.json");
    for content in ["", "{", "{\"schema_version\": 99}", "[]", "\u{1b}[31m"] {
        fs::write(&path, content).unwrap();
        let ran = rig.run(&["orphans", "--reap"]);
        let text = ran.text();
        assert_eq!(ran.code, Some(3), "{text}");
        assert!(text.contains("left alone: ") && text.contains("serve-deadbeef.json"), "{text}");
        let answer = rig.json(&["orphans"]);
        assert_eq!(answer["quarantined"][0]["path"], path.display().to_string(), "{answer}");
        check_ok(&rig.run(&["sweep"]));
        check_ok(&rig.run(&["launch", "--host", "pty", "--", "true"]));
        assert_eq!(fs::read_to_string(&path).unwrap(), content, "somebody touched it");
    }
}

#[test]
fn the_doctor_knows_the_way_out() {
    let rig = Rig::new();
    let answer = rig.json(&["doctor"]);
    let checks = answer["checks"].as_array().unwrap();
    assert!(checks.len() > 3 && checks.iter().all(|check| check["state"] != "fail"), "{answer}");
    for name in ["clock and namespace", "cgroup", "logout", "state directory", "runtime directory"] {
        assert!(checks.iter().any(|check| check["name"] == name), "{name}: {answer}");
    }
    let told = |check: &&Value| check["way_out"].as_str().is_some_and(|way_out| !way_out.is_empty());
    assert!(checks.iter().filter(|check| check["state"] != "ok").all(|check| told(&check)), "{answer}");
    let text = check_ok(&rig.run(&["doctor"]));
    assert!(text.lines().filter(|line| line.starts_with("ok ")).count() > 1, "{text}");
    fs::create_dir(rig.path("empty")).unwrap();
    let mut command = rig.command(&["doctor", "--json"]);
    command.env("PATH", rig.path("empty"));
    let ran = Ran::of(command.spawn().unwrap());
    let lines = ran.lines();
    let told: Vec<&Value> =
        lines[0]["checks"].as_array().unwrap().iter().filter(|check| check["state"] != "ok").collect();
    let tmux = told.iter().find(|check| check["name"].as_str().unwrap().contains("tmux"));
    assert!(tmux.is_some_and(|check| check["way_out"].as_str().unwrap().contains("install")), "{ran:?}");
}
