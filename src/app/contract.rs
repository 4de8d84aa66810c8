//! The rows and answers of the outside contract (`docs/batch.md`), shared by the batch, the
//! subcommands and the screen. Pure data; unknown values are `None`, never 0.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::attention::Attention;
use super::phase::Suggestion;
use crate::lifecycle::identity::Pid;
use crate::lifecycle::receipt::{Bystander, ProcessRow};
use crate::lifecycle::verdict::VerdictKind;
use crate::text::{self, MASK};

/// What kind of work a session does. Decides its id, its ladder and its defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A model server.
    Serve,
    /// A coding agent.
    Agent,
    /// An interactive shell.
    Shell,
    /// A download.
    Download,
}

impl Kind {
    /// All kinds, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::Serve, Self::Agent, Self::Shell, Self::Download];

    /// Returns the name used in the configuration and in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Serve => "serve",
            Self::Agent => "agent",
            Self::Shell => "shell",
            Self::Download => "download",
        }
    }

    /// Returns the kind of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns what session ids of this kind start with, in Cookbook's manner.
    pub const fn id_prefix(self) -> &'static str {
        match self {
            Self::Download => "cookbook",
            Self::Serve | Self::Agent | Self::Shell => self.name(),
        }
    }
}

/// Where a session lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostKind {
    /// A pseudo-terminal that we own; the session dies with us.
    Pty,
    /// A tmux session, which outlives us on purpose.
    Tmux,
}

impl HostKind {
    /// Returns the name used in the configuration and in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pty => "pty",
            Self::Tmux => "tmux",
        }
    }
}

/// How far a session has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Waits for something else.
    Queued,
    /// Its process exists; nothing more is known.
    Starting,
    /// Fetches its model.
    Downloading,
    /// Loads its model.
    Loading,
    /// Prepares its first answer.
    Warming,
    /// Answers requests.
    Ready,
    /// Answers requests, and has none.
    Idle,
    /// Runs; no readiness is known of it.
    Running,
    /// A stop is under way.
    Stopping,
    /// Its workload has ended with status 0, or was stopped by us.
    Exited,
    /// Its workload has ended with another status or by a signal.
    Failed,
    /// Nobody can tell.
    Unverifiable,
}

impl Phase {
    /// Returns the word used in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Starting => "starting",
            Self::Downloading => "downloading",
            Self::Loading => "loading",
            Self::Warming => "warming",
            Self::Ready => "ready",
            Self::Idle => "idle",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Exited => "exited",
            Self::Failed => "failed",
            Self::Unverifiable => "unverifiable",
        }
    }

    /// Tells whether the workload has ended.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Exited | Self::Failed)
    }
}

/// One session of `list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionRow {
    /// For example `serve-1a2b3c4d`.
    pub session: String,
    /// The name a person gave it, or its recipe's.
    pub name: String,
    /// Kind of work.
    pub kind: Kind,
    /// PTY or tmux.
    pub host: HostKind,
    /// `local`, or the name of a machine.
    pub machine: String,
    /// `grant` (dies with its owner) or `background`.
    pub lifetime: String,
    /// How far it has come.
    pub phase: Phase,
    /// More about the phase, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// How much of the phase is done, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_pct: Option<f64>,
    /// Tokens a second, as the server said last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_s: Option<f64>,
    /// Requests that run now, where the server says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
    /// What to do about its failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggest: Option<Suggestion>,
    /// What it asks a person's attention for.
    #[serde(default)]
    pub attention: Option<Attention>,
    /// The workload's pid.
    pub pid: Option<i32>,
    /// The worst verdict among its members.
    pub verdict: VerdictKind,
    /// Seconds since the launch.
    pub uptime_s: Option<f64>,
    /// Percent of one core, summed over the tree.
    pub cpu_pct: Option<f64>,
    /// Resident memory in bytes, summed over the tree.
    pub rss_bytes: Option<u64>,
    /// GPU memory in bytes, summed over the tree.
    pub gpu_bytes: Option<u64>,
    /// TCP ports that members listen on; `None` where that is not known.
    pub ports: Option<Vec<u16>>,
    /// Exit status of the workload, once it has ended by itself.
    pub exit_code: Option<i32>,
    /// Name of the signal that ended the workload, for example `TERM`.
    pub signal: Option<String>,
    /// Its launcher was gone, and another manager has taken it over; or it was not launched by us.
    pub adopted: bool,
    /// The manager that owns it, where that is not this one.
    pub owner: Option<String>,
    /// When its ceiling ends it: seconds since the Unix epoch, for display.
    pub not_after: Option<f64>,
    /// Which containments hold.
    pub containment: Vec<String>,
    /// The masked command line.
    pub command: String,
    /// Working directory of the launch.
    pub cwd: Option<String>,
    /// Number of live members.
    pub processes: usize,
}

impl SessionRow {
    /// Returns why it is in its phase, as far as that is more than its exit status, its signal or the phase says.
    pub fn reason(&self) -> Option<&str> {
        let detail = self.detail.as_deref().filter(|detail| !detail.is_empty())?;
        if !self.phase.is_over() {
            return Some(detail);
        }
        let (head, rest) = detail.split_once(": ").map_or((detail, None), |(head, rest)| (head, Some(rest)));
        let known = ["exit status ", "ended by "].iter().any(|known| head.starts_with(known)) && !head.contains(';');
        if known || head == "stopped" { rest } else { Some(detail) }
    }

    /// Tells whether a stop has ended it, whoever was left alive on purpose.
    pub fn was_stopped(&self) -> bool {
        self.detail.as_deref().is_some_and(|detail| detail.starts_with("stopped"))
    }

    /// Tells whether it may end with the manager that lists it: it lives in a PTY of that one and runs, or has left somebody.
    /// Whom a stop has left alive on purpose stays.
    pub fn may_end_with_us(&self) -> bool {
        let has_left = self.processes > 0 && !self.was_stopped();
        self.host == HostKind::Pty && self.owner.is_none() && (!self.phase.is_over() || has_left)
    }

    /// Returns the row of a session of which no process is known.
    pub fn without_processes(session: &str, name: &str, kind: Kind, host: HostKind, phase: Phase) -> Self {
        Self {
            session: session.to_owned(),
            name: name.to_owned(),
            kind,
            host,
            machine: "local".into(),
            lifetime: if host == HostKind::Pty { "grant" } else { "background" }.into(),
            phase,
            detail: None,
            progress_pct: None,
            tokens_per_s: None,
            requests: None,
            suggest: None,
            attention: None,
            pid: None,
            verdict: VerdictKind::Gone,
            uptime_s: None,
            cpu_pct: None,
            rss_bytes: None,
            gpu_bytes: None,
            ports: None,
            exit_code: None,
            signal: None,
            adopted: false,
            owner: None,
            not_after: None,
            containment: Vec::new(),
            command: String::new(),
            cwd: None,
            processes: 0,
        }
    }
}

/// A process that looks like a model server and belongs to no session of ours: shown, never signalled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherServer {
    /// Process id.
    pub pid: Pid,
    /// Which server it looks like, for example `vllm`.
    pub server: String,
    /// Whose it is.
    pub user: Option<String>,
    /// TCP ports that it and those below it listen on; `None` where nobody can tell.
    pub ports: Option<Vec<u16>>,
    /// Resident memory of it and those below it, in bytes.
    pub rss_bytes: Option<u64>,
    /// The masked command line.
    pub command: String,
}

impl OtherServer {
    /// Returns its ports as they are shown, for example `:8080 :8081`.
    pub fn shown_ports(&self) -> String {
        self.ports.iter().flatten().map(|port| format!(":{port}")).collect::<Vec<_>>().join(" ")
    }
}

/// The answer to `tree`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tree {
    /// The members.
    pub processes: Vec<ProcessRow>,
    /// Processes with a member's command line that are no members.
    pub lookalikes: Vec<Bystander>,
    /// Members that came back to the warden and are only reported.
    pub escapees: Vec<Bystander>,
    /// Our own front and warden of the session: they leave by themselves, last.
    #[serde(default)]
    pub supervisors: Vec<ProcessRow>,
}

/// What `launch` takes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchRequest {
    /// Name of a recipe; or `command` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<String>,
    /// Arguments, or a line for `sh -c`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandLine>,
    /// With `command`: name of a recipe of which everything but the command holds, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
    /// Kind of work; the recipe's, else `shell`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// PTY or tmux; the recipe's, else by kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostKind>,
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables added to the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Value of `CUDA_VISIBLE_DEVICES`; an empty one takes the recipe's away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<String>,
    /// Path of a Python virtual environment; an empty one takes the recipe's away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub venv: Option<String>,
    /// Screen height.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
    /// Screen width.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
    /// Seconds between TERM and KILL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_s: Option<f64>,
    /// Seconds that it may live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_s: Option<f64>,
    /// Stops whoever holds the recipe's `exclusive` first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace: Option<bool>,
    /// Which computer; only `local` for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
}

impl LaunchRequest {
    /// Returns the name of the recipe that it is made from.
    pub fn base(&self) -> Option<&str> {
        self.recipe.as_deref().or(self.like.as_deref())
    }
}

/// A field of a launch, as errors name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LaunchField {
    /// `recipe`, or `like`.
    Recipe,
    /// `command`.
    Command,
    /// `name`.
    Name,
    /// `kind`.
    Kind,
    /// `host`.
    Host,
    /// `cwd`.
    Cwd,
    /// `gpus`.
    Gpus,
    /// `venv`.
    Venv,
    /// `env`.
    Env,
}

/// A command as people write it: a line for `sh -c`, or arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "command must be a string for sh -c or a list of strings")]
pub enum CommandLine {
    /// A line for `sh -c`.
    Line(String),
    /// Program and arguments.
    Argv(Vec<String>),
}

/// Returns a word as a shell takes it. What is masked is no word yet, and stays as it is; nor is there one with a NUL
/// in it (execve(2)).
fn quoted(word: &str) -> Cow<'_, str> {
    if word.contains(MASK) { Cow::Borrowed(word) } else { shlex::try_quote(word).unwrap_or(Cow::Borrowed(word)) }
}

impl CommandLine {
    /// Returns it as a person types it into a shell: pasted, it runs the same.
    pub fn shown(&self) -> String {
        match self {
            Self::Line(line) => line.clone(),
            Self::Argv(argv) => argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
        }
    }

    /// Returns it with its secrets masked.
    #[must_use]
    pub fn masked(&self) -> Self {
        match self {
            Self::Line(line) => Self::Line(text::mask_text(line).into_owned()),
            Self::Argv(argv) => Self::Argv(text::mask_argv(argv)),
        }
    }

    /// Returns the arguments to execute.
    pub fn argv(&self) -> Vec<String> {
        match self {
            Self::Line(line) => vec!["sh".into(), "-c".into(), line.clone()],
            Self::Argv(argv) => argv.clone(),
        }
    }
}
