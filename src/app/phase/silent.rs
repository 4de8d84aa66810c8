//! What can be told of a failure of which the output says nothing: decisions over what was asked elsewhere. Where an
//! answer may have another reason, nothing is said.

use std::collections::BTreeMap;

use super::clue::Cause;
use super::preflight::{Direct, simple_commands, unwrapped};
use super::server::{Served, Server, base, server_of};
use crate::app::contract::CommandLine;

/// What was found aside from the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aside {
    /// The program does not know this option.
    Flag(String),
    /// The program does not know this architecture, which is that of the model.
    Architecture(String),
    /// What the hub answers, or that nothing is there without it.
    Hub(Cause),
    /// Its address space was limited to so many bytes.
    AddressSpace(u64),
}

/// The command of a server, as far as it is plain to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Variables that the command itself sets.
    pub set: Vec<(String, String)>,
    /// Something runs before it that may have changed its directory or its environment.
    pub moved: bool,
}

/// Commands of a shell that change nothing by which a program is found, or by which a hub is.
pub(super) const HARMLESS: [&str; 7] = [":", "echo", "set", "sleep", "true", "ulimit", "umask"];

/// Finds the command of a server in a command line; `None` where there are several, or a shell decides what is in it.
pub fn told(command: &CommandLine, server: Server) -> Option<Told> {
    let (all, in_shell) = simple_commands(command);
    let (mut found, mut moved) = (Vec::new(), false);
    for words in all {
        let first = words.first().map_or("", String::as_str);
        let changes = !HARMLESS.contains(&base(first)) && redirection(first).is_none();
        match unwrapped(words, in_shell).filter(|direct| server_of(&direct.words, "").0 == server) {
            Some(direct) => found.push(direct),
            None => moved |= changes,
        }
    }
    let [Direct { words, set }] = <[Direct; 1]>::try_from(found).ok()?;
    moved |= set.iter().any(|(name, value)| name == "PATH" || is_expanded(value));
    let words = if in_shell { without_redirections(words)? } else { words };
    Some(Told { words, set, moved })
}

/// Takes out what a shell does not hand on; `None` where it puts something in the place of a word.
fn without_redirections(words: Vec<String>) -> Option<Vec<String>> {
    let mut kept = Vec::new();
    let mut rest = words.into_iter().take_while(|word| !word.starts_with('#'));
    while let Some(word) = rest.next() {
        match redirection(&word) {
            Some(true) => drop(rest.next()),
            Some(false) => {}
            None if is_expanded(&word) => return None,
            None => kept.push(word),
        }
    }
    Some(kept)
}

fn is_expanded(word: &str) -> bool {
    word.contains(['$', '`'])
}

/// Tells whether a word redirects something, and if so, whether the next word says where to.
fn redirection(word: &str) -> Option<bool> {
    let rest = word.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.starts_with(['<', '>']).then(|| rest.trim_start_matches(['<', '>', '&', '|']).is_empty())
}

/// Returns the first option of `words` that a program does not list in its `help`, which is that of llama.cpp. Nothing
/// where it cannot be told what is an option and what the value of one.
pub fn unknown_option(words: &[String], help: &str) -> Option<String> {
    let known = options(help);
    // No help of llama-server is without it.
    known.get("--ctx-size")?;
    let mut rest = words.iter().skip(1);
    while let Some(word) = rest.next() {
        // It takes an underscore for a dash.
        let spelled = if word.starts_with("--") { word.replace('_', "-") } else { word.clone() };
        let Some(values) = known.get(spelled.as_str()) else {
            let is_option = word.starts_with('-') && word.len() > 1 && word.parse::<f64>().is_err();
            return is_option.then(|| word.clone());
        };
        rest.by_ref().take(*values).for_each(drop);
    }
    None
}

/// Returns the options that are listed, each with how many values it takes. A line is `-c,  --ctx-size N   about it`.
fn options(help: &str) -> BTreeMap<&str, usize> {
    let mut all = BTreeMap::new();
    for line in help.lines().filter(|line| line.starts_with('-')) {
        // After two blanks comes what is said of it, unless another name of it has just ended.
        let (mut names, mut rest) = (Vec::new(), line);
        loop {
            let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
            let name = word.trim_end_matches(',');
            let is_name = name.trim_start_matches('-').starts_with(|c: char| c.is_ascii_alphabetic());
            if !name.starts_with('-') || !is_name {
                break;
            }
            names.push(name);
            rest = if word.ends_with(',') { after.trim_start() } else { after };
            if !word.ends_with(',') {
                break;
            }
        }
        let hint = rest.split("  ").next().unwrap_or_default().trim_end();
        let is_name = |word: &str| word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
        let values = match hint.split(' ').collect::<Vec<_>>().as_slice() {
            [""] => 0,
            [one, two] if is_name(one) && is_name(two) => 2,
            _ => 1,
        };
        all.extend(names.into_iter().map(|name| (name, values)));
    }
    all
}

/// Returns the repository that a server fetches its model from, where that is what it was told.
pub fn repository(served: &Served) -> Option<&str> {
    let model = served.model.as_deref().filter(|_| !served.model_is_file)?;
    let repo = match served.server {
        Server::LlamaServer => model.split(':').next()?,
        Server::Vllm | Server::Sglang | Server::MlxLm | Server::Lmdeploy | Server::Tgi => model,
        Server::Ollama | Server::LlamaCppPython | Server::ComfyUi | Server::Other => return None,
    };
    let (owner, name) = repo.split_once('/')?;
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    };
    (is_part(owner) && is_part(name)).then_some(repo)
}

/// Returns where a hub is asked for a repository, the way that the server does it.
pub fn questions(server: Server, endpoint: &str, repo: &str) -> Vec<String> {
    let endpoint = endpoint.trim_end_matches('/');
    let is_plain = endpoint.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b'\\'));
    if !is_plain || !(endpoint.starts_with("http://") || endpoint.starts_with("https://")) {
        return Vec::new();
    }
    if server == Server::LlamaServer {
        return vec![format!("{endpoint}/api/models/{repo}/refs")];
    }
    // What a repository is about is shown to everybody; its files are not.
    vec![format!("{endpoint}/api/models/{repo}"), format!("{endpoint}/{repo}/resolve/main/config.json")]
}

/// What curl(1) found out.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// Its exit status.
    pub exit: i32,
    /// The headers of all answers, and in the last line how many connections were made.
    pub printed: &'a str,
    /// The server had a token that is not at hand.
    pub lacks_token: bool,
}

/// Returns why a server could not fetch from a hub that answers so.
pub fn hub_cause(url: &str, answer: &Answer<'_>) -> Option<Cause> {
    let connected = answer.printed.lines().last().is_none_or(|count| count.trim() != "0");
    match answer.exit {
        0 => {}
        // No such host, nobody there (curl(1), EXIT CODES).
        6 | 7 => return Some(Cause::Offline),
        28 if !connected => return Some(Cause::Offline),
        _ => return None,
    }
    // An answer that leads elsewhere is followed.
    let lines: Vec<&str> = answer.printed.lines().collect();
    let last = lines.iter().rposition(|line| line.starts_with("HTTP/"))?;
    let mut lines = lines[last..].iter();
    let status: u16 = lines.next()?.split_whitespace().nth(1)?.parse().ok()?;
    let code = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("x-error-code").then(|| value.trim())
    });
    let of_file = url.contains("/resolve/");
    let cause = match (code, status) {
        (Some("RepoNotFound"), 400..) => Cause::MissingRepo,
        (Some("GatedRepo"), 400..) => Cause::Gated,
        (None, 401 | 403) if !of_file => Cause::Gated,
        (None, 404) if !of_file => Cause::MissingRepo,
        (Some(_) | None, _) => return None,
    };
    // With the token the answer may have been another one.
    (!answer.lacks_token || status == 404).then_some(cause)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::server::recognise;
    use super::*;

    const HELP: &str = "\
----- common params -----

-h,    --help, --usage                  print usage and exit
-c,    --ctx-size N                     size of the prompt context (default: 0, 0 = loaded from model)
                                        (env: LLAMA_ARG_CTX_SIZE)
-m,    --model FNAME                    model path to load
-kvo,  --kv-offload, -nkvo, --no-kv-offload
                                        whether to enable KV cache offloading (default: enabled)
-ot,   --override-tensor <tensor name pattern>=<buffer type>,...
--control-vector-layer-range START END
                                        layer range, start and end inclusive
--mlock                                 DEPRECATED in favor of `--load-mode`: force system to keep model in
--port PORT                             port to listen (default: 8080)
--grammar GRAMMAR                       BNF-like grammar (default: '')
";

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_first_option_that_help_does_not_list() {
        let check = |line: &str, expected: Option<&str>| {
            let words = words(&format!("llama-server {line}"));
            assert_eq!(unknown_option(&words, HELP).as_deref(), expected, "{line}");
        };
        check("-m x -c 5 --bogus 3 --other", Some("--bogus"));
        check("-m x -c 5 --mlock -nkvo --usage", None);
        check("--ctx_size 5 --port 7", None);
        check("--port=7", Some("--port=7"));
        check("-m x --Mlock", Some("--Mlock"));
        // Values may look like options.
        check("-c -1 --grammar --bogus -ot a=--b --control-vector-layer-range -3 --x -m y", None);
        check("-c 1 -2 --bogus", None);
        // Nobody knows what is the value of what.
        check("--mlock 3 --bogus", None);
        check("-m x - --bogus", None);
        assert_eq!(unknown_option(&words("llama-server --bogus"), "usage: llama-server [options]"), None);
        assert_eq!(unknown_option(&words("llama-server --bogus"), ""), None);
    }

    #[test]
    fn what_is_run_is_found_in_its_line() {
        let check = |line: &str, expected: Option<(&str, bool)>| {
            let found = told(&CommandLine::Line(line.into()), Server::LlamaServer);
            let expected = expected.map(|(line, moved)| (words(line), moved));
            assert_eq!(found.map(|told| (told.words, told.moved)), expected, "{line}");
        };
        let plain = "llama-server -m x --port 8";
        check(plain, Some((plain, false)));
        check("exec llama-server -m x --port 8 >/dev/null 2>&1", Some((plain, false)));
        check("ulimit -v 700; exec llama-server -m x --port 8 2> log", Some((plain, false)));
        check("nohup llama-server -m x --port 8 &>/dev/null &", Some((plain, false)));
        check("llama-server -m x --port 8 # --bogus", Some((plain, false)));
        check("cd /m && llama-server -m x --port 8", Some((plain, true)));
        check("export HF_HOME=/x; llama-server -m x --port 8", Some((plain, true)));
        check("PATH=/x llama-server -m x --port 8", Some((plain, true)));
        check("A=$B llama-server -m x --port 8", Some((plain, true)));
        check("llama-server -m $MODEL --port 8", None);
        check("llama-server $(cat options)", None);
        check("llama-server -m x; llama-server -m y", None);
        check("vllm serve x", None);
        let argv = ["llama-server", "-m", "a$b", ">c"].map(str::to_owned).to_vec();
        assert_eq!(told(&CommandLine::Argv(argv.clone()), Server::LlamaServer).unwrap().words, argv);
        let shell = ["sh", "-c", "exec llama-server -m x --port 8 >/dev/null"].map(str::to_owned).to_vec();
        assert_eq!(told(&CommandLine::Argv(shell), Server::LlamaServer).unwrap().words, words(plain));
    }

    #[test]
    fn a_repository_is_what_looks_like_one() {
        let check = |line: &str, expected: Option<&str>| {
            let served = recognise(&words(line), &|_| None, "/").unwrap();
            assert_eq!(repository(&served), expected, "{line}");
        };
        check("llama-server -hf org/x-GGUF:Q4_K_M", Some("org/x-GGUF"));
        check("llama-server -m org/x", None);
        check("llama-server -hf ../x", None);
        check("vllm serve Org/Model_1.5", Some("Org/Model_1.5"));
        check("vllm serve ./org/x", None);
        check("vllm serve org/x/y", None);
        check("vllm serve org/x?y", None);
        check("ollama serve", None);
    }

    #[test]
    fn hubs_are_asked_the_way_the_server_does_it() {
        let llama = questions(Server::LlamaServer, "http://h:1/", "org/x");
        assert_eq!(llama, ["http://h:1/api/models/org/x/refs"]);
        assert_eq!(questions(Server::Vllm, "https://h", "org/x").len(), 2);
        for strange in ["file:///etc", "http://h\"\nurl = \"x", "-x", ""] {
            assert!(questions(Server::Vllm, strange, "org/x").is_empty(), "{strange}");
        }
    }

    #[test]
    fn what_a_hub_answers_is_a_cause_or_not() {
        let check = |exit, printed: &str, lacks_token, file, expected| {
            let url = if file { "http://h/org/x/resolve/main/config.json" } else { "http://h/api/models/org/x" };
            assert_eq!(hub_cause(url, &Answer { exit, printed, lacks_token }), expected, "{exit} {printed:?}");
        };
        let api = |printed: &str, expected| check(0, &format!("{printed}\r\n\r\n1"), false, false, expected);
        api("HTTP/1.1 200 OK", None);
        api("HTTP/1.1 401 Unauthorized\r\nServer: BaseHTTP/0.6\r\nX-Error-Code: GatedRepo", Some(Cause::Gated));
        api("HTTP/1.1 401 Unauthorized", Some(Cause::Gated));
        api("HTTP/2 403", Some(Cause::Gated));
        api("HTTP/2 404", Some(Cause::MissingRepo));
        api("HTTP/2 401\r\nX-Error-Code: RepoNotFound", Some(Cause::MissingRepo));
        api("HTTP/2 404\r\nx-error-code: RevisionNotFound", None);
        api("HTTP/2 307\r\nlocation: /y\r\n\r\nHTTP/2 200", None);
        api("HTTP/1.1 429", None);
        api("HTTP/1.1 503", None);
        let file = |printed: &str, expected| check(0, printed, false, true, expected);
        file("HTTP/2 403\r\nx-error-code: GatedRepo", Some(Cause::Gated));
        file("HTTP/2 404\r\nx-error-code: EntryNotFound", None);
        file("HTTP/2 404", None);
        // The server had a token.
        check(0, "HTTP/2 401", true, false, None);
        check(0, "HTTP/2 404", true, false, Some(Cause::MissingRepo));
        for exit in [6, 7] {
            check(exit, "0", false, false, Some(Cause::Offline));
        }
        check(28, "\n0", false, false, Some(Cause::Offline));
        check(28, "HTTP/2 200\n1", false, false, None);
        check(60, "0", false, false, None);
        check(0, "", false, false, None);
    }
}
