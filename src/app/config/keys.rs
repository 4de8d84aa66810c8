//! Reads `[keys]`: which action is on which keys, in all modes or in one. Called by `parse`; what all files say
//! together is checked by [`keymap`] once they are merged. Pure.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use super::chord::Chord;
use super::error::{ConfigError, Problem};
use super::section::Item;
use crate::app::tui::keymap::{Context, Key, Keymap, NoKey, Wish, action_names, context_names};

static ACTIONS: LazyLock<Vec<&'static str>> = LazyLock::new(|| action_names().iter().map(|(name, _)| *name).collect());
static MODES: LazyLock<Vec<&'static str>> = LazyLock::new(|| context_names().iter().map(|(name, _)| *name).collect());

/// A wish, and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyLine {
    path: PathBuf,
    line: usize,
    wish: Wish,
}

/// Reads the section.
pub(super) fn keys(item: &Item<'_>, path: &Path) -> Result<Vec<KeyLine>, ConfigError> {
    let mut lines = Vec::new();
    for item in item.free_section()?.items() {
        if !item.is_table() {
            lines.push(line(&item, None, path)?);
            continue;
        }
        let mode = context_names().iter().find(|(name, _)| *name == item.key);
        let Some((_, context)) = mode else { return Err(item.unknown(&MODES)) };
        for item in item.free_section()?.items() {
            lines.push(line(&item, Some(*context), path)?);
        }
    }
    Ok(lines)
}

fn line(item: &Item<'_>, context: Option<Context>, path: &Path) -> Result<KeyLine, ConfigError> {
    if item.key == "leave" {
        return Err(item.bad_key("another action: what leaves a terminal is set by `escape` in [ui]"));
    }
    let action = action_names().iter().find(|(name, _)| *name == item.key);
    let Some((_, action)) = action else { return Err(item.unknown(&ACTIONS)) };
    let default = Keymap::default();
    if let Some(context) = context
        && !default.in_context(context).any(|row| row.action == *action)
    {
        return Err(item.bad_key("an action that the mode has; `cookbook-tui keys` lists them"));
    }
    let key =
        |item: &Item<'_>| item.string()?.parse::<Key>().map_err(|expected: NoKey| item.expected(&expected.to_string()));
    let keys: Result<Vec<Key>, ConfigError> = if item.is_string() {
        key(item).map(|key| vec![key])
    } else {
        item.list("a key or a list of keys")?.iter().map(key).collect()
    };
    let wish = Wish { context, action: *action, keys: keys? };
    Ok(KeyLine { path: path.to_owned(), line: item.line, wish })
}

/// Returns the keymap that all files make together.
pub(super) fn keymap(lines: &[KeyLine], escape: Chord) -> Result<Keymap, ConfigError> {
    let wishes: Vec<Wish> = lines.iter().map(|line| line.wish.clone()).collect();
    Keymap::configured(&wishes, escape).map_err(|clash| {
        let KeyLine { path, line, .. } = lines[clash.wish].clone();
        ConfigError::At { path, line, problem: Box::new(Problem::Keys { problem: clash.problem }) }
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::parse::{Origin, parse};
    use super::super::recipe::Source;
    use super::*;
    use crate::app::tui::keymap::{Action, table_text};

    fn read(text: &str) -> Result<Keymap, String> {
        let path = Path::new("c.toml");
        let origin = Origin { path, dir: Path::new("/"), home: None, source: Source::User };
        let layer = parse(text, &origin).map_err(|error| error.to_string())?;
        keymap(&layer.keys, layer.escape.unwrap_or_default()).map_err(|error| error.to_string())
    }

    fn of(keymap: &Keymap, context: Context, action: Action) -> Vec<String> {
        let rows = keymap.in_context(context).filter(|row| row.action == action);
        rows.flat_map(|row| row.keys.iter().map(|key| key.spelled())).collect()
    }

    #[test]
    fn keys_are_set_for_all_modes_or_for_one() {
        let keymap = read("[keys]\nup = [\"p\", \"Up\"]\nclose = \"Esc\"\n[keys.history]\nup = \"i\"\n").unwrap();
        assert_eq!(of(&keymap, Context::Panes, Action::Up), ["p", "Up"]);
        assert_eq!(of(&keymap, Context::Reader, Action::Up), ["p", "Up"]);
        assert_eq!(of(&keymap, Context::History, Action::Up), ["i"]);
        // A mode where text is typed has keys of its own, and both rows of an action become one.
        assert_eq!(of(&keymap, Context::Filter, Action::Up), ["Up", "C-p"]);
        assert_eq!(of(&keymap, Context::Quit, Action::Close), ["Esc"]);
        assert_eq!(of(&Keymap::default(), Context::Quit, Action::Close), ["Esc", "C-c", "q", "n"]);
    }

    #[test]
    fn what_the_palette_offers_can_go_without() {
        let keymap = read("[keys]\nforce = []\n").unwrap();
        assert_eq!(of(&keymap, Context::Panes, Action::Force), [""; 0]);
        assert_eq!(keymap.shown(Context::Panes, Action::Force), ":");
    }

    #[test]
    fn wrong_keys_name_file_line_key_and_the_way_out() {
        for (text, expected) in [
            ("[keys]\nstopp = \"x\"", "c.toml:2: unknown key `stopp` in [keys]; did you mean `stop`?"),
            ("[keys.histry]\nup = \"x\"", "c.toml:1: unknown key `histry` in [keys]; did you mean `history`?"),
            (
                "[keys.history]\nstop = \"x\"",
                "c.toml:2: `stop` in `history` of [keys] must be an action that the mode has",
            ),
            ("[keys]\nleave = \"x\"", "set by `escape` in [ui]"),
            ("[keys]\n\nstop = \"M-x\"", "c.toml:3: `stop` in [keys] must be a key: one character"),
            ("[keys]\nstop = [\"x\", 3]", "c.toml:2: `stop[1]` in [keys] must be a string, found an integer"),
            ("[keys]\nstop = true", "must be a key or a list of keys, found a boolean"),
            ("[keys]\nstop = \"s\"", "c.toml:2: `start` and `stop` are both on `s` in the mode sessions; give one"),
            ("[keys]\nstop = \"Q\"\nsweep = \"Q\"", "c.toml:3: `stop` and `sweep` are both on `Q`"),
            ("[keys]\nstop = \"F5\"\n[ui]\nescape = \"F5\"", "c.toml:2: `stop` and `leave` are both on `F5`"),
            ("[keys]\npalette = []", "c.toml:2: `palette` in the mode sessions must keep a key"),
            ("[keys]\nquit = []", "c.toml:2: `quit` in the mode sessions must keep a key"),
            ("[keys]\nup = []", "must keep a key"),
            ("[keys.preview]\nconfirm = []", "`confirm` in the mode preview must keep a key"),
            ("[keys.filter]\nup = \"k\"", "`up` in the mode filter cannot be on `k`, which is typed there"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn the_printed_table_can_be_pasted_whole_and_changes_nothing() {
        let escape = Chord::default();
        let text = table_text(&Keymap::default(), escape);
        let read = read(&text).unwrap();
        assert_eq!(table_text(&read, escape), text);
        for (name, _) in action_names() {
            assert!(text.contains(&format!("\n{name} = ")), "{name} is not printed");
        }
    }
}
