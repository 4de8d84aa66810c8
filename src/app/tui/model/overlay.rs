//! The dialogs. Pure data.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::app::command::{Check, Command, Orphans, StopRequest, SweepRequest};
use crate::app::contract::{CommandLine, HostKind, Kind, LaunchRequest};
use crate::app::error::{AppError, ErrorKind};
use crate::lifecycle::identity::Identity;
use crate::lifecycle::receipt::{PlanRow, Receipt};

use super::super::seam::Ticket;
use super::field::Field;

/// A dialog.
#[derive(Clone, Debug, PartialEq)]
pub enum Overlay {
    /// What a stop, a sweep or a restart would do.
    Preview(Preview),
    /// Something to read.
    Reader(Reader),
    /// The launch menu and its command line.
    Launch(Launch),
    /// An error.
    Error(ErrorBox),
    /// The question before the end.
    Quit(QuitBox),
}

/// What a preview leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Stop.
    Stop,
    /// Stop with KILL at once.
    Force,
    /// Sweep.
    Sweep,
    /// Stop and start again.
    Restart,
}

impl Act {
    /// Returns the verb.
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Stop => "Stop",
            Self::Force => "Force stop",
            Self::Sweep => "Sweep",
            Self::Restart => "Restart",
        }
    }

    /// Returns the command. A dry run signals nothing and answers with the plan; the real one
    /// signals exactly the confirmed identities.
    pub(in super::super) fn command(self, session: Option<&str>, confirm: Option<Vec<Identity>>) -> Command {
        let dry_run = confirm.is_none().then_some(true);
        let session = session.map(str::to_owned);
        match self {
            Self::Sweep => Command::Sweep(SweepRequest { session, dry_run, confirm }),
            Self::Restart if confirm.is_some() => Command::Restart { session: session.unwrap_or_default(), confirm },
            Self::Stop | Self::Force | Self::Restart => Command::Stop(StopRequest {
                session: session.unwrap_or_default(),
                force: (self == Self::Force).then_some(true),
                dry_run,
                confirm,
                ..StopRequest::default()
            }),
        }
    }
}

/// Returns the command that tells what a stop of a session would do.
pub(in super::super) fn dry_run(session: &str) -> Command {
    Act::Stop.command(Some(session), None)
}

/// What a stop, a sweep or a restart would do, before it does.
#[derive(Clone, Debug, PartialEq)]
pub struct Preview {
    /// What is asked for.
    pub act: Act,
    /// Which session; `None` sweeps all that are over.
    pub session: Option<String>,
    /// The name of the session.
    pub name: String,
    /// The answer of the dry run; `None` while it is under way.
    pub plan: Option<Box<Receipt>>,
    /// Why it was opened again.
    pub note: Option<String>,
    /// First line that is shown.
    pub scroll: usize,
    /// The plan has been on the screen: only then it can be confirmed.
    pub drawn: bool,
    /// A preview that opened by itself cannot be confirmed before, so that a key meant for
    /// something else does not.
    pub not_before: Option<Instant>,
    /// The dry run.
    pub(in super::super) ticket: Ticket,
}

impl Preview {
    /// Returns the rows that would be signalled.
    pub fn targets(&self) -> impl Iterator<Item = &PlanRow> {
        let plan = self.plan.as_ref().and_then(|receipt| receipt.plan.as_ref());
        plan.into_iter().flatten().filter(|row| row.signal.is_some())
    }

    /// Returns the identities that are shown as to be signalled.
    pub fn identities(&self) -> Vec<Identity> {
        self.targets()
            .filter_map(|row| Some(Identity { pid: row.pid, token: row.start_token.clone()?, pidfd_inode: None }))
            .collect()
    }
}

/// Something to read.
#[derive(Clone, Debug, PartialEq)]
pub struct Reader {
    /// What.
    pub reading: Reading,
    /// First line that is shown.
    pub scroll: usize,
}

/// What is read.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// All keys.
    Help,
    /// What has happened.
    Events,
    /// What a stop or a sweep observed.
    Receipt(Box<Receipt>),
    /// What is left of sessions without a manager.
    Orphans(Box<Orphans>),
    /// How this host stands.
    Doctor(Vec<Check>),
}

/// The launch menu.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Launch {
    /// Name of the selected recipe; the first one without it.
    pub recipe: Option<String>,
    /// First line that is shown.
    pub top: usize,
    /// The command line has the keys.
    pub typing: bool,
    /// The command line.
    pub line: Field,
    /// Kind of the typed command.
    pub kind: Option<Kind>,
    /// Host of the typed command; by kind without it.
    pub host: Option<HostKind>,
    /// Why the last key did nothing.
    pub note: Option<String>,
}

impl Launch {
    /// Returns the kind of the typed command.
    pub fn kind(&self) -> Kind {
        self.kind.unwrap_or(Kind::Shell)
    }

    /// Returns what the typed command is launched with.
    pub(in super::super) fn request(&self, rows: u16, cols: u16) -> LaunchRequest {
        LaunchRequest {
            command: Some(CommandLine::Line(self.line.text().trim().to_owned())),
            kind: Some(self.kind()),
            host: self.host,
            rows: Some(rows),
            cols: Some(cols),
            ..LaunchRequest::default()
        }
    }
}

/// An error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorBox {
    /// What was tried.
    pub title: String,
    /// What went wrong.
    pub error: AppError,
}

impl ErrorBox {
    /// Returns the kind of the error in words.
    pub const fn kind(&self) -> &'static str {
        match self.error.kind {
            ErrorKind::Usage => "the request is wrong",
            ErrorKind::Config => "the configuration is wrong",
            ErrorKind::NotFound => "not found",
            ErrorKind::Refused => "refused",
            ErrorKind::Failed => "failed",
            ErrorKind::Unverifiable => "unverifiable",
            ErrorKind::Timeout => "took too long",
            ErrorKind::Tmux => "tmux",
            ErrorKind::Pty => "pseudo-terminal",
            ErrorKind::State => "records on disk",
            ErrorKind::Io => "operating system",
            ErrorKind::Internal => "a fault of this program",
        }
    }
}

/// The question before the end: what ends with us.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuitBox {
    /// The dry runs of the sessions that end, as far as they have come.
    pub plans: BTreeMap<String, Receipt>,
    /// First line that is shown.
    pub scroll: usize,
    /// The question has been on the screen.
    pub drawn: bool,
}
