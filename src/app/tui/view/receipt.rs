//! What a stop or a sweep observed.

use ratatui::text::Line;
use std::fmt::Write as _;

use super::super::glyph::DOT;
use super::super::model::Model;
use super::super::theme::Tone;
use super::doc::{Doc, Entry};
use super::human;
use super::preview::bystanders;
use crate::lifecycle::identity::Pid;
use crate::lifecycle::receipt::{Outcome, OutcomeKind, Receipt};

/// Which outcomes are told under which heading, the worst first.
const SECTIONS: [(OutcomeKind, &str, &str, Tone); 7] = [
    (OutcomeKind::Survived, "Survived", "alive", Tone::Bad),
    (OutcomeKind::Unverifiable, "Not verified, so not signalled", "unsure", Tone::Warn),
    (OutcomeKind::Refused, "Refused", "refused", Tone::Warn),
    (OutcomeKind::Foreign, "Another process by now, not signalled", "foreign", Tone::Warn),
    (OutcomeKind::Exited, "Dead", "dead", Tone::Good),
    (OutcomeKind::AlreadyGone, "Was gone before", "gone", Tone::Dim),
    (OutcomeKind::Kept, "Kept alive on purpose", "kept", Tone::Dim),
];

pub(super) fn lines(model: &Model, receipt: &Receipt, width: u16) -> Vec<Line<'static>> {
    let theme = &model.theme;
    let mut doc = Doc::new(theme, width);
    let (tone, verdict) = match receipt.dead {
        Some(true) => (Tone::Good, "All that was to be ended is dead."),
        Some(false) => (Tone::Bad, "Not all of it is dead."),
        None => (Tone::Warn, "Nobody could look whether it is dead."),
    };
    doc.text(0, &format!("{} {verdict}", tone.glyph()), theme.tone(tone));
    let mut how = format!(
        "{} {DOT} {} {DOT} {} ms",
        receipt.host,
        human::count(receipt.signals.len(), "signal", "signals"),
        receipt.elapsed_ms
    );
    if receipt.escalated {
        let how_far = if receipt.was_killed() { "KILL was needed" } else { "KILL was tried" };
        let _ignored = write!(how, " {DOT} {how_far}");
    }
    let _ignored = write!(how, " {DOT} host {}", if receipt.host_closed { "closed" } else { "still open" });
    if !receipt.containment.is_empty() {
        let _ignored = write!(how, " {DOT} contained by {}", receipt.containment.join(", "));
    }
    doc.text(0, &how, theme.dim());
    for (kind, heading, word, tone) in SECTIONS {
        let of_kind: Vec<&Outcome> = receipt.outcomes.iter().filter(|outcome| outcome.outcome == kind).collect();
        if of_kind.is_empty() {
            continue;
        }
        doc.heading(heading, Some(of_kind.len()), tone);
        for outcome in of_kind {
            doc.entry(&Entry {
                pid: outcome.pid,
                verdict: None,
                what: &format!("{word:<8} {:<14}", signals(receipt, outcome.pid)),
                tone,
                command: outcome.command.as_deref().unwrap_or_else(|| command(receipt, outcome.pid)),
                reason: outcome.reason.as_deref().unwrap_or_default(),
            });
        }
    }
    // What has no outcome of its own is named all the same.
    let told = |pid: Pid| receipt.outcomes.iter().any(|outcome| outcome.pid == pid);
    for (heading, pids, tone) in [
        ("Survived", receipt.survivors.clone(), Tone::Bad),
        ("Not verified, so not signalled", receipt.unverified.clone(), Tone::Warn),
        ("Refused", receipt.refused.iter().map(|refused| refused.pid).collect(), Tone::Warn),
    ] {
        let pids: Vec<Pid> = pids.into_iter().filter(|pid| !told(*pid)).collect();
        if !pids.is_empty() {
            doc.heading(heading, Some(pids.len()), tone);
        }
        for pid in pids {
            let reason =
                receipt.refused.iter().find(|refused| refused.pid == pid).map(|refused| refused.reason.as_str());
            doc.entry(&Entry {
                pid,
                verdict: None,
                what: "",
                tone,
                command: command(receipt, pid),
                reason: reason.unwrap_or_default(),
            });
        }
    }
    held(&mut doc, receipt);
    let kept: Vec<_> = receipt.kept.iter().filter(|row| !told(row.pid)).cloned().collect();
    bystanders(&mut doc, "Kept alive on purpose", "kept", &kept);
    bystanders(&mut doc, "Left the tree, only reported", "reported", &receipt.escapees);
    bystanders(&mut doc, "Look alike, not touched", "untouched", &receipt.lookalikes);
    if !receipt.notes.is_empty() {
        doc.heading("Notes", None, Tone::Plain);
        for note in &receipt.notes {
            doc.text(2, note, theme.text());
        }
    }
    doc.into_lines()
}

fn held(doc: &mut Doc<'_>, receipt: &Receipt) {
    let theme = doc.theme;
    if !receipt.still_held.is_empty() {
        doc.heading("Still held", Some(receipt.still_held.len()), Tone::Bad);
        for held in &receipt.still_held {
            let what = match (held.port, held.gpu_bytes) {
                (Some(port), _) => format!("port {port}"),
                (None, Some(bytes)) => format!("{} of GPU memory", human::bytes(Some(bytes))),
                (None, None) => "something".to_owned(),
            };
            doc.text(2, &format!("{what} by {}", held.by), theme.text());
        }
    }
    if !receipt.ports_released.is_empty() {
        let ports: Vec<String> = receipt.ports_released.iter().map(u16::to_string).collect();
        doc.blank();
        doc.text(0, &format!("Ports free again: {}", ports.join(", ")), theme.dim());
    }
}

fn command(receipt: &Receipt, pid: Pid) -> &str {
    receipt.captured.iter().find(|row| row.pid == pid).map_or("", |row| &row.command)
}

/// Returns the signals that a process got, in order.
fn signals(receipt: &Receipt, pid: Pid) -> String {
    let to_it = receipt.signals.iter().filter(|sent| sent.pid == pid);
    to_it.map(|sent| sent.signal.as_str()).collect::<Vec<_>>().join(" ")
}
