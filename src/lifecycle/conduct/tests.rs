//! Real processes, held by the test as its own children: what the shell around the machine observes and what it sends.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use super::*;
use crate::lifecycle::identity::Pid;
use crate::lifecycle::tree::{Scope, capture};

/// A process that ignores TERM, in a kernel session of its own.
struct Deaf {
    child: Child,
    identity: Identity,
}

impl Deaf {
    fn new(inspector: &Inspector) -> Self {
        let mut command = Command::new("setsid");
        command
            .args(["sh", "-c", "trap '' TERM; echo deaf; exec sleep 60"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "deaf\n");
        // Where there is no pidfs, its start must lie before this tick.
        std::thread::sleep(Duration::from_millis(24));
        let pid = Pid::new(i32::try_from(child.id()).unwrap()).unwrap();
        let crate::lifecycle::authority::Pin::Held(pinned) = Pinned::open(inspector, pid) else { panic!("{pid}") };
        Self { identity: pinned.identity().clone(), child }
    }

    fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Deaf {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

struct Trial {
    inspector: Inspector,
    deaf: Deaf,
}

impl Trial {
    fn new() -> Self {
        let inspector = Inspector::open(None).unwrap();
        Self { deaf: Deaf::new(&inspector), inspector }
    }

    /// Ends it by a ladder of 100 ms. `judge` reads the process table for the judgements, `again` captures again.
    fn run(&self, judge: &Inspector, deadline: Option<Duration>, again: &mut dyn FnMut(Captured) -> Captured) -> Ended {
        let guard = Guard::new(&self.inspector);
        let scope = Scope { panes: vec![self.deaf.identity.clone()], ..Scope::default() };
        let look = |depth| capture(&scope, depth, &guard, &self.inspector);
        let captured = look(Depth::Host);
        assert_eq!(captured.members.len(), 1);
        let ladder = Ladder { grace: Duration::from_millis(100), ..Ladder::server(Signal::Term, Duration::ZERO) };
        let deadline = deadline.map(|left| Instant::now() + left);
        let mut stage =
            Stage { inspector: judge, guard: &guard, leaf: None, deadline, hold: None, observe: &mut |_| {} };
        conduct(ladder, captured, &mut |depth| again(look(depth)), &mut stage)
    }

    fn state(&self, ended: &Ended) -> State {
        let (_, state) = ended.targets.iter().find(|(identity, _)| *identity == self.deaf.identity).unwrap();
        state.clone()
    }
}

/// Its parent, which led to it, may be gone by the second look.
#[test]
fn whom_a_later_look_does_not_show_is_ended_all_the_same() {
    let mut trial = Trial::new();
    let mut looks = 0;
    let ended = trial.run(&trial.inspector, None, &mut |mut captured| {
        looks += 1;
        captured.members.clear();
        captured
    });
    assert!(looks > 0 && ended.escalated);
    assert_eq!(trial.state(&ended), State::Exited);
    assert_eq!(trial.deaf.child.wait().unwrap().signal(), Some(9));
}

/// The time of a stop may be up at any moment; a signal that was sent is no death.
#[test]
fn who_is_not_seen_dead_is_not_called_dead() {
    let mut trial = Trial::new();
    let ended = trial.run(&trial.inspector, Some(Duration::from_millis(50)), &mut |captured| captured);
    assert!(ended.timed_out && trial.deaf.is_alive());
    let sent: Vec<&str> = ended.signals.iter().map(|sent| sent.signal.as_str()).collect();
    assert_eq!(sent, ["TERM", "CONT"]);
    assert_eq!(trial.state(&ended), State::Alive { signalled: true, blocked: None });
}

#[test]
fn who_cannot_be_judged_is_neither_signalled_nor_called_dead() {
    let mut trial = Trial::new();
    let ended = trial.run(&Inspector::None, None, &mut |captured| captured);
    assert!(ended.signals.is_empty() && trial.deaf.is_alive());
    assert!(matches!(trial.state(&ended), State::Denied(OutcomeKind::Unverifiable, _)), "{:?}", trial.state(&ended));
}
