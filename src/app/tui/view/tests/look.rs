//! Frames with other keys, other colours, fewer colours.

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};
use unicode_width::UnicodeWidthStr as _;

use super::draw;
use crate::app::contract::Kind;
use crate::app::tui::fixtures::{self, Bench};
use crate::app::tui::keymap::{Action, Context, Keymap, Wish};
use crate::app::tui::theme::{Depth, Theme};
use crate::app::tui::{UiEvent, glyph};

fn wish(action: Action, keys: &[&str]) -> Wish {
    let keys = keys.iter().filter_map(|key| key.parse().ok()).collect();
    Wish { context: None, action, keys }
}

#[test]
fn configured_keys_work_and_are_shown_wherever_keys_are_shown() {
    let wishes = [wish(Action::Stop, &["K", "Delete"]), wish(Action::Help, &["F1", "J"]), wish(Action::Tree, &[])];
    let mut bench = Bench::full(140, 40);
    bench.model.keys = Keymap::configured(&wishes, bench.model.escape).unwrap_or_default();
    let footer = bench.draw().lines().last().map(str::to_owned).unwrap_or_default();
    assert!(footer.contains("K stop") && footer.contains("F1 help"), "{footer}");
    assert!(!footer.contains("tree") && !footer.contains("x stop"), "{footer}");
    assert_eq!(bench.press("x"), []);
    assert!(bench.model.overlays.is_empty(), "the old key does nothing");
    bench.press("K");
    assert_eq!(bench.model.context(), Context::Preview);
    bench.press("<Esc>J");
    assert_eq!(bench.model.context(), Context::Help);
    let help = bench.draw();
    assert!(help.contains("K Del ") && help.contains("by :"), "{help}");
    bench.press("<Esc>:stop the session");
    let palette = bench.draw();
    assert!(palette.contains("K Del "), "{palette}");
    let mut bench = Bench::empty(80, 24);
    bench.model.keys = Keymap::configured(&[wish(Action::Start, &["N"])], bench.model.escape).unwrap_or_default();
    assert!(bench.draw().contains("N  start one"), "{}", bench.draw());
}

fn cells(bench: &Bench) -> Buffer {
    draw(&bench.model).0
}

#[test]
fn high_contrast_has_a_background_of_its_own_everywhere() {
    for keys in ["", "x", "?", "s", ":"] {
        let mut bench = Bench::full(140, 40);
        bench.model.theme = Theme::HIGH_CONTRAST;
        bench.press(keys);
        let (cols, rows) = bench.model.size;
        let mut buffer = Buffer::empty(ratatui::layout::Rect::new(0, 0, cols, rows));
        // Without a terminal: what a session prints has its own.
        crate::app::tui::view::draw(&bench.model, None, &mut buffer);
        let mut hidden = false;
        for cell in &buffer.content {
            // The cell behind a wide character is not drawn.
            assert!(hidden || (cell.bg != Color::Reset && cell.fg != Color::Reset), "{keys}: {cell:?}");
            hidden = cell.symbol().width() > 1;
        }
    }
}

#[test]
fn a_terminal_with_few_colours_gets_no_others_also_from_sessions() {
    for (depth, most) in [(Depth::Ansi8, 8), (Depth::Ansi16, 16)] {
        for theme in [Theme::DARK, Theme::LIGHT, Theme::HIGH_CONTRAST, Theme::MONO] {
            let mut bench = Bench::full(140, 40);
            bench.model.theme = theme.with_depth(depth);
            for keys in ["", "x", "<Esc>?"] {
                bench.press(keys);
                for cell in &cells(&bench).content {
                    for color in [cell.fg, cell.bg] {
                        assert!(matches!(color, Color::Reset | Color::Indexed(0..16)), "{theme:?} {color}");
                        assert!(!matches!(color, Color::Indexed(index) if index >= most), "{theme:?} {color}");
                    }
                }
            }
        }
    }
}

#[test]
fn without_colours_the_selection_and_the_active_pane_still_stand_out() {
    for theme in [Theme::MONO, Theme::DARK.with_depth(Depth::Ansi8)] {
        let mut bench = Bench::full(140, 40);
        bench.model.theme = theme;
        let frame = cells(&bench);
        assert!(frame.content.iter().any(|cell| cell.modifier.contains(Modifier::REVERSED)));
        let text = bench.draw();
        assert!(text.contains(glyph::BAR) && text.contains(glyph::HEAVY));
    }
}

#[test]
fn the_answer_about_the_background_is_one_more_frame_and_no_key() {
    let variable = |name: &str| matches!(name, "TERM" | "LANG").then(|| "xterm-256color.UTF-8".to_owned());
    let mut bench = Bench::full(140, 40);
    bench.model.theme = Theme::resolve(&crate::app::tui::Wishes::default(), variable);
    let (before, text) = (cells(&bench), bench.draw());
    assert_eq!(bench.send(UiEvent::Background([250, 250, 250])), []);
    assert_ne!(cells(&bench), before);
    assert_eq!(bench.draw(), text, "nothing but colours");
    bench.send(UiEvent::Background([0, 0, 0]));
    assert_eq!(cells(&bench), before);
}

#[test]
fn no_dialog_covers_the_breadcrumb() {
    for (cols, rows) in [(40, 10), (60, 15), (49, 40), (200, 11)] {
        for pane in ["", "<Tab>", "<Tab><Tab>", " "] {
            for keys in ["x", "R", "s", "a", "e", ":", "?", "q", "E", "T"] {
                let mut bench = Bench::full(cols, rows);
                bench.press(pane);
                let here = bench.draw().lines().next().map(str::to_owned);
                assert!(here.as_ref().is_some_and(|line| !line.is_empty()), "{cols}x{rows} has a breadcrumb");
                bench.press(keys);
                if bench.model.overlays.is_empty() {
                    continue;
                }
                let text = bench.draw();
                assert_eq!(text.lines().next(), here.as_deref(), "{cols}x{rows} {pane}{keys}\n{text}");
                let below = text.lines().rev().take(2).collect::<String>();
                assert!(!below.contains(glyph::BOTTOM_LEFT), "{cols}x{rows} {keys}\n{text}");
            }
        }
    }
}

#[test]
fn the_footer_offers_neither_to_type_into_what_has_ended_nor_to_stop_it() {
    let mut bench = Bench::full(140, 40);
    let footer = |bench: &mut Bench| bench.draw().lines().last().unwrap_or_default().to_owned();
    assert!(footer(&mut bench).contains("Enter type") && footer(&mut bench).contains("x stop"));
    bench.press("/build<Enter>");
    assert!(!footer(&mut bench).contains("Enter type") && !footer(&mut bench).contains("x stop"));
}

/// Names that differ at their end only are told apart.
#[test]
fn long_names_are_told_apart() {
    let mut bench = Bench::full(80, 24);
    let mut rows = fixtures::sessions();
    rows.retain(|row| row.kind == Kind::Serve);
    let long = "a-name-that-is-much-too-long-for-the-column-of-names-even-on-a-wide-screen";
    rows[0].name = format!("{long}-bb");
    rows[1].name = format!("{long}-cc");
    bench.send(UiEvent::Sessions(rows));
    let text = bench.draw();
    let list = |text: &str| text.lines().filter(|line| line.contains("a-name") && line.contains("-bb")).count();
    assert!(list(&text) >= 1 && text.lines().any(|line| line.contains("-cc")), "{text}");
}
