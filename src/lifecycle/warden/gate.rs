//! The manager's side of a launch: a Unix socket at which the warden presents itself.
//!
//! The kernel names the peer (`SO_PEERCRED`, unix(7)), so nobody has to be believed. The order is kept
//! by types: [`Gate::admit`] returns the bound identities, [`Waiting::go`] demands the [`Durable`] proof
//! that they are on disk.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::wire::{Hello, Orders, Outcome, receive, send};
use crate::lifecycle::authority::{Pin, Pinned};
use crate::lifecycle::door::{self, Door};
use crate::lifecycle::identity::Pid;
use crate::lifecycle::inspect::Inspector;
use crate::lifecycle::store::Durable;
use crate::lifecycle::tether::PROTOCOL;

/// Why a launch did not come to a running workload.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The gate could not be opened.
    #[error("failed to open the launch gate {path}: {source}", path = path.display())]
    Open {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Nobody came in time.
    #[error("the launched process did not report within {0:.1} s")]
    Timeout(f64),
    /// Somebody came who is not the warden.
    #[error("refused at the launch gate: {0}")]
    Stranger(String),
    /// The identity of the warden or the workload could not be read.
    #[error("the identity of the new process could not be read: {0}")]
    Unidentified(String),
    /// The connection broke before the orders were given: nothing runs.
    #[error("the launch broke off: {0}")]
    Broken(#[from] io::Error),
    /// The orders were given, and nobody said what came of them: the workload may run.
    #[error("the launch broke off, and its warden did not say what came of it: {0}")]
    Lost(io::Error),
    /// The workload could not be executed.
    #[error("{what}: {source}")]
    Exec {
        /// The program or the directory.
        what: String,
        /// What execve(2) or chdir(2) said.
        source: io::Error,
    },
}

/// An open gate; its socket is removed when it is dropped.
#[derive(Debug)]
pub struct Gate(Door);

impl Gate {
    /// Opens a gate in the runtime directory.
    ///
    /// # Errors
    /// When the directory does not take a socket.
    pub fn open(runtime_dir: &Path) -> Result<Self, GateError> {
        let path = door::place(runtime_dir, 'g');
        Door::open(path.clone()).map(Self).map_err(|source| GateError::Open { path, source })
    }

    /// Returns where the gate is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Waits for the warden and binds it and its trampoline. `parent` is the process that the warden
    /// must be, or must be a child of: the manager's own child, or the root of the pane.
    ///
    /// # Errors
    /// When nobody comes, or somebody else does.
    pub fn admit(self, parent: Pid, patience: Duration, inspector: &Inspector) -> Result<Waiting, GateError> {
        let caller = self.0.answer(patience).map_err(|error| {
            let late = error.kind() == io::ErrorKind::TimedOut;
            if late { GateError::Timeout(patience.as_secs_f64()) } else { GateError::Broken(error) }
        })?;
        let mut stream = caller.stream;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        if caller.uid != rustix::process::geteuid() {
            return Err(GateError::Stranger(format!("a process of user {}", caller.uid.as_raw())));
        }
        let hello: Hello = receive(&mut stream)?;
        if hello.protocol != PROTOCOL {
            return Err(GateError::Stranger(format!("it speaks protocol {}, not {PROTOCOL}", hello.protocol)));
        }
        if caller.pid != Some(hello.warden) {
            return Err(GateError::Stranger(format!("process {:?} says that it is {}", caller.pid, hello.warden)));
        }
        if matches!(inspector, Inspector::None) {
            return Err(GateError::Unidentified("no process inspector on this host".into()));
        }
        let warden = held(inspector, hello.warden)?;
        let workload = held(inspector, hello.workload)?;
        if hello.warden != parent && warden.facts().ppid != parent.raw() {
            return Err(GateError::Stranger(format!("process {} is no child of {parent}", hello.warden)));
        }
        if workload.facts().ppid != hello.warden.raw() {
            return Err(GateError::Stranger(format!("process {} is no child of its warden", hello.workload)));
        }
        Ok(Waiting { stream, warden, workload })
    }
}

fn held(inspector: &Inspector, pid: Pid) -> Result<Pinned, GateError> {
    match Pinned::open(inspector, pid) {
        Pin::Held(pinned) => Ok(pinned),
        Pin::Gone => Err(GateError::Unidentified(format!("{pid} is gone already"))),
        Pin::Unreadable(error) => Err(GateError::Unidentified(error.to_string())),
    }
}

/// A warden and a trampoline that wait at the gate. Dropped, they leave without a workload.
#[derive(Debug)]
pub struct Waiting {
    stream: UnixStream,
    /// The warden.
    pub warden: Pinned,
    /// The trampoline, which is the workload after its exec.
    pub workload: Pinned,
}

impl Waiting {
    /// Sends the orders and waits until the workload was executed.
    ///
    /// # Errors
    /// When the connection breaks or the program cannot be executed; nothing runs then, but for [`GateError::Lost`].
    pub fn go(mut self, durable: &Durable, orders: &Orders) -> Result<Lifeline, GateError> {
        debug_assert_eq!(durable.session(), orders.session);
        send(&mut self.stream, orders)?;
        match receive(&mut self.stream).map_err(GateError::Lost)? {
            Outcome::Started => Ok(Lifeline { stream: self.stream, warden: self.warden, workload: self.workload }),
            Outcome::Failed { errno, what } => {
                Err(GateError::Exec { what, source: io::Error::from_raw_os_error(errno) })
            }
        }
    }
}

/// The open connection to a warden. For a PTY session its end means that the owner is gone: the
/// warden tears the tree down. In tmux nothing follows from it.
#[derive(Debug)]
pub struct Lifeline {
    stream: UnixStream,
    /// The warden.
    pub warden: Pinned,
    /// The workload.
    pub workload: Pinned,
}

impl Lifeline {
    /// Ends the lifeline.
    pub fn cut(&self) {
        self.stream.shutdown(std::net::Shutdown::Both).ok();
    }
}
