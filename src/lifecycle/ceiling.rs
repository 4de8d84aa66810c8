//! When a ceiling is spoken of before it comes, and when it is moved by itself. Pure; all times are seconds on
//! `CLOCK_BOOTTIME`.

use super::tether::Tether;

/// How long before a ceiling it is spoken of.
pub const NOTICES_S: [f64; 2] = [1800.0, 300.0];

/// What a server or a download gets that a person started: renewed while a manager verifies it, because a
/// healthy one must not die of a default.
pub const RENEWED_S: f64 = 30.0 * DAY_S;

/// A renewal writes the record, so it waits until it moves the ceiling by this much.
const RENEWAL_STEP_S: f64 = DAY_S;

const DAY_S: f64 = 86_400.0;

/// Returns when the next notice is due; a ceiling that was nearer than a notice from its beginning has none.
pub fn next_notice(not_after: f64, now: f64) -> Option<f64> {
    NOTICES_S.iter().map(|before| not_after - before).find(|at| *at > now)
}

/// Says how much time is left.
pub fn notice(left_s: f64) -> String {
    format!("its ceiling comes in {:.0} minutes and ends it; `extend` moves it", (left_s / 60.0).max(0.0))
}

/// Returns the new ceiling of a session whose workload was just verified; `None` where it stays.
pub fn renewed(tether: &Tether, now: f64) -> Option<f64> {
    let new = now + tether.renew_s?;
    (now < tether.not_after && new - tether.not_after >= RENEWAL_STEP_S).then_some(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_notices_and_no_more() {
        for (now, expected) in [
            (0.0, Some(8200.0)),
            (8199.0, Some(8200.0)),
            (8200.0, Some(9700.0)),
            (9699.0, Some(9700.0)),
            (9700.0, None),
            (10_001.0, None),
        ] {
            assert_eq!(next_notice(10_000.0, now), expected, "{now}");
        }
    }

    #[test]
    fn what_is_said_is_in_minutes() {
        assert_eq!(notice(1799.6), "its ceiling comes in 30 minutes and ends it; `extend` moves it");
        assert_eq!(notice(-3.0), "its ceiling comes in 0 minutes and ends it; `extend` moves it");
    }

    #[test]
    fn only_a_default_is_renewed_and_at_most_once_a_day() {
        let mut tether = crate::lifecycle::tether::sample();
        (tether.spawned_at, tether.not_after) = (0.0, RENEWED_S);
        assert_eq!(renewed(&tether, 2.0 * DAY_S), None, "a ceiling that somebody chose");
        tether.renew_s = Some(RENEWED_S);
        assert_eq!(renewed(&tether, 0.5 * DAY_S), None);
        assert_eq!(renewed(&tether, 2.0 * DAY_S), Some(2.0 * DAY_S + RENEWED_S));
        assert_eq!(renewed(&tether, RENEWED_S + 1.0), None, "it has come");
    }
}
