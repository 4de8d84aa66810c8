//! The whole program in a terminal, against what it cannot be faster than and against tmux.
//!
//! The bench is the outer terminal: it owns a PTY, reads what the program draws into an emulator, and types.
//! Both sides of each ratio are measured in this one run, in turns, so that a busy host slows both. Prints
//! one table; asserts nothing about speed. Words after `--` choose rows by their group, for example
//! `cargo bench --bench cockpit -- echo idle`.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench starts its own processes and prints its table"
)]

mod launches;
mod place;
mod rest;
mod terminal;
mod typing;

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use place::Place;
use terminal::{Size, Terminal, pair, spawn_on};

const SIZE: Size = (40, 140);
const FLOOD: &str = "seq 1 5000000";

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    println!("load at the start: {}", load());
    println!("{:<52} {:>11} {:>11} {:>8} {:>9}", "what", "ours", "bare", "ratio", "goal");
    let groups: [(&str, fn()); 5] = [
        ("frame", first_frame),
        ("flood", flood),
        ("echo", typing::echo),
        ("idle", rest::idle),
        ("launch", launches::launches),
    ];
    for (name, group) in groups {
        if wanted.is_empty() || wanted.iter().any(|word| word == name) {
            group();
        }
    }
    println!("load at the end: {}", load());
}

fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap();
    let cores = std::thread::available_parallelism().unwrap();
    format!("{} on {cores} cores", text.split(' ').take(3).collect::<Vec<_>>().join(" "))
}

fn row(what: &str, ours: Duration, bare: Duration, goal: &str) {
    let ratio = ours.as_secs_f64() / bare.as_secs_f64();
    println!("{what:<52} {:>11} {:>11} {ratio:>8.2} {goal:>9}", show(ours), show(bare));
}

/// A row without another side.
fn alone(what: &str, ours: &str, goal: &str) {
    println!("{what:<52} {ours:>11} {:>11} {:>8} {goal:>9}", "", "");
}

fn show(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    match micros {
        ..1000.0 => format!("{micros:.0} us"),
        ..1e6 => format!("{:.2} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
}

/// Returns the value below which this part of all values is.
fn quantile(times: &mut [Duration], part: f64) -> Duration {
    times.sort();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index"
    )]
    let at = ((times.len() - 1) as f64 * part).round() as usize;
    times[at]
}

fn median(times: &mut [Duration]) -> Duration {
    quantile(times, 0.5)
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).exists())
}

/// Waits until the cockpit shows its footer: the last thing of a whole frame.
fn wait_for_frame(cockpit: &Terminal) {
    cockpit.wait("the footer", |screen| {
        let text = screen.contents();
        text.lines().last().is_some_and(|line| line.contains("help") && line.contains("quit"))
    });
}

/// Opens the cockpit and waits for its first frame.
fn open(place: &Place) -> Terminal {
    let cockpit = place.cockpit(SIZE);
    wait_for_frame(&cockpit);
    cockpit
}

/// Starts a shell session as a person does.
fn start_session(cockpit: &Terminal, command: &str) {
    cockpit.type_bytes(b"s");
    cockpit.wait_for("Start");
    cockpit.type_bytes(format!(":{command}\r").as_bytes());
}

/// Quits and waits for the end. Returns how long that took.
fn quit(mut cockpit: Terminal) -> Duration {
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

fn first_frame() {
    let (mut ours, mut tmux, mut mprocs, mut version) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let has_mprocs = is_installed("mprocs");
    for _ in 0..15 {
        let place = Place::new();
        let start = Instant::now();
        let cockpit = place.cockpit(SIZE);
        wait_for_frame(&cockpit);
        ours.push(start.elapsed());
        quit(cockpit);

        let start = Instant::now();
        let mut command = Command::new(place::PROGRAM);
        place.settle(&mut command);
        command.arg("--version").stdout(std::process::Stdio::null()).status().unwrap();
        version.push(start.elapsed());

        if is_installed("tmux") {
            let start = Instant::now();
            let terminal = place.tmux(SIZE, &["new", "sh"]);
            terminal.wait_for("[0] 0:sh");
            tmux.push(start.elapsed());
            place.ask_tmux(&["kill-server"]);
        }
        if has_mprocs {
            let start = Instant::now();
            let mut command = Terminal::command("mprocs");
            place.settle(&mut command);
            let terminal = Terminal::start(
                {
                    command.arg("sh");
                    command
                },
                SIZE,
            );
            terminal.wait_for("Processes");
            mprocs.push(start.elapsed());
        }
    }
    let ours = median(&mut ours);
    row("first frame (bare: --version)", ours, median(&mut version), "");
    if tmux.is_empty() {
        println!("tmux is not installed: skipped");
    } else {
        row("first frame against tmux new", ours, median(&mut tmux), "");
    }
    if has_mprocs {
        row("first frame against mprocs", ours, median(&mut mprocs), "2");
    } else {
        println!("mprocs is not installed: skipped (cargo install mprocs)");
    }
}

/// Tells whether the last two lines of the flood are on the screen, one below the other.
fn shows_the_end(screen: &vt100::Screen) -> bool {
    let rows: Vec<String> = screen.rows(0, screen.size().1.get()).collect();
    let at = |row: &String, text: &str| row.find(text).map(|byte| row[..byte].chars().count());
    rows.windows(2).any(|pair| {
        at(&pair[0], "4999999").is_some_and(|before| at(&pair[1], "5000000").is_some_and(|last| last == before))
    })
}

fn flood() {
    let (mut ours, mut bare, mut tmux) = (Vec::new(), Vec::new(), Vec::new());
    let mut cpu = Vec::new();
    let command = format!("{FLOOD}; exec sleep 600");
    for _ in 0..3 {
        let place = Place::new();
        let cockpit = open(&place);
        let before = rest::cpu_time(&rest::family(cockpit.pid()));
        let start = Instant::now();
        start_session(&cockpit, &command);
        cockpit.wait("the last line", shows_the_end);
        ours.push(start.elapsed());
        cpu.push(rest::cpu_time(&rest::family(cockpit.pid())).saturating_sub(before));
        quit(cockpit);

        bare.push(discarded());

        if is_installed("tmux") {
            let start = Instant::now();
            let terminal = place.tmux(SIZE, &["new", &command]);
            terminal.wait("the last line", shows_the_end);
            tmux.push(start.elapsed());
        }
    }
    let ours = median(&mut ours);
    row(&format!("{FLOOD} on the screen (bare: discarded)"), ours, median(&mut bare), "1.3");
    if tmux.is_empty() {
        println!("tmux is not installed: skipped");
    } else {
        row(&format!("{FLOOD} against attached tmux"), ours, median(&mut tmux), "< 1");
    }
    alone("  of that, processor time of the cockpit", &show(median(&mut cpu)), "");
}

/// Reads the flood from a PTY and forgets it.
fn discarded() -> Duration {
    let start = Instant::now();
    let (master, slave) = pair(SIZE);
    let mut command = Terminal::command("sh");
    command.args(["-c", FLOOD]);
    let mut child = spawn_on(command, &slave);
    drop(slave);
    let mut buffer = vec![0; 64 << 10];
    while let Ok(1..) = rustix::io::read(&master, &mut buffer[..]) {}
    let elapsed = start.elapsed();
    child.wait().unwrap();
    elapsed
}
