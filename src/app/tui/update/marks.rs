//! Marks, what is done to all that are marked, and the way to the next session that wants to be looked at. Pure.

use super::super::keymap::{Action, Context};
use super::super::model::{Confirmed, Item, Many, ManyAct, Overlay, Pending, is_asked_to_end};
use super::super::seam::{Effect, Ticket, Typed};
use super::super::theme::Tone;
use super::Turn;
use super::keys::ends_nobody;
use crate::app::command::Command;
use crate::app::contract::Phase;
use crate::app::error::AppError;
use crate::app::event::Event;
use crate::lifecycle::receipt::Receipt;

impl Turn<'_> {
    /// Marks the selected session, or takes the mark back, and moves on.
    pub(super) fn mark(&mut self) {
        let Some(session) = self.model.selected.clone() else { return };
        if !self.model.marked.remove(&session) {
            self.model.marked.insert(session);
        }
        self.step_session(1);
    }

    /// Types into the selected session and all that are marked from now on, until the terminal is left.
    pub(super) fn broadcast(&mut self) {
        let others = self.model.others().count();
        if others == 0 {
            let key = self.model.keys.shown(Context::Panes, Action::Mark);
            let selected = self.model.selected.as_ref().is_some_and(|id| self.model.marked.contains(id));
            let text = match (self.model.marked.len(), selected) {
                (0, _) => format!("mark the sessions to type into first ({key})"),
                (1, true) => format!("only this session is marked: mark the others to type into as well ({key})"),
                _ => "none of the others that are marked runs: nobody reads what you type".to_owned(),
            };
            return self.note(Tone::Plain, &text);
        }
        self.focus();
        if self.model.focused {
            self.model.broadcast = true;
            let text = format!("what is typed goes to {} sessions until the terminal is left", others + 1);
            self.note(Tone::Bad, &text);
        } else if self.broadcast_early() {
            self.note(
                Tone::Bad,
                "the terminal is not there yet: what is typed waits, and then goes to all that are marked",
            );
        }
    }

    /// Types into the others, while it is broadcast.
    pub(super) fn type_into_others(&mut self, typed: &Typed) {
        if self.model.broadcast {
            let others: Vec<String> = self.model.others().map(|row| row.session.clone()).collect();
            self.effects.extend(others.into_iter().map(|session| Effect::Broadcast { session, typed: typed.clone() }));
        }
    }

    /// Opens the preview of an act on all that are marked. Returns whether any is.
    pub(super) fn many(&mut self, act: ManyAct) -> bool {
        let rows = self.model.sessions.rows().iter().filter(|row| self.model.marked.contains(&row.session));
        let ends_nobody = |row| matches!(act, ManyAct::Act(act) if ends_nobody(self.model, act, row));
        let rows = rows.map(|row| (row.session.clone(), row.name.clone(), row.phase, ends_nobody(row)));
        let rows: Vec<_> = rows.collect();
        if rows.is_empty() {
            return false;
        }
        let items = rows.into_iter().map(|(session, name, phase, ends_nobody)| {
            let (ticket, plan) = match act {
                ManyAct::Act(_) if ends_nobody => {
                    (None, Some(Err("it has ended already: nothing is left to stop".to_owned())))
                }
                ManyAct::Act(act) => (Some(self.run(act.command(Some(&session), None), Pending::PlanOfMany)), None),
                ManyAct::Dismiss if phase.is_over() => (None, Some(Ok(Box::default()))),
                ManyAct::Dismiss => (None, Some(Err(format!("stays: it is {}", phase.name())))),
            };
            Item { session, name, plan, ticket }
        });
        let items = items.collect();
        let serial = self.model.next_ticket;
        self.model.next_ticket += 1;
        self.model.overlays.push(Overlay::Many(Many { act, items, scroll: 0, drawn: false, serial }));
        true
    }

    /// Takes in the dry run of one of many.
    pub(super) fn planned_of_many(&mut self, ticket: Ticket, result: Result<Receipt, AppError>) {
        let result = result.map(Box::new).map_err(|error| error.message);
        for overlay in &mut self.model.overlays {
            if let Overlay::Many(many) = overlay
                && many.planned(ticket, result.clone())
            {
                return;
            }
        }
    }

    /// Does what the preview of many has shown.
    pub(super) fn confirm_many(&mut self, many: Many) {
        if !many.drawn {
            return;
        }
        self.model.overlays.pop();
        self.model.marked.clear();
        let begun = self.model.live.len();
        for Item { session, name, plan, .. } in many.items {
            match (many.act, plan) {
                (ManyAct::Dismiss, Some(Ok(_))) => {
                    self.run(Command::Dismiss { session }, Pending::Dismiss(name));
                }
                (ManyAct::Act(act), Some(Ok(plan))) => {
                    self.watch(act, Some(&session), Some(&plan));
                    self.carry_out(act, Some(session), name, Confirmed::of(&plan));
                }
                (_, Some(Err(_)) | None) => {}
            }
        }
        let all = self.model.live.len() - begun;
        for (place, live) in self.model.live.iter_mut().skip(begun).enumerate() {
            live.place = (place + 1, all);
        }
    }

    /// Goes to the next session that wants to be looked at, else to the next that has failed.
    pub(super) fn next_attention(&mut self) {
        let rows = self.model.sessions.rows();
        let at = self.model.selected.as_deref().and_then(|id| self.model.sessions.position(id)).unwrap_or(0);
        let mut round = rows.iter().cycle().skip(at + 1).take(rows.len());
        let next = round
            .clone()
            .find(|row| self.model.wants(row))
            .or_else(|| round.find(|row| matches!(row.phase, Phase::Failed | Phase::Unverifiable)));
        let Some(session) = next.map(|row| row.session.clone()) else {
            return self.note(Tone::Plain, "no session wants you, and none has failed");
        };
        if let Some(why) = self.model.attention.get(&session) {
            let name = self.model.sessions.by_id(&session).map_or("", |row| row.name.as_str());
            let text = format!("{name}: {why}");
            self.note(Tone::Warn, &text);
        }
        self.reveal(session);
    }

    /// Notes which sessions want to be looked at because of an event: what ended or survived while nobody looked.
    pub(super) fn attend(&mut self, event: &Event) {
        let (session, why) = match event {
            Event::Attention { session, reason, .. } => (session, reason.clone()),
            Event::Survivor { session, pid, .. } => (session, format!("{pid} survived a stop")),
            Event::Phase { session, phase: Phase::Failed, detail } if !self.model.news.knows(session) => {
                (session, detail.clone().unwrap_or_else(|| "has failed".to_owned()))
            }
            // Of a session that somebody else holds, only the phase is heard.
            Event::Exited { session, .. } | Event::Phase { session, phase: Phase::Exited, .. } => {
                return self.end(session);
            }
            Event::Launched { session, .. } => return self.model.news.begin(session),
            Event::Phase { .. }
            | Event::Verdict { .. }
            | Event::ProcessNew { .. }
            | Event::ProcessGone { .. }
            | Event::Signal { .. }
            | Event::Receipt { .. }
            | Event::Ended { .. }
            | Event::Cookbook { .. }
            | Event::Lagged { .. } => return,
        };
        self.model.attention.insert(session.clone(), why);
    }

    /// Takes in that a session has ended: news, unless somebody wanted it, or an earlier run has shown it.
    fn end(&mut self, session: &str) {
        if self.model.acting.iter().any(|id| id == session) || is_asked_to_end(session, &self.model.sessions) {
            self.model.news.pass(session);
        } else if self.model.news.end(session) {
            self.model.attention.insert(session.to_owned(), "has ended".to_owned());
        }
    }

    /// Takes in the sessions that were over when they were seen first. Whether an event tells of their end as well depends
    /// on who was quicker at the start.
    pub(super) fn were_over(&mut self, sessions: &[String]) {
        for session in sessions {
            self.end(session);
        }
    }
}
