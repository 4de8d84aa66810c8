//! The hidden subcommand by which a warden speaks to the people who look at its session in tmux.
//!
//! It shows a message in the status line of the clients of that one session, types nothing, changes no option,
//! and asks nobody but the server that the record names.

use std::ffi::OsString;
use std::path::Path;

use super::error::Exit;
use crate::lifecycle::ceiling::notice;
use crate::lifecycle::store::Store;
use crate::tmux::{Probe, Server, SessionId, SocketRef};

/// Arguments: the state directory, the session, and the seconds that it has left.
pub(super) fn run(arguments: &[OsString]) -> u8 {
    let [state, session, left] = arguments else { return Exit::Usage.code() };
    let (Some(session), Some(left)) = (session.to_str(), left.to_str().and_then(|left| left.parse().ok())) else {
        return Exit::Usage.code();
    };
    if show(Path::new(state), session, left).is_some() { Exit::Ok.code() } else { Exit::Failed.code() }
}

fn show(state: &Path, session: &str, left_s: f64) -> Option<()> {
    let tether = Store::open(state).ok()?.tether(session).ok()??;
    let record = tether.tmux?;
    let server = Server::new(SocketRef::Path(record.socket.into()), None, std::env::vars_os());
    if server.probe() != (Probe::Running { pid: record.server.pid }) {
        return None;
    }
    let id: SessionId = record.session_id.parse().ok()?;
    let text = format!("{session}: {}", notice(left_s));
    for client in server.clients(&id).ok()? {
        // A client that has left meanwhile needs no message.
        drop(server.show_message(&client, &text));
    }
    Some(())
}
