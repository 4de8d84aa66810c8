//! What differs between a PTY and tmux when a session is stopped.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::Inner;
use super::adopted::Panes;
use super::panes::{BESIDE, beside};
use super::session::Session;
use crate::app::contract::HostKind;
use crate::lifecycle::authority::{Pin, Pinned, verify};
use crate::lifecycle::guard::Guard;
use crate::lifecycle::identity::{Identity, Pid};
use crate::lifecycle::inspect::InspectorKind;
use crate::lifecycle::stop::Host;
use crate::lifecycle::store::Store;
use crate::lifecycle::tether::{CapturedRecord, Tether, TmuxRecord};
use crate::lifecycle::tree::{Captured, Scope};
use crate::lifecycle::verdict::VerdictKind;
use crate::tmux::parse::{PaneRow, PaneState};
use crate::tmux::server::Closed;
use crate::tmux::{Probe, Server, SessionId, SocketRef, TmuxError};

/// A session as a stop sees it.
pub(super) struct SessionHost<'a> {
    pub(super) inner: &'a Inner,
    pub(super) session: &'a Arc<Session>,
    pub(super) tether: Tether,
    /// The record is still on disk and is to hold the captured identities.
    pub(super) recorded: bool,
    /// What the host had to say.
    pub(super) notes: Vec<String>,
    /// The host was asked for its panes before.
    pub(super) asked: bool,
    /// Ends those that the recipe only reports, too: for this stop; the record keeps what the recipe says.
    pub(super) end_escapees: bool,
    /// Panes in which something runs, as last asked.
    pub(super) running_panes: usize,
    /// What is to be said because a person has opened panes beside the one that has a warden.
    pub(super) beside: Option<&'static str>,
}

impl SessionHost<'_> {
    /// Takes `prepare` back, where the session was not closed in the end.
    pub(super) fn release(&mut self) {
        if let Err(error) = self.ask(Server::release_panes) {
            self.notes.push(format!("its panes may stay when their programs end (remain-on-exit): {error}"));
        }
    }

    /// Has its tmux server do something with the session; nothing where either is gone.
    fn ask(&self, what: impl FnOnce(&Server, &SessionId) -> Result<(), TmuxError>) -> Result<(), String> {
        let Some(record) = &self.tether.tmux else { return Ok(()) };
        let server = match server_state(self.inner, record) {
            ServerState::There(server) => server,
            ServerState::Gone => return Ok(()),
            ServerState::Unknown(why) => return Err(why),
        };
        let session: SessionId = record.session_id.parse().map_err(|error| format!("{error}"))?;
        what(&server, &session).or_else(|error| if error.is_absence() { Ok(()) } else { Err(error.to_string()) })
    }
}

impl Host for SessionHost<'_> {
    fn name(&self) -> &'static str {
        self.session.host.name()
    }

    fn scope(&mut self) -> Result<Scope, String> {
        let panes = match &self.tether.tmux {
            None => Vec::new(),
            Some(_) if self.tether.adoption.is_some() => {
                let panes = Panes::look(self.inner, &self.tether)?;
                if let Some(refusal) = panes.refusal() {
                    return Err(refusal);
                }
                let first = !std::mem::replace(&mut self.asked, true);
                self.notes.extend((first && !panes.open).then(|| "its tmux session was gone already".to_owned()));
                panes.roots
            }
            Some(record) => {
                let first = !std::mem::replace(&mut self.asked, true);
                let (roots, gone) = pane_roots(self.inner, record, self.tether.front.as_ref())?;
                // In the middle of a stop the session may well go with its last process.
                self.notes.extend(gone.filter(|_| first));
                roots
            }
        };
        self.running_panes = panes.len();
        if beside(&panes, &self.tether).next().is_some() {
            self.beside = Some(BESIDE);
        }
        let mut scope = self.tether.scope(panes);
        scope.report_escapees &= !self.end_escapees;
        scope.known.extend(self.session.remembered());
        Ok(scope)
    }

    fn begun(&self) -> Vec<Identity> {
        self.tether.begun().iter().map(|record| record.identity.clone()).collect()
    }

    fn record(&mut self, captured: &[CapturedRecord]) -> Result<(), String> {
        if !self.recorded {
            return Ok(());
        }
        self.tether.capture(captured);
        self.tether.stopping = true;
        store(&self.inner.store, &self.tether)?;
        // It starts nothing again, and finishes what we may not live to finish.
        self.inner.nudge(&self.tether);
        Ok(())
    }

    fn prepare(&mut self) -> Result<(), String> {
        if self.running_panes > 1 { self.ask(Server::keep_panes) } else { Ok(()) }
    }

    fn hang_up(&mut self, captured: &Captured) -> Result<(), String> {
        match (&self.session.pty, &self.tether.tmux) {
            (Some(owned), _) => {
                // Its screen and history stay readable until it is dismissed.
                owned.let_go(captured);
                Ok(())
            }
            (None, Some(record)) => {
                // Whoever came into a session of others since it was captured is not hung up on.
                if self.tether.adoption.is_some()
                    && let Some(refusal) = Panes::look(self.inner, &self.tether)?.refusal()
                {
                    return Err(refusal);
                }
                close_tmux(self.inner, record, captured)
            }
            (None, None) => Ok(()),
        }
    }
}

fn store(store: &Store, tether: &Tether) -> Result<(), String> {
    store.save(tether).map(|_| ()).map_err(|error| error.to_string())
}

/// Returns the guard of this program, with the tmux server that holds the session.
pub(super) fn guard(inner: &Inner, tether: &Tether) -> Guard {
    of_session(fresh_guard(inner), tether)
}

fn fresh_guard(inner: &Inner) -> Guard {
    let mut guard = Guard::new(&inner.inspector);
    // Ours may have been started from inside a session of another server.
    if let Probe::Running { pid } = inner.server.probe() {
        guard.protect_server(pid, "the tmux server of cookbook-tui");
    }
    let adopted = inner.all().into_iter().map(|session| session.tether()).filter(|tether| tether.adoption.is_some());
    for server in adopted.filter_map(|tether| tether.tmux).map(|record| record.server) {
        if verify(&server, &inner.inspector).kind == VerdictKind::Owned {
            guard.protect_server(server.pid, "a tmux server that holds a session which cookbook-tui did not launch");
        }
    }
    guard
}

fn of_session(mut guard: Guard, tether: &Tether) -> Guard {
    if let Some(record) = &tether.tmux {
        guard.protect_server(record.server.pid, "the tmux server that holds the session");
    }
    guard
}

/// How long a guard serves for looking; nothing is ever signalled by it.
const GLANCE: Duration = Duration::from_millis(900);

/// Returns a guard for rows that are only shown: looked up once for all sessions of a tick.
pub(super) fn guard_for_looking(inner: &Inner, tether: &Tether) -> Guard {
    let mut kept = inner.glance.lock().unwrap_or_else(PoisonError::into_inner);
    let fresh = kept.as_ref().filter(|(at, _)| at.elapsed() < GLANCE).map(|(_, guard)| guard.clone());
    let guard = fresh.unwrap_or_else(|| {
        let guard = fresh_guard(inner);
        *kept = Some((Instant::now(), guard.clone()));
        guard
    });
    of_session(guard, tether)
}

/// Whether the recorded tmux server is still there.
pub(super) enum ServerState {
    /// It is, and this is how to talk to it.
    There(Server),
    /// It is gone, and its sessions with it.
    Gone,
    /// Nobody can tell.
    Unknown(String),
}

/// Returns the server of a record, reached by the recorded socket.
pub(super) fn server_of(inner: &Inner, record: &TmuxRecord) -> Server {
    if inner.server.socket_path().as_os_str() == record.socket.as_str() {
        return inner.server.clone();
    }
    Server::new(SocketRef::Path(record.socket.clone().into()), None, std::env::vars_os())
}

/// Compares who listens on the socket now with who did at the launch.
pub(super) fn server_state(inner: &Inner, record: &TmuxRecord) -> ServerState {
    let server = server_of(inner, record);
    let recorded = if inner.inspector.kind() == InspectorKind::None {
        VerdictKind::Owned
    } else {
        verify(&record.server, &inner.inspector).kind
    };
    match (server.probe(), recorded) {
        (Probe::Running { pid }, VerdictKind::Owned) if pid == record.server.pid => ServerState::There(server),
        (_, VerdictKind::Gone | VerdictKind::Foreign) => ServerState::Gone,
        (Probe::Running { .. } | Probe::Absent | Probe::Stale, _) if inner.inspector.kind() == InspectorKind::None => {
            ServerState::Unknown(format!(
                "its tmux server {} cannot be reached, and without an inspector nobody can tell whether it lives",
                record.server.pid
            ))
        }
        (Probe::Running { pid }, VerdictKind::Owned) => ServerState::Unknown(format!(
            "its tmux server {} lives, but process {pid} listens on {}",
            record.server.pid, record.socket
        )),
        (Probe::Absent | Probe::Stale, VerdictKind::Owned) => ServerState::Unknown(format!(
            "its tmux server {pid} lives, but its socket {} is gone; `kill -USR1 {pid}` makes tmux create it again",
            record.socket,
            pid = record.server.pid
        )),
        (Probe::Unreadable(reason), VerdictKind::Owned) => {
            ServerState::Unknown(format!("its tmux server cannot be reached: {reason}"))
        }
        (_, VerdictKind::Unverifiable) => {
            ServerState::Unknown(format!("the identity of its tmux server {} cannot be verified", record.server.pid))
        }
    }
}

/// Tells whether the tmux server of a record is seen to be stopped, so that it answers nobody.
pub(super) fn is_stopped(inner: &Inner, record: &TmuxRecord) -> bool {
    inner.inspector.facts(record.server.pid).ok().flatten().is_some_and(|facts| facts.state == 'T')
}

/// Says what keeps the tmux server of a record from being asked, where that is plain to see without asking it.
pub(super) fn server_trouble(inner: &Inner, record: &TmuxRecord) -> Option<String> {
    let pid = record.server.pid;
    match server_state(inner, record) {
        ServerState::Unknown(why) => Some(why),
        ServerState::There(_) if is_stopped(inner, record) => {
            Some(format!("its tmux server {pid} is stopped; `kill -CONT {pid}` lets it go on"))
        }
        ServerState::There(_) | ServerState::Gone => None,
    }
}

/// As [`server_trouble`], where it lasts: a server that leaves with its last session has no socket any more, and lives for
/// a moment.
pub(super) fn lasting_trouble(inner: &Inner, record: &TmuxRecord, patience: Duration) -> Option<String> {
    let until = Instant::now() + patience;
    loop {
        let trouble = server_trouble(inner, record)?;
        if Instant::now() >= until || is_stopped(inner, record) {
            return Some(trouble);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the pane roots of a session, bound to identities: each is held, its parent is the server, and the
/// server has named it since. Says so where session or server are gone.
fn pane_roots(
    inner: &Inner,
    record: &TmuxRecord,
    front: Option<&Identity>,
) -> Result<(Vec<Identity>, Option<String>), String> {
    let rows = match panes(inner, record) {
        // One that leaves with its last session has no socket any more, and lives for a moment.
        Err(_) if matches!(server_of(inner, record).probe(), Probe::Absent | Probe::Stale) && leaves(inner, record) => {
            Vec::new()
        }
        rows => rows?,
    };
    if rows.is_empty() {
        let gone = match server_state(inner, record) {
            ServerState::Gone => format!("its tmux server {} was gone already", record.server.pid),
            ServerState::There(_) | ServerState::Unknown(_) => "its tmux session was gone already".into(),
        };
        return Ok((Vec::new(), Some(gone)));
    }
    if let Some(linked) = rows.iter().find(|row| row.linked) {
        return Err(format!(
            "its window {} is also linked into another tmux session: unlink it there, then stop it again",
            linked.window
        ));
    }
    let bound = bind(inner, record, &rows);
    // One that was recorded at its launch, and still is the same, was there when the server named it.
    if bound.iter().all(|root| Some(root) == front) {
        return Ok((bound, None));
    }
    // A pane that came to be since then is found below the server by nobody else: ask until it stands still.
    let again = panes(inner, record)?;
    let named: Vec<Pid> = again.iter().filter_map(root_of).collect();
    Ok((bound.into_iter().filter(|identity| named.contains(&identity.pid)).collect(), None))
}

/// Pins the roots of panes; a number that is no child of the server was never this pane's.
pub(super) fn bind(inner: &Inner, record: &TmuxRecord, rows: &[PaneRow]) -> Vec<Identity> {
    let held = rows.iter().filter_map(root_of).filter_map(|pid| match Pinned::open(&inner.inspector, pid) {
        Pin::Held(pinned) => Some(pinned),
        Pin::Gone | Pin::Unreadable(_) => None,
    });
    let ours = held.filter(|pinned| pinned.facts().ppid == record.server.pid.raw());
    ours.map(|pinned| pinned.identity().clone()).collect()
}

/// Returns the pane roots of a session for a look: as [`pane_roots`], without asking twice.
pub(super) fn pane_identities(inner: &Inner, record: &TmuxRecord) -> Result<Vec<Identity>, String> {
    Ok(bind(inner, record, &panes(inner, record)?))
}

pub(super) fn root_of(row: &PaneRow) -> Option<Pid> {
    match row.state {
        PaneState::Running { pid } => Some(pid),
        PaneState::Dead { .. } => None,
    }
}

/// Returns the panes of a session; empty where session or server are gone.
pub(super) fn panes(inner: &Inner, record: &TmuxRecord) -> Result<Vec<PaneRow>, String> {
    let server = match server_state(inner, record) {
        ServerState::There(server) => server,
        ServerState::Gone => return Ok(Vec::new()),
        ServerState::Unknown(reason) => return Err(reason),
    };
    let session: SessionId = record.session_id.parse().map_err(|error| format!("{error}"))?;
    match server.panes(&session) {
        Ok(rows) => Ok(rows.into_iter().filter(|row| row.server == record.server.pid).collect()),
        Err(TmuxError::NoSession(_)) => Ok(Vec::new()),
        // A server that is leaving with its last session answers nobody for a moment.
        Err(TmuxError::NoServer { .. } | TmuxError::ServerLost(_)) if leaves(inner, record) => Ok(Vec::new()),
        Err(error) => Err(error.to_string()),
    }
}

/// How long a tmux server may take to leave once it does not answer any more.
pub(super) const LEAVES: Duration = Duration::from_secs(1);

fn leaves(inner: &Inner, record: &TmuxRecord) -> bool {
    let until = Instant::now() + LEAVES;
    loop {
        match server_state(inner, record) {
            ServerState::Gone => return true,
            ServerState::There(_) | ServerState::Unknown(_) if Instant::now() >= until => return false,
            ServerState::There(_) | ServerState::Unknown(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

fn close_tmux(inner: &Inner, record: &TmuxRecord, captured: &Captured) -> Result<(), String> {
    let server = match server_state(inner, record) {
        ServerState::There(server) => server,
        ServerState::Gone => return Ok(()),
        // The session has ended with its last process, and was the last one of its server.
        ServerState::Unknown(_) if leaves(inner, record) => return Ok(()),
        ServerState::Unknown(reason) => return Err(reason),
    };
    let session: SessionId = record.session_id.parse().map_err(|error| format!("{error}"))?;
    match server.kill_session(&session, record.server.pid, captured) {
        Ok(Closed::AlreadyGone) => Ok(()),
        // Whoever said so may be no tmux at all.
        Ok(Closed::Killed) => match server.panes(&session) {
            Err(TmuxError::NoSession(_) | TmuxError::NoServer { .. } | TmuxError::ServerLost(_)) => Ok(()),
            Ok(rows) => Err(format!("tmux was told to close its session, and still lists {} panes of it", rows.len())),
            Err(error) => Err(error.to_string()),
        },
        Ok(Closed::NoServer) if leaves(inner, record) => Ok(()),
        Ok(Closed::NoServer) => match server_state(inner, record) {
            ServerState::Unknown(reason) => Err(reason),
            ServerState::Gone | ServerState::There(_) => Err("its tmux server does not answer".into()),
        },
        Err(error) => Err(error.to_string()),
    }
}

/// Tells whether the host of a session is still there: its PTY open, or its tmux session alive.
///
/// # Errors
/// With what keeps tmux from being asked: then nobody can tell.
pub(super) fn is_open(inner: &Inner, session: &Session) -> Result<bool, String> {
    match (session.host, session.tether().tmux) {
        (HostKind::Pty, _) => Ok(session.pty.is_some()),
        (HostKind::Tmux, Some(record)) => Ok(!panes(inner, &record)?.is_empty()),
        (HostKind::Tmux, None) => Ok(false),
    }
}

/// Returns an identity's short form for messages.
pub(super) fn named(identity: &Identity) -> String {
    format!("process {}", identity.pid)
}
