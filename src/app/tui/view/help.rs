//! The help, made from the table of bindings.

use ratatui::text::{Line, Span};

use super::super::glyph;
use super::super::keymap::{Action, Bound, Context, MOUSE, name_of};
use super::super::model::Model;
use super::super::theme::{Tone, verdict_glyph, verdict_tone};
use super::doc::{Doc, span, wrap};
use crate::lifecycle::verdict::VerdictKind;

/// What stands beside the name of a session.
const MARKS: [(&str, &str); 5] = [
    (glyph::CHECK, "marked"),
    ("!", "asks for you, or something of it went wrong"),
    (glyph::ENDED, "has ended while nobody looked"),
    (glyph::UNSEEN, "has printed something since it was looked at"),
    (glyph::GUEST, "adopted"),
];

/// Columns for the keys.
const KEYS: usize = 19;
/// Narrowest of two columns of help.
const COLUMN: u16 = 48;
const GAP: u16 = 4;

pub(super) fn help_lines(model: &Model, width: u16) -> Vec<Line<'static>> {
    if width < 2 * COLUMN + GAP {
        return sections(model, width).into_iter().flatten().collect();
    }
    // Two columns, broken between two sections.
    let column = (width - GAP) / 2;
    let sections = sections(model, column);
    let half = sections.iter().map(Vec::len).sum::<usize>() / 2;
    let mut left: Vec<Line<'static>> = Vec::new();
    let mut right = Vec::new();
    for section in sections {
        let side = if right.is_empty() && left.len() < half { &mut left } else { &mut right };
        side.extend(section);
    }
    let rows = left.len().max(right.len());
    left.resize(rows, Line::default());
    right.resize(rows, Line::default());
    let beside = |(mut left, right): (Line<'static>, Line<'static>)| {
        let pad = usize::from(column + GAP).saturating_sub(left.width());
        left.spans.push(Span::raw(" ".repeat(pad)));
        left.spans.extend(right.spans.into_iter().map(|span| span.patch_style(right.style)));
        left
    };
    left.into_iter().zip(right).map(beside).collect()
}

/// Returns the parts of the help, each with its heading and an empty line at its end.
fn sections(model: &Model, width: u16) -> Vec<Vec<Line<'static>>> {
    let mut sections = Vec::new();
    let mut add = |heading: &str, fill: &dyn Fn(&mut Doc<'_>)| {
        let mut doc = Doc::new(&model.theme, width);
        doc.heading(heading, None, Tone::Plain);
        fill(&mut doc);
        doc.blank();
        sections.push(doc.into_lines());
    };
    for context in Context::ALL {
        let rows = || model.keys.in_context(context);
        let of_context = |moving: bool| rows().filter(move |binding| binding.action.moves() == moving);
        add(context.heading(), &|doc| {
            of_context(false).for_each(|binding| row(doc, &keys(model, binding), binding.help));
        });
        // The same everywhere, so told once.
        if context == Context::Panes {
            add("Moving", &|doc| of_context(true).for_each(|binding| row(doc, &keys(model, binding), binding.help)));
        }
    }
    add("Mouse", &|doc| MOUSE.iter().for_each(|(what, help)| row(doc, what, help)));
    add("Marks in the list", &|doc| MARKS.iter().for_each(|(mark, help)| row(doc, mark, help)));
    add("Verdicts", &|doc| VerdictKind::ALL.into_iter().for_each(|kind| verdict(doc, kind)));
    sections
}

fn verdict(doc: &mut Doc<'_>, verdict: VerdictKind) {
    let help = match verdict {
        VerdictKind::Owned => "alive, and the very process that was recorded: only this one is ever signalled",
        VerdictKind::Gone => "has ended",
        VerdictKind::Foreign => "the pid names another process now",
        VerdictKind::Unverifiable => "nobody can tell: neither signalled nor forgotten",
    };
    let word = format!("{:<KEYS$}", format!("{} {}", verdict_glyph(verdict), verdict.name()));
    let word = span(&word, doc.theme.tone(verdict_tone(verdict)));
    described(doc, word, help);
}
fn keys(model: &Model, binding: &Bound) -> String {
    if binding.action == Action::Leave {
        return name_of(model.escape);
    }
    if binding.keys.is_empty() {
        return format!("by {}", model.keys.shown(Context::Panes, Action::Palette));
    }
    binding.keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn row(doc: &mut Doc<'_>, keys: &str, help: &str) {
    let keys = span(&format!("{keys:<KEYS$}"), doc.theme.accent());
    described(doc, keys, help);
}

/// Adds a word with its explanation beside it, or, where that is too narrow, below it.
fn described(doc: &mut Doc<'_>, word: Span<'static>, help: &str) {
    let used = 1 + word.width();
    let style = doc.theme.text();
    if used + 16 > doc.width() {
        doc.line(vec![Span::raw(" "), word]);
        return doc.text(3, help, doc.theme.dim());
    }
    let mut lines = wrap(help, doc.width() - used).into_iter();
    doc.line(vec![Span::raw(" "), word, Span::styled(lines.next().unwrap_or_default(), style)]);
    for line in lines {
        doc.line(vec![Span::raw(" ".repeat(used)), Span::styled(line, style)]);
    }
}
