//! The journal of receipts: what every stop, sweep and reap observed, by managers and wardens alike.
//!
//! One JSON line for each, appended and synced before the record of its session may go. Two files are kept, so
//! that it is bounded. A line that a crash tore is skipped and counted, never an error.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::clock::wall_seconds;
use super::failpoint::{Point, around};
use super::receipt::{OutcomeKind, Receipt};
use super::regular;
use super::store::{lock_file, sync_dir};

/// Size in bytes at which a file is turned over; one older file is kept beside it.
const SIZE_MAX: u64 = 4 << 20;
/// How long another writer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Who ended something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// A manager.
    Manager,
    /// The warden of the session.
    Warden,
}

/// What it was ended by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Act {
    /// Somebody stopped it, or its host, its owner or its ceiling did.
    Stop,
    /// Somebody swept what was left.
    Sweep,
    /// The sweep of the records found it.
    Reap,
    /// A failed run was emptied before the next one.
    Restart,
}

impl Act {
    /// Returns the word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Sweep => "sweep",
            Self::Reap => "reap",
            Self::Restart => "restart",
        }
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Seconds since the Unix epoch.
    pub at: u64,
    /// Who.
    pub by: By,
    /// What.
    pub act: Act,
    /// What was observed.
    pub receipt: Receipt,
}

impl Entry {
    /// Returns what is to be written of a receipt of this moment.
    pub fn now(by: By, act: Act, receipt: Receipt) -> Self {
        Self { at: wall_seconds(), by, act, receipt }
    }
}

/// Lines that were read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Entries {
    /// The oldest first.
    pub receipts: Vec<Entry>,
    /// Lines that could not be read.
    pub skipped: usize,
    /// Sums over what was read.
    pub totals: Totals,
}

/// Sums over receipts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Receipts.
    pub receipts: usize,
    /// Of those, the ones after which everything was observed dead.
    pub dead: usize,
    /// Of those, the ones that needed KILL.
    pub escalated: usize,
    /// Signals sent.
    pub signals: usize,
    /// Processes observed dead after their capture.
    pub exited: usize,
    /// Processes that lived on.
    pub survivors: usize,
    /// Processes that could not be identified.
    pub unverified: usize,
    /// Processes that had to be refused.
    pub refused: usize,
    /// Processes left alive on purpose.
    pub kept: usize,
}

impl Totals {
    fn add(&mut self, receipt: &Receipt) {
        self.receipts += 1;
        self.dead += usize::from(receipt.dead == Some(true) && receipt.still_held.is_empty());
        self.escalated += usize::from(receipt.escalated);
        self.signals += receipt.signals.len();
        self.exited += receipt.outcomes.iter().filter(|row| row.outcome == OutcomeKind::Exited).count();
        self.survivors += receipt.survivors.len();
        self.unverified += receipt.unverified.len();
        self.refused += receipt.refused.len();
        self.kept += receipt.kept.len();
    }
}

/// The journal of a state directory.
#[derive(Clone, Debug)]
pub struct Journal {
    path: PathBuf,
}

impl Journal {
    /// Returns the journal of this state directory.
    pub fn of(state_dir: &Path) -> Self {
        Self { path: state_dir.join("receipts.jsonl") }
    }

    /// Appends a receipt; it is on disk when this returns.
    ///
    /// # Errors
    /// When the disk refuses, or another writer takes too long. What was there before is whole.
    pub fn append(&self, by: By, act: Act, receipt: &Receipt) -> io::Result<()> {
        self.write(&Entry::now(by, act, receipt.clone()))
    }

    /// Appends an entry that was made before.
    ///
    /// # Errors
    /// As for [`Self::append`].
    pub fn write(&self, entry: &Entry) -> io::Result<()> {
        self.append_entry(entry, SIZE_MAX)
    }

    /// Tells whether a receipt is in it, as far as it can be read.
    pub fn holds(&self, receipt: &Receipt) -> bool {
        let of_session = self.read(Some(&receipt.session), None);
        of_session.is_ok_and(|entries| entries.receipts.iter().any(|entry| entry.receipt == *receipt))
    }

    fn append_entry(&self, entry: &Entry, size_max: u64) -> io::Result<()> {
        let _lock = lock_file(&self.path.with_extension("lock"), PATIENCE)?;
        let mut line = serde_json::to_vec(entry).map_err(io::Error::other)?;
        line.push(b'\n');
        let mut file = regular::private(OpenOptions::new().create(true).read(true).append(true), &self.path)?;
        let before = file.metadata()?.len();
        if is_torn(&mut file, before)? {
            line.insert(0, b'\n');
        }
        let written = around(Point::Append, || file.write_all(&line).and_then(|()| file.sync_all()));
        if let Err(error) = written {
            // Half a line is no line. Where even this fails, a reader skips it.
            file.set_len(before).ok();
            return Err(error);
        }
        let directory = self.path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        if before + line.len() as u64 >= size_max {
            fs::rename(&self.path, self.older())?;
        }
        if before == 0 || before + line.len() as u64 >= size_max {
            sync_dir(directory)?;
        }
        Ok(())
    }

    /// Reads what is there, of one session or of all, the newest `tail` of it; the totals speak of what was read.
    ///
    /// # Errors
    /// When a file exists and cannot be read.
    pub fn read(&self, session: Option<&str>, tail: Option<usize>) -> io::Result<Entries> {
        let mut entries = Entries::default();
        for path in [self.older(), self.path.clone()] {
            let bytes = match regular::read(&path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                match serde_json::from_slice::<Entry>(line) {
                    Ok(entry) if session.is_none_or(|session| entry.receipt.session == session) => {
                        entries.receipts.push(entry);
                    }
                    Ok(_) => {}
                    Err(_) => entries.skipped += 1,
                }
            }
        }
        let surplus = tail.map_or(0, |tail| entries.receipts.len().saturating_sub(tail));
        entries.receipts.drain(..surplus);
        for entry in &entries.receipts {
            entries.totals.add(&entry.receipt);
        }
        Ok(entries)
    }

    fn older(&self) -> PathBuf {
        self.path.with_extension("1.jsonl")
    }
}

/// Tells whether the file ends in the middle of a line.
fn is_torn(file: &mut File, length: u64) -> io::Result<bool> {
    if length == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::Start(length - 1))?;
    let mut last = [0_u8];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn receipt(session: &str) -> Receipt {
        Receipt { session: session.into(), dead: Some(true), host_closed: true, ..Receipt::default() }
    }

    fn journal() -> (tempfile::TempDir, Journal) {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::of(folder.path());
        (folder, journal)
    }

    #[test]
    fn what_is_appended_is_read_in_order() {
        let (_folder, journal) = journal();
        assert_eq!(journal.read(None, None).unwrap(), Entries::default());
        for session in ["a", "b", "a"] {
            journal.append(By::Manager, Act::Stop, &receipt(session)).unwrap();
        }
        let sessions = |entries: Entries| entries.receipts.into_iter().map(|e| e.receipt.session).collect::<Vec<_>>();
        assert_eq!(sessions(journal.read(None, None).unwrap()), ["a", "b", "a"]);
        assert_eq!(sessions(journal.read(None, Some(2)).unwrap()), ["b", "a"]);
        let of_a = journal.read(Some("a"), None).unwrap();
        assert_eq!((of_a.totals.receipts, of_a.totals.dead, of_a.skipped), (2, 2, 0));
        assert!(journal.holds(&receipt("a")) && !journal.holds(&receipt("c")));
        assert!(!journal.holds(&Receipt { dead: None, ..receipt("a") }), "another receipt of the session");
        assert_eq!(fs::metadata(&journal.path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    /// The record of a session goes after its receipt was appended.
    #[test]
    fn what_was_appended_is_on_disk() {
        use super::super::store::{traced, traced_line};
        if let Some(folder) = std::env::var_os("TRACED_IN") {
            return Journal::of(Path::new(&folder)).append(By::Warden, Act::Stop, &receipt("traced-session")).unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let name = "lifecycle::journal::tests::what_was_appended_is_on_disk";
        let Some(trace) = traced(name, folder.path()) else { return };
        let written = traced_line(&trace, &["write(", "/receipts.jsonl>"]);
        let synced = traced_line(&trace, &["sync(", "/receipts.jsonl>"]);
        let directory = traced_line(&trace, &["sync(", &format!("<{}>", folder.path().display())]);
        assert!(written < synced && synced < directory, "{trace}");
    }

    /// A crash may leave any beginning of the last line.
    #[test]
    fn a_torn_line_costs_nothing_but_itself() {
        let (_folder, journal) = journal();
        journal.append(By::Warden, Act::Stop, &receipt("a")).unwrap();
        let whole = fs::read(&journal.path).unwrap();
        for cut in 1..whole.len() {
            fs::write(&journal.path, [&whole[..], &whole[..cut]].concat()).unwrap();
            let read = journal.read(None, None).unwrap();
            // Without its newline a line is as good as whole.
            let torn = usize::from(cut < whole.len() - 1);
            assert_eq!((read.receipts.len(), read.skipped), (2 - torn, torn), "{cut}");
            journal.append(By::Manager, Act::Reap, &receipt("b")).unwrap();
            let read = journal.read(Some("b"), None).unwrap();
            assert_eq!((read.receipts.len(), read.skipped), (1, torn), "{cut}");
        }
    }

    #[test]
    fn it_is_bounded() {
        let (folder, journal) = journal();
        let entry = |n: u64| Entry { at: n, by: By::Manager, act: Act::Sweep, receipt: receipt("a") };
        for n in 0..500 {
            journal.append_entry(&entry(n), 4096).unwrap();
        }
        let size: u64 = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
        assert!(size < 3 * 4096, "{size}");
        let read = journal.read(None, None).unwrap();
        let numbers: Vec<u64> = read.receipts.iter().map(|entry| entry.at).collect();
        assert_eq!(numbers.last(), Some(&499));
        assert!(numbers.len() > 4 && numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
    }

    #[test]
    fn writers_do_not_tear_each_others_lines() {
        let (_folder, journal) = journal();
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let journal = &journal;
                scope.spawn(move || {
                    for _ in 0..10 {
                        journal.append(By::Warden, Act::Stop, &receipt(&writer.to_string())).unwrap();
                    }
                });
            }
        });
        let read = journal.read(None, None).unwrap();
        assert_eq!((read.receipts.len(), read.skipped), (80, 0));
    }
}
