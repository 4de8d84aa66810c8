//! The launch menu and the command line.

use crossterm::event::Event as Input;

use super::commands;
use crate::app::command::{Answer, Command, Launched};
use crate::app::contract::{CommandLine, HostKind, Kind, LaunchRequest};
use crate::app::error::{AppError, ErrorKind};
use crate::app::tui::fixtures::{self, Bench, ticket, token};
use crate::app::tui::keymap::Context;
use crate::app::tui::model::Overlay;
use crate::app::tui::seam::{Effect, UiEvent};

fn launched(effects: &[Effect]) -> Option<LaunchRequest> {
    for command in commands(effects) {
        if let Command::Launch(request) = command {
            return Some(request.clone());
        }
    }
    None
}

#[test]
fn recipes_are_chosen_in_the_order_in_which_they_are_shown() {
    for (keys, expected) in
        [("<Enter>", "tiny"), ("jj<Enter>", "claude"), ("G<Enter>", "名前\x1b[31m"), ("jjk<Up><Enter>", "tiny")]
    {
        let mut bench = Bench::full(80, 24);
        assert!(matches!(commands(&bench.press("s"))[..], [Command::Recipes {}]), "it looks anew");
        let request = launched(&bench.press(keys)).unwrap_or_default();
        assert_eq!(request.recipe.as_deref(), Some(expected), "{keys}");
        assert_eq!((request.rows, request.cols), (Some(15), Some(80)));
        assert_eq!(bench.model.context(), Context::Panes);
    }
}

#[test]
fn what_is_not_available_says_why() {
    let mut bench = Bench::full(80, 24);
    assert_eq!(launched(&bench.press("sj<Enter>")), None);
    assert!(
        matches!(bench.model.overlays.last(), Some(Overlay::Launch(l)) if l.note.as_deref() == Some("vllm is not on PATH"))
    );
    assert!(launched(&bench.press("k<Enter>")).is_some());
}

#[test]
fn a_menu_without_recipes_starts_nothing() {
    let mut bench = Bench::empty(80, 24);
    assert_eq!(launched(&bench.press("sj<Enter>")), None);
    assert_eq!(bench.model.context(), Context::Menu);
}

#[test]
fn recipes_that_come_late_are_offered() {
    let mut bench = Bench::empty(80, 24);
    let effects = bench.press("s");
    bench.answer(&effects, Answer::Recipes(fixtures::recipes()));
    assert!(bench.draw().contains("tiny"));
}

#[test]
fn a_command_is_typed() {
    for open in [":", "i", "<Tab>"] {
        let mut bench = Bench::full(80, 24);
        bench.press(&format!("s{open}top -d1q"));
        assert_eq!(bench.model.context(), Context::Line);
        let request = launched(&bench.press("<Backspace><Enter>")).unwrap_or_default();
        assert_eq!(request.command, Some(CommandLine::Line("top -d1".into())));
        assert_eq!((request.kind, request.host, request.recipe), (Some(Kind::Shell), None, None));
    }
}

#[test]
fn kind_and_host_are_chosen() {
    let mut bench = Bench::full(80, 24);
    let request = launched(&bench.press("s:x<Tab><Tab><BackTab><Down><Enter>")).unwrap_or_default();
    assert_eq!((request.kind, request.host), (Some(Kind::Serve), Some(HostKind::Tmux)));
}

#[test]
fn pasted_lines_stay_lines_and_are_seen_as_such() {
    for paste in ["echo a\nrm b\x1b[A", "echo a\rrm b\x1b[A\r"] {
        let mut bench = Bench::full(80, 24);
        bench.press("s:");
        assert_eq!(bench.send(UiEvent::Input(Input::Paste(paste.into()))), [], "a line end starts nothing");
        let text = bench.draw();
        assert!(text.contains("echo a↵rm b[A") && text.contains("2 lines: sh runs them as a script"), "{text}");
        let request = launched(&bench.press("<Enter>")).unwrap_or_default();
        assert_eq!(request.command, Some(CommandLine::Line("echo a\nrm b[A".into())));
    }
}

#[test]
fn an_empty_command_starts_nothing_and_esc_goes_back_step_by_step() {
    let mut bench = Bench::full(80, 24);
    assert_eq!(launched(&bench.press("s:  <Enter>")), None);
    assert_eq!(bench.model.context(), Context::Line);
    bench.press("<Esc>");
    assert_eq!(bench.model.context(), Context::Menu);
    bench.press("<Esc>");
    assert_eq!(bench.model.context(), Context::Panes);
}

#[test]
fn the_new_session_is_selected_when_it_appears() {
    let mut bench = Bench::full(80, 24);
    let effects = bench.press("s<Enter>");
    let start_token = token(1);
    let session = "serve-77777777".to_owned();
    let answer = Launched { session, host: HostKind::Tmux, pid: 1, start_token, tmux: None, notes: Vec::new() };
    bench.answer(&effects, Answer::Launched(answer));
    assert_eq!(bench.model.selected.as_deref(), Some("serve-1a2b3c4d"));
    let mut rows = fixtures::sessions();
    let mut row = rows[2].clone();
    (row.session, row.uptime_s) = ("serve-77777777".into(), Some(0.1));
    rows.push(row);
    let effects = bench.send(UiEvent::Sessions(rows));
    assert!(effects.contains(&Effect::Select(Some("serve-77777777".into()))));
    bench.send(UiEvent::Sessions(fixtures::sessions()));
    assert_eq!(bench.model.selected.as_deref(), Some("agent-0000000a"), "gone: the one in its place");
}

#[test]
fn what_was_typed_survives_a_failure() {
    let mut bench = Bench::full(80, 24);
    let effects = bench.press("s:serve it<Enter>");
    let result = Err(AppError::new(ErrorKind::Failed, "no such program"));
    bench.send(UiEvent::Answered { ticket: ticket(&effects), result });
    assert_eq!(bench.model.context(), Context::Error);
    bench.press("<Esc>");
    assert_eq!(bench.model.context(), Context::Line);
    assert!(bench.draw().contains("serve it"));
}
