//! Previews, confirmations, receipts, and the end.

use std::time::Duration;

use super::commands;
use crate::app::command::{Answer, Command, Launched, RestartRequest, StopRequest, SweepRequest};
use crate::app::contract::HostKind;
use crate::app::error::{AppError, ErrorKind};
use crate::app::event::Event;
use crate::app::tui::fixtures::{self, Bench, pid, ticket, token};
use crate::app::tui::keymap::Context;
use crate::app::tui::model::{Overlay, Pane, Reading};
use crate::app::tui::seam::{Effect, UiEvent};
use crate::lifecycle::identity::Identity;
use crate::lifecycle::plan::Choice;
use crate::lifecycle::receipt::{Bystander, Receipt};

const FIRST: &str = "serve-1a2b3c4d";

fn shown() -> Vec<Identity> {
    [4242, 4301, 4303].map(|raw| Identity { pid: pid(raw), token: token(raw), pidfd_inode: None }).to_vec()
}

fn stop(force: bool, dry_run: bool) -> Command {
    Command::Stop(StopRequest {
        session: FIRST.into(),
        force: force.then_some(true),
        dry_run: dry_run.then_some(true),
        confirm: (!dry_run).then(shown),
        ..StopRequest::default()
    })
}

fn answer(bench: &mut Bench, effects: &[Effect], receipt: Receipt) -> Vec<Effect> {
    bench.answer(effects, Answer::Receipt(Box::new(receipt)))
}

/// Opens a preview and shows it.
fn preview(bench: &mut Bench, key: &str) -> Vec<Effect> {
    let effects = bench.press(key);
    answer(bench, &effects, fixtures::plan());
    bench.draw();
    effects
}

fn refuse(bench: &mut Bench, effects: &[Effect], message: &str) -> Vec<Effect> {
    let result = Err(AppError::new(ErrorKind::Refused, message));
    bench.send(UiEvent::Answered { ticket: ticket(effects), result })
}

#[test]
fn each_act_previews_and_then_confirms_what_was_shown() {
    let sweep = |dry_run: bool| {
        Command::Sweep(SweepRequest {
            session: None,
            dry_run: dry_run.then_some(true),
            confirm: (!dry_run).then(shown),
            end_kept: None,
        })
    };
    let restart = |dry_run: bool| {
        Command::Restart(RestartRequest {
            session: FIRST.into(),
            dry_run: dry_run.then_some(true),
            confirm: (!dry_run).then(shown),
            ..RestartRequest::default()
        })
    };
    for (key, asked, done) in [
        ("x", stop(false, true), stop(false, false)),
        ("X", stop(true, true), stop(true, false)),
        ("S", sweep(true), sweep(false)),
        ("r", restart(true), restart(false)),
    ] {
        for confirm in ["<Enter>", "y"] {
            let mut bench = Bench::full(80, 24);
            assert_eq!(commands(&preview(&mut bench, key)), [&asked], "{key}");
            assert_eq!(bench.model.context(), Context::Preview);
            assert_eq!(commands(&bench.press(confirm)), [&done], "{key} {confirm}");
            assert_eq!(bench.model.context(), Context::Panes);
            assert_eq!(bench.press(confirm).iter().filter(|e| matches!(e, Effect::Run { .. })).count(), 0, "once");
        }
    }
}

#[test]
fn what_was_not_on_the_screen_cannot_be_confirmed() {
    let mut bench = Bench::full(80, 24);
    let effects = bench.press("x");
    assert_eq!(bench.press("<Enter>y"), [], "the plan has not come yet");
    answer(&mut bench, &effects, fixtures::plan());
    assert_eq!(bench.press("<Enter>y"), [], "the plan has not been drawn yet");
    bench.draw();
    assert_eq!(commands(&bench.press("<Enter>")), [&stop(false, false)]);
}

#[test]
fn a_frame_of_before_confirms_nothing() {
    let mut bench = Bench::full(80, 24);
    let first = bench.press("x");
    answer(&mut bench, &first, fixtures::plan());
    let shown = bench.model.shown();
    // Meanwhile another preview has taken its place.
    let second = bench.press("<Esc>X");
    answer(&mut bench, &second, fixtures::plan());
    if let Some(shown) = shown {
        bench.model.note_shown(&shown, bench.now);
    }
    assert_eq!(bench.press("y"), []);
}

#[test]
fn a_preview_can_be_left() {
    for cancel in ["<Esc>", "q", "n", "<C-c>"] {
        let mut bench = Bench::full(80, 24);
        let effects = preview(&mut bench, "x");
        assert_eq!(bench.press(cancel), []);
        assert_eq!(bench.model.context(), Context::Panes);
        // A late answer opens nothing.
        assert_eq!(answer(&mut bench, &effects, fixtures::plan()), []);
        assert!(bench.model.overlays.is_empty(), "{cancel}");
    }
}

#[test]
fn newcomers_open_the_preview_again() {
    let mut bench = Bench::full(80, 24);
    preview(&mut bench, "x");
    let effects = bench.press("y");
    let again = refuse(&mut bench, &effects, "1 process is new: 4801 by sid");
    assert_eq!(commands(&again), [&stop(false, true)], "it looks anew");
    assert!(matches!(bench.model.overlays.last(), Some(Overlay::Preview(p)) if p.note.is_some()));
    answer(&mut bench, &again, fixtures::plan());
    assert!(bench.draw().contains("4801 by sid"));
    assert_eq!(bench.press("y"), [], "a key on its way was meant for something else");
    bench.now += Duration::from_millis(301);
    assert_eq!(commands(&bench.press("y")), [&stop(false, false)]);
}

#[test]
fn nothing_that_comes_by_itself_takes_the_keys_of_somebody_who_types() {
    let mut bench = Bench::full(140, 40);
    preview(&mut bench, "x");
    let effects = bench.press("y<Enter>");
    assert!(bench.model.focused);
    let again = refuse(&mut bench, &effects[..effects.len()], "new");
    assert_eq!(bench.model.context(), Context::Terminal);
    answer(&mut bench, &again, fixtures::plan());
    assert!(matches!(&bench.press("y")[..], [Effect::Input { .. }]));
    bench.press("<C-\\>");
    assert_eq!(bench.model.context(), Context::Preview, "it waits until they leave");

    let mut bench = Bench::full(140, 40);
    preview(&mut bench, "x");
    let effects = bench.press("ys:");
    let stop = effects.iter().position(|e| matches!(e, Effect::Run { command: Command::Stop(_), .. }));
    answer(&mut bench, &effects[..=stop.unwrap_or(0)], fixtures::bad_receipt());
    assert_eq!(bench.model.context(), Context::Line);
    bench.press("<Esc><Esc>");
    assert_eq!(bench.model.context(), Context::Reader);
}

#[test]
fn a_clean_receipt_is_a_line_and_any_other_one_a_panel() {
    let unknown = Receipt { dead: None, ..fixtures::clean_receipt() };
    for (receipt, panel) in [(fixtures::clean_receipt(), false), (fixtures::bad_receipt(), true), (unknown, true)] {
        let mut bench = Bench::full(80, 24);
        preview(&mut bench, "x");
        let effects = bench.press("y");
        assert_eq!(bench.model.acting, [FIRST]);
        answer(&mut bench, &effects, receipt.clone());
        assert_eq!(bench.model.acting, [""; 0]);
        let shown = matches!(bench.model.overlays.last(), Some(Overlay::Reader(r)) if r.reading == Reading::Receipt(Box::new(receipt.clone())));
        assert_eq!(shown, panel);
        assert!(bench.model.log.notable().is_some_and(|line| line.text.contains("ended")));
        bench.press("<Esc>v");
        assert!(matches!(bench.model.overlays.last(), Some(Overlay::Reader(_))), "v shows it again");
    }
}

#[test]
fn a_receipt_that_comes_twice_is_told_once() {
    let mut bench = Bench::full(80, 24);
    preview(&mut bench, "x");
    let effects = bench.press("y");
    let before = bench.model.log.lines().count();
    let receipt = Box::new(fixtures::clean_receipt());
    bench.send(UiEvent::Happened(Event::Receipt { session: FIRST.into(), receipt: receipt.clone() }));
    answer(&mut bench, &effects, *receipt);
    assert_eq!(bench.model.log.lines().count(), before + 1);
}

#[test]
fn a_restart_selects_the_new_session() {
    let mut bench = Bench::full(80, 24);
    preview(&mut bench, "r");
    let effects = bench.press("y");
    let start_token = token(9000);
    let launched = Launched {
        session: "serve-99999999".into(),
        host: HostKind::Tmux,
        pid: 9000,
        start_token,
        tmux: None,
        notes: vec!["tmux is missing: pty instead".into()],
    };
    let receipt = Box::new(fixtures::clean_receipt());
    bench.answer(&effects, Answer::Restarted { receipt, launched });
    assert!(bench.model.log.lines().any(|line| line.text.contains("pty instead")));
    let mut rows = fixtures::sessions();
    rows[2].session = "serve-99999999".into();
    bench.send(UiEvent::Sessions(rows));
    assert_eq!(bench.model.selected.as_deref(), Some("serve-99999999"));
}

#[test]
fn a_sweep_changes_its_scope() {
    let mut bench = Bench::full(80, 24);
    bench.press("S");
    let effects = bench.press("a");
    let of = |session: Option<&str>| {
        let session = session.map(str::to_owned);
        Command::Sweep(SweepRequest { session, dry_run: Some(true), ..SweepRequest::default() })
    };
    assert_eq!(commands(&effects), [&of(Some(FIRST))]);
    assert_eq!(commands(&bench.press("a")), [&of(None)]);
    bench.press("<Esc>jjjjjj");
    assert_eq!(commands(&bench.press("S")), [&of(Some("shell-0000000d"))], "what is over is swept alone");
}

#[test]
fn other_errors_are_shown() {
    let mut bench = Bench::full(80, 24);
    preview(&mut bench, "x");
    let effects = bench.press("y");
    let result = Err(AppError::new(ErrorKind::Tmux, "it hangs \x1b[2J"));
    bench.send(UiEvent::Answered { ticket: ticket(&effects), result });
    assert_eq!(bench.model.context(), Context::Error);
    assert!(bench.draw().contains("it hangs \\x1b[2J"));
    bench.press("<Enter>");
    assert!(bench.model.overlays.is_empty());
    // A dry run that fails leaves no empty preview behind.
    let effects = bench.press("x");
    let result = Err(AppError::new(ErrorKind::NotFound, "no such session"));
    bench.send(UiEvent::Answered { ticket: ticket(&effects), result });
    assert!(matches!(&bench.model.overlays[..], [Overlay::Error(_)]));
}

#[test]
fn without_a_session_nothing_is_previewed() {
    for key in ["x", "X", "r"] {
        let mut bench = Bench::empty(80, 24);
        assert_eq!(bench.press(key), []);
        assert!(bench.model.overlays.is_empty());
    }
}

#[test]
fn quitting_asks_only_if_something_ends() {
    for key in ["q", "<C-c>"] {
        assert_eq!(Bench::empty(80, 24).press(key), [Effect::Quit]);
        let mut bench = Bench::full(80, 24);
        let mut rows = fixtures::sessions();
        rows.retain(|row| row.host == HostKind::Tmux);
        bench.send(UiEvent::Sessions(rows));
        assert_eq!(bench.press(key), [Effect::Quit], "tmux sessions stay");
    }
    let mut bench = Bench::full(80, 24);
    let effects = bench.press("q");
    let dry = StopRequest { session: "shell-0000000c".into(), dry_run: Some(true), ..StopRequest::default() };
    assert_eq!(commands(&effects), [&Command::Stop(dry)], "the one that runs in a pty of ours");
    assert_eq!(bench.press("<Enter>"), [], "the question was not on the screen yet");
    assert!(bench.draw().contains("These sessions end"));
    assert_eq!(bench.press("<Esc>"), []);
    assert_eq!(bench.model.context(), Context::Panes);
    bench.press("q");
    bench.draw();
    assert_eq!(bench.press("y"), [Effect::Quit]);
}

#[test]
fn a_pty_of_another_manager_does_not_end_with_us() {
    let mut bench = Bench::full(80, 24);
    let mut rows = fixtures::sessions();
    for row in &mut rows {
        row.owner = Some("4711".into());
    }
    bench.send(UiEvent::Sessions(rows));
    assert_eq!(bench.press("q"), [Effect::Quit]);
}

#[test]
fn a_stop_does_not_touch_the_panes() {
    let mut bench = Bench::full(80, 24);
    bench.press("<Tab>");
    preview(&mut bench, "x");
    bench.press("y");
    assert_eq!((bench.model.pane, bench.model.selected.as_deref()), (Pane::Screen, Some(FIRST)));
}

/// The plan of the fixtures with a second kept process.
fn two_kept() -> Receipt {
    let mut plan = fixtures::plan();
    plan.kept.push(Bystander {
        pid: pid(4410),
        start_token: Some(token(4410)),
        command: "tmux -L inner".into(),
        reason: Some("a nested tmux server".into()),
    });
    plan
}

fn chosen(raw: &[i32]) -> Vec<Choice> {
    let identity = |raw: &i32| Identity { pid: pid(*raw), token: token(*raw), pidfd_inode: None };
    raw.iter().map(|raw| Choice::Identity(identity(raw))).collect()
}

#[test]
fn kept_processes_are_ended_only_if_they_were_chosen_and_shown() {
    for (key, act) in [("x", "stop"), ("X", "stop"), ("r", "restart")] {
        let mut bench = Bench::full(140, 40);
        let effects = bench.press(key);
        answer(&mut bench, &effects, two_kept());
        assert!(bench.draw().contains("[ ] stays"));
        bench.press("j ");
        assert_eq!(bench.press("y"), [], "{key}: the choice has not been drawn yet");
        let text = bench.draw();
        assert_eq!((text.matches("[ ] stays").count(), text.matches("[x] ends").count()), (1, 1), "{text}");
        assert!(text.contains("4 processes to signal"), "{text}");
        let effects = bench.press("y");
        let (confirm, end_kept) = match commands(&effects)[..] {
            [Command::Stop(request)] if act == "stop" => (&request.confirm, &request.end_kept),
            [Command::Restart(request)] if act == "restart" => (&request.confirm, &request.end_kept),
            ref other => panic!("{key}: {other:?}"),
        };
        assert_eq!((confirm, end_kept), (&Some(shown()), &Some(chosen(&[4410]))), "{key}");
    }
}

#[test]
fn a_choice_can_be_taken_back_and_dies_with_its_preview() {
    let mut bench = Bench::full(140, 40);
    let effects = bench.press("x");
    answer(&mut bench, &effects, two_kept());
    bench.press(" j k ");
    bench.draw();
    let effects = bench.press("y");
    assert!(matches!(commands(&effects)[..], [Command::Stop(r)] if r.end_kept == Some(chosen(&[4410]))), "{effects:?}");
    let again = refuse(&mut bench, &effects, "pid 4410 is not a kept process of it");
    answer(&mut bench, &again, two_kept());
    bench.draw();
    bench.now += Duration::from_secs(1);
    let effects = bench.press("y");
    assert!(matches!(commands(&effects)[..], [Command::Stop(r)] if r.end_kept.is_none()), "{effects:?}");
}

#[test]
fn a_frame_from_before_a_choice_does_not_confirm_it() {
    let mut bench = Bench::full(140, 40);
    let effects = bench.press("x");
    answer(&mut bench, &effects, two_kept());
    let before = bench.model.shown().expect("a plan to show");
    bench.press(" ");
    bench.model.note_shown(&before, bench.now);
    assert_eq!(bench.press("y"), []);
}

#[test]
fn without_kept_processes_the_keys_scroll() {
    let mut bench = Bench::full(60, 12);
    let effects = bench.press("x");
    answer(&mut bench, &effects, Receipt { kept: Vec::new(), ..fixtures::plan() });
    bench.press("jj ");
    assert!(matches!(bench.model.overlays.last(), Some(Overlay::Preview(p)) if p.scroll == 2 && p.end_kept.is_empty()));
}

#[test]
fn a_sweep_of_all_sessions_offers_no_choice() {
    let mut bench = Bench::full(140, 40);
    let effects = bench.press("S");
    answer(&mut bench, &effects, two_kept());
    bench.press(" ");
    let text = bench.draw();
    assert!(text.contains("ssh-agent -D") && !text.contains("[ ]") && !text.contains("[x]"), "{text}");
}

/// What is over, with nothing left of it, is not stopped again: alone or among others.
#[test]
fn what_has_ended_is_not_asked_about_again() {
    let mut bench = Bench::full(140, 40);
    bench.press("/build<Enter>");
    for key in ["x", "X"] {
        assert!(bench.press(key).is_empty(), "{key}");
        assert!(bench.model.overlays.is_empty(), "{key}");
        let said = bench.model.log.notable().map(|line| line.text.clone());
        assert_eq!(said.as_deref(), Some("build has ended already: nothing is left to stop"));
    }
    assert!(bench.press(" x").is_empty(), "one that is marked");
    let Some(Overlay::Many(many)) = bench.model.overlays.last() else { panic!("no preview") };
    assert!(many.items.iter().all(|item| matches!(&item.plan, Some(Err(why)) if why.contains("ended already"))));
    bench.press("<Esc><Esc>");
    // What a stop has left alive can be stopped, and what has no manager asked about.
    let mut rows = fixtures::sessions();
    for row in rows.iter_mut().filter(|row| row.name == "build") {
        row.processes = 1;
    }
    bench.send(UiEvent::Sessions(rows));
    bench.model.marked.clear();
    assert_eq!(commands(&bench.press("x")).len(), 1);
}

#[test]
fn a_receipt_of_nobody_takes_the_place_of_none() {
    let mut bench = Bench::full(140, 40);
    let full = fixtures::clean_receipt();
    let nobody = Receipt { session: full.session.clone(), dead: Some(true), host_closed: true, ..Receipt::default() };
    for receipt in [nobody.clone(), full.clone(), Receipt { elapsed_ms: 1, ..nobody.clone() }] {
        let session = receipt.session.clone();
        bench.send(UiEvent::Happened(Event::Receipt { session, receipt: Box::new(receipt) }));
        let last = bench.model.last_receipt();
        let expected = if bench.model.receipts.len() == 1 { &nobody } else { &full };
        assert_eq!(last, Some(expected));
    }
}

/// A restart leaves the session where it stands in its group, whatever comes first: the list, or the answer.
#[test]
fn a_restart_keeps_the_place() {
    for list_first in [false, true] {
        let mut bench = Bench::full(140, 40);
        preview(&mut bench, "r");
        let effects = bench.press("y");
        let mut rows = fixtures::sessions();
        for row in rows.iter_mut().filter(|row| row.session == FIRST) {
            (row.session, row.uptime_s) = ("serve-ffffffff".into(), Some(0.1));
        }
        let without = rows.iter().filter(|row| row.session != "serve-ffffffff").cloned().collect();
        bench.send(UiEvent::Sessions(without));
        if list_first {
            bench.send(UiEvent::Sessions(rows.clone()));
            assert_eq!(bench.model.sessions.position("serve-ffffffff"), Some(0));
        }
        let launched = Launched {
            session: "serve-ffffffff".into(),
            host: HostKind::Tmux,
            pid: 9000,
            start_token: token(9000),
            tmux: None,
            notes: Vec::new(),
        };
        bench.answer(&effects, Answer::Restarted { receipt: Box::new(fixtures::clean_receipt()), launched });
        bench.send(UiEvent::Sessions(rows));
        assert_eq!(bench.model.sessions.position("serve-ffffffff"), Some(0), "{list_first}");
    }
}
