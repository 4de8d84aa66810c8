//! What procfs says of our own place on the host: cgroup, clock offset, and whether it is our procfs at all.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::Inspector;

/// The inode of the pid namespace in which the kernel counts for itself and for its drivers: `PROC_PID_INIT_INO` of
/// `include/linux/proc_ns.h` (Linux 3.8).
pub const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Tells whether a path names a descriptor of whoever opens it, as shells do for `<(...)` (`proc_pid_fd(5)`).
pub fn is_descriptor(path: &Path) -> bool {
    ["/dev/fd", "/proc/self/fd", "/dev/stdin"].iter().any(|place| path.starts_with(place))
}

/// Returns a path that starts the very program that runs here. Where its file has been replaced or removed since, as an
/// update does, that is the link in procfs (proc(5)), which leads to it as long as this process lives.
///
/// # Errors
/// When nobody can tell where our program is.
pub fn own_program() -> io::Result<PathBuf> {
    let named = std::env::current_exe()?;
    let running = PathBuf::from(format!("/proc/{}/exe", std::process::id()));
    let file = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    Ok(if file(&named) == file(&running) { named } else { running })
}

impl Inspector {
    /// Returns the directory of our own cgroup in the v2 hierarchy (cgroups(7)), where one is mounted.
    pub fn cgroup2(&self) -> Option<PathBuf> {
        let root = self.procfs_root()?;
        let mount = cgroup2_mount(&fs::read_to_string(root.join("self/mountinfo")).ok()?)?;
        let cgroups = fs::read_to_string(root.join("self/cgroup")).ok()?;
        let own = cgroup2_path(&cgroups)?;
        Some(mount.join(own.trim_start_matches('/')).components().collect())
    }

    /// Returns by how many seconds `CLOCK_BOOTTIME` of our time namespace differs from the host's
    /// (`time_namespaces(7)`); 0 without one.
    pub fn boottime_offset_s(&self) -> Option<i64> {
        let root = self.procfs_root()?;
        match fs::read_to_string(root.join("self/timens_offsets")) {
            Ok(text) => boottime_offset(&text),
            // Before Linux 5.6 there are no time namespaces.
            Err(_) => Some(0),
        }
    }

    /// Tells whether procfs is mounted for our own pid namespace: only then are its pids ours to signal.
    pub fn shows_our_pids(&self) -> Option<bool> {
        let named = fs::read_link(self.procfs_root()?.join("self")).ok();
        let me = rustix::process::getpid().as_raw_nonzero().get();
        Some(named.is_some_and(|named| named == Path::new(&me.to_string())))
    }

    fn procfs_root(&self) -> Option<&Path> {
        match self {
            Self::Procfs(procfs) => Some(procfs.root()),
            Self::Ps(_) | Self::None => None,
        }
    }
}

/// Finds where cgroup2 is mounted (`proc_pid_mountinfo(5)`): the filesystem type comes after the dash.
fn cgroup2_mount(mountinfo: &str) -> Option<PathBuf> {
    let mount = |line: &str| {
        let (fields, rest) = line.split_once(" - ")?;
        (rest.split(' ').next() == Some("cgroup2")).then(|| fields.split(' ').nth(4)).flatten().map(unescaped)
    };
    mountinfo.lines().find_map(mount)
}

/// Blanks in paths are octal there.
fn unescaped(text: &str) -> PathBuf {
    text.replace("\\040", " ").into()
}

pub(super) fn cgroup2_path(cgroup: &str) -> Option<&str> {
    cgroup.lines().find_map(|line| line.strip_prefix("0::"))
}

fn boottime_offset(text: &str) -> Option<i64> {
    let mut words = text.lines().find_map(|line| line.strip_prefix("boottime"))?.split_whitespace();
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_v2_hierarchy_is_found_among_the_others() {
        let info = "30 31 0:25 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
                    41 31 0:38 / /sys/fs/cgroup/uni\\040fied rw,relatime shared:1 - cgroup2 cgroup2 rw\n";
        assert_eq!(cgroup2_mount(info), Some("/sys/fs/cgroup/uni fied".into()));
        assert_eq!(cgroup2_mount("30 31 0:25 / /cgroup2 rw - cgroup cgroup2 rw\n"), None);
        assert_eq!(cgroup2_path("8:pids:/a\n0::/user.slice/x\n"), Some("/user.slice/x"));
        assert_eq!(cgroup2_path("8:pids:/a\n"), None);
    }

    #[test]
    fn offsets_are_read() {
        assert_eq!(boottime_offset("monotonic           0         0\nboottime     -86400    500\n"), Some(-86_400));
        assert_eq!(boottime_offset("monotonic 0 0\n"), None);
    }

    #[test]
    fn our_own_procfs_shows_us() {
        let inspector = Inspector::open(None).expect("an inspector");
        assert_eq!(inspector.shows_our_pids(), Some(true));
        assert_eq!(Inspector::None.shows_our_pids(), None);
    }
}
