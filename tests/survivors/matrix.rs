//! The survivor matrix: every shape of tree, in a PTY and in tmux, is ended whole and alone.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{
    Batch, Bystanders, Ending, Entry, Filter, Host, Launch, PATIENCE, Session, World, assert_ended, came_back,
    eventually, pids, process_state, python, rows, runs,
};

/// Grace where everybody is to die of the first signals: a busy machine must not bring KILL into it.
const LONG: f64 = 10.0;
/// Grace where somebody does not.
const SHORT: f64 = 0.6;

/// One shape of tree.
pub(crate) struct Shape<'a> {
    pub(crate) kind: &'a str,
    /// Its leaves are sleeps, as the bystanders are.
    pub(crate) argv: Vec<&'a str>,
    /// Who is to be there before the stop.
    pub(crate) roles: &'a [&'a str],
    /// Who of them is to be gone before the stop.
    pub(crate) gone: &'a [&'a str],
    pub(crate) grace_s: f64,
    pub(crate) escalated: Option<bool>,
    pub(crate) births: bool,
}

impl<'a> Shape<'a> {
    /// Returns a shape of which everybody dies of TERM.
    pub(crate) fn mild(argv: &[&'a str], roles: &'a [&'a str]) -> Self {
        let (kind, gone) = ("serve", &[] as &[&str]);
        Self { kind, argv: argv.to_vec(), roles, gone, grace_s: LONG, escalated: Some(false), births: false }
    }

    /// Returns a shape of which somebody does not die of TERM.
    pub(crate) fn stubborn(argv: &[&'a str], roles: &'a [&'a str]) -> Self {
        Self { grace_s: SHORT, escalated: Some(true), ..Self::mild(argv, roles) }
    }
}

/// A shape that is there, as it was before its stop.
struct Begun {
    batch: Batch,
    session: Session,
    bystanders: Bystanders,
    before: Vec<Entry>,
}

/// Launches a shape, waits for it, and lets `prepare` change it.
fn begin(world: &World, host: Host, shape: &Shape<'_>, prepare: impl FnOnce(&World, &mut Batch, &Session)) -> Begun {
    let mut batch = world.batch();
    let launch = Launch { host, kind: shape.kind, grace_s: shape.grace_s, argv: &shape.argv };
    let session = world.launch(&mut batch, &launch);
    let bystanders = world.bystanders(&["sleep", &world.nap], Some(&session.id));
    world.ledger.await_roles(shape.roles);
    for role in shape.gone {
        eventually(&format!("the end of {role}"), || !world.ledger.is_alive(role));
    }
    let nap = ["sleep", &world.nap];
    eventually("the first sleep", || world.ledger.alive().iter().any(|entry| runs(entry.pid, &nap)));
    prepare(world, &mut batch, &session);
    // In a storm others come and go; these stay.
    let lasting = |entry: &Entry| shape.roles.contains(&entry.role.as_str());
    let before: Vec<Entry> = world.ledger.alive().into_iter().filter(lasting).collect();
    assert_eq!(before.len() + shape.gone.len(), shape.roles.len(), "somebody is gone: {before:?}");
    Begun { batch, session, bystanders, before }
}

/// Launches a shape, waits for it, lets `prepare` change it, stops it, and checks everything.
pub(crate) fn check(
    world: &World,
    host: Host,
    shape: &Shape<'_>,
    prepare: impl FnOnce(&World, &mut Batch, &Session),
) -> Value {
    let Begun { mut batch, session, mut bystanders, before } = begin(world, host, shape, prepare);
    let receipt = batch.stop(&session.id);
    let ending = Ending { session: &session, before: &before, escalated: shape.escalated, births: shape.births };
    assert_ended(world, &mut batch, &receipt, &ending, &mut bystanders);
    assert_eq!(pids(&receipt, "lookalikes"), bystanders.pids(), "{receipt:#}");
    assert!(world.tether(&session.id).is_none(), "everybody is dead, so nothing is left to be recorded");
    assert_eq!(batch.finish().code(), Some(0));
    bystanders.assert_untouched();
    receipt
}

/// The same, but the manager dies of KILL with the first signal of its stop: the warden finishes what it began.
fn check_interrupted(world: &World, host: Host, shape: &Shape<'_>, prepare: impl FnOnce(&World, &mut Batch, &Session)) {
    let Begun { mut batch, session, mut bystanders, .. } = begin(world, host, shape, prepare);
    batch.send(json!({ "cmd": "stop", "session": session.id }));
    batch.await_event("of a signal", |event| event["event"] == "signal");
    let begun = Instant::now();
    batch.kill();
    world.ledger.await_empty();
    let took = begun.elapsed();
    for supervisor in &session.supervisors {
        assert!(supervisor.ends_within(PATIENCE), "front or warden stays: {supervisor:?}");
    }
    let alive = world.ledger.alive();
    assert!(alive.is_empty(), "born meanwhile, and alive: {alive:?}");
    bystanders.assert_untouched();
    // Its grace, where somebody waits for it, and half a second: in orders of magnitude, for the machine is busy. It is
    // measured by `scripts/compare owner`.
    let waits_s = if shape.escalated == Some(false) { 0.5 } else { shape.grace_s + 0.5 };
    assert!(took.as_secs_f64() < 16.0 * waits_s, "{took:?} for a grace of {} s", shape.grace_s);
    // Without a warden those who carry its marker would be shown as having left it.
    drop(bystanders);
    let (_, answer) = world.run(&["stop", &session.id]);
    assert!(answer["dead"] == true || answer["error"]["kind"] == "not_found", "{answer:#}");
    assert!(world.tether(&session.id).is_none(), "nothing is left to be recorded: {answer:#}");
}

/// One way through a shape.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) host: Host,
    /// The manager is killed in the middle of the stop.
    pub(crate) manager_dies: bool,
    /// What the kernel cannot do.
    pub(crate) filter: Option<Filter>,
}

impl Case {
    fn world(self) -> World {
        World::behind(self.filter)
    }

    /// Checks a shape; there is a receipt where the manager lived to give one.
    fn check(
        self,
        world: &World,
        shape: &Shape<'_>,
        prepare: impl FnOnce(&World, &mut Batch, &Session),
    ) -> Option<Value> {
        if self.manager_dies {
            check_interrupted(world, self.host, shape, prepare);
            return None;
        }
        let receipt = check(world, self.host, shape, prepare);
        let fell_back =
            rows(&receipt, "notes").any(|note| note.as_str().unwrap().contains("immediately before kill(2)"));
        assert_eq!(fell_back, self.filter.is_some(), "{receipt:#}");
        Some(receipt)
    }
}

pub(crate) fn as_it_is(_: &World, _: &mut Batch, _: &Session) {}

/// Runs functions of a host in a PTY and in tmux.
macro_rules! in_both {
    ($($name:ident)*) => {
        $(mod $name {
            use crate::support::Host;

            #[test]
            fn in_a_pty() {
                super::$name(Host::Pty);
            }

            #[test]
            fn in_tmux() {
                super::$name(Host::Tmux);
            }
        })*
    };
}
pub(crate) use in_both;

/// Runs shapes in a PTY and in tmux, with a manager that lives and with one that dies.
macro_rules! in_every_way {
    ($($name:ident)*) => {
        $(mod $name {
            use super::Case;
            use crate::support::Host;

            #[test]
            fn in_a_pty() {
                super::$name(Case { host: Host::Pty, manager_dies: false, filter: None });
            }

            #[test]
            fn in_tmux() {
                super::$name(Case { host: Host::Tmux, manager_dies: false, filter: None });
            }

            #[test]
            fn in_a_pty_whose_owner_dies() {
                super::$name(Case { host: Host::Pty, manager_dies: true, filter: None });
            }

            #[test]
            fn in_tmux_whose_manager_dies() {
                super::$name(Case { host: Host::Tmux, manager_dies: true, filter: None });
            }
        })*
    };
}

in_every_way! {
    plain_child background_child deaf_parent_and_child other_groups own_session daemon daemon_without_environment
    stopped_child birth_on_term root_gone nohup nested deaf_to_hup deaf_to_both zombie_child zombie_root browser
}

pub(crate) fn plain_child(case: Case) {
    let world = case.world();
    let script = world.shell("log root; (leaf child); true");
    case.check(&world, &Shape::mild(&["bash", &script], &["root", "child"]), as_it_is);
}

pub(crate) fn background_child(case: Case) {
    let world = case.world();
    let script = world.shell("log root; (leaf child) & wait");
    case.check(&world, &Shape::mild(&["sh", &script], &["root", "child"]), as_it_is);
}

pub(crate) fn deaf_parent_and_child(case: Case) {
    let world = case.world();
    let script = world.shell("trap '' TERM; log root; (leaf child) & wait");
    case.check(&world, &Shape::stubborn(&["bash", &script], &["root", "child"]), as_it_is);
}

fn other_groups(case: Case) {
    let world = case.world();
    let script = world.shell("log root; (leaf back) & (leaf front); true");
    let line = format!(". {script}");
    let argv = ["bash", "--norc", "-ic", &line];
    case.check(&world, &Shape::mild(&argv, &["root", "back", "front"]), |world, _, _| {
        let group = |role| rustix::process::getpgid(rustix::process::Pid::from_raw(world.ledger.of(role).pid)).unwrap();
        let groups = [group("root"), group("back"), group("front")];
        assert!(groups[0] != groups[1] && groups[1] != groups[2] && groups[0] != groups[2], "{groups:?}");
    });
}

pub(crate) fn own_session(case: Case) {
    let world = case.world();
    let inner = world.shell("log inner; (leaf deep) & wait");
    let script = world.shell(&format!("log root; setsid bash {inner} & wait"));
    case.check(&world, &Shape::mild(&["bash", &script], &["root", "inner", "deep"]), |world, _, _| {
        let pid = rustix::process::Pid::from_raw(world.ledger.of("inner").pid);
        assert_eq!(rustix::process::getsid(pid).ok(), pid);
    });
}

fn daemon_of(case: Case, how: &str) {
    let world = case.world();
    let inner = world.shell("log daemon; (leaf deep) & wait");
    let middle = world.shell(&format!("log middle; {how} bash {inner} < /dev/null > /dev/null 2>&1 &"));
    let script = world.shell(&format!("log root; bash {middle}; (leaf child); true"));
    let argv = ["bash", script.as_str()];
    let roles = ["root", "middle", "daemon", "deep", "child"];
    let shape = Shape { gone: &["middle"], ..Shape::mild(&argv, &roles) };
    let Some(receipt) = case.check(&world, &shape, as_it_is) else { return };
    let daemon = i64::from(world.ledger.of("daemon").pid);
    let row = rows(&receipt, "captured").find(|row| row["pid"] == daemon).unwrap();
    assert!(came_back(row), "{row}");
}

pub(crate) fn daemon(case: Case) {
    daemon_of(case, "setsid");
}

fn daemon_without_environment(case: Case) {
    daemon_of(case, "env -i PATH=/usr/bin:/bin setsid");
}

pub(crate) fn stopped_child(case: Case) {
    let world = case.world();
    let script = world.shell("log root; (log child; kill -STOP $BASHPID; exec sleep 200) & (leaf other) & wait");
    let Some(receipt) =
        case.check(&world, &Shape::mild(&["bash", &script], &["root", "child", "other"]), |world, _, _| {
            let pid = world.ledger.of("child").pid;
            eventually("the stop of the child", || process_state(pid) == Some('T'));
        })
    else {
        return;
    };
    let child = i64::from(world.ledger.of("child").pid);
    let sent: Vec<&str> = rows(&receipt, "signals")
        .filter(|row| row["pid"] == child)
        .map(|row| row["signal"].as_str().unwrap())
        .collect();
    assert_eq!(sent, ["TERM", "CONT"]);
}

pub(crate) fn birth_on_term(case: Case) {
    let world = case.world();
    let script = world.shell("trap '(leaf born) & wait' TERM; log root; (leaf child) & wait; wait; wait");
    let argv = ["bash", script.as_str()];
    let shape = Shape { births: true, ..Shape::mild(&argv, &["root", "child"]) };
    let Some(receipt) = case.check(&world, &shape, as_it_is) else { return };
    assert_eq!(pids(&receipt, "captured").len(), 2, "{receipt:#}");
    assert_eq!(pids(&receipt, "outcomes").len(), 3, "the newcomer is in the outcomes\n{receipt:#}");
    for row in rows(&receipt, "outcomes") {
        assert_eq!(row["outcome"], "exited", "{receipt:#}");
    }
}

/// The pane's own program has exited; what it left behind still belongs to the session.
fn root_gone(case: Case) {
    let world = case.world();
    let script = world.shell("log root; trap '' HUP; (leaf child) < /dev/null > /dev/null 2>&1 & exit 3");
    let argv = ["bash", script.as_str()];
    let shape = Shape { gone: &["root"], ..Shape::mild(&argv, &["root", "child"]) };
    case.check(&world, &shape, |_, batch, session| {
        let waited = batch.ok(json!({ "cmd": "wait", "session": session.id, "for": "exit", "timeout_s": 20 }));
        assert_eq!(waited["exit_code"], 3, "{waited}");
    });
}

fn nohup(case: Case) {
    let world = case.world();
    let inner = world.shell("leaf child");
    let script = world.shell(&format!("log root; nohup bash {inner} > /dev/null 2>&1 & wait"));
    case.check(&world, &Shape::mild(&["bash", &script], &["root", "child"]), as_it_is);
}

fn nested(case: Case) {
    let world = case.world();
    let leaf = world.shell("log inner; (leaf deep) & wait");
    let middle = world.shell(&format!("log middle; sh {leaf}; true"));
    let script = world.shell(&format!("log root; sh {middle}; true"));
    case.check(&world, &Shape::mild(&["sh", &script], &["root", "middle", "inner", "deep"]), as_it_is);
}

fn deaf_to_hup(case: Case) {
    let world = case.world();
    let script = world.shell("trap '' HUP; log root; (leaf child) & wait");
    case.check(&world, &Shape::mild(&["bash", &script], &["root", "child"]), as_it_is);
}

/// An agent is hung up as well as told; this one hears neither.
fn deaf_to_both(case: Case) {
    let world = case.world();
    let script = world.shell("trap '' HUP TERM; log root; (leaf child) & wait");
    let argv = ["bash", script.as_str()];
    let shape = Shape { kind: "agent", ..Shape::stubborn(&argv, &["root", "child"]) };
    let Some(receipt) = case.check(&world, &shape, as_it_is) else { return };
    let root = i64::from(world.ledger.of("root").pid);
    let sent: Vec<&str> =
        rows(&receipt, "signals").filter(|row| row["pid"] == root).map(|row| row["signal"].as_str().unwrap()).collect();
    assert_eq!(sent, ["HUP", "TERM", "CONT", "KILL"]);
}

/// The first thread has ended, so that its process looks like a zombie; another thread runs on.
const ZOMBIE: &str = "
def go_on():
    log('zombie')
    forked(leaf, 'child')
    time.sleep(200)

threading.Thread(target=go_on).start()
ctypes.CDLL(None).pthread_exit(None)
";

fn is_a_zombie_leader(world: &World) {
    let pid = world.ledger.of("zombie").pid;
    eventually("the end of the first thread", || process_state(pid) == Some('Z'));
    assert!(world.ledger.is_alive("zombie"), "its other thread lives");
}

fn zombie_child(case: Case) {
    let world = case.world();
    let zombie = world.python(ZOMBIE);
    let script = world.shell(&format!("log root; {} {zombie} & wait", python()));
    let shape = Shape::mild(&["bash", &script], &["root", "zombie", "child"]);
    case.check(&world, &shape, |world, _, _| is_a_zombie_leader(world));
}

fn zombie_root(case: Case) {
    let world = case.world();
    let zombie = world.python(ZOMBIE);
    let shape = Shape::mild(&[python(), &zombie], &["zombie", "child"]);
    case.check(&world, &shape, |world, _, _| is_a_zombie_leader(world));
}

/// Many helpers in kernel sessions of their own, one of them double-forked, some deaf.
fn browser(case: Case) {
    let world = case.world();
    let helper = world.shell("log helper; (leaf deep) & wait");
    let deaf = world.shell("trap '' TERM HUP; log deaf; (leaf deep) & wait");
    let crash = world.shell("leaf crash");
    let zygote = world.shell(&format!(
        "log zygote
        for i in 1 2 3 4 5 6 7 8; do setsid bash {helper} & done
        for i in 1 2; do setsid bash {deaf} & done
        wait"
    ));
    let script = world.shell(&format!(
        "log root
        (setsid bash {crash} < /dev/null > /dev/null 2>&1 &)
        setsid bash {zygote} &
        for i in 1 2 3 4; do setsid bash {helper} & done
        wait"
    ));
    let mut roles = vec!["root", "crash", "zygote", "deaf", "deaf"];
    roles.extend(["helper"; 12]);
    roles.extend(["deep"; 14]);
    case.check(&world, &Shape::stubborn(&["bash", &script], &roles), as_it_is);
}
