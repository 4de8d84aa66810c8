//! `notify`: how an agent says that it waits, works, or is done. Called from its hooks, inside a session.
//!
//! It writes one small file and asks nobody: it works in a PTY and in tmux, with a manager or without one, whatever
//! the configuration says. That the caller belongs to the session is checked as far as it can be: one of its
//! ancestors must be a process that the record names, by identity.

use std::io::{self, Read, Write};
use std::path::Path;

use super::args::Notify;
use super::attention::{FILE_MAX, Note, Noted, NotifyRequest, Origin};
use super::cli;
use super::command::Answer;
use super::error::{AppError, ErrorKind, Exit};
use crate::lifecycle::authority::verify;
use crate::lifecycle::clock::boottime;
use crate::lifecycle::identity::{Identity, Pid};
use crate::lifecycle::inspect::{Inspector, InspectorKind};
use crate::lifecycle::records::Records;
use crate::lifecycle::store::{Store, write_json};
use crate::lifecycle::tether::{Tether, is_session_id};
use crate::lifecycle::verdict::VerdictKind;

/// Name of the variable that tells a workload its session.
pub(super) const SESSION: &str = "COOKBOOK_TUI_SESSION";

/// Carries the subcommand out: with a state directory, and without a configuration or a runtime.
///
/// # Errors
/// As [`note`]; `io` where the message cannot be read.
pub(super) fn run(state_dir: &Path, notify: &Notify, inspector: Option<InspectorKind>) -> Result<Exit, AppError> {
    let unusable = |what: &str, error: io::Error| AppError::new(ErrorKind::State, format!("failed to {what}: {error}"));
    let store = Store::open(state_dir).map_err(|error| unusable("open the state directory", error))?;
    let inspector = Inspector::open(inspector).map_err(|error| unusable("read the process table", error))?;
    let message = message(notify.message.as_deref())?;
    let request = NotifyRequest { session: notify.session.clone(), state: notify.state, message };
    let noted = note(&store, &inspector, &request)?;
    if notify.output.json {
        cli::say_json(&Answer::Noted(noted).to_value());
    } else if !noted.verified {
        // Not on standard output: what a hook prints there may become part of a conversation.
        let text = format!("cookbook-tui: unverified: this is no process of {}\n", noted.session);
        io::stderr().write_all(text.as_bytes()).ok();
    }
    Ok(Exit::Ok)
}

/// Writes a note for the session that is asked for by its id or its unique name, or else for the one that this process runs in.
///
/// # Errors
/// `usage` outside of a session, `not_found` where the state directory knows no such session, `state` where it
/// cannot be written.
pub(super) fn note(store: &Store, inspector: &Inspector, request: &NotifyRequest) -> Result<Noted, AppError> {
    let session = match &request.session {
        Some(session) => session.clone(),
        None => std::env::var(SESSION).map_err(|_| {
            let message = format!("{SESSION} is not set: call this from inside a session of cookbook-tui, or name one");
            AppError::new(ErrorKind::Usage, message)
        })?,
    };
    let tether = known(store, &session)?;
    let session = tether.session.clone();
    let verified = is_within(inspector, &tether);
    let origin = Origin { boot_id: inspector.boot_id(), at: boottime(), verified };
    let note = Note::new(&session, request.state, request.message.as_deref(), origin);
    let path = store.note_path(&session);
    write_json(&path, &note).map_err(|error| {
        AppError::new(ErrorKind::State, format!("failed to leave a note in {}: {error}", path.display()))
    })?;
    Ok(Noted { session, verified })
}

/// Returns the message as it was meant: `-` stands for what is on standard input.
///
/// # Errors
/// `io` where standard input cannot be read.
fn message(given: Option<&str>) -> Result<Option<String>, AppError> {
    if given != Some("-") {
        return Ok(given.map(str::to_owned));
    }
    let mut bytes = Vec::new();
    io::stdin()
        .take(FILE_MAX)
        .read_to_end(&mut bytes)
        .map_err(|error| AppError::new(ErrorKind::Io, format!("failed to read the message: {error}")))?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

fn known(store: &Store, session: &str) -> Result<Tether, AppError> {
    // Not a name for a file before it is known to be an id.
    let found = if is_session_id(session) { store.tether(session) } else { Ok(None) };
    match found {
        Ok(Some(tether)) => Ok(tether),
        Ok(None) if let Some(tether) = named(store, session)? => Ok(tether),
        Ok(None) => {
            let message = format!(
                "there is no session {session:?} in {}; `ls` shows those there are, --state-dir chooses another place",
                store.root().display()
            );
            Err(AppError::new(ErrorKind::NotFound, message))
        }
        Err(reason) => {
            Err(AppError::new(ErrorKind::Refused, format!("the record of {session} is left alone: {reason}")))
        }
    }
}

/// Finds the one session of a name.
fn named(store: &Store, name: &str) -> Result<Option<Tether>, AppError> {
    let (tethers, _) = store.load(&mut Records::default()).map_err(|error| {
        AppError::new(ErrorKind::State, format!("failed to read the records in {}: {error}", store.root().display()))
    })?;
    let mut found: Vec<Tether> = tethers.into_iter().filter(|tether| tether.name == name).collect();
    if found.len() > 1 {
        let ids: Vec<&str> = found.iter().map(|tether| tether.session.as_str()).collect();
        let message = format!("{} sessions are named {name:?}, namely {}", ids.len(), ids.join(", "));
        return Err(AppError::new(ErrorKind::Usage, message));
    }
    Ok(found.pop())
}

/// Tells whether this process descends from one that the record names. What lost its parent has come back to the
/// warden, which is one of them.
fn is_within(inspector: &Inspector, tether: &Tether) -> bool {
    let is_root = |root: &Identity| {
        let holds_us = || ancestors(inspector).contains(&root.pid);
        // Looked at before and after: the number did not change hands in between.
        holds_us() && verify(root, inspector).kind == VerdictKind::Owned && holds_us()
    };
    let named = [Some(&tether.workload.identity), tether.warden.as_ref()].into_iter().flatten();
    named.chain(tether.pane_roots()).any(is_root)
}

/// Returns this process and its ancestors, nearest first, as far as they can be read.
fn ancestors(inspector: &Inspector) -> Vec<Pid> {
    let mut chain = Vec::new();
    let mut next = Pid::new(rustix::process::getpid().as_raw_nonzero().get());
    while let Some(pid) = next.filter(|pid| !chain.contains(pid)) {
        chain.push(pid);
        next = inspector.facts(pid).ok().flatten().and_then(|facts| Pid::new(facts.ppid));
    }
    chain
}
