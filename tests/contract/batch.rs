//! JSON Lines in, JSON Lines out: order, ids, malformed lines, references, the end of the input.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::Batch;
use crate::oracle::Bystanders;
use crate::rig::{Ran, Rig};

fn by_id(ran: &Ran, id: &Value) -> Value {
    let found: Vec<Value> = ran.lines().into_iter().filter(|line| &line["id"] == id).collect();
    assert_eq!(found.len(), 1, "one answer to {id}: {ran:?}");
    found[0].clone()
}

#[test]
fn hello_says_who_answers() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    let hello = batch.ok(json!({"cmd": "hello"}));
    assert_eq!(hello["protocol"], 1);
    assert_eq!(hello["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(hello["inspector"], "procfs");
    let features: Vec<&str> = hello["features"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    for feature in ["launch", "pty", "tmux", "subscribe"] {
        assert!(features.contains(&feature), "{features:?}");
    }
    assert_eq!(batch.finish(), Some(0));
}

#[test]
fn ids_come_back_as_they_were() {
    let ids = [
        "null",
        "0",
        "-9223372036854775808",
        "18446744073709551615",
        "1.5",
        "\"\"",
        "\"a\\u0000\\u001b\\ud83d\\ude00\"",
        "true",
        "[]",
        "{\"b\":{\"a\":[1,{}]},\"a\":null}",
    ];
    let rig = Rig::new();
    let pair = |id: &&str| format!("{{\"id\":{id},\"cmd\":\"hello\"}}\n{{\"cmd\":\"hello\",\"id\":{id},\"x\":1}}\n");
    let input: String = ids.iter().map(pair).collect();
    let ran = rig.script(&[], input.as_bytes());
    let lines = ran.lines();
    assert_eq!(lines.len(), 2 * ids.len(), "{ran:?}");
    for (id, pair) in ids.iter().zip(lines.chunks(2)) {
        let id: Value = serde_json::from_str(id).unwrap();
        assert_eq!((&pair[0]["id"], &pair[0]["ok"]), (&id, &json!(true)));
        assert_eq!((&pair[1]["id"], &pair[1]["ok"]), (&id, &json!(false)));
    }
    // An object keeps the order of its keys, for whoever compares text.
    assert!(ran.text().contains(r#""id":{"b":{"a":[1,{}]},"a":null},"ok":true"#), "{ran:?}");
}

#[test]
fn an_id_may_be_a_number_of_any_size() {
    let rig = Rig::new();
    // A UUID as Python writes its `int`.
    let id = "113059749145936325402354257176981405696";
    let ran = rig.script(&[], format!("{{\"id\":{id},\"cmd\":\"hello\"}}\n").as_bytes());
    assert!(ran.text().contains(&format!("\"id\":{id},")), "{ran:?}");
}

#[test]
fn malformed_lines_are_answered_and_the_rest_still_runs() {
    let long = format!("{{\"cmd\":\"{}", "x".repeat(1 << 20));
    let wrong: [&[u8]; 14] = [
        b"{",
        b"x",
        b"[]",
        b"\"hello\"",
        b"null",
        b"{\"cmd\":\"hello\"} {\"cmd\":\"hello\"}",
        b"{\"cmd\":\"hello\"\0}",
        b"\0",
        b"{\"cmd\":\"hello\",}",
        b"{\"cmd\":\"hello\xff\"}",
        b"\xff\xfe",
        b"{\"cmd\":\"screen\",\"session\":\"\xff\"}",
        long.as_bytes(),
        &[b'['; 5000],
    ];
    let rig = Rig::new();
    // An empty line has no answer and counts.
    let mut input = b"\n  \n".to_vec();
    for line in wrong {
        input.extend(line);
        input.push(b'\n');
    }
    input.extend(b"{\"id\":\"last\",\"cmd\":\"hello\"}");
    let ran = rig.script(&[], &input);
    assert_eq!(by_id(&ran, &json!("last"))["ok"], json!(true));
    let lines = ran.lines();
    for (index, line) in wrong.iter().enumerate() {
        let shown = String::from_utf8_lossy(&line[..line.len().min(60)]);
        let answer = &lines[index];
        assert_eq!(answer["ok"], json!(false), "{shown}: {answer}");
        assert_eq!(answer["error"]["kind"], "usage", "{shown}: {answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("line {}: ", index + 3)), "{shown}: {message}");
        assert!(message.len() < 1000, "{shown}: a message of {} bytes", message.len());
    }
    assert_eq!(lines.len(), wrong.len() + 1);
    assert_eq!(ran.code, Some(1));
    assert_eq!(ran.error(), "");
}

/// Lines of any bytes among lines that are fine: each has one answer, those that are none of ours with their number, and
/// the others run.
#[test]
fn any_bytes_are_answered_line_by_line() {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::strategy::ValueTree as _;
    let one_line = |bytes: Vec<u8>| bytes.into_iter().filter(|byte| *byte != b'\n').collect::<Vec<u8>>();
    let near = "\\{\"(id|cmd|async|x)\": ?(1|\"hello\"|\"tree\"|true|\\[|\\{\\}|nul)(, ?\"(cmd|id|session)\": ?(\"hello\"|\"list\"|2|\"x\"))?\\}?";
    let lines = vec(prop_oneof![vec(any::<u8>(), 0..40).prop_map(one_line), near.prop_map(String::into_bytes)], 300);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let lines = lines.new_tree(&mut runner).unwrap().current();
    let mut input = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        input.extend(line);
        input.extend(format!("\n{{\"id\":\"fine-{index}\",\"cmd\":\"hello\"}}\n").bytes());
    }
    let rig = Rig::new();
    let ran = rig.script(&[], &input);
    let answers = ran.lines();
    let mut answers = answers.iter();
    let mut wrong = 0;
    for (index, line) in lines.iter().enumerate() {
        let mut answer = answers.next().unwrap();
        let empty = std::str::from_utf8(line).is_ok_and(|line| line.trim().is_empty());
        if !empty {
            let message = answer["error"]["message"].as_str().unwrap_or_default();
            let numbered = message.starts_with(&format!("line {}: ", 2 * index + 1));
            let ran = serde_json::from_slice::<Value>(line).is_ok_and(|line| line["cmd"].is_string());
            assert!(numbered || ran, "{:?}: {answer}", String::from_utf8_lossy(line));
            wrong += u32::from(numbered);
            answer = answers.next().unwrap();
        }
        assert_eq!((&answer["id"], &answer["ok"]), (&json!(format!("fine-{index}")), &json!(true)), "{answer}");
    }
    assert!(answers.next().is_none());
    assert!(wrong > 100 && wrong < 300, "{wrong} of 300 were wrong");
}

#[test]
fn bytes_that_are_not_utf8_launch_nothing() {
    let rig = Rig::new();
    let ledger = rig.ledger("ledger");
    let line = format!("{{\"cmd\":\"launch\",\"command\":\"{}\"}}", ledger.noted_line("true"));
    let mut input = line.into_bytes();
    let at = input.len() - 2;
    input.splice(at..at, *b" \xff");
    let mut batch = rig.batch();
    batch.line(&input);
    batch.ok(json!({"cmd": "hello"}));
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(ledger.entries().len(), 0, "a malformed line ran: {}", String::from_utf8_lossy(&batch.raw));
}

#[test]
fn an_input_that_cannot_be_read_is_no_success() {
    let rig = Rig::new();
    let ran = rig.run(&["--batch", "."]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.text().contains("line 1: the input cannot be read on: Is a directory"), "{ran:?}");
}

#[test]
fn a_sweep_that_only_shows_has_a_plan_also_of_nobody() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    let plan = batch.ok(json!({"cmd": "sweep", "dry_run": true}));
    assert_eq!((&plan["plan"], &plan["dead"]), (&json!([]), &json!(null)), "{plan:#}");
    assert_eq!(batch.finish(), Some(0));
    assert!(rig.run(&["sweep", "--dry-run"]).text().contains("nothing was"));
}

#[test]
fn long_lines_and_windows_line_ends_are_fine() {
    let rig = Rig::new();
    let id = "x".repeat(1 << 20);
    let input = format!("{{\"id\":\"{id}\",\"cmd\":\"hello\"}}\r\n{{\"id\":2,\"cmd\":\"list\"}}\r\n\r\n");
    let ran = rig.script(&[], input.as_bytes());
    assert_eq!(by_id(&ran, &json!(id))["ok"], json!(true));
    assert_eq!(by_id(&ran, &json!(2))["result"]["sessions"], json!([]));
    assert_eq!((ran.lines().len(), ran.code), (2, Some(0)));
}

#[test]
fn unknown_fields_are_errors_that_name_them() {
    let requests = [
        json!({"cmd": "hello"}),
        json!({"cmd": "launch", "command": "true"}),
        json!({"cmd": "wait", "session": "x", "for": "exit"}),
        json!({"cmd": "list"}),
        json!({"cmd": "tree", "session": "x"}),
        json!({"cmd": "screen", "session": "x"}),
        json!({"cmd": "send", "session": "x"}),
        json!({"cmd": "resize", "session": "x", "rows": 1, "cols": 1}),
        json!({"cmd": "logs", "session": "x"}),
        json!({"cmd": "restart", "session": "x"}),
        json!({"cmd": "stop", "session": "x"}),
        json!({"cmd": "sweep"}),
        json!({"cmd": "recipes"}),
        json!({"cmd": "subscribe"}),
        json!({"cmd": "quit"}),
    ];
    let rig = Rig::new();
    let mut batch = rig.batch();
    for mut request in requests {
        request["sesion"] = json!("x");
        let (kind, message) = batch.err(request.clone());
        assert_eq!(kind, "usage", "{request}: {message}");
        assert!(message.contains("sesion"), "{request}: {message}");
    }
    // Nothing ran, `quit` and `launch` included.
    assert_eq!(batch.ok(json!({"cmd": "list"}))["sessions"], json!([]));
    assert_eq!(batch.finish(), Some(1));
}

#[test]
fn what_is_there_twice_is_an_error_and_nothing_is_done() {
    let rig = Rig::new();
    let ledger = rig.ledger("ledger");
    let command = json!(ledger.noted(&["true"]));
    let lines = [
        (r#"{"id":1,"id":2,"cmd":"hello"}"#.to_owned(), json!(null), "\"id\""),
        (r#"{"id":3,"cmd":"hello","cmd":"quit"}"#.to_owned(), json!(3), "\"cmd\""),
        (r#"{"id":4,"cmd":"tree","session":"x","session":"y"}"#.to_owned(), json!(4), "\"session\""),
        (format!(r#"{{"id":5,"cmd":"launch","command":"true","command":{command}}}"#), json!(5), "\"command\""),
    ];
    let mut input: Vec<&str> = lines.iter().map(|(line, ..)| line.as_str()).collect();
    input.push(r#"{"id":"last","cmd":"list"}"#);
    let ran = rig.script(&[], input.join("\n").as_bytes());
    for (line, id, key) in &lines {
        let error = by_id(&ran, id)["error"].take();
        let message = error["message"].as_str().unwrap();
        assert_eq!(error["kind"], "usage", "{line}: {message}");
        assert!(message.contains(key) && message.contains("twice"), "{line}: {message}");
    }
    assert_eq!((by_id(&ran, &json!("last"))["result"]["sessions"].take(), ledger.entries().len()), (json!([]), 0));
    assert_eq!(ran.code, Some(1));
}

#[test]
fn a_line_that_is_not_json_says_where() {
    let rig = Rig::new();
    let input = "{\"cmd\": \n\u{feff}{\"cmd\":\"hello\"}\n{\"cmd\": x}\n";
    let ran = rig.script(&[], input.as_bytes());
    let said: Vec<String> =
        ran.lines().iter().map(|line| line["error"]["message"].as_str().unwrap().to_owned()).collect();
    let expected = [
        "line 1: not JSON: it ends too early, at column 7",
        "line 2: it begins with a byte order mark: write UTF-8 without one",
        "line 3: not JSON: expected value, at column 9",
    ];
    assert_eq!(said, expected);
}

#[test]
fn lines_run_in_order_unless_they_say_async() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    let session = batch.launch(json!({"command": ["sleep", rig.nap()]}));
    let wait = |seconds: f64| json!({"cmd": "wait", "session": session, "for": "exit", "timeout_s": seconds});
    let in_turn = [batch.send(wait(0.3)), batch.send(json!({"cmd": "hello"}))];
    let order = |batch: &Batch, ids: &[String]| -> Vec<usize> {
        let text = String::from_utf8(batch.raw.clone()).unwrap();
        ids.iter().map(|id| text.find(&format!("\"id\":\"{id}\"")).unwrap()).collect()
    };
    assert_eq!(batch.answer(&in_turn[1])["ok"], json!(true));
    assert_eq!(batch.answer(&in_turn[0])["error"]["kind"], "timeout");
    assert!(order(&batch, &in_turn).is_sorted(), "a sync line was overtaken");

    let mut slow = wait(20.0);
    slow["async"] = json!(true);
    let slow = batch.send(slow);
    let started = Instant::now();
    let later = [batch.send(json!({"cmd": "hello"})), batch.send(json!({"cmd": "list"}))];
    for id in &later {
        assert_eq!(batch.answer(id)["ok"], json!(true));
    }
    assert!(!batch.has_answer(&slow), "the wait has ended after {:?}", started.elapsed());
    // What the async line waits for is brought about by a later one.
    assert_eq!(batch.ok(json!({"cmd": "stop", "session": session}))["dead"], json!(true));
    assert_eq!(batch.answer(&slow)["result"]["phase"], "exited");
    assert!(order(&batch, &later).is_sorted());
    assert_eq!(batch.finish(), Some(1));
}

#[test]
fn sessions_are_named_by_id_name_or_last_and_never_by_a_prefix() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    let (kind, message) = batch.err(json!({"cmd": "screen", "session": "$last"}));
    assert_eq!(kind, "not_found", "{message}");
    let nap = rig.nap();
    let first = batch.launch(json!({"command": ["sleep", nap], "name": "model"}));
    let second = batch.launch(json!({"command": ["sleep", nap], "name": "model-2"}));
    let pids = |batch: &mut Batch, session: &str| {
        batch.ok(json!({"cmd": "tree", "session": session}))["processes"][0]["pid"].as_i64().unwrap()
    };
    let (one, two) = (pids(&mut batch, &first), pids(&mut batch, &second));
    assert_ne!(one, two);
    assert_eq!(pids(&mut batch, "$last"), two);
    assert_eq!(pids(&mut batch, "model"), one);
    assert_eq!(pids(&mut batch, "model-2"), two);
    // Every beginning of a name or an id, and some other things that are none.
    let prefixes =
        (1..5).map(|end| "model"[..end].to_owned()).chain((0..first.len()).map(|end| first[..end].to_owned()));
    for wrong in prefixes.chain(["model-".into(), "MODEL".into(), "model*".into(), "shell".into(), format!("{first} ")])
    {
        for cmd in ["tree", "stop", "screen", "restart"] {
            let (kind, message) = batch.err(json!({"cmd": cmd, "session": wrong}));
            assert_eq!(kind, "not_found", "{wrong}: {message}");
            assert!(message.contains(&format!("{wrong:?}")) && message.contains("ls"), "{message}");
        }
    }
    let third = batch.launch(json!({"command": ["sleep", nap], "name": "model"}));
    for cmd in ["tree", "stop", "restart", "logs"] {
        let (kind, message) = batch.err(json!({"cmd": cmd, "session": "model"}));
        assert_eq!(kind, "usage", "{message}");
        assert!(message.contains(&first) && message.contains(&third) && !message.contains(&second), "{message}");
    }
    let rows = batch.ok(json!({"cmd": "list"}));
    let phases: Vec<&str> =
        rows["sessions"].as_array().unwrap().iter().map(|row| row["phase"].as_str().unwrap()).collect();
    assert_eq!(phases, ["running"; 3], "an error ended something");
    batch.ok(json!({"cmd": "stop", "session": "$last"}));
    batch.ok(json!({"cmd": "dismiss", "session": "$last"}));
    let (kind, message) = batch.err(json!({"cmd": "screen", "session": "$last"}));
    assert!(kind == "not_found" && message.contains(&third), "{message}");
}

#[test]
fn fail_fast_ends_at_the_first_failure() {
    let rig = Rig::new();
    let ledger = rig.ledger("ledger");
    let launch = json!({"id": 1, "cmd": "launch", "command": ledger.noted(&["sleep", &rig.nap()])});
    let after = rig.ledger("after");
    let late = json!({"id": 3, "cmd": "launch", "command": after.noted(&["sleep", &rig.nap()])});
    let output = json!({"id": 0, "cmd": "wait", "session": "$last", "for": "exit", "timeout_s": 0.2});
    let ran = rig.script(&["--fail-fast"], format!("{launch}\n{output}\n{late}\n").as_bytes());
    let ids: Vec<Value> = ran.lines().iter().map(|line| line["id"].clone()).collect();
    assert_eq!(ids, [json!(1), json!(0)], "{ran:?}");
    assert_eq!(ran.code, Some(1));
    assert_eq!(after.entries().len(), 0, "a line after the failure ran");
    ledger.one().assert_ends();
    rig.assert_empty();
    // Without the option the same lines all run.
    let ran = rig.script(&[], format!("{launch}\n{output}\n{late}\n").as_bytes());
    assert_eq!((ran.lines().len(), ran.code), (3, Some(1)), "{ran:?}");
    // A malformed line is a failure, too.
    let ran = rig.script(&["--fail-fast"], b"{\n{\"cmd\":\"hello\"}\n");
    assert_eq!((ran.lines().len(), ran.code), (1, Some(1)), "{ran:?}");
}

#[test]
fn the_end_of_the_input_waits_and_then_quits() {
    let rig = Rig::new();
    let nap = rig.nap();
    let (owned, kept) = (rig.ledger("owned"), rig.ledger("kept"));
    let mut strangers = Bystanders::new(&["sleep", &nap]);
    let mut batch = rig.batch();
    batch.launch(json!({"command": owned.noted(&["sleep", &nap])}));
    batch.launch(json!({"command": kept.noted(&["sleep", &nap]), "host": "tmux"}));
    let short = batch.launch(json!({"command": "sleep 0.7; exit 5"}));
    let (owned, kept) = (owned.one(), kept.one());
    let wait = batch.send(json!({"cmd": "wait", "session": short, "for": "exit", "timeout_s": 20, "async": true}));
    batch.close();
    assert!(owned.is_alive());
    assert_eq!(batch.answer(&wait)["result"]["exit_code"], 5);
    assert_eq!(batch.ended(), Some(0));
    owned.assert_ends();
    kept.assert_alive();
    strangers.assert_alive();
    assert_eq!(rig.json(&["ls"])["sessions"].as_array().unwrap().len(), 1);
}

#[test]
fn quit_ends_the_batch_with_the_receipts() {
    let rig = Rig::new();
    let ledger = rig.ledger("ledger");
    let mut strangers = Bystanders::new(&["sleep", &rig.nap()]);
    let mut batch = rig.batch();
    let session = batch.launch(json!({"command": ledger.noted(&["sleep", &rig.nap()])}));
    let workload = ledger.one();
    let quit = batch.send(json!({"cmd": "quit"}));
    batch.send(json!({"cmd": "launch", "command": ledger.noted(&["sleep", &rig.nap()])}));
    let receipts = batch.answer(&quit)["result"]["receipts"].clone();
    assert_eq!((&receipts[0]["session"], &receipts[0]["dead"]), (&json!(session), &json!(true)), "{receipts}");
    assert_eq!(batch.ended(), Some(0));
    workload.assert_ends();
    strangers.assert_alive();
    assert_eq!(ledger.entries().len(), 1, "a line after quit ran");
    rig.assert_empty();
}

#[test]
fn quit_does_not_wait_for_a_wait() {
    let rig = Rig::new();
    let mut owner = rig.batch();
    let other = owner.launch(json!({"command": ["sleep", rig.nap()]}));
    let ledger = rig.ledger("ledger");
    let mut batch = rig.batch();
    let session = batch.launch(json!({"command": ledger.noted(&["sleep", &rig.nap()])}));
    let wait = |session: &str, what: &str, regex: Value| json!({"cmd": "wait", "session": session, "for": what, "regex": regex, "async": true});
    let waits = [
        batch.send(wait(&session, "exit", Value::Null)),
        batch.send(wait(&session, "output", json!("never"))),
        // Its owner waits for us.
        batch.send(wait(&other, "output", json!("never"))),
    ];
    assert!(!batch.has_answer(&waits[2]));
    let quit = batch.send(json!({"cmd": "quit"}));
    assert_eq!(batch.answer(&quit)["result"]["receipts"][0]["dead"], true);
    for wait in waits {
        let error = batch.answer(&wait)["error"].take();
        assert_eq!(error["kind"], "failed", "{error}");
        assert!(error["message"].as_str().unwrap().contains("cookbook-tui is ending"), "{error}");
    }
    assert_eq!(batch.ended(), Some(1));
    ledger.one().assert_ends();
    assert_eq!(owner.ok(json!({"cmd": "stop", "session": other}))["dead"], true);
}

#[test]
fn quit_calls_a_launch_off_that_is_queued() {
    let rig = Rig::new();
    let ledger = rig.ledger("ledger");
    let config = format!(
        "[[recipe]]\nname = \"slow\"\nkind = \"serve\"\nhost = \"pty\"\nready = {{ log = \"never\" }}\ncommand = [\"sleep\", \"{nap}\"]\n\
         [[recipe]]\nname = \"waits\"\nneeds = [\"slow\"]\ncommand = {argv}\n",
        nap = rig.nap(),
        argv = json!(ledger.noted(&["true"])),
    );
    let config = rig.write("c.toml", &config);
    let mut batch = rig.batch_with(&[], &["--config", config.to_str().unwrap()]);
    batch.ok(json!({"cmd": "subscribe"}));
    let launch = batch.send(json!({"cmd": "launch", "recipe": "waits", "async": true}));
    batch.event("of the queue", |event| event["phase"] == "queued" && event["detail"].to_string().contains("slow ("));
    let quit = batch.send(json!({"cmd": "quit"}));
    assert_eq!(batch.answer(&quit)["ok"], true);
    assert_eq!(batch.answer(&launch)["error"]["kind"], "refused");
    assert_eq!((batch.ended(), ledger.entries().len()), (Some(3), 0));
}

#[test]
fn quit_waits_for_a_launch_that_is_under_way() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    let command = ["sleep".to_owned(), rig.nap()];
    let launch = batch.send(json!({"cmd": "launch", "host": "tmux", "command": command, "async": true}));
    let quit = batch.send(json!({"cmd": "quit"}));
    assert_eq!((&batch.answer(&launch)["ok"], &batch.answer(&quit)["ok"]), (&json!(true), &json!(true)));
    assert_eq!(batch.ended(), Some(0));
    assert_eq!(rig.json(&["ls"])["sessions"].as_array().unwrap().len(), 1);
}

#[test]
fn a_batch_that_is_told_to_end_says_by_what() {
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::HUP, "HUP"), (Signal::INT, "INT")] {
        let rig = Rig::new();
        let ledger = rig.ledger("ledger");
        let mut child = rig.command(&["--batch"]).stdin(Stdio::piped()).spawn().unwrap();
        let launch = json!({"cmd": "launch", "command": ledger.noted(&["sleep", &rig.nap()])});
        writeln!(child.stdin.as_mut().unwrap(), "{launch}").unwrap();
        let workload = ledger.one();
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
        // Its input does not end.
        let input = child.stdin.take();
        let ran = Ran::of(child);
        drop(input);
        assert_eq!(ran.error(), format!("cookbook-tui: ended by {name} before the end of its input\n"), "{ran:?}");
        assert_eq!(ran.code, Some(1), "{ran:?}");
        workload.assert_ends();
    }
}

#[test]
fn a_batch_that_is_told_to_end_while_it_waits_for_answers_says_so() {
    let rig = Rig::new();
    let ledger = rig.ledger("ledger");
    let launch = json!({"cmd": "launch", "command": ledger.noted(&["sleep", &rig.nap()])});
    let wait = json!({"id": "wait", "cmd": "wait", "session": "$last", "for": "exit", "async": true});
    rig.write("input", &format!("{launch}\n{wait}\n"));
    let mut command = rig.command(&["--batch", rig.path("input").to_str().unwrap()]);
    let child = command.spawn().unwrap();
    let workload = ledger.one();
    // Its input has ended by then.
    std::thread::sleep(std::time::Duration::from_millis(300));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
    let ran = Ran::of(child);
    assert_eq!(ran.error(), "cookbook-tui: ended by TERM before the last answer\n", "{ran:?}");
    assert_eq!((ran.code, by_id(&ran, &json!("wait"))["error"]["kind"].take()), (Some(1), json!("failed")), "{ran:?}");
    workload.assert_ends();
}

#[test]
fn a_batch_that_nobody_reads_ends() {
    // It waits for a line, and it waits for a session.
    for wait in [None, Some(json!({"cmd": "wait", "session": "$last", "for": "exit"}))] {
        let rig = Rig::new();
        let ledger = rig.ledger("ledger");
        let mut child = rig.command(&["--batch"]).stdin(Stdio::piped()).spawn().unwrap();
        let launch = json!({"cmd": "launch", "command": ledger.noted(&["sleep", &rig.nap()])});
        writeln!(child.stdin.as_mut().unwrap(), "{launch}").unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut String::new()).unwrap();
        if let Some(wait) = &wait {
            writeln!(child.stdin.as_mut().unwrap(), "{wait}").unwrap();
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        drop(output);
        ledger.one().assert_ends();
        assert_eq!(crate::rig::wait(&mut child), Some(1), "{wait:?}");
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "cookbook-tui: whoever read its answers went away\n");
        rig.assert_empty();
    }
}

#[test]
fn an_answer_that_is_lost_is_said() {
    let rig = Rig::new();
    let mut command = rig.command(&["--batch"]);
    rig.write("script", "{\"cmd\":\"hello\"}\n");
    command.stdin(std::fs::File::open(rig.path("script")).unwrap());
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut child = command.stdout(full).spawn().unwrap();
    assert_eq!(crate::rig::wait(&mut child), Some(1));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.starts_with("cookbook-tui: its answers cannot be written: No space left on device"), "{said}");
}

/// A batch that waits for ever still ends when it is told to, and takes its sessions with it.
fn check_signalled(signal: Signal, wait: Option<Value>) {
    let rig = Rig::new();
    let nap = rig.nap();
    let ledger = rig.ledger("ledger");
    let mut strangers = Bystanders::new(&["sleep", &nap]);
    let mut batch = rig.batch();
    let session = batch.launch(json!({"command": ledger.noted(&["sleep", &nap])}));
    let workload = ledger.one();
    if let Some(mut wait) = wait {
        wait["session"] = json!(session);
        batch.send(wait);
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    batch.signal(signal);
    workload.assert_ends();
    assert!(batch.ended().is_some(), "it ended by the signal itself, without a word");
    strangers.assert_alive();
    // Who is interrupted at the keyboard has seen it; else the next start tells.
    let told = (signal != Signal::INT).then(|| format!("{session}.receipt"));
    assert_eq!(rig.records(), told.into_iter().collect::<Vec<_>>(), "records are left");
    rig.assert_empty();
}

#[test]
fn a_signalled_batch_tears_its_sessions_down() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        check_signalled(signal, None);
    }
}

#[test]
fn a_signalled_batch_does_not_wait_for_a_wait() {
    check_signalled(Signal::TERM, Some(json!({"cmd": "wait", "for": "exit"})));
}

#[test]
fn a_signalled_batch_does_not_wait_for_an_async_wait() {
    check_signalled(Signal::TERM, Some(json!({"cmd": "wait", "for": "exit", "async": true})));
}
