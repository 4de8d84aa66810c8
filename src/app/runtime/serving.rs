//! How far the servers have come: reads what they printed, asks them, and says when a phase changes.
//!
//! One thread looks at all of them: often while one is on its way, rarely while all are ready and quiet. A
//! server that is asked is asked from a thread of its own. Without that thread (a single command) whoever
//! wants to know looks.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use super::Inner;
use super::probe::{Ask, Question, ask};
use super::query::once;
use super::script;
use super::session::Session;
use super::unix::ask_at;
use crate::app::config::{Ready, Recipe, built_in_patterns};
use crate::app::contract::{CommandLine, Kind, Phase};
use crate::app::error::{AppError, ErrorKind};
use crate::app::event::Event;
use crate::app::phase::{
    Detector, HIDDEN, Port, Probe, Probed, Progress, Readiness, Seen, Served, Server, Table, fuse, named, recognise,
    stays,
};
use crate::lifecycle::identity::Identity;
use crate::lifecycle::inspect::InspectorKind;
use crate::lifecycle::regular;
use crate::lifecycle::verdict::VerdictKind;

/// Time between two looks while something is on its way.
const BRISK: Duration = Duration::from_millis(100);
/// Time between two looks while all is quiet.
const CALM: Duration = Duration::from_secs(1);
/// Time between two questions to a server that is ready.
const ASK_READY: Duration = Duration::from_secs(15);
/// How long a server is without a request before it is idle.
const QUIET: Duration = Duration::from_secs(3);
/// A log that has grown by more since the last look is read at both its ends only.
const READ_MAX: u64 = 512 << 10;
const PIECE: u64 = 128 << 10;

/// What is known of a session's readiness, and how far it has come.
#[derive(Debug)]
pub(super) struct Serving {
    pub(super) readiness: Readiness,
    pub(super) served: Option<Served>,
    /// The command as it was typed, where it is known.
    pub(super) command: CommandLine,
    /// The server is started by a script: options of the command are none of the server's.
    pub(super) scripted: bool,
    question: Option<Question>,
    /// Where it runs, as far as its command tells.
    cwd: Option<PathBuf>,
    work: Mutex<Work>,
}

/// What changes with every look. Held by one thread at a time, also while it asks.
#[derive(Debug)]
struct Work {
    detector: Detector,
    /// How much of the log was read, and the inode of the file.
    read: u64,
    inode: u64,
    begun: Instant,
    asked: Option<Instant>,
    probed: Probed,
    /// The port that it was seen listening on.
    own_port: Option<u16>,
    /// Requests that had begun at the last look, and when one was last seen.
    begun_requests: u64,
    busy: Option<Instant>,
    /// When the log was last written to, as far as that can be said.
    written: Option<Instant>,
}

impl Serving {
    /// Returns what the output said so far; reads the rest of the log first.
    pub(super) fn said(&self, log: &Path) -> Seen {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        work.read_log(log);
        work.detector.seen().clone()
    }

    /// Returns what some other text says to a detector of this session.
    pub(super) fn reading(&self, table: &Arc<Table>, text: &str) -> Seen {
        let mut detector = Detector::new(Arc::clone(table), self.server(), None);
        detector.feed(text.as_bytes());
        detector.feed(b"\n");
        detector.seen().clone()
    }

    /// Returns the port that it was seen listening on.
    pub(super) fn own_port(&self) -> Option<u16> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner).own_port
    }

    /// Returns the port of this computer that it was to listen on, where somebody has said so or somebody else holds it.
    pub(super) fn awaited_port(&self) -> Option<u16> {
        let question = self.question.as_ref()?;
        let held = || self.work.try_lock().is_ok_and(|work| matches!(work.probed, Probed::Elsewhere(_)));
        question.port.filter(|_| question.fixed || held())
    }

    /// Returns the path of a socket in the file system that the output, or the command, names so.
    pub(super) fn socket(&self, said: Option<&str>) -> Option<PathBuf> {
        let name = said.or_else(|| self.served.as_ref()?.socket())?;
        let path = self.cwd.as_ref().map_or_else(|| PathBuf::from(name), |cwd| cwd.join(name));
        path.is_absolute().then_some(path)
    }

    /// Returns how a socket in the file system is asked, where it is to listen on one.
    fn socket_to_ask(&self, seen: &Seen) -> Option<(PathBuf, Probe)> {
        let Ask::Known(_) = self.question.as_ref()?.ask else { return None };
        let said = seen.detail.as_deref().filter(|_| seen.phase == Some(Phase::Ready));
        let path = self.socket(said.and_then(|said| said.strip_prefix("unix://")))?;
        Some((path, self.server().probe()))
    }

    fn server(&self) -> Server {
        self.served.as_ref().map_or(Server::Other, |served| served.server)
    }
}

impl Work {
    fn read_log(&mut self, path: &Path) {
        let Ok(mut file) = regular::open(path) else { return };
        let Ok(metadata) = file.metadata() else { return };
        let (length, inode) = (metadata.len(), metadata.ino());
        let age = metadata.modified().ok().and_then(|modified| modified.elapsed().ok());
        self.written = age.and_then(|age| Instant::now().checked_sub(age));
        if length < self.read || inode != self.inode {
            // It was turned over.
            (self.read, self.inode) = (0, inode);
        }
        if length - self.read > READ_MAX {
            self.read_part(&mut file, PIECE);
            self.detector.feed(b"\n");
            self.read = length - PIECE;
        }
        let rest = length - self.read;
        self.read_part(&mut file, rest);
    }

    fn read_part(&mut self, file: &mut File, length: u64) {
        if length == 0 || file.seek(SeekFrom::Start(self.read)).is_err() {
            return;
        }
        let mut bytes = Vec::new();
        if file.take(length).read_to_end(&mut bytes).is_ok() {
            self.read += bytes.len() as u64;
            self.detector.feed(&bytes);
        }
    }

    /// Tells whether there was no request for a while.
    fn is_quiet(&mut self, now: Instant) -> bool {
        let seen = self.detector.seen();
        if seen.begun != self.begun_requests || seen.requests.is_some_and(|requests| requests > 0) {
            // What is read for the first time may be long over.
            let busy = if seen.requests == Some(0) { self.written.unwrap_or(now).min(now) } else { now };
            (self.begun_requests, self.busy) = (seen.begun, Some(busy));
        }
        self.busy.is_none_or(|busy| now.duration_since(busy) >= QUIET)
    }

    /// Tells whether it is time to ask. The longer a server takes to come up, the less often. `ports` are those
    /// that the session was last seen listening on.
    fn is_due(&self, phase: Phase, ports: Option<&[u16]>, now: Instant) -> bool {
        let Some(asked) = self.asked else { return true };
        let lost = self.own_port.zip(ports).is_some_and(|(own, ports)| !ports.contains(&own));
        let pause = match (phase, &self.probed) {
            (Phase::Ready | Phase::Idle, _) if !lost => ASK_READY,
            (_, Probed::Silent) => 2 * CALM,
            // To find out who that is takes a look at every process.
            (_, Probed::Elsewhere(_)) => CALM,
            _ => (now.duration_since(self.begun) / 10).clamp(BRISK, CALM),
        };
        now.duration_since(asked) >= pause
    }
}

/// Makes the table of patterns of a configuration.
///
/// # Errors
/// When the patterns of the configuration are too large together.
pub(super) fn table(config: &crate::app::config::Config) -> Result<Arc<Table>, AppError> {
    let failed = |why: String| AppError::new(ErrorKind::Config, format!("[[pattern]]: {why}"));
    let built_in = built_in_patterns().map_err(|error| failed(error.to_string()))?;
    Table::new(built_in, &config.patterns).map(Arc::new).map_err(|error| failed(error.to_string()))
}

impl Inner {
    /// Finds out what is known of a session's readiness. Called once, before anybody else sees the session.
    pub(super) fn know(&self, session: &Session) {
        let (tether, kind) = (session.tether(), session.kind);
        let config = self.config();
        let recipe = tether.origin.as_deref().and_then(|name| config.recipe(name));
        let typed = session.request.as_ref().and_then(|request| request.command.clone());
        let typed = typed.or_else(|| session.request.as_ref().and(recipe).map(|recipe| recipe.command.clone()));
        // What Cookbook writes down of a task is a line for a shell.
        let of_task = tether.adoption.as_ref().is_some_and(|adoption| adoption.task.is_some());
        let typed = typed.or_else(|| of_task.then(|| CommandLine::Line(tether.command.clone())));
        let argv = typed.as_ref().map(CommandLine::argv).or(tether.argv);
        // With a secret in it only the masked line is left, whose words are enough.
        let argv = argv.unwrap_or_else(|| tether.command.split_whitespace().map(str::to_owned).collect());
        let command = typed.unwrap_or_else(|| match argv.as_slice() {
            [shell, option, line] if shell == "sh" && option == "-c" => CommandLine::Line(line.clone()),
            argv => CommandLine::Argv(argv.to_vec()),
        });
        let requested = session.request.as_ref().and_then(|request| request.env.as_ref());
        let variable = |name: &str| {
            let own = requested.and_then(|env| env.get(name)).cloned();
            // Of what another run of ours has launched only the names were recorded.
            let hidden = || requested.is_none() && tether.env_names.iter().any(|known| known == name);
            let own = own.or_else(|| hidden().then(|| HIDDEN.to_owned()));
            own.or_else(|| recipe?.env.get(name).cloned()).or_else(|| std::env::var(name).ok())
        };
        let served = if kind == Kind::Agent { None } else { recognise(&argv, &variable, &tether.cwd) };
        let is_known = |served: &Option<Served>| served.as_ref().is_some_and(|served| served.server != Server::Other);
        let script = if kind == Kind::Serve && !is_known(&served) { script::text_of(&argv, &tether.cwd) } else { None };
        let inside = script.and_then(|text| recognise(&["sh".into(), "-c".into(), text], &variable, &tether.cwd));
        let scripted = is_known(&inside);
        let served = if scripted { inside } else { served };
        let known = is_known(&served);
        let served = served.filter(|_| known || kind == Kind::Serve);
        // Who runs what it names nobody knows: its output may be read so, whoever listens is asked as it is.
        let told = if kind == Kind::Serve && !known { named(&argv, &variable, &tether.cwd) } else { None };
        let asked = served.clone().or_else(|| Some(Served { server: Server::Other, ..told.clone()? }));
        let (readiness, question, pattern) = how(recipe, kind, asked.as_ref());
        let served = told.or(served);
        if readiness == Readiness::Unknown && !matches!(kind, Kind::Serve | Kind::Download) {
            return;
        }
        // Configurations whose patterns make no table are refused at the start.
        let Ok(table) = self.patterns() else { return };
        let kind_of = served.as_ref().map_or(Server::Other, |served| served.server);
        let begun = if readiness == Readiness::Unknown { Phase::Running } else { Phase::Starting };
        let work = Work {
            detector: Detector::new(table, kind_of, pattern),
            read: 0,
            inode: 0,
            begun: Instant::now(),
            asked: None,
            probed: Probed::default(),
            own_port: None,
            begun_requests: 0,
            busy: None,
            written: None,
        };
        session.state().progress = Progress::of(begun);
        let cwd = (!scripted && stays(&command, kind_of)).then(|| PathBuf::from(tether.cwd));
        let work = Mutex::new(work);
        drop(session.serving.set(Serving { readiness, served, command, scripted, question, cwd, work }));
    }

    /// The workload of a session is started again: everything is to be seen anew.
    pub(super) fn begin_anew(&self, session: &Session) {
        let Some(serving) = session.serving.get() else { return };
        let mut work = serving.work.lock().unwrap_or_else(PoisonError::into_inner);
        work.read_log(&self.store.log_path(&session.id));
        work.detector.forget();
        (work.begun, work.asked, work.probed, work.own_port) = (Instant::now(), None, Probed::default(), None);
        let begun = if serving.readiness == Readiness::Unknown { Phase::Running } else { Phase::Starting };
        session.state().progress = Progress::of(begun);
    }

    /// Returns the table of patterns, made when it is first needed.
    pub(super) fn patterns(&self) -> Result<Arc<Table>, AppError> {
        let mut known = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_ref() {
            return Ok(Arc::clone(known));
        }
        let made = table(&self.config())?;
        *known = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Looks how far a session has come; asks it where that is due. Takes a second at most.
    pub(super) fn look_at_phase(&self, session: &Arc<Session>) {
        let Some(serving) = session.serving.get().filter(|_| session.is_followed()) else { return };
        let members = self.members_to_ask(session, serving);
        let (progress, own_port) = {
            let mut work = match serving.work.try_lock() {
                Ok(work) => work,
                // Somebody is at it.
                Err(TryLockError::WouldBlock) => return,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            };
            work.read_log(&self.store.log_path(&session.id));
            if let (Some(question), Some(members)) = (&serving.question, members) {
                let (probed, own) = match serving.socket_to_ask(work.detector.seen()) {
                    Some((path, probe)) => (ask_at(&self.inspector, &path, probe, &members), None),
                    None => ask(&self.inspector, question, &members),
                };
                if probed == Probed::Ready {
                    work.detector.forgive();
                }
                (work.probed, work.asked) = (probed, Some(Instant::now()));
                work.own_port = own.or(work.own_port);
            }
            let before = session.state().progress.phase;
            let quiet = work.is_quiet(Instant::now());
            let mut progress = fuse(serving.readiness, work.detector.seen(), &work.probed, before, quiet);
            // In a shell of others a server that does not listen may just as well have ended: what it printed is not known.
            if progress.phase == Phase::Starting && session.is_guest() {
                progress.phase = Phase::Running;
            }
            (progress, work.own_port.filter(|_| work.probed == Probed::Ready))
        };
        {
            let mut state = session.state();
            state.progress = progress;
            // Seen later than the last look at its sockets.
            if let (Some(port), Some(ports)) = (own_port, state.sample.ports.as_mut())
                && let Err(place) = ports.binary_search(&port)
            {
                ports.insert(place, port);
            }
        }
        self.tell_phase(session);
    }

    /// Returns the members whose server is to be asked now; `None` where it is not to be asked.
    fn members_to_ask(&self, session: &Arc<Session>, serving: &Serving) -> Option<Vec<Identity>> {
        if !is_due(session, serving) {
            return None;
        }
        let (phase, at) = {
            let state = session.state();
            (state.progress.phase, state.sample.at)
        };
        // Who will listen may have been born a moment ago.
        let patience = if matches!(phase, Phase::Ready | Phase::Idle) { 2 * CALM } else { BRISK };
        // Without procfs nobody can tell whose a socket is, and a look costs a process.
        let tells = self.inspector.kind() == InspectorKind::Procfs;
        if at.is_none_or(|at| tells && at.elapsed() > patience) {
            self.sample_one(session);
        }
        let state = session.state();
        let live = state.sample.rows.iter().filter(|(_, sampled)| sampled.row.verdict == VerdictKind::Owned);
        Some(live.map(|(identity, _)| identity.clone()).collect())
    }

    /// Publishes the phase of a session where it has changed.
    pub(super) fn tell_phase(&self, session: &Arc<Session>) {
        let (phase, detail) = {
            let mut state = session.state();
            let (phase, detail) = state.phase();
            // Of one that somebody else ends the cause comes with the receipt.
            let is_awaited = state.elsewhere && state.receipt.is_none() && state.watched;
            if state.last_phase == Some(phase) || is_awaited {
                return;
            }
            state.last_phase = Some(phase);
            // Where it could have run again, why it does not.
            let ended = state.tether.restarts.as_ref().filter(|_| phase.is_over());
            (phase, once([detail, ended.and_then(|restarts| restarts.over.clone())]))
        };
        self.publish(Event::Phase { session: session.id.clone(), phase, detail });
    }

    /// Looks at all sessions at once, where no thread does so: for a single command.
    pub(super) fn look_at_phases(&self) {
        if self.watcher.get().is_some() {
            return;
        }
        std::thread::scope(|scope| {
            for session in self.all() {
                scope.spawn(move || self.look_at_phase(&session));
            }
        });
    }
}

/// Tells whether it is time to ask a session.
fn is_due(session: &Session, serving: &Serving) -> bool {
    let (phase, ports) = {
        let state = session.state();
        (state.progress.phase, state.sample.ports.clone())
    };
    let asks = serving.question.is_some();
    asks && serving.work.try_lock().is_ok_and(|work| work.is_due(phase, ports.as_deref(), Instant::now()))
}

/// Returns how readiness is known: by the recipe's own word, else by what is known of the server.
fn how(
    recipe: Option<&Recipe>,
    kind: Kind,
    served: Option<&Served>,
) -> (Readiness, Option<Question>, Option<regex::Regex>) {
    let tcp = |port| Question { port: Some(port), fixed: true, ask: Ask::Socket };
    match recipe.and_then(|recipe| recipe.ready.as_ref()) {
        Some(Ready::Http(url)) => (Readiness::Probe, Some(Question::of_url(url)), None),
        Some(Ready::Tcp(port)) => (Readiness::Probe, Some(tcp(*port)), None),
        Some(Ready::Log(pattern)) => (Readiness::Log, None, Some(pattern.regex().clone())),
        None if kind == Kind::Download => (Readiness::Unknown, None, None),
        None => match served {
            None => (Readiness::Unknown, None, None),
            Some(served) => {
                let question = Question {
                    port: served.port(),
                    fixed: matches!(served.port, Port::Named(_)),
                    ask: Ask::Known(served.server.probe()),
                };
                (Readiness::Probe, Some(question), None)
            }
        },
    }
}

/// Starts the looking thread; it ends with the runtime.
pub(super) fn start(inner: &Arc<Inner>) {
    let weak = Arc::downgrade(inner);
    std::thread::spawn(move || {
        while let Some(inner) = weak.upgrade() {
            if inner.is_closing() {
                return;
            }
            let pause = inner.look_around();
            let nudged = &inner.nudged;
            let guard = nudged.0.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = nudged.1.wait_timeout_while(guard, pause, |nudged| !*nudged);
            *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
        }
    });
}

impl Inner {
    /// Has the looking thread look at once: there is a new session.
    pub(super) fn look_soon(&self) {
        *self.nudged.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.nudged.1.notify_all();
    }

    /// Looks at every session once; returns how long to wait until the next look.
    fn look_around(self: &Arc<Self>) -> Duration {
        let mut pause = CALM;
        for session in self.all() {
            let Some(serving) = session.serving.get().filter(|_| session.is_followed()) else { continue };
            let phase = session.state().progress.phase;
            if !matches!(phase, Phase::Ready | Phase::Idle | Phase::Running) {
                pause = BRISK;
            }
            if is_due(&session, serving) {
                let inner = Arc::clone(self);
                std::thread::spawn(move || inner.look_at_phase(&session));
            } else {
                self.look_at_phase(&session);
            }
        }
        pause
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::fs;

    use super::*;
    use crate::app::config::Config;

    fn work() -> Work {
        let table = table(&Config::default()).unwrap();
        Work {
            detector: Detector::new(table, Server::LlamaServer, None),
            read: 0,
            inode: 0,
            begun: Instant::now(),
            asked: None,
            probed: Probed::Closed,
            own_port: None,
            begun_requests: 0,
            busy: None,
            written: None,
        }
    }

    #[test]
    fn who_is_asked_when() {
        let begun = Instant::now();
        let check = |phase, probed: Probed, ports: Option<&[u16]>, after_s: f64, since_s: f64, expected| {
            let asked = begun + Duration::from_secs_f64(after_s);
            let work = Work { begun, asked: Some(asked), probed, own_port: Some(80), ..work() };
            let now = asked + Duration::from_secs_f64(since_s);
            assert_eq!(work.is_due(phase, ports, now), expected, "{phase:?} {after_s} {since_s}");
        };
        assert!(work().is_due(Phase::Starting, None, begun), "nobody has asked yet");
        check(Phase::Starting, Probed::Closed, None, 0.0, 0.05, false);
        check(Phase::Starting, Probed::Closed, None, 0.0, 0.15, true);
        // A server that takes minutes is asked once a second.
        check(Phase::Loading, Probed::Busy, None, 60.0, 0.9, false);
        check(Phase::Loading, Probed::Busy, None, 60.0, 1.1, true);
        check(Phase::Loading, Probed::Silent, None, 0.0, 1.5, false);
        check(Phase::Starting, Probed::Elsewhere(String::new()), None, 0.0, 0.9, false);
        check(Phase::Ready, Probed::Ready, Some(&[80]), 0.0, 14.0, false);
        check(Phase::Ready, Probed::Ready, Some(&[80]), 0.0, 16.0, true);
        // Its port is closed: it is asked at once.
        check(Phase::Ready, Probed::Ready, Some(&[]), 0.0, 0.2, true);
    }

    #[test]
    fn idle_comes_after_a_while_without_requests() {
        let (mut work, begun) = (work(), Instant::now());
        assert!(work.is_quiet(begun), "it never had one");
        work.detector.feed(b"launch_slot_: id  3 | task 0 | processing task\nslot release: id  3 | stop processing\n");
        assert_eq!(work.detector.seen().requests, Some(0));
        assert!(!work.is_quiet(begun));
        assert!(!work.is_quiet(begun + QUIET / 2));
        assert!(work.is_quiet(begun + QUIET));
        // Read from a log that nobody has written to for a minute.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve-00000000.log");
        let lines = "launch_slot_: id  3 | task 0 | processing task\nslot release: id  3 | stop processing\n";
        fs::write(&path, lines).unwrap();
        let ago = std::time::SystemTime::now() - Duration::from_secs(60);
        File::options().append(true).open(&path).unwrap().set_modified(ago).unwrap();
        let mut work = self::work();
        work.read_log(&path);
        assert_eq!(work.detector.seen().requests, Some(0));
        assert!(work.is_quiet(Instant::now()));
    }

    #[test]
    fn logs_are_read_as_they_grow_and_turn_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve-00000000.log");
        let mut work = work();
        work.read_log(&path);
        fs::write(&path, "load_model: loading mod").unwrap();
        work.read_log(&path);
        assert_eq!(work.detector.seen().phase, None);
        fs::write(&path, "load_model: loading model 'x'\n").unwrap();
        work.read_log(&path);
        assert_eq!(work.detector.seen().phase, Some(Phase::Loading));
        // Turned over: what is there now is new.
        fs::write(&path, "listening on http://x\n").unwrap();
        work.read_log(&path);
        assert_eq!(work.detector.seen().phase, Some(Phase::Ready));
        // Of a flood both ends are read.
        let flood = "x".repeat(99) + "\n";
        let flood = flood.repeat(usize::try_from(2 * READ_MAX).unwrap() / 100);
        let log = format!(
            "{}unknown model architecture: 'y'\n{flood}load_model: loading model 'z'\n",
            "listening on http://x\n"
        );
        fs::write(&path, log).unwrap();
        work.read_log(&path);
        let seen = work.detector.seen();
        assert_eq!(seen.phase, Some(Phase::Loading));
        assert_eq!(seen.cause.as_ref().and_then(|found| found.what.as_deref()), Some("y"));
        // The new file may be longer than what was read of the old one.
        fs::write(&path, "listening on http://x\n").unwrap();
        work.read_log(&path);
        fs::rename(&path, folder.path().join("older")).unwrap();
        fs::write(&path, "load_model: loading model 'y'\nand more words than before\n").unwrap();
        work.read_log(&path);
        assert_eq!(work.detector.seen().phase, Some(Phase::Loading));
    }
}
