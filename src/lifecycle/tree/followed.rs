//! A tree that is looked at again and again.
//!
//! Whoever was pinned stays pinned: as long as a pidfd says that its process lives, the kernel gives its pid to nobody
//! else, so its identity need not be read again. In a tree where nobody came, left or changed place, a look costs
//! one read of each member's stat and one of each list of children. Everything else is captured anew.
//!
//! This is for watching. A stop captures for itself.

use std::collections::BTreeSet;

use super::{Aside, Captured, Depth, Scope, look};
use crate::lifecycle::authority::Pinned;
use crate::lifecycle::descriptors;
use crate::lifecycle::guard::Guard;
use crate::lifecycle::identity::{Identity, Pid};
use crate::lifecycle::inspect::{Facts, Inspector};
use crate::lifecycle::kill::which_ended;
use crate::lifecycle::leaf::Leaf;

/// Looks after which a tree is captured anew: command lines and the sockets by which kept daemons are known may have
/// changed, and nothing tells of that.
const LOOKS_MAX: u32 = 10;

/// A captured tree, with what the next look needs.
#[derive(Debug)]
pub struct Followed {
    scope: Scope,
    guard: Guard,
    captured: Captured,
    aside: Aside,
    pids: BTreeSet<Pid>,
    looks: u32,
}

impl Followed {
    /// Captures the trees of a session.
    pub fn capture(scope: Scope, guard: Guard, inspector: &Inspector) -> Self {
        let (captured, aside) = look(&scope, Depth::Trees, &guard, inspector);
        let all = captured.members.iter().chain(&captured.supervisors).map(|member| &member.pinned);
        let pids = all.chain(&aside.others).map(|pinned| pinned.identity().pid).collect();
        Self { scope, guard, captured, aside, pids, looks: 0 }
    }

    /// Returns the tree as it was last seen.
    pub const fn captured(&self) -> &Captured {
        &self.captured
    }

    /// Tells whether a process is a member.
    pub fn holds(&self, claim: &Identity) -> bool {
        self.captured.members.iter().any(|member| claim.names(member.pinned.identity()))
    }

    /// Tells whether it is worth the descriptors to follow this tree: everybody is held, and there are more to spare.
    pub fn is_worth_it(&self) -> bool {
        let Captured { members, supervisors, unbound, blind, complete } = &self.captured;
        let mut all = members.iter().chain(supervisors).map(|member| &member.pinned).chain(&self.aside.others);
        *complete
            && !blind
            && unbound.is_empty()
            && !self.aside.lists.is_empty()
            && all.all(|pinned| pinned.pidfd().is_some())
            && descriptors::are_ample()
    }

    /// Looks again. `true`: it is still the tree that it was, its facts are new, and all of it was alive after they
    /// had been read. `false`: it is to be captured anew.
    pub fn look_again(&mut self, scope: &Scope, guard: &Guard, inspector: &Inspector) -> bool {
        self.looks += 1;
        if self.looks >= LOOKS_MAX || self.scope != *scope || self.guard != *guard {
            return false;
        }
        for member in &mut self.captured.members {
            let before = Place::of(member.pinned.facts());
            if !member.pinned.read_again(inspector) || Place::of(member.pinned.facts()) != before {
                return false;
            }
        }
        let mut listed = Vec::new();
        for list in &self.aside.lists {
            inspector.children(list, &mut listed);
        }
        match self.aside.leaf.as_ref().map(Leaf::pids) {
            Some(Ok(pids)) => listed.extend(pids),
            Some(Err(_)) => return false,
            None => {}
        }
        listed.iter().all(|pid| self.pids.contains(pid)) && self.all_live()
    }

    fn all_live(&self) -> bool {
        let Captured { members, supervisors, .. } = &self.captured;
        let all = members.iter().chain(supervisors).map(|member| &member.pinned).chain(&self.aside.others);
        let pidfds: Vec<_> = all.map(Pinned::pidfd).collect();
        !which_ended(&pidfds).contains(&true)
    }
}

/// What says where a process is in the tree, and what it is.
#[derive(PartialEq, Eq)]
struct Place {
    ppid: i32,
    pgid: i32,
    sid: i32,
    /// The lists of children of several threads are found anew.
    alone: bool,
    ended: bool,
    comm: Vec<u8>,
}

impl Place {
    fn of(facts: &Facts) -> Self {
        let Facts { ppid, pgid, sid, comm, threads, .. } = facts;
        Self { ppid: *ppid, pgid: *pgid, sid: *sid, alone: *threads <= 1, ended: facts.ended(), comm: comm.clone() }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
    use std::time::Duration;

    use super::*;

    /// A shell that does what it is told.
    struct Told {
        child: Child,
        stdin: ChildStdin,
        stdout: BufReader<ChildStdout>,
    }

    impl Told {
        fn new() -> Self {
            let mut command = Command::new("setsid");
            let mut child = command.arg("sh").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
            let mut told = Self { child, stdin, stdout: BufReader::new(stdout) };
            told.run(":");
            // A token counts from the tick after its start.
            std::thread::sleep(Duration::from_millis(30));
            told
        }

        /// Has it run a line.
        fn run(&mut self, line: &str) {
            writeln!(self.stdin, "{line}\necho done").unwrap();
            let mut answer = String::new();
            self.stdout.read_line(&mut answer).unwrap();
            std::thread::sleep(Duration::from_millis(30));
        }

        fn scope(&self, inspector: &Inspector) -> Scope {
            let pid = Pid::new(i32::try_from(self.child.id()).unwrap()).unwrap();
            let crate::lifecycle::authority::Pin::Held(pinned) = Pinned::open(inspector, pid) else { panic!("{pid}") };
            Scope { workload: Some(pinned.identity().clone()), ..Scope::default() }
        }
    }

    impl Drop for Told {
        fn drop(&mut self) {
            writeln!(self.stdin, "kill -9 $! 2>/dev/null; exit").ok();
            self.child.wait().ok();
        }
    }

    /// What a look says, and how many members there are; a tree that has changed is captured anew, as in use.
    fn look(tree: &mut Followed, scope: &Scope, inspector: &Inspector) -> (bool, usize) {
        let guard = Guard::new(inspector);
        let still = tree.look_again(scope, &guard, inspector);
        if !still {
            *tree = Followed::capture(scope.clone(), guard, inspector);
        }
        (still, tree.captured().members.len())
    }

    #[test]
    fn whoever_comes_goes_or_moves_ends_a_look() {
        let inspector = Inspector::open(None).unwrap();
        let mut shell = Told::new();
        let scope = shell.scope(&inspector);
        let mut tree = Followed::capture(scope.clone(), Guard::new(&inspector), &inspector);
        assert!(tree.is_worth_it() && tree.holds(scope.workload.as_ref().unwrap()));
        assert_eq!(look(&mut tree, &scope, &inspector), (true, 1));
        shell.run("sleep 300 &");
        assert_eq!(look(&mut tree, &scope, &inspector), (false, 2), "somebody came");
        assert_eq!(look(&mut tree, &scope, &inspector), (true, 2));
        shell.run("kill $!; wait $! 2>/dev/null");
        assert_eq!(look(&mut tree, &scope, &inspector), (false, 1), "somebody has left");
        assert_eq!(look(&mut tree, &scope, &inspector), (true, 1));
        shell.run("sh -c 'kill -STOP $$; exec setsid sleep 300' &");
        assert_eq!(look(&mut tree, &scope, &inspector), (false, 2));
        assert_eq!(look(&mut tree, &scope, &inspector), (true, 2));
        shell.run("kill -CONT $!");
        assert_eq!(
            look(&mut tree, &scope, &inspector),
            (false, 2),
            "its parent is the same, its kernel session is not"
        );
        assert_eq!(look(&mut tree, &scope, &inspector), (true, 2));
        let other = Scope { sid: Some(1), ..scope };
        assert!(!look(&mut tree, &other, &inspector).0, "another question");
    }

    #[test]
    fn a_look_brings_new_facts_and_is_not_for_ever() {
        let inspector = Inspector::open(None).unwrap();
        let mut shell = Told::new();
        let scope = shell.scope(&inspector);
        let mut tree = Followed::capture(scope.clone(), Guard::new(&inspector), &inspector);
        let ticks = |tree: &Followed| tree.captured().members[0].pinned.facts().cpu_ticks.unwrap();
        let before = ticks(&tree);
        shell.run("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done");
        assert!(look(&mut tree, &scope, &inspector).0);
        assert!(ticks(&tree) > before);
        let looks = std::iter::from_fn(|| look(&mut tree, &scope, &inspector).0.then_some(())).take(100).count();
        assert!(looks < 10, "what no look can see is looked at from time to time");
    }

    #[test]
    fn an_ended_member_is_never_taken_for_a_living_one() {
        let inspector = Inspector::open(None).unwrap();
        let mut shell = Told::new();
        let scope = shell.scope(&inspector);
        let guard = Guard::new(&inspector);
        let mut tree = Followed::capture(scope.clone(), guard.clone(), &inspector);
        // A zombie keeps its pid, its parent and its stat.
        shell.child.kill().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert!(!tree.look_again(&scope, &guard, &inspector));
    }
}
