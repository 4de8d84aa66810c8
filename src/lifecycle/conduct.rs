//! Performs a teardown: the thin shell around the `teardown` machine.
//!
//! It holds the pidfds, asks `authority` before every signal, sends through the kill funnel, waits on
//! pidfds by epoll (a handle without a pidfd is looked at every few milliseconds), and notes what it
//! observed. The manager and the warden use this same shell.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll;

use super::authority::{Denied, Pinned, authorize};
use super::clock::timespec;
use super::guard::Guard;
use super::hold::Hold;
use super::identity::Identity;
use super::inspect::{Inspector, Unreadable};
use super::kill::{Signal, Undelivered, deliver, deliver_all};
use super::leaf::Leaf;
use super::receipt::{OutcomeKind, SignalSent, Via};
use super::rows::{command_of, known_command_of};
use super::teardown::{Event, Ladder, State, Step, Teardown};
use super::tree::{Captured, Depth, Fate, Member};
use super::verdict::VerdictKind;

/// Something seen during a teardown, for whoever watches it live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observed {
    /// A signal was delivered.
    Signalled(Identity, Signal),
    /// A process was observed dead; its masked command line.
    Exited(Identity, String),
    /// A process joined that was not in the first capture; its masked command line.
    Newcomer(Identity, String),
}

/// What a teardown needs besides its targets.
pub struct Stage<'a> {
    /// Reads the process table.
    pub inspector: &'a Inspector,
    /// Knows who must not be signalled.
    pub guard: &'a Guard,
    /// The session's cgroup, for the last rung.
    pub leaf: Option<Leaf>,
    /// When to give up, whatever is still alive.
    pub deadline: Option<Instant>,
    /// Whether a person holds it before KILL.
    pub hold: Option<&'a Hold>,
    /// Is told what happens while it happens.
    pub observe: &'a mut dyn FnMut(Observed),
}

/// What a teardown came to.
#[derive(Debug)]
pub struct Ended {
    /// Every process that was a target, and where it stands.
    pub targets: Vec<(Identity, State)>,
    /// The members behind the targets, and those that were not to be ended.
    pub members: BTreeMap<Identity, Member>,
    /// Members whose identity could not be bound, from all looks.
    pub unbound: Vec<Unreadable>,
    /// The signals that were sent.
    pub signals: Vec<SignalSent>,
    /// KILL was needed.
    pub escalated: bool,
    /// The deadline came before the end.
    pub timed_out: bool,
    /// The last look saw the table stand still.
    pub complete: bool,
}

/// How often a process without a pidfd is looked at.
const BARE_POLL: Duration = Duration::from_millis(10);

/// Ends the members of a capture that are to be ended. `rescan` captures again.
pub fn conduct(
    ladder: Ladder,
    captured: Captured,
    rescan: &mut dyn FnMut(Depth) -> Captured,
    stage: &mut Stage<'_>,
) -> Ended {
    let mut complete = captured.complete;
    let targets: Vec<Identity> = captured.to_end().map(|member| member.pinned.identity().clone()).collect();
    let mut shell = Shell::new(stage.hold);
    shell.take_in(captured);
    let mut teardown = Teardown::new(ladder, targets).with_cgroup(stage.leaf.is_some());
    shell.name_tenders(&mut teardown);
    let (mut timed_out, mut held) = (false, None);
    loop {
        let now = Instant::now();
        if stage.deadline.is_some_and(|deadline| now >= deadline) {
            timed_out = true;
            break;
        }
        let wish = stage.hold.and_then(|hold| hold.until(now));
        if wish != held {
            held = wish;
            teardown.handle(wish.map_or(Event::Released, Event::Held));
        }
        match teardown.poll_step(now) {
            Step::Signal(target, signal) => {
                let event = shell.signal(&target, signal, stage);
                if let Event::Exited(identity) = &event {
                    (stage.observe)(Observed::Exited(identity.clone(), shell.known_command(identity)));
                }
                teardown.handle(event);
            }
            Step::Rescan(depth) => {
                let targets;
                (targets, complete) = shell.look(depth, rescan, stage);
                shell.name_tenders(&mut teardown);
                teardown.handle(Event::Scanned { members: targets, complete });
            }
            Step::Empty => {
                let events = shell.empty(rescan, stage);
                shell.name_tenders(&mut teardown);
                for event in events {
                    teardown.handle(event);
                }
            }
            Step::Wait(until) => {
                let until = stage.deadline.map_or(until, |deadline| until.min(deadline));
                for identity in shell.wait(&teardown, until, held, stage) {
                    (stage.observe)(Observed::Exited(identity.clone(), shell.known_command(&identity)));
                    teardown.handle(Event::Exited(identity));
                }
            }
            Step::Done => break,
        }
    }
    // The last word on everybody who is not known to be dead is a look, not a memory.
    for identity in teardown.alive() {
        if shell.members.get(&identity).is_some_and(|member| member.pinned.has_ended(stage.inspector)) {
            (stage.observe)(Observed::Exited(identity.clone(), shell.known_command(&identity)));
            teardown.handle(Event::Exited(identity));
        }
    }
    Ended {
        targets: teardown.targets().map(|(identity, state)| (identity.clone(), state.clone())).collect(),
        members: shell.members,
        unbound: shell.unbound,
        signals: shell.signals,
        escalated: teardown.escalated(),
        timed_out,
        complete,
    }
}

struct Shell {
    members: BTreeMap<Identity, Member>,
    unbound: Vec<Unreadable>,
    signals: Vec<SignalSent>,
    waiting: Waiting,
    /// Members to be ended on whom nobody can wait.
    bare: Vec<Identity>,
}

impl Shell {
    fn new(hold: Option<&Hold>) -> Self {
        Self {
            members: BTreeMap::new(),
            unbound: Vec::new(),
            signals: Vec::new(),
            waiting: Waiting::new(hold),
            bare: Vec::new(),
        }
    }

    /// Says who of them comes last.
    fn name_tenders(&self, teardown: &mut Teardown) {
        for (identity, _) in self.members.iter().filter(|(_, member)| member.tends) {
            teardown.handle(Event::Tends(identity.clone()));
        }
    }

    /// Returns the command line of one that has ended, as it was read before: its pid may be another's by now.
    fn known_command(&self, identity: &Identity) -> String {
        self.members.get(identity).map(known_command_of).unwrap_or_default()
    }

    fn command(&self, identity: &Identity, inspector: &Inspector) -> String {
        self.members.get(identity).map(|member| command_of(member, inspector).0).unwrap_or_default()
    }

    /// Adds members that are not held yet, and returns those of them that are to be ended; the union of all captures
    /// stays.
    fn take_in(&mut self, captured: Captured) -> Vec<Identity> {
        let mut new = Vec::new();
        for member in captured.members {
            let identity = member.pinned.identity().clone();
            if let Some(known) = self.members.get_mut(&identity) {
                known.membership.extend(member.membership);
                known.pinned.confirm(&member.pinned);
                continue;
            }
            if member.fate == Fate::End {
                if !self.waiting.watch(&identity, &member.pinned) {
                    self.bare.push(identity.clone());
                }
                new.push(identity.clone());
            }
            self.members.insert(identity, member);
        }
        for error in captured.unbound {
            if !self.unbound.iter().any(|known| known.pid == error.pid) {
                self.unbound.push(error);
            }
        }
        new
    }

    /// Captures again; returns those that are to be ended, and whether the table stood still.
    fn look(
        &mut self,
        depth: Depth,
        rescan: &mut dyn FnMut(Depth) -> Captured,
        stage: &mut Stage<'_>,
    ) -> (Vec<Identity>, bool) {
        let captured = rescan(depth);
        let complete = captured.complete;
        let targets = captured.to_end().map(|member| member.pinned.identity().clone()).collect();
        for newcomer in self.take_in(captured) {
            let command = self.command(&newcomer, stage.inspector);
            (stage.observe)(Observed::Newcomer(newcomer, command));
        }
        (targets, complete)
    }

    fn signal(&mut self, target: &Identity, signal: Signal, stage: &mut Stage<'_>) -> Event {
        let Some(member) = self.members.get(target) else {
            return Event::Denied(target.clone(), OutcomeKind::Unverifiable, "it is not held".into());
        };
        if member.fate != Fate::End {
            return Event::Denied(target.clone(), OutcomeKind::Refused, "it is not to be ended".into());
        }
        let owned = match authorize(&member.pinned, target, stage.guard, stage.inspector) {
            Ok(owned) => owned,
            Err(Denied::Protected(reason)) => return Event::Denied(target.clone(), OutcomeKind::Refused, reason),
            Err(Denied::Verdict(verdict)) => {
                return match verdict.kind {
                    VerdictKind::Gone => Event::Exited(target.clone()),
                    VerdictKind::Foreign => Event::Denied(target.clone(), OutcomeKind::Foreign, verdict.reason),
                    VerdictKind::Owned | VerdictKind::Unverifiable => {
                        Event::Denied(target.clone(), OutcomeKind::Unverifiable, verdict.reason)
                    }
                };
            }
        };
        match deliver(owned, signal) {
            Ok(via) => {
                if let Some(hold) = stage.hold.filter(|_| signal == Signal::Kill) {
                    hold.pass();
                }
                (stage.observe)(Observed::Signalled(target.clone(), signal));
                self.signals.push(sent(target, signal, via));
                Event::Delivered(target.clone(), signal)
            }
            Err(Undelivered::Gone) => Event::Exited(target.clone()),
            Err(Undelivered::NotPermitted) => {
                Event::Undeliverable(target.clone(), "not permitted: it runs as another user".into())
            }
            Err(Undelivered::Failed(error)) => {
                Event::Undeliverable(target.clone(), format!("failed to signal: {error}"))
            }
        }
    }

    /// Kills the cgroup of the session as a whole, if everybody in it is ours to end at this moment; says whom it saw.
    fn empty(&mut self, rescan: &mut dyn FnMut(Depth) -> Captured, stage: &mut Stage<'_>) -> Vec<Event> {
        let Some(leaf) = stage.leaf.take() else { return vec![Event::Spared] };
        let frozen = leaf.freeze();
        // Whoever is found now, while all stand still, is ended with the others: the machine is to know of them.
        let (members, complete) = self.look(Depth::Host, rescan, stage);
        let mut events = vec![Event::Scanned { members, complete }];
        let listed = frozen.and_then(|()| leaf.pids()).unwrap_or_default();
        let mut proofs = Vec::new();
        let mut proven = Vec::new();
        for (identity, member) in self.members.iter().filter(|(identity, _)| listed.contains(&identity.pid)) {
            // One of them that has ended meanwhile, or was denied, has no proof.
            if member.fate == Fate::End
                && let Ok(owned) = authorize(&member.pinned, identity, stage.guard, stage.inspector)
            {
                proofs.push(owned);
                proven.push(identity.clone());
            }
        }
        let delivered = deliver_all(&leaf, proofs);
        leaf.thaw();
        stage.leaf = Some(leaf);
        match delivered {
            Ok(via) => {
                for identity in &proven {
                    (stage.observe)(Observed::Signalled(identity.clone(), Signal::Kill));
                    self.signals.push(sent(identity, Signal::Kill, via));
                }
                events.extend(proven.into_iter().map(|identity| Event::Delivered(identity, Signal::Kill)));
            }
            Err(_) => events.push(Event::Spared),
        }
        events
    }

    /// Waits for exits among those who are alive and returns them; empty once `until` has come, or a person holds it or
    /// lets it go on.
    fn wait(&mut self, teardown: &Teardown, until: Instant, held: Option<Instant>, stage: &Stage<'_>) -> Vec<Identity> {
        self.bare.retain(|identity| teardown.is_alive(identity));
        loop {
            let has_ended = |identity: &&Identity| {
                self.members.get(*identity).is_none_or(|member| member.pinned.has_ended(stage.inspector))
            };
            let mut ended: Vec<Identity> = self.bare.iter().filter(has_ended).cloned().collect();
            let left = until.saturating_duration_since(Instant::now());
            let pause = if self.bare.is_empty() { left } else { left.min(BARE_POLL) };
            let pause = if ended.is_empty() { pause } else { Duration::ZERO };
            let signalled = self.waiting.ended(pause, &self.members, stage.hold);
            // Whoever was denied is not waited for, and whoever was found gone is known already.
            ended.extend(signalled.into_iter().filter(|identity| teardown.is_alive(identity)));
            let now = Instant::now();
            let changed = stage.hold.is_some_and(|hold| hold.until(now) != held);
            if !ended.is_empty() || changed || now >= until {
                return ended;
            }
        }
    }
}

fn sent(target: &Identity, signal: Signal, via: Via) -> SignalSent {
    SignalSent { pid: target.pid, start_token: target.token.clone(), signal: signal.name().into(), via }
}

/// The pidfds that are waited on. Each is added once and leaves when its process has ended.
struct Waiting {
    epoll: Option<OwnedFd>,
    watched: Vec<Identity>,
    /// There is a wish to look at that wakes nobody.
    deaf: bool,
}

/// What the bell of a hold is known by among the processes that are waited for.
const BELL: u64 = u64::MAX;
/// How often a wish is looked at that wakes nobody.
const DEAF_POLL: Duration = Duration::from_millis(200);

impl Waiting {
    fn new(hold: Option<&Hold>) -> Self {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).ok();
        let bell = hold.and_then(Hold::bell);
        let rings = epoll.as_ref().zip(bell).is_some_and(|(epoll, bell)| {
            epoll::add(epoll, bell, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN).is_ok()
        });
        Self { epoll, watched: Vec::new(), deaf: hold.is_some() && !rings }
    }

    /// Adds one; tells whether that can be done.
    fn watch(&mut self, identity: &Identity, pinned: &Pinned) -> bool {
        let (Some(epoll), Some(pidfd)) = (&self.epoll, pinned.pidfd()) else { return false };
        let data = epoll::EventData::new_u64(self.watched.len() as u64);
        let added = epoll::add(epoll, pidfd, data, epoll::EventFlags::IN).is_ok();
        if added {
            self.watched.push(identity.clone());
        }
        added
    }

    /// Returns who has ended, waiting for the first of them at most `pause`. They are not watched any more.
    fn ended(&mut self, pause: Duration, members: &BTreeMap<Identity, Member>, hold: Option<&Hold>) -> Vec<Identity> {
        let pause = if self.deaf { pause.min(DEAF_POLL) } else { pause };
        let Some(epoll) = &self.epoll else {
            std::thread::sleep(pause);
            return Vec::new();
        };
        let timeout = timespec(pause);
        let mut events = Vec::with_capacity(256);
        // An interrupted wait is a short wait; the caller looks at its clock.
        if epoll::wait(epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout)).is_err() {
            return Vec::new();
        }
        let mut ended = Vec::new();
        for event in &events {
            let data = event.data;
            if data.u64() == BELL {
                hold.inspect(|hold| hold.heard());
                continue;
            }
            let index = usize::try_from(data.u64()).unwrap_or(usize::MAX);
            let Some(identity) = self.watched.get(index) else { continue };
            if let Some(pidfd) = members.get(identity).and_then(|member| member.pinned.pidfd()) {
                epoll::delete(epoll, pidfd).ok();
            }
            ended.push(identity.clone());
        }
        ended
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
