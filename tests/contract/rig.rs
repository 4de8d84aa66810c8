//! The place of one test: directories, a tmux server of its own, and the end of everything in it.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::client::Batch;
use crate::oracle::{Ledger, NOTE, Watched, all_pids};

/// Longer than anything here takes on a busy machine; a test that hangs ends with a word about what.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Waits until something holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < end, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A state directory, a runtime directory, a home and a tmux socket that belong to one test.
pub(crate) struct Rig {
    dir: TempDir,
    pub(crate) socket: String,
}

impl Rig {
    pub(crate) fn new() -> Self {
        // Unix sockets below it need a short path.
        let dir = tempfile::Builder::new().prefix("ct").tempdir_in("/tmp").unwrap();
        let socket = format!("c{}", dir.path().file_name().unwrap().to_str().unwrap());
        for name in ["run", "home", "work"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let rig = Self { dir, socket };
        rig.executable("note", NOTE);
        rig
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path("state")
    }

    /// The program's own directory in `$XDG_RUNTIME_DIR`.
    pub(crate) fn runtime(&self) -> PathBuf {
        self.path("run/cookbook-tui")
    }

    /// Returns what launches have in the runtime directory; managers have their control sockets there, too.
    pub(crate) fn passing(&self) -> Vec<PathBuf> {
        let is_control = |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'c');
        walk(&self.runtime()).into_iter().filter(|path| *path != self.runtime() && !is_control(path)).collect()
    }

    /// Where commands are run.
    pub(crate) fn work(&self) -> PathBuf {
        self.path("work")
    }

    pub(crate) fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn executable(&self, name: &str, content: &str) -> PathBuf {
        let path = self.write(name, content);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    pub(crate) fn ledger(&self, name: &str) -> Ledger {
        Ledger::new(&self.path("note"), self.path(name))
    }

    /// Returns a number of seconds for sleep(1) that no other test uses.
    pub(crate) fn nap(&self) -> String {
        let name = self.dir.path().file_name().unwrap().to_str().unwrap();
        let digits = name.bytes().fold(7_u64, |sum, byte| (sum * 257 + u64::from(byte)) % 100_000_007);
        format!("3600.{digits:09}")
    }

    /// Sets the environment of a command: nothing of the person's who runs the tests.
    pub(crate) fn settle(&self, command: &mut Command) {
        let path = std::env::var_os("PATH").unwrap();
        command.env_clear().env("PATH", path).current_dir(self.work());
        command.env("HOME", self.path("home")).env("XDG_CONFIG_HOME", self.path("home/config"));
        command.env("XDG_STATE_HOME", self.path("home/state")).env("XDG_RUNTIME_DIR", self.path("run"));
        command.env("TMUX_TMPDIR", self.dir.path()).env("LC_ALL", "C.UTF-8").env("TERM", "xterm-256color");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    }

    /// Returns the binary with the arguments that every run has.
    pub(crate) fn base(&self) -> Vec<String> {
        let state = self.state().display().to_string();
        let program = env!("CARGO_BIN_EXE_cookbook-tui");
        [program, "--state-dir", &state, "--tmux-socket", &self.socket].map(str::to_owned).to_vec()
    }

    /// Returns a run of the binary, not started yet.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.wrapped(&[], arguments)
    }

    /// Returns a run of the binary below another program, for example `unshare -m`.
    pub(crate) fn wrapped(&self, wrapper: &[&str], arguments: &[&str]) -> Command {
        let mut words: Vec<String> = wrapper.iter().map(|word| (*word).to_owned()).collect();
        words.extend(self.base());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(arguments);
        self.settle(&mut command);
        command
    }

    /// Runs a subcommand to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).spawn().unwrap())
    }

    /// Runs a subcommand that must succeed, with `--json`, and returns its answer.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let mut words = arguments.to_vec();
        // Before `--`, behind which everything is the workload's.
        words.insert(words.iter().position(|word| *word == "--").unwrap_or(words.len()), "--json");
        let ran = self.run(&words);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        assert_eq!(ran.text().lines().count(), 1, "one line of JSON: {ran:?}");
        serde_json::from_slice(&ran.out).unwrap()
    }

    /// Launches a command in tmux as a person would, and returns the answer.
    pub(crate) fn launch_tmux(&self, options: &[&str], argv: &[String]) -> Value {
        let mut words = vec!["launch", "--host", "tmux"];
        words.extend(options);
        words.push("--");
        words.extend(argv.iter().map(String::as_str));
        self.json(&words)
    }

    /// Starts a batch.
    pub(crate) fn batch(&self) -> Batch {
        self.batch_with(&[], &[])
    }

    /// Starts a batch below another program, with options.
    pub(crate) fn batch_with(&self, wrapper: &[&str], options: &[&str]) -> Batch {
        let mut words = options.to_vec();
        words.push("--batch");
        Batch::start(self.wrapped(wrapper, &words))
    }

    /// Runs a whole batch at once and returns what it printed.
    pub(crate) fn script(&self, options: &[&str], input: &[u8]) -> Ran {
        let file = self.path("script");
        fs::write(&file, input).unwrap();
        let mut words = options.to_vec();
        words.push("--batch");
        let mut command = self.command(&words);
        command.stdin(fs::File::open(&file).unwrap());
        Ran::of(command.spawn().unwrap())
    }

    /// Asks the test's own tmux server.
    pub(crate) fn tmux(&self, arguments: &[&str]) -> Ran {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.socket]).args(arguments);
        self.settle(&mut command);
        Ran::of(command.spawn().unwrap())
    }

    /// Returns the names of the files that are left of sessions in the state directory, logs aside.
    pub(crate) fn records(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.state().join("sessions")) else { return Vec::new() };
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Returns every process that carries the test's directory in its environment or arguments: whatever the
    /// program and its sessions have started.
    pub(crate) fn processes(&self) -> Vec<i32> {
        all_pids().into_iter().filter(|pid| self.carries(*pid)).collect()
    }

    fn carries(&self, pid: i32) -> bool {
        let token = self.dir.path().as_os_str().as_encoded_bytes();
        ["cmdline", "environ"].iter().any(|file| {
            let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            bytes.windows(token.len()).any(|window| window == token)
        })
    }

    /// Waits until no process of the test is left.
    pub(crate) fn assert_empty(&self) {
        until("no process of this test is left", || self.processes().is_empty());
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // Without a server it complains; that is fine.
        drop(self.tmux(&["kill-server"]));
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let left = self.processes();
            if left.is_empty() || Instant::now() > end {
                break;
            }
            for pid in left {
                // Held first, then looked at again: what is killed is what carries our directory.
                let held = Watched::find(pid);
                if self.carries(pid) {
                    held.iter().for_each(Watched::kill);
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// What a program printed, and how it ended.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: Vec<u8>,
}

impl std::fmt::Debug for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (out, err) = (String::from_utf8_lossy(&self.out), String::from_utf8_lossy(&self.err));
        write!(f, "exit code {:?}\n--- stdout\n{out}--- stderr\n{err}---", self.code)
    }
}

impl Ran {
    /// Waits for a child with piped output: to its end, and to the end of its output.
    pub(crate) fn of(mut child: Child) -> Self {
        let (sender, results) = channel();
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        read(stdout, 0, &sender);
        read(stderr, 1, &sender);
        let mut streams = [Vec::new(), Vec::new()];
        for _ in 0..2 {
            let Ok((index, bytes)) = results.recv_timeout(DEADLINE) else {
                child.kill().ok();
                child.wait().ok();
                panic!("the output never ended: {:?}", String::from_utf8_lossy(&streams[0]));
            };
            streams[index] = bytes;
        }
        let code = wait(&mut child);
        let [out, err] = streams;
        Self { code, out, err }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.out.clone()).unwrap()
    }

    pub(crate) fn error(&self) -> String {
        String::from_utf8(self.err.clone()).unwrap()
    }

    /// Returns every line of the output, each of which must be JSON.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let parse = |line: &[u8]| {
            serde_json::from_slice(line).unwrap_or_else(|_| panic!("not JSON: {:?}", String::from_utf8_lossy(line)))
        };
        self.out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(parse).collect()
    }
}

fn read(stream: Option<impl Read + Send + 'static>, index: usize, sender: &std::sync::mpsc::Sender<(usize, Vec<u8>)>) {
    let (mut stream, sender) = (stream.unwrap(), sender.clone());
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).ok();
        sender.send((index, bytes)).ok();
    });
}

/// Waits for a child; one that does not end in time is ended, and the test with it.
pub(crate) fn wait(child: &mut Child) -> Option<i32> {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if Instant::now() > end {
            child.kill().ok();
            child.wait().ok();
            panic!("the program never ended");
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// Returns every file below a directory, directories included.
pub(crate) fn walk(dir: &Path) -> Vec<PathBuf> {
    let (mut found, mut open) = (vec![dir.to_owned()], vec![dir.to_owned()]);
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found
}
