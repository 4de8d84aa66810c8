//! Continues a workload that has stopped. Nobody else would: it leads its terminal, and no shell is above it.
//!
//! tmux does so with the root of a pane (`server_child_stopped` of its `server.c`), which here is the front. Whoever is in
//! the group of the workload was stopped with it, and is continued with it.

use nix::sys::signal::Signal as S;

use crate::lifecycle::authority::authorize;
use crate::lifecycle::guard::Guard;
use crate::lifecycle::identity::Pid;
use crate::lifecycle::inspect::Inspector;
use crate::lifecycle::kill::{Signal, deliver};
use crate::lifecycle::tree::{Depth, Scope, capture};

/// Tells whether a workload that was stopped by this signal is continued: one that its terminal has stopped would be
/// stopped again at once.
pub(super) fn continues(signal: i32) -> bool {
    signal != S::SIGTTIN as i32 && signal != S::SIGTTOU as i32
}

/// Continues the workload, and whoever is in its process group, as far as they are verified.
pub(super) fn resume(workload: Pid, scope: &Scope, inspector: &Inspector) {
    let guard = Guard::new(inspector);
    let captured = capture(scope, Depth::Trees, &guard, inspector);
    let Some(leader) = captured.members.iter().find(|member| member.pinned.identity().pid == workload) else { return };
    let group = leader.pinned.facts().pgid;
    for member in captured.members.iter().filter(|member| member.pinned.facts().pgid == group) {
        if let Ok(owned) = authorize(&member.pinned, member.pinned.identity(), &guard, inspector) {
            // One that has ended meanwhile needs nothing.
            deliver(owned, Signal::Cont).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_its_terminal_has_stopped_stays_stopped() {
        let continued = [S::SIGSTOP, S::SIGTSTP, S::SIGTTIN, S::SIGTTOU].map(|signal| continues(signal as i32));
        assert_eq!(continued, [true, true, false, false]);
    }
}
