//! The one runtime behind the screen, the batch and the subcommands: it carries commands out.
//!
//! [`Runtime::execute`] may be called from any thread. Nothing here draws, and nobody who draws waits for
//! it: the screen calls it from worker threads. State is held per session behind short locks; a stop holds
//! the session's own lock, never the runtime's.

mod adopt;
mod adopted;
mod aside;
mod attention;
mod ceilings;
mod claims;
mod containers;
mod control;
pub(super) mod doctor;
mod draft;
mod earlier;
pub(super) mod elsewhere;
mod enter;
mod environment;
mod exclusive;
mod failure;
mod gpu;
mod heard;
pub(super) mod host_checks;
mod hosts;
pub mod hub;
mod launch;
mod limits;
mod looked_at;
mod marking;
mod models;
mod needs;
mod nvidia;
mod orphans;
pub(super) mod others;
mod panes;
mod plan;
mod ports;
mod preflight;
mod probe;
pub(super) mod query;
mod queue;
mod reaper;
mod restarts;
mod sampler;
mod save;
mod script;
mod serving;
mod session;
mod stopper;
mod tasks;
mod tmux_list;
mod typing;
mod unix;
mod unwritten;
mod wait;
mod watch;
mod why;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::command::{Answer, Command, RestartRequest};
use super::config::{Config, Inputs, Untrusted};
use super::error::{AppError, ErrorKind};
use super::event::Event;
use super::paths::Paths;
use super::phase::Table;
use crate::lifecycle::clock::boottime;
use crate::lifecycle::guard::Guard;
use crate::lifecycle::identity::Identity;
use crate::lifecycle::inspect::{Facts, Inspector, Sockets};
use crate::lifecycle::records::Records;
use crate::lifecycle::store::{Quarantined, Store};
use crate::tmux::Server;
use hub::Hub;
use queue::Queued;
use session::Session;

/// What a runtime is made of.
#[derive(Debug)]
pub struct Setup {
    /// Where things are.
    pub paths: Paths,
    /// What can be launched, and how.
    pub config: Config,
    /// Where that came from.
    pub inputs: Inputs,
    /// How the process table is read.
    pub inspector: Inspector,
    /// Our tmux server.
    pub server: Server,
    /// A person asks, and not a script: what it starts may live longer.
    pub attended: bool,
}

/// The runtime. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Runtime {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    paths: Paths,
    /// Replaced as a whole when a recipe is saved.
    config: RwLock<Arc<Config>>,
    /// Where it came from.
    inputs: Inputs,
    inspector: Inspector,
    server: Server,
    attended: bool,
    /// Why this run ends without anybody who looks: its receipts are kept for the next one to tell.
    unseen_end: OnceLock<&'static str>,
    looked_at: looked_at::LookedAt,
    /// What was told of earlier runs.
    earlier: Mutex<Vec<earlier::End>>,
    /// When this run began, on `CLOCK_BOOTTIME`: what asked for attention before is shown, and is no news.
    began: f64,
    store: Store,
    /// What its records were when they were last read.
    records: Mutex<Records>,
    /// Cookbook's data directory, where one is configured.
    cookbook: Option<tasks::Cookbook>,
    me: Identity,
    namespaces: enter::Namespaces,
    hub: Hub,
    sessions: Mutex<Sessions>,
    /// Grows with everything that somebody may wait for.
    changes: (Mutex<u64>, Condvar),
    /// Launches that are under way.
    queue: Mutex<Vec<Arc<Queued>>>,
    /// Recipes that are being launched because somebody needs them.
    providing: Mutex<BTreeSet<String>>,
    gpu: Mutex<gpu::Known>,
    /// Held for as long as a question takes: never taken where somebody waits for the screen.
    nvidia: Mutex<nvidia::Nvidia>,
    /// Receipts that are in no journal yet, the oldest first.
    unwritten: Mutex<Vec<unwritten::Unwritten>>,
    /// Nobody waits any more, though what is under way goes on.
    waits_over: AtomicBool,
    closing: AtomicBool,
    /// Who is protected, as last looked up for rows that are only shown.
    glance: Mutex<Option<(Instant, Guard)>>,
    /// What tmux servers have said of their panes.
    panes: Mutex<Vec<panes::Seen>>,
    /// The listening sockets of the host, as last looked up.
    sockets: Mutex<Option<(Instant, Arc<Sockets>)>>,
    /// Grows with everything that any session prints.
    screens: AtomicU64,
    /// What servers print; made when the first one is launched or found.
    table: Mutex<Option<Arc<Table>>>,
    /// Whether the looking thread is to look at once.
    nudged: (Mutex<bool>, Condvar),
    /// `None` inside where the thread could not be started.
    watcher: OnceLock<Option<watch::Watcher>>,
    /// Where other managers ask for what only we can do.
    control: Mutex<Option<control::Control>>,
}

#[derive(Default)]
struct Sessions {
    by_id: BTreeMap<String, Arc<Session>>,
    /// Ids in the order of their launch.
    order: Vec<String>,
    last: Option<String>,
    quarantined: Vec<Quarantined>,
    /// When the bell of a session rang that is being launched, on `CLOCK_BOOTTIME`.
    bells: BTreeMap<String, f64>,
}

impl Runtime {
    /// Opens the state directory and takes in what earlier runs left there.
    ///
    /// # Errors
    /// When the state directory is not usable, or our own identity cannot be read.
    pub fn new(setup: Setup) -> Result<Self, AppError> {
        let Setup { paths, config, inputs, inspector, server, attended } = setup;
        let store = Store::open(&paths.state_dir).map_err(|error| {
            AppError::new(
                ErrorKind::State,
                format!("failed to open the state directory: {error}; choose another with --state-dir"),
            )
        })?;
        let me = enter::own_identity(&inspector);
        let namespaces = enter::Namespaces::own(&inspector);
        let cookbook = tasks::Cookbook::of(&config.cookbook);
        let inner = Inner {
            cookbook,
            paths,
            config: RwLock::new(Arc::new(config)),
            inputs,
            inspector,
            server,
            attended,
            began: boottime(),
            store,
            records: Mutex::default(),
            me,
            namespaces,
            hub: Hub::default(),
            sessions: Mutex::default(),
            changes: (Mutex::new(0), Condvar::new()),
            queue: Mutex::default(),
            providing: Mutex::default(),
            gpu: Mutex::default(),
            nvidia: Mutex::default(),
            unseen_end: OnceLock::new(),
            looked_at: looked_at::LookedAt::default(),
            earlier: Mutex::default(),
            unwritten: Mutex::default(),
            waits_over: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            glance: Mutex::default(),
            panes: Mutex::default(),
            sockets: Mutex::default(),
            screens: AtomicU64::new(0),
            table: Mutex::default(),
            nudged: (Mutex::new(false), Condvar::new()),
            watcher: OnceLock::new(),
            control: Mutex::default(),
        };
        if !inner.config().patterns.is_empty() {
            inner.patterns()?;
        }
        let runtime = Self { inner: Arc::new(inner) };
        runtime.inner.take_in();
        Ok(runtime)
    }

    /// Settles what earlier runs left, before anything of this run exists, and returns a line for each session of
    /// whose end this run has learned. `hello` says the same.
    pub fn settle_earlier(&self) -> Vec<String> {
        let ends = self.inner.reap().told();
        let lines = ends.iter().map(ToString::to_string).collect();
        self.inner.remember(ends);
        lines
    }

    /// Tells those who have just subscribed what earlier runs have left, as events.
    pub fn publish_earlier(&self) {
        self.inner.publish_earlier();
    }

    /// Returns what earlier runs have left and nobody has asked for.
    pub fn take_earlier(&self) -> Vec<String> {
        self.inner.take_earlier()
    }

    /// Starts the threads that watch for exits, look at the process table every second, follow the servers and
    /// answer other managers.
    pub fn watch(&self) {
        watch::start(&self.inner);
        control::start(&self.inner);
        sampler::start(&self.inner);
        serving::start(&self.inner);
        gpu::start(&self.inner);
        reaper::start(&self.inner);
        tasks::start(&self.inner);
        attention::start(&self.inner);
    }

    /// Carries a command out.
    ///
    /// # Errors
    /// With the kind that scripts tell apart and the message that people read.
    pub fn execute(&self, command: &Command) -> Result<Answer, AppError> {
        self.execute_for(command, &[])
    }

    /// Carries a command out for another cookbook-tui, which is not ended by it: given with its ancestors.
    fn execute_for(&self, command: &Command, asker: &[Facts]) -> Result<Answer, AppError> {
        let inner = &self.inner;
        if let Command::Stop(request) = command
            && let Some(receipt) = inner.call_off(request)
        {
            return Ok(Answer::Receipt(Box::new(receipt)));
        }
        if let Some(answer) = inner.by_its_owner(command)? {
            return Ok(answer);
        }
        if let Command::Launch(request) | Command::Restart(RestartRequest { launch: Some(request), .. }) = command {
            request.name.as_deref().map_or(Ok(()), plan::check_name)?;
        }
        match command {
            Command::Hello {} => Ok(inner.hello()),
            Command::Launch(request) => inner.launch(request).map(Answer::Launched),
            Command::Wait(request) => inner.wait(request).map(Answer::Waited),
            Command::List { others } => {
                let rows = inner.list();
                let others = (*others == Some(true)).then(|| inner.others());
                Ok(Answer::List(rows, inner.lock().quarantined.clone(), others, inner.task_notes()))
            }
            Command::Tree { session } => inner.tree(session).map(Answer::Tree),
            Command::Why { session, pid } => inner.why(session, *pid).map(|why| Answer::Why(Box::new(why))),
            Command::Screen { session, scrollback } => {
                inner.screen(session, scrollback.unwrap_or(0)).map(Answer::Screen)
            }
            Command::Send { session, text, keys } => {
                inner.send(session, text.as_deref(), keys.as_deref().unwrap_or_default()).map(|()| Answer::Done)
            }
            Command::Resize { session, rows, cols } => inner.resize(session, *rows, *cols).map(|()| Answer::Done),
            Command::Logs { session, tail, receipts: Some(true) } => {
                inner.receipts(session.as_deref(), *tail).map(|entries| Answer::Journal(Box::new(entries)))
            }
            Command::Logs { session: Some(session), tail, .. } => inner.logs(session, *tail).map(Answer::Logs),
            Command::Logs { session: None, .. } => {
                let message = "logs: missing field `session`; only receipts are shown of all sessions";
                Err(AppError::new(ErrorKind::Usage, message))
            }
            Command::Restart(request) => inner.restart(request, asker),
            Command::Stop(request) => inner.stop(request, asker).map(|receipt| Answer::Receipt(Box::new(receipt))),
            Command::Hold { session, release } => inner.hold(session, *release == Some(true)).map(Answer::Held),
            Command::Sweep(request) => inner.sweep(request, asker).map(|receipt| Answer::Receipt(Box::new(receipt))),
            Command::Orphans(request) => inner.orphans(request).map(|orphans| Answer::Orphans(Box::new(orphans))),
            Command::Adopt { tmux } => inner.adopt_tmux(tmux).map(Answer::Launched),
            Command::TmuxSessions {} => Ok(inner.tmux_sessions()),
            Command::Draft { session } => inner.draft(session).map(|draft| Answer::Draft(Box::new(draft))),
            Command::Save(request) => inner.save(request).map(Answer::Saved),
            Command::Extend { session, ceiling_s } => inner.extend(session, *ceiling_s).map(Answer::Extended),
            Command::Dismiss { session } => inner.dismiss_over(session).map(|()| Answer::Done),
            Command::Notify(request) => inner.notify(request).map(Answer::Noted),
            Command::Doctor {} => Ok(Answer::Doctor(inner.doctor(Vec::new()))),
            Command::Recipes {} => Ok(Answer::Recipes(inner.config().rows())),
            // The batch writes the events; there is nothing to carry out here.
            Command::Subscribe {} | Command::Quit {} => Ok(Answer::Done),
        }
    }

    /// Returns the lines of `doctor`; those that the start has `found` stand in the places of their names.
    pub fn doctor(&self, found: Vec<super::command::Check>) -> Vec<super::command::Check> {
        self.inner.doctor(found)
    }

    /// Returns a receiver of all events from now on.
    pub fn subscribe(&self) -> std::sync::mpsc::Receiver<hub::Numbered> {
        self.inner.hub.subscribe()
    }

    /// Nobody waits any more, and nothing is held; what is under way goes on.
    pub fn end_waits(&self) {
        self.inner.release_holds();
        self.inner.waits_over.store(true, Ordering::SeqCst);
        self.inner.changed();
    }

    /// Nothing is launched, nobody waits any more, and nothing is held. A stop that is under way is finished.
    pub fn interrupt(&self) {
        self.inner.release_holds();
        self.inner.closing.store(true, Ordering::SeqCst);
        self.inner.look_soon();
        self.inner.changed();
    }

    /// Says that this run ends and nobody looks any more, and why: what ends with it is told by the next start.
    pub fn set_unseen_end(&self, why: &'static str) {
        self.inner.unseen_end.set(why).ok();
    }

    /// Ends all subscriptions; what was published before still arrives.
    pub fn end_events(&self) {
        self.inner.hub.close();
    }

    /// Tears down every PTY session of this run; tmux sessions stay. Returns the receipts.
    pub fn close(&self) -> Vec<crate::lifecycle::receipt::Receipt> {
        self.interrupt();
        let receipts = self.inner.stop_owned();
        self.inner.write_unwritten();
        self.leave();
        receipts
    }

    /// Other managers reach us no more.
    pub fn leave(&self) {
        control::end(&self.inner);
    }

    /// Returns what `attach` executes: tmux on the right socket and session.
    ///
    /// # Errors
    /// When there is no such session, or it is not in tmux.
    pub fn attach(&self, session: &str) -> Result<Vec<std::ffi::OsString>, AppError> {
        self.inner.attach(session)
    }

    /// Says that the file of the directory is not used, where that is so.
    pub fn untrusted_note(&self) -> Option<String> {
        self.inner.config().untrusted.as_ref().map(Untrusted::note)
    }

    /// Returns the records that are left alone.
    pub fn quarantined(&self) -> Vec<Quarantined> {
        self.inner.lock().quarantined.clone()
    }

    /// Returns where the log of a session is, also of one that is gone.
    ///
    /// # Errors
    /// When there is no such session, or nobody writes its log.
    pub fn log_path(&self, session: &str) -> Result<PathBuf, AppError> {
        self.inner.log_path(session)
    }
}

impl Inner {
    /// Returns the configuration as it is now.
    fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> Vec<Arc<Session>> {
        let sessions = self.lock();
        sessions.order.iter().filter_map(|id| sessions.by_id.get(id).cloned()).collect()
    }

    fn add(&self, session: &Arc<Session>) {
        let mut sessions = self.lock();
        if sessions.by_id.insert(session.id.clone(), Arc::clone(session)).is_none() {
            sessions.order.push(session.id.clone());
        }
    }

    /// Finds a session by id, unique name or `$last`.
    fn find(&self, reference: &str) -> Result<Arc<Session>, AppError> {
        self.find_since(reference, tasks::ASKED)
    }

    /// Finds a session that is to be ended: of Cookbook's, the one that is there now.
    fn find_to_end(&self, reference: &str) -> Result<Arc<Session>, AppError> {
        self.find_since(reference, Duration::ZERO)
    }

    /// What is known of Cookbook's tasks is no older than this.
    fn find_since(&self, reference: &str, at_most: Duration) -> Result<Arc<Session>, AppError> {
        self.take_in();
        let is_ours = |session: &Arc<Session>| !session.state().borrowed;
        if reference != "$last" && !self.lock().by_id.get(reference).is_some_and(is_ours) {
            self.refresh_tasks(at_most);
        }
        let idle = self.idle_named(reference);
        let sessions = self.lock();
        if reference == "$last" {
            let Some(id) = &sessions.last else {
                return Err(not_found("no session was launched yet, so there is no $last"));
            };
            let last = sessions.by_id.get(id).cloned();
            return last.ok_or_else(|| not_found(format!("$last is {id}, which is no longer kept")));
        }
        if let Some(session) = sessions.by_id.get(reference) {
            return Ok(Arc::clone(session));
        }
        let is_named = |session: &&Arc<Session>| {
            let state = session.state();
            let task = state.tether.adoption.as_ref().and_then(|adoption| adoption.task.as_deref());
            state.tether.name == reference || task == Some(reference)
        };
        let named: Vec<&Arc<Session>> = sessions.by_id.values().filter(is_named).collect();
        let ids: Vec<&str> = named.iter().map(|session| &session.id).chain(&idle).map(String::as_str).collect();
        match named.as_slice() {
            [] if let Some(left) = sessions.quarantined.iter().find(|left| left.is_of(reference)) => {
                let message = format!("the record {} is left alone: {}", left.path.display(), left.reason);
                Err(AppError::new(ErrorKind::Refused, message))
            }
            [] if let Some(error) = self.only_queued(reference) => Err(error),
            _ if ids.len() > 1 => {
                let message = format!("{} sessions are named {reference:?}, namely {}", ids.len(), ids.join(", "));
                Err(AppError::new(ErrorKind::Usage, message))
            }
            [one, ..] => Ok(Arc::clone(one)),
            [] => Err(self.idle_task(reference).map_or_else(|| self.no_session(reference), |idle| idle.refusal())),
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "an event is told once, by whoever saw it")]
    fn publish(&self, event: Event) {
        self.hub.publish(&event);
        self.changed();
    }

    /// Wakes everybody who waits for something.
    fn changed(&self) {
        *self.changes.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changes.1.notify_all();
    }

    /// Sleeps for this long, whatever changes; the end of the run wakes it.
    fn sleep_at_most(&self, at_most: Duration) {
        let guard = self.changes.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changes.1.wait_timeout_while(guard, at_most, |_| !self.is_closing()));
    }

    /// Sleeps until something changed, at most this long.
    fn sleep(&self, at_most: Duration) {
        let guard = self.changes.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *guard;
        drop(self.changes.1.wait_timeout_while(guard, at_most, |now| *now == before));
    }

    /// Sleeps until `ready` says so; it is asked again after every change.
    fn sleep_until(&self, mut ready: impl FnMut() -> bool) {
        let guard = self.changes.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changes.1.wait_while(guard, |_| !ready()));
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Tells whether whoever waits is to be told that it comes to nothing.
    fn are_waits_over(&self) -> bool {
        self.is_closing() || self.waits_over.load(Ordering::SeqCst)
    }
}

fn not_found(message: impl Into<String>) -> AppError {
    AppError::new(ErrorKind::NotFound, message)
}
