//! Where a tmux server listens, and who it is.
//!
//! The kernel names the process behind a listening socket (unix(7), `SO_PEERCRED`: the credentials of the
//! one that called listen(2)), also while that process is stopped, so that a server is identified without
//! asking it. Called by [`super::server`] and by whoever judges a server. Never starts or waits for
//! anything.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::lifecycle::identity::Pid;

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SocketRef {
    /// `-L`: a name in tmux's own directory of sockets.
    Name(String),
    /// `-S`: a path.
    Path(PathBuf),
}

impl fmt::Display for SocketRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Path(path) => path.display().fmt(f),
        }
    }
}

impl FromStr for SocketRef {
    type Err = String;

    /// Takes what starts with a slash for a path.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with('/') && !text.contains('\0') {
            return Ok(Self::Path(PathBuf::from(text)));
        }
        let good =
            !text.is_empty() && text != "." && text != ".." && !text.contains(|c: char| c == '/' || c.is_control());
        if good {
            Ok(Self::Name(text.to_owned()))
        } else {
            Err(format!("{text:?} is neither a socket name nor an absolute path"))
        }
    }
}

impl Serialize for SocketRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SocketRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl SocketRef {
    /// Returns the path of the socket, found as tmux finds it: in `tmux-<uid>` below `$TMUX_TMPDIR`
    /// if that can be resolved, else below `/tmp`.
    pub fn path(&self, tmux_tmpdir: Option<&OsStr>) -> PathBuf {
        match self {
            Self::Path(path) => path.clone(),
            Self::Name(name) => directory(tmux_tmpdir).join(name),
        }
    }
}

fn directory(tmux_tmpdir: Option<&OsStr>) -> PathBuf {
    let resolved = tmux_tmpdir.filter(|dir| !dir.is_empty()).and_then(|dir| Path::new(dir).canonicalize().ok());
    let base = resolved.or_else(|| Path::new("/tmp").canonicalize().ok()).unwrap_or_else(|| PathBuf::from("/tmp"));
    base.join(format!("tmux-{}", rustix::process::getuid().as_raw()))
}

/// What is behind a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Probe {
    /// A process listens.
    Running {
        /// That process. It may be stopped or busy.
        pid: Pid,
    },
    /// There is no socket. A server whose socket was deleted is alive all the same, and makes a new socket on
    /// SIGUSR1: whoever knows its pid has to look for that.
    Absent,
    /// There is a socket that nobody listens on.
    Stale,
    /// Nobody can tell.
    Unreadable(String),
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running { pid } => write!(f, "process {pid}"),
            Self::Absent => f.write_str("nobody (there is no socket)"),
            Self::Stale => f.write_str("nobody"),
            Self::Unreadable(reason) => f.write_str(reason),
        }
    }
}

/// Asks the kernel who listens on a server's socket. Never blocks.
///
/// A stopped server accepts nothing, so each probe of it uses up a place in its queue (128): after that
/// many the answer is [`Probe::Unreadable`].
pub fn probe(socket: &SocketRef, tmux_tmpdir: Option<&OsStr>) -> Probe {
    if matches!(socket, SocketRef::Name(_)) {
        match check_directory(&directory(tmux_tmpdir)) {
            Ok(()) => {}
            Err(probe) => return probe,
        }
    }
    let path = socket.path(tmux_tmpdir);
    match std::fs::metadata(&path) {
        Ok(found) if found.file_type().is_socket() => {}
        Ok(_) => return Probe::Unreadable(format!("{} is not a socket", path.display())),
        Err(error) => return unreadable(&path, &error),
    }
    match listener(&path) {
        Ok(credentials) if credentials.uid != rustix::process::getuid() => {
            Probe::Unreadable(format!("{} is served by user {}", path.display(), credentials.uid.as_raw()))
        }
        // The kernel says 0 for a process outside of our pid namespace.
        Ok(credentials) => Pid::new(credentials.pid.as_raw_nonzero().get()).map_or_else(
            || Probe::Unreadable(format!("{} is served from outside of this pid namespace", path.display())),
            |pid| Probe::Running { pid },
        ),
        Err(Errno::CONNREFUSED) => Probe::Stale,
        Err(Errno::AGAIN) => Probe::Unreadable(format!("the queue of {} is full", path.display())),
        Err(error) => unreadable(&path, &error.into()),
    }
}

/// Checks the directory of sockets as tmux does: ours, and closed to others.
fn check_directory(path: &Path) -> Result<(), Probe> {
    let found = std::fs::symlink_metadata(path).map_err(|error| unreadable(path, &error))?;
    if !found.is_dir() {
        return Err(Probe::Unreadable(format!("{} is not a directory", path.display())));
    }
    if found.uid() != rustix::process::getuid().as_raw() || found.mode() & 0o007 != 0 {
        return Err(Probe::Unreadable(format!("{} has unsafe permissions", path.display())));
    }
    Ok(())
}

fn listener(path: &Path) -> Result<rustix::net::UCred, Errno> {
    sockopt::socket_peercred(call(path)?)
}

/// Connects to a server's socket, without waiting: `EAGAIN` where the queue is full. Reads and writes do not wait either.
pub(super) fn call(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

fn unreadable(path: &Path, error: &io::Error) -> Probe {
    if error.kind() == io::ErrorKind::NotFound {
        return Probe::Absent;
    }
    Probe::Unreadable(format!("{}: {error}", path.display()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn at(dir: &tempfile::TempDir) -> SocketRef {
        SocketRef::Path(dir.path().join("s"))
    }

    #[test]
    fn references_are_names_or_absolute_paths() {
        assert_eq!("cookbook".parse(), Ok(SocketRef::Name("cookbook".into())));
        assert_eq!("/run/s".parse(), Ok(SocketRef::Path("/run/s".into())));
        for text in ["", ".", "..", "a/b", "../x", "a\nb", "/a\0b"] {
            assert!(text.parse::<SocketRef>().is_err(), "{text:?}");
        }
        let json = serde_json::to_string(&SocketRef::Path("/run/s".into())).unwrap();
        assert_eq!(serde_json::from_str::<SocketRef>(&json).unwrap(), SocketRef::Path("/run/s".into()));
    }

    #[test]
    fn the_path_is_found_as_tmux_finds_it() {
        let name = SocketRef::Name("x".into());
        let dir = tempfile::tempdir().unwrap();
        let tail = format!("tmux-{}/x", rustix::process::getuid().as_raw());
        let real = dir.path().canonicalize().unwrap();
        assert_eq!(name.path(Some(dir.path().as_os_str())), real.join(&tail));
        let fallback = Path::new("/tmp").canonicalize().unwrap().join(&tail);
        assert_eq!(name.path(None), fallback);
        assert_eq!(name.path(Some(OsStr::new(""))), fallback);
        assert_eq!(name.path(Some(OsStr::new("/no/such/directory"))), fallback);
        assert_eq!(at(&dir).path(Some(OsStr::new("/x"))), dir.path().join("s"));
    }

    #[test]
    fn a_listener_is_named_by_the_kernel() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(probe(&at(&dir), None), Probe::Absent);
        let listener = UnixListener::bind(dir.path().join("s")).unwrap();
        let me = Pid::new(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert_eq!(probe(&at(&dir), None), Probe::Running { pid: me });
        drop(listener);
        // A child of another test has a copy until it becomes its program.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while probe(&at(&dir), None) != Probe::Stale {
            assert!(std::time::Instant::now() < until, "it still listens");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    #[test]
    fn a_full_queue_is_unreadable_and_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let _listener = UnixListener::bind(dir.path().join("s")).unwrap();
        let mut answers = (0..5000).map(|_| probe(&at(&dir), None));
        let last = answers.find(|answer| !matches!(answer, Probe::Running { .. }));
        assert!(matches!(last, Some(Probe::Unreadable(reason)) if reason.contains("queue")));
    }

    #[test]
    fn what_cannot_be_a_server_is_unreadable() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("s"), "").unwrap();
        assert!(matches!(probe(&at(&dir), None), Probe::Unreadable(reason) if reason.contains("not a socket")));
        let below = SocketRef::Path(dir.path().join("s/below"));
        assert!(matches!(probe(&below, None), Probe::Unreadable(_)));
        let long = dir.path().join("x".repeat(120));
        std::os::unix::fs::symlink(dir.path(), &long).unwrap();
        let _listener = UnixListener::bind(dir.path().join("t")).unwrap();
        assert!(matches!(probe(&SocketRef::Path(long.join("t")), None), Probe::Unreadable(_)));
    }

    #[test]
    fn an_unsafe_directory_is_unreadable() {
        let dir = tempfile::tempdir().unwrap();
        let name = SocketRef::Name("x".into());
        let tmpdir = Some(dir.path().as_os_str());
        assert_eq!(probe(&name, tmpdir), Probe::Absent);
        let sockets = name.path(tmpdir).parent().unwrap().to_owned();
        std::fs::create_dir(&sockets).unwrap();
        std::fs::set_permissions(&sockets, std::fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(probe(&name, tmpdir), Probe::Absent);
        std::fs::set_permissions(&sockets, std::fs::Permissions::from_mode(0o701)).unwrap();
        assert!(matches!(probe(&name, tmpdir), Probe::Unreadable(reason) if reason.contains("unsafe")));
        std::fs::remove_dir(&sockets).unwrap();
        std::fs::write(&sockets, "").unwrap();
        assert!(matches!(probe(&name, tmpdir), Probe::Unreadable(reason) if reason.contains("not a directory")));
    }
}
