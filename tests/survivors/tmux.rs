//! tmux that does not do its part: linked windows, a server that is stopped, hidden or dead, and
//! somebody else's kill-session.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Batch, Held, Host, Launch, PATIENCE, Session, World, eventually, pids, rows};

/// A tree that writes down every signal it hears; it dies of none but KILL.
const LISTENING: &str = "marked $FX/heard; log root; (leaf child) & while :; do wait; sleep 0.1; done";

fn launched(world: &World, batch: &mut Batch, script: &str) -> Session {
    let script = world.shell(script);
    let launch = Launch { host: Host::Tmux, kind: "serve", grace_s: 0.5, argv: &["bash", &script] };
    let session = world.launch(batch, &launch);
    world.ledger.await_roles(&["root", "child"]);
    session
}

/// Nothing was signalled: neither the tree nor we know of any.
#[track_caller]
fn assert_untouched(world: &World, batch: &mut Batch) {
    assert!(world.ledger.is_alive("root") && world.ledger.is_alive("child"));
    assert_eq!(world.text("heard"), "");
    let signals: Vec<&Value> = batch.events().iter().filter(|event| event["event"] == "signal").collect();
    assert!(signals.is_empty(), "{signals:?}");
}

#[track_caller]
fn assert_stops(world: &World, batch: &mut Batch, session: &Session) {
    let receipt = batch.stop(&session.id);
    let left: Vec<_> = world.ledger.alive().into_iter().filter(|entry| entry.role != "other").collect();
    assert!(left.is_empty(), "{left:?}\n{receipt:#}");
    assert_eq!(receipt["dead"], true, "{receipt:#}");
    assert_eq!(receipt["host_closed"], true, "{receipt:#}");
    assert!(!world.tmux(&["has-session", "-t", session.in_tmux.as_deref().unwrap()]).status.success());
}

#[test]
fn a_window_that_is_linked_into_another_session() {
    let world = World::new();
    let mut batch = world.batch();
    let session = launched(&world, &mut batch, LISTENING);
    let other = world.shell("leaf other");
    assert!(world.tmux(&["new-session", "-d", "-s", "other", "bash", &other]).status.success());
    world.ledger.await_roles(&["other"]);
    let window = format!("{}:0", session.in_tmux.as_deref().unwrap());
    assert!(world.tmux(&["link-window", "-d", "-s", &window, "-t", "other:7"]).status.success());
    for request in [json!({}), json!({ "force": true }), json!({ "dry_run": true })] {
        let mut request = request;
        request["cmd"] = "stop".into();
        request["session"] = session.id.clone().into();
        let error = batch.error(request);
        assert_eq!(error["kind"], "refused", "{error}");
        assert!(error["message"].as_str().unwrap().contains("linked"), "{error}");
    }
    assert_untouched(&world, &mut batch);
    assert!(world.ledger.is_alive("other"));
    let windows = world.tmux(&["list-windows", "-t", "other:", "-F", "#{window_index}"]);
    assert_eq!(String::from_utf8(windows.stdout).unwrap(), "0\n7\n");
    assert!(world.tmux(&["unlink-window", "-t", "other:7"]).status.success());
    assert_stops(&world, &mut batch, &session);
    assert!(world.ledger.is_alive("other"), "the other session goes on");
}

#[test]
fn a_server_that_is_stopped() {
    let world = World::new();
    let mut batch = world.batch();
    let session = launched(&world, &mut batch, LISTENING);
    let server = world.server();
    server.signal(Signal::STOP);
    eventually("the stop of the server", || crate::support::process_state(server.entry.pid) == Some('T'));
    let phase = |phase: &'static str| move |event: &Value| event["event"] == "phase" && event["phase"] == phase;
    let told = batch.await_event("that nobody can tell", phase("unverifiable"));
    assert!(told["detail"].as_str().unwrap().contains(&format!("kill -CONT {}", server.entry.pid)), "{told}");
    // Whoever comes later and asks about this session only.
    let (code, answer) = world.run(&["wait", &session.id, "--for", "exit", "--timeout", "0.3"]);
    let waited = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(code == 1 && waited.contains("is unverifiable (its tmux server"), "{answer}");
    let asked = Instant::now();
    let error = batch.error(json!({ "cmd": "stop", "session": session.id }));
    assert!(error["kind"] == "unverifiable" || error["kind"] == "tmux", "{error}");
    assert!(error["message"].as_str().unwrap().contains("did not answer within 2 s"), "{error}");
    assert!(asked.elapsed() >= Duration::from_secs(2), "it was given its two seconds");
    assert!(asked.elapsed() < PATIENCE, "nobody waits for it: {:?}", asked.elapsed());
    assert_untouched(&world, &mut batch);
    let listed = batch.ok(json!({ "cmd": "list" }));
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(1), "silence is no absence: {listed}");
    assert_eq!(listed["sessions"][0]["phase"], "unverifiable", "{listed}");
    assert!(world.tether(&session.id).is_some());
    server.signal(Signal::CONT);
    batch.await_event("that it runs", phase("running"));
    assert_stops(&world, &mut batch, &session);
}

#[test]
fn a_server_whose_socket_was_deleted() {
    let world = World::new();
    let mut batch = world.batch();
    let session = launched(&world, &mut batch, LISTENING);
    let server = world.server();
    std::fs::remove_file(world.socket_path()).unwrap();
    let error = batch.error(json!({ "cmd": "stop", "session": session.id }));
    assert_eq!(error["kind"], "unverifiable", "{error}");
    let hint = format!("kill -USR1 {}", server.entry.pid);
    assert!(error["message"].as_str().unwrap().contains(&hint), "it says the way out: {error}");
    assert_untouched(&world, &mut batch);
    let (code, answer) = world.run(&["stop", &session.id]);
    assert_eq!((code, &answer["error"]["kind"]), (3, &Value::from("unverifiable")), "{answer}");
    server.signal(Signal::USR1);
    // It is there before anybody listens.
    eventually("the new socket", || UnixStream::connect(world.socket_path()).is_ok());
    assert_stops(&world, &mut batch, &session);
}

/// Another server on the same socket path has sessions and panes of the same numbers.
#[test]
fn another_server_on_the_same_socket() {
    let world = World::new();
    let mut batch = world.batch();
    let session = launched(&world, &mut batch, LISTENING);
    let server = world.server();
    std::fs::remove_file(world.socket_path()).unwrap();
    let other = world.shell("marked $FX/others_heard; log other; while :; do sleep 0.1; done");
    assert!(world.tmux(&["new-session", "-d", "-s", "theirs", "bash", &other]).status.success());
    world.ledger.await_roles(&["other"]);
    let usurper: Held = world.server();
    assert!(usurper.entry.pid != server.entry.pid);
    let same_id = world.tmux(&["list-sessions", "-F", "#{session_id}"]);
    assert_eq!(String::from_utf8(same_id.stdout).unwrap().trim(), session.in_tmux.as_deref().unwrap());
    let error = batch.error(json!({ "cmd": "stop", "session": session.id }));
    assert_eq!(error["kind"], "unverifiable", "{error}");
    assert_untouched(&world, &mut batch);
    // Even when the first server is gone, the second one's session of the same number is another one.
    server.signal(Signal::KILL);
    assert!(server.ends_within(PATIENCE));
    let receipt = batch.stop(&session.id);
    assert_eq!(receipt["dead"], true, "{receipt:#}");
    assert!(!world.ledger.is_alive("root") && !world.ledger.is_alive("child"));
    assert!(world.ledger.is_alive("other"));
    assert_eq!(world.text("others_heard"), "");
    usurper.signal(Signal::KILL);
}

#[test]
fn a_server_that_was_killed() {
    let world = World::new();
    let mut batch = world.batch();
    let session = launched(&world, &mut batch, "trap '' TERM HUP; log root; (leaf child) & wait");
    let server = world.server();
    server.signal(Signal::KILL);
    assert!(server.ends_within(PATIENCE));
    let receipt = batch.stop(&session.id);
    assert!(world.ledger.alive().is_empty(), "{receipt:#}");
    assert_eq!(receipt["dead"], true, "{receipt:#}");
    assert_eq!(receipt["host_closed"], true, "{receipt:#}");
    // Whoever ran the ladder, the answer tells what became of everybody, or who did it.
    let notes: Vec<&str> = rows(&receipt, "notes").filter_map(Value::as_str).collect();
    let by_warden = notes.iter().any(|note| note.contains("warden"));
    let named = pids(&receipt, "outcomes");
    for role in ["root", "child"] {
        let is_named = named.contains(&i64::from(world.ledger.of(role).pid));
        assert!(is_named || by_warden, "nobody tells what became of {role}\n{receipt:#}");
    }
    assert!(!notes.is_empty(), "the receipt does not say what happened to the server\n{receipt:#}");
    for supervisor in &session.supervisors {
        assert!(supervisor.ends_within(PATIENCE), "{supervisor:?}");
    }
    // A stop of what is dead already succeeds, as often as one likes.
    for _ in 0..2 {
        let receipt = batch.stop(&session.id);
        assert_eq!(receipt["dead"], true, "{receipt:#}");
        assert_eq!(receipt["signals"], json!([]), "{receipt:#}");
    }
}

#[test]
fn somebody_elses_kill_session() {
    let world = World::new();
    let mut batch = world.batch();
    let far = world.shell("trap '' TERM HUP; log far; (leaf deep) & wait");
    let script =
        format!("trap '' HUP; log root; (leaf child) & (setsid bash {far} < /dev/null > /dev/null 2>&1 &) ; wait");
    let session = launched(&world, &mut batch, &script);
    world.ledger.await_roles(&["far", "deep"]);
    let mut bystanders = world.bystanders(&["sleep", &world.nap], Some(&session.id));
    assert!(world.tmux(&["kill-session", "-t", session.in_tmux.as_deref().unwrap()]).status.success());
    // Nobody asks the manager for anything: the warden does it.
    world.ledger.await_empty();
    bystanders.assert_untouched();
    let path = format!("state/sessions/{}.receipt", session.id);
    eventually("the receipt of the warden", || world.path(&path).exists());
    let receipt: Value = serde_json::from_str(&world.text(&path)).unwrap();
    assert_eq!(receipt["dead"], true, "{receipt:#}");
    let cause = rows(&receipt, "notes").any(|note| note.as_str().unwrap().contains("pane is gone"));
    assert!(cause, "the cause\n{receipt:#}");
    for supervisor in &session.supervisors {
        assert!(supervisor.ends_within(PATIENCE), "{supervisor:?}");
    }
    // Whoever knows tmux closes the record; until then it says why the session is over.
    if let Some(record) = world.tether(&session.id) {
        assert_eq!(record["last"]["verdict"], "gone", "{record:#}");
        assert!(record["last"]["reason"].as_str().unwrap().contains("pane is gone"), "{record:#}");
    }
    let receipt = batch.stop(&session.id);
    assert_eq!(receipt["dead"], true, "a stop of what is over succeeds\n{receipt:#}");
    assert!(world.tether(&session.id).is_none(), "{receipt:#}");
}

/// A server leaves with its last session: whoever launches in that moment gets a new one.
#[test]
fn a_server_that_is_leaving_keeps_nobody_from_launching() {
    let world = World::new();
    let mut batch = world.batch();
    for _ in 0..40 {
        let begun = batch.ok(json!({ "cmd": "launch", "kind": "shell", "host": "tmux", "command": ["true"] }));
        batch.ok(json!({ "cmd": "wait", "session": begun["session"], "for": "exit" }));
    }
    assert!(batch.finish().success());
}
