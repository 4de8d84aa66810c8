//! Asks about a failure of which neither the output nor the port nor the model file says anything: the program for its
//! options, its libraries for the architectures that they know, the hub for the model. Each question has a deadline, and
//! what may have another reason is not taken for an answer.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Inner;
use super::serving::Serving;
use super::session::Session;
use crate::app::config::find_program;
use crate::app::contract::Phase;
use crate::app::phase::{
    Aside, Cause, Evidence, File, HubAnswer, Options, Part, Run, Seen, Served, Server, Told, came_to_the_hub,
    hub_cause, judge_options, questions, repository, stays, tight, told,
};
use crate::lifecycle::spawn::{Spec, is_elf, run};
use crate::lifecycle::tether::{ExitRecord, Tether};
use crate::lifecycle::{clock, regular};

/// How long a program may take to list its options, and a library to be searched.
const PROGRAM: Duration = Duration::from_secs(2);
/// How long a hub may take to answer one question; curl(1) ends by itself before that.
const HUB: Duration = Duration::from_secs(4);
const HUB_ASKED: &str = "max-time = 3\n";
/// A longer program, or library, is not searched.
const PROGRAM_MAX: u64 = 256 << 20;
const PIECE: usize = 1 << 20;
/// A longer name is of no architecture.
const NAME_MAX: usize = 64;
/// A run that took longer had a hub that may have been another one then.
const BRIEF_S: f64 = 60.0;
/// How old an exit may be for the hub to be still what it was, in seconds.
const RECENT_S: f64 = 10.0;
/// What a hub, and what is kept of it, is told by.
const OFFLINE: [&str; 3] = ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "LLAMA_ARG_OFFLINE"];
const CACHES: [(&str, &str); 6] = [
    ("LLAMA_CACHE", ""),
    ("HF_HUB_CACHE", ""),
    ("HUGGINGFACE_HUB_CACHE", ""),
    ("HF_HOME", "hub"),
    ("XDG_CACHE_HOME", "huggingface/hub"),
    ("HOME", ".cache/huggingface/hub"),
];
/// Where llama.cpp kept its own copies before it shared those of others, flat and by another name.
const FLAT_CACHES: [(&str, &str); 3] =
    [("LLAMA_CACHE", ""), ("XDG_CACHE_HOME", "llama.cpp"), ("HOME", ".cache/llama.cpp")];

/// Nobody knows what a variable was.
struct Hidden;

/// The environment that a session had, as far as it is known.
struct Environment<'a> {
    inner: &'a Inner,
    session: &'a Session,
    tether: &'a Tether,
    told: &'a Told,
}

impl Environment<'_> {
    fn get(&self, name: &str) -> Result<Option<String>, Hidden> {
        if let Some((_, value)) = self.told.set.iter().rev().find(|(known, _)| known == name) {
            return Ok(Some(value.clone()));
        }
        if self.told.moved || self.tether.adoption.is_some() {
            return Err(Hidden);
        }
        match &self.session.request {
            Some(request) => {
                if let Some(value) = request.env.as_ref().and_then(|env| env.get(name)) {
                    return Ok(Some(value.clone()));
                }
            }
            // Only the names were recorded.
            None if self.tether.env_names.iter().any(|known| known == name) => return Err(Hidden),
            None => {}
        }
        let config = self.inner.config();
        let recipe = self.tether.origin.as_deref().and_then(|origin| config.recipe(origin));
        let own = recipe.and_then(|recipe| recipe.env.get(name)).cloned();
        Ok(own.or_else(|| std::env::var(name).ok()))
    }

    /// Returns the file that the program of the command was, as the session found it.
    fn program(&self) -> Option<PathBuf> {
        let name = self.told.words.first()?;
        let file = if name.contains('/') {
            let file = Path::new(&self.tether.cwd).join(name);
            // Of a session that others have launched nobody knows where it runs.
            let there = file.is_absolute() && (!self.told.moved || name.starts_with('/'));
            find_program(file.to_str().filter(|_| there)?, None)
        } else {
            let path = self.get("PATH").ok()??;
            let config = self.inner.config();
            let recipe = self.tether.origin.as_deref().and_then(|origin| config.recipe(origin));
            let venv = self.tether.venv.as_ref().map(PathBuf::from);
            let venv = venv.or_else(|| recipe.and_then(|recipe| recipe.venv.clone()));
            let path = venv.map_or(path.clone(), |venv| format!("{}:{path}", venv.join("bin").display()));
            find_program(name, Some(OsStr::new(&path)))
        };
        fs::canonicalize(file?).ok()
    }
}

impl Inner {
    /// Looks for the reason of a failure of which nothing else says one.
    pub(super) fn look_aside(
        &self,
        session: &Arc<Session>,
        serving: &Serving,
        exit: &ExitRecord,
        evidence: &Evidence<'_>,
        seen: &Seen,
    ) -> Option<Aside> {
        let served = serving.served.as_ref().filter(|served| served.server != Server::Other)?;
        let phase = session.state().progress.phase;
        if matches!(phase, Phase::Ready | Phase::Idle) {
            // It got over all of this.
            return None;
        }
        let by_itself = exit.code.is_some_and(|code| (1..126).contains(&code));
        let told = told(&serving.command, served.server).filter(|_| by_itself && !serving.scripted);
        let tether = session.tether();
        let found = told.and_then(|told| {
            let environment = Environment { inner: self, session, tether: &tether, told: &told };
            let options = options(&environment, served);
            match &options {
                Options::Unknown(option) => return Some(Aside::Flag(option.clone())),
                Options::NoNumber(option) => return Some(Aside::Value(option.clone())),
                Options::Open(option) => return Some(Aside::Open(option.clone())),
                Options::Taken | Options::Unclear => {}
            }
            let run = Run { seconds: lasted(&tether, exit), printed: seen.printed, began: seen.phase.is_some() };
            let asked = || came_to_the_hub(served.server, &run, &options).then(|| hub(&environment, served, exit))?;
            unknown_architecture(&environment, served, evidence).or_else(asked)
        });
        let aborted = exit.signal.as_deref().is_some_and(|signal| matches!(signal, "ABRT" | "SEGV"));
        let aborted = aborted || matches!(exit.code, Some(134 | 139));
        let limit = exit.address_space.filter(|_| !seen.printed && (by_itself || aborted));
        found.or_else(|| tight(limit?, bytes_of_model(serving, served, &tether)))
    }
}

/// Returns how many seconds the run took that has ended; less where the clock was set.
fn lasted(tether: &Tether, exit: &ExitRecord) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "seconds stay far below 2^52")]
    let at = exit.at as f64;
    at - began(tether)
}

/// Returns when the last run of a session began, by the wall clock.
pub(super) fn began(tether: &Tether) -> f64 {
    let again = tether.restarts.as_ref().and_then(|restarts| restarts.began);
    again.map_or(tether.spawned_at_wall, |began| clock::wall() - clock::boottime() + began)
}

/// Returns how large the model file of a server is; 0 where that is not known.
fn bytes_of_model(serving: &Serving, served: &Served, tether: &Tether) -> u64 {
    let model = served.model.as_ref().filter(|_| served.model_is_file).map(Path::new);
    let known = model.filter(|model| model.is_absolute() || stays(&serving.command, served.server));
    known.and_then(|model| fs::metadata(Path::new(&tether.cwd).join(model)).ok()).map_or(0, |found| found.len())
}

/// Returns the program of llama.cpp itself; a script of that name is none.
fn own_program(environment: &Environment<'_>, served: &Served) -> Option<PathBuf> {
    let program = environment.program().filter(|_| served.server == Server::LlamaServer)?;
    is_elf(&program).then_some(program)
}

/// Asks the program for its options.
fn options(environment: &Environment<'_>, served: &Served) -> Options {
    let Some(program) = own_program(environment, served) else { return Options::Unclear };
    let mut spec = Spec::new([program.into_os_string(), "--help".into()]);
    spec.env_clear = true;
    for name in ["PATH", "HOME", "LD_LIBRARY_PATH"] {
        if let Ok(Some(value)) = environment.get(name) {
            spec.env.push((name.into(), value.into()));
        }
    }
    let Ok(output) = run(&spec, None, PROGRAM) else { return Options::Unclear };
    judge_options(&environment.told.words, &String::from_utf8_lossy(&output.stdout))
}

/// Looks whether the program knows the architectures of its model and of its draft model.
fn unknown_architecture(environment: &Environment<'_>, served: &Served, evidence: &Evidence<'_>) -> Option<Aside> {
    let drafts = evidence.beside.iter().filter(|(beside, _)| beside.part == Part::Draft);
    let all = std::iter::once((None, &evidence.file)).chain(drafts.map(|(beside, file)| (Some(beside), file)));
    all.into_iter().find_map(|(beside, file)| {
        let File::Whole(Some(architecture)) = file else { return None };
        lacks(environment, served, architecture)?.then(|| Aside::Architecture(architecture.clone(), beside.cloned()))
    })
}

/// Tells whether the program does not know an architecture: it has the names of all of them in it, or its library has.
/// `None` where nobody can tell.
fn lacks(environment: &Environment<'_>, served: &Served, architecture: &String) -> Option<bool> {
    let is_name = |name: &&String| (2..=NAME_MAX).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic());
    let architecture = Some(architecture).filter(is_name)?;
    let program = own_program(environment, served)?;
    let beside = program.parent()?;
    let mut folders = vec![beside.to_path_buf(), beside.join("../lib"), beside.join("../lib64")];
    let elsewhere = environment.get("LD_LIBRARY_PATH").ok()?;
    folders.extend(
        elsewhere.iter().flat_map(|path| path.split(':')).filter(|path| path.starts_with('/')).map(PathBuf::from),
    );
    let libraries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let is_library =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"libllama.so"));
    let libraries = libraries.map(|entry| entry.path()).filter(is_library);
    let until = Instant::now() + PROGRAM;
    let mut has_table = false;
    for place in std::iter::once(program).chain(libraries) {
        let holds = names_in(&place, architecture, until)?;
        if holds.of_model {
            return Some(false);
        }
        has_table |= holds.table;
    }
    Some(has_table)
}

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Names {
    /// The names of architectures that every llama.cpp knows.
    table: bool,
    /// The name of the architecture of a model.
    of_model: bool,
}

/// Looks which names a file holds, each before a NUL; a longer word may end in one, and is taken for it. `None` where not
/// all of it could be read.
fn names_in(path: &Path, architecture: &str, until: Instant) -> Option<Names> {
    let names = ["llama", "gemma", "qwen2", architecture];
    let mut file = regular::open(path).ok()?;
    if file.metadata().ok()?.len() > PROGRAM_MAX {
        return None;
    }
    let mut seen = [false; 4];
    let mut window = Vec::with_capacity(PIECE + NAME_MAX);
    loop {
        let read = file.by_ref().take(PIECE as u64).read_to_end(&mut window).ok()?;
        let mut words = window.split(|byte| *byte == 0);
        // The last one has no end yet.
        words.next_back();
        for word in words {
            for (seen, name) in seen.iter_mut().zip(names) {
                *seen |= word.ends_with(name.as_bytes());
            }
        }
        if read == 0 {
            return Some(Names { table: seen[..3].iter().all(|seen| *seen), of_model: seen[3] });
        }
        if Instant::now() >= until {
            return None;
        }
        // A name may lie across.
        window.drain(..window.len().saturating_sub(NAME_MAX + 1));
    }
}

/// Asks the hub for the model, the way the server did.
fn hub(environment: &Environment<'_>, served: &Served, exit: &ExitRecord) -> Option<Aside> {
    let repo = repository(served)?;
    #[expect(clippy::cast_precision_loss, reason = "seconds stay far below 2^52")]
    let at = exit.at as f64;
    let brief = environment.session.request.is_some() || at - environment.tether.spawned_at_wall <= BRIEF_S;
    let recent = clock::wall() - at <= RECENT_S;
    // Relative to its directory it may be a model of its own.
    let local = Path::new(&environment.tether.cwd).join(repo).exists();
    if !brief || !recent || local || is_kept(environment, repo)? {
        return None;
    }
    for name in OFFLINE {
        environment.get(name).ok()?;
    }
    if served.offline {
        return Some(Aside::Hub(Cause::Unresolved));
    }
    let mirror = environment.get("MODEL_ENDPOINT").ok()?.filter(|_| served.server == Server::LlamaServer);
    let endpoint = mirror.or(environment.get("HF_ENDPOINT").ok()?);
    let endpoint = endpoint.unwrap_or_else(|| "https://huggingface.co".into());
    let (token, lacks_token) = token(environment, served);
    let curl = find_program("curl", std::env::var_os("PATH").as_deref())?;
    questions(served.server, &endpoint, repo).into_iter().find_map(|url| {
        let answer = ask(&curl, &url, token.as_deref())?;
        let answer = HubAnswer { exit: answer.0, printed: &answer.1, lacks_token };
        hub_cause(&url, &answer).map(Aside::Hub)
    })
}

/// Asks curl(1); neither the address nor the token is an argument of it. Returns how it ended, and the headers.
fn ask(curl: &Path, url: &str, token: Option<&str>) -> Option<(i32, String)> {
    let header = token.map(|token| format!("header = \"Authorization: Bearer {token}\"\n")).unwrap_or_default();
    let config = format!(
        "url = \"{url}\"\n{header}silent\nlocation\nproto = \"=http,https\"\n{HUB_ASKED}output = \"/dev/null\"\ndump-header = \"-\"\nwrite-out = \"\\n%{{num_connects}}\"\n"
    );
    let argv = [curl.as_os_str().to_owned(), OsString::from("-q"), "--config".into(), "-".into()];
    let output = run(&Spec::new(argv), Some(config.as_bytes()), HUB).ok()?;
    Some((output.status.code()?, String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// Returns the token that the server had, and whether it may have had one that is not at hand.
fn token(environment: &Environment<'_>, served: &Served) -> (Option<String>, bool) {
    let is_plain = |token: &String| token.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
    let in_command = environment.told.words.iter().any(|word| word.contains("-hft") || word.contains("token"));
    match environment.get("HF_TOKEN") {
        Ok(Some(token)) if !in_command && is_plain(&token) => (Some(token).filter(|token| !token.is_empty()), false),
        Ok(None) if !in_command => {
            // Whoever is logged in has one in a file, which the servers in Python read.
            let logged_in = served.server != Server::LlamaServer
                && ["HF_TOKEN_PATH", "HUGGING_FACE_HUB_TOKEN"]
                    .iter()
                    .any(|name| !matches!(environment.get(name), Ok(None)));
            let homes = [("HF_HOME", "token"), ("HOME", ".cache/huggingface/token")];
            let file = homes.iter().any(|(name, inside)| match environment.get(name) {
                Ok(home) => home.is_some_and(|home| Path::new(&home).join(inside).exists()),
                Err(Hidden) => true,
            });
            (None, logged_in || (file && served.server != Server::LlamaServer))
        }
        Ok(_) | Err(Hidden) => (None, true),
    }
}

/// Tells whether something of a repository is kept on this computer; `None` where nobody knows where to look.
fn is_kept(environment: &Environment<'_>, repo: &str) -> Option<bool> {
    let folder = format!("models--{}", repo.replace('/', "--"));
    let flat = repo.replace('/', "_");
    for (name, inside) in CACHES {
        let Some(root) = environment.get(name).ok()? else { continue };
        let kept = Path::new(&root).join(inside).join(&folder).join("snapshots");
        if fs::read_dir(kept).is_ok_and(|mut entries| entries.next().is_some()) {
            return Some(true);
        }
    }
    for (name, inside) in FLAT_CACHES {
        let Some(root) = environment.get(name).ok()? else { continue };
        let Ok(entries) = fs::read_dir(Path::new(&root).join(inside)) else { continue };
        let is_of_it = |entry: fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(flat.as_bytes());
        if entries.flatten().any(is_of_it) {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_before_a_nul_wherever_they_lie() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lib");
        let later = Instant::now() + Duration::from_secs(60);
        let check = |bytes: &[u8], table, of_model| {
            fs::write(&path, bytes).unwrap();
            assert_eq!(names_in(&path, "falcon-h1", later), Some(Names { table, of_model }), "{}", bytes.len());
        };
        check(b"", false, false);
        check(b"\0llama\0gemma\0qwen2\0falcon\0", true, false);
        check(b"\0llama\0gemma\0qwen2moe\0falcon-h1\0", false, true);
        check(b"\0llama\0gemma\0qwen2\0falcon-h1 is no end", true, false);
        check(b"\0llama\0gemma\0qwen2\0falcon-h1", true, false);
        let cut = [&vec![b'x'; PIECE - 9][..], b"falcon-h1-more\0llama\0gemma\0qwen2\0"].concat();
        check(&cut, true, false);
        for before in [PIECE - 12, PIECE - 6, PIECE - 1, PIECE, 2 * PIECE - 5] {
            let bytes = [&vec![b'x'; before][..], b"falcon-h1\0llama\0gemma\0qwen2\0"].concat();
            check(&bytes, true, true);
        }
        assert_eq!(names_in(&path, "x", Instant::now()), None, "there was no time for it");
        assert_eq!(names_in(folder.path(), "x", later), None);
    }
}
