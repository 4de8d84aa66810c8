//! Which sessions the list shows: those that match what was typed. Pure.

use std::collections::BTreeSet;

use super::field::Field;
use super::fuzzy::Fuzzy;
use crate::app::contract::SessionRow;

/// The filter of the session list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// What is looked for.
    pub line: Field,
    /// The line has the keys.
    pub typing: bool,
    /// Ids of the sessions that match.
    matching: BTreeSet<String>,
}

impl Filter {
    /// Tells whether the list shows a session.
    pub fn shows(&self, session: &str) -> bool {
        self.matching.contains(session)
    }

    /// Matches all sessions anew.
    pub(in super::super) fn settle(&mut self, rows: &[SessionRow]) {
        let mut fuzzy = Fuzzy::new(self.line.text());
        let matches = rows.iter().filter(|row| fuzzy.score(&haystack(row)).is_some());
        self.matching = matches.map(|row| row.session.clone()).collect();
    }
}

/// Returns what a session is found by.
fn haystack(row: &SessionRow) -> String {
    let ports: Vec<String> = row.ports.iter().flatten().map(|port| format!(":{port}")).collect();
    [&row.name, &row.session, row.kind.name(), row.phase.name(), &ports.join(" ")].join(" ")
}
