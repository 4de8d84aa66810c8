//! Several managers on one state directory: a PTY session is reached through the one that owns it.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::Batch;
use crate::oracle::{Bystanders, Watched};
use crate::rig::{Ran, Rig, until};

/// Starts a manager with one PTY session named `n`, whose workload keeps a ledger.
fn owner(rig: &Rig, argv: &[&str]) -> (Batch, String, Watched) {
    let ledger = rig.ledger("ledger");
    let mut owner = rig.batch();
    let request = json!({"command": ledger.noted(argv), "host": "pty", "name": "n", "kind": "agent"});
    let session = owner.launch(request);
    (owner, session, ledger.one())
}

/// Returns the one control socket that is there.
fn socket(rig: &Rig) -> PathBuf {
    let found = fs::read_dir(rig.runtime()).unwrap().map(|entry| entry.unwrap());
    let mut found: Vec<_> = found.filter(|entry| entry.file_name().to_str().unwrap().starts_with('c')).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.pop().unwrap().path()
}

fn ask(path: &PathBuf, line: &[u8]) -> String {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.write_all(line).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_pty_session_is_seen_typed_into_and_stopped_from_elsewhere() {
    let rig = Rig::new();
    let nap = rig.nap();
    let mut strangers = Bystanders::new(&["sleep", &nap]);
    let (mut owner, session, workload) = owner(&rig, &["sh", "-c", &format!("sleep {nap} & exec cat")]);
    owner.ok(json!({"cmd": "subscribe"}));
    let row = rig.json(&["ls"])["sessions"][0].take();
    assert_eq!((&row["session"], &row["owner"]), (&json!(session), &json!(format!("pid {}", owner.pid()))));
    rig.json(&["send", "n", "from elsewhere", "--key", "Enter"]);
    let found = rig.json(&["wait", "n", "--for", "output", "--regex", "from (else)where", "--timeout", "20"]);
    assert_eq!(found["match"], "from elsewhere");
    let screen = rig.json(&["screen", "n"]);
    assert!(screen["lines"].as_array().unwrap().contains(&json!("from elsewhere")), "{screen}");
    let mut other = rig.batch();
    other.ok(json!({"cmd": "resize", "session": "n", "rows": 17, "cols": 71}));
    assert_eq!(owner.ok(json!({"cmd": "screen", "session": session}))["cols"], 71);
    let plan = other.ok(json!({"cmd": "stop", "session": session, "dry_run": true}));
    assert_eq!(plan["plan"].as_array().unwrap().len(), 2, "{plan}");
    workload.assert_alive();
    let receipt = other.ok(json!({"cmd": "stop", "session": session}));
    assert_eq!((&receipt["dead"], &receipt["host_closed"]), (&json!(true), &json!(true)), "{receipt}");
    assert_eq!(receipt["outcomes"].as_array().unwrap().len(), 2, "{receipt}");
    workload.assert_ends();
    strangers.assert_alive();
    // The owner tells it, and had it observed.
    owner.event("receipt", |_| true);
    assert_eq!(owner.ok(json!({"cmd": "list"}))["sessions"][0]["phase"], "exited");
    assert_eq!(owner.finish(), Some(0));
    assert_eq!(other.finish(), Some(0));
    assert!(fs::read_dir(rig.runtime()).unwrap().next().is_none(), "a socket was left");
}

#[test]
fn a_restart_from_elsewhere_stays_with_the_owner() {
    let rig = Rig::new();
    let (mut owner, session, old) = owner(&rig, &["sleep", &rig.nap()]);
    let again = rig.json(&["restart", "n"]);
    assert_ne!(again["session"], json!(session));
    old.assert_ends();
    let new = Watched::of(i32::try_from(again["pid"].as_i64().unwrap()).unwrap());
    new.assert_alive();
    let rows = owner.ok(json!({"cmd": "list"}));
    let alive: Vec<&Value> =
        rows["sessions"].as_array().unwrap().iter().filter(|row| row["phase"] == "running").collect();
    assert_eq!((alive.len(), &alive[0]["session"], &alive[0]["owner"]), (1, &again["session"], &Value::Null));
    owner.finish();
    new.assert_ends();
}

#[test]
fn an_owner_that_cannot_be_reached_is_named_and_nobody_is_signalled() {
    let rig = Rig::new();
    let (mut owner, _, workload) = owner(&rig, &["sleep", &rig.nap()]);
    let path = socket(&rig);
    fs::remove_file(&path).unwrap();
    let ran = rig.run(&["stop", "n"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.error().contains(&format!("process {}", owner.pid())), "{ran:?}");
    // Somebody who listens in its place is told nothing.
    let imposter = UnixListener::bind(&path).unwrap();
    let heard = std::thread::spawn(move || {
        let (mut stream, _) = imposter.accept().unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap();
        heard
    });
    let ran = rig.run(&["send", "n", "secret"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.error().contains("somebody else listens"), "{ran:?}");
    assert_eq!(heard.join().unwrap(), b"");
    workload.assert_alive();
    owner.finish();
    workload.assert_ends();
}

#[test]
fn a_suspended_owner_is_said_to_be_one() {
    let rig = Rig::new();
    let (mut owner, _, workload) = owner(&rig, &["sleep", &rig.nap()]);
    owner.signal(Signal::STOP);
    let ran = rig.run(&["screen", "n"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.error().contains("may be suspended"), "{ran:?}");
    // Also where an answer may take its time. They wait beside each other.
    let asked = ["stop", "restart"].map(|word| rig.command(&[word, "n"]).spawn().unwrap());
    let before = std::time::Instant::now();
    for ran in asked.map(Ran::of) {
        assert!(ran.code == Some(1) && ran.error().contains("may be suspended"), "{ran:?}");
    }
    assert!(before.elapsed().as_secs() < 30, "nobody waits for a stop that has not begun: {:?}", before.elapsed());
    owner.signal(Signal::CONT);
    assert_eq!(rig.run(&["screen", "n"]).code, Some(0));
    std::thread::sleep(std::time::Duration::from_millis(500));
    // What has failed for them is not done after all.
    workload.assert_alive();
    owner.finish();
    workload.assert_ends();
}

#[test]
fn an_owner_that_is_killed_leaves_its_session_to_the_warden_and_to_us() {
    let rig = Rig::new();
    let (mut owner, session, workload) = owner(&rig, &["sleep", &rig.nap()]);
    let mut other = rig.batch();
    let waiting = other.send(json!({"cmd": "wait", "session": session, "for": "output", "regex": "never"}));
    std::thread::sleep(std::time::Duration::from_millis(200));
    owner.signal(Signal::KILL);
    workload.assert_ends();
    let answer = other.answer(&waiting);
    assert_eq!(answer["ok"], false, "{answer}");
    owner.ended();
    other.finish();
    rig.assert_empty();
}

#[test]
fn what_comes_to_the_control_socket_is_checked() {
    let rig = Rig::new();
    let (mut owner, session, workload) = owner(&rig, &["sleep", &rig.nap()]);
    let path = socket(&rig);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let request = |protocol: u32, command: Value| {
        let mut line = serde_json::to_vec(&json!({"protocol": protocol, "command": command})).unwrap();
        line.push(b'\n');
        line
    };
    for (line, expected) in [
        (b"\xff\x00garbage\n".to_vec(), "not a request"),
        (b"".to_vec(), "not a request"),
        (request(2, json!({"screen": {"session": session}})), "protocol 2"),
        (request(1, json!({"stop": {"session": session, "wat": 1}})), "wat"),
        (request(1, json!({"launch": {"command": "true"}})), "not asked of an owner"),
        (request(1, json!({"quit": {}})), "not asked of an owner"),
        (request(1, json!({"stop": {"session": "nobody"}})), "nobody"),
    ] {
        let answer = ask(&path, &line);
        assert!(answer.starts_with("{\"Err\":") && answer.contains(expected), "{expected}: {answer}");
    }
    // More than a request can be: it is not kept until it ends.
    let mut endless = UnixStream::connect(&path).unwrap();
    let part = vec![b'['; 1 << 20];
    let taken = (0..16).take_while(|_| endless.write_all(&part).is_ok()).count();
    assert!(taken < 16, "it took {taken} MiB");
    workload.assert_alive();
    owner.ok(json!({"cmd": "list"}));
    owner.finish();
    workload.assert_ends();
}

/// What a watcher asks: pictures, and what was typed.
#[test]
fn a_watcher_sees_pictures_and_types() {
    let rig = Rig::new();
    let (mut owner, session, workload) = owner(&rig, &["sh", "-c", "printf 'a \\033[1mbold\\033[m word\\n'; exec cat"]);
    owner.expect_output(&session, "bold word");
    let path = socket(&rig);
    let asks = |request: Value| -> Value {
        let mut line = serde_json::to_vec(&request).unwrap();
        line.push(b'\n');
        serde_json::from_str(&ask(&path, &line)).unwrap()
    };
    let look =
        |since: Value| asks(json!({"protocol": 1, "picture": {"session": session, "since": since}}))["Ok"].take();
    let first = look(Value::Null);
    let painted = first["painted"].as_str().unwrap();
    assert!(painted.contains("a \x1b[1mbold\x1b[m word"), "{painted:?}");
    assert_eq!(look(first["generation"].clone())["painted"], Value::Null, "nothing has changed");
    // "typed\r"
    let typed = asks(json!({"protocol": 1, "type": {"session": session, "base64": "dHlwZWQN"}}));
    assert_eq!(typed, json!({"Ok": null}));
    owner.expect_output(&session, "typed");
    until("the new picture", || {
        look(first["generation"].clone())["painted"].as_str().is_some_and(|painted| painted.contains("typed"))
    });
    for (request, expected) in [
        (json!({"protocol": 2, "picture": {"session": session, "since": null}}), "protocol 2"),
        (json!({"protocol": 2, "type": {"session": session, "base64": ""}}), "protocol 2"),
        (json!({"protocol": 1, "type": {"session": session, "base64": "!"}}), "base64"),
        (json!({"protocol": 1, "type": {"session": "nobody", "base64": ""}}), "nobody"),
        (json!({"protocol": 1, "picture": {"session": session, "wat": 1}}), "wat"),
        (json!({"protocol": 1, "stare": {"session": session}}), "not a request"),
    ] {
        let answer = asks(request).to_string();
        assert!(answer.starts_with("{\"Err\":") && answer.contains(expected), "{expected}: {answer}");
    }
    owner.ok(json!({"cmd": "stop", "session": session}));
    workload.assert_ends();
    let late = asks(json!({"protocol": 1, "type": {"session": session, "base64": "dHlwZWQN"}})).to_string();
    assert!(late.contains("has ended"), "{late}");
    assert!(look(Value::Null)["painted"].as_str().unwrap().contains("bold"), "its last screen is kept");
    owner.finish();
}

#[test]
fn nobody_goes_on_waiting_for_an_asker_that_has_left() {
    let rig = Rig::new();
    let (mut owner, _, _) = owner(&rig, &["sleep", &rig.nap()]);
    let pid = owner.pid();
    let threads = || fs::read_dir(format!("/proc/{pid}/task")).unwrap().count();
    let before = threads();
    let mut asker = rig.command(&["wait", "n", "--for", "output", "--regex", "never"]).spawn().unwrap();
    until("the owner waits", || threads() > before);
    asker.kill().unwrap();
    asker.wait().unwrap();
    until("the owner waits no more", || threads() <= before);
    owner.finish();
}
