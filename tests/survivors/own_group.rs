//! What is never signalled: the manager, whoever started it, and whoever stands beside it.

use std::collections::BTreeSet;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::matrix::in_both;
use crate::support::{Batch, Entry, Held, Host, Launch, World, eventually, pids, rows};

in_both! { parent_and_siblings stop_from_a_shell }

/// Five siblings in the manager's own process group, with the command line of the session's leaf.
const SIBLINGS: &str = "log parent; for i in 1 2 3 4 5; do (leaf sibling) & done";

fn parent_and_siblings(host: Host) {
    let world = World::new();
    let mut manager = world.binary();
    manager.extend(["--batch".to_owned(), "-".to_owned()]);
    let script = world.shell(&format!("{SIBLINGS}\n{}\necho $? > $FX/code\nlog after\nwait", manager.join(" ")));
    let mut batch = Batch::start(world.command(&["bash".to_owned(), script]));
    let parents = ["parent", "sibling", "sibling", "sibling", "sibling", "sibling"];
    world.ledger.await_roles(&parents);
    let group = |pid| rustix::process::getpgid(rustix::process::Pid::from_raw(pid)).unwrap();
    let beside = world.ledger.alive();
    assert_eq!(beside.len(), parents.len());
    assert!(beside.iter().all(|entry| group(entry.pid) == group(beside[0].pid)), "one group");
    let tree = world.shell("trap '' TERM; log root; (leaf child) & wait");
    let launch = Launch { host, kind: "serve", grace_s: 0.5, argv: &["bash", &tree] };
    let (first, second) = (world.launch(&mut batch, &launch), world.launch(&mut batch, &launch));
    world.ledger.await_roles(&["root", "root", "child", "child"]);
    let receipt = batch.stop(&first.id);
    assert_eq!(receipt["dead"], true, "{receipt:#}");
    let beside_pids: Vec<i64> = beside.iter().map(|entry| i64::from(entry.pid)).collect();
    assert!(rows(&receipt, "signals").all(|row| !beside_pids.contains(&row["pid"].as_i64().unwrap())), "{receipt:#}");
    if host == Host::Tmux {
        let receipt = batch.stop(&second.id);
        assert_eq!(receipt["dead"], true, "{receipt:#}");
    }
    let answer = batch.ok(json!({ "cmd": "quit" }));
    let receipts = answer["receipts"].as_array().unwrap();
    assert_eq!(receipts.len(), usize::from(host == Host::Pty), "{answer:#}");
    assert!(receipts.iter().all(|receipt| receipt["dead"] == true), "{answer:#}");
    eventually("the exit of the manager", || !world.text("code").is_empty());
    assert_eq!(world.text("code"), "0\n");
    // The parent waits for its siblings: it is the same process, and goes on.
    let alive = world.ledger.alive();
    assert_eq!(alive, beside, "exactly the manager's own side lives");
}

/// The same for a subcommand: it is started by a shell that lives on. In a PTY the owner does it for it.
fn stop_from_a_shell(host: Host) {
    let world = World::new();
    let mut batch = world.batch();
    let tree = world.shell("trap '' TERM; log root; (leaf child) & wait");
    let launch = Launch { host, kind: "serve", grace_s: 0.5, argv: &["bash", &tree] };
    let session = world.launch(&mut batch, &launch);
    world.ledger.await_roles(&["root", "child"]);
    let stop = format!("{} stop {} --json > $FX/answer; echo $? > $FX/code", world.binary().join(" "), session.id);
    let script = world.shell(&format!("{SIBLINGS}\n{stop}\nwait"));
    let mut parent = world.command(&["bash".to_owned(), script]).stdin(Stdio::null()).spawn().unwrap();
    eventually("the exit of the stop", || !world.text("code").is_empty());
    assert_eq!(world.text("code"), "0\n", "{}", world.text("answer"));
    let receipt: Value = serde_json::from_str(&world.text("answer")).unwrap();
    assert_eq!(receipt["dead"], true, "{receipt:#}");
    let mut alive: Vec<String> = world.ledger.alive().into_iter().map(|entry| entry.role).collect();
    alive.sort_unstable();
    assert_eq!(alive, ["parent", "sibling", "sibling", "sibling", "sibling", "sibling"]);
    world.ledger.end_all();
    parent.wait().unwrap();
}

/// How somebody inside of a session asks for its end.
const ASKS: [&str; 3] = ["stop --dry-run", "stop", "restart"];

/// Returns a script that asks in each way for the end of a session, and says when it is done.
fn asking(world: &World, session: &str) -> String {
    let ask = |(number, how): (usize, &str)| {
        let (act, dry_run) = how.split_once(' ').unwrap_or((how, ""));
        let ask = format!("{} {act} {session} {dry_run} --json", world.binary().join(" "));
        format!("{ask} > $FX/answer{number} 2> $FX/complaint{number}; echo $? > $FX/code{number}")
    };
    let asks: Vec<String> = ASKS.into_iter().enumerate().map(ask).collect();
    world.shell(&format!("log manager\n{}\ntouch $FX/asked", asks.join("\n")))
}

/// Each of them was refused in the same words.
fn assert_refused(world: &World) {
    eventually("the answers", || world.path("asked").exists());
    for (number, how) in ASKS.into_iter().enumerate() {
        let answer = world.text(&format!("answer{number}"));
        let shown = format!("{how}: {answer} {}", world.text(&format!("complaint{number}")));
        assert_eq!(world.text(&format!("code{number}")), "3\n", "{shown}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["error"]["kind"], "refused", "{shown}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("runs inside the session"), "{shown}");
    }
}

/// A shell in a session asks for the end of that session: everybody lives, and nobody heard anything.
fn from_inside(host: Host, how: &str) {
    let world = World::new();
    let mut batch = world.batch();
    let ask = asking(&world, "$COOKBOOK_TUI_SESSION");
    let script =
        world.shell(&format!("marked $FX/heard; log root; (leaf child) & {how} bash {ask} < /dev/null & wait; wait"));
    let launch = Launch { host, kind: "shell", grace_s: 0.5, argv: &["bash", &script] };
    let session = world.launch(&mut batch, &launch);
    let mut bystanders = world.bystanders(&["sleep", &world.nap], Some(&session.id));
    world.ledger.await_roles(&["root", "child", "manager"]);
    assert_refused(&world);
    assert!(world.ledger.is_alive("root") && world.ledger.is_alive("child"));
    assert_eq!(world.text("heard"), "", "nothing was signalled");
    assert_eq!(batch.signals(), 0);
    if let Some(in_tmux) = &session.in_tmux {
        assert!(world.tmux(&["has-session", "-t", in_tmux]).status.success());
    }
    // From outside it is a session like any other: for another process, and for whoever owns it.
    let (code, plan) = world.run(&["stop", &session.id, "--dry-run"]);
    assert_eq!(code, 0, "{plan:#}");
    let (code, receipt) = world.run(&["stop", &session.id]);
    assert_eq!((code, &receipt["dead"]), (0, &Value::Bool(true)), "{receipt:#}");
    assert!(world.ledger.alive().is_empty());
    bystanders.assert_untouched();
}

in_both! { inside inside_in_a_kernel_session_of_its_own inside_and_its_parents_are_gone }

fn inside(host: Host) {
    from_inside(host, "");
}

fn inside_in_a_kernel_session_of_its_own(host: Host) {
    from_inside(host, "setsid");
}

fn inside_and_its_parents_are_gone(host: Host) {
    from_inside(host, "setsid -f");
}

in_both! { inside_of_a_nested_manager own_stops_from_inside }

/// A session of a manager that runs in a session is none of the outer one; but it would end with it.
fn inside_of_a_nested_manager(host: Host) {
    let world = World::new();
    let mut batch = world.batch();
    let ask = asking(&world, "$(cat $FX/outer)");
    let inner = json!({ "cmd": "launch", "command": ["bash", ask], "kind": "shell", "host": "pty" });
    let nested = format!("{} --batch -", world.binary().join(" "));
    let script = world.shell(&format!(
        "marked $FX/heard; log root; echo $COOKBOOK_TUI_SESSION > $FX/outer
        (leaf child) & (echo '{inner}'; exec sleep $NAP) | {nested} > $FX/nested & wait; wait"
    ));
    let session = world.launch(&mut batch, &Launch { host, kind: "serve", grace_s: 0.5, argv: &["bash", &script] });
    world.ledger.await_roles(&["root", "child", "manager"]);
    assert_refused(&world);
    assert!(world.ledger.is_alive("root") && world.ledger.is_alive("child"));
    assert_eq!(world.text("heard"), "", "nothing was signalled");
    let receipt = batch.stop(&session.id);
    assert_eq!(receipt["dead"], true, "{receipt:#}");
    eventually("the end of all of it", || world.ledger.alive().is_empty());
}

/// A recipe's own way of stopping is not gone for whoever would be ended by it.
fn own_stops_from_inside(host: Host) {
    let world = World::new();
    let ask = asking(&world, "$COOKBOOK_TUI_SESSION");
    let script = world.shell(&format!("log root; (leaf child) & bash {ask} < /dev/null & wait; wait"));
    let gone = world.path("own-stop").display().to_string();
    world.recipes(&format!(
        "[[recipe]]\nname = \"own\"\nkind = \"shell\"\ncommand = [\"bash\", \"{script}\"]
        stop = {{ keys = [\"C-c\"], command = [\"touch\", \"{gone}\"], grace_s = 0.5 }}\n"
    ));
    let mut batch = world.batch();
    let session = world.launch_recipe(&mut batch, "own", host);
    world.ledger.await_roles(&["root", "child", "manager"]);
    assert_refused(&world);
    assert!(world.ledger.is_alive("root") && world.ledger.is_alive("child"));
    assert!(!world.path("own-stop").exists());
    let receipt = batch.stop(&session.id);
    assert_eq!(receipt["dead"], true, "{receipt:#}");
    assert!(world.path("own-stop").exists());
    assert!(world.ledger.alive().is_empty());
}

/// The warden is gone, so a manager that was started inside and has lost its parent is no member; but the members
/// are in its process group, and stay.
#[test]
fn the_members_are_in_the_managers_own_group() {
    let world = World::new();
    let mut batch = world.batch();
    let stop = world.shell(&format!(
        "log manager
        until [ -e $FX/go ]; do sleep 0.05; done
        {} stop $COOKBOOK_TUI_SESSION --json > $FX/answer 2> $FX/complaint
        echo $? > $FX/code",
        world.binary().join(" ")
    ));
    let inside = format!("(bash {stop} < /dev/null > /dev/null 2>&1 &)");
    let script = world
        .shell(&format!("trap '' HUP; marked $FX/heard; trap '' HUP; log root; {inside}; (leaf child) & wait; wait"));
    let launch = Launch { host: Host::Tmux, kind: "serve", grace_s: 0.5, argv: &["bash", &script] };
    let session = world.launch(&mut batch, &launch);
    world.ledger.await_roles(&["root", "child", "manager"]);
    for supervisor in &session.supervisors {
        supervisor.signal(rustix::process::Signal::KILL);
        assert!(supervisor.ends_within(crate::support::PATIENCE));
    }
    let group = |role| rustix::process::getpgid(rustix::process::Pid::from_raw(world.ledger.of(role).pid)).unwrap();
    assert!(group("root") == group("manager") && group("child") == group("manager"), "one group");
    std::fs::write(world.path("go"), "").unwrap();
    eventually("the answer of the stop", || !world.text("code").is_empty());
    let answer: Value = serde_json::from_str(&world.text("answer")).unwrap();
    assert!(world.ledger.is_alive("root") && world.ledger.is_alive("child"), "{answer:#}");
    assert_eq!(world.text("heard"), "", "{answer:#}");
    assert_eq!(world.text("code"), "3\n", "{answer:#}");
    assert_eq!((&answer["dead"], &answer["signals"]), (&json!(false), &json!([])), "{answer:#}");
    let members: BTreeSet<i64> = ["root", "child"].map(|role| i64::from(world.ledger.of(role).pid)).into();
    assert_eq!(pids(&answer, "refused"), members, "{answer:#}");
    assert!(rows(&answer, "refused").all(|row| row["reason"].as_str().unwrap().contains("group")), "{answer:#}");
    assert!(world.tether(&session.id).is_some(), "what is left stays recorded");
}

/// A quit ends every PTY session at once and nothing else: tmux sessions stay.
#[test]
fn a_quit_leaves_tmux_sessions() {
    let world = World::new();
    let mut batch = world.batch();
    let (pty, tmux) = (world.shell("log pty; (leaf child) & wait"), world.shell("leaf tmux"));
    let launch = Launch { host: Host::Pty, kind: "serve", grace_s: 5.0, argv: &["bash", &pty] };
    world.launch(&mut batch, &launch);
    let session = world.launch(&mut batch, &Launch { host: Host::Tmux, argv: &["bash", &tmux], ..launch });
    world.ledger.await_roles(&["pty", "child", "tmux"]);
    let manager = Held::open(Entry::of_pid(i32::try_from(batch.child.id()).unwrap(), "manager").unwrap());
    assert_eq!(batch.finish().code(), Some(0));
    assert!(!manager.is_alive());
    assert!(!world.ledger.is_alive("pty") && !world.ledger.is_alive("child"));
    assert!(world.ledger.is_alive("tmux"));
    let (code, receipt) = world.run(&["stop", &session.id]);
    assert_eq!((code, &receipt["dead"]), (0, &Value::Bool(true)), "{receipt:#}");
    assert!(world.ledger.alive().is_empty());
}
