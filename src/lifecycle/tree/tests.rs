use super::*;
use crate::lifecycle::authority::Pin;

fn pid(raw: i32) -> Pid {
    Pid::new(raw).expect("positive")
}

pub(super) fn process(raw: i32, ppid: i32, sid: i32) -> Facts {
    Facts {
        pid: pid(raw),
        ppid,
        pgid: raw,
        sid,
        start: Start::Ticks(u64::from(raw.unsigned_abs())),
        state: 'S',
        threads: 1,
        comm: b"x".to_vec(),
        cpu_ticks: None,
        rss_bytes: None,
        settled: true,
    }
}

/// 10 warden, 20 workload with 21 -> 22, 30 came back, 31 below it, 40 a stranger, 41 in the session.
fn table() -> Snapshot {
    let rows =
        [(10, 1, 10), (20, 10, 20), (21, 20, 20), (22, 21, 22), (30, 10, 30), (31, 30, 30), (40, 1, 40), (41, 1, 20)];
    Snapshot::new(rows.map(|(raw, ppid, sid)| process(raw, ppid, sid)), Vec::new(), true)
}

fn roots() -> Roots {
    Roots { tree: vec![pid(20)], warden: Some(pid(10)), sids: [20].into(), ..Roots::default() }
}

fn check(roots: &Roots, boundary: &mut dyn FnMut(&Facts) -> Boundary, expected: &[(i32, &[Membership])]) {
    let found = members_of(&table(), roots, &BTreeSet::new(), boundary);
    let expected: BTreeMap<Pid, BTreeSet<Membership>> =
        expected.iter().map(|(raw, how)| (pid(*raw), how.iter().copied().collect())).collect();
    assert_eq!(found, expected);
}

#[test]
fn membership_by_parents_session_and_return() {
    use Membership::{Reparented, Sid, Tree};
    check(
        &roots(),
        &mut |_| Boundary::Inside,
        &[
            (20, &[Tree, Sid]),
            (21, &[Tree, Sid]),
            (22, &[Tree]),
            (30, &[Reparented]),
            (31, &[Reparented]),
            (41, &[Sid]),
        ],
    );
}

#[test]
fn below_the_warden_the_recorded_session_counts_without_its_leader() {
    use Membership::{Reparented, Sid};
    let roots = Roots { warden: Some(pid(10)), recorded_sid: Some(30), ..Roots::default() };
    check(
        &roots,
        &mut |_| Boundary::Inside,
        &[
            (20, &[Reparented]),
            (21, &[Reparented]),
            (22, &[Reparented]),
            (30, &[Reparented, Sid]),
            (31, &[Reparented, Sid]),
        ],
    );
    // Without a warden a recorded number proves nothing.
    let roots = Roots { recorded_sid: Some(20), ..Roots::default() };
    check(&roots, &mut |_| Boundary::Inside, &[]);
}

#[test]
fn whom_nobody_watched_is_named_and_is_no_member() {
    let named = |sid, pgid| {
        let roots = Roots { unwatched: Some((sid, pgid)), ..Roots::default() };
        let mut pids: Vec<i32> = strays_of(&table(), &roots).iter().map(|stray| stray.pid.raw()).collect();
        pids.sort_unstable();
        pids
    };
    // 20 leads its session and lives: the number is its own. 99 is a number without a leader.
    assert_eq!(named(20, 20), [0; 0]);
    assert_eq!(named(99, 99), [0; 0]);
    let mut orphaned = table();
    orphaned = Snapshot::new(orphaned.iter().filter(|facts| facts.pid.raw() != 20).cloned(), Vec::new(), true);
    let roots = Roots { unwatched: Some((20, 20)), ..Roots::default() };
    let mut pids: Vec<i32> = strays_of(&orphaned, &roots).iter().map(|stray| stray.pid.raw()).collect();
    pids.sort_unstable();
    assert_eq!(pids, [21, 41]);
}

#[test]
fn walks_stop_at_borders() {
    use Membership::{Reparented, Sid, Tree};
    let mut border = |facts: &Facts| match facts.pid.raw() {
        21 => Boundary::Edge,
        30 => Boundary::Outside,
        _ => Boundary::Inside,
    };
    check(&roots(), &mut border, &[(20, &[Tree, Sid]), (21, &[Tree, Sid]), (41, &[Sid])]);
    let _ = Reparented;
}

#[test]
fn whoever_is_in_the_cgroup_belongs_unless_somebody_else_looks_after_it() {
    use Membership::{Cgroup, Tree};
    let in_leaf = [20, 21, 22, 30, 31, 40, 99].map(pid).into();
    let roots = Roots { tree: vec![pid(20)], warden: Some(pid(10)), ..Roots::default() };
    // 30 is another manager's warden, so 31 answers to that one; 21 is a kept server, so 22 is its own.
    let mut border = |facts: &Facts| match facts.pid.raw() {
        21 => Boundary::Edge,
        30 => Boundary::Outside,
        _ => Boundary::Inside,
    };
    let found = members_of(&table(), &roots, &in_leaf, &mut border);
    let expected: BTreeMap<Pid, BTreeSet<Membership>> =
        [(20, [Tree, Cgroup].into()), (21, [Tree, Cgroup].into()), (40, [Cgroup].into())]
            .map(|(raw, how)| (pid(raw), how))
            .into();
    assert_eq!(found, expected);
}

#[test]
fn a_known_process_stays_a_member_without_its_parent() {
    let known = HashMap::from([
        (pid(40), (Start::Ticks(40), BTreeSet::from([Membership::Tree]))),
        (pid(41), (Start::Ticks(999), BTreeSet::from([Membership::Tree]))),
    ]);
    let roots = Roots { known, ..Roots::default() };
    check(&roots, &mut |_| Boundary::Inside, &[(40, &[Membership::Tree])]);
}

/// Within the tick of a start a pid can be reused, and both processes have the same start. Only the inode tells.
#[test]
fn whoever_has_the_pid_and_the_start_of_a_known_process_is_no_member() {
    let inspector = Inspector::open(None).expect("an inspector");
    let guard = Guard::new(&inspector);
    let mut child = std::process::Command::new("setsid").args(["sleep", "60"]).spawn().expect("a child");
    let raw = i32::try_from(child.id()).expect("a pid");
    let pinned = match Pinned::open(&inspector, pid(raw)) {
        Pin::Held(pinned) => pinned,
        Pin::Gone | Pin::Unreadable(_) => panic!("{raw} cannot be held"),
    };
    let itself = pinned.identity().clone();
    let another = itself.pidfd_inode.map(|inode| Identity { pidfd_inode: Some(inode + 1), ..itself.clone() });
    for (claim, expected) in [(Some(itself), 1), (another, 0)] {
        // Without pidfs there is no other one of that identity.
        let Some(claim) = claim else { continue };
        for depth in [Depth::Trees, Depth::Host] {
            let known = vec![(claim.clone(), BTreeSet::from([Membership::Tree]))];
            let scope = Scope { known, ..Scope::default() };
            let captured = capture(&scope, depth, &guard, &inspector);
            assert_eq!((captured.members.len(), captured.complete), (expected, true), "{claim:?} {depth:?}");
        }
    }
    child.kill().expect("it lives");
    child.wait().expect("it ends");
}

#[test]
fn what_is_kept_is_left_alive_unless_it_is_protected_or_was_chosen() {
    let inspector = Inspector::None;
    let member = Member::stand_in(pid(40), &[], Fate::End);
    let facts = member.pinned.facts();
    let mut guard = Guard::new(&Inspector::open(None).expect("an inspector"));
    let fate_of = |scope: &Scope, guard: &Guard| {
        let seen = [((facts.pid, facts.start.clone()), (Boundary::Edge, Some("an ssh agent".to_owned())))].into();
        let mut borders = Borders { inspector: &inspector, guard, chosen: &scope.end_kept, seen };
        fate(&member.pinned, &BTreeSet::from([Membership::Tree]), scope, guard, &mut borders)
    };
    assert_eq!(fate_of(&Scope::default(), &guard), Fate::Keep("an ssh agent".into()));
    let chosen = Scope { end_kept: vec![member.pinned.identity().clone()], ..Scope::default() };
    assert_eq!(fate_of(&chosen, &guard), Fate::End);
    guard.protect_server(pid(40), "the tmux server");
    assert_eq!(fate_of(&chosen, &guard), Fate::Refuse("the tmux server".into()));
}

/// Only a look that could see everybody says that nobody is there.
#[test]
fn nobody_is_left_only_where_everybody_was_looked_at() {
    let found = || Captured { blind: false, complete: true, ..Captured::blind() };
    let unbound = vec![Unreadable { pid: pid(9), reason: "hidden".into() }];
    assert!(found().is_empty());
    assert!(!Captured { complete: false, ..found() }.is_empty());
    assert!(!Captured { unbound, ..found() }.is_empty());
    assert!(!Captured::blind().is_empty());
}

#[test]
fn no_roots_no_members() {
    check(&Roots::default(), &mut |_| Boundary::Inside, &[]);
}

/// A stage of ours that is on its way out has no words any more: it is no member of whom its parent left it to.
#[test]
fn a_stage_of_a_launch_is_none_of_a_tree_to_its_last_moment() {
    let stage = |comm: &str, threads: u32, argv: &[&str]| {
        let facts = Facts { comm: comm.as_bytes().to_vec(), threads, ..process(7, 1, 7) };
        is_warden(&facts, || argv.iter().map(|word| word.as_bytes().to_vec()).collect())
    };
    assert!(stage("exe", 1, &[WARDEN_NAME, "__warden"]));
    assert!(stage("cookbook-tui", 1, &["/bin/cookbook-tui", FRONT]));
    assert!(stage("cookbook-tui", 1, &[]) && stage("exe", 1, &[]));
    assert!(!stage("cookbook-tui", 2, &[]), "a leader that left its threads behind");
    assert!(!stage("cookbook-tui", 1, &["/bin/cookbook-tui", "ls"]));
    assert!(!stage("sleep", 1, &[]) && !stage("sleep", 1, &[WARDEN_NAME]));
}
