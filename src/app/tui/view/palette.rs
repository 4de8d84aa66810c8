//! The command palette: what is typed is in its title, what matches below it.

use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use super::super::glyph::{self, DOT, UPRIGHT};
use super::super::model::{Entry, Field, Model, Palette};
use super::doc::{Doc, span};
use super::list;
use crate::text::{escape, shorten};

/// Columns for the keys.
const KEYS: usize = 12;

/// Returns what is typed, with a mark where the cursor is.
pub(super) fn typed(line: &Field) -> String {
    let (before, after) = line.split();
    format!("{before}{UPRIGHT}{after}")
}

pub(super) fn lines(model: &Model, palette: &Palette, width: u16) -> (Vec<Line<'static>>, Option<usize>) {
    let theme = &model.theme;
    let entries = palette.entries(model);
    if entries.is_empty() {
        let mut doc = Doc::new(theme, width);
        doc.text(0, "Nothing matches: no command, no session.", theme.dim());
        return (doc.into_lines(), None);
    }
    let chosen = palette.chosen.min(entries.len() - 1);
    let room = usize::from(width).saturating_sub(2);
    let keys = if room >= 40 { KEYS } else { 4 };
    let lines = entries.iter().enumerate().map(|(at, entry)| {
        let (left, text, aside) = match entry {
            Entry::Command { keys, help, .. } => (keys.clone(), (*help).to_owned(), String::new()),
            Entry::Session { session, name } => {
                let state = model.sessions.by_id(session).map(|row| (row.kind.name(), list::state(model, row).0));
                let aside = state.map(|(kind, state)| format!("  {kind} {DOT} {state}")).unwrap_or_default();
                ("go to".to_owned(), name.clone(), aside)
            }
        };
        let left = shorten(&escape(&left), keys - 1);
        let pad = " ".repeat(keys.saturating_sub(left.width()));
        let text = shorten(&escape(&text), room.saturating_sub(keys));
        let aside = shorten(&escape(&aside), room.saturating_sub(keys + text.width()));
        let bold = if at == chosen { Modifier::BOLD } else { Modifier::empty() };
        Line::from(vec![
            Span::styled(if at == chosen { glyph::BAR } else { " " }, theme.accent()),
            Span::raw(" "),
            span(&format!("{left}{pad}"), theme.accent()),
            Span::styled(text, theme.text().add_modifier(bold)),
            Span::styled(aside, theme.dim()),
        ])
    });
    (lines.collect(), Some(chosen))
}
