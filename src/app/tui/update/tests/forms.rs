//! The launch form, what it leads to, and the picker of tmux sessions.

use super::commands;
use crate::app::catalog::{Listing, Look};
use crate::app::command::{Answer, Command, Launched, RestartRequest};
use crate::app::contract::{CommandLine, HostKind, LaunchField, LaunchRequest};
use crate::app::draft::{SaveRequest, Saved};
use crate::app::error::{AppError, ErrorKind};
use crate::app::phase::Suggestion;
use crate::app::tui::fixtures::{self, Bench, ticket, token};
use crate::app::tui::keymap::Context;
use crate::app::tui::model::{Act, Form, Overlay, Slot};
use crate::app::tui::seam::{Effect, UiEvent};
use crate::lifecycle::receipt::Receipt;

const FIRST: &str = "serve-1a2b3c4d";

fn bench() -> Bench {
    let mut bench = Bench::full(140, 40);
    bench.send(UiEvent::Recipes(fixtures::rich_recipes()));
    bench.send(UiEvent::Catalog(Box::new(fixtures::catalog())));
    bench
}

fn form(bench: &Bench) -> &Form {
    match bench.model.overlays.last() {
        Some(Overlay::Form(form)) => form,
        other => panic!("no form: {other:?}"),
    }
}

fn launched_as(effects: &[Effect]) -> Option<LaunchRequest> {
    commands(effects).into_iter().find_map(|command| {
        let Command::Launch(request) = command else { return None };
        Some(request.clone())
    })
}

fn restarted(effects: &[Effect]) -> Option<RestartRequest> {
    commands(effects).into_iter().find_map(|command| {
        let Command::Restart(request) = command else { return None };
        Some(request.clone())
    })
}

fn refuse(bench: &mut Bench, effects: &[Effect], error: AppError) {
    bench.send(UiEvent::Answered { ticket: ticket(effects), result: Err(error) });
}

fn launched(session: &str) -> Launched {
    let start_token = token(1);
    Launched { session: session.into(), host: HostKind::Tmux, pid: 1, start_token, tmux: None, notes: Vec::new() }
}

/// Opens the form on the first session.
fn revised() -> Bench {
    let mut bench = bench();
    let effects = bench.press("E");
    assert!(matches!(&commands(&effects)[..], [Command::Draft { session }] if session == FIRST));
    let mut draft = fixtures::draft();
    (draft.launch.env, draft.notes) = (None, Vec::new());
    bench.answer(&effects, Answer::Draft(Box::new(draft)));
    bench
}

#[test]
fn a_form_is_filled_by_keys_alone() {
    let mut bench = bench();
    let effects = bench.press("a");
    assert!(effects.contains(&Effect::Look(Look::Catalog)) && matches!(commands(&effects)[..], [Command::Recipes {}]));
    assert_eq!(bench.model.context(), Context::Form);
    // The recipe by completion, then its working directory changed.
    bench.press("ti<Right>");
    assert_eq!(form(&bench).command.text(), "llama-server -m tiny.gguf --port 8080");
    bench.press("<Tab><Tab>own<Down><Right><Left><Down> <Up><Down><Tab><End>/deep");
    let effects = bench.press("<Enter>");
    let request = launched_as(&effects).unwrap_or_default();
    assert_eq!((request.recipe.as_deref(), request.name.as_deref()), (Some("tiny"), Some("own")));
    assert_eq!((request.cwd.as_deref(), request.host), (Some("/srv/models/deep"), Some(HostKind::Pty)));
    assert!(form(&bench).busy.is_some() && bench.draw().contains("Launching"));
    assert_eq!(bench.press("x<Enter>"), [], "one launch at a time");
    bench.answer(&effects, Answer::Launched(launched("serve-77777777")));
    assert_eq!(bench.model.context(), Context::Panes);
    assert_eq!(bench.model.awaited.as_deref(), Some("serve-77777777"));
}

#[test]
fn an_error_leaves_everything_typed_and_shows_where() {
    let mut bench = bench();
    bench.press("a<Tab>sleep 5<Tab><Tab><Tab><Tab>/nowhere");
    let effects = bench.press("<Enter>");
    let error = AppError::new(ErrorKind::Usage, "cwd: /nowhere is not a directory").at(LaunchField::Cwd);
    refuse(&mut bench, &effects, error.clone());
    assert_eq!((form(&bench).at, form(&bench).command.text()), (Slot::Cwd, "sleep 5"));
    let text = bench.draw();
    let at = |what: &str| text.lines().position(|line| line.contains(what));
    assert_eq!(at("cwd: /nowhere is not"), at("cwd       /nowhere").map(|line| line + 1), "{text}");
    // Closed while it is under way, it comes back with the error.
    let effects = bench.press("<Enter>");
    bench.press("<Esc>");
    assert_eq!(bench.model.context(), Context::Panes);
    refuse(&mut bench, &effects, error);
    assert_eq!((form(&bench).at, form(&bench).command.text()), (Slot::Cwd, "sleep 5"));
}

#[test]
fn directories_are_listed_as_they_are_needed() {
    let mut bench = bench();
    let effects = bench.press("a<Tab>cat /srv/m");
    let look = Look::Dir { dir: "/srv/".into(), base: String::new() };
    assert_eq!(effects.iter().filter(|effect| **effect == Effect::Look(look.clone())).count(), 1, "once each");
    let entries = vec!["models/".into(), "other".into()];
    bench.send(UiEvent::Listing(Listing { dir: "/srv/".into(), base: String::new(), entries, cut: false }));
    bench.press("<PgDn><Enter>");
    assert_eq!(form(&bench).command.text(), "cat /srv/models/");
}

#[test]
fn a_running_session_is_replaced_after_a_preview_of_exactly_that() {
    let mut bench = revised();
    let effects = bench.press("<Backspace>1<Enter>");
    let asked = restarted(&effects).unwrap_or_default();
    assert_eq!((asked.session.as_str(), asked.dry_run, asked.confirm.is_none()), (FIRST, Some(true), true));
    let command = asked.launch.clone().and_then(|launch| launch.command).map(|command| command.shown());
    assert_eq!(command.as_deref(), Some("llama-server -m qwen.gguf --port 8081"));
    assert_eq!(launched_as(&effects), None, "never two copies");
    bench.answer(&effects, Answer::Receipt(Box::new(fixtures::plan())));
    assert_eq!(bench.model.context(), Context::Preview);
    assert!(matches!(bench.model.overlays.last(), Some(Overlay::Preview(preview)) if preview.act == Act::Replace));
    assert_eq!(bench.press("y"), [], "what was not on the screen cannot be confirmed");
    let text = bench.draw();
    assert!(text.contains("Replace: qwen-coder-32b") && text.contains("4301"), "{text}");
    // Cancelled, the form is as it was.
    bench.press("<Esc>");
    assert!(form(&bench).busy.is_none());
    let effects = bench.press("<Enter>");
    bench.answer(&effects, Answer::Receipt(Box::new(fixtures::plan())));
    bench.draw();
    let effects = bench.press("y");
    let real = restarted(&effects).unwrap_or_default();
    let pids: Vec<i32> = real.confirm.iter().flatten().map(|identity| identity.pid.raw()).collect();
    assert_eq!((pids, real.dry_run, real.launch == asked.launch), (vec![4242, 4301, 4303], None, true));
    let answer =
        Answer::Restarted { receipt: Box::new(fixtures::clean_receipt()), launched: launched("serve-77777777") };
    bench.answer(&effects, answer);
    assert_eq!(bench.model.context(), Context::Panes);
    assert!(bench.model.acting.is_empty());
}

#[test]
fn newcomers_open_the_preview_again() {
    let mut bench = revised();
    let effects = bench.press("<Enter>");
    bench.answer(&effects, Answer::Receipt(Box::new(fixtures::plan())));
    bench.draw();
    let effects = bench.press("y");
    refuse(&mut bench, &effects, AppError::new(ErrorKind::Refused, "newcomers: 9"));
    let again = bench.model.next_ticket - 1;
    bench.send(UiEvent::Answered { ticket: again, result: Ok(Answer::Receipt(Box::new(fixtures::plan()))) });
    assert_eq!(bench.model.context(), Context::Preview);
    assert_eq!(bench.press("y"), [], "it was not seen yet");
}

#[test]
fn where_nobody_is_left_there_is_nothing_to_preview() {
    let mut bench = revised();
    let effects = bench.press("<Enter>");
    let effects =
        bench.answer(&effects, Answer::Receipt(Box::new(Receipt { plan: Some(Vec::new()), ..Receipt::default() })));
    let real = restarted(&effects).unwrap_or_default();
    assert_eq!((real.confirm, real.dry_run), (Some(Vec::new()), None));
}

#[test]
fn a_launch_that_cannot_come_true_stops_nobody() {
    let mut bench = revised();
    let effects = bench.press("<Enter>");
    refuse(
        &mut bench,
        &effects,
        AppError::new(ErrorKind::Failed, "its model file is not there").at(LaunchField::Command),
    );
    assert_eq!((form(&bench).at, bench.model.context()), (Slot::Command, Context::Form));
    assert!(bench.draw().contains("its model file is not there"));
}

#[test]
fn whoever_is_in_the_way_can_be_replaced() {
    let mut bench = bench();
    let effects = bench.press("s<Enter>");
    let error = AppError::new(ErrorKind::Refused, "gpu0 is held by session embedder");
    refuse(&mut bench, &effects, error.held(LaunchField::Recipe, Some("serve-00000002".into())));
    // The start box became a form that offers it.
    assert_eq!((form(&bench).at, form(&bench).recipe.text()), (Slot::Replace, "tiny"));
    assert!(bench.draw().contains("[ Replace embedder: stop it first, after a preview ]"));
    let effects = bench.press("<Enter>");
    let asked = restarted(&effects).unwrap_or_default();
    assert_eq!((asked.session.as_str(), asked.dry_run), ("serve-00000002", Some(true)));
    assert_eq!(asked.launch.and_then(|launch| launch.recipe).as_deref(), Some("tiny"));
}

#[test]
fn a_second_session_of_a_name_is_meant_or_is_none() {
    let mut bench = bench();
    bench.press("a<Tab>sleep 5<Tab>embedder");
    assert_eq!(bench.press("<Enter>"), [], "it asks");
    assert_eq!((form(&bench).at, form(&bench).holder()), (Slot::Replace, Some("serve-00000002")));
    let mut other = bench.press("<Up><Up>");
    other.extend(bench.press("<Enter>"));
    assert_eq!(launched_as(&other).and_then(|request| request.name).as_deref(), Some("embedder"));
}

#[test]
fn a_suggestion_opens_by_its_key() {
    let mut bench = bench();
    assert!(commands(&bench.press("F")).is_empty(), "there is none");
    let mut rows = fixtures::sessions();
    for row in &mut rows {
        let command = Some(CommandLine::Argv(["llama-server", "-m", "b.gguf"].map(str::to_owned).to_vec()));
        row.suggest = Some(Suggestion { text: "\"b.gguf\" is there".into(), command, first: false });
    }
    bench.send(UiEvent::Sessions(rows));
    assert!(bench.draw().contains("(F opens a fix)"), "{}", bench.draw());
    let effects = bench.press("F");
    bench.answer(&effects, Answer::Draft(Box::new(fixtures::draft())));
    assert_eq!(form(&bench).command.text(), "llama-server -m b.gguf");
    assert!(bench.draw().contains("\"b.gguf\" is there"));
}

#[test]
fn a_recipe_is_saved_and_asks_before_it_replaces_one() {
    let mut bench = bench();
    bench.press("a<Tab>sleep 5<Tab>mine");
    bench.model.overlays.iter_mut().for_each(|overlay| {
        if let Overlay::Form(form) = overlay {
            form.at = Slot::Save;
        }
    });
    let saved = |effects: &[Effect]| match commands(effects)[..] {
        [Command::Save(request)] => request.clone(),
        ref other => panic!("{other:?}"),
    };
    let effects = bench.press("<Enter>");
    let SaveRequest { name, launch, overwrite } = saved(&effects);
    assert_eq!((name.as_str(), overwrite), ("mine", None));
    assert_eq!(launch.command, Some(CommandLine::Line("sleep 5".into())));
    refuse(&mut bench, &effects, AppError::new(ErrorKind::Refused, "there is one").at(LaunchField::Name));
    assert!(bench.draw().contains("[ Replace the recipe of that name ]"));
    let told = bench.model.log.lines().next_back().map(|line| line.text.clone());
    assert_eq!(told.as_deref(), Some("Save: there is one"), "nothing was to be launched");
    let effects = bench.press("<Enter>");
    assert_eq!(saved(&effects).overwrite, Some(true));
    let notes = vec!["HF_TOKEN was not written".to_owned()];
    bench.answer(
        &effects,
        Answer::Saved(Saved { name: "mine".into(), path: "/c.toml".into(), overwritten: true, notes }),
    );
    let text = bench.draw();
    assert!(text.contains("saved as recipe mine in /c.toml") && text.contains("HF_TOKEN was not written"), "{text}");
}

#[test]
fn a_tmux_session_of_others_is_picked() {
    let mut bench = bench();
    let effects = bench.press("A");
    assert!(matches!(commands(&effects)[..], [Command::TmuxSessions {}]));
    assert_eq!(bench.press("<Enter>"), [], "there is nothing to pick yet");
    bench.answer(&effects, Answer::TmuxSessions(fixtures::tmux_rows(), vec!["/x: no answer".into()]));
    let text = bench.draw();
    assert!(text.contains("holds this cookbook-tui") && text.contains("/x: no answer"), "{text}");
    assert_eq!(bench.press("jj<Enter>"), []);
    assert!(bench.draw().contains("it is adopted already"));
    let effects = bench.press("k<Enter>");
    let picked: Vec<_> = commands(&effects).into_iter().cloned().collect();
    assert!(
        matches!(&picked[..], [Command::Adopt { tmux }] if tmux.session == "$3" && tmux.socket.as_deref() == Some("/tmp/tmux-1000/default"))
    );
    bench.answer(&effects, Answer::Launched(launched("shell-77777777")));
    assert_eq!(bench.model.awaited.as_deref(), Some("shell-77777777"));
}

/// The top of the form stays where it is while offers come and go; the footer says what Enter does.
#[test]
fn the_form_keeps_its_place_and_the_footer_follows_its_lines() {
    let mut bench = Bench::full(140, 40);
    bench.press("a");
    let top = |bench: &mut Bench| bench.draw().lines().position(|line| line.contains("Launch"));
    let footer = |bench: &mut Bench| bench.draw().lines().last().unwrap_or_default().to_owned();
    let before = top(&mut bench);
    assert!(before.is_some() && footer(&mut bench).contains("Enter launch"));
    for key in ["<Down>", "l", "<Down>", "<Down>", "<Down>", "<Down>", "x"] {
        bench.press(key);
        assert_eq!(top(&mut bench), before, "{key}");
    }
    for (at, label) in [(Slot::Save, "Enter save"), (Slot::Replace, "Enter replace"), (Slot::Launch, "Enter launch")] {
        if let Some(Overlay::Form(form)) = bench.model.overlays.last_mut() {
            form.at = at;
        }
        let footer = footer(&mut bench);
        assert!(footer.contains(label), "{footer}");
    }
}
