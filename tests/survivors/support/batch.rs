//! A client of `--batch -`: one request, the answer with its id; events are collected beside.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use super::PATIENCE;
use super::check::rows;

/// A running manager.
pub(crate) struct Batch {
    pub(crate) child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    answers: Vec<Value>,
    events: Vec<Value>,
    next: u64,
}

impl Batch {
    /// Starts a manager and subscribes to its events.
    pub(crate) fn start(command: Command) -> Self {
        let mut batch = Self::begin(command);
        batch.ok(json!({ "cmd": "subscribe" }));
        batch
    }

    /// Starts a manager that may die before it answers anything.
    pub(crate) fn begin(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        Self { child, input, lines, answers: Vec::new(), events: Vec::new(), next: 0 }
    }

    /// Sends a request and returns its id. Whoever waits for the answer of one that has died is told there.
    pub(crate) fn send(&mut self, mut request: Value) -> u64 {
        self.next += 1;
        request["id"] = self.next.into();
        writeln!(self.input.as_mut().unwrap(), "{request}").ok();
        self.next
    }

    /// Returns the whole answer to a request.
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.answers.iter().position(|answer| answer["id"] == id) {
                return self.answers.swap_remove(at);
            }
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => self.sort(line),
                Err(RecvTimeoutError::Timeout) => panic!("no answer to request {id}"),
                Err(RecvTimeoutError::Disconnected) => panic!("the manager left without an answer to request {id}"),
            }
        }
    }

    /// Sends a request and returns its whole answer.
    pub(crate) fn request(&mut self, request: Value) -> Value {
        let id = self.send(request);
        self.answer(id)
    }

    /// Sends a request that must succeed and returns its result.
    #[track_caller]
    pub(crate) fn ok(&mut self, request: Value) -> Value {
        let shown = request.to_string();
        let mut answer = self.request(request);
        assert_eq!(answer["ok"], true, "{shown} was answered by {answer}");
        answer["result"].take()
    }

    /// Sends a request that must fail and returns its error.
    #[track_caller]
    pub(crate) fn error(&mut self, request: Value) -> Value {
        let shown = request.to_string();
        let mut answer = self.request(request);
        assert_eq!(answer["ok"], false, "{shown} was answered by {answer}");
        answer["error"].take()
    }

    /// Stops a session with more fields and returns the receipt.
    #[track_caller]
    pub(crate) fn stop(&mut self, session: &str) -> Value {
        self.ok(json!({ "cmd": "stop", "session": session }))
    }

    /// Returns the row of a session in `list`.
    #[track_caller]
    pub(crate) fn row(&mut self, session: &str) -> Value {
        let list = self.ok(json!({ "cmd": "list" }));
        let row = rows(&list, "sessions").find(|row| row["session"] == session).cloned();
        row.unwrap_or_else(|| panic!("no {session} in {list:#}"))
    }

    /// Returns how many signals were told of so far.
    pub(crate) fn signals(&mut self) -> usize {
        self.events().iter().filter(|event| event["event"] == "signal").count()
    }

    /// Returns the events that have come so far.
    pub(crate) fn events(&mut self) -> &[Value] {
        while let Ok(line) = self.lines.try_recv() {
            self.sort(line);
        }
        &self.events
    }

    /// Waits for an event.
    pub(crate) fn await_event(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = self.events.iter().find(|event| is_it(event)) {
                return found.clone();
            }
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => self.sort(line),
                Err(error) => panic!("no event {what}: {error}"),
            }
        }
    }

    fn sort(&mut self, line: Value) {
        if line.get("event").is_some() { self.events.push(line) } else { self.answers.push(line) }
    }

    /// Closes the input, which is a quit, and returns how the manager ended.
    pub(crate) fn finish(mut self) -> ExitStatus {
        drop(self.input.take());
        self.await_exit(PATIENCE).expect("the manager did not leave after the end of its input")
    }

    fn await_exit(&mut self, patience: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + patience;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// Waits for the end that a failpoint brings; an end of another kind means that it was never reached.
    #[cfg(feature = "failpoints")]
    #[track_caller]
    pub(crate) fn assert_dies(&mut self, point: &str) {
        use std::os::unix::process::ExitStatusExt;
        // What follows the requests is the end of the input, in case that the point is never reached.
        drop(self.input.take());
        // Of twenty hits it may be the last of as many stops, one after the other.
        let status = self.await_exit(3 * PATIENCE).unwrap_or_else(|| panic!("{point}: the manager did not leave"));
        assert_eq!(status.signal(), Some(6), "{point} was never reached: {status}");
    }

    /// Signals the manager.
    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until the manager has ended by itself.
    #[track_caller]
    pub(crate) fn await_end(&mut self) {
        assert!(self.await_exit(PATIENCE).is_some(), "the manager did not leave");
    }

    /// Ends the manager without a warning.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // A manager that is killed leaves its PTY sessions to their wardens.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
