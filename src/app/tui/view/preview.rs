//! What a stop, a sweep or a restart would do: every process by name, and why.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use ratatui::text::Line;

use super::super::glyph::{DOT, MORE};
use super::super::model::{Act, Model, Preview, QuitBox};
use super::super::theme::{Theme, Tone};
use super::super::update::ending;
use super::doc::{Doc, Entry};
use super::human;
use crate::app::contract::{HostKind, SessionRow};
use crate::lifecycle::receipt::{Bystander, Receipt};
use crate::lifecycle::verdict::VerdictKind;

/// Returns the lines, and which of them is the kept process that the keys are on.
pub(super) fn lines(model: &Model, preview: &Preview, width: u16) -> (Vec<Line<'static>>, Option<usize>) {
    let theme = &model.theme;
    let mut doc = Doc::new(theme, width);
    if let Some(note) = &preview.note {
        doc.text(0, note, theme.tone(Tone::Warn));
        doc.text(0, "Nothing was signalled. This is how it looks now:", theme.text());
        doc.blank();
    }
    // A small screen keeps its rows for the processes.
    if model.size.1 >= 10 || preview.plan.is_none() {
        doc.text(0, &about(model, preview), theme.dim());
    }
    let Some(plan) = &preview.plan else {
        doc.blank();
        doc.text(0, &format!("looking at the processes {MORE}"), theme.dim());
        return (doc.into_lines(), None);
    };
    if model.size.1 >= 10 {
        doc.text(0, &summary(plan, preview), theme.text());
    }
    let selected = plan_lines(&mut doc, plan, Some(preview));
    for note in &plan.notes {
        doc.blank();
        doc.text(0, note, theme.dim());
    }
    (doc.into_lines(), selected)
}

/// Says in one sentence what is asked for.
fn about(model: &Model, preview: &Preview) -> String {
    let session = preview.session.as_deref().and_then(|id| model.sessions.by_id(id));
    let place = session
        .map_or_else(String::new, |row| format!("{} {DOT} {} {DOT} {}", row.session, row.kind.name(), row.host.name()));
    let what = match preview.act {
        Act::Stop => "ends what is listed, politely at first, with KILL after the grace",
        Act::Force => "ends what is listed with KILL at once",
        Act::Sweep => "ends what earlier stops left behind",
        Act::Reap => "ends what is left of sessions without a manager; only what is verified",
        Act::Restart => "ends what is listed, then starts the session again",
        Act::Replace => "ends what is listed, then launches what the form asks for in its place",
    };
    if place.is_empty() { what.to_owned() } else { format!("{place} {DOT} {what}") }
}

/// Adds the plan of a dry run. Each process is named once, below what would be done with it. Returns the line of
/// the kept process that the keys are on.
pub(super) fn plan_lines(doc: &mut Doc<'_>, receipt: &Receipt, preview: Option<&Preview>) -> Option<usize> {
    let plan = receipt.plan.as_deref().unwrap_or_default();
    let mut named = BTreeSet::new();
    let targets: Vec<_> = plan.iter().filter(|row| row.signal.is_some()).collect();
    if targets.is_empty() {
        doc.heading("Nothing to signal", None, Tone::Plain);
    } else {
        doc.heading("Will be signalled", Some(targets.len()), Tone::Plain);
    }
    for row in targets {
        named.insert(row.pid);
        doc.entry(&Entry {
            pid: row.pid,
            verdict: Some(row.verdict),
            what: row.signal.as_deref().unwrap_or_default(),
            tone: Tone::Warn,
            command: &row.command,
            reason: &row.reason,
        });
    }
    let known = |pid| {
        let planned = plan.iter().find(|row| row.pid == pid).map(|row| (row.verdict, &row.command, &row.reason));
        planned.or_else(|| {
            let row = receipt.captured.iter().find(|row| row.pid == pid)?;
            Some((row.verdict, &row.command, &row.reason))
        })
    };
    if !receipt.refused.is_empty() {
        doc.heading("Must not be signalled", Some(receipt.refused.len()), Tone::Warn);
        for refused in &receipt.refused {
            named.insert(refused.pid);
            let known = known(refused.pid);
            doc.entry(&Entry {
                pid: refused.pid,
                verdict: known.map(|(verdict, ..)| verdict),
                what: "refused",
                tone: Tone::Warn,
                command: known.map_or("", |(_, command, _)| command),
                reason: &refused.reason,
            });
        }
    }
    if !receipt.unverified.is_empty() {
        doc.heading("Cannot be verified, so not signalled", Some(receipt.unverified.len()), Tone::Warn);
        for pid in &receipt.unverified {
            named.insert(*pid);
            let known = known(*pid);
            doc.entry(&Entry {
                pid: *pid,
                verdict: Some(VerdictKind::Unverifiable),
                what: "none",
                tone: Tone::Dim,
                command: known.map_or("", |(_, command, _)| command),
                reason: known.map_or("", |(.., reason)| reason),
            });
        }
    }
    let selected = kept_lines(doc, &receipt.kept, preview);
    named.extend(receipt.kept.iter().chain(&receipt.escapees).map(|row| row.pid));
    let rest: Vec<_> = plan.iter().filter(|row| !named.contains(&row.pid)).collect();
    if !rest.is_empty() {
        doc.heading("Not signalled", Some(rest.len()), Tone::Dim);
    }
    for row in rest {
        doc.entry(&Entry {
            pid: row.pid,
            verdict: Some(row.verdict),
            what: "none",
            tone: Tone::Dim,
            command: &row.command,
            reason: &row.reason,
        });
    }
    bystanders(doc, "Left the tree, only reported", "reported", &receipt.escapees);
    bystanders(doc, "Look alike, not members", "untouched", &receipt.lookalikes);
    selected
}

/// Adds the processes that are kept, each with whether it was chosen to be ended all the same.
fn kept_lines(doc: &mut Doc<'_>, kept: &[Bystander], preview: Option<&Preview>) -> Option<usize> {
    let Some(preview) = preview else {
        bystanders(doc, "Kept alive on purpose", "kept", kept);
        return None;
    };
    let choices = preview.choices();
    let on = choices.get(preview.chosen(&choices));
    if on.is_none() {
        bystanders(doc, "Kept alive on purpose", "kept", kept);
        return None;
    }
    doc.heading("Kept alive on purpose, unless chosen", Some(kept.len()), Tone::Dim);
    let mut selected = None;
    for row in kept {
        if on.is_some_and(|on| on.pid == row.pid) {
            selected = Some(doc.height());
        }
        let ends = preview.end_kept.iter().any(|chosen| chosen.pid == row.pid);
        doc.entry(&Entry {
            pid: row.pid,
            verdict: None,
            what: if ends { "[x] ends" } else { "[ ] stays" },
            tone: if ends { Tone::Warn } else { Tone::Dim },
            command: &row.command,
            reason: row.reason.as_deref().unwrap_or_default(),
        });
    }
    selected
}

/// Says in one line what follows, as it may not all be in view.
fn summary(receipt: &Receipt, preview: &Preview) -> String {
    let chosen = preview.end_kept.len();
    let targets = preview.targets().count() + chosen;
    let mut text = format!("{} to signal", human::count(targets, "process", "processes"));
    for (count, word) in [
        (receipt.refused.len(), "must not be signalled"),
        (receipt.unverified.len(), "cannot be verified"),
        (receipt.kept.len().saturating_sub(chosen), "kept"),
    ] {
        if count > 0 {
            let _ignored = write!(text, " {DOT} {count} {word}");
        }
    }
    text
}

/// Adds processes that are named and left alone.
pub(super) fn bystanders(doc: &mut Doc<'_>, heading: &str, what: &str, rows: &[Bystander]) {
    if rows.is_empty() {
        return;
    }
    doc.heading(heading, Some(rows.len()), Tone::Dim);
    for row in rows {
        doc.entry(&Entry {
            pid: row.pid,
            verdict: None,
            what,
            tone: Tone::Dim,
            command: &row.command,
            reason: row.reason.as_deref().unwrap_or_default(),
        });
    }
}

/// Returns the question before the end: what ends with us, and what stays.
pub(super) fn quit_lines(model: &Model, quit: &QuitBox, width: u16) -> Vec<Line<'static>> {
    let theme = &model.theme;
    let mut doc = Doc::new(theme, width);
    let mut ending = ending(model);
    ending.retain(|id| ends(model, quit, id));
    if ending.is_empty() {
        doc.text(0, "Nothing ends with this program.", theme.text());
    } else {
        doc.heading("These sessions end", Some(ending.len()), Tone::Warn);
    }
    for row in ending.iter().filter_map(|id| model.sessions.by_id(id)) {
        session(&mut doc, theme, row);
        for target in quit.plans.get(&row.session).and_then(|plan| plan.plan.as_ref()).into_iter().flatten() {
            if let Some(signal) = &target.signal {
                doc.entry(&Entry {
                    pid: target.pid,
                    verdict: Some(target.verdict),
                    what: signal,
                    tone: Tone::Warn,
                    command: &target.command,
                    reason: "",
                });
            }
        }
        for left in quit.plans.get(&row.session).into_iter().flat_map(|plan| plan.kept.iter().chain(&plan.escapees)) {
            doc.entry(&Entry {
                pid: left.pid,
                verdict: Some(VerdictKind::Owned),
                what: "stays",
                tone: Tone::Dim,
                command: &left.command,
                reason: left.reason.as_deref().unwrap_or_default(),
            });
        }
    }
    let staying: Vec<_> =
        model.sessions.rows().iter().filter(|row| !row.phase.is_over() && !ending.contains(&row.session)).collect();
    if !staying.is_empty() {
        doc.heading("These stay", Some(staying.len()), Tone::Good);
        for row in staying {
            session(&mut doc, theme, row);
        }
    }
    doc.into_lines()
}

/// Tells whether somebody ends: of a session that is over its plan says it, as soon as there is one.
fn ends(model: &Model, quit: &QuitBox, id: &str) -> bool {
    let is_over = model.sessions.by_id(id).is_some_and(|row| row.phase.is_over());
    let plan = quit.plans.get(id).and_then(|plan| plan.plan.as_ref()).filter(|_| is_over);
    plan.is_none_or(|rows| rows.iter().any(|row| row.signal.is_some()))
}

fn session(doc: &mut Doc<'_>, theme: &Theme, row: &SessionRow) {
    let place = match (row.host, &row.owner) {
        (HostKind::Tmux, _) => "tmux".to_owned(),
        (HostKind::Pty, None) => "pty, dies with this program".to_owned(),
        (HostKind::Pty, Some(owner)) => format!("pty of {owner}"),
    };
    let text = format!(
        "{} {DOT} {} {DOT} {place} {DOT} {}",
        row.name,
        row.session,
        human::count(row.processes, "process", "processes")
    );
    doc.text(2, &text, theme.text());
}
