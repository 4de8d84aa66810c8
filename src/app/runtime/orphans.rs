//! Sessions without a manager: who is left of them, ending them, and taking them over.

use std::sync::Arc;
use std::time::Duration;

use super::Inner;
use super::doctor::{ok, warn};
use super::hosts::named;
use super::query::rows_of;
use super::session::Session;
use super::stopper::{How, LOCK_PATIENCE};
use crate::app::command::{Adopted, Check, Orphan, Orphans, OrphansRequest, ReapReport};
use crate::app::error::{AppError, ErrorKind};
use crate::lifecycle::clock::boottime;
use crate::lifecycle::identity::Pid;
use crate::lifecycle::inspect::Unreadable;
use crate::lifecycle::reap::{Decision, View, adoptable, decide};
use crate::lifecycle::receipt::{ProcessRow, Receipt};
use crate::lifecycle::rows::{MARKED, unbound_row};
use crate::lifecycle::tether::Tether;
use crate::lifecycle::verdict::VerdictKind;

/// Long enough for the clock ticks of a processor (10 ms) to tell something.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);

impl Inner {
    /// Answers `orphans`: who is left without a manager, and, if asked, ends them or takes them over.
    pub(super) fn orphans(self: &Arc<Self>, request: &OrphansRequest) -> Result<Orphans, AppError> {
        let wish = Wish::parse(request)?;
        let only = request.session.as_deref().map(|reference| self.find(reference)).transpose()?;
        self.take_in();
        let mut report = ReapReport { inspector: self.inspector.kind().name().into(), ..ReapReport::default() };
        report.quarantined = self.lock().quarantined.len();
        let (mut orphans, mut swept, mut adopted) = (Vec::new(), Vec::new(), Vec::new());
        let mut shown = Vec::new();
        for session in self.all() {
            let tether = session.tether();
            if !self.may_be_orphaned(&session, &tether) || only.as_ref().is_some_and(|only| only.id != session.id) {
                continue;
            }
            report.seen += 1;
            if wish == Wish::Adopt {
                adopted.extend(self.adopt(&session, only.is_some()));
            }
            let tether = session.tether();
            let view = self.view(&tether);
            let (decision, is_orphan) = self.judge(&tether, &view);
            // A person is to know of it; it is no reason to end anybody.
            let is_strange = tether.other_protocol().is_some() && !session.phase().0.is_over();
            if is_orphan || is_strange {
                self.sample_one(&session);
                if wish == Wish::Show {
                    shown.push((Arc::clone(&session), decision));
                } else {
                    orphans.push(orphan(self, &session, decision));
                }
            }
            match wish {
                // What was not launched by us is ended by its name only.
                Wish::Reap if is_orphan && (only.is_some() || tether.adoption.is_none()) => {
                    let how = How {
                        dry_run: request.dry_run == Some(true),
                        confirm: request.confirm.as_deref(),
                        end_kept: request.end_kept.as_deref().unwrap_or_default(),
                        end_escapees: only.is_some(),
                        ..How::default()
                    };
                    // Whoever is verified may be ended at a person's word; a start leaves them to it.
                    let verified = decision == Decision::Failed && view.held;
                    let decision = if verified { Decision::TearDown } else { decision };
                    match self.reap_shown(&session, decision, how, &mut report, &mut swept) {
                        Ok(()) => {}
                        Err(error) if only.is_some() => return Err(error),
                        Err(error) => {
                            tracing::warn!(session = session.id, %error, "an orphan could not be reaped");
                            report.unverifiable += 1;
                        }
                    }
                }
                Wish::Reap | Wish::Show | Wish::Adopt => count(&mut report, decision),
            }
        }
        self.look_at_work(&shown);
        orphans.extend(shown.iter().map(|(session, decision)| orphan(self, session, *decision)));
        let quarantined = self.lock().quarantined.clone();
        let reaped = wish == Wish::Reap && request.dry_run != Some(true);
        if reaped && only.is_none() {
            report.ended = self.take_ended().iter().map(ToString::to_string).collect();
            self.dismiss_oldest();
        }
        let cookbook = if only.is_none() { self.claims() } else { Vec::new() };
        let (only, adopts) = (only.is_some(), wish == Wish::Adopt);
        Ok(Orphans { orphans, quarantined, swept, adopted, cookbook, report, reaped, only, adopts })
    }

    /// Looks once more where nobody has looked twice: what somebody takes of a processor shows between two looks.
    fn look_at_work(&self, shown: &[(Arc<Session>, Decision)]) {
        let is_unknown = |session: &Session| {
            let state = session.state();
            // One that is over is not looked at any more.
            let is_looked_at = !(state.settled || (state.over && state.empty));
            is_looked_at && state.cpu_pct().is_none() && state.sample.rows.values().any(|one| one.cpu_ticks.is_some())
        };
        let unknown: Vec<_> = shown.iter().map(|(session, _)| session).filter(|session| is_unknown(session)).collect();
        if !unknown.is_empty() {
            std::thread::sleep(BETWEEN_LOOKS);
            for session in unknown {
                self.sample_one(session);
            }
        }
    }

    /// Ends one orphan. Of all orphans only those are ended of which the preview that was confirmed has shown
    /// somebody: one that came since is for the next time.
    fn reap_shown(
        self: &Arc<Self>,
        session: &Arc<Session>,
        decision: Decision,
        how: How<'_>,
        report: &mut ReapReport,
        swept: &mut Vec<Receipt>,
    ) -> Result<(), AppError> {
        let signals = matches!(decision, Decision::Keep | Decision::TearDown);
        if let Some(confirmed) = how.confirm.filter(|_| signals && !how.end_escapees) {
            let plan = self.end(session, How { dry_run: true, confirm: None, ..how })?.plan.unwrap_or_default();
            let mut targets = plan.iter().filter(|row| row.signal.is_some()).peekable();
            let shown = |pid, token| confirmed.iter().any(|shown| shown.pid == pid && Some(&shown.token) == token);
            if targets.peek().is_some() && !targets.any(|row| shown(row.pid, row.start_token.as_ref())) {
                report.kept += 1;
                return Ok(());
            }
        }
        self.reap_one(session, decision, how, report, swept)
    }

    /// Takes a session over that is alive and whose manager is gone; says why not otherwise. Nobody is signalled.
    fn adopt(self: &Arc<Self>, session: &Arc<Session>, by_name: bool) -> Option<Adopted> {
        if session.tether().adoption.is_some() {
            let reason = "it was adopted from tmux, and belongs to no manager".to_owned();
            return by_name.then(|| Adopted { session: session.id.clone(), adopted: true, reason });
        }
        let view = self.view(&session.tether());
        let attended = view.spawner == VerdictKind::Owned;
        self.sample_one(session);
        // Of all sessions, those that have a manager and those that are over are nobody's to take.
        let over = session.phase().0.is_over() && Self::left_of(session).is_empty();
        if !by_name && (attended || over) {
            return None;
        }
        let taken = self.take_over(session);
        let adopted = taken.is_ok();
        Some(Adopted { session: session.id.clone(), adopted, reason: taken.unwrap_or_else(|reason| reason) })
    }

    fn take_over(self: &Arc<Self>, session: &Arc<Session>) -> Result<String, String> {
        let _lock = self.take_lock(&session.id, LOCK_PATIENCE).map_err(|error| error.message)?;
        // As it is on disk now: another manager may have been faster.
        self.take_in();
        let mut tether = session.tether();
        let before = tether.spawner.clone();
        if before == self.me {
            return Ok("it is this manager's own already".into());
        }
        let view = self.view(&tether);
        let attended = view.spawner == VerdictKind::Owned;
        adoptable(&view)
            .map_err(|reason| if attended { format!("{reason}: {}", named(&before)) } else { reason.into() })?;
        let panes = tether.tmux.as_ref().map(|record| super::hosts::panes(self, record)).transpose()?;
        if panes.is_none_or(|panes| panes.is_empty()) {
            return Err("its tmux session is gone".into());
        }
        (tether.spawner, tether.adopted, tether.last) = (self.me.clone(), true, None);
        (tether.stopping, tether.untold) = (false, false);
        self.store.save(&tether).map_err(|error| format!("its record could not be written: {error}"))?;
        session.state().tether = tether;
        self.changed();
        Ok(format!("its manager, {}, is gone; its workload and its tmux session are verified", named(&before)))
    }

    fn may_be_orphaned(&self, session: &Arc<Session>, tether: &Tether) -> bool {
        // What runs in a PTY of ours has a manager; what a stop has left of it counts.
        let ours = session.pty.is_some() && !self.is_left_behind(tether);
        let state = session.state();
        !(ours || state.settled || state.stopping || state.borrowed)
    }

    /// Decides about a record; tells whether its session is an orphan, too.
    fn judge(&self, tether: &Tether, view: &View) -> (Decision, bool) {
        let decision = decide(view);
        (decision, decision != Decision::Keep || self.is_left_behind(tether))
    }

    /// Says how many are without a manager.
    pub(super) fn orphan_check(&self) -> Check {
        let is_orphan = |session: &Arc<Session>| {
            let tether = session.tether();
            self.may_be_orphaned(session, &tether) && self.judge(&tether, &self.view(&tether)).1
        };
        let mut found = self.all().into_iter().filter(is_orphan);
        match found.next() {
            None => ok("orphans", "none"),
            Some(first) => warn(
                "orphans",
                format!("{}, for example {} ({})", found.count() + 1, first.id, first.tether().name),
                "`cookbook-tui orphans` names what is left of each; `orphans --reap` ends what is verified, and with \
                 `SESSION --end-kept PID` who was left alive on purpose",
            ),
        }
    }

    /// A stop did not end everything, or left somebody alive, or was interrupted: whoever is at it holds the lock.
    fn is_left_behind(&self, tether: &Tether) -> bool {
        let interrupted = || {
            let by_us = !tether.adopted || tether.adoption.is_some();
            !tether.captured.is_empty() && by_us && self.store.lock(&tether.session, Duration::ZERO).is_ok()
        };
        // Of whom its warden has left nobody nothing is left behind.
        tether.last.as_ref().is_some_and(|last| last.verdict != VerdictKind::Gone) || interrupted()
    }

    pub(super) fn left_of(session: &Session) -> Vec<ProcessRow> {
        let rows = rows_of(&session.state());
        rows.into_iter().filter(|row| row.verdict != VerdictKind::Gone).collect()
    }
}

/// What is to be done with orphans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Show,
    Reap,
    Adopt,
}

impl Wish {
    fn parse(request: &OrphansRequest) -> Result<Self, AppError> {
        let usage = |message: &str| Err(AppError::new(ErrorKind::Usage, message));
        let OrphansRequest { reap, adopt, session, dry_run, confirm, end_kept } = request;
        match (reap.unwrap_or(false), adopt.unwrap_or(false)) {
            (true, true) => usage("an orphan is either reaped or adopted: give one of reap and adopt"),
            (true, false) if end_kept.is_some() && session.is_none() => {
                usage("end_kept names processes of one session: say which with session")
            }
            (true, false) => Ok(Self::Reap),
            (false, _) if *dry_run == Some(true) || confirm.is_some() || end_kept.is_some() => {
                usage("dry_run, confirm and end_kept are about who is signalled: they need reap")
            }
            (false, true) => Ok(Self::Adopt),
            (false, false) => Ok(Self::Show),
        }
    }
}

/// Counts a decision that ends nobody.
pub(super) fn count(report: &mut ReapReport, decision: Decision) {
    match decision {
        Decision::Keep => report.kept += 1,
        Decision::TearDown | Decision::Failed => report.failed += 1,
        Decision::AlreadyGone => report.already_gone += 1,
        Decision::Foreign => report.foreign += 1,
        Decision::Unverifiable => report.unverifiable += 1,
        Decision::Quarantine => report.quarantined += 1,
    }
}

/// Why a session of which nothing is left but who carries its marker is still here.
const ONLY_MARKED: &str = "nothing but its marker ties who is left to it";

fn orphan(inner: &Inner, session: &Arc<Session>, decision: Decision) -> Orphan {
    let mut row = inner.session_row(session);
    let tether = session.tether();
    let mut left = Inner::left_of(session);
    if tether.warden.is_some() && !session.state().sees_warden() {
        // A warden that is there has everybody who could carry it.
        let known: Vec<Pid> = left.iter().map(|row| row.pid).collect();
        let marked = inner.marked_of(&tether).into_iter().filter(|one| !known.contains(&one.pid));
        let unbound = marked.map(|one| Unreadable { pid: one.pid, reason: MARKED.to_owned() });
        let marked: Vec<ProcessRow> = unbound.map(|one| unbound_row(&one, &inner.inspector)).collect();
        if left.is_empty() && !marked.is_empty() {
            row.verdict = row.verdict.worst(VerdictKind::Unverifiable);
            row.processes += marked.len();
        }
        left.extend(marked);
    }
    let why = match decision {
        Decision::AlreadyGone if !left.is_empty() => ONLY_MARKED,
        Decision::Keep => match tether.other_protocol() {
            Some(how) => &format!("{how}; it is left as it is"),
            None => "a stop did not end everything",
        },
        other @ (Decision::TearDown
        | Decision::AlreadyGone
        | Decision::Foreign
        | Decision::Unverifiable
        | Decision::Failed
        | Decision::Quarantine) => other.why(),
    };
    Orphan {
        age_s: (boottime() - tether.spawned_at).max(0.0),
        reason: tether.last.as_ref().map_or_else(|| why.to_owned(), |last| last.reason.clone()),
        last: tether.last,
        left,
        row,
    }
}
