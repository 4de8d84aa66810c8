//! The live screen of a pane in tmux: a control-mode client fills an emulator of ours.
//!
//! It watches without a size and changes nothing that others see. As long as a person's terminal is attached, that
//! one decides how large the window is; when the last has left, the window gets the size of the view again.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::super::tui::Entered;
use super::capture::paint;
use crate::pty::screen::{Notice, Screen, Size};
use crate::tmux::control::{Client, Ear, Heard, attach};
use crate::tmux::decoder::Notification;
use crate::tmux::parse::{PaneModes, PaneRow};
use crate::tmux::{PaneId, Server, SessionId, TmuxError, WindowId};

/// Output that waits longer than this is dropped by tmux, and the pane captured anew.
const PAUSE_AFTER_S: u32 = 2;
/// Lines of history that a capture brings along.
const HISTORY: u32 = 2000;

/// A pane that is watched. Dropping it detaches.
pub(super) struct TmuxView {
    shared: Arc<Shared>,
    place: Place,
}

struct Shared {
    client: Mutex<Option<Client>>,
    /// The size of the view.
    wanted: Mutex<Option<Size>>,
    /// The size that what is left of a session is wrapped to, whatever that of the window is.
    wrapped: Mutex<Option<Size>>,
}

/// What a view watches.
#[derive(Clone)]
struct Place {
    server: Server,
    session: SessionId,
    pane: PaneId,
    window: WindowId,
}

impl TmuxView {
    /// Attaches to a pane's session; `screen` shows the pane from then on, and `changed` is called whenever
    /// it does, with whether the bell rang.
    pub(super) fn attach(
        (server, runtime_dir): (&Server, &Path),
        pane: &PaneRow,
        screen: Arc<Mutex<Screen>>,
        changed: impl Fn(bool) + Send + 'static,
    ) -> Result<Self, TmuxError> {
        let pause = NonZeroU32::new(PAUSE_AFTER_S).unwrap_or(NonZeroU32::MIN);
        let (mut client, ear) = attach(server, &pane.session, pause, runtime_dir)?;
        client.capture(pane.pane, HISTORY).map_err(TmuxError::Io)?;
        let shared =
            Arc::new(Shared { client: Mutex::new(Some(client)), wanted: Mutex::default(), wrapped: Mutex::default() });
        let place = Place { server: server.clone(), session: pane.session, pane: pane.pane, window: pane.window };
        let mut listener = Listener {
            ear,
            shared: Arc::clone(&shared),
            place: place.clone(),
            pane: pane.pane,
            screen,
            captures: true,
            half: Half::Nothing,
        };
        std::thread::spawn(move || listener.run(&changed));
        Ok(Self { shared, place })
    }

    /// Types or pastes. Whether the program wants brackets around a paste is left to tmux.
    pub(super) fn enter(&mut self, entered: &Entered) {
        if let Some(client) = self.shared.lock().as_mut() {
            // A server that takes nothing more has a mebibyte to read first.
            drop(match entered {
                Entered::Paste(paste) => client.paste(self.place.pane, paste.text.as_bytes()),
                Entered::Bytes(bytes) => client.type_bytes(self.place.pane, bytes),
            });
        }
    }

    /// Has what is painted from now on wrapped anew, and leaves the window as it is.
    pub(super) fn wrap(&self, size: Size) {
        *self.shared.wrapped.lock().unwrap_or_else(PoisonError::into_inner) = Some(size);
    }

    /// Gives the window another size, where no person is attached to it. The listener sees the new layout and
    /// captures anew.
    pub(super) fn resize(&self, size: Size) {
        *self.shared.wrapped.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.shared.wanted.lock().unwrap_or_else(PoisonError::into_inner) = Some(size);
        self.shared.fit(&self.place);
    }
}

impl Drop for TmuxView {
    fn drop(&mut self) {
        self.shared.lock().take();
    }
}

impl Shared {
    /// Brings the window to the size of the view, or, where a person's terminal is attached, lets that one decide.
    fn fit(self: &Arc<Self>, place: &Place) {
        let (shared, place) = (Arc::clone(self), place.clone());
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

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Client>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Listener {
    ear: Ear,
    shared: Arc<Shared>,
    place: Place,
    pane: PaneId,
    screen: Arc<Mutex<Screen>>,
    /// A capture was asked for and has not come: what is printed meanwhile is in it.
    captures: bool,
    /// What has come of it.
    half: Half,
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
    fn run(&mut self, changed: &impl Fn(bool)) {
        loop {
            let heard = match self.ear.listen(Duration::from_secs(1)) {
                Ok(Heard::Notifications(heard)) => heard,
                Ok(Heard::Silence) => {
                    let mut client = self.shared.lock();
                    match client.as_mut() {
                        // What the server did not take before it may take now.
                        Some(client) => drop(client.flush()),
                        None => return,
                    }
                    continue;
                }
                Ok(Heard::Closed) | Err(_) => return,
            };
            let mut drawn = false;
            for notification in heard {
                drawn |= self.take(notification);
            }
            if drawn {
                let rang = self.lock_screen().take_notices().contains(&Notice::Bell);
                changed(rang);
            }
        }
    }

    fn take(&mut self, notification: Notification) -> bool {
        match notification {
            Notification::Reply(reply) if self.captures => {
                self.half = match std::mem::take(&mut self.half) {
                    // Other commands are answered, too; only a capture begins with the modes of its pane.
                    Half::Nothing => {
                        let modes = reply.lines.first().and_then(|line| PaneModes::parse(line).ok());
                        modes.map_or(Half::Nothing, Half::Modes)
                    }
                    Half::Modes(modes) => Half::Rows(modes, reply.lines),
                    Half::Rows(modes, rows) => {
                        self.captures = false;
                        self.redraw(&modes, &rows, &reply.lines);
                        return true;
                    }
                };
                false
            }
            Notification::Output { pane, bytes, .. } if pane == self.pane && !self.captures => {
                self.lock_screen().process(&bytes);
                true
            }
            Notification::Pause(pane) if pane == self.pane => {
                self.recapture(true);
                false
            }
            Notification::LayoutChange { .. } => {
                self.recapture(false);
                false
            }
            Notification::ClientDetached => {
                self.shared.fit(&self.place);
                false
            }
            Notification::ClientSessionChanged(session) if session == self.place.session => {
                self.shared.fit(&self.place);
                false
            }
            Notification::Reply(_)
            | Notification::ClientSessionChanged(_)
            | Notification::Output { .. }
            | Notification::Pause(_)
            | Notification::Continue(_)
            | Notification::Exit { .. }
            | Notification::WindowClose(_)
            | Notification::SessionChanged { .. }
            | Notification::SessionsChanged
            | Notification::Unknown(_)
            | Notification::Overlong(_) => false,
        }
    }

    fn recapture(&mut self, resume: bool) {
        let mut client = self.shared.lock();
        let Some(client) = client.as_mut() else { return };
        if resume {
            drop(client.resume(self.pane));
        }
        if !self.captures && client.capture(self.pane, HISTORY).is_ok() {
            self.captures = true;
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

    fn lock_screen(&self) -> std::sync::MutexGuard<'_, Screen> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
