//! The subcommands: one command each, its answer for people or as JSON.

use std::io::Write;
use std::sync::mpsc::Receiver;

use serde_json::{Value, json};

use super::args::Action;
use super::command::{Answer, CheckState, Command, OrphansRequest, StopRequest, WaitFor, WaitRequest};
use super::contract::HostKind;
use super::error::{AppError, ErrorKind, Exit};
use super::foreground::{self, Foreground};
use super::preview::targets;
use super::report;
use super::runtime::Runtime;
use crate::lifecycle::receipt::Receipt;
use crate::lifecycle::spawn::Spec;

/// Carries a subcommand out and returns how it ended.
pub fn run(runtime: &Runtime, action: &Action, interrupted: &Receiver<&'static str>) -> Exit {
    if let Action::Attach(of) = action {
        return attach(runtime, &of.session, of.output.json);
    }
    let Some((mut command, as_json)) = action.command() else { return Exit::Internal };
    if let (Command::Launch(request), Some((rows, cols))) = (&mut command, foreground::size()) {
        (request.rows, request.cols) = (Some(rows), Some(cols));
    }
    if let Action::Logs(logs) = action
        && logs.follow
    {
        return super::follow::follow(runtime, logs, interrupted);
    }
    if let (Command::Orphans(request), false) = (&mut command, as_json)
        && let Err(error) = preview_reaping(runtime, request)
    {
        return finish(&Err(error), as_json);
    }
    if let Action::Recipes(_) = action {
        // Its recipes are missed here first.
        runtime.untrusted_note().iter().for_each(|untrusted| note(untrusted));
    }
    let answer = action.listed().map_or_else(|| runtime.execute(&command), |socket| runtime.tmux_sessions_on(socket));
    let exit = finish(&answer, as_json);
    match answer {
        // In the foreground as its owner: a PTY session lives as long as we do.
        Ok(Answer::Launched(launched)) if launched.host == HostKind::Pty => {
            let lent = if as_json { None } else { Foreground::start(runtime, &launched.session) };
            let (exit, why) = stay(runtime, &launched.session, interrupted);
            drop(lent);
            if let Some(why) = why.filter(|_| !as_json) {
                std::io::stderr().write_all(format!("cookbook-tui: {why}").as_bytes()).ok();
            }
            exit
        }
        Ok(_) | Err(_) => exit,
    }
}

/// Prints whom a reaping would signal, before anybody is; exactly those are confirmed.
fn preview_reaping(runtime: &Runtime, request: &mut OrphansRequest) -> Result<(), AppError> {
    if request.reap != Some(true) || request.dry_run == Some(true) {
        return Ok(());
    }
    let plan = OrphansRequest { dry_run: Some(true), ..request.clone() };
    let Answer::Orphans(planned) = runtime.execute(&Command::Orphans(plan))? else { return Ok(()) };
    let plans: Vec<_> = planned.swept.iter().collect();
    let targets = targets(&plans);
    if !targets.is_empty() {
        for plan in plans.iter().filter_map(|receipt| receipt.plan.as_deref()) {
            say(&report::about_to(plan));
        }
    }
    request.confirm = Some(targets);
    Ok(())
}

/// Prints an answer and returns how that ends.
pub(super) fn finish(answer: &Result<Answer, AppError>, as_json: bool) -> Exit {
    match answer {
        Ok(answer) => {
            if as_json {
                say_json(&answer.to_value());
            } else {
                say(&report::text(answer));
            }
            match answer {
                Answer::Receipt(receipt) if receipt.plan.is_none() && !receipt.is_clean() => Exit::NotClean,
                Answer::Orphans(orphans) if !orphans.is_clean() => Exit::NotClean,
                Answer::Doctor(checks) if checks.iter().any(|check| check.state == CheckState::Fail) => Exit::Failed,
                Answer::Hello(_)
                | Answer::Orphans(_)
                | Answer::Held(_)
                | Answer::Extended(_)
                | Answer::Doctor(_)
                | Answer::Launched(_)
                | Answer::Waited(_)
                | Answer::List(..)
                | Answer::Tree(_)
                | Answer::Why(_)
                | Answer::Screen(_)
                | Answer::Logs(_)
                | Answer::Journal(_)
                | Answer::Receipt(_)
                | Answer::Restarted { .. }
                | Answer::Recipes(_)
                | Answer::TmuxSessions(..)
                | Answer::Draft(_)
                | Answer::Saved(_)
                | Answer::Noted(_)
                | Answer::Done => Exit::Ok,
            }
        }
        Err(error) => {
            complain(error, as_json);
            error.exit()
        }
    }
}

/// Prints an error: JSON on standard output where JSON was asked for, else text on standard error.
pub fn complain(error: &AppError, as_json: bool) {
    let message = crate::text::mask_text(&error.message);
    if as_json {
        let value: Value = json!({ "error": AppError { message: message.into_owned(), ..error.clone() } });
        say_json(&value);
    } else {
        let lines: Vec<_> = message.lines().map(crate::text::escape).collect();
        let text = format!("cookbook-tui: {}\n", lines.join("\n"));
        std::io::stderr().write_all(text.as_bytes()).ok();
    }
}

/// Prints something that is no answer, on standard error.
pub fn note(text: &str) {
    let text = format!("cookbook-tui: {}\n", crate::text::escape(&crate::text::mask_text(text)));
    std::io::stderr().write_all(text.as_bytes()).ok();
}

/// Prints; a reader that has left is no error of ours.
pub fn say(text: &str) {
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).ok();
}

/// Prints JSON on a line, which no terminal takes for more than text.
pub fn say_json(value: &Value) {
    say(&format!("{}\n", crate::text::escape_json(&value.to_string())));
}

fn attach(runtime: &Runtime, session: &str, as_json: bool) -> Exit {
    let argv = match runtime.attach(session) {
        Ok(argv) => argv,
        Err(error) => {
            complain(&error, as_json);
            return error.exit();
        }
    };
    let mut spec = Spec::new(argv);
    // A person who attaches from within tmux means it.
    spec.env_remove = vec!["TMUX".into()];
    let error = spec.exec();
    complain(&AppError::new(ErrorKind::Tmux, format!("failed to run tmux: {error}")), as_json);
    Exit::Failed
}

/// Owns a session until its workload ends; returns why that has failed, where it is known.
fn stay(runtime: &Runtime, session: &str, interrupted: &Receiver<&'static str>) -> (Exit, Option<String>) {
    let wait = |seconds| {
        let request =
            WaitRequest { session: session.to_owned(), what: WaitFor::Exit, regex: None, timeout_s: Some(seconds) };
        runtime.execute(&Command::Wait(request))
    };
    let code = loop {
        if interrupted.try_recv().is_ok() {
            break None;
        }
        match wait(0.2) {
            Ok(Answer::Waited(waited)) => break Some(waited.exit_code == Some(0)),
            Err(error) if error.kind == ErrorKind::Timeout => {}
            // Told to end: how the workload ends now is our doing.
            Ok(_) | Err(_) if runtime.is_closing() => break None,
            Ok(_) | Err(_) => break Some(false),
        }
    };
    let rows = if code == Some(false) { runtime.rows() } else { Vec::new() };
    let why = rows.iter().find(|row| row.session == session).and_then(report::end);
    // Of one that is told to end the next start tells how its session ended: nobody may look any more.
    let closed = if code.is_none() { runtime.close() } else { Vec::new() };
    let stopped = if closed.is_empty() {
        let stop = Command::Stop(StopRequest { session: session.to_owned(), ..StopRequest::default() });
        match runtime.execute(&stop) {
            Ok(Answer::Receipt(receipt)) if receipt.is_clean() => Exit::Ok,
            Ok(_) => Exit::NotClean,
            Err(error) => error.exit(),
        }
    } else if closed.iter().all(Receipt::is_clean) {
        Exit::Ok
    } else {
        Exit::NotClean
    };
    match code {
        Some(false) => (stopped.or(Exit::Failed), why),
        Some(true) | None => (stopped, None),
    }
}
