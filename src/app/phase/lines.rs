//! The lines of a terminal's output, whatever pieces it comes in.
//!
//! A progress bar is one line that is drawn again and again, with carriage returns or by moving the cursor:
//! every state of it that is left behind comes out as a line of its own.

/// Longest line that is kept, in bytes; the rest of a longer one is dropped.
const LONGEST: usize = 4096;

/// Cuts bytes into lines without escape sequences.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    text: Vec<u8>,
    state: State,
}

/// Where in an escape sequence (ECMA-48) the last byte was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape,
    /// After `ESC (` and the like: one more byte.
    Designator,
    Control,
    /// OSC, DCS and other strings, until BEL or ST.
    Text,
    TextEscape,
}

impl Lines {
    /// Takes bytes and hands out every line that they finish.
    pub(super) fn feed(&mut self, bytes: &[u8], on_line: &mut impl FnMut(&str)) {
        for byte in bytes {
            self.state = match (self.state, *byte) {
                // A line ends whatever stood open in it.
                (_, b'\n') | (State::Ground, b'\r') => {
                    self.end(on_line);
                    State::Ground
                }
                (State::Ground, 0x1b) => State::Escape,
                (State::Ground, byte) => {
                    if (byte == b'\t' || byte >= b' ') && byte != 0x7f && self.text.len() < LONGEST {
                        self.text.push(byte);
                    }
                    State::Ground
                }
                (State::Escape, b'[') => State::Control,
                (State::Escape, b']' | b'P' | b'X' | b'^' | b'_') => State::Text,
                (State::Escape, b' '..=b'/') => State::Designator,
                (State::Escape | State::Designator, _) | (State::Text, 0x07) | (State::TextEscape, b'\\') => {
                    State::Ground
                }
                (State::Control, byte @ b'@'..=b'~') => {
                    // The cursor leaves the line: what stands there is done.
                    if b"ABEFHJd".contains(&byte) {
                        self.end(on_line);
                    }
                    State::Ground
                }
                (State::Control, _) => State::Control,
                (State::Text, 0x1b) => State::TextEscape,
                (State::Text | State::TextEscape, _) => State::Text,
            };
        }
    }

    /// Returns the line that is not finished yet.
    pub(super) fn unfinished(&self) -> String {
        String::from_utf8_lossy(&self.text).trim().to_owned()
    }

    fn end(&mut self, on_line: &mut impl FnMut(&str)) {
        let line = String::from_utf8_lossy(&self.text);
        let line = line.trim();
        if !line.is_empty() {
            on_line(line);
        }
        self.text.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(bytes: &[u8], piece: usize) -> (Vec<String>, String) {
        let mut cut = Lines::default();
        let mut all = Vec::new();
        for part in bytes.chunks(piece) {
            cut.feed(part, &mut |line| all.push(line.to_owned()));
        }
        let left = cut.unfinished();
        (all, left)
    }

    fn check(bytes: &[u8], expected: &[&str], left: &str) {
        for piece in [1, 2, 3, 7, 4096] {
            assert_eq!(lines(bytes, piece), (expected.iter().map(|s| (*s).to_owned()).collect(), left.to_owned()));
        }
    }

    #[test]
    fn lines_and_redraws() {
        check(b"a\r\nb\n\nc", &["a", "b"], "c");
        check(b"\x1b[34m0.1\x1b[0m \x1b[32mI \x1b[0msrv\r\n", &["0.1 I srv"], "");
        check(b"\r 10%\r 20%\r 30%", &["10%", "20%"], "30%");
        check(b"\x1b[1A\rx  0%\x1b[K\x1b[1B\r\x1b[1A\rx 37%\x1b[K\x1b[1B\r", &["x  0%", "x 37%"], "");
        check(b"\x1b]0;title\x07a\x1b]8;;u\x1b\\b\x1b(B\n", &["ab"], "");
        check(b"\x1b]0;never\nb\n", &["b"], "");
        check("─╴ 5%\n".as_bytes(), &["─╴ 5%"], "");
        check(b"\xff\n", &["\u{fffd}"], "");
        assert_eq!(lines(&[b'x'; 3 * LONGEST], 100).1.len(), LONGEST);
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(bytes in prop::collection::vec(prop::sample::select(b"ab\r\n\x1b[1A]0;\x07\\K\xe2\x94\x80 %".to_vec()), 0..60), piece in 1_usize..9) {
            prop_assert_eq!(lines(&bytes, piece), lines(&bytes, 4096));
        }
    }
}
