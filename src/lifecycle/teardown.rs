//! The ladder as a machine without I/O: which signal goes to whom, and when.
//!
//! Call [`Teardown::poll_step`] and perform what it returns; tell it what happened with
//! [`Teardown::handle`]. It never reads a clock, never signals and never believes: a target counts as
//! ended only when somebody says that it was observed dead.
//!
//! The rungs: the first signals (TERM, or HUP+TERM, then CONT), a grace, then rounds of KILL until two
//! looks add nothing. From the second round on the members are stopped first, so that a fork ring stands
//! still while it is killed; where the session has a cgroup of its own, that is emptied at once instead. Before every escalation the process table is read again.
//! Who tends a container gets no first signal, and the KILL of a later round than the others, so that it can put the
//! container away.
//! A person can hold it before KILL: while it is held the grace does not end, and whoever ends by himself ends it as usual.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::identity::Identity;
use super::kill::Signal;
use super::receipt::OutcomeKind;
use super::scope::Depth;

/// How a session is ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladder {
    /// The first signals, in order.
    pub first: Vec<Signal>,
    /// Time between them and KILL.
    pub grace: Duration,
    /// Time to die of a KILL.
    pub kill_window: Duration,
    /// KILL at once.
    pub force: bool,
}

/// Default time between TERM and KILL.
pub const GRACE: Duration = Duration::from_secs(2);
/// Default time to die of a KILL.
pub const KILL_WINDOW: Duration = Duration::from_secs(1);

impl Ladder {
    /// Returns the ladder of servers and downloads: TERM, grace, KILL. Stopped members get CONT with
    /// it, or they could not act on it.
    pub fn server(first: Signal, grace: Duration) -> Self {
        Self { first: vec![first, Signal::Cont], grace, kill_window: KILL_WINDOW, force: false }
    }

    /// Returns the ladder of shells and agents: an interactive shell ignores TERM, so it is hung up too.
    pub fn terminal(grace: Duration) -> Self {
        Self { first: vec![Signal::Hup, Signal::Term, Signal::Cont], grace, kill_window: KILL_WINDOW, force: false }
    }
}

/// What the shell around the machine is to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Judge this identity again and, only if it is owned, send it this signal; then `handle` what came of it.
    Signal(Identity, Signal),
    /// Capture again and `handle` [`Event::Scanned`]; on the whole host before an escalation, else in
    /// the trees only.
    Rescan(Depth),
    /// Kill the session's cgroup as a whole if everybody in it is to be ended, and `handle` a
    /// [`Event::Delivered`] for each, or [`Event::Spared`].
    Empty,
    /// Wait for exits (`handle` each), at the longest until this moment.
    Wait(Instant),
    /// Nothing more to do.
    Done,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A signal was taken by the kernel.
    Delivered(Identity, Signal),
    /// The identity was judged and not signalled.
    Denied(Identity, OutcomeKind, String),
    /// It was ours, but the kernel did not take the signal; it is alive.
    Undeliverable(Identity, String),
    /// It was observed dead.
    Exited(Identity),
    /// It ends by itself after the others: it comes last.
    Tends(Identity),
    /// A person holds it before KILL, until this moment at the longest.
    Held(Instant),
    /// Nobody holds it any more.
    Released,
    /// The cgroup holds somebody who is not to be ended, or is gone.
    Spared,
    /// A fresh capture.
    Scanned {
        /// The members that are to be ended.
        members: Vec<Identity>,
        /// The reads agreed. Where they never do, somebody is born and gone faster than anybody can look.
        complete: bool,
    },
}

/// Where a target stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Alive, as far as anybody knows; `signalled` tells whether a signal reached it.
    Alive {
        /// A signal was delivered to it.
        signalled: bool,
        /// Why a signal did not reach it.
        blocked: Option<String>,
    },
    /// Observed dead after the first signal of ours to anybody.
    Exited,
    /// Observed dead before that.
    AlreadyGone,
    /// Judged, and not signalled.
    Denied(OutcomeKind, String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Sends the first signals to whoever has not got them.
    First,
    /// Waits for exits; looks again at `next_look` because children may be born in the grace.
    Grace { until: Instant, next_look: Instant, pause: Duration },
    /// All known targets are gone, but the table does not stand still: looks again until the grace is over.
    Unsettled { look: Option<Instant> },
    /// Looks before it escalates or ends.
    Look { then: Then },
    /// Empties the cgroup (second round, once).
    Empty { round: u32 },
    /// Stops everybody (second round and later).
    Stop { round: u32 },
    /// Looks once more while all stand still.
    LookStopped { round: u32 },
    /// Kills everybody.
    Kill { round: u32 },
    /// Waits for the killed.
    Window { round: u32, until: Instant },
    /// Finished.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// All known targets are gone: newcomers go through the first signals, else it ends.
    Confirm,
    /// Grace goes on.
    Resume { until: Instant, due: Instant, pause: Duration },
    /// The grace is over, or a round of KILL is: the next round. `stuck`: nobody died of the last one.
    Kill { round: u32, stuck: bool },
}

/// Rounds of KILL before a survivor is written down as one.
const ROUNDS_MAX: u32 = 10;
/// Rounds in which at least one target died count afresh, up to this many in total.
const ROUNDS_TOTAL: u32 = 60;
const FIRST_LOOK: Duration = Duration::from_millis(40);

/// A teardown in progress.
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one teardown")]
#[derive(Clone, Debug)]
pub struct Teardown {
    ladder: Ladder,
    targets: BTreeMap<Identity, State>,
    /// Signals still to be sent in this phase, last first.
    queue: Vec<(Identity, Signal)>,
    queued: bool,
    phase: Phase,
    deadline: Option<Instant>,
    escalated: bool,
    /// A signal of this teardown was delivered to somebody.
    begun: bool,
    rounds: u32,
    deaths_before: usize,
    /// There is a cgroup that has not been emptied yet.
    cgroup: bool,
    /// The grace does not end before.
    held: Option<Instant>,
    /// Who comes last.
    tenders: BTreeSet<Identity>,
    /// The last round of KILL left them out.
    spared: bool,
}

impl Teardown {
    /// Returns a teardown of these identities.
    pub fn new(ladder: Ladder, targets: impl IntoIterator<Item = Identity>) -> Self {
        // The capture that named them is as fresh as a look before a KILL would be.
        let phase = if ladder.force { Phase::Kill { round: 1 } } else { Phase::First };
        let mut teardown = Self {
            ladder,
            targets: BTreeMap::new(),
            queue: Vec::new(),
            queued: false,
            phase,
            deadline: None,
            escalated: false,
            begun: false,
            rounds: 0,
            deaths_before: 0,
            cgroup: false,
            held: None,
            tenders: BTreeSet::new(),
            spared: false,
        };
        teardown.add(targets);
        teardown
    }

    /// Has the session's cgroup emptied where single KILLs were not enough.
    #[must_use]
    pub const fn with_cgroup(mut self, there_is: bool) -> Self {
        self.cgroup = there_is;
        self
    }

    /// Returns every target and where it stands, in the order of pids.
    pub fn targets(&self) -> impl Iterator<Item = (&Identity, &State)> {
        self.targets.iter()
    }

    /// Tells whether KILL was needed.
    pub const fn escalated(&self) -> bool {
        self.escalated
    }

    /// Tells whether nobody has seen it dead, and it is not denied.
    pub fn is_alive(&self, identity: &Identity) -> bool {
        matches!(self.targets.get(identity), Some(State::Alive { .. }))
    }

    /// Returns the identities that nobody has seen dead and that are not denied.
    pub fn alive(&self) -> Vec<Identity> {
        let alive = self.targets.iter().filter(|(_, state)| matches!(state, State::Alive { .. }));
        alive.map(|(identity, _)| identity.clone()).collect()
    }

    /// Returns what to do next.
    pub fn poll_step(&mut self, now: Instant) -> Step {
        loop {
            if let Some((identity, signal)) = self.queue.pop() {
                return Step::Signal(identity, signal);
            }
            match self.phase {
                Phase::First if !self.queued => {
                    let first = self.ladder.first.clone();
                    self.enqueue(&first, |state| matches!(state, State::Alive { signalled: false, .. }), true);
                }
                Phase::First => {
                    let until = *self.deadline.get_or_insert(now + self.ladder.grace);
                    self.enter(Phase::Grace { until, next_look: now + FIRST_LOOK, pause: FIRST_LOOK });
                }
                Phase::Grace { .. } if self.alive().is_empty() => self.enter(Phase::Look { then: Then::Confirm }),
                Phase::Grace { until, .. } if now >= self.grace_end(until) => {
                    self.enter(Phase::Look { then: Then::Kill { round: 1, stuck: false } });
                }
                Phase::Grace { until, next_look, pause } if now >= next_look => {
                    self.enter(Phase::Look { then: Then::Resume { until, due: next_look, pause } });
                }
                Phase::Grace { until, next_look, .. } => return Step::Wait(self.grace_end(until).min(next_look)),
                Phase::Unsettled { look } => {
                    let until = *self.deadline.get_or_insert(now + self.ladder.grace);
                    let until = self.grace_end(until);
                    match look {
                        _ if now >= until => self.enter(Phase::Look { then: Then::Kill { round: 1, stuck: false } }),
                        None => self.phase = Phase::Unsettled { look: Some((now + FIRST_LOOK).min(until)) },
                        Some(look) if now >= look => self.enter(Phase::Look { then: Then::Confirm }),
                        Some(look) => return Step::Wait(look),
                    }
                }
                Phase::Look { then: Then::Kill { .. } } => return Step::Rescan(Depth::Host),
                Phase::Look { .. } | Phase::LookStopped { .. } => return Step::Rescan(Depth::Trees),
                Phase::Empty { round } if self.cgroup => {
                    self.cgroup = false;
                    self.begin_round();
                    self.phase = Phase::Empty { round };
                    return Step::Empty;
                }
                Phase::Empty { round } => {
                    self.enter(Phase::Window { round, until: now + self.ladder.kill_window });
                }
                Phase::Stop { round } if self.queued => self.enter(Phase::LookStopped { round }),
                Phase::Stop { .. } => self.enqueue(&[Signal::Stop], may_live, false),
                // Held while the look before it was under way.
                Phase::Kill { round: 1 } if !self.queued && !self.ladder.force && now < self.grace_end(now) => {
                    self.enter(Phase::Grace { until: now, next_look: now + FIRST_LOOK, pause: FIRST_LOOK });
                }
                Phase::Kill { round } if self.queued => {
                    self.enter(Phase::Window { round, until: now + self.ladder.kill_window });
                }
                Phase::Kill { round } => {
                    self.begin_round();
                    let living = self.targets.iter().filter(|(_, state)| may_live(state));
                    let (last, first): (Vec<_>, Vec<_>) =
                        living.map(|(identity, _)| identity).partition(|identity| self.tenders.contains(identity));
                    self.spared = round == 1 && !last.is_empty() && !first.is_empty();
                    self.enqueue(&[Signal::Kill], may_live, self.spared);
                }
                Phase::Window { round, until } if now >= until || !self.any_killable() => {
                    // Deaths are progress: a fork ring is emptied faster than it grows, but not at once.
                    let stuck = self.deaths() == self.deaths_before;
                    let round = if stuck { round + 1 } else { 2 };
                    self.enter(Phase::Look { then: Then::Kill { round, stuck } });
                }
                Phase::Window { until, .. } => return Step::Wait(until),
                Phase::Done => return Step::Done,
            }
        }
    }

    /// Takes note of what happened.
    pub fn handle(&mut self, event: Event) {
        match event {
            Event::Delivered(identity, _) => {
                self.begun = true;
                if let Some(state) = self.targets.get_mut(&identity).filter(|state| may_live(state)) {
                    *state = State::Alive { signalled: true, blocked: None };
                }
            }
            Event::Denied(identity, OutcomeKind::Exited | OutcomeKind::AlreadyGone, _) | Event::Exited(identity) => {
                // A child may die of its parent's death: what died once the stop had begun, died of the stop.
                let begun = self.begun;
                if let Some(state) = self.targets.get_mut(&identity)
                    && matches!(state, State::Alive { .. } | State::Denied(..))
                {
                    *state = if begun { State::Exited } else { State::AlreadyGone };
                }
                self.queue.retain(|(queued, _)| *queued != identity);
            }
            Event::Denied(identity, outcome, reason) => {
                if let Some(state) = self.targets.get_mut(&identity) {
                    *state = State::Denied(outcome, reason);
                }
                self.queue.retain(|(queued, _)| *queued != identity);
            }
            Event::Undeliverable(identity, reason) => {
                if let Some(state) = self.targets.get_mut(&identity).filter(|state| may_live(state)) {
                    let signalled = matches!(state, State::Alive { signalled: true, .. });
                    *state = State::Alive { signalled, blocked: Some(reason) };
                }
            }
            Event::Tends(identity) => {
                self.tenders.insert(identity);
            }
            Event::Held(until) => self.held = Some(until),
            Event::Released => self.held = None,
            Event::Spared => {
                if let Phase::Empty { round } = self.phase {
                    self.enter(Phase::Stop { round });
                }
            }
            Event::Scanned { members, complete } => self.scanned(members, complete),
        }
    }

    fn scanned(&mut self, members: Vec<Identity>, complete: bool) {
        let newcomers = self.add(members);
        match self.phase {
            Phase::Look { then: Then::Confirm | Then::Resume { .. } } if newcomers => self.enter(Phase::First),
            Phase::Look { then: Then::Confirm } if complete => self.enter(Phase::Done),
            Phase::Look { then: Then::Confirm } => self.enter(Phase::Unsettled { look: None }),
            Phase::Look { then: Then::Resume { until, due, pause } } => {
                self.enter(Phase::Grace { until, next_look: due + pause * 2, pause: pause * 2 });
            }
            Phase::Look { then: Then::Kill { round, stuck } } => {
                // A second KILL does nothing to whom the first could not end or could not reach.
                let in_vain = stuck || !self.any_killable();
                let hopeless = round > 1 && !newcomers && !self.cgroup && !self.spared && in_vain;
                let spent = round > ROUNDS_MAX || self.rounds >= ROUNDS_TOTAL;
                let unknown = |state: &State| matches!(state, State::Denied(OutcomeKind::Unverifiable, _));
                let nobody = complete && self.alive().is_empty() && (round > 1 || !self.targets.values().any(unknown));
                if nobody || hopeless || spent {
                    self.enter(Phase::Done);
                } else {
                    self.enter(match round {
                        1 => Phase::Kill { round },
                        _ if self.cgroup => Phase::Empty { round },
                        _ => Phase::Stop { round },
                    });
                }
            }
            Phase::LookStopped { round } => self.enter(Phase::Kill { round }),
            Phase::First
            | Phase::Grace { .. }
            | Phase::Unsettled { .. }
            | Phase::Empty { .. }
            | Phase::Stop { .. }
            | Phase::Kill { .. }
            | Phase::Window { .. }
            | Phase::Done => {}
        }
    }

    /// Returns when a grace ends that would end at `until`.
    fn grace_end(&self, until: Instant) -> Instant {
        self.held.map_or(until, |held| until.max(held))
    }

    fn begin_round(&mut self) {
        self.escalated = true;
        self.rounds += 1;
        self.deaths_before = self.deaths();
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.queue.clear();
        self.queued = false;
    }

    fn enqueue(&mut self, signals: &[Signal], whom: impl Fn(&State) -> bool, spares: bool) {
        let comes = |identity: &Identity| !(spares && self.tenders.contains(identity));
        let targets = self.targets.iter().filter(|(identity, state)| comes(identity) && whom(state));
        let pairs = targets.flat_map(|(identity, _)| signals.iter().map(move |signal| (identity.clone(), *signal)));
        self.queue = pairs.collect();
        self.queue.reverse();
        self.queued = true;
    }

    /// Tells whether anybody is alive whom a signal can reach.
    fn any_killable(&self) -> bool {
        self.targets.values().any(|state| matches!(state, State::Alive { blocked: None, .. }))
    }

    fn deaths(&self) -> usize {
        self.targets.values().filter(|state| matches!(state, State::Exited | State::AlreadyGone)).count()
    }

    /// Adds targets that are not known yet; tells whether there were any.
    fn add(&mut self, identities: impl IntoIterator<Item = Identity>) -> bool {
        let before = self.targets.len();
        for identity in identities {
            self.targets.entry(identity).or_insert(State::Alive { signalled: false, blocked: None });
        }
        self.targets.len() > before
    }
}

/// Whom an escalation is for: who could not be identified is judged again each time, and stays unverifiable until
/// that says otherwise.
fn may_live(state: &State) -> bool {
    matches!(state, State::Alive { .. } | State::Denied(OutcomeKind::Unverifiable, _))
}

#[cfg(test)]
mod explorer;
#[cfg(test)]
mod tests;
