//! What a capture starts from, and how far it looks. Pure data.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::identity::Identity;
use super::receipt::Membership;

/// What is recorded of a session, from which its members follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// The workload: root of the tree, and leader of its kernel session in a PTY.
    pub workload: Option<Identity>,
    /// Our warden of the session: everything below it belongs to the session.
    pub warden: Option<Identity>,
    /// Our front of the session: the root of its first tmux pane.
    pub front: Option<Identity>,
    /// The kernel session that the workload was launched into. Below a warden that lives it counts without its
    /// leader: the warden has watched without a gap, and the kernel does not reuse the number meanwhile.
    pub sid: Option<i32>,
    /// The random marker in the session's environment: a hint that is reported, never a reason to signal.
    pub marker: Option<String>,
    /// The process group that the workload was launched into.
    pub pgid: Option<i32>,
    /// The roots of all panes: bound to identities when tmux named them, and never bare pids, because a stop
    /// lasts long enough for a pid to be reused.
    pub panes: Vec<Identity>,
    /// Identities that an earlier capture bound to the session.
    pub known: Vec<(Identity, BTreeSet<Membership>)>,
    /// `reparented` members that are not members in another way are reported, not ended.
    pub report_escapees: bool,
    /// The cgroup that was made for the session.
    pub cgroup: Option<CgroupRecord>,
    /// Kept daemons that a person chose to end all the same: in this stop, and nobody else.
    pub end_kept: Vec<Identity>,
}

/// Which cgroup a session has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupRecord {
    /// Where it is mounted.
    pub path: PathBuf,
    /// Its inode, which is not used again before the next boot.
    pub inode: u64,
}

/// How much of the process table a capture reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Only our trees: the cost follows them.
    Trees,
    /// The whole host, which also finds members of a kernel session outside the trees.
    Host,
}
