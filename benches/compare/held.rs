//! Processes that the harness holds: by a pidfd, once pid and start are those of the ledger.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::ledger::{Entry, entries, stat};

/// Longer than a workload takes to be there.
const PATIENCE: Duration = Duration::from_secs(20);

struct Held {
    entry: Entry,
    /// `None`: it had ended before it could be held.
    pidfd: Option<OwnedFd>,
}

/// Everybody of one ledger.
pub(crate) struct Flock {
    ledger: PathBuf,
    length: u64,
    held: Vec<Held>,
}

impl Flock {
    /// Follows a ledger that is not there yet.
    pub(crate) fn follow(ledger: &Path) -> Self {
        Self { ledger: ledger.to_owned(), length: 0, held: Vec::new() }
    }

    /// Waits until all of these are there, those of `gone` have ended, and nobody is about to exec.
    pub(crate) fn wait_for(&mut self, roles: &[&str], gone: &[&str]) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        loop {
            self.read();
            let has = |role: &&str| self.held.iter().any(|held| held.entry.role == **role);
            let left = |role: &&str| !self.held.iter().any(|held| held.entry.role == **role && is_alive(held));
            if roles.iter().all(has) && gone.iter().all(left) {
                std::thread::sleep(Duration::from_millis(50));
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!("{roles:?} did not come, or {gone:?} did not go"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Holds who is new in the ledger. Tells whether there was anybody.
    pub(crate) fn read(&mut self) -> bool {
        let length = fs::metadata(&self.ledger).map_or(0, |file| file.len());
        if length == self.length {
            return false;
        }
        let known = self.held.len();
        let text = fs::read_to_string(&self.ledger).unwrap();
        self.held.extend(entries(&text).into_iter().skip(known).map(|entry| Held { pidfd: hold(&entry), entry }));
        // A line that is not whole yet is looked at again.
        if text.ends_with('\n') {
            self.length = length;
        }
        self.held.len() > known
    }

    /// Waits until one more has ended, for a while. Tells whether one has.
    pub(crate) fn wait(&mut self, for_at_most: Duration) -> bool {
        let mut fds: Vec<PollFd<'_>> =
            self.held.iter().filter_map(|held| Some(PollFd::new(held.pidfd.as_ref()?, PollFlags::IN))).collect();
        let timeout = Timespec::try_from(for_at_most).unwrap();
        if poll(&mut fds, Some(&timeout)).unwrap() == 0 {
            return false;
        }
        for held in &mut self.held {
            if !is_alive(held) {
                held.pidfd = None;
            }
        }
        true
    }

    pub(crate) fn alive(&self) -> usize {
        self.held.iter().filter(|held| is_alive(held)).count()
    }

    /// How many of these roles have ended.
    pub(crate) fn ended(&self, roles: &[&str]) -> usize {
        let of = |held: &&Held| roles.contains(&held.entry.role.as_str());
        self.held.iter().filter(of).filter(|held| !is_alive(held)).count()
    }

    /// Ends everybody who is left, and who comes meanwhile.
    pub(crate) fn end(&mut self) {
        loop {
            self.read();
            for pidfd in self.held.iter().filter_map(|held| held.pidfd.as_ref()) {
                pidfd_send_signal(pidfd, Signal::KILL).ok();
            }
            while self.alive() > 0 {
                self.wait(Duration::from_millis(100));
            }
            if !self.read() {
                return;
            }
        }
    }
}

impl Drop for Flock {
    fn drop(&mut self) {
        self.end();
    }
}

fn is_alive(held: &Held) -> bool {
    held.pidfd.as_ref().is_some_and(|pidfd| !has_ended(pidfd))
}

pub(crate) fn has_ended(pidfd: &OwnedFd) -> bool {
    poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
}

/// Returns a pidfd of the process of the ledger, and of no other one.
fn hold(entry: &Entry) -> Option<OwnedFd> {
    let pidfd = pidfd_of(entry.pid)?;
    let (_, start) = stat(&fs::read_to_string(format!("/proc/{}/stat", entry.pid)).ok()?)?;
    // Had the pid gone to another one since, the start would differ, or what was opened would have ended.
    (start == entry.start && !has_ended(&pidfd)).then_some(pidfd)
}

pub(crate) fn pidfd_of(pid: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// Ends a process that the harness holds.
pub(crate) fn finish(pidfd: &OwnedFd) {
    pidfd_send_signal(pidfd, Signal::KILL).ok();
    poll(&mut [PollFd::new(pidfd, PollFlags::IN)], None).unwrap();
}
