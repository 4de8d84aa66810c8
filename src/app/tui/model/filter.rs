//! Which sessions the list shows: those that match what was typed. Pure.

use std::collections::BTreeSet;

use super::field::Field;
use super::fuzzy::Fuzzy;
use crate::app::contract::{OtherServer, SessionRow};
use crate::lifecycle::identity::Pid;

/// The filter of the session list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// What is looked for.
    pub line: Field,
    /// The line has the keys.
    pub typing: bool,
    /// Ids of the sessions that match.
    matching: BTreeSet<String>,
    /// Servers of others that match.
    met: BTreeSet<Pid>,
}

impl Filter {
    /// Tells whether the list shows a session.
    pub fn shows(&self, session: &str) -> bool {
        self.matching.contains(session)
    }

    /// Tells whether the list shows a server of somebody else.
    pub fn meets(&self, stranger: &OtherServer) -> bool {
        self.met.contains(&stranger.pid)
    }

    /// Matches all sessions anew, and all servers of others.
    pub(in super::super) fn settle(&mut self, rows: &[SessionRow], strangers: &[OtherServer]) {
        let mut fuzzy = Fuzzy::new(self.line.text());
        let matches = rows.iter().filter(|row| fuzzy.score(&haystack(row)).is_some());
        self.matching = matches.map(|row| row.session.clone()).collect();
        let met = strangers.iter().filter(|row| fuzzy.score(&haystack_of(row)).is_some());
        self.met = met.map(|row| row.pid).collect();
    }
}

/// Returns what a session is found by.
fn haystack(row: &SessionRow) -> String {
    let ports: Vec<String> = row.ports.iter().flatten().map(|port| format!(":{port}")).collect();
    [&row.name, &row.session, row.kind.name(), row.phase.name(), &ports.join(" ")].join(" ")
}

fn haystack_of(stranger: &OtherServer) -> String {
    [&stranger.server, stranger.user.as_deref().unwrap_or_default(), &stranger.shown_ports()].join(" ")
}
