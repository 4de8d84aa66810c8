//! The merged configuration.
//!
//! Made by `load`, read everywhere above. Pure data and look-ups by name.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::chord::Chord;
use super::colour::Colours;
use super::keys::KeyLine;
use super::recipe::{Recipe, RecipeRow};
use crate::app::phase::Clue;
use crate::app::tui::keymap::Keymap;

/// Everything that was configured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// What can be launched: the built-in recipes whose program exists, then the user's; no name twice.
    pub recipes: Vec<Recipe>,
    /// `[tmux]`.
    pub tmux: TmuxConfig,
    /// `[cookbook]`.
    pub cookbook: CookbookConfig,
    /// `[containment] cgroup`: each session gets a cgroup of its own where the host grants one.
    pub cgroup: bool,
    /// `[ui]`.
    pub ui: UiConfig,
    /// What the files say in `[keys]`, earlier files first.
    pub(super) key_lines: Vec<KeyLine>,
    /// `[[machine]]`; no name twice.
    pub machines: Vec<Machine>,
    /// `[[pattern]]`: what replaces or extends the table of patterns; no name twice.
    pub patterns: Vec<Clue>,
    /// The files that were used, earlier first.
    pub sources: Vec<PathBuf>,
    /// The file of the directory, where it is not trusted and hence was not used.
    pub untrusted: Option<Untrusted>,
    /// What a person should know: files that were passed over, names that lead nowhere.
    pub notes: Vec<String>,
}

impl Config {
    /// Returns the recipe of a name.
    pub fn recipe(&self, name: &str) -> Option<&Recipe> {
        self.recipes.iter().find(|recipe| recipe.name == name)
    }

    /// Returns the same with other recipes.
    #[must_use]
    pub fn with_recipes(&self, recipes: Vec<Recipe>) -> Self {
        Self { recipes, ..self.clone() }
    }

    /// Returns a circle of recipes that need each other: their names, the first one again at the end.
    pub(super) fn circle(&self) -> Option<Vec<String>> {
        let mut settled = BTreeSet::new();
        self.recipes.iter().find_map(|recipe| self.circle_from(recipe, &mut Vec::new(), &mut settled))
    }

    fn circle_from<'a>(
        &'a self,
        recipe: &'a Recipe,
        path: &mut Vec<&'a str>,
        settled: &mut BTreeSet<&'a str>,
    ) -> Option<Vec<String>> {
        let name = recipe.name.as_str();
        if let Some(begin) = path.iter().position(|known| *known == name) {
            return Some(path[begin..].iter().chain([&name]).map(|name| (*name).to_owned()).collect());
        }
        if !settled.contains(name) {
            path.push(name);
            let needed = recipe.needs.iter().filter_map(|need| self.recipe(need));
            let found = needed.into_iter().find_map(|need| self.circle_from(need, path, settled));
            path.pop();
            settled.insert(name);
            return found;
        }
        None
    }

    /// Returns the machine of a name.
    pub fn machine(&self, name: &str) -> Option<&Machine> {
        self.machines.iter().find(|machine| machine.name == name)
    }

    /// Returns the answer to `recipes`.
    pub fn rows(&self) -> Vec<RecipeRow> {
        self.recipes.iter().map(Recipe::row).collect()
    }
}

/// Settings of tmux.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TmuxConfig {
    /// Name of the server's socket; `default` is the user's own server.
    pub socket: String,
}

impl Default for TmuxConfig {
    fn default() -> Self {
        Self { socket: "cookbook".into() }
    }
}

/// Where Cookbook keeps its things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookbookConfig {
    /// Absolute path of its state; `None` leaves it to `$ODYSSEUS_DATA_DIR`.
    pub data_dir: Option<PathBuf>,
    /// Name of the socket of the tmux server where its sessions live.
    pub socket: String,
    /// Why its state file could not be used when it was read for the configuration.
    pub problem: Option<String>,
}

impl Default for CookbookConfig {
    fn default() -> Self {
        Self { data_dir: None, socket: "default".into(), problem: None }
    }
}

/// Settings of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UiConfig {
    /// Colours.
    pub theme: Theme,
    /// `[theme]`: colours of single roles.
    pub colours: Colours,
    /// Characters.
    pub glyphs: Glyphs,
    /// `[keys]`: what each key does.
    pub keys: Keymap,
    /// What leaves the focused terminal.
    pub escape: Chord,
    /// How somebody who looks elsewhere is told.
    pub notify: Notify,
    /// The terminal outside has a title of ours.
    pub title: bool,
}

impl Default for UiConfig {
    fn default() -> Self {
        Self {
            theme: Theme::default(),
            colours: Colours::default(),
            glyphs: Glyphs::default(),
            keys: Keymap::default(),
            escape: Chord::default(),
            notify: Notify::default(),
            title: true,
        }
    }
}

/// How somebody who looks elsewhere is told that a session wants them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notify {
    /// Not at all.
    None,
    /// By a notification of the terminal outside, by the sequence that it is known for, while it has told that it is not
    /// looked at.
    #[default]
    Terminal,
    /// The same, by OSC 9.
    Osc9,
    /// The same, by OSC 99.
    Osc99,
    /// The same, by OSC 777.
    Osc777,
    /// The same, by notify-send where there is one and a display; else as `Terminal`.
    Desktop,
}

/// Colours of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// Follows `NO_COLOR` and the terminal's background.
    #[default]
    Auto,
    /// For dark backgrounds.
    Dark,
    /// For light backgrounds.
    Light,
    /// No colours.
    Mono,
    /// Strong colours on a background of its own.
    HighContrast,
}

/// Characters that the screen draws.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Glyphs {
    /// Follows the locale and the terminal.
    #[default]
    Auto,
    /// ASCII only.
    Ascii,
    /// All.
    Unicode,
}

/// A computer that is reached by ssh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// The destination for ssh; never begins with a dash.
    pub ssh: String,
}

/// A file that came with a directory and is not trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Untrusted {
    /// Its absolute path.
    pub path: PathBuf,
    /// What it was when it was found: SHA-256 in hexadecimal.
    pub sha256: String,
}

impl Untrusted {
    /// Says so, and how to trust it.
    pub fn note(&self) -> String {
        format!("{} is not trusted and not used; read it, then run `cookbook-tui trust`", self.path.display())
    }
}
