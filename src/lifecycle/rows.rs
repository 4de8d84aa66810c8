//! Rows for people and scripts, made of members: masked command lines, never raw ones.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::guard::Guard;
use super::identity::Pid;
use super::inspect::{Facts, Inspector, Unreadable};
use super::receipt::{Bystander, ProcessRow};
use super::tree::{Fate, Member, WARDEN_NAME};
use super::verdict::VerdictKind;
use crate::text;

/// Returns the masked command line of a member, and its raw bytes in base64 where UTF-8 lost some.
pub(super) fn command_of(member: &Member, inspector: &Inspector) -> (String, Option<String>) {
    command(member.argv(inspector), member.pinned.facts())
}

/// Returns the masked command line as it was read before, without reading anything.
pub(super) fn known_command_of(member: &Member) -> String {
    command(member.known_argv(), member.pinned.facts()).0
}

fn command(argv: &[Vec<u8>], facts: &Facts) -> (String, Option<String>) {
    if argv.is_empty() {
        // A zombie or a kernel thread: its name in brackets, as ps(1) shows it.
        let (name, lost) = text::command_line(std::slice::from_ref(&facts.comm));
        return (format!("[{name}]"), lost.map(|raw| STANDARD.encode(raw)));
    }
    let (line, lost) = text::command_line(argv);
    (line, lost.map(|raw| STANDARD.encode(raw)))
}

/// Returns the row of a member, judged now. `cpu_pct` comes from whoever samples.
pub fn row(member: &Member, inspector: &Inspector, cpu_pct: Option<f64>) -> ProcessRow {
    let (facts, identity) = (member.pinned.facts(), member.pinned.identity());
    let verdict = member.pinned.verdict(inspector);
    let (command, command_b64) = command_of(member, inspector);
    let (protected, kept) = match &member.fate {
        Fate::Refuse(reason) => (Some(reason.clone()), None),
        Fate::Keep(what) => (None, Some(what.clone())),
        Fate::End | Fate::Report => (None, None),
    };
    ProcessRow {
        pid: identity.pid,
        ppid: facts.ppid,
        pgid: facts.pgid,
        sid: facts.sid,
        start_token: Some(identity.token.clone()),
        command,
        command_b64,
        state: facts.state.to_string(),
        verdict: verdict.kind,
        reason: verdict.reason,
        membership: member.membership.iter().copied().collect(),
        protected,
        kept,
        age_s: inspector.age_s(&facts.start),
        cpu_pct,
        rss_bytes: facts.rss_bytes,
        threads: Some(facts.threads),
        gpu_bytes: None,
    }
}

/// Returns the row of a process that could not be bound to the session: unverifiable, and never signalled.
pub fn unbound_row(error: &Unreadable, inspector: &Inspector) -> ProcessRow {
    let facts = inspector.facts(error.pid).ok().flatten();
    let shown = facts.as_ref().map(|facts| command(&inspector.argv(error.pid), facts));
    let (command, command_b64) = shown.unwrap_or_default();
    ProcessRow {
        pid: error.pid,
        ppid: facts.as_ref().map_or(0, |facts| facts.ppid),
        pgid: facts.as_ref().map_or(0, |facts| facts.pgid),
        sid: facts.as_ref().map_or(0, |facts| facts.sid),
        start_token: facts.as_ref().map(|facts| inspector.token(&facts.start)),
        command,
        command_b64,
        state: facts.as_ref().map_or_else(|| "?".to_owned(), |facts| facts.state.to_string()),
        verdict: VerdictKind::Unverifiable,
        reason: error.reason.clone(),
        membership: Vec::new(),
        protected: None,
        kept: None,
        age_s: facts.as_ref().and_then(|facts| inspector.age_s(&facts.start)),
        cpu_pct: None,
        rss_bytes: facts.as_ref().and_then(|facts| facts.rss_bytes),
        threads: facts.as_ref().map(|facts| facts.threads),
        gpu_bytes: None,
    }
}

/// Why an escapee is reported and not signalled.
pub const LEFT_THE_TREE: &str = "it left the tree; the recipe reports such processes";

/// Returns a member as a process that is reported and not signalled.
pub fn bystander(member: &Member, inspector: &Inspector, reason: &str) -> Bystander {
    Bystander {
        pid: member.pinned.identity().pid,
        start_token: Some(member.pinned.identity().token.clone()),
        command: command_of(member, inspector).0,
        reason: Some(reason.to_owned()),
    }
}

/// Why somebody who carries the marker of a session is reported, and not signalled.
pub const MARKED: &str = "carries the session's marker, but nothing else ties it to the session: not signalled";

/// Name of the variable that carries a session's random marker.
pub const MARKER: &str = "COOKBOOK_TUI_MARKER";

/// Returns the processes that carry the marker of a session without being members: with a warden alive there
/// are none that it would not have, so they are looked for only without one. A hint, and only reported.
pub fn marked<'a>(
    members: impl Iterator<Item = &'a Member>,
    marker: &str,
    guard: &Guard,
    inspector: &Inspector,
) -> Vec<Bystander> {
    let known: BTreeSet<Pid> = members.map(|member| member.pinned.identity().pid).collect();
    let variable = format!("{MARKER}={marker}");
    let Ok(snapshot) = inspector.scan() else { return Vec::new() };
    let carries = |facts: &&Facts| {
        !facts.ended()
            && !known.contains(&facts.pid)
            && guard.protects(facts).is_none()
            && inspector.has_marker(facts.pid, variable.as_bytes())
    };
    let mut found: Vec<Bystander> = snapshot
        .iter()
        .filter(carries)
        .map(|facts| Bystander {
            pid: facts.pid,
            start_token: Some(inspector.token(&facts.start)),
            command: command(&inspector.argv(facts.pid), facts).0,
            reason: Some(MARKED.into()),
        })
        .collect();
    found.sort_by_key(|row| row.pid);
    found
}

/// Returns the processes of the host whose full command line equals a member's without being members.
/// Nothing identifies them as ours, so they are only reported.
pub fn lookalikes<'a>(members: impl Iterator<Item = &'a Member>, inspector: &Inspector) -> Vec<Bystander> {
    let (mut pids, mut names, mut lines) = (BTreeSet::<Pid>::new(), BTreeSet::new(), BTreeSet::new());
    for member in members {
        pids.insert(member.pinned.identity().pid);
        let argv = member.argv(inspector);
        if !argv.is_empty() {
            names.insert(member.pinned.facts().comm.clone());
            lines.insert(argv.to_vec());
        }
    }
    if lines.is_empty() {
        return Vec::new();
    }
    let Ok(snapshot) = inspector.scan() else { return Vec::new() };
    // The name is in the snapshot already; the command line of strangers is read only if it fits.
    let alike = |facts: &&Facts| !pids.contains(&facts.pid) && !facts.ended() && names.contains(&facts.comm);
    let candidates: Vec<&Facts> = snapshot.iter().filter(alike).collect();
    let argvs = inspector.argv_of_many(&candidates.iter().map(|facts| facts.pid).collect::<Vec<_>>());
    let mut found: Vec<Bystander> = candidates
        .into_iter()
        .filter_map(|facts| {
            let argv = argvs.get(&facts.pid)?;
            let ours = argv.first().is_some_and(|name| name == WARDEN_NAME.as_bytes());
            (!ours && lines.contains(argv)).then(|| Bystander {
                pid: facts.pid,
                start_token: Some(inspector.token(&facts.start)),
                command: command(argv, facts).0,
                reason: Some("same command line; nothing identifies it as started by this session".into()),
            })
        })
        .collect();
    found.sort_by_key(|row| row.pid);
    found
}
