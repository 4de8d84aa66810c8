//! The command line. Parsing only; `start` acts on it.

mod launch;
mod read;

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};

use super::attention::{NotifyRequest, Says};
use super::command::{
    Command, OrphansRequest, RestartRequest, StopRequest, SweepRequest, TmuxRef, WaitFor, WaitRequest,
};
use super::wording::plain;
use crate::lifecycle::identity::Pid;
use crate::lifecycle::inspect::InspectorKind;
use crate::lifecycle::plan::Choice;

pub use launch::{Launch, Save};

/// A terminal cockpit for model servers and agent shells that never signals the wrong process.
///
/// Without a subcommand it opens the screen.
#[derive(Debug, Parser)]
#[command(name = "cookbook-tui", version, max_term_width = 100)]
pub struct Args {
    #[expect(clippy::doc_markdown, reason = "it is shown as it is written")]
    /// Use this configuration instead of the user's and the directory's (it is trusted) [variable: COOKBOOK_TUI_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[expect(clippy::doc_markdown, reason = "it is shown as it is written")]
    /// Keep records, logs and trust here [variable: COOKBOOK_TUI_STATE_DIR]
    #[arg(long, global = true, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Name of our tmux server's socket [default: cookbook]
    #[arg(long, global = true, value_name = "NAME")]
    pub tmux_socket: Option<String>,
    /// How to read the process table: procfs, ps or none
    #[arg(long, global = true, value_name = "KIND")]
    pub inspector: Option<InspectorKind>,
    /// What to write to the log in the state directory: error, warn, info, debug, trace
    #[arg(long, global = true, value_name = "LEVEL", default_value = "warn")]
    pub log_level: tracing::Level,
    /// Use no colours
    #[arg(long, global = true)]
    pub no_color: bool,
    /// Read requests as JSON Lines from FILE (- is standard input) and answer on standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub batch: Option<PathBuf>,
    /// Print lines instead of a screen and take typed commands, for screen readers and terminals that only print
    #[arg(long, conflicts_with = "batch")]
    pub plain: bool,
    /// With --batch: stop at the first failure
    #[arg(long, requires = "batch")]
    pub fail_fast: bool,
    /// What to do instead of opening the screen
    #[command(subcommand)]
    pub action: Option<Action>,
}

/// A line of the plain mode.
#[derive(Debug, Parser)]
#[command(name = "", no_binary_name = true, disable_version_flag = true)]
pub struct Typed {
    /// What to do
    #[command(subcommand)]
    pub action: Action,
}

/// A subcommand.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// List the sessions, and model servers that are none of ours
    Ls(Ls),
    /// Launch a recipe or a command
    Launch(Launch),
    /// Stop a session and everything that belongs to it
    Stop(Stop),
    /// Stop a session and start it again
    Restart(Restart),
    /// Hold a stop that is under way before KILL, or let it go on
    Hold(Hold),
    /// End what earlier stops left behind
    Sweep(Sweep),
    /// Show the processes of a session with their verdicts
    Tree(Session),
    /// Show everything that decided about one process of a session
    Why(Why),
    /// Show what the terminal of a session shows
    Screen(Screen),
    /// Type into a session
    Send(Send),
    /// Show the output of a session
    Logs(Logs),
    /// Wait until a session has come to something
    Wait(Wait),
    /// Take in a tmux session that was not launched by cookbook-tui; nobody is signalled
    Adopt(Adopt),
    /// Attach this terminal to a session in tmux
    Attach(Session),
    /// Let a session live longer
    Extend(Extend),
    /// Show what a session was launched with
    Draft(Session),
    /// Write a recipe into the user's configuration; its comments and its layout stay
    Save(Save),
    /// Show what is left of sessions without a manager
    Orphans(Orphans),
    /// Forget a session that is over; its log stays
    Dismiss(Session),
    /// Say that an agent waits, works or is done; for its own hooks, inside a session
    Notify(Notify),
    /// Look at this host: what works, what does not, and the way out
    Doctor(Json),
    /// List what can be launched
    Recipes(Json),
    /// Trust the cookbook.toml of a directory, once for this content
    Trust(Trust),
    /// List the keys of the screen, in a form that the configuration takes
    Keys(Json),
    /// Print the JSON Schema of the batch protocol
    Schema(Json),
    /// Print completions for a shell
    Completions(Completions),
    /// Print the manual page
    Man(Json),
}

/// Output for programs.
#[derive(Clone, Copy, Debug, ClapArgs)]
pub struct Json {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `ls`.
#[derive(Clone, Copy, Debug, ClapArgs)]
pub struct Ls {
    /// With --json: also the model servers that are none of ours
    #[arg(long)]
    pub others: bool,
    /// Output
    #[command(flatten)]
    pub output: Json,
}

/// A session to act on.
#[derive(Debug, ClapArgs)]
pub struct Session {
    /// Id or unique name
    pub session: String,
    /// Output
    #[command(flatten)]
    pub output: Json,
}

/// Arguments of `why`.
#[derive(Debug, ClapArgs)]
pub struct Why {
    /// Id or unique name
    pub session: String,
    /// The process
    #[arg(value_parser = parse_pid)]
    pub pid: Pid,
    /// Output
    #[command(flatten)]
    pub output: Json,
}

/// Arguments of `stop`.
#[derive(Debug, ClapArgs)]
pub struct Stop {
    /// Id or unique name
    pub session: String,
    /// Seconds between TERM and KILL
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub grace: Option<f64>,
    /// KILL at once
    #[arg(long)]
    pub force: bool,
    /// Give up after this many seconds
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub timeout: Option<f64>,
    /// Only show what would be signalled
    #[arg(long)]
    pub dry_run: bool,
    /// End this kept process, too (an agent, a nested server); only in this stop
    #[arg(long, value_name = "PID", value_parser = parse_pid)]
    pub end_kept: Vec<Pid>,
    /// Output
    #[command(flatten)]
    pub output: Json,
}

/// Arguments of `restart`.
#[derive(Debug, ClapArgs)]
pub struct Restart {
    /// Id or unique name
    pub session: String,
    /// Only show what would be signalled
    #[arg(long)]
    pub dry_run: bool,
    /// End this kept process, too (an agent, a nested server); only in this stop
    #[arg(long, value_name = "PID", value_parser = parse_pid)]
    pub end_kept: Vec<Pid>,
    /// Output
    #[command(flatten)]
    pub output: Json,
}

/// Arguments of `sweep`.
#[derive(Debug, ClapArgs)]
pub struct Sweep {
    /// Id or unique name; all sessions that are over without it
    pub session: Option<String>,
    /// Only show what would be signalled
    #[arg(long)]
    pub dry_run: bool,
    /// End this kept process of the session, too; only in this sweep
    #[arg(long, value_name = "PID", value_parser = parse_pid, requires = "session")]
    pub end_kept: Vec<Pid>,
    /// Output
    #[command(flatten)]
    pub output: Json,
}

/// Arguments of `extend`.
#[derive(Debug, ClapArgs)]
pub struct Extend {
    /// Id or unique name
    pub session: String,
    /// Seconds from now
    #[arg(allow_negative_numbers = true)]
    pub seconds: f64,
    /// Output
    #[command(flatten)]
    pub output: Json,
}

/// Arguments of `hold`.
#[derive(Debug, ClapArgs)]
pub struct Hold {
    /// Id or unique name
    pub session: String,
    /// Let it go on
    #[arg(long)]
    pub release: bool,
    /// Output
    #[command(flatten)]
    pub output: Json,
}

/// Arguments of `orphans`.
#[derive(Debug, ClapArgs)]
pub struct Orphans {
    /// Id or unique name; all without it
    pub session: Option<String>,
    /// End what is verified; the targets are printed first
    #[arg(long)]
    pub reap: bool,
    /// Take over those that are alive and whose manager is gone; nobody is signalled
    #[arg(long, conflicts_with = "reap")]
    pub adopt: bool,
    /// With --reap: only show what would be signalled
    #[arg(long, requires = "reap")]
    pub dry_run: bool,
    /// With --reap: end this kept process of the session, too
    #[arg(long, value_name = "PID", value_parser = parse_pid, requires = "reap", requires = "session")]
    pub end_kept: Vec<Pid>,
    /// Output
    #[command(flatten)]
    pub output: Json,
}

/// Arguments of `adopt`.
#[derive(Debug, ClapArgs)]
pub struct Adopt {
    /// Its id ($N) or its whole name in tmux
    #[arg(required_unless_present = "list")]
    pub session: Option<String>,
    /// List the sessions that could be adopted
    #[arg(long, conflicts_with = "session")]
    pub list: bool,
    /// Name or path of the tmux server's socket [default: Cookbook's, then our own; with --list also your usual one]
    #[arg(long)]
    pub socket: Option<String>,
    /// Output
    #[command(flatten)]
    pub output: Json,
}

/// Arguments of `screen`.
#[derive(Debug, ClapArgs)]
pub struct Screen {
    /// Id or unique name
    pub session: String,
    /// Lines of history to show before it
    #[arg(long, value_name = "LINES")]
    pub scrollback: Option<usize>,
    /// Output
    #[command(flatten)]
    pub output: Json,
}

/// Arguments of `send`.
#[derive(Debug, ClapArgs)]
pub struct Send {
    /// Id or unique name
    pub session: String,
    /// Literal text
    pub text: Option<String>,
    /// Key by name, sent after the text, for example Enter or C-c
    #[arg(short, long = "key", value_name = "KEY")]
    pub keys: Vec<String>,
    /// Output
    #[command(flatten)]
    pub output: Json,
}

/// Arguments of `logs`.
#[derive(Debug, ClapArgs)]
pub struct Logs {
    /// Id or unique name; with --receipts all without it
    #[arg(required_unless_present = "receipts")]
    pub session: Option<String>,
    /// Only the last lines, or receipts
    #[arg(long, value_name = "LINES")]
    pub tail: Option<usize>,
    /// Go on as it grows
    #[arg(short, long, conflicts_with = "receipts")]
    pub follow: bool,
    /// What every stop, sweep and reap observed, with totals
    #[arg(long)]
    pub receipts: bool,
    /// Output
    #[command(flatten)]
    pub output: Json,
}

/// Arguments of `wait`.
#[derive(Debug, ClapArgs)]
pub struct Wait {
    /// Id or unique name
    pub session: String,
    /// What to wait for: ready, exit, gone or output
    #[arg(long = "for", value_parser = parse_word::<WaitFor>)]
    pub what: WaitFor,
    /// With output: what to look for
    #[arg(long)]
    pub regex: Option<String>,
    /// Seconds to wait at most
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub timeout: Option<f64>,
    /// Output
    #[command(flatten)]
    pub output: Json,
}

/// Arguments of `notify`.
#[derive(Debug, ClapArgs)]
pub struct Notify {
    /// What it says: waiting, working or done
    #[arg(long, value_parser = parse_word::<Says>)]
    pub state: Says,
    /// More, in a line; - reads it from standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub message: Option<String>,
    /// Id or unique name of the session [default: the one that it is called in]
    #[arg(long)]
    pub session: Option<String>,
    /// Output
    #[command(flatten)]
    pub output: Json,
}

/// Arguments of `completions`.
#[derive(Clone, Copy, Debug, ClapArgs)]
pub struct Completions {
    /// Which shell
    pub shell: clap_complete::Shell,
    /// Output
    #[command(flatten)]
    pub output: Json,
}

/// Arguments of `trust`.
#[derive(Debug, ClapArgs)]
pub struct Trust {
    /// The file [default: the cookbook.toml of this directory or the nearest above]
    pub file: Option<PathBuf>,
    /// Output
    #[command(flatten)]
    pub output: Json,
}

fn parse_word<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|error: serde_json::Error| plain(&error.to_string(), "word"))
}

fn parse_pid(text: &str) -> Result<Pid, String> {
    let raw: i64 = text.parse().map_err(|_| "give the pid of a process".to_owned())?;
    Pid::try_from(raw)
}

fn choices(pids: &[Pid]) -> Option<Vec<Choice>> {
    (!pids.is_empty()).then(|| pids.iter().copied().map(Choice::Pid).collect())
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("give NAME=VALUE".into()),
    }
}

impl Action {
    /// Tells whether answers and errors are to be JSON.
    pub fn wants_json(&self) -> bool {
        match self {
            Self::Trust(trust) => trust.output.json,
            Self::Attach(of) => of.output.json,
            Self::Keys(output) | Self::Schema(output) | Self::Man(output) => output.json,
            Self::Completions(of) => of.output.json,
            Self::Ls(_)
            | Self::Launch(_)
            | Self::Stop(_)
            | Self::Restart(_)
            | Self::Sweep(_)
            | Self::Tree(_)
            | Self::Why(_)
            | Self::Screen(_)
            | Self::Send(_)
            | Self::Logs(_)
            | Self::Wait(_)
            | Self::Adopt(_)
            | Self::Extend(_)
            | Self::Hold(_)
            | Self::Draft(_)
            | Self::Save(_)
            | Self::Orphans(_)
            | Self::Dismiss(_)
            | Self::Notify(_)
            | Self::Doctor(_)
            | Self::Recipes(_) => self.command().is_some_and(|(_, json)| json),
        }
    }

    /// Returns the socket of the one tmux server whose sessions are to be listed.
    pub fn listed(&self) -> Option<&str> {
        if let Self::Adopt(adopt) = self { adopt.socket.as_deref().filter(|_| adopt.list) } else { None }
    }

    /// Returns the command behind a subcommand, where it is one of the runtime's, and whether its
    /// answer is to be JSON.
    pub fn command(&self) -> Option<(Command, bool)> {
        let (command, output) = match self {
            Self::Ls(ls) => {
                let others = (ls.others || !ls.output.json).then_some(true);
                (Command::List { others }, ls.output)
            }
            Self::Launch(launch) => (Command::Launch(launch.request()), launch.output),
            Self::Stop(stop) => (Command::Stop(stop.request()), stop.output),
            Self::Restart(of) => {
                let request = RestartRequest {
                    session: of.session.clone(),
                    end_kept: choices(&of.end_kept),
                    dry_run: Some(of.dry_run),
                    ..RestartRequest::default()
                };
                (Command::Restart(request), of.output)
            }
            Self::Sweep(sweep) => {
                let request = SweepRequest {
                    session: sweep.session.clone(),
                    dry_run: Some(sweep.dry_run),
                    confirm: None,
                    end_kept: choices(&sweep.end_kept),
                };
                (Command::Sweep(request), sweep.output)
            }
            Self::Tree(of) => (Command::Tree { session: of.session.clone() }, of.output),
            Self::Why(of) => (Command::Why { session: of.session.clone(), pid: of.pid }, of.output),
            Self::Screen(screen) => {
                (Command::Screen { session: screen.session.clone(), scrollback: screen.scrollback }, screen.output)
            }
            Self::Send(send) => {
                let keys = (!send.keys.is_empty()).then(|| send.keys.clone());
                (Command::Send { session: send.session.clone(), text: send.text.clone(), keys }, send.output)
            }
            Self::Logs(logs) => {
                let receipts = logs.receipts.then_some(true);
                let command = Command::Logs { session: logs.session.clone(), tail: logs.tail, receipts };
                (command, logs.output)
            }
            Self::Wait(wait) => {
                let request = WaitRequest {
                    session: wait.session.clone(),
                    what: wait.what,
                    regex: wait.regex.clone(),
                    timeout_s: wait.timeout,
                };
                (Command::Wait(request), wait.output)
            }
            Self::Adopt(adopt) => match &adopt.session {
                Some(session) => {
                    let tmux = TmuxRef { socket: adopt.socket.clone(), session: session.clone() };
                    (Command::Adopt { tmux }, adopt.output)
                }
                None => (Command::TmuxSessions {}, adopt.output),
            },
            Self::Draft(of) => (Command::Draft { session: of.session.clone() }, of.output),
            Self::Save(save) => (Command::Save(save.request()), save.output),
            Self::Hold(hold) => {
                let (session, release) = (hold.session.clone(), hold.release.then_some(true));
                (Command::Hold { session, release }, hold.output)
            }
            Self::Extend(extend) => {
                let command = Command::Extend { session: extend.session.clone(), ceiling_s: extend.seconds };
                (command, extend.output)
            }
            Self::Orphans(orphans) => {
                let request = OrphansRequest {
                    reap: Some(orphans.reap),
                    adopt: Some(orphans.adopt),
                    session: orphans.session.clone(),
                    dry_run: Some(orphans.dry_run),
                    end_kept: choices(&orphans.end_kept),
                    ..OrphansRequest::default()
                };
                (Command::Orphans(request), orphans.output)
            }
            Self::Dismiss(of) => (Command::Dismiss { session: of.session.clone() }, of.output),
            Self::Notify(notify) => {
                let (session, message) = (notify.session.clone(), notify.message.clone());
                (Command::Notify(NotifyRequest { session, state: notify.state, message }), notify.output)
            }
            Self::Doctor(output) => (Command::Doctor {}, *output),
            Self::Recipes(output) => (Command::Recipes {}, *output),
            Self::Attach(_)
            | Self::Trust(_)
            | Self::Keys(_)
            | Self::Schema(_)
            | Self::Completions(_)
            | Self::Man(_) => return None,
        };
        Some((command, output.json))
    }
}

impl Stop {
    fn request(&self) -> StopRequest {
        StopRequest {
            session: self.session.clone(),
            grace_s: self.grace,
            force: Some(self.force),
            timeout_s: self.timeout,
            dry_run: Some(self.dry_run),
            confirm: None,
            end_kept: choices(&self.end_kept),
        }
    }
}
