//! Owned pseudo-terminals: opening, reading, writing, and the screen they paint.
//!
//! This layer knows the lifecycle layer and nothing above it; it never meets tmux. Exit is never
//! concluded from the end of the output: a grandchild can hold the slave for ever.

mod host;
pub mod keys;
pub mod screen;

mod history;
mod log;

pub use host::{Pty, PtyPair, Sink, Watch};
pub use log::{Log, older as older_log, painted as painted_log, read as read_log};
