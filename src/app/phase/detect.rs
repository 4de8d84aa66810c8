//! A session's phase from its lines.

use std::sync::Arc;

use regex::{Captures, Regex};

use super::clue::{Cause, Says, Table};
use super::lines::Lines;
use super::server::Server;
use crate::app::contract::Phase;
use crate::text;

/// Longest detail, in columns.
const DETAIL: usize = 120;

/// What a server has said so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// The phase that it says it is in; `Ready` is a claim, which a probe confirms.
    pub phase: Option<Phase>,
    /// How much of the phase is done.
    pub percent: Option<f64>,
    /// What the phase is about: a file, an address, or the line that began it.
    pub detail: Option<String>,
    /// Tokens a second, as it said last.
    pub tokens_per_s: Option<f64>,
    /// Requests that run now.
    pub requests: Option<u32>,
    /// Requests that began so far, where each is told.
    pub begun: u64,
    /// The recipe's own pattern of readiness was there.
    pub matched: bool,
    /// The first cause of failure.
    pub cause: Option<Found>,
    /// The first line of an error that nobody here understands; of a server that says it is ready, the last one.
    pub complaint: Option<String>,
    /// There was something to read, whatever it said.
    pub printed: bool,
}

/// A cause of failure and where it was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What kind.
    pub cause: Cause,
    /// Whom it names: a file, a port, a flag, a repository.
    pub what: Option<String>,
    /// The reason in the server's own words.
    pub why: Option<String>,
    /// The line.
    pub line: String,
}

impl Found {
    /// Returns the port that it says is taken.
    pub fn port(&self) -> Option<u16> {
        self.what.as_deref().filter(|_| self.cause == Cause::PortInUse)?.parse().ok()
    }
}

/// Reads the output of one session.
///
/// [`Detector::feed`] takes bytes as they come; [`Detector::seen`] tells what they said.
#[derive(Debug)]
pub struct Detector {
    table: Arc<Table>,
    server: Server,
    /// The recipe's own pattern of readiness.
    ready: Option<Regex>,
    lines: Lines,
    seen: Seen,
}

impl Detector {
    /// Makes a detector; `ready` is the recipe's own pattern.
    pub fn new(table: Arc<Table>, server: Server, ready: Option<Regex>) -> Self {
        Self { table, server, ready, lines: Lines::default(), seen: Seen::default() }
    }

    /// Takes what was printed, split anywhere.
    pub fn feed(&mut self, bytes: &[u8]) {
        let Self { table, server, ready, lines, seen } = self;
        seen.printed |= bytes.iter().any(|byte| !byte.is_ascii_whitespace());
        lines.feed(bytes, &mut |line| read(table, *server, ready.as_ref(), seen, line));
        let open = self.lines.unfinished();
        // A prompt is never finished. What matches however the line goes on needs no end of it.
        if let Some(ready) = self.ready.as_ref().filter(|_| !self.seen.matched)
            && ["", "x", " "].iter().all(|end| ready.is_match(&format!("{open}{end}")))
        {
            (self.seen.matched, self.seen.cause) = (true, None);
        }
        // A bar that is drawn over itself is not finished until its next state comes; its number holds already.
        if let Some((clue, captures)) = self.table.read(self.server, self.table.message(&open))
            && let (Says::Comes(phase), Some(percent)) = (clue.says, percent(&captures))
            && phase != Phase::Ready
        {
            come(&mut self.seen, phase, Some(percent), &detail(&captures, self.table.message(&open)));
        }
    }

    /// Returns what was said so far.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Another run begins: what the last one said is no news of it.
    pub fn forget(&mut self) {
        (self.lines, self.seen) = (Lines::default(), Seen::default());
    }

    /// It answers: whatever it complained of before did not keep it from that.
    pub fn forgive(&mut self) {
        (self.seen.cause, self.seen.complaint) = (None, None);
    }
}

fn read(table: &Table, server: Server, ready: Option<&Regex>, seen: &mut Seen, line: &str) {
    if ready.is_some_and(|ready| ready.is_match(line)) {
        (seen.matched, seen.cause, seen.complaint) = (true, None, None);
    }
    let (before, untrimmed) = table.split(line);
    let message = untrimmed.trim();
    let Some((clue, captures)) = table.read(server, message) else {
        // What it said of a request long ago is no reason to end.
        let counts = seen.complaint.is_none() || seen.phase == Some(Phase::Ready);
        if seen.cause.is_none() && counts && Table::is_error(before, untrimmed) {
            let words: Vec<&str> = message.split_whitespace().collect();
            seen.complaint = Some(shown(&words.join(" ")));
        }
        return;
    };
    match clue.says {
        Says::Comes(phase) => {
            if phase == Phase::Ready {
                (seen.cause, seen.complaint) = (None, None);
            }
            come(seen, phase, percent(&captures), &detail(&captures, message));
        }
        Says::Begins => {
            seen.requests = Some(seen.requests.unwrap_or(0).saturating_add(1));
            seen.begun += 1;
        }
        Says::Ends => seen.requests = Some(seen.requests.unwrap_or(0).saturating_sub(1)),
        Says::Serving => {}
        Says::Breaks(cause) => blame(seen, cause, &captures, message),
    }
    if let Some(speed) = number(&captures, "tok_s") {
        seen.tokens_per_s = Some(speed);
    }
    if let Some(requests) = named(&captures, "requests").and_then(|text| text.parse().ok()) {
        seen.requests = Some(requests);
    }
}

fn come(seen: &mut Seen, phase: Phase, percent: Option<f64>, detail: &str) {
    seen.phase = Some(phase);
    seen.percent = percent;
    seen.detail = Some(shown(detail));
}

/// Keeps the first cause; a vague one gives way to one that says more.
fn blame(seen: &mut Seen, cause: Cause, captures: &Captures<'_>, message: &str) {
    let known = seen.cause.as_ref().map(|found| found.cause);
    if known.is_none_or(|known| known.is_vague() && !cause.is_vague()) {
        let what = named(captures, "what").or_else(|| named(captures, "repo"));
        let why = named(captures, "why");
        seen.cause = Some(Found { cause, what: what.map(shown), why: why.map(shown), line: shown(message) });
    }
}

/// Returns what a phase is about: whom the line names, else the line, without the blanks of a bar.
fn detail(captures: &Captures<'_>, message: &str) -> String {
    let words: Vec<&str> = named(captures, "what").unwrap_or(message).split_whitespace().collect();
    words.join(" ")
}

fn percent(captures: &Captures<'_>) -> Option<f64> {
    let part = number(captures, "part").map(|part| part * 100.0);
    let counted = || Some(number(captures, "done")? / number(captures, "total").filter(|total| *total > 0.0)? * 100.0);
    let percent = number(captures, "percent").or(part).or_else(counted)?;
    Some(percent.clamp(0.0, 100.0))
}

fn number(captures: &Captures<'_>, name: &str) -> Option<f64> {
    named(captures, name)?.parse().ok().filter(|number: &f64| number.is_finite())
}

fn named<'a>(captures: &'a Captures<'_>, name: &str) -> Option<&'a str> {
    captures.name(name).map(|found| found.as_str()).filter(|text| !text.is_empty())
}

/// Returns foreign text as it may be shown: escaped, masked, short.
fn shown(text: &str) -> String {
    text::shorten(&text::mask_text(&text::escape(text)), DETAIL)
}

#[cfg(test)]
pub(super) mod tests;
