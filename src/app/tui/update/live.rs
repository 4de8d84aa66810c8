//! Stops that are under way, as they are seen. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::model::{Act, Live, Meanwhile, Overlay, Pending, Reader, Reading};
use super::super::theme::Tone;
use super::Turn;
use crate::app::command::{Command, Held};
use crate::app::contract::Tree;
use crate::app::event::Event;
use crate::lifecycle::receipt::Receipt;
use crate::lifecycle::verdict::VerdictKind;

impl Turn<'_> {
    /// Begins to watch a stop that was agreed to.
    pub(super) fn watch(&mut self, act: Act, session: Option<&String>, plan: Option<&Receipt>) {
        if let (Some(session), Some(plan)) = (session, plan) {
            let since = self.model.meanwhile.remove(session).unwrap_or_default();
            self.model.live.push(Live::new(session.clone(), act, (plan, since), self.now));
        }
    }

    /// Takes in what happens to the processes of a stop, and of one that is previewed.
    pub(super) fn follow_stops(&mut self, event: &Event) {
        let Some(session) = event.session() else { return };
        let live = self.model.live.iter_mut().find(|live| live.session == session);
        let meanwhile = self.model.meanwhile.get_mut(session);
        if let Event::Signal { pid, signal, .. } = event {
            if let Some(live) = live {
                live.signalled(*pid, signal, self.now);
            }
        } else if let Event::ProcessGone { pid, .. } = event {
            self.gone(session, *pid);
        } else if let Event::ProcessNew { pid, command, .. } = event {
            if let Some(live) = live {
                live.came(*pid, command);
            } else if let Some(meanwhile) = meanwhile {
                meanwhile.new.insert(*pid, command.clone());
            }
        }
    }

    /// Takes in which processes of a session are gone as its tree says: no event tells it of those that ended before.
    pub(super) fn see_gone(&mut self, session: &str, tree: &Tree) {
        for row in tree.processes.iter().filter(|row| row.verdict == VerdictKind::Gone) {
            self.gone(session, row.pid.raw());
        }
    }

    fn gone(&mut self, session: &str, pid: i32) {
        if let Some(live) = self.model.live.iter_mut().find(|live| live.session == session) {
            live.gone(pid);
        }
        if let Some(meanwhile) = self.model.meanwhile.get_mut(session) {
            meanwhile.gone.insert(pid);
        }
    }

    /// Holds all stops that are under way before KILL; where all are held, lets them go on.
    pub(super) fn hold(&mut self) {
        match self.model.overlays.last() {
            Some(Overlay::Reader(Reader { reading: Reading::Live(_), .. })) | None => {}
            Some(_) => return,
        }
        let stops = self.model.live.iter().filter(|live| live.can_hold());
        let stops: Vec<(String, bool)> = stops.map(|live| (live.session.clone(), live.held_s.is_some())).collect();
        if stops.is_empty() {
            return self.note(Tone::Plain, "nothing to hold: no stop of one session waits for KILL");
        }
        let release = stops.iter().all(|(_, held)| *held);
        for (session, _) in stops.into_iter().filter(|(_, held)| *held == release) {
            let release = release.then_some(true);
            self.run(Command::Hold { session: session.clone(), release }, Pending::Hold(session));
        }
    }

    /// Has what happens to a session remembered as long as its stop is previewed.
    fn settle_previews(&mut self) {
        let model = &mut *self.model;
        let mut previewed: BTreeSet<&str> = BTreeSet::new();
        for overlay in model.overlays.iter().chain(&model.waiting) {
            if let Overlay::Preview(preview) = overlay {
                previewed.extend(preview.session.as_deref());
            } else if let Overlay::Many(many) = overlay {
                previewed.extend(many.items.iter().map(|item| item.session.as_str()));
            }
        }
        model.meanwhile.retain(|session, _| previewed.contains(session.as_str()));
        for session in previewed {
            if !model.meanwhile.contains_key(session) {
                model.meanwhile.insert(session.to_owned(), Meanwhile::default());
            }
        }
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

    /// Ends the watch of a stop. Where its panel is open, a clean receipt takes its place, unless others follow that are
    /// under way; any other one is read anyway.
    pub(super) fn unwatch(&mut self, session: Option<&String>, receipt: Option<&Receipt>) {
        self.model.live.retain(|live| Some(&live.session) != session);
        let is_its = |overlay: &Overlay| matches!(overlay, Overlay::Reader(Reader { reading: Reading::Live(id), .. }) if Some(id) == session);
        let Some(place) = self.model.overlays.iter().position(is_its) else { return };
        self.model.overlays.remove(place);
        if let Some(receipt) = receipt.filter(|receipt| receipt.is_clean() && self.model.live.is_empty()) {
            let reading = Reading::Receipt(Box::new(receipt.clone()));
            self.model.overlays.insert(place, Overlay::Reader(Reader { reading, scroll: 0 }));
        }
    }

    /// Looks at the clock, and opens the panel of a stop that takes its time, where nothing else is in the way.
    pub(super) fn settle_stops(&mut self) {
        self.settle_previews();
        for live in &mut self.model.live {
            if live.tick(self.now) && self.model.overlays.is_empty() && !self.model.focused {
                self.model.overlays.push(live.open());
            }
        }
    }

    /// Opens the panel of a stop that is under way. Returns whether there is one.
    pub(super) fn look_again(&mut self, session: &str) -> bool {
        let live = self.model.live.iter_mut().find(|live| live.session == session);
        live.map(|live| self.model.overlays.push(live.open())).is_some()
    }
}
