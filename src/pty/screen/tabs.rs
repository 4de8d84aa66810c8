//! Tab stops: the emulator has one in every eighth column and knows no others.
//!
//! Called by the screen. Columns are counted from 0. Never writes; moving the cursor is left to the emulator.

use std::collections::BTreeSet;

use super::Screen;

/// Columns from one stop to the next, before a program sets its own.
const EVERY: u16 = 8;

/// The tab stops; those of the emulator until a program changes them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Tabs(Option<BTreeSet<u16>>);

impl Tabs {
    /// Sets a stop in a column of a screen of this width (HTS).
    pub(super) fn set(&mut self, col: u16, cols: u16) {
        if col < cols {
            self.own(cols).insert(col);
        }
    }

    /// Clears the stop in a column (TBC 0).
    pub(super) fn clear(&mut self, col: u16, cols: u16) {
        self.own(cols).remove(&col);
    }

    /// Clears all stops (TBC 3).
    pub(super) fn clear_all(&mut self) {
        self.0 = Some(BTreeSet::new());
    }

    /// Returns the column so many stops on, the last one of the row where there are fewer.
    pub(super) fn after(&self, col: u16, count: u16, cols: u16) -> u16 {
        let last = cols - 1;
        let stop = match &self.0 {
            None => (col / EVERY).saturating_add(count).saturating_mul(EVERY),
            Some(stops) => {
                stops.iter().filter(|stop| **stop > col).nth(usize::from(count) - 1).copied().unwrap_or(last)
            }
        };
        stop.min(last)
    }

    /// Returns the column so many stops back, the first one where there are fewer.
    pub(super) fn before(&self, col: u16, count: u16) -> u16 {
        match &self.0 {
            None => col.div_ceil(EVERY).saturating_sub(count) * EVERY,
            Some(stops) => stops.range(..col).nth_back(usize::from(count) - 1).copied().unwrap_or(0),
        }
    }

    /// Returns what sets these stops on another screen; it moves the cursor.
    pub(super) fn sequences(&self) -> String {
        let Some(stops) = &self.0 else { return String::new() };
        let set: String = stops.iter().fold(String::new(), |set, stop| format!("{set}\x1b[{}G\x1bH", stop + 1));
        format!("\x1b[3g{set}")
    }

    fn own(&mut self, cols: u16) -> &mut BTreeSet<u16> {
        self.0.get_or_insert_with(|| (0..cols).step_by(EVERY.into()).collect())
    }
}

impl Screen {
    /// Goes on so many tab stops.
    pub(super) fn tab(&mut self, count: u16) {
        let (_, col) = self.emulator().cursor_position();
        self.go_to(self.tabs.after(col.min(self.size.cols - 1), count, self.size.cols));
    }

    pub(super) fn go_to(&mut self, col: u16) {
        self.parser.process(format!("\x1b[{}G", col + 1).as_bytes());
    }

    /// Takes the tab stops of the emulator again.
    pub(super) fn reset_tabs(&mut self) {
        self.tabs = Tabs::default();
        self.scanner.forget_tabs();
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HistoryLimit, Size};
    use super::*;

    fn line(bytes: &str) -> String {
        let mut lines = Vec::new();
        for size in [1, 3, 1000] {
            let mut screen = Screen::new(Size { rows: 2, cols: 30 }, HistoryLimit::default());
            for piece in bytes.as_bytes().chunks(size) {
                screen.process(piece);
            }
            lines.push(screen.lines()[0].clone());
        }
        assert!(lines.windows(2).all(|pair| pair[0] == pair[1]), "{bytes:?}: {lines:?}");
        lines.remove(0)
    }

    #[test]
    fn a_tab_goes_to_the_next_stop() {
        let four = "\x1b[3g\x1b[5G\x1bH\x1b[9G\x1bH\r";
        assert_eq!(line("a\tb"), "a       b");
        assert_eq!(line(&format!("{four}a\tb\tc")), "a   b   c");
        assert_eq!(line(&format!("{four}a\tb\tc\td")), format!("a   b   c{}d", " ".repeat(20)), "the last column");
        assert_eq!(line("\x1b[3G\x1bH\ra\tb\tc"), "a b     c", "beside those that were there");
        assert_eq!(line("\x1b[9G\x1b[g\ra\tb"), format!("a{}b", " ".repeat(15)));
        assert_eq!(line(&format!("{four}\x1bca\tb")), "a       b", "a reset");
        assert_eq!(line(&format!("{four}中\té\t🦀")), "中  é   🦀");
    }

    #[test]
    fn more_stops_at_once() {
        let four = "\x1b[3g\x1b[5G\x1bH\x1b[9G\x1bH\r";
        assert_eq!(line("\x1b[2Ix"), format!("{}x", " ".repeat(16)));
        assert_eq!(line("\x1b[99Ix"), format!("{}x", " ".repeat(29)));
        assert_eq!(line(&format!("{four}\x1b[2Ix")), "        x");
        assert_eq!(line(&format!("{four}\x1b[20G\x1b[Zx\x1b[2Zy")), "    y   x");
        assert_eq!(line(&format!("{four}\x1b[20G\x1b[9Zx")), "x");
    }

    #[test]
    fn another_width_has_the_usual_stops_and_a_painted_screen_the_same() {
        let mut screen = Screen::new(Size { rows: 2, cols: 30 }, HistoryLimit::default());
        screen.process(b"\x1b[3g\x1b[5G\x1bH\x1b[4h\rab\r");
        let mut copy = Screen::new(screen.size(), HistoryLimit::default());
        copy.process(screen.painted().as_bytes());
        screen.resize(Size { rows: 2, cols: 31 });
        for screen in [&mut screen, &mut copy] {
            screen.process(b"x\ty");
        }
        assert_eq!(screen.lines()[0], "xab     y");
        assert_eq!(copy.lines()[0], "xab y");
    }
}
