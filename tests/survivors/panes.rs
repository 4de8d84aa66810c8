//! Panes that somebody opens by hand in a session: no warden of ours is above them. They are seen while they live, who
//! leaves them is not forgotten, and a server that does not answer hides nobody.

use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Batch, Bystanders, Entry, Held, Host, Launch, PATIENCE, Session, World, eventually, rows, skip};

/// A session of one process with a window more, in which a shell and its child live.
fn with_window(world: &World, batch: &mut Batch, kind: &str, window: &str) -> Session {
    let script = world.shell("log root; (leaf child) & wait");
    let launch = Launch { host: Host::Tmux, kind, grace_s: 5.0, argv: &["bash", &script] };
    let session = world.launch(batch, &launch);
    world.ledger.await_roles(&["root", "child"]);
    open_window(world, &session, window);
    session
}

fn open_window(world: &World, session: &Session, window: &str) {
    let window = world.shell(window);
    let target = format!("{}:", session.in_tmux.as_deref().unwrap());
    let opened = world.tmux(&["new-window", "-d", "-t", &target, "bash", &window]);
    assert!(opened.status.success(), "{opened:?}");
}

fn count(batch: &mut Batch, session: &Session) -> Value {
    batch.row(&session.id)["processes"].clone()
}

/// Nobody asks for the tree: what is shown without a question has them all.
#[test]
fn they_are_shown_while_they_live() {
    let world = World::new();
    let mut batch = world.batch();
    let session = with_window(&world, &mut batch, "serve", "log pane; (leaf deep) & wait");
    world.ledger.await_roles(&["pane", "deep"]);
    // Each leaf is a shell's child of its own name.
    eventually("all of them", || count(&mut batch, &session) == json!(world.ledger.alive().len()));
    assert_eq!(batch.row(&session.id)["containment"], json!(["tree"]), "no warden holds the window");
    world.ledger.signal("deep", Signal::KILL);
    eventually("the window's end", || world.ledger.alive().len() == 2 && count(&mut batch, &session) == json!(2));
    // With them goes what was said of them.
    eventually("its warden holds all again", || batch.row(&session.id)["containment"] == json!(["tree", "warden"]));
    let receipt = batch.stop(&session.id);
    assert_eq!((&receipt["dead"], &receipt["containment"]), (&json!(true), &json!(["tree", "warden"])), "{receipt:#}");
    world.ledger.await_empty();
}

/// The window closes with its shell, and leaves somebody behind that no tree holds any more.
#[test]
fn who_was_left_behind_by_a_window_is_ended_or_named() {
    for (kind, swept) in [("serve", true), ("shell", false)] {
        let world = World::new();
        let mut batch = world.batch();
        let window = "log pane; trap '' HUP; (leaf stray) < /dev/null > /dev/null 2>&1 & while [ ! -e $FX/go ]; do sleep 0.05; done";
        let session = with_window(&world, &mut batch, kind, window);
        world.ledger.await_roles(&["pane", "stray"]);
        let mut bystanders = world.bystanders(&["sleep", &world.nap], Some(&session.id));
        let stray = world.ledger.of("stray").pid;
        let shown = |batch: &mut Batch| {
            let tree = batch.ok(json!({ "cmd": "tree", "session": session.id }));
            let shown = |list| rows(&tree, list).any(|row| row["pid"] == stray);
            shown("processes") || shown("escapees")
        };
        // Besides them there may be what the shell waits with.
        eventually("it is seen", || {
            usize::try_from(count(&mut batch, &session).as_u64().unwrap()).unwrap() >= world.ledger.alive().len()
        });
        std::fs::write(world.path("go"), "").unwrap();
        eventually("the shell's end", || !world.ledger.is_alive("pane"));
        eventually("the window's end", || {
            let listed = world.tmux(&["list-windows", "-t", session.in_tmux.as_deref().unwrap()]);
            String::from_utf8(listed.stdout).unwrap().lines().count() == 1
        });
        assert!(shown(&mut batch), "{kind}: it lives, and is shown");
        std::thread::sleep(std::time::Duration::from_millis(2500));
        assert!(shown(&mut batch), "{kind}: still");
        let receipt = batch.stop(&session.id);
        assert_eq!((&receipt["dead"], &receipt["containment"]), (&json!(true), &json!(["tree"])), "{receipt:#}");
        assert!(rows(&receipt, "notes").any(|note| note.as_str().unwrap().contains("no warden")), "{receipt:#}");
        if swept {
            world.ledger.await_empty();
        } else {
            assert!(world.ledger.is_alive("stray") && !world.ledger.is_alive("root"));
            assert!(rows(&receipt, "escapees").any(|row| row["pid"] == stray), "nobody is passed over: {receipt:#}");
        }
        bystanders.assert_untouched();
        world.ledger.end_all();
    }
}

/// A window that was moved into another session is that one's, with all who were seen in it before.
#[test]
fn a_window_that_was_moved_away_is_none_of_ours() {
    let world = World::new();
    let mut batch = world.batch();
    let session = with_window(&world, &mut batch, "serve", "log pane; (leaf deep) & wait");
    world.ledger.await_roles(&["pane", "deep"]);
    eventually("all of them", || count(&mut batch, &session) == json!(world.ledger.alive().len()));
    assert!(world.tmux(&["new-session", "-d", "-s", "theirs", "sleep", &world.nap]).status.success());
    let source = format!("{}:1", session.in_tmux.as_deref().unwrap());
    let moved = world.tmux(&["move-window", "-d", "-s", &source, "-t", "theirs:"]);
    assert!(moved.status.success(), "{moved:?}");
    // Another child of the server: it is asked anew, and those of the window are not found any more.
    // Three, so that those who came are not taken for those who went.
    open_window(&world, &session, "log pane-2; (leaf deep-2) & (leaf deep-3) & wait");
    world.ledger.await_roles(&["pane", "deep", "pane-2", "deep-2", "deep-3"]);
    eventually("the window is none of ours", || count(&mut batch, &session) == json!(world.ledger.alive().len() - 2));
    let receipt = batch.stop(&session.id);
    assert_eq!(receipt["dead"], true, "{receipt:#}");
    assert!(world.ledger.is_alive("pane") && world.ledger.is_alive("deep"), "{receipt:#}");
    let ended = ["root", "child", "pane-2", "deep-2", "deep-3"];
    assert!(ended.iter().all(|role| !world.ledger.is_alive(role)), "{receipt:#}");
    let ours = receipt["captured"].as_array().unwrap();
    assert!(ours.iter().all(|row| row["pid"] != world.ledger.of("pane").pid), "{receipt:#}");
    world.ledger.end_all();
}

/// The workload has ended and a window lives; the server does not answer.
fn silent(world: &World, ceiling: Option<f64>) -> (Session, Held, Bystanders) {
    let mut batch = world.batch();
    let script = world.shell("log root; while [ ! -e $FX/go ]; do sleep 0.05; done; exit 3");
    let mut launch = json!({ "host": "tmux", "kind": "serve", "command": ["bash", script] });
    if let Some(ceiling) = ceiling {
        launch["ceiling_s"] = json!(ceiling);
    }
    launch["cmd"] = json!("launch");
    let launched = batch.ok(launch);
    let session = world.launched(&mut batch, &launched);
    world.ledger.await_roles(&["root"]);
    open_window(world, &session, "trap '' HUP TERM; log pane; (leaf deep) & wait");
    world.ledger.await_roles(&["pane", "deep"]);
    let bystanders = world.bystanders(&["sleep", &world.nap], Some(&session.id));
    let server = world.server();
    server.signal(Signal::STOP);
    std::fs::write(world.path("go"), "").unwrap();
    batch.kill();
    (session, server, bystanders)
}

#[test]
fn a_server_that_does_not_answer_is_not_closed() {
    for dismissed in [true, false] {
        let world = World::new();
        let (session, server, mut bystanders) = silent(&world, (!dismissed).then_some(1.5));
        eventually("the workload's end", || !world.ledger.is_alive("root"));
        if dismissed {
            let mut batch = world.batch();
            let error = batch.error(json!({ "cmd": "dismiss", "session": session.id }));
            assert_eq!(error["kind"], "unverifiable", "{error}");
        } else {
            std::thread::sleep(std::time::Duration::from_secs(2));
            drop(world.batch());
        }
        assert!(world.tether(&session.id).is_some(), "its record is all that is known of it");
        server.signal(Signal::CONT);
        let (code, receipt) = world.run(&["stop", &session.id, "--grace", "0.2"]);
        assert_eq!((code, &receipt["dead"]), (0, &json!(true)), "{receipt:#}");
        world.ledger.await_empty();
        bystanders.assert_untouched();
    }
}

/// Neither a silent server, nor one without a socket, nor another one in its place makes a session gone.
#[test]
fn attach_tells_silence_from_absence() {
    let world = World::new();
    let mut batch = world.batch();
    let session = with_window(&world, &mut batch, "serve", "log pane; (leaf deep) & wait");
    world.ledger.await_roles(&["pane", "deep"]);
    let check = |what: &str| {
        let (code, answer) = world.run(&["attach", &session.id]);
        assert_eq!((code, &answer["error"]["kind"]), (3, &json!("unverifiable")), "{what}: {answer}");
    };
    let server = world.server();
    server.signal(Signal::STOP);
    check("stopped");
    server.signal(Signal::CONT);
    let (path, aside) = (world.socket_path(), world.socket_path().with_extension("aside"));
    std::fs::rename(&path, &aside).unwrap();
    check("without a socket");
    assert!(world.tmux(&["-f", "/dev/null", "new-session", "-d", "sleep", &world.nap]).status.success());
    check("another server");
    world.server().signal(Signal::KILL);
    std::fs::rename(&aside, &path).unwrap();
    assert_eq!(batch.stop(&session.id)["dead"], true);
    world.ledger.await_empty();
}

/// A pane is its server's image, with its server's socket, until it executes what it is for: no kept daemon for that.
#[test]
fn a_pane_that_is_being_born_is_ended() {
    if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        return skip("strace is not installed");
    }
    let world = World::new();
    let mut batch = world.batch();
    let script = world.shell("log root; (leaf child) & wait");
    let launch = Launch { host: Host::Tmux, kind: "serve", grace_s: 8.0, argv: &["bash", &script] };
    let session = world.launch(&mut batch, &launch);
    world.ledger.await_roles(&["root", "child"]);
    let server = world.server();
    let mut strace = Command::new("strace")
        .args(["-f", "-q", "-e", "trace=close_range", "-e", "inject=close_range:delay_enter=1500000", "-p"])
        .args([&server.entry.pid.to_string(), "-o", "/dev/null"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let traced = || std::fs::read_to_string(format!("/proc/{}/status", server.entry.pid)).unwrap();
    eventually("the server is traced", || {
        strace.try_wait().unwrap().is_some() || !traced().contains("TracerPid:\t0\n")
    });
    if strace.try_wait().unwrap().is_some() {
        return skip("nobody may be traced here");
    }
    let target = format!("{}:", session.in_tmux.as_deref().unwrap());
    let format = ["-P", "-F", "#{pane_pid}"];
    let window = world.tmux(&[&["new-window", "-d"][..], &format, &["-t", &target, "sleep", &world.nap]].concat());
    let pid = String::from_utf8(window.stdout).unwrap().trim().parse().unwrap();
    let born = Held::open(Entry::of_pid(pid, "born").unwrap());
    let receipt = batch.stop(&session.id);
    strace.kill().unwrap();
    strace.wait().unwrap();
    assert_eq!(
        (&receipt["dead"], &receipt["refused"], &receipt["kept"]),
        (&json!(true), &json!([]), &json!([])),
        "{receipt:#}"
    );
    for list in ["captured", "signals", "outcomes"] {
        assert!(rows(&receipt, list).any(|row| row["pid"] == pid), "{list}: {receipt:#}");
    }
    assert!(rows(&receipt, "captured").all(|row| row["kept"].is_null()), "{receipt:#}");
    assert!(born.ends_within(PATIENCE), "{receipt:#}");
    world.ledger.await_empty();
}
