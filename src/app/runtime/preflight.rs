//! Looks before a launch: what is impossible is refused before anything is made, a doubt becomes a note.

use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;

use super::Inner;
use super::failure::model_file;
use super::probe::serves;
use super::session::Session;
use super::unix::look_at;
use crate::app::config::find_program;
use crate::app::contract::{CommandLine, Kind, LaunchField};
use crate::app::error::{AppError, ErrorKind};
use crate::app::phase::{
    Cause, Diagnosis, Evidence, File, Found, Holder, Served, Server, Socket, diagnose, direct, fetches, recognise,
};
use crate::lifecycle::inspect::{addresses_on, reachable, share};
use crate::text;

/// A launch that is about to be made.
pub(super) struct Intent<'a> {
    pub(super) command: &'a CommandLine,
    pub(super) kind: Kind,
    pub(super) cwd: &'a Path,
    /// The environment that it is to have.
    pub(super) env: &'a [(OsString, OsString)],
    /// Who is to be stopped before it is launched.
    pub(super) replaced: &'a [Arc<Session>],
}

/// How a program is found that is not on the PATH of a session.
pub(super) const ELSEWHERE: &str = "name it by its path, or set `venv` or PATH in `env` of a recipe";

/// Something that stands in the way, in words.
enum Finding {
    /// It cannot come true; perhaps because of a session of ours.
    Impossible(String, Option<String>),
    /// It may be so.
    Doubt(String),
}

impl Intent<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        self.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.to_string_lossy().into_owned())
    }
}

/// Refuses a virtual environment that is not there: another Python would be run in its place.
pub(super) fn check_venv(venv: &Path) -> Result<(), AppError> {
    if venv.is_dir() {
        return Ok(());
    }
    let path = text::escape(&venv.display().to_string()).into_owned();
    let message = format!(
        "nothing was launched: the virtual environment {path} is not there; make it with `python3 -m venv {path}`, or change `venv` of the recipe"
    );
    Err(AppError::new(ErrorKind::Failed, message).at(LaunchField::Venv))
}

impl Inner {
    /// Looks at the program, the model file and the port of a server that is known. Returns the doubts.
    ///
    /// # Errors
    /// When it cannot come true, with the way out.
    pub(super) fn preflight(&self, intent: &Intent<'_>) -> Result<Vec<String>, AppError> {
        if intent.kind == Kind::Agent {
            return Ok(Vec::new());
        }
        let plain = direct(intent.command);
        let variable = |name: &str| {
            let set = plain.as_ref().and_then(|plain| plain.set.iter().rev().find(|(known, _)| known == name));
            set.map(|(_, value)| value.clone()).or_else(|| intent.variable(name))
        };
        let argv = plain.as_ref().map_or_else(|| intent.command.argv(), |plain| plain.words.clone());
        let served = recognise(&argv, &variable, &intent.cwd.to_string_lossy());
        let known = |served: &Served| served.server != Server::Other;
        let Some(served) = served.filter(|served| known(served) || intent.kind == Kind::Serve) else {
            return Ok(Vec::new());
        };
        let sure = plain.is_some() && known(&served);
        let mut found = Vec::new();
        if sure {
            found.extend(program(&argv, intent, &served));
        }
        let words = argv.iter().flat_map(|word| word.split_whitespace()).map(str::to_owned).collect::<Vec<_>>();
        if known(&served) && !fetches(&words) {
            found.extend(file(intent, &served, sure));
        }
        found.extend(self.port(intent, &served, sure));
        found.extend(socket(intent, &served, sure));
        let mut notes = Vec::new();
        for finding in found {
            match finding {
                Finding::Impossible(why, holder) => {
                    let error = AppError::new(ErrorKind::Failed, format!("nothing was launched: {why}"));
                    return Err(error.held(LaunchField::Command, holder));
                }
                Finding::Doubt(why) => notes.push(why),
            }
        }
        Ok(notes)
    }

    /// Looks who listens on the port that it is to listen on.
    fn port(&self, intent: &Intent<'_>, served: &Served, sure: bool) -> Option<Finding> {
        let port = served.port()?;
        let (holder, address) = if let Some(addresses) = addresses_on(&self.inspector, port) {
            let met = addresses.into_iter().find(|held| clashes(served.server, served.host.as_deref(), held.ip()))?;
            self.all().iter().filter(|session| !session.state().settled).for_each(|s| self.sample_one(s));
            let replaced =
                |session: &&Arc<Session>| session.state().sample.ports.as_ref().is_some_and(|p| p.contains(&port));
            if intent.replaced.iter().any(|session| replaced(&session)) {
                return None;
            }
            (
                self.holder_of("", port, |held| clashes(served.server, served.host.as_deref(), held)),
                Some(reachable(met)),
            )
        } else {
            // Nobody can tell who it is, but the kernel does not give the port twice.
            let taken = TcpListener::bind(("127.0.0.1", port)).err();
            taken.filter(|error| error.kind() == std::io::ErrorKind::AddrInUse)?;
            (Holder::Other("a process that cannot be looked at".into()), None)
        };
        let Holder::Other(_) = holder else { return None };
        let ready = address.filter(|address| serves(served.server.probe(), *address));
        let free_port = self.free_port(port);
        let diagnosis = diagnose(&Evidence { holder, free_port, ..evidence(intent.command, Some(served)) })?;
        let why = way_out(&diagnosis, ready);
        let listens = |session: &Arc<Session>| {
            let state = session.state();
            !state.settled && state.sample.ports.as_ref().is_some_and(|ports| ports.contains(&port))
        };
        let ours = self.all().into_iter().find(listens).map(|session| session.id.clone());
        Some(if sure { Finding::Impossible(why, ours) } else { Finding::Doubt(why) })
    }
}

fn evidence<'a>(command: &'a CommandLine, served: Option<&'a Served>) -> Evidence<'a> {
    Evidence {
        command,
        served,
        code: None,
        signal: None,
        found: None,
        complaint: None,
        listened: false,
        holder: Holder::Unknown,
        socket: Socket::Unknown,
        free_port: None,
        file: File::Unknown,
        beside: Vec::new(),
        aside: None,
    }
}

/// Looks the program up as execvp(3) will.
fn program(words: &[String], intent: &Intent<'_>, served: &Served) -> Option<Finding> {
    let name = words.first()?;
    if name.contains('/') {
        let path = intent.cwd.join(name);
        let there = find_program(&path.to_string_lossy(), None).is_some();
        let shown = text::escape(&path.display().to_string()).into_owned();
        let why = format!("its program {shown} is not there, or not executable; check its path");
        return (!there).then_some(Finding::Impossible(why, None));
    }
    let path = intent.variable("PATH")?;
    if find_program(name, Some(OsStr::new(&path))).is_some() {
        return None;
    }
    let command = CommandLine::Argv(words.to_vec());
    let missing = Found { cause: Cause::MissingCommand, what: Some(name.clone()), why: None, line: String::new() };
    let found = Some(&missing);
    let diagnosis = diagnose(&Evidence { code: Some(127), found, ..evidence(&command, Some(served)) })?;
    let install = diagnosis.suggestion.as_ref().and_then(|suggestion| suggestion.command.as_ref());
    let install = install.map_or_else(|| "install it".into(), |how| format!("install it ({})", how.shown()));
    let why =
        format!("{} on the PATH of the session, {}; {install}, {ELSEWHERE}", diagnosis.detail, text::escape(&path));
    // Where the working directory is on the PATH, it may be there.
    let relative = path.split(':').any(|entry| !entry.starts_with('/'));
    Some(if relative { Finding::Doubt(why) } else { Finding::Impossible(why, None) })
}

/// Looks at the model file.
fn file(intent: &Intent<'_>, served: &Served, sure: bool) -> Option<Finding> {
    // A shell may be elsewhere by the time that it runs the server.
    let absolute = served.model.as_deref().is_some_and(|model| model.starts_with('/'));
    let file = if sure || absolute { model_file(served, Some(intent.cwd)) } else { File::Unknown };
    let broken = matches!(file, File::Faulty(_));
    let diagnosis = diagnose(&Evidence { file, ..evidence(intent.command, Some(served)) })?;
    let why = way_out(&diagnosis, None);
    // Its header is read by rules of ours, which a newer server may have changed.
    Some(if sure && !broken { Finding::Impossible(why, None) } else { Finding::Doubt(why) })
}

/// Looks what is where its socket in the file system is to be.
fn socket(intent: &Intent<'_>, served: &Served, sure: bool) -> Option<Finding> {
    // Who is stopped before may take it along.
    let name = served.socket().filter(|name| intent.replaced.is_empty() && (sure || name.starts_with('/')))?;
    let socket = look_at(&intent.cwd.join(name), f64::INFINITY);
    let diagnosis = diagnose(&Evidence { socket, ..evidence(intent.command, Some(served)) })?;
    let why = way_out(&diagnosis, None);
    Some(if sure { Finding::Impossible(why, None) } else { Finding::Doubt(why) })
}

/// Returns what was found, and what to do about it. `ready` is where a server answers already.
fn way_out(diagnosis: &Diagnosis, ready: Option<SocketAddr>) -> String {
    let mut why = diagnosis.detail.clone();
    if let Some(address) = ready {
        why = format!("{why}, which is ready: use that one, at http://{address}");
    }
    let Some(suggestion) = &diagnosis.suggestion else { return why + "; check its path" };
    let command = suggestion.command.as_ref().map(|command| format!(": {}", command.shown())).unwrap_or_default();
    let or = if ready.is_some() { "or " } else { "" };
    format!("{why}; {or}{}{}", suggestion.text, text::escape(&command))
}

/// Tells whether a server that is to listen on `host` meets a socket that listens on `held`, on the same port.
/// Addresses that differ can share a port; one that stands for all of them cannot (ip(7), ipv6(7)).
fn clashes(server: Server, host: Option<&str>, held: IpAddr) -> bool {
    let wanted = match host.map(|host| host.trim_matches(['[', ']'])) {
        None if matches!(server, Server::Vllm | Server::Tgi | Server::Lmdeploy) => "0.0.0.0",
        None | Some("localhost") => "127.0.0.1",
        Some(host) => host,
    };
    if held.is_unspecified() {
        return true;
    }
    // A name may stand for any address.
    wanted.parse().is_ok_and(|wanted| share(wanted, held))
}

/// Tells whether a server that could not listen may have met a socket on `held`: any one where it has named no address.
pub(super) fn may_have_met(served: &Served, held: IpAddr) -> bool {
    match served.host.as_deref().map(|host| host.trim_matches(['[', ']'])) {
        // Either of the two, as it is resolved.
        Some("localhost") => {
            held.is_unspecified() || [IpAddr::from([127, 0, 0, 1]), Ipv6Addr::LOCALHOST.into()].contains(&held)
        }
        Some(host) if host.parse::<IpAddr>().is_ok() => clashes(served.server, Some(host), held),
        Some(_) | None => true,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn who_holds_a_port_elsewhere_is_not_met() {
        let check = |options: &str, held: &str, expected| {
            let argv: Vec<String> = format!("llama-server -m x{options}").split(' ').map(str::to_owned).collect();
            let served = recognise(&argv, &|_| None, "/").unwrap();
            assert_eq!(may_have_met(&served, held.parse().unwrap()), expected, "{options} {held}");
        };
        check(" --host 127.0.0.1", "127.0.0.2", false);
        check(" --host 127.0.0.1", "127.0.0.1", true);
        check(" --host 127.0.0.1", "0.0.0.0", true);
        check(" --host 0.0.0.0", "127.0.0.2", true);
        check(" --host [::1]", "::1", true);
        check(" --host ::1", "127.0.0.1", false);
        check(" --host localhost", "127.0.0.2", false);
        check(" --host localhost", "::1", true);
        check(" --host gpu.example", "127.0.0.2", true);
        check("", "127.0.0.2", true);
    }

    #[test]
    fn addresses_share_a_port_or_not() {
        let check = |server, host: Option<&str>, held: &str, expected| {
            assert_eq!(clashes(server, host, held.parse().unwrap()), expected, "{server:?} {host:?} {held}");
        };
        check(Server::LlamaServer, None, "127.0.0.1", true);
        check(Server::LlamaServer, Some("localhost"), "127.0.0.1", true);
        check(Server::LlamaServer, None, "0.0.0.0", true);
        check(Server::LlamaServer, None, "::", true);
        check(Server::LlamaServer, None, "127.0.0.2", false);
        check(Server::LlamaServer, None, "::1", false);
        check(Server::LlamaServer, Some("::1"), "::1", true);
        check(Server::LlamaServer, Some("[::]"), "127.0.0.1", true);
        check(Server::LlamaServer, Some("0.0.0.0"), "::1", false);
        check(Server::LlamaServer, Some("192.0.2.1"), "127.0.0.1", false);
        check(Server::LlamaServer, Some("gpu1"), "127.0.0.1", false);
        check(Server::Vllm, None, "127.0.0.1", true);
        check(Server::Vllm, None, "192.0.2.1", true);
    }
}
