//! Real reuse of a pid: a bystander gets the number of a process of ours that has ended, and lives.
//!
//! Each test has a pid namespace of its own, where the next pid can be chosen.

use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::matrix::in_both;
use crate::support::{Batch, Entry, Held, Host, Session, World, eventually, is_root, pids, python, rows, skip};

mod steps;

in_both! { of_the_workload of_a_child_in_the_grace }

/// A manager in a pid namespace. All pids of the ledger and of answers are those inside.
struct Namespace {
    world: World,
    batch: Batch,
    /// Process 1 of the namespace, held from outside.
    init: Held,
}

impl Namespace {
    /// `prefix` starts the manager.
    fn new(prefix: &str) -> Self {
        let world = World::new();
        let mut manager = world.binary();
        manager.extend(["--batch".to_owned(), "-".to_owned()]);
        // Process 1 reaps what comes to it, so that pids become free.
        let init = world.shell(&format!("{prefix} {}; echo $? > $FX/code", manager.join(" ")));
        let argv = ["unshare", "--pid", "--fork", "--mount-proc", "bash", &init].map(str::to_owned);
        let batch = Batch::start(world.command(&argv));
        let unshare = batch.child.id();
        let children = std::fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children")).unwrap();
        let pid = children.trim().parse().unwrap();
        let init = Held::open(Entry::of_pid(pid, "init").unwrap());
        Self { world, batch, init }
    }

    /// Returns a command that runs inside.
    fn inside(&self, argv: &[&str]) -> Command {
        let pid = self.init.entry.pid.to_string();
        let mut words = vec!["nsenter", "-t", &pid, "-p", "-m"];
        words.extend(argv);
        self.world.command(&words.into_iter().map(str::to_owned).collect::<Vec<_>>())
    }

    fn is_gone(&self, pid: i32) -> bool {
        let proc = format!("/proc/{}/root/proc", self.init.entry.pid);
        assert!(std::path::Path::new(&proc).join("1").exists(), "the namespace is gone");
        !std::path::Path::new(&proc).join(pid.to_string()).exists()
    }

    fn parent_of(&self, pid: i32) -> String {
        let status = format!("/proc/{}/root/proc/{pid}/status", self.init.entry.pid);
        let status = std::fs::read_to_string(status).unwrap();
        status.lines().find_map(|line| line.strip_prefix("PPid:\t")).unwrap().to_owned()
    }

    /// Starts a bystander that has exactly this pid. It writes down what it hears, and that it lives.
    fn occupy(&self, pid: i32) {
        eventually("the pid to become free", || self.is_gone(pid));
        let script = self.world.python(&format!(
            "
# Blocked before the fork: nothing that comes early is lost.
heard = (1, 2, 3, 10, 12, 14, 15, 18)
signal.pthread_sigmask(signal.SIG_BLOCK, heard)

def bystander():
    os.setsid()
    def hear(number, frame):
        with open(FX + '/heard', 'a') as notes: notes.write(signal.Signals(number).name + '\\n')
    for number in heard:
        signal.signal(number, hear)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, heard)
    with open(FX + '/bystander', 'w') as who: who.write(str(os.getpid()))
    while True:
        with open(FX + '/beat', 'a') as beat: beat.write('.')
        time.sleep(0.02)

for _ in range(2000):
    with open('/proc/sys/kernel/ns_last_pid', 'w') as last: last.write(str({pid} - 1))
    child = os.fork()
    if child == 0:
        if os.getpid() == {pid}: bystander()
        os._exit(0)
    if child == {pid}: break
    os.waitpid(child, 0)
else:
    sys.exit(1)
"
        ));
        let made = self.inside(&[python(), &script]).stdin(Stdio::null()).status().unwrap();
        assert!(made.success(), "no process with the pid {pid} could be made");
        eventually("the bystander", || self.world.text("bystander") == pid.to_string());
        assert!(!self.is_gone(pid));
    }

    /// The bystander heard nothing, and goes on.
    #[track_caller]
    fn assert_bystander_lives(&self) {
        assert_eq!(self.world.text("heard"), "");
        let beats = self.world.text("beat").len();
        eventually("another beat of the bystander", || self.world.text("beat").len() > beats);
        assert_eq!(self.world.text("heard"), "");
    }

    fn launch(&mut self, host: Host, grace_s: f64, script: &str) -> Session {
        let request = json!({
            "cmd": "launch", "command": ["bash", script], "kind": "serve", "host": host.name(), "grace_s": grace_s
        });
        let launched = self.batch.ok(request);
        let in_tmux = launched["tmux"]["session_id"].as_str().map(str::to_owned);
        Session { id: launched["session"].as_str().unwrap().to_owned(), in_tmux, supervisors: Vec::new() }
    }

    /// Waits for the roles; the oracle from outside cannot hold pids from inside.
    fn await_roles(&self, roles: &[&str]) {
        eventually(&format!("the roles {roles:?}"), || {
            let text = self.world.text("ledger");
            roles.iter().all(|role| text.lines().any(|line| line.ends_with(&format!(" {role}"))))
        });
    }

    fn pid_of(&self, role: &str) -> i32 {
        let text = self.world.text("ledger");
        let line = text.lines().find(|line| line.ends_with(&format!(" {role}"))).unwrap();
        line.split(' ').next().unwrap().parse().unwrap()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // With its process 1 the whole namespace ends.
        self.init.signal(Signal::KILL);
        self.init.ends_within(crate::support::PATIENCE);
    }
}

fn possible() -> bool {
    let probe =
        Command::new("unshare").args(["--pid", "--fork", "--mount-proc", "true"]).stderr(Stdio::null()).status();
    is_root() && probe.is_ok_and(|status| status.success())
}

/// The workload has exited, its child lives on, and a stranger has the workload's pid when the stop comes.
fn of_the_workload(host: Host) {
    if !possible() {
        return skip("needs root and pid namespaces");
    }
    let mut space = Namespace::new("setsid");
    // Not in the root's group or session: their number would not be free.
    let child = space.world.shell("leaf child");
    let script =
        space.world.shell(&format!("log root; trap '' HUP; setsid bash {child} < /dev/null > /dev/null 2>&1 & exit 5"));
    let session = space.launch(host, 3.0, &script);
    space.await_roles(&["root", "child"]);
    space.batch.ok(json!({ "cmd": "wait", "session": session.id, "for": "exit", "timeout_s": 20 }));
    let (root, child) = (space.pid_of("root"), space.pid_of("child"));
    space.occupy(root);
    let listed = space.batch.ok(json!({ "cmd": "list" }));
    assert_eq!(listed["sessions"][0]["pid"], root, "{listed}");
    let tree = space.batch.ok(json!({ "cmd": "tree", "session": session.id }));
    let alive = |row: &&Value| row["verdict"] == "owned";
    let owned: Vec<i64> = rows(&tree, "processes").filter(alive).map(|row| row["pid"].as_i64().unwrap()).collect();
    assert_eq!(owned, [i64::from(child)], "{tree:#}");
    let receipt = space.batch.stop(&session.id);
    space.assert_bystander_lives();
    assert!(space.is_gone(child), "{receipt:#}");
    assert_eq!(receipt["dead"], true, "{receipt:#}");
    assert_eq!(pids(&receipt, "signals"), [i64::from(child)].into(), "{receipt:#}");
}

/// A root that outlives TERM because it waits for a deaf child, and a child that dies of it.
const DEAF_ROOT: &str = "trap : TERM; log root; (trap '' TERM; leaf deaf) & (leaf child) & while :; do wait; done";

/// A child dies of TERM at once, its parent does not: before KILL comes, a stranger has the child's pid.
fn of_a_child_in_the_grace(host: Host) {
    if !possible() {
        return skip("needs root and pid namespaces");
    }
    let mut space = Namespace::new("setsid");
    let script = space.world.shell(DEAF_ROOT);
    let session = space.launch(host, 4.0, &script);
    space.await_roles(&["root", "deaf", "child"]);
    let (root, child) = (space.pid_of("root"), space.pid_of("child"));
    let id = space.batch.send(json!({ "cmd": "stop", "session": session.id }));
    space.occupy(child);
    let in_time = !space.is_gone(root);
    let answer = space.batch.answer(id);
    let receipt = &answer["result"];
    assert!(in_time, "the grace was over before the pid was taken\n{receipt:#}");
    space.assert_bystander_lives();
    assert!(space.is_gone(root), "{receipt:#}");
    assert_eq!((&receipt["dead"], &receipt["escalated"]), (&json!(true), &json!(true)), "{receipt:#}");
    for (pid, expected) in [(root, ["TERM", "CONT", "KILL"].as_slice()), (child, ["TERM", "CONT"].as_slice())] {
        let sent: Vec<&str> = rows(receipt, "signals")
            .filter(|row| row["pid"] == pid)
            .map(|row| row["signal"].as_str().unwrap())
            .collect();
        // The first one may have died of TERM before CONT came.
        assert!(sent == expected || (pid == child && sent == ["TERM"]), "{pid}: {sent:?}\n{receipt:#}");
    }
}

/// Without a setsid(1) the manager's process group and kernel session have no number in its namespace.
#[test]
fn a_manager_whose_group_is_led_from_outside() {
    if !possible() {
        return skip("needs root and pid namespaces");
    }
    let mut space = Namespace::new("");
    let script = space.world.shell("log root; (leaf child) & wait");
    let session = space.launch(Host::Pty, 3.0, &script);
    space.await_roles(&["root", "child"]);
    let receipt = space.batch.stop(&session.id);
    assert_eq!(receipt["dead"], true, "{receipt:#}");
    assert!(space.is_gone(space.pid_of("root")) && space.is_gone(space.pid_of("child")), "{receipt:#}");
}

/// tmux named a pane's root when the stop began. It dies of TERM at once, the workload does not: the stranger that
/// gets the root's pid in the grace is no root of anything.
#[test]
fn of_a_pane_root_in_the_grace() {
    if !possible() {
        return skip("needs root and pid namespaces");
    }
    let mut space = Namespace::new("setsid");
    let script = space.world.shell(DEAF_ROOT);
    let session = space.launch(Host::Tmux, 4.0, &script);
    let pane = space.world.shell("leaf pane");
    let target = format!("{}:", session.in_tmux.as_deref().unwrap());
    let mut argv = space.world.tmux_argv();
    argv.extend(["new-window", "-d", "-t", &target, "bash", &pane].map(str::to_owned));
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    assert!(space.inside(&argv).status().unwrap().success());
    space.await_roles(&["root", "deaf", "child", "pane"]);
    let (root, pane) = (space.pid_of("root"), space.pid_of("pane"));
    let server = space.parent_of(pane);
    let id = space.batch.send(json!({ "cmd": "stop", "session": session.id }));
    // tmux 3.3 leaves such a root a zombie for seconds now and then; reminded, it reaps.
    eventually("the end of the pane's root", || {
        assert!(space.inside(&["sh", "-c", &format!("kill -CHLD {server}")]).status().unwrap().success());
        space.is_gone(pane)
    });
    space.occupy(pane);
    let in_time = !space.is_gone(root);
    let answer = space.batch.answer(id);
    let receipt = &answer["result"];
    assert!(in_time, "the grace was over before the pid was taken\n{receipt:#}");
    space.assert_bystander_lives();
    assert!(space.is_gone(root), "{receipt:#}");
    assert_eq!((&receipt["dead"], &receipt["escalated"]), (&json!(true), &json!(true)), "{receipt:#}");
    let killed: Vec<&Value> = rows(receipt, "signals").filter(|row| row["signal"] == "KILL").collect();
    let deaf = space.pid_of("deaf");
    assert!(killed.iter().all(|row| row["pid"] == root || row["pid"] == deaf), "{receipt:#}");
}
