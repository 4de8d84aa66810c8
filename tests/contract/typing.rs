//! `send`: text and keys arrive as they were meant, shells have job control, and it works every time.

use std::fs;

use serde_json::{Value, json};

use crate::client::Batch;
use crate::oracle::{Ledger, Watched};
use crate::rig::{Rig, until};

const HOSTS: [&str; 2] = ["pty", "tmux"];
const BASH: [&str; 4] = ["bash", "--norc", "--noprofile", "-i"];

fn keys(batch: &mut Batch, session: &str, keys: &[&str]) {
    batch.ok(json!({"cmd": "send", "session": session, "keys": keys}));
}

fn type_line(batch: &mut Batch, session: &str, text: &str) {
    batch.ok(json!({"cmd": "send", "session": session, "text": text, "keys": ["Enter"]}));
}

/// Returns the fields of a process's stat after its name: state, ppid, pgrp, session, tty, tpgid.
fn stat(watched: &Watched) -> Vec<String> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", watched.pid)).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').map(str::to_owned).collect()
}

fn is_stopped(watched: &Watched) -> bool {
    stat(watched)[0] == "T"
}

/// Whether its group is the one that the terminal's keys go to.
fn is_foreground(watched: &Watched) -> bool {
    let stat = stat(watched);
    stat[2] == stat[5] && stat[0] == "S"
}

#[test]
fn text_arrives_byte_for_byte() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    let long = "0123456789abcdef ".repeat(400);
    let texts = [
        "C-c Enter #{pid} #(touch x) %1 $HOME `id` ~ {} [] \\; \\n ; && \"q\" 'q'",
        ";",
        "ends with ;",
        "-l",
        "--",
        "Enter",
        " leading and trailing ",
        "tab\tand\nnewline\r",
        "über 模型 e\u{301} 👍\u{200d}x",
        "\u{1b}[A\u{1}\u{7f}",
        long.as_str(),
    ];
    for host in HOSTS {
        for (index, text) in texts.iter().enumerate() {
            let (length, file) = (text.len(), rig.path(&format!("{host}{index}")));
            let script = format!("stty raw -echo; echo ready; head -c {length} > {}; sleep 3600", file.display());
            let session = batch.launch(json!({"command": script, "host": host}));
            batch.expect_output(&session, "ready");
            batch.ok(json!({"cmd": "send", "session": session, "text": text}));
            until(&format!("{host}: {text:?}"), || fs::read(&file).is_ok_and(|bytes| bytes.len() == length));
            assert_eq!(String::from_utf8(fs::read(&file).unwrap()).unwrap(), *text, "{host}");
        }
    }
}

#[test]
fn keys_arrive_as_a_terminal_sends_them() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    let cases: [(&[&str], &[u8]); 7] = [
        (&["Enter", "C-c", "Escape"], b"\r\x03\x1b"),
        (&["Up", "Down", "Right", "Left"], b"\x1b[A\x1b[B\x1b[C\x1b[D"),
        (&["Tab", "BSpace", "Space", "a", "Z"], b"\t\x7f aZ"),
        (&["M-x", "C-a", "C-z", "C-\\"], b"\x1bx\x01\x1a\x1c"),
        (&["F1", "F5", "F12"], b"\x1bOP\x1b[15~\x1b[24~"),
        (&["DC", "PageUp", "PageDown"], b"\x1b[3~\x1b[5~\x1b[6~"),
        (&[";", "\"", "'", "#", "~"], b";\"'#~"),
    ];
    for host in HOSTS {
        for (index, (names, bytes)) in cases.iter().enumerate() {
            let (length, file) = (bytes.len(), rig.path(&format!("{host}{index}")));
            let script = format!("stty raw -echo; echo ready; head -c {length} > {}; sleep 3600", file.display());
            let session = batch.launch(json!({"command": script, "host": host}));
            batch.expect_output(&session, "ready");
            keys(&mut batch, &session, names);
            until(&format!("{host}: {names:?}"), || fs::read(&file).is_ok_and(|read| read.len() == length));
            let read = fs::read(&file).unwrap();
            assert_eq!(read.escape_ascii().to_string(), bytes.escape_ascii().to_string(), "{host}: {names:?}");
        }
    }
}

/// Starts an interactive bash and waits until it reads.
fn bash(batch: &mut Batch, host: &str) -> String {
    let session = batch.launch(json!({"command": BASH, "host": host}));
    type_line(batch, &session, "echo shell-is-$((40+2))");
    batch.expect_output(&session, "shell-is-42");
    session
}

/// Types the fixture and returns the process that it became.
fn foreground(batch: &mut Batch, session: &str, ledger: &Ledger, nap: &str) -> Watched {
    type_line(batch, session, &ledger.noted_line(&format!("sleep {nap}")));
    ledger.one()
}

#[test]
fn control_c_interrupts_the_foreground_only() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    for host in HOSTS {
        let session = bash(&mut batch, host);
        let sleeper = foreground(&mut batch, &session, &rig.ledger(host), &rig.nap());
        keys(&mut batch, &session, &["C-c"]);
        sleeper.assert_ends();
        type_line(&mut batch, &session, "echo status-$?-$((1+1))");
        batch.expect_output(&session, "status-130-2");
    }
}

#[test]
fn jobs_are_stopped_and_continued() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    for host in HOSTS {
        let session = bash(&mut batch, host);
        let sleeper = foreground(&mut batch, &session, &rig.ledger(host), &rig.nap());
        until("it has the terminal", || is_foreground(&sleeper));
        keys(&mut batch, &session, &["C-z"]);
        until("it is stopped", || is_stopped(&sleeper));
        batch.expect_output(&session, "Stopped");
        type_line(&mut batch, &session, "bg");
        until("it goes on", || !is_stopped(&sleeper));
        type_line(&mut batch, &session, "echo still-$((40+2))");
        batch.expect_output(&session, "still-42");
        assert!(sleeper.is_alive() && !is_foreground(&sleeper));
        type_line(&mut batch, &session, "fg");
        until("it has the terminal again", || is_foreground(&sleeper));
        keys(&mut batch, &session, &["C-z"]);
        until("it is stopped again", || is_stopped(&sleeper));
        type_line(&mut batch, &session, "fg");
        until("it has the terminal once more", || is_foreground(&sleeper));
        keys(&mut batch, &session, &["C-c"]);
        sleeper.assert_ends();
    }
}

#[test]
fn arrows_move_through_line_and_history() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    for host in HOSTS {
        let session = bash(&mut batch, host);
        type_line(&mut batch, &session, "echo one-$((40+1))");
        batch.expect_output(&session, "^one-41$");
        keys(&mut batch, &session, &["Up", "Enter"]);
        batch.expect_output(&session, "(?s)^one-41$.*^one-41$");
        batch.ok(
            json!({"cmd": "send", "session": session, "text": "echo ac", "keys": ["Left", "b", "End", "d", "Enter"]}),
        );
        batch.expect_output(&session, "^abcd$");
        keys(&mut batch, &session, &["Up", "Up", "Down", "C-a", "C-e", "BSpace", "Enter"]);
        batch.expect_output(&session, "^abc$");
        keys(&mut batch, &session, &["C-d"]);
        batch.ok(json!({"cmd": "wait", "session": session, "for": "exit", "timeout_s": 20}));
    }
}

/// Launches many, types into each, and expects an answer of every one.
fn check_every(host: &str, count: usize, command: &Value, line: &str, expected: &str) {
    let rig = Rig::new();
    let mut batch = rig.batch();
    let launches: Vec<String> =
        (0..count).map(|_| batch.send(json!({"cmd": "launch", "command": command, "host": host}))).collect();
    let mut sessions = Vec::new();
    for id in launches {
        let answer = batch.answer(&id);
        let session = answer["result"]["session"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
        // At once: whoever waits for a prompt does not see what is lost before it.
        type_line(&mut batch, &session, line);
        sessions.push(session);
    }
    for (turn, session) in sessions.iter().enumerate() {
        let wait = json!({"cmd": "wait", "session": session, "for": "output", "regex": expected, "timeout_s": 25});
        let id = batch.send(wait);
        let answer = batch.answer(&id);
        assert_eq!(answer["ok"], json!(true), "{turn} of {count} in {host}: {answer}");
    }
    assert_eq!(batch.finish(), Some(0));
}

#[test]
fn a_read_gets_its_line_60_times_of_60_in_a_pty() {
    check_every("pty", 60, &json!(["sh", "-c", "read x && echo got:$x"]), "hello", "^got:hello$");
}

#[test]
fn a_read_gets_its_line_60_times_of_60_in_tmux() {
    check_every("tmux", 60, &json!(["sh", "-c", "read x && echo got:$x; sleep 3600"]), "hello", "^got:hello$");
}

#[test]
fn an_interactive_shell_works_60_times_of_60_in_a_pty() {
    check_every("pty", 60, &json!(BASH), "echo got-$((40+2))", "^got-42$");
}

#[test]
fn an_interactive_shell_works_60_times_of_60_in_tmux() {
    check_every("tmux", 60, &json!(BASH), "echo got-$((40+2))", "^got-42$");
}

#[test]
fn an_interactive_shell_has_its_terminal() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    for host in HOSTS {
        let session = bash(&mut batch, host);
        let text = batch.ok(json!({"cmd": "logs", "session": session})).to_string();
        for complaint in ["no job control", "cannot set terminal process group", "Inappropriate ioctl"] {
            assert!(!text.contains(complaint), "{host}: {text}");
        }
        type_line(&mut batch, &session, "tty >/dev/tty; echo interactive-$-");
        batch.expect_output(&session, "^/dev/pts/\\d+$");
        batch.expect_output(&session, "^interactive-.*i.*m");
        // Its environment fits its terminal.
        type_line(&mut batch, &session, "echo term-$TERM-$COOKBOOK_TUI_SESSION");
        let term = if host == "pty" { "xterm-256color" } else { "screen-256color" };
        batch.expect_output(&session, &format!("^term-{term}-{session}$"));
    }
}
