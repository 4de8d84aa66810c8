//! The answer of a terminal to the question for its keyboard's flags: `ESC [ ? digits u`. Pure.

use super::{Begun, begun};

/// What the start of some bytes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// An answer that takes this many bytes.
    Whole(usize),
    /// The beginning of one.
    Partial,
    /// Something else.
    Other,
}

const BEGIN: &[u8] = b"\x1b[?";
/// Longer than any answer.
const LONGEST: usize = 12;

/// Reads the start of the bytes.
pub(super) fn read(bytes: &[u8]) -> Read {
    let rest = match begun(bytes, BEGIN) {
        Begun::Other => return Read::Other,
        Begun::Partly => return Read::Partial,
        Begun::With(rest) => rest,
    };
    match rest.iter().position(|byte| !byte.is_ascii_digit()) {
        Some(end) if end > 0 && rest[end] == b'u' => Read::Whole(BEGIN.len() + end + 1),
        None if bytes.len() <= LONGEST => Read::Partial,
        Some(_) | None => Read::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_whole_and_nothing_else_is() {
        for (bytes, expected) in [
            (&b"\x1b[?0ux"[..], Read::Whole(5)),
            (b"\x1b[?31u", Read::Whole(6)),
            (b"\x1b[", Read::Partial),
            (b"\x1b[?", Read::Partial),
            (b"\x1b[?1", Read::Partial),
            (b"\x1b[?u", Read::Other),
            (b"\x1b[?62;22c", Read::Other),
            (b"\x1b[?1\x1b", Read::Other),
            (b"\x1b[?1234567890", Read::Other),
            (b"\x1b[97u", Read::Other),
            (b"\x1b[A", Read::Other),
            (b"\x1b", Read::Other),
            (b"u", Read::Other),
        ] {
            assert_eq!(read(bytes), expected, "{}", bytes.escape_ascii());
        }
    }
}
