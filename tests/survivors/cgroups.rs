//! Sessions with a cgroup of their own, on hosts that grant one: whoever left the tree is still in it.

use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::matrix::in_both;
use crate::support::{CGROUP, Host, Launch, PATIENCE, Session, World, eventually, is_root, pids, rows, runs, skip};

in_both! { who_left_the_tree_is_found_without_a_warden a_hopper_is_ended a_hopper_is_not_claimed_dead it_holds_across_a_restart }

/// Returns the session's cgroup, or says why there is none.
fn cgroup_of(world: &World, session: &Session) -> Option<PathBuf> {
    let tether = world.tether(&session.id).unwrap();
    let Some(path) = tether["cgroup"]["path"].as_str() else {
        skip("no cgroup v2 that is delegated to us");
        return None;
    };
    assert!(rows(&tether, "containment").any(|how| how == "cgroup"), "{tether:#}");
    Some(path.into())
}

/// Whoever was left to init is reaped by that one in its own time; until then the kernel keeps the directory.
fn assert_empty(path: &std::path::Path) {
    let left = std::fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
    assert_eq!(left, "", "somebody is left in the cgroup");
}

fn supervised(session: &Session) {
    for supervisor in &session.supervisors {
        supervisor.signal(Signal::KILL);
    }
    for supervisor in &session.supervisors {
        assert!(supervisor.ends_within(PATIENCE), "{supervisor:?}");
    }
}

/// A daemon that forked twice, leads its own kernel session, cleared its environment and lost its warden.
fn who_left_the_tree_is_found_without_a_warden(host: Host) {
    let world = World::new();
    world.recipes(CGROUP);
    let mut batch = world.batch();
    let daemon = world.shell("trap '' HUP; log daemon; exec env -i sleep $NAP");
    let script = world.shell(&format!("trap '' HUP; log root; (setsid bash {daemon} &) ; (leaf child) & wait; wait"));
    let launch = Launch { host, kind: "serve", grace_s: 0.5, argv: &["bash", &script] };
    let session = world.launch(&mut batch, &launch);
    world.ledger.await_roles(&["root", "daemon", "child"]);
    let Some(path) = cgroup_of(&world, &session) else { return };
    let mut bystanders = world.bystanders(&["sleep", &world.nap], Some(&session.id));
    supervised(&session);
    let tree = batch.ok(json!({ "cmd": "tree", "session": session.id }));
    let daemon = world.ledger.of("daemon").pid;
    let row = rows(&tree, "processes").find(|row| row["pid"] == daemon).cloned().unwrap_or_default();
    assert_eq!((&row["membership"], &row["verdict"]), (&json!(["cgroup"]), &json!("owned")), "{tree:#}");
    let receipt = batch.stop(&session.id);
    assert!(world.ledger.alive().is_empty(), "{:?}\n{receipt:#}", world.ledger.alive());
    assert_eq!(receipt["dead"], true, "{receipt:#}");
    assert_eq!(receipt["containment"], json!(["tree", "cgroup"]), "{receipt:#}");
    assert!(pids(&receipt, "signals").is_disjoint(&bystanders.pids()), "{receipt:#}");
    bystanders.assert_untouched();
    assert_empty(&path);
}

/// Manager and warden are gone: who is in the cgroup is verified by it, and is ended by the next start.
#[test]
fn who_is_in_the_cgroup_of_nobody_is_reaped() {
    let world = World::new();
    world.recipes(CGROUP);
    let mut batch = world.batch();
    let daemon = world.shell("trap '' HUP; log daemon; exec env -i sleep $NAP");
    let script = world.shell(&format!("log root; (setsid bash {daemon} &) ; (leaf child) & wait; wait"));
    let launch = Launch { host: Host::Pty, kind: "serve", grace_s: 0.5, argv: &["bash", &script] };
    let session = world.launch(&mut batch, &launch);
    world.ledger.await_roles(&["root", "daemon", "child"]);
    let Some(path) = cgroup_of(&world, &session) else { return };
    let mut bystanders = world.bystanders(&["sleep", &world.nap], Some(&session.id));
    supervised(&session);
    batch.kill();
    eventually("the hang-up of the root", || !world.ledger.is_alive("root"));
    assert!(world.ledger.is_alive("daemon"), "nobody of its tree is left to end it");
    let mut next = world.batch();
    let told = next.ok(json!({ "cmd": "hello" }))["ended"].to_string();
    assert!(told.contains(&session.id), "{told}");
    assert!(world.ledger.alive().is_empty(), "{:?}", world.ledger.alive());
    assert_eq!(next.finish().code(), Some(0));
    bystanders.assert_untouched();
    assert_empty(&path);
}

/// A process that forks and leaves, thousands of times in a second: nobody is there any more when a signal comes.
/// It goes on until the file `enough` is there.
fn hopper(world: &World) -> String {
    let enough = world.path("enough");
    world.python(&format!(
        "deaf()\nlog('hopper')\nimport os\nend = time.monotonic() + 60\nwhile time.monotonic() < end and not os.path.exists('{}'):\n    if os.fork():\n        os._exit(0)",
        enough.display()
    ))
}

fn hoppers(script: &str) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    all.filter(|pid| runs(*pid, &[crate::support::python(), "-I", script])).count()
}

fn a_hopper_is_ended(host: Host) {
    // Now and then single KILLs catch them by luck; the cgroup has to be needed at least once.
    let emptied = (0..8).any(|_| hoppers_are_ended(host));
    assert!(emptied, "no cgroup was ever emptied");
}

/// Tells whether the cgroup had to be emptied, or cannot be had here.
fn hoppers_are_ended(host: Host) -> bool {
    let world = World::new();
    world.recipes(CGROUP);
    let mut batch = world.batch();
    let hopper = hopper(&world);
    let hop = format!("{} -I {hopper}", crate::support::python());
    let root = world.shell(&format!("trap '' TERM HUP; log root; {hop} & {hop} & {hop}; while :; do sleep 1; done"));
    let launch = Launch { host, kind: "serve", grace_s: 0.2, argv: &["bash", &root] };
    let session = world.launch(&mut batch, &launch);
    world.ledger.await_roles(&["root", "hopper", "hopper", "hopper"]);
    let Some(path) = cgroup_of(&world, &session) else {
        std::fs::write(world.path("enough"), "").unwrap();
        return true;
    };
    let mut bystanders = world.bystanders(&["sleep", &world.nap], Some(&session.id));
    let receipt = batch.stop(&session.id);
    let left = hoppers(&hopper);
    std::fs::write(world.path("enough"), "").unwrap();
    assert_eq!((left, &receipt["dead"]), (0, &json!(true)), "{receipt:#}");
    assert!(world.ledger.alive().is_empty(), "{receipt:#}");
    bystanders.assert_untouched();
    assert_empty(&path);
    rows(&receipt, "signals").any(|row| row["via"] == "cgroup")
}

/// Without a cgroup it may be faster than every look; then nobody says that it is dead.
fn a_hopper_is_not_claimed_dead(host: Host) {
    let world = World::new();
    let mut batch = world.batch();
    let hopper = hopper(&world);
    let launch = Launch { host, kind: "serve", grace_s: 0.2, argv: &[crate::support::python(), "-I", &hopper] };
    let session = world.launch(&mut batch, &launch);
    world.ledger.await_roles(&["hopper"]);
    let receipt = batch.stop(&session.id);
    let left = hoppers(&hopper);
    let claimed = receipt["dead"] == true;
    std::fs::write(world.path("enough"), "").unwrap();
    assert!(!claimed || left == 0, "{left} left, and said to be dead: {receipt:#}");
    if !claimed {
        let row = batch.ok(json!({ "cmd": "list" }))["sessions"][0].take();
        assert_eq!(row["session"], session.id, "it can still be found: {row:#}");
    }
    eventually("the end of the hopper", || hoppers(&hopper) == 0);
    let receipt = batch.request(json!({ "cmd": "sweep", "session": session.id }));
    assert!(claimed || receipt["result"]["dead"] == true, "{receipt:#}");
}

/// The warden puts the next run into the same cgroup.
fn it_holds_across_a_restart(host: Host) {
    let world = World::new();
    let script = world.shell("echo run >> $FX/runs; log run$(wc -l < $FX/runs); until [ -e $FX/fail ]; do sleep 0.02; done; rm $FX/fail; exit 3");
    world.recipes(&format!(
        "{CGROUP}[[recipe]]\nname = \"failing\"\nkind = \"serve\"\ncommand = [\"bash\", \"{script}\"]\nrestart = \"on-failure\"\n"
    ));
    let mut batch = world.batch();
    let session = world.launch_recipe(&mut batch, "failing", host);
    world.ledger.await_roles(&["run1"]);
    let Some(path) = cgroup_of(&world, &session) else { return };
    std::fs::write(world.path("fail"), "").unwrap();
    world.ledger.await_roles(&["run1", "run2"]);
    let listed = std::fs::read_to_string(path.join("cgroup.procs")).unwrap();
    let second = world.ledger.of("run2").pid.to_string();
    assert!(listed.lines().any(|pid| pid == second), "{second}: {listed:?}");
    let receipt = batch.stop(&session.id);
    assert_eq!((&receipt["dead"], &receipt["containment"]), (&json!(true), &json!(["tree", "warden", "cgroup"])));
    assert_empty(&path);
}

/// Where the host grants none, the launch says so and nothing claims one.
#[test]
fn without_one_the_launch_says_so() {
    if !is_root() {
        return skip("needs root");
    }
    let world = World::new();
    world.recipes(CGROUP);
    let hide = "for dir in $(grep -w cgroup2 /proc/self/mountinfo | cut -d' ' -f5); do mount -t tmpfs none $dir || exit 77; done; exec \"$@\"";
    let mut argv: Vec<String> = ["unshare", "-m", "sh", "-c", hide, "sh"].map(str::to_owned).into();
    argv.extend(world.binary());
    argv.extend(["launch", "--host", "tmux", "--json", "--", "sleep", &world.nap].map(str::to_owned));
    let output = world.command(&argv).output().unwrap();
    if output.status.code() == Some(77) {
        return skip("nothing may be mounted here");
    }
    let launched: Value = serde_json::from_slice(&output.stdout).unwrap();
    world.end_later(world.server());
    let said =
        rows(&launched, "notes").filter_map(Value::as_str).any(|note| note.contains("not contained by a cgroup"));
    assert!(said, "{launched:#}");
    let session = launched["session"].as_str().unwrap();
    assert_eq!(world.tether(session).unwrap()["containment"], json!(["tree", "warden"]));
    let (code, receipt) = world.run(&["stop", session]);
    assert_eq!((code, &receipt["containment"]), (0, &json!(["tree", "warden"])), "{receipt:#}");
    eventually("the end", || !runs(i32::try_from(launched["pid"].as_i64().unwrap()).unwrap(), &["sleep", &world.nap]));
}
