//! Reads `[[pattern]]`: what model servers print, and what it says about them.
//!
//! Called by `parse` for the user's own, and once for the table that is shipped.

use std::path::Path;

use super::error::ConfigError;
use super::recipe::Source;
use super::section::Section;
use super::{Pattern, parse};
use crate::app::phase::{Clue, Says, Server};

/// The patterns that are shipped with the program.
const BUILT_IN: &str = include_str!("../../../assets/patterns.toml");

pub(super) const PATTERN: &[&str] = &["name", "server", "says", "match", "source", "seen"];
const SERVERS: &[&str] = &[
    "any",
    "llama-server",
    "vllm",
    "sglang",
    "ollama",
    "mlx-lm",
    "llama-cpp-python",
    "lmdeploy",
    "tgi",
    "comfyui",
    "other",
];

/// Returns the patterns that are shipped with the program.
///
/// # Errors
/// Never, as the tests of this module prove.
pub fn built_in_patterns() -> Result<Vec<Clue>, ConfigError> {
    let origin = parse::Origin {
        path: Path::new("built-in patterns.toml"),
        dir: Path::new("/"),
        home: None,
        source: Source::BuiltIn,
    };
    Ok(parse::parse(BUILT_IN, &origin)?.patterns)
}

/// Reads one. Those that are `shipped` were compiled by a test, which takes a while.
pub(super) fn pattern(section: &Section<'_>, name: String, shipped: bool) -> Result<Clue, ConfigError> {
    let mut servers = vec![None];
    servers.extend(Server::ALL.map(Some));
    let item = section.require("match")?;
    let pattern = item.filled()?.to_owned();
    if !shipped {
        Pattern::parse(&pattern).map_err(|why| item.expected(&format!("a regular expression ({why})")))?;
    }
    Ok(Clue {
        server: section.parse("server", |item| item.choice(SERVERS, &servers))?.flatten(),
        says: section.require("says")?.choice(Says::WORDS, &Says::values())?,
        source: section
            .parse("source", |item| Ok(item.filled()?.to_owned()))?
            .unwrap_or_else(|| "configuration".into()),
        observed: section
            .parse("seen", |item| item.choice(&["observed", "source-only"], &[true, false]))?
            .unwrap_or_default(),
        pattern,
        name,
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::app::phase::Cause;

    #[test]
    fn the_shipped_table_is_sound() {
        let clues = built_in_patterns().unwrap();
        for clue in &clues {
            assert_eq!(Pattern::parse(&clue.pattern).map(|_| ()), Ok(()), "{}", clue.name);
        }
        assert!(clues.len() > 80 && clues.iter().all(|clue| !clue.source.is_empty()));
        // Every server that has a default port is told of by its lines, and every word of the table is used.
        for server in Server::ALL.into_iter().filter(|server| server.default_port().is_some()) {
            assert!(clues.iter().any(|clue| clue.server == Some(server)), "{}", server.name());
        }
        for (word, says) in Says::WORDS.iter().zip(Says::values()) {
            assert!(clues.iter().any(|clue| clue.says == says), "{word}");
        }
        assert_eq!(Says::WORDS.len(), Says::values().len());
        let names: Vec<&str> = SERVERS[1..].to_vec();
        assert_eq!(names, Server::ALL.map(Server::name));
    }

    #[test]
    fn every_cause_has_its_word() {
        for (word, says) in Says::WORDS.iter().zip(Says::values()) {
            if let Says::Breaks(cause) = says {
                assert_eq!(*word, cause.name());
            }
        }
        assert_eq!(Cause::Died.name(), "died");
    }
}
