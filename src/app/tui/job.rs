//! Job control: the screen can be suspended while its sessions run on.
//!
//! A suspended process reads nothing, so the sessions would fill their pipes and stop. Therefore the
//! program is two processes in one process group. The *parent* ([`parent`]) is the one that the shell
//! knows; it is tiny, waits, passes signals on and can be stopped. Its child is the cockpit itself
//! (`__cockpit`), which never stops: to suspend, it restores the terminal and asks the parent to stop
//! *itself*; the shell sees a stopped job and takes the terminal. After `fg` the parent says so and
//! the child draws again.
//!
//! They talk over a socketpair, one byte a message. It is the child's standard input, because std
//! passes on nothing but 0, 1 and 2 and standard error may be a file. [`Link::from_stdin`] moves it
//! away and opens the terminal of standard output anew as standard input, by its name: `/dev/tty`
//! works for reading too, but not with every system's poll.
//!
//! If the parent is killed, the link ends, and that is a hang-up. If the child is killed, the parent
//! restores the terminal. The parent signals nobody but itself.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::{getpgid, getpgrp, getpid, getppid, getsid};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetpgrp, tcsetattr, ttyname};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;

use super::seam::{Outcome, UiEvent};
use super::signals::Alarm;
use super::terminal::{restore_for_another, unstoppable};
use crate::lifecycle::kill::stop_self;
use crate::lifecycle::spawn::{End, Spec, start};

// From the parent to the child.
const TERMINATE: u8 = b'T';
const HANGUP: u8 = b'H';
const PLEASE_SUSPEND: u8 = b'Z';
const CONTINUED: u8 = b'C';
const YES: u8 = b'Y';
const NO: u8 = b'N';
// From the child to the parent.
const MAY_I: u8 = b'?';
const SUSPENDED: u8 = b'S';

/// How long the child waits for the answer to its question.
const ANSWER: Duration = Duration::from_millis(500);

/// Runs a program (the cockpit) as the child and returns the status to exit with: its own, or 128 plus
/// the signal that ended it.
///
/// # Errors
/// Where standard input or output is no terminal, or the child cannot be started.
pub fn parent<S: Into<OsString>>(argv: impl IntoIterator<Item = S>) -> io::Result<u8> {
    if !isatty(io::stdin().as_fd()) || !isatty(io::stdout().as_fd()) {
        let message = "standard input and output must be a terminal (try --batch or a subcommand)";
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    }
    let before = tcgetattr(io::stdin().as_fd())?;
    // Before the child exists: nothing is lost, and nothing is ended by default.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGTSTP, SIGCONT])?;
    let (link, theirs) = UnixStream::pair()?;
    let mut spec = Spec::new(argv);
    spec.arg0 = Some("cookbook-tui".into());
    let mut child = start(&spec, End::Fd(OwnedFd::from(theirs)), End::Inherit, End::Inherit)?;

    let (sender, messages) = mpsc::channel();
    let send = sender.clone();
    std::thread::spawn(move || signals.forever().try_for_each(|signal| send.send(Message::Signal(signal))));
    let send = sender.clone();
    let mut incoming = link.try_clone()?;
    std::thread::spawn(move || {
        let mut byte = [0];
        while matches!(incoming.read(&mut byte), Ok(1)) {
            let _ignored = send.send(Message::Child(byte[0]));
        }
    });
    std::thread::spawn(move || sender.send(Message::Ended(child.wait())));

    let mut state = Parent::default();
    let mut outgoing = &link;
    for message in messages {
        for step in state.handle(&message, &mut Kernel) {
            match step {
                Step::Tell(byte) => {
                    let _ignored = outgoing.write(&[byte]);
                }
                Step::StopSelf => stop_self(),
                Step::Finish(status) => return finish(status, &before),
            }
        }
    }
    Err(io::Error::other("the cockpit was lost"))
}

/// A child that was ended by a signal could not restore the terminal.
fn finish(status: Result<ExitStatus, i32>, before: &Termios) -> io::Result<u8> {
    // Whoever left by itself has put the terminal back; of one that nobody saw leave, nobody knows.
    if status.is_err() || status.is_ok_and(|status| status.signal().is_some()) {
        restore_for_another(io::stdout().as_fd());
        let _ignored = unstoppable(|| tcsetattr(io::stdin().as_fd(), OptionalActions::Now, before));
    }
    let status = status.map_err(io::Error::from_raw_os_error)?;
    if let Some(signal) = status.signal() {
        return Ok(u8::try_from(128 + signal).unwrap_or(u8::MAX));
    }
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

/// What the parent hears.
#[derive(Debug)]
enum Message {
    Signal(i32),
    Child(u8),
    Ended(io::Result<ExitStatus>),
}

/// What the parent does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Tell(u8),
    StopSelf,
    Finish(Result<ExitStatus, i32>),
}

/// What the parent asks the kernel.
trait Standing {
    /// Whether a shell with job control would notice that we stop.
    fn has_shell(&mut self) -> bool;
    /// Whether the terminal is ours; waits a moment for it, as `fg` may hand it over late.
    fn in_foreground(&mut self) -> bool;
}

/// The parent as a machine: pure but for its two questions.
#[derive(Debug, Default)]
struct Parent {
    /// The child has left the terminal to the shell.
    stopped: bool,
}

impl Parent {
    fn handle(&mut self, message: &Message, standing: &mut impl Standing) -> Vec<Step> {
        match message {
            Message::Signal(SIGTSTP) if self.stopped => Vec::new(),
            Message::Signal(SIGTSTP) => vec![Step::Tell(PLEASE_SUSPEND)],
            // `bg`: the shell still has the terminal. We stop again, as an editor does.
            Message::Signal(SIGCONT) if self.stopped && !standing.in_foreground() => vec![Step::StopSelf],
            Message::Signal(SIGCONT) => {
                self.stopped = false;
                vec![Step::Tell(CONTINUED)]
            }
            Message::Signal(SIGHUP) => vec![Step::Tell(HANGUP)],
            Message::Signal(_) => vec![Step::Tell(TERMINATE)],
            Message::Child(MAY_I) => vec![Step::Tell(if standing.has_shell() { YES } else { NO })],
            Message::Child(SUSPENDED) => {
                self.stopped = true;
                vec![Step::StopSelf]
            }
            Message::Child(_) => Vec::new(),
            Message::Ended(status) => {
                vec![Step::Finish(status.as_ref().copied().map_err(|error| error.raw_os_error().unwrap_or(0)))]
            }
        }
    }
}

struct Kernel;

impl Standing for Kernel {
    /// A shell with job control put us into a group of our own, which we lead, in its session. Where
    /// we lead none (a script, a wrapper), only we would stop, and nobody would notice.
    fn has_shell(&mut self) -> bool {
        let Some(shell) = getppid() else { return false };
        let session = getsid(Some(shell)).ok();
        getpgrp() == getpid()
            && session.is_some()
            && session == getsid(None).ok()
            && getpgid(Some(shell)).is_ok_and(|group| group != getpgrp())
    }

    fn in_foreground(&mut self) -> bool {
        for _ in 0..20 {
            if tcgetpgrp(io::stdin().as_fd()).is_ok_and(|group| group == getpgrp()) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }
}

/// The child's end of the link to its parent.
#[derive(Debug)]
pub struct Link {
    stream: UnixStream,
}

impl Link {
    /// Takes the link from standard input and makes the terminal standard input again. To be called
    /// first thing in the child: before threads, and before anything reads.
    ///
    /// # Errors
    /// Where standard input is not a link, or there is no terminal.
    pub fn from_stdin() -> io::Result<Self> {
        let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        // Fails with ENOTSOCK for anything else than the parent's socket.
        stream.peer_addr()?;
        rustix::stdio::dup2_stdin(terminal()?)?;
        // The whole group gets a SIGTSTP; stopping is the parent's part. A handler (which does
        // nothing) is reset in what we start; a blocked or ignored signal would not be.
        signal_hook::flag::register(SIGTSTP, Arc::new(AtomicBool::new(false)))?;
        Ok(Self { stream })
    }

    /// Starts to listen to the parent.
    pub(super) fn listen(self, events: Sender<UiEvent>, alarm: Alarm) -> io::Result<Listening> {
        let mut incoming = self.stream.try_clone()?;
        let (sender, answers) = mpsc::channel();
        std::thread::Builder::new().name("job control".into()).spawn(move || {
            let mut byte = [0];
            while matches!(incoming.read(&mut byte), Ok(1)) {
                let event = match byte[0] {
                    CONTINUED => UiEvent::Resume,
                    PLEASE_SUSPEND => UiEvent::Suspend,
                    HANGUP => {
                        alarm.set(Outcome::Hangup);
                        UiEvent::Hangup
                    }
                    TERMINATE => {
                        alarm.set(Outcome::Terminate);
                        UiEvent::Terminate
                    }
                    answer => {
                        let _ignored = sender.send(answer == YES);
                        continue;
                    }
                };
                let _ignored = events.send(event);
            }
            alarm.set(Outcome::Hangup);
            let _ignored = events.send(UiEvent::Hangup);
        })?;
        Ok(Listening { stream: self.stream, answers })
    }
}

/// Opens the terminal of standard output for reading and writing, else the controlling terminal.
fn terminal() -> io::Result<File> {
    let stdout = io::stdout();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let named = ttyname(stdout.as_fd(), Vec::new())
        .and_then(|name| rustix::fs::open(name, flags, Mode::empty()))
        .ok()
        .filter(|fd| isatty(fd));
    match named {
        Some(fd) => Ok(File::from(fd)),
        None => File::options().read(true).write(true).open("/dev/tty"),
    }
}

/// The link while it is listened to.
#[derive(Debug)]
pub(super) struct Listening {
    stream: UnixStream,
    answers: Receiver<bool>,
}

impl Listening {
    /// Asks whether a shell would take the terminal.
    pub(super) fn may_suspend(&self) -> bool {
        while self.answers.try_recv().is_ok() {}
        self.tell(MAY_I) && self.answers.recv_timeout(ANSWER).unwrap_or(false)
    }

    /// Says that the terminal is restored: the parent stops itself.
    pub(super) fn suspended(&self) {
        self.tell(SUSPENDED);
    }

    fn tell(&self, byte: u8) -> bool {
        matches!((&self.stream).write(&[byte]), Ok(1))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    struct Fake {
        shell: bool,
        foreground: bool,
    }

    impl Standing for Fake {
        fn has_shell(&mut self) -> bool {
            self.shell
        }

        fn in_foreground(&mut self) -> bool {
            self.foreground
        }
    }

    fn ended(raw: i32) -> Message {
        Message::Ended(Ok(ExitStatus::from_raw(raw)))
    }

    #[test]
    fn signals_become_bytes() {
        for (signal, byte) in
            [(SIGTERM, b'T'), (SIGINT, b'T'), (SIGQUIT, b'T'), (SIGHUP, b'H'), (SIGTSTP, b'Z'), (SIGCONT, b'C')]
        {
            let steps = Parent::default().handle(&Message::Signal(signal), &mut Fake { shell: true, foreground: true });
            assert_eq!(steps, [Step::Tell(byte)], "{signal}");
        }
    }

    #[test]
    fn it_stops_itself_until_it_is_in_the_foreground_again() {
        let mut parent = Parent::default();
        let mut standing = Fake { shell: true, foreground: false };
        assert_eq!(parent.handle(&Message::Child(b'?'), &mut standing), [Step::Tell(b'Y')]);
        assert_eq!(parent.handle(&Message::Child(b'S'), &mut standing), [Step::StopSelf]);
        assert_eq!(parent.handle(&Message::Signal(SIGTSTP), &mut standing), []);
        assert_eq!(parent.handle(&Message::Signal(SIGCONT), &mut standing), [Step::StopSelf], "bg");
        // A stop that waits for the continue is passed on all the same.
        assert_eq!(parent.handle(&Message::Signal(SIGTERM), &mut standing), [Step::Tell(b'T')]);
        standing.foreground = true;
        assert_eq!(parent.handle(&Message::Signal(SIGCONT), &mut standing), [Step::Tell(b'C')]);
        assert_eq!(parent.handle(&Message::Signal(SIGTSTP), &mut standing), [Step::Tell(b'Z')]);
    }

    #[test]
    fn without_a_shell_nobody_stops() {
        let mut standing = Fake { shell: false, foreground: true };
        assert_eq!(Parent::default().handle(&Message::Child(b'?'), &mut standing), [Step::Tell(b'N')]);
    }

    #[test]
    fn the_end_of_the_child_is_the_end() {
        let mut standing = Fake { shell: true, foreground: true };
        for raw in [0, 3 << 8, 9] {
            let steps = Parent::default().handle(&ended(raw), &mut standing);
            assert_eq!(steps, [Step::Finish(Ok(ExitStatus::from_raw(raw)))]);
        }
    }

    #[test]
    fn a_question_is_answered_and_an_end_is_a_hang_up() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (sender, events) = mpsc::channel();
        let alarm = Alarm::for_test();
        let link = Link { stream: theirs }.listen(sender, alarm).unwrap();
        let answering = std::thread::spawn(move || {
            let mut byte = [0];
            for answer in [YES, NO] {
                (&ours).read_exact(&mut byte).unwrap();
                assert_eq!(byte, [MAY_I]);
                (&ours).write_all(&[answer]).unwrap();
            }
            (&ours).write_all(&[CONTINUED, PLEASE_SUSPEND]).unwrap();
        });
        assert!(link.may_suspend());
        assert!(!link.may_suspend());
        answering.join().unwrap();
        let heard: Vec<UiEvent> = (0..3).map(|_| events.recv_timeout(Duration::from_secs(10)).unwrap()).collect();
        assert!(matches!(heard[..], [UiEvent::Resume, UiEvent::Suspend, UiEvent::Hangup]), "{heard:?}");
    }
}
