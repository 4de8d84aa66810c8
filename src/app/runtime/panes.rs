//! The panes of sessions of ours as far as anybody has looked: those that a person opens beside the first one, too.
//!
//! A look asks tmux only when the server has other children than at the last answer: every pane is one of them.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::Inner;
use super::hosts::{ServerState, bind, is_stopped, lasting_trouble, server_state};
use super::session::Session;
use crate::lifecycle::identity::{Identity, Pid};
use crate::lifecycle::tether::{Tether, TmuxRecord};
use crate::tmux::SessionId;
use crate::tmux::parse::PaneRow;

/// Said of a stop of a session with panes that no warden watches.
pub(super) const BESIDE: &str =
    "panes that were opened by hand have no warden: who had left one of them before it was seen may be missing here";

/// How long an answer serves all sessions of a tick.
const GLANCE: Duration = Duration::from_millis(900);
/// Time between two questions where the children of a process are not listed, or tmux did not answer.
const BLIND: Duration = Duration::from_secs(5);

/// Time between two questions while a session has several panes: one that is moved into another session stays the same
/// child.
const MOVED: Duration = Duration::from_secs(15);

/// What was seen of one server.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    server: Identity,
    looked_at: Instant,
    asked_at: Instant,
    /// Whose children they were at the last answer; `None` where nobody lists them, or there was no answer.
    children: Option<Vec<Pid>>,
    roots: Vec<(SessionId, Identity)>,
}

impl Seen {
    fn roots_of(&self, session: SessionId) -> Vec<Identity> {
        self.roots.iter().filter(|(of, _)| *of == session).map(|(_, root)| root.clone()).collect()
    }

    fn holds_several(&self) -> bool {
        self.roots
            .iter()
            .enumerate()
            .any(|(at, (session, _))| self.roots[..at].iter().any(|(other, _)| other == session))
    }
}

/// Returns the panes, of those of a session, that a person has opened beside the one that has a warden.
pub(super) fn beside<'a>(roots: &'a [Identity], tether: &'a Tether) -> impl Iterator<Item = &'a Identity> {
    let front = tether.front.as_ref();
    roots.iter().filter(move |root| front.is_some_and(|front| front != *root))
}

/// Returns where a session of ours is in tmux.
fn place(tether: &Tether) -> Option<(&TmuxRecord, SessionId)> {
    let record = tether.tmux.as_ref().filter(|_| tether.adoption.is_none())?;
    Some((record, record.session_id.parse().ok()?))
}

/// How long a server that seems to be lost is given to be seen to leave.
const LEAVING: Duration = Duration::from_millis(50);

impl Inner {
    /// Looks whether the tmux servers of sessions can be asked, and says so of each where one cannot.
    pub(super) fn look_at_servers(&self, sessions: &[Arc<Session>]) {
        let mut servers = BTreeMap::new();
        for session in sessions {
            let record = if session.has_ended() { None } else { session.state().tether.tmux.clone() };
            let trouble = record.and_then(|record| {
                let key = (record.socket.clone(), record.server.pid);
                servers.entry(key).or_insert_with(|| lasting_trouble(self, &record, LEAVING)).clone()
            });
            // Told with the next look at the session.
            session.state().trouble = trouble;
        }
    }

    /// Tells whether a person has opened panes beside the one that has a warden, or somebody lives who left one of them.
    pub(super) fn has_panes_beside(&self, session: &Session, tether: &Tether) -> bool {
        let opened = || beside(&self.panes_known(tether), tether).next().is_some();
        tether.front.is_some() && (opened() || session.state().sees_left_behind())
    }

    /// Returns the roots of the panes of a session as they were last seen; asks nobody.
    pub(super) fn panes_known(&self, tether: &Tether) -> Vec<Identity> {
        let Some((record, session)) = place(tether) else { return Vec::new() };
        self.seen_of(&record.server).map_or_else(Vec::new, |seen| seen.roots_of(session))
    }

    /// Returns the roots of the panes that a session has in tmux. For looking: a stop asks anew.
    pub(super) fn panes_seen(&self, tether: &Tether) -> Vec<Identity> {
        let Some((record, session)) = place(tether) else { return Vec::new() };
        let before = self.seen_of(&record.server);
        if let Some(fresh) = before.as_ref().filter(|seen| seen.looked_at.elapsed() < GLANCE) {
            return fresh.roots_of(session);
        }
        // Nobody who only reads what is known waits for tmux.
        let seen = self.look_at_panes(record, before);
        let roots = seen.roots_of(session);
        let mut all = self.panes.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.server != seen.server);
        all.push(seen);
        roots
    }

    fn seen_of(&self, server: &Identity) -> Option<Seen> {
        let all = self.panes.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|seen| seen.server == *server).cloned()
    }

    fn look_at_panes(&self, record: &TmuxRecord, before: Option<Seen>) -> Seen {
        let now = Instant::now();
        let children = self.children_of(record.server.pid);
        if let Some(before) = &before {
            let settled = !before.holds_several() || before.asked_at.elapsed() < MOVED;
            let same = children.is_some() && children == before.children && settled;
            let later = (children.is_none() || before.children.is_none()) && before.asked_at.elapsed() < BLIND;
            if same || later {
                return Seen { looked_at: now, ..before.clone() };
            }
        }
        let asked = self.ask_for_panes(record);
        Seen {
            server: record.server.clone(),
            looked_at: now,
            asked_at: now,
            children: children.filter(|_| asked.is_some()),
            roots: asked.or_else(|| before.map(|before| before.roots)).unwrap_or_default(),
        }
    }

    /// Returns the children of a process, sorted; `None` where the host does not list them.
    fn children_of(&self, pid: Pid) -> Option<Vec<Pid>> {
        let kin = self.inspector.kin(pid, 1)?;
        let mut children = Vec::new();
        self.inspector.children(&kin, &mut children);
        children.sort_unstable();
        Some(children)
    }

    /// Asks a server for all of its panes; `None` where it does not answer.
    fn ask_for_panes(&self, record: &TmuxRecord) -> Option<Vec<(SessionId, Identity)>> {
        let rows = match server_state(self, record) {
            // One that is stopped would have every look wait for it.
            ServerState::There(server) if !is_stopped(self, record) => server.all_panes().ok()?,
            ServerState::Gone => return Some(Vec::new()),
            ServerState::There(_) | ServerState::Unknown(_) => return None,
        };
        let rows = rows.into_iter().filter(|row| row.server == record.server.pid && !row.linked);
        let bound = |row: PaneRow| {
            let roots = bind(self, record, std::slice::from_ref(&row));
            roots.into_iter().map(move |root| (row.session, root))
        };
        Some(rows.flat_map(bound).collect())
    }
}
