//! What is known of a process that a record names: the verdict, and the reason a person can read.
//!
//! Pure. [`judge`] never reads the system and never signals; it compares a claim (what was recorded)
//! with a sighting (what was just seen).

use serde::{Deserialize, Serialize};

use super::identity::{Identity, StartToken};

/// What is known of a recorded process. Only [`VerdictKind::Owned`] permits a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VerdictKind {
    /// Alive, and the very process that was recorded.
    Owned,
    /// Ended; an unreaped zombie has ended too.
    Gone,
    /// Its pid names another process now.
    Foreign,
    /// Nobody can tell. Never folded into owned (would signal strangers) or gone (would abandon
    /// live processes).
    Unverifiable,
}

impl VerdictKind {
    /// All verdicts, from the best to the worst.
    pub const ALL: [Self; 4] = [Self::Owned, Self::Gone, Self::Foreign, Self::Unverifiable];

    /// Returns the word used everywhere.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Owned => "owned",
            Self::Gone => "gone",
            Self::Foreign => "foreign",
            Self::Unverifiable => "unverifiable",
        }
    }

    /// Returns the worse of the two, in the order of [`VerdictKind::ALL`].
    #[must_use]
    pub fn worst(self, other: Self) -> Self {
        self.max(other)
    }
}

/// A verdict with its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What is known.
    pub kind: VerdictKind,
    /// Why, in words.
    pub reason: String,
}

impl Verdict {
    /// Returns a verdict.
    pub fn new(kind: VerdictKind, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into() }
    }
}

/// What a fresh look at a pid showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// A process with that pid exists.
    Seen(Seen),
    /// No process has that pid.
    Absent,
    /// A process may have that pid, but its facts cannot be read.
    Unreadable(String),
    /// There is no inspector on this host.
    Blind,
}

/// The part of a process's facts that its identity rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When it started.
    pub token: StartToken,
    /// Inode of its pidfd, on kernels with pidfs.
    pub pidfd_inode: Option<u64>,
    /// It was seen alive at a later tick than its start, so no other process can have its token.
    pub settled: bool,
    /// It has ended and waits to be reaped (all of its threads are gone).
    pub ended: bool,
}

/// Compares what was recorded with what was seen. `boot_id` is the running boot's, if known.
pub fn judge(claim: &Identity, sighting: &Sighting, boot_id: Option<&str>) -> Verdict {
    use VerdictKind::{Foreign, Gone, Owned, Unverifiable};
    if let (StartToken::Procfs { boot_id: recorded, .. }, Some(running)) = (&claim.token, boot_id)
        && recorded != running
    {
        return Verdict::new(Gone, "recorded in an earlier boot");
    }
    let seen = match sighting {
        Sighting::Blind => return Verdict::new(Unverifiable, "no process inspector on this host"),
        Sighting::Unreadable(reason) => return Verdict::new(Unverifiable, reason.clone()),
        Sighting::Absent => return Verdict::new(Gone, "no process has this pid"),
        Sighting::Seen(seen) => seen,
    };
    match (&claim.token, &seen.token) {
        (StartToken::Procfs { ticks: recorded, .. }, StartToken::Procfs { ticks, .. }) if recorded != ticks => {
            return Verdict::new(Foreign, format!("pid reused: started at tick {ticks}, recorded {recorded}"));
        }
        (StartToken::Ps { lstart: recorded }, StartToken::Ps { lstart }) if recorded != lstart => {
            return Verdict::new(Foreign, format!("pid reused: started {lstart}, recorded {recorded}"));
        }
        (StartToken::Procfs { .. }, StartToken::Ps { .. }) | (StartToken::Ps { .. }, StartToken::Procfs { .. }) => {
            return Verdict::new(Unverifiable, "recorded by another inspector: the start tokens cannot be compared");
        }
        (StartToken::Procfs { .. }, StartToken::Procfs { .. }) | (StartToken::Ps { .. }, StartToken::Ps { .. }) => {}
    }
    match (claim.pidfd_inode, seen.pidfd_inode) {
        (Some(recorded), Some(inode)) if recorded != inode => {
            return Verdict::new(Foreign, "pid reused within one tick: another pidfd inode");
        }
        (Some(_), Some(_)) => {}
        (None | Some(_), None | Some(_)) if !seen.settled => {
            return Verdict::new(Unverifiable, "started in this very tick: its token may not be its own yet");
        }
        (None | Some(_), None | Some(_)) => {}
    }
    if seen.ended {
        return Verdict::new(Gone, "ended, not reaped by its parent yet");
    }
    Verdict::new(Owned, "same pid, same start")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::identity::Pid;

    fn claim(token: &str, inode: Option<u64>) -> Identity {
        Identity { pid: Pid::new(42).expect("positive"), token: token.parse().expect("token"), pidfd_inode: inode }
    }

    fn seen(token: &str, pidfd_inode: Option<u64>, settled: bool, ended: bool) -> Sighting {
        Sighting::Seen(Seen { token: token.parse().expect("token"), pidfd_inode, settled, ended })
    }

    fn check(claim: &Identity, sighting: &Sighting, expected: VerdictKind) {
        let verdict = judge(claim, sighting, Some("b1"));
        assert_eq!(verdict.kind, expected, "{claim:?} {sighting:?} {}", verdict.reason);
        assert!(!verdict.reason.is_empty());
    }

    #[test]
    fn the_table_of_verdicts() {
        use VerdictKind::{Foreign, Gone, Owned, Unverifiable};
        let c = claim("procfs:b1:100", None);
        check(&c, &seen("procfs:b1:100", None, true, false), Owned);
        check(&c, &seen("procfs:b1:100", Some(9), true, false), Owned);
        check(&c, &seen("procfs:b1:100", None, true, true), Gone);
        check(&c, &seen("procfs:b1:101", None, true, false), Foreign);
        check(&c, &seen("procfs:b1:101", None, true, true), Foreign);
        check(&c, &seen("procfs:b1:99", None, true, false), Foreign);
        check(&c, &seen("procfs:b1:100", None, false, false), Unverifiable);
        check(&c, &seen("ps:Sun Nov 29 1", None, true, false), Unverifiable);
        check(&c, &Sighting::Absent, Gone);
        check(&c, &Sighting::Unreadable("EACCES".into()), Unverifiable);
        check(&c, &Sighting::Blind, Unverifiable);
        let with_inode = claim("procfs:b1:100", Some(7));
        check(&with_inode, &seen("procfs:b1:100", Some(7), false, false), Owned);
        check(&with_inode, &seen("procfs:b1:100", Some(8), true, false), Foreign);
        check(&with_inode, &seen("procfs:b1:100", None, true, false), Owned);
        check(&with_inode, &seen("procfs:b1:100", None, false, false), Unverifiable);
        let ps = claim("ps:Sun Nov 29 1", None);
        check(&ps, &seen("ps:Sun Nov 29 1", None, true, false), Owned);
        check(&ps, &seen("ps:Sun Nov 29 2", None, true, false), Foreign);
        check(&ps, &seen("procfs:b1:100", None, true, false), Unverifiable);
    }

    #[test]
    fn another_boot_is_gone_whatever_lives_under_the_pid() {
        let c = claim("procfs:b0:100", Some(7));
        for sighting in [
            seen("procfs:b1:100", Some(7), true, false),
            Sighting::Absent,
            Sighting::Unreadable("EACCES".into()),
            Sighting::Blind,
        ] {
            check(&c, &sighting, VerdictKind::Gone);
        }
    }

    #[test]
    fn the_worst_verdict_is_the_least_known() {
        assert_eq!(VerdictKind::Owned.worst(VerdictKind::Unverifiable), VerdictKind::Unverifiable);
        assert_eq!(VerdictKind::Gone.worst(VerdictKind::Owned), VerdictKind::Gone);
    }
}
