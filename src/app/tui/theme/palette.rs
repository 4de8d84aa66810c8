//! The colours of each theme, and how a colour becomes one that the terminal has. Pure.
//!
//! The themes for 256 colours name only indices that terminals do not redefine, so that their contrast can be
//! computed; a test holds it. Those for 8 and 16 colours take the terminal's own.

use ratatui::style::{Color, Modifier, Style};

use crate::app::config::{Colour, Role};

/// A colour for each role, in the order of [`Role::ALL`].
pub(super) type Palette = [Colour; Role::ALL.len()];

const fn i(index: u8) -> Colour {
    Colour::Indexed(index)
}

const fn rgb(hex: u32) -> Colour {
    let [_, red, green, blue] = hex.to_be_bytes();
    Colour::Rgb(red, green, blue)
}

const OWN: Colour = Colour::Default;

// text, dim, accent, good, warn, bad, rule, selection, badge, background
pub(super) const DARK: Palette = [OWN, i(248), i(111), i(114), i(179), i(210), i(240), i(236), i(233), OWN];
pub(super) const LIGHT: Palette = [OWN, i(241), i(25), i(22), i(94), i(124), i(248), i(254), i(231), OWN];
pub(super) const HIGH_CONTRAST: Palette = [
    rgb(0xff_ff_ff),
    rgb(0xd0_d0_d0),
    rgb(0x5f_d7_ff),
    rgb(0x5f_ff_87),
    rgb(0xff_d7_5f),
    rgb(0xff_a0_a0),
    rgb(0xff_ff_ff),
    rgb(0x00_00_5f),
    rgb(0x00_00_00),
    rgb(0x00_00_00),
];
// Where the terminal has no more than 16: what is left to it is drawn with attributes.
pub(super) const FEW_DARK: Palette = [OWN, OWN, i(6), i(2), i(3), i(9), OWN, OWN, i(0), OWN];
pub(super) const FEW_LIGHT: Palette = [OWN, OWN, i(4), i(2), i(5), i(1), OWN, OWN, i(7), OWN];
pub(super) const FEW_HIGH_CONTRAST: Palette = [i(15), i(7), i(14), i(10), i(11), i(9), i(15), OWN, i(0), i(0)];

/// How many colours a terminal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// The first 8; bold text is brighter.
    Ansi8,
    /// 16.
    Ansi16,
    /// 256.
    Indexed,
    /// All.
    Rgb,
}

impl Depth {
    /// Tells whether colours are asked for by the oldest sequences, which are all that such terminals know.
    pub const fn is_few(self) -> bool {
        matches!(self, Self::Ansi8 | Self::Ansi16)
    }
}

/// Returns the colour as the backend takes it.
pub(super) const fn color(colour: Colour) -> Color {
    match colour {
        Colour::Default => Color::Reset,
        Colour::Indexed(index) => Color::Indexed(index),
        Colour::Rgb(red, green, blue) => Color::Rgb(red, green, blue),
    }
}

/// Gives a style the nearest colours that the terminal has. Text stays told from what is behind it.
pub(super) fn fit(style: Style, depth: Depth) -> Style {
    let (fg, bg) = (style.fg.unwrap_or(Color::Reset), style.bg.unwrap_or(Color::Reset));
    let (mut text, behind) = (nearest(fg, depth), nearest(bg, depth));
    if text == behind && fg != bg {
        text =
            if luminance(rgb_of(behind).unwrap_or_default()) > MIDDLE { Color::Indexed(0) } else { Color::Indexed(7) };
    }
    let mut style = style;
    let mut dull = |color: Color, is_text: bool| {
        let Color::Indexed(index @ 8..16) = color else { return color };
        if depth != Depth::Ansi8 {
            return color;
        }
        if is_text {
            style.add_modifier |= Modifier::BOLD;
        }
        Color::Indexed(index - 8)
    };
    let (text, behind) = (dull(text, true), dull(behind, false));
    Style { fg: Some(text), bg: Some(behind), ..style }
}

fn nearest(color: Color, depth: Depth) -> Color {
    let Some(wanted) = rgb_of(color) else { return color };
    let among = match (depth, color) {
        (Depth::Rgb, _) | (Depth::Indexed, Color::Indexed(_)) | (_, Color::Indexed(0..16)) => return color,
        (Depth::Indexed, _) => 16..=255_u8,
        (Depth::Ansi8 | Depth::Ansi16, _) => 0..=15,
    };
    let distance = |index: &u8| {
        let other = indexed(*index);
        let difference = |n: usize| i32::from(wanted[n]) - i32::from(other[n]);
        // Eyes are most exact in green.
        2 * difference(0).pow(2) + 4 * difference(1).pow(2) + 3 * difference(2).pow(2)
    };
    among.min_by_key(distance).map_or(color, Color::Indexed)
}

fn rgb_of(color: Color) -> Option<[u8; 3]> {
    if let Color::Rgb(red, green, blue) = color {
        return Some([red, green, blue]);
    }
    number_of(color).map(indexed)
}

/// Returns the number of a colour among the 256; a direct colour has none, nor has the terminal's own.
pub(in crate::app::tui) const fn number_of(color: Color) -> Option<u8> {
    Some(match color {
        Color::Indexed(index) => index,
        Color::Reset | Color::Rgb(..) => return None,
        Color::Black => 0,
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        Color::DarkGray => 8,
        Color::LightRed => 9,
        Color::LightGreen => 10,
        Color::LightYellow => 11,
        Color::LightBlue => 12,
        Color::LightMagenta => 13,
        Color::LightCyan => 14,
        Color::White => 15,
    })
}

/// Returns what xterm shows for one of the 256 colours.
fn indexed(index: u8) -> [u8; 3] {
    const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    match index {
        7 => [229; 3],
        8 => [127; 3],
        0..8 => [1, 2, 4].map(|bit| if index & bit > 0 { 205 } else { 0 }),
        9..16 => [1, 2, 4].map(|bit| if (index - 8) & bit > 0 { 255 } else { 0 }),
        16..232 => {
            let n = index - 16;
            [n / 36, n / 6 % 6, n % 6].map(|level| LEVELS[usize::from(level)])
        }
        232.. => [8 + 10 * (index - 232); 3],
    }
}

/// The luminance that black and white contrast with alike.
pub(super) const MIDDLE: f64 = 0.179;

/// Returns the relative luminance of a colour, as WCAG 2 defines it.
pub(super) fn luminance(rgb: [u8; 3]) -> f64 {
    let [red, green, blue] = rgb.map(|value| {
        let value = f64::from(value) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contrast(one: Colour, other: Colour) -> f64 {
        let light = |colour| luminance(rgb_of(color(colour)).unwrap_or_default()) + 0.05;
        let (one, other) = (light(one), light(other));
        one.max(other) / one.min(other)
    }

    /// Checks every role that text has, on what is behind the text, where both are ours or are said here.
    fn check(palette: &Palette, backgrounds: &[u32], least: f64) {
        let of = |role: Role| palette[role as usize];
        let own = (of(Role::Background) != OWN).then(|| of(Role::Background));
        let behind: Vec<Colour> = own.into_iter().chain(backgrounds.iter().map(|hex| rgb(*hex))).collect();
        for role in [Role::Text, Role::Dim, Role::Accent, Role::Good, Role::Warn, Role::Bad] {
            for behind in behind.iter().chain([&of(Role::Selection)]).filter(|_| of(role) != OWN) {
                let contrast = contrast(of(role), *behind);
                assert!(contrast >= least, "{role:?} {} on {behind}: {contrast:.2}", of(role));
            }
        }
        let badge = contrast(of(Role::Badge), of(Role::Accent));
        assert!(badge >= least, "badge: {badge:.2}");
    }

    #[test]
    fn text_can_be_read() {
        check(&DARK, &[0x00_00_00, 0x1e_1e_1e], 4.5);
        check(&LIGHT, &[0xff_ff_ff, 0xfa_fa_fa], 4.5);
        check(&HIGH_CONTRAST, &[], 7.0);
    }

    #[test]
    fn contrast_is_that_of_wcag() {
        assert!((contrast(rgb(0), rgb(0xff_ff_ff)) - 21.0).abs() < 1e-9);
        // The grey that is known as the darkest of those that still pass on white.
        assert!((contrast(rgb(0x76_76_76), rgb(0xff_ff_ff)) - 4.54).abs() < 0.005);
    }

    #[test]
    fn a_terminal_gets_colours_that_it_has() {
        let style = |fg, bg| Style::new().fg(fg).bg(bg);
        for (depth, fg, bg, expected) in [
            (Depth::Rgb, Color::Rgb(1, 2, 3), Color::Reset, (Color::Rgb(1, 2, 3), Color::Reset, false)),
            (Depth::Indexed, Color::Rgb(255, 135, 0), Color::Reset, (Color::Indexed(208), Color::Reset, false)),
            (Depth::Indexed, Color::Indexed(3), Color::Indexed(200), (Color::Indexed(3), Color::Indexed(200), false)),
            (Depth::Ansi16, Color::Rgb(250, 10, 10), Color::Reset, (Color::Indexed(9), Color::Reset, false)),
            (Depth::Ansi16, Color::Indexed(111), Color::Reset, (Color::Indexed(7), Color::Reset, false)),
            (Depth::Ansi8, Color::Rgb(250, 10, 10), Color::Reset, (Color::Indexed(1), Color::Reset, true)),
            (Depth::Ansi8, Color::Indexed(10), Color::Indexed(12), (Color::Indexed(2), Color::Indexed(4), true)),
            // What would become alike stays apart.
            (Depth::Ansi16, Color::Indexed(233), Color::Indexed(16), (Color::Indexed(7), Color::Indexed(0), false)),
        ] {
            let fitted = fit(style(fg, bg), depth);
            let bold = fitted.add_modifier.contains(Modifier::BOLD);
            assert_eq!(
                (fitted.fg, fitted.bg, bold),
                (Some(expected.0), Some(expected.1), expected.2),
                "{depth:?} {fg} {bg}"
            );
        }
        for index in 0..=255 {
            for depth in [Depth::Ansi8, Depth::Ansi16] {
                let most = if depth == Depth::Ansi8 { 8 } else { 16 };
                let fitted = fit(style(Color::Indexed(index), Color::Indexed(255 - index)), depth);
                for color in [fitted.fg, fitted.bg] {
                    assert!(matches!(color, Some(Color::Indexed(index)) if index < most), "{index} {depth:?}");
                }
            }
        }
    }
}
