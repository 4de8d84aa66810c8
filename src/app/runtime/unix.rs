//! Servers that listen on a socket in the file system (unix(7)): whether they are ready, and what keeps them from it.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};

use super::probe::{Got, PATIENCE, answer};
use crate::app::phase::{Probe, Probed, Socket};
use crate::lifecycle::authority::verify;
use crate::lifecycle::identity::Identity;
use crate::lifecycle::inspect::Inspector;
use crate::lifecycle::verdict::VerdictKind;

/// Asks a server once whether it is ready; takes [`PATIENCE`] at most for an answer. It is asked only where a member of the
/// session listens.
pub(super) fn ask_at(inspector: &Inspector, path: &Path, probe: Probe, members: &[Identity]) -> Probed {
    let mut stream = match reach(path) {
        Ok(stream) => stream,
        // Its queue is full.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Probed::Silent,
        Err(_) => return Probed::Closed,
    };
    // Who called listen(2).
    let Ok(peer) = sockopt::socket_peercred(&stream) else { return Probed::Closed };
    let Some(holder) = members.iter().find(|member| member.pid.rustix() == peer.pid) else {
        return Probed::Elsewhere("somebody else listens on its socket".into());
    };
    if verify(holder, inspector).kind != VerdictKind::Owned {
        return Probed::Closed;
    }
    match probe {
        Probe::Tcp => Probed::Ready,
        Probe::Http(path) => answer(get(&mut stream, path), false),
    }
}

/// Looks what is where a socket is to be; what is younger than the server, which began at `began` by the wall clock, may be
/// its own.
pub(super) fn look_at(path: &Path, began: f64) -> Socket {
    if !path.parent().is_some_and(Path::is_dir) {
        return Socket::NoFolder;
    }
    #[expect(clippy::cast_precision_loss, reason = "seconds stay far below 2^52")]
    let is_older = |found: &fs::Metadata| found.ctime() as f64 + found.ctime_nsec() as f64 / 1e9 < began;
    match fs::symlink_metadata(path).ok().filter(is_older) {
        None => Socket::Free,
        Some(found) if !found.file_type().is_socket() => Socket::OtherFile,
        Some(_) => {
            let refused = reach(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
            if refused { Socket::Left } else { Socket::Served }
        }
    }
}

/// Connects; waits for nobody.
fn reach(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn get(stream: &mut UnixStream, path: &str) -> Got {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    if stream.write_all(request.as_bytes()).is_err() {
        return Got::Refused;
    }
    // `HTTP/1.1 200`
    let mut head = [0; 12];
    match stream.read_exact(&mut head) {
        Ok(()) => {
            let status =
                str::from_utf8(&head).ok().and_then(|head| head.strip_prefix("HTTP/1.")?.get(2..)?.parse().ok());
            status.map_or(Got::Refused, Got::Status)
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Got::Nothing,
        Err(_) => Got::Refused,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::lifecycle::authority::{Pin, Pinned};
    use crate::lifecycle::identity::Pid;

    #[test]
    fn only_a_socket_of_its_own_is_asked() {
        let inspector = Inspector::open(None).unwrap();
        let pid = Pid::new(i32::try_from(std::process::id()).unwrap()).unwrap();
        let me = match Pinned::open(&inspector, pid) {
            Pin::Held(pinned) => pinned.identity().clone(),
            Pin::Gone | Pin::Unreadable(_) => unreachable!("we are here"),
        };
        let folder = tempfile::tempdir().unwrap();
        let probe = Probe::Http("/health");
        let replies = [
            (Some("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), Probed::Ready),
            (Some("HTTP/1.1 503 Service Unavailable\r\n\r\n"), Probed::Busy),
            (Some("no"), Probed::Closed),
            (None, Probed::Silent),
        ];
        for (number, (reply, expected)) in replies.into_iter().enumerate() {
            let path = folder.path().join(format!("{number}.sock"));
            assert_eq!(ask_at(&inspector, &path, probe, std::slice::from_ref(&me)), Probed::Closed);
            let listener = UnixListener::bind(&path).unwrap();
            std::thread::spawn(move || {
                let mut kept = Vec::new();
                for mut stream in listener.incoming().flatten() {
                    let mut request = [0; 1024];
                    match reply {
                        Some(reply) if stream.read(&mut request).is_ok_and(|read| read > 0) => {
                            drop(stream.write_all(reply.as_bytes()));
                        }
                        Some(_) | None => kept.push(stream),
                    }
                }
            });
            assert_eq!(ask_at(&inspector, &path, probe, std::slice::from_ref(&me)), expected, "{reply:?}");
            assert!(matches!(ask_at(&inspector, &path, probe, &[]), Probed::Elsewhere(_)));
        }
    }

    #[test]
    fn what_is_older_than_the_server_is_in_its_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("l.sock");
        let (before, after) = (1.0, 1e18);
        assert_eq!(look_at(&path, after), Socket::Free);
        assert_eq!(look_at(&folder.path().join("x/l.sock"), after), Socket::NoFolder);
        let listener = UnixListener::bind(&path).unwrap();
        assert_eq!(look_at(&path, after), Socket::Served);
        drop(listener);
        assert_eq!(look_at(&path, after), Socket::Left);
        assert_eq!(look_at(&path, before), Socket::Free, "its own");
        fs::write(folder.path().join("file.sock"), "").unwrap();
        assert_eq!(look_at(&folder.path().join("file.sock"), after), Socket::OtherFile);
    }
}
