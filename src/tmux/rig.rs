//! A real tmux server for tests: private directory, random name, ended with the test.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

use crate::lifecycle::identity::Pid;

use super::argv::NewSession;
use super::parse::Created;
use super::server::Server;
use super::socket::{Probe, SocketRef};

/// A directory, a server in it, and everything that is needed to end it.
pub(super) struct Rig {
    pub(super) dir: tempfile::TempDir,
    pub(super) server: Server,
    name: String,
    /// Every server of this rig, held by descriptors that cannot come to mean another process.
    servers: Mutex<Vec<OwnedFd>>,
}

impl Rig {
    pub(super) fn new() -> Self {
        Self::with_vars(&[])
    }

    /// A rig whose launcher has these variables besides the necessary ones.
    pub(super) fn with_vars(more: &[(&str, &str)]) -> Self {
        let dir = tempfile::Builder::new().prefix("rig").tempdir().unwrap();
        let name = format!("rig-{}", dir.path().file_name().unwrap().to_str().unwrap().trim_start_matches('.'));
        let config = dir.path().join("tmux.conf");
        std::fs::write(&config, super::CONFIG).unwrap();
        let path: OsString = std::env::var_os("PATH").unwrap();
        let mut vars: Vec<(OsString, OsString)> = vec![
            ("PATH".into(), path),
            ("HOME".into(), dir.path().into()),
            ("TMUX_TMPDIR".into(), dir.path().into()),
            ("TERM".into(), "xterm-256color".into()),
            ("SHELL".into(), "/bin/sh".into()),
        ];
        vars.extend(more.iter().map(|(name, value)| (name.into(), value.into())));
        let server = Server::new(SocketRef::Name(name.clone()), Some(config), vars);
        Self { dir, server, name, servers: Mutex::default() }
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts `sh -c script sh args...` in a session of 80 x 24.
    pub(super) fn sh(&self, name: &str, script: &str, args: &[&str]) -> Created {
        self.create(name, ["sh", "-c", script, "sh"].iter().chain(args).map(OsString::from).collect())
    }

    /// Starts a program in a session of 80 x 24.
    pub(super) fn create(&self, name: &str, argv: Vec<OsString>) -> Created {
        let created = self.server.create(&NewSession { name: name.to_owned(), rows: 24, cols: 80, argv }).unwrap();
        let server = pidfd_open(created.server_pid.rustix(), PidfdFlags::empty()).unwrap();
        self.servers.lock().unwrap().push(server);
        created
    }

    /// A session in which nothing happens.
    pub(super) fn idle(&self, name: &str) -> Created {
        self.sh(name, "exec sleep 1000", &[])
    }

    /// A session that writes what is typed to a file, byte by byte; ready when this returns.
    pub(super) fn recorder(&self, name: &str) -> (Created, PathBuf) {
        let file = self.file(&format!("{name}.bytes"));
        let created = self.sh(name, "stty raw -echo; : > \"$1\"; exec cat >> \"$1\"", &[file.to_str().unwrap()]);
        eventually("the recorder starts", || file.exists());
        (created, file)
    }

    /// Runs tmux on the rig's server, past the code under test; returns whether it succeeded, and what it printed.
    pub(super) fn tmux(&self, args: &[&str]) -> (bool, String) {
        let output = Command::new("tmux")
            .args(["-u", "-L", &self.name])
            .args(args)
            .env("TMUX_TMPDIR", self.dir.path())
            .env_remove("TMUX")
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    pub(super) fn running(&self) -> Option<Pid> {
        match self.server.probe() {
            Probe::Running { pid } => Some(pid),
            Probe::Absent | Probe::Stale | Probe::Unreadable(_) => None,
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let servers = std::mem::take(&mut *self.servers.lock().unwrap());
        for server in &servers {
            let _ = pidfd_send_signal(server, rustix::process::Signal::CONT);
        }
        self.tmux(&["kill-server"]);
        // A server whose socket was lost hears TERM.
        for server in &servers {
            let _ = pidfd_send_signal(server, rustix::process::Signal::TERM);
        }
    }
}

/// Sends a signal to a process that the test has started.
pub(super) fn signal(pid: Pid, signal: Signal) {
    kill(nix::unistd::Pid::from_raw(pid.raw()), signal).unwrap();
}

pub(super) fn alive(pid: Pid) -> bool {
    kill(nix::unistd::Pid::from_raw(pid.raw()), None).is_ok()
}

/// Waits until something is so.
pub(super) fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(10);
    while !so() {
        assert!(Instant::now() < until, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(super) fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_default()
}
