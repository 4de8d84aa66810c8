//! The descriptors that captures hold, kept within half of what this process may have open.
//!
//! A tree may have more processes than we may have descriptors (`RLIMIT_NOFILE`); the other half is for
//! reading, for terminals and for everybody else.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

static HELD: AtomicUsize = AtomicUsize::new(0);

/// A descriptor that counts.
#[derive(Debug)]
pub struct Share(OwnedFd);

/// Returns how many descriptors captures may hold.
fn limit() -> usize {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX) / 2
    })
}

/// Tells whether half of them are free, so that those who only watch may go on holding some.
pub(super) fn are_ample() -> bool {
    HELD.load(Ordering::Relaxed) < limit() / 2
}

impl Share {
    /// Opens a descriptor if there is one to spare; `None` where there is not, or where `open` fails.
    pub fn claim<E>(open: impl FnOnce() -> Result<OwnedFd, E>) -> Option<Self> {
        if HELD.load(Ordering::Relaxed) >= limit() {
            return None;
        }
        let opened = open().ok()?;
        HELD.fetch_add(1, Ordering::Relaxed);
        Some(Self(opened))
    }
}

impl AsFd for Share {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        HELD.fetch_sub(1, Ordering::Relaxed);
    }
}
