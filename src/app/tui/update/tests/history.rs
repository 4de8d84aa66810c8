//! Looking back in a terminal: search, selection, copy, the mouse, the editor.

use crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use crate::app::tui::fixtures::Bench;
use crate::app::tui::keymap::Context;
use crate::app::tui::model::{Frozen, Pane};
use crate::app::tui::seam::{Effect, UiEvent};
use crate::app::tui::view::layout::layout;
use crate::pty::screen::{HistoryLimit, Screen, Size};

fn copied(effects: &[Effect]) -> Option<&str> {
    effects.iter().find_map(|effect| if let Effect::Copy(text) = effect { Some(text.as_str()) } else { None })
}

fn count(bench: &Bench) -> Option<(usize, usize)> {
    bench.model.history.as_ref().and_then(crate::app::tui::model::History::count)
}

#[test]
fn a_search_starts_at_the_end_and_goes_round() {
    let mut bench = Bench::full(140, 40);
    bench.freeze("[/line 1\\d$");
    assert_eq!(bench.model.context(), Context::Search);
    assert_eq!(count(&bench), Some((10, 10)), "the nearest above the cursor");
    bench.press("<Enter>N");
    assert_eq!(count(&bench), Some((9, 10)));
    bench.press("nn");
    assert_eq!(count(&bench), Some((1, 10)), "round the end");
    bench.press("N");
    assert_eq!(count(&bench), Some((10, 10)));
    bench.press("/LINE 1<Enter>");
    assert_eq!(count(&bench), Some((0, 0)), "capitals count where there is one");
    bench.press("/a(");
    let text = bench.draw();
    assert!(text.contains("/a(│ no regular expression"), "{text}");
    bench.press("<Esc>");
    assert_eq!((bench.model.context(), count(&bench)), (Context::History, None));
}

/// Looks back in the selected terminal, which has printed this.
fn look_back(bench: &mut Bench, printed: &str) {
    let mut screen = Screen::new(Size { rows: 24, cols: 80 }, HistoryLimit::default());
    screen.process(printed.replace('\n', "\r\n").as_bytes());
    bench.press("[");
    let session = bench.model.selected.clone().unwrap_or_default();
    bench.send(UiEvent::Frozen(Box::new(Frozen::take(&session, &screen))));
}

fn row(bench: &Bench) -> Option<usize> {
    bench.model.history.as_ref().map(|history| history.cursor.0 + 1)
}

#[test]
fn what_was_printed_last_is_found_however_much_is_like_it() {
    let mut bench = Bench::full(140, 40);
    let lines: Vec<String> = (1..=9_000).map(|n| format!("eee see error-{n}\n")).collect();
    let mut printed = lines.concat();
    printed.push_str("last error-here\na\nb\nc\nd\n$ ");
    look_back(&mut bench, &printed);
    bench.press("/");
    for key in ["e", "r", "r", "o", "r", "-"] {
        bench.press(key);
        assert_eq!(row(&bench), Some(9_001), "{key}");
    }
    assert_eq!(count(&bench), Some((9_001, 9_001)));
    assert!(bench.draw().contains("/error-│ 9001 of 9001 · paused"), "{}", bench.draw());
    for _ in 0..5 {
        bench.press("<Backspace>");
    }
    assert!(bench.draw().contains("/e│ 10000+ found · paused"), "{}", bench.draw());
    bench.press("<Enter>N");
    assert_eq!(row(&bench), Some(9_001), "the other one of that line");
    bench.press("NN");
    assert_eq!(row(&bench), Some(9_000));
    bench.press("nnnn");
    assert_eq!(row(&bench), Some(9_000 - 1_666), "round the end: the oldest that is kept");
    bench.press("N");
    assert_eq!(row(&bench), Some(9_001));
    // Above all that are kept: the nearest of them.
    bench.press("g/e");
    assert_eq!(row(&bench), Some(9_000 - 1_666));
}

#[test]
fn typing_searches_from_where_the_search_began() {
    let mut bench = Bench::full(140, 40);
    look_back(&mut bench, "a1\nb2\nab3\na4\nx\n");
    let began = row(&bench);
    for (keys, expected) in [
        ("/ab", Some(3)),
        ("<Backspace>", Some(4)),
        ("b|", Some(3)),
        ("x", Some(5)),
        ("y", Some(3)),
        ("<Backspace><Backspace><Backspace><Backspace><Backspace>", began),
        ("b2", Some(2)),
        ("z", began),
        ("(", began),
    ] {
        bench.press(keys);
        assert_eq!(row(&bench), expected, "{keys}");
    }
    // A search from a match on begins there.
    bench.press("<Esc>/b2<Enter>/b");
    assert_eq!(row(&bench), Some(2));
}

#[test]
fn the_slash_searches_where_the_terminal_has_the_keys() {
    let mut bench = Bench::full(140, 40);
    bench.press("<Tab>");
    assert_eq!(bench.model.pane, Pane::Screen);
    bench.freeze("/err");
    assert_eq!((bench.model.context(), count(&bench)), (Context::Search, Some((1, 1))));
    assert!(bench.model.filter.is_none());
}

#[test]
fn lines_are_copied_whole_however_they_are_wrapped() {
    let mut bench = Bench::full(140, 40);
    let effects = bench.freeze("[/wrapped<Enter>Vy");
    let line = format!("a wrapped line {}", "x".repeat(100));
    assert_eq!(copied(&effects), Some(line.as_str()));
    for keys in ["[/wrapped<Enter>jVy", "[/wrapped<Enter>Vky", "[/wrapped<Enter>jy"] {
        let effects = bench.freeze(keys);
        assert!(copied(&effects).is_some_and(|text| text.ends_with(&line)), "{keys}");
    }
    assert_eq!(bench.model.context(), Context::Panes, "a copy ends the look back");
    let effects = bench.freeze("[/line 19<Enter>0vly");
    assert_eq!(copied(&effects), Some("li"));
    let effects = bench.freeze("[/line 19<Enter>y");
    assert_eq!(copied(&effects), Some("line 19"), "without a selection the line");
}

#[test]
fn a_selection_is_left_before_the_look_back_is() {
    let mut bench = Bench::full(80, 24);
    bench.freeze("[v<Esc>");
    assert_eq!(bench.model.context(), Context::History);
    bench.press("<Esc>");
    assert_eq!(bench.model.context(), Context::Panes);
    // Another session, and typing, end it as well.
    bench.freeze("[");
    bench.send(UiEvent::Sessions(Vec::new()));
    assert!(bench.model.history.is_none());
}

#[test]
fn what_is_printed_meanwhile_moves_nothing() {
    let mut bench = Bench::full(140, 40);
    bench.freeze("[/line 12<Enter>");
    let before = bench.draw();
    if let Some(facts) = &mut bench.model.screen {
        (facts.generation, facts.history) = (9, 5_000);
    }
    bench.send(UiEvent::ScreenChanged);
    assert_eq!(bench.draw(), before);
}

#[test]
fn dragging_selects_and_letting_go_copies() {
    let mut bench = Bench::full(140, 40);
    let body = layout(&bench.model).screen.map(|area| area.body).unwrap_or_default();
    let mouse = |bench: &mut Bench, kind, column: u16, row: u16| {
        let (column, row) = (body.x + column, body.y + row);
        let event = MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE };
        bench.send(UiEvent::Input(crossterm::event::Event::Mouse(event)))
    };
    mouse(&mut bench, MouseEventKind::Down(MouseButton::Left), 0, 0);
    let effects = mouse(&mut bench, MouseEventKind::Drag(MouseButton::Left), 3, 0);
    assert_eq!(effects, [Effect::Freeze]);
    bench.thaw();
    mouse(&mut bench, MouseEventKind::Drag(MouseButton::Left), 5, 1);
    let text = bench.model.history.as_ref().map(crate::app::tui::model::History::copied).unwrap_or_default();
    let effects = mouse(&mut bench, MouseEventKind::Up(MouseButton::Left), 5, 1);
    assert_eq!(copied(&effects), Some(text.as_str()));
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(bench.model.history.is_none());
    // A click alone selects nothing.
    mouse(&mut bench, MouseEventKind::Down(MouseButton::Left), 0, 0);
    let effects = mouse(&mut bench, MouseEventKind::Up(MouseButton::Left), 0, 0);
    assert_eq!(copied(&effects), None);
}

#[test]
fn all_of_it_goes_to_the_editor() {
    let mut bench = Bench::full(80, 24);
    let effects = bench.freeze("[e");
    let Some(Effect::Edit(text)) = effects.last() else { panic!("{effects:?}") };
    assert!(text.starts_with("line 0\nline 1\n") && text.ends_with("\n$\n"), "{text:?}");
    assert_eq!(text.lines().count(), 63, "{text}");
    bench.send(UiEvent::Edited(Err("failed to start x: no".into())));
    assert!(bench.draw().contains("failed to start x: no"));
}
