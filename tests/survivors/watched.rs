//! Sessions of several panes on a server to which a control-mode client is attached, as a cockpit or iTerm2 is. tmux
//! 3.3a falls, with all of its sessions, when the last panes of one go at the same time (tmux/tmux#5243).

use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::support::{Batch, Host, Launch, World, eventually};

/// Sessions that are stopped one after the other: three out of four of them would bring the server down.
const ROUNDS: usize = 6;

/// A client in control mode that watches another session.
struct Watcher(Child);

impl Watcher {
    fn of(world: &World, socket: &str, session: &str) -> Self {
        let argv = ["tmux", "-L", socket, "-C", "attach", "-t", session].map(str::to_owned);
        let watcher = Self(world.command(&argv).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap());
        let attached = || world.tmux_on(socket, &["list-clients", "-F", "#{client_control_mode}"]).stdout == b"1\n";
        eventually("the watcher", attached);
        watcher
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Adds panes to a session: two windows of two panes each.
fn widen(world: &World, socket: &str, session: &str) {
    for command in ["new-window", "split-window", "new-window", "split-window", "split-window"] {
        let made = world.tmux_on(socket, &[command, "-t", session, "sleep", &world.nap]);
        assert!(made.status.success(), "{made:?}");
    }
}

fn server_pid(world: &World, socket: &str) -> Vec<u8> {
    world.tmux_on(socket, &["display-message", "-p", "#{pid}"]).stdout
}

/// Starts a server with a session that somebody watches; returns its pid as it says it.
fn watched_server(world: &World, socket: &str) -> (Vec<u8>, Watcher) {
    let base = world.tmux_on(socket, &["new-session", "-d", "-s", "base", "sleep", &world.nap]);
    assert!(base.status.success(), "{base:?}");
    (server_pid(world, socket), Watcher::of(world, socket, "base"))
}

#[track_caller]
fn assert_stops(batch: &mut Batch, id: &str) {
    let receipt = batch.stop(id);
    assert_eq!((&receipt["dead"], &receipt["host_closed"]), (&json!(true), &json!(true)), "{receipt:#}");
    assert_eq!(receipt["escapees"], json!([]), "{receipt:#}");
}

#[test]
fn sessions_of_others_are_stopped_and_their_server_lives() {
    let world = World::new();
    let theirs = "default";
    let (pid, _watcher) = watched_server(&world, theirs);
    let mut batch = world.batch();
    for _ in 0..ROUNDS {
        let made = world.tmux_on(theirs, &["new-session", "-d", "-s", "wide", "sleep", &world.nap]);
        assert!(made.status.success(), "{made:?}");
        widen(&world, theirs, "=wide:");
        let answer: Value = batch.ok(json!({ "cmd": "adopt", "tmux": { "session": "wide" } }));
        assert_stops(&mut batch, answer["session"].as_str().unwrap());
        assert!(!world.tmux_on(theirs, &["has-session", "-t", "=wide"]).status.success());
        assert_eq!(server_pid(&world, theirs), pid);
    }
    assert!(world.tmux_on(theirs, &["has-session", "-t", "=base"]).status.success());
}

#[test]
fn sessions_of_ours_are_stopped_and_our_server_lives() {
    let world = World::new();
    let mut batch = world.batch();
    let launch = |batch: &mut Batch, kind| {
        world.launch(batch, &Launch { host: Host::Tmux, kind, grace_s: 1.0, argv: &["sleep", &world.nap] })
    };
    let base = launch(&mut batch, "serve");
    let socket = world.socket_path();
    let socket = socket.file_name().unwrap().to_str().unwrap();
    let pid = server_pid(&world, socket);
    let _watcher = Watcher::of(&world, socket, base.in_tmux.as_deref().unwrap());
    for kind in ["serve", "shell"].into_iter().cycle().take(ROUNDS) {
        let session = launch(&mut batch, kind);
        widen(&world, socket, session.in_tmux.as_deref().unwrap());
        assert_stops(&mut batch, &session.id);
        assert_eq!(server_pid(&world, socket), pid);
    }
    assert_eq!(batch.row(&base.id)["verdict"], "owned");
}

/// A session of others with one deaf pane and several that end at the first signal, adopted; returns its id.
fn stubborn(world: &World, batch: &mut Batch) -> Value {
    let deaf = world.shell("trap '' HUP TERM; leaf root");
    let made = world.tmux_on("default", &["new-session", "-d", "-s", "wide", "bash", &deaf]);
    assert!(made.status.success(), "{made:?}");
    widen(world, "default", "=wide:");
    world.ledger.await_roles(&["root"]);
    batch.ok(json!({ "cmd": "adopt", "tmux": { "session": "wide" } }))["session"].clone()
}

/// Only the deaf pane is left, and goes when its program ends, as before: so a stop that cannot finish leaves it.
#[track_caller]
fn assert_cannot_be_stopped_in_a_second(world: &World, batch: &mut Batch, session: &Value) {
    let receipt = batch.ok(json!({ "cmd": "stop", "session": session, "grace_s": 20, "timeout_s": 1 }));
    assert_eq!((&receipt["dead"], &receipt["host_closed"]), (&json!(false), &json!(false)), "{receipt:#}");
    assert!(world.ledger.is_alive("root"));
    let format = "#{pane_dead} #{remain-on-exit} #{@cookbook-tui-kept}";
    let panes = world.tmux_on("default", &["list-panes", "-s", "-t", "=wide", "-F", format]);
    assert_eq!(String::from_utf8(panes.stdout).unwrap(), "0 off \n");
}

/// What stays for a stop stays for that stop only.
#[test]
fn a_stop_that_does_not_close_the_session_leaves_its_panes_as_they_were() {
    let world = World::new();
    let mut batch = world.batch();
    let session = stubborn(&world, &mut batch);
    assert_cannot_be_stopped_in_a_second(&world, &mut batch, &session);
}

/// All panes have ended, and are given back while somebody who has left them lives on: they go one after the other.
#[test]
fn panes_that_have_all_ended_are_given_back_and_the_server_lives() {
    let world = World::new();
    let theirs = "default";
    let (pid, _watcher) = watched_server(&world, theirs);
    let leaves = world.shell("(trap '' HUP TERM; leaf deaf) < /dev/null > /dev/null 2>&1 & exec sleep $NAP");
    let made = world.tmux_on(theirs, &["new-session", "-d", "-s", "wide", "bash", &leaves]);
    assert!(made.status.success(), "{made:?}");
    widen(&world, theirs, "=wide:");
    assert!(world.tmux_on(theirs, &["select-window", "-t", "=wide:0"]).status.success());
    world.ledger.await_roles(&["deaf"]);
    let mut batch = world.batch();
    let answer = batch.ok(json!({ "cmd": "adopt", "tmux": { "session": "wide" } }));
    let receipt = batch.ok(json!({ "cmd": "stop", "session": answer["session"], "grace_s": 20, "timeout_s": 1 }));
    assert_eq!(receipt["dead"], false, "{receipt:#}");
    assert!(world.ledger.is_alive("deaf"));
    assert_eq!(server_pid(&world, theirs), pid);
    assert!(!world.tmux_on(theirs, &["has-session", "-t", "=wide"]).status.success(), "{receipt:#}");
}

#[test]
fn what_a_killed_manager_has_kept_is_given_back_by_the_next_one() {
    let world = World::new();
    let mut batch = world.batch();
    let session = stubborn(&world, &mut batch);
    batch.send(json!({ "cmd": "stop", "session": session, "grace_s": 20 }));
    batch.await_event("of a signal", |event| event["event"] == "signal");
    batch.kill();
    let kept = ["list-panes", "-s", "-t", "=wide", "-F", "#{remain-on-exit} #{@cookbook-tui-kept}"];
    let kept = String::from_utf8(world.tmux_on("default", &kept).stdout).unwrap();
    assert!(kept.lines().count() > 1 && kept.lines().all(|pane| pane == "on 1"), "{kept}");
    assert_cannot_be_stopped_in_a_second(&world, &mut world.batch(), &session);
}
