//! The screen: sessions, their terminals, their process trees, and what stops would do to them.
//!
//! `run` drives it: it drains what happened, lets `update` change the [`model`], carries out the
//! effects through the [`Cockpit`] and draws what `view` makes of the model. `job` is the small
//! parent process that gives the shell its job control. Nothing here looks at processes, tmux or the
//! disk, and nothing here waits for the terminal: a terminal that does not read delays neither a stop
//! nor a quit.
//!
//! | file | what it does | pure |
//! |---|---|---|
//! | `seam` | what comes in, what goes out | yes |
//! | `model`, `update`, `keymap`, `theme`, `view` | state, decisions, keys, colours, drawing | yes |
//! | `decode`, `input`, `kitty` | terminal bytes to events, events to terminal bytes | yes |
//! | `notify` | what the terminal outside is asked to say while somebody looks elsewhere | yes |
//! | `reader`, `signals`, `display`, `outlet`, `terminal`, `editor`, `job`, `run` | the thin shell around them | no |

mod decode;
mod display;
mod editor;
#[cfg(test)]
mod fixtures;
mod glyph;
mod input;
pub mod job;
pub mod keymap;
mod kitty;
pub mod model;
mod notify;
mod outlet;
mod reader;
mod run;
mod seam;
mod signals;
mod terminal;
pub mod theme;
mod update;
mod view;

pub use display::{Frame, encode};
pub use model::Memory;
pub use notify::Notifier;
pub(super) use notify::desktop;
pub use run::run;
pub use seam::{Cockpit, Effect, Entered, OnStuck, Options, Outcome, Paste, Ticket, UiEvent};
pub use theme::{Theme, Wishes, is_dumb};
pub use update::update;
pub use view::{Surface, draw};
