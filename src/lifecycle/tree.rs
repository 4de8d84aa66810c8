//! Which processes belong to a session, and their identities: the capture.
//!
//! `members_of` is pure: it decides membership in one snapshot. [`capture`] reads the table to a
//! fixpoint (two reads that add nothing), pins every member between the reads, and so binds membership
//! and identity together. Nobody recaptures an identity after membership was decided.

mod followed;
mod found;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

pub use followed::Followed;
use found::Found;

use super::authority::{Pinned, verify};
use super::guard::Guard;
use super::identity::{Identity, Pid, StartToken};
use super::inspect::{Facts, Inspector, Kin, Snapshot, Start, Unreadable};
use super::kept;
use super::leaf::Leaf;
use super::receipt::Membership;
pub use super::scope::{Depth, Scope};
use super::tender::Tenders;
use super::verdict::VerdictKind;
use super::warden::FRONT;

/// One process that belongs to a session.
#[derive(Debug)]
pub struct Member {
    /// Who it is, bound while it was held.
    pub pinned: Pinned,
    /// Every way in which it belongs.
    pub membership: BTreeSet<Membership>,
    argv: OnceCell<Vec<Vec<u8>>>,
    /// What is to become of it.
    pub fate: Fate,
    /// It tends a container, and ends by itself after that has ended: a teardown comes to it last.
    pub tends: bool,
}

impl Member {
    /// Returns its arguments if they were read before.
    pub(super) fn known_argv(&self) -> &[Vec<u8>] {
        self.argv.get().map_or(&[], Vec::as_slice)
    }

    /// Returns its arguments as they were when they were first asked for; a process that has ended has none.
    pub fn argv(&self, inspector: &Inspector) -> &[Vec<u8>] {
        self.argv.get_or_init(|| inspector.argv(self.pinned.identity().pid))
    }
}

#[cfg(test)]
impl Member {
    /// Returns a member with this number of which nothing else is real.
    pub(super) fn stand_in(pid: Pid, membership: &[Membership], fate: Fate) -> Self {
        let pinned = Pinned::stand_in(tests::process(pid.raw(), 1, pid.raw()));
        Self { pinned, membership: membership.iter().copied().collect(), argv: OnceCell::new(), fate, tends: false }
    }
}

#[cfg(test)]
impl Captured {
    /// Returns a capture of stand-ins.
    pub(super) const fn stand_in(members: Vec<Member>) -> Self {
        Self { members, supervisors: Vec::new(), unbound: Vec::new(), blind: false, complete: true }
    }
}

/// What a stop does with a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Ends it.
    End,
    /// Leaves it alive: a daemon that outlives its starter on purpose.
    Keep(String),
    /// Leaves it alive and reports it: it left the tree, and the recipe says so.
    Report,
    /// Must not signal it.
    Refuse(String),
}

/// A process tree with its identities: what a hang-up demands.
///
/// ```compile_fail
/// # use cookbook_tui::lifecycle::tree::Captured;
/// let forged = Captured { members: vec![], supervisors: vec![], unbound: vec![], blind: false, complete: true };
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Captured {
    /// The members.
    pub members: Vec<Member>,
    /// Our own front and warden: they leave by themselves, last.
    pub supervisors: Vec<Member>,
    /// Members whose identity could not be bound.
    pub unbound: Vec<Unreadable>,
    /// Nobody could look: there is no inspector.
    pub blind: bool,
    /// The reads reached a fixpoint.
    pub complete: bool,
}

impl Captured {
    /// Returns the capture of a host where nobody can look; it says so.
    pub const fn blind() -> Self {
        Self { members: Vec::new(), supervisors: Vec::new(), unbound: Vec::new(), blind: true, complete: false }
    }

    /// Tells whether the look found nobody, and nobody can have been missed.
    pub fn is_empty(&self) -> bool {
        let Self { members, supervisors, unbound, blind, complete } = self;
        *complete && !blind && members.is_empty() && supervisors.is_empty() && unbound.is_empty()
    }

    /// Returns the members that a stop ends.
    pub fn to_end(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.fate == Fate::End)
    }
}

/// Where the members are looked for: the recorded processes that are still who they were.
#[derive(Debug, Default)]
struct Roots {
    /// Roots whose descendants are `tree`.
    tree: Vec<Pid>,
    warden: Option<Pid>,
    front: Option<Pid>,
    /// Kernel sessions whose leader was identified.
    sids: BTreeSet<i32>,
    /// The recorded kernel session, which counts below the warden.
    recorded_sid: Option<i32>,
    /// Numbers of a kernel session and a group that nobody watches any more.
    unwatched: Option<(i32, i32)>,
    known: HashMap<Pid, (Start, BTreeSet<Membership>)>,
    /// Who the roots and the known are. A pid may be another process's by the time that it is held.
    claims: HashMap<Pid, Identity>,
    /// The cgroup of the session.
    leaf: Option<Leaf>,
    unbound: Vec<Unreadable>,
}

impl Roots {
    fn find(scope: &Scope, inspector: &Inspector) -> Self {
        let mut roots = Self::default();
        let mut alive = |claim: &Option<Identity>| {
            let claim = claim.as_ref()?;
            let verdict = verify(claim, inspector);
            if verdict.kind == VerdictKind::Unverifiable {
                roots.unbound.push(Unreadable { pid: claim.pid, reason: verdict.reason });
            }
            let is_it = verdict.kind == VerdictKind::Owned;
            if is_it {
                roots.claims.insert(claim.pid, claim.clone());
            }
            is_it.then_some(claim.pid)
        };
        let workload = alive(&scope.workload);
        let warden = alive(&scope.warden);
        let front = alive(&scope.front);
        // Our front is the root of a pane, but stands for the workload: it is no member, dead or alive.
        let recorded = scope.front.as_ref().map(|front| front.pid);
        let panes = scope.panes.iter().filter(|pane| Some(pane.pid) != recorded);
        let panes: Vec<Pid> = panes.filter_map(|pane| alive(&Some(pane.clone()))).collect();
        roots.tree.extend(workload.into_iter().chain(panes.iter().copied()));
        roots.sids.extend(workload.into_iter().chain(front).chain(panes).map(Pid::raw));
        (roots.warden, roots.front, roots.recorded_sid) = (warden, front, scope.sid);
        roots.leaf = scope.cgroup.as_ref().and_then(Leaf::open);
        let same_boot = scope.workload.as_ref().is_some_and(|workload| match &workload.token {
            StartToken::Procfs { boot_id, .. } => Some(boot_id.as_str()) == inspector.boot_id(),
            StartToken::Ps { .. } => true,
        });
        if warden.is_none() && front.is_none() && workload.is_none() && same_boot {
            roots.unwatched = scope.sid.zip(scope.pgid);
        }
        for (identity, membership) in &scope.known {
            roots.claims.entry(identity.pid).or_insert_with(|| identity.clone());
            let StartToken::Procfs { boot_id, ticks } = &identity.token else {
                if verify(identity, inspector).kind == VerdictKind::Owned
                    && let StartToken::Ps { lstart } = &identity.token
                {
                    let start = Start::Lstart(lstart.clone());
                    roots.known.insert(identity.pid, (start, membership.clone()));
                }
                continue;
            };
            if Some(boot_id.as_str()) == inspector.boot_id() {
                roots.known.insert(identity.pid, (Start::Ticks(*ticks), membership.clone()));
            }
        }
        roots
    }

    /// Takes note of who was found at a pid. Where that is not who was claimed to have it, nothing follows from the
    /// pid any more, and the answer is true: the start alone does not tell, for a pid can be reused within a tick.
    fn is_reused(&mut self, pinned: &Pinned) -> bool {
        let pid = pinned.identity().pid;
        if self.claims.get(&pid).is_none_or(|claim| claim.names(pinned.identity())) {
            return false;
        }
        self.claims.remove(&pid);
        self.known.remove(&pid);
        self.sids.remove(&pid.raw());
        self.tree.retain(|root| *root != pid);
        self.warden = self.warden.filter(|warden| *warden != pid);
        self.front = self.front.filter(|front| *front != pid);
        true
    }

    fn all(&self) -> Vec<Pid> {
        let fixed = self.tree.iter().copied().chain(self.warden).chain(self.front);
        let mut all: Vec<Pid> = fixed.chain(self.known.keys().copied()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Decides membership in one snapshot. `in_leaf` are those that the session's cgroup has listed since they were
/// pinned. `boundary` says where the walk must not go on: at protected
/// and kept servers and at wardens and managers other than ours.
fn members_of(
    snapshot: &Snapshot,
    roots: &Roots,
    in_leaf: &BTreeSet<Pid>,
    boundary: &mut dyn FnMut(&Facts) -> Boundary,
) -> BTreeMap<Pid, BTreeSet<Membership>> {
    let children = snapshot.children();
    let mut members = BTreeMap::<Pid, BTreeSet<Membership>>::new();
    let supervisors: BTreeSet<Pid> = roots.warden.into_iter().chain(roots.front).collect();
    let mut walk = |from: Pid, how: Membership, members: &mut BTreeMap<Pid, BTreeSet<Membership>>| {
        let mut queue = vec![from];
        while let Some(pid) = queue.pop() {
            let Some(facts) = snapshot.of(pid) else { continue };
            if supervisors.contains(&pid) {
                continue;
            }
            let limit = boundary(facts);
            if limit == Boundary::Outside || !members.entry(pid).or_default().insert(how) {
                continue;
            }
            if limit == Boundary::Inside {
                queue.extend(children.get(&pid.raw()).into_iter().flatten().copied());
            }
        }
    };
    for &root in &roots.tree {
        walk(root, Membership::Tree, &mut members);
    }
    for (&pid, (start, how)) in &roots.known {
        if snapshot.of(pid).is_some_and(|facts| facts.start == *start) {
            for &how in how {
                walk(pid, how, &mut members);
            }
        }
    }
    // The warden's children other than the workload came back to it after their parent had left.
    for &child in roots.warden.and_then(|warden| children.get(&warden.raw())).into_iter().flatten() {
        if !members.get(&child).is_some_and(|how| how.contains(&Membership::Tree)) {
            walk(child, Membership::Reparented, &mut members);
        }
    }
    for (pid, how) in &mut members {
        let came_back = how.contains(&Membership::Reparented);
        if came_back && snapshot.of(*pid).is_some_and(|facts| Some(facts.sid) == roots.recorded_sid) {
            how.insert(Membership::Sid);
        }
    }
    for facts in snapshot.iter().filter(|facts| roots.sids.contains(&facts.sid)) {
        if !supervisors.contains(&facts.pid) && boundary(facts) != Boundary::Outside {
            members.entry(facts.pid).or_default().insert(Membership::Sid);
        }
    }
    for facts in in_leaf.iter().filter_map(|pid| snapshot.of(*pid)) {
        // What is below another manager's warden or a kept server is in the cgroup, too, and answers to that one.
        let mut above = snapshot.ancestors(facts.pid).into_iter().filter(|pid| in_leaf.contains(pid));
        let fenced = above.any(|pid| snapshot.of(pid).is_some_and(|facts| boundary(facts) != Boundary::Inside));
        if !fenced && !supervisors.contains(&facts.pid) && boundary(facts) != Boundary::Outside {
            members.entry(facts.pid).or_default().insert(Membership::Cgroup);
        }
    }
    members
}

/// Returns who is in the recorded kernel session or group although nobody has watched since its leader ended.
/// The kernel keeps a number while it has members, so they may well be ours; but it may also have been freed
/// and reused in between. They are shown as unverifiable: not signalled, not forgotten.
fn strays_of(snapshot: &Snapshot, roots: &Roots) -> Vec<Unreadable> {
    let Some((sid, pgid)) = roots.unwatched else { return Vec::new() };
    // A living leader with another start has taken the number over: whoever has it now answers to that one.
    let taken =
        |number: i32| Pid::new(number).is_some_and(|leader| snapshot.of(leader).is_some_and(|facts| !facts.ended()));
    let reason =
        "in the recorded kernel session, but nobody has watched since its leader ended: it may be another one's";
    let stray =
        |facts: &&Facts| !facts.ended() && ((facts.sid == sid && !taken(sid)) || (facts.pgid == pgid && !taken(pgid)));
    snapshot.iter().filter(stray).map(|facts| Unreadable { pid: facts.pid, reason: reason.to_owned() }).collect()
}

/// Whether a walk goes through a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Boundary {
    /// It is a member, and so are its children.
    Inside,
    /// It is a member; its children answer to it, not to us.
    Edge,
    /// It is none of ours.
    Outside,
}

/// Answers, once per process, where walks stop and why.
struct Borders<'a> {
    inspector: &'a Inspector,
    guard: &'a Guard,
    /// Kept ones that are to be ended all the same, and so is who is below them.
    chosen: &'a [Identity],
    seen: HashMap<(Pid, Start), (Boundary, Option<String>)>,
}

impl<'a> Borders<'a> {
    fn new(chosen: &'a [Identity], guard: &'a Guard, inspector: &'a Inspector) -> Self {
        Self { inspector, guard, chosen, seen: HashMap::new() }
    }

    fn of(&mut self, facts: &Facts) -> (Boundary, Option<String>) {
        if self.guard.server(facts.pid).is_some() || self.guard.is_me(facts.pid) {
            return (Boundary::Edge, None);
        }
        let key = (facts.pid, facts.start.clone());
        if let Some(known) = self.seen.get(&key) {
            return known.clone();
        }
        let answer = if is_warden(facts, || self.inspector.argv(facts.pid)) {
            (Boundary::Outside, None)
        } else if self.inspector.is_one_of(facts, self.chosen) {
            (Boundary::Inside, None)
        } else if let Some(what) = kept::recognise(facts, self.inspector) {
            (Boundary::Edge, Some(what))
        } else {
            (Boundary::Inside, None)
        };
        self.seen.insert(key, answer.clone());
        answer
    }
}

/// The name under which wardens run (`argv[0]`): a capture stops there, because each of them ends its own tree when its
/// owner goes. A front, which tmux starts by the name of the program, ends it with its pane.
pub const WARDEN_NAME: &str = "cookbook-warden";

fn is_warden(facts: &Facts, argv: impl FnOnce() -> Vec<Vec<u8>>) -> bool {
    // comm is `exe` after an exec of /proc/self/exe, else the name of the binary.
    if !facts.comm.starts_with(b"exe") && !facts.comm.starts_with(b"cookbook") {
        return false;
    }
    let argv = argv();
    // The memory that holds its words goes first: from there on there is nobody who could be signalled.
    if argv.is_empty() && facts.threads <= 1 {
        return true;
    }
    let is = |at: usize, word: &str| argv.get(at).is_some_and(|known| known == word.as_bytes());
    is(0, WARDEN_NAME) || is(1, FRONT)
}

/// Tells whether somebody above a process has it answer to another: a kept or protected server, us ourselves, a warden.
/// Above one that was left behind there is nobody of these. Without a look at an ancestor nobody can tell: then it is.
pub fn is_fenced(pid: Pid, guard: &Guard, inspector: &Inspector) -> bool {
    let mut borders = Borders::new(&[], guard, inspector);
    let mut seen = BTreeSet::from([pid]);
    let mut next = inspector.facts(pid).map(|facts| facts.and_then(|facts| Pid::new(facts.ppid)));
    loop {
        let parent = match next {
            Ok(Some(parent)) if seen.insert(parent) => parent,
            Ok(_) => return false,
            Err(_) => return true,
        };
        next = match inspector.facts(parent) {
            Ok(Some(facts)) if borders.of(&facts).0 != Boundary::Inside => return true,
            Ok(facts) => Ok(facts.and_then(|facts| Pid::new(facts.ppid))),
            Err(error) => Err(error),
        };
    }
}

/// Captures the members of a session with their identities.
///
/// [`Depth::Trees`] follows the children that the kernel lists and costs what the trees cost; where it lists
/// none, and for [`Depth::Host`], the whole table is read.
pub fn capture(scope: &Scope, depth: Depth, guard: &Guard, inspector: &Inspector) -> Captured {
    look(scope, depth, guard, inspector).0
}

/// What a capture held on its way.
#[derive(Debug, Default)]
struct Aside {
    /// Who was pinned and is no member: wardens of others.
    others: Vec<Pinned>,
    /// The lists of children of all members that have children of ours; none where the table was scanned.
    lists: Vec<Kin>,
    leaf: Option<Leaf>,
}

fn look(scope: &Scope, depth: Depth, guard: &Guard, inspector: &Inspector) -> (Captured, Aside) {
    if matches!(inspector, Inspector::None) {
        return (Captured::blind(), Aside::default());
    }
    let mut roots = Roots::find(scope, inspector);
    let mut borders = Borders::new(&scope.end_kept, guard, inspector);
    let found = if depth == Depth::Trees && inspector.lists_children() {
        Found::by_walk(&mut roots, &mut borders)
    } else {
        Found::by_scan(&mut roots, &mut borders)
    };
    let Found { mut pins, members: found, mut unbound, complete, lists } = found;
    let mut supervisors = Vec::new();
    for pid in roots.front.into_iter().chain(roots.warden) {
        if let Some(pinned) = pins.remove(&pid) {
            let (membership, argv) = (BTreeSet::new(), OnceCell::new());
            supervisors.push(Member { pinned, membership, argv, fate: Fate::End, tends: false });
        }
    }
    let tenders = Tenders::among(found.keys().filter_map(|pid| pins.get(pid)), inspector);
    let mut members = Vec::with_capacity(found.len());
    for (pid, membership) in found {
        let Some(pinned) = pins.remove(&pid) else { continue };
        let fate = fate(&pinned, &membership, scope, guard, &mut borders);
        let tends = tenders.have(pinned.facts());
        members.push(Member { pinned, membership, argv: OnceCell::new(), fate, tends });
    }
    for member in &members {
        unbound.remove(&member.pinned.identity().pid);
    }
    let captured = Captured { members, supervisors, unbound: unbound.into_values().collect(), blind: false, complete };
    (captured, Aside { others: pins.into_values().collect(), lists, leaf: roots.leaf })
}

fn fate(
    pinned: &Pinned,
    membership: &BTreeSet<Membership>,
    scope: &Scope,
    guard: &Guard,
    borders: &mut Borders<'_>,
) -> Fate {
    let facts = pinned.facts();
    if let Some(reason) = guard.protects(facts) {
        return Fate::Refuse(reason);
    }
    // A daemon that closes its socket on the way out is not recognised any more; the choice still holds.
    if scope.end_kept.iter().any(|chosen| chosen.names(pinned.identity())) {
        return Fate::End;
    }
    if let (_, Some(what)) = borders.of(facts) {
        return Fate::Keep(what);
    }
    let escaped = !membership.contains(&Membership::Tree) && !membership.contains(&Membership::Sid);
    if escaped && scope.report_escapees { Fate::Report } else { Fate::End }
}

#[cfg(test)]
mod tests;
