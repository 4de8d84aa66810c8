//! The oracle: which processes a fixture started, as they wrote it down themselves, and whether they
//! live, as the kernel says it through pidfds.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::PATIENCE;

/// One line of the ledger: who started, when (field 22 of its stat), and as what; and, where its fixture knows it,
/// which it is (the inode of its pidfd).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) pid: i32,
    pub(crate) ticks: u64,
    pub(crate) role: String,
    inode: Option<u64>,
}

impl Entry {
    /// Returns the start token that this process has.
    pub(crate) fn token(&self) -> String {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        format!("procfs:{}:{}", boot.trim(), self.ticks)
    }

    /// Returns who this pid is now.
    pub(crate) fn of_pid(pid: i32, role: &str) -> Option<Self> {
        Some(Self { pid, ticks: stat_field(pid, 22)?.parse().ok()?, role: role.to_owned(), inode: None })
    }
}

/// A process that is held by a pidfd.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) entry: Entry,
    /// `None`: it had ended before it could be held.
    pidfd: Option<OwnedFd>,
}

impl Held {
    pub(crate) fn open(entry: Entry) -> Self {
        let pidfd = Pid::from_raw(entry.pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        // The descriptor came first: if the start fits now, it is that process's.
        let pidfd = pidfd.filter(|_| stat_field(entry.pid, 22).is_some_and(|ticks| ticks == entry.ticks.to_string()));
        let is_it = |pidfd: &OwnedFd| entry.inode.is_none_or(|inode| rustix::fs::fstat(pidfd).unwrap().st_ino == inode);
        let pidfd = pidfd.filter(is_it);
        Self { entry, pidfd }
    }

    pub(crate) fn is_alive(&self) -> bool {
        !self.ends_within(Duration::ZERO)
    }

    /// Waits for the end; a pidfd is readable once the last thread of the process has ended.
    pub(crate) fn ends_within(&self, patience: Duration) -> bool {
        let Some(pidfd) = &self.pidfd else { return true };
        let timeout = Timespec {
            tv_sec: i64::try_from(patience.as_secs()).unwrap(),
            tv_nsec: i64::from(patience.subsec_nanos()),
        };
        loop {
            match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&timeout)) {
                Ok(ready) => return ready > 0,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => panic!("poll of a pidfd: {error}"),
            }
        }
    }

    /// Signals the process that is held; one that has ended is left alone.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(pidfd) = &self.pidfd {
            pidfd_send_signal(pidfd, signal).ok();
        }
    }
}

/// The file in which the processes of one test write themselves down.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) path: PathBuf,
    held: RefCell<BTreeMap<(i32, u64), Held>>,
}

impl Ledger {
    pub(crate) fn new(path: PathBuf) -> Self {
        std::fs::write(&path, "").unwrap();
        Self { path, held: RefCell::default() }
    }

    /// Returns everybody who ever wrote a line, and holds those who still can be.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let text = std::fs::read_to_string(&self.path).unwrap();
        let mut held = self.held.borrow_mut();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        for line in whole.lines() {
            let mut words = line.split(' ');
            let (pid, ticks) = (words.next().unwrap().parse().unwrap(), words.next().unwrap().parse().unwrap());
            let role = words.next().unwrap().to_owned();
            let inode = words.next().map(|word| word.parse().unwrap());
            let entry = Entry { pid, ticks, role, inode };
            held.entry((pid, ticks)).or_insert_with(|| Held::open(entry));
        }
        held.values().map(|held| held.entry.clone()).collect()
    }

    /// Returns those who live at this moment.
    pub(crate) fn alive(&self) -> Vec<Entry> {
        self.entries();
        let held = self.held.borrow();
        held.values().filter(|held| held.is_alive()).map(|held| held.entry.clone()).collect()
    }

    /// Waits until each of these roles has an entry, as often as it is named.
    pub(crate) fn await_roles(&self, roles: &[&str]) {
        let missing = || {
            let mut left: Vec<&str> = roles.to_vec();
            for entry in self.entries() {
                if let Some(at) = left.iter().position(|role| *role == entry.role) {
                    left.swap_remove(at);
                }
            }
            left.is_empty()
        };
        eventually(&format!("the roles {roles:?}"), missing);
    }

    /// Returns the only process with this role.
    pub(crate) fn of(&self, role: &str) -> Entry {
        let mut all: Vec<Entry> = self.entries().into_iter().filter(|entry| entry.role == role).collect();
        assert_eq!(all.len(), 1, "role {role}: {all:?}");
        all.remove(0)
    }

    pub(crate) fn is_alive(&self, role: &str) -> bool {
        let entry = self.of(role);
        self.held.borrow().get(&(entry.pid, entry.ticks)).is_some_and(Held::is_alive)
    }

    /// Signals the process with this role.
    pub(crate) fn signal(&self, role: &str, signal: Signal) {
        let entry = self.of(role);
        self.held.borrow()[&(entry.pid, entry.ticks)].signal(signal);
    }

    /// Waits until nobody is left; tells who is left when the patience is at its end.
    pub(crate) fn await_empty(&self) {
        eventually("the end of the whole ledger", || self.alive().is_empty());
    }

    /// Ends everybody, also those that are born meanwhile.
    pub(crate) fn end_all(&self) {
        let until = Instant::now() + Duration::from_secs(5);
        loop {
            self.entries();
            let held = self.held.borrow();
            let alive: Vec<&Held> = held.values().filter(|held| held.is_alive()).collect();
            if alive.is_empty() || Instant::now() >= until {
                return;
            }
            for held in &alive {
                held.signal(Signal::STOP);
            }
            for held in alive {
                held.signal(Signal::KILL);
            }
            drop(held);
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Waits until something is true.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_true() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the state letter of a process, for example `T`.
pub(crate) fn process_state(pid: i32) -> Option<char> {
    stat_field(pid, 3)?.chars().next()
}

/// Returns a field of `/proc/<pid>/stat`, counted from 1 as proc(5) does; only those behind the name.
fn stat_field(pid: i32, field: usize) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_whitespace().nth(field - 3).map(str::to_owned)
}
