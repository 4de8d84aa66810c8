//! Desktop notifications through the terminal outside: OSC 9, or OSC 777 where that is what is known. Pure.
//!
//! What is said is a name and a word of ours, never what a session wrote. It is said only while the terminal has told
//! that somebody looks elsewhere, and not in bursts.

use std::time::{Duration, Instant};

use super::model::Model;
use crate::app::config::Notify;
use crate::app::contract::Phase;
use crate::app::event::Event;
use crate::text;

/// Shortest time between two notifications.
const PAUSE: Duration = Duration::from_secs(2);

/// Longest name, in columns.
const NAME_MAX: usize = 40;

/// How the terminal outside is asked for a notification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notifier {
    /// Not at all.
    #[default]
    Silent,
    /// By OSC 9: iTerm2, kitty, `WezTerm`, Ghostty, foot, Windows Terminal.
    Osc9(Wrapping),
    /// By OSC 777: rxvt-unicode, and VTE as some distributions build it.
    Osc777(Wrapping),
}

/// Who stands between us and the terminal outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrapping {
    /// Nobody.
    Bare,
    /// tmux, which hands on what is wrapped for it (where `allow-passthrough` is on).
    Tmux,
}

impl Notifier {
    /// Chooses by the environment; `variable` looks it up.
    pub fn resolve(choice: Notify, variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let wrapping = if set("TMUX").is_some() { Wrapping::Tmux } else { Wrapping::Bare };
        let term = set("TERM").unwrap_or_default();
        match choice {
            Notify::None => Self::Silent,
            Notify::Terminal if matches!(term.as_str(), "" | "dumb" | "linux") => Self::Silent,
            Notify::Terminal if term.starts_with("rxvt") || set("VTE_VERSION").is_some() => Self::Osc777(wrapping),
            Notify::Terminal => Self::Osc9(wrapping),
        }
    }

    /// Tells whether anything is ever said: only then the terminal is asked where somebody looks.
    pub const fn speaks(self) -> bool {
        !matches!(self, Self::Silent)
    }

    /// Returns the bytes that say something.
    pub(super) fn bytes(self, said: &str) -> Vec<u8> {
        let said = text::escape(said);
        let (sequence, wrapping) = match self {
            Self::Silent => return Vec::new(),
            Self::Osc9(wrapping) => (format!("\x1b]9;cookbook-tui: {said}\x07"), wrapping),
            // A semicolon would end the field.
            Self::Osc777(wrapping) => {
                (format!("\x1b]777;notify;cookbook-tui;{}\x07", said.replace(';', ",")), wrapping)
            }
        };
        match wrapping {
            Wrapping::Bare => sequence.into_bytes(),
            Wrapping::Tmux => format!("\x1bPtmux;{}\x1b\\", sequence.replace('\x1b', "\x1b\x1b")).into_bytes(),
        }
    }
}

/// Returns what is to be said of an event, where somebody who looks elsewhere should know.
pub(super) fn said(model: &mut Model, event: &Event, now: Instant) -> Option<String> {
    let what = match event {
        Event::Attention { state: Some(state), .. } => state.words(),
        Event::Attention { state: None, .. } => "wants you",
        Event::Phase { phase: Phase::Failed, .. } => "failed",
        Event::Phase { phase: Phase::Ready, .. } => "ready",
        Event::Survivor { .. } => "something of it survived its stop",
        Event::Phase { .. }
        | Event::Launched { .. }
        | Event::Verdict { .. }
        | Event::ProcessNew { .. }
        | Event::ProcessGone { .. }
        | Event::Signal { .. }
        | Event::Exited { .. }
        | Event::Receipt { .. }
        | Event::Lagged { .. } => return None,
    };
    let rests = model.notified_at.is_some_and(|at| now.saturating_duration_since(at) < PAUSE);
    if !model.looks_elsewhere || rests {
        return None;
    }
    model.notified_at = Some(now);
    let id = event.session()?;
    let name = model.sessions.by_id(id).map_or(id, |row| row.name.as_str());
    Some(format!("{}: {what}", text::shorten(&text::escape(name), NAME_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Wrapping::{Bare, Tmux};

    #[test]
    fn the_terminal_decides_how_it_is_said() {
        let check = |variables: &[(&str, &str)], expected: Notifier| {
            let found = Notifier::resolve(Notify::Terminal, |name| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            });
            assert_eq!(found, expected, "{variables:?}");
        };
        check(&[("TERM", "xterm-256color")], Notifier::Osc9(Bare));
        check(&[("TERM", "rxvt-unicode-256color")], Notifier::Osc777(Bare));
        check(&[("TERM", "xterm-256color"), ("VTE_VERSION", "7600")], Notifier::Osc777(Bare));
        check(&[("TERM", "screen-256color"), ("TMUX", "/tmp/x,1,0")], Notifier::Osc9(Tmux));
        check(&[("TERM", "linux")], Notifier::Silent);
        check(&[], Notifier::Silent);
        assert!(!Notifier::resolve(Notify::None, |_| Some("xterm".to_owned())).speaks());
    }

    #[test]
    fn nothing_leaves_the_sequence_that_it_is_in() {
        let check = |notifier: Notifier, said: &str, expected: &str| {
            assert_eq!(notifier.bytes(said).escape_ascii().to_string(), expected);
        };
        check(Notifier::Osc9(Bare), "fixer: waiting", "\\x1b]9;cookbook-tui: fixer: waiting\\x07");
        check(Notifier::Osc9(Bare), "a\x07b\x1b]0;c", "\\x1b]9;cookbook-tui: a\\\\x07b\\\\x1b]0;c\\x07");
        check(Notifier::Osc777(Bare), "a;b", "\\x1b]777;notify;cookbook-tui;a,b\\x07");
        check(Notifier::Osc9(Tmux), "a", "\\x1bPtmux;\\x1b\\x1b]9;cookbook-tui: a\\x07\\x1b\\\\");
        check(Notifier::Silent, "a", "");
    }
}
