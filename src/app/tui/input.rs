//! Events to terminal bytes: what a session's program reads when a key is pressed in its terminal.
//!
//! Called by `update` while a session has the focus. Pure. The encoding is xterm's (its document
//! "Control Sequences", the tables *PC-Style Function Keys* and *Mouse Tracking*), which is what
//! programs expect behind `TERM=xterm-256color` and `screen-256color` alike; a program that asked to have keys told
//! apart gets them as `kitty` writes them.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEventKind};

use super::kitty;
use super::seam::Paste;
use crate::pty::screen::{Modes, MouseEncoding, MouseMode};

/// Returns the bytes of a key; none for keys that no terminal sends.
pub(super) fn key(event: &KeyEvent, modes: Modes) -> Vec<u8> {
    if modes.disambiguates
        && let Some(bytes) = kitty::encode(event)
    {
        return bytes;
    }
    let modifiers = event.modifiers;
    let alt = modifiers.contains(KeyModifiers::ALT);
    let control = modifiers.contains(KeyModifiers::CONTROL);
    let prefixed = |bytes: &[u8]| {
        let mut out = Vec::with_capacity(bytes.len() + 1);
        if alt {
            out.push(0x1b);
        }
        out.extend_from_slice(bytes);
        out
    };
    match event.code {
        KeyCode::Char(c) if control => match control_byte(c) {
            Some(byte) => prefixed(&[byte]),
            None => prefixed(c.encode_utf8(&mut [0; 4]).as_bytes()),
        },
        KeyCode::Char(c) => prefixed(c.encode_utf8(&mut [0; 4]).as_bytes()),
        KeyCode::Enter => prefixed(b"\r"),
        KeyCode::Tab if modifiers.contains(KeyModifiers::SHIFT) => prefixed(b"\x1b[Z"),
        KeyCode::Tab => prefixed(b"\t"),
        KeyCode::BackTab => prefixed(b"\x1b[Z"),
        KeyCode::Backspace if control => prefixed(b"\x08"),
        KeyCode::Backspace => prefixed(b"\x7f"),
        KeyCode::Esc => prefixed(b"\x1b"),
        KeyCode::Null => prefixed(b"\0"),
        KeyCode::Up => cursor_key('A', modifiers, modes),
        KeyCode::Down => cursor_key('B', modifiers, modes),
        KeyCode::Right => cursor_key('C', modifiers, modes),
        KeyCode::Left => cursor_key('D', modifiers, modes),
        KeyCode::KeypadBegin => cursor_key('E', modifiers, modes),
        KeyCode::End => cursor_key('F', modifiers, modes),
        KeyCode::Home => cursor_key('H', modifiers, modes),
        KeyCode::Insert => tilde(2, modifiers),
        KeyCode::Delete => tilde(3, modifiers),
        KeyCode::PageUp => tilde(5, modifiers),
        KeyCode::PageDown => tilde(6, modifiers),
        KeyCode::F(n) => function_key(n, modifiers),
        KeyCode::CapsLock
        | KeyCode::ScrollLock
        | KeyCode::NumLock
        | KeyCode::PrintScreen
        | KeyCode::Pause
        | KeyCode::Menu
        | KeyCode::Media(_)
        | KeyCode::Modifier(_) => Vec::new(),
    }
}

/// Returns the control character of a key with Ctrl, as xterm and the VT220 have it. crossterm names
/// the bytes 0x1c to 0x1f after the digits 4 to 7.
fn control_byte(c: char) -> Option<u8> {
    Some(match c {
        'a'..='z' | 'A'..='Z' => (c as u8) & 0x1f,
        ' ' | '@' | '2' => 0,
        '[' | '3' => 0x1b,
        '\\' | '4' => 0x1c,
        ']' | '5' => 0x1d,
        '^' | '~' | '6' => 0x1e,
        '_' | '/' | '-' | '7' => 0x1f,
        '?' | '8' => 0x7f,
        _ => return None,
    })
}

/// xterm's modifier parameter; `None` where no modifier is held.
fn parameter(modifiers: KeyModifiers) -> Option<u8> {
    let bit = |modifier, value| if modifiers.intersects(modifier) { value } else { 0 };
    let bits = bit(KeyModifiers::SHIFT, 1)
        | bit(KeyModifiers::ALT, 2)
        | bit(KeyModifiers::CONTROL, 4)
        | bit(KeyModifiers::META | KeyModifiers::SUPER, 8);
    (bits != 0).then_some(bits + 1)
}

fn cursor_key(end: char, modifiers: KeyModifiers, modes: Modes) -> Vec<u8> {
    match parameter(modifiers) {
        Some(parameter) => format!("\x1b[1;{parameter}{end}"),
        None if modes.application_cursor => format!("\x1bO{end}"),
        None => format!("\x1b[{end}"),
    }
    .into_bytes()
}

fn tilde(number: u8, modifiers: KeyModifiers) -> Vec<u8> {
    match parameter(modifiers) {
        Some(parameter) => format!("\x1b[{number};{parameter}~"),
        None => format!("\x1b[{number}~"),
    }
    .into_bytes()
}

fn function_key(n: u8, modifiers: KeyModifiers) -> Vec<u8> {
    let number = match n {
        1..=4 => {
            let end = char::from(b'P' + n - 1);
            return match parameter(modifiers) {
                Some(parameter) => format!("\x1b[1;{parameter}{end}").into_bytes(),
                None => format!("\x1bO{end}").into_bytes(),
            };
        }
        5 => 15,
        6..=10 => n + 11,
        11..=14 => n + 12,
        15 | 16 => n + 13,
        17..=20 => n + 14,
        _ => return Vec::new(),
    };
    tilde(number, modifiers)
}

/// Returns a paste for a terminal. Line ends become the key Enter, as every terminal does it; control
/// characters are dropped, so that a paste can neither end its own bracket nor press keys.
pub(super) fn paste(text: &str, modes: Modes) -> Paste {
    let mut clean = String::with_capacity(text.len());
    let mut after_return = false;
    for c in text.chars() {
        match c {
            // The second half of a line end that came as two characters.
            '\n' if after_return => {}
            '\r' | '\n' => clean.push('\r'),
            '\t' => clean.push('\t'),
            c if c.is_control() => {}
            c => clean.push(c),
        }
        after_return = c == '\r';
    }
    Paste { text: clean, bracketed: modes.bracketed_paste }
}

/// Something that the mouse did, in cells of the session's own screen, from 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mouse {
    pub(super) kind: MouseEventKind,
    pub(super) column: u16,
    pub(super) row: u16,
    pub(super) modifiers: KeyModifiers,
}

/// Returns the report of the mouse; `None` where the program did not ask for it, or where its
/// encoding cannot express the place.
pub(super) fn mouse(event: Mouse, modes: Modes) -> Option<Vec<u8>> {
    let button = |button| match button {
        MouseButton::Left => 0,
        MouseButton::Middle => 1,
        MouseButton::Right => 2,
    };
    let (code, released, needs) = match event.kind {
        MouseEventKind::Down(b) => (button(b), false, MouseMode::Press),
        MouseEventKind::ScrollUp => (64, false, MouseMode::Press),
        MouseEventKind::ScrollDown => (65, false, MouseMode::Press),
        MouseEventKind::ScrollLeft => (66, false, MouseMode::Press),
        MouseEventKind::ScrollRight => (67, false, MouseMode::Press),
        MouseEventKind::Up(b) => (button(b), true, MouseMode::PressRelease),
        MouseEventKind::Drag(b) => (button(b) + 32, false, MouseMode::ButtonMotion),
        MouseEventKind::Moved => (35, false, MouseMode::AnyMotion),
    };
    if rank(modes.mouse) < rank(needs) {
        return None;
    }
    let bit = |modifier, value| if event.modifiers.contains(modifier) { value } else { 0 };
    // The oldest mode reports no modifiers.
    let modifiers = if modes.mouse == MouseMode::Press {
        0
    } else {
        bit(KeyModifiers::SHIFT, 4) | bit(KeyModifiers::ALT, 8) | bit(KeyModifiers::CONTROL, 16)
    };
    let (column, row) = (u32::from(event.column) + 1, u32::from(event.row) + 1);
    match modes.mouse_encoding {
        MouseEncoding::Sgr => {
            let end = if released { 'm' } else { 'M' };
            Some(format!("\x1b[<{};{column};{row}{end}", code + modifiers).into_bytes())
        }
        MouseEncoding::Default | MouseEncoding::Utf8 => {
            let code = if released { 3 } else { code } + modifiers;
            let mut bytes = b"\x1b[M".to_vec();
            for value in [code, column, row] {
                let value = value + 32;
                if modes.mouse_encoding == MouseEncoding::Utf8 {
                    let c = char::from_u32(value).filter(|_| value <= 2047)?;
                    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                } else {
                    bytes.push(u8::try_from(value).ok()?);
                }
            }
            Some(bytes)
        }
    }
}

/// How much a mode reports; each one includes those before it.
const fn rank(mode: MouseMode) -> u8 {
    match mode {
        MouseMode::None => 0,
        MouseMode::Press => 1,
        MouseMode::PressRelease => 2,
        MouseMode::ButtonMotion => 3,
        MouseMode::AnyMotion => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::super::seam::Entered;
    use super::*;
    use crate::app::tui::fixtures::modes;

    const NONE: KeyModifiers = KeyModifiers::NONE;
    const CTRL: KeyModifiers = KeyModifiers::CONTROL;
    const ALT: KeyModifiers = KeyModifiers::ALT;
    const SHIFT: KeyModifiers = KeyModifiers::SHIFT;

    fn check(code: KeyCode, modifiers: KeyModifiers, expected: &[u8]) {
        let bytes = key(&KeyEvent::new(code, modifiers), modes());
        assert_eq!(
            bytes.escape_ascii().to_string(),
            expected.escape_ascii().to_string(),
            "{code:?} with {modifiers:?}"
        );
    }

    #[test]
    fn characters() {
        check(KeyCode::Char('a'), NONE, b"a");
        check(KeyCode::Char('A'), SHIFT, b"A");
        check(KeyCode::Char('界'), NONE, "界".as_bytes());
        check(KeyCode::Char('x'), ALT, b"\x1bx");
        check(KeyCode::Char('é'), ALT, "\x1bé".as_bytes());
    }

    #[test]
    fn control_characters() {
        for (c, byte) in (b'a'..=b'z').zip(1u8..) {
            check(KeyCode::Char(char::from(c)), CTRL, &[byte]);
        }
        for (c, byte) in [(' ', 0), ('@', 0), ('[', 27), ('\\', 28), (']', 29), ('^', 30), ('_', 31), ('?', 127)] {
            check(KeyCode::Char(c), CTRL, &[byte]);
        }
        for (c, byte) in ('4'..='7').zip(28u8..) {
            check(KeyCode::Char(c), CTRL, &[byte]);
        }
        check(KeyCode::Char('c'), CTRL | ALT, b"\x1b\x03");
        check(KeyCode::Char('1'), CTRL, b"1");
    }

    #[test]
    fn named_keys() {
        check(KeyCode::Enter, NONE, b"\r");
        check(KeyCode::Enter, ALT, b"\x1b\r");
        check(KeyCode::Tab, NONE, b"\t");
        check(KeyCode::BackTab, SHIFT, b"\x1b[Z");
        check(KeyCode::Tab, SHIFT, b"\x1b[Z");
        check(KeyCode::Backspace, NONE, b"\x7f");
        check(KeyCode::Backspace, ALT, b"\x1b\x7f");
        check(KeyCode::Backspace, CTRL, b"\x08");
        check(KeyCode::Esc, NONE, b"\x1b");
        check(KeyCode::Insert, NONE, b"\x1b[2~");
        check(KeyCode::Delete, CTRL, b"\x1b[3;5~");
        check(KeyCode::PageUp, NONE, b"\x1b[5~");
        check(KeyCode::PageDown, SHIFT, b"\x1b[6;2~");
        check(KeyCode::CapsLock, NONE, b"");
    }

    #[test]
    fn cursor_keys_follow_the_mode_unless_a_modifier_is_held() {
        let application = Modes { application_cursor: true, ..modes() };
        for (code, end) in [
            (KeyCode::Up, 'A'),
            (KeyCode::Down, 'B'),
            (KeyCode::Right, 'C'),
            (KeyCode::Left, 'D'),
            (KeyCode::End, 'F'),
            (KeyCode::Home, 'H'),
        ] {
            check(code, NONE, format!("\x1b[{end}").as_bytes());
            assert_eq!(key(&KeyEvent::new(code, NONE), application), format!("\x1bO{end}").as_bytes());
            for (modifiers, parameter) in [(SHIFT, 2), (ALT, 3), (CTRL, 5), (SHIFT | CTRL, 6), (ALT | CTRL, 7)] {
                let expected = format!("\x1b[1;{parameter}{end}");
                check(code, modifiers, expected.as_bytes());
                assert_eq!(key(&KeyEvent::new(code, modifiers), application), expected.as_bytes());
            }
        }
    }

    #[test]
    fn function_keys() {
        let expected = [
            "\x1bOP", "\x1bOQ", "\x1bOR", "\x1bOS", "\x1b[15~", "\x1b[17~", "\x1b[18~", "\x1b[19~", "\x1b[20~",
            "\x1b[21~", "\x1b[23~", "\x1b[24~", "\x1b[25~", "\x1b[26~", "\x1b[28~", "\x1b[29~", "\x1b[31~", "\x1b[32~",
            "\x1b[33~", "\x1b[34~",
        ];
        for (n, bytes) in (1u8..).zip(expected) {
            check(KeyCode::F(n), NONE, bytes.as_bytes());
        }
        check(KeyCode::F(1), SHIFT, b"\x1b[1;2P");
        check(KeyCode::F(5), CTRL, b"\x1b[15;5~");
        check(KeyCode::F(60), NONE, b"");
    }

    #[test]
    fn what_was_decoded_is_encoded_to_the_same_bytes() {
        for bytes in [
            "q",
            "Q",
            "é",
            "\x01",
            "\0",
            "\x1c",
            "\x1f",
            "\x1b",
            "\x1bb",
            "\r",
            "\t",
            "\x7f",
            "\x08",
            "\x1b[A",
            "\x1b[1;5D",
            "\x1b[Z",
            "\x1b[3~",
            "\x1b[6;2~",
            "\x1bOP",
            "\x1b[15;5~",
            "\x1b[24~",
            "\x1b[H",
        ] {
            let mut decoder = super::super::decode::Decoder::default();
            let mut events = decoder.feed(bytes.as_bytes());
            events.extend(decoder.flush());
            let [crossterm::event::Event::Key(event)] = &events[..] else { panic!("{bytes:?} gave {events:?}") };
            assert_eq!(key(event, modes()).escape_ascii().to_string(), bytes.as_bytes().escape_ascii().to_string());
        }
    }

    #[test]
    fn pastes() {
        let bracketed = Modes { bracketed_paste: true, ..modes() };
        for (text, plain) in [
            ("ls -l", "ls -l"),
            ("a\nb\r\nc\r", "a\rb\rc\r"),
            ("tab\there", "tab\there"),
            ("evil\x1b[201~rm -rf\x03\u{9b}x", "evil[201~rm -rfx"),
            ("界e\u{301}", "界e\u{301}"),
        ] {
            assert_eq!(String::from_utf8_lossy(&Entered::Paste(paste(text, modes())).bytes()), plain);
            assert_eq!(
                String::from_utf8_lossy(&Entered::Paste(paste(text, bracketed)).bytes()),
                format!("\x1b[200~{plain}\x1b[201~")
            );
        }
    }

    fn at(kind: MouseEventKind, column: u16, row: u16, modifiers: KeyModifiers) -> Mouse {
        Mouse { kind, column, row, modifiers }
    }

    #[test]
    fn the_mouse_is_reported_as_far_as_it_was_asked_for() {
        let down = MouseEventKind::Down(MouseButton::Left);
        let up = MouseEventKind::Up(MouseButton::Left);
        let drag = MouseEventKind::Drag(MouseButton::Left);
        for (mode, reported) in [
            (MouseMode::None, [false, false, false, false]),
            (MouseMode::Press, [true, false, false, false]),
            (MouseMode::PressRelease, [true, true, false, false]),
            (MouseMode::ButtonMotion, [true, true, true, false]),
            (MouseMode::AnyMotion, [true, true, true, true]),
        ] {
            let modes = Modes { mouse: mode, mouse_encoding: MouseEncoding::Sgr, ..modes() };
            let is = [down, up, drag, MouseEventKind::Moved].map(|kind| mouse(at(kind, 0, 0, NONE), modes).is_some());
            assert_eq!(is, reported, "{mode:?}");
        }
    }

    #[test]
    fn the_mouse_is_encoded_as_asked_for() {
        let down = MouseEventKind::Down(MouseButton::Right);
        let up = MouseEventKind::Up(MouseButton::Right);
        let wheel = MouseEventKind::ScrollDown;
        let with = |mouse_encoding| Modes { mouse: MouseMode::AnyMotion, mouse_encoding, ..modes() };
        for (encoding, event, expected) in [
            (MouseEncoding::Sgr, at(down, 299, 1, NONE), Some(&b"\x1b[<2;300;2M"[..])),
            (MouseEncoding::Sgr, at(up, 0, 0, CTRL), Some(b"\x1b[<18;1;1m")),
            (MouseEncoding::Sgr, at(wheel, 0, 0, NONE), Some(b"\x1b[<65;1;1M")),
            (MouseEncoding::Default, at(down, 0, 0, NONE), Some(b"\x1b[M\"!!")),
            (MouseEncoding::Default, at(up, 0, 0, SHIFT), Some(b"\x1b[M'!!")),
            (MouseEncoding::Default, at(down, 222, 0, NONE), Some(b"\x1b[M\"\xff!")),
            (MouseEncoding::Default, at(down, 223, 0, NONE), None),
            (MouseEncoding::Utf8, at(down, 223, 0, NONE), Some(b"\x1b[M\"\xc4\x80!")),
            (MouseEncoding::Utf8, at(down, 2015, 0, NONE), None),
        ] {
            assert_eq!(mouse(event, with(encoding)).as_deref(), expected, "{encoding:?} {event:?}");
        }
    }
}
