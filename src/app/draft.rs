//! Launches that are changed before they are made: what a session was launched with, and what becomes a recipe.
//!
//! Pure data of the commands `draft`, `save` and `tmux_sessions`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::contract::LaunchRequest;
use crate::text::{MASK, is_secret};

/// Fields of `save`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SaveRequest {
    /// Name of the recipe.
    pub name: String,
    /// What it launches: a recipe, a command, and what is changed of them.
    pub launch: LaunchRequest,
    /// A recipe of that name in the file is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overwrite: Option<bool>,
}

/// The answer to `save`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// Name of the recipe.
    pub name: String,
    /// The file that it was written to.
    pub path: String,
    /// A recipe of that name was replaced.
    pub overwritten: bool,
    /// What was not written, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The answer to `draft`: what a session was launched with, to be changed and launched again.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// Which session.
    pub session: String,
    /// What it was launched with; may hold secrets.
    pub launch: LaunchRequest,
    /// What was not kept, and why.
    pub notes: Vec<String>,
}

impl Draft {
    /// Returns the answer of a batch: secrets are masked.
    pub(super) fn to_value(&self) -> Value {
        let mut launch = self.launch.clone();
        launch.command = launch.command.map(|command| command.masked());
        for (name, value) in launch.env.iter_mut().flatten() {
            if is_secret(name, value) {
                MASK.clone_into(value);
            }
        }
        json!({ "session": self.session, "launch": launch, "notes": self.notes })
    }
}

/// A tmux session that was not launched by us.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TmuxRow {
    /// Path of the server's socket.
    pub socket: String,
    /// `$N`.
    pub session_id: String,
    /// Its name.
    pub name: String,
    /// Our session of it, where it was adopted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<String>,
    /// This cookbook-tui runs inside of it.
    pub holds_us: bool,
}
