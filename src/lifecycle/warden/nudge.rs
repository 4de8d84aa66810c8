//! Asks a warden to look at its record again: a ceiling came nearer, or its workload is not to be started again.
//!
//! A warden sleeps until something happens, so somebody has to wake it. Its SIGUSR1 says nothing but that, is
//! blocked and read by every warden, and goes through the kill funnel like any other signal.

use crate::lifecycle::authority::{Pin, Pinned, authorize};
use crate::lifecycle::guard::Guard;
use crate::lifecycle::identity::Identity;
use crate::lifecycle::inspect::Inspector;
use crate::lifecycle::kill::{Signal, deliver};

/// Wakes a warden, also one that was stopped; tells whether that was possible. One that is not woken looks by itself within the hour.
pub fn nudge(warden: &Identity, guard: &Guard, inspector: &Inspector) -> bool {
    let Pin::Held(pinned) = Pinned::open(inspector, warden.pid) else { return false };
    let say = |signal| {
        let owned = authorize(&pinned, warden, guard, inspector);
        owned.is_ok_and(|owned| deliver(owned, signal).is_ok())
    };
    // One that somebody has stopped hears nothing before it goes on.
    say(Signal::Usr1) && (pinned.facts().state != 'T' || say(Signal::Cont))
}
