//! The short way for a flood: lines that would scroll through the screen unseen go straight to the history.
//!
//! Called by the screen. The emulator needs some microseconds for a line, most of them for moving and reading
//! rows of cells; a build log or `seq` prints lines far faster than anyone can see them. [`find`] measures how
//! much at the front of the bytes is nothing but text, colours and line ends; [`write`] turns lines of it into
//! history. Never touches the emulator, and never takes bytes that could move the cursor anywhere else.

use super::cell::{CellStyle, Color};
use crate::pty::history::History;

/// Lines longer than this go the long way.
const LINE_LIMIT: usize = 8 * 1024;
const SGR_LIMIT: usize = 40;

/// The plain front of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Front {
    /// Bytes up to the end of the last plain line.
    pub(super) len: usize,
    /// Plain lines in it.
    pub(super) lines: usize,
    /// Bytes that were looked at and are plain, at least `len`.
    pub(super) seen: usize,
}

/// Returns the longest front that consists of whole lines which only a cursor at the beginning of an empty
/// bottom row is needed for.
pub(super) fn find(bytes: &[u8], cols: u16, style: CellStyle) -> Front {
    let mut front = Front { len: 0, lines: 0, seen: 0 };
    let mut style = style;
    let mut tabs = 0;
    let mut at = 0;
    while let Some(token) = token(&bytes[at..]) {
        match token {
            Token::Ascii(len) | Token::Text(len) => at += len,
            // What scrolls in would have to be coloured.
            Token::LineEnd(_) if style.bg != Color::Default => break,
            Token::LineEnd(len) => {
                at += len;
                tabs = 0;
                front.len = at;
                front.lines += 1;
            }
            // A tab stays in its row. Whether it reaches the edge depends on columns, which bytes bound.
            Token::Tab if at - front.len + 7 * tabs + 8 < usize::from(cols) => {
                at += 1;
                tabs += 1;
            }
            Token::Sgr(len) => {
                style.apply_sgr(&bytes[at + 2..at + len - 1]);
                at += len;
            }
            // Erasing the rest of a row that is empty shows nothing, unless in a colour.
            Token::EraseToEnd(len) if !style.shows_on_blank() => at += len,
            Token::Tab | Token::EraseToEnd(_) => break,
        }
        front.seen = at;
        if at - front.len > LINE_LIMIT {
            break;
        }
    }
    front
}

/// Returns where the line after the first `count` lines starts.
pub(super) fn after_lines(bytes: &[u8], count: usize) -> usize {
    let Some(last) = count.checked_sub(1) else { return 0 };
    line_feeds(bytes).nth(last).map_or(bytes.len(), |at| at + 1)
}

/// Returns where the last `count` lines start, in bytes that end with a line end.
pub(super) fn before_lines(bytes: &[u8], count: usize) -> usize {
    line_feeds(bytes).nth_back(count).map_or(0, |at| at + 1)
}

fn line_feeds(bytes: &[u8]) -> impl DoubleEndedIterator<Item = usize> {
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at)
}

/// Writes lines that [`find`] found to the history and returns the style that is in force behind them.
pub(super) fn write(bytes: &[u8], style: CellStyle, history: &mut History) -> CellStyle {
    let mut style = style;
    let mut at = 0;
    let mut begun = false;
    while let Some(token) = token(&bytes[at..]) {
        if !begun {
            history.begin_row();
            begun = true;
        }
        let start = at;
        match token {
            Token::Ascii(len) => {
                at += len;
                history.push_ascii(str::from_utf8(&bytes[start..at]).unwrap_or_default(), style);
            }
            Token::Text(len) => {
                at += len;
                history.push_text(str::from_utf8(&bytes[start..at]).unwrap_or_default(), style);
            }
            Token::LineEnd(len) => {
                at += len;
                history.end_row(false);
                begun = false;
            }
            Token::Tab => {
                at += 1;
                history.push_blanks(8 - history.draft_cols() as usize % 8, CellStyle::default());
            }
            Token::Sgr(len) => {
                at += len;
                style.apply_sgr(&bytes[start + 2..at - 1]);
            }
            Token::EraseToEnd(len) => at += len,
        }
    }
    style
}

/// What the bytes begin with, with its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Token {
    Ascii(usize),
    /// Characters beyond ASCII, none of them a control.
    Text(usize),
    LineEnd(usize),
    Tab,
    Sgr(usize),
    EraseToEnd(usize),
}

fn token(bytes: &[u8]) -> Option<Token> {
    match *bytes.first()? {
        0x20..=0x7e => Some(Token::Ascii(run(bytes, |byte| matches!(byte, 0x20..=0x7e)))),
        b'\r' => {
            let returns = run(bytes, |byte| byte == b'\r');
            (bytes.get(returns) == Some(&b'\n')).then_some(Token::LineEnd(returns + 1))
        }
        b'\t' => Some(Token::Tab),
        0x1b => sequence(bytes),
        0x80.. => {
            let len = run(bytes, |byte| byte >= 0x80);
            let text = str::from_utf8(&bytes[..len]).ok()?;
            text.chars().all(is_shown).then_some(Token::Text(len))
        }
        _ => None,
    }
}

fn run(bytes: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|byte| !belongs(*byte)).unwrap_or(bytes.len())
}

fn sequence(bytes: &[u8]) -> Option<Token> {
    let body = bytes.strip_prefix(b"\x1b[")?;
    let body = &body[..body.len().min(SGR_LIMIT)];
    let len = run(body, |byte| matches!(byte, b'0'..=b'9' | b';'));
    match (body.get(len)?, &body[..len]) {
        (b'm', _) => Some(Token::Sgr(len + 3)),
        (b'K', b"" | b"0") => Some(Token::EraseToEnd(len + 3)),
        _ => None,
    }
}

/// Returns whether the emulator prints this character.
fn is_shown(c: char) -> bool {
    !matches!(c, '\u{80}'..='\u{9f}' | '\u{fffd}' | super::cell::FILLER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(bytes: &[u8]) -> (usize, usize, usize) {
        let front = find(bytes, 80, CellStyle::default());
        (front.len, front.lines, front.seen)
    }

    #[test]
    fn the_front_ends_before_anything_that_moves_the_cursor() {
        assert_eq!(found(b""), (0, 0, 0));
        assert_eq!(found(b"one\r\ntwo\r\nthr"), (10, 2, 13));
        assert_eq!(found(b"one\r\r\ntwo"), (6, 1, 9));
        assert_eq!(found(b"one\ntwo\r\n"), (0, 0, 3));
        assert_eq!(found(b"one\r\n50%\r60%\r\n"), (5, 1, 8));
        assert_eq!(found(b"\x1b[1;31mred\x1b[m\r\n\x1b[A"), (15, 1, 15));
        assert_eq!(found(b"\x1b[Kx\r\n"), (6, 1, 6));
        assert_eq!(found(b"\x1b[44m\x1b[Kx\r\n"), (0, 0, 5));
        assert_eq!(found(b"\x1b[38:5:1mx\r\n"), (0, 0, 0));
        assert_eq!(found("é中\r\n\u{fffd}\r\n".as_bytes()), (7, 1, 7));
        assert_eq!(found(b"\xff\r\n"), (0, 0, 0));
        assert_eq!(found(b"a\tb\r\n"), (5, 1, 5));
        assert_eq!(found(&[b"x".repeat(75), b"\ty\r\n".to_vec()].concat()), (0, 0, 75));
        assert_eq!(found(b"a\x08\r\n"), (0, 0, 1));
    }

    #[test]
    fn lines_are_counted_from_both_ends() {
        let bytes = b"a\r\nb\r\nc\r\n";
        assert_eq!((0..4).map(|n| after_lines(bytes, n)).collect::<Vec<_>>(), [0, 3, 6, 9]);
        assert_eq!((0..4).map(|n| before_lines(bytes, n)).collect::<Vec<_>>(), [9, 6, 3, 0]);
    }
}
