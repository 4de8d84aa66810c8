//! Does what a sequence asks for beyond what the emulator did when it was fed.
//!
//! Called by the screen after each sequence that its scanner stops at. Feeds the emulator what it knows; never looks at
//! the bytes of the program.

use super::scan::{Action, Shift};
use super::tabs::Tabs;
use super::{Screen, keyboard, links};

impl Screen {
    pub(super) fn perform(&mut self, action: Action) {
        let primary = !self.emulator().alternate_screen();
        let (row, col) = self.emulator().cursor_position();
        match action {
            Action::ClearHistory if primary => self.history().clear(),
            Action::Detach if primary => self.history().close(),
            Action::DetachAtHome if primary && (row, col) == (0, 0) => self.history().close(),
            Action::Shift(shift, count) => {
                match shift {
                    Shift::InsertLines | Shift::DeleteLines => self.detach_at_top(),
                    // Wherever the cursor is.
                    Shift::ScrollDown if primary => self.history().close(),
                    Shift::ScrollDown | Shift::ScrollUp | Shift::InsertCells | Shift::DeleteCells => {}
                }
                if !matches!(shift, Shift::InsertCells | Shift::DeleteCells | Shift::ScrollUp) {
                    self.parser.callbacks_mut().links.clear();
                }
                self.fill(shift, count);
            }
            Action::Margins(top, bottom) => {
                let last = if bottom == 0 { self.size.rows } else { bottom.min(self.size.rows) };
                let first = top.max(1);
                let whole = first >= last || (first == 1 && last == self.size.rows);
                self.parser.callbacks_mut().links.set_whole(!primary, whole);
                if primary {
                    self.whole = whole;
                }
                // The emulator leaves the cursor in the first row of the margins.
                self.parser.process(b"\x1b[H");
            }
            Action::Reset => {
                self.whole = true;
                self.tabs = Tabs::default();
                self.history().close();
                let events = self.parser.callbacks_mut();
                (events.keyboard, events.links) = (keyboard::Keyboard::default(), links::Links::default());
            }
            Action::None | Action::ClearHistory | Action::Detach | Action::DetachAtHome | Action::ReverseIndex => {}
            Action::Say(b"\n") => drop(self.scrolling(b"\n")),
            Action::Say(b"\r\n") => {
                self.parser.process(b"\r");
                self.scrolling(b"\n");
            }
            Action::Say(bytes) => self.parser.process(bytes),
            Action::Move(count, last) => self.parser.process(format!("\x1b[{count}{}", char::from(last)).as_bytes()),
            Action::Tab(count) => self.tab(count),
            Action::BackTab(count) => self.go_to(self.tabs.before(col.min(self.size.cols - 1), count)),
            Action::SetTab => self.tabs.set(col, self.size.cols),
            Action::ClearTab => self.tabs.clear(col, self.size.cols),
            Action::ClearTabs => self.tabs.clear_all(),
            Action::Align => self.align(),
            Action::LastColumn => self.keep_last_column(),
            Action::LeaveAlternate => {
                if !primary {
                    self.parser.process(b"\x1b[2J\x1b[?47l");
                }
            }
        }
    }

    /// What moves the first row away, or another one in before it: it no longer continues the history.
    pub(super) fn detach_at_top(&mut self) {
        if !self.emulator().alternate_screen() && self.emulator().cursor_position().0 == 0 {
            self.history().close();
        }
    }

    /// Fills the screen with the letter E (DECALN), without margins, and takes the cursor home.
    fn align(&mut self) {
        self.parser.process(b"\x1b[r");
        self.perform(Action::Margins(0, 0));
        if !self.emulator().alternate_screen() {
            self.history().close();
        }
        let pen = self.pen();
        let line = "E".repeat(self.size.cols.into());
        self.parser.process(b"\x1b[m");
        for row in 1..=self.size.rows {
            self.parser.process(format!("\x1b[{row}d\r{line}").as_bytes());
        }
        self.parser.process(format!("{pen}\x1b[H").as_bytes());
    }
}
