//! Arguments of `launch` and of `save`.

use clap::Args as ClapArgs;

use super::{Json, parse_variable, parse_word};
use crate::app::contract::{CommandLine, HostKind, Kind, LaunchRequest};
use crate::app::draft::SaveRequest;

/// Arguments of `launch`.
#[derive(Debug, ClapArgs)]
pub struct Launch {
    /// Name of a recipe
    #[arg(required_unless_present = "command", conflicts_with = "command")]
    pub recipe: Option<String>,
    /// Kind of work: serve, agent, shell or download
    #[arg(long, value_parser = parse_word::<Kind>)]
    pub kind: Option<Kind>,
    /// Where it is to live: tmux, or pty to stay in the foreground as its owner
    #[arg(long, value_parser = parse_word::<HostKind>)]
    pub host: Option<HostKind>,
    /// Name for people
    #[arg(long)]
    pub name: Option<String>,
    /// Working directory
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<String>,
    /// Devices that it sees (`CUDA_VISIBLE_DEVICES`); an empty one takes the recipe's away
    #[arg(long, value_name = "LIST")]
    pub gpus: Option<String>,
    /// Python virtual environment; an empty one takes the recipe's away
    #[arg(long, value_name = "DIR")]
    pub venv: Option<String>,
    /// With a command: a recipe of which everything but the command holds, too
    #[arg(long, value_name = "RECIPE", requires = "command")]
    pub like: Option<String>,
    /// Variable added to its environment
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    pub env: Vec<(String, String)>,
    /// Seconds between TERM and KILL
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub grace: Option<f64>,
    /// Seconds that it may live
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub ceiling: Option<f64>,
    /// Stop whoever holds the `exclusive` of the recipe first
    #[arg(long)]
    pub replace: bool,
    /// Output
    #[command(flatten)]
    pub output: Json,
    /// Program and arguments, after --
    #[arg(last = true)]
    pub command: Vec<String>,
}

/// Arguments of `save`.
#[derive(Debug, ClapArgs)]
pub struct Save {
    /// Name of the recipe
    pub name: String,
    /// A recipe to begin with: what is not given here is as it is there
    #[arg(long, value_name = "RECIPE", required_unless_present = "command")]
    pub recipe: Option<String>,
    /// Kind of work: serve, agent, shell or download
    #[arg(long, value_parser = parse_word::<Kind>)]
    pub kind: Option<Kind>,
    /// Where it is to live: tmux or pty
    #[arg(long, value_parser = parse_word::<HostKind>)]
    pub host: Option<HostKind>,
    /// Working directory
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<String>,
    /// Devices that it sees (`CUDA_VISIBLE_DEVICES`)
    #[arg(long, value_name = "LIST")]
    pub gpus: Option<String>,
    /// Python virtual environment
    #[arg(long, value_name = "DIR")]
    pub venv: Option<String>,
    /// Variable added to its environment; what looks like a secret is not written
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    pub env: Vec<(String, String)>,
    /// Replace a recipe of that name
    #[arg(long)]
    pub overwrite: bool,
    /// Output
    #[command(flatten)]
    pub output: Json,
    /// Program and arguments, after --
    #[arg(last = true)]
    pub command: Vec<String>,
}

impl Launch {
    pub(super) fn request(&self) -> LaunchRequest {
        LaunchRequest {
            recipe: self.recipe.clone(),
            command: (!self.command.is_empty()).then(|| CommandLine::Argv(self.command.clone())),
            kind: self.kind,
            host: self.host,
            name: self.name.clone(),
            cwd: self.cwd.clone(),
            env: (!self.env.is_empty()).then(|| self.env.iter().cloned().collect()),
            rows: None,
            cols: None,
            grace_s: self.grace,
            ceiling_s: self.ceiling,
            gpus: self.gpus.clone(),
            venv: self.venv.clone(),
            like: self.like.clone(),
            replace: self.replace.then_some(true),
            machine: None,
        }
    }
}

impl Save {
    pub(super) fn request(&self) -> SaveRequest {
        let command = (!self.command.is_empty()).then(|| CommandLine::Argv(self.command.clone()));
        let (recipe, like) = if command.is_some() { (None, self.recipe.clone()) } else { (self.recipe.clone(), None) };
        let launch = LaunchRequest {
            recipe,
            command,
            like,
            kind: self.kind,
            host: self.host,
            cwd: self.cwd.clone(),
            env: (!self.env.is_empty()).then(|| self.env.iter().cloned().collect()),
            gpus: self.gpus.clone(),
            venv: self.venv.clone(),
            ..LaunchRequest::default()
        };
        SaveRequest { name: self.name.clone(), launch, overwrite: self.overwrite.then_some(true) }
    }
}
