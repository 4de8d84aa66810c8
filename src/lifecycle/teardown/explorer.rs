//! Every order of events against the ladder, in small worlds: a model checker.
//!
//! A world holds up to three processes. Between any two steps of the machine any of them may end, may fork (also into
//! a number that has just become free), and a stranger may get a number that has become free. A look may fail, or
//! never settle; a judgement may be in doubt; who may not be signalled, cannot be verified, is protected, kept or
//! foreign is there, too. Nobody has to die of a signal: whether and when is up to the world, so that deaf, stopped and
//! immortal processes are all in it. The time of the whole stop may be up after any step, which is why the states are
//! judged and not only the ends.
//!
//! On every path: each signal is judged, and follows a look that nothing was waited for since; nobody is killed twice
//! without a look in between; only who is dead is called so, and the whole session only when a settled look after the
//! last signal found nobody; doubt stays doubt; and it ends. States that were seen are not entered again, so that the
//! search is exhaustive.

use std::collections::hash_map::{Entry, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::*;
use crate::lifecycle::identity::{Pid, StartToken};

/// What the world does with a process, apart from its life and death, which may be anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Nature {
    Ours,
    /// It may not be signalled (`EPERM`).
    NotPermitted,
    /// No look can tell who it is.
    Unverifiable,
    /// The guard refuses it.
    Protected,
    /// Left alive on purpose: no capture names it.
    Kept,
    /// The claim is stale: somebody else has its number from the beginning.
    Foreign,
    /// It was never ours.
    Stranger,
}

const NATURES: [Nature; 6] =
    [Nature::Ours, Nature::NotPermitted, Nature::Unverifiable, Nature::Protected, Nature::Kept, Nature::Foreign];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    pid: i32,
    /// Tells two processes of one number apart.
    identity: Identity,
    nature: Nature,
    alive: bool,
}

impl Process {
    fn new(pid: i32, ticks: u64, nature: Nature) -> Self {
        let token = StartToken::Procfs { boot_id: String::new(), ticks };
        let identity = Identity { pid: Pid::new(pid).expect("positive"), token, pidfd_inode: None };
        Self { pid, identity, nature, alive: nature != Nature::Foreign }
    }

    /// A settled look names it as a process that is to be ended.
    fn is_listed(&self) -> bool {
        self.alive && !matches!(self.nature, Nature::Kept | Nature::Foreign | Nature::Stranger)
    }
}

/// How often the world may do what it could do for ever.
#[derive(Clone, Copy, Debug, Hash)]
struct Budget {
    forks: u8,
    reuses: u8,
    doubts: u8,
}

/// The processes, and what the explorer remembers of a path to judge it.
#[derive(Clone, Debug, Hash)]
struct World {
    processes: Vec<Process>,
    budget: Budget,
    /// Nothing was waited for since the last look.
    fresh: bool,
    /// Who was killed since the last look.
    killed: Vec<Identity>,
}

/// Faults with which the explorer proves that it finds some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Signals whoever has the number now.
    DoesNotJudge,
    /// Goes on with what it knew instead of a look.
    DoesNotLook,
    /// Takes a KILL for a death.
    BelievesKill,
    /// Takes a look that did not settle for one that did.
    BelievesAnyLook,
    /// Takes who cannot be verified for dead.
    FoldsDoubt,
    /// Looks again and again instead of coming to an end.
    NeverEnds,
}

/// The machine, perhaps with a fault around it.
#[derive(Clone)]
struct Subject {
    machine: Teardown,
    /// The last look was settled.
    complete: bool,
    fault: Option<Fault>,
}

impl Subject {
    fn poll(&mut self, now: Instant) -> Step {
        loop {
            let step = self.machine.poll_step(now);
            match (self.fault, &step) {
                (Some(Fault::DoesNotLook), Step::Rescan(_)) => self.handle(self.remembered()),
                (Some(Fault::NeverEnds), Step::Done) => return Step::Rescan(Depth::Trees),
                (_, _) => return step,
            }
        }
    }

    fn remembered(&self) -> Event {
        Event::Scanned { members: self.machine.targets.keys().cloned().collect(), complete: true }
    }

    fn handle(&mut self, event: Event) {
        let event = match (self.fault, event) {
            (Some(Fault::BelievesKill), Event::Delivered(identity, Signal::Kill))
            | (Some(Fault::FoldsDoubt), Event::Denied(identity, OutcomeKind::Unverifiable, _)) => {
                Event::Exited(identity)
            }
            (Some(Fault::BelievesAnyLook), Event::Scanned { members, .. }) => {
                Event::Scanned { members, complete: true }
            }
            (_, event) => event,
        };
        if let Event::Scanned { complete, .. } = &event {
            self.complete = *complete;
        }
        self.machine.handle(event);
    }

    /// What a receipt would say: everybody was observed dead, and nobody can have been missed.
    fn says_dead(&self) -> bool {
        let ended = |state: &State| {
            matches!(state, State::Exited | State::AlreadyGone | State::Denied(OutcomeKind::Foreign, _))
        };
        self.complete && self.machine.targets.values().all(ended)
    }
}

/// A state of the search: the machine waits for an answer to `step`.
#[derive(Clone)]
struct Node {
    subject: Subject,
    step: Step,
    world: World,
    now: Instant,
}

impl Node {
    fn key(&self, begun: Instant) -> u64 {
        let mut hasher = DefaultHasher::new();
        let Teardown {
            ladder: _,
            targets,
            queue,
            queued,
            phase,
            deadline,
            escalated,
            begun: signalled,
            rounds,
            deaths_before,
            cgroup,
            held,
            tenders,
            spared,
        } = &self.subject.machine;
        (&self.world, queue, queued, deadline.map(|at| at - begun), escalated, signalled).hash(&mut hasher);
        (rounds, deaths_before, cgroup, held.map(|at| at - begun), self.subject.complete, self.now - begun)
            .hash(&mut hasher);
        (tenders, spared).hash(&mut hasher);
        self.hash_place(*phase, begun, &mut hasher);
        for (identity, state) in targets {
            let state: (u8, bool, bool) = match state {
                State::Alive { signalled, blocked } => (0, *signalled, blocked.is_some()),
                State::Exited => (1, false, false),
                State::AlreadyGone => (2, false, false),
                State::Denied(outcome, _) => (3 + *outcome as u8, false, false),
            };
            (identity, state).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn hash_place(&self, phase: Phase, begun: Instant, hasher: &mut DefaultHasher) {
        let at = |moment: Instant| moment - begun;
        match phase {
            Phase::First => 0_u8.hash(hasher),
            Phase::Grace { until, next_look, pause } => (1_u8, at(until), at(next_look), pause).hash(hasher),
            Phase::Unsettled { look } => (2_u8, look.map(at)).hash(hasher),
            Phase::Look { then: Then::Confirm } => 3_u8.hash(hasher),
            Phase::Look { then: Then::Resume { until, due, pause } } => (4_u8, at(until), at(due), pause).hash(hasher),
            Phase::Look { then: Then::Kill { round, stuck } } => (5_u8, round, stuck).hash(hasher),
            Phase::Empty { round } => (6_u8, round).hash(hasher),
            Phase::Stop { round } => (7_u8, round).hash(hasher),
            Phase::LookStopped { round } => (8_u8, round).hash(hasher),
            Phase::Kill { round } => (9_u8, round).hash(hasher),
            Phase::Window { round, until } => (10_u8, round, at(until)).hash(hasher),
            Phase::Done => 11_u8.hash(hasher),
        }
        match &self.step {
            Step::Signal(identity, signal) => (0_u8, identity, signal).hash(hasher),
            Step::Rescan(depth) => (1_u8, *depth == Depth::Host).hash(hasher),
            Step::Empty => 2_u8.hash(hasher),
            Step::Wait(until) => (3_u8, at(*until)).hash(hasher),
            Step::Done => 4_u8.hash(hasher),
        }
    }

    /// Gives the machine its answer and asks it for its next step.
    fn answered(mut self, events: impl IntoIterator<Item = Event>) -> Self {
        for event in events {
            self.subject.handle(event);
        }
        self.step = self.subject.poll(self.now);
        self
    }

    fn process(&self, identity: &Identity) -> Option<&Process> {
        self.world.processes.iter().find(|process| process.identity == *identity)
    }

    fn occupant(&self, pid: i32) -> Option<&Process> {
        self.world.processes.iter().find(|process| process.alive && process.pid == pid)
    }

    /// Judges the state itself: it may be the last one, because the time of the stop is up.
    fn check(&self) -> Result<(), String> {
        for (identity, state) in &self.subject.machine.targets {
            let Some(process) = self.process(identity) else { return Err(format!("{identity} was made up")) };
            if process.alive && matches!(state, State::Exited | State::AlreadyGone) {
                return Err(format!("{identity} is called dead and lives"));
            }
            if process.nature == Nature::Unverifiable && matches!(state, State::Alive { signalled: true, .. }) {
                return Err(format!("{identity} cannot be verified, and was signalled"));
            }
        }
        if self.step != Step::Done {
            return Ok(());
        }
        if let Some(left) = self.world.processes.iter().find(|process| process.is_listed())
            && self.subject.says_dead()
        {
            return Err(format!("it says dead, and {left:?} lives"));
        }
        for process in self.world.processes.iter().filter(|process| process.alive) {
            let state = self.subject.machine.targets.get(&process.identity);
            let sound = match (process.nature, state) {
                (Nature::Unverifiable, Some(state)) => matches!(state, State::Denied(OutcomeKind::Unverifiable, _)),
                (Nature::Protected, Some(state)) => matches!(state, State::Denied(OutcomeKind::Refused, _)),
                (Nature::Kept | Nature::Stranger, state) => state.is_none(),
                (_, _) => true,
            };
            if !sound {
                return Err(format!("{process:?} ends as {state:?}"));
            }
        }
        Ok(())
    }

    /// What the world may do by itself before it answers.
    fn changes(&self) -> Vec<Self> {
        let mut next = Vec::new();
        let mut change = |act: &dyn Fn(&mut World)| {
            let mut node = self.clone();
            act(&mut node.world);
            next.push(node);
        };
        let free: Vec<i32> = {
            let mut pids: Vec<i32> = self.world.processes.iter().map(|process| process.pid).collect();
            pids.retain(|pid| self.occupant(*pid).is_none());
            pids.sort_unstable();
            pids.dedup();
            pids
        };
        let start = self.world.processes.len() as u64;
        let born = |pid, nature| Process::new(pid, 100 + start, nature);
        for (index, process) in self.world.processes.iter().enumerate().filter(|(_, process)| process.alive) {
            if matches!(process.nature, Nature::Stranger | Nature::Kept) {
                continue;
            }
            change(&|world| world.processes[index].alive = false);
            if self.world.budget.forks > 0 && process.nature == Nature::Ours {
                let unused = 50 + i32::try_from(start).expect("few");
                for pid in free.iter().copied().chain([unused]) {
                    change(&|world| {
                        world.budget.forks -= 1;
                        world.processes.push(born(pid, Nature::Ours));
                    });
                }
            }
        }
        if self.world.budget.reuses > 0 {
            for pid in free {
                change(&|world| {
                    world.budget.reuses -= 1;
                    world.processes.push(born(pid, Nature::Stranger));
                });
            }
        }
        next
    }

    /// Whom a settled look names.
    fn listed(&self) -> Vec<Identity> {
        let listed = self.world.processes.iter().filter(|process| process.is_listed());
        listed.map(|process| process.identity.clone()).collect()
    }

    /// What the shell around the machine may answer, as `conduct` does.
    fn answers(&self) -> Result<Vec<Self>, String> {
        match &self.step {
            Step::Done => Ok(Vec::new()),
            Step::Signal(target, signal) => self.signal(target, *signal),
            Step::Rescan(_) => {
                let mut looked = self.clone();
                (looked.world.fresh, looked.world.killed) = (true, Vec::new());
                let all = self.listed();
                // One that failed names nobody.
                let looks = [(all.clone(), true), (all, false), (Vec::new(), false)];
                Ok(looks
                    .map(|(members, complete)| looked.clone().answered([Event::Scanned { members, complete }]))
                    .into())
            }
            Step::Empty => {
                if !self.world.fresh {
                    return Err("the cgroup is emptied without a look".into());
                }
                let members = self.listed();
                let looked = Event::Scanned { members: members.clone(), complete: true };
                let spared = self.clone().answered([looked.clone(), Event::Spared]);
                // Not everybody of ours is in it. Who is in it is killed even where single signals are not permitted.
                let killed = |identity: &&Identity| {
                    let found = self.process(identity);
                    found.is_some_and(|process| matches!(process.nature, Nature::Ours | Nature::NotPermitted))
                };
                let mut emptied = self.clone();
                emptied.world.killed = members.iter().filter(killed).cloned().collect();
                let kills = emptied.world.killed.clone().into_iter();
                let events = kills.map(|identity| Event::Delivered(identity, Signal::Kill));
                Ok(vec![spared, emptied.answered([looked].into_iter().chain(events))])
            }
            Step::Wait(until) => {
                let mut waited = self.clone();
                waited.world.fresh = false;
                let ended: Vec<Event> = self
                    .subject
                    .machine
                    .alive()
                    .into_iter()
                    .filter(|identity| self.process(identity).is_none_or(|process| !process.alive))
                    .map(Event::Exited)
                    .collect();
                if ended.is_empty() {
                    if *until <= self.now {
                        return Err("it waits for a moment that has passed".into());
                    }
                    waited.now = *until;
                }
                Ok(vec![waited.answered(ended)])
            }
        }
    }

    fn signal(&self, target: &Identity, signal: Signal) -> Result<Vec<Self>, String> {
        if !self.world.fresh {
            return Err(format!("{target} gets {signal} without a look since the last wait"));
        }
        let mut next = self.clone();
        if signal == Signal::Kill {
            if self.world.killed.contains(target) {
                return Err(format!("{target} is killed twice without a look in between"));
            }
            next.world.killed.push(target.clone());
        }
        let delivered = || next.clone().answered([Event::Delivered(target.clone(), signal)]);
        if self.subject.fault == Some(Fault::DoesNotJudge) {
            return match self.occupant(target.pid.raw()) {
                Some(hit) if hit.nature != Nature::Ours => Err(format!("{hit:?} was signalled")),
                Some(_) | None => Ok(vec![delivered()]),
            };
        }
        let denied = |outcome| self.clone().answered([Event::Denied(target.clone(), outcome, String::new())]);
        let exited = || self.clone().answered([Event::Exited(target.clone())]);
        let Some(process) = self.process(target).filter(|process| process.alive) else {
            // A held process is known to have ended; of one that is not, its number may be somebody else's.
            let taken = self.occupant(target.pid.raw()).is_some();
            let foreign = taken.then(|| denied(OutcomeKind::Foreign));
            return Ok(foreign.into_iter().chain([exited()]).collect());
        };
        Ok(match process.nature {
            Nature::Ours if self.world.budget.doubts > 0 => {
                let mut doubted = denied(OutcomeKind::Unverifiable);
                doubted.world.budget.doubts -= 1;
                vec![delivered(), doubted]
            }
            Nature::Ours => vec![delivered()],
            Nature::NotPermitted => vec![self.clone().answered([Event::Undeliverable(target.clone(), "EPERM".into())])],
            Nature::Unverifiable => vec![denied(OutcomeKind::Unverifiable)],
            Nature::Protected => vec![denied(OutcomeKind::Refused)],
            Nature::Kept | Nature::Foreign | Nature::Stranger => return Err(format!("{process:?} is a target")),
        })
    }
}

/// The search.
struct Explorer {
    begun: Instant,
    /// How many steps the longest way on from a state takes; `None` while it is on the path.
    seen: HashMap<u64, Option<u32>>,
}

impl Explorer {
    fn new() -> Self {
        Self { begun: Instant::now(), seen: HashMap::new() }
    }

    /// Explores a world and returns how many steps its longest path has.
    fn explore(&mut self, natures: &[Nature], budget: Budget, how: How, fault: Option<Fault>) -> Result<u32, String> {
        let mut processes = Vec::new();
        for (pid, &nature) in (11..).zip(natures) {
            processes.push(Process::new(pid, 1, nature));
            if nature == Nature::Foreign {
                processes.push(Process::new(pid, 2, Nature::Stranger));
            }
        }
        let kept = |process: &&Process| !matches!(process.nature, Nature::Kept | Nature::Stranger);
        let targets: Vec<Identity> = processes.iter().filter(kept).map(|process| process.identity.clone()).collect();
        let first = targets.first().cloned();
        let mut machine = Teardown::new(how.ladder(), targets).with_cgroup(how.cgroup);
        if let Some(tender) = first.filter(|_| how.tended) {
            machine.handle(Event::Tends(tender));
        }
        let mut subject = Subject { machine, complete: true, fault };
        let step = subject.poll(self.begun);
        let world = World { processes, budget, fresh: true, killed: Vec::new() };
        self.visit(&Node { subject, step, world, now: self.begun }, 0)
    }

    fn visit(&mut self, node: &Node, depth: u32) -> Result<u32, String> {
        let key = node.key(self.begun);
        match self.seen.entry(key) {
            Entry::Occupied(known) => return known.get().ok_or_else(|| "it goes round in a circle".to_owned()),
            Entry::Vacant(new) => drop(new.insert(None)),
        }
        node.check()?;
        if depth > STEPS_MAX {
            return Err("it does not end".into());
        }
        let mut longest = 0;
        let next = node.answers()?;
        let changes = if node.step == Step::Done { Vec::new() } else { node.changes() };
        for next in next.into_iter().chain(changes) {
            let on = self.visit(&next, depth + 1).map_err(|error| format!("{error}\n  after {:?}", node.step))?;
            longest = longest.max(on + 1);
        }
        self.seen.insert(key, Some(longest));
        Ok(longest)
    }
}

/// More steps, the world's own among them, than any way through a ladder has.
const STEPS_MAX: u32 = 400;
#[expect(clippy::struct_excessive_bools, reason = "independent ways")]
#[derive(Clone, Copy, Debug)]
struct How {
    force: bool,
    cgroup: bool,
    /// The first of them comes last.
    tended: bool,
    /// As a shell's or an agent's: HUP comes first.
    terminal: bool,
}

impl How {
    fn ladder(self) -> Ladder {
        let first = [Signal::Hup, Signal::Term, Signal::Cont][usize::from(!self.terminal)..].to_vec();
        // One look in the grace: more of them are more of the same.
        Ladder { first, grace: FIRST_LOOK * 2, kill_window: FIRST_LOOK, force: self.force }
    }

    fn all() -> impl Iterator<Item = Self> {
        let bits = (0..16u8).map(|bits| [1, 2, 4, 8].map(|bit| bits & bit != 0));
        let hows = bits.map(|[force, cgroup, tended, terminal]| Self { force, cgroup, tended, terminal });
        // A forced stop knows no signal but KILL, and a cgroup is killed as a whole.
        hows.filter(|how| !(how.terminal && (how.force || how.cgroup)))
    }
}

/// Every set of so many natures.
fn worlds(size: usize) -> Vec<Vec<Nature>> {
    let mut worlds = vec![Vec::new()];
    for _ in 0..size {
        let longer = worlds.iter().flat_map(|world: &Vec<Nature>| {
            let last = world.last().copied();
            NATURES.into_iter().filter(move |nature| last.is_none_or(|last| last <= *nature)).map(|nature| {
                let mut world = world.clone();
                world.push(nature);
                world
            })
        });
        worlds = longer.collect();
    }
    worlds
}

/// Runs on a thread with room for deep paths.
fn with_room<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new().stack_size(256 << 20).spawn(act).expect("a thread").join().expect("no panic")
}

/// Explores all worlds of a size; returns how many states there were, and how long the longest path was.
fn check(size: usize, budget: Budget) -> (usize, u32) {
    with_room(move || {
        let (mut states, mut longest) = (0, 0);
        let searches = worlds(size).into_iter().flat_map(|world| How::all().map(move |how| (world.clone(), how)));
        for (natures, how) in searches {
            let mut explorer = Explorer::new();
            let steps = explorer.explore(&natures, budget, how, None);
            longest = longest.max(steps.unwrap_or_else(|error| panic!("{natures:?}, {how:?}: {error}")));
            states += explorer.seen.len();
        }
        (states, longest)
    })
}

#[expect(clippy::print_stdout, reason = "how much was explored is for whoever reads the output of the test")]
fn check_all(size: usize, budget: Budget, at_least: usize) {
    let begun = Instant::now();
    let (states, longest) = check(size, budget);
    println!("{size} processes, {budget:?}: {states} states, longest path {longest}, {:?}", begun.elapsed());
    assert!(states >= at_least, "only {states} states");
    assert!(longest < STEPS_MAX);
}

/// With `EXPLORE=deep` the worlds may do more; that takes minutes.
fn deep() -> bool {
    std::env::var_os("EXPLORE").is_some_and(|how| how == "deep")
}

#[test]
fn one_process_and_what_may_become_of_it() {
    check_all(1, Budget { forks: 1, reuses: 1, doubts: 1 }, 30_000);
    if deep() {
        check_all(1, Budget { forks: 2, reuses: 1, doubts: 1 }, 500_000);
    }
}

#[test]
fn two_processes_strangers_and_doubts() {
    check_all(2, Budget { forks: 0, reuses: 1, doubts: 1 }, 40_000);
    if deep() {
        check_all(2, Budget { forks: 1, reuses: 1, doubts: 1 }, 1_000_000);
    }
}

#[test]
fn two_processes_that_fork() {
    check_all(2, Budget { forks: 1, reuses: 0, doubts: 0 }, 150_000);
}

#[test]
fn three_processes() {
    check_all(3, Budget { forks: 0, reuses: 0, doubts: 0 }, 100_000);
    if deep() {
        check_all(3, Budget { forks: 1, reuses: 0, doubts: 0 }, 1_000_000);
    }
}

/// The search is worth something only if it finds what is wrong.
#[test]
fn every_fault_is_found() {
    for (fault, complaint) in [
        (Fault::DoesNotJudge, "was signalled"),
        (Fault::DoesNotLook, "without a look"),
        (Fault::BelievesKill, "is called dead and lives"),
        (Fault::BelievesAnyLook, "it says dead"),
        (Fault::FoldsDoubt, "is called dead and lives"),
        (Fault::NeverEnds, "in a circle"),
    ] {
        let found = with_room(move || {
            let budget = Budget { forks: 1, reuses: 1, doubts: 1 };
            let how = How { force: false, cgroup: false, tended: false, terminal: false };
            worlds(1).into_iter().find_map(|world| Explorer::new().explore(&world, budget, how, Some(fault)).err())
        });
        let found = found.unwrap_or_else(|| panic!("{fault:?} is not found"));
        assert!(found.contains(complaint), "{fault:?}: {found}");
    }
}
