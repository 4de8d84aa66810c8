//! The journal of receipts: what was ended, by whom, whatever happened to whoever ended it.

use std::io::Write;

use serde_json::{Value, json};

use crate::support::{Batch, Host, Launch, PATIENCE, Session, World, eventually, rows};

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

/// Receipts that wait for the journal, a manager's and a warden's: a sweep writes these; its own, where somebody was left,
/// takes none of them away.
#[test]
fn a_sweep_writes_the_receipts_that_wait() {
    for (by_id, leaves) in [(false, false), (true, false), (true, true)] {
        let world = World::new();
        let mut batch = world.batch();
        let stopped = launched(&world, &mut batch, Host::Tmux, "stopped");
        let expired = launched(&world, &mut batch, Host::Tmux, "expired");
        let mut bystanders = world.bystanders(&["sleep", &world.nap], leaves.then_some(stopped.id.as_str()));
        let path = world.path("state/receipts.jsonl");
        std::fs::create_dir(&path).unwrap();
        let receipt = batch.stop(&stopped.id);
        // One that finds nobody takes nothing away.
        batch.stop(&stopped.id);
        batch.ok(json!({ "cmd": "extend", "session": expired.id, "ceiling_s": 0.3 }));
        world.ledger.await_empty();
        let stored = |session: &Session| world.path(&format!("state/sessions/{}.receipt", session.id));
        eventually("the receipts", || stored(&stopped).is_file() && stored(&expired).is_file());
        for supervisor in &expired.supervisors {
            assert!(supervisor.ends_within(PATIENCE), "{supervisor:?}");
        }
        batch.kill();
        std::fs::remove_dir(&path).unwrap();
        if by_id {
            for session in [&stopped, &expired] {
                let (code, swept) = world.run(&["sweep", &session.id]);
                assert_eq!((code, &swept["dead"]), (0, &json!(true)), "{swept:#}");
            }
        } else {
            let (code, swept) = world.run(&["sweep"]);
            assert_eq!((code, &swept["dead"]), (0, &json!(true)), "{swept:#}");
        }
        let (_, journal) = world.run(&["logs", "--receipts"]);
        let mut written = lines(&journal);
        written.retain(|(_, _, act)| !leaves || *act == "stop");
        written.sort_by_key(|(session, ..)| *session != stopped.id);
        let expected = [(stopped.id.as_str(), "manager", "stop"), (expired.id.as_str(), "warden", "stop")];
        assert_eq!(written, expected, "{journal:#}");
        let of_stop = rows(&journal, "receipts").find(|entry| entry["receipt"]["session"] == stopped.id).unwrap();
        for key in ["captured", "signals", "outcomes"] {
            assert_eq!(of_stop["receipt"][key], receipt[key], "{journal:#}");
        }
        assert!(stored(&stopped).exists() == leaves && !stored(&expired).exists());
        bystanders.assert_untouched();
    }
}
