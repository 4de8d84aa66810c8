//! A world per test: directories, a tmux server, a ledger, bystanders, and the end of all of them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::ledger::{Entry, Held, Ledger, process_state};
use super::{Batch, PATIENCE, fixtures};

/// The configuration that asks for a cgroup for each session.
pub(crate) const CGROUP: &str = "[containment]\ncgroup = true\n";

/// Where the sessions of a test live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    Pty,
    Tmux,
}

impl Host {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pty => "pty",
            Self::Tmux => "tmux",
        }
    }
}

/// What the kernel of a test cannot do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    /// What it answers: 38 is `ENOSYS`, 1 is `EPERM`.
    pub(crate) errno: i32,
    /// To which calls.
    pub(crate) calls: &'static str,
}

/// How a session is launched.
pub(crate) struct Launch<'a> {
    pub(crate) host: Host,
    pub(crate) kind: &'a str,
    pub(crate) grace_s: f64,
    pub(crate) argv: &'a [&'a str],
}

/// A launched session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    /// `$N` of a session in tmux.
    pub(crate) in_tmux: Option<String>,
    /// Its front and warden, held.
    pub(crate) supervisors: Vec<Held>,
}

/// Everything of one test.
pub(crate) struct World {
    dir: tempfile::TempDir,
    pub(crate) ledger: Ledger,
    /// A duration that no other test sleeps.
    pub(crate) nap: String,
    socket: String,
    /// Who lived before this test: none of them may be signalled.
    pub(crate) strangers: BTreeSet<(i32, String)>,
    /// Processes beside the ledger that are to be ended.
    others: RefCell<Vec<Held>>,
    scripts: Cell<u32>,
    filter: Option<Filter>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::behind(None)
    }

    /// Returns a world in which all managers, and what they start, are behind a filter.
    pub(crate) fn behind(filter: Option<Filter>) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let unique = format!("{}{:03}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        // A short path: a socket's may have 107 bytes.
        let dir = tempfile::Builder::new().prefix("ct").tempdir_in("/tmp").unwrap();
        for name in ["run", "tmux", "home"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        let world = Self {
            ledger: Ledger::new(dir.path().join("ledger")),
            nap: format!("240.{unique}"),
            socket: format!("ct{unique}"),
            strangers: everybody(),
            others: RefCell::default(),
            scripts: Cell::new(0),
            filter,
            dir,
        };
        std::fs::write(world.path("filter.py"), include_str!("filter.py")).unwrap();
        world.recipes("");
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Writes a script for sh(1) or bash(1) and returns its path.
    pub(crate) fn shell(&self, body: &str) -> String {
        let head =
            format!("LEDGER={}\nNAP={}\nFX={}\n", self.ledger.path.display(), self.nap, self.dir.path().display());
        let lib = self.path("lib.sh");
        if !lib.exists() {
            std::fs::write(&lib, format!("{head}{}", fixtures::SHELL)).unwrap();
        }
        self.write(&format!(". {}\n{body}\n", lib.display()))
    }

    /// Writes a script for Python and returns its path.
    pub(crate) fn python(&self, body: &str) -> String {
        let head = format!(
            "LEDGER, NAP, FX = '{}', '{}', '{}'\n",
            self.ledger.path.display(),
            self.nap,
            self.dir.path().display()
        );
        self.write(&format!("{head}{}\n{body}\n", fixtures::PYTHON))
    }

    fn write(&self, text: &str) -> String {
        let number = self.scripts.replace(self.scripts.get() + 1);
        let path = self.path(&format!("script{number}"));
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Returns the environment of everything that this test starts.
    pub(crate) fn env(&self) -> Vec<(&'static str, String)> {
        let path = |name: &str| self.path(name).to_str().unwrap().to_owned();
        vec![
            ("PATH", std::env::var("PATH").unwrap()),
            ("HOME", path("home")),
            ("XDG_RUNTIME_DIR", path("run")),
            ("TMUX_TMPDIR", path("tmux")),
            ("TERM", "xterm-256color".to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            ("SHELL", "/bin/sh".to_owned()),
        ]
    }

    /// Returns the arguments that every call of the binary of this test begins with.
    pub(crate) fn binary(&self) -> Vec<String> {
        let state = self.path("state").to_str().unwrap().to_owned();
        let binary = env!("CARGO_BIN_EXE_cookbook-tui").to_owned();
        let mut argv = self.filter.map(|filter| self.filtered(filter)).unwrap_or_default();
        argv.extend([binary, "--state-dir".to_owned(), state, "--tmux-socket".to_owned(), self.socket.clone()]);
        argv
    }

    /// Returns the arguments that put the program that follows them behind a filter.
    pub(crate) fn filtered(&self, filter: Filter) -> Vec<String> {
        let script = self.path("filter.py").to_str().unwrap().to_owned();
        vec![python().to_owned(), "-I".to_owned(), script, filter.errno.to_string(), filter.calls.to_owned()]
    }

    /// Returns by which call signals are sent in this world.
    pub(crate) fn via(&self) -> &'static str {
        if self.filter.is_some() { "kill" } else { "pidfd" }
    }

    /// Returns a command in the environment of this test.
    pub(crate) fn command(&self, argv: &[String]) -> Command {
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).env_clear().envs(self.env()).current_dir(self.dir.path());
        command
    }

    pub(crate) fn batch(&self) -> Batch {
        let mut argv = self.binary();
        argv.extend(["--batch".to_owned(), "-".to_owned()]);
        Batch::start(self.command(&argv))
    }

    /// Runs a subcommand with `--json` and returns its exit code and answer.
    pub(crate) fn run(&self, arguments: &[&str]) -> (i32, Value) {
        let mut argv = self.binary();
        argv.extend(arguments.iter().map(|&argument| argument.to_owned()));
        argv.push("--json".to_owned());
        let output = finish(self.command(&argv));
        let text = String::from_utf8(output.stdout).unwrap();
        let answer = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"));
        (output.status.code().unwrap(), answer)
    }

    /// Returns the arguments that every call of this test's tmux begins with.
    pub(crate) fn tmux_argv(&self) -> Vec<String> {
        vec!["tmux".to_owned(), "-L".to_owned(), self.socket.clone()]
    }

    /// Asks this test's tmux server.
    pub(crate) fn tmux(&self, arguments: &[&str]) -> Output {
        let mut argv = self.tmux_argv();
        argv.extend(arguments.iter().map(|&argument| argument.to_owned()));
        finish(self.command(&argv))
    }

    /// Asks another tmux server, in the directory of sockets of this test.
    pub(crate) fn tmux_on(&self, socket: &str, arguments: &[&str]) -> Output {
        let argv: Vec<String> =
            ["tmux", "-L", socket].into_iter().chain(arguments.iter().copied()).map(str::to_owned).collect();
        finish(self.command(&argv))
    }

    /// Returns the tmux server, held.
    pub(crate) fn server(&self) -> Held {
        self.server_on(&self.socket)
    }

    /// Returns another tmux server, held.
    pub(crate) fn server_on(&self, socket: &str) -> Held {
        let output = self.tmux_on(socket, &["display-message", "-p", "#{pid}"]);
        let pid = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
        Held::open(Entry::of_pid(pid, "server").unwrap())
    }

    /// Returns the path of the tmux server's socket.
    pub(crate) fn socket_path(&self) -> PathBuf {
        self.path("tmux").join(format!("tmux-{}", rustix::process::getuid().as_raw())).join(&self.socket)
    }

    pub(crate) fn launch(&self, batch: &mut Batch, launch: &Launch<'_>) -> Session {
        let Launch { host, kind, grace_s, argv } = launch;
        let request =
            json!({ "cmd": "launch", "command": argv, "kind": kind, "host": host.name(), "grace_s": grace_s });
        self.launch_request(batch, request)
    }

    /// Launches a recipe that [`World::recipes`] wrote down.
    pub(crate) fn launch_recipe(&self, batch: &mut Batch, recipe: &str, host: Host) -> Session {
        self.launch_request(batch, json!({ "cmd": "launch", "recipe": recipe, "host": host.name() }))
    }

    /// Writes the configuration file. Managers read it when they start. With `SURVIVORS_CGROUP` in the environment
    /// of the tests every session gets a cgroup of its own, where the host grants one.
    pub(crate) fn recipes(&self, text: &str) {
        let asks = all_have_cgroups() && !text.contains("[containment]");
        let text = format!("{}{text}", if asks { CGROUP } else { "" });
        let dir = self.path("home/.config/cookbook-tui");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("config.toml"), text).unwrap();
    }

    fn launch_request(&self, batch: &mut Batch, request: Value) -> Session {
        let launched = batch.ok(request);
        self.launched(batch, &launched)
    }

    /// Takes in what a launch has answered.
    pub(crate) fn launched(&self, batch: &mut Batch, launched: &Value) -> Session {
        let id = launched["session"].as_str().unwrap().to_owned();
        let in_tmux = launched["tmux"]["session_id"].as_str().map(str::to_owned);
        let tree = batch.ok(json!({ "cmd": "tree", "session": id }));
        let supervisors = |pid: &Value| {
            let entry = Entry::of_pid(i32::try_from(pid.as_i64().unwrap()).unwrap(), "supervisor");
            entry.map(Held::open)
        };
        let rows = tree["supervisors"].as_array().cloned().unwrap_or_default();
        let supervisors: Vec<Held> = rows.iter().filter_map(|row| supervisors(&row["pid"])).collect();
        for supervisor in &supervisors {
            self.end_later(Held::open(supervisor.entry.clone()));
        }
        if in_tmux.is_some() {
            self.end_later(self.server());
        }
        Session { id, in_tmux, supervisors }
    }

    /// Returns the record of a session, if it is still there.
    pub(crate) fn tether(&self, session: &str) -> Option<Value> {
        let text = self.text(&format!("state/sessions/{session}.json"));
        serde_json::from_str(&text).ok()
    }

    /// Starts five processes with this command line, each with a kernel session of its own: nothing but
    /// their identity protects them. The last two also carry the marker of a session.
    pub(crate) fn bystanders(&self, argv: &[&str], marked_as: Option<&str>) -> Bystanders {
        let tether = marked_as.and_then(|session| self.tether(session));
        let children = (0..5).map(|number| {
            let mut command = Command::new("setsid");
            // It leads no group, so setsid(1) does not fork.
            command.args(argv).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            if let (Some(tether), Some(session), true) = (&tether, marked_as, number >= 3) {
                command.env("COOKBOOK_TUI_SESSION", session);
                command.env("COOKBOOK_TUI_MARKER", tether["marker"].as_str().unwrap());
            }
            command.spawn().unwrap()
        });
        let bystanders = Bystanders(children.collect());
        super::eventually("the bystanders' exec", || {
            bystanders.pids().into_iter().all(|pid| runs(i32::try_from(pid).unwrap(), argv))
        });
        bystanders
    }

    /// Returns the fronts, wardens and trampolines of this world that are there.
    pub(crate) fn stages(&self) -> Vec<i32> {
        let run = self.path("run").to_str().unwrap().to_owned();
        let is_stage = |pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            let names = words.get(1).is_some_and(|word| word.starts_with(b"__"));
            names && words.iter().any(|word| word.starts_with(run.as_bytes()))
        };
        let pids = std::fs::read_dir("/proc").unwrap().flatten();
        pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_stage).collect()
    }

    /// Has the tmux server, where there is one, ended with this world.
    pub(crate) fn end_server_later(&self) {
        let output = self.tmux(&["display-message", "-p", "#{pid}"]);
        if let Some(pid) = String::from_utf8(output.stdout).ok().and_then(|text| text.trim().parse().ok())
            && let Some(entry) = Entry::of_pid(pid, "server")
        {
            self.end_later(Held::open(entry));
        }
    }

    /// Has a process ended with this world.
    pub(crate) fn end_later(&self, held: Held) {
        self.others.borrow_mut().push(held);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for held in self.others.borrow().iter() {
            held.signal(Signal::CONT);
        }
        let sockets = std::fs::read_dir(self.socket_path().parent().unwrap()).into_iter().flatten();
        for socket in sockets.map(|socket| socket.unwrap().file_name()) {
            self.tmux_on(socket.to_str().unwrap(), &["kill-server"]);
        }
        self.ledger.end_all();
        // Wardens leave by themselves, with a last word into their state directory.
        for held in self.others.borrow().iter() {
            if !held.ends_within(Duration::from_secs(3)) {
                held.signal(Signal::KILL);
                held.ends_within(Duration::from_secs(3));
            }
        }
    }
}

/// Processes that look like a session's and are none of it.
pub(crate) struct Bystanders(Vec<Child>);

impl Bystanders {
    pub(crate) fn pids(&self) -> BTreeSet<i64> {
        self.0.iter().map(|child| i64::from(child.id())).collect()
    }

    /// Every one of them lives, and nobody stopped it.
    #[track_caller]
    pub(crate) fn assert_untouched(&mut self) {
        for child in &mut self.0 {
            assert_eq!(child.try_wait().unwrap(), None, "a bystander was ended");
            let state = process_state(i32::try_from(child.id()).unwrap()).unwrap();
            assert!(!matches!(state, 'T' | 't'), "a bystander was stopped");
        }
    }
}

impl Drop for Bystanders {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// Runs a command to its end, within limits.
fn finish(mut command: Command) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let held = Held::open(Entry::of_pid(i32::try_from(child.id()).unwrap(), "command").unwrap());
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    receiver.recv_timeout(PATIENCE).map_or_else(
        |_| {
            held.signal(Signal::KILL);
            panic!("{command:?} did not end")
        },
        Result::unwrap,
    )
}

/// Tells whether a process has this command line by now.
pub(crate) fn runs(pid: i32, argv: &[&str]) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let wanted: Vec<u8> = argv.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect();
    line == wanted
}

/// Returns pid and start tick of every process of the host.
fn everybody() -> BTreeSet<(i32, String)> {
    let pids =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Entry::of_pid(pid, "stranger")).map(|entry| (entry.pid, entry.token())).collect()
}

/// Tells whether every session of the tests is to have a cgroup.
pub(crate) fn all_have_cgroups() -> bool {
    std::env::var_os("SURVIVORS_CGROUP").is_some()
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Says that a test was not run.
#[expect(clippy::print_stderr, reason = "whoever reads the test's output is to know")]
pub(crate) fn skip(why: &str) {
    eprintln!("skipped: {why}");
}

/// Returns the interpreter itself: a shim would start processes that nobody writes down.
pub(crate) fn python() -> &'static str {
    static FOUND: OnceLock<String> = OnceLock::new();
    FOUND.get_or_init(|| {
        let plain = Path::new("/usr/bin/python3");
        if plain.exists() {
            return plain.to_str().unwrap().to_owned();
        }
        let output = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    })
}
