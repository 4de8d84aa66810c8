//! `notify`: what an agent's hooks say from inside a session reaches every manager, and whoever looks later.

use serde_json::{Value, json};

use crate::client::Batch;
use crate::rig::{Rig, until};

const HOSTS: [&str; 2] = ["pty", "tmux"];
const NOTIFY: &str = concat!(env!("CARGO_BIN_EXE_cookbook-tui"), " notify");

/// An agent that does what it is told, line by line.
const AGENT: [&str; 3] = ["sh", "-c", "while read -r line; do eval \"$line\"; done"];

fn tell(batch: &mut Batch, session: &str, line: &str) {
    batch.ok(json!({"cmd": "send", "session": session, "text": line, "keys": ["Enter"]}));
}

/// Returns what a session asks attention for, as its manager says.
fn attention(batch: &mut Batch, session: &str) -> Value {
    let list = batch.ok(json!({"cmd": "list"}));
    let rows = list["sessions"].as_array().unwrap();
    rows.iter().find(|row| row["session"] == session).unwrap()["attention"].clone()
}

/// Returns the same, as somebody says who comes later and has no part in it.
fn seen_elsewhere(rig: &Rig, session: &str) -> Value {
    let list = rig.json(&["ls"]);
    list["sessions"].as_array().unwrap().iter().find(|row| row["session"] == session).unwrap()["attention"].clone()
}

/// Waits for an event of a session that it asks for attention.
fn asks(batch: &mut Batch, session: &str, state: &str) -> Value {
    let is = |event: &Value| event["event"] == "attention" && event["session"] == session && event["state"] == state;
    batch.event(&format!("{session} asks: {state}"), is)
}

#[test]
fn notify_takes_a_unique_name_and_an_id_before_a_name() {
    let rig = Rig::new();
    let nap = rig.nap();
    let launch = |name: &str| {
        let launched = rig.launch_tmux(&["--name", name], &["sleep".into(), nap.clone()]);
        launched["session"].as_str().unwrap().to_owned()
    };
    let (one, two) = (launch("one"), launch("two"));
    let notify = |session: &str| rig.run(&["notify", "--state", "done", "--session", session, "--json"]);
    assert_eq!(notify("one").lines()[0]["session"], one.as_str());
    assert_eq!(seen_elsewhere(&rig, &one)["state"], "done");
    assert_eq!(notify(&two).lines()[0]["session"], two.as_str());
    // Whoever is named like another's id is not meant by it.
    let third = launch(&one);
    assert_eq!(notify(&one).lines()[0]["session"], one.as_str());
    let fourth = launch("two");
    let ran = notify("two");
    let message = ran.lines()[0]["error"]["message"].as_str().unwrap().to_owned();
    assert!(ran.code == Some(2) && message.contains(&two) && message.contains(&fourth), "{ran:?}");
    assert_eq!(notify("tw").code, Some(4));
    assert_eq!(seen_elsewhere(&rig, &third), Value::Null);
}

#[test]
fn an_agent_says_how_it_is() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    batch.ok(json!({"cmd": "subscribe"}));
    for host in HOSTS {
        let session = batch.launch(json!({"command": AGENT, "kind": "agent", "host": host, "name": host}));
        assert_eq!(attention(&mut batch, &session), Value::Null);
        tell(&mut batch, &session, &format!("{NOTIFY} --state waiting --message 'may I run make?'"));
        let event = asks(&mut batch, &session, "waiting");
        assert_eq!(event["reason"], "waiting: may I run make?");
        let mine = attention(&mut batch, &session);
        for attention in [&mine, &seen_elsewhere(&rig, &session)] {
            let said = (&attention["state"], &attention["message"], &attention["verified"], &attention["guess"]);
            assert_eq!(said, (&json!("waiting"), &json!("may I run make?"), &json!(true), &json!(false)), "{host}");
            assert!((0.0..30.0).contains(&attention["since_s"].as_f64().unwrap()), "{attention}");
        }
        // A wheel that turns over it is no answer.
        batch.ok(json!({"cmd": "send", "session": session, "text": "\u{1b}[<64;1;1M"}));
        assert_eq!(attention(&mut batch, &session)["state"], "waiting", "{host}");
        // Somebody types: it is answered, here and for everybody; what is asked in return is not.
        tell(&mut batch, &session, "\u{15}true");
        assert_eq!(attention(&mut batch, &session), Value::Null, "{host}");
        assert_eq!(seen_elsewhere(&rig, &session), Value::Null, "{host}");
        tell(
            &mut batch,
            &session,
            &format!("{NOTIFY} --state done && {NOTIFY} --state working && echo works-$((40+2))"),
        );
        batch.expect_output(&session, "works-42");
        assert_eq!(attention(&mut batch, &session), Value::Null, "{host}: a newer note says that it works");
        tell(&mut batch, &session, &format!("{NOTIFY} --state done"));
        until("it is done", || attention(&mut batch, &session)["state"] == "done");
        asks(&mut batch, &session, "done");
        // Another process of ours types, and the owner hears of it.
        assert_eq!(rig.run(&["send", &session, "true", "-k", "Enter"]).code, Some(0));
        until("it is answered from elsewhere", || attention(&mut batch, &session) == Value::Null);
        batch.ok(json!({"cmd": "stop", "session": session}));
    }
    assert_eq!(batch.finish(), Some(0));
    assert!(rig.records().is_empty(), "{:?}", rig.records());
}

#[test]
fn it_needs_no_manager_and_no_configuration() {
    let rig = Rig::new();
    let agent = AGENT.map(str::to_owned);
    let session = rig.launch_tmux(&["--kind", "agent"], &agent)["session"].as_str().unwrap().to_owned();
    rig.write("work/broken.toml", "[ui]\nthem = 1\n");
    // Orphaned into the background, in a kernel session of its own: it has come back to the warden.
    let line = format!("export COOKBOOK_TUI_CONFIG=broken.toml; (setsid {NOTIFY} --state waiting &)");
    assert_eq!(rig.run(&["send", &session, &line, "-k", "Enter"]).code, Some(0));
    until("the note is there", || seen_elsewhere(&rig, &session)["verified"] == json!(true));
    let table = rig.run(&["ls"]).text();
    assert!(table.contains("waiting"), "{table}");
    assert_eq!(rig.run(&["stop", &session]).code, Some(0));
    assert!(rig.records().is_empty(), "{:?}", rig.records());
}

#[test]
fn who_is_no_process_of_the_session_is_unverified() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    batch.ok(json!({"cmd": "subscribe"}));
    let session = batch.launch(json!({"command": ["sleep", rig.nap()], "name": "asleep"}));
    let claims = |message: &str| {
        let mut command = rig.command(&["notify", "--state", "waiting", "--message", message]);
        command.env("COOKBOOK_TUI_SESSION", &session);
        crate::rig::Ran::of(command.spawn().unwrap())
    };
    let ran = claims("let me in");
    assert_eq!((ran.code, ran.text().as_str()), (Some(0), ""), "{ran:?}");
    assert!(ran.error().contains("unverified"), "{ran:?}");
    assert_eq!(asks(&mut batch, &session, "waiting")["reason"], "waiting (unverified): let me in");
    assert_eq!(attention(&mut batch, &session)["verified"], json!(false));
    let noted = batch.ok(json!({"cmd": "notify", "session": "asleep", "state": "done"}));
    assert_eq!(noted, json!({"session": session, "verified": false}));
    assert_eq!(attention(&mut batch, &session)["state"], "done");
    assert_eq!(batch.finish(), Some(0));
}

#[test]
fn outside_of_a_session_it_is_an_error_with_a_way_out() {
    let rig = Rig::new();
    let check = |arguments: &[&str], code: i32, says: &str| {
        let mut words = vec!["notify"];
        words.extend(arguments);
        let ran = rig.run(&words);
        assert_eq!((ran.code, ran.text().as_str()), (Some(code), ""), "{arguments:?}: {ran:?}");
        assert!(ran.error().contains(says), "{arguments:?}: {ran:?}");
    };
    check(&["--state", "waiting"], 2, "COOKBOOK_TUI_SESSION is not set");
    check(&["--state", "bored"], 2, "waiting");
    check(&[], 2, "--state");
    for unknown in ["agent-00000000", "../../x", "", "$last"] {
        check(&["--state", "done", "--session", unknown], 4, "--state-dir");
    }
    let mut batch = rig.batch();
    assert_eq!(batch.err(json!({"cmd": "notify", "state": "done"})).0, "usage");
    assert_eq!(batch.err(json!({"cmd": "notify", "state": "done", "session": "x"})).0, "not_found");
}

#[test]
fn a_message_is_shown_masked_escaped_and_short() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    batch.ok(json!({"cmd": "subscribe"}));
    let session = batch.launch(json!({"command": AGENT, "kind": "agent"}));
    rig.write("work/message", &format!("run it\n\u{1b}]0;x\u{7}with --token hunter2hunter2 {}", "y".repeat(100_000)));
    tell(&mut batch, &session, &format!("{NOTIFY} --state waiting --message - <message"));
    let event = asks(&mut batch, &session, "waiting").to_string();
    let attention = attention(&mut batch, &session);
    let message = attention["message"].as_str().unwrap();
    assert!(message.starts_with("run it \\x1b]0;x\\x07with --token "), "{message:?}");
    assert!(message.chars().count() <= 200, "{message:?}");
    let on_disk = std::fs::read_to_string(rig.state().join(format!("sessions/{session}.note"))).unwrap();
    for text in [&event, message, &on_disk] {
        assert!(!text.contains("hunter2") && !text.contains('\u{1b}'), "{text:?}");
    }
    // What is no note of ours is nothing, and costs nothing.
    for bad in ["", "{", "[]", &"x".repeat(1 << 20)] {
        rig.write(&format!("state/sessions/{session}.note"), bad);
        assert_eq!(seen_elsewhere(&rig, &session), Value::Null);
    }
    assert_eq!(batch.finish(), Some(0));
}
