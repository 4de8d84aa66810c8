//! A record that is lost, with its whole state directory: the warden still knows who is below it.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::matrix::in_both;
use crate::support::{Batch, Bystanders, Held, Host, Launch, PATIENCE, Session, World, eventually, pids};

in_both! { the_warden_is_told_to_end_it the_ceiling_comes }

/// Everybody is deaf, and one is a daemon.
fn deaf(world: &World, batch: &mut Batch, host: Host, ceiling_s: Option<f64>) -> (Session, Bystanders) {
    let daemon = world.shell("trap '' TERM HUP; leaf far");
    let script = world.shell(&format!(
        "trap '' TERM HUP; log root; (setsid bash {daemon} < /dev/null > /dev/null 2>&1 &); (leaf child) & wait; wait"
    ));
    let argv = ["bash", script.as_str()];
    let session = world.launch(batch, &Launch { host, kind: "serve", grace_s: 0.4, argv: &argv });
    if let Some(ceiling_s) = ceiling_s {
        batch.ok(json!({ "cmd": "extend", "session": session.id, "ceiling_s": ceiling_s }));
    }
    world.ledger.await_roles(&["root", "far", "child"]);
    let bystanders = world.bystanders(&["sleep", &world.nap], Some(&session.id));
    (session, bystanders)
}

fn lose(world: &World) {
    // Somebody may be writing there.
    eventually("the end of the state directory", || std::fs::remove_dir_all(world.path("state")).is_ok());
}

fn warden_of(session: &Session) -> &Held {
    let is_warden = |held: &&Held| {
        let line = std::fs::read(format!("/proc/{}/cmdline", held.entry.pid)).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == b"__warden")
    };
    session.supervisors.iter().find(is_warden).expect("it has a warden")
}

/// Nobody of the tree lives, nobody else was touched, and the journal that was begun anew says so.
#[track_caller]
fn assert_over(world: &World, session: &Session, mut bystanders: Bystanders, cause: &str) {
    world.ledger.await_empty();
    for supervisor in &session.supervisors {
        assert!(supervisor.ends_within(PATIENCE), "{supervisor:?}");
    }
    bystanders.assert_untouched();
    let journal = world.text("state/receipts.jsonl");
    let lines: Vec<Value> = journal.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 1, "{journal}");
    let receipt = &lines[0]["receipt"];
    assert_eq!(
        (&lines[0]["by"], &receipt["dead"], &receipt["escalated"]),
        (&json!("warden"), &json!(true), &json!(true))
    );
    assert!(receipt["notes"][0].as_str().unwrap().contains(cause), "{receipt:#}");
    let ledger = world.ledger.entries().iter().map(|entry| i64::from(entry.pid)).collect();
    assert_eq!(pids(receipt, "outcomes"), ledger, "{receipt:#}");
}

fn the_warden_is_told_to_end_it(host: Host) {
    let world = World::new();
    let mut batch = world.batch();
    let (session, bystanders) = deaf(&world, &mut batch, host, None);
    lose(&world);
    std::thread::sleep(Duration::from_millis(200));
    assert!(world.ledger.is_alive("root"), "a record that is lost is no reason to end anybody");
    warden_of(&session).signal(Signal::TERM);
    assert_over(&world, &session, bystanders, "told to end it");
}

fn the_ceiling_comes(host: Host) {
    let world = World::new();
    let mut batch = world.batch();
    let (session, bystanders) = deaf(&world, &mut batch, host, Some(4.0));
    lose(&world);
    assert!(world.ledger.is_alive("root"), "its ceiling has not come");
    assert_over(&world, &session, bystanders, "ceiling");
}

/// The owner of a PTY goes after the record did.
#[test]
fn the_owner_goes() {
    let world = World::new();
    let mut batch = world.batch();
    let (session, bystanders) = deaf(&world, &mut batch, Host::Pty, None);
    lose(&world);
    batch.kill();
    assert_over(&world, &session, bystanders, "owner is gone");
}

/// The pane of a session in tmux goes after the record did.
#[test]
fn the_pane_goes() {
    let world = World::new();
    let mut batch = world.batch();
    let (session, bystanders) = deaf(&world, &mut batch, Host::Tmux, None);
    batch.kill();
    lose(&world);
    assert!(world.tmux(&["kill-session", "-t", session.in_tmux.as_deref().unwrap()]).status.success());
    assert_over(&world, &session, bystanders, "pane is gone");
}
