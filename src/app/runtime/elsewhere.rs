//! Watching a PTY session that another manager owns, and typing into it.
//!
//! Pictures are asked for again and again, each over a connection of its own ([`super::control`]): nothing that a
//! watcher does or fails to do holds the owner up, and the size of the terminal stays the owner's.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::control::{AT_ONCE, Asked, refused};
use super::session::Session;
use super::{Inner, Runtime};
use crate::app::contract::HostKind;
use crate::app::error::{AppError, ErrorKind};
use crate::lifecycle::clock::boottime;
use crate::lifecycle::identity::Identity;

/// How long the rest of a launch may take.
const BEGINS: Duration = Duration::from_secs(2);

/// A look at a screen.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Glance {
    session: String,
    /// The generation of the picture that is there already.
    since: Option<u64>,
}

/// What somebody types.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Typed {
    session: String,
    base64: String,
    /// It is pasted: the owner knows whether the program wants brackets around it. An owner of before does not know the
    /// word, and refuses the request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    paste: bool,
}

/// A screen as its owner shows it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// Grows with every change.
    pub generation: u64,
    /// Height.
    pub rows: u16,
    /// Width.
    pub cols: u16,
    /// What paints an empty screen like it; `None` where nothing has changed.
    pub painted: Option<String>,
}

impl Inner {
    /// Shows the screen of a session of ours.
    pub(super) fn show(&self, glance: &Glance) -> Result<Value, AppError> {
        let session = self.ours(&glance.session)?;
        let Some(owned) = &session.pty else { return Err(not_ours(&glance.session)) };
        let screen = owned.pty.screen();
        let screen = screen.lock().unwrap_or_else(PoisonError::into_inner);
        let (size, generation) = (screen.size(), screen.generation());
        let painted = (glance.since != Some(generation)).then(|| screen.painted());
        let picture = Picture { generation, rows: size.rows, cols: size.cols, painted };
        drop(screen);
        serde_json::to_value(picture).map_err(|error| AppError::new(ErrorKind::Internal, error.to_string()))
    }

    /// Types into a session of ours what somebody typed elsewhere.
    pub(super) fn take_typed(&self, typed: &Typed) -> Result<Value, AppError> {
        let session = self.ours(&typed.session)?;
        let bytes = STANDARD.decode(&typed.base64);
        let bytes = bytes.map_err(|error| AppError::new(ErrorKind::Usage, format!("not base64: {error}")))?;
        if session.has_ended() {
            let message = format!("{} has ended: nobody reads what you type", session.id);
            return Err(AppError::new(ErrorKind::Failed, message));
        }
        if let Some(owned) = &session.pty {
            let began = boottime();
            let screen = owned.pty.screen();
            let is_bracketed =
                typed.paste && screen.lock().unwrap_or_else(PoisonError::into_inner).modes().bracketed_paste;
            if !typed.paste {
                self.answer(&session, began, &bytes);
            }
            owned.pty.write(if is_bracketed {
                [b"\x1b[200~", &bytes[..], b"\x1b[201~"].concat()
            } else {
                bytes.clone()
            });
            if typed.paste {
                self.answer_now(&session, began, &bytes);
            }
        }
        Ok(Value::Null)
    }

    pub(super) fn ours(&self, reference: &str) -> Result<Arc<Session>, AppError> {
        let until = Instant::now() + BEGINS;
        loop {
            let session = self.find(reference)?;
            if session.pty.is_some() {
                return Ok(session);
            }
            // Its record is there before its launch is over, and its workload may ask at once.
            let begins = session.tether().spawner == self.me && !session.state().settled;
            if !begins || Instant::now() >= until {
                return Err(not_ours(reference));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns a session and its owner, where that is another manager which lives.
    fn owned_elsewhere(&self, reference: &str) -> Option<(Arc<Session>, Identity)> {
        let session = self.lock().by_id.get(reference).cloned().filter(|session| session.host == HostKind::Pty)?;
        let owner = self.owner(&session)?;
        Some((session, owner))
    }
}

fn not_ours(reference: &str) -> AppError {
    refused(format!("{reference} is not a PTY session of this cookbook-tui"))
}

impl Runtime {
    /// Tells whether a session lives in a PTY of another manager.
    pub fn is_elsewhere(&self, session: &str) -> bool {
        self.inner.owned_elsewhere(session).is_some()
    }

    /// Asks the owner of a session for its screen; `None` where it has no owner any more. `since` is the generation
    /// of the picture that is there already. Waits for the owner, up to five seconds.
    ///
    /// # Errors
    /// When the owner cannot be reached, does not answer, or does not know the session.
    pub fn picture(&self, session: &str, since: Option<u64>) -> Result<Option<Picture>, AppError> {
        let Some((session, owner)) = self.inner.owned_elsewhere(session) else { return Ok(None) };
        let glance = Glance { session: session.id.clone(), since };
        let value = self.inner.ask_owner(&session, &owner, Asked::Picture(glance), Some(AT_ONCE))?;
        let strange = |error| refused(format!("the owner of {} showed no picture: {error}", session.id));
        value.map(serde_json::from_value).transpose().map_err(strange)
    }

    /// Has the owner of a session type bytes into it. Waits for the owner, up to five seconds.
    ///
    /// # Errors
    /// When it has no owner any more, or as for [`Runtime::picture`].
    pub fn type_elsewhere(&self, session: &str, bytes: &[u8]) -> Result<(), AppError> {
        self.have_typed(session, bytes, false)
    }

    /// Has the owner of a session paste a text into it, in brackets where its program has asked for them. An owner that
    /// is older than this types it.
    ///
    /// # Errors
    /// As for [`Runtime::type_elsewhere`].
    pub(super) fn paste_elsewhere(&self, session: &str, text: &str) -> Result<(), AppError> {
        match self.have_typed(session, text.as_bytes(), true) {
            Err(error) if error.kind == ErrorKind::Usage => self.have_typed(session, text.as_bytes(), false),
            told => told,
        }
    }

    fn have_typed(&self, session: &str, bytes: &[u8], paste: bool) -> Result<(), AppError> {
        let gone =
            || AppError::new(ErrorKind::Failed, format!("the owner of {session} is gone: nobody reads what you type"));
        let (session, owner) = self.inner.owned_elsewhere(session).ok_or_else(gone)?;
        let typed = Typed { session: session.id.clone(), base64: STANDARD.encode(bytes), paste };
        let value = self.inner.ask_owner(&session, &owner, Asked::Type(typed), Some(AT_ONCE))?;
        value.map(drop).ok_or_else(gone)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// An owner from before there were pastes is told nothing new of what is typed.
    #[test]
    fn what_is_typed_is_said_as_ever() {
        let typed = |paste| Typed { session: "shell-0123abcd".into(), base64: "eA==".into(), paste };
        let said = |paste| serde_json::to_value(Asked::Type(typed(paste))).unwrap()["type"].take();
        assert_eq!(said(false), serde_json::json!({"session": "shell-0123abcd", "base64": "eA=="}));
        assert_eq!(said(true)["paste"], true);
    }
}
