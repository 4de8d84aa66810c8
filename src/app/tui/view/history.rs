//! A terminal that is looked back in: its text as it was, with the cursor, the selection and the matches.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Modifier;

use super::super::glyph::DOT;
use super::super::model::{History, Model};
use super::super::theme::Tone;
use super::palette::typed;
use super::screen::cells;

/// Draws the text. Returns where the cursor is.
pub(super) fn draw(model: &Model, history: &History, body: Rect, buffer: &mut Buffer) -> Option<Position> {
    let selected = history.selected();
    let matches = history.search.as_ref().map(|search| search.matches.as_slice()).unwrap_or_default();
    for index in 0..body.height {
        let row = history.top + usize::from(index);
        // Matches are in order; those of this row begin at most a line before it.
        let first = matches.partition_point(|(_, to)| *to <= (row, 0));
        history.frozen.visit(row, &mut cells(buffer, body, index));
        for column in 0..body.width {
            let at = (row, column);
            let hit = matches[first..].iter().take_while(|(from, _)| *from <= at).find(|(_, to)| at < *to);
            let is_selected = selected.is_some_and(|(from, to)| from <= at && at <= to);
            let style = match hit {
                _ if is_selected => model.theme.text().add_modifier(Modifier::REVERSED),
                Some((from, _)) if *from == history.cursor => model.theme.badge(),
                Some(_) => model.theme.tone(Tone::Warn).add_modifier(Modifier::REVERSED),
                None => continue,
            };
            if let Some(cell) = buffer.cell_mut((body.x + column, body.y + index)) {
                cell.set_style(style);
            }
        }
    }
    let row = u16::try_from(history.cursor.0.checked_sub(history.top)?).ok()?;
    let column = history.cursor.1.min(body.width.saturating_sub(1));
    (row < body.height).then(|| Position::new(body.x + column, body.y + row))
}

/// Says where one is, and what is looked for.
pub(super) fn place(history: &History) -> String {
    let mut text = format!("paused {DOT} row {} of {}", history.cursor.0 + 1, history.frozen.len());
    if let Some(search) = &history.search {
        let line = if search.typing { typed(&search.line) } else { search.line.text().to_owned() };
        let found = match (search.error, history.count()) {
            (Some(error), _) => format!(" {error}"),
            (None, Some((_, kept))) if search.cut => format!(" {kept}+ found"),
            (None, Some((0, all))) => format!(" {all} found"),
            (None, Some((at, all))) => format!(" {at} of {all}"),
            (None, None) => String::new(),
        };
        text = format!("/{line}{found} {DOT} {text}");
    }
    text
}
