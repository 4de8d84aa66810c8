//! Sessions whose manager is gone: taken over without a signal, or ended after their names were printed.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::Batch;
use crate::oracle::{Bystanders, Watched};
use crate::rig::{Ran, Rig};

fn record(rig: &Rig, session: &str) -> PathBuf {
    rig.state().join(format!("sessions/{session}.json"))
}

fn read(path: &PathBuf) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn row(batch: &mut Batch, session: &str) -> Value {
    let list = batch.ok(json!({"cmd": "list"}));
    let row = list["sessions"].as_array().unwrap().iter().find(|row| row["session"] == session);
    row.unwrap_or_else(|| panic!("no {session} in {list:#}")).clone()
}

/// Launches a session in tmux by a manager that is then killed.
fn left_by_a_killed_manager(rig: &Rig) -> (String, Watched) {
    let ledger = rig.ledger("ledger");
    let mut batch = rig.batch();
    let command = ledger.noted(&["sleep", &rig.nap()]);
    let session = batch.launch(json!({"command": command, "host": "tmux", "kind": "serve", "name": "n"}));
    let workload = ledger.one();
    batch.signal(Signal::KILL);
    assert_eq!(batch.ended(), None, "it was killed");
    (session, workload)
}

fn adopt(batch: &mut Batch, session: Option<&str>) -> Value {
    let mut request = json!({"cmd": "orphans", "adopt": true});
    if let Some(session) = session {
        request["session"] = session.into();
    }
    batch.ok(request)
}

#[test]
fn a_session_whose_manager_was_killed_is_taken_over_without_a_signal() {
    let rig = Rig::new();
    let mut strangers = Bystanders::new(&["sleep", &rig.nap()]);
    let (session, workload) = left_by_a_killed_manager(&rig);
    let mut batch = rig.batch();
    batch.ok(json!({"cmd": "subscribe"}));
    assert_eq!(row(&mut batch, &session)["adopted"], false);
    let answer = adopt(&mut batch, None);
    let expected = json!([{"session": session, "adopted": true, "reason": answer["adopted"][0]["reason"]}]);
    assert_eq!(answer["adopted"], expected, "{answer:#}");
    assert_eq!(row(&mut batch, &session)["adopted"], true);
    assert_eq!(read(&record(&rig, &session))["spawner"]["pid"], batch.pid());
    let again = adopt(&mut batch, Some("n"));
    assert_eq!(again["adopted"][0]["adopted"], true, "{again:#}");
    // Nobody takes it from a manager that lives.
    let mut other = rig.batch();
    assert_eq!(adopt(&mut other, None)["adopted"], json!([]));
    let refused = adopt(&mut other, Some(&session));
    let reason = refused["adopted"][0]["reason"].as_str().unwrap();
    assert_eq!(refused["adopted"][0]["adopted"], false);
    assert!(reason.contains("is alive") && reason.contains(&batch.pid().to_string()), "{reason}");
    assert_eq!(other.finish(), Some(3), "it was refused");
    workload.assert_alive();
    assert!(!batch.events.iter().any(|event| event["event"] == "signal"), "{:?}", batch.events);
    // It outlives this manager, too, and a person may take it over by hand.
    assert_eq!(batch.finish(), Some(0));
    workload.assert_alive();
    let ran = rig.run(&["orphans", "--adopt"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.text().starts_with(&format!("{session}: adopted: ")), "{ran:?}");
    workload.assert_alive();
    strangers.assert_alive();
    let stopped = rig.json(&["stop", "n"]);
    assert!(!workload.is_alive() && stopped["dead"] == true, "{stopped:#}");
    assert_eq!(rig.run(&["orphans", "--adopt"]).text(), "nobody to adopt\n");
}

#[test]
fn the_end_of_one_that_was_taken_over_is_told_once() {
    let rig = Rig::new();
    let (session, workload) = left_by_a_killed_manager(&rig);
    let mut batch = rig.batch();
    batch.ok(json!({"cmd": "subscribe"}));
    assert_eq!(adopt(&mut batch, None)["adopted"][0]["adopted"], true);
    batch.ok(json!({"cmd": "stop", "session": session}));
    workload.assert_ends();
    // It has looked again.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    row(&mut batch, &session);
    let told = batch.events.iter().filter(|event| event["event"] == "exited").count();
    assert_eq!(told, 1, "{:?}", batch.events);
    batch.finish();
}

/// A record that was changed in one place is not adopted, is not touched, and its session is not signalled.
fn check_refused(what: &str, options: &[&str], change: impl FnOnce(&mut Value)) {
    let rig = Rig::new();
    let (session, workload) = left_by_a_killed_manager(&rig);
    let path = record(&rig, &session);
    let mut tether = read(&path);
    change(&mut tether);
    fs::write(&path, tether.to_string()).unwrap();
    let before = fs::read(&path).unwrap();
    let mut words = options.to_vec();
    words.extend(["orphans", "--adopt", &session, "--json"]);
    let ran = rig.run(&words);
    assert_eq!(ran.code, Some(3), "{what}: {ran:?}");
    let answer = &ran.lines()[0];
    // What is not even read as a session of ours is an error; of the others there is a row.
    let error = &answer["error"]["message"];
    let reason = if error.is_null() { &answer["adopted"][0]["reason"] } else { error };
    assert_ne!(answer["adopted"][0]["adopted"], true, "{what}: {ran:?}");
    assert!(reason.as_str().unwrap().contains(what), "{ran:?}");
    assert_eq!(fs::read(&path).unwrap(), before, "{what}: somebody wrote it");
    workload.assert_alive();
}

fn later(token: &Value) -> Value {
    let (head, ticks) = token.as_str().unwrap().rsplit_once(':').unwrap();
    format!("{head}:{}", ticks.parse::<u64>().unwrap() + 1).into()
}

#[test]
fn what_is_not_verified_is_never_adopted() {
    check_refused("names another process", &[], |tether| {
        tether["workload"]["start_token"] = later(&tether["workload"]["start_token"]);
    });
    check_refused("recorded in the pid namespace", &[], |tether| {
        tether["pidns_inode"] = (tether["pidns_inode"].as_u64().unwrap() + 1).into();
    });
    check_refused("nobody can tell", &["--inspector", "none"], |_| {});
    check_refused("its ceiling has come", &[], |tether| {
        tether["not_after"] = (tether["spawned_at"].as_f64().unwrap() + 0.001).into();
    });
    check_refused("tmux session is gone", &[], |tether| tether["tmux"]["session_id"] = "$77".into());
}

#[test]
fn a_pty_session_stays_with_its_owner() {
    let rig = Rig::new();
    let ledger = rig.ledger("ledger");
    let mut batch = rig.batch();
    let session = batch.launch(json!({"command": ledger.noted(&["sleep", &rig.nap()]), "host": "pty"}));
    let workload = ledger.one();
    let ran = rig.run(&["orphans", "--adopt", &session]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.text().contains(&format!("not adopted: its manager is alive: process {}", batch.pid())), "{ran:?}");
    workload.assert_alive();
    assert_eq!(batch.finish(), Some(0));
}

#[test]
fn wishes_that_contradict_each_other_are_errors() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    for fields in [
        json!({"reap": true, "adopt": true}),
        json!({"dry_run": true}),
        json!({"adopt": true, "confirm": []}),
        json!({"reap": true, "end_kept": [4]}),
    ] {
        let mut request = fields.clone();
        request["cmd"] = "orphans".into();
        assert_eq!(batch.err(request).0, "usage", "{fields}");
    }
    assert_eq!(rig.run(&["orphans", "--reap", "--adopt"]).code, Some(2));
    assert_eq!(rig.run(&["orphans", "--dry-run"]).code, Some(2));
}

/// Leaves a session that a stop could not end in time.
fn stubborn(rig: &Rig) -> (String, Watched) {
    let ledger = rig.ledger("ledger");
    let line = format!("trap '' TERM HUP INT; {}; :", ledger.noted_line(&format!("sleep {}", rig.nap())));
    let argv = ["sh".to_owned(), "-c".to_owned(), line];
    let launched = rig.launch_tmux(&["--name", "n", "--kind", "serve", "--grace", "60"], &argv);
    let workload = ledger.one();
    let ran = rig.run(&["stop", "n", "--timeout", "0.3"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    workload.assert_alive();
    (launched["session"].as_str().unwrap().to_owned(), workload)
}

fn check_printed_first(ran: &Ran, session: &str, workload: &Watched) {
    let text = ran.text();
    let plan = text.find("2 are about to be signalled\n").unwrap_or_else(|| panic!("{ran:?}"));
    assert!(!text.contains("nothing was"), "{text}");
    let named = text.find(&workload.pid.to_string()).unwrap();
    let receipt = text.find(&format!("{session}: dead")).unwrap_or_else(|| panic!("{ran:?}"));
    assert!(named < plan && plan < receipt, "{text}");
}

/// Nobody has watched it: what it takes is seen in this one command.
#[test]
fn an_orphan_that_burns_a_core_is_seen_to() {
    let rig = Rig::new();
    let argv = ["sh", "-c", "trap '' TERM HUP INT; while :; do :; done"].map(str::to_owned);
    rig.launch_tmux(&["--name", "n", "--kind", "serve", "--grace", "60"], &argv);
    assert_eq!(rig.run(&["stop", "n", "--timeout", "0.3"]).code, Some(3));
    let shown = rig.json(&["orphans"]);
    let cpu = shown["orphans"][0]["cpu_pct"].as_f64().unwrap_or_else(|| panic!("{shown:#}"));
    assert!(cpu > 5.0, "{cpu}");
    let text = rig.run(&["orphans"]).text();
    assert!(!text.contains(", -, ") && text.contains('%'), "{text}");
    assert_eq!(rig.run(&["stop", "n", "--force"]).code, Some(0));
}

#[test]
fn targets_are_printed_before_anybody_is_signalled() {
    for named in [false, true] {
        let rig = Rig::new();
        let mut strangers = Bystanders::new(&["sleep", &rig.nap()]);
        let (session, workload) = stubborn(&rig);
        let shown = rig.json(&["orphans"]);
        assert_eq!(shown["orphans"][0]["session"], session, "{shown:#}");
        let mut words = vec!["orphans", "--reap"];
        words.extend(named.then_some("n"));
        let mut dry = words.clone();
        dry.push("--dry-run");
        let planned = rig.json(&dry);
        assert!(
            planned["swept"][0]["plan"].as_array().unwrap().iter().any(|row| row["pid"] == workload.pid),
            "{planned:#}"
        );
        workload.assert_alive();
        // As short as it goes; it is deaf.
        let path = record(&rig, &session);
        let mut tether = read(&path);
        tether["grace_s"] = json!(0.2);
        fs::write(&path, tether.to_string()).unwrap();
        let ran = rig.run(&words);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(!workload.is_alive());
        check_printed_first(&ran, &session, &workload);
        strangers.assert_alive();
        rig.assert_empty();
    }
}

#[test]
fn only_the_named_orphan_is_reaped_and_only_who_was_shown() {
    let rig = Rig::new();
    let (session, workload) = stubborn(&rig);
    let mut batch = rig.batch();
    let nobody = batch.ok(json!({"cmd": "orphans", "reap": true, "confirm": []}));
    assert_eq!(nobody["swept"], json!([]), "nobody of it was in the preview: {nobody:#}");
    workload.assert_alive();
    let ledger = rig.ledger("other");
    let other = batch.launch(json!({"command": ledger.noted(&["sleep", &rig.nap()]), "host": "tmux"}));
    let none = batch.ok(json!({"cmd": "orphans", "reap": true, "session": other}));
    assert_eq!((&none["swept"], &none["orphans"]), (&json!([]), &json!([])), "{none:#}");
    workload.assert_alive();
    ledger.one().assert_alive();
    // A person may also decide to keep it.
    let kept = adopt(&mut batch, Some(&session));
    assert_eq!(kept["adopted"][0]["adopted"], true, "{kept:#}");
    assert_eq!(batch.ok(json!({"cmd": "orphans"}))["orphans"], json!([]));
    workload.assert_alive();
    batch.ok(json!({"cmd": "stop", "session": session, "force": true}));
    assert!(!workload.is_alive());
    batch.ok(json!({"cmd": "stop", "session": other, "force": true}));
}

/// Whoever comes second finds it ended, and has nothing to tell: neither a receipt of nobody nor another end.
#[test]
fn an_orphan_that_two_managers_reap_ends_once() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    let ledger = rig.ledger("ledger");
    let line = format!("trap '' TERM HUP; {}; :", ledger.noted_line(&format!("sleep {}", rig.nap())));
    let session = batch.launch(json!({"command": ["sh", "-c", line], "host": "pty", "kind": "serve", "grace_s": 1.0}));
    let workload = ledger.one();
    let warden = Watched::of(read(&record(&rig, &session))["warden"]["pid"].as_i64().unwrap().try_into().unwrap());
    warden.kill();
    batch.signal(Signal::KILL);
    assert_eq!(batch.ended(), None, "it was killed");
    workload.assert_alive();
    let mut both = [rig.batch(), rig.batch()];
    let hellos = both.each_mut().map(|batch| batch.ok(json!({"cmd": "hello"})));
    assert!(!workload.is_alive(), "{hellos:#?}");
    let receipts = both[0].ok(json!({"cmd": "logs", "receipts": true, "session": session}));
    assert_eq!(receipts["receipts"].as_array().unwrap().len(), 1, "{receipts:#}");
    let unknown = |hello: &Value| hello["ended"].to_string().contains("nobody knows");
    assert!(!hellos.iter().any(unknown), "{hellos:#?}");
    for mut batch in both {
        batch.finish();
    }
}
