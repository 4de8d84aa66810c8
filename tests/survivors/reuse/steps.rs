//! A pid is reused between two steps of a stop, again and again: between the capture and TERM, between TERM and KILL,
//! and between the end of a manager and the sweep of its records by the next.
//!
//! The lifecycle runs in a pid namespace (`stop`, or the built binary), and is interrupted where its host is asked and
//! where it tells what it did: the process of one pid is ended, reaped and replaced right there. Whoever has the pid
//! then is held, hears every signal, and belongs to nobody. `REUSE_TIMES` says how often (50 at each step by default).

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use cookbook_tui::lifecycle::authority::{Pin, Pinned, verify};
use cookbook_tui::lifecycle::conduct::Observed;
use cookbook_tui::lifecycle::guard::Guard;
use cookbook_tui::lifecycle::identity::{Identity, Pid};
use cookbook_tui::lifecycle::inspect::Inspector;
use cookbook_tui::lifecycle::kill::Signal;
use cookbook_tui::lifecycle::stop::{Host, Order, stop};
use cookbook_tui::lifecycle::store::Store;
use cookbook_tui::lifecycle::teardown::Ladder;
use cookbook_tui::lifecycle::tether::{CapturedRecord, Tether};
use cookbook_tui::lifecycle::tree::{Captured, Scope};
use cookbook_tui::lifecycle::verdict::VerdictKind;
use serde_json::{Value, json};

use super::possible;
use crate::support::{Filter, World, python, skip};

#[test]
fn between_capture_and_term() {
    run("capture-term", None);
}

#[test]
fn between_term_and_kill() {
    run("term-kill", None);
}

#[test]
fn between_a_restart_and_the_sweep() {
    run("restart-reap", None);
}

/// The same without pidfds: the start alone tells who it is, and only once its clock tick is over.
#[test]
fn without_pidfds() {
    for step in ["capture-term", "term-kill", "restart-reap"] {
        run(step, Some(Filter { errno: 38, calls: "pidfd_open,pidfd_send_signal" }));
    }
}

fn times() -> u64 {
    std::env::var("REUSE_TIMES").map_or(50, |text| text.parse().expect("REUSE_TIMES"))
}

/// Runs a step in a namespace of its own, behind a filter where there is one.
#[expect(clippy::print_stderr, reason = "a long run says what it came to")]
fn run(step: &str, filter: Option<Filter>) {
    if !possible() {
        return skip("needs root and pid namespaces");
    }
    let world = World::new();
    std::fs::write(world.path("maker.py"), include_str!("maker.py")).unwrap();
    let path = |name: &str| world.path(name).to_str().unwrap().to_owned();
    let mut argv =
        ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", python(), "-I"].map(str::to_owned).to_vec();
    argv.extend([path("maker.py"), path("socket"), path("heard")]);
    argv.extend(filter.map(|filter| world.filtered(filter)).unwrap_or_default());
    argv.push(std::env::current_exe().unwrap().to_str().unwrap().to_owned());
    argv.extend(["reuse::steps::driver", "--exact", "--ignored", "--nocapture"].map(str::to_owned));
    let mut command = world.command(&argv);
    command.env("REUSE_STEP", step).env("REUSE_TIMES", times().to_string());
    command.env("REUSE_DIR", world.path("")).env("REUSE_BINARY", world.binary().join("\n"));
    let output = command.stdin(Stdio::null()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{step} {filter:?}: {}\n{out}\n{err}", output.status);
    let told = out.lines().find_map(|line| line.split_once("reused: ")).map(|(_, told)| told.to_owned());
    let told = told.unwrap_or_else(|| panic!("{step} {filter:?}: the driver said nothing\n{out}\n{err}"));
    assert!(told.parse::<u64>().unwrap() >= times(), "{step} {filter:?}\n{out}\n{err}");
    eprintln!("reuse {step} {filter:?}: the pid was another one's {told} times, and no signal went to it");
}

/// The other side, in the namespace: it is started by [`run`], and means nothing without it.
#[test]
#[ignore = "runs in a pid namespace that another test makes"]
#[expect(clippy::print_stdout, reason = "the answer to the test that started it")]
fn driver() {
    let var = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is set by the test that starts this"));
    let step = var("REUSE_STEP");
    let maker = RefCell::new(Maker::open(&std::path::Path::new(&var("REUSE_DIR")).join("socket")));
    let times: u64 = var("REUSE_TIMES").parse().unwrap();
    let inspector = Inspector::open(None).unwrap();
    let (mut reused, mut round) = (0, 0);
    while reused < times {
        assert!(round < 2 * times + 20, "no pid is reused: {reused} in {round} rounds");
        let there = match step.as_str() {
            "restart-reap" => reap(round, &maker, &inspector),
            _ => u64::from(interrupt(round, step == "term-kill", &maker, &inspector)),
        };
        reused += there;
        round += 1;
    }
    println!("reused: {reused}");
}

/// The one that makes trees and gives their pids to others.
struct Maker {
    stream: BufReader<UnixStream>,
    /// The pid was really another one's.
    swapped: Option<bool>,
}

impl Maker {
    fn open(socket: &std::path::Path) -> Self {
        Self { stream: BufReader::new(UnixStream::connect(socket).unwrap()), swapped: None }
    }

    fn ask(&mut self, line: &str) -> Value {
        writeln!(self.stream.get_mut(), "{line}").unwrap();
        let mut answer = String::new();
        self.stream.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{line}: {error}: {answer}"))
    }

    /// Makes a root and its child.
    fn tree(&mut self, how: &str) -> [Pid; 2] {
        self.swapped = None;
        let pids = self.ask(&format!("tree {how}"));
        [0, 1].map(|index| Pid::new(i32::try_from(pids[index].as_i64().unwrap()).unwrap()).unwrap())
    }

    /// Gives the pid to another process, once.
    fn swap(&mut self, pid: Pid) {
        if self.swapped.is_none() {
            self.swapped = Some(self.ask(&format!("swap {}", pid.raw())).as_bool().unwrap());
        }
    }

    /// Nobody of the tree is left, and whoever got a pid of it lives and heard nothing.
    #[track_caller]
    fn assert_true(&mut self, what: &str) -> bool {
        let told = self.ask("verdict");
        assert_eq!(told, json!({ "heard": [], "dead": [], "stopped": [], "left": [] }), "{what}");
        self.swapped.expect(what)
    }
}

fn identity(inspector: &Inspector, pid: Pid) -> Identity {
    match Pinned::open(inspector, pid) {
        Pin::Held(pinned) => pinned.identity().clone(),
        Pin::Gone | Pin::Unreadable(_) => panic!("{pid} cannot be held"),
    }
}

/// A host at which a stop can be interrupted.
struct Interrupted<'a> {
    scope: Scope,
    maker: &'a RefCell<Maker>,
    /// Gives this pid away when the captured tree is to be written down.
    at_record: Option<Pid>,
    /// Gives this pid away when the host is asked again before KILL.
    at_scope: Option<Pid>,
    asked: u32,
}

impl Host for Interrupted<'_> {
    fn name(&self) -> &'static str {
        "pty"
    }

    fn scope(&mut self) -> Result<Scope, String> {
        self.asked += 1;
        if let Some(pid) = self.at_scope.filter(|_| self.asked > 1) {
            self.maker.borrow_mut().swap(pid);
        }
        Ok(self.scope.clone())
    }

    fn record(&mut self, _captured: &[CapturedRecord]) -> Result<(), String> {
        if let Some(pid) = self.at_record {
            self.maker.borrow_mut().swap(pid);
        }
        Ok(())
    }

    fn hang_up(&mut self, _captured: &Captured) -> Result<(), String> {
        Ok(())
    }
}

/// Stops a tree, and gives the pid of its root or of its child to another process meanwhile.
fn interrupt(round: u64, in_grace: bool, maker: &RefCell<Maker>, inspector: &Inspector) -> bool {
    let pids = maker.borrow_mut().tree(if in_grace { "deaf" } else { "mild" });
    let guard = Guard::new(inspector);
    let target = pids[usize::from(round.is_multiple_of(2))];
    let scope = Scope { workload: Some(identity(inspector, pids[0])), ..Scope::default() };
    // After the signal, before the look, or between the KILLs of two.
    let way = in_grace.then_some(round / 2 % 3);
    let mut host = Interrupted {
        scope,
        maker,
        at_record: way.is_none().then_some(target),
        at_scope: (way == Some(1)).then_some(target),
        asked: 0,
    };
    let order = Order {
        session: "serve-00000001",
        ladder: Ladder::server(Signal::Term, Duration::from_millis(4)),
        dry_run: false,
        confirm: None,
        end_kept: &[],
        timeout: None,
        sweep: false,
        hold: None,
    };
    let mut observe = |seen: Observed| match (way, seen) {
        (Some(0), Observed::Signalled(who, Signal::Term)) if who.pid == target => maker.borrow_mut().swap(target),
        // Who is not killed yet is the other one.
        (Some(2), Observed::Signalled(who, Signal::Kill)) => {
            let other = pids[usize::from(who.pid == pids[0])];
            maker.borrow_mut().swap(other);
        }
        (_, Observed::Signalled(..) | Observed::Exited(..) | Observed::Newcomer(..)) => {}
    };
    let receipt = stop(&order, &mut host, &guard, inspector, &mut observe).unwrap();
    let what = format!("round {round}, {pids:?}, {target} was reused: {receipt:#?}");
    let reused = maker.borrow_mut().assert_true(&what);
    assert_eq!(receipt.dead, Some(true), "{what}");
    reused
}

/// Records that one start of a manager sweeps.
const RECORDS: u64 = 10;

/// Records are all that is left of a manager; in each the pid of somebody is another one's. Returns in how many.
fn reap(round: u64, maker: &RefCell<Maker>, inspector: &Inspector) -> u64 {
    let mut maker = maker.borrow_mut();
    let argv: Vec<String> = std::env::var("REUSE_BINARY").unwrap().lines().map(str::to_owned).collect();
    let state = &argv[argv.iter().position(|word| word == "--state-dir").unwrap() + 1];
    let store = Store::open(std::path::Path::new(state)).unwrap();
    let (mut what, mut reused) = (vec![format!("round {round}")], 0);
    for number in 0..RECORDS {
        let pids = maker.tree("mild");
        // As its warden, as one of those that a stop had captured, or as the workload.
        let way = number % 3;
        store.save(&record(&format!("serve-{number:08x}"), way, pids, inspector)).unwrap();
        let target = pids[usize::from(way != 2)];
        let claim = identity(inspector, target);
        maker.swap(target);
        if maker.swapped == Some(true) {
            reused += 1;
            let verdict = verify(&claim, inspector);
            assert_eq!(verdict.kind, VerdictKind::Foreign, "{number}: {claim:?}: {}", verdict.reason);
            assert!(verdict.reason.starts_with("pid reused"), "{}", verdict.reason);
        }
        what.push(format!("{number}: {pids:?}, {target} was reused"));
    }
    let mut command = std::process::Command::new(&argv[0]);
    let output = command.args(&argv[1..]).args(["orphans", "--reap", "--json"]).output().unwrap();
    what.extend([output.stdout, output.stderr].map(|told| String::from_utf8_lossy(&told).into_owned()));
    let what = what.join("\n");
    maker.assert_true(&what);
    let (left, _) = store.load(&mut cookbook_tui::lifecycle::records::Records::default()).unwrap();
    assert!(left.is_empty(), "records are still there: {what}");
    reused
}

/// Returns the record that a manager has left of a tree.
fn record(session: &str, way: u64, pids: [Pid; 2], inspector: &Inspector) -> Tether {
    let [root, child] = pids.map(|pid| identity(inspector, pid));
    let inode = |name: &str| {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(format!("/proc/self/ns/{name}")).unwrap().ino()
    };
    let boot = inspector.boot_id().unwrap();
    let over = json!({ "pid": 7, "start_token": format!("procfs:{boot}:7") });
    let mut workload = serde_json::to_value(&root).unwrap();
    (workload["pgid"], workload["sid"]) = (json!(root.pid), json!(root.pid));
    let mut captured = serde_json::to_value(&child).unwrap();
    captured["membership"] = json!(["tree"]);
    let now = cookbook_tui::lifecycle::clock::boottime();
    let record = json!({
        "schema_version": 1, "protocol": 1, "session": session, "name": session, "kind": "serve", "host": "pty",
        "lifetime": "grant", "origin": null, "command": "", "argv": null, "cwd": "/", "boot_id": boot,
        "pidns_inode": inode("pid"), "timens_inode": inode("time"), "spawner": over, "adopted": false,
        "warden": if way == 0 { serde_json::to_value(&child).unwrap() } else { over.clone() }, "front": null,
        "workload": workload, "tmux": null, "spawned_at": now, "spawned_at_wall": 1.0, "not_after": now + 3600.0,
        "not_after_wall": 3601.0, "marker": "0123456789abcdef", "containment": ["tree"], "stop_signal": null,
        "grace_s": 0.05, "report_escapees": false, "captured": if way == 0 { json!([]) } else { json!([captured]) },
    });
    serde_json::from_value(record).unwrap()
}
