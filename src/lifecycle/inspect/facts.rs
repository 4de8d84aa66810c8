//! The facts of one process and a snapshot of many. Pure data and pure parsing.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::lifecycle::identity::Pid;

/// When a process started, as the inspector counts it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Start {
    /// Field 22 of `proc_pid_stat(5)`: clock ticks since boot.
    Ticks(u64),
    /// The `lstart` column of ps(1), single-spaced.
    Lstart(String),
}

impl Start {
    /// Tells whether it is later than another, as far as that can be told: not by the text of ps(1).
    const fn is_after(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Ticks(this), Self::Ticks(other)) => *this > *other,
            (Self::Ticks(_) | Self::Lstart(_), _) => false,
        }
    }
}

/// What is known of one process at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Process id.
    pub pid: Pid,
    /// Parent's pid; 0 where the parent is outside the pid namespace.
    pub ppid: i32,
    /// Process group.
    pub pgid: i32,
    /// Kernel session.
    pub sid: i32,
    /// When it started.
    pub start: Start,
    /// State letter of `proc_pid_stat(5)`.
    pub state: char,
    /// Number of threads.
    pub threads: u32,
    /// Name of the main thread, at most 15 bytes; not necessarily UTF-8.
    pub comm: Vec<u8>,
    /// User and system time used so far, in clock ticks; `None` where it is not known.
    pub cpu_ticks: Option<u64>,
    /// Resident memory in bytes; `None` where it is not known.
    pub rss_bytes: Option<u64>,
    /// It was seen at a later tick than its start: no other process can have its pid and start.
    pub settled: bool,
}

impl Facts {
    /// Tells whether the process has ended and only waits to be reaped. A zombie leader with live
    /// threads has not ended.
    pub const fn ended(&self) -> bool {
        matches!(self.state, 'X' | 'x') || (self.state == 'Z' && self.threads <= 1)
    }
}

/// A process whose facts could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Which one.
    pub pid: Pid,
    /// Why not, in words.
    pub reason: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.pid, self.reason)
    }
}

/// A set of processes, read within a short time.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    processes: HashMap<Pid, Facts>,
    /// Processes that exist but could not be read.
    pub unreadable: Vec<Unreadable>,
    /// It holds every process of the host that we may see.
    pub full: bool,
}

impl Snapshot {
    /// Returns a snapshot of these processes.
    pub fn new(processes: impl IntoIterator<Item = Facts>, unreadable: Vec<Unreadable>, full: bool) -> Self {
        Self { processes: processes.into_iter().map(|facts| (facts.pid, facts)).collect(), unreadable, full }
    }

    /// Returns the facts of one process.
    pub fn of(&self, pid: Pid) -> Option<&Facts> {
        self.processes.get(&pid)
    }

    /// Returns all processes in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Facts> {
        self.processes.values()
    }

    /// Returns the number of processes.
    pub fn len(&self) -> usize {
        self.processes.len()
    }

    /// Tells whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// Returns the children of every parent.
    pub fn children(&self) -> BTreeMap<i32, Vec<Pid>> {
        let mut children = BTreeMap::<i32, Vec<Pid>>::new();
        for facts in self.iter() {
            children.entry(facts.ppid).or_default().push(facts.pid);
        }
        children
    }

    /// Returns the pids of all ancestors of `pid`, nearest first.
    pub fn ancestors(&self, pid: Pid) -> Vec<Pid> {
        let mut found = Vec::new();
        let mut next = self.of(pid).and_then(|facts| Pid::new(facts.ppid));
        while let Some(parent) = next.filter(|parent| !found.contains(parent)) {
            found.push(parent);
            next = self.of(parent).and_then(|facts| Pid::new(facts.ppid));
        }
        found
    }

    /// Returns a process and its ancestors, nearest first. A parent that is younger than its child has the number of
    /// one that has left: there the line ends.
    pub fn lineage(&self, pid: Pid) -> Vec<Facts> {
        let above = self.ancestors(pid);
        let mut line: Vec<Facts> = self.of(pid).cloned().into_iter().collect();
        for parent in above.into_iter().map_while(|parent| self.of(parent)) {
            if line.last().is_some_and(|child| parent.start.is_after(&child.start)) {
                break;
            }
            line.push(parent.clone());
        }
        line
    }
}

/// How ticks and pages of this host translate, and what time it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// Clock ticks since boot, now.
    pub(super) now_ticks: u64,
    /// Bytes in a page.
    pub(super) page: u64,
}

/// Parses the content of `/proc/<pid>/stat` (`proc_pid_stat(5)`).
///
/// The name of the process stands in parentheses and may itself hold parentheses, spaces and
/// newlines, so everything after the *last* `)` counts.
pub(super) fn parse_stat(pid: Pid, text: &[u8], scale: Scale) -> Option<Facts> {
    let open = text.iter().position(|&b| b == b'(')?;
    let close = text.iter().rposition(|&b| b == b')')?;
    let comm = text.get(open + 1..close)?.to_vec();
    let mut fields = text.get(close + 1..)?.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let state = char::from(*fields.next()?.first()?);
    let mut index = 3;
    let mut numbers = [0_i64; 25];
    for field in fields {
        index += 1;
        let Some(slot) = numbers.get_mut(index) else { break };
        *slot = number(field)?;
    }
    if index < 24 {
        return None;
    }
    let unsigned = |i: usize| u64::try_from(numbers[i]).ok();
    let ticks = unsigned(22)?;
    Some(Facts {
        pid,
        ppid: i32::try_from(numbers[4]).ok()?,
        pgid: i32::try_from(numbers[5]).ok()?,
        sid: i32::try_from(numbers[6]).ok()?,
        start: Start::Ticks(ticks),
        state,
        threads: u32::try_from(numbers[20]).ok()?,
        comm,
        cpu_ticks: Some(unsigned(14)?.saturating_add(unsigned(15)?)),
        rss_bytes: unsigned(24).map(|pages| pages.saturating_mul(scale.page)),
        settled: scale.now_ticks > ticks,
    })
}

/// Parses a decimal number; one that does not fit in `i64` (an address, a limit) is capped.
fn number(field: &[u8]) -> Option<i64> {
    let (negative, digits) = match field.split_first()? {
        (b'-', rest) => (true, rest),
        (_, _) => (false, field),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0_i64;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value.saturating_mul(10).saturating_add(i64::from(digit - b'0'));
    }
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::text::noise::{cases, damaged};

    use super::*;

    const SCALE: Scale = Scale { now_ticks: 1000, page: 4096 };

    fn stat(comm: &[u8], start: &str) -> Vec<u8> {
        let mut text = b"42 (".to_vec();
        text.extend(comm);
        text.extend(
            format!(
                ") S 7 8 9 34816 42 4194304 1 2 3 4 50 60 7 8 20 0 3 0 {start} 1000 25 18446744073709551615 1 1 0\n"
            )
            .bytes(),
        );
        text
    }

    fn pid(raw: i32) -> Pid {
        Pid::new(raw).expect("positive")
    }

    #[test]
    fn a_name_cannot_forge_fields() {
        for comm in [&b"sh"[..], b") S 1 (", b")\n S 1 1 1 (x", b"\xff\xfe)", b"", b"((", b"))"] {
            let facts = parse_stat(pid(42), &stat(comm, "999"), SCALE).expect("parses");
            assert_eq!(facts.comm, comm);
            assert_eq!((facts.ppid, facts.pgid, facts.sid, facts.state), (7, 8, 9, 'S'));
            assert_eq!((facts.threads, facts.cpu_ticks, facts.rss_bytes), (3, Some(110), Some(25 * 4096)));
            assert_eq!(facts.start, Start::Ticks(999));
        }
    }

    #[test]
    fn a_start_in_the_current_tick_is_not_settled() {
        for (start, settled) in [("999", true), ("1000", false), ("1001", false)] {
            assert_eq!(parse_stat(pid(42), &stat(b"sh", start), SCALE).expect("parses").settled, settled);
        }
    }

    #[test]
    fn halves_are_not_facts() {
        let whole = stat(b"sh", "999");
        let end = whole.iter().rposition(|&b| b == b'2').expect("digit");
        for cut in [0, 1, 5, 20, 40] {
            assert_eq!(parse_stat(pid(42), &whole[..cut], SCALE), None, "{cut}");
        }
        assert!(end > 40);
        assert_eq!(parse_stat(pid(42), b"42 (sh) S x 8 9", SCALE), None);
    }

    #[test]
    fn a_zombie_leader_with_threads_has_not_ended() {
        let mut facts = parse_stat(pid(42), &stat(b"sh", "999"), SCALE).expect("parses");
        facts.state = 'Z';
        assert!(!facts.ended());
        facts.threads = 1;
        assert!(facts.ended());
    }

    #[test]
    fn ancestors_end_at_a_circle() {
        let mut a = parse_stat(pid(42), &stat(b"a", "1"), SCALE).expect("parses");
        a.ppid = 43;
        let mut b = a.clone();
        (b.pid, b.ppid) = (pid(43), 42);
        let snapshot = Snapshot::new([a, b], Vec::new(), true);
        assert_eq!(snapshot.ancestors(pid(42)), [pid(43), pid(42)]);
    }

    /// A number that was reused is nobody's parent.
    #[test]
    fn a_lineage_ends_at_a_parent_that_is_younger() {
        let of = |raw, ppid, start: &str| {
            let mut facts = parse_stat(pid(raw), &stat(b"x", start), SCALE).expect("parses");
            facts.ppid = ppid;
            facts
        };
        let line = |reused: &str| -> Vec<i32> {
            let all = [of(44, 43, "30"), of(43, 42, "20"), of(42, 41, reused), of(41, 0, "1"), of(45, 43, "40")];
            Snapshot::new(all, Vec::new(), true).lineage(pid(44)).iter().map(|facts| facts.pid.raw()).collect()
        };
        assert_eq!(line("20"), [44, 43, 42, 41]);
        assert_eq!(line("21"), [44, 43]);
        assert!(Snapshot::default().lineage(pid(44)).is_empty());
    }

    proptest! {
        #![proptest_config(cases(400))]

        #[test]
        fn any_stat_is_facts_or_none(
            name in proptest::collection::vec(any::<u8>(), 0..16),
            bytes in damaged(stat(b"sh) S 1 (", "999")),
        ) {
            let facts = parse_stat(pid(42), &stat(&name, "999"), SCALE).expect("parses");
            prop_assert_eq!((&facts.comm, facts.ppid, &facts.start), (&name, 7, &Start::Ticks(999)));
            if let Some(facts) = parse_stat(pid(42), &bytes, SCALE) {
                prop_assert_eq!(facts.pid, pid(42));
                prop_assert!(facts.comm.len() <= bytes.len());
            }
        }

        #[test]
        fn noise_is_no_facts(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(parse_stat(pid(42), &bytes, SCALE), None);
        }
    }
}
