//! What earlier runs left is found, named and settled: the tmux session of what a warden has ended, and who lives on
//! although the leader is gone.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::crash::launched;
use crate::support::{Host, Launch, PATIENCE, World, eventually, rows};

/// A manager that comes and goes.
fn start(world: &World) -> Value {
    let mut batch = world.batch();
    let hello = batch.ok(json!({ "cmd": "hello" }));
    assert_eq!(batch.finish().code(), Some(0));
    hello
}

fn tmux_sessions(world: &World) -> String {
    String::from_utf8(world.tmux(&["list-sessions", "-F", "#{session_name}"]).stdout).unwrap()
}

/// Its front is gone, so its warden ends it. The pane of a server stays when its program ends, and is closed by the next
/// manager, whether that comes at once or later; the reason is told once.
#[test]
fn the_tmux_session_of_what_a_warden_has_ended_is_closed() {
    for comes_later in [false, true] {
        let world = World::new();
        let mut batch = world.batch();
        let script = world.shell("log root; (leaf child) & wait");
        let session = world
            .launch(&mut batch, &Launch { host: Host::Tmux, kind: "serve", grace_s: 0.5, argv: &["bash", &script] });
        // Another one, so that the server stays.
        let other = world.shell("leaf other");
        world.launch(&mut batch, &Launch { host: Host::Tmux, kind: "shell", grace_s: 0.5, argv: &["bash", &other] });
        world.ledger.await_roles(&["root", "child", "other"]);
        batch.kill();
        assert!(tmux_sessions(&world).contains(&session.id));
        let front = world.tether(&session.id).unwrap()["front"]["pid"].as_i64().unwrap();
        let front = session.supervisors.iter().find(|held| i64::from(held.entry.pid) == front).unwrap();
        front.signal(Signal::KILL);
        eventually("the end of the tree", || !world.ledger.is_alive("root") && !world.ledger.is_alive("child"));
        if comes_later {
            for supervisor in &session.supervisors {
                assert!(supervisor.ends_within(PATIENCE));
            }
            let receipt = world.text(&format!("state/sessions/{}.receipt", session.id));
            let receipt: Value = serde_json::from_str(&receipt).unwrap();
            assert_eq!(receipt["host_closed"], json!(false), "nobody has closed it: {receipt:#}");
            assert_eq!(receipt["containment"], json!(["tree", "warden"]), "{receipt:#}");
            assert!(tmux_sessions(&world).contains(&session.id));
        }
        let hello = start(&world);
        let told = hello["ended"].to_string();
        eventually("its tmux session to be closed", || {
            start(&world);
            !tmux_sessions(&world).contains(&session.id)
        });
        assert!(told.contains("its tmux pane is gone") || !comes_later, "{comes_later}: {told}");
        assert!(world.tether(&session.id).is_none(), "{comes_later}");
        assert!(world.ledger.is_alive("other"));
        let writer = format!("{}.log", session.id);
        eventually("the end of the writer of its log", || {
            let all = std::fs::read_dir("/proc").unwrap().flatten();
            let mut lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
            !lines.any(|line| String::from_utf8_lossy(&line).contains(&writer))
        });
    }
}

/// The leader has ended, its warden keeps what it left behind, and no manager is there: it is an orphan, it is left alone by
/// a start, and ended at a person's word.
#[test]
fn who_outlives_the_leader_is_an_orphan() {
    let world = World::new();
    let mut batch = world.batch();
    let daemon = world.shell("trap '' HUP; log daemon; (leaf deep) & wait");
    let script = world.shell(&format!("log root; setsid bash {daemon} < /dev/null > /dev/null 2>&1 & exit 3"));
    let session = launched(&world, &mut batch, Host::Tmux, &script, &["root", "daemon", "deep"]);
    let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
    batch.ok(json!({ "cmd": "wait", "session": session.id, "for": "exit", "timeout_s": 20 }));
    batch.kill();
    let hello = start(&world);
    assert!(world.ledger.is_alive("daemon") && world.ledger.is_alive("deep"), "a start ends nobody: {hello:#}");
    let (_, orphans) = world.run(&["orphans"]);
    let row = rows(&orphans, "orphans").find(|row| row["session"] == session.id.as_str()).cloned();
    let row = row.unwrap_or_else(|| panic!("it is named: {orphans:#}"));
    assert_eq!(row["left"].as_array().map(Vec::len), Some(2), "{row:#}");
    let (_, doctor) = world.run(&["doctor"]);
    let check = rows(&doctor, "checks").find(|check| check["name"] == "orphans").unwrap().clone();
    assert_eq!(check["state"], "warn", "{check}");
    let (code, reaped) = world.run(&["orphans", "--reap", &session.id]);
    assert_eq!(code, 0, "{reaped:#}");
    assert!(world.ledger.alive().is_empty(), "{reaped:#}");
    bystanders.assert_untouched();
}

/// A restart takes the place of what it ended, and of nobody who was left alive on purpose.
#[test]
fn a_restart_loses_nobody_who_was_left_alive() {
    for host in [Host::Pty, Host::Tmux] {
        let world = World::new();
        let mut batch = world.batch();
        let daemon = world.shell("trap '' HUP TERM; log daemon; exec sleep $NAP");
        let script = world.shell(&format!("log root; (setsid bash {daemon} < /dev/null > /dev/null 2>&1 &); sleep 90"));
        let session = world.launch(&mut batch, &Launch { host, kind: "shell", grace_s: 0.5, argv: &["bash", &script] });
        world.ledger.await_roles(&["root", "daemon"]);
        let answer = batch.ok(json!({ "cmd": "restart", "session": session.id }));
        assert_eq!(answer["receipt"]["escapees"].as_array().map(Vec::len), Some(1), "{answer:#}");
        eventually("the second run", || world.ledger.entries().len() == 4);
        assert!(world.tether(&session.id).is_some(), "{answer:#}");
        let listed = batch.ok(json!({ "cmd": "orphans" }));
        let named = rows(&listed, "orphans").any(|row| row["session"] == session.id.as_str());
        assert!(named, "{listed:#}");
        let receipt = batch.ok(json!({ "cmd": "orphans", "reap": true, "session": session.id }));
        assert_eq!(world.ledger.alive().iter().filter(|entry| entry.role == "daemon").count(), 1, "{receipt:#}");
        world.ledger.end_all();
    }
}

/// A second stop of what is dead succeeds, and changes nothing of what happened.
#[test]
fn what_was_stopped_stays_stopped() {
    for host in [Host::Pty, Host::Tmux] {
        let world = World::new();
        let mut batch = world.batch();
        let script = world.shell("log root; (leaf child) & wait");
        let session = launched(&world, &mut batch, host, &script, &["root", "child"]);
        assert_eq!(batch.stop(&session.id)["dead"], true);
        for again in ["stop", "sweep", "stop"] {
            let receipt = batch.ok(json!({ "cmd": again, "session": session.id }));
            assert_eq!(receipt["dead"], true, "{receipt:#}");
            assert_eq!(receipt["outcomes"], json!([]), "nobody was there to be looked for");
            let row = batch.row(&session.id);
            assert_eq!((&row["phase"], &row["detail"]), (&json!("exited"), &json!("stopped")), "{again}: {row:#}");
        }
    }
}

/// The socket of a server that lives is gone: that is said, and nothing is launched in its place, where another server
/// would keep the first from being reached for good.
#[test]
fn a_socket_that_is_gone_is_no_absence() {
    let world = World::new();
    let mut batch = world.batch();
    let script = world.shell("leaf root");
    let session = launched(&world, &mut batch, Host::Tmux, &script, &["root"]);
    let server = world.server();
    std::fs::remove_file(world.socket_path()).unwrap();
    let hint = format!("kill -USR1 {}", server.entry.pid);
    let row = batch.row(&session.id);
    assert_eq!(row["phase"], "unverifiable", "{row:#}");
    assert!(row["detail"].as_str().unwrap().contains(&hint), "{row:#}");
    let error = batch.error(json!({ "cmd": "launch", "host": "tmux", "kind": "serve", "command": ["sleep", "60"] }));
    assert_eq!(error["kind"], "unverifiable", "{error}");
    assert!(error["message"].as_str().unwrap().contains(&hint), "{error}");
    assert!(!world.socket_path().exists(), "no other server was started");
    let doctor = batch.ok(json!({ "cmd": "doctor" }));
    let check = rows(&doctor, "checks").find(|check| check["name"] == "tmux server").unwrap().clone();
    assert!(check["state"] == "fail" && check["detail"].as_str().unwrap().contains(&hint), "{check}");
    server.signal(Signal::USR1);
    eventually("the new socket", || std::os::unix::net::UnixStream::connect(world.socket_path()).is_ok());
    assert_eq!(batch.row(&session.id)["phase"], "running");
    server.signal(Signal::STOP);
    eventually("the stop of the server", || crate::support::process_state(server.entry.pid) == Some('T'));
    let row = batch.row(&session.id);
    let hint = format!("kill -CONT {}", server.entry.pid);
    assert!(row["phase"] == "unverifiable" && row["detail"].as_str().unwrap().contains(&hint), "{row:#}");
    server.signal(Signal::CONT);
    assert_eq!(batch.stop(&session.id)["dead"], true);
}

/// Its front leaves after it: nobody waits for that, and the reason is there at once.
#[test]
fn a_warden_does_not_wait_for_its_front() {
    let world = World::new();
    let mut batch = world.batch();
    let script = world.shell("leaf root");
    let session = launched(&world, &mut batch, Host::Tmux, &script, &["root"]);
    batch.kill();
    let warden = world.tether(&session.id).unwrap()["warden"]["pid"].as_i64().unwrap();
    let warden = session.supervisors.iter().find(|held| i64::from(held.entry.pid) == warden).unwrap();
    warden.signal(Signal::TERM);
    assert!(warden.ends_within(PATIENCE));
    let (_, journal) = world.run(&["logs", "--receipts"]);
    let receipts: Vec<&Value> = rows(&journal, "receipts").collect();
    assert_eq!(receipts.len(), 1, "{journal:#}");
    let notes = receipts[0]["receipt"]["notes"].to_string();
    assert!(notes.contains("told to end it") && !notes.contains("has not left"), "{journal:#}");
    let told = start(&world)["ended"].to_string();
    assert!(told.contains("its warden was told to end it") && !told.contains("left by an earlier run"), "{told}");
}
