//! Scrollback: the lines that left a screen at its top, compact and bounded.
//!
//! Written by the screen alone, row by row; read by it for the view, for text and for reflow. A line is a
//! logical line: rows that the terminal wrapped are joined, so the history is wrapped anew for whatever width
//! it is looked at. Lines lie one after the other in pages: one string of text, one list of style runs, one
//! list of ends. The history never parses terminal output and never knows what is on the screen.

mod line;

use std::collections::VecDeque;

pub(crate) use self::line::TakenRow;
use self::line::{Line, LineView, Page};
use crate::pty::screen::cell::{self, CellStyle};

/// How much a history may hold; the oldest lines go first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HistoryLimit {
    /// Lines, counted before wrapping.
    pub lines: usize,
    /// Bytes of text, styles and bookkeeping.
    pub bytes: usize,
}

impl Default for HistoryLimit {
    fn default() -> Self {
        Self { lines: 10_000, bytes: 8 * 1024 * 1024 }
    }
}

/// A line this long (bytes) is carried on in a new one, marked as joined to it, so that no operation on one
/// line is expensive and a line without an end can be evicted from its beginning.
const LINE_FULL: usize = 8 * 1024;

/// The lines of one screen that scrolled away.
///
/// Writing a row is `begin_row`, any number of `push*`, `end_row`. The text of a row that was begun and
/// never ended (the emulator panicked) is forgotten by the next `begin_row`.
#[derive(Debug)]
pub(crate) struct History {
    full: VecDeque<Page>,
    page: Page,
    /// Lines of the oldest page that were evicted already.
    gone: usize,
    limit: HistoryLimit,
    width: u16,
    lines: usize,
    rows: usize,
    bytes: usize,
    held: bool,
    draft: Draft,
}

/// The line that is being written.
#[derive(Debug, Default)]
struct Draft {
    text_start: usize,
    runs_start: usize,
    /// Bytes from `text_start` that have a run; the rest is in the default style.
    covered: usize,
    cols: u32,
    wide: bool,
    /// Fillers seen and not yet followed by text.
    fillers: usize,
    /// Bytes and columns of the last cell of this row; 0 when there is none.
    last_cell: usize,
    last_width: u8,
}

impl History {
    pub(crate) fn new(limit: HistoryLimit, width: u16) -> Self {
        Self {
            full: VecDeque::new(),
            page: Page::default(),
            gone: 0,
            limit,
            width: width.max(2),
            lines: 0,
            rows: 0,
            bytes: 0,
            held: false,
            draft: Draft::default(),
        }
    }

    /// Returns the number of lines, before wrapping.
    pub(crate) fn lines(&self) -> usize {
        self.lines
    }

    /// Returns the number of rows at the present width.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the bytes that count against the limit.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the limit and evicts what is over it.
    pub(crate) fn set_limit(&mut self, limit: HistoryLimit) {
        self.limit = limit;
        self.evict();
    }

    /// Wraps all lines for another width.
    pub(crate) fn set_width(&mut self, width: u16) {
        let width = width.max(2);
        if width == self.width {
            return;
        }
        self.width = width;
        let mut gone = self.gone;
        self.rows = 0;
        for page in self.full.iter_mut().chain([&mut self.page]) {
            page.rewrap(width, gone);
            self.rows += page.rows;
            gone = 0;
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        let held = self.held;
        *self = Self { held, ..Self::new(self.limit, self.width) };
    }

    /// Suspends eviction (`true`) while rows travel between screen and history, and makes up for it (`false`).
    pub(crate) fn hold(&mut self, held: bool) {
        self.held = held;
        self.evict();
    }

    /// Ends the last line, so that the next row starts a new one even if the last was soft-wrapped.
    pub(crate) fn close(&mut self) {
        if let Some(line) = self.page.lines.last_mut() {
            line.joined = false;
        }
    }

    /// Returns whether the last line goes on with the next row.
    pub(crate) fn is_open(&self) -> bool {
        self.lines > 0 && self.page.lines.last().is_some_and(|line| line.joined)
    }

    // ---- writing ----

    /// Starts a row: the continuation of an open line, or a new line.
    pub(crate) fn begin_row(&mut self) {
        let continued = self.is_open().then(|| self.page.lines.len() - 1).filter(|last| {
            let (start, _) = self.page.starts(*last);
            self.page.text_end() - start < LINE_FULL
        });
        match continued {
            Some(last) => {
                self.page.discard_unended();
                let (text_start, runs_start) = self.page.starts(last);
                let line = self.page.lines[last];
                let covered = self.page.runs[runs_start..].iter().map(|run| usize::from(run.len)).sum();
                self.draft =
                    Draft { text_start, runs_start, covered, cols: line.cols, wide: line.wide, ..Draft::default() };
            }
            None => self.begin_line(),
        }
    }

    fn begin_line(&mut self) {
        self.page.discard_unended();
        if self.page.is_full() {
            let mut page = std::mem::take(&mut self.page);
            page.shrink();
            self.full.push_back(page);
        }
        let line = Line { rows: 1, ..self.page.empty_line() };
        self.draft = Draft { text_start: self.page.text_end(), runs_start: self.page.runs.len(), ..Draft::default() };
        self.page.lines.push(line);
        self.page.rows += 1;
        self.lines += 1;
        self.rows += 1;
        self.bytes += Line::COST;
    }

    /// Returns the columns of the line so far; meaningful after `begin_row`.
    pub(crate) fn draft_cols(&self) -> u32 {
        self.draft.cols
    }

    /// Appends one cell: its whole text, its columns, its style. Fillers at the end of a row are dropped.
    pub(crate) fn push(&mut self, text: &str, width: u8, style: CellStyle) {
        if cell::is_filler(text) {
            self.draft.fillers += 1;
            return;
        }
        self.append(text, u32::from(width), style);
        self.draft.wide |= width > 1;
        self.draft.last_cell = text.len();
        self.draft.last_width = width;
    }

    /// Appends blank cells.
    pub(crate) fn push_blanks(&mut self, count: usize, style: CellStyle) {
        const BLANKS: &str = "                                ";
        let mut left = count;
        while left > 0 {
            let some = left.min(BLANKS.len());
            self.push_ascii(&BLANKS[..some], style);
            left -= some;
        }
    }

    /// Appends printable ASCII, one cell a byte.
    pub(crate) fn push_ascii(&mut self, text: &str, style: CellStyle) {
        if text.is_empty() {
            return;
        }
        self.append(text, u32::try_from(text.len()).unwrap_or(u32::MAX), style);
        self.draft.last_cell = 1;
        self.draft.last_width = 1;
    }

    /// Appends text as the emulator would print it: combining characters join the cell before them, and are
    /// dropped where there is none or it is full.
    pub(crate) fn push_text(&mut self, text: &str, style: CellStyle) {
        for c in text.chars() {
            let mut buffer = [0; 4];
            let encoded = c.encode_utf8(&mut buffer);
            match cell::char_width(c) {
                0 => self.combine(c, encoded),
                width => self.push(encoded, width, style),
            }
        }
    }

    fn combine(&mut self, c: char, encoded: &str) {
        if self.draft.last_cell == 0 || self.draft.last_cell >= cell::CELL_FULL {
            return;
        }
        // The cell keeps the style it was printed in, which is that of the last run if that run reaches here.
        let reached = self.draft.text_start + self.draft.covered == self.page.text.len();
        let style = match self.page.runs[self.draft.runs_start..].last() {
            Some(run) if reached => run.style,
            Some(_) | None => CellStyle::default(),
        };
        self.append(encoded, 0, style);
        self.draft.last_cell += encoded.len();
        if cell::changes_width(c) {
            let start = self.page.text.len() - self.draft.last_cell;
            let width = cell::presented_width(&self.page.text[start..]);
            self.draft.cols = self.draft.cols - u32::from(self.draft.last_width) + u32::from(width);
            self.draft.last_width = width;
            self.draft.wide |= width > 1;
        }
    }

    fn append(&mut self, text: &str, cols: u32, style: CellStyle) {
        if self.draft.fillers > 0 {
            let fillers = std::mem::take(&mut self.draft.fillers);
            self.push_blanks(fillers, CellStyle::default());
        }
        let at = self.page.text.len() - self.draft.text_start;
        if style != CellStyle::default() {
            self.cover(at, text.len(), style);
        }
        self.page.text.push_str(text);
        self.draft.cols = self.draft.cols.saturating_add(cols);
    }

    /// Gives the style to `len` bytes at `at`, and the default style to what lies between the last run and it.
    fn cover(&mut self, at: usize, len: usize, style: CellStyle) {
        let first = self.draft.runs_start;
        if at > self.draft.covered {
            line::extend_runs(&mut self.page.runs, first, at - self.draft.covered, CellStyle::default());
        }
        line::extend_runs(&mut self.page.runs, first, len, style);
        self.draft.covered = at + len;
    }

    /// Ends a row: `wrapped` says that the terminal wrapped it, so the next row carries the line on.
    pub(crate) fn end_row(&mut self, wrapped: bool) {
        if !wrapped {
            self.trim();
        }
        let draft = std::mem::take(&mut self.draft);
        let Some(index) = self.page.lines.len().checked_sub(1) else { return };
        let old = self.page.lines[index];
        let old_cost = self.page.cost(index);
        let mut line = Line { cols: draft.cols, joined: wrapped, wide: draft.wide, ..self.page.empty_line() };
        // A row of the screen is one row here too; only what may be longer or was trimmed is counted.
        line.rows = if wrapped && draft.cols.saturating_sub(old.cols) <= u32::from(self.width) {
            u32::from(old.joined) * old.rows + 1
        } else {
            line::count_rows(&self.page.text[draft.text_start..], line.cols, line.wide, self.width)
        };
        self.page.lines[index] = line;
        self.bytes = self.bytes + self.page.cost(index) - old_cost;
        self.rows = self.rows + line.rows as usize - old.rows as usize;
        self.page.rows = self.page.rows + line.rows as usize - old.rows as usize;
        self.evict();
    }

    /// Cuts blanks that cannot be seen from the end of the line.
    fn trim(&mut self) {
        let floor = self.draft.text_start;
        let page = &mut self.page;
        while page.text.len() > floor && page.text.ends_with(' ') {
            let at = page.text.len() - self.draft.text_start;
            if at <= self.draft.covered {
                let Some(run) = page.runs[self.draft.runs_start..].last_mut() else { return };
                if run.style.shows_on_blank() {
                    return;
                }
                run.len -= 1;
                self.draft.covered -= 1;
                if run.len == 0 {
                    page.runs.pop();
                }
            }
            page.text.pop();
            self.draft.cols = self.draft.cols.saturating_sub(1);
        }
    }

    fn evict(&mut self) {
        if self.held {
            return;
        }
        while self.lines > 0 && (self.lines > self.limit.lines || self.bytes > self.limit.bytes) {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        let page = self.full.front_mut().unwrap_or(&mut self.page);
        let Some(line) = page.lines.get(self.gone).copied() else { return };
        self.bytes -= page.cost(self.gone);
        page.rows -= line.rows as usize;
        self.rows -= line.rows as usize;
        self.lines -= 1;
        self.gone += 1;
        if self.gone == page.lines.len() {
            self.gone = 0;
            if self.full.pop_front().is_none() {
                self.page.reset();
            }
        }
    }

    // ---- taking rows back ----

    /// Removes the last `count` rows and returns them in order. A line that is cut keeps its beginning here.
    pub(crate) fn take_rows(&mut self, count: usize) -> Vec<TakenRow> {
        let mut reversed = Vec::with_capacity(count.min(self.rows));
        while reversed.len() < count && self.lines > 0 {
            let wanted = count - reversed.len();
            let Some(view) = self.lines_rev().next() else { break };
            let mut rows = view.taken_rows(self.width);
            let kept = rows.len().saturating_sub(wanted);
            self.pop_line();
            if kept > 0 {
                self.put_back(&rows[..kept]);
            }
            reversed.extend(rows.drain(kept..).rev());
        }
        reversed.reverse();
        reversed
    }

    fn put_back(&mut self, rows: &[TakenRow]) {
        self.begin_line();
        for row in rows {
            let mut at = 0;
            for run in &row.runs {
                let end = at + usize::from(run.len);
                self.push_text(&row.text[at..end], run.style);
                at = end;
            }
            self.push_text(&row.text[at..], CellStyle::default());
        }
        self.end_row(true);
    }

    fn pop_line(&mut self) {
        if self.lines == 0 {
            return;
        }
        if self.page.lines.is_empty() {
            self.page = self.full.pop_back().unwrap_or_default();
        }
        let Some(index) = self.page.lines.len().checked_sub(1) else { return };
        self.bytes -= self.page.cost(index);
        let rows = self.page.lines[index].rows as usize;
        self.page.lines.truncate(index);
        self.page.rows -= rows;
        self.rows -= rows;
        self.lines -= 1;
        self.page.discard_unended();
        if self.page.lines.is_empty() {
            self.page = self.full.pop_back().unwrap_or_default();
        }
        if self.lines == 0 {
            self.page.reset();
            self.gone = 0;
        }
    }

    // ---- reading ----

    fn lines_rev(&self) -> impl Iterator<Item = LineView<'_>> {
        std::iter::once(&self.page)
            .chain(self.full.iter().rev())
            .flat_map(|page| (0..page.lines.len()).rev().map(|index| page.view(index)))
            .take(self.lines)
    }

    fn find_row(&self, row: usize) -> Option<(LineView<'_>, usize)> {
        // Counted from the end: what is looked at is mostly near it.
        let mut left = self.rows.checked_sub(row).filter(|left| *left > 0)?;
        for page in std::iter::once(&self.page).chain(self.full.iter().rev()) {
            if page.rows < left {
                left -= page.rows;
                continue;
            }
            for index in (0..page.lines.len()).rev() {
                let rows = page.lines[index].rows as usize;
                if rows >= left {
                    return Some((page.view(index), rows - left));
                }
                left -= rows;
            }
        }
        None
    }

    /// Visits the cells of a row (0 = the oldest) and returns the columns they take.
    pub(crate) fn visit_row(&self, row: usize, visit: &mut dyn FnMut(u16, &str, u8, CellStyle)) -> u16 {
        self.find_row(row).map_or(0, |(line, nth)| line.visit_row(nth, self.width, visit))
    }

    /// Returns the text of a row (0 = the oldest) without trailing blanks.
    pub(crate) fn row_text(&self, row: usize) -> String {
        let text = self.find_row(row).map_or("", |(line, nth)| &line.text[line.row_range(nth, self.width)]);
        text.trim_end_matches(' ').to_owned()
    }

    /// Returns the row and column at which a column of a line (0 = the oldest) is shown at the present width.
    /// Directly behind a last row that is full the column is the width; further out it is clamped.
    pub(crate) fn position(&self, line: usize, column: u32) -> (usize, u16) {
        let Some(back) = self.lines.checked_sub(line + 1) else { return (self.rows, 0) };
        let mut after = 0;
        for (index, view) in self.lines_rev().enumerate() {
            after += view.rows;
            if index == back {
                let (row, col) = view.place(column, self.width);
                return (self.rows - after + row, col);
            }
        }
        (0, 0)
    }

    /// Returns of each row how many columns of its line it holds, where the next row carries the line on.
    pub(crate) fn wrapped_rows(&self) -> Vec<Option<u16>> {
        let mut rows = Vec::with_capacity(self.rows);
        let mut skip = self.gone;
        for page in self.full.iter().chain([&self.page]) {
            for view in (skip..page.lines.len()).map(|index| page.view(index)) {
                let goes_on = |nth| nth + 1 < view.rows || view.joined;
                let columns = |nth| goes_on(nth).then(|| view.visit_row(nth, self.width, &mut |_, _, _, _| {}));
                rows.extend((0..view.rows).map(columns));
            }
            skip = 0;
        }
        rows
    }

    /// Appends all lines to `out`, each without trailing blanks; the last only if it is ended. Returns the
    /// text of a last line that is open.
    pub(crate) fn logical_lines(&self, out: &mut Vec<String>) -> Option<String> {
        let mut open: Option<String> = None;
        let mut skip = self.gone;
        for page in self.full.iter().chain([&self.page]) {
            for index in skip..page.lines.len() {
                let view = page.view(index);
                let mut text = open.take().unwrap_or_default();
                text.push_str(view.text);
                if view.joined {
                    open = Some(text);
                } else {
                    text.truncate(text.trim_end_matches(' ').len());
                    out.push(text);
                }
            }
            skip = 0;
        }
        open
    }
}

#[cfg(test)]
mod tests;
