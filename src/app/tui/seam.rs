//! The seam between the screen and the runtime: what the screen hears, and what it asks for.
//!
//! Pure data and one trait. The runtime sends [`UiEvent`]s and implements [`Cockpit`]; no method of
//! it may block, because the loop of the screen calls them between two frames.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use crate::app::catalog::{Catalog, Listing, Look};
use crate::app::command::{Answer, Command, Orphans};
use crate::app::config::{Chord, RecipeRow};
use crate::app::contract::{OtherServer, SessionRow, Tree};
use crate::app::error::AppError;
use crate::app::event::Event;
use crate::pty::screen::Screen;

use super::job::Link;
use super::keymap::Keymap;
use super::model::{Frozen, Memory};
use super::notify::Notifier;
use super::theme::Theme;

/// Binds an answer to the command that it answers.
pub type Ticket = u64;

/// Something that the screen hears of.
#[derive(Debug)]
pub enum UiEvent {
    /// A key, the mouse, a paste, or a new size of the terminal.
    Input(crossterm::event::Event),
    /// The colour that the terminal has behind everything: red, green, blue.
    Background([u8; 3]),
    /// The terminal can tell all keys apart, and does so from now on.
    Keyboard,
    /// All sessions, as they are now.
    Sessions(Vec<SessionRow>),
    /// Who is left without a manager, and which records are left alone, as they are now.
    Orphans(Box<Orphans>),
    /// The model servers that are none of ours, as they are now.
    Strangers(Vec<OtherServer>),
    /// The processes of a session, as they are now.
    Tree {
        /// Which session.
        session: String,
        /// Its processes.
        tree: Tree,
    },
    /// A command has been carried out, or has failed.
    Answered {
        /// The command's ticket.
        ticket: Ticket,
        /// What came of it.
        result: Result<Answer, AppError>,
    },
    /// Something happened to a session.
    Happened(Event),
    /// The terminal of some session has new contents. One of these per frame is enough.
    ScreenChanged,
    /// The program of the session that is looked at wrote the clipboard.
    Clipboard {
        /// Which session.
        session: String,
        /// What it wrote, decoded and bounded.
        bytes: Vec<u8>,
    },
    /// The text of a terminal, as it was asked for.
    Frozen(Box<Frozen>),
    /// The editor has ended; `Err` says why it did not begin.
    Edited(Result<(), String>),
    /// The git branches of the directories that sessions work in.
    Branches(BTreeMap<String, String>),
    /// When each session has printed last, as its log says: to be compared with itself only.
    Printed(BTreeMap<String, u64>),
    /// What can be launched.
    Recipes(Vec<RecipeRow>),
    /// What a launch can name.
    Catalog(Box<Catalog>),
    /// What is in a directory.
    Listing(Listing),
    /// Something else that a person should read.
    Note(String),
    /// Time has passed that the model waited for.
    Tick,
    /// The terminal is gone.
    Hangup,
    /// Somebody asked the program to end.
    Terminate,
    /// The program is in the foreground again.
    Resume,
    /// Somebody asked the program to let the shell have the terminal.
    Suspend,
    /// The terminal has taken the last frame; sent by the screen to itself.
    Drawn,
}

/// Something that the screen asks for.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there are few at a time, and each is moved once")]
pub enum Effect {
    /// Carry out a command and answer with [`UiEvent::Answered`].
    Run {
        /// Comes back with the answer.
        ticket: Ticket,
        /// What to do.
        command: Command,
    },
    /// Type bytes into a session.
    Input {
        /// Which session.
        session: String,
        /// As a terminal would send them.
        bytes: Vec<u8>,
    },
    /// Paste into a session.
    Paste {
        /// Which session.
        session: String,
        /// What, and how.
        paste: Paste,
    },
    /// Type into a session that is not looked at, as its terminal asked for it.
    Broadcast {
        /// Which session.
        session: String,
        /// What.
        typed: Typed,
    },
    /// Give a session's terminal another size.
    Resize {
        /// Which session.
        session: String,
        /// Height, at least 1.
        rows: u16,
        /// Width, at least 2.
        cols: u16,
    },
    /// Sample this session often and send its trees.
    Select(Option<String>),
    /// Put text on the clipboard.
    Copy(String),
    /// Put on the clipboard what a session has written there.
    Forward(Vec<u8>),
    /// Have the terminal outside say something.
    Notify(String),
    /// Send the text of the selected terminal, history and all, as [`UiEvent::Frozen`].
    Freeze,
    /// Let an editor have the terminal, with a text in a file.
    Edit(String),
    /// Look for what a launch can name, and send it.
    Look(Look),
    /// Let the shell have the terminal.
    Suspend,
    /// Draw everything anew.
    Redraw,
    /// Leave.
    Quit,
}

/// Something that is typed into a terminal.
#[derive(Clone, Debug, PartialEq)]
pub enum Typed {
    /// A key.
    Key(crossterm::event::KeyEvent),
    /// A paste.
    Paste(String),
}

/// What is put into a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entered {
    /// Bytes, as a terminal sends them for a key or the mouse.
    Bytes(Vec<u8>),
    /// A paste.
    Paste(Paste),
}

/// A paste: without control characters, its line ends the key Enter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paste {
    /// The text.
    pub text: String,
    /// The program is known to have asked for brackets around it. A host that knows better does not heed it.
    pub bracketed: bool,
}

impl Entered {
    /// Returns the bytes that a terminal sends.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes.clone(),
            Self::Paste(Paste { text, bracketed: false }) => text.clone().into_bytes(),
            Self::Paste(Paste { text, bracketed: true }) => format!("\x1b[200~{text}\x1b[201~").into_bytes(),
        }
    }
}

/// What the runtime does for the screen. No method blocks.
pub trait Cockpit: Send + Sync {
    /// The first frame is on its way: what looks and asks from now on may begin. Called once.
    fn begin(&self);
    /// Starts to carry out a command; its answer comes as [`UiEvent::Answered`].
    fn run(&self, ticket: Ticket, command: Command);
    /// Types or pastes into a session, also one that is not looked at.
    fn input(&self, session: &str, entered: Entered);
    /// Gives a session's terminal another size.
    fn resize(&self, session: &str, rows: u16, cols: u16);
    /// Says which session is looked at.
    fn select(&self, session: Option<&str>);
    /// Says that a person has just done something, and waits to see what comes of it.
    fn attend(&self);
    /// Looks for what a launch can name; comes as [`UiEvent::Catalog`] or [`UiEvent::Listing`].
    fn look(&self, look: Look);
    /// Has the desktop say something.
    fn notify(&self, said: String);
    /// Takes what the next run is to remember; the screen has ended.
    fn remember(&self, memory: Memory);
    /// Returns the emulator of a session's terminal.
    fn screen(&self, session: &str) -> Option<Arc<Mutex<Screen>>>;
}

/// Why the screen has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// A person left it.
    Quit,
    /// The terminal is gone.
    Hangup,
    /// Somebody asked the program to end.
    Terminate,
}

/// What is called, on a thread of its own, when the screen was told to end and is stuck: the terminal
/// has been restored as far as it lets itself; the hook cleans up and ends the program.
pub type OnStuck = Arc<dyn Fn(Outcome) + Send + Sync>;

/// How the screen looks and what it is connected to.
pub struct Options {
    /// Colours and characters.
    pub theme: Theme,
    /// What each key does.
    pub keys: Keymap,
    /// The one chord that leaves a session's terminal.
    pub escape: Chord,
    /// Whether the mouse is listened to.
    pub mouse: bool,
    /// Whether the terminal outside is given a title.
    pub title: bool,
    /// How the terminal outside is asked for a notification.
    pub notifier: Notifier,
    /// What an earlier run has left.
    pub memory: Memory,
    /// The parent process that can be suspended; without it the screen cannot be.
    pub link: Option<Link>,
    /// Called when the screen was told to end and did not.
    pub on_stuck: Option<OnStuck>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            theme: Theme::default(),
            keys: Keymap::default(),
            escape: Chord::default(),
            mouse: true,
            title: false,
            notifier: Notifier::Silent,
            memory: Memory::default(),
            link: None,
            on_stuck: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("theme", &self.theme)
            .field("keys", &self.keys)
            .field("escape", &self.escape)
            .field("mouse", &self.mouse)
            .field("title", &self.title)
            .field("notifier", &self.notifier)
            .field("memory", &self.memory)
            .field("link", &self.link)
            .field("on_stuck", &self.on_stuck.is_some())
            .finish()
    }
}
