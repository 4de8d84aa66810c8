//! Bytes from the terminal to crossterm events.
//!
//! Called by `reader`. crossterm's own reader is not used: when its terminal has died, or while the
//! program is in the background, it spins (`Ok(0)` and EIO are read again without end), and on an
//! edge-triggered epoll it leaves what a first read of 1,024 bytes did not take until the next key.
//! The types are crossterm's. This module is pure: it never reads, and it never waits. A lone ESC is
//! undecided until [`Decoder::flush`] says that nothing follows.

mod background;
mod keyboard;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use super::kitty;

/// How bytes begin, beside what begins an answer of the terminal.
enum Begun<'a> {
    /// With something else.
    Other,
    /// With a part of it, of which more may come; ESC and one character at least.
    Partly,
    /// With it; this comes after.
    With(&'a [u8]),
}

fn begun<'a>(bytes: &'a [u8], begin: &[u8]) -> Begun<'a> {
    let common = bytes.iter().zip(begin).take_while(|(a, b)| a == b).count();
    if common < 2 || common < bytes.len().min(begin.len()) {
        return Begun::Other;
    }
    bytes.get(begin.len()..).map_or(Begun::Partly, Begun::With)
}

/// Longest escape sequence that is waited for; real ones are shorter than 40 bytes.
const SEQUENCE_LIMIT: usize = 128;
/// Longest paste; what is longer is cut.
const PASTE_LIMIT: usize = 16 << 20;
const PASTE_END: &[u8] = b"\x1b[201~";
/// How many flushes the beginning of an answer waits for the rest: a slow line may tear it apart.
const ANSWER: u8 = 60;
/// The same for `ESC ]` and `ESC [` alone, which are keys, too.
const MAYBE: u8 = 10;

/// Turns bytes into events. Feed with [`Decoder::feed`]; call [`Decoder::flush`] when
/// [`Decoder::is_undecided`] and nothing came for a moment.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    pending: Vec<u8>,
    paste: Option<Vec<u8>>,
    /// The terminal was asked for its background: `ESC ]` may be its answer.
    asked: bool,
    /// What it has answered.
    background: Option<[u8; 3]>,
    question: Question,
    /// It has kitty's keyboard protocol.
    tells_keys_apart: bool,
    /// How often the beginning of an answer was looked at in vain.
    held: u8,
}

/// The question whether the terminal has kitty's keyboard protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Question {
    /// It was not asked.
    #[default]
    None,
    /// The answer may come.
    Open,
    /// It has answered, or is too slow for a key to wait.
    Over,
}

/// What the start of the pending bytes is.
enum Parsed {
    /// An event (or nothing of interest) that takes this many bytes.
    Done(usize, Option<Event>),
    /// More bytes are needed.
    Incomplete,
}

impl Decoder {
    /// Returns a decoder for a terminal that was asked for kitty's keyboard protocol, and, with `asked`, for its
    /// background.
    pub(super) fn new(asked: bool) -> Self {
        Self { asked, question: Question::Open, ..Self::default() }
    }

    /// Tells, once, that the terminal has kitty's keyboard protocol.
    pub(super) fn take_keyboard(&mut self) -> bool {
        std::mem::take(&mut self.tells_keys_apart)
    }

    /// Takes the background that the terminal has told meanwhile.
    pub(super) fn take_background(&mut self) -> Option<[u8; 3]> {
        self.background.take()
    }

    /// Takes bytes and returns the events that are complete.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Event> {
        self.held = 0;
        self.pending.extend_from_slice(bytes);
        self.drain(false)
    }

    /// Tells whether bytes are held back because more may follow them.
    pub(super) fn is_undecided(&self) -> bool {
        self.paste.is_none() && !self.pending.is_empty()
    }

    /// Decides what is held back: nothing follows it.
    pub(super) fn flush(&mut self) -> Vec<Event> {
        self.drain(true)
    }

    fn drain(&mut self, last: bool) -> Vec<Event> {
        let mut events = Vec::new();
        let mut at = 0;
        while at < self.pending.len() {
            if let Some(mut paste) = self.paste.take() {
                let rest = &self.pending[at..];
                if let Some(end) = find(rest, PASTE_END) {
                    extend_bounded(&mut paste, &rest[..end]);
                    events.push(Event::Paste(String::from_utf8_lossy(&paste).into_owned()));
                    at += end + PASTE_END.len();
                    continue;
                }
                // The end marker may be split over two reads: its possible start stays pending.
                let keep = (1..PASTE_END.len()).rev().find(|n| rest.ends_with(&PASTE_END[..*n])).unwrap_or(0);
                extend_bounded(&mut paste, &rest[..rest.len() - keep]);
                at = self.pending.len() - keep;
                self.paste = Some(paste);
                break;
            }
            if self.asked {
                match background::read(&self.pending[at..]) {
                    background::Read::Whole(used, colour) => {
                        self.background = colour;
                        at += used;
                        continue;
                    }
                    background::Read::Cut(used) => {
                        at += used;
                        continue;
                    }
                    background::Read::Partial => {
                        let is_key = self.pending.len() - at <= 2;
                        self.held = self.held.saturating_add(u8::from(last));
                        if self.held < if is_key { MAYBE } else { ANSWER } {
                            break;
                        }
                        if !is_key {
                            at = self.pending.len();
                            continue;
                        }
                    }
                    background::Read::Other => {}
                }
            }
            if self.question != Question::None {
                match keyboard::read(&self.pending[at..]) {
                    keyboard::Read::Whole(used) => {
                        (self.question, self.tells_keys_apart) = (Question::Over, true);
                        at += used;
                        continue;
                    }
                    keyboard::Read::Partial => {
                        let is_key = self.pending.len() - at <= 2;
                        self.held = self.held.saturating_add(u8::from(last));
                        let patience = match (is_key, self.question) {
                            (false, _) => ANSWER,
                            (true, Question::Open) => MAYBE,
                            (true, Question::Over | Question::None) => 0,
                        };
                        if self.held < patience {
                            break;
                        }
                        // No answer is that slow: from now on this is a key as on any other terminal.
                        if is_key {
                            self.question = Question::Over;
                        } else {
                            at = self.pending.len();
                            continue;
                        }
                    }
                    keyboard::Read::Other => {}
                }
            }
            match parse(&self.pending[at..], last) {
                Parsed::Done(_, Some(Event::Paste(_))) => {
                    at += b"\x1b[200~".len();
                    self.paste = Some(Vec::new());
                }
                Parsed::Done(used, event) => {
                    at += used;
                    events.extend(event);
                }
                Parsed::Incomplete => break,
            }
        }
        self.pending.drain(..at);
        events
    }
}

fn extend_bounded(paste: &mut Vec<u8>, bytes: &[u8]) {
    let room = PASTE_LIMIT.saturating_sub(paste.len()).min(bytes.len());
    paste.extend_from_slice(&bytes[..room]);
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// Parses one event at the start of `bytes` (not empty); with `last` nothing will follow.
fn parse(bytes: &[u8], last: bool) -> Parsed {
    if bytes[0] != 0x1b {
        return plain(bytes, KeyModifiers::NONE, last);
    }
    match bytes.get(1) {
        None if last => Parsed::Done(1, key(KeyCode::Esc, KeyModifiers::NONE)),
        None => Parsed::Incomplete,
        // The first of two ESC is a key of its own; the second may begin a sequence.
        Some(0x1b) => Parsed::Done(1, key(KeyCode::Esc, KeyModifiers::NONE)),
        Some(b'[') => csi(bytes, last),
        Some(b'O') => match bytes.get(2) {
            None if last => Parsed::Done(2, key(KeyCode::Char('O'), KeyModifiers::ALT | KeyModifiers::SHIFT)),
            None => Parsed::Incomplete,
            Some(byte) => Parsed::Done(3, ss3(*byte)),
        },
        Some(_) => match plain(&bytes[1..], KeyModifiers::ALT, last) {
            Parsed::Done(used, event) => Parsed::Done(used + 1, event),
            Parsed::Incomplete => Parsed::Incomplete,
        },
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the other tables of keys may know none")]
fn key(code: KeyCode, modifiers: KeyModifiers) -> Option<Event> {
    Some(Event::Key(KeyEvent::new(code, modifiers)))
}

/// A control character or one character of UTF-8.
fn plain(bytes: &[u8], modifiers: KeyModifiers, last: bool) -> Parsed {
    let control = |c: char| key(KeyCode::Char(c), modifiers | KeyModifiers::CONTROL);
    let event = match bytes[0] {
        0 => control(' '),
        b'\t' => key(KeyCode::Tab, modifiers),
        b'\r' => key(KeyCode::Enter, modifiers),
        byte @ 0x01..=0x1a => control(char::from(byte - 1 + b'a')),
        0x1b => key(KeyCode::Esc, modifiers),
        byte @ 0x1c..=0x1f => control(char::from(byte - 0x1c + b'\\')),
        0x7f => key(KeyCode::Backspace, modifiers),
        byte @ 0x20..=0x7e => key_char(char::from(byte), modifiers),
        _ => return utf8(bytes, modifiers, last),
    };
    Parsed::Done(1, event)
}

fn key_char(c: char, modifiers: KeyModifiers) -> Option<Event> {
    let shift = if c.is_uppercase() { KeyModifiers::SHIFT } else { KeyModifiers::NONE };
    key(KeyCode::Char(c), modifiers | shift)
}

fn utf8(bytes: &[u8], modifiers: KeyModifiers, last: bool) -> Parsed {
    let length = match bytes[0] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Parsed::Done(1, None),
    };
    let present = &bytes[..length.min(bytes.len())];
    match std::str::from_utf8(present) {
        Ok(text) => Parsed::Done(length, text.chars().next().and_then(|c| key_char(c, modifiers))),
        Err(error) if error.error_len().is_none() && !last => Parsed::Incomplete,
        Err(error) => Parsed::Done(error.error_len().unwrap_or(present.len()), None),
    }
}

fn ss3(byte: u8) -> Option<Event> {
    let code = match byte {
        b'M' => KeyCode::Enter,
        b'I' => KeyCode::Tab,
        // The numeric keypad in application mode.
        b'j'..=b'y' => KeyCode::Char(char::from(byte - b'j' + b'*')),
        b'X' => KeyCode::Char('='),
        byte => return letter(byte).and_then(|code| key(code, KeyModifiers::NONE)),
    };
    key(code, KeyModifiers::NONE)
}

/// The key of a final letter, in CSI and SS3 alike.
fn letter(byte: u8) -> Option<KeyCode> {
    Some(match byte {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'E' => KeyCode::KeypadBegin,
        b'F' => KeyCode::End,
        b'H' => KeyCode::Home,
        b'P'..=b'S' => KeyCode::F(byte - b'P' + 1),
        _ => return None,
    })
}

/// The key of a number before `~`.
fn tilde(number: u32) -> Option<KeyCode> {
    Some(match number {
        1 | 7 => KeyCode::Home,
        2 => KeyCode::Insert,
        3 => KeyCode::Delete,
        4 | 8 => KeyCode::End,
        5 => KeyCode::PageUp,
        6 => KeyCode::PageDown,
        11..=15 => f_key(number - 10)?,
        17..=21 => f_key(number - 11)?,
        23..=26 => f_key(number - 12)?,
        28 | 29 => f_key(number - 13)?,
        31..=34 => f_key(number - 14)?,
        _ => return None,
    })
}

fn f_key(number: u32) -> Option<KeyCode> {
    u8::try_from(number).ok().map(KeyCode::F)
}

fn csi(bytes: &[u8], last: bool) -> Parsed {
    let incomplete = || {
        if last || bytes.len() > SEQUENCE_LIMIT { Parsed::Done(bytes.len(), None) } else { Parsed::Incomplete }
    };
    match bytes.get(2) {
        None if last => return Parsed::Done(2, key(KeyCode::Char('['), KeyModifiers::ALT)),
        None => return Parsed::Incomplete,
        // The Linux console sends F1 to F5 as `ESC [ [ A` to `E`.
        Some(b'[') => {
            return match bytes.get(3) {
                None => incomplete(),
                Some(byte @ b'A'..=b'E') => Parsed::Done(4, key(KeyCode::F(byte - b'A' + 1), KeyModifiers::NONE)),
                Some(_) => Parsed::Done(3, None),
            };
        }
        // The oldest mouse report: three raw bytes.
        Some(b'M') => {
            return match bytes.get(3..6) {
                None => incomplete(),
                Some(raw) => {
                    let value = |i: usize| u32::from(raw[i]).saturating_sub(32);
                    Parsed::Done(6, mouse(value(0), value(1), value(2), value(0) & 3 == 3 && value(0) & 0x60 == 0))
                }
            };
        }
        Some(_) => {}
    }
    let Some(length) = bytes[2..].iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        // A control character inside a sequence: the sequence was cut, what follows is new.
        return match bytes[2..].iter().position(|byte| *byte < 0x20) {
            Some(cut) => Parsed::Done(2 + cut, None),
            None => incomplete(),
        };
    };
    let (body, end) = (&bytes[2..2 + length], bytes[2 + length]);
    if let Some(cut) = body.iter().position(|byte| *byte < 0x20) {
        return Parsed::Done(2 + cut, None);
    }
    Parsed::Done(3 + length, sequence(body, end))
}

fn sequence(body: &[u8], end: u8) -> Option<Event> {
    if let Some(report) = body.strip_prefix(b"<") {
        let numbers = numbers(report);
        let [code, column, row] = numbers[..] else { return None };
        return match end {
            b'M' => mouse(code, column, row, false),
            b'm' => mouse(code, column, row, true),
            _ => None,
        };
    }
    let numbers = numbers(body);
    let number = |i: usize| numbers.get(i).copied().unwrap_or(0);
    let held = || kitty::modifiers(number(1));
    let part = |field: usize, index: usize| part(body, field, index).unwrap_or(0);
    let kind = kitty::kind(part(1, 1));
    let named = |code| Some(Event::Key(KeyEvent::new_with_kind(code, held(), kind)));
    match (end, number(0)) {
        // The start of a paste; the text itself is collected by the decoder.
        (b'~', 200) => Some(Event::Paste(String::new())),
        (b'~', 27) => kitty::key([number(2), 0, 0], held(), KeyEventKind::Press),
        (b'~', code) => tilde(code).and_then(named),
        (b'u', code) => kitty::key([code, part(0, 1), part(0, 2)], held(), kind),
        (b'Z', _) => key(KeyCode::BackTab, KeyModifiers::SHIFT),
        (b'I', _) => Some(Event::FocusGained),
        (b'O', _) => Some(Event::FocusLost),
        (byte, _) => letter(byte).and_then(named),
    }
}

/// Returns the first number of each parameter; parts behind a colon are of interest to keys only.
fn numbers(body: &[u8]) -> Vec<u32> {
    let count = body.split(|byte| *byte == b';').count();
    (0..count).map(|field| part(body, field, 0).unwrap_or(0)).collect()
}

/// Returns one part of one parameter.
fn part(body: &[u8], field: usize, index: usize) -> Option<u32> {
    let field = body.split(|byte| *byte == b';').nth(field)?;
    std::str::from_utf8(field.split(|byte| *byte == b':').nth(index)?).ok()?.parse().ok()
}

fn mouse(code: u32, column: u32, row: u32, released: bool) -> Option<Event> {
    let button = match code & 3 {
        0 => Some(MouseButton::Left),
        1 => Some(MouseButton::Middle),
        2 => Some(MouseButton::Right),
        _ => None,
    };
    let kind = match (code & 0x60, button) {
        (0, Some(button)) if released => MouseEventKind::Up(button),
        (0, Some(button)) => MouseEventKind::Down(button),
        // The oldest encoding does not say which button came up.
        (0, None) => MouseEventKind::Up(MouseButton::Left),
        (0x20, Some(button)) => MouseEventKind::Drag(button),
        (0x20, None) => MouseEventKind::Moved,
        (0x40, Some(MouseButton::Left)) => MouseEventKind::ScrollUp,
        (0x40, Some(MouseButton::Middle)) => MouseEventKind::ScrollDown,
        (0x40, Some(MouseButton::Right)) => MouseEventKind::ScrollLeft,
        (0x40, None) => MouseEventKind::ScrollRight,
        _ => return None,
    };
    let mut modifiers = KeyModifiers::NONE;
    for (bit, modifier) in [(4, KeyModifiers::SHIFT), (8, KeyModifiers::ALT), (16, KeyModifiers::CONTROL)] {
        if code & bit != 0 {
            modifiers |= modifier;
        }
    }
    let coordinate = |value: u32| u16::try_from(value.saturating_sub(1)).unwrap_or(u16::MAX);
    Some(Event::Mouse(MouseEvent { kind, column: coordinate(column), row: coordinate(row), modifiers }))
}

#[cfg(test)]
mod tests;
