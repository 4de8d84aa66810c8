//! What a subscriber is told, in which order, and that a slow one delays nobody.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::oracle::Bystanders;
use crate::rig::{Rig, until, wait};

/// Checks what holds of every stream: numbers without a gap, a time, a known name, a session.
fn check_stream(events: &[Value]) {
    const NAMES: [&str; 11] = [
        "launched",
        "phase",
        "verdict",
        "process_new",
        "process_gone",
        "signal",
        "survivor",
        "exited",
        "receipt",
        "attention",
        "lagged",
    ];
    for (index, event) in events.iter().enumerate() {
        assert!(NAMES.contains(&event["event"].as_str().unwrap()), "{event}");
        assert_eq!(event["seq"], json!(index + 1), "{event}");
        assert!(event["session"].is_string() && event["t_ms"].is_u64(), "{event}");
    }
}

fn is(event: &Value, name: &str, pid: i32) -> bool {
    event["event"] == name && event["pid"] == pid
}

#[test]
fn a_life_is_told_from_launch_to_exit() {
    let rig = Rig::new();
    let (parent, child) = (rig.ledger("parent"), rig.ledger("child"));
    let script = format!("read x; {} & wait; read y; exit 3", child.noted_line("sleep 2.5"));
    let mut batch = rig.batch();
    batch.ok(json!({"cmd": "subscribe"}));
    let session = batch.launch(
        json!({"command": parent.noted(&["sh", "-c", &script]), "name": "told", "kind": "agent", "host": "pty"}),
    );
    let parent = parent.one();
    let launched = batch.event("launched", |event| event["event"] == "launched");
    let expected = json!({"event": "launched", "session": session, "name": "told", "kind": "agent", "host": "pty", "pid": parent.pid});
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&launched[key], value, "{launched}");
    }
    batch.event("phase running", |event| event["event"] == "phase" && event["phase"] == "running");
    batch.ok(json!({"cmd": "send", "session": session, "keys": ["Enter"]}));
    let child = child.one();
    let new = batch.event("process_new", |event| is(event, "process_new", child.pid));
    assert!(new["command"].as_str().unwrap().ends_with("sleep 2.5"), "{new}");
    let gone = batch.event("process_gone", |event| is(event, "process_gone", child.pid));
    assert_eq!((&gone["session"], child.is_alive()), (&json!(session), false));
    batch.ok(json!({"cmd": "send", "session": session, "keys": ["Enter"]}));
    let exited = batch.event("exited", |event| event["event"] == "exited");
    assert_eq!((&exited["exit_code"], &exited["signal"]), (&json!(3), &Value::Null), "{exited}");
    batch.event("phase failed", |event| event["event"] == "phase" && event["phase"] == "failed");
    batch.event("its end", |event| is(event, "process_gone", parent.pid));
    assert_eq!(batch.finish(), Some(0));
    let receipts = batch.events.iter().filter(|event| event["event"] == "receipt").count();
    assert_eq!(receipts, 1, "the end of the batch settles it: {:#?}", batch.events);
    check_stream(&batch.events);
}

#[test]
fn a_stop_is_told_signal_by_signal() {
    let rig = Rig::new();
    let nap = rig.nap();
    let mut strangers = Bystanders::new(&["sleep", &nap]);
    let ledger = rig.ledger("ledger");
    // In kernel sessions of their own: no hang-up of the terminal ends them before they are signalled.
    let worker = ledger.noted_line(&format!("sleep {nap}"));
    let script = format!("setsid {worker} & setsid {worker} & wait");
    let mut batch = rig.batch();
    batch.ok(json!({"cmd": "subscribe"}));
    let session = batch.launch(json!({"command": script, "kind": "serve", "host": "pty"}));
    let workers = ledger.wait(2);
    let mut receipt = batch.ok(json!({"cmd": "stop", "session": session}));
    let told = batch.event("receipt", |event| event["event"] == "receipt")["receipt"].take();
    assert_eq!(told, receipt);
    assert_eq!(batch.finish(), Some(0));
    for worker in &workers {
        worker.assert_ends();
    }
    strangers.assert_alive();
    check_stream(&batch.events);
    let signals: Vec<(Value, Value)> = batch
        .events
        .iter()
        .filter(|event| event["event"] == "signal")
        .map(|event| (event["pid"].clone(), event["signal"].clone()))
        .collect();
    let sent = receipt["signals"].take();
    let sent: Vec<(Value, Value)> =
        sent.as_array().unwrap().iter().map(|row| (row["pid"].clone(), row["signal"].clone())).collect();
    assert_eq!(signals, sent);
    assert!(workers.iter().all(|worker| sent.contains(&(json!(worker.pid), json!("TERM")))), "{sent:?}");
    let at = |name: &str| batch.events.iter().position(|event| event["event"] == name).unwrap();
    let stopping = batch.events.iter().position(|event| event["phase"] == "stopping").unwrap();
    assert!(stopping < at("signal") && at("signal") < at("process_gone") && at("process_gone") < at("receipt"));
}

/// Returns the events of a session that was stopped while its two processes ran.
fn events_of_a_stop() -> Vec<Value> {
    let rig = Rig::new();
    let ledger = rig.ledger("ledger");
    let mut batch = rig.batch();
    batch.ok(json!({"cmd": "subscribe"}));
    let script = format!("{}; true", ledger.noted_line(&format!("sleep {}", rig.nap())));
    let session = batch.launch(json!({"command": script}));
    ledger.one();
    batch.ok(json!({"cmd": "tree", "session": session}));
    batch.ok(json!({"cmd": "stop", "session": session}));
    assert_eq!(batch.finish(), Some(0));
    std::mem::take(&mut batch.events)
}

#[test]
fn every_process_goes_once_and_with_its_command() {
    let mut gone: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    for event in events_of_a_stop().iter().filter(|event| event["event"] == "process_gone") {
        gone.entry(event["pid"].as_i64().unwrap()).or_default().push(event["command"].as_str().unwrap().to_owned());
    }
    assert_eq!(gone.len(), 2, "{gone:?}");
    assert!(gone.values().all(|commands| matches!(commands.as_slice(), [one] if !one.is_empty())), "{gone:?}");
}

#[test]
fn what_was_stopped_has_not_failed() {
    let events = events_of_a_stop();
    let phases = events.iter().filter(|event| event["event"] == "phase").map(|event| event["phase"].as_str().unwrap());
    let phases: Vec<&str> = phases.collect();
    assert_eq!(phases, ["running", "stopping", "exited"]);
}

/// Returns the events of thirty short lives.
fn events_of_many() -> Vec<Value> {
    let rig = Rig::new();
    let mut batch = rig.batch();
    batch.ok(json!({"cmd": "subscribe"}));
    for _ in 0..30 {
        batch.launch(json!({"command": ["true"]}));
    }
    assert_eq!(batch.finish(), Some(0));
    check_stream(&batch.events);
    std::mem::take(&mut batch.events)
}

#[test]
fn time_goes_forward() {
    let times: Vec<u64> = events_of_many().iter().map(|event| event["t_ms"].as_u64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn nothing_is_told_of_a_session_before_its_launch() {
    let events = events_of_many();
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    for event in &events {
        first.entry(event["session"].as_str().unwrap()).or_insert(event["event"].as_str().unwrap());
    }
    assert_eq!(first.len(), 30);
    assert!(first.values().all(|event| *event == "launched"), "{first:?}");
}

#[test]
fn a_reader_that_does_not_read_delays_no_stop() {
    let rig = Rig::new();
    let nap = rig.nap();
    let mut strangers = Bystanders::new(&["sleep", &nap]);
    let ledger = rig.ledger("ledger");
    let mut command = rig.command(&["--batch"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    writeln!(input, "{}", json!({"cmd": "subscribe"})).unwrap();
    writeln!(input, "{}", json!({"id": "launch", "cmd": "launch", "command": ledger.noted(&["sleep", &nap])})).unwrap();
    let workload = ledger.one();
    // Far more than a pipe holds.
    let hello = format!("{{\"id\":\"{}\",\"cmd\":\"hello\"}}\n", "x".repeat(400)).repeat(1000);
    input.write_all(hello.as_bytes()).unwrap();
    writeln!(input, "{}", json!({"id": "stop", "cmd": "stop", "session": "$last"})).unwrap();
    workload.assert_ends();
    strangers.assert_alive();
    drop(input);
    // Nothing was lost but events, if anything.
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    assert_eq!(wait(&mut child), Some(0));
    let answers: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line.get("ok").is_some())
        .collect();
    assert_eq!(answers.len(), 1003);
    assert_eq!(answers.last().unwrap()["result"]["dead"], json!(true));
    rig.assert_empty();
}

#[test]
fn a_reader_that_left_delays_no_stop() {
    let rig = Rig::new();
    let nap = rig.nap();
    let mut strangers = Bystanders::new(&["sleep", &nap]);
    let (first, second) = (rig.ledger("first"), rig.ledger("second"));
    let mut child = rig.command(&["--batch"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{}", json!({"cmd": "launch", "command": first.noted(&["sleep", &nap])})).unwrap();
    let first = first.one();
    writeln!(input, "{}", json!({"cmd": "launch", "command": second.noted(&["sleep", &nap])})).unwrap();
    let second = second.one();
    drop(child.stdout.take());
    first.assert_ends();
    second.assert_ends();
    assert_eq!(wait(&mut child), Some(1), "it was ended by SIGPIPE");
    strangers.assert_alive();
    until("nothing is left", || rig.processes().is_empty());
}
