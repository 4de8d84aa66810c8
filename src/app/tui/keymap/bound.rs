//! The table of bindings with what a person has configured. Pure.

use std::collections::BTreeMap;

use crossterm::event::{KeyCode, KeyEvent};

use super::names::{context_name, name_of};
use super::{Action, Context, Key, in_context, name_of as chord_name};
use crate::app::config::Chord;

/// One action in one mode, with its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// What the keys do.
    pub action: Action,
    /// Which keys; empty for the chord, and for what was unbound.
    pub keys: Vec<Key>,
    /// The word in the footer; empty keeps it out of there.
    pub label: &'static str,
    /// The sentence in the help.
    pub help: &'static str,
}

/// One entry of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The mode; without it every one that has the action and in which no text is typed.
    pub context: Option<Context>,
    /// The action.
    pub action: Action,
    /// Its keys from now on.
    pub keys: Vec<Key>,
}

/// Why wishes cannot be granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clash {
    /// Which of the wishes, by its position.
    pub wish: usize,
    /// What is wrong with it, and the way out.
    pub problem: String,
}

/// What each key does in each mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keymap {
    modes: BTreeMap<Context, Vec<Bound>>,
}

impl Default for Keymap {
    fn default() -> Self {
        let rows = |context| {
            let row = |binding: &super::Binding| Bound {
                action: binding.action,
                keys: binding.keys.to_vec(),
                label: binding.label,
                help: binding.help,
            };
            (context, in_context(context).map(row).collect())
        };
        Self { modes: Context::ALL.into_iter().map(rows).collect() }
    }
}

impl Keymap {
    /// Returns the keymap with wishes granted, later over earlier; a mode's own wish goes over one for all modes.
    ///
    /// # Errors
    /// Where two actions of a mode have one key, where an action could not be reached any more, or where a key is
    /// needed for typing. `escape` is the chord that leaves a terminal.
    pub fn configured(wishes: &[Wish], escape: Chord) -> Result<Self, Clash> {
        let mut keymap = Self::default();
        let mut granted: BTreeMap<(Context, Action), usize> = BTreeMap::new();
        let general = wishes.iter().enumerate().filter(|(_, wish)| wish.context.is_none());
        let special = wishes.iter().enumerate().filter(|(_, wish)| wish.context.is_some());
        for (index, wish) in general.chain(special) {
            for context in wish.modes() {
                keymap.grant(context, wish, index)?;
                granted.insert((context, wish.action), index);
            }
        }
        let by = |context, action| granted.get(&(context, action)).copied();
        for (context, rows) in &keymap.modes {
            for (at, row) in rows.iter().enumerate() {
                for key in &row.keys {
                    let others = rows[at + 1..].iter().filter(|other| other.action != row.action);
                    let Some(other) = others.into_iter().find(|other| other.keys.contains(key)) else { continue };
                    let wishes = [by(*context, row.action), by(*context, other.action)];
                    let Some(wish) = wishes.into_iter().flatten().max() else { continue };
                    return Err(clash(wish, *key, *context, row.action, other.action));
                }
                let leaves = |key: &&Key| row.action != Action::Leave && key.to_string() == chord_name(escape);
                if let (Context::Panes, Some(key), Some(wish)) =
                    (context, row.keys.iter().find(leaves), by(*context, row.action))
                {
                    return Err(clash(wish, *key, *context, row.action, Action::Leave));
                }
            }
        }
        Ok(keymap)
    }

    /// Gives an action the keys of a wish. A second row of the same action in the mode has none any more.
    fn grant(&mut self, context: Context, wish: &Wish, index: usize) -> Result<(), Clash> {
        let (action, mode) = (name_of(wish.action), context_name(context));
        let problem = |problem: String| Clash { wish: index, problem };
        let offered = wish.action == Action::Help || (context == Context::Panes && is_offered(wish.action));
        if wish.keys.is_empty() && (!offered || wish.action == Action::Quit) {
            return Err(problem(format!(
                "`{action}` in the mode {mode} must keep a key: only what the command palette offers can go without, \
                 and quit cannot"
            )));
        }
        // What the mode has bound itself is not typed there: the arrows of the launch form.
        let own = Self::default();
        let bound = |key: &Key| own.in_context(context).any(|row| row.keys.contains(key));
        if let Some(key) = wish.keys.iter().find(|key| context.types() && key.is_text() && !bound(key)) {
            return Err(problem(format!(
                "`{action}` in the mode {mode} cannot be on `{}`, which is typed there; take a key such as Up, Tab or C-n",
                key.spelled()
            )));
        }
        let rows = self.modes.entry(context).or_default();
        let mut first = true;
        rows.retain_mut(|row| {
            if row.action != wish.action {
                return true;
            }
            row.keys.clone_from(&wish.keys);
            std::mem::take(&mut first)
        });
        Ok(())
    }

    /// Returns what a key does in a mode.
    pub fn lookup(&self, context: Context, event: &KeyEvent) -> Option<Action> {
        let action = |key| self.in_context(context).find(|row| row.keys.contains(&key)).map(|row| row.action);
        let key = Key::of(event)?;
        // Enter that is typed before the terminal is ours comes as a line feed (ICRNL of termios(3)).
        action(key).or_else(|| action(Key::plain(KeyCode::Enter)).filter(|_| key == Key::control('j')))
    }

    /// Returns the rows of a mode, in order.
    pub fn in_context(&self, context: Context) -> impl Iterator<Item = &Bound> {
        self.modes.get(&context).into_iter().flatten()
    }

    /// Returns the first key of an action, as it is shown; of what has none, the way by the palette.
    pub fn shown(&self, context: Context, action: Action) -> String {
        let key_of = |action| {
            let mut rows = self.in_context(context).filter(|row| row.action == action);
            rows.find_map(|row| row.keys.first())
        };
        key_of(action).or_else(|| key_of(Action::Palette)).map_or_else(String::new, ToString::to_string)
    }
}

impl Wish {
    fn modes(&self) -> Vec<Context> {
        let has = |context: &Context| in_context(*context).any(|binding| binding.action == self.action);
        if let Some(context) = self.context {
            return vec![context];
        }
        let (typing, others): (Vec<_>, Vec<_>) =
            Context::ALL.into_iter().filter(has).partition(|context| context.types());
        if others.is_empty() { typing } else { others }
    }
}

/// Tells whether the palette offers an action.
pub(in super::super) fn is_offered(action: Action) -> bool {
    let has = in_context(Context::Panes).any(|binding| binding.action == action);
    has && !action.moves() && !matches!(action, Action::Leave | Action::Palette)
}

fn clash(wish: usize, key: Key, context: Context, one: Action, other: Action) -> Clash {
    let (key, mode) = (key.spelled(), context_name(context));
    let (one, other) = (name_of(one), name_of(other));
    let problem = format!("`{one}` and `{other}` are both on `{key}` in the mode {mode}; give one of them another key");
    Clash { wish, problem }
}
