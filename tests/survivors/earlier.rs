//! The next start says which sessions of earlier runs have ended, and why: once, by every face that launches.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Batch, Host, Launch, PATIENCE, Session, World, eventually, pids, rows};

fn launched(world: &World, batch: &mut Batch, host: Host) -> Session {
    let script = world.shell("trap 'exit 3' USR1; log root; while :; do sleep 0.05; done");
    let session = world.launch(batch, &Launch { host, kind: "shell", grace_s: 0.5, argv: &["bash", &script] });
    world.ledger.await_roles(&["root"]);
    session
}

/// Returns what a new batch says of earlier runs.
fn said(world: &World) -> Vec<String> {
    let hello = world.batch().ok(json!({ "cmd": "hello" }));
    let lines = hello["ended"].as_array().into_iter().flatten();
    lines.map(|line| line.as_str().unwrap().to_owned()).collect()
}

#[track_caller]
fn assert_said_once(world: &World, session: &str, parts: &[&str]) {
    let lines = said(world);
    assert_eq!(lines.len(), 1, "{lines:?}");
    for part in [session].iter().chain(parts) {
        assert!(lines[0].contains(part), "{part}: {lines:?}");
    }
    assert_eq!(said(world), Vec::<String>::new(), "it is said once");
}

#[test]
fn of_a_manager_that_was_ended_by_a_signal() {
    for (signal, word) in [(Signal::HUP, "HUP"), (Signal::TERM, "TERM")] {
        let world = World::new();
        let mut batch = world.batch();
        let session = launched(&world, &mut batch, Host::Pty);
        batch.signal(signal);
        world.ledger.await_empty();
        batch.await_end();
        assert!(world.tether(&session.id).is_none());
        assert_said_once(&world, &session.id, &["its manager was ended by", word, "nothing is left"]);
    }
}

/// Who quits has seen what ends.
#[test]
fn not_of_a_manager_that_has_quit() {
    let world = World::new();
    let mut batch = world.batch();
    launched(&world, &mut batch, Host::Pty);
    batch.finish();
    world.ledger.await_empty();
    assert_eq!(said(&world), Vec::<String>::new());
}

#[test]
fn of_a_manager_that_was_killed() {
    let world = World::new();
    let mut batch = world.batch();
    let session = launched(&world, &mut batch, Host::Pty);
    batch.kill();
    world.ledger.await_empty();
    let receipt = format!("state/sessions/{}.receipt", session.id);
    eventually("the receipt of the warden", || world.path(&receipt).exists());
    eventually("the record goes", || world.tether(&session.id).is_none());
    // Until then it holds the lock: whoever comes meanwhile leaves it to the next one.
    for supervisor in &session.supervisors {
        assert!(supervisor.ends_within(PATIENCE));
    }
    // Named as it was, for there is no record any more to tell.
    assert_said_once(&world, &session.id, &["(bash)", "owner is gone (ended by HUP)", "nothing is left"]);
}

/// Daemons are kept and a shell's escapees are reported: their session is over all the same, and so are its reasons. It is
/// said once with their names, and once more when they are gone.
#[test]
fn with_those_who_were_left() {
    for killed in [true, false] {
        let world = World::new();
        let mut batch = world.batch();
        let daemon = world.shell("trap '' HUP TERM; log daemon; exec sleep $NAP");
        let script = world.shell(&format!("log root; (setsid bash {daemon} < /dev/null > /dev/null 2>&1 &); sleep 90"));
        let launch = Launch { host: Host::Pty, kind: "shell", grace_s: 0.5, argv: &["bash", &script] };
        let session = world.launch(&mut batch, &launch);
        world.ledger.await_roles(&["root", "daemon"]);
        let why = if killed {
            batch.kill();
            "ended by its warden: its owner is gone"
        } else {
            batch.signal(Signal::TERM);
            batch.await_end();
            "its manager was ended by TERM"
        };
        eventually("the end of the session", || !world.ledger.is_alive("root"));
        eventually("what is written of it", || {
            world.tether(&session.id).is_some_and(|tether| tether["last"].is_object() && tether["untold"] == true)
        });
        let left = format!("one process was left alive: pid {}", world.ledger.of("daemon").pid);
        assert_said_once(&world, &session.id, &[why, &left]);
        assert!(world.ledger.is_alive("daemon") && world.tether(&session.id).is_some());
        // Whether the hang-up of its terminal was faster or a signal: it did not fail, and it is named.
        let row = world.batch().row(&session.id);
        assert_eq!(row["phase"], "exited", "{row:#}");
        let receipt: Value =
            serde_json::from_str(&world.text(&format!("state/sessions/{}.receipt", session.id))).unwrap();
        assert!(pids(&receipt, "outcomes").contains(&i64::from(world.ledger.of("root").pid)), "{receipt:#}");
        world.ledger.signal("daemon", Signal::KILL);
        world.ledger.await_empty();
        for supervisor in &session.supervisors {
            assert!(supervisor.ends_within(PATIENCE));
        }
        assert_said_once(&world, &session.id, &["who was left of it is gone"]);
    }
}

/// Those whom a stop in tmux has left have ended: their record goes, and that is told.
#[test]
fn of_those_whom_a_stop_has_left() {
    let world = World::new();
    let mut batch = world.batch();
    let daemon = world.shell("trap '' HUP TERM; log daemon; exec sleep $NAP");
    let script = world.shell(&format!("log root; (setsid bash {daemon} < /dev/null > /dev/null 2>&1 &); sleep 90"));
    let launch = Launch { host: Host::Tmux, kind: "shell", grace_s: 0.5, argv: &["bash", &script] };
    let session = world.launch(&mut batch, &launch);
    world.ledger.await_roles(&["root", "daemon"]);
    let receipt = batch.stop(&session.id);
    assert_eq!(pids(&receipt, "escapees").len(), 1, "{receipt:#}");
    batch.finish();
    assert_eq!(said(&world), Vec::<String>::new(), "whoever stopped it was told");
    world.ledger.signal("daemon", Signal::KILL);
    world.ledger.await_empty();
    for supervisor in &session.supervisors {
        assert!(supervisor.ends_within(PATIENCE));
    }
    assert_said_once(&world, &session.id, &["who was left of it is gone"]);
    assert!(world.tether(&session.id).is_none());
    assert_eq!(world.run(&["orphans"]).1["orphans"], json!([]));
}

/// Warden and manager are killed, and nothing but its marker ties those who have left the tree to their session: they are
/// named by every face and signalled by nobody, and when they are gone, that is told.
#[test]
fn with_those_who_carry_its_marker() {
    for (host, exits) in [(Host::Pty, false), (Host::Tmux, false), (Host::Tmux, true)] {
        let world = World::new();
        let mut batch = world.batch();
        let daemon = world.shell("trap '' HUP TERM; log daemon; exec sleep $NAP");
        let then = if exits { "until [ -e $FX/end ]; do sleep 0.05; done; exit 3" } else { "exec sleep 90" };
        let script = world.shell(&format!("log root; (setsid bash {daemon} < /dev/null > /dev/null 2>&1 &); {then}"));
        let session = world.launch(&mut batch, &Launch { host, kind: "serve", grace_s: 0.5, argv: &["bash", &script] });
        world.ledger.await_roles(&["root", "daemon"]);
        let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
        if exits {
            std::fs::write(world.path("end"), "").unwrap();
            batch.ok(json!({ "cmd": "wait", "session": session.id, "for": "exit", "timeout_s": 20 }));
        }
        batch.signal(Signal::STOP);
        for supervisor in &session.supervisors {
            supervisor.signal(Signal::KILL);
        }
        batch.kill();
        eventually("the end of the leader", || !world.ledger.is_alive("root"));
        let daemon = i64::from(world.ledger.of("daemon").pid);
        let named = format!("pid {daemon} (carries the session's marker");
        assert_said_once(&world, &session.id, &["one process was left alive", &named]);
        let mut next = world.batch();
        let orphans = next.ok(json!({ "cmd": "orphans" }));
        let row = &orphans["orphans"][0];
        assert_eq!(row["session"], session.id.as_str(), "{host:?}: {orphans:#}");
        assert!(pids(row, "left").contains(&daemon), "{host:?}: {orphans:#}");
        assert!(row["left"][0]["reason"].as_str().unwrap().contains("marker"), "{row:#}");
        assert_eq!(row["left"][0]["verdict"], "unverifiable", "{row:#}");
        let row = next.row(&session.id);
        assert!(row["processes"] == 1 && row["detail"].as_str().unwrap().contains("marker"), "{host:?}: {row:#}");
        let error = next.error(json!({ "cmd": "dismiss", "session": session.id }));
        assert!(error["message"].as_str().unwrap().contains(&daemon.to_string()), "{error}");
        let (_, doctor) = world.run(&["doctor"]);
        let check = rows(&doctor, "checks").find(|check| check["name"] == "orphans").unwrap();
        assert_eq!(check["state"], "warn", "{host:?}: {check}");
        next.ok(json!({ "cmd": "orphans", "reap": true }));
        assert!(world.ledger.is_alive("daemon"), "a marker is no reason to signal anybody");
        drop(next);
        world.ledger.signal("daemon", Signal::KILL);
        world.ledger.await_empty();
        assert_said_once(&world, &session.id, &["who was left of it is gone"]);
        bystanders.assert_untouched();
    }
}

/// Nobody is there any more who could tell whose group it is.
#[test]
fn with_those_of_whom_nobody_can_tell() {
    let world = World::new();
    let mut batch = world.batch();
    let script = world.shell("trap '' HUP; log root; (trap '' HUP TERM; leaf child) & wait");
    let launch = Launch { host: Host::Pty, kind: "serve", grace_s: 0.5, argv: &["bash", &script] };
    let session = world.launch(&mut batch, &launch);
    world.ledger.await_roles(&["root", "child"]);
    for supervisor in &session.supervisors {
        supervisor.signal(Signal::KILL);
    }
    world.ledger.signal("root", Signal::KILL);
    batch.kill();
    eventually("the end of the leader", || !world.ledger.is_alive("root"));
    assert_said_once(&world, &session.id, &["its manager is gone", "not everything that was with it"]);
    assert!(world.ledger.is_alive("child") && world.tether(&session.id).is_some());
    world.ledger.end_all();
}

/// What has ended by itself was told then. As in tmux it is kept, with its status, its log and what it showed last, when a
/// person's manager is left, and when any is killed, until somebody dismisses it.
#[test]
fn what_has_ended_by_itself_is_kept_and_not_told() {
    for (killed, code) in [(false, 0), (false, 3), (true, 3)] {
        let world = World::new();
        let script = world.shell(&format!("log root; echo last words; exit {code}"));
        let face = if killed { ["--batch", "-"].as_slice() } else { &["--plain"] };
        let argv: Vec<String> = world.binary().into_iter().chain(face.iter().map(|&word| word.to_owned())).collect();
        let mut manager = world.command(&argv).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let line = if killed {
            json!({ "cmd": "launch", "command": ["bash", script], "kind": "shell", "host": "pty" }).to_string()
        } else {
            format!("start --kind shell --host pty -- bash {script}")
        };
        writeln!(manager.stdin.as_mut().unwrap(), "{line}").unwrap();
        let mut id = String::new();
        eventually("the end of the session", || {
            let (_, listed) = world.run(&["ls"]);
            let row = &listed["sessions"][0];
            id = row["session"].as_str().unwrap_or_default().to_owned();
            row["exit_code"] == code
        });
        eventually("the end of its warden", || world.stages().is_empty());
        if killed {
            manager.kill().unwrap();
        }
        drop(manager.stdin.take());
        manager.wait().unwrap();
        assert_eq!(said(&world), Vec::<String>::new());
        let mut next = world.batch();
        let row = next.row(&id);
        let phase = if code == 0 { "exited" } else { "failed" };
        assert_eq!((&row["phase"], &row["exit_code"]), (&json!(phase), &json!(code)), "{row:#}");
        assert_eq!((&row["owner"], &row["verdict"]), (&Value::Null, &json!("gone")), "{row:#}");
        let news = next.events().iter().any(|event| event["event"] == "exited");
        assert!(!news, "it had ended before");
        let screen = next.ok(json!({ "cmd": "screen", "session": id }));
        assert_eq!(screen["lines"][0], "last words", "{screen:#}");
        let logs = next.ok(json!({ "cmd": "logs", "session": id }));
        assert_eq!(logs["lines"], json!(["last words"]), "{logs:#}");
        let orphans = next.ok(json!({ "cmd": "orphans" }));
        assert_eq!(orphans["orphans"], json!([]), "{orphans:#}");
        next.ok(json!({ "cmd": "dismiss", "session": id }));
        assert!(world.tether(&id).is_none());
        let files = std::fs::read_dir(world.path("state/sessions")).unwrap();
        assert_eq!(files.count(), 0, "nothing but its log stays");
    }
}

/// A harness that is killed closes both ends at once.
#[test]
fn of_a_manager_whose_reader_went_away() {
    let world = World::new();
    let script = world.shell("leaf root");
    let mut argv = world.binary();
    argv.extend(["--batch".to_owned(), "-".to_owned()]);
    let mut manager = world.command(&argv).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let launch = json!({ "cmd": "launch", "command": ["bash", script], "kind": "serve", "host": "pty" });
    writeln!(manager.stdin.as_mut().unwrap(), "{launch}").unwrap();
    let mut answer = String::new();
    BufReader::new(manager.stdout.take().unwrap()).read_line(&mut answer).unwrap();
    world.ledger.await_roles(&["root"]);
    drop(manager.stdin.take());
    manager.wait().unwrap();
    world.ledger.await_empty();
    let session = serde_json::from_str::<Value>(&answer).unwrap()["result"]["session"].as_str().unwrap().to_owned();
    assert_said_once(&world, &session, &["whoever read its manager's answers went away", "nothing is left"]);
}

/// The machine was restarted: a record of another boot names nobody.
#[test]
fn of_a_machine_that_was_restarted() {
    let world = World::new();
    let mut batch = world.batch();
    let session = launched(&world, &mut batch, Host::Tmux);
    let record = world.tether(&session.id).unwrap();
    let boot = record["boot_id"].as_str().unwrap().to_owned();
    assert_eq!(batch.stop(&session.id)["dead"], true);
    drop(batch);
    let old = record.to_string().replace(&boot, "00000000-0000-0000-0000-000000000000");
    std::fs::write(world.path(&format!("state/sessions/{}.json", session.id)), old).unwrap();
    assert_said_once(&world, &session.id, &["last boot"]);
}

/// A stop that was asked for is told by its answer, even where the manager is asked to end meanwhile.
#[test]
fn not_of_a_stop_that_was_asked_for() {
    let world = World::new();
    let mut batch = world.batch();
    let deaf = world.shell("trap '' HUP TERM; leaf root");
    let launch = Launch { host: Host::Pty, kind: "serve", grace_s: 1.0, argv: &["bash", &deaf] };
    let session = world.launch(&mut batch, &launch);
    world.ledger.await_roles(&["root"]);
    batch.send(json!({ "cmd": "stop", "session": session.id }));
    batch.await_event("of a signal", |event| event["event"] == "signal");
    batch.signal(Signal::TERM);
    batch.await_end();
    assert_eq!((world.ledger.alive().len(), said(&world)), (0, Vec::new()));
}

/// A batch that never says `hello`: as events where it has subscribed, else on standard error; and a person who reaps.
#[test]
fn by_whoever_asks_for_something_else() {
    for face in ["subscribe", "list", "--reap"] {
        let world = World::new();
        let mut batch = world.batch();
        let session = launched(&world, &mut batch, Host::Pty);
        batch.kill();
        world.ledger.await_empty();
        for supervisor in &session.supervisors {
            assert!(supervisor.ends_within(PATIENCE));
        }
        let mut argv = world.binary();
        let words = if face == "--reap" { ["orphans", "--reap"] } else { ["--batch", "-"] };
        argv.extend(words.map(str::to_owned));
        let mut command = world.command(&argv);
        let mut asks = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        writeln!(asks.stdin.take().unwrap(), "{}", json!({ "cmd": face })).unwrap();
        let output = asks.wait_with_output().unwrap();
        let (said_out, said_err) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        let (there, elsewhere) = if face == "list" { (&said_err, &said_out) } else { (&said_out, &said_err) };
        assert!(
            there.contains("its owner is gone (ended by HUP); nothing is left") && there.contains(&session.id),
            "{face}: {there}"
        );
        assert!(!elsewhere.contains("owner is gone"), "{face}: {elsewhere}");
        assert!(face != "subscribe" || there.contains(r#""event":"ended""#), "{there}");
        assert_eq!(said(&world), Vec::<String>::new(), "{face}: it is said once");
    }
}

/// On the standard error of a launch, so that its answer stays what it is.
#[test]
fn by_a_launch_too() {
    let world = World::new();
    let mut batch = world.batch();
    let session = launched(&world, &mut batch, Host::Pty);
    batch.signal(Signal::HUP);
    world.ledger.await_empty();
    batch.await_end();
    let mut argv = world.binary();
    argv.extend(
        ["launch", "--json", "--host", "tmux", "--kind", "shell", "--", "sleep", &world.nap].map(str::to_owned),
    );
    let output = world.command(&argv).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains(&session.id) && errors.contains("its manager was ended by HUP"), "{errors}");
    assert_eq!(world.batch().stop(answer["session"].as_str().unwrap())["dead"], true);
}
