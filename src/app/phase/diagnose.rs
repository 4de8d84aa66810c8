//! Why a server failed: the first cause, not the last line.
//!
//! The log comes first where it says something. Where it was lost or sent elsewhere, the exit status, the
//! holder of the port and the model file still speak, and what was asked aside: the program for its options and
//! architectures, the hub for the model, the kernel for a limit of memory.

use super::beside::{Beside, Part, fault};
use super::clue::Cause;
use super::detect::Found;
use super::gguf::Fault;
use super::preflight::{simple_commands, told_to_run};
use super::server::{Served, Server};
use super::silent::Aside;
use super::socket::Socket;
use super::suggest::{Suggestion, with_option, with_output, without_option};
use super::words::commands;
use crate::app::contract::CommandLine;
use crate::text;

/// Everything that is known about a failed session.
#[derive(Clone, Debug)]
pub struct Evidence<'a> {
    /// The command, unmasked.
    pub command: &'a CommandLine,
    /// What it serves, where that is known.
    pub served: Option<&'a Served>,
    /// Exit status of the workload.
    pub code: Option<i32>,
    /// Name of the signal that ended it, without `SIG`.
    pub signal: Option<&'a str>,
    /// The first cause in its output.
    pub found: Option<&'a Found>,
    /// The line of an error in its output that nobody here understands.
    pub complaint: Option<&'a str>,
    /// It was seen listening on its port.
    pub listened: bool,
    /// Who listens on its port now: on the one that its output names, else on the one that it was told.
    pub holder: Holder,
    /// What is where its socket in the file system is to be.
    pub socket: Socket,
    /// A port that nobody listens on.
    pub free_port: Option<u16>,
    /// Its model file, as far as it has not loaded it.
    pub file: File,
    /// The files that it was given beside its model.
    pub beside: Vec<(Beside, File)>,
    /// What was found aside: it counts only where all of that says nothing.
    pub aside: Option<Aside>,
}

impl Evidence<'_> {
    /// Returns what is wrong with the first file beside a model that is not at fault itself; with the one of this name,
    /// where the output names one.
    fn fault_beside(&self, named: Option<&str>) -> Option<(Cause, String, Suggestion)> {
        let blameless = matches!(self.file, File::Whole(_) | File::Unknown);
        let mut meant =
            self.beside.iter().filter(|(beside, _)| blameless && named.is_none_or(|name| name == beside.name));
        meant.find_map(|(beside, file)| fault(self.command, beside, file))
    }

    /// Returns the draft model that is of this architecture, where the model is of another one.
    fn draft_of(&self, architecture: Option<&str>) -> Option<&Beside> {
        if let Some(Aside::Architecture(_, beside)) = &self.aside {
            return beside.as_ref();
        }
        let of_it = |file: &File| matches!(file, File::Whole(Some(name)) if Some(name.as_str()) == architecture);
        let mut drafts = self.beside.iter().filter(|(beside, file)| beside.part == Part::Draft && of_it(file));
        drafts.next().filter(|_| !of_it(&self.file)).map(|(beside, _)| beside)
    }
}

/// Who listens on a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Holder {
    /// Nobody has looked, or no port is known.
    #[default]
    Unknown,
    /// Nobody.
    Nobody,
    /// A process of the session itself, now or when it failed.
    Own,
    /// A process of somebody else, in words.
    Other(String),
}

/// What a model file is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum File {
    /// Nobody has looked, or it is no file.
    #[default]
    Unknown,
    /// It is not there; a file beside it whose name is near.
    Missing(Option<String>),
    /// It cannot be read, and why.
    Unreadable(String),
    /// It is no whole model.
    Faulty(Fault),
    /// It is whole, and of this architecture.
    Whole(Option<String>),
}

/// Why a server failed, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// What kind of failure.
    pub cause: Cause,
    /// In words.
    pub detail: String,
    /// What to do about it.
    pub suggestion: Option<Suggestion>,
}

/// Returns why a session failed; `None` where nothing is known but how it ended.
pub fn diagnose(evidence: &Evidence<'_>) -> Option<Diagnosis> {
    let said = evidence.found.filter(|found| !found.cause.is_vague());
    // The two statuses of a shell, or of a wrapper, whose program could not be run (POSIX, env(1)).
    if let Some(126 | 127) = evidence.code {
        return Some(of_cause(evidence, Cause::MissingCommand, said.filter(|s| s.cause == Cause::MissingCommand)));
    }
    if evidence.signal == Some("ILL") || evidence.code == Some(128 + 4) {
        return Some(of_cause(evidence, Cause::CpuTooOld, None));
    }
    if let Some(found) = said {
        return Some(of_cause(evidence, found.cause, Some(found)));
    }
    if evidence.signal == Some("KILL") || evidence.code == Some(128 + 9) {
        return Some(of_cause(evidence, Cause::Killed, None));
    }
    // Whoever has listened has found its port free.
    if matches!(evidence.holder, Holder::Other(_)) && !evidence.listened {
        return Some(of_cause(evidence, Cause::PortInUse, None));
    }
    if evidence.socket.is_in_the_way() && !evidence.listened {
        return Some(of_cause(evidence, Cause::Socket, None));
    }
    // A line about the loading of the model is no other reason than its file.
    let of_loading = |found: &Found| found.why.as_deref().is_some_and(|why| why.contains("loading"));
    if let Some(vague) = evidence.found.filter(|found| !of_loading(found)) {
        return Some(of_cause(evidence, vague.cause, Some(vague)));
    }
    match &evidence.file {
        File::Missing(_) => return Some(of_cause(evidence, Cause::MissingFile, None)),
        File::Unreadable(_) | File::Faulty(_) => return Some(of_cause(evidence, Cause::BadFile, None)),
        File::Unknown | File::Whole(_) => {}
    }
    if let Some((cause, ..)) = evidence.fault_beside(None) {
        return Some(of_cause(evidence, cause, None));
    }
    if let Some(vague) = evidence.found {
        return Some(of_cause(evidence, vague.cause, Some(vague)));
    }
    if let Some(aside) = &evidence.aside {
        return Some(of_aside(evidence, aside));
    }
    let served = evidence.served.filter(|served| served.server != Server::Other)?;
    // argparse(3) of Python ends so, after the usage.
    let python = served.server.package().is_some() || served.server == Server::ComfyUi;
    if evidence.code == Some(2) && python && evidence.complaint.is_none() {
        return Some(of_cause(evidence, Cause::BadFlag, None));
    }
    // Servers end so by themselves; a signal tells its own story.
    evidence.code.filter(|code| *code != 0 && *code < 126)?;
    Some(of_cause(evidence, Cause::Died, None))
}

fn of_aside(evidence: &Evidence<'_>, aside: &Aside) -> Diagnosis {
    let (cause, what) = match aside {
        Aside::Flag(flag) => (Cause::BadFlag, Some(flag.clone())),
        Aside::Value(flag) | Aside::Open(flag) => (Cause::BadValue, Some(flag.clone())),
        Aside::Architecture(name, _) => (Cause::UnknownArchitecture, Some(name.clone())),
        Aside::Hub(cause) => (*cause, None),
        Aside::AddressSpace(_) => (Cause::OutOfMemory, None),
    };
    of_cause(evidence, cause, Some(&Found { cause, what, why: None, line: String::new() }))
}

/// Says what was looked at in vain.
fn nothing_said(evidence: &Evidence<'_>) -> String {
    let mut looked = Vec::new();
    if evidence.listened || evidence.holder == Holder::Nobody {
        looked.push("its port was free".to_owned());
    }
    match &evidence.file {
        File::Whole(Some(architecture)) => {
            looked.push(format!("its model file is whole, of the architecture {architecture:?}"));
        }
        File::Whole(None) => looked.push("its model file is there".to_owned()),
        File::Unknown | File::Missing(_) | File::Unreadable(_) | File::Faulty(_) => {}
    }
    if looked.is_empty() {
        return "its output does not say why".into();
    }
    format!("its output does not say why; {}", looked.join(", and "))
}

fn of_cause(evidence: &Evidence<'_>, cause: Cause, found: Option<&Found>) -> Diagnosis {
    let what = found.and_then(|found| found.what.as_deref());
    let why = found.and_then(|found| found.why.as_deref());
    let (detail, suggestion) = match cause {
        Cause::PortInUse => port_in_use(evidence, what),
        Cause::Socket => {
            let (detail, way_out) = evidence.socket.fault(what.or_else(|| evidence.served?.socket()));
            (detail, Some(way_out))
        }
        Cause::MissingFile => missing_file(evidence, what),
        Cause::BadFile => bad_file(evidence, what, why),
        Cause::UnknownArchitecture => {
            let detail = match evidence.draft_of(what) {
                Some(Beside { name, option, .. }) => {
                    format!("it does not know the architecture{} of the draft model {name:?} of {option}", quoted(what))
                }
                None => format!("it does not know the architecture of the model{}", quoted(what)),
            };
            (detail, Some(Suggestion::words("take a newer version of the server, or another model")))
        }
        Cause::BadFlag => bad_flag(evidence, what),
        Cause::BadValue if matches!(evidence.aside, Some(Aside::Open(_))) => {
            (format!("its last option, {}, has no value", what.unwrap_or_default()), help(evidence))
        }
        Cause::BadValue if what.is_none() => {
            let why = why.unwrap_or_default();
            let detail = match option_with(evidence.command, why) {
                Some(option) => format!("it does not take the value of {option} ({why})"),
                None => format!("it does not take one of its options: {why}"),
            };
            (detail, help(evidence))
        }
        Cause::BadValue => {
            let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
            (format!("it does not take the value of {}{why}", what.unwrap_or("an option")), help(evidence))
        }
        Cause::Gated => {
            let detail = format!("the hub does not let it have{}: log in and accept its terms", named(evidence, what));
            let login = CommandLine::Argv(["hf", "auth", "login"].map(str::to_owned).to_vec());
            (detail, Some(Suggestion::before("log in to the hub, then start it again", login)))
        }
        Cause::MissingRepo => {
            let detail = format!("the hub has no{}, or does not show it without a token", named(evidence, what));
            (detail, Some(Suggestion::words("check the name of the model")))
        }
        Cause::Offline => offline(evidence),
        Cause::OutOfMemory => out_of_memory(evidence, what, why),
        Cause::MissingModule => missing_module(evidence, what),
        Cause::MissingCommand => {
            let what = what.map(str::to_owned).or_else(|| told_to_run(evidence.command));
            let what = what.map_or_else(|| "a command that it runs".into(), |what| format!("the command {what:?}"));
            if evidence.code == Some(126) {
                let detail = format!("{what} may not be executed, or is no program");
                (detail, Some(Suggestion::words("make it executable, or name the program that runs it")))
            } else {
                let install = evidence.served.and_then(|served| served.server.package()).map(pip);
                let suggestion = install.map_or_else(
                    || Suggestion::words("install it, or name it by its whole path"),
                    |command| Suggestion::before("install it", command),
                );
                (format!("{what} was not found"), Some(suggestion))
            }
        }
        Cause::CpuTooOld => (
            "it uses an instruction that this CPU does not have".to_owned(),
            Some(Suggestion::words("take a build for an older CPU, or build it on this computer")),
        ),
        Cause::Killed => {
            let (_, suggestion) = out_of_memory(evidence, None, None);
            (
                "it was killed, and not by us: most often the kernel does that when memory runs out".to_owned(),
                suggestion,
            )
        }
        Cause::Unresolved if evidence.served.is_some_and(|served| served.offline) => offline(evidence),
        Cause::Unresolved => {
            (format!("it found no{}", named(evidence, None)), Some(Suggestion::words("check the name of the model")))
        }
        Cause::Died => {
            let silent = found.is_none() && evidence.complaint.is_none();
            let seen = with_output(evidence.command).filter(|_| silent).map(|command| {
                let text = "its output goes to /dev/null: start it without that to see why";
                Suggestion::with(text, Some(command))
            });
            let says = evidence.complaint.or(why);
            (says.map_or_else(|| nothing_said(evidence), |says| format!("it says: {says}")), seen)
        }
    };
    // Names of files, repositories and programs are not ours, and may hold secrets.
    Diagnosis { cause, detail: text::mask_text(&text::escape(&detail)).into_owned(), suggestion }
}

fn port_in_use(evidence: &Evidence<'_>, what: Option<&str>) -> (String, Option<Suggestion>) {
    let port = what.map(str::to_owned).or_else(|| Some(evidence.served?.port()?.to_string()));
    let port = port.map_or_else(|| "its port".to_owned(), |port| format!("port {port}"));
    let detail = match &evidence.holder {
        Holder::Other(who) => format!("{port} is in use by {who}"),
        Holder::Own => format!("{port} was taken by another process of this session"),
        Holder::Nobody => {
            let detail = format!(
                "it could not listen on {port}, though nobody does now: old connections may be closing, or its host is not this computer's"
            );
            return (detail, Some(Suggestion::words("start it again, or check its host")));
        }
        Holder::Unknown => format!("{port} is in use"),
    };
    let suggestion = evidence.free_port.map(|free| {
        let changed = match evidence.served.map(|served| served.server) {
            Some(Server::Ollama) => Some(ollama_at(evidence.command, free)),
            Some(Server::Lmdeploy) => with_option(evidence.command, &["--server-port"], &free.to_string()),
            Some(Server::LlamaServer) => with_option(evidence.command, &["--port"], &free.to_string()),
            Some(_) | None => with_option(evidence.command, &["--port", "-p"], &free.to_string()),
        };
        Suggestion::with(format!("take another port: {free} is free"), changed)
    });
    (detail, suggestion.or_else(|| Some(Suggestion::words("take another port"))))
}

/// Ollama has no option for its port.
fn ollama_at(command: &CommandLine, port: u16) -> CommandLine {
    let host = format!("OLLAMA_HOST=127.0.0.1:{port}");
    match command {
        CommandLine::Argv(argv) => {
            let plain = argv.iter().filter(|word| *word != "env" && !word.starts_with("OLLAMA_HOST="));
            CommandLine::Argv(["env".to_owned(), host].into_iter().chain(plain.cloned()).collect())
        }
        CommandLine::Line(line) => CommandLine::Line(format!("export {host}; {line}")),
    }
}

fn missing_file(evidence: &Evidence<'_>, what: Option<&str>) -> (String, Option<Suggestion>) {
    if let Some((Cause::MissingFile, detail, way_out)) = evidence.fault_beside(what) {
        return (detail, Some(way_out));
    }
    let model = evidence.served.and_then(|served| served.model.as_deref());
    let detail = format!("its model file{} is not there", quoted(what.or(model)));
    let near = match &evidence.file {
        File::Missing(Some(near)) => Some(near),
        File::Missing(None) | File::Unknown | File::Unreadable(_) | File::Faulty(_) | File::Whole(_) => None,
    };
    let suggestion = near.map(|near| {
        let names: &[&str] = match evidence.served.map(|served| served.server) {
            Some(Server::LlamaServer) => &["-m", "--model"],
            Some(_) | None => &["--model"],
        };
        Suggestion::with(format!("{near:?} is there"), with_option(evidence.command, names, near))
    });
    (detail, suggestion)
}

fn bad_file(evidence: &Evidence<'_>, what: Option<&str>, why: Option<&str>) -> (String, Option<Suggestion>) {
    let model = what.or_else(|| evidence.served?.model.as_deref());
    if let Some((Cause::BadFile, detail, way_out)) = evidence.fault_beside(what) {
        return (detail, Some(way_out));
    }
    let seen = match &evidence.file {
        File::Faulty(fault) => Some(fault.to_string()),
        File::Unreadable(why) => Some(why.clone()),
        File::Unknown | File::Missing(_) | File::Whole(_) => None,
    };
    let why = match (seen, why) {
        (Some(seen), Some(said)) => format!("{seen} ({said})"),
        (Some(seen), None) => seen,
        (None, Some(said)) => said.to_owned(),
        (None, None) => "it cannot be loaded".to_owned(),
    };
    let unreadable = matches!(evidence.file, File::Unreadable(_));
    let way_out = if unreadable { "name a file that can be read" } else { "fetch the model file again" };
    (format!("its model file{} is broken: {why}", quoted(model)), Some(Suggestion::words(way_out)))
}

fn bad_flag(evidence: &Evidence<'_>, what: Option<&str>) -> (String, Option<Suggestion>) {
    let Some(flag) = what else {
        return ("it does not take one of its options (exit status 2)".to_owned(), help(evidence));
    };
    let changed = without_option(evidence.command, flag, true);
    let suggestion = changed.map(|command| Suggestion::with(format!("leave {flag} out"), Some(command)));
    (format!("it does not know the option {flag}"), suggestion)
}

/// Returns the option whose value a complaint ends with.
fn option_with(command: &CommandLine, complaint: &str) -> Option<String> {
    let (all, _) = simple_commands(command);
    let is_it = |pair: &&[String]| {
        pair[0].starts_with('-') && complaint.strip_suffix(pair[1].as_str()).is_some_and(|rest| rest.ends_with(' '))
    };
    all.iter().find_map(|words| words.windows(2).find(is_it)).map(|pair| pair[0].clone())
}

/// What the program says of its options, to be asked before it is started again. What only starts it is not asked.
fn help(evidence: &Evidence<'_>) -> Option<Suggestion> {
    const STARTERS: [&str; 12] =
        [".", "bash", "cd", "dash", "env", "exec", "export", "nohup", "sh", "source", "sudo", "zsh"];
    let words = match evidence.command {
        CommandLine::Argv(argv) => argv.clone(),
        CommandLine::Line(line) => <[Vec<String>; 1]>::try_from(commands(line)).ok()?.into_iter().next()?,
    };
    let program = words.first()?.rsplit('/').next()?;
    if STARTERS.contains(&program) || program.contains('=') {
        return None;
    }
    let count = match words.get(1) {
        Some(option) if option == "-m" && program.starts_with("python") => 3,
        // Another option of Python says nothing of the program; a script is asked itself.
        Some(option) if program.starts_with("python") && option.starts_with('-') => return None,
        Some(_) if program.starts_with("python") => 2,
        Some(word) if word.bytes().all(|byte| byte.is_ascii_lowercase()) => 2,
        Some(_) | None => 1,
    };
    let argv = words.into_iter().take(count).chain(["--help".to_owned()]).collect();
    Some(Suggestion::before("see which options and values it takes", CommandLine::Argv(argv)))
}

fn offline(evidence: &Evidence<'_>) -> (String, Option<Suggestion>) {
    let model = named(evidence, None);
    if evidence.served.is_some_and(|served| served.offline) {
        let suggestion = without_option(evidence.command, "--offline", false);
        let suggestion = suggestion.map(|command| Suggestion::with("let it fetch the model", Some(command)));
        return (format!("it is to stay offline, and has no copy of{model}"), suggestion);
    }
    (format!("it cannot reach the hub to fetch{model}"), Some(Suggestion::words("check the network and HF_ENDPOINT")))
}

fn out_of_memory(evidence: &Evidence<'_>, what: Option<&str>, whose: Option<&str>) -> (String, Option<Suggestion>) {
    let amount = match (&evidence.aside, what) {
        (_, Some(what)) => format!(": {what} more were asked for"),
        (Some(Aside::AddressSpace(bytes)), None) => {
            format!(": its address space was limited to {} MiB (ulimit -v)", bytes >> 20)
        }
        (_, None) => String::new(),
    };
    let whose = whose.map(|whose| format!("{whose} ")).unwrap_or_default();
    let detail = format!("out of {whose}memory{amount}");
    let set =
        |text: &str, names: &[&str], value: &str| Suggestion::with(text, with_option(evidence.command, names, value));
    let suggestion = match evidence.served.map(|served| served.server) {
        Some(Server::LlamaServer) => set("take a smaller context", &["-c", "--ctx-size"], "4096"),
        Some(Server::LlamaCppPython) => set("take a smaller context", &["--n_ctx"], "2048"),
        Some(Server::Vllm) => set("take a smaller context", &["--max-model-len"], "4096"),
        Some(Server::Sglang) => set("leave more memory free", &["--mem-fraction-static"], "0.7"),
        Some(Server::Lmdeploy) => set("leave more memory free", &["--cache-max-entry-count"], "0.4"),
        Some(Server::Ollama | Server::MlxLm | Server::Tgi | Server::ComfyUi | Server::Other) | None => {
            Suggestion::words("take a smaller model, or free some memory")
        }
    };
    (detail, Some(suggestion))
}

fn missing_module(evidence: &Evidence<'_>, what: Option<&str>) -> (String, Option<Suggestion>) {
    let module = what.unwrap_or_default();
    let top = module.split('.').next().unwrap_or_default();
    let own = evidence.served.and_then(|served| served.server.package());
    // Its own module goes by the name of its package; of another one nobody can tell the package.
    let package = own.filter(|own| own.replace('-', "_").starts_with(top) && !top.is_empty());
    let suggestion = match package {
        Some(package) => Suggestion::before("install it", pip(package)),
        None => Suggestion::words("install it into the environment that runs the server, or set `venv`"),
    };
    (format!("the Python module {module:?} is not installed"), Some(suggestion))
}

fn pip(package: &str) -> CommandLine {
    CommandLine::Argv(["python3", "-m", "pip", "install", package].map(str::to_owned).to_vec())
}

fn quoted(what: Option<&str>) -> String {
    what.map(|what| format!(" {what:?}")).unwrap_or_default()
}

/// Returns ` the model "x"`, as far as it is known.
fn named(evidence: &Evidence<'_>, what: Option<&str>) -> String {
    format!(" model{}", quoted(what.or_else(|| evidence.served?.model.as_deref())))
}

#[cfg(test)]
mod tests;
