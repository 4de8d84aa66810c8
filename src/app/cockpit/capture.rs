//! From what tmux says of a pane to a screen that looks the same. Pure.
//!
//! tmux gives the rows as they are, and the lines with their wraps joined. A wrap is taken from the lines only where they
//! give the very same rows: tmux goes on calling a row wrapped that was rewritten since.

use crate::pty::screen::{HistoryLimit, Screen, Size};
use crate::tmux::parse::PaneModes;

/// Returns a screen that shows a pane: its modes, its contents, and which of its rows are one line.
pub(super) fn paint(modes: &PaneModes, rows: &[Vec<u8>], lines: &[Vec<u8>]) -> Screen {
    let size = Size::clamped(modes.height, modes.width);
    let mut screen = Screen::new(size, HistoryLimit::default());
    if modes.alternate_on {
        screen.process(b"\x1b[?1049h");
    }
    let mut is_first = true;
    for line in lines_of(rows, lines, size.cols) {
        if !is_first {
            // What is not printed of a row has no colour; that of the text goes on in the next one.
            let pen = screen.pen();
            screen.process(b"\x1b[m\r\n");
            screen.process(pen.as_bytes());
        }
        is_first = false;
        screen.process(line);
    }
    let mut end = format!("\x1b[m\x1b[{};{}H", modes.cursor_y + 1, modes.cursor_x + 1).into_bytes();
    for (on, mode) in [
        (modes.cursor_keys, &b"\x1b[?1h"[..]),
        (modes.keypad, b"\x1b="),
        (modes.mouse_standard, b"\x1b[?1000h"),
        (modes.mouse_button, b"\x1b[?1002h"),
        (modes.mouse_all, b"\x1b[?1003h"),
        (modes.mouse_sgr, b"\x1b[?1006h"),
        (!modes.cursor_visible, b"\x1b[?25l"),
        (modes.inserts, b"\x1b[4h"),
    ] {
        if on {
            end.extend_from_slice(mode);
        }
    }
    if !modes.title.is_empty() {
        let title: String = modes.title.chars().filter(|c| !c.is_control()).collect();
        end.extend_from_slice(format!("\x1b]2;{title}\x07").as_bytes());
    }
    screen.process(&end);
    screen
}

/// Returns what is to be printed one below the other: a line where it gives the same rows, else the rows.
fn lines_of<'a>(rows: &'a [Vec<u8>], lines: &'a [Vec<u8>], cols: u16) -> Vec<&'a [u8]> {
    let mut out: Vec<&[u8]> = Vec::with_capacity(rows.len());
    let mut left = rows;
    for line in lines {
        let wanted = letters(line);
        let mut held = 0;
        let count = left.iter().take_while(|row| {
            let more = held < wanted;
            held += letters(row);
            more
        });
        let (own, rest) = left.split_at(count.count().max(1).min(left.len()));
        left = rest;
        if own.len() > 1 && shows(own, line, cols) {
            out.push(line);
        } else {
            out.extend(own.iter().map(Vec::as_slice));
        }
    }
    out.extend(left.iter().map(Vec::as_slice));
    out
}

/// Tells whether a line, wrapped by a screen, shows the rows.
fn shows(rows: &[Vec<u8>], line: &[u8], cols: u16) -> bool {
    let Ok(count) = u16::try_from(rows.len()) else { return false };
    let shown = |parts: &[&[u8]]| {
        let mut screen = Screen::new(Size::clamped(count, cols), HistoryLimit::default());
        screen.process(&parts.join(&b"\r\n"[..]));
        (screen.history_rows(), screen.lines())
    };
    let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
    shown(&rows) == shown(&[line])
}

/// Counts what is no blank: blanks at the ends of rows are cut.
fn letters(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte != b' ').count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pty::screen::Color;

    fn painted(rows: &[&str], lines: &[&str]) -> Screen {
        let modes = PaneModes { height: 4, width: 10, cursor_visible: true, ..PaneModes::default() };
        let bytes = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>();
        paint(&modes, &bytes(rows), &bytes(lines))
    }

    fn check(rows: &[&str], lines: &[&str], expected: &[&str]) {
        let screen = painted(rows, lines);
        assert_eq!(screen.logical_lines(), expected);
        let shown: Vec<String> = rows.iter().map(|row| row.replace("\x1b[31m", "").replace("\x1b[39m", "")).collect();
        assert_eq!(screen.text(usize::MAX)[..shown.len()], shown, "{rows:?}");
    }

    #[test]
    fn wraps_are_kept_where_they_are_true() {
        check(&["0123456789", "abc", "next"], &["0123456789abc", "next"], &["0123456789abc", "next"]);
        check(&["a blank", "at the end"], &["a blank   at the end"], &["a blank   at the end"]);
        check(&["012345678", "界界", "x"], &["012345678界界", "x"], &["012345678界界", "x"]);
        check(
            &["0123456789", "0123456789", "0", "1", "2"],
            &["012345678901234567890", "1", "2"],
            &["012345678901234567890", "1", "2"],
        );
        // A row that was rewritten is still called wrapped.
        check(&["$ ls", "a.out"], &["$ lsa.out"], &["$ ls", "a.out"]);
        check(&["$ ls", "", "", "x"], &["$ ls", "", "", "x"], &["$ ls", "", "", "x"]);
        // Something was printed between the two answers.
        check(&["one", "two"], &["one", "two", "three"], &["one", "two"]);
        check(&["one", "two", "three"], &["two", "three"], &["one", "two", "three"]);
        check(&["one", "two"], &[], &["one", "two"]);
    }

    #[test]
    fn the_title_is_that_of_the_program() {
        for (title, expected) in
            [("", ""), ("a; title \u{6a21}", "a; title \u{6a21}"), ("a\x1b[31m\x07b\u{9c}c", "a[31mbc")]
        {
            let modes = PaneModes { height: 4, width: 10, title: title.to_owned(), ..PaneModes::default() };
            let screen = paint(&modes, &[], &[]);
            assert_eq!((screen.title(), screen.lines().concat().as_str()), (expected, ""), "{title:?}");
        }
    }

    #[test]
    fn a_colour_goes_on_in_the_next_row() {
        let rows = ["\x1b[31mred", "red 2", "\x1b[39mplain", "\x1b[41mon red\x1b[49m", "plain", "end"];
        let screen = painted(&rows, &rows);
        let colour = |row: usize, column: u16| {
            let mut found = None;
            screen.visit_row(screen.history_rows() - row, 0, &mut |at, _, _, style| {
                found = if at == column { Some((style.fg, style.bg)) } else { found };
            });
            found
        };
        let plain = (Color::Default, Color::Default);
        let red = (Color::Indexed(1), Color::Default);
        assert_eq!([colour(0, 0), colour(1, 0), colour(1, 9), colour(2, 0)], [red, red, plain, plain].map(Some));
    }
}
