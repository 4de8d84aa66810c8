//! Rebuilds the primary screen for another size.
//!
//! Called by the screen. The emulator cuts or pads rows when it is resized and pulls in blank rows for lines
//! it gave away. So the rows go into the history, which wraps lines for any width, and what belongs on the
//! screen is taken back and drawn. Modes, attributes and both cursors stay; the alternate screen is left to
//! the emulator, the program that drew it draws it again. Never loses a line but those below the cursor that
//! no longer fit.

use std::num::NonZeroU16;

use super::cell::{self, CellStyle};
use super::{Size, read};
use crate::pty::history::{History, TakenRow};

const LEAVE_ALTERNATE: &[u8] = b"\x1b[?47l";
const ENTER_ALTERNATE: &[u8] = b"\x1b[?47h";
const SAVE_CURSOR: &[u8] = b"\x1b7";
const RESTORE_CURSOR: &[u8] = b"\x1b8";

/// A place in the history: a line, counted from the oldest, and a column of it.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    line: usize,
    column: u32,
}

/// The places of what the screen held, now that its rows are in the history.
struct Stored {
    top: Place,
    cursor: Place,
    saved: Place,
    /// The last row was in use.
    full: bool,
}

/// Which rows of the history go on the new screen, and where the cursors are among them.
#[derive(Debug, PartialEq, Eq)]
struct Layout {
    first: usize,
    end: usize,
    cursor: (u16, u16),
    saved: (u16, u16),
}

/// Gives the screen its new size.
pub(super) fn resize(screen: &mut vt100::Screen, history: &mut History, size: Size) {
    // The screen moves to a parser of its own: the one it belongs to may be in the middle of a sequence.
    let mut shop = vt100::Parser::new(NonZeroU16::MIN, NonZeroU16::MIN, 0);
    std::mem::swap(shop.screen_mut(), screen);
    let alternate = shop.screen().alternate_screen();
    if alternate {
        shop.process(LEAVE_ALTERNATE);
    }
    let attributes = shop.screen().attributes_formatted();
    let cursor = shop.screen().cursor_position();
    shop.process(RESTORE_CURSOR);
    let saved_attributes = shop.screen().attributes_formatted();
    let saved = shop.screen().cursor_position();

    history.hold(true);
    let stored = store(shop.screen(), history, cursor, saved);
    history.set_width(size.cols);
    let layout = lay_out(history, &stored, size);
    history.take_rows(history.rows() - layout.end);
    let rows = history.take_rows(layout.end - layout.first);
    history.hold(false);

    // Without this the emulator would move the screen down by rows it believes to have in its scrollback.
    shop.screen_mut().clear_scrollback();
    shop.set_size(non_zero(size.rows), non_zero(size.cols));
    let mut out = b"\x1b[m\x1b[H\x1b[2J".to_vec();
    draw(&rows, size, &mut out);
    move_to(layout.saved, &mut out);
    out.extend_from_slice(saved_attributes.as_bytes());
    out.extend_from_slice(SAVE_CURSOR);
    place_cursor(&rows, layout.cursor, size, &mut out);
    out.extend_from_slice(attributes.as_bytes());
    if alternate {
        out.extend_from_slice(ENTER_ALTERNATE);
    }
    shop.process(&out);
    std::mem::swap(shop.screen_mut(), screen);
}

/// Appends the rows in use to the history.
fn store(screen: &vt100::Screen, history: &mut History, cursor: (u16, u16), saved: (u16, u16)) -> Stored {
    let (rows, _) = screen.size();
    let written = (0..rows.get()).rev().find(|row| !read::is_blank(screen, *row)).unwrap_or(0);
    let last = written.max(cursor.0);
    let mut stored = Stored {
        top: Place::default(),
        cursor: Place::default(),
        saved: Place::default(),
        full: last + 1 == rows.get(),
    };
    for row in 0..=last {
        history.begin_row();
        let start = Place { line: history.lines() - 1, column: history.draft_cols() };
        let place = |col: u16| Place { column: start.column + u32::from(col), ..start };
        if row == 0 {
            stored.top = start;
        }
        if row == cursor.0 {
            stored.cursor = place(cursor.1);
        }
        if row == saved.0.min(last) {
            stored.saved = place(saved.1);
        }
        read::visit_stored(screen, row, &mut |text, width, style| history.push(text, width, style));
        history.end_row(row < last && screen.row_wrapped(row));
    }
    stored
}

fn lay_out(history: &History, stored: &Stored, size: Size) -> Layout {
    let rows = usize::from(size.rows);
    let total = history.rows();
    let at = |place: Place| history.position(place.line, place.column);
    let (top, _) = at(stored.top);
    let (cursor_row, cursor_col) = at(stored.cursor);
    let (saved_row, saved_col) = at(stored.saved);
    let mut first = top;
    if stored.full {
        // What was at the bottom stays at the bottom: lines come back from the history.
        first = first.min(total.saturating_sub(rows));
    }
    if total - first > rows {
        // Rows leave at the top, but never the cursor's.
        first = (total - rows).min(cursor_row);
    }
    let row = |row: usize| u16::try_from(row.saturating_sub(first)).unwrap_or(u16::MAX).min(size.rows - 1);
    Layout {
        first,
        end: total.min(first + rows),
        cursor: (row(cursor_row), cursor_col),
        saved: (row(saved_row), saved_col.min(size.cols - 1)),
    }
}

fn draw(rows: &[TakenRow], size: Size, out: &mut Vec<u8>) {
    let mut continues = false;
    for (row, index) in rows.iter().zip(0u16..) {
        if !continues {
            move_to((index, 0), out);
        }
        let mut at = 0;
        for run in &row.runs {
            let end = at + usize::from(run.len);
            run.style.write_sgr(out);
            out.extend_from_slice(&row.text.as_bytes()[at..end]);
            at = end;
        }
        CellStyle::default().write_sgr(out);
        out.extend_from_slice(&row.text.as_bytes()[at..]);
        continues = row.wrapped && usize::from(index) + 1 < rows.len();
        if continues {
            for _ in row.cols..size.cols {
                out.extend_from_slice(cell::FILLER_TEXT.as_bytes());
            }
        }
    }
}

/// Moves the cursor. Behind the last column it can only be by printing there: the cell is drawn again.
fn place_cursor(rows: &[TakenRow], (row, col): (u16, u16), size: Size, out: &mut Vec<u8>) {
    let last = rows.get(usize::from(row)).filter(|_| col >= size.cols).and_then(last_cell);
    let Some((text, width, style)) = last else {
        move_to((row, col.min(size.cols - 1)), out);
        return;
    };
    move_to((row, size.cols - u16::from(width)), out);
    style.write_sgr(out);
    out.extend_from_slice(text.as_bytes());
}

fn last_cell(row: &TakenRow) -> Option<(&str, u8, CellStyle)> {
    let (text, width) = cell::cells(&row.text).last()?;
    let covered: usize = row.runs.iter().map(|run| usize::from(run.len)).sum();
    let style = row.runs.last().filter(|_| covered == row.text.len()).map_or_else(CellStyle::default, |run| run.style);
    Some((text, width, style))
}

fn move_to((row, col): (u16, u16), out: &mut Vec<u8>) {
    out.extend_from_slice(format!("\x1b[{};{}H", u32::from(row) + 1, u32::from(col) + 1).as_bytes());
}

pub(super) fn non_zero(value: u16) -> NonZeroU16 {
    NonZeroU16::new(value).unwrap_or(NonZeroU16::MIN)
}
