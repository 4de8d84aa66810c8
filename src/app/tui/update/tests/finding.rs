//! The filter of the list and the command palette.

use super::commands;
use crate::app::command::Command;
use crate::app::tui::fixtures::{self, Bench};
use crate::app::tui::keymap::Context;
use crate::app::tui::model::Pane;
use crate::app::tui::seam::UiEvent;

#[test]
fn the_list_shows_what_matches_and_the_selection_follows() {
    let mut bench = Bench::full(140, 40);
    bench.press("/parse");
    assert_eq!(bench.model.context(), Context::Filter);
    assert_eq!(bench.model.selected.as_deref(), Some("agent-0000000a"));
    assert!(!bench.model.lists("serve-1a2b3c4d"));
    // One that matches stays selected, whatever else does.
    bench.press("<C-u>serve<Down>");
    let second = bench.model.selected.clone();
    assert!(second.as_ref().is_some_and(|id| id.starts_with("serve-")));
    bench.press("<Enter>");
    assert_eq!((bench.model.context(), bench.model.selected.clone()), (Context::Panes, second));
    bench.press("GG");
    assert_eq!(bench.model.selected.as_deref(), Some("serve-00000003"), "the keys stay in what is listed");
    bench.press("<Esc>");
    assert!(bench.model.filter.is_none() && bench.model.lists("shell-0000000d"));
}

#[test]
fn a_filter_of_nothing_is_none() {
    let mut bench = Bench::full(80, 24);
    bench.press("/x<Backspace><Enter>");
    assert!(bench.model.filter.is_none());
    bench.press("/tiny<Esc>");
    assert!(bench.model.filter.is_none());
}

#[test]
fn sessions_come_and_go_under_a_filter() {
    let mut bench = Bench::full(140, 40);
    bench.press("/failed<Enter>");
    assert!(bench.model.lists("shell-0000000d") && !bench.model.lists("shell-0000000c"));
    let mut rows = fixtures::sessions();
    for row in &mut rows {
        if row.session == "shell-0000000c" {
            row.phase = crate::app::contract::Phase::Failed;
        }
    }
    bench.send(UiEvent::Sessions(rows));
    assert!(bench.model.lists("shell-0000000c"));
}

#[test]
fn what_is_typed_into_the_filter_is_no_command() {
    let mut bench = Bench::full(80, 24);
    let effects = bench.press("/xqXr");
    assert!(commands(&effects).is_empty());
    bench.send(UiEvent::Input(crossterm::event::Event::Paste("q\ny".into())));
    assert!(bench.model.overlays.is_empty());
    assert_eq!(bench.model.filter.as_ref().map(|filter| filter.line.text()), Some("xqXrq y"));
}

#[test]
fn the_palette_does_what_the_key_does() {
    for (typed, key) in [("stop the session", "x"), ("how this host", "D"), ("left of sessions", "o")] {
        let mut by_palette = Bench::full(80, 24);
        let chosen = by_palette.press(&format!(":{typed}<Enter>"));
        let mut by_key = Bench::full(80, 24);
        let pressed = by_key.press(key);
        assert_eq!(commands(&chosen), commands(&pressed), "{typed}");
        assert!(matches!(commands(&chosen)[..], [Command::Stop(_) | Command::Doctor {} | Command::Orphans(_)]));
        assert_eq!(by_palette.model.context(), by_key.model.context(), "{typed}");
    }
}

#[test]
fn the_palette_goes_to_a_session_by_its_name() {
    let mut bench = Bench::full(80, 24);
    bench.press("/qwen<Enter>:fixparser<Enter>");
    assert_eq!(bench.model.selected.as_deref(), Some("agent-0000000a"));
    assert!(bench.model.filter.is_none(), "a session that the filter hides ends it");
    bench.press(":nothing at all<Enter>");
    assert_eq!(bench.model.context(), Context::Palette);
    bench.press("<Esc>");
    assert_eq!((bench.model.context(), bench.model.pane), (Context::Panes, Pane::List));
}

#[test]
fn a_group_folds_and_stays_one_stop_of_the_keys() {
    let mut bench = Bench::full(140, 40);
    bench.press("j-");
    let text = bench.draw();
    assert!(text.contains("▌Servers 3 · 1 ready …"), "{text}");
    assert!(!text.contains("embedder          "), "{text}");
    bench.press("j");
    assert_eq!(bench.model.selected.as_deref(), Some("agent-0000000a"));
    bench.press("k");
    assert_eq!(bench.model.selected.as_deref(), Some("serve-1a2b3c4d"), "the group is one stop");
    bench.press("<Enter>");
    assert_eq!((bench.model.context(), bench.model.folded.len()), (Context::Panes, 0), "Enter unfolds");
    // What is looked for, or gone to, is not hidden by a fold.
    bench.press("-/embed<Enter>");
    assert_eq!(bench.model.selected.as_deref(), Some("serve-00000002"));
    assert!(bench.draw().contains("embedder  "));
    bench.press("<Esc>:embedder<Enter>");
    assert!(bench.model.folded.is_empty());
}
