//! The ladder as a machine without I/O: which signal goes to whom, and when.
//!
//! Call [`Teardown::poll_step`] and perform what it returns; tell it what happened with
//! [`Teardown::handle`]. It never reads a clock, never signals and never believes: a target counts as
//! ended only when somebody says that it was observed dead.
//!
//! The rungs: the first signals (TERM, or HUP+TERM, then CONT), a grace, then rounds of KILL until two
//! looks add nothing. From the second round on the members are stopped first, so that a fork ring stands
//! still while it is killed. Before every escalation the process table is read again.

use std::collections::BTreeMap;
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
    /// A fresh capture: the members that are to be ended, and whether the look was complete.
    Scanned(Vec<Identity>),
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
    /// Looks before it escalates or ends.
    Look { then: Then },
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
}

impl Teardown {
    /// Returns a teardown of these identities.
    pub fn new(ladder: Ladder, targets: impl IntoIterator<Item = Identity>) -> Self {
        let phase =
            if ladder.force { Phase::Look { then: Then::Kill { round: 1, stuck: false } } } else { Phase::First };
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
        };
        teardown.add(targets);
        teardown
    }

    /// Returns every target and where it stands, in the order of pids.
    pub fn targets(&self) -> impl Iterator<Item = (&Identity, &State)> {
        self.targets.iter()
    }

    /// Tells whether KILL was needed.
    pub const fn escalated(&self) -> bool {
        self.escalated
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
                    self.enqueue(&first, |state| matches!(state, State::Alive { signalled: false, .. }));
                }
                Phase::First => {
                    let until = *self.deadline.get_or_insert(now + self.ladder.grace);
                    self.enter(Phase::Grace { until, next_look: now + FIRST_LOOK, pause: FIRST_LOOK });
                }
                Phase::Grace { .. } if self.alive().is_empty() => self.enter(Phase::Look { then: Then::Confirm }),
                Phase::Grace { until, .. } if now >= until => {
                    self.enter(Phase::Look { then: Then::Kill { round: 1, stuck: false } });
                }
                Phase::Grace { until, next_look, pause } if now >= next_look => {
                    self.enter(Phase::Look { then: Then::Resume { until, due: next_look, pause } });
                }
                Phase::Grace { until, next_look, .. } => return Step::Wait(until.min(next_look)),
                Phase::Look { then: Then::Kill { .. } } => return Step::Rescan(Depth::Host),
                Phase::Look { .. } | Phase::LookStopped { .. } => return Step::Rescan(Depth::Trees),
                Phase::Stop { round } if self.queued => self.enter(Phase::LookStopped { round }),
                Phase::Stop { .. } => self.enqueue(&[Signal::Stop], |state| matches!(state, State::Alive { .. })),
                Phase::Kill { round } if self.queued => {
                    self.enter(Phase::Window { round, until: now + self.ladder.kill_window });
                }
                Phase::Kill { .. } => {
                    self.escalated = true;
                    self.rounds += 1;
                    self.deaths_before = self.deaths();
                    self.enqueue(&[Signal::Kill], |state| matches!(state, State::Alive { .. }));
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
                if let Some(State::Alive { signalled, blocked }) = self.targets.get_mut(&identity) {
                    *signalled = true;
                    *blocked = None;
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
                if let Some(State::Alive { blocked, .. }) = self.targets.get_mut(&identity) {
                    *blocked = Some(reason);
                }
            }
            Event::Scanned(members) => self.scanned(members),
        }
    }

    fn scanned(&mut self, members: Vec<Identity>) {
        let newcomers = self.add(members);
        match self.phase {
            Phase::Look { then: Then::Confirm | Then::Resume { .. } } if newcomers => self.enter(Phase::First),
            Phase::Look { then: Then::Confirm } => self.enter(Phase::Done),
            Phase::Look { then: Then::Resume { until, due, pause } } => {
                self.enter(Phase::Grace { until, next_look: due + pause * 2, pause: pause * 2 });
            }
            Phase::Look { then: Then::Kill { round, stuck } } => {
                // A second KILL does nothing to whom the first could not end or could not reach.
                let hopeless = round > 1 && !newcomers && (stuck || !self.any_killable());
                let spent = round > ROUNDS_MAX || self.rounds >= ROUNDS_TOTAL;
                let unknown = |state: &State| matches!(state, State::Denied(OutcomeKind::Unverifiable, _));
                let nobody = self.alive().is_empty() && (round > 1 || !self.targets.values().any(unknown));
                if nobody || hopeless || spent {
                    self.enter(Phase::Done);
                } else {
                    self.rejudge();
                    self.enter(if round == 1 { Phase::Kill { round } } else { Phase::Stop { round } });
                }
            }
            Phase::LookStopped { round } => self.enter(Phase::Kill { round }),
            Phase::First
            | Phase::Grace { .. }
            | Phase::Stop { .. }
            | Phase::Kill { .. }
            | Phase::Window { .. }
            | Phase::Done => {}
        }
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.queue.clear();
        self.queued = false;
    }

    fn enqueue(&mut self, signals: &[Signal], whom: impl Fn(&State) -> bool) {
        let targets = self.targets.iter().filter(|(_, state)| whom(state));
        let pairs = targets.flat_map(|(identity, _)| signals.iter().map(move |signal| (identity.clone(), *signal)));
        self.queue = pairs.collect();
        self.queue.reverse();
        self.queued = true;
    }

    /// Gives everybody who could not be identified another chance: each escalation judges again.
    fn rejudge(&mut self) {
        for state in self.targets.values_mut() {
            if matches!(state, State::Denied(OutcomeKind::Unverifiable, _)) {
                *state = State::Alive { signalled: false, blocked: None };
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::identity::Pid;

    /// A process of the imaginary host.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Nature {
        Plain,
        IgnoresTerm,
        Immortal,
        NotPermitted,
        Foreign,
        Unverifiable,
        /// Leaves a child with this pid when it gets TERM.
        Leaves(i32),
        /// Has somebody else start this one when it is killed: a ring.
        Heir(i32),
    }

    /// Drives the machine against imaginary processes in virtual time, and keeps its own ledger.
    struct World {
        natures: BTreeMap<i32, Nature>,
        dead: Vec<i32>,
        sent: Vec<(i32, Signal)>,
        now: Instant,
        start: Instant,
    }

    fn identity(raw: i32) -> Identity {
        let pid = Pid::new(raw).expect("positive");
        Identity { pid, token: format!("procfs:b:{raw}").parse().expect("token"), pidfd_inode: None }
    }

    impl World {
        fn new(natures: &[(i32, Nature)]) -> Self {
            let now = Instant::now();
            Self { natures: natures.iter().copied().collect(), dead: vec![], sent: vec![], now, start: now }
        }

        fn signal(&mut self, target: &Identity, signal: Signal) -> Event {
            let raw = target.pid.raw();
            let reason = String::new();
            if self.dead.contains(&raw) {
                return Event::Denied(target.clone(), OutcomeKind::Exited, reason);
            }
            let nature = self.natures[&raw];
            match nature {
                Nature::Foreign => return Event::Denied(target.clone(), OutcomeKind::Foreign, reason),
                Nature::Unverifiable => return Event::Denied(target.clone(), OutcomeKind::Unverifiable, reason),
                Nature::NotPermitted => return Event::Undeliverable(target.clone(), "EPERM".into()),
                Nature::Plain | Nature::IgnoresTerm | Nature::Immortal | Nature::Leaves(_) | Nature::Heir(_) => {}
            }
            self.sent.push((raw, signal));
            match (nature, signal) {
                (Nature::Plain, Signal::Term) => self.dead.push(raw),
                (Nature::Leaves(child), Signal::Term) => {
                    self.dead.push(raw);
                    self.natures.insert(child, Nature::Plain);
                }
                (Nature::Heir(child), Signal::Kill) => {
                    self.dead.push(raw);
                    self.natures.insert(child, Nature::IgnoresTerm);
                }
                (nature, Signal::Kill) if nature != Nature::Immortal => self.dead.push(raw),
                (_, _) => {}
            }
            Event::Delivered(target.clone(), signal)
        }

        fn run(&mut self, ladder: Ladder, targets: &[i32]) -> Teardown {
            let mut teardown = Teardown::new(ladder, targets.iter().map(|raw| identity(*raw)));
            for _ in 0..10_000 {
                match teardown.poll_step(self.now) {
                    Step::Signal(target, signal) => {
                        let event = self.signal(&target, signal);
                        teardown.handle(event);
                    }
                    Step::Rescan(_) => {
                        let alive = self.natures.keys().filter(|raw| !self.dead.contains(raw));
                        teardown.handle(Event::Scanned(alive.map(|raw| identity(*raw)).collect()));
                    }
                    Step::Wait(until) => {
                        let died: Vec<_> =
                            teardown.alive().into_iter().filter(|i| self.dead.contains(&i.pid.raw())).collect();
                        if died.is_empty() {
                            assert!(until > self.now, "a wait must wait");
                            self.now = until;
                        }
                        for identity in died {
                            teardown.handle(Event::Exited(identity));
                        }
                    }
                    Step::Done => return teardown,
                }
            }
            panic!("it never ends");
        }
    }

    fn check(natures: &[(i32, Nature)], targets: &[i32], expected: &[(i32, State)], escalated: bool, within: Duration) {
        let mut world = World::new(natures);
        let teardown = world.run(Ladder::server(Signal::Term, GRACE), targets);
        let found: Vec<_> = teardown.targets().map(|(identity, state)| (identity.pid.raw(), state.clone())).collect();
        assert_eq!(found, expected);
        assert_eq!(teardown.escalated(), escalated);
        assert!(world.now - world.start <= within, "{:?}", world.now - world.start);
    }

    const NOW: Duration = Duration::ZERO;

    #[test]
    fn a_cooperative_tree_takes_no_time() {
        check(
            &[(1, Nature::Plain), (2, Nature::Plain)],
            &[1, 2],
            &[(1, State::Exited), (2, State::Exited)],
            false,
            NOW,
        );
    }

    #[test]
    fn the_stubborn_get_kill_after_the_grace() {
        check(
            &[(1, Nature::Plain), (2, Nature::IgnoresTerm)],
            &[1, 2],
            &[(1, State::Exited), (2, State::Exited)],
            true,
            GRACE,
        );
    }

    #[test]
    fn children_born_of_the_stop_die_too() {
        check(&[(1, Nature::Leaves(9))], &[1], &[(1, State::Exited), (9, State::Exited)], false, NOW);
    }

    #[test]
    fn an_immortal_ends_the_ladder_after_one_window() {
        let alive = State::Alive { signalled: true, blocked: None };
        check(&[(1, Nature::Immortal)], &[1], &[(1, alive)], true, GRACE + KILL_WINDOW);
    }

    #[test]
    fn who_may_not_be_signalled_is_written_down_with_the_reason() {
        let blocked = State::Alive { signalled: false, blocked: Some("EPERM".into()) };
        check(&[(1, Nature::NotPermitted)], &[1], &[(1, blocked)], true, GRACE);
    }

    #[test]
    fn strangers_are_never_signalled() {
        for (nature, outcome) in
            [(Nature::Foreign, OutcomeKind::Foreign), (Nature::Unverifiable, OutcomeKind::Unverifiable)]
        {
            let mut world = World::new(&[(1, nature), (2, Nature::IgnoresTerm)]);
            let teardown = world.run(Ladder::terminal(GRACE), &[1, 2]);
            assert!(world.sent.iter().all(|(raw, _)| *raw == 2));
            let states: Vec<_> = teardown.targets().map(|(_, state)| state.clone()).collect();
            assert_eq!(states, [State::Denied(outcome, String::new()), State::Exited]);
        }
    }

    #[test]
    fn already_dead_is_not_exited() {
        let mut world = World::new(&[(1, Nature::Plain)]);
        world.dead.push(1);
        let teardown = world.run(Ladder::server(Signal::Term, GRACE), &[1]);
        assert_eq!(teardown.targets().map(|(_, state)| state.clone()).collect::<Vec<_>>(), [State::AlreadyGone]);
        assert!(world.sent.is_empty());
    }

    /// Killed one after the other, a ring comes back as fast as it goes: from the second round on it is stopped
    /// first.
    #[test]
    fn a_ring_stands_still_before_it_is_killed_again() {
        let mut world = World::new(&[(1, Nature::Heir(8)), (2, Nature::Heir(9))]);
        let teardown = world.run(Ladder { force: true, ..Ladder::server(Signal::Term, GRACE) }, &[1, 2]);
        let expected = [
            (1, Signal::Kill),
            (2, Signal::Kill),
            (8, Signal::Stop),
            (9, Signal::Stop),
            (8, Signal::Kill),
            (9, Signal::Kill),
        ];
        assert_eq!(world.sent, expected);
        assert!(teardown.targets().all(|(_, state)| *state == State::Exited));
    }

    #[test]
    fn force_begins_with_kill() {
        let mut world = World::new(&[(1, Nature::Plain)]);
        let ladder = Ladder { force: true, ..Ladder::server(Signal::Term, GRACE) };
        world.run(ladder, &[1]);
        assert_eq!(world.sent, [(1, Signal::Kill)]);
    }

    #[test]
    fn nothing_to_end_is_done() {
        check(&[], &[], &[], false, NOW);
    }

    #[test]
    fn every_mix_ends_in_time_and_spares_strangers() {
        use Nature::{Foreign, IgnoresTerm, Immortal, Leaves, NotPermitted, Plain, Unverifiable};
        let natures = [Plain, IgnoresTerm, Immortal, NotPermitted, Foreign, Unverifiable, Leaves(7)];
        for a in natures {
            for b in natures {
                for c in natures {
                    for force in [false, true] {
                        let mut world = World::new(&[(1, a), (2, b), (3, c)]);
                        let ladder = Ladder { force, ..Ladder::terminal(GRACE) };
                        let teardown = world.run(ladder, &[1, 2, 3]);
                        assert!(world.now - world.start <= GRACE + KILL_WINDOW * 3);
                        for (raw, _) in &world.sent {
                            assert!(!matches!(world.natures[raw], Foreign | Unverifiable));
                        }
                        for (identity, state) in teardown.targets() {
                            let dead = world.dead.contains(&identity.pid.raw());
                            assert_eq!(matches!(state, State::Exited | State::AlreadyGone), dead);
                        }
                    }
                }
            }
        }
    }
}
