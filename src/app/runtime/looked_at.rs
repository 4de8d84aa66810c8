//! Which sessions somebody looks at: all of them, until a screen says that it is one, or none.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Runtime;
use crate::pty::Watch;

/// For so long after a person has done something a flood makes way.
const ATTENDED: Duration = Duration::from_millis(100);

/// Which sessions somebody looks at.
#[derive(Debug, Default)]
pub(super) struct LookedAt(Mutex<Looks>);

#[derive(Debug, Default)]
struct Looks {
    at: At,
    /// When a person did something last.
    done: Option<Instant>,
}

#[derive(Debug, Default)]
enum At {
    #[default]
    Everything,
    One(Option<String>),
}

impl LookedAt {
    /// Tells who waits to see what this session prints.
    pub(super) fn of(&self, session: &str) -> Watch {
        let looks = self.lock();
        match &looks.at {
            At::One(one) if one.as_deref() != Some(session) => Watch::Not,
            At::One(_) if looks.done.is_some_and(|done| done.elapsed() <= ATTENDED) => Watch::Busy,
            At::Everything | At::One(_) => Watch::Closely,
        }
    }

    /// Tells whether somebody looks, and at none of this session.
    pub(super) fn is_elsewhere(&self, session: &str) -> bool {
        matches!(&self.lock().at, At::One(one) if one.as_deref() != Some(session))
    }

    fn lock(&self) -> MutexGuard<'_, Looks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Runtime {
    /// Says that a person looks at this session and at no other one; `None` is nobody.
    pub fn look_at(&self, session: Option<&str>) {
        self.inner.looked_at.lock().at = At::One(session.map(str::to_owned));
    }

    /// Says that a person has just done something, and waits to see what comes of it.
    pub fn attend(&self) {
        self.inner.looked_at.lock().done = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_looked_at_until_somebody_looks_at_one() {
        let looked_at = LookedAt::default();
        assert_eq!((looked_at.of("a"), looked_at.is_elsewhere("a")), (Watch::Closely, false));
        looked_at.lock().at = At::One(Some("a".into()));
        assert_eq!((looked_at.of("a"), looked_at.of("b")), (Watch::Closely, Watch::Not));
        assert!(looked_at.is_elsewhere("b") && !looked_at.is_elsewhere("a"));
        // Who has just pressed a key sees what comes of it, and a flood with pauses.
        looked_at.lock().done = Some(Instant::now());
        assert_eq!((looked_at.of("a"), looked_at.is_elsewhere("a")), (Watch::Busy, false));
        looked_at.lock().done = Instant::now().checked_sub(2 * ATTENDED);
        assert_eq!(looked_at.of("a"), Watch::Closely);
        looked_at.lock().at = At::One(None);
        assert_eq!(looked_at.of("a"), Watch::Not);
    }
}
