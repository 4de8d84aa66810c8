//! The tmux sessions that could be adopted: those of the user's server, of Cookbook's and of ours that we did not launch.

use super::adopt::Found;
use super::{Inner, Runtime};
use crate::app::command::Answer;
use crate::app::draft::TmuxRow;
use crate::app::error::AppError;
use crate::lifecycle::guard::Guard;
use crate::tmux::Server;

impl Inner {
    /// Lists them. A server that cannot be asked is said to be so.
    pub(super) fn tmux_sessions(&self) -> Answer {
        let mut servers = self.servers(None).unwrap_or_default();
        servers.extend(self.servers(Some("default")).unwrap_or_default());
        self.sessions_on(servers)
    }

    fn sessions_on(&self, servers: Vec<Server>) -> Answer {
        self.take_in();
        let (mut rows, mut notes, mut asked) = (Vec::new(), Vec::new(), Vec::new());
        let guard = Guard::new(&self.inspector);
        for server in servers {
            let place = server.socket_path().clone();
            if asked.contains(&place) {
                continue;
            }
            match self.sessions_of(&server) {
                Ok(found) => rows.extend(found.iter().filter_map(|found| self.offered(found, &server, &guard))),
                Err(error) => notes.push(format!("{}: {}", place.display(), error.message)),
            }
            asked.push(place);
        }
        Answer::TmuxSessions(rows, notes)
    }

    /// Returns a session as it is offered; `None` where it is one that we launched.
    fn offered(&self, found: &Found, server: &Server, guard: &Guard) -> Option<TmuxRow> {
        let known = self.session_in(found);
        let ours = known.as_ref().is_some_and(|known| known.tether().adoption.is_none());
        let panes = server.panes(&found.session).unwrap_or_default();
        let holds_us = panes.iter().filter_map(super::hosts::root_of).any(|root| guard.holds_us(root));
        (!ours).then(|| TmuxRow {
            socket: server.socket_path().to_string_lossy().into_owned(),
            session_id: found.session.to_string(),
            name: found.name.clone(),
            adopted: known.filter(|known| !known.state().borrowed).map(|known| known.id.clone()),
            holds_us,
        })
    }
}

impl Runtime {
    /// Lists the tmux sessions of one server that could be adopted, by the name or the path of its socket.
    ///
    /// # Errors
    /// `usage` where that is neither.
    pub fn tmux_sessions_on(&self, socket: &str) -> Result<Answer, AppError> {
        self.inner.servers(Some(socket)).map(|servers| self.inner.sessions_on(servers))
    }
}
