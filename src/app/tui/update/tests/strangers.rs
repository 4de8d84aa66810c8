//! Servers that are none of ours: a group of the list that can be looked at, and nothing else.

use super::commands;
use crate::app::tui::fixtures::{self, Bench, pid};
use crate::app::tui::keymap::Context;
use crate::app::tui::model::{Group, ListLine, Totals};
use crate::app::tui::seam::{Effect, UiEvent};
use crate::app::tui::view::list_lines;

const LAST: &str = "cookbook-000000e0";

/// The list with two servers of others, of which the first is selected.
fn bench() -> Bench {
    let mut bench = Bench::full(140, 40);
    bench.send(UiEvent::Strangers(fixtures::strangers()));
    bench.press("Gk");
    assert_eq!((bench.model.met, &bench.model.selected), (Some(pid(7001)), &None));
    bench
}

fn said(bench: &Bench) -> String {
    bench.model.log.notable().map(|line| line.text.clone()).unwrap_or_default()
}

#[test]
fn they_stand_below_the_sessions_and_count_for_none() {
    let mut bench = Bench::full(140, 40);
    let title = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let before = title(&bench.draw());
    bench.send(UiEvent::Strangers(fixtures::strangers()));
    let text = bench.draw();
    assert_eq!(title(&text), before);
    let lines = list_lines(&bench.model);
    let [
        ..,
        ListLine::Heading(Group::Strangers, Totals { count: 2, rss_bytes, .. }),
        ListLine::Stranger(first),
        ListLine::Stranger(_),
    ] = lines[..]
    else {
        panic!("{lines:?}")
    };
    assert_eq!((first.pid, rss_bytes), (pid(7001), Some(5 << 30)));
    let row = text.lines().find(|line| line.contains("llama-server")).unwrap_or_default();
    assert!(row.contains("me") && row.contains(":8081") && row.contains("5.0G"), "{text}");
    assert_eq!(bench.model.selected.as_deref(), Some("serve-1a2b3c4d"), "the selection stays");
}

#[test]
fn the_keys_go_to_them_and_back_and_rows_that_come_do_not_move_the_selection() {
    let mut bench = bench();
    bench.send(UiEvent::Sessions(fixtures::sessions()));
    assert_eq!(bench.model.met, Some(pid(7001)));
    let text = bench.draw();
    assert!(text.contains("never typed into or") && text.contains("--api-key ***"), "{text}");
    bench.press("jj");
    assert_eq!(bench.model.met, Some(pid(812)));
    bench.press("kk");
    assert_eq!((bench.model.met, bench.model.selected.as_deref()), (None, Some(LAST)));
}

#[test]
fn nothing_is_done_to_one_and_it_is_said_why() {
    for key in ["x", "X", "r", "S", "<Enter>", " ", "B", "E", "F", "H", "+", "f", "[", "z"] {
        let mut bench = bench();
        let effects = bench.press(key);
        assert_eq!(effects, [], "{key}");
        assert_eq!(bench.model.context(), Context::Panes, "{key}");
        assert!(said(&bench).contains("llama-server 7001 is not ours: "), "{key}: {}", said(&bench));
        assert!(bench.model.marked.is_empty() && !bench.model.focused && bench.model.met.is_some(), "{key}");
    }
    // What is marked is what is meant.
    let mut bench = Bench::full(140, 40);
    bench.send(UiEvent::Strangers(fixtures::strangers()));
    bench.press(" G");
    assert_eq!(commands(&bench.press("x")).len(), 1);
    assert!(bench.draw().contains("Stop"));
}

#[test]
fn it_is_read_and_copied() {
    let mut bench = bench();
    assert_eq!(bench.press("c"), [Effect::Copy("7001".into())]);
    assert_eq!(bench.press("w"), []);
    assert_eq!(bench.model.context(), Context::Reader);
    let text = bench.draw();
    assert!(text.contains("Not ours: llama-server") && text.contains(":8081"), "{text}");
}

#[test]
fn the_group_folds_and_is_found() {
    let mut bench = bench();
    bench.press("-");
    assert!(bench.model.folded.contains(&Group::Strangers));
    assert!(matches!(list_lines(&bench.model).last(), Some(ListLine::Heading(Group::Strangers, _))));
    bench.press("j");
    assert_eq!(bench.model.met, Some(pid(7001)), "a folded group is one stop");
    assert_eq!(bench.model.memory().folded, ["not ours"]);
    bench.press("k");
    assert_eq!(bench.model.selected.as_deref(), Some(LAST));
    bench.press("j<Enter>");
    assert!(bench.model.folded.is_empty());
    bench.press("/:8081");
    let lines = list_lines(&bench.model);
    assert_eq!(lines.iter().filter(|line| matches!(line, ListLine::Stranger(_))).count(), 1, "{lines:?}");
}

#[test]
fn where_one_ends_another_is_selected() {
    let mut bench = bench();
    bench.send(UiEvent::Strangers(fixtures::strangers().split_off(1)));
    assert_eq!(bench.model.met, Some(pid(812)));
    bench.send(UiEvent::Strangers(Vec::new()));
    assert_eq!((bench.model.met, bench.model.selected.as_deref()), (None, Some(LAST)));
    assert!(!bench.draw().contains("Not ours"));
}

#[test]
fn without_sessions_the_list_still_says_how_to_start_one() {
    let mut bench = Bench::empty(80, 24);
    bench.send(UiEvent::Strangers(fixtures::strangers()));
    bench.send(UiEvent::Sessions(Vec::new()));
    let text = bench.draw();
    assert!(text.contains("Not ours 2") && text.contains("No sessions yet."), "{text}");
    bench.press("jw");
    assert!(bench.draw().contains("Not ours: llama-server"));
}

/// One pane at a time: the pane of the terminal shows what is known of it.
#[test]
fn on_a_narrow_screen_it_has_a_pane() {
    let mut bench = Bench::full(50, 16);
    bench.send(UiEvent::Strangers(fixtures::strangers()));
    bench.press("Gk<Tab>");
    let text = bench.draw();
    assert!(text.contains("llama-server") && text.contains("looks like"), "{text}");
}
