//! The zoo: seeded trees of every awkward kind at once, in a PTY and in tmux, with and without a cgroup, among
//! bystanders with the same command line and beside other sessions of the same tmux server.
//!
//! The ledger of a tree decides: who is in it and lives when the stop is asked for is in the receipt with a true
//! outcome, nobody is alive when it says `dead`, and nobody else was signalled. `ZOO_TREES` trees are grown in all
//! (60 by default, `ZOO_TREES=1000` is the long run), or the one of `ZOO_SEED`, as often as `ZOO_TREES` says.

mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{
    Batch, CGROUP, Entry, Held, Host, Launch, Ledger, Session, World, all_have_cgroups, eventually, pids,
    process_state, python, rows, skip,
};
use tree::{Kind, Tree};

/// Trees that stand at once, twice: those that are being stopped, and those that must not notice.
const WAVE: usize = 6;
const BYSTANDERS: usize = 50;
const SIBLINGS: usize = 10;
/// Somebody in nearly every tree needs a KILL.
const GRACE_S: f64 = 0.25;

#[test]
fn in_a_pty() {
    Zoo::run("in_a_pty", Host::Pty, false, 0);
}

#[test]
fn in_tmux() {
    Zoo::run("in_tmux", Host::Tmux, false, 1);
}

#[test]
fn in_a_pty_with_a_cgroup() {
    Zoo::run("in_a_pty_with_a_cgroup", Host::Pty, true, 2);
}

#[test]
fn in_tmux_with_a_cgroup() {
    Zoo::run("in_tmux_with_a_cgroup", Host::Tmux, true, 3);
}

/// Returns the seeds of one of the four ways.
fn seeds(lane: u64) -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    match (number("ZOO_SEED"), number("ZOO_TREES")) {
        (Some(seed), times) => (0..times.unwrap_or(1)).map(|_| seed).collect(),
        (None, trees) => {
            let all: Range<u64> = 0..trees.unwrap_or(60);
            all.filter(|seed| seed % 4 == lane).collect()
        }
    }
}

/// Says which tree a failure is about, and how it is grown again.
struct Naming<'a>(&'a str, &'a Tree);

impl Drop for Naming<'_> {
    #[expect(clippy::print_stderr, reason = "whoever reads the failure is to replay it")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self(way, tree) = self;
            eprintln!("{tree}replay: ZOO_SEED={} cargo test --test survivors zoo::{way} -- --exact", tree.seed);
        }
    }
}

struct Zoo {
    way: &'static str,
    host: Host,
    /// Sessions were asked to have a cgroup, and got one.
    cgroup: bool,
    batch: Batch,
    bystanders: Bystanders,
    siblings: Vec<Held>,
    world: World,
    argv: [String; 4],
}

/// Processes with the words of a tree that are no tree of ours. The first is in the group of this very test.
struct Bystanders {
    first: Child,
    ledger: Ledger,
    all: BTreeSet<i64>,
}

impl Bystanders {
    #[track_caller]
    fn assert_untouched(&mut self) {
        assert_eq!(self.first.try_wait().unwrap(), None, "a process of our own group was ended");
        let alive = self.ledger.alive();
        assert_eq!(alive.len(), BYSTANDERS, "a bystander was ended");
        let stopped = |entry: &&Entry| matches!(process_state(entry.pid), Some('T' | 't'));
        assert_eq!(alive.iter().find(stopped), None, "a bystander was stopped");
    }
}

impl Drop for Bystanders {
    fn drop(&mut self) {
        self.ledger.end_all();
        self.first.kill().ok();
        self.first.wait().ok();
    }
}

/// A tree that stands.
struct Planted {
    tree: Tree,
    session: Session,
    ledger: Ledger,
    enough: PathBuf,
    /// Who lives, and stays until it is told to end.
    before: Vec<Entry>,
}

impl Planted {
    /// Those of a storm come and go.
    fn stays(entry: &Entry) -> bool {
        !["-hopper", ".hop", ".again", ".born"].iter().any(|end| entry.role.ends_with(end))
    }

    #[track_caller]
    fn assert_untouched(&self) {
        let alive: Vec<Entry> = self.ledger.alive().into_iter().filter(Self::stays).collect();
        assert_eq!(alive, self.before, "the stop of another tree ended somebody of\n{}", self.tree);
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        std::fs::write(&self.enough, "").ok();
        self.ledger.end_all();
    }
}

/// What all trees of a run came to.
#[derive(Debug, Default)]
struct Tally {
    trees: usize,
    processes: usize,
    escalated: usize,
    /// Nobody said that they are dead.
    unsettled: usize,
}

impl Zoo {
    #[expect(clippy::print_stderr, reason = "a long run says what it came to")]
    fn run(way: &'static str, host: Host, cgroup: bool, lane: u64) {
        let seeds = seeds(lane);
        if seeds.is_empty() {
            return;
        }
        let begun = Instant::now();
        let mut zoo = Self::open(way, host, cgroup);
        let mut tally = Tally::default();
        let mut standing: Vec<Planted> = Vec::new();
        for (wave, seeds) in seeds.chunks(WAVE).enumerate() {
            let next = zoo.plant(wave, seeds);
            zoo.fell(&standing, &next, &mut tally);
            standing = next;
        }
        zoo.fell(&standing, &[], &mut tally);
        let code = zoo.batch.finish().code();
        assert_eq!(code, Some(if tally.unsettled == 0 { 0 } else { 3 }), "{tally:?}");
        zoo.bystanders.assert_untouched();
        eprintln!("zoo::{way}: {tally:?} in {:.1?}", begun.elapsed());
    }

    fn open(way: &'static str, host: Host, cgroup: bool) -> Self {
        let world = World::new();
        let cgroup = cgroup || all_have_cgroups();
        if cgroup {
            world.recipes(CGROUP);
        }
        std::fs::write(world.path("zoo.py"), include_str!("zoo.py")).unwrap();
        let script = world.path("zoo.py").to_str().unwrap().to_owned();
        let argv = [python().to_owned(), "-I".to_owned(), "-S".to_owned(), script];
        let mut batch = world.batch();
        let bystanders = Self::gather(&world, &argv);
        let siblings = Self::siblings(&world, &mut batch);
        Self { way, host, cgroup, batch, bystanders, siblings, world, argv }
    }

    fn gather(world: &World, argv: &[String]) -> Bystanders {
        let ledger = Ledger::new(world.path("bystanders"));
        let mut command = world.command(argv);
        command.env("ZOO_LEDGER", &ledger.path).env("ZOO_NAP", &world.nap);
        command.env("ZOO_BYSTANDERS", BYSTANDERS.to_string()).stdin(Stdio::null());
        let first = command.spawn().unwrap();
        let mut bystanders = Bystanders { first, ledger, all: BTreeSet::new() };
        eventually("the bystanders", || bystanders.ledger.entries().len() == BYSTANDERS);
        let pids = bystanders.ledger.entries().into_iter().map(|entry| i64::from(entry.pid));
        bystanders.all = pids.chain([i64::from(bystanders.first.id())]).collect();
        bystanders
    }

    /// Opens the other sessions: half of them ours, half of them anybody's.
    fn siblings(world: &World, batch: &mut Batch) -> Vec<Held> {
        // Longer than any run.
        let argv = ["sleep", "864000"];
        for number in 0..SIBLINGS {
            if number % 2 == 0 {
                world.launch(batch, &Launch { host: Host::Tmux, kind: "serve", grace_s: 0.2, argv: &argv });
            } else {
                let made = world.tmux(&["new-session", "-d", "-s", &format!("sibling{number}"), argv[0], argv[1]]);
                assert!(made.status.success(), "{made:?}");
            }
        }
        let output = world.tmux(&["list-panes", "-a", "-F", "#{pane_pid}"]);
        let pids = String::from_utf8(output.stdout).unwrap();
        let roots: Vec<Held> =
            pids.lines().map(|pid| Held::open(Entry::of_pid(pid.parse().unwrap(), "sibling").unwrap())).collect();
        assert_eq!(roots.len(), SIBLINGS, "{pids}");
        roots
    }

    /// Launches trees all at once, and waits until each of them stands.
    fn plant(&mut self, wave: usize, seeds: &[u64]) -> Vec<Planted> {
        let mut asked = Vec::new();
        for (place, seed) in seeds.iter().enumerate() {
            let tree = Tree::of_seed(*seed);
            let ledger = Ledger::new(self.world.path(&format!("tree{wave}.{place}")));
            let request = json!({
                "cmd": "launch", "command": self.argv, "kind": if tree.is_agent { "agent" } else { "serve" },
                "host": self.host.name(), "grace_s": GRACE_S, "async": true, "env": {
                    "ZOO_TREE": tree.words(), "ZOO_LEDGER": ledger.path.to_str(), "ZOO_NAP": self.world.nap
                },
            });
            let id = self.batch.send(request.clone());
            asked.push((tree, ledger, request, id));
        }
        let mut planted = Vec::new();
        for (tree, ledger, request, id) in asked {
            let naming = Naming(self.way, &tree);
            let mut answer = self.batch.answer(id);
            for _ in 0..3 {
                // On a starved machine a launch comes to nothing, and nobody has run.
                if is_starved(&answer) {
                    assert_eq!(ledger.entries(), [], "a launch that failed: {answer}");
                    answer = self.batch.request(request.clone());
                }
            }
            assert_eq!(answer["ok"], true, "{answer}");
            let session = self.world.launched(&mut self.batch, &answer["result"]);
            drop(naming);
            let enough = ledger.path.with_extension(format!("{}.enough", ledger.path.extension().unwrap().display()));
            planted.push(Planted { tree, session, ledger, enough, before: Vec::new() });
        }
        for planted in &mut planted {
            let naming = Naming(self.way, &planted.tree);
            planted.before = stand(&planted.tree, &planted.ledger);
            drop(naming);
            if self.cgroup && self.world.tether(&planted.session.id).unwrap()["cgroup"].is_null() {
                skip("no cgroup v2 that is delegated to us; the trees have none");
                self.cgroup = false;
            }
        }
        planted
    }

    /// Stops trees all at once, and checks that they, and nobody else, have ended.
    fn fell(&mut self, trees: &[Planted], others: &[Planted], tally: &mut Tally) {
        let stop = |id: &str| json!({ "cmd": "stop", "session": id, "async": true });
        let asked: Vec<u64> = trees.iter().map(|tree| self.batch.send(stop(&tree.session.id))).collect();
        for (planted, id) in trees.iter().zip(asked) {
            let naming = Naming(self.way, &planted.tree);
            let mut answer = self.batch.answer(id);
            for _ in 0..3 {
                // tmux did not answer, so that nobody can tell who belongs to the session: nobody was signalled.
                if is_starved(&answer) {
                    planted.assert_untouched();
                    answer = self.batch.request(json!({ "cmd": "stop", "session": planted.session.id }));
                }
            }
            let alive = planted.ledger.alive();
            assert_eq!(answer["ok"], true, "{answer:#}");
            self.check(planted, &answer["result"], &alive, trees, others, tally);
            drop(naming);
        }
        self.bystanders.assert_untouched();
        assert!(self.siblings.iter().all(Held::is_alive), "a session beside them was ended");
        others.iter().for_each(Planted::assert_untouched);
    }

    #[track_caller]
    fn check(
        &mut self,
        planted: &Planted,
        receipt: &Value,
        alive: &[Entry],
        trees: &[Planted],
        others: &[Planted],
        tally: &mut Tally,
    ) {
        let Planted { tree, session, ledger, .. } = planted;
        let is_dead = receipt["dead"] == true;
        assert!(!is_dead || alive.is_empty(), "said to be dead, and alive: {alive:?}\n{receipt:#}");
        let may_stay_unknown = tree.has(Kind::Hopper) && !self.cgroup;
        assert!(is_dead || may_stay_unknown, "alive {alive:?}, and not said to be dead\n{receipt:#}");
        let written: BTreeMap<(i64, String), Entry> =
            ledger.entries().into_iter().map(|entry| ((i64::from(entry.pid), entry.token()), entry)).collect();
        let key = |row: &Value| (row["pid"].as_i64().unwrap(), row["start_token"].as_str().unwrap_or("").to_owned());
        let captured: BTreeSet<(i64, String)> = rows(receipt, "captured").map(key).collect();
        let outcomes: BTreeMap<(i64, String), &str> =
            rows(receipt, "outcomes").map(|row| (key(row), row["outcome"].as_str().unwrap())).collect();
        for entry in &planted.before {
            let key = (i64::from(entry.pid), entry.token());
            assert!(captured.contains(&key), "{entry:?} was not captured\n{receipt:#}");
            assert_eq!(outcomes.get(&key), Some(&"exited"), "{entry:?}\n{receipt:#}");
        }
        let beside: BTreeSet<i64> = self.siblings.iter().map(|held| i64::from(held.entry.pid)).collect();
        let elsewhere = trees.iter().chain(others).filter(|other| other.session.id != session.id);
        let elsewhere: BTreeSet<(i64, String)> = elsewhere
            .flat_map(|other| other.ledger.entries())
            .map(|entry| (i64::from(entry.pid), entry.token()))
            .collect();
        let signals: BTreeSet<(i64, String)> = rows(receipt, "signals").map(key).collect();
        for key in captured.iter().chain(outcomes.keys()).chain(&signals) {
            // Some die before they have written a word.
            assert!(written.contains_key(key) || tree.gives_birth(), "{key:?} is not of the tree\n{receipt:#}");
            assert!(!self.bystanders.all.contains(&key.0), "{key:?} is a bystander\n{receipt:#}");
            assert!(!beside.contains(&key.0), "{key:?} is of a session beside it\n{receipt:#}");
            assert!(!elsewhere.contains(key), "{key:?} is of another tree\n{receipt:#}");
            let strangers = &self.world.strangers;
            let pid = i32::try_from(key.0).unwrap();
            assert!(!strangers.contains(&(pid, key.1.clone())), "{key:?} was there before\n{receipt:#}");
        }
        for row in rows(receipt, "signals") {
            assert!(row["via"] == "pidfd" || (self.cgroup && row["via"] == "cgroup"), "{row}\n{receipt:#}");
        }
        assert!(signals.iter().all(|key| outcomes.contains_key(key)), "a signal without an outcome\n{receipt:#}");
        // Whose first thread has ended has no command line that anybody could look like.
        let is_like = planted.before.iter().any(|entry| !entry.role.ends_with("-zombie"));
        assert!(!is_like || pids(receipt, "lookalikes").is_superset(&self.bystanders.all), "{receipt:#}");
        tally.trees += 1;
        tally.processes += written.len();
        tally.escalated += usize::from(receipt["escalated"] == true);
        if !is_dead {
            tally.unsettled += 1;
            self.check_unsettled(planted, receipt, alive);
            return;
        }
        for empty in ["survivors", "unverified", "refused", "kept", "escapees", "still_held"] {
            assert_eq!(receipt[empty], json!([]), "{empty}\n{receipt:#}");
        }
        assert_eq!(receipt["host_closed"], true, "{receipt:#}");
        let mut containment = vec!["tree", "warden"];
        containment.extend(self.cgroup.then_some("cgroup"));
        assert_eq!(receipt["containment"], json!(containment), "{receipt:#}");
        for supervisor in &session.supervisors {
            assert!(supervisor.ends_within(Duration::from_secs(10)), "front or warden stays\n{receipt:#}");
        }
        if let Some(id) = &session.in_tmux {
            assert!(!self.world.tmux(&["has-session", "-t", id]).status.success(), "{id} is still there");
        }
        assert!(self.world.tether(&session.id).is_none(), "nothing is left to be recorded");
    }

    /// A hopper may be faster than every look: then nobody says that it is dead, and it can still be found.
    fn check_unsettled(&mut self, planted: &Planted, receipt: &Value, alive: &[Entry]) {
        let left: Vec<&Entry> = alive.iter().filter(|entry| Planted::stays(entry)).collect();
        assert!(left.is_empty(), "no hopper, and alive: {left:?}\n{receipt:#}");
        assert!(receipt["dead"].is_null() || !rows(receipt, "survivors").collect::<Vec<_>>().is_empty(), "{receipt:#}");
        assert!(self.world.tether(&planted.session.id).is_some(), "{receipt:#}");
        std::fs::write(&planted.enough, "").unwrap();
        planted.ledger.await_empty();
        let swept = self.batch.ok(json!({ "cmd": "sweep", "session": planted.session.id }));
        assert_eq!(swept["dead"], true, "{swept:#}");
    }
}

/// Whether a machine that has too much to do was too slow for a deadline.
fn is_starved(answer: &Value) -> bool {
    answer["error"]["message"].as_str().is_some_and(|why| why.contains("within"))
}

/// Waits until a tree stands, and returns who lives.
fn stand(tree: &Tree, ledger: &Ledger) -> Vec<Entry> {
    let roles = tree.roles();
    ledger.await_roles(&roles.iter().map(String::as_str).collect::<Vec<_>>());
    for gone in tree.gone() {
        eventually(&format!("the end of {gone}"), || !ledger.is_alive(&gone));
    }
    for (kind, state) in [(Kind::Stopped, 'T'), (Kind::Zombie, 'Z')] {
        for role in tree.roles_of(kind) {
            eventually(&format!("the state {state} of {role}"), || process_state(ledger.of(&role).pid) == Some(state));
        }
    }
    let before: Vec<Entry> = ledger.alive().into_iter().filter(Planted::stays).collect();
    let passing = tree.gone().len() + tree.roles_of(Kind::Hopper).len();
    assert_eq!(before.len() + passing, roles.len(), "somebody is gone: {before:?}");
    before
}
