//! Places at which a test ends this program, to show that what is on disk and what runs is enough to go on.
//!
//! Built with the feature `failpoints` only, which a release build refuses; without it every point is nothing.
//! `COOKBOOK_TUI_FAILPOINT=before-rename:2` ends the program when it comes to that point for the second time, and
//! `before-rename:2:FILE` leaves a word in a file first, for whoever cannot wait for it. The stages of its sessions
//! have points of their own: `COOKBOOK_TUI_WARDEN_FAILPOINT` and, in tmux, `COOKBOOK_TUI_FRONT_FAILPOINT` and
//! `COOKBOOK_TUI_USHER_FAILPOINT`.

use std::ffi::OsString;

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

/// The stages of a launch that have points of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The root of a pane.
    Front,
    /// The warden.
    Warden,
    /// Whoever starts later runs in a pane.
    Usher,
}

/// Returns what the environment of a stage is to hold beside everything else: its own point, and those of the
/// stages that it starts.
#[cfg(feature = "failpoints")]
pub fn environment(stage: Stage) -> Vec<(OsString, OsString)> {
    let named = |stage| format!("COOKBOOK_TUI_{}_FAILPOINT", format!("{stage:?}").to_uppercase());
    let stages = [Stage::Front, Stage::Warden, Stage::Usher];
    let wanted = stages.into_iter().map(named).filter_map(|name| Some((name.clone().into(), std::env::var_os(name)?)));
    // Whoever has none must not have its starter's.
    let own = std::env::var_os(named(stage)).unwrap_or_default();
    wanted.chain([("COOKBOOK_TUI_FAILPOINT".into(), own)]).collect()
}

/// Returns nothing: there are no points.
#[cfg(not(feature = "failpoints"))]
pub const fn environment(_stage: Stage) -> Vec<(OsString, OsString)> {
    Vec::new()
}

/// Returns the command of a pane with the points of its stages: a pane has nothing of our environment.
pub fn in_a_pane(command: Vec<OsString>) -> Vec<OsString> {
    let set = environment(Stage::Front).into_iter().map(|(name, value)| {
        let mut word = name;
        word.push("=");
        word.push(value);
        word
    });
    let set: Vec<OsString> = set.collect();
    if set.is_empty() { command } else { [vec!["env".into()], set, command].concat() }
}

#[cfg(not(feature = "failpoints"))]
const fn hit(_side: &str, _point: Point) {}

#[cfg(feature = "failpoints")]
fn hit(side: &str, point: Point) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};
    static WANTED: OnceLock<Option<(String, u32, Option<String>)>> = OnceLock::new();
    static HITS: AtomicU32 = AtomicU32::new(0);
    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var("COOKBOOK_TUI_FAILPOINT").ok()?;
        let mut words = text.splitn(3, ':');
        let (name, number) = (words.next()?.to_owned(), words.next()?.parse().ok()?);
        Some((name, number, words.next().map(str::to_owned)))
    });
    let Some((name, number, file)) = wanted else { return };
    let here = format!("{side}-{point:?}").to_lowercase();
    if *name == here && HITS.fetch_add(1, Ordering::SeqCst) + 1 == *number {
        if let Some(file) = file {
            std::fs::write(file, here).ok();
        }
        // No destructor runs, and no buffer is flushed: as if it was killed.
        std::process::abort();
    }
}
