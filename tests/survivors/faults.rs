//! Faults that programs of this kind have shipped, as far as no other test shows that they are none here. The
//! table in `main.rs` names the test of each.

use std::net::TcpStream;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::matrix::{Shape, as_it_is, check, in_both};
use crate::support::{Batch, Host, Launch, PATIENCE, World, eventually, pids, python, rows};

in_both! { a_parent_that_ends_at_once_and_a_deaf_child what_has_ended_is_stopped_twice }

/// The child is in no second look at the tree: its parent, which led to it, is gone by then.
fn a_parent_that_ends_at_once_and_a_deaf_child(host: Host) {
    let world = World::new();
    let script = world.shell("log root; (trap '' TERM HUP; leaf child) & wait");
    let receipt = check(&world, host, &Shape::stubborn(&["bash", &script], &["root", "child"]), as_it_is);
    let child = i64::from(world.ledger.of("child").pid);
    let killed: Vec<i64> = rows(&receipt, "signals")
        .filter(|row| row["signal"] == "KILL")
        .map(|row| row["pid"].as_i64().unwrap())
        .collect();
    assert_eq!(killed, [child], "{receipt:#}");
}

fn what_has_ended_is_stopped_twice(host: Host) {
    let world = World::new();
    let mut batch = world.batch();
    let script = world.shell("log root; exit 0");
    let session = world.launch(&mut batch, &Launch { host, kind: "serve", grace_s: 0.5, argv: &["bash", &script] });
    batch.ok(json!({ "cmd": "wait", "session": session.id, "for": "exit", "timeout_s": 20 }));
    for _ in 0..2 {
        let receipt = batch.stop(&session.id);
        assert_eq!((&receipt["dead"], &receipt["signals"]), (&json!(true), &json!([])), "{receipt:#}");
        assert_eq!(receipt["host_closed"], true, "{receipt:#}");
    }
    assert_eq!(batch.finish().code(), Some(0));
}

/// The server leaves and frees its port; a worker of it holds the memory still.
#[test]
fn a_free_port_is_no_proof() {
    let world = World::new();
    let script = world.python(
        "
listener = socket.socket()
listener.bind(('127.0.0.1', 0))
listener.listen()

def worker():
    listener.close()
    deaf()
    leaf('worker')

forked(worker)
log('root')
with open(FX + '/port.new', 'w') as port:
    port.write(str(listener.getsockname()[1]))
os.rename(FX + '/port.new', FX + '/port')
time.sleep(200)
",
    );
    let mut batch = world.batch();
    let launch = Launch { host: Host::Pty, kind: "serve", grace_s: 2.0, argv: &[python(), &script] };
    let session = world.launch(&mut batch, &launch);
    world.ledger.await_roles(&["root", "worker"]);
    eventually("the port", || !world.text("port").is_empty());
    let port: u16 = world.text("port").parse().unwrap();
    let listens = || TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), Duration::from_secs(1)).is_ok();
    assert!(listens());
    let asked = batch.send(json!({ "cmd": "stop", "session": session.id }));
    eventually("the port is free", || !listens());
    assert!(world.ledger.is_alive("worker"), "it outlives the server for the whole grace");
    let receipt = batch.answer(asked)["result"].take();
    assert!(!world.ledger.is_alive("worker"), "{receipt:#}");
    assert_eq!((&receipt["dead"], &receipt["escalated"]), (&json!(true), &json!(true)), "{receipt:#}");
    assert_eq!(receipt["ports_released"], json!([port]), "{receipt:#}");
    assert!(pids(&receipt, "outcomes").contains(&i64::from(world.ledger.of("worker").pid)), "{receipt:#}");
}

/// A person's own session and those of another instance are on the same server: none of them is in our records.
#[test]
fn a_sweep_takes_nobody_elses_sessions() {
    let world = World::new();
    let mut ours = world.batch();
    let script = |role: &str| world.shell(&format!("leaf {role}"));
    let (ended, theirs, own) = (world.shell("log ended; exit 1"), script("theirs"), script("own"));
    let launch = |argv| Launch { host: Host::Tmux, kind: "serve", grace_s: 0.3, argv };
    world.launch(&mut ours, &launch(&["bash", &ended]));
    world.ledger.await_roles(&["ended"]);
    let mut argv = world.binary();
    argv[2] = world.path("state2").to_str().unwrap().to_owned();
    argv.extend(["--batch".to_owned(), "-".to_owned()]);
    let mut other = Batch::start(world.command(&argv));
    let request = json!({ "cmd": "launch", "command": ["bash", theirs], "kind": "serve", "host": "tmux" });
    let theirs = other.ok(request)["session"].as_str().unwrap().to_owned();
    // Named like one of ours.
    assert!(world.tmux(&["new-session", "-d", "-s", "serve-0123abcd", "bash", &own]).status.success());
    world.ledger.await_roles(&["theirs", "own"]);
    other.kill();
    eventually("the end of the first", || !world.ledger.is_alive("ended"));
    for request in [json!({ "cmd": "sweep" }), json!({ "cmd": "orphans", "reap": true })] {
        let answer = ours.ok(request);
        assert!(world.ledger.is_alive("theirs") && world.ledger.is_alive("own"), "{answer:#}");
        assert_eq!(answer["signals"].as_array().map_or(0, Vec::len), 0, "{answer:#}");
    }
    let error = ours.error(json!({ "cmd": "stop", "session": theirs }));
    assert_eq!(error["kind"], "not_found", "{error}");
    assert_eq!(ours.finish().code(), Some(4), "there is no such session of ours");
    assert!(world.ledger.is_alive("theirs") && world.ledger.is_alive("own"));
    let names = String::from_utf8(world.tmux(&["list-sessions", "-F", "#{session_name}"]).stdout).unwrap();
    assert!(names.contains("serve-0123abcd") && names.contains(&theirs), "{names}");
}

/// Manager and warden were killed, days ago perhaps: the next start names who is left, with what it costs.
#[test]
fn orphans_are_named_with_age_and_memory() {
    let world = World::new();
    let mut batch = world.batch();
    let script = world.shell("trap '' HUP; log root; (leaf child) & wait");
    let launch = Launch { host: Host::Pty, kind: "serve", grace_s: 0.5, argv: &["bash", &script] };
    let session = world.launch(&mut batch, &launch);
    world.ledger.await_roles(&["root", "child"]);
    let mut bystanders = world.bystanders(&["sleep", &world.nap], Some(&session.id));
    for supervisor in &session.supervisors {
        supervisor.signal(Signal::KILL);
        assert!(supervisor.ends_within(PATIENCE));
    }
    batch.kill();
    let (code, answer) = world.run(&["orphans"]);
    assert_eq!(code, 0, "{answer:#}");
    let orphan = rows(&answer, "orphans").find(|row| row["session"] == session.id).expect("it is named");
    assert!(orphan["age_s"].as_f64().unwrap() > 0.0, "{orphan:#}");
    assert!(orphan["rss_bytes"].as_u64().unwrap() > 0, "{orphan:#}");
    // Who only carries its marker is named as that, and counted nowhere.
    let (left, marked): (Vec<&Value>, Vec<&Value>) = rows(orphan, "left").partition(|row| row["verdict"] == "owned");
    assert_eq!((left.len(), &orphan["processes"], &orphan["verdict"]), (2, &2.into(), &"owned".into()), "{orphan:#}");
    let is_hint = |row: &&Value| row["reason"].as_str().unwrap().contains("not signalled");
    assert!(marked.iter().all(is_hint), "{orphan:#}");
    for (role, row) in ["root", "child"].iter().zip(&left) {
        assert!(left.iter().any(|row| row["pid"] == world.ledger.of(role).pid), "{role}: {orphan:#}");
        assert!(row["rss_bytes"].as_u64().unwrap() > 0 && row.get("cpu_pct").is_some(), "{row}");
        assert!(!row["command"].as_str().unwrap().is_empty(), "{row}");
    }
    let (code, answer) = world.run(&["orphans", "--reap"]);
    assert_eq!(code, 0, "{answer:#}");
    assert!(world.ledger.alive().is_empty(), "{answer:#}");
    bystanders.assert_untouched();
}
