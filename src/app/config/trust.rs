//! Which configurations that came with a directory the user trusts (design rule 15).
//!
//! `load` asks, the command `trust` answers for the user. Trust is a path and the SHA-256 of what
//! was there: a changed or moved file is a stranger again. The ledger is `trusted.json` in the
//! state directory. Nothing here parses a configuration, and a ledger that cannot be read is left
//! as it is and trusts nothing.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::error::{ConfigError, shown_path};
use super::model::Untrusted;
use crate::lifecycle::store::private_dir;

/// The longest file that is read, in bytes.
pub(super) const LONGEST_FILE: u64 = 1 << 20;

const LEDGER: &str = "trusted.json";
const SCHEMA_VERSION: u32 = 1;

/// A file that is trusted as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trusted {
    /// Its absolute path.
    pub path: PathBuf,
    /// SHA-256 of what is in it, in hexadecimal.
    pub sha256: String,
}

/// Trusts a file as it is now, if that can be used. An earlier trust in the same path ends.
///
/// # Errors
/// As `check`, which gets the very bytes that are to be trusted; or when the file or the ledger does not let itself be
/// read or written.
pub fn trust(
    file: &Path,
    state_dir: &Path,
    check: impl FnOnce(&Path, &[u8]) -> Result<(), ConfigError>,
) -> io::Result<Trusted> {
    let path = absolute(file)?;
    let content = read_checked(&path).map_err(|error| about(&path, &error))?;
    check(&path, &content).map_err(|error| io::Error::other(error.to_string()))?;
    record(Trusted { path, sha256: fingerprint(&content) }, state_dir)
}

/// Trusts a file only if it still is what the user was shown.
pub fn trust_seen(seen: &Untrusted, state_dir: &Path) -> io::Result<Trusted> {
    let content = read_checked(&seen.path).map_err(|error| about(&seen.path, &error))?;
    if fingerprint(&content) != seen.sha256 {
        return Err(about(&seen.path, &io::Error::other("it has changed since it was shown")));
    }
    record(Trusted { path: seen.path.clone(), sha256: seen.sha256.clone() }, state_dir)
}

/// Tells whether a file was trusted with this content. `path` is as [`Trusted`] has it.
pub fn is_trusted(path: &Path, sha256: &str, state_dir: &Path) -> io::Result<bool> {
    let ledger = Ledger::read(state_dir)?;
    Ok(ledger.trusted.iter().any(|entry| entry.path == path && entry.sha256 == sha256))
}

/// Returns the SHA-256 of bytes, in hexadecimal.
pub fn fingerprint(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        // Writing into a String cannot fail.
        let _infallible = write!(hex, "{byte:02x}");
    }
    hex
}

/// Reads a file that others may have put there: a regular file of ours or of root, not a symbolic
/// link, of bounded length. Never waits, not even for a FIFO.
pub(super) fn read_checked(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(rustix::io::Errno::LOOP) => return Err(io::Error::other("it is a symbolic link")),
        Err(error) => return Err(error.into()),
    };
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if !is_ours(meta.uid()) {
        return Err(io::Error::other(format!("it belongs to user {}", meta.uid())));
    }
    read_bounded(file)
}

/// Reads a file of bounded length.
pub(super) fn read_bounded(file: File) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.take(LONGEST_FILE + 1).read_to_end(&mut content)?;
    if content.len() as u64 > LONGEST_FILE { Err(io::Error::other("it is longer than 1 MiB")) } else { Ok(content) }
}

/// Returns the path with its directory resolved; the file itself stays as it is named, for it must
/// not be a symbolic link.
pub(super) fn absolute(file: &Path) -> io::Result<PathBuf> {
    let Some(name) = file.file_name() else {
        return Err(about(file, &io::Error::other("it is not a file")));
    };
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(fs::canonicalize(dir).map_err(|error| about(dir, &error))?.join(name))
}

fn is_ours(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", shown_path(path)))
}

/// What `trusted.json` holds.
#[derive(Debug, Serialize, Deserialize)]
struct Ledger {
    schema_version: u32,
    trusted: Vec<Trusted>,
}

/// What every version of `trusted.json` holds.
#[derive(Deserialize)]
struct Version {
    schema_version: u32,
}

impl Ledger {
    fn read(state_dir: &Path) -> io::Result<Self> {
        let path = state_dir.join(LEDGER);
        let content = match read_checked(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { schema_version: SCHEMA_VERSION, trusted: Vec::new() });
            }
            content => content.map_err(|error| about(&path, &error))?,
        };
        let read = |content: &[u8]| {
            let version: Version = serde_json::from_slice(content)?;
            if version.schema_version != SCHEMA_VERSION {
                let why =
                    format!("it has schema version {}, this program knows {SCHEMA_VERSION}", version.schema_version);
                return Err(io::Error::other(why));
            }
            Ok(serde_json::from_slice(content)?)
        };
        read(&content).map_err(|error| about(&path, &error))
    }

    /// Replaces the ledger on disk: a reader, now or after a crash, finds the old one or this one.
    fn write(&self, state_dir: &Path) -> io::Result<()> {
        let temporary = state_dir.join(".trusted.json.new");
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(about(&temporary, &error)),
            Ok(()) | Err(_) => {}
        }
        let mut file = create_private(&temporary, OFlags::EXCL)?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&temporary, state_dir.join(LEDGER))?;
        File::open(state_dir)?.sync_all()
    }
}

fn record(entry: Trusted, state_dir: &Path) -> io::Result<Trusted> {
    if entry.path.to_str().is_none() {
        return Err(about(&entry.path, &io::Error::other("its path is not valid UTF-8, so it cannot be recorded")));
    }
    if !state_dir.is_dir() {
        private_dir(state_dir)?;
    }
    // Held until the function returns: two managers that trust at once both succeed.
    let lock = create_private(&state_dir.join("trusted.lock"), OFlags::empty())?;
    rustix::io::retry_on_intr(|| rustix::fs::flock(&lock, FlockOperation::LockExclusive))?;
    let mut ledger = Ledger::read(state_dir)?;
    ledger.trusted.retain(|other| other.path != entry.path);
    ledger.trusted.push(entry.clone());
    ledger.write(state_dir)?;
    Ok(entry)
}

/// Opens a file of mode 0600 for writing, whatever the umask.
fn create_private(path: &Path, extra: OFlags) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | extra;
    let mode = Mode::RUSR | Mode::WUSR;
    let file = File::from(rustix::fs::open(path, flags, mode).map_err(|error| about(path, &error.into()))?);
    rustix::fs::fchmod(&file, mode)?;
    Ok(file)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn trust(file: &Path, state_dir: &Path) -> io::Result<Trusted> {
        super::trust(file, state_dir, |_, _| Ok(()))
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn the_fingerprint_is_sha256() {
        assert_eq!(fingerprint(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn trust_is_a_path_and_a_content() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("a/state");
        let (file, other) = (dir.path().join("cookbook.toml"), dir.path().join("other.toml"));
        fs::write(&file, "one").unwrap();
        fs::write(&other, "one").unwrap();
        assert!(!is_trusted(&file, &fingerprint(b"one"), &state).unwrap(), "no state directory yet");

        let trusted = trust(&file, &state).unwrap();
        assert_eq!(trusted.sha256, fingerprint(b"one"));
        assert!(is_trusted(&trusted.path, &trusted.sha256, &state).unwrap());
        assert!(!is_trusted(&trusted.path, &fingerprint(b"two"), &state).unwrap());
        assert!(!is_trusted(&other, &trusted.sha256, &state).unwrap());

        fs::write(&file, "two").unwrap();
        trust(&other, &state).unwrap();
        trust(&file, &state).unwrap();
        assert!(!is_trusted(&trusted.path, &trusted.sha256, &state).unwrap(), "the earlier trust has ended");
        assert!(is_trusted(&trusted.path, &fingerprint(b"two"), &state).unwrap());
        assert_eq!(Ledger::read(&state).unwrap().trusted.len(), 2);
    }

    #[test]
    fn the_ledger_is_private_and_whole() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let file = dir.path().join("cookbook.toml");
        fs::write(&file, "x").unwrap();
        trust(&file, &state).unwrap();
        assert_eq!((mode(&state), mode(&state.join(LEDGER))), (0o700, 0o600));

        // What a crash left behind is no obstacle, and a planted link is not followed.
        let victim = dir.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, state.join(".trusted.json.new")).unwrap();
        trust(&file, &state).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(mode(&state.join(LEDGER)), 0o600);
        let names = fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
        assert_eq!(names.len(), 2, "{names:?}: the ledger and its lock");
    }

    #[test]
    fn what_cannot_be_written_keeps_the_old_ledger() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("cookbook.toml");
        fs::write(&file, "one").unwrap();
        trust(&file, dir.path()).unwrap();
        let before = fs::read(dir.path().join(LEDGER)).unwrap();
        fs::create_dir(dir.path().join(".trusted.json.new")).unwrap();
        fs::write(&file, "two").unwrap();
        trust(&file, dir.path()).unwrap_err();
        assert_eq!(fs::read(dir.path().join(LEDGER)).unwrap(), before);
    }

    #[test]
    fn writers_do_not_lose_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let (dir, state) = (dir.path(), &state);
                scope.spawn(move || {
                    for number in 0..30 {
                        let file = dir.join(format!("{writer}-{number}"));
                        fs::write(&file, "x").unwrap();
                        trust(&file, state).unwrap();
                    }
                });
            }
        });
        assert_eq!(Ledger::read(&state).unwrap().trusted.len(), 60);
    }
}
