//! The cockpit in a terminal of the bench: how it is opened, used and left, and how long its first frame takes.

use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::held::{finish, pidfd_of};
use crate::place::{self, Place, SIZE};
use crate::report::{Report, figure, median, median_of, timed};
use crate::rest::{descendants, stop_all};
use crate::terminal::{Size, Terminal};

/// Waits until the cockpit shows its footer: the last thing of a whole frame.
fn wait_for_frame(cockpit: &Terminal) {
    cockpit.wait("the footer", |screen| {
        let text = screen.contents();
        text.lines().last().is_some_and(|line| line.contains("help") && line.contains("quit"))
    });
}

/// Opens the cockpit and waits for its first frame.
pub(crate) fn open(place: &Place, size: Size) -> Terminal {
    let cockpit = place.cockpit(size);
    wait_for_frame(&cockpit);
    cockpit
}

/// Starts a shell session as a person does.
pub(crate) fn start_session(cockpit: &Terminal, command: &str) {
    cockpit.type_bytes(b"s");
    cockpit.wait_for("Start");
    cockpit.type_bytes(format!(":{command}\r").as_bytes());
}

/// Quits and waits for the end. Returns how long that took.
pub(crate) fn quit(mut cockpit: Terminal) -> Duration {
    let start = Instant::now();
    cockpit.type_bytes(b"q");
    cockpit.wait("the question, or the end", |screen| screen.contents().contains("Quit") || !screen.alternate_screen());
    // What is not on the screen yet cannot be confirmed, so it is confirmed until it is.
    while cockpit.has_ended().is_none() {
        assert!(start.elapsed() < Duration::from_secs(50), "it does not end:\n{}", cockpit.text());
        if start.elapsed() < Duration::from_millis(500) || cockpit.text().contains("Quit") {
            cockpit.type_bytes(b"y");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    start.elapsed()
}

pub(crate) fn first_frame(report: &mut Report) {
    empty(report);
    for sessions in [1, report.rounds(100, 10)] {
        full(report, sessions);
    }
}

/// With nothing to show.
fn empty(report: &mut Report) {
    let (mut ours, mut version) = (Vec::new(), Vec::new());
    for _ in 0..report.rounds(15, 2) {
        let place = Place::new();
        let start = Instant::now();
        let cockpit = open(&place, SIZE);
        ours.push(start.elapsed());
        quit(cockpit);
        version.push(timed(|| {
            let mut command = Command::new(place::PROGRAM);
            place.settle(&mut command);
            command.arg("--version").stdout(Stdio::null()).status().unwrap();
        }));
    }
    report.put(figure("first frame without a session", median(&mut ours)).beside("--version", median(&mut version)));
}

/// Sessions that are there before, in tmux; mprocs starts its own.
fn full(report: &mut Report, sessions: usize) {
    let goal = Duration::from_millis(if sessions == 1 { 10 } else { 25 });
    let (has_tmux, mprocs) = (report.peers.has("tmux"), report.peers.program("mprocs"));
    if !has_tmux {
        return report.skip(&format!("first frame with {sessions}"), "tmux is not installed");
    }
    let (place, theirs) = (Place::new(), Place::new());
    let mut batch = place.batch();
    for _ in 0..sessions {
        batch.launch("tmux", &["sleep", "600"]);
    }
    drop(batch);
    theirs.ask_tmux(&["new-session", "-d", "-s", "full", "sleep 600"]);
    for _ in 1..sessions {
        theirs.ask_tmux(&["new-window", "-d", "sleep 600"]);
    }
    let procs: serde_json::Map<String, serde_json::Value> =
        (0..sessions).map(|number| (format!("p{number}"), json!({ "cmd": ["sleep", "600"] }))).collect();
    let config = theirs.write("mprocs.json", &json!({ "procs": procs }).to_string());
    let (mut ours, mut tmux, mut beside) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..report.rounds(11, 1) {
        let start = Instant::now();
        let cockpit = open(&place, SIZE);
        ours.push(start.elapsed());
        quit(cockpit);

        let start = Instant::now();
        let terminal = theirs.tmux(SIZE, &["attach", "-t", "full"]);
        terminal.wait_for("[full]");
        tmux.push(start.elapsed());
        theirs.ask_tmux(&["detach-client", "-s", "full"]);
        drop(terminal);

        if let Some(program) = &mprocs {
            let mut command = Terminal::command(program.to_str().unwrap());
            command.args(["--config", &config]);
            theirs.settle(&mut command);
            let start = Instant::now();
            let terminal = Terminal::start(command, SIZE);
            terminal.wait_for("UP");
            beside.push(start.elapsed());
            leave_mprocs(terminal, sessions);
        }
    }
    let row = figure(&format!("first frame with {sessions} sessions"), median(&mut ours));
    let row = row.beside("tmux attach", median(&mut tmux)).beside_any("mprocs", median_of(&mut beside));
    report.put(row.at_most(goal).told());
    stop_all(&place);
}

/// Ends mprocs as a person does, and what it leaves of the `count` that it has started.
pub(crate) fn leave_mprocs(mut terminal: Terminal, count: usize) {
    let end = Instant::now() + Duration::from_secs(5);
    while descendants(terminal.pid()).len() < count && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Whoever is still a descendant once it is held is the one that is held.
    let held: Vec<(u32, OwnedFd)> = descendants(terminal.pid())
        .into_iter()
        .filter_map(|pid| Some((pid, pidfd_of(i32::try_from(pid).ok()?)?)))
        .collect();
    let still = descendants(terminal.pid());
    terminal.type_bytes(b"Q");
    while terminal.has_ended().is_none() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(terminal);
    for (_, pidfd) in held.iter().filter(|(pid, _)| still.contains(pid)) {
        finish(pidfd);
    }
}
