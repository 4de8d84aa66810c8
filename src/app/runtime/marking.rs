//! Marks Cookbook's tasks as stopped: only after a stop that succeeded, and while nothing runs in their name.

use super::Inner;
use crate::app::cookbook::file::Unwritable;
use crate::app::cookbook::state::Change;
use crate::app::error::{AppError, ErrorKind};
use crate::lifecycle::receipt::Receipt;
use crate::lifecycle::tether::Tether;

impl Inner {
    /// Makes sure, before the first signal, that a task can be marked afterwards.
    pub(super) fn check_task(&self, tether: &Tether) -> Result<(), AppError> {
        let is_task = tether.adoption.as_ref().is_some_and(|adoption| adoption.task.is_some());
        if is_task { self.check_state_file() } else { Ok(()) }
    }

    pub(super) fn check_state_file(&self) -> Result<(), AppError> {
        let Some(cookbook) = &self.cookbook else { return Ok(()) };
        cookbook.file.check_writable().map_err(|reason| {
            let way_out = match &reason {
                // It says what to do itself.
                Unwritable::Locked(_) => "nothing was signalled",
                Unwritable::Unusable(_) => {
                    "nothing was signalled; mend it, or leave out [cookbook] data_dir and adopt its tmux session"
                }
            };
            AppError::new(ErrorKind::State, format!("{reason}: {way_out}"))
        })
    }

    /// Marks the task of a session that was stopped, and says the same things as Cookbook does.
    pub(super) fn mark_task(&self, tether: &Tether, receipt: &mut Receipt) {
        let Some(task) = tether.adoption.as_ref().and_then(|adoption| adoption.task.as_deref()) else { return };
        receipt.notes.extend(counted(receipt));
        receipt.notes.push(if is_stopped(receipt) {
            self.mark(task)
        } else {
            "Cookbook's task is not marked as stopped, because not everything of it is known to be dead".into()
        });
    }

    /// Marks a task, unless a tmux session of its name is there: Cookbook starts one again by itself. Returns what
    /// became of it.
    pub(super) fn mark(&self, session: &str) -> String {
        let Some(cookbook) = &self.cookbook else {
            return "Cookbook's task is not marked as stopped: no data_dir is configured any more".into();
        };
        if self.is_in_tmux(session) {
            return "Cookbook's task is not marked as stopped: a tmux session of its name has been started again"
                .into();
        }
        match cookbook.file.mark_stopped(session) {
            Ok(Change::Text(_)) => "Cookbook's task is marked as stopped".into(),
            Ok(Change::Over(status)) => format!("Cookbook's task keeps its status: {status}"),
            Ok(Change::Missing) => "Cookbook has removed the task: nothing is marked".into(),
            Err(reason) => format!("Cookbook's task is not marked as stopped: {reason}"),
        }
    }
}

/// Tells whether a stop succeeded: its host is closed, and nobody is known or feared to be left. One that could not
/// look is a stop all the same.
fn is_stopped(receipt: &Receipt) -> bool {
    receipt.host_closed
        && receipt.dead != Some(false)
        && receipt.survivors.is_empty()
        && receipt.refused.is_empty()
        && receipt.unverified.is_empty()
}

/// Says in Cookbook's words what a stop left.
fn counted(receipt: &Receipt) -> Vec<String> {
    let [survived, unverified, alike] = [receipt.survivors.len(), receipt.unverified.len(), receipt.lookalikes.len()];
    [
        (survived, format!("{survived} survived SIGKILL and are still running")),
        (unverified, format!("{unverified} could not be re-identified and were not signalled")),
        (
            alike,
            format!(
                "{alike} other process(es) match this server's command line - not signalled, because nothing identifies them as started by this session"
            ),
        ),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(_, note)| note)
    .collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::lifecycle::identity::Pid;
    use crate::lifecycle::receipt::Refused;

    #[test]
    fn only_a_stop_that_left_nobody_is_one() {
        let whole = Receipt { dead: Some(true), host_closed: true, ..Receipt::default() };
        let pid = || Pid::new(7).unwrap();
        assert!(is_stopped(&whole));
        assert!(is_stopped(&Receipt { dead: None, ..whole.clone() }), "it could not look");
        for not in [
            Receipt { dead: Some(false), ..whole.clone() },
            Receipt { host_closed: false, ..whole.clone() },
            Receipt { survivors: vec![pid()], ..whole.clone() },
            Receipt { dead: None, unverified: vec![pid()], ..whole.clone() },
            Receipt { refused: vec![Refused { pid: pid(), reason: String::new() }], ..whole.clone() },
        ] {
            assert!(!is_stopped(&not), "{not:?}");
        }
        assert_eq!(counted(&whole), Vec::<String>::new());
        let notes = counted(&Receipt { survivors: vec![pid(), pid()], unverified: vec![pid()], ..whole });
        assert_eq!(
            notes,
            ["2 survived SIGKILL and are still running", "1 could not be re-identified and were not signalled"]
        );
    }
}
