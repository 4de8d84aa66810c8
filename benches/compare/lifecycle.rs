//! The lifecycle layer beside the bare system calls that it cannot do without, and beside psutil.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use cookbook_tui::lifecycle::authority::{Pin, Pinned};
use cookbook_tui::lifecycle::conduct::{Stage, conduct};
use cookbook_tui::lifecycle::guard::Guard;
use cookbook_tui::lifecycle::inspect::Inspector;
use cookbook_tui::lifecycle::kill::Signal;
use cookbook_tui::lifecycle::teardown::{GRACE, Ladder};
use cookbook_tui::lifecycle::tree::{Depth, Scope, capture};

use crate::report::{Report, figure, median, medians};
use crate::trees::{Tree, pid_of, pidfd, stat, wait, walk};

/// How psutil does the same, in seconds for each: bind (create time), and ask again.
const PSUTIL: &str = "import psutil,sys,time
pid=int(sys.argv[1])
def each(work):
    b=[]
    for _ in range(20):
        s=time.perf_counter()
        for _ in range(100): work()
        b.append((time.perf_counter()-s)/100)
    return sorted(b)[10]
held=psutil.Process(pid)
print(each(lambda: psutil.Process(pid).create_time()), each(held.is_running))";

/// The first bind of an identity, and asking again later.
pub(crate) fn verify(report: &mut Report) {
    let inspector = Inspector::open(None).unwrap();
    let mut child = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
    let pid = pid_of(&child);
    let (batch, rounds) = (200, report.rounds(50, 3));
    let psutil = report.peers.python(&["-c", PSUTIL, &pid.to_string()]);
    let psutil: Vec<Duration> = psutil
        .iter()
        .flat_map(|text| text.split(' '))
        .map(|word| Duration::from_secs_f64(word.parse().unwrap()))
        .collect();
    let (ours, bare) = medians(
        rounds,
        || (0..batch).for_each(|_| drop(Pinned::open(&inspector, pid))),
        || (0..batch).for_each(|_| drop((pidfd(pid), stat(pid)))),
    );
    let row = figure("first bind of an identity", ours / batch).beside("pidfd and stat", bare / batch);
    report.put(row.beside_any("psutil", psutil.first().copied()).times("pidfd and stat", 1.5).told());
    let Pin::Held(pinned) = Pinned::open(&inspector, pid) else { panic!("it lives") };
    let (ours, bare) = medians(
        rounds,
        || (0..batch).for_each(|_| assert!(!pinned.has_ended(&inspector))),
        || (0..batch).for_each(|_| assert!(rustix::process::getppid().is_some())),
    );
    let row = figure("verify again with a held pidfd", ours / batch).beside("the cheapest call", bare / batch);
    report.put(row.beside_any("psutil", psutil.get(1).copied()).at_most(Duration::from_nanos(500)).told());
    child.kill().unwrap();
    child.wait().unwrap();
    observed(report);
}

/// From KILL to the death as it is observed.
fn observed(report: &mut Report) {
    let inspector = Inspector::open(None).unwrap();
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..report.rounds(51, 3) {
        for (is_ours, times) in [(true, &mut ours), (false, &mut bare)] {
            let mut child = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
            let held = pidfd(pid_of(&child)).unwrap();
            let Pin::Held(pinned) = Pinned::open(&inspector, pid_of(&child)) else { panic!("it lives") };
            let start = Instant::now();
            rustix::process::pidfd_send_signal(&held, rustix::process::Signal::KILL).unwrap();
            if is_ours {
                while !pinned.has_ended(&inspector) {
                    std::hint::spin_loop();
                }
            } else {
                wait(&held);
            }
            times.push(start.elapsed());
            child.wait().unwrap();
        }
    }
    let row = figure("death by KILL, to its observation", median(&mut ours));
    report.put(row.beside("poll of a pidfd", median(&mut bare)).times("poll of a pidfd", 1.5));
}

/// Whole trees, ended.
pub(crate) fn empty(report: &mut Report) {
    let inspector = Inspector::open(None).unwrap();
    for count in [10, 100, report.rounds(1000, 200)] {
        emptied(report, &inspector, count);
    }
    last_death(report, &inspector);
}

fn emptied(report: &mut Report, inspector: &Inspector, count: usize) {
    let mut ours = Vec::new();
    let mut bare = Vec::new();
    for _ in 0..report.rounds(5, 1) {
        let tree = Tree::plant(count);
        let guard = Guard::new(inspector);
        let scope = Scope { workload: Some(tree.root.clone()), ..Scope::default() };
        let start = Instant::now();
        let captured = capture(&scope, Depth::Trees, &guard, inspector);
        let ladder = Ladder { force: true, ..Ladder::server(Signal::Term, GRACE) };
        let mut stage =
            Stage { inspector, guard: &guard, leaf: None, deadline: None, hold: None, observe: &mut |_| {} };
        let mut rescan = |depth: Depth| {
            let depth = if depth == Depth::Host { Depth::Trees } else { depth };
            capture(&scope, depth, &guard, inspector)
        };
        let ended = conduct(ladder, captured, &mut rescan, &mut stage);
        ours.push(start.elapsed());
        assert_eq!(ended.targets.len(), count);
        drop(tree);

        let tree = Tree::plant(count);
        let start = Instant::now();
        let pidfds: Vec<OwnedFd> = walk(tree.root.pid).keys().filter_map(|pid| pidfd(*pid)).collect();
        for pidfd in &pidfds {
            rustix::process::pidfd_send_signal(pidfd, rustix::process::Signal::KILL).ok();
        }
        for pidfd in &pidfds {
            wait(pidfd);
        }
        bare.push(start.elapsed());
        drop(tree);
    }
    let row = figure(&format!("{count} processes emptied by KILL, with their capture"), median(&mut ours));
    let row = row.beside("walk, pidfds, KILL, poll", median(&mut bare)).times("walk, pidfds, KILL, poll", 1.25);
    report.put(if count >= 1000 { row.told() } else { row });
}

/// From the last death to the end of the ladder, for a tree that goes on TERM.
fn last_death(report: &mut Report, inspector: &Inspector) {
    let mut times = Vec::new();
    for _ in 0..report.rounds(11, 1) {
        let tree = Tree::plant(20);
        let guard = Guard::new(inspector);
        let scope = Scope { workload: Some(tree.root.clone()), ..Scope::default() };
        let captured = capture(&scope, Depth::Trees, &guard, inspector);
        let mut last = Instant::now();
        let mut observe = |_| last = Instant::now();
        let mut stage =
            Stage { inspector, guard: &guard, leaf: None, deadline: None, hold: None, observe: &mut observe };
        let mut rescan = |depth| capture(&scope, depth, &guard, inspector);
        conduct(Ladder::server(Signal::Term, GRACE), captured, &mut rescan, &mut stage);
        times.push(last.elapsed());
    }
    report.put(figure("last death to the end of the ladder", median(&mut times)).at_most(Duration::from_millis(2)));
}
