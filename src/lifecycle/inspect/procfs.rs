//! The procfs inspector: our own reader of `/proc`, because the scan is the hot path.
//!
//! A read of an opened file below `/proc/<pid>` stays bound to that process: it fails with `ESRCH`
//! once the process is gone, even when the pid was reused (proc(5)).

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, RawDir, openat};
use rustix::io::Errno;

use super::facts::{Facts, Scale, Snapshot, Unreadable, parse_stat};
use crate::lifecycle::identity::Pid;
use crate::lifecycle::kill::{Existence, probe};

/// Reads the process table of one procfs mount.
#[derive(Debug)]
pub struct Procfs {
    root: PathBuf,
    dir: OwnedFd,
    boot_id: String,
    ticks_per_s: u64,
    page: u64,
    /// The mount hides processes of other users from us (`hidepid` in proc(5)).
    hides: bool,
    lists_children: bool,
}

/// Long enough for a stat line: 52 numbers of at most 20 digits and a name of at most 64 bytes.
const STAT_MAX: usize = 1200;
/// What most files of a process fit into.
const USUAL: usize = 4096;

impl Procfs {
    /// Opens a procfs mount; a folder of files of the same shape serves as well.
    ///
    /// # Errors
    /// When the folder or its boot id cannot be read.
    pub fn open(root: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(root, flags, Mode::empty())?;
        let boot_id = fs::read_to_string(root.join("sys/kernel/random/boot_id"))?.trim().to_owned();
        let me = rustix::process::getpid().as_raw_nonzero();
        let lists_children = root.join(format!("{me}/task/{me}/children")).exists();
        let ticks_per_s = rustix::param::clock_ticks_per_second().max(1);
        let page = rustix::param::page_size() as u64;
        Ok(Self { hides: hides(root), root: root.to_owned(), dir, boot_id, ticks_per_s, page, lists_children })
    }

    pub(super) fn boot_id(&self) -> &str {
        &self.boot_id
    }

    pub(super) const fn lists_children(&self) -> bool {
        self.lists_children
    }

    pub(super) const fn dir(&self) -> &OwnedFd {
        &self.dir
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the present time as `starttime` counts it (`CLOCK_BOOTTIME`, since Linux 2.6).
    fn scale(&self) -> Scale {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let (seconds, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
        let now_ticks = seconds * self.ticks_per_s + nanos * self.ticks_per_s / 1_000_000_000;
        Scale { now_ticks, page: self.page }
    }

    /// Returns clock ticks in seconds.
    #[expect(clippy::cast_precision_loss, reason = "ticks stay far below 2^52")]
    pub(super) fn seconds(&self, ticks: u64) -> f64 {
        ticks as f64 / self.ticks_per_s as f64
    }

    pub(super) fn scan(&self) -> io::Result<Snapshot> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let listing = openat(&self.dir, c".", flags, Mode::empty())?;
        let mut buffer = [MaybeUninit::<u8>::uninit(); 16 * 1024];
        let mut entries = RawDir::new(listing, &mut buffer);
        let (mut found, mut unreadable) = (Vec::new(), Vec::new());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let Some(pid) = parse_pid(entry.file_name()) else { continue };
            match self.facts_at(pid, self.scale()) {
                Ok(Some(facts)) => found.push(facts),
                Ok(None) => {}
                Err(error) => unreadable.push(error),
            }
        }
        Ok(Snapshot::new(found, unreadable, true))
    }

    pub(super) fn facts(&self, pid: Pid) -> Result<Option<Facts>, Unreadable> {
        self.facts_at(pid, self.scale())
    }

    fn facts_at(&self, pid: Pid, scale: Scale) -> Result<Option<Facts>, Unreadable> {
        let unreadable = |reason: String| Unreadable { pid, reason };
        let mut buffer = [0_u8; STAT_MAX];
        let length = match self.read_into(pid, &mut buffer) {
            Ok(length) => length,
            Err(Errno::SRCH) => return Ok(None),
            Err(Errno::NOENT) if !self.hides => return Ok(None),
            // A hidden process and an absent one look the same in procfs; the kernel knows.
            Err(Errno::NOENT) => {
                return match probe(pid) {
                    Existence::Absent => Ok(None),
                    Existence::Present => Err(unreadable("hidden by the hidepid option of procfs".into())),
                    Existence::Unknown(reason) => Err(unreadable(reason)),
                };
            }
            Err(error) => return Err(unreadable(format!("failed to read its stat: {error}"))),
        };
        let text = buffer.get(..length).unwrap_or_default();
        parse_stat(pid, text, scale).map(Some).ok_or_else(|| unreadable("its stat makes no sense".into()))
    }

    fn read_into(&self, pid: Pid, buffer: &mut [u8; STAT_MAX]) -> Result<usize, Errno> {
        let mut path = [0_u8; 24];
        let length = {
            use std::io::Write;
            let mut rest = &mut path[..];
            let before = rest.len();
            // 24 bytes hold any pid with its suffix, so this cannot fail.
            write!(rest, "{pid}/stat\0").ok();
            before - rest.len()
        };
        let path = CStr::from_bytes_with_nul(&path[..length]).map_err(|_| Errno::INVAL)?;
        let file = openat(&self.dir, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::io::read(file.as_fd(), buffer)
    }

    fn read_all(&self, path: &str) -> io::Result<Vec<u8>> {
        let file = File::from(openat(&self.dir, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?);
        // Its size is not known before it is read.
        let mut bytes = Vec::with_capacity(USUAL);
        file.take(u64::MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn argv(&self, pid: Pid) -> Vec<Vec<u8>> {
        split_nul(self.read_all(&format!("{pid}/cmdline")).unwrap_or_default())
    }

    pub(super) fn namespace(&self, name: &str) -> Option<u64> {
        let target = fs::read_link(self.root.join("self/ns").join(name)).ok()?;
        target.to_str()?.strip_prefix(name)?.strip_prefix(":[")?.strip_suffix(']')?.parse().ok()
    }

    /// Reads it from `status`: the folder itself is root's where a process may not be dumped.
    pub(super) fn uid(&self, pid: Pid) -> Option<u32> {
        let status = fs::read_to_string(self.root.join(format!("{pid}/status"))).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        line.split_whitespace().nth(1)?.parse().ok()
    }

    pub(super) fn executable(&self, pid: Pid) -> Option<String> {
        let target = fs::read_link(self.root.join(format!("{pid}/exe"))).ok()?;
        let name = target.file_name()?.to_str()?;
        Some(name.strip_suffix(" (deleted)").unwrap_or(name).to_owned())
    }

    pub(super) fn cgroup(&self, pid: Pid) -> Option<String> {
        let bytes = self.read_all(&format!("{pid}/cgroup")).ok()?;
        super::host::cgroup2_path(&String::from_utf8_lossy(&bytes)).map(str::to_owned)
    }

    pub(super) fn address_space(&self, pid: Pid) -> Option<u64> {
        let limits = fs::read_to_string(self.root.join(format!("{pid}/limits"))).ok()?;
        let soft = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
        soft.split_whitespace().next()?.parse().ok()
    }

    pub(super) fn has_marker(&self, pid: Pid, marker: &[u8]) -> bool {
        self.read_all(&format!("{pid}/environ"))
            .is_ok_and(|environ| environ.split(|b| *b == 0).any(|variable| variable == marker))
    }
}

fn split_nul(mut bytes: Vec<u8>) -> Vec<Vec<u8>> {
    if bytes.last() == Some(&0) {
        bytes.pop();
    }
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes.split(|b| *b == 0).map(<[u8]>::to_vec).collect()
}

fn parse_pid(name: &CStr) -> Option<Pid> {
    let bytes = name.to_bytes();
    if !bytes.first()?.is_ascii_digit() {
        return None;
    }
    std::str::from_utf8(bytes).ok()?.parse().ok().and_then(Pid::new)
}

/// Tells whether the mount at `root` hides other users' processes: `hidepid` of 1 or more. (For a
/// privileged reader nothing is hidden, and nothing is lost by asking the kernel once more.)
fn hides(root: &Path) -> bool {
    let Ok(mounts) = fs::read_to_string(root.join("self/mountinfo")) else { return false };
    let Some(root) = root.to_str() else { return false };
    let mounted = |line: &&str| line.split(' ').nth(4) == Some(root);
    let Some(line) = mounts.lines().rfind(mounted) else { return false };
    line.split([' ', ',']).any(|option| option.strip_prefix("hidepid=").is_some_and(|how| how != "0" && how != "off"))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use crate::text::noise::{cases, damaged};

    use super::*;

    fn fake(stat: &[u8]) -> (tempfile::TempDir, Procfs) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("sys/kernel/random")).unwrap();
        fs::write(root.join("sys/kernel/random/boot_id"), "b00t\n").unwrap();
        fs::create_dir_all(root.join("42")).unwrap();
        fs::write(root.join("42/stat"), stat).unwrap();
        fs::create_dir_all(root.join("not-a-pid")).unwrap();
        let procfs = Procfs::open(root).unwrap();
        (folder, procfs)
    }

    const STAT: &[u8] = b"42 (a) S 1 (\xff\n) S 7 8 9 0 0 0 0 0 0 0 1 2 0 0 20 0 1 0 5 0 3 0\n";

    #[test]
    fn a_folder_of_files_is_a_process_table() {
        let (_folder, procfs) = fake(STAT);
        assert_eq!(procfs.boot_id(), "b00t");
        let snapshot = procfs.scan().unwrap();
        let facts = snapshot.of(Pid::new(42).unwrap()).unwrap();
        assert_eq!((facts.ppid, facts.cpu_ticks), (7, Some(3)));
        assert_eq!(facts.comm, b"a) S 1 (\xff\n");
        assert_eq!(snapshot.len(), 1);
        assert_eq!(procfs.facts(Pid::new(43).unwrap()), Ok(None));
    }

    #[test]
    fn nonsense_is_unreadable_and_not_absent() {
        for text in [&b""[..], b"42", b"42 (x) S"] {
            let (_folder, procfs) = fake(text);
            let snapshot = procfs.scan().unwrap();
            assert_eq!((snapshot.len(), snapshot.unreadable.len()), (0, 1));
            assert!(procfs.facts(Pid::new(42).unwrap()).is_err());
        }
    }

    #[test]
    fn a_limit_of_the_address_space_is_read() {
        let (folder, procfs) = fake(STAT);
        let pid = Pid::new(42).unwrap();
        assert_eq!(procfs.address_space(pid), None);
        for (soft, expected) in [("716800000", Some(716_800_000)), ("unlimited", None)] {
            let limits = format!(
                "Limit                     Soft Limit           Hard Limit           Units\nMax address space         {soft}            unlimited            bytes\n"
            );
            fs::write(folder.path().join("42/limits"), limits).unwrap();
            assert_eq!(procfs.address_space(pid), expected);
        }
    }

    #[test]
    fn a_descriptor_shortage_is_not_an_absence() {
        let (folder, procfs) = fake(STAT);
        fs::remove_file(folder.path().join("42/stat")).unwrap();
        std::os::unix::fs::symlink("stat", folder.path().join("42/stat")).unwrap();
        let error = procfs.facts(Pid::new(42).unwrap()).unwrap_err();
        assert!(error.reason.contains("failed to read"), "{error}");
    }

    #[test]
    fn hidepid_is_read_from_the_last_mount_at_the_place() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("self")).unwrap();
        for (options, expected) in [
            ("rw", false),
            ("rw,hidepid=2", true),
            ("rw,hidepid=invisible", true),
            ("hidepid=0", false),
            ("hidepid=off", false),
        ] {
            let line = format!("20 1 0:5 / {} rw,relatime shared:1 - proc proc {options}\n", root.display());
            fs::write(root.join("self/mountinfo"), line).unwrap();
            assert_eq!(hides(root), expected, "{options}");
        }
    }

    /// A real mount with `hidepid=2`, read by a real other user: what is hidden is not absent.
    #[test]
    fn a_hidden_process_is_unreadable_and_not_absent() {
        use std::os::unix::fs::PermissionsExt;
        if let Some(root) = std::env::var_os("HIDEPID_ROOT") {
            // The other user, in a mount namespace of its own.
            let procfs = Procfs::open(Path::new(&root)).unwrap();
            let hidden = procfs.facts(Pid::new(1).unwrap()).unwrap_err();
            assert!(hidden.reason.contains("hidepid"), "{hidden}");
            assert_eq!(procfs.facts(Pid::new(i32::MAX).unwrap()), Ok(None));
            let me = Pid::new(i32::try_from(std::process::id()).unwrap()).unwrap();
            assert!(procfs.facts(me).unwrap().is_some());
            return;
        }
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (exe, root) = (folder.path().join("test"), folder.path().join("proc"));
        fs::copy(std::env::current_exe().unwrap(), &exe).unwrap();
        fs::create_dir(&root).unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let script = "mount -t proc -o hidepid=2 proc \"$HIDEPID_ROOT\" || exit 77
            exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$0\" --exact \"$1\"";
        let name = "lifecycle::inspect::procfs::tests::a_hidden_process_is_unreadable_and_not_absent";
        let output = std::process::Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", script])
            .args([exe.as_os_str(), name.as_ref()])
            .env("HIDEPID_ROOT", &root)
            .output()
            .unwrap();
        // Some hosts let even root mount nothing.
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(77) || text.contains("1 passed"), "{text}");
    }

    #[test]
    fn children_are_listed_by_the_thread_that_has_them() {
        let procfs = Procfs::open(Path::new("/proc")).unwrap();
        let me = Pid::new(i32::try_from(std::process::id()).unwrap()).unwrap();
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let pid = Pid::new(i32::try_from(child.id()).unwrap()).unwrap();
        let scanned = procfs.scan().unwrap();
        assert_eq!(scanned.of(pid).map(|facts| facts.ppid), Some(me.raw()));
        for threads in [1, 2] {
            let mut children = Vec::new();
            // The test runs on a thread, whose child it is; a process of two threads lists them all.
            procfs.children(&procfs.kin(me, threads), &mut children);
            assert_eq!(children.contains(&pid), threads > 1);
        }
        assert_eq!(procfs.argv(pid), [b"sleep".to_vec(), b"30".to_vec()]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(procfs.facts(pid), Ok(None));
    }

    proptest! {
        #![proptest_config(cases(40))]

        /// Bytes of anybody in the place of every file that is read of a process.
        #[test]
        fn any_files_of_a_process_are_survived(
            stat in damaged(STAT.to_vec()),
            status in damaged(b"Name:\tx\nUid:\t1\t2\t3\t4\n".to_vec()),
            rest in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let (folder, procfs) = fake(&stat);
            let place = |name: &str| folder.path().join("42").join(name);
            fs::write(place("status"), &status).unwrap();
            for name in ["cmdline", "cgroup", "environ"] {
                fs::write(place(name), &rest).unwrap();
            }
            let pid = Pid::new(42).unwrap();
            let snapshot = procfs.scan().unwrap();
            // It is there, or it cannot be read; it is not absent.
            prop_assert_eq!(snapshot.len() + snapshot.unreadable.len(), 1);
            prop_assert!(procfs.facts(pid) != Ok(None));
            let uid = procfs.uid(pid);
            let said = String::from_utf8_lossy(&status).into_owned();
            prop_assert!(uid.is_none_or(|uid| said.split_whitespace().any(|word| word.parse() == Ok(uid))));
            prop_assert!(procfs.cgroup(pid).is_none_or(|path| path.starts_with('/')));
            procfs.has_marker(pid, b"x=1");
            let joined = procfs.argv(pid).join(&0);
            prop_assert!(joined == rest || [&joined[..], b"\0"].concat() == rest, "{:?} of {:?}", joined, rest);
        }
    }
}
