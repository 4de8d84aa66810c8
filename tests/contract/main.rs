//! The outside contract (`docs/design.md`, section 7), held against the real binary: batch, subcommands, exit
//! codes, screens, secrets, files, configuration, inspectors.
//!
//! Nothing here links the library. Every test has its own state directory, runtime directory and tmux server
//! ([`rig`]), believes nobody's word about a death but a pidfd's ([`oracle`]), and ends whatever it started.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "tests hold their own oracles, start and end their own children, and say what they skipped"
)]

mod adopt;
mod attention;
mod batch;
mod client;
mod config;
mod dispositions;
mod doctor;
mod drafts;
mod errors;
mod escapes;
mod events;
mod files;
mod foreground;
mod holds;
mod inspectors;
mod kept;
mod llama;
mod managers;
mod needs;
mod nested_servers;
mod nvml;
mod oracle;
mod orphans;
mod others;
mod pipes;
mod plain;
mod podman;
mod preflight;
mod printed;
mod replaced;
mod resources;
mod rig;
mod schema;
mod screens;
mod secrets;
mod servers;
mod shells;
mod subcommands;
mod typing;
mod unread;
mod upkeep;
mod waits;
