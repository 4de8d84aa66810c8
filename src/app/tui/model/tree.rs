//! The process tree of the selected session, as lines. Pure.
//!
//! A process that has gone stays for a moment, dim, so that one sees what went; only an event that
//! says so makes it `gone`, never its mere absence from a tree.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::super::glyph;
use crate::app::contract::Tree;
use crate::lifecycle::identity::Pid;
use crate::lifecycle::receipt::{Bystander, ProcessRow};
use crate::lifecycle::verdict::VerdictKind;

/// How long a process that has gone stays on the screen.
const LINGER: Duration = Duration::from_secs(4);
/// How long a process that has come is called new.
const NEW: Duration = Duration::from_secs(3);
/// Deepest indentation; deeper rows are drawn at this depth.
const DEEPEST: usize = 12;

/// The processes of one session.
#[derive(Debug, Default)]
pub struct TreeState {
    /// Whose.
    pub session: Option<String>,
    /// As they were last seen; `None` until somebody looked.
    pub tree: Option<Tree>,
    /// The process that is selected.
    pub cursor: Option<Pid>,
    /// First line that is shown.
    pub top: usize,
    /// A process has, or had, GPU memory: a column that was there stays.
    pub has_gpu: bool,
    /// Processes that an event called gone.
    gone: Vec<(ProcessRow, Instant)>,
    /// Processes that have come since the first look.
    new: Vec<(ProcessRow, Instant)>,
    /// Rows that the last tree no longer had: an event may say about them that they are gone.
    dropped: Vec<ProcessRow>,
}

/// One line of the tree.
#[derive(Clone, Debug, PartialEq)]
pub enum TreeLine<'a> {
    /// A member; `guides` draws its place in the tree.
    Process {
        /// The process.
        row: &'a ProcessRow,
        /// A glyph and a space for each level.
        guides: String,
    },
    /// A front or warden of ours.
    Supervisor(&'a ProcessRow),
    /// A process that is reported only.
    Bystander {
        /// `lookalike` or `escapee`.
        what: &'static str,
        /// The process.
        row: &'a Bystander,
    },
}

impl TreeLine<'_> {
    /// Returns the pid.
    pub fn pid(&self) -> Pid {
        match self {
            Self::Process { row, .. } | Self::Supervisor(row) => row.pid,
            Self::Bystander { row, .. } => row.pid,
        }
    }
}

impl TreeState {
    /// Forgets everything but the columns, and turns to another session.
    pub(in super::super) fn turn_to(&mut self, session: Option<&str>) {
        if self.session.as_deref() != session {
            *self = Self { session: session.map(str::to_owned), has_gpu: self.has_gpu, ..Self::default() };
        }
    }

    /// Takes in a tree of the session.
    pub(in super::super) fn replace(&mut self, tree: Tree, now: Instant) {
        if let Some(before) = self.tree.take() {
            let known = |row: &ProcessRow| before.processes.iter().chain(&self.dropped).any(|other| same(other, row));
            let came = tree.processes.iter().filter(|row| row.verdict != VerdictKind::Gone && !known(row));
            self.new.extend(came.map(|row| (row.clone(), now)));
            let left = |row: &ProcessRow| !tree.processes.iter().any(|now| same(now, row));
            self.dropped = before.processes.into_iter().filter(left).collect();
        }
        self.gone.retain(|(row, _)| !tree.processes.iter().any(|now| same(now, row)));
        self.has_gpu |= tree.processes.iter().any(|row| row.gpu_bytes.is_some());
        self.tree = Some(tree);
    }

    /// Takes in that a process is gone.
    pub(in super::super) fn mark_gone(&mut self, pid: i32, now: Instant) {
        let known = self.tree.iter().flat_map(|tree| &tree.processes).chain(&self.dropped);
        if let Some(row) = known.into_iter().find(|row| row.pid.raw() == pid) {
            let mut row = row.clone();
            row.verdict = VerdictKind::Gone;
            "has ended".clone_into(&mut row.reason);
            (row.cpu_pct, row.rss_bytes, row.threads) = (None, None, None);
            self.gone.retain(|(other, _)| !same(other, &row));
            self.gone.push((row, now));
        }
    }

    /// Drops what has been gone for long enough.
    pub(in super::super) fn expire(&mut self, now: Instant) {
        self.gone.retain(|(_, since)| now < *since + LINGER);
        self.new.retain(|(_, since)| now < *since + NEW);
    }

    /// Tells whether a process has come a moment ago.
    pub fn is_new(&self, row: &ProcessRow) -> bool {
        row.verdict != VerdictKind::Gone && self.new.iter().any(|(new, _)| same(new, row))
    }

    /// Returns when something is to be dropped.
    pub(in super::super) fn deadline(&self) -> Option<Instant> {
        let gone = self.gone.iter().map(|(_, since)| *since + LINGER);
        gone.chain(self.new.iter().map(|(_, since)| *since + NEW)).min()
    }

    /// Returns the lines: the members as a tree, our own processes, escapees, then who has just gone (the dead
    /// never push the living out of sight), and last those that only look alike.
    pub fn lines(&self) -> Vec<TreeLine<'_>> {
        let Some(tree) = &self.tree else { return Vec::new() };
        let mut rows: Vec<&ProcessRow> = Vec::with_capacity(tree.processes.len() + self.gone.len());
        for row in &tree.processes {
            rows.push(self.gone.iter().map(|(gone, _)| gone).find(|gone| same(gone, row)).unwrap_or(row));
        }
        let left = self.gone.iter().map(|(row, _)| row);
        rows.extend(left.filter(|row| !tree.processes.iter().any(|now| now.pid == row.pid)));
        rows.sort_by_key(|row| row.pid);
        let (gone, live): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.verdict == VerdictKind::Gone);
        let mut lines = as_tree(&live);
        lines.extend(tree.supervisors.iter().map(TreeLine::Supervisor));
        lines.extend(tree.escapees.iter().map(|row| TreeLine::Bystander { what: "escapee", row }));
        lines.extend(as_tree(&gone));
        lines.extend(tree.lookalikes.iter().map(|row| TreeLine::Bystander { what: "lookalike", row }));
        lines
    }

    /// Returns the line that is selected: the one of the cursor's process, else the first.
    pub fn selected(&self, lines: &[TreeLine<'_>]) -> usize {
        self.cursor.and_then(|pid| lines.iter().position(|line| line.pid() == pid)).unwrap_or(0)
    }
}

fn same(a: &ProcessRow, b: &ProcessRow) -> bool {
    a.pid == b.pid && a.start_token == b.start_token
}

/// Puts rows below their parents. Each row appears once, whatever the parents say.
fn as_tree<'a>(rows: &[&'a ProcessRow]) -> Vec<TreeLine<'a>> {
    let mut children: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        children.entry(row.ppid).or_default().push(index);
    }
    let pids: BTreeSet<i32> = rows.iter().map(|row| row.pid.raw()).collect();
    let is_root = |row: &ProcessRow| !pids.contains(&row.ppid) || row.ppid == row.pid.raw();
    let roots = (0..rows.len()).filter(|index| is_root(rows[*index]));
    // A ring of parents has no root; every row is shown all the same.
    let all = 0..rows.len();
    let mut placed = vec![false; rows.len()];
    let mut lines = Vec::with_capacity(rows.len());
    for root in roots.chain(all) {
        // A stack of our own: a chain of processes can be long. `trail` says for the nearest
        // ancestors below the root whether each was the last of its siblings.
        let mut stack = vec![(root, Vec::new())];
        while let Some((index, trail)) = stack.pop() {
            if std::mem::replace(&mut placed[index], true) {
                continue;
            }
            let row = rows[index];
            let below = children.get(&row.pid.raw()).map(Vec::as_slice).unwrap_or_default();
            let below: Vec<usize> = below.iter().copied().filter(|child| !placed[*child]).collect();
            for (n, child) in below.iter().enumerate().rev() {
                let skip = (trail.len() + 1).saturating_sub(DEEPEST);
                let last = n + 1 == below.len();
                stack.push((*child, trail.iter().copied().skip(skip).chain([last]).collect()));
            }
            lines.push(TreeLine::Process { row, guides: guides(&trail) });
        }
    }
    lines
}

fn guides(trail: &[bool]) -> String {
    let Some((own, above)) = trail.split_last() else { return String::new() };
    let own = if *own { glyph::LAST_CHILD } else { glyph::CHILD };
    let glyphs = above.iter().map(|last| if *last { " " } else { glyph::UPRIGHT }).chain([own]);
    glyphs.flat_map(|glyph| [glyph, " "]).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn row(pid: i32, parent: i32) -> ProcessRow {
        ProcessRow {
            pid: Pid::new(pid).unwrap(),
            ppid: parent,
            pgid: pid,
            sid: pid,
            start_token: Some("procfs:0:1".parse().unwrap()),
            command: format!("p{pid}"),
            command_b64: None,
            state: "S".into(),
            verdict: VerdictKind::Owned,
            reason: String::new(),
            membership: Vec::new(),
            protected: None,
            kept: None,
            age_s: None,
            cpu_pct: None,
            rss_bytes: None,
            threads: None,
            gpu_bytes: None,
        }
    }

    fn state(pairs: &[(i32, i32)]) -> TreeState {
        let processes = pairs.iter().map(|(pid, ppid)| row(*pid, *ppid)).collect();
        TreeState { tree: Some(Tree { processes, ..Tree::default() }), ..TreeState::default() }
    }

    fn check(pairs: &[(i32, i32)], expected: &[&str]) {
        let state = state(pairs);
        let drawn: Vec<String> = state
            .lines()
            .iter()
            .map(|line| match line {
                TreeLine::Process { row, guides } => format!("{guides}{}", row.pid),
                TreeLine::Supervisor(row) => row.pid.to_string(),
                TreeLine::Bystander { row, .. } => row.pid.to_string(),
            })
            .collect();
        assert_eq!(drawn, expected);
    }

    #[test]
    fn rows_stand_below_their_parents() {
        check(&[(1, 0)], &["1"]);
        check(&[(3, 1), (1, 0), (2, 1)], &["1", "├ 2", "└ 3"]);
        check(&[(1, 0), (2, 1), (3, 2), (4, 1)], &["1", "├ 2", "│ └ 3", "└ 4"]);
        check(&[(1, 0), (2, 1), (9, 77)], &["1", "└ 2", "9"]);
    }

    #[test]
    fn impossible_parents_lose_nobody() {
        check(&[(1, 1)], &["1"]);
        check(&[(1, 2), (2, 1)], &["1", "└ 2"]);
    }

    #[test]
    fn long_chains_neither_overflow_nor_run_off() {
        let pairs: Vec<(i32, i32)> = (1..2_000).map(|pid| (pid, pid - 1)).collect();
        let state = state(&pairs);
        let lines = state.lines();
        assert_eq!(lines.len(), pairs.len());
        let TreeLine::Process { guides, .. } = &lines[1_998] else { panic!("not a process") };
        assert_eq!(guides.chars().count(), 2 * DEEPEST);
    }

    #[test]
    fn gone_needs_an_event_and_passes() {
        let now = Instant::now();
        let mut state = state(&[(1, 0), (2, 1)]);
        state.replace(Tree { processes: vec![row(1, 0)], ..Tree::default() }, now);
        assert_eq!(state.lines().len(), 1, "absence alone is no verdict");
        state.mark_gone(2, now);
        let lines = state.lines();
        let TreeLine::Process { row: second, guides } = &lines[1] else { panic!("not a process") };
        assert_eq!((second.verdict, guides.as_str()), (VerdictKind::Gone, ""));
        assert_eq!(state.deadline(), Some(now + LINGER));
        state.expire(now + LINGER);
        assert_eq!((state.lines().len(), state.deadline()), (1, None));
    }

    #[test]
    fn the_column_of_gpu_memory_stays() {
        let now = Instant::now();
        let mut state = state(&[(1, 0)]);
        state.turn_to(Some("a"));
        assert!(!state.has_gpu);
        let holder = ProcessRow { gpu_bytes: Some(1), ..row(1, 0) };
        state.replace(Tree { processes: vec![holder], ..Tree::default() }, now);
        assert!(state.has_gpu);
        state.replace(Tree { processes: vec![row(1, 0)], ..Tree::default() }, now);
        state.turn_to(Some("a"));
        assert!(state.has_gpu);
        state.turn_to(Some("b"));
        assert!(state.has_gpu, "for another session as well");
    }

    #[test]
    fn a_process_marked_before_its_tree_goes_is_shown_once() {
        let now = Instant::now();
        let mut state = state(&[(1, 0), (2, 1)]);
        state.mark_gone(2, now);
        assert_eq!(state.lines().len(), 2);
        state.replace(Tree { processes: vec![row(1, 0)], ..Tree::default() }, now);
        assert_eq!(state.lines().len(), 2);
        // The pid came back as somebody else.
        let mut other = row(2, 1);
        other.start_token = Some("procfs:0:9".parse().unwrap());
        state.replace(Tree { processes: vec![row(1, 0), other], ..Tree::default() }, now);
        assert_eq!(state.lines().len(), 2);
        assert!(
            state
                .lines()
                .iter()
                .all(|line| matches!(line, TreeLine::Process { row, .. } if row.verdict == VerdictKind::Owned))
        );
    }

    #[test]
    fn who_comes_is_new_for_a_moment_and_nobody_at_the_first_look() {
        let now = Instant::now();
        let look = |pids: &[i32]| Tree { processes: pids.iter().map(|pid| row(*pid, 0)).collect(), ..Tree::default() };
        let mut state = TreeState::default();
        state.replace(look(&[1, 2]), now);
        assert!(!state.is_new(&row(1, 0)) && state.deadline().is_none());
        state.replace(look(&[1, 3]), now);
        assert!(state.is_new(&row(3, 0)) && !state.is_new(&row(1, 0)));
        state.replace(look(&[1, 2, 3]), now);
        assert!(!state.is_new(&row(2, 0)), "it was there before");
        assert_eq!(state.deadline(), Some(now + NEW));
        state.expire(now + NEW);
        assert!(!state.is_new(&row(3, 0)) && state.deadline().is_none());
    }
}
