//! Receipts that the disk refuses. They are kept, and so is the record of their session, until they are in the journal:
//! by the manager that made them, with every launch, receipt and sweep of its own and at its end; by the next start from what is on disk.

use std::sync::PoisonError;
use std::time::Duration;

use super::Inner;
use super::session::Session;
use super::stopper::How;
use crate::lifecycle::identity::Identity;
use crate::lifecycle::journal::{Act, By, Entry};
use crate::lifecycle::receipt::{Outcome, OutcomeKind, Receipt};
use crate::lifecycle::store::write_json;
use crate::lifecycle::tether::Tether;
use crate::lifecycle::verdict::VerdictKind;

/// A receipt that is in no journal yet.
#[derive(Debug)]
pub(super) struct Unwritten {
    entry: Entry,
    /// The record of its session goes with it.
    clean: bool,
    /// Nobody saw it: the next start tells it.
    unseen: bool,
}

impl Inner {
    /// Writes a receipt into the journal: on disk before the record may go. Returns it where the disk refuses.
    pub(super) fn journal(&self, how: How<'_>, receipt: &mut Receipt) -> Option<Entry> {
        let act = match (how.reap, how.sweep) {
            (true, _) => Act::Reap,
            (false, true) => Act::Sweep,
            (false, false) => Act::Stop,
        };
        // In their order. What an earlier run, or its warden, could not write is stored with the session.
        self.write_unwritten();
        let stored = self.stored_receipt(&receipt.session).filter(|_| !self.waits(&receipt.session));
        if let Some(entry) = stored.and_then(|stored| self.journal_late(&stored)) {
            self.keep_unwritten(entry, false, false);
        }
        let error = self.store.journal().append(By::Manager, act, receipt).err()?;
        receipt.notes.push(format!(
            "the journal of receipts could not be written: {error}; it is tried again, and the record stays until then"
        ));
        Some(Entry::now(By::Manager, act, receipt.clone()))
    }

    /// Keeps a receipt that the disk refused. `clean`: nobody is left, and nothing but it keeps the record.
    pub(super) fn keep_unwritten(&self, entry: Entry, clean: bool, unseen: bool) {
        let mut unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        unwritten.push(Unwritten { entry, clean, unseen });
    }

    /// Tells whether a receipt of a session waits for the journal.
    pub(super) fn waits(&self, session: &str) -> bool {
        let unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        unwritten.iter().any(|one| one.entry.receipt.session == session)
    }

    /// Writes what the disk has refused before, as far as it takes it by now.
    pub(super) fn write_unwritten(&self) {
        let mut unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        let journal = self.store.journal();
        while let Some(Unwritten { entry, clean, unseen }) = unwritten.first() {
            if journal.write(entry).is_err() {
                return;
            }
            let (receipt, session) = (&entry.receipt, &entry.receipt.session);
            // Whoever holds the lock has found it gone, and lets the record go.
            let lock = self.store.lock(session, Duration::ZERO);
            if *clean && lock.is_ok() && self.store.remove(session).is_ok() {
                self.store.forget(session);
                if *unseen {
                    write_json(&self.store.receipt_path(session), receipt).ok();
                }
            }
            drop(lock);
            unwritten.remove(0);
        }
    }

    /// Tells whether the journal speaks of the end of a session that is over, so that its record may go; tries to see to
    /// it first.
    pub(super) fn is_written(&self, session: &Session) -> bool {
        self.write_unwritten();
        if self.waits(&session.id) {
            return false;
        }
        let tether = session.tether();
        // What we did not launch goes back to whoever did.
        let is_ours = tether.adoption.is_none() && self.store.tether_path(&session.id).exists();
        !is_ours || self.journal_found_gone(&tether)
    }

    /// Lets the records go that stay for nothing but an unwritten receipt, which is still tried again: whoever lives needs
    /// the room more than whoever is dead. Tells whether there were any.
    pub(super) fn make_room(&self) -> bool {
        let unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        let clean = unwritten.iter().filter(|one| one.clean).map(|one| &one.entry.receipt.session);
        let goes = |session: &&String| self.store.tether_path(session).exists() && self.store.remove(session).is_ok();
        clean.filter(goes).map(|session| self.store.forget(session)).count() > 0
    }

    /// Writes a receipt that is stored with its session, where the journal does not hold it: whoever made it could not.
    /// Returns it where the disk refuses still.
    pub(super) fn journal_late(&self, receipt: &Receipt) -> Option<Entry> {
        let journal = self.store.journal();
        let by = if receipt.is_wardens() { By::Warden } else { By::Manager };
        let entry = Entry::now(by, Act::Stop, receipt.clone());
        let written = journal.holds(receipt) || journal.write(&entry).is_ok();
        (!written).then_some(entry)
    }

    /// Sees to it that the journal speaks of a session that an earlier run has left, and of which nothing is left: what
    /// is stored of its end, or that it was found gone where nobody has said anything. Tells whether it does.
    pub(super) fn journal_found_gone(&self, tether: &Tether) -> bool {
        match self.stored_receipt(&tether.session) {
            // What it may have left is gone as well.
            Some(receipt) => self.journal_late(&receipt).is_none(),
            None if self.exit_of(tether).is_some() => true,
            None => {
                let receipt = found_gone(tether, self.is_of_this_boot(tether));
                self.store.journal().append(By::Manager, Act::Reap, &receipt).is_ok()
            }
        }
    }
}

/// Returns the receipt of a session whose processes were all found gone.
fn found_gone(tether: &Tether, same_boot: bool) -> Receipt {
    let row = |identity: &Identity| Outcome {
        pid: identity.pid,
        start_token: Some(identity.token.clone()),
        command: None,
        outcome: OutcomeKind::AlreadyGone,
        reason: None,
    };
    let why = match &tether.last {
        _ if !same_boot => "it was gone with the last boot of this machine".into(),
        Some(last) if last.verdict == VerdictKind::Gone => last.reason.clone(),
        Some(_) | None => "it was found gone, and nobody has said how it ended".into(),
    };
    Receipt {
        session: tether.session.clone(),
        host: tether.host.clone(),
        dead: Some(true),
        outcomes: vec![row(&tether.workload.identity)],
        host_closed: true,
        containment: vec!["tree".into()],
        notes: vec![why],
        ..Receipt::default()
    }
}
