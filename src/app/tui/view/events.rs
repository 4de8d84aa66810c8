//! The event log: what is looked for is in its title, what matches below it.

use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::super::glyph;
use super::super::model::{Events, Model, told};
use super::super::theme::Tone;
use super::doc::{Doc, span, wrap};
use super::{human, palette};
use crate::text::escape;

/// Returns the title, with the filter.
pub(super) fn title(events: &Events) -> String {
    match events.line.text() {
        _ if events.typing => format!("Events  /{}", palette::typed(&events.line)),
        "" => "Events".to_owned(),
        text => format!("Events  /{text}"),
    }
}

/// Returns what has happened and matches, and which of the rows is selected.
pub(super) fn lines(model: &Model, events: &Events, width: u16) -> (Vec<Line<'static>>, Option<usize>) {
    let theme = &model.theme;
    let mut doc = Doc::new(theme, width);
    let lines = events.lines(&model.log);
    let chosen = events.place(&lines);
    let mut selected = None;
    for (place, (_, line)) in lines.iter().enumerate() {
        let is_chosen = place == chosen;
        if is_chosen {
            selected = Some(doc.height());
        }
        let at = human::since_start(line.at);
        let head = vec![
            Span::styled(if is_chosen { glyph::BAR } else { " " }, theme.accent()),
            span(&format!("{at:>6}"), theme.dim()),
            Span::raw(" "),
            span(line.tone.glyph(), theme.tone(line.tone)),
            Span::raw(" "),
        ];
        let style = if line.tone == Tone::Good { theme.text() } else { theme.tone(line.tone) };
        let style = if is_chosen { style.add_modifier(Modifier::BOLD) } else { style };
        if doc.width() < 30 {
            doc.line(head);
            doc.text(1, &told(line), style);
            continue;
        }
        let mut head = Some(head);
        for part in wrap(&escape(&told(line)), doc.width() - 10) {
            let mut spans = head.take().unwrap_or_else(|| vec![Span::raw(" ".repeat(10))]);
            spans.push(Span::styled(part, style));
            doc.line(spans);
        }
    }
    if lines.is_empty() {
        let text = if events.line.text().is_empty() { "Nothing has happened yet." } else { "Nothing matches." };
        doc.text(0, text, theme.dim());
    }
    (doc.into_lines(), selected)
}
