//! The gate from its other side: whatever a manager does there but to answer, nothing runs and nobody stays. The tests
//! are the manager, the stages are the program's own.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Entry, Held, Host, PATIENCE, World, eventually, rows};

crate::matrix::in_both! {
    a_manager_that_leaves a_manager_that_talks_nonsense a_manager_that_says_nothing
    a_warden_that_its_workload_kills a_warden_that_its_workload_stops
}

/// What a stage says that could not do its part.
const NOT_LAUNCHED: i32 = 125;
/// A stage waits for 20 seconds.
const SILENCE: Duration = Duration::from_secs(45);

/// The first stage of a launch in a world of its own, and who it started.
struct Stages {
    world: World,
    first: First,
    /// The warden and the trampoline that waits to become the workload.
    started: Vec<Held>,
    manager: UnixStream,
}

/// A warden that is a child of the test, or a front in a pane.
enum First {
    Child(Child),
    Pane,
}

fn stage(world: &World, host: Host, gate: &Path) -> Vec<String> {
    let stage = if host == Host::Pty { "__warden" } else { "__front" };
    let program = world.binary().remove(0);
    vec![program, stage.into(), host.name().into(), gate.to_str().unwrap().into()]
}

/// Starts the first stage towards this gate. In tmux the pane writes its status down.
fn start(world: &World, host: Host, gate: &Path) -> First {
    let argv = stage(world, host, gate);
    if host == Host::Pty {
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        return First::Child(command.spawn().unwrap());
    }
    let script = world.shell(&format!("{}; echo $? > $FX/status", argv.join(" ")));
    let made = world.tmux(&["-f", "/dev/null", "new-session", "-d", "bash", &script]);
    assert!(made.status.success(), "{made:?}");
    world.end_later(world.server());
    First::Pane
}

impl Stages {
    /// Starts the stages and hears them out.
    fn start(host: Host) -> Self {
        let world = World::new();
        let gate = world.path("gate");
        let listener = UnixListener::bind(&gate).unwrap();
        let first = start(&world, host, &gate);
        let (mut manager, _) = listener.accept().unwrap();
        let mut length = [0; 4];
        manager.read_exact(&mut length).unwrap();
        let mut text = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap()];
        manager.read_exact(&mut text).unwrap();
        let hello: Value = serde_json::from_slice(&text).unwrap();
        let held = |role: &str| {
            let pid = hello[role].as_i64().unwrap();
            Held::open(Entry::of_pid(i32::try_from(pid).unwrap(), role).unwrap())
        };
        let started = vec![held("warden"), held("workload")];
        Self { world, first, started, manager }
    }

    /// Everybody has left, with the status that says it.
    fn assert_nothing_was_launched(self, patience: Duration) {
        drop(self.manager);
        for held in &self.started {
            assert!(held.ends_within(patience), "it stays: {held:?}");
        }
        match self.first {
            First::Child(mut child) => assert_eq!(child.wait().unwrap().code(), Some(NOT_LAUNCHED)),
            First::Pane => {
                eventually("the status", || self.world.text("status").ends_with('\n'));
                assert_eq!(self.world.text("status").trim(), NOT_LAUNCHED.to_string());
            }
        }
    }
}

fn a_manager_that_leaves(host: Host) {
    Stages::start(host).assert_nothing_was_launched(PATIENCE);
}

fn a_manager_that_talks_nonsense(host: Host) {
    for nonsense in [
        &b"\0\0\0\x02{}"[..],
        b"\0\0\0\x05hello",
        b"\xff\xff\xff\xffx",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\x40{\"session\":\"serve-0",
    ] {
        let mut stages = Stages::start(host);
        stages.manager.write_all(nonsense).unwrap();
        stages.manager.shutdown(std::net::Shutdown::Write).unwrap();
        for held in &stages.started {
            assert!(held.ends_within(PATIENCE), "{}: it stays", nonsense.escape_ascii());
        }
        stages.assert_nothing_was_launched(PATIENCE);
    }
}

/// The connection stays open, and half a message comes or none.
fn a_manager_that_says_nothing(host: Host) {
    for half in [&b""[..], b"\0\0\x01"] {
        let mut stages = Stages::start(host);
        stages.manager.write_all(half).unwrap();
        for held in &stages.started {
            assert!(held.ends_within(SILENCE), "it waits for ever");
        }
        stages.assert_nothing_was_launched(PATIENCE);
    }
}

/// Nobody is at the gate, or it is not there.
#[test]
fn no_manager() {
    let world = World::new();
    let deaf = world.path("deaf");
    drop(UnixListener::bind(&deaf).unwrap());
    for gate in [deaf, world.path("nowhere"), PathBuf::from("/")] {
        for host in [Host::Pty, Host::Tmux] {
            let argv = stage(&world, host, &gate);
            let mut command = Command::new(&argv[0]);
            let status = command.args(&argv[1..]).stdin(Stdio::null()).stderr(Stdio::null()).status().unwrap();
            assert_eq!(status.code(), Some(NOT_LAUNCHED), "{argv:?}");
        }
    }
}

/// A trampoline whose warden is killed before the answer came: no workload, whatever comes later.
#[test]
fn a_warden_that_dies_at_the_gate() {
    let stages = Stages::start(Host::Pty);
    let [warden, trampoline] = &stages.started[..] else { panic!("two stages") };
    warden.signal(rustix::process::Signal::KILL);
    assert!(warden.ends_within(PATIENCE));
    assert!(trampoline.ends_within(PATIENCE), "it waits for nobody");
    let First::Child(mut child) = stages.first else { panic!("a child") };
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()), Some(9));
}

/// Launches what does something to its own warden as its first deed, before the manager can have heard what came of the
/// launch. Whether that is said to have failed or not: nobody runs of whom nobody knows.
fn assert_nobody_is_lost(host: Host, deed: &str, rounds: usize) {
    let world = World::new();
    let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
    let mut batch = world.batch();
    let script = world.shell(&format!("{deed}; trap '' HUP; echo $$ >> $FX/begun; exec sleep {}", world.nap));
    let mut broken = 0;
    for _ in 0..rounds {
        let answer = batch.request(json!({ "cmd": "launch", "kind": "shell", "host": host.name(), "grace_s": 0.2,
            "command": ["bash", script] }));
        if answer["ok"] == true {
            batch.ok(json!({ "cmd": "stop", "session": answer["result"]["session"] }));
        } else {
            broken += 1;
            let message = answer["error"]["message"].as_str().unwrap();
            assert!(message.contains("; what had begun of it was ended"), "{answer}");
        }
    }
    let begun: Vec<i32> = world.text("begun").lines().map(|pid| pid.parse().unwrap()).collect();
    for pid in begun {
        let lives = crate::support::process_state(pid).is_some_and(|state| state != 'Z');
        assert!(!lives, "{pid} lives after {broken} of {rounds} launches broke off, and nobody knows of it");
    }
    let listed = batch.ok(json!({ "cmd": "list" }));
    // One whose warden died first was gone before its stop, and nobody knows how it ended.
    let is_over = |row: &Value| row["phase"] == "exited" || row["phase"] == "failed";
    assert!(rows(&listed, "sessions").all(is_over), "{listed:#}");
    assert_eq!(std::fs::read_dir(world.path("state/sessions")).unwrap().count(), 0, "{listed:#}");
    bystanders.assert_untouched();
}

fn a_warden_that_its_workload_kills(host: Host) {
    assert_nobody_is_lost(host, "kill -9 $PPID", 8);
}

fn a_warden_that_its_workload_stops(host: Host) {
    assert_nobody_is_lost(host, "kill -STOP $PPID", 1);
}
