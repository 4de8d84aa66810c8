//! Following a session whose warden starts its workload again, and telling wardens that their record changed.

use std::sync::Arc;
use std::time::Duration;

use super::Inner;
use super::hosts::guard;
use super::session::Session;
use crate::app::event::Event;
use crate::lifecycle::authority::verify;
use crate::lifecycle::restart::Restarts;
use crate::lifecycle::tether::Tether;
use crate::lifecycle::verdict::VerdictKind;
use crate::lifecycle::warden::nudge;

/// How often the record of a session that pauses before a restart is read.
const LOOK: Duration = Duration::from_millis(200);

/// What follows the end of a run.
pub(super) enum Followed {
    /// The session is over. `is_told`: that its last run has ended was told when another one was to follow.
    Over { is_told: bool },
    /// The workload runs again, or this manager leaves before anybody knows.
    GoesOn,
}

impl Inner {
    /// Reads the record of a session again; its warden may have written a new workload into it.
    pub(super) fn reread(&self, session: &Arc<Session>) -> Tether {
        if let Ok(Some(tether)) = self.store.tether(&session.id) {
            let mut state = session.state();
            if !state.settled {
                state.tether = tether;
            }
        }
        session.tether()
    }

    /// Tells whether the warden of a session is about to start its workload again, or has done so.
    pub(super) fn restarts(&self, tether: &Tether) -> bool {
        tether.restarts_on_failure()
            && self.store.exit(&tether.session).is_none()
            && tether.warden.as_ref().is_some_and(|warden| {
                matches!(verify(warden, &self.inspector).kind, VerdictKind::Owned | VerdictKind::Unverifiable)
            })
    }

    /// Waits until a session whose workload has ended is over, or runs again; tells of every end and every start.
    pub(super) fn follow(self: &Arc<Self>, session: &Arc<Session>) -> Followed {
        let mut told = None;
        loop {
            let tether = self.reread(session);
            self.await_exit(session);
            let over = {
                let state = session.state();
                state.over || state.settled
            };
            let Some(restarts) = tether.restarts.as_ref().filter(|_| !over) else {
                return Followed::Over { is_told: told.is_some() };
            };
            if self.is_closing() {
                return Followed::GoesOn;
            }
            let runs = verify(&tether.workload.identity, &self.inspector).kind != VerdictKind::Gone;
            let runs_again = restarts.next_at.is_none() && runs;
            if (restarts.next_at.is_some() || runs_again) && told != Some(restarts.attempt) {
                told = Some(restarts.attempt);
                self.publish(exited(session, restarts));
                self.begin_anew(session);
                self.sample_one(session);
            }
            if runs_again {
                self.runs_again(session, &tether, restarts.attempt);
                return Followed::GoesOn;
            }
            self.sleep_at_most(LOOK);
        }
    }

    fn runs_again(self: &Arc<Self>, session: &Arc<Session>, tether: &Tether, attempt: u32) {
        if let Some(owned) = &session.pty {
            owned.pty.resume();
        }
        self.publish(Event::Launched {
            session: session.id.clone(),
            name: tether.name.clone(),
            kind: session.kind,
            host: session.host,
            pid: tether.workload.identity.pid.raw(),
            attempt: Some(attempt),
        });
        self.sample_one(session);
        self.watch_exit(session);
    }

    /// Has the warden of a session read its record again.
    pub(super) fn nudge(&self, tether: &Tether) {
        let Some(warden) = &tether.warden else { return };
        // To one of another version the signal may mean its end.
        if tether.other_protocol().is_some() {
            return;
        }
        if !nudge(warden, &guard(self, tether), &self.inspector) {
            tracing::warn!(session = tether.session, "its warden could not be told that its record changed");
        }
    }
}

fn exited(session: &Session, restarts: &Restarts) -> Event {
    let last = restarts.last_exit.clone();
    Event::Exited {
        session: session.id.clone(),
        exit_code: last.as_ref().and_then(|exit| exit.code),
        signal: last.and_then(|exit| exit.signal),
        attempt: Some(restarts.attempt),
    }
}
