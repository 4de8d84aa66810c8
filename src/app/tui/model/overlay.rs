//! The dialogs. Pure data.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use crate::app::command::{Check, Command, Orphans, OrphansRequest, RestartRequest, StopRequest, SweepRequest};
use crate::app::contract::{CommandLine, HostKind, Kind, LaunchRequest, OtherServer, SessionRow};
use crate::app::error::{AppError, ErrorKind};
use crate::app::phase::kind_of;
use crate::app::why::Why;
use crate::lifecycle::identity::{Identity, Pid, StartToken};
use crate::lifecycle::plan::Choice;
use crate::lifecycle::receipt::{PlanRow, Receipt};

use super::super::seam::Ticket;
use super::ask::Ask;
use super::events::Events;
use super::field::Field;
use super::form::Form;
use super::help::Help;
use super::many::Many;
use super::palette::Palette;
use super::picker::Picker;

/// A dialog.
#[derive(Clone, Debug, PartialEq)]
pub enum Overlay {
    /// What a stop, a sweep or a restart would do.
    Preview(Preview),
    /// What an act on all that are marked would do.
    Many(Many),
    /// Something to read.
    Reader(Reader),
    /// The keys.
    Help(Help),
    /// The launch menu and its command line.
    Launch(Launch),
    /// The launch form.
    Form(Box<Form>),
    /// What has happened.
    Events(Events),
    /// The tmux sessions that could be adopted.
    Picker(Picker),
    /// The question for a duration.
    Ask(Ask),
    /// The command palette.
    Palette(Palette),
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
    /// End what is left of orphans.
    Reap,
    /// Stop and start again.
    Restart,
    /// Stop, and launch what the form below asks for.
    Replace,
}

impl Act {
    /// Returns the verb.
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Stop => "Stop",
            Self::Force => "Force stop",
            Self::Sweep => "Sweep",
            Self::Reap => "Reap",
            Self::Restart => "Restart",
            Self::Replace => "Replace",
        }
    }

    /// Returns the command. A dry run signals nothing and answers with the plan; the real one
    /// signals exactly the confirmed identities.
    pub(in super::super) fn command(self, session: Option<&str>, confirmed: Option<Confirmed>) -> Command {
        let dry_run = confirmed.is_none().then_some(true);
        let session = session.map(str::to_owned);
        let (confirm, end_kept) = match confirmed {
            Some(Confirmed { targets, kept }) => {
                let kept: Vec<Choice> = kept.into_iter().map(Choice::Identity).collect();
                (Some(targets), (!kept.is_empty()).then_some(kept))
            }
            None => (None, None),
        };
        match self {
            Self::Sweep => Command::Sweep(SweepRequest { session, dry_run, confirm, end_kept }),
            Self::Reap => {
                let reap = Some(true);
                Command::Orphans(OrphansRequest { reap, adopt: None, session, dry_run, confirm, end_kept })
            }
            // Its dry run refuses what cannot be started again, before anybody is asked to confirm a stop.
            Self::Restart => {
                let session = session.unwrap_or_default();
                Command::Restart(RestartRequest { session, dry_run, confirm, end_kept, launch: None })
            }
            Self::Stop | Self::Force | Self::Replace => Command::Stop(StopRequest {
                session: session.unwrap_or_default(),
                force: (self == Self::Force).then_some(true),
                dry_run,
                confirm,
                end_kept,
                ..StopRequest::default()
            }),
        }
    }
}

/// What a person has seen in a preview and agreed to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Confirmed {
    /// Who is signalled.
    pub(in super::super) targets: Vec<Identity>,
    /// Kept processes that were chosen to be signalled, too.
    pub(in super::super) kept: BTreeSet<Identity>,
}

impl Confirmed {
    /// Returns what a plan shows as to be signalled.
    pub(in super::super) fn of(plan: &Receipt) -> Self {
        let targets = plan.plan.iter().flatten().filter(|row| row.signal.is_some());
        let targets = targets.filter_map(|row| identity(row.pid, row.start_token.as_ref())).collect();
        Self { targets, kept: BTreeSet::new() }
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
    /// Kept processes that were chosen to be ended, too.
    pub end_kept: BTreeSet<Identity>,
    /// The kept process that the keys are on; the first one without it.
    pub kept: Option<Pid>,
    /// That one was moved to and must be in view.
    pub follows: bool,
    /// First line that is shown.
    pub scroll: usize,
    /// The plan, with what was chosen, has been on the screen: only then it can be confirmed.
    pub drawn: bool,
    /// A preview that opened by itself cannot be confirmed before, so that a key meant for
    /// something else does not.
    pub not_before: Option<Instant>,
    /// The dry run.
    pub(in super::super) ticket: Ticket,
    /// Counts the changes since the plan came.
    pub(in super::super) revision: u32,
}

fn identity(pid: Pid, token: Option<&StartToken>) -> Option<Identity> {
    Some(Identity { pid, token: token?.clone(), pidfd_inode: None })
}

impl Preview {
    /// Returns the rows that would be signalled.
    pub fn targets(&self) -> impl Iterator<Item = &PlanRow> {
        let plan = self.plan.as_ref().and_then(|receipt| receipt.plan.as_ref());
        plan.into_iter().flatten().filter(|row| row.signal.is_some())
    }

    /// Returns what is shown as to be signalled.
    pub(in super::super) fn confirmed(&self) -> Confirmed {
        let shown = self.plan.as_deref().map(Confirmed::of).unwrap_or_default();
        Confirmed { kept: self.end_kept.clone(), ..shown }
    }

    /// Returns the kept processes that can be chosen: those of one session, by identity.
    pub fn choices(&self) -> Vec<Identity> {
        let kept = self.plan.iter().filter(|_| self.session.is_some()).flat_map(|plan| &plan.kept);
        kept.filter_map(|row| identity(row.pid, row.start_token.as_ref())).collect()
    }

    /// Returns the place of the kept process that the keys are on.
    pub fn chosen(&self, choices: &[Identity]) -> usize {
        choices.iter().position(|kept| Some(kept.pid) == self.kept).unwrap_or(0)
    }

    /// Moves to another kept process, or scrolls where there is none in that direction.
    pub(in super::super) fn step(&mut self, by: isize) {
        let choices = self.choices();
        let next = self.chosen(&choices).checked_add_signed(by).and_then(|next| choices.get(next));
        self.follows = next.is_some();
        match next {
            Some(next) => self.kept = Some(next.pid),
            None => self.scroll = self.scroll.saturating_add_signed(by),
        }
    }

    /// Chooses the kept process that the keys are on, or takes the choice back. What is shown is to be drawn
    /// anew before it can be confirmed.
    pub(in super::super) fn toggle(&mut self) {
        let choices = self.choices();
        let Some(kept) = choices.get(self.chosen(&choices)) else { return };
        if !self.end_kept.remove(kept) {
            self.end_kept.insert(kept.clone());
        }
        (self.kept, self.follows, self.drawn) = (Some(kept.pid), true, false);
        self.revision += 1;
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
    /// A stop of this session that is under way.
    Live(String),
    /// What a stop or a sweep observed.
    Receipt(Box<Receipt>),
    /// What is left of sessions without a manager.
    Orphans(Box<Orphans>),
    /// Why a process is what it is.
    Why(Box<Why>),
    /// How this session came to its end, and what is suggested.
    Cause(Box<SessionRow>),
    /// What is known of a server of somebody else.
    Stranger(Box<OtherServer>),
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
    /// Returns the kind of the typed command: what was chosen, else what it tells.
    pub fn kind(&self) -> Kind {
        self.kind.unwrap_or_else(|| kind_of(self.line.text()))
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
