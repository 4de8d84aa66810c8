//! The help as it is read: the place it was opened at, and a filter. Pure.

use super::super::keymap::{Action, Context};
use super::Pane;
use super::field::Field;

/// The help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Help {
    /// What the keys went to before: its keys come first.
    pub at: Context,
    /// The pane that had them.
    pub pane: Pane,
    /// What is looked for.
    pub line: Field,
    /// The line has the keys.
    pub typing: bool,
    /// First line that is shown.
    pub scroll: usize,
}

impl Help {
    /// Returns the help at a place.
    pub(in super::super) fn at(at: Context, pane: Pane) -> Self {
        Self { at, pane, line: Field::default(), typing: false, scroll: 0 }
    }

    /// Returns the name of the place.
    pub fn place(&self) -> &'static str {
        match (self.at, self.pane) {
            (Context::Panes, Pane::Screen) => "Terminal",
            (Context::Panes, Pane::Tree) => "Processes",
            (at, _) => at.heading(),
        }
    }

    /// Tells whether an action of a context is one of the place.
    pub fn is_here(&self, context: Context, action: Action) -> bool {
        context == self.at
            && match (self.at, self.pane) {
                (Context::Panes, Pane::Screen) => of_the_screen(action),
                (Context::Panes, Pane::Tree) => of_the_tree(action),
                _ => true,
            }
    }

    /// Returns the words that are looked for.
    pub fn words(&self) -> Vec<&str> {
        self.line.text().split_whitespace().collect()
    }
}

/// Tells whether one line of the help has every word. A word of one character is a key.
pub(in super::super) fn has_words(words: &[&str], keys: &[String], text: &str) -> bool {
    let text = text.to_lowercase();
    words.iter().all(|word| {
        let is_key = word.chars().nth(1).is_none();
        if is_key { keys.iter().any(|key| key == word) } else { text.contains(&word.to_lowercase()) }
    })
}

const fn of_the_screen(action: Action) -> bool {
    action.moves()
        || matches!(
            action,
            Action::Focus
                | Action::Leave
                | Action::LookBack
                | Action::Find
                | Action::Broadcast
                | Action::Zoom
                | Action::Copy
        )
}

const fn of_the_tree(action: Action) -> bool {
    action.moves() || matches!(action, Action::Why | Action::Tree | Action::Zoom | Action::Copy | Action::Stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_any_order_and_one_character_is_a_key() {
        let keys = ["x".to_owned(), "Del".to_owned()];
        for (words, expected) in [
            ("", true),
            ("x", true),
            ("X", false),
            ("s", false),
            ("stop", true),
            ("Session STOP", true),
            ("del", true),
            ("x stop", true),
            ("stop nothing", false),
        ] {
            let words: Vec<&str> = words.split_whitespace().collect();
            assert_eq!(has_words(&words, &keys, "Sessions x Del stop the session"), expected, "{words:?}");
        }
    }
}
