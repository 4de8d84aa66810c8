//! The subcommands: one command each, its answer for people or as JSON.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use serde_json::{Value, json};

use super::args::Action;
use super::command::{Answer, CheckState, Command, StopRequest, WaitFor, WaitRequest};
use super::contract::HostKind;
use super::error::{AppError, ErrorKind, Exit};
use super::report;
use super::runtime::Runtime;
use crate::lifecycle::spawn::Spec;

/// Carries a subcommand out and returns how it ended.
pub fn run(runtime: &Runtime, action: &Action, interrupted: &Receiver<()>) -> Exit {
    if let Action::Attach(of) = action {
        return attach(runtime, &of.session);
    }
    let Some((command, as_json)) = action.command() else { return Exit::Internal };
    if let Action::Logs(logs) = action
        && logs.follow
    {
        return follow(runtime, &logs.session, &command, interrupted);
    }
    let answer = runtime.execute(&command);
    let exit = finish(&answer, as_json);
    match answer {
        // In the foreground as its owner: a PTY session lives as long as we do.
        Ok(Answer::Launched(launched)) if launched.host == HostKind::Pty => {
            stay(runtime, &launched.session, interrupted)
        }
        Ok(_) | Err(_) => exit,
    }
}

fn finish(answer: &Result<Answer, AppError>, as_json: bool) -> Exit {
    match answer {
        Ok(answer) => {
            if as_json {
                say(&format!("{}\n", answer.to_value()));
            } else {
                say(&report::text(answer));
            }
            match answer {
                Answer::Receipt(receipt) if receipt.plan.is_none() && !receipt.is_clean() => Exit::NotClean,
                Answer::Orphans(orphans) if orphans.swept.iter().any(|receipt| !receipt.is_clean()) => Exit::NotClean,
                Answer::Doctor(checks) if checks.iter().any(|check| check.state == CheckState::Fail) => Exit::Failed,
                Answer::Hello(_)
                | Answer::Orphans(_)
                | Answer::Extended(_)
                | Answer::Doctor(_)
                | Answer::Launched(_)
                | Answer::Waited(_)
                | Answer::List(_)
                | Answer::Tree(_)
                | Answer::Screen(_)
                | Answer::Logs(_)
                | Answer::Receipt(_)
                | Answer::Restarted { .. }
                | Answer::Recipes(_)
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
        let value: Value = json!({ "error": { "kind": error.kind, "message": message } });
        say(&format!("{value}\n"));
    } else {
        let line = format!("cookbook-tui: {}\n", crate::text::escape(&message));
        std::io::stderr().write_all(line.as_bytes()).ok();
    }
}

/// Prints; a reader that has left is no error of ours.
pub fn say(text: &str) {
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).ok();
}

fn attach(runtime: &Runtime, session: &str) -> Exit {
    let argv = match runtime.attach(session) {
        Ok(argv) => argv,
        Err(error) => {
            complain(&error, false);
            return error.exit();
        }
    };
    let mut spec = Spec::new(argv);
    // A person who attaches from within tmux means it.
    spec.env_remove = vec!["TMUX".into()];
    let error = spec.exec();
    complain(&AppError::new(ErrorKind::Tmux, format!("failed to run tmux: {error}")), false);
    Exit::Failed
}

fn stay(runtime: &Runtime, session: &str, interrupted: &Receiver<()>) -> Exit {
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
            Ok(_) | Err(_) => break Some(false),
        }
    };
    let stop = Command::Stop(StopRequest { session: session.to_owned(), ..StopRequest::default() });
    let stopped = match runtime.execute(&stop) {
        Ok(Answer::Receipt(receipt)) if receipt.is_clean() => Exit::Ok,
        Ok(_) => Exit::NotClean,
        Err(error) => error.exit(),
    };
    match code {
        Some(false) => stopped.or(Exit::Failed),
        Some(true) | None => stopped,
    }
}

fn follow(runtime: &Runtime, session: &str, command: &Command, interrupted: &Receiver<()>) -> Exit {
    let answer = runtime.execute(command);
    let exit = finish(&answer, false);
    let (Ok(_), Ok(path)) = (answer, runtime.log_path(session)) else { return exit };
    let Ok(mut file) = File::open(&path) else { return exit };
    if file.seek(SeekFrom::End(0)).is_err() {
        return exit;
    }
    while interrupted.try_recv().is_err() {
        let mut bytes = Vec::new();
        if file.read_to_end(&mut bytes).is_err() {
            return Exit::Failed;
        }
        for line in crate::text::plain_lines(&bytes) {
            say(&format!("{}\n", crate::text::escape(&line)));
        }
        if bytes.is_empty() {
            let request =
                WaitRequest { session: session.to_owned(), what: WaitFor::Exit, regex: None, timeout_s: Some(0.0) };
            if runtime.execute(&Command::Wait(request)).is_ok() {
                return exit;
            }
            // A log that was turned over starts anew under the same name.
            let turned = std::fs::metadata(&path).ok().zip(file.stream_position().ok());
            if turned.is_some_and(|(now, at)| now.len() < at)
                && let Ok(new) = File::open(&path)
            {
                file = new;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    exit
}
