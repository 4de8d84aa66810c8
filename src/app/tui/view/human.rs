//! Numbers for people: short, and coarse enough not to flicker. Pure.

use std::time::Duration;

use super::super::glyph;

/// What stands for a value that is not known.
pub(super) const UNKNOWN: &str = glyph::UNKNOWN;

/// Returns a size in at most five characters, for example `812M` or `1.2G`.
pub(in super::super) fn bytes(value: Option<u64>) -> String {
    let Some(value) = value.map(u128::from) else { return UNKNOWN.to_owned() };
    // The value in tenths of the unit `1 << (10 * power)`, rounded.
    let tenths = |power: usize| (value * 10 + (1 << (10 * power)) / 2) >> (10 * power);
    let power = (0..UNITS.len() - 1).find(|power| tenths(*power) < 10_240).unwrap_or(UNITS.len() - 1);
    let tenths = tenths(power);
    if tenths < 100 && power > 1 {
        format!("{}.{}{}", tenths / 10, tenths % 10, UNITS[power])
    } else {
        format!("{}{}", (tenths + 5) / 10, UNITS[power])
    }
}

const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];

/// Returns a share of one core, for example `12%`; more than one core shows as more than 100.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
pub(super) fn percent(value: Option<f64>) -> String {
    match value {
        Some(value) if value.is_finite() => format!("{}%", value.clamp(0.0, 99_999.0).round() as u32),
        Some(_) | None => UNKNOWN.to_owned(),
    }
}

/// Returns an age in at most three characters, for example `3m`, `2h`, `12d`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
pub(super) fn age(seconds: Option<f64>) -> String {
    let Some(seconds) = seconds.filter(|seconds| seconds.is_finite()) else { return UNKNOWN.to_owned() };
    match seconds.clamp(0.0, 1e11) as u64 {
        0..60 => "<1m".to_owned(),
        s @ 60..3_600 => format!("{}m", s / 60),
        s @ 3_600..86_400 => format!("{}h", s / 3_600),
        s @ 86_400..31_536_000 => format!("{}d", s / 86_400),
        s => format!("{}y", s / 31_536_000),
    }
}

/// Returns how long after the start something happened, for example `3m12s`.
pub(in super::super) fn since_start(at: Duration) -> String {
    let seconds = at.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
    }
}

/// Returns a count with its noun, for example `1 process`, `2 processes`.
pub(super) fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (value, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1000"),
            (1_024, "1K"),
            (10_240, "10K"),
            (1_023_999, "1000K"),
            (1_048_576, "1.0M"),
            (851_443_712, "812M"),
            (1_288_490_189, "1.2G"),
            (8 << 30, "8.0G"),
            (80 << 30, "80G"),
            (1_072_693_248, "1023M"),
            (1_073_741_823, "1.0G"),
            (1 << 40, "1.0T"),
            (u64::MAX, "16E"),
        ] {
            assert_eq!(bytes(Some(value)), text, "{value}");
            assert!(bytes(Some(value)).len() <= 5);
        }
        assert_eq!(bytes(None), "–");
    }

    #[test]
    fn shares() {
        for (value, text) in [
            (0.0, "0%"),
            (0.4, "0%"),
            (12.5, "13%"),
            (1234.0, "1234%"),
            (-1.0, "0%"),
            (f64::NAN, "–"),
            (1e300, "99999%"),
        ] {
            assert_eq!(percent(Some(value)), text);
        }
        assert_eq!(percent(None), "–");
    }

    #[test]
    fn ages() {
        for (value, text) in [
            (0.0, "<1m"),
            (59.9, "<1m"),
            (60.0, "1m"),
            (7_300.0, "2h"),
            (86_400.0 * 12.0, "12d"),
            (86_400.0 * 800.0, "2y"),
            (-5.0, "<1m"),
            (f64::INFINITY, "–"),
        ] {
            assert_eq!(age(Some(value)), text, "{value}");
        }
    }

    #[test]
    fn times_since_the_start() {
        for (seconds, text) in [(0, "0s"), (59, "59s"), (192, "3m12s"), (7_380, "2h03m")] {
            assert_eq!(since_start(Duration::from_secs(seconds)), text);
        }
    }
}
