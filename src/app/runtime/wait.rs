//! Waiting until a session has come to something, or can no longer come to it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use regex::Regex;

use super::Inner;
use super::session::Session;
use crate::app::command::{WaitFor, WaitRequest, Waited};
use crate::app::contract::{HostKind, Phase};
use crate::app::error::{AppError, ErrorKind};
use crate::lifecycle::verdict::VerdictKind;

/// Why somebody waits no more.
pub(super) const ENDING: &str = "cookbook-tui is ending";
/// How often something is looked at that nobody tells us of.
const POLL: Duration = Duration::from_millis(50);
/// How often tmux is asked what a session has printed.
const ASK_TMUX: Duration = Duration::from_millis(150);

impl Inner {
    pub(super) fn wait(&self, request: &WaitRequest) -> Result<Waited, AppError> {
        self.wait_while(request, &|| true)
    }

    /// Waits for as long as somebody wants to know.
    pub(super) fn wait_while(&self, request: &WaitRequest, wanted: &dyn Fn() -> bool) -> Result<Waited, AppError> {
        let until = match request.timeout_s {
            None => None,
            Some(seconds) if seconds.is_finite() && seconds >= 0.0 => {
                // A time that does not fit on the clock is as good as none.
                Instant::now().checked_add(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
            }
            Some(seconds) => {
                return Err(AppError::new(
                    ErrorKind::Usage,
                    format!("timeout_s is {seconds:?}: it must be a number of seconds from 0"),
                ));
            }
        };
        self.await_turn(&request.session, until, wanted)?;
        let session = self.find(&request.session)?;
        let pattern = match (request.what, &request.regex) {
            (WaitFor::Output, Some(pattern)) => {
                let compiled = regex::RegexBuilder::new(pattern).multi_line(true).build();
                Some(compiled.map_err(|error| AppError::new(ErrorKind::Usage, format!("regex: {error}")))?)
            }
            (WaitFor::Output, None) => return Err(AppError::new(ErrorKind::Usage, "waiting for output needs a regex")),
            (_, Some(_)) => return Err(AppError::new(ErrorKind::Usage, "regex goes with \"for\": \"output\" only")),
            (_, None) => None,
        };
        loop {
            if let Some(waited) = self.come_true(&session, request.what, pattern.as_ref())? {
                return Ok(waited);
            }
            if self.are_waits_over() || !wanted() {
                return Err(failed(&session, ENDING));
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                // A server that cannot be asked says nothing of an end.
                self.look_at_servers(std::slice::from_ref(&session));
                let (phase, detail) = session.phase();
                let detail = detail.map(|detail| format!(" ({detail})")).unwrap_or_default();
                let message =
                    format!("{} is {}{detail} after {} s", session.id, phase.name(), request.timeout_s.unwrap_or(0.0));
                return Err(AppError::new(ErrorKind::Timeout, message));
            }
            let pause = if request.what == WaitFor::Output && session.host == HostKind::Tmux { ASK_TMUX } else { POLL };
            self.sleep(left.map_or(pause, |left| left.min(pause)));
        }
    }

    /// Looks once; `Ok(None)` while it may still come true.
    pub(super) fn come_true(
        &self,
        session: &Arc<Session>,
        what: WaitFor,
        pattern: Option<&Regex>,
    ) -> Result<Option<Waited>, AppError> {
        self.refresh_exit(session);
        match what {
            WaitFor::Ready => {
                self.look_at_phase(session);
                match session.phase() {
                    (Phase::Ready | Phase::Idle, _) => Ok(Some(waited(session, None))),
                    (phase, detail) if phase.is_over() => Err(failed(session, &detail.unwrap_or_default())),
                    (Phase::Running | Phase::Downloading, _) if !session.has_readiness() => {
                        Err(failed(session, "no readiness is known of it"))
                    }
                    (_, _) => Ok(None),
                }
            }
            WaitFor::Exit => Ok(session.phase().0.is_over().then(|| waited(session, None))),
            WaitFor::Gone => {
                let settled = session.state().settled;
                if !settled {
                    self.sample_one(session);
                }
                let state = session.state();
                let alive = state.sample.rows.values().any(|sampled| sampled.row.verdict != VerdictKind::Gone);
                let gone = settled
                    || (state.phase().0.is_over() && !alive && state.sample.unbound.is_empty() && !state.sample.blind);
                drop(state);
                Ok(gone.then(|| waited(session, None)))
            }
            WaitFor::Output => {
                // Asked before the last read: what was printed before the end is in it.
                let over = session.phase().0.is_over();
                if over && session.host == HostKind::Tmux {
                    // tmux reads the last words of a pane in its own time, and so does the writer of the log.
                    std::thread::sleep(ASK_TMUX);
                }
                let printed = match self.printed(session) {
                    Ok(printed) => printed,
                    // The terminal is gone; the log has what it printed.
                    Err(error) => {
                        self.refresh_exit(session);
                        if !session.phase().0.is_over() {
                            return Err(error);
                        }
                        self.logs(&session.id, None)?.join("\n")
                    }
                };
                if let Some(found) = pattern.and_then(|pattern| pattern.find(&printed)) {
                    return Ok(Some(waited(session, Some(found.as_str().to_owned()))));
                }
                if over { Err(failed(session, "it ended without printing that")) } else { Ok(None) }
            }
        }
    }

    /// A run without the watching thread, or a session of an earlier run, learns of an end here.
    fn refresh_exit(&self, session: &Arc<Session>) {
        if session.state().over || session.state().settled {
            return;
        }
        let stale = session.state().sample.at.is_none_or(|at| at.elapsed() > Duration::from_millis(200));
        if stale {
            self.sample_one(session);
        }
    }
}

fn waited(session: &Arc<Session>, matched: Option<String>) -> Waited {
    let (phase, _) = session.phase();
    let state = session.state();
    Waited {
        phase,
        exit_code: state.exit.as_ref().and_then(|exit| exit.code),
        signal: state.exit.as_ref().and_then(|exit| exit.signal.clone()),
        matched,
    }
}

fn failed(session: &Arc<Session>, why: &str) -> AppError {
    let (phase, detail) = session.phase();
    let more = detail.filter(|detail| detail != why).map(|detail| format!(", {detail}")).unwrap_or_default();
    let way_out = session.state().diagnosis.as_ref().and_then(|diagnosis| diagnosis.suggestion.clone());
    let way_out = way_out.map(|suggestion| format!("; {}", suggestion.text)).unwrap_or_default();
    let verb = if phase.is_over() { "has" } else { "is" };
    let why = if why.is_empty() { "there is nothing to wait for any more" } else { why };
    AppError::new(ErrorKind::Failed, format!("{} {verb} {}{more}: {why}{way_out}", session.id, phase.name()))
}
