//! A line of text that is being edited. Pure.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Longest text that can be typed or pasted, in bytes.
const LIMIT: usize = 32 << 10;

/// A line of text with a cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Field {
    text: String,
    /// Byte index, always at the start of a character or at the end.
    cursor: usize,
}

impl Field {
    /// Returns a field that holds a text, its lines kept, with the cursor at the end.
    pub fn of(text: &str) -> Self {
        let mut field = Self::default();
        field.insert_lines(text);
        field
    }

    /// Puts a text in the place of what is between `from` and the cursor.
    pub fn complete(&mut self, from: usize, text: &str) {
        self.cut(from.min(self.cursor));
        self.insert_lines(text);
    }

    /// Tells whether the cursor is at the end.
    pub fn at_end(&self) -> bool {
        self.cursor == self.text.len()
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text before and after the cursor.
    pub fn split(&self) -> (&str, &str) {
        self.text.split_at(self.cursor)
    }

    /// Inserts text at the cursor; line ends become spaces, other control characters are dropped.
    pub fn insert(&mut self, text: &str) {
        self.insert_with(text, ' ');
    }

    /// Inserts text at the cursor and keeps its line ends, but for the last one: a script of several lines stays
    /// what it was. Terminals paste a line end as CR.
    pub fn insert_lines(&mut self, text: &str) {
        self.insert_with(text.trim_end_matches(['\r', '\n']), '\n');
    }

    fn insert_with(&mut self, text: &str, line_end: char) {
        let mut before = ' ';
        for c in text.chars() {
            let c = match c {
                '\n' if std::mem::replace(&mut before, c) == '\r' => continue,
                '\r' | '\n' => {
                    before = c;
                    line_end
                }
                _ => {
                    before = c;
                    if c == '\t' { ' ' } else { c }
                }
            };
            if (c == '\n' || !c.is_control()) && self.text.len() + c.len_utf8() <= LIMIT {
                self.text.insert(self.cursor, c);
                self.cursor += c.len_utf8();
            }
        }
    }

    /// Edits the text with a key; keys that edit nothing are ignored.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the keys that edit nothing")]
    pub fn edit(&mut self, key: &KeyEvent) {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('a') if control => self.cursor = 0,
            KeyCode::Char('e') if control => self.cursor = self.text.len(),
            KeyCode::Char('u') if control => self.cut(0),
            KeyCode::Char('w') if control => self.cut(self.word()),
            KeyCode::Char('h') if control => self.cut(self.before()),
            KeyCode::Char(c) if !control && !key.modifiers.contains(KeyModifiers::ALT) => {
                self.insert(c.encode_utf8(&mut [0; 4]));
            }
            KeyCode::Backspace => self.cut(self.before()),
            KeyCode::Delete => {
                let end = self.after();
                self.text.drain(self.cursor..end);
            }
            KeyCode::Left => self.cursor = self.before(),
            KeyCode::Right => self.cursor = self.after(),
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = self.text.len(),
            _ => {}
        }
    }

    /// Removes what is between `from` and the cursor.
    fn cut(&mut self, from: usize) {
        self.text.drain(from..self.cursor);
        self.cursor = from;
    }

    fn before(&self) -> usize {
        self.text[..self.cursor].char_indices().next_back().map_or(0, |(at, _)| at)
    }

    fn after(&self) -> usize {
        self.text[self.cursor..].chars().next().map_or(self.cursor, |c| self.cursor + c.len_utf8())
    }

    /// The start of the word before the cursor.
    fn word(&self) -> usize {
        let head = self.text[..self.cursor].trim_end();
        head.rfind(char::is_whitespace).map_or(0, |at| at + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(start: &str, keys: &[(KeyCode, KeyModifiers)], before: &str, after: &str) {
        let mut field = Field::default();
        field.insert(start);
        for (code, modifiers) in keys {
            field.edit(&KeyEvent::new(*code, *modifiers));
        }
        assert_eq!(field.split(), (before, after), "{start:?} {keys:?}");
    }

    #[test]
    fn editing() {
        const NONE: KeyModifiers = KeyModifiers::NONE;
        const CTRL: KeyModifiers = KeyModifiers::CONTROL;
        check("ab", &[(KeyCode::Char('c'), NONE)], "abc", "");
        check("a界", &[(KeyCode::Left, NONE), (KeyCode::Char('x'), NONE)], "ax", "界");
        check("a界", &[(KeyCode::Backspace, NONE), (KeyCode::Backspace, NONE), (KeyCode::Backspace, NONE)], "", "");
        check("abc", &[(KeyCode::Home, NONE), (KeyCode::Delete, NONE)], "", "bc");
        check("abc", &[(KeyCode::Delete, NONE), (KeyCode::Right, NONE)], "abc", "");
        check("run the thing ", &[(KeyCode::Char('w'), CTRL)], "run the ", "");
        check("run", &[(KeyCode::Char('w'), CTRL)], "", "");
        check("run it", &[(KeyCode::Char('a'), CTRL), (KeyCode::Char('e'), CTRL), (KeyCode::Char('u'), CTRL)], "", "");
        check(
            "a",
            &[(KeyCode::Char('x'), KeyModifiers::ALT), (KeyCode::Char('x'), CTRL), (KeyCode::F(1), NONE)],
            "a",
            "",
        );
        check("a\nb\tc\x1b\u{9b}d", &[], "a b cd", "");
        check("a\rb\r\nc\n\rd", &[], "a b c  d", "");
    }

    #[test]
    fn lines_stay_lines() {
        for (pasted, text) in [
            ("cd x\rmake\r", "cd x\nmake"),
            ("cd x\r\nmake\r\n\r\n", "cd x\nmake"),
            ("a \\\n\tb\n\nc", "a \\\n b\n\nc"),
            ("\x1b[31ma\x07", "[31ma"),
            ("\r\n", ""),
        ] {
            let mut field = Field::default();
            field.insert_lines(pasted);
            assert_eq!(field.text(), text, "{pasted:?}");
        }
    }
}
