//! The harness's own ledger of a workload: each process of it writes one line before it does anything else.
//!
//! Only text is looked at here.

/// Who wrote a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) role: String,
    pub(crate) pid: i32,
    /// Ticks since the boot at which it started, as in `/proc/<pid>/stat`.
    pub(crate) start: u64,
}

/// Reads `role pid start` lines; the last one may not be whole yet.
pub(crate) fn entries(text: &str) -> Vec<Entry> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let entry = |line: &str| {
        let mut words = line.split(' ');
        let role = words.next()?.to_owned();
        let (pid, start) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        (words.next().is_none() && pid > 1).then_some(Entry { role, pid, start })
    };
    whole.lines().filter_map(entry).collect()
}

/// Returns the parent and the start of a process from its `/proc/<pid>/stat`; its name may hold anything.
pub(crate) fn stat(text: &str) -> Option<(i32, u64)> {
    let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_whitespace().collect();
    Some((fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?))
}
