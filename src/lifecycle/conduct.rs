//! Performs a teardown: the thin shell around the `teardown` machine.
//!
//! It holds the pidfds, asks `authority` before every signal, sends through the kill funnel, waits on
//! pidfds by epoll (a handle without a pidfd is looked at every few milliseconds), and notes what it
//! observed. The manager and the warden use this same shell.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll;

use super::authority::{Denied, Owned, Pinned, authorize};
use super::clock::timespec;
use super::guard::Guard;
use super::identity::Identity;
use super::inspect::{Inspector, Unreadable};
use super::kill::{Signal, Undelivered, deliver, deliver_all};
use super::leaf::Leaf;
use super::receipt::{OutcomeKind, SignalSent, Via};
use super::rows::command_of;
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
/// A little more than one clock tick (`CLK_TCK` is 100 wherever this runs).
const TICK: Duration = Duration::from_millis(12);

/// Ends the members of a capture that are to be ended. `rescan` captures again.
pub fn conduct(
    ladder: Ladder,
    captured: Captured,
    rescan: &mut dyn FnMut(Depth) -> Captured,
    stage: &mut Stage<'_>,
) -> Ended {
    let mut complete = captured.complete;
    let targets: Vec<Identity> = captured.to_end().map(|member| member.pinned.identity().clone()).collect();
    let mut shell =
        Shell { members: BTreeMap::new(), unbound: Vec::new(), signals: Vec::new(), waiting: Waiting::new() };
    shell.take_in(captured);
    let mut teardown = Teardown::new(ladder, targets).with_cgroup(stage.leaf.is_some());
    let mut timed_out = false;
    loop {
        let now = Instant::now();
        if stage.deadline.is_some_and(|deadline| now >= deadline) {
            timed_out = true;
            break;
        }
        match teardown.poll_step(now) {
            Step::Signal(target, signal) => {
                let event = shell.signal(&target, signal, stage);
                if let Event::Exited(identity) = &event {
                    (stage.observe)(Observed::Exited(identity.clone(), shell.command(identity, stage.inspector)));
                }
                teardown.handle(event);
            }
            Step::Rescan(depth) => {
                let before: BTreeSet<Identity> = shell.members.keys().cloned().collect();
                let captured = rescan(depth);
                complete = captured.complete;
                let targets: Vec<_> = captured.to_end().map(|member| member.pinned.identity().clone()).collect();
                shell.take_in(captured);
                for newcomer in targets.iter().filter(|identity| !before.contains(identity)) {
                    (stage.observe)(Observed::Newcomer(newcomer.clone(), shell.command(newcomer, stage.inspector)));
                }
                teardown.handle(Event::Scanned { members: targets, complete });
            }
            Step::Empty => {
                for event in shell.empty(rescan, stage) {
                    teardown.handle(event);
                }
            }
            Step::Wait(until) => {
                let until = stage.deadline.map_or(until, |deadline| until.min(deadline));
                for identity in shell.wait(&teardown.alive(), until, stage.inspector) {
                    (stage.observe)(Observed::Exited(identity.clone(), shell.command(&identity, stage.inspector)));
                    teardown.handle(Event::Exited(identity));
                }
            }
            Step::Done => break,
        }
    }
    // The last word on everybody who is not known to be dead is a look, not a memory.
    for identity in teardown.alive() {
        if shell.members.get(&identity).is_some_and(|member| member.pinned.has_ended(stage.inspector)) {
            (stage.observe)(Observed::Exited(identity.clone(), shell.command(&identity, stage.inspector)));
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
}

impl Shell {
    fn command(&self, identity: &Identity, inspector: &Inspector) -> String {
        self.members.get(identity).map(|member| command_of(member, inspector).0).unwrap_or_default()
    }

    /// Adds members that are not held yet; the union of all captures stays.
    fn take_in(&mut self, captured: Captured) {
        for member in captured.members {
            let identity = member.pinned.identity().clone();
            match self.members.get_mut(&identity) {
                Some(known) => known.membership.extend(member.membership),
                None => {
                    self.members.insert(identity, member);
                }
            }
        }
        for error in captured.unbound {
            if !self.unbound.iter().any(|known| known.pid == error.pid) {
                self.unbound.push(error);
            }
        }
    }

    fn signal(&mut self, target: &Identity, signal: Signal, stage: &mut Stage<'_>) -> Event {
        let Some(member) = self.members.get(target) else {
            return Event::Denied(target.clone(), OutcomeKind::Unverifiable, "it is not held".into());
        };
        if member.fate != Fate::End {
            return Event::Denied(target.clone(), OutcomeKind::Refused, "it is not to be ended".into());
        }
        let owned = match settled(&member.pinned, target, stage) {
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
        let Some(leaf) = &stage.leaf else { return vec![Event::Spared] };
        let frozen = leaf.freeze();
        let captured = rescan(Depth::Host);
        // Who is seen now for the first time is a target like any other, with an outcome of its own.
        let members = captured.to_end().map(|member| member.pinned.identity().clone()).collect();
        let mut events = vec![Event::Scanned { members, complete: captured.complete }];
        self.take_in(captured);
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
        let delivered = deliver_all(leaf, proofs);
        leaf.thaw();
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

    /// Waits for exits among `alive` and returns them; empty once `until` has come.
    fn wait(&mut self, alive: &[Identity], until: Instant, inspector: &Inspector) -> Vec<Identity> {
        let bare = self.waiting.watch(alive, &self.members);
        loop {
            let mut ended: Vec<Identity> = Vec::new();
            for identity in &bare {
                if self.members.get(identity).is_none_or(|member| member.pinned.has_ended(inspector)) {
                    ended.push(identity.clone());
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            let pause = if bare.is_empty() { left } else { left.min(BARE_POLL) };
            let pause = if ended.is_empty() { pause } else { Duration::ZERO };
            let signalled = self.waiting.ended(pause);
            for identity in &signalled {
                self.waiting.forget(identity, &self.members);
            }
            ended.extend(signalled);
            if !ended.is_empty() || Instant::now() >= until {
                return ended;
            }
        }
    }
}

/// Authorizes, and looks once more after a tick where the only doubt is that the process is too young.
fn settled<'p>(pinned: &'p Pinned, target: &Identity, stage: &Stage<'_>) -> Result<Owned<'p>, Denied> {
    let first = authorize(pinned, target, stage.guard, stage.inspector);
    let young = pinned.identity().pidfd_inode.is_none() && !pinned.facts().settled;
    match first {
        Err(Denied::Verdict(verdict)) if verdict.kind == VerdictKind::Unverifiable && young => {
            std::thread::sleep(TICK);
            authorize(pinned, target, stage.guard, stage.inspector)
        }
        Ok(_) | Err(_) => first,
    }
}

fn sent(target: &Identity, signal: Signal, via: Via) -> SignalSent {
    SignalSent { pid: target.pid, start_token: target.token.clone(), signal: signal.name().into(), via }
}

/// The pidfds that are waited on. Each is added once and leaves when its process has ended.
struct Waiting {
    epoll: Option<OwnedFd>,
    watched: Vec<Identity>,
    known: BTreeSet<Identity>,
}

impl Waiting {
    fn new() -> Self {
        Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC).ok(), watched: Vec::new(), known: BTreeSet::new() }
    }

    /// Adds whoever is not watched yet; returns those who cannot be.
    fn watch(&mut self, alive: &[Identity], members: &BTreeMap<Identity, Member>) -> Vec<Identity> {
        let mut bare = Vec::new();
        for identity in alive {
            if self.known.contains(identity) {
                continue;
            }
            let pidfd = members.get(identity).and_then(|member| member.pinned.pidfd());
            let data = epoll::EventData::new_u64(self.watched.len() as u64);
            let added = match (&self.epoll, pidfd) {
                (Some(epoll), Some(pidfd)) => epoll::add(epoll, pidfd, data, epoll::EventFlags::IN).is_ok(),
                (_, _) => false,
            };
            if added {
                self.watched.push(identity.clone());
                self.known.insert(identity.clone());
            } else {
                bare.push(identity.clone());
            }
        }
        bare
    }

    /// Returns who has ended, waiting for the first of them at most `pause`.
    fn ended(&mut self, pause: Duration) -> Vec<Identity> {
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
            let index = usize::try_from(data.u64()).unwrap_or(usize::MAX);
            ended.extend(self.watched.get(index).cloned());
        }
        ended
    }

    /// Stops watching one.
    fn forget(&mut self, identity: &Identity, members: &BTreeMap<Identity, Member>) {
        if let (Some(epoll), Some(pidfd)) =
            (&self.epoll, members.get(identity).and_then(|member| member.pinned.pidfd()))
        {
            epoll::delete(epoll, pidfd).ok();
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
