//! Looking at processes, while more and more of them have nothing to do with anybody: beside the bare reads, psutil,
//! ps(1) and the crate `sysinfo`.

use std::process::{Command, Stdio};
use std::time::Duration;

use cookbook_tui::lifecycle::guard::Guard;
use cookbook_tui::lifecycle::inspect::Inspector;
use cookbook_tui::lifecycle::tree::{Depth, Followed, Scope, capture};
use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, System, UpdateKind};

use crate::report::{Report, figure, median, medians, timed};
use crate::trees::{Strangers, Tree, table, walk};

/// How psutil does the same, in seconds: the host, and one tree with what identifies its processes.
const PSUTIL: &str = "import psutil,sys,time
root,rounds=int(sys.argv[1]),int(sys.argv[2])
def median(work):
    work()
    b=[]
    for _ in range(rounds):
        s=time.perf_counter(); work(); b.append(time.perf_counter()-s)
    return sorted(b)[len(b)//2]
print(median(lambda: list(psutil.process_iter(['ppid','create_time','cmdline']))),
      median(lambda: [p.create_time() for p in psutil.Process(root).children(recursive=True)]))";

pub(crate) fn scan(report: &mut Report) {
    let inspector = Inspector::open(None).unwrap();
    let tree = Tree::plant(report.rounds(200, 50));
    let quiet = captured(report, &inspector, &tree, 0, None);
    watched(report, &inspector, &tree);
    for strangers in [200, report.rounds(2000, 300), report.rounds(10_000, 400)] {
        let _strangers = Strangers::call(strangers);
        captured(report, &inspector, &tree, strangers, Some(quiet));
        scanned(report, &inspector, &tree, strangers);
    }
}

fn psutil(report: &Report, tree: &Tree) -> Vec<Duration> {
    let rounds = report.rounds(9, 1).to_string();
    let text = report.peers.python(&["-c", PSUTIL, &tree.root.pid.to_string(), &rounds]);
    text.iter().flat_map(|text| text.split(' ')).map(|word| Duration::from_secs_f64(word.parse().unwrap())).collect()
}

fn captured(
    report: &mut Report,
    inspector: &Inspector,
    tree: &Tree,
    strangers: usize,
    quiet: Option<Duration>,
) -> Duration {
    let guard = Guard::new(inspector);
    let scope = Scope { workload: Some(tree.root.clone()), ..Scope::default() };
    assert_eq!(capture(&scope, Depth::Trees, &guard, inspector).members.len(), tree.size);
    let root = tree.root.pid;
    let (ours, bare) = medians(
        report.rounds(41, 3),
        || drop(capture(&scope, Depth::Trees, &guard, inspector)),
        || assert_eq!(walk(root).len(), tree.size),
    );
    let many = strangers >= report.rounds(10_000, 400);
    let what = format!("capture of a {}-process tree among {strangers} strangers", tree.size);
    let row = figure(&what, ours).beside("walk of children", bare);
    let row = row.beside_any("psutil", psutil(report, tree).get(1).copied());
    let row = match quiet {
        Some(quiet) => row.beside("among none", quiet).times("among none", 1.2),
        None => row.times("walk of children", 1.3),
    };
    report.put(if many || strangers == 0 { row.told() } else { row });
    ours
}

/// As a stop captures a session: its tree is held already, for it was watched. The kernel has an inode for each of its
/// processes then (pidfs), which is most of what a first pidfd costs.
fn watched(report: &mut Report, inspector: &Inspector, tree: &Tree) {
    let guard = || Guard::new(inspector);
    let scope = || Scope { workload: Some(tree.root.clone()), ..Scope::default() };
    let followed = Followed::capture(scope(), guard(), inspector);
    assert_eq!(followed.captured().members.len(), tree.size);
    let (ours, bare) = medians(
        report.rounds(41, 3),
        || drop(capture(&scope(), Depth::Trees, &guard(), inspector)),
        || assert_eq!(walk(tree.root.pid).len(), tree.size),
    );
    drop(followed);
    let row = figure(&format!("capture of a {}-process tree that is watched", tree.size), ours);
    report.put(row.beside("walk of children", bare).times("walk of children", 1.3).told());
}

fn scanned(report: &mut Report, inspector: &Inspector, tree: &Tree, strangers: usize) {
    let rounds = report.rounds(21, 2);
    let (ours, bare) = medians(rounds, || drop(inspector.scan().unwrap()), || drop(table()));
    let mut ps: Vec<Duration> = (0..report.rounds(5, 1)).map(|_| timed(ps)).collect();
    let mut system = System::new();
    let kind = ProcessRefreshKind::nothing().with_cmd(UpdateKind::Always);
    let mut refresh = || assert!(system.refresh_processes_specifics(ProcessesToUpdate::All, true, kind) > 0);
    refresh();
    let mut sysinfo: Vec<Duration> = (0..report.rounds(5, 1)).map(|_| timed(&mut refresh)).collect();
    let count = table().len();
    let row = figure(&format!("full table of {count} processes"), ours).beside("loop by hand", bare);
    let row = row.beside("sysinfo", median(&mut sysinfo)).beside("ps", median(&mut ps));
    let row = row.beside_any("psutil", psutil(report, tree).first().copied()).times("loop by hand", 1.15);
    report.put(if strangers >= report.rounds(10_000, 400) { row.told() } else { row });
}

fn ps() {
    let mut command = Command::new("ps");
    command.args(["-e", "-o", "pid,ppid,lstart,args"]).stdin(Stdio::null()).stdout(Stdio::null());
    assert!(command.status().unwrap().success());
}
