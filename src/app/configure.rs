//! The configuration with what Cookbook adds to it: at the start, and anew after a recipe was saved.

use super::config::{Config, ConfigError, Inputs, load_with};
use super::cookbook::file::{StateFile, WAY_OUT};
use super::cookbook::preset::offer;

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
