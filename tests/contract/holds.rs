//! A stop that is held before KILL: a real tree that ignores TERM outlives its grace, by a pidfd of the test, and goes
//! when it is let go on.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Batch;
use crate::oracle::Watched;
use crate::rig::{Rig, until};

const GRACE: f64 = 0.4;

/// A session that ignores TERM, with a stop of it under way that is held.
fn held(rig: &Rig, batch: &mut Batch, host: &str, more: &Value) -> (String, String, Watched) {
    let line = format!("trap '' TERM HUP; {}; :", rig.ledger("ledger").noted_line(&format!("sleep {}", rig.nap())));
    let session = batch.launch(json!({"command": line, "host": host, "kind": "serve"}));
    let deaf = rig.ledger("ledger").one();
    let mut stop = json!({"cmd": "stop", "session": session, "grace_s": GRACE, "async": true});
    stop.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let stop = batch.send(stop);
    batch.event("signal", |event| event["event"] == "signal" && event["pid"] == deaf.pid);
    let answer = batch.ok(json!({"cmd": "hold", "session": session}));
    assert_eq!(answer["held"], true);
    let left = answer["left_s"].as_f64().unwrap();
    assert!((590.0..=600.0).contains(&left), "{answer}");
    (session, stop, deaf)
}

fn check_held_and_released(host: &str) {
    let rig = Rig::new();
    let mut batch = rig.batch();
    batch.ok(json!({"cmd": "subscribe"}));
    let (session, stop, deaf) = held(&rig, &mut batch, host, &json!({}));
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs_f64(GRACE * 4.0) {
        deaf.assert_alive();
        assert!(!batch.has_answer(&stop), "the stop has ended while it was held");
    }
    let answer = batch.ok(json!({"cmd": "hold", "session": session, "release": true}));
    assert_eq!(answer, json!({"held": false, "left_s": null}));
    deaf.assert_ends();
    let receipt = batch.answer(&stop)["result"].take();
    assert_eq!((&receipt["dead"], &receipt["escalated"]), (&json!(true), &json!(true)), "{receipt:#}");
    let notes = receipt["notes"].to_string();
    assert!(notes.contains("a person held it before KILL for "), "{notes}");
    let (kind, message) = batch.err(json!({"cmd": "hold", "session": session}));
    assert_eq!(kind, "failed", "{message}");
}

#[test]
fn a_deaf_tree_in_a_pty_lives_while_its_stop_is_held() {
    check_held_and_released("pty");
}

#[test]
fn a_deaf_tree_in_tmux_lives_while_its_stop_is_held() {
    check_held_and_released("tmux");
}

#[test]
fn the_time_of_a_stop_goes_over_a_hold() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    batch.ok(json!({"cmd": "subscribe"}));
    let (session, stop, deaf) = held(&rig, &mut batch, "pty", &json!({"timeout_s": 1.5}));
    let receipt = batch.answer(&stop)["result"].take();
    assert_eq!(receipt["dead"], false, "{receipt:#}");
    deaf.assert_alive();
    batch.ok(json!({"cmd": "stop", "session": session, "force": true}));
    deaf.assert_ends();
}

#[test]
fn who_ends_by_itself_ends_a_stop_that_is_held() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    batch.ok(json!({"cmd": "subscribe"}));
    let (_, stop, deaf) = held(&rig, &mut batch, "pty", &json!({}));
    deaf.kill();
    let receipt = batch.answer(&stop)["result"].take();
    assert_eq!((&receipt["dead"], &receipt["escalated"]), (&json!(true), &json!(false)), "{receipt:#}");
}

/// The input that ends is the manager that goes.
#[test]
fn nothing_stays_held_when_the_manager_goes() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    batch.ok(json!({"cmd": "subscribe"}));
    let (_, _, deaf) = held(&rig, &mut batch, "pty", &json!({}));
    batch.signal(rustix::process::Signal::TERM);
    deaf.assert_ends();
    assert!(batch.ended().is_some());
}

#[test]
fn another_program_holds_it_by_its_owner() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    batch.ok(json!({"cmd": "subscribe"}));
    let (session, stop, deaf) = held(&rig, &mut batch, "pty", &json!({}));
    let ran = rig.run(&["hold", &session, "--release"]);
    assert_eq!((ran.code, ran.text().as_str()), (Some(0), "it goes on\n"), "{ran:?}");
    deaf.assert_ends();
    until("the receipt", || batch.has_answer(&stop));
}
