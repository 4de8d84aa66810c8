//! What looks like a question to a person on a screen: the table `assets/prompts.tsv`. Pure.
//!
//! Called by `runtime::attention` once a session has been quiet for a while. A guess, and nothing acts on it.

use std::fmt;
use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};
use unicode_width::UnicodeWidthStr as _;

const TABLE: &str = include_str!("../../assets/prompts.tsv");

/// A menu stands in so many of the last lines.
const MENU_LINES: usize = 15;

#[derive(Debug)]
struct Prompt {
    pattern: Regex,
    /// Only with the cursor behind it.
    at_cursor: bool,
}

/// Returns the line that asks, from the rows of a screen and the cursor in them (row, column).
pub fn question(lines: &[String], cursor: (u16, u16)) -> Option<&str> {
    let shown = lines.iter().rposition(|line| !line.trim().is_empty())?;
    let (row, col) = (usize::from(cursor.0), usize::from(cursor.1));
    let line = lines[shown].trim_end();
    let is_behind = row == shown && col >= line.width();
    let menu = &lines[(shown + 1).saturating_sub(MENU_LINES)..=shown];
    table().iter().find_map(|prompt| {
        let mut asks: &[String] = menu;
        if prompt.at_cursor {
            asks = if is_behind { &lines[shown..=shown] } else { &[] };
        }
        asks.iter().map(|line| line.trim_end()).find(|line| prompt.pattern.is_match(line)).map(str::trim_start)
    })
}

/// The line that is being typed into a session. What is shown of it is an echo, however much it looks like a question.
#[derive(Clone, Default)]
pub struct Typed(String);

impl fmt::Debug for Typed {
    /// It may be a secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Typed")
    }
}

impl Typed {
    /// Longest line that is kept, in bytes; of a longer one nothing is.
    const MAX: usize = 4096;

    /// Takes in bytes as a terminal sends them. Enter, and any other control key, begins the line anew.
    pub fn take(&mut self, bytes: &[u8]) {
        for (index, keys) in String::from_utf8_lossy(bytes).split('\x1b').enumerate() {
            // What a key or the brackets of a paste are made of is not shown.
            let intro = usize::from(keys.starts_with(['[', 'O']));
            let last = keys[intro..].find(|char: char| char.is_ascii_alphabetic() || char == '~');
            let sequence = last.map_or(keys.len(), |at| intro + at + 1);
            for char in keys[if index == 0 { 0 } else { sequence }..].chars() {
                match char {
                    '\x7f' | '\x08' => drop(self.0.pop()),
                    _ if char.is_control() || self.0.len() >= Self::MAX => self.0.clear(),
                    _ => self.0.push(char),
                }
            }
        }
    }

    /// Tells whether it is this line that looks like a question, and not what somebody printed before it.
    pub fn is_echoed_by(&self, line: &str) -> bool {
        let typed = self.0.trim();
        let end = u16::try_from(typed.width()).unwrap_or(u16::MAX);
        let looks_so = || question(&[typed.to_owned()], (0, end)).is_some();
        // A line that the terminal has wrapped is typed in more than one row.
        !typed.is_empty() && (typed.ends_with(line) || line.ends_with(typed) && looks_so())
    }
}

/// Tells whether bytes, as a terminal sends them, say no more than where the pointer is and how the wheel turns, or that a
/// button is let go: nobody has answered anything by that.
pub fn only_points(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let mut rest = text.as_ref();
    while let Some((button, released, next)) = report(rest) {
        // Bits of xterm's mouse reports: 32 is motion, 64 the wheel.
        if !released && button & (32 | 64) == 0 {
            return false;
        }
        rest = next;
    }
    rest.is_empty()
}

/// Reads a report of the mouse from the start of a text: the button with its bits, whether it is let go, and what follows.
fn report(text: &str) -> Option<(u32, bool, &str)> {
    if let Some(report) = text.strip_prefix("\x1b[<") {
        let end = report.find(['M', 'm'])?;
        let button = report[..end].split(';').next()?.parse().ok()?;
        return Some((button, report[end..].starts_with('m'), &report[end + 1..]));
    }
    let mut coded = text.strip_prefix("\x1b[M")?.chars();
    let button = u32::from(coded.next()?).checked_sub(32)?;
    let _place = (coded.next()?, coded.next()?);
    Some((button, button & 3 == 3 && button & (32 | 64) == 0, coded.as_str()))
}

fn table() -> &'static [Prompt] {
    static PROMPTS: OnceLock<Vec<Prompt>> = OnceLock::new();
    PROMPTS.get_or_init(|| TABLE.lines().filter(|row| !row.starts_with('#')).filter_map(parse).collect())
}

fn parse(row: &str) -> Option<Prompt> {
    let mut fields = row.split('\t');
    let (pattern, place, _what) = (fields.next()?, fields.next()?, fields.next()?);
    let at_cursor = match place {
        "cursor" => true,
        "menu" => false,
        _ => return None,
    };
    let pattern = RegexBuilder::new(pattern).case_insensitive(true).build().ok()?;
    Some(Prompt { pattern, at_cursor })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(text: &str) -> bool {
        let lines: Vec<String> = text.lines().map(|line| line.trim_end().to_owned()).chain([String::new()]).collect();
        let row = text.lines().count().saturating_sub(1);
        let col = text.lines().last().map_or(0, unicode_width::UnicodeWidthStr::width);
        let [row, col] = [row, col].map(|at| u16::try_from(at).unwrap_or(u16::MAX));
        question(&lines, (row, col)).is_some()
    }

    #[test]
    fn the_table_is_sound() {
        let rows = TABLE.lines().filter(|row| !row.starts_with('#')).count();
        assert_eq!((table().len(), rows), (6, 6));
    }

    #[test]
    fn questions_are_told_from_other_lines() {
        for text in [
            "Continue? [y/N] ",
            "Do you want to continue? [Y/n]",
            "Overwrite (y/n)? ",
            "x\nAre you sure you want to continue connecting (yes/no/[fingerprint])? ",
            "[sudo] password for me: ",
            "me@host's password: ",
            "Password:",
            "Enter passphrase for key '/home/me/.ssh/id': ",
            "Press Enter to continue",
            "Press any key to continue . . . ",
            "Do you want to proceed?",
            "Do you want to proceed?\n \u{276f} 1. Yes\n   2. No\n\n Esc to cancel",
            "\u{2502} \u{203a} 1. Yes, run it\n\u{2502}   2. No\n",
        ] {
            assert!(asks(text), "{text:?}");
        }
        for text in [
            "",
            "$ ",
            "me@host:~$ ",
            "\u{276f} ",
            "\u{276f} ls",
            "1. Yes",
            "Continue? [y/N] y",
            "the password is wrong",
            "password: secret",
            "[y/N]\n$ ",
            ">>> ",
        ] {
            assert!(!asks(text), "{text:?}");
        }
    }

    #[test]
    fn an_echo_is_no_question() {
        let echoed = |keys: &[&str], line: &str| {
            let mut typed = Typed::default();
            for keys in keys {
                typed.take(keys.as_bytes());
            }
            typed.is_echoed_by(line)
        };
        assert!(echoed(&["echo ", "[y/N]"], "$ echo [y/N]"));
        assert!(echoed(&["echo Passwx", "\x7f", "ord: "], "$ echo Password:"));
        assert!(echoed(&["\x1b[200~grep password:\x1b[201~"], "$ grep password:"), "a paste");
        assert!(echoed(&["x\rls\x1b[D\x1bOC [y/n]"], "$ ls [y/n]"), "keys that move the cursor");
        assert!(echoed(&["echo aaaa bbbb password:"], "bb password:"), "its second row");
        for keys in [&[][..], &["read -p '[y/N] '\r"], &["y"], &["]"], &["echo [y/N]", "\x03"], &["echo [y/N]\n", "y"]]
        {
            assert!(!echoed(keys, "Continue? [y/N]"), "{keys:?}");
        }
        assert!(!echoed(&[&"x".repeat(Typed::MAX), "[y/N]"], "Continue? y/N]"), "too long a line");
        let mut secret = Typed::default();
        secret.take(b"hunter2");
        assert!(!format!("{secret:?}").contains("hunter2"));
    }

    #[test]
    fn a_pointer_that_moves_answers_nothing() {
        for (bytes, expected) in [
            ("\x1b[<64;10;5M", true),
            ("\x1b[<65;10;5M\x1b[<35;11;5M", true),
            ("\x1b[<51;11;5M", true),
            ("\x1b[<0;10;5m", true),
            ("\x1b[M`!!", true),
            ("\x1b[MC!!\x1b[M#!!", true),
            ("", true),
            ("\x1b[<0;10;5M", false),
            ("\x1b[<64;10;5M\x1b[<2;10;5M", false),
            ("\x1b[M !!", false),
            ("\x1b[<64;10;5My", false),
            ("\x1b[<64;10;5", false),
            ("\x1b[M`", false),
            ("\x1b[<;M", false),
            ("\x1b[A", false),
            ("y", false),
        ] {
            assert_eq!(only_points(bytes.as_bytes()), expected, "{bytes:?}");
        }
    }

    #[test]
    fn the_cursor_is_behind_the_question() {
        let lines = ["Continue? [y/N]".to_owned(), String::new()];
        for (cursor, expected) in [((0, 15), true), ((0, 16), true), ((0, 3), false), ((1, 0), false)] {
            assert_eq!(question(&lines, cursor).is_some(), expected, "{cursor:?}");
        }
        assert_eq!(question(&["  Password:".to_owned()], (0, 12)), Some("Password:"));
    }
}
