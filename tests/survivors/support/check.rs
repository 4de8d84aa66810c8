//! The receipt of a stop against the ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use super::world::all_have_cgroups;
use super::{Batch, Bystanders, Entry, Session, World};

/// What is known of a stop beforehand.
pub(crate) struct Ending<'a> {
    pub(crate) session: &'a Session,
    /// Who of the ledger lived when the stop was asked for.
    pub(crate) before: &'a [Entry],
    /// Whether KILL was needed, where that is certain.
    pub(crate) escalated: Option<bool>,
    /// Processes are born while the stop runs: some may die before they write themselves down.
    pub(crate) births: bool,
}

/// Checks that a stop ended exactly the ledger, and that its receipt says so.
#[track_caller]
pub(crate) fn assert_ended(
    world: &World,
    batch: &mut Batch,
    receipt: &Value,
    ending: &Ending<'_>,
    bystanders: &mut Bystanders,
) {
    // The first question: `dead` speaks of now, not of soon.
    let alive = world.ledger.alive();
    assert!(alive.is_empty(), "alive after the stop: {alive:?}\n{receipt:#}");
    bystanders.assert_untouched();
    assert_eq!(receipt["dead"], true, "{receipt:#}");
    for empty in ["survivors", "unverified", "refused", "kept", "escapees", "still_held"] {
        assert_eq!(receipt[empty], Value::Array(Vec::new()), "{empty}\n{receipt:#}");
    }
    assert_eq!(receipt["host_closed"], true, "{receipt:#}");
    let ledger: BTreeMap<(i64, String), Entry> =
        world.ledger.entries().into_iter().map(|entry| (of_entry(&entry), entry)).collect();
    let outcomes: BTreeMap<(i64, String), &str> =
        rows(receipt, "outcomes").map(|row| (of_row(row), row["outcome"].as_str().unwrap())).collect();
    let captured: BTreeSet<(i64, String)> = rows(receipt, "captured").map(of_row).collect();
    for entry in ending.before {
        let key = of_entry(entry);
        assert!(captured.contains(&key), "{entry:?} was not captured\n{receipt:#}");
        assert_eq!(outcomes.get(&key), Some(&"exited"), "{entry:?}\n{receipt:#}");
    }
    let strange = |key: &(i64, String)| !ledger.contains_key(key) && !ending.births;
    let unknown: Vec<_> = captured.iter().chain(outcomes.keys()).filter(|key| strange(key)).collect();
    assert!(unknown.is_empty(), "none of the fixture's: {unknown:?}\n{receipt:#}");
    assert_signals(world, receipt, &|key| ledger.contains_key(key) || ending.births, bystanders);
    let killed = rows(receipt, "signals").any(|row| row["signal"] == "KILL");
    assert_eq!(receipt["escalated"], killed, "{receipt:#}");
    if let Some(escalated) = ending.escalated {
        assert_eq!(receipt["escalated"], escalated, "{receipt:#}");
    }
    let containment: Vec<&str> = rows(receipt, "containment").filter_map(Value::as_str).collect();
    let by_hand =
        rows(receipt, "notes").any(|note| note.as_str().unwrap().starts_with("panes that were opened by hand"));
    assert!(containment.contains(&"tree") && containment.contains(&"warden") != by_hand, "{containment:?}");
    for supervisor in &ending.session.supervisors {
        assert!(supervisor.ends_within(Duration::from_secs(10)), "front or warden stays: {supervisor:?}\n{receipt:#}");
    }
    if let Some(id) = &ending.session.in_tmux {
        assert!(!world.tmux(&["has-session", "-t", id]).status.success(), "{id} is still there");
    }
    let told: BTreeSet<i64> = batch.events().iter().filter(|e| e["event"] == "signal").map(pid).collect();
    assert_eq!(told, rows(receipt, "signals").map(pid).collect(), "events of signals\n{receipt:#}");
}

/// No signal went to anybody who is not allowed, or who was there before the test, or is a bystander.
#[track_caller]
pub(crate) fn assert_signals(
    world: &World,
    receipt: &Value,
    allowed: &dyn Fn(&(i64, String)) -> bool,
    bystanders: &Bystanders,
) {
    let strangers: BTreeSet<(i64, String)> =
        world.strangers.iter().map(|(pid, token)| (i64::from(*pid), token.clone())).collect();
    for row in rows(receipt, "signals") {
        let key = of_row(row);
        assert!(allowed(&key), "a signal to none of the fixture's: {row}\n{receipt:#}");
        assert!(!strangers.contains(&key), "a signal to a stranger: {row}\n{receipt:#}");
        assert!(!bystanders.pids().contains(&key.0), "a signal to a bystander: {row}\n{receipt:#}");
        assert!(row["via"] == world.via() || (all_have_cgroups() && row["via"] == "cgroup"), "{row}");
    }
}

/// Tells whether a member is one for no other reason than that it came back to its warden, the cgroup aside.
pub(crate) fn came_back(row: &Value) -> bool {
    let mut how: Vec<&str> = rows(row, "membership").filter_map(Value::as_str).collect();
    if all_have_cgroups() {
        how.retain(|how| *how != "cgroup");
    }
    how == ["reparented"]
}

/// Returns the rows of a list.
pub(crate) fn rows<'a>(receipt: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    receipt[list].as_array().unwrap_or_else(|| panic!("no {list} in {receipt:#}")).iter()
}

/// Returns the pids of a list.
pub(crate) fn pids(receipt: &Value, list: &str) -> BTreeSet<i64> {
    rows(receipt, list).map(pid).collect()
}

fn pid(row: &Value) -> i64 {
    row["pid"].as_i64().unwrap()
}

fn of_row(row: &Value) -> (i64, String) {
    (pid(row), row["start_token"].as_str().unwrap().to_owned())
}

fn of_entry(entry: &Entry) -> (i64, String) {
    (i64::from(entry.pid), entry.token())
}
