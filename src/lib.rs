//! cookbook-tui: a terminal cockpit for model servers and agent shells that ends exactly the right
//! processes and can prove it.
//!
//! # The map
//!
//! | layer | what it does | what it never does |
//! |---|---|---|
//! | [`app`] | arguments, configuration, the one runtime and its four faces (screen, plain, batch, subcommands) | signals, or starts a process by itself |
//! | [`pty`] | owned pseudo-terminals and the screens they paint | concludes an exit from the end of the output |
//! | [`tmux`] | one tmux server, by ids, with a deadline for every call | targets a name |
//! | [`lifecycle`] | identities, verdicts, capture, the ladder, receipts, records, the warden | knows of terminals or tmux |
//! | [`text`] | escaping and masking of text that is not ours | reads or writes anything |
//!
//! Imports run one way: `app -> {pty, tmux} -> lifecycle -> text`; `pty` and `tmux` never meet.
//! `tests/house/main.rs` reads the `use` lines and fails on any other edge.
//!
//! # The invariants
//!
//! - A recorded pid is a claim. Only [`lifecycle::authority::authorize`] turns a claim into the right
//!   to signal, by judging a process that it holds; only [`lifecycle::kill::deliver`] uses that right,
//!   and uses it up.
//! - Nobody signals a group, a name, or a bare pid. Our own group and session are refused.
//! - Closing a PTY or a tmux session demands a [`lifecycle::tree::Captured`] tree.
//! - A workload runs only after its [`lifecycle::tether::Tether`] is on disk: the gate demands the
//!   [`lifecycle::store::Durable`] proof.
//! - A question that failed is not an absence: it is `unverifiable`, and shown.
//! - A receipt holds what was observed, never what was intended.
//!
//! Read next: `lifecycle::verdict`, `lifecycle::tree`, `lifecycle::teardown`, `lifecycle::stop`.

#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests hold their own oracles: they start and end their own children")
)]

pub mod app;
pub mod lifecycle;
pub mod pty;
pub mod text;
pub mod tmux;
