//! The configuration: recipes, machines and settings (design section 8, rule 15).
//!
//! `args` calls [`load`] once at the start and `trust` on the user's word; everything else reads
//! the [`Config`]. The layers, later over earlier by recipe name: the built-in recipes, the user's
//! file, a trusted file found from the working directory upward.
//!
//! Nothing here starts a program, changes a configuration file, or acts on a file that came with a
//! directory before it was trusted. Files become types in one step (`section`, `parse`): past
//! that, no value needs another check.

mod chord;
mod colour;
mod edit;
mod error;
mod keys;
mod load;
mod model;
mod parse;
mod pattern;
mod program;
mod recipe;
mod section;
pub mod trust;

pub use chord::{Chord, ChordKey};
pub use colour::{Colour, Colours, Role};
pub use edit::put;
pub use error::{ConfigError, Problem, nearest_word};
pub use load::{Inputs, check_directory, load, load_with, user_recipes};
pub use model::{Config, CookbookConfig, Glyphs, Machine, Notify, Theme, TmuxConfig, UiConfig, Untrusted};
pub use parse::{are_gpus, is_name};
pub use pattern::built_in_patterns;
pub use program::find_program;
pub use recipe::{Escapees, Pattern, Ready, Recipe, RecipeRow, Restart, Source, Stop};
