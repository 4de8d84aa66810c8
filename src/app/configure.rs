//! The configuration with what Cookbook adds to it: at the start, anew after a recipe was saved, and whenever
//! Cookbook's presets are others.

use std::path::Path;

use super::config::{Config, ConfigError, Inputs, Source, load_with};
use super::cookbook::file::{StateFile, WAY_OUT};
use super::cookbook::preset::offer;
use super::cookbook::state::Preset;

/// Loads the configuration, perhaps with another text of the user's file, and adds Cookbook's presets.
///
/// # Errors
/// Names the file, the line and what is wrong.
pub(super) fn configure(inputs: &Inputs, text: Option<&str>) -> Result<Config, ConfigError> {
    let mut config = load_with(inputs, text)?;
    if config.cookbook.data_dir.is_none() {
        let data_dir = std::env::var_os("ODYSSEUS_DATA_DIR").filter(|dir| !dir.is_empty());
        config.cookbook.data_dir = data_dir.map(|dir| inputs.cwd.join(dir));
    }
    if let Some(dir) = &config.cookbook.data_dir {
        match StateFile::of(dir).load() {
            Ok(state) => offer(&mut config.recipes, state.presets, inputs.home.as_deref()),
            Err(reason) => {
                config.notes.push(format!("nothing of Cookbook is shown: {reason}; {WAY_OUT}"));
                config.cookbook.problem = Some(reason);
            }
        }
    }
    Ok(config)
}

/// Returns the configuration with these presets in the place of those that it has; `None` where they are the same.
pub(super) fn with_presets(config: &Config, presets: Vec<Preset>, home: Option<&Path>) -> Option<Config> {
    let mut recipes = config.recipes.clone();
    recipes.retain(|recipe| recipe.source != Source::Cookbook);
    offer(&mut recipes, presets, home);
    (recipes != config.recipes).then(|| config.with_recipes(recipes))
}
