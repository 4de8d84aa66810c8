//! Drawing of rows into a buffer: columns, rules, clipping.
//!
//! Every text goes through `text::escape` here, whoever it comes from; nothing is drawn outside the
//! area that was given.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::super::glyph::{DOT, MORE};
use crate::text::{escape, shorten};

/// Room that is given to columns in the order of their importance.
pub(super) struct Room(pub(super) u16);

impl Room {
    /// Gives a column its width while at least so much is left beside it; else nothing.
    pub(super) fn take(&mut self, columns: u16, least: u16) -> u16 {
        if self.0 < columns + least {
            return 0;
        }
        self.0 -= columns;
        columns
    }
}

/// A row that is filled from left to right.
pub(super) struct Row<'a> {
    buffer: &'a mut Buffer,
    x: u16,
    y: u16,
    right: u16,
}

impl<'a> Row<'a> {
    /// Starts the row `index` of an area; `None` below its end.
    pub(super) fn new(buffer: &'a mut Buffer, area: Rect, index: u16) -> Option<Self> {
        let area = area.intersection(buffer.area);
        let inside = index < area.height && area.width > 0;
        inside.then(|| Self { buffer, x: area.x, y: area.y + index, right: area.right() })
    }

    /// Returns how many columns are left.
    pub(super) fn room(&self) -> u16 {
        self.right.saturating_sub(self.x)
    }

    /// Takes columns away from the right end.
    pub(super) fn reserve(&mut self, columns: u16) {
        self.right = self.right.saturating_sub(columns).max(self.x);
    }

    /// Writes text as far as it fits, then moves behind it.
    pub(super) fn put(&mut self, text: &str, style: Style) -> &mut Self {
        let text = shorten(&escape(text), usize::from(self.room()));
        self.raw(&text, style);
        self.x = (self.x + width(&text)).min(self.right);
        self
    }

    /// Writes text as far as it fits: what does not is cut after a word. Returns whether all of it did.
    pub(super) fn words(&mut self, text: &str, style: Style) -> bool {
        let text = escape(text);
        let fits = width(&text) <= self.room();
        if fits {
            self.put(&text, style);
        } else if self.room() > 0 {
            let cut = shorten(&text, usize::from(self.room()));
            self.put(&format!("{}{MORE}", after_word(&text, &cut)), style);
        }
        fits
    }

    /// Leaves columns blank.
    pub(super) fn gap(&mut self, columns: u16) -> &mut Self {
        self.x = (self.x + columns).min(self.right);
        self
    }

    /// Writes text at the left of a column, then moves behind the column.
    pub(super) fn left(&mut self, columns: u16, text: &str, style: Style) -> &mut Self {
        let columns = columns.min(self.room());
        let text = shorten(&escape(text), usize::from(columns));
        self.raw(&text, style);
        self.gap(columns)
    }

    /// Writes text at the right of a column, then moves behind the column.
    pub(super) fn right(&mut self, columns: u16, text: &str, style: Style) -> &mut Self {
        let columns = columns.min(self.room());
        let text = shorten(&escape(text), usize::from(columns));
        let pad = columns.saturating_sub(width(&text));
        self.x += pad;
        self.raw(&text, style);
        self.gap(columns - pad)
    }

    /// Repeats a character to the end of the row.
    pub(super) fn fill(&mut self, symbol: &str, style: Style) {
        let text = symbol.repeat(usize::from(self.room()));
        self.raw(&text, style);
        self.x = self.right;
    }

    fn raw(&mut self, text: &str, style: Style) {
        if self.room() > 0 {
            self.buffer.set_stringn(self.x, self.y, text, usize::from(self.room()), style);
        }
    }
}

/// Returns what was left of a text without the word that was cut, where that leaves half of it.
fn after_word<'a>(text: &str, cut: &'a str) -> &'a str {
    let head = cut.strip_suffix(MORE).unwrap_or(cut);
    let is_whole = text.strip_prefix(head).is_some_and(|rest| rest.starts_with(' '));
    let end = head.rfind(' ').filter(|end| !is_whole && end * 2 >= head.len());
    end.map_or(head, |end| &head[..end]).trim_end_matches(|c| " ,;:(.".contains(c) || DOT.contains(c))
}

/// Returns what stands before a line: the glyph where it is on, else as much room.
pub(super) fn marker(glyph: &str, is_on: bool) -> String {
    if is_on { format!("{glyph} ") } else { "  ".to_owned() }
}

/// Cuts a text in the middle, so that it takes so many columns at most: its beginning and its end stay.
pub(super) fn middle(text: &str, columns: u16) -> String {
    let room = usize::from(columns.saturating_sub(1));
    let mut tail = String::new();
    for c in text.chars().rev() {
        let longer = format!("{c}{tail}");
        if longer.width() > room / 2 {
            break;
        }
        tail = longer;
    }
    // The end of a cluster says nothing without its beginning.
    let tail = tail.trim_start_matches(|c: char| c.width().unwrap_or(0) == 0);
    format!("{}{tail}", shorten(text, usize::from(columns).saturating_sub(tail.width())))
}

/// Returns how many columns a text takes.
pub(super) fn width(text: &str) -> u16 {
    u16::try_from(text.width()).unwrap_or(u16::MAX)
}

/// Adds a style to a whole area.
pub(super) fn tint(buffer: &mut Buffer, area: Rect, style: Style) {
    buffer.set_style(area.intersection(buffer.area), style);
}

/// Draws a line of spans; what does not fit is cut.
pub(super) fn line(buffer: &mut Buffer, area: Rect, index: u16, line: &Line<'_>) {
    if let Some(mut row) = Row::new(buffer, area, index) {
        for span in &line.spans {
            row.put(&span.content, line.style.patch(span.style));
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn check(columns: u16, draw: impl Fn(&mut Row<'_>), expected: &str) {
        let mut buffer = Buffer::empty(Rect::new(0, 0, columns, 1));
        let area = buffer.area;
        draw(&mut Row::new(&mut buffer, area, 0).unwrap());
        assert_eq!(super::super::tests::text_of(&buffer), expected);
    }

    #[test]
    fn a_text_is_cut_in_the_middle() {
        for (text, columns, expected) in [
            ("a-long-name-bb", 9, "a-lo…e-bb"),
            ("a-long-name-bb", 8, "a-lo…-bb"),
            ("読込読込読込", 8, "読込…込"),
            ("cafe\u{301}cafe\u{301}", 5, "ca…fe\u{301}"),
            ("abc", 1, "…"),
            ("abc", 0, ""),
        ] {
            let cut = middle(text, columns);
            assert_eq!(cut, expected);
            assert!(width(&cut) <= columns, "{cut}");
        }
    }

    #[test]
    fn columns_stay_in_their_place() {
        let plain = Style::new();
        check(
            12,
            |row| {
                row.left(6, "abc", plain).right(6, "12", plain);
            },
            "abc       12",
        );
        check(
            12,
            |row| {
                row.left(6, "abcdefgh", plain).right(6, "1234567", plain);
            },
            "abcde…12345…",
        );
        check(
            8,
            |row| {
                row.left(6, "abc", plain).right(6, "12", plain);
            },
            "abc   12",
        );
        check(
            8,
            |row| {
                row.left(5, "界界界", plain).put("|", plain);
            },
            "界界…|",
        );
        check(
            6,
            |row| {
                row.put("a\x1b[31mb", plain);
            },
            "a\\x1b…",
        );
        check(
            5,
            |row| {
                row.put("e\u{301}", plain).put("x", plain).fill("─", plain);
            },
            "e\u{301}x───",
        );
    }

    #[test]
    fn what_is_read_is_cut_after_a_word() {
        let cut = |columns: u16, text: &str, expected: &str| {
            check(
                columns,
                |row| {
                    assert_eq!(row.words(text, Style::new()), text == expected);
                },
                expected,
            );
        };
        cut(12, "port is used", "port is used");
        cut(11, "port is used", "port is…");
        cut(8, "port is used", "port is…");
        cut(7, "port is used", "port…");
        cut(9, "used by 7 (nginx)", "used by…");
        cut(14, "serve · tmux · :8080", "serve · tmux…");
        cut(8, "a verylongword", "a veryl…");
        cut(5, "中文 文字", "中文…");
        cut(1, "port", "…");
    }

    #[test]
    fn nothing_is_drawn_outside() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 3, 2));
        assert!(Row::new(&mut buffer, Rect::new(0, 0, 9, 9), 2).is_none());
        assert!(Row::new(&mut buffer, Rect::new(3, 0, 9, 9), 0).is_none());
        let mut row = Row::new(&mut buffer, Rect::new(1, 1, 9, 9), 0).unwrap();
        row.left(40, "abcdef", Style::new()).right(7, "x", Style::new());
        assert_eq!(super::super::tests::text_of(&buffer), "\n a…");
    }
}
