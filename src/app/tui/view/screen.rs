//! The terminal of the selected session.

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use std::borrow::Cow;
use std::fmt::Write as _;
use unicode_width::UnicodeWidthStr as _;

use super::super::glyph::DOT;
use super::super::keymap::{Action, Context};
use super::super::model::{Model, Pane};
use super::super::theme::{Theme, Tone, of_session};
use super::layout::{Area, Arrangement, arrangement, layout};
use super::paint::Row;
use super::{bars, history, human, list, stranger};
use crate::app::contract::SessionRow;
use crate::pty::screen::{CellStyle, Link, Screen, Size};

/// What is drawn of an emulator. A seam, so that the views can be drawn without one.
pub trait Surface {
    /// Rows and columns.
    fn size(&self) -> Size;
    /// Row and column, and whether it is to be seen.
    fn cursor(&self) -> (u16, u16, bool);
    /// Calls `visit` for the cells of a row, `offset` rows back in the history.
    fn visit_row(&self, offset: usize, row: u16, visit: &mut dyn FnMut(u16, &str, u8, CellStyle));
    /// Returns the links in the view that is `offset` rows back in the history, from the top.
    fn links(&self, offset: usize) -> Vec<Link>;
}

impl Surface for Screen {
    fn size(&self) -> Size {
        Self::size(self)
    }

    fn cursor(&self) -> (u16, u16, bool) {
        let (row, column) = Self::cursor(self);
        (row, column, self.modes().cursor_visible)
    }

    fn visit_row(&self, offset: usize, row: u16, visit: &mut dyn FnMut(u16, &str, u8, CellStyle)) {
        Self::visit_row(self, offset, row, visit);
    }

    fn links(&self, offset: usize) -> Vec<Link> {
        Self::links(self, offset)
    }
}

/// Returns which cells of a frame are links, from the top. While something lies over the panes none is.
pub(in super::super) fn links(model: &Model, surface: &dyn Surface) -> Vec<Link> {
    let is_live = model.current().is_some() && model.stranger().is_none() && model.history.is_none();
    let Some(area) = layout(model).screen.filter(|_| is_live && model.overlays.is_empty()) else { return Vec::new() };
    let body = area.body;
    let first = model.facts().map_or(0, |facts| facts.first_row(body.height, model.scroll));
    let shown = |link: Link| {
        let row = link.row.checked_sub(first).filter(|row| *row < body.height)?;
        let columns = body.x + link.columns.start..body.x + link.columns.end.min(body.width);
        (!columns.is_empty()).then_some(Link { row: body.y + row, columns, ..link })
    };
    surface.links(model.scroll).into_iter().filter_map(shown).collect()
}

/// Draws the pane. Returns where the cursor is, if it is to be shown.
pub(super) fn draw(model: &Model, area: Area, surface: Option<&dyn Surface>, buffer: &mut Buffer) -> Option<Position> {
    if let Some(title) = area.title {
        draw_title(model, title, buffer);
    }
    if let Some(stranger) = model.stranger() {
        stranger::draw(model, stranger, area.body, buffer);
        return None;
    }
    let (Some(session), Some(surface)) = (model.current(), surface) else {
        welcome(model, area.body, buffer);
        return None;
    };
    let body = area.body.intersection(buffer.area);
    if let Some(history) = &model.history {
        return history::draw(model, history, body, buffer).filter(|_| model.overlays.is_empty());
    }
    let first = model.facts().map_or(0, |facts| facts.first_row(body.height, model.scroll));
    let size = surface.size();
    for index in 0..body.height.min(size.rows.saturating_sub(first)) {
        surface.visit_row(model.scroll, first + index, &mut cells(buffer, body, index));
    }
    let typing = model.context() == Context::Terminal && !session.phase.is_over();
    let (row, column, visible) = surface.cursor();
    let row = row.checked_sub(first)?;
    let inside = row < body.height && column < body.width;
    (typing && visible && inside && model.scroll == 0).then(|| Position::new(body.x + column, body.y + row))
}

/// Returns what draws the cells of a row of an emulator, one by one, into a row of the body, which is
/// blank. The body is within the buffer.
pub(super) fn cells(buffer: &mut Buffer, body: Rect, index: u16) -> impl FnMut(u16, &str, u8, CellStyle) {
    let row = usize::from(body.y + index - buffer.area.y) * usize::from(buffer.area.width);
    let start = row + usize::from(body.x - buffer.area.x);
    let row = buffer.content.get_mut(start..start + usize::from(body.width)).unwrap_or_default();
    let mut last = (CellStyle::default(), of_session(CellStyle::default()));
    move |column, text, width, style| {
        if style != last.0 {
            last = (style, of_session(style));
        }
        cell(row, usize::from(column), (text, width), last.1);
    }
}

fn cell(row: &mut [Cell], column: usize, (text, width): (&str, u8), style: Style) {
    // Half of a wide character cannot be drawn.
    let fits = column + usize::from(width.max(1)) <= row.len();
    let Some(cell) = row.get_mut(column) else { return };
    let symbol = if fits { drawable(text, width) } else { " ".into() };
    if symbol != " " {
        cell.set_symbol(&symbol);
    }
    cell.set_style(style);
    if width == 2
        && fits
        && let Some(cell) = row.get_mut(column + 1)
    {
        cell.set_style(style);
    }
}

/// What a cell holds is foreign text: nothing of it may steer our terminal or reorder what is read.
fn drawable(text: &str, width: u8) -> Cow<'_, str> {
    if matches!(text.as_bytes(), [b' '..=b'~']) {
        return text.into();
    }
    if text.is_empty() {
        return " ".into();
    }
    // Two clusters that a joiner would make one in the terminal outside are two here, in columns of their own.
    let text = text.trim_end_matches('\u{200d}');
    match crate::text::escape(text) {
        // The emulator and the width table may differ about a character; the grid is the emulator's.
        Cow::Borrowed(text) if text.width() > usize::from(width.max(1)) => "?".into(),
        Cow::Borrowed(text) => text.into(),
        Cow::Owned(_) => " ".into(),
    }
}

fn draw_title(model: &Model, area: Rect, buffer: &mut Buffer) {
    let theme = &model.theme;
    let active = model.pane == Pane::Screen && model.overlays.is_empty();
    if let Some(stranger) = model.stranger() {
        let parts = [(stranger.server.as_str(), theme.strong()), ("  not ours", theme.dim())];
        return bars::title(theme, area, active, &parts, &stranger.pid.to_string(), buffer);
    }
    let Some(session) = model.current() else {
        return bars::title(theme, area, active, &[("Terminal", theme.text())], "", buffer);
    };
    let (word, tone) = list::state(model, session);
    let facts = about(session);
    let title = model.facts().map(|facts| facts.title.trim()).filter(|title| !title.is_empty());
    let title = title.map(|title| format!("  {title}")).unwrap_or_default();
    let everybody = format!(" BROADCAST to {} ", model.others().count() + 1);
    let badge = match (model.broadcast, model.focused) {
        (true, _) => everybody.as_str(),
        (false, true) => " TYPING ",
        (false, false) => "",
    };
    let badge_style = if model.broadcast { theme.alarm() } else { theme.badge() };
    let space = if model.focused { " " } else { "" };
    let mut parts: Vec<(&str, Style)> = vec![
        (&session.name, theme.strong()),
        ("  ", theme.text()),
        (badge, badge_style),
        (space, theme.text()),
        (&word, theme.tone(tone)),
    ];
    // Of a session that is over the word says how it ended; only the reason is new.
    let kept = model.sessions.kept(&session.session).filter(|_| session.phase.is_over());
    let mut detail = match (kept, session.reason()) {
        // It has ended; who has not is somebody else.
        (Some(kept), _) => {
            format!("; {} {} left alive", kept.join(", "), if kept.len() == 1 { "was" } else { "were" })
        }
        (None, Some(why)) if session.phase.is_over() => format!(": {why}"),
        (None, Some(why)) => format!(" {why}"),
        (None, None) => String::new(),
    };
    if let Some(suggest) = &session.suggest {
        let _ignored = write!(detail, "; {}", suggest.text);
        // First, so that a long reason does not push it out.
        if suggest.command.is_some() {
            detail.insert_str(0, " (F opens a fix)");
        }
    }
    parts.push((&detail, theme.dim()));
    parts.push((&facts, theme.dim()));
    let place = place(model, session);
    parts.push((&place, theme.dim()));
    parts.push((&title, theme.dim()));
    let aside = if let Some(history) = &model.history {
        history::place(history)
    } else if model.scroll > 0 {
        format!("{} back", model.scroll)
    } else if session.phase.is_over() && !detail.is_empty() {
        // Why it is over takes the room: its id is found by `c`.
        String::new()
    } else {
        session.session.clone()
    };
    bars::title(theme, area, active, &parts, &aside, buffer);
    if model.broadcast {
        // The whole rule, whatever stands on it.
        super::paint::tint(buffer, area, theme.tone(Tone::Bad));
    }
}

/// Returns where a session works, and on which branch, where there is room for it.
fn place(model: &Model, session: &SessionRow) -> String {
    let Some(dir) = session.cwd.as_deref().filter(|_| arrangement(model.size) == Arrangement::Wide) else {
        return String::new();
    };
    let branch = model.branches.get(dir).map(|branch| format!(" ({branch})")).unwrap_or_default();
    format!(" {DOT} {dir}{branch}")
}

/// Returns what is known of a session besides its name and state.
fn about(session: &SessionRow) -> String {
    let mut text = format!("  {} {DOT} {}", session.kind.name(), session.host.name());
    if session.machine != "local" {
        let _ignored = write!(text, " {DOT} on {}", session.machine);
    }
    for port in session.ports.iter().flatten().take(3) {
        let _ignored = write!(text, " {DOT} :{port}");
    }
    if let Some(bytes) = session.gpu_bytes {
        let _ignored = write!(text, " {DOT} gpu {}", human::bytes(Some(bytes)));
    }
    if session.adopted {
        let _ignored = write!(text, " {DOT} adopted");
    }
    if let Some(owner) = &session.owner {
        let _ignored = write!(text, " {DOT} owned by {owner}");
    }
    text
}

fn welcome(model: &Model, area: Rect, buffer: &mut Buffer) {
    let theme = &model.theme;
    match model.current() {
        None if model.sessions.is_empty() => {
            let key = |action| model.keys.shown(Context::Panes, action);
            let (start, events) = (key(Action::Start), key(Action::Events));
            let (help, quit) = (key(Action::Help), key(Action::Quit));
            let lines: [(&str, &str); 7] = [
                ("", "Nothing runs here yet."),
                ("", ""),
                (&start, "start a server, an agent, a shell or a download"),
                (&events, "what has happened so far"),
                (&help, "all keys"),
                (&quit, "quit"),
                ("", ""),
            ];
            let top = area.height.saturating_sub(8) / 3;
            let left = area.width.saturating_sub(52) / 2;
            for (index, (key, text)) in (top..).zip(lines) {
                if let Some(mut row) = Row::new(buffer, area, index) {
                    row.gap(left.max(1));
                    if key.is_empty() {
                        row.put(text, theme.strong());
                    } else {
                        row.left(4, key, theme.accent()).put(text, theme.dim());
                    }
                }
            }
        }
        None => centre(theme, area, "select a session to see its terminal", buffer),
        Some(session) => {
            let text =
                if session.phase.is_over() { "its last screen is not kept" } else { "its terminal is not connected" };
            centre(theme, area, text, buffer);
        }
    }
}

fn centre(theme: &Theme, area: Rect, text: &str, buffer: &mut Buffer) {
    if let Some(mut row) = Row::new(buffer, area, area.height / 3) {
        let left = area.width.saturating_sub(super::paint::width(text)) / 2;
        row.gap(left).put(text, theme.tone(Tone::Dim));
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::fixtures::{Bench, FakeScreen};
    use super::*;

    const ADDRESS: &str = "http://127.0.0.1:8080";

    /// What stands in a frame where a link is.
    fn linked(bench: &Bench) -> Vec<String> {
        let (buffer, _) = super::super::tests::draw(&bench.model);
        let surface = FakeScreen(Size { rows: 24, cols: 80 });
        let text = |link: Link| link.columns.map(|x| buffer[(x, link.row)].symbol().to_owned()).collect();
        links(&bench.model, &surface).into_iter().map(text).collect()
    }

    #[test]
    fn a_link_is_where_its_text_is() {
        for (cols, rows) in [(200, 60), (140, 40), (80, 24), (52, 18)] {
            let mut bench = Bench::full(cols, rows);
            if super::super::layout::tree_shown(&bench.model) && arrangement(bench.model.size) != Arrangement::Wide {
                bench.press("t");
            }
            let found = linked(&bench);
            assert_eq!(found.len(), 1, "{cols}x{rows}");
            assert!(ADDRESS.starts_with(&found[0]) && found[0].len() > 10, "{cols}x{rows}: {found:?}");
            bench.press("?");
            assert_eq!(linked(&bench), [""; 0], "something lies over it");
        }
        let mut bench = Bench::full(140, 40);
        bench.freeze("[/line<Enter>");
        assert_eq!(linked(&bench), [""; 0], "its history is looked at");
        assert_eq!(linked(&Bench::empty(140, 40)), [""; 0]);
    }

    /// Each is as wide as the emulator says, also where the terminal outside would make one of two.
    #[test]
    fn cells_are_drawn_in_their_columns() {
        for (text, width, expected) in [
            ("a", 1, "a"),
            ("", 1, " "),
            ("\u{1f469}\u{200d}", 2, "\u{1f469}"),
            ("\u{754c}", 2, "\u{754c}"),
            ("\u{754c}", 1, "?"),
            ("e\u{301}", 1, "e\u{301}"),
            ("\u{202e}", 1, " "),
        ] {
            assert_eq!(drawable(text, width), expected, "{text:?}");
        }
    }
}
