//! The tmux sessions that could be adopted.

use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::super::glyph;
use super::super::model::{Model, Picker};
use super::super::theme::Tone;
use super::doc::{Doc, span};
use super::paint::marker;
use crate::text::{escape, shorten};

/// The text of the picker, and which of its lines is selected.
pub(super) fn lines(model: &Model, picker: &Picker, width: u16) -> (Vec<Line<'static>>, Option<usize>) {
    let theme = &model.theme;
    let mut doc = Doc::new(theme, width);
    let mut selected = None;
    let Some(rows) = &picker.rows else {
        doc.text(0, &format!("Asking the tmux servers {}", glyph::MORE), theme.dim());
        return (doc.into_lines(), None);
    };
    if rows.is_empty() {
        doc.text(0, "There is no tmux session that cookbook-tui did not launch.", theme.text());
    }
    for (index, row) in rows.iter().enumerate() {
        let is_selected = index == picker.chosen;
        if is_selected {
            selected = Some(doc.height());
        }
        let (state, tone) = match (&row.adopted, row.holds_us) {
            (_, true) => ("  holds this cookbook-tui: cannot be stopped from here".to_owned(), Tone::Warn),
            (Some(session), false) => (format!("  adopted: {session}"), Tone::Dim),
            (None, false) => (String::new(), Tone::Dim),
        };
        let socket = row.socket.rsplit('/').next().unwrap_or_default();
        let room = doc.width().saturating_sub(8);
        let name = shorten(&escape(&row.name), room);
        let aside =
            shorten(&escape(&format!("  {socket}{state}")), room.saturating_sub(Span::raw(name.as_str()).width()));
        let bold = if is_selected { Modifier::BOLD } else { Modifier::empty() };
        doc.line(vec![
            Span::styled(marker(glyph::BAR, is_selected), theme.accent()),
            span(&format!("{:<5} ", row.session_id), theme.dim()),
            Span::styled(name, theme.text().add_modifier(bold)),
            Span::styled(aside, theme.tone(tone)),
        ]);
    }
    for note in &picker.notes {
        doc.blank();
        doc.text(0, note, theme.tone(Tone::Warn));
    }
    if let Some(note) = &picker.note {
        doc.blank();
        doc.text(0, note, theme.tone(Tone::Warn));
    }
    (doc.into_lines(), selected)
}
