//! The text of a terminal as it was at one moment, history and all: what is searched, selected and copied holds
//! still, however much is printed meanwhile. Pure.

use regex::Regex;

use crate::pty::screen::{CellStyle, Screen};

/// A place in a frozen terminal: row from the oldest, and column, from 0.
pub(super) type Place = (usize, u16);

/// One row. Blanks at the end of a line are cut.
#[derive(Clone, Debug, Default, PartialEq)]
struct Row {
    text: String,
    /// Length in bytes and width in columns of each cell; empty where all are 1 and 1.
    cells: Vec<(u8, u8)>,
    /// From which column on which style holds.
    styles: Vec<(u16, CellStyle)>,
    /// The terminal wrapped it: the next row carries its line on.
    wrapped: bool,
}

impl Row {
    /// Calls `visit` for each cell: column, text, width.
    fn visit(&self, visit: &mut dyn FnMut(u16, &str, u8)) {
        let (mut at, mut column) = (0, 0);
        let count = if self.cells.is_empty() { self.text.len() } else { self.cells.len() };
        for index in 0..count {
            let (bytes, width) = self.cells.get(index).copied().unwrap_or((1, 1));
            visit(column, &self.text[at..at + usize::from(bytes)], width);
            at += usize::from(bytes);
            column += u16::from(width);
        }
    }
}

/// A terminal that holds still.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frozen {
    /// Whose.
    pub session: String,
    rows: Vec<Row>,
}

impl Frozen {
    /// Takes in a terminal as it is now.
    pub(in super::super) fn take(session: &str, screen: &Screen) -> Self {
        let (history, size) = (screen.history_rows(), screen.size());
        let places = (0..history).map(|row| (history - row, 0)).chain((0..size.rows).map(|row| (0, row)));
        let rows = places.zip(screen.wrapped_rows()).map(|(place, held)| one_row(screen, place, held)).collect();
        Self { session: session.to_owned(), rows }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Tells whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the number of columns that a row fills.
    pub fn columns(&self, row: usize) -> u16 {
        let mut end = 0;
        if let Some(row) = self.rows.get(row) {
            row.visit(&mut |column, _, width| end = column + u16::from(width));
        }
        end
    }

    /// Calls `visit` for the cells of a row: column, text, width, style.
    pub fn visit(&self, row: usize, visit: &mut dyn FnMut(u16, &str, u8, CellStyle)) {
        let Some(row) = self.rows.get(row) else { return };
        let mut styles = row.styles.iter().peekable();
        let mut style = CellStyle::default();
        row.visit(&mut |column, text, width| {
            while let Some((_, next)) = styles.next_if(|(from, _)| *from <= column) {
                style = *next;
            }
            visit(column, text, width, style);
        });
    }

    /// Returns the first and the last row of the line that a row belongs to.
    pub fn line(&self, row: usize) -> (usize, usize) {
        let goes_on = |row: &usize| self.rows.get(*row).is_some_and(|row| row.wrapped);
        let above = (0..row).rev().take_while(goes_on).count();
        let below = (row..self.rows.len()).take_while(goes_on).count();
        (row - above, row + below)
    }

    /// Returns the text between two places, both included; rows that the terminal wrapped are one line.
    pub fn text(&self, from: Place, to: Place) -> String {
        let (from, to) = if from <= to { (from, to) } else { (to, from) };
        let mut text = String::new();
        for at in from.0..=to.0.min(self.rows.len().saturating_sub(1)) {
            let row = &self.rows[at];
            let first = if at == from.0 { from.1 } else { 0 };
            let last = if at == to.0 { to.1 } else { u16::MAX };
            row.visit(&mut |column, cell, width| {
                // Half of a wide character is all of it.
                if column + u16::from(width) > first && column <= last {
                    text.push_str(cell);
                }
            });
            if at < to.0 && !row.wrapped {
                text.truncate(text.trim_end_matches(' ').len());
                text.push('\n');
            }
        }
        text
    }

    /// Returns all of it, for an editor.
    pub fn all(&self) -> String {
        let mut text = self.text((0, 0), (self.rows.len().saturating_sub(1), u16::MAX));
        text.truncate(text.trim_end().len());
        text.push('\n');
        text
    }

    /// Finds the last `limit` matches of a pattern in the lines, however they are wrapped: from which place up to which,
    /// the last one excluded. Tells whether there are more above them.
    pub(super) fn find(&self, pattern: &Regex, limit: usize) -> (Vec<(Place, Place)>, bool) {
        let mut found = Vec::new();
        let (mut line, mut places) = (String::new(), Vec::new());
        let mut below = self.rows.len();
        while below > 0 {
            let first = (0..below - 1).rev().find(|row| !self.rows[*row].wrapped).map_or(0, |row| row + 1);
            let mut end = (first, 0);
            for (at, row) in self.rows.iter().enumerate().take(below).skip(first) {
                end = (at, 0);
                row.visit(&mut |column, cell, width| {
                    places.push((line.len(), (at, column)));
                    line.push_str(cell);
                    end = (at, column + u16::from(width));
                });
            }
            let place = |byte: usize| {
                let next = places.partition_point(|(start, _)| *start < byte);
                places.get(next).map_or(end, |(_, place)| *place)
            };
            let hits: Vec<_> = pattern.find_iter(&line).filter(|hit| !hit.is_empty()).collect();
            for hit in hits.iter().rev() {
                if found.len() == limit {
                    found.reverse();
                    return (found, true);
                }
                found.push((place(hit.start()), place(hit.end())));
            }
            line.clear();
            places.clear();
            below = first;
        }
        found.reverse();
        (found, false)
    }
}

/// Takes in one row; `held` is how many columns of its line it holds where the terminal wrapped it.
fn one_row(screen: &Screen, (offset, index): (usize, u16), held: Option<u16>) -> Row {
    let mut row = Row { wrapped: held.is_some(), ..Row::default() };
    let (mut plain, mut used) = (true, (0, 0));
    screen.visit_row(offset, index, &mut |column, text, width, style| {
        let text = if text.is_empty() { " " } else { text };
        let bytes = u8::try_from(text.len()).unwrap_or(u8::MAX);
        let text = if bytes == u8::MAX { "?" } else { text };
        let bytes = if bytes == u8::MAX { 1 } else { bytes };
        plain &= (bytes, width) == (1, 1);
        row.text.push_str(text);
        row.cells.push((bytes, width.max(1)));
        if row.styles.last().map_or(CellStyle::default(), |(_, last)| *last) != style {
            row.styles.push((column, style));
        }
        if held.map_or(text != " " || style != CellStyle::default(), |held| column < held) {
            used = (row.text.len(), row.cells.len());
        }
    });
    row.text.truncate(used.0);
    row.cells.truncate(used.1);
    if plain {
        row.cells = Vec::new();
    }
    row
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::pty::screen::{HistoryLimit, Size};

    fn frozen(cols: u16, output: &str) -> Frozen {
        let mut screen = Screen::new(Size::clamped(3, cols), HistoryLimit::default());
        screen.process(output.replace('\n', "\r\n").as_bytes());
        Frozen::take("s", &screen)
    }

    #[test]
    fn wrapped_lines_are_copied_whole() {
        let frozen = frozen(10, "0123456789abcdefghijXYZ\n\nnext line\n界界界界界界end\nlast");
        let all = frozen.all();
        assert_eq!(all, "0123456789abcdefghijXYZ\n\nnext line\n界界界界界界end\nlast\n");
        assert_eq!(frozen.text((0, 8), (1, 1)), "89ab");
        assert_eq!(frozen.text((1, 1), (0, 8)), "89ab");
        // Half of a wide character is all of it.
        let wide = (0..frozen.len()).find(|row| frozen.text((*row, 0), (*row, 9)).contains('界')).unwrap();
        assert_eq!(frozen.text((wide, 1), (wide, 2)), "界界");
    }

    /// Whatever the width, whether it is in the history or on the screen: a blank at the end of a row is one of the
    /// line, what a wide character leaves there is none.
    #[test]
    fn a_line_is_the_same_at_every_width() {
        let text = "hello wide 界面 world  and 全角 blanks, cafe\u{301} at the end";
        let across = Regex::new("界面 world {2}and").unwrap();
        for cols in 2..=60 {
            let frozen = frozen(cols, &format!("before\n{text}\nafter\n1\n2"));
            assert_eq!(frozen.all(), format!("before\n{text}\nafter\n1\n2\n"), "{cols}");
            let all = (0, frozen.len() - 1);
            for row in all.0..=all.1 {
                let (first, last) = frozen.line(row);
                assert!((first..=last).contains(&row));
                let line = frozen.text((first, 0), (last, u16::MAX));
                assert!(["before", text, "after", "1", "2"].contains(&line.trim_end()), "{cols} {row} {line:?}");
            }
            assert_eq!(frozen.find(&across, 10).0.len(), 1, "{cols}");
        }
    }

    #[test]
    fn a_match_may_cross_a_wrap() {
        let frozen = frozen(10, "0123456789abcdef\nabc 89ab");
        let pattern = Regex::new("9a").unwrap();
        let all = vec![((0, 9), (1, 1)), ((2, 5), (2, 7))];
        assert_eq!(frozen.find(&pattern, 2), (all.clone(), false));
        assert_eq!(frozen.find(&pattern, 1), (all[1..].to_vec(), true), "the last ones are kept");
        assert_eq!(frozen.find(&Regex::new("x*").unwrap(), 10), (Vec::new(), false), "nothing is no match");
    }

    /// Within a line as well, and in the order of the text.
    #[test]
    fn the_last_matches_are_kept() {
        let frozen = frozen(10, "aaa\naaaaaaaaaaaaa\nb\naa");
        let pattern = Regex::new("a").unwrap();
        let (all, cut) = frozen.find(&pattern, 100);
        assert!(all.len() == 18 && all.is_sorted() && !cut, "{all:?}");
        for limit in 0..=18 {
            assert_eq!(frozen.find(&pattern, limit), (all[18 - limit..].to_vec(), limit < 18), "{limit}");
        }
    }

    #[test]
    fn styles_are_kept() {
        let frozen = frozen(20, "ab\x1b[1mcd\x1b[0mef");
        let mut bold = String::new();
        frozen.visit(0, &mut |_, text, _, style| bold.push_str(if style.bold { text } else { "." }));
        assert_eq!(bold, "..cd..");
    }
}
