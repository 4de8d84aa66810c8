//! A key: how it is read from an event and from the configuration, and how it is shown. Pure.

use std::fmt;
use std::str::FromStr;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use unicode_width::UnicodeWidthChar as _;

use super::super::glyph;

/// A key of the table: a character or a named key, perhaps with Ctrl.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub struct Key {
    pub(super) code: KeyCode,
    pub(super) control: bool,
}

impl Key {
    pub(super) const fn plain(code: KeyCode) -> Self {
        Self { code, control: false }
    }

    pub(super) const fn chorded(code: KeyCode, control: bool) -> Self {
        Self { code, control }
    }

    pub(super) const fn control(c: char) -> Self {
        Self { code: KeyCode::Char(c), control: true }
    }

    /// Returns the key of an event; `None` for those that no binding has. Letters match by
    /// character: an upper-case letter is one, whether Shift or Caps Lock made it.
    pub(super) fn of(event: &KeyEvent) -> Option<Self> {
        let modifiers = event.modifiers;
        if modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SUPER | KeyModifiers::HYPER | KeyModifiers::META) {
            return None;
        }
        let control = modifiers.contains(KeyModifiers::CONTROL);
        let shift = modifiers.contains(KeyModifiers::SHIFT);
        let code = if let KeyCode::Char(c) = event.code {
            let upper = !control && (shift || c.is_ascii_uppercase());
            KeyCode::Char(if upper { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() })
        } else if shift && event.code == KeyCode::Tab {
            KeyCode::BackTab
        } else {
            event.code
        };
        // Most terminals cannot tell these apart. Where one can, they do what they do elsewhere.
        Some(match (code, control) {
            (KeyCode::Char('i'), true) => Self::plain(KeyCode::Tab),
            (KeyCode::Char('m'), true) => Self::plain(KeyCode::Enter),
            (KeyCode::Char('['), true) => Self::plain(KeyCode::Esc),
            (KeyCode::Enter | KeyCode::Tab | KeyCode::BackTab | KeyCode::Esc, true) => Self::plain(code),
            (code, control) => Self { code, control },
        })
    }

    /// Tells whether the key needs neither Ctrl nor a function key.
    pub fn is_plain(self) -> bool {
        !self.control && !matches!(self.code, KeyCode::F(_))
    }

    /// Tells whether the key types or edits where a text is typed.
    pub(super) fn is_text(self) -> bool {
        let edits = matches!(
            self.code,
            KeyCode::Backspace | KeyCode::Delete | KeyCode::Left | KeyCode::Right | KeyCode::Home | KeyCode::End
        );
        !self.control && (edits || matches!(self.code, KeyCode::Char(_)))
    }

    /// Returns the event of the key, as a terminal sends it.
    #[cfg(test)]
    pub(in super::super) fn pressed(self) -> KeyEvent {
        let mut modifiers = KeyModifiers::NONE;
        modifiers.set(KeyModifiers::CONTROL, self.control);
        KeyEvent::new(self.code, modifiers)
    }

    /// Returns the key as the configuration has it.
    pub fn spelled(self) -> String {
        if let Some((name, _)) = SPELLED.iter().find(|(_, code)| *code == self.code) {
            return format!("{}{name}", if self.control { "C-" } else { "" });
        }
        let name = if let KeyCode::Char(c) = self.code { c.to_string() } else { self.code.to_string() };
        format!("{}{name}", if self.control { "C-" } else { "" })
    }
}

/// Shorter names than crossterm's.
const NAMES: [(KeyCode, &str); 6] = [
    (KeyCode::Char(' '), "Space"),
    (KeyCode::Up, glyph::UP),
    (KeyCode::Down, glyph::DOWN),
    (KeyCode::PageUp, "PgUp"),
    (KeyCode::PageDown, "PgDn"),
    (KeyCode::BackTab, "Shift-Tab"),
];

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.control {
            f.write_str("Ctrl-")?;
        }
        if let Some((_, name)) = NAMES.iter().find(|(code, _)| *code == self.code) {
            return f.write_str(name);
        }
        if let KeyCode::Char(c) = self.code {
            return write!(f, "{}", if self.control { c.to_ascii_uppercase() } else { c });
        }
        write!(f, "{}", self.code)
    }
}

/// What keys that are no character are called in the configuration.
const SPELLED: [(&str, KeyCode); 16] = [
    ("Space", KeyCode::Char(' ')),
    ("Enter", KeyCode::Enter),
    ("Esc", KeyCode::Esc),
    ("Tab", KeyCode::Tab),
    ("BackTab", KeyCode::BackTab),
    ("Backspace", KeyCode::Backspace),
    ("Delete", KeyCode::Delete),
    ("Insert", KeyCode::Insert),
    ("Up", KeyCode::Up),
    ("Down", KeyCode::Down),
    ("Left", KeyCode::Left),
    ("Right", KeyCode::Right),
    ("Home", KeyCode::Home),
    ("End", KeyCode::End),
    ("PageUp", KeyCode::PageUp),
    ("PageDown", KeyCode::PageDown),
];

/// What a text must be to be a [`Key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a key: one character, a name (Space, Enter, Esc, Tab, BackTab, Up, PageDown, Home, F5 ...), or `C-x` for Ctrl \
         (not with i, j, m or [, which terminals cannot tell apart; Alt is Esc and the key)"
)]
pub struct NoKey;

impl FromStr for Key {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        if let Some((_, code)) = SPELLED.iter().find(|(name, _)| *name == text) {
            return Ok(Self::plain(*code));
        }
        if let Some(number) = text.strip_prefix('F').and_then(|number| number.parse().ok()) {
            return if (1..=12).contains(&number) { Ok(Self::plain(KeyCode::F(number))) } else { Err(NoKey) };
        }
        let single = |text: &str| {
            let mut chars = text.chars();
            chars.next().filter(|c| chars.as_str().is_empty() && c.width().is_some_and(|width| width > 0) && *c != ' ')
        };
        match (single(text), text.strip_prefix("C-").and_then(single)) {
            (Some(c), _) => Ok(Self::plain(KeyCode::Char(c))),
            (None, Some('i' | 'j' | 'm' | 'I' | 'J' | 'M' | '[')) => Err(NoKey),
            (None, Some(c)) if c.is_ascii_alphabetic() || matches!(c, '\\' | ']' | '^' | '_' | '@') => {
                Ok(Self::control(c.to_ascii_lowercase()))
            }
            (None, _) => Err(NoKey),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_most_terminals_send_for_one_key_is_one_key() {
        for (code, modifiers, expected) in [
            (KeyCode::Char('i'), KeyModifiers::CONTROL, KeyCode::Tab),
            (KeyCode::Char('m'), KeyModifiers::CONTROL, KeyCode::Enter),
            (KeyCode::Char('['), KeyModifiers::CONTROL, KeyCode::Esc),
            (KeyCode::Enter, KeyModifiers::CONTROL, KeyCode::Enter),
            (KeyCode::Enter, KeyModifiers::SHIFT, KeyCode::Enter),
            (KeyCode::Esc, KeyModifiers::CONTROL, KeyCode::Esc),
            (KeyCode::Tab, KeyModifiers::SHIFT, KeyCode::BackTab),
        ] {
            assert_eq!(Key::of(&KeyEvent::new(code, modifiers)), Some(Key::plain(expected)), "{code:?} {modifiers:?}");
        }
    }

    #[test]
    fn keys_are_read_and_written() {
        for (text, expected) in [
            ("x", Ok(Key::plain(KeyCode::Char('x')))),
            ("X", Ok(Key::plain(KeyCode::Char('X')))),
            ("C", Ok(Key::plain(KeyCode::Char('C')))),
            ("F", Ok(Key::plain(KeyCode::Char('F')))),
            ("-", Ok(Key::plain(KeyCode::Char('-')))),
            ("\u{e9}", Ok(Key::plain(KeyCode::Char('\u{e9}')))),
            ("Space", Ok(Key::plain(KeyCode::Char(' ')))),
            ("PageUp", Ok(Key::plain(KeyCode::PageUp))),
            ("F5", Ok(Key::plain(KeyCode::F(5)))),
            ("C-x", Ok(Key::control('x'))),
            ("C-X", Ok(Key::control('x'))),
            ("C-]", Ok(Key::control(']'))),
            ("", Err(NoKey)),
            (" ", Err(NoKey)),
            ("xy", Err(NoKey)),
            ("C-", Err(NoKey)),
            ("C-i", Err(NoKey)),
            ("C-[", Err(NoKey)),
            ("C-5", Err(NoKey)),
            ("M-x", Err(NoKey)),
            ("F0", Err(NoKey)),
            ("F13", Err(NoKey)),
            ("\u{301}", Err(NoKey)),
            ("\u{1b}", Err(NoKey)),
            ("enter", Err(NoKey)),
        ] {
            let key: Result<Key, NoKey> = text.parse();
            assert_eq!(key, expected, "{text:?}");
            if let Ok(key) = key {
                assert_eq!(key.spelled().parse(), Ok(key), "{text:?}");
            }
        }
    }
}
