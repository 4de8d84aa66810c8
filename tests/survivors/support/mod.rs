//! What every test stands on: a world of its own, a ledger, a client of the batch, and the checks.

mod aftermath;
mod batch;
mod check;
mod fixtures;
mod ledger;
mod world;

pub(crate) use aftermath::settle;
pub(crate) use batch::Batch;
pub(crate) use check::{Ending, assert_ended, came_back, pids, rows};
pub(crate) use ledger::{Entry, Held, Ledger, eventually, process_state};
pub(crate) use world::{
    Bystanders, CGROUP, Filter, Host, Launch, Session, World, all_have_cgroups, is_root, python, runs, skip,
};

/// How long anything may take before a test gives up. Nothing is measured by it.
pub(crate) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(40);
