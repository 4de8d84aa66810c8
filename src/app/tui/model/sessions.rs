//! The sessions in the order in which they are shown: by kind, then by launch. Pure.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::app::contract::{Kind, SessionRow};

/// The sessions. A session keeps its place for as long as it exists.
#[derive(Debug, Default)]
pub struct Sessions {
    rows: Vec<SessionRow>,
    arrival: BTreeMap<String, u64>,
    arrivals: u64,
}

/// One line of the session list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ListLine<'a> {
    /// Nothing, between two kinds.
    Gap,
    /// A kind, above its sessions.
    Heading(Kind, usize),
    /// A session.
    Session(&'a SessionRow),
}

impl Sessions {
    /// Returns the sessions in order.
    pub fn rows(&self) -> &[SessionRow] {
        &self.rows
    }

    /// Tells whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns a session by its id.
    pub fn by_id(&self, id: &str) -> Option<&SessionRow> {
        self.rows.iter().find(|row| row.session == id)
    }

    /// Returns the place of a session.
    pub fn position(&self, id: &str) -> Option<usize> {
        self.rows.iter().position(|row| row.session == id)
    }

    /// Returns the lines of the list: sessions below their kinds, with `spaced` a gap between two.
    pub fn lines(&self, spaced: bool) -> Vec<ListLine<'_>> {
        let mut lines = Vec::with_capacity(self.rows.len() + 2 * Kind::ALL.len());
        for kind in Kind::ALL {
            let of_kind = || self.rows.iter().filter(move |row| row.kind == kind);
            if of_kind().next().is_some() {
                if spaced && !lines.is_empty() {
                    lines.push(ListLine::Gap);
                }
                lines.push(ListLine::Heading(kind, of_kind().count()));
                lines.extend(of_kind().map(ListLine::Session));
            }
        }
        lines
    }

    /// Takes in what there is now. New sessions come behind those of their kind that were there
    /// before, the older of two new ones first.
    pub(in super::super) fn replace(&mut self, mut rows: Vec<SessionRow>) {
        rows.sort_by(|a, b| match (a.uptime_s, b.uptime_s) {
            (Some(a), Some(b)) => b.total_cmp(&a),
            (Some(_) | None, None) | (None, Some(_)) => Ordering::Equal,
        });
        self.arrival.retain(|id, _| rows.iter().any(|row| row.session == *id));
        for row in &rows {
            if !self.arrival.contains_key(&row.session) {
                self.arrivals += 1;
                self.arrival.insert(row.session.clone(), self.arrivals);
            }
        }
        let arrival = &self.arrival;
        rows.sort_by_key(|row| (row.kind, arrival.get(&row.session).copied()));
        rows.dedup_by(|a, b| a.session == b.session);
        self.rows = rows;
    }
}
