//! The reads of a capture: the process table is read until nobody new is in it, and every member is pinned
//! between the reads.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Borders, Boundary, Roots, members_of, strays_of};
use crate::lifecycle::authority::{Pin, Pinned};
use crate::lifecycle::identity::Pid;
use crate::lifecycle::inspect::{Kin, Snapshot, Unreadable};
use crate::lifecycle::receipt::Membership;

/// Reads of the table after which a capture says that it is not complete.
const READS_MAX: usize = 12;

/// What the reads came to.
pub(super) struct Found {
    pub(super) pins: HashMap<Pid, Pinned>,
    pub(super) members: BTreeMap<Pid, BTreeSet<Membership>>,
    pub(super) unbound: BTreeMap<Pid, Unreadable>,
    pub(super) complete: bool,
    /// The lists of children that a walk has read.
    pub(super) lists: Vec<Kin>,
}

/// The children of a pinned process.
struct List {
    kin: Kin,
    /// How many processes were pinned when it was last read.
    pinned: usize,
}

impl Found {
    fn nothing(roots: &Roots) -> Self {
        let unbound = roots.unbound.iter().map(|error| (error.pid, error.clone())).collect();
        Self { pins: HashMap::new(), members: BTreeMap::new(), unbound, complete: false, lists: Vec::new() }
    }

    /// Pins every process on the way and follows its children, until each list of children was read after the
    /// last process had been pinned, and named nobody new.
    pub(super) fn by_walk(roots: &mut Roots, borders: &mut Borders<'_>) -> Self {
        let inspector = borders.inspector;
        let mut found = Self::nothing(roots);
        let mut lists = Vec::<List>::new();
        let mut new = roots.all();
        let mut in_leaf = in_leaf(roots);
        new.extend(&in_leaf);
        for _ in 0..READS_MAX {
            while !new.is_empty() {
                let parents = found.pin(&std::mem::take(&mut new), roots, borders);
                let pinned = found.pins.len();
                for (pid, threads) in parents {
                    let Some(kin) = inspector.kin(pid, threads) else { continue };
                    inspector.children(&kin, &mut new);
                    lists.push(List { kin, pinned });
                }
                found.leave_new(&mut new);
            }
            let pinned = found.pins.len();
            for list in lists.iter_mut().filter(|list| list.pinned < pinned) {
                inspector.children(&list.kin, &mut new);
                list.pinned = pinned;
            }
            in_leaf = self::in_leaf(roots);
            new.extend(&in_leaf);
            found.leave_new(&mut new);
            if new.is_empty() {
                found.complete = true;
                break;
            }
        }
        let facts = found.pins.values().map(|pinned| pinned.facts().clone());
        let snapshot = Snapshot::new(facts, Vec::new(), false);
        found.members = members_of(&snapshot, roots, &in_leaf, &mut |facts| borders.of(facts).0);
        found.lists = lists.into_iter().map(|list| list.kin).collect();
        found
    }

    /// Pins these processes and returns those whose children are ours, with their numbers of threads.
    fn pin(&mut self, pids: &[Pid], roots: &mut Roots, borders: &mut Borders<'_>) -> Vec<(Pid, u32)> {
        let mut parents = Vec::with_capacity(pids.len());
        for (pid, pin) in Pinned::open_all(borders.inspector, pids) {
            let pinned = match pin {
                Pin::Held(pinned) => pinned,
                Pin::Gone => continue,
                Pin::Unreadable(error) => {
                    self.unbound.insert(pid, error);
                    continue;
                }
            };
            if roots.is_reused(&pinned) {
                continue;
            }
            let facts = pinned.facts();
            let ours = Some(pid) == roots.warden || Some(pid) == roots.front;
            if ours || borders.of(facts).0 == Boundary::Inside {
                parents.push((pid, facts.threads));
            }
            self.pins.insert(pid, pinned);
        }
        parents
    }

    /// Leaves the pids, each once, that nobody has looked at yet.
    fn leave_new(&self, pids: &mut Vec<Pid>) {
        pids.retain(|pid| !self.pins.contains_key(pid) && !self.unbound.contains_key(pid));
        pids.sort_unstable();
        pids.dedup();
    }

    /// Reads the whole table, pins the members, and reads it again until two reads agree. Where the kernel lists
    /// children, they are walked first: a process that forks and leaves may be faster than a read of the table,
    /// but it is never off the list of its parent or of its warden.
    pub(super) fn by_scan(roots: &mut Roots, borders: &mut Borders<'_>) -> Self {
        let inspector = borders.inspector;
        let walked = inspector.lists_children().then(|| Self::by_walk(roots, borders));
        let stood_still = walked.as_ref().is_none_or(|walked| walked.complete);
        let was_walked = walked.is_some();
        let mut found = walked.unwrap_or_else(|| Self::nothing(roots));
        found.lists.clear();
        let walked = found.members.clone();
        for read in 0..READS_MAX {
            let snapshot = match inspector.scan() {
                Ok(snapshot) => snapshot,
                Err(error) => {
                    let reason = format!("failed to read the process table: {error}");
                    let all = roots.all().into_iter();
                    found.unbound.extend(all.map(|pid| (pid, Unreadable { pid, reason: reason.clone() })));
                    break;
                }
            };
            // Strangers may be unreadable; of those only known pids concern us.
            let ours = snapshot.unreadable.iter().filter(|error| roots.known.contains_key(&error.pid));
            found.unbound.extend(ours.map(|error| (error.pid, error.clone())));
            let mut members = members_of(&snapshot, roots, &in_leaf(roots), &mut |facts| borders.of(facts).0);
            // Whoever was held, and is off the table by now, may have left somebody behind whom it did not show.
            for (pid, how) in walked.iter().filter(|(pid, _)| snapshot.of(**pid).is_none()) {
                members.entry(*pid).or_insert_with(|| how.clone());
            }
            let strays = strays_of(&snapshot, roots).into_iter().filter(|stray| !members.contains_key(&stray.pid));
            found.unbound.extend(strays.map(|stray| (stray.pid, stray)));
            let pins = &found.pins;
            let held = |pid: &Pid| {
                let seen = snapshot.of(*pid).map(|facts| &facts.start);
                pins.get(pid).is_some_and(|pinned| seen.is_none_or(|seen| pinned.facts().start == *seen))
            };
            let ours = members.keys().copied().chain(roots.warden).chain(roots.front);
            let new: Vec<Pid> = ours.filter(|pid| !held(pid)).collect();
            let changed = !new.is_empty();
            for (pid, pin) in Pinned::open_all(inspector, &new) {
                match pin {
                    // The next read does without it.
                    Pin::Held(pinned) if roots.is_reused(&pinned) => {}
                    Pin::Held(pinned) => drop(found.pins.insert(pid, pinned)),
                    Pin::Gone => drop(found.pins.remove(&pid)),
                    Pin::Unreadable(error) => drop(found.unbound.insert(pid, error)),
                }
            }
            let agree = (was_walked || read > 0) && !changed && found.members == members;
            found.members = members;
            found.complete = agree && stood_still;
            if agree {
                break;
            }
        }
        found
    }
}

/// Returns whom the session's cgroup lists now. One that cannot be read any more has been removed: nobody is in it.
fn in_leaf(roots: &Roots) -> BTreeSet<Pid> {
    roots.leaf.as_ref().and_then(|leaf| leaf.pids().ok()).into_iter().flatten().collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
