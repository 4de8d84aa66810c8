//! The top layer: arguments, configuration, the runtime, and the four faces of it.

pub mod args;
pub mod attention;
pub mod batch;
mod branch;
pub mod catalog;
pub mod cli;
pub mod cockpit;
pub mod command;
pub mod config;
mod configure;
pub mod contract;
pub mod cookbook;
pub mod draft;
pub mod error;
pub mod event;
mod follow;
mod foreground;
mod notice;
mod notify;
mod nvml;
pub mod paths;
pub mod phase;
mod plain;
mod preview;
pub mod prompt;
mod report;
pub mod runtime;
pub mod schema;
pub mod start;
pub mod tui;
pub mod why;
mod wording;

/// The hidden subcommand that is the screen itself; what a person starts is its parent, for job control.
pub const COCKPIT: &str = "__cockpit";

/// The hidden subcommand that writes what tmux pipes to it into a session's log.
pub const LOG_WRITER: &str = "__log";

/// The hidden subcommand that asks NVIDIA's library for the GPU memory of processes.
const NVML: &str = "__nvml";
