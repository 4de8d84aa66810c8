//! Checks of the durations that people and scripts give.

use crate::app::error::{AppError, ErrorKind};

/// A day, in seconds.
pub(super) const DAY_S: f64 = 86_400.0;

/// Checks a grace; without one it is the default.
pub(super) fn grace(seconds: Option<f64>) -> Result<f64, AppError> {
    let seconds = seconds.unwrap_or(crate::lifecycle::teardown::GRACE.as_secs_f64());
    if seconds.is_finite() && (0.0..=86_400.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err(AppError::new(
            ErrorKind::Usage,
            format!("grace_s is {seconds:?}: it must be a number of seconds from 0 to 86400"),
        ))
    }
}

/// Checks a ceiling: always finite.
pub(super) fn ceiling(seconds: f64) -> Result<f64, AppError> {
    if seconds.is_finite() && seconds > 0.0 && seconds <= 3650.0 * DAY_S {
        Ok(seconds)
    } else {
        Err(AppError::new(
            ErrorKind::Usage,
            format!("ceiling_s is {seconds:?}: it must be a number of seconds above 0 and at most ten years"),
        ))
    }
}
