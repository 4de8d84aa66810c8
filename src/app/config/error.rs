//! What can be wrong with a configuration, worded for the person who wrote it.
//!
//! Every message names the file, the line, the key and the way out. Text from the file is escaped
//! and masked here, so that whoever prints a message need not think of it.

use std::io;
use std::path::{Path, PathBuf};

use crate::text;

/// How alike a known key must be to be offered (Jaro-Winkler, 1 is equal).
const LIKENESS: f64 = 0.75;

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read at all.
    #[error("failed to read {}: {reason}", shown_path(path))]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the operating system said.
        reason: io::Error,
    },
    /// Recipes need each other.
    #[error("the `needs` of recipes go round in a circle: {}; take one of them out", shown_circle(names))]
    Circle {
        /// Their names, the first one again at the end.
        names: Vec<String>,
    },
    /// The file was read, and something in it is wrong.
    #[error("{}:{line}: {problem}", shown_path(path))]
    At {
        /// Which file.
        path: PathBuf,
        /// On which line, from 1.
        line: usize,
        /// What.
        problem: Box<Problem>,
    },
}

/// One thing that is wrong in a configuration file.
///
/// `section` is where: `[[recipe]]`, `[ui]`, `` `ready` of [[recipe]] ``.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It is not TOML.
    #[error("{}", text::escape(message))]
    Syntax {
        /// What the parser said.
        message: String,
    },
    /// A key that has no meaning there.
    #[error("unknown key `{}` in {section}{}", text::escape(key), nearest_or_all(key, known))]
    UnknownKey {
        /// The key.
        key: String,
        /// Where.
        section: String,
        /// The keys that have a meaning there.
        known: &'static [&'static str],
    },
    /// A key that must be there and is not.
    #[error("missing key `{key}` in {section}")]
    MissingKey {
        /// The key.
        key: String,
        /// Where.
        section: String,
    },
    /// A value of a wrong type, or one that makes no sense.
    #[error("`{}` in {section} must be {expected}, found {found}", text::escape(key))]
    Value {
        /// The key.
        key: String,
        /// Where.
        section: String,
        /// What it must be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A word that is none of those that can stand there.
    #[error("`{key}` in {section} must be one of {}, found {}{}", known.join(", "), shown(found), nearest(found, known).unwrap_or_default())]
    Choice {
        /// The key.
        key: String,
        /// Where.
        section: String,
        /// What it is.
        found: String,
        /// What it can be.
        known: &'static [&'static str],
    },
    /// Keys that cannot be.
    #[error("{problem}")]
    Keys {
        /// Which, and the way out.
        problem: String,
    },
    /// A name that was used before in the same file.
    #[error("duplicate name {} in {section}; first used on line {first}", shown(name))]
    Duplicate {
        /// The name.
        name: String,
        /// Where.
        section: String,
        /// The line of the first use.
        first: usize,
    },
}

/// Returns a value from a file as it is quoted in a message.
pub(super) fn shown(value: &str) -> String {
    format!("`{}`", text::escape(&text::shorten(&text::mask_text(value), 60)))
}

fn shown_circle(names: &[String]) -> String {
    names.iter().map(|name| shown(name)).collect::<Vec<_>>().join(" needs ")
}

/// Returns a path as it is written in a message.
pub(super) fn shown_path(path: &Path) -> String {
    text::escape_bytes(path.as_os_str().as_encoded_bytes())
}

/// Returns the known word that was probably meant.
pub fn nearest_word<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let likeness = |known: &str| strsim::jaro_winkler(&word.to_lowercase(), &known.to_lowercase());
    let ranked = known.iter().map(|known| (likeness(known), *known)).filter(|(likeness, _)| *likeness >= LIKENESS);
    let best = ranked.max_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, known)| known)
}

/// Returns the known word that was probably meant, as the end of a message.
fn nearest(word: &str, known: &[&str]) -> Option<String> {
    nearest_word(word, known).map(|known| format!("; did you mean `{known}`?"))
}

/// Returns the known word that was probably meant, or all of them, as the end of a message.
fn nearest_or_all(word: &str, known: &[&str]) -> String {
    nearest(word, known).unwrap_or_else(|| format!("; known are {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &[&str] =
        &["name", "command", "cwd", "env", "gpus", "ready", "stop", "grace_s", "ceiling_s", "escapees"];

    #[test]
    fn the_nearest_known_word_is_offered() {
        let cases = [
            ("comand", "command"),
            ("Command", "command"),
            ("cmd", "cwd"),
            ("commands", "command"),
            ("environment", "env"),
            ("gpu", "gpus"),
            ("grace", "grace_s"),
            ("ceiling", "ceiling_s"),
            ("escapes", "escapees"),
        ];
        for (word, expected) in cases {
            assert_eq!(nearest_or_all(word, KEYS), format!("; did you mean `{expected}`?"), "{word}");
        }
        assert_eq!(nearest_or_all("term", &["HUP", "TERM"]), "; did you mean `TERM`?");
        assert_eq!(nearest_or_all("xyzzy", &["name", "ssh"]), "; known are name, ssh");
        assert_eq!(nearest_or_all("", &["name", "ssh"]), "; known are name, ssh");
    }

    #[test]
    fn text_from_the_file_is_escaped_and_masked() {
        let error = ConfigError::At {
            path: PathBuf::from("a\x1b[2J.toml"),
            line: 3,
            problem: Box::new(Problem::UnknownKey {
                key: "x\u{202e}y".into(),
                section: "[ui]".into(),
                known: &["theme"],
            }),
        };
        assert_eq!(error.to_string(), "a\\x1b[2J.toml:3: unknown key `x\\u{202e}y` in [ui]; known are theme");
        assert_eq!(shown("hf_abcdefghijkl\n"), "`***\\n`");
        assert_eq!(shown(&"x".repeat(100)).chars().count(), 62);
    }
}
