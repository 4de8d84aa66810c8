//! Looking back in a terminal: a cursor, a selection and a search over text that holds still. Pure.

use regex::{Regex, RegexBuilder};

use super::field::Field;
use super::frozen::{Frozen, Place};

/// Most matches that are kept: the last ones.
const MATCHES: usize = 10_000;
/// Largest compiled pattern, in bytes.
const PATTERN: usize = 1 << 20;

/// What a terminal is frozen for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Purpose {
    /// To move about.
    Browse,
    /// To search.
    Search,
    /// To select by the mouse: row and column of the screen where it was pressed, and where it is.
    Drag((u16, u16), (u16, u16)),
}

/// How much a selection takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// From one place to another.
    Places(Place),
    /// Whole lines, from that of a row.
    Rows(usize),
}

/// A search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Search {
    /// What is looked for: a regular expression; capitals count where there is one.
    pub line: Field,
    /// The line has the keys.
    pub typing: bool,
    /// Where the cursor was when it began.
    pub began: Place,
    /// Where it is: from which place up to which.
    pub matches: Vec<(Place, Place)>,
    /// There are more above them.
    pub cut: bool,
    /// Why there can be none.
    pub error: Option<&'static str>,
}

/// A terminal that is looked back in.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// The text.
    pub frozen: Frozen,
    /// First row that is shown.
    pub top: usize,
    /// Where the cursor is.
    pub cursor: Place,
    /// Where a selection began.
    pub selection: Option<Selection>,
    /// What was looked for.
    pub search: Option<Search>,
}

impl History {
    /// Looks at the last `height` rows, or, scrolled back, so much above.
    pub(in super::super) fn new(frozen: Frozen, height: usize, scroll: usize) -> Self {
        let top = frozen.len().saturating_sub(height + scroll);
        let last = (top + height).min(frozen.len()).saturating_sub(1);
        let used = (top..=last).rev().find(|row| frozen.columns(*row) > 0).unwrap_or(top);
        Self { frozen, top, cursor: (used, 0), selection: None, search: None }
    }

    /// Moves the cursor by rows.
    pub(in super::super) fn step(&mut self, by: isize) {
        let last = self.frozen.len().saturating_sub(1);
        self.cursor.0 = self.cursor.0.saturating_add_signed(by).min(last);
    }

    /// Moves the cursor within its row.
    pub(in super::super) fn shift(&mut self, by: i16) {
        let last = self.frozen.columns(self.cursor.0).saturating_sub(1);
        self.cursor.1 = self.cursor.1.min(last).saturating_add_signed(by).min(last);
    }

    /// Begins a selection at the cursor, or ends it.
    pub(in super::super) fn select(&mut self, rows: bool) {
        let begun = if rows { Selection::Rows(self.cursor.0) } else { Selection::Places(self.cursor) };
        self.selection = match (self.selection, begun) {
            (Some(Selection::Rows(_)), Selection::Rows(_)) | (Some(Selection::Places(_)), Selection::Places(_)) => None,
            _ => Some(begun),
        };
    }

    /// Returns the first and the last place that are selected.
    pub fn selected(&self) -> Option<(Place, Place)> {
        let (from, to) = match self.selection? {
            Selection::Places(anchor) => (anchor.min(self.cursor), anchor.max(self.cursor)),
            Selection::Rows(anchor) => self.lines(anchor.min(self.cursor.0), anchor.max(self.cursor.0)),
        };
        Some((from, to))
    }

    /// Returns what is to be copied: what is selected, else the line of the cursor.
    pub(in super::super) fn copied(&self) -> String {
        let row = self.cursor.0;
        let (from, to) = self.selected().unwrap_or_else(|| self.lines(row, row));
        let text = self.frozen.text(from, to);
        text.trim_end_matches(' ').to_owned()
    }

    /// Returns the first and the last place of the lines that rows belong to.
    fn lines(&self, first: usize, last: usize) -> (Place, Place) {
        ((self.frozen.line(first).0, 0), (self.frozen.line(last).1, u16::MAX))
    }

    /// Looks for what is typed now.
    pub(in super::super) fn look(&mut self) {
        let Some(search) = &mut self.search else { return };
        (search.matches, search.cut, search.error) = (Vec::new(), false, None);
        let text = search.line.text();
        if text.is_empty() {
            return;
        }
        match pattern(text) {
            Some(pattern) => (search.matches, search.cut) = self.frozen.find(&pattern, MATCHES),
            None => search.error = Some("no regular expression"),
        }
    }

    /// Moves to the next match, or to the one before, round the ends.
    pub(in super::super) fn hop(&mut self, forward: bool) {
        let Some(search) = &self.search else { return };
        let (first, last) = (search.matches.first(), search.matches.last());
        let hit = if forward {
            search.matches.iter().find(|(from, _)| *from > self.cursor).or(first)
        } else {
            search.matches.iter().rev().find(|(from, _)| *from < self.cursor).or(last)
        };
        if let Some((from, _)) = hit {
            self.cursor = *from;
        }
    }

    /// Moves to the match that is nearest above where the search began, as one looks for what was printed last; back
    /// there where there is none.
    pub(in super::super) fn hop_from_where_it_began(&mut self) {
        let Some(search) = &self.search else { return };
        let above = search.matches.iter().rfind(|(from, _)| from.0 <= search.began.0);
        // Above the oldest one that is kept there may be nearer ones, below it there is none.
        let other = if search.cut { search.matches.first() } else { search.matches.last() };
        self.cursor = above.or(other).map_or(search.began, |(from, _)| *from);
    }

    /// Begins a search at the cursor.
    pub(in super::super) fn begin_search(&mut self) {
        self.search = Some(Search { typing: true, began: self.cursor, ..Search::default() });
    }

    /// Returns which match the cursor is on, from 1, and how many there are; which is not known where there are more
    /// than are kept: 0.
    pub fn count(&self) -> Option<(usize, usize)> {
        let search = self.search.as_ref().filter(|search| !search.line.text().is_empty())?;
        let at = search.matches.binary_search_by_key(&self.cursor, |(from, _)| *from);
        Some((at.ok().filter(|_| !search.cut).map_or(0, |at| at + 1), search.matches.len()))
    }

    /// Keeps the cursor in view.
    pub(in super::super) fn settle(&mut self, height: usize) {
        let height = height.max(1);
        self.top = self.top.min(self.frozen.len().saturating_sub(height));
        self.top = self.top.clamp((self.cursor.0 + 1).saturating_sub(height), self.cursor.0);
    }
}

fn pattern(text: &str) -> Option<Regex> {
    let capitals = text.chars().any(char::is_uppercase);
    RegexBuilder::new(text).case_insensitive(!capitals).size_limit(PATTERN).build().ok()
}
