//! What a line says: the table of patterns.

use std::sync::OnceLock;

use regex::bytes::{RegexSet, RegexSetBuilder};
use regex::{Captures, Regex};

use super::server::Server;
use crate::app::contract::Phase;

/// What a server says with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// A phase begins, or goes on.
    Comes(Phase),
    /// It answers requests.
    Serving,
    /// One request more.
    Begins,
    /// One request less.
    Ends,
    /// Why it is about to fail.
    Breaks(Cause),
}

/// Why a server fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// Its port is taken.
    PortInUse,
    /// It cannot listen on a socket in the file system.
    Socket,
    /// Its model file is not there.
    MissingFile,
    /// Its model file is not whole, or no model.
    BadFile,
    /// It does not know the architecture of the model.
    UnknownArchitecture,
    /// It does not know an option.
    BadFlag,
    /// It does not take the value of an option.
    BadValue,
    /// The hub wants a person to log in, or to accept terms.
    Gated,
    /// The hub has no such repository.
    MissingRepo,
    /// The hub cannot be reached, or must not be.
    Offline,
    /// Memory, of the computer or of a GPU, was refused to it.
    OutOfMemory,
    /// A Python module is not installed.
    MissingModule,
    /// A program is not installed.
    MissingCommand,
    /// It uses instructions that this CPU does not have.
    CpuTooOld,
    /// Somebody killed it: most often the kernel, for its memory.
    Killed,
    /// It has no model, and did not say why.
    Unresolved,
    /// It says that it fails, and not why.
    Died,
}

impl Cause {
    const ALL: [(Self, &'static str); 17] = [
        (Self::PortInUse, "port-in-use"),
        (Self::Socket, "socket"),
        (Self::MissingFile, "missing-file"),
        (Self::BadFile, "bad-file"),
        (Self::UnknownArchitecture, "unknown-architecture"),
        (Self::BadFlag, "bad-flag"),
        (Self::BadValue, "bad-value"),
        (Self::Gated, "gated"),
        (Self::MissingRepo, "missing-repo"),
        (Self::Offline, "offline"),
        (Self::OutOfMemory, "out-of-memory"),
        (Self::MissingModule, "missing-module"),
        (Self::MissingCommand, "missing-command"),
        (Self::CpuTooOld, "cpu-too-old"),
        (Self::Killed, "killed"),
        (Self::Unresolved, "unresolved"),
        (Self::Died, "died"),
    ];

    /// Returns the word used in the table and in answers.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(cause, _)| *cause == self).map_or("died", |(_, name)| name)
    }

    /// Tells whether any other cause says more.
    pub const fn is_vague(self) -> bool {
        matches!(self, Self::Unresolved | Self::Died)
    }
}

impl Says {
    /// All words of the column `says`.
    pub const WORDS: &'static [&'static str] = &[
        "starting",
        "downloading",
        "loading",
        "warming",
        "ready",
        "serving",
        "begins",
        "ends",
        "port-in-use",
        "socket",
        "missing-file",
        "bad-file",
        "unknown-architecture",
        "bad-flag",
        "bad-value",
        "gated",
        "missing-repo",
        "offline",
        "out-of-memory",
        "missing-module",
        "missing-command",
        "cpu-too-old",
        "killed",
        "unresolved",
        "died",
    ];

    /// Returns what each of [`Says::WORDS`] means.
    pub fn values() -> Vec<Self> {
        let phases = [Phase::Starting, Phase::Downloading, Phase::Loading, Phase::Warming, Phase::Ready];
        let mut all: Vec<Self> = phases.into_iter().map(Self::Comes).collect();
        all.extend([Self::Serving, Self::Begins, Self::Ends]);
        all.extend(Cause::ALL.into_iter().map(|(cause, _)| Self::Breaks(cause)));
        all
    }
}

/// One pattern of the table.
#[derive(Clone, Debug)]
pub struct Clue {
    /// Its name; another of the same name replaces it.
    pub name: String,
    /// Who prints it; `None` is anybody.
    pub server: Option<Server>,
    /// What it says.
    pub says: Says,
    /// What the line looks like: a regular expression.
    pub pattern: String,
    /// Where it is printed.
    pub source: String,
    /// It was seen in a run, not only in a source.
    pub observed: bool,
}

impl PartialEq for Clue {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.server, self.says) == (&other.name, other.server, other.says) && self.pattern == other.pattern
    }
}

/// All patterns.
#[derive(Debug)]
pub struct Table {
    /// Each with its expression, compiled when a line first matches it.
    clues: Vec<(Clue, OnceLock<Option<Regex>>)>,
    /// Tells in one pass which patterns match. Over bytes, where classes are ASCII and hence small: with those of
    /// Unicode it would take twenty times as long to make.
    set: RegexSet,
    /// What stands before the message of a line.
    prefix: Regex,
}

/// Timestamps, levels and process names, as `vLLM`, `SGLang`, Ollama, uvicorn and llama-server print them.
const PREFIX: &str = r"^(?:\[[0-9]{2,5}\] |\([A-Za-z0-9_]+ pid=[0-9]+\) |(?:INFO|WARNING|ERROR|DEBUG) [0-9][0-9]-[0-9][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9] \[[^\]]+\] |\[[0-9]{4}-[0-9][0-9]-[0-9][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9][^\]]*\] |[0-9]+\.[0-9][0-9]\.[0-9]{3}\.[0-9]{3} [A-Z] |time=\S+ level=[A-Za-z0-9_]+ source=\S+ msg=|[0-9]{4}-[0-9][0-9]-[0-9][0-9]T\S+\s+(?:INFO|WARN|ERROR)\s+|(?:INFO|WARNING|ERROR|CRITICAL):\s+)";

impl Table {
    /// Makes the table of the built-in patterns and of those that replace or extend them.
    ///
    /// # Errors
    /// When all patterns together are too large.
    pub fn new(mut clues: Vec<Clue>, more: &[Clue]) -> Result<Self, regex::Error> {
        for clue in more {
            match clues.iter_mut().find(|known| known.name == clue.name) {
                Some(known) => *known = clue.clone(),
                None => clues.push(clue.clone()),
            }
        }
        let patterns = || clues.iter().map(|clue| &clue.pattern);
        let small = RegexSetBuilder::new(patterns()).unicode(false).build();
        // A pattern of the configuration may need Unicode.
        let set = small.or_else(|_| RegexSet::new(patterns()))?;
        let clues = clues.into_iter().map(|clue| (clue, OnceLock::new())).collect();
        Ok(Self { clues, set, prefix: Regex::new(PREFIX)? })
    }

    /// Returns the message of a line: without what stands before it.
    pub(super) fn message<'a>(&self, line: &'a str) -> &'a str {
        self.split(line).1.trim()
    }

    /// Tells whether a line is of an error, by its level, which stands before its message, or by how that begins. Of a
    /// trace of Python that is the line that names the exception.
    pub(super) fn is_error(before: &str, message: &str) -> bool {
        let mut words = before.split([' ', ':', '[', ']', '=']);
        let of_level = words.any(|word| matches!(word, "E" | "ERROR" | "CRITICAL" | "FATAL"));
        let mut parts = message.split_whitespace();
        let first = parts.next().unwrap_or_default();
        let name = first.strip_suffix(':').unwrap_or_default().to_ascii_lowercase();
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_'));
        let named = is_name && ["error", "exception", "fatal", "panic"].iter().any(|end| name.ends_with(end));
        let of_trace = message.starts_with(char::is_whitespace) || first == "Traceback";
        // argparse(3) of Python: `program: error: why`.
        let of_program = first.ends_with(':') && parts.next() == Some("error:");
        named || of_program || (of_level && !of_trace && !message.is_empty())
    }

    /// Parts a line into what stands before its message, and the message.
    pub(super) fn split<'a>(&self, line: &'a str) -> (&'a str, &'a str) {
        let mut rest = line;
        for _ in 0..4 {
            match self.prefix.find(rest) {
                Some(found) => rest = &rest[found.end()..],
                None => break,
            }
        }
        line.split_at(line.len() - rest.len())
    }

    /// Returns what a message says, in the order of the table; a server's own patterns come first.
    pub(super) fn read<'a>(&'a self, server: Server, message: &'a str) -> Option<(&'a Clue, Captures<'a>)> {
        let matching = self.set.matches(message.as_bytes());
        let known = || matching.iter().filter_map(|index| self.clues.get(index));
        let own = known().find(|(clue, _)| clue.server == Some(server));
        let (clue, expression) = own.or_else(|| known().find(|(clue, _)| clue.server.is_none()))?;
        let expression = expression.get_or_init(|| Regex::new(&clue.pattern).ok()).as_ref()?;
        Some((clue, expression.captures(message)?))
    }
}
