//! The way between a control-mode client and its server, on which the client cannot bring the server down.
//!
//! tmux ends with a segmentation fault, and all of its sessions with it, when a session comes, goes or changes, or
//! the client is lost, while a control-mode client introduces itself (tmux/tmux#4980 and #5004: 3.2 to 3.6 at least).
//! One message of the introduction makes the client one that is told of such things (`MSG_IDENTIFY_LONGFLAGS`), the
//! last one (`MSG_IDENTIFY_DONE`) gives it what it is told with. A client sends them first and last, and the
//! descriptors between them end the server's read, so that the server does other work in the meantime.
//!
//! Here the client connects to us. The message that makes it a control client is held back and handed on together with
//! the last one, in one piece, which the server takes with one read. All messages are the client's own, and byte for
//! byte: of their form (`imsg_init(3)`) only type and length are read, which have not changed since 2.1. An
//! introduction of another form is handed on as it came.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

use crate::lifecycle::clock::timespec;
use crate::lifecycle::door::Door;
use crate::lifecycle::identity::Pid;

use super::server::DEADLINE;
use super::socket;

/// Bytes of a message's head: type, length, peer and pid, of 32 bits each.
const HEAD: usize = 16;
/// Bytes of the longest message there is.
const LONGEST: usize = 16_384;
/// tmux(1) of 2.1 to 3.7: what a client says of itself, in its old and its new form, and that this was all.
const FLAGS: u32 = 100;
const DONE: u32 = 106;
const LONG_FLAGS: u32 = 111;
/// What a server takes with one read. The introduction of a client with our few variables is a tenth of it.
const ONE_READ: usize = 65_535;

/// Lets one client in at `door` and passes on what it and the server say, until one of them goes. Nobody else than
/// `client` is let in.
pub(super) fn run(door: Door, client: Pid, server: &Path) -> io::Result<()> {
    let caller = door.answer(DEADLINE)?;
    drop(door);
    if caller.pid != Some(client) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{:?} came for {client}", caller.pid)));
    }
    let client = caller.stream;
    let introduction = Introduction::receive(&client, DEADLINE)?;
    // Whoever leaves before this has not been heard of by the server.
    let server = UnixStream::from(socket::call(server)?);
    server.set_nonblocking(false)?;
    server.set_write_timeout(Some(DEADLINE))?;
    client.set_write_timeout(Some(DEADLINE))?;
    introduction.hand_on(&server)?;
    pass_on(&client, &server)
}

/// What a client has said up to now.
#[derive(Debug, Default)]
pub(super) struct Introduction {
    pub(super) bytes: Vec<u8>,
    pub(super) descriptors: VecDeque<OwnedFd>,
}

impl Introduction {
    /// Listens until a client has introduced itself.
    pub(super) fn receive(client: &UnixStream, patience: Duration) -> io::Result<Self> {
        let until = Instant::now() + patience;
        let mut introduction = Self::default();
        while !introduction.is_over() {
            let left = until.saturating_duration_since(Instant::now());
            if poll(&mut [PollFd::new(client, PollFlags::IN)], Some(&timespec(left)))? == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if introduction.listen(client)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(introduction)
    }

    pub(super) fn listen(&mut self, client: &UnixStream) -> io::Result<usize> {
        let mut bytes = [0; 16_384];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received =
            recvmsg(client, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
        self.bytes.extend_from_slice(&bytes[..received]);
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        Ok(received)
    }

    /// Returns whether the last message has come, or whether it will not be seen.
    fn is_over(&self) -> bool {
        let (messages, rest) = messages(&self.bytes);
        messages.iter().any(|message| message.kind == DONE) || is_strange(rest) || self.bytes.len() > ONE_READ / 2
    }

    /// Says it to the server: what makes the client a control client goes with the end.
    pub(super) fn hand_on(mut self, server: &UnixStream) -> io::Result<()> {
        let (messages, rest) = messages(&self.bytes);
        let end = messages.iter().position(|message| message.kind == DONE).unwrap_or(0);
        let (introduction, commands) = messages.split_at(end);
        let mut held = Vec::new();
        let mut next = Vec::new();
        for message in introduction {
            if matches!(message.kind, FLAGS | LONG_FLAGS) {
                held.extend_from_slice(message.bytes);
                continue;
            }
            next.extend_from_slice(message.bytes);
            if message.brings_descriptor {
                send(server, &std::mem::take(&mut next), self.descriptors.pop_front().as_ref())?;
            }
        }
        next.append(&mut held);
        for message in commands {
            next.extend_from_slice(message.bytes);
        }
        next.extend_from_slice(rest);
        // Only what was strange leaves some over, and may bring one here.
        send(server, &next, self.descriptors.pop_front().as_ref())
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
    while let Some((kind, length, brings_descriptor)) = head(bytes) {
        let Some((message, rest)) = bytes.split_at_checked(length).filter(|_| length >= HEAD) else { break };
        messages.push(Message { kind, brings_descriptor, bytes: message });
        bytes = rest;
    }
    (messages, bytes)
}

/// Reads type, length and whether a descriptor comes along. Two forms are in use: a length and flags of 16 bits each,
/// and a length of 32 bits with the flag in its highest one; no message is longer than 16 KiB. Of the first form the
/// order of bytes is a little-endian machine's.
fn head(bytes: &[u8]) -> Option<(u32, usize, bool)> {
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (kind, length, _) = (word(0)?, word(4)?, word(HEAD - 4)?);
    Some((kind, usize::try_from(length & 0xffff).ok()?, length >> 16 != 0))
}

/// Returns whether bytes cannot be the beginning of a message.
fn is_strange(bytes: &[u8]) -> bool {
    head(bytes).is_some_and(|(_, length, _)| !(HEAD..=LONGEST).contains(&length))
}

fn send(server: &UnixStream, bytes: &[u8], descriptor: Option<&OwnedFd>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let rights = descriptor.map(|descriptor| [descriptor.as_fd()]);
    if let Some(rights) = &rights {
        control.push(SendAncillaryMessage::ScmRights(rights));
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
            Err(rustix::io::Errno::INTR) => continue,
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
