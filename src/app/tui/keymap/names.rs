//! The names of actions and modes in the configuration, and the whole table in its form. Pure.

use std::fmt::Write as _;
use std::sync::LazyLock;

use serde_json::{Value, json};

use super::{Action, BINDINGS, Context, Keymap};
use crate::app::config::Chord;

impl Context {
    /// Tells whether a text is typed in the mode.
    pub const fn types(self) -> bool {
        match self {
            Self::Line | Self::Ask | Self::Filter | Self::Palette | Self::Search | Self::Form => true,
            Self::Panes
            | Self::Terminal
            | Self::Preview
            | Self::Reader
            | Self::Help
            | Self::Events
            | Self::Menu
            | Self::History
            | Self::Picker
            | Self::Error
            | Self::Quit => false,
        }
    }
}

/// Returns the name of a mode.
pub(super) const fn context_name(context: Context) -> &'static str {
    match context {
        Context::Panes => "sessions",
        Context::Terminal => "terminal",
        Context::Preview => "preview",
        Context::Reader => "reader",
        Context::Help => "help",
        Context::Events => "events",
        Context::Menu => "start-menu",
        Context::Line => "command-line",
        Context::Ask => "duration",
        Context::Filter => "filter",
        Context::Palette => "commands",
        Context::History => "history",
        Context::Search => "search",
        Context::Form => "launch-form",
        Context::Picker => "tmux-sessions",
        Context::Error => "error",
        Context::Quit => "quitting",
    }
}

/// The modes whose keys can be configured: in a terminal there is the chord only, which `[ui] escape` sets.
static CONTEXTS: LazyLock<Vec<(&'static str, Context)>> = LazyLock::new(|| {
    let own = Context::ALL.into_iter().filter(|context| *context != Context::Terminal);
    own.map(|context| (context_name(context), context)).collect()
});

/// The actions whose keys can be configured: their names are those of the type, in words.
static ACTIONS: LazyLock<Vec<(&'static str, Action)>> = LazyLock::new(|| {
    let mut actions: Vec<Action> = BINDINGS.iter().map(|binding| binding.action).collect();
    actions.sort_unstable();
    actions.dedup();
    let named = actions.into_iter().filter(|action| *action != Action::Leave);
    named.map(|action| (&*kebab(&format!("{action:?}")).leak(), action)).collect()
});

fn kebab(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    for (index, c) in name.char_indices() {
        if index > 0 && c.is_ascii_uppercase() {
            text.push('-');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}

/// Returns the names of all actions, with the actions.
pub fn action_names() -> &'static [(&'static str, Action)] {
    &ACTIONS
}

/// Returns the names of all modes, with the modes.
pub fn context_names() -> &'static [(&'static str, Context)] {
    &CONTEXTS
}

/// Returns the name of an action.
pub(in super::super) fn name_of(action: Action) -> &'static str {
    ACTIONS.iter().find(|(_, other)| *other == action).map_or("leave", |(name, _)| name)
}

/// Returns the actions of a mode, each with its keys as the configuration has them, and its help.
fn rows(keymap: &Keymap, context: Context) -> Vec<(&'static str, Vec<String>, &'static str)> {
    let mut rows: Vec<(&'static str, Vec<String>, &'static str)> = Vec::new();
    for row in keymap.in_context(context).filter(|row| row.action != Action::Leave) {
        let keys = row.keys.iter().map(|key| key.spelled());
        match rows.iter_mut().find(|(name, ..)| *name == name_of(row.action)) {
            Some((_, all, _)) => all.extend(keys),
            None => rows.push((name_of(row.action), keys.collect(), row.help)),
        }
    }
    rows
}

/// Returns the table as the configuration takes it.
pub fn table_text(keymap: &Keymap, escape: Chord) -> String {
    let mut text =
        String::from("# Paste what you want to change. [keys] action = \"key\" without a mode holds for every mode\n");
    text.push_str(
        "# that has the action and where no text is typed. An empty list leaves an action to the palette.\n\n",
    );
    writeln!(text, "[ui]\nescape = {}  # leaves a session's terminal", quoted(&escape.to_string())).ok();
    for (name, context) in context_names() {
        writeln!(text, "\n[keys.{name}]  # {}", context.heading()).ok();
        for (action, keys, help) in rows(keymap, *context) {
            let keys: Vec<String> = keys.iter().map(|key| quoted(key)).collect();
            let keys = if keys.len() == 1 { keys.concat() } else { format!("[{}]", keys.join(", ")) };
            writeln!(text, "{:<44}  # {help}", format!("{action} = {keys}")).ok();
        }
    }
    text
}

/// A key needs no other escape than this.
fn quoted(key: &str) -> String {
    format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns the table for programs.
pub fn table_value(keymap: &Keymap, escape: Chord) -> Value {
    let mode = |(name, context): &(&'static str, Context)| {
        rows(keymap, *context)
            .into_iter()
            .map(|(action, keys, help)| json!({ "mode": name, "action": action, "keys": keys, "help": help }))
            .collect::<Vec<Value>>()
    };
    json!({ "escape": escape.to_string(), "keys": context_names().iter().flat_map(mode).collect::<Vec<Value>>() })
}
