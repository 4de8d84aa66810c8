//! Launching: a recipe or a command becomes a session whose tether is on disk before it runs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::environment::{Ingredients, build};
use super::limits::{DAY_S, ceiling, grace};
use super::preflight::{Intent, check_venv};
use super::queue::Entry;
use super::session::{OwnedPty, Session};
use super::{Inner, not_found};
use crate::app::command::{Launched, TmuxPlace};
use crate::app::config::{Escapees, Recipe, Restart};
use crate::app::contract::{CommandLine, HostKind, Kind, LaunchRequest};
use crate::app::error::{AppError, ErrorKind};
use crate::app::event::Event;
use crate::lifecycle::authority::{Pin, Pinned};
use crate::lifecycle::ceiling::RENEWED_S;
use crate::lifecycle::clock;
use crate::lifecycle::failpoint;
use crate::lifecycle::guard::Guard;
use crate::lifecycle::identity::{Identity, Pid};
use crate::lifecycle::inspect::InspectorKind;
use crate::lifecycle::kill::OwnChild;
use crate::lifecycle::leaf::Leaf;
use crate::lifecycle::restart::Restarts;
use crate::lifecycle::spawn::{End, Spec, start};
use crate::lifecycle::store::{private_dir, random_hex};
use crate::lifecycle::tether::{self, Tether, TmuxRecord};
use crate::lifecycle::tree::{Depth, Scope, WARDEN_NAME, capture};
use crate::lifecycle::warden::{
    FRONT, Gate, GateError, HostStage, Lifeline, Orders, WARDEN, Waiting, Workspace, stage_command,
};
use crate::pty::screen::{HistoryLimit, Notice, Screen, Size};
use crate::pty::{Log, Pty, PtyPair, Sink};
use crate::text;
use crate::tmux::TmuxError;
use crate::tmux::argv::NewSession;

/// How long a new process may take to report at its gate.
const REPORT: Duration = Duration::from_secs(10);

/// A request with everything settled that it left open.
struct Plan {
    id: String,
    marker: String,
    name: String,
    kind: Kind,
    host: HostKind,
    argv: Vec<String>,
    cwd: PathBuf,
    env: Vec<(OsString, OsString)>,
    size: Size,
    grace_s: f64,
    ceiling_s: f64,
    renew_s: Option<f64>,
    stop_signal: Option<String>,
    report_escapees: bool,
    origin: Option<String>,
    env_names: Vec<String>,
    exclusive: Option<String>,
    restart: bool,
    notes: Vec<String>,
}

impl Plan {
    fn entry(&self) -> Entry<'_> {
        Entry {
            id: &self.id,
            name: &self.name,
            kind: self.kind,
            host: self.host,
            origin: self.origin.as_deref(),
            command: text::mask_argv(&self.argv).join(" "),
            cwd: self.cwd.to_string_lossy().into_owned(),
        }
    }
}

impl Inner {
    pub(super) fn launch(self: &Arc<Self>, request: &LaunchRequest) -> Result<Launched, AppError> {
        if self.is_closing() {
            return Err(AppError::new(ErrorKind::Refused, "cookbook-tui is ending; nothing is launched any more"));
        }
        if self.inspector.kind() == InspectorKind::None {
            let message = "nothing is launched without a process inspector, because its identity could never be verified; drop --inspector none";
            return Err(AppError::new(ErrorKind::Unverifiable, message));
        }
        let recipe = request.recipe.as_deref().map(|name| self.recipe(name)).transpose()?;
        let exclusive = recipe.and_then(|recipe| recipe.exclusive.as_deref());
        let replace = request.replace == Some(true);
        let replaced = exclusive.map(|resource| self.check_exclusive(resource, replace)).transpose()?;
        let mut plan = self.plan(request, &replaced.unwrap_or_default())?;
        let queued = self.enqueue(plan.entry());
        let begun = (|| {
            plan.notes.extend(self.await_needs(&queued, recipe.map_or(&[][..], |recipe| &recipe.needs))?);
            // Held until the record says who has it.
            let _taken = match exclusive.map(|resource| self.take_exclusive(resource, replace)).transpose()? {
                Some((lock, notes)) => {
                    plan.notes.extend(notes);
                    Some(lock)
                }
                None => None,
            };
            let (launched, session) = match plan.host {
                HostKind::Pty => self.launch_pty(&plan, request),
                HostKind::Tmux => self.launch_tmux(&plan, request),
            }?;
            self.know(&session);
            self.add(&session);
            Ok(launched)
        })();
        self.dequeue(&queued, begun.as_ref().map(|_| ()).map_err(Clone::clone));
        let launched: Launched = begun?;
        let session = self.find(&launched.session)?;
        self.lock().last = Some(plan.id.clone());
        self.publish(Event::Launched {
            session: plan.id,
            name: plan.name,
            kind: plan.kind,
            host: plan.host,
            pid: launched.pid,
            attempt: None,
        });
        self.ring_early(&session);
        // Its end is told after its launch, however short it is.
        self.watch_exit(&session);
        self.look_soon();
        Ok(launched)
    }

    /// Settles a request. `replaced` are to be stopped before it is launched.
    fn plan(&self, request: &LaunchRequest, replaced: &[Arc<Session>]) -> Result<Plan, AppError> {
        let recipe = match (&request.recipe, &request.command) {
            (Some(_), Some(_)) => return Err(usage("give a recipe or a command, not both")),
            (None, None) => return Err(usage("give a recipe or a command; `recipes` lists the recipes")),
            (Some(name), None) => Some(self.recipe(name)?),
            (None, Some(_)) => None,
        };
        if let Some(machine) = request.machine.as_deref().filter(|machine| *machine != "local") {
            return Err(usage(format!(
                "machine {machine:?}: this version launches on this computer only; leave it out or say \"local\""
            )));
        }
        if let Some((recipe, why)) = recipe.and_then(|recipe| Some((recipe, recipe.refused.as_deref()?))) {
            return Err(AppError::new(ErrorKind::Refused, format!("recipe {:?} is not launched: {why}", recipe.name)));
        }
        let command = recipe.map(|recipe| &recipe.command).or(request.command.as_ref());
        let argv = command.map(CommandLine::argv).unwrap_or_default();
        let blank = matches!(command, Some(CommandLine::Line(line)) if line.trim().is_empty());
        if blank || argv.first().is_none_or(String::is_empty) || argv.iter().any(|word| word.contains('\0')) {
            return Err(usage("command is empty, or holds a NUL"));
        }
        let kind = request.kind.or(recipe.map(|recipe| recipe.kind)).unwrap_or(Kind::Shell);
        let (host, mut notes) = self.choose_host(request, recipe, kind)?;
        let chosen = request.ceiling_s.or(recipe.and_then(|recipe| recipe.ceiling_s));
        let ceiling_s = ceiling(chosen.unwrap_or(match (host, kind) {
            (HostKind::Tmux, Kind::Agent | Kind::Shell) if self.attended => 2.0 * DAY_S,
            (HostKind::Tmux, Kind::Serve | Kind::Download) if self.attended => RENEWED_S,
            (HostKind::Pty | HostKind::Tmux, _) => DAY_S,
        }))?;
        let renew_s = Some(RENEWED_S).filter(|_| {
            let by_default = chosen.is_none() && self.attended && host == HostKind::Tmux;
            by_default && matches!(kind, Kind::Serve | Kind::Download)
        });
        let grace_s = grace(request.grace_s.or(recipe.and_then(|recipe| recipe.stop.grace_s)))?;
        if let Some(venv) = recipe.and_then(|recipe| recipe.venv.as_deref()) {
            check_venv(venv)?;
        }
        let cwd = working_directory(request.cwd.as_deref(), recipe.and_then(|recipe| recipe.cwd.as_deref()))?;
        let id = self.fresh_id(kind);
        let marker = format!("{}{}", random_hex(), random_hex());
        let empty = BTreeMap::new();
        let tmux_tmpdir = (kind == Kind::Agent).then(|| self.paths.runtime_dir.join(format!("t-{id}")));
        if let Some(dir) = &tmux_tmpdir {
            private_dir(dir).map_err(io("failed to make the agent's tmux directory"))?;
        }
        let requested = request.env.as_ref().unwrap_or(&empty);
        check_variables(requested)?;
        let ingredients = Ingredients {
            session: &id,
            marker: &marker,
            kind,
            host,
            recipe: recipe.map_or(&empty, |recipe| &recipe.env),
            request: requested,
            gpus: recipe.and_then(|recipe| recipe.gpus.as_deref()),
            venv: recipe.and_then(|recipe| recipe.venv.as_deref()),
            tmux_tmpdir: tmux_tmpdir.as_deref(),
            state_dir: Some(self.paths.state_dir.as_path()).filter(|_| self.paths.own_state),
        };
        let env = build(std::env::vars_os(), &ingredients);
        if let Some(command) = command {
            notes.extend(self.preflight(&Intent { command, kind, cwd: &cwd, env: &env, replaced })?);
        }
        let typed = match command {
            Some(CommandLine::Line(line)) => first_program(line),
            Some(CommandLine::Argv(_)) | None => None,
        };
        let program = || {
            Path::new(&argv[0]).file_name().map_or_else(|| argv[0].clone(), |name| name.to_string_lossy().into_owned())
        };
        let name =
            request.name.clone().or_else(|| recipe.map(|recipe| recipe.name.clone())).or(typed).unwrap_or_else(program);
        let report = match recipe.map(|recipe| &recipe.escapees) {
            Some(Escapees::Report) => true,
            Some(Escapees::Sweep) => false,
            None => kind == Kind::Shell,
        };
        Ok(Plan {
            size: Size::clamped(request.rows.unwrap_or(24), request.cols.unwrap_or(80)),
            stop_signal: recipe.and_then(|recipe| recipe.stop.signal.clone()),
            report_escapees: report,
            origin: request.recipe.clone(),
            env_names: requested.keys().cloned().collect(),
            exclusive: recipe.and_then(|recipe| recipe.exclusive.clone()),
            restart: recipe.is_some_and(|recipe| recipe.restart == Restart::OnFailure),
            id,
            marker,
            name,
            kind,
            host,
            argv,
            cwd,
            env,
            grace_s,
            ceiling_s,
            renew_s,
            notes,
        })
    }

    fn recipe(&self, name: &str) -> Result<&Recipe, AppError> {
        self.config.recipe(name).ok_or_else(|| {
            let near = self.config.recipes.iter().map(|recipe| recipe.name.as_str());
            let best = near.max_by(|a, b| strsim::jaro_winkler(name, a).total_cmp(&strsim::jaro_winkler(name, b)));
            let hint = best.map(|best| format!("; the nearest is {best:?}")).unwrap_or_default();
            not_found(format!("there is no recipe {name:?}{hint}; `recipes` lists them"))
        })
    }

    fn choose_host(
        &self,
        request: &LaunchRequest,
        recipe: Option<&Recipe>,
        kind: Kind,
    ) -> Result<(HostKind, Vec<String>), AppError> {
        let by_kind = if kind == Kind::Shell { HostKind::Pty } else { HostKind::Tmux };
        let wanted = request.host.unwrap_or_else(|| recipe.map_or(by_kind, Recipe::usual_host));
        if wanted == HostKind::Pty {
            return Ok((HostKind::Pty, Vec::new()));
        }
        match self.server.version() {
            Ok(_) => Ok((HostKind::Tmux, Vec::new())),
            Err(error) if request.host == Some(HostKind::Tmux) => Err(tmux(&error)),
            Err(error @ (TmuxError::NotInstalled { .. } | TmuxError::TooOld { .. })) => {
                Ok((HostKind::Pty, vec![format!("in a PTY, and not in tmux as usual: {error}")]))
            }
            Err(error) => Err(tmux(&error)),
        }
    }

    pub(super) fn fresh_id(&self, kind: Kind) -> String {
        loop {
            let id = format!("{}-{}", kind.id_prefix(), random_hex());
            if !self.lock().by_id.contains_key(&id) && !self.store.tether_path(&id).exists() {
                return id;
            }
        }
    }

    fn launch_pty(
        self: &Arc<Self>,
        plan: &Plan,
        request: &LaunchRequest,
    ) -> Result<(Launched, Arc<Session>), AppError> {
        let pty_failed =
            |error: std::io::Error| AppError::new(ErrorKind::Pty, format!("failed to open a pseudo-terminal: {error}"));
        let gate = Gate::open(&self.paths.runtime_dir).map_err(|error| gate_error(&error))?;
        let pair = PtyPair::open(plan.size).map_err(pty_failed)?;
        let mut spec =
            Spec::new(stage_command(WARDEN, HostStage::Pty, &gate).map_err(io("failed to find our own program"))?);
        spec.arg0 = Some(WARDEN_NAME.into());
        spec.env_clear = true;
        spec.env = failpoint::environment(failpoint::Stage::Warden);
        let slave = || pair.slave().map(End::Fd).map_err(pty_failed);
        let child = start(&spec, slave()?, slave()?, slave()?).map_err(io("failed to start the warden"))?;
        let warden_pid = i32::try_from(child.id()).ok().and_then(Pid::new);
        let warden_child = OwnChild::from(child);
        let begun = (|| {
            let parent = warden_pid.ok_or_else(|| AppError::new(ErrorKind::Internal, "a child without a pid"))?;
            let waiting = gate.admit(parent, REPORT, &self.inspector).map_err(|error| gate_error(&error))?;
            let log = self.open_log(&plan.id)?;
            let screen = Screen::new(plan.size, HistoryLimit::default());
            let sink = ScreenSink { inner: Arc::clone(self), session: plan.id.clone() };
            let pty = Pty::start(pair, screen, Some(log), sink).map_err(pty_failed)?;
            let mut tether = self.tether_of(plan, &waiting, None, None);
            let uncontained = self.contain(&waiting, &mut tether);
            let lifeline = self.go(plan, waiting, &tether)?;
            Ok((pty, lifeline, tether, uncontained))
        })();
        let (pty, lifeline, tether, uncontained) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                // Its gate is closed: it leaves by itself, and there is nothing below it.
                warden_child.end();
                return Err(error);
            }
        };
        let launched = launched(plan, &tether, uncontained);
        let owned = OwnedPty::new(pty, lifeline, warden_child);
        Ok((launched, new_session(tether, request, Some(owned))?))
    }

    fn launch_tmux(
        self: &Arc<Self>,
        plan: &Plan,
        request: &LaunchRequest,
    ) -> Result<(Launched, Arc<Session>), AppError> {
        let gate = Gate::open(&self.paths.runtime_dir).map_err(|error| gate_error(&error))?;
        let new = NewSession {
            name: plan.id.clone(),
            rows: plan.size.rows,
            cols: plan.size.cols,
            argv: stage_command(FRONT, HostStage::Tmux, &gate).map_err(io("failed to find our own program"))?,
        };
        let created = self.server.create(&new).map_err(|error| tmux(&error))?;
        let mut front = None;
        let begun = (|| {
            let waiting = gate.admit(created.pane_pid, REPORT, &self.inspector).map_err(|error| gate_error(&error))?;
            front = Some(self.identify(created.pane_pid)?);
            let server = self.identify(created.server_pid)?;
            if matches!(plan.kind, Kind::Serve | Kind::Download) {
                self.server.set_remain_on_exit(&created.pane, true).map_err(|error| tmux(&error))?;
            }
            let program = std::env::current_exe().map_err(io("failed to find our own program"))?.into_os_string();
            // Made here: the writer only finds it, so that none is left of a launch that fails.
            drop(self.open_log(&plan.id)?);
            let writer = vec![program, super::super::LOG_WRITER.into(), self.store.log_path(&plan.id).into_os_string()];
            self.server.pipe_to_log(&created.pane, &writer).map_err(|error| tmux(&error))?;
            let record = TmuxRecord {
                socket: self.server.socket_path().to_string_lossy().into_owned(),
                server,
                session_id: created.session.to_string(),
                pane_id: created.pane.to_string(),
            };
            let mut tether = self.tether_of(plan, &waiting, front.clone(), Some(record));
            let uncontained = self.contain(&waiting, &mut tether);
            let lifeline = self.go(plan, waiting, &tether)?;
            Ok((tether, lifeline, uncontained))
        })();
        match begun {
            Ok((tether, lifeline, uncontained)) => {
                // In tmux nothing depends on the connection: the session outlives us on purpose.
                drop(lifeline);
                let launched = launched(plan, &tether, uncontained);
                Ok((launched, new_session(tether, request, None)?))
            }
            Err(error) => {
                let scope = Scope { front, ..Scope::default() };
                let mut guard = Guard::new(&self.inspector);
                guard.protect_server(created.server_pid, "the tmux server of the session");
                let captured = capture(&scope, Depth::Trees, &guard, &self.inspector);
                // The pane holds nothing but our own front; a session that is gone already is fine.
                drop(self.server.kill_session(&created.session, created.server_pid, &captured));
                Err(error)
            }
        }
    }

    /// Gives the waiting workload a cgroup of its own, where the configuration asks for one; says why it has none.
    fn contain(&self, waiting: &Waiting, tether: &mut Tether) -> Option<String> {
        if !self.config.cgroup {
            return None;
        }
        let made = Leaf::create(&tether.session, &self.inspector).and_then(|leaf| {
            leaf.admit(&waiting.workload, &self.inspector).map(|()| leaf.record().clone()).map_err(|error| {
                Leaf::remove(leaf.record());
                format!("the workload could not be moved into {}: {error}", leaf.record().path.display())
            })
        });
        match made {
            Ok(record) => {
                tether.cgroup = Some(record);
                tether.containment.push("cgroup".into());
                None
            }
            Err(reason) => Some(format!("not contained by a cgroup: {reason}")),
        }
    }

    /// Writes the tether, then opens the gate.
    fn go(&self, plan: &Plan, waiting: Waiting, tether: &Tether) -> Result<Lifeline, AppError> {
        let durable = self.store.begin(tether).map_err(|error| {
            tether.cgroup.iter().for_each(Leaf::remove);
            let message = format!(
                "nothing was launched, because its record could not be written to {}: {error}",
                self.paths.state_dir.display()
            );
            AppError::new(ErrorKind::State, message)
        })?;
        let orders = Orders {
            session: plan.id.clone(),
            state_dir: self.paths.state_dir.clone(),
            inspector: self.inspector.kind().name().into(),
            workspace: Workspace {
                argv: plan.argv.iter().map(OsString::from).collect(),
                cwd: plan.cwd.clone(),
                env: plan.env.clone(),
                own_tmux: plan.kind == Kind::Agent,
            },
            restart: tether.restarts.is_some(),
        };
        waiting.go(&durable, &orders).map_err(|error| {
            // Nothing runs, so nothing is to be recorded.
            self.store.remove(&plan.id).ok();
            self.store.forget(&plan.id);
            self.forget_private_tmux(&plan.id);
            std::fs::remove_file(self.store.log_path(&plan.id)).ok();
            gate_error(&error)
        })
    }

    fn open_log(&self, session: &str) -> Result<Log, AppError> {
        let path = self.store.log_path(session);
        Log::open(&path).map_err(|error| {
            let message =
                format!("nothing was launched, because its log {} could not be opened: {error}", path.display());
            AppError::new(ErrorKind::State, message)
        })
    }

    pub(super) fn identify(&self, pid: Pid) -> Result<Identity, AppError> {
        match Pinned::open(&self.inspector, pid) {
            Pin::Held(pinned) => Ok(pinned.identity().clone()),
            Pin::Gone => {
                Err(AppError::new(ErrorKind::Tmux, format!("process {pid} of the tmux session is gone already")))
            }
            Pin::Unreadable(error) => Err(AppError::new(ErrorKind::Unverifiable, error.to_string())),
        }
    }

    fn tether_of(&self, plan: &Plan, waiting: &Waiting, front: Option<Identity>, record: Option<TmuxRecord>) -> Tether {
        let masked = text::mask_argv(&plan.argv);
        let now = clock::boottime();
        let wall = clock::wall();
        let facts = waiting.workload.facts();
        // In a PTY the trampoline becomes session leader; in tmux it leads a group of the pane's session.
        let leader = facts.pid.raw();
        Tether {
            schema_version: tether::SCHEMA_VERSION,
            protocol: tether::PROTOCOL,
            session: plan.id.clone(),
            name: plan.name.clone(),
            kind: plan.kind.name().into(),
            host: plan.host.name().into(),
            lifetime: if plan.host == HostKind::Pty { "grant" } else { "background" }.into(),
            origin: plan.origin.clone(),
            command: masked.join(" "),
            argv: (masked == plan.argv).then(|| plan.argv.clone()),
            env_names: plan.env_names.clone(),
            ceiling_s: Some(plan.ceiling_s),
            renew_s: plan.renew_s,
            exclusive: plan.exclusive.clone(),
            cwd: plan.cwd.to_string_lossy().into_owned(),
            boot_id: self.inspector.boot_id().map(str::to_owned),
            pidns_inode: self.namespaces.pid,
            timens_inode: self.namespaces.time,
            spawner: self.me.clone(),
            adopted: false,
            adoption: None,
            warden: Some(waiting.warden.identity().clone()),
            workload: tether::Workload {
                identity: waiting.workload.identity().clone(),
                pgid: leader,
                sid: if plan.host == HostKind::Pty {
                    leader
                } else {
                    front.as_ref().map_or(facts.sid, |front| front.pid.raw())
                },
            },
            front,
            tmux: record,
            spawned_at: now,
            spawned_at_wall: wall,
            not_after: now + plan.ceiling_s,
            not_after_wall: wall + plan.ceiling_s,
            marker: plan.marker.clone(),
            containment: vec!["tree".into(), "warden".into()],
            cgroup: None,
            stop_signal: plan.stop_signal.clone(),
            grace_s: plan.grace_s,
            report_escapees: plan.report_escapees,
            captured: Vec::new(),
            stopping: false,
            last: None,
            restarts: plan.restart.then(Restarts::default),
        }
    }
}

fn new_session(tether: Tether, request: &LaunchRequest, pty: Option<OwnedPty>) -> Result<Arc<Session>, AppError> {
    Session::new(tether, Some(request.clone()), pty)
        .ok_or_else(|| AppError::new(ErrorKind::Internal, "a tether of an unknown kind"))
}

fn check_variables(variables: &BTreeMap<String, String>) -> Result<(), AppError> {
    if let Some(bad) = variables.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
        return Err(usage(format!("env: {bad:?} is no name of a variable")));
    }
    match variables.iter().find(|(_, value)| value.contains('\0')) {
        Some((name, _)) => Err(usage(format!("env: the value of {name} holds a NUL, which no environment can"))),
        None => Ok(()),
    }
}

fn launched(plan: &Plan, tether: &Tether, uncontained: Option<String>) -> Launched {
    Launched {
        session: plan.id.clone(),
        host: plan.host,
        pid: tether.workload.identity.pid.raw(),
        start_token: tether.workload.identity.token.clone(),
        tmux: tether.tmux.as_ref().map(|record| TmuxPlace {
            socket: record.socket.clone(),
            session_id: record.session_id.clone(),
            pane_id: record.pane_id.clone(),
        }),
        notes: plan.notes.iter().cloned().chain(uncontained).collect(),
    }
}

/// Returns the name of the first program in a line for `sh -c`, where it is plain to see.
fn first_program(line: &str) -> Option<String> {
    let mut words =
        line.split_whitespace().skip_while(|word| word.contains('=') || ["exec", "env", "nohup"].contains(word));
    let name = words.next()?.rsplit('/').next()?;
    let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_.-+".contains(c));
    plain.then(|| name.to_owned())
}

fn working_directory(request: Option<&str>, recipe: Option<&Path>) -> Result<PathBuf, AppError> {
    let here = std::env::current_dir().map_err(io("failed to find the working directory"))?;
    let wanted = request.map(PathBuf::from).or_else(|| recipe.map(Path::to_owned)).unwrap_or_default();
    // Collected component by component: an empty path would leave a slash at the end.
    let cwd: PathBuf = here.join(wanted).components().collect();
    if cwd.is_dir() { Ok(cwd) } else { Err(usage(format!("cwd: {} is not a directory", cwd.display()))) }
}

fn usage(message: impl Into<String>) -> AppError {
    AppError::new(ErrorKind::Usage, message)
}

fn io(what: &'static str) -> impl Fn(std::io::Error) -> AppError {
    move |error| AppError::new(ErrorKind::Io, format!("{what}: {error}"))
}

/// Returns an error of tmux with its kind; silence of a server is no knowledge.
pub(super) fn tmux(error: &TmuxError) -> AppError {
    use std::error::Error as _;
    let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    AppError::new(ErrorKind::Tmux, format!("{error}{source}"))
}

fn gate_error(error: &GateError) -> AppError {
    let kind = match error {
        GateError::Exec { .. } => ErrorKind::Failed,
        GateError::Timeout(_) => ErrorKind::Timeout,
        GateError::Stranger(_) => ErrorKind::Refused,
        GateError::Unidentified(_) => ErrorKind::Unverifiable,
        GateError::Open { .. } | GateError::Broken(_) => ErrorKind::Io,
    };
    AppError::new(kind, error.to_string())
}

struct ScreenSink {
    inner: Arc<Inner>,
    session: String,
}

impl Sink for ScreenSink {
    fn changed(&mut self) {
        self.inner.screens.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.inner.changed();
    }

    fn notice(&mut self, notice: Notice) {
        match notice {
            Notice::Bell => self.inner.ring(&self.session),
            Notice::EmulatorReset(reason) => {
                let reason = format!("its screen was reset: {reason}");
                self.inner.publish(Event::Attention { session: self.session.clone(), reason, state: None });
            }
            Notice::Title(_) => {}
        }
    }
}
