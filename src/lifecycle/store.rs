//! The files behind the tethers: write temp, fsync, rename, fsync the directory.
//!
//! One file per session, so that several managers never rewrite each other's records. A record that
//! cannot be read is quarantined: shown with its reason, never deleted and never acted on.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::failpoint::{Point, around};
use super::journal::Journal;
use super::leaf::Leaf;
use super::records::Records;
use super::regular;
use super::tether::{ExitRecord, Tether, is_session_id};

/// The directory of the session records.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

/// The proof that a tether is on disk. A gate opens only for it.
#[derive(Debug)]
pub struct Durable {
    session: String,
}

impl Durable {
    /// Returns the id of the session that is on disk.
    pub fn session(&self) -> &str {
        &self.session
    }
}

/// A record that is left alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Quarantined {
    /// Which file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

impl Quarantined {
    /// Tells whether it is the record of this session, by the name of its file.
    pub fn is_of(&self, session: &str) -> bool {
        self.path.file_stem().is_some_and(|stem| stem == session)
    }
}

/// The lock of one session: its holder runs the ladder and removes the tether.
#[derive(Debug)]
pub struct SessionLock {
    _file: File,
}

impl Store {
    /// Opens the store, creating its directories with mode 0700.
    ///
    /// # Errors
    /// When a directory cannot be made, or belongs to somebody else.
    pub fn open(root: &Path) -> io::Result<Self> {
        let store = Self { root: root.to_owned() };
        for directory in [root.to_owned(), store.sessions(), root.join("logs")] {
            private_dir(&directory)?;
        }
        Ok(store)
    }

    /// Returns the directory of the store.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn sessions(&self) -> PathBuf {
        self.root.join("sessions")
    }

    /// Returns where a session's tether is.
    pub fn tether_path(&self, session: &str) -> PathBuf {
        self.sessions().join(format!("{session}.json"))
    }

    /// Returns where a session's exit record is.
    pub fn exit_path(&self, session: &str) -> PathBuf {
        self.sessions().join(format!("{session}.exit"))
    }

    /// Returns where a session's last receipt is.
    pub fn receipt_path(&self, session: &str) -> PathBuf {
        self.sessions().join(format!("{session}.receipt"))
    }

    /// Returns where the note is that a session's agent has left.
    pub fn note_path(&self, session: &str) -> PathBuf {
        self.sessions().join(format!("{session}.note"))
    }

    /// Returns where it is written that somebody has answered a session.
    pub fn seen_path(&self, session: &str) -> PathBuf {
        self.sessions().join(format!("{session}.seen"))
    }

    /// Returns the sessions that a note was left for, or an answer to one; `None` where nobody can tell.
    pub fn notes(&self) -> Option<BTreeSet<String>> {
        let mut found = BTreeSet::new();
        for entry in fs::read_dir(self.sessions()).ok()? {
            let name = entry.ok()?.file_name();
            let session =
                name.to_str().and_then(|name| name.strip_suffix(".note").or_else(|| name.strip_suffix(".seen")));
            found.extend(session.map(str::to_owned));
        }
        Some(found)
    }

    /// Returns the journal of receipts.
    pub fn journal(&self) -> Journal {
        Journal::of(&self.root)
    }

    /// Returns where a session's log is.
    pub fn log_path(&self, session: &str) -> PathBuf {
        self.root.join("logs").join(format!("{session}.log"))
    }

    /// Returns when a session's log was last written to, on the wall clock: it grows with all that is printed.
    pub fn log_written(&self, session: &str) -> Option<SystemTime> {
        fs::metadata(self.log_path(session)).and_then(|log| log.modified()).ok()
    }

    /// Writes a tether and returns only when it is on disk.
    ///
    /// # Errors
    /// When it does not validate, or the disk refuses; the record before is still whole then.
    pub fn save(&self, tether: &Tether) -> io::Result<Durable> {
        tether.validate().map_err(|reason| io::Error::new(io::ErrorKind::InvalidData, reason))?;
        write_json(&self.tether_path(&tether.session), tether)?;
        Ok(Durable { session: tether.session.clone() })
    }

    /// Writes the tether of a new session, and makes its lock: on a disk that takes no writes any more there would be
    /// none, and without one nobody could end it.
    ///
    /// # Errors
    /// As [`Self::save`]; nothing is left of it then.
    pub fn begin(&self, tether: &Tether) -> io::Result<Durable> {
        let begun = self.lock(&tether.session, Duration::ZERO).and_then(|_held| self.save(tether));
        begun.inspect_err(|_| self.forget(&tether.session))
    }

    /// Reads all tethers; what cannot be read comes back as quarantined. What has not changed since it was `known` is
    /// not read again.
    ///
    /// # Errors
    /// When the directory itself cannot be listed.
    pub fn load(&self, known: &mut Records) -> io::Result<(Vec<Tether>, Vec<Quarantined>)> {
        let entries = fs::read_dir(self.sessions())?.collect::<io::Result<Vec<_>>>()?;
        let records = entries.iter().map(fs::DirEntry::path);
        let records = records.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
        let (mut tethers, mut quarantined) = (Vec::new(), Vec::new());
        for (path, record) in known.of(records, |path| read_tether(path)) {
            match record {
                Ok(tether) => tethers.push(tether),
                Err(reason) => quarantined.push(Quarantined { path, reason }),
            }
        }
        tethers.sort_by(|a, b| a.spawned_at.total_cmp(&b.spawned_at).then_with(|| a.session.cmp(&b.session)));
        quarantined.sort_by(|a, b| a.path.cmp(&b.path));
        Ok((tethers, quarantined))
    }

    /// Reads one tether; `Ok(None)` where there is none.
    ///
    /// # Errors
    /// With the reason for which it is to be left alone.
    pub fn tether(&self, session: &str) -> Result<Option<Tether>, String> {
        read_tether(&self.tether_path(session))
    }

    /// Removes a tether once everything of the session was observed dead, and the cgroup that it names.
    pub fn remove(&self, session: &str) -> io::Result<()> {
        if let Ok(Some(Tether { cgroup: Some(cgroup), .. })) = self.tether(session) {
            Leaf::remove(&cgroup);
        }
        match around(Point::Unlink, || fs::remove_file(self.tether_path(session))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => sync_dir(&self.sessions()),
        }
    }

    /// Removes what else is stored of a session: its exit record, lock, receipt and note. The log stays.
    pub fn forget(&self, session: &str) {
        let lock = self.sessions().join(format!("{session}.lock"));
        let (note, seen) = (self.note_path(session), self.seen_path(session));
        for path in [self.exit_path(session), self.receipt_path(session), note, seen, lock] {
            fs::remove_file(path).ok();
        }
    }

    /// Removes the new files of writers that died before they could put them in place. What is younger than an
    /// hour may be in the hands of somebody who lives.
    pub fn remove_unfinished(&self) {
        let Ok(entries) = fs::read_dir(self.sessions()) else { return };
        let old = |metadata: fs::Metadata| {
            metadata.is_file() && metadata.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > UNFINISHED))
        };
        for entry in entries.flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(b".") && entry.metadata().is_ok_and(old) {
                fs::remove_file(entry.path()).ok();
            }
        }
    }

    /// Removes the logs of sessions without a record, but for the newest. What was written to within the hour may
    /// be of a session that is being launched.
    pub fn remove_old_logs(&self) {
        let Ok(entries) = fs::read_dir(self.root.join("logs")) else { return };
        let mut logs: Vec<(SystemTime, String)> = entries
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let session = name.strip_suffix(".log")?;
                let is_left = is_session_id(session) && !self.tether_path(session).exists();
                Some((entry.metadata().ok()?.modified().ok()?, session.to_owned())).filter(|_| is_left)
            })
            .collect();
        logs.sort();
        let too_many = logs.len().saturating_sub(LOGS_MAX);
        for (at, session) in logs.into_iter().take(too_many) {
            if at.elapsed().is_ok_and(|age| age > UNFINISHED) {
                fs::remove_file(self.log_path(&session)).ok();
                fs::remove_file(self.log_path(&session).with_extension("log.1")).ok();
            }
        }
    }

    /// Returns the ids of the sessions with a stored receipt.
    pub fn receipts(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.sessions()) else { return Vec::new() };
        let paths = entries.flatten().map(|entry| entry.path());
        let receipts = paths.filter(|path| path.extension().is_some_and(|extension| extension == "receipt"));
        let ids = receipts.filter_map(|path| path.file_stem()?.to_str().map(str::to_owned));
        ids.filter(|id| is_session_id(id)).collect()
    }

    /// Reads how a workload ended, if its warden has recorded it.
    pub fn exit(&self, session: &str) -> Option<ExitRecord> {
        read_json(&self.exit_path(session)).ok().flatten()
    }

    /// Takes the lock of a session. Where the whole state directory was removed, it is made anew: a session whose
    /// record is lost can still be stopped.
    ///
    /// # Errors
    /// `WouldBlock` when another process still holds it after `patience`.
    pub fn lock(&self, session: &str, patience: Duration) -> io::Result<SessionLock> {
        let path = self.sessions().join(format!("{session}.lock"));
        match lock_file(&path, patience) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Self::open(&self.root)?;
                lock_file(&path, patience)
            }
            taken => taken,
        }
    }
}

/// Age at which a file that was never put in place has no writer any more.
const UNFINISHED: Duration = Duration::from_secs(3600);

/// Bytes of a trial: a block of most file systems, and about what a record takes.
const TRIAL: usize = 4096;

/// Logs that are kept of sessions without a record.
const LOGS_MAX: usize = 100;

/// Takes the lock at `path`, creating the file. One that is there can be taken on a disk that takes no writes.
pub fn lock_file(path: &Path, patience: Duration) -> io::Result<SessionLock> {
    let written = regular::private(OpenOptions::new().create(true).truncate(false).write(true), path);
    let file = match written {
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
            regular::open_with(OpenOptions::new().read(true), path)?
        }
        opened => opened?,
    };
    take_lock(file, patience)
}

/// Takes the lock of an open file (flock(2)), which whoever else has it open may hold.
///
/// # Errors
/// `WouldBlock` where somebody else holds it for longer than `patience`.
pub fn take_lock(file: File, patience: Duration) -> io::Result<SessionLock> {
    let until = Instant::now() + patience;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(SessionLock { _file: file }),
            Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

fn read_tether(path: &Path) -> Result<Option<Tether>, String> {
    let Some(tether) = read_json::<Tether>(path)? else { return Ok(None) };
    tether.validate()?;
    let named = path.file_stem().and_then(|stem| stem.to_str());
    if named != Some(tether.session.as_str()) || !is_session_id(&tether.session) {
        return Err(format!("it records the session {:?} under another name", tether.session));
    }
    Ok(Some(tether))
}

/// Reads a JSON file; `Ok(None)` where there is none.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, String> {
    match regular::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| format!("not a record of ours: {error}")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("failed to read: {error}")),
    }
}

/// Replaces a file with the JSON of `value`, mode 0600: never a half file, durable on return.
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(value).map_err(io::Error::other)?;
    bytes.push(b'\n');
    replace(path, &bytes)
}

/// Replaces a file, mode 0600: never a half file, durable on return.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with(path, bytes, 0o600, || Ok(true)).map(drop)
}

/// Replaces a file of somebody else's making if it still is what was read of it (`None`: it is not there); its mode
/// stays. Returns whether it was.
pub fn replace_if_same(path: &Path, before: Option<&[u8]>, bytes: &[u8]) -> io::Result<bool> {
    let now = || match fs::read(path) {
        Ok(now) => Ok(Some(now)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    let mode = match fs::metadata(path) {
        Ok(metadata) => metadata.mode() & 0o7777,
        Err(_) => 0o600,
    };
    replace_with(path, bytes, mode, || Ok(now()?.as_deref() == before))
}

/// Replaces a file, if `go` says so once the new one is on disk. Returns whether it did.
fn replace_with(path: &Path, bytes: &[u8], mode: u32, go: impl FnOnce() -> io::Result<bool>) -> io::Result<bool> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy().into_owned();
    let temp = directory.join(format!(".{name}.{}.{}", std::process::id(), random_hex()));
    let written = (|| {
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&temp)?;
        around(Point::Write, || file.write_all(bytes))?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        around(Point::Fsync, || file.sync_all())?;
        let goes = go()?;
        if goes {
            around(Point::Rename, || fs::rename(&temp, path))?;
        }
        Ok(goes)
    })();
    if !matches!(written, Ok(true)) {
        fs::remove_file(&temp).ok();
        return written;
    }
    sync_dir(directory).map(|()| true)
}

pub(super) fn sync_dir(directory: &Path) -> io::Result<()> {
    around(Point::Dirsync, || File::open(directory)?.sync_all())
}

/// Makes a directory with mode 0700 whatever the umask, and checks that it is ours and no symlink.
///
/// # Errors
/// Names the directory and what is wrong with it.
pub fn private_dir(path: &Path) -> io::Result<()> {
    make_dir(path)?;
    if own_dir(path)?.mode() & 0o777 != 0o700 {
        set_dir_mode(path)?;
    }
    Ok(())
}

/// Makes a directory, and those above it, with mode 0700 whatever the umask; what is there stays as it is.
///
/// # Errors
/// Names the directory that cannot be made.
pub fn make_dir(path: &Path) -> io::Result<()> {
    let create = || fs::DirBuilder::new().mode(0o700).create(path);
    let made = create().or_else(|error| match path.parent() {
        Some(parent) if error.kind() == io::ErrorKind::NotFound => make_dir(parent).and_then(|()| create()),
        Some(_) | None => Err(error),
    });
    match made {
        // A umask may take the owner's bits, too.
        Ok(()) => set_dir_mode(path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(named(path, &error)),
    }
}

fn set_dir_mode(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(|error| named(path, &error))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Checks that a directory is there, is ours and no symlink.
///
/// # Errors
/// Names the directory and what is wrong with it.
pub fn own_dir(path: &Path) -> io::Result<fs::Metadata> {
    let metadata = fs::symlink_metadata(path).map_err(|error| named(path, &error))?;
    if metadata.is_symlink() {
        return Err(io::Error::other(format!("{} is a symbolic link; it must be a directory itself", path.display())));
    }
    if !metadata.is_dir() {
        return Err(io::Error::other(format!("{} is not a directory", path.display())));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other(format!("{} belongs to user {}", path.display(), metadata.uid())));
    }
    Ok(metadata)
}

/// Tries whether a directory takes files: writes one, has it put on the disk and removes it.
///
/// # Errors
/// What the disk says.
pub fn try_write(directory: &Path) -> io::Result<()> {
    let path = directory.join(format!(".trial.{}.{}", std::process::id(), random_hex()));
    let written = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path).and_then(|mut file| {
        file.write_all(&[b'\n'; TRIAL])?;
        file.sync_all()
    });
    match fs::remove_file(&path) {
        // Where none was made there is none to remove, whatever the disk says.
        Err(error) if written.is_ok() => Err(error),
        Ok(()) | Err(_) => written,
    }
}

/// Runs one test of this program again below strace(1), which writes down in which order it writes, syncs and renames;
/// `None` where strace is not there or may not trace.
#[cfg(test)]
pub(super) fn traced(test: &str, folder: &Path) -> Option<String> {
    let trace = folder.join("trace");
    let ran = std::process::Command::new("strace")
        .args(["-f", "-qq", "-y", "-e", "trace=write,fsync,fdatasync,rename,renameat,renameat2", "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().ok()?)
        .args(["--exact", test])
        .env("TRACED_IN", folder)
        .output()
        .ok()?;
    ran.status.success().then(|| fs::read_to_string(trace).ok()).flatten()
}

/// Returns the only line of a trace that holds all of these words, by its number.
#[cfg(test)]
pub(super) fn traced_line(trace: &str, words: &[&str]) -> usize {
    let holds = |line: &&str| words.iter().all(|word| line.contains(word));
    let found: Vec<usize> =
        trace.lines().enumerate().filter(|(_, line)| holds(line)).map(|(number, _)| number).collect();
    assert_eq!(found.len(), 1, "{words:?}\n{trace}");
    found[0]
}

/// Returns eight random hexadecimal digits.
pub fn random_hex() -> String {
    let mut bytes = [0_u8; 4];
    // getrandom(2) cannot fail for four bytes once the pool is initialised; if it should, the clock
    // and the pid still tell two managers apart.
    if rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).is_err() {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let mixed = now.tv_nsec ^ i64::from(std::process::id()).rotate_left(13);
        bytes.copy_from_slice(&mixed.to_le_bytes()[..4]);
    }
    format!("{:08x}", u32::from_ne_bytes(bytes))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod properties;
