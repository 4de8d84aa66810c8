//! Reading the process table: the only place in the crate that opens files of `/proc` or runs ps(1).
//!
//! An [`Inspector`] answers with facts, never with judgements, and tells *absent* apart from
//! *unreadable*: a process that vanished is data, a process that cannot be read is a warning.

mod diag;
mod drm;
mod facts;
mod host;
mod kin;
mod procfs;
mod ps;
mod sockets;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;

pub use drm::{drm_memory, has_drm};
pub use facts::{Facts, Snapshot, Start, Unreadable};
pub use host::{INITIAL_PID_NAMESPACE, is_descriptor, own_program};
pub use kin::Kin;
pub use procfs::Procfs;
pub use ps::Ps;
pub use sockets::{
    Listener, Listening, PortOwner, Sockets, addresses_on, listeners_of, listening_on, owner_at, owner_of_port,
    ports_of, reachable, share,
};

use super::clock::boottime;
use super::identity::{Identity, Pid, StartToken};

/// Which inspector to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InspectorKind {
    /// `/proc` of Linux.
    Procfs,
    /// ps(1), where there is no procfs.
    Ps,
    /// Nothing: every verdict is unverifiable.
    None,
}

impl InspectorKind {
    /// Returns the word used on the command line and in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Procfs => "procfs",
            Self::Ps => "ps",
            Self::None => "none",
        }
    }
}

impl fmt::Display for InspectorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for InspectorKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "procfs" => Ok(Self::Procfs),
            "ps" => Ok(Self::Ps),
            "none" => Ok(Self::None),
            _ => Err(format!("unknown inspector {text:?}; it is one of procfs, ps, none")),
        }
    }
}

/// The process table of this host.
#[derive(Debug)]
pub enum Inspector {
    /// Reads procfs.
    Procfs(Procfs),
    /// Runs ps(1).
    Ps(Ps),
    /// Cannot look.
    None,
}

impl Inspector {
    /// Opens the wanted inspector; without a wish procfs where it is mounted, else ps.
    ///
    /// # Errors
    /// When the wanted inspector does not work on this host.
    pub fn open(wanted: Option<InspectorKind>) -> io::Result<Self> {
        match wanted {
            Some(InspectorKind::None) => Ok(Self::None),
            Some(InspectorKind::Ps) => Ok(Self::Ps(Ps)),
            Some(InspectorKind::Procfs) => Procfs::open(Path::new("/proc")).map(Self::Procfs),
            None => Ok(Procfs::open(Path::new("/proc")).map_or(Self::Ps(Ps), Self::Procfs)),
        }
    }

    /// Returns which one it is.
    pub const fn kind(&self) -> InspectorKind {
        match self {
            Self::Procfs(_) => InspectorKind::Procfs,
            Self::Ps(_) => InspectorKind::Ps,
            Self::None => InspectorKind::None,
        }
    }

    /// Returns the id of the running boot, where the tokens carry one.
    pub fn boot_id(&self) -> Option<&str> {
        match self {
            Self::Procfs(procfs) => Some(procfs.boot_id()),
            Self::Ps(_) | Self::None => None,
        }
    }

    /// Returns the token that a start stands for.
    pub fn token(&self, start: &Start) -> StartToken {
        match start {
            Start::Ticks(ticks) => {
                StartToken::Procfs { boot_id: self.boot_id().unwrap_or_default().to_owned(), ticks: *ticks }
            }
            Start::Lstart(lstart) => StartToken::Ps { lstart: lstart.clone() },
        }
    }

    /// Tells whether a process has the pid and the start of one of these identities.
    pub fn is_one_of(&self, facts: &Facts, identities: &[Identity]) -> bool {
        identities.iter().any(|one| one.pid == facts.pid && one.token == self.token(&facts.start))
    }

    /// Returns how many seconds ago that start was; `None` where it is not counted from the boot.
    pub fn age_s(&self, start: &Start) -> Option<f64> {
        let (Self::Procfs(procfs), Start::Ticks(ticks)) = (self, start) else { return None };
        Some(((boottime() - procfs.seconds(*ticks)).max(0.0) * 1000.0).round() / 1000.0)
    }

    /// Reads the whole process table once.
    ///
    /// # Errors
    /// When the table itself cannot be read; single processes that cannot be read are in the snapshot.
    pub fn scan(&self) -> io::Result<Snapshot> {
        match self {
            Self::Procfs(procfs) => procfs.scan(),
            Self::Ps(ps) => ps.scan(),
            Self::None => Err(io::Error::new(io::ErrorKind::Unsupported, "no process inspector on this host")),
        }
    }

    /// Tells whether the kernel lists the children of a process.
    pub fn lists_children(&self) -> bool {
        match self {
            Self::Procfs(procfs) => procfs.lists_children(),
            Self::Ps(_) | Self::None => false,
        }
    }

    /// Returns the children of a process, to be read with [`Inspector::children`]; `None` where the kernel
    /// does not list them.
    pub fn kin(&self, pid: Pid, threads: u32) -> Option<Kin> {
        match self {
            Self::Procfs(procfs) if procfs.lists_children() => Some(procfs.kin(pid, threads)),
            Self::Procfs(_) | Self::Ps(_) | Self::None => None,
        }
    }

    /// Adds the children as they are now.
    pub fn children(&self, kin: &Kin, into: &mut Vec<Pid>) {
        if let Self::Procfs(procfs) = self {
            procfs.children(kin, into);
        }
    }

    /// Reads one process; `Ok(None)` where no process has that pid.
    pub fn facts(&self, pid: Pid) -> Result<Option<Facts>, Unreadable> {
        match self {
            Self::Procfs(procfs) => procfs.facts(pid),
            Self::Ps(ps) => ps.facts(pid),
            Self::None => Err(Unreadable { pid, reason: "no process inspector on this host".into() }),
        }
    }

    /// Returns the arguments of a process, empty where they cannot be read (or it has none, like a
    /// kernel thread or a zombie).
    pub fn argv(&self, pid: Pid) -> Vec<Vec<u8>> {
        match self {
            Self::Procfs(procfs) => procfs.argv(pid),
            Self::Ps(ps) => ps.argv(pid),
            Self::None => Vec::new(),
        }
    }

    /// Returns the effective user of a process, where it can be known (proc(5)).
    pub fn uid(&self, pid: Pid) -> Option<u32> {
        match self {
            Self::Procfs(procfs) => procfs.uid(pid),
            Self::Ps(_) | Self::None => None,
        }
    }

    /// Returns the inode of one of our own namespaces, for example `pid` (namespaces(7)).
    pub fn namespace(&self, name: &str) -> Option<u64> {
        match self {
            Self::Procfs(procfs) => procfs.namespace(name),
            Self::Ps(_) | Self::None => None,
        }
    }

    /// Returns the arguments of several processes, at the cost of one look where the inspector is ps.
    pub fn argv_of_many(&self, pids: &[Pid]) -> HashMap<Pid, Vec<Vec<u8>>> {
        match self {
            Self::Ps(ps) if pids.len() > 1 => ps.argv_of_all(),
            Self::Procfs(_) | Self::Ps(_) | Self::None => pids.iter().map(|pid| (*pid, self.argv(*pid))).collect(),
        }
    }

    /// Returns the file name of a process's executable, where it can be read.
    pub fn executable(&self, pid: Pid) -> Option<String> {
        match self {
            Self::Procfs(procfs) => procfs.executable(pid),
            Self::Ps(ps) => {
                let comm = ps.facts(pid).ok().flatten()?.comm;
                Some(String::from_utf8_lossy(comm.rsplit(|b| *b == b'/').next()?).into_owned())
            }
            Self::None => None,
        }
    }

    /// Returns where a process is in the cgroup hierarchy (v2), where that can be read.
    pub fn cgroup(&self, pid: Pid) -> Option<String> {
        match self {
            Self::Procfs(procfs) => procfs.cgroup(pid),
            Self::Ps(_) | Self::None => None,
        }
    }

    /// Returns how many bytes of address space a process may have, dead or alive, until it is reaped; `None` where it is
    /// not limited (`RLIMIT_AS` of getrlimit(2)), or nobody can look.
    pub fn address_space(&self, pid: Pid) -> Option<u64> {
        match self {
            Self::Procfs(procfs) => procfs.address_space(pid),
            Self::Ps(_) | Self::None => None,
        }
    }

    /// Tells whether a process holds a listening Unix socket; `false` where nobody can look.
    pub fn listens_on_unix(&self, pid: Pid) -> bool {
        match self {
            Self::Procfs(procfs) => sockets::listens_on_unix(procfs.root(), pid),
            Self::Ps(_) | Self::None => false,
        }
    }

    /// Tells whether the environment of a process holds `NAME=value`; a hint, never a proof.
    pub fn has_marker(&self, pid: Pid, marker: &[u8]) -> bool {
        match self {
            Self::Procfs(procfs) => procfs.has_marker(pid, marker),
            Self::Ps(_) | Self::None => false,
        }
    }
}
