//! What is known of a server that is none of ours.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Widget as _;

use super::super::model::Model;
use super::doc::Doc;
use super::human::{self, UNKNOWN};
use super::paint::Row;
use super::why::fact;
use crate::app::contract::OtherServer;

pub(super) fn lines(model: &Model, row: &OtherServer, width: u16) -> Vec<Line<'static>> {
    let theme = &model.theme;
    let mut doc = Doc::new(theme, width);
    doc.text(
        0,
        "A model server that belongs to no session. It is shown, and never typed into or signalled.",
        theme.text(),
    );
    doc.blank();
    fact(&mut doc, "looks like", &row.server);
    fact(&mut doc, "pid", &row.pid.to_string());
    fact(&mut doc, "owner", row.user.as_deref().unwrap_or(UNKNOWN));
    let ports = match row.ports.as_deref() {
        None => "nobody can tell: its owner is another one".to_owned(),
        Some([]) => "nothing".to_owned(),
        Some(_) => row.shown_ports(),
    };
    fact(&mut doc, "listens on", &ports);
    fact(&mut doc, "memory", &human::bytes(row.rss_bytes));
    fact(&mut doc, "command", &row.command);
    doc.into_lines()
}

/// Draws it in the place of a terminal.
pub(super) fn draw(model: &Model, row: &OtherServer, area: Rect, buffer: &mut Buffer) {
    let area = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area }.intersection(buffer.area);
    for (y, line) in (area.y..area.bottom()).zip(lines(model, row, area.width)) {
        line.render(Rect { y, height: 1, ..area }, buffer);
    }
}

/// Draws its line of the list: the columns leave as the room gets less, and the name stays longest.
pub(super) fn draw_row(model: &Model, stranger: &OtherServer, bar: &str, row: &mut Row<'_>) {
    let theme = &model.theme;
    row.reserve(1);
    let room = row.room();
    row.put(bar, theme.accent()).gap(2);
    let memory = if room >= 35 { 6 } else { 0 };
    let owner = if room >= 26 { 11 } else { 0 };
    let port = if room >= 20 { 7 } else { 0 };
    let width = row.room().saturating_sub(memory + owner + port);
    row.left(width, &stranger.server, theme.text());
    if owner > 0 {
        row.gap(1).left(owner - 2, stranger.user.as_deref().unwrap_or(UNKNOWN), theme.dim()).gap(1);
    }
    if port > 0 {
        let ports = if stranger.ports.is_some() { stranger.shown_ports() } else { UNKNOWN.to_owned() };
        row.left(port - 1, &ports, theme.text()).gap(1);
    }
    if memory > 0 {
        row.right(memory, &human::bytes(stranger.rss_bytes), theme.text());
    }
}
