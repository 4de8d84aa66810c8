//! Which rows the terminal wrapped, and the pen. Reads only.

use super::Screen;
use super::cell::is_filler;

impl Screen {
    /// Returns of each row, those of the history first, how many columns of its line it holds, where the terminal wrapped
    /// it and the next row carries the line on: all, or one less where a wide character did not fit.
    pub fn wrapped_rows(&self) -> Vec<Option<u16>> {
        let emulator = self.emulator();
        let mut rows = if emulator.alternate_screen() { Vec::new() } else { self.events().history.wrapped_rows() };
        let last = self.size.rows - 1;
        rows.extend((0..=last).map(|row| {
            let free = emulator.cell(row, self.size.cols - 1).is_some_and(|cell| is_filler(cell.contents()));
            (row < last && emulator.row_wrapped(row)).then(|| self.size.cols - u16::from(free))
        }));
        rows
    }

    /// Returns what makes the next character look as it would now.
    pub fn pen(&self) -> String {
        self.emulator().attributes_formatted()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HistoryLimit, Size};
    use super::*;

    #[test]
    fn a_row_tells_how_much_of_its_line_it_holds() {
        let wrapped = |rows, bytes: &str| {
            let mut screen = Screen::new(Size { rows, cols: 6 }, HistoryLimit::default());
            screen.process(bytes.as_bytes());
            screen.wrapped_rows()
        };
        let bytes = "abcdefgh\r\nabcdef\r\nabcde\u{4e2d}\u{4e2d}\r\nabcde \u{4e2d}";
        let expected = [Some(6), None, None, Some(5), None, Some(6), None];
        for rows in [2, 3, 7] {
            assert_eq!(wrapped(rows, bytes), expected, "{rows}");
        }
        assert_eq!(wrapped(3, "\x1b[?1049habcdefgh"), [Some(6), None, None], "on the alternate screen, too");
        assert_eq!(wrapped(2, "abcdefgh\x1b[1;4H\x1b[K"), [None, None], "what is erased is wrapped no more");
    }
}
