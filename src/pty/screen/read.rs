//! Reads rows of the emulator's screen.
//!
//! Called by the screen and its reflow. Never allocates for a cell and never changes anything.

use super::cell::{self, CellStyle, Color};

/// Visits every column's cell: a wide character once, a cell without text as a blank.
pub(super) fn visit_row(screen: &vt100::Screen, row: u16, visit: &mut dyn FnMut(u16, &str, u8, CellStyle)) {
    let cols = screen.size().1.get();
    let mut col = 0;
    while col < cols {
        let Some(found) = screen.cell(row, col) else { return };
        let width = cell_width(found, col, cols);
        let text = if found.has_contents() { cell::shown(found.contents()) } else { " " };
        visit(col, text, width, style(found));
        col += u16::from(width);
    }
}

/// Visits the cells of a row as they are stored: up to the last that was touched, fillers as they are.
pub(super) fn visit_stored(screen: &vt100::Screen, row: u16, visit: &mut dyn FnMut(&str, u8, CellStyle)) {
    let cols = screen.size().1.get();
    let Some(last) = (0..cols).rev().find(|col| !is_untouched(screen, row, *col)) else { return };
    let mut col = 0;
    while col <= last {
        let Some(cell) = screen.cell(row, col) else { return };
        let width = cell_width(cell, col, cols);
        let text = if cell.has_contents() { cell.contents() } else { " " };
        visit(text, width, style(cell));
        col += u16::from(width);
    }
}

/// Returns whether nothing of a row can be seen.
pub(super) fn is_blank(screen: &vt100::Screen, row: u16) -> bool {
    let cols = screen.size().1.get();
    (0..cols).all(|col| {
        screen.cell(row, col).is_none_or(|cell| {
            matches!(cell.contents(), "" | " ") && !cell.is_wide_continuation() && !style(cell).shows_on_blank()
        })
    })
}

/// Appends the text of a row up to the last cell that was touched, without the fillers at its end.
pub(super) fn push_row(screen: &vt100::Screen, row: u16, out: &mut String) {
    let mut fillers = 0;
    visit_stored(screen, row, &mut |text, _, _| {
        if cell::is_filler(text) {
            fillers += 1;
        } else {
            out.extend(std::iter::repeat_n(' ', std::mem::take(&mut fillers)));
            out.push_str(text);
        }
    });
}

/// Returns whether the last column of a row is empty.
pub(super) fn is_last_free(screen: &vt100::Screen, row: u16) -> bool {
    let last = screen.size().1.get() - 1;
    screen.cell(row, last).is_some_and(|cell| !cell.has_contents() && !cell.is_wide_continuation())
}

/// Returns the style that the next character will be printed in.
pub(super) fn pen(screen: &vt100::Screen) -> CellStyle {
    CellStyle {
        fg: color(screen.fgcolor()),
        bg: color(screen.bgcolor()),
        bold: screen.bold(),
        dim: screen.dim(),
        italic: screen.italic(),
        underline: screen.underline(),
        inverse: screen.inverse(),
    }
}

fn is_untouched(screen: &vt100::Screen, row: u16, col: u16) -> bool {
    screen
        .cell(row, col)
        .is_none_or(|cell| !cell.has_contents() && !cell.is_wide_continuation() && style(cell) == CellStyle::default())
}

fn cell_width(cell: &vt100::Cell, col: u16, cols: u16) -> u8 {
    if cell.is_wide() && col + 1 < cols { 2 } else { 1 }
}

fn style(cell: &vt100::Cell) -> CellStyle {
    CellStyle {
        fg: color(cell.fgcolor()),
        bg: color(cell.bgcolor()),
        bold: cell.bold(),
        dim: cell.dim(),
        italic: cell.italic(),
        underline: cell.underline(),
        inverse: cell.inverse(),
    }
}

fn color(color: vt100::Color) -> Color {
    match color {
        vt100::Color::Default => Color::Default,
        vt100::Color::Idx(index) => Color::Indexed(index),
        vt100::Color::Rgb(r, g, b) => Color::Rgb(r, g, b),
    }
}
