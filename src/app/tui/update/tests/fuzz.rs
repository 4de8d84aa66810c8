//! Random events at random sizes: nothing panics, nothing is drawn outside, nothing is signalled
//! that was not shown. `WALK_SEED` walks another way.

use std::collections::BTreeSet;
use std::time::Duration;

use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use crate::app::command::{Answer, Command, Orphans, ScreenText};
use crate::app::contract::Tree;
use crate::app::error::{AppError, ErrorKind};
use crate::app::event::Event;
use crate::app::tui::fixtures::{self, Bench};
use crate::app::tui::keymap::{Context, Key, Keymap};
use crate::app::tui::seam::{Effect, UiEvent};
use crate::lifecycle::identity::Identity;
use crate::lifecycle::plan::Choice;
use crate::pty::screen::{MouseEncoding, MouseMode};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        let index = usize::try_from(self.below(all.len() as u64)).unwrap_or(0);
        all[index].clone()
    }

    fn small(&mut self, end: u16) -> u16 {
        u16::try_from(self.below(u64::from(end))).unwrap_or(0)
    }
}

/// Half of the keys do something where they are pressed, the others are any.
fn key(context: Context, random: &mut Random) -> Input {
    let bound: Vec<Key> = Keymap::default().in_context(context).flat_map(|row| row.keys.clone()).collect();
    if !bound.is_empty() && random.below(2) == 0 {
        return Input::Key(random.pick(&bound).pressed());
    }
    let codes = [
        KeyCode::Enter,
        KeyCode::Esc,
        KeyCode::Tab,
        KeyCode::BackTab,
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::Home,
        KeyCode::End,
        KeyCode::PageUp,
        KeyCode::PageDown,
        KeyCode::Backspace,
        KeyCode::Delete,
        KeyCode::F(5),
        KeyCode::Null,
    ];
    let letters: Vec<char> = "jkgGudsxXSrztevc?hqynaoOZR: +i界é\\4AEF=".chars().collect();
    let code = if random.below(3) == 0 { random.pick(&codes) } else { KeyCode::Char(random.pick(&letters)) };
    let modifiers = match random.below(12) {
        0 => KeyModifiers::CONTROL,
        1 => KeyModifiers::ALT,
        2 => KeyModifiers::SHIFT,
        _ => KeyModifiers::NONE,
    };
    Input::Key(KeyEvent::new(code, modifiers))
}

fn mouse(random: &mut Random) -> Input {
    let kinds = [
        MouseEventKind::Down(MouseButton::Left),
        MouseEventKind::Down(MouseButton::Right),
        MouseEventKind::Up(MouseButton::Left),
        MouseEventKind::Drag(MouseButton::Middle),
        MouseEventKind::Moved,
        MouseEventKind::ScrollUp,
        MouseEventKind::ScrollDown,
    ];
    let kind = random.pick(&kinds);
    Input::Mouse(MouseEvent { kind, column: random.small(210), row: random.small(70), modifiers: KeyModifiers::NONE })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "all other commands are answered with a receipt")]
fn answer(random: &mut Random, open: &mut Vec<(u64, Command)>) -> Option<UiEvent> {
    let index = usize::try_from(random.below(open.len().max(1) as u64)).unwrap_or(0);
    let (ticket, command) = if open.is_empty() { return None } else { open.swap_remove(index) };
    let result = match random.below(6) {
        0 => Err(AppError::new(ErrorKind::Refused, "newcomers")),
        1 => Err(AppError::new(ErrorKind::Timeout, "too slow\x1b[31m")),
        2 => Ok(Answer::Done),
        _ => Ok(match command {
            Command::Recipes {} => Answer::Recipes(fixtures::rich_recipes()),
            Command::Draft { .. } => Answer::Draft(Box::new(fixtures::draft())),
            Command::TmuxSessions {} => Answer::TmuxSessions(fixtures::tmux_rows(), Vec::new()),
            Command::Restart(request) if request.dry_run == Some(true) => Answer::Receipt(Box::new(fixtures::plan())),
            Command::Screen { .. } => {
                Answer::Screen(ScreenText { rows: 1, cols: 1, lines: vec!["x".into()], cursor: (0, 0) })
            }
            Command::Stop(request) if request.dry_run == Some(true) => Answer::Receipt(Box::new(fixtures::plan())),
            Command::Sweep(request) if request.dry_run == Some(true) => Answer::Receipt(Box::new(fixtures::plan())),
            Command::Orphans(request) => Answer::Orphans(Box::new(Orphans {
                swept: vec![if request.dry_run == Some(true) { fixtures::plan() } else { fixtures::bad_receipt() }],
                ..fixtures::orphans_in_the_list()
            })),
            _ => Answer::Receipt(Box::new(random.pick(&[fixtures::bad_receipt(), fixtures::clean_receipt()]))),
        }),
    };
    Some(UiEvent::Answered { ticket, result })
}

fn event(context: Context, random: &mut Random, open: &mut Vec<(u64, Command)>) -> UiEvent {
    if context == Context::Preview && random.below(2) == 0 {
        return match answer(random, open) {
            Some(event) if random.below(2) == 0 => event,
            _ => UiEvent::Input(Input::Key(KeyCode::Char('y').into())),
        };
    }
    match random.below(20) {
        0 => UiEvent::Input(Input::Resize(2 + random.small(199), 1 + random.small(60))),
        1 => {
            let mut rows = fixtures::sessions();
            rows.truncate(usize::from(random.small(9)));
            UiEvent::Sessions(rows)
        }
        2 => {
            let mut tree = fixtures::tree();
            tree.processes.truncate(usize::from(random.small(9)));
            UiEvent::Tree {
                session: "serve-1a2b3c4d".into(),
                tree: if random.below(4) == 0 { Tree::default() } else { tree },
            }
        }
        3..=5 => UiEvent::Input(mouse(random)),
        6 => UiEvent::Input(Input::Paste("a\nb\x1b[201~".into())),
        7 if random.below(2) == 0 => UiEvent::Orphans(Box::new(fixtures::orphans_in_the_list())),
        7 if random.below(3) == 0 => {
            let mut strangers = fixtures::strangers();
            strangers.truncate(usize::try_from(random.below(3)).unwrap_or(0));
            UiEvent::Strangers(strangers)
        }
        7 if random.below(3) == 0 => UiEvent::Catalog(Box::new(fixtures::catalog())),
        7 => UiEvent::Tick,
        8 => UiEvent::Happened(Event::ProcessGone {
            session: "serve-1a2b3c4d".into(),
            pid: 4301,
            command: String::new(),
        }),
        9 => UiEvent::Happened(Event::Receipt { session: String::new(), receipt: Box::new(fixtures::bad_receipt()) }),
        10..=12 => answer(random, open).unwrap_or(UiEvent::ScreenChanged),
        _ => UiEvent::Input(key(context, random)),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "no other command confirms anything")]
fn confirmed_by(command: &Command) -> Option<Vec<Identity>> {
    match command {
        Command::Stop(request) => request.confirm.clone(),
        Command::Sweep(request) => request.confirm.clone(),
        Command::Restart(request) => request.confirm.clone(),
        Command::Orphans(request) => request.confirm.clone(),
        _ => None,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "no other command ends kept processes")]
fn chosen_by(command: &Command) -> Option<Vec<Choice>> {
    match command {
        Command::Stop(request) => request.end_kept.clone(),
        Command::Sweep(request) => request.end_kept.clone(),
        Command::Restart(request) => request.end_kept.clone(),
        Command::Orphans(request) => request.end_kept.clone(),
        _ => None,
    }
}

#[test]
fn ten_thousand_events_do_no_harm() {
    let seed = std::env::var("WALK_SEED").ok().map_or(0x9e37_79b9_7f4a_7c15, |text| text.parse().expect("WALK_SEED"));
    let walked = std::panic::catch_unwind(|| walk(Random(seed)));
    assert!(walked.is_ok(), "see above; replay: WALK_SEED={seed} cargo test --lib ten_thousand_events");
}

fn walk(mut random: Random) {
    let mut bench = Bench::full(140, 40);
    let mut open: Vec<(u64, Command)> = Vec::new();
    let known: BTreeSet<i32> = [4242, 4301, 4303].into();
    let mut confirmed = 0;
    for step in 0..10_000 {
        let event = event(bench.model.context(), &mut random, &mut open);
        bench.now += Duration::from_millis(random.below(200));
        for effect in bench.send(event) {
            match effect {
                Effect::Run { ticket, command } => {
                    let confirm = confirmed_by(&command);
                    let dry = matches!(&command, Command::Stop(r) if r.dry_run == Some(true))
                        || matches!(&command, Command::Restart(r) if r.dry_run == Some(true))
                        || matches!(&command, Command::Sweep(r) if r.dry_run == Some(true))
                        || matches!(&command, Command::Orphans(r) if r.dry_run == Some(true) || r.reap.is_none());
                    let real = matches!(
                        command,
                        Command::Stop(_) | Command::Sweep(_) | Command::Restart(_) | Command::Orphans(_)
                    ) && !dry;
                    assert_eq!(real, confirm.is_some(), "step {step}: nothing is signalled without a preview");
                    confirmed += usize::from(real);
                    assert!(chosen_by(&command).iter().flatten().all(|choice| choice.to_string() == "4400"));
                    assert!(confirm.into_iter().flatten().all(|id| known.contains(&id.pid.raw())));
                    open.push((ticket, command));
                }
                Effect::Resize { rows, cols, .. } => assert!(rows >= 1 && cols >= 2, "step {step}"),
                Effect::Input { bytes, .. } => assert!(!bytes.is_empty()),
                Effect::Paste { paste, .. } => assert!(bench.model.focused && !paste.text.is_empty()),
                Effect::Broadcast { session, .. } => assert!(bench.model.focused && !session.is_empty()),
                Effect::Freeze => bench.thaw(),
                Effect::Select(_)
                | Effect::Copy(_)
                | Effect::Edit(_)
                | Effect::Forward(_)
                | Effect::Suspend
                | Effect::Notify(_)
                | Effect::Look(_)
                | Effect::Redraw
                | Effect::Quit => {}
            }
        }
        if random.below(2) == 0 {
            bench.look();
            if let Some(facts) = &mut bench.model.screen {
                facts.modes.mouse = random.pick(&[MouseMode::None, MouseMode::AnyMotion]);
                facts.modes.mouse_encoding = random.pick(&[MouseEncoding::Default, MouseEncoding::Sgr]);
            }
        }
        if step % 3 == 0 || bench.model.shown().is_some() {
            bench.frame();
        }
    }
    assert!(confirmed >= 10, "the walk has stopped something ({confirmed})");
}

#[test]
fn every_size_draws_every_dialog() {
    let sizes = (2..=24).flat_map(|cols| (1..=12).map(move |rows| (cols, rows))).chain([
        (0, 0),
        (1, 1),
        (200, 60),
        (300, 2),
        (2, 100),
    ]);
    for (cols, rows) in sizes {
        for keys in [
            "",
            "<Enter>",
            "<Tab>",
            "t",
            "z",
            "?",
            "e",
            "s",
            "s:abc",
            "q",
            "x",
            "/se",
            ":st",
            ":zzz",
            "w",
            "  x",
            "[",
            "a",
            "ati<Right><Tab>",
            "A",
        ] {
            let mut bench = Bench::full(cols, rows);
            let effects = bench.press(keys);
            if keys == "[" {
                bench.thaw();
                bench.draw();
                bench.press("/line<Enter>v");
            }
            if keys == "x" {
                bench.answer(&effects, Answer::Receipt(Box::new(fixtures::plan())));
            }
            bench.draw();
        }
    }
}
