//! How a session came to its end, and what would help: whole, where a title has no room for it.

use ratatui::text::Line;

use super::super::keymap::{Action, Context};
use super::super::model::Model;
use super::super::theme::Tone;
use super::doc::{Doc, span};
use super::list;
use crate::app::contract::SessionRow;

pub(super) fn lines(model: &Model, session: &SessionRow, width: u16) -> Vec<Line<'static>> {
    let theme = &model.theme;
    let mut doc = Doc::new(theme, width);
    let (word, tone) = list::state(model, session);
    doc.line(vec![span(&word, theme.tone(tone))]);
    if let Some(detail) = &session.detail {
        doc.text(0, detail, theme.text());
    }
    if let Some(suggest) = &session.suggest {
        doc.heading("What is suggested", None, Tone::Plain);
        doc.text(0, &suggest.text, theme.text());
        if let Some(command) = &suggest.command {
            let key = model.keys.shown(Context::Panes, Action::Fix);
            doc.blank();
            doc.text(0, &format!("{key} opens this in the launch form:"), theme.dim());
            doc.text(2, &command.shown(), theme.text());
        }
    }
    doc.into_lines()
}
