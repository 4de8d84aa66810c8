//! What is written is read by the emulator of this crate: it must show the frame, whatever it showed before.

use proptest::prelude::*;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::*;
use crate::app::tui::theme::of_session;
use crate::pty::screen::{CellStyle, HistoryLimit, Screen, Size};
use crate::text::noise::cases;

const COLUMNS: u16 = 12;
const ROWS: u16 = 3;

fn bytes(shown: &Buffer, next: &Buffer, few: bool) -> String {
    let mut out = Vec::new();
    encode(shown, next, few, &mut out);
    String::from_utf8(out).expect("text")
}

fn painted(text: &str, style: Style) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, COLUMNS, ROWS));
    buffer.set_string(0, 0, text, style);
    buffer
}

#[test]
fn a_run_costs_one_movement_and_one_look() {
    let blank = painted("", Style::new());
    let red = Style::new().fg(Color::Indexed(1)).add_modifier(Modifier::BOLD);
    assert_eq!(bytes(&blank, &painted("ab c", red), false), "\x1b[1;38;5;1m\x1b[1;1Hab c\x1b[0m");
    assert_eq!(bytes(&painted("ab c", red), &painted("ab d", red), false), "\x1b[1;38;5;1m\x1b[1;4Hd\x1b[0m");
    assert_eq!(bytes(&blank, &blank, false), "");
    let plain = painted("ab c", Style::new());
    assert_eq!(bytes(&painted("ab c", red), &plain, false), "\x1b[1;1Hab c");
}

#[test]
fn few_colours_are_asked_for_as_all_terminals_know_it() {
    let blank = painted("", Style::new());
    for (fg, bg, many, few) in [
        (Color::Indexed(2), Color::Reset, "38;5;2", "32"),
        (Color::Indexed(9), Color::Indexed(15), "38;5;9;48;5;15", "91;107"),
        (Color::Red, Color::Indexed(200), "38;5;1;48;5;200", "31;48;5;200"),
        (Color::Rgb(1, 2, 3), Color::Black, "38;2;1;2;3;48;5;0", "38;2;1;2;3;40"),
    ] {
        let next = painted("x", Style::new().fg(fg).bg(bg));
        for (is_few, parameters) in [(false, many), (true, few)] {
            assert_eq!(bytes(&blank, &next, is_few), format!("\x1b[{parameters}m\x1b[1;1Hx\x1b[0m"));
        }
    }
}

fn link(row: u16, columns: std::ops::Range<u16>, number: u32) -> Link {
    Link { row, columns, target: "https://a.b/c".into(), number }
}

fn linked(shown: (&Buffer, &[Link]), next: (&Buffer, &[Link])) -> String {
    let mut out = Vec::new();
    encode(Frame::new(shown.0, shown.1), Frame::new(next.0, next.1), false, &mut out);
    String::from_utf8(out).expect("text")
}

#[test]
fn links_begin_and_end_with_their_text() {
    let (blank, text) = (painted("", Style::new()), painted("ab c", Style::new()));
    let one = [link(0, 1..4, 7)];
    let opened = "\x1b]8;id=7;https://a.b/c\x1b\\";
    let closed = "\x1b]8;;\x1b\\";
    // A row whose links have changed is written anew, and no other.
    assert_eq!(linked((&text, &one), (&text, &one)), "");
    let row = format!("\x1b[1;1Ha{opened}b c{closed}        ");
    assert_eq!(linked((&blank, &[]), (&text, &one)), row);
    assert_eq!(linked((&text, &[]), (&text, &one)), row);
    assert_eq!(linked((&text, &[link(1, 1..4, 7)]), (&text, &one)), row + &format!("\x1b[2;1H{}", " ".repeat(12)));
    assert_eq!(linked((&text, &one), (&text, &[])), "\x1b[1;1Hab c        ");
    // Two that touch are two; at the end of a frame none is open.
    let two = [link(0, 0..1, 7), link(0, 1..2, 8)];
    let bytes = linked((&blank, &[]), (&text, &two));
    assert_eq!(bytes, format!("\x1b[1;1H{opened}a{closed}{}b{closed} c        ", opened.replace('7', "8")));
    let last = [link(2, 11..12, 7)];
    let mut corner = painted("", Style::new());
    corner.set_string(11, 2, "x", Style::new());
    assert!(linked((&blank, &[]), (&corner, &last)).ends_with(&format!("{opened}x{closed}")));
}

/// Where a wide character was, its second column is written again, whatever the terminal has made of it.
#[test]
fn what_is_overwritten_by_half_is_written_whole() {
    let style = Style::new();
    assert_eq!(bytes(&painted("a界 c", style), &painted("ab  c", style), false), "\x1b[1;2Hb ");
    assert_eq!(bytes(&painted("a界界", style), &painted("ab界 ", style), false), "\x1b[1;2Hb界\x1b[1;5H ");
    let mut covered = painted("界", style);
    covered.set_string(1, 0, "|", style);
    assert_eq!(bytes(&painted("", style), &covered, false), "\x1b[1;2H|");
    assert_eq!(bytes(&painted("界", style), &covered, false), "\x1b[1;1H |");
}

#[test]
fn below_a_cluster_of_disputed_width_both_columns_are_blank() {
    let style = Style::new();
    let heart = painted("\u{2764}\u{fe0f}x", style);
    assert_eq!(bytes(&painted("", style), &heart, false), "\x1b[1;1H  \x1b[1;1H\u{2764}\u{fe0f}\x1b[1;3Hx");
}

fn colour() -> impl Strategy<Value = Color> {
    prop_oneof![
        Just(Color::Reset),
        (0..20_u8).prop_map(Color::Indexed),
        (0..3_u8).prop_map(|part| Color::Rgb(part, 7, 9)),
    ]
}

fn style() -> impl Strategy<Value = Style> {
    let attributes = prop_oneof![
        Just(Modifier::empty()),
        Just(Modifier::BOLD),
        Just(Modifier::DIM | Modifier::UNDERLINED),
        Just(Modifier::REVERSED | Modifier::ITALIC | Modifier::BOLD),
    ];
    (colour(), colour(), attributes).prop_map(|(fg, bg, modifier)| Style::reset().fg(fg).bg(bg).add_modifier(modifier))
}

/// A frame: texts at places, one over the other, as panes and dialogs are.
fn frame() -> impl Strategy<Value = Buffer> {
    let text = prop_oneof![
        Just("a"),
        Just("word "),
        Just("─│"),
        Just("界"),
        Just("x界界y"),
        Just("e\u{301}"),
        Just("ァ"),
        Just("  "),
    ];
    let texts = proptest::collection::vec((0..COLUMNS, 0..ROWS, text, style()), 0..24);
    texts.prop_map(|texts| {
        let mut buffer = Buffer::empty(Rect::new(0, 0, COLUMNS, ROWS));
        for (x, y, text, style) in texts {
            buffer.set_string(x, y, text, style);
        }
        buffer
    })
}

fn expected(frame: &Buffer) -> Vec<(String, Style)> {
    let mut cells = Vec::new();
    for row in frame.content.chunks(usize::from(COLUMNS)) {
        let mut x = 0;
        while x < row.len() {
            let (symbol, columns) = seen(row, x);
            cells.push((symbol.to_owned(), row[x].style()));
            x += columns;
        }
    }
    cells
}

fn shown(screen: &Screen) -> Vec<(String, Style)> {
    let mut cells = Vec::new();
    for row in 0..ROWS {
        screen.visit_row(0, row, &mut |_, text, _, style: CellStyle| {
            let symbol = if text.is_empty() { " " } else { text };
            let mut style = of_session(style);
            style.sub_modifier = Modifier::empty();
            cells.push((symbol.to_owned(), style));
        });
    }
    cells
}

fn plain(style: Style) -> Style {
    Style { sub_modifier: Modifier::empty(), underline_color: None, ..style }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn the_terminal_shows_every_frame(frames in proptest::collection::vec(frame(), 1..5)) {
        let mut screen = Screen::new(Size::clamped(ROWS, COLUMNS), HistoryLimit::default());
        let mut last = Buffer::empty(Rect::new(0, 0, COLUMNS, ROWS));
        for next in frames {
            let mut out = Vec::new();
            encode(&last, &next, false, &mut out);
            prop_assert_eq!(out.is_empty(), expected(&last) == expected(&next));
            screen.process(&out);
            let cells = |cells: Vec<(String, Style)>| -> Vec<_> {
                cells.into_iter().map(|(symbol, style)| (symbol, plain(style))).collect()
            };
            prop_assert_eq!(cells(shown(&screen)), cells(expected(&next)), "{}", out.escape_ascii());
            last = next;
        }
    }
}
