//! Much output: to the last line on the screen, beside reading and forgetting it, tmux and mprocs.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::figures::Amount;
use crate::frames::{leave_mprocs, open, quit, start_session};
use crate::place::{Place, SIZE};
use crate::report::{Report, figure, median};
use crate::rest::{cpu_time, descendants, family};
use crate::terminal::{Terminal, pair, spawn_on};

/// Comes after each flood. On the command line it is not written so.
const LAST: &str = "it is over now";
const SAY_LAST: &str = "printf 'it is %s now\\n' over";

/// What one terminal took for one flood.
struct Taken {
    time: Duration,
    bytes: u64,
    frames: u64,
    cpu: Duration,
}

#[derive(Default)]
struct Side(Vec<Taken>);

impl Side {
    fn median<T: Ord + Copy>(&self, of: fn(&Taken) -> T) -> Option<T> {
        let mut all: Vec<T> = self.0.iter().map(of).collect();
        all.sort();
        all.get(all.len() / 2).copied()
    }
}

pub(crate) fn flood(report: &mut Report) {
    let lines = report.rounds(5_000_000, 100_000);
    let colour = "awk 'BEGIN { for (i = 0; i < COUNT; i++) printf \"\\033[2m%08d\\033[0m \\033[3%dmINFO\\033[0m request \\033[1m%d\\033[0m took \\033[38;5;%dm%d ms\\033[0m\\n\", i, i % 7 + 1, i * 7, i % 256, i % 900 }'";
    for (name, command) in [
        (format!("`seq 1 {lines}`"), format!("seq 1 {lines}")),
        (format!("`yes | head -c {}`", lines * 40), format!("yes | head -c {}", lines * 40)),
        (format!("{} coloured log lines", lines / 5), colour.replace("COUNT", &(lines / 5).to_string())),
    ] {
        one(report, &name, &command);
    }
}

fn one(report: &mut Report, name: &str, command: &str) {
    let place = Place::new();
    // Beside the command line a script is short enough for any dialog.
    let script = place.write("flood", &format!("{command}; {SAY_LAST}; exec sleep 600\n"));
    let line = format!("sh {script}");
    let (mut ours, mut tmux, mut mprocs, mut bare) = (Side::default(), Side::default(), Side::default(), Vec::new());
    for _ in 0..report.rounds(3, 1) {
        let cockpit = open(&place, SIZE);
        ours.0.push(taken(&cockpit, || family(cockpit.pid()), || start_session(&cockpit, &line)));
        quit(cockpit);
        bare.push(discarded(command));
        if report.peers.has("tmux") {
            let server = Place::new();
            let terminal = server.tmux(SIZE, &["new", "-n", "flood", "cat"]);
            terminal.wait_for("0:flood");
            let pid = server.tmux_server();
            let all = || vec![pid, terminal.pid()];
            tmux.0.push(taken(&terminal, all, || server.ask_tmux(&["respawn-pane", "-k", &line])));
        }
        if let Some(program) = report.peers.program("mprocs") {
            let config = json!({ "procs": { "flood": { "cmd": ["sh", script], "autostart": false } } });
            let config = place.write("mprocs.json", &config.to_string());
            let mut command = Terminal::command(program.to_str().unwrap());
            command.args(["--config", &config]);
            place.settle(&mut command);
            let terminal = Terminal::start(command, SIZE);
            terminal.wait_for("DOWN");
            let started = || terminal.type_bytes(b"s");
            mprocs.0.push(taken(&terminal, || with_children(terminal.pid()), started));
            leave_mprocs(terminal, 1);
        }
    }
    let time = ours.median(|taken| taken.time).unwrap();
    let row = figure(&format!("{name} to the last line"), time).beside("read and discarded", median(&mut bare));
    let row = row.beside_any("attached tmux", tmux.median(|taken| taken.time));
    report.put(row.beside_any("mprocs", mprocs.median(|taken| taken.time)).times("read and discarded", 1.15).told());
    let cpu = figure(&format!("{name}: processor time"), ours.median(|taken| taken.cpu).unwrap());
    let cpu = cpu.beside_any("attached tmux", tmux.median(|taken| taken.cpu));
    report.put(cpu.beside_any("mprocs", mprocs.median(|taken| taken.cpu)).times("attached tmux", 0.5));
    #[expect(clippy::cast_precision_loss, reason = "an amount")]
    let bytes = |side: &Side| side.median(|taken| taken.bytes).map(|bytes| Amount::Bytes(bytes as f64));
    let row = figure(&format!("{name}: bytes to the terminal"), bytes(&ours).unwrap());
    report.put(
        row.beside_any("attached tmux", bytes(&tmux)).beside_any("mprocs", bytes(&mprocs)).times("attached tmux", 0.1),
    );
    if command.starts_with("seq") {
        // Each frame of this one differs from the one before, so that all of them are drawn.
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let frames = Amount::PerSecond(ours.median(|taken| taken.frames).unwrap() as f64 / time.as_secs_f64());
        let row = figure(&format!("{name}: frames"), frames);
        report.put(row.between(Amount::PerSecond(30.0), Amount::PerSecond(60.0)));
    }
}

/// Begins a flood and waits until its end is shown.
fn taken(terminal: &Terminal, draws: impl Fn() -> Vec<u32>, begin: impl FnOnce()) -> Taken {
    let drawers = draws();
    let (cpu, bytes, frames) = (cpu_time(&drawers), terminal.bytes(), terminal.frames());
    let start = Instant::now();
    begin();
    terminal.wait_for(LAST);
    Taken {
        time: start.elapsed(),
        bytes: terminal.bytes() - bytes,
        frames: terminal.frames() - frames,
        cpu: cpu_time(&drawers).saturating_sub(cpu),
    }
}

fn with_children(pid: u32) -> Vec<u32> {
    std::iter::once(pid).chain(descendants(pid)).collect()
}

/// Reads the flood from a PTY and forgets it.
fn discarded(command: &str) -> Duration {
    let start = Instant::now();
    let (master, slave): (OwnedFd, OwnedFd) = pair(SIZE);
    let mut shell = Terminal::command("sh");
    shell.args(["-c", command]);
    let mut child = spawn_on(shell, &slave);
    drop(slave);
    let mut buffer = vec![0; 64 << 10];
    while let Ok(1..) = rustix::io::read(&master, &mut buffer[..]) {}
    let elapsed = start.elapsed();
    child.wait().unwrap();
    elapsed
}
