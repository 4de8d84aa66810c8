//! `needs` and `autostart`: a launch waits until what it needs is ready, and starts what is not there.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::queue::Queued;
use super::session::Session;
use super::{Inner, Runtime};
use crate::app::command::WaitFor;
use crate::app::contract::{HostKind, LaunchRequest, Phase};
use crate::app::error::{AppError, ErrorKind};
use crate::lifecycle::store::lock_file;
use crate::text;

/// How often those that are waited for are looked at.
const POLL: Duration = Duration::from_millis(50);

/// Somebody who is needed.
enum Needed {
    /// It is there.
    Session(Arc<Session>),
    /// It is being launched, and may itself wait.
    Coming(Arc<Queued>),
}

impl Inner {
    /// Waits until everybody that a launch needs is ready. Returns what was started for it, in words.
    ///
    /// # Errors
    /// As soon as one of them fails, or cannot come to be ready; or when the launch is called off.
    pub(super) fn await_needs(self: &Arc<Self>, own: &Queued, needs: &[String]) -> Result<Vec<String>, AppError> {
        let mut notes = Vec::new();
        let mut awaited = Vec::new();
        for need in needs {
            self.say_waits(own, format!("waits for {}", text::escape(need)));
            let found =
                self.provide(need, Some(own.host), &|| self.may_wait(own)).map_err(|error| because(need, &error))?;
            let (needed, started) = found;
            if let (Needed::Session(session), true) = (&needed, started) {
                notes.push(format!("started {} ({}), which it needs", text::escape(need), session.id));
            }
            awaited.push((need, needed));
        }
        loop {
            self.may_go_on(own)?;
            let mut waits = Vec::new();
            for (need, needed) in &mut awaited {
                if let Some(how) = self.lacks(need, needed).map_err(|error| because(need, &error))? {
                    waits.push(format!("{} ({how})", text::escape(need)));
                }
            }
            if waits.is_empty() {
                return Ok(notes);
            }
            self.may_wait(own)?;
            self.say_waits(own, format!("waits for {}", waits.join(", ")));
            self.sleep_at_most(POLL);
        }
    }

    fn may_go_on(&self, own: &Queued) -> Result<(), AppError> {
        if own.is_called_off() {
            return Err(AppError::new(ErrorKind::Refused, format!("{} was stopped while it was queued", own.id)));
        }
        if self.is_closing() { Err(ending()) } else { Ok(()) }
    }

    fn may_wait(&self, own: &Queued) -> Result<(), AppError> {
        self.may_go_on(own)?;
        if self.are_waits_over() { Err(ending()) } else { Ok(()) }
    }

    /// Returns how far somebody who is needed has come, `None` where it is ready.
    fn lacks(&self, need: &str, needed: &mut Needed) -> Result<Option<&'static str>, AppError> {
        if let Needed::Coming(queued) = needed {
            match queued.outcome() {
                None => return Ok(Some(Phase::Queued.name())),
                Some(Err(error)) => return Err(error),
                Some(Ok(())) => *needed = Needed::Session(self.find(&queued.id)?),
            }
        }
        let Needed::Session(session) = needed else { return Ok(None) };
        if self.come_true(session, WaitFor::Ready, None)?.is_some() {
            return Ok(None);
        }
        let (phase, _) = session.phase();
        if phase == Phase::Stopping {
            return Err(AppError::new(ErrorKind::Failed, format!("{need} is being stopped")));
        }
        Ok(Some(phase.name()))
    }

    /// Finds a session of a recipe or of this name, or launches the recipe; tells whether it was launched here. Of
    /// those who ask at the same time one launches it. On a host that was asked for it lives there: who is needed
    /// must live as long as who needs it.
    fn provide(
        self: &Arc<Self>,
        need: &str,
        host: Option<HostKind>,
        may_go_on: &dyn Fn() -> Result<(), AppError>,
    ) -> Result<(Needed, bool), AppError> {
        loop {
            {
                let mut providing = self.providing.lock().unwrap_or_else(PoisonError::into_inner);
                if !providing.contains(need) {
                    if let Some(session) = self.alive(need) {
                        return Ok((Needed::Session(session), false));
                    }
                    if let Some(queued) = self.coming(need) {
                        return Ok((Needed::Coming(queued), false));
                    }
                    if self.config().recipe(need).is_none() {
                        let message = "it neither runs nor is a recipe; start it, or correct `needs`";
                        return Err(AppError::new(ErrorKind::Failed, message));
                    }
                    providing.insert(need.to_owned());
                    break;
                }
            }
            may_go_on()?;
            self.sleep_at_most(POLL);
        }
        let _turn = Turn { inner: self, need };
        let host = host.filter(|host| *host == HostKind::Tmux);
        let request = LaunchRequest { recipe: Some(need.to_owned()), host, ..LaunchRequest::default() };
        let launched = self.launch(&request)?;
        Ok((Needed::Session(self.find(&launched.session)?), true))
    }

    /// Returns a session of a recipe or of this name that has not ended; one that is ready before one that is not.
    fn alive(&self, need: &str) -> Option<Arc<Session>> {
        self.take_in();
        let is_it = |session: &Arc<Session>| {
            let state = session.state();
            state.tether.origin.as_deref() == Some(need) || state.tether.name == need
        };
        let mut found: Vec<Arc<Session>> = self.all().into_iter().filter(is_it).collect();
        found.iter().filter(|session| !session.state().settled).for_each(|session| self.sample_one(session));
        found.retain(|session| {
            let phase = session.phase().0;
            !phase.is_over() && phase != Phase::Stopping && !session.state().settled
        });
        let ready = found.iter().position(|session| matches!(session.phase().0, Phase::Ready | Phase::Idle));
        let last = found.len().checked_sub(1);
        ready.or(last).map(|index| found.swap_remove(index))
    }
}

/// One launch of somebody who is needed.
struct Turn<'a> {
    inner: &'a Inner,
    need: &'a str,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.inner.providing.lock().unwrap_or_else(PoisonError::into_inner).remove(self.need);
        self.inner.changed();
    }
}

/// Why nothing is launched any more.
pub(super) fn ending() -> AppError {
    AppError::new(ErrorKind::Refused, "cookbook-tui is ending; nothing is launched any more")
}

fn because(need: &str, error: &AppError) -> AppError {
    // That it was called off, or that we are ending, is nobody else's failure.
    if error.kind == ErrorKind::Refused {
        return error.clone();
    }
    let message = format!("nothing was launched: it needs {}: {}", text::escape(need), error.message);
    AppError::new(ErrorKind::Failed, message)
}

impl Runtime {
    /// Launches the recipes with `autostart` of which no session is alive; what could not be launched is told. Of
    /// several screens that open at once, one does it.
    pub fn autostart(&self, tell: &(dyn Fn(String) + Sync)) {
        let inner = &self.inner;
        let config = inner.config();
        let names: BTreeSet<&str> =
            config.recipes.iter().filter(|recipe| recipe.autostart).map(|recipe| recipe.name.as_str()).collect();
        if names.is_empty() {
            return;
        }
        let Ok(_lock) = lock_file(&inner.paths.state_dir.join("autostart.lock"), Duration::ZERO) else { return };
        // Each waits for those it needs, in whatever order they come.
        std::thread::scope(|scope| {
            for name in names {
                scope.spawn(move || {
                    if let Err(error) = inner.provide(name, None, &|| Ok(())) {
                        tell(format!("{} was not started: {}", text::escape(name), text::escape(&error.message)));
                    }
                });
            }
        });
    }
}
