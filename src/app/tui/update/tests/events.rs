//! The event log: moved in, filtered, receipts opened from it; and the marks of what nobody has looked at.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::super::seam::UiEvent;
use crate::app::event::Event;
use crate::app::tui::fixtures::{self, Bench};
use crate::app::tui::keymap::Context;
use crate::app::tui::model::{Events, Field, Overlay, Reading};

fn note(bench: &mut Bench, text: &str) {
    bench.send(UiEvent::Note(text.to_owned()));
}

fn told(bench: &mut Bench) {
    let receipt = Box::new(fixtures::bad_receipt());
    let session = receipt.session.clone();
    bench.send(UiEvent::Happened(Event::Receipt { session, receipt }));
}

fn log(bench: &Bench) -> &Events {
    match bench.model.overlays.last() {
        Some(Overlay::Events(events)) => events,
        other => panic!("{other:?}"),
    }
}

#[test]
fn receipts_are_opened_from_their_lines() {
    let mut bench = Bench::full(140, 40);
    told(&mut bench);
    note(&mut bench, "something after it");
    bench.press("e<Enter>");
    assert!(matches!(bench.model.overlays.last(), Some(Overlay::Events(_))), "the newest line tells of none");
    bench.press("k<Enter>");
    let Some(Overlay::Reader(reader)) = bench.model.overlays.last() else { panic!("{:?}", bench.model.overlays) };
    assert_eq!(reader.reading, Reading::Receipt(Box::new(fixtures::bad_receipt())));
    bench.press("<Esc>");
    assert_eq!(bench.model.context(), Context::Events, "back to the log");
    bench.press("<Esc>");
    assert!(bench.model.overlays.is_empty());
}

#[test]
fn a_receipt_that_is_not_kept_any_more_says_where_it_is() {
    let mut bench = Bench::full(140, 40);
    told(&mut bench);
    for elapsed in 0..40 {
        let receipt = crate::lifecycle::receipt::Receipt { elapsed_ms: elapsed, ..fixtures::clean_receipt() };
        let session = receipt.session.clone();
        bench.send(UiEvent::Happened(Event::Receipt { session, receipt: Box::new(receipt) }));
    }
    bench.press("e");
    let lines = log(&bench).lines(&bench.model.log);
    let first = lines.iter().position(|(_, line)| line.receipt == Some(0)).unwrap_or_default();
    let back = lines.len() - 1 - first;
    bench.press(&"k".repeat(back));
    bench.press("<Enter>");
    assert!(matches!(bench.model.overlays.last(), Some(Overlay::Events(_))));
    assert!(bench.model.log.notable().is_some_and(|line| line.text.contains("logs --receipts")));
}

/// Every word has to stand in the line as it is shown, its marks included; scattered letters are no word.
#[test]
fn the_filter_finds_words_in_the_whole_line() {
    let mut bench = Bench::full(80, 24);
    told(&mut bench);
    note(&mut bench, "rare events come in pieces, twice");
    note(&mut bench, "Alpha took a while");
    for (typed, found) in [
        ("receipt", 1),
        ("RECEIPT not", 1),
        ("receipt alpha", 0),
        ("alpha", 1),
        ("while alp", 1),
        ("aph", 0),
        ("3m12s alpha", 1),
        (" ", bench.model.log.lines().count()),
    ] {
        let events = Events { line: Field::of(typed), ..Events::default() };
        assert_eq!(events.lines(&bench.model.log).len(), found, "{typed:?}");
    }
}

#[test]
fn the_log_is_filtered_by_words() {
    let mut bench = Bench::full(80, 24);
    for text in ["alpha went", "beta came", "alpha again"] {
        note(&mut bench, text);
    }
    bench.press("e/alpha");
    assert_eq!(bench.model.context(), Context::Filter);
    assert_eq!(log(&bench).lines(&bench.model.log).len(), 2);
    let text = bench.draw();
    assert!(text.contains("Events  /alpha") && text.contains("alpha again") && !text.contains("beta came"), "{text}");
    bench.press("<Enter>");
    assert_eq!(bench.model.context(), Context::Events);
    bench.press("/zzzz");
    assert!(bench.draw().contains("Nothing matches."));
    bench.press("<Esc>");
    assert_eq!((bench.model.context(), log(&bench).line.text()), (Context::Events, ""));
    // A paste is typed; it presses no keys.
    bench.press("/");
    bench.send(UiEvent::Input(crossterm::event::Event::Paste("beta came".to_owned())));
    assert_eq!(log(&bench).lines(&bench.model.log).len(), 1);
    bench.press("<Enter><Esc>");
    assert_eq!(log(&bench).line.text(), "", "first all lines again");
    bench.press("<Esc>");
    assert!(bench.model.overlays.is_empty());
}

#[test]
fn nothing_jumps_while_lines_come() {
    let mut bench = Bench::full(80, 24);
    note(&mut bench, "one");
    bench.press("e");
    note(&mut bench, "two");
    let at = |bench: &Bench| {
        let lines = log(bench).lines(&bench.model.log);
        lines[log(bench).place(&lines)].1.text.clone()
    };
    assert_eq!(at(&bench), "two", "the last line follows");
    bench.press("k");
    note(&mut bench, "three");
    assert_eq!(at(&bench), "one", "another one stays");
}

fn printed(bench: &mut Bench, at: u64) {
    let printed: BTreeMap<String, u64> = fixtures::sessions().into_iter().map(|row| (row.session, at)).collect();
    bench.send(UiEvent::Printed(printed));
}

#[test]
fn what_was_printed_unseen_is_marked_until_it_is_looked_at() {
    let mut bench = Bench::full(140, 40);
    printed(&mut bench, 1);
    assert!(!bench.draw().contains('◆'), "what was there before is no news");
    printed(&mut bench, 2);
    let marks = |bench: &mut Bench| bench.draw().matches('◆').count();
    let all = fixtures::sessions().len();
    // The selected one is looked at, and one has a mark that says more.
    assert_eq!(marks(&mut bench), all - 2, "{}", bench.draw());
    bench.press("j");
    assert_eq!(marks(&mut bench), all - 3);
}

#[test]
fn where_the_terminal_is_not_shown_nobody_looks() {
    let mut bench = Bench::full(40, 10);
    printed(&mut bench, 1);
    bench.now += Duration::from_secs(1);
    printed(&mut bench, 2);
    printed(&mut bench, 3);
    let id = bench.model.selected.clone().unwrap_or_default();
    assert!(bench.model.news.is_unseen(&id), "only the list is shown");
    bench.press("<Tab>");
    assert!(!bench.model.news.is_unseen(&id));
}

#[test]
fn an_end_that_nobody_saw_is_marked() {
    let mut bench = Bench::full(140, 40);
    printed(&mut bench, 1);
    let exited = |session: &str| {
        let session = session.to_owned();
        UiEvent::Happened(Event::Exited { session, exit_code: Some(0), signal: None, attempt: None })
    };
    bench.send(exited("shell-0000000c"));
    bench.send(exited("serve-1a2b3c4d"));
    assert_eq!(bench.draw().matches('■').count(), 1, "the selected one was seen: {}", bench.draw());
    bench.press("!!");
    assert!(!bench.draw().contains('■'), "{}", bench.draw());
}
