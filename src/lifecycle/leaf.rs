//! A cgroup of a session's own (cgroups(7), version 2): whatever its processes start is in it, whoever their
//! parent is by then.
//!
//! A leaf is made below the cgroup that we are in, where that is delegated to us, and removed when it is empty.
//! It is opened by the inode that was recorded, so another directory of the same name is never taken for it.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat};
use rustix::io::Errno;

use super::authority::Pinned;
use super::identity::Pid;
use super::inspect::Inspector;
use super::scope::CgroupRecord;
use super::tether::{Tether, is_session_id};

/// An open cgroup of one session.
#[derive(Debug)]
pub struct Leaf {
    dir: OwnedFd,
    record: CgroupRecord,
}

/// Deepest nesting of cgroups below a leaf that is followed.
const DEPTH_MAX: u32 = 16;
/// How long a cgroup may still be busy after its last process has ended.
const LEAVE: Duration = Duration::from_millis(200);
/// How long the kernel may take to have everybody stand still: whoever waits for a disk comes late.
const FREEZE: Duration = Duration::from_millis(300);

impl Leaf {
    /// Makes a leaf for a session below our own cgroup.
    ///
    /// # Errors
    /// In words, when there is no cgroup v2, when ours is not delegated to us, or when the kernel cannot end a
    /// cgroup at once (before Linux 5.14).
    pub fn create(session: &str, inspector: &Inspector) -> Result<Self, String> {
        let parent = inspector.cgroup2().ok_or("no cgroup v2 is mounted")?;
        let path = parent.join(format!("cookbook-{session}"));
        fs::create_dir(&path).map_err(|error| format!("no cgroup can be made in {}: {error}", parent.display()))?;
        let made = fs::metadata(&path).map_err(|error| error.to_string()).and_then(|metadata| {
            // A umask may take the owner's bits, too.
            let mode = fs::Permissions::from_mode(metadata.mode() | 0o700);
            fs::set_permissions(&path, mode).map_err(|error| error.to_string())?;
            let record = CgroupRecord { path: path.clone(), inode: metadata.ino() };
            let leaf = Self::open(&record).ok_or("it cannot be opened")?;
            let can_kill =
                rustix::fs::accessat(&leaf.dir, "cgroup.kill", rustix::fs::Access::WRITE_OK, AtFlags::empty());
            can_kill.map_err(|error| format!("cgroup.kill: {error}"))?;
            Ok(leaf)
        });
        made.map_err(|reason| {
            fs::remove_dir(&path).ok();
            format!("the cgroup {} is of no use: {reason}", path.display())
        })
    }

    /// Opens a recorded leaf; `None` where it is gone, or another directory has its name.
    pub fn open(record: &CgroupRecord) -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let dir = rustix::fs::open(&record.path, flags, Mode::empty()).ok()?;
        let inode = rustix::fs::fstat(&dir).ok()?.st_ino;
        (inode == record.inode).then(|| Self { dir, record: record.clone() })
    }

    /// Returns what is written down of it.
    pub fn record(&self) -> &CgroupRecord {
        &self.record
    }

    /// Moves a process into the leaf. Its children will be born there; those that it has stay where they are.
    ///
    /// # Errors
    /// When the kernel refuses (the process is not in a cgroup that is ours, for example), or the process has
    /// ended: a pid alone might name another one by then.
    pub fn admit(&self, pinned: &Pinned, inspector: &Inspector) -> io::Result<()> {
        let pid = pinned.identity().pid;
        self.write("cgroup.procs", &pid.to_string())?;
        if pinned.has_ended(inspector) {
            return Err(io::Error::other(format!("process {pid} has ended")));
        }
        Ok(())
    }

    /// Has everybody in it stand still, so that nobody is born while it is looked at; SIGKILL ends who stands still.
    ///
    /// # Errors
    /// When the kernel does not do it in time.
    pub(super) fn freeze(&self) -> io::Result<()> {
        self.write("cgroup.freeze", "1")?;
        let until = Instant::now() + FREEZE;
        while !self.read("cgroup.events")?.lines().any(|line| line == "frozen 1") {
            if Instant::now() > until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Has everybody in it go on, whoever made them stand still.
    pub(super) fn thaw(&self) {
        // One that is gone has nobody in it.
        self.write("cgroup.freeze", "0").ok();
    }

    /// Returns who is in it and in the cgroups below it. Processes outside our pid namespace have no number here.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn pids(&self) -> io::Result<Vec<Pid>> {
        let mut pids = Vec::new();
        pids_below(&self.dir, DEPTH_MAX, &mut pids)?;
        Ok(pids)
    }

    /// Removes it if nobody is left in it.
    pub fn remove(record: &CgroupRecord) {
        if let Some(leaf) = Self::open(record) {
            remove_below(&leaf.dir, DEPTH_MAX);
            let until = Instant::now() + LEAVE;
            // The last of them may not have been reaped yet.
            while fs::remove_dir(&record.path)
                .is_err_and(|error| error.raw_os_error() == Some(Errno::BUSY.raw_os_error()))
                && leaf.pids().is_ok_and(|pids| pids.is_empty())
                && Instant::now() < until
            {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }

    fn read(&self, file: &str) -> io::Result<String> {
        read_at(&self.dir, file)
    }

    /// Removes the leaves below our own cgroup that are older than this and hold nobody: those whose last process
    /// was reaped late.
    pub fn tidy(age: Duration, inspector: &Inspector) {
        let Some(parent) = inspector.cgroup2() else { return };
        for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_ours = name.to_str().and_then(|name| name.strip_prefix("cookbook-")).is_some_and(is_session_id);
            let made = entry.metadata().and_then(|metadata| metadata.modified()).ok();
            if is_ours && made.and_then(|made| made.elapsed().ok()).is_some_and(|since| since >= age) {
                // One that holds somebody stays (EBUSY).
                fs::remove_dir(entry.path()).ok();
            }
        }
    }

    pub(super) fn write(&self, file: &str, text: &str) -> io::Result<()> {
        let file = openat(&self.dir, file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        fs::File::from(file).write_all(text.as_bytes())
    }
}

fn pids_below(dir: &OwnedFd, depth: u32, into: &mut Vec<Pid>) -> io::Result<()> {
    into.extend(read_at(dir, "cgroup.procs")?.lines().filter_map(|line| line.parse().ok().and_then(Pid::new)));
    for below in below(dir, depth)? {
        pids_below(&below.1, depth - 1, into)?;
    }
    Ok(())
}

fn read_at(dir: &OwnedFd, file: &str) -> io::Result<String> {
    let mut text = String::new();
    let file = openat(dir, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    fs::File::from(file).read_to_string(&mut text)?;
    Ok(text)
}

fn remove_below(dir: &OwnedFd, depth: u32) {
    for (name, below) in below(dir, depth).unwrap_or_default() {
        remove_below(&below, depth - 1);
        rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR).ok();
    }
}

/// Opens the cgroups directly below one.
fn below(dir: &OwnedFd, depth: u32) -> io::Result<Vec<(PathBuf, OwnedFd)>> {
    let mut found = Vec::new();
    if depth == 0 {
        return Ok(found);
    }
    for entry in rustix::fs::Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type() == FileType::Directory && name != c"." && name != c".." {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            // One that has just been removed has nobody in it.
            if let Ok(below) = openat(dir, name, flags, Mode::empty()) {
                found.push((Path::new(&*name.to_string_lossy()).to_owned(), below));
            }
        }
    }
    Ok(found)
}

/// Returns the containments that hold: with its warden there, or gone as it should, or not; and its workload over or not.
pub fn containment(tether: &Tether, warden: bool, over: bool) -> Vec<String> {
    let holds = |how: &str| match how {
        "warden" => warden,
        "cgroup" => over || tether.cgroup.as_ref().and_then(Leaf::open).is_some(),
        _ => true,
    };
    tether.containment.iter().filter(|how| holds(how)).cloned().collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::lifecycle::authority::{Owned, Pin, authorize};
    use crate::lifecycle::guard::Guard;
    use crate::lifecycle::kill::deliver_all;
    use crate::lifecycle::receipt::Via;

    /// A leaf in the real hierarchy, where this host grants one.
    fn leaf(name: &str, inspector: &Inspector) -> Option<Leaf> {
        Leaf::create(&format!("test-{name}-{}", std::process::id()), inspector).ok()
    }

    struct Sleeper(std::process::Child);

    impl Sleeper {
        fn new() -> Self {
            let child = std::process::Command::new("setsid").args(["sleep", "60"]).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(30));
            Self(child)
        }

        fn pin(&self, inspector: &Inspector) -> Pinned {
            match Pinned::open(inspector, Pid::new(i32::try_from(self.0.id()).unwrap()).unwrap()) {
                Pin::Held(pinned) => pinned,
                Pin::Gone | Pin::Unreadable(_) => panic!("it lives"),
            }
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            self.0.kill().ok();
            self.0.wait().ok();
        }
    }

    #[test]
    fn a_cgroup_is_killed_only_with_a_proof_for_everybody_in_it() {
        let inspector = Inspector::open(None).unwrap();
        let Some(leaf) = leaf("proofs", &inspector) else { return };
        let guard = Guard::new(&inspector);
        let (mut ours, mut guest) = (Sleeper::new(), Sleeper::new());
        let (pinned, other) = (ours.pin(&inspector), guest.pin(&inspector));
        leaf.admit(&pinned, &inspector).unwrap();
        leaf.admit(&other, &inspector).unwrap();
        leaf.freeze().unwrap();
        let mut listed = leaf.pids().unwrap();
        listed.sort_unstable();
        let mut expected = [pinned.identity().pid, other.identity().pid];
        expected.sort_unstable();
        assert_eq!(listed, expected);
        let proofs = |of: &[&'static str]| -> Vec<Owned<'_>> {
            let held = [("ours", &pinned), ("guest", &other)].into_iter().filter(|(name, _)| of.contains(name));
            held.map(|(_, pinned)| authorize(pinned, pinned.identity(), &guard, &inspector).unwrap()).collect()
        };
        assert!(deliver_all(&leaf, proofs(&["ours"])).unwrap_err().to_string().contains("not ours to end"));
        leaf.thaw();
        assert!(ours.0.try_wait().unwrap().is_none() && guest.0.try_wait().unwrap().is_none());
        leaf.freeze().unwrap();
        assert_eq!(deliver_all(&leaf, proofs(&["ours", "guest"])).unwrap(), Via::Cgroup);
        ours.0.wait().unwrap();
        guest.0.wait().unwrap();
        let record = leaf.record().clone();
        assert!(record.path.exists());
        Leaf::remove(&record);
        assert!(!record.path.exists() && Leaf::open(&record).is_none());
    }

    #[test]
    fn another_directory_of_the_same_name_is_not_taken_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let inode = fs::metadata(folder.path()).unwrap().ino();
        let record = CgroupRecord { path: folder.path().to_owned(), inode };
        assert!(Leaf::open(&record).is_some());
        assert!(Leaf::open(&CgroupRecord { inode: inode + 1, ..record.clone() }).is_none());
        Leaf::remove(&CgroupRecord { inode: inode + 1, ..record });
        assert!(folder.path().exists());
    }

    #[test]
    fn leaves_that_hold_nobody_are_tidied() {
        let inspector = Inspector::open(None).unwrap();
        let (Ok(full), Ok(empty)) =
            (Leaf::create("serve-0badc0de", &inspector), Leaf::create("serve-0badcafe", &inspector))
        else {
            return;
        };
        let sleeper = Sleeper::new();
        full.admit(&sleeper.pin(&inspector), &inspector).unwrap();
        Leaf::tidy(Duration::from_secs(3600), &inspector);
        assert!(empty.record().path.exists());
        Leaf::tidy(Duration::ZERO, &inspector);
        assert!(full.record().path.exists() && !empty.record().path.exists());
        drop(sleeper);
        Leaf::remove(full.record());
    }

    #[test]
    fn one_with_somebody_in_it_is_not_removed() {
        let inspector = Inspector::open(None).unwrap();
        let Some(leaf) = leaf("full", &inspector) else { return };
        let sleeper = Sleeper::new();
        leaf.admit(&sleeper.pin(&inspector), &inspector).unwrap();
        let record = leaf.record().clone();
        fs::create_dir(record.path.join("below")).unwrap();
        Leaf::remove(&record);
        assert!(record.path.exists() && !record.path.join("below").exists());
        drop(sleeper);
        Leaf::remove(&record);
        assert!(!record.path.exists());
    }
}
