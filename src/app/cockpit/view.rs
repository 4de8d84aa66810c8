//! The live screen of a pane in tmux: a control-mode client fills an emulator of ours.
//!
//! It watches without a size and changes nothing that others see. As long as a person's terminal is attached, that
//! one decides how large the window is; when the last has left, the window gets the size of the view again.
//!
//! Anybody may detach the client, move it to another session, or kill it. As long as the session lives, another one
//! follows: at once, and later the more often it happens.

use std::num::NonZeroU32;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::super::runtime::Runtime;
use super::super::tui::Entered;
use super::capture::paint;
use super::link::{Link, Pace, Place, Typed};
use crate::pty::screen::{Notice, Screen, Size};
use crate::tmux::control::{Client, Ear, Heard, attach};
use crate::tmux::decoder::{Notification, Reply};
use crate::tmux::parse::{PaneModes, PaneRow};
use crate::tmux::{Server, TmuxError};

/// Output that waits longer than this is dropped by tmux, and the pane captured anew.
const PAUSE_AFTER_S: u32 = 2;
/// Lines of history that a capture brings along.
const HISTORY: u32 = 2000;
/// A screen that stands still for this long is worth a word.
const STANDS_STILL: Duration = Duration::from_secs(1);

/// A pane that is watched. Dropping it detaches.
pub(super) struct TmuxView(Arc<Shared>);

/// Whose pane it is.
pub(super) struct Subject {
    pub(super) runtime: Runtime,
    pub(super) session: String,
    /// Somebody else has launched it: its windows are left as they are.
    pub(super) keeps_size: bool,
}

/// What a view tells.
pub(super) enum Seen {
    /// There is something new on the screen.
    Changed {
        /// The bell rang.
        rang: bool,
    },
    /// Why the screen stands still, or what is lost.
    Trouble(String),
}

struct Shared {
    subject: Subject,
    link: Mutex<Link>,
    /// Notified when the view has left.
    left: Condvar,
    /// The size of the view.
    wanted: Mutex<Option<Size>>,
    /// The size that what is left of a session is wrapped to, whatever that of the window is.
    wrapped: Mutex<Option<Size>>,
    tell: Box<dyn Fn(Seen) + Send + Sync>,
}

impl TmuxView {
    /// Attaches to a pane's session; `screen` shows the pane from then on, and `tell` is called whenever it does.
    pub(super) fn attach(
        subject: Subject,
        (server, pane): (&Server, &PaneRow),
        screen: Arc<Mutex<Screen>>,
        tell: impl Fn(Seen) + Send + Sync + 'static,
    ) -> Result<Self, TmuxError> {
        let (client, ear) = call(&subject, server, pane)?;
        let shared = Arc::new(Shared {
            subject,
            link: Mutex::new(Link::new(place(server, pane), client)),
            left: Condvar::new(),
            wanted: Mutex::default(),
            wrapped: Mutex::default(),
            tell: Box::new(tell),
        });
        let line = Line::new(ear, place(server, pane));
        let mut listener = Listener { line, shared: Arc::clone(&shared), screen };
        std::thread::spawn(move || listener.run());
        Ok(Self(shared))
    }

    /// Types or pastes. Whether the program wants brackets around a paste is left to tmux.
    pub(super) fn enter(&self, entered: &Entered) {
        let typed = self.0.lock().enter(entered);
        self.0.tell_lost(typed, "tmux takes no more of what is typed into", "for now; it is lost");
    }

    /// Has what is painted from now on wrapped anew, and leaves the window as it is.
    pub(super) fn wrap(&self, size: Size) {
        *self.0.wrapped.lock().unwrap_or_else(PoisonError::into_inner) = Some(size);
    }

    /// Gives the window another size, where no person is attached to it. The listener sees the new layout and
    /// captures anew.
    pub(super) fn resize(&self, size: Size) {
        *self.0.wrapped.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.0.wanted.lock().unwrap_or_else(PoisonError::into_inner) = Some(size);
        self.0.fit();
    }
}

impl Drop for TmuxView {
    fn drop(&mut self) {
        let (client, typed) = self.0.lock().end();
        self.0.left.notify_all();
        drop(client);
        self.0.tell_lost(typed, "what was typed last into", "is lost: it was left before tmux could be reached again");
    }
}

fn call(subject: &Subject, server: &Server, pane: &PaneRow) -> Result<(Client, Ear), TmuxError> {
    let pause = NonZeroU32::new(PAUSE_AFTER_S).unwrap_or(NonZeroU32::MIN);
    attach(server, &pane.session, pause, subject.runtime.runtime_dir())
}

fn place(server: &Server, pane: &PaneRow) -> Place {
    Place { server: server.clone(), session: pane.session, pane: pane.pane, window: pane.window }
}

impl Shared {
    /// Brings the window to the size of the view, or, where a person's terminal is attached, lets that one decide.
    fn fit(self: &Arc<Self>) {
        if self.subject.keeps_size {
            return;
        }
        let (shared, place) = (Arc::clone(self), self.lock().place().clone());
        std::thread::spawn(move || {
            let Ok(people) = place.server.people(&place.session) else { return };
            if people > 0 {
                return drop(place.server.follow_clients(&place.window));
            }
            let Some(size) = *shared.wanted.lock().unwrap_or_else(PoisonError::into_inner) else { return };
            let fits = |row: PaneRow| (row.height, row.width) == (size.rows, size.cols);
            if !place.server.pane(&place.pane).is_ok_and(fits) {
                drop(place.server.resize(&place.window, size.rows, size.cols));
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell_lost(&self, typed: Typed, what: &str, how: &str) {
        if typed == Typed::Lost {
            (self.tell)(Seen::Trouble(format!("{what} {} {how}", self.subject.session)));
        }
    }

    /// Waits before another client is called; `false` where the view has left.
    fn pause(&self, pause: Duration) -> bool {
        let waits = self.left.wait_timeout_while(self.lock(), pause, |link| !link.is_over());
        !waits.unwrap_or_else(PoisonError::into_inner).0.is_over()
    }
}

struct Listener {
    line: Line,
    shared: Arc<Shared>,
    screen: Arc<Mutex<Screen>>,
}

/// What is heard from one client.
struct Line {
    ear: Ear,
    place: Place,
    /// A capture is to be asked for, or was and has not come: what is printed meanwhile is in it.
    captures: bool,
    /// What has come of it.
    half: Half,
    /// Whether the server has attached the client; unknown before its first reply.
    attached: Option<bool>,
    /// Commands that were answered.
    answered: u64,
    /// Why the client is of no use any more, as far as somebody said so.
    why: Option<String>,
    /// It is of no use any more.
    is_cut: bool,
}

impl Line {
    const fn new(ear: Ear, place: Place) -> Self {
        Self { ear, place, captures: true, half: Half::Nothing, attached: None, answered: 0, why: None, is_cut: false }
    }
}

/// What has come of a capture.
#[derive(Default)]
enum Half {
    #[default]
    Nothing,
    Modes(PaneModes),
    Rows(PaneModes, Vec<Vec<u8>>),
}

impl Listener {
    /// Listens until the view has left or the session has ended, to one client after the other.
    fn run(&mut self) {
        let mut pace = Pace::default();
        let mut is_told = false;
        let begin = Instant::now();
        let mut why = self.listen();
        let mut lasted = begin.elapsed();
        loop {
            let pause = pace.after(lasted);
            if pause < STANDS_STILL {
                is_told &= pause > Duration::ZERO;
            } else if !std::mem::replace(&mut is_told, true) {
                let session = &self.shared.subject.session;
                self.tell(Seen::Trouble(format!("{session} cannot be watched for now: {why}; it is tried again")));
            }
            if !self.shared.pause(pause) {
                return;
            }
            (why, lasted) = match self.follow() {
                Ok(true) => {
                    let begin = Instant::now();
                    (self.listen(), begin.elapsed())
                }
                // What was still to be typed has nobody to go to.
                Ok(false) => return drop(self.shared.lock().end()),
                Err(why) => (why, Duration::ZERO),
            };
        }
    }

    /// Calls another client, where the session lives; a question that failed is no end of it.
    fn follow(&mut self) -> Result<bool, String> {
        let subject = &self.shared.subject;
        let Some((server, pane)) = subject.runtime.seek_pane(&subject.session)? else { return Ok(false) };
        let (client, ear) = call(subject, &server, &pane).map_err(|error| error.to_string())?;
        let unwanted = self.shared.lock().join(place(&server, &pane), client);
        drop(unwanted);
        self.line = Line::new(ear, place(&server, &pane));
        Ok(true)
    }

    /// Listens to a client as long as it is of use; returns why it is not any more.
    fn listen(&mut self) -> String {
        while !self.line.is_cut {
            let heard = match self.line.ear.listen(Duration::from_secs(1)) {
                Ok(Heard::Notifications(heard)) => heard,
                Ok(Heard::Silence) => {
                    let mut link = self.shared.lock();
                    let Some(client) = link.client() else { break };
                    if client.has_ended() {
                        break;
                    }
                    // What the server did not take before it may take now.
                    drop(client.flush());
                    continue;
                }
                Ok(Heard::Closed) => break,
                Err(error) => {
                    self.line.why.get_or_insert_with(|| error.to_string());
                    break;
                }
            };
            let mut drawn = false;
            for notification in heard {
                drawn |= self.take(notification);
            }
            if drawn {
                let rang = self.lock_screen().take_notices().contains(&Notice::Bell);
                self.tell(Seen::Changed { rang });
            }
        }
        let (client, typed) = self.shared.lock().cut(self.line.answered);
        drop(client);
        self.shared.tell_lost(typed, "what was typed last into", "may be lost: its tmux client was cut off");
        self.line.why.take().unwrap_or_else(|| "its tmux client has ended".into())
    }

    /// Takes the first reply, which is that to the attachment itself, and asks for the pane as it is. What is asked
    /// before may be answered before, and what is printed in between is not heard.
    fn attached(&mut self, reply: &Reply) {
        self.line.attached = Some(reply.ok);
        if !reply.ok {
            self.line.why = reply.lines.first().map(|line| String::from_utf8_lossy(line).into_owned());
            return;
        }
        let pane = self.line.place.pane;
        let typed = {
            let mut link = self.shared.lock();
            // One that has ended since is heard to have.
            link.client().map(|client| client.capture(pane, HISTORY).ok());
            link.attached()
        };
        self.shared.tell_lost(typed, "not all of what was typed into", "could be kept until tmux was reached again");
        // Who came and went meanwhile was not heard.
        self.shared.fit();
    }

    fn take(&mut self, notification: Notification) -> bool {
        match notification {
            Notification::Reply(reply) if self.line.attached.is_none() => {
                self.attached(&reply);
                false
            }
            Notification::Reply(reply) => {
                self.line.answered += 1;
                self.line.captures && self.captured(reply)
            }
            Notification::Output { pane, bytes, .. } if pane == self.line.place.pane && !self.line.captures => {
                self.lock_screen().process(&bytes);
                true
            }
            Notification::Pause(pane) if pane == self.line.place.pane => {
                self.recapture(true);
                false
            }
            Notification::LayoutChange { .. } => {
                self.recapture(false);
                false
            }
            Notification::ClientDetached => {
                self.shared.fit();
                false
            }
            Notification::ClientSessionChanged(session) if session == self.line.place.session => {
                self.shared.fit();
                false
            }
            Notification::SessionChanged { session, .. } if session != self.line.place.session => {
                self.line.is_cut = true;
                self.line.why = Some("its tmux client was moved to another session".into());
                false
            }
            Notification::Exit { reason } => {
                self.line.is_cut = true;
                self.line.why = self.line.why.take().or(reason);
                false
            }
            Notification::ClientSessionChanged(_)
            | Notification::Output { .. }
            | Notification::Pause(_)
            | Notification::Continue(_)
            | Notification::WindowClose(_)
            | Notification::SessionChanged { .. }
            | Notification::SessionsChanged
            | Notification::Unknown(_)
            | Notification::Overlong(_) => false,
        }
    }

    /// Takes the next reply while a capture is on its way; tells whether that was the last of its three.
    fn captured(&mut self, reply: Reply) -> bool {
        self.line.half = match std::mem::take(&mut self.line.half) {
            // Other commands are answered, too; only a capture begins with the modes of its pane.
            Half::Nothing => {
                let modes = reply.lines.first().and_then(|line| PaneModes::parse(line).ok());
                modes.map_or(Half::Nothing, Half::Modes)
            }
            Half::Modes(modes) => Half::Rows(modes, reply.lines),
            Half::Rows(modes, rows) => {
                self.line.captures = false;
                self.redraw(&modes, &rows, &reply.lines);
                return true;
            }
        };
        false
    }

    fn recapture(&mut self, resume: bool) {
        let pane = self.line.place.pane;
        let mut link = self.shared.lock();
        let Some(client) = link.client() else { return };
        if resume {
            drop(client.resume(pane));
        }
        if !self.line.captures && client.capture(pane, HISTORY).is_ok() {
            self.line.captures = true;
        }
    }

    /// Paints what a capture says.
    fn redraw(&self, modes: &PaneModes, rows: &[Vec<u8>], lines: &[Vec<u8>]) {
        let mut fresh = paint(modes, rows, lines);
        let mut screen = self.lock_screen();
        if let Some(size) = *self.shared.wrapped.lock().unwrap_or_else(PoisonError::into_inner) {
            fresh.resize(size);
        }
        let generation = screen.generation();
        *screen = fresh;
        screen.outrun(generation);
    }

    fn tell(&self, seen: Seen) {
        (self.shared.tell)(seen);
    }

    fn lock_screen(&self) -> MutexGuard<'_, Screen> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
