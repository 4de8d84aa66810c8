//! What a stop would do, and whether what a person confirmed still holds. Pure.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::identity::{Identity, Pid};
use super::receipt::{Membership, PlanRow};
use super::rows::known_command_of;
use super::teardown::Ladder;
use super::tree::{Captured, Fate, Member};
use super::verdict::VerdictKind;

/// A kept daemon that a person chose to end, as they named it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a kept process is named by its pid or by {pid, start_token}")]
pub enum Choice {
    /// By its number: whoever has it when the stop looks.
    Pid(Pid),
    /// As a preview showed it.
    Identity(Identity),
}

impl Choice {
    fn names(&self, process: &Identity) -> bool {
        match self {
            Self::Pid(pid) => *pid == process.pid,
            Self::Identity(shown) => shown.names(process),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pid(pid) => pid.fmt(f),
            Self::Identity(shown) => shown.pid.fmt(f),
        }
    }
}

/// Returns the kept members that were chosen to be ended.
///
/// # Errors
/// Names the choices that are no kept members, or not the ones that were shown.
pub(super) fn chosen(captured: &Captured, choices: &[Choice]) -> Result<Vec<Identity>, String> {
    let kept = || captured.members.iter().filter(|member| matches!(member.fate, Fate::Keep(_)));
    let find = |choice: &Choice| kept().map(|member| member.pinned.identity()).find(|kept| choice.names(kept));
    let wrong: Vec<String> =
        choices.iter().filter(|choice| find(choice).is_none()).map(|choice| format!("pid {choice}")).collect();
    if wrong.is_empty() {
        return Ok(choices.iter().filter_map(find).cloned().collect());
    }
    let known: Vec<String> = kept().map(|member| member.pinned.identity().pid.to_string()).collect();
    let known = if known.is_empty() { "nobody is kept in it".into() } else { format!("kept are {}", known.join(", ")) };
    Err(format!("{} is not a kept process of it: {known}", wrong.join(", ")))
}

/// Returns one row for each member and each process that could not be bound.
pub(super) fn rows(captured: &Captured, ladder: &Ladder) -> Vec<PlanRow> {
    let members = captured.members.iter().map(|member| member_row(member, ladder));
    let unbound = captured.unbound.iter().map(|error| PlanRow {
        pid: error.pid,
        start_token: None,
        signal: None,
        verdict: VerdictKind::Unverifiable,
        reason: error.reason.clone(),
        command: String::new(),
    });
    members.chain(unbound).collect()
}

fn member_row(member: &Member, ladder: &Ladder) -> PlanRow {
    let first = if ladder.force { "KILL" } else { ladder.first.first().map_or("TERM", |signal| signal.name()) };
    let (signal, reason) = match &member.fate {
        Fate::End if member.tends => (
            Some("KILL".to_owned()),
            format!("{}; tends a container: only if it does not end after it", because(member)),
        ),
        Fate::End => (Some(first.to_owned()), because(member)),
        Fate::Keep(what) => (None, format!("kept: {what}")),
        Fate::Report => (None, "reported: it left the tree".to_owned()),
        Fate::Refuse(reason) => (None, format!("refused: {reason}")),
    };
    PlanRow {
        pid: member.pinned.identity().pid,
        start_token: Some(member.pinned.identity().token.clone()),
        signal,
        verdict: VerdictKind::Owned,
        reason,
        command: known_command_of(member),
    }
}

/// Says why a member belongs to the session.
fn because(member: &Member) -> String {
    let words = member.membership.iter().map(|how| match how {
        Membership::Tree => "is in its process tree",
        Membership::Sid => "is in one of its kernel sessions",
        Membership::Cgroup => "is in its cgroup",
        Membership::Reparented => "came back to the warden",
        Membership::Marker => "carries its marker",
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Checks that every process to be ended was confirmed, was `chosen`, or joined by an unbroken chain of parents.
///
/// # Errors
/// Names the newcomers.
pub(super) fn newcomers(captured: &Captured, confirmed: &[Identity], chosen: &[Identity]) -> Result<(), String> {
    let known = |identity: &Identity| confirmed.iter().chain(chosen).any(|shown| shown.names(identity));
    let new = captured
        .to_end()
        .filter(|member| !member.membership.contains(&Membership::Tree) && !known(member.pinned.identity()));
    let named: Vec<String> =
        new.map(|member| format!("{} {}", member.pinned.identity().pid, known_command_of(member))).collect();
    if named.is_empty() { Ok(()) } else { Err(format!("new since then: {}", named.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::super::kill::Signal;
    use super::super::teardown::GRACE;
    use super::*;

    fn pid(raw: i32) -> Pid {
        Pid::new(raw).expect("positive")
    }

    fn captured() -> Captured {
        Captured::stand_in(vec![
            Member::stand_in(pid(20), &[Membership::Tree, Membership::Sid], Fate::End),
            Member::stand_in(pid(30), &[Membership::Reparented], Fate::End),
            Member::stand_in(pid(40), &[Membership::Sid], Fate::Keep("an ssh agent".into())),
            Member::stand_in(pid(50), &[Membership::Reparented], Fate::Report),
            Member::stand_in(pid(60), &[Membership::Tree], Fate::Refuse("ours".into())),
        ])
    }

    fn identities(captured: &Captured) -> Vec<Identity> {
        captured.members.iter().map(|member| member.pinned.identity().clone()).collect()
    }

    /// The same number, but another process.
    fn reused(identity: &Identity) -> Identity {
        Identity { token: "procfs:b:6".parse().expect("token"), ..identity.clone() }
    }

    #[test]
    fn who_tends_a_container_is_shown_with_the_signal_that_it_may_get() {
        let mut tender = Member::stand_in(pid(70), &[Membership::Reparented], Fate::End);
        tender.tends = true;
        let row = member_row(&tender, &Ladder::server(Signal::Term, GRACE));
        assert_eq!(row.signal.as_deref(), Some("KILL"));
        assert_eq!(row.reason, "came back to the warden; tends a container: only if it does not end after it");
    }

    #[test]
    fn a_confirmation_is_of_identities_and_of_what_descends_from_them() {
        let captured = captured();
        let all = identities(&captured);
        let check = |confirmed: &[Identity], named: &[&str]| {
            let said = newcomers(&captured, confirmed, &[]).err().unwrap_or_default();
            let pids: Vec<&str> = said.trim_start_matches("new since then: ").split("; ").map(str::trim).collect();
            assert_eq!(pids, if named.is_empty() { &[""][..] } else { named }, "{confirmed:?}");
        };
        check(&all, &[]);
        // Who joined by an unbroken chain of parents is no surprise; who came back to the warden is.
        check(&all[1..], &[]);
        check(&all[..1], &["30 [x]"]);
        check(&[], &["30 [x]"]);
        check(&[all[0].clone(), reused(&all[1])], &["30 [x]"]);
        // Who was chosen was seen.
        assert_eq!(newcomers(&captured, &[], &all[1..2]), Ok(()));
    }

    #[test]
    fn a_kept_process_is_chosen_as_it_was_shown() {
        let captured = captured();
        let all = identities(&captured);
        assert_eq!(chosen(&captured, &[Choice::Pid(pid(40))]), Ok(vec![all[2].clone()]));
        assert_eq!(chosen(&captured, &[Choice::Identity(all[2].clone())]), Ok(vec![all[2].clone()]));
        for wrong in [Choice::Identity(reused(&all[2])), Choice::Pid(pid(20)), Choice::Pid(pid(60))] {
            let said = chosen(&captured, &[Choice::Pid(pid(40)), wrong.clone()]).expect_err("it is none");
            assert_eq!(said, format!("pid {wrong} is not a kept process of it: kept are 40"));
        }
    }

    #[test]
    fn a_plan_signals_nobody_but_who_is_to_be_ended() {
        let rows_of = |ladder: &Ladder| {
            let rows = rows(&captured(), ladder);
            rows.into_iter().map(|row| (row.pid.raw(), row.signal, row.reason)).collect::<Vec<_>>()
        };
        let row = |raw: i32, signal: Option<&str>, reason: &str| (raw, signal.map(str::to_owned), reason.to_owned());
        let expected = |signal| {
            [
                row(20, Some(signal), "is in its process tree, is in one of its kernel sessions"),
                row(30, Some(signal), "came back to the warden"),
                row(40, None, "kept: an ssh agent"),
                row(50, None, "reported: it left the tree"),
                row(60, None, "refused: ours"),
            ]
        };
        let ladder = Ladder::terminal(std::time::Duration::ZERO);
        assert_eq!(rows_of(&ladder), expected("HUP"));
        assert_eq!(rows_of(&Ladder { force: true, ..ladder }), expected("KILL"));
    }
}
