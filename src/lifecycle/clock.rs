//! The two clocks of a record: one that ceilings count on, one for display.

use std::time::{Duration, SystemTime};

/// Returns seconds on `CLOCK_BOOTTIME` (`clock_gettime(2)`): it counts through a suspend, and no clock step
/// moves it.
pub fn boottime() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0)).as_secs_f64()
}

/// Returns seconds since the Unix epoch, for display only.
pub fn wall() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64())
}
