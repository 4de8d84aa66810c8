//! The manager or a warden dies without a warning.

use std::collections::BTreeSet;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Batch, Host, Launch, PATIENCE, Session, World, eventually, pids, rows};

/// A deaf root with a deaf child, and a deaf daemon that left the tree.
fn stubborn(world: &World) -> String {
    let daemon = world.shell("trap '' TERM HUP; log daemon; (leaf deep) & wait");
    world.shell(&format!(
        "trap '' TERM HUP
        log root
        (setsid bash {daemon} < /dev/null > /dev/null 2>&1 &)
        (leaf child) &
        wait"
    ))
}

const STUBBORN: [&str; 4] = ["root", "child", "daemon", "deep"];

pub(crate) fn launched(world: &World, batch: &mut Batch, host: Host, script: &str, roles: &[&str]) -> Session {
    let session = world.launch(batch, &Launch { host, kind: "serve", grace_s: 0.5, argv: &["bash", script] });
    world.ledger.await_roles(roles);
    session
}

#[test]
fn the_manager_of_a_pty_is_killed() {
    let world = World::new();
    let mut batch = world.batch();
    let session = launched(&world, &mut batch, Host::Pty, &stubborn(&world), &STUBBORN);
    let mut bystanders = world.bystanders(&["sleep", &world.nap], Some(&session.id));
    batch.kill();
    world.ledger.await_empty();
    for supervisor in &session.supervisors {
        assert!(supervisor.ends_within(PATIENCE), "{supervisor:?}");
    }
    bystanders.assert_untouched();
    assert!(world.tether(&session.id).is_none(), "everybody is dead, so the record is gone");
    let receipt: Value = serde_json::from_str(&world.text(&format!("state/sessions/{}.receipt", session.id))).unwrap();
    assert_eq!(receipt["dead"], true, "{receipt:#}");
    assert!(rows(&receipt, "notes").any(|note| note.as_str().unwrap().contains("owner is gone")), "{receipt:#}");
    let ledger = world.ledger.entries().iter().map(|entry| i64::from(entry.pid)).collect();
    assert_eq!(pids(&receipt, "outcomes"), ledger, "{receipt:#}");
}

/// The manager is killed in the middle of its own ladder: the warden finishes.
#[test]
fn the_manager_is_killed_while_it_stops() {
    let world = World::new();
    let mut batch = world.batch();
    let session = launched(&world, &mut batch, Host::Pty, &stubborn(&world), &STUBBORN);
    batch.send(json!({ "cmd": "stop", "session": session.id, "grace_s": 60 }));
    batch.await_event("of a signal", |event| event["event"] == "signal");
    assert!(world.ledger.is_alive("root"));
    batch.kill();
    world.ledger.await_empty();
    for supervisor in &session.supervisors {
        assert!(supervisor.ends_within(PATIENCE), "{supervisor:?}");
    }
}

/// The lock that it held goes with it, whatever it has started meanwhile, and whoever of that lives on.
#[test]
fn a_lock_is_inherited_by_nobody() {
    let world = World::new();
    let mut batch = world.batch();
    let session = launched(&world, &mut batch, Host::Pty, &stubborn(&world), &STUBBORN);
    batch.send(json!({ "cmd": "stop", "session": session.id, "grace_s": 60, "async": true }));
    batch.await_event("of a signal", |event| event["event"] == "signal");
    let later = world.shell("leaf later");
    for host in [Host::Tmux, Host::Pty] {
        launched(&world, &mut batch, host, &later, &["later"]);
    }
    world.ledger.await_roles(&["later", "later"]);
    let lock = world.path(&format!("state/sessions/{}.lock", session.id));
    let holders = || -> Vec<i32> {
        let pids = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter(|pid| {
            let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            files.filter_map(|file| std::fs::read_link(file.path()).ok()).any(|file| file == lock)
        })
        .collect()
    };
    assert_eq!(holders(), [i32::try_from(batch.child.id()).unwrap()], "nobody but the manager has it open");
    batch.kill();
    eventually("the end of the session that was being stopped", || !world.ledger.is_alive("root"));
    for supervisor in &session.supervisors {
        assert!(supervisor.ends_within(PATIENCE), "{supervisor:?}");
    }
    let alive = world.ledger.alive();
    assert_eq!(alive.iter().map(|entry| entry.role.as_str()).collect::<Vec<_>>(), ["later"], "the one in tmux");
}

/// A master that somebody inherits keeps a terminal open that its owner has closed.
#[test]
fn a_master_is_inherited_by_nobody() {
    let world = World::new();
    let mut batch = world.batch();
    let later = world.shell("leaf later");
    let mut stages = Vec::new();
    for host in [Host::Pty, Host::Pty, Host::Tmux, Host::Pty] {
        stages.extend(launched(&world, &mut batch, host, &later, &["later"]).supervisors);
    }
    world.ledger.await_roles(&["later"; 4]);
    let masters = |pid: i32| {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
        files.filter_map(|file| std::fs::read_link(file.path()).ok()).filter(|file| file.ends_with("ptmx")).count()
    };
    let workloads = world.ledger.entries().into_iter().map(|entry| entry.pid);
    for pid in workloads.chain(stages.iter().map(|stage| stage.entry.pid)) {
        assert_eq!(masters(pid), 0, "process {pid}");
    }
    assert_eq!(masters(i32::try_from(batch.child.id()).unwrap()), 3, "one for each session in a PTY");
    assert_eq!(masters(world.server().entry.pid), 1, "its own pane's");
}

#[test]
fn the_manager_of_tmux_sessions_is_killed() {
    let world = World::new();
    let mut batch = world.batch();
    let session = launched(&world, &mut batch, Host::Tmux, &stubborn(&world), &STUBBORN);
    let ends = world.shell("log short; until [ -e $FX/end ]; do sleep 0.05; done; exit 7");
    let short = launched(&world, &mut batch, Host::Tmux, &ends, &["short"]);
    batch.kill();
    std::fs::write(world.path("end"), "").unwrap();
    eventually("the end of the short one", || !world.ledger.is_alive("short"));
    for role in STUBBORN {
        assert!(world.ledger.is_alive(role), "{role} survives the manager");
    }
    let row = |id: &str| {
        let (code, listed) = world.run(&["ls"]);
        assert_eq!(code, 0, "{listed}");
        rows(&listed, "sessions").find(|row| row["session"] == id).cloned().unwrap_or_else(|| panic!("{id}: {listed}"))
    };
    let (alive, over) = (row(&session.id), row(&short.id));
    assert_eq!((&alive["phase"], &alive["verdict"]), (&json!("running"), &json!("owned")), "{alive}");
    assert_eq!(alive["exit_code"], Value::Null, "{alive}");
    assert_eq!((&over["phase"], &over["exit_code"]), (&json!("failed"), &json!(7)), "{over}");
    let mut bystanders = world.bystanders(&["sleep", &world.nap], Some(&session.id));
    let (code, receipt) = world.run(&["stop", &session.id]);
    assert_eq!(code, 0, "{receipt:#}");
    assert!(world.ledger.alive().is_empty(), "{receipt:#}");
    assert_eq!((&receipt["dead"], &receipt["escalated"]), (&json!(true), &json!(true)), "{receipt:#}");
    assert_eq!(pids(&receipt, "lookalikes"), bystanders.pids(), "{receipt:#}");
    bystanders.assert_untouched();
    let (code, receipt) = world.run(&["stop", &short.id]);
    assert_eq!((code, &receipt["dead"]), (0, &json!(true)), "{receipt:#}");
    let (code, answer) = world.run(&["stop", &session.id]);
    assert_eq!((code, &answer["error"]["kind"]), (4, &json!("not_found")), "it is over and forgotten: {answer}");
}

/// Its warden is killed first: what is still linked by its parents is ended all the same, and the receipt
/// does not claim a containment that is gone.
fn the_warden_is_killed(host: Host) {
    let world = World::new();
    let mut batch = world.batch();
    let beyond = world.shell("trap '' HUP; log beyond; (leaf far) & wait");
    let script = world.shell(&format!("trap '' HUP; log root; (leaf child) & setsid bash {beyond} & wait; wait"));
    let roles = ["root", "child", "beyond", "far"];
    let session = launched(&world, &mut batch, host, &script, &roles);
    let mut bystanders = world.bystanders(&["sleep", &world.nap], Some(&session.id));
    let root = world.ledger.of("root").pid;
    let parent = std::fs::read_to_string(format!("/proc/{root}/stat")).unwrap();
    let parent: i32 = parent.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap();
    let warden =
        session.supervisors.iter().find(|held| held.entry.pid == parent).expect("the root's parent is the warden");
    warden.signal(Signal::KILL);
    assert!(warden.ends_within(PATIENCE));
    for supervisor in &session.supervisors {
        assert!(supervisor.ends_within(PATIENCE), "without a warden there is no front: {supervisor:?}");
    }
    for role in roles {
        assert!(world.ledger.is_alive(role), "{role} is still there to be ended");
    }
    eventually("that it is said", || {
        batch.row(&session.id)["detail"].as_str().is_some_and(|detail| detail.contains("its warden is gone"))
    });
    let (_, doctor) = world.run(&["doctor"]);
    let wardens = rows(&doctor, "checks").find(|check| check["name"] == "wardens").unwrap();
    let text = wardens["detail"].as_str().unwrap();
    assert!(wardens["state"] == "warn" && text.contains(&session.id), "{wardens:#}");
    let receipt = batch.stop(&session.id);
    assert!(world.ledger.alive().is_empty(), "{:?}\n{receipt:#}", world.ledger.alive());
    assert_eq!(receipt["dead"], true, "{receipt:#}");
    bystanders.assert_untouched();
    let signalled = pids(&receipt, "signals");
    assert!(signalled.is_disjoint(&bystanders.pids()), "{receipt:#}");
    let ledger = world.ledger.entries().iter().map(|entry| i64::from(entry.pid)).collect();
    assert_eq!(pids(&receipt, "outcomes"), ledger, "{receipt:#}");
    let claimed: Vec<&str> = rows(&receipt, "containment").filter_map(Value::as_str).collect();
    assert!(!claimed.contains(&"warden"), "the warden was dead: {claimed:?}");
}

/// A daemon that forked twice, leads its own kernel session, cleared its environment and lost its warden. Here is no
/// cgroup: nothing links it but a manager that has seen it before. Where that is gone as well (`seen` is not), it lives,
/// nobody claims its death, and row and receipt say that somebody may be left, whether the rest of the tree is gone
/// `before` its warden is, `after` that, or not at all.
fn nothing_links_it(host: Host, before: &[&str], after: &[&str], seen: bool) {
    let world = World::new();
    let mut batch = world.batch();
    let daemon = world.shell("trap '' HUP; log daemon; exec env -i sleep $NAP");
    let script = world.shell(&format!("trap '' HUP; log root; (leaf child) & (setsid bash {daemon} &); wait; wait"));
    let session = launched(&world, &mut batch, host, &script, &["root", "child", "daemon"]);
    let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
    let daemon = i64::from(world.ledger.of("daemon").pid);
    let containment = |batch: &mut Batch| batch.row(&session.id)["containment"].clone();
    let end = |batch: &mut Batch, roles: &[&str]| {
        for role in roles {
            world.ledger.signal(role, Signal::KILL);
            eventually("its end", || !world.ledger.is_alive(role));
        }
        if !roles.is_empty() {
            eventually("the end of the workload", || batch.row(&session.id)["phase"] != "running");
        }
    };
    end(&mut batch, before);
    assert_eq!(containment(&mut batch), json!(["tree", "warden"]));
    let tree = batch.ok(json!({ "cmd": "tree", "session": session.id }));
    assert!(pids(&tree, "processes").contains(&daemon), "{tree:#}");
    // The warden first: one whose front is gone ends everybody.
    for supervisor in session.supervisors.iter().rev() {
        supervisor.signal(Signal::KILL);
        assert!(supervisor.ends_within(PATIENCE));
    }
    end(&mut batch, after);
    eventually("the look that misses it", || containment(&mut batch) == json!(["tree"]));
    let receipt = if seen {
        let tree = batch.ok(json!({ "cmd": "tree", "session": session.id }));
        assert!(pids(&tree, "processes").contains(&daemon) && !pids(&tree, "escapees").contains(&daemon), "{tree:#}");
        batch.stop(&session.id)
    } else {
        batch.kill();
        let (code, receipt) = world.run(&["stop", &session.id]);
        assert_eq!(code, 0, "{receipt:#}");
        receipt
    };
    assert!(!world.ledger.is_alive("root") && !world.ledger.is_alive("child"), "{receipt:#}");
    assert_eq!(world.ledger.is_alive("daemon"), !seen, "{receipt:#}");
    assert_eq!(pids(&receipt, "outcomes").contains(&daemon), seen, "{receipt:#}");
    assert_eq!(receipt["containment"], json!(["tree"]), "{receipt:#}");
    assert!(rows(&receipt, "notes").any(|note| note.as_str().unwrap().contains("warden was gone")), "{receipt:#}");
    bystanders.assert_untouched();
    if !seen {
        world.ledger.signal("daemon", Signal::KILL);
    }
    world.ledger.await_empty();
}

fn a_daemon_that_nothing_links(host: Host) {
    nothing_links_it(host, &[], &[], false);
    nothing_links_it(host, &[], &[], true);
}

fn a_daemon_that_nothing_links_and_is_alone(host: Host) {
    nothing_links_it(host, &[], &["root", "child"], false);
    nothing_links_it(host, &[], &["root", "child"], true);
}

fn a_daemon_that_nothing_links_and_was_alone(host: Host) {
    nothing_links_it(host, &["root", "child"], &[], false);
    nothing_links_it(host, &["root", "child"], &[], true);
}

/// It is killed while the stop waits: what it would have seen, nobody has.
fn the_warden_is_killed_in_the_grace(host: Host) {
    let world = World::new();
    let mut batch = world.batch();
    let script = world.shell("trap '' TERM HUP; log root; (leaf child) & wait; wait");
    let session = launched(&world, &mut batch, host, &script, &["root", "child"]);
    let id = batch.send(json!({ "cmd": "stop", "session": session.id, "grace_s": 2.0 }));
    batch.await_event("of a signal", |event| event["event"] == "signal");
    for supervisor in session.supervisors.iter().rev() {
        supervisor.signal(Signal::KILL);
    }
    let receipt = batch.answer(id)["result"].take();
    assert!(world.ledger.alive().is_empty(), "{receipt:#}");
    assert_eq!((&receipt["dead"], &receipt["containment"]), (&json!(true), &json!(["tree"])), "{receipt:#}");
    let said = |note: &Value| note.as_str().unwrap().contains("warden has not said that nobody is left");
    assert!(rows(&receipt, "notes").any(said), "{receipt:#}");
}

crate::matrix::in_both! {
    the_warden_is_killed the_warden_is_killed_in_the_grace a_daemon_that_nothing_links a_daemon_that_nothing_links_and_is_alone
    a_daemon_that_nothing_links_and_was_alone
}

/// Manager and warden are gone: a daemon that nothing links any more is reported and not ended. As long as it lives it
/// is named and its record stays, however often somebody looks; only then is it said that nothing is left.
#[test]
fn who_was_left_alive_is_named_until_they_are_gone() {
    let world = World::new();
    let mut batch = world.batch();
    let daemon = world.shell("trap '' HUP TERM; log daemon; exec sleep $NAP");
    let script = world.shell(&format!("log root; (leaf child) & (setsid bash {daemon} &); wait"));
    let session = launched(&world, &mut batch, Host::Pty, &script, &["root", "child", "daemon"]);
    let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
    for supervisor in &session.supervisors {
        supervisor.signal(Signal::KILL);
        assert!(supervisor.ends_within(PATIENCE));
    }
    batch.kill();
    let daemon = world.ledger.of("daemon").pid;
    eventually("the end of those whose terminal has gone", || world.ledger.alive().len() == 1);
    // Before anybody has swept, too.
    let (_, listed) = world.run(&["orphans"]);
    let row = rows(&listed, "orphans").find(|row| row["session"] == session.id).expect("it is named");
    assert_eq!(pids(row, "left"), [i64::from(daemon)].into(), "{row:#}");
    assert!(row["verdict"] == "unverifiable" && row["processes"] == 1, "{row:#}");
    assert!(!row["reason"].as_str().unwrap().contains("nothing is left"), "{row:#}");
    for look in 0..3 {
        let (_, reaped) = world.run(&["orphans", "--reap"]);
        assert!(world.ledger.is_alive("daemon"), "{look}: {reaped:#}");
        assert!(world.tether(&session.id).is_some(), "{look}: its record is gone, and it lives: {reaped:#}");
        let (_, listed) = world.run(&["orphans"]);
        let row = rows(&listed, "orphans").find(|row| row["session"] == session.id).expect("it is named");
        let reason = row["last"]["reason"].as_str().unwrap_or_default();
        assert!(reason.contains(&format!("pid {daemon} was left alive")), "{look}: {row:#}");
        let (_, checks) = world.run(&["doctor"]);
        let check = rows(&checks, "checks").find(|check| check["name"] == "orphans").expect("a line").clone();
        assert!(check["state"] == "warn" && check["detail"].as_str().unwrap().contains(&session.id), "{check}");
    }
    let (_, journal) = world.run(&["logs", "--receipts"]);
    assert!(!journal.to_string().contains("nothing is left"), "{journal:#}");
    assert!(!world.ledger.is_alive("root") && !world.ledger.is_alive("child"));
    // Somebody ends it: then the next look lets the record go.
    world.ledger.signal("daemon", Signal::KILL);
    world.ledger.await_empty();
    world.run(&["orphans", "--reap"]);
    assert!(world.tether(&session.id).is_none());
    let (_, listed) = world.run(&["orphans"]);
    assert_eq!(listed["orphans"], serde_json::json!([]), "{listed:#}");
    bystanders.assert_untouched();
}

/// Manager and warden of a session in tmux are gone in the middle of its stop: the next start finishes what was begun.
#[test]
fn a_stop_that_both_died_in_is_finished_by_the_next_start() {
    let world = World::new();
    let mut batch = world.batch();
    let script = world.shell("trap '' HUP TERM; log root; (leaf child) & wait; wait; sleep $NAP");
    let session = launched(&world, &mut batch, Host::Tmux, &script, &["root", "child"]);
    let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
    batch.send(serde_json::json!({ "cmd": "stop", "session": session.id, "grace_s": 30 }));
    batch.await_event("the first signal", |event| event["event"] == "signal");
    batch.kill();
    for supervisor in &session.supervisors {
        supervisor.signal(Signal::KILL);
        assert!(supervisor.ends_within(PATIENCE));
    }
    assert!(world.ledger.is_alive("root"), "it is deaf");
    assert_eq!(world.tether(&session.id).unwrap()["stopping"], true);
    // A start that stops nothing by itself.
    let next = world.batch();
    assert_eq!(next.finish().code(), Some(0));
    eventually("the end of what was begun", || world.ledger.alive().is_empty());
    bystanders.assert_untouched();
}

/// The manager dies in the middle of a stop, after the first of them have gone. Whoever finishes it, the warden or the next
/// start, names them all: with its warden dead as well, somebody of it may live by then, or nobody.
fn a_stop_that_was_begun(host: Host, warden_dies: bool, all_gone: bool) {
    let world = World::new();
    let mut batch = world.batch();
    // It waits without a child, and takes note of its child's end.
    let script = world.shell(
        "mkfifo $FX/pipe; exec 3<> $FX/pipe; trap '' HUP TERM
        log root; (trap - HUP TERM; leaf child) & while :; do read -t 0.1 -u 3; done",
    );
    let session = launched(&world, &mut batch, host, &script, &["root", "child"]);
    let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
    batch.send(json!({ "cmd": "stop", "session": session.id, "grace_s": 30 }));
    let child = world.ledger.of("child").pid;
    eventually("the end of the first", || crate::support::process_state(child).is_none());
    assert!(world.ledger.is_alive("root"), "it is deaf");
    if warden_dies {
        for supervisor in &session.supervisors {
            supervisor.signal(Signal::STOP);
        }
    }
    batch.kill();
    if warden_dies {
        for supervisor in &session.supervisors {
            supervisor.signal(Signal::KILL);
            assert!(supervisor.ends_within(PATIENCE));
        }
    }
    if all_gone {
        world.ledger.signal("root", Signal::KILL);
    }
    if warden_dies {
        assert_eq!(world.batch().finish().code(), Some(0));
    }
    world.ledger.await_empty();
    bystanders.assert_untouched();
    let ledger: BTreeSet<i64> = world.ledger.entries().iter().map(|entry| i64::from(entry.pid)).collect();
    let mut receipt = Value::Null;
    eventually("its receipt", || {
        let (_, journal) = world.run(&["logs", "--receipts", &session.id]);
        receipt = rows(&journal, "receipts").last().map(|entry| entry["receipt"].clone()).unwrap_or_default();
        receipt.is_object()
    });
    assert!(ledger.is_subset(&pids(&receipt, "outcomes")) && receipt["dead"] == true, "{receipt:#}");
    let row = rows(&receipt, "outcomes").find(|row| row["pid"] == child).unwrap();
    assert_eq!(row["outcome"], "already_gone", "{receipt:#}");
}

#[test]
fn a_stop_that_was_begun_is_finished_with_everybody_it_named() {
    for host in [Host::Pty, Host::Tmux] {
        a_stop_that_was_begun(host, false, false);
        a_stop_that_was_begun(host, true, false);
        a_stop_that_was_begun(host, true, true);
    }
}

/// Nobody can tell whose group it is when leader, warden and manager are gone: it is shown as failed, and lives.
#[test]
fn a_group_whose_leader_is_gone_is_failed_and_left_alone() {
    let world = World::new();
    let mut batch = world.batch();
    let script = world.shell("trap '' HUP; log root; (trap '' HUP TERM; leaf child) & wait");
    let session = launched(&world, &mut batch, Host::Pty, &script, &["root", "child"]);
    for supervisor in &session.supervisors {
        supervisor.signal(Signal::KILL);
    }
    world.ledger.signal("root", Signal::KILL);
    batch.kill();
    eventually("the end of the leader", || !world.ledger.is_alive("root"));
    for _ in 0..2 {
        let (code, answer) = world.run(&["orphans", "--reap"]);
        assert_eq!((code, &answer["report"]["failed"]), (3, &json!(1)), "{answer:#}");
        assert_eq!(answer["swept"], json!([]), "{answer:#}");
        assert!(
            rows(&answer, "orphans").any(|orphan| orphan["session"] == json!(session.id)),
            "it is shown\n{answer:#}"
        );
        assert!(world.tether(&session.id).is_some() && world.ledger.is_alive("child"));
    }
    let (_, listed) = world.run(&["ls"]);
    let row = rows(&listed, "sessions").find(|row| row["session"] == json!(session.id)).unwrap();
    assert_eq!(row["phase"], "failed", "{row:#}");
}

/// Nobody stopped it, and nobody saw how it ended: the start that finds it says so, and so does its list.
#[test]
fn who_was_found_gone_was_stopped_by_nobody() {
    let world = World::new();
    let mut batch = world.batch();
    let session = launched(&world, &mut batch, Host::Tmux, &world.shell("leaf root"), &["root"]);
    for supervisor in &session.supervisors {
        supervisor.signal(Signal::KILL);
        assert!(supervisor.ends_within(PATIENCE));
    }
    batch.kill();
    world.ledger.await_empty();
    let mut next = world.batch();
    let hello = next.ok(serde_json::json!({ "cmd": "hello" }));
    assert!(hello["ended"].to_string().contains("nobody knows how it ended"), "{hello:#}");
    let list = next.ok(serde_json::json!({ "cmd": "list" }));
    for row in rows(&list, "sessions").filter(|row| row["session"] == session.id) {
        assert!(row["phase"] == "failed" && !row["detail"].as_str().unwrap().contains("stopped"), "{row:#}");
    }
}
