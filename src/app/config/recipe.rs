//! What can be launched, and how it is listed.
//!
//! Made by `parse`, read by everything that launches, stops or lists. Pure data: whatever a
//! [`Recipe`] holds was checked when its file was read.

use std::collections::BTreeMap;
use std::path::PathBuf;

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::app::contract::{CommandLine, HostKind, Kind};
use crate::text;

/// Something that can be launched.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// Its name, unique within the configuration.
    pub name: String,
    /// What kind of work it does.
    pub kind: Kind,
    /// Where it is to live; `None` leaves it to [`Recipe::usual_host`].
    pub host: Option<HostKind>,
    /// What to execute.
    pub command: CommandLine,
    /// Absolute working directory; `None` is the launcher's.
    pub cwd: Option<PathBuf>,
    /// Variables added to the launcher's environment. May hold secrets.
    pub env: BTreeMap<String, String>,
    /// Value of `CUDA_VISIBLE_DEVICES`.
    pub gpus: Option<String>,
    /// Absolute path of a Python virtual environment.
    pub venv: Option<PathBuf>,
    /// Names of recipes that must be ready before.
    pub needs: Vec<String>,
    /// Name of a resource that one session holds at a time.
    pub exclusive: Option<String>,
    /// How to tell that it is ready; `None` is what is known of the server in `command`.
    pub ready: Option<Ready>,
    /// How to stop it.
    pub stop: Stop,
    /// Seconds that it may live; above 0 and finite.
    pub ceiling_s: Option<f64>,
    /// What to do when it ends by itself.
    pub restart: Restart,
    /// What a stop does with descendants that have left the tree.
    pub escapees: Escapees,
    /// Launch it when the manager starts.
    pub autostart: bool,
    /// Which layer of the configuration it came from.
    pub source: Source,
    /// Its program exists, as far as can be told.
    pub program_found: bool,
    /// Why it is listed and not launched.
    pub refused: Option<String>,
}

impl Recipe {
    /// Returns a recipe that says nothing but its kind, and where it comes from.
    pub fn bare(kind: Kind, source: Source) -> Self {
        Self {
            name: String::new(),
            kind,
            host: None,
            command: CommandLine::Argv(Vec::new()),
            cwd: None,
            env: BTreeMap::new(),
            gpus: None,
            venv: None,
            needs: Vec::new(),
            exclusive: None,
            ready: None,
            stop: Stop::default(),
            ceiling_s: None,
            restart: Restart::No,
            escapees: Escapees::usual(kind),
            autostart: false,
            source,
            program_found: false,
            refused: None,
        }
    }

    /// Returns the host asked for, else the usual one of the kind: PTY for shells, tmux for what
    /// should outlive the manager. Whether tmux is there is for the launcher to see.
    pub fn usual_host(&self) -> HostKind {
        self.host.unwrap_or(match self.kind {
            Kind::Shell => HostKind::Pty,
            Kind::Serve | Kind::Agent | Kind::Download => HostKind::Tmux,
        })
    }

    /// Returns the program that is executed; `None` for a line, which a shell takes apart.
    pub fn program(&self) -> Option<&str> {
        match &self.command {
            CommandLine::Line(_) => None,
            CommandLine::Argv(argv) => argv.first().map(String::as_str),
        }
    }

    /// Returns how the recipe is listed.
    pub fn row(&self) -> RecipeRow {
        let masked = self.command.masked();
        let command = masked.shown();
        let argv = match masked {
            CommandLine::Line(_) => None,
            CommandLine::Argv(argv) => Some(argv),
        };
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.to_string_lossy().into_owned());
        let shown = |(name, value): (&String, &String)| {
            let value = if text::is_secret(name, value) { text::MASK } else { value };
            (name.clone(), value.to_owned())
        };
        let program = self.program().filter(|_| !self.program_found);
        RecipeRow {
            name: self.name.clone(),
            kind: self.kind,
            host: self.usual_host(),
            command,
            source: self.source.name().into(),
            available: self.program_found && self.refused.is_none(),
            reason: self
                .refused
                .clone()
                .or_else(|| program.map(|program| format!("program `{}` was not found", text::escape(program)))),
            argv,
            cwd: path(&self.cwd),
            env: self.env.iter().map(shown).collect(),
            gpus: self.gpus.clone(),
            venv: path(&self.venv),
            needs: self.needs.clone(),
            exclusive: self.exclusive.clone(),
        }
    }
}

/// How to tell that a session is ready.
#[derive(Clone, Debug, PartialEq)]
pub enum Ready {
    /// GET on this `http://` URL answers with a success.
    Http(String),
    /// The output matches.
    Log(Pattern),
    /// The port accepts connections.
    Tcp(u16),
}

/// A regular expression that compiles.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl Pattern {
    /// Returns the expression, or why it is none, in one line.
    pub fn parse(pattern: &str) -> Result<Self, String> {
        Regex::new(pattern).map(Self).map_err(|error| {
            let text = error.to_string();
            text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
        })
    }

    /// Returns the compiled expression.
    pub fn regex(&self) -> &Regex {
        &self.0
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

/// How a recipe wants to be stopped; what is not said is decided by the kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stop {
    /// Name of the first signal, without `SIG`.
    pub signal: Option<String>,
    /// Seconds between the first signal and KILL; from 0, finite.
    pub grace_s: Option<f64>,
    /// What to run before the first signal, for what lives elsewhere.
    pub command: Option<CommandLine>,
    /// Keys to type before the first signal, for example `C-c`.
    pub keys: Option<Vec<String>>,
}

/// What to do when a session ends by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restart {
    /// Nothing.
    #[default]
    No,
    /// Start it again after a failure, with backoff and a cap.
    OnFailure,
}

/// What a stop does with descendants that came back to the warden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escapees {
    /// They are ended too.
    Sweep,
    /// They are reported.
    Report,
}

impl Escapees {
    /// Returns what holds where the recipe is silent.
    pub const fn usual(kind: Kind) -> Self {
        match kind {
            Kind::Shell => Self::Report,
            Kind::Serve | Kind::Agent | Kind::Download => Self::Sweep,
        }
    }
}

/// Which layer of the configuration a recipe came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Shipped with the program.
    BuiltIn,
    /// The user's file, or the one of `--config`.
    User,
    /// A trusted file found from the working directory upward.
    Directory,
    /// A preset of Cookbook.
    Cookbook,
}

impl Source {
    /// Returns the name used in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::User => "user",
            Self::Directory => "directory",
            Self::Cookbook => "cookbook",
        }
    }
}

/// One recipe of the answer to `recipes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecipeRow {
    /// Its name.
    pub name: String,
    /// Kind of work.
    pub kind: Kind,
    /// Where it will live.
    pub host: HostKind,
    /// The masked command line.
    pub command: String,
    /// `built-in`, `user`, `directory` or `cookbook`.
    pub source: String,
    /// It can be launched, as far as can be told.
    pub available: bool,
    /// Why it cannot.
    pub reason: Option<String>,
    /// The masked arguments; `None` where the command is a line for `sh -c`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// Working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables that it sets, for the screen alone: a name does not always tell that its value is secret, and what
    /// scripts read is written down. Values that look secret are masked here, too.
    #[serde(skip)]
    pub env: BTreeMap<String, String>,
    /// Value of `CUDA_VISIBLE_DEVICES`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<String>,
    /// Python virtual environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub venv: Option<String>,
    /// Recipes that must be ready before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// The resource that one session holds at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclusive: Option<String>,
}
