//! The sessions in the order in which they are shown: by kind, then by launch; orphans in a group of their own.
//! Pure.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::app::command::Orphan;
use crate::app::contract::{Kind, Phase, SessionRow};
use crate::lifecycle::store::Quarantined;

/// The sessions. A session keeps its place for as long as it exists.
#[derive(Debug, Default)]
pub struct Sessions {
    rows: Vec<SessionRow>,
    orphans: BTreeMap<String, Orphan>,
    /// Records that are left alone.
    quarantined: Vec<Quarantined>,
    arrival: BTreeMap<String, u64>,
    arrivals: u64,
}

/// One line of the session list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ListLine<'a> {
    /// Nothing, between two kinds.
    Gap,
    /// A kind, above its sessions.
    Heading(Kind, Totals),
    /// A session.
    Session(&'a SessionRow),
    /// What is above those that have no manager, or of which a stop has left something, and the records that are
    /// left alone: how many there are.
    Orphans(usize),
    /// What else is known of the orphan in the line above.
    Orphan(&'a SessionRow, &'a Orphan),
    /// A record that is left alone.
    Record(&'a Quarantined),
    /// Why that one in the line above is.
    Reason(&'a Quarantined),
}

/// What the sessions of a group come to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// How many there are.
    pub count: usize,
    /// How many of them answer requests.
    pub ready: usize,
    /// Percent of one core; `None` where it is known of none.
    pub cpu_pct: Option<f64>,
    /// Resident memory in bytes; `None` where it is known of none.
    pub rss_bytes: Option<u64>,
    /// Only the heading is shown.
    pub folded: bool,
}

impl Totals {
    /// Sums sessions up.
    pub(in super::super) fn of<'a>(rows: impl Iterator<Item = &'a SessionRow>, folded: bool) -> Self {
        rows.fold(Self { folded, ..Self::default() }, |sum, row| Self {
            count: sum.count + 1,
            ready: sum.ready + usize::from(matches!(row.phase, Phase::Ready | Phase::Idle)),
            cpu_pct: row.cpu_pct.map(|cpu| cpu + sum.cpu_pct.unwrap_or(0.0)).or(sum.cpu_pct),
            rss_bytes: row.rss_bytes.map(|rss| rss + sum.rss_bytes.unwrap_or(0)).or(sum.rss_bytes),
            folded,
        })
    }
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

    /// Returns the lines of the list: the sessions that are listed below their kinds, with `spaced` a gap between
    /// two.
    pub fn lines(
        &self,
        spaced: bool,
        listed: &dyn Fn(&str) -> bool,
        folded: &dyn Fn(&SessionRow) -> bool,
    ) -> Vec<ListLine<'_>> {
        let mut lines = Vec::with_capacity(self.rows.len() + 2 * Kind::ALL.len());
        for kind in Kind::ALL {
            let is_of_kind =
                |row: &&SessionRow| row.kind == kind && !self.is_orphan(&row.session) && listed(&row.session);
            let of_kind = || self.rows.iter().filter(is_of_kind);
            if of_kind().next().is_some() {
                if spaced && !lines.is_empty() {
                    lines.push(ListLine::Gap);
                }
                let totals = Totals::of(of_kind(), of_kind().any(folded));
                lines.push(ListLine::Heading(kind, totals));
                lines.extend(of_kind().filter(|_| !totals.folded).map(ListLine::Session));
            }
        }
        let orphans = || {
            let listed = self.rows.iter().filter(|row| listed(&row.session));
            listed.filter_map(|row| Some((row, self.orphans.get(&row.session)?)))
        };
        let count = orphans().count() + self.quarantined.len();
        if count > 0 {
            if spaced && !lines.is_empty() {
                lines.push(ListLine::Gap);
            }
            lines.push(ListLine::Orphans(count));
            lines.extend(orphans().flat_map(|(row, orphan)| [ListLine::Session(row), ListLine::Orphan(row, orphan)]));
            lines.extend(
                self.quarantined.iter().flat_map(|record| [ListLine::Record(record), ListLine::Reason(record)]),
            );
        }
        lines
    }

    /// Tells whether a session has no manager, or a stop has left something of it.
    pub fn is_orphan(&self, id: &str) -> bool {
        self.orphans.contains_key(id)
    }

    /// Takes in which sessions are orphans, and the records that are left alone.
    pub(in super::super) fn replace_orphans(&mut self, orphans: Vec<Orphan>, quarantined: Vec<Quarantined>) {
        self.orphans = orphans.into_iter().map(|orphan| (orphan.row.session.clone(), orphan)).collect();
        self.quarantined = quarantined;
        self.sort();
    }

    /// By kind, then by arrival; orphans last.
    fn sort(&mut self) {
        let (arrival, orphans) = (&self.arrival, &self.orphans);
        self.rows.sort_by_key(|row| (orphans.contains_key(&row.session), row.kind, arrival.get(&row.session).copied()));
    }

    /// Takes in what there is now. New sessions come behind those of their kind that were there
    /// before, the older of two new ones first.
    pub(in crate::app) fn replace(&mut self, mut rows: Vec<SessionRow>) {
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
        self.rows = rows;
        self.sort();
        self.rows.dedup_by(|a, b| a.session == b.session);
    }
}
