//! The transcripts of real servers (`tests/model-server`), replayed.

use super::super::server::recognise;
use super::*;
use crate::app::config::built_in_patterns;

pub(in super::super) fn table() -> Arc<Table> {
    Arc::new(Table::new(built_in_patterns().expect("sound"), &[]).expect("sound"))
}

/// Returns the command of a transcript and what was printed; `#` lines are about it.
pub(in super::super) fn transcript(name: &str) -> (Vec<String>, Vec<u8>) {
    let path = format!("{}/tests/model-server/transcripts/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(&path).expect(&path);
    let (mut argv, mut printed) = (Vec::new(), Vec::new());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if let Some(about) = line.strip_prefix(b"# ") {
            let about = String::from_utf8_lossy(about);
            if let (Some(command), true) = (about.strip_prefix("$ "), argv.is_empty()) {
                let command = command.split("   (").next().unwrap_or_default();
                argv = command.split_whitespace().map(str::to_owned).collect();
            }
        } else {
            printed.extend_from_slice(line);
        }
    }
    (argv, printed)
}

pub(in super::super) fn replay(server: Server, printed: &[u8], piece: usize) -> (Seen, Vec<Phase>) {
    let mut detector = Detector::new(table_once(), server, None);
    let mut phases: Vec<Phase> = Vec::new();
    for part in printed.chunks(piece) {
        detector.feed(part);
        if let Some(phase) = detector.seen().phase
            && phases.last() != Some(&phase)
        {
            phases.push(phase);
        }
    }
    (detector.seen().clone(), phases)
}

fn table_once() -> Arc<Table> {
    static TABLE: std::sync::OnceLock<Arc<Table>> = std::sync::OnceLock::new();
    Arc::clone(TABLE.get_or_init(table))
}

/// Replays a transcript whole, byte by byte and in odd pieces; all must say the same.
pub(in super::super) fn seen(name: &str, server: Server) -> (Seen, Vec<Phase>) {
    let (_, printed) = transcript(name);
    let (whole, _) = replay(server, &printed, usize::MAX);
    let (mut seen, phases) = replay(server, &printed, 1);
    for piece in [2, 7, 61, 1000] {
        assert_eq!(replay(server, &printed, piece).0, whole, "{name} in pieces of {piece}");
    }
    assert_eq!(seen, whole, "{name}");
    seen.percent = seen.percent.filter(|_| seen.phase != Some(Phase::Ready));
    (seen, phases)
}

const READY: &[Phase] = &[Phase::Loading, Phase::Warming, Phase::Ready];

#[test]
fn a_llama_server_comes_to_be_ready() {
    for name in ["llama-ready-stop", "llama-slow-load", "llama-pty-ready"] {
        let (seen, phases) = seen(name, Server::LlamaServer);
        assert_eq!(phases, READY, "{name}");
        assert_eq!(seen.cause, None, "{name}");
        assert!(seen.detail.expect("a detail").starts_with("http://127.0.0.1:"), "{name}");
    }
    let (seen, _) = seen("llama-ready-stop", Server::LlamaServer);
    assert_eq!((seen.requests, seen.tokens_per_s), (Some(0), Some(5333.33)));
}

/// What goes over the wire may be in its log: none of it is how far it has come.
#[test]
fn what_a_server_answers_is_no_phase_and_no_failure() {
    let (answers, phases) = seen("llama-http", Server::LlamaServer);
    assert_eq!((answers, phases), (Seen { printed: true, ..Seen::default() }, Vec::new()));
    let both = [transcript("llama-pty-ready").1, b"\n".to_vec(), transcript("llama-http").1].concat();
    let (after, phases) = replay(Server::LlamaServer, &both, 61);
    assert_eq!((after.phase, after.cause), (Some(Phase::Ready), None));
    assert_eq!(phases, READY);
}

#[test]
fn a_download_bar_is_read_while_it_is_drawn() {
    let (_, printed) = transcript("llama-pty-download");
    let mut detector = Detector::new(table_once(), Server::LlamaServer, None);
    let mut percents = Vec::new();
    for part in printed.chunks(13) {
        detector.feed(part);
        if let (Some(Phase::Downloading), Some(percent)) = (detector.seen().phase, detector.seen().percent)
            && percents.last() != Some(&percent)
        {
            percents.push(percent);
        }
    }
    assert_eq!(percents, [0.0, 11.0, 21.0, 32.0, 42.0, 53.0, 63.0, 74.0, 84.0, 95.0, 100.0]);
    let (_, phases) = seen("llama-pty-download", Server::LlamaServer);
    assert_eq!(phases, [&[Phase::Downloading], READY].concat());
}

#[test]
fn a_router_is_ready_before_its_models_are() {
    let (seen, phases) = seen("llama-router", Server::LlamaServer);
    assert_eq!(phases, [&[Phase::Ready], READY].concat());
    assert_eq!((seen.requests, seen.tokens_per_s), (Some(0), Some(10_000.0)));
}

#[test]
fn uvicorn_is_not_ready_when_its_application_is() {
    for name in ["uvicorn-ready-stop", "llamacpp-python-ready-stop"] {
        assert_eq!(seen(name, Server::LlamaCppPython).1, [Phase::Warming, Phase::Ready], "{name}");
    }
    for name in ["uvicorn-port-in-use", "llamacpp-python-port-in-use"] {
        let (seen, phases) = seen(name, Server::LlamaCppPython);
        assert_eq!(phases, [Phase::Warming], "{name}");
        assert_eq!(seen.cause.map(|found| found.cause), Some(Cause::PortInUse), "{name}");
    }
}

#[test]
fn the_first_cause_is_kept() {
    let check = |name: &str, server, cause, what: Option<&str>| {
        let found = seen(name, server).0.cause.unwrap_or_else(|| panic!("{name} has a cause"));
        assert_eq!((found.cause, found.what.as_deref()), (cause, what), "{name}: {}", found.line);
    };
    let llama = |name, cause, what| check(name, Server::LlamaServer, cause, what);
    llama("llama-bad-flag", Cause::BadFlag, Some("--bogus-flag"));
    llama("llama-bad-value", Cause::BadValue, Some("-c"));
    llama("llama-missing-value", Cause::BadValue, Some("--port"));
    llama("llama-bad-device", Cause::BadValue, Some("-dev"));
    llama("llama-bad-host", Cause::PortInUse, Some("18704"));
    llama("llama-port-in-use", Cause::PortInUse, Some("18703"));
    // What comes after it is misleading.
    llama("llama-hf-401", Cause::Gated, Some("org/gated"));
    llama("llama-hf-404", Cause::MissingRepo, None);
    llama("llama-hf-refused", Cause::Offline, None);
    llama("llama-hf-offline", Cause::Unresolved, None);
    llama("llama-missing-model", Cause::MissingFile, Some("/models/nope.gguf"));
    llama("llama-model-arch", Cause::UnknownArchitecture, Some("notanarch"));
    llama("llama-model-magic", Cause::BadFile, None);
    llama("llama-model-tensor", Cause::BadFile, None);
    llama("llama-model-trunc", Cause::BadFile, None);
    llama("llama-oom-kv", Cause::OutOfMemory, Some("1953.12 MB"));
    llama("llama-oom-model", Cause::OutOfMemory, Some("439.72 MB"));
    check("llamacpp-python-bad-flag", Server::LlamaCppPython, Cause::BadFlag, Some("--bogus"));
    check("llamacpp-python-missing-model", Server::LlamaCppPython, Cause::MissingFile, Some("models/nope.gguf"));
    check("missing-module", Server::Vllm, Cause::MissingModule, Some("vllm"));
    assert_eq!(seen("llama-port-in-use-silent", Server::LlamaServer).0, Seen::default());
}

#[test]
fn other_servers_by_their_sources() {
    let check = |server, line: &str, phase, percent: Option<f64>| {
        let (seen, _) = replay(server, format!("{line}\n").as_bytes(), 5);
        assert_eq!((seen.phase, seen.percent), (Some(phase), percent), "{line}");
    };
    let vllm = |line: &str, phase, percent| {
        check(Server::Vllm, &format!("(EngineCore pid=12) INFO 11-29 10:00:00 [x.py:1] {line}"), phase, percent);
    };
    vllm("Initializing a V1 LLM engine (v0.32) with config", Phase::Starting, None);
    vllm("Starting to load model Qwen/Qwen3-0.6B...", Phase::Loading, None);
    vllm("Model loading took 14.2 GiB memory and 5.1 seconds", Phase::Warming, None);
    vllm("Graph capturing finished in 3 secs", Phase::Warming, None);
    vllm("Starting vLLM server on http://0.0.0.0:8000", Phase::Ready, None);
    vllm("Application startup complete.", Phase::Ready, None);
    let bar = "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:01<00:01]";
    check(Server::Vllm, bar, Phase::Loading, Some(50.0));
    let sglang = |line: &str, phase| check(Server::Sglang, &format!("[2026-08-01 10:00:00 TP0] {line}"), phase, None);
    sglang("Load weight begin. avail mem=10 GB", Phase::Loading);
    sglang("Load weight end. type=X", Phase::Warming);
    sglang("max_total_num_tokens=1234, chunked_prefill_size=1", Phase::Warming);
    check(Server::Sglang, "INFO:     Uvicorn running on http://0.0.0.0:30000", Phase::Warming, None);
    sglang("The server is fired up and ready to roll!", Phase::Ready);
    let ollama = |msg: &str, phase, percent| {
        let line = format!("time=2026-08-01T10:00:00Z level=INFO source=routes.go:1 msg=\"{msg}\"");
        check(Server::Ollama, &line, phase, percent);
    };
    ollama("Listening on 127.0.0.1:11434 (version 0.20)", Phase::Ready, None);
    ollama("starting llama-server", Phase::Loading, None);
    check(Server::Ollama, "pulling 0123456789ab... 37% ▕██   ▏", Phase::Downloading, Some(37.0));
    check(Server::Other, "Fetching 10 files:  30%|███       | 3/10 [00:01<00:02]", Phase::Downloading, Some(30.0));
    check(Server::ComfyUi, "To see the GUI go to: http://127.0.0.1:8188", Phase::Ready, None);
    let (seen, _) = replay(
        Server::Vllm,
        b"Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 12.5 tokens/s, Running: 3 reqs, Waiting: 0\n",
        9,
    );
    assert_eq!((seen.requests, seen.tokens_per_s), (Some(3), Some(12.5)));
    let (seen, _) = replay(
        Server::Vllm,
        b"ERROR EngineCore failed to start.\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0\n",
        9,
    );
    assert_eq!(seen.cause.map(|found| (found.cause, found.what)), Some((Cause::OutOfMemory, Some("2.00 GiB".into()))));
}

#[test]
fn what_did_not_keep_it_from_working_is_forgiven() {
    let mut detector = Detector::new(table_once(), Server::LlamaServer, None);
    detector.feed(b"get_repo_commit: error: GET failed (401): Access to model org/x is restricted\n");
    assert!(detector.seen().cause.is_some());
    detector.feed(b"llama_server: listening on http://127.0.0.1:1\n");
    assert_eq!(detector.seen().cause, None);
}

#[test]
fn a_recipe_may_have_its_own_pattern() {
    let ready = Regex::new("up and [a-z]+$").expect("sound");
    let mut detector = Detector::new(table_once(), Server::Other, Some(ready));
    detector.feed(b"\x1b[32mup and runn");
    assert!(!detector.seen().matched);
    detector.feed(b"ing\x1b[0m\r\n");
    assert!(detector.seen().matched);
}

/// The last line may be without an end for ever: it counts where nothing that could follow takes the match away.
#[test]
fn a_prompt_that_is_no_whole_line_may_be_what_was_waited_for() {
    for (pattern, printed, expected) in [
        ("READY", "READY", true),
        ("READY", "not REA", false),
        ("^ready>", "loading\nready> ", true),
        ("^listening$", "listening", false),
        ("^listening$", "listening on", false),
        ("^listening$", "listening\n", true),
        (r"port \b80\b", "port 80", false),
    ] {
        let ready = Regex::new(pattern).expect("sound");
        let mut detector = Detector::new(table_once(), Server::Other, Some(ready));
        detector.feed(printed.as_bytes());
        assert_eq!(detector.seen().matched, expected, "{pattern:?} {printed:?}");
    }
}

#[test]
fn the_configuration_may_replace_and_add() {
    let clue = |name: &str, says, pattern: &str| super::super::clue::Clue {
        name: name.into(),
        server: Some(Server::LlamaServer),
        says,
        pattern: pattern.into(),
        source: "a test".into(),
        observed: false,
    };
    let more =
        [clue("llama-ready", Says::Comes(Phase::Ready), "it is up"), clue("mine", Says::Comes(Phase::Warming), "mine")];
    let table = Arc::new(Table::new(built_in_patterns().expect("sound"), &more).expect("sound"));
    let phase = |line: &[u8]| {
        let mut detector = Detector::new(Arc::clone(&table), Server::LlamaServer, None);
        detector.feed(line);
        detector.seen().phase
    };
    assert_eq!(phase(b"listening on http://127.0.0.1:1\n"), None);
    assert_eq!(phase(b"it is up\n"), Some(Phase::Ready));
    assert_eq!(phase(b"mine\n"), Some(Phase::Warming));
}

#[test]
fn transcripts_name_their_commands() {
    let (argv, _) = transcript("llama-port-in-use");
    let served = recognise(&argv, &|_| None, "/").expect("a server");
    assert_eq!((served.server, served.port()), (Server::LlamaServer, Some(18_703)));
}

#[test]
fn secrets_and_controls_do_not_come_through() {
    let mut detector = Detector::new(table_once(), Server::LlamaServer, None);
    detector.feed("error: invalid argument: --\u{202e}x hf_abcdefghijklmnopqrstuvwxyz012345\n".as_bytes());
    let found = format!("{:?}", detector.seen().cause);
    assert!(!found.contains('\u{202e}') && !found.contains("abcdefghijklmnop"), "{found}");
}
