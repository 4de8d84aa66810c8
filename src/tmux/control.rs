//! A control-mode client of one session: its output without polling, its input without a process each.
//!
//! Called by `app`, which gives the [`Ear`] a thread and keeps the [`Client`]. Nothing here waits longer
//! than it is told to: a stopped server is silent and takes no input, and says neither. The client is our
//! own child, so it can be ended; the server is not, and never is.
//!
//! It changes nothing that others see, except that the session counts one more attached client: it has
//! no size, sets no option and copies no environment.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::lifecycle::door::{self, Door};
use crate::lifecycle::kill::OwnChild;
use crate::lifecycle::spawn::{End, start};

use super::argv::{self, Capture, Follow};
use super::decoder::{Decoder, Notification};
use super::error::TmuxError;
use super::ids::{PaneId, SessionId};
use super::parse::MODES_FORMAT;
use super::relay;
use super::server::Server;

/// Input that is kept for a server that does not take it.
const PENDING_LIMIT: usize = 1 << 20;

/// Bytes of input in one command.
const CHUNK: usize = 1024;

/// How long a client may take to leave by itself when it is dropped: it takes what was typed last along.
const FAREWELL: Duration = Duration::from_millis(50);

/// The speaking half of a client. Dropping it detaches.
///
/// Commands queue up in `type_bytes`, `resume`, `capture` and `detach`, none of which waits; `flush` hands on
/// what the server takes. Each of the four flushes once by itself.
#[derive(Debug)]
pub struct Client {
    stdin: Option<ChildStdin>,
    child: Option<Child>,
    pending: VecDeque<u8>,
    said: u64,
}

/// The listening half of a client.
#[derive(Debug)]
pub struct Ear {
    stdout: ChildStdout,
    decoder: Decoder,
}

/// What a listener heard.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Heard {
    /// At least a part of a line came; these are complete.
    Notifications(Vec<Notification>),
    /// Nothing came in time: nothing happens in the session, or the server is stopped. [`Server::answering_pid`]
    /// tells which.
    Silence,
    /// The client has ended.
    Closed,
}

/// Attaches a control-mode client to a session. Returns at once; the first reply or `%exit` tells whether it
/// worked.
///
/// With [`Follow::Output`] the [`Ear`] has to be listened to all the time: when it is not, tmux holds up the
/// session's programs, or drops their output and says [`Notification::Pause`]. Capture the pane then, and
/// [`Client::resume`] it.
///
/// The client talks to the server by way of a relay of ours, with a socket in `runtime_dir`, so that it cannot bring
/// the server down. It leaves with this program, however that ends: the relay ends with it, and the server lets go of
/// a client that has lost its connection, even of one whose output is not read any more.
pub fn attach(
    server: &Server,
    session: &SessionId,
    follow: impl Into<Follow>,
    runtime_dir: &Path,
) -> Result<(Client, Ear), TmuxError> {
    let door = Door::open(door::place(runtime_dir, 'r')).map_err(TmuxError::Io)?;
    let by_relay = server.at_socket(door.path());
    let mut argv = by_relay.argv(argv::attach_control(*session, follow.into()), false);
    argv.insert(1, "-C".into());
    let mut child = start(&by_relay.spec(argv), End::Pipe, End::Pipe, End::Null).map_err(TmuxError::Io)?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    // From here on the child is ended whatever happens.
    let client = Client { stdin, child: Some(child), pending: VecDeque::new(), said: 0 };
    let socket = server.socket_path();
    let relay = move || {
        // The client says the same by its end.
        if let Err(error) = relay::run(door, &socket) {
            tracing::warn!(%error, "the relay of a control-mode client ended");
        }
    };
    std::thread::Builder::new().name("relay".into()).spawn(relay).map_err(TmuxError::Io)?;
    let (Some(stdin), Some(stdout)) = (&client.stdin, stdout) else {
        return Err(TmuxError::Io(io::ErrorKind::BrokenPipe.into()));
    };
    for end in [stdin.as_fd(), stdout.as_fd()] {
        let flags = rustix::fs::fcntl_getfl(end).map_err(|error| TmuxError::Io(error.into()))?;
        rustix::fs::fcntl_setfl(end, flags | OFlags::NONBLOCK).map_err(|error| TmuxError::Io(error.into()))?;
    }
    Ok((client, Ear { stdout, decoder: Decoder::default() }))
}

impl Client {
    /// Types bytes into a pane, after leaving a copy mode that would swallow them.
    ///
    /// # Errors
    /// `WouldBlock` where the server has not taken the last mebibyte: nothing of `bytes` is typed then.
    /// `BrokenPipe` where the client has ended.
    pub fn type_bytes(&mut self, pane: PaneId, bytes: &[u8]) -> io::Result<()> {
        self.say(&typing(pane, bytes))
    }

    /// Pastes a text into a pane, in brackets where its program has asked for them: only the server knows that of a
    /// program that asked before anybody of ours looked.
    ///
    /// # Errors
    /// As [`Self::type_bytes`].
    pub fn paste(&mut self, pane: PaneId, text: &[u8]) -> io::Result<()> {
        self.say(&pasting(pane, text))
    }

    /// Lets the output of a paused pane come again.
    ///
    /// # Errors
    /// As [`Self::type_bytes`].
    pub fn resume(&mut self, pane: PaneId) -> io::Result<()> {
        self.say(&format!("refresh-client -A '{pane}:continue'\n"))
    }

    /// Asks for a pane as it is: three replies come, one after the other. The first is the one that
    /// [`super::parse::PaneModes::parse`] reads; the second is the history and the screen, with escape sequences, one line for
    /// each row; the third is the same with rows in one that tmux has wrapped, or once had.
    ///
    /// # Errors
    /// As [`Self::type_bytes`].
    pub fn capture(&mut self, pane: PaneId, history: u32) -> io::Result<()> {
        self.say(&capturing(pane, history))
    }

    /// Asks the server to let the client go, which it confirms by [`Notification::Exit`].
    ///
    /// # Errors
    /// As [`Self::type_bytes`].
    pub fn detach(&mut self) -> io::Result<()> {
        self.say("detach-client\n")
    }

    /// Returns how many commands it was given. Each of them is answered by one [`Notification::Reply`]; one more tells whether
    /// the client was attached, and comes first only where nothing was asked before it.
    pub const fn said(&self) -> u64 {
        self.said
    }

    /// Tells whether the client has ended. Its [`Ear`] need not hear of that: the server writes to the same pipe.
    pub fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None)))
    }

    /// Hands on what is pending, as far as it is taken without waiting; returns how many bytes are left.
    ///
    /// # Errors
    /// `BrokenPipe` where the client has ended.
    pub fn flush(&mut self) -> io::Result<usize> {
        let stdin = self.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        while !self.pending.is_empty() {
            match stdin.write(self.pending.as_slices().0) {
                Ok(taken) => drop(self.pending.drain(..taken)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(self.pending.len())
    }

    pub(super) fn say(&mut self, commands: &str) -> io::Result<()> {
        self.flush()?;
        // Whole commands or none: half of one would spoil the next.
        if self.pending.len() + commands.len() > PENDING_LIMIT {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.pending.extend(commands.as_bytes());
        self.said += commands.bytes().map(|byte| u64::from(byte == b'\n')).sum::<u64>();
        self.flush().map(drop)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // What is not taken any more is lost, as the session's owner wanted.
        drop(self.flush());
        drop(self.stdin.take());
        let Some(mut child) = self.child.take() else { return };
        let until = Instant::now() + FAREWELL;
        while Instant::now() < until {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        OwnChild::from(child).end();
    }
}

impl AsFd for Ear {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stdout.as_fd()
    }
}

impl Ear {
    /// Waits at most `patience` for something to be heard.
    ///
    /// # Errors
    /// Any of poll(2) and read(2) but those that mean "later".
    pub fn listen(&mut self, patience: Duration) -> io::Result<Heard> {
        let until = Instant::now() + patience;
        loop {
            let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
            let mut fds = [PollFd::new(&self.stdout, PollFlags::IN)];
            match poll(&mut fds, left.as_ref()) {
                Ok(0) => return Ok(Heard::Silence),
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let mut bytes = [0; 16384];
            return match self.stdout.read(&mut bytes) {
                Ok(0) => Ok(Heard::Closed),
                Ok(count) => Ok(Heard::Notifications(self.decoder.push(&bytes[..count]))),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    continue;
                }
                Err(error) => Err(error),
            };
        }
    }
}

/// The commands that type bytes. Hexadecimal needs no quoting in any version.
fn typing(pane: PaneId, bytes: &[u8]) -> String {
    use std::fmt::Write as _;

    let mut commands = String::new();
    for chunk in bytes.chunks(CHUNK) {
        let _ = write!(commands, "copy-mode -q -t {pane}\nsend-keys -H -t {pane}");
        for byte in chunk {
            let _ = write!(commands, " {byte:02x}");
        }
        commands.push('\n');
    }
    commands
}

/// The commands that paste a text. Three octal digits for each byte need no other quoting in any version.
fn pasting(pane: PaneId, text: &[u8]) -> String {
    use std::fmt::Write as _;

    let buffer = argv::paste_buffer(std::process::id(), pane);
    let mut commands = String::new();
    for (index, chunk) in text.chunks(CHUNK).enumerate() {
        let more = if index == 0 { "" } else { "-a " };
        let _ = write!(commands, "set-buffer {more}-b {buffer} \"");
        for byte in chunk {
            let _ = write!(commands, "\\{byte:03o}");
        }
        commands.push_str("\"\n");
    }
    let _ = write!(
        commands,
        "copy-mode -q -t {pane}\npaste-buffer -p -r -b {buffer} -t {pane}\ndelete-buffer -b {buffer}\n"
    );
    commands
}

fn capturing(pane: PaneId, history: u32) -> String {
    let capture = |joined| {
        let capture = argv::capture_pane(pane, Capture { history, escapes: true, joined });
        capture.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    };
    format!("display-message -p -t {pane} '{MODES_FORMAT}'\n{}\n{}\n", capture(false), capture(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_is_three_commands() {
        let expected = format!(
            "display-message -p -t %3 '{MODES_FORMAT}'\ncapture-pane -p -t %3 -e -S -9\ncapture-pane -p -t %3 -e -J -S -9\n"
        );
        assert_eq!(capturing(PaneId::new(3), 9), expected);
        assert!(!MODES_FORMAT.contains(['\'', '\n']));
    }

    #[test]
    fn input_is_written_in_hexadecimal() {
        let pane = PaneId::new(3);
        assert_eq!(typing(pane, b"a;\n\xff"), "copy-mode -q -t %3\nsend-keys -H -t %3 61 3b 0a ff\n");
        assert_eq!(typing(pane, b""), "");
        assert_eq!(typing(pane, &[0; CHUNK + 1]).lines().count(), 4);
    }
}
