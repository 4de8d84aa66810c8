//! Reads `cookbook_state.json`, and replaces it when a task was stopped.
//!
//! Cookbook rewrites the whole file without a lock. A change is made to what was just read, and put in place only if
//! the file still is what was read; else it is made anew. Who does take a lock (flock(2)), on the file or on the
//! `.lock` beside it (beside a link, and beside its target), is waited for, and keeps others out as long as they ask.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, Mode, OFlags};

use super::state::{self, Change, State};
use crate::lifecycle::store::{SessionLock, random_hex, take_lock};

/// The longest file that is read, in bytes: tasks bring the end of their output along.
const LONGEST: u64 = 64 << 20;

/// What a person can do about a state file that cannot be used.
pub const WAY_OUT: &str = "mend the file, or leave out [cookbook] data_dir and ODYSSEUS_DATA_DIR";

/// How long somebody else's lock is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Changes by others in a row after which it is given up.
const ATTEMPTS: u32 = 8;

/// Reads a file of Cookbook's data directory; `Ok(None)` where there is none. Never waits, not even for a FIFO.
///
/// # Errors
/// Names the file and what is wrong with it.
pub fn read(path: &Path) -> Result<Option<String>, String> {
    let about = |error: io::Error| format!("{}: {error}", path.display());
    let mut flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let shared = path.parent().and_then(|dir| fs::metadata(dir).ok()).is_some_and(|dir| dir.mode() & 0o002 != 0);
    if shared {
        flags |= OFlags::NOFOLLOW;
    }
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(about(error.into())),
    };
    let found = file.metadata().map_err(about)?;
    let ours = found.uid() == 0 || found.uid() == rustix::process::geteuid().as_raw();
    if !found.is_file() {
        return Err(format!("{} is not a regular file", path.display()));
    }
    if shared && !ours {
        return Err(format!(
            "{} is in a directory that everybody writes to, and belongs to user {}",
            path.display(),
            found.uid()
        ));
    }
    let mut content = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut content).map_err(about)?;
    if content.len() as u64 > LONGEST {
        return Err(format!("{} is longer than {} MiB", path.display(), LONGEST >> 20));
    }
    String::from_utf8(content).map(Some).map_err(|_| format!("{} is not UTF-8", path.display()))
}

/// Why a task cannot be marked now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unwritable {
    /// Somebody holds a lock, and will let go of it.
    #[error("{0}")]
    Locked(String),
    /// The file is to be mended first.
    #[error("{0}")]
    Unusable(String),
}

/// The state file of a data directory.
#[derive(Clone, Debug)]
pub struct StateFile {
    path: PathBuf,
}

impl StateFile {
    /// Returns the state file of a data directory; looks at nothing yet.
    pub fn of(data_dir: &Path) -> Self {
        Self { path: data_dir.join("cookbook_state.json") }
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn text(&self) -> Result<String, String> {
        read(&self.path)?.ok_or_else(|| format!("there is no {}", self.path.display()))
    }

    fn named(&self, reason: &str) -> String {
        format!("{} cannot be used: {reason}", self.path.display())
    }

    /// Reads it.
    ///
    /// # Errors
    /// Names the file and what is wrong with it.
    pub fn load(&self) -> Result<State, String> {
        state::parse(&self.text()?).map_err(|reason| self.named(&reason))
    }

    /// Tells whether a task could be marked now.
    ///
    /// # Errors
    /// Names the file and what is wrong with it.
    pub fn check_writable(&self) -> Result<(), Unwritable> {
        self.claim(PATIENCE).map(drop)
    }

    /// Sees that it can be written, and keeps those out who ask.
    fn claim(&self, patience: Duration) -> Result<Vec<SessionLock>, Unwritable> {
        self.load().map_err(Unwritable::Unusable)?;
        let about = |error: io::Error| Unwritable::Unusable(self.named(&error.to_string()));
        let target = self.path.canonicalize().map_err(about)?;
        // Root may write what is marked as read-only, and does not.
        if fs::metadata(&target).map_err(about)?.permissions().mode() & 0o222 == 0 {
            return Err(Unwritable::Unusable(self.named("it is read-only")));
        }
        let dir = target.parent().unwrap_or(Path::new("/"));
        let allowed = |path: &Path, access| rustix::fs::access(path, access).map_err(io::Error::from);
        allowed(&target, Access::WRITE_OK)
            .and_then(|()| allowed(dir, Access::WRITE_OK | Access::EXEC_OK))
            .map_err(about)?;
        // Where it is a link, some lock beside the link. A lock that is taken already would keep ourselves out.
        let (mut held, mut taken) = (Vec::new(), BTreeSet::new());
        for path in [beside(&self.path), beside(&target), target] {
            let is_new = fs::metadata(&path).map_or(true, |found| taken.insert((found.dev(), found.ino())));
            held.extend(if is_new {
                lock(&path, patience).map_err(|error| self.refused(&path, &error))?
            } else {
                None
            });
        }
        Ok(held)
    }

    fn refused(&self, lock: &Path, error: &io::Error) -> Unwritable {
        if error.kind() != io::ErrorKind::WouldBlock {
            return Unwritable::Unusable(self.named(&error.to_string()));
        }
        let lock = lock.display();
        Unwritable::Locked(
            self.named(&format!("another program holds a lock on {lock} (`lslocks` names it); try again")),
        )
    }

    /// Marks the task of a tmux session as stopped; tells what became of it.
    ///
    /// # Errors
    /// Names the file and what is wrong with it; nothing was changed then.
    pub fn mark_stopped(&self, session: &str) -> Result<Change, String> {
        self.mark_stopped_with(session, || {})
    }

    /// Does so with a look at what others may do between the reading and the writing.
    fn mark_stopped_with(&self, session: &str, mut meanwhile: impl FnMut()) -> Result<Change, String> {
        let _locks = self.claim(PATIENCE).map_err(|reason| reason.to_string())?;
        for _ in 0..ATTEMPTS {
            let before = self.text()?;
            let change = state::mark_stopped(&before, session).map_err(|reason| self.named(&reason))?;
            let Change::Text(after) = &change else { return Ok(change) };
            meanwhile();
            if self.replace(&before, after).map_err(|error| self.named(&error.to_string()))? {
                return Ok(change);
            }
        }
        Err(self.named("others change it faster than it can be written"))
    }

    /// Puts a text in the file's place if it still is what it was; its owner and mode stay.
    fn replace(&self, before: &str, after: &str) -> io::Result<bool> {
        let target = self.path.canonicalize()?;
        let (Some(dir), found) = (target.parent(), fs::metadata(&target)?) else {
            return Err(io::ErrorKind::NotADirectory.into());
        };
        let temporary = dir.join(format!(".cookbook_state.json.{}.{}", std::process::id(), random_hex()));
        let written = (|| {
            let mut file = fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(&temporary)?;
            file.write_all(after.as_bytes())?;
            let mine = file.metadata()?;
            if (mine.uid(), mine.gid()) != (found.uid(), found.gid()) {
                std::os::unix::fs::fchown(&file, Some(found.uid()), Some(found.gid()))?;
            }
            file.set_permissions(fs::Permissions::from_mode(found.mode() & 0o7777))?;
            file.sync_all()?;
            let same = fs::read(&target)? == before.as_bytes();
            if same {
                fs::rename(&temporary, &target)?;
                File::open(dir)?.sync_all()?;
            }
            Ok(same)
        })();
        if !matches!(written, Ok(true)) {
            fs::remove_file(&temporary).ok();
        }
        written
    }
}

/// Returns the file beside another that programs lock in its place.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

/// Locks a file where there is one, and as long as it is the one at this path: a lock on what was replaced holds nobody.
fn lock(path: &Path, patience: Duration) -> io::Result<Option<SessionLock>> {
    loop {
        let file = match rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let inode = |found: &fs::Metadata| (found.dev(), found.ino());
        let opened = inode(&file.metadata()?);
        let held = take_lock(file, patience)?;
        if fs::metadata(path).is_ok_and(|there| inode(&there) == opened) {
            return Ok(Some(held));
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const BEFORE: &str = "{\n  \"tasks\": [{\"id\": \"a\", \"status\": \"running\", \"x\": [1.0]}, {\"id\": \"b\", \"status\": \"ready\"}]\n}";

    fn file(content: &str) -> (tempfile::TempDir, StateFile) {
        let dir = tempfile::tempdir().unwrap();
        let file = StateFile::of(dir.path());
        fs::write(file.path(), content).unwrap();
        (dir, file)
    }

    fn content(file: &StateFile) -> String {
        fs::read_to_string(file.path()).unwrap()
    }

    #[test]
    fn a_mark_keeps_mode_link_and_everything_else() {
        let (dir, file) = file(BEFORE);
        let real = dir.path().join("real.json");
        fs::rename(file.path(), &real).unwrap();
        std::os::unix::fs::symlink("real.json", file.path()).unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(file.mark_stopped("a"), Ok(Change::Text(_))));
        assert_eq!(content(&file), BEFORE.replace("running", "stopped"));
        assert!(fs::symlink_metadata(file.path()).unwrap().is_symlink());
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o7777, 0o640);
        assert_eq!(file.mark_stopped("a"), Ok(Change::Over("stopped".into())));
        assert_eq!(file.mark_stopped("c"), Ok(Change::Missing));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "no temporary file is left");
    }

    /// Cookbook writes between our reading and our writing: its change stays, and ours is made to it.
    #[test]
    fn two_writers_at_once_both_win() {
        let (_dir, file) = file(BEFORE);
        let mut writes = vec![BEFORE.replace("ready", "crashed"), BEFORE.replace("1.0", "2.0")];
        let other = file.clone();
        let marked = file.mark_stopped_with("a", || {
            if let Some(theirs) = writes.pop() {
                fs::write(other.path(), theirs).unwrap();
            }
        });
        assert!(matches!(marked, Ok(Change::Text(_))), "{marked:?}");
        assert_eq!(content(&file), BEFORE.replace("ready", "crashed").replace("running", "stopped"));
    }

    #[test]
    fn a_writer_that_never_rests_is_given_way_to() {
        let (_dir, file) = file(BEFORE);
        let (other, mut count) = (file.clone(), 0);
        let marked = file.mark_stopped_with("a", || {
            count += 1;
            fs::write(other.path(), BEFORE.replace("1.0", &count.to_string())).unwrap();
        });
        assert!(marked.unwrap_err().contains("faster"));
        assert_eq!(content(&file), BEFORE.replace("1.0", &count.to_string()), "what they wrote last");
    }

    /// The task is removed in between: it is not brought back.
    #[test]
    fn a_task_that_is_removed_meanwhile_stays_removed() {
        let (_dir, file) = file(BEFORE);
        let removed = r#"{"tasks": [], "removedTasks": {"a": 1}}"#;
        let other = file.clone();
        assert_eq!(file.mark_stopped_with("a", || fs::write(other.path(), removed).unwrap()), Ok(Change::Missing));
        assert_eq!(content(&file), removed);
    }

    /// Others lock the file itself, or the one beside it.
    #[test]
    fn who_holds_a_lock_is_waited_for_and_named() {
        for path in [Path::to_owned, beside] {
            let (_dir, file) = file(BEFORE);
            let path = path(file.path());
            let theirs = fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
            theirs.lock().unwrap();
            let refused = file.claim(Duration::from_millis(20)).unwrap_err();
            assert!(matches!(refused, Unwritable::Locked(_)), "{refused}");
            let refused = refused.to_string();
            assert!(refused.contains("lock") && refused.contains(&path.display().to_string()), "{refused}");
            assert_eq!(content(&file), BEFORE);
            let other = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(100));
                drop(theirs);
            });
            assert!(matches!(file.mark_stopped("a"), Ok(Change::Text(_))), "it is waited for");
            other.join().unwrap();
            let ours = file.claim(Duration::ZERO).unwrap();
            assert!(File::open(&path).unwrap().try_lock().is_err(), "they are kept out");
            drop(ours);
            File::open(&path).unwrap().try_lock().unwrap();
        }
    }

    /// The file, or its directory, is a link: a lock lies beside the link or beside the target.
    #[test]
    fn locks_are_looked_for_beside_a_link_and_beside_its_target() {
        for link in [|dir: &Path| dir.join("cookbook_state.json.lock"), |dir: &Path| dir.join("real/x.json.lock")] {
            let (dir, file) = file(BEFORE);
            fs::create_dir(dir.path().join("real")).unwrap();
            fs::rename(file.path(), dir.path().join("real/x.json")).unwrap();
            std::os::unix::fs::symlink("real/x.json", file.path()).unwrap();
            let path = link(dir.path());
            let theirs = fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
            theirs.lock().unwrap();
            let refused = file.claim(Duration::from_millis(20)).unwrap_err().to_string();
            assert!(refused.contains(&path.display().to_string()), "{refused}");
            drop(theirs);
            assert_eq!(file.claim(Duration::from_millis(20)).unwrap().len(), 2);
        }
        // By whichever way it is one lock.
        let (dir, _file) = file(BEFORE);
        fs::write(dir.path().join("cookbook_state.json.lock"), "").unwrap();
        let other = tempfile::tempdir().unwrap();
        let data = other.path().join("data");
        std::os::unix::fs::symlink(dir.path(), &data).unwrap();
        assert_eq!(StateFile::of(&data).claim(Duration::from_millis(20)).unwrap().len(), 2);
    }

    #[test]
    fn what_cannot_be_used_is_named_and_not_changed() {
        for bad in ["", "{", "[]", "\u{feff}{}", r#"{"tasks": 3}"#] {
            let (dir, file) = file(bad);
            let error = file.mark_stopped("a").unwrap_err();
            assert!(error.contains(file.path().to_str().unwrap()), "{error}");
            assert_eq!(content(&file), bad);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        }
        let (_dir, locked) = file(BEFORE);
        fs::set_permissions(locked.path(), fs::Permissions::from_mode(0o444)).unwrap();
        assert!(locked.mark_stopped("a").unwrap_err().contains("read-only"));
        assert_eq!(content(&locked), BEFORE);
        let missing = StateFile::of(&locked.path().with_file_name("nowhere"));
        assert!(missing.mark_stopped("a").unwrap_err().starts_with("there is no "));
        let (dir, latin) = file("{}");
        fs::write(latin.path(), b"{\"x\": \"\xe9\"}").unwrap();
        assert!(latin.load().unwrap_err().contains("UTF-8"));
        fs::remove_file(latin.path()).unwrap();
        fs::create_dir(latin.path()).unwrap();
        assert!(latin.load().unwrap_err().contains("not a regular file"));
        drop(dir);
    }
}
