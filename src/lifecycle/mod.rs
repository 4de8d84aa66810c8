//! The bottom layer: who a process is, what belongs to a session, and how it is ended.
//!
//! Synchronous; it knows nothing of terminals, tmux or screens. Pure files (`identity`, `verdict`,
//! `plan`, `teardown`, `tether`, `receipt`) decide; the others perform what was decided.

pub mod authority;
pub mod ceiling;
pub mod clock;
pub mod conduct;
mod descriptors;
pub mod door;
pub mod failpoint;
pub mod guard;
pub mod hold;
pub mod identity;
pub mod inspect;
pub mod journal;
mod kept;
pub mod kill;
pub mod leaf;
pub mod plan;
pub mod reap;
pub mod receipt;
pub mod records;
pub mod regular;
pub mod restart;
pub mod rows;
pub mod scope;
pub mod spawn;
pub mod stop;
pub mod store;
pub mod teardown;
mod tender;
pub mod tether;
pub mod tree;
pub mod verdict;
pub mod warden;
