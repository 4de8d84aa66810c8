//! The one table of key bindings. With what a person has configured it becomes the [`Keymap`], which drives
//! dispatch, the footer, the help overlay and the palette, so that none of them can say something else than the
//! others.
//!
//! Pure. Every action has a key that needs neither Ctrl nor Alt nor a function key, but for the help where a text is
//! typed; a test holds it.

mod bound;
mod chord;
mod key;
mod names;
#[cfg(test)]
mod tests;

use crossterm::event::KeyCode;

pub(super) use bound::is_offered;
pub use bound::{Bound, Clash, Keymap, Wish};
pub(super) use chord::{is_chord, name_of, press_of};
pub use key::{Key, NoKey};
pub(super) use names::name_of as action_name;
pub use names::{action_names, context_names, table_text, table_value};

/// What the keys go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Context {
    /// The panes.
    Panes,
    /// A session's terminal: everything but the chord goes through.
    Terminal,
    /// The preview of a stop, a sweep or a restart.
    Preview,
    /// Something to read: a receipt, a stop.
    Reader,
    /// The help.
    Help,
    /// The event log.
    Events,
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
    pub const ALL: [Self; 17] = [
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
        Self::Help,
        Self::Events,
        Self::Error,
        Self::Quit,
    ];

    /// Returns the heading of the context in the help.
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Panes => "Sessions",
            Self::Terminal => "In a session's terminal",
            Self::Preview => "Preview",
            Self::Reader => "Receipt, stop, checks",
            Self::Help => "Help",
            Self::Events => "Events and receipts",
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
    /// Holds a stop before KILL, or lets it go on.
    Hold,
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
    /// Types into all that are marked.
    Broadcast,
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

const fn c(c: char) -> Key {
    Key::plain(KeyCode::Char(c))
}

const fn ctrl(c: char) -> Key {
    Key::control(c)
}

const fn k(code: KeyCode) -> Key {
    Key::plain(code)
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
    Ask, Error, Events, Filter, Form, Help, History, Line, Menu, Palette, Panes, Picker, Preview, Quit, Reader, Search,
    Terminal,
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
    bind(
        &[Panes],
        &[c('F')],
        Action::Fix,
        "fix",
        "open what is suggested for the session in the launch form, or show it",
    ),
    bind(&[Panes], &[c('E')], Action::Revise, "", "edit what the session was launched with, and launch it again"),
    bind(&[Panes], &[c('X')], Action::Force, "", "stop at once with KILL"),
    bind(&[Panes, Reader], &[c('H')], Action::Hold, "hold", "hold the stop that is shown before KILL, or let it go on"),
    bind(&[Panes], &[c('S')], Action::Sweep, "sweep", "end what earlier stops left behind"),
    bind(&[Panes], &[c('t')], Action::Tree, "tree", "show or hide the processes"),
    bind(
        &[Panes],
        &[c('w')],
        Action::Why,
        "why",
        "why the selected process is what it is, and what a stop does to it; why a session is over",
    ),
    bind(&[Panes], &[c('z')], Action::Zoom, "zoom", "give the pane the whole screen, and back"),
    bind(&[Panes], &[c('/')], Action::Find, "find", "show only the sessions that match; in a terminal: search it"),
    bind(&[Panes], &[c(' ')], Action::Mark, "mark", "mark: stop, force, restart, sweep and dismiss act on all marked"),
    bind(
        &[Panes],
        &[c('B')],
        Action::Broadcast,
        "",
        "broadcast: type into the selected session and all that are marked, until the terminal is left",
    ),
    bind(&[Panes], &[c('!'), c('n')], Action::Attention, "", "to the next session that wants you, or has failed"),
    bind(&[Panes], &[c('-')], Action::Fold, "", "fold the group of the selected session, or unfold it"),
    bind(&[Panes], &[c('[')], Action::LookBack, "", "look back in the terminal: search, select, copy"),
    bind(&[Panes], &[c(':')], Action::Palette, "commands", "find any command or session by its words"),
    bind(&[Panes], &[c('e')], Action::Events, "events", "what has happened: filter it, open receipts from it"),
    bind(&[Panes], &[c('v')], Action::Receipt, "", "show the last receipt again"),
    bind(&[Panes], &[c('o')], Action::Orphans, "", "list what is left of sessions without a manager"),
    bind(&[Panes], &[c('+')], Action::Extend, "", "let the session live longer: asks for how long"),
    bind(&[Panes], &[c('f')], Action::Dismiss, "", "forget a session that is over; its log stays"),
    bind(&[Panes], &[c('D')], Action::Doctor, "", "check how this host stands"),
    bind(&[Panes, Terminal], &[], Action::Leave, "leaves", "leave the terminal; twice sends the chord through"),
    bind(
        &[Panes, History, Preview, Reader, Help, Events, Menu, Picker],
        &[c('k'), k(KeyCode::Up)],
        Action::Up,
        "",
        "up; in a terminal's history: back one line",
    ),
    bind(
        &[Panes, History, Preview, Reader, Help, Events, Menu, Picker],
        &[c('j'), k(KeyCode::Down)],
        Action::Down,
        "",
        "down",
    ),
    bind(
        &[Panes, History, Preview, Reader, Help, Events, Menu, Picker],
        &[k(KeyCode::PageUp), c('u')],
        Action::PageUp,
        "",
        "one page up",
    ),
    bind(
        &[Panes, History, Preview, Reader, Help, Events, Menu, Picker],
        &[k(KeyCode::PageDown), c('d')],
        Action::PageDown,
        "",
        "one page down",
    ),
    bind(
        &[Panes, History, Preview, Reader, Help, Events, Menu, Picker],
        &[c('g'), k(KeyCode::Home)],
        Action::Top,
        "",
        "to the top",
    ),
    bind(
        &[Panes, History, Preview, Reader, Help, Events, Menu, Picker],
        &[c('G'), k(KeyCode::End)],
        Action::Bottom,
        "",
        "to the bottom",
    ),
    bind(&[History], &[c('/')], Action::Find, "search", "search by a regular expression"),
    bind(&[History], &[c('n')], Action::Next, "next", "to the next match"),
    bind(&[History], &[c('N')], Action::Previous, "", "to the match before"),
    bind(&[History], &[c('v')], Action::Select, "select", "begin to select, or no longer"),
    bind(&[History], &[c('V')], Action::SelectRows, "", "select whole lines, however they are wrapped"),
    bind(
        &[History],
        &[c('y'), c('c'), k(KeyCode::Enter)],
        Action::Copy,
        "copy",
        "copy what is selected, else the line",
    ),
    bind(&[History], &[c('e')], Action::Edit, "editor", "open all of it in $VISUAL or $EDITOR"),
    bind(&[History], &[c('h'), k(KeyCode::Left)], Action::Left, "", "left"),
    bind(&[History], &[c('l'), k(KeyCode::Right)], Action::Right, "", "right"),
    bind(&[History], &[c('0')], Action::LineStart, "", "to the start of the row"),
    bind(&[History], &[c('$')], Action::LineEnd, "", "to the end of the row"),
    bind(
        &[Search],
        &[k(KeyCode::Enter)],
        Action::Confirm,
        "keep",
        "keep what was found: to the next and the match before by their keys",
    ),
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
    bind(&[Filter], &[k(KeyCode::Enter)], Action::Confirm, "keep", "keep the filter; `back` in the list ends it"),
    bind(&[Palette], &[k(KeyCode::Enter)], Action::Confirm, "do it", "do what is selected"),
    bind(&[Ask], &[k(KeyCode::Enter)], Action::Confirm, "extend", "let it live for so long, from now"),
    bind(&[Quit], &[k(KeyCode::Enter), c('y')], Action::Confirm, "quit", "end what is named, then leave"),
    bind(&[Panes, Reader, Help, Events, Preview], &[c('c')], Action::Copy, "copy", "copy what is selected or shown"),
    bind(
        &[Preview, Search, Filter, Palette, Menu, Form, Picker, Line, Ask, Quit],
        &[k(KeyCode::Esc), ctrl('c')],
        Action::Close,
        "cancel",
        "close, and do nothing",
    ),
    bind(&[Preview, Menu, Picker, Quit], &[c('q'), c('n')], Action::Close, "", "the same"),
    bind(&[Reader, Error], &[k(KeyCode::Esc), k(KeyCode::Enter), c('q'), ctrl('c')], Action::Close, "close", "close"),
    bind(&[Events], &[k(KeyCode::Enter)], Action::Confirm, "receipt", "open the receipt that the line tells of"),
    bind(&[Events, Help], &[c('/')], Action::Find, "filter", "show only the lines that match"),
    bind(&[Events, Help], &[k(KeyCode::Esc), c('q'), ctrl('c')], Action::Close, "close", "all lines again; then close"),
    bind(&[Help], &[c('?'), k(KeyCode::Enter), k(KeyCode::F(1))], Action::Close, "", "the same"),
    bind(&[Panes], &[c('Z'), ctrl('z')], Action::Suspend, "", "back to the shell; fg returns, sessions run on"),
    bind(&[Panes], &[c('R'), ctrl('l')], Action::Redraw, "", "draw everything anew"),
    bind(
        &[Panes],
        &[c('?'), c('h'), k(KeyCode::F(1))],
        Action::Help,
        "help",
        "the keys of where you are, then the others",
    ),
    bind(
        &[History, Preview, Reader, Events, Menu, Picker, Error, Quit],
        &[c('?'), k(KeyCode::F(1))],
        Action::Help,
        "help",
        "show this help",
    ),
    bind(&[Search, Filter, Palette, Form, Line, Ask], &[k(KeyCode::F(1))], Action::Help, "help", "show this help"),
    bind(&[Panes], &[c('q'), ctrl('c')], Action::Quit, "quit", "leave: pty sessions end, tmux sessions stay"),
];

/// What the mouse does, for the help.
pub static MOUSE: &[(&str, &str)] = &[
    ("click", "select a session, a process or a pane; fold a group by its heading"),
    ("wheel", "scroll what is under the pointer"),
    ("in a terminal", "goes to the program that asked for it; else dragging selects and copies"),
];

/// Returns the bindings of a context, in order.
fn in_context(context: Context) -> impl Iterator<Item = &'static Binding> {
    BINDINGS.iter().filter(move |binding| binding.contexts.contains(&context))
}
