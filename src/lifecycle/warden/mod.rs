//! The three small stages of a launch, and the gate between them and the manager.
//!
//! - **PTY**: manager -> *warden* (own kernel session, no terminal) -> *trampoline* (session leader of
//!   the terminal) = the workload after its exec.
//! - **tmux**: *front* (root of the pane) -> *warden* (leaves the pane's kernel session) -> *trampoline*.
//!
//! All are hidden subcommands of the one binary, dispatched before anything else is set up. The warden
//! stands outside the workload's kernel session and is the child subreaper of its descendants
//! (prctl(2), `PR_SET_CHILD_SUBREAPER`), so that a daemon comes back to it instead of to init. The
//! workload does not run before its tether is on disk: the trampoline waits at the [`Gate`]. A warden that
//! starts its workload again does so by the same rule (`again`); in tmux it leaves an *usher* in the pane.

mod again;
mod front;
mod gate;
mod keeper;
mod leash;
mod nudge;
mod resume;
mod trampoline;
mod usher;
mod wire;

use std::ffi::OsString;

pub use gate::{Gate, GateError, Lifeline, Waiting};
pub use leash::start_leashed;
pub use nudge::nudge;
pub use wire::{Orders, Workspace};

use super::failpoint;
use super::inspect::own_program;

/// The hidden subcommands, as `argv[1]`.
pub const FRONT: &str = "__front";
/// See [`FRONT`].
pub const WARDEN: &str = "__warden";
/// See [`FRONT`].
const TRAMPOLINE: &str = "__trampoline";
/// See [`FRONT`].
const USHER: &str = "__usher";

/// The hidden subcommand of the layer above that shows a notice in tmux: state directory, session, seconds left.
pub const NOTICE: &str = "__notice";
/// Becomes a helper that must not outlive us; no stage of a launch.
const LEASH: &str = "__leash";

/// The exit status of a stage that could not do its part: no gate, no tether, no workload.
pub const NOT_LAUNCHED: u8 = 125;

/// Runs a stage if `arguments` (without the program's name) name one.
pub fn dispatch(arguments: &[OsString]) -> Option<u8> {
    let (stage, rest) = arguments.split_first()?;
    match stage.to_str()? {
        FRONT => Some(front::run(rest)),
        WARDEN => Some(keeper::run(rest)),
        TRAMPOLINE => Some(trampoline::run(rest)),
        USHER => Some(usher::run()),
        LEASH => Some(leash::run(rest)),
        _ => None,
    }
}

/// Returns the command that starts a front or a warden which will come to this gate.
pub fn stage_command(stage: &str, host: HostStage, gate: &Gate) -> std::io::Result<Vec<OsString>> {
    let program = own_program()?.into_os_string();
    let command = vec![program, stage.into(), host.name().into(), gate.path().into()];
    Ok(if stage == FRONT { failpoint::in_a_pane(command) } else { command })
}

/// Where a warden stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostStage {
    /// Below the manager; the gate's connection is its lifeline.
    Pty,
    /// Below a front in a tmux pane; the session outlives its manager.
    Tmux,
}

impl HostStage {
    const fn name(self) -> &'static str {
        match self {
            Self::Pty => "pty",
            Self::Tmux => "tmux",
        }
    }

    fn parse(text: &OsString) -> Option<Self> {
        [Self::Pty, Self::Tmux].into_iter().find(|host| text == host.name())
    }
}
