//! The kill funnel: the only file of the crate that sends signals.
//!
//! [`deliver`] consumes an [`Owned`] proof, so a signal without a verdict does not compile. Nothing
//! here signals a group, and nothing takes a bare pid, with three exceptions that name no stranger:
//! [`OwnChild`] (a direct child that was not reaped), [`stop_self`], and [`probe`], which sends nothing.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::str::FromStr;

use rustix::io::Errno;
use rustix::process::{PidfdFlags, pidfd_open};

use super::authority::Owned;
use super::failpoint::{Point, around};
use super::identity::Pid;
use super::leaf::Leaf;
use super::receipt::Via;

/// The signals that this program sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    /// Hang up.
    Hup,
    /// Interrupt.
    Int,
    /// Quit.
    Quit,
    /// User-defined 1.
    Usr1,
    /// User-defined 2.
    Usr2,
    /// Terminate.
    Term,
    /// Continue.
    Cont,
    /// Stop.
    Stop,
    /// Kill.
    Kill,
}

impl Signal {
    const ALL: [Self; 9] =
        [Self::Hup, Self::Int, Self::Quit, Self::Usr1, Self::Usr2, Self::Term, Self::Cont, Self::Stop, Self::Kill];

    /// Returns the name without `SIG`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hup => "HUP",
            Self::Int => "INT",
            Self::Quit => "QUIT",
            Self::Usr1 => "USR1",
            Self::Usr2 => "USR2",
            Self::Term => "TERM",
            Self::Cont => "CONT",
            Self::Stop => "STOP",
            Self::Kill => "KILL",
        }
    }

    const fn rustix(self) -> rustix::process::Signal {
        use rustix::process::Signal as S;
        match self {
            Self::Hup => S::HUP,
            Self::Int => S::INT,
            Self::Quit => S::QUIT,
            Self::Usr1 => S::USR1,
            Self::Usr2 => S::USR2,
            Self::Term => S::TERM,
            Self::Cont => S::CONT,
            Self::Stop => S::STOP,
            Self::Kill => S::KILL,
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Signal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.strip_prefix("SIG").unwrap_or(text);
        Self::ALL.into_iter().find(|signal| signal.name() == name).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|signal| signal.name()).collect();
            format!("unknown signal {text:?}; it is one of {}", known.join(", "))
        })
    }
}

/// Why a signal did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undelivered {
    /// The process ended before.
    Gone,
    /// We may not signal it (`EPERM`): it runs as another user.
    NotPermitted,
    /// Another error.
    Failed(Errno),
}

/// Sends a signal to the process that the proof is about, and says by which call.
///
/// # Errors
/// When the kernel did not take the signal.
#[expect(clippy::disallowed_methods, reason = "the kill funnel")]
#[expect(clippy::needless_pass_by_value, reason = "a proof is used up by the one signal it permits")]
pub fn deliver(owned: Owned<'_>, signal: Signal) -> Result<Via, Undelivered> {
    let by_pid = || (rustix::process::kill_process(owned.pid().rustix(), signal.rustix()), Via::Kill);
    let (sent, via) = around(Point::Signal, || match owned.pidfd() {
        Some(pidfd) => match rustix::process::pidfd_send_signal(pidfd, signal.rustix()) {
            Err(error) if is_filtered(error, owned.pid(), pidfd) => by_pid(),
            sent => (sent, Via::Pidfd),
        },
        None => by_pid(),
    });
    match sent {
        Ok(()) => Ok(via),
        Err(Errno::SRCH) => Err(Undelivered::Gone),
        Err(Errno::PERM) => Err(Undelivered::NotPermitted),
        Err(error) => Err(Undelivered::Failed(error)),
    }
}

/// Tells whether a call was refused to us (seccomp(2) answers what it is told to), rather than a signal to this process.
/// It is asked for with its pid, which names it as long as it has not ended.
fn is_filtered(error: Errno, pid: Pid, pidfd: BorrowedFd<'_>) -> bool {
    let refused = match error {
        Errno::NOSYS => true,
        Errno::PERM => rustix::process::test_kill_process(pid.rustix()).is_ok(),
        _ => false,
    };
    refused && !pidfd_ended(pidfd)
}

/// Tells whether signals can be sent through pidfds here. Asks with one to ourselves that is ignored: rustix sends no
/// signal 0 this way.
#[expect(clippy::disallowed_methods, reason = "the kill funnel: ourselves only")]
pub fn takes_signals_by_pidfd() -> bool {
    let me = rustix::process::getpid();
    let sent = pidfd_open(me, PidfdFlags::empty())
        .and_then(|pidfd| rustix::process::pidfd_send_signal(pidfd, rustix::process::Signal::URG));
    sent.is_ok()
}

/// Whether the kernel knows a process with a given pid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Existence {
    /// It exists (a zombie does, too), whoever owns it.
    Present,
    /// It does not.
    Absent,
    /// The kernel does not say.
    Unknown(String),
}

/// Asks the kernel whether a process exists, without procfs and without a signal.
pub fn probe(pid: Pid) -> Existence {
    match pidfd_open(pid.rustix(), PidfdFlags::empty()) {
        Ok(_) => Existence::Present,
        Err(Errno::SRCH) => Existence::Absent,
        // kill(2) with signal 0 only checks; EPERM means that there is somebody.
        Err(_) => match rustix::process::test_kill_process(pid.rustix()) {
            Ok(()) | Err(Errno::PERM) => Existence::Present,
            Err(Errno::SRCH) => Existence::Absent,
            Err(error) => Existence::Unknown(format!("failed to ask for its existence: {error}")),
        },
    }
}

/// Stops this very process until it is continued, for job control; the rest of its group runs on.
#[expect(clippy::disallowed_methods, reason = "the kill funnel: ourselves only")]
pub fn stop_self() {
    // A process can always stop itself.
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
}

/// A direct child of ours that was not reaped yet, so its pid cannot name anybody else.
///
/// It is the one exception from the rule that needs a verdict: a helper such as a tmux client that
/// hangs. It is only made from a [`Child`], which is the proof.
#[derive(Debug)]
pub struct OwnChild(Child);

impl From<Child> for OwnChild {
    fn from(child: Child) -> Self {
        Self(child)
    }
}

impl OwnChild {
    /// Kills the child and reaps it on a thread of its own: one in an uninterruptible sleep must not
    /// hold up the caller.
    #[expect(clippy::disallowed_methods, reason = "the kill funnel: a direct, unreaped child")]
    pub fn end(mut self) {
        // Fails only where the child was reaped already.
        self.0.kill().ok();
        std::thread::spawn(move || {
            self.0.wait().ok();
        });
    }

    /// Returns a pidfd of the child, for waiting.
    pub fn pidfd(&self) -> Option<OwnedFd> {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::new)?;
        pidfd_open(pid.rustix(), PidfdFlags::empty()).ok()
    }

    /// Returns the child's pid.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Leaves the child to itself: it is reaped whenever it ends.
    pub fn leave(mut self) {
        if self.try_reap().is_none() {
            std::thread::spawn(move || self.0.wait());
        }
    }

    /// Reaps the child if it has ended.
    pub fn try_reap(&mut self) -> Option<std::process::ExitStatus> {
        self.0.try_wait().ok().flatten()
    }
}

/// Tells whether a pidfd's process has ended: all of its threads are gone (`pidfd_open(2)`, `POLLIN`).
pub(super) fn pidfd_ended(pidfd: impl AsFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&now)), Ok(1)) && fds[0].revents().contains(PollFlags::IN)
}

/// Kills everybody in a cgroup at once (`cgroup.kill`, cgroups(7), Linux 5.14), children that are being born
/// included. Demands a proof for each process in it: nobody else may be there.
///
/// # Errors
/// When somebody is in it for whom there is no proof, or the kernel refuses; nobody was signalled then.
#[expect(clippy::needless_pass_by_value, reason = "a proof is used up by the one signal it permits")]
pub fn deliver_all(leaf: &Leaf, proofs: Vec<Owned<'_>>) -> io::Result<Via> {
    let unproven = leaf.pids()?.into_iter().find(|pid| !proofs.iter().any(|proof| proof.pid() == *pid));
    if let Some(pid) = unproven {
        return Err(io::Error::other(format!("process {pid} is in the cgroup and not ours to end")));
    }
    leaf.write("cgroup.kill", "1")?;
    Ok(Via::Cgroup)
}

/// Tells for each of several pidfds whether its process has ended; `false` where there is none.
pub(super) fn which_ended(pidfds: &[Option<BorrowedFd<'_>>]) -> Vec<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds: Vec<PollFd<'_>> =
        pidfds.iter().flatten().map(|pidfd| PollFd::from_borrowed_fd(*pidfd, PollFlags::IN)).collect();
    if poll(&mut fds, Some(&now)).is_err() {
        return pidfds.iter().map(|pidfd| pidfd.is_some_and(pidfd_ended)).collect();
    }
    let mut answers = fds.iter().map(|fd| fd.revents().contains(PollFlags::IN));
    pidfds.iter().map(|pidfd| pidfd.is_some() && answers.next() == Some(true)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn init_exists_for_everybody() {
        assert_eq!(probe(Pid::new(1).expect("positive")), Existence::Present);
        assert_eq!(probe(Pid::new(i32::MAX).expect("positive")), Existence::Absent);
    }

    #[test]
    fn names_parse_with_and_without_prefix() {
        for signal in Signal::ALL {
            assert_eq!(signal.name().parse(), Ok(signal));
            assert_eq!(format!("SIG{signal}").parse(), Ok(signal));
        }
        assert!("TERM ".parse::<Signal>().is_err());
        assert!("9".parse::<Signal>().is_err());
    }
}
