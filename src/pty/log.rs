//! The log of a session: what it printed, byte for byte, in a file that is turned over before it grows
//! without bounds.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::screen::{HistoryLimit, Screen, Size};
use crate::lifecycle::regular;

/// Largest size of one file in bytes; one older file is kept beside it.
const SIZE_MAX: u64 = 32 << 20;

/// An open log, mode 0600. A disk that refuses costs the log, never the session.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: Option<File>,
    size: u64,
}

impl Log {
    /// Opens a log for appending.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = regular::append(path)?;
        let size = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file: Some(file), size })
    }

    /// Appends what was printed.
    pub fn append(&mut self, bytes: &[u8]) {
        let Some(file) = self.file.as_mut() else { return };
        if file.write_all(bytes).is_err() {
            self.file = None;
            return;
        }
        self.size += bytes.len() as u64;
        if self.size > SIZE_MAX {
            self.turn_over();
        }
    }

    fn turn_over(&mut self) {
        fs::rename(&self.path, older(&self.path)).ok();
        self.file = regular::append(&self.path).ok();
        self.size = 0;
    }
}

/// Returns where the older half of a log is.
pub fn older(path: &Path) -> PathBuf {
    path.with_extension("log.1")
}

/// Reads a log with its older half.
///
/// # Errors
/// When it exists and cannot be read; a log that does not exist is empty.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for part in [older(path), path.to_owned()] {
        match regular::read(&part) {
            Ok(part) => bytes.extend(part),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

/// How much of the end of a log is painted, in bytes.
const PAINTED: usize = 1 << 20;

/// Paints what a log says last, on a screen of a usual size: how large its own was is not in it.
///
/// # Errors
/// As for [`read`].
pub fn painted(path: &Path) -> io::Result<Screen> {
    let bytes = read(path)?;
    let mut screen = Screen::new(Size::clamped(24, 80), HistoryLimit::default());
    screen.process(&bytes[bytes.len().saturating_sub(PAINTED)..]);
    Ok(screen)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_turned_over_and_read_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve-00000000.log");
        assert_eq!(read(&path).unwrap(), b"");
        let mut log = Log::open(&path).unwrap();
        log.append(b"first ");
        log.size = SIZE_MAX;
        log.append(b"second ");
        log.append(b"third");
        assert_eq!(fs::read(&path).unwrap(), b"third");
        assert_eq!(read(&path).unwrap(), b"first second third");
    }
}
