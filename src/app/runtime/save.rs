//! A launch becomes a recipe in the user's configuration. Comments, order and layout of the file stay, and so do its
//! mode and a symbolic link to it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use super::Inner;
use super::launch::usage;
use super::plan::{base, check_name};
use crate::app::config::{Config, ConfigError, Escapees, Recipe, Source, put, user_recipes};
use crate::app::configure::configure;
use crate::app::contract::{Kind, LaunchField};
use crate::app::draft::{SaveRequest, Saved};
use crate::app::error::{AppError, ErrorKind};
use crate::lifecycle::regular;
use crate::lifecycle::store::{private_dir, replace_if_same};
use crate::text::{self, MASK};

/// Changes by others in a row after which it is given up.
const ATTEMPTS: u32 = 4;

impl Inner {
    /// Writes a recipe into the user's file.
    pub(super) fn save(&self, request: &SaveRequest) -> Result<Saved, AppError> {
        let name = request.name.as_str();
        check_name(name)?;
        let config = self.config();
        let recipe = self.recipe_of(&config, request)?;
        let shown = self.inputs.user_file();
        let path = self.inputs.cwd.join(&shown);
        for _ in 0..ATTEMPTS {
            let found = read(&path)?;
            let before = found.as_deref().unwrap_or_default();
            let old = user_recipes(before, &self.inputs).map_err(|error| wrong(&error))?;
            let old = old.into_iter().find(|recipe| recipe.name == name);
            if old.is_some() && request.overwrite != Some(true) {
                let message = format!(
                    "{} has a recipe {name:?} already: choose another name, or replace it (`overwrite`)",
                    text::escape(&shown.display().to_string())
                );
                return Err(AppError::new(ErrorKind::Refused, message).at(LaunchField::Name));
            }
            let mut notes = Vec::new();
            let recipe = without_secrets(recipe.clone(), old.as_ref(), &mut notes)?;
            let after = put(before, &recipe, old.as_ref()).map_err(|why| kept(&shown, &why))?;
            // What is on disk next is what was meant, and a configuration as a whole.
            let next = configure(&self.inputs, Some(&after)).map_err(|error| wrong(&error))?;
            let written = user_recipes(&after, &self.inputs).map_err(|error| wrong(&error))?;
            if written.iter().find(|written| written.name == name) != Some(&recipe) {
                return Err(kept(&shown, "the recipe would not be read back as it is"));
            }
            if replace(&path, found.as_deref(), &after).map_err(|error| kept(&shown, &error.to_string()))? {
                if next.recipe(name).is_some_and(|recipe| recipe.source != Source::User) {
                    notes.push(
                        "the cookbook.toml of this directory has a recipe of that name, which comes first here".into(),
                    );
                }
                *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
                self.changed();
                let path = shown.to_string_lossy().into_owned();
                return Ok(Saved { name: name.to_owned(), path, overwritten: old.is_some(), notes });
            }
        }
        Err(kept(&shown, "somebody else changes it; try again"))
    }

    /// Returns a request as a recipe: its base, and what is changed of it.
    fn recipe_of(&self, config: &Config, request: &SaveRequest) -> Result<Recipe, AppError> {
        let launch = &request.launch;
        let base = base(config, launch)?;
        let command = launch.command.as_ref().or(base.map(|base| &base.command)).cloned();
        let command = command.filter(|command| !command.shown().trim().is_empty());
        let command = command.ok_or_else(|| usage("command is empty").at(LaunchField::Command))?;
        let kind = launch.kind.or(base.map(|base| base.kind)).unwrap_or(Kind::Shell);
        let mut recipe = base.cloned().unwrap_or_else(|| Recipe::bare(kind, Source::User));
        if recipe.kind != kind && recipe.escapees == Escapees::usual(recipe.kind) {
            recipe.escapees = Escapees::usual(kind);
        }
        (recipe.name, recipe.kind, recipe.command) = (request.name.clone(), kind, command);
        (recipe.host, recipe.source, recipe.refused) = (launch.host.or(recipe.host), Source::User, None);
        recipe.program_found = false;
        let absolute = |path: &str| -> Result<PathBuf, AppError> {
            Ok(self.inputs.cwd.join(self.at_home(path)?).components().collect())
        };
        recipe.cwd = launch.cwd.as_deref().map(absolute).transpose()?.or(recipe.cwd);
        match launch.venv.as_deref() {
            Some("") => recipe.venv = None,
            Some(venv) => recipe.venv = Some(absolute(venv)?),
            None => {}
        }
        match launch.gpus.as_deref() {
            Some("") => recipe.gpus = None,
            Some(gpus) => recipe.gpus = Some(gpus.to_owned()),
            None => {}
        }
        recipe.env.extend(launch.env.clone().unwrap_or_default());
        (recipe.stop.grace_s, recipe.ceiling_s) =
            (launch.grace_s.or(recipe.stop.grace_s), launch.ceiling_s.or(recipe.ceiling_s));
        recipe.needs.retain(|need| *need != request.name);
        Ok(recipe)
    }
}

/// Takes secrets out that the file does not have already, and says which.
fn without_secrets(mut recipe: Recipe, old: Option<&Recipe>, said: &mut Vec<String>) -> Result<Recipe, AppError> {
    let is_there = |name: &String, value: &String| old.and_then(|old| old.env.get(name)) == Some(value);
    let secret = |name: &String, value: &String| text::is_secret(name, value) && !is_there(name, value);
    let names: Vec<String> =
        recipe.env.iter().filter(|(name, value)| secret(name, value)).map(|(name, _)| name.clone()).collect();
    for name in names {
        // What the file has of it stays.
        match old.and_then(|old| old.env.get(&name)) {
            Some(before) => drop(recipe.env.insert(name.clone(), before.clone())),
            None => drop(recipe.env.remove(&name)),
        }
        let name = text::escape(&name);
        said.push(format!("{name} was not written: it looks like a secret. What is in the environment of cookbook-tui reaches the session"));
    }
    let is_new = old.is_none_or(|old| old.command != recipe.command);
    if is_new && (recipe.command.masked() != recipe.command || recipe.command.shown().contains(MASK)) {
        let message = "the command holds what looks like a secret, and nothing was written: name a variable in its place, such as $HF_TOKEN in a line for sh -c";
        return Err(AppError::new(ErrorKind::Refused, message).at(LaunchField::Command));
    }
    Ok(recipe)
}

/// Reads the file; `None` where there is none.
fn read(path: &Path) -> Result<Option<String>, AppError> {
    match regular::read(path) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(kept(path, "it is not UTF-8")),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(kept(path, &error.to_string())),
    }
}

/// Puts the file in place if it still is what was read. A link to it stays one.
fn replace(path: &Path, before: Option<&str>, after: &str) -> std::io::Result<bool> {
    let target = if before.is_some() { path.canonicalize()? } else { path.to_owned() };
    if let Some(directory) = path.parent().filter(|directory| before.is_none() && !directory.exists()) {
        private_dir(directory)?;
    }
    replace_if_same(&target, before.map(str::as_bytes), after.as_bytes())
}

fn wrong(error: &ConfigError) -> AppError {
    AppError::new(ErrorKind::Config, format!("nothing was written: {error}"))
}

fn kept(path: &Path, why: &str) -> AppError {
    let path = text::escape(&path.display().to_string()).into_owned();
    AppError::new(ErrorKind::Config, format!("nothing was written to {path}: {}", text::escape(why)))
}
