//! Sessions that were not launched by us, once they are bound: who is in them, and whether they may be stopped.
//!
//! Nothing but the identities that were bound counts. A pane that was respawned or moved in since is nobody's to
//! signal until a person adopts the session again, and a server that was restarted has other sessions. There is no
//! warden: membership rests on parents and kernel sessions alone.

use std::sync::Arc;

use super::Inner;
use super::hosts::{ServerState, guard_for_looking, panes, root_of, server_state};
use super::session::Session;
use super::stopper::How;
use crate::app::contract::Phase;
use crate::app::error::{AppError, ErrorKind};
use crate::app::event::Event;
use crate::lifecycle::authority::verify;
use crate::lifecycle::clock;
use crate::lifecycle::identity::{Identity, Pid};
use crate::lifecycle::inspect::Unreadable;
use crate::lifecycle::tether::{ExitRecord, Tether};
use crate::lifecycle::tree::{Captured, Depth, Followed, capture};
use crate::lifecycle::verdict::VerdictKind;
use crate::tmux::parse::{PaneRow, PaneState};

/// What is said of every session without a warden.
pub(super) const NO_WARDEN: &str = "it was not launched by cookbook-tui and has no warden: what left its process tree and its kernel sessions is not seen";

/// What is said of a session in which we run ourselves.
pub(super) const HOLDS_US: &str = "this cookbook-tui runs inside of it: stop it from outside";

/// What tmux says of the panes of a session, held against those that were bound.
#[derive(Default)]
pub(super) struct Panes {
    /// The roots that were bound, without those that have gone to another session.
    pub(super) roots: Vec<Identity>,
    /// Live panes that are not what was bound, and who runs in them.
    strangers: Vec<(String, Pid)>,
    /// How the pane that the session began with has ended, where tmux still shows it.
    exit: Option<ExitRecord>,
    /// The tmux session is there.
    pub(super) open: bool,
    /// A window that is also in another session.
    linked: Option<String>,
}

/// All of it has ended, and how, where that is known.
struct Ended(Option<ExitRecord>);

impl Panes {
    /// Asks tmux.
    ///
    /// # Errors
    /// When the server that was bound did not answer: nobody can tell then.
    pub(super) fn look(inner: &Inner, tether: &Tether) -> Result<Self, String> {
        let (Some(record), Some(adoption)) = (&tether.tmux, &tether.adoption) else {
            return Err("it was not adopted".into());
        };
        let rows = panes(inner, record)?;
        let shows = |rows: &[PaneRow], pid: Pid| rows.iter().any(|row| root_of(row) == Some(pid));
        let mut elsewhere = Vec::new();
        let is_missing =
            |root: &Identity| !shows(&rows, root.pid) && verify(root, &inner.inspector).kind != VerdictKind::Gone;
        if tether.pane_roots().any(is_missing)
            && let ServerState::There(server) = server_state(inner, record)
        {
            elsewhere = server.all_panes().map_err(|error| error.to_string())?;
        }
        let stays = |root: &&Identity| shows(&rows, root.pid) || !shows(&elsewhere, root.pid);
        let is_bound = |row: &PaneRow, pid: Pid| {
            let pane = row.pane.to_string();
            let mut bound = adoption.panes.iter().filter(|root| root.pane_id == pane && root.identity.pid == pid);
            bound.any(|root| verify(&root.identity, &inner.inspector).kind != VerdictKind::Foreign)
        };
        let strangers = rows.iter().filter_map(|row| Some((row, root_of(row)?)));
        let strangers = strangers.filter(|(row, pid)| !is_bound(row, *pid));
        Ok(Self {
            roots: tether.pane_roots().filter(stays).cloned().collect(),
            strangers: strangers.map(|(row, pid)| (row.pane.to_string(), pid)).collect(),
            exit: rows.iter().find(|row| row.pane.to_string() == record.pane_id).and_then(exit_of),
            open: !rows.is_empty(),
            linked: rows.iter().find(|row| row.linked).map(|row| row.window.to_string()),
        })
    }

    /// Says why the session must be left as it is, if so.
    pub(super) fn refusal(&self) -> Option<String> {
        if let Some(window) = &self.linked {
            return Some(format!(
                "its window {window} is also linked into another tmux session: unlink it there, then stop it again"
            ));
        }
        self.strangers.first().map(|(pane, pid)| stranger(pane, *pid))
    }

    /// Adds whoever was not bound to a capture, as nobody that may be signalled.
    pub(super) fn add_strangers(&self, captured: &mut Captured) {
        let unreadable = |(pane, pid): &(String, Pid)| Unreadable { pid: *pid, reason: stranger(pane, *pid) };
        captured.unbound.extend(self.strangers.iter().map(unreadable));
    }
}

fn stranger(pane: &str, pid: Pid) -> String {
    format!(
        "its pane {pane} runs process {pid}, which was not there when it was adopted: adopt it again to take that in"
    )
}

fn exit_of(row: &PaneRow) -> Option<ExitRecord> {
    match row.state {
        PaneState::Dead { status: None, signal: None, .. } | PaneState::Running { .. } => None,
        PaneState::Dead { status, signal, .. } => {
            // tmux shows the status 0 beside a signal.
            let code = status.filter(|_| signal.is_none());
            Some(ExitRecord {
                code,
                signal: signal.map(|number| number.to_string()),
                at: clock::wall_seconds(),
                emptied: false,
                address_space: None,
            })
        }
    }
}

impl Inner {
    /// Tells whether we run inside of an adopted session.
    pub(super) fn holds_us(&self, tether: &Tether) -> bool {
        if tether.adoption.is_none() {
            return false;
        }
        let guard = guard_for_looking(self, tether);
        tether.pane_roots().any(|root| guard.holds_us(root.pid))
    }

    /// Says what is different about a session that was not launched by us.
    pub(super) fn adoption_detail(&self, tether: &Tether) -> Option<String> {
        let adoption = tether.adoption.as_ref()?;
        let session = tether.tmux.as_ref().map_or("", |record| record.session_id.as_str());
        let more = if self.holds_us(tether) { HOLDS_US } else { "no warden" };
        Some(match &adoption.task {
            Some(task) => format!("task {task:?} of Cookbook, tmux session {session}; {more}"),
            None => format!("adopted tmux session {session} {:?}; {more}", adoption.tmux_name),
        })
    }

    /// Looks at an adopted session: at the processes, and at tmux only once nothing of what was bound lives.
    pub(super) fn sample_adopted(&self, session: &Arc<Session>, tether: &Tether) {
        let roots: Vec<Identity> = tether.pane_roots().cloned().collect();
        let guard = guard_for_looking(self, tether);
        if self.look_again(session, &tether.scope(roots.clone()), &guard, &roots) {
            return;
        }
        let verdict = self.root_verdict(tether);
        let mut panes = Panes { roots, ..Panes::default() };
        let mut witness = None;
        let mut ended = None;
        if verdict != VerdictKind::Owned {
            match Panes::look(self, tether) {
                Ok(seen) => {
                    witness = seen.strangers.first().map(|(pane, pid)| (Phase::Unverifiable, stranger(pane, *pid)));
                    if witness.is_none() && verdict != VerdictKind::Unverifiable {
                        ended = Some(Ended(seen.exit.clone()));
                    }
                    panes = seen;
                }
                Err(reason) => witness = Some((Phase::Unverifiable, reason)),
            }
        }
        let first = self.witness(session, witness, ended);
        if verdict == VerdictKind::Owned {
            let tree = Followed::capture(tether.scope(panes.roots), guard, &self.inspector);
            return self.follow_tree(session, tree, verdict);
        }
        let mut captured = capture(&tether.scope(panes.roots.clone()), Depth::Host, &guard, &self.inspector);
        panes.add_strangers(&mut captured);
        self.note(session, &captured, verdict);
        if first {
            let exit = session.state().exit.clone();
            let (exit_code, signal) = exit.map_or((None, None), |exit| (exit.code, exit.signal));
            self.publish(Event::Exited { session: session.id.clone(), exit_code, signal, attempt: None });
        }
    }

    /// Takes note of what tmux says; tells whether this is the first that is known of an end.
    fn witness(&self, session: &Arc<Session>, witness: Option<(Phase, String)>, ended: Option<Ended>) -> bool {
        let mut state = session.state();
        state.witness = witness.map(|(phase, detail)| (phase, Some(detail)));
        let Some(Ended(exit)) = ended.filter(|_| !state.over) else { return false };
        state.elsewhere |= !state.borrowed && self.is_ended_elsewhere(session, &state);
        state.exit = state.exit.take().or(exit);
        state.over = true;
        !state.elsewhere && !state.stopping
    }

    /// Refuses, before anything is done, to stop a session of others that must not be stopped now.
    ///
    /// # Errors
    /// When it holds us, its panes are not those of the preview that was confirmed, or its task could not be marked.
    pub(super) fn check_guest(&self, session: &Session, how: How<'_>) -> Result<(), AppError> {
        let tether = session.tether();
        let refuse = |why: &str| AppError::new(ErrorKind::Refused, format!("{} was not stopped: {why}", session.id));
        if self.holds_us(&tether) {
            return Err(refuse(HOLDS_US));
        }
        // What is bound in memory only is bound anew whenever its panes change.
        if let Some(confirmed) = how.confirm.filter(|_| session.state().borrowed) {
            let shown = |root: &Identity| confirmed.iter().any(|shown| shown.names(root));
            let newcomer = tether
                .pane_roots()
                .find(|root| !shown(root) && verify(root, &self.inspector).kind == VerdictKind::Owned);
            if let Some(root) = newcomer {
                return Err(refuse(&format!(
                    "it changed since the preview: process {} runs in a pane of it",
                    root.pid
                )));
            }
        }
        if how.dry_run { Ok(()) } else { self.check_task(&tether) }
    }

    /// Returns the verdict on the roots: owned while one of them lives.
    fn root_verdict(&self, tether: &Tether) -> VerdictKind {
        use VerdictKind::{Gone, Owned, Unverifiable};
        let verdicts: Vec<_> = tether.pane_roots().map(|root| verify(root, &self.inspector).kind).collect();
        let first = [Owned, Unverifiable].into_iter().find(|kind| verdicts.contains(kind));
        first.unwrap_or_else(|| verdicts.into_iter().reduce(VerdictKind::worst).unwrap_or(Gone))
    }
}

/// Refuses what makes no sense for a session that was not launched by us.
///
/// # Errors
/// With this reason.
pub(super) fn only_ours(session: &Session, why: &str) -> Result<(), AppError> {
    if session.tether().adoption.is_none() {
        return Ok(());
    }
    let message = format!("{} was not launched by cookbook-tui: {why}", session.id);
    Err(AppError::new(ErrorKind::Refused, message))
}
