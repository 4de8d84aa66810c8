//! Which model server a command is, where it listens, and how it is asked whether it is ready.

use super::port::{HIDDEN, Port, is_expanded, is_socket};
use super::silent::redirection;
use super::words::commands;
use super::wrapper::{SHELLS, shell_line, tails, wrapped_line, wraps};

/// A server whose ways are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Server {
    /// llama.cpp.
    LlamaServer,
    /// vLLM.
    Vllm,
    /// `SGLang`.
    Sglang,
    /// Ollama.
    Ollama,
    /// MLX.
    MlxLm,
    /// llama-cpp-python.
    LlamaCppPython,
    /// `LMDeploy`.
    Lmdeploy,
    /// Text Generation Inference.
    Tgi,
    /// `ComfyUI`.
    ComfyUi,
    /// Something else.
    Other,
}

/// How a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// GET on this path.
    Http(&'static str),
    /// A connection is enough.
    Tcp,
}

impl Server {
    /// All servers.
    pub const ALL: [Self; 10] = [
        Self::LlamaServer,
        Self::Vllm,
        Self::Sglang,
        Self::Ollama,
        Self::MlxLm,
        Self::LlamaCppPython,
        Self::Lmdeploy,
        Self::Tgi,
        Self::ComfyUi,
        Self::Other,
    ];

    /// Returns the word used in the table of patterns.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LlamaServer => "llama-server",
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Ollama => "ollama",
            Self::MlxLm => "mlx-lm",
            Self::LlamaCppPython => "llama-cpp-python",
            Self::Lmdeploy => "lmdeploy",
            Self::Tgi => "tgi",
            Self::ComfyUi => "comfyui",
            Self::Other => "other",
        }
    }

    /// Returns the port that it listens on when nobody says another.
    pub const fn default_port(self) -> Option<u16> {
        match self {
            Self::LlamaServer | Self::MlxLm => Some(8080),
            Self::Vllm | Self::LlamaCppPython => Some(8000),
            Self::Sglang => Some(30_000),
            Self::Ollama => Some(11_434),
            Self::Lmdeploy => Some(23_333),
            Self::Tgi => Some(3000),
            Self::ComfyUi => Some(8188),
            Self::Other => None,
        }
    }

    /// Returns how it is asked whether it is ready.
    pub const fn probe(self) -> Probe {
        match self {
            Self::LlamaServer | Self::Vllm | Self::Sglang | Self::Tgi | Self::Lmdeploy => Probe::Http("/health"),
            Self::LlamaCppPython | Self::MlxLm => Probe::Http("/v1/models"),
            Self::Ollama => Probe::Http("/"),
            Self::ComfyUi => Probe::Http("/system_stats"),
            Self::Other => Probe::Tcp,
        }
    }

    /// Returns the variables that set its port, for example `OLLAMA_HOST`.
    pub(super) const fn port_variables(self) -> &'static [&'static str] {
        match self {
            Self::LlamaServer => &["LLAMA_ARG_PORT"],
            Self::Ollama => &["OLLAMA_HOST"],
            Self::LlamaCppPython | Self::Tgi => &["PORT"],
            Self::Vllm | Self::Sglang | Self::MlxLm | Self::Lmdeploy | Self::ComfyUi | Self::Other => &[],
        }
    }

    /// Returns the package that has it, for pip.
    pub(super) const fn package(self) -> Option<&'static str> {
        match self {
            Self::Vllm => Some("vllm"),
            Self::Sglang => Some("sglang[all]"),
            Self::MlxLm => Some("mlx-lm"),
            Self::LlamaCppPython => Some("llama-cpp-python[server]"),
            Self::Lmdeploy => Some("lmdeploy"),
            Self::LlamaServer | Self::Ollama | Self::Tgi | Self::ComfyUi | Self::Other => None,
        }
    }
}

/// What a command serves, as far as its words tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Which server.
    pub server: Server,
    /// Where it listens.
    pub port: Port,
    /// The address that it is to listen on, where that was said.
    pub host: Option<String>,
    /// The model: a file or a repository.
    pub model: Option<String>,
    /// The model is a file by the way it is given.
    pub model_is_file: bool,
    /// The command forbids it to fetch anything.
    pub offline: bool,
}

impl Served {
    /// Returns the port that it listens on, as far as is known.
    pub fn port(&self) -> Option<u16> {
        match self.port {
            Port::Named(port) => Some(port),
            Port::Usual => self.server.default_port(),
            Port::Unread | Port::Nowhere => None,
        }
    }

    /// Returns the socket in the file system that it listens on, where that is known.
    pub fn socket(&self) -> Option<&str> {
        self.host.as_deref().filter(|_| self.port == Port::Nowhere)
    }
}

/// Returns what a command serves; `None` where it is no server that is known and names no port.
/// `variable` looks a variable of its environment up; `cwd` is where it runs.
pub fn recognise(argv: &[String], variable: &dyn Fn(&str) -> Option<String>, cwd: &str) -> Option<Served> {
    if SHELLS.contains(&base(argv.first()?)) {
        let line = &argv[shell_line(argv)?];
        let mut before = Before::default();
        let found = commands(line).into_iter().filter_map(|words| {
            let (set, rest) = without_front(&words);
            let inner = |name: &str| {
                let own = set.iter().chain(before.set.iter().rev()).find(|(known, _)| known == name);
                let own = own.map(|(_, value)| value.clone());
                own.or_else(|| if before.is_hidden { Some(HIDDEN.to_owned()) } else { variable(name) })
            };
            let served = recognise(rest, &inner, cwd);
            before.run(&set, rest);
            served
        });
        // A server that is known comes before a program that merely has a port.
        let (mut known, mut other): (Vec<_>, Vec<_>) = found.partition(|served| served.server != Server::Other);
        known.append(&mut other);
        // What a variable of the shell stands for nobody knows here.
        let is_plain = |text: &String| !is_expanded(text);
        return known.into_iter().next().map(|served| Served {
            model: served.model.filter(is_plain),
            host: served.host.filter(is_plain),
            ..served
        });
    }
    let inner = wrapped_line(argv).and_then(|line| recognise(&["sh".into(), "-c".into(), line], variable, cwd));
    if inner.as_ref().is_some_and(|served| served.server != Server::Other) {
        return inner;
    }
    plain(argv, variable, cwd).filter(|served| served.server != Server::Other || inner.is_none()).or(inner)
}

/// Returns the server that is named among the words of a command which [`recognise`] does not see through, as
/// `my-wrapper llama-server -m x`. Who listens for it is yet to be seen.
pub fn named(argv: &[String], variable: &dyn Fn(&str) -> Option<String>, cwd: &str) -> Option<Served> {
    let is_known = |words: &Vec<String>| server_of(words, cwd).0 != Server::Other;
    tails(argv).into_iter().find(is_known).and_then(|words| recognise(&words, variable, cwd))
}

/// The variables that the commands of a line have set for those after them.
#[derive(Default)]
struct Before {
    set: Vec<(String, String)>,
    /// A file was read that may have set any.
    is_hidden: bool,
}

impl Before {
    /// Takes the next command: `set` stands before its program.
    fn run(&mut self, set: &[(String, String)], words: &[String]) {
        let (program, rest) = words.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
        let hidden = |name: &String| (name.clone(), HIDDEN.to_owned());
        match program {
            // Whether the next command has them nobody can tell.
            "" => self.set.extend(set.iter().map(|(name, _)| hidden(name))),
            "export" | "declare" | "typeset" => self.set.extend(rest.iter().filter_map(|word| assignment(word))),
            "unset" => self.set.extend(rest.iter().map(|name| (name.clone(), String::new()))),
            // What a virtual environment sets is for Python.
            "." | "source" => self.is_hidden |= rest.first().is_none_or(|file| base(file) != "activate"),
            _ => {}
        }
    }
}

/// Takes off what stands before the program of a simple command: the variables that it sets, and redirections.
fn without_front(words: &[String]) -> (Vec<(String, String)>, &[String]) {
    let (mut set, mut rest) = (Vec::new(), words);
    while let Some(first) = rest.first() {
        let taken = match (assignment(first), redirection(first)) {
            (Some(pair), _) => {
                set.push(pair);
                1
            }
            (None, Some(true)) => 2.min(rest.len()),
            (None, Some(false)) => 1,
            (None, None) => break,
        };
        rest = &rest[taken..];
    }
    (set, rest)
}

/// Reads a command that no shell reads.
fn plain(argv: &[String], variable: &dyn Fn(&str) -> Option<String>, cwd: &str) -> Option<Served> {
    let (server, words) = server_of(argv, cwd);
    // As of `env A=1 llama-server`.
    let before = &argv[..argv.len() - words.len()];
    let variable = |name: &str| {
        let own = before.iter().rev().filter_map(|word| assignment(word)).find(|(known, _)| known == name);
        own.map_or_else(|| variable(name), |(_, value)| Some(value))
    };
    let port = Port::read(server, words, &variable);
    if server == Server::Other && !matches!(port, Port::Named(_)) {
        return None;
    }
    let host = flag(words, &["--host", "--hostname", "--server-name", "--listen"]);
    let host = host.filter(|host| !host.starts_with('-')).map(str::to_owned);
    let variable_of_host = || {
        if server == Server::Ollama {
            return host_of(&variable("OLLAMA_HOST")?);
        }
        variable("LLAMA_ARG_HOST").filter(|host| server == Server::LlamaServer && !host.is_empty())
    };
    let host = host.or_else(variable_of_host);
    // llama-server takes such a host for a socket in the file system.
    let on_socket = server == Server::LlamaServer && host.as_deref().is_some_and(is_socket);
    let named = match server {
        Server::LlamaServer => flag(words, &["-m", "--model"]),
        Server::Vllm => flag(words, &["--model"]).or_else(|| operand(words, "serve")),
        Server::Lmdeploy => operand(words, "api_server"),
        Server::Sglang => flag(words, &["--model-path", "--model"]),
        Server::MlxLm | Server::LlamaCppPython => flag(words, &["--model"]),
        Server::Tgi => flag(words, &["--model-id"]),
        Server::Ollama | Server::ComfyUi | Server::Other => None,
    };
    let model = named.or_else(|| flag(words, &["-hf", "-hfr", "--hf-repo"])).map(str::to_owned);
    let is_path = |model: &String| model.starts_with(['/', '.', '~']);
    let files = matches!(server, Server::LlamaServer | Server::LlamaCppPython) && named.is_some();
    let on = |value: Option<String>| value.is_some_and(|value| matches!(value.as_str(), "1" | "true" | "yes" | "ON"));
    Some(Served {
        server,
        port: if on_socket { Port::Nowhere } else { port },
        host,
        model_is_file: files || model.as_ref().is_some_and(is_path),
        model,
        offline: words.iter().any(|word| word == "--offline")
            || on(variable("HF_HUB_OFFLINE"))
            || on(variable("LLAMA_ARG_OFFLINE")),
    })
}

/// Returns the server and the words from its program on.
pub(super) fn server_of<'a>(argv: &'a [String], cwd: &str) -> (Server, &'a [String]) {
    let wrapped = wraps(argv);
    for (index, word) in argv.iter().enumerate() {
        if index > 0 && !wrapped {
            break;
        }
        let rest = &argv[index + 1..];
        let has = |wanted: &str| rest.iter().any(|word| word == wanted);
        let found = match base(word) {
            "llama-server" | "llama_server" => Some(Server::LlamaServer),
            "vllm" if has("serve") => Some(Server::Vllm),
            "sglang" if has("serve") => Some(Server::Sglang),
            "ollama" if has("serve") || has("start") => Some(Server::Ollama),
            "mlx_lm.server" => Some(Server::MlxLm),
            "mlx_lm" if has("server") => Some(Server::MlxLm),
            "lmdeploy" if has("api_server") => Some(Server::Lmdeploy),
            "text-generation-launcher" => Some(Server::Tgi),
            "comfy" if has("launch") => Some(Server::ComfyUi),
            python if python.starts_with("python") => python_server(rest, cwd),
            _ => None,
        };
        if let Some(server) = found {
            return (server, &argv[index..]);
        }
    }
    (Server::Other, argv)
}

fn python_server(rest: &[String], cwd: &str) -> Option<Server> {
    if let Some(module) = rest.iter().skip_while(|word| *word != "-m").nth(1) {
        return match module.as_str() {
            "sglang.launch_server" => Some(Server::Sglang),
            "mlx_lm.server" | "mlx_lm" => Some(Server::MlxLm),
            "llama_cpp.server" => Some(Server::LlamaCppPython),
            module if module.starts_with("vllm.entrypoints") => Some(Server::Vllm),
            module if module.starts_with("lmdeploy.serve") => Some(Server::Lmdeploy),
            _ => None,
        };
    }
    let script = rest.iter().find(|word| !word.starts_with('-'))?;
    let place = format!("{cwd}/{script}").to_lowercase();
    (base(script) == "main.py" && place.contains("comfyui")).then_some(Server::ComfyUi)
}

/// Returns the value of the last of some flags: `--flag value` or `--flag=value`.
pub(super) fn flag<'a>(words: &'a [String], names: &[&str]) -> Option<&'a str> {
    let value = |(index, word): (usize, &'a String)| {
        names.iter().find_map(|name| match word.strip_prefix(name)? {
            "" => words.get(index + 1).map(String::as_str),
            rest => rest.strip_prefix('='),
        })
    };
    words.iter().enumerate().filter_map(value).next_back()
}

/// Returns the first word after a subcommand that is no flag.
fn operand<'a>(words: &'a [String], subcommand: &str) -> Option<&'a str> {
    let next = words.iter().skip_while(|word| *word != subcommand).nth(1)?;
    (!next.starts_with('-')).then_some(next.as_str())
}

/// Returns the host of `8080`, `:8080`, `host:8080`, `[::1]:8080` or `http://host:8080`.
fn host_of(text: &str) -> Option<String> {
    let rest = text.trim().trim_start_matches("http://").trim_end_matches('/');
    let host = match rest.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => host,
        Some(_) | None => rest,
    };
    let is_port = host.bytes().all(|byte| byte.is_ascii_digit());
    (!is_port).then(|| host.to_owned())
}

pub(super) fn assignment(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let is_name = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    is_name.then(|| (name.to_owned(), value.to_owned()))
}

pub(super) fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(line: &str, variables: &[(&str, &str)]) -> Option<Served> {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let plain: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let found = recognise(&plain, &variable, "/work");
        // Typed as a line it is the same.
        let shell = ["sh", "-c", line].map(str::to_owned);
        assert_eq!(recognise(&shell, &variable, "/work"), found, "{line}");
        found
    }

    fn check(line: &str, expected: Option<(Server, Option<u16>)>) {
        let found = served(line, &[]);
        assert_eq!(found.map(|served| (served.server, served.port())), expected, "{line}");
    }

    #[test]
    fn servers_and_their_ports() {
        check("llama-server -m a.gguf", Some((Server::LlamaServer, Some(8080))));
        check("/opt/llama/llama-server -m a.gguf --port 18704", Some((Server::LlamaServer, Some(18_704))));
        check("llama-server --port=18704 -p 12", Some((Server::LlamaServer, Some(18_704))));
        check("llama-server -p 12", Some((Server::LlamaServer, Some(8080))));
        check("vllm serve Qwen/Qwen3-0.6B", Some((Server::Vllm, Some(8000))));
        check("python3 -m vllm.entrypoints.openai.api_server --port 1", Some((Server::Vllm, Some(1))));
        check("sglang serve --model-path x", Some((Server::Sglang, Some(30_000))));
        check("python -m sglang.launch_server --model x --port 2", Some((Server::Sglang, Some(2))));
        check("ollama serve", Some((Server::Ollama, Some(11_434))));
        check("ollama run qwen3", None);
        check("mlx_lm.server --model x", Some((Server::MlxLm, Some(8080))));
        check("python3.11 -m llama_cpp.server --model x", Some((Server::LlamaCppPython, Some(8000))));
        check("lmdeploy serve api_server x --server-port 3", Some((Server::Lmdeploy, Some(3))));
        check("text-generation-launcher --model-id x -p 4", Some((Server::Tgi, Some(4))));
        check("python /opt/ComfyUI/main.py --listen", Some((Server::ComfyUi, Some(8188))));
        check("python main.py", None);
        check("my-server --port 5", Some((Server::Other, Some(5))));
        check("my-server -p 6", Some((Server::Other, Some(6))));
        check("my-server --port zero", None);
        check("bash", None);
        check("grep llama-server log", None);
        check("numactl --cpunodebind 0 llama-server --port 7", Some((Server::LlamaServer, Some(7))));
        check("uv run vllm serve x --port 8", Some((Server::Vllm, Some(8))));
    }

    #[test]
    fn variables_set_ports_too() {
        let check = |line: &str, variables: &[(&str, &str)], port| {
            assert_eq!(served(line, variables).and_then(|s| s.port()), port);
        };
        check("ollama serve", &[("OLLAMA_HOST", "127.0.0.1:5000")], Some(5000));
        check("ollama serve", &[("OLLAMA_HOST", "[::1]:5001")], Some(5001));
        check("ollama serve", &[("OLLAMA_HOST", "http://0.0.0.0:5002/")], Some(5002));
        check("ollama serve", &[("OLLAMA_HOST", "0.0.0.0")], Some(11_434));
        check("llama-server", &[("LLAMA_ARG_PORT", "5003")], Some(5003));
        check("llama-server --port 1", &[("LLAMA_ARG_PORT", "5003")], Some(1));
        check("vllm serve x", &[("OLLAMA_HOST", ":1")], Some(8000));
    }

    #[test]
    fn hosts_are_read() {
        let check = |line: &str, variables: &[(&str, &str)], host: Option<&str>| {
            assert_eq!(served(line, variables).and_then(|s| s.host).as_deref(), host, "{line}");
        };
        check("llama-server --host 0.0.0.0", &[], Some("0.0.0.0"));
        check("python /opt/ComfyUI/main.py --listen --port 1", &[], None);
        check("ollama serve", &[("OLLAMA_HOST", "http://[::1]:5001/")], Some("[::1]"));
        check("ollama serve", &[("OLLAMA_HOST", "0.0.0.0")], Some("0.0.0.0"));
        check("ollama serve", &[("OLLAMA_HOST", ":5000")], None);
        check("llama-server", &[("OLLAMA_HOST", "0.0.0.0")], None);
    }

    #[test]
    fn lines_are_looked_through() {
        let shell = |line: &str| {
            let argv = ["bash", "-lc", line].map(str::to_owned);
            recognise(&argv, &|_| None, "/").map(|served| (served.server, served.port(), served.model))
        };
        let llama = |port, model: &str| Some((Server::LlamaServer, Some(port), Some(model.to_owned())));
        assert_eq!(shell("cd /m && exec llama-server -m 'a b.gguf' --port 9"), llama(9, "a b.gguf"));
        assert_eq!(shell("A=1 LLAMA_ARG_PORT=10 llama-server -m x >/dev/null 2>&1"), llama(10, "x"));
        assert_eq!(shell("proxy --port 1 & llama-server -m x --port 2"), llama(2, "x"));
        assert_eq!(shell("echo hello"), None);
    }

    #[test]
    fn what_runs_it_is_seen_through() {
        let check = |line: &str| {
            let found = served(line, &[]).map(|served| (served.server, served.port, served.model));
            assert_eq!(found, Some((Server::LlamaServer, Port::Named(9), Some("x".into()))), "{line}");
        };
        for before in [
            "timeout 100",
            "timeout -s KILL -k 5 100",
            "timeout --foreground 1h",
            "flock /tmp/l",
            "flock -w 5 /tmp/l",
            "flock -n /tmp/l numactl -c 0",
            "prlimit --as=9000000000",
            "strace -f -o /tmp/o",
            "ltrace -f",
            "gdb --args",
            "gdb -batch -ex run --args",
            "unshare -r",
            "setpriv --no-new-privs",
            "valgrind --tool=none",
            "perf record -g --",
            "tini -s --",
            "nice -n 5 timeout 9",
            "eval",
            "eval exec",
        ] {
            check(&format!("{before} /opt/llama-server -m x --port 9"));
        }
        // gdb reads a program and its core.
        assert_eq!(served("gdb llama-server core", &[]), None);
    }

    #[test]
    fn lines_of_a_shell_are_seen_through() {
        let found = |argv: &[&str]| {
            let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
            recognise(&argv, &|_| None, "/").map(|served| (served.server, served.port, served.model))
        };
        let expected = Some((Server::LlamaServer, Port::Named(9), Some("x".to_owned())));
        let server = "llama-server -m x --port 9";
        for line in [
            "while true; do S; done",
            "while ! S; do sleep 0.2; done",
            "until S; do sleep 1; done",
            "for i in 1 2 3; do S && break; done",
            "if true; then S; fi",
            "if ! test -e x; then :; else exec S; fi",
            "if false; then :; elif S; then :; fi",
            "! S",
            "S || ! true",
            "( S )",
            "{ S; }",
            "f() { S; }; f",
            "case 1 in 1) S;; esac",
            "if true\nthen\n  S\nfi",
            ">/tmp/o 2>&1 S",
            "</dev/null A=1 >> /tmp/o S",
            "while sleep 1; do timeout 5 bash -c 'S'; done",
            "X=$(date) S",
        ] {
            let line = line.replace('S', server);
            assert_eq!(found(&["bash", "-c", &line]), expected, "{line}");
        }
        for argv in [
            &["timeout", "100", "sh", "-c", server][..],
            &["flock", "/tmp/l", "-c", server],
            &["flock", "-w", "5", "/tmp/l", "--command", server],
            &["su", "-s", "/bin/sh", "-c", server, "llm"],
            &["runuser", "-u", "llm", "--", "llama-server", "-m", "x", "--port", "9"],
            &["script", "-qefc", server, "/tmp/typescript"],
            &["env", "-S", server],
            &["nohup", "timeout", "5", "bash", "-lc", server],
        ] {
            assert_eq!(found(argv), expected, "{argv:?}");
        }
        let deep: Vec<&str> = std::iter::repeat_n("eval", 50_000).chain([server]).collect();
        assert_eq!(found(&deep), expected);
    }

    #[test]
    fn a_server_that_is_only_named_is_read_so() {
        let check = |line: &str, expected: Option<(Server, Port)>| {
            let variable = |_: &str| None;
            let shell = ["sh", "-c", line].map(str::to_owned);
            let plain: Vec<String> = line.split(' ').map(str::to_owned).collect();
            for argv in [&plain[..], &shell] {
                assert_eq!(recognise(argv, &variable, "/").filter(|served| served.server != Server::Other), None);
                let found = named(argv, &variable, "/").map(|served| (served.server, served.port));
                assert_eq!(found, expected, "{argv:?}");
            }
        };
        check("my-wrapper -p 4 /opt/llama-server -p 3 --port 9", Some((Server::LlamaServer, Port::Named(9))));
        check("my-wrapper -- vllm serve x", Some((Server::Vllm, Port::Usual)));
        check("my-wrapper python3 -m sglang.launch_server", Some((Server::Sglang, Port::Usual)));
        check("echo llama-server", None);
        check("my-server --log llama-server.log --port 5", None);
    }

    #[test]
    fn models_are_files_or_repositories() {
        let check = |line: &str, model: Option<&str>, file, offline| {
            let served = served(line, &[]);
            let found = served.map(|served| (served.model, served.model_is_file, served.offline));
            assert_eq!(found, Some((model.map(str::to_owned), file, offline)), "{line}");
        };
        check("llama-server -m tiny.gguf", Some("tiny.gguf"), true, false);
        check("llama-server -hf org/x --offline", Some("org/x"), false, true);
        check("llama-server", None, false, false);
        check("vllm serve Qwen/Qwen3-0.6B", Some("Qwen/Qwen3-0.6B"), false, false);
        check("vllm serve /models/x", Some("/models/x"), true, false);
        check("sglang serve --model-path=org/x", Some("org/x"), false, false);
    }
}
