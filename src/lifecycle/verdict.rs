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
    use proptest::prelude::*;

    use super::*;
    use crate::lifecycle::identity::Pid;
    use crate::text::noise::cases;

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

    /// Few values, so that they often agree.
    fn token() -> impl Strategy<Value = StartToken> {
        prop_oneof![
            4 => (prop::sample::select(&["b1", "b2"][..]), 1_u64..4)
                .prop_map(|(boot, ticks)| StartToken::Procfs { boot_id: boot.into(), ticks }),
            1 => (1_u8..3).prop_map(|second| StartToken::Ps { lstart: format!("Sun Nov 29 {second}") }),
        ]
    }

    fn inode() -> impl Strategy<Value = Option<u64>> {
        prop_oneof![Just(None), (1_u64..3).prop_map(Some)]
    }

    fn sighting() -> impl Strategy<Value = Sighting> {
        let seen = (token(), inode(), any::<bool>(), any::<bool>());
        prop_oneof![
            6 => seen.prop_map(|(token, pidfd_inode, settled, ended)| Sighting::Seen(Seen { token, pidfd_inode, settled, ended })),
            1 => Just(Sighting::Absent),
            1 => Just(Sighting::Unreadable("EACCES".into())),
            1 => Just(Sighting::Blind),
        ]
    }

    proptest! {
        #![proptest_config(cases(2000))]

        /// Only the very process that was recorded is owned: same start, same boot, same inode where both are known, else
        /// seen at a later tick than its start; and alive. What was not seen is never owned, what is doubtful never gone.
        #[test]
        fn nobody_but_the_recorded_process_is_owned(token in token(), inode in inode(), sighting in sighting(), boot in prop::sample::select(&[None, Some("b1")][..])) {
            let claim = Identity { pid: Pid::new(42).expect("positive"), token, pidfd_inode: inode };
            let kind = judge(&claim, &sighting, boot).kind;
            let other_boot = matches!((&claim.token, boot), (StartToken::Procfs { boot_id, .. }, Some(boot)) if boot_id != boot);
            match sighting {
                Sighting::Seen(seen) => {
                    let by_inode = claim.pidfd_inode.is_some() && claim.pidfd_inode == seen.pidfd_inode;
                    let known = claim.pidfd_inode.is_none() || seen.pidfd_inode.is_none();
                    // Between two boots the ticks alone may agree; the running boot is always known in procfs.
                    let same = match (&claim.token, &seen.token) {
                        (StartToken::Procfs { ticks, .. }, StartToken::Procfs { ticks: now, .. }) => ticks == now,
                        (claimed, seen) => claimed == seen,
                    };
                    let owned = same && !other_boot && !seen.ended && (by_inode || (known && seen.settled));
                    prop_assert_eq!(kind == VerdictKind::Owned, owned);
                    if kind == VerdictKind::Gone {
                        prop_assert!(other_boot || (same && seen.ended));
                    }
                }
                Sighting::Absent => prop_assert_eq!(kind, VerdictKind::Gone),
                Sighting::Unreadable(_) | Sighting::Blind => {
                    prop_assert_eq!(kind, if other_boot { VerdictKind::Gone } else { VerdictKind::Unverifiable });
                }
            }
        }
    }
}
