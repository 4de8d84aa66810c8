//! Waits for the ends of workloads: one thread, one poll over all pidfds.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::Inner;
use super::restarts::Followed;
use super::session::{Session, State};
use crate::app::event::Event;
use crate::lifecycle::authority::{Pin, Pinned, verify};
use crate::lifecycle::identity::Identity;
use crate::lifecycle::journal::Act;
use crate::lifecycle::receipt::Receipt;
use crate::lifecycle::verdict::VerdictKind;

/// How long the warden may take to record an exit that was seen.
const RECORD: Duration = Duration::from_secs(1);

/// How often is looked whether a stop of somebody else is done.
const DONE: Duration = Duration::from_millis(10);

/// How long the reader may take to read what was printed before the end; a grandchild that holds the slave
/// makes it wait for all of this.
const DRAIN: Duration = Duration::from_millis(50);

/// How the watching thread is told of new sessions.
pub(super) struct Watcher {
    sender: Mutex<Sender<Arc<Session>>>,
    wake: Arc<OwnedFd>,
}

/// Starts the watching thread.
pub(super) fn start(inner: &Arc<Inner>) {
    inner.watcher.get_or_init(|| {
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?);
        let (sender, receiver) = channel();
        let (weak, ours) = (Arc::downgrade(inner), Arc::clone(&wake));
        std::thread::spawn(move || watch(&weak, &receiver, &ours));
        Some(Watcher { sender: Mutex::new(sender), wake })
    });
    for session in inner.all() {
        inner.watch_exit(&session);
    }
}

impl Inner {
    /// Has a session's workload watched, where the watching thread runs.
    pub(super) fn watch_exit(&self, session: &Arc<Session>) {
        let Some(Some(watcher)) = self.watcher.get() else { return };
        // It has as many ends as panes; the sampler sees the last.
        if session.tether().adoption.is_some() {
            return;
        }
        let sender = watcher.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if sender.send(Arc::clone(session)).is_ok() {
            rustix::io::write(&*watcher.wake, &1_u64.to_ne_bytes()).ok();
        }
    }

    /// Waits, for a short time only, until the warden has recorded how an ended workload ended. A
    /// warden that is gone records nothing any more.
    pub(super) fn await_exit(&self, session: &Arc<Session>) {
        // What was printed before the end is on the screen before anybody hears of the end.
        if let Some(owned) = session.pty.as_ref().filter(|_| !session.state().over) {
            owned.pty.drain(DRAIN);
        }
        // Its warden starts it again, or says that it does not.
        if self.restarts(&session.tether()) {
            return;
        }
        let warden = session.tether().warden;
        let until = Instant::now() + RECORD;
        loop {
            if session.state().over {
                return;
            }
            let alive = warden.as_ref().is_some_and(|warden| self.may_live(warden));
            let exit = self.store.exit(&session.id);
            if exit.is_some() || !alive || Instant::now() >= until {
                // One that died in the pause before a restart has said in the record how the run before ended.
                let exit = exit.or_else(|| session.tether().exit_in_pause().filter(|_| !alive).cloned());
                let elsewhere = self.is_ended_elsewhere(session, &session.state());
                if !elsewhere {
                    // Looked into first: nobody hears of a failure before its reason.
                    self.look_into(session, exit.as_ref(), None);
                }
                let mut state = session.state();
                if state.over {
                    return;
                }
                state.elsewhere |= elsewhere || self.is_ended_elsewhere(session, &state);
                state.exit = state.exit.take().or(exit);
                state.over = true;
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Tells whether somebody else ends a session, or has ended it: another manager, or its warden. `state` is held while
    /// this is asked, so that no other thread of ours takes our own look for somebody's stop.
    pub(super) fn is_ended_elsewhere(&self, session: &Session, state: &State) -> bool {
        // Whoever stops it holds its lock now; by the end of that its record is gone, or a receipt is there.
        !state.stopping
            && state.receipt.is_none()
            && (self.is_under_way(session) || !self.store.tether_path(&session.id).exists() || {
                self.stored_receipt(&session.id).as_ref().is_some_and(saw_all_dead)
            })
    }

    /// Tells whether somebody holds the lock of a session.
    fn is_under_way(&self, session: &Session) -> bool {
        // Of one that is forgotten the lock would be made anew.
        self.store.tether_path(&session.id).exists() && self.store.lock(&session.id, Duration::ZERO).is_err()
    }

    /// Waits until whoever else ends a session is done with that, and tells what came of it.
    fn await_receipt(&self, session: &Arc<Session>) {
        let is_wanted = || {
            let state = session.state();
            !state.stopping && !state.settled && self.is_under_way(session)
        };
        while !self.is_closing() && is_wanted() {
            self.sleep_at_most(DONE);
        }
        // The warden leaves right after its ladder.
        let until = Instant::now() + RECORD;
        while self.has_warden(session) && !self.is_closing() && Instant::now() < until {
            self.sleep_at_most(DONE);
        }
        self.take_receipt(session);
    }

    fn has_warden(&self, session: &Session) -> bool {
        session.tether().warden.is_some_and(|warden| self.may_live(&warden))
    }

    /// Tells whether somebody lives, as far as anybody can tell.
    fn may_live(&self, claim: &Identity) -> bool {
        !matches!(verify(claim, &self.inspector).kind, VerdictKind::Gone | VerdictKind::Foreign)
    }

    /// Takes over what somebody else has said of the end of a session, once, and tells it. Where nothing is left of the
    /// session, its files are not needed any more.
    pub(super) fn take_receipt(&self, session: &Arc<Session>) {
        let Some(mut receipt) = self.told_receipt(&session.id) else { return };
        let is_removed = !self.store.tether_path(&session.id).exists();
        let is_ours = |state: &State| state.stopping || state.settled || self.is_closing();
        {
            let mut state = session.state();
            if is_ours(&state) || state.receipt.is_some() {
                return;
            }
            if let Some(restarts) = state.tether.restarts.as_mut() {
                let why = receipt.notes.first().filter(|_| receipt.is_wardens());
                restarts.end(why.map_or("stopped", String::as_str));
            }
            state.exit = self.store.exit(&session.id).or(state.exit.take());
            (state.elsewhere, state.receipt) = (true, Some(receipt.clone()));
        }
        // Whoever finds nobody closes a terminal of ours, and tells the phase with the cause.
        self.sample_known(session);
        {
            let mut state = session.state();
            if is_ours(&state) {
                return;
            }
            state.settled = is_removed && state.empty && session.pty.is_some();
            receipt.host_closed |= state.settled;
            state.receipt = Some(receipt.clone());
            if state.settled {
                self.store.forget(&session.id);
            }
        }
        self.publish(Event::Receipt { session: session.id.clone(), receipt: Box::new(receipt) });
    }

    /// Returns the receipt of a session of which nobody is left: the stored one, else the one of the journal, where whoever
    /// is done with the session has taken the stored one away.
    fn told_receipt(&self, session: &str) -> Option<Receipt> {
        let journalled = || {
            let of_session = self.store.journal().read(Some(session), None).ok()?;
            let mut ends = of_session.receipts.into_iter().filter(|entry| !matches!(entry.act, Act::Restart));
            ends.next_back().map(|entry| entry.receipt).filter(saw_all_dead)
        };
        let is_removed = || !self.store.tether_path(session).exists();
        let stored = self.stored_receipt(session).filter(saw_all_dead);
        stored.or_else(|| is_removed().then(journalled).flatten())
    }

    /// Returns what somebody else has said of the end of a session, where we have not ended it ourselves.
    pub(super) fn receipt_of_another(&self, session: &Session) -> Option<Receipt> {
        let (known, elsewhere) = {
            let state = session.state();
            (state.receipt.clone().filter(saw_all_dead), state.elsewhere)
        };
        match known {
            Some(receipt) => elsewhere.then_some(receipt),
            None => self.stored_receipt(&session.id).filter(saw_all_dead),
        }
    }

    /// Takes note of the end of a workload.
    fn workload_ended(self: &Arc<Self>, session: &Arc<Session>) {
        let is_told = match self.follow(session) {
            Followed::GoesOn => return,
            Followed::Over { is_told } => is_told || session.state().ended_before,
        };
        session.reap();
        let exit = session.state().exit.clone();
        let (code, signal) = exit.map_or((None, None), |exit| (exit.code, exit.signal));
        if !is_told {
            self.publish(Event::Exited { session: session.id.clone(), exit_code: code, signal, attempt: None });
        }
        if session.state().elsewhere {
            self.await_receipt(session);
        }
        session.state().watched = false;
        // A stop looks for itself, and is not kept waiting by another look at the whole host.
        if !session.state().stopping {
            self.sample_known(session);
        }
        self.changed();
    }
}

pub(super) fn saw_all_dead(receipt: &Receipt) -> bool {
    receipt.dead == Some(true)
}

fn watch(inner: &Weak<Inner>, inbox: &Receiver<Arc<Session>>, wake: &OwnedFd) {
    let mut watched: Vec<(Pinned, Arc<Session>)> = Vec::new();
    loop {
        let mut fds = vec![PollFd::new(wake, PollFlags::IN)];
        let pidfds: Vec<_> = watched.iter().filter_map(|(pinned, _)| pinned.pidfd()).collect();
        fds.extend(pidfds.iter().map(|pidfd| PollFd::new(pidfd, PollFlags::IN)));
        // Without pidfds the sampler sees the end, some seconds later at most.
        let failed = poll(&mut fds, None).is_err();
        drop(fds);
        let mut count = [0_u8; 8];
        rustix::io::read(wake.as_fd(), &mut count).ok();
        let Some(inner) = inner.upgrade() else { return };
        if failed {
            std::thread::sleep(Duration::from_millis(10));
        }
        let (ended, alive): (Vec<_>, Vec<_>) =
            watched.into_iter().partition(|(pinned, _)| pinned.has_ended(&inner.inspector));
        watched = alive;
        for session in inbox.try_iter() {
            // One that was lost sight of for a while is known anew.
            watched.retain(|(_, known)| known.id != session.id);
            let claim = session.tether().workload.identity;
            session.state().watched = true;
            match Pinned::open(&inner.inspector, claim.pid) {
                Pin::Held(pinned) if pinned.identity().token == claim.token => watched.push((pinned, session)),
                // Recorded by another inspector: this one cannot tell whether it is the same.
                Pin::Held(_) if verify(&claim, &inner.inspector).kind == VerdictKind::Unverifiable => {
                    session.state().watched = false;
                }
                Pin::Held(_) | Pin::Gone => end(&inner, session),
                // The sampler shows that it cannot be looked at.
                Pin::Unreadable(_) => session.state().watched = false,
            }
        }
        for (_, session) in ended {
            end(&inner, session);
        }
    }
}

/// The record may take a moment, and the next end must not wait for it.
fn end(inner: &Arc<Inner>, session: Arc<Session>) {
    let inner = Arc::clone(inner);
    std::thread::spawn(move || inner.workload_ended(&session));
}
