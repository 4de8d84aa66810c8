//! The event log: what has happened, in words. Pure; every foreign text is escaped on its way in.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::Duration;

use crate::app::event::Event;
use crate::lifecycle::receipt::Receipt;
use crate::lifecycle::verdict::VerdictKind;
use crate::text::escape;

use super::super::theme::{Tone, verdict_tone};
use super::sessions::Sessions;
use crate::app::contract::Phase;

/// How many lines are kept of those that are worth the event line, and of the others: processes that come and go push
/// no receipt out.
const LINES: usize = 1_000;

/// Lines that may be older than the list of sessions.
const JUST_SAID: usize = 16;

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// How long after the start of the screen.
    pub at: Duration,
    /// How much it matters.
    pub tone: Tone,
    /// What happened.
    pub text: String,
    /// It is worth the event line; the others are in the log only.
    pub notable: bool,
    /// Number of the receipt that it tells of.
    pub receipt: Option<u64>,
}

/// The last lines, the newest last.
#[derive(Debug, Default)]
pub struct Log {
    lines: VecDeque<(u64, LogLine)>,
    /// Number of the next line.
    next: u64,
    /// How many of the lines are worth the event line.
    notable: usize,
}

impl Log {
    /// Returns the lines, the oldest first.
    pub fn lines(&self) -> impl DoubleEndedIterator<Item = &LogLine> {
        self.lines.iter().map(|(_, line)| line)
    }

    /// Returns the lines, each with a number of its own, the oldest first.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (u64, &LogLine)> {
        self.lines.iter().map(|(number, line)| (*number, line))
    }

    /// Names the sessions that were not known yet when something happened to them: an event comes before the list does.
    pub(in super::super) fn name(&mut self, sessions: &Sessions) {
        for (_, line) in self.lines.iter_mut().rev().take(JUST_SAID) {
            let named = sessions.rows().iter().find_map(|row| {
                let rest = line.text.strip_prefix(row.session.as_str()).filter(|_| row.name != row.session)?;
                Some(format!("{}{rest}", escape(&row.name)))
            });
            line.text = named.unwrap_or_else(|| std::mem::take(&mut line.text));
        }
    }

    /// Binds the newest line to a receipt.
    pub(in super::super) fn bind(&mut self, receipt: u64) {
        if let Some((_, line)) = self.lines.back_mut() {
            line.receipt = Some(receipt);
        }
    }

    /// Returns the line that the event line shows.
    pub fn notable(&self) -> Option<&LogLine> {
        self.lines().rev().find(|line| line.notable)
    }

    pub(in super::super) fn push(&mut self, at: Duration, tone: Tone, text: &str, notable: bool) {
        let alike = if notable { self.notable } else { self.lines.len() - self.notable };
        if alike == LINES {
            let oldest = self.lines().position(|line| line.notable == notable);
            oldest.map(|oldest| self.lines.remove(oldest));
        } else {
            self.notable += usize::from(notable);
        }
        let line = LogLine { at, tone, text: escape(text).into_owned(), notable, receipt: None };
        self.lines.push_back((self.next, line));
        self.next += 1;
    }
}

/// Returns an event in words: its tone, its text, and whether it is worth the event line.
pub(in crate::app) fn describe(event: &Event, sessions: &Sessions) -> (Tone, String, bool) {
    let who = event.session().map(|id| sessions.by_id(id).map_or(id, |row| row.name.as_str())).unwrap_or_default();
    match event {
        Event::Launched { name, pid, attempt: Some(attempt), .. } => {
            (Tone::Warn, format!("{name} runs again: restart {attempt}, pid {pid}"), true)
        }
        Event::Launched { name, kind, host, pid, attempt: None, .. } => {
            (Tone::Good, format!("{name} launched: {} in {}, pid {pid}", kind.name(), host.name()), true)
        }
        Event::Phase { phase, detail, .. } => {
            let tone = match phase {
                Phase::Ready => Tone::Good,
                Phase::Failed => Tone::Bad,
                Phase::Unverifiable => Tone::Warn,
                Phase::Queued
                | Phase::Starting
                | Phase::Downloading
                | Phase::Loading
                | Phase::Warming
                | Phase::Idle
                | Phase::Running
                | Phase::Stopping
                | Phase::Exited => Tone::Plain,
            };
            let detail = detail.as_deref().map(|detail| format!(": {detail}")).unwrap_or_default();
            let is = if phase.is_over() { "" } else { "is " };
            (tone, format!("{who} {is}{}{detail}", phase.name()), true)
        }
        Event::Verdict { pid, verdict, reason, .. } => {
            // That a process of a session has ended is its ordinary life.
            let notable = *verdict != VerdictKind::Gone;
            (verdict_tone(*verdict), format!("{who}: {pid} is {}: {reason}", verdict.name()), notable)
        }
        Event::ProcessNew { pid, command, .. } => (Tone::Dim, format!("{who}: new {pid} {command}"), false),
        Event::ProcessGone { pid, command, .. } => (Tone::Dim, format!("{who}: gone {pid} {command}"), false),
        Event::Signal { pid, signal, .. } => (Tone::Plain, format!("{who}: {signal} to {pid}"), false),
        Event::Survivor { pid, reason, .. } => (Tone::Bad, format!("{who}: {pid} survived: {reason}"), true),
        Event::Exited { exit_code: Some(0), .. } => (Tone::Plain, format!("{who} exited with 0"), true),
        Event::Exited { exit_code, signal, attempt, .. } => {
            let how = match (exit_code, signal) {
                (Some(code), _) => format!("exited with {code}"),
                (None, Some(signal)) => format!("was ended by {signal}"),
                (None, None) => "has ended".to_owned(),
            };
            let follows = attempt.map(|attempt| format!("; restart {attempt} follows")).unwrap_or_default();
            // Who was asked to end has not failed: the receipt says what came of it.
            let asked = attempt.is_none() && event.session().is_some_and(|id| is_asked_to_end(id, sessions));
            (if asked { Tone::Dim } else { Tone::Bad }, format!("{who} {how}{follows}"), !asked)
        }
        Event::Receipt { receipt, .. } => {
            let (tone, text) = receipt_line(receipt, who);
            (tone, text, true)
        }
        Event::Attention { reason, .. } => (Tone::Warn, format!("{who} wants you: {reason}"), true),
        Event::Ended { text, .. } => (Tone::Warn, format!("{who}: {text}"), true),
        Event::Cookbook { problem: Some(problem) } => {
            (Tone::Bad, format!("Cookbook's tasks cannot be read: {problem}"), true)
        }
        Event::Cookbook { problem: None } => (Tone::Good, "Cookbook's tasks can be read again".to_owned(), true),
        Event::Lagged { missed } => (Tone::Warn, format!("{missed} events were missed"), true),
    }
}

/// Returns whether a session is being stopped, or was.
pub(in super::super) fn is_asked_to_end(session: &str, sessions: &Sessions) -> bool {
    sessions
        .by_id(session)
        .is_some_and(|row| row.phase == Phase::Stopping || row.phase == Phase::Exited && row.was_stopped())
}

/// Returns a receipt in one line.
pub(in crate::app) fn receipt_line(receipt: &Receipt, who: &str) -> (Tone, String) {
    let ended = receipt
        .outcomes
        .iter()
        .filter(|outcome| outcome.outcome == crate::lifecycle::receipt::OutcomeKind::Exited)
        .count();
    let who = if who.is_empty() { "sweep" } else { who };
    let mut text = match receipt.dead {
        Some(true) => format!("{who} has ended: {ended} dead"),
        Some(false) => format!("{who} has NOT ended: {ended} dead"),
        None => format!("{who}: nobody could look whether it has ended"),
    };
    for (count, word, plural) in [
        (receipt.survivors.len(), "survived", ""),
        (receipt.unverified.len(), "unverified", ""),
        (receipt.refused.len(), "refused", ""),
        (receipt.still_held.len(), "still held", ""),
        (receipt.kept.len(), "kept", ""),
        (receipt.lookalikes.len(), "lookalike", "s"),
        (receipt.escapees.len(), "escapee", "s"),
    ] {
        if count > 0 {
            let _ignored = write!(text, ", {count} {word}{}", if count == 1 { "" } else { plural });
        }
    }
    match receipt.ports_released.as_slice() {
        [] => {}
        [port] => drop(write!(text, ", port {port} is free again")),
        ports => drop(write!(text, ", {} ports are free again", ports.len())),
    }
    if receipt.escalated {
        text.push_str(if receipt.was_killed() { ", by KILL" } else { ", KILL was tried" });
    }
    if receipt.elapsed_ms > 0 {
        let _ignored = write!(text, " ({:.1} s)", Duration::from_millis(receipt.elapsed_ms).as_secs_f64());
    }
    let tone = match receipt.dead {
        Some(true) if receipt.is_clean() => Tone::Good,
        Some(true) | None => Tone::Warn,
        Some(false) => Tone::Bad,
    };
    (tone, text)
}
