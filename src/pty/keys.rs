//! Names of keys, as tmux writes them, and the bytes a terminal sends for them.
//!
//! Called by the `send` command, by recipes' `stop.keys` and by the view for keys that go to a session. Pure;
//! knows the encoding that every program understands (xterm's), and kitty's for programs that asked for it.

use super::screen::Modes;

/// The modifiers before a name: `C-`, `M-`, `S-` in any order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Modifiers {
    control: bool,
    meta: bool,
    shift: bool,
}

impl Modifiers {
    /// Returns xterm's modifier parameter, or nothing without modifiers.
    fn parameter(self) -> Option<u8> {
        let bits = u8::from(self.shift) + 2 * u8::from(self.meta) + 4 * u8::from(self.control);
        (bits > 0).then_some(bits + 1)
    }
}

/// How a key without a character of its own is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Special {
    /// `ESC [ X`; `ESC O X` while the program wants application cursor keys.
    Cursor(char),
    /// `ESC O X`, `ESC [ 1 ; modifiers X`.
    Function(char),
    /// `ESC [ n ~`.
    Numbered(u8),
}

/// Returns the bytes of a key named as tmux names them, or nothing for a name that is no key or a key that
/// has no bytes of its own (such as `C-Enter`).
///
/// Names are taken in any case: `Enter`, `Escape`, `Tab`, `BTab`, `BSpace`, `Space`, `Up`, `Down`, `Left`,
/// `Right`, `Home`, `End`, `PPage`/`PageUp`, `NPage`/`PageDown`, `IC`/`Insert`, `DC`/`Delete`, `F1` to `F12`;
/// single characters stand for themselves. `C-`, `M-` and `S-` may stand before them, `^x` is `C-x`.
pub fn encode(name: &str, modes: Modes) -> Option<Vec<u8>> {
    let (modifiers, key) = split_modifiers(name);
    if key.is_empty() {
        return None;
    }
    if let Some(special) = special(key) {
        return Some(if modes.disambiguates {
            told_apart_special(special, modifiers)
        } else {
            encode_special(special, modifiers, modes.application_cursor)
        });
    }
    let older = encode_plain(key, modifiers)?;
    Some(if modes.disambiguates { told_apart(key, modifiers).unwrap_or(older) } else { older })
}

fn encode_plain(key: &str, modifiers: Modifiers) -> Option<Vec<u8>> {
    let mut bytes = match key.to_ascii_lowercase().as_str() {
        "enter" => plain(b"\r", modifiers),
        "escape" | "esc" => plain(b"\x1b", modifiers),
        "tab" if modifiers.shift && !modifiers.control => Some(b"\x1b[Z".to_vec()),
        "tab" => plain(b"\t", modifiers),
        "btab" if !modifiers.control => Some(b"\x1b[Z".to_vec()),
        "bspace" if modifiers.control => Some(vec![0x08]),
        "bspace" => plain(b"\x7f", modifiers),
        "space" if modifiers.control => Some(vec![0]),
        "space" => plain(b" ", modifiers),
        _ => character(key, modifiers),
    }?;
    if modifiers.meta {
        bytes.insert(0, 0x1b);
    }
    Some(bytes)
}

fn split_modifiers(name: &str) -> (Modifiers, &str) {
    let mut modifiers = Modifiers::default();
    let mut rest = name;
    loop {
        // A lone `C-` is no key, and the `-` of `C--` is one.
        let (flag, after) = match rest.as_bytes() {
            [b'C' | b'c', b'-', _, ..] => (&mut modifiers.control, &rest[2..]),
            [b'M' | b'm', b'-', _, ..] => (&mut modifiers.meta, &rest[2..]),
            [b'S' | b's', b'-', _, ..] => (&mut modifiers.shift, &rest[2..]),
            [b'^', _, ..] => (&mut modifiers.control, &rest[1..]),
            _ => return (modifiers, rest),
        };
        *flag = true;
        rest = after;
    }
}

fn special(key: &str) -> Option<Special> {
    Some(match key.to_ascii_lowercase().as_str() {
        "up" => Special::Cursor('A'),
        "down" => Special::Cursor('B'),
        "right" => Special::Cursor('C'),
        "left" => Special::Cursor('D'),
        "home" => Special::Cursor('H'),
        "end" => Special::Cursor('F'),
        "ic" | "insert" => Special::Numbered(2),
        "dc" | "delete" => Special::Numbered(3),
        "ppage" | "pageup" | "pgup" => Special::Numbered(5),
        "npage" | "pagedown" | "pgdn" => Special::Numbered(6),
        "f1" => Special::Function('P'),
        "f2" => Special::Function('Q'),
        "f3" => Special::Function('R'),
        "f4" => Special::Function('S'),
        "f5" => Special::Numbered(15),
        "f6" => Special::Numbered(17),
        "f7" => Special::Numbered(18),
        "f8" => Special::Numbered(19),
        "f9" => Special::Numbered(20),
        "f10" => Special::Numbered(21),
        "f11" => Special::Numbered(23),
        "f12" => Special::Numbered(24),
        _ => return None,
    })
}

fn encode_special(special: Special, modifiers: Modifiers, application_cursor: bool) -> Vec<u8> {
    match (special, modifiers.parameter()) {
        (Special::Cursor(last), None) if !application_cursor => format!("\x1b[{last}"),
        (Special::Cursor(last) | Special::Function(last), None) => format!("\x1bO{last}"),
        (Special::Cursor(last) | Special::Function(last), Some(modifier)) => format!("\x1b[1;{modifier}{last}"),
        (Special::Numbered(number), None) => format!("\x1b[{number}~"),
        (Special::Numbered(number), Some(modifier)) => format!("\x1b[{number};{modifier}~"),
    }
    .into_bytes()
}

/// Returns a key without a character of its own as kitty's protocol writes it.
fn told_apart_special(special: Special, modifiers: Modifiers) -> Vec<u8> {
    match (special, modifiers.parameter()) {
        // `CSI R` is a report of the cursor.
        (Special::Function('R'), _) => encode_special(Special::Numbered(13), modifiers, false),
        (Special::Function(last), None) => format!("\x1b[{last}").into_bytes(),
        _ => encode_special(special, modifiers, false),
    }
}

/// Returns any other key as kitty's protocol writes it; nothing for those that stay as they were: text, and Enter, Tab
/// and Backspace alone.
fn told_apart(key: &str, mut modifiers: Modifiers) -> Option<Vec<u8>> {
    let number = match key.to_ascii_lowercase().as_str() {
        "enter" => 13,
        "escape" | "esc" => 27,
        "tab" => 9,
        "btab" => {
            modifiers.shift = true;
            9
        }
        "bspace" => 127,
        "space" => 32,
        _ => {
            let c = key.chars().next()?;
            modifiers.shift |= c.is_ascii_uppercase() && modifiers.meta;
            u32::from(c.to_ascii_lowercase())
        }
    };
    match modifiers.parameter() {
        Some(parameter) => Some(format!("\x1b[{number};{parameter}u").into_bytes()),
        None => (number == 27).then(|| b"\x1b[27u".to_vec()),
    }
}

/// Returns a key that Control does not change into anything; Shift is ignored.
fn plain(bytes: &[u8], modifiers: Modifiers) -> Option<Vec<u8>> {
    (!modifiers.control).then(|| bytes.to_vec())
}

fn character(key: &str, modifiers: Modifiers) -> Option<Vec<u8>> {
    let mut chars = key.chars();
    let c = chars.next().filter(|c| !c.is_control())?;
    if chars.next().is_some() || modifiers.shift {
        return None;
    }
    if modifiers.control { control(c).map(|byte| vec![byte]) } else { Some(key.as_bytes().to_vec()) }
}

/// Returns the control character of a key, digits and `/` as on a VT220.
fn control(c: char) -> Option<u8> {
    match c {
        'a'..='z' | 'A'..='Z' | '[' | '\\' | ']' | '^' | '_' | '@' => u8::try_from(c).ok().map(|byte| byte & 0x1f),
        ' ' | '2' => Some(0),
        '3' => Some(0x1b),
        '4' => Some(0x1c),
        '5' => Some(0x1d),
        '6' => Some(0x1e),
        '7' | '/' | '-' => Some(0x1f),
        '8' | '?' => Some(0x7f),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: Option<&str>) {
        assert_eq!(encode(name, Modes::default()).as_deref(), expected.map(str::as_bytes), "{name}");
    }

    #[test]
    fn characters_and_control_keys() {
        for (name, expected) in [
            ("a", "a"),
            ("A", "A"),
            ("é", "é"),
            ("中", "中"),
            ("-", "-"),
            ("^", "^"),
            ("C", "C"),
            ("C-c", "\x03"),
            ("C-C", "\x03"),
            ("c-c", "\x03"),
            ("^C", "\x03"),
            ("C-@", "\0"),
            ("C-Space", "\0"),
            ("C-[", "\x1b"),
            ("C-\\", "\x1c"),
            ("C-]", "\x1d"),
            ("C-^", "\x1e"),
            ("C-_", "\x1f"),
            ("C-/", "\x1f"),
            ("C--", "\x1f"),
            ("C-?", "\x7f"),
            ("M-x", "\x1bx"),
            ("M-X", "\x1bX"),
            ("M-é", "\x1bé"),
            ("M--", "\x1b-"),
            ("M-C-c", "\x1b\x03"),
            ("C-M-c", "\x1b\x03"),
        ] {
            check(name, Some(expected));
        }
    }

    #[test]
    fn named_keys() {
        for (name, expected) in [
            ("Enter", "\r"),
            ("enter", "\r"),
            ("M-Enter", "\x1b\r"),
            ("Escape", "\x1b"),
            ("Esc", "\x1b"),
            ("M-Escape", "\x1b\x1b"),
            ("Tab", "\t"),
            ("S-Tab", "\x1b[Z"),
            ("BTab", "\x1b[Z"),
            ("BSpace", "\x7f"),
            ("C-BSpace", "\x08"),
            ("M-BSpace", "\x1b\x7f"),
            ("Space", " "),
            ("Up", "\x1b[A"),
            ("Down", "\x1b[B"),
            ("Right", "\x1b[C"),
            ("Left", "\x1b[D"),
            ("Home", "\x1b[H"),
            ("End", "\x1b[F"),
            ("C-Up", "\x1b[1;5A"),
            ("S-Left", "\x1b[1;2D"),
            ("M-Right", "\x1b[1;3C"),
            ("C-S-M-End", "\x1b[1;8F"),
            ("IC", "\x1b[2~"),
            ("Insert", "\x1b[2~"),
            ("DC", "\x1b[3~"),
            ("Delete", "\x1b[3~"),
            ("C-Delete", "\x1b[3;5~"),
            ("PPage", "\x1b[5~"),
            ("PageUp", "\x1b[5~"),
            ("NPage", "\x1b[6~"),
            ("PageDown", "\x1b[6~"),
            ("F1", "\x1bOP"),
            ("F4", "\x1bOS"),
            ("C-F1", "\x1b[1;5P"),
            ("F5", "\x1b[15~"),
            ("F10", "\x1b[21~"),
            ("F12", "\x1b[24~"),
            ("S-F12", "\x1b[24;2~"),
        ] {
            check(name, Some(expected));
        }
    }

    #[test]
    fn what_is_no_key_has_no_bytes() {
        for name in ["", "C-", "M-", "ab", "F0", "F13", "Foo", "C-é", "C-Enter", "C-Tab", "S-a", "\n", "\x1b", "C-\x07"]
        {
            check(name, None);
        }
    }

    #[test]
    fn application_mode_changes_cursor_keys_without_modifiers() {
        for (name, expected) in
            [("Up", "\x1bOA"), ("Home", "\x1bOH"), ("C-Up", "\x1b[1;5A"), ("F5", "\x1b[15~"), ("x", "x")]
        {
            let modes = Modes { application_cursor: true, ..Modes::default() };
            assert_eq!(encode(name, modes).as_deref(), Some(expected.as_bytes()), "{name}");
        }
    }

    #[test]
    fn keys_are_told_apart_for_whoever_asked() {
        let modes = Modes { application_cursor: true, disambiguates: true, ..Modes::default() };
        for (name, expected) in [
            ("a", "a"),
            ("A", "A"),
            ("Space", " "),
            ("Enter", "\r"),
            ("Tab", "\t"),
            ("BSpace", "\x7f"),
            ("Escape", "\x1b[27u"),
            ("Esc", "\x1b[27u"),
            ("M-Escape", "\x1b[27;3u"),
            ("M-Enter", "\x1b[13;3u"),
            ("BTab", "\x1b[9;2u"),
            ("S-Tab", "\x1b[9;2u"),
            ("C-BSpace", "\x1b[127;5u"),
            ("C-c", "\x1b[99;5u"),
            ("C-C", "\x1b[99;5u"),
            ("C-i", "\x1b[105;5u"),
            ("C-[", "\x1b[91;5u"),
            ("C-Space", "\x1b[32;5u"),
            ("M-x", "\x1b[120;3u"),
            ("M-X", "\x1b[120;4u"),
            ("C-M-c", "\x1b[99;7u"),
            ("Up", "\x1b[A"),
            ("C-Up", "\x1b[1;5A"),
            ("F1", "\x1b[P"),
            ("F3", "\x1b[13~"),
            ("S-F3", "\x1b[13;2~"),
            ("F5", "\x1b[15~"),
            ("Delete", "\x1b[3~"),
        ] {
            let got = encode(name, modes);
            assert_eq!(
                got.as_deref().map(<[u8]>::escape_ascii).map(|text| text.to_string()),
                Some(expected.as_bytes().escape_ascii().to_string()),
                "{name}"
            );
        }
        for name in ["", "C-", "ab", "C-Enter", "S-a"] {
            assert_eq!(encode(name, modes), None, "{name}: what has no bytes elsewhere has none here");
        }
    }
}
