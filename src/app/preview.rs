//! From a command that signals to its preview, and from what the preview showed to the confirmed command: what the
//! plain face and the subcommands have in common. Pure.

use super::command::{Answer, Command, OrphansRequest, RestartRequest, StopRequest, SweepRequest};
use crate::lifecycle::identity::Identity;
use crate::lifecycle::receipt::{PlanRow, Receipt};

/// Returns the command that tells what a command would do; `None` where it signals nobody.
pub(super) fn rehearsal(command: &Command) -> Option<Command> {
    let dry_run = Some(true);
    #[expect(clippy::wildcard_enum_match_arm, reason = "only these signal")]
    match command {
        Command::Stop(stop) if stop.dry_run != dry_run => Some(Command::Stop(StopRequest { dry_run, ..stop.clone() })),
        Command::Restart(of) if of.dry_run != dry_run => {
            Some(Command::Restart(RestartRequest { dry_run, ..of.clone() }))
        }
        Command::Sweep(of) if of.dry_run != dry_run => Some(Command::Sweep(SweepRequest { dry_run, ..of.clone() })),
        Command::Orphans(of) if of.reap == Some(true) && of.dry_run != dry_run => {
            Some(Command::Orphans(OrphansRequest { dry_run, ..of.clone() }))
        }
        _ => None,
    }
}

/// Returns the plans in the answer to a rehearsal.
pub(super) fn plans(answer: &Answer) -> Vec<&Receipt> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "only these plan")]
    match answer {
        Answer::Receipt(receipt) => vec![receipt],
        Answer::Orphans(orphans) => orphans.swept.iter().collect(),
        _ => Vec::new(),
    }
}

/// Returns whom plans would signal.
pub(super) fn targets(plans: &[&Receipt]) -> Vec<Identity> {
    let rows = plans.iter().filter_map(|receipt| receipt.plan.as_ref()).flatten();
    let identity = |row: &PlanRow| Some(Identity { pid: row.pid, token: row.start_token.clone()?, pidfd_inode: None });
    rows.filter(|row| row.signal.is_some()).filter_map(identity).collect()
}

/// Returns the command that signals nobody else than was shown.
pub(super) fn confirmed(mut command: Command, targets: Vec<Identity>) -> Command {
    let confirm = match &mut command {
        Command::Stop(of) => &mut of.confirm,
        Command::Restart(of) => &mut of.confirm,
        Command::Sweep(of) => &mut of.confirm,
        Command::Orphans(of) if of.reap == Some(true) => &mut of.confirm,
        Command::Hello {}
        | Command::Launch(_)
        | Command::Wait(_)
        | Command::List { .. }
        | Command::Tree { .. }
        | Command::Why { .. }
        | Command::Screen { .. }
        | Command::Send { .. }
        | Command::Resize { .. }
        | Command::Hold { .. }
        | Command::Logs { .. }
        | Command::Orphans(_)
        | Command::Adopt { .. }
        | Command::Extend { .. }
        | Command::Dismiss { .. }
        | Command::Notify(_)
        | Command::Doctor {}
        | Command::Recipes {}
        | Command::TmuxSessions {}
        | Command::Draft { .. }
        | Command::Save(_)
        | Command::Subscribe {}
        | Command::Quit {} => return command,
    };
    *confirm = Some(targets);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_signals_is_rehearsed_and_a_rehearsal_is_not() {
        let stop =
            StopRequest { session: "a".into(), force: Some(true), dry_run: Some(false), ..StopRequest::default() };
        let reap = OrphansRequest { reap: Some(true), ..OrphansRequest::default() };
        for command in [
            Command::Stop(stop),
            Command::Restart(RestartRequest { session: "a".into(), ..RestartRequest::default() }),
            Command::Sweep(SweepRequest::default()),
            Command::Orphans(reap),
        ] {
            let rehearsed = rehearsal(&command);
            assert!(rehearsed.is_some(), "{command:?}");
            assert_eq!(rehearsed.as_ref().and_then(rehearsal), None, "{command:?}");
            assert_ne!(confirmed(command.clone(), Vec::new()), command);
        }
        for command in [Command::Doctor {}, Command::Orphans(OrphansRequest::default()), Command::Quit {}] {
            assert_eq!(rehearsal(&command), None);
            assert_eq!(confirmed(command.clone(), Vec::new()), command);
        }
    }
}
