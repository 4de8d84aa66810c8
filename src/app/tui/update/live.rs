//! Stops that are under way, as they are seen. Pure.

use super::super::model::{Act, Live, Overlay, Reader, Reading};
use super::Turn;
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
