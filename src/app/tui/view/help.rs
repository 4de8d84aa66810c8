//! The help, made from the table of bindings: what holds at the place it was opened at comes first.

use ratatui::text::{Line, Span};

use super::super::glyph;
use super::super::keymap::{Action, Bound, Context, MOUSE, action_name, name_of};
use super::super::model::{Help, Model, has_words};
use super::super::theme::{Tone, verdict_glyph, verdict_tone};
use super::doc::{Doc, span, wrap};
use super::palette;
use crate::lifecycle::verdict::VerdictKind;

/// What stands beside the name of a session.
const MARKS: [(&str, &str); 5] = [
    (glyph::CHECK, "marked"),
    ("!", "asks for you, or something of it went wrong"),
    (glyph::ENDED, "has ended while nobody looked"),
    (glyph::UNSEEN, "has printed something since it was looked at"),
    (glyph::GUEST, "adopted"),
];

/// Columns for the keys, and where there are few.
const KEYS: usize = 19;
const FEW_KEYS: usize = 9;
/// From this width on the keys have their columns.
const ROOMY: usize = 44;
/// Narrowest of two columns of help.
const COLUMN: u16 = 48;
const GAP: u16 = 4;

/// A part of the help.
struct Part {
    heading: &'static str,
    /// It is of the place where the help was opened.
    is_here: bool,
    rows: Vec<Entry>,
}

/// A line of the help, before it is wrapped.
struct Entry {
    /// What a word of one character is compared with.
    keys: Vec<String>,
    word: String,
    verdict: Option<VerdictKind>,
    help: &'static str,
    /// Found by, but not shown: the name that the configuration has for it.
    name: &'static str,
}

/// Returns the title, with the filter.
pub(super) fn title(help: &Help) -> String {
    let place = help.place();
    match help.line.text() {
        _ if help.typing => format!("Keys: {place}  /{}", palette::typed(&help.line)),
        "" => format!("Keys: {place}"),
        text => format!("Keys: {place}  /{text}"),
    }
}

/// Returns the lines that have what is looked for.
pub(super) fn lines(model: &Model, help: &Help, width: u16) -> Vec<Line<'static>> {
    let mut parts = parts(model, help);
    let words = help.words();
    for part in &mut parts {
        let heading = part.heading;
        part.rows.retain(|row| has_words(&words, &row.keys, &[heading, &row.word, row.help, row.name].join(" ")));
    }
    parts.retain(|part| !part.rows.is_empty());
    if parts.is_empty() {
        let mut doc = Doc::new(&model.theme, width);
        doc.text(0, "Nothing matches.", model.theme.dim());
        return doc.into_lines();
    }
    if width < 2 * COLUMN + GAP {
        return parts.iter().flat_map(|part| drawn(model, part, width)).collect();
    }
    beside(parts.iter().map(|part| drawn(model, part, (width - GAP) / 2)).collect(), width)
}

/// Lays parts out in two columns, broken between two parts.
fn beside(parts: Vec<Vec<Line<'static>>>, width: u16) -> Vec<Line<'static>> {
    let column = (width - GAP) / 2;
    let half = parts.iter().map(Vec::len).sum::<usize>() / 2;
    let (mut left, mut right): (Vec<Line<'static>>, Vec<Line<'static>>) = (Vec::new(), Vec::new());
    for part in parts {
        let side = if right.is_empty() && left.len() < half { &mut left } else { &mut right };
        side.extend(part);
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

/// Returns the parts of the help: those of the place, then the others. No binding is told twice.
fn parts(model: &Model, help: &Help) -> Vec<Part> {
    let rows = |context: Context, wanted: &dyn Fn(&Bound) -> bool| -> Vec<Entry> {
        model.keys.in_context(context).filter(|bound| wanted(bound)).map(|bound| entry(model, bound)).collect()
    };
    let is_here = |context: Context, bound: &Bound| help.is_here(context, bound.action);
    // Of a pane what it does comes before what only moves.
    let mut here = rows(help.at, &|bound| is_here(help.at, bound) && !bound.action.moves());
    let moving = rows(help.at, &|bound| is_here(help.at, bound) && bound.action.moves());
    let mut parts = Vec::new();
    if help.at == Context::Panes && here.len() > moving.len() {
        parts.push(Part { heading: help.place(), is_here: true, rows: here });
        parts.push(Part { heading: "Moving", is_here: true, rows: moving });
    } else {
        here.extend(moving);
        parts.push(Part { heading: help.place(), is_here: true, rows: here });
    }
    // What is the same in the panes is told there, and the way to the help once.
    let told = |bound: &Bound| {
        bound.action == Action::Help
            || bound.action.moves()
                && model.keys.in_context(Context::Panes).any(|row| row.action == bound.action && row.keys == bound.keys)
    };
    for context in Context::ALL {
        if context == Context::Panes {
            let rows_of =
                |moves: bool| rows(context, &|bound| !is_here(context, bound) && bound.action.moves() == moves);
            parts.push(Part { heading: context.heading(), is_here: false, rows: rows_of(false) });
            parts.push(Part { heading: "Moving", is_here: false, rows: rows_of(true) });
            continue;
        }
        let rows = rows(context, &|bound| !is_here(context, bound) && !told(bound));
        parts.push(Part { heading: context.heading(), is_here: false, rows });
    }
    let named = |(word, help): &(&'static str, &'static str)| Entry {
        keys: Vec::new(),
        word: (*word).to_owned(),
        verdict: None,
        help,
        name: "",
    };
    parts.push(Part { heading: "Mouse", is_here: false, rows: MOUSE.iter().map(named).collect() });
    parts.push(Part { heading: "Marks in the list", is_here: false, rows: MARKS.iter().map(named).collect() });
    let verdicts = VerdictKind::ALL.into_iter().map(verdict).collect();
    parts.push(Part { heading: "Verdicts", is_here: false, rows: verdicts });
    parts
}

fn entry(model: &Model, bound: &Bound) -> Entry {
    let keys: Vec<String> = if bound.action == Action::Leave {
        vec![name_of(model.escape)]
    } else {
        bound.keys.iter().map(ToString::to_string).collect()
    };
    let word = if keys.is_empty() {
        format!("by {}", model.keys.shown(Context::Panes, Action::Palette))
    } else {
        keys.join(" ")
    };
    Entry { keys, word, verdict: None, help: bound.help, name: action_name(bound.action) }
}

fn verdict(verdict: VerdictKind) -> Entry {
    let help = match verdict {
        VerdictKind::Owned => "alive, and the very process that was recorded: only this one is ever signalled",
        VerdictKind::Gone => "has ended",
        VerdictKind::Foreign => "the pid names another process now",
        VerdictKind::Unverifiable => "nobody can tell: neither signalled nor forgotten",
    };
    let word = format!("{} {}", verdict_glyph(verdict), verdict.name());
    Entry { keys: Vec::new(), word, verdict: Some(verdict), help, name: "" }
}

/// Draws a part, with an empty line at its end.
fn drawn(model: &Model, part: &Part, width: u16) -> Vec<Line<'static>> {
    let theme = &model.theme;
    let mut doc = Doc::new(theme, width);
    if part.is_here {
        doc.line(vec![span(part.heading, theme.accent().patch(theme.strong())), span("  here", theme.dim())]);
    } else {
        doc.heading(part.heading, None, Tone::Plain);
    }
    for row in &part.rows {
        let style = row.verdict.map_or(theme.accent(), |verdict| theme.tone(verdict_tone(verdict)));
        described(&mut doc, span(&row.word, style), row.help);
    }
    doc.blank();
    doc.into_lines()
}

/// Adds a word with its explanation beside it; below it where the word is longer than its column.
fn described(doc: &mut Doc<'_>, word: Span<'static>, help: &str) {
    let column = if doc.width() < ROOMY { FEW_KEYS } else { KEYS };
    let used = 1 + column;
    let style = doc.theme.text();
    if used + 8 > doc.width() {
        doc.line(vec![Span::raw(" "), word]);
        return doc.text(3, help, doc.theme.dim());
    }
    let mut lines = wrap(help, doc.width() - used).into_iter();
    let mut head = vec![Span::raw(" "), word];
    let taken = head[1].width();
    if taken < column {
        head.push(Span::styled(format!("{}{}", " ".repeat(column - taken), lines.next().unwrap_or_default()), style));
    }
    doc.line(head);
    for line in lines {
        doc.line(vec![Span::raw(" ".repeat(used)), Span::styled(line, style)]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::fixtures::Bench;
    use super::super::super::model::Pane;
    use super::*;

    /// Wherever it is opened, each binding is told once, and those of the place first.
    #[test]
    fn every_binding_is_told_once_and_those_of_the_place_first() {
        let model = Bench::full(140, 40).model;
        for at in Context::ALL {
            for pane in [Pane::List, Pane::Screen, Pane::Tree] {
                let parts = parts(&model, &Help::at(at, pane));
                let (here, rest): (Vec<&Part>, Vec<&Part>) = parts.iter().partition(|part| part.is_here);
                assert!(parts.first().is_some_and(|part| part.is_here && !part.rows.is_empty()), "{at:?} {pane:?}");
                let is_help = |row: &&Entry| row.help == "show this help";
                assert!(here.iter().flat_map(|part| &part.rows).filter(is_help).count() <= 1);
                assert_eq!(rest.iter().flat_map(|part| &part.rows).filter(is_help).count(), 0);
                let of = |parts: &[&Part], bound: &Bound| {
                    let wanted = entry(&model, bound);
                    let rows = parts.iter().flat_map(|part| &part.rows);
                    rows.filter(|row| row.word == wanted.word && row.help == wanted.help).count()
                };
                for context in Context::ALL {
                    for bound in model.keys.in_context(context) {
                        let (first, then) = (of(&here, bound), of(&rest, bound));
                        assert!(
                            first + then > 0 || bound.action == Action::Help,
                            "{at:?} {pane:?} {context:?} {bound:?}"
                        );
                        if context == at && pane == Pane::List {
                            assert_eq!(first, 1, "{at:?} {bound:?}");
                        }
                    }
                }
            }
        }
    }
}
