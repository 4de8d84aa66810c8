//! Stops that are under way, per process: planned, signalled, gone; and the time left until KILL. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::overlay::{Act, Overlay, Reader, Reading};
use crate::lifecycle::identity::Pid;
use crate::lifecycle::receipt::Receipt;

/// A stop that takes less is not worth a panel.
const SHORT: Duration = Duration::from_millis(300);
/// Time between two looks at the clock.
const LOOK: Duration = Duration::from_millis(200);

/// How far a process of a stop has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is to be signalled; nothing was sent yet.
    Planned,
    /// It got these signals.
    Signalled(Vec<String>),
    /// It has ended.
    Gone,
}

/// One process of a stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its pid.
    pub pid: Pid,
    /// Its masked command line.
    pub command: String,
    /// How far it has come.
    pub stage: Stage,
}

/// What happened to the processes of a session between the preview of its stop and the agreement to it.
#[derive(Debug, Default)]
pub struct Meanwhile {
    /// Who has ended.
    pub(in super::super) gone: BTreeSet<i32>,
    /// Who came, with the masked command line.
    pub(in super::super) new: BTreeMap<i32, String>,
}

/// A stop that is under way.
#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    /// Which session.
    pub session: String,
    /// Which of how many that were agreed to together.
    pub place: (usize, usize),
    /// What was asked for.
    pub act: Act,
    /// Who is to end.
    pub targets: Vec<Target>,
    /// Whole seconds until KILL; `None` before the first signal, or where nobody knows.
    pub left_s: Option<u64>,
    /// It is held before KILL, for so many whole seconds at the longest.
    pub held_s: Option<u64>,
    /// KILL was sent to somebody.
    pub killed: bool,
    /// Who came since the preview, with the masked command line: they are listed once they are signalled.
    new: BTreeMap<i32, String>,
    held_until: Option<Instant>,
    grace: Option<Duration>,
    signalled_at: Option<Instant>,
    opens_at: Instant,
    /// The panel was opened.
    opened: bool,
    looked_at: Instant,
}

impl Live {
    /// Begins with the plan that was agreed to, and what happened since it was made.
    pub(in super::super) fn new(session: String, act: Act, (plan, since): (&Receipt, Meanwhile), now: Instant) -> Self {
        let rows = plan.plan.iter().flatten().filter(|row| row.signal.is_some());
        let stage = |pid: Pid| if since.gone.contains(&pid.raw()) { Stage::Gone } else { Stage::Planned };
        let targets = rows.map(|row| Target { pid: row.pid, command: row.command.clone(), stage: stage(row.pid) });
        let grace = plan.grace_s.filter(|_| act != Act::Force);
        let grace = grace.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let (opens_at, targets) = (now + SHORT, targets.collect());
        Self {
            session,
            place: (1, 1),
            act,
            targets,
            left_s: None,
            held_s: None,
            killed: false,
            new: since.new,
            held_until: None,
            grace,
            signalled_at: None,
            opens_at,
            opened: false,
            looked_at: now,
        }
    }

    /// Takes in that a process came; it may have been signalled before that was heard.
    pub(in super::super) fn came(&mut self, pid: i32, command: &str) {
        match self.target(pid) {
            Some(target) if target.command.is_empty() => command.clone_into(&mut target.command),
            Some(_) => {}
            None => drop(self.new.insert(pid, command.to_owned())),
        }
    }

    /// Takes in that a signal was sent, also to one that the plan did not have.
    pub(in super::super) fn signalled(&mut self, pid: i32, signal: &str, now: Instant) {
        self.signalled_at.get_or_insert(now);
        self.killed |= signal == "KILL";
        if self.target(pid).is_none()
            && let Some(pid) = Pid::new(pid)
        {
            let command = self.new.remove(&pid.raw()).unwrap_or_default();
            self.targets.push(Target { pid, command, stage: Stage::Planned });
        }
        if let Some(target) = self.target(pid) {
            match &mut target.stage {
                Stage::Signalled(sent) => sent.push(signal.to_owned()),
                Stage::Planned => target.stage = Stage::Signalled(vec![signal.to_owned()]),
                Stage::Gone => {}
            }
        }
    }

    /// Takes in that a process has ended.
    pub(in super::super) fn gone(&mut self, pid: i32) {
        if let Some(target) = self.target(pid) {
            target.stage = Stage::Gone;
        }
    }

    /// Takes in that it is held until then at the longest, or goes on.
    pub(in super::super) fn hold(&mut self, until: Option<Instant>) {
        self.held_until = until;
    }

    /// Tells whether there is a KILL to come that can be held.
    pub fn can_hold(&self) -> bool {
        self.act != Act::Force && !self.killed
    }

    fn target(&mut self, pid: i32) -> Option<&mut Target> {
        self.targets.iter_mut().find(|target| target.pid.raw() == pid)
    }

    /// Looks at the clock. Returns whether the panel is to be opened.
    pub(in super::super) fn tick(&mut self, now: Instant) -> bool {
        self.looked_at = now;
        let whole = |until: Instant| {
            // Rounded up: nobody is told of 0 seconds while there is time.
            let left = until.saturating_duration_since(now).as_millis().div_ceil(1_000);
            u64::try_from(left).unwrap_or(u64::MAX)
        };
        self.held_until = self.held_until.filter(|until| now < *until && !self.killed);
        self.held_s = self.held_until.map(whole);
        let until = self.signalled_at.zip(self.grace).map(|(at, grace)| at + grace);
        self.left_s = until.map(whole);
        !self.opened && now >= self.opens_at
    }

    /// Returns the panel, which opens.
    pub(in super::super) fn open(&mut self) -> Overlay {
        self.opened = true;
        Overlay::Reader(Reader { reading: Reading::Live(self.session.clone()), scroll: 0 })
    }

    /// Returns when the clock is to be looked at again.
    pub(in super::super) fn deadline(&self) -> Instant {
        self.looked_at + LOOK
    }

    /// Returns how many have ended.
    pub fn ended(&self) -> usize {
        self.targets.iter().filter(|target| target.stage == Stage::Gone).count()
    }
}
