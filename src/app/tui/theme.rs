//! Colours and characters of the screen.
//!
//! Pure: the environment comes in as data. A meaning is never carried by colour alone: each verdict
//! has a glyph and a word, a selection has a mark, the focus has words. Where the locale is not UTF-8,
//! everything that is drawn is mapped to ASCII as the last step of a frame.

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};

use crate::app::config::Theme as ThemeChoice;
use crate::lifecycle::verdict::VerdictKind;

/// How much something matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Nothing special.
    Plain,
    /// As it should be.
    Good,
    /// To be looked at.
    Warn,
    /// Wrong.
    Bad,
    /// Beside the point.
    Dim,
}

impl Tone {
    /// Returns the mark that goes with the tone.
    pub const fn glyph(self) -> &'static str {
        match self {
            Self::Plain | Self::Dim => "·",
            Self::Good => "✓",
            Self::Warn => "!",
            Self::Bad => "✗",
        }
    }
}

/// Returns the mark of a verdict; the word always stands beside it.
pub const fn verdict_glyph(verdict: VerdictKind) -> &'static str {
    match verdict {
        VerdictKind::Owned => "●",
        VerdictKind::Gone => "○",
        VerdictKind::Foreign => "✗",
        VerdictKind::Unverifiable => "?",
    }
}

/// Returns how much a verdict matters.
pub const fn verdict_tone(verdict: VerdictKind) -> Tone {
    match verdict {
        VerdictKind::Owned => Tone::Good,
        VerdictKind::Gone => Tone::Dim,
        VerdictKind::Foreign => Tone::Bad,
        VerdictKind::Unverifiable => Tone::Warn,
    }
}

/// The colours of one background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Palette {
    accent: Color,
    good: Color,
    warn: Color,
    bad: Color,
    dim: Color,
    rule: Color,
    selection: Color,
    on_accent: Color,
}

// Indices of the 256-colour palette, which terminals do not redefine.
const DARK: Palette = Palette {
    accent: Color::Indexed(111),
    good: Color::Indexed(114),
    warn: Color::Indexed(179),
    bad: Color::Indexed(210),
    dim: Color::Indexed(246),
    rule: Color::Indexed(239),
    selection: Color::Indexed(237),
    on_accent: Color::Indexed(233),
};
const LIGHT: Palette = Palette {
    accent: Color::Indexed(25),
    good: Color::Indexed(28),
    warn: Color::Indexed(130),
    bad: Color::Indexed(160),
    dim: Color::Indexed(242),
    rule: Color::Indexed(250),
    selection: Color::Indexed(254),
    on_accent: Color::Indexed(231),
};

/// The look of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    palette: Option<Palette>,
    ascii: bool,
}

impl Default for Theme {
    fn default() -> Self {
        Self::DARK
    }
}

impl Theme {
    /// For a dark background, in UTF-8.
    pub const DARK: Self = Self { palette: Some(DARK), ascii: false };
    /// For a light background, in UTF-8.
    pub const LIGHT: Self = Self { palette: Some(LIGHT), ascii: false };
    /// Without colours, in UTF-8.
    pub const MONO: Self = Self { palette: None, ascii: false };

    /// Returns the look for a choice and an environment; `variable` looks up an environment variable.
    ///
    /// An explicit choice wins over `NO_COLOR`; `COLORFGBG` tells the background, where it is set.
    pub fn resolve(choice: ThemeChoice, variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let theme = match choice {
            ThemeChoice::Dark => Self::DARK,
            ThemeChoice::Light => Self::LIGHT,
            ThemeChoice::Mono => Self::MONO,
            ThemeChoice::Auto if set("NO_COLOR").is_some() || set("TERM").as_deref() == Some("dumb") => Self::MONO,
            ThemeChoice::Auto => {
                let background = set("COLORFGBG").and_then(|value| value.rsplit(';').next()?.parse::<u8>().ok());
                if matches!(background, Some(7 | 9..=15)) { Self::LIGHT } else { Self::DARK }
            }
        };
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        Self { ascii: !(locale.contains("utf-8") || locale.contains("utf8")), ..theme }
    }

    /// Returns the same look in ASCII.
    #[must_use]
    pub const fn in_ascii(self) -> Self {
        Self { ascii: true, ..self }
    }

    /// Tells whether only ASCII is drawn.
    pub const fn is_ascii(&self) -> bool {
        self.ascii
    }

    fn color(&self, pick: impl Fn(&Palette) -> Color, mono: Modifier) -> Style {
        match &self.palette {
            Some(palette) => Style::new().fg(pick(palette)),
            None => Style::new().add_modifier(mono),
        }
    }

    /// Ordinary text.
    pub fn text(&self) -> Style {
        Style::new()
    }

    /// Secondary text.
    pub fn dim(&self) -> Style {
        self.color(|p| p.dim, Modifier::DIM)
    }

    /// Headings.
    pub fn strong(&self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// What is active: the title of the pane that has the keys, the keys in the footer.
    pub fn accent(&self) -> Style {
        self.color(|p| p.accent, Modifier::BOLD)
    }

    /// Lines between panes.
    pub fn rule(&self, active: bool) -> Style {
        if active { self.accent() } else { self.color(|p| p.rule, Modifier::DIM) }
    }

    /// The label that says where the keys go.
    pub fn badge(&self) -> Style {
        match &self.palette {
            Some(p) => Style::new().fg(p.on_accent).bg(p.accent).add_modifier(Modifier::BOLD),
            None => Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD),
        }
    }

    /// The background of the selected row; `active` where its pane has the keys.
    pub fn selection(&self, active: bool) -> Style {
        match &self.palette {
            Some(p) => Style::new().bg(p.selection),
            None if active => Style::new().add_modifier(Modifier::REVERSED),
            None => Style::new().add_modifier(Modifier::BOLD),
        }
    }

    /// Text of a tone.
    pub fn tone(&self, tone: Tone) -> Style {
        match tone {
            Tone::Plain => self.text(),
            Tone::Good => self.color(|p| p.good, Modifier::empty()),
            Tone::Warn => self.color(|p| p.warn, Modifier::BOLD),
            Tone::Bad => self.color(|p| p.bad, Modifier::BOLD),
            Tone::Dim => self.dim(),
        }
    }
}

/// Replaces everything in a buffer that is not ASCII.
pub(super) fn to_ascii(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if cell.symbol().is_ascii() {
            continue;
        }
        let plain = match cell.symbol() {
            "─" | "–" | "━" | "·" => "-",
            "│" | "┃" | "▌" => "|",
            "╭" | "╮" | "╰" | "╯" | "├" | "└" | "┬" | "┴" | "┼" | "┤" | "✓" => "+",
            "●" => "*",
            "○" => "o",
            "✗" => "x",
            "…" => "~",
            "›" => ">",
            "↑" => "^",
            "↓" => "v",
            "↵" => "$",
            _ => "?",
        };
        cell.set_symbol(plain);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(choice: ThemeChoice, variables: &[(&str, &str)]) -> Theme {
        Theme::resolve(choice, |name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_decides_where_nobody_chose() {
        let utf8 = ("LANG", "en_US.UTF-8");
        for (choice, variables, expected) in [
            (ThemeChoice::Auto, &[utf8][..], Theme::DARK),
            (ThemeChoice::Auto, &[utf8, ("COLORFGBG", "0;15")], Theme::LIGHT),
            (ThemeChoice::Auto, &[utf8, ("COLORFGBG", "0;default;15")], Theme::LIGHT),
            (ThemeChoice::Auto, &[utf8, ("COLORFGBG", "15;0")], Theme::DARK),
            (ThemeChoice::Auto, &[utf8, ("COLORFGBG", "nonsense")], Theme::DARK),
            (ThemeChoice::Auto, &[utf8, ("NO_COLOR", "1")], Theme::MONO),
            (ThemeChoice::Auto, &[utf8, ("NO_COLOR", "")], Theme::DARK),
            (ThemeChoice::Auto, &[utf8, ("TERM", "dumb")], Theme::MONO),
            (ThemeChoice::Dark, &[utf8, ("NO_COLOR", "1")], Theme::DARK),
            (ThemeChoice::Mono, &[utf8], Theme::MONO),
            (ThemeChoice::Auto, &[("LANG", "C.utf8")], Theme::DARK),
            (ThemeChoice::Auto, &[("LC_ALL", "C"), utf8], Theme::DARK.in_ascii()),
            (ThemeChoice::Auto, &[("LC_CTYPE", "de_DE.UTF-8"), ("LANG", "C")], Theme::DARK),
            (ThemeChoice::Light, &[], Theme::LIGHT.in_ascii()),
        ] {
            assert_eq!(resolve(choice, variables), expected, "{choice:?} {variables:?}");
        }
    }

    #[test]
    fn mono_has_no_colours() {
        let theme = Theme::MONO;
        let tones = [Tone::Plain, Tone::Good, Tone::Warn, Tone::Bad, Tone::Dim];
        let mut styles: Vec<Style> = tones.map(|tone| theme.tone(tone)).to_vec();
        styles.extend([theme.accent(), theme.badge(), theme.rule(true), theme.rule(false), theme.selection(true)]);
        for style in styles {
            assert_eq!((style.fg, style.bg), (None, None), "{style:?}");
        }
    }

    #[test]
    fn verdicts_differ_without_colour_and_without_unicode() {
        for (i, a) in VerdictKind::ALL.iter().enumerate() {
            for b in &VerdictKind::ALL[i + 1..] {
                assert_ne!(verdict_glyph(*a), verdict_glyph(*b));
                assert_ne!(a.name(), b.name());
            }
        }
        let mut buffer = Buffer::with_lines(["●○✗?│╭─…界"]);
        to_ascii(&mut buffer);
        let text: String = buffer.content.iter().map(ratatui::buffer::Cell::symbol).collect();
        assert_eq!(text, "*ox?|+-~? ");
    }
}
