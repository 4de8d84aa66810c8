//! Processes of other users inside a session.

use std::os::unix::fs::{PermissionsExt, chown};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::matrix::{Shape, check, in_both};
use crate::support::{Batch, Host, Launch, PATIENCE, Session, World, eventually, is_root, pids, python, rows, skip};

in_both! { a_child_of_nobody }

fn uid_of(pid: i32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.lines().find_map(|line| line.strip_prefix("Uid:\t")).unwrap().split('\t').next().unwrap().to_owned()
}

/// We are root: a child that gave its rights away is ended like any other.
fn a_child_of_nobody(host: Host) {
    if !is_root() {
        return skip("needs root");
    }
    let world = World::new();
    let inner = "log child; exec setpriv --reuid=65534 --regid=65534 --clear-groups sleep $NAP";
    let script = world.shell(&format!("log root; ({inner}) & wait"));
    check(&world, host, &Shape::mild(&["bash", &script], &["root", "child"]), |world, _, _| {
        assert_eq!(uid_of(world.ledger.of("child").pid), "65534");
    });
}

/// Nobody has these; so nobody else can run the set-user-ID program of this test.
const UID: u32 = 64_987;
const GID: u32 = 64_986;

/// Returns the binary as somebody who is not root runs it.
fn as_somebody(world: &World) -> Vec<String> {
    let binary = world.path("cookbook-tui");
    if !binary.exists() {
        // It may be where only root can read.
        std::fs::copy(env!("CARGO_BIN_EXE_cookbook-tui"), &binary).unwrap();
    }
    let mut argv: Vec<String> = ["setpriv", "--reuid", &UID.to_string(), "--regid", &GID.to_string(), "--clear-groups"]
        .map(str::to_owned)
        .into();
    argv.push(binary.to_str().unwrap().to_owned());
    argv.extend(world.binary().into_iter().skip(1));
    argv
}

fn run_as_somebody(world: &World, arguments: &[&str]) -> Value {
    let mut argv = as_somebody(world);
    argv.extend(arguments.iter().map(|&word| word.to_owned()));
    argv.push("--json".into());
    let output = world.command(&argv).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output:?}"))
}

/// Somebody who is not root launches a session with a descendant that becomes root.
fn with_an_elevated_descendant(world: &World) -> (Batch, Session) {
    for name in ["", "run", "tmux", "home", "ledger"] {
        chown(world.path(name), Some(UID), Some(GID)).unwrap();
    }
    // Only the group of this test may run it.
    let elevated = world.path("elevated");
    std::fs::copy(python(), &elevated).unwrap();
    chown(&elevated, Some(0), Some(GID)).unwrap();
    std::fs::set_permissions(&elevated, std::fs::Permissions::from_mode(0o4750)).unwrap();
    // Reading a file of root's is enough for its interpreter.
    let root = world.python("deaf()\nos.setuid(0)\nlog('elevated')\ntime.sleep(120)");
    let script = world.shell(&format!("log root; {} -I {root} & (leaf child) & wait", elevated.display()));
    let mut argv = as_somebody(world);
    argv.extend(["--batch".to_owned(), "-".to_owned()]);
    let mut batch = Batch::start(world.command(&argv));
    let launch = Launch { host: Host::Pty, kind: "serve", grace_s: 0.5, argv: &["bash", &script] };
    let session = world.launch(&mut batch, &launch);
    world.ledger.await_roles(&["root", "child", "elevated"]);
    eventually("the change of user", || uid_of(world.ledger.of("elevated").pid) == "0");
    assert_eq!(uid_of(world.ledger.of("root").pid), UID.to_string());
    (batch, session)
}

/// The manager has no rights over a descendant that became root: it survives, and the receipt says why.
#[test]
fn a_descendant_that_became_root() {
    if !is_root() {
        return skip("needs root");
    }
    let world = World::new();
    let (mut batch, session) = with_an_elevated_descendant(&world);
    let elevated = world.ledger.of("elevated").pid;
    let receipt = batch.stop(&session.id);
    assert!(world.ledger.is_alive("elevated"), "{receipt:#}");
    assert!(!world.ledger.is_alive("root") && !world.ledger.is_alive("child"), "{receipt:#}");
    assert_eq!(receipt["dead"], false, "{receipt:#}");
    assert_eq!(receipt["survivors"], json!([elevated]), "{receipt:#}");
    let outcome = rows(&receipt, "outcomes").find(|row| row["pid"] == elevated).unwrap();
    assert_eq!(outcome["outcome"], "survived", "{outcome}");
    let reason = outcome["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("not permitted"), "{outcome}");
    assert!(
        !pids(&receipt, "signals").contains(&i64::from(elevated)),
        "a signal that was refused is none\n{receipt:#}"
    );
    let tether = world.tether(&session.id).expect("what is left stays recorded");
    assert!(tether["last"]["reason"].as_str().unwrap().contains(&elevated.to_string()), "{}", tether["last"]);
    // Somebody who may ends it: then the same stop finds everything dead.
    world.ledger.signal("elevated", Signal::KILL);
    eventually("the end of the elevated one", || !world.ledger.is_alive("elevated"));
    let receipt = batch.stop(&session.id);
    assert_eq!(receipt["dead"], Value::Bool(true), "{receipt:#}");
    assert!(world.tether(&session.id).is_none());
    assert_eq!(batch.finish().code(), Some(3), "the first stop was not clean");
}

/// Nor has the warden: with the owner gone, its record says who is left and why, to whoever asks, until nobody is.
#[test]
fn a_descendant_that_became_root_and_no_manager() {
    if !is_root() {
        return skip("needs root");
    }
    let world = World::new();
    let (mut batch, session) = with_an_elevated_descendant(&world);
    let mut bystanders = world.bystanders(&["sleep", &world.nap], Some(&session.id));
    let elevated = world.ledger.of("elevated").pid;
    batch.kill();
    let last = || world.tether(&session.id).unwrap_or_default()["last"].clone();
    eventually("the word of the warden", || last() != Value::Null);
    assert!(world.ledger.is_alive("elevated"));
    assert!(!world.ledger.is_alive("root") && !world.ledger.is_alive("child"));
    let last = last();
    let reason = last["reason"].as_str().unwrap();
    for words in [&format!("pid {elevated} survived"), "not permitted", "its owner is gone"] {
        assert!(reason.contains(words), "{words:?} is not in {reason:?}");
    }
    assert_eq!(last["verdict"], "owned", "{last}");
    assert!(last["at"].as_u64().unwrap() > 0, "{last}");
    let listed = run_as_somebody(&world, &["ls"]);
    let row = rows(&listed, "sessions").find(|row| row["session"] == session.id).expect("it is listed");
    assert!(row["detail"].as_str().unwrap().contains(reason), "{row:#}");
    let orphans = run_as_somebody(&world, &["orphans"]);
    let row = rows(&orphans, "orphans").find(|row| row["session"] == session.id).expect("it is named");
    assert_eq!((&row["reason"], &row["last"]), (&json!(reason), &last), "{row:#}");
    assert!(rows(row, "left").any(|row| row["pid"] == elevated), "{row:#}");
    // A person may try again; nothing is forgotten for it.
    let reaped = run_as_somebody(&world, &["orphans", "--reap"]);
    assert_eq!(reaped["swept"][0]["survivors"], json!([elevated]), "{reaped:#}");
    assert!(world.tether(&session.id).is_some());
    // Somebody who may ends it: its warden leaves, and the next look forgets the session.
    world.ledger.signal("elevated", Signal::KILL);
    world.ledger.await_empty();
    for supervisor in &session.supervisors {
        assert!(supervisor.ends_within(PATIENCE), "{supervisor:?}");
    }
    run_as_somebody(&world, &["orphans", "--reap"]);
    let orphans = run_as_somebody(&world, &["orphans"]);
    assert_eq!((&orphans["orphans"], world.tether(&session.id)), (&json!([]), None), "{orphans:#}");
    bystanders.assert_untouched();
}
