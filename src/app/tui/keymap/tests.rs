#![expect(clippy::unwrap_used, reason = "tests")]

use crossterm::event::{KeyEvent, KeyModifiers};

use super::*;
use crate::app::config::Chord;

fn press(code: KeyCode, modifiers: KeyModifiers) -> KeyEvent {
    KeyEvent::new(code, modifiers)
}

#[test]
fn no_key_has_two_meanings() {
    for context in Context::ALL {
        let keys: Vec<Key> = in_context(context).flat_map(|binding| binding.keys.iter().copied()).collect();
        for (i, key) in keys.iter().enumerate() {
            assert!(!keys[i + 1..].contains(key), "{key} twice in {context:?}");
        }
    }
}

#[test]
fn every_action_is_reachable_without_modifiers() {
    for context in Context::ALL {
        let exempt = |action: Action| action == Action::Leave || (action == Action::Help && context.types());
        for binding in in_context(context).filter(|binding| !exempt(binding.action)) {
            let reachable = in_context(context)
                .filter(|other| other.action == binding.action)
                .any(|other| other.keys.iter().any(|key| key.is_plain()));
            assert!(reachable, "{:?} in {context:?}", binding.action);
        }
    }
}

#[test]
fn every_key_of_the_table_is_found() {
    for binding in BINDINGS {
        for context in binding.contexts {
            for key in binding.keys {
                let modifiers = if key.control { KeyModifiers::CONTROL } else { KeyModifiers::NONE };
                assert_eq!(
                    Keymap::default().lookup(*context, &press(key.code, modifiers)),
                    Some(binding.action),
                    "{key}"
                );
            }
        }
    }
}

#[test]
fn letters_match_by_character() {
    let shift = KeyModifiers::SHIFT;
    for (code, modifiers, action) in [
        (KeyCode::Char('x'), KeyModifiers::NONE, Some(Action::Stop)),
        (KeyCode::Char('X'), shift, Some(Action::Force)),
        (KeyCode::Char('X'), KeyModifiers::NONE, Some(Action::Force)),
        (KeyCode::Char('x'), shift, Some(Action::Force)),
        (KeyCode::Char('?'), shift, Some(Action::Help)),
        (KeyCode::Char('x'), KeyModifiers::ALT, None),
        (KeyCode::Char('x'), KeyModifiers::CONTROL, None),
        (KeyCode::Char('Z'), KeyModifiers::CONTROL, Some(Action::Suspend)),
        (KeyCode::Tab, shift, Some(Action::PreviousPane)),
        (KeyCode::BackTab, shift, Some(Action::PreviousPane)),
    ] {
        assert_eq!(Keymap::default().lookup(Panes, &press(code, modifiers)), action, "{code:?} {modifiers:?}");
    }
}

/// Enter that was typed before the screen had the terminal comes as Ctrl-J; where somebody bound that, it is theirs.
#[test]
fn a_line_feed_is_enter_where_it_is_nothing_else() {
    let feed = press(KeyCode::Char('j'), KeyModifiers::CONTROL);
    let enter = press(KeyCode::Enter, KeyModifiers::NONE);
    for context in Context::ALL {
        let keys = Keymap::default();
        assert_eq!(keys.lookup(context, &feed), keys.lookup(context, &enter), "{context:?}");
    }
    assert_eq!(Keymap::default().lookup(Panes, &feed), Some(Action::Focus));
    let wish = Wish { context: None, action: Action::Stop, keys: vec![Key::control('j')] };
    let keys = Keymap::configured(&[wish], Chord::default()).unwrap();
    assert_eq!(keys.lookup(Panes, &feed), Some(Action::Stop));
}

#[test]
fn help_and_labels_are_there() {
    for binding in BINDINGS {
        assert!(!binding.help.is_empty());
        assert!(binding.label.len() <= 16);
        assert!(!binding.contexts.is_empty());
    }
}

#[test]
fn the_default_chord_has_two_names() {
    let chord = Chord::default();
    assert!(is_chord(chord, &press(KeyCode::Char('\\'), KeyModifiers::CONTROL)));
    assert!(is_chord(chord, &press(KeyCode::Char('4'), KeyModifiers::CONTROL)));
    assert!(!is_chord(chord, &press(KeyCode::Char('\\'), KeyModifiers::NONE)));
    assert!(!is_chord(chord, &press(KeyCode::Char('4'), KeyModifiers::NONE)));
}

#[test]
fn every_chord_matches_its_own_press_and_has_a_name() {
    for (text, name) in [
        ("C-\\", "Ctrl-\\"),
        ("C-]", "Ctrl-]"),
        ("C-A", "Ctrl-A"),
        ("M-x", "Alt-x"),
        ("C-M-q", "Alt-Ctrl-Q"),
        ("F12", "F12"),
    ] {
        let chord: Chord = text.parse().unwrap();
        assert!(is_chord(chord, &press_of(chord)), "{text}");
        assert_eq!(name_of(chord), name);
    }
}
