//! The two clocks of a record, one that ceilings count on and one for display; and how long a poll waits.

use std::time::{Duration, SystemTime};

use rustix::event::Timespec;

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

/// Returns whole seconds since the Unix epoch, for display only.
pub fn wall_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

/// Returns a duration as poll(2) and `epoll_wait(2)` take it; one too long for them is as good as for ever.
pub fn timespec(duration: Duration) -> Timespec {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec: seconds, tv_nsec: i64::from(duration.subsec_nanos()) }
}
