//! The one table of key bindings. It drives dispatch, the footer and the help overlay, so that none
//! of them can say something else than the others.
//!
//! Pure. Every action has a key that needs neither Ctrl nor Alt nor a function key; a test holds it.

use std::fmt;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::app::config::{Chord, ChordKey};

/// What the keys go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Context {
    /// The panes.
    Panes,
    /// A session's terminal: everything but the chord goes through.
    Terminal,
    /// The preview of a stop, a sweep or a restart.
    Preview,
    /// Something to read: help, receipt, event log.
    Reader,
    /// The launch menu.
    Menu,
    /// The launch form.
    Form,
    /// The tmux sessions that could be adopted.
    Picker,
    /// The line in which a command is typed.
    Line,
    /// The question for a duration.
    Ask,
    /// The line that filters the session list.
    Filter,
    /// The command palette.
    Palette,
    /// A terminal that is looked back in.
    History,
    /// The line in which one says what to look for in it.
    Search,
    /// An error.
    Error,
    /// The question before the end.
    Quit,
}

impl Context {
    /// All contexts, in the order in which the help shows them.
    pub const ALL: [Self; 15] = [
        Self::Panes,
        Self::Terminal,
        Self::History,
        Self::Search,
        Self::Filter,
        Self::Palette,
        Self::Preview,
        Self::Menu,
        Self::Form,
        Self::Picker,
        Self::Line,
        Self::Ask,
        Self::Reader,
        Self::Error,
        Self::Quit,
    ];

    /// Returns the heading of the context in the help.
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Panes => "Sessions",
            Self::Terminal => "In a session's terminal",
            Self::Preview => "Preview",
            Self::Reader => "Help, receipt, events",
            Self::Menu => "Start menu",
            Self::Form => "Launch form",
            Self::Picker => "tmux sessions of others",
            Self::Line => "Command line",
            Self::Ask => "How much longer",
            Self::Filter => "Filter of the list",
            Self::Palette => "Command palette",
            Self::History => "Looking back in a terminal",
            Self::Search => "Search in a terminal",
            Self::Error => "Error",
            Self::Quit => "Quit",
        }
    }
}

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// One page up.
    PageUp,
    /// One page down.
    PageDown,
    /// To the first row.
    Top,
    /// To the last row.
    Bottom,
    /// To the next pane.
    NextPane,
    /// To the pane before.
    PreviousPane,
    /// Out of what was entered last.
    Back,
    /// Into the terminal of the selected session.
    Focus,
    /// Out of the terminal.
    Leave,
    /// Opens the launch menu.
    Start,
    /// Opens the launch form.
    Form,
    /// Opens the form with what a session was launched with.
    Revise,
    /// Opens the form with what is suggested for a session.
    Fix,
    /// Previews a stop.
    Stop,
    /// Previews a stop that kills at once.
    Force,
    /// Previews a sweep.
    Sweep,
    /// Previews a restart.
    Restart,
    /// Gives one pane the whole screen.
    Zoom,
    /// Shows or hides the process tree.
    Tree,
    /// Tells why a process is what it is.
    Why,
    /// Folds the group of the selected session, or unfolds it.
    Fold,
    /// Marks a session.
    Mark,
    /// Goes to the next session that wants to be looked at.
    Attention,
    /// Looks back in a terminal.
    LookBack,
    /// One column to the left.
    Left,
    /// One column to the right.
    Right,
    /// To the first column.
    LineStart,
    /// To the last column.
    LineEnd,
    /// Begins a selection, or ends it.
    Select,
    /// The same, of whole rows.
    SelectRows,
    /// To the next match.
    Next,
    /// To the match before.
    Previous,
    /// Opens the text in an editor.
    Edit,
    /// Filters the list, or searches the terminal.
    Find,
    /// Opens the command palette.
    Palette,
    /// Opens the event log.
    Events,
    /// Opens the last receipt.
    Receipt,
    /// Asks what is left of sessions without a manager.
    Orphans,
    /// Previews the end of what is left of orphans.
    Reap,
    /// Takes a session over whose manager is gone.
    Adopt,
    /// Asks how this host stands.
    Doctor,
    /// Lets the session live longer.
    Extend,
    /// Forgets a session that is over.
    Dismiss,
    /// Copies what is selected or shown.
    Copy,
    /// Opens the help.
    Help,
    /// Lets the shell have the terminal.
    Suspend,
    /// Draws everything anew.
    Redraw,
    /// Leaves the program.
    Quit,
    /// Does what is asked.
    Confirm,
    /// Does not do it.
    Close,
    /// Sweeps one session or all.
    Scope,
    /// Has a kept process ended, too, or not.
    Choose,
    /// Opens the command line.
    Type,
    /// Takes the next kind of session.
    NextKind,
    /// Takes the other host.
    NextHost,
}

impl Action {
    /// Tells whether the action only moves what is looked at.
    pub const fn moves(self) -> bool {
        matches!(
            self,
            Self::Up
                | Self::Down
                | Self::PageUp
                | Self::PageDown
                | Self::Top
                | Self::Bottom
                | Self::NextPane
                | Self::PreviousPane
                | Self::Back
                | Self::Left
                | Self::Right
                | Self::LineStart
                | Self::LineEnd
        )
    }
}

/// A key of the table: a character or a named key, perhaps with Ctrl.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub struct Key {
    code: KeyCode,
    control: bool,
}

const fn c(c: char) -> Key {
    Key { code: KeyCode::Char(c), control: false }
}

const fn ctrl(c: char) -> Key {
    Key { code: KeyCode::Char(c), control: true }
}

const fn k(code: KeyCode) -> Key {
    Key { code, control: false }
}

impl Key {
    /// Returns the key of an event; `None` for those that no binding has. Letters match by
    /// character: an upper-case letter is one, whether Shift or Caps Lock made it.
    fn of(event: &KeyEvent) -> Option<Self> {
        let modifiers = event.modifiers;
        if modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SUPER | KeyModifiers::HYPER | KeyModifiers::META) {
            return None;
        }
        let control = modifiers.contains(KeyModifiers::CONTROL);
        let shift = modifiers.contains(KeyModifiers::SHIFT);
        let code = if let KeyCode::Char(c) = event.code {
            let upper = !control && (shift || c.is_ascii_uppercase());
            KeyCode::Char(if upper { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() })
        } else if shift && event.code == KeyCode::Tab {
            KeyCode::BackTab
        } else {
            event.code
        };
        Some(Self { code, control })
    }

    /// Tells whether the key needs neither Ctrl nor a function key.
    pub fn is_plain(self) -> bool {
        !self.control && !matches!(self.code, KeyCode::F(_))
    }
}

/// Shorter names than crossterm's.
const NAMES: [(KeyCode, &str); 6] = [
    (KeyCode::Char(' '), "Space"),
    (KeyCode::Up, "↑"),
    (KeyCode::Down, "↓"),
    (KeyCode::PageUp, "PgUp"),
    (KeyCode::PageDown, "PgDn"),
    (KeyCode::BackTab, "Shift-Tab"),
];

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.control {
            f.write_str("Ctrl-")?;
        }
        if let Some((_, name)) = NAMES.iter().find(|(code, _)| *code == self.code) {
            return f.write_str(name);
        }
        if let KeyCode::Char(c) = self.code {
            return write!(f, "{}", if self.control { c.to_ascii_uppercase() } else { c });
        }
        write!(f, "{}", self.code)
    }
}

/// One row of the table.
#[derive(Debug)]
pub struct Binding {
    /// Where it holds.
    pub contexts: &'static [Context],
    /// Which keys; empty for the chord, which is configured.
    pub keys: &'static [Key],
    /// What they do.
    pub action: Action,
    /// The word in the footer; empty keeps it out of there.
    pub label: &'static str,
    /// The sentence in the help.
    pub help: &'static str,
}

const fn bind(
    contexts: &'static [Context],
    keys: &'static [Key],
    action: Action,
    label: &'static str,
    help: &'static str,
) -> Binding {
    Binding { contexts, keys, action, label, help }
}

use Context::{
    Ask, Error, Filter, Form, History, Line, Menu, Palette, Panes, Picker, Preview, Quit, Reader, Search, Terminal,
};

/// All bindings. The order is that of the footer and of the help.
pub static BINDINGS: &[Binding] = &[
    bind(&[Panes], &[k(KeyCode::Enter)], Action::Focus, "type", "type into the selected session"),
    bind(&[Panes], &[c('s')], Action::Start, "start", "start a recipe or a command"),
    bind(&[Panes], &[c('x')], Action::Stop, "stop", "stop the session: preview, then confirm"),
    bind(&[Panes], &[c('r')], Action::Restart, "restart", "stop the session and start it again"),
    bind(&[Panes], &[c('O')], Action::Reap, "reap", "end what is left of the selected orphan, else of all: preview"),
    bind(
        &[Panes],
        &[c('A')],
        Action::Adopt,
        "adopt",
        "take the selected orphan over, else choose a tmux session of others; nobody is signalled",
    ),
    bind(&[Panes], &[c('a')], Action::Form, "launch", "launch form: a recipe or a command, with everything around it"),
    bind(&[Panes], &[c('F')], Action::Fix, "fix", "open what is suggested for the session in the launch form"),
    bind(&[Panes], &[c('E')], Action::Revise, "", "edit what the session was launched with, and launch it again"),
    bind(&[Panes], &[c('X')], Action::Force, "", "stop at once with KILL"),
    bind(&[Panes], &[c('S')], Action::Sweep, "sweep", "end what earlier stops left behind"),
    bind(&[Panes], &[c('t')], Action::Tree, "tree", "show or hide the processes"),
    bind(&[Panes], &[c('w')], Action::Why, "why", "why the selected process is what it is, and what a stop does to it"),
    bind(&[Panes], &[c('z')], Action::Zoom, "zoom", "give the pane the whole screen, and back"),
    bind(&[Panes], &[c('/')], Action::Find, "find", "show only the sessions that match; in a terminal: search it"),
    bind(&[Panes], &[c(' ')], Action::Mark, "mark", "mark: stop, force, restart, sweep and dismiss act on all marked"),
    bind(&[Panes], &[c('!'), c('n')], Action::Attention, "", "to the next session that wants you, or has failed"),
    bind(&[Panes], &[c('-')], Action::Fold, "", "fold the group of the selected session, or unfold it"),
    bind(&[Panes], &[c('[')], Action::LookBack, "", "look back in the terminal: search, select, copy"),
    bind(&[Panes], &[c(':')], Action::Palette, "commands", "find any command or session by its words"),
    bind(&[Panes], &[c('e')], Action::Events, "events", "show what has happened"),
    bind(&[Panes], &[c('v')], Action::Receipt, "", "show the last receipt again"),
    bind(&[Panes], &[c('o')], Action::Orphans, "", "list what is left of sessions without a manager"),
    bind(&[Panes], &[c('+')], Action::Extend, "", "let the session live longer: asks for how long"),
    bind(&[Panes], &[c('f')], Action::Dismiss, "", "forget a session that is over; its log stays"),
    bind(&[Panes], &[c('D')], Action::Doctor, "", "check how this host stands"),
    bind(&[Panes, Terminal], &[], Action::Leave, "leaves", "leave the terminal; twice sends the chord through"),
    bind(
        &[Panes, History, Preview, Reader, Menu, Picker],
        &[c('k'), k(KeyCode::Up)],
        Action::Up,
        "",
        "up; in a terminal's history: back one line",
    ),
    bind(&[Panes, History, Preview, Reader, Menu, Picker], &[c('j'), k(KeyCode::Down)], Action::Down, "", "down"),
    bind(
        &[Panes, History, Preview, Reader, Menu, Picker],
        &[k(KeyCode::PageUp), c('u')],
        Action::PageUp,
        "",
        "one page up",
    ),
    bind(
        &[Panes, History, Preview, Reader, Menu, Picker],
        &[k(KeyCode::PageDown), c('d')],
        Action::PageDown,
        "",
        "one page down",
    ),
    bind(&[Panes, History, Preview, Reader, Menu, Picker], &[c('g'), k(KeyCode::Home)], Action::Top, "", "to the top"),
    bind(
        &[Panes, History, Preview, Reader, Menu, Picker],
        &[c('G'), k(KeyCode::End)],
        Action::Bottom,
        "",
        "to the bottom",
    ),
    bind(&[History], &[c('/')], Action::Find, "search", "search by a regular expression"),
    bind(&[History], &[c('n')], Action::Next, "next", "to the next match"),
    bind(&[History], &[c('N')], Action::Previous, "", "to the match before"),
    bind(&[History], &[c('v')], Action::Select, "select", "begin to select, or no longer"),
    bind(&[History], &[c('V')], Action::SelectRows, "", "select whole rows"),
    bind(&[History], &[c('y'), c('c'), k(KeyCode::Enter)], Action::Copy, "copy", "copy what is selected, else the row"),
    bind(&[History], &[c('e')], Action::Edit, "editor", "open all of it in $VISUAL or $EDITOR"),
    bind(&[History], &[c('h'), k(KeyCode::Left)], Action::Left, "", "left"),
    bind(&[History], &[c('l'), k(KeyCode::Right)], Action::Right, "", "right"),
    bind(&[History], &[c('0')], Action::LineStart, "", "to the start of the row"),
    bind(&[History], &[c('$')], Action::LineEnd, "", "to the end of the row"),
    bind(&[Search], &[k(KeyCode::Enter)], Action::Confirm, "keep", "keep what was found: n and N go on"),
    bind(&[Search], &[k(KeyCode::Up)], Action::Previous, "", "to the match before"),
    bind(&[Search], &[k(KeyCode::Down)], Action::Next, "", "to the next match"),
    bind(
        &[History],
        &[k(KeyCode::Esc), c('q'), ctrl('c')],
        Action::Close,
        "close",
        "no selection; then the live screen",
    ),
    bind(&[Filter, Palette], &[k(KeyCode::Up), ctrl('p')], Action::Up, "", "up"),
    bind(&[Filter, Palette], &[k(KeyCode::Down), ctrl('n')], Action::Down, "", "down"),
    bind(&[Filter, Palette], &[k(KeyCode::PageUp)], Action::PageUp, "", "one page up"),
    bind(&[Filter, Palette], &[k(KeyCode::PageDown)], Action::PageDown, "", "one page down"),
    bind(&[Panes], &[k(KeyCode::Tab)], Action::NextPane, "", "next pane"),
    bind(&[Panes], &[k(KeyCode::BackTab)], Action::PreviousPane, "", "pane before"),
    bind(
        &[Panes],
        &[k(KeyCode::Esc)],
        Action::Back,
        "",
        "back: live screen, no zoom, session list, no filter, no marks",
    ),
    bind(&[Preview], &[k(KeyCode::Enter), c('y')], Action::Confirm, "do it", "signal exactly what is shown"),
    bind(&[Preview], &[c(' ')], Action::Choose, "end a kept one", "end the selected kept process, too, or keep it"),
    bind(&[Preview], &[c('a')], Action::Scope, "", "sweep or reap this session, or all"),
    bind(&[Menu], &[k(KeyCode::Enter)], Action::Confirm, "start", "start the recipe"),
    bind(&[Menu], &[c(':'), c('i'), k(KeyCode::Tab)], Action::Type, "type a command", "type a command instead"),
    bind(&[Menu], &[c('a')], Action::Form, "form", "the selected recipe in the launch form"),
    bind(
        &[Form],
        &[k(KeyCode::Enter)],
        Action::Confirm,
        "launch",
        "launch it, or do what the line says; take what is chosen of what is offered",
    ),
    bind(&[Form], &[k(KeyCode::Tab), k(KeyCode::Down)], Action::Down, "next", "next line"),
    bind(&[Form], &[k(KeyCode::BackTab), k(KeyCode::Up)], Action::Up, "", "line before"),
    bind(&[Form], &[k(KeyCode::Right)], Action::Right, "take", "take what is offered; next choice; in a text: right"),
    bind(&[Form], &[k(KeyCode::Left)], Action::Left, "", "choice before; in a text: left"),
    bind(&[Form], &[k(KeyCode::PageDown)], Action::PageDown, "offers", "along what is offered"),
    bind(&[Form], &[k(KeyCode::PageUp)], Action::PageUp, "", "back along what is offered"),
    bind(&[Picker], &[k(KeyCode::Enter)], Action::Confirm, "adopt", "adopt the session; nobody is signalled"),
    bind(&[Line], &[k(KeyCode::Enter)], Action::Confirm, "start", "start what is typed, through sh -c"),
    bind(&[Line], &[k(KeyCode::Tab)], Action::NextKind, "kind", "serve, agent, shell or download"),
    bind(&[Line], &[k(KeyCode::BackTab), k(KeyCode::Down)], Action::NextHost, "host", "by kind, pty or tmux"),
    bind(&[Filter], &[k(KeyCode::Enter)], Action::Confirm, "keep", "keep the filter; Esc in the list ends it"),
    bind(&[Palette], &[k(KeyCode::Enter)], Action::Confirm, "do it", "do what is selected"),
    bind(&[Ask], &[k(KeyCode::Enter)], Action::Confirm, "extend", "let it live for so long, from now"),
    bind(&[Quit], &[k(KeyCode::Enter), c('y')], Action::Confirm, "quit", "end what is named, then leave"),
    bind(&[Panes, Reader, Preview], &[c('c')], Action::Copy, "copy", "copy what is selected or shown"),
    bind(
        &[Preview, Search, Filter, Palette, Menu, Form, Picker, Line, Ask, Quit],
        &[k(KeyCode::Esc), ctrl('c')],
        Action::Close,
        "cancel",
        "close, and do nothing",
    ),
    bind(&[Preview, Menu, Picker, Quit], &[c('q'), c('n')], Action::Close, "", "the same"),
    bind(&[Reader, Error], &[k(KeyCode::Esc), k(KeyCode::Enter), c('q'), ctrl('c')], Action::Close, "close", "close"),
    bind(&[Panes], &[c('Z'), ctrl('z')], Action::Suspend, "", "back to the shell; fg returns, sessions run on"),
    bind(&[Panes], &[c('R'), ctrl('l')], Action::Redraw, "", "draw everything anew"),
    bind(&[Panes], &[c('?'), c('h')], Action::Help, "help", "show this help"),
    bind(&[Panes], &[c('q'), ctrl('c')], Action::Quit, "quit", "leave: pty sessions end, tmux sessions stay"),
];

/// What the mouse does, for the help.
pub static MOUSE: &[(&str, &str)] = &[
    ("click", "select a session, a process or a pane; fold a group by its heading"),
    ("wheel", "scroll what is under the pointer"),
    ("in a terminal", "goes to the program that asked for it; else dragging selects and copies"),
];

/// Returns what a key does in a context.
pub fn lookup(context: Context, event: &KeyEvent) -> Option<Action> {
    let key = Key::of(event)?;
    in_context(context).find(|binding| binding.keys.contains(&key)).map(|binding| binding.action)
}

/// Returns the bindings of a context, in order.
pub fn in_context(context: Context) -> impl Iterator<Item = &'static Binding> {
    BINDINGS.iter().filter(move |binding| binding.contexts.contains(&context))
}

/// Tells whether an event is the chord that leaves a session's terminal.
pub(super) fn is_chord(chord: Chord, event: &KeyEvent) -> bool {
    let press = press_of(chord);
    let held = event.modifiers & (KeyModifiers::CONTROL | KeyModifiers::ALT);
    held == press.modifiers && canonical(event.code, held) == canonical(press.code, held)
}

/// Returns the chord as a key press, to be sent through.
pub(super) fn press_of(chord: Chord) -> KeyEvent {
    let code = match chord.key {
        ChordKey::Char(c) => KeyCode::Char(c),
        ChordKey::Function(n) => KeyCode::F(n),
    };
    let mut modifiers = KeyModifiers::NONE;
    modifiers.set(KeyModifiers::CONTROL, chord.ctrl);
    modifiers.set(KeyModifiers::ALT, chord.alt);
    KeyEvent::new(code, modifiers)
}

/// Returns the chord as the footer and the help show it, for example `Ctrl-\`.
pub(super) fn name_of(chord: Chord) -> String {
    let key = Key { code: press_of(chord).code, control: chord.ctrl };
    format!("{}{key}", if chord.alt { "Alt-" } else { "" })
}

/// The bytes 0x1c to 0x1f have two names each (crossterm calls Ctrl-\ Ctrl-4), letters with Ctrl two.
fn canonical(code: KeyCode, held: KeyModifiers) -> KeyCode {
    let KeyCode::Char(c) = code else { return code };
    if !held.contains(KeyModifiers::CONTROL) {
        return code;
    }
    KeyCode::Char(match c {
        '4' => '\\',
        '5' => ']',
        '6' => '^',
        '7' => '_',
        c => c.to_ascii_lowercase(),
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
