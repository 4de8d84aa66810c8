//! What the screen knows and shows. Pure data with small queries; `update` is the only one that
//! changes it, `view` the only one that draws it.
//!
//! Selections are kept by id (a session's, a process's), never by position, so that nothing jumps
//! while rows come and go.

mod ask;
mod events;
mod field;
mod filter;
mod form;
mod frozen;
mod fuzzy;
mod help;
mod history;
mod live;
mod log;
mod many;
mod memory;
mod news;
mod offer;
mod overlay;
mod palette;
mod picker;
mod sessions;
mod spark;
mod tree;
mod words;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use crossterm::event::MouseButton;

use crate::app::catalog::{Catalog, Listing};
use crate::app::config::{Chord, RecipeRow};
use crate::app::contract::{LaunchRequest, OtherServer, SessionRow};
use crate::app::phase::Suggestion;
use crate::lifecycle::identity::Pid;
use crate::lifecycle::receipt::Receipt;
use crate::pty::screen::Modes;

use super::keymap::{Context, Keymap};
use super::notify::Unsaid;
use super::seam::Ticket;
use super::theme::Theme;
use super::update::Early;

pub use ask::Ask;
pub(super) use ask::seconds;
pub use events::Events;
pub(super) use events::told;
pub use field::Field;
pub use filter::Filter;
pub use form::{Fault, Form, Origin, Slot};
pub use frozen::Frozen;
pub use help::Help;
pub(super) use help::has_words;
pub(super) use history::Purpose;
pub use history::{History, Search, Selection};
pub use live::{Live, Meanwhile, Stage};
pub(super) use log::is_asked_to_end;
pub use log::{Log, LogLine};
pub(in crate::app) use log::{describe, receipt_line};
pub use many::{Item, Many, ManyAct};
pub use memory::Memory;
pub use news::News;
pub use offer::{Offer, Offers};
pub use overlay::{Act, ErrorBox, Launch, Overlay, Preview, QuitBox, Reader, Reading};
pub(super) use overlay::{Confirmed, dry_run};
pub use palette::{Entry, Palette};
pub use picker::Picker;
pub use sessions::{Group, ListLine, Sessions, Totals};
pub(super) use spark::LOOKS;
pub use spark::Sparks;
pub use tree::{TreeLine, TreeState};

/// How many receipts are kept for a second look.
const RECEIPTS: usize = 32;

/// How long a dialog that nobody asked for cannot be confirmed: a key on its way was meant for
/// something else.
const UNASKED: Duration = Duration::from_millis(300);

/// A part of the screen that can have the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pane {
    /// The session list.
    #[default]
    List,
    /// The terminal of the selected session.
    Screen,
    /// Its processes.
    Tree,
}

/// What the loop saw of the selected session's emulator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScreenFacts {
    /// Whose.
    pub session: String,
    /// What its program asked for.
    pub modes: Modes,
    /// Its height.
    pub rows: u16,
    /// Row of the cursor, from 0.
    pub cursor_row: u16,
    /// Rows above the visible ones.
    pub history: usize,
    /// Changes with every change of the contents.
    pub generation: u64,
    /// The title that its program set.
    pub title: String,
}

impl ScreenFacts {
    /// Returns the first row that is drawn where fewer rows fit than the screen has: the cursor stays
    /// visible, or, scrolled back, the lower end.
    pub(super) fn first_row(&self, height: u16, scroll: usize) -> u16 {
        let most = self.rows.saturating_sub(height);
        if scroll > 0 { most } else { (self.cursor_row + 1).saturating_sub(height).min(most) }
    }
}

/// A dialog that a frame shows for the first time as it can be confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// The preview of this ticket, with its plan, after so many changes.
    Preview(Ticket, u32),
    /// The preview of many with this number.
    Many(Ticket),
    /// The question before the end.
    Quit,
}

/// A command that was not answered yet.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Pending {
    /// The dry run behind the preview on the screen.
    Plan,
    /// A dry run behind the preview of an act on many.
    PlanOfMany,
    /// The dry run of a session that ends with us, behind the question before the end.
    QuitPlan(String),
    /// The real thing.
    Act { act: Act, session: Option<String>, name: String },
    /// A launch from the start box, with the command line that was typed for it.
    Launch(Option<Launch>, Box<LaunchRequest>),
    /// A launch from the form.
    Form(Box<Form>),
    /// The dry run of a launch in the place of a session: its id and name.
    Check(Box<Form>, String, String),
    /// The real thing.
    Replace(Box<Form>, String, String),
    /// The form is to become a recipe.
    Save(Box<Form>),
    /// What the session of this name was launched with, and what is suggested in its place.
    Draft(String, Option<Suggestion>),
    /// The tmux sessions that could be adopted.
    TmuxSessions,
    /// One of them, by its name, is to be adopted.
    AdoptTmux(String),
    /// What can be launched.
    Recipes,
    /// The text of a screen, for the clipboard.
    Text,
    /// Something to read.
    Report,
    /// What decided about the process whose panel is open, by now.
    WhyAgain(Pid),
    /// A longer life for the session of this name: for how long, as it was typed.
    Extend(String, String),
    /// The stop of this session is to be held before KILL, or let go on.
    Hold(String),
    /// The session of this name is to be taken over.
    Adopt(String),
    /// The session of this name is to be forgotten.
    Dismiss(String),
}

/// The state of the screen.
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one screen")]
#[derive(Debug)]
pub struct Model {
    /// The sessions, in the order in which they are shown.
    pub sessions: Sessions,
    /// Id of the selected session.
    pub selected: Option<String>,
    /// Process of the selected server of somebody else; then no session is.
    pub met: Option<Pid>,
    /// Groups of the list of which only the heading is shown.
    pub folded: BTreeSet<Group>,
    /// How busy the sessions were.
    pub sparks: Sparks,
    /// The git branches of working directories.
    pub branches: BTreeMap<String, String>,
    /// Sessions that are marked.
    pub marked: BTreeSet<String>,
    /// Sessions that want to be looked at, and why.
    pub attention: BTreeMap<String, String>,
    /// What nobody has looked at yet.
    pub news: News,
    /// The processes of the selected session.
    pub tree: TreeState,
    /// What can be launched.
    pub recipes: Vec<RecipeRow>,
    /// What a launch can name; `None` before it was looked for.
    pub catalog: Option<Catalog>,
    /// The directory that was listed last.
    pub listing: Option<Listing>,
    /// What has happened.
    pub log: Log,
    /// The last receipts, the newest last.
    pub receipts: VecDeque<Receipt>,
    /// How many receipts have left.
    pub(super) receipts_left: u64,
    /// What the selected session's terminal is like.
    pub screen: Option<ScreenFacts>,
    /// Columns and rows of our own terminal.
    pub size: (u16, u16),
    /// The pane that has the keys.
    pub pane: Pane,
    /// The keys go to the selected session.
    pub focused: bool,
    /// The keys wait for the terminal of the selected session.
    pub(super) early: Option<Early>,
    /// The active pane has the whole screen.
    pub zoom: bool,
    /// The tree was switched on or off; `None` leaves it to the layout.
    pub tree_wanted: Option<bool>,
    /// How many rows of history the terminal is scrolled back.
    pub scroll: usize,
    /// Which sessions the list shows; all without it.
    pub filter: Option<Filter>,
    /// The terminal that is looked back in.
    pub history: Option<History>,
    /// What the text of the terminal was asked for.
    pub(super) freezing: Option<Purpose>,
    /// Where the left button went down in the terminal: row and column.
    pub(super) pressed: Option<(u16, u16)>,
    /// The button that was pressed in the terminal of a session and went to its program, until it is let go.
    pub(super) held: Option<(String, MouseButton)>,
    /// First row of the list that is shown.
    pub list_top: usize,
    /// Dialogs, the topmost last.
    pub overlays: Vec<Overlay>,
    /// Colours and characters.
    pub theme: Theme,
    /// What each key does.
    pub keys: Keymap,
    /// The chord that leaves a terminal.
    pub escape: Chord,
    /// Stops of ours that are under way, as they are seen.
    pub live: Vec<Live>,
    /// What happened to the sessions whose stop is previewed.
    pub(super) meanwhile: BTreeMap<String, Meanwhile>,
    /// The sessions with a stop or restart of ours under way.
    pub(super) acting: Vec<String>,
    /// Dialogs that wait until nobody is typing.
    pub(super) waiting: VecDeque<Overlay>,
    pub(super) pending: BTreeMap<Ticket, Pending>,
    pub(super) next_ticket: Ticket,
    /// A session that was launched here and is selected when it appears in the list.
    pub(super) awaited: Option<String>,
    /// What an earlier run has left, until there are sessions.
    pub(super) recalled: Option<Memory>,
    /// What is typed goes to all that are marked as well.
    pub broadcast: bool,
    /// The size that each session was last given: rows and columns.
    pub(super) sized: BTreeMap<String, (u16, u16)>,
    /// The session that the runtime was last told to watch.
    pub(super) watched: Option<String>,
    /// When the chord was pressed, if no other key came after it.
    pub(super) chord_at: Option<Instant>,
    /// Until when keys do nothing.
    pub(super) deaf_until: Option<Instant>,
    /// The terminal outside tells all keys apart: Esc and a key after it are never taken for Alt and the key.
    pub(super) tells_keys_apart: bool,
    /// The terminal outside has told that somebody looks elsewhere.
    pub(super) looks_elsewhere: bool,
    /// What it is to be asked to say meanwhile.
    pub(super) unsaid: Unsaid,
    pub(super) started: Instant,
}

impl Model {
    /// Returns the state before anything has happened. `size` is columns and rows.
    pub fn new(size: (u16, u16), theme: Theme, escape: Chord, now: Instant) -> Self {
        Self {
            sessions: Sessions::default(),
            selected: None,
            met: None,
            folded: BTreeSet::new(),
            sparks: Sparks::default(),
            branches: BTreeMap::new(),
            marked: BTreeSet::new(),
            attention: BTreeMap::new(),
            news: News::default(),
            tree: TreeState::default(),
            recipes: Vec::new(),
            catalog: None,
            listing: None,
            log: Log::default(),
            receipts: VecDeque::new(),
            receipts_left: 0,
            screen: None,
            size,
            pane: Pane::List,
            focused: false,
            early: None,
            zoom: false,
            tree_wanted: None,
            scroll: 0,
            filter: None,
            history: None,
            freezing: None,
            pressed: None,
            held: None,
            list_top: 0,
            overlays: Vec::new(),
            theme,
            keys: Keymap::default(),
            escape,
            live: Vec::new(),
            meanwhile: BTreeMap::new(),
            acting: Vec::new(),
            waiting: VecDeque::new(),
            pending: BTreeMap::new(),
            next_ticket: 1,
            awaited: None,
            recalled: None,
            broadcast: false,
            sized: BTreeMap::new(),
            watched: None,
            chord_at: None,
            deaf_until: None,
            tells_keys_apart: false,
            looks_elsewhere: false,
            unsaid: Unsaid::default(),
            started: now,
        }
    }

    /// Returns the selected session.
    pub fn current(&self) -> Option<&SessionRow> {
        self.sessions.by_id(self.selected.as_deref()?)
    }

    /// Returns the selected server of somebody else.
    pub fn stranger(&self) -> Option<&OtherServer> {
        self.sessions.stranger(self.met?)
    }

    /// Tells whether the list shows a server of somebody else.
    pub fn meets(&self, stranger: &OtherServer) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.meets(stranger))
    }

    /// Returns the group of what is selected.
    pub fn group(&self) -> Option<Group> {
        let session = self.current().map(|row| self.sessions.group(row));
        session.or_else(|| self.stranger().map(|_| Group::Strangers))
    }

    /// Tells whether the list shows a session.
    pub fn lists(&self, session: &str) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.shows(session))
    }

    /// Tells whether a session is behind the heading of its group. A filter shows what it finds.
    pub fn is_folded(&self, row: &SessionRow) -> bool {
        self.folds(self.sessions.group(row))
    }

    /// Tells whether only the heading of a group is shown.
    pub fn folds(&self, group: Group) -> bool {
        self.filter.is_none() && self.folded.contains(&group)
    }

    /// Tells whether a session wants a person.
    pub fn wants(&self, row: &SessionRow) -> bool {
        row.attention.is_some() || self.attention.contains_key(&row.session)
    }

    /// Returns the sessions that what is typed goes to besides the selected one: those that are marked and live, while
    /// it is broadcast.
    pub fn others(&self) -> impl Iterator<Item = &SessionRow> {
        let takes = |row: &&SessionRow| {
            self.marked.contains(&row.session) && self.selected.as_ref() != Some(&row.session) && !row.phase.is_over()
        };
        self.sessions.rows().iter().filter(takes)
    }

    /// Returns what the keys go to.
    pub fn context(&self) -> Context {
        match self.overlays.last() {
            Some(Overlay::Preview(_) | Overlay::Many(_)) => Context::Preview,
            Some(Overlay::Reader(_)) => Context::Reader,
            Some(Overlay::Launch(launch)) if launch.typing => Context::Line,
            Some(Overlay::Launch(_)) => Context::Menu,
            Some(Overlay::Form(_)) => Context::Form,
            Some(Overlay::Help(help)) if help.typing => Context::Filter,
            Some(Overlay::Help(_)) => Context::Help,
            Some(Overlay::Events(events)) if events.typing => Context::Filter,
            Some(Overlay::Events(_)) => Context::Events,
            Some(Overlay::Picker(_)) => Context::Picker,
            Some(Overlay::Ask(_)) => Context::Ask,
            Some(Overlay::Palette(_)) => Context::Palette,
            Some(Overlay::Error(_)) => Context::Error,
            Some(Overlay::Quit(_)) => Context::Quit,
            None if self.focused => Context::Terminal,
            None if let Some(history) = &self.history => {
                let typing = history.search.as_ref().is_some_and(|search| search.typing);
                if typing { Context::Search } else { Context::History }
            }
            None if self.filter.as_ref().is_some_and(|filter| filter.typing) => Context::Filter,
            None => Context::Panes,
        }
    }

    /// Returns the modes of the selected session's terminal, as far as they are known.
    pub fn modes(&self) -> Option<&Modes> {
        self.facts().map(|facts| &facts.modes)
    }

    /// Returns the selected session if it is over and somebody can say why, or what would help.
    pub(super) fn cause(&self) -> Option<&SessionRow> {
        let is_told = |row: &&SessionRow| row.phase.is_over() && (row.detail.is_some() || row.suggest.is_some());
        self.current().filter(is_told)
    }

    pub(super) fn facts(&self) -> Option<&ScreenFacts> {
        self.screen.as_ref().filter(|facts| Some(&facts.session) == self.selected.as_ref())
    }

    /// Takes in what the loop saw of the selected session's emulator. Where the view is scrolled
    /// back, new rows of history do not move it. Returns whether the contents are other than before.
    pub(super) fn observe(&mut self, facts: Option<ScreenFacts>) -> bool {
        if self.screen == facts {
            return false;
        }
        if let (Some(before), Some(after)) = (&self.screen, &facts)
            && before.session == after.session
            && self.scroll > 0
        {
            self.scroll += after.history.saturating_sub(before.history);
        }
        if let Some(after) = &facts
            && self.screen.as_ref().is_none_or(|before| before.session != after.session)
        {
            // It was connected just now, and may have the size of before.
            self.sized.remove(&after.session);
        }
        self.scroll = self.scroll.min(facts.as_ref().map_or(0, |facts| facts.history));
        self.screen = facts;
        true
    }

    /// Returns what a frame drawn now shows for confirmation.
    pub(super) fn shown(&self) -> Option<Shown> {
        match self.overlays.last()? {
            Overlay::Preview(preview) if preview.plan.is_some() && !preview.drawn => {
                Some(Shown::Preview(preview.ticket, preview.revision))
            }
            Overlay::Many(many) if many.is_planned() && !many.drawn => Some(Shown::Many(many.serial)),
            Overlay::Quit(quit) if !quit.drawn => Some(Shown::Quit),
            Overlay::Preview(_)
            | Overlay::Many(_)
            | Overlay::Quit(_)
            | Overlay::Reader(_)
            | Overlay::Help(_)
            | Overlay::Launch(_)
            | Overlay::Form(_)
            | Overlay::Picker(_)
            | Overlay::Events(_)
            | Overlay::Ask(_)
            | Overlay::Palette(_)
            | Overlay::Error(_) => None,
        }
    }

    /// Notes that a frame has been shown: from now on its dialog can be confirmed, and one that opened
    /// by itself a moment later.
    pub(super) fn note_shown(&mut self, shown: &Shown, now: Instant) {
        for overlay in &mut self.overlays {
            match (overlay, shown) {
                (Overlay::Preview(preview), Shown::Preview(ticket, revision))
                    if (preview.ticket, preview.revision) == (*ticket, *revision) =>
                {
                    preview.drawn = true;
                    preview.not_before = (preview.note.is_some() && *revision == 0).then(|| now + UNASKED);
                }
                (Overlay::Many(many), Shown::Many(serial)) if many.serial == *serial => many.drawn = many.is_planned(),
                (Overlay::Quit(quit), Shown::Quit) => quit.drawn = true,
                _ => {}
            }
        }
    }

    /// Returns when the model wants a [`Tick`](super::UiEvent::Tick), if nothing happens until then.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let stops = self.live.iter().map(Live::deadline);
        self.tree.deadline().into_iter().chain(stops).chain(self.unsaid.due()).min()
    }

    /// Returns the last receipt of the selected session, else the last one of all. One that found nobody does not take the
    /// place of one that did.
    pub fn last_receipt(&self) -> Option<&Receipt> {
        let found = |receipt: &&Receipt| {
            !(receipt.captured.is_empty() && receipt.signals.is_empty() && receipt.outcomes.is_empty())
        };
        let mut newest_first = self.receipts.iter().rev();
        let mut its = newest_first.clone().filter(|receipt| Some(&receipt.session) == self.selected.as_ref());
        its.clone().find(found).or_else(|| its.next()).or_else(|| newest_first.next())
    }

    /// Returns the number of the receipt that was kept last.
    pub(super) fn receipt_number(&self) -> u64 {
        (self.receipts_left + self.receipts.len() as u64).saturating_sub(1)
    }

    /// Returns a receipt by its number; `None` where it is not kept any more.
    pub(super) fn receipt(&self, number: u64) -> Option<&Receipt> {
        self.receipts.get(usize::try_from(number.checked_sub(self.receipts_left)?).ok()?)
    }

    /// Keeps a receipt. Returns whether it is new (it comes both as an answer and as an event).
    pub(super) fn keep_receipt(&mut self, receipt: &Receipt) -> bool {
        if self.receipts.contains(receipt) {
            return false;
        }
        if self.receipts.len() == RECEIPTS {
            self.receipts.pop_front();
            self.receipts_left += 1;
        }
        self.receipts.push_back(receipt.clone());
        true
    }

    /// Tells whether the program in the terminal wants every movement of the mouse.
    pub(super) fn wants_motion(&self) -> bool {
        self.context() == Context::Terminal
            && self.modes().is_some_and(|modes| modes.mouse == crate::pty::screen::MouseMode::AnyMotion)
    }
}
