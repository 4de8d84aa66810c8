//! Whoever turns to a terminal before it has been reached: what they type waits for it, and is no command meanwhile.

use std::time::{Duration, Instant};

use super::super::keymap::is_chord;
use super::super::seam::Typed;
use super::super::theme::Tone;
use super::Turn;

/// How long a terminal may take to be reached.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most keys and pastes that wait.
const TYPED_MAX: usize = 1024;

/// A terminal that is waited for, and what was typed for it.
#[derive(Debug)]
pub(in super::super) struct Early {
    session: String,
    until: Instant,
    typed: Vec<Typed>,
    /// What is typed goes to all that are marked as well.
    broadcast: bool,
}

impl Turn<'_> {
    /// Waits for the terminal of the selected session.
    pub(super) fn wait_for_terminal(&mut self, session: &str) {
        let (session, until) = (session.to_owned(), self.now + PATIENCE);
        self.model.early = Some(Early { session, until, typed: Vec::new(), broadcast: false });
    }

    /// Has what waits for the terminal typed into all that are marked as well. Returns whether it is waited for.
    pub(super) fn broadcast_early(&mut self) -> bool {
        let Some(early) = &mut self.model.early else { return false };
        early.broadcast = true;
        true
    }

    /// Keeps what is typed for a terminal that is waited for; gives it back where none is. The key that leaves a terminal
    /// ends the wait.
    pub(super) fn keep_early(&mut self, typed: Typed) -> Option<Typed> {
        let Some(early) = &mut self.model.early else { return Some(typed) };
        match &typed {
            Typed::Key(key) if is_chord(self.model.escape, key) => self.model.early = None,
            Typed::Key(_) | Typed::Paste(_) if early.typed.len() < TYPED_MAX => early.typed.push(typed),
            Typed::Key(_) | Typed::Paste(_) => {}
        }
        None
    }

    /// Types what has waited, once its terminal is there; drops it where that does not come, or is not looked at any more.
    pub(super) fn settle_early(&mut self) {
        let Some(early) = &self.model.early else { return };
        let row = self.model.current().filter(|row| row.session == early.session && !row.phase.is_over());
        let name = row.map(|row| row.name.clone());
        let there = self.model.modes().is_some();
        match name {
            Some(_) if !there && self.now < early.until => {}
            Some(name) if !there => {
                self.model.early = None;
                self.note(Tone::Warn, &format!("{name} has no terminal here: nobody has read what you typed"));
            }
            Some(_) => {
                let (typed, broadcast) =
                    self.model.early.take().map_or_else(Default::default, |early| (early.typed, early.broadcast));
                if broadcast {
                    self.broadcast();
                } else {
                    self.focus();
                }
                for typed in typed {
                    match typed {
                        Typed::Key(key) => self.type_key(&key),
                        Typed::Paste(text) => self.paste(&text),
                    }
                }
            }
            None => self.model.early = None,
        }
    }
}
