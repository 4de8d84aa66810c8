//! Marks, what is done to all that are marked, and the way to the next session that wants somebody.

use super::commands;
use crate::app::command::{Answer, Command};
use crate::app::contract::{Kind, Phase};
use crate::app::error::{AppError, ErrorKind};
use crate::app::event::Event;
use crate::app::tui::fixtures::{self, Bench};
use crate::app::tui::keymap::Context;
use crate::app::tui::model::Overlay;
use crate::app::tui::seam::{Effect, UiEvent};

/// Answers the dry runs among effects, each with a plan.
fn plan_all(bench: &mut Bench, effects: &[Effect]) {
    for effect in effects {
        if let Effect::Run { ticket, .. } = effect {
            let result = Ok(Answer::Receipt(Box::new(fixtures::plan())));
            bench.send(UiEvent::Answered { ticket: *ticket, result });
        }
    }
}

#[test]
fn all_that_are_marked_are_previewed_and_stopped_as_shown() {
    let mut bench = Bench::full(140, 40);
    bench.press("  ");
    let marked: Vec<String> = bench.model.marked.iter().cloned().collect();
    assert_eq!(marked, ["serve-00000002", "serve-1a2b3c4d"]);
    let effects = bench.press("x");
    let asked = commands(&effects);
    assert_eq!(asked.len(), 2);
    assert!(asked.iter().all(|command| matches!(command, Command::Stop(request) if request.dry_run == Some(true))));
    bench.draw();
    assert_eq!(commands(&bench.press("y")).len(), 0, "nothing is known yet");
    plan_all(&mut bench, &effects);
    assert_eq!(commands(&bench.press("y")).len(), 0, "it was not on the screen");
    let text = bench.draw();
    assert!(text.contains("qwen-coder-32b  serve-1a2b3c4d") && text.contains("embedder  serve-00000002"), "{text}");
    let effects = bench.press("y");
    let stops = commands(&effects);
    assert_eq!(stops.len(), 2);
    for stop in stops {
        let Command::Stop(request) = stop else { panic!("{stop:?}") };
        assert_eq!((request.dry_run, request.confirm.as_ref().map(Vec::len)), (None, Some(3)), "{request:?}");
        assert!(marked.contains(&request.session));
    }
    assert!(bench.model.marked.is_empty() && bench.model.overlays.is_empty());
}

#[test]
fn one_that_cannot_be_planned_is_left_as_it_is() {
    let mut bench = Bench::full(140, 40);
    bench.press("  ");
    let effects = bench.press("X");
    plan_all(&mut bench, &effects[..effects.len() - 1]);
    let error = AppError::new(ErrorKind::Timeout, "tmux did not answer");
    bench.send(UiEvent::Answered { ticket: fixtures::ticket(&effects), result: Err(error) });
    let text = bench.draw();
    assert!(text.contains("left as it is: tmux did not answer"), "{text}");
    let effects = bench.press("y");
    assert_eq!(commands(&effects).len(), 1);
}

#[test]
fn a_preview_of_many_that_is_closed_does_nothing() {
    let mut bench = Bench::full(80, 24);
    bench.press("  ");
    let effects = bench.press("r");
    bench.press("<Esc>");
    plan_all(&mut bench, &effects);
    bench.draw();
    assert_eq!(bench.model.context(), Context::Panes);
    assert_eq!(bench.model.marked.len(), 2, "the marks stay");
    bench.press("<Esc>");
    assert!(bench.model.marked.is_empty());
}

#[test]
fn only_what_is_over_is_dismissed() {
    let mut bench = Bench::full(140, 40);
    bench.press("/build<Enter> <Esc>");
    bench.press("/fix<Enter> <Esc>");
    bench.press("f");
    let Some(Overlay::Many(many)) = bench.model.overlays.last() else { panic!("no preview") };
    assert_eq!(
        many.items.iter().map(|item| item.plan.as_ref().is_some_and(Result::is_ok)).collect::<Vec<_>>(),
        [false, true]
    );
    bench.draw();
    let effects = bench.press("y");
    assert_eq!(commands(&effects), [&Command::Dismiss { session: "shell-0000000d".into() }]);
}

#[test]
fn the_next_that_wants_somebody_is_found_in_the_order_of_the_list() {
    let mut bench = Bench::full(140, 40);
    bench.send(UiEvent::Happened(Event::Exited {
        session: "serve-00000002".into(),
        exit_code: Some(1),
        signal: None,
        attempt: None,
    }));
    bench.press("!");
    assert_eq!(bench.model.selected.as_deref(), Some("serve-00000002"));
    bench.press("n");
    assert_eq!(bench.model.selected.as_deref(), Some("agent-0000000a"));
    assert!(bench.model.attention.is_empty(), "who was looked at wants nobody");
    bench.press("n");
    assert_eq!(bench.model.selected.as_deref(), Some("shell-0000000d"), "the one that has failed");
    bench.press("n");
    assert_eq!(bench.model.selected.as_deref(), Some("shell-0000000d"));
}

/// Of a session that another process launched, only the phase is heard; of our own ones both, in either order.
#[test]
fn an_end_is_told_once_however_it_is_heard() {
    let session = || "serve-00000002".to_owned();
    let exited = || Event::Exited { session: session(), exit_code: Some(0), signal: None, attempt: None };
    let phase = || Event::Phase { session: session(), phase: Phase::Exited, detail: None };
    for events in [vec![phase()], vec![exited()], vec![phase(), exited()], vec![exited(), phase()]] {
        let mut bench = Bench::full(140, 40);
        let mut told = Vec::new();
        for event in events {
            bench.send(UiEvent::Happened(event));
            told.push(bench.model.attention.remove("serve-00000002"));
        }
        assert!(bench.model.news.has_ended("serve-00000002"));
        assert_eq!(told.iter().flatten().collect::<Vec<_>>(), ["has ended"], "{told:?}");
    }
}

#[test]
fn what_we_stop_wants_nobody() {
    let mut bench = Bench::full(140, 40);
    let effects = bench.press("x");
    bench.answer(&effects, Answer::Receipt(Box::new(fixtures::plan())));
    bench.draw();
    bench.press("yG");
    let exited =
        Event::Exited { session: "serve-1a2b3c4d".into(), exit_code: None, signal: Some("TERM".into()), attempt: None };
    bench.send(UiEvent::Happened(exited.clone()));
    assert!(!bench.model.attention.contains_key("serve-1a2b3c4d"));
    // Nor when the stop was answered before its end is heard of, and whoever asked for it.
    for (phase, detail) in [(Phase::Stopping, None), (Phase::Exited, Some("stopped".to_owned()))] {
        let mut bench = Bench::full(140, 40);
        let before = bench.model.log.notable().cloned();
        let mut rows = fixtures::sessions();
        for row in rows.iter_mut().filter(|row| row.session == "serve-1a2b3c4d") {
            (row.phase, row.detail) = (phase, detail.clone());
        }
        bench.send(UiEvent::Sessions(rows));
        bench.press("G");
        bench.send(UiEvent::Happened(exited.clone()));
        assert!(!bench.model.attention.contains_key("serve-1a2b3c4d"), "{phase:?}");
        assert_eq!(bench.model.log.notable().cloned(), before, "its receipt is what counts: {phase:?}");
    }
}

/// What was over before this run, and was looked at then, is no news, whatever comes first: its row, its end, or why it
/// has failed. What ended since is news, once.
#[test]
fn an_end_that_an_earlier_run_has_shown_is_no_news() {
    let exited = |id: &str| Event::Exited { session: id.into(), exit_code: Some(1), signal: None, attempt: None };
    let failed = |id: &str| Event::Phase { session: id.into(), phase: Phase::Failed, detail: Some("exit 1".into()) };
    let mut earlier = Bench::full(140, 40);
    earlier.press("GG");
    let memory = earlier.model.memory();
    assert_eq!(memory.over, ["shell-0000000c", "shell-0000000d"], "it ends with that run, or is over already");
    let mut rows = fixtures::sessions();
    rows.retain(|row| row.kind == Kind::Shell);
    rows[0].session = "shell-0000000e".into();
    rows[0].phase = Phase::Failed;
    let (old, new) = ("shell-0000000d", "shell-0000000e");
    for order in 0..4 {
        let mut next = Bench::empty(140, 40);
        next.model.recall(memory.clone());
        next.model.looks_elsewhere = true;
        let tell = |next: &mut Bench| {
            for id in [old, new] {
                for event in [exited(id), failed(id)].into_iter().skip(order % 2) {
                    next.send(UiEvent::Happened(event));
                }
            }
        };
        if order >= 2 {
            tell(&mut next);
            assert!(!next.model.attention.contains_key(old));
        }
        let mut starting = rows.clone();
        starting[1].phase = Phase::Starting;
        next.send(UiEvent::Sessions(starting));
        next.send(UiEvent::Sessions(rows.clone()));
        if order < 2 {
            tell(&mut next);
        }
        assert!(!next.model.attention.contains_key(old), "{order}");
        assert!(!next.model.news.has_ended(old), "{order}");
        let last = next.model.log.notable().map(|line| line.text.clone()).unwrap_or_default();
        assert!(!last.contains("build"), "{order}: {last}");
    }
    let mut next = Bench::empty(140, 40);
    next.model.recall(memory);
    rows[1].name = "a".into();
    rows[1].kind = Kind::Serve;
    next.send(UiEvent::Sessions(rows));
    assert!(next.model.attention.contains_key(new) && next.model.news.has_ended(new));
    assert!(!next.model.memory().over.contains(&new.to_owned()), "nobody has looked at it");
}
