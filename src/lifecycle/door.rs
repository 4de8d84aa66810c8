//! A Unix socket in the runtime directory at which one expected process presents itself.
//!
//! Called by [`super::warden`] for a launch and by `tmux` for a control-mode client. The kernel names who comes
//! (`SO_PEERCRED`, unix(7)), so nobody has to be believed; who it may be is the caller's to judge.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use super::clock::timespec;
use super::identity::Pid;
use super::store::random_hex;

/// Longest path of a Unix socket (unix(7)).
const PATH_MAX: usize = 107;

/// An open door; its socket is removed when it is dropped.
#[derive(Debug)]
pub struct Door {
    listener: UnixListener,
    path: PathBuf,
}

/// Somebody who has come.
#[derive(Debug)]
pub struct Caller {
    /// The connection; reads and writes wait.
    pub stream: UnixStream,
    /// The process, `None` where it is outside of our pid namespace.
    pub pid: Option<Pid>,
    /// Its user.
    pub uid: rustix::process::Uid,
}

/// Tells whether whoever was at the other end of a socket or a pipe has left (poll(2)).
pub fn has_left(end: impl AsFd) -> bool {
    let now = timespec(Duration::ZERO);
    let mut ends = [PollFd::new(&end, PollFlags::RDHUP)];
    let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    poll(&mut ends, Some(&now)).is_ok() && ends[0].revents().intersects(gone)
}

/// Returns where a door goes that nobody has opened yet.
pub fn place(runtime_dir: &Path, initial: char) -> PathBuf {
    runtime_dir.join(format!("{initial}{}", random_hex()))
}

impl Door {
    /// Opens a door.
    ///
    /// # Errors
    /// When the path is too long for a socket, or its directory does not take one.
    pub fn open(path: PathBuf) -> io::Result<Self> {
        if path.as_os_str().len() > PATH_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is longer than 107 bytes"));
        }
        let listener = UnixListener::bind(&path)?;
        let door = Self { listener, path };
        fs::set_permissions(&door.path, fs::Permissions::from_mode(0o600))?;
        door.listener.set_nonblocking(true)?;
        Ok(door)
    }

    /// Returns where the door is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for somebody to come.
    ///
    /// # Errors
    /// `TimedOut` where nobody comes; any of accept(2).
    pub fn answer(&self, patience: Duration) -> io::Result<Caller> {
        let until = Instant::now() + patience;
        let stream = loop {
            match self.listener.accept() {
                Ok((stream, _)) => break stream,
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                Err(_) => {}
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            poll(&mut [PollFd::new(&self.listener, PollFlags::IN)], Some(&timespec(left))).ok();
        };
        stream.set_nonblocking(false)?;
        let peer = rustix::net::sockopt::socket_peercred(&stream)?;
        Ok(Caller { stream, pid: Pid::new(peer.pid.as_raw_nonzero().get()), uid: peer.uid })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        fs::remove_file(&self.path).ok();
    }
}
