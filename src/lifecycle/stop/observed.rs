//! What a stop observed, as the rows of its receipt.

use super::Total;
use crate::lifecycle::authority::verify;
use crate::lifecycle::identity::Identity;
use crate::lifecycle::inspect::{Inspector, Listener, PortOwner, Unreadable, owner_at, ports_of, share};
use crate::lifecycle::kill::{Existence, probe};
use crate::lifecycle::receipt::{Outcome, OutcomeKind, Receipt, Refused, StillHeld, Via};
use crate::lifecycle::rows::{LEFT_THE_TREE, bystander, known_command_of, lookalikes};
use crate::lifecycle::teardown::State;
use crate::lifecycle::tree::{Fate, Member};
use crate::lifecycle::verdict::VerdictKind;

const UNSETTLED: &str =
    "the process table never stood still: somebody is born and gone faster than anybody can look, and may be left";

/// Turns what was observed into the receipt's rows.
pub(super) fn settle(receipt: &mut Receipt, result: &Total, blind: bool, inspector: &Inspector) {
    for (identity, state) in &result.targets {
        let (outcome, reason) = match state {
            State::Exited => (OutcomeKind::Exited, None),
            State::AlreadyGone => (OutcomeKind::AlreadyGone, None),
            State::Denied(outcome, reason) => (*outcome, Some(reason.clone())),
            State::Alive { blocked: Some(reason), .. } => (OutcomeKind::Survived, Some(reason.clone())),
            State::Alive { .. } if result.timed_out => {
                (OutcomeKind::Survived, Some("alive when the time of the stop was up".into()))
            }
            State::Alive { .. } => (OutcomeKind::Survived, Some("alive after KILL".into())),
        };
        match outcome {
            OutcomeKind::Survived => receipt.survivors.push(identity.pid),
            OutcomeKind::Unverifiable => receipt.unverified.push(identity.pid),
            OutcomeKind::Refused => {
                receipt.refused.push(Refused { pid: identity.pid, reason: reason.clone().unwrap_or_default() });
            }
            OutcomeKind::Exited | OutcomeKind::Foreign | OutcomeKind::Kept | OutcomeKind::AlreadyGone => {}
        }
        let command = result.members.get(identity).map(known_command_of).filter(|command| !command.is_empty());
        receipt.outcomes.push(Outcome {
            pid: identity.pid,
            start_token: Some(identity.token.clone()),
            command,
            outcome,
            reason,
        });
    }
    let mut unbound: Vec<&Unreadable> = result.unbound.iter().collect();
    unbound.sort_by_key(|error| error.pid);
    unbound.dedup_by_key(|error| error.pid);
    for error in unbound {
        // What could not be read at the capture may have ended, or become readable, since.
        let known = result.targets.keys().any(|identity| identity.pid == error.pid);
        if known || probe(error.pid) == Existence::Absent {
            continue;
        }
        let reason = Some(error.reason.clone());
        receipt.unverified.push(error.pid);
        receipt.outcomes.push(Outcome {
            pid: error.pid,
            start_token: None,
            command: None,
            outcome: OutcomeKind::Unverifiable,
            reason,
        });
    }
    let alive = result.members.values().filter(|member| {
        member.fate != Fate::End && verify(member.pinned.identity(), inspector).kind != VerdictKind::Gone
    });
    fill_beside(receipt, alive, inspector);
    receipt.signals.clone_from(&result.signals);
    receipt.escalated = result.escalated;
    if result.timed_out {
        receipt.notes.push("the time of the stop was up before its end".into());
    }
    if result.signals.iter().any(|sent| sent.via == Via::Kill) {
        receipt
            .notes
            .push("no signals through pidfds here: each process was verified immediately before kill(2)".into());
    }
    let alive = !receipt.survivors.is_empty() || !receipt.refused.is_empty();
    if result.unsettled && !blind {
        receipt.notes.push(UNSETTLED.into());
    }
    let unknown = result.unsettled || !receipt.unverified.is_empty();
    receipt.dead = match (blind, alive, !unknown) {
        (true, _, _) | (false, false, false) => None,
        (false, true, _) => Some(false),
        (false, false, true) => Some(true),
    };
    if !blind {
        receipt.lookalikes = lookalikes(result.members.values(), inspector);
    }
}

/// Adds those who are gone and of whom nothing is said yet: they were so before this stop could find them. `known` says
/// from where they are known.
pub(in crate::lifecycle) fn tell_gone(
    outcomes: &mut Vec<Outcome>,
    identities: &[Identity],
    known: &str,
    judge: impl Fn(&Identity) -> VerdictKind,
) {
    for identity in identities {
        if outcomes.iter().any(|row| row.pid == identity.pid && row.start_token.as_ref() == Some(&identity.token)) {
            continue;
        }
        let reason = match judge(identity) {
            VerdictKind::Gone => format!("{known}, and gone before it was looked for"),
            VerdictKind::Foreign => format!("{known}; its pid names another process now"),
            VerdictKind::Owned | VerdictKind::Unverifiable => continue,
        };
        outcomes.push(Outcome {
            pid: identity.pid,
            start_token: Some(identity.token.clone()),
            command: None,
            outcome: OutcomeKind::AlreadyGone,
            reason: Some(reason),
        });
    }
}

/// Writes down who is left alive on purpose, and who must be.
pub(super) fn fill_beside<'a>(receipt: &mut Receipt, members: impl Iterator<Item = &'a Member>, inspector: &Inspector) {
    for member in members {
        let (pid, token) = (member.pinned.identity().pid, Some(member.pinned.identity().token.clone()));
        let (outcome, reason) = match &member.fate {
            Fate::End => continue,
            Fate::Report => {
                receipt.escapees.push(bystander(member, inspector, LEFT_THE_TREE));
                continue;
            }
            Fate::Keep(what) => {
                receipt.kept.push(bystander(member, inspector, what));
                (OutcomeKind::Kept, what.clone())
            }
            Fate::Refuse(reason) => {
                receipt.refused.push(Refused { pid, reason: reason.clone() });
                (OutcomeKind::Refused, reason.clone())
            }
        };
        let command = Some(known_command_of(member));
        receipt.outcomes.push(Outcome { pid, start_token: token, command, outcome, reason: Some(reason) });
    }
}

/// Compares the ports that were listened on before with those that are listened on now. Who has the same number on
/// another address holds nothing that was theirs.
pub(super) fn release(receipt: &mut Receipt, before: Option<Vec<Listener>>, inspector: &Inspector) {
    let Some(before) = before else { return };
    for port in ports_of(&before) {
        let were = |held| before.iter().any(|listener| listener.port == port && share(listener.ip, held));
        let by = match owner_at(inspector, port, were) {
            PortOwner::Nobody => {
                receipt.ports_released.push(port);
                continue;
            }
            PortOwner::Process(pid) => format!("pid {pid}"),
            PortOwner::Hidden => "a process that cannot be looked at".to_owned(),
        };
        receipt.still_held.push(StillHeld { port: Some(port), gpu_bytes: None, by });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::identity::Pid;

    /// Nobody was seen, but the last look did not see the table stand still: that is not known to be dead.
    #[test]
    fn what_never_stood_still_is_not_said_to_be_dead() {
        let inspector = Inspector::open(None).expect("an inspector");
        for (unsettled, dead) in [(false, Some(true)), (true, None)] {
            let mut receipt = Receipt::default();
            settle(&mut receipt, &Total { unsettled, ..Total::default() }, false, &inspector);
            assert_eq!((receipt.dead, receipt.notes.iter().any(|note| note == UNSETTLED)), (dead, unsettled));
        }
    }

    /// Those who are gone are told once, and of nobody else is it said.
    #[test]
    fn whom_an_unfinished_stop_had_captured_is_told() {
        let identity = |raw| Identity {
            pid: Pid::new(raw).expect("positive"),
            token: "procfs:b:5".parse().expect("token"),
            pidfd_inode: Some(7),
        };
        let exited = Outcome {
            pid: identity(20).pid,
            start_token: Some(identity(20).token),
            command: None,
            outcome: OutcomeKind::Exited,
            reason: None,
        };
        let begun = [20, 21, 22, 23, 24].map(identity);
        let judge = |identity: &Identity| match identity.pid.raw() {
            22 => VerdictKind::Foreign,
            23 => VerdictKind::Unverifiable,
            24 => VerdictKind::Owned,
            _ => VerdictKind::Gone,
        };
        let mut rows = vec![exited];
        tell_gone(&mut rows, &begun, "named", judge);
        let told: Vec<_> = rows[1..].iter().map(|row| (row.pid.raw(), row.outcome)).collect();
        assert_eq!(told, [(21, OutcomeKind::AlreadyGone), (22, OutcomeKind::AlreadyGone)]);
    }
}
