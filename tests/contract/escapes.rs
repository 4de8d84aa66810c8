//! Text that is not ours never steers a terminal, and JSON is valid whatever a process calls itself.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use base64::Engine as _;
use serde_json::{Value, json};

use crate::oracle::Bystanders;
use crate::rig::{Ran, Rig, until};

/// ESC, OSC with BEL, C1's CSI, a right-to-left override, an isolate, a line separator, DEL, a newline.
const EVIL: &str = "\u{1b}]0;T\u{7}\u{9b}31m\u{202e}\u{2066}\u{2028}\u{7f}\n";
/// The same in the fifteen bytes of a process name.
const EVIL_NAME: &str = "\u{1b}[31m\u{7}\u{9b}\u{202e}x";

fn is_steering(c: char) -> bool {
    (c.is_control() && c != '\n')
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Checks that what people get to see steers nothing.
fn check_clean(what: &str, bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).unwrap_or_else(|_| panic!("{what}: not UTF-8: {}", bytes.escape_ascii()));
    assert!(!text.contains(is_steering), "{what}: {}", text.escape_debug());
}

fn check_run(rig: &Rig, words: &[&str], code: i32) -> Ran {
    let ran = rig.run(words);
    assert_eq!(ran.code, Some(code), "{words:?}: {ran:?}");
    check_clean(&format!("{words:?}, output"), &ran.out);
    check_clean(&format!("{words:?}, errors"), &ran.err);
    ran
}

/// Launches a shell whose name, arguments, output and title are evil, with a zombie child that is, too.
fn evil_session(rig: &Rig) -> String {
    let evil = rig.path(EVIL_NAME);
    std::os::unix::fs::symlink("/bin/sleep", &evil).unwrap();
    // Its arguments are gone with its memory: only its name is left to show.
    let script = r#"printf '\033]2;title\007\033[31mred\033[0m\302\233x\342\200\256rtl\n'; "$1" 0.05 & exec "$1" "$2""#;
    // A name that is given cannot be evil; the one of a program can.
    let shell = rig.path(&format!("n{EVIL}"));
    std::os::unix::fs::symlink("/bin/sh", &shell).unwrap();
    let argv = [shell.to_str().unwrap(), "-c", script, "sh", evil.to_str().unwrap(), "3600"].map(str::to_owned);
    let launched = rig.launch_tmux(&["--kind", "serve"], &argv);
    launched["session"].as_str().unwrap().to_owned()
}

#[test]
fn people_see_no_foreign_control_characters() {
    let rig = Rig::new();
    let session = evil_session(&rig);
    let arguments = ["sh", "-c", "while :; do sleep 0.1; done", EVIL, "\u{9b}c", "\u{202e}abc"];
    let mut strangers = Bystanders::new(&arguments);
    let second = rig.launch_tmux(&["--name", "second"], &arguments.map(str::to_owned));
    // Somebody else's session on our server.
    rig.tmux(&["new-session", "-d", "-s", &format!("s{EVIL}"), "sleep 3600"]);
    rig.tmux(&["set-option", "-g", "set-titles-string", EVIL]);
    let screen = ["wait", &session, "--for", "output", "--regex", "rtl", "--timeout", "20"];
    check_run(&rig, &screen, 0);
    let tree = check_run(&rig, &["tree", &session], 0).text();
    assert!(tree.contains("\\x1b[31m"), "the name is shown, escaped: {tree}");
    let tree = check_run(&rig, &["tree", "second"], 0).text();
    let alike = tree.lines().filter(|line| line.starts_with("looks alike") && line.ends_with("\\u{202e}abc"));
    assert_eq!(alike.count(), 5, "{tree}");
    let list = check_run(&rig, &["ls"], 0).text();
    // Servers of somebody else may follow, after a blank line.
    let rows = list.lines().take_while(|line| !line.is_empty()).count();
    assert!(list.contains("n\\x1b]0;T") && rows == 3, "{list}");
    check_run(&rig, &["screen", &session], 0);
    check_run(&rig, &["logs", &session], 0);
    check_run(&rig, &["wait", &session, "--for", "output", "--regex", "red.*", "--timeout", "20"], 0);
    check_run(&rig, &["stop", &session, "--dry-run"], 0);
    check_run(&rig, &["sweep", &session], 3);
    let stopped = check_run(&rig, &["stop", &format!("n{EVIL}")], 0).text();
    assert!(stopped.contains("dead"), "{stopped}");
    check_run(&rig, &["restart", "second"], 0);
    check_run(&rig, &["stop", "second"], 0);
    assert_ne!(second["session"], json!(session));
    strangers.assert_alive();
}

#[test]
fn errors_are_escaped_as_well() {
    let rig = Rig::new();
    check_run(&rig, &["stop", EVIL], 4);
    check_run(&rig, &["launch", EVIL], 4);
    check_run(&rig, &["launch", "--cwd", EVIL, "--", "true"], 2);
    check_run(&rig, &["launch", "--name", EVIL, "--", "true"], 2);
    check_run(&rig, &["launch", "--", &format!("/no/{EVIL}")], 1);
    check_run(&rig, &["send", EVIL, "x"], 4);
    check_run(&rig, &["trust", EVIL], 2);
    check_run(&rig, &["--config", EVIL, "ls"], 2);
    check_run(&rig, &["--batch", EVIL], 2);
    check_run(&rig, &["--tmux-socket", EVIL, "ls"], 2);
    let config = rig.write("evil.toml", "[ui]\n\"\\u001b[31m\\u202e\" = 1\n");
    check_run(&rig, &["--config", config.to_str().unwrap(), "ls"], 2);
    let config = rig.write("evil2.toml", "[[recipe]]\nname = \"r\"\ncommand = [\"no-\\u009b\\u001b[31m\\u202e\"]\n");
    let listed = check_run(&rig, &["--config", config.to_str().unwrap(), "recipes"], 0).text();
    assert!(listed.contains("\\x1b[31m"), "{listed}");
}

#[test]
fn a_wrong_word_on_the_command_line_is_escaped() {
    let rig = Rig::new();
    check_run(&rig, &[EVIL], 2);
    check_run(&rig, &["ls", EVIL], 2);
    check_run(&rig, &[&format!("--{EVIL}")], 2);
    check_run(&rig, &["launch", "--kind", EVIL, "--", "true"], 2);
}

#[test]
fn json_is_valid_whatever_bytes_a_process_shows() {
    let rig = Rig::new();
    let nap = rig.nap();
    let ledger = rig.ledger("ledger");
    // Arguments that are no UTF-8: a byte from Latin-1, half a character, and a lone continuation.
    let script = format!("exec -a $'\\xff\\xfeodd\\xe6\\xa8' {}", ["sleep", &nap].join(" "));
    let launched = rig.launch_tmux(&["--kind", "serve"], &ledger.noted(&["bash", "-c", &script]));
    let session = launched["session"].as_str().unwrap();
    let workload = ledger.one();
    until("it calls itself odd", || {
        std::fs::read(format!("/proc/{}/cmdline", workload.pid)).unwrap().starts_with(b"\xff\xfeodd")
    });
    let raw = [b"\xff\xfeodd\xe6\xa8 ", nap.as_bytes()].concat();
    let check = |row: &Value| {
        let command = row["command"].as_str().unwrap();
        assert!(command.contains('\u{fffd}') && command.contains("odd"), "{row}");
        let bytes = base64::engine::general_purpose::STANDARD.decode(row["command_b64"].as_str().unwrap()).unwrap();
        assert_eq!(bytes.escape_ascii().to_string(), raw.escape_ascii().to_string());
    };
    check(&rig.json(&["tree", session])["processes"][0]);
    let text = check_run(&rig, &["tree", session], 0).text();
    assert!(text.contains("odd"), "{text}");
    rig.json(&["stop", session, "--dry-run"]);
    check(&rig.json(&["stop", session])["captured"][0]);
    workload.assert_ends();
}

/// JSON may reach a terminal as well.
#[test]
fn json_holds_no_steering_characters_as_they_are() {
    let rig = Rig::new();
    let name = "\u{9b}31m\u{202e}\u{7f}odd";
    let (nap, ledger) = (rig.nap(), rig.ledger("ledger"));
    let script = format!("exec -a '{name}' sleep {nap}");
    let argv = ledger.noted(&["bash", "-c", &script]);
    let mut batch = rig.batch();
    batch.ok(json!({ "cmd": "subscribe" }));
    let session = batch.launch(json!({ "command": argv, "host": "tmux", "kind": "serve" }));
    let workload = ledger.one();
    let is_odd = || std::fs::read(format!("/proc/{}/cmdline", workload.pid)).unwrap().starts_with(name.as_bytes());
    until("it calls itself odd", is_odd);
    let command = format!("{name} {nap}");
    for words in [&["tree", &session, "--json"][..], &["stop", &session, "--dry-run", "--json"]] {
        let ran = check_run(&rig, words, 0);
        assert!(ran.text().contains("\\u009b31m\\u202e\\u007fodd"), "{}", ran.text());
        let answer = &ran.lines()[0];
        let row = [&answer["processes"][0], &answer["captured"][0]].into_iter().find(|row| row.is_object());
        assert_eq!(row.unwrap()["command"], command, "{answer}");
    }
    let tree = batch.ok(json!({ "cmd": "tree", "session": session }));
    assert_eq!(tree["processes"][0]["command"], command);
    let receipt = batch.ok(json!({ "cmd": "stop", "session": session }));
    assert_eq!((&receipt["dead"], &receipt["captured"][0]["command"]), (&json!(true), &json!(command)));
    check_clean("the batch", &batch.raw);
    // Also where the characters are those of a request.
    check_run(&rig, &["stop", name, "--json"], 4);
    assert_eq!(batch.err(json!({ "cmd": "stop", "session": name })).0, "not_found");
    check_clean("the batch", &batch.raw);
    workload.assert_ends();
}

#[test]
fn raw_bytes_do_not_give_a_secret_away() {
    let rig = Rig::new();
    let ledger = rig.ledger("ledger");
    let script = "exec -a $'\\xff' sh -c 'while :; do sleep 0.1; done' server --api-key zqCanary8";
    let launched = rig.launch_tmux(&[], &ledger.noted(&["bash", "-c", script]));
    let session = launched["session"].as_str().unwrap();
    let workload = ledger.one();
    until("it calls itself odd", || {
        std::fs::read(format!("/proc/{}/cmdline", workload.pid)).unwrap().starts_with(b"\xff")
    });
    let ran = rig.run(&["tree", session, "--json"]);
    let tree = &ran.lines()[0];
    let row = tree["processes"].as_array().unwrap().iter().find(|row| row["pid"] == workload.pid).unwrap();
    assert!(row["command"].as_str().unwrap().contains("--api-key ***"), "{row}");
    let raw = row["command_b64"].as_str().map(|text| base64::engine::general_purpose::STANDARD.decode(text).unwrap());
    assert!(!raw.is_some_and(|raw| raw.windows(9).any(|window| window == b"zqCanary8")), "{row}");
}

#[test]
fn output_that_is_not_utf8_is_shown_and_logged_as_text() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    for host in ["pty", "tmux"] {
        let session =
            batch.launch(json!({"command": "printf 'a\\377b\\n\\303\\n'; echo end; sleep 3600", "host": host}));
        batch.expect_output(&session, "end");
        batch.ok(json!({"cmd": "screen", "session": session}));
        until("the log has it", || batch.ok(json!({"cmd": "logs", "session": session}))["lines"][2] == "end");
        let logs = batch.ok(json!({"cmd": "logs", "session": session}));
        assert_eq!(logs["lines"][0], "a\u{fffd}b", "{host}: {logs}");
    }
    assert!(std::str::from_utf8(&batch.raw).is_ok());
}

#[test]
fn a_directory_that_is_not_utf8_works() {
    let rig = Rig::new();
    let odd = rig.work().join(OsStr::from_bytes(b"odd\xff"));
    std::fs::create_dir(&odd).unwrap();
    let ledger = rig.ledger("ledger");
    let mut command = rig.command(&["launch", "--host", "tmux", "--json", "--"]);
    command.args(ledger.noted(&["sleep", &rig.nap()])).current_dir(&odd);
    let ran = Ran::of(command.spawn().unwrap());
    assert_eq!((ran.code, ran.lines().len()), (Some(0), 1), "{ran:?}");
    let workload = ledger.one();
    let cwd = std::fs::read_link(format!("/proc/{}/cwd", workload.pid)).unwrap();
    assert_eq!(cwd, odd);
    rig.json(&["ls"]);
    check_run(&rig, &["ls"], 0);
}
