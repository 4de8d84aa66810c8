//! Background colour erase: what moves in is of the colour that is in force (`bce` of terminfo(5)).
//!
//! Called by the screen. The emulator erases in that colour, but cells and rows that it moves in, by scrolling, inserting
//! and deleting, have the terminal's own. Programs that are told of an xterm count on the colour: htop's bars, vim's and
//! tmux's backgrounds. Rows that wrapped text scrolls in stay as they are, as in tmux.

use std::ops::RangeInclusive;

use super::scan::Shift;
use super::{Screen, read};

impl Screen {
    /// Tells whether a blank that is written now has a colour of its own.
    pub(super) fn is_coloured(&self) -> bool {
        self.emulator().bgcolor() != vt100::Color::Default
    }

    /// Feeds text, and colours each row that a line feed of it scrolls in.
    pub(super) fn feed_lines(&mut self, text: &[u8], feed: impl Fn(&mut Self, &[u8])) {
        if !self.is_coloured() {
            return feed(self, text);
        }
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let Some(line) = line.strip_suffix(b"\n") else { return feed(self, line) };
            feed(self, line);
            self.scrolling(b"\n");
        }
    }

    /// Feeds the last byte of what may scroll one row in where the cursor stands, and colours that row. Returns whether
    /// the cursor stayed in its row.
    pub(super) fn scrolling(&mut self, last: &[u8]) -> bool {
        let (row, _) = self.emulator().cursor_position();
        self.parser.process(last);
        let stayed = self.emulator().cursor_position().0 == row;
        if stayed && self.is_coloured() {
            self.colour(row..=row);
        }
        stayed
    }

    /// Colours what a sequence has just moved in. Of what scrolls between margins nothing is known here.
    pub(super) fn fill(&mut self, shift: Shift, count: u16) {
        if !self.is_coloured() {
            return;
        }
        let (row, col) = self.emulator().cursor_position();
        let (rows, cols) = (self.size.rows, self.size.cols);
        let scrolls_whole = self.whole && !self.emulator().alternate_screen();
        match shift {
            Shift::InsertCells => self.parser.process(format!("\x1b[{count}X").as_bytes()),
            Shift::DeleteCells if col < cols => {
                let count = count.min(cols - col);
                let said = format!("\x1b[{}G\x1b[{count}X\x1b[{}G", cols - count + 1, col + 1);
                self.parser.process(said.as_bytes());
            }
            Shift::InsertLines => self.colour(row..=row.saturating_add(count - 1).min(rows - 1)),
            Shift::DeleteLines => {
                // Within margins the cursor stops at the last row of them.
                self.parser.process(format!("\x1b[{rows}B").as_bytes());
                let last = self.emulator().cursor_position().0;
                self.colour(last.saturating_sub(count - 1).max(row)..=last);
            }
            Shift::ScrollUp if scrolls_whole => self.colour(rows.saturating_sub(count)..=rows - 1),
            Shift::ScrollDown if scrolls_whole => self.colour(0..=count.min(rows) - 1),
            Shift::DeleteCells | Shift::ScrollUp | Shift::ScrollDown => {}
        }
        // The cursor is where the sequence left it.
        self.parser.process(format!("\x1b[{}d", row + 1).as_bytes());
    }

    /// Erases rows in the colour that is in force, as far as they are blank: who moved nothing in loses nothing. Leaves the
    /// cursor in one of them.
    fn colour(&mut self, rows: RangeInclusive<u16>) {
        for row in rows {
            if read::is_blank(self.emulator(), row) {
                self.parser.process(format!("\x1b[{}d\x1b[2K", row + 1).as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Color, HistoryLimit, Size};
    use super::*;

    /// The rows of a screen of 4 by 6: a letter, `.` for a blank, `#` for one that is blue.
    fn picture(screen: &Screen) -> Vec<String> {
        let row = |row| {
            let mut text = String::new();
            screen.visit_row(0, row, &mut |_, cell, _, style| {
                text.push_str(match (cell, style.bg) {
                    (" ", Color::Indexed(4)) => "#",
                    (" ", _) => ".",
                    (cell, _) => cell,
                });
            });
            text
        };
        (0..screen.size().rows).map(row).collect()
    }

    fn check(bytes: &str, expected: [&str; 4]) {
        for size in [1, 3, 1000] {
            let mut screen = Screen::new(Size { rows: 4, cols: 6 }, HistoryLimit::default());
            screen.process(b"aaaaaa\r\nbbbbbb\r\ncccccc\r\ndddddd");
            for piece in bytes.as_bytes().chunks(size) {
                screen.process(piece);
            }
            assert_eq!(picture(&screen), expected, "{bytes:?} by {size}");
        }
    }

    #[test]
    fn cells_that_move_in_are_coloured() {
        check("\x1b[2;3H\x1b[44m\x1b[2P", ["aaaaaa", "bbbb##", "cccccc", "dddddd"]);
        check("\x1b[2;3H\x1b[44m\x1b[P!", ["aaaaaa", "bb!bb#", "cccccc", "dddddd"]);
        check("\x1b[2;3H\x1b[44m\x1b[99P", ["aaaaaa", "bb####", "cccccc", "dddddd"]);
        check("\x1b[2;3H\x1b[44m\x1b[2@", ["aaaaaa", "bb##bb", "cccccc", "dddddd"]);
        check("\x1b[2;3H\x1b[2P", ["aaaaaa", "bbbb..", "cccccc", "dddddd"]);
        check("\x1b[2;3H\x1b[44m\x1b[49m\x1b[2@", ["aaaaaa", "bb..bb", "cccccc", "dddddd"]);
    }

    #[test]
    fn rows_that_move_in_are_coloured() {
        check("\x1b[2;3H\x1b[44m\x1b[2L", ["aaaaaa", "######", "######", "bbbbbb"]);
        check("\x1b[2;3H\x1b[44m\x1b[M", ["aaaaaa", "cccccc", "dddddd", "######"]);
        check("\x1b[2;3r\x1b[2;1H\x1b[44m\x1b[M", ["aaaaaa", "cccccc", "######", "dddddd"]);
        check("\x1b[2;3r\x1b[2;1H\x1b[44m\x1b[9L", ["aaaaaa", "######", "######", "dddddd"]);
        // Outside of the margins nothing moves, and nothing is lost.
        check("\x1b[1;3r\x1b[4;1H\x1b[44m\x1b[L", ["aaaaaa", "bbbbbb", "cccccc", "dddddd"]);
        check("\x1b[3;4r\x1b[1;1H\x1b[44m\x1b[M", ["aaaaaa", "bbbbbb", "cccccc", "dddddd"]);
        check("\x1b[1;3r\x1b[4;1H\x1b[44m\n!", ["aaaaaa", "bbbbbb", "cccccc", "!ddddd"]);
        check("\x1b[44m\x1b[2S", ["cccccc", "dddddd", "######", "######"]);
        check("\x1b[44m\x1b[T", ["######", "aaaaaa", "bbbbbb", "cccccc"]);
        check("\x1b[1;4H\x1b[44m\x1bM", ["######", "aaaaaa", "bbbbbb", "cccccc"]);
        check("\x1b[2;4H\x1b[44m\x1bM!", ["aaa!aa", "bbbbbb", "cccccc", "dddddd"]);
        check("\x1b[2;4H\x1b[44m\x1b[M\x1b[2;4H!", ["aaaaaa", "ccc!cc", "dddddd", "######"]);
    }

    #[test]
    fn a_line_feed_scrolls_colour_in() {
        check("\x1b[44m\r\nxy", ["bbbbbb", "cccccc", "dddddd", "xy####"]);
        check("\x1b[44m\r\n中", ["bbbbbb", "cccccc", "dddddd", "中####"]);
        check("\x1b[44m\x1bE\x1bDz", ["cccccc", "dddddd", "######", "z#####"]);
        check("\r\n\x1b[44m\x1b7\x1b[m\x1b8\n", ["cccccc", "dddddd", "......", "######"]);
        check("\x1b[44;49m\r\nx\x1b[38;5;44m\r\ny", ["cccccc", "dddddd", "x.....", "y....."]);
        check("\x1b[38;2;255;255;255;48;5;4;1;22;23;24;25m\r\nx", ["bbbbbb", "cccccc", "dddddd", "x#####"]);
        // A row that the cursor only moves to is as it was.
        check("\x1b[2J\x1b[1;1H\x1b[44m\n\n", ["......"; 4]);
        // What wraps leaves the rest of its row as it was.
        check("\x1b[44mxy", ["bbbbbb", "cccccc", "dddddd", "xy...."]);
    }

    #[test]
    fn a_flood_of_colour_is_coloured() {
        let mut screen = Screen::new(Size { rows: 4, cols: 6 }, HistoryLimit::default());
        screen.process(format!("\x1b[44m{}end", "line\r\n".repeat(1000)).as_bytes());
        assert_eq!(picture(&screen), ["line##", "line##", "line##", "end###"]);
    }
}
