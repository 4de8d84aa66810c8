//! A question that is answered with one line: for how long a session may live on. Pure.

use super::field::Field;

/// The question how much longer a session may live.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// Which session.
    pub session: String,
    /// Its name.
    pub name: String,
    /// The answer so far.
    pub line: Field,
    /// Why the last answer was not taken.
    pub note: Option<String>,
}

impl Ask {
    /// Asks about a session; what is proposed is the longest default of all kinds.
    pub(in super::super) fn new(session: String, name: String) -> Self {
        let mut line = Field::default();
        line.insert("30d");
        Self { session, name, line, note: None }
    }
}

/// Reads a duration for people: a number with `s`, `m`, `h` or `d`, or of hours without. Returns seconds.
pub(in super::super) fn seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let (number, unit) = match text.char_indices().next_back()? {
        (at, 's') => (&text[..at], 1.0),
        (at, 'm') => (&text[..at], 60.0),
        (at, 'h') => (&text[..at], 3_600.0),
        (at, 'd') => (&text[..at], 86_400.0),
        _ => (text, 3_600.0),
    };
    // What f64 reads besides: signs, exponents, infinity, NaN.
    let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value: f64 = number.parse().ok().filter(|_| plain)?;
    Some(value * unit).filter(|seconds| seconds.is_finite() && *seconds > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, expected) in [
            ("90s", Some(90.0)),
            ("30m", Some(1_800.0)),
            ("1.5h", Some(5_400.0)),
            (" 48 ", Some(172_800.0)),
            ("30d", Some(2_592_000.0)),
            ("", None),
            ("d", None),
            ("0h", None),
            ("-1h", None),
            ("1e3", None),
            ("inf", None),
            ("NaN", None),
            ("3w", None),
            ("1 h 2 m", None),
            ("界", None),
        ] {
            assert_eq!(seconds(text), expected, "{text:?}");
        }
    }
}
