//! The parts a history is built of: pages of lines, and one line with its rows at some width.
//!
//! Called by the history alone. Never evicts and never counts beyond one page.

use std::ops::Range;

use crate::pty::screen::cell::{self, CellStyle};

/// A page takes no further line once it holds this much.
const PAGE_TEXT: usize = 32 * 1024;
const PAGE_LINES: usize = 256;

/// So many bytes of a line are in this style.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) len: u16,
    pub(crate) style: CellStyle,
}

/// Where a line ends in its page, and what is known of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    pub(super) text_end: u32,
    pub(super) runs_end: u32,
    pub(super) cols: u32,
    /// Rows at the present width.
    pub(super) rows: u32,
    /// The next line carries this one on.
    pub(super) joined: bool,
    /// Has cells of two columns.
    pub(super) wide: bool,
}

impl Line {
    pub(super) const COST: usize = size_of::<Self>();
}

/// Lines that lie one after the other.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) text: String,
    pub(super) runs: Vec<Run>,
    pub(super) lines: Vec<Line>,
    /// Rows of the lines that were not evicted.
    pub(super) rows: usize,
}

impl Page {
    pub(super) fn is_full(&self) -> bool {
        self.text.len() >= PAGE_TEXT || self.lines.len() >= PAGE_LINES
    }

    pub(super) fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.runs.shrink_to_fit();
        self.lines.shrink_to_fit();
    }

    pub(super) fn reset(&mut self) {
        self.text.clear();
        self.runs.clear();
        self.lines.clear();
        self.rows = 0;
    }

    /// Returns where the text and the runs of a line start.
    pub(super) fn starts(&self, index: usize) -> (usize, usize) {
        let before = index.checked_sub(1).and_then(|before| self.lines.get(before));
        before.map_or((0, 0), |line| (line.text_end as usize, line.runs_end as usize))
    }

    pub(super) fn text_end(&self) -> usize {
        self.starts(self.lines.len()).0
    }

    /// Forgets text and runs behind the last line.
    pub(super) fn discard_unended(&mut self) {
        let (text, runs) = self.starts(self.lines.len());
        self.text.truncate(text);
        self.runs.truncate(runs);
    }

    /// Returns a line without columns that ends where the page ends.
    pub(super) fn empty_line(&self) -> Line {
        let end = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        Line { text_end: end(self.text.len()), runs_end: end(self.runs.len()), ..Line::default() }
    }

    /// Returns what a line costs of the limit in bytes.
    pub(super) fn cost(&self, index: usize) -> usize {
        let (text, runs) = self.starts(index);
        let line = &self.lines[index];
        Line::COST + line.text_end as usize - text + (line.runs_end as usize - runs) * size_of::<Run>()
    }

    /// Counts rows anew for a width, leaving out the first `gone` lines.
    pub(super) fn rewrap(&mut self, width: u16, gone: usize) {
        self.rows = 0;
        let mut start = 0;
        for (index, line) in self.lines.iter_mut().enumerate() {
            let end = line.text_end as usize;
            line.rows = count_rows(&self.text[start..end], line.cols, line.wide, width);
            start = end;
            if index >= gone {
                self.rows += line.rows as usize;
            }
        }
    }

    pub(super) fn view(&self, index: usize) -> LineView<'_> {
        let (text, runs) = self.starts(index);
        let line = &self.lines[index];
        LineView {
            text: &self.text[text..line.text_end as usize],
            runs: &self.runs[runs..line.runs_end as usize],
            cols: line.cols,
            rows: line.rows as usize,
            joined: line.joined,
        }
    }
}

/// Appends `len` bytes of a style to the runs of a line, which start at `first`.
pub(super) fn extend_runs(runs: &mut Vec<Run>, first: usize, len: usize, style: CellStyle) {
    let mut left = len;
    if runs.len() > first
        && let Some(last) = runs.last_mut()
        && last.style == style
    {
        let some = left.min(usize::from(u16::MAX - last.len));
        last.len += short(some);
        left -= some;
    }
    while left > 0 {
        let some = left.min(usize::from(u16::MAX));
        runs.push(Run { len: short(some), style });
        left -= some;
    }
}

fn short(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

/// Returns the rows that text of `cols` columns takes; an empty line takes one.
pub(super) fn count_rows(text: &str, cols: u32, wide: bool, width: u16) -> u32 {
    if wide {
        u32::try_from(RowRanges::new(text, false, width).count()).unwrap_or(u32::MAX)
    } else {
        cols.div_ceil(u32::from(width)).max(1)
    }
}

/// One line, to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineView<'a> {
    pub(super) text: &'a str,
    runs: &'a [Run],
    cols: u32,
    pub(super) rows: usize,
    pub(super) joined: bool,
}

/// A row that was taken out of the history, to be drawn on a screen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TakenRow {
    pub(crate) text: String,
    /// Styles from the beginning; what they do not cover is in the default style.
    pub(crate) runs: Vec<Run>,
    pub(crate) cols: u16,
    /// The next row carries this one on.
    pub(crate) wrapped: bool,
}

impl<'a> LineView<'a> {
    /// Returns whether every byte is a cell of one column.
    fn is_ascii(&self) -> bool {
        self.cols as usize == self.text.len()
    }

    fn ranges(&self, width: u16) -> RowRanges<'a> {
        RowRanges::new(self.text, self.is_ascii(), width)
    }

    /// Returns the bytes of a row; none for a row that is not there.
    pub(super) fn row_range(&self, nth: usize, width: u16) -> Range<usize> {
        if self.is_ascii() {
            let start = nth.saturating_mul(usize::from(width)).min(self.text.len());
            return start..(start + usize::from(width)).min(self.text.len());
        }
        self.ranges(width).nth(nth).unwrap_or(0..0)
    }

    /// Returns the styles of a part of the line, as runs from its beginning.
    fn runs_in(&self, range: &Range<usize>) -> Vec<Run> {
        let mut out = Vec::new();
        let mut at = 0;
        for run in self.runs {
            let end = at + usize::from(run.len);
            let overlap = end.min(range.end).saturating_sub(at.max(range.start));
            extend_runs(&mut out, 0, overlap, run.style);
            at = end;
        }
        out
    }

    /// Returns all rows as texts of their own.
    pub(super) fn taken_rows(&self, width: u16) -> Vec<TakenRow> {
        let mut rows: Vec<_> = self
            .ranges(width)
            .map(|range| {
                let text = self.text[range.clone()].to_owned();
                let cols = cell::cells(&text).map(|(_, width)| u16::from(width)).sum();
                TakenRow { text, runs: self.runs_in(&range), cols, wrapped: true }
            })
            .collect();
        if let Some(last) = rows.last_mut() {
            last.wrapped = self.joined;
        }
        rows
    }

    /// Visits the cells of a row and returns the columns they take.
    pub(super) fn visit_row(&self, nth: usize, width: u16, visit: &mut dyn FnMut(u16, &str, u8, CellStyle)) -> u16 {
        let range = self.row_range(nth, width);
        let mut runs = self.runs.iter();
        let mut run_end = 0;
        let mut style = CellStyle::default();
        let mut at = range.start;
        let mut col = 0;
        for (text, width) in cell::cells(&self.text[range]) {
            while run_end <= at {
                let Some(run) = runs.next() else {
                    (style, run_end) = (CellStyle::default(), usize::MAX);
                    break;
                };
                style = run.style;
                run_end += usize::from(run.len);
            }
            visit(col, cell::shown(text), width, style);
            at += text.len();
            col += u16::from(width);
        }
        col
    }

    /// Returns the row of this line and the column in it at which a column of the line is shown.
    pub(super) fn place(&self, column: u32, width: u16) -> (usize, u16) {
        let mut behind = (0, 0, 0);
        for (row, range) in self.ranges(width).enumerate() {
            let start = behind.1;
            let mut end = start;
            for (_, cell_width) in cell::cells(&self.text[range]) {
                let next = end + u32::from(cell_width);
                if column < next {
                    return (row, narrow(column - start));
                }
                end = next;
            }
            behind = (row, end, start);
        }
        let (row, end, start) = behind;
        let col = narrow(column - start);
        (row, if column == end { col } else { col.min(width - 1) })
    }
}

fn narrow(column: u32) -> u16 {
    u16::try_from(column).unwrap_or(u16::MAX)
}

/// The rows of a line at some width, as ranges of bytes; at least one.
struct RowRanges<'a> {
    text: &'a str,
    ascii: bool,
    width: u16,
    at: usize,
    begun: bool,
}

impl<'a> RowRanges<'a> {
    fn new(text: &'a str, ascii: bool, width: u16) -> Self {
        Self { text, ascii, width, at: 0, begun: false }
    }
}

impl Iterator for RowRanges<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.text.len() && self.begun {
            return None;
        }
        self.begun = true;
        let start = self.at;
        if self.ascii {
            self.at = (start + usize::from(self.width)).min(self.text.len());
        } else {
            let mut cols = 0;
            for (text, width) in cell::cells(&self.text[start..]) {
                cols += u16::from(width);
                if cols > self.width {
                    break;
                }
                self.at += text.len();
            }
        }
        Some(start..self.at)
    }
}
