//! One whole frame.

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Position;

use super::super::glyph;
use super::super::model::{Model, Pane};
use super::super::theme::Tone;
use super::layout::{Arrangement, layout};
use super::paint::Row;
use super::{Surface, bars, dialog, list, screen, tree};

/// Draws everything into a buffer that is empty. Returns where the cursor is to be shown, if anywhere.
pub fn draw(model: &Model, surface: Option<&dyn Surface>, buffer: &mut Buffer) -> Option<Position> {
    let layout = layout(model);
    let mut behind = Cell::EMPTY;
    behind.set_style(model.theme.base());
    if behind != Cell::EMPTY {
        buffer.content.fill(behind);
    }
    let mut cursor = None;
    if let Some(area) = layout.list {
        list::draw(model, area, buffer);
    }
    if let Some(area) = layout.screen {
        cursor = screen::draw(model, area, surface, buffer);
    }
    if let Some(area) = layout.tree {
        tree::draw(model, area, buffer);
    }
    if let Some(area) = layout.divider {
        let active = layout.arrangement == Arrangement::Wide && model.pane == Pane::List && model.overlays.is_empty();
        for index in 0..area.height {
            if let Some(mut row) = Row::new(buffer, area, index) {
                let style =
                    if model.broadcast { model.theme.tone(Tone::Bad) } else { model.theme.rule(active && index == 0) };
                row.put(if model.broadcast { glyph::HEAVY_UPRIGHT } else { glyph::UPRIGHT }, style);
            }
        }
    }
    if let Some(area) = layout.crumb {
        bars::crumb(model, area, buffer);
    }
    if let Some(area) = layout.event {
        bars::event(model, area, buffer);
    }
    if let Some(area) = layout.footer {
        bars::footer(model, area, buffer);
    }
    if let Some(overlay) = model.overlays.last() {
        cursor = dialog::draw(model, overlay, buffer);
    }
    model.theme.finish(buffer);
    cursor.filter(|at| buffer.area.contains(*at))
}
