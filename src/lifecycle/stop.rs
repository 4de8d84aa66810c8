//! A stop from its capture to its receipt, in the order of the design (section 5).
//!
//! The manager and the warden both run this one implementation; what differs (which panes there are,
//! how the host is hung up) is behind [`Host`]. Everything in the receipt was observed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

pub(super) use self::observed::tell_gone;
use self::observed::{fill_beside, release, settle};
use super::authority::verify;
use super::clock::timespec;
use super::conduct::{Ended, Observed, Stage, conduct};
use super::guard::Guard;
use super::hold::Hold;
use super::identity::{Identity, Pid};
use super::inspect::{Facts, Inspector, Unreadable, listeners_of};
use super::kept;
use super::leaf::Leaf;
use super::plan::{self, Choice};
use super::receipt::Receipt;
use super::rows::{marked, row};
use super::teardown::{Ladder, State};
use super::tether::CapturedRecord;
use super::tree::{Captured, Depth, Fate, Member, Scope, capture};

mod observed;

/// Where a session lives, as far as a stop is concerned.
pub trait Host {
    /// Returns `pty` or `tmux`.
    fn name(&self) -> &'static str;

    /// Returns what the members follow from, asked afresh.
    ///
    /// # Errors
    /// When the host did not answer: nobody can tell then what belongs to the session.
    fn scope(&mut self) -> Result<Scope, String>;

    /// Returns whom an earlier stop of the session had captured that was never finished.
    fn begun(&self) -> Vec<Identity> {
        Vec::new()
    }

    /// Writes the captured identities down, so that a crash from here on leaves enough to finish.
    ///
    /// # Errors
    /// When the disk refuses; the stop goes on and says so.
    fn record(&mut self, captured: &[CapturedRecord]) -> Result<(), String>;

    /// Is told that its processes are going to be ended, and not yet by itself.
    ///
    /// # Errors
    /// When it could not get ready; the stop goes on and says so.
    fn prepare(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Closes the PTY master or ends the tmux session. A session that is gone already is a success.
    ///
    /// # Errors
    /// When the host did not do it.
    fn hang_up(&mut self, captured: &Captured) -> Result<(), String>;
}

/// What a stop is to do.
#[derive(Clone, Debug)]
pub struct Order<'a> {
    /// Id of the session, for the receipt.
    pub session: &'a str,
    /// How its processes are ended.
    pub ladder: Ladder,
    /// Signals nothing and returns the plan.
    pub dry_run: bool,
    /// The identities of a preview that a person confirmed.
    pub confirm: Option<&'a [Identity]>,
    /// Kept members that a person chose to end in this stop.
    pub end_kept: &'a [Choice],
    /// When it must have ended.
    pub timeout: Option<Duration>,
    /// Ends only what is left: the host is gone already.
    pub sweep: bool,
    /// Whether a person holds it before KILL.
    pub hold: Option<&'a Hold>,
}

/// Why nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The session holds this very program.
    #[error("this cookbook-tui runs inside the session (pid {0}): stop it from outside")]
    HoldsUs(Pid),
    /// Processes joined after the preview.
    #[error("the session changed since the preview: {0}")]
    Changed(String),
    /// Somebody was chosen who is not kept in it.
    #[error("{0}")]
    NotKept(String),
    /// The host did not answer.
    #[error("{0}")]
    Host(String),
}

/// How long our own front and warden may take to leave by themselves.
const LEAVE: Duration = Duration::from_millis(1500);

/// Runs a stop or a sweep.
///
/// # Errors
/// When it was refused before the first signal.
pub fn stop(
    order: &Order<'_>,
    host: &mut dyn Host,
    guard: &Guard,
    inspector: &Inspector,
    observe: &mut dyn FnMut(Observed),
) -> Result<Receipt, Refusal> {
    let begun = Instant::now();
    let mut scope = host.scope().map_err(Refusal::Host)?;
    let mut captured = look_first(&scope, guard, inspector)?;
    scope.end_kept = plan::chosen(&captured, order.end_kept).map_err(Refusal::NotKept)?;
    if !scope.end_kept.is_empty() {
        // With a server that is not kept goes whoever is below it.
        captured = look_first(&scope, guard, inspector)?;
    }
    // The rows read every command line, which is what a plan and a refusal show.
    let watched = scope
        .warden
        .as_ref()
        .is_some_and(|warden| captured.supervisors.iter().any(|s| s.pinned.identity().pid == warden.pid));
    let mut receipt = begin(order, host.name(), &captured, inspector);
    if let Some(confirmed) = order.confirm {
        plan::newcomers(&captured, confirmed, &scope.end_kept).map_err(Refusal::Changed)?;
    }
    if order.dry_run {
        receipt.plan = Some(plan::rows(&captured, &order.ladder));
        fill_beside(&mut receipt, captured.members.iter(), inspector);
        receipt.unverified = captured.unbound.iter().map(|error| error.pid).collect();
        receipt.elapsed_ms = millis(begun.elapsed());
        return Ok(receipt);
    }
    let ports = listeners_of(inspector, captured.members.iter().map(|member| member.pinned.identity().pid));
    let records = records_of(captured.members.iter());
    let begun_before = host.begun();
    if let Err(error) = host.record(&records) {
        receipt.notes.push(format!("the captured identities could not be written down: {error}"));
    }
    if let Err(error) = host.prepare() {
        receipt.notes.push(format!("the host could not be made ready for the end of its processes: {error}"));
    }
    let deadline = order.timeout.map(|timeout| begun + timeout);
    let blind = captured.blind;
    let hang_up = !order.sweep;
    let leaf = scope.cgroup.as_ref().and_then(Leaf::open);
    // Who stands still could not act on a signal.
    leaf.iter().for_each(Leaf::thaw);
    let mut stage = Stage { inspector, guard, leaf, deadline, hold: order.hold, observe };
    let mut tree = Tree { scope, host: &mut *host, guard, inspector };
    let mut result =
        if blind { Total::blind(captured) } else { Total::of(tree.end(order.ladder.clone(), captured, &mut stage)) };
    // The host may only be hung up with a capture in hand. Whoever came meanwhile goes through the ladder first.
    let mut before = if blind { Captured::blind() } else { tree.look_before_hang_up() };
    for _ in 0..LATECOMERS {
        if result.timed_out || !result.would_end_more(&before) {
            break;
        }
        result.merge(tree.end(order.ladder.clone(), before, &mut stage));
        before = tree.look_before_hang_up();
    }
    let Tree { mut scope, .. } = tree;
    scope
        .known
        .extend(records_of(result.members.values()).into_iter().map(|record| (record.identity, record.membership)));
    if result.timed_out {
        receipt.notes.push("its host was left open: what is left can still be stopped".into());
    } else if hang_up {
        match host.hang_up(&before) {
            Ok(()) => receipt.host_closed = true,
            Err(error) => receipt.notes.push(format!("the host could not be closed: {error}")),
        }
    } else {
        receipt.host_closed = true;
    }
    if !blind && !result.timed_out {
        // The sweep: a fresh look at the whole host for what is left and for newcomers.
        let left = capture(&scope, Depth::Host, guard, inspector);
        if result.would_end_more(&left) || !left.complete {
            let ladder = Ladder { grace: order.ladder.grace.min(SWEEP_GRACE), ..order.ladder.clone() };
            let mut rescan = |depth| capture(&scope, depth, guard, inspector);
            result.merge(conduct(ladder, left, &mut rescan, &mut stage));
        } else {
            result.take_in(left);
        }
        // A warden that runs this itself waits neither for itself nor for its front, which leaves after it.
        let others = before.supervisors.into_iter().filter(|_| hang_up).collect();
        if dismiss(others, &mut result, &mut stage, &mut receipt) {
            // A warden stays as long as somebody below it does.
            result.survivors_of(capture(&scope, Depth::Trees, guard, inspector));
        }
    }
    await_unbound(&result);
    settle(&mut receipt, &result, blind, inspector);
    if !blind {
        let known = "captured by a stop that was not finished";
        tell_gone(&mut receipt.outcomes, &begun_before, known, |identity| verify(identity, inspector).kind);
    }
    if let Some(marker) = scope.marker.as_deref().filter(|_| !blind && !watched) {
        let marked = marked(result.members.values(), marker, guard, inspector);
        let named = receipt.unverified.clone();
        receipt.escapees.extend(marked.into_iter().filter(|row| !named.contains(&row.pid)));
    }
    release(&mut receipt, ports, inspector);
    receipt.elapsed_ms = millis(begun.elapsed());
    Ok(receipt)
}

/// Tells whether a stop would be refused, before anything is done for it.
///
/// # Errors
/// With why it would be.
pub fn check(host: &mut dyn Host, guard: &Guard, inspector: &Inspector) -> Result<(), Refusal> {
    look_first(&host.scope().map_err(Refusal::Host)?, guard, inspector).map(drop)
}

fn look_first(scope: &Scope, guard: &Guard, inspector: &Inspector) -> Result<Captured, Refusal> {
    let captured = capture(scope, Depth::Host, guard, inspector);
    let is_kept =
        |facts: &Facts| !inspector.is_one_of(facts, &scope.end_kept) && kept::recognise(facts, inspector).is_some();
    let members: Vec<&Facts> = captured.members.iter().map(|member| member.pinned.facts()).collect();
    match holds_asker(&members, guard, is_kept) {
        Some(pid) => Err(Refusal::HoldsUs(pid)),
        None => Ok(captured),
    }
}

/// Returns the member which is whoever asks for a stop, or above it. What is below a multiplexer server or a kept
/// daemon is none of the session: whoever asks from there is outside.
fn holds_asker(members: &[&Facts], guard: &Guard, is_kept: impl Fn(&Facts) -> bool) -> Option<Pid> {
    let is_edge = |facts: &Facts| guard.server(facts.pid).is_some() || is_kept(facts);
    let asker = members.iter().find(|facts| guard.asks(facts));
    asker.or_else(|| members.iter().find(|facts| guard.is_above(facts) && !is_edge(facts))).map(|facts| facts.pid)
}

/// Grace of the survivor sweep: the members have had a whole ladder already.
const SWEEP_GRACE: Duration = Duration::from_millis(500);

/// Times that latecomers are ended before the host is hung up all the same; the sweep has the last word.
const LATECOMERS: u32 = 3;

/// The members of the session while it is being ended.
struct Tree<'a> {
    scope: Scope,
    host: &'a mut dyn Host,
    guard: &'a Guard,
    inspector: &'a Inspector,
}

impl Tree<'_> {
    fn end(&mut self, ladder: Ladder, captured: Captured, stage: &mut Stage<'_>) -> Ended {
        conduct(ladder, captured, &mut |depth| self.look(depth), stage)
    }

    /// Captures the trees of all panes that there are now. The sweep after the hang-up reads the whole host.
    fn look_before_hang_up(&mut self) -> Captured {
        self.ask_host();
        self.look(Depth::Trees)
    }

    fn ask_host(&mut self) {
        if let Ok(fresh) = self.host.scope() {
            self.scope.panes = fresh.panes;
        }
    }

    /// Captures again. Before an escalation the host is asked again, too: a window may have been opened. A host
    /// that does not answer any more leaves what is known.
    fn look(&mut self, depth: Depth) -> Captured {
        if depth == Depth::Host {
            self.ask_host();
        }
        capture(&self.scope, depth, self.guard, self.inspector)
    }
}

fn begin(order: &Order<'_>, host: &str, captured: &Captured, inspector: &Inspector) -> Receipt {
    let mut receipt = Receipt {
        session: order.session.to_owned(),
        host: host.to_owned(),
        captured: captured.members.iter().map(|member| row(member, inspector, None)).collect(),
        ..Receipt::default()
    };
    if captured.blind {
        receipt.notes.push("could not look at the process table: nobody can tell what is left".into());
    } else if !captured.complete {
        receipt.notes.push("the process table changed with every look: processes may be missing here".into());
    }
    receipt
}

fn records_of<'a>(members: impl Iterator<Item = &'a Member>) -> Vec<CapturedRecord> {
    members
        .filter(|member| member.fate == Fate::End)
        .map(|member| CapturedRecord {
            identity: member.pinned.identity().clone(),
            membership: member.membership.clone(),
        })
        .collect()
}

/// The union of what one or more teardowns came to.
#[derive(Debug, Default)]
struct Total {
    targets: BTreeMap<Identity, State>,
    members: BTreeMap<Identity, Member>,
    unbound: Vec<Unreadable>,
    signals: Vec<super::receipt::SignalSent>,
    escalated: bool,
    timed_out: bool,
    /// The last look did not see the table stand still: somebody may be left whom nobody could hold.
    unsettled: bool,
}

impl Total {
    fn blind(captured: Captured) -> Self {
        let mut total = Self::default();
        total.take_in(captured);
        total
    }

    fn of(ended: Ended) -> Self {
        let mut total = Self::default();
        total.merge(ended);
        total
    }

    /// Adds a later teardown: what it observed is newer.
    fn merge(&mut self, ended: Ended) {
        for (identity, state) in ended.targets {
            let known = self.targets.get(&identity);
            // It was alive in the first teardown, whatever the second one did not have to do.
            let state = match (known, state) {
                (Some(State::Alive { .. } | State::Exited), State::AlreadyGone) => State::Exited,
                (_, state) => state,
            };
            self.targets.insert(identity, state);
        }
        for (identity, member) in ended.members {
            self.members.entry(identity).or_insert(member);
        }
        self.unbound.extend(ended.unbound);
        self.signals.extend(ended.signals);
        self.escalated |= ended.escalated;
        self.timed_out |= ended.timed_out;
        self.unsettled = !ended.complete;
    }

    fn take_in(&mut self, captured: Captured) {
        for member in captured.members {
            self.members.entry(member.pinned.identity().clone()).or_insert(member);
        }
        self.unbound.extend(captured.unbound);
        self.unsettled = !captured.complete;
    }

    /// Adds whom a look after everything finds alive.
    fn survivors_of(&mut self, captured: Captured) {
        self.unsettled = !captured.complete;
        for member in captured.members {
            let identity = member.pinned.identity().clone();
            if member.fate == Fate::End && !member.pinned.facts().ended() {
                let state = self.targets.entry(identity.clone()).or_insert(State::Exited);
                // Of whom more is known than that it lives, that stays.
                if matches!(state, State::Exited | State::AlreadyGone) {
                    *state = State::Alive { signalled: false, blocked: None };
                }
            }
            self.members.entry(identity).or_insert(member);
        }
    }

    /// Tells whether a capture holds somebody who has not had a whole ladder.
    fn would_end_more(&self, captured: &Captured) -> bool {
        let settled = self.settled();
        captured.to_end().any(|member| !settled.contains(member.pinned.identity()))
    }

    /// Returns the targets for which another ladder would change nothing.
    fn settled(&self) -> BTreeSet<&Identity> {
        let hopeless = |state: &State| match state {
            State::Alive { blocked, .. } => blocked.is_some() || self.escalated,
            State::Denied(..) | State::Exited | State::AlreadyGone => true,
        };
        self.targets.iter().filter(|(_, state)| hopeless(state)).map(|(identity, _)| identity).collect()
    }
}

/// Waits for our own front and warden; they leave by themselves once their tree is empty. Tells whether one has
/// not, and nobody knows why.
fn dismiss(supervisors: Vec<Member>, result: &mut Total, stage: &mut Stage<'_>, receipt: &mut Receipt) -> bool {
    let until = Instant::now() + LEAVE;
    let lingering = |result: &Total, inspector: &Inspector| {
        // With a kept or reported process alive the warden stays: it is its parent now.
        result.members.values().any(|m| m.fate != Fate::End && !m.pinned.has_ended(inspector))
    };
    let mut left: Vec<Member> = supervisors;
    loop {
        left.retain(|member| !member.pinned.has_ended(stage.inspector));
        if left.is_empty() || Instant::now() >= until || lingering(result, stage.inspector) {
            break;
        }
        wait_for_any(&left, until);
    }
    let known = lingering(result, stage.inspector);
    for member in &left {
        if known {
            receipt
                .notes
                .push(format!("its supervisor {} stays until the kept processes leave", member.pinned.identity().pid));
        } else {
            receipt.notes.push(format!("its supervisor {} has not left yet", member.pinned.identity().pid));
        }
    }
    !left.is_empty() && !known
}

fn wait_for_any(members: &[Member], until: Instant) {
    use rustix::event::{PollFd, PollFlags, poll};
    let left = until.saturating_duration_since(Instant::now());
    let timeout = timespec(left);
    let pidfds: Vec<_> = members.iter().filter_map(|member| member.pinned.pidfd()).collect();
    if pidfds.len() < members.len() {
        return std::thread::sleep(Duration::from_millis(5).min(left));
    }
    let mut fds: Vec<_> = pidfds.iter().map(|pidfd| PollFd::new(pidfd, PollFlags::IN)).collect();
    poll(&mut fds, Some(&timeout)).ok();
}

/// How long whoever could not be bound may take to end before it is called unverifiable: a child of a shell that was
/// just ended, say, which has nobody left to be bound by.
const PASSING: Duration = Duration::from_millis(300);

fn await_unbound(result: &Total) {
    use super::kill::{Existence, probe};
    let until = Instant::now() + PASSING;
    let is_there = |error: &Unreadable| {
        let known = result.targets.keys().any(|identity| identity.pid == error.pid);
        !known && probe(error.pid) != Existence::Absent
    };
    while result.unbound.iter().any(is_there) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
