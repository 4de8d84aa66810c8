//! The ports of a session: which of its members holds which listening socket.
//!
//! The host's listening sockets are one question for all sessions of a tick. Descriptors, of which a server may have
//! thousands, are read only where those sockets or the members are not what they were.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::Inner;
use super::session::Session;
use crate::lifecycle::identity::Identity;
use crate::lifecycle::inspect::{Sockets, ports_of};

/// How long the host's sockets serve.
const GLANCE: Duration = Duration::from_millis(200);
/// Looks after which descriptors are read anyway: a socket may be handed on without a change that shows (unix(7)).
const LOOKS_MAX: u32 = 10;

/// What ports follow from, and what followed.
#[derive(Debug)]
pub(super) struct Seen {
    sockets: Arc<Sockets>,
    members: Vec<Identity>,
    ports: Vec<u16>,
    looks: u32,
}

impl Inner {
    /// Returns the TCP ports on which these members of a session listen; `None` where that cannot be known.
    pub(super) fn ports_of(&self, session: &Session, members: Vec<Identity>) -> Option<Vec<u16>> {
        let sockets = self.sockets()?;
        if let Some(seen) = &mut session.state().seen_ports
            && seen.looks < LOOKS_MAX
            && (&seen.sockets, &seen.members) == (&sockets, &members)
        {
            seen.looks += 1;
            return Some(seen.ports.clone());
        }
        let listeners = sockets.of(&self.inspector, members.iter().map(|member| member.pid));
        let ports = ports_of(&listeners);
        session.state().seen_ports = Some(Seen { sockets, members, ports: ports.clone(), looks: 0 });
        Some(ports)
    }

    /// Returns the listening sockets of the host as they are, or were a moment ago.
    pub(super) fn sockets(&self) -> Option<Arc<Sockets>> {
        let mut kept = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, sockets)) = kept.as_ref()
            && at.elapsed() < GLANCE
        {
            return Some(Arc::clone(sockets));
        }
        let fresh = Arc::new(Sockets::read(&self.inspector)?);
        *kept = Some((Instant::now(), Arc::clone(&fresh)));
        Some(fresh)
    }
}
