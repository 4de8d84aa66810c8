//! The frame of a dialog, its place, and its scrolling.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;

use super::super::glyph::{self, DOWN, UP};
use super::super::model::{Act, ManyAct, Model, Overlay, Reading};
use super::super::theme::{Tone, verdict_tone};
use super::doc::Doc;
use super::layout::layout;
use super::paint::{self, Row, width};
use super::{
    ask, bars, cause, events, form, help, launch, list, live, many, palette, picker, preview, receipt, report,
    stranger, why,
};

/// A dialog, laid out.
pub(super) struct Dialog {
    title: String,
    tone: Tone,
    pub(super) lines: Vec<Line<'static>>,
    /// The line that must be visible, if any.
    pub(super) selected: Option<usize>,
    /// Where the text is.
    pub(super) body: Rect,
    /// The border around it; `None` where it fills the screen.
    border: Option<Rect>,
}

/// Rows that a form has with everything that may be in it, as a rule.
const FORM_ROWS: u16 = 26;

/// Lays a dialog out for the size of the screen.
pub(super) fn dialog(model: &Model, overlay: &Overlay) -> Dialog {
    let (cols, rows) = model.size;
    // Small screens have no room for a border.
    let framed = cols >= 40 && rows >= 10;
    let most = match overlay {
        Overlay::Error(_) | Overlay::Ask(_) => 72,
        Overlay::Launch(_) | Overlay::Form(_) | Overlay::Picker(_) | Overlay::Palette(_) => 92,
        Overlay::Preview(_)
        | Overlay::Many(_)
        | Overlay::Reader(_)
        | Overlay::Help(_)
        | Overlay::Events(_)
        | Overlay::Quit(_) => 112,
    };
    let inner = if framed { cols.saturating_sub(8).min(most) } else { cols };
    let (title, tone, lines, selected) = content(model, overlay, inner);
    let whole = Rect::new(0, 0, cols, rows);
    if !framed {
        let top = u16::from(rows >= 3);
        let body = Rect { y: top, height: rows.saturating_sub(top + u16::from(rows >= 2)), ..whole };
        return Dialog { title, tone, lines, selected, body, border: None };
    }
    // The footer keeps its row: it says which keys the dialog has. So do the line above it, which says what has happened,
    // and the breadcrumb, which says where one is.
    let first = layout(model).crumb.map_or(0, Rect::bottom);
    let room = rows.saturating_sub(4 + first);
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).clamp(1, room);
    let x = (cols - inner) / 2;
    // A form that grows and shrinks with what is offered stays where it is.
    let nominal = if matches!(overlay, Overlay::Form(_)) { FORM_ROWS.min(room) } else { height };
    let y = ((rows - 1 - nominal) / 2).min(rows.saturating_sub(3 + height));
    let body = Rect::new(x, y.max(first + 1), inner, height);
    let border = Rect::new(x - 2, body.y - 1, inner + 4, height + 2);
    Dialog { title, tone, lines, selected, body, border: Some(border) }
}

type Content = (String, Tone, Vec<Line<'static>>, Option<usize>);

fn content(model: &Model, overlay: &Overlay, width: u16) -> Content {
    match overlay {
        Overlay::Preview(p) => {
            let tone = if p.act == Act::Force { Tone::Bad } else { Tone::Warn };
            let (lines, selected) = preview::lines(model, p, width);
            (format!("{}: {}", p.act.verb(), p.name), tone, lines, selected)
        }
        Overlay::Many(m) => {
            let tone = if m.act == ManyAct::Act(Act::Force) { Tone::Bad } else { Tone::Warn };
            (format!("{}: all that are marked", m.act.verb()), tone, many::lines(model, m, width), None)
        }
        Overlay::Reader(reader) => match &reader.reading {
            Reading::Live(session) => {
                let name = model.sessions.by_id(session).map_or(session.as_str(), |row| row.name.as_str());
                let live = model.live.iter().find(|live| live.session == *session);
                let lines = live.map(|live| live::lines(model, live, width)).unwrap_or_default();
                let place = live.map(|live| live.place).filter(|(_, all)| *all > 1);
                let place = place.map(|(place, all)| format!(" ({place} of {all})")).unwrap_or_default();
                (format!("Stopping: {name}{place}"), Tone::Warn, lines, None)
            }
            Reading::Receipt(r) => {
                let name = model.sessions.by_id(&r.session).map_or(r.session.as_str(), |row| row.name.as_str());
                let name = if name.is_empty() { "all sessions" } else { name };
                let tone = if r.is_clean() { Tone::Plain } else { Tone::Bad };
                (format!("Receipt: {name}"), tone, receipt::lines(model, r, width), None)
            }
            Reading::Orphans(o) => ("Orphans".to_owned(), Tone::Plain, report::orphan_lines(model, o, width), None),
            Reading::Why(w) => {
                let tone = w.verdict.map_or(Tone::Plain, verdict_tone);
                let tone = if tone == Tone::Good { Tone::Plain } else { tone };
                (format!("Why: {}", w.pid), tone, why::lines(model, w, width), None)
            }
            Reading::Cause(session) => {
                let (_, tone) = list::state(model, session);
                let tone = if tone == Tone::Bad { tone } else { Tone::Plain };
                (format!("Why: {}", session.name), tone, cause::lines(model, session, width), None)
            }
            Reading::Stranger(s) => {
                (format!("Not ours: {}", s.server), Tone::Plain, stranger::lines(model, s, width), None)
            }
            Reading::Doctor(checks) => {
                ("Doctor".to_owned(), Tone::Plain, report::doctor_lines(model, checks, width), None)
            }
        },
        Overlay::Help(h) => (help::title(h), Tone::Plain, help::lines(model, h, width), None),
        Overlay::Launch(l) => {
            let (lines, selected) = launch::lines(model, l, width);
            ("Start".to_owned(), Tone::Plain, lines, selected)
        }
        Overlay::Form(f) => {
            let (lines, selected) = form::lines(model, f, width);
            (form::title(f), Tone::Plain, lines, selected)
        }
        Overlay::Events(e) => {
            let (lines, selected) = events::lines(model, e, width);
            (events::title(e), Tone::Plain, lines, selected)
        }
        Overlay::Picker(p) => {
            let (lines, selected) = picker::lines(model, p, width);
            ("Adopt a tmux session".to_owned(), Tone::Plain, lines, selected)
        }
        Overlay::Ask(a) => ("Extend".to_owned(), Tone::Plain, ask::lines(model, a, width), None),
        Overlay::Palette(p) => {
            let (lines, selected) = palette::lines(model, p, width);
            (format!(": {}", palette::typed(&p.line)), Tone::Plain, lines, selected)
        }
        Overlay::Error(e) => {
            let mut doc = Doc::new(&model.theme, width);
            doc.text(0, e.kind(), model.theme.dim());
            doc.blank();
            doc.text(0, &e.error.message, model.theme.text());
            (format!("{} did not work", e.title), Tone::Bad, doc.into_lines(), None)
        }
        Overlay::Quit(q) => ("Quit".to_owned(), Tone::Warn, preview::quit_lines(model, q, width), None),
    }
}

/// Returns the first line that is shown.
fn scroll(overlay: &Overlay) -> usize {
    match overlay {
        Overlay::Preview(p) => p.scroll,
        Overlay::Many(m) => m.scroll,
        Overlay::Reader(r) => r.scroll,
        Overlay::Help(h) => h.scroll,
        Overlay::Quit(q) => q.scroll,
        Overlay::Launch(l) => l.top,
        Overlay::Form(f) => f.top,
        Overlay::Picker(p) => p.top,
        Overlay::Events(e) => e.top,
        Overlay::Palette(p) => p.top,
        Overlay::Ask(_) | Overlay::Error(_) => 0,
    }
}

/// Draws a dialog over everything. The cursor of a text field is drawn as a cell, so none is returned.
pub(super) fn draw(model: &Model, overlay: &Overlay, buffer: &mut Buffer) -> Option<Position> {
    let theme = &model.theme;
    let dialog = dialog(model, overlay);
    let tone = if dialog.tone == Tone::Plain { theme.accent() } else { theme.tone(dialog.tone) };
    let title = tone.add_modifier(Modifier::BOLD);
    let top = scroll(overlay);
    let below = dialog.lines.len().saturating_sub(top + usize::from(dialog.body.height));
    // What is behind steps back.
    paint::tint(buffer, buffer.area, theme.dim());
    if let Some(border) = dialog.border {
        clear(buffer, border, theme.base());
        frame(buffer, border, tone);
        let head = Rect { x: border.x + 2, width: border.width.saturating_sub(4), height: 1, ..border };
        if let Some(mut row) = Row::new(buffer, head, 0) {
            row.put(" ", theme.text()).put(&dialog.title, title).put(" ", theme.text());
        }
        more(model, border.bottom() - 1, border, (top, below), buffer);
    } else {
        let area = Rect::new(0, 0, model.size.0, model.size.1);
        let above = Rect { height: area.height.saturating_sub(u16::from(area.height >= 2)), ..area };
        clear(buffer, above, theme.base());
        if dialog.body.y > 0
            && let Some(mut row) = Row::new(buffer, area, 0)
        {
            row.put(&dialog.title, title);
            let room = row.room();
            let text = hidden(top, below);
            if room > width(&text) + 1 {
                row.gap(room - width(&text)).put(&text, theme.dim());
            }
        }
    }
    for (index, line) in (0..dialog.body.height).zip(dialog.lines.iter().skip(top)) {
        paint::line(buffer, dialog.body, index, line);
    }
    if let Some(selected) = dialog.selected
        && let Some(index) = selected.checked_sub(top).and_then(|index| u16::try_from(index).ok())
        && index < dialog.body.height
    {
        let row = Rect { y: dialog.body.y + index, height: 1, ..dialog.body };
        paint::tint(buffer, row, theme.selection(true));
    }
    if model.size.1 >= 2 {
        let footer = Rect::new(0, model.size.1 - 1, model.size.0, 1);
        clear(buffer, footer, theme.base());
        bars::footer(model, footer, buffer);
    }
    None
}

/// Says how much is above and below what is shown.
fn hidden(above: usize, below: usize) -> String {
    match (above, below) {
        (0, 0) => String::new(),
        (0, below) => format!("{below} more {DOWN}"),
        (above, 0) => format!("{UP} {above} more"),
        (above, below) => format!("{UP} {above}  {below} more {DOWN}"),
    }
}

fn more(model: &Model, y: u16, border: Rect, (above, below): (usize, usize), buffer: &mut Buffer) {
    let text = hidden(above, below);
    let room = width(&text) + 2;
    if text.is_empty() || border.width < room + 4 {
        return;
    }
    let place = Rect { x: border.right() - room - 2, y, width: room, height: 1 };
    if let Some(mut row) = Row::new(buffer, place, 0) {
        row.put(" ", model.theme.text()).put(&text, model.theme.dim()).put(" ", model.theme.text());
    }
}

fn clear(buffer: &mut Buffer, area: Rect, base: Style) {
    // The half of a wide character that is left at the right edge becomes a blank of its own.
    for y in area.y..area.bottom() {
        let is_wide = |x: u16| buffer.cell((x, y)).is_some_and(|cell| width(cell.symbol()) > 1);
        if area.width > 0
            && is_wide(area.right() - 1)
            && let Some(cell) = buffer.cell_mut((area.right(), y))
        {
            cell.reset();
            cell.set_style(base);
        }
    }
    let area = area.intersection(buffer.area);
    for position in area.positions() {
        if let Some(cell) = buffer.cell_mut(position) {
            cell.reset();
            cell.set_style(base);
        }
    }
    // Half of a wide character at the left edge would be drawn over the border.
    if area.x > 0 {
        for y in area.y..area.bottom() {
            if let Some(cell) = buffer.cell_mut((area.x - 1, y))
                && width(cell.symbol()) > 1
            {
                cell.set_symbol(" ");
            }
        }
    }
}

fn frame(buffer: &mut Buffer, area: Rect, style: Style) {
    let area = area.intersection(buffer.area);
    for index in 0..area.height {
        let (left, middle, right) = match index {
            0 => (glyph::TOP_LEFT, glyph::LIGHT, glyph::TOP_RIGHT),
            index if index + 1 == area.height => (glyph::BOTTOM_LEFT, glyph::LIGHT, glyph::BOTTOM_RIGHT),
            _ => (glyph::UPRIGHT, " ", glyph::UPRIGHT),
        };
        if let Some(mut row) = Row::new(buffer, area, index) {
            row.put(left, style);
            row.reserve(1);
            row.fill(middle, style);
        }
        let edge = Rect { x: area.right().saturating_sub(1), width: 1, ..area };
        if let Some(mut row) = Row::new(buffer, edge, index) {
            row.put(right, style);
        }
    }
}

/// Returns the text of a dialog, for the clipboard.
pub(in super::super) fn overlay_text(model: &Model, overlay: &Overlay) -> String {
    let (title, _, lines, _) = content(model, overlay, 100);
    let mut text = title;
    for line in lines {
        text.push('\n');
        text.push_str(line.to_string().trim_end());
    }
    text.push('\n');
    text
}
