//! Hyperlinks (OSC 8) of what is on a screen and in its history.
//!
//! Called by the screen. The emulator keeps no links, so they are kept beside it: where a text stood when its link
//! ended, and which text that was. A link is told only while the same text stands there: whatever has overwritten,
//! moved or wrapped it anew takes the link away. Never touches a screen.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::cell::CellStyle;

/// Most parts of links, each in one row, that are kept of a session.
const PARTS: usize = 1024;
/// Most rows that one link goes through.
const ROWS: u64 = 64;
/// What terminals take at most (VTE and iTerm2 cut there).
const TARGET_LIMIT: usize = 2083;

/// A link in a row of a view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// The row, from the top.
    pub row: u16,
    /// Its columns.
    pub columns: Range<u16>,
    /// Where it leads: an address of printable ASCII, as the program wrote it.
    pub target: Arc<str>,
    /// The same for all parts of one link.
    pub number: u32,
}

/// A part of a link in one row, which is counted from the first row that the session ever had.
#[derive(Clone, Debug)]
pub(super) struct Part {
    row: u64,
    columns: Range<u16>,
    text: String,
    target: Arc<str>,
    number: u32,
}

/// The links of a session.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// Rows that have left the screen at its top.
    scrolled: u64,
    /// Links that have ended.
    count: u32,
    open: Option<(Arc<str>, u64, u16)>,
    parts: VecDeque<Part>,
    /// The primary and the alternate screen scroll in part only.
    in_part: [bool; 2],
}

impl Links {
    /// Says whether a screen, the primary or the alternate one, scrolls as a whole. Where only a part of it does, no
    /// links are kept.
    pub(super) fn set_whole(&mut self, alternate: bool, whole: bool) {
        self.in_part[usize::from(alternate)] = !whole;
        if !whole {
            self.clear();
        }
    }

    /// Tells whether links of a screen are kept.
    pub(super) fn are_kept(&self, alternate: bool) -> bool {
        !self.in_part[usize::from(alternate)]
    }

    /// A row has left the screen at its top.
    pub(super) fn scroll(&mut self) {
        self.scrolled += 1;
    }

    /// Forgets all links, the open one included: rows have moved otherwise than out at the top.
    pub(super) fn clear(&mut self) {
        self.open = None;
        self.parts.clear();
    }

    /// Ends the link that is open, and begins another where there is a target. `cursor` is its row and column on a
    /// screen of so many columns; `text` reads columns of a row, `wraps` tells whether a row goes on in the next.
    pub(super) fn turn(
        &mut self,
        target: &[u8],
        cursor: (u16, u16),
        cols: u16,
        wraps: impl Fn(u16) -> bool,
        text: impl Fn(u16, &Range<u16>) -> String,
    ) {
        let (row, col) = (self.scrolled + u64::from(cursor.0), cursor.1);
        // What has scrolled away while the link was open cannot be read any more.
        let from = |first: u64| first.max(self.scrolled).max(row.saturating_sub(ROWS));
        let goes_on = |line: u64| u16::try_from(line - self.scrolled).is_ok_and(&wraps);
        let open = self.open.take().filter(|(_, first, _)| (from(*first)..row).all(goes_on));
        if let Some((target, first, start)) = open {
            let lines = from(first)..=row;
            self.count = self.count.wrapping_add(1);
            for line in lines {
                let columns = if line == first { start } else { 0 }..if line == row { col } else { cols };
                let Ok(on_screen) = u16::try_from(line - self.scrolled) else { break };
                let text = text(on_screen, &columns);
                self.keep(line, columns, text, &target);
            }
        }
        // A cursor behind the last column writes into the next row.
        let begin = if col >= cols { (row + 1, 0) } else { (row, col) };
        self.open = valid(target).map(|target| (target, begin.0, begin.1));
    }

    fn keep(&mut self, row: u64, columns: Range<u16>, text: String, target: &Arc<str>) {
        if text.trim().is_empty() {
            return;
        }
        self.parts
            .retain(|part| part.row != row || part.columns.end <= columns.start || columns.end <= part.columns.start);
        if self.parts.len() == PARTS {
            self.parts.pop_front();
        }
        self.parts.push_back(Part { row, columns, text, target: Arc::clone(target), number: self.count });
    }

    /// Returns the links in a view of so many rows that begins `offset` rows back, from the top. `text` reads columns of
    /// a row of the view.
    pub(super) fn seen(&self, offset: u64, rows: u16, text: impl Fn(u16, &Range<u16>) -> String) -> Vec<Link> {
        let Some(top) = self.scrolled.checked_sub(offset) else { return Vec::new() };
        let in_view =
            |part: &Part| part.row.checked_sub(top).and_then(|row| u16::try_from(row).ok()).filter(|row| *row < rows);
        let mut links: Vec<Link> = self
            .parts
            .iter()
            .filter_map(|part| Some((in_view(part)?, part)))
            .filter(|(row, part)| text(*row, &part.columns) == part.text)
            .map(|(row, part)| Link {
                row,
                columns: part.columns.clone(),
                target: Arc::clone(&part.target),
                number: part.number,
            })
            .collect();
        links.sort_by_key(|link| (link.row, link.columns.start));
        links
    }
}

/// Returns the text of some columns of a row, whose cells are visited.
pub(super) fn text_in(columns: &Range<u16>, visit: impl FnOnce(&mut dyn FnMut(u16, &str, u8, CellStyle))) -> String {
    let mut found = String::new();
    visit(&mut |column, text, _, _| {
        if columns.contains(&column) {
            found.push_str(text);
        }
    });
    found
}

/// Returns an address that may be written to a terminal: with a scheme, of printable ASCII alone (as the specification
/// of OSC 8 has it), not too long.
fn valid(target: &[u8]) -> Option<Arc<str>> {
    let text = std::str::from_utf8(target).ok().filter(|text| text.len() <= TARGET_LIMIT)?;
    let (scheme, _) = text.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    (is_scheme && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::super::{HistoryLimit, Screen, Size};
    use super::*;

    const A: &str = "https://a.b/c";

    fn linked(text: &str) -> String {
        format!("\x1b]8;;{A}\x1b\\{text}\x1b]8;;\x1b\\")
    }

    /// What is linked in a view: row, columns, and whether the address is the one of these tests.
    fn seen(screen: &Screen, offset: usize) -> Vec<(u16, Range<u16>, bool)> {
        screen.links(offset).into_iter().map(|link| (link.row, link.columns, &*link.target == A)).collect()
    }

    fn fed(bytes: &str) -> Screen {
        let mut screen = Screen::new(Size { rows: 4, cols: 10 }, HistoryLimit::default());
        screen.process(bytes.as_bytes());
        screen
    }

    #[test]
    fn a_link_stands_where_its_text_stands() {
        let screen = fed(&format!("ab {} d", linked("here")));
        assert_eq!(seen(&screen, 0), [(0, 3..7, true)]);
        // An address may hold semicolons, and a program may name its link.
        let screen = fed("\x1b]8;id=x;https://a;b\x07t\x1b]8;;\x07");
        assert_eq!(&*screen.links(0)[0].target, "https://a;b");
        // Next to each other they are two.
        let screen = fed(&(linked("x") + &linked("y")));
        let links = screen.links(0);
        assert_eq!(seen(&screen, 0), [(0, 0..1, true), (0, 1..2, true)]);
        assert_ne!(links[0].number, links[1].number);
    }

    #[test]
    fn a_link_that_wraps_is_one_in_several_rows() {
        let screen = fed(&format!("12345678{}", linked("abcdefghijklmn")));
        assert_eq!(seen(&screen, 0), [(0, 8..10, true), (1, 0..10, true), (2, 0..2, true)]);
        let numbers: Vec<u32> = screen.links(0).iter().map(|link| link.number).collect();
        assert!(numbers.iter().all(|number| *number == numbers[0]), "{numbers:?}");
        // One that begins behind the last column begins in the next row.
        let screen = fed(&format!("1234567890{}", linked("ab")));
        assert_eq!(seen(&screen, 0), [(1, 0..2, true)]);
    }

    #[test]
    fn a_link_goes_with_its_text() {
        let mut screen = fed(&format!("{}\r\n2\r\n3", linked("here")));
        screen.process(b"\r\n4\r\n5");
        assert_eq!(seen(&screen, 0), []);
        assert_eq!(seen(&screen, 1), [(0, 0..4, true)]);
        assert_eq!(seen(&screen, 99), [(0, 0..4, true)]);
    }

    #[test]
    fn a_link_ends_with_its_text() {
        for end in
            ["\x1b[2J", "\x1b[1;3HX", "\x1b[L", "\x1b[?1049h", "\x1bc", "\x1b[1;1H\x1b[P", "\x1b[T", "\x1b[1;1H\x1bM"]
        {
            let mut screen = fed(&linked("here"));
            screen.process(end.as_bytes());
            assert_eq!(seen(&screen, 0), [], "{end:?}");
        }
        let mut screen = fed(&linked("here"));
        screen.process(b"\x1b[?1049h\x1b[2J\x1b[?1049l");
        assert_eq!(seen(&screen, 0), [(0, 0..4, true)], "it is back with its screen");
        screen.resize(Size { rows: 4, cols: 12 });
        assert_eq!(seen(&screen, 0), []);
    }

    /// Rows that look alike move, and each has an address of its own: none is told rather than another's.
    #[test]
    fn a_link_is_never_anothers() {
        let rows = |from: usize| {
            (from..from + 4).map(|n| format!("\x1b]8;;https://x/{n}\x07open\x1b]8;;\x07")).collect::<Vec<_>>()
        };
        for (begin, moves) in [
            ("\x1b[?1049h\x1b[H", "\r\n"),
            ("\x1b[?1049h\x1b[H", "\x1b[H\x1b[M"),
            ("", "\x1b[H\x1b[M"),
            ("", "\x1b[H\x1b[L"),
            ("", "\x1b[H\x1bM"),
            ("", "\x1b[T"),
            ("\x1b[1;3r", "\x1b[3;1H\n"),
        ] {
            let screen = fed(&format!("{begin}{}{moves}", rows(0).join("\r\n")));
            assert_eq!(seen(&screen, 0), [], "{begin:?} {moves:?}");
        }
        // Nor while one is open: it began elsewhere than where it stands.
        let screen = fed("\x1b[?1049h\x1b[4;1H\x1b]8;;https://x\x07a\r\nbc\x1b]8;;\x07");
        assert_eq!(seen(&screen, 0), []);
        let screen = fed("\x1b[?1049hother text\x1b[4;9H\x1b]8;;https://x\x07abcd\x1b]8;;\x07");
        assert_eq!(seen(&screen, 0), []);
        // What leaves at the top takes its address along.
        let screen = fed(&format!("{}\r\n", rows(0).join("\r\n")));
        let targets: Vec<_> = screen.links(0).into_iter().map(|link| link.target.to_string()).collect();
        assert_eq!(targets, ["https://x/1", "https://x/2", "https://x/3"]);
    }

    /// Between its ends the cursor went elsewhere: what stands there is none of it.
    #[test]
    fn what_was_there_before_is_no_link() {
        let screen = fed(&format!("other\r\ntext\x1b[1;1H\x1b]8;;{A}\x07A\x1b[3;2HB\x1b]8;;\x07"));
        assert_eq!(seen(&screen, 0), []);
        // A terminal that was reset has none open.
        let screen = fed(&format!("\x1b]8;;{A}\x07A\x1bcB\x1b]8;;\x07"));
        assert_eq!(seen(&screen, 0), []);
    }

    #[test]
    fn links_are_bounded() {
        let mut screen = fed("");
        for _ in 0..3 * PARTS {
            screen.process((linked("x") + "\r\n").as_bytes());
        }
        assert_eq!(screen.events().links.parts.len(), PARTS);
        // What was never closed is no link, however long it is.
        screen.process(format!("\x1b]8;;{A}\x07{}", "y".repeat(5000)).as_bytes());
        assert_eq!(seen(&screen, 0), []);
        screen.process(b"\x1b]8;;\x07");
        assert_eq!(screen.links(0).len(), 4, "the rows that are left of it");
    }

    #[test]
    fn only_addresses_are_links() {
        for good in ["https://a.b/c?d=e;f#g", "file:///tmp/x", "mailto:a@b", "vscode://file/x:3"] {
            assert_eq!(valid(good.as_bytes()).as_deref(), Some(good));
        }
        let long = format!("https://{}", "a".repeat(TARGET_LIMIT));
        for bad in
            ["", "a/b", ":x", "1a:b", "https://a b", "https://a\x07b", "https://a\x1b\\b", "https://\u{e9}", &long]
        {
            assert_eq!(valid(bad.as_bytes()), None, "{bad:?}");
        }
    }
}
