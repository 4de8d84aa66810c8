//! Waits for the ends of workloads: one thread, one poll over all pidfds.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::Inner;
use super::restarts::Followed;
use super::session::Session;
use crate::app::event::Event;
use crate::lifecycle::authority::{Pin, Pinned, verify};
use crate::lifecycle::verdict::VerdictKind;

/// How long the warden may take to record an exit that was seen.
const RECORD: Duration = Duration::from_secs(1);

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
            let alive =
                warden.as_ref().is_some_and(|warden| verify(warden, &self.inspector).kind == VerdictKind::Owned);
            let exit = self.store.exit(&session.id);
            if exit.is_some() || !alive || Instant::now() >= until {
                // Looked into first: nobody hears of a failure before its reason.
                self.look_into(session, exit.as_ref(), None);
                // Held while this is told, so that no other thread of ours takes our own look for somebody's stop.
                let mut state = session.state();
                if state.over {
                    return;
                }
                // Whoever else stops it holds its lock now, or has removed its record by now.
                let elsewhere = !state.stopping
                    && state.receipt.is_none()
                    && (self.store.lock(&session.id, Duration::ZERO).is_err()
                        || !self.store.tether_path(&session.id).exists());
                state.exit = state.exit.take().or(exit);
                state.elsewhere = elsewhere;
                state.over = true;
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Takes note of the end of a workload.
    fn workload_ended(self: &Arc<Self>, session: &Arc<Session>) {
        if matches!(self.follow(session), Followed::GoesOn) {
            return;
        }
        session.reap();
        let exit = session.state().exit.clone();
        let (code, signal) = exit.map_or((None, None), |exit| (exit.code, exit.signal));
        if session.state().elsewhere {
            self.sample_known(session);
            return self.changed();
        }
        if !session.state().ended_before {
            self.publish(Event::Exited { session: session.id.clone(), exit_code: code, signal, attempt: None });
        }
        // A stop looks for itself, and is not kept waiting by another look at the whole host.
        if !session.state().stopping {
            self.sample_known(session);
        }
        self.changed();
    }
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
            let claim = session.tether().workload.identity;
            match Pinned::open(&inner.inspector, claim.pid) {
                Pin::Held(pinned) if pinned.identity().token == claim.token => watched.push((pinned, session)),
                Pin::Held(_) | Pin::Gone => end(&inner, session),
                // The sampler shows that it cannot be looked at.
                Pin::Unreadable(_) => {}
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
