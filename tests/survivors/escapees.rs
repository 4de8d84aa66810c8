//! Daemons that left the tree of a shell stay, and are told; those of an agent go.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::matrix::in_both;
use crate::support::{Batch, Host, Launch, Session, World, came_back, eventually, pids, rows};

in_both! { of_a_shell of_an_agent }

/// Starts an interactive shell and types a command into it that leaves a daemon behind.
fn with_daemon(world: &World, batch: &mut Batch, host: Host, kind: &str) -> Session {
    let argv = ["bash", "--norc", "-i"];
    let session = world.launch(batch, &Launch { host, kind, grace_s: 5.0, argv: &argv });
    let deep = world.shell("log daemon; (leaf deep) & wait");
    let child = world.shell("leaf child");
    let typed = format!("setsid -f bash {deep} < /dev/null > /dev/null 2>&1; bash {child}");
    batch.ok(json!({ "cmd": "send", "session": session.id, "text": typed, "keys": ["Enter"] }));
    world.ledger.await_roles(&["daemon", "deep", "child"]);
    eventually("the return to the warden", || {
        let tree = batch.ok(json!({ "cmd": "tree", "session": session.id }));
        let daemon = i64::from(world.ledger.of("daemon").pid);
        rows(&tree, "processes").any(|row| row["pid"] == daemon && came_back(row))
    });
    session
}

fn daemons(world: &World) -> BTreeSet<i64> {
    ["daemon", "deep"].map(|role| i64::from(world.ledger.of(role).pid)).into()
}

fn of_a_shell(host: Host) {
    let world = World::new();
    let mut batch = world.batch();
    let session = with_daemon(&world, &mut batch, host, "shell");
    let mut bystanders = world.bystanders(&["sleep", &world.nap], Some(&session.id));
    let receipt = batch.stop(&session.id);
    let still_lives = |when: &str| {
        assert!(world.ledger.is_alive("daemon") && world.ledger.is_alive("deep"), "{when}\n{receipt:#}");
    };
    still_lives("after the stop");
    assert!(!world.ledger.is_alive("child"), "{receipt:#}");
    assert_eq!(receipt["dead"], true, "{receipt:#}");
    assert_eq!(receipt["survivors"], json!([]), "{receipt:#}");
    assert_eq!(pids(&receipt, "escapees"), daemons(&world), "{receipt:#}");
    let signalled = pids(&receipt, "signals");
    assert!(signalled.is_disjoint(&daemons(&world)), "{receipt:#}");
    assert!(signalled.is_disjoint(&bystanders.pids()), "{receipt:#}");
    bystanders.assert_untouched();
    assert_eq!(batch.finish().code(), Some(0), "escapees are reported, not a failure");
    // Its warden has lost its owner by now, and must not make good for what the stop left alive.
    std::thread::sleep(std::time::Duration::from_millis(700));
    still_lives("after the quit");
}

fn of_an_agent(host: Host) {
    let world = World::new();
    let mut batch = world.batch();
    let session = with_daemon(&world, &mut batch, host, "agent");
    let mut bystanders = world.bystanders(&["sleep", &world.nap], Some(&session.id));
    let receipt = batch.stop(&session.id);
    assert!(world.ledger.alive().is_empty(), "{receipt:#}");
    assert_eq!(receipt["dead"], true, "{receipt:#}");
    assert_eq!(receipt["escapees"], json!([]), "{receipt:#}");
    for daemon in daemons(&world) {
        let outcome = rows(&receipt, "outcomes").find(|row| row["pid"] == daemon);
        assert_eq!(outcome.map(|row| &row["outcome"]), Some(&Value::from("exited")), "{receipt:#}");
    }
    bystanders.assert_untouched();
    assert_eq!(batch.finish().code(), Some(0));
}

/// The owner of a shell is killed: its warden ends the tree and leaves what a stop would have left.
#[test]
fn of_a_shell_whose_owner_was_killed() {
    let world = World::new();
    let mut batch = world.batch();
    let session = with_daemon(&world, &mut batch, Host::Pty, "shell");
    batch.kill();
    eventually("the end of the shell's child", || !world.ledger.is_alive("child"));
    eventually("the receipt of the warden", || world.path(&format!("state/sessions/{}.receipt", session.id)).exists());
    assert!(world.ledger.is_alive("daemon") && world.ledger.is_alive("deep"), "reported, not swept");
    let receipt: Value = serde_json::from_str(&world.text(&format!("state/sessions/{}.receipt", session.id))).unwrap();
    assert_eq!(pids(&receipt, "escapees"), daemons(&world), "{receipt:#}");
}
