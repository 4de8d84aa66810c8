//! Finds the configuration files, reads them and merges them.
//!
//! [`load`] is called once at the start, and anew after a recipe was saved. It never writes, and it never parses a file of a
//! directory whose very bytes are not trusted: such a file becomes [`Config::untrusted`], and
//! what keeps it from being trusted becomes a note, never an error, because anybody may put a
//! file into a directory above.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::error::{ConfigError, Problem, shown, shown_path};
use super::keys::keymap;
use super::model::{Config, Untrusted};
use super::parse::{Layer, Origin, parse};
use super::program::is_found;
use super::recipe::{Recipe, Source};
use super::trust::{absolute, fingerprint, is_trusted, read_bounded, read_checked};
use crate::lifecycle::inspect::is_descriptor;
use crate::lifecycle::regular;

/// The recipes that are shipped with the program.
const BUILT_IN: &str = include_str!("../../../assets/recipes.toml");

/// What decides which files are read and what they mean.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The file of `--config`, instead of the user's and the directory's.
    pub explicit: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME`.
    pub config_home: PathBuf,
    /// Absolute working directory.
    pub cwd: PathBuf,
    /// Where the ledger of trusted files is.
    pub state_dir: PathBuf,
    /// `$PATH`.
    pub path: Option<OsString>,
    /// `$HOME`.
    pub home: Option<PathBuf>,
}

impl Inputs {
    /// Returns the user's file, or the one of `--config`, as messages name it; whether it is there is not known.
    pub fn user_file(&self) -> PathBuf {
        self.explicit.clone().unwrap_or_else(|| self.config_home.join("cookbook-tui/config.toml"))
    }
}

/// Loads the configuration.
pub fn load(inputs: &Inputs) -> Result<Config, ConfigError> {
    load_with(inputs, None)
}

/// Returns the recipes of a text that is to be the user's file.
pub fn user_recipes(text: &str, inputs: &Inputs) -> Result<Vec<Recipe>, ConfigError> {
    read_layer(text.as_bytes(), &inputs.user_file(), Source::User, inputs).map(|layer| layer.recipes)
}

/// Loads the configuration as it is with another text of the user's file.
pub fn load_with(inputs: &Inputs, text: Option<&str>) -> Result<Config, ConfigError> {
    load_from(inputs, text, None)
}

/// Checks that a configuration loads with this file as that of the directory.
///
/// # Errors
/// Names the file, the line and what is wrong.
pub fn check_directory(inputs: &Inputs, file: &Path, content: &[u8]) -> Result<(), ConfigError> {
    load_from(&Inputs { explicit: None, ..inputs.clone() }, None, Some((file, content))).map(drop)
}

/// Loads the configuration; `directory` is taken for the trusted file of the directory, whatever there is.
fn load_from(inputs: &Inputs, text: Option<&str>, directory: Option<(&Path, &[u8])>) -> Result<Config, ConfigError> {
    let mut config = Config::default();
    let read = |content: &[u8], path: &Path, source| read_layer(content, path, source, inputs);
    config.add(read(BUILT_IN.as_bytes(), Path::new("built-in recipes.toml"), Source::BuiltIn)?);
    // Their programs are looked up before others may take their names.
    config.recipes.retain(|recipe| is_found(recipe, inputs.path.as_deref(), &inputs.cwd));

    let path = inputs.user_file();
    let file = inputs.cwd.join(&path);
    // A shell that hands a pipe over has opened both its ends.
    let is_handed = inputs.explicit.is_some() && (is_descriptor(&file) || file == Path::new("/dev/null"));
    let open = || if is_handed { File::open(&file) } else { regular::open(&file) };
    match text.map_or_else(|| open().and_then(read_bounded), |text| Ok(text.as_bytes().to_vec())) {
        Ok(content) => config.add_file(read(&content, &path, Source::User)?, file),
        Err(error) if error.kind() == io::ErrorKind::NotFound && inputs.explicit.is_none() => {}
        Err(reason) => return Err(ConfigError::Read { path, reason }),
    }
    if let Some((file, content)) = directory {
        config.add_file(read(content, file, Source::Directory)?, file.to_owned());
    } else if inputs.explicit.is_none()
        && let Some(found) = find_upward(&inputs.cwd, &mut config.notes)
    {
        match read_trusted(&found, &inputs.state_dir, &mut config.notes) {
            Ok(Ok(content)) => config.add_file(read(&content, &found, Source::Directory)?, found),
            Ok(Err(untrusted)) => config.untrusted = Some(untrusted),
            Err(error) => config.notes.push(format!("{} is not used: {error}", shown_path(&found))),
        }
    }

    config.ui.keys = keymap(&config.key_lines, config.ui.escape)?;
    for recipe in &mut config.recipes {
        recipe.program_found = is_found(recipe, inputs.path.as_deref(), &inputs.cwd);
    }
    if let Some(names) = config.circle() {
        return Err(ConfigError::Circle { names });
    }
    let missing = config.recipes.iter().flat_map(|recipe| recipe.needs.iter().map(|need| (&recipe.name, need)));
    let missing = missing.filter(|(_, need)| config.recipe(need).is_none());
    let notes = missing.map(|(name, need)| format!("recipe {} needs {}, which is no recipe", shown(name), shown(need)));
    let notes: Vec<String> = notes.collect();
    config.notes.extend(notes);
    Ok(config)
}

fn read_layer(content: &[u8], path: &Path, source: Source, inputs: &Inputs) -> Result<Layer, ConfigError> {
    let text = std::str::from_utf8(content).map_err(|error| {
        let line = content[..error.valid_up_to()].split(|b| *b == b'\n').count();
        let problem = Box::new(Problem::Syntax { message: "not valid UTF-8".into() });
        ConfigError::At { path: path.to_owned(), line, problem }
    })?;
    let file = inputs.cwd.join(path);
    let dir = file.parent().unwrap_or(&inputs.cwd);
    parse(text, &Origin { path, dir, home: inputs.home.as_deref(), source })
}

/// Returns the nearest `cookbook.toml`, whatever it is.
fn find_upward(cwd: &Path, notes: &mut Vec<String>) -> Option<PathBuf> {
    for dir in cwd.ancestors() {
        let file = dir.join("cookbook.toml");
        match fs::symlink_metadata(&file) {
            Ok(_) => return Some(file),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => notes.push(format!("{} cannot be looked for: {error}", shown_path(&file))),
        }
    }
    None
}

/// Reads a file once, and returns its bytes if these very bytes are trusted.
fn read_trusted(file: &Path, state_dir: &Path, notes: &mut Vec<String>) -> io::Result<Result<Vec<u8>, Untrusted>> {
    let path = absolute(file)?;
    let content = read_checked(&path)?;
    let sha256 = fingerprint(&content);
    let trusted = is_trusted(&path, &sha256, state_dir).unwrap_or_else(|error| {
        notes.push(format!("no directory is trusted: {error}"));
        false
    });
    Ok(if trusted { Ok(content) } else { Err(Untrusted { path, sha256 }) })
}

impl Config {
    fn add_file(&mut self, layer: Layer, path: PathBuf) {
        self.add(layer);
        self.sources.push(path);
    }

    /// Puts a layer over what is there. A recipe or machine replaces the one of its name as a whole.
    fn add(&mut self, layer: Layer) {
        for recipe in layer.recipes {
            match self.recipes.iter_mut().find(|other| other.name == recipe.name) {
                Some(other) => *other = recipe,
                None => self.recipes.push(recipe),
            }
        }
        for machine in layer.machines {
            match self.machines.iter_mut().find(|other| other.name == machine.name) {
                Some(other) => *other = machine,
                None => self.machines.push(machine),
            }
        }
        for pattern in layer.patterns {
            match self.patterns.iter_mut().find(|other| other.name == pattern.name) {
                Some(other) => *other = pattern,
                None => self.patterns.push(pattern),
            }
        }
        layer.tmux_socket.into_iter().for_each(|socket| self.tmux.socket = socket);
        layer.cgroup.into_iter().for_each(|cgroup| self.cgroup = cgroup);
        layer.cookbook_socket.into_iter().for_each(|socket| self.cookbook.socket = socket);
        self.cookbook.data_dir = layer.cookbook_data_dir.or(self.cookbook.data_dir.take());
        self.ui.glyphs = layer.glyphs.unwrap_or(self.ui.glyphs);
        for (mine, colour) in self.ui.colours.iter_mut().zip(layer.colours) {
            *mine = colour.or(*mine);
        }
        self.key_lines.extend(layer.keys);
        self.ui.theme = layer.theme.unwrap_or(self.ui.theme);
        self.ui.notify = layer.notify.unwrap_or(self.ui.notify);
        self.ui.title = layer.title.unwrap_or(self.ui.title);
        self.ui.escape = layer.escape.unwrap_or(self.ui.escape);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
