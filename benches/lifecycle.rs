//! The lifecycle layer against the bare system calls that it cannot do without.
//!
//! Both sides of each ratio are measured in this one run, in turns, so that a busy host slows both.
//! Prints one table; asserts nothing about speed.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench starts its own processes and prints its table"
)]

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cookbook_tui::lifecycle::authority::{Pin, Pinned};
use cookbook_tui::lifecycle::conduct::{Stage, conduct};
use cookbook_tui::lifecycle::guard::Guard;
use cookbook_tui::lifecycle::identity::{Identity, Pid};
use cookbook_tui::lifecycle::inspect::Inspector;
use cookbook_tui::lifecycle::kill::Signal;
use cookbook_tui::lifecycle::teardown::{GRACE, Ladder};
use cookbook_tui::lifecycle::tree::{Depth, Scope, capture};

const STRANGERS: usize = 10_000;

fn main() {
    let inspector = Inspector::open(None).unwrap();
    println!("{:<44} {:>12} {:>12} {:>8} {:>8}", "what", "ours", "bare", "ratio", "goal");
    bind(&inspector);
    let tree = Tree::plant(200);
    let quiet = captures(&inspector, &tree, "capture of a 200-process tree");
    scans(&inspector);
    {
        let _strangers = Strangers::call(STRANGERS);
        let crowded = captures(&inspector, &tree, "the same among 10,000 strangers");
        scans(&inspector);
        row("10,000 strangers slow the capture by", crowded, quiet, "1.5");
    }
    drop(tree);
    psutil(&inspector);
    for count in [10, 100, 1000] {
        emptied(&inspector, count);
    }
    last_death(&inspector);
}

fn row(what: &str, ours: Duration, bare: Duration, goal: &str) {
    let ratio = ours.as_secs_f64() / bare.as_secs_f64();
    println!("{what:<44} {:>12} {:>12} {ratio:>8.2} {goal:>8}", show(ours), show(bare));
}

fn show(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    if micros < 1000.0 { format!("{micros:.2} us") } else { format!("{:.2} ms", micros / 1000.0) }
}

/// Returns the medians of both sides, measured in turns.
fn medians(rounds: usize, mut ours: impl FnMut(), mut bare: impl FnMut()) -> (Duration, Duration) {
    let mut times = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let start = Instant::now();
        ours();
        times.0.push(start.elapsed());
        let start = Instant::now();
        bare();
        times.1.push(start.elapsed());
    }
    times.0.sort();
    times.1.sort();
    (times.0[rounds / 2], times.1[rounds / 2])
}

fn bind(inspector: &Inspector) {
    let mut child = sleeper();
    let pid = pid_of(&child);
    let batch = 200;
    let (ours, bare) = medians(
        50,
        || (0..batch).for_each(|_| drop(Pinned::open(inspector, pid))),
        || (0..batch).for_each(|_| drop((pidfd(pid), stat(pid)))),
    );
    row("first bind of an identity", ours / batch, bare / batch, "1.5");
    let Pin::Held(pinned) = Pinned::open(inspector, pid) else { panic!("it lives") };
    let (ours, bare) = medians(
        50,
        || (0..batch).for_each(|_| assert!(!pinned.has_ended(inspector))),
        || (0..batch).for_each(|_| assert!(rustix::process::getppid().is_some())),
    );
    row("re-verify with a held pidfd (bare: one call)", ours / batch, bare / batch, "< 1 us");
    child.kill().unwrap();
    child.wait().unwrap();
}

fn captures(inspector: &Inspector, tree: &Tree, what: &str) -> Duration {
    let guard = Guard::new(inspector);
    let scope = Scope { workload: Some(tree.root.clone()), ..Scope::default() };
    let found = capture(&scope, Depth::Trees, &guard, inspector).members.len();
    assert_eq!(found, tree.size);
    let root = tree.root.pid;
    let (ours, bare) = medians(
        41,
        || drop(capture(&scope, Depth::Trees, &guard, inspector)),
        || assert_eq!(walk(root).len(), tree.size),
    );
    row(what, ours, bare, "1.3");
    ours
}

fn scans(inspector: &Inspector) {
    let (ours, bare) = medians(21, || drop(inspector.scan().unwrap()), || drop(table()));
    let count = table().len();
    row(&format!("full scan of {count} processes"), ours, bare, "1.3");
}

/// psutil, where this machine has it: a process of its own that times itself.
fn psutil(inspector: &Inspector) {
    let script = "import psutil,time\nf=['ppid','create_time','cmdline']\nlist(psutil.process_iter(f))\n\
                  b=[]\nfor _ in range(9):\n s=time.perf_counter();list(psutil.process_iter(f));b.append(time.perf_counter()-s)\n\
                  print(sorted(b)[4])";
    let output = Command::new("python3").args(["-c", script]).stderr(Stdio::null()).output();
    let seconds = output.ok().and_then(|output| String::from_utf8_lossy(&output.stdout).trim().parse::<f64>().ok());
    let Some(seconds) = seconds else { return println!("psutil is not installed: skipped (pip install psutil)") };
    let (ours, _) = medians(21, || drop(inspector.scan().unwrap()), || {});
    row("full scan against psutil process_iter", ours, Duration::from_secs_f64(seconds), "0.25");
}

fn emptied(inspector: &Inspector, count: usize) {
    let mut ours = Vec::new();
    let mut bare = Vec::new();
    for _ in 0..5 {
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
    ours.sort();
    bare.sort();
    row(&format!("{count} processes emptied by KILL"), ours[2], bare[2], "1.4");
}

/// From the last death to the end of the ladder, for a tree that goes on TERM.
fn last_death(inspector: &Inspector) {
    let mut times = Vec::new();
    for _ in 0..11 {
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
    times.sort();
    row("last death to the end of the ladder", times[5], Duration::from_millis(2), "2 ms");
}

fn sleeper() -> Child {
    Command::new("sleep").arg("600").process_group(0).spawn().unwrap()
}

fn pid_of(child: &Child) -> Pid {
    Pid::new(i32::try_from(child.id()).unwrap()).unwrap()
}

/// A shell in a kernel session of its own with `size - 1` sleeping children.
struct Tree {
    shell: Child,
    root: Identity,
    size: usize,
}

impl Tree {
    fn plant(size: usize) -> Self {
        let script = format!("trap 'exit 0' TERM; for i in $(seq {}); do sleep 600 & done; echo up; wait", size - 1);
        let mut shell = Command::new("setsid")
            .args(["bash", "-c", &script])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut word = [0; 3];
        shell.stdout.as_mut().unwrap().read_exact(&mut word).unwrap();
        // Every child has become `sleep` and no `seq` is left.
        let pid = pid_of(&shell);
        while walk(pid).len() != size {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(50));
        let inspector = Inspector::open(None).unwrap();
        let Pin::Held(pinned) = Pinned::open(&inspector, pid) else { panic!("it lives") };
        Self { root: pinned.identity().clone(), shell, size }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let pidfds: Vec<OwnedFd> = walk(self.root.pid).keys().filter_map(|pid| pidfd(*pid)).collect();
        for pidfd in &pidfds {
            rustix::process::pidfd_send_signal(pidfd, rustix::process::Signal::KILL).ok();
        }
        self.shell.wait().unwrap();
        pidfds.iter().for_each(wait);
    }
}

/// Processes that have nothing to do with anybody.
struct Strangers(Vec<Tree>);

impl Strangers {
    fn call(count: usize) -> Self {
        Self((0..count / 500).map(|_| Tree::plant(500)).collect())
    }
}

impl Drop for Strangers {
    fn drop(&mut self) {
        self.0.clear();
    }
}

// The bare floor: what nobody can do without.

fn pidfd(pid: Pid) -> Option<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(pid.raw())?;
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

fn wait(pidfd: &OwnedFd) {
    use rustix::event::{PollFd, PollFlags, poll};
    poll(&mut [PollFd::new(pidfd, PollFlags::IN)], None).unwrap();
}

fn stat(pid: Pid) -> Option<(i32, u64)> {
    let mut buffer = [0_u8; 1200];
    let mut file = fs::File::open(format!("/proc/{pid}/stat")).ok()?;
    let length = file.read(&mut buffer).ok()?;
    let text = std::str::from_utf8(&buffer[..length]).ok()?;
    let fields: Vec<&str> = text[text.rfind(')')? + 2..].split(' ').collect();
    Some((fields[1].parse().ok()?, fields[19].parse().ok()?))
}

/// Children by `/proc/<pid>/task/<pid>/children`, and their stat.
fn walk(root: Pid) -> HashMap<Pid, u64> {
    let mut found = HashMap::new();
    let mut queue = vec![root];
    while let Some(pid) = queue.pop() {
        let Some((_, start)) = stat(pid) else { continue };
        found.insert(pid, start);
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        queue.extend(children.split(' ').filter_map(|word| word.parse().ok()).filter_map(Pid::new));
    }
    found
}

fn table() -> HashMap<Pid, (i32, u64)> {
    let pid = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok().and_then(Pid::new);
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(pid);
    pids.filter_map(|pid| Some((pid, stat(pid)?))).collect()
}
