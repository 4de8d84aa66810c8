//! The sweep of the records: the one reaper, run at every start and once a minute by a long-lived screen.
//!
//! It fails open: a record that cannot be dealt with stays, is counted, and is shown.

use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::Inner;
use super::hosts::guard;
use super::orphans::count;
use super::session::Session;
use super::stopper::How;
use crate::app::command::ReapReport;
use crate::app::contract::HostKind;
use crate::app::error::{AppError, ErrorKind};
use crate::app::event::Event;
use crate::lifecycle::authority::verify;
use crate::lifecycle::clock::boottime;
use crate::lifecycle::leaf::Leaf;
use crate::lifecycle::reap::{Decision, View, decide};
use crate::lifecycle::receipt::Receipt;
use crate::lifecycle::rows::marked;
use crate::lifecycle::store::read_json;
use crate::lifecycle::tether::{ExitRecord, Last, Tether};
use crate::lifecycle::tree::{Depth, capture};
use crate::lifecycle::verdict::VerdictKind;

/// Time between two sweeps of a long-lived manager.
const EVERY: Duration = Duration::from_secs(60);
/// Sessions that are over and that nobody has dismissed; the oldest go first.
const OVER_MAX: usize = 100;

/// Starts the sweeping thread of a long-lived manager.
pub(super) fn start(inner: &Arc<Inner>) {
    let weak = Arc::downgrade(inner);
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(EVERY);
            let Some(inner) = weak.upgrade().filter(|inner| !inner.is_closing()) else { return };
            // What was ended here has a receipt that tells it.
            let Swept { ended, .. } = inner.reap();
            inner.remember(&ended);
            for End { session, text } in ended {
                inner.publish(Event::Ended { session, text });
            }
        }
    });
}

/// The end of a session of an earlier run, as it is to be told.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct End {
    session: String,
    text: String,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.session, self.text)
    }
}

/// What a sweep of the records has found, and done.
#[derive(Debug, Default)]
pub(super) struct Swept {
    /// Sessions that had ended before.
    pub(super) ended: Vec<End>,
    /// What was left of others, and ended now.
    pub(super) receipts: Vec<Receipt>,
}

impl Swept {
    /// Returns everything that is to be told at a start.
    pub(super) fn told(self) -> Vec<End> {
        let by_us = self.receipts.into_iter().map(|receipt| {
            let by_warden = receipt.notes.first().is_some_and(|note| note.starts_with("ended by its warden"));
            let text = if by_warden {
                told_end(true, Some(&receipt), None, None)
            } else {
                format!("left by an earlier run; {}", receipt.end())
            };
            End { session: receipt.session, text }
        });
        by_us.chain(self.ended).collect()
    }
}

/// How old an empty cgroup must be: a launch makes one a moment before its workload is in it.
const TIDY: Duration = Duration::from_secs(10);

impl Inner {
    /// Keeps for `hello` what was told of earlier runs.
    pub(super) fn remember(&self, ends: &[End]) {
        let mut earlier = self.earlier.lock().unwrap_or_else(PoisonError::into_inner);
        earlier.extend(ends.iter().map(ToString::to_string));
    }

    /// Sweeps all records once.
    pub(super) fn reap(self: &Arc<Self>) -> Swept {
        self.store.remove_unfinished();
        self.store.remove_old_logs();
        self.take_in();
        if self.config().cgroup {
            Leaf::tidy(TIDY, &self.inspector);
        }
        let mut report = ReapReport { inspector: self.inspector.kind().name().into(), ..ReapReport::default() };
        report.quarantined = self.lock().quarantined.len();
        let mut swept = Swept::default();
        for session in self.all() {
            if session.pty.is_some() || session.state().settled || session.state().borrowed {
                continue;
            }
            report.seen += 1;
            let tether = session.tether();
            let view = self.view(&tether);
            match decide(&view) {
                Decision::Keep => {
                    report.kept += 1;
                    self.sample_one(&session);
                }
                other @ (Decision::TearDown
                | Decision::AlreadyGone
                | Decision::Foreign
                | Decision::Unverifiable
                | Decision::Failed
                | Decision::Quarantine) => {
                    let text = self.how_it_ended(&tether, view.same_boot);
                    match self.reap_one(&session, other, How::default(), &mut report, &mut swept.receipts) {
                        // What this run has launched itself was told when it ended.
                        Ok(()) if tether.spawner == self.me => {}
                        Ok(()) => {
                            // Where only the host was left to be closed, the end is the earlier one.
                            let own = |receipt: &Receipt| receipt.session == session.id && receipt.found_nobody();
                            let closed = swept.receipts.iter().any(own);
                            swept.receipts.retain(|receipt| !own(receipt));
                            if closed || !self.lock().by_id.contains_key(&session.id) {
                                swept.ended.push(End { session: session.id.clone(), text });
                            }
                        }
                        Err(error) => {
                            tracing::warn!(session = session.id, %error, "a record could not be swept");
                            report.unverifiable += 1;
                        }
                    }
                }
            }
        }
        swept.ended.extend(self.take_ended());
        report.ended = swept.ended.iter().map(ToString::to_string).collect();
        if !swept.ended.is_empty() || !swept.receipts.is_empty() {
            tracing::info!(?report, "records of earlier runs");
        }
        self.dismiss_oldest();
        swept
    }

    /// Says how a session ended of which nothing is left, from what was written down of it.
    fn how_it_ended(&self, tether: &Tether, same_boot: bool) -> String {
        let id = &tether.session;
        let receipt = read_json::<Receipt>(&self.store.receipt_path(id)).ok().flatten();
        told_end(same_boot, receipt.as_ref(), tether.last.as_ref(), self.store.exit(id).as_ref())
    }

    /// Dismisses the oldest sessions that are over, of this run and of earlier ones, where too many are kept to be
    /// read. One of which anybody lives, or may live, stays; so does another manager's.
    pub(super) fn dismiss_oldest(&self) {
        let is_over = |session: &Arc<Session>| {
            let state = session.state();
            !state.borrowed && !state.stopping && (state.settled || state.phase().0.is_over())
        };
        let over: Vec<_> = self.all().into_iter().filter(|s| is_over(s) && self.owner(s).is_none()).collect();
        let too_many = over.len().saturating_sub(OVER_MAX);
        for session in over.into_iter().take(too_many) {
            self.sample_one(&session);
            let lives = {
                let sample = &session.state().sample;
                let alive = sample.rows.values().any(|left| left.row.verdict != VerdictKind::Gone);
                alive || !sample.unbound.is_empty() || sample.blind
            };
            let open = || session.host == HostKind::Tmux && !session.state().settled && self.host_is_open(&session);
            if !lives && !open() {
                self.dismiss(&session);
            }
        }
    }

    /// Does with one record what was decided, and counts it.
    ///
    /// # Errors
    /// When nothing could be done with what is to be ended.
    pub(super) fn reap_one(
        self: &Arc<Self>,
        session: &Arc<Session>,
        decision: Decision,
        how: How<'_>,
        report: &mut ReapReport,
        swept: &mut Vec<Receipt>,
    ) -> Result<(), AppError> {
        match decision {
            Decision::Keep | Decision::TearDown => {
                let receipt = self.end(session, How { reap: true, ..how })?;
                match receipt.dead {
                    _ if how.dry_run => report.kept += 1,
                    Some(true) => report.torn_down += 1,
                    Some(false) | None => report.failed += 1,
                }
                swept.push(receipt);
            }
            Decision::AlreadyGone | Decision::Foreign => {
                count(report, decision);
                // A dead pane keeps its tmux session open; whoever carries its marker is to be named.
                let open = decision == Decision::AlreadyGone && self.host_is_open(session);
                if open || self.is_marked(session) {
                    swept.extend(self.end(session, How { reap: true, ..how }).ok());
                } else if !how.dry_run {
                    // Another manager that has just started does the same: one of the two tells.
                    let lock = self.store.lock(&session.id, Duration::ZERO);
                    if lock.is_ok() && self.store.tether_path(&session.id).exists() {
                        self.dismiss(session);
                    }
                }
            }
            Decision::Unverifiable | Decision::Failed | Decision::Quarantine => count(report, decision),
        }
        Ok(())
    }

    /// Tells whether anybody carries the marker of a session whose processes are gone. A hint, and no reason to signal.
    fn is_marked(&self, session: &Session) -> bool {
        let tether = session.tether();
        !marked(std::iter::empty(), &tether.marker, &guard(self, &tether), &self.inspector).is_empty()
    }

    pub(super) fn host_is_open(&self, session: &Session) -> bool {
        super::hosts::is_open(self, session, session.tether().tmux.as_ref())
    }

    /// Forgets a session that is over, at a person's word.
    pub(super) fn dismiss_over(&self, reference: &str) -> Result<(), AppError> {
        let session = self.find(reference)?;
        self.sample_one(&session);
        if session.state().borrowed {
            return Err(AppError::new(
                ErrorKind::Refused,
                format!("{} is a task of Cookbook, and only listed: remove it there", session.id),
            ));
        }
        let tether = session.tether();
        if tether.adoption.is_some() && tether.last.is_none() && tether.captured.is_empty() {
            // Its record is all that we have of it: it goes back to whoever launched it.
            self.dismiss(&session);
            return Ok(());
        }
        let refuse = |why: String| AppError::new(ErrorKind::Refused, format!("{} is not dismissed: {why}", session.id));
        if !session.phase().0.is_over() {
            return Err(refuse("it still runs; stop it first".into()));
        }
        let left = session
            .state()
            .sample
            .rows
            .values()
            .find(|left| left.row.verdict != VerdictKind::Gone)
            .map(|left| left.row.pid);
        if let Some(pid) = left {
            return Err(refuse(format!("pid {pid} of it lives; `orphans --reap {}` ends it", session.id)));
        }
        if !session.state().settled && session.host == HostKind::Tmux && self.host_is_open(&session) {
            return Err(refuse("its tmux session is still open; stop it first".into()));
        }
        self.dismiss(&session);
        Ok(())
    }

    /// Forgets a session of which nothing is left.
    pub(super) fn dismiss(&self, session: &Arc<Session>) {
        if self.store.remove(&session.id).is_err() {
            return;
        }
        self.store.forget(&session.id);
        self.forget_private_tmux(&session.id);
        let mut sessions = self.lock();
        sessions.by_id.remove(&session.id);
        sessions.order.retain(|id| *id != session.id);
    }

    pub(super) fn view(&self, tether: &Tether) -> View {
        let judge = |claim| verify(claim, &self.inspector).kind;
        let same_boot = match (tether.boot_id.as_deref(), self.inspector.boot_id()) {
            (Some(recorded), Some(running)) => recorded == running,
            (None, _) | (_, None) => true,
        };
        let workload = judge(&tether.workload.identity);
        let left = matches!(workload, VerdictKind::Gone | VerdictKind::Foreign) && same_boot;
        View {
            same_boot,
            same_namespaces: self.elsewhere(tether).is_none(),
            guest: tether.adoption.is_some(),
            background: tether.lifetime == "background",
            expired: boottime() >= tether.not_after,
            spawner: judge(&tether.spawner),
            warden: tether.warden.as_ref().map(judge),
            workload,
            captured: tether.captured.iter().map(|record| judge(&record.identity)).collect(),
            left: tether.left.iter().map(|record| judge(&record.identity)).collect(),
            interrupted: tether.stopping && !tether.captured.is_empty(),
            settled: tether.is_settled(),
            populated: left && self.is_populated(tether, workload),
            held: left && self.holds_somebody(tether),
            ended: tether.last.as_ref().is_some_and(|last| last.verdict == VerdictKind::Gone),
        }
    }

    /// Tells whether the group or session of a workload that is gone still has members. The kernel does not
    /// reuse the number while it has; after a gap nobody can tell whether it did in between.
    fn is_populated(&self, tether: &Tether, workload: VerdictKind) -> bool {
        let Ok(snapshot) = self.inspector.scan() else { return true };
        let own = tether.workload.identity.pid;
        snapshot.iter().any(|facts| {
            let reused = workload == VerdictKind::Foreign && (facts.pid == own || facts.pgid == own.raw());
            !facts.ended() && !reused && (facts.pgid == tether.workload.pgid || facts.sid == tether.workload.sid)
        })
    }

    /// Tells whether verified members of a session live whose workload is gone. In the pause before a restart nobody is
    /// left behind.
    fn holds_somebody(&self, tether: &Tether) -> bool {
        let pauses = tether.restarts.as_ref().is_some_and(|restarts| restarts.next_at.is_some());
        !pauses && {
            let captured = capture(&tether.scope(Vec::new()), Depth::Trees, &guard(self, tether), &self.inspector);
            captured.to_end().any(|member| !member.pinned.has_ended(&self.inspector))
        }
    }

    /// Returns which sessions were ended while nobody watched, and forgets what was kept to say so.
    pub(super) fn take_ended(&self) -> Vec<End> {
        let mut ended = Vec::new();
        for session in self.store.receipts() {
            // Whoever holds the lock is writing it right now, or telling it.
            let Ok(_lock) = self.store.lock(&session, Duration::ZERO) else { continue };
            if self.store.tether_path(&session).exists() || self.lock().by_id.contains_key(&session) {
                continue;
            }
            if let Ok(Some(receipt)) = read_json::<Receipt>(&self.store.receipt_path(&session)) {
                ended.push(End { session: session.clone(), text: told_end(true, Some(&receipt), None, None) });
            }
            self.store.forget(&session);
        }
        ended
    }
}

/// Says how a session has ended of which nothing is left: what a receipt says that saw it dead, else why its record was
/// still there, else how its workload ended.
fn told_end(same_boot: bool, receipt: Option<&Receipt>, last: Option<&Last>, exit: Option<&ExitRecord>) -> String {
    if !same_boot {
        return "it was gone with the last boot of this machine".into();
    }
    if let Some(receipt) = receipt.filter(|receipt| receipt.dead == Some(true)) {
        let why = receipt.notes.first().map_or("it was stopped", String::as_str);
        return format!("{why}; {}", receipt.end());
    }
    match (last, exit) {
        (Some(last), _) if last.verdict == VerdictKind::Gone => last.reason.clone(),
        (_, Some(exit)) => format!("its workload has ended ({})", exit.in_words()),
        (_, None) => "it was gone, and nobody knows how it ended".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_by_whoever_knows_most() {
        let receipt = Receipt { dead: Some(true), notes: vec!["its ceiling has come".into()], ..Receipt::default() };
        let last = Last { verdict: VerdictKind::Gone, reason: "its pane is gone".into(), at: 7 };
        let exit = ExitRecord { code: Some(3), signal: None, at: 7, emptied: false, address_space: None };
        for (same_boot, receipt, last, exit, told) in [
            (false, Some(&receipt), Some(&last), Some(&exit), "last boot"),
            (true, Some(&receipt), Some(&last), Some(&exit), "its ceiling has come; "),
            // What was left by a stop has ended since, by itself.
            (true, Some(&Receipt { dead: Some(false), ..receipt.clone() }), None, Some(&exit), "exit status 3"),
            (true, None, Some(&Last { verdict: VerdictKind::Owned, ..last.clone() }), None, "nobody knows"),
            (true, None, Some(&last), Some(&exit), "its pane is gone"),
            (true, None, None, Some(&exit), "exit status 3"),
            (true, None, None, None, "nobody knows"),
        ] {
            let text = told_end(same_boot, receipt, last, exit);
            assert!(text.contains(told), "{text}");
        }
    }
}
