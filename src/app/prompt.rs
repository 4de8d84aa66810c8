//! What looks like a question to a person on a screen: the table `assets/prompts.tsv`. Pure.
//!
//! Called by `runtime::attention` once a session has been quiet for a while. A guess, and nothing acts on it.

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
    fn the_cursor_is_behind_the_question() {
        let lines = ["Continue? [y/N]".to_owned(), String::new()];
        for (cursor, expected) in [((0, 15), true), ((0, 16), true), ((0, 3), false), ((1, 0), false)] {
            assert_eq!(question(&lines, cursor).is_some(), expected, "{cursor:?}");
        }
        assert_eq!(question(&["  Password:".to_owned()], (0, 12)), Some("Password:"));
    }
}
