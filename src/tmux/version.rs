//! The version of a tmux, from `tmux -V` or its server. Pure.

use std::fmt;
use std::str::FromStr;

use super::error::ParseError;

/// What `tmux -V` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Version {
    /// A release such as `3.3a`, or a snapshot before one, such as `next-3.6` or `3.5-rc`.
    Release {
        /// Before the dot.
        major: u32,
        /// After the dot.
        minor: u32,
        /// The whole word as tmux printed it.
        text: String,
    },
    /// The one in OpenBSD's base system; the numbers are OpenBSD's.
    OpenBsd {
        /// Before the dot.
        major: u32,
        /// After the dot.
        minor: u32,
    },
    /// Built from a branch that carries no number, such as `master`.
    Unnumbered(String),
}

impl Version {
    /// The oldest release this program works with.
    pub const OLDEST: (u32, u32) = (3, 2);
    /// The first OpenBSD whose tmux is at least that.
    const OLDEST_OPENBSD: (u32, u32) = (6, 9);

    /// Reads the output of `tmux -V`.
    ///
    /// # Errors
    /// [`ParseError`] where it is not `tmux` and a version.
    pub fn parse(output: &str) -> Result<Self, ParseError> {
        let bad = || ParseError::new("version", output.as_bytes(), "expected \"tmux <version>\"");
        output.trim_end().strip_prefix("tmux ").ok_or_else(bad)?.parse().map_err(|_| bad())
    }

    /// Tells whether a server may keep a pane whose program has ended. One of 3.2 falls with all of its sessions when
    /// a control-mode client hears that program's last output (tmux/tmux#2828).
    pub fn may_keep_panes(&self) -> bool {
        match self {
            Self::Release { major, minor, .. } => (*major, *minor) >= (3, 3),
            Self::OpenBsd { major, minor } => (*major, *minor) >= (7, 0),
            Self::Unnumbered(_) => true,
        }
    }

    /// Tells whether this program works with it. An unnumbered one is taken for new.
    pub fn is_supported(&self) -> bool {
        match self {
            Self::Release { major, minor, .. } => (*major, *minor) >= Self::OLDEST,
            Self::OpenBsd { major, minor } => (*major, *minor) >= Self::OLDEST_OPENBSD,
            Self::Unnumbered(_) => true,
        }
    }
}

impl FromStr for Version {
    type Err = ParseError;

    /// Reads a version as a server says it (`#{version}`).
    fn from_str(word: &str) -> Result<Self, ParseError> {
        let bad = || ParseError::new("version", word.as_bytes(), "expected a number, or the name of a branch");
        if let Some(rest) = word.strip_prefix("openbsd-") {
            let (major, minor) = numbers(rest).ok_or_else(bad)?;
            return Ok(Self::OpenBsd { major, minor });
        }
        let numbered = word.strip_prefix("next-").unwrap_or(word);
        if let Some((major, minor)) = numbers(numbered) {
            return Ok(Self::Release { major, minor, text: word.to_owned() });
        }
        if !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphabetic()) {
            return Ok(Self::Unnumbered(word.to_owned()));
        }
        Err(bad())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Release { text, .. } | Self::Unnumbered(text) => f.write_str(text),
            Self::OpenBsd { major, minor } => write!(f, "openbsd-{major}.{minor}"),
        }
    }
}

/// Reads `major.minor`, whatever letters follow.
fn numbers(text: &str) -> Option<(u32, u32)> {
    let (major, rest) = text.split_once('.')?;
    let end = rest.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
    Some((major.parse().ok()?, rest[..end].parse().ok()?))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_judged() {
        for (output, supported) in [
            ("tmux 3.3a\n", true),
            ("tmux 3.2", true),
            ("tmux 3.1c", false),
            ("tmux 2.9a", false),
            ("tmux 1.8", false),
            ("tmux 3.10", true),
            ("tmux 4.0", true),
            ("tmux next-3.6", true),
            ("tmux next-3.1", false),
            ("tmux 3.5-rc", true),
            ("tmux openbsd-7.4", true),
            ("tmux openbsd-6.9", true),
            ("tmux openbsd-6.8", false),
            ("tmux master", true),
        ] {
            let version = Version::parse(output).unwrap();
            assert_eq!(version.is_supported(), supported, "{output}");
            assert_eq!(format!("tmux {version}"), output.trim_end());
        }
    }

    #[test]
    fn a_server_that_would_fall_is_not_told_to_keep_panes() {
        for (word, may) in [("3.2a", false), ("3.2", false), ("3.3", true), ("next-3.7", true), ("openbsd-6.9", false)]
        {
            assert_eq!(word.parse::<Version>().unwrap().may_keep_panes(), may, "{word}");
        }
        for word in ["openbsd-7.1", "master"] {
            assert!(word.parse::<Version>().unwrap().may_keep_panes(), "{word}");
        }
    }

    #[test]
    fn what_is_no_version_is_an_error() {
        for output in
            ["", "tmux", "tmux ", "3.3a", "screen 4.9", "tmux 3", "tmux 3.", "tmux .3", "tmux openbsd-", "tmux 3,3"]
        {
            assert!(Version::parse(output).is_err(), "{output:?}");
        }
    }
}
