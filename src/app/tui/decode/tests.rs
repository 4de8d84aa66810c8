use proptest::prelude::*;

use crate::text::noise::{cases, damaged, pieces};

use super::*;

fn decode(bytes: &[u8]) -> Vec<Event> {
    let mut decoder = Decoder::default();
    let mut events = decoder.feed(bytes);
    events.extend(decoder.flush());
    assert!(!decoder.is_undecided(), "{bytes:?}");
    events
}

fn check(bytes: &[u8], code: KeyCode, modifiers: KeyModifiers) {
    assert_eq!(decode(bytes), [Event::Key(KeyEvent::new(code, modifiers))], "{:?}", bytes.escape_ascii().to_string());
}

const NONE: KeyModifiers = KeyModifiers::NONE;
const CTRL: KeyModifiers = KeyModifiers::CONTROL;
const ALT: KeyModifiers = KeyModifiers::ALT;
const SHIFT: KeyModifiers = KeyModifiers::SHIFT;

#[test]
fn characters() {
    check(b"a", KeyCode::Char('a'), NONE);
    check(b"X", KeyCode::Char('X'), SHIFT);
    check("é".as_bytes(), KeyCode::Char('é'), NONE);
    check("界".as_bytes(), KeyCode::Char('界'), NONE);
    check("😀".as_bytes(), KeyCode::Char('😀'), NONE);
    check(b"\x1bx", KeyCode::Char('x'), ALT);
    check("\x1bé".as_bytes(), KeyCode::Char('é'), ALT);
}

#[test]
fn control_characters() {
    check(b"\x00", KeyCode::Char(' '), CTRL);
    check(b"\x03", KeyCode::Char('c'), CTRL);
    check(b"\x08", KeyCode::Char('h'), CTRL);
    check(b"\n", KeyCode::Char('j'), CTRL);
    check(b"\x1a", KeyCode::Char('z'), CTRL);
    check(b"\x1c", KeyCode::Char('\\'), CTRL);
    check(b"\x1d", KeyCode::Char(']'), CTRL);
    check(b"\x1e", KeyCode::Char('^'), CTRL);
    check(b"\x1f", KeyCode::Char('_'), CTRL);
    check(b"\r", KeyCode::Enter, NONE);
    check(b"\t", KeyCode::Tab, NONE);
    check(b"\x7f", KeyCode::Backspace, NONE);
    check(b"\x1b\x7f", KeyCode::Backspace, ALT);
    check(b"\x1b\r", KeyCode::Enter, ALT);
    check(b"\x1b", KeyCode::Esc, NONE);
}

#[test]
fn sequences() {
    check(b"\x1b[A", KeyCode::Up, NONE);
    check(b"\x1bOA", KeyCode::Up, NONE);
    check(b"\x1b[1;5C", KeyCode::Right, CTRL);
    check(b"\x1b[1;4D", KeyCode::Left, SHIFT | ALT);
    check(b"\x1b[H", KeyCode::Home, NONE);
    check(b"\x1b[4~", KeyCode::End, NONE);
    check(b"\x1b[3;5~", KeyCode::Delete, CTRL);
    check(b"\x1b[5~", KeyCode::PageUp, NONE);
    check(b"\x1b[Z", KeyCode::BackTab, SHIFT);
    check(b"\x1bOP", KeyCode::F(1), NONE);
    check(b"\x1b[[B", KeyCode::F(2), NONE);
    check(b"\x1b[15~", KeyCode::F(5), NONE);
    check(b"\x1b[24;2~", KeyCode::F(12), SHIFT);
    check(b"\x1bOM", KeyCode::Enter, NONE);
    check(b"\x1bOp", KeyCode::Char('0'), NONE);
    check(b"\x1b[27;5;13~", KeyCode::Enter, CTRL);
    check(b"\x1b[97;3u", KeyCode::Char('a'), ALT);
}

#[test]
fn two_escapes_are_a_key_and_the_start_of_something() {
    assert_eq!(decode(b"\x1b\x1b").len(), 2);
    let events = decode(b"\x1b\x1b[A");
    assert_eq!(events[1], Event::Key(KeyEvent::new(KeyCode::Up, NONE)));
}

#[test]
fn unknown_and_broken_sequences_are_swallowed_whole() {
    for bytes in [&b"\x1b[?1;2c"[..], b"\x1b[99~", b"\x1b[200;", b"\xff", b"\xc3", b"\xe7\x95", b"\x1b[<0;1M"] {
        assert_eq!(decode(bytes), [], "{:?}", bytes.escape_ascii().to_string());
    }
    // A cut sequence does not take the next key with it.
    assert_eq!(decode(b"\x1b[1;\x03"), [Event::Key(KeyEvent::new(KeyCode::Char('c'), CTRL))]);
    assert_eq!(decode(b"\xc3a"), [Event::Key(KeyEvent::new(KeyCode::Char('a'), NONE))]);
}

#[test]
fn the_background_is_heard_and_no_key_is_lost() {
    let key = |c| Event::Key(KeyEvent::new(KeyCode::Char(c), NONE));
    let bytes = b"a\x1b]11;rgb:ffff/8080/0000\x1b\\b";
    for cut in 0..bytes.len() {
        let mut decoder = Decoder::new(true);
        let mut events = decoder.feed(&bytes[..cut]);
        // However slowly the rest comes; of ESC alone nobody can tell.
        if !bytes[..cut].ends_with(b"\x1b") {
            events.extend(decoder.flush());
        }
        events.extend(decoder.feed(&bytes[cut..]));
        assert_eq!(events, [key('a'), key('b')], "cut at {cut}");
        assert_eq!(decoder.take_background(), Some([255, 128, 0]), "cut at {cut}");
    }
    // A rest that never comes takes nothing with it.
    let mut decoder = Decoder::new(true);
    decoder.feed(b"\x1b]11;rgb:ff");
    assert_eq!(decoder.feed(b"q"), [key('q')]);
    decoder.feed(b"\x1b]11;rgb:ff");
    (0..ANSWER).for_each(|_| drop(decoder.flush()));
    assert!(!decoder.is_undecided());
    // Alt-] is a key all the same.
    decoder.feed(b"\x1b]");
    let events: Vec<Event> = (0..MAYBE).flat_map(|_| decoder.flush()).collect();
    assert_eq!(events, [Event::Key(KeyEvent::new(KeyCode::Char(']'), ALT))]);
}

#[test]
fn the_keyboard_is_heard_and_no_key_is_lost() {
    let key = |c| Event::Key(KeyEvent::new(KeyCode::Char(c), NONE));
    let bytes = b"a\x1b[?0ub";
    for cut in 0..bytes.len() {
        let mut decoder = Decoder::new(false);
        let mut events = decoder.feed(&bytes[..cut]);
        if !bytes[..cut].ends_with(b"\x1b") {
            events.extend(decoder.flush());
        }
        events.extend(decoder.feed(&bytes[cut..]));
        assert_eq!(events, [key('a'), key('b')], "cut at {cut}");
        assert!(decoder.take_keyboard() && !decoder.take_keyboard(), "cut at {cut}");
    }
    // A rest that never comes takes nothing with it.
    let mut decoder = Decoder::new(false);
    decoder.feed(b"\x1b[?1");
    (0..ANSWER).for_each(|_| drop(decoder.flush()));
    assert!(!decoder.is_undecided() && !decoder.take_keyboard());
    // Alt-[ is a key all the same; where no answer comes, it waits once.
    let alt = [Event::Key(KeyEvent::new(KeyCode::Char('['), ALT))];
    decoder.feed(b"\x1b[");
    let events: Vec<Event> = (0..MAYBE).flat_map(|_| decoder.flush()).collect();
    assert_eq!(events, alt);
    decoder.feed(b"\x1b[");
    assert_eq!(decoder.flush(), alt);
    // Other answers are none.
    let mut decoder = Decoder::new(false);
    assert_eq!(decoder.feed(b"\x1b[?62;22c\x1b[?1u"), []);
    assert!(decoder.take_keyboard());
}

#[test]
fn the_mouse() {
    let at = |kind, column, row, modifiers| Event::Mouse(MouseEvent { kind, column, row, modifiers });
    let left = MouseButton::Left;
    for (bytes, event) in [
        (&b"\x1b[<0;1;1M"[..], at(MouseEventKind::Down(left), 0, 0, NONE)),
        (b"\x1b[<0;300;70m", at(MouseEventKind::Up(left), 299, 69, NONE)),
        (b"\x1b[<34;5;6M", at(MouseEventKind::Drag(MouseButton::Right), 4, 5, NONE)),
        (b"\x1b[<35;5;6M", at(MouseEventKind::Moved, 4, 5, NONE)),
        (b"\x1b[<64;5;6M", at(MouseEventKind::ScrollUp, 4, 5, NONE)),
        (b"\x1b[<81;5;6M", at(MouseEventKind::ScrollDown, 4, 5, CTRL)),
        (b"\x1b[M !!", at(MouseEventKind::Down(left), 0, 0, NONE)),
        (b"\x1b[M#!!", at(MouseEventKind::Up(left), 0, 0, NONE)),
    ] {
        assert_eq!(decode(bytes), [event], "{:?}", bytes.escape_ascii().to_string());
    }
}

#[test]
fn pastes_come_whole_whatever_is_in_them() {
    let text = "one\ntwo \x1b[A 界 q";
    let bytes = format!("a\x1b[200~{text}\x1b[201~b").into_bytes();
    let expected = [
        Event::Key(KeyEvent::new(KeyCode::Char('a'), NONE)),
        Event::Paste(text.to_owned()),
        Event::Key(KeyEvent::new(KeyCode::Char('b'), NONE)),
    ];
    assert_eq!(decode(&bytes), expected);
    for cut in 0..bytes.len() {
        let mut decoder = Decoder::default();
        let mut events = decoder.feed(&bytes[..cut]);
        events.extend(decoder.feed(&bytes[cut..]));
        assert_eq!(events, expected, "cut at {cut}");
    }
}

#[test]
fn a_split_anywhere_changes_nothing() {
    let bytes = "a\x1b[1;5Cé\x1b[<0;12;7M界\x1bOPz".as_bytes();
    let whole = decode(bytes);
    assert_eq!(whole.len(), 7);
    for cut in 0..bytes.len() {
        let mut decoder = Decoder::default();
        let mut events = decoder.feed(&bytes[..cut]);
        events.extend(decoder.feed(&bytes[cut..]));
        assert_eq!(events, whole, "cut at {cut}");
    }
}

#[test]
fn noise_neither_panics_nor_grows() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut decoder = Decoder::default();
    for _ in 0..20_000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let bytes = state.to_le_bytes();
        decoder.feed(&bytes[..(state % 8) as usize]);
        if state.is_multiple_of(5) {
            decoder.flush();
        }
        if decoder.paste.is_some() {
            decoder.feed(PASTE_END);
        }
        assert!(decoder.pending.len() <= SEQUENCE_LIMIT + 16);
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn no_cuts_matter(
        asked in any::<bool>(),
        bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..120),
            proptest::collection::vec(prop::sample::select(b"\x1b[O<?;:0129mMA~u\xc3\xa9\xe7\x95".to_vec()), 0..60),
            damaged(b"\x1b[?1u\x1b[13;2ux\x1b[1089:1057:99;6:2u\x1b[57414;129uq\x1b[9;1:3u".to_vec()),
            damaged("a\x1b[1;5Cé\x1b[<0;12;7M界\x1bOPz\x1b[200~pa\x1b[20ste\x1b[201~q".as_bytes().to_vec()),
        ],
        lengths in proptest::collection::vec(0_usize..9, 0..30),
    ) {
        let new = || if asked { Decoder::new(true) } else { Decoder::default() };
        let mut whole = new();
        let mut expected = whole.feed(&bytes);
        let mut decoder = new();
        let mut events: Vec<Event> =
            pieces(&bytes, &lengths).into_iter().flat_map(|piece| decoder.feed(piece)).collect();
        prop_assert_eq!(&events, &expected);
        prop_assert_eq!(decoder.is_undecided(), whole.is_undecided());
        for _ in 0..=ANSWER {
            expected.extend(whole.flush());
            events.extend(decoder.flush());
        }
        prop_assert_eq!(events, expected);
        prop_assert_eq!(decoder.take_keyboard(), whole.take_keyboard());
        prop_assert!(!decoder.is_undecided(), "nothing is held back for ever");
    }
}
