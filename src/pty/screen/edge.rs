//! Text at the edge of the screen: wide characters that do not fit there, text that does not wrap, and text that moves
//! others there.
//!
//! Called by the screen in the place of the emulator, which wraps a wide character late and knows no other mode than
//! wrapping and writing over. Never looks at sequences.

use super::{Screen, cell, read};

impl Screen {
    /// Feeds text as the modes have it.
    pub(super) fn feed_text(&mut self, bytes: &[u8]) {
        if self.scanner.inserts() {
            self.feed_inserted(bytes);
        } else {
            self.feed_unmoved(bytes);
        }
    }

    fn feed_unmoved(&mut self, bytes: &[u8]) {
        if self.scanner.cuts() { self.feed_cut(bytes) } else { self.feed_wide(bytes) }
    }

    /// Feeds text in insert mode (IRM): what is behind it in its row moves on. What wraps is written over the next row,
    /// as in tmux.
    pub(super) fn feed_inserted(&mut self, bytes: &[u8]) {
        for chunk in bytes.utf8_chunks() {
            let text = chunk.valid();
            let mut chars = text.char_indices().peekable();
            while let Some((at, c)) = chars.next() {
                let next = chars.peek().copied();
                let mut end = at + c.len_utf8();
                let width = u16::from(cell::char_width_before(c, next.map(|(_, next)| next)));
                if let (Some((_, next)), 2) = (next, width)
                    && cell::changes_width(next)
                {
                    chars.next();
                    end += next.len_utf8();
                }
                if !c.is_control() && width > 0 && width <= self.room() {
                    self.parser.process(format!("\x1b[{width}@").as_bytes());
                }
                self.feed_unmoved(&text.as_bytes()[at..end]);
            }
            self.parser.process(chunk.invalid());
        }
    }

    /// Feeds text that may hold wide characters, and fills the last column where one does not fit there.
    pub(super) fn feed_wide(&mut self, bytes: &[u8]) {
        let cols = self.size.cols;
        for chunk in bytes.utf8_chunks() {
            let text = chunk.valid();
            let mut fed = 0;
            let mut room = self.room();
            let mut chars = text.char_indices().peekable();
            while let Some((at, c)) = chars.next() {
                if c.is_control() {
                    let end = at + c.len_utf8();
                    self.parser.process(&text.as_bytes()[fed..end]);
                    fed = end;
                    room = self.room();
                    continue;
                }
                if room == 0 && cell::changes_width(c) {
                    self.parser.process(&text.as_bytes()[fed..at]);
                    fed = at;
                    if self.room() == 0 {
                        // Widening a character in the last column moves it to the next row; in the last row
                        // the emulator loses track of it, and panics when it is written over.
                        fed += c.len_utf8();
                    }
                }
                let width = u16::from(cell::char_width_before(c, chars.peek().map(|(_, next)| *next)));
                if width == 2 && room == 1 {
                    self.parser.process(&text.as_bytes()[fed..at]);
                    fed = at;
                    if self.room() == 1 && read::is_last_free(self.emulator(), self.cursor().0) {
                        self.parser.process(cell::FILLER_TEXT.as_bytes());
                    }
                }
                room = if room >= width { room - width } else { cols - width };
            }
            self.parser.process(&text.as_bytes()[fed..]);
            self.parser.process(chunk.invalid());
        }
    }

    /// Returns the columns from the cursor to the edge.
    fn room(&self) -> u16 {
        self.size.cols.saturating_sub(self.emulator().cursor_position().1)
    }

    /// Feeds text that stays in its row: what comes behind the last column takes the place of what is there, as DECAWM
    /// has it while it is off. The cursor is left where the emulator has it, so that what combines finds its cell.
    pub(super) fn feed_cut(&mut self, bytes: &[u8]) {
        for chunk in bytes.utf8_chunks() {
            let text = chunk.valid();
            let mut fed = 0;
            let mut room = self.room();
            let mut chars = text.char_indices().peekable();
            while let Some((at, c)) = chars.next() {
                let end = at + c.len_utf8();
                let width = u16::from(cell::char_width_before(c, chars.peek().map(|(_, next)| *next)));
                if !c.is_control() && width < room {
                    room -= width;
                    continue;
                }
                self.parser.process(&text.as_bytes()[fed..at]);
                fed = end;
                if c.is_control() {
                    self.parser.process(&text.as_bytes()[at..end]);
                } else if width > 0 {
                    self.keep_last_column();
                    // A wide one does not fit there, and is left out.
                    if width <= room.max(1) {
                        self.parser.process(&text.as_bytes()[at..end]);
                    }
                } else if !cell::changes_width(c) {
                    self.parser.process(&text.as_bytes()[at..end]);
                }
                room = self.room();
            }
            self.parser.process(&text.as_bytes()[fed..]);
            self.parser.process(chunk.invalid());
        }
    }

    /// Takes a cursor that is about to wrap back to the last column.
    pub(super) fn keep_last_column(&mut self) {
        if self.room() == 0 {
            self.parser.process(format!("\x1b[{}G", self.size.cols).as_bytes());
        }
    }
}
