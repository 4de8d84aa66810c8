//! The command palette: every command of the panes with its key, and every session by its name. Pure.

use super::super::keymap::{Action, Context, action_name, is_offered};
use super::Model;
use super::field::Field;
use super::fuzzy::Fuzzy;

/// The palette.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Palette {
    /// What is looked for.
    pub line: Field,
    /// Which of the entries is selected, from 0.
    pub chosen: usize,
    /// First line that is shown.
    pub top: usize,
}

/// Something that the palette offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Does what a key does.
    Command {
        /// What.
        action: Action,
        /// Its keys.
        keys: String,
        /// What it does, in words.
        help: &'static str,
    },
    /// Selects a session.
    Session {
        /// Its id.
        session: String,
        /// Its name.
        name: String,
    },
}

impl Palette {
    /// Returns what matches, the best first, what begins with it before all others; all in their usual order where nothing is typed.
    pub fn entries(&self, model: &Model) -> Vec<Entry> {
        let rows = model.keys.in_context(Context::Panes).filter(|row| is_offered(row.action));
        let commands = rows.map(|binding| {
            let keys = binding.keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            (
                // The name that the configuration has for it is a word for it, too.
                format!("{} {} {}", action_name(binding.action), binding.label, binding.help),
                Entry::Command { action: binding.action, keys, help: binding.help },
            )
        });
        let sessions = model.sessions.rows().iter().map(|row| {
            let entry = Entry::Session { session: row.session.clone(), name: row.name.clone() };
            (format!("{} {}", row.name, row.kind.name()), entry)
        });
        let mut fuzzy = Fuzzy::new(self.line.text());
        let typed = self.line.text().to_lowercase();
        let scored = commands.chain(sessions).filter_map(|(text, entry)| {
            let score = fuzzy.score(&text)?;
            Some(((text.to_lowercase().starts_with(&typed), score), entry))
        });
        let mut scored: Vec<_> = scored.collect();
        scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        scored.into_iter().map(|(_, entry)| entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::fixtures::Bench;
    use super::super::super::keymap::action_names;
    use super::*;

    #[test]
    fn every_command_is_found_first_by_its_name() {
        let mut model = Bench::full(140, 40).model;
        model.sessions = super::super::Sessions::default();
        for (name, action) in action_names().iter().filter(|(_, action)| is_offered(*action)) {
            let palette = Palette { line: Field::of(name), ..Palette::default() };
            let first = palette.entries(&model).into_iter().next();
            assert!(
                matches!(first, Some(Entry::Command { action: found, .. }) if found == *action),
                "{name}: {first:?}"
            );
        }
    }
}
