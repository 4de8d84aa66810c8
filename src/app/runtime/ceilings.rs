//! Ceilings as a manager sees them: notices before they come, and the renewal of the ones nobody chose.

use std::sync::Arc;
use std::time::Duration;

use super::Inner;
use super::session::Session;
use crate::app::event::Event;
use crate::lifecycle::ceiling::{next_notice, notice, renewed};
use crate::lifecycle::clock::{boottime, wall};

impl Inner {
    /// Tells when a notice is due. Clients in tmux are told by the warden, which needs no manager.
    pub(super) fn watch_ceiling(&self, session: &Arc<Session>) {
        let not_after = session.state().tether.not_after;
        let now = boottime();
        let mut state = session.state();
        let due = state.notice.is_some_and(|(of, at)| of.to_bits() == not_after.to_bits() && now >= at);
        state.notice = next_notice(not_after, now).map(|at| (not_after, at));
        let over = state.settled || state.phase().0.is_over();
        drop(state);
        if !due || over {
            return;
        }
        // Another manager may have moved it.
        let fresh = self.reread(session);
        if fresh.not_after.to_bits() == not_after.to_bits() {
            let reason = notice(not_after - now);
            self.publish(Event::Attention { session: session.id.clone(), reason, state: None });
        }
    }

    /// Moves a ceiling that nobody chose, because its session was just verified.
    pub(super) fn renew_ceiling(&self, session: &Arc<Session>) {
        let now = boottime();
        {
            let state = session.state();
            if state.stopping || state.settled || renewed(&state.tether, now).is_none() {
                return;
            }
        }
        // Whoever holds the lock does something more important; the next look renews it.
        let Ok(_lock) = self.store.lock(&session.id, Duration::ZERO) else { return };
        let mut tether = self.reread(session);
        let Some(not_after) = renewed(&tether, now) else { return };
        tether.not_after_wall = wall() + (not_after - now);
        tether.not_after = not_after;
        match self.store.save(&tether) {
            Ok(_) => session.state().tether = tether,
            Err(error) => tracing::warn!(session = session.id, %error, "a ceiling could not be renewed"),
        }
    }
}
