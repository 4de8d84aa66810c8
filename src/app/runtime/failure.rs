//! Looks into a failure: gathers what is known of it, for `phase::diagnose` to judge.

use std::fs;
use std::io::BufReader;
use std::net::{IpAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Inner;
use super::aside::began;
use super::preflight::may_have_met;
use super::probe::in_words;
use super::serving::Serving;
use super::session::Session;
use super::unix::look_at;
use crate::app::contract::{CommandLine, HostKind, Phase};
use crate::app::phase::{
    Beside, Cause, Evidence, Fault, File, Found, Gguf, Holder, Part, Served, Server, beside, diagnose, read_gguf,
    stays, told,
};
use crate::lifecycle::clock::wall;
use crate::lifecycle::inspect::{InspectorKind, PortOwner, owner_at, owner_of_port};
use crate::lifecycle::tether::ExitRecord;
use crate::text;

/// How long whoever reads the terminal, and the writer of the log, may take over the last words.
const LAST_WORDS: Duration = Duration::from_millis(250);
/// How old an exit may be for the holder of its port to have to do with it, in seconds.
const RECENT_S: f64 = 10.0;
/// Ports that are tried in search of a free one.
const PORTS_TRIED: u16 = 50;
/// How like a name must be to be taken for a slip.
const ALIKE: f64 = 0.8;

impl Inner {
    /// Looks into the failure of a session that an earlier run left, or that nobody watched.
    pub(super) fn look_into_again(&self, session: &Arc<Session>) {
        let exit = {
            let state = session.state();
            state.exit.clone().filter(|_| !state.examined)
        };
        if exit.is_some() {
            self.look_into(session, exit.as_ref(), None);
        }
    }

    /// Finds out why a session failed, and writes it down. `exit` is how it ended, as far as that is known; `printed` is
    /// what it printed, where that is not in a log of ours.
    pub(super) fn look_into(&self, session: &Arc<Session>, exit: Option<&ExitRecord>, printed: Option<&str>) {
        let Some(serving) = session.serving.get() else { return };
        // Once for all who want to know.
        let _examining = session.examining();
        let ours = {
            let state = session.state();
            state.stopping || state.elsewhere || state.receipt.is_some() || state.examined
        };
        if ours || exit.is_some_and(|exit| exit.code == Some(0)) {
            return;
        }
        let seen = match (printed, self.patterns()) {
            (Some(printed), Ok(table)) => serving.reading(&table, printed),
            (Some(_) | None, _) => self.last_words(session, serving),
        };
        let served = serving.served.as_ref();
        #[expect(clippy::cast_precision_loss, reason = "seconds stay far below 2^52")]
        let recent = exit.is_none_or(|exit| wall() - exit.at as f64 <= RECENT_S);
        // The port that the output names is the one that it is about.
        let said = seen.cause.as_ref().and_then(Found::port);
        let port = said.or_else(|| served?.port()).filter(|_| recent);
        let holder = port.map_or(Holder::Unknown, |port| {
            let may_have_met = |held| served.is_none_or(|served| may_have_met(served, held));
            self.holder_of(&session.id, port, may_have_met)
        });
        // Whoever of its own had the port may have ended with the terminal.
        let had = said.is_some() && said == serving.own_port();
        let holder = if had && holder == Holder::Nobody { Holder::Own } else { holder };
        let free_port = match holder {
            Holder::Other(_) | Holder::Own => port.and_then(|port| self.free_port(port)),
            Holder::Unknown | Holder::Nobody => None,
        };
        let phase = session.state().progress.phase;
        let listened = serving.own_port().is_some();
        // Whoever was ready has had its socket.
        let socket = || {
            let said = seen.cause.as_ref().filter(|found| found.cause == Cause::Socket);
            let path = serving.socket(said.and_then(|found| found.what.as_deref()))?;
            Some(look_at(&path, began(&session.tether())))
        };
        let socket = if matches!(phase, Phase::Ready | Phase::Idle) { None } else { socket() };
        let unloaded = served.filter(|served| !has_loaded(served, phase, listened));
        let stays = served.is_some_and(|served| !serving.scripted && stays(&serving.command, served.server));
        let tether = session.tether();
        let cwd = stays.then(|| Path::new(&tether.cwd));
        let evidence = Evidence {
            command: &serving.command,
            served,
            code: exit.and_then(|exit| exit.code),
            signal: exit.and_then(|exit| exit.signal.as_deref()),
            found: seen.cause.as_ref(),
            complaint: seen.complaint.as_deref(),
            listened,
            holder,
            socket: socket.unwrap_or_default(),
            free_port,
            file: unloaded.map_or(File::Unknown, |served| model_file(served, cwd)),
            beside: unloaded.map_or_else(Vec::new, |served| files_beside(&serving.command, served, cwd)),
            aside: None,
        };
        let mut diagnosis = diagnose(&evidence);
        let unexplained = diagnosis.as_ref().is_none_or(|diagnosis| diagnosis.cause.is_vague());
        if unexplained && seen.cause.is_none() {
            let aside = exit.and_then(|exit| self.look_aside(session, serving, exit, &evidence, &seen));
            if aside.is_some() {
                diagnosis = diagnose(&Evidence { aside, ..evidence });
            }
        }
        let suggestion = diagnosis.as_mut().and_then(|diagnosis| diagnosis.suggestion.as_mut());
        if let Some(suggestion) =
            suggestion.filter(|suggestion| serving.scripted && (!suggestion.first || suggestion.is_help()))
        {
            // Nobody can tell what the script would make of it.
            suggestion.command = None;
        }
        let mut state = session.state();
        (state.diagnosis, state.examined) = (diagnosis, true);
    }

    /// Returns what the output said to its end. Where tmux has lost it on the way to the log, its pane has it.
    fn last_words(&self, session: &Arc<Session>, serving: &Serving) -> crate::app::phase::Seen {
        let log = self.store.log_path(&session.id);
        let mut seen = serving.said(&log);
        let until = Instant::now() + LAST_WORDS;
        while seen.cause.is_none() && Instant::now() < until {
            std::thread::sleep(LAST_WORDS / 10);
            seen = serving.said(&log);
        }
        if seen.cause.is_none()
            && session.host == HostKind::Tmux
            && let (Ok(text), Ok(table)) = (self.printed(session), self.patterns())
        {
            let shown = serving.reading(&table, &text);
            (seen.cause, seen.printed) = (shown.cause, seen.printed || shown.printed);
            seen.complaint = seen.complaint.or(shown.complaint);
        }
        seen
    }

    /// Returns who but the session itself listens on a port, at an address that `is_meant`.
    pub(super) fn holder_of(&self, own: &str, port: u16, is_meant: impl Fn(IpAddr) -> bool) -> Holder {
        if self.inspector.kind() != InspectorKind::Procfs {
            return Holder::Unknown;
        }
        let owner = owner_at(&self.inspector, port, is_meant);
        let holds = |session: &Arc<Session>| {
            let state = session.state();
            state.sample.rows.keys().any(|member| owner == PortOwner::Process(member.pid))
        };
        match self.all().into_iter().find(holds) {
            Some(session) if session.id == own => Holder::Own,
            // A session of ours is better known by its name.
            Some(other) => {
                let name = text::escape(&other.state().tether.name).into_owned();
                Holder::Other(format!("session {name} ({})", other.id))
            }
            None => match in_words(&self.inspector, owner) {
                Some(who) => Holder::Other(who),
                // A listener at an address that is not meant does not count.
                None if owner_of_port(&self.inspector, port) == PortOwner::Nobody && is_bound(port) => {
                    Holder::Other("a socket that does not listen".into())
                }
                None => Holder::Nobody,
            },
        }
    }

    /// Returns the next port that nobody listens on.
    pub(super) fn free_port(&self, taken: u16) -> Option<u16> {
        let mut next = (taken..u16::MAX).skip(1).take(usize::from(PORTS_TRIED));
        next.find(|port| {
            owner_of_port(&self.inspector, *port) == PortOwner::Nobody && TcpListener::bind(("0.0.0.0", *port)).is_ok()
        })
    }
}

/// Tells whether a port is taken by a socket that is in no list of those that listen.
fn is_bound(port: u16) -> bool {
    TcpListener::bind(("0.0.0.0", port)).is_err_and(|error| error.kind() == std::io::ErrorKind::AddrInUse)
}

/// Tells whether a server had its model: all but llama-server, which says so itself, listen when they have.
fn has_loaded(served: &Served, phase: Phase, listened: bool) -> bool {
    matches!(phase, Phase::Ready | Phase::Idle) || (listened && served.server != Server::LlamaServer)
}

/// Looks at the files that a server is given beside its model.
fn files_beside(command: &CommandLine, served: &Served, cwd: Option<&Path>) -> Vec<(Beside, File)> {
    let told = told(command, served.server).filter(|_| served.server == Server::LlamaServer);
    let all = told.map_or_else(Vec::new, |told| beside(&told.words));
    let look = |beside: Beside| {
        let file = file_at(&beside.name, cwd, |path| gguf_file(path, |gguf| beside.part.judge(gguf)));
        (beside, file)
    };
    all.into_iter().map(look).collect()
}

/// Looks at the model file of a server; a repository of a hub is none. `cwd` is where it runs, as far as that is known.
pub(super) fn model_file(served: &Served, cwd: Option<&Path>) -> File {
    let Some(model) = served.model.as_deref().filter(|_| served.model_is_file) else {
        return File::Unknown;
    };
    // What a draft model can be a model can.
    let is_model = |gguf: &Gguf| Part::Draft.judge(gguf);
    let is_gguf = |path: &Path| {
        served.server == Server::LlamaServer || (served.server == Server::LlamaCppPython && path.is_file())
    };
    file_at(model, cwd, |path| if is_gguf(path) { gguf_file(path, is_model) } else { File::Whole(None) })
}

/// Looks for a file, and into it by `look`.
fn file_at(name: &str, cwd: Option<&Path>, look: impl Fn(&Path) -> File) -> File {
    let path = cwd.map_or_else(|| PathBuf::from(name), |cwd| cwd.join(name));
    if !path.is_absolute() || name.starts_with('~') {
        // Of a session that others have launched nobody knows where it runs.
        return File::Unknown;
    }
    match fs::metadata(&path) {
        Ok(_) => look(&path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => File::Missing(near(&path, name)),
        Err(error) => File::Unreadable(error.to_string()),
    }
}

/// Looks at the header of a GGUF file, and has it judged.
fn gguf_file(path: &Path, judge: impl Fn(&Gguf) -> Result<(), Fault>) -> File {
    let metadata = match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => return File::Unreadable("it is a directory".into()),
        // Nobody waits for the writer of a pipe.
        Ok(metadata) if !metadata.is_file() => return File::Whole(None),
        Ok(metadata) => metadata,
        Err(error) => return File::Unreadable(error.to_string()),
    };
    match fs::File::open(path) {
        Err(error) => File::Unreadable(error.to_string()),
        Ok(file) => match read_gguf(&mut BufReader::new(file)).and_then(|gguf| judge(&gguf).map(|()| gguf)) {
            Err(fault) => File::Faulty(fault),
            Ok(gguf) if metadata.len() < gguf.least_bytes => File::Faulty(Fault::Truncated),
            Ok(gguf) => File::Whole(gguf.architecture),
        },
    }
}

/// Returns the file beside a missing one whose name is most like it, as the command would name it.
fn near(path: &Path, model: &str) -> Option<String> {
    // Every model file ends in the same way.
    let name = path.file_stem()?.to_str()?;
    let alike = |entry: &fs::DirEntry| Some(strsim::jaro_winkler(entry.path().file_stem()?.to_str()?, name));
    let files = fs::read_dir(path.parent()?).ok()?.flatten();
    let same_kind = files.filter(|entry| entry.path().extension() == path.extension() && entry.path().is_file());
    let rated = same_kind.filter_map(|entry| Some((alike(&entry)?, entry)));
    let (_, best) = rated.filter(|(rate, _)| *rate >= ALIKE).max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    let beside: PathBuf = Path::new(model).with_file_name(best.file_name());
    beside.to_str().map(str::to_owned)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::app::phase::recognise;

    fn look(folder: &Path, model: &str) -> File {
        let argv = ["llama-server", "-m", model].map(str::to_owned);
        model_file(&recognise(&argv, &|_| None, "/").unwrap(), Some(folder))
    }

    #[test]
    fn who_has_loaded_its_model_does_not_lack_it() {
        let check = |line: &str, phase, listened, expected| {
            let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let served = recognise(&argv, &|_| None, "/").unwrap();
            assert_eq!(has_loaded(&served, phase, listened), expected, "{line} {phase:?} {listened}");
        };
        check("llama-server -m x", Phase::Loading, true, false);
        check("llama-server -m x", Phase::Ready, true, true);
        check("llama-server -m x", Phase::Idle, false, true);
        check("vllm serve ./x", Phase::Starting, true, true);
        check("vllm serve ./x", Phase::Starting, false, false);
    }

    #[test]
    fn a_port_is_taken_by_who_does_not_listen_too() {
        use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
        let silent = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&silent, &std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at: std::net::SocketAddr = getsockname(&silent).unwrap().try_into().unwrap();
        assert!(is_bound(at.port()));
        drop(silent);
        assert!(!is_bound(at.port()));
    }

    #[test]
    fn model_files_are_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(look(folder.path(), "tiny.gguf"), File::Missing(None));
        fs::write(folder.path().join("magic.gguf"), "GGXX and more").unwrap();
        assert_eq!(look(folder.path(), "magic.gguf"), File::Faulty(Fault::Magic(*b"GGXX")));
        fs::write(folder.path().join("short.gguf"), "GGUF").unwrap();
        assert_eq!(look(folder.path(), "short.gguf"), File::Faulty(Fault::Truncated));
        // A slip of the finger.
        assert_eq!(look(folder.path(), "./magik.gguf"), File::Missing(Some("./magic.gguf".into())));
        assert_eq!(look(folder.path(), "sub/x.gguf"), File::Missing(None));
        // All that they share is how they end.
        fs::write(folder.path().join("tensor.gguf"), "GGUF").unwrap();
        for name in ["nope.gguf", "x.gguf"] {
            assert_eq!(look(folder.path(), name), File::Missing(None), "{name}");
        }
        assert_eq!(look(folder.path(), "tensors.gguf"), File::Missing(Some("tensor.gguf".into())));
        // Where it runs is not known.
        let argv = ["llama-server", "-m", "magic.gguf"].map(str::to_owned);
        assert_eq!(model_file(&recognise(&argv, &|_| None, "/").unwrap(), None), File::Unknown);
        // Nobody waits for the writer of a pipe.
        rustix::fs::mknodat(
            rustix::fs::CWD,
            folder.path().join("pipe.gguf"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        assert_eq!(look(folder.path(), "pipe.gguf"), File::Whole(None));
    }
}
