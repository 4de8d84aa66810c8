//! A secret reaches the workload and nobody else: no file, no command line, no environment, no answer.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::client::Batch;
use crate::oracle::{Bystanders, all_pids, argv_of};
use crate::rig::{Rig, until, walk};

/// What every secret of one test begins with, and nothing else in the world.
#[derive(Clone)]
struct Canary(String);

impl Canary {
    fn new(rig: &Rig) -> Self {
        Self(format!("zqCanary{}x", rig.nap().split('.').next_back().unwrap()))
    }

    fn is_in(&self, bytes: &[u8]) -> bool {
        bytes.windows(self.0.len()).any(|window| window == self.0.as_bytes())
    }

    fn with(&self, end: &str) -> String {
        format!("{}{end}", self.0)
    }

    /// Returns everybody whose arguments (or environment) hold one.
    fn carriers(&self, file: &str) -> BTreeSet<i32> {
        let carries = |pid: &i32| fs::read(format!("/proc/{pid}/{file}")).is_ok_and(|bytes| self.is_in(&bytes));
        all_pids().into_iter().filter(carries).collect()
    }
}

fn check_files(rig: &Rig, canary: &Canary, when: &str) {
    let mut seen = 0;
    for path in [rig.state(), rig.runtime()].iter().flat_map(|dir| walk(dir)) {
        assert!(!canary.is_in(path.as_os_str().as_encoded_bytes()), "{when}: in the name of {}", path.display());
        if let Ok(bytes) = fs::read(&path) {
            seen += 1;
            assert!(!canary.is_in(&bytes), "{when}: in {}: {}", path.display(), String::from_utf8_lossy(&bytes));
        }
    }
    assert!(seen > 0, "{when}: no file was looked at");
}

/// Runs something while another thread looks at every command line of the host.
fn watched<T>(canary: &Canary, work: impl FnOnce() -> T) -> (T, BTreeSet<i32>) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut seen = BTreeSet::new();
            while !done.load(Ordering::Relaxed) {
                seen.extend(canary.carriers("cmdline"));
            }
            seen
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        (result, watcher.join().unwrap())
    })
}

/// Returns a command that keeps its telling arguments and prints nothing.
fn telling(nap: &str, canary: &Canary) -> Vec<String> {
    let script = format!("sleep {nap}; :");
    let mut argv: Vec<String> = ["sh", "-c", &script, "server"].map(str::to_owned).to_vec();
    let canary = &canary.0;
    argv.extend(["--api-key".into(), format!("{canary}A"), format!("--hf-token={canary}B")]);
    argv.extend([format!("HF_TOKEN={canary}C"), format!("hf_{canary}D"), format!("sk-{canary}E")]);
    argv.extend(["-H".into(), format!("Authorization: Bearer {canary}F"), format!("https://u:{canary}G@host/p")]);
    argv
}

fn manager(rig: &Rig, canary: &Canary) -> Batch {
    let mut command = rig.command(&["--log-level", "trace", "--batch"]);
    command.env("OPENAI_API_KEY", canary.with("H")).env("PLAIN_SETTING", canary.with("I")).stdin(Stdio::piped());
    Batch::start(command)
}

fn config(rig: &Rig, argv: &[String], host: &str, canary: &Canary) {
    let canary = &canary.0;
    let config = format!(
        "[[recipe]]\nname = \"secretive\"\nkind = \"serve\"\nhost = \"{host}\"\ncommand = {}\n\
         env = {{ RECIPE_TOKEN = \"{canary}J\", RECIPE_SETTING = \"{canary}K\" }}\n",
        json!(argv)
    );
    rig.write("home/config/cookbook-tui/config.toml", &config);
}

fn check_host(host: &str) {
    let rig = Rig::new();
    let (nap, canary) = (rig.nap(), Canary::new(&rig));
    let argv = telling(&nap, &canary);
    let words: Vec<&str> = argv.iter().map(String::as_str).collect();
    let mut strangers = Bystanders::new(&words);
    let ledger = rig.ledger("ledger");
    let noted = ledger.noted(&words);
    config(&rig, &noted, host, &canary);
    let mut batch = manager(&rig, &canary);
    batch.ok(json!({"cmd": "subscribe"}));
    let by_command = json!({"command": noted, "host": host, "kind": "serve",
        "env": {"HF_TOKEN": canary.with("L"), "MODEL_SETTING": canary.with("M")}});
    let ((first, second), mut seen) = watched(&canary, || {
        (batch.launch(by_command), batch.launch(json!({"recipe": "secretive", "name": "by recipe"})))
    });
    let workloads = ledger.wait(2);

    // It did arrive: arguments, the request's variables, the recipe's, the launcher's own.
    for (workload, letters) in workloads.iter().zip([["L", "M", "H", "I"], ["J", "K", "H", "I"]]) {
        until("it is the program by now", || argv_of(workload.pid) == argv);
        let environ = fs::read(format!("/proc/{}/environ", workload.pid)).unwrap();
        for letter in letters {
            let value = format!("={}", canary.with(letter));
            assert!(
                environ.windows(value.len()).any(|window| window == value.as_bytes()),
                "{host}: {value} is missing"
            );
        }
    }

    let mut allowed: BTreeSet<i32> = strangers.pids().collect();
    for session in [&first, &second] {
        let tree = batch.ok(json!({"cmd": "tree", "session": session}));
        let rows = tree["processes"].as_array().unwrap();
        allowed.extend(rows.iter().map(|row| i32::try_from(row["pid"].as_i64().unwrap()).unwrap()));
        assert!(rows.iter().any(|row| row["command"].as_str().unwrap().contains("--api-key ***")), "{tree}");
        let alike = tree["lookalikes"].as_array().unwrap();
        assert!(strangers.pids().all(|pid| alike.iter().any(|row| row["pid"] == pid)), "{tree}");
        for request in [
            json!({"cmd": "screen", "session": session}),
            json!({"cmd": "logs", "session": session}),
            json!({"cmd": "stop", "session": session, "dry_run": true}),
        ] {
            batch.ok(request);
        }
    }
    batch.ok(json!({"cmd": "list"}));
    batch.ok(json!({"cmd": "recipes"}));
    seen.extend(canary.carriers("cmdline"));
    let told: Vec<_> = seen.difference(&allowed).map(|pid| (*pid, argv_of(*pid))).collect();
    assert!(told.is_empty(), "{host}: in the arguments of {told:?}");
    // The launcher has what it was given; nobody else but the workloads has any of it.
    allowed.insert(batch.pid());
    let told: Vec<_> = canary.carriers("environ").difference(&allowed).map(|pid| (*pid, argv_of(*pid))).collect();
    assert!(told.is_empty(), "{host}: in the environment of {told:?}");
    check_files(&rig, &canary, "while it runs");
    check_tmux(&rig, &canary, host);
    check_subcommands(&rig, &canary, &first);

    for session in [&first, &second] {
        assert_eq!(batch.ok(json!({"cmd": "stop", "session": session}))["dead"], json!(true));
    }
    for workload in &workloads {
        workload.assert_ends();
    }
    strangers.assert_alive();
    batch.ok(json!({"cmd": "list"}));
    assert_eq!(batch.finish(), Some(0));
    assert!(!canary.is_in(&batch.raw), "{host}: {}", String::from_utf8_lossy(&batch.raw));
    check_files(&rig, &canary, "after the stop");
}

fn check_tmux(rig: &Rig, canary: &Canary, host: &str) {
    if host == "pty" {
        return;
    }
    let sessions = rig.tmux(&["list-sessions", "-F", "#{session_id}"]).text();
    assert_eq!(sessions.lines().count(), 2, "{sessions}");
    let mut asked = vec![
        rig.tmux(&["show-environment", "-g"]),
        rig.tmux(&[
            "list-panes",
            "-a",
            "-F",
            "#{pane_start_command} #{pane_current_command} #{pane_title} #{pane_pipe}",
        ]),
        rig.tmux(&["show-options", "-g"]),
        rig.tmux(&["show-messages"]),
        rig.tmux(&["list-buffers"]),
    ];
    for session in sessions.lines() {
        asked.push(rig.tmux(&["show-environment", "-t", session]));
        asked.push(rig.tmux(&["show-environment", "-h", "-t", session]));
    }
    for ran in asked {
        assert!(!canary.is_in(&ran.out), "tmux tells: {ran:?}");
    }
    assert!(!rig.tmux(&["show-environment", "-g"]).out.is_empty());
}

fn check_subcommands(rig: &Rig, canary: &Canary, session: &str) {
    for words in [
        &["ls"][..],
        &["tree", session],
        &["recipes"],
        &["logs", session],
        &["screen", session],
        &["stop", session, "--dry-run"],
    ] {
        for json in [false, true] {
            let mut words = words.to_vec();
            words.extend(json.then_some("--json"));
            let ran = rig.run(&words);
            assert!(!canary.is_in(&ran.out) && !canary.is_in(&ran.err), "{words:?}: {ran:?}");
        }
    }
}

#[test]
fn secrets_stay_with_a_workload_in_a_pty() {
    check_host("pty");
}

#[test]
fn secrets_stay_with_a_workload_in_tmux() {
    check_host("tmux");
}

#[test]
fn errors_do_not_repeat_secrets() {
    let rig = Rig::new();
    let canary = Canary::new(&rig);
    let mut batch = manager(&rig, &canary);
    let argv = telling(&rig.nap(), &canary);
    let mut missing = argv.clone();
    missing[0] = format!("/no/such/hf_{}", canary.0);
    let secret = &canary.0;
    let requests: Vec<Value> = vec![
        json!({"cmd": "launch", "command": missing}),
        json!({"cmd": "launch", "command": missing, "host": "tmux"}),
        json!({"cmd": "launch", "command": ["true"], "env": {format!("HF_TOKEN={secret}"): "x"}}),
        json!({"cmd": "launch", "recipe": format!("hf_{secret}abcdef")}),
        json!({"cmd": "launch", "command": ["true"], "cwd": format!("/no/hf_{secret}abcdef")}),
        json!({"cmd": "launch", "command": ["true"], "machine": format!("https://u:{secret}@host")}),
        json!({"cmd": "stop", "session": format!("sk-{secret}abcdef")}),
        json!({"cmd": "launch", "command": ["true"], "kind": format!("hf_{secret}abcdef")}),
        json!({"cmd": format!("hf_{secret}abcdef")}),
    ];
    for request in requests {
        batch.err(request);
    }
    let text = json!({"cmd": "launch", "command": argv}).to_string();
    batch.line(&text.as_bytes()[..text.len() - 3]);
    batch.ok(json!({"cmd": "hello"}));
    assert!(!canary.is_in(&batch.raw), "{}", String::from_utf8_lossy(&batch.raw));
    check_files(&rig, &canary, "after the errors");
}

#[test]
fn what_is_typed_is_written_down_nowhere() {
    let rig = Rig::new();
    let canary = Canary::new(&rig);
    let mut batch = manager(&rig, &canary);
    batch.ok(json!({"cmd": "subscribe"}));
    for host in ["pty", "tmux"] {
        let command = "stty -echo; echo ready; read x; echo \"length ${#x}\"; sleep 3600";
        let session = batch.launch(json!({"command": command, "host": host}));
        batch.expect_output(&session, "ready");
        let secret = canary.with("abc");
        batch.ok(json!({"cmd": "send", "session": session, "text": secret, "keys": ["Enter"]}));
        batch.expect_output(&session, &format!("length {}", secret.len()));
    }
    assert!(!canary.is_in(&batch.raw), "{}", String::from_utf8_lossy(&batch.raw));
    check_files(&rig, &canary, "after typing");
}

#[test]
fn a_secret_that_was_not_written_down_is_not_made_up_by_a_restart() {
    let rig = Rig::new();
    let canary = Canary::new(&rig);
    let ledger = rig.ledger("ledger");
    let argv = telling(&rig.nap(), &canary);
    let words: Vec<&str> = argv.iter().map(String::as_str).collect();
    rig.launch_tmux(&["--name", "n"], &ledger.noted(&words));
    let workload = ledger.one();
    let ran = rig.run(&["restart", "n"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.error().contains("secret") && ran.error().contains("launch it anew"), "{ran:?}");
    workload.assert_alive();
    assert_eq!(ledger.entries().len(), 1);
}
