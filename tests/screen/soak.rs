//! A long time with twenty sessions that print, come and go: neither manager grows.
//!
//!     SOAK_S=900 cargo test --test screen soak:: -- --ignored --nocapture
//!
//! The one manager is a screen, which looks at one session after the other; the other is a batch, which owns the
//! sessions, half of them in pseudo-terminals, half in tmux.

use std::collections::VecDeque;
use std::fs;
use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::Terminal;

const SESSIONS: usize = 20;
/// How often one session goes, and another comes.
const CHANGE: Duration = Duration::from_millis(500);
const SAMPLE: Duration = Duration::from_secs(5);
/// Most that resident memory may grow with each session that has come and gone, by the line that fits the last two
/// thirds best. What was measured is printed. One screen that is kept is a hundred times this, its record ten times.
///
/// Of a quarter of an hour those are ten minutes. In the first five both managers grow to what they need: the log of
/// events fills (1,000 lines), and each of the allocator's arenas (glibc makes eight for each core, and hands them to
/// new threads in turn) comes to the most that any thread needs at a time. With `MALLOC_ARENA_MAX=1` in the environment
/// there is one.
const GROWTH_KIB_PER_SESSION: f64 = 2.0;

/// What a manager holds at a time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: f64,
    rss_kib: f64,
    /// Of it what is not backed by a file: without the pages of the program itself, which come as they are used.
    own_kib: f64,
    descriptors: f64,
    threads: f64,
}

impl Sample {
    fn of(pid: Pid, at: Duration) -> Self {
        let pid = pid.as_raw_nonzero();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().parse::<f64>().unwrap()
        };
        let descriptors = u32::try_from(fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()).unwrap();
        Self {
            at: at.as_secs_f64(),
            rss_kib: number("VmRSS:"),
            own_kib: number("RssAnon:"),
            descriptors: descriptors.into(),
            threads: number("Threads:"),
        }
    }
}

/// Returns the slope of the line that fits best, for each second.
fn slope(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> f64 {
    let count = f64::from(u32::try_from(samples.len()).unwrap());
    let mean = |value: &dyn Fn(&Sample) -> f64| samples.iter().map(value).sum::<f64>() / count;
    let (time, value) = (mean(&|sample| sample.at), mean(&|sample| of(sample)));
    let covariance: f64 = samples.iter().map(|sample| (sample.at - time) * (of(sample) - value)).sum();
    let variance: f64 = samples.iter().map(|sample| (sample.at - time).powi(2)).sum();
    covariance / variance
}

fn median(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> f64 {
    let mut values: Vec<f64> = samples.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The batch that owns the sessions.
struct Owner {
    child: Child,
    input: Option<ChildStdin>,
    alive: VecDeque<usize>,
    launched: usize,
}

impl Owner {
    fn new(terminal: &Terminal) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cookbook-tui"));
        command.arg("--state-dir").arg(terminal.state()).args(["--tmux-socket", &format!("{}o", terminal.socket)]);
        command.arg("--batch").env_remove("TMUX").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut answers = child.stdout.take().unwrap();
        // Whoever is not read from stops: everything is taken, and nothing is kept.
        std::thread::spawn(move || {
            let mut taken = vec![0; 1 << 16];
            while answers.read(&mut taken).is_ok_and(|count| count > 0) {}
        });
        let input = child.stdin.take();
        Self { child, input, alive: VecDeque::new(), launched: 0 }
    }

    fn ask(&mut self, request: &serde_json::Value) {
        writeln!(self.input.as_mut().unwrap(), "{request}").unwrap();
    }

    fn launch(&mut self) {
        let number = self.launched;
        self.launched += 1;
        self.alive.push_back(number);
        let host = if number.is_multiple_of(2) { "pty" } else { "tmux" };
        self.ask(&serde_json::json!({
            "cmd": "launch", "kind": "serve", "host": host, "name": format!("soak-{number}"), "grace_s": 0.5,
            "command": format!("n={number}; while :; do seq 1 60; printf '\\033[3%dm%s\\033[m\\n' $((n % 8)) text; sleep 0.3; done"),
        }));
    }

    fn stop_the_oldest(&mut self) {
        if let Some(number) = self.alive.pop_front() {
            let name = format!("soak-{number}");
            self.ask(&serde_json::json!({ "cmd": "stop", "session": name }));
            self.ask(&serde_json::json!({ "cmd": "dismiss", "session": name }));
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        while !self.alive.is_empty() {
            self.stop_the_oldest();
        }
        drop(self.input.take());
        self.child.wait().unwrap();
    }
}

#[test]
#[ignore = "takes as long as SOAK_S says"]
fn twenty_sessions_come_and_go_and_nothing_grows() {
    let seconds = std::env::var("SOAK_S").map_or(900, |text| text.parse().expect("SOAK_S"));
    let length = Duration::from_secs(seconds);
    let terminal = Terminal::new(140, 40);
    terminal.start();
    // The cockpit is the child of the process that the shell knows.
    let screens = terminal.screens();
    let parent = |pid: &Pid| {
        let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap();
        status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse::<i32>().ok())
    };
    let is_cockpit = |pid: &Pid| screens.iter().any(|other| parent(pid) == Some(other.as_raw_nonzero().get()));
    let screen = screens.iter().copied().find(is_cockpit);
    let mut owner = Owner::new(&terminal);
    let managers = [("screen", screen.unwrap()), ("batch", Pid::from_child(&owner.child))];
    let mut samples: [Vec<Sample>; 2] = [Vec::new(), Vec::new()];
    (0..SESSIONS).for_each(|_| owner.launch());
    terminal.await_text("soak-0");
    let begin = Instant::now();
    let mut next_sample = SAMPLE;
    while begin.elapsed() < length {
        owner.stop_the_oldest();
        owner.launch();
        terminal.key("j");
        std::thread::sleep(CHANGE);
        if begin.elapsed() >= next_sample {
            next_sample += SAMPLE;
            for ((_, pid), samples) in managers.iter().zip(&mut samples) {
                samples.push(Sample::of(*pid, begin.elapsed()));
            }
        }
    }
    let launched = owner.launched;
    let each = begin.elapsed().as_secs_f64() / f64::from(u32::try_from(launched).unwrap());
    let mut grown = Vec::new();
    for ((name, _), samples) in managers.iter().zip(&samples) {
        let late = &samples[samples.len() / 3..];
        let (middle, last) = late.split_at(late.len() / 2);
        let per_session = slope(late, |sample| sample.rss_kib) * each;
        let own_per_session = slope(late, |sample| sample.own_kib) * each;
        let of = |of: fn(&Sample) -> f64| (median(middle, of), median(last, of));
        let (rss, descriptors, threads) = (of(|s| s.rss_kib), of(|s| s.descriptors), of(|s| s.threads));
        let report = format!(
            "{name}: {launched} sessions in {seconds} s; middle and last third: {rss:?} KiB resident, \
             {per_session:.2} KiB for each session ({own_per_session:.2} of it our own), {descriptors:?} descriptors, {threads:?} threads"
        );
        writeln!(std::io::stderr(), "{report}").unwrap();
        let more = |(middle, last): (f64, f64)| last > middle + 4.0;
        if per_session > GROWTH_KIB_PER_SESSION || more(descriptors) || more(threads) {
            grown.push(report);
        }
    }
    assert!(grown.is_empty(), "{grown:#?}");
}
