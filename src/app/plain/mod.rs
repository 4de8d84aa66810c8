//! The plain mode: the fourth face of the runtime, for screen readers and terminals that only print.
//!
//! What happens is printed as sentences, a line each: nothing is drawn anew, no cursor moves, no escape sequence is
//! written. What is typed, a line each, are the subcommands. Whatever signals is read out first, by the same dry run
//! as everywhere, and done to exactly those that were named, once somebody types yes. It works over a pipe as well
//! as on a terminal, and ends at the end of its input or when it is told to, with what lives in its PTYs.

mod sentence;
mod typed;

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::args::Action;
use super::command::{Answer, Command, StopRequest};
use super::contract::SessionRow;
use super::error::{AppError, ErrorKind, Exit};
use super::event::Event;
use super::preview::{confirmed, plans, rehearsal, targets};
use super::runtime::Runtime;
use super::tui::model::{Sessions, describe, receipt_line};
use crate::lifecycle::identity::Identity;
use crate::lifecycle::receipt::Receipt;
use crate::text::{escape, mask_text};
use typed::Asked;

/// Longest line that is read; what is longer is no command.
const LINE: u64 = 1 << 16;

/// Runs the plain mode to its end and returns how it ended.
pub(super) fn run(
    runtime: &Runtime,
    input: impl Read + Send + 'static,
    notes: &[String],
    interrupted: Receiver<&'static str>,
) -> Exit {
    // Stopped, we would hold up what runs in our PTYs; a handler, unlike an ignored signal, is not inherited.
    signal_hook::flag::register(signal_hook::consts::SIGTSTP, Arc::default()).ok();
    let (lines, heard) = channel();
    spawn_reader(input, lines.clone());
    std::thread::spawn(move || {
        if interrupted.recv().is_ok() {
            lines.send(Heard::End).ok();
        }
    });
    let (says, output) = channel();
    let writer = spawn_writer(output);
    let told = Arc::default();
    let events = tell_events(runtime, says.clone(), Arc::clone(&told));
    let mut plain = Plain { runtime: runtime.clone(), says, told, open: None };
    plain.greet(notes);
    let (starting, starts) = (runtime.clone(), Mutex::new(plain.says.clone()));
    let start = move || {
        starting.autostart(&|note| {
            let says = starts.lock().unwrap_or_else(PoisonError::into_inner);
            says.send(format!("Note: {}", escape(&note))).ok();
        });
    };
    let starting = std::thread::spawn(start);
    for heard in heard {
        match heard {
            Heard::Line(line) => {
                if plain.line(&line) {
                    break;
                }
            }
            Heard::NoText => plain.say("That line is no text in UTF-8, or too long; nothing was done."),
            Heard::End => break,
        }
    }
    let mut exit = Exit::Ok;
    for receipt in runtime.close() {
        if !receipt.is_clean() {
            exit = Exit::NotClean;
        }
        plain.tell(&receipt);
    }
    runtime.end_events();
    events.join().ok();
    starting.join().ok();
    drop(plain);
    writer.join().ok();
    exit
}

/// What comes in.
enum Heard {
    Line(String),
    NoText,
    End,
}

/// A question that is open.
enum Open {
    /// A command that signals, and whom its preview named.
    Act(Box<Command>, Vec<Identity>),
    Quit,
}

struct Plain {
    runtime: Runtime,
    says: Sender<String>,
    /// Receipts that were told: each comes as an answer and as an event.
    told: Arc<Mutex<Vec<Receipt>>>,
    open: Option<Open>,
}

impl Plain {
    fn greet(&self, notes: &[String]) {
        let rows = self.runtime.rows();
        let sessions = if rows.len() == 1 { "session" } else { "sessions" };
        self.say(&format!("cookbook-tui in plain mode, {} {sessions}. Type help for the commands.", rows.len()));
        for note in notes {
            self.say(&format!("Note: {}", escape(note)));
        }
        for row in &rows {
            self.say(&sentence::session(row));
        }
    }

    /// Carries out what was typed; tells whether it was the end.
    fn line(&mut self, line: &str) -> bool {
        if let Some(open) = self.open.take() {
            if line.trim() != "yes" {
                self.say("Not confirmed; everything is as it was.");
                return false;
            }
            match open {
                Open::Quit => return true,
                Open::Act(command, targets) => self.act(*command, targets),
            }
            return false;
        }
        match typed::read(line) {
            Ok(Asked::Nothing) => {}
            Ok(Asked::Help) => self.say(&typed::help()),
            Ok(Asked::Quit) => return self.quit(),
            Ok(Asked::Action(action)) => self.ask(&action),
            Err(why) => self.say(&why),
        }
        false
    }

    fn ask(&mut self, action: &Action) {
        let Some((command, _)) = action.command() else { return };
        if rehearsal(&command).is_some() {
            return self.preview(command);
        }
        let execute = || self.runtime.execute(&command);
        match action.listed().map_or_else(execute, |socket| self.runtime.tmux_sessions_on(socket)) {
            Ok(Answer::Receipt(plan)) if plan.plan.is_some() => self.say(&sentence::preview("It", &[&plan])),
            Ok(answer) => self.say(&sentence::answer(&answer)),
            Err(error) => self.complain(&error),
        }
    }

    /// Reads out what a command would do, and leaves the question open.
    fn preview(&mut self, command: Command) {
        let Some(rehearsed) = rehearsal(&command) else { return };
        let answer = match self.runtime.execute(&rehearsed) {
            Ok(answer) => answer,
            Err(error) => return self.complain(&error),
        };
        let plans = plans(&answer);
        self.say(&sentence::preview(&title(&command), &plans));
        self.open = Some(Open::Act(Box::new(command), targets(&plans)));
    }

    /// Does what was confirmed. Where more has come meanwhile than may be signalled unseen, it is read out anew.
    fn act(&mut self, command: Command, targets: Vec<Identity>) {
        match self.runtime.execute(&confirmed(command.clone(), targets)) {
            Ok(Answer::Receipt(receipt)) => self.tell(&receipt),
            Ok(Answer::Restarted { receipt, launched }) => {
                self.tell(&receipt);
                self.say(&sentence::answer(&Answer::Launched(launched)));
            }
            Ok(answer) => self.say(&sentence::answer(&answer)),
            Err(error) => {
                self.complain(&error);
                if error.kind == ErrorKind::Refused {
                    self.preview(command);
                }
            }
        }
    }

    fn quit(&mut self) -> bool {
        let rows = self.runtime.rows();
        let ours = rows.iter().filter(|row| row.may_end_with_us()).map(|row| (row, self.count_ending(row)));
        let ending = ours.filter(|(row, count)| !row.phase.is_over() || *count > 0);
        let name = |(row, count): (&SessionRow, usize)| {
            let processes = if count == 1 { "process" } else { "processes" };
            format!("{} ({}, {count} {processes})", escape(&row.name), row.session)
        };
        let names: Vec<String> = ending.map(name).collect();
        if names.is_empty() {
            self.say("Nothing ends with this program; sessions in tmux stay.");
            return true;
        }
        self.say(&format!("Quitting ends {}; sessions in tmux stay.", names.join(", ")));
        self.say("Type yes to quit; anything else leaves everything as it is.");
        self.open = Some(Open::Quit);
        false
    }

    /// Returns how many processes end with a session: what is kept stays.
    fn count_ending(&self, row: &SessionRow) -> usize {
        let dry_run = StopRequest { session: row.session.clone(), dry_run: Some(true), ..StopRequest::default() };
        match self.runtime.execute(&Command::Stop(dry_run)) {
            Ok(Answer::Receipt(receipt)) => receipt.plan.iter().flatten().filter(|row| row.signal.is_some()).count(),
            Ok(_) | Err(_) => row.processes,
        }
    }

    /// Tells a receipt, unless that was done.
    fn tell(&self, receipt: &Receipt) {
        let rows = self.runtime.rows();
        let name = rows.iter().find(|row| row.session == receipt.session).map(|row| row.name.as_str());
        if is_new(&self.told, receipt) {
            self.say(&told(receipt, name.unwrap_or(&receipt.session)));
        }
    }

    fn complain(&self, error: &AppError) {
        let message = mask_text(&error.message);
        let lines: Vec<_> = message.lines().map(escape).collect();
        self.say(&format!("That did not work: {}", lines.join("\n")));
    }

    fn say(&self, text: &str) {
        self.says.send(text.to_owned()).ok();
    }
}

/// Names an act and its session.
fn title(command: &Command) -> String {
    #[expect(clippy::wildcard_enum_match_arm, reason = "only these are previewed")]
    let (act, session) = match command {
        Command::Stop(of) if of.force == Some(true) => ("Force stop", Some(&of.session)),
        Command::Stop(of) => ("Stop", Some(&of.session)),
        Command::Restart(of) => ("Restart", Some(&of.session)),
        Command::Orphans(of) => ("Reaping", of.session.as_ref()),
        Command::Sweep(of) => ("Sweep", of.session.as_ref()),
        _ => ("It", None),
    };
    session.map_or_else(|| act.to_owned(), |session| format!("{act} of {}", escape(session)))
}

/// Returns a receipt in a sentence, and what is not as it should be in more.
fn told(receipt: &Receipt, name: &str) -> String {
    let (_, line) = receipt_line(receipt, name);
    let line = format!("{}.", escape(&line));
    if receipt.is_clean() { line } else { format!("{line}\n{}", super::report::receipt(receipt).trim_end()) }
}

fn is_new(told: &Mutex<Vec<Receipt>>, receipt: &Receipt) -> bool {
    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
    let new = !told.contains(receipt);
    if new {
        told.push(receipt.clone());
        // An answer and its event come close to each other.
        let many = told.len().saturating_sub(32);
        told.drain(..many);
    }
    new
}

fn tell_events(runtime: &Runtime, says: Sender<String>, heard: Arc<Mutex<Vec<Receipt>>>) -> JoinHandle<()> {
    let (events, runtime) = (runtime.subscribe(), runtime.clone());
    std::thread::spawn(move || {
        let mut sessions = Sessions::default();
        for numbered in events {
            let event = numbered.event;
            let rows = runtime.rows();
            // Whoever has left the list is still called by its name.
            if event.session().is_none_or(|id| rows.iter().any(|row| row.session == id)) {
                sessions.replace(rows);
            }
            let text = if let Event::Receipt { session, receipt } = &event {
                let name = sessions.by_id(session).map_or(session.as_str(), |row| row.name.as_str());
                is_new(&heard, receipt).then(|| told(receipt, name))
            } else {
                let (_, text, notable) = describe(&event, &sessions);
                notable.then(|| format!("{}.", escape(&text)))
            };
            if text.is_some_and(|text| says.send(text).is_err()) {
                return;
            }
        }
    })
}

fn spawn_reader(input: impl Read + Send + 'static, lines: Sender<Heard>) {
    std::thread::spawn(move || {
        let mut input = BufReader::new(input);
        loop {
            let mut line = Vec::new();
            let heard = match (&mut input).take(LINE).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => Heard::End,
                Ok(length) if length as u64 == LINE && line.last() != Some(&b'\n') => Heard::NoText,
                Ok(_) => String::from_utf8(line).map_or(Heard::NoText, Heard::Line),
            };
            let ends = matches!(heard, Heard::End);
            if lines.send(heard).is_err() || ends {
                return;
            }
        }
    });
}

fn spawn_writer(texts: Receiver<String>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut output = std::io::stdout().lock();
        for mut text in texts {
            text.push('\n');
            // A reader that has left ends the words, not the work.
            if output.write_all(text.as_bytes()).and_then(|()| output.flush()).is_err() {
                return;
            }
        }
    })
}
