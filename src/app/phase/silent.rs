//! What can be told of a failure of which the output says nothing: decisions over what was asked elsewhere. Where an
//! answer may have another reason, nothing is said.

use std::collections::BTreeMap;

use super::beside::Beside;
use super::clue::Cause;
use super::port::is_expanded;
use super::preflight::{Direct, simple_commands, unwrapped};
use super::server::{Served, Server, assignment, base, server_of};
use super::wrapper::is_away;
use crate::app::contract::CommandLine;

/// What was found aside from the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aside {
    /// The program does not know this option.
    Flag(String),
    /// The program wants a number for this option, and got something else.
    Value(String),
    /// The last option has no value, and takes one.
    Open(String),
    /// The program does not know this architecture, which is that of the model, or of this file beside it.
    Architecture(String, Option<Beside>),
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
    moved |= set.iter().any(|(name, value)| name == "PATH" || is_expanded(value)) || is_led_elsewhere(&words);
    let words = if in_shell { without_redirections(words)? } else { words };
    Some(Told { words, set, moved })
}

/// Tells whether what runs the server may do so in another directory, such as `sudo --chdir=/m` or `uv run --directory /m`.
fn is_led_elsewhere(words: &[String]) -> bool {
    const OPTIONS: [&str; 8] = ["-C", "-D", "-i", "--chdir", "--cwd", "--directory", "--login", "--wd"];
    let before = &words[..words.len() - server_of(words, "").1.len()];
    let leads = |word: &String| OPTIONS.iter().any(|option| word.starts_with(option));
    // systemd-run starts units in the directory of the service manager, unless it is told another one.
    before.iter().any(|word| leads(word) || is_away(base(word)))
}

/// Tells whether a server is run in the directory of its session, as far as its command tells.
pub fn stays(command: &CommandLine, server: Server) -> bool {
    const MORE: [&str; 3] = ["export", "mkdir", "unset"];
    let (all, in_shell) = simple_commands(command);
    for words in all {
        let only_sets = words.iter().all(|word| assignment(word).is_some() || redirection(word).is_some());
        let Some(direct) = unwrapped(words, in_shell) else {
            if only_sets {
                continue;
            }
            return false;
        };
        if server_of(&direct.words, "").0 == server {
            return !is_led_elsewhere(&direct.words);
        }
        let program = direct.words.first().map_or("", |word| base(word));
        if !HARMLESS.contains(&program) && !MORE.contains(&program) && redirection(program).is_none() {
            return false;
        }
    }
    false
}

/// Takes out what a shell does not hand on; `None` where it puts something in the place of a word.
fn without_redirections(words: Vec<String>) -> Option<Vec<String>> {
    let mut kept = Vec::new();
    let mut rest = words.into_iter().take_while(|word| !word.starts_with('#'));
    while let Some(word) = rest.next() {
        match redirection(&word) {
            Some(true) => drop(rest.next()),
            // What is read from another command, or by one.
            Some(false) if word.contains('(') => return None,
            Some(false) => {}
            None if is_expanded(&word) => return None,
            None => kept.push(word),
        }
    }
    Some(kept)
}

/// Tells whether a word redirects something, and if so, whether the next word says where to.
pub(super) fn redirection(word: &str) -> Option<bool> {
    let rest = word.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.starts_with(['<', '>']).then(|| rest.trim_start_matches(['<', '>', '&', '|']).is_empty())
}

/// What the help of a program says of the options that it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Options {
    /// It takes all of them.
    Taken,
    /// It does not know this one.
    Unknown(String),
    /// It wants a number for this one, and got something else.
    NoNumber(String),
    /// This one is the last word, and takes a value.
    Open(String),
    /// Nobody can tell.
    Unclear,
}

/// Compares the options in `words` with those that a program lists in its `help`, which is that of llama.cpp. Nothing is
/// said where it cannot be told what is an option and what the value of one.
pub fn judge_options(words: &[String], help: &str) -> Options {
    let known = options(help);
    // No help of llama-server is without it.
    if !known.contains_key("--ctx-size") {
        return Options::Unclear;
    }
    let mut judged = Options::Taken;
    let mut rest = words.iter().skip(1);
    while let Some(word) = rest.next() {
        // It takes an underscore for a dash.
        let spelled = if word.starts_with("--") { word.replace('_', "-") } else { word.clone() };
        let Some(values) = known.get(spelled.as_str()) else {
            let is_option = word.starts_with('-') && word.len() > 1 && word.parse::<f64>().is_err();
            return if is_option { Options::Unknown(word.clone()) } else { Options::Unclear };
        };
        let given: Vec<&String> = rest.by_ref().take(values.count()).collect();
        if given.len() < values.count() {
            // What may be wrong before it is complained of first.
            return if judged == Options::Taken { Options::Open(word.clone()) } else { Options::Unclear };
        }
        match values {
            // The first one that is wrong is complained of.
            Values::Number if !is_number(given[0]) => return Options::NoNumber(word.clone()),
            Values::OneOf(all) if !all.contains(&given[0].as_str()) => judged = Options::Unclear,
            Values::None | Values::Number | Values::OneOf(_) | Values::Words(_) => {}
        }
    }
    judged
}

/// Tells whether stoi(3) or stof(3) of C++ would find a number at the beginning of a word.
fn is_number(word: &str) -> bool {
    let rest = word.trim_start().trim_start_matches(['-', '+']);
    let rest = rest.strip_prefix('.').unwrap_or(rest).to_ascii_lowercase();
    rest.starts_with(|c: char| c.is_ascii_digit()) || rest.starts_with("inf") || rest.starts_with("nan")
}

/// The values that an option takes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Values<'a> {
    None,
    Number,
    OneOf(Vec<&'a str>),
    Words(usize),
}

impl Values<'_> {
    const fn count(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Number | Self::OneOf(_) => 1,
            Self::Words(count) => *count,
        }
    }
}

/// Returns the options that are listed, each with its values. A line is `-c,  --ctx-size N   about it`.
fn options(help: &str) -> BTreeMap<&str, Values<'_>> {
    let mut all = BTreeMap::new();
    let mut lines = help.lines().peekable();
    while let Some(line) = lines.next() {
        if !line.starts_with('-') {
            continue;
        }
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
        let (hint, mut about) = rest.split_once("  ").unwrap_or((rest, ""));
        // A number of which something is said in words, such as 'auto', may be one of those.
        let mut has_words = false;
        loop {
            has_words |= about.contains(['\'', '"']);
            let Some(more) = lines.next_if(|line| line.starts_with(' ')) else { break };
            about = more;
        }
        let is_name = |word: &str| word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
        let values = match hint.trim_end().split(' ').collect::<Vec<_>>().as_slice() {
            [""] => Values::None,
            ["N"] if !has_words => Values::Number,
            [one, two] if is_name(one) && is_name(two) => Values::Words(2),
            [one] => choices(one).filter(|_| !has_words).map_or(Values::Words(1), Values::OneOf),
            _ => Values::Words(1),
        };
        all.extend(names.into_iter().map(|name| (name, values.clone())));
    }
    all
}

/// Returns the words of `[on|off|auto]`, `{none,layer}` or `<0|1>`.
fn choices(hint: &str) -> Option<Vec<&str>> {
    let inner = [('[', ']'), ('{', '}'), ('<', '>')]
        .iter()
        .find_map(|(begin, end)| hint.strip_prefix(*begin)?.strip_suffix(*end))?;
    let all: Vec<&str> = inner.split(['|', ',']).collect();
    let plain = |word: &&str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric());
    (all.len() > 1 && all.iter().all(plain)).then_some(all)
}

/// What is known of a run that has failed in silence.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// How long it took, in seconds; a second less is possible.
    pub seconds: f64,
    /// It printed something.
    pub printed: bool,
    /// What it printed is what a server says that starts.
    pub began: bool,
}

/// An interpreter that lacks a module, or an option that it does not take, ends sooner than that, in seconds.
const BEGUN_S: f64 = 3.0;

/// Tells whether a run came as far as asking a hub. `options` is what the program says of them, where it was asked.
pub fn came_to_the_hub(server: Server, run: &Run, options: &Options) -> bool {
    if server == Server::LlamaServer {
        return *options == Options::Taken;
    }
    // What it printed and nobody understands may be the reason.
    if run.printed { run.began } else { run.seconds >= BEGUN_S }
}

/// Returns the limit of an address space where it may have been too small for a model of so many bytes.
pub fn tight(limit: u64, model_bytes: u64) -> Option<Aside> {
    const ROOM: u64 = 2 << 30;
    (limit < model_bytes.saturating_mul(4).max(ROOM)).then_some(Aside::AddressSpace(limit))
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
--cpu-strict <0|1>                      use strict CPU placement (default: 0)
-fa,   --flash-attn [on|off|auto]       set Flash Attention use
-ngl,  --gpu-layers, --n-gpu-layers N   max. number of layers to store in VRAM,
                                        either an exact number, 'auto', or 'all'
--grammar GRAMMAR                       BNF-like grammar (default: '')
";

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_first_option_that_help_does_not_list() {
        let check = |line: &str, expected: Option<&str>| {
            let words = words(&format!("llama-server {line}"));
            let unknown = match judge_options(&words, HELP) {
                Options::Unknown(option) => Some(option),
                Options::Taken | Options::NoNumber(_) | Options::Open(_) | Options::Unclear => None,
            };
            assert_eq!(unknown.as_deref(), expected, "{line}");
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
        for help in ["usage: llama-server [options]", ""] {
            assert_eq!(judge_options(&words("llama-server --bogus"), help), Options::Unclear);
        }
    }

    #[test]
    fn values_are_judged_where_help_says_what_they_are() {
        let check = |line: &str, expected: Options| {
            assert_eq!(judge_options(&words(&format!("llama-server {line}")), HELP), expected, "{line}");
        };
        for number in ["5", "-1", "+2", "5k", "1.5", ".5", "inf"] {
            check(&format!("-c {number} --port 7 -m x"), Options::Taken);
        }
        for word in ["abc", "", "-", "--mlock", "$N"] {
            check(&format!("--mlock --ctx_size {word} --bogus"), Options::NoNumber("--ctx_size".into()));
        }
        check("-m abc --grammar abc", Options::Taken);
        check("-ngl auto -c 5", Options::Taken);
        check("-fa on --cpu-strict 1", Options::Taken);
        check("-fa maybe", Options::Unclear);
        check("-fa maybe --bogus", Options::Unknown("--bogus".into()));
        check("--port 7 -c", Options::Open("-c".into()));
        check("--port 7 --control-vector-layer-range 3", Options::Open("--control-vector-layer-range".into()));
        check("-fa maybe -c", Options::Unclear);
        check("-c abc -m", Options::NoNumber("-c".into()));
        check("--mlock 3", Options::Unclear);
    }

    #[test]
    fn a_hub_is_asked_for_who_came_that_far() {
        let check = |server, seconds, printed, began, expected| {
            let run = Run { seconds, printed, began };
            assert_eq!(came_to_the_hub(server, &run, &Options::Unclear), expected, "{server:?} {run:?}");
        };
        for server in [Server::Vllm, Server::Sglang, Server::MlxLm, Server::Lmdeploy, Server::Tgi] {
            check(server, 0.1, false, false, false);
            check(server, 2.0, false, false, false);
            check(server, 3.0, false, false, true);
            check(server, 30.0, true, false, false);
            check(server, 1.0, true, true, true);
        }
        check(Server::LlamaServer, 30.0, true, true, false);
        let run = Run { seconds: 0.0, printed: false, began: false };
        assert!(came_to_the_hub(Server::LlamaServer, &run, &Options::Taken));
        assert!(!came_to_the_hub(Server::LlamaServer, &run, &Options::NoNumber("-c".into())));
    }

    #[test]
    fn a_limit_that_is_far_away_says_nothing() {
        let mib = 1 << 20;
        assert_eq!(tight(683 * mib, mib / 2), Some(Aside::AddressSpace(683 * mib)));
        assert_eq!(tight(100_000_000 << 10, mib / 2), None);
        assert_eq!(tight(2048 * mib, mib / 2), None);
        assert_eq!(tight(4096 * mib, 1025 * mib), Some(Aside::AddressSpace(4096 * mib)));
        assert_eq!(tight(4096 * mib, 1024 * mib), None);
        assert_eq!(tight(u64::MAX, u64::MAX), None);
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
        check("pushd /m; exec llama-server -m x --port 8", Some((plain, true)));
        let led = "sudo --chdir=/m llama-server -m x";
        check(led, Some((led, true)));
        let led = "uv run --directory /m llama-server -m x";
        check(led, Some((led, true)));
        let kept = "nice -n 5 llama-server -C 3 -m x";
        check(kept, Some((kept, false)));
        check("env -C /m llama-server -m x", None);
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
    fn a_server_runs_in_the_directory_of_its_session_or_somewhere() {
        let check = |line: &str, expected| {
            assert_eq!(stays(&CommandLine::Line(line.into()), Server::LlamaServer), expected, "{line}");
        };
        let plain = "llama-server -m x";
        for before in ["", "exec ", "A=1 ", "A=1; ", "export A=$B; ", "mkdir -p logs && ", "nice -n 5 ", "2>&1 >x; "] {
            check(&format!("{before}{plain} --port $PORT >/dev/null 2>&1; cd /m"), true);
        }
        for before in [
            "cd /m; exec ",
            "cd /m && ",
            "pushd /m; ",
            "A=1 cd /m; ",
            "env -C /m ",
            "nice env --chdir=/m ",
            "sudo -D /m ",
            "uv run --directory /m ",
            "systemd-run --scope ",
            ". ./settings; ",
            "(cd /m; ls); ",
        ] {
            check(&format!("{before}{plain}"), false);
        }
        check("vllm serve x", false);
        let shell = ["sh", "-c", "cd /m; exec llama-server -m x"].map(str::to_owned).to_vec();
        assert!(!stays(&CommandLine::Argv(shell), Server::LlamaServer));
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
