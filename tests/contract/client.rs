//! A batch that is talked to: requests with ids, answers by id, events as they come.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::rig::{DEADLINE, wait};
use crate::schema;

/// A running `cookbook-tui --batch`.
pub(crate) struct Batch {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    answers: BTreeMap<String, Value>,
    /// The commands of the requests that were sent, by id.
    commands: BTreeMap<String, String>,
    /// Every event so far, in the order of arrival.
    pub(crate) events: Vec<Value>,
    /// Every byte so far.
    pub(crate) raw: Vec<u8>,
    last_id: u64,
}

impl Batch {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = channel();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            loop {
                let mut line = Vec::new();
                match output.read_until(b'\n', &mut line) {
                    Ok(0) | Err(_) => return,
                    Ok(_) if sender.send(line).is_err() => return,
                    Ok(_) => {}
                }
            }
        });
        let input = child.stdin.take();
        Self {
            child,
            input,
            lines,
            answers: BTreeMap::new(),
            commands: BTreeMap::new(),
            events: Vec::new(),
            raw: Vec::new(),
            last_id: 0,
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Writes a line as it is.
    pub(crate) fn line(&mut self, line: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line).unwrap();
        input.write_all(b"\n").unwrap();
        input.flush().unwrap();
    }

    /// Sends a request and returns the id that its answer will have.
    pub(crate) fn send(&mut self, mut request: Value) -> String {
        self.last_id += 1;
        let id = format!("r{}", self.last_id);
        request["id"] = json!(id);
        self.commands.insert(id.clone(), request["cmd"].as_str().unwrap_or_default().to_owned());
        self.line(request.to_string().as_bytes());
        id
    }

    /// Takes in one more line; `false` when there is none within the time.
    fn pump(&mut self, patience: Duration) -> bool {
        let line = match self.lines.recv_timeout(patience) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return false,
        };
        self.raw.extend(&line);
        let value: Value =
            serde_json::from_slice(&line).unwrap_or_else(|_| panic!("not JSON: {:?}", String::from_utf8_lossy(&line)));
        if value.get("event").is_some() {
            schema::check("event", &value);
            self.events.push(value);
        } else {
            let id = value["id"].as_str().unwrap_or_default().to_owned();
            schema::check("answer", &value);
            if let (Some(command), true) = (self.commands.get(&id), value["ok"] == json!(true)) {
                schema::check(&format!("results/{command}"), &value["result"]);
            }
            self.answers.insert(id, value);
        }
        true
    }

    /// Waits for the answer to an id.
    pub(crate) fn answer(&mut self, id: &str) -> Value {
        let end = Instant::now() + DEADLINE;
        loop {
            if let Some(answer) = self.answers.remove(id) {
                return answer;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(self.pump(left), "no answer to {id}; so far: {}", String::from_utf8_lossy(&self.raw));
        }
    }

    /// Tells whether an answer is there already.
    pub(crate) fn has_answer(&mut self, id: &str) -> bool {
        while self.pump(Duration::from_millis(1)) {}
        self.answers.contains_key(id)
    }

    /// Sends a request and waits for its answer, which must be a success.
    pub(crate) fn ok(&mut self, request: Value) -> Value {
        schema::check("request", &request);
        let shown = request.to_string();
        let id = self.send(request);
        let mut answer = self.answer(&id);
        assert_eq!(answer["ok"], json!(true), "{shown}: {answer}");
        answer["result"].take()
    }

    /// Sends a request and waits for its answer, which must be a failure: its kind and message.
    pub(crate) fn err(&mut self, request: Value) -> (String, String) {
        let shown = request.to_string();
        let id = self.send(request);
        let answer = self.answer(&id);
        assert_eq!(answer["ok"], json!(false), "{shown}: {answer}");
        let text = |key: &str| answer["error"][key].as_str().unwrap().to_owned();
        (text("kind"), text("message"))
    }

    /// Launches and returns the id of the session.
    pub(crate) fn launch(&mut self, mut fields: Value) -> String {
        fields["cmd"] = json!("launch");
        self.ok(fields)["session"].as_str().unwrap().to_owned()
    }

    /// Waits until a session has printed something.
    pub(crate) fn expect_output(&mut self, session: &str, regex: &str) -> String {
        let wait = json!({"cmd": "wait", "session": session, "for": "output", "regex": regex, "timeout_s": 25});
        self.ok(wait)["match"].as_str().unwrap().to_owned()
    }

    /// Waits for an event; those that came before count.
    pub(crate) fn event(&mut self, what: &str, matches: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + DEADLINE;
        let mut looked = 0;
        loop {
            if let Some(found) = self.events[looked..].iter().find(|event| matches(event)) {
                return found.clone();
            }
            looked = self.events.len();
            let left = end.saturating_duration_since(Instant::now());
            assert!(self.pump(left), "no event {what}; so far: {:#?}", self.events);
        }
    }

    /// Ends the input.
    pub(crate) fn close(&mut self) {
        self.input.take();
    }

    /// Ends the input, waits for the end, and returns the exit code.
    pub(crate) fn finish(&mut self) -> Option<i32> {
        self.close();
        self.ended()
    }

    /// Waits for the end, takes in the rest of the output, and returns the exit code.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let code = wait(&mut self.child);
        while self.pump(Duration::from_secs(2)) {}
        code
    }

    /// Sends the program a signal, as a terminal or a supervisor would.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
