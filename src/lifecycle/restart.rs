//! When a workload that failed runs again (`restart = "on-failure"`). Pure; its warden acts on it.
//!
//! A failure is what systemd.service(5) calls one: an exit status other than 0, or a signal other than HUP,
//! INT, TERM and PIPE, which people send. A stop is none either: it says so in the record.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::tether::ExitRecord;

/// Pause before the first restart; each one doubles it.
pub const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Restarts in a row after which the session is given up.
pub const ATTEMPTS: u32 = 8;
/// A run that lasted this long was healthy: the count begins anew.
pub const HEALTHY: Duration = Duration::from_secs(600);

/// Signals that somebody sends on purpose.
const ASKED_FOR: [&str; 4] = ["HUP", "INT", "TERM", "PIPE"];

/// What a tether holds of the restarts of its session; without it a session is not started again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Restarts {
    /// Restarts in a row: of this run, or of the one that is to come.
    pub attempt: u32,
    /// Seconds on `CLOCK_BOOTTIME` at which the run began; `None` for the first one.
    #[serde(default)]
    pub began: Option<f64>,
    /// How the run before ended.
    #[serde(default)]
    pub last_exit: Option<ExitRecord>,
    /// Seconds on `CLOCK_BOOTTIME` at which it runs again; `None` while it runs.
    #[serde(default)]
    pub next_at: Option<f64>,
    /// Why it is not started again any more.
    #[serde(default)]
    pub over: Option<String>,
}

/// What follows the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Next {
    /// It runs again.
    Again {
        /// Which restart in a row that is, from 1.
        attempt: u32,
        /// How long it pauses before.
        pause: Duration,
    },
    /// It stays ended: it did not fail.
    Fine,
    /// It stays ended although it failed, with the reason.
    GivenUp(String),
}

impl Restarts {
    /// Decides what follows a run of this length that ended so.
    pub fn after(&self, exit: &ExitRecord, ran: Duration) -> Next {
        if !exit.is_failure() {
            return Next::Fine;
        }
        let before = if ran >= HEALTHY { 0 } else { self.attempt };
        if before >= ATTEMPTS {
            return Next::GivenUp(format!("given up after {before} restarts"));
        }
        let doubled = FIRST_PAUSE.saturating_mul(1_u32.checked_shl(before).unwrap_or(u32::MAX));
        Next::Again { attempt: before + 1, pause: doubled.min(LONGEST_PAUSE) }
    }

    /// Says that it is not started again, whatever was to come. A reason that was given before stays.
    pub fn end(&mut self, why: &str) {
        self.over.get_or_insert_with(|| why.to_owned());
        self.next_at = None;
    }

    /// Returns how the run has ended that another one was to follow.
    pub fn in_pause(&self) -> Option<&ExitRecord> {
        self.last_exit.as_ref().filter(|_| self.next_at.is_some())
    }

    /// Tells in words where it stands, `now` in seconds on `CLOCK_BOOTTIME`; `None` where there is nothing to tell. No
    /// restart is told of a session that `is_over`.
    pub fn detail(&self, now: f64, is_over: bool) -> Option<String> {
        let how = self.last_exit.as_ref().map(ExitRecord::in_words).unwrap_or_default();
        let attempt = self.attempt;
        match (&self.over, self.next_at) {
            (Some(why), _) => Some(why.clone()),
            (None, Some(_)) if is_over => Some("not started again".into()),
            (None, None) if is_over => None,
            (None, Some(at)) => Some(format!("{how}; restart {attempt} of {ATTEMPTS} in {:.0} s", (at - now).max(0.0))),
            (None, None) if attempt > 0 => Some(format!("restart {attempt} of {ATTEMPTS}, after {how}")),
            (None, None) => None,
        }
    }
}

impl ExitRecord {
    /// Tells whether nobody asked for this end.
    pub fn is_failure(&self) -> bool {
        match (self.code, self.signal.as_deref()) {
            (Some(code), _) => code != 0,
            (None, Some(signal)) => !ASKED_FOR.contains(&signal),
            (None, None) => false,
        }
    }

    /// Says how it ended.
    pub fn in_words(&self) -> String {
        match (self.code, &self.signal) {
            (Some(code), _) => format!("exit status {code}"),
            (None, Some(signal)) => format!("ended by {signal}"),
            (None, None) => "its exit status is unknown".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(code: Option<i32>, signal: Option<&str>) -> ExitRecord {
        ExitRecord { code, signal: signal.map(Into::into), at: 1, emptied: false, address_space: None }
    }

    #[test]
    fn only_what_nobody_asked_for_is_a_failure() {
        for (code, signal, expected) in [
            (Some(0), None, false),
            (Some(1), None, true),
            (Some(127), None, true),
            (Some(143), None, true),
            (None, Some("SEGV"), true),
            (None, Some("KILL"), true),
            (None, Some("34"), true),
            (None, Some("TERM"), false),
            (None, Some("HUP"), false),
            (None, Some("INT"), false),
            (None, Some("PIPE"), false),
            (None, None, false),
        ] {
            assert_eq!(exit(code, signal).is_failure(), expected, "{code:?} {signal:?}");
        }
    }

    #[test]
    fn pauses_double_up_to_a_minute_and_end_after_eight() {
        let mut restarts = Restarts::default();
        let mut pauses = Vec::new();
        let failed = exit(Some(1), None);
        while let Next::Again { attempt, pause } = restarts.after(&failed, Duration::from_secs(1)) {
            assert_eq!(attempt, restarts.attempt + 1);
            pauses.push(pause.as_secs());
            restarts.attempt = attempt;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(
            restarts.after(&failed, HEALTHY),
            Next::Again { attempt: 1, pause: FIRST_PAUSE },
            "a healthy run forgets what was before it"
        );
        assert_eq!(restarts.after(&exit(Some(0), None), HEALTHY), Next::Fine);
    }

    #[test]
    fn a_count_of_nobody_does_not_overflow() {
        let restarts = Restarts { attempt: u32::MAX, ..Restarts::default() };
        assert!(matches!(restarts.after(&exit(Some(1), None), Duration::ZERO), Next::GivenUp(_)));
    }

    #[test]
    fn where_it_stands_is_said() {
        let mut restarts = Restarts::default();
        assert_eq!(restarts.detail(5.0, false), None);
        (restarts.attempt, restarts.last_exit, restarts.next_at) = (2, Some(exit(None, Some("SEGV"))), Some(9.0));
        assert_eq!(restarts.detail(5.0, false).as_deref(), Some("ended by SEGV; restart 2 of 8 in 4 s"));
        assert_eq!(restarts.in_pause(), Some(&exit(None, Some("SEGV"))));
        assert_eq!(restarts.detail(5.0, true).as_deref(), Some("not started again"));
        let mut ended = restarts.clone();
        restarts.next_at = None;
        assert_eq!(restarts.detail(5.0, false).as_deref(), Some("restart 2 of 8, after ended by SEGV"));
        assert_eq!((restarts.detail(5.0, true), restarts.in_pause()), (None, None));
        for why in ["given up", "stopped"] {
            ended.end(why);
            let detail = ended.detail(5.0, true);
            assert_eq!((detail.as_deref(), ended.next_at), (Some("given up"), None), "the first reason stays");
        }
    }
}
