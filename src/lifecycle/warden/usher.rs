//! Starts the later runs of a workload in the kernel session of its tmux pane.
//!
//! The warden has left that session, and nobody can join one. So, before it leaves, a warden that is to start
//! its workload again starts an usher, which stays behind and waits. Asked for a run, the usher starts a
//! trampoline and its own successor and ends: both come back to the warden, which is the subreaper above them.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

use super::wire::{receive, send};
use super::{HostStage, NOT_LAUNCHED, TRAMPOLINE, USHER};
use crate::lifecycle::failpoint;
use crate::lifecycle::identity::Pid;
use crate::lifecycle::spawn::{End, Spec, start};
use crate::lifecycle::tree::WARDEN_NAME;

/// How long an usher may take to start a trampoline.
const PATIENCE: Duration = Duration::from_secs(10);

/// Standard input is the socket to the warden; the signals of the warden are blocked here as well.
pub(super) fn run() -> u8 {
    let Ok(copy) = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3) else { return NOT_LAUNCHED };
    let mut warden = UnixStream::from(copy);
    // The end of the stream: the warden needs no further run, or is gone.
    let Ok(Some(gate)) = receive_fd(&warden) else { return 0 };
    let trampoline = start(&stage(TRAMPOLINE), End::Fd(gate), End::Inherit, End::Inherit);
    let successor = start(&stage(USHER), End::Inherit, End::Inherit, End::Inherit);
    let pid = trampoline.ok().and_then(|child| i32::try_from(child.id()).ok()).and_then(Pid::new);
    match (successor, send(&mut warden, &pid)) {
        (Ok(_), Ok(())) => 0,
        (Err(_), _) | (_, Err(_)) => NOT_LAUNCHED,
    }
}

/// Starts the first usher. To be called while the warden is still in the kernel session of the pane.
pub(super) fn first() -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    start(&stage(USHER), End::Fd(OwnedFd::from(theirs)), End::Inherit, End::Inherit)?;
    ours.set_read_timeout(Some(PATIENCE))?;
    Ok(ours)
}

/// Asks the usher for a trampoline behind this gate; returns its pid.
pub(super) fn ask(usher: &mut UnixStream, gate: &UnixStream) -> io::Result<Pid> {
    let fds = [gate.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(&*usher, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)?;
    receive::<Option<Pid>>(usher)?.ok_or_else(|| io::Error::other("the usher could not start a trampoline"))
}

fn stage(name: &str) -> Spec {
    let mut spec = Spec::new(["/proc/self/exe", name, HostStage::Tmux.name()].map(OsString::from));
    spec.arg0 = Some(WARDEN_NAME.into());
    spec.env = failpoint::environment(failpoint::Stage::Usher);
    // The usher must not be in the group that the keys of the terminal reach.
    spec.own_group = true;
    spec
}

fn receive_fd(stream: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0_u8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    recvmsg(stream, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut fds = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => fds.collect::<Vec<_>>(),
        RecvAncillaryMessage::ScmCredentials(_) | _ => Vec::new(),
    });
    Ok(fds.next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_gate_travels_and_its_end_is_seen() {
        let (mut warden, mut usher) = UnixStream::pair().expect("a pair");
        let (mut ours, theirs) = UnixStream::pair().expect("a pair");
        send(&mut usher, &Pid::new(7)).expect("answers");
        assert_eq!(ask(&mut warden, &theirs).expect("asks"), Pid::new(7).expect("positive"));
        drop(theirs);
        let mut arrived = UnixStream::from(receive_fd(&usher).expect("receives").expect("a descriptor"));
        arrived.write_all(b"x").expect("writes");
        drop(arrived);
        let mut text = String::new();
        ours.read_to_string(&mut text).expect("reads to the end");
        assert_eq!(text, "x");
        drop(warden);
        assert!(receive_fd(&usher).expect("the end").is_none());
    }
}
