//! What the runtime says. Pure.

use super::super::model::{Act, ErrorBox, Form, Overlay, Pending, Reading, describe, is_asked_to_end, receipt_line};
use super::super::notify;
use super::super::seam::{Effect, Ticket};
use super::super::theme::Tone;
use super::Turn;
use crate::app::command::{Answer, Launched, Orphans};
use crate::app::contract::{Phase, SessionRow};
use crate::app::error::{AppError, ErrorKind};
use crate::app::event::Event;
use crate::lifecycle::receipt::{Receipt, total};

impl Turn<'_> {
    pub(super) fn sessions(&mut self, rows: Vec<SessionRow>) {
        let before = self.model.selected.as_deref().and_then(|id| self.model.sessions.position(id));
        let is_new = |row: &&SessionRow| row.phase.is_over() && self.model.sessions.by_id(&row.session).is_none();
        let over: Vec<String> = rows.iter().filter(is_new).map(|row| row.session.clone()).collect();
        self.follow_restarts(&rows);
        self.model.sessions.replace(rows);
        self.were_over(&over);
        self.model.log.name(&self.model.sessions);
        self.model.sparks.look(self.model.sessions.rows(), self.now);
        self.model.sized.retain(|id, _| self.model.sessions.by_id(id).is_some());
        self.model.marked.retain(|id| self.model.sessions.by_id(id).is_some());
        self.model.attention.retain(|id, _| self.model.sessions.by_id(id).is_some());
        if let Some(id) = self.model.take_up() {
            return self.select(Some(id));
        }
        let exists = |id: &String| self.model.sessions.by_id(id).is_some();
        if let Some(id) = self.model.awaited.take_if(|id| exists(id)) {
            return self.reveal(id);
        }
        if self.model.met.is_some() || self.model.selected.as_ref().is_some_and(exists) {
            return;
        }
        // The selected session is no more: its place goes to the one that follows.
        let rows = self.model.sessions.rows();
        let next = rows.get(before.unwrap_or(0).min(rows.len().saturating_sub(1)));
        self.select(next.map(|row| row.session.clone()));
    }

    pub(super) fn happened(&mut self, event: &Event) {
        match event {
            Event::Receipt { receipt, .. } => {
                if !self.model.keep_receipt(receipt) {
                    return;
                }
            }
            Event::ProcessGone { session, pid, .. } if self.model.tree.session.as_ref() == Some(session) => {
                self.model.tree.mark_gone(*pid, self.now);
            }
            Event::Launched { .. }
            | Event::Phase { .. }
            | Event::Verdict { .. }
            | Event::ProcessNew { .. }
            | Event::ProcessGone { .. }
            | Event::Signal { .. }
            | Event::Survivor { .. }
            | Event::Exited { .. }
            | Event::Attention { .. }
            | Event::Ended { .. }
            | Event::Cookbook { .. }
            | Event::Lagged { .. } => {}
        }
        let is_known = ends(event) && event.session().is_some_and(|id| self.model.news.knows(id));
        if !is_known
            && self.model.looks_elsewhere
            && let Some(said) = notify::said(self.model, event)
        {
            self.model.unsaid.push(said);
        }
        self.attend(event);
        self.follow_stops(event);
        let (mut tone, text, mut notable) = describe(event, &self.model.sessions);
        if let Event::Exited { session, .. } | Event::Phase { session, phase: Phase::Exited, .. } = event
            && (self.model.acting.contains(session) || is_asked_to_end(session, &self.model.sessions))
        {
            // What we are ending ends: no fault of it, and the receipt says what came of it.
            (tone, notable) = (Tone::Dim, false);
        }
        if is_known {
            (tone, notable) = (Tone::Dim, false);
        }
        self.log(tone, &text, notable);
        if matches!(event, Event::Receipt { .. }) {
            self.model.log.bind(self.model.receipt_number());
        }
    }

    pub(super) fn answered(&mut self, ticket: Ticket, result: Result<Answer, AppError>) {
        let Some(pending) = self.model.pending.remove(&ticket) else { return };
        match (pending, result) {
            (Pending::Plan, Ok(Answer::Receipt(receipt))) => self.planned(ticket, *receipt),
            (Pending::Plan, Ok(Answer::Orphans(orphans))) => self.planned(ticket, plan_of(*orphans)),
            (Pending::PlanOfMany, Ok(Answer::Receipt(receipt))) => self.planned_of_many(ticket, Ok(*receipt)),
            (Pending::PlanOfMany, Err(error)) => self.planned_of_many(ticket, Err(error)),
            (Pending::Plan, Err(error)) => {
                let is_it = |overlay: &Overlay| matches!(overlay, Overlay::Preview(p) if p.ticket == ticket);
                self.model.overlays.retain(|overlay| !is_it(overlay));
                self.model.waiting.retain(|overlay| !is_it(overlay));
                self.failed("Preview", error);
            }
            (Pending::QuitPlan(session), Ok(Answer::Receipt(receipt))) => {
                for overlay in &mut self.model.overlays {
                    if let Overlay::Quit(quit) = overlay {
                        quit.plans.insert(session.clone(), (*receipt).clone());
                    }
                }
            }
            (Pending::Act { act, session, name }, result) => self.acted(act, session, &name, result),
            (
                pending @ (Pending::Form(_)
                | Pending::Check(..)
                | Pending::Replace(..)
                | Pending::Save(_)
                | Pending::Draft(..)
                | Pending::TmuxSessions
                | Pending::AdoptTmux(_)),
                result,
            ) => self.formed(ticket, pending, result),
            (Pending::Launch(..), Ok(Answer::Launched(launched))) => self.launched(launched),
            (Pending::Launch(_, request), Err(error))
                if error.about.as_ref().is_some_and(|about| about.holder.is_some()) =>
            {
                // The form offers to replace who is in the way.
                let mut form = Form::of(&request, &self.model.recipes);
                form.fail(&error);
                self.open_form(form);
            }
            (Pending::Launch(line, _), Err(error)) => {
                // What was typed comes back, below the error.
                self.model.overlays.extend(line.map(Overlay::Launch));
                self.failed("Start", error);
            }
            (Pending::Recipes, Ok(Answer::Recipes(recipes))) => self.model.recipes = recipes,
            (Pending::Recipes, Err(error)) => self.failed("Recipes", error),
            (Pending::Text, Ok(Answer::Screen(screen))) => {
                self.note(Tone::Plain, "copied the text of the screen");
                self.effects.push(Effect::Copy(screen.lines.join("\n").trim_end().to_owned()));
            }
            (Pending::Text, Err(error)) => self.failed("Copy", error),
            (Pending::Report, Ok(Answer::Orphans(orphans))) => self.read(Reading::Orphans(orphans)),
            (Pending::Report, Ok(Answer::Doctor(checks))) => self.read(Reading::Doctor(checks)),
            (Pending::Report, Ok(Answer::Why(why))) => self.read(Reading::Why(why)),
            (Pending::Report, Err(error)) => self.failed("Report", error),
            (Pending::WhyAgain(pid), Ok(Answer::Why(why))) => self.why_again(pid, Ok(why)),
            (Pending::WhyAgain(pid), Err(error)) => self.why_again(pid, Err(error)),
            (Pending::Extend(name, for_long), Ok(Answer::Extended(_))) => {
                self.note(Tone::Good, &format!("{name} may live for another {for_long}"));
            }
            (Pending::Adopt(name), Ok(Answer::Orphans(orphans))) => self.adopted(&name, &orphans),
            (Pending::Adopt(_), Err(error)) => self.failed("Adopt", error),
            (Pending::Hold(session), Ok(Answer::Held(held))) => self.held(&session, held),
            (Pending::Hold(_), Err(error)) => self.note(Tone::Warn, &error.message),
            (Pending::Extend(..), Err(error)) => self.failed("Extend", error),
            (Pending::Dismiss(name), Ok(Answer::Done)) => self.note(Tone::Plain, &format!("{name} is dismissed")),
            (Pending::Dismiss(_), Err(error)) => self.failed("Dismiss", error),
            // The sessions are named already; what a dry run would add is missing.
            (Pending::QuitPlan(_), Err(_))
            // An answer to something else: the runtime does not send it.
            | (_, Ok(_)) => {}
        }
    }

    fn planned(&mut self, ticket: Ticket, receipt: Receipt) {
        let all = self.model.overlays.iter_mut().chain(&mut self.model.waiting);
        for overlay in all {
            if let Overlay::Preview(preview) = overlay
                && preview.ticket == ticket
            {
                preview.plan = Some(Box::new(receipt));
                return;
            }
        }
    }

    fn adopted(&mut self, name: &str, orphans: &Orphans) {
        for row in &orphans.adopted {
            let (tone, word) = if row.adopted { (Tone::Good, "is adopted") } else { (Tone::Warn, "is not adopted") };
            self.note(tone, &format!("{name} {word}: {}", row.reason));
        }
    }

    fn acted(&mut self, act: Act, session: Option<String>, name: &str, result: Result<Answer, AppError>) {
        self.model.acting.retain(|id| Some(id) != session.as_ref());
        // After a restart, what was launched is looked at.
        let seen = match &result {
            Ok(Answer::Receipt(receipt)) => Some(&**receipt),
            Ok(Answer::Orphans(orphans)) => orphans.swept.first().filter(|_| orphans.swept.len() == 1),
            Ok(_) | Err(_) => None,
        };
        self.unwatch(session.as_ref(), seen);
        match result {
            Ok(Answer::Receipt(receipt)) => self.receipt(*receipt, name),
            Ok(Answer::Restarted { receipt, launched }) => {
                self.receipt(*receipt, name);
                self.replaced(session.as_deref(), launched);
            }
            Ok(Answer::Orphans(orphans)) => {
                if orphans.swept.is_empty() {
                    self.note(Tone::Plain, &format!("{}: {name}: nobody was signalled", act.verb()));
                }
                for receipt in orphans.swept {
                    let id = receipt.session.clone();
                    let name = self.model.sessions.by_id(&id).map_or(id, |row| row.name.clone());
                    self.receipt(receipt, &name);
                }
            }
            Err(error) if error.kind == ErrorKind::Refused => self.preview(act, session, Some(error.message)),
            Err(error) => self.failed(act.verb(), error),
            Ok(_) => {}
        }
    }

    /// A clean receipt is a line, and what the panel of its stop becomes; any other one is read until it is dismissed.
    pub(super) fn receipt(&mut self, receipt: Receipt, name: &str) {
        if self.model.keep_receipt(&receipt) {
            let (tone, text) = receipt_line(&receipt, name);
            self.note(tone, &text);
            self.model.log.bind(self.model.receipt_number());
        }
        if !receipt.is_clean() {
            self.read(Reading::Receipt(Box::new(receipt)));
        }
    }

    pub(super) fn launched(&mut self, launched: Launched) {
        for note in &launched.notes {
            self.note(Tone::Warn, note);
        }
        if self.model.sessions.by_id(&launched.session).is_some() {
            self.reveal(launched.session);
        } else {
            self.model.awaited = Some(launched.session);
        }
    }

    /// Takes in what was launched in the place of a session: it gets that place in the list.
    pub(super) fn replaced(&mut self, session: Option<&str>, launched: Launched) {
        if let Some(session) = session {
            self.model.sessions.follow(&launched.session, session);
        }
        self.launched(launched);
    }

    /// Gives what is launched in the place of a session that place before the answer tells of it: nothing jumps.
    fn follow_restarts(&mut self, rows: &[SessionRow]) {
        let model = &mut *self.model;
        for pending in model.pending.values() {
            let (Pending::Act { act: Act::Restart, session: Some(session), name } | Pending::Replace(_, session, name)) =
                pending
            else {
                continue;
            };
            let is_heir = |row: &&SessionRow| row.name == *name && model.sessions.by_id(&row.session).is_none();
            if let Some(heir) = rows.iter().find(is_heir) {
                model.sessions.follow(&heir.session, session);
            }
        }
    }

    pub(super) fn failed(&mut self, title: &str, error: AppError) {
        self.log(Tone::Bad, &format!("{title}: {}", error.message), true);
        let overlay = Overlay::Error(ErrorBox { title: title.to_owned(), error });
        // While somebody types into a session, the event line has to do until they leave it.
        if self.model.focused {
            self.model.waiting.push_back(overlay);
        } else {
            self.model.overlays.push(overlay);
        }
    }
}

/// Tells whether an event says that a session is over.
fn ends(event: &Event) -> bool {
    match event {
        Event::Exited { .. } => true,
        Event::Phase { phase, .. } => phase.is_over(),
        Event::Launched { .. }
        | Event::Verdict { .. }
        | Event::ProcessNew { .. }
        | Event::ProcessGone { .. }
        | Event::Signal { .. }
        | Event::Survivor { .. }
        | Event::Receipt { .. }
        | Event::Attention { .. }
        | Event::Ended { .. }
        | Event::Cookbook { .. }
        | Event::Lagged { .. } => false,
    }
}

/// Returns the plan of a reaping: that of all orphans together, and why nothing is planned for the others.
fn plan_of(orphans: Orphans) -> Receipt {
    let planned: Vec<&str> = orphans.swept.iter().map(|plan| plan.session.as_str()).collect();
    let others = orphans.orphans.iter().filter(|orphan| !planned.contains(&orphan.row.session.as_str()));
    let mut notes: Vec<String> =
        others.map(|orphan| format!("{} is left alone: {}", orphan.row.name, orphan.reason)).collect();
    let records = orphans.quarantined.iter();
    notes.extend(records.map(|record| format!("{} is left alone: {}", record.path.display(), record.reason)));
    let mut plan = total(orphans.swept);
    plan.plan.get_or_insert_default();
    plan.notes.extend(notes);
    plan
}
