//! Who is alive, without asking the program under test: a ledger that fixtures write their pid and start into,
//! pidfds that are opened right after, and bystanders that must outlive every stop.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::rig::{DEADLINE, until};

/// Writes its own `/proc/<pid>/stat` into the ledger and becomes the program: pid and start stay.
pub(crate) const NOTE: &str =
    "#!/bin/sh\nread -r stat < /proc/$$/stat\nprintf '%s\\n' \"$stat\" >> \"$1\"\nshift\nexec \"$@\"\n";

/// A file in which fixtures say that they run.
pub(crate) struct Ledger {
    note: PathBuf,
    path: PathBuf,
}

impl Ledger {
    pub(crate) fn new(note: &Path, path: PathBuf) -> Self {
        Self { note: note.to_owned(), path }
    }

    /// Returns the command that notes itself and becomes `argv`.
    pub(crate) fn noted(&self, argv: &[&str]) -> Vec<String> {
        // Through sh: another thread of the tests may hold the new file open for writing while it forks.
        let head = ["sh".to_owned(), self.note.display().to_string(), self.path.display().to_string()];
        head.into_iter().chain(argv.iter().map(|word| (*word).to_owned())).collect()
    }

    /// Returns [`Self::noted`] as a word for a shell; the arguments must need no quotes.
    pub(crate) fn noted_line(&self, argv: &str) -> String {
        format!("sh {} {} {argv}", self.note.display(), self.path.display())
    }

    /// Returns everybody who has noted themselves so far.
    pub(crate) fn entries(&self) -> Vec<Watched> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        text.lines().map(|line| Watched::open(line).unwrap_or_else(|| panic!("not a stat line: {line:?}"))).collect()
    }

    /// Waits until `count` have noted themselves, and holds them.
    pub(crate) fn wait(&self, count: usize) -> Vec<Watched> {
        until(&format!("{count} entries in {}", self.path.display()), || {
            let text = fs::read_to_string(&self.path).unwrap_or_default();
            text.ends_with('\n') && text.lines().count() >= count
        });
        self.entries()
    }

    /// Waits for one and holds it.
    pub(crate) fn one(&self) -> Watched {
        self.wait(1).remove(0)
    }
}

/// Returns pid and start ticks (field 22) of a stat line; a name may hold spaces and parentheses.
fn stat_fields(line: &str) -> Option<(i32, u64)> {
    let pid = line.split_once(' ')?.0.parse().ok()?;
    let rest = line.rsplit_once(") ")?.1;
    Some((pid, rest.split(' ').nth(19)?.parse().ok()?))
}

/// One process, held by a pidfd that was opened while its start was what it had noted.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) pid: i32,
    pub(crate) ticks: u64,
    /// `None`: it was gone before it could be held.
    pidfd: Option<OwnedFd>,
}

impl Watched {
    fn open(line: &str) -> Option<Self> {
        let (pid, ticks) = stat_fields(line)?;
        let pidfd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok();
        let same = fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(|now| stat_fields(&now))
            == Some((pid, ticks));
        Some(Self { pid, ticks, pidfd: pidfd.filter(|_| same) })
    }

    /// Holds a process that was named by somebody else.
    pub(crate) fn of(pid: i32) -> Self {
        Self::find(pid).unwrap_or_else(|| panic!("no process {pid}"))
    }

    /// Holds a process if it is there.
    pub(crate) fn find(pid: i32) -> Option<Self> {
        Self::open(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    pub(crate) fn is_alive(&self) -> bool {
        !self.ends_within(Duration::ZERO)
    }

    fn ends_within(&self, patience: Duration) -> bool {
        let Some(pidfd) = &self.pidfd else { return true };
        let until = Instant::now() + patience;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
            let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
            match poll(&mut fds, Some(&timeout)) {
                Ok(count) => return count == 1,
                Err(error) => assert_eq!(error, rustix::io::Errno::INTR),
            }
        }
    }

    /// Waits until the kernel says that it has ended.
    pub(crate) fn assert_ends(&self) {
        assert!(self.ends_within(DEADLINE), "process {} is still alive", self.pid);
    }

    pub(crate) fn assert_alive(&self) {
        assert!(self.is_alive(), "process {} has ended", self.pid);
    }

    pub(crate) fn kill(&self) {
        if let Some(pidfd) = &self.pidfd {
            pidfd_send_signal(pidfd, Signal::KILL).ok();
        }
    }
}

/// Five strangers with the command line of a workload, children of the test.
pub(crate) struct Bystanders(Vec<Child>);

impl Bystanders {
    pub(crate) fn new(argv: &[&str]) -> Self {
        let start = |_| {
            let mut command = Command::new(argv[0]);
            command.args(&argv[1..]).env_clear().current_dir("/");
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };
        let children = Self((0..5).map(start).collect());
        until("the bystanders' own command lines", || children.pids().all(|pid| argv_of(pid) == argv));
        children
    }

    pub(crate) fn pids(&self) -> impl Iterator<Item = i32> {
        self.0.iter().map(|child| child.id().cast_signed())
    }

    pub(crate) fn assert_alive(&mut self) {
        for child in &mut self.0 {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "a bystander has ended: {ended:?}");
        }
    }
}

impl Drop for Bystanders {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that is a shell has a child of its own, which nobody else would end.
            let pid = child.id();
            let below = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            let below = below.split_whitespace().filter_map(|word| Pid::from_raw(word.parse().ok()?));
            let held: Vec<OwnedFd> = below.filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()).collect();
            child.kill().ok();
            for pidfd in held {
                pidfd_send_signal(pidfd, Signal::KILL).ok();
            }
            child.wait().ok();
        }
    }
}

/// Returns the arguments of a process as text; empty where it is gone.
pub(crate) fn argv_of(pid: i32) -> Vec<String> {
    let raw = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&raw).into_owned();
    text.split_terminator('\0').map(str::to_owned).collect()
}

/// Returns every pid of the host.
pub(crate) fn all_pids() -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

#[test]
fn a_stat_line_is_read_past_its_name() {
    let line = "42 (a) S 1 (b) R 7 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 991 1 2";
    assert_eq!(stat_fields(line), Some((42, 991)));
    assert_eq!(stat_fields("x"), None);
}
