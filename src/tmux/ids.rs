//! The ids that tmux gives out, and names that are safe to give to it.
//!
//! Ids are unique for the life of a server (tmux(1), "COMMANDS"), so they mean nothing without the
//! server they came from. This module is pure.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A text that is not the id it was taken for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not the id of a tmux {what} ({sigil} and a number)")]
pub struct IdError {
    what: &'static str,
    sigil: char,
    text: String,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $sigil:literal, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// Returns the id with this number.
            pub const fn new(number: u32) -> Self {
                Self(number)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($sigil, "{}"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                number(text, $sigil).map(Self).ok_or_else(|| IdError { what: $what, sigil: $sigil, text: text.to_owned() })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id!(
    /// A session, `$N`.
    SessionId, '$', "session"
);
id!(
    /// A window, `@N`.
    WindowId, '@', "window"
);
id!(
    /// A pane, `%N`.
    PaneId, '%', "pane"
);

/// Reads a number in the one form in which tmux prints it, so that an id has one spelling.
fn number(text: &str, sigil: char) -> Option<u32> {
    let digits = text.strip_prefix(sigil)?;
    let canonical = digits.bytes().all(|b| b.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    if canonical { digits.parse().ok() } else { None }
}

/// Returns `name` with everything outside `[A-Za-z0-9_-]` replaced by `_`, never empty.
///
/// tmux expands `#(command)` in session names, and rewrites `.` and `:` (3.3a). The result is for people to
/// read; it is never a target.
pub fn safe_name(name: &str) -> String {
    let safe: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    if safe.is_empty() { "_".to_owned() } else { safe }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ids_have_one_spelling() {
        for text in ["$0", "$7", "$4294967295"] {
            assert_eq!(text.parse::<SessionId>().unwrap().to_string(), text);
        }
        for text in
            ["", "$", "0", "@0", "%0", "$-1", "$+1", "$00", "$01", "$1 ", " $1", "=$1", "$1:", "$x", "$4294967296"]
        {
            assert!(text.parse::<SessionId>().is_err(), "{text:?}");
        }
        assert_eq!("@3".parse::<WindowId>().unwrap(), WindowId::new(3));
        assert_eq!("%3".parse::<PaneId>().unwrap(), PaneId::new(3));
        assert!("@3".parse::<PaneId>().is_err());
        assert!("%3".parse::<WindowId>().is_err());
    }

    #[test]
    fn the_error_names_the_text() {
        assert_eq!(
            "work".parse::<SessionId>().unwrap_err().to_string(),
            "\"work\" is not the id of a tmux session ($ and a number)"
        );
    }

    #[test]
    fn ids_travel_as_strings() {
        assert_eq!(serde_json::to_string(&PaneId::new(12)).unwrap(), "\"%12\"");
        assert_eq!(serde_json::from_str::<PaneId>("\"%12\"").unwrap(), PaneId::new(12));
        assert!(serde_json::from_str::<PaneId>("12").is_err());
        assert!(serde_json::from_str::<PaneId>("\"12\"").is_err());
    }

    #[test]
    fn names_are_made_safe() {
        for (name, safe) in [
            ("serve-1a2b", "serve-1a2b"),
            ("a.b:c", "a_b_c"),
            ("x#(touch f)", "x__touch_f_"),
            ("$0", "_0"),
            ("", "_"),
            ("é\n\u{1b}", "___"),
        ] {
            assert_eq!(safe_name(name), safe);
        }
    }

    proptest! {
        #[test]
        fn a_safe_name_is_safe_and_stays(name in ".*") {
            let safe = safe_name(&name);
            prop_assert!(!safe.is_empty());
            prop_assert!(safe.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
            prop_assert_eq!(safe_name(&safe), safe);
        }

        #[test]
        fn any_id_round_trips(n in any::<u32>()) {
            prop_assert_eq!(SessionId::new(n).to_string().parse::<SessionId>().unwrap(), SessionId::new(n));
        }
    }
}
