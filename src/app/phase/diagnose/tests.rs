//! Every cause, with a log and without.

use super::super::detect::tests::{replay, seen, transcript};
use super::super::server::recognise;
use super::super::silent::Aside;
use super::*;

fn argv(text: &str) -> CommandLine {
    CommandLine::Argv(text.split(' ').map(str::to_owned).collect())
}

fn changed(suggestion: Option<&Suggestion>) -> Option<String> {
    match suggestion?.command.as_ref()? {
        CommandLine::Line(line) => Some(line.clone()),
        CommandLine::Argv(argv) => Some(argv.join(" ")),
    }
}

struct Case<'a> {
    command: CommandLine,
    code: Option<i32>,
    signal: Option<&'a str>,
    found: Option<Found>,
    complaint: Option<String>,
    listened: bool,
    holder: Holder,
    socket: Socket,
    file: File,
    beside: Vec<(Beside, File)>,
    aside: Option<Aside>,
}

impl Case<'_> {
    fn new(command: &str) -> Self {
        Self {
            command: argv(command),
            code: Some(1),
            signal: None,
            found: None,
            complaint: None,
            listened: false,
            holder: Holder::Nobody,
            socket: Socket::Unknown,
            file: File::Unknown,
            beside: Vec::new(),
            aside: None,
        }
    }

    fn diagnosis(&self) -> Option<Diagnosis> {
        let served = recognise(&self.command.argv(), &|_| None, "/work");
        diagnose(&Evidence {
            command: &self.command,
            served: served.as_ref(),
            code: self.code,
            signal: self.signal,
            found: self.found.as_ref(),
            complaint: self.complaint.as_deref(),
            listened: self.listened,
            holder: self.holder.clone(),
            socket: self.socket,
            free_port: Some(18_800),
            file: self.file.clone(),
            beside: self.beside.clone(),
            aside: self.aside.clone(),
        })
    }

    fn check(&self, cause: Cause, detail: &str, command: Option<&str>) {
        let diagnosis = self.diagnosis().unwrap_or_else(|| panic!("{:?} is diagnosed", self.command));
        assert_eq!((diagnosis.cause, diagnosis.detail.as_str()), (cause, detail));
        assert_eq!(changed(diagnosis.suggestion.as_ref()).as_deref(), command, "{:?}", diagnosis.suggestion);
    }
}

/// What a transcript says, with the command that it is of.
fn told(name: &str, server: Server) -> Case<'static> {
    let (words, _) = transcript(name);
    let mut case = Case::new("x");
    case.command = CommandLine::Argv(words);
    let seen = seen(name, server).0;
    (case.found, case.complaint) = (seen.cause, seen.complaint);
    case
}

const OTHER: &str = "process 7 (python3 -m http.server)";

#[test]
fn a_taken_port_with_a_log_and_without() {
    let suggested = "llama-server -m /models/tiny.gguf --host 127.0.0.1 --port 18800 -t 1 -c 512";
    let detail = "port 18703 is in use by process 7 (python3 -m http.server)";
    for name in ["llama-port-in-use", "llama-port-in-use-silent"] {
        let mut case = told(name, Server::LlamaServer);
        case.holder = Holder::Other(OTHER.into());
        case.check(Cause::PortInUse, detail, Some(suggested));
        // A server that has listened did not fail because of its port.
        if case.found.is_none() {
            case.listened = true;
            assert_ne!(case.diagnosis().map(|found| found.cause), Some(Cause::PortInUse));
        }
    }
    let case = told("llama-bad-host", Server::LlamaServer);
    let detail = "it could not listen on port 18704, though nobody does now: old connections may be closing, or its host is not this computer's";
    case.check(Cause::PortInUse, detail, None);
    let mut case = Case::new("ollama serve");
    case.holder = Holder::Other(OTHER.into());
    let detail = "port 11434 is in use by process 7 (python3 -m http.server)";
    case.check(Cause::PortInUse, detail, Some("env OLLAMA_HOST=127.0.0.1:18800 ollama serve"));
}

#[test]
fn model_files_with_a_log_and_without() {
    let mut case = told("llama-missing-model", Server::LlamaServer);
    case.file = File::Missing(Some("/models/nope2.gguf".into()));
    let suggested = "llama-server -m /models/nope2.gguf --host 127.0.0.1 --port 18704 -t 1 -c 512";
    case.check(Cause::MissingFile, "its model file \"/models/nope.gguf\" is not there", Some(suggested));
    case.found = None;
    case.check(Cause::MissingFile, "its model file \"/models/nope.gguf\" is not there", Some(suggested));

    let mut case = told("llama-model-trunc", Server::LlamaServer);
    let said = "tensor 'blk.1.ffn_gate.weight' data is not within the file bounds, model is corrupted or incomplete";
    case.check(Cause::BadFile, &format!("its model file \"/models/trunc.gguf\" is broken: {said}"), None);
    (case.found, case.file) = (None, File::Faulty(Fault::Truncated));
    let seen = "its model file \"/models/trunc.gguf\" is broken: it is shorter than its header says";
    case.check(Cause::BadFile, seen, None);
    case.file = File::Faulty(Fault::Magic(*b"GGXX"));
    case.check(Cause::BadFile, "its model file \"/models/trunc.gguf\" is broken: it is no GGUF file", None);
    case.file = File::Unreadable("Permission denied".into());
    case.check(Cause::BadFile, "its model file \"/models/trunc.gguf\" is broken: Permission denied", None);

    let mut case = told("llama-model-tensor", Server::LlamaServer);
    case.file = File::Faulty(Fault::Missing("output_norm.weight".into()));
    let lacks = "its model file \"/models/tensor.gguf\" is broken: it lacks the tensor \"output_norm.weight\"";
    case.check(Cause::BadFile, &format!("{lacks} (tensor 'output_norm.weight' not found)"), None);
    case.found = None;
    case.check(Cause::BadFile, lacks, None);

    let mut case = told("llama-model-arch", Server::LlamaServer);
    case.check(Cause::UnknownArchitecture, "it does not know the architecture of the model \"notanarch\"", None);
    (case.found, case.file) = (None, File::Whole(Some("notanarch".into())));
    case.aside = Some(Aside::Architecture("notanarch".into(), None));
    case.check(Cause::UnknownArchitecture, "it does not know the architecture of the model \"notanarch\"", None);
    case.aside = None;
    // It complained of something else, whatever became of its file.
    for (file, why) in [
        (File::Missing(None), "HTTP server error"),
        (File::Faulty(Fault::Truncated), "GET failed (429)"),
        (File::Unreadable("Permission denied".into()), "Worker proc 1 died unexpectedly"),
    ] {
        let found = Found { cause: Cause::Died, what: None, why: Some(why.into()), line: why.into() };
        let case = Case { found: Some(found), file, command: case.command.clone(), ..Case::new("x") };
        case.check(Cause::Died, &format!("it says: {why}"), None);
    }
    let why = "model loading error";
    let found = Found { cause: Cause::Died, what: None, why: Some(why.into()), line: why.into() };
    let file = File::Faulty(Fault::Truncated);
    let loading = Case { found: Some(found), file, command: case.command.clone(), ..Case::new("x") };
    assert_eq!(loading.diagnosis().map(|found| found.cause), Some(Cause::BadFile));
    let detail = "its output does not say why; its port was free, and its model file is whole, of the architecture \"notanarch\"";
    case.check(Cause::Died, detail, None);
}

#[test]
fn options() {
    let mut case = told("llama-bad-flag", Server::LlamaServer);
    let suggested = "llama-server -m /models/tiny.gguf --host 127.0.0.1 --port 18704 -t 1 -c 512";
    case.check(Cause::BadFlag, "it does not know the option --bogus-flag", Some(suggested));
    (case.found, case.aside) = (None, Some(Aside::Flag("--bogus-flag".into())));
    case.check(Cause::BadFlag, "it does not know the option --bogus-flag", Some(suggested));
    let mut case = told("llama-bad-value", Server::LlamaServer);
    case.check(Cause::BadValue, "it does not take the value of -c (stoi)", Some("llama-server --help"));
    (case.found, case.aside) = (None, Some(Aside::Value("-c".into())));
    case.check(Cause::BadValue, "it does not take the value of -c", Some("llama-server --help"));
    let mut case = Case::new("python3 -m llama_cpp.server --bogus 1");
    case.code = Some(2);
    case.check(
        Cause::BadFlag,
        "it does not take one of its options (exit status 2)",
        Some("python3 -m llama_cpp.server --help"),
    );
    let mut case = Case::new("vllm serve Org/Model --bogus 1");
    case.code = Some(2);
    case.check(Cause::BadFlag, "it does not take one of its options (exit status 2)", Some("vllm serve --help"));
}

#[test]
fn hubs() {
    let case = told("llama-hf-401", Server::LlamaServer);
    let detail = "the hub does not let it have model \"org/gated\": log in and accept its terms";
    case.check(Cause::Gated, detail, Some("hf auth login"));
    let case = told("llama-hf-404", Server::LlamaServer);
    let detail = "the hub has no model \"org/missing\", or does not show it without a token";
    case.check(Cause::MissingRepo, detail, None);
    let case = told("llama-hf-refused", Server::LlamaServer);
    case.check(Cause::Offline, "it cannot reach the hub to fetch model \"org/other\"", None);
    let case = told("llama-hf-offline", Server::LlamaServer);
    let suggested = "llama-server -hf org/other --host 127.0.0.1 --port 18705 -t 1 -c 512";
    let detail = "it is to stay offline, and has no copy of model \"org/other\"";
    case.check(Cause::Unresolved, detail, Some(suggested));
    let silent = |command: &str, cause, detail: &str, suggested: Option<&str>| {
        let mut case = Case::new(command);
        case.aside = Some(Aside::Hub(cause));
        case.check(cause, detail, suggested);
    };
    let detail = "the hub does not let it have model \"org/x\": log in and accept its terms";
    silent("vllm serve org/x", Cause::Gated, detail, Some("hf auth login"));
    let detail = "the hub has no model \"org/x\", or does not show it without a token";
    silent("llama-server -hf org/x", Cause::MissingRepo, detail, None);
    silent("llama-server -hf org/x", Cause::Offline, "it cannot reach the hub to fetch model \"org/x\"", None);
    let detail = "it is to stay offline, and has no copy of model \"org/x\"";
    silent("llama-server -hf org/x --offline", Cause::Unresolved, detail, Some("llama-server -hf org/x"));
}

#[test]
fn memory_and_kills() {
    let case = told("llama-oom-kv", Server::LlamaServer);
    let suggested = "llama-server -m /models/tiny.gguf --host 127.0.0.1 --port 18704 -t 1 -c 4096";
    case.check(Cause::OutOfMemory, "out of memory: 1953.12 MB more were asked for", Some(suggested));
    for (code, signal) in [(Some(1), None), (None, Some("ABRT"))] {
        let mut case = Case::new("llama-server -m x -c 2000000");
        (case.code, case.signal, case.aside) = (code, signal, Some(Aside::AddressSpace(700_000 << 10)));
        let detail = "out of memory: its address space was limited to 683 MiB (ulimit -v)";
        case.check(Cause::OutOfMemory, detail, Some("llama-server -m x -c 4096"));
    }
    // What it printed comes before what was found aside, however little it says.
    for aside in [Aside::AddressSpace(1), Aside::Flag("-x".into()), Aside::Hub(Cause::Gated)] {
        let found = Found { cause: Cause::Died, what: None, why: Some("why".into()), line: "why".into() };
        let case = Case { found: Some(found), aside: Some(aside), ..Case::new("llama-server -m x") };
        case.check(Cause::Died, "it says: why", None);
    }
    let detail = "it was killed, and not by us: most often the kernel does that when memory runs out";
    for (code, signal) in [(None, Some("KILL")), (Some(137), None)] {
        let mut case = Case::new("vllm serve x");
        (case.code, case.signal) = (code, signal);
        case.check(Cause::Killed, detail, Some("vllm serve x --max-model-len 4096"));
    }
}

#[test]
fn what_is_not_installed_or_does_not_fit() {
    let mut case = Case::new("python3 -m vllm.entrypoints.openai.api_server");
    case.found = seen("missing-module", Server::Vllm).0.cause;
    case.check(
        Cause::MissingModule,
        "the Python module \"vllm\" is not installed",
        Some("python3 -m pip install vllm"),
    );
    let mut case = Case::new("x");
    (case.command, case.code) = (CommandLine::Line("vllm serve x".into()), Some(127));
    case.check(Cause::MissingCommand, "the command \"vllm\" was not found", Some("python3 -m pip install vllm"));
    for (code, signal) in [(None, Some("ILL")), (Some(132), None)] {
        let mut case = Case::new("llama-server -m x");
        (case.code, case.signal) = (code, signal);
        case.check(Cause::CpuTooOld, "it uses an instruction that this CPU does not have", None);
    }
}

#[test]
fn what_is_not_known_is_not_made_up() {
    let mut case = Case::new("my-server --port 5");
    assert_eq!(case.diagnosis(), None);
    case.holder = Holder::Other(OTHER.into());
    let detail = "port 5 is in use by process 7 (python3 -m http.server)";
    case.check(Cause::PortInUse, detail, Some("my-server --port 18800"));
    let mut case = Case::new("llama-server -m x");
    (case.code, case.signal) = (None, Some("SEGV"));
    assert_eq!(case.diagnosis(), None);
}

#[test]
fn what_was_sent_away_is_to_be_seen_the_next_time() {
    let mut case = Case::new("x");
    case.command = CommandLine::Line("exec llama-server -m x >/dev/null 2>&1".into());
    let detail = "its output does not say why; its port was free";
    case.check(Cause::Died, detail, Some("exec llama-server -m x"));
    // It was seen, and says little.
    case.found = seen("llama-hf-offline", Server::LlamaServer).0.cause;
    assert_eq!(changed(case.diagnosis().and_then(|found| found.suggestion).as_ref()), None);
    let case = Case::new("llama-server -m x");
    case.check(Cause::Died, detail, None);
}

/// How a real server ended by each signal, idle, busy and while it loaded: none of that has a cause.
#[test]
fn who_was_told_to_end_has_not_failed_by_itself() {
    let (_, printed) = transcript("llama-signals");
    let printed = String::from_utf8(printed).expect("text");
    for line in printed.lines() {
        let status = line.split("rc=").nth(1).and_then(|rest| rest.split(' ').next()).expect(line);
        let status: i32 = status.parse().expect(line);
        let names = [(-1, "HUP"), (-2, "INT"), (-3, "QUIT"), (-10, "USR1"), (-15, "TERM")];
        let mut case = Case::new("llama-server -m x");
        case.signal = names.into_iter().find(|(number, _)| *number == status).map(|(_, name)| name);
        case.code = Some(status).filter(|_| case.signal.is_none());
        assert!(matches!(case.code, None | Some(0 | 1)), "{line}");
        let said = case.diagnosis().map(|found| (found.cause, found.suggestion));
        // A second INT makes it leave with 1, as by any failure.
        assert_eq!(said, (status == 1).then_some((Cause::Died, None)), "{line}");
    }
    assert_eq!(printed.lines().count(), 12);
}

#[test]
fn secrets_and_controls_do_not_come_through() {
    let secret = "hf_abcdefghijklmnopqrstuvwxyz012345";
    let check = |case: &Case<'_>| {
        let shown = format!("{:?}", case.diagnosis().expect("a diagnosis"));
        assert!(!shown.contains("abcdefghijklmnop") && !shown.contains('\u{202e}'), "{shown}");
    };
    let mut case = Case::new("x");
    (case.command, case.code) = (CommandLine::Line(format!("HF_TOKEN={secret} no-such-server")), Some(127));
    case.check(Cause::MissingCommand, "the command \"no-such-server\" was not found", None);
    let mut case = Case::new(&format!("llama-server -m /\u{202e}/{secret} --api-key {secret}"));
    case.file = File::Missing(Some(format!("/\u{202e}/token={secret}")));
    check(&case);
    case.holder = Holder::Other(OTHER.into());
    check(&case);
}

#[test]
fn a_command_that_was_not_found_is_the_one_that_was_looked_for() {
    let said = |command: &CommandLine, line: &str, code: i32| {
        let found = replay(Server::Other, format!("{line}\n").as_bytes(), usize::MAX).0.cause;
        Case { command: command.clone(), code: Some(code), found, ..Case::new("x") }
            .diagnosis()
            .expect("a cause")
            .detail
    };
    let shell = CommandLine::Argv(["bash", "-c", "exec llama-nope --port 8"].map(str::to_owned).to_vec());
    let script = CommandLine::Argv(vec!["./run.sh".to_owned()]);
    for line in [
        "bash: line 1: exec: llama-nope: not found",
        "sh: 1: exec: llama-nope: not found",
        "./run2.sh: line 2: exec: llama-nope: not found",
        "bash: line 1: llama-nope: command not found",
        "env: 'llama-nope': No such file or directory",
        "env: ‘llama-nope’: No such file or directory",
        "nohup: failed to run command 'llama-nope': No such file or directory",
        "setsid: failed to execute llama-nope: No such file or directory",
    ] {
        for command in [&shell, &script] {
            assert_eq!(said(command, line, 127), "the command \"llama-nope\" was not found", "{line}");
        }
    }
    let by_path = "bash: line 1: ./build/llama-server: No such file or directory";
    assert_eq!(said(&script, by_path, 127), "the command \"./build/llama-server\" was not found");
    // Nothing was printed.
    assert_eq!(said(&shell, "", 127), "the command \"llama-nope\" was not found");
    assert_eq!(said(&script, "", 127), "a command that it runs was not found");
    assert_eq!(said(&shell, "", 126), "the command \"llama-nope\" may not be executed, or is no program");
}

/// An adapter, a draft model, a projector: what is wrong with one of them is not said of the model.
#[test]
fn files_beside_the_model_with_a_log_and_without() {
    let found = |cause, what: Option<&str>, why: Option<&str>| {
        Some(Found { cause, what: what.map(str::to_owned), why: why.map(str::to_owned), line: String::new() })
    };
    let mut case = Case::new("llama-server -m a.gguf --lora l.gguf -md d.gguf");
    case.file = File::Whole(Some("llama".into()));
    let all = crate::app::phase::beside(&case.command.argv());
    let [adapter, draft] = all.try_into().expect("two");
    let whole = || File::Whole(Some("llama".into()));
    let magic = "invalid magic characters";
    // The second one is at fault.
    case.beside = vec![(adapter.clone(), whole()), (draft.clone(), File::Faulty(Fault::Magic(*b"GGXX")))];
    for output in
        [None, found(Cause::BadFile, None, Some(magic)), found(Cause::Died, None, Some("model loading error"))]
    {
        case.found = output;
        case.check(Cause::BadFile, "the file \"d.gguf\" of -md is broken: it is no GGUF file", None);
    }
    case.beside = vec![(adapter.clone(), File::Missing(Some("k.gguf".into()))), (draft.clone(), File::Missing(None))];
    let changed = Some("llama-server -m a.gguf --lora k.gguf -md d.gguf");
    for output in [None, found(Cause::MissingFile, Some("l.gguf"), None)] {
        case.found = output;
        case.check(Cause::MissingFile, "the file \"l.gguf\" of --lora is not there", changed);
    }
    // The output knows better which one it was.
    case.found = found(Cause::MissingFile, Some("d.gguf"), None);
    case.check(Cause::MissingFile, "the file \"d.gguf\" of -md is not there", None);
    case.found = found(Cause::MissingFile, Some("elsewhere.gguf"), None);
    case.check(Cause::MissingFile, "its model file \"elsewhere.gguf\" is not there", None);
    // A model that is at fault itself comes first.
    (case.found, case.file) = (None, File::Faulty(Fault::Truncated));
    case.beside[0].1 = File::Faulty(Fault::Magic(*b"GGXX"));
    case.check(Cause::BadFile, "its model file \"a.gguf\" is broken: it is shorter than its header says", None);
    (case.file, case.beside) =
        (whole(), vec![(adapter, File::Faulty(Fault::OtherKind("no LoRA adapter"))), (draft, whole())]);
    case.check(Cause::BadFile, "the file \"l.gguf\" of --lora is no LoRA adapter", None);
    case.beside.clear();
    let nothing =
        "its output does not say why; its port was free, and its model file is whole, of the architecture \"llama\"";
    case.check(Cause::Died, nothing, None);
}

/// The port that the log names is the one that matters; without a word of it, and none that can be read, none does.
#[test]
fn a_port_that_nobody_can_read_is_not_spoken_of() {
    let lines =
        ["llama-server -m x --port $PORT", "llama-server -m x --port 0", "llama-server -m x --host /run/l.sock"];
    for line in lines {
        let mut case = Case::new(line);
        case.holder = Holder::Unknown;
        case.file = File::Whole(Some("llama".into()));
        let detail = "its output does not say why; its model file is whole, of the architecture \"llama\"";
        case.check(Cause::Died, detail, None);
        case.found = Some(Found { cause: Cause::PortInUse, what: Some("9".into()), why: None, line: String::new() });
        assert_eq!(case.found.as_ref().and_then(Found::port), Some(9));
        case.holder = Holder::Other(OTHER.into());
        let diagnosis = case.diagnosis().map(|diagnosis| diagnosis.detail);
        assert_eq!(diagnosis.as_deref(), Some("port 9 is in use by process 7 (python3 -m http.server)"), "{line}");
    }
    let mut case = told("llama-port-in-use", Server::LlamaServer);
    case.holder = Holder::Own;
    let detail = "port 18703 was taken by another process of this session";
    let suggested = "llama-server -m /models/tiny.gguf --host 127.0.0.1 --port 18800 -t 1 -c 512";
    case.check(Cause::PortInUse, detail, Some(suggested));
    // Where nothing says that it failed because of its port, its own process is no stranger.
    case.found = None;
    assert_eq!(case.diagnosis().map(|diagnosis| diagnosis.cause), Some(Cause::Died));
}

#[test]
fn an_architecture_is_that_of_the_draft_model_where_it_is() {
    let draft = Beside { option: "-md".into(), name: "d.gguf".into(), part: Part::Draft };
    let mut case = Case::new("llama-server -m x -md d.gguf");
    case.file = File::Whole(Some("llama".into()));
    case.beside = vec![(draft.clone(), File::Whole(Some("new".into())))];
    case.aside = Some(Aside::Architecture("new".into(), Some(draft)));
    let detail = "it does not know the architecture \"new\" of the draft model \"d.gguf\" of -md";
    case.check(Cause::UnknownArchitecture, detail, None);
    case.aside = None;
    let what = Some("new".to_owned());
    case.found = Some(Found { cause: Cause::UnknownArchitecture, what, why: None, line: String::new() });
    case.check(Cause::UnknownArchitecture, detail, None);
    case.file = File::Whole(Some("new".into()));
    case.check(Cause::UnknownArchitecture, "it does not know the architecture of the model \"new\"", None);
}

#[test]
fn an_option_without_its_value_is_named() {
    let mut case = Case::new("llama-server -m x -c");
    case.aside = Some(Aside::Open("-c".into()));
    case.check(Cause::BadValue, "its last option, -c, has no value", Some("llama-server --help"));
}

#[test]
fn options_of_a_build_or_of_a_path_are_told_from_the_log() {
    let mut case = told("llama-static-path", Server::LlamaServer);
    case.holder = Holder::Other(OTHER.into());
    let detail = "it does not take the value of --path (static assets path not found: /nope)";
    case.check(Cause::BadValue, detail, Some("llama-server --help"));
    let case = told("llama-no-ssl", Server::LlamaServer);
    let detail = "it does not take one of its options: the server is built without SSL support";
    case.check(Cause::BadValue, detail, Some("llama-server --help"));
}

/// Nobody may say that the output does not say why where it holds an error.
#[test]
fn the_first_error_that_nobody_understands_is_quoted() {
    let check = |server, printed: &str, expected: Option<&str>| {
        let seen = replay(server, printed.as_bytes(), 7).0;
        assert_eq!(seen.complaint.as_deref(), expected, "{printed}");
        let mut case = Case::new("llama-server -m x --port 8");
        (case.found, case.complaint) = (seen.cause, seen.complaint);
        if let Some(expected) = expected {
            case.check(Cause::Died, &format!("it says: {expected}"), None);
        }
    };
    let llama = "0.00.001.001 I cmn  x: starts\n0.00.001.002 E srv          init: new\x1b[0m trouble of sk-abcdefghijklmnopqrstuvwxyz0123456789\n0.00.001.002 E srv  other\n0.00.002.000 E srv  llama_server: exiting due to HTTP server error\n";
    check(Server::LlamaServer, llama, Some(&format!("srv init: new trouble of {}", text::MASK)));
    check(Server::LlamaServer, "0.00.001.001 W cmn  x: odd\nerror: bad weather\n", Some("error: bad weather"));
    let trace = "(EngineCore pid=7) ERROR 12-01 10:00:00 [core.py:9] Traceback (most recent call last):\n(EngineCore pid=7) ERROR 12-01 10:00:00 [core.py:9]   File \"x\", line 1\n(EngineCore pid=7) ERROR 12-01 10:00:00 [core.py:9] mod.OddError: no\n";
    check(Server::Vllm, trace, Some("mod.OddError: no"));
    check(
        Server::Other,
        "Traceback (most recent call last):\n  File \"x\"\nValueError: odd\n",
        Some("ValueError: odd"),
    );
    check(Server::Other, "INFO: 3 errors: none\nlistening: Error\n", None);
    check(Server::Vllm, "usage: x\nx.py: error: odd weather\n", Some("x.py: error: odd weather"));
    let later =
        "0.00.001.002 I srv  listening on http://h:1\n0.01.000.000 E srv  of a request\n0.02.000.000 E srv  the last\n";
    check(Server::LlamaServer, later, Some("srv the last"));
    // What it got over, and what comes after the cause, is no cause.
    check(Server::LlamaServer, "0.00.001.001 E cmn  x: odd\n0.00.001.002 I srv  listening on http://h:1\n", None);
    check(Server::LlamaServer, "error: invalid argument: --x\n0.00.001.001 E cmn  x: odd\n", None);
}

#[test]
fn a_socket_in_the_file_system_is_no_port() {
    for name in ["llama-socket-taken", "silent"] {
        let mut case = Case::new("llama-server -m x --host nodir/l.sock");
        if name != "silent" {
            case = told(name, Server::LlamaServer);
        }
        case.holder = Holder::Unknown;
        case.file = File::Faulty(Fault::Truncated);
        let mut check = |socket, detail: &str, command: Option<&str>| {
            case.socket = socket;
            case.check(Cause::Socket, detail, command);
        };
        check(Socket::NoFolder, "the folder of its socket \"nodir/l.sock\" is not there", None);
        let there = "its socket \"nodir/l.sock\" is there already";
        let left = format!("{there}, though nobody listens on it: a server that has ended leaves it");
        check(Socket::Left, &left, Some("rm -- nodir/l.sock"));
        check(Socket::Served, &format!("{there}, and somebody listens on it"), None);
        check(Socket::OtherFile, "where its socket \"nodir/l.sock\" is to be there is another file", None);
        if name == "silent" {
            // It came to its model.
            case.socket = Socket::Free;
            assert_eq!(case.diagnosis().map(|diagnosis| diagnosis.cause), Some(Cause::BadFile));
        } else {
            check(Socket::Free, "it could not listen on its socket \"nodir/l.sock\"", None);
        }
    }
}
