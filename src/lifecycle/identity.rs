//! Who a process is: a pid together with the moment it started.
//!
//! A pid alone is a claim, not a handle: the kernel reuses it. Everything that is recorded, compared
//! or signalled in this crate is an [`Identity`]. This module is pure; it never reads the system.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A process id greater than 0, as the kernel counts them (`pid_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub struct Pid(i32);

impl Pid {
    /// Returns the pid, or `None` where `raw` cannot name a single process (0 and negatives
    /// address groups in `kill(2)`).
    pub const fn new(raw: i32) -> Option<Self> {
        if raw > 0 { Some(Self(raw)) } else { None }
    }

    /// Returns the number as `kill(2)` would take it.
    pub const fn raw(self) -> i32 {
        self.0
    }

    /// Returns the same pid in the form that rustix takes.
    pub(crate) fn rustix(self) -> rustix::process::Pid {
        rustix::process::Pid::from_raw(self.0).unwrap_or(rustix::process::Pid::INIT)
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Pid> for i64 {
    fn from(pid: Pid) -> Self {
        Self::from(pid.0)
    }
}

impl TryFrom<i64> for Pid {
    type Error = String;

    fn try_from(raw: i64) -> Result<Self, String> {
        i32::try_from(raw).ok().and_then(Self::new).ok_or_else(|| format!("{raw} is not the pid of one process"))
    }
}

/// When a process started, in a form that can be compared across reads but never across boots.
///
/// On Linux `procfs:<boot_id>:<ticks>` with field 22 of `/proc/<pid>/stat` (clock ticks since boot,
/// `proc_pid_stat(5)`); where there is no procfs `ps:<lstart>` with single spaces (one second of
/// resolution). A clock step changes neither: ticks count from boot, and `lstart` is derived from
/// them by the kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StartToken {
    /// `boot_id` is `/proc/sys/kernel/random/boot_id`.
    Procfs {
        /// The boot the ticks belong to.
        boot_id: String,
        /// Clock ticks since that boot.
        ticks: u64,
    },
    /// The `lstart` column of ps(1), runs of spaces folded.
    Ps {
        /// For example `Sun Nov 29 19:41:02 2026`.
        lstart: String,
    },
}

impl fmt::Display for StartToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Procfs { boot_id, ticks } => write!(f, "procfs:{boot_id}:{ticks}"),
            Self::Ps { lstart } => write!(f, "ps:{lstart}"),
        }
    }
}

impl FromStr for StartToken {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not a start token (procfs:<boot_id>:<ticks> or ps:<lstart>)");
        if let Some(rest) = text.strip_prefix("procfs:") {
            let (boot_id, ticks) = rest.split_once(':').ok_or_else(bad)?;
            let digits = !ticks.is_empty() && ticks.bytes().all(|b| b.is_ascii_digit());
            if boot_id.is_empty() || !digits || !boot_id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-') {
                return Err(bad());
            }
            let ticks = ticks.parse().map_err(|_| bad())?;
            return Ok(Self::Procfs { boot_id: boot_id.to_owned(), ticks });
        }
        let lstart = text.strip_prefix("ps:").ok_or_else(bad)?;
        let folded = lstart.split_whitespace().collect::<Vec<_>>().join(" ");
        if folded.is_empty() {
            return Err(bad());
        }
        Ok(Self::Ps { lstart: folded })
    }
}

impl Serialize for StartToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StartToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A process that can be told from every other one of this boot.
///
/// The pidfd inode is present on kernels with pidfs (6.9 and later), where it is unique for the
/// whole boot (`include/linux/pidfs.h`); it closes the gap of a pid that is reused within one tick.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The process id.
    pub pid: Pid,
    /// When the process with that id started.
    #[serde(rename = "start_token")]
    pub token: StartToken,
    /// Inode of its pidfd, on kernels with pidfs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pidfd_inode: Option<u64>,
}

impl Identity {
    /// Tells whether this claim names a process: pid and start token agree, and the inode where both know it.
    pub fn names(&self, process: &Self) -> bool {
        self.pid == process.pid
            && self.token == process.token
            && self.pidfd_inode.is_none_or(|inode| process.pidfd_inode.is_none_or(|other| other == inode))
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.pid, self.token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_names_exactly_one_process() {
        for raw in [0, -1, -14, i64::from(i32::MAX) + 1, i64::MIN] {
            assert!(Pid::try_from(raw).is_err(), "{raw}");
        }
        assert_eq!(Pid::try_from(1).map(Pid::raw), Ok(1));
    }

    #[test]
    fn tokens_survive_the_round_trip() {
        for text in ["procfs:0f0d-1:42", "ps:Sun Nov 29 19:41:02 2026"] {
            assert_eq!(text.parse::<StartToken>().map(|t| t.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("ps:Sun  Nov  9 1".parse::<StartToken>().map(|t| t.to_string()), Ok("ps:Sun Nov 9 1".to_owned()));
    }

    #[test]
    fn malformed_tokens_are_errors() {
        for text in [
            "",
            "procfs:",
            "procfs:42",
            "procfs:a:",
            "procfs:a:-1",
            "procfs:a:+1",
            "procfs::1",
            "ps:",
            "ps:  ",
            "win32:1",
            "procfs:a:1:2",
        ] {
            assert!(text.parse::<StartToken>().is_err(), "{text}");
        }
    }
}
