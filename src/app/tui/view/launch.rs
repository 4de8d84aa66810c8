//! The launch menu and the line in which a command is typed.

use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::super::glyph;
use super::super::keymap::{Action, Context};
use super::super::model::{Launch, Model};
use super::super::theme::Tone;
use super::ask::field;
use super::doc::{Doc, span};
use super::list::heading;
use crate::app::config::RecipeRow;
use crate::app::contract::Kind;
use crate::text::{escape, shorten};

/// Returns the recipes in the order in which they are offered: by kind, then as they came.
pub(in super::super) fn menu_order(recipes: &[RecipeRow]) -> impl Iterator<Item = &RecipeRow> {
    Kind::ALL.into_iter().flat_map(|kind| recipes.iter().filter(move |row| row.kind == kind))
}

/// The text of the menu, and which of its lines is selected.
pub(super) fn lines(model: &Model, launch: &Launch, width: u16) -> (Vec<Line<'static>>, Option<usize>) {
    if launch.typing {
        return (line(model, launch, width), None);
    }
    let theme = &model.theme;
    let mut doc = Vec::new();
    let mut selected = None;
    let wanted = launch.recipe.as_deref();
    let mut kind = None;
    let width = usize::from(width);
    let mut first = true;
    for row in menu_order(&model.recipes) {
        if kind != Some(row.kind) {
            if kind.is_some() {
                doc.push(Line::default());
            }
            doc.push(Line::from(span(heading(row.kind), theme.dim())));
            kind = Some(row.kind);
        }
        let is_selected = wanted.map_or(first, |name| name == row.name);
        first = false;
        if is_selected {
            selected = Some(doc.len());
        }
        doc.push(recipe(model, row, is_selected, width));
    }
    if model.recipes.is_empty() {
        let mut empty = Doc::new(theme, u16::try_from(width).unwrap_or(u16::MAX));
        let key = model.keys.shown(Context::Menu, Action::Type);
        empty.text(0, &format!("No recipes. Press {key} to type a command."), theme.dim());
        doc.extend(empty.into_lines());
    }
    if let Some(note) = &launch.note {
        let mut text = Doc::new(theme, u16::try_from(width).unwrap_or(u16::MAX));
        text.text(0, note, theme.tone(Tone::Warn));
        doc.push(Line::default());
        doc.extend(text.into_lines());
    }
    (doc, selected)
}

fn recipe(model: &Model, row: &RecipeRow, selected: bool, width: usize) -> Line<'static> {
    let theme = &model.theme;
    let style = if row.available { theme.text() } else { theme.dim() };
    let mark = if selected { glyph::BAR } else { " " };
    let name_width = if width >= 40 { 18 } else { width.saturating_sub(2) };
    let name = shorten(&escape(&row.name), name_width);
    let pad = " ".repeat(name_width.saturating_sub(unicode_width::UnicodeWidthStr::width(name.as_str())));
    let bold = if selected { Modifier::BOLD } else { Modifier::empty() };
    let mut spans = vec![
        Span::styled(mark, theme.accent()),
        Span::raw(" "),
        Span::styled(format!("{name}{pad}"), style.add_modifier(bold)),
    ];
    if width >= 40 {
        let host = format!("  {:<6}", row.host.name());
        let room = width.saturating_sub(2 + name_width + host.len());
        let (text, tone) = match (&row.reason, row.available) {
            (Some(reason), false) => (reason.as_str(), theme.tone(Tone::Warn).add_modifier(Modifier::DIM)),
            (None, false) => ("not available here", theme.dim()),
            (_, true) => (row.command.as_str(), theme.dim()),
        };
        spans.push(Span::styled(host, theme.dim()));
        spans.push(Span::styled(shorten(&escape(text), room), tone));
    }
    let line = Line::from(spans);
    if selected { line.patch_style(theme.selection(true)) } else { line }
}

fn line(model: &Model, launch: &Launch, width: u16) -> Vec<Line<'static>> {
    let theme = &model.theme;
    let mut doc = Doc::new(theme, width);
    doc.text(0, "A command for sh -c:", theme.dim());
    doc.blank();
    field(&mut doc, "$", &launch.line);
    let lines = launch.line.text().trim().lines().count();
    if lines > 1 {
        doc.text(2, &format!("{lines} lines: sh runs them as a script"), theme.dim());
    }
    doc.blank();
    let host = launch.host.map_or("by kind", crate::app::contract::HostKind::name);
    doc.line(vec![
        span("kind ", theme.dim()),
        span(launch.kind().name(), theme.strong()),
        span("   host ", theme.dim()),
        span(host, theme.strong()),
    ]);
    if let Some(note) = &launch.note {
        doc.blank();
        doc.text(0, note, theme.tone(Tone::Warn));
    }
    doc.into_lines()
}
