//! Places at which a test ends this program, to show that what is on disk and what runs is enough to go on.
//!
//! Built with the feature `failpoints` only, which a release build refuses; without it every point is nothing.
//! `COOKBOOK_TUI_FAILPOINT=before-rename:2` ends the program when it comes to that point for the second time;
//! `COOKBOOK_TUI_WARDEN_FAILPOINT` does the same to the wardens of its PTY sessions.

#[cfg(all(feature = "failpoints", not(debug_assertions)))]
compile_error!("failpoints are for tests: they do not belong into a release build");

/// What the points are around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Writing a new file beside the one that it replaces.
    Write,
    /// Syncing that file.
    Fsync,
    /// Putting it in the place of the old one.
    Rename,
    /// Syncing the directory.
    Dirsync,
    /// Removing a record.
    Unlink,
    /// Appending to the journal.
    Append,
    /// Starting a child.
    Spawn,
    /// Sending a signal.
    Signal,
}

/// Does something between its two points.
pub fn around<T>(point: Point, act: impl FnOnce() -> T) -> T {
    hit("before", point);
    let done = act();
    hit("after", point);
    done
}

/// Returns what the environment of a warden is to hold for its own points.
#[cfg(feature = "failpoints")]
pub fn for_a_warden() -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    let wanted = std::env::var_os("COOKBOOK_TUI_WARDEN_FAILPOINT");
    wanted.into_iter().map(|point| ("COOKBOOK_TUI_FAILPOINT".into(), point)).collect()
}

/// Returns nothing: there are no points.
#[cfg(not(feature = "failpoints"))]
pub const fn for_a_warden() -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    Vec::new()
}

#[cfg(not(feature = "failpoints"))]
const fn hit(_side: &str, _point: Point) {}

#[cfg(feature = "failpoints")]
fn hit(side: &str, point: Point) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};
    static WANTED: OnceLock<Option<(String, u32)>> = OnceLock::new();
    static HITS: AtomicU32 = AtomicU32::new(0);
    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var("COOKBOOK_TUI_FAILPOINT").ok()?;
        let (name, number) = text.split_once(':')?;
        Some((name.to_owned(), number.parse().ok()?))
    });
    let Some((name, number)) = wanted else { return };
    let here = format!("{side}-{point:?}").to_lowercase();
    if *name == here && HITS.fetch_add(1, Ordering::SeqCst) + 1 == *number {
        // No destructor runs, and no buffer is flushed: as if it was killed.
        std::process::abort();
    }
}
