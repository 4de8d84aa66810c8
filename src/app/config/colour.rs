//! A colour as people write it, and the roles that colours have on the screen.
//!
//! Made by `parse`, used by the screen's theme. Pure.

use std::fmt;
use std::str::FromStr;

/// A colour of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// The terminal's own.
    Default,
    /// One of the 256; the first 16 are the terminal's own choice.
    Indexed(u8),
    /// Red, green, blue.
    Rgb(u8, u8, u8),
}

/// The names of the first 16 colours, in order.
const NAMES: [&str; 16] = [
    "black",
    "red",
    "green",
    "yellow",
    "blue",
    "magenta",
    "cyan",
    "white",
    "bright-black",
    "bright-red",
    "bright-green",
    "bright-yellow",
    "bright-blue",
    "bright-magenta",
    "bright-cyan",
    "bright-white",
];

/// What a text must be to be a [`Colour`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a colour: `default`, a name such as `cyan` or `bright-red`, `#rrggbb`, or a number from 0 to 255")]
pub struct NoColour;

impl FromStr for Colour {
    type Err = NoColour;

    fn from_str(text: &str) -> Result<Self, NoColour> {
        if text == "default" {
            return Ok(Self::Default);
        }
        if let Some(index) = NAMES.iter().position(|name| *name == text) {
            return u8::try_from(index).map(Self::Indexed).map_err(|_| NoColour);
        }
        if let Some(digits) = text.strip_prefix('#') {
            let is_hex = digits.len() == 6 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let number = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex).ok_or(NoColour)?;
            let [_, red, green, blue] = number.to_be_bytes();
            return Ok(Self::Rgb(red, green, blue));
        }
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_number).map(Self::Indexed).ok_or(NoColour)
    }
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Indexed(index) => match NAMES.get(usize::from(*index)) {
                Some(name) => f.write_str(name),
                None => write!(f, "{index}"),
            },
            Self::Rgb(red, green, blue) => write!(f, "#{red:02x}{green:02x}{blue:02x}"),
        }
    }
}

/// What a colour is for. Every colour of the screen has one of these roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Ordinary text.
    Text,
    /// Secondary text.
    Dim,
    /// What is active: the title of the pane that has the keys, the keys in the footer.
    Accent,
    /// As it should be.
    Good,
    /// To be looked at.
    Warn,
    /// Wrong.
    Bad,
    /// Lines between panes.
    Rule,
    /// Behind the selected row.
    Selection,
    /// Text on the accent: the label that says where the keys go.
    Badge,
    /// Behind everything.
    Background,
}

impl Role {
    /// All roles, in the order of their names.
    pub const ALL: [Self; 10] = [
        Self::Text,
        Self::Dim,
        Self::Accent,
        Self::Good,
        Self::Warn,
        Self::Bad,
        Self::Rule,
        Self::Selection,
        Self::Badge,
        Self::Background,
    ];
    /// Their names in the configuration.
    pub const NAMES: &'static [&'static str] =
        &["text", "dim", "accent", "good", "warn", "bad", "rule", "selection", "badge", "background"];
}

/// A colour for some of the roles.
pub type Colours = [Option<Colour>; Role::ALL.len()];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_read_and_written() {
        for (text, expected) in [
            ("default", Ok(Colour::Default)),
            ("red", Ok(Colour::Indexed(1))),
            ("bright-white", Ok(Colour::Indexed(15))),
            ("111", Ok(Colour::Indexed(111))),
            ("#00fF7f", Ok(Colour::Rgb(0, 255, 127))),
            ("", Err(NoColour)),
            ("256", Err(NoColour)),
            ("+1", Err(NoColour)),
            ("-1", Err(NoColour)),
            ("#12345", Err(NoColour)),
            ("#+12345", Err(NoColour)),
            ("#1234567", Err(NoColour)),
            ("Red", Err(NoColour)),
            ("mauve", Err(NoColour)),
        ] {
            let colour: Result<Colour, NoColour> = text.parse();
            assert_eq!(colour, expected, "{text:?}");
            if let Ok(colour) = colour {
                assert_eq!(colour.to_string().parse(), Ok(colour), "{text:?}");
            }
        }
    }

    #[test]
    fn every_role_has_its_name() {
        for (index, (role, name)) in Role::ALL.iter().zip(Role::NAMES).enumerate() {
            assert_eq!((*role as usize, format!("{role:?}").to_lowercase()), (index, (*name).to_owned()));
        }
        assert_eq!(Role::ALL.len(), Role::NAMES.len());
    }
}
