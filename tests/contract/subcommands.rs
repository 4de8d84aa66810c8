//! The subcommands on a session in tmux, for people and as JSON.

use std::fs;

use serde_json::{Value, json};

use crate::oracle::{Bystanders, Watched};
use crate::rig::{Ran, Rig, until};

fn check_ok(ran: &Ran) -> String {
    assert_eq!((ran.code, ran.error().as_str()), (Some(0), ""), "{ran:?}");
    ran.text()
}

fn id_of(launched: &Value) -> &str {
    launched["session"].as_str().unwrap()
}

#[test]
fn nothing_is_said_as_such() {
    let rig = Rig::new();
    // Servers of somebody else may follow.
    assert!(check_ok(&rig.run(&["ls"])).starts_with("no sessions; `cookbook-tui launch -- COMMAND` starts one\n"));
    assert_eq!(rig.json(&["ls"]), json!({"sessions": []}));
    assert!(check_ok(&rig.run(&["sweep"])).contains("dead; 0 ended"));
    let swept = rig.json(&["sweep"]);
    assert_eq!((&swept["dead"], &swept["signals"]), (&json!(true), &json!([])));
}

#[test]
fn pages_and_errors_are_json_where_that_is_asked_for() {
    let rig = Rig::new();
    let ran = rig.run(&["schema", "--json"]);
    assert_eq!((ran.code, &ran.out), (Some(0), &rig.run(&["schema"]).out), "{ran:?}");
    for page in [&["man"][..], &["completions", "bash"]] {
        assert_eq!(rig.json(page), json!({"text": check_ok(&rig.run(page))}), "{page:?}");
    }
    let ran = rig.run(&["attach", "nope", "--json"]);
    assert_eq!((ran.code, ran.error().as_str()), (Some(4), ""), "{ran:?}");
    assert_eq!(ran.lines()[0]["error"]["kind"], "not_found", "{ran:?}");
}

#[test]
fn a_page_whose_reader_leaves_ends_quietly() {
    let rig = Rig::new();
    for page in ["man", "completions bash", "schema", "keys"] {
        // The reader has left before the first byte.
        let line = format!("{{ sleep 0.2; {} {page}; echo \"code $?\" >&2; }} | true", rig.base().join(" "));
        let mut command = std::process::Command::new("bash");
        command.args(["-c", &line]);
        rig.settle(&mut command);
        let ran = Ran::of(command.spawn().unwrap());
        assert_eq!(ran.error(), "code 0\n", "{page}");
    }
}

#[test]
fn a_session_in_tmux_outlives_its_launcher() {
    let rig = Rig::new();
    let nap = rig.nap();
    let ledger = rig.ledger("ledger");
    let argv = ledger.noted(&["sleep", &nap]);
    let mut words = vec!["launch", "--host", "tmux", "--kind", "agent", "--name", "me", "--"];
    words.extend(argv.iter().map(String::as_str));
    let text = check_ok(&rig.run(&words));
    let workload = ledger.one();
    let session = text.split(' ').next().unwrap();
    assert!(session.starts_with("agent-") && session.len() == "agent-".len() + 8, "{text}");
    assert_eq!(text, format!("{session} runs in tmux as process {}\n", workload.pid));
    std::thread::sleep(std::time::Duration::from_millis(300));
    workload.assert_alive();

    let row = rig.json(&["ls"])["sessions"][0].take();
    for (key, value) in [
        ("session", json!(session)),
        ("name", json!("me")),
        ("kind", json!("agent")),
        ("host", json!("tmux")),
        ("machine", json!("local")),
        ("lifetime", json!("background")),
        ("phase", json!("running")),
        ("pid", json!(workload.pid)),
        ("verdict", json!("owned")),
        ("gpu_bytes", Value::Null),
        ("ports", json!([])),
        ("exit_code", Value::Null),
        ("signal", Value::Null),
        ("adopted", json!(false)),
        ("owner", Value::Null),
    ] {
        assert_eq!(row.get(key), Some(&value), "{key}: {row}");
    }
    assert!(row["uptime_s"].as_f64().unwrap() > 0.0 && row["rss_bytes"].as_u64().unwrap() > 0, "{row}");
    assert!(row["not_after"].as_f64().unwrap() > 1e9 && row.get("cpu_pct").is_some(), "{row}");
    assert!(row["containment"].as_array().unwrap().contains(&json!("warden")), "{row}");
    let text = check_ok(&rig.run(&["ls"]));
    for word in ["SESSION", session, "me", "tmux", "running", "owned", &nap] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn a_tree_shows_who_is_who() {
    let rig = Rig::new();
    let nap = rig.nap();
    let mut strangers = Bystanders::new(&["sleep", &nap]);
    let ledger = rig.ledger("ledger");
    let script = format!("{} & wait", ledger.noted_line(&format!("sleep {nap}")));
    let launched = rig.launch_tmux(&[], &["sh".into(), "-c".into(), script]);
    let child = ledger.one();
    let tree = rig.json(&["tree", id_of(&launched)]);
    let rows = tree["processes"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{tree}");
    let row = rows.iter().find(|row| row["pid"] == child.pid).unwrap();
    assert_eq!(row["ppid"], launched["pid"], "{row}");
    assert_eq!((&row["verdict"], &row["command"]), (&json!("owned"), &json!(format!("sleep {nap}"))), "{row}");
    let token = row["start_token"].as_str().unwrap();
    assert!(token.starts_with("procfs:") && token.ends_with(&format!(":{}", child.ticks)), "{token}");
    assert!(row["membership"].as_array().unwrap().contains(&json!("tree")), "{row}");
    for key in ["pgid", "sid", "state", "reason", "cpu_pct", "rss_bytes", "threads"] {
        assert!(row.get(key).is_some(), "{key}: {row}");
    }
    let age = row["age_s"].as_f64().unwrap();
    assert!(age > 0.0 && age < 300.0, "{row}");
    // The strangers with the same command line are reported, and none of them is a member.
    let alike: Vec<Value> = tree["lookalikes"].as_array().unwrap().iter().map(|row| row["pid"].clone()).collect();
    assert_eq!(alike.len(), 5, "{tree}");
    assert!(strangers.pids().all(|pid| alike.contains(&json!(pid))), "{tree}");
    let text = check_ok(&rig.run(&["tree", id_of(&launched)]));
    assert!(text.lines().next().unwrap().starts_with("PID"), "{text}");
    let line = text.lines().find(|line| line.starts_with(&child.pid.to_string())).unwrap();
    assert!(line.contains("owned") && line.contains("tree") && line.contains(&nap), "{text}");
    assert_eq!(text.matches("looks alike").count(), 5, "{text}");
    // Why each of them is what it is.
    let why = rig.json(&["why", id_of(&launched), &child.pid.to_string()]);
    crate::schema::check("results/why", &why);
    assert_eq!((&why["role"], &why["verdict"]), (&json!("member"), &json!("owned")), "{why}");
    assert!(why["on_stop"].as_str().unwrap().starts_with("signalled"), "{why}");
    assert_eq!(why["start_token"].as_str(), Some(token), "{why}");
    assert!(why["age_s"].as_f64().unwrap() >= age && why["rss_bytes"].as_u64().unwrap() > 0, "{why}");
    let parents = why["parents"].as_array().unwrap();
    assert_eq!((&parents[0]["pid"], &parents[0]["role"]), (&launched["pid"], &json!("member")), "{why}");
    assert!(parents.iter().any(|parent| parent["role"] == "supervisor"), "{why}");
    let stranger = strangers.pids().next().unwrap().to_string();
    let why = rig.json(&["why", id_of(&launched), &stranger]);
    crate::schema::check("results/why", &why);
    assert_eq!((&why["role"], &why["verdict"]), (&json!("lookalike"), &Value::Null), "{why}");
    assert!(why["age_s"].as_f64().unwrap() > 0.0 && why["rss_bytes"].as_u64().unwrap() > 0, "{why}");
    assert!(why["on_stop"].as_str().unwrap().starts_with("never signalled"), "{why}");
    let text = check_ok(&rig.run(&["why", id_of(&launched), &stranger]));
    assert!(text.contains("a command line is no ownership"), "{text}");
    let ours = std::process::id().to_string();
    let ran = rig.run(&["why", id_of(&launched), &ours]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert!(ran.error().contains("is not of serve-") || ran.error().contains("is not of shell-"), "{ran:?}");
    strangers.assert_alive();
}

#[test]
fn typing_screen_logs_and_waiting() {
    let rig = Rig::new();
    let launched =
        rig.launch_tmux(&[], &["sh".into(), "-c".into(), "echo first; read x; echo got:$x; read y; exit 4".into()]);
    let session = id_of(&launched);
    let found = rig.json(&["wait", session, "--for", "output", "--regex", "^fir..$", "--timeout", "20"]);
    assert_eq!((&found["match"], &found["phase"]), (&json!("first"), &json!("running")));
    assert_eq!(rig.json(&["send", session, "hello world", "--key", "Enter"]), json!({}));
    let found = check_ok(&rig.run(&["wait", session, "--for", "output", "--regex", "got:.*", "--timeout", "20"]));
    assert_eq!(found, "running: got:hello world\n");
    assert_eq!(check_ok(&rig.run(&["screen", session])), "first\nhello world\ngot:hello world\n");
    let screen = rig.json(&["screen", session]);
    assert_eq!((&screen["rows"], &screen["cols"], &screen["cursor"]), (&json!(24), &json!(80), &json!([3, 0])));
    assert_eq!(screen["lines"].as_array().unwrap().len(), 24);
    assert_eq!(screen["lines"][2], "got:hello world");
    until("the log has it", || check_ok(&rig.run(&["logs", session])) == "first\nhello world\ngot:hello world\n");
    assert_eq!(check_ok(&rig.run(&["logs", session, "--tail", "1"])), "got:hello world\n");
    assert_eq!(rig.json(&["logs", session, "--tail", "2"]), json!({"lines": ["hello world", "got:hello world"]}));
    assert_eq!(check_ok(&rig.run(&["send", session, "--key", "Enter"])), "");
    let waited = rig.json(&["wait", session, "--for", "exit", "--timeout", "20"]);
    assert_eq!(waited, json!({"phase": "failed", "exit_code": 4}));
    assert_eq!(check_ok(&rig.run(&["wait", session, "--for", "exit"])), "failed, exit status 4\n");
    // Its log stays readable until it is dismissed.
    assert_eq!(
        check_ok(&rig.run(&["logs", session, "--tail", "2"])),
        "got:hello world\n\n".trim_end_matches('\n').to_owned() + "\n"
    );
}

/// A shell that writes down every signal it gets, and a child.
fn recorder(rig: &Rig, child: &str) -> (String, std::path::PathBuf) {
    let signals = rig.path("signals");
    let traps = ["HUP", "INT", "TERM", "QUIT", "USR1", "USR2", "CONT"]
        .map(|name| format!("trap 'echo {name} >> {}' {name};", signals.display()))
        .join(" ");
    (format!("{traps} {child} & while kill -0 $! 2>/dev/null; do wait $!; done"), signals)
}

#[test]
fn a_dry_run_signals_nothing() {
    let rig = Rig::new();
    let nap = rig.nap();
    let mut strangers = Bystanders::new(&["sleep", &nap]);
    let ledger = rig.ledger("ledger");
    let (script, signals) = recorder(&rig, &ledger.noted_line(&format!("sleep {nap}")));
    let launched = rig.launch_tmux(&[], &["sh".into(), "-c".into(), script]);
    let (session, child) = (id_of(&launched), ledger.one());
    let parent = Watched::of(i32::try_from(launched["pid"].as_i64().unwrap()).unwrap());
    let before = rig.records();
    let receipt = rig.json(&["stop", session, "--dry-run"]);
    let planned: Vec<&Value> = receipt["plan"].as_array().unwrap().iter().collect();
    assert_eq!(planned.len(), 2, "{receipt}");
    for watched in [&parent, &child] {
        let row = planned.iter().find(|row| row["pid"] == watched.pid).unwrap();
        assert!(row["signal"].is_string() && row["verdict"] == "owned" && row["reason"].is_string(), "{row}");
        assert!(row["start_token"].as_str().unwrap().ends_with(&format!(":{}", watched.ticks)), "{row}");
    }
    assert_eq!((&receipt["signals"], &receipt["host_closed"]), (&json!([]), &json!(false)), "{receipt}");
    let text = check_ok(&rig.run(&["stop", session, "--dry-run", "--force"]));
    assert!(text.contains("KILL") && text.ends_with("2 would be signalled; nothing was\n"), "{text}");
    assert!(text.contains(&child.pid.to_string()), "{text}");
    assert_eq!(rig.records(), before, "a dry run wrote something");
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(!signals.exists(), "{:?}", fs::read_to_string(&signals));
    parent.assert_alive();
    child.assert_alive();
    assert_eq!(rig.json(&["ls"])["sessions"][0]["phase"], "running");
    // The real thing, by the same fixture: it does get them.
    let stopped = check_ok(&rig.run(&["stop", session]));
    assert!(stopped.starts_with(&format!("{session}: dead; 2 ended in ")), "{stopped}");
    assert!(fs::read_to_string(&signals).unwrap().contains("TERM"));
    parent.assert_ends();
    child.assert_ends();
    strangers.assert_alive();
    assert_eq!(rig.json(&["ls"]), json!({"sessions": []}));
    assert_eq!(rig.records(), [""; 0]);
    rig.assert_empty();
}

#[test]
fn a_stop_by_name_as_json_is_a_receipt() {
    let rig = Rig::new();
    let nap = rig.nap();
    let mut strangers = Bystanders::new(&["sleep", &nap]);
    let ledger = rig.ledger("ledger");
    let launched = rig.launch_tmux(&["--name", "n", "--kind", "serve"], &ledger.noted(&["sleep", &nap]));
    let workload = ledger.one();
    let receipt = rig.json(&["stop", "n"]);
    let expected = [
        ("session", launched["session"].clone()),
        ("host", json!("tmux")),
        ("dead", json!(true)),
        ("escalated", json!(false)),
        ("survivors", json!([])),
        ("unverified", json!([])),
        ("refused", json!([])),
        ("kept", json!([])),
        ("escapees", json!([])),
        ("still_held", json!([])),
        ("host_closed", json!(true)),
    ];
    for (key, value) in expected {
        assert_eq!(receipt.get(key), Some(&value), "{key}: {receipt}");
    }
    for key in ["captured", "lookalikes", "ports_released", "containment", "notes", "elapsed_ms"] {
        assert!(receipt.get(key).is_some(), "{key}: {receipt}");
    }
    let token = launched["start_token"].clone();
    let outcomes = receipt["outcomes"].as_array().unwrap();
    assert_eq!(outcomes.len(), 1, "{receipt}");
    for (key, value) in [("pid", json!(workload.pid)), ("start_token", token.clone()), ("outcome", json!("exited"))] {
        assert_eq!(outcomes[0][key], value, "{key}: {receipt}");
    }
    let sent = json!({"pid": workload.pid, "start_token": token, "signal": "TERM", "via": "pidfd"});
    assert!(receipt["signals"].as_array().unwrap().contains(&sent), "{receipt}");
    assert_eq!(receipt["lookalikes"].as_array().unwrap().len(), 5, "{receipt}");
    workload.assert_ends();
    strangers.assert_alive();
    // Dead is dead: the same again is not found, not an error of another kind.
    assert_eq!(rig.run(&["stop", "n"]).code, Some(4));
    rig.assert_empty();
}

#[test]
fn the_last_session_of_a_server_is_closed_every_time() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    for turn in 0..25 {
        let session = batch.launch(json!({"command": ["sleep", rig.nap()], "host": "tmux"}));
        let receipt = batch.ok(json!({"cmd": "stop", "session": session}));
        let ended = (&receipt["dead"], &receipt["host_closed"], &receipt["notes"]);
        assert_eq!(ended, (&json!(true), &json!(true), &json!([])), "turn {turn}");
        assert_eq!(rig.records(), [""; 0], "turn {turn}");
    }
}

#[test]
fn a_port_is_shown_and_released() {
    let rig = Rig::new();
    let program = "import socket,time; s=socket.socket(); s.bind(('127.0.0.1',0)); s.listen(); print('port',s.getsockname()[1],flush=True); time.sleep(3600)";
    let launched = rig.launch_tmux(&["--kind", "serve"], &["python3".into(), "-c".into(), program.into()]);
    let session = id_of(&launched);
    let found = rig.json(&["wait", session, "--for", "output", "--regex", "port \\d+", "--timeout", "20"]);
    let port: u16 = found["match"].as_str().unwrap()[5..].parse().unwrap();
    assert_eq!(rig.json(&["ls"])["sessions"][0]["ports"], json!([port]));
    let receipt = rig.json(&["stop", session]);
    assert_eq!((&receipt["ports_released"], &receipt["still_held"]), (&json!([port]), &json!([])), "{receipt}");
    std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
}

#[test]
fn a_restart_ends_the_old_and_starts_the_new() {
    let rig = Rig::new();
    let nap = rig.nap();
    let mut strangers = Bystanders::new(&["sleep", &nap]);
    let ledger = rig.ledger("ledger");
    rig.write("work/sub/x", "");
    let launched = rig.launch_tmux(&["--name", "n", "--cwd", "sub"], &ledger.noted(&["sleep", &nap]));
    let old = ledger.one();
    // Looked at first: nobody is signalled, and nothing is started.
    let plan = check_ok(&rig.run(&["restart", "n", "--dry-run"]));
    assert!(plan.contains(&old.pid.to_string()) && plan.contains("would be signalled; nothing was"), "{plan}");
    old.assert_alive();
    let again = rig.json(&["restart", "n"]);
    let [ended, new] = <[Watched; 2]>::try_from(ledger.wait(2)).unwrap();
    assert_eq!((ended.pid, &again["receipt"]["dead"]), (old.pid, &json!(true)), "{again}");
    assert_ne!(again["session"], launched["session"]);
    assert_eq!((&again["pid"], &again["host"]), (&json!(new.pid), &json!("tmux")), "{again}");
    old.assert_ends();
    new.assert_alive();
    let text = check_ok(&rig.run(&["restart", "n"]));
    assert!(text.contains("dead; 1 ended") && text.contains("runs in tmux as process"), "{text}");
    new.assert_ends();
    let row = rig.json(&["ls"])["sessions"][0].take();
    let cwd = rig.path("work/sub").display().to_string();
    assert_eq!((&row["name"], &row["cwd"]), (&json!("n"), &json!(cwd)), "{row}");
    strangers.assert_alive();
}

#[test]
fn a_restart_by_another_run_keeps_what_was_asked_for_or_says_no() {
    let rig = Rig::new();
    let options = ["--name", "n", "--env", "PORT=8123", "--ceiling", "7200"];
    let script = "echo port:$PORT; exec sleep 3600".to_owned();
    rig.launch_tmux(&options, &["sh".into(), "-c".into(), script]);
    let before = rig.json(&["ls"])["sessions"][0].take();
    let ran = rig.run(&["restart", "n"]);
    if ran.code == Some(3) {
        return;
    }
    check_ok(&ran);
    let found = rig.json(&["wait", "n", "--for", "output", "--regex", "port:\\d*", "--timeout", "20"]);
    assert_eq!(found["match"], "port:8123", "the variable of the launch is lost without a word: {ran:?}");
    let after = rig.json(&["ls"])["sessions"][0].take();
    let later = after["not_after"].as_f64().unwrap() - before["not_after"].as_f64().unwrap();
    assert!((0.0..600.0).contains(&later), "a ceiling of 2 h became one of {} h", 2.0 + later / 3600.0);
}

/// A workload that leaves at once and leaves a daemon behind.
fn leaver(rig: &Rig, kind: &str) -> (Value, Watched, Bystanders) {
    let nap = rig.nap();
    let strangers = Bystanders::new(&["sleep", &nap]);
    let ledger = rig.ledger("ledger");
    // Not before the daemon has a kernel session of its own: the end of the shell hangs up on its terminal.
    let script = format!(
        "setsid -f {} </dev/null >/dev/null 2>&1; while [ ! -s {} ]; do sleep 0.02; done; exit 0",
        ledger.noted_line(&format!("sleep {nap}")),
        rig.path("ledger").display()
    );
    let launched = rig.launch_tmux(&["--kind", kind], &["sh".into(), "-c".into(), script]);
    let daemon = ledger.one();
    rig.json(&["wait", id_of(&launched), "--for", "exit", "--timeout", "20"]);
    daemon.assert_alive();
    (launched, daemon, strangers)
}

#[test]
fn a_time_below_zero_is_an_error_that_says_what_it_can_be() {
    let rig = Rig::new();
    rig.launch_tmux(&["--name", "n"], &["sleep".into(), rig.nap()]);
    for words in [
        &["stop", "n", "--grace", "-1"][..],
        &["stop", "n", "--timeout", "-1"],
        &["wait", "n", "--for", "exit", "--timeout", "-1"],
    ] {
        let ran = rig.run(words);
        assert_eq!(ran.code, Some(2), "{words:?}: {ran:?}");
        assert!(ran.error().contains("must be a number of seconds from 0"), "{words:?}: {ran:?}");
    }
    assert_eq!(rig.json(&["ls"])["sessions"][0]["phase"], "running");
}

#[test]
fn a_sweep_ends_what_is_left_of_a_server() {
    let rig = Rig::new();
    let (launched, daemon, mut strangers) = leaver(&rig, "serve");
    let session = id_of(&launched);
    // Not gone while the daemon lives.
    let gone = ["wait", session, "--for", "gone", "--timeout", "0.3"];
    assert_eq!(rig.run(&gone).code, Some(1));
    let plan = rig.json(&["sweep", session, "--dry-run"]);
    assert_eq!((&plan["plan"][0]["pid"], &plan["signals"]), (&json!(daemon.pid), &json!([])), "{plan}");
    assert!(check_ok(&rig.run(&["sweep", "--dry-run"])).contains("1 would be signalled; nothing was"));
    daemon.assert_alive();
    let receipt = rig.json(&["sweep"]);
    assert_eq!(receipt["dead"], json!(true), "{receipt}");
    assert!(receipt["signals"].as_array().unwrap().iter().all(|sent| sent["pid"] == daemon.pid), "{receipt}");
    daemon.assert_ends();
    strangers.assert_alive();
    assert_eq!(rig.json(&["ls"]), json!({"sessions": []}));
    // What is not listed any more is not there any more.
    rig.assert_empty();
}

#[test]
fn a_sweep_only_reports_what_left_a_shell() {
    let rig = Rig::new();
    let (launched, daemon, mut strangers) = leaver(&rig, "shell");
    let text = check_ok(&rig.run(&["sweep", id_of(&launched), "--dry-run"]));
    assert!(text.contains("reported") && text.contains("0 would be signalled; nothing was"), "{text}");
    let ran = rig.run(&["sweep", id_of(&launched), "--json"]);
    let receipt = &ran.lines()[0];
    assert_eq!((ran.code, &receipt["signals"]), (Some(0), &json!([])), "{ran:?}");
    assert_eq!(receipt["escapees"][0]["pid"], daemon.pid, "{receipt}");
    daemon.assert_alive();
    strangers.assert_alive();
}
