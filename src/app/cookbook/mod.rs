//! What Cookbook (the web application of odysseus) has on disk: its tasks, its presets, and what it writes down of
//! processes. Used by `runtime`, and only where a data directory is configured.
//!
//! - [`state`], [`pane`], [`preset`], [`ledger`] and [`legacy`] are pure.
//! - [`mod@file`] reads the state file, and replaces it.
//!
//! Invariants, as absences:
//! - A task is never ownership: it names a tmux session and no process.
//! - Nothing of the state file changes but the status of one task that was stopped, byte for byte.
//! - No other file of it is ever written.

pub mod file;
pub mod ledger;
pub mod legacy;
pub mod pane;
pub mod preset;
pub mod state;
