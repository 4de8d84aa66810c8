//! What the cockpit costs while nothing happens.

use std::fs;
use std::time::{Duration, Instant};

use crate::place::Place;
use crate::terminal::Terminal;
use crate::{alone, is_installed, open, quit, start_session};

const SESSIONS: usize = 20;
const WATCHED: Duration = Duration::from_secs(10);

pub(crate) fn idle() {
    let place = Place::new();
    let cockpit = open(&place);
    for count in 1..=SESSIONS {
        start_session(&cockpit, "exec sleep 3600");
        let wardens = || descendants(cockpit.pid()).into_iter().filter(|pid| is_warden(*pid)).count();
        while wardens() < count {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    rest("in PTYs", &cockpit, "0.5 %", "200 B/s");
    memory(&cockpit);
    quit(cockpit);
    if !is_installed("tmux") {
        return println!("tmux is not installed: skipped");
    }
    let place = Place::new();
    for _ in 0..SESSIONS {
        place.run(&["launch", "--host", "tmux", "--", "sleep", "3600"]);
    }
    let cockpit = open(&place);
    rest("in tmux", &cockpit, "0.5 %", "200 B/s");
    memory_of_stages(&place);
    quit(cockpit);
    stop_all(&place);
}

/// The tmux server's end would leave what it held; here everything is stopped as a person would.
fn stop_all(place: &Place) {
    let mut batch = place.batch();
    let list = batch.ask(&serde_json::json!({"cmd": "list"}));
    for session in list["sessions"].as_array().unwrap() {
        batch.ask(&serde_json::json!({"cmd": "stop", "session": session["session"], "force": true}));
    }
}

fn rest(what: &str, cockpit: &Terminal, cpu_goal: &str, bytes_goal: &str) {
    // What a launch brings about is over, and the first rows with rates are drawn.
    std::thread::sleep(Duration::from_secs(5));
    let family = family(cockpit.pid());
    let wardens: Vec<u32> = descendants(cockpit.pid()).into_iter().filter(|pid| is_warden(*pid)).collect();
    let (cpu, warden_cpu, bytes, start) = (cpu_time(&family), cpu_time(&wardens), cockpit.bytes(), Instant::now());
    std::thread::sleep(WATCHED);
    let elapsed = start.elapsed().as_secs_f64();
    let share = |time: Duration| format!("{:.2} %", time.as_secs_f64() / elapsed * 100.0);
    let cpu = cpu_time(&family).saturating_sub(cpu);
    alone(&format!("{SESSIONS} quiet sessions {what}: cockpit, of a core"), &share(cpu), cpu_goal);
    if !wardens.is_empty() {
        let cpu = cpu_time(&wardens).saturating_sub(warden_cpu);
        alone(&format!("{SESSIONS} quiet sessions {what}: wardens, of a core"), &share(cpu), "");
    }
    let written = cockpit.bytes() - bytes;
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let rate = format!("{:.0} B/s", written as f64 / elapsed);
    alone(&format!("{SESSIONS} quiet sessions {what}: to the terminal"), &rate, bytes_goal);
}

fn memory(cockpit: &Terminal) {
    let manager = *family(cockpit.pid()).last().unwrap();
    let all = descendants(cockpit.pid());
    let warden = all.into_iter().find(|pid| is_warden(*pid)).unwrap();
    alone("resident memory of the manager", &kib(manager, "status", "VmRSS:"), "");
    alone("private memory of the manager", &kib(manager, "smaps_rollup", "Private_"), "");
    alone("resident memory of one warden", &kib(warden, "status", "VmRSS:"), "");
    alone("private memory of one warden", &kib(warden, "smaps_rollup", "Private_"), "1024 KiB");
}

/// In tmux a session has a front as well.
fn memory_of_stages(place: &Place) {
    let mut batch = place.batch();
    let list = batch.ask(&serde_json::json!({"cmd": "list"}));
    let tree = batch.ask(&serde_json::json!({"cmd": "tree", "session": list["sessions"][0]["session"]}));
    for (name, stage) in [("front", "__front"), ("warden", "__warden")] {
        let pids = tree["supervisors"].as_array().unwrap().iter().map(|row| row["pid"].as_u64().unwrap());
        let pid = pids.map(|pid| u32::try_from(pid).unwrap()).find(|pid| is_stage(*pid, stage)).unwrap();
        alone(&format!("private memory of one {name} in tmux"), &kib(pid, "smaps_rollup", "Private_"), "1024 KiB");
    }
}

/// Sums the lines of a file of /proc that begin so.
fn kib(pid: u32, file: &str, key: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let lines = text.lines().filter(|line| line.starts_with(key));
    let sum: u64 = lines.map(|line| line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()).sum();
    format!("{sum} KiB")
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

fn descendants(pid: u32) -> Vec<u32> {
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
