//! The trees of the zoo: one for each seed, the same on every machine.

use std::fmt;

/// What a process of a tree does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Plain,
    /// Leads a process group.
    Group,
    /// Leads a kernel session.
    Session,
    /// Leads a kernel session, and its parent has gone.
    Daemon,
    /// Hears no TERM.
    Deaf,
    /// Hears no HUP.
    Unhung,
    /// Has stopped itself.
    Stopped,
    /// Its first thread has ended, another one lives.
    Zombie,
    /// Forks when it is told to end, and goes or stays.
    Forks,
    /// Has ended, and left its children behind.
    Leaves,
    /// Becomes another program when it is told to end.
    Execs,
    /// Is replaced by its child every few milliseconds.
    Hopper,
    /// A ring of four, who bring each other back.
    Ring,
    /// Opens up like a browser: many helpers with kernel sessions of their own, and some below them.
    Browser,
    /// Such a helper.
    Helper,
    /// Has given root's rights away, where it had them.
    Nobody,
}

impl Kind {
    pub(super) const ALL: [Self; 16] = [
        Self::Plain,
        Self::Group,
        Self::Session,
        Self::Daemon,
        Self::Deaf,
        Self::Unhung,
        Self::Stopped,
        Self::Zombie,
        Self::Forks,
        Self::Leaves,
        Self::Execs,
        Self::Hopper,
        Self::Ring,
        Self::Browser,
        Self::Helper,
        Self::Nobody,
    ];

    pub(super) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Processes that it is at first.
    const fn size(self) -> usize {
        if matches!(self, Self::Ring) { 5 } else { 1 }
    }

    /// Whether it has no children but its own.
    const fn is_leaf(self) -> bool {
        matches!(self, Self::Hopper | Self::Ring)
    }

    /// Whether processes are born of it while it is ended.
    const fn gives_birth(self) -> bool {
        matches!(self, Self::Forks | Self::Hopper | Self::Ring)
    }
}

/// One process of a tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// Index of its parent; -1 for the root.
    pub(super) parent: i32,
    pub(super) kind: Kind,
    /// Which of the ways to do so; 0 to 3.
    pub(super) how: u64,
}

/// A tree.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) seed: u64,
    pub(super) nodes: Vec<Node>,
    /// It is hung up as well as told to end.
    pub(super) is_agent: bool,
}

const SIZE_MAX: usize = 12;
const DEPTH_MAX: usize = 5;

/// splitmix64: small, and the same everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % sides as u64).unwrap()
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())]
    }
}

impl Tree {
    pub(super) fn of_seed(seed: u64) -> Self {
        use Kind::{
            Browser, Daemon, Deaf, Execs, Forks, Group, Hopper, Leaves, Nobody, Plain, Ring, Session, Stopped, Unhung,
            Zombie,
        };
        let mut dice = Dice(seed);
        let size = 1 + dice.roll(SIZE_MAX);
        let is_agent = dice.roll(3) == 0;
        // Neither a root that has gone nor one that stands still lets a session begin.
        let root = dice.pick(&[Plain, Plain, Deaf, Unhung, Zombie, Forks, Execs, Browser]);
        let mut tree = Self { seed, nodes: Vec::new(), is_agent };
        tree.plant(-1, root, &mut dice);
        // One storm at most, or nobody could tell which of them a failure is about.
        let mut storm = match dice.roll(8) {
            0 => Some(Hopper),
            1 => Some(Ring),
            _ => None,
        };
        for _ in 0..4 * SIZE_MAX {
            let left = size.max(tree.size()) - tree.size();
            let grown = storm.take().filter(|kind| kind.size() <= SIZE_MAX - tree.size());
            if left == 0 && grown.is_none() {
                break;
            }
            let kind = grown.unwrap_or_else(|| {
                dice.pick(&[
                    Plain, Group, Session, Daemon, Deaf, Unhung, Stopped, Zombie, Forks, Leaves, Execs, Browser, Nobody,
                ])
            });
            let parent = dice.roll(tree.nodes.len());
            if tree.takes(parent, kind) {
                tree.plant(i32::try_from(parent).unwrap(), kind, &mut dice);
            } else if kind.is_leaf() {
                storm = Some(kind);
            }
        }
        tree
    }

    fn takes(&self, parent: usize, kind: Kind) -> bool {
        let line = self.line(parent);
        // The kernel hangs up a group whose last tie to its session has gone if somebody in it is stopped.
        let hung_up = kind == Kind::Stopped && line.contains(&Kind::Leaves);
        !self.nodes[parent].kind.is_leaf() && line.len() < DEPTH_MAX && !hung_up
    }

    /// Returns the kinds from a node up to the root.
    fn line(&self, from: usize) -> Vec<Kind> {
        let mut line = Vec::new();
        let mut at = i32::try_from(from).unwrap();
        while let Ok(index) = usize::try_from(at) {
            line.push(self.nodes[index].kind);
            at = self.nodes[index].parent;
        }
        line
    }

    fn plant(&mut self, parent: i32, kind: Kind, dice: &mut Dice) {
        let at = self.nodes.len();
        self.nodes.push(Node { parent, kind, how: dice.roll(4) as u64 });
        if kind == Kind::Browser {
            let helpers = 2 + dice.roll(4);
            for _ in 0..helpers {
                if self.size() < SIZE_MAX && self.line(at).len() < DEPTH_MAX {
                    self.plant(i32::try_from(at).unwrap(), Kind::Helper, dice);
                }
            }
        }
    }

    pub(super) fn size(&self) -> usize {
        self.nodes.iter().map(|node| node.kind.size()).sum()
    }

    pub(super) fn depth(&self) -> usize {
        (0..self.nodes.len()).map(|index| self.line(index).len()).max().unwrap()
    }

    pub(super) fn has(&self, kind: Kind) -> bool {
        self.nodes.iter().any(|node| node.kind == kind)
    }

    /// Whether processes are born while it is ended.
    pub(super) fn gives_birth(&self) -> bool {
        self.nodes.iter().any(|node| node.kind.gives_birth())
    }

    /// Returns the name of a node, which is its role in the ledger.
    pub(super) fn role(&self, index: usize) -> String {
        format!("n{index}-{}", self.nodes[index].kind.name())
    }

    /// Returns the roles of all nodes of a kind.
    pub(super) fn roles_of(&self, kind: Kind) -> Vec<String> {
        (0..self.nodes.len()).filter(|index| self.nodes[*index].kind == kind).map(|index| self.role(index)).collect()
    }

    /// Returns the roles that are written down before the tree stands.
    pub(super) fn roles(&self) -> Vec<String> {
        let mut roles: Vec<String> = (0..self.nodes.len()).map(|index| self.role(index)).collect();
        roles.extend(self.roles_of(Kind::Daemon).into_iter().map(|role| format!("{role}.middle")));
        for ring in self.roles_of(Kind::Ring) {
            roles.extend((0..4).map(|seat| format!("{ring}.seat{seat}")));
        }
        roles
    }

    /// Returns the roles that have gone when it stands.
    pub(super) fn gone(&self) -> Vec<String> {
        let middles = self.roles_of(Kind::Daemon).into_iter().map(|role| format!("{role}.middle"));
        self.roles_of(Kind::Leaves).into_iter().chain(middles).collect()
    }

    /// Returns the words from which its program grows it.
    pub(super) fn words(&self) -> String {
        let word = |node: &Node| format!("{}:{}:{}", node.parent, node.kind.name(), node.how);
        self.nodes.iter().map(word).collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, {}:", self.seed, if self.is_agent { "agent" } else { "serve" })?;
        self.show(f, -1, 1)
    }
}

impl Tree {
    fn show(&self, f: &mut fmt::Formatter<'_>, parent: i32, depth: usize) -> fmt::Result {
        for (index, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.parent == parent) {
            writeln!(f, "{:indent$}{} ({})", "", self.role(index), node.how, indent = 2 * depth)?;
            self.show(f, i32::try_from(index).unwrap(), depth + 1)?;
        }
        Ok(())
    }
}

#[test]
fn a_seed_is_one_tree_on_every_machine() {
    let shown: Vec<String> = [1, 17].map(|seed| Tree::of_seed(seed).words()).into();
    assert_eq!(shown, ["-1:execs:3 0:ring:1", "-1:zombie:3 0:group:1 0:session:0 2:daemon:2"]);
}

#[test]
fn trees_are_within_their_bounds_and_of_every_kind() {
    let trees: Vec<Tree> = (0..1000).map(Tree::of_seed).collect();
    for tree in &trees {
        assert!(tree.size() <= SIZE_MAX && tree.depth() <= DEPTH_MAX, "{tree}");
    }
    assert!(trees.iter().any(|tree| tree.size() == SIZE_MAX) && trees.iter().any(|tree| tree.depth() == DEPTH_MAX));
    for kind in Kind::ALL {
        assert!(trees[..60].iter().any(|tree| tree.has(kind)), "no {kind:?} among the first 60");
    }
}
