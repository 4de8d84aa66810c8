//! From what a person wishes and what the environment says to a [`Theme`]. Pure.

use super::{Depth, Letters, Look, Theme};
use crate::app::config::{Colours, Glyphs, Theme as Choice};

/// What a person has asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wishes {
    /// `[ui] theme`.
    pub theme: Choice,
    /// `[theme]`.
    pub colours: Colours,
    /// `[ui] glyphs`.
    pub glyphs: Glyphs,
    /// `--no-color`.
    pub no_color: bool,
}

impl Theme {
    /// Returns the look for wishes and an environment; `variable` looks up an environment variable.
    ///
    /// `--no-color` wins over everything, a theme that was chosen over `NO_COLOR` (as no-color.org has it), which
    /// counts with any value but the empty one. What follows the background begins by `COLORFGBG`, where it is set.
    pub fn resolve(wishes: &Wishes, variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let term = set("TERM").unwrap_or_default();
        let depth = depth(&term, &set("COLORTERM").unwrap_or_default());
        let look = match wishes.theme {
            _ if wishes.no_color => Look::Mono,
            Choice::Dark => Look::Dark,
            Choice::Light => Look::Light,
            Choice::HighContrast => Look::HighContrast,
            Choice::Mono => Look::Mono,
            Choice::Auto if set("NO_COLOR").is_some() => Look::Mono,
            Choice::Auto => {
                let background = set("COLORFGBG").and_then(|value| value.rsplit(';').next()?.parse::<u8>().ok());
                if matches!(background, Some(7 | 9..=15)) { Look::Light } else { Look::Dark }
            }
        };
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        let is_utf8 = locale.contains("utf-8") || locale.contains("utf8");
        let letters = match wishes.glyphs {
            Glyphs::Ascii | Glyphs::Auto if !is_utf8 => Letters::Ascii,
            Glyphs::Ascii => Letters::AsciiGlyphs,
            // Its fonts have a few hundred characters.
            Glyphs::Auto if term == "linux" => Letters::AsciiGlyphs,
            Glyphs::Auto | Glyphs::Unicode => Letters::Unicode,
        };
        // Others than these may print the question.
        let answers =
            depth >= Depth::Indexed || ["xterm", "screen", "tmux", "rxvt"].iter().any(|t| term.starts_with(t));
        let follows = wishes.theme == Choice::Auto && look != Look::Mono && answers;
        let own = if look == Look::Mono { Colours::default() } else { wishes.colours };
        Self { look, follows, depth, own, letters }
    }
}

/// Tells whether a terminal can do nothing but print lines.
pub fn is_dumb(term: &str) -> bool {
    matches!(term, "dumb" | "unknown")
}

/// Returns how many colours a terminal says that it has. What is not known here has 256, as about all have; the
/// few that have less say so by their names.
fn depth(term: &str, colorterm: &str) -> Depth {
    let first = term.split('-').next().unwrap_or_default();
    if matches!(colorterm, "truecolor" | "24bit") || term.ends_with("-direct") {
        return Depth::Rgb;
    }
    match first {
        _ if term.contains("256color") => Depth::Indexed,
        _ if term.ends_with("-16color") => Depth::Ansi16,
        "linux" | "ansi" | "cons25" | "cygwin" | "hurd" | "mach" | "pcansi" | "sun" => Depth::Ansi8,
        _ if first.starts_with("vt") => Depth::Ansi8,
        // Their entries say 8; every one of them that still runs has the bright ones.
        "xterm" | "screen" | "tmux" | "rxvt" if first == term => Depth::Ansi16,
        _ => Depth::Indexed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UTF8: (&str, &str) = ("LANG", "en_US.UTF-8");
    const MANY: (&str, &str) = ("TERM", "xterm-256color");

    fn resolve(wishes: &Wishes, variables: &[(&str, &str)]) -> Theme {
        Theme::resolve(wishes, |name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_decides_where_nobody_chose() {
        for (theme, variables, look, follows) in [
            (Choice::Auto, &[][..], Look::Dark, true),
            (Choice::Auto, &[("COLORFGBG", "0;15")], Look::Light, true),
            (Choice::Auto, &[("COLORFGBG", "0;default;15")], Look::Light, true),
            (Choice::Auto, &[("COLORFGBG", "15;0")], Look::Dark, true),
            (Choice::Auto, &[("COLORFGBG", "nonsense")], Look::Dark, true),
            (Choice::Auto, &[("NO_COLOR", "1")], Look::Mono, false),
            (Choice::Auto, &[("NO_COLOR", "0")], Look::Mono, false),
            (Choice::Auto, &[("NO_COLOR", "")], Look::Dark, true),
            (Choice::Dark, &[("NO_COLOR", "1")], Look::Dark, false),
            (Choice::HighContrast, &[], Look::HighContrast, false),
            (Choice::Mono, &[], Look::Mono, false),
        ] {
            let all: Vec<_> = [UTF8, MANY].iter().chain(variables).copied().collect();
            let resolved = resolve(&Wishes { theme, ..Wishes::default() }, &all);
            assert_eq!((resolved.look, resolved.follows), (look, follows), "{theme:?} {variables:?}");
            let none = resolve(&Wishes { theme, no_color: true, ..Wishes::default() }, &all);
            assert_eq!((none.look, none.follows), (Look::Mono, false));
        }
    }

    #[test]
    fn the_locale_decides_about_letters() {
        for (glyphs, variables, expected) in [
            (Glyphs::Auto, &[UTF8][..], Letters::Unicode),
            (Glyphs::Auto, &[("LANG", "C.utf8")], Letters::Unicode),
            (Glyphs::Auto, &[("LC_ALL", "C"), UTF8], Letters::Ascii),
            (Glyphs::Auto, &[("LC_ALL", ""), UTF8], Letters::Unicode),
            (Glyphs::Auto, &[("LC_CTYPE", "de_DE.UTF-8"), ("LANG", "C")], Letters::Unicode),
            (Glyphs::Auto, &[], Letters::Ascii),
            (Glyphs::Auto, &[("TERM", "linux"), UTF8], Letters::AsciiGlyphs),
            (Glyphs::Auto, &[("TERM", "linux"), ("LANG", "C")], Letters::Ascii),
            (Glyphs::Ascii, &[UTF8], Letters::AsciiGlyphs),
            (Glyphs::Ascii, &[("LANG", "C")], Letters::Ascii),
            (Glyphs::Unicode, &[("LANG", "C"), ("TERM", "linux")], Letters::Unicode),
        ] {
            let resolved = resolve(&Wishes { glyphs, ..Wishes::default() }, variables);
            assert_eq!(resolved.letters, expected, "{glyphs:?} {variables:?}");
        }
    }

    #[test]
    fn terminals_have_the_colours_that_they_say() {
        for (term, colorterm, expected) in [
            ("xterm-256color", "", Depth::Indexed),
            ("xterm-256color", "truecolor", Depth::Rgb),
            ("xterm-direct", "", Depth::Rgb),
            ("foot", "", Depth::Indexed),
            ("xterm", "", Depth::Ansi16),
            ("xterm-16color", "", Depth::Ansi16),
            ("linux", "", Depth::Ansi8),
            ("linux-16color", "", Depth::Ansi16),
            ("vt220", "", Depth::Ansi8),
            ("screen", "", Depth::Ansi16),
            ("xterm-kitty", "", Depth::Indexed),
            ("", "", Depth::Indexed),
        ] {
            assert_eq!(depth(term, colorterm), expected, "{term} {colorterm}");
        }
        // The Linux console prints what it does not know.
        assert!(!resolve(&Wishes::default(), &[UTF8, ("TERM", "linux")]).asks());
        assert!(is_dumb("dumb") && !is_dumb("xterm"));
    }
}
