//! Stops that are under way, as they are seen. Pure.

use std::time::Duration;

use super::super::model::{Act, Live, Overlay, Pending, Reader, Reading};
use super::super::theme::Tone;
use super::Turn;
use crate::app::command::{Command, Held};
use crate::app::event::Event;
use crate::lifecycle::receipt::Receipt;

impl Turn<'_> {
    /// Begins to watch a stop that was agreed to.
    pub(super) fn watch(&mut self, act: Act, session: Option<&String>, plan: Option<&Receipt>) {
        if let (Some(session), Some(plan)) = (session, plan) {
            self.model.live.push(Live::new(session.clone(), act, plan, self.now));
        }
    }

    /// Takes in what happens to the processes of a stop.
    pub(super) fn follow_stops(&mut self, event: &Event) {
        let Some(live) = self.model.live.iter_mut().find(|live| Some(live.session.as_str()) == event.session()) else {
            return;
        };
        if let Event::Signal { pid, signal, .. } = event {
            live.signalled(*pid, signal, self.now);
        } else if let Event::ProcessGone { pid, .. } = event {
            live.gone(*pid);
        }
    }

    /// Holds the stop that is shown, else that of the selected session, before KILL; or lets it go on.
    pub(super) fn hold(&mut self) {
        let shown = match self.model.overlays.last() {
            Some(Overlay::Reader(Reader { reading: Reading::Live(id), .. })) => Some(id),
            Some(_) => return,
            None => self.model.selected.as_ref(),
        };
        let Some(live) = self.model.live.iter().find(|live| Some(&live.session) == shown) else {
            return self.note(Tone::Plain, "no stop is under way here: there is nothing to hold");
        };
        let (session, release) = (live.session.clone(), live.held_s.map(|_| true));
        self.run(Command::Hold { session: session.clone(), release }, Pending::Hold(session));
    }

    /// Takes in that a stop is held, or goes on.
    pub(super) fn held(&mut self, session: &str, held: Held) {
        let name = self.model.sessions.by_id(session).map_or(session, |row| row.name.as_str()).to_owned();
        let left = held.left_s.filter(|_| held.held).and_then(|left| Duration::try_from_secs_f64(left).ok());
        if let Some(live) = self.model.live.iter_mut().find(|live| live.session == session) {
            live.hold(left.map(|left| self.now + left));
        }
        match left {
            Some(left) => {
                let minutes = left.as_secs().div_ceil(60);
                self.note(
                    Tone::Warn,
                    &format!("the stop of {name} is held before KILL, for {minutes} min at the longest"),
                );
            }
            None => self.note(Tone::Plain, &format!("the stop of {name} goes on")),
        }
    }

    /// Ends the watch of a stop: its panel gives way to what was observed.
    pub(super) fn unwatch(&mut self, session: Option<&String>) {
        self.model.live.retain(|live| Some(&live.session) != session);
        let is_its = |overlay: &Overlay| matches!(overlay, Overlay::Reader(Reader { reading: Reading::Live(id), .. }) if Some(id) == session);
        self.model.overlays.retain(|overlay| !is_its(overlay));
    }

    /// Looks at the clock, and opens the panel of a stop that takes its time, where nothing else is in the way.
    pub(super) fn settle_stops(&mut self) {
        for live in &mut self.model.live {
            if live.tick(self.now) && self.model.overlays.is_empty() && !self.model.focused {
                live.opened = true;
                let reading = Reading::Live(live.session.clone());
                self.model.overlays.push(Overlay::Reader(Reader { reading, scroll: 0 }));
            }
        }
    }
}
