//! The sweep of the records: the one reaper, run at every start and once a minute by a long-lived screen.
//!
//! It fails open: a record that cannot be dealt with stays, is counted, and is shown.

use std::sync::Arc;
use std::time::Duration;

use super::Inner;
use super::earlier::End;
use super::hosts::{guard, is_open};
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
use crate::lifecycle::receipt::{Bystander, Receipt};
use crate::lifecycle::rows::marked;
use crate::lifecycle::store::SessionLock;
use crate::lifecycle::tether::{ExitRecord, Tether};
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
            for End { session, text, .. } in &ended {
                inner.publish(Event::Ended { session: session.clone(), text: text.clone() });
            }
            inner.remember(ended);
        }
    });
}

/// What a sweep of the records has found, and done.
#[derive(Debug, Default)]
pub(super) struct Swept {
    /// Sessions that had ended before.
    pub(super) ended: Vec<End>,
    /// What was left of others, and ended now.
    pub(super) receipts: Vec<Receipt>,
}

/// How old an empty cgroup must be: a launch makes one a moment before its workload is in it.
const TIDY: Duration = Duration::from_secs(10);

impl Inner {
    /// Sweeps all records once.
    pub(super) fn reap(self: &Arc<Self>) -> Swept {
        self.store.remove_unfinished();
        self.store.remove_old_logs();
        self.write_unwritten();
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
                    self.sample_known(&session);
                    swept.ended.extend(self.tell_left(&session, &view, Decision::Keep));
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
                        Ok(()) if matches!(other, Decision::Unverifiable | Decision::Failed) => {
                            swept.ended.extend(self.tell_left(&session, &view, other));
                        }
                        Ok(()) => {
                            // Where only the host was left to be closed, the end is the earlier one.
                            let own = |receipt: &Receipt| receipt.session == session.id && receipt.found_nobody();
                            let closed = swept.receipts.iter().any(own);
                            swept.receipts.retain(|receipt| !own(receipt));
                            if closed || !self.lock().by_id.contains_key(&session.id) {
                                let (session, name) = (session.id.clone(), Some(tether.name.clone()));
                                swept.ended.push(End { session, name, text });
                            }
                        }
                        // A person has reaped it while we waited: they were told.
                        Err(_) if self.is_done_with(&session) => {}
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
            // One that nobody can look at may hold somebody.
            let open =
                || session.host == HostKind::Tmux && !session.state().settled && is_open(self, &session) != Ok(false);
            if !lives && !open() && self.is_written(&session) {
                self.dismiss(&session);
            }
        }
    }

    /// Tells whether somebody has ended a session that was found in its record, and has told it.
    fn is_done_with(&self, session: &Session) -> bool {
        session.state().settled || !self.store.tether_path(&session.id).exists()
    }

    /// Begins to end a session, unless it was found in its record and somebody has ended it while we waited for them.
    pub(super) fn begin_for(
        &self,
        session: &Arc<Session>,
        how: How<'_>,
        patience: Duration,
    ) -> Result<SessionLock, AppError> {
        let lock = self.begin(session, patience)?;
        if how.reap && self.is_done_with(session) {
            session.state().stopping = false;
            return Err(AppError::new(ErrorKind::Failed, format!("{} was ended meanwhile", session.id)));
        }
        Ok(lock)
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
                // A dead pane keeps its tmux session open, and another pane may live in it; whoever carries its marker
                // is to be named; a stop that nobody has finished has no receipt.
                let open = match is_open(self, session) {
                    Ok(open) => open,
                    Err(why) => {
                        tracing::warn!(session = session.id, why, "nobody can tell whether its tmux session is open");
                        count(report, Decision::Unverifiable);
                        return Ok(());
                    }
                };
                count(report, decision);
                let unfinished = decision == Decision::AlreadyGone && !session.tether().begun().is_empty();
                if open || unfinished || self.is_marked(&session.tether()) {
                    swept.extend(self.end(session, How { reap: true, ..how }).ok());
                } else if !how.dry_run {
                    // Another manager that has just started does the same: one of the two tells.
                    let lock = self.store.lock(&session.id, Duration::ZERO);
                    if lock.is_ok() && self.store.tether_path(&session.id).exists() {
                        if !self.journal_found_gone(&session.tether()) {
                            let message = "the journal of receipts cannot be written, so its record stays";
                            return Err(AppError::new(ErrorKind::State, message));
                        }
                        self.dismiss(session);
                    }
                }
            }
            Decision::Unverifiable | Decision::Failed | Decision::Quarantine => count(report, decision),
        }
        Ok(())
    }

    /// Tells whether its warden was killed before it could say that nobody was left, and somebody carries its marker.
    fn is_left_unseen(&self, tether: &Tether, warden: Option<VerdictKind>) -> bool {
        let said = self.store.exit(&tether.session).is_some_and(|exit| exit.emptied);
        !said && matches!(warden, Some(VerdictKind::Gone | VerdictKind::Foreign)) && self.is_marked(tether)
    }

    /// Tells whether anybody carries the marker of a session whose processes are gone. A hint, and no reason to signal.
    fn is_marked(&self, tether: &Tether) -> bool {
        !self.marked_of(tether).is_empty()
    }

    /// Returns whoever carries the marker of a session.
    pub(super) fn marked_of(&self, tether: &Tether) -> Vec<Bystander> {
        marked(std::iter::empty(), &tether.marker, &guard(self, tether), &self.inspector)
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
        let left = Self::left_of(&session);
        if let Some(left) = left.iter().find(|row| row.kept.is_none()).or(left.first()) {
            let (id, pid) = (&session.id, left.pid);
            return Err(refuse(match (left.verdict, &left.kept) {
                (VerdictKind::Unverifiable, _) => format!("pid {pid} may be of it: {}", left.reason),
                (_, Some(what)) => {
                    format!("pid {pid} of it was left alive ({what}); `orphans --reap {id} --end-kept {pid}` ends it")
                }
                (_, None) => format!("pid {pid} of it lives; `orphans --reap {id}` ends it"),
            }));
        }
        if !session.state().settled && session.host == HostKind::Tmux {
            match is_open(self, &session) {
                Ok(false) => {}
                Ok(true) => return Err(refuse("its tmux session is still open; stop it first".into())),
                Err(why) => {
                    let message = format!("{} is not dismissed: {why}", session.id);
                    return Err(AppError::new(ErrorKind::Unverifiable, message));
                }
            }
        }
        if !self.is_written(&session) {
            return Err(refuse("its receipt could not be written yet, and its record stays until then".into()));
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

    pub(super) fn is_of_this_boot(&self, tether: &Tether) -> bool {
        match (tether.boot_id.as_deref(), self.inspector.boot_id()) {
            (Some(recorded), Some(running)) => recorded == running,
            (None, _) | (_, None) => true,
        }
    }

    pub(super) fn view(&self, tether: &Tether) -> View {
        let judge = |claim| verify(claim, &self.inspector).kind;
        let same_boot = self.is_of_this_boot(tether);
        let workload = judge(&tether.workload.identity);
        let left = matches!(workload, VerdictKind::Gone | VerdictKind::Foreign) && same_boot;
        let warden = tether.warden.as_ref().map(judge);
        View {
            same_boot,
            same_namespaces: self.elsewhere(tether).is_none(),
            guest: tether.adoption.is_some(),
            background: tether.lifetime == "background",
            expired: boottime() >= tether.not_after,
            spawner: judge(&tether.spawner),
            warden,
            workload,
            captured: tether.captured.iter().map(|record| judge(&record.identity)).collect(),
            left: tether.left.iter().map(|record| judge(&record.identity)).collect(),
            interrupted: tether.stopping && !tether.captured.is_empty(),
            settled: tether.is_settled(),
            populated: left && self.is_populated(tether, workload),
            held: left && self.holds_somebody(tether),
            ended: tether.last.as_ref().is_some_and(|last| last.verdict == VerdictKind::Gone),
            exited: self.has_exited(tether) && !(left && self.is_left_unseen(tether, warden)),
        }
    }

    /// Tells whether nothing but the end of the workload itself is written down of a session.
    fn has_exited(&self, tether: &Tether) -> bool {
        let stopped = tether.last.is_some() || tether.stopping || !tether.captured.is_empty();
        let id = &tether.session;
        !stopped && self.exit_of(tether).is_some() && !self.store.receipt_path(id).exists()
    }

    /// Returns how the workload has ended, as its warden has recorded it, which may have died in the pause before a restart.
    pub(super) fn exit_of(&self, tether: &Tether) -> Option<ExitRecord> {
        self.store.exit(&tether.session).or_else(|| tether.exit_in_pause().cloned())
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
            let captured =
                capture(&tether.scope(self.panes_seen(tether)), Depth::Trees, &guard(self, tether), &self.inspector);
            captured.to_end().any(|member| !member.pinned.has_ended(&self.inspector))
        }
    }
}
