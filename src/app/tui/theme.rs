//! Colours and attributes of the screen.
//!
//! Pure: the environment comes in as data (`resolve`), what the terminal says of its background as an event. Every
//! colour has a role, and views name roles. A meaning is never carried by colour alone: each verdict has a glyph
//! and a word, a selection has a mark, the focus has words. The last step of a frame (`Theme::finish`) gives
//! every cell, also of what a session prints, colours that the terminal has, and ASCII where it has no more.

mod palette;
mod resolve;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Modifier, Style};

use super::glyph;
use crate::app::config::{Colour, Colours, Role};
use crate::lifecycle::verdict::VerdictKind;
use crate::pty::screen::{self, CellStyle};
use palette::{
    DARK, FEW_DARK, FEW_HIGH_CONTRAST, FEW_LIGHT, HIGH_CONTRAST, LIGHT, MIDDLE, Palette, color, fit, luminance,
};

pub use palette::Depth;
pub(super) use palette::number_of;
pub use resolve::{Wishes, is_dumb};

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
            Self::Plain | Self::Dim => glyph::DOT,
            Self::Good => glyph::CHECK,
            Self::Warn => "!",
            Self::Bad => glyph::CROSS,
        }
    }
}

/// Returns the mark of a verdict; the word always stands beside it.
pub const fn verdict_glyph(verdict: VerdictKind) -> &'static str {
    match verdict {
        VerdictKind::Owned => glyph::BULLET,
        VerdictKind::Gone => glyph::RING,
        VerdictKind::Foreign => glyph::CROSS,
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

/// Which colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Dark,
    Light,
    HighContrast,
    /// None.
    Mono,
}

/// The look of the screen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Theme {
    look: Look,
    /// The look follows the background, as soon as the terminal has told it.
    follows: bool,
    depth: Depth,
    /// What was configured for single roles.
    own: Colours,
    letters: Letters,
}

/// Which characters are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Letters {
    /// All.
    Unicode,
    /// Ours are ASCII; what others have written stays as it is.
    AsciiGlyphs,
    /// Nothing but ASCII.
    Ascii,
}

impl Default for Theme {
    fn default() -> Self {
        Self::DARK
    }
}

impl Theme {
    /// For a dark background, in UTF-8, with all colours.
    pub const DARK: Self = Self {
        look: Look::Dark,
        follows: false,
        depth: Depth::Rgb,
        own: [None; Role::ALL.len()],
        letters: Letters::Unicode,
    };
    /// For a light background.
    pub const LIGHT: Self = Self { look: Look::Light, ..Self::DARK };
    /// With a background of its own, and strong colours on it.
    pub const HIGH_CONTRAST: Self = Self { look: Look::HighContrast, ..Self::DARK };
    /// Without colours.
    pub const MONO: Self = Self { look: Look::Mono, ..Self::DARK };

    /// Returns the same look in ASCII.
    #[must_use]
    pub const fn in_ascii(self) -> Self {
        Self { letters: Letters::Ascii, ..self }
    }

    /// Returns the same look for a terminal with so many colours.
    #[must_use]
    pub const fn with_depth(self, depth: Depth) -> Self {
        Self { depth, ..self }
    }

    /// Tells whether the terminal is to be asked for its background.
    pub const fn asks(&self) -> bool {
        self.follows
    }

    /// Tells how many colours the terminal has.
    pub const fn depth(&self) -> Depth {
        self.depth
    }

    /// Returns the look on a background that the terminal has told.
    #[must_use]
    pub fn on(self, background: [u8; 3]) -> Self {
        let look = if luminance(background) > MIDDLE { Look::Light } else { Look::Dark };
        if self.follows { Self { look, ..self } } else { self }
    }

    fn palette(&self) -> Option<&'static Palette> {
        Some(match (self.look, self.depth.is_few()) {
            (Look::Dark, false) => &DARK,
            (Look::Dark, true) => &FEW_DARK,
            (Look::Light, false) => &LIGHT,
            (Look::Light, true) => &FEW_LIGHT,
            (Look::HighContrast, false) => &HIGH_CONTRAST,
            (Look::HighContrast, true) => &FEW_HIGH_CONTRAST,
            (Look::Mono, _) => return None,
        })
    }

    /// Returns the colour of a role; `None` is the terminal's own.
    fn of(&self, role: Role) -> Option<Colour> {
        let colour = self.own[role as usize].unwrap_or(self.palette()?[role as usize]);
        Some(colour).filter(|colour| *colour != Colour::Default)
    }

    /// Text in the colour of a role, or with an attribute where it has none.
    fn color(&self, role: Role, instead: Modifier) -> Style {
        match self.of(role) {
            Some(colour) => Style::new().fg(color(colour)),
            None => Style::new().add_modifier(instead),
        }
    }

    /// What is behind everything, where that is not the terminal's own.
    pub fn base(&self) -> Style {
        let style = self.color(Role::Text, Modifier::empty());
        self.of(Role::Background).map_or(style, |colour| style.bg(color(colour)))
    }

    /// Ordinary text.
    pub fn text(&self) -> Style {
        self.color(Role::Text, Modifier::empty())
    }

    /// Secondary text.
    pub fn dim(&self) -> Style {
        self.color(Role::Dim, Modifier::DIM)
    }

    /// Headings.
    pub fn strong(&self) -> Style {
        self.text().add_modifier(Modifier::BOLD)
    }

    /// What is active: the title of the pane that has the keys, the keys in the footer.
    pub fn accent(&self) -> Style {
        self.color(Role::Accent, Modifier::BOLD)
    }

    /// Lines between panes.
    pub fn rule(&self, active: bool) -> Style {
        if active { self.accent() } else { self.color(Role::Rule, Modifier::DIM) }
    }

    /// The label that says where the keys go.
    pub fn badge(&self) -> Style {
        match (self.of(Role::Badge), self.of(Role::Accent)) {
            (Some(text), Some(accent)) => Style::new().fg(color(text)).bg(color(accent)).add_modifier(Modifier::BOLD),
            _ => Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD),
        }
    }

    /// The label that says that keys go to many.
    pub fn alarm(&self) -> Style {
        self.tone(Tone::Bad).add_modifier(Modifier::REVERSED | Modifier::BOLD)
    }

    /// The background of the selected row; `active` where its pane has the keys.
    pub fn selection(&self, active: bool) -> Style {
        match self.of(Role::Selection) {
            Some(colour) => Style::new().bg(color(colour)),
            None if active => Style::new().add_modifier(Modifier::REVERSED),
            None => Style::new().add_modifier(Modifier::BOLD),
        }
    }

    /// Text of a tone.
    pub fn tone(&self, tone: Tone) -> Style {
        match tone {
            Tone::Plain => self.text(),
            Tone::Good => self.color(Role::Good, Modifier::empty()),
            Tone::Warn => self.color(Role::Warn, Modifier::BOLD),
            Tone::Bad => self.color(Role::Bad, Modifier::BOLD),
            Tone::Dim => self.dim(),
        }
    }

    /// Makes of a frame what the terminal can show: the nearest of its colours, and ASCII where it needs it.
    pub(super) fn finish(&self, buffer: &mut Buffer) {
        if self.depth != Depth::Rgb {
            let look = |cell: &Cell| (cell.fg, cell.bg, cell.modifier);
            // How the cell before looked, and what becomes of that where it does not fit as it is.
            let mut last = (look(&Cell::EMPTY), None);
            for cell in &mut buffer.content {
                if look(cell) != last.0 {
                    let style = fit(cell.style(), self.depth);
                    last = (look(cell), (style != cell.style()).then_some(style));
                }
                if let Some(style) = last.1 {
                    cell.set_style(style);
                }
            }
        }
        match self.letters {
            Letters::Unicode => {}
            Letters::AsciiGlyphs => glyph::to_ascii(buffer, false),
            Letters::Ascii => glyph::to_ascii(buffer, true),
        }
    }
}

/// Returns the style of a cell of a session's terminal: its program's, not ours.
pub(super) fn of_session(style: CellStyle) -> Style {
    let own = |color: screen::Color| match color {
        screen::Color::Default => Colour::Default,
        screen::Color::Indexed(index) => Colour::Indexed(index),
        screen::Color::Rgb(red, green, blue) => Colour::Rgb(red, green, blue),
    };
    let mut out = Style::reset().fg(color(own(style.fg))).bg(color(own(style.bg)));
    for (set, modifier) in [
        (style.bold, Modifier::BOLD),
        (style.dim, Modifier::DIM),
        (style.italic, Modifier::ITALIC),
        (style.underline, Modifier::UNDERLINED),
        (style.inverse, Modifier::REVERSED),
    ] {
        if set {
            out = out.add_modifier(modifier);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mono_has_no_colours() {
        let theme = Theme::MONO;
        let tones = [Tone::Plain, Tone::Good, Tone::Warn, Tone::Bad, Tone::Dim];
        let mut styles: Vec<Style> = tones.map(|tone| theme.tone(tone)).to_vec();
        styles.extend([theme.accent(), theme.badge(), theme.rule(true), theme.rule(false), theme.selection(true)]);
        for style in styles.into_iter().chain([theme.base()]) {
            assert_eq!((style.fg, style.bg), (None, None), "{style:?}");
        }
    }

    #[test]
    fn a_single_role_is_overridden_and_default_is_the_terminals_own() {
        let mut theme = Theme::DARK;
        theme.own[Role::Bad as usize] = Some(Colour::Rgb(1, 2, 3));
        theme.own[Role::Accent as usize] = Some(Colour::Default);
        assert_eq!(theme.tone(Tone::Bad).fg, Some(color(Colour::Rgb(1, 2, 3))));
        assert_eq!((theme.accent().fg, theme.accent().add_modifier), (None, Modifier::BOLD));
        assert_eq!(theme.tone(Tone::Good), Theme::DARK.tone(Tone::Good));
    }

    #[test]
    fn only_what_follows_the_background_changes_with_it() {
        let follows = Theme { follows: true, ..Theme::DARK };
        for (background, look) in [([255; 3], Look::Light), ([0; 3], Look::Dark), ([0, 43, 54], Look::Dark)] {
            assert_eq!(follows.on(background).look, look, "{background:?}");
        }
        assert_eq!(Theme::DARK.on([255; 3]), Theme::DARK);
        assert_eq!(Theme::MONO.on([255; 3]), Theme::MONO);
    }

    #[test]
    fn verdicts_differ_without_colour() {
        for (i, a) in VerdictKind::ALL.iter().enumerate() {
            for b in &VerdictKind::ALL[i + 1..] {
                assert_ne!(verdict_glyph(*a), verdict_glyph(*b));
                assert_ne!(a.name(), b.name());
            }
        }
    }
}
