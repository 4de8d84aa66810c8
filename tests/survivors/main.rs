//! Who survives a stop, and who must: the built binary against process trees of every awkward shape.
//!
//! Each test keeps its own oracle. Every process of a fixture writes its pid and start tick into a
//! ledger; the tests hold pidfds of them, and of bystanders that look the same and must live.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests hold their own oracles")]

mod adopted;
mod ceilings;
mod cookbook;
mod crash;
mod escapees;
mod journal;
mod matrix;
mod own_group;
mod ports;
mod restarts;
mod reuse;
mod storms;
mod support;
mod tmux;
mod users;
