//! The screen of a PTY session that another manager owns: asked of the owner again and again.
//!
//! It changes nothing there: the size stays the owner's, and what the program writes to the clipboard goes to it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::app::error::AppError;
use crate::app::runtime::Runtime;
use crate::app::runtime::elsewhere::Picture;
use crate::pty::screen::{HistoryLimit, Screen, Size};

/// Time between two pictures.
const PACE: Duration = Duration::from_millis(250);
/// The same, while somebody types.
const LIVELY: Duration = Duration::from_millis(30);
/// How long somebody counts as typing.
const TYPING: Duration = Duration::from_secs(1);

/// A session that is watched. Dropping it ends that.
pub(super) struct Remote(Sender<Vec<u8>>);

/// What a watcher is told.
pub(super) enum Heard {
    /// There is a new picture.
    Changed,
    /// The owner was not heard; told once.
    Trouble(AppError),
}

impl Remote {
    /// Watches; `screen` shows the session from the first picture on.
    pub(super) fn watch(
        runtime: Runtime,
        session: String,
        screen: Arc<Mutex<Screen>>,
        tell: impl Fn(Heard) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (sender, typed) = channel();
        let mut watcher = Watcher { runtime, session, screen, since: None, typing_until: None, trouble: None };
        std::thread::Builder::new().spawn(move || watcher.run(&typed, &tell))?;
        Ok(Self(sender))
    }

    /// Types bytes, in the order of the calls.
    pub(super) fn type_bytes(&self, bytes: Vec<u8>) {
        // The watcher lives as long as this does.
        self.0.send(bytes).ok();
    }
}

struct Watcher {
    runtime: Runtime,
    session: String,
    screen: Arc<Mutex<Screen>>,
    since: Option<u64>,
    typing_until: Option<Instant>,
    trouble: Option<String>,
}

impl Watcher {
    fn run(&mut self, typed: &Receiver<Vec<u8>>, tell: &impl Fn(Heard)) {
        loop {
            let mut result = self.look(tell);
            let typing = self.typing_until.is_some_and(|until| Instant::now() < until);
            match typed.recv_timeout(if typing { LIVELY } else { PACE }) {
                Ok(mut bytes) => {
                    bytes.extend(typed.try_iter().flatten());
                    self.typing_until = Some(Instant::now() + TYPING);
                    result = result.and(self.runtime.type_elsewhere(&self.session, &bytes));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            match result {
                Ok(()) => self.trouble = None,
                Err(error) if self.trouble.as_ref() == Some(&error.message) => {}
                Err(error) => {
                    self.trouble = Some(error.message.clone());
                    tell(Heard::Trouble(error));
                }
            }
        }
    }

    /// Asks for the next picture and paints it.
    fn look(&mut self, tell: &impl Fn(Heard)) -> Result<(), AppError> {
        // Without an owner it has ended: what is shown is its last picture.
        let Some(picture) = self.runtime.picture(&self.session, self.since)? else { return Ok(()) };
        self.since = Some(picture.generation);
        if let Some(painted) = &picture.painted {
            self.paint(&picture, painted);
            tell(Heard::Changed);
        }
        Ok(())
    }

    fn paint(&self, picture: &Picture, painted: &str) {
        let mut fresh = Screen::new(Size::clamped(picture.rows, picture.cols), HistoryLimit::default());
        fresh.process(painted.as_bytes());
        let mut screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        fresh.outrun(screen.generation());
        *screen = fresh;
    }
}
