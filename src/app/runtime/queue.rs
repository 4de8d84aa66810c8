//! Launches that are under way: one that waits for others is shown as `queued`, can be waited for, and called off.
//! It has no record before it begins, so other managers do not see it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Inner;
use super::session::Session;
use crate::app::command::StopRequest;
use crate::app::contract::{HostKind, Kind, LaunchRequest, Phase, SessionRow};
use crate::app::error::{AppError, ErrorKind};
use crate::app::event::Event;
use crate::lifecycle::receipt::Receipt;

/// How often a queue is looked at that nobody tells of.
const POLL: Duration = Duration::from_millis(50);

/// A launch from its first check to its session.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) host: HostKind,
    /// Name of the recipe, where there is one.
    pub(super) origin: Option<String>,
    /// The masked command line.
    pub(super) command: String,
    pub(super) cwd: String,
    /// What is to be launched.
    pub(super) request: LaunchRequest,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// For whom it waits, in words; `None` while it waits for nobody.
    waits: Option<String>,
    called_off: bool,
    /// It has left the queue: as a session, or with the reason why not.
    outcome: Option<Result<(), AppError>>,
}

impl Queued {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what came of it, once it has left the queue.
    pub(super) fn outcome(&self) -> Option<Result<(), AppError>> {
        self.state().outcome.clone()
    }

    /// Tells whether somebody has stopped it.
    pub(super) fn is_called_off(&self) -> bool {
        self.state().called_off
    }

    fn row(&self) -> SessionRow {
        SessionRow {
            detail: self.state().waits.clone(),
            command: self.command.clone(),
            cwd: Some(self.cwd.clone()),
            ..SessionRow::without_processes(&self.id, &self.name, self.kind, self.host, Phase::Queued)
        }
    }
}

/// What a queue entry is made of.
pub(super) struct Entry<'a> {
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    pub(super) kind: Kind,
    pub(super) host: HostKind,
    pub(super) origin: Option<&'a str>,
    pub(super) command: String,
    pub(super) cwd: String,
}

impl Inner {
    fn queue(&self) -> MutexGuard<'_, Vec<Arc<Queued>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn enqueue(&self, entry: Entry<'_>, request: &LaunchRequest) -> Arc<Queued> {
        let queued = Arc::new(Queued {
            id: entry.id.to_owned(),
            name: entry.name.to_owned(),
            kind: entry.kind,
            host: entry.host,
            origin: entry.origin.map(str::to_owned),
            command: entry.command,
            cwd: entry.cwd,
            request: request.clone(),
            state: Mutex::default(),
        });
        self.queue().push(Arc::clone(&queued));
        queued
    }

    /// Takes a launch out of the queue. Its session, if it came to one, is known by then.
    pub(super) fn dequeue(&self, queued: &Arc<Queued>, outcome: Result<(), AppError>) {
        let told = {
            let mut state = queued.state();
            let error = outcome.as_ref().err().map(|error| error.message.clone());
            let told = error.filter(|_| state.waits.is_some());
            state.outcome = Some(outcome);
            told
        };
        self.queue().retain(|other| !Arc::ptr_eq(other, queued));
        if let Some(error) = told {
            self.publish(Event::Phase { session: queued.id.clone(), phase: Phase::Failed, detail: Some(error) });
        }
        self.changed();
    }

    /// Says for whom a launch waits.
    pub(super) fn say_waits(&self, queued: &Queued, waits: String) {
        {
            let mut state = queued.state();
            if state.waits.as_ref() == Some(&waits) {
                return;
            }
            state.waits = Some(waits.clone());
        }
        self.publish(Event::Phase { session: queued.id.clone(), phase: Phase::Queued, detail: Some(waits) });
    }

    /// Returns the rows of the launches that wait.
    pub(super) fn queued_rows(&self) -> Vec<SessionRow> {
        let waiting = self.queue().clone();
        waiting.iter().filter(|queued| queued.state().waits.is_some()).map(|queued| queued.row()).collect()
    }

    /// Returns the launch of an id or a unique name that is under way.
    fn queued(&self, reference: &str) -> Option<Arc<Queued>> {
        let queue = self.queue();
        if let Some(queued) = queue.iter().find(|queued| queued.id == reference) {
            return Some(Arc::clone(queued));
        }
        let mut named = queue.iter().filter(|queued| queued.name == reference);
        named.next().filter(|_| named.next().is_none()).cloned()
    }

    /// Returns the launch that a reference means, where it means no session.
    pub(super) fn only_coming(&self, reference: &str) -> Option<Arc<Queued>> {
        let is_known = {
            let sessions = self.lock();
            let names = |session: &Arc<Session>| session.state().tether.name == reference;
            reference == "$last" || sessions.by_id.contains_key(reference) || sessions.by_id.values().any(names)
        };
        if is_known { None } else { self.queued(reference) }
    }

    /// Returns the launch of a recipe, or of this name, that is under way.
    pub(super) fn coming(&self, recipe: &str) -> Option<Arc<Queued>> {
        let is_it = |queued: &&Arc<Queued>| queued.origin.as_deref() == Some(recipe) || queued.name == recipe;
        self.queue().iter().find(is_it).cloned()
    }

    /// Returns why nothing can be done yet with a launch that waits.
    pub(super) fn only_queued(&self, reference: &str) -> Option<AppError> {
        let queued = self.queued(reference)?;
        let waits = queued.state().waits.clone()?;
        let message = format!("{} is queued: {waits}; `stop` calls it off", queued.id);
        Some(AppError::new(ErrorKind::Refused, message))
    }

    /// Calls a launch off that waits; `None` where there is none. Nobody is signalled: there is nobody yet.
    pub(super) fn call_off(&self, request: &StopRequest) -> Option<Receipt> {
        let queued = self.only_coming(&request.session)?;
        let dry_run = request.dry_run == Some(true);
        {
            let mut state = queued.state();
            state.waits.as_ref()?;
            state.called_off |= !dry_run;
        }
        self.changed();
        Some(Receipt {
            session: queued.id.clone(),
            host: queued.host.name().into(),
            dead: Some(true),
            host_closed: true,
            notes: vec!["it was queued and had no process yet".into()],
            plan: dry_run.then(Vec::new),
            ..Receipt::default()
        })
    }

    /// Waits until a launch has left the queue, where there is one of that name.
    ///
    /// # Errors
    /// When it came to nothing, or the time is up.
    pub(super) fn await_turn(
        &self,
        reference: &str,
        until: Option<Instant>,
        wanted: &dyn Fn() -> bool,
    ) -> Result<(), AppError> {
        let Some(queued) = self.only_coming(reference) else { return Ok(()) };
        loop {
            if let Some(outcome) = queued.outcome() {
                return outcome;
            }
            let waits = queued.state().waits.clone().unwrap_or_default();
            if self.are_waits_over() || !wanted() {
                return Err(AppError::new(
                    ErrorKind::Failed,
                    format!("{} is queued: cookbook-tui is ending", queued.id),
                ));
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Err(AppError::new(ErrorKind::Timeout, format!("{} is queued: {waits}", queued.id)));
            }
            self.sleep(POLL);
        }
    }
}
