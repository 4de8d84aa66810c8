//! What a stop would do, and whether what a person confirmed still holds. Pure.

use super::identity::Identity;
use super::receipt::{Membership, PlanRow};
use super::rows::known_command_of;
use super::teardown::Ladder;
use super::tree::{Captured, Fate, Member};
use super::verdict::VerdictKind;

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
        Membership::Tree => "descends from the workload",
        Membership::Sid => "is in its kernel session",
        Membership::Cgroup => "is in its cgroup",
        Membership::Reparented => "came back to the warden",
        Membership::Marker => "carries its marker",
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Checks that every process to be ended was confirmed, or joined by an unbroken chain of parents.
///
/// # Errors
/// Names the newcomers.
pub(super) fn newcomers(captured: &Captured, confirmed: &[Identity]) -> Result<(), String> {
    let known = |identity: &Identity| {
        // A preview shows pid and token; the inode is compared where both know it.
        confirmed.iter().any(|shown| {
            shown.pid == identity.pid
                && shown.token == identity.token
                && shown.pidfd_inode.is_none_or(|inode| identity.pidfd_inode == Some(inode))
        })
    };
    let new = captured
        .to_end()
        .filter(|member| !member.membership.contains(&Membership::Tree) && !known(member.pinned.identity()));
    let named: Vec<String> =
        new.map(|member| format!("{} {}", member.pinned.identity().pid, known_command_of(member))).collect();
    if named.is_empty() { Ok(()) } else { Err(format!("new since then: {}", named.join("; "))) }
}
