//! The mouse.

use crossterm::event::{Event as Input, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use crate::app::tui::fixtures::{self, Bench};
use crate::app::tui::keymap::Context;
use crate::app::tui::model::Pane;
use crate::app::tui::seam::{Effect, UiEvent};
use crate::app::tui::view::layout::layout;
use crate::pty::screen::{MouseEncoding, MouseMode};

const FIRST: &str = "serve-1a2b3c4d";
const CLICK: MouseEventKind = MouseEventKind::Down(MouseButton::Left);

fn at(bench: &mut Bench, kind: MouseEventKind, column: u16, row: u16) -> Vec<Effect> {
    let event = MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE };
    bench.send(UiEvent::Input(Input::Mouse(event)))
}

/// The place of a cell of a pane.
fn place(bench: &Bench, pane: Pane, column: u16, row: u16) -> (u16, u16) {
    let body = layout(&bench.model).area(pane).map(|area| area.body).unwrap_or_default();
    (body.x + column, body.y + row)
}

fn in_pane(bench: &mut Bench, kind: MouseEventKind, pane: Pane, row: u16) -> Vec<Effect> {
    let (column, row) = place(bench, pane, 4, row);
    at(bench, kind, column, row)
}

fn with_mouse(bench: &mut Bench, mouse: MouseMode) {
    let mut facts = fixtures::facts(FIRST);
    facts.modes.mouse = mouse;
    facts.modes.mouse_encoding = MouseEncoding::Sgr;
    bench.model.observe(Some(facts));
}

#[test]
fn clicks_select() {
    let mut bench = Bench::full(140, 40);
    in_pane(&mut bench, CLICK, Pane::List, 3);
    assert_eq!(bench.model.selected.as_deref(), Some("serve-00000003"));
    in_pane(&mut bench, CLICK, Pane::List, 0);
    assert_eq!(bench.model.selected.as_deref(), Some("serve-00000003"), "a heading is nothing to select");
    assert_eq!(bench.model.folded.len(), 1, "it folds its group");
    in_pane(&mut bench, CLICK, Pane::List, 0);
    assert!(bench.model.folded.is_empty());
    in_pane(&mut bench, CLICK, Pane::List, 1);
    bench.look();
    bench.send(UiEvent::Tree { session: FIRST.into(), tree: fixtures::tree() });
    in_pane(&mut bench, CLICK, Pane::Tree, 2);
    assert_eq!((bench.model.pane, bench.model.tree.cursor), (Pane::Tree, Some(fixtures::pid(4301))));
    in_pane(&mut bench, CLICK, Pane::Tree, 0);
    assert_eq!(bench.model.tree.cursor, Some(fixtures::pid(4301)), "the headings are no process");
}

#[test]
fn the_second_click_into_a_terminal_types_and_a_click_elsewhere_leaves() {
    let mut bench = Bench::full(140, 40);
    in_pane(&mut bench, CLICK, Pane::Screen, 2);
    assert_eq!((bench.model.pane, bench.model.focused), (Pane::Screen, false));
    in_pane(&mut bench, CLICK, Pane::Screen, 2);
    assert!(bench.model.focused);
    in_pane(&mut bench, CLICK, Pane::List, 1);
    assert_eq!((bench.model.pane, bench.model.focused), (Pane::List, false));
}

#[test]
fn the_wheel_over_the_list_takes_no_keys_from_the_terminal() {
    let mut bench = Bench::full(140, 40);
    bench.press("<Enter>");
    let selected = bench.model.selected.clone();
    in_pane(&mut bench, MouseEventKind::ScrollDown, Pane::List, 2);
    assert!(bench.model.focused && bench.model.selected == selected);
    bench.press("<C-\\>");
    in_pane(&mut bench, MouseEventKind::ScrollDown, Pane::List, 2);
    assert_ne!(bench.model.selected, selected);
}

#[test]
fn the_wheel_scrolls_what_is_under_the_pointer() {
    let mut bench = Bench::full(140, 40);
    in_pane(&mut bench, MouseEventKind::ScrollUp, Pane::Screen, 2);
    assert_eq!((bench.model.scroll, bench.model.pane), (3, Pane::List));
    in_pane(&mut bench, MouseEventKind::ScrollDown, Pane::Screen, 2);
    assert_eq!(bench.model.scroll, 0);
    in_pane(&mut bench, MouseEventKind::ScrollDown, Pane::Tree, 2);
    assert_eq!(bench.model.tree.cursor, Some(fixtures::pid(4301)));
    in_pane(&mut bench, MouseEventKind::ScrollDown, Pane::List, 2);
    assert_eq!(bench.model.selected.as_deref(), Some("serve-00000002"));
}

#[test]
fn a_program_that_asked_for_the_mouse_gets_it() {
    let mut bench = Bench::full(140, 40);
    with_mouse(&mut bench, MouseMode::PressRelease);
    let input = |bytes: &str| vec![Effect::Input { session: FIRST.into(), bytes: bytes.as_bytes().to_vec() }];
    // The wheel needs no focus, the buttons do.
    assert_eq!(in_pane(&mut bench, MouseEventKind::ScrollUp, Pane::Screen, 2), input("\x1b[<64;5;3M"));
    assert_eq!(in_pane(&mut bench, CLICK, Pane::Screen, 2), []);
    bench.press("<Enter>");
    assert_eq!(in_pane(&mut bench, CLICK, Pane::Screen, 2), input("\x1b[<0;5;3M"));
    let up = MouseEventKind::Up(MouseButton::Left);
    assert_eq!(in_pane(&mut bench, up, Pane::Screen, 0), input("\x1b[<0;5;1m"));
    assert_eq!(in_pane(&mut bench, MouseEventKind::Moved, Pane::Screen, 0), [], "it did not ask for this");
    assert!(!bench.model.wants_motion());
    with_mouse(&mut bench, MouseMode::AnyMotion);
    assert!(bench.model.wants_motion());
    assert_eq!(in_pane(&mut bench, MouseEventKind::Moved, Pane::Screen, 0), input("\x1b[<35;5;1M"));
}

/// The click that begins the typing is ours: its other half is no news for the program.
#[test]
fn half_a_click_goes_to_nobody() {
    let mut bench = Bench::full(140, 40);
    with_mouse(&mut bench, MouseMode::ButtonMotion);
    let up = MouseEventKind::Up(MouseButton::Left);
    for kind in [CLICK, up, CLICK, up] {
        assert_eq!(in_pane(&mut bench, kind, Pane::Screen, 2), [], "{kind:?}");
    }
    assert_eq!(bench.model.context(), Context::Terminal);
    assert_eq!(in_pane(&mut bench, CLICK, Pane::Screen, 2).len(), 1);
    assert_eq!(in_pane(&mut bench, up, Pane::Screen, 2).len(), 1);
}

/// Dragged out of its pane: the program hears of it at the edge, and that the button is let go.
#[test]
fn a_button_that_is_let_go_elsewhere_is_let_go() {
    let mut bench = Bench::full(140, 40);
    with_mouse(&mut bench, MouseMode::ButtonMotion);
    let input = |bytes: &str| vec![Effect::Input { session: FIRST.into(), bytes: bytes.as_bytes().to_vec() }];
    bench.press("<Enter>");
    let (drag, up) = (MouseEventKind::Drag(MouseButton::Left), MouseEventKind::Up(MouseButton::Left));
    assert_eq!(in_pane(&mut bench, drag, Pane::List, 2), [], "it was not pressed in the terminal");
    for (kind, pane, expected) in
        [(CLICK, Pane::Screen, "\x1b[<0;5;3M"), (drag, Pane::List, "\x1b[<32;1;"), (up, Pane::List, "\x1b[<0;1;")]
    {
        let effects = in_pane(&mut bench, kind, pane, 2);
        let [Effect::Input { session, bytes }] = &effects[..] else { panic!("{kind:?}: {effects:?}") };
        assert!(session == FIRST && bytes.starts_with(expected.as_bytes()), "{kind:?}: {}", bytes.escape_ascii());
    }
    assert_eq!(in_pane(&mut bench, up, Pane::List, 2), [], "once");
    assert_eq!(in_pane(&mut bench, CLICK, Pane::Screen, 2), input("\x1b[<0;5;3M"));
}

#[test]
fn the_place_is_the_programs_also_where_its_screen_is_higher_than_ours() {
    let mut bench = Bench::full(80, 24);
    with_mouse(&mut bench, MouseMode::PressRelease);
    let mut facts = fixtures::facts(FIRST);
    facts.modes.mouse = MouseMode::PressRelease;
    facts.modes.mouse_encoding = MouseEncoding::Sgr;
    (facts.rows, facts.cursor_row) = (50, 49);
    bench.model.observe(Some(facts));
    bench.press("<Enter>");
    let effects = in_pane(&mut bench, CLICK, Pane::Screen, 0);
    assert_eq!(effects, [Effect::Input { session: FIRST.into(), bytes: b"\x1b[<0;5;36M".to_vec() }]);
}

#[test]
fn a_full_screen_program_without_a_mouse_gets_arrows() {
    let mut bench = Bench::full(140, 40);
    let mut facts = fixtures::facts(FIRST);
    facts.modes.alternate_screen = true;
    facts.modes.application_cursor = true;
    bench.model.observe(Some(facts));
    // The wheel needs no focus.
    for key in ["", "<Enter>"] {
        bench.press(key);
        let effects = in_pane(&mut bench, MouseEventKind::ScrollDown, Pane::Screen, 1);
        assert_eq!(effects.len(), 3);
        assert_eq!(effects[0], Effect::Input { session: FIRST.into(), bytes: b"\x1bOB".to_vec() });
    }
}

#[test]
fn dialogs_keep_the_mouse_to_themselves() {
    let mut bench = Bench::full(80, 24);
    bench.press("?");
    assert_eq!(in_pane(&mut bench, CLICK, Pane::List, 2), []);
    assert_eq!((bench.model.context(), bench.model.selected.as_deref()), (Context::Help, Some(FIRST)));
    let before = bench.draw();
    at(&mut bench, MouseEventKind::ScrollDown, 1, 1);
    assert_ne!(bench.draw(), before);
}
