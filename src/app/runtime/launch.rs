//! Launching: a recipe or a command becomes a session whose tether is on disk before it runs.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use super::Inner;
use super::exclusive::Claim;
use super::needs::ending;
use super::plan::{Plan, base};
use super::preflight::ELSEWHERE;
use super::session::{OwnedPty, Session};
use super::stopper::How;
use crate::app::command::{Launched, TmuxPlace};
use crate::app::contract::{HostKind, Kind, LaunchRequest};
use crate::app::error::{AppError, ErrorKind};
use crate::app::event::Event;
use crate::lifecycle::authority::{Pin, Pinned};
use crate::lifecycle::clock;
use crate::lifecycle::failpoint;
use crate::lifecycle::guard::Guard;
use crate::lifecycle::identity::{Identity, Pid};
use crate::lifecycle::inspect::{InspectorKind, own_program};
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
use crate::pty::screen::{HistoryLimit, Notice, Screen};
use crate::pty::{Log, Pty, PtyPair, Sink, Watch};
use crate::text;
use crate::tmux::TmuxError;
use crate::tmux::argv::NewSession;

/// How long a new process may take to report at its gate.
const REPORT: Duration = Duration::from_secs(10);

impl Inner {
    pub(super) fn launch(self: &Arc<Self>, request: &LaunchRequest) -> Result<Launched, AppError> {
        self.may_launch()?;
        let config = self.config();
        let recipe = base(&config, request)?;
        let exclusive = recipe.and_then(|recipe| recipe.exclusive.as_deref());
        let replace = request.replace == Some(true);
        let replaced =
            exclusive.map(|resource| self.check_exclusive(&Claim { resource, replace, but: None })).transpose()?;
        let mut plan = self.plan(request, &replaced.unwrap_or_default())?;
        if let Some(dir) = &plan.tmux_tmpdir {
            private_dir(dir).map_err(io("failed to make the agent's tmux directory"))?;
        }
        let queued = self.enqueue(plan.entry(), request);
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
            let lifeline = self.go(plan, waiting, &tether, request)?;
            Ok((pty, lifeline, tether, uncontained))
        })();
        let (pty, lifeline, tether, uncontained) = match begun {
            Ok(begun) => begun,
            Err(BrokenOff { error, .. }) => {
                // Its gate is closed: it leaves by itself, and there is nothing below it any more.
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
        if let Some(why) = self.lost_server() {
            let why = why.trim_start_matches("its ");
            return Err(AppError::new(ErrorKind::Unverifiable, format!("nothing was launched: the {why}")));
        }
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
            let program = own_program().map_err(io("failed to find our own program"))?.into_os_string();
            // Made here: the writer only finds it, so that none is left of a launch that fails.
            drop(self.open_log(&plan.id)?);
            let writer = vec![program, super::super::LOG_WRITER.into(), self.store.log_path(&plan.id).into_os_string()];
            let stays = matches!(plan.kind, Kind::Serve | Kind::Download) && created.version.may_keep_panes();
            self.server.pipe_to_log(&created.pane, &writer, stays).map_err(|error| tmux(&error))?;
            let record = TmuxRecord {
                socket: self.server.socket_path().to_string_lossy().into_owned(),
                server,
                session_id: created.session.to_string(),
                pane_id: created.pane.to_string(),
            };
            let mut tether = self.tether_of(plan, &waiting, front.clone(), Some(record));
            let uncontained = self.contain(&waiting, &mut tether);
            let lifeline = self.go(plan, waiting, &tether, request)?;
            Ok((tether, lifeline, uncontained))
        })();
        match begun {
            Ok((tether, lifeline, uncontained)) => {
                // In tmux nothing depends on the connection: the session outlives us on purpose.
                drop(lifeline);
                let launched = launched(plan, &tether, uncontained);
                Ok((launched, new_session(tether, request, None)?))
            }
            // Its own stop has closed what was to be closed.
            Err(BrokenOff { error, had_begun: true }) => Err(error),
            Err(BrokenOff { error, had_begun: false }) => {
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

    /// Refuses where nothing can be launched at all.
    pub(super) fn may_launch(&self) -> Result<(), AppError> {
        if self.is_closing() {
            return Err(ending());
        }
        if self.inspector.kind() == InspectorKind::None {
            let message = "nothing is launched without a process inspector, because its identity could never be verified; drop --inspector none";
            return Err(AppError::new(ErrorKind::Unverifiable, message));
        }
        Ok(())
    }

    /// Gives the waiting workload a cgroup of its own, where the configuration asks for one; says why it has none.
    fn contain(&self, waiting: &Waiting, tether: &mut Tether) -> Option<String> {
        if !self.config().cgroup {
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
    fn go(
        self: &Arc<Self>,
        plan: &Plan,
        waiting: Waiting,
        tether: &Tether,
        request: &LaunchRequest,
    ) -> Result<Lifeline, BrokenOff> {
        self.write_unwritten();
        let begun = self.store.begin(tether).or_else(|error| {
            let full = error.kind() == std::io::ErrorKind::StorageFull;
            if full && self.make_room() { self.store.begin(tether) } else { Err(error) }
        });
        let durable = begun.map_err(|error| {
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
            if let GateError::Lost(_) = error {
                return BrokenOff { error: self.end_lost(tether, request, &gate_error(&error)), had_begun: true };
            }
            // Nothing runs, so nothing is to be recorded.
            self.store.remove(&plan.id).ok();
            self.store.forget(&plan.id);
            self.forget_private_tmux(&plan.id);
            std::fs::remove_file(self.store.log_path(&plan.id)).ok();
            gate_error(&error).into()
        })
    }

    /// Ends what may have begun of a launch whose warden was lost: it has its record, so it is stopped like any other
    /// session, and stays one where somebody is left. Returns what is to be said.
    fn end_lost(self: &Arc<Self>, tether: &Tether, request: &LaunchRequest, error: &AppError) -> AppError {
        let ended = new_session(tether.clone(), request, None).and_then(|session| {
            self.know(&session);
            self.add(&session);
            self.end(&session, How::default()).inspect(|receipt| {
                if receipt.is_clean() {
                    self.dismiss(&session);
                }
            })
        });
        let what = match ended {
            Ok(receipt) if receipt.is_clean() => "what had begun of it was ended".to_owned(),
            Ok(receipt) => format!("it is kept as {}: {}", tether.session, receipt.end()),
            Err(why) => format!("it is kept as {}, and was not ended: {}", tether.session, why.message),
        };
        AppError::new(error.kind, format!("{}; {what}", error.message))
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
            own_command: plan.own_command,
            gpus: plan.gpus.clone(),
            venv: plan.venv.clone(),
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
            left: Vec::new(),
            stopping: false,
            last: None,
            untold: false,
            restarts: plan.restart.then(Restarts::default),
        }
    }
}

/// A launch that has failed.
struct BrokenOff {
    error: AppError,
    /// Its workload may have run; it was stopped.
    had_begun: bool,
}

impl From<AppError> for BrokenOff {
    fn from(error: AppError) -> Self {
        Self { error, had_begun: false }
    }
}

fn new_session(tether: Tether, request: &LaunchRequest, pty: Option<OwnedPty>) -> Result<Arc<Session>, AppError> {
    Session::new(tether, Some(request.clone()), pty)
        .ok_or_else(|| AppError::new(ErrorKind::Internal, "a tether of an unknown kind"))
}

fn launched(plan: &Plan, tether: &Tether, uncontained: Option<String>) -> Launched {
    Launched {
        session: plan.id.clone(),
        host: plan.host,
        pid: tether.workload.identity.pid.raw(),
        start_token: tether.workload.identity.token.clone(),
        tmux: tether.tmux.as_ref().map(TmuxPlace::from),
        notes: plan.notes.iter().cloned().chain(uncontained).collect(),
    }
}

pub(super) fn usage(message: impl Into<String>) -> AppError {
    AppError::new(ErrorKind::Usage, message)
}

pub(super) fn io(what: &'static str) -> impl Fn(std::io::Error) -> AppError {
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
        GateError::Open { .. } | GateError::Broken(_) | GateError::Lost(_) => ErrorKind::Io,
    };
    let message = match error {
        GateError::Exec { what, source } if source.kind() == std::io::ErrorKind::NotFound && !what.contains('/') => {
            format!("{} was not found on the PATH of the session: install it, {ELSEWHERE}", text::escape(what))
        }
        GateError::Exec { .. }
        | GateError::Timeout(_)
        | GateError::Stranger(_)
        | GateError::Unidentified(_)
        | GateError::Open { .. }
        | GateError::Broken(_)
        | GateError::Lost(_) => error.to_string(),
    };
    AppError::new(kind, message)
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

    fn watch(&self) -> Watch {
        self.inner.looked_at.of(&self.session)
    }
}
