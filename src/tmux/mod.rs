//! tmux, as far as sessions need it: a private server, targets that are ids, answers that are parsed.
//!
//! Called by `app` only. This layer knows tmux and nothing else: it never decides whether something may
//! be ended, never keeps records, and never reads `/proc`. It starts processes through
//! `lifecycle::spawn` and signals nobody.
//!
//! - [`argv`], [`parse`], [`keys`], [`ids`] and [`decoder`] are pure.
//! - [`socket`] asks the kernel who serves a socket, without asking tmux.
//! - [`server`] runs tmux(1), each call with a deadline.
//! - [`control`] is a control-mode client, for following a session without polling; `relay` stands
//!   between it and the server.
//!
//! Invariants, as absences:
//! - No name is ever a target; a target is made from an id that tmux itself gave out.
//! - No failure is ever an absence: see [`TmuxError::is_absence`].
//! - No row is ever skipped: what cannot be parsed is an error that carries it.
//! - No environment reaches the server but the few variables of [`server::environment`].
//!
//! The oldest tmux this works with is 3.2 (control-mode flow control, `-N`, client flags).

pub mod argv;
pub mod control;
pub mod decoder;
mod error;
pub mod ids;
pub mod keys;
pub mod parse;
mod quote;
mod relay;
pub mod server;
pub mod socket;
mod version;

#[cfg(test)]
mod control_tests;
#[cfg(test)]
mod relay_tests;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod tests;

pub use error::{ParseError, TmuxError};
pub use ids::{PaneId, SessionId, WindowId, safe_name};
pub use server::Server;
pub use socket::{Probe, SocketRef};
pub use version::Version;

/// The configuration of our own server (`assets/tmux.conf`). The caller writes it to a file and names that
/// file to [`Server::new`].
pub const CONFIG: &str = include_str!("../../assets/tmux.conf");
