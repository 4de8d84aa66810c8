//! What is typed and pasted into a session. It is an answer to whatever the session waits for.

use std::sync::{Arc, PoisonError};

use super::launch::tmux;
use super::session::Session;
use super::{Inner, Runtime};
use crate::app::error::{AppError, ErrorKind};
use crate::lifecycle::clock::boottime;
use crate::tmux::keys::parse_all as parse_keys;

impl Inner {
    pub(super) fn send(&self, reference: &str, text: Option<&str>, keys: &[String]) -> Result<(), AppError> {
        let session = self.find(reference)?;
        self.send_to(&session, text, keys)
    }

    pub(super) fn send_to(&self, session: &Arc<Session>, text: Option<&str>, keys: &[String]) -> Result<(), AppError> {
        let parsed = parse_keys(keys).map_err(|error| AppError::new(ErrorKind::Usage, error.to_string()))?;
        takes_input(session)?;
        let began = boottime();
        if let Some(owned) = &session.pty {
            let modes = {
                let screen = owned.pty.screen();
                let screen = screen.lock().unwrap_or_else(PoisonError::into_inner);
                screen.modes()
            };
            let mut bytes = text.unwrap_or_default().as_bytes().to_vec();
            for name in keys {
                let encoded = crate::pty::keys::encode(name, modes);
                bytes.extend(encoded.ok_or_else(|| AppError::new(ErrorKind::Usage, format!("unknown key {name:?}")))?);
            }
            owned.pty.write(bytes.clone());
            self.answer_now(session, began, &bytes);
            return Ok(());
        }
        let (server, pane) = self.pane_of(session)?;
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            server.send_text(&pane.pane, text).map_err(|error| tmux(&error))?;
        }
        if !parsed.is_empty() {
            server.send_keys(&pane.pane, &parsed).map_err(|error| tmux(&error))?;
        }
        // Which bytes tmux makes of a key is its own affair; none of them is shown.
        let keys = if parsed.is_empty() { "" } else { "\r" };
        self.answer_now(session, began, format!("{}{keys}", text.unwrap_or_default()).as_bytes());
        Ok(())
    }
}

impl Runtime {
    /// Types bytes into a PTY session of this run; tells whether it is one.
    pub fn type_bytes(&self, session: &str, bytes: impl FnOnce() -> Vec<u8>) -> bool {
        let session = self.inner.lock().by_id.get(session).cloned();
        if let Some((session, owned)) = session.as_ref().and_then(|session| Some((session, session.pty.as_ref()?))) {
            let bytes = bytes();
            self.inner.answer(session, boottime(), &bytes);
            owned.pty.write(bytes);
            return true;
        }
        false
    }

    /// Pastes a text into a session that is not looked at: tmux brackets it where its program has asked for that, and
    /// so does another manager in a PTY of its own.
    ///
    /// # Errors
    /// As [`Runtime::type_elsewhere`], or when tmux does not take it.
    pub fn paste(&self, session: &str, text: &str) -> Result<(), AppError> {
        if self.is_elsewhere(session) {
            return self.paste_elsewhere(session, text);
        }
        let session = self.inner.find(session)?;
        takes_input(&session)?;
        let began = boottime();
        let (server, pane) = self.inner.pane_of(&session)?;
        server.paste(&pane.pane, text).map_err(|error| tmux(&error))?;
        self.inner.answer_now(&session, began, text.as_bytes());
        Ok(())
    }
}

fn takes_input(session: &Session) -> Result<(), AppError> {
    if session.state().settled || session.phase().0.is_over() {
        let message = format!("{} has ended: nobody reads what is typed", session.id);
        return Err(AppError::new(ErrorKind::Failed, message));
    }
    Ok(())
}
