//! Taking in what is on disk: sessions that an earlier run launched, and those of other managers.

use std::sync::{Arc, PoisonError};

use super::Inner;
use super::session::Session;
use super::watch::saw_all_dead;
use crate::app::contract::{HostKind, Kind};
use crate::lifecycle::authority::{Pin, Pinned, verify};
use crate::lifecycle::identity::{Identity, Pid, StartToken};
use crate::lifecycle::inspect::Inspector;
use crate::lifecycle::store::Quarantined;
use crate::lifecycle::tether::Tether;
use crate::lifecycle::verdict::VerdictKind;

/// Returns who we are; without an inspector a token that equals no other.
pub(super) fn own_identity(inspector: &Inspector) -> Identity {
    let raw = rustix::process::getpid().as_raw_nonzero().get();
    let pid = Pid::new(raw).or(Pid::new(1));
    match pid.map(|pid| (pid, Pinned::open(inspector, pid))) {
        Some((_, Pin::Held(pinned))) => pinned.identity().clone(),
        Some((pid, Pin::Gone | Pin::Unreadable(_))) => {
            Identity { pid, token: StartToken::Ps { lstart: format!("unknown {raw}") }, pidfd_inode: None }
        }
        None => unreachable!("a pid is positive"),
    }
}

/// Inodes of the namespaces that pids and times of ours are counted in (namespaces(7)). A process of ours never leaves
/// them, so they are read once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Namespaces {
    pub(super) pid: Option<u64>,
    pub(super) time: Option<u64>,
}

impl Namespaces {
    pub(super) fn own(inspector: &Inspector) -> Self {
        Self { pid: inspector.namespace("pid"), time: inspector.namespace("time") }
    }
}

impl Inner {
    /// Reads the records and adds the sessions that are not known yet; drops those whose record another
    /// manager has settled.
    pub(super) fn take_in(&self) {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok((mut tethers, mut quarantined)) = self.store.load(&mut records) else { return };
        drop(records);
        tethers.retain(|tether| {
            let unknown = || format!("kind {:?} is none of ours", tether.kind);
            let unknown = || Kind::named(&tether.kind).is_none().then(unknown);
            let Some(reason) = self.elsewhere(tether).or_else(unknown) else { return true };
            quarantined.push(Quarantined { path: self.store.tether_path(&tether.session), reason });
            false
        });
        let mut sessions = self.lock();
        sessions.quarantined = quarantined;
        let on_disk: Vec<String> = tethers.iter().map(|tether| tether.session.clone()).collect();
        for tether in tethers {
            if let Some(known) = sessions.by_id.get(&tether.session) {
                let mut state = known.state();
                if !state.stopping && !state.settled {
                    // Another manager may have acted on a task that was bound here in memory only.
                    (state.tether, state.borrowed) = (tether, false);
                }
                continue;
            }
            let id = tether.session.clone();
            if let Some(session) = Session::new(tether, None, None) {
                {
                    let mut state = session.state();
                    state.exit = self.store.exit(&id);
                    state.receipt = self.stored_receipt(&id);
                    // It was not this run that has ended it.
                    state.elsewhere = state.receipt.as_ref().is_some_and(saw_all_dead);
                    state.ended_before = state.elsewhere || state.exit.is_some();
                }
                self.know(&session);
                // What this run launches is watched as soon as its launch is told.
                if session.tether().spawner != self.me {
                    self.watch_exit(&session);
                }
                sessions.by_id.insert(id.clone(), session);
                sessions.order.push(id);
            }
        }
        // Ours stay until they are dismissed; of others we know only what is on disk. The record of one that we are
        // stopping goes a moment before that is over.
        let stays = |session: &Session| {
            let state = session.state();
            state.stopping || state.settled || state.borrowed
        };
        let dropped: Vec<String> = sessions
            .by_id
            .values()
            .filter(|session| session.request.is_none() && !on_disk.contains(&session.id) && !stays(session))
            .map(|session| session.id.clone())
            .collect();
        for id in dropped {
            sessions.by_id.remove(&id);
            sessions.order.retain(|known| *known != id);
        }
    }

    /// Returns why a record is not ours to judge: its pids and times are of other namespaces than ours.
    pub(super) fn elsewhere(&self, tether: &Tether) -> Option<String> {
        let Namespaces { pid, time } = self.namespaces;
        tether.elsewhere(pid, time)
    }

    /// Returns the manager that owns a session, where that is another one which lives.
    pub(super) fn owner(&self, session: &Arc<Session>) -> Option<Identity> {
        let spawner = session.tether().spawner;
        let other = spawner.pid != self.me.pid || spawner.token != self.me.token;
        let owned_elsewhere = session.host == HostKind::Pty && session.pty.is_none() && other;
        let lives = || !matches!(verify(&spawner, &self.inspector).kind, VerdictKind::Gone | VerdictKind::Foreign);
        (owned_elsewhere && lives()).then_some(spawner)
    }
}
