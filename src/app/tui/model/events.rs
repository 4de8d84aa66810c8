//! The event log as it is read: a line that the keys are on, and a filter. Pure.

use super::super::glyph::DOT;
use super::super::view;
use super::field::Field;
use super::log::{Log, LogLine};

/// The event log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// What is looked for.
    pub line: Field,
    /// The line has the keys.
    pub typing: bool,
    /// Number of the line of the log that the keys are on; the newest one without it.
    pub chosen: Option<u64>,
    /// First line that is shown.
    pub top: usize,
}

impl Events {
    /// Returns what has every word that is looked for, with its number, the oldest first.
    pub fn lines<'a>(&self, log: &'a Log) -> Vec<(u64, &'a LogLine)> {
        let typed = self.line.text().to_lowercase();
        let words: Vec<&str> = typed.split_whitespace().collect();
        let matches = |line: &LogLine| {
            let shown = words.first().map(|_| shown(line).to_lowercase()).unwrap_or_default();
            words.iter().all(|word| shown.contains(word))
        };
        log.numbered().filter(|(_, line)| matches(line)).collect()
    }

    /// Returns the place of the line that the keys are on: of one that is not there any more, the next one.
    pub fn place(&self, lines: &[(u64, &LogLine)]) -> usize {
        let last = lines.len().saturating_sub(1);
        self.chosen.map_or(last, |chosen| lines.iter().position(|(number, _)| *number >= chosen).unwrap_or(last))
    }

    /// Returns the number of the receipt that the line tells of.
    pub fn receipt(&self, log: &Log) -> Option<u64> {
        let lines = self.lines(log);
        lines.get(self.place(&lines))?.1.receipt
    }

    /// Moves to another line; on the last one the keys follow what comes.
    pub(in super::super) fn step(&mut self, by: isize, log: &Log) {
        let lines = self.lines(log);
        let last = lines.len().saturating_sub(1);
        let at = self.place(&lines).saturating_add_signed(by).min(last);
        self.chosen = lines.get(at).map(|(number, _)| *number).filter(|_| at < last);
    }
}

/// Returns what a line tells, with the mark of one that tells of a receipt.
pub(in super::super) fn told(line: &LogLine) -> String {
    let mark = line.receipt.map(|_| format!(" {DOT} receipt")).unwrap_or_default();
    format!("{}{mark}", line.text)
}

/// Returns a line as it is shown.
fn shown(line: &LogLine) -> String {
    format!("{} {} {}", view::since_start(line.at), line.tone.glyph(), told(line))
}
