//! The runtime as the screen sees it: commands on worker threads, rows once a second, and the emulator
//! of whichever session is looked at.
//!
//! No method waits: the loop of the screen calls them between two frames.

mod capture;
mod link;
mod remote;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::branch::branch_of;
use super::catalog::Look;
use super::command::{Answer, Command, OrphansRequest};
use super::contract::SessionRow;
use super::error::{AppError, ErrorKind};
use super::runtime::Runtime;
use super::runtime::others::Watched;
use super::runtime::query::SeenRecipes;
use super::tui::{Cockpit, Entered, Memory, Ticket, UiEvent, desktop};
use crate::lifecycle::spawn::{Spec, run};
use crate::pty::screen::{HistoryLimit, Screen, Size};
use remote::{Heard, Remote};
use view::{Seen, Subject, TmuxView};

/// Time between two looks at the rows.
const TICK: Duration = Duration::from_secs(1);
/// Time between two looks for orphans.
const ORPHANS: Duration = Duration::from_secs(5);
/// How long notify-send may take.
const DESKTOP: Duration = Duration::from_secs(5);
/// How long somebody who types into a session waits for more.
const TYPIST: Duration = Duration::from_secs(30);
/// Shortest time between two questions for the bells of tmux.
const BELLS: Duration = Duration::from_secs(2);
/// Time between two questions for what sessions of others have printed, while nothing else happens.
const GUESTS: Duration = Duration::from_secs(2);
/// Time between two looks at git branches.
const BRANCHES: Duration = Duration::from_secs(4);
/// How long the view of tmux may take to let go at the end.
const LET_GO: Duration = Duration::from_millis(300);
/// Shortest time between two words about a changed screen: more than a display shows.
const FRAME: Duration = Duration::from_millis(8);

/// The screen's way to the runtime.
pub struct Bridge {
    inner: Arc<Inner>,
}

struct Inner {
    runtime: Runtime,
    events: Sender<UiEvent>,
    selected: Mutex<Option<Selected>>,
    /// Grows with every selection, so that threads of an older one end.
    turn: AtomicU64,
    /// The directories that live sessions work in.
    dirs: Mutex<BTreeSet<String>>,
    /// What the next run is to remember.
    memory: Mutex<Option<Memory>>,
    /// Who types into sessions that are not looked at: each in its own order.
    typists: Mutex<BTreeMap<String, Sender<Entered>>>,
    /// Selections that are being left or made.
    letting_go: AtomicU64,
}

/// The session that is looked at.
struct Selected {
    session: String,
    screen: Arc<Mutex<Screen>>,
    source: Source,
    /// It was launched by somebody else, who decides its size.
    keeps_size: bool,
}

/// Where the screen of a session comes from.
enum Source {
    /// A PTY of this run.
    Own,
    /// The end of a log: nobody is left who could be told of a size.
    Log,
    /// A pane in tmux.
    Tmux(TmuxView),
    /// A PTY of another manager.
    Remote(Remote),
}

impl Bridge {
    /// Tells the screen what is there. What happens is told once the first frame is drawn.
    pub fn new(runtime: Runtime, events: Sender<UiEvent>) -> Self {
        let inner = Arc::new(Inner {
            runtime,
            events,
            selected: Mutex::new(None),
            turn: AtomicU64::new(0),
            dirs: Mutex::default(),
            memory: Mutex::default(),
            typists: Mutex::default(),
            letting_go: AtomicU64::new(0),
        });
        inner.runtime.look_at(None);
        forward_events(&inner);
        inner.tell(UiEvent::Sessions(inner.runtime.rows()));
        Self { inner }
    }

    /// Returns what the next run is to remember, once the screen has ended.
    pub fn remembered(&self) -> Option<Memory> {
        self.inner.memory.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Waits, for a short time, until the view of tmux has let go.
    pub fn settle(&self) {
        let until = Instant::now() + LET_GO;
        while self.inner.letting_go.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Cockpit for Bridge {
    fn begin(&self) {
        let inner = &self.inner;
        inner.runtime.watch();
        refresh_rows(inner);
        announce_screens(inner);
        refresh_branches(inner);
        launch_what_starts_by_itself(inner);
    }

    fn run(&self, ticket: Ticket, command: Command) {
        let inner = Arc::clone(&self.inner);
        let work = move || {
            let result = inner.runtime.execute(&command);
            inner.tell(UiEvent::Answered { ticket, result });
            inner.tell(UiEvent::Sessions(inner.runtime.rows()));
            inner.tell_orphans();
        };
        if std::thread::Builder::new().spawn(work).is_err() {
            let error = AppError::new(ErrorKind::Io, "the system refuses another thread; try again");
            self.inner.tell(UiEvent::Answered { ticket, result: Err(error) });
        }
    }

    fn input(&self, session: &str, entered: Entered) {
        if let Some(selected) = self.inner.selected().as_mut()
            && selected.session == session
        {
            match &mut selected.source {
                Source::Own | Source::Log => {}
                Source::Tmux(view) => {
                    self.inner.runtime.answer(session, &entered.bytes());
                    return view.enter(&entered);
                }
                Source::Remote(remote) => return remote.type_bytes(entered.bytes()),
            }
        }
        if !self.inner.runtime.type_bytes(session, || entered.bytes()) {
            self.inner.type_elsewhere(session, entered);
        }
    }

    fn resize(&self, session: &str, rows: u16, cols: u16) {
        let size = Size::clamped(rows, cols);
        if let Some(selected) = self.inner.selected().as_mut().filter(|selected| selected.session == session) {
            // What is left of a session is wrapped anew here: nobody is told.
            let is_left = matches!(selected.source, Source::Log) || self.inner.runtime.is_over(session);
            match &selected.source {
                Source::Log | Source::Tmux(_) if is_left => {
                    // One that is painted later takes its size from the view.
                    let mut screen = selected.screen.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Source::Tmux(view) = &selected.source {
                        view.wrap(size);
                    }
                    return screen.resize(size);
                }
                Source::Tmux(view) if !selected.keeps_size => return view.resize(size),
                Source::Log | Source::Tmux(_) | Source::Remote(_) => return,
                Source::Own => {}
            }
        }
        self.inner.runtime.resize_owned(session, rows, cols);
    }

    fn select(&self, session: Option<&str>) {
        self.inner.runtime.look_at(session);
        let turn = self.inner.turn.fetch_add(1, Ordering::SeqCst) + 1;
        // The view of the old one detaches on a thread of its own: that may take a moment.
        let old = self.inner.selected().take();
        let inner = Arc::clone(&self.inner);
        let session = session.map(str::to_owned);
        inner.letting_go.fetch_add(1, Ordering::SeqCst);
        let work = move || {
            drop(old);
            if let Some(session) = session {
                inner.look_at(&session, turn);
            }
            inner.letting_go.fetch_sub(1, Ordering::SeqCst);
        };
        if std::thread::Builder::new().spawn(work).is_err() {
            self.inner.letting_go.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn attend(&self) {
        self.inner.runtime.attend();
    }

    fn look(&self, look: Look) {
        let inner = Arc::clone(&self.inner);
        // Where the system refuses another thread, nothing is offered.
        std::thread::Builder::new()
            .spawn(move || {
                inner.tell(match look {
                    Look::Catalog => UiEvent::Catalog(Box::new(inner.runtime.catalog())),
                    Look::Dir { dir, base } => UiEvent::Listing(inner.runtime.listing(&dir, &base)),
                });
            })
            .ok();
    }

    fn notify(&self, said: String) {
        // One that cannot be started, or does not end, says nothing.
        std::thread::Builder::new().spawn(move || run(&Spec::new(desktop(&said)), None, DESKTOP).ok()).ok();
    }

    fn remember(&self, memory: Memory) {
        *self.inner.memory.lock().unwrap_or_else(PoisonError::into_inner) = Some(memory);
    }

    fn screen(&self, session: &str) -> Option<Arc<Mutex<Screen>>> {
        if let Some(selected) = self.inner.selected().as_ref().filter(|selected| selected.session == session) {
            return Some(Arc::clone(&selected.screen));
        }
        self.inner.runtime.screen_of(session)
    }
}

impl Inner {
    fn selected(&self) -> MutexGuard<'_, Option<Selected>> {
        self.selected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Types into a session in tmux, or of another manager, that is not looked at: one after the other, and off the loop
    /// of the screen.
    fn type_elsewhere(self: &Arc<Self>, session: &str, entered: Entered) {
        let mut typists = self.typists.lock().unwrap_or_else(PoisonError::into_inner);
        let typist = typists.entry(session.to_owned()).or_insert_with(|| {
            let (sender, typed) = channel::<Entered>();
            let (inner, session) = (Arc::clone(self), session.to_owned());
            // Where the system refuses another thread, the receiver is gone, and nothing is typed.
            std::thread::Builder::new().spawn(move || inner.type_on(&session, &typed)).ok();
            sender
        });
        if typist.send(entered).is_err() {
            typists.remove(session);
        }
    }

    fn type_on(&self, session: &str, typed: &Receiver<Entered>) {
        while let Ok(first) = typed.recv_timeout(TYPIST) {
            for entered in joined(std::iter::once(first).chain(typed.try_iter())) {
                let done = match entered {
                    Entered::Paste(paste) => self.runtime.paste(session, &paste.text),
                    Entered::Bytes(bytes) => {
                        let text = Some(String::from_utf8_lossy(&bytes).into_owned());
                        let send = Command::Send { session: session.to_owned(), text, keys: None };
                        self.runtime.execute(&send).map(drop)
                    }
                };
                if let Err(error) = done {
                    return self.tell(UiEvent::Note(error.message));
                }
            }
        }
    }

    fn tell(&self, event: UiEvent) {
        // A screen that has left hears nothing more.
        self.events.send(event).ok();
    }

    fn tell_orphans(&self) {
        if let Ok(Answer::Orphans(orphans)) = self.runtime.execute(&Command::Orphans(OrphansRequest::default())) {
            self.tell(UiEvent::Orphans(orphans));
        }
    }

    /// Finds the screen of a session, attaching to tmux where it lives there.
    fn look_at(self: &Arc<Self>, session: &str, turn: u64) {
        let selected = if let Some(screen) = self.runtime.screen_of(session) {
            Selected { session: session.to_owned(), screen, source: Source::Own, keeps_size: false }
        } else if self.runtime.is_elsewhere(session) {
            match self.watch_elsewhere(session) {
                Ok(selected) => selected,
                Err(error) => return self.tell(UiEvent::Note(format!("{session} cannot be watched: {error}"))),
            }
        } else {
            let Some((server, pane)) = self.runtime.pane(session) else { return self.show_log(session, turn) };
            let size = Size::clamped(pane.height, pane.width);
            let screen = Arc::new(Mutex::new(Screen::new(size, HistoryLimit::default())));
            let events = self.events.clone();
            let (runtime, rings) = (self.runtime.clone(), session.to_owned());
            let tell = move |seen| {
                let event = match seen {
                    Seen::Changed { rang } => {
                        if rang {
                            runtime.ring(&rings);
                        }
                        UiEvent::ScreenChanged
                    }
                    Seen::Trouble(said) => UiEvent::Note(said),
                };
                events.send(event).ok();
            };
            let keeps_size = self.runtime.is_guest(session);
            let subject = Subject { runtime: self.runtime.clone(), session: session.to_owned(), keeps_size };
            let view = match TmuxView::attach(subject, (&server, &pane), Arc::clone(&screen), tell) {
                Ok(view) => view,
                Err(error) => return self.tell(UiEvent::Note(format!("{session} cannot be watched: {error}"))),
            };
            Selected { session: session.to_owned(), screen, source: Source::Tmux(view), keeps_size }
        };
        self.install(selected, turn);
    }

    /// A terminal of another manager is asked of that one.
    fn watch_elsewhere(&self, session: &str) -> std::io::Result<Selected> {
        let screen = Arc::new(Mutex::new(Screen::new(Size::clamped(24, 80), HistoryLimit::default())));
        let events = self.events.clone();
        let tell = move |heard| {
            let event = match heard {
                Heard::Changed => UiEvent::ScreenChanged,
                Heard::Trouble(error) => UiEvent::Note(error.message),
            };
            events.send(event).ok();
        };
        let remote = Remote::watch(self.runtime.clone(), session.to_owned(), Arc::clone(&screen), tell)?;
        Ok(Selected { session: session.to_owned(), screen, source: Source::Remote(remote), keeps_size: true })
    }

    /// A session whose terminal is gone is shown by the end of its log.
    fn show_log(&self, session: &str, turn: u64) {
        let Ok(path) = self.runtime.log_path(session) else { return };
        let Ok(screen) = crate::pty::painted_log(&path) else { return };
        let screen = Arc::new(Mutex::new(screen));
        let selected = Selected { session: session.to_owned(), screen, source: Source::Log, keeps_size: false };
        self.install(selected, turn);
    }

    fn install(&self, selected: Selected, turn: u64) {
        let session = selected.session.clone();
        {
            let mut current = self.selected();
            if self.turn.load(Ordering::SeqCst) != turn {
                return;
            }
            *current = Some(selected);
        }
        self.tell(UiEvent::ScreenChanged);
        if let Ok(tree) = self.runtime.look(&session) {
            self.tell(UiEvent::Tree { session, tree });
        }
    }

    fn selected_session(&self) -> Option<String> {
        self.selected().as_ref().map(|selected| selected.session.clone())
    }
}

/// Makes one of bytes that follow each other.
fn joined(entered: impl Iterator<Item = Entered>) -> Vec<Entered> {
    let mut all = Vec::new();
    entered.for_each(|one| append(&mut all, one));
    all
}

/// Appends what was entered last.
fn append(all: &mut Vec<Entered>, last: Entered) {
    match (all.last_mut(), last) {
        (Some(Entered::Bytes(bytes)), Entered::Bytes(more)) => bytes.extend(more),
        (_, last) => all.push(last),
    }
}

fn forward_events(inner: &Arc<Inner>) {
    let (events, inner) = (inner.runtime.subscribe(), Arc::clone(inner));
    std::thread::spawn(move || {
        for numbered in events {
            inner.tell(UiEvent::Happened(numbered.event));
        }
    });
}

/// Launches the recipes with `autostart`, and says where no session can be in tmux.
fn launch_what_starts_by_itself(inner: &Arc<Inner>) {
    let asking = Arc::clone(inner);
    std::thread::spawn(move || {
        if let Some(note) = asking.runtime.tmux_note() {
            asking.tell(UiEvent::Note(note));
        }
    });
    let starting = Arc::clone(inner);
    std::thread::spawn(move || starting.runtime.autostart(&|note| starting.tell(UiEvent::Note(note))));
}

fn refresh_rows(inner: &Arc<Inner>) {
    let inner = Arc::clone(inner);
    let mut recipes = SeenRecipes::default();
    let mut tell_recipes = move |inner: &Inner| {
        if let Some(rows) = inner.runtime.watch_recipes(&mut recipes) {
            inner.tell(UiEvent::Recipes(rows));
        }
    };
    std::thread::spawn(move || {
        let mut before: Vec<SessionRow> = Vec::new();
        let (mut tree_before, mut printed_before) = (None, BTreeMap::new());
        // What has printed since tmux was asked for bells.
        let (mut rings, mut bells_at) = (BTreeSet::new(), None);
        // When sessions of others were asked for last, and how long to leave them alone: a server that is slow to answer
        // holds up nothing but a small part of the time.
        let (mut guests_at, mut rest) = (None, Duration::ZERO);
        let mut orphans_at = None;
        let mut strangers = Watched::default();
        loop {
            tell_recipes(&inner);
            if orphans_at.is_none_or(|at: Instant| at.elapsed() >= ORPHANS) {
                inner.tell_orphans();
                orphans_at = Some(Instant::now());
            }
            let rows = inner.runtime.rows();
            if rows != before {
                let live = rows.iter().filter(|row| row.machine == "local" && !row.phase.is_over());
                *inner.dirs.lock().unwrap_or_else(PoisonError::into_inner) =
                    live.filter_map(|row| row.cwd.clone()).collect();
                inner.tell(UiEvent::Sessions(rows.clone()));
                before = rows;
            }
            // Behind the rows: what is a session's own is none of these.
            if let Some(rows) = inner.runtime.watch_others(&mut strangers) {
                inner.tell(UiEvent::Strangers(rows));
            }
            let mut printed = inner.runtime.printed();
            // Whatever is told is told as of now: what was printed while somebody looked was seen.
            let patience = if printed == printed_before { GUESTS } else { Duration::ZERO };
            if guests_at.is_none_or(|at: Instant| at.elapsed() >= patience.max(rest)) {
                let begin = Instant::now();
                let asked = inner.runtime.hear_guests();
                (guests_at, rest) = (Some(Instant::now()), begin.elapsed() * 20);
                if asked {
                    printed = inner.runtime.printed();
                }
            }
            if printed != printed_before {
                inner.tell(UiEvent::Printed(printed.clone()));
                rings.extend(
                    printed.iter().filter(|row| printed_before.get(row.0) != Some(row.1)).map(|row| row.0.clone()),
                );
                printed_before = printed;
            }
            // A bell is output: where nothing was printed, nobody is asked.
            if !rings.is_empty() && bells_at.is_none_or(|at: Instant| at.elapsed() >= BELLS) {
                inner.runtime.hear_bells(rings.iter().map(String::as_str));
                rings.clear();
                bells_at = Some(Instant::now());
            }
            if let Some(session) = inner.selected_session()
                && let Some(tree) = inner.runtime.sampled(&session)
                && tree_before.as_ref() != Some(&(session.clone(), tree.clone()))
            {
                tree_before = Some((session.clone(), tree.clone()));
                inner.tell(UiEvent::Tree { session, tree });
            }
            // A stop is watched closely; an idle screen is not.
            let busy = before.iter().any(|row| row.phase == super::contract::Phase::Stopping);
            std::thread::sleep(if busy { TICK / 5 } else { TICK });
            if inner.runtime.is_closing() {
                return;
            }
        }
    });
}

/// Reads the git branches of the sessions' directories on a thread of its own: a directory may be one that does not
/// answer.
fn refresh_branches(inner: &Arc<Inner>) {
    let inner = Arc::clone(inner);
    std::thread::spawn(move || {
        let mut before = BTreeMap::new();
        while !inner.runtime.is_closing() {
            let dirs = inner.dirs.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let branch = |dir: String| branch_of(Path::new(&dir)).map(|branch| (dir, branch));
            let branches: BTreeMap<String, String> = dirs.into_iter().filter_map(branch).collect();
            if branches != before {
                inner.tell(UiEvent::Branches(branches.clone()));
                before = branches;
            }
            std::thread::sleep(BRANCHES);
        }
    });
}

/// Tells of a changed screen only where it is the one that is looked at: a flood elsewhere costs the
/// screen nothing.
fn announce_screens(inner: &Arc<Inner>) {
    let inner = Arc::clone(inner);
    std::thread::spawn(move || {
        let mut shown = (String::new(), 0);
        let mut printed = 0;
        while !inner.runtime.is_closing() {
            printed = inner.runtime.wait_for_output(printed);
            let current =
                inner.selected().as_ref().filter(|selected| matches!(selected.source, Source::Own)).map(|selected| {
                    let screen = selected.screen.lock().unwrap_or_else(PoisonError::into_inner);
                    (selected.session.clone(), screen.generation())
                });
            if let Some(current) = current.filter(|current| *current != shown) {
                shown = current;
                inner.tell(UiEvent::ScreenChanged);
                std::thread::sleep(FRAME);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::tui::Paste;

    #[test]
    fn a_paste_stays_one_among_keys() {
        let keys = |text: &str| Entered::Bytes(text.as_bytes().to_vec());
        let paste = |text: &str| Entered::Paste(Paste { text: text.to_owned(), bracketed: false });
        let entered = [keys("a"), keys("b"), paste("c"), paste("d"), keys("e"), keys("f")];
        assert_eq!(joined(entered.into_iter()), [keys("ab"), paste("c"), paste("d"), keys("ef")]);
        assert_eq!(joined(std::iter::empty()), []);
    }
}
