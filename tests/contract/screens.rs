//! What `screen` and `resize` show and do, in a PTY and in tmux alike.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Batch;
use crate::rig::{Rig, until};

const HOSTS: [&str; 2] = ["pty", "tmux"];

fn screen(batch: &mut Batch, session: &str, scrollback: usize) -> (Vec<String>, (u64, u64)) {
    let screen = batch.ok(json!({"cmd": "screen", "session": session, "scrollback": scrollback}));
    let lines = screen["lines"].as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()).collect();
    (lines, (screen["cursor"][0].as_u64().unwrap(), screen["cursor"][1].as_u64().unwrap()))
}

fn size(batch: &mut Batch, session: &str) -> (u64, u64) {
    let screen = batch.ok(json!({"cmd": "screen", "session": session}));
    (screen["rows"].as_u64().unwrap(), screen["cols"].as_u64().unwrap())
}

/// Asks until the screen shows what is expected.
fn shows(batch: &mut Batch, session: &str, what: &str, expected: impl Fn(&[String], (u64, u64)) -> bool) {
    until(what, || {
        let (lines, cursor) = screen(batch, session, 0);
        expected(&lines, cursor)
    });
}

#[test]
fn a_terminal_has_the_size_that_was_asked_for() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    for host in HOSTS {
        for (rows, cols) in [(24, 80), (1, 2), (12, 40), (300, 500)] {
            let script = "stty size | tr ' ' x; sleep 3600";
            let session = batch.launch(json!({"command": script, "host": host, "rows": rows, "cols": cols}));
            if cols > 8 {
                assert_eq!(batch.expect_output(&session, "^\\d+x\\d+$"), format!("{rows}x{cols}"), "{host}");
            }
            assert_eq!(size(&mut batch, &session), (rows, cols), "{host}");
            assert_eq!(screen(&mut batch, &session, 0).0.len() as u64, rows, "{host}");
        }
        let session = batch.launch(json!({"command": "stty size | tr ' ' x; sleep 3600", "host": host}));
        assert_eq!(batch.expect_output(&session, "^\\d+x\\d+$"), "24x80", "{host}: the usual size");
    }
}

#[test]
fn text_and_cursor_are_where_they_belong() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    for host in HOSTS {
        let script =
            r"printf 'abc\n\n  indented\n\033[31mred\033[0m \033[1mbold\033[0m\033[7;11Hat\033[2;3H'; sleep 3600";
        let session = batch.launch(json!({"command": script, "host": host, "rows": 10, "cols": 40}));
        shows(&mut batch, &session, host, |_, cursor| cursor == (1, 2));
        let (lines, _) = screen(&mut batch, &session, 0);
        let expected = ["abc", "", "  indented", "red bold", "", "", "          at", "", "", ""];
        assert_eq!(lines, expected, "{host}");
    }
}

#[test]
fn wide_and_combining_characters_keep_their_places() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    for host in HOSTS {
        for (text, width) in
            [("模型", 4), ("e\u{301}x", 2), ("👍!", 3), ("ｶﾅ", 2), ("a\u{308}\u{323}模", 3), ("한글", 4)]
        {
            let session = batch
                .launch(json!({"command": ["sh", "-c", "printf %s \"$1\"; sleep 3600", "sh", text], "host": host}));
            shows(&mut batch, &session, &format!("{host}: {text}"), |_, cursor| cursor == (0, width));
            assert_eq!(screen(&mut batch, &session, 0).0[0], text, "{host}");
        }
        // A wide character that does not fit goes to the next line as a whole.
        let session = batch.launch(json!({"command": "printf a模型b; sleep 3600", "host": host, "rows": 4, "cols": 4}));
        shows(&mut batch, &session, host, |lines, _| lines[0] == "a模" && lines[1] == "型b");
        assert_eq!(batch.expect_output(&session, "a.+b"), "a模型b", "{host}");
    }
}

#[test]
fn a_launcher_without_a_locale_sees_the_same() {
    for locale in ["C", "POSIX", ""] {
        let rig = Rig::new();
        let mut command = rig.command(&["--batch"]);
        command.env("LC_ALL", locale).env_remove("LANG").stdin(Stdio::piped());
        let mut batch = Batch::start(command);
        for host in HOSTS {
            let script = "printf '模型 é 👍'; sleep 3600";
            let session = batch.launch(json!({"command": script, "host": host}));
            shows(&mut batch, &session, &format!("{host} in {locale:?}"), |lines, _| lines[0] == "模型 é 👍");
            batch.ok(json!({"cmd": "send", "session": session, "text": "ü"}));
            shows(&mut batch, &session, &format!("{host} in {locale:?}: typed"), |lines, _| lines[0].ends_with("👍ü"));
        }
    }
}

#[test]
fn history_comes_before_the_screen() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    for host in HOSTS {
        let session = batch.launch(json!({"command": "seq 50; sleep 3600", "host": host, "rows": 10}));
        shows(&mut batch, &session, host, |lines, _| lines[8] == "50");
        let (visible, _) = screen(&mut batch, &session, 0);
        assert_eq!((visible.len(), visible[0].as_str()), (10, "42"), "{host}");
        let (more, cursor) = screen(&mut batch, &session, 5);
        assert_eq!((more.len(), more[0].as_str(), cursor), (15, "37", (9, 0)), "{host}");
        let (all, _) = screen(&mut batch, &session, 100_000);
        assert_eq!((all.len(), all[0].as_str()), (51, "1"), "{host}");
    }
}

#[test]
fn a_resize_reaches_program_and_screen() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    for host in HOSTS {
        let script = "trap 'stty size | tr \" \" x' WINCH; printf '%060d\\n' 7; while :; do sleep 0.05; done";
        let session = batch.launch(json!({"command": script, "host": host}));
        batch.expect_output(&session, "^0{59}7$");
        for (rows, cols) in [(30, 100), (10, 20), (24, 80)] {
            batch.ok(json!({"cmd": "resize", "session": session, "rows": rows, "cols": cols}));
            batch.expect_output(&session, &format!("^{rows}x{cols}$"));
            assert_eq!(size(&mut batch, &session), (rows, cols), "{host}");
            // A line that had to be broken is one line still.
            assert_eq!(batch.expect_output(&session, "0{59}7$").len(), 60, "{host} at {cols}");
        }
    }
}

#[test]
fn no_size_costs_a_session() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    for host in HOSTS {
        let script = "printf '模型模型 e\\314\\201👩\\342\\200\\215💻 %0200d\\n' 1; cat";
        let session = batch.launch(json!({"command": script, "host": host}));
        batch.expect_output(&session, "01$");
        for (rows, cols) in [(1, 1), (1, 2), (50, 3), (2, 200), (1, 80), (24, 2), (200, 9), (24, 80)] {
            batch.ok(json!({"cmd": "resize", "session": session, "rows": rows, "cols": cols}));
            let (lines, (row, _)) = screen(&mut batch, &session, 1000);
            assert!(!lines.is_empty() && row < rows, "{host}: {rows} x {cols}");
        }
        batch.ok(json!({"cmd": "send", "session": session, "text": "still here", "keys": ["Enter"]}));
        batch.expect_output(&session, "^still here$");
    }
}

#[test]
fn a_bell_asks_for_attention() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    batch.ok(json!({"cmd": "subscribe"}));
    let session = batch.launch(json!({"command": "printf '\\a'; sleep 3600"}));
    let event: Value = batch.event("attention", |event| event["event"] == "attention");
    assert_eq!((&event["session"], &event["reason"]), (&json!(session), &json!("bell (a guess)")));
}

/// What looks like a question on a quiet screen is a guess, until somebody types; a server asks nobody.
#[test]
fn a_question_asks_for_attention() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    batch.ok(json!({"cmd": "subscribe"}));
    let asks = |batch: &mut Batch, session: &str| {
        let rows = batch.ok(json!({"cmd": "list"}))["sessions"].as_array().cloned().unwrap_or_default();
        rows.into_iter().find(|row| row["session"] == session).map(|row| row["attention"].clone()).unwrap()
    };
    let ask = "printf 'Continue? [y/N] '; read answer; echo went on; sleep 3600";
    batch.launch(json!({"command": ask, "kind": "serve", "host": "pty"}));
    for host in HOSTS {
        let session = batch.launch(json!({"command": ask, "kind": "agent", "host": host}));
        let event: Value =
            batch.event("attention", |event| event["event"] == "attention" && event["session"] == session);
        let reason = "prompt (a guess): Continue? [y/N]";
        assert_eq!((&event["session"], &event["reason"]), (&json!(session), &json!(reason)), "{host}");
        assert_eq!(event["state"], "waiting");
        let attention = asks(&mut batch, &session);
        assert_eq!((&attention["state"], &attention["guess"]), (&json!("waiting"), &json!(true)), "{attention}");
        batch.ok(json!({"cmd": "send", "session": session, "text": "y", "keys": ["Enter"]}));
        batch.expect_output(&session, "went on");
        assert_eq!(asks(&mut batch, &session), Value::Null);
    }
}

/// What is typed looks like a question and is none; what is asked in the same moment as it was typed is one.
#[test]
fn a_question_right_after_typing_asks_for_attention() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    batch.ok(json!({"cmd": "subscribe"}));
    let ask = "echo hello; read line; printf 'Continue? [y/N] '; read answer; sleep 3600";
    let sessions = HOSTS.map(|host| batch.launch(json!({"command": ask, "kind": "shell", "host": host})));
    for session in &sessions {
        batch.expect_output(session, "hello");
        batch.ok(json!({"cmd": "send", "session": session, "text": "is it [y/N]"}));
        batch.expect_output(session, "is it");
    }
    std::thread::sleep(Duration::from_secs(4));
    let rows = batch.ok(json!({"cmd": "list"}))["sessions"].as_array().cloned().unwrap();
    assert!(rows.len() == 2 && rows.iter().all(|row| row["attention"].is_null()), "{rows:?}");
    for session in &sessions {
        batch.ok(json!({"cmd": "send", "session": session, "keys": ["Enter"]}));
    }
    for session in &sessions {
        let event: Value =
            batch.event("attention", |event| event["event"] == "attention" && event["session"] == *session);
        assert_eq!(event["reason"], "prompt (a guess): Continue? [y/N]", "{event}");
    }
}

/// What a server printed before it failed is on its screen, whole, and not one line above it.
#[test]
fn a_fast_failure_keeps_its_text() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    for host in ["pty", "tmux"] {
        let command = "echo 'CUDA error: out of memory'; exit 1";
        let session = batch.launch(json!({"command": command, "kind": "serve", "host": host}));
        batch.ok(json!({"cmd": "wait", "session": session, "for": "exit", "timeout_s": 20}));
        until("the text", || {
            let screen = batch.ok(json!({"cmd": "screen", "session": session}));
            let lines = screen["lines"].as_array().cloned().unwrap_or_default();
            lines
                .first()
                .is_some_and(|line| line.as_str().is_some_and(|line| line.trim_end() == "CUDA error: out of memory"))
        });
    }
}
