//! A manager dies before and after every write, sync, rename, removal, append, spawn and signal; and so do a front, a
//! warden and an usher, in a PTY and in tmux. One restart later nobody is left, no record is lost, and no bystander
//! was touched.
//!
//! `FAILPOINT_HITS` says how many hits of each point are tried; a person tries twenty. How many deaths that were is
//! printed.

use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;

use crate::support::{Batch, Host, Launch, PATIENCE, Session, World, eventually, settle};

fn hits() -> u32 {
    std::env::var("FAILPOINT_HITS").ok().and_then(|text| text.parse().ok()).unwrap_or(2)
}

/// Counts the deaths of one kind and says how many there were.
#[expect(clippy::print_stderr, reason = "whoever runs them is to know how many there were")]
fn count(who: &str, doing: &str, point: &str, deaths: u32) {
    static TOTAL: AtomicU32 = AtomicU32::new(0);
    let total = TOTAL.fetch_add(deaths, Ordering::Relaxed) + deaths;
    eprintln!("{point}: {deaths} deaths of {who}, {doing}; {total} so far, and nobody was left");
}

fn starting(world: &World, variable: &str, value: String) -> Batch {
    let mut argv = world.binary();
    argv.extend(["--batch".to_owned(), "-".to_owned()]);
    let mut command = world.command(&argv);
    command.env(variable, value).stderr(std::process::Stdio::null());
    let mut batch = Batch::begin(command);
    batch.send(json!({ "cmd": "subscribe" }));
    batch
}

fn dying(world: &World, point: &str, hit: u32) -> Batch {
    starting(world, "COOKBOOK_TUI_FAILPOINT", format!("{point}:{hit}"))
}

fn script(world: &World) -> String {
    world.shell("log root; (leaf child) & (setsid bash -c 'exec sleep \"$0\"' \"$NAP\" &) ; wait")
}

/// It dies while it launches as many sessions in PTYs and in tmux as lead to the point.
fn while_launching(point: &str) {
    for hit in 1..=hits() {
        let world = World::new();
        let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
        // What is written once for all of a state directory is there.
        world.run(&["ls"]);
        let script = script(&world);
        let mut batch = dying(&world, point, hit);
        for _ in 0..hit.div_ceil(2) {
            for host in ["pty", "tmux"] {
                batch.send(json!({ "cmd": "launch", "command": ["bash", script], "kind": "serve", "host": host }));
            }
        }
        batch.assert_dies(point);
        world.end_server_later();
        settle(&world, &mut bystanders, &format!("{point}, {hit}, launching"));
    }
    count("managers", "launching", point, hits());
}

/// It dies while it stops sessions that another one had launched.
fn while_stopping(point: &str) {
    for hit in 1..=hits() {
        let world = World::new();
        let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
        let script = script(&world);
        let mut first = world.batch();
        let launch = Launch { host: Host::Tmux, kind: "serve", grace_s: 0.3, argv: &["bash", &script] };
        let sessions: Vec<Session> = (0..hit.max(2)).map(|_| world.launch(&mut first, &launch)).collect();
        world.ledger.await_roles(&["root", "child"].repeat(sessions.len()));
        first.kill();
        let mut batch = dying(&world, point, hit);
        for session in &sessions {
            batch.send(json!({ "cmd": "stop", "session": session.id }));
        }
        batch.assert_dies(point);
        settle(&world, &mut bystanders, &format!("{point}, {hit}, stopping"));
    }
    count("managers", "stopping", point, hits());
}

/// The stages of a session, by the variable that has them die.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Front,
    Warden,
    Usher,
}

impl Stage {
    /// Starts a manager in whose sessions this stage dies.
    fn dying(self, world: &World, point: &str, hit: u32) -> Batch {
        let variable = format!("COOKBOOK_TUI_{}_FAILPOINT", format!("{self:?}").to_uppercase());
        starting(world, &variable, format!("{point}:{hit}:{}", world.path("died").display()))
    }
}

/// Tells whether the stage has come to its point.
fn has_died(world: &World) -> bool {
    world.path("died").exists()
}

/// Front or warden die while a session is launched: nothing runs, and whoever asked is told.
fn a_stage_while_launching(point: &str) {
    let mut deaths = 0;
    for (stage, host) in [(Stage::Warden, Host::Pty), (Stage::Front, Host::Tmux), (Stage::Warden, Host::Tmux)] {
        let world = World::new();
        let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
        let what = format!("{point}, {stage:?} in {}, launching", host.name());
        let mut batch = stage.dying(&world, point, 1);
        let script = script(&world);
        let request = json!({ "cmd": "launch", "command": ["bash", script], "kind": "serve", "host": host.name() });
        let answer = batch.request(request);
        world.end_server_later();
        assert!(has_died(&world), "{what}: never reached: {answer}");
        assert_eq!(answer["ok"], false, "{what}: {answer}");
        assert!(world.ledger.entries().is_empty(), "{what}: a workload ran");
        batch.kill();
        settle(&world, &mut bystanders, &what);
        deaths += 1;
    }
    count("fronts and wardens", "launching", point, deaths);
}

/// A deaf tree that its parents alone hold together, for a warden that dies before it has written anything down.
fn deaf(world: &World, more: u32) -> String {
    let beyond = world.shell("trap '' TERM HUP; log beyond; (leaf far) & wait");
    world.shell(&format!(
        "trap '' TERM HUP
        log root
        for n in $(seq {more}); do (leaf more) & done
        (leaf child) & setsid bash {beyond} & wait; wait; wait"
    ))
}

/// A warden dies over its own ladder, which it runs because its owner was killed, or because somebody closed its
/// pane.
fn a_warden_while_ending(point: &str, host: Host) {
    let mut deaths = 0;
    for hit in 1..=hits() {
        let world = World::new();
        let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
        let mut batch = Stage::Warden.dying(&world, point, hit);
        let script = deaf(&world, hit / 4);
        let launch = Launch { host, kind: "serve", grace_s: 0.2, argv: &["bash", &script] };
        let session = world.launch(&mut batch, &launch);
        world.ledger.await_roles(&["root", "child", "beyond", "far"]);
        world.ledger.await_roles(&["more"].repeat(usize::try_from(hit / 4).unwrap()));
        if let Some(id) = &session.in_tmux {
            assert!(world.tmux(&["kill-session", "-t", id]).status.success());
        }
        batch.kill();
        let what = format!("{point}, {hit}, ending in {}", host.name());
        for supervisor in &session.supervisors {
            assert!(supervisor.ends_within(PATIENCE), "{what}: {supervisor:?}");
        }
        let reached = has_died(&world);
        settle(&world, &mut bystanders, &what);
        if !reached {
            break;
        }
        deaths += 1;
    }
    // One ladder appends one receipt, and removes one record.
    let least = if point.ends_with("append") || point.ends_with("unlink") { 1 } else { 2 };
    assert!(deaths >= least, "{point}, ending in {}: reached {deaths} times", host.name());
    count("wardens", &format!("ending in {}", host.name()), point, deaths);
}

/// A warden dies while it writes down how its workload ended, which a manager has it do: by a stop, or by nothing.
fn a_warden_while_recording(point: &str, host: Host) {
    for stopped in [true, false] {
        let world = World::new();
        let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
        let mut batch = Stage::Warden.dying(&world, point, 1);
        let script = world.shell("log root; until [ -e $FX/end ]; do sleep 0.02; done; exit 3");
        let launch = Launch { host, kind: "serve", grace_s: 0.5, argv: &["bash", &script] };
        let session = world.launch(&mut batch, &launch);
        world.ledger.await_roles(&["root"]);
        let what = format!("{point}, recording in {}, stopped: {stopped}", host.name());
        if stopped {
            let receipt = batch.stop(&session.id);
            assert_eq!(receipt["dead"], true, "{what}: {receipt:#}");
        } else {
            std::fs::write(world.path("end"), "").unwrap();
            world.ledger.await_empty();
        }
        for supervisor in &session.supervisors {
            assert!(supervisor.ends_within(PATIENCE), "{what}: {supervisor:?}");
        }
        assert!(has_died(&world), "{what}: never reached");
        batch.kill();
        settle(&world, &mut bystanders, &what);
    }
    count("wardens", &format!("recording in {}", host.name()), point, 2);
}

/// A warden or its usher dies while a failed workload is started again: nothing runs that is in no record.
fn a_stage_while_restarting(point: &str, host: Host) {
    let usher = matches!(host, Host::Tmux) && point.ends_with("spawn");
    // In a PTY the trampoline of the launch was its first spawn; in a pane the usher starts whatever comes later. A
    // restart writes four times at most.
    let (stage, numbers) = match (point.ends_with("spawn"), host) {
        (true, Host::Pty) => (Stage::Warden, 2..=2),
        (true, Host::Tmux) => (Stage::Usher, 1..=2),
        (false, Host::Pty) => (Stage::Warden, 1..=4),
        (false, Host::Tmux) => (Stage::Warden, 1..=hits().min(4)),
    };
    let mut deaths = 0;
    for hit in numbers {
        let world = World::new();
        let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
        let script = world.shell("log run; until [ -e $FX/fail ]; do sleep 0.02; done; rm $FX/fail; exit 3");
        world.recipes(&format!(
            "[[recipe]]\nname = \"r\"\nkind = \"serve\"\ncommand = [\"bash\", \"{script}\"]\nrestart = \"on-failure\"\n"
        ));
        let mut batch = stage.dying(&world, point, hit);
        let session = world.launch_recipe(&mut batch, "r", host);
        world.ledger.await_roles(&["run"]);
        std::fs::write(world.path("fail"), "").unwrap();
        let what = format!("{point}, {hit}, restarting in {}", host.name());
        eventually(&format!("{what}: the point"), || has_died(&world));
        if usher {
            // Its warden has nobody to start anything in the pane, says so, and leaves.
            let ended = batch.ok(json!({ "cmd": "wait", "session": session.id, "for": "exit", "timeout_s": 20 }));
            assert_eq!(ended["phase"], "failed", "{what}: {ended}");
        }
        for supervisor in &session.supervisors {
            assert!(supervisor.ends_within(PATIENCE), "{what}: {supervisor:?}");
        }
        // Whoever waited at the gate has left with it.
        eventually(&what, || world.stages().is_empty());
        let recorded = world.tether(&session.id).unwrap_or_else(|| panic!("{what}: the record is lost"));
        for entry in world.ledger.alive() {
            assert_eq!(recorded["workload"]["pid"], entry.pid, "{what}: it runs in no record: {entry:?}");
        }
        let receipt = batch.stop(&session.id);
        assert_eq!(receipt["dead"], true, "{what}: {receipt:#}");
        assert!(world.ledger.alive().is_empty(), "{what}");
        bystanders.assert_untouched();
        deaths += 1;
    }
    count(&format!("{stage:?}s").to_lowercase(), &format!("restarting in {}", host.name()), point, deaths);
}

fn in_both(point: &str, die: fn(&str, Host)) {
    die(point, Host::Pty);
    die(point, Host::Tmux);
}

fn a_warden_ending(point: &str) {
    in_both(point, a_warden_while_ending);
}

/// In tmux it leaves its record to the manager that closes the session.
fn a_warden_ending_in_a_pty(point: &str) {
    a_warden_while_ending(point, Host::Pty);
}

fn a_warden_recording(point: &str) {
    in_both(point, a_warden_while_recording);
}

fn a_stage_restarting(point: &str) {
    in_both(point, a_stage_while_restarting);
}

macro_rules! points {
    ($($name:ident: $($act:ident)*;)*) => {
        $(mod $name {
            $(mod $act {
                #[test]
                fn before() {
                    super::super::$act(concat!("before-", stringify!($name)));
                }

                #[test]
                fn after() {
                    super::super::$act(concat!("after-", stringify!($name)));
                }
            })*
        })*
    };
}

points! {
    write: while_launching while_stopping a_warden_ending a_warden_recording a_stage_restarting;
    fsync: while_launching while_stopping a_warden_ending a_warden_recording a_stage_restarting;
    rename: while_launching while_stopping a_warden_ending a_warden_recording a_stage_restarting;
    dirsync: while_launching while_stopping a_warden_ending a_warden_recording a_stage_restarting;
    spawn: while_launching while_stopping a_stage_while_launching a_stage_restarting;
    unlink: while_stopping a_warden_ending_in_a_pty;
    append: while_stopping a_warden_ending;
    signal: while_stopping a_warden_ending;
}
