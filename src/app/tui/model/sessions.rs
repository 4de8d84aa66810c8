//! The sessions in the order in which they are shown: by kind, then by launch; orphans in a group of their own, and
//! below all of them the servers that are none of ours. Pure.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::app::command::Orphan;
use crate::app::contract::{Kind, OtherServer, Phase, SessionRow};
use crate::lifecycle::identity::Pid;
use crate::lifecycle::store::Quarantined;

/// The place of a session that has left is known while so many come after it: it may come back, or have an heir.
const REMEMBERED: u64 = 256;

/// The sessions. A session keeps its place for as long as it exists.
#[derive(Debug, Default)]
pub struct Sessions {
    rows: Vec<SessionRow>,
    orphans: BTreeMap<String, Orphan>,
    /// Records that are left alone.
    quarantined: Vec<Quarantined>,
    /// Servers that are none of ours.
    strangers: Vec<OtherServer>,
    arrival: BTreeMap<String, u64>,
    arrivals: u64,
    /// A session has, or had, GPU memory: a column that was there stays.
    has_gpu: bool,
}

/// One line of the session list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ListLine<'a> {
    /// Nothing, between two kinds.
    Gap,
    /// A group, above its sessions.
    Heading(Group, Totals),
    /// A session.
    Session(&'a SessionRow),
    /// What else is known of the orphan in the line above.
    Orphan(&'a SessionRow, &'a Orphan),
    /// A record that is left alone.
    Record(&'a Quarantined),
    /// Why that one in the line above is.
    Reason(&'a Quarantined),
    /// A server that is none of ours.
    Stranger(&'a OtherServer),
}

/// What stands together in the list, in the order of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// What we launched, by kind.
    Of(Kind),
    /// What somebody else launched.
    Adopted,
    /// Those that have no manager, or of which a stop has left something, and the records that are left alone.
    Orphans,
    /// Servers that belong to no session.
    Strangers,
}

impl Group {
    /// All groups, in order.
    pub const ALL: [Self; 7] = [
        Self::Of(Kind::ALL[0]),
        Self::Of(Kind::ALL[1]),
        Self::Of(Kind::ALL[2]),
        Self::Of(Kind::ALL[3]),
        Self::Adopted,
        Self::Orphans,
        Self::Strangers,
    ];
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
    /// GPU memory in bytes; `None` where it is known of none.
    pub gpu_bytes: Option<u64>,
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
            gpu_bytes: row.gpu_bytes.map(|gpu| gpu + sum.gpu_bytes.unwrap_or(0)).or(sum.gpu_bytes),
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

    /// Tells whether a session has, or had, GPU memory.
    pub fn has_gpu(&self) -> bool {
        self.has_gpu
    }

    /// Returns a session by its id.
    pub fn by_id(&self, id: &str) -> Option<&SessionRow> {
        self.rows.iter().find(|row| row.session == id)
    }

    /// Returns the place of a session.
    pub fn position(&self, id: &str) -> Option<usize> {
        self.rows.iter().position(|row| row.session == id)
    }

    /// Returns the lines of the list: the sessions that are listed below their groups, with `spaced` a gap between
    /// two.
    pub fn lines(
        &self,
        spaced: bool,
        listed: &dyn Fn(&str) -> bool,
        folded: &dyn Fn(Group) -> bool,
        met: &dyn Fn(&OtherServer) -> bool,
    ) -> Vec<ListLine<'_>> {
        let mut lines = Vec::with_capacity(self.rows.len() + 2 * Group::ALL.len());
        for group in Group::ALL {
            let is_in = |row: &&SessionRow| self.group(row) == group && listed(&row.session);
            let inside = || self.rows.iter().filter(is_in);
            let records: &[Quarantined] = if group == Group::Orphans { &self.quarantined } else { &[] };
            let mut totals = Totals::of(inside(), folded(group));
            totals.count += records.len();
            let strangers: &[OtherServer] = if group == Group::Strangers { &self.strangers } else { &[] };
            let strangers = || strangers.iter().filter(|row| met(row));
            totals.count += strangers().count();
            totals.rss_bytes = strangers()
                .filter_map(|row| row.rss_bytes)
                .fold(totals.rss_bytes, |sum, rss| Some(sum.unwrap_or(0) + rss));
            if totals.count == 0 {
                continue;
            }
            if spaced && !lines.is_empty() {
                lines.push(ListLine::Gap);
            }
            lines.push(ListLine::Heading(group, totals));
            if totals.folded {
                continue;
            }
            for row in inside() {
                lines.push(ListLine::Session(row));
                lines.extend(self.orphans.get(&row.session).map(|orphan| ListLine::Orphan(row, orphan)));
            }
            lines.extend(records.iter().flat_map(|record| [ListLine::Record(record), ListLine::Reason(record)]));
            lines.extend(strangers().map(ListLine::Stranger));
        }
        lines
    }

    /// Returns the group that a session stands in.
    pub fn group(&self, row: &SessionRow) -> Group {
        match row {
            row if self.is_orphan(&row.session) => Group::Orphans,
            row if row.adopted => Group::Adopted,
            row => Group::Of(row.kind),
        }
    }

    /// Returns the servers that are none of ours.
    pub fn strangers(&self) -> &[OtherServer] {
        &self.strangers
    }

    /// Returns one of them by its process.
    pub fn stranger(&self, pid: Pid) -> Option<&OtherServer> {
        self.strangers.iter().find(|row| row.pid == pid)
    }

    /// Takes in the servers that are none of ours.
    pub(in super::super) fn replace_strangers(&mut self, strangers: Vec<OtherServer>) {
        self.strangers = strangers;
    }

    /// Tells whether a session has no manager, or a stop has left something of it.
    pub fn is_orphan(&self, id: &str) -> bool {
        self.orphans.contains_key(id)
    }

    /// Returns what was left alive on purpose of a session, where nobody else is left of it.
    pub(in super::super) fn kept(&self, id: &str) -> Option<Vec<&str>> {
        self.orphans.get(id)?.kept()
    }

    /// Takes in which sessions are orphans, and the records that are left alone.
    pub(in super::super) fn replace_orphans(&mut self, orphans: Vec<Orphan>, quarantined: Vec<Quarantined>) {
        self.orphans = orphans.into_iter().map(|orphan| (orphan.row.session.clone(), orphan)).collect();
        self.quarantined = quarantined;
        self.sort();
    }

    /// By group, then by arrival.
    fn sort(&mut self) {
        let (arrival, orphans) = (&self.arrival, &self.orphans);
        self.rows.sort_by_key(|row| {
            let last = orphans.contains_key(&row.session);
            // Adopted sessions stand together, whatever they are.
            let kind = (!row.adopted).then_some(row.kind);
            (last, kind.is_none(), kind, arrival.get(&row.session).copied())
        });
    }

    /// Gives a session the place of the one that it follows.
    pub(in super::super) fn follow(&mut self, heir: &str, session: &str) {
        if let Some(place) = self.arrival.get(session).copied() {
            self.arrival.insert(heir.to_owned(), place);
            self.sort();
        }
    }

    /// Takes in what there is now. New sessions come behind those of their kind that were there
    /// before, the older of two new ones first.
    pub(in crate::app) fn replace(&mut self, mut rows: Vec<SessionRow>) {
        rows.sort_by(|a, b| match (a.uptime_s, b.uptime_s) {
            (Some(a), Some(b)) => b.total_cmp(&a),
            (Some(_) | None, None) | (None, Some(_)) => Ordering::Equal,
        });
        let arrivals = self.arrivals;
        let stays = |id: &str| rows.iter().any(|row| row.session == id);
        self.arrival.retain(|id, at| stays(id) || *at + REMEMBERED > arrivals);
        for row in &rows {
            if !self.arrival.contains_key(&row.session) {
                self.arrivals += 1;
                self.arrival.insert(row.session.clone(), self.arrivals);
            }
        }
        self.has_gpu |= rows.iter().any(|row| row.gpu_bytes.is_some());
        self.rows = rows;
        self.sort();
        self.rows.dedup_by(|a, b| a.session == b.session);
    }
}
