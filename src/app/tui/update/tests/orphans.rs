//! Orphans in their group of the list: reaped, adopted, given more time.

use std::time::Duration;

use crossterm::event::Event as Input;

use super::commands;
use crate::app::command::{Adopted, Answer, Command, Orphan, Orphans, OrphansRequest};
use crate::app::contract::Phase;
use crate::app::error::{AppError, ErrorKind};
use crate::app::event::Event;
use crate::app::tui::fixtures::{self, Bench, pid, ticket, token};
use crate::app::tui::keymap::Context;
use crate::app::tui::model::{Group, ListLine, Overlay, Totals};
use crate::app::tui::seam::{Effect, UiEvent};
use crate::app::tui::view::list_lines;
use crate::lifecycle::identity::Identity;
use crate::lifecycle::receipt::Receipt;

const ORPHAN: &str = "serve-00000003";

/// The list with one orphan and one record that is left alone; the orphan is selected.
fn bench() -> Bench {
    let mut bench = Bench::full(140, 40);
    bench.send(UiEvent::Orphans(Box::new(fixtures::orphans_in_the_list())));
    bench.press("G");
    assert_eq!(bench.model.selected.as_deref(), Some(ORPHAN));
    bench
}

fn reap(session: Option<&str>, confirm: Option<Vec<Identity>>) -> Command {
    Command::Orphans(OrphansRequest {
        reap: Some(true),
        session: session.map(str::to_owned),
        dry_run: confirm.is_none().then_some(true),
        confirm,
        ..OrphansRequest::default()
    })
}

fn planned() -> Answer {
    Answer::Orphans(Box::new(Orphans { swept: vec![fixtures::plan()], ..fixtures::orphans_in_the_list() }))
}

#[test]
fn orphans_leave_their_kind_and_come_back() {
    let mut bench = bench();
    let shown = |bench: &Bench| {
        let lines = list_lines(&bench.model);
        let orphans =
            lines.iter().position(|line| matches!(line, ListLine::Heading(Group::Orphans, Totals { count: 2, .. })));
        let session = lines.iter().position(|line| matches!(line, ListLine::Session(row) if row.session == ORPHAN));
        (
            orphans,
            session,
            lines.iter().filter(|line| matches!(line, ListLine::Record(_) | ListLine::Reason(_))).count(),
        )
    };
    let (Some(heading), Some(session), 2) = shown(&bench) else { panic!("{:?}", list_lines(&bench.model)) };
    assert_eq!(session, heading + 1);
    let text = bench.draw();
    assert!(text.contains("1d – – owned: survived KILL"), "{text}");
    assert!(text.contains("left alone: x.json") && text.contains("schema 9 is newer"), "{text}");
    // The keys go through the list as it is shown.
    bench.press("k");
    assert_eq!(bench.model.selected.as_deref(), Some("cookbook-000000e0"));
    bench.send(UiEvent::Orphans(Box::new(Orphans {
        orphans: Vec::new(),
        quarantined: Vec::new(),
        ..fixtures::orphans()
    })));
    assert!(matches!(shown(&bench), (None, Some(_), 0)));
    assert_eq!(bench.model.sessions.rows()[2].session, ORPHAN);
}

#[test]
fn a_reaping_is_previewed_and_signals_whom_it_showed() {
    let mut bench = bench();
    let effects = bench.press("O");
    assert_eq!(commands(&effects), [&reap(Some(ORPHAN), None)]);
    bench.answer(&effects, planned());
    assert_eq!(bench.press("y"), [], "it was not on the screen yet");
    assert!(bench.draw().contains("Reap: "));
    let shown = [4242, 4301, 4303].map(|raw| Identity { pid: pid(raw), token: token(raw), pidfd_inode: None });
    let effects = bench.press("y");
    assert_eq!(commands(&effects), [&reap(Some(ORPHAN), Some(shown.to_vec()))]);
    let swept = vec![fixtures::bad_receipt()];
    bench.answer(&effects, Answer::Orphans(Box::new(Orphans { swept, ..fixtures::orphans() })));
    assert_eq!(bench.model.context(), Context::Reader, "a receipt that is not clean is read");
}

#[test]
fn the_reaping_of_one_plays_out_and_ends_in_its_receipt() {
    let mut bench = bench();
    let asked = bench.press("O");
    let plan = Receipt { grace_s: Some(2.0), session: ORPHAN.into(), ..fixtures::plan() };
    let planned = Orphans { swept: vec![plan], ..fixtures::orphans_in_the_list() };
    bench.answer(&asked, Answer::Orphans(Box::new(planned)));
    bench.draw();
    let asked = bench.press("y");
    bench.send(UiEvent::Happened(Event::Signal { session: ORPHAN.into(), pid: 4242, signal: "TERM".into() }));
    bench.now += Duration::from_millis(400);
    bench.send(UiEvent::Tick);
    let text = bench.draw();
    assert!(text.contains("KILL in 2 s") && text.contains("H holds it"), "{text}");
    let receipt = Receipt { session: ORPHAN.into(), ..fixtures::clean_receipt() };
    let swept = Orphans { swept: vec![receipt], ..fixtures::orphans_in_the_list() };
    bench.answer(&asked, Answer::Orphans(Box::new(swept)));
    assert!(bench.draw().contains("Receipt: "), "{}", bench.draw());
}

#[test]
fn without_an_orphan_selected_all_are_previewed() {
    let mut bench = bench();
    bench.press("g");
    let effects = bench.press("O");
    assert_eq!(commands(&effects), [&reap(None, None)]);
    bench.answer(&effects, Answer::Orphans(Box::new(fixtures::orphans_in_the_list())));
    let text = bench.draw();
    assert!(text.contains("Nothing to signal") && text.contains("x.json is left alone: schema 9 is newer"), "{text}");
    let effects = bench.press("y");
    assert_eq!(commands(&effects), [&reap(None, Some(Vec::new()))]);
    bench.answer(&effects, Answer::Orphans(Box::new(fixtures::orphans())));
    assert!(bench.model.log.notable().is_some_and(|line| line.text.contains("nobody was signalled")));
    // From one to all and back.
    bench.press("G");
    bench.press("O");
    assert_eq!(commands(&bench.press("a")), [&reap(None, None)]);
    assert_eq!(commands(&bench.press("a")), [&reap(Some(ORPHAN), None)]);
}

#[test]
fn an_adoption_says_what_it_did() {
    for (adopted, word) in [(true, "is adopted: "), (false, "is not adopted: ")] {
        let mut bench = bench();
        let effects = bench.press("A");
        let expected = OrphansRequest { adopt: Some(true), session: Some(ORPHAN.into()), ..OrphansRequest::default() };
        assert_eq!(commands(&effects), [&Command::Orphans(expected)]);
        let row = Adopted { session: ORPHAN.into(), adopted, reason: "because \x1b[2J".into() };
        bench.answer(&effects, Answer::Orphans(Box::new(Orphans { adopted: vec![row], ..fixtures::orphans() })));
        let line = bench.model.log.notable().map(|line| line.text.clone()).unwrap_or_default();
        assert!(line.contains(word) && line.ends_with("because \\x1b[2J"), "{line}");
    }
    let mut bench = bench();
    let effects = bench.press("A");
    let error = AppError::new(ErrorKind::NotFound, "no such session");
    bench.send(UiEvent::Answered { ticket: ticket(&effects), result: Err(error) });
    assert_eq!(bench.model.context(), Context::Error);
    assert!(matches!(commands(&Bench::empty(80, 24).press("A"))[..], [Command::TmuxSessions {}]), "there is no orphan");
}

fn extended(effects: &[Effect]) -> Option<f64> {
    let seconds =
        |command: &Command| if let Command::Extend { ceiling_s, .. } = command { Some(*ceiling_s) } else { None };
    commands(effects).into_iter().find_map(seconds)
}

#[test]
fn more_time_is_asked_for() {
    for (keys, seconds) in [
        ("<Enter>", Some(2_592_000.0)),
        ("<C-u>12h<Enter>", Some(43_200.0)),
        ("<C-u>2<Enter>", Some(7_200.0)),
        ("<C-u>soon<Enter>", None),
        ("<C-u><Enter>", None),
        ("<Esc><Enter>", None),
    ] {
        let mut bench = bench();
        bench.press("+");
        assert_eq!(bench.model.context(), Context::Ask);
        assert_eq!(extended(&bench.press(keys)), seconds, "{keys}");
    }
    let mut bench = bench();
    bench.press("+<C-u>");
    bench.send(UiEvent::Input(Input::Paste("7d\n".into())));
    let effects = bench.press("<Enter>");
    assert_eq!(extended(&effects), Some(604_800.0));
    bench.answer(&effects, Answer::Extended(1e9));
    assert!(bench.model.log.notable().is_some_and(|line| line.text.contains("for another 7d")));
    bench.press("+<C-u>x<Enter>");
    assert!(matches!(bench.model.overlays.last(), Some(Overlay::Ask(ask)) if ask.note.is_some()));
    assert!(bench.draw().contains("give a number above 0"));
}

#[test]
fn the_footer_offers_reaping_where_an_orphan_is_selected() {
    let mut bench = bench();
    let footer = |bench: &mut Bench| bench.draw().lines().last().unwrap_or_default().to_owned();
    assert!(footer(&mut bench).contains("O reap  A adopt"), "{}", footer(&mut bench));
    bench.press("g");
    assert!(!footer(&mut bench).contains("reap"), "{}", footer(&mut bench));
}

/// Of a session that was stopped only what was left alive on purpose lives: it does not end with us, and its title says so.
#[test]
fn what_was_left_alive_on_purpose_does_not_end_with_us() {
    let mut bench = Bench::full(140, 40);
    let mut rows = fixtures::sessions();
    rows.retain(|row| row.name == "build");
    (rows[0].phase, rows[0].signal, rows[0].exit_code) = (Phase::Exited, Some("HUP".into()), None);
    (rows[0].detail, rows[0].processes) = (Some("an ssh agent".into()), 1);
    bench.send(UiEvent::Sessions(rows.clone()));
    let mut left = fixtures::process(4400, 1, "ssh-agent -D");
    left.kept = Some("an ssh agent".into());
    let orphan = Orphan { row: rows[0].clone(), age_s: 9.0, reason: "left".into(), left: vec![left], last: None };
    let mut orphans = fixtures::orphans();
    orphans.orphans = vec![orphan];
    bench.send(UiEvent::Orphans(Box::new(orphans.clone())));
    bench.model.selected = Some(rows[0].session.clone());
    bench.look();
    let text = bench.draw();
    assert!(text.contains("build  stopped; an ssh agent was left alive"), "{text}");
    bench.send(UiEvent::ScreenChanged);
    assert_eq!(bench.press("q"), [Effect::Quit], "nothing ends");
    // Where somebody else is left as well, its plan says whether anybody ends.
    orphans.orphans[0].left.push(fixtures::process(4401, 1, "sleep 9"));
    bench.send(UiEvent::Orphans(Box::new(orphans)));
    let effects = bench.press("q");
    assert!(bench.draw().contains("These sessions end"));
    bench.answer(&effects, Answer::Receipt(Box::new(Receipt { plan: Some(Vec::new()), ..Receipt::default() })));
    let text = bench.draw();
    assert!(text.contains("Nothing ends") && !text.contains("These sessions end"), "{text}");
    // A stop of this run has said that all of it is dead.
    bench.press("<Esc>");
    rows[0].detail = Some("stopped; pid 4400 was left alive: an ssh agent".into());
    bench.send(UiEvent::Sessions(rows));
    assert_eq!(bench.press("q"), [Effect::Quit]);
}
