//! The runtime as the screen sees it: commands on worker threads, rows once a second, and the emulator
//! of whichever session is looked at.
//!
//! No method waits: the loop of the screen calls them between two frames.

mod remote;
mod view;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::catalog::Look;
use super::command::{Answer, Command, OrphansRequest};
use super::contract::SessionRow;
use super::error::{AppError, ErrorKind};
use super::runtime::Runtime;
use super::tui::{Cockpit, Ticket, UiEvent};
use crate::pty::screen::{HistoryLimit, Screen, Size};
use remote::{Heard, Remote};
use view::TmuxView;

/// Time between two looks at the rows.
const TICK: Duration = Duration::from_secs(1);
/// Time between two looks for orphans.
const ORPHANS: Duration = Duration::from_secs(5);
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
    /// A PTY of this run, or a log.
    Own,
    /// A pane in tmux.
    Tmux(TmuxView),
    /// A PTY of another manager.
    Remote(Remote),
}

impl Bridge {
    /// Starts the threads that tell the screen what happens.
    pub fn new(runtime: Runtime, events: Sender<UiEvent>) -> Self {
        let inner = Arc::new(Inner {
            runtime,
            events,
            selected: Mutex::new(None),
            turn: AtomicU64::new(0),
            letting_go: AtomicU64::new(0),
        });
        forward_events(&inner);
        refresh_rows(&inner);
        announce_screens(&inner);
        Self { inner }
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

    fn input(&self, session: &str, bytes: Vec<u8>) {
        if let Some(selected) = self.inner.selected().as_mut()
            && selected.session == session
        {
            match &mut selected.source {
                Source::Own => {}
                Source::Tmux(view) => {
                    self.inner.runtime.answer(session);
                    return view.type_bytes(&bytes);
                }
                Source::Remote(remote) => return remote.type_bytes(bytes),
            }
        }
        self.inner.runtime.type_bytes(session, bytes);
    }

    fn resize(&self, session: &str, rows: u16, cols: u16) {
        if let Some(selected) = self.inner.selected().as_mut()
            && selected.session == session
            && let Source::Tmux(view) = &selected.source
        {
            if selected.keeps_size {
                return;
            }
            return view.resize(Size::clamped(rows, cols));
        }
        self.inner.runtime.resize_owned(session, rows, cols);
    }

    fn select(&self, session: Option<&str>) {
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
            let changed = move |rang: bool| {
                if rang {
                    runtime.ring(&rings);
                }
                events.send(UiEvent::ScreenChanged).ok();
            };
            let view = match TmuxView::attach(&server, &pane, Arc::clone(&screen), changed) {
                Ok(view) => view,
                Err(error) => return self.tell(UiEvent::Note(format!("{session} cannot be watched: {error}"))),
            };
            let keeps_size = self.runtime.is_guest(session);
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
        let bytes = crate::pty::read_log(&path).unwrap_or_default();
        let mut screen = Screen::new(Size::clamped(24, 80), HistoryLimit::default());
        screen.process(&bytes[bytes.len().saturating_sub(1 << 20)..]);
        let screen = Arc::new(Mutex::new(screen));
        let selected = Selected { session: session.to_owned(), screen, source: Source::Own, keeps_size: true };
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

fn forward_events(inner: &Arc<Inner>) {
    let (events, inner) = (inner.runtime.subscribe(), Arc::clone(inner));
    std::thread::spawn(move || {
        for numbered in events {
            inner.tell(UiEvent::Happened(numbered.event));
        }
    });
}

fn refresh_rows(inner: &Arc<Inner>) {
    let inner = Arc::clone(inner);
    inner.tell(UiEvent::Recipes(inner.runtime.recipes()));
    std::thread::spawn(move || {
        let mut before: Vec<SessionRow> = Vec::new();
        let mut tree_before = None;
        let mut orphans_at = None;
        loop {
            if orphans_at.is_none_or(|at: Instant| at.elapsed() >= ORPHANS) {
                inner.tell_orphans();
                orphans_at = Some(Instant::now());
            }
            let rows = inner.runtime.rows();
            if rows != before {
                inner.tell(UiEvent::Sessions(rows.clone()));
                before = rows;
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
