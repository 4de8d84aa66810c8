//! The way between a control-mode client and its server, on which the client cannot bring the server down.
//!
//! tmux ends with a segmentation fault, and all of its sessions with it, when a session comes, goes or changes, or
//! the client is lost, while a control-mode client identifies itself (tmux/tmux#4980 and #5004: 3.2 to 3.6 at least).
//! One message makes the client one that is told of such things (`MSG_IDENTIFY_LONGFLAGS`), the
//! last one (`MSG_IDENTIFY_DONE`) gives it what it is told with. A client sends them first and last, and the
//! descriptors between them end the server's read, so that the server does other work in the meantime.
//!
//! Here the client connects to us. The message that makes it a control client is held back and handed on together with
//! the last one, in one piece, which the server takes with one read. All messages are the client's own, and byte for
//! byte: of their form (`imsg_init(3)`) only type and length are read, which have not changed since 2.1. What has another
//! form is handed on as it came.

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::getuid;

use crate::lifecycle::clock::timespec;
use crate::lifecycle::door::Door;

use super::server::DEADLINE;
use super::socket;

/// Bytes of a message's head (`struct imsg_hdr`): type, length, peer and pid, of 32 bits each.
const IMSG_HEADER_SIZE: usize = 16;
/// Bytes of the longest message there is.
const MAX_IMSGSIZE: usize = 16_384;
/// What a server takes with one read (`IBUF_READ_SIZE`). A client with our few variables sends a tenth of it.
const IBUF_READ_SIZE: usize = 65_535;

/// What a client says of itself in the form of before 3.2 (tmux-protocol.h, as the next two).
const MSG_IDENTIFY_FLAGS: u32 = 100;
/// That this was all.
const MSG_IDENTIFY_DONE: u32 = 106;
/// What a client says of itself.
const MSG_IDENTIFY_LONGFLAGS: u32 = 111;

/// How long a client may take to come and to identify itself: on a busy host much longer than to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Lets one client in at `door` and passes on what it and the server say, until one of them goes.
///
/// # Errors
/// When no client comes, or the server cannot be reached or is another user's.
pub(super) fn run(door: Door, server: &Path) -> io::Result<()> {
    let (client, identify) = admit(&door, Instant::now() + PATIENCE)?;
    drop(door);
    // Whoever leaves before this has not been heard of by the server.
    let server = UnixStream::from(socket::call(server)?);
    if socket_peercred(&server)?.uid != getuid() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    server.set_nonblocking(false)?;
    server.set_write_timeout(Some(DEADLINE))?;
    client.set_write_timeout(Some(DEADLINE))?;
    identify.hand_on(&server)?;
    pass_on(&client, &server)
}

/// Waits for a client that identifies itself. Whoever only looks whether somebody listens, or is of another user, is
/// sent away.
fn admit(door: &Door, until: Instant) -> io::Result<(UnixStream, Identify)> {
    loop {
        let caller = door.answer(until.saturating_duration_since(Instant::now()))?;
        if caller.uid != getuid() {
            continue;
        }
        match Identify::receive(&caller.stream, until) {
            Ok(identify) => return Ok((caller.stream, identify)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(error) => return Err(error),
        }
    }
}

/// What a client has said up to now: what each read brought, with its descriptors.
#[derive(Debug, Default)]
pub(super) struct Identify {
    pub(super) reads: Vec<(Vec<u8>, Vec<OwnedFd>)>,
}

impl Identify {
    /// Listens until a client has identified itself.
    pub(super) fn receive(client: &UnixStream, until: Instant) -> io::Result<Self> {
        let mut identify = Self::default();
        while !identify.is_over() {
            let left = until.saturating_duration_since(Instant::now());
            match poll(&mut [PollFd::new(client, PollFlags::IN)], Some(&timespec(left))) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) if identify.read(client)? == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(identify)
    }

    /// Reads once; returns how many bytes came.
    pub(super) fn read(&mut self, client: &UnixStream) -> io::Result<usize> {
        let mut bytes = vec![0; MAX_IMSGSIZE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(client, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        if received.flags.contains(ReturnFlags::CTRUNC) {
            // The kernel has dropped a descriptor: this process has too many of them.
            return Err(Errno::MFILE.into());
        }
        bytes.truncate(received.bytes);
        self.reads.push((bytes, descriptors));
        Ok(received.bytes)
    }

    fn bytes(&self) -> Vec<u8> {
        self.reads.iter().flat_map(|(bytes, _)| bytes).copied().collect()
    }

    /// Tells whether the last message has come, or will not be known when it comes.
    fn is_over(&self) -> bool {
        let bytes = self.bytes();
        let (messages, rest) = messages(&bytes);
        let done = messages.iter().any(|message| message.kind == MSG_IDENTIFY_DONE);
        done || is_malformed(rest) || bytes.len() > IBUF_READ_SIZE / 2
    }

    /// Says it to the server: what makes the client a control client goes with the end.
    pub(super) fn hand_on(self, server: &UnixStream) -> io::Result<()> {
        let bytes = self.bytes();
        let (messages, rest) = messages(&bytes);
        let done = messages.iter().position(|message| message.kind == MSG_IDENTIFY_DONE);
        let marked = messages.iter().filter(|message| message.brings_descriptor).count();
        let brought = self.reads.iter().map(|(_, descriptors)| descriptors.len()).sum::<usize>();
        let Some(done) = done.filter(|_| marked == brought) else {
            return self.reads.iter().try_for_each(|(bytes, descriptors)| send(server, bytes, descriptors));
        };
        let mut descriptors = self.reads.into_iter().flat_map(|(_, descriptors)| descriptors);
        let (mut next, mut held) = (Vec::new(), Vec::new());
        for message in &messages[..done] {
            if matches!(message.kind, MSG_IDENTIFY_FLAGS | MSG_IDENTIFY_LONGFLAGS) {
                held.extend_from_slice(message.bytes);
                continue;
            }
            next.extend_from_slice(message.bytes);
            if message.brings_descriptor {
                send(server, &std::mem::take(&mut next), descriptors.next().as_slice())?;
            }
        }
        next.append(&mut held);
        for message in &messages[done..] {
            next.extend_from_slice(message.bytes);
        }
        next.extend_from_slice(rest);
        send(server, &next, descriptors.next().as_slice())
    }
}

/// A message as it came.
#[derive(Debug, PartialEq, Eq)]
struct Message<'a> {
    kind: u32,
    brings_descriptor: bool,
    bytes: &'a [u8],
}

/// Returns the whole messages that bytes begin with, and what follows them.
fn messages(mut bytes: &[u8]) -> (Vec<Message<'_>>, &[u8]) {
    let mut messages = Vec::new();
    while let Some((kind, length, brings_descriptor)) = head(bytes).filter(|_| !is_malformed(bytes)) {
        let Some((message, rest)) = bytes.split_at_checked(length) else { break };
        messages.push(Message { kind, brings_descriptor, bytes: message });
        bytes = rest;
    }
    (messages, bytes)
}

/// Reads type, length and whether a descriptor comes along. Two forms are in use: a length and flags of 16 bits each,
/// and a length of 32 bits with the flag in its highest one. Of the first form the order of bytes is a little-endian
/// machine's.
fn head(bytes: &[u8]) -> Option<(u32, usize, bool)> {
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (kind, length, _) = (word(0)?, word(4)?, word(IMSG_HEADER_SIZE - 4)?);
    Some((kind, usize::try_from(length & 0xffff).ok()?, length >> 16 != 0))
}

/// Tells whether bytes cannot be the beginning of a message.
fn is_malformed(bytes: &[u8]) -> bool {
    head(bytes).is_some_and(|(_, length, _)| !(IMSG_HEADER_SIZE..=MAX_IMSGSIZE).contains(&length))
}

fn send(server: &UnixStream, bytes: &[u8], descriptors: &[OwnedFd]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let rights: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    if !rights.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&rights));
    }
    let sent = sendmsg(server, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    (&*server).write_all(&bytes[sent..])
}

/// Copies in both directions. Here the two talk of coming and going only: what a client prints and reads goes by the
/// descriptors that it has handed over.
fn pass_on(client: &UnixStream, server: &UnixStream) -> io::Result<()> {
    loop {
        let mut ends = [PollFd::new(client, PollFlags::IN), PollFd::new(server, PollFlags::IN)];
        match poll(&mut ends, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let ready = ends.map(|end| !end.revents().is_empty());
        for (ready, from, mut to) in [(ready[0], client, server), (ready[1], server, client)] {
            let mut bytes = [0; 16_384];
            if ready {
                match io::Read::read(&mut &*from, &mut bytes) {
                    Ok(0) => return Ok(()),
                    Ok(count) => to.write_all(&bytes[..count])?,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
}
