//! A stop plays out on the screen, and its panel gives way to the receipt.

use std::time::Duration;

use crate::app::command::{Answer, Command, Held};
use crate::app::event::Event;
use crate::app::tui::fixtures::{self, Bench};
use crate::app::tui::keymap::Context;
use crate::app::tui::seam::{Effect, UiEvent};
use crate::lifecycle::receipt::Receipt;

const SESSION: &str = "serve-1a2b3c4d";

/// Confirms a stop with a grace of 2 s; returns what was asked for.
fn stopping(bench: &mut Bench) -> Vec<Effect> {
    let effects = bench.press("x");
    let plan = Receipt { grace_s: Some(2.0), ..fixtures::plan() };
    bench.answer(&effects, Answer::Receipt(Box::new(plan)));
    bench.draw();
    bench.press("y")
}

fn after(bench: &mut Bench, ms: u64) -> String {
    bench.now += Duration::from_millis(ms);
    bench.send(UiEvent::Tick);
    bench.draw()
}

fn signalled(bench: &mut Bench, pid: i32, signal: &str) {
    let (session, signal) = (SESSION.to_owned(), signal.to_owned());
    bench.send(UiEvent::Happened(Event::Signal { session, pid, signal }));
}

#[test]
fn each_process_is_followed_and_the_time_until_kill_told() {
    let mut bench = Bench::full(140, 40);
    let effects = stopping(&mut bench);
    assert!(bench.model.deadline().is_some());
    signalled(&mut bench, 4242, "TERM");
    assert_eq!(bench.model.context(), Context::Panes, "a short stop shows no panel");
    let text = after(&mut bench, 400);
    assert!(text.contains("Stopping: qwen-coder-32b") && text.contains("0 of 3 gone   KILL in 2 s"), "{text}");
    assert!(text.contains("signalled TERM") && text.contains("no signal yet"), "{text}");
    let text = after(&mut bench, 1_000);
    assert!(text.contains("KILL in 1 s"), "{text}");
    bench.send(UiEvent::Happened(Event::ProcessGone { session: SESSION.into(), pid: 4301, command: String::new() }));
    let text = after(&mut bench, 1_000);
    assert!(text.contains("1 of 3 gone   the grace is over: KILL"), "{text}");
    signalled(&mut bench, 4242, "KILL");
    assert!(bench.draw().contains("signalled TERM KILL"));
    bench.answer(&effects, Answer::Receipt(Box::new(fixtures::bad_receipt())));
    let text = bench.draw();
    assert!(text.contains("Receipt: qwen-coder-32b") && !text.contains("Stopping:"), "{text}");
    assert!(bench.model.live.is_empty());
}

#[test]
fn the_panel_ends_in_the_receipt() {
    let mut bench = Bench::full(80, 24);
    let effects = stopping(&mut bench);
    after(&mut bench, 400);
    assert_eq!(bench.model.context(), Context::Reader);
    bench.answer(&effects, Answer::Receipt(Box::new(fixtures::clean_receipt())));
    assert_eq!((bench.model.context(), bench.model.live.len()), (Context::Reader, 0));
    let text = after(&mut bench, 60_000);
    assert!(text.contains("Receipt: qwen-coder-32b") && !text.contains("Stopping:"), "{text}");
    assert_eq!(bench.press("xH").len(), 0, "what is no key of it does nothing");
    bench.press("<Esc>");
    assert_eq!(bench.model.context(), Context::Panes);
}

#[test]
fn without_its_panel_a_clean_receipt_is_a_line() {
    let ways: [fn(&mut Bench); 3] = [
        |_| {},
        |bench| {
            after(bench, 400);
            bench.press("<Esc>");
        },
        |bench| {
            bench.press("<Enter>");
            after(bench, 400);
        },
    ];
    for way in ways {
        let mut bench = Bench::full(80, 24);
        let effects = stopping(&mut bench);
        way(&mut bench);
        bench.answer(&effects, Answer::Receipt(Box::new(fixtures::clean_receipt())));
        let text = after(&mut bench, 1_000);
        assert!(bench.model.overlays.is_empty() && !text.contains("Receipt:"), "{text}");
    }
}

#[test]
fn a_panel_that_was_closed_stays_closed_until_it_is_asked_for() {
    let mut bench = Bench::full(80, 24);
    let effects = stopping(&mut bench);
    after(&mut bench, 400);
    bench.press("<Esc>");
    after(&mut bench, 400);
    assert_eq!(bench.model.context(), Context::Panes);
    assert_eq!(bench.press("x").len(), 0, "no other stop is asked for");
    assert!(bench.draw().contains("Stopping: "));
    bench.answer(&effects, Answer::Receipt(Box::new(fixtures::clean_receipt())));
    assert!(bench.draw().contains("Receipt: "));
}

#[test]
fn nothing_opens_while_somebody_types() {
    let mut bench = Bench::full(80, 24);
    stopping(&mut bench);
    bench.press("<Enter>");
    after(&mut bench, 400);
    assert_eq!(bench.model.context(), Context::Terminal);
}

#[test]
fn a_stop_is_held_before_kill_and_let_go_on() {
    let mut bench = Bench::full(140, 40);
    stopping(&mut bench);
    signalled(&mut bench, 4242, "TERM");
    assert!(after(&mut bench, 400).contains("KILL in 2 s   H holds it"));
    let ask = |release| Command::Hold { session: SESSION.into(), release };
    let effects = bench.press("H");
    assert!(matches!(&effects[..], [Effect::Run { command, .. }] if *command == ask(None)), "{effects:?}");
    bench.answer(&effects, Answer::Held(Held { held: true, left_s: Some(600.0) }));
    let text = after(&mut bench, 5_000);
    assert!(text.contains("held before KILL, for 9m55s at the longest   H lets it go on"), "{text}");
    let effects = bench.press("H");
    assert!(matches!(&effects[..], [Effect::Run { command, .. }] if *command == ask(Some(true))), "{effects:?}");
    bench.answer(&effects, Answer::Held(Held { held: false, left_s: None }));
    assert!(after(&mut bench, 200).contains("the grace is over: KILL"));
    signalled(&mut bench, 4242, "KILL");
    let text = after(&mut bench, 200);
    assert!(text.contains("KILL was sent") && !text.contains(" H "), "{text}");
}

#[test]
fn the_selected_session_is_held_without_its_panel() {
    let mut bench = Bench::full(80, 24);
    bench.press("H");
    assert!(bench.draw().contains("nothing to hold"));
    stopping(&mut bench);
    let effects = bench.press("H");
    assert!(matches!(&effects[..], [Effect::Run { command: Command::Hold { .. }, .. }]), "{effects:?}");
}

/// Who ends between the preview and the agreement is gone from the start, and who comes is listed once it is signalled.
#[test]
fn what_happens_after_the_preview_is_followed() {
    let mut bench = Bench::full(140, 40);
    let effects = bench.press("x");
    let plan = Receipt { grace_s: Some(2.0), ..fixtures::plan() };
    bench.answer(&effects, Answer::Receipt(Box::new(plan)));
    bench.draw();
    let (gone, new) = (|pid| (SESSION.to_owned(), pid, String::new()), "sleep 9");
    let (session, pid, command) = gone(4301);
    bench.send(UiEvent::Happened(Event::ProcessGone { session, pid, command }));
    let session = SESSION.to_owned();
    bench.send(UiEvent::Happened(Event::ProcessNew { session, pid: 4900, command: new.into() }));
    bench.press("y");
    signalled(&mut bench, 4242, "TERM");
    let text = after(&mut bench, 400);
    assert!(text.contains("1 of 3 gone") && !text.contains("4900"), "{text}");
    signalled(&mut bench, 4900, "TERM");
    let session = SESSION.to_owned();
    // Signalled before it was heard of.
    signalled(&mut bench, 4901, "TERM");
    bench.send(UiEvent::Happened(Event::ProcessNew { session, pid: 4901, command: "sleep 10".into() }));
    let (session, pid, command) = gone(4901);
    bench.send(UiEvent::Happened(Event::ProcessGone { session, pid, command }));
    let text = bench.draw();
    assert!(text.contains("2 of 5 gone") && text.contains(new) && text.contains("sleep 10"), "{text}");
    // One that ended unheard of is gone as the tree says.
    let mut tree = fixtures::tree();
    for row in &mut tree.processes {
        row.verdict = crate::lifecycle::verdict::VerdictKind::Gone;
    }
    bench.send(UiEvent::Tree { session: SESSION.into(), tree });
    assert!(!bench.draw().contains("no signal yet"));
    // A preview that was closed is forgotten.
    bench.press("<Esc>gX");
    assert_eq!(bench.model.meanwhile.len(), 1);
    bench.press("<Esc>");
    assert!(bench.model.meanwhile.is_empty());
}

#[test]
fn each_of_many_stops_says_which_it_is_and_all_are_held_together() {
    let mut bench = Bench::full(140, 40);
    let effects = bench.press("  x");
    for effect in &effects {
        if let Effect::Run { ticket, .. } = effect {
            let plan = Receipt { grace_s: Some(2.0), ..fixtures::plan() };
            bench.send(UiEvent::Answered { ticket: *ticket, result: Ok(Answer::Receipt(Box::new(plan))) });
        }
    }
    bench.draw();
    bench.press("y");
    signalled(&mut bench, 4242, "TERM");
    let text = after(&mut bench, 400);
    assert!(text.contains("Stopping: qwen-coder-32b (1 of 2)") && text.contains("H holds all"), "{text}");
    let effects = bench.press("H");
    let asked = |effect: &Effect| {
        let Effect::Run { command: Command::Hold { session, release }, .. } = effect else { panic!("{effect:?}") };
        (session.clone(), *release)
    };
    let both = ["serve-1a2b3c4d", "serve-00000002"].map(str::to_owned);
    assert_eq!(effects.iter().map(asked).collect::<Vec<_>>(), both.clone().map(|id| (id, None)));
    for effect in &effects {
        let Effect::Run { ticket, .. } = effect else { panic!("{effect:?}") };
        let result = Ok(Answer::Held(Held { held: true, left_s: Some(600.0) }));
        bench.send(UiEvent::Answered { ticket: *ticket, result });
    }
    assert!(after(&mut bench, 200).contains("H lets all go on"));
    let effects = bench.press("H");
    assert_eq!(effects.iter().map(asked).collect::<Vec<_>>(), both.map(|id| (id, Some(true))));
    bench.press("<Esc>");
    let text = after(&mut bench, 200);
    assert!(text.contains("Stopping: embedder (2 of 2)"), "{text}");
}
