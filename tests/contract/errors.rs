//! Every kind of error that can be reached, with a message that names the thing, the place and the way out; and
//! every exit code.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Batch;
use crate::oracle::Bystanders;
use crate::rig::{Ran, Rig};

/// Checks the kind of an error and what its message must name.
fn check(batch: &mut Batch, request: Value, kind: &str, words: &[&str]) {
    let shown = request.to_string();
    let (found, message) = batch.err(request);
    assert_eq!(found, kind, "{shown}: {message}");
    for word in words {
        assert!(message.contains(word), "{shown}: {word:?} is not in: {message}");
    }
}

/// What is said of a name that no recipe can have.
const NAME: &[&str] = &["name", "1 to 64 visible characters"];

#[test]
fn wrong_requests_are_usage() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    let session = batch.launch(json!({"command": ["sleep", rig.nap()], "name": "here"}));
    let launch = |fields: Value| {
        let mut request = json!({"cmd": "launch"});
        for (key, value) in fields.as_object().unwrap() {
            request[key] = value.clone();
        }
        request
    };
    let on = |cmd: &str, fields: Value| {
        let mut request = launch(fields);
        (request["cmd"], request["session"]) = (json!(cmd), json!(session));
        request
    };
    let cases: Vec<(Value, &[&str])> = vec![
        (json!({"cmd": "frobnicate"}), &["frobnicate", "launch"]),
        (json!({"cmd": 1}), &["cmd"]),
        (json!({}), &["cmd"]),
        (launch(json!({})), &["recipe", "command"]),
        (launch(json!({"recipe": "shell", "command": "true"})), &["recipe", "command", "not both"]),
        (launch(json!({"command": []})), &["command"]),
        (launch(json!({"command": [""]})), &["command"]),
        (launch(json!({"command": ["true", "a\u{0}b"]})), &["command", "NUL"]),
        (launch(json!({"command": 5})), &["command"]),
        (launch(json!({"command": ["true", 5]})), &["command"]),
        (launch(json!({"command": "true", "kind": "server"})), &["server", "serve"]),
        (launch(json!({"command": "true", "host": "screen"})), &["screen", "tmux"]),
        (launch(json!({"command": "true", "cwd": "/no/such/dir"})), &["cwd", "/no/such/dir"]),
        (launch(json!({"command": "true", "cwd": "nowhere"})), &["cwd", "work/nowhere"]),
        (launch(json!({"command": "true", "cwd": rig.path("note")})), &["cwd", "note"]),
        (launch(json!({"command": "true", "env": {"A=B": "x"}})), &["env", "A=B"]),
        (launch(json!({"command": "true", "env": {"": "x"}})), &["env"]),
        (launch(json!({"command": "true", "ceiling_s": 0})), &["ceiling_s", "0"]),
        (launch(json!({"command": "true", "ceiling_s": -1})), &["ceiling_s", "-1"]),
        (launch(json!({"command": "true", "ceiling_s": 1e300})), &["ceiling_s"]),
        (launch(json!({"command": "true", "grace_s": -0.5})), &["grace_s", "-0.5"]),
        (launch(json!({"command": "true", "machine": "gpu1"})), &["machine", "gpu1", "local"]),
        (launch(json!({"command": "true", "name": ""})), NAME),
        (launch(json!({"command": "true", "name": "-x"})), NAME),
        (launch(json!({"command": "true", "name": "$last"})), NAME),
        (launch(json!({"command": "true", "name": "$0"})), NAME),
        (launch(json!({"command": "true", "name": "a\nb"})), NAME),
        (launch(json!({"command": "true", "name": "\u{1b}[31m"})), NAME),
        (launch(json!({"command": "true", "name": "x".repeat(300)})), NAME),
        (on("restart", json!({"launch": {"command": "true", "name": "-x"}})), NAME),
        (json!({"cmd": "wait", "session": session}), &["for"]),
        (on("wait", json!({"for": "doom"})), &["doom", "exit"]),
        (on("wait", json!({"for": "output"})), &["regex"]),
        (on("wait", json!({"for": "output", "regex": "("})), &["regex"]),
        (on("wait", json!({"for": "exit", "regex": "x"})), &["regex", "output"]),
        (on("wait", json!({"for": "exit", "timeout_s": -1})), &["timeout_s", "-1"]),
        (on("send", json!({"keys": ["Entre"]})), &["Entre"]),
        (on("send", json!({"keys": ["C-"]})), &["C-"]),
        (on("resize", json!({"rows": 0, "cols": 5})), &["0 x 5", "1"]),
        (on("resize", json!({"rows": 5})), &["cols"]),
        (on("stop", json!({"grace_s": -1})), &["grace_s", "-1"]),
        (on("stop", json!({"timeout_s": 1e300})), &["timeout_s"]),
    ];
    for (request, words) in cases {
        check(&mut batch, request, "usage", words);
    }
    let rows = batch.ok(json!({"cmd": "list"}))["sessions"].take();
    assert_eq!((rows.as_array().unwrap().len(), &rows[0]["phase"]), (1, &json!("running")), "{rows}");
    assert_eq!(batch.finish(), Some(1));
}

#[test]
fn a_value_of_a_wrong_type_is_usage_that_names_its_field() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    let (launch, on) = (json!({"cmd": "launch", "command": "true"}), json!({"cmd": "stop", "session": "x"}));
    for (base, key, value) in [
        (&launch, "env", json!({"A": 1})),
        (&launch, "rows", json!(-1)),
        (&launch, "rows", json!(65536)),
        (&launch, "ceiling_s", json!("NaN")),
        (&launch, "name", json!(5)),
        (&on, "dry_run", json!("yes")),
        (&on, "grace_s", json!([])),
        (&on, "session", json!(null)),
        (&on, "confirm", json!([{"pid": 0, "start_token": "procfs:a:1"}])),
    ] {
        let mut request = base.clone();
        request[key] = value;
        check(&mut batch, request, "usage", &[key]);
    }
}

#[test]
fn what_is_wrong_is_said_in_plain_words() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    let size = json!({"cmd": "resize", "session": "x", "rows": "x", "cols": 1});
    check(&mut batch, size, "usage", &["resize: rows must be a whole number from 0 to 65535, found \"x\""]);
    check(&mut batch, json!({"cmd": "helo"}), "usage", &["unknown command \"helo\"; the nearest is \"hello\""]);
    let grace = json!({"cmd": "stop", "session": "x", "grce_s": 1});
    check(&mut batch, grace, "usage", &["unknown field \"grce_s\"; the nearest is \"grace_s\""]);
    // A word that looks like the name of a secret hides nothing of what is said of it.
    let said = "launch: unknown field \"ApiKey\"; the nearest is ";
    check(&mut batch, json!({"cmd": "launch", "command": "true", "ApiKey": 1}), "usage", &[said]);
    let said = "launch: env.HF_TOKEN must be a text, found 3";
    check(&mut batch, json!({"cmd": "launch", "command": "true", "env": {"HF_TOKEN": 3}}), "usage", &[said]);
    let session = batch.launch(json!({"command": ["sleep", "3600"], "host": "pty"}));
    let said = "unknown key \"NoSuchKey\"; use names like Enter";
    check(&mut batch, json!({"cmd": "send", "session": session, "keys": ["NoSuchKey"]}), "usage", &[said]);
    let ran = rig.run(&["send", &session, "--key", "NoSuchKey"]);
    assert!(ran.error().contains(said), "{ran:?}");
    let ran = rig.run(&["launch", "--kind", "server", "--", "true"]);
    assert!(ran.error().contains("unknown word \"server\"; the nearest is \"serve\""), "{ran:?}");
}

#[test]
fn an_empty_line_is_no_command() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    check(&mut batch, json!({"cmd": "launch", "command": ""}), "usage", &["command", "empty"]);
}

#[test]
fn an_environment_that_cannot_be_is_usage() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    let request = json!({"cmd": "launch", "command": ["true"], "env": {"MODEL": "a\u{0}b"}});
    check(&mut batch, request, "usage", &["MODEL", "NUL"]);
}

#[test]
fn what_is_not_there_is_not_found() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    for cmd in ["wait", "tree", "screen", "send", "resize", "logs", "restart", "stop", "sweep"] {
        let mut request = json!({"cmd": cmd, "session": "serve-00000000"});
        match cmd {
            "wait" => request["for"] = json!("exit"),
            "resize" => (request["rows"], request["cols"]) = (json!(5), json!(5)),
            _ => {}
        }
        check(&mut batch, request, "not_found", &["serve-00000000", "ls"]);
    }
    let recipe = json!({"cmd": "launch", "recipe": "shel"});
    check(&mut batch, recipe, "not_found", &["shel", "\"shell\"", "recipes"]);
    assert_eq!(batch.finish(), Some(4));
}

#[test]
fn what_must_not_be_done_is_refused() {
    let rig = Rig::new();
    let nap = rig.nap();
    let ledger = rig.ledger("ledger");
    let mut batch = rig.batch();
    let session = batch.launch(json!({"command": ledger.noted(&["sleep", &nap]), "name": "mine"}));
    let workload = ledger.one();
    check(&mut batch, json!({"cmd": "sweep", "session": session}), "refused", &[&session, "still runs", "stop"]);
    // Another manager that cannot be reached: every word about it names the owner.
    let mut other = rig.batch();
    for entry in fs::read_dir(rig.runtime()).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let owner = batch.pid().to_string();
    for request in [
        json!({"cmd": "screen", "session": session}),
        json!({"cmd": "send", "session": session, "text": "x"}),
        json!({"cmd": "resize", "session": session, "rows": 5, "cols": 20}),
        json!({"cmd": "stop", "session": session}),
        json!({"cmd": "restart", "session": session}),
    ] {
        check(&mut other, request, "refused", &[&session, &owner]);
    }
    let attach = rig.run(&["attach", "mine"]);
    assert_eq!(attach.code, Some(3), "{attach:?}");
    assert!(attach.error().contains("PTY") && attach.error().contains("cookbook-tui"), "{attach:?}");
    assert_eq!(other.finish(), Some(3));
    workload.assert_alive();
}

#[test]
fn what_cannot_come_true_has_failed() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    let session = batch.launch(json!({"command": ["sh", "-c", "exit 3"]}));
    batch.ok(json!({"cmd": "wait", "session": session, "for": "exit", "timeout_s": 20}));
    let wait = |what: &str| json!({"cmd": "wait", "session": session, "for": what, "timeout_s": 600});
    let mut output = wait("output");
    output["regex"] = json!("never");
    check(&mut batch, output, "failed", &[&session, "failed", "exit status 3"]);
    check(&mut batch, wait("ready"), "failed", &[&session, "failed", "exit status 3"]);
    check(&mut batch, json!({"cmd": "send", "session": session, "text": "x"}), "failed", &[&session, "ended"]);
    let sleeper = batch.launch(json!({"command": ["sleep", rig.nap()]}));
    let ready = json!({"cmd": "wait", "session": sleeper, "for": "ready", "timeout_s": 600});
    check(&mut batch, ready, "failed", &[&sleeper, "running", "readiness"]);
}

#[test]
fn what_takes_too_long_is_a_timeout() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    let session = batch.launch(json!({"command": ["sleep", rig.nap()]}));
    let wait = json!({"cmd": "wait", "session": session, "for": "exit", "timeout_s": 0.25});
    check(&mut batch, wait, "timeout", &[&session, "running", "0.25"]);
    let wait = json!({"cmd": "wait", "session": session, "for": "gone", "timeout_s": 0});
    check(&mut batch, wait, "timeout", &[&session, "0 s"]);
}

#[test]
fn without_tmux_the_error_or_the_note_says_so() {
    let rig = Rig::new();
    fs::create_dir(rig.path("empty")).unwrap();
    let mut command = rig.command(&["--batch"]);
    command.env("PATH", rig.path("empty"));
    let mut batch = Batch::start(command);
    let request = json!({"cmd": "launch", "command": ["/bin/sleep", rig.nap()], "host": "tmux"});
    check(&mut batch, request, "tmux", &["tmux", "install"]);
    assert!(rig.records().is_empty());
    // Where tmux was only the usual choice, the reason for the PTY is shown.
    let launched = batch.ok(json!({"cmd": "launch", "command": ["/bin/sleep", rig.nap()], "kind": "serve"}));
    assert_eq!(launched["host"], "pty");
    assert!(launched["notes"][0].as_str().unwrap().contains("tmux"), "{launched}");
}

#[test]
fn a_tmux_that_hangs_is_an_error_of_tmux() {
    let rig = Rig::new();
    rig.executable("bin/tmux", "#!/bin/sh\nexec sleep 60\n");
    let mut command = rig.command(&["--batch"]);
    command.env("PATH", format!("{}:{}", rig.path("bin").display(), std::env::var("PATH").unwrap()));
    let mut batch = Batch::start(command);
    let ledger = rig.ledger("ledger");
    let request = json!({"cmd": "launch", "command": ledger.noted(&["sleep", &rig.nap()]), "host": "tmux"});
    check(&mut batch, request, "tmux", &["tmux", "2"]);
    assert_eq!(batch.finish(), Some(1));
    assert_eq!(ledger.entries().len(), 0);
    rig.assert_empty();
}

#[test]
fn without_terminals_the_kind_is_pty() {
    let rig = Rig::new();
    let session = {
        let mut batch = rig.batch();
        let session = batch.launch(json!({"command": ["true"]}));
        batch.ok(json!({"cmd": "stop", "session": session}));
        check(&mut batch, json!({"cmd": "resize", "session": session, "rows": 5, "cols": 20}), "pty", &[&session]);
        session
    };
    assert!(session.starts_with("shell-"));
    let mask = "mount --bind /dev/null /dev/ptmx && exec \"$@\"";
    let wrapper = ["unshare", "-m", "sh", "-c", mask, "sh"];
    if rig
        .wrapped(&["unshare", "-m", "sh", "-c", mask, "sh", "true"], &[])
        .status()
        .is_ok_and(|status| !status.success())
    {
        return println!("skipped: no mount namespace");
    }
    let mut batch = rig.batch_with(&wrapper, &[]);
    let ledger = rig.ledger("ledger");
    let request = json!({"cmd": "launch", "command": ledger.noted(&["sleep", &rig.nap()]), "host": "pty"});
    check(&mut batch, request, "pty", &["pseudo-terminal"]);
    assert_eq!(batch.finish(), Some(1));
    assert_eq!((ledger.entries().len(), rig.records().len()), (0, 0));
    rig.assert_empty();
}

#[test]
fn a_runtime_directory_that_went_away_is_io() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    batch.ok(json!({"cmd": "hello"}));
    fs::remove_dir_all(rig.runtime()).unwrap();
    let ledger = rig.ledger("ledger");
    let place = rig.runtime().display().to_string();
    for host in ["pty", "tmux"] {
        let request = json!({"cmd": "launch", "command": ledger.noted(&["sleep", "1"]), "host": host});
        check(&mut batch, request, "io", &["launch gate", &place]);
    }
    assert_eq!((ledger.entries().len(), rig.records().len()), (0, 0));
}

/// Runs a subcommand with and without `--json` and checks code, kind and words.
fn check_run(rig: &Rig, arguments: &[&str], code: i32, kind: &str, words: &[&str]) {
    let plain = rig.run(arguments);
    assert_eq!(plain.code, Some(code), "{arguments:?}: {plain:?}");
    assert!(plain.out.is_empty() && plain.error().starts_with("cookbook-tui: "), "{arguments:?}: {plain:?}");
    let mut with_json = arguments.to_vec();
    with_json.insert(with_json.iter().position(|word| *word == "--").unwrap_or(with_json.len()), "--json");
    let json = rig.run(&with_json);
    assert_eq!((json.code, json.err.len(), json.lines().len()), (Some(code), 0, 1), "{with_json:?}: {json:?}");
    assert_eq!(json.lines()[0]["error"]["kind"], kind, "{with_json:?}: {json:?}");
    for message in [plain.error(), json.lines()[0]["error"]["message"].as_str().unwrap().to_owned()] {
        for word in words {
            assert!(message.contains(word), "{arguments:?}: {word:?} is not in: {message}");
        }
    }
}

#[test]
fn subcommands_end_with_the_code_of_their_error() {
    let rig = Rig::new();
    assert_eq!(rig.run(&["ls"]).code, Some(0));
    let launched = rig.launch_tmux(&["--name", "here"], &["sleep".into(), rig.nap()]);
    let session = launched["session"].as_str().unwrap();
    check_run(&rig, &["wait", session, "--for", "exit", "--timeout", "0.1"], 1, "timeout", &[session, "running"]);
    check_run(&rig, &["wait", session, "--for", "ready"], 1, "failed", &[session]);
    check_run(&rig, &["launch", "--", "/no/such/program"], 1, "failed", &["/no/such/program"]);
    check_run(&rig, &["wait", session, "--for", "output"], 2, "usage", &["regex"]);
    check_run(&rig, &["send", session, "--key", "Entre"], 2, "usage", &["Entre"]);
    check_run(&rig, &["launch", "--cwd", "/no/such/dir", "--", "true"], 2, "usage", &["/no/such/dir"]);
    check_run(&rig, &["sweep", session], 3, "refused", &[session, "stop"]);
    let none = ["--inspector", "none", "launch", "--", "true"];
    check_run(&rig, &none, 3, "unverifiable", &["inspector", "none"]);
    for cmd in ["stop", "tree", "screen", "restart", "logs", "send", "sweep"] {
        check_run(&rig, &[cmd, "nobody"], 4, "not_found", &["nobody", "ls"]);
    }
    check_run(&rig, &["wait", "nobody", "--for", "exit"], 4, "not_found", &["nobody"]);
    check_run(&rig, &["launch", "no-recipe"], 4, "not_found", &["no-recipe", "recipes"]);
    assert_eq!(rig.run(&["attach", "nobody"]).code, Some(4));
}

#[test]
fn a_command_line_that_cannot_be_is_code_2() {
    let rig = Rig::new();
    for arguments in [
        &["--no-such-flag"][..],
        &["frobnicate"],
        &["stop"],
        &["ls", "extra"],
        &["launch"],
        &["launch", "shell", "--", "true"],
        &["launch", "--kind", "server", "--", "true"],
        &["launch", "--env", "=x", "--", "true"],
        &["wait", "x"],
        &["wait", "x", "--for", "doom"],
        &["--inspector", "perhaps", "ls"],
        &["--log-level", "loud", "ls"],
        &["--fail-fast"],
        &["completions", "cmd.exe"],
        &["--batch", "/no/such/file"],
        &["--tmux-socket", "a/b", "ls"],
    ] {
        let ran = rig.run(arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {ran:?}");
        assert!(ran.out.is_empty() && !ran.err.is_empty(), "{arguments:?}: {ran:?}");
    }
}

/// A session whose worker ignores what asks it to leave.
fn stubborn(worker: &str) -> String {
    format!("trap '' TERM HUP INT; {worker} & wait; wait")
}

#[test]
fn a_survivor_changes_the_code_and_is_named() {
    let rig = Rig::new();
    let nap = rig.nap();
    let mut strangers = Bystanders::new(&["sleep", &nap]);
    for json in [false, true] {
        let ledger = rig.ledger(if json { "json" } else { "text" });
        let script = stubborn(&ledger.noted_line(&format!("sleep {nap}")));
        let launched = rig.launch_tmux(&["--kind", "serve", "--grace", "40"], &["sh".into(), "-c".into(), script]);
        let session = launched["session"].as_str().unwrap();
        let worker = ledger.one();
        let mut words = vec!["stop", session, "--timeout", "0.3"];
        words.extend(json.then_some("--json"));
        let ran = rig.run(&words);
        assert_eq!(ran.code, Some(3), "{ran:?}");
        worker.assert_alive();
        if json {
            let receipt = &ran.lines()[0];
            assert_eq!((&receipt["dead"], &receipt["escalated"]), (&json!(false), &json!(false)), "{ran:?}");
            assert!(receipt["survivors"].as_array().unwrap().contains(&json!(worker.pid)), "{receipt}");
        } else {
            assert!(ran.text().contains("NOT dead"), "{ran:?}");
            assert!(ran.text().contains(&format!("{} survived", worker.pid)), "{ran:?}");
        }
        // The record stays, and says why.
        let record = fs::read_to_string(rig.state().join(format!("sessions/{session}.json"))).unwrap();
        let last = &serde_json::from_str::<Value>(&record).unwrap()["last"];
        assert!(last["verdict"] == "owned" && last["reason"].as_str().unwrap().contains("survived"), "{last}");
        worker.kill();
        worker.assert_ends();
    }
    strangers.assert_alive();
}

#[test]
fn force_is_not_kept_waiting_by_a_gentle_stop() {
    let rig = Rig::new();
    let ledger = rig.ledger("ledger");
    let script = stubborn(&ledger.noted_line(&format!("sleep {}", rig.nap())));
    let mut batch = rig.batch();
    let session = batch.launch(json!({"command": script, "kind": "serve", "host": "pty", "grace_s": 60}));
    let worker = ledger.one();
    let receipt = batch.ok(json!({"cmd": "stop", "session": session, "timeout_s": 0.3}));
    assert_eq!(receipt["dead"], json!(false), "{receipt}");
    worker.assert_alive();
    // By now the warden may be at its own ladder.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(batch.ok(json!({"cmd": "stop", "session": session, "force": true}))["dead"], json!(true));
    worker.assert_ends();
}

#[test]
fn the_time_of_a_stop_bounds_its_wait_for_others() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    let session = batch.launch(json!({"command": ["sleep", rig.nap()]}));
    let lock = fs::File::create(rig.state().join(format!("sessions/{session}.lock"))).unwrap();
    lock.lock().unwrap();
    let begun = Instant::now();
    let (kind, message) = batch.err(json!({"cmd": "stop", "session": session, "timeout_s": 0.5}));
    assert_eq!(kind, "timeout", "{message}");
    assert!(begun.elapsed() < Duration::from_secs(12), "it took {:?}: {message}", begun.elapsed());
}

#[test]
fn a_batch_ends_with_its_gravest_failure() {
    let rig = Rig::new();
    let launch = json!({"cmd": "launch", "command": ["sleep", rig.nap()]}).to_string();
    let failed = r#"{"cmd":"wait","session":"$last","for":"exit","timeout_s":0.05}"#;
    let unknown = r#"{"cmd":"stop","session":"nobody"}"#;
    let refused = r#"{"cmd":"sweep","session":"$last"}"#;
    for (lines, code) in [
        (&[][..], 0),
        (&[failed], 1),
        (&["{}"], 1),
        (&["not json"], 1),
        (&[unknown], 4),
        (&[unknown, failed], 4),
        (&[refused], 3),
        (&[failed, refused, unknown], 3),
    ] {
        let ran: Ran = rig.script(&[], format!("{launch}\n{}\n", lines.join("\n")).as_bytes());
        assert_eq!(ran.code, Some(code), "{lines:?}: {ran:?}");
    }
    // `ok` means that the command ran: a survivor is in the result, and in the code.
    let ledger = rig.ledger("ledger");
    let script = stubborn(&ledger.noted_line(&format!("sleep {}", rig.nap())));
    let mut batch = rig.batch();
    let session = batch.launch(json!({"command": script, "kind": "serve", "host": "pty", "grace_s": 4}));
    let worker = ledger.one();
    let receipt = batch.ok(json!({"cmd": "stop", "session": session, "timeout_s": 0.2}));
    assert_eq!(receipt["dead"], json!(false), "{receipt}");
    worker.assert_alive();
    assert_eq!(batch.finish(), Some(3));
    worker.assert_ends();
    rig.assert_empty();
}
