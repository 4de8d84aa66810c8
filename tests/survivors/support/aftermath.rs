//! What must hold after a manager died at the worst moment: one restart, and everybody is accounted for.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Batch, Bystanders, PATIENCE, World, eventually, rows};

/// How long somebody may be alive without a record while a warden ends its tree.
const UNRECORDED: Duration = Duration::from_secs(8);

/// Starts a manager where another one died, checks that no living process of the ledger is unknown to it, and
/// ends every session.
#[track_caller]
pub(crate) fn settle(world: &World, bystanders: &mut Bystanders, what: &str) {
    let mut batch = world.batch();
    let mut unknown_since: Option<Instant> = None;
    loop {
        let alive = world.ledger.alive();
        let known = known_pids(&mut batch);
        let lost: Vec<_> = alive.iter().filter(|entry| !known.contains(&i64::from(entry.pid))).collect();
        let still = world.ledger.alive();
        let lost: Vec<_> = lost.into_iter().filter(|entry| still.contains(entry)).collect();
        if lost.is_empty() {
            break;
        }
        let since = *unknown_since.get_or_insert_with(Instant::now);
        assert!(since.elapsed() < UNRECORDED, "{what}: alive and in no record: {lost:?}");
        std::thread::sleep(Duration::from_millis(30));
    }
    let quarantined = batch.ok(json!({ "cmd": "orphans" }))["quarantined"].clone();
    assert_eq!(quarantined, json!([]), "{what}: a record that cannot be read");
    for session in sessions(&mut batch) {
        let answer = batch.request(json!({ "cmd": "stop", "session": session["session"], "grace_s": 0.3 }));
        // Its warden may have ended it meanwhile.
        let gone = answer["error"]["kind"] == "not_found";
        assert!(gone || answer["result"]["dead"] == true, "{what}: {answer:#}");
    }
    let until = Instant::now() + PATIENCE;
    while !world.ledger.alive().is_empty() {
        assert!(Instant::now() < until, "{what}: orphans: {:?}", world.ledger.alive());
        std::thread::sleep(Duration::from_millis(10));
    }
    let orphans = batch.ok(json!({ "cmd": "orphans", "reap": true }));
    assert_eq!(orphans["orphans"], json!([]), "{what}: {orphans:#}");
    bystanders.assert_untouched();
    assert!(batch.finish().code().is_some(), "{what}");
    eventually(&format!("{what}: the end of fronts and wardens"), || world.stages().is_empty());
}

fn sessions(batch: &mut Batch) -> Vec<Value> {
    let listed = batch.ok(json!({ "cmd": "list" }));
    rows(&listed, "sessions").cloned().collect()
}

/// Returns every process that some record leads to.
fn known_pids(batch: &mut Batch) -> BTreeSet<i64> {
    let mut known = BTreeSet::new();
    for session in sessions(batch) {
        let tree = batch.request(json!({ "cmd": "tree", "session": session["session"] }));
        for list in ["processes", "escapees"] {
            known.extend(tree["result"][list].as_array().into_iter().flatten().filter_map(|row| row["pid"].as_i64()));
        }
    }
    known
}
