//! The other ways to look: ps(1), and nobody.

use serde_json::json;

use crate::oracle::{Bystanders, Watched};
use crate::rig::{Rig, until};

#[test]
fn ps_is_enough_for_a_plain_tree() {
    for host in ["pty", "tmux"] {
        let rig = Rig::new();
        let nap = rig.nap();
        let mut strangers = Bystanders::new(&["sleep", &nap]);
        let ledger = rig.ledger("ledger");
        let worker = ledger.noted_line(&format!("sleep {nap}"));
        let mut batch = rig.batch_with(&[], &["--inspector", "ps"]);
        assert_eq!(batch.ok(json!({"cmd": "hello"}))["inspector"], "ps");
        let script = format!("sh -c '{worker} & wait' & {worker} & wait");
        let launched = batch.ok(json!({"cmd": "launch", "command": script, "kind": "serve", "host": host}));
        let (session, workers) = (launched["session"].as_str().unwrap(), ledger.wait(2));
        let root = Watched::of(i32::try_from(launched["pid"].as_i64().unwrap()).unwrap());
        assert!(launched["start_token"].as_str().unwrap().starts_with("ps:"), "{launched}");
        let tree = batch.ok(json!({"cmd": "tree", "session": session}));
        let rows = tree["processes"].as_array().unwrap();
        assert_eq!(rows.len(), 4, "{host}: {tree}");
        for watched in workers.iter().chain([&root]) {
            let row = rows.iter().find(|row| row["pid"] == watched.pid).unwrap();
            assert!(row["membership"].as_array().unwrap().contains(&json!("tree")), "{row}");
        }
        let receipt = batch.ok(json!({"cmd": "stop", "session": session}));
        assert_eq!(receipt["dead"], json!(true), "{host}: {receipt}");
        for watched in workers.iter().chain([&root]) {
            watched.assert_ends();
        }
        strangers.assert_alive();
        assert_eq!(batch.finish(), Some(0));
        rig.assert_empty();
    }
}

#[test]
fn nobody_launches_what_nobody_can_identify() {
    let rig = Rig::new();
    let ledger = rig.ledger("ledger");
    let mut batch = rig.batch_with(&[], &["--inspector", "none"]);
    assert_eq!(batch.ok(json!({"cmd": "hello"}))["inspector"], "none");
    for host in ["pty", "tmux"] {
        let launch = json!({"cmd": "launch", "command": ledger.noted(&["sleep", "1"]), "host": host});
        let (kind, message) = batch.err(launch);
        assert_eq!(kind, "unverifiable", "{message}");
        assert!(message.contains("inspector") && message.contains("none"), "{message}");
    }
    assert_eq!(batch.finish(), Some(3));
    assert_eq!(ledger.entries().len(), 0);
    assert_eq!(rig.records(), [""; 0]);
    rig.assert_empty();
}

/// A session in tmux with one worker, launched with eyes open.
fn launched(rig: &Rig) -> (String, Watched, Bystanders) {
    let nap = rig.nap();
    let strangers = Bystanders::new(&["sleep", &nap]);
    let ledger = rig.ledger("ledger");
    let launched = rig.launch_tmux(&["--kind", "serve"], &ledger.noted(&["sleep", &nap]));
    (launched["session"].as_str().unwrap().to_owned(), ledger.one(), strangers)
}

#[test]
fn without_an_inspector_nothing_is_known_and_nothing_is_called_gone() {
    let rig = Rig::new();
    let (session, workload, mut strangers) = launched(&rig);
    let row = rig.json(&["--inspector", "none", "ls"])["sessions"][0].take();
    assert_eq!((&row["verdict"], &row["phase"]), (&json!("unverifiable"), &json!("unverifiable")), "{row}");
    assert_eq!(
        (&row["cpu_pct"], &row["rss_bytes"], &row["ports"]),
        (&json!(null), &json!(null), &json!(null)),
        "{row}"
    );
    let waited = rig.run(&["--inspector", "none", "wait", &session, "--for", "gone", "--timeout", "0.3"]);
    assert_eq!(waited.code, Some(1), "{waited:?}");
    workload.assert_alive();
    strangers.assert_alive();
}

/// Its identities are of another kind: nobody can tell who is there, and nobody is told of an end.
#[test]
fn what_another_inspector_has_recorded_has_not_ended() {
    let rig = Rig::new();
    let (session, workload, mut strangers) = launched(&rig);
    let mut batch = rig.batch_with(&[], &["--inspector", "ps"]);
    batch.ok(json!({"cmd": "subscribe"}));
    let (kind, message) = batch.err(json!({"cmd": "wait", "session": session, "for": "exit", "timeout_s": 1.5}));
    assert_eq!(kind, "timeout", "{message}");
    let list = batch.ok(json!({"cmd": "list"}));
    assert_eq!(list["sessions"][0]["phase"], "unverifiable", "{list:#}");
    let ended = batch.events.iter().find(|event| event["event"] == "exited" || event["phase"] == "failed");
    assert_eq!(ended, None);
    workload.assert_alive();
    strangers.assert_alive();
}

#[test]
fn a_tree_that_nobody_can_see_is_not_an_empty_one() {
    let rig = Rig::new();
    let (session, _workload, _strangers) = launched(&rig);
    let ran = rig.run(&["--inspector", "none", "tree", &session, "--json"]);
    let answer = &ran.lines()[0];
    let told = answer["error"]["kind"] == "unverifiable"
        || answer["processes"].as_array().is_some_and(|rows| rows.iter().any(|row| row["verdict"] == "unverifiable"));
    assert!(told, "{ran:?}");
}

#[test]
fn a_blind_stop_closes_the_host_and_says_that_it_was_blind() {
    let rig = Rig::new();
    let (session, workload, mut strangers) = launched(&rig);
    let ran = rig.run(&["--inspector", "none", "stop", &session, "--json"]);
    let receipt = &ran.lines()[0];
    assert_eq!((&receipt["dead"], &receipt["host_closed"]), (&json!(null), &json!(true)), "{receipt}");
    assert_eq!(receipt["signals"], json!([]), "{receipt}");
    assert!(receipt["notes"].to_string().contains("could not look"), "{receipt}");
    // The warden has eyes: the closed pane is enough for it.
    workload.assert_ends();
    strangers.assert_alive();
    // Whether its tmux server has left with its last session is for somebody with eyes to say.
    let blind = |words: &[&str]| rig.run(&[&["--inspector", "none"], words].concat());
    until("its tmux server cannot be reached", || {
        let ran = blind(&["sweep", &session, "--json"]);
        assert!(!ran.text().contains("lives, but"), "{ran:?}");
        ran.text().contains("without an inspector nobody can tell whether it lives")
    });
    let listed = blind(&["ls", "--json"]);
    assert!(!listed.text().contains("lives, but"), "{listed:?}");
    // Once somebody can look again, it is settled.
    until("the record says how it ended", || rig.json(&["ls"])["sessions"][0]["phase"] != "unverifiable");
    assert_eq!(rig.run(&["sweep"]).code, Some(0));
    assert_eq!(rig.json(&["ls"]), json!({"sessions": []}));
    rig.assert_empty();
}

#[test]
fn a_blind_stop_is_not_all_well() {
    let rig = Rig::new();
    let (session, workload, _strangers) = launched(&rig);
    let ran = rig.run(&["--inspector", "none", "stop", &session]);
    assert!(ran.text().contains("nobody can tell") && ran.text().contains("could not look"), "{ran:?}");
    workload.assert_ends();
    assert_eq!(ran.code, Some(3), "nothing was verified: {ran:?}");
}
