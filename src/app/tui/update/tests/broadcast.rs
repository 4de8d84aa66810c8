//! What is typed goes to many: only while the terminal has the keys, and never unseen.

use super::super::super::seam::{Effect, Typed, UiEvent};
use crate::app::contract::Phase;
use crate::app::tui::fixtures::{self, Bench};
use crate::app::tui::keymap::Context;

/// Marks the second and the third session, and broadcasts from the first.
fn broadcasting(cols: u16, rows: u16) -> Bench {
    let mut bench = Bench::full(cols, rows);
    bench.press("j  g");
    bench.look();
    bench.press("B");
    bench
}

/// Returns who got something typed.
fn typed_into(effects: &[Effect]) -> Vec<&str> {
    effects
        .iter()
        .filter_map(|effect| {
            if let Effect::Input { session, .. } | Effect::Paste { session, .. } | Effect::Broadcast { session, .. } =
                effect
            {
                Some(session.as_str())
            } else {
                None
            }
        })
        .collect()
}

#[test]
fn keys_and_pastes_go_to_the_selected_and_the_marked() {
    let mut bench = broadcasting(140, 40);
    assert_eq!((bench.model.context(), bench.model.broadcast), (Context::Terminal, true));
    let all = ["serve-1a2b3c4d", "serve-00000002", "serve-00000003"];
    let effects = bench.press("x");
    assert_eq!(typed_into(&effects), all);
    assert!(matches!(&effects[1], Effect::Broadcast { typed: Typed::Key(_), .. }), "{effects:?}");
    let effects = bench.send(UiEvent::Input(crossterm::event::Event::Paste("ls\n".to_owned())));
    assert_eq!(typed_into(&effects), all);
    assert!(matches!(&effects[1], Effect::Broadcast { typed: Typed::Paste(text), .. } if text == "ls\n"));
}

/// What is typed before the terminal is there waits, and goes to all of them.
#[test]
fn it_waits_for_the_terminal_with_what_is_typed() {
    let mut bench = Bench::full(140, 40);
    bench.press("j  g");
    bench.model.observe(None);
    assert_eq!(typed_into(&bench.press("Bx")), [""; 0]);
    assert!(!bench.model.broadcast && bench.draw().contains("then goes to all that are marked"), "{}", bench.draw());
    bench.look();
    let all = ["serve-1a2b3c4d", "serve-00000002", "serve-00000003"];
    assert_eq!(typed_into(&bench.send(UiEvent::Tick)), all);
    assert!(bench.model.broadcast && bench.model.focused);
    assert!(bench.draw().contains("what is typed goes to 3 sessions"), "{}", bench.draw());
    assert_eq!(typed_into(&bench.press("y")), all);
}

#[test]
fn it_is_off_by_default_and_needs_marks() {
    let mut bench = Bench::full(140, 40);
    bench.press("<Enter>");
    assert_eq!(typed_into(&bench.press("x")), ["serve-1a2b3c4d"]);
    let mut bench = Bench::full(140, 40);
    bench.press("B");
    assert_eq!((bench.model.context(), bench.model.broadcast), (Context::Panes, false));
    assert!(bench.draw().contains("mark the sessions to type into first (Space)"), "{}", bench.draw());
    // What is missing is said: others, or others that run.
    bench.press(" gB");
    assert!(bench.draw().contains("only this session is marked: mark the others"), "{}", bench.draw());
    let over = bench.model.sessions.rows().iter().find(|row| row.phase.is_over()).map(|row| row.session.clone());
    bench.model.marked.extend(over);
    bench.press("B");
    assert!(bench.draw().contains("none of the others that are marked runs"), "{}", bench.draw());
}

#[test]
fn it_is_loud_at_every_size() {
    for (cols, rows) in [(200, 60), (140, 40), (80, 24), (60, 15), (40, 10), (24, 5)] {
        let mut bench = broadcasting(cols, rows);
        let text = bench.draw();
        assert!(text.lines().last().is_some_and(|footer| footer.contains("BROADCAST to 3")), "{text}");
    }
    let mut bench = broadcasting(140, 40);
    let text = bench.draw();
    assert_eq!(text.matches("BROADCAST to 3").count(), 2, "in the title, too: {text}");
    assert!(text.contains('┃'), "{text}");
}

#[test]
fn it_ends_with_the_focus_and_says_so() {
    let over = |bench: &mut Bench| {
        let mut rows = fixtures::sessions();
        for row in &mut rows {
            row.phase = Phase::Exited;
        }
        bench.send(UiEvent::Sessions(rows));
    };
    let ways: [&dyn Fn(&mut Bench); 2] = [&|bench| drop(bench.press("<C-\\>")), &over];
    for leave in ways {
        let mut bench = broadcasting(140, 40);
        leave(&mut bench);
        assert_eq!((bench.model.focused, bench.model.broadcast), (false, false));
        assert!(bench.draw().contains("the broadcast has ended"), "{}", bench.draw());
    }
    let mut bench = broadcasting(140, 40);
    bench.press("<C-\\>");
    bench.press("<Enter>");
    assert_eq!(typed_into(&bench.press("x")), ["serve-1a2b3c4d"], "it does not come back by itself");
}

#[test]
fn who_has_ended_gets_nothing() {
    let mut bench = broadcasting(140, 40);
    let mut rows = fixtures::sessions();
    for row in rows.iter_mut().filter(|row| row.session == "serve-00000002") {
        row.phase = Phase::Failed;
    }
    bench.send(UiEvent::Sessions(rows));
    assert_eq!(typed_into(&bench.press("x")), ["serve-1a2b3c4d", "serve-00000003"]);
    assert!(bench.draw().contains("BROADCAST to 2"));
}
