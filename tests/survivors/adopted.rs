//! Tmux sessions that were not launched by the program: adopted without a signal, ended exactly at a person's word,
//! and left alone whenever they are not what was adopted. All on private servers of the test.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Batch, Held, Host, Launch, PATIENCE, World, eventually, process_state, rows};

/// The name of the user's own server, in the directory of sockets of the test.
const THEIRS: &str = "default";

/// Makes a session on the user's server that runs a script, and returns its id.
fn session(world: &World, name: &str, script: &str) -> String {
    let script = world.shell(script);
    ask(world, &["new-session", "-d", "-s", name, "-x", "93", "-y", "31", "-P", "-F", "#{session_id}", "bash", &script])
}

/// Asks the user's server something that it answers.
#[track_caller]
fn ask(world: &World, arguments: &[&str]) -> String {
    let output = world.tmux_on(THEIRS, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

fn adopt(batch: &mut Batch, session: &str) -> Value {
    batch.ok(json!({ "cmd": "adopt", "tmux": { "session": session } }))
}

fn adopted(batch: &mut Batch, session: &str) -> String {
    adopt(batch, session)["session"].as_str().unwrap().to_owned()
}

#[track_caller]
fn assert_dead(receipt: &Value) {
    assert_eq!((&receipt["dead"], &receipt["host_closed"]), (&json!(true), &json!(true)), "{receipt:#}");
    assert_eq!(receipt["containment"], json!(["tree"]), "{receipt:#}");
    assert!(rows(receipt, "notes").any(|note| note.as_str().unwrap().contains("no warden")), "{receipt:#}");
}

#[test]
fn a_session_of_others_is_ended_with_all_of_its_panes_and_nobody_else() {
    let world = World::new();
    session(&world, "main", "marked $FX/heard; log root; (leaf child) & while :; do wait; sleep 0.1; done");
    let second = world.shell("trap '' HUP TERM; log second; (trap '' HUP; leaf deep) & wait");
    ask(&world, &["split-window", "-d", "-t", "=main:", "bash", &second]);
    session(&world, "mainly", "leaf other");
    world.ledger.await_roles(&["root", "child", "second", "deep", "other"]);
    let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
    let shape =
        ["list-windows", "-a", "-F", "#{session_name} #{window_id} #{window_width}x#{window_height} #{window_layout}"];
    let options = ["show-options", "-t", "=main:"];
    let before = (ask(&world, &shape), ask(&world, &options), ask(&world, &["show-options", "-g"]));
    let mut batch = world.batch();
    for prefix in ["mai", "MAIN", "main*", "=main", "main:", ""] {
        let error = batch.error(json!({ "cmd": "adopt", "tmux": { "session": prefix } }));
        assert_eq!(error["kind"], "not_found", "{prefix:?}: {error}");
    }
    let answer = adopt(&mut batch, "main");
    let id = answer["session"].as_str().unwrap().to_owned();
    assert_eq!(
        (answer["host"].as_str(), answer["pid"].as_i64()),
        (Some("tmux"), Some(world.ledger.of("root").pid.into()))
    );
    let row = batch.row(&id);
    assert_eq!((&row["adopted"], &row["name"], &row["phase"]), (&json!(true), &json!("main"), &json!("running")));
    assert_eq!(
        (&row["containment"], &row["not_after"], &row["verdict"]),
        (&json!(["tree"]), &Value::Null, &json!("owned"))
    );
    assert!(row["detail"].as_str().unwrap().contains("no warden"), "{row:#}");
    let tree = batch.ok(json!({ "cmd": "tree", "session": id }));
    let pids: Vec<i64> = rows(&tree, "processes").map(|row| row["pid"].as_i64().unwrap()).collect();
    for role in ["root", "child", "second", "deep"] {
        assert!(pids.contains(&world.ledger.of(role).pid.into()), "{role}\n{tree:#}");
    }
    assert_eq!(pids.len(), rows(&tree, "processes").filter(|row| row["verdict"] == "owned").count(), "{tree:#}");
    batch.ok(json!({ "cmd": "screen", "session": id }));
    assert_eq!(batch.error(json!({ "cmd": "resize", "session": id, "rows": 10, "cols": 40 }))["kind"], "refused");
    assert_eq!(batch.error(json!({ "cmd": "extend", "session": id, "ceiling_s": 1 }))["kind"], "refused");
    assert_eq!(batch.error(json!({ "cmd": "restart", "session": id }))["kind"], "refused");
    assert_eq!(
        before,
        (ask(&world, &shape), ask(&world, &options), ask(&world, &["show-options", "-g"])),
        "watched only"
    );
    assert_eq!((world.text("heard").as_str(), batch.signals()), ("", 0));
    let plan = batch.ok(json!({ "cmd": "stop", "session": id, "dry_run": true }));
    assert_eq!(rows(&plan, "plan").filter(|row| !row["signal"].is_null()).count(), pids.len(), "{plan:#}");
    assert_eq!(world.text("heard"), "");
    let receipt = batch.ok(json!({ "cmd": "stop", "session": id, "grace_s": 0.3 }));
    assert_dead(&receipt);
    let alive: Vec<String> = world.ledger.alive().into_iter().map(|entry| entry.role).collect();
    assert_eq!(alive, ["other"], "{receipt:#}");
    assert_eq!(ask(&world, &["list-sessions", "-F", "#{session_name}"]), "mainly");
    assert!(world.tether(&id).is_none());
    bystanders.assert_untouched();
}

/// What looks like an id is one; names are compared as a whole, as tmux has them.
#[test]
fn names_that_mean_something_to_tmux_are_safe() {
    let world = World::new();
    session(&world, "first", "leaf first");
    session(&world, "a.b:c", "leaf dotted");
    session(&world, "$0", "leaf dollar");
    session(&world, "-t x #{pid} é", "leaf strange");
    world.ledger.await_roles(&["first", "dotted", "dollar", "strange"]);
    let mut batch = world.batch();
    let pid = |answer: &Value| answer["pid"].as_i64().unwrap();
    let expected = |role: &str| i64::from(world.ledger.of(role).pid);
    assert_eq!(pid(&adopt(&mut batch, "$0")), expected("first"), "an id, although a name is like it");
    assert_eq!(batch.error(json!({ "cmd": "adopt", "tmux": { "session": "a.b:c" } }))["kind"], "not_found");
    assert_eq!(pid(&adopt(&mut batch, "a_b_c")), expected("dotted"));
    let named = ask(&world, &["list-sessions", "-F", "#{session_id} #{session_name}"]);
    for line in named.lines() {
        let (id, name) = line.split_once(' ').unwrap();
        let by_id = pid(&adopt(&mut batch, id));
        if !name.starts_with('$') {
            assert_eq!(pid(&adopt(&mut batch, name)), by_id, "{name:?}");
        }
    }
    let error = batch.error(json!({ "cmd": "adopt", "tmux": { "session": "$77" } }));
    assert_eq!(error["kind"], "not_found", "{error}");
    let list = batch.ok(json!({ "cmd": "list" }));
    assert_eq!(rows(&list, "sessions").count(), 4, "adopted twice is adopted once: {list:#}");
    assert_eq!(
        batch.error(json!({ "cmd": "adopt", "tmux": { "session": "first", "socket": "a/b" } }))["kind"],
        "usage"
    );
    let error = batch.error(json!({ "cmd": "adopt", "tmux": { "session": "first", "socket": "nobody" } }));
    assert_eq!(error["kind"], "not_found", "{error}");
    assert_eq!((world.ledger.alive().len(), batch.signals()), (4, 0));
}

#[test]
fn a_pane_that_was_respawned_is_nobodys_until_it_is_adopted_again() {
    let world = World::new();
    session(&world, "main", "log shell; (leaf child) & wait");
    let kept = world.shell("leaf beside");
    ask(&world, &["split-window", "-d", "-t", "=main:", "bash", &kept]);
    world.ledger.await_roles(&["shell", "child", "beside"]);
    let mut batch = world.batch();
    let id = adopted(&mut batch, "main");
    let other = world.shell("marked $FX/others_heard; log other; while :; do sleep 0.1; done");
    let pane = ask(&world, &["list-panes", "-t", "=main:", "-F", "#{pane_id}"]).lines().next().unwrap().to_owned();
    ask(&world, &["respawn-pane", "-k", "-t", &pane, "bash", &other]);
    world.ledger.await_roles(&["other"]);
    for request in [json!({}), json!({ "force": true }), json!({ "dry_run": true })] {
        let mut request = request;
        (request["cmd"], request["session"]) = ("stop".into(), id.clone().into());
        let error = batch.error(request);
        assert_eq!(error["kind"], "unverifiable", "{error}");
        assert!(error["message"].as_str().unwrap().contains("adopt it again"), "{error}");
    }
    let tree = batch.ok(json!({ "cmd": "tree", "session": id }));
    let other_pid = i64::from(world.ledger.of("other").pid);
    let shown = rows(&tree, "processes").find(|row| row["pid"] == other_pid).unwrap();
    assert_eq!(shown["verdict"], "unverifiable", "{tree:#}");
    assert!(world.ledger.is_alive("beside") && world.ledger.is_alive("other"));
    assert_eq!((world.text("others_heard").as_str(), batch.signals()), ("", 0));
    // A person looks again, and says so.
    assert_eq!(adopted(&mut batch, "main"), id);
    assert_dead(&batch.ok(json!({ "cmd": "stop", "session": id, "grace_s": 0.3 })));
    assert!(!world.ledger.is_alive("other") && !world.ledger.is_alive("beside"));
}

#[test]
fn a_pane_that_went_to_another_session_is_not_ended_with_the_first() {
    let world = World::new();
    session(&world, "main", "leaf stays");
    let moved = world.shell("leaf moved");
    let pane = ask(&world, &["split-window", "-d", "-t", "=main:", "-P", "-F", "#{pane_id}", "bash", &moved]);
    session(&world, "elsewhere", "leaf other");
    world.ledger.await_roles(&["stays", "moved", "other"]);
    let mut batch = world.batch();
    let id = adopted(&mut batch, "main");
    ask(&world, &["join-pane", "-d", "-s", &pane, "-t", "=elsewhere:"]);
    assert_dead(&batch.stop(&id));
    let mut alive: Vec<String> = world.ledger.alive().into_iter().map(|entry| entry.role).collect();
    alive.sort();
    assert_eq!(alive, ["moved", "other"]);
}

#[test]
fn the_same_number_on_a_new_server_is_another_session() {
    let world = World::new();
    let first = session(&world, "main", "trap '' HUP; log root; (trap '' HUP; leaf child) & wait");
    world.ledger.await_roles(&["root", "child"]);
    let mut batch = world.batch();
    let id = adopted(&mut batch, "main");
    let server = world.server_on(THEIRS);
    server.signal(Signal::KILL);
    assert!(server.ends_within(PATIENCE));
    let second = session(&world, "main", "marked $FX/others_heard; log other; while :; do sleep 0.1; done");
    assert_eq!(first, second, "the number is used again");
    world.ledger.await_roles(&["other"]);
    let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
    let receipt = batch.ok(json!({ "cmd": "stop", "session": id, "grace_s": 0.3 }));
    assert_dead(&receipt);
    assert!(!world.ledger.is_alive("root") && !world.ledger.is_alive("child"), "who was bound is ended\n{receipt:#}");
    assert!(world.ledger.is_alive("other"));
    assert_eq!(world.text("others_heard"), "");
    assert_eq!(ask(&world, &["list-sessions", "-F", "#{session_id}"]), second);
    bystanders.assert_untouched();
}

#[test]
fn a_server_that_does_not_answer_is_no_absence() {
    let world = World::new();
    session(&world, "main", "marked $FX/heard; log root; while :; do sleep 0.1; done");
    world.ledger.await_roles(&["root"]);
    let mut batch = world.batch();
    let id = adopted(&mut batch, "main");
    let server = world.server_on(THEIRS);
    server.signal(Signal::STOP);
    eventually("the stop of the server", || process_state(server.entry.pid) == Some('T'));
    let error = batch.error(json!({ "cmd": "stop", "session": id }));
    assert!(error["kind"] == "unverifiable" || error["kind"] == "tmux", "{error}");
    let error = batch.error(json!({ "cmd": "adopt", "tmux": { "session": "nobody" } }));
    assert_ne!(error["kind"], "not_found", "{error}");
    assert_eq!((world.text("heard").as_str(), batch.signals()), ("", 0));
    server.signal(Signal::CONT);
    assert_dead(&batch.ok(json!({ "cmd": "stop", "session": id, "force": true })));
}

/// No sweep, no start, no ceiling: only a person ends it, by its name.
#[test]
fn nobody_but_a_person_ends_it() {
    let world = World::new();
    session(&world, "main", "marked $FX/heard; log root; while :; do sleep 0.1; done");
    world.ledger.await_roles(&["root"]);
    let mut batch = world.batch();
    let id = adopted(&mut batch, "main");
    batch.kill();
    let path = world.path(&format!("state/sessions/{id}.json"));
    let mut record = world.tether(&id).unwrap();
    record["not_after"] = json!(record["spawned_at"].as_f64().unwrap() + 0.001);
    record["last"] = json!({ "verdict": "owned", "reason": "left by a stop", "at": 1 });
    std::fs::write(&path, record.to_string()).unwrap();
    // A start sweeps the records.
    let mut next = world.batch();
    let ours = world
        .launch(&mut next, &Launch { host: Host::Tmux, kind: "serve", grace_s: 0.5, argv: &["sleep", &world.nap] });
    for words in [&["sweep"][..], &["orphans", "--reap"], &["orphans", "--adopt"], &["ls"]] {
        let (_, answer) = world.run(words);
        assert!(world.ledger.is_alive("root"), "{words:?}\n{answer:#}");
        assert_eq!(world.text("heard"), "", "{words:?}\n{answer:#}");
    }
    assert!(world.tether(&id).is_some());
    let (_, orphans) = world.run(&["orphans"]);
    assert!(rows(&orphans, "orphans").any(|row| row["session"] == id), "it is shown\n{orphans:#}");
    let (code, answer) = world.run(&["orphans", "--reap", &id]);
    assert!(code == 0 && !world.ledger.is_alive("root"), "{answer:#}");
    next.stop(&ours.id);
}

#[test]
fn a_session_that_holds_the_program_is_marked_and_never_stopped() {
    let world = World::new();
    let binary = world.binary().join(" ");
    let inside = format!(
        "log root; (leaf child) & {binary} adopt main --json > $FX/adopted; id=$(sed 's/.*\"session\":\"\\([^\"]*\\).*/\\1/' $FX/adopted)
{binary} ls --json > $FX/listed; {binary} stop $id --json > $FX/stopped; echo $? > $FX/code; wait"
    );
    session(&world, "main", &inside);
    eventually("the stop from inside", || !world.text("code").is_empty());
    assert_eq!(world.text("code"), "3\n", "{}", world.text("stopped"));
    for (file, expected) in [("adopted", "runs inside"), ("listed", "runs inside"), ("stopped", "\"refused\"")] {
        assert!(world.text(file).contains(expected), "{file}: {}", world.text(file));
    }
    assert!(world.ledger.is_alive("root") && world.ledger.is_alive("child"));
    let adopted: Value = serde_json::from_str(&world.text("adopted")).unwrap();
    let (code, answer) = world.run(&["stop", adopted["session"].as_str().unwrap(), "--grace", "0.3"]);
    assert_eq!(code, 0, "from outside it goes\n{answer:#}");
    assert!(world.ledger.alive().is_empty());
}

#[test]
fn a_linked_window_is_not_ended_for_the_other_session() {
    let world = World::new();
    session(&world, "main", "leaf root");
    session(&world, "other", "leaf other");
    world.ledger.await_roles(&["root", "other"]);
    ask(&world, &["link-window", "-d", "-s", "=main:0", "-t", "=other:7"]);
    let mut batch = world.batch();
    let answer = adopt(&mut batch, "main");
    assert!(rows(&answer, "notes").any(|note| note.as_str().unwrap().contains("linked")), "{answer:#}");
    let id = answer["session"].as_str().unwrap();
    assert_eq!(batch.error(json!({ "cmd": "stop", "session": id }))["kind"], "refused");
    assert_eq!((world.ledger.alive().len(), batch.signals()), (2, 0));
    ask(&world, &["unlink-window", "-t", "=other:7"]);
    assert_dead(&batch.stop(id));
    assert!(world.ledger.is_alive("other"));
}

#[test]
fn it_is_given_back_when_it_is_dismissed() {
    let world = World::new();
    session(&world, "main", "leaf root");
    world.ledger.await_roles(&["root"]);
    let mut batch = world.batch();
    let id = adopted(&mut batch, "main");
    assert!(world.tether(&id).is_some());
    batch.ok(json!({ "cmd": "dismiss", "session": id }));
    assert!(world.tether(&id).is_none());
    assert_eq!(rows(&batch.ok(json!({ "cmd": "list" })), "sessions").count(), 0);
    assert_eq!((world.ledger.is_alive("root"), batch.signals()), (true, 0));
    // One that ends by itself is over, and its record goes as any other.
    let id = adopted(&mut batch, "main");
    let held = Held::open(world.ledger.of("root"));
    ask(&world, &["kill-session", "-t", "=main"]);
    assert!(held.ends_within(PATIENCE));
    batch.ok(json!({ "cmd": "wait", "session": id, "for": "exit", "timeout_s": 20 }));
    assert_eq!(batch.row(&id)["phase"], "failed");
    let receipt = batch.stop(&id);
    assert_eq!((&receipt["dead"], &receipt["signals"]), (&json!(true), &json!([])), "{receipt:#}");
}

/// What we launched has its own record, whoever launched it.
#[test]
fn our_own_sessions_are_not_adopted() {
    let world = World::new();
    let mut batch = world.batch();
    let ours = world
        .launch(&mut batch, &Launch { host: Host::Tmux, kind: "serve", grace_s: 0.5, argv: &["sleep", &world.nap] });
    let id = ours.id.as_str();
    let error = batch.error(json!({ "cmd": "adopt", "tmux": { "session": id } }));
    assert_eq!(error["kind"], "refused", "{error}");
    // Another state directory knows nothing of it, and leaves it to the one that does.
    let mut elsewhere = world.binary();
    elsewhere[2] = world.path("other").to_str().unwrap().to_owned();
    elsewhere.extend(["adopt", id, "--json"].map(str::to_owned));
    let output = world.command(&elsewhere).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &answer["error"]["kind"]), (Some(3), &json!("refused")), "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("another state directory"), "{answer}");
    batch.stop(id);
}
