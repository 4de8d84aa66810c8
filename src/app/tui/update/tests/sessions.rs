//! What the runtime says about sessions.

use std::time::Duration;

use crossterm::event::Event as Input;

use super::super::super::seam::{Effect, UiEvent};
use super::commands;
use crate::app::attention::{Attention, Want};
use crate::app::command::{Answer, Command};
use crate::app::contract::{HostKind, Kind, Phase, Tree};
use crate::app::error::{AppError, ErrorKind};
use crate::app::event::Event;
use crate::app::tui::fixtures::{self, Bench, ticket};
use crate::app::tui::model::{Group, ListLine, Pane};
use crate::app::tui::view::list_lines;
use crate::app::why::Why;
use crate::lifecycle::verdict::VerdictKind;

fn order(bench: &Bench) -> Vec<&str> {
    bench.model.sessions.rows().iter().map(|row| row.session.as_str()).collect()
}

#[test]
fn sessions_stand_by_kind_then_by_launch_and_stay_there() {
    let mut bench = Bench::full(140, 40);
    let expected = [
        "serve-1a2b3c4d",
        "serve-00000002",
        "serve-00000003",
        "agent-0000000a",
        "agent-0000000b",
        "shell-0000000c",
        "shell-0000000d",
        "cookbook-000000e0",
    ];
    assert_eq!(order(&bench), expected);
    let mut rows = fixtures::sessions();
    rows.reverse();
    for row in &mut rows {
        row.uptime_s = row.uptime_s.map(|uptime| 1e6 - uptime);
    }
    bench.send(UiEvent::Sessions(rows.clone()));
    assert_eq!(order(&bench), expected, "whatever they say about their age later");
    rows.push(fixtures::session("agent-000000ff", "new", Kind::Agent, HostKind::Tmux, Phase::Starting));
    bench.send(UiEvent::Sessions(rows));
    assert_eq!(order(&bench)[5], "agent-000000ff", "a new one comes behind its kind");
}

#[test]
fn the_selection_follows_the_session_and_then_its_place() {
    let mut bench = Bench::full(140, 40);
    bench.press("jjj");
    let mut rows = fixtures::sessions();
    rows.retain(|row| row.kind != Kind::Serve);
    assert_eq!(bench.send(UiEvent::Sessions(rows.clone())), [], "the same session is selected");
    assert_eq!(bench.model.selected.as_deref(), Some("agent-0000000a"));
    rows.retain(|row| row.session != "agent-0000000a");
    let effects = bench.send(UiEvent::Sessions(rows));
    assert!(effects.contains(&Effect::Select(Some("agent-0000000b".into()))), "{effects:?}");
    let effects = bench.send(UiEvent::Sessions(Vec::new()));
    assert_eq!(effects, [Effect::Select(None)]);
    assert_eq!((bench.model.selected.as_deref(), bench.model.pane), (None, Pane::List));
}

#[test]
fn the_focus_ends_with_its_session() {
    let mut bench = Bench::full(140, 40);
    bench.press("<Enter>");
    let mut rows = fixtures::sessions();
    rows.retain(|row| row.session != "serve-1a2b3c4d");
    bench.send(UiEvent::Sessions(rows));
    assert!(!bench.model.focused, "keys must not go to whatever takes its place");
}

#[test]
fn what_is_typed_into_a_terminal_that_goes_away_becomes_no_command() {
    for ended in [true, false] {
        let mut bench = Bench::full(140, 40);
        bench.press("<Enter>");
        let mut rows = fixtures::sessions();
        if ended {
            rows[2].phase = Phase::Exited;
        } else {
            rows.clear();
        }
        bench.send(UiEvent::Sessions(rows));
        assert!(!bench.model.focused);
        assert_eq!(bench.press("qx"), []);
        bench.now += Duration::from_millis(500);
        assert_eq!(bench.press("q"), [], "still typing");
        bench.now += Duration::from_millis(601);
        assert_ne!(bench.press("q"), [], "{ended}");
    }
    // Who leaves by hand is heard at once.
    let mut bench = Bench::full(140, 40);
    assert_eq!(bench.press("<Enter><C-\\>R"), [Effect::Redraw]);
}

#[test]
fn trees_of_other_sessions_are_not_shown() {
    let mut bench = Bench::full(140, 40);
    let before = bench.model.tree.lines().len();
    bench.send(UiEvent::Tree { session: "serve-00000002".into(), tree: Tree::default() });
    assert_eq!(bench.model.tree.lines().len(), before);
    bench.press("j");
    assert_eq!(bench.model.tree.lines().len(), 0, "and an old tree not below a new name");
}

#[test]
fn a_process_that_went_is_dim_for_a_moment() {
    let mut bench = Bench::full(140, 60);
    let session = || "serve-1a2b3c4d".to_owned();
    bench.send(UiEvent::Happened(Event::ProcessGone { session: session(), pid: 4303, command: "w".into() }));
    let mut tree = fixtures::tree();
    tree.processes.retain(|row| row.pid.raw() != 4303);
    bench.send(UiEvent::Tree { session: session(), tree });
    assert!(bench.draw().contains("4303"));
    let Some(deadline) = bench.model.deadline() else { panic!("nothing is waited for") };
    bench.now = deadline;
    bench.send(UiEvent::Tick);
    assert!(!bench.draw().contains("4303"));
    assert_eq!(bench.model.deadline(), None);
}

#[test]
fn attention_lasts_until_the_session_is_selected() {
    let mut bench = Bench::full(140, 40);
    assert!(bench.model.attention.contains_key("agent-0000000a"));
    bench.press("jjj");
    assert!(bench.model.attention.is_empty());
}

#[test]
fn what_asks_is_marked_with_a_word_until_it_is_answered() {
    let mut bench = Bench::full(140, 40);
    let mut rows = fixtures::sessions();
    let asks = |state: Want| Attention { state, message: None, since_s: 1.0, verified: true, guess: state.is_guess() };
    for (state, word) in [
        (Want::Waiting, "! waiting"),
        (Want::Done, "! done"),
        (Want::Bell, "! bell (guess)"),
        (Want::Busy, "! busy (guess)"),
    ] {
        let row = rows.iter_mut().find(|row| row.phase == Phase::Running).expect("one that runs");
        row.attention = Some(asks(state));
        bench.send(UiEvent::Sessions(rows.clone()));
        assert!(bench.draw().contains(word), "{word}: {}", bench.draw());
    }
    let row = rows.iter_mut().find(|row| row.phase == Phase::Running).expect("one that runs");
    row.attention = Some(Attention { guess: true, ..asks(Want::Waiting) });
    bench.send(UiEvent::Sessions(rows.clone()));
    assert!(bench.draw().contains("! asks (guess)"), "{}", bench.draw());
    for row in &mut rows {
        row.attention = None;
    }
    bench.send(UiEvent::Sessions(rows));
    assert!(!bench.draw().contains("! asks"), "{}", bench.draw());
}

#[test]
fn somebody_who_looks_elsewhere_is_told() {
    let mut bench = Bench::full(140, 40);
    let asks = || {
        let reason = "waiting: \x1b]0;its own words".to_owned();
        UiEvent::Happened(Event::Attention { session: "serve-1a2b3c4d".into(), reason, state: Some(Want::Waiting) })
    };
    let said = |effects: Vec<Effect>| {
        effects.into_iter().filter(|effect| matches!(effect, Effect::Notify(_))).collect::<Vec<_>>()
    };
    let silent: Vec<Effect> = Vec::new();
    assert_eq!(said(bench.send(asks())), silent, "they look here");
    bench.send(UiEvent::Input(Input::FocusLost));
    assert_eq!(said(bench.send(asks())), [Effect::Notify("qwen-coder-32b: waiting".into())]);
    // Not in bursts; and what waits is not lost, the guesses among it told as such.
    assert_eq!(said(bench.send(asks())), silent);
    let guess = Event::Attention {
        session: "serve-00000002".into(),
        reason: "prompt (a guess): Continue?".into(),
        state: Some(Want::Waiting),
    };
    assert_eq!(said(bench.send(UiEvent::Happened(guess))), silent);
    assert!(bench.model.deadline().is_some_and(|at| at <= bench.now + Duration::from_secs(2)));
    bench.now += Duration::from_secs(3);
    let name = bench.model.sessions.by_id("serve-00000002").map(|row| row.name.clone()).unwrap_or_default();
    let all = format!("qwen-coder-32b: waiting, {name}: prompt (a guess)");
    assert_eq!(said(bench.send(UiEvent::Tick)), [Effect::Notify(all)]);
    bench.now += Duration::from_secs(3);
    assert_eq!(said(bench.send(UiEvent::Tick)), silent, "once");
    bench.send(UiEvent::Input(Input::FocusGained));
    assert_eq!(said(bench.send(asks())), silent, "they are back");
}

#[test]
fn events_become_words_and_the_noisy_ones_stay_in_the_log() {
    let session = || "serve-1a2b3c4d".to_owned();
    let cases = [
        (
            Event::Launched {
                session: session(),
                name: "n\x1b".into(),
                kind: Kind::Agent,
                host: HostKind::Pty,
                pid: 7,
                attempt: None,
            },
            "n\\x1b launched: agent in pty, pid 7",
            true,
        ),
        (
            Event::Phase { session: session(), phase: Phase::Failed, detail: Some("port in use".into()) },
            "qwen-coder-32b failed: port in use",
            true,
        ),
        (
            Event::Verdict { session: session(), pid: 9, verdict: VerdictKind::Foreign, reason: "reused".into() },
            "qwen-coder-32b: 9 is foreign: reused",
            true,
        ),
        (
            Event::ProcessNew { session: session(), pid: 9, command: "a\nb".into() },
            "qwen-coder-32b: new 9 a\\nb",
            false,
        ),
        (Event::ProcessGone { session: session(), pid: 9, command: "ab".into() }, "qwen-coder-32b: gone 9 ab", false),
        (Event::Signal { session: session(), pid: 9, signal: "TERM".into() }, "qwen-coder-32b: TERM to 9", false),
        (Event::Survivor { session: session(), pid: 9, reason: "D".into() }, "qwen-coder-32b: 9 survived: D", true),
        (
            Event::Exited { session: session(), exit_code: Some(0), signal: None, attempt: None },
            "qwen-coder-32b exited with 0",
            true,
        ),
        (
            Event::Exited { session: session(), exit_code: Some(3), signal: None, attempt: None },
            "qwen-coder-32b exited with 3",
            true,
        ),
        (
            Event::Exited { session: session(), exit_code: None, signal: Some("KILL".into()), attempt: None },
            "qwen-coder-32b was ended by KILL",
            true,
        ),
        (
            Event::Exited { session: session(), exit_code: Some(3), signal: None, attempt: Some(2) },
            "qwen-coder-32b exited with 3; restart 2 follows",
            true,
        ),
        (
            Event::Launched {
                session: session(),
                name: "n".into(),
                kind: Kind::Serve,
                host: HostKind::Pty,
                pid: 8,
                attempt: Some(2),
            },
            "n runs again: restart 2, pid 8",
            true,
        ),
        (
            Event::Attention { session: "gone-1".into(), reason: "asks".into(), state: None },
            "gone-1 wants you: asks",
            true,
        ),
        (
            Event::Cookbook { problem: Some("there is no x".into()) },
            "Cookbook's tasks cannot be read: there is no x",
            true,
        ),
        (Event::Cookbook { problem: None }, "Cookbook's tasks can be read again", true),
        (Event::Lagged { missed: 3 }, "3 events were missed", true),
        (
            Event::Receipt { session: session(), receipt: Box::new(fixtures::clean_receipt()) },
            "qwen-coder-32b has ended: 2 dead (0.2 s)",
            true,
        ),
    ];
    for (event, text, notable) in cases {
        let mut bench = Bench::full(140, 40);
        bench.send(UiEvent::Happened(event));
        let line = bench.model.log.lines().next_back().map(|line| (line.text.as_str(), line.notable));
        assert_eq!(line, Some((text, notable)));
    }
}

#[test]
fn the_log_is_bounded() {
    let mut bench = Bench::empty(80, 24);
    for n in 0..5_000 {
        bench.send(UiEvent::Note(format!("note {n}")));
    }
    assert_eq!(bench.model.log.lines().count(), 1_000);
}

#[test]
fn processes_that_come_and_go_push_no_receipt_out_of_the_log() {
    let mut bench = Bench::full(80, 24);
    let session = || "serve-1a2b3c4d".to_owned();
    let receipt = Box::new(fixtures::clean_receipt());
    bench.send(UiEvent::Happened(Event::Receipt { session: session(), receipt }));
    for pid in 0..5_000 {
        let command = "worker".into();
        bench.send(UiEvent::Happened(Event::ProcessNew { session: session(), pid, command }));
    }
    let log = &bench.model.log;
    let told = log.lines().filter(|line| line.notable).count();
    assert_eq!(log.lines().count(), 1_000 + told);
    let receipts = log.lines().filter(|line| line.text.contains("has ended")).count();
    assert_eq!(receipts, 1, "{:?}", log.lines().next());
    assert_eq!(log.lines().next_back().map(|line| line.text.as_str()), Some("qwen-coder-32b: new 4999 worker"));
}

#[test]
fn the_end_is_asked_for_from_outside() {
    for event in [UiEvent::Hangup, UiEvent::Terminate] {
        assert_eq!(Bench::full(80, 24).send(event), [Effect::Quit]);
    }
}

#[test]
fn whoever_could_not_be_bound_is_in_the_tree_with_the_reason() {
    let mut bench = Bench::full(140, 40);
    let mut unbound = fixtures::process(7007, 0, "");
    (unbound.start_token, unbound.verdict) = (None, VerdictKind::Unverifiable);
    unbound.reason = "stat is not readable (hidepid)".into();
    (unbound.membership, unbound.state) = (Vec::new(), "?".into());
    (unbound.cpu_pct, unbound.rss_bytes, unbound.threads) = (None, None, None);
    let tree = Tree { processes: vec![fixtures::process(4242, 4241, "server"), unbound], ..Tree::default() };
    bench.send(UiEvent::Tree { session: "serve-1a2b3c4d".into(), tree });
    bench.press("<Tab><Tab>G");
    let text = bench.draw();
    let row = text.lines().find(|line| line.contains("7007") && line.contains("? unverifiable"));
    assert!(row.is_some_and(|row| row.contains(" –     –")), "unknown, never 0\n{text}");
    assert!(text.contains("7007 stat is not readable (hidepid)"), "{text}");
}

#[test]
fn adopted_sessions_stand_together_and_every_group_folds() {
    let mut bench = Bench::full(140, 40);
    let mut rows = fixtures::sessions();
    let adopted = rows.iter_mut().find(|row| row.kind == Kind::Serve).expect("a fixture");
    adopted.adopted = true;
    let id = adopted.session.clone();
    bench.send(UiEvent::Sessions(rows));
    bench.send(UiEvent::Orphans(Box::new(fixtures::orphans_in_the_list())));
    let groups = |bench: &Bench| -> Vec<(Group, usize, bool)> {
        let lines = list_lines(&bench.model);
        let heading = |line: &ListLine<'_>| match line {
            ListLine::Heading(group, totals) => Some((*group, totals.count, totals.folded)),
            ListLine::Gap
            | ListLine::Session(_)
            | ListLine::Orphan(..)
            | ListLine::Stranger(_)
            | ListLine::Record(_)
            | ListLine::Reason(_) => None,
        };
        lines.iter().filter_map(heading).collect()
    };
    let before = groups(&bench);
    assert!(before.contains(&(Group::Adopted, 1, false)), "{before:?}");
    assert!(before.is_sorted_by_key(|(group, ..)| *group), "{before:?}");
    bench.press("G");
    assert!(bench.model.sessions.is_orphan(bench.model.selected.as_deref().unwrap_or_default()), "the last one");
    bench.press("-");
    while bench.model.selected.as_ref() != Some(&id) {
        bench.press("k");
    }
    bench.press("-");
    let after = groups(&bench);
    let folded: Vec<Group> = after.iter().filter(|(.., folded)| *folded).map(|(group, ..)| *group).collect();
    assert_eq!(folded, [Group::Adopted, Group::Orphans]);
    assert_eq!(after.len(), before.len());
    let shown = list_lines(&bench.model)
        .iter()
        .filter(|line| matches!(line, ListLine::Orphan(..) | ListLine::Record(_)))
        .count();
    assert_eq!(shown, 0);
    bench.press("-");
    assert_eq!(groups(&bench).iter().filter(|(.., folded)| *folded).count(), 1);
}

/// What happens to a session may be heard of before it is listed; it is named all the same, as soon as it is.
#[test]
fn who_is_listed_later_is_named_then() {
    let mut bench = Bench::full(140, 40);
    let newest = |bench: &Bench| bench.model.log.lines().next_back().map(|line| line.text.clone()).unwrap_or_default();
    let session = "shell-000000aa".to_owned();
    bench.send(UiEvent::Happened(Event::Phase { session: session.clone(), phase: Phase::Running, detail: None }));
    assert_eq!(newest(&bench), "shell-000000aa is running");
    let mut rows = fixtures::sessions();
    bench.send(UiEvent::Sessions(rows.clone()));
    assert_eq!(newest(&bench), "shell-000000aa is running");
    rows[0].session = session;
    rows[0].name = "my\u{1b}shell".into();
    bench.send(UiEvent::Sessions(rows));
    assert_eq!(newest(&bench), "my\\x1bshell is running");
}

#[test]
fn a_process_that_has_just_come_says_so_for_a_moment() {
    let mut bench = Bench::full(140, 40);
    let mut tree = fixtures::tree();
    tree.processes.push(fixtures::process(4950, 4242, "sleep 9"));
    assert!(!bench.draw().contains(" new "));
    bench.send(UiEvent::Tree { session: "serve-1a2b3c4d".into(), tree });
    let text = bench.draw();
    assert!(text.contains("new sleep 9"), "{text}");
    bench.now += Duration::from_secs(3);
    bench.send(UiEvent::Tick);
    let text = bench.draw();
    assert!(text.contains("sleep 9") && !text.contains(" new "), "{text}");
}

/// The panel about a process follows it, also to its end, and asks once at a time.
#[test]
fn what_decides_about_a_process_is_asked_again_while_it_is_read() {
    let mut bench = Bench::full(140, 40);
    bench.press("<Tab><Tab>");
    let asked = bench.press("w");
    let why = fixtures::why();
    bench.answer(&asked, Answer::Why(Box::new(why.clone())));
    let look = |bench: &mut Bench| bench.send(UiEvent::Tree { session: why.session.clone(), tree: fixtures::tree() });
    let again = look(&mut bench);
    assert_eq!(commands(&again), [&Command::Why { session: why.session.clone(), pid: why.pid }]);
    assert_eq!(commands(&look(&mut bench)).len(), 0, "one at a time");
    bench
        .answer(&again, Answer::Why(Box::new(Why { on_stop: "never signalled: it is another".into(), ..why.clone() })));
    assert!(bench.draw().contains("never signalled: it is another"));
    let again = look(&mut bench);
    let gone = Err(AppError::new(ErrorKind::NotFound, "no such process"));
    bench.send(UiEvent::Answered { ticket: ticket(&again), result: gone });
    let text = bench.draw();
    assert!(text.contains("it has ended") && text.contains("gone"), "{text}");
    bench.press("<Esc>");
    assert_eq!(commands(&look(&mut bench)).len(), 0, "nobody reads it");
}
