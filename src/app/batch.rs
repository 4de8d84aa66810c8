//! The batch: JSON Lines in, JSON Lines out, in strict order unless a line says `async`.
//!
//! Standard output carries nothing but answers and, once subscribed, events. One thread writes; a
//! reader that is slow loses events (and is told), never answers, and never delays a stop.

mod request;

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use serde_json::{Value, json};

use super::cli::note;
use super::command::{Answer, Command};
use super::error::{AppError, ErrorKind, Exit};
use super::runtime::Runtime;
use crate::lifecycle::door::has_left;
use crate::text::escape_json;
use request::{Id, Request, no_id};

/// Runs a batch to its end and returns how it ended.
pub fn run(
    runtime: &Runtime,
    input: impl Read + Send + 'static,
    fail_fast: bool,
    interrupted: &Receiver<&'static str>,
) -> Exit {
    let (lines, output) = (channel(), channel());
    spawn_reader(input, lines.0.clone());
    let (leaves, gone) = channel();
    let writer = spawn_writer(output.1, Leave { runtime: runtime.clone(), told: leaves.clone() });
    spawn_listener(Leave { runtime: runtime.clone(), told: leaves });
    let mut batch = Batch { runtime, output: output.0, exit: Arc::default(), running: Vec::new(), events: None };
    let mut number = 0;
    let mut quit = false;
    let mut why = None;
    while !quit {
        if let Ok(signal) = interrupted.try_recv() {
            why = Some(format!("ended by {signal} before the end of its input"));
            break;
        }
        if let Ok(reason) = gone.try_recv() {
            why = Some(reason);
            break;
        }
        let line = match lines.1.recv_timeout(std::time::Duration::from_millis(50)) {
            Ok(line) => line,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => continue,
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
        };
        let Some(line): Option<Line> = line else { break };
        number += 1;
        match line {
            Ok(line) if line.trim().is_empty() => continue,
            Ok(line) => quit = batch.line(&line, number),
            Err(error) => {
                batch.malformed(&no_id(), number, &AppError::new(ErrorKind::Usage, error));
            }
        }
        if fail_fast && batch.worst() != Exit::Ok {
            runtime.end_waits();
            break;
        }
    }
    batch.join();
    if why.is_none() {
        why = interrupted.try_recv().ok().map(|signal| format!("ended by {signal} before the last answer"));
    }
    batch.finish();
    let exit = batch.worst();
    drop(batch);
    // Only an answer that is lost counts now: who has read them all may go.
    let lost = writer.join().ok().flatten();
    let Some(why) = why.or(lost) else { return exit };
    note(&why);
    exit.or(Exit::Failed)
}

struct Batch<'a> {
    runtime: &'a Runtime,
    output: Sender<String>,
    exit: Arc<Mutex<Exit>>,
    running: Vec<JoinHandle<()>>,
    /// Writes the events, once subscribed.
    events: Option<JoinHandle<()>>,
}

impl Batch<'_> {
    /// Carries out one line; tells whether it was `quit`.
    fn line(&mut self, line: &str, number: usize) -> bool {
        let request = match Request::parse(line) {
            Ok(request) => request,
            Err((id, error)) => {
                self.malformed(&id, number, &error);
                return false;
            }
        };
        if matches!(request.command, Command::Quit {}) {
            self.runtime.end_waits();
            self.join();
            let receipts = self.runtime.close();
            for receipt in &receipts {
                self.note(of_receipt(receipt.is_clean()));
            }
            self.say(success(&request.id, &json!({ "receipts": receipts })));
            return true;
        }
        if matches!(request.command, Command::Subscribe {}) && self.events.is_none() {
            self.events = Some(self.forward_events());
            self.runtime.publish_earlier();
        }
        let (runtime, output, exit) = (self.runtime.clone(), self.output.clone(), Arc::clone(&self.exit));
        let work = move || {
            let answer = runtime.execute(&request.command);
            raise(&exit, judge(&answer));
            let value = match answer {
                Ok(answer) => success(&request.id, &answer.to_value()),
                Err(error) => failure(&request.id, &error),
            };
            output.send(value).ok();
        };
        if request.run_async {
            self.running.push(std::thread::spawn(work));
        } else {
            work();
        }
        false
    }

    /// Answers a line that could not be read; the rest still runs.
    fn malformed(&self, id: &Id, number: usize, error: &AppError) {
        let error = AppError { message: format!("line {number}: {}", error.message), ..error.clone() };
        self.note(in_batch(&error));
        self.say(failure(id, &error));
    }

    fn forward_events(&self) -> JoinHandle<()> {
        let (events, output) = (self.runtime.subscribe(), self.output.clone());
        std::thread::spawn(move || {
            for event in events {
                if output.send(event.to_value().to_string()).is_err() {
                    return;
                }
            }
        })
    }

    /// Waits for outstanding answers.
    fn join(&mut self) {
        for thread in self.running.drain(..) {
            if thread.join().is_err() {
                raise(&self.exit, Exit::Internal);
            }
        }
    }

    /// Quits, once there is no outstanding answer; what happened meanwhile is still told.
    fn finish(&mut self) {
        if has_left(std::io::stdout()) {
            self.runtime.set_unseen_end("whoever read its manager's answers went away");
        }
        for receipt in self.runtime.close() {
            self.note(of_receipt(receipt.is_clean()));
        }
        self.runtime.end_events();
        match self.events.take() {
            Some(events) => drop(events.join()),
            // What is found once is told once: nobody has asked here.
            None => self.runtime.take_earlier().iter().for_each(|line| note(line)),
        }
    }

    fn say(&self, line: String) {
        self.output.send(line).ok();
    }

    fn note(&self, exit: Exit) {
        raise(&self.exit, exit);
    }

    fn worst(&self) -> Exit {
        *self.exit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn raise(worst: &Mutex<Exit>, exit: Exit) {
    let mut worst = worst.lock().unwrap_or_else(PoisonError::into_inner);
    *worst = worst.or(exit);
}

/// Returns what an answer means for the exit code of a batch.
fn judge(answer: &Result<Answer, AppError>) -> Exit {
    match answer {
        Ok(Answer::Receipt(receipt) | Answer::Restarted { receipt, .. }) => {
            // A plan has done nothing yet.
            of_receipt(receipt.plan.is_some() || receipt.is_clean())
        }
        Ok(Answer::Orphans(orphans)) => of_receipt(orphans.is_clean()),
        Ok(_) => Exit::Ok,
        Err(error) => in_batch(error),
    }
}

/// In a batch a wrong request is a command that failed; exit code 2 is for the command line.
fn in_batch(error: &AppError) -> Exit {
    let exit = error.exit();
    if exit == Exit::Usage { Exit::Failed } else { exit }
}

fn of_receipt(clean: bool) -> Exit {
    if clean { Exit::Ok } else { Exit::NotClean }
}

/// A line of input, or why it is none.
type Line = Result<String, String>;

fn success(id: &Id, result: &Value) -> String {
    format!("{{\"id\":{id},\"ok\":true,\"result\":{result}}}")
}

fn failure(id: &Id, error: &AppError) -> String {
    let message = crate::text::mask_text(&error.message);
    let error = json!(AppError { message: message.into_owned(), ..error.clone() });
    format!("{{\"id\":{id},\"ok\":false,\"error\":{error}}}")
}

/// Reads lines; `None` marks the end of the input. Bytes that are no UTF-8 make a line malformed, not
/// the end; what cannot be read is the end, and said.
fn spawn_reader(input: impl Read + Send + 'static, lines: Sender<Option<Line>>) {
    std::thread::spawn(move || {
        let mut input = BufReader::new(input);
        loop {
            let mut line = Vec::new();
            let (line, is_last) = match input.read_until(b'\n', &mut line) {
                Ok(0) => break,
                Ok(_) => (String::from_utf8(line).map_err(|error| format!("not UTF-8: {error}")), false),
                Err(error) => (Err(format!("the input cannot be read on: {error}")), true),
            };
            if lines.send(Some(line)).is_err() {
                return;
            }
            if is_last {
                break;
            }
        }
        lines.send(None).ok();
    });
}

/// Why a batch ends whose answers nobody reads.
const UNREAD: &str = "whoever read its answers went away";

/// Ends a batch whose answers reach nobody.
struct Leave {
    runtime: Runtime,
    told: Sender<String>,
}

impl Leave {
    fn leave(&self, why: String) {
        self.runtime.set_unseen_end("whoever read its manager's answers went away");
        self.runtime.interrupt();
        self.told.send(why).ok();
    }
}

/// Writes the lines; returns why one was lost.
fn spawn_writer(lines: Receiver<String>, leave: Leave) -> JoinHandle<Option<String>> {
    std::thread::spawn(move || {
        let mut output = std::io::stdout().lock();
        for line in lines {
            let mut line = escape_json(&line).into_owned();
            line.push('\n');
            if let Err(error) = output.write_all(line.as_bytes()).and_then(|()| output.flush()) {
                let is_unread = error.kind() == std::io::ErrorKind::BrokenPipe;
                let why = if is_unread { UNREAD.to_owned() } else { format!("its answers cannot be written: {error}") };
                leave.leave(why.clone());
                return Some(why);
            }
        }
        None
    })
}

/// Waits until nobody reads standard output any more (poll(2)): a batch that has nothing to say would not learn of it.
fn spawn_listener(leave: Leave) {
    std::thread::spawn(move || {
        let output = std::io::stdout();
        loop {
            let mut ends = [PollFd::new(&output, PollFlags::empty())];
            match poll(&mut ends, None) {
                Ok(_) if ends[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) => {
                    return leave.leave(UNREAD.to_owned());
                }
                Err(rustix::io::Errno::INTR) => {}
                Ok(_) | Err(_) => return,
            }
        }
    });
}
