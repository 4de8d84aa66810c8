//! The contract of `adopt` and of Cookbook's tasks: answers, texts and exit codes. What happens to processes is for
//! `tests/survivors`.

use serde_json::{Value, json};

use crate::oracle::Bystanders;
use crate::rig::{Rig, until};

#[test]
fn adopting_answers_like_a_launch_and_every_row_is_in_the_schema() {
    let rig = Rig::new();
    let mut strangers = Bystanders::new(&["sleep", &rig.nap()]);
    let ledger = rig.ledger("ledger");
    let mut words = vec!["new-session".to_owned(), "-d".to_owned(), "-s".to_owned(), "m\u{e9} x".to_owned()];
    words.extend(ledger.noted(&["sleep", &rig.nap()]));
    assert_eq!(rig.tmux(&words.iter().map(String::as_str).collect::<Vec<_>>()).code, Some(0));
    let workload = ledger.one();
    let state = json!({
        "tasks": [
            { "id": "serve-0000000a", "status": "running", "remoteHost": "gpu1" },
            { "id": "cookbook-0000000b", "type": "download", "status": "done" },
        ],
        "presets": [{ "name": "far", "cmd": "vllm serve x", "host": "gpu1" }],
    });
    rig.write("data/cookbook_state.json", &state.to_string());
    rig.write(
        "data/containment_grants.json",
        r#"{"g": {"owner": "a\u001b[2J", "pid": 999999999, "start_token": "win32:1"}}"#,
    );
    let config = format!("[cookbook]\ndata_dir = \"{}\"\nsocket = \"nobody\"\n", rig.path("data").display());
    rig.write("home/config/cookbook-tui/config.toml", &config);
    let mut batch = rig.batch();
    let answer = batch.ok(json!({"cmd": "adopt", "tmux": {"session": "m\u{e9} x"}}));
    let id = answer["session"].as_str().unwrap().to_owned();
    assert_eq!((&answer["host"], &answer["pid"]), (&json!("tmux"), &json!(workload.pid)), "{answer:#}");
    assert!(answer["tmux"]["session_id"].as_str().unwrap().starts_with('$'), "{answer:#}");
    assert_eq!(batch.ok(json!({"cmd": "list"}))["sessions"].as_array().unwrap().len(), 3);
    batch.ok(json!({"cmd": "tree", "session": id}));
    batch.ok(json!({"cmd": "recipes"}));
    batch.ok(json!({"cmd": "doctor"}));
    assert_eq!(batch.ok(json!({"cmd": "orphans"}))["cookbook"][0]["verdict"], "unverifiable");
    let (kind, message) = batch.err(json!({"cmd": "stop", "session": "serve-0000000a"}));
    assert!(kind == "refused" && message.contains("gpu1") && message.contains("stop it there"), "{kind}: {message}");
    assert_eq!(batch.err(json!({"cmd": "send", "session": "cookbook-0000000b", "text": "x"})).0, "refused");
    batch.ok(json!({"cmd": "stop", "session": id, "dry_run": true}));
    workload.assert_alive();
    let receipt = batch.ok(json!({"cmd": "stop", "session": id}));
    assert_eq!((&receipt["dead"], &receipt["containment"]), (&json!(true), &json!(["tree"])), "{receipt:#}");
    assert!(!workload.is_alive());
    strangers.assert_alive();
}

#[test]
fn a_state_file_that_cannot_be_used_is_in_the_schema_and_in_the_text() {
    let rig = Rig::new();
    let file = rig.path("data/cookbook_state.json");
    let config = format!("[cookbook]\ndata_dir = \"{}\"\n", rig.path("data").display());
    rig.write("home/config/cookbook-tui/config.toml", &config);
    rig.write("data/cookbook_state.json", r#"{"tasks": [{"id": "serve-0000000a", "remoteHost": "gpu1"}]}"#);
    let mut batch = rig.batch();
    batch.ok(json!({"cmd": "subscribe"}));
    assert_eq!(batch.ok(json!({"cmd": "list"}))["notes"], json!(null));
    rig.write("data/cookbook_state.json", "[1,2]");
    let event = batch.event("of the file", |event| event["event"] == "cookbook");
    let wrong = format!("{} cannot be used: it is no JSON object; mend the file", file.display());
    assert!(event["problem"].as_str().unwrap().starts_with(&wrong), "{event}");
    let notes = batch.ok(json!({"cmd": "list"}))["notes"].take();
    let note = format!("Cookbook's tasks cannot be read: {}", event["problem"].as_str().unwrap());
    assert_eq!(notes, json!([note]));
    let ran = rig.run(&["ls"]);
    assert_eq!((ran.code, ran.text().contains(&note)), (Some(0), true), "{ran:?}");
    let ran = rig.run(&["tree", "serve-0000000a"]);
    assert_eq!((ran.code, ran.error().contains(&wrong)), (Some(1), true), "{ran:?}");
    rig.write("data/cookbook_state.json", "{}");
    batch.event("of its end", |event| event["event"] == "cookbook" && event["problem"].is_null());
    assert_eq!(rig.run(&["tree", "serve-0000000a"]).code, Some(4));
}

#[test]
fn a_task_without_a_payload_is_listed_and_what_is_no_task_is_counted() {
    let rig = Rig::new();
    let config = format!("[cookbook]\ndata_dir = \"{}\"\n", rig.path("data").display());
    rig.write("home/config/cookbook-tui/config.toml", &config);
    let task = r#"{"id": "serve-000000aa", "type": "serve", "status": "running", "name": "x", "payload": null}"#;
    let file = rig.write("data/cookbook_state.json", &format!(r#"{{"tasks": [{task}, "what is this"]}}"#));
    let mut batch = rig.batch();
    let list = batch.ok(json!({"cmd": "list"}));
    assert_eq!(list["sessions"][0]["session"], "serve-000000aa", "{list:#}");
    let note = format!("one entry of {} is neither a task nor a preset; it stays as it is", file.display());
    assert_eq!(list["notes"], json!([note]));
    let checks = batch.ok(json!({"cmd": "doctor"}))["checks"].take();
    let check = checks.as_array().unwrap().iter().find(|check| check["name"] == "Cookbook").unwrap();
    assert_eq!(check["detail"], json!(note));
    let ran = rig.run(&["ls"]);
    assert_eq!((ran.code, ran.text().contains(&note)), (Some(0), true), "{ran:?}");
    batch.finish();
}

#[test]
fn the_subcommand_says_what_it_took_in_and_ends_with_the_code_of_its_error() {
    let rig = Rig::new();
    let nap = rig.nap();
    assert_eq!(rig.tmux(&["new-session", "-d", "-s", "main", "sleep", &nap]).code, Some(0));
    let ran = rig.run(&["adopt", "main"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.text().contains("runs in tmux as process") && ran.text().contains("no warden"), "{ran:?}");
    for (words, code) in [
        (&["adopt", "mai"][..], 4),
        (&["adopt", "$99"], 4),
        (&["adopt", "main", "--socket", "nobody"], 4),
        (&["adopt", "main", "--socket", "a/b"], 2),
        (&["adopt"], 2),
        (&["--inspector", "none", "adopt", "main"], 3),
        (&["extend", "main", "60"], 3),
        (&["restart", "main"], 3),
    ] {
        let ran = rig.run(words);
        assert_eq!(ran.code, Some(code), "{words:?}: {ran:?}");
    }
    assert!(rig.run(&["ls"]).text().contains("main"));
    let ran = rig.run(&["logs", "-f", "main"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.error().contains("nobody writes its log"), "{ran:?}");
    let ran = rig.run(&["stop", "main"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.text().contains("no warden"), "{ran:?}");
    assert_eq!(rig.run(&["adopt", "main"]).code, Some(4));
}

#[test]
fn the_sessions_of_one_server_are_listed() {
    let rig = Rig::new();
    let nap = rig.nap();
    let other = rig.path("other");
    let other = other.to_str().unwrap();
    assert_eq!(rig.tmux(&["new-session", "-d", "-s", "here", "sleep", &nap]).code, Some(0));
    assert_eq!(rig.tmux(&["-S", other, "new-session", "-d", "-s", "there", "sleep", &nap]).code, Some(0));
    let listed = rig.json(&["adopt", "--list", "--socket", other]);
    let names: Vec<_> = listed["sessions"].as_array().unwrap().iter().map(|row| &row["name"]).collect();
    assert_eq!(names, [&json!("there")], "{listed}");
    let ran = rig.run(&["adopt", "--list", "--socket", other]);
    assert!(ran.text().contains("there") && !ran.text().contains("here\n"), "{ran:?}");
    assert_eq!(rig.run(&["adopt", "--list", "--socket", "a/b"]).code, Some(2));
    assert_eq!(rig.run(&["adopt", "here", "--list"]).code, Some(2));
    assert_eq!(rig.tmux(&["-S", other, "kill-server"]).code, Some(0));
}

/// The model server of a session that was not launched by us is opened for editing as it runs; of a task of Cookbook it is
/// the line that Cookbook has, without its secrets. Where it ran, and with what, nobody knows: it is not made up.
#[test]
fn a_server_of_others_is_drafted_as_it_is_known() {
    let rig = Rig::new();
    let line = "CUDA_VISIBLE_DEVICES=0 llama-server -m 'my model.gguf' --api-key";
    let command = format!("{line} s3cr3tk3y");
    let task = json!({"id": "serve-0000000a", "type": "serve", "status": "running", "payload": {"_cmd": command}});
    rig.write("data/cookbook_state.json", &json!({ "tasks": [task] }).to_string());
    let config = format!("[cookbook]\ndata_dir = \"{}\"\nsocket = \"{}\"\n", rig.path("data").display(), rig.socket);
    rig.write("home/config/cookbook-tui/config.toml", &config);
    let nap = rig.nap();
    for name in ["serve-0000000a", "mine"] {
        let server = format!("exec -a llama-server sleep {nap}");
        assert_eq!(rig.tmux(&["new-session", "-d", "-s", name, "bash", "-c", &server]).code, Some(0));
    }
    until("both run", || {
        let panes = rig.tmux(&["list-panes", "-a", "-F", "#{pane_current_command}"]).text();
        panes.lines().filter(|line| *line == "llama-server").count() == 2
    });
    let mut batch = rig.batch();
    let task = batch.ok(json!({"cmd": "draft", "session": "serve-0000000a"}));
    assert_eq!(task["launch"]["command"], format!("{line} ***"), "{task:#}");
    assert_eq!((&task["launch"]["kind"], &task["launch"]["host"]), (&json!("serve"), &json!("tmux")), "{task:#}");
    for unknown in ["cwd", "env", "recipe", "like", "gpus", "venv"] {
        assert_eq!(task["launch"][unknown], Value::Null, "{task:#}");
    }
    assert!(task["notes"][0].as_str().unwrap().contains("its environment is not known"), "{task:#}");
    // Changed, it can be launched: nothing of it stands in the way.
    let mut again = task["launch"].clone();
    (again["cmd"], again["command"], again["kind"]) = (json!("launch"), json!(["sleep", rig.nap()]), json!("shell"));
    batch.launch(again);
    let mine = batch.ok(json!({"cmd": "adopt", "tmux": {"session": "mine"}}))["session"].clone();
    let mine = batch.ok(json!({"cmd": "draft", "session": mine}));
    assert_eq!(mine["launch"]["command"], json!(["llama-server", nap]), "{mine:#}");
    batch.finish();
}
