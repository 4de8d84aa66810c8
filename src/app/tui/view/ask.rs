//! Lines in which text is typed: the field itself, and the question for a duration.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use super::super::glyph;
use super::super::model::{Ask, Field, Model};
use super::super::theme::Tone;
use super::doc::Doc;
use crate::text::{escape, shorten};

/// Adds a field behind a prompt of one column; the part around the cursor is shown.
pub(super) fn field(doc: &mut Doc<'_>, prompt: &'static str, field: &Field) {
    let room = doc.width().saturating_sub(3);
    let mut spans = vec![Span::styled(prompt, doc.theme.accent()), Span::raw(" ")];
    spans.extend(typed(field.split(), room));
    doc.line(spans);
}

/// Returns what is before and after a cursor, and the cursor; the part around it is shown.
pub(super) fn typed((before, after): (&str, &str), room: usize) -> Vec<Span<'static>> {
    let before = tail(&visible(before), room.saturating_sub(1));
    let left = room.saturating_sub(before.width());
    let after = shorten(&visible(after), left.saturating_sub(1));
    let cursor = Style::new().add_modifier(Modifier::REVERSED);
    let mut rest = after.chars();
    let under = rest.next().map_or_else(|| " ".to_owned(), |c| c.to_string());
    vec![Span::raw(before), Span::styled(under, cursor), Span::raw(rest.as_str().to_owned())]
}

/// Returns text as one row: a line end is a character to be seen.
pub(super) fn visible(text: &str) -> String {
    text.split('\n').map(escape).collect::<Vec<_>>().join(glyph::RETURN)
}

/// Returns the end of a text, at most `width` columns.
fn tail(text: &str, width: usize) -> String {
    let mut start = 0;
    while text[start..].width() > width {
        start += text[start..].chars().next().map_or(1, char::len_utf8);
    }
    text[start..].to_owned()
}

pub(super) fn lines(model: &Model, ask: &Ask, width: u16) -> Vec<Line<'static>> {
    let theme = &model.theme;
    let mut doc = Doc::new(theme, width);
    // What is typed comes first: a small screen shows no more.
    field(&mut doc, ">", &ask.line);
    if let Some(note) = &ask.note {
        doc.text(0, note, theme.tone(Tone::Warn));
    }
    doc.blank();
    doc.text(
        0,
        &format!("How long may {} live from now? 90s, 30m, 12h, 7d; a bare number is hours.", ask.name),
        theme.dim(),
    );
    doc.into_lines()
}
