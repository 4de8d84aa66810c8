//! The answer of a terminal to the question for its background (OSC 11), as xterm gives it:
//! `ESC ] 11 ; rgb:hhhh/hhhh/hhhh`, ended by BEL or ESC \. Pure.

use super::{Begun, begun};

/// What the start of some bytes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// An answer that takes this many bytes; `None` where no colour can be read in it.
    Whole(usize, Option<[u8; 3]>),
    /// The beginning of one.
    Partial,
    /// None, or one that was cut short after this many bytes.
    Cut(usize),
    /// Something else.
    Other,
}

const BEGIN: &[u8] = b"\x1b]11;";
/// Longer than any answer.
const LONGEST: usize = 48;

/// Reads the start of the bytes.
pub(super) fn read(bytes: &[u8]) -> Read {
    let rest = match begun(bytes, BEGIN) {
        Begun::Other => return Read::Other,
        Begun::Partly => return Read::Partial,
        Begun::With(rest) => rest,
    };
    let is_colour = |byte: &u8| byte.is_ascii_hexdigit() || b":/#rgba".contains(byte);
    let Some(end) = rest.iter().position(|byte| !is_colour(byte)) else {
        return if bytes.len() > LONGEST { Read::Cut(bytes.len()) } else { Read::Partial };
    };
    let ends = match (rest[end], rest.get(end + 1)) {
        (0x07, _) => 1,
        (0x1b, Some(b'\\')) => 2,
        (0x1b, None) => return Read::Partial,
        // What is no part of an answer is a key.
        _ => return Read::Cut(BEGIN.len() + end),
    };
    Read::Whole(BEGIN.len() + end + ends, colour(&rest[..end]))
}

/// Reads `rgb:` and `rgba:` with one to four digits each, scaled to eight bits.
fn colour(text: &[u8]) -> Option<[u8; 3]> {
    let text = std::str::from_utf8(text).ok()?;
    let parts = text.strip_prefix("rgb:").or_else(|| text.strip_prefix("rgba:"))?;
    let mut parts = parts.split('/');
    let mut next = || {
        let digits = parts.next().filter(|digits| (1..=4).contains(&digits.len()))?;
        let most = (1_u32 << (4 * digits.len())) - 1;
        u8::try_from(u32::from_str_radix(digits, 16).ok()? * 255 / most).ok()
    };
    Some([next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_whole_and_nothing_else_is() {
        for (bytes, expected) in [
            (&b"\x1b]11;rgb:ffff/ffff/ffff\x07x"[..], Read::Whole(24, Some([255; 3]))),
            (b"\x1b]11;rgb:00/2b/36\x1b\\", Read::Whole(19, Some([0, 0x2b, 0x36]))),
            (b"\x1b]11;rgba:1e1e/1e1e/2e2e/ffff\x07", Read::Whole(30, Some([0x1e, 0x1e, 0x2e]))),
            (b"\x1b]11;#123456\x07", Read::Whole(13, None)),
            (b"\x1b]", Read::Partial),
            (b"\x1b]1", Read::Partial),
            (b"\x1b]11;rgb:ffff/ff", Read::Partial),
            (b"\x1b]11;rgb:ffff/ffff/ffff\x1b", Read::Partial),
            (b"\x1b]11;rgb:ffxq", Read::Cut(11)),
            (b"\x1b]11;rgb:ff\x1b[A", Read::Cut(11)),
            (b"\x1b", Read::Other),
            (b"\x1b[A", Read::Other),
            (b"\x1b]x", Read::Other),
            (b"\x1b]12;", Read::Other),
            (b"x", Read::Other),
        ] {
            assert_eq!(read(bytes), expected, "{}", bytes.escape_ascii());
        }
    }
}
