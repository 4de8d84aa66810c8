//! What a cell is made of: its style, and how text splits into cells of one or two columns.
//!
//! Called by the screen, its parts and the history. The rules are those of the emulator, so that text that
//! was stored and is split again gives the cells it came from. Never touches a screen.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Fills the last column of a row when a wide character did not fit there and went to the next row. The
/// emulator takes a row for soft-wrapped only when its last column was written, and a space would be copied
/// with the text. A noncharacter, so no program prints it; it is shown as a blank and never leaves the seam.
pub(crate) const FILLER: char = '\u{FDD0}';

/// [`FILLER`] as the text of a cell.
pub(crate) const FILLER_TEXT: &str = "\u{FDD0}";

/// Returns whether the text of a cell is a filler, whatever combines with it.
pub(crate) fn is_filler(text: &str) -> bool {
    text.starts_with(FILLER_TEXT)
}

/// The emulator drops combining characters of a cell that holds this many bytes already.
pub(crate) const CELL_FULL: usize = 18;

const EMOJI_PRESENTATION: char = '\u{FE0F}';

/// A colour of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Color {
    /// The terminal's own foreground or background.
    #[default]
    Default,
    /// An entry of the 256-colour palette.
    Indexed(u8),
    /// A direct colour: red, green, blue.
    Rgb(u8, u8, u8),
}

/// How a cell is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one independent attribute of a terminal cell")]
pub struct CellStyle {
    /// Foreground.
    pub fg: Color,
    /// Background.
    pub bg: Color,
    /// Bold; never together with `dim`.
    pub bold: bool,
    /// Faint; never together with `bold`.
    pub dim: bool,
    /// Italic.
    pub italic: bool,
    /// Underlined.
    pub underline: bool,
    /// Foreground and background exchanged.
    pub inverse: bool,
}

impl CellStyle {
    /// Returns whether a blank in this style looks different from an empty cell.
    pub(crate) fn shows_on_blank(&self) -> bool {
        self.bg != Color::Default || self.inverse || self.underline
    }

    /// Applies the parameters of one SGR sequence (`1;38;5;208`: what stands between `ESC [` and `m`).
    ///
    /// Takes digits and semicolons only; parameters that are not known are passed over.
    pub(crate) fn apply_sgr(&mut self, parameters: &[u8]) {
        let mut numbers = parameters.split(|byte| *byte == b';').map(number);
        while let Some(code) = numbers.next() {
            match code {
                0 => *self = Self::default(),
                1 => (self.bold, self.dim) = (true, false),
                2 => (self.bold, self.dim) = (false, true),
                3 => self.italic = true,
                4 => self.underline = true,
                7 => self.inverse = true,
                22 => (self.bold, self.dim) = (false, false),
                23 => self.italic = false,
                24 => self.underline = false,
                27 => self.inverse = false,
                30..=37 => self.fg = Color::Indexed(low_byte(code - 30)),
                39 => self.fg = Color::Default,
                40..=47 => self.bg = Color::Indexed(low_byte(code - 40)),
                49 => self.bg = Color::Default,
                90..=97 => self.fg = Color::Indexed(low_byte(code - 82)),
                100..=107 => self.bg = Color::Indexed(low_byte(code - 92)),
                38 | 48 => {
                    let Some(color) = extended_color(&mut numbers) else { return };
                    if code == 38 {
                        self.fg = color;
                    } else {
                        self.bg = color;
                    }
                }
                _ => {}
            }
        }
    }

    /// Appends the SGR sequence that sets exactly this style, whatever was set before.
    pub(crate) fn write_sgr(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\x1b[0");
        for (on, code) in [
            (self.bold, b";1"),
            (self.dim, b";2"),
            (self.italic, b";3"),
            (self.underline, b";4"),
            (self.inverse, b";7"),
        ] {
            if on {
                out.extend_from_slice(code);
            }
        }
        for (color, code) in [(self.fg, "38"), (self.bg, "48")] {
            match color {
                Color::Default => {}
                Color::Indexed(index) => out.extend_from_slice(format!(";{code};5;{index}").as_bytes()),
                Color::Rgb(r, g, b) => out.extend_from_slice(format!(";{code};2;{r};{g};{b}").as_bytes()),
            }
        }
        out.push(b'm');
    }
}

fn number(digits: &[u8]) -> u32 {
    digits.iter().fold(0, |value: u32, digit| value.saturating_mul(10).saturating_add(u32::from(digit & 0x0f)))
}

fn low_byte(value: u32) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}

fn extended_color(numbers: &mut impl Iterator<Item = u32>) -> Option<Color> {
    let component = |numbers: &mut dyn Iterator<Item = u32>| u8::try_from(numbers.next()?).ok();
    match numbers.next()? {
        2 => Some(Color::Rgb(component(numbers)?, component(numbers)?, component(numbers)?)),
        5 => Some(Color::Indexed(component(numbers)?)),
        _ => None,
    }
}

/// Returns the columns a character takes: 0 for one that joins the cell before it, else 1 or 2.
pub(crate) fn char_width(c: char) -> u8 {
    match c.width() {
        Some(0) => 0,
        Some(1) | None => 1,
        Some(_) => 2,
    }
}

/// Returns the columns of a character that stands before `next`, which may ask for its wide emoji form.
pub(crate) fn char_width_before(c: char, next: Option<char>) -> u8 {
    // The emulator paints nothing where bytes are no text.
    if c == char::REPLACEMENT_CHARACTER {
        return 0;
    }
    let width = char_width(c);
    if width == 1 && next == Some(EMOJI_PRESENTATION) {
        let mut pair = [0; 8];
        let first = c.encode_utf8(&mut pair).len();
        let second = EMOJI_PRESENTATION.encode_utf8(&mut pair[first..]).len();
        return std::str::from_utf8(&pair[..first + second]).map_or(width, presented_width);
    }
    width
}

/// Returns the columns of a whole cell whose text ends in an emoji presentation selector.
pub(crate) fn presented_width(text: &str) -> u8 {
    if text.width() > 1 { 2 } else { 1 }
}

/// Returns whether this character can change the width of the cell it joins.
pub(crate) fn changes_width(c: char) -> bool {
    c == EMOJI_PRESENTATION
}

/// Splits text into its cells: each with its columns, 1 or 2.
pub(crate) fn cells(text: &str) -> Cells<'_> {
    Cells { rest: text }
}

/// The iterator of [`cells`].
pub(crate) struct Cells<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Cells<'a> {
    type Item = (&'a str, u8);

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.rest.as_bytes();
        let first = *bytes.first()?;
        if first.is_ascii() && bytes.get(1).is_none_or(u8::is_ascii) {
            let (cell, rest) = self.rest.split_at(1);
            self.rest = rest;
            return Some((cell, 1));
        }
        let mut width = 1;
        let mut end = self.rest.len();
        for (at, c) in self.rest.char_indices() {
            if at == 0 {
                width = char_width(c).max(1);
            } else if char_width(c) > 0 {
                end = at;
                break;
            } else if changes_width(c) {
                width = presented_width(&self.rest[..at + c.len_utf8()]);
            }
        }
        let (cell, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some((cell, width))
    }
}

/// Returns what is shown of the text of a cell: all up to the first character that would reorder or break the
/// line around it, or a blank.
pub(crate) fn shown(text: &str) -> &str {
    if text.len() == 1 {
        return text;
    }
    let cut = text.char_indices().find(|(_, c)| is_bidi_control(*c)).map_or(text.len(), |(at, _)| at);
    if cut == 0 || is_filler(text) { " " } else { &text[..cut] }
}

fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<(&str, u8)> {
        cells(text).collect()
    }

    #[test]
    fn text_splits_into_cells() {
        assert_eq!(split(""), vec![]);
        assert_eq!(split("ab"), vec![("a", 1), ("b", 1)]);
        assert_eq!(split("a\u{301}b"), vec![("a\u{301}", 1), ("b", 1)]);
        assert_eq!(split("中x"), vec![("中", 2), ("x", 1)]);
        assert_eq!(split("\u{2764}\u{FE0F}!"), vec![("\u{2764}\u{FE0F}", 2), ("!", 1)]);
        assert_eq!(split("\u{1F469}\u{200D}\u{1F4BB}"), vec![("\u{1F469}\u{200D}", 2), ("\u{1F4BB}", 2)]);
        assert_eq!(split(FILLER_TEXT), vec![(FILLER_TEXT, 1)]);
    }

    #[test]
    fn a_selector_makes_the_character_before_it_wide() {
        assert_eq!(char_width_before('\u{2764}', Some('\u{FE0F}')), 2);
        assert_eq!(char_width_before('\u{2764}', Some('x')), 1);
        assert_eq!(char_width_before('a', Some('\u{FE0F}')), 1);
        assert_eq!(char_width_before('中', None), 2);
        assert_eq!(char_width_before('\u{FFFD}', None), 0);
    }

    fn styled(sgr: &str) -> CellStyle {
        let mut style = CellStyle::default();
        style.apply_sgr(sgr.as_bytes());
        style
    }

    #[test]
    fn sgr_parameters_apply_in_order() {
        assert_eq!(styled(""), CellStyle::default());
        assert_eq!(styled("1;31"), CellStyle { bold: true, fg: Color::Indexed(1), ..CellStyle::default() });
        assert_eq!(styled("1;2"), CellStyle { dim: true, ..CellStyle::default() });
        assert_eq!(styled("1;"), CellStyle::default());
        assert_eq!(
            styled("38;5;208;48;2;1;2;3"),
            CellStyle { fg: Color::Indexed(208), bg: Color::Rgb(1, 2, 3), ..CellStyle::default() }
        );
        assert_eq!(styled("38;5;300;1"), CellStyle::default());
        assert_eq!(styled("97;100").fg, Color::Indexed(15));
        assert_eq!(styled("97;100").bg, Color::Indexed(8));
        assert_eq!(styled("9;4;53"), CellStyle { underline: true, ..CellStyle::default() });
    }

    #[test]
    fn a_written_style_reads_back() {
        for sgr in ["", "1", "2;3;4;7", "31;44", "38;5;9", "48;2;0;255;7;1", "97;107"] {
            let style = styled(sgr);
            let mut out = Vec::new();
            style.write_sgr(&mut out);
            let mut again = styled("1;2;3;4;7;31;41");
            again.apply_sgr(&out[2..out.len() - 1]);
            assert_eq!(again, style, "{sgr}");
        }
    }

    #[test]
    fn what_is_shown_of_a_cell() {
        for (text, expected) in [
            ("", " "),
            ("a", "a"),
            ("e\u{301}", "e\u{301}"),
            ("a\u{202e}\u{301}", "a"),
            ("\u{2028}", " "),
            (FILLER_TEXT, " "),
            ("\u{FDD0}\u{301}", " "),
        ] {
            assert_eq!(shown(text), expected, "{text:?}");
        }
    }
}
