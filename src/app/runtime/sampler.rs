//! Looks at the members of every session once a second (of quiet ones beside the one that is looked at every fourth
//! second), off the screen's thread, and says what changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Inner;
use super::adopted::Panes;
use super::hosts::{guard, guard_for_looking};
use super::panes::beside;
use super::session::{GONE_SHOWN, Sample, Sampled, Session};
use crate::app::contract::Phase;
use crate::app::event::Event;
use crate::lifecycle::authority::verify;
use crate::lifecycle::guard::Guard;
use crate::lifecycle::identity::Identity;
use crate::lifecycle::inspect::{InspectorKind, Unreadable};
use crate::lifecycle::receipt::ProcessRow;
use crate::lifecycle::rows::{MARKED, row, unbound_row};
use crate::lifecycle::tether::Tether;
use crate::lifecycle::tree::{Captured, Depth, Fate, Followed, Scope, capture, is_fenced};
use crate::lifecycle::verdict::VerdictKind;

/// What one look showed.
#[derive(Default)]
struct Look {
    rows: Vec<(Identity, Sampled)>,
    supervisors: Vec<ProcessRow>,
    unbound: Vec<ProcessRow>,
    blind: bool,
    workload: Option<VerdictKind>,
}

/// Time between two looks.
pub(super) const TICK: Duration = Duration::from_secs(1);
/// Of so many of them a quiet session of this run that nobody looks at has one. Its exit is seen at once all the same,
/// by its pidfd.
const QUIET_TICKS: u32 = 4;

/// Starts the sampling thread; it ends with the runtime.
pub(super) fn start(inner: &Arc<Inner>) {
    let weak = Arc::downgrade(inner);
    std::thread::spawn(move || {
        for tick in (0..QUIET_TICKS).cycle() {
            let Some(inner) = weak.upgrade().filter(|inner| !inner.is_closing()) else { return };
            let all = inner.all();
            inner.look_at_servers(&all);
            for (session, turn) in all.iter().zip((0..QUIET_TICKS).cycle()) {
                if turn == tick || !inner.may_be_left_alone(session) {
                    inner.sample_one(session);
                }
                inner.watch_ceiling(session);
            }
            drop(inner);
            std::thread::sleep(TICK);
        }
    });
}

impl Inner {
    /// Tells whether nobody misses a look: somebody looks at another session, and none of this one's processes has done
    /// anything between the last two looks.
    fn may_be_left_alone(&self, session: &Session) -> bool {
        self.inspector.kind() == InspectorKind::Procfs
            && self.looked_at.is_elsewhere(&session.id)
            // Its exit is waited for by its pidfd: it was launched by this run.
            && session.request.is_some()
            && matches!(session.phase().0, Phase::Running | Phase::Idle | Phase::Ready)
            && session.state().sample.is_quiet()
    }

    /// Looks at one session now, in its trees only.
    pub(super) fn sample_one(&self, session: &Arc<Session>) {
        let panes = self.panes_seen(&session.tether());
        self.sample_in(session, panes);
    }

    /// As [`Self::sample_one`], where somebody waits who is not to wait for tmux: with the panes that are known. The thread
    /// that looks every second asks for the others.
    pub(super) fn sample_known(&self, session: &Arc<Session>) {
        let panes = self.panes_known(&session.tether());
        self.sample_in(session, panes);
    }

    fn sample_in(&self, session: &Arc<Session>, panes: Vec<Identity>) {
        let mut tether = session.tether();
        let others: Vec<Identity> = beside(&panes, &tether).cloned().collect();
        let nobody_left = {
            let state = session.state();
            state.settled || (state.over && state.empty && others.is_empty())
        };
        if nobody_left {
            session.reap();
            *session.followed() = None;
            self.sample_with(session, Look { workload: Some(VerdictKind::Gone), ..Look::default() });
            return;
        }
        if tether.adoption.is_some() {
            return self.sample_adopted(session, &tether);
        }
        let guard = guard_for_looking(self, &tether);
        let claims: Vec<Identity> = std::iter::once(tether.workload.identity.clone()).chain(others).collect();
        if self.look_again(session, &tether.scope(panes.clone()), &guard, &claims) {
            return self.renew_ceiling(session);
        }
        session.reap();
        // Most often its workload is where it was, and nobody is asked twice.
        if !matches!(session.state().sample.workload, Some(VerdictKind::Gone | VerdictKind::Foreign)) {
            let tree = Followed::capture(tether.scope(panes.clone()), guard.clone(), &self.inspector);
            if tree.holds(&tether.workload.identity) {
                self.renew_ceiling(session);
                return self.follow_tree(session, tree, VerdictKind::Owned);
            }
        }
        let mut workload = verify(&tether.workload.identity, &self.inspector).kind;
        if matches!(workload, VerdictKind::Gone | VerdictKind::Foreign) && tether.restarts.is_some() {
            tether = self.reread(session);
            workload = verify(&tether.workload.identity, &self.inspector).kind;
        }
        // Whoever looks into its failure says that it is over; the others need not be kept waiting.
        if matches!(workload, VerdictKind::Gone | VerdictKind::Foreign) && !session.is_examined_now() {
            self.await_exit(session);
        }
        if workload == VerdictKind::Owned {
            self.renew_ceiling(session);
        }
        // With nobody left to start a walk from, only the whole host shows who stayed behind.
        let watched = workload == VerdictKind::Owned
            || tether.warden.as_ref().is_some_and(|warden| verify(warden, &self.inspector).kind == VerdictKind::Owned);
        if watched {
            let tree = Followed::capture(tether.scope(panes), guard, &self.inspector);
            return self.follow_tree(session, tree, workload);
        }
        let captured = capture(&tether.scope(panes), Depth::Host, &guard, &self.inspector);
        self.note(session, &captured, workload);
        let empty = captured.is_empty();
        session.state().empty = empty;
        // It has ended by itself: its terminal is nobody's any more.
        if let Some(owned) = session.pty.as_ref().filter(|_| empty && session.state().over) {
            owned.let_go(&captured);
        }
        // Whoever it had left was ended by its warden.
        let is_late = {
            let state = session.state();
            state.over && !state.elsewhere
        };
        if empty && is_late {
            self.take_receipt(session);
        }
    }

    /// Looks at a tree that is followed, and takes note of it where it holds these processes, and nobody has come or
    /// gone.
    pub(super) fn look_again(&self, session: &Arc<Session>, scope: &Scope, guard: &Guard, claims: &[Identity]) -> bool {
        let mut followed = session.followed();
        let all = |tree: &&mut Followed| claims.iter().all(|claim| tree.holds(claim));
        if let Some(tree) = followed.as_mut().filter(all)
            && tree.look_again(scope, guard, &self.inspector)
        {
            self.note(session, tree.captured(), VerdictKind::Owned);
            return true;
        }
        *followed = None;
        false
    }

    /// Takes note of captured trees, and follows them from now on where that is worth it.
    pub(super) fn follow_tree(&self, session: &Arc<Session>, tree: Followed, root: VerdictKind) {
        self.note(session, tree.captured(), root);
        *session.followed() = Some(tree).filter(|tree| root == VerdictKind::Owned && tree.is_worth_it());
    }

    /// Takes note of a capture.
    pub(super) fn note(&self, session: &Arc<Session>, captured: &Captured, workload: VerdictKind) {
        let unbound = captured.unbound.iter().map(|error| unbound_row(error, &self.inspector)).collect();
        let now = Instant::now();
        let before: BTreeMap<Identity, (Option<u64>, Option<Instant>)> = {
            let state = session.state();
            state.sample.rows.iter().map(|(id, sampled)| (id.clone(), (sampled.cpu_ticks, state.sample.at))).collect()
        };
        let rows = captured
            .members
            .iter()
            .map(|member| {
                let identity = member.pinned.identity().clone();
                let ticks = member.pinned.facts().cpu_ticks;
                let cpu = before.get(&identity).and_then(|(old, at)| cpu_pct(*old, ticks, (*at)?, now));
                let sampled = Sampled {
                    row: ProcessRow { gpu_bytes: self.gpu_bytes_of(&identity), ..row(member, &self.inspector, cpu) },
                    cpu_ticks: ticks,
                    escapee: member.fate == Fate::Report,
                    left_behind: false,
                    gone_since: None,
                };
                (identity, sampled)
            })
            .collect();
        let supervisors = captured.supervisors.iter().map(|member| row(member, &self.inspector, None)).collect();
        let look = Look { rows, supervisors, unbound, blind: captured.blind, workload: Some(workload) };
        self.sample_with(session, look);
    }

    fn sample_with(&self, session: &Arc<Session>, look: Look) {
        let Look { rows, supervisors, mut unbound, blind, workload } = look;
        let now = Instant::now();
        let tether = session.tether();
        let marked = self.marked_rows(&tether);
        let ports = self.ports_of(session, rows.iter().map(|(identity, _)| identity.clone()).collect());
        let mut merged: BTreeMap<Identity, Sampled> = rows.into_iter().collect();
        let seen_whole = !blind && unbound.is_empty();
        let fenced = if seen_whole { self.fenced(session, &tether, &merged) } else { BTreeSet::new() };
        let mut events = Vec::new();
        {
            let mut state = session.state();
            let first = state.sample.at.is_none();
            for (identity, sampled) in &mut merged {
                sampled.left_behind = state.sample.rows.get(identity).is_some_and(|known| known.left_behind);
            }
            for (identity, sampled) in &merged {
                let pid = identity.pid.raw();
                match state.sample.rows.get(identity) {
                    None if !first && !state.told_new.contains(identity) => events.push(Event::ProcessNew {
                        session: session.id.clone(),
                        pid,
                        command: sampled.row.command.clone(),
                    }),
                    Some(known) if known.row.verdict != sampled.row.verdict => events.push(Event::Verdict {
                        session: session.id.clone(),
                        pid,
                        verdict: sampled.row.verdict,
                        reason: sampled.row.reason.clone(),
                    }),
                    None | Some(_) => {}
                }
            }
            // Who is not there any more is shown for a few seconds with the verdict that holds now. Who is alive
            // all the same (left alive by a stop, or out of our sight) stays: absence proves nothing.
            for (identity, known) in &state.sample.rows {
                if merged.contains_key(identity) {
                    continue;
                }
                let verdict = verify(identity, &self.inspector);
                let mut left = known.clone();
                (left.row.verdict, left.row.reason, left.row.cpu_pct) = (verdict.kind, verdict.reason, None);
                if matches!(verdict.kind, VerdictKind::Owned | VerdictKind::Unverifiable) {
                    // One that has come to answer to somebody else, as in a pane that was moved, is none of ours.
                    let fenced = verdict.kind == VerdictKind::Owned && fenced.contains(identity);
                    left.left_behind = seen_whole && !fenced;
                    if !fenced || state.settled {
                        merged.insert(identity.clone(), left);
                    }
                    continue;
                }
                let since = known.gone_since.unwrap_or(now);
                if known.gone_since.is_none() && !state.told_gone.contains(identity) {
                    events.push(Event::ProcessGone {
                        session: session.id.clone(),
                        pid: identity.pid.raw(),
                        command: known.row.command.clone(),
                    });
                }
                if now.duration_since(since) < GONE_SHOWN {
                    left.gone_since = Some(since);
                    merged.insert(identity.clone(), left);
                }
            }
            unbound.extend(marked.into_iter().filter(|row| !merged.values().any(|known| known.row.pid == row.pid)));
            state.sample = Sample { at: Some(now), rows: merged, supervisors, unbound, blind, workload, ports };
        }
        for event in events {
            self.publish(event);
        }
        self.tell_phase(session);
    }

    /// Returns those of the last look whom this one, with `found`, has not found, and who answer to somebody else.
    fn fenced(&self, session: &Session, tether: &Tether, found: &BTreeMap<Identity, Sampled>) -> BTreeSet<Identity> {
        let mut missing: BTreeSet<Identity> =
            session.state().sample.rows.keys().filter(|known| !found.contains_key(*known)).cloned().collect();
        if !missing.is_empty() {
            let guard = guard_for_looking(self, tether);
            missing.retain(|known| is_fenced(known.pid, &guard, &self.inspector));
        }
        missing
    }

    /// Returns those whom a stop has named for nothing but the marker of the session, and who may live still.
    fn marked_rows(&self, tether: &Tether) -> Vec<ProcessRow> {
        let marked = tether.left.iter().filter(|record| record.membership.is_empty());
        let may_live = |identity: &&Identity| {
            matches!(verify(identity, &self.inspector).kind, VerdictKind::Owned | VerdictKind::Unverifiable)
        };
        let row = |identity: &Identity| {
            unbound_row(&Unreadable { pid: identity.pid, reason: MARKED.to_owned() }, &self.inspector)
        };
        marked.map(|record| &record.identity).filter(may_live).map(row).collect()
    }

    /// Captures a session on the whole host, for `tree`.
    pub(super) fn capture_all(&self, session: &Arc<Session>) -> Result<(Captured, VerdictKind), String> {
        let tether = session.tether();
        let adopted = tether.adoption.is_some().then(|| Panes::look(self, &tether)).transpose()?;
        let panes = match (&tether.tmux, &adopted) {
            (None, _) => Vec::new(),
            (Some(_), Some(adopted)) => adopted.roots.clone(),
            (Some(record), None) => super::hosts::pane_identities(self, record)?,
        };
        let guard: Guard = guard(self, &tether);
        let depth = if self.inspector.kind() == InspectorKind::Procfs { Depth::Host } else { Depth::Trees };
        let mut scope = tether.scope(panes);
        scope.known.extend(session.remembered());
        let mut captured = capture(&scope, depth, &guard, &self.inspector);
        if let Some(panes) = &adopted {
            panes.add_strangers(&mut captured);
        }
        let workload = verify(&tether.workload.identity, &self.inspector).kind;
        Ok((captured, workload))
    }
}

/// Percent of one core between two looks.
fn cpu_pct(old: Option<u64>, new: Option<u64>, at: Instant, now: Instant) -> Option<f64> {
    let elapsed = now.duration_since(at).as_secs_f64();
    let ticks = new?.checked_sub(old?)?;
    if elapsed < 0.05 {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "a percentage; ticks stay far below 2^52")]
    let seconds = ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    Some((seconds / elapsed * 1000.0).round() / 10.0)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::lifecycle::identity::{Pid, StartToken};

    #[test]
    fn quiet_is_who_has_been_seen_to_do_nothing() {
        let pid = Pid::new(7).unwrap();
        let identity = Identity { pid, token: StartToken::Procfs { boot_id: "b".into(), ticks: 1 }, pidfd_inode: None };
        let quiet = |cpu: Option<f64>, verdict, gone_since| {
            let row = json!({
                "pid": 7, "ppid": 1, "pgid": 7, "sid": 7, "start_token": null, "command": "sh", "state": "S",
                "verdict": verdict, "reason": "", "membership": [], "cpu_pct": cpu, "rss_bytes": 1, "threads": 1,
            });
            let row = serde_json::from_value(row).unwrap();
            let sampled = Sampled { row, cpu_ticks: Some(1), escapee: false, left_behind: false, gone_since };
            Sample { at: Some(Instant::now()), rows: [(identity.clone(), sampled)].into(), ..Sample::default() }
                .is_quiet()
        };
        assert!(quiet(Some(0.0), VerdictKind::Owned, None));
        assert!(!quiet(Some(0.1), VerdictKind::Owned, None));
        assert!(!quiet(None, VerdictKind::Owned, None), "nobody has looked twice");
        assert!(!quiet(Some(0.0), VerdictKind::Foreign, None));
        assert!(!quiet(Some(0.0), VerdictKind::Owned, Some(Instant::now())));
        assert!(!Sample::default().is_quiet(), "nobody has looked");
    }

    #[test]
    fn percent_of_a_core() {
        let at = Instant::now();
        let check = |old, new, seconds, expected| {
            assert_eq!(cpu_pct(old, new, at, at + Duration::from_secs_f64(seconds)), expected);
        };
        check(Some(100), Some(150), 1.0, Some(50.0));
        check(Some(100), Some(300), 1.0, Some(200.0));
        check(Some(100), Some(100), 1.0, Some(0.0));
        check(Some(100), Some(50), 1.0, None);
        check(None, Some(50), 1.0, None);
        check(Some(0), Some(50), 0.0, None);
    }
}
