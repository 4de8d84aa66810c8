//! Phases, readiness and diagnosis, with a small server that does what it is told.

use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::client::Batch;
use crate::rig::{Rig, until};

const HOSTS: [&str; 2] = ["pty", "tmux"];

/// `stub.py --port N [--after FILE] [--bind S] [--busy S] [--close S]`: binds when a file is there and after some seconds, answers 503 for some more,
/// says `stub is up` when it answers 200, and closes its port again. A port that is taken ends it as it ends uvicorn.
pub(crate) const STUB: &str = r#"
import http.server, os, sys, threading, time
def option(name, usual):
    return float(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else usual
port, begun = int(option('--port', 0)), time.monotonic()
class Answer(http.server.BaseHTTPRequestHandler):
    def log_message(self, *a): pass
    def do_GET(self):
        busy = time.monotonic() - bound < option('--busy', 0)
        self.send_response(503 if busy else 200); self.send_header('Content-Length', '0'); self.end_headers()
print('stub starts', flush=True)
while '--after' in sys.argv and not os.path.exists(sys.argv[sys.argv.index('--after') + 1]): time.sleep(0.02)
time.sleep(option('--bind', 0))
if '--sleep' in sys.argv: time.sleep(3600)
class Server(http.server.ThreadingHTTPServer):
    allow_reuse_address = True
try:
    server = Server(('127.0.0.1', port), Answer)
except OSError:
    sys.exit("ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', %d): address already in use" % port)
bound = time.monotonic()
def up():
    time.sleep(option('--busy', 0)); print('\x1b[32mstub is up\x1b[0m', flush=True)
threading.Thread(target=up, daemon=True).start()
if '--close' in sys.argv:
    def close():
        time.sleep(option('--close', 0)); server.shutdown(); server.server_close()
    threading.Thread(target=close, daemon=True).start()
server.serve_forever()
time.sleep(3600)
"#;

/// Returns a port that nobody listens on.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

fn rig() -> Rig {
    let rig = Rig::new();
    rig.write("work/stub.py", STUB);
    rig
}

fn stub(port: u16, more: &[&str]) -> Vec<String> {
    let mut words = vec!["python3".to_owned(), "stub.py".into(), "--port".into(), port.to_string()];
    words.extend(more.iter().map(|word| (*word).to_owned()));
    words
}

pub(crate) fn ready(session: &str, timeout_s: f64) -> Value {
    json!({"cmd": "wait", "session": session, "for": "ready", "timeout_s": timeout_s})
}

pub(crate) fn row(batch: &mut Batch, session: &str) -> Value {
    let rows = batch.ok(json!({"cmd": "list"}))["sessions"].take();
    rows.as_array().unwrap().iter().find(|row| row["session"] == session).unwrap().clone()
}

/// Returns the phases that a session came through, as the events told them.
pub(crate) fn phases(batch: &Batch, session: &str) -> Vec<String> {
    let told = batch.events.iter().filter(|event| event["event"] == "phase" && event["session"] == session);
    told.map(|event| event["phase"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_server_is_ready_when_its_own_port_is_open() {
    for host in HOSTS {
        let rig = rig();
        let mut batch = rig.batch();
        batch.ok(json!({"cmd": "subscribe"}));
        let port = free_port();
        let go = rig.path("go");
        let command = stub(port, &["--after", go.to_str().unwrap()]);
        let session = batch.launch(json!({"command": command, "kind": "serve", "host": host}));
        assert_eq!(row(&mut batch, &session)["phase"], "starting", "{host}");
        std::fs::write(&go, "").unwrap();
        assert_eq!(batch.ok(ready(&session, 20.0))["phase"], "ready", "{host}");
        assert_eq!(row(&mut batch, &session)["ports"], json!([port]), "{host}");
        batch.event("it was told", |event| event["event"] == "phase" && event["phase"] == "ready");
        assert_eq!(phases(&batch, &session), ["starting", "ready"], "{host}");
        let receipt = batch.ok(json!({"cmd": "stop", "session": session}));
        assert_eq!(receipt["ports_released"], json!([port]), "{host}: {receipt}");
        assert_eq!(batch.finish(), Some(0));
    }
}

/// A server listens long before it is ready. Whatever starts it, it is asked in its own way.
#[test]
fn a_server_that_loads_is_not_ready_whatever_runs_it() {
    let rig = rig();
    rig.executable("work/llama-server", &format!("#!/usr/bin/env python3\n{STUB}"));
    let mut batch = rig.batch();
    batch.ok(json!({"cmd": "subscribe"}));
    let call = "import subprocess, sys; subprocess.call";
    let commands: [&dyn Fn(&str) -> Value; 8] = [
        &|server| json!(format!("timeout -k 5 100 {server}")),
        &|server| json!(["timeout", "100"].into_iter().chain(server.split(' ')).collect::<Vec<_>>()),
        &|server| json!(format!("flock ./lock -c '{server}'")),
        &|server| json!(format!("if ! false; then {server}; fi")),
        &|server| json!(format!("until eval {server}; do sleep 0.2; done")),
        // What nobody sees through: the program is named, or is seen only when it listens.
        &|server| {
            json!(
                ["python3", "-c", &format!("{call}(sys.argv[1:])")]
                    .into_iter()
                    .chain(server.split(' '))
                    .collect::<Vec<_>>()
            )
        },
        &|server| json!(format!("S=llama-; ./${{S}}{}", server.trim_start_matches("./llama-"))),
        &|server| json!(["python3", "-c", &format!("{call}({server:?}.split())"), "--port", server.split(' ').nth(2)]),
    ];
    for command in commands {
        let port = free_port();
        let command = command(&format!("./llama-server --port {port} --busy 1.5"));
        let session = batch.launch(json!({"command": command, "kind": "serve", "host": "pty"}));
        assert_eq!(batch.ok(ready(&session, 20.0))["phase"], "ready", "{command}");
        batch.event("it was told", |event| event["session"] == session.as_str() && event["phase"] == "ready");
        assert_eq!(phases(&batch, &session), ["starting", "loading", "ready"], "{command}");
        batch.ok(json!({"cmd": "stop", "session": session}));
    }
    // One run that fails is no end of a loop, and no run of it is ready.
    let line = format!("while ! timeout 0.7 ./llama-server --port {} --busy 60; do sleep 0.1; done", free_port());
    let session = batch.launch(json!({"command": line, "kind": "serve", "host": "pty"}));
    let (kind, message) = batch.err(ready(&session, 4.0));
    assert_eq!(kind, "timeout", "{message}");
    let seen = phases(&batch, &session);
    assert!(seen.contains(&"loading".to_owned()) && !seen.iter().any(|phase| phase == "ready"), "{seen:?}");
    batch.finish();
}

#[test]
fn recipes_say_how_readiness_is_known() {
    let rig = rig();
    let ports = [free_port(), free_port(), free_port()];
    let line = |name: &str, port: u16, ready: &str| {
        let command = stub(port, &["--bind", "0.2", "--busy", "0.6"]);
        format!(
            "[[recipe]]\nname = \"{name}\"\nkind = \"serve\"\nhost = \"pty\"\ncommand = {command:?}\nready = {ready}\n"
        )
    };
    let config = [
        line("http", ports[0], &format!("{{ http = \"http://127.0.0.1:{}/x\" }}", ports[0])),
        line("log", ports[1], "{ log = \"^stub is up$\" }"),
        line("tcp", ports[2], &format!("{{ tcp = {} }}", ports[2])),
    ];
    let config = rig.write("recipes.toml", &config.concat());
    let mut batch = rig.batch_with(&[], &["--config", config.to_str().unwrap()]);
    batch.ok(json!({"cmd": "subscribe"}));
    for (name, expected) in [("http", "starting loading ready"), ("log", "starting ready"), ("tcp", "starting ready")] {
        let launched = batch.ok(json!({"cmd": "launch", "recipe": name}));
        assert_eq!(launched["notes"], Value::Null, "it is acted on");
        let session = launched["session"].as_str().unwrap().to_owned();
        assert_eq!(batch.ok(ready(name, 20.0))["phase"], "ready", "{name}");
        batch.event("it was told", |event| event["session"] == session && event["phase"] == "ready");
        assert_eq!(phases(&batch, &session).join(" "), expected, "{name}");
    }
    batch.finish();
}

#[test]
fn a_server_of_somebody_else_is_never_taken_for_ours() {
    let rig = rig();
    let port = free_port();
    let mut stranger = Command::new("python3");
    rig.settle(&mut stranger);
    let mut stranger = stranger.args(&stub(port, &[])[1..]).stdout(Stdio::null()).spawn().unwrap();
    until("the stranger listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let recipe = |name: &str, ready: &str| {
        format!(
            "[[recipe]]\nname = \"{name}\"\nkind = \"serve\"\nhost = \"pty\"\ncommand = {:?}\n{ready}\n",
            stub(port, &["--sleep"])
        )
    };
    let config = [
        recipe("http", &format!("ready = {{ http = \"http://localhost:{port}/\" }}")),
        recipe("tcp", &format!("ready = {{ tcp = {port} }}")),
        recipe("known", ""),
    ];
    let config = rig.write("recipes.toml", &config.concat());
    let mut batch = rig.batch_with(&[], &["--config", config.to_str().unwrap()]);
    for name in ["http", "tcp", "known"] {
        let session = batch.launch(json!({"recipe": name}));
        let (kind, message) = batch.err(ready(&session, 1.5));
        assert_eq!(kind, "timeout", "{name}: {message}");
        let who = format!("port {port} is in use by process {} (", stranger.id());
        assert!(message.contains(&who) && message.contains("python3 stub.py"), "{name}: {message}");
        assert_eq!(row(&mut batch, &session)["phase"], "starting", "{name}");
    }
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    batch.finish();
}

#[test]
fn a_taken_port_is_named_with_its_holder_and_a_way_out() {
    for host in HOSTS {
        let rig = rig();
        let mut batch = rig.batch();
        let port = free_port();
        let first = batch.launch(json!({"command": stub(port, &[]), "kind": "serve", "host": host, "name": "first"}));
        batch.ok(ready(&first, 20.0));
        let line = stub(port, &[]).join(" ");
        // Said in the log, and with nothing in the log.
        for (command, silent) in [(json!(stub(port, &[])), false), (json!(format!("{line} >/dev/null 2>&1")), true)] {
            let session = batch.launch(json!({"command": command, "kind": "serve", "host": host}));
            let (kind, message) = batch.err(ready(&session, 20.0));
            let why = format!("port {port} is in use by session first ({first})");
            assert!(kind == "failed" && message.contains(&why), "{host} {silent}: {kind}: {message}");
            let row = row(&mut batch, &session);
            assert_eq!(row["phase"], "failed", "{host}: {row}");
            assert_eq!(row["detail"], json!(format!("exit status 1: {why}")), "{host}: {row}");
            let suggested = row["suggest"]["command"].to_string();
            assert!(suggested.contains("stub.py") && !suggested.contains(&port.to_string()), "{host}: {row}");
            // What is suggested works.
            let again = json!({"command": row["suggest"]["command"], "kind": "serve", "host": host});
            let again = batch.launch(again);
            assert_eq!(batch.ok(ready(&again, 20.0))["phase"], "ready", "{host} {silent}");
        }
        batch.finish();
    }
}

#[test]
fn a_port_that_closes_ends_the_readiness() {
    let rig = rig();
    let mut batch = rig.batch();
    batch.ok(json!({"cmd": "subscribe"}));
    let command = stub(free_port(), &["--close", "1.5"]);
    let session = batch.launch(json!({"command": command, "kind": "serve", "host": "pty"}));
    batch.ok(ready(&session, 20.0));
    batch.event("it is not ready any more", |event| event["event"] == "phase" && event["phase"] == "starting");
    batch.event("which is seen again", |event| {
        event["event"] == "phase" && event["phase"] == "starting" && event["seq"].as_u64() > Some(3)
    });
    assert_eq!(phases(&batch, &session), ["starting", "ready", "starting"]);
    batch.finish();
}

#[test]
fn a_later_run_sees_the_phase_of_a_session_in_tmux() {
    let rig = rig();
    let port = free_port();
    let launched = rig.launch_tmux(&["--kind", "serve", "--name", "s"], &stub(port, &["--bind", "0.5"]));
    let session = launched["session"].as_str().unwrap();
    assert_eq!(rig.json(&["wait", "s", "--for", "ready", "--timeout", "20"])["phase"], "ready");
    let listed = rig.json(&["ls"]);
    assert_eq!(listed["sessions"][0]["phase"], "ready", "{listed}");
    // Another one fails, and nobody watches it.
    let launched = rig.launch_tmux(&["--kind", "serve", "--name", "t"], &stub(port, &[]));
    let other = launched["session"].as_str().unwrap().to_owned();
    rig.run(&["wait", "t", "--for", "exit", "--timeout", "20"]);
    let listed = rig.json(&["ls"]);
    let rows = listed["sessions"].as_array().unwrap();
    let row = rows.iter().find(|row| row["session"] == other).unwrap();
    let why = format!("exit status 1: port {port} is in use by session s ({session})");
    assert_eq!(row["detail"], json!(why), "{row}");
    // The table has its status and its ports, a line below it the reason.
    let shown = rig.run(&["ls"]).text();
    let line = |name: &str| shown.lines().find(|line| line.split_whitespace().nth(1) == Some(name)).unwrap().to_owned();
    assert!(line("s").contains(&port.to_string()) && line("t").contains("failed, exit status 1"), "{shown}");
    assert!(shown.contains(&format!("\nt: port {port} is in use by session s ({session})\n")), "{shown}");
}

#[test]
fn without_procfs_the_servers_own_word_is_needed_too() {
    let rig = rig();
    let recipe = |name: &str, line: &str| {
        let port = free_port();
        let command = stub(port, &[]).join(" ");
        format!("[[recipe]]\nname = \"{name}\"\nkind = \"serve\"\nhost = \"pty\"\ncommand = '{line}; exec {command}'\n")
    };
    let config = [recipe("says", "echo Uvicorn running on http://x"), recipe("silent", ":")].concat();
    let config = rig.write("recipes.toml", &config);
    let mut batch = rig.batch_with(&[], &["--config", config.to_str().unwrap(), "--inspector", "ps"]);
    let says = batch.launch(json!({"recipe": "says"}));
    assert_eq!(batch.ok(ready(&says, 20.0))["phase"], "ready");
    let silent = batch.launch(json!({"recipe": "silent"}));
    until("it is seen that it answers", || {
        let row = row(&mut batch, &silent);
        row["phase"] == "starting" && row["detail"].as_str().is_some_and(|detail| detail.contains("without procfs"))
    });
    assert_eq!(batch.err(ready(&silent, 0.3)).0, "timeout");
    batch.finish();
}

#[test]
fn programs_and_modules_that_are_missing_are_named() {
    let rig = rig();
    let mut batch = rig.batch();
    let cases = [
        (json!("no-such-server --port 5"), "exit status 127: the command \"no-such-server\" was not found"),
        (
            json!(["python3", "-m", "vllm.entrypoints.no_such_module"]),
            "exit status 1: the Python module \"vllm\" is not installed",
        ),
        (json!("kill -ILL $$"), "ended by ILL: it uses an instruction that this CPU does not have"),
        (
            json!("kill -KILL $$"),
            "ended by KILL: it was killed, and not by us: most often the kernel does that when memory runs out",
        ),
        (json!("exit 5"), "exit status 5"),
    ];
    for host in HOSTS {
        for (command, expected) in &cases {
            let session = batch.launch(json!({"command": command, "kind": "serve", "host": host}));
            batch.ok(json!({"cmd": "wait", "session": session, "for": "exit", "timeout_s": 20}));
            let (kind, message) = batch.err(ready(&session, 20.0));
            assert!(kind == "failed" && message.contains(expected), "{host} {command}: {kind}: {message}");
            assert_eq!(row(&mut batch, &session)["detail"], *expected, "{host} {command}");
        }
    }
    batch.finish();
}

#[test]
fn the_configuration_may_add_patterns() {
    let rig = rig();
    let pattern = "[[pattern]]\nname = \"stub\"\nserver = \"other\"\nsays = \"loading\"\nmatch = '(?<percent>\\d+)% of weights'\n";
    let config = rig.write("c.toml", pattern);
    let mut batch = rig.batch_with(&[], &["--config", config.to_str().unwrap()]);
    let port = free_port().to_string();
    let line = format!("printf '\\r 10%% of weights\\r 42%% of weights'; sleep 3600; : --port {port}");
    let session = batch.launch(json!({"command": line, "kind": "serve", "host": "pty"}));
    until("it is read while it is drawn", || {
        let row = row(&mut batch, &session);
        row["phase"] == "loading" && row["progress_pct"] == 42.0
    });
    assert!(rig.run(&["--config", config.to_str().unwrap(), "ls"]).code == Some(0));
    batch.finish();
    let config = rig.write("bad.toml", &pattern.replace("loading", "lording"));
    let ran = rig.run(&["--config", config.to_str().unwrap(), "ls"]);
    assert!(ran.code == Some(2) && ran.error().contains("loading"), "{ran:?}");
}
