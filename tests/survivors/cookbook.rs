//! Cookbook's tasks: listed from its state file and its tmux sessions, stopped at a person's word, and marked there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Batch, Entry, Host, World, eventually, process_state, python, rows};

/// The user's own server, where Cookbook has its sessions; private to the test.
const THEIRS: &str = "default";

/// A world with a data directory of Cookbook.
pub(crate) struct Kitchen {
    pub(crate) world: World,
    file: PathBuf,
}

impl Kitchen {
    /// Writes a state file, byte for byte as it is given.
    pub(crate) fn new(state: &str) -> Self {
        let world = World::new();
        fs::create_dir(world.path("data")).unwrap();
        let file = world.path("data/cookbook_state.json");
        fs::write(&file, state).unwrap();
        world.recipes(&format!("[cookbook]\ndata_dir = \"{}\"\n", world.path("data").display()));
        Self { world, file }
    }

    pub(crate) fn state(&self) -> String {
        fs::read_to_string(&self.file).unwrap()
    }

    /// Makes a session as Cookbook does.
    pub(crate) fn session(&self, name: &str, script: &str) {
        let script = self.world.shell(script);
        self.ask(&["new-session", "-d", "-s", name, "-x", "120", "-y", "30", "bash", &script]);
    }

    #[track_caller]
    pub(crate) fn ask(&self, arguments: &[&str]) -> String {
        let output = self.world.tmux_on(THEIRS, arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    fn has(&self, session: &str) -> bool {
        self.world.tmux_on(THEIRS, &["has-session", "-t", &format!("={session}")]).status.success()
    }
}

#[track_caller]
pub(crate) fn assert_note(receipt: &Value, part: &str) {
    assert!(rows(receipt, "notes").any(|note| note.as_str().unwrap().contains(part)), "{part}\n{receipt:#}");
}

const STATE: &str = r#"{
  "tasks": [
    {"id": "serve-0000000a", "sessionId": "serve-0000000a", "name": "Qwen", "type": "serve", "status": "running",
     "output": "\ud800 é", "_new": {"b": 1, "a": [1.50]}, "ts": 1700000000123,
     "payload": {"_cmd": "vllm serve Qwen --api-key sk-abcdefghijklmnop", "port": 8000, "hf_token": "hf_abcdefghijklmnopqrst"}},
    {"id": "serve-0000000b", "type": "serve", "status": "ready"},
    {"id": "cookbook-0000000c", "type": "download", "repoId": "org/m", "status": "running"},
    {"id": "serve-0000000d", "type": "serve", "remoteHost": "me@gpu1", "status": "running"},
    {"id": "cookbook-0000000e", "type": "download", "status": "done"},
    {"id": "serve-0000000f", "type": "serve", "status": "running"},
    {"sessionId": "theirs", "type": "serve", "status": "running", "_adoptedExternally": true},
    {"id": "serve-00000011", "type": "serve", "status": "running"}
  ],
  "removedTasks": {"serve-00000011": 1700000000000},
  "env": {"env": "none"}, "serveState": {"x": [ 1,2 ]}
}
"#;

#[test]
fn tasks_are_listed_and_one_is_stopped_with_all_of_its_processes() {
    let kitchen = Kitchen::new(STATE);
    let world = &kitchen.world;
    kitchen.session("serve-0000000a", "marked $FX/heard; log root; (leaf child) & while :; do wait; sleep 0.1; done");
    kitchen.session("serve-0000000b", "echo '=== Process exited with code 3 ==='; log shell; exec sleep $NAP");
    kitchen.session("cookbook-0000000c", "echo 'Fetching 2 files'; leaf download");
    kitchen.session("theirs", "leaf theirs");
    kitchen.session("serve-00000011", "leaf removed");
    world.ledger.await_roles(&["root", "child", "shell", "download", "theirs", "removed"]);
    let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
    let mut batch = world.batch();
    let list = batch.ok(json!({ "cmd": "list" }));
    let seen = |session: &str| {
        let row = rows(&list, "sessions")
            .find(|row| row["session"] == session)
            .unwrap_or_else(|| panic!("{session}\n{list:#}"));
        assert_eq!((&row["adopted"], &row["owner"]), (&json!(true), &json!("cookbook")), "{row:#}");
        (
            row["kind"].as_str().unwrap().to_owned(),
            row["phase"].as_str().unwrap().to_owned(),
            row["verdict"].as_str().unwrap().to_owned(),
        )
    };
    let expected = |kind: &str, phase: &str, verdict: &str| (kind.to_owned(), phase.to_owned(), verdict.to_owned());
    assert_eq!(seen("serve-0000000a"), expected("serve", "starting", "owned"));
    assert_eq!(seen("serve-0000000b"), expected("serve", "failed", "owned"), "the pane outlived its server");
    assert_eq!(seen("cookbook-0000000c"), expected("download", "downloading", "owned"));
    assert_eq!(seen("serve-0000000d"), expected("serve", "unverifiable", "unverifiable"));
    assert_eq!(seen("cookbook-0000000e"), expected("download", "exited", "gone"));
    assert_eq!(seen("serve-0000000f"), expected("serve", "failed", "gone"));
    assert_eq!(rows(&list, "sessions").count(), 7, "what Cookbook has removed is not brought back\n{list:#}");
    assert_eq!(batch.row("serve-0000000b")["exit_code"], 3);
    assert_eq!(batch.row("serve-0000000d")["machine"], "me@gpu1");
    let text = list.to_string();
    assert!(!text.contains("sk-abc") && !text.contains("hf_abc") && text.contains("vllm serve Qwen"), "{text}");
    // Looking has left no trace.
    batch.ok(json!({ "cmd": "tree", "session": "Qwen" }));
    batch.ok(json!({ "cmd": "logs", "session": "Qwen" }));
    let plan = batch.ok(json!({ "cmd": "stop", "session": "Qwen", "dry_run": true }));
    assert!(rows(&plan, "plan").count() >= 2, "{plan:#}");
    assert_eq!((world.text("heard").as_str(), batch.signals(), kitchen.state()), ("", 0, STATE.to_owned()));
    assert!(world.tether("serve-0000000a").is_none());
    let receipt = batch.ok(json!({ "cmd": "stop", "session": "Qwen", "grace_s": 0.3 }));
    assert_eq!((&receipt["dead"], &receipt["host_closed"]), (&json!(true), &json!(true)), "{receipt:#}");
    assert_note(&receipt, "marked as stopped");
    assert!(!world.ledger.is_alive("root") && !world.ledger.is_alive("child"));
    for role in ["shell", "download", "theirs", "removed"] {
        assert!(world.ledger.is_alive(role), "{role}");
    }
    assert_eq!(kitchen.state(), STATE.replacen("\"running\"", "\"stopped\"", 1), "nothing else changed");
    assert!(!kitchen.has("serve-0000000a") && kitchen.has("theirs"));
    assert_eq!(batch.row("serve-0000000a")["phase"], "exited");
    let (_, fresh) = world.run(&["ls"]);
    let row = rows(&fresh, "sessions").find(|row| row["session"] == "serve-0000000a").unwrap();
    assert_eq!((&row["phase"], &row["verdict"]), (&json!("exited"), &json!("gone")), "{fresh:#}");
    bystanders.assert_untouched();
    for (session, kind, part) in
        [("serve-0000000d", "refused", "stop it there"), ("serve-00000011", "not_found", "no session")]
    {
        let error = batch.error(json!({ "cmd": "stop", "session": session }));
        assert_eq!(error["kind"], kind, "{error}");
        assert!(error["message"].as_str().unwrap().contains(part), "{error}");
    }
    assert_eq!(batch.error(json!({ "cmd": "tree", "session": "serve-0000000f" }))["kind"], "refused");
    assert_eq!(batch.error(json!({ "cmd": "dismiss", "session": "serve-0000000b" }))["kind"], "refused");
    // A crash left a shell: it is closed, and its status is Cookbook's.
    let receipt = batch.ok(json!({ "cmd": "stop", "session": "serve-0000000b", "force": true }));
    assert_eq!((&receipt["dead"], world.ledger.is_alive("shell")), (&json!(true), false), "{receipt:#}");
    // What was gone already is stopped; what was done stays done.
    let before = kitchen.state();
    assert_note(&batch.stop("cookbook-0000000e"), "keeps its status: done");
    assert_eq!(kitchen.state(), before);
    assert_note(&batch.stop("serve-0000000f"), "gone already");
    let state: Value = serde_json::from_str(&kitchen.state().replace("\\ud800", "")).unwrap();
    assert_eq!((&state["tasks"][5]["status"], &state["tasks"][6]["status"]), (&json!("stopped"), &json!("running")));
    // By the name that it has there, too.
    let list = batch.ok(json!({ "cmd": "list" }));
    let theirs = rows(&list, "sessions").find(|row| row["name"] == "theirs").unwrap()["session"].clone();
    assert_eq!(batch.ok(json!({ "cmd": "stop", "session": "theirs", "force": true }))["session"], theirs);
    assert!(!world.ledger.is_alive("theirs") && world.ledger.is_alive("removed"));
    let secrets = world.text("state/receipts.jsonl") + &world.text("state/cookbook-tui.log");
    assert!(!secrets.contains("sk-abc") && !secrets.contains("hf_abc"));
}

/// What Cookbook knows as running may load, be ready, or have failed for a reason: in the middle of a bar, and long ago.
#[test]
fn the_server_of_a_task_is_followed_as_one_of_ours() {
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let task = |id: &str, command: &str| json!({ "id": id, "type": "serve", "status": "running", "name": id, "payload": { "_cmd": command } });
    let ready = task("serve-0000000a", &format!("vllm serve Qwen --host 127.0.0.1 --port {port}"));
    let failed = task("serve-0000000b", "llama-server -m tiny.gguf --bogus-flag");
    let kitchen = Kitchen::new(&json!({ "tasks": [ready, failed] }).to_string());
    let server = kitchen.world.python(&format!(
        "import http.server, os, time
log('root')
while not os.path.exists(FX + '/loaded'): time.sleep(0.05)
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header('Content-Length', '2'); self.end_headers(); self.wfile.write(b'{{}}')
http.server.HTTPServer(('127.0.0.1', {port}), Answer).serve_forever()"
    ));
    kitchen.session("serve-0000000a", &format!("exec {} -I {server}", python()));
    let said = "echo 'error: invalid argument: --bogus-flag'; printf '75%%'; echo '=== Process exited with code 1 ==='";
    kitchen.session("serve-0000000b", &format!("{said}; seq 400; log shell; exec bash --norc -i"));
    kitchen.world.ledger.await_roles(&["root", "shell"]);
    let mut batch = kitchen.world.batch();
    assert_eq!(batch.row("serve-0000000a")["phase"], "starting");
    fs::write(kitchen.world.path("loaded"), "").unwrap();
    let waited = batch.ok(json!({ "cmd": "wait", "session": "serve-0000000a", "for": "ready", "timeout_s": 20 }));
    assert_eq!(waited["phase"], "ready");
    let row = batch.row("serve-0000000a");
    assert_eq!((&row["phase"], &row["ports"]), (&json!("ready"), &json!([port])), "{row:#}");
    let row = batch.row("serve-0000000b");
    assert_eq!(row["phase"], "failed", "{row:#}");
    assert!(row["detail"].as_str().unwrap().contains("it does not know the option --bogus-flag"), "{row:#}");
    assert_eq!(row["suggest"]["command"], json!("llama-server -m tiny.gguf"), "{row:#}");
    let error = batch.error(json!({ "cmd": "wait", "session": "serve-0000000b", "for": "ready", "timeout_s": 20 }));
    assert_eq!(error["kind"], "failed", "{error}");
}

pub(crate) const ONE: &str =
    r#"{"tasks": {"old": {"id": "serve-0000000a", "status": "running", "name": "n"}, "more": 7}}"#;

/// A stop that left somebody is not a stop.
#[test]
fn a_task_is_marked_only_when_its_stop_succeeded() {
    let kitchen = Kitchen::new(ONE);
    let world = &kitchen.world;
    kitchen.session("serve-0000000a", "trap '' TERM HUP; log root; exec sleep $NAP");
    world.ledger.await_roles(&["root"]);
    let mut batch = world.batch();
    let receipt = batch.ok(json!({ "cmd": "stop", "session": "n", "grace_s": 60, "timeout_s": 0.4 }));
    assert_ne!(receipt["dead"], true, "{receipt:#}");
    assert_note(&receipt, "is not marked as stopped");
    assert_eq!((kitchen.state().as_str(), world.ledger.is_alive("root")), (ONE, true));
    // A person has acted: it is recorded, and only that person ends it.
    assert!(world.tether("serve-0000000a").is_some());
    let (_, swept) = world.run(&["sweep"]);
    assert!(world.ledger.is_alive("root"), "{swept:#}");
    let (code, receipt) = world.run(&["stop", "n", "--force"]);
    assert_eq!(code, 0, "{receipt:#}");
    assert_eq!((kitchen.state(), world.ledger.is_alive("root")), (ONE.replace("running", "stopped"), false));
}

/// A file that cannot be used is named; nothing is signalled, and nothing of it changes.
#[test]
fn a_state_file_that_cannot_be_used_stops_nothing() {
    let kitchen = Kitchen::new(ONE);
    let world = &kitchen.world;
    kitchen.session("serve-0000000a", "leaf root");
    world.ledger.await_roles(&["root"]);
    let mut batch = world.batch();
    assert_eq!(batch.row("serve-0000000a")["phase"], "running");
    let refused = |batch: &mut Batch, what: &str| {
        let error = batch.error(json!({ "cmd": "stop", "session": "serve-0000000a" }));
        assert_eq!(error["kind"], "state", "{what}: {error}");
        assert!(error["message"].as_str().unwrap().contains(kitchen.file.to_str().unwrap()), "{what}: {error}");
        assert_eq!((world.ledger.is_alive("root"), batch.signals()), (true, 0), "{what}");
        assert!(world.tether("serve-0000000a").is_none(), "{what}");
    };
    fs::set_permissions(&kitchen.file, fs::Permissions::from_mode(0o444)).unwrap();
    refused(&mut batch, "locked");
    assert_eq!(kitchen.state(), ONE);
    fs::set_permissions(&kitchen.file, fs::Permissions::from_mode(0o644)).unwrap();
    for bad in ["{\"tasks\": [", "", "[]", "{\"tasks\": \"x\"}"] {
        fs::write(&kitchen.file, bad).unwrap();
        refused(&mut batch, bad);
        assert_eq!(kitchen.state(), bad);
    }
    fs::remove_file(&kitchen.file).unwrap();
    refused(&mut batch, "missing");
    assert!(!kitchen.file.exists());
    let (_, doctor) = world.run(&["doctor"]);
    let check = rows(&doctor, "checks").find(|check| check["name"] == "Cookbook").unwrap();
    assert_eq!(check["state"], "warn", "{doctor:#}");
    assert!(check["detail"].as_str().unwrap().contains(kitchen.file.to_str().unwrap()), "{doctor:#}");
    // The way out that is named.
    world.recipes("");
    let (_, answer) = world.run(&["adopt", "serve-0000000a"]);
    assert_eq!(answer["session"], "serve-0000000a", "{answer:#}");
    assert_eq!(world.run(&["stop", "serve-0000000a"]).0, 0);
    assert!(!world.ledger.is_alive("root"));
}

/// A file that cannot be used is no file without tasks: who asks is told why, and what was read before is marked as old.
#[test]
fn a_state_file_that_cannot_be_used_is_told_of_once_and_named_to_all_who_ask() {
    let far = r#""far": {"id": "serve-0000000d", "remoteHost": "gpu1", "status": "running"}"#;
    let two = ONE.replace(r#""more": 7"#, far);
    let kitchen = Kitchen::new(&two);
    let world = &kitchen.world;
    kitchen.session("serve-0000000a", "leaf root");
    world.ledger.await_roles(&["root"]);
    let file = kitchen.file.to_str().unwrap();
    let said = |value: &Value| value.as_str().unwrap().contains(file) && value.as_str().unwrap().contains("data_dir");
    let mut batch = world.batch();
    let ids = ["serve-0000000a", "serve-0000000d"];
    let is_old = |row: &Value| row["detail"].as_str().is_some_and(|detail| detail.starts_with("old: "));
    let told = |batch: &mut Batch| batch.events().iter().filter(|event| event["event"] == "cookbook").count();
    for (round, bad) in [Some("{\"tasks\": ["), Some("[1,2]"), None, Some("")].into_iter().enumerate() {
        let list = batch.ok(json!({ "cmd": "list" }));
        assert!(list.get("notes").is_none() && rows(&list, "sessions").all(|row| !is_old(row)), "{list:#}");
        match bad {
            Some(bad) => fs::write(&kitchen.file, bad).unwrap(),
            None => fs::remove_file(&kitchen.file).unwrap(),
        }
        eventually("a list that says so", || batch.ok(json!({ "cmd": "list" })).get("notes").is_some());
        let list = batch.ok(json!({ "cmd": "list" }));
        assert_eq!(rows(&list, "notes").filter(|note| said(note)).count(), 1, "{bad:?}: {list:#}");
        for id in ids {
            assert!(is_old(&batch.row(id)), "{bad:?}: {id}");
        }
        for cmd in ["stop", "tree"] {
            let error = batch.error(json!({ "cmd": cmd, "session": "serve-000000ff" }));
            assert!(error["kind"] == "state" && said(&error["message"]), "{bad:?}: {cmd}: {error}");
        }
        // Whoever comes now knows of no task at all.
        let (code, list) = world.run(&["ls"]);
        assert_eq!((code, &list["sessions"]), (0, &json!([])), "{bad:?}: {list:#}");
        assert!(rows(&list, "notes").all(said) && rows(&list, "notes").count() == 1, "{bad:?}: {list:#}");
        let (code, answer) = world.run(&["stop", "serve-0000000a"]);
        assert!(code == 1 && said(&answer["error"]["message"]), "{bad:?}: {code}: {answer:#}");
        assert!(world.ledger.is_alive("root"));
        // An event is written beside the answers.
        eventually("the event of the problem", || told(&mut batch) == 2 * round + 1);
        let event = batch.events().iter().rfind(|event| event["event"] == "cookbook").cloned().unwrap();
        assert!(said(&event["problem"]), "{bad:?}: {event}");
        fs::write(&kitchen.file, &two).unwrap();
        eventually("a list that is silent", || batch.ok(json!({ "cmd": "list" })).get("notes").is_none());
        eventually("the event of its end", || told(&mut batch) == 2 * round + 2);
        let event = batch.events().iter().rfind(|event| event["event"] == "cookbook").cloned().unwrap();
        assert_eq!(event["problem"], Value::Null, "{bad:?}");
        assert_eq!(batch.error(json!({ "cmd": "tree", "session": "serve-000000ff" }))["kind"], "not_found");
    }
}

/// The pid that was bound belongs to a bystander by now.
#[test]
fn a_stale_pid_of_a_pane_is_a_stranger() {
    let kitchen = Kitchen::new(ONE);
    let world = &kitchen.world;
    kitchen.session("serve-0000000a", "marked $FX/heard; log root; while :; do sleep 0.1; done");
    world.ledger.await_roles(&["root"]);
    let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
    let (code, answer) = world.run(&["adopt", "serve-0000000a"]);
    assert_eq!(code, 0, "{answer}");
    let path = world.path("state/sessions/serve-0000000a.json");
    let mut record = world.tether("serve-0000000a").unwrap();
    let stale = bystanders.pids().into_iter().next().unwrap();
    for identity in ["/workload", "/adoption/panes/0"] {
        record.pointer_mut(identity).unwrap()["pid"] = stale.into();
    }
    fs::write(&path, record.to_string()).unwrap();
    for words in
        [&["stop", "n"][..], &["stop", "n", "--force"], &["orphans", "--reap", "n"], &["sweep", "n"], &["sweep"]]
    {
        let (_, answer) = world.run(words);
        bystanders.assert_untouched();
        assert_eq!((world.ledger.is_alive("root"), world.text("heard").as_str()), (true, ""), "{words:?}\n{answer:#}");
    }
    assert_eq!(kitchen.state(), ONE);
    let (code, answer) = world.run(&["adopt", "serve-0000000a"]);
    assert_eq!(code, 0, "a person looks again\n{answer:#}");
    assert_eq!(world.run(&["stop", "n", "--grace", "0.3"]).0, 0);
    assert_eq!(kitchen.state(), ONE.replace("running", "stopped"));
    bystanders.assert_untouched();
}

/// Without an inspector a stop closes the session and says that it could not look; it is a stop all the same.
#[test]
fn a_stop_that_could_not_look_is_said_to_be_one() {
    let kitchen = Kitchen::new(ONE);
    let world = &kitchen.world;
    kitchen.session("serve-0000000a", "leaf root");
    kitchen.session("serve-0000000ab", "leaf other");
    world.ledger.await_roles(&["root", "other"]);
    let (code, receipt) = world.run(&["--inspector", "none", "stop", "n"]);
    assert_eq!((code, &receipt["dead"], &receipt["signals"]), (3, &Value::Null, &json!([])), "{receipt:#}");
    assert_note(&receipt, "could not look");
    assert_note(&receipt, "marked as stopped");
    assert_eq!(kitchen.state(), ONE.replace("running", "stopped"));
    assert!(!kitchen.has("serve-0000000a") && kitchen.has("serve-0000000ab"));
    assert!(world.ledger.is_alive("other"));
}

#[test]
fn without_a_data_directory_there_is_nothing_of_it() {
    let kitchen = Kitchen::new(STATE);
    let world = &kitchen.world;
    kitchen.session("serve-0000000a", "leaf root");
    world.ledger.await_roles(&["root"]);
    world.recipes("");
    let (code, list) = world.run(&["ls"]);
    assert_eq!((code, &list["sessions"]), (0, &json!([])), "{list:#}");
    let (_, orphans) = world.run(&["orphans"]);
    assert!(orphans.get("cookbook").is_none(), "{orphans:#}");
    let (_, doctor) = world.run(&["doctor"]);
    assert!(rows(&doctor, "checks").all(|check| check["name"] != "Cookbook"), "{doctor:#}");
    assert_eq!(world.run(&["stop", "serve-0000000a"]).0, 4);
    assert!(world.ledger.is_alive("root"));
    assert_eq!(kitchen.state(), STATE);
    // Cookbook's own variable names one, too.
    let mut argv = world.binary();
    argv.extend(["ls", "--json"].map(str::to_owned));
    let output = world.command(&argv).env("ODYSSEUS_DATA_DIR", world.path("data")).output().unwrap();
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(rows(&list, "sessions").any(|row| row["session"] == "serve-0000000a"), "{list:#}");
}

/// A tmux server that does not answer is no absence: its tasks are shown, and nothing is said to be stopped.
#[test]
fn a_server_that_does_not_answer_makes_a_task_unverifiable() {
    let kitchen = Kitchen::new(ONE);
    let world = &kitchen.world;
    kitchen.session("serve-0000000a", "marked $FX/heard; log root; while :; do sleep 0.1; done");
    world.ledger.await_roles(&["root"]);
    let server = world.server_on(THEIRS);
    server.signal(Signal::STOP);
    eventually("the stop of the server", || process_state(server.entry.pid) == Some('T'));
    let mut batch = world.batch();
    let row = batch.row("serve-0000000a");
    assert_eq!((&row["phase"], &row["verdict"]), (&json!("unverifiable"), &json!("unverifiable")), "{row:#}");
    let error = batch.error(json!({ "cmd": "stop", "session": "n" }));
    assert_eq!(error["kind"], "unverifiable", "{error}");
    assert_eq!((world.text("heard").as_str(), kitchen.state().as_str()), ("", ONE));
    server.signal(Signal::CONT);
    std::thread::sleep(Duration::from_millis(1100));
    let receipt = batch.ok(json!({ "cmd": "stop", "session": "n", "force": true }));
    assert_eq!((&receipt["dead"], kitchen.state()), (&json!(true), ONE.replace("running", "stopped")), "{receipt:#}");
}

/// What Cookbook has written down of processes is judged, shown, and left alone, whatever is asked.
#[test]
fn grants_and_jobs_are_judged_and_never_acted_on() {
    let kitchen = Kitchen::new(r#"{"tasks": []}"#);
    let world = &kitchen.world;
    let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
    let pids: Vec<i64> = bystanders.pids().into_iter().collect();
    let token = |pid: i64| Entry::of_pid(i32::try_from(pid).unwrap(), "bystander").unwrap().token();
    let reused = format!("{}0", token(pids[1]));
    let ticks = token(pids[2]).rsplit_once(':').unwrap().1.to_owned();
    let grants = json!({
        "a-owned": { "owner": "agent", "pid": pids[0], "start_token": token(pids[0]), "lifetime": "cleanup" },
        "b-reused": { "owner": "agent", "pid": pids[1], "start_token": reused },
        "c-old": { "owner": "agent", "pid": pids[2], "start_token": format!("procfs:{ticks}") },
        "d-ps": { "owner": "agent", "pid": pids[3], "start_token": "ps:Sun Nov 29 19:41:02 2026" },
        "e-windows": { "owner": "agent", "pid": pids[4], "start_token": "win32:133500000000000000" },
        "f-boot": { "owner": "agent", "pid": pids[4], "start_token": "procfs:00000000-0000-0000-0000-000000000000:1" },
        "g-released": { "owner": "agent", "pid": pids[0], "start_token": token(pids[0]), "released_at": 1.5 },
    });
    let jobs = json!({
        "j1": { "command": "wget --password hunter2hunter2", "status": "running", "pid": pids[0], "start_token": token(pids[0]) },
        "j2": { "command": "true", "status": "done", "pid": pids[0], "start_token": token(pids[0]) },
    });
    let files = [("data/containment_grants.json", grants.to_string()), ("data/bg_jobs.json", jobs.to_string())];
    for (name, text) in &files {
        fs::write(world.path(name), text).unwrap();
    }
    for words in [&["orphans"][..], &["orphans", "--reap"], &["orphans", "--adopt"]] {
        let (_, answer) = world.run(words);
        let seen: Vec<(&str, &str)> = rows(&answer, "cookbook")
            .map(|claim| (claim["id"].as_str().unwrap(), claim["verdict"].as_str().unwrap()))
            .collect();
        let expected = [
            ("a-owned", "owned"),
            ("b-reused", "foreign"),
            ("c-old", "foreign"),
            ("d-ps", "unverifiable"),
            ("e-windows", "unverifiable"),
            ("f-boot", "gone"),
            ("j1", "owned"),
        ];
        assert_eq!(seen, expected, "{answer:#}");
        assert!(!answer.to_string().contains("hunter2"), "{answer:#}");
        bystanders.assert_untouched();
    }
    let (_, doctor) = world.run(&["doctor"]);
    let check = rows(&doctor, "checks").find(|check| check["name"] == "containment_grants.json").unwrap();
    assert_eq!(check["detail"], "7 records, open: 1 owned, 1 gone, 2 foreign, 2 unverifiable", "{doctor:#}");
    assert_eq!(world.run(&["stop", "a-owned"]).0, 4, "a claim is no session");
    fs::write(world.path("data/bg_jobs.json"), "[").unwrap();
    let (_, doctor) = world.run(&["doctor"]);
    assert!(
        rows(&doctor, "checks").any(|check| check["name"] == "bg_jobs.json" && check["state"] == "warn"),
        "{doctor:#}"
    );
    assert_eq!(world.text(files[0].0), files[0].1);
    assert_eq!(fs::read_dir(world.path("data")).unwrap().count(), 3, "nothing was written beside them");
}

#[test]
fn presets_are_recipes() {
    let kitchen = Kitchen::new("{}");
    let world = &kitchen.world;
    let script = world.python("leaf('served')");
    let venv = world.path("venv");
    fs::create_dir_all(venv.join("bin")).unwrap();
    let presets = json!([
        { "name": "mine", "cmd": format!("A=1 {} {script}", python()), "port": 8000, "fields": {
            "venv": format!("{}/bin/activate", venv.display()), "gpus": "0,1", "extra_env": "NCCL_P2P_DISABLE=1 B=$VIRTUAL_ENV/x",
        } },
        { "name": "conda", "cmd": "vllm serve x", "fields": { "venv": "base" } },
        { "name": "far", "cmd": "vllm serve x", "remoteHost": "gpu1" },
        { "name": "odd", "cmd": "rm -rf /nowhere" },
    ]);
    fs::write(&kitchen.file, json!({ "tasks": [], "presets": presets }).to_string()).unwrap();
    let (_, answer) = world.run(&["recipes"]);
    let of = |name: &str| {
        rows(&answer, "recipes").find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name}\n{answer:#}"))
    };
    assert_eq!(
        (&of("mine")["source"], &of("mine")["kind"], &of("mine")["available"]),
        (&json!("cookbook"), &json!("serve"), &json!(true))
    );
    for (name, part) in [("far", "gpu1"), ("odd", "model server"), ("conda", "no absolute path")] {
        assert_eq!(of(name)["available"], false);
        assert!(of(name)["reason"].as_str().unwrap().contains(part), "{answer:#}");
        let (code, refused) = world.run(&["launch", name]);
        assert_eq!((code, &refused["error"]["kind"]), (3, &json!("refused")), "{refused:#}");
    }
    let mut batch = world.batch();
    let session = world.launch_recipe(&mut batch, "mine", Host::Tmux);
    world.ledger.await_roles(&["served"]);
    // Of the server itself: what the line assigns is not in the environment of a shell that waits for it.
    let environment = fs::read_to_string(format!("/proc/{}/environ", world.ledger.of("served").pid)).unwrap();
    let path = venv.display();
    for wanted in [
        format!("VIRTUAL_ENV={path}"),
        "CUDA_VISIBLE_DEVICES=0,1".into(),
        "NCCL_P2P_DISABLE=1".into(),
        "A=1".into(),
        format!("B={path}/x"),
    ] {
        assert!(environment.split('\0').any(|set| set == wanted), "{wanted}: {environment:?}");
    }
    assert!(environment.contains(&format!("PATH={path}/bin:")), "{environment:?}");
    assert_eq!(batch.row(&session.id)["owner"], Value::Null, "it is ours");
    let receipt = batch.stop(&session.id);
    assert_eq!((&receipt["dead"], world.ledger.is_alive("served")), (&json!(true), false), "{receipt:#}");
}

/// A file that is mended, and presets that come and go, are seen by a manager that runs.
#[test]
fn presets_are_read_again() {
    let kitchen = Kitchen::new("{");
    let world = &kitchen.world;
    let mut batch = world.batch();
    let mut offered = |expected: &[&str]| {
        eventually(&format!("the presets {expected:?}"), || {
            let answer = batch.ok(json!({ "cmd": "recipes" }));
            let names = rows(&answer, "recipes").filter(|row| row["source"] == "cookbook");
            names.map(|row| row["name"].as_str().unwrap().to_owned()).eq(expected.iter().copied())
        });
    };
    offered(&[]);
    let write = |names: &[&str]| {
        let presets: Vec<Value> = names.iter().map(|name| json!({ "name": name, "cmd": "vllm serve x" })).collect();
        fs::write(&kitchen.file, json!({ "tasks": [], "presets": presets }).to_string()).unwrap();
    };
    write(&["one"]);
    offered(&["one"]);
    // A name of ours stays ours.
    write(&["shell", "two"]);
    offered(&["shell (Cookbook)", "two"]);
    fs::write(&kitchen.file, "{").unwrap();
    std::thread::sleep(Duration::from_secs(4));
    offered(&["shell (Cookbook)", "two"]);
    write(&[]);
    offered(&[]);
}

/// A name like an agent shell's is nothing; its whole launcher is, and only when somebody asks.
#[test]
fn an_agent_shell_of_an_older_version_is_told_by_its_launcher() {
    let kitchen = Kitchen::new(r#"{"tasks": []}"#);
    let world = &kitchen.world;
    let home = format!("HOME={}", world.path("data").display());
    let shell = ["/bin/bash", "--noprofile", "--norc"];
    let new = |name: &str, launcher: &[&str]| {
        let mut argv = vec!["new-session", "-d", "-s", name];
        argv.extend(launcher);
        argv.extend(shell);
        kitchen.ask(&argv);
    };
    new("ody-agent-1", &["env", &home, "TERM=xterm", "LINES=30"]);
    new("ody-agent-2", &["env", "HOME=/root"]);
    let mut batch = world.batch();
    assert_eq!(batch.ok(json!({ "cmd": "list" }))["sessions"], json!([]), "only on request");
    let mut adopt = |name: &str| {
        let answer = batch.ok(json!({ "cmd": "adopt", "tmux": { "session": name } }));
        let id = answer["session"].as_str().unwrap().to_owned();
        let notes = answer["notes"].to_string();
        (batch.row(&id)["kind"].as_str().unwrap().to_owned(), id, notes)
    };
    let (kind, agent, notes) = adopt("ody-agent-1");
    assert_eq!((kind.as_str(), agent.starts_with("agent-")), ("agent", true), "{notes}");
    let (kind, other, notes) = adopt("ody-agent-2");
    assert_eq!((kind.as_str(), notes.contains("home is not the data directory")), ("shell", true), "{notes}");
    assert_eq!(batch.stop(&agent)["dead"], true);
    assert!(!kitchen.has("ody-agent-1") && kitchen.has("ody-agent-2"));
    assert_eq!(batch.stop(&other)["dead"], true);
}
