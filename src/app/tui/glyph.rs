//! The characters that the screen draws beside words, each with its counterpart in ASCII.
//!
//! The one place for characters that are not ASCII: views name a glyph, and where ASCII is wanted the last step
//! of a frame exchanges them ([`to_ascii`]), cell by cell, so that nothing moves. Pure.

use ratatui::buffer::Buffer;

/// Makes a constant of each glyph, and the table of all.
macro_rules! glyphs {
    ($($(#[$doc:meta])* $name:ident = $unicode:literal, $ascii:literal;)*) => {
        $($(#[$doc])* pub(super) const $name: &str = $unicode;)*
        /// All glyphs: the character, and what stands for it in ASCII.
        const TABLE: &[(&str, &str)] = &[$(($unicode, $ascii)),*];
    };
}

glyphs! {
    /// Between two facts of a line; beside what is nothing special.
    DOT = "·", "-";
    /// As it should be; marked.
    CHECK = "✓", "+";
    /// Wrong; foreign.
    CROSS = "✗", "x";
    /// Owned.
    BULLET = "●", "*";
    /// Gone.
    RING = "○", "o";
    /// Adopted.
    GUEST = "◦", "a";
    /// Before what is selected.
    BAR = "▌", ">";
    /// The rule above the pane that has the keys.
    HEAVY = "━", "=";
    /// The rule above the others; the edge of a dialog.
    LIGHT = "─", "-";
    /// Between panes; the edge of a dialog; the cursor of a line.
    UPRIGHT = "│", "|";
    /// Between panes, while what is typed goes to many.
    HEAVY_UPRIGHT = "┃", "#";
    /// A corner of a dialog.
    TOP_LEFT = "╭", "+";
    /// A corner of a dialog.
    TOP_RIGHT = "╮", "+";
    /// A corner of a dialog.
    BOTTOM_LEFT = "╰", "+";
    /// A corner of a dialog.
    BOTTOM_RIGHT = "╯", "+";
    /// Before a child that has siblings below it.
    CHILD = "├", "+";
    /// Before the last child.
    LAST_CHILD = "└", "`";
    /// There is more; it goes on.
    MORE = "…", "~";
    /// From a place to one within it.
    WITHIN = "›", ">";
    /// More above; the key.
    UP = "↑", "^";
    /// More below; the key.
    DOWN = "↓", "v";
    /// The end of a line within a text.
    RETURN = "↵", "$";
    /// The lowest of eight steps.
    STEP_0 = "▁", "_";
    /// The second.
    STEP_1 = "▂", ".";
    /// The third.
    STEP_2 = "▃", ",";
    /// The fourth.
    STEP_3 = "▄", ":";
    /// The fifth.
    STEP_4 = "▅", "=";
    /// The sixth.
    STEP_5 = "▆", "+";
    /// The seventh.
    STEP_6 = "▇", "%";
    /// The highest.
    STEP_7 = "█", "#";
    /// Has printed something that nobody has looked at.
    UNSEEN = "◆", "n";
    /// Has ended while nobody looked.
    ENDED = "■", "e";
    /// A value that is not known.
    UNKNOWN = "–", "-";
}

/// The highest step.
pub(super) const TOP_STEP: u8 = 7;

/// Returns a step from 0 to [`TOP_STEP`]; a blank for what nobody knows.
pub(super) fn step(step: Option<u8>) -> &'static str {
    const STEPS: [&str; 8] = [STEP_0, STEP_1, STEP_2, STEP_3, STEP_4, STEP_5, STEP_6, STEP_7];
    step.map_or(" ", |step| STEPS[usize::from(step.min(TOP_STEP))])
}

/// Replaces the glyphs in a buffer by their counterparts, and lines and blocks that programs draw. With `foreign`
/// everything else that is not ASCII is replaced, too, for a terminal that could not show it.
pub(super) fn to_ascii(buffer: &mut Buffer, foreign: bool) {
    for cell in &mut buffer.content {
        let symbol = cell.symbol();
        if symbol.is_ascii() {
            continue;
        }
        let plain = TABLE.iter().find(|(glyph, _)| *glyph == symbol).map(|(_, ascii)| *ascii);
        let plain = plain.or_else(|| drawn(symbol)).or(foreign.then_some("?"));
        if let Some(plain) = plain {
            cell.set_symbol(plain);
        }
    }
}

/// Returns what stands for a line or a block of the Unicode blocks "Box Drawing" and "Block Elements".
fn drawn(symbol: &str) -> Option<&'static str> {
    let mut chars = symbol.chars();
    let (Some(c), None) = (chars.next(), chars.next()) else { return None };
    Some(match u32::from(c) {
        0x2500 | 0x2501 | 0x2504 | 0x2505 | 0x2508 | 0x2509 | 0x254c | 0x254d | 0x2550 => "-",
        0x2502 | 0x2503 | 0x2506 | 0x2507 | 0x250a | 0x250b | 0x254e | 0x254f | 0x2551 => "|",
        0x2500..=0x257f => "+",
        0x2580..=0x259f => "#",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    fn in_ascii(glyph: &str) -> &str {
        TABLE.iter().find(|(unicode, _)| *unicode == glyph).map_or(glyph, |(_, ascii)| ascii)
    }

    #[test]
    fn every_glyph_and_its_counterpart_take_one_cell_and_are_told_apart() {
        for (index, (glyph, ascii)) in TABLE.iter().enumerate() {
            assert_eq!((glyph.width(), ascii.len()), (1, 1), "{glyph}");
            assert!(!glyph.is_ascii() && ascii.is_ascii(), "{glyph}");
            assert!(TABLE[..index].iter().all(|(other, _)| other != glyph), "{glyph} is there twice");
        }
        // What carries a verdict or a tone must not become alike.
        let telling = [BULLET, RING, CROSS, "?", "!", CHECK, DOT].map(in_ascii);
        for (index, one) in telling.iter().enumerate() {
            assert!(!telling[..index].contains(one), "{one}");
        }
    }

    #[test]
    fn a_frame_becomes_ascii_cell_by_cell() {
        let text = |foreign| {
            let mut buffer = Buffer::with_lines(["●○✗?│╭─…╬█é界"]);
            to_ascii(&mut buffer, foreign);
            buffer.content.iter().map(ratatui::buffer::Cell::symbol).collect::<String>()
        };
        assert_eq!(text(true), "*ox?|+-~+#?? ");
        assert_eq!(text(false), "*ox?|+-~+#é界 ");
    }
}
