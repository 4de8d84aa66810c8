//! What the cockpit costs while nothing happens, and how it leaves when its terminal stalls.

use std::fs;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, pidfd_send_signal};

use crate::figures::Amount;
use crate::frames::{open, quit, start_session};
use crate::held::pidfd_of;
use crate::place::{Place, SIZE};
use crate::quiet::Quiet;
use crate::report::{Report, figure, median};
use crate::terminal::Terminal;

/// The size at which the goal for bytes holds.
const SMALL: (u16, u16) = (24, 80);

pub(crate) fn idle(report: &mut Report) {
    let many = report.rounds(100, 4);
    let mut before = None;
    for sessions in [1, report.rounds(20, 2), many] {
        let place = Place::new();
        let cockpit = open(&place, SMALL);
        let alone = before.unwrap_or_else(|| private(manager(&cockpit)));
        before = Some(alone);
        for _ in 0..sessions {
            start_session(&cockpit, "exec sleep 600");
            cockpit.wait("the dialog's end", |screen| !screen.contents().contains("Start"));
        }
        wait_for_wardens(&cockpit, sessions);
        let told = sessions != 1;
        let theirs = Quiet::start(&report.peers, SMALL, sessions);
        let most = if sessions > 20 { 0.005 } else { 0.001 };
        rest(report, &format!("{sessions} quiet in PTYs"), &cockpit, &theirs, most, told);
        let manager = private(manager(&cockpit));
        let row = figure(&format!("{sessions} quiet in PTYs: private memory of the manager"), Amount::Bytes(manager));
        let row = row.beside("without a session", Amount::Bytes(alone));
        let memory = |pids: &[u32]| Amount::Bytes(pids.iter().map(|pid| private(*pid)).sum());
        let row = theirs.pids().into_iter().fold(row, |row, (name, pids)| row.beside(name, memory(&pids)));
        report.put(if sessions == many { row.at_most(Amount::Bytes(60.0 * MIB)).told() } else { row });
        theirs.end();
        if sessions == many {
            let all = descendants(cockpit.pid()).into_iter().filter(|pid| is_warden(*pid)).map(private).sum::<f64>();
            report.put(figure(&format!("{sessions} quiet in PTYs: with their wardens"), Amount::Bytes(manager + all)));
        }
        quit(cockpit);
    }
    if !report.peers.has("tmux") {
        return report.skip("quiet in tmux", "tmux is not installed");
    }
    let sessions = report.rounds(20, 2);
    let place = Place::new();
    for _ in 0..sessions {
        place.run(&["launch", "--host", "tmux", "--", "sleep", "600"]);
    }
    let cockpit = open(&place, SMALL);
    rest(report, &format!("{sessions} quiet in tmux"), &cockpit, &Quiet::default(), 0.001, false);
    quit(cockpit);
    stop_all(&place);
}

fn wait_for_wardens(cockpit: &Terminal, count: usize) {
    while descendants(cockpit.pid()).into_iter().filter(|pid| is_warden(*pid)).count() < count {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The manager is told to leave while nobody reads its terminal and ten sessions print without end.
pub(crate) fn stalled(report: &mut Report) {
    let sessions = report.rounds(10, 3);
    let mut times = Vec::new();
    for _ in 0..report.rounds(5, 1) {
        let place = Place::new();
        let cockpit = open(&place, SIZE);
        for _ in 0..sessions {
            start_session(&cockpit, "yes");
            cockpit.wait("the dialog's end", |screen| !screen.contents().contains("Start"));
        }
        wait_for_wardens(&cockpit, sessions);
        // Who is to die is held before; the pids are those of children of a living parent.
        let everybody = [vec![cockpit.pid()], descendants(cockpit.pid())].concat();
        let held: Vec<OwnedFd> =
            everybody.into_iter().filter_map(|pid| pidfd_of(i32::try_from(pid).unwrap())).collect();
        let manager = pidfd_of(i32::try_from(manager(&cockpit)).unwrap()).unwrap();
        cockpit.stall(true);
        std::thread::sleep(Duration::from_millis(500));
        let start = Instant::now();
        pidfd_send_signal(&manager, Signal::TERM).unwrap();
        for pidfd in &held {
            poll(&mut [PollFd::new(pidfd, PollFlags::IN)], None).unwrap();
        }
        times.push(start.elapsed());
        cockpit.stall(false);
    }
    let what = format!("leave with {sessions} sessions flooding and a stalled terminal, to the last death");
    report.put(figure(&what, median(&mut times)).at_most(Duration::from_millis(100)).told());
}

pub(crate) fn warden(report: &mut Report) {
    let limit = Amount::Bytes(MIB);
    let place = Place::new();
    let cockpit = open(&place, SIZE);
    start_session(&cockpit, "exec sleep 600");
    wait_for_wardens(&cockpit, 1);
    std::thread::sleep(Duration::from_secs(1));
    let warden = descendants(cockpit.pid()).into_iter().find(|pid| is_warden(*pid)).unwrap();
    let row = figure("private memory of a warden", Amount::Bytes(private(warden))).at_most(limit);
    report.put(row.beside("resident", Amount::Bytes(sum(warden, "status", "VmRSS:"))).told());
    quit(cockpit);
    if !report.peers.has("tmux") {
        return report.skip("a warden in tmux", "tmux is not installed");
    }
    let mut batch = place.batch();
    let session = batch.launch("tmux", &["sleep", "600"]);
    let tree = batch.ask(&serde_json::json!({"cmd": "tree", "session": session}));
    for (name, stage) in [("front", "__front"), ("warden", "__warden")] {
        let pids = tree["supervisors"].as_array().unwrap().iter().map(|row| row["pid"].as_u64().unwrap());
        let pid = pids.map(|pid| u32::try_from(pid).unwrap()).find(|pid| is_stage(*pid, stage)).unwrap();
        report.put(figure(&format!("private memory of a {name} in tmux"), Amount::Bytes(private(pid))).at_most(limit));
    }
    drop(batch);
    stop_all(&place);
}

/// The tmux server's end would leave what it held; here everything is stopped as a person would.
pub(crate) fn stop_all(place: &Place) {
    let mut batch = place.batch();
    let list = batch.ask(&serde_json::json!({"cmd": "list"}));
    for session in list["sessions"].as_array().unwrap() {
        batch.ask(&serde_json::json!({"cmd": "stop", "session": session["session"], "force": true}));
    }
}

fn rest(report: &mut Report, what: &str, cockpit: &Terminal, theirs: &Quiet, most: f64, told: bool) {
    // What a launch brings about is over, and the first rows with rates are drawn.
    std::thread::sleep(Duration::from_secs(report.rounds(5, 1).try_into().unwrap()));
    let family = family(cockpit.pid());
    let wardens: Vec<u32> = descendants(cockpit.pid()).into_iter().filter(|pid| is_warden(*pid)).collect();
    let theirs: Vec<_> = theirs.pids().into_iter().map(|(name, pids)| (name, cpu_time(&pids), pids)).collect();
    let (cpu, warden_cpu, bytes, start) = (cpu_time(&family), cpu_time(&wardens), cockpit.bytes(), Instant::now());
    std::thread::sleep(Duration::from_secs(report.rounds(20, 1).try_into().unwrap()));
    let elapsed = start.elapsed().as_secs_f64();
    let share = |time: Duration| Amount::OfACore(time.as_secs_f64() / elapsed);
    let cpu = cpu_time(&family).saturating_sub(cpu);
    let row = figure(&format!("{what}: processor"), share(cpu)).at_most(Amount::OfACore(most));
    let warden_cpu = (!wardens.is_empty()).then(|| cpu_time(&wardens).saturating_sub(warden_cpu));
    let row = row.beside_any("their wardens", warden_cpu.map(share));
    let row = theirs
        .iter()
        .fold(row, |row, (name, before, pids)| row.beside(name, share(cpu_time(pids).saturating_sub(*before))));
    report.put(if told { row.told() } else { row });
    let written = cockpit.bytes() - bytes;
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let rate = Amount::BytesPerSecond(written as f64 / elapsed);
    report.put(figure(&format!("{what}: to a terminal of 80x24"), rate).at_most(Amount::BytesPerSecond(200.0)));
}

pub(crate) const MIB: f64 = 1024.0 * 1024.0;

/// Returns the cockpit itself: what the shell knows is its parent.
pub(crate) fn manager(cockpit: &Terminal) -> u32 {
    *family(cockpit.pid()).last().unwrap()
}

/// Returns the private memory of a process in bytes.
pub(crate) fn private(pid: u32) -> f64 {
    sum(pid, "smaps_rollup", "Private_")
}

/// Sums the lines of a file of /proc that begin so, in bytes.
fn sum(pid: u32, file: &str, key: &str) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let lines = text.lines().filter(|line| line.starts_with(key));
    lines.map(|line| line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0).sum()
}

/// Returns the process that the shell knows, and its child: the cockpit itself.
pub(crate) fn family(pid: u32) -> Vec<u32> {
    [pid].into_iter().chain(children(pid).into_iter().take(1)).collect()
}

fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let read = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let words = tasks.flatten().map(read).collect::<Vec<_>>().join(" ");
    words.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let mut found = children(pid);
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        found.extend(children(*pid));
        next += 1;
    }
    found
}

fn is_warden(pid: u32) -> bool {
    is_stage(pid, "__warden")
}

fn is_stage(pid: u32, stage: &str) -> bool {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    command.split(|byte| *byte == 0).nth(1) == Some(stage.as_bytes())
}

/// Returns the processor time of processes so far, without that of their children.
pub(crate) fn cpu_time(pids: &[u32]) -> Duration {
    let rate = rustix::param::clock_ticks_per_second();
    let ticks = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit_once(") ").map_or(Vec::new(), |(_, rest)| rest.split(' ').collect());
        [11, 12].iter().filter_map(|at| fields.get(*at)?.parse::<u64>().ok()).sum::<u64>()
    };
    Duration::from_millis(pids.iter().map(ticks).sum::<u64>() * 1000 / rate)
}
