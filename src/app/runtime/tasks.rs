//! Cookbook's tasks as sessions. A task whose tmux session is here is bound in memory, like an adopted one, and shown;
//! nothing of it is recorded before a person acts. All others are rows and nothing more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::adopt::{Found, Guest};
use super::hosts::root_of;
use super::launch::tmux;
use super::session::Session;
use super::{Inner, not_found};
use crate::app::command::StopRequest;
use crate::app::config::CookbookConfig;
use crate::app::config::trust::fingerprint;
use crate::app::configure::with_presets;
use crate::app::contract::{HostKind, Phase, SessionRow};
use crate::app::cookbook::file::{StateFile, WAY_OUT};
use crate::app::cookbook::state::{Preset, State, Task};
use crate::app::error::{AppError, ErrorKind};
use crate::app::event::Event;
use crate::lifecycle::authority::verify;
use crate::lifecycle::clock;
use crate::lifecycle::identity::{Identity, Pid};
use crate::lifecycle::inspect::InspectorKind;
use crate::lifecycle::journal::{Act, By};
use crate::lifecycle::receipt::Receipt;
use crate::lifecycle::tether::{Tether, is_session_id};
use crate::lifecycle::tree::Captured;
use crate::lifecycle::verdict::VerdictKind;
use crate::text;
use crate::tmux::parse::PaneRow;
use crate::tmux::{Probe, Server, SessionId};

/// How old what is known of the tasks may be where somebody asks.
pub(super) const ASKED: Duration = Duration::from_secs(1);
/// Time between two looks of a long-lived manager.
const WATCHED: Duration = Duration::from_secs(3);
/// Time that whoever writes the file in place has to finish.
const WRITTEN: Duration = Duration::from_millis(50);

/// Cookbook's data directory, and what was last seen of it.
pub(super) struct Cookbook {
    pub(super) file: StateFile,
    /// When it was last looked at; held during a look.
    looked: Mutex<Option<Instant>>,
    /// Tasks that are rows and nothing more.
    idle: Mutex<Vec<Idle>>,
    /// Why its file could not be used at the last look; what is known of the tasks is of the look before.
    problem: Mutex<Option<String>>,
    /// What it holds that is no task and no preset, in words.
    pub(super) odd: Mutex<Option<String>>,
}

/// A task without processes that could be looked at.
#[derive(Clone, Debug)]
pub(super) struct Idle {
    id: String,
    task: Task,
    place: Place,
}

/// Why there are none.
#[derive(Clone, Debug)]
enum Place {
    /// It is on another machine.
    Remote,
    /// Its tmux session is not there.
    Gone,
    /// Nobody can tell.
    Unknown(String),
    /// Its tmux session is there, on this server, and nobody can look at processes.
    Blind(Box<Server>, SessionId, Pid),
}

/// A tmux server with everything in it.
struct Looked {
    server: Server,
    pid: Pid,
    /// `None` where nobody can look at processes.
    identity: Option<Identity>,
    panes: Vec<PaneRow>,
    /// When its sessions were made, in seconds since the Unix epoch.
    made: BTreeMap<SessionId, u64>,
}

/// Starts the thread that looks at tasks, where there may be some: a tmux server that does not answer holds up nobody
/// else. It ends with the runtime.
pub(super) fn start(inner: &Arc<Inner>) {
    if inner.cookbook.is_none() {
        return;
    }
    let weak = Arc::downgrade(inner);
    std::thread::spawn(move || {
        while let Some(inner) = weak.upgrade().filter(|inner| !inner.is_closing()) {
            inner.refresh_tasks(WATCHED);
            inner.sleep_at_most(WATCHED);
        }
    });
}

impl Cookbook {
    /// Returns what is known of it at the start, where it is configured.
    pub(super) fn of(config: &CookbookConfig) -> Option<Self> {
        let file = StateFile::of(config.data_dir.as_deref()?);
        let problem = Mutex::new(config.problem.clone());
        Some(Self { file, looked: Mutex::default(), idle: Mutex::default(), problem, odd: Mutex::default() })
    }

    /// Returns why its file cannot be used, with the way out.
    pub(super) fn problem(&self) -> Option<String> {
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        problem.as_ref().map(|reason| format!("{reason}; {WAY_OUT}"))
    }

    /// Reads its file. One that could be used until now gets a second look: Cookbook may be writing it.
    fn load(&self) -> Result<State, String> {
        self.file.load().or_else(|reason| {
            if self.problem().is_some() {
                return Err(reason);
            }
            std::thread::sleep(WRITTEN);
            self.file.load()
        })
    }

    /// Takes note of whether its file can be used; tells whether that is news.
    fn take_note(&self, problem: Option<&str>) -> bool {
        let mut known = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = known.is_some() != problem.is_some();
        *known = problem.map(str::to_owned);
        is_news
    }

    fn idle(&self) -> Vec<Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Inner {
    /// Looks at Cookbook's tasks, where what is known of them is older than this. A file that cannot be used leaves
    /// what was known, marked as old, and is told of once.
    pub(super) fn refresh_tasks(&self, at_most: Duration) {
        let Some(cookbook) = &self.cookbook else { return };
        let mut looked = cookbook.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.is_some_and(|at| at.elapsed() < at_most) {
            return;
        }
        let found = cookbook.load();
        let is_news = cookbook.take_note(found.as_ref().err().map(String::as_str));
        match found {
            Ok(state) => {
                let odd = state.oddities(cookbook.file.path());
                *cookbook.odd.lock().unwrap_or_else(PoisonError::into_inner) = odd;
                self.offer(state.presets);
                let (servers, problem) = self.all_tmux();
                let ids: Vec<String> = state.tasks.iter().map(id_of).collect();
                self.forget_tasks(|session| !ids.contains(&session.id));
                let tasks = state.tasks.into_iter().zip(ids);
                let idle = tasks.filter_map(|(task, id)| self.take_task(task, &id, &servers, problem.as_deref()));
                let idle: Vec<Idle> = idle.collect();
                *cookbook.idle.lock().unwrap_or_else(PoisonError::into_inner) = idle;
            }
            Err(reason) => tracing::warn!(reason, "Cookbook's tasks could not be read"),
        }
        *looked = Some(Instant::now());
        drop(looked);
        if is_news {
            self.publish(Event::Cookbook { problem: cookbook.problem() });
        }
    }

    /// Takes presets as recipes in the place of those that are known.
    fn offer(&self, presets: Vec<Preset>) {
        let mut config = self.config.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(next) = with_presets(&config, presets, self.inputs.home.as_deref()) {
            *config = Arc::new(next);
            drop(config);
            self.changed();
        }
    }

    /// Returns why Cookbook's tasks cannot be read, with the way out.
    fn task_problem(&self) -> Option<String> {
        self.cookbook.as_ref().and_then(Cookbook::problem)
    }

    /// Returns what the row of a task says while nobody can read the file again.
    pub(super) fn old_task(&self) -> Option<String> {
        self.task_problem().map(|_| OLD.to_owned())
    }

    /// Says that nobody is called so; where Cookbook's tasks cannot be read, that it may be one of them.
    pub(super) fn no_session(&self, reference: &str) -> AppError {
        match self.task_problem() {
            Some(problem) => AppError::new(
                ErrorKind::State,
                format!("no session {reference:?} is known, and Cookbook's tasks cannot be read: {problem}"),
            ),
            None => not_found(format!("there is no session {reference:?}; `ls` shows those there are")),
        }
    }

    /// Returns what the tmux servers hold on which Cookbook's sessions may be, and why one could not be asked.
    fn all_tmux(&self) -> (Vec<Looked>, Option<String>) {
        let (mut all, mut problem) = (Vec::new(), None);
        let servers = self.servers(None).unwrap_or_else(|error| {
            problem = Some(error.message);
            Vec::new()
        });
        for server in servers {
            match self.look_at_tmux(server) {
                Ok(looked) => all.extend(looked),
                Err(error) => problem = Some(error.message),
            }
        }
        (all, problem)
    }

    /// Tells whether a tmux session of this name is there now, on a server on which Cookbook's sessions may be.
    pub(super) fn is_in_tmux(&self, session: &str) -> bool {
        let (servers, _) = self.all_tmux();
        servers.iter().flat_map(|looked| &looked.panes).any(|row| row.session_name == session)
    }

    fn look_at_tmux(&self, server: Server) -> Result<Option<Looked>, AppError> {
        let unknown = |reason: String| AppError::new(ErrorKind::Unverifiable, reason);
        let pid = match server.probe() {
            Probe::Running { pid } => pid,
            Probe::Absent | Probe::Stale => return Ok(None),
            Probe::Unreadable(reason) => return Err(unknown(reason)),
        };
        let blind = self.inspector.kind() == InspectorKind::None;
        let identity = if blind { None } else { Some(self.identify(pid)?) };
        let panes = server.all_panes().map_err(|error| tmux(&error))?;
        let sessions = server.sessions().map_err(|error| tmux(&error))?;
        if panes.iter().map(|row| row.server).chain(sessions.iter().map(|row| row.server)).any(|it| it != pid) {
            return Err(unknown(format!("another tmux server answers than process {pid}, which listens")));
        }
        let made = sessions.into_iter().map(|row| (row.session, row.created)).collect();
        Ok(Some(Looked { server, pid, identity, panes, made }))
    }

    /// Takes a task for a session where its tmux session is here; returns it otherwise.
    fn take_task(&self, task: Task, id: &str, servers: &[Looked], problem: Option<&str>) -> Option<Idle> {
        let known = self.lock().by_id.get(id).cloned();
        // Ours, or a person has acted on it.
        let acted = known.as_ref().is_some_and(|known| !known.state().borrowed && !known.state().settled);
        if acted {
            return None;
        }
        let idle = |task, place| {
            self.forget_tasks(|session| session.id == id);
            Some(Idle { id: id.to_owned(), task, place })
        };
        if !task.remote.is_empty() {
            return idle(task, Place::Remote);
        }
        let of_task = |looked: &Looked| -> Vec<PaneRow> {
            looked.panes.iter().filter(|row| row.session_name == task.session).cloned().collect()
        };
        let here = servers.iter().map(|looked| (looked, of_task(looked))).find(|(_, rows)| !rows.is_empty());
        let Some((looked, rows)) = here else {
            let settled = known.is_some_and(|known| known.state().settled);
            return match problem {
                _ if settled => None,
                Some(problem) => idle(task, Place::Unknown(problem.to_owned())),
                None => idle(task, Place::Gone),
            };
        };
        let session = rows[0].session;
        let Some(identity) = looked.identity.clone() else {
            return idle(task, Place::Blind(Box::new(looked.server.clone()), session, looked.pid));
        };
        let created = looked.made.get(&session).copied().unwrap_or_else(clock::wall_seconds);
        let found = Found { server: looked.server.clone(), identity, session, name: task.session.clone(), created };
        // A person has adopted it by hand.
        if self.session_in(&found).is_some_and(|session| !session.state().borrowed && !session.state().settled) {
            return None;
        }
        let kept = known.filter(|known| known.state().borrowed && self.is_bound(&known.tether(), &found, &rows));
        let session = match kept {
            Some(session) => session,
            None => match self.borrow(&task, id, &found, &rows) {
                Ok(session) => session,
                Err(error) => return idle(task, Place::Unknown(error.message)),
            },
        };
        self.hear(&session, &task, &looked.server, &rows[0]);
        None
    }

    /// Binds the session of a task, in memory only.
    fn borrow(&self, task: &Task, id: &str, found: &Found, rows: &[PaneRow]) -> Result<Arc<Session>, AppError> {
        let guest = Guest { id: id.to_owned(), name: task.name.clone(), kind: task.kind };
        let mut tether = self.guest_tether(guest, found, rows)?;
        if let Some(adoption) = tether.adoption.as_mut() {
            adoption.task = Some(task.session.clone());
        }
        if !task.command.is_empty() {
            // As Cookbook has it, and not as it came out.
            (tether.command, tether.argv) = (text::mask_text(&task.command).into_owned(), None);
        }
        let unknown = || AppError::new(ErrorKind::Internal, "a task of an unknown kind");
        let session = Session::new(tether, None, None).ok_or_else(unknown)?;
        session.state().borrowed = true;
        self.know(&session);
        self.add(&session);
        Ok(session)
    }

    /// Tells whether what is bound is what tmux shows.
    fn is_bound(&self, tether: &Tether, found: &Found, rows: &[PaneRow]) -> bool {
        let same_place = tether.tmux.as_ref().is_some_and(|record| {
            record.server.names(&found.identity) && record.session_id == found.session.to_string()
        });
        let shown: Vec<Pid> = rows.iter().filter_map(root_of).collect();
        let bound: Vec<&Identity> = tether.pane_roots().collect();
        same_place
            && bound.len() == shown.len()
            && bound.iter().all(|root| shown.contains(&root.pid))
            && bound.iter().all(|root| verify(root, &self.inspector).kind != VerdictKind::Foreign)
    }

    /// Drops sessions of tasks that nobody has acted on.
    fn forget_tasks(&self, mut which: impl FnMut(&Session) -> bool) {
        let mut sessions = self.lock();
        let borrowed = sessions.by_id.values().filter(|session| session.state().borrowed);
        let gone: Vec<String> = borrowed.filter(|session| which(session)).map(|session| session.id.clone()).collect();
        for id in gone {
            sessions.by_id.remove(&id);
            sessions.order.retain(|known| *known != id);
        }
    }

    /// Returns the rows of the tasks that have no processes to look at.
    pub(super) fn idle_rows(&self) -> Vec<SessionRow> {
        let idle = self.cookbook.as_ref().map(Cookbook::idle).unwrap_or_default();
        let known = self.lock();
        let rows = idle.iter().filter(|idle| !known.by_id.contains_key(&idle.id));
        let old = self.old_task();
        let marked = |mut row: SessionRow| {
            row.detail = old.clone().into_iter().chain(row.detail).reduce(|old, said| format!("{old}; {said}"));
            row
        };
        rows.map(Idle::row).map(marked).collect()
    }

    /// Finds a task without processes by its id or unique name.
    pub(super) fn idle_task(&self, reference: &str) -> Option<Idle> {
        let idle = self.cookbook.as_ref()?.idle();
        if let Some(one) = idle.iter().find(|idle| idle.id == reference || idle.task.session == reference) {
            return Some(one.clone());
        }
        let mut named = idle.iter().filter(|idle| idle.task.name == reference);
        named.next().filter(|_| named.next().is_none()).cloned()
    }

    /// Returns the ids of the tasks without processes that have this name.
    pub(super) fn idle_named(&self, name: &str) -> Vec<String> {
        let idle = self.cookbook.as_ref().map(Cookbook::idle).unwrap_or_default();
        idle.into_iter().filter(|idle| idle.task.name == name).map(|idle| idle.id).collect()
    }

    /// Stops a task without processes: what is left to do is to say so, and where nobody can look, to close its
    /// tmux session.
    pub(super) fn stop_idle(&self, idle: &Idle, request: &StopRequest) -> Result<Receipt, AppError> {
        let refuse = |kind, why: String| Err(AppError::new(kind, format!("{} was not stopped: {why}", idle.id)));
        let dry_run = request.dry_run == Some(true);
        let mut receipt = Receipt {
            session: idle.id.clone(),
            host: HostKind::Tmux.name().into(),
            dead: Some(true),
            host_closed: true,
            plan: dry_run.then(Vec::new),
            ..Receipt::default()
        };
        match &idle.place {
            Place::Remote => {
                return refuse(ErrorKind::Refused, format!("it is on {}: stop it there", idle.task.remote));
            }
            Place::Unknown(reason) => return refuse(ErrorKind::Unverifiable, reason.clone()),
            Place::Gone => receipt.notes.push("its tmux session was gone already".into()),
            Place::Blind(server, session, pid) => {
                receipt.dead = None;
                receipt.notes.push("could not look at the process table: nobody can tell what is left".into());
                if !dry_run {
                    self.check_state_file()?;
                    let closed = server.kill_session(session, *pid, &Captured::blind());
                    closed.map(drop).map_err(|error| tmux(&error))?;
                }
            }
        }
        if !dry_run {
            if !idle.task.is_over() {
                self.check_state_file()?;
            }
            receipt.notes.push(self.mark(&idle.task.session));
            if let Err(error) = self.store.journal().append(By::Manager, Act::Stop, &receipt) {
                receipt.notes.push(format!("the journal of receipts could not be written: {error}"));
            }
            self.refresh_tasks(Duration::ZERO);
        }
        Ok(receipt)
    }

    /// Records the session of a task, because a person acts on it.
    pub(super) fn keep_task(&self, session: &Session) -> Result<(), AppError> {
        if !session.state().borrowed {
            return Ok(());
        }
        self.save_adopted(&session.tether())?;
        session.state().borrowed = false;
        Ok(())
    }
}

impl Idle {
    /// Says why nothing but a stop is possible with it.
    pub(super) fn refusal(&self) -> AppError {
        let why = match &self.place {
            Place::Remote => format!("it is on {}", self.task.remote),
            Place::Gone => "its tmux session is gone".into(),
            Place::Unknown(reason) => reason.clone(),
            Place::Blind(..) => "nobody can look at its processes".into(),
        };
        AppError::new(ErrorKind::Refused, format!("{} is a task of Cookbook, and only listed: {why}", self.id))
    }

    fn row(&self) -> SessionRow {
        let Self { id, task, place } = self;
        let says = if task.status.is_empty() { "nothing" } else { &task.status };
        let (phase, verdict, why) = match place {
            Place::Remote => (task.claimed(), VerdictKind::Unverifiable, format!("on {}", task.remote)),
            Place::Gone if task.is_over() || task.status == "queued" => {
                (task.claimed(), VerdictKind::Gone, "no tmux session".into())
            }
            Place::Gone => (Phase::Failed, VerdictKind::Gone, "its tmux session is gone".into()),
            Place::Unknown(reason) => (Phase::Unverifiable, VerdictKind::Unverifiable, reason.clone()),
            Place::Blind(..) => (Phase::Unverifiable, VerdictKind::Unverifiable, "no process inspector".into()),
        };
        SessionRow {
            machine: if task.remote.is_empty() { "local".into() } else { task.remote.clone() },
            detail: Some(format!("{why}; Cookbook says: {says}")),
            verdict,
            adopted: true,
            owner: Some(OWNER.into()),
            command: text::mask_text(&task.command).into_owned(),
            ..SessionRow::without_processes(id, &task.name, task.kind, HostKind::Tmux, phase)
        }
    }
}

/// The owner of every task.
pub(super) const OWNER: &str = "cookbook";

/// What the row of a task says that was read before the file became unusable.
const OLD: &str = "old: Cookbook's file is unusable";

/// Returns the id of a task: the name of its tmux session where that has the shape of ours, as it usually has.
fn id_of(task: &Task) -> String {
    if is_session_id(&task.session) {
        return task.session.clone();
    }
    let digest = fingerprint(task.session.as_bytes());
    format!("{}-{}", task.kind.id_prefix(), digest.get(..8).unwrap_or_default())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn task(session: &str, status: &str) -> Task {
        let text = format!(r#"{{"tasks": [{{"id": "{session}", "status": "{status}", "remoteHost": "gpu1"}}]}}"#);
        crate::app::cookbook::state::parse(&text).unwrap().tasks.remove(0)
    }

    #[test]
    fn a_task_keeps_its_name_for_an_id_or_gets_one_of_our_shape() {
        assert_eq!(id_of(&task("serve-0123abcd", "")), "serve-0123abcd");
        for name in ["my own", "serve-0123ABCD", "../x", "$0", "ody-agent-1"] {
            let id = id_of(&task(name, ""));
            assert!(is_session_id(&id) && id == id_of(&task(name, "running")), "{name}: {id}");
        }
    }

    #[test]
    fn a_row_says_where_it_is_and_what_cookbook_says() {
        let row =
            |place, status| Idle { id: "serve-0123abcd".into(), task: task("serve-0123abcd", status), place }.row();
        let remote = row(Place::Remote, "running");
        assert_eq!((remote.machine.as_str(), remote.phase, remote.pid), ("gpu1", Phase::Unverifiable, None));
        assert_eq!(remote.detail.unwrap(), "on gpu1; Cookbook says: running");
        for (status, phase) in
            [("running", Phase::Failed), ("queued", Phase::Queued), ("done", Phase::Exited), ("error", Phase::Failed)]
        {
            let row = row(Place::Gone, status);
            assert_eq!((row.phase, row.verdict), (phase, VerdictKind::Gone), "{status}");
        }
        let unknown = row(Place::Unknown("x".into()), "done");
        assert_eq!((unknown.phase, unknown.verdict), (Phase::Unverifiable, VerdictKind::Unverifiable));
        assert_eq!((unknown.adopted, unknown.owner.as_deref()), (true, Some("cookbook")));
    }
}
