//! The plain mode over a pipe and over a pseudo-terminal, and what is said where a screen cannot be.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::oracle::{Bystanders, Ledger, Watched};
use crate::rig::{Rig, until, wait};

/// A running `cookbook-tui --plain`.
struct Plain {
    child: Child,
    /// `None` once the input has ended.
    input: Option<File>,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Plain {
    fn over_pipe(rig: &Rig) -> Self {
        let mut child = rig.command(&["--plain"]).stdin(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let input = std::os::fd::OwnedFd::from(child.stdin.take().unwrap());
        let output = std::os::fd::OwnedFd::from(child.stdout.take().unwrap());
        Self::new(child, File::from(input), File::from(output))
    }

    /// On a terminal of its own, in a kernel session of its own.
    fn over_pty(rig: &Rig) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let end = || File::options().read(true).write(true).open(&name).unwrap();
        // The shell has no terminal yet, so the first that it opens becomes its own.
        let script = "exec \"$@\" <\"$0\" >\"$0\" 2>&1";
        let mut command = rig.wrapped(&["setsid", "-w", "sh", "-c", script, &name], &["--plain"]);
        command.env("TERM", "dumb").stdout(Stdio::null()).stderr(Stdio::null());
        let held = end();
        let child = command.spawn().unwrap();
        let master = File::from(master);
        let plain = Self::new(child, master.try_clone().unwrap(), master);
        plain.hears("Type help for the commands.");
        drop(held);
        plain
    }

    fn new(child: Child, input: File, mut output: File) -> Self {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let filled = Arc::clone(&heard);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut buffer) {
                filled.lock().unwrap().extend_from_slice(&buffer[..length]);
            }
        });
        Self { child, input: Some(input), heard }
    }

    fn text(&self) -> String {
        String::from_utf8(self.heard.lock().unwrap().clone()).unwrap()
    }

    fn types(&self, line: &str) {
        let mut input = self.input.as_ref().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn hears(&self, what: &str) {
        until(&format!("{what:?} is said"), || self.text().contains(what));
    }

    /// Nothing but lines: no escape sequence, no carriage return but a terminal's own, nothing that moves.
    fn assert_lines_only(&self) {
        let text = self.text().replace("\r\n", "\n");
        let strange: Vec<char> = text.chars().filter(|c| c.is_control() && *c != '\n').collect();
        assert!(strange.is_empty(), "{strange:?} in {text:?}");
    }
}

/// Starts a tree of three in a PTY; each of them is held.
fn start_tree(plain: &Plain, ledger: &Ledger, nap: &str) -> Vec<Watched> {
    let worker = ledger.noted_line(&format!("sleep {nap}"));
    let script = format!("{worker} & setsid -f {worker}; exec {worker}");
    plain.types(&format!("start --kind serve --host pty --name tree -- sh -c '{script}'"));
    let tree = ledger.wait(3);
    plain.hears("tree launched: serve in pty");
    tree
}

/// Stops a real tree that has five lookalikes beside it: nothing without a yes, and then nobody else.
fn check_stop(plain: &mut Plain, rig: &Rig) {
    let nap = rig.nap();
    let mut strangers = Bystanders::new(&["sleep", &nap]);
    let tree = start_tree(plain, &rig.ledger("ledger"), &nap);
    plain.types("tree tree");
    plain.hears(&format!("Process {}, child of ", tree[0].pid));
    plain.types("stop tree");
    plain.hears("Stop of tree would signal 3 processes; nothing was signalled yet.");
    plain.hears("Type yes to do it");
    for process in &tree {
        plain.hears(&format!("TERM to {}, sleep {nap}: owned, ", process.pid));
    }
    plain.types("y");
    plain.hears("Not confirmed; everything is as it was.");
    tree.iter().for_each(Watched::assert_alive);
    plain.types("yes");
    plain.hears("'yes'");
    tree.iter().for_each(Watched::assert_alive);
    plain.types("stop tree");
    until("the preview is read again", || plain.text().matches("Type yes to do it").count() == 2);
    plain.types("yes");
    tree.iter().for_each(Watched::assert_ends);
    plain.hears("tree has ended: 3 dead");
    strangers.assert_alive();
    assert_eq!(plain.text().matches("tree has ended").count(), 1, "{}", plain.text());
    plain.types("quit");
    assert_eq!(wait(&mut plain.child), Some(0), "{}", plain.text());
    plain.hears("Nothing ends with this program");
    plain.assert_lines_only();
    strangers.assert_alive();
}

#[test]
fn a_stop_is_read_out_and_done_on_a_yes_over_a_pipe() {
    let rig = Rig::new();
    check_stop(&mut Plain::over_pipe(&rig), &rig);
    rig.assert_empty();
}

#[test]
fn a_stop_is_read_out_and_done_on_a_yes_over_a_terminal() {
    let rig = Rig::new();
    check_stop(&mut Plain::over_pty(&rig), &rig);
    rig.assert_empty();
}

/// Ends the plain mode in some way: its PTY session is torn down, the one in tmux stays.
fn check_end(rig: &Rig, mut plain: Plain, end: impl FnOnce(&mut Plain)) {
    let nap = rig.nap();
    let mut strangers = Bystanders::new(&["sleep", &nap]);
    let tree = start_tree(&plain, &rig.ledger("ledger"), &nap);
    let other = rig.ledger("other");
    plain.types(&format!("start --host tmux --name stays -- {}", other.noted(&["sleep", &nap]).join(" ")));
    let stays = other.one();
    plain.hears("stays launched");
    end(&mut plain);
    assert_eq!(wait(&mut plain.child), Some(0), "{}", plain.text());
    tree.iter().for_each(Watched::assert_ends);
    stays.assert_alive();
    strangers.assert_alive();
    assert_eq!(rig.run(&["stop", "stays"]).code, Some(0));
    stays.assert_ends();
}

#[test]
fn the_end_of_the_input_ends_what_lives_in_ptys() {
    let rig = Rig::new();
    check_end(&rig, Plain::over_pipe(&rig), |plain| drop(plain.input.take()));
}

#[test]
fn the_end_of_the_input_on_a_terminal_is_one_too() {
    let rig = Rig::new();
    check_end(&rig, Plain::over_pty(&rig), |plain| plain.input.as_ref().unwrap().write_all(b"\x04").unwrap());
}

#[test]
fn a_quit_says_what_ends_and_asks() {
    let rig = Rig::new();
    check_end(&rig, Plain::over_pipe(&rig), |plain| {
        plain.types("quit");
        plain.hears("Quitting ends tree (serve-");
        plain.types("no");
        plain.hears("Not confirmed");
        plain.types("quit");
        plain.types("yes");
    });
}

/// What a session has left alive on purpose stays: it is neither counted nor asked about.
#[test]
fn a_quit_counts_only_what_ends() {
    let rig = Rig::new();
    let mut plain = Plain::over_pipe(&rig);
    plain.hears("0 sessions.");
    let work = rig.work().display().to_string();
    let line =
        format!("ssh-agent -s -a {work}/sock > {work}/new; mv {work}/new {work}/agent; exec sleep {}", rig.nap());
    plain.types(&format!("start --host pty --name holder -- sh -c '{line}'"));
    until("an agent that says who it is", || rig.work().join("agent").exists());
    let text = std::fs::read_to_string(rig.work().join("agent")).unwrap();
    let pid = text.split("SSH_AGENT_PID=").nth(1).unwrap().split(';').next().unwrap();
    let agent = Watched::of(pid.parse().unwrap());
    plain.types("quit");
    plain.hears(", 1 process); sessions in tmux stay.");
    plain.types("no");
    plain.types("stop holder");
    plain.hears("Type yes");
    plain.types("yes");
    plain.hears("1 kept");
    plain.types("quit");
    plain.hears("Nothing ends with this program");
    wait(&mut plain.child);
    agent.assert_alive();
    kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::TERM).unwrap();
}

#[test]
fn signals_end_it_as_they_end_the_screen() {
    for signal in [Signal::TERM, Signal::HUP] {
        let rig = Rig::new();
        check_end(&rig, Plain::over_pipe(&rig), |plain| kill_process(Pid::from_child(&plain.child), signal).unwrap());
    }
}

#[test]
fn commands_are_typed_and_mistakes_are_explained() {
    let rig = Rig::new();
    let mut plain = Plain::over_pipe(&rig);
    plain.hears("cookbook-tui in plain mode, 0 sessions.");
    plain.types("list");
    plain.hears("No sessions.");
    plain.types("start --host pty --name echo -- cat");
    plain.hears("echo launched");
    plain.types("send echo 'one  two' -k Enter");
    plain.types("wait echo --for output --regex 'one  two' --timeout 20");
    plain.hears(": one  two");
    // What the terminal echoes is there before what cat prints.
    until("both lines are on one screen", || {
        let before = plain.text().len();
        plain.types("screen echo");
        std::thread::sleep(std::time::Duration::from_millis(100));
        plain.text()[before..].lines().filter(|line| *line == "one  two").count() == 2
    });
    for (typed, said) in [
        ("stop nobody", "That did not work: "),
        ("stpo echo", "'stop'"),
        ("attach echo", "attach is not for here"),
        ("send 'echo", "close the quote"),
        ("help", "launch, or start: "),
        ("list", "echo, shell-"),
    ] {
        plain.types(typed);
        plain.hears(said);
    }
    let mut input = plain.input.take().unwrap();
    input.write_all(b"\xff\xfe\n").unwrap();
    plain.hears("no text in UTF-8");
    drop(input);
    assert_eq!(wait(&mut plain.child), Some(0));
    plain.assert_lines_only();
    rig.assert_empty();
}

#[test]
fn a_terminal_that_only_prints_is_led_to_the_plain_mode() {
    let rig = Rig::new();
    let mut command = rig.command(&[]);
    let ran = crate::rig::Ran::of(command.env("TERM", "dumb").spawn().unwrap());
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.error().contains("TERM=dumb") && ran.error().contains("cookbook-tui --plain"), "{ran:?}");
}

#[test]
fn keys_are_printed_as_the_configuration_takes_them() {
    let rig = Rig::new();
    let printed = rig.run(&["keys"]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let file = rig.write("pasted.toml", &printed.text());
    let file = file.to_str().unwrap();
    let again = rig.run(&["--config", file, "keys"]);
    assert_eq!((again.text(), again.error()), (printed.text(), printed.error()));
    let own = rig.write("own.toml", "[keys]\nstop = \"K\"\nforce = []\n");
    let own = own.to_str().unwrap();
    let rows = rig.json(&["--config", own, "keys"]);
    let of = |action: &str| {
        let mut rows = rows["keys"].as_array().unwrap().iter();
        rows.find(|row| row["mode"] == "sessions" && row["action"] == action).unwrap()["keys"].clone()
    };
    assert_eq!((of("stop"), of("force")), (serde_json::json!(["K"]), serde_json::json!([])));
    let bad = rig.write("bad.toml", "[keys]\n\nstop = \"s\"\n");
    let ran = rig.run(&["--config", bad.to_str().unwrap(), "keys"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.error().contains("bad.toml:3: `start` and `stop` are both on `s`"), "{ran:?}");
}
