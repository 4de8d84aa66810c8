//! How far a model server has come, and why it failed: decisions over what it printed and what was seen.
//!
//! `runtime` feeds it the bytes of a log and the answers of probes; the configuration adds patterns. Pure:
//! nothing here opens a file or a socket, starts a thread or reads a clock (`tests/house/main.rs` sees to it).
//!
//! | file | what it decides |
//! |---|---|
//! | `words` | the words of a command, in the manner of a shell |
//! | `wrapper` | programs that run another one, and the lines that they hand to a shell |
//! | `port` | where a server listens, as far as its command tells |
//! | `server` | which server a command is, its port and its health probe |
//! | `lines` | the lines of a terminal's output, whatever pieces it comes in |
//! | `clue` | what a line says: the table `assets/patterns.toml`, and its overrides |
//! | `container` | whether a command starts a container, and its ports |
//! | `detect` | a session's phase from its lines |
//! | `fuse` | the phase that is shown, from lines and probe together |
//! | `gguf` | whether a model file is whole, from its header |
//! | `beside` | the files that a server is given beside its model |
//! | `diagnose` | why a server failed: the first cause, not the last line |
//! | `preflight` | what can be told of a server before it is launched |
//! | `kind` | what kind of work a command is, for who has not said it |
//! | `stranger` | whether a process of somebody else looks like a server |
//! | `socket` | what keeps a server from a socket in the file system |
//! | `silent` | what can be told of a failure of which the output says nothing |
//! | `suggest` | the command that would have worked |

mod beside;
mod clue;
mod container;
mod detect;
mod diagnose;
mod fuse;
mod gguf;
mod kind;
mod lines;
mod port;
mod preflight;
mod server;
mod silent;
mod socket;
mod stranger;
mod suggest;
mod words;
mod wrapper;

pub use beside::{Beside, Part, beside};
pub use clue::{Cause, Clue, Says, Table};
pub use container::{Container, container};
pub use detect::{Detector, Found, Seen};
pub use diagnose::{Diagnosis, Evidence, File, Holder, diagnose};
pub use fuse::{Probed, Progress, Readiness, fuse};
pub use gguf::{Fault, Gguf, read as read_gguf};
pub use kind::kind_of;
pub use port::{HIDDEN, Port};
pub use preflight::{Direct, direct, fetches};
pub use server::{Probe, Served, Server, named, recognise};
pub use silent::{
    Answer as HubAnswer, Aside, Options, Run, Told, came_to_the_hub, hub_cause, judge_options, questions, repository,
    stays, tight, told,
};
pub use socket::Socket;
pub use stranger::{looks_like, server_like};
pub use suggest::Suggestion;
