//! `logs -f`: a log as it grows, also where it is turned over.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use serde_json::json;

use super::args::Logs;
use super::cli::{complain, say, say_json};
use super::command::{Command, WaitFor, WaitRequest};
use super::error::{ErrorKind, Exit};
use super::runtime::Runtime;
use crate::lifecycle::regular;
use crate::pty::older_log;

/// Prints the log and goes on as it grows. Only whole lines are printed, so neither a character nor an escape
/// sequence is torn.
pub(super) fn follow(runtime: &Runtime, logs: &Logs, interrupted: &Receiver<&'static str>) -> Exit {
    // Only the journal is asked for without a session, and it is not followed.
    let session = logs.session.as_deref().unwrap_or_default();
    let path = match runtime.log_path(session) {
        Ok(path) => path,
        Err(error) => {
            complain(&error, logs.output.json);
            return error.exit();
        }
    };
    let print = |lines: &[String]| {
        for line in lines {
            if logs.output.json {
                say_json(&json!({ "line": line }));
            } else {
                say(&format!("{}\n", crate::text::escape(line)));
            }
        }
    };
    let mut tail = Tail::new(path);
    let mut lines = tail.whole_lines();
    lines.drain(..logs.tail.map_or(0, |tail| lines.len().saturating_sub(tail)));
    print(&lines);
    while interrupted.try_recv().is_err() {
        let request =
            WaitRequest { session: session.to_owned(), what: WaitFor::Exit, regex: None, timeout_s: Some(0.0) };
        // Asked before the last read: what was printed before the end is in it.
        let over = !matches!(runtime.execute(&Command::Wait(request)), Err(error) if error.kind == ErrorKind::Timeout);
        let lines = tail.whole_lines();
        let idle = lines.is_empty();
        print(&lines);
        if over && idle {
            break;
        }
        if idle {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    print(&crate::text::plain_lines(&tail.partial));
    Exit::Ok
}

/// A log that is read as it grows.
struct Tail {
    path: PathBuf,
    /// The file that is being read, and its inode.
    file: Option<(File, u64)>,
    partial: Vec<u8>,
}

impl Tail {
    /// Begins with the older half, where there is one.
    fn new(path: PathBuf) -> Self {
        let file = open(&older_log(&path)).or_else(|| open(&path));
        Self { path, file, partial: Vec::new() }
    }

    /// Returns the lines that have become whole.
    fn whole_lines(&mut self) -> Vec<String> {
        loop {
            // Asked before the read: nobody writes to a file any more that has lost its name.
            let (current, older) = (inode(&self.path), inode(&older_log(&self.path)));
            let Some((file, own)) = self.file.as_mut() else {
                self.file = open(&self.path);
                if self.file.is_none() {
                    break;
                }
                continue;
            };
            let own = *own;
            let mut bytes = Vec::new();
            // What was read before an error counts.
            file.read_to_end(&mut bytes).ok();
            self.partial.extend(bytes);
            if current.is_none_or(|current| current == own) {
                break;
            }
            // Turned over more than once since, the older file is another one: it comes before the current one.
            let missed = older.filter(|older| *older != own).and_then(|_| open(&older_log(&self.path)));
            let Some(next) = missed.or_else(|| open(&self.path)) else { break };
            self.file = Some(next);
        }
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let rest = self.partial.split_off(end + 1);
        crate::text::plain_lines(&std::mem::replace(&mut self.partial, rest))
    }
}

fn open(path: &Path) -> Option<(File, u64)> {
    let file = regular::open(path).ok()?;
    let inode = file.metadata().ok()?.ino();
    Some((file, inode))
}

fn inode(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|metadata| metadata.ino())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::io::Write;

    use super::*;

    fn append(path: &Path, text: &str) {
        fs::OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn turn_over(path: &Path) {
        fs::rename(path, older_log(path)).unwrap();
    }

    #[test]
    fn no_line_is_lost_where_a_log_is_turned_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve-00000000.log");
        append(&path, "zero\n");
        turn_over(&path);
        append(&path, "one\ntw");
        let mut tail = Tail::new(path.clone());
        assert_eq!(tail.whole_lines(), ["zero", "one"]);
        // Written before the file lost its name, and read after it; the new one is longer already.
        append(&path, "o\nthree\nfo");
        turn_over(&path);
        append(&path, &format!("ur\n{}\n", "x".repeat(99)));
        assert_eq!(tail.whole_lines(), ["two", "three", "four", &"x".repeat(99)]);
        assert_eq!(tail.whole_lines(), [""; 0]);
        // Twice at once.
        append(&path, "five\n");
        turn_over(&path);
        append(&path, "six\n");
        assert_eq!(tail.whole_lines(), ["five", "six"]);
        // In the moment between the old and the new one.
        append(&path, "seven\n");
        turn_over(&path);
        assert_eq!(tail.whole_lines(), ["seven"]);
        append(&path, "eight\n");
        assert_eq!(tail.whole_lines(), ["eight"]);
        // A whole file came and went unseen: the last one of it that is left is shown, once.
        append(&path, "nine\n");
        turn_over(&path);
        append(&path, "ten\n");
        turn_over(&path);
        append(&path, "eleven\n");
        let lines = tail.whole_lines();
        assert_eq!(lines, ["nine", "ten", "eleven"]);
    }

    #[test]
    fn a_log_may_come_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve-00000000.log");
        let mut tail = Tail::new(path.clone());
        assert_eq!(tail.whole_lines(), [""; 0]);
        append(&path, "one\n");
        assert_eq!(tail.whole_lines(), ["one"]);
    }
}
