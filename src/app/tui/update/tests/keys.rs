//! Keys on the panes and in a session's terminal.

use std::time::Duration;

use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::commands;
use crate::app::command::{Answer, Command, OrphansRequest, ScreenText};
use crate::app::contract::Phase;
use crate::app::tui::fixtures::{self, Bench};
use crate::app::tui::keymap::{BINDINGS, Context, Keymap};
use crate::app::tui::model::{Overlay, Pane};
use crate::app::tui::seam::{Effect, Entered, UiEvent};
use crate::app::tui::view::layout::layout;

const FIRST: &str = "serve-1a2b3c4d";

fn typed(effects: &[Effect]) -> String {
    let mut text = String::new();
    for effect in effects {
        if let Effect::Input { session, bytes } = effect {
            assert_eq!(session, FIRST);
            text.push_str(&bytes.escape_ascii().to_string());
        } else if let Effect::Paste { session, paste } = effect {
            assert_eq!(session, FIRST);
            text.push_str(&Entered::Paste(paste.clone()).bytes().escape_ascii().to_string());
        }
    }
    text
}

#[test]
fn moving_keys_move_the_selection() {
    for (keys, expected) in [
        ("", FIRST),
        ("j", "serve-00000002"),
        ("<Down>", "serve-00000002"),
        ("jj", "serve-00000003"),
        ("jk", FIRST),
        ("j<Up>", FIRST),
        ("k", FIRST),
        ("G", "cookbook-000000e0"),
        ("<End>", "cookbook-000000e0"),
        ("Gg", FIRST),
        ("G<Home>", FIRST),
        ("Gj", "cookbook-000000e0"),
        ("<PgDn>", "cookbook-000000e0"),
        ("G<PgUp>", FIRST),
        ("du", FIRST),
    ] {
        let mut bench = Bench::full(140, 40);
        bench.press(keys);
        assert_eq!(bench.model.selected.as_deref(), Some(expected), "{keys}");
    }
}

#[test]
fn a_new_selection_is_watched_and_sized_once() {
    let mut bench = Bench::full(140, 40);
    let (rows, cols) = layout(&bench.model).terminal;
    let session = || "serve-00000002".to_owned();
    let expected = [Effect::Select(Some(session())), Effect::Resize { session: session(), rows, cols }];
    assert_eq!(bench.press("j"), expected);
    assert_eq!(bench.press("k"), [Effect::Select(Some(FIRST.into()))], "its size has not changed");
}

#[test]
fn tab_goes_round_the_visible_panes() {
    for (size, tree, panes) in [
        ((140, 40), None, [Pane::Screen, Pane::Tree, Pane::List]),
        ((80, 24), None, [Pane::Screen, Pane::List, Pane::Screen]),
        ((80, 24), Some(true), [Pane::Tree, Pane::List, Pane::Tree]),
        ((60, 15), None, [Pane::Screen, Pane::Tree, Pane::List]),
    ] {
        let mut bench = Bench::full(size.0, size.1);
        bench.model.tree_wanted = tree;
        for pane in panes {
            bench.press("<Tab>");
            assert_eq!(bench.model.pane, pane, "{size:?} {tree:?}");
        }
        bench.press("<Tab><BackTab>");
        assert_eq!(bench.model.pane, panes[2], "{size:?} {tree:?}");
    }
}

#[test]
fn enter_types_and_the_chord_leaves() {
    for (cols, rows) in [(140, 40), (80, 24), (60, 15), (20, 5)] {
        let mut bench = Bench::full(cols, rows);
        bench.press("<Enter>");
        assert_eq!((bench.model.context(), bench.model.pane), (Context::Terminal, Pane::Screen));
        assert!(layout(&bench.model).screen.is_some(), "{cols}x{rows}");
        let effects = bench.press("xq?<Esc><C-c><C-z><Up><Tab>");
        assert_eq!(typed(&effects), "xq?\\x1b\\x03\\x1a\\x1b[A\\t", "{cols}x{rows}: every key goes through");
        assert_eq!(bench.press("<C-\\>"), []);
        assert_eq!(bench.model.context(), Context::Panes);
    }
}

#[test]
fn the_chord_twice_is_sent_through() {
    let mut bench = Bench::full(140, 40);
    bench.press("<Enter>");
    // crossterm's name for the same byte.
    assert_eq!(typed(&bench.press("<C-\\><C-4>")), "\\x1c");
    assert!(bench.model.focused);
    // Too late, or after another key, it is nothing.
    bench.press("<C-\\>");
    bench.now += Duration::from_secs(2);
    assert_eq!(bench.press("<C-\\>"), []);
    assert!(!bench.model.focused);
    bench.press("<Enter><C-\\>t");
    assert_eq!(bench.press("<C-\\>"), []);
    assert!(!bench.model.focused);
}

#[test]
fn application_mode_reaches_the_keys() {
    let mut bench = Bench::full(140, 40);
    let mut facts = fixtures::facts(FIRST);
    facts.modes.application_cursor = true;
    facts.modes.bracketed_paste = true;
    bench.model.observe(Some(facts));
    bench.press("<Enter>");
    assert_eq!(typed(&bench.press("<Up>")), "\\x1bOA");
    assert_eq!(typed(&bench.send(UiEvent::Input(Input::Paste("a\nb".into())))), "\\x1b[200~a\\rb\\x1b[201~");
}

#[test]
fn a_paste_presses_no_keys() {
    let mut bench = Bench::full(140, 40);
    for keys in ["", "x", "?", "s", "q"] {
        bench.press(keys);
        let before = bench.model.context();
        assert_eq!(bench.send(UiEvent::Input(Input::Paste("qyx\n".into()))), [], "{keys}");
        assert_eq!(bench.model.context(), before, "{keys}");
        bench.press("<Esc>");
    }
}

#[test]
fn a_key_right_after_esc_is_two_keys() {
    let mut bench = Bench::full(80, 24);
    let alt = |c| UiEvent::Input(Input::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::ALT)));
    bench.press("?");
    bench.send(alt('j'));
    assert_eq!(bench.model.context(), Context::Panes, "Esc has closed the help");
    assert_eq!(bench.model.selected.as_deref(), Some("serve-00000002"), "and j is j");
    let effects = bench.press("x");
    bench.answer(&effects, Answer::Receipt(Box::new(fixtures::plan())));
    bench.draw();
    assert_eq!(bench.send(alt('y')), [], "y came after the preview was left");
    bench.look();
    bench.press("<Enter>");
    assert!(matches!(&bench.send(alt('y'))[..], [Effect::Input { bytes, .. }] if bytes == b"\x1by"));
}

#[test]
fn only_presses_and_repeats_count() {
    let mut bench = Bench::full(140, 40);
    let kinds = [(KeyEventKind::Press, true), (KeyEventKind::Repeat, true), (KeyEventKind::Release, false)];
    for (kind, counts) in kinds {
        bench.press("g");
        let key = KeyEvent::new_with_kind(KeyCode::Char('j'), KeyModifiers::NONE, kind);
        bench.send(UiEvent::Input(Input::Key(key)));
        assert_eq!(bench.model.selected.as_deref() != Some(FIRST), counts, "{kind:?}");
    }
}

#[test]
fn nobody_types_into_what_has_ended_or_is_not_connected() {
    let mut bench = Bench::full(140, 40);
    bench.press("jjjjjj");
    assert_eq!(bench.model.current().map(|row| row.name.as_str()), Some("build"));
    bench.look();
    bench.press("<Enter>");
    assert!(!bench.model.focused);
    bench.press("g");
    bench.model.observe(None);
    bench.press("<Enter>");
    assert!(!bench.model.focused);
    bench.now += Duration::from_secs(3);
    bench.send(UiEvent::Tick);
    assert!(bench.model.log.notable().is_some_and(|line| line.text.contains("no terminal")));
}

#[test]
fn without_sessions_enter_offers_to_start_one() {
    let mut bench = Bench::empty(80, 24);
    bench.press("<Enter>");
    assert_eq!(bench.model.context(), Context::Menu);
}

#[test]
fn zoom_takes_the_whole_screen_and_gives_it_back() {
    let mut bench = Bench::full(140, 40);
    let before = layout(&bench.model).terminal;
    assert_eq!(bench.press("z"), [Effect::Resize { session: FIRST.into(), rows: 37, cols: 140 }]);
    assert_eq!(bench.model.pane, Pane::Screen);
    let (rows, cols) = before;
    assert_eq!(bench.press("z"), [Effect::Resize { session: FIRST.into(), rows, cols }]);
    bench.press("<Tab>z");
    assert!(layout(&bench.model).screen.is_none(), "the tree is zoomed");
    assert_eq!(layout(&bench.model).terminal, before, "and the terminal keeps its size");
    bench.press("<Esc>");
    assert!(!bench.model.zoom);
}

#[test]
fn the_tree_comes_and_goes() {
    for (size, shown) in [((140, 40), true), ((80, 24), false)] {
        let mut bench = Bench::full(size.0, size.1);
        assert_eq!(layout(&bench.model).tree.is_some(), shown);
        bench.press("t");
        assert_eq!(layout(&bench.model).tree.is_some(), !shown);
        bench.press("t");
        assert_eq!(layout(&bench.model).tree.is_some(), shown);
    }
    let mut bench = Bench::full(60, 15);
    bench.press("t");
    assert_eq!(bench.model.pane, Pane::Tree);
    bench.press("t");
    assert_eq!(bench.model.pane, Pane::Screen);
}

#[test]
fn history_scrolls_and_stays_where_it_is() {
    let mut bench = Bench::full(140, 40);
    bench.press("<Tab>k");
    assert_eq!(bench.model.scroll, 1);
    bench.press("<PgUp>");
    let height = usize::from(layout(&bench.model).terminal.0);
    assert_eq!(bench.model.scroll, height);
    let mut facts = fixtures::facts(FIRST);
    facts.history += 7;
    bench.model.observe(Some(facts));
    assert_eq!(bench.model.scroll, height + 7, "new output does not move what is read");
    bench.press("g");
    assert_eq!(bench.model.scroll, 107);
    bench.press("j<PgDn>");
    assert_eq!(bench.model.scroll, 107 - height);
    bench.press("<Esc>");
    assert_eq!((bench.model.scroll, bench.model.pane), (0, Pane::Screen));
    bench.press("<Esc>");
    assert_eq!(bench.model.pane, Pane::List);
    bench.press("<Tab>k<Enter>");
    assert_eq!(bench.model.scroll, 0, "typing shows the live screen");
}

#[test]
fn processes_are_selected_by_pid() {
    let mut bench = Bench::full(140, 40);
    bench.press("<Tab><Tab>jj");
    assert_eq!(bench.model.tree.cursor, Some(fixtures::pid(4303)));
    let mut tree = fixtures::tree();
    tree.processes.insert(0, fixtures::process(4000, 1, "new"));
    bench.send(UiEvent::Tree { session: FIRST.into(), tree });
    assert_eq!(bench.model.tree.cursor, Some(fixtures::pid(4303)));
    bench.press("G");
    assert_eq!(bench.model.tree.cursor, Some(fixtures::pid(999)));
}

#[test]
fn copies() {
    let mut bench = Bench::full(140, 40);
    assert_eq!(bench.press("c"), [Effect::Copy(FIRST.into())]);
    let effects = bench.press("<Tab>c");
    assert_eq!(commands(&effects), [&Command::Screen { session: FIRST.into(), scrollback: None }]);
    let screen = ScreenText { rows: 2, cols: 9, lines: vec!["one".into(), "two".into()], cursor: (0, 0) };
    assert_eq!(bench.answer(&effects, Answer::Screen(screen)), [Effect::Copy("one\ntwo".into())]);
    assert_eq!(bench.press("<Tab>jc"), [Effect::Copy("4301".into())]);
    let effects = bench.press("ec");
    assert!(matches!(&effects[..], [Effect::Copy(text)] if text.contains("is ready")), "{effects:?}");
}

#[test]
fn reports_are_asked_for_and_read() {
    let mut bench = Bench::full(140, 40);
    let effects = bench.press("o");
    assert_eq!(commands(&effects), [&Command::Orphans(OrphansRequest::default())]);
    bench.answer(&effects, Answer::Orphans(Box::new(fixtures::orphans())));
    assert!(bench.draw().contains("Left of earlier sessions"));
    let effects = bench.press("<Esc>D");
    assert_eq!(commands(&effects), [&Command::Doctor {}]);
    bench.answer(&effects, Answer::Doctor(fixtures::checks()));
    assert!(bench.draw().contains("way out: "));
    let effects = bench.press("<Esc>+<Enter>");
    assert_eq!(commands(&effects), [&Command::Extend { session: FIRST.into(), ceiling_s: 2_592_000.0 }]);
    bench.answer(&effects, Answer::Extended(1e9));
    assert!(bench.model.log.notable().is_some_and(|line| line.text.contains("for another 30d")));
    assert_eq!(Bench::empty(80, 24).press("+"), []);
}

#[test]
fn a_terminal_that_was_connected_just_now_is_sized_again() {
    let mut bench = Bench::full(140, 40);
    let size = bench.press("<Tab>");
    assert_eq!(size, []);
    bench.model.observe(None);
    bench.look();
    let (rows, cols) = layout(&bench.model).terminal;
    let expected = Effect::Resize { session: FIRST.into(), rows, cols };
    assert_eq!(bench.send(UiEvent::ScreenChanged), [expected]);
    assert_eq!(bench.send(UiEvent::ScreenChanged), []);
}

#[test]
fn readers_open_scroll_and_close() {
    for key in ["?", "h", "<F1>"] {
        for close in ["<Esc>", "<Enter>", "q", "<C-c>", "?", "<F1>"] {
            let mut bench = Bench::full(80, 24);
            bench.press(key);
            assert_eq!(bench.model.context(), Context::Help);
            bench.press(close);
            assert!(bench.model.overlays.is_empty(), "{key} {close}");
        }
    }
    let mut bench = Bench::full(80, 24);
    let scroll = |bench: &Bench| match bench.model.overlays.last() {
        Some(Overlay::Help(help)) => help.scroll,
        other => panic!("{other:?}"),
    };
    bench.press("?jj");
    assert_eq!(scroll(&bench), 2);
    bench.press("k<PgDn>");
    assert_eq!(scroll(&bench), 11);
    bench.press("G");
    let end = scroll(&bench);
    bench.press("j");
    assert_eq!(scroll(&bench), end, "not beyond the end");
    bench.press("g<PgUp>");
    assert_eq!(scroll(&bench), 0);
}

/// The help begins with the keys of where it was opened, and leads back there.
#[test]
fn the_help_is_of_the_place() {
    let check = |place: &str, open: &dyn Fn(&mut Bench)| {
        let mut bench = Bench::full(140, 40);
        open(&mut bench);
        let before = bench.model.context();
        if before != Context::Help {
            bench.press(if before.types() { "<F1>" } else { "?" });
        }
        assert_eq!(bench.model.context(), Context::Help, "{place}");
        let text = bench.draw();
        assert!(text.contains(&format!(" Keys: {place} ")) && text.contains(&format!(" {place}  here")), "{text}");
        bench.press("<Esc>");
        let leads_to = if before == Context::Help { Context::Panes } else { before };
        assert_eq!(bench.model.context(), leads_to, "{place}");
    };
    check("Sessions", &|_| {});
    check("Terminal", &|bench| drop(bench.press("<Tab>")));
    check("Processes", &|bench| drop(bench.press("<Tab><Tab>")));
    check("In a session's terminal", &|bench| drop(bench.press("<Enter><C-\\>?")));
    check("Looking back in a terminal", &|bench| drop(bench.freeze("[")));
    check("Search in a terminal", &|bench| drop(bench.freeze("[/")));
    check("Filter of the list", &|bench| drop(bench.press("/")));
    check("Preview", &|bench| drop(bench.press("x")));
    check("Launch form", &|bench| drop(bench.press("a")));
    check("Start menu", &|bench| drop(bench.press("s")));
    check("Command line", &|bench| drop(bench.press("s:")));
    check("Command palette", &|bench| drop(bench.press(":")));
    check("Events and receipts", &|bench| drop(bench.press("e")));
    check("How much longer", &|bench| drop(bench.press("+")));
    check("Quit", &|bench| drop(bench.press("q")));
    // A second key after the chord is no question about the terminal.
    let mut bench = Bench::full(140, 40);
    bench.press("<Enter><C-\\>j?");
    assert!(bench.draw().contains(" Keys: Sessions "));
}

#[test]
fn the_help_is_filtered_by_words() {
    let mut bench = Bench::full(140, 40);
    let lines = |bench: &mut Bench, word: &str| bench.draw().lines().filter(|line| line.contains(word)).count();
    let all = lines(&mut bench, "│");
    bench.press("?jj/sweep marked");
    let text = bench.draw();
    assert!(text.contains("Keys: Sessions  /sweep marked│"), "{text}");
    assert!(text.contains(" Space ") && !text.contains("start a recipe"), "{text}");
    assert!(matches!(bench.model.overlays.last(), Some(Overlay::Help(help)) if help.scroll == 0));
    bench.press("<Enter>");
    assert_eq!(bench.model.context(), Context::Help, "what was found is read");
    bench.press("/nothing of this");
    assert!(bench.draw().contains("Nothing matches."));
    bench.press("<Esc>");
    assert!(bench.draw().contains("start a recipe"), "all lines again");
    bench.press("/x");
    let text = bench.draw();
    assert!(
        text.contains("x                  stop the session") && !text.contains("KILL"),
        "one character is a key: {text}"
    );
    bench.press("<Esc>/extend");
    assert!(bench.draw().contains("let the session live longer"), "by its name in the configuration, too");
    bench.press("<Enter><Esc>");
    assert_eq!(bench.model.context(), Context::Help, "one step back");
    bench.press("/");
    bench.send(UiEvent::Input(Input::Paste("orphan\n".into())));
    assert!(bench.draw().contains("/orphan"));
    bench.press("<Esc><Esc>");
    assert!(bench.model.overlays.is_empty() && lines(&mut bench, "│") == all);
}

/// What is left of a session is as wide as what shows it: a line that was longer is wrapped, and not cut.
#[test]
fn what_has_ended_has_the_size_of_its_pane() {
    let mut bench = Bench::full(140, 40);
    let mut rows = fixtures::sessions();
    for row in &mut rows {
        row.phase = Phase::Failed;
    }
    bench.send(UiEvent::Sessions(rows));
    let sizes = |effects: Vec<Effect>| effects.into_iter().filter(|effect| matches!(effect, Effect::Resize { .. }));
    let (rows, cols) = layout(&bench.model).terminal;
    let expected = Effect::Resize { session: "serve-00000002".into(), rows, cols };
    assert_eq!(sizes(bench.press("j")).collect::<Vec<_>>(), [expected]);
    assert_eq!(sizes(bench.press("kj")).count(), 0, "once");
    assert_eq!(sizes(bench.press("z")).count(), 1);
}

#[test]
fn the_rest_of_the_keys() {
    let mut bench = Bench::full(140, 40);
    assert_eq!(bench.press("Z"), [Effect::Suspend]);
    assert_eq!(bench.press("<C-z>"), [Effect::Suspend]);
    assert_eq!(bench.press("R"), [Effect::Redraw]);
    assert_eq!(bench.press("<C-l>"), [Effect::Redraw]);
    assert_eq!(bench.press("v"), [], "no receipt yet");
    assert!(bench.model.overlays.is_empty());
    assert_eq!(bench.press("y"), [], "not a key here");
    assert_eq!(bench.send(UiEvent::Suspend), [Effect::Suspend]);
}

#[test]
fn every_binding_is_handled_without_surprise() {
    // Each key of the table, pressed in its context, changes the model or asks for something, and
    // leaves a model that draws.
    for binding in BINDINGS {
        for context in binding.contexts {
            for key in binding.keys {
                let mut bench = Bench::full(80, 24);
                match context {
                    Context::Panes => {}
                    Context::Terminal => drop(bench.press("<Enter>")),
                    Context::Preview => drop(bench.press("x")),
                    Context::Reader => {
                        let effects = bench.press("D");
                        bench.answer(&effects, Answer::Doctor(fixtures::checks()));
                    }
                    Context::Help => drop(bench.press("?")),
                    Context::Menu => drop(bench.press("s")),
                    Context::Form => drop(bench.press("a")),
                    Context::Events => drop(bench.press("e")),
                    Context::Picker => drop(bench.press("A")),
                    Context::Line => drop(bench.press("s:")),
                    Context::Ask => drop(bench.press("+")),
                    Context::History => drop(bench.freeze("[")),
                    Context::Search => drop(bench.freeze("[/")),
                    Context::Filter => drop(bench.press("/")),
                    Context::Palette => drop(bench.press(":")),
                    Context::Error => {
                        let effects = bench.press("x");
                        let error = crate::app::error::AppError::new(crate::app::error::ErrorKind::Io, "no");
                        bench.send(UiEvent::Answered { ticket: fixtures::ticket(&effects), result: Err(error) });
                    }
                    Context::Quit => drop(bench.press("q")),
                }
                assert_eq!(bench.model.context(), *context);
                let text = key.to_string();
                let event = text.strip_prefix("Ctrl-").map_or_else(
                    || match text.as_str() {
                        "Enter" | "Esc" | "Tab" | "Home" | "End" | "PgUp" | "PgDn" | "Left" | "Right" => {
                            format!("<{text}>")
                        }
                        "Space" => " ".to_owned(),
                        "Shift-Tab" => "<BackTab>".to_owned(),
                        "↑" => "<Up>".to_owned(),
                        "↓" => "<Down>".to_owned(),
                        "F1" => "<F1>".to_owned(),
                        _ => text.clone(),
                    },
                    |c| format!("<C-{}>", c.to_lowercase()),
                );
                bench.press(&event);
                bench.draw();
            }
        }
    }
    assert!(
        Keymap::default().lookup(Context::Terminal, &KeyCode::Char('q').into()).is_none(),
        "nothing is taken from a terminal"
    );
}

#[test]
fn only_the_focused_session_writes_the_clipboard() {
    let mut bench = Bench::full(140, 40);
    let writes = |bench: &mut Bench, session: &str| {
        bench.send(UiEvent::Clipboard { session: session.into(), bytes: b"secret".to_vec() })
    };
    assert_eq!(writes(&mut bench, FIRST), [], "looked at, not focused");
    bench.press("<Enter>");
    assert_eq!(writes(&mut bench, "serve-00000002"), [], "another one");
    assert!(!bench.model.log.lines().any(|line| line.text.contains("clipboard")));
    assert_eq!(writes(&mut bench, FIRST), [Effect::Forward(b"secret".to_vec())]);
    let said = bench.model.log.notable().map(|line| line.text.clone()).unwrap_or_default();
    assert_eq!(said, "qwen-coder-32b copied 6 bytes to the clipboard");
    bench.send(UiEvent::Input(Input::FocusLost));
    assert_eq!(writes(&mut bench, FIRST), [], "they look elsewhere");
    bench.send(UiEvent::Input(Input::FocusGained));
    bench.press("<C-\\>");
    assert_eq!(writes(&mut bench, FIRST), []);
}

#[test]
fn whoever_leaves_a_terminal_is_in_the_list_where_it_is_shown() {
    let mut bench = Bench::full(140, 40);
    bench.press("<Enter><C-\\>");
    assert_eq!(bench.model.pane, Pane::List);
    let before = bench.model.selected.clone();
    bench.press("j");
    assert_ne!(bench.model.selected, before, "the keys move in the list");
    bench.press("k<Enter><C-\\><C-\\>");
    assert_eq!((bench.model.pane, bench.model.context()), (Pane::Screen, Context::Terminal), "twice sends it");
    bench.press("<C-\\>z<Enter><C-\\>");
    assert_eq!(bench.model.pane, Pane::Screen, "nothing else is shown");
}

/// A terminal that is not reached yet is waited for: what is typed goes there, in order, and is no command.
#[test]
fn what_is_typed_before_a_terminal_is_there_waits_for_it() {
    let mut bench = Bench::full(140, 40);
    bench.model.observe(None);
    assert_eq!(typed(&bench.press("<Enter>xq")), "");
    assert!(!bench.model.focused && bench.model.overlays.is_empty(), "they were no commands");
    assert!(bench.send(UiEvent::Input(Input::Paste("p\n".into()))).is_empty());
    bench.model.observe(Some(fixtures::facts(FIRST)));
    assert_eq!(typed(&bench.send(UiEvent::Tick)), "xqp\\r", "whether brackets are wanted is asked of tmux");
    assert!(bench.model.focused);
    // The key that leaves a terminal ends the wait, and so does a terminal that never comes.
    for (keys, told) in [("<C-\\>", None), ("x", Some("has no terminal here"))] {
        let mut bench = Bench::full(140, 40);
        bench.model.observe(None);
        bench.press("<Enter>");
        bench.press(keys);
        bench.now += Duration::from_secs(3);
        assert_eq!(typed(&bench.send(UiEvent::Tick)), "");
        assert!(!bench.model.focused && bench.model.overlays.is_empty() && bench.model.early.is_none(), "{keys}");
        let text = bench.draw();
        assert!(told.is_none_or(|told| text.contains(told)), "{keys}: {text}");
    }
}
