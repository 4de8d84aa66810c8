//! What people start and stop workloads with, each as its documents say, with the settings that leave the fewest.
//!
//! A tool starts `bash DIR/job`, which is another workload each time, and stops it. It is opened once for all.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Signal, pidfd_send_signal};
use serde_json::json;

use crate::held::{finish, pidfd_of};
use crate::peers::Peers;
use crate::place::{Batch, Place};
use crate::terminal::Terminal;

/// Longest that a client may take, whatever it does.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Setting {
    /// Between the first signal and KILL, where a tool can be told.
    pub(crate) grace: Duration,
    pub(crate) peers: Peers,
}

pub(crate) trait Tool: Send {
    fn name(&self) -> &'static str;
    /// Seconds between the first signal and KILL; 0 where there is no second one.
    fn grace(&self) -> f64;
    fn start(&mut self, job: &Path) -> Result<(), String>;
    /// Stops what was started last; returns when the tool says that it has.
    fn stop(&mut self);
    /// Forgets it.
    fn after(&mut self) {}
}

type Opened = Result<Box<dyn Tool>, String>;
type Open = fn(&Path, &Setting) -> Opened;

pub(crate) const TOOLS: [(&str, Open); 9] = [
    ("here in a PTY", |_, setting| Ours::open("here in a PTY", "pty", setting)),
    ("here in tmux", |_, setting| Ours::open("here in tmux", "tmux", setting)),
    ("tmux", Tmux::open),
    ("mprocs", Mprocs::open),
    ("pueue", Pueue::open),
    ("supervisord", Supervisor::open),
    ("circus", Circus::open),
    ("honcho", Honcho::open),
    ("pm2", Pm2::open),
];

// --- Common to several -----------------------------------------------------------------------------

/// A way to run programs of the tools in a directory, with nothing of the person's environment.
struct Runner {
    dir: PathBuf,
    peers: Peers,
}

impl Runner {
    fn new(dir: &Path, peers: &Peers) -> Self {
        Self { dir: dir.to_owned(), peers: peers.clone() }
    }

    fn command(&self, program: &str) -> Result<Command, String> {
        let path = self.peers.program(program).ok_or("not installed")?;
        let mut command = Command::new(path);
        self.settle(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command)
    }

    fn settle(&self, command: &mut Command) {
        command.env_clear().env("PATH", self.peers.path()).env("HOME", &self.dir).env("LC_ALL", "C.UTF-8");
        command.env("PM2_HOME", self.dir.join("pm2")).env("TERM", "xterm-256color").current_dir(&self.dir);
    }

    /// Runs a client to its end, or for as long as anybody would wait. Returns what it printed, if it ended well.
    fn ask(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        let printed = self.dir.join("printed");
        let mut command = self.command(program)?;
        command.args(arguments).stdout(fs::File::create(&printed).unwrap());
        let mut child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > end {
                child.kill().unwrap();
                break child.wait().unwrap();
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let text = fs::read_to_string(printed).unwrap_or_default().trim().to_owned();
        if status.success() { Ok(text) } else { Err(format!("{program} {}: {status}: {text}", arguments.join(" "))) }
    }

    /// Asks until there is an answer: a daemon has to come up.
    fn ask_until(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.ask(program, arguments) {
                Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(50)),
                answer => return answer,
            }
        }
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }
}

/// A child that is asked to leave, and then made to.
struct Daemon(Child);

impl Daemon {
    fn start(mut command: Command) -> Result<Self, String> {
        command.spawn().map(Self).map_err(|error| error.to_string())
    }

    /// Sends TERM. It is a child that has not been waited for, so that its pid is its own.
    fn ask_to_end(&self) -> Option<OwnedFd> {
        let pidfd = pidfd_of(self.0.id().try_into().unwrap())?;
        pidfd_send_signal(&pidfd, Signal::TERM).ok();
        Some(pidfd)
    }

    fn ends_within(&mut self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while self.0.try_wait().unwrap().is_none() {
            if Instant::now() > end {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.ask_to_end());
        if !self.ends_within(Duration::from_secs(3)) {
            self.0.kill().ok();
            self.0.wait().unwrap();
        }
    }
}

// --- The tools -------------------------------------------------------------------------------------

struct Ours {
    name: &'static str,
    host: &'static str,
    grace: Duration,
    session: String,
    // It ends before its place goes.
    batch: Batch,
    _place: Place,
}

impl Ours {
    fn open(name: &'static str, host: &'static str, setting: &Setting) -> Opened {
        if host == "tmux" && !setting.peers.has("tmux") {
            return Err("tmux is not installed".to_owned());
        }
        let place = Place::new();
        let batch = place.batch();
        Ok(Box::new(Self { name, host, grace: setting.grace, session: String::new(), batch, _place: place }))
    }
}

impl Tool for Ours {
    fn name(&self) -> &'static str {
        self.name
    }

    fn grace(&self) -> f64 {
        self.grace.as_secs_f64()
    }

    fn start(&mut self, job: &Path) -> Result<(), String> {
        let launch = json!({
            "cmd": "launch", "host": self.host, "kind": "serve", "command": ["bash", job],
            "grace_s": self.grace.as_secs_f64(),
        });
        self.session = self.batch.ask(&launch)["session"].as_str().unwrap().into();
        Ok(())
    }

    fn stop(&mut self) {
        // A session that is over already is no fault here: whoever is left is counted.
        drop(self.batch.try_ask(&json!({ "cmd": "stop", "session": self.session })));
    }

    fn after(&mut self) {
        drop(self.batch.try_ask(&json!({ "cmd": "dismiss", "session": self.session })));
    }
}

struct Tmux(Runner);

impl Tmux {
    const SERVER: [&'static str; 3] = ["-S", "server", "-f/dev/null"];

    fn open(dir: &Path, setting: &Setting) -> Opened {
        let tmux = Self(Runner::new(dir, &setting.peers));
        tmux.ask(&["new-session", "-d", "-s", "idle", "sleep", "3600"])?;
        Ok(Box::new(tmux))
    }

    fn ask(&self, arguments: &[&str]) -> Result<String, String> {
        self.0.ask("tmux", &[&Self::SERVER[..], arguments].concat())
    }
}

impl Tool for Tmux {
    fn name(&self) -> &'static str {
        "tmux"
    }

    fn grace(&self) -> f64 {
        0.0
    }

    fn start(&mut self, job: &Path) -> Result<(), String> {
        self.ask(&["new-session", "-d", "-s", "job", "bash", job.to_str().unwrap()]).map(drop)
    }

    fn stop(&mut self) {
        drop(self.ask(&["kill-session", "-t", "=job"]));
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        drop(self.ask(&["kill-server"]));
    }
}

struct Mprocs {
    terminal: Terminal,
    grace: Duration,
}

impl Mprocs {
    fn open(dir: &Path, setting: &Setting) -> Opened {
        let runner = Runner::new(dir, &setting.peers);
        let config = json!({ "procs": { "job": { "cmd": ["bash", runner.path("job")], "autostart": false } } });
        let config = runner.write("mprocs.json", &config.to_string());
        let program = setting.peers.program("mprocs").ok_or("not installed")?;
        let mut command = Terminal::command(program.to_str().unwrap());
        command.args(["--config", &config]);
        runner.settle(&mut command);
        let terminal = Terminal::start(command, crate::place::SIZE);
        terminal.wait_for("DOWN");
        Ok(Box::new(Self { terminal, grace: setting.grace }))
    }

    fn is_up(&self) -> bool {
        self.terminal.text().contains("UP")
    }

    fn goes_down(&self, within: Duration) -> bool {
        let end = Instant::now() + within;
        while self.is_up() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        !self.is_up()
    }
}

impl Tool for Mprocs {
    fn name(&self) -> &'static str {
        "mprocs"
    }

    fn grace(&self) -> f64 {
        self.grace.as_secs_f64()
    }

    fn start(&mut self, _: &Path) -> Result<(), String> {
        self.terminal.type_bytes(b"s");
        Ok(())
    }

    /// TERM, and KILL after the grace, as a person does with its keys.
    fn stop(&mut self) {
        self.terminal.type_bytes(b"x");
        if !self.goes_down(self.grace) {
            self.terminal.type_bytes(b"X");
            self.goes_down(Duration::from_secs(1));
        }
    }

    fn after(&mut self) {
        // It is down only when everybody has let go of its terminal.
        self.goes_down(Duration::from_secs(2));
    }
}

struct Pueue {
    runner: Runner,
    config: String,
    task: String,
    _daemon: Daemon,
}

impl Pueue {
    fn open(dir: &Path, setting: &Setting) -> Opened {
        let runner = Runner::new(dir, &setting.peers);
        let shared = json!({
            "pueue_directory": dir, "runtime_directory": dir, "use_unix_socket": true, "unix_socket_path": dir.join("socket"),
        });
        let config = runner.write("pueue.yml", &json!({ "client": {}, "daemon": {}, "shared": shared }).to_string());
        let mut command = runner.command("pueued")?;
        command.args(["-c", &config]);
        let daemon = Daemon::start(command)?;
        runner.ask_until("pueue", &["-c", &config, "parallel", "0"])?;
        Ok(Box::new(Self { runner, config, task: String::new(), _daemon: daemon }))
    }
}

impl Tool for Pueue {
    fn name(&self) -> &'static str {
        "pueue"
    }

    fn grace(&self) -> f64 {
        0.0
    }

    fn start(&mut self, job: &Path) -> Result<(), String> {
        let job = job.to_str().unwrap();
        self.task = self.runner.ask("pueue", &["-c", &self.config, "add", "-i", "-p", "--", "bash", job])?;
        Ok(())
    }

    fn stop(&mut self) {
        drop(self.runner.ask("pueue", &["-c", &self.config, "kill", &self.task]));
    }
}

struct Supervisor {
    runner: Runner,
    config: String,
    grace: Duration,
    _daemon: Daemon,
}

impl Supervisor {
    fn open(dir: &Path, setting: &Setting) -> Opened {
        let runner = Runner::new(dir, &setting.peers);
        let dir = dir.to_str().unwrap();
        // It takes whole seconds.
        let grace = Duration::from_secs(setting.grace.as_secs().max(1));
        let text = format!(
            "[supervisord]\nnodaemon=true\nlogfile={dir}/log\npidfile={dir}/pid\n[unix_http_server]\nfile={dir}/socket\n\
             [rpcinterface:supervisor]\nsupervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface\n\
             [supervisorctl]\nserverurl=unix://{dir}/socket\n\
             [program:job]\ncommand=bash {dir}/job\nautostart=false\nautorestart=false\nstartsecs=0\n\
             stopwaitsecs={}\nstopasgroup=true\nkillasgroup=true\n",
            grace.as_secs()
        );
        let config = runner.write("supervisor.conf", &text);
        let mut command = runner.command("supervisord")?;
        command.args(["-c", &config]);
        let daemon = Daemon::start(command)?;
        runner.ask_until("supervisorctl", &["-c", &config, "pid"])?;
        Ok(Box::new(Self { runner, config, grace, _daemon: daemon }))
    }
}

impl Tool for Supervisor {
    fn name(&self) -> &'static str {
        "supervisord"
    }

    fn grace(&self) -> f64 {
        self.grace.as_secs_f64()
    }

    fn start(&mut self, _: &Path) -> Result<(), String> {
        self.runner.ask("supervisorctl", &["-c", &self.config, "start", "job"]).map(drop)
    }

    fn stop(&mut self) {
        drop(self.runner.ask("supervisorctl", &["-c", &self.config, "stop", "job"]));
    }
}

struct Circus {
    runner: Runner,
    endpoint: String,
    grace: Duration,
    _daemon: Daemon,
}

impl Circus {
    fn open(dir: &Path, setting: &Setting) -> Opened {
        let runner = Runner::new(dir, &setting.peers);
        let dir = dir.to_str().unwrap();
        let endpoint = format!("ipc://{dir}/endpoint");
        let text = format!(
            "[circus]\nendpoint = {endpoint}\npubsub_endpoint = ipc://{dir}/events\n[watcher:job]\ncmd = bash {dir}/job\n\
             numprocesses = 1\nautostart = False\nrespawn = False\nstop_children = True\ngraceful_timeout = {}\n",
            setting.grace.as_secs_f64()
        );
        let config = runner.write("circus.ini", &text);
        let mut command = runner.command("circusd")?;
        command.arg(&config);
        let daemon = Daemon::start(command)?;
        runner.ask_until("circusctl", &["--endpoint", &endpoint, "list"])?;
        Ok(Box::new(Self { runner, endpoint, grace: setting.grace, _daemon: daemon }))
    }
}

impl Tool for Circus {
    fn name(&self) -> &'static str {
        "circus"
    }

    fn grace(&self) -> f64 {
        self.grace.as_secs_f64()
    }

    fn start(&mut self, _: &Path) -> Result<(), String> {
        self.runner.ask("circusctl", &["--endpoint", &self.endpoint, "start", "job"]).map(drop)
    }

    fn stop(&mut self) {
        drop(self.runner.ask("circusctl", &["--endpoint", &self.endpoint, "stop", "job", "--waiting"]));
    }
}

/// It has no command to stop: it runs in front, and is interrupted.
struct Honcho {
    runner: Runner,
    running: Option<Daemon>,
}

impl Honcho {
    fn open(dir: &Path, setting: &Setting) -> Opened {
        let runner = Runner::new(dir, &setting.peers);
        runner.command("honcho")?;
        runner.write("Procfile", &format!("job: bash {}\n", runner.path("job")));
        Ok(Box::new(Self { runner, running: None }))
    }
}

impl Tool for Honcho {
    fn name(&self) -> &'static str {
        "honcho"
    }

    /// It insists.
    fn grace(&self) -> f64 {
        5.0
    }

    fn start(&mut self, _: &Path) -> Result<(), String> {
        let mut command = self.runner.command("honcho")?;
        command.args(["start", "-f", &self.runner.path("Procfile")]);
        self.running = Some(Daemon::start(command)?);
        Ok(())
    }

    fn stop(&mut self) {
        if let Some(running) = &mut self.running {
            drop(running.ask_to_end());
            running.ends_within(PATIENCE);
        }
    }

    fn after(&mut self) {
        drop(self.running.take());
    }
}

struct Pm2 {
    runner: Runner,
    grace: Duration,
    daemon: OwnedFd,
}

impl Pm2 {
    fn open(dir: &Path, setting: &Setting) -> Opened {
        let runner = Runner::new(dir, &setting.peers);
        runner.ask("pm2", &["ping"])?;
        // Held while it answers, so that the pid is its own.
        let pid = fs::read_to_string(runner.path("pm2/pm2.pid")).map_err(|error| format!("pm2.pid: {error}"))?;
        let daemon = pid.trim().parse().ok().and_then(pidfd_of).ok_or("its daemon is not there")?;
        runner.ask("pm2", &["ping"])?;
        Ok(Box::new(Self { runner, grace: setting.grace, daemon }))
    }
}

impl Tool for Pm2 {
    fn name(&self) -> &'static str {
        "pm2"
    }

    fn grace(&self) -> f64 {
        self.grace.as_secs_f64()
    }

    fn start(&mut self, job: &Path) -> Result<(), String> {
        let (job, grace) = (job.to_str().unwrap(), self.grace.as_millis().to_string());
        let words =
            ["start", job, "--name", "job", "--interpreter", "bash", "--no-autorestart", "--kill-timeout", &grace];
        self.runner.ask("pm2", &words).map(drop)
    }

    fn stop(&mut self) {
        drop(self.runner.ask("pm2", &["stop", "job"]));
    }

    fn after(&mut self) {
        drop(self.runner.ask("pm2", &["delete", "job"]));
    }
}

impl Drop for Pm2 {
    fn drop(&mut self) {
        drop(self.runner.ask("pm2", &["kill"]));
        finish(&self.daemon);
    }
}
