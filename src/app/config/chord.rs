//! A key with modifiers, as people write it: `C-\`, `M-x`, `C-M-q`, `F12`.
//!
//! Made by `parse`, compared with key events by the screen's key map. Refuses chords that a
//! terminal cannot tell from Enter, Tab or Escape, and plain characters, which people type.

use std::fmt;
use std::str::FromStr;

/// A key with modifiers. The default is Ctrl-\.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chord {
    /// With Ctrl.
    pub ctrl: bool,
    /// With Alt.
    pub alt: bool,
    /// Which key.
    pub key: ChordKey,
}

/// The key of a [`Chord`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChordKey {
    /// A printable ASCII character; a lower-case letter with Ctrl.
    Char(char),
    /// A function key, 1 to 12.
    Function(u8),
}

impl Default for Chord {
    fn default() -> Self {
        Self { ctrl: true, alt: false, key: ChordKey::Char('\\') }
    }
}

/// What a text must be to be a [`Chord`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(r"a key such as `C-\`, `C-]`, `M-x` or `F12` (not Ctrl with [, i, j or m, which terminals cannot tell apart)")]
pub struct NoChord;

impl FromStr for Chord {
    type Err = NoChord;

    fn from_str(text: &str) -> Result<Self, NoChord> {
        let (mut ctrl, mut alt, mut rest) = (false, false, text);
        loop {
            rest = match (rest.strip_prefix("C-"), rest.strip_prefix("M-")) {
                (Some(after), _) if !ctrl && !after.is_empty() => {
                    ctrl = true;
                    after
                }
                (_, Some(after)) if !alt && !after.is_empty() => {
                    alt = true;
                    after
                }
                _ => break,
            };
        }
        let mut chars = rest.chars();
        let key = match (chars.next(), chars.as_str()) {
            (Some(c), "") if ctrl && matches!(c.to_ascii_lowercase(), 'i' | 'j' | 'm' | '[') => return Err(NoChord),
            (Some(c), "") if ctrl && (c.is_ascii_alphabetic() || matches!(c, '\\' | ']' | '^' | '_' | '@')) => {
                ChordKey::Char(c.to_ascii_lowercase())
            }
            (Some(c), "") if alt && !ctrl && c.is_ascii_graphic() => ChordKey::Char(c),
            (Some('F'), number) => match number.parse() {
                Ok(number @ 1..=12) => ChordKey::Function(number),
                Ok(_) | Err(_) => return Err(NoChord),
            },
            _ => return Err(NoChord),
        };
        Ok(Self { ctrl, alt, key })
    }
}

impl fmt::Display for Chord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.ctrl { "C-" } else { "" })?;
        f.write_str(if self.alt { "M-" } else { "" })?;
        match self.key {
            ChordKey::Char(c) => write!(f, "{c}"),
            ChordKey::Function(number) => write!(f, "F{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chords_are_read_and_written() {
        let char = |ctrl, alt, c| Ok(Chord { ctrl, alt, key: ChordKey::Char(c) });
        let cases = [
            ("C-\\", Ok(Chord::default())),
            ("C-]", char(true, false, ']')),
            ("C-A", char(true, false, 'a')),
            ("C-M-q", char(true, true, 'q')),
            ("M-C-q", char(true, true, 'q')),
            ("M-x", char(false, true, 'x')),
            ("M-X", char(false, true, 'X')),
            ("M--", char(false, true, '-')),
            ("F12", Ok(Chord { ctrl: false, alt: false, key: ChordKey::Function(12) })),
            ("C-F1", Ok(Chord { ctrl: true, alt: false, key: ChordKey::Function(1) })),
            ("", Err(NoChord)),
            ("x", Err(NoChord)),
            ("F", Err(NoChord)),
            ("F0", Err(NoChord)),
            ("F13", Err(NoChord)),
            ("C-", Err(NoChord)),
            ("C-C-a", Err(NoChord)),
            ("C-ab", Err(NoChord)),
            ("C-m", Err(NoChord)),
            ("C-I", Err(NoChord)),
            ("C-[", Err(NoChord)),
            ("C-1", Err(NoChord)),
            ("C-é", Err(NoChord)),
            ("M-é", Err(NoChord)),
            ("ctrl-a", Err(NoChord)),
        ];
        for (text, expected) in cases {
            let chord: Result<Chord, NoChord> = text.parse();
            assert_eq!(chord, expected, "{text:?}");
            if let Ok(chord) = chord {
                assert_eq!(chord.to_string().parse(), Ok(chord), "{text:?}");
            }
        }
    }
}
