//! What a program asked of the keys by kitty's keyboard protocol: flags, on a stack for each of the two screens. Pure.
//!
//! Of the protocol's enhancements one is known, and no other is ever answered: that keys are told apart. See
//! <https://sw.kovidgoyal.net/kitty/keyboard-protocol/#progressive-enhancement>.

/// Keys that look alike in the older encoding are told apart.
const DISAMBIGUATES: u16 = 1;
/// What is known of the flags.
const KNOWN: u16 = DISAMBIGUATES;
/// Entries of a stack; the oldest leaves for one more.
const DEPTH: usize = 16;

/// The flags of both screens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Keyboard {
    /// Of the primary screen and of the alternate one: what is in force last.
    stacks: [Vec<u16>; 2],
}

impl Keyboard {
    /// Takes the sequence `CSI <prefix> <parameters> u`. Returns the answer to a question.
    pub(super) fn take(&mut self, alternate: bool, prefix: u8, parameters: &[&[u16]]) -> Option<Vec<u8>> {
        let number = |index: usize| parameters.get(index).and_then(|parameter| parameter.first()).copied().unwrap_or(0);
        let stack = &mut self.stacks[usize::from(alternate)];
        let now = stack.last().copied().unwrap_or(0);
        match prefix {
            b'?' => return Some(format!("\x1b[?{now}u").into_bytes()),
            b'>' => {
                if stack.len() == DEPTH {
                    stack.remove(0);
                }
                stack.push(number(0) & KNOWN);
            }
            b'<' => {
                let count = usize::from(number(0).max(1));
                stack.truncate(stack.len().saturating_sub(count));
            }
            b'=' => {
                let flags = number(0) & KNOWN;
                let set = match number(1) {
                    0 | 1 => flags,
                    2 => now | flags,
                    3 => now & !flags,
                    _ => return None,
                };
                stack.pop();
                stack.push(set);
            }
            _ => {}
        }
        None
    }

    /// Tells whether keys are to be told apart on a screen.
    pub(super) fn disambiguates(&self, alternate: bool) -> bool {
        self.stacks[usize::from(alternate)].last().is_some_and(|flags| flags & DISAMBIGUATES != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pty::screen::{HistoryLimit, Screen, Size};

    fn screen() -> Screen {
        Screen::new(Size::clamped(4, 10), HistoryLimit::default())
    }

    /// Feeds by pieces of every size, and returns the answers and whether keys are told apart.
    #[track_caller]
    fn check(bytes: &str, answers: &str, disambiguates: bool) {
        for size in [1, 2, 3, 1000] {
            let mut screen = screen();
            for piece in bytes.as_bytes().chunks(size) {
                screen.process(piece);
            }
            let got = String::from_utf8_lossy(&screen.take_replies()).into_owned();
            assert_eq!((got.as_str(), screen.modes().disambiguates), (answers, disambiguates), "{bytes:?} by {size}");
            assert_eq!(screen.lines().concat(), "", "{bytes:?}: nothing of it is text");
        }
    }

    #[test]
    fn flags_are_pushed_popped_set_and_told() {
        check("\x1b[?u", "\x1b[?0u", false);
        check("\x1b[>1u\x1b[?u", "\x1b[?1u", true);
        check("\x1b[>u\x1b[?u", "\x1b[?0u", false);
        check("\x1b[>1u\x1b[<u\x1b[?u", "\x1b[?0u", false);
        check("\x1b[>1u\x1b[>0u\x1b[?u\x1b[<u\x1b[?u", "\x1b[?0u\x1b[?1u", true);
        check("\x1b[>1u\x1b[>1u\x1b[>1u\x1b[<2u\x1b[?u", "\x1b[?1u", true);
        check("\x1b[>1u\x1b[<900u\x1b[<u\x1b[?u", "\x1b[?0u", false);
        check("\x1b[=1u\x1b[?u", "\x1b[?1u", true);
        check("\x1b[=1;1u\x1b[=0;2u\x1b[?u", "\x1b[?1u", true);
        check("\x1b[=1;2u\x1b[=1;3u\x1b[?u", "\x1b[?0u", false);
        check("\x1b[>0u\x1b[=1u\x1b[<u\x1b[?u", "\x1b[?0u", false);
        check("\x1b[=1;9u\x1b[?u", "\x1b[?0u", false);
    }

    #[test]
    fn what_is_not_known_is_never_claimed() {
        check("\x1b[>31u\x1b[?u", "\x1b[?1u", true);
        // As helix and emacs ask, as codex does, and as fish does before a prompt and after it.
        check("\x1b[>5u\x1b[?u", "\x1b[?1u", true);
        check("\x1b[>7u\x1b[?u", "\x1b[?1u", true);
        check("\x1b[=5u\x1b[?u", "\x1b[?1u", true);
        check("\x1b[=5u\x1b[=0u\x1b[?u", "\x1b[?0u", false);
        check("\x1b[=30;1u\x1b[?u", "\x1b[?0u", false);
        check("\x1b[=31;2u\x1b[=30;3u\x1b[?u", "\x1b[?1u", true);
    }

    #[test]
    fn each_screen_has_flags_of_its_own() {
        check("\x1b[>1u\x1b[?1049h\x1b[?u", "\x1b[?0u", false);
        check("\x1b[?1049h\x1b[>1u\x1b[?1049l\x1b[?u", "\x1b[?0u", false);
        check("\x1b[>1u\x1b[?1049h\x1b[<9u\x1b[?1049l\x1b[?u", "\x1b[?1u", true);
        check("\x1b[?1049h\x1b[>1u\x1b[?1049l\x1b[?1049h", "", true);
    }

    #[test]
    fn a_reset_resets_and_a_size_does_not() {
        check("\x1b[>1u\x1b[?1049h\x1b[>1u\x1bc\x1b[?u", "\x1b[?0u", false);
        let mut screen = screen();
        screen.process(b"\x1b[>1u");
        screen.resize(Size::clamped(7, 30));
        assert!(screen.modes().disambiguates);
        let mut other = Screen::new(Size::clamped(7, 30), HistoryLimit::default());
        other.process(screen.painted().as_bytes());
        assert_eq!(other.modes(), screen.modes(), "a picture of it carries them");
    }

    #[test]
    fn nothing_piles_up() {
        let mut keyboard = Keyboard::default();
        for flags in 0..1000 {
            keyboard.take(flags % 3 == 0, b'>', &[&[1]]);
        }
        assert_eq!(keyboard.stacks.each_ref().map(Vec::len), [DEPTH; 2]);
        // The oldest has left: as many pops as there is room empty it.
        keyboard.take(false, b'<', &[&[16]]);
        assert!(!keyboard.disambiguates(false) && keyboard.disambiguates(true));
    }
}
