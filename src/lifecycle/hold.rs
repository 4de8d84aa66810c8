//! A person's wish that a stop does not go on to KILL yet.
//!
//! Set from one thread, read by the one that runs the ladder (`conduct`), which is woken by it. It is kept in memory
//! only: a stop whose manager dies is finished by a warden, and that one holds nothing.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

/// How long one stop can be held, all in all.
pub const HOLD_MAX: Duration = Duration::from_secs(600);

/// Whether a stop is held before KILL.
#[derive(Debug)]
pub struct Hold {
    wish: Mutex<Wish>,
    /// Becomes readable with every change of the wish; without it the ladder looks at the wish now and then.
    bell: Option<OwnedFd>,
}

#[derive(Debug, Default)]
struct Wish {
    /// Since when it is held.
    since: Option<Instant>,
    /// Until when it can be held: set by the first hold, and moved by none.
    limit: Option<Instant>,
    /// How long it was held before that.
    held: Duration,
    /// KILL was sent.
    passed: bool,
}

impl Hold {
    /// Returns one that holds nothing.
    #[expect(clippy::new_without_default, reason = "it opens a descriptor")]
    pub fn new() -> Self {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Self { wish: Mutex::default(), bell: eventfd(0, flags).ok() }
    }

    /// Holds, and returns until when at the longest; `None` where it is too late: KILL was sent, or the time for it is
    /// used up.
    pub fn hold(&self, now: Instant) -> Option<Instant> {
        let until = {
            let mut wish = self.wish();
            let limit = *wish.limit.get_or_insert(now + HOLD_MAX);
            if wish.passed || now >= limit {
                return None;
            }
            wish.since.get_or_insert(now);
            limit
        };
        self.ring();
        Some(until)
    }

    /// Lets it go on.
    pub fn release(&self, now: Instant) {
        self.wish().release(now);
        self.ring();
    }

    /// Returns until when it is held at the longest; `None` while it is not.
    pub fn until(&self, now: Instant) -> Option<Instant> {
        let wish = self.wish();
        wish.since.and(wish.limit).filter(|limit| now < *limit)
    }

    /// Returns how long it was held.
    pub fn held(&self, now: Instant) -> Duration {
        let mut wish = self.wish();
        wish.release(now);
        wish.held
    }

    /// KILL was sent: there is nothing to hold any more.
    pub(super) fn pass(&self) {
        self.wish().passed = true;
    }

    /// Returns what becomes readable when the wish changes.
    pub(super) fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.bell.as_ref().map(AsFd::as_fd)
    }

    /// Takes note that the bell was heard.
    pub(super) fn heard(&self) {
        if let Some(bell) = &self.bell {
            let _ignored = rustix::io::read(bell, &mut [0_u8; 8]);
        }
    }

    fn ring(&self) {
        if let Some(bell) = &self.bell {
            let _ignored = rustix::io::write(bell, &1_u64.to_ne_bytes());
        }
    }

    fn wish(&self) -> MutexGuard<'_, Wish> {
        self.wish.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wish {
    fn release(&mut self, now: Instant) {
        if let Some(since) = self.since.take() {
            let end = self.limit.map_or(now, |limit| now.min(limit));
            self.held += end.saturating_duration_since(since);
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn all_holds_of_a_stop_together_are_bounded() {
        let (hold, start) = (Hold::new(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(hold.until(start), None);
        assert_eq!(hold.hold(start).unwrap(), after(600));
        hold.release(after(10));
        assert_eq!(hold.until(after(11)), None);
        assert_eq!(hold.hold(after(400)).unwrap(), after(600), "the limit does not move");
        assert_eq!(hold.hold(after(500)).unwrap(), after(600));
        assert_eq!(hold.until(after(599)), Some(after(600)));
        assert_eq!(hold.until(after(600)), None);
        assert_eq!(hold.held(after(700)), Duration::from_secs(10 + 200));
        assert_eq!(hold.hold(after(700)), None);
    }

    #[test]
    fn after_kill_there_is_nothing_to_hold() {
        let (hold, start) = (Hold::new(), Instant::now());
        hold.pass();
        assert_eq!(hold.hold(start), None);
        assert_eq!(hold.until(start), None);
    }
}
