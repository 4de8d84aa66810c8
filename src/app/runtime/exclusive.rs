//! `exclusive`: of all sessions of one state directory that name a resource, one holds it at a time.

use std::sync::Arc;

use super::session::Session;
use super::{Inner, Runtime};
use crate::app::command::{Answer, Command, StopRequest};
use crate::app::config::trust::fingerprint;
use crate::app::contract::LaunchField;
use crate::app::error::{AppError, ErrorKind};
use crate::lifecycle::store::SessionLock;
use crate::lifecycle::verdict::VerdictKind;
use crate::text;

use super::stopper::LOCK_PATIENCE;

/// A launch that asks for a resource.
pub(super) struct Claim<'a> {
    pub(super) resource: &'a str,
    /// Whoever holds it is stopped first.
    pub(super) replace: bool,
    /// A session that is stopped before the launch, and is in nobody's way.
    pub(super) but: Option<&'a str>,
}

impl Inner {
    /// Returns the sessions that hold a resource: whoever names it and has not ended, or has left somebody alive.
    pub(super) fn holders(&self, resource: &str) -> Vec<Arc<Session>> {
        self.take_in();
        let is_named = |session: &Arc<Session>| {
            let state = session.state();
            !state.settled && state.tether.exclusive.as_deref() == Some(resource)
        };
        let mut named: Vec<Arc<Session>> = self.all().into_iter().filter(is_named).collect();
        named.retain(|session| {
            self.sample_one(session);
            let state = session.state();
            let lives = state.sample.rows.values().any(|sampled| sampled.row.verdict != VerdictKind::Gone);
            !state.phase().0.is_over() || lives || state.sample.blind || !state.sample.unbound.is_empty()
        });
        named
    }

    /// Returns who is to be stopped first; an error where somebody holds the resource and is not to be replaced.
    pub(super) fn check_exclusive(&self, claim: &Claim<'_>) -> Result<Vec<Arc<Session>>, AppError> {
        let mut holders = self.holders(claim.resource);
        holders.retain(|holder| claim.but != Some(holder.id.as_str()));
        let Some(first) = holders.first().filter(|_| !claim.replace) else { return Ok(holders) };
        let message = format!(
            "nothing was launched: {} is held by session {}; stop that one first, or launch with --replace (in a batch `\"replace\": true`)",
            text::escape(claim.resource),
            shown(first)
        );
        // Of several none is enough.
        let only = Some(first.id.clone()).filter(|_| holders.len() == 1);
        Err(AppError::new(ErrorKind::Refused, message).held(LaunchField::Recipe, only))
    }

    /// Takes a resource for a launch: nobody else gets it before the lock is given back, and by then the record
    /// says who holds it. Returns what was stopped for it, in words.
    pub(super) fn take_exclusive(
        self: &Arc<Self>,
        resource: &str,
        replace: bool,
    ) -> Result<(SessionLock, Vec<String>), AppError> {
        let digest = fingerprint(resource.as_bytes());
        let lock = self.store.lock(&format!("exclusive-{}", &digest[..16]), LOCK_PATIENCE).map_err(|error| {
            let message = format!("nothing was launched: another launch has {} now ({error})", text::escape(resource));
            AppError::new(ErrorKind::Timeout, message)
        })?;
        let mut notes = Vec::new();
        for holder in self.check_exclusive(&Claim { resource, replace, but: None })? {
            let stop = Command::Stop(StopRequest { session: holder.id.clone(), ..StopRequest::default() });
            let answer = Runtime { inner: Arc::clone(self) }.execute(&stop)?;
            let ended = matches!(&answer, Answer::Receipt(receipt) if receipt.is_clean());
            if !ended {
                let message = format!(
                    "nothing was launched, because the stop of session {}, which held {}, did not bring everything back; `logs --receipts` has its receipt",
                    shown(&holder),
                    text::escape(resource)
                );
                return Err(AppError::new(ErrorKind::Failed, message));
            }
            notes.push(format!("stopped session {}, which held {}", shown(&holder), text::escape(resource)));
        }
        Ok((lock, notes))
    }
}

fn shown(session: &Session) -> String {
    format!("{} ({})", text::escape(&session.state().tether.name), session.id)
}
