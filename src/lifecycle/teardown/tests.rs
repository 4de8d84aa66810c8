//! The ladder against imaginary processes in virtual time.

use super::*;
use crate::lifecycle::identity::Pid;

/// A process of the imaginary host.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nature {
    Plain,
    IgnoresTerm,
    Immortal,
    NotPermitted,
    Foreign,
    Unverifiable,
    /// Leaves a child with this pid when it gets TERM.
    Leaves(i32),
    /// Has somebody else start this one when it is killed: a ring.
    Heir(i32),
}

/// Drives the machine against imaginary processes in virtual time, and keeps its own ledger.
struct World {
    natures: BTreeMap<i32, Nature>,
    dead: Vec<i32>,
    sent: Vec<(i32, Signal)>,
    now: Instant,
    start: Instant,
    /// The session has a cgroup.
    cgroup: bool,
    /// Whether somebody is in the cgroup who is not to be ended.
    guest: bool,
    emptied: u32,
    /// Somebody forks and leaves faster than a look: for so many looks, or until the cgroup is emptied.
    hops: u32,
    /// Ends once nobody else is left.
    tender: Option<i32>,
}

fn identity(raw: i32) -> Identity {
    let pid = Pid::new(raw).expect("positive");
    Identity { pid, token: format!("procfs:b:{raw}").parse().expect("token"), pidfd_inode: None }
}

impl World {
    fn new(natures: &[(i32, Nature)]) -> Self {
        let now = Instant::now();
        Self {
            natures: natures.iter().copied().collect(),
            dead: vec![],
            sent: vec![],
            now,
            start: now,
            cgroup: false,
            guest: false,
            emptied: 0,
            hops: 0,
            tender: None,
        }
    }

    fn signal(&mut self, target: &Identity, signal: Signal) -> Event {
        let raw = target.pid.raw();
        let reason = String::new();
        if self.dead.contains(&raw) {
            return Event::Denied(target.clone(), OutcomeKind::Exited, reason);
        }
        let nature = self.natures[&raw];
        match nature {
            Nature::Foreign => return Event::Denied(target.clone(), OutcomeKind::Foreign, reason),
            Nature::Unverifiable => return Event::Denied(target.clone(), OutcomeKind::Unverifiable, reason),
            Nature::NotPermitted => return Event::Undeliverable(target.clone(), "EPERM".into()),
            Nature::Plain | Nature::IgnoresTerm | Nature::Immortal | Nature::Leaves(_) | Nature::Heir(_) => {}
        }
        self.sent.push((raw, signal));
        match (nature, signal) {
            (Nature::Plain, Signal::Term) => self.dead.push(raw),
            (Nature::Leaves(child), Signal::Term) => {
                self.dead.push(raw);
                self.natures.insert(child, Nature::Plain);
            }
            (Nature::Heir(child), Signal::Kill) => {
                self.dead.push(raw);
                self.natures.insert(child, Nature::IgnoresTerm);
            }
            (nature, Signal::Kill) if nature != Nature::Immortal => self.dead.push(raw),
            (_, _) => {}
        }
        Event::Delivered(target.clone(), signal)
    }

    fn run(&mut self, ladder: Ladder, targets: &[i32]) -> Teardown {
        let targets = targets.iter().map(|raw| identity(*raw));
        let mut teardown = Teardown::new(ladder, targets).with_cgroup(self.cgroup);
        if let Some(tender) = self.tender {
            teardown.handle(Event::Tends(identity(tender)));
        }
        for _ in 0..10_000 {
            if let Some(tender) =
                self.tender.filter(|tender| self.natures.len() == self.dead.len() + 1 && !self.dead.contains(tender))
            {
                self.dead.push(tender);
            }
            match teardown.poll_step(self.now) {
                Step::Signal(target, signal) => {
                    let event = self.signal(&target, signal);
                    teardown.handle(event);
                }
                Step::Empty => {
                    self.emptied += 1;
                    self.hops = 0;
                    if self.guest {
                        teardown.handle(Event::Spared);
                        continue;
                    }
                    for identity in teardown.alive() {
                        // Even whom we may not signal one by one: who may write the file decides.
                        if self.natures[&identity.pid.raw()] != Nature::Immortal {
                            self.dead.push(identity.pid.raw());
                        }
                        teardown.handle(Event::Delivered(identity, Signal::Kill));
                    }
                }
                Step::Rescan(_) => {
                    let alive = self.natures.keys().filter(|raw| !self.dead.contains(raw));
                    let members = alive.map(|raw| identity(*raw)).collect();
                    teardown.handle(Event::Scanned { members, complete: self.hops == 0 });
                    self.hops = self.hops.saturating_sub(1);
                }
                Step::Wait(until) => {
                    let died: Vec<_> =
                        teardown.alive().into_iter().filter(|i| self.dead.contains(&i.pid.raw())).collect();
                    if died.is_empty() {
                        assert!(until > self.now, "a wait must wait");
                        self.now = until;
                    }
                    for identity in died {
                        teardown.handle(Event::Exited(identity));
                    }
                }
                Step::Done => return teardown,
            }
        }
        panic!("it never ends");
    }
}

fn check(natures: &[(i32, Nature)], targets: &[i32], expected: &[(i32, State)], escalated: bool, within: Duration) {
    let mut world = World::new(natures);
    let teardown = world.run(Ladder::server(Signal::Term, GRACE), targets);
    let found: Vec<_> = teardown.targets().map(|(identity, state)| (identity.pid.raw(), state.clone())).collect();
    assert_eq!(found, expected);
    assert_eq!(teardown.escalated(), escalated);
    assert!(world.now - world.start <= within, "{:?}", world.now - world.start);
}

const NOW: Duration = Duration::ZERO;

#[test]
fn a_cooperative_tree_takes_no_time() {
    check(&[(1, Nature::Plain), (2, Nature::Plain)], &[1, 2], &[(1, State::Exited), (2, State::Exited)], false, NOW);
}

#[test]
fn the_stubborn_get_kill_after_the_grace() {
    check(
        &[(1, Nature::Plain), (2, Nature::IgnoresTerm)],
        &[1, 2],
        &[(1, State::Exited), (2, State::Exited)],
        true,
        GRACE,
    );
}

#[test]
fn children_born_of_the_stop_die_too() {
    check(&[(1, Nature::Leaves(9))], &[1], &[(1, State::Exited), (9, State::Exited)], false, NOW);
}

#[test]
fn an_immortal_ends_the_ladder_after_one_window() {
    let alive = State::Alive { signalled: true, blocked: None };
    check(&[(1, Nature::Immortal)], &[1], &[(1, alive)], true, GRACE + KILL_WINDOW);
}

#[test]
fn who_may_not_be_signalled_is_written_down_with_the_reason() {
    let blocked = State::Alive { signalled: false, blocked: Some("EPERM".into()) };
    check(&[(1, Nature::NotPermitted)], &[1], &[(1, blocked)], true, GRACE);
}

#[test]
fn strangers_are_never_signalled() {
    for (nature, outcome) in
        [(Nature::Foreign, OutcomeKind::Foreign), (Nature::Unverifiable, OutcomeKind::Unverifiable)]
    {
        let mut world = World::new(&[(1, nature), (2, Nature::IgnoresTerm)]);
        let teardown = world.run(Ladder::terminal(GRACE), &[1, 2]);
        assert!(world.sent.iter().all(|(raw, _)| *raw == 2));
        let states: Vec<_> = teardown.targets().map(|(_, state)| state.clone()).collect();
        assert_eq!(states, [State::Denied(outcome, String::new()), State::Exited]);
    }
}

#[test]
fn already_dead_is_not_exited() {
    let mut world = World::new(&[(1, Nature::Plain)]);
    world.dead.push(1);
    let teardown = world.run(Ladder::server(Signal::Term, GRACE), &[1]);
    assert_eq!(teardown.targets().map(|(_, state)| state.clone()).collect::<Vec<_>>(), [State::AlreadyGone]);
    assert!(world.sent.is_empty());
}

/// Killed one after the other, a ring comes back as fast as it goes: from the second round on it is stopped
/// first.
#[test]
fn a_ring_stands_still_before_it_is_killed_again() {
    let mut world = World::new(&[(1, Nature::Heir(8)), (2, Nature::Heir(9))]);
    let teardown = world.run(Ladder { force: true, ..Ladder::server(Signal::Term, GRACE) }, &[1, 2]);
    let expected = [
        (1, Signal::Kill),
        (2, Signal::Kill),
        (8, Signal::Stop),
        (9, Signal::Stop),
        (8, Signal::Kill),
        (9, Signal::Kill),
    ];
    assert_eq!(world.sent, expected);
    assert!(teardown.targets().all(|(_, state)| *state == State::Exited));
}

#[test]
fn force_begins_with_kill() {
    let mut world = World::new(&[(1, Nature::Plain)]);
    let ladder = Ladder { force: true, ..Ladder::server(Signal::Term, GRACE) };
    world.run(ladder, &[1]);
    assert_eq!(world.sent, [(1, Signal::Kill)]);
}

#[test]
fn nothing_to_end_is_done() {
    check(&[], &[], &[], false, NOW);
}

#[test]
fn every_mix_ends_in_time_and_spares_strangers() {
    use Nature::{Foreign, IgnoresTerm, Immortal, Leaves, NotPermitted, Plain, Unverifiable};
    let natures = [Plain, IgnoresTerm, Immortal, NotPermitted, Foreign, Unverifiable, Leaves(7)];
    for a in natures {
        for b in natures {
            for c in natures {
                for force in [false, true] {
                    let mut world = World::new(&[(1, a), (2, b), (3, c)]);
                    let ladder = Ladder { force, ..Ladder::terminal(GRACE) };
                    let teardown = world.run(ladder, &[1, 2, 3]);
                    assert!(world.now - world.start <= GRACE + KILL_WINDOW * 3);
                    for (raw, _) in &world.sent {
                        assert!(!matches!(world.natures[raw], Foreign | Unverifiable));
                    }
                    for (identity, state) in teardown.targets() {
                        let dead = world.dead.contains(&identity.pid.raw());
                        assert_eq!(matches!(state, State::Exited | State::AlreadyGone), dead);
                    }
                }
            }
        }
    }
}

#[test]
fn a_cgroup_is_emptied_where_single_kills_were_not_enough() {
    let mut world = World { cgroup: true, ..World::new(&[(1, Nature::Heir(8)), (2, Nature::NotPermitted)]) };
    let teardown = world.run(Ladder { force: true, ..Ladder::server(Signal::Term, GRACE) }, &[1, 2]);
    assert_eq!((world.emptied, world.sent), (1, vec![(1, Signal::Kill)]));
    assert!(teardown.targets().all(|(_, state)| *state == State::Exited));
    // Not for whom the first KILL ends.
    let mut world = World { cgroup: true, ..World::new(&[(1, Nature::IgnoresTerm)]) };
    world.run(Ladder::server(Signal::Term, GRACE), &[1]);
    assert_eq!(world.emptied, 0);
}

#[test]
fn a_cgroup_with_a_guest_is_spared_and_the_ring_stands_still_instead() {
    let mut world = World { cgroup: true, guest: true, ..World::new(&[(1, Nature::Heir(8))]) };
    let teardown = world.run(Ladder { force: true, ..Ladder::server(Signal::Term, GRACE) }, &[1]);
    assert_eq!((world.emptied, world.sent), (1, vec![(1, Signal::Kill), (8, Signal::Stop), (8, Signal::Kill)]));
    assert!(teardown.targets().all(|(_, state)| *state == State::Exited));
}

#[test]
fn an_immortal_in_a_cgroup_ends_the_ladder_too() {
    for guest in [false, true] {
        let mut world = World { cgroup: true, guest, ..World::new(&[(1, Nature::Immortal)]) };
        world.run(Ladder::server(Signal::Term, GRACE), &[1]);
        assert!(world.now - world.start <= GRACE + KILL_WINDOW * 3, "{guest}: {:?}", world.now - world.start);
    }
}

/// The cgroup is emptied without anybody in doubt: they were neither signalled nor seen to survive a signal.
#[test]
fn who_cannot_be_verified_stays_so_when_the_cgroup_is_emptied() {
    let mut world = World { cgroup: true, ..World::new(&[(1, Nature::Unverifiable), (2, Nature::Immortal)]) };
    let teardown = world.run(Ladder::server(Signal::Term, GRACE), &[1, 2]);
    assert_eq!(world.emptied, 1);
    let states: Vec<_> = teardown.targets().map(|(_, state)| state.clone()).collect();
    let doubt = State::Denied(OutcomeKind::Unverifiable, String::new());
    assert_eq!(states, [doubt, State::Alive { signalled: true, blocked: None }]);
}

#[test]
fn a_table_that_does_not_stand_still_is_not_taken_for_an_empty_one() {
    // It settles within the grace: nobody is killed.
    let mut world = World { hops: 5, ..World::new(&[(1, Nature::Plain)]) };
    let teardown = world.run(Ladder::server(Signal::Term, GRACE), &[1]);
    assert_eq!((world.hops, teardown.escalated()), (0, false));
    // It never does: the cgroup is emptied, or it is given up in time.
    for (cgroup, emptied) in [(true, 1), (false, 0)] {
        let mut world = World { hops: u32::MAX, cgroup, ..World::new(&[(1, Nature::Plain)]) };
        world.run(Ladder::server(Signal::Term, GRACE), &[1]);
        assert_eq!((world.emptied, world.hops == 0), (emptied, cgroup));
        assert!(world.now - world.start <= GRACE + KILL_WINDOW, "{:?}", world.now - world.start);
    }
}

/// Somebody is found only when all stand still: who is killed with the others is in the outcomes, too.
#[test]
fn whoever_is_found_while_the_cgroup_is_emptied_has_an_outcome() {
    let now = Instant::now();
    let deaf = Ladder { grace: Duration::ZERO, kill_window: Duration::ZERO, ..Ladder::terminal(Duration::ZERO) };
    let mut teardown = Teardown::new(deaf, [identity(2)]).with_cgroup(true);
    let scanned =
        |raws: &[i32]| Event::Scanned { members: raws.iter().map(|raw| identity(*raw)).collect(), complete: true };
    loop {
        match teardown.poll_step(now) {
            Step::Signal(target, signal) => teardown.handle(Event::Delivered(target, signal)),
            Step::Rescan(_) => teardown.handle(scanned(&[2])),
            Step::Empty => break,
            Step::Wait(_) | Step::Done => panic!("the cgroup is not emptied"),
        }
    }
    teardown.handle(scanned(&[2, 3]));
    for raw in [2, 3] {
        teardown.handle(Event::Delivered(identity(raw), Signal::Kill));
    }
    for identity in teardown.alive() {
        teardown.handle(Event::Exited(identity));
    }
    let states: Vec<_> = teardown.targets().map(|(identity, state)| (identity.pid.raw(), state.clone())).collect();
    assert_eq!(states, [(2, State::Exited), (3, State::Exited)]);
}

/// Answers everything but waits until the machine waits, and returns until when.
fn settle(teardown: &mut Teardown, world: &mut World) -> Step {
    loop {
        match teardown.poll_step(world.now) {
            Step::Signal(target, signal) => {
                let event = world.signal(&target, signal);
                teardown.handle(event);
            }
            Step::Rescan(_) => {
                let alive = world.natures.keys().filter(|raw| !world.dead.contains(raw));
                let members = alive.map(|raw| identity(*raw)).collect();
                teardown.handle(Event::Scanned { members, complete: true });
            }
            step @ (Step::Wait(_) | Step::Empty | Step::Done) => return step,
        }
    }
}

#[test]
fn a_grace_does_not_end_while_it_is_held() {
    let mut world = World::new(&[(1, Nature::IgnoresTerm)]);
    let mut teardown = Teardown::new(Ladder::server(Signal::Term, GRACE), [identity(1)]);
    settle(&mut teardown, &mut world);
    teardown.handle(Event::Held(world.start + GRACE * 50));
    for _ in 0..49 {
        world.now += GRACE;
        assert!(matches!(settle(&mut teardown, &mut world), Step::Wait(_)));
        assert!(!world.sent.contains(&(1, Signal::Kill)) && !teardown.escalated());
    }
    // The bound is the machine's own: nobody has to say that it is over.
    world.now += GRACE;
    settle(&mut teardown, &mut world);
    assert!(world.sent.contains(&(1, Signal::Kill)) && teardown.escalated());
}

#[test]
fn what_is_let_go_on_goes_on_at_once_where_its_grace_is_over() {
    for early in [true, false] {
        let mut world = World::new(&[(1, Nature::IgnoresTerm)]);
        let mut teardown = Teardown::new(Ladder::server(Signal::Term, GRACE), [identity(1)]);
        settle(&mut teardown, &mut world);
        teardown.handle(Event::Held(world.start + GRACE * 50));
        world.now += if early { GRACE / 2 } else { GRACE * 2 };
        settle(&mut teardown, &mut world);
        teardown.handle(Event::Released);
        settle(&mut teardown, &mut world);
        assert_eq!(teardown.escalated(), !early);
        world.now = world.start + GRACE * 2;
        settle(&mut teardown, &mut world);
        assert!(teardown.escalated());
    }
}

#[test]
fn who_ends_by_itself_while_it_is_held_ends_the_stop() {
    let mut world = World::new(&[(1, Nature::IgnoresTerm)]);
    let mut teardown = Teardown::new(Ladder::server(Signal::Term, GRACE), [identity(1)]);
    settle(&mut teardown, &mut world);
    teardown.handle(Event::Held(world.start + GRACE * 50));
    world.now += GRACE * 3;
    settle(&mut teardown, &mut world);
    world.dead.push(1);
    teardown.handle(Event::Exited(identity(1)));
    assert_eq!(settle(&mut teardown, &mut world), Step::Done);
    assert!(!teardown.escalated() && !world.sent.contains(&(1, Signal::Kill)));
}

/// The look before a KILL takes a while.
#[test]
fn a_hold_during_the_last_look_holds() {
    let mut world = World::new(&[(1, Nature::IgnoresTerm)]);
    let mut teardown = Teardown::new(Ladder::server(Signal::Term, GRACE), [identity(1)]);
    settle(&mut teardown, &mut world);
    world.now += GRACE;
    assert_eq!(teardown.poll_step(world.now), Step::Rescan(Depth::Host));
    teardown.handle(Event::Scanned { members: vec![identity(1)], complete: true });
    teardown.handle(Event::Held(world.now + GRACE));
    assert!(matches!(settle(&mut teardown, &mut world), Step::Wait(_)));
    assert!(!teardown.escalated() && !world.sent.contains(&(1, Signal::Kill)));
    teardown.handle(Event::Released);
    settle(&mut teardown, &mut world);
    assert!(world.sent.contains(&(1, Signal::Kill)));
}

#[test]
fn a_kill_at_once_cannot_be_held() {
    let mut world = World::new(&[(1, Nature::IgnoresTerm)]);
    let ladder = Ladder { force: true, ..Ladder::server(Signal::Term, GRACE) };
    let mut teardown = Teardown::new(ladder, [identity(1)]);
    teardown.handle(Event::Held(world.now + GRACE));
    settle(&mut teardown, &mut world);
    assert_eq!(world.sent, [(1, Signal::Kill)]);
}

#[test]
fn who_tends_a_container_ends_after_it() {
    use Signal::{Kill, Stop, Term};
    let check = |natures: &[(i32, Nature)], force: bool, sent: &[(i32, Signal)], ends: bool| {
        let mut world = World::new(natures);
        world.tender = Some(1);
        let ladder = Ladder { first: vec![Term], force, ..Ladder::server(Term, GRACE) };
        let raws: Vec<i32> = natures.iter().map(|(raw, _)| *raw).collect();
        let teardown = world.run(ladder, &raws);
        assert_eq!(world.sent, sent, "{raws:?}, {force}");
        assert_eq!(!teardown.is_alive(&identity(1)), ends, "{raws:?}, {force}");
    };
    // It is never signalled where it ends by itself.
    check(&[(1, Nature::IgnoresTerm), (2, Nature::Plain)], false, &[(2, Term)], true);
    check(&[(1, Nature::IgnoresTerm), (2, Nature::IgnoresTerm)], false, &[(2, Term), (2, Kill)], true);
    check(&[(1, Nature::IgnoresTerm), (2, Nature::IgnoresTerm)], true, &[(2, Kill)], true);
    // A container that cannot be ended does not save it.
    let once_more = [(2, Stop), (2, Kill)];
    let all = [&[(2, Term), (2, Kill), (1, Stop), (2, Stop), (1, Kill), (2, Kill)], &once_more[..]].concat();
    check(&[(1, Nature::IgnoresTerm), (2, Nature::Immortal)], false, &all, true);
}

#[test]
fn who_tends_nothing_any_more_gets_kill_after_the_grace() {
    let mut world = World::new(&[(1, Nature::IgnoresTerm)]);
    let mut teardown = Teardown::new(Ladder::server(Signal::Term, GRACE), [identity(1)]);
    teardown.handle(Event::Tends(identity(1)));
    assert_eq!(settle(&mut teardown, &mut world), Step::Wait(world.start + FIRST_LOOK));
    assert_eq!(world.sent, []);
    world.now += GRACE;
    settle(&mut teardown, &mut world);
    assert_eq!(world.sent, [(1, Signal::Kill)]);
}
