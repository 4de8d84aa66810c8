//! Keys as kitty's keyboard protocol writes them: from its bytes to crossterm's types, and back for the programs inside
//! that asked for it. Pure.
//!
//! Used by `decode` and `input`. The tables are those of <https://sw.kovidgoyal.net/kitty/keyboard-protocol/>, *Functional
//! key definitions* and *Modifiers*. The terminal outside is asked to tell keys apart (flag 1) and to name the other
//! characters of a key (flag 4): without the second, nobody could say what Alt-Shift-1 types into a program that did not
//! ask for the protocol, nor which letter Ctrl stands before on a keyboard without Latin letters.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyEventState, KeyModifiers, MediaKeyCode};

/// Asks whether the terminal has the protocol.
pub(super) const ASK: &[u8] = b"\x1b[?u";
/// Turns it on, on top of what was there.
pub(super) const PUSH: &[u8] = b"\x1b[>5u";
/// The same in the place of what we turned on before.
pub(super) const SET: &[u8] = b"\x1b[=5u";
/// Takes it back.
pub(super) const POP: &[u8] = b"\x1b[<u";

/// The bits of the modifiers, each one less than what they add to the parameter.
const MODIFIERS: [(u32, KeyModifiers); 6] = [
    (1, KeyModifiers::SHIFT),
    (2, KeyModifiers::ALT),
    (4, KeyModifiers::CONTROL),
    (8, KeyModifiers::SUPER),
    (16, KeyModifiers::HYPER),
    (32, KeyModifiers::META),
];

/// Keys with a number of their own.
const NUMBERED: [(u32, KeyCode); 19] = [
    (57358, KeyCode::CapsLock),
    (57359, KeyCode::ScrollLock),
    (57360, KeyCode::NumLock),
    (57361, KeyCode::PrintScreen),
    (57362, KeyCode::Pause),
    (57363, KeyCode::Menu),
    (57428, KeyCode::Media(MediaKeyCode::Play)),
    (57429, KeyCode::Media(MediaKeyCode::Pause)),
    (57430, KeyCode::Media(MediaKeyCode::PlayPause)),
    (57431, KeyCode::Media(MediaKeyCode::Reverse)),
    (57432, KeyCode::Media(MediaKeyCode::Stop)),
    (57433, KeyCode::Media(MediaKeyCode::FastForward)),
    (57434, KeyCode::Media(MediaKeyCode::Rewind)),
    (57435, KeyCode::Media(MediaKeyCode::TrackNext)),
    (57436, KeyCode::Media(MediaKeyCode::TrackPrevious)),
    (57437, KeyCode::Media(MediaKeyCode::Record)),
    (57438, KeyCode::Media(MediaKeyCode::LowerVolume)),
    (57439, KeyCode::Media(MediaKeyCode::RaiseVolume)),
    (57440, KeyCode::Media(MediaKeyCode::MuteVolume)),
];

/// Keys of the keypad, from this number on.
const KEYPAD: u32 = 57399;
const KEYPAD_KEYS: [KeyCode; 29] = [
    KeyCode::Char('0'),
    KeyCode::Char('1'),
    KeyCode::Char('2'),
    KeyCode::Char('3'),
    KeyCode::Char('4'),
    KeyCode::Char('5'),
    KeyCode::Char('6'),
    KeyCode::Char('7'),
    KeyCode::Char('8'),
    KeyCode::Char('9'),
    KeyCode::Char('.'),
    KeyCode::Char('/'),
    KeyCode::Char('*'),
    KeyCode::Char('-'),
    KeyCode::Char('+'),
    KeyCode::Enter,
    KeyCode::Char('='),
    KeyCode::Char(','),
    KeyCode::Left,
    KeyCode::Right,
    KeyCode::Up,
    KeyCode::Down,
    KeyCode::PageUp,
    KeyCode::PageDown,
    KeyCode::Home,
    KeyCode::End,
    KeyCode::Insert,
    KeyCode::Delete,
    KeyCode::KeypadBegin,
];
/// F13 to F35, from this number on.
const F13: u32 = 57376;

/// Reads the modifiers of a parameter.
pub(super) fn modifiers(parameter: u32) -> KeyModifiers {
    let bits = parameter.saturating_sub(1);
    MODIFIERS.iter().filter(|(bit, _)| bits & bit != 0).fold(KeyModifiers::NONE, |all, (_, one)| all | *one)
}

/// Reads the kind of an event, the second part of the parameter of modifiers.
pub(super) fn kind(number: u32) -> KeyEventKind {
    match number {
        2 => KeyEventKind::Repeat,
        3 => KeyEventKind::Release,
        _ => KeyEventKind::Press,
    }
}

/// Reads a key from its number, the same with Shift, and the one on the usual keyboard; 0 stands for none of these.
pub(super) fn key([code, shifted, base]: [u32; 3], modifiers: KeyModifiers, kind: KeyEventKind) -> Option<Event> {
    let named = |code| Some((code, modifiers, KeyEventState::NONE));
    let (code, modifiers, state) = match code {
        9 if modifiers.contains(KeyModifiers::SHIFT) => named(KeyCode::BackTab),
        9 => named(KeyCode::Tab),
        13 => named(KeyCode::Enter),
        27 => named(KeyCode::Esc),
        8 | 127 => named(KeyCode::Backspace),
        57344..=63743 => private(code).map(|(code, state)| (code, modifiers, state)),
        code => {
            let (c, modifiers) = character(char::from_u32(code)?, [shifted, base], modifiers)?;
            Some((KeyCode::Char(c), modifiers, KeyEventState::NONE))
        }
    }?;
    Some(Event::Key(KeyEvent { code, modifiers, kind, state }))
}

/// Returns the character of a key, and the modifiers that are not in it already.
fn character(plain: char, [shifted, base]: [u32; 2], modifiers: KeyModifiers) -> Option<(char, KeyModifiers)> {
    if plain.is_control() {
        return None;
    }
    let other = |code: u32| char::from_u32(code).filter(|c| code != 0 && !c.is_control());
    let mut c = plain;
    if modifiers.contains(KeyModifiers::CONTROL)
        && !plain.is_ascii()
        && let Some(base) = other(base).filter(char::is_ascii)
    {
        c = base;
    } else if modifiers.contains(KeyModifiers::SHIFT)
        && let Some(shifted) = other(shifted)
    {
        // What Shift makes of a letter is the letter with Shift; what it makes of anything else is another key.
        let is_letter = shifted.is_alphabetic();
        return Some((shifted, if is_letter { modifiers } else { modifiers - KeyModifiers::SHIFT }));
    }
    if modifiers.contains(KeyModifiers::SHIFT) {
        c = c.to_uppercase().next().unwrap_or(c);
    }
    Some((c, modifiers))
}

/// Reads the number of a key that is no character.
fn private(code: u32) -> Option<(KeyCode, KeyEventState)> {
    let index = |from: u32| usize::try_from(code.checked_sub(from)?).ok();
    if let Some(key) = index(KEYPAD).and_then(|index| KEYPAD_KEYS.get(index)) {
        return Some((*key, KeyEventState::KEYPAD));
    }
    if let Some(number) = index(F13).and_then(|index| u8::try_from(index).ok()).filter(|index| *index <= 22) {
        return Some((KeyCode::F(number + 13), KeyEventState::NONE));
    }
    NUMBERED.iter().find(|(number, _)| *number == code).map(|(_, key)| (*key, KeyEventState::NONE))
}

/// How a key is written.
enum Form {
    /// `CSI number u`
    Number(u32),
    /// `CSI number ~`
    Tilde(u32),
    /// `CSI letter`
    Letter(char),
}

/// Returns the bytes of a key for a program that asked to have keys told apart; `None` for those that stay as they were:
/// text, and Enter, Tab and Backspace alone.
pub(super) fn encode(event: &KeyEvent) -> Option<Vec<u8>> {
    let mut modifiers = event.modifiers;
    let form = if event.state.contains(KeyEventState::KEYPAD)
        && let Some(number) = (KEYPAD..).zip(KEYPAD_KEYS).find(|(_, key)| *key == event.code)
    {
        Form::Number(number.0)
    } else {
        form(event.code, &mut modifiers)?
    };
    let bits = MODIFIERS.iter().filter(|(_, one)| modifiers.contains(*one)).fold(0, |bits, (bit, _)| bits | bit);
    let text = match (form, bits) {
        (Form::Number(9 | 13 | 127), 0) => return None,
        (Form::Number(number), 0) => format!("\x1b[{number}u"),
        (Form::Number(number), bits) => format!("\x1b[{number};{}u", bits + 1),
        (Form::Tilde(number), 0) => format!("\x1b[{number}~"),
        (Form::Tilde(number), bits) => format!("\x1b[{number};{}~", bits + 1),
        (Form::Letter(letter), 0) => format!("\x1b[{letter}"),
        (Form::Letter(letter), bits) => format!("\x1b[1;{}{letter}", bits + 1),
    };
    Some(text.into_bytes())
}

fn form(code: KeyCode, modifiers: &mut KeyModifiers) -> Option<Form> {
    Some(match code {
        KeyCode::Char(_) if (*modifiers - KeyModifiers::SHIFT).is_empty() => return None,
        KeyCode::Char(c) => {
            // A letter is named by its small form, whatever Shift makes of it.
            if c.is_uppercase() {
                *modifiers |= KeyModifiers::SHIFT;
            }
            Form::Number(u32::from(c.to_lowercase().next().unwrap_or(c)))
        }
        KeyCode::Null => {
            *modifiers |= KeyModifiers::CONTROL;
            Form::Number(32)
        }
        KeyCode::BackTab => {
            *modifiers |= KeyModifiers::SHIFT;
            Form::Number(9)
        }
        KeyCode::Tab => Form::Number(9),
        KeyCode::Enter => Form::Number(13),
        KeyCode::Esc => Form::Number(27),
        KeyCode::Backspace => Form::Number(127),
        KeyCode::Insert => Form::Tilde(2),
        KeyCode::Delete => Form::Tilde(3),
        KeyCode::PageUp => Form::Tilde(5),
        KeyCode::PageDown => Form::Tilde(6),
        KeyCode::Up => Form::Letter('A'),
        KeyCode::Down => Form::Letter('B'),
        KeyCode::Right => Form::Letter('C'),
        KeyCode::Left => Form::Letter('D'),
        KeyCode::KeypadBegin => Form::Letter('E'),
        KeyCode::End => Form::Letter('F'),
        KeyCode::Home => Form::Letter('H'),
        KeyCode::F(1) => Form::Letter('P'),
        KeyCode::F(2) => Form::Letter('Q'),
        // `CSI R` is a report of the cursor.
        KeyCode::F(3) => Form::Tilde(13),
        KeyCode::F(4) => Form::Letter('S'),
        KeyCode::F(5) => Form::Tilde(15),
        KeyCode::F(n @ 6..=10) => Form::Tilde(u32::from(n) + 11),
        KeyCode::F(n @ 11..=12) => Form::Tilde(u32::from(n) + 12),
        KeyCode::F(n @ 13..=35) => Form::Number(F13 + u32::from(n) - 13),
        KeyCode::F(_) | KeyCode::Modifier(_) => return None,
        code @ (KeyCode::CapsLock
        | KeyCode::ScrollLock
        | KeyCode::NumLock
        | KeyCode::PrintScreen
        | KeyCode::Pause
        | KeyCode::Menu
        | KeyCode::Media(_)) => Form::Number(NUMBERED.iter().find(|(_, key)| *key == code)?.0),
    })
}

#[cfg(test)]
mod tests {
    use super::super::decode::Decoder;
    use super::super::input;
    use super::*;
    use crate::pty::screen::Modes;

    const NONE: KeyModifiers = KeyModifiers::NONE;
    const CTRL: KeyModifiers = KeyModifiers::CONTROL;
    const ALT: KeyModifiers = KeyModifiers::ALT;
    const SHIFT: KeyModifiers = KeyModifiers::SHIFT;

    fn asked() -> Modes {
        Modes { disambiguates: true, application_cursor: true, ..Modes::default() }
    }

    fn decoded(bytes: &[u8]) -> Option<KeyEvent> {
        let mut decoder = Decoder::default();
        let mut events = decoder.feed(bytes);
        events.extend(decoder.flush());
        match events[..] {
            [Event::Key(key)] => Some(key),
            _ => None,
        }
    }

    #[test]
    fn keys_are_told_apart_for_whoever_asked() {
        for (code, modifiers, expected) in [
            // Text, and what a shell needs after a crash, stay.
            (KeyCode::Char('a'), NONE, "a"),
            (KeyCode::Char('A'), SHIFT, "A"),
            (KeyCode::Char('é'), NONE, "é"),
            (KeyCode::Char(' '), SHIFT, " "),
            (KeyCode::Enter, NONE, "\r"),
            (KeyCode::Tab, NONE, "\t"),
            (KeyCode::Backspace, NONE, "\x7f"),
            // Everything else has a form of its own.
            (KeyCode::Esc, NONE, "\x1b[27u"),
            (KeyCode::Esc, ALT, "\x1b[27;3u"),
            (KeyCode::Enter, SHIFT, "\x1b[13;2u"),
            (KeyCode::Enter, CTRL, "\x1b[13;5u"),
            (KeyCode::Enter, ALT, "\x1b[13;3u"),
            (KeyCode::Tab, CTRL, "\x1b[9;5u"),
            (KeyCode::BackTab, SHIFT, "\x1b[9;2u"),
            (KeyCode::BackTab, NONE, "\x1b[9;2u"),
            (KeyCode::Backspace, CTRL, "\x1b[127;5u"),
            (KeyCode::Char('i'), CTRL, "\x1b[105;5u"),
            (KeyCode::Char('m'), CTRL, "\x1b[109;5u"),
            (KeyCode::Char('['), CTRL, "\x1b[91;5u"),
            (KeyCode::Char('c'), CTRL, "\x1b[99;5u"),
            (KeyCode::Char('C'), CTRL | SHIFT, "\x1b[99;6u"),
            (KeyCode::Char('x'), ALT, "\x1b[120;3u"),
            (KeyCode::Char('X'), ALT, "\x1b[120;4u"),
            (KeyCode::Char('x'), ALT | CTRL, "\x1b[120;7u"),
            (KeyCode::Char(' '), CTRL, "\x1b[32;5u"),
            (KeyCode::Char('a'), KeyModifiers::SUPER, "\x1b[97;9u"),
            (KeyCode::Up, NONE, "\x1b[A"),
            (KeyCode::Up, CTRL, "\x1b[1;5A"),
            (KeyCode::Home, NONE, "\x1b[H"),
            (KeyCode::Delete, NONE, "\x1b[3~"),
            (KeyCode::PageDown, SHIFT, "\x1b[6;2~"),
            (KeyCode::F(1), NONE, "\x1b[P"),
            (KeyCode::F(3), NONE, "\x1b[13~"),
            (KeyCode::F(4), ALT, "\x1b[1;3S"),
            (KeyCode::F(5), NONE, "\x1b[15~"),
            (KeyCode::F(10), NONE, "\x1b[21~"),
            (KeyCode::F(12), SHIFT, "\x1b[24;2~"),
            (KeyCode::F(13), NONE, "\x1b[57376u"),
            (KeyCode::F(35), NONE, "\x1b[57398u"),
            (KeyCode::Menu, NONE, "\x1b[57363u"),
            (KeyCode::Media(MediaKeyCode::MuteVolume), NONE, "\x1b[57440u"),
        ] {
            let event = KeyEvent::new(code, modifiers);
            let bytes = String::from_utf8(input::key(&event, asked())).unwrap_or_default();
            assert_eq!(bytes.escape_debug().to_string(), expected.escape_debug().to_string(), "{event:?}");
            // What we write we read, too, and write again as it was.
            let back = decoded(bytes.as_bytes()).map(|event| input::key(&event, asked()));
            assert_eq!(back.as_deref(), Some(bytes.as_bytes()), "{event:?}");
        }
    }

    /// What the terminal outside sends, what a program gets that did not ask, and one that did.
    #[test]
    fn what_comes_in_goes_on_in_the_form_that_was_asked_for() {
        for (outside, older, asked_for) in [
            ("\x1b[27u", "\x1b", "\x1b[27u"),
            ("\x1b[13;2u", "\r", "\x1b[13;2u"),
            ("\x1b[13;5u", "\r", "\x1b[13;5u"),
            ("\x1b[105;5u", "\t", "\x1b[105;5u"),
            ("\t", "\t", "\t"),
            ("\x1b[99;5u", "\x03", "\x1b[99;5u"),
            ("\x1b[92;5u", "\x1c", "\x1b[92;5u"),
            ("\x1b[120;3u", "\x1bx", "\x1b[120;3u"),
            ("\x1b[120:88;4u", "\x1bX", "\x1b[120;4u"),
            ("\x1b[120;4u", "\x1bX", "\x1b[120;4u"),
            // Shift and 1: what it types is told by the second number.
            ("\x1b[49:33;4u", "\x1b!", "\x1b[33;3u"),
            // Ctrl on a Cyrillic keyboard: the third says which key it is.
            ("\x1b[1089::99;5u", "\x03", "\x1b[99;5u"),
            ("\x1b[1089:1057:99;6u", "\x03", "\x1b[99;6u"),
            // Locks are no modifiers.
            ("\x1b[99;197u", "\x03", "\x1b[99;5u"),
            ("\x1b[1;129A", "\x1bOA", "\x1b[A"),
            ("\x1b[1;5A", "\x1b[1;5A", "\x1b[1;5A"),
            ("\x1b[P", "\x1bOP", "\x1b[P"),
            ("\x1b[13~", "\x1bOR", "\x1b[13~"),
            ("\x1b[9;2u", "\x1b[Z", "\x1b[9;2u"),
            ("\x1b[127;5u", "\x08", "\x1b[127;5u"),
            ("\x1b[57400u", "1", "\x1b[57400u"),
            ("\x1b[57414u", "\r", "\x1b[57414u"),
            ("\x1b[57417u", "\x1bOD", "\x1b[57417u"),
            ("\x1b[57427u", "\x1bOE", "\x1b[57427u"),
            ("\x1b[57363u", "", "\x1b[57363u"),
        ] {
            let Some(event) = decoded(outside.as_bytes()) else { panic!("{outside:?} is no key") };
            let to = |modes| String::from_utf8_lossy(&input::key(&event, modes)).into_owned();
            let plain = Modes { disambiguates: false, ..asked() };
            assert_eq!((to(plain), to(asked())), (older.into(), asked_for.into()), "{outside:?}: {event:?}");
        }
    }

    #[test]
    fn what_is_no_key_is_none() {
        for bytes in ["\x1b[u", "\x1b[0u", "\x1b[1u", "\x1b[57344u", "\x1b[63743u", "\x1b[1114112u", "\x1b[55296u"] {
            assert_eq!(decoded(bytes.as_bytes()), None, "{bytes:?}");
        }
    }

    #[test]
    fn kinds_of_events_are_read() {
        for (bytes, kind) in [
            ("\x1b[97;5u", KeyEventKind::Press),
            ("\x1b[97;5:1u", KeyEventKind::Press),
            ("\x1b[97;5:2u", KeyEventKind::Repeat),
            ("\x1b[97;5:3u", KeyEventKind::Release),
            ("\x1b[1;1:3A", KeyEventKind::Release),
            ("\x1b[3;1:2~", KeyEventKind::Repeat),
        ] {
            assert_eq!(decoded(bytes.as_bytes()).map(|key| key.kind), Some(kind), "{bytes:?}");
        }
    }
}
