//! Tasks of Cookbook whose tmux session has been started again by the time that they are stopped, as Cookbook does by
//! itself: what is there now is stopped, or nothing is said of it.

use serde_json::{Value, json};

use crate::cookbook::{Kitchen, ONE, assert_note};
use crate::support::{Batch, rows};

const NAME: &str = "serve-0000000a";
const SECOND: &str = "marked $FX/heard; log second; while :; do sleep 0.1; done";

/// A task that runs, and who has looked at it.
fn looked_at() -> (Kitchen, Batch) {
    let kitchen = Kitchen::new(ONE);
    kitchen.session(NAME, "leaf first");
    kitchen.world.ledger.await_roles(&["first"]);
    let batch = kitchen.world.batch();
    (kitchen, batch)
}

/// Another session of the same name takes the place of the one that was looked at.
fn start_again(kitchen: &Kitchen) {
    kitchen.ask(&["kill-session", "-t", &format!("={NAME}")]);
    kitchen.session(NAME, SECOND);
    kitchen.world.ledger.await_roles(&["second"]);
}

/// Its pane runs something else.
fn run_again(kitchen: &Kitchen) {
    let second = kitchen.world.shell(SECOND);
    kitchen.ask(&["respawn-pane", "-k", "-t", &format!("={NAME}:"), "bash", &second]);
    kitchen.world.ledger.await_roles(&["second"]);
}

#[test]
fn what_was_shown_is_not_there_any_more() {
    for change in [run_again, start_again] {
        let (kitchen, mut batch) = looked_at();
        let world = &kitchen.world;
        let plan = batch.ok(json!({ "cmd": "stop", "session": "n", "dry_run": true }));
        let confirm: Vec<Value> =
            rows(&plan, "plan").map(|row| json!({ "pid": row["pid"], "start_token": row["start_token"] })).collect();
        change(&kitchen);
        let error = batch.error(json!({ "cmd": "stop", "session": "n", "confirm": confirm }));
        assert!(error["kind"] == "refused" || error["kind"] == "unverifiable", "{error}");
        assert_eq!((world.ledger.is_alive("second"), world.text("heard").as_str()), (true, ""));
        assert_eq!((batch.signals(), kitchen.state().as_str()), (0, ONE));
    }
}

#[test]
fn what_is_there_now_is_stopped() {
    let (kitchen, mut batch) = looked_at();
    batch.ok(json!({ "cmd": "list" }));
    start_again(&kitchen);
    let receipt = batch.stop("n");
    assert_eq!(receipt["dead"], true, "{receipt:#}");
    assert!(kitchen.world.ledger.alive().is_empty());
    assert_eq!(kitchen.state(), ONE.replace("running", "stopped"));
}

/// One that a person has taken in is known by its identities: another of its name is none of it, and the task runs on.
#[test]
fn a_task_that_runs_again_is_not_marked() {
    let (kitchen, mut batch) = looked_at();
    batch.ok(json!({ "cmd": "adopt", "tmux": { "session": NAME } }));
    start_again(&kitchen);
    let receipt = batch.stop("n");
    assert_note(&receipt, "not marked as stopped: a tmux session of its name has been started again");
    assert_eq!((kitchen.world.ledger.is_alive("second"), kitchen.world.text("heard").as_str()), (true, ""));
    assert_eq!((batch.signals(), kitchen.state().as_str()), (0, ONE));
    // The next look sees what runs.
    let receipt = batch.stop("n");
    assert!(receipt["dead"] == true && kitchen.world.ledger.alive().is_empty(), "{receipt:#}");
    assert_eq!(kitchen.state(), ONE.replace("running", "stopped"));
}
