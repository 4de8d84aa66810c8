//! Key names, as `send-keys` takes them. Pure.
//!
//! tmux types a name that it does not know as text (`Entre` arrives as five letters), and drops some
//! combinations that a terminal cannot express. Hence the table: what is not in it is an error that names
//! the key.

use std::fmt;
use std::str::FromStr;

/// A key that is not known, or cannot be combined like this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown key {key:?}; {reason}")]
pub struct KeyError {
    /// The key as it was asked for.
    pub key: String,
    reason: &'static str,
}

/// A key under the name that tmux has for it, for example `C-c`, `M-x`, `Enter`, `S-Up` or `a`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key(String);

impl Key {
    /// Returns the name for tmux.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which modifiers a named key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    /// Control, Meta and Shift in any combination: the xterm-style function and cursor keys.
    All,
    /// Control, Meta or both.
    ControlMeta,
    /// Meta only.
    Meta,
    /// None.
    Nothing,
}

/// Every name of a key that is not a character: as people write it, as tmux spells it. Aliases follow
/// tmux(1), "KEY BINDINGS"; letter case does not matter.
const NAMED: [(&str, &str, Takes); 36] = [
    ("Enter", "Enter", Takes::Meta),
    ("Escape", "Escape", Takes::Meta),
    ("Tab", "Tab", Takes::Meta),
    ("BSpace", "BSpace", Takes::Meta),
    ("Space", "Space", Takes::ControlMeta),
    ("BTab", "BTab", Takes::Nothing),
    ("S-Tab", "BTab", Takes::Nothing),
    ("Up", "Up", Takes::All),
    ("Down", "Down", Takes::All),
    ("Left", "Left", Takes::All),
    ("Right", "Right", Takes::All),
    ("Home", "Home", Takes::All),
    ("End", "End", Takes::All),
    ("IC", "IC", Takes::All),
    ("Insert", "IC", Takes::All),
    ("DC", "DC", Takes::All),
    ("Delete", "DC", Takes::All),
    ("PPage", "PPage", Takes::All),
    ("PageUp", "PPage", Takes::All),
    ("PgUp", "PPage", Takes::All),
    ("NPage", "NPage", Takes::All),
    ("PageDown", "NPage", Takes::All),
    ("PgDn", "NPage", Takes::All),
    ("F1", "F1", Takes::All),
    ("F2", "F2", Takes::All),
    ("F3", "F3", Takes::All),
    ("F4", "F4", Takes::All),
    ("F5", "F5", Takes::All),
    ("F6", "F6", Takes::All),
    ("F7", "F7", Takes::All),
    ("F8", "F8", Takes::All),
    ("F9", "F9", Takes::All),
    ("F10", "F10", Takes::All),
    ("F11", "F11", Takes::All),
    ("F12", "F12", Takes::All),
    ("Esc", "Escape", Takes::Meta),
];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Modifiers {
    control: bool,
    meta: bool,
    shift: bool,
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let error = |reason| KeyError { key: text.to_owned(), reason };
        if let Some((_, name, _)) = find(text) {
            return Ok(Self((*name).to_owned()));
        }
        let (modifiers, base) = modifiers(text).ok_or_else(|| error("a modifier is given twice"))?;
        if let Some((_, name, takes)) = find(base) {
            let Modifiers { control, meta, shift } = modifiers;
            let fits = match takes {
                Takes::All => true,
                Takes::ControlMeta => !shift,
                Takes::Meta => !shift && !control,
                Takes::Nothing => !shift && !control && !meta,
            };
            return if fits { Ok(spell(modifiers, name)) } else { Err(error("a terminal has no such combination")) };
        }
        let mut chars = base.chars();
        let (Some(character), None) = (chars.next(), chars.next()) else {
            return Err(error("use names like Enter, Escape, Tab, Up, F1, C-c, M-x, or one character"));
        };
        if character.is_control() || character == ' ' {
            return Err(error("use its name, for example Space or C-a"));
        }
        if modifiers.shift || modifiers.control && !has_control_code(character) {
            return Err(error("a terminal has no such combination"));
        }
        if modifiers != Modifiers::default() && !character.is_ascii() {
            return Err(error("modifiers go with ASCII characters only"));
        }
        let character = if modifiers.control { character.to_ascii_lowercase() } else { character };
        Ok(spell(modifiers, character.encode_utf8(&mut [0; 4])))
    }
}

/// Reads a list of key names.
///
/// # Errors
/// [`KeyError`] of the first name that is not a key.
pub fn parse_all<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Result<Vec<Key>, KeyError> {
    names.into_iter().map(|name| name.as_ref().parse()).collect()
}

fn find(text: &str) -> Option<&'static (&'static str, &'static str, Takes)> {
    NAMED.iter().find(|(alias, _, _)| alias.eq_ignore_ascii_case(text))
}

/// Splits leading `C-`, `M-`, `S-` (and `^`, which is `C-`) off; `None` where one comes twice.
fn modifiers(text: &str) -> Option<(Modifiers, &str)> {
    let mut modifiers = Modifiers::default();
    let mut rest = text;
    if let Some(base) = text.strip_prefix('^').filter(|base| !base.is_empty()) {
        modifiers.control = true;
        return Some((modifiers, base));
    }
    loop {
        let mut chars = rest.chars();
        let (Some(letter), Some('-')) = (chars.next(), chars.next()) else { break };
        let held = match letter {
            'C' | 'c' => &mut modifiers.control,
            'M' | 'm' => &mut modifiers.meta,
            'S' | 's' => &mut modifiers.shift,
            _ => break,
        };
        if std::mem::replace(held, true) {
            return None;
        }
        rest = chars.as_str();
    }
    Some((modifiers, rest))
}

/// Tells whether Control and this character make a control code (0x00 to 0x1f).
const fn has_control_code(character: char) -> bool {
    matches!(character, 'a'..='z' | 'A'..='Z' | '@' | '[' | '\\' | ']' | '^' | '_')
}

fn spell(modifiers: Modifiers, base: &str) -> Key {
    let mut name = String::new();
    for (held, prefix) in [(modifiers.control, "C-"), (modifiers.meta, "M-"), (modifiers.shift, "S-")] {
        if held {
            name.push_str(prefix);
        }
    }
    name.push_str(base);
    Key(name)
}

/// Every spelling that this module can give out for a key that is not a plain character: for tests
/// that try them all on a real tmux.
#[cfg(test)]
pub(super) fn every_key() -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    let characters = (b'!'..=b'~').map(|b| char::from(b).to_string());
    for base in NAMED.iter().map(|(alias, _, _)| (*alias).to_owned()).chain(characters) {
        for prefix in ["", "C-", "M-", "S-", "C-M-", "C-S-", "M-S-", "C-M-S-"] {
            keys.extend(format!("{prefix}{base}").parse::<Key>().ok().filter(|key| !keys.contains(key)));
        }
    }
    keys
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_have_one_spelling() {
        for (text, name) in [
            ("Enter", "Enter"),
            ("enter", "Enter"),
            ("C-c", "C-c"),
            ("c-C", "C-c"),
            ("^C", "C-c"),
            ("^", "^"),
            ("M-x", "M-x"),
            ("M-X", "M-X"),
            ("M-C-a", "C-M-a"),
            ("C-Space", "C-Space"),
            ("S-Tab", "BTab"),
            ("S-Up", "S-Up"),
            ("S-M-C-Left", "C-M-S-Left"),
            ("PageDown", "NPage"),
            ("Delete", "DC"),
            ("M-Enter", "M-Enter"),
            ("F12", "F12"),
            ("a", "a"),
            (";", ";"),
            ("-", "-"),
            ("C-_", "C-_"),
            ("M--", "M--"),
            ("é", "é"),
        ] {
            assert_eq!(text.parse::<Key>().unwrap().name(), name, "{text}");
        }
    }

    #[test]
    fn unknown_keys_are_errors_that_name_the_key() {
        for text in [
            "", " ", "Entre", "C-", "C-C-c", "ctrl-c", "S-a", "C-Enter", "S-Enter", "C-1", "C-é", "F13", "0x1b", "^^^",
            "ab", "\u{1b}", "X-a", "S-Space",
        ] {
            let error = text.parse::<Key>().unwrap_err();
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
        assert_eq!(parse_all(["C-c", "Entre", "Foo"]).unwrap_err().key, "Entre");
        assert_eq!(parse_all(["C-c", "Enter"]).unwrap().len(), 2);
    }

    #[test]
    fn every_key_is_spelled_the_same_twice() {
        let keys = every_key();
        assert!(keys.len() > 200);
        for key in keys {
            assert_eq!(key.name().parse::<Key>().unwrap(), key);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_key_or_an_error(text in ".{0,8}") {
            if let Ok(key) = text.parse::<Key>() {
                prop_assert_eq!(key.name().parse::<Key>().unwrap(), key);
            }
        }
    }
}
