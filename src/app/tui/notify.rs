//! Desktop notifications: through the terminal outside by OSC 99, 9 or 777, whichever it knows; or by notify-send. Pure.
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

/// Most that one notification says.
const SAID_MAX: usize = 4;

/// Longest name, in columns.
const NAME_MAX: usize = 40;

/// How the terminal outside is asked for a notification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notifier {
    /// Not at all.
    #[default]
    Silent,
    /// By OSC 99: kitty. With a name of its own, so that a newer one takes the place of an older one, and an answer is
    /// never asked for.
    Osc99(Wrapping),
    /// By notify-send, which the runtime starts.
    Desktop,
    /// By OSC 9: iTerm2, `WezTerm`, Ghostty, foot, Windows Terminal.
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
    /// Chooses by the environment; `variable` looks it up, and `has_notify_send` says whether there is one. Without it, or
    /// without a display, the terminal is asked instead.
    pub fn resolve(choice: Notify, variable: impl Fn(&str) -> Option<String>, has_notify_send: bool) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let wrapping = if set("TMUX").is_some() { Wrapping::Tmux } else { Wrapping::Bare };
        let term = set("TERM").unwrap_or_default();
        let display = set("DISPLAY").is_some() || set("WAYLAND_DISPLAY").is_some();
        match choice {
            Notify::None => Self::Silent,
            Notify::Desktop if display && has_notify_send => Self::Desktop,
            Notify::Osc99 => Self::Osc99(wrapping),
            Notify::Osc777 => Self::Osc777(wrapping),
            Notify::Terminal | Notify::Desktop if matches!(term.as_str(), "" | "dumb" | "linux") => Self::Silent,
            Notify::Terminal | Notify::Desktop if set("KITTY_WINDOW_ID").is_some() || term == "xterm-kitty" => {
                Self::Osc99(wrapping)
            }
            Notify::Terminal | Notify::Desktop if term.starts_with("rxvt") || set("VTE_VERSION").is_some() => {
                Self::Osc777(wrapping)
            }
            Notify::Osc9 | Notify::Terminal | Notify::Desktop => Self::Osc9(wrapping),
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
            Self::Silent | Self::Desktop => return Vec::new(),
            Self::Osc99(wrapping) => {
                let title = "\x1b]99;i=cookbook-tui:d=0;cookbook-tui\x1b\\";
                (format!("{title}\x1b]99;i=cookbook-tui:d=1:p=body;{said}\x1b\\"), wrapping)
            }
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

/// Returns what is started so that the desktop says something. Servers take the body for markup.
pub(in super::super) fn desktop(said: &str) -> Vec<String> {
    let body = text::escape(said).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let words = ["notify-send", "--app-name=cookbook-tui", "--", "cookbook-tui", &body];
    words.map(str::to_owned).to_vec()
}

/// Returns what is to be said of an event to somebody who looks elsewhere.
pub(super) fn said(model: &Model, event: &Event) -> Option<String> {
    let what = match event {
        // The message behind the words is not ours.
        Event::Attention { state: Some(_), reason, .. } => reason.split(": ").next()?,
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
        | Event::Ended { .. }
        | Event::Cookbook { .. }
        | Event::Lagged { .. } => return None,
    };
    let id = event.session()?;
    let name = model.sessions.by_id(id).map_or(id, |row| row.name.as_str());
    Some(format!("{}: {what}", text::shorten(&text::escape(name), NAME_MAX)))
}

/// What is to be said, and when something was said last: never in bursts, and nothing is lost for it.
#[derive(Debug, Default)]
pub(super) struct Unsaid {
    waiting: Vec<String>,
    said_at: Option<Instant>,
}

impl Unsaid {
    /// Takes something that is to be said.
    pub(super) fn push(&mut self, said: String) {
        if !self.waiting.contains(&said) {
            self.waiting.push(said);
        }
    }

    /// Returns what is to be said now, all in one.
    pub(super) fn take(&mut self, now: Instant) -> Option<String> {
        if self.waiting.is_empty() || self.rests_until().is_some_and(|until| now < until) {
            return None;
        }
        self.said_at = Some(now);
        let more = self.waiting.len().saturating_sub(SAID_MAX);
        let mut said: Vec<String> = self.waiting.drain(..).take(SAID_MAX).collect();
        said.extend((more > 0).then(|| format!("and {more} more")));
        Some(said.join(", "))
    }

    /// Somebody looks: whatever waits can be seen.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
    }

    /// Returns when something is to be said that has to wait.
    pub(super) fn due(&self) -> Option<Instant> {
        self.rests_until().filter(|_| !self.waiting.is_empty())
    }

    fn rests_until(&self) -> Option<Instant> {
        self.said_at.map(|at| at + PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Wrapping::{Bare, Tmux};

    #[test]
    fn the_terminal_decides_how_it_is_said() {
        let check = |variables: &[(&str, &str)], expected: Notifier| {
            assert_eq!(resolve(Notify::Terminal, variables, true), expected, "{variables:?}");
        };
        check(&[("TERM", "xterm-256color")], Notifier::Osc9(Bare));
        check(&[("TERM", "rxvt-unicode-256color")], Notifier::Osc777(Bare));
        check(&[("TERM", "xterm-256color"), ("VTE_VERSION", "7600")], Notifier::Osc777(Bare));
        check(&[("TERM", "screen-256color"), ("TMUX", "/tmp/x,1,0")], Notifier::Osc9(Tmux));
        check(&[("TERM", "linux")], Notifier::Silent);
        check(&[], Notifier::Silent);
        check(&[("TERM", "xterm-kitty")], Notifier::Osc99(Bare));
        check(&[("TERM", "screen-256color"), ("TMUX", "/tmp/x,1,0"), ("KITTY_WINDOW_ID", "1")], Notifier::Osc99(Tmux));
        assert!(!resolve(Notify::None, &[("TERM", "xterm"), ("DISPLAY", ":0")], true).speaks());
    }

    fn resolve(choice: Notify, variables: &[(&str, &str)], has_notify_send: bool) -> Notifier {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Notifier::resolve(choice, variable, has_notify_send)
    }

    #[test]
    fn a_way_that_was_chosen_is_taken_and_the_desktop_where_there_is_one() {
        let xterm = ("TERM", "xterm-256color");
        assert_eq!(resolve(Notify::Osc99, &[xterm], true), Notifier::Osc99(Bare));
        assert_eq!(resolve(Notify::Osc777, &[xterm], true), Notifier::Osc777(Bare));
        assert_eq!(resolve(Notify::Osc9, &[("TERM", "xterm-kitty")], true), Notifier::Osc9(Bare));
        assert_eq!(resolve(Notify::Desktop, &[xterm, ("DISPLAY", ":0")], true), Notifier::Desktop);
        assert_eq!(resolve(Notify::Desktop, &[xterm, ("WAYLAND_DISPLAY", "w")], true), Notifier::Desktop);
        for (variables, has) in
            [(&[xterm, ("DISPLAY", ":0")][..], false), (&[xterm, ("DISPLAY", "")], true), (&[xterm], true)]
        {
            assert_eq!(resolve(Notify::Desktop, variables, has), Notifier::Osc9(Bare), "{variables:?}");
        }
        assert!(Notifier::Desktop.speaks(), "it has to know where somebody looks");
    }

    #[test]
    fn what_the_desktop_is_told_is_no_markup_and_no_option() {
        let argv = desktop("-x <b>&amp; \x1b[5m\u{202e}");
        assert_eq!(
            argv,
            ["notify-send", "--app-name=cookbook-tui", "--", "cookbook-tui", "-x &lt;b&gt;&amp;amp; \\x1b[5m\\u{202e}"]
        );
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
        let both = "\\x1b]99;i=cookbook-tui:d=0;cookbook-tui\\x1b\\\\\\x1b]99;i=cookbook-tui:d=1:p=body;a\\x1b\\\\";
        check(Notifier::Osc99(Bare), "a", both);
        check(Notifier::Silent, "a", "");
        check(Notifier::Desktop, "a", "");
    }
}
