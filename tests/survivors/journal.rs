//! The journal of receipts: what was ended, by whom, whatever happened to whoever ended it.

use std::io::Write;

use serde_json::{Value, json};

use crate::support::{Batch, Host, Launch, Session, World, eventually, rows};

fn launched(world: &World, batch: &mut Batch, host: Host, role: &str) -> Session {
    let script = world.shell(&format!("leaf {role}"));
    let session = world.launch(batch, &Launch { host, kind: "serve", grace_s: 0.5, argv: &["bash", &script] });
    world.ledger.await_roles(&[role]);
    session
}

fn lines(journal: &Value) -> Vec<(&str, &str, &str)> {
    rows(journal, "receipts")
        .map(|entry| {
            let words = [&entry["receipt"]["session"], &entry["by"], &entry["act"]];
            words.map(|word| word.as_str().unwrap()).into()
        })
        .collect()
}

#[test]
fn every_end_is_a_line() {
    let world = World::new();
    let mut batch = world.batch();
    let (stopped, orphaned, expired) = (
        launched(&world, &mut batch, Host::Tmux, "stopped"),
        launched(&world, &mut batch, Host::Pty, "orphaned"),
        launched(&world, &mut batch, Host::Tmux, "expired"),
    );
    let root = i64::from(world.ledger.of("stopped").pid);
    let receipt = batch.stop(&stopped.id);
    let journal = batch.ok(json!({ "cmd": "logs", "receipts": true }));
    assert_eq!(lines(&journal), [(stopped.id.as_str(), "manager", "stop")], "{journal:#}");
    assert_eq!(journal["receipts"][0]["receipt"], receipt, "what was answered is what is kept");
    let dry = batch.ok(json!({ "cmd": "stop", "session": expired.id, "dry_run": true }));
    assert!(dry["plan"].is_array());
    batch.kill();
    world.run(&["extend", &expired.id, "0.5"]);
    world.ledger.await_empty();
    for session in [&orphaned, &expired] {
        eventually("the warden's line", || {
            let (code, journal) = world.run(&["logs", "--receipts", &session.id]);
            code == 0 && lines(&journal) == [(session.id.as_str(), "warden", "stop")]
        });
    }
    let (code, journal) = world.run(&["logs", "--receipts"]);
    assert_eq!(code, 0);
    let totals = &journal["totals"];
    assert_eq!((&totals["receipts"], &totals["dead"]), (&json!(3), &json!(3)), "{journal:#}");
    // The hang-up of its terminal may have ended the orphaned one before its warden looked.
    assert!((2..=3).contains(&totals["exited"].as_u64().unwrap()), "{journal:#}");
    assert_eq!(journal["receipts"][0]["receipt"]["outcomes"][0]["pid"], root, "{journal:#}");
    // A crash in the middle of a line.
    let path = world.path("state/receipts.jsonl");
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"{\"at\":1,\"by\":\"mana").unwrap();
    let (code, torn) = world.run(&["logs", "--receipts"]);
    assert_eq!((code, &torn["skipped"], &torn["totals"]), (0, &json!(1), totals), "{torn:#}");
    let mut batch = world.batch();
    let after = launched(&world, &mut batch, Host::Pty, "after");
    batch.stop(&after.id);
    let journal = batch.ok(json!({ "cmd": "logs", "receipts": true, "tail": 1 }));
    assert_eq!(lines(&journal), [(after.id.as_str(), "manager", "stop")], "{journal:#}");
    let error = batch.error(json!({ "cmd": "logs" }));
    assert_eq!(error["kind"], "usage", "{error}");
}
