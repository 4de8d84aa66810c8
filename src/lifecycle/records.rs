//! The records on disk as they were last read: a file is read again only when it is not the one that it was.
//!
//! `stat(2)` tells: whatever happens to a file, its content, its mode or its place, changes its inode or its `ctime`, and
//! nobody can set that one back. It counts in ticks of the kernel's clock, so a file that was changed a moment
//! before it was looked at may change again within the same tick; such a one is not remembered.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::time::{ClockId, Timespec, clock_gettime};

use super::tether::Tether;

/// Longer than any tick of the kernel's clock, in nanoseconds.
const TICK_NS: i128 = 50_000_000;

/// What records were last found to be.
#[derive(Debug, Default)]
pub struct Records(HashMap<PathBuf, (Stamp, Result<Tether, String>)>);

/// What changes with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            size: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }

    /// Tells whether a change from now on would show. A clock that was set back makes it wait.
    fn is_past(&self, now: Timespec) -> bool {
        let nanos = |(seconds, nanos): (i64, i64)| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        nanos(self.changed) + TICK_NS < nanos((now.tv_sec, now.tv_nsec))
    }
}

impl Records {
    /// Returns each of these records, or why it is to be left alone. `read` answers `Ok(None)` where there is none.
    pub(super) fn of(
        &mut self,
        paths: impl Iterator<Item = PathBuf>,
        read: impl Fn(&PathBuf) -> Result<Option<Tether>, String>,
    ) -> Vec<(PathBuf, Result<Tether, String>)> {
        let mut before = std::mem::take(&mut self.0);
        let mut found = Vec::new();
        for path in paths {
            // Taken first: what changes after it is seen as a change the next time.
            let stamp = fs::symlink_metadata(&path).ok().map(|file| Stamp::of(&file));
            let known = before.remove(&path).filter(|(known, _)| Some(*known) == stamp);
            let record = match known {
                Some((_, record)) => record,
                None => match read(&path).transpose() {
                    Some(record) => record,
                    None => continue,
                },
            };
            if let Some(stamp) = stamp.filter(|stamp| stamp.is_past(clock_gettime(ClockId::Realtime))) {
                self.0.insert(path.clone(), (stamp, record.clone()));
            }
            found.push((path, record));
        }
        found
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::cell::Cell;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::time::Duration;

    use super::*;

    /// Reads one file through the cache; says what it is and whether it was opened.
    fn look(records: &mut Records, path: &Path) -> (Option<String>, bool) {
        let opened = Cell::new(false);
        let mut found = records.of(std::iter::once(path.to_owned()), |path| {
            opened.set(true);
            match fs::read_to_string(path) {
                Ok(text) => Err(text),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error.kind().to_string()),
            }
        });
        (found.pop().and_then(|(_, record)| record.err()), opened.get())
    }

    fn rest() {
        std::thread::sleep(Duration::from_millis(80));
    }

    #[test]
    fn every_change_of_a_file_is_seen_and_nothing_is_read_twice() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        let mut records = Records::default();
        assert_eq!(look(&mut records, &path), (None, true));
        fs::write(&path, "one").unwrap();
        rest();
        assert_eq!(look(&mut records, &path), (Some("one".into()), true));
        assert_eq!(look(&mut records, &path), (Some("one".into()), false));
        // In place, with the same length and a modification time that was set back.
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, "two").unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(before).unwrap();
        assert_eq!(look(&mut records, &path), (Some("two".into()), true));
        rest();
        assert_eq!(look(&mut records, &path).0, Some("two".into()));
        assert!(!look(&mut records, &path).1);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        assert!(look(&mut records, &path).1, "its mode has changed");
        rest();
        look(&mut records, &path);
        let other = folder.path().join("b");
        fs::write(&other, "new").unwrap();
        fs::rename(&other, &path).unwrap();
        assert_eq!(look(&mut records, &path), (Some("new".into()), true));
        fs::remove_file(&path).unwrap();
        assert_eq!(look(&mut records, &path), (None, true));
    }

    #[test]
    fn a_change_is_past_after_a_tick_and_not_before() {
        let stamp = Stamp { device: 1, inode: 1, size: 1, modified: (0, 0), changed: (9, 990_000_000) };
        let at = |tv_sec, tv_nsec| stamp.is_past(Timespec { tv_sec, tv_nsec });
        assert!(!at(9, 999_000_000));
        assert!(!at(10, 1_000_000));
        assert!(at(10, 41_000_000));
        assert!(!at(8, 0), "a clock that was set back");
    }

    #[test]
    fn what_was_changed_a_moment_ago_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        let mut records = Records::default();
        for text in ["one", "two", "six"] {
            fs::write(&path, text).unwrap();
            assert_eq!(look(&mut records, &path), (Some(text.into()), true));
        }
    }
}
