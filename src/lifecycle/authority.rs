//! The right to signal: a pinned process, and the proof that it is ours.
//!
//! A [`Pinned`] holds a pidfd that was opened *before* its facts were read, so both speak of the same
//! process. [`authorize`] looks again, judges the claim itself (it accepts nobody's verdict) and
//! returns an [`Owned`], which `kill::deliver` consumes. An `Owned` cannot be made, cloned, stored
//! or parsed:
//!
//! ```compile_fail
//! # use cookbook_tui::lifecycle::authority::{Owned, Pinned};
//! fn forge(pinned: &Pinned) -> Owned<'_> {
//!     Owned { pinned, fresh: None } // private fields
//! }
//! ```
//!
//! ```compile_fail
//! # use cookbook_tui::lifecycle::authority::Owned;
//! # use cookbook_tui::lifecycle::kill::{Signal, deliver};
//! fn twice(owned: Owned<'_>) {
//!     let _ = deliver(owned, Signal::Term);
//!     let _ = deliver(owned, Signal::Kill); // used up
//! }
//! ```

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{PidfdFlags, pidfd_open};

use super::descriptors::Share;
use super::guard::Guard;
use super::identity::{Identity, Pid};
use super::inspect::{Facts, Inspector, InspectorKind, Unreadable};
use super::kill::{pidfd_ended, which_ended};
use super::verdict::{Seen, Sighting, Verdict, VerdictKind, judge};

/// How a pinned process is held.
#[derive(Debug)]
pub enum Handle {
    /// By a pidfd: the kernel lets no other process take its place.
    Pidfd(Share),
    /// By its pid alone: the kernel has no pidfds, or we have no descriptor to spare. It is opened (where
    /// that is possible) and verified again right before each signal.
    Bare,
}

/// A process whose identity was read while it was held.
#[derive(Debug)]
pub struct Pinned {
    identity: Identity,
    facts: Facts,
    handle: Handle,
}

/// A little more than one clock tick (`CLK_TCK` is 100 wherever this runs).
const TICK: Duration = Duration::from_millis(12);

/// So many processes are worth a second thread: they cost some hundreds of microseconds, and a thread some tens.
const MANY: usize = 64;

/// The outcome of pinning.
#[derive(Debug)]
pub enum Pin {
    /// It is held.
    Held(Pinned),
    /// No process has this pid.
    Gone,
    /// It may exist, but nobody can tell who it is.
    Unreadable(Unreadable),
}

impl Pin {
    /// Returns the pidfd of a process that was alive when its facts were read. (A zombie that was seen as one
    /// has ended, and is who it is.)
    fn alive(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Held(pinned) if !pinned.facts.ended() => pinned.pidfd(),
            Self::Held(_) | Self::Gone | Self::Unreadable(_) => None,
        }
    }

    /// Tells whether another process might still get the same identity.
    fn is_young(&self) -> bool {
        matches!(self, Self::Held(pinned) if pinned.identity.pidfd_inode.is_none() && !pinned.facts.settled)
    }
}

impl Pinned {
    /// Pins one process; see [`Pinned::open_all`].
    pub fn open(inspector: &Inspector, pid: Pid) -> Pin {
        Self::open_all(inspector, &[pid]).pop().map_or(Pin::Gone, |(_, pin)| pin)
    }

    /// Pins processes: opens a pidfd of each, reads its facts, and in the end makes sure that none had ended in
    /// between, for only then do facts belong to a descriptor. One poll(2) asks for all of them.
    ///
    /// Without an inode a start names one process only once its clock tick is over: whoever is that young is looked
    /// at again after it, or a pid that is reused within the tick would have the identity that is recorded here.
    pub fn open_all(inspector: &Inspector, pids: &[Pid]) -> Vec<(Pid, Pin)> {
        let mut looks = Self::look_at_all(inspector, pids);
        if inspector.kind() == InspectorKind::Procfs && looks.iter().any(|(_, pin)| pin.is_young()) {
            std::thread::sleep(TICK);
            for (pid, pin) in looks.iter_mut().filter(|(_, pin)| pin.is_young()) {
                *pin = Self::look_at(inspector, *pid);
            }
        }
        let ended = which_ended(&looks.iter().map(|(_, pin)| pin.alive()).collect::<Vec<_>>());
        looks.into_iter().zip(ended).map(|((pid, pin), ended)| (pid, if ended { Pin::Gone } else { pin })).collect()
    }

    /// Looks at each: at many by two threads, since what it costs is the kernel's part. Where no thread can be had,
    /// one does it all.
    fn look_at_all(inspector: &Inspector, pids: &[Pid]) -> Vec<(Pid, Pin)> {
        let look = |pids: &[Pid]| -> Vec<(Pid, Pin)> {
            pids.iter().map(|&pid| (pid, Self::look_at(inspector, pid))).collect()
        };
        let (mine, others) = pids.split_at(if pids.len() < MANY { pids.len() } else { pids.len() / 2 });
        if others.is_empty() {
            return look(mine);
        }
        std::thread::scope(|scope| {
            let helper = std::thread::Builder::new().spawn_scoped(scope, || look(others)).ok();
            let mut looks = look(mine);
            looks.extend(helper.and_then(|helper| helper.join().ok()).unwrap_or_else(|| look(others)));
            looks
        })
    }

    /// Opens a pidfd and reads the facts; they belong together if the pidfd's process lives on afterwards.
    fn look_at(inspector: &Inspector, pid: Pid) -> Pin {
        let mut absent = false;
        let opened = Share::claim(|| {
            let opened = pidfd_open(pid.rustix(), PidfdFlags::empty());
            absent = opened.as_ref().err() == Some(&Errno::SRCH);
            opened
        });
        if absent {
            return Pin::Gone;
        }
        let handle = opened.map_or(Handle::Bare, Handle::Pidfd);
        let facts = match inspector.facts(pid) {
            Ok(Some(facts)) => facts,
            Ok(None) => return Pin::Gone,
            Err(error) => return Pin::Unreadable(error),
        };
        let pidfd_inode = match &handle {
            Handle::Pidfd(pidfd) => pidfs_inode(pidfd.as_fd()),
            Handle::Bare => pidfd_open(pid.rustix(), PidfdFlags::empty()).ok().and_then(|pidfd| {
                let inode = pidfs_inode(pidfd.as_fd());
                inode.filter(|_| !pidfd_ended(&pidfd))
            }),
        };
        let identity = Identity { pid, token: inspector.token(&facts.start), pidfd_inode };
        Pin::Held(Self { identity, facts, handle })
    }

    /// Reads the facts again; `false` where that cannot be done. They are its own if it has not ended afterwards.
    pub(super) fn read_again(&mut self, inspector: &Inspector) -> bool {
        let Ok(Some(facts)) = inspector.facts(self.identity.pid) else { return false };
        self.facts = facts;
        true
    }

    /// Returns a process that is made up: what it is held by names nobody.
    #[cfg(test)]
    pub(super) fn stand_in(facts: Facts) -> Self {
        let token = super::identity::StartToken::Procfs { boot_id: "b".into(), ticks: 5 };
        Self { identity: Identity { pid: facts.pid, token, pidfd_inode: None }, facts, handle: Handle::Bare }
    }

    /// Returns who it is.
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Takes over from a later pin of the same identity that no other process can have it any more.
    pub(super) fn confirm(&mut self, later: &Self) {
        self.facts.settled |= later.facts.settled && later.identity == self.identity;
    }

    /// Returns the facts as they were when it was pinned.
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns the pidfd to wait on, where there is one.
    pub fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        match &self.handle {
            Handle::Pidfd(pidfd) => Some(pidfd.as_fd()),
            Handle::Bare => None,
        }
    }

    /// Tells whether the pinned process has ended. A pidfd answers in one system call; without one
    /// the process table is read, and anything unreadable counts as alive.
    pub fn has_ended(&self, inspector: &Inspector) -> bool {
        match &self.handle {
            Handle::Pidfd(pidfd) => pidfd_ended(pidfd),
            Handle::Bare => match inspector.facts(self.identity.pid) {
                Ok(Some(facts)) => facts.ended() || facts.start != self.facts.start,
                Ok(None) => true,
                Err(_) => false,
            },
        }
    }

    /// Judges the pinned process against its own identity: with a pidfd one system call.
    pub fn verdict(&self, inspector: &Inspector) -> Verdict {
        let sighting = match (&self.handle, inspector) {
            (_, Inspector::None) => Sighting::Blind,
            (Handle::Pidfd(pidfd), _) => self.seen(&self.facts, pidfd_ended(pidfd)),
            (Handle::Bare, _) => self.look(None, inspector).0,
        };
        judge(&self.identity, &sighting, inspector.boot_id())
    }

    /// Looks at the process again, through `fresh` where it is not held.
    fn look(&self, fresh: Option<&OwnedFd>, inspector: &Inspector) -> (Sighting, Option<Facts>) {
        let inode = match (&self.handle, fresh) {
            (Handle::Bare, Some(fresh)) => pidfs_inode(fresh.as_fd()),
            (Handle::Bare, None) => None,
            (Handle::Pidfd(_), _) => self.identity.pidfd_inode,
        };
        let ended = match (&self.handle, fresh) {
            (Handle::Pidfd(pidfd), _) => pidfd_ended(pidfd),
            (Handle::Bare, Some(fresh)) => pidfd_ended(fresh),
            (Handle::Bare, None) => false,
        };
        match inspector.facts(self.identity.pid) {
            // The descriptor's process is gone: whatever has the pid now is not it.
            Ok(_) | Err(_) if ended => (self.seen(&self.facts, true), None),
            Ok(Some(mut facts)) => {
                // A token that was read in the tick of its start may be another one's by now.
                facts.settled &= self.facts.settled;
                (seen_with(inode, inspector, &facts), Some(facts))
            }
            Ok(None) => (Sighting::Absent, None),
            Err(_) if matches!(inspector, Inspector::None) => (Sighting::Blind, None),
            Err(error) => (Sighting::Unreadable(error.reason), None),
        }
    }

    fn seen(&self, facts: &Facts, ended: bool) -> Sighting {
        Sighting::Seen(Seen {
            token: self.identity.token.clone(),
            pidfd_inode: self.identity.pidfd_inode,
            settled: facts.settled,
            ended,
        })
    }
}

fn seen_with(pidfd_inode: Option<u64>, inspector: &Inspector, facts: &Facts) -> Sighting {
    Sighting::Seen(Seen {
        token: inspector.token(&facts.start),
        pidfd_inode,
        settled: facts.settled,
        ended: facts.ended(),
    })
}

/// Judges a claim by a fresh look at its pid.
pub fn verify(claim: &Identity, inspector: &Inspector) -> Verdict {
    if matches!(inspector, Inspector::None) {
        return judge(claim, &Sighting::Blind, None);
    }
    let sighting = match Pinned::open(inspector, claim.pid) {
        Pin::Held(pinned) => {
            let ended = pinned.facts.ended();
            pinned.seen(&pinned.facts, ended)
        }
        Pin::Gone => Sighting::Absent,
        Pin::Unreadable(error) => Sighting::Unreadable(error.reason),
    };
    judge(claim, &sighting, inspector.boot_id())
}

/// The proof that a pinned process is the claimed one, alive, and not protected.
#[derive(Debug)]
pub struct Owned<'p> {
    pinned: &'p Pinned,
    /// Opened before the verdict, where the process is not held.
    fresh: Option<OwnedFd>,
}

impl Owned<'_> {
    /// Returns the pidfd that the verdict was about; `None` where the kernel has none.
    pub(super) fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.fresh.as_ref().map(AsFd::as_fd).or_else(|| self.pinned.pidfd())
    }

    pub(super) const fn pid(&self) -> Pid {
        self.pinned.identity.pid
    }
}

/// Why there is no proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The verdict is not `owned`.
    Verdict(Verdict),
    /// It is ours to see but must never be signalled.
    Protected(String),
}

/// Looks at the pinned process again and judges the claim about it.
///
/// # Errors
/// When the process is protected, or its verdict is anything but `owned`.
pub fn authorize<'p>(
    pinned: &'p Pinned,
    claim: &Identity,
    guard: &Guard,
    inspector: &Inspector,
) -> Result<Owned<'p>, Denied> {
    let fresh = match &pinned.handle {
        Handle::Pidfd(_) => None,
        Handle::Bare => pidfd_open(pinned.identity.pid.rustix(), PidfdFlags::empty()).ok(),
    };
    let (sighting, facts) = pinned.look(fresh.as_ref(), inspector);
    let verdict = if pinned.identity.pid == claim.pid {
        judge(claim, &sighting, inspector.boot_id())
    } else {
        Verdict::new(VerdictKind::Unverifiable, "the claim names another pid")
    };
    if verdict.kind != VerdictKind::Owned {
        return Err(Denied::Verdict(verdict));
    }
    match guard.protects(facts.as_ref().unwrap_or(&pinned.facts)) {
        Some(reason) => Err(Denied::Protected(reason)),
        None => Ok(Owned { pinned, fresh }),
    }
}

/// Returns the inode of a pidfd where it names one process for the whole boot: on pidfs (Linux 6.9).
/// Before, all pidfds shared the one inode of the anonymous inode filesystem.
fn pidfs_inode(pidfd: BorrowedFd<'_>) -> Option<u64> {
    const PIDFS_MAGIC: i64 = 0x5049_4446;
    static IS_PIDFS: OnceLock<bool> = OnceLock::new();
    #[expect(clippy::useless_conversion, reason = "the type of f_type differs between architectures")]
    let is_pidfs = || rustix::fs::fstatfs(pidfd).is_ok_and(|fs| i64::from(fs.f_type) == PIDFS_MAGIC);
    if !*IS_PIDFS.get_or_init(is_pidfs) {
        return None;
    }
    rustix::fs::fstat(pidfd).ok().map(|stat| stat.st_ino)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::lifecycle::identity::StartToken;
    use crate::lifecycle::kill::{Signal, deliver};

    fn sleeper() -> std::process::Child {
        // A kernel session of its own: a member of ours would be protected.
        let child = std::process::Command::new("setsid").args(["sleep", "60"]).spawn().unwrap();
        let inspector = Inspector::open(None).unwrap();
        let pid = pid_of(&child);
        while inspector.facts(pid).unwrap().is_none_or(|facts| facts.sid != pid.raw()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        child
    }

    fn settle() {
        std::thread::sleep(Duration::from_millis(30));
    }

    fn pid_of(child: &std::process::Child) -> Pid {
        Pid::new(i32::try_from(child.id()).unwrap()).unwrap()
    }

    fn held(inspector: &Inspector, pid: Pid) -> Pinned {
        match Pinned::open(inspector, pid) {
            Pin::Held(pinned) => pinned,
            Pin::Gone | Pin::Unreadable(_) => panic!("{pid} cannot be held"),
        }
    }

    #[test]
    fn only_the_claimed_process_is_signalled() {
        let inspector = Inspector::open(None).unwrap();
        let guard = Guard::new(&inspector);
        let mut child = sleeper();
        settle();
        let pinned = held(&inspector, pid_of(&child));
        let mut wrong = pinned.identity().clone();
        wrong.token = "procfs:00:1".parse().unwrap();
        assert!(matches!(
            authorize(&pinned, &wrong, &guard, &inspector).map(|_| ()),
            Err(Denied::Verdict(Verdict { kind: VerdictKind::Gone, .. }))
        ));
        let mut reused = pinned.identity().clone();
        reused.pidfd_inode = Some(1);
        assert!(matches!(
            authorize(&pinned, &reused, &guard, &inspector).map(|_| ()),
            Err(Denied::Verdict(Verdict { kind: VerdictKind::Foreign, .. }))
        ));
        assert!(child.try_wait().unwrap().is_none());
        let owned = authorize(&pinned, &pinned.identity().clone(), &guard, &inspector).unwrap();
        deliver(owned, Signal::Kill).unwrap();
        child.wait().unwrap();
        assert!(pinned.has_ended(&inspector));
    }

    #[test]
    fn an_unreaped_zombie_has_ended() {
        let inspector = Inspector::open(None).unwrap();
        let guard = Guard::new(&inspector);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        settle();
        let pinned = held(&inspector, pid_of(&child));
        assert!(pinned.has_ended(&inspector));
        let denied = authorize(&pinned, &pinned.identity().clone(), &guard, &inspector).unwrap_err();
        assert!(matches!(denied, Denied::Verdict(Verdict { kind: VerdictKind::Gone, .. })));
        child.wait().unwrap();
        assert!(matches!(Pinned::open(&inspector, pid_of(&child)), Pin::Gone));
    }

    #[test]
    fn ourselves_and_our_group_are_refused_whatever_the_verdict() {
        let inspector = Inspector::open(None).unwrap();
        let guard = Guard::new(&inspector);
        let mut sibling = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        settle();
        let me = Pid::new(i32::try_from(std::process::id()).unwrap()).unwrap();
        let parent = Pid::new(i32::try_from(std::os::unix::process::parent_id()).unwrap()).unwrap();
        for pid in [me, parent, pid_of(&sibling), Pid::new(1).unwrap()] {
            let pinned = held(&inspector, pid);
            let denied = authorize(&pinned, &pinned.identity().clone(), &guard, &inspector).unwrap_err();
            assert!(matches!(denied, Denied::Protected(_)), "{pid} {denied:?}");
        }
        assert!(sibling.try_wait().unwrap().is_none());
        sibling.kill().unwrap();
        sibling.wait().unwrap();
    }

    #[test]
    fn without_an_inspector_nothing_is_owned() {
        let inspector = Inspector::open(None).unwrap();
        let guard = Guard::new(&inspector);
        let mut child = sleeper();
        settle();
        let pinned = held(&inspector, pid_of(&child));
        let denied = authorize(&pinned, &pinned.identity().clone(), &guard, &Inspector::None).unwrap_err();
        assert!(matches!(denied, Denied::Verdict(Verdict { kind: VerdictKind::Unverifiable, .. })));
        assert_eq!(verify(pinned.identity(), &Inspector::None).kind, VerdictKind::Unverifiable);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Two threads look at many; each answer is still the one of its pid.
    #[test]
    fn many_are_pinned_as_each_of_them_is() {
        let inspector = Inspector::open(None).unwrap();
        let sleep = || std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut children: Vec<_> = (0..MANY + 5).map(|_| sleep()).collect();
        settle();
        let mut pids: Vec<Pid> = children.iter().map(pid_of).collect();
        for index in [0, 1, MANY / 2, MANY] {
            children[index].kill().unwrap();
            children[index].wait().unwrap();
        }
        pids.push(pids[7]);
        let held_all = Pinned::open_all(&inspector, &pids);
        assert_eq!(held_all.iter().map(|(pid, _)| *pid).collect::<Vec<_>>(), pids);
        for (index, (pid, pin)) in held_all.iter().enumerate() {
            match pin {
                Pin::Held(pinned) => assert_eq!(pinned.identity(), held(&inspector, *pid).identity()),
                Pin::Gone => assert!([0, 1, MANY / 2, MANY].contains(&index), "{index}"),
                Pin::Unreadable(error) => panic!("{error}"),
            }
        }
        for mut child in children {
            child.kill().ok();
            child.wait().unwrap();
        }
    }

    /// Every field of what was recorded, changed: the process that has the pid now is not signalled for it. And of a
    /// crowd of processes only the one that is named.
    #[test]
    fn a_changed_claim_is_nobodys() {
        let inspector = Inspector::open(None).unwrap();
        let guard = Guard::new(&inspector);
        let mut children: Vec<_> = (0..6).map(|_| sleeper()).collect();
        settle();
        let pinned: Vec<Pinned> = children.iter().map(|child| held(&inspector, pid_of(child))).collect();
        let token = |boot: &str, ticks: u64| StartToken::Procfs { boot_id: boot.into(), ticks };
        for (index, one) in pinned.iter().enumerate() {
            let claim = one.identity().clone();
            let StartToken::Procfs { boot_id, ticks } = claim.token.clone() else { return };
            let other = &pinned[(index + 1) % pinned.len()].identity();
            let mut changed: Vec<Identity> = [1_u64, 2, 1 << 20, ticks - 1]
                .iter()
                .flat_map(|by| [ticks.wrapping_add(*by), ticks.wrapping_sub(*by)])
                .map(|ticks| Identity { token: token(&boot_id, ticks), ..claim.clone() })
                .collect();
            changed.push(Identity { token: token("0-0", ticks), ..claim.clone() });
            changed.push(Identity {
                token: StartToken::Ps { lstart: "Sun Nov 29 19:41:02 2026".into() },
                ..claim.clone()
            });
            changed.push(Identity { pid: other.pid, ..claim.clone() });
            if let Some(inode) = claim.pidfd_inode {
                changed.extend(
                    [inode + 1, inode ^ (1 << 40), 0]
                        .map(|inode| Identity { pidfd_inode: Some(inode), ..claim.clone() }),
                );
            }
            for changed in &changed {
                assert_ne!(*changed, claim);
                for pinned in &pinned {
                    let authorized = authorize(pinned, changed, &guard, &inspector).is_ok();
                    assert!(!authorized || *pinned.identity() == *changed, "{changed:?} for {:?}", pinned.identity());
                }
                let named = pinned.iter().any(|pinned| pinned.identity() == changed);
                assert_eq!(verify(changed, &inspector).kind == VerdictKind::Owned, named, "{changed:?}");
            }
            for pinned in &pinned {
                let authorized = authorize(pinned, &claim, &guard, &inspector).is_ok();
                assert_eq!(authorized, *pinned.identity() == claim, "{:?}", pinned.identity());
            }
        }
        for child in &mut children {
            assert!(child.try_wait().unwrap().is_none());
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
