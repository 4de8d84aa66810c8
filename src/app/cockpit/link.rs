//! The way to a pane in tmux, which may be cut: somebody detaches our client, moves it to another session, or kills it.
//!
//! What is typed goes on to a client that the server has answered, and waits for one otherwise. No call waits.

use std::io;
use std::time::Duration;

use super::super::tui::Entered;
use super::append;
use crate::tmux::control::Client;
use crate::tmux::{PaneId, Server, SessionId, WindowId};

/// Bytes that wait for a client: as commands they have to fit into what a client keeps for its server.
const WAITING_LIMIT: usize = 64 << 10;
/// What an entry counts besides its bytes.
const ENTRY: usize = 64;
/// The first pause that is one.
const FIRST: Duration = Duration::from_millis(250);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(8);
/// A client that has lasted this many times the next pause makes up for the ones before it.
const MAKES_UP: u32 = 4;

/// What a view watches.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) server: Server,
    pub(super) session: SessionId,
    pub(super) pane: PaneId,
    pub(super) window: WindowId,
}

/// The client of a view, or what waits for one.
pub(super) struct Link {
    place: Place,
    line: Line,
    waiting: Waiting,
    /// Commands that the client was given, up to the last one that types.
    typed: u64,
    /// It was said that typing is lost.
    is_lost_said: bool,
}

enum Line {
    /// There is no client, or the server has not answered it.
    Waits(Option<Client>),
    /// The client is attached.
    Attached(Client),
    /// The session has ended, or the view has left.
    Over,
}

/// What became of what was typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Typed {
    /// It is on its way, or waits, or nobody is left to want it.
    Kept,
    /// It is lost; said for the first of several in a row only.
    Lost,
}

impl Link {
    pub(super) fn new(place: Place, client: Client) -> Self {
        let line = Line::Waits(Some(client));
        Self { place, line, waiting: Waiting::default(), typed: 0, is_lost_said: false }
    }

    pub(super) const fn place(&self) -> &Place {
        &self.place
    }

    pub(super) const fn is_over(&self) -> bool {
        matches!(self.line, Line::Over)
    }

    /// Returns the client, attached or about to be.
    pub(super) const fn client(&mut self) -> Option<&mut Client> {
        match &mut self.line {
            Line::Waits(client) => client.as_mut(),
            Line::Attached(client) => Some(client),
            Line::Over => None,
        }
    }

    /// Types or pastes.
    pub(super) fn enter(&mut self, entered: &Entered) -> Typed {
        let kept = match &mut self.line {
            Line::Over => true,
            Line::Attached(client) if self.waiting.is_empty() => match type_into(client, self.place.pane, entered) {
                Ok(()) => {
                    self.typed = client.said();
                    true
                }
                // The server is stopped, and has a mebibyte to read first.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
                // The client has ended, which its listener is about to hear.
                Err(_) => self.waiting.push(entered.clone()),
            },
            Line::Attached(_) | Line::Waits(_) => self.waiting.push(entered.clone()),
        };
        self.outcome(kept)
    }

    /// Takes the word of the server that the client is attached: what has waited is typed.
    pub(super) fn attached(&mut self) -> Typed {
        self.line = match std::mem::replace(&mut self.line, Line::Over) {
            Line::Waits(Some(client)) => Line::Attached(client),
            line @ (Line::Waits(None) | Line::Attached(_) | Line::Over) => line,
        };
        let mut all = Typed::Kept;
        for entered in self.waiting.take() {
            if self.enter(&entered) == Typed::Lost {
                all = Typed::Lost;
            }
        }
        all
    }

    /// Takes the word that the client is lost, after this many of its commands were answered: returns what is left of it, and
    /// whether something that was typed may have gone with it.
    pub(super) fn cut(&mut self, answered: u64) -> (Option<Client>, Typed) {
        let kept = self.typed <= answered;
        self.typed = 0;
        let client = match std::mem::replace(&mut self.line, Line::Waits(None)) {
            Line::Waits(client) => client,
            Line::Attached(client) => Some(client),
            Line::Over => {
                self.line = Line::Over;
                return (None, Typed::Kept);
            }
        };
        (client, self.outcome(kept))
    }

    /// Takes another client; gives it back where nobody wants it any more.
    pub(super) fn join(&mut self, place: Place, client: Client) -> Option<Client> {
        if self.is_over() {
            return Some(client);
        }
        self.place = place;
        self.line = Line::Waits(Some(client));
        None
    }

    /// Ends it; returns the client, and whether something still waits to be typed.
    pub(super) fn end(&mut self) -> (Option<Client>, Typed) {
        let client = match std::mem::replace(&mut self.line, Line::Over) {
            Line::Waits(client) => client,
            Line::Attached(client) => Some(client),
            Line::Over => None,
        };
        let kept = self.waiting.take().is_empty();
        (client, self.outcome(kept))
    }

    const fn outcome(&mut self, kept: bool) -> Typed {
        let is_news = !kept && !self.is_lost_said;
        self.is_lost_said = !kept;
        if is_news { Typed::Lost } else { Typed::Kept }
    }
}

fn type_into(client: &mut Client, pane: PaneId, entered: &Entered) -> io::Result<()> {
    match entered {
        Entered::Paste(paste) => client.paste(pane, paste.text.as_bytes()),
        Entered::Bytes(bytes) => client.type_bytes(pane, bytes),
    }
}

/// What was typed while nobody could take it, in its order.
#[derive(Debug, Default)]
struct Waiting {
    all: Vec<Entered>,
    size: usize,
}

impl Waiting {
    const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Keeps what was typed; `false` where there is no room for it.
    fn push(&mut self, entered: Entered) -> bool {
        let bytes = match &entered {
            Entered::Paste(paste) => paste.text.len(),
            Entered::Bytes(bytes) => bytes.len(),
        };
        let entries = self.all.len();
        if self.size + bytes + ENTRY > WAITING_LIMIT {
            return false;
        }
        append(&mut self.all, entered);
        self.size += bytes + (self.all.len() - entries) * ENTRY;
        true
    }

    fn take(&mut self) -> Vec<Entered> {
        self.size = 0;
        std::mem::take(&mut self.all)
    }
}

/// How soon a client that was lost is followed by another: at once, and later the more often it happens.
#[derive(Debug, Default)]
pub(super) struct Pace {
    next: Duration,
}

impl Pace {
    /// Returns how long to wait after a client that has lasted this long.
    pub(super) fn after(&mut self, lasted: Duration) -> Duration {
        if lasted >= self.next.max(FIRST) * MAKES_UP {
            self.next = Duration::ZERO;
        }
        let pause = self.next;
        self.next = (pause * 2).clamp(FIRST, LONGEST);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tui::Paste;
    use super::*;

    fn keys(text: &str) -> Entered {
        Entered::Bytes(text.as_bytes().to_vec())
    }

    fn paste(text: &str) -> Entered {
        Entered::Paste(Paste { text: text.to_owned(), bracketed: false })
    }

    #[test]
    fn the_first_client_is_followed_at_once_and_later_ones_later() {
        let mut pace = Pace::default();
        let pauses: Vec<u128> = (0..8).map(|_| pace.after(Duration::from_millis(5)).as_millis()).collect();
        assert_eq!(pauses, [0, 250, 500, 1000, 2000, 4000, 8000, 8000]);
        // One that has not lasted long enough does not make up for it.
        assert_eq!(pace.after(LONGEST * (MAKES_UP - 1)), LONGEST);
        assert_eq!(pace.after(LONGEST * MAKES_UP), Duration::ZERO);
        // Whoever detaches us again and again costs at most one attachment a second.
        for _ in 0..9 {
            assert_eq!(pace.after(FIRST * MAKES_UP), Duration::ZERO);
        }
    }

    #[test]
    fn what_waits_stays_in_order_and_is_bounded() {
        let mut waiting = Waiting::default();
        for entered in [keys("a"), keys("b"), paste("c"), keys("d")] {
            assert!(waiting.push(entered));
        }
        assert_eq!(waiting.take(), [keys("ab"), paste("c"), keys("d")]);
        assert!(waiting.is_empty());
        assert!(!waiting.push(paste(&"x".repeat(WAITING_LIMIT))));
        let count = (0..WAITING_LIMIT).take_while(|_| waiting.push(keys("k"))).count();
        assert_eq!(count, WAITING_LIMIT - 2 * ENTRY, "keys are one entry");
        assert!(!waiting.push(keys("k")), "it stays full");
        waiting.take();
        let count = (0..WAITING_LIMIT).take_while(|_| waiting.push(paste("p"))).count();
        assert_eq!(count, WAITING_LIMIT / (ENTRY + 1));
    }
}
