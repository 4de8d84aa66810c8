//! A kept daemon is chosen in the preview of a stop, and goes with it; one that was not chosen stays.

use std::fs;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::{PATIENCE, Terminal, ends};

/// An ssh agent; it ends at the latest with its test.
struct Agent(OwnedFd);

impl Agent {
    /// Starts one in the session that is typed into.
    fn start(terminal: &Terminal, name: &str) -> Self {
        let path = |ending: &str| terminal.folder.path().join(format!("{name}{ending}")).display().to_string();
        let (socket, new, told) = (path(".sock"), path(".new"), path(""));
        terminal.line(&format!("ssh-agent -s -a {socket} > {new}; mv {new} {told}"));
        let until = Instant::now() + PATIENCE;
        loop {
            if let Ok(text) = fs::read_to_string(&told) {
                let pid = text.split("SSH_AGENT_PID=").nth(1).unwrap().split(';').next().unwrap();
                let pid = Pid::from_raw(pid.parse().unwrap()).unwrap();
                return Self(pidfd_open(pid, PidfdFlags::empty()).unwrap());
            }
            assert!(Instant::now() < until, "{}", terminal.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn lives(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&now)), Ok(0))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        pidfd_send_signal(&self.0, Signal::KILL).ok();
    }
}

#[test]
fn a_kept_daemon_is_chosen_in_the_preview() {
    let terminal = Terminal::new(120, 40);
    terminal.start();
    let shell = terminal.start_shell();
    terminal.key("Enter");
    terminal.await_text("TYPING");
    let agents = [Agent::start(&terminal, "one"), Agent::start(&terminal, "two")];
    terminal.key("C-\\");
    terminal.await_that("the end of typing", |text| !text.contains("TYPING"));
    terminal.key("x");
    terminal.await_that("both as kept", |text| text.matches("[ ] stays").count() == 2);
    terminal.key("j");
    terminal.key("Space");
    terminal.await_that("one of them as chosen", |text| {
        text.matches("[ ] stays").count() == 1 && text.matches("[x] ends").count() == 1
    });
    terminal.confirm("Stop: shell");
    assert!(ends(&shell));
    let until = Instant::now() + PATIENCE;
    while agents.iter().filter(|agent| agent.lives()).count() > 1 {
        assert!(Instant::now() < until, "{}", terminal.text());
        std::thread::sleep(Duration::from_millis(20));
    }
    // What was left alive is an orphan now, with its reason.
    terminal.await_that("the other one", |text| text.contains("Orphans 1") && text.contains("was le"));
    assert_eq!(agents.iter().filter(|agent| agent.lives()).count(), 1);
    terminal.await_text("stopped; an ssh agent was left alive");
    // Nothing ends: nobody is asked.
    terminal.key("q");
    terminal.await_that("the end", |text| text.contains("prompt>") && !text.contains("Orphans"));
    assert_eq!(agents.iter().filter(|agent| agent.lives()).count(), 1, "a quit keeps it as well");
}
