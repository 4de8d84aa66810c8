//! Rows for people and scripts, made of members: masked command lines, never raw ones.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::identity::Pid;
use super::inspect::{Facts, Inspector};
use super::receipt::{Bystander, ProcessRow};
use super::tree::{Fate, Member, WARDEN_NAME};
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
        cpu_pct,
        rss_bytes: facts.rss_bytes,
        threads: Some(facts.threads),
    }
}

/// Returns a member as a process that is reported and not signalled.
pub fn bystander(member: &Member, inspector: &Inspector, reason: &str) -> Bystander {
    Bystander {
        pid: member.pinned.identity().pid,
        start_token: Some(member.pinned.identity().token.clone()),
        command: command_of(member, inspector).0,
        reason: Some(reason.to_owned()),
    }
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
    let mut found: Vec<Bystander> = snapshot
        .iter()
        .filter(alike)
        .filter_map(|facts| {
            let argv = inspector.argv(facts.pid);
            let ours = argv.first().is_some_and(|name| name == WARDEN_NAME.as_bytes());
            (!ours && lines.contains(&argv)).then(|| Bystander {
                pid: facts.pid,
                start_token: Some(inspector.token(&facts.start)),
                command: command(&argv, facts).0,
                reason: Some("same command line; nothing identifies it as started by this session".into()),
            })
        })
        .collect();
    found.sort_by_key(|row| row.pid);
    found
}
