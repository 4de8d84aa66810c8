//! The one `Command` type behind the screen, the batch and the subcommands, and its answers.
//!
//! Pure: parsing a request and serializing an answer. `runtime` carries commands out.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::attention::{Noted, NotifyRequest};
use super::config::RecipeRow;
use super::contract::{HostKind, LaunchRequest, OtherServer, Phase, SessionRow, Tree};
use super::cookbook::ledger::Claimed;
use super::draft::{Draft, SaveRequest, Saved, TmuxRow};
use super::why::Why;
use super::wording::{of_field, plain};
use crate::lifecycle::identity::{Identity, Pid, StartToken};
use crate::lifecycle::journal::Entries;
use crate::lifecycle::plan::Choice;
use crate::lifecycle::receipt::{ProcessRow, Receipt};
use crate::lifecycle::store::Quarantined;
use crate::lifecycle::tether::{Last, TmuxRecord};

/// Something that a person or a script asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Who answers, and what it can do.
    Hello {},
    /// Starts a session.
    Launch(LaunchRequest),
    /// Waits until a session has come to something.
    Wait(WaitRequest),
    /// All sessions.
    List {
        /// Also the model servers that are none of ours.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        others: Option<bool>,
    },
    /// The processes of a session.
    Tree {
        /// Which session.
        session: String,
    },
    /// Everything that decided about one process of a session.
    Why {
        /// Which session.
        session: String,
        /// Which process.
        pid: Pid,
    },
    /// What the terminal of a session shows.
    Screen {
        /// Which session.
        session: String,
        /// How many lines of history to put before it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scrollback: Option<usize>,
    },
    /// Types into a session.
    Send {
        /// Which session.
        session: String,
        /// Literal text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// Keys by name, for example `C-c` or `Enter`; sent after the text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keys: Option<Vec<String>>,
    },
    /// Sets the size of a session's terminal.
    Resize {
        /// Which session.
        session: String,
        /// Height.
        rows: u16,
        /// Width.
        cols: u16,
    },
    /// The output of a session so far.
    Logs {
        /// Which session; with `receipts` all without it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// Only the last lines, or receipts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tail: Option<usize>,
        /// The journal of receipts instead of the output.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        receipts: Option<bool>,
    },
    /// Stops a session and starts it again.
    Restart(RestartRequest),
    /// Ends a session and everything that belongs to it.
    Stop(StopRequest),
    /// Holds a stop that is under way before KILL, for ten minutes in all at most.
    Hold {
        /// Which session.
        session: String,
        /// Lets it go on instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        release: Option<bool>,
    },
    /// Ends what earlier stops left behind.
    Sweep(SweepRequest),
    /// What is left of sessions without a manager.
    Orphans(OrphansRequest),
    /// Takes in a tmux session that was not launched by us; signals nobody.
    Adopt {
        /// Which one.
        tmux: TmuxRef,
    },
    /// The tmux sessions that could be adopted.
    TmuxSessions {},
    /// What a session was launched with.
    Draft {
        /// Which session.
        session: String,
    },
    /// Writes a recipe into the user's configuration.
    Save(SaveRequest),
    /// Lets a session live longer.
    Extend {
        /// Which session.
        session: String,
        /// Seconds from now.
        ceiling_s: f64,
    },
    /// Forgets a session that is over; its log stays.
    Dismiss {
        /// Which session.
        session: String,
    },
    /// Says for an agent that it waits, works, or is done.
    Notify(NotifyRequest),
    /// How this host stands.
    Doctor {},
    /// What can be launched.
    Recipes {},
    /// Asks for event lines from now on.
    Subscribe {},
    /// Ends the manager: PTY sessions are torn down, tmux sessions stay.
    Quit {},
}

impl Command {
    /// Reads a command from the fields of a request.
    ///
    /// # Errors
    /// Names the field that is wrong.
    pub fn parse(name: &str, fields: Map<String, Value>) -> Result<Self, String> {
        let mut tagged = Map::new();
        tagged.insert(name.to_owned(), Value::Object(fields));
        serde_path_to_error::deserialize(Value::Object(tagged)).map_err(|error| {
            let path = error.path().to_string();
            let why = error.inner().to_string();
            match path.strip_prefix(name).and_then(|rest| rest.strip_prefix('.')) {
                Some(field) => format!("{name}: {}", of_field(field, &plain(&why, "word"))),
                None if why.starts_with("unknown variant ") => plain(&why, "command"),
                None => format!("{name}: {}", plain(&why, "word")),
            }
        })
    }
}

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WaitFor {
    /// It answers requests.
    Ready,
    /// Its workload has ended.
    Exit,
    /// None of its processes is left.
    Gone,
    /// Its output matches a regular expression.
    Output,
}

/// Fields of `wait`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitRequest {
    /// Which session.
    pub session: String,
    /// What to wait for.
    #[serde(rename = "for")]
    pub what: WaitFor,
    /// With `output`: what to look for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// Seconds; without it, for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
}

/// Fields of `stop`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopRequest {
    /// Which session.
    pub session: String,
    /// Seconds between the first signal and KILL; the recipe's, else 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_s: Option<f64>,
    /// KILL at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// Seconds after which the stop must have answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
    /// Signals nothing and answers with the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /// The identities of the preview that a person confirmed: newcomers that are not `tree` make
    /// the stop answer `refused` without a signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<Vec<Identity>>,
    /// Kept members to end all the same, in this stop alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_kept: Option<Vec<Choice>>,
}

/// Fields of `restart`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestartRequest {
    /// Which session.
    pub session: String,
    /// The identities of the preview that a person confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<Vec<Identity>>,
    /// Kept members to end all the same, in this stop alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_kept: Option<Vec<Choice>>,
    /// What is started in its place; as it was launched without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<LaunchRequest>,
    /// Signals and starts nothing: looks whether the launch could come true, and answers with the plan of the stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
}

/// Fields of `sweep`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepRequest {
    /// Which session; all that are over without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Signals nothing and answers with the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /// The identities of the preview that a person confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<Vec<Identity>>,
    /// Kept members of the session to end all the same, in this sweep alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_kept: Option<Vec<Choice>>,
}

/// Fields of `orphans`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrphansRequest {
    /// Ends what is left of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reap: Option<bool>,
    /// Takes over those that are alive and whose manager is gone; signals nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopt: Option<bool>,
    /// Only this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// With `reap`: signals nothing and answers with the plans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /// With `reap`: the identities of the preview that a person confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<Vec<Identity>>,
    /// With `reap`: kept members of the session to end all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_kept: Option<Vec<Choice>>,
}

/// The answer to `hold`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// The stop does not go on to KILL.
    pub held: bool,
    /// For so many seconds at the longest.
    pub left_s: Option<f64>,
}

/// A tmux session as a person names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TmuxRef {
    /// Name or path of the server's socket; without it Cookbook's server and our own are looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
    /// `$N`, or the whole name.
    pub session: String,
}

/// What came of the adoption of one session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adopted {
    /// Which session.
    pub session: String,
    /// It is this manager's own now.
    pub adopted: bool,
    /// What was done, or why nothing was.
    pub reason: String,
}

/// Where a tmux session is to be found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TmuxPlace {
    /// Path of the server's socket.
    pub socket: String,
    /// `$N`.
    pub session_id: String,
    /// `%N`.
    pub pane_id: String,
}

impl From<&TmuxRecord> for TmuxPlace {
    fn from(record: &TmuxRecord) -> Self {
        Self { socket: record.socket.clone(), session_id: record.session_id.clone(), pane_id: record.pane_id.clone() }
    }
}

/// The answer to `launch` and `adopt`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launched {
    /// The session's id.
    pub session: String,
    /// Where it lives.
    pub host: HostKind,
    /// The workload's pid.
    pub pid: i32,
    /// The workload's start token.
    pub start_token: StartToken,
    /// Where it is in tmux.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmux: Option<TmuxPlace>,
    /// Why the host differs from the one asked for, and the like.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The answer to `wait`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waited {
    /// How far the session has come.
    pub phase: Phase,
    /// Exit status of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Signal that ended the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// The text that matched.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub matched: Option<String>,
}

/// The answer to `screen`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenText {
    /// Height.
    pub rows: u16,
    /// Width.
    pub cols: u16,
    /// Text of each row, history first, trailing blanks cut.
    pub lines: Vec<String>,
    /// Row and column, from 0, of the visible part.
    pub cursor: (u16, u16),
}

/// A session without a manager, or one that a stop did not end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Orphan {
    /// What `list` says of it.
    #[serde(flatten)]
    pub row: SessionRow,
    /// Seconds since its launch.
    pub age_s: f64,
    /// Why it is still here.
    pub reason: String,
    /// Who is left of it, as far as anybody can tell.
    pub left: Vec<ProcessRow>,
    /// The last verdict that was written down.
    pub last: Option<Last>,
}

impl Orphan {
    /// Returns what was left alive on purpose, where nobody else is left.
    pub fn kept(&self) -> Option<Vec<&str>> {
        let kept: Option<Vec<&str>> = self.left.iter().map(|row| row.kept.as_deref()).collect();
        kept.filter(|kept| !kept.is_empty())
    }
}

/// Counters of a sweep of the records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReapReport {
    /// Records looked at.
    pub seen: usize,
    /// Verified and ended.
    pub torn_down: usize,
    /// Nothing was left.
    pub already_gone: usize,
    /// The pids name other processes now; nobody was signalled.
    pub foreign: usize,
    /// Nobody can tell; kept.
    pub unverifiable: usize,
    /// Something is left; kept.
    pub failed: usize,
    /// Looked after by a manager or by their own ceiling.
    pub kept: usize,
    /// Not ours to judge, or not readable; kept.
    pub quarantined: usize,
    /// Sessions that their wardens ended while nobody watched, each with its reason.
    pub ended: Vec<String>,
    /// How the process table was read.
    pub inspector: String,
}

/// The answer to `orphans`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Orphans {
    /// Who is left.
    pub orphans: Vec<Orphan>,
    /// Records that are left alone.
    pub quarantined: Vec<Quarantined>,
    /// With `reap`: what was observed, or with `dry_run` the plans.
    pub swept: Vec<Receipt>,
    /// With `adopt`: what came of it, for each session whose manager is gone.
    pub adopted: Vec<Adopted>,
    /// What Cookbook has written down of processes: shown, and never acted on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cookbook: Vec<Claimed>,
    /// Counters.
    pub report: ReapReport,
    /// It was asked to end them.
    #[serde(skip)]
    pub reaped: bool,
    /// It was asked about one session.
    #[serde(skip)]
    pub only: bool,
    /// It was asked to adopt them.
    #[serde(skip)]
    pub adopts: bool,
}

impl Orphans {
    /// Tells whether a reaping, if one was asked for, left nobody behind, and an adoption refused nobody.
    pub fn is_clean(&self) -> bool {
        let swept = self.swept.iter().all(|receipt| receipt.plan.is_some() || receipt.is_clean());
        swept
            && self.adopted.iter().all(|row| row.adopted)
            && (!self.reaped || self.report.failed + self.report.unverifiable == 0)
            // Whoever asks for all of them is told that a record could not be read.
            && (!self.reaped || self.only || self.quarantined.is_empty())
    }
}

/// One line of `doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What was looked at.
    pub name: String,
    /// `ok`, `warn` or `fail`.
    pub state: CheckState,
    /// What was seen.
    pub detail: String,
    /// The way out, where it is not ok.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way_out: Option<String>,
}

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    /// As it should be.
    Ok,
    /// Works, with less certainty or comfort.
    Warn,
    /// Does not work.
    Fail,
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To `hello`.
    Hello(Value),
    /// To `launch` and `adopt`.
    Launched(Launched),
    /// To `wait`.
    Waited(Waited),
    /// To `list`: the sessions, the records that are left alone, if asked for the servers that are none of ours, and
    /// what else a person should know.
    List(Vec<SessionRow>, Vec<Quarantined>, Option<Vec<OtherServer>>, Vec<String>),
    /// To `tree`.
    Tree(Tree),
    /// To `why`.
    Why(Box<Why>),
    /// To `screen`.
    Screen(ScreenText),
    /// To `logs`.
    Logs(Vec<String>),
    /// To `logs` with `receipts`.
    Journal(Box<Entries>),
    /// To `stop` and `sweep`.
    Receipt(Box<Receipt>),
    /// To `restart`.
    Restarted {
        /// What the stop observed.
        receipt: Box<Receipt>,
        /// The new session.
        launched: Launched,
    },
    /// To `hold`.
    Held(Held),
    /// To `orphans`.
    Orphans(Box<Orphans>),
    /// To `extend`: seconds since the Unix epoch until which it may live, for display.
    Extended(f64),
    /// To `doctor`.
    Doctor(Vec<Check>),
    /// To `recipes`.
    Recipes(Vec<RecipeRow>),
    /// To `tmux_sessions`: those there are, and which servers could not be asked.
    TmuxSessions(Vec<TmuxRow>, Vec<String>),
    /// To `draft`.
    Draft(Box<Draft>),
    /// To `save`.
    Saved(Saved),
    /// To `notify`.
    Noted(Noted),
    /// To everything else.
    Done,
}

impl Answer {
    /// Returns the `result` of a batch answer.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Hello(value) => value.clone(),
            Self::Launched(launched) => json!(launched),
            Self::Waited(waited) => json!(waited),
            Self::List(sessions, quarantined, others, notes) => {
                let mut value = json!({ "sessions": sessions });
                if !quarantined.is_empty() {
                    value["quarantined"] = json!(quarantined);
                }
                if let Some(others) = others {
                    value["others"] = json!(others);
                }
                if !notes.is_empty() {
                    value["notes"] = json!(notes);
                }
                value
            }
            Self::Tree(tree) => json!(tree),
            Self::Why(why) => json!(why),
            Self::Screen(screen) => json!(screen),
            Self::Logs(lines) => json!({ "lines": lines }),
            Self::Journal(entries) => json!(entries),
            Self::Receipt(receipt) => json!(receipt),
            Self::Restarted { receipt, launched } => {
                let mut value = json!(launched);
                value["receipt"] = json!(receipt);
                value
            }
            Self::Held(held) => json!(held),
            Self::Orphans(orphans) => json!(orphans),
            Self::Extended(not_after) => json!({ "not_after": not_after }),
            Self::Doctor(checks) => json!({ "checks": checks }),
            Self::TmuxSessions(sessions, notes) => json!({ "sessions": sessions, "notes": notes }),
            Self::Draft(draft) => draft.to_value(),
            Self::Saved(saved) => json!(saved),
            Self::Recipes(recipes) => json!({ "recipes": recipes }),
            Self::Noted(noted) => json!(noted),
            Self::Done => json!({}),
        }
    }
}
