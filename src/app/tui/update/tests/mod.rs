//! What every key, answer and pointer event does.

mod broadcast;
mod events;
mod finding;
mod forms;
mod fuzz;
mod history;
mod keys;
mod launch;
mod live;
mod marks;
mod orphans;
mod pointer;
mod sessions;
mod stops;
mod strangers;

use super::super::seam::Effect;
use crate::app::command::Command;

/// Returns the commands among effects.
fn commands(effects: &[Effect]) -> Vec<&Command> {
    let mut commands = Vec::new();
    for effect in effects {
        if let Effect::Run { command, .. } = effect {
            commands.push(command);
        }
    }
    commands
}
