//! Orphans, and the checks of the doctor.

use ratatui::text::Line;

use super::super::glyph::DOT;
use super::super::model::Model;
use super::super::theme::{Tone, verdict_glyph, verdict_tone};
use super::doc::{Doc, span};
use super::human;
use crate::app::command::{Check, CheckState, Orphan, Orphans};

pub(super) fn orphan_lines(model: &Model, orphans: &Orphans, width: u16) -> Vec<Line<'static>> {
    let theme = &model.theme;
    let mut doc = Doc::new(theme, width);
    if orphans.orphans.is_empty() {
        doc.text(0, "Nothing is left of any session without a manager.", theme.text());
    } else {
        doc.heading("Left of earlier sessions", Some(orphans.orphans.len()), Tone::Warn);
    }
    for orphan in &orphans.orphans {
        draw(&mut doc, orphan);
    }
    if !orphans.quarantined.is_empty() {
        doc.heading("Records that are left alone", Some(orphans.quarantined.len()), Tone::Warn);
    }
    for record in &orphans.quarantined {
        doc.text(2, &record.path.to_string_lossy(), theme.text());
        doc.text(4, &record.reason, theme.dim());
    }
    let report = &orphans.report;
    doc.blank();
    let counters = format!(
        "{} seen {DOT} {} kept {DOT} {} ended {DOT} {} gone {DOT} {} foreign {DOT} {} unverifiable {DOT} {} failed {DOT} by {}",
        report.seen,
        report.kept,
        report.torn_down,
        report.already_gone,
        report.foreign,
        report.unverifiable,
        report.failed,
        report.inspector
    );
    doc.text(0, &counters, theme.dim());
    doc.into_lines()
}

fn draw(doc: &mut Doc<'_>, orphan: &Orphan) {
    let theme = doc.theme;
    let row = &orphan.row;
    doc.line(vec![
        span(verdict_glyph(row.verdict), theme.tone(verdict_tone(row.verdict))),
        span(&format!(" {:<14}", row.verdict.name()), theme.tone(verdict_tone(row.verdict))),
        span(
            &format!(
                "{:>4}{:>6}{:>7}  ",
                human::age(Some(orphan.age_s)),
                human::percent(row.cpu_pct),
                human::bytes(row.rss_bytes)
            ),
            theme.dim(),
        ),
        span(&row.name, theme.strong()),
    ]);
    let place = format!(
        "{} {DOT} {} {DOT} {}",
        row.session,
        row.host.name(),
        human::count(row.processes, "process", "processes")
    );
    doc.text(2, &place, theme.dim());
    doc.text(2, &orphan.reason, theme.text());
    if let Some(last) = &orphan.last {
        doc.text(2, &format!("last seen {}: {}", last.verdict.name(), last.reason), theme.dim());
    }
}

pub(super) fn doctor_lines(model: &Model, checks: &[Check], width: u16) -> Vec<Line<'static>> {
    let theme = &model.theme;
    let mut doc = Doc::new(theme, width);
    for check in checks {
        let (word, tone) = match check.state {
            CheckState::Ok => ("ok", Tone::Good),
            CheckState::Warn => ("warn", Tone::Warn),
            CheckState::Fail => ("fail", Tone::Bad),
        };
        doc.line(vec![
            span(&format!("{} {word:<6}", tone.glyph()), theme.tone(tone)),
            span(&check.name, theme.strong()),
        ]);
        doc.text(8, &check.detail, theme.text());
        if let Some(way_out) = &check.way_out {
            doc.text(8, &format!("way out: {way_out}"), theme.tone(Tone::Warn));
        }
    }
    if checks.is_empty() {
        doc.text(0, "Nothing was checked.", theme.dim());
    }
    doc.into_lines()
}
