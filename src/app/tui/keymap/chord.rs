//! The chord that leaves a session's terminal, as events and in words. Pure.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::Key;
use crate::app::config::{Chord, ChordKey};

/// Tells whether an event is the chord that leaves a session's terminal.
pub(in super::super) fn is_chord(chord: Chord, event: &KeyEvent) -> bool {
    let press = press_of(chord);
    let held = event.modifiers & (KeyModifiers::CONTROL | KeyModifiers::ALT);
    held == press.modifiers && canonical(event.code, held) == canonical(press.code, held)
}

/// Returns the chord as a key press, to be sent through.
pub(in super::super) fn press_of(chord: Chord) -> KeyEvent {
    let code = match chord.key {
        ChordKey::Char(c) => KeyCode::Char(c),
        ChordKey::Function(n) => KeyCode::F(n),
    };
    let mut modifiers = KeyModifiers::NONE;
    modifiers.set(KeyModifiers::CONTROL, chord.ctrl);
    modifiers.set(KeyModifiers::ALT, chord.alt);
    KeyEvent::new(code, modifiers)
}

/// Returns the chord as the footer and the help show it, for example `Ctrl-\`.
pub(in super::super) fn name_of(chord: Chord) -> String {
    let key = Key::chorded(press_of(chord).code, chord.ctrl);
    format!("{}{key}", if chord.alt { "Alt-" } else { "" })
}

/// The bytes 0x1c to 0x1f have two names each (crossterm calls Ctrl-\ Ctrl-4), letters with Ctrl two.
fn canonical(code: KeyCode, held: KeyModifiers) -> KeyCode {
    let KeyCode::Char(c) = code else { return code };
    if !held.contains(KeyModifiers::CONTROL) {
        return code;
    }
    KeyCode::Char(match c {
        '4' => '\\',
        '5' => ']',
        '6' => '^',
        '7' => '_',
        c => c.to_ascii_lowercase(),
    })
}
