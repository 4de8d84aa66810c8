//! Who tends a container and puts it away once that has ended.
//!
//! podman leaves each container to conmon, which leads a kernel session of its own and comes back to our warden. When
//! the container has ended, conmon has podman clean up behind it, as children in that session. Ended before, they leave a
//! container that is taken to be running, and whose name is taken. So a teardown comes to them last: they end by
//! themselves. It is a matter of order alone: whoever borrows the name is ended as well, a moment later.

use super::authority::Pinned;
use super::identity::Pid;
use super::inspect::{Facts, Inspector};

const NAME: &str = "conmon";

/// The kernel sessions of those who tend.
#[derive(Debug, Default)]
pub(super) struct Tenders(Vec<Pid>);

impl Tenders {
    /// Finds them among processes that are held.
    pub(super) fn among<'a>(pinned: impl Iterator<Item = &'a Pinned>, inspector: &Inspector) -> Self {
        let leads = |facts: &Facts| facts.sid == facts.pid.raw() && facts.comm.starts_with(NAME.as_bytes());
        let is_conmon = |facts: &&Facts| leads(facts) && inspector.executable(facts.pid).as_deref() == Some(NAME);
        Self(pinned.map(Pinned::facts).filter(is_conmon).map(|facts| facts.pid).collect())
    }

    /// Tells whether a process is one of them, or one that they had started.
    pub(super) fn have(&self, facts: &Facts) -> bool {
        self.0.iter().any(|session| session.raw() == facts.sid)
    }
}
