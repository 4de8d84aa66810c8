//! Taking in a tmux session that was not launched by us: found by `$N` or by its whole name, and bound at once, the
//! server and the root of every pane to identities. Nobody is signalled, and nothing of the session is changed.

use std::collections::VecDeque;
use std::sync::Arc;

use super::adopted::{HOLDS_US, NO_WARDEN};
use super::hosts::root_of;
use super::launch::tmux;
use super::session::Session;
use super::stopper::LOCK_PATIENCE;
use super::tasks::ASKED;
use super::{Inner, not_found};
use crate::app::command::{Launched, TmuxPlace, TmuxRef};
use crate::app::contract::{HostKind, Kind};
use crate::app::cookbook::legacy;
use crate::app::error::{AppError, ErrorKind};
use crate::app::phase::{self, recognise};
use crate::lifecycle::authority::{Pin, Pinned};
use crate::lifecycle::clock;
use crate::lifecycle::identity::{Identity, Pid};
use crate::lifecycle::inspect::InspectorKind;
use crate::lifecycle::teardown::GRACE;
use crate::lifecycle::tether::{self, Adoption, PaneRoot, Tether, TmuxRecord, is_session_id};
use crate::lifecycle::warden::FRONT;
use crate::text;
use crate::tmux::parse::PaneRow;
use crate::tmux::{Probe, Server, SessionId, SocketRef};

/// A record must have an end, and nothing of ours ends what was adopted: out of reach (seconds).
const NO_CEILING_S: f64 = 100.0 * 365.0 * 86_400.0;

/// Looks at panes before they are called restless.
const LOOKS: u32 = 5;

/// A tmux session, and the server that answered for it.
pub(super) struct Found {
    pub(super) server: Server,
    pub(super) identity: Identity,
    pub(super) session: SessionId,
    pub(super) name: String,
    /// When it was made, in seconds since the Unix epoch.
    pub(super) created: u64,
}

/// What an adopted session is to us.
pub(super) struct Guest {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) kind: Kind,
}

impl Inner {
    /// Takes in the tmux session that a person named.
    pub(super) fn adopt_tmux(self: &Arc<Self>, reference: &TmuxRef) -> Result<Launched, AppError> {
        if self.inspector.kind() == InspectorKind::None {
            let message = "nothing is adopted without a process inspector, because its identity could never be verified; drop --inspector none";
            return Err(AppError::new(ErrorKind::Unverifiable, message));
        }
        self.take_in();
        self.refresh_tasks(ASKED);
        let found = self.find_tmux(reference)?;
        let known = self.session_in(&found);
        if let Some(known) = known.as_ref().filter(|known| known.tether().adoption.is_none()) {
            let message = format!("that is {}, which cookbook-tui has launched: there is nothing to adopt", known.id);
            return Err(AppError::new(ErrorKind::Refused, message));
        }
        let rows = panes_at_rest(&found)?;
        let mut notes = vec![NO_WARDEN.to_owned()];
        let tether = if let Some(known) = known {
            let _lock = self.take_lock(&known.id, LOCK_PATIENCE)?;
            let before = self.reread(&known);
            let guest = Guest { id: before.session.clone(), name: before.name.clone(), kind: known.kind };
            let fresh = self.guest_tether(guest, &found, &rows)?;
            let mut tether = Tether { captured: before.captured, ..fresh };
            if let (Some(now), Some(before)) = (tether.adoption.as_mut(), before.adoption) {
                now.task = before.task;
            }
            self.save_adopted(&tether)?;
            known.forget_end(tether.clone());
            if known.serving.get().is_none() {
                self.know(&known);
            }
            tether
        } else {
            let mut guest = self.guest(&found);
            if let Some(agent) = self.agent_shell(&found, &rows) {
                match agent {
                    Ok(()) => (guest.kind, guest.id) = (Kind::Agent, self.fresh_id(Kind::Agent)),
                    Err(why) => notes.push(format!("it is named like an agent shell of Cookbook, and is none: {why}")),
                }
            }
            let tether = self.guest_tether(guest, &found, &rows)?;
            self.save_adopted(&tether)?;
            let unknown = || AppError::new(ErrorKind::Internal, "an adopted tether of an unknown kind");
            let session = Session::new(tether.clone(), None, None).ok_or_else(unknown)?;
            self.know(&session);
            self.add(&session);
            tether
        };
        self.changed();
        notes.extend(rows.iter().find(|row| row.linked).map(|row| {
            let window = row.window;
            format!(
                "its window {window} is also linked into another session: it cannot be stopped before it is unlinked"
            )
        }));
        notes.extend(self.holds_us(&tether).then(|| HOLDS_US.to_owned()));
        Ok(launched(&tether, notes))
    }

    pub(super) fn save_adopted(&self, tether: &Tether) -> Result<(), AppError> {
        self.store.save(tether).map(drop).map_err(|error| {
            let place = self.paths.state_dir.display();
            let message = format!("nothing was adopted, because its record could not be written to {place}: {error}");
            AppError::new(ErrorKind::State, message)
        })
    }

    /// Returns the servers on which sessions of others are looked for.
    pub(super) fn servers(&self, socket: Option<&str>) -> Result<Vec<Server>, AppError> {
        let at = |name: &str| {
            let socket: SocketRef =
                name.parse().map_err(|error| AppError::new(ErrorKind::Usage, format!("socket: {error}")))?;
            let server = Server::new(socket, None, std::env::vars_os());
            Ok(if server.socket_path() == self.server.socket_path() { self.server.clone() } else { server })
        };
        if let Some(name) = socket {
            return Ok(vec![at(name)?]);
        }
        let mut servers = vec![at(&self.config().cookbook.socket)?, self.server.clone()];
        servers.dedup_by(|a, b| a.socket_path() == b.socket_path());
        Ok(servers)
    }

    /// Finds the one tmux session of an id or of a whole name. A server that cannot be asked is an error: its
    /// silence is no absence.
    fn find_tmux(&self, reference: &TmuxRef) -> Result<Found, AppError> {
        let wanted = reference.session.as_str();
        // A session may be named like an id; what looks like an id is one.
        let id: Option<SessionId> = wanted.parse().ok();
        let (mut found, mut looked, mut namesake) = (Vec::new(), Vec::new(), None);
        for server in self.servers(reference.socket.as_deref())? {
            looked.push(server.socket_path().display().to_string());
            for session in self.sessions_of(&server)? {
                if id.map_or(session.name == wanted, |id| session.session == id) {
                    found.push(session);
                } else if session.name == wanted {
                    namesake = Some(session.session);
                }
            }
        }
        if found.len() > 1 {
            let places: Vec<_> = found.iter().map(|found| found.server.socket_path().display().to_string()).collect();
            let places = places.join(", ");
            let message = format!("several tmux servers have a session {wanted:?}; name the socket of one: {places}");
            return Err(AppError::new(ErrorKind::Usage, message));
        }
        found.pop().ok_or_else(|| {
            let hint = namesake.map(|id| format!("; the one that is named so has the id {id}")).unwrap_or_default();
            not_found(format!("there is no tmux session {wanted:?} on {}{hint}", looked.join(" or ")))
        })
    }

    /// Returns the sessions of a server; none where nobody listens.
    pub(super) fn sessions_of(&self, server: &Server) -> Result<Vec<Found>, AppError> {
        let Some(identity) = self.who_serves(server)? else { return Ok(Vec::new()) };
        let rows = server.sessions().map_err(|error| tmux(&error))?;
        if rows.iter().any(|row| row.server != identity.pid) {
            return Err(other_server(server));
        }
        let found = rows.into_iter().map(|row| Found {
            server: server.clone(),
            identity: identity.clone(),
            session: row.session,
            name: row.name,
            created: row.created,
        });
        Ok(found.collect())
    }

    /// Returns who listens on a server's socket, as the kernel names them.
    pub(super) fn who_serves(&self, server: &Server) -> Result<Option<Identity>, AppError> {
        match server.probe() {
            Probe::Running { pid } => self.identify(pid).map(Some),
            Probe::Absent | Probe::Stale => Ok(None),
            Probe::Unreadable(reason) => Err(AppError::new(ErrorKind::Unverifiable, reason)),
        }
    }

    /// Returns the session that we have of a tmux session.
    pub(super) fn session_in(&self, found: &Found) -> Option<Arc<Session>> {
        let is_it = |record: &TmuxRecord| {
            record.server.names(&found.identity) && record.session_id == found.session.to_string()
        };
        self.all().into_iter().find(|session| session.tether().tmux.as_ref().is_some_and(is_it))
    }

    /// Decides what a session is to us. Its name tells how it is shown and which signal comes first, and proves
    /// nothing.
    fn guest(&self, found: &Found) -> Guest {
        let named = Some(found.name.as_str()).filter(|name| is_session_id(name));
        let is_of = |kind: &Kind| named.is_some_and(|name| name.starts_with(kind.id_prefix()));
        let kind = Kind::ALL.into_iter().find(is_of).unwrap_or(Kind::Shell);
        let free = |id: &&str| !self.lock().by_id.contains_key(*id) && !self.store.tether_path(id).exists();
        let id = named.filter(free).map_or_else(|| self.fresh_id(kind), str::to_owned);
        Guest { id, name: found.name.clone(), kind }
    }

    /// Returns the command of the model server that somebody has started in these panes: the first that is known, from
    /// their roots downward. It is followed like one of ours; what a stop does is decided by who belongs to the session.
    fn server_in(&self, rows: &[PaneRow]) -> Option<Vec<String>> {
        let children = self.inspector.scan().ok()?.children();
        let mut next: VecDeque<Pid> = rows.iter().filter_map(root_of).collect();
        while let Some(pid) = next.pop_front() {
            let words = self.inspector.argv(pid);
            let argv: Vec<String> = words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
            if recognise(&argv, &|_| None, "").is_some_and(|served| served.server != phase::Server::Other) {
                return Some(argv);
            }
            next.extend(children.get(&pid.raw()).into_iter().flatten());
        }
        None
    }

    /// Tells whether a session is an agent shell of Cookbook, where it is named like one.
    fn agent_shell(&self, found: &Found, rows: &[PaneRow]) -> Option<Result<(), &'static str>> {
        let dir = self.cookbook.as_ref()?.file.path().parent()?;
        if !found.name.starts_with(legacy::PREFIX) {
            return None;
        }
        let [row] = rows else { return Some(Err("it has several panes")) };
        let Some(pid) = root_of(row) else { return Some(Err("nothing runs in it")) };
        let started = found.server.start_command(&row.pane).unwrap_or_default();
        Some(legacy::check(&started, &self.inspector.argv(pid), dir))
    }

    /// Binds the roots of all panes, and returns the record of the session.
    pub(super) fn guest_tether(&self, guest: Guest, found: &Found, rows: &[PaneRow]) -> Result<Tether, AppError> {
        let mut bound = Vec::new();
        for row in rows {
            let Some(pid) = root_of(row) else { continue };
            let pinned = match Pinned::open(&self.inspector, pid) {
                Pin::Held(pinned) => pinned,
                // It has just ended; what it leaves is seen when it is looked at.
                Pin::Gone => continue,
                Pin::Unreadable(error) => return Err(AppError::new(ErrorKind::Unverifiable, error.to_string())),
            };
            if pinned.facts().ppid != found.identity.pid.raw() {
                let (pane, server) = (row.pane, found.identity.pid);
                let message = format!("process {pid} of pane {pane} is no child of its tmux server {server}");
                return Err(AppError::new(ErrorKind::Unverifiable, message));
            }
            if self.inspector.argv(pid).get(1).is_some_and(|stage| stage == FRONT.as_bytes()) {
                let message = format!(
                    "tmux session {} belongs to a cookbook-tui with another state directory: use that one (--state-dir)",
                    found.session
                );
                return Err(AppError::new(ErrorKind::Refused, message));
            }
            bound.push((row, pinned));
        }
        // Whoever answered is who was identified, now that everybody is held.
        if self.who_serves(&found.server)?.as_ref() != Some(&found.identity) {
            return Err(other_server(&found.server));
        }
        let Some((first, root)) = bound.first() else {
            let message = format!("nothing runs in tmux session {} any more", found.session);
            return Err(AppError::new(ErrorKind::Failed, message));
        };
        let argv = self.server_in(rows);
        let masked = argv.as_ref().map(|argv| text::mask_argv(argv));
        let shown = masked.as_ref().map(|masked| masked.join(" "));
        let shown = shown.unwrap_or_else(|| text::command_line(&self.inspector.argv(root.identity().pid)).0);
        let (now, wall) = (clock::boottime(), clock::wall());
        #[expect(clippy::cast_precision_loss, reason = "seconds since 1970")]
        let age = (wall - found.created as f64).clamp(0.0, now);
        let panes = bound
            .iter()
            .map(|(row, pinned)| PaneRoot { pane_id: row.pane.to_string(), identity: pinned.identity().clone() });
        Ok(Tether {
            schema_version: tether::SCHEMA_VERSION,
            protocol: tether::PROTOCOL,
            session: guest.id,
            name: guest.name,
            kind: guest.kind.name().into(),
            host: HostKind::Tmux.name().into(),
            lifetime: "background".into(),
            origin: None,
            own_command: false,
            gpus: None,
            venv: None,
            command: shown,
            argv: argv.filter(|argv| masked.as_ref() == Some(argv)),
            env_names: Vec::new(),
            ceiling_s: None,
            renew_s: None,
            cwd: String::new(),
            boot_id: self.inspector.boot_id().map(str::to_owned),
            pidns_inode: self.namespaces.pid,
            timens_inode: self.namespaces.time,
            spawner: self.me.clone(),
            adopted: true,
            adoption: Some(Adoption { tmux_name: found.name.clone(), panes: panes.collect(), task: None }),
            warden: None,
            front: None,
            workload: tether::Workload {
                identity: root.identity().clone(),
                pgid: root.facts().pgid,
                sid: root.facts().sid,
            },
            tmux: Some(TmuxRecord {
                socket: found.server.socket_path().to_string_lossy().into_owned(),
                server: found.identity.clone(),
                session_id: found.session.to_string(),
                pane_id: first.pane.to_string(),
            }),
            spawned_at: now - age,
            spawned_at_wall: wall - age,
            not_after: now + NO_CEILING_S,
            not_after_wall: wall + NO_CEILING_S,
            marker: String::new(),
            containment: vec!["tree".into()],
            cgroup: None,
            exclusive: None,
            stopping: false,
            stop_signal: None,
            grace_s: GRACE.as_secs_f64(),
            report_escapees: false,
            captured: Vec::new(),
            left: Vec::new(),
            last: None,
            untold: false,
            restarts: None,
        })
    }
}

/// Returns the panes of a session once two looks agree, answered by the server that was identified.
pub(super) fn panes_at_rest(found: &Found) -> Result<Vec<PaneRow>, AppError> {
    let look = || found.server.panes(&found.session).map_err(|error| tmux(&error));
    let roots = |rows: &[PaneRow]| rows.iter().map(|row| (row.pane, row.state)).collect::<Vec<_>>();
    let mut rows = look()?;
    for _ in 0..LOOKS {
        let again = look()?;
        if again.iter().any(|row| row.server != found.identity.pid) {
            return Err(other_server(&found.server));
        }
        if roots(&again) == roots(&rows) {
            return Ok(again);
        }
        rows = again;
    }
    let message = format!("the panes of tmux session {} change with every look; try again", found.session);
    Err(AppError::new(ErrorKind::Unverifiable, message))
}

fn other_server(server: &Server) -> AppError {
    let place = server.socket_path();
    let message = format!("another tmux server answers on {} than the one that listens there", place.display());
    AppError::new(ErrorKind::Unverifiable, message)
}

fn launched(tether: &Tether, notes: Vec<String>) -> Launched {
    Launched {
        session: tether.session.clone(),
        host: HostKind::Tmux,
        pid: tether.workload.identity.pid.raw(),
        start_token: tether.workload.identity.token.clone(),
        tmux: tether.tmux.as_ref().map(TmuxPlace::from),
        notes,
    }
}
