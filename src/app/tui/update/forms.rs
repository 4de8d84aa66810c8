//! The launch form and the picker of tmux sessions: their keys, and what comes of them. Pure.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::glyph;
use super::super::keymap::{Action, Context};
use super::super::model::{Act, Confirmed, Fault, Form, Overlay, Pending, Picker, Preview, Reading, Slot};
use super::super::seam::{Effect, Ticket};
use super::super::theme::Tone;
use super::super::view;
use super::Turn;
use super::keys::preview_of;
use crate::app::catalog::Look;
use crate::app::command::{Answer, Command, RestartRequest, TmuxRef};
use crate::app::contract::LaunchRequest;
use crate::app::error::{AppError, ErrorKind};
use crate::lifecycle::plan::Choice;

impl Turn<'_> {
    /// Opens a form; one that comes by itself waits until nobody is typing.
    pub(super) fn open_form(&mut self, form: Form) {
        self.effects.push(Effect::Look(Look::Catalog));
        self.run(Command::Recipes {}, Pending::Recipes);
        let overlay = Overlay::Form(Box::new(form));
        if self.model.focused { self.model.waiting.push_back(overlay) } else { self.model.overlays.push(overlay) }
    }

    /// Opens the form with the recipe that is selected in the start box.
    pub(super) fn form_of_menu(&mut self) {
        let Some(Overlay::Launch(launch)) = self.model.overlays.last() else { return };
        let mut offered = view::menu_order(&self.model.recipes);
        let row = offered.find(|row| launch.recipe.as_ref().is_none_or(|name| row.name == *name)).cloned();
        drop(offered);
        let request = LaunchRequest { recipe: row.map(|row| row.name), ..LaunchRequest::default() };
        let form = Form::of(&request, &self.model.recipes);
        self.model.overlays.pop();
        self.open_form(form);
    }

    /// Asks what the selected session was launched with.
    pub(super) fn revise(&mut self) {
        match self.model.current().map(|row| (row.session.clone(), row.name.clone())) {
            Some((session, name)) => drop(self.run(Command::Draft { session }, Pending::Draft(name, None))),
            None => self.note(Tone::Plain, "no session is selected (a launches one)"),
        }
    }

    /// The same, with what is suggested in its place; a suggestion that is no command is shown.
    pub(super) fn fix(&mut self) {
        let Some(row) = self.model.current() else {
            return self.note(Tone::Plain, "no session is selected (a launches one)");
        };
        let Some(suggested) = row.suggest.clone() else {
            let text = format!("nothing is suggested for {} that could be launched (E edits it)", row.name);
            return self.note(Tone::Plain, &text);
        };
        if suggested.command.is_none() {
            let session = Box::new(row.clone());
            return self.read(Reading::Cause(session));
        }
        let (session, name) = (row.session.clone(), row.name.clone());
        self.run(Command::Draft { session }, Pending::Draft(name, Some(suggested)));
    }

    pub(super) fn form_key(&mut self, key: &KeyEvent) {
        let action = self.model.keys.lookup(Context::Form, key);
        if action == Some(Action::Close) {
            self.model.overlays.pop();
            return;
        }
        let recipes = std::mem::take(&mut self.model.recipes);
        let confirmed = self.form().is_some_and(|form| form.busy.is_none() && press(form, key, action, &recipes));
        self.model.recipes = recipes;
        if confirmed {
            match self.form().map(|form| form.at) {
                Some(Slot::Save) => self.save(),
                Some(Slot::Replace) => self.replace_holder(),
                Some(_) => self.submit(),
                None => {}
            }
        }
    }

    pub(super) fn form_paste(&mut self, text: &str) {
        let recipes = std::mem::take(&mut self.model.recipes);
        if let Some(form) = self.form().filter(|form| form.busy.is_none()) {
            form.paste(text, &recipes);
        }
        self.model.recipes = recipes;
    }

    /// Returns the form that has the keys.
    fn form(&mut self) -> Option<&mut Form> {
        match self.model.overlays.last_mut() {
            Some(Overlay::Form(form)) => Some(form),
            _ => None,
        }
    }

    /// Brings what is offered into line with what is typed, and asks for what is not known yet.
    pub(super) fn settle_form(&mut self) {
        let Some(Overlay::Form(form)) = self.model.overlays.last() else { return };
        let found = form.look(&self.model.recipes, self.model.catalog.as_ref(), self.model.listing.as_ref());
        let missing = found.missing.clone().filter(|missing| form.offers.missing.as_ref() != Some(missing));
        if let Some(form) = self.form() {
            form.offers = found;
        }
        self.effects.extend(missing.map(Effect::Look));
    }

    /// Launches what the form asks for, or looks first what that would do to the session it stands for.
    fn submit(&mut self) {
        let size = self.terminal();
        let Some(form) = self.form() else { return };
        let request = match form.request(size) {
            Ok(request) => request,
            Err(fault) => return form.set_fault(fault),
        };
        let form = form.clone();
        if let Some(origin) = form.origin.clone().filter(|origin| self.model.sessions.by_id(&origin.session).is_some())
        {
            return self.check(form, origin.session, origin.name, request);
        }
        let named = |name: &str| {
            let mut rows = self.model.sessions.rows().iter();
            rows.find(|row| row.name == name && !row.phase.is_over()).map(|row| row.session.clone())
        };
        if let Some(session) = form.session_name().filter(|_| !form.second).and_then(named) {
            let text =
                format!("{session} of this name runs already: replace it, or launch again for another one beside it");
            let Some(form) = self.form() else { return };
            form.set_fault(Fault { slot: Slot::Name, text, holder: Some(session) });
            form.second = true;
            return;
        }
        let ticket = self.run(Command::Launch(request), Pending::Form(Box::new(form)));
        self.wait_for(ticket);
    }

    /// The session that is in the way gives place.
    fn replace_holder(&mut self) {
        let size = self.terminal();
        let Some(form) = self.form() else { return };
        let (Some(session), Ok(request)) = (form.holder().map(str::to_owned), form.request(size)) else { return };
        let form = form.clone();
        let name = self.model.sessions.by_id(&session).map_or_else(|| session.clone(), |row| row.name.clone());
        self.check(form, session, name, request);
    }

    /// Asks whether the launch could come true, and who would be signalled for it.
    fn check(&mut self, form: Form, session: String, name: String, request: LaunchRequest) {
        let asked = RestartRequest {
            session: session.clone(),
            launch: Some(request),
            dry_run: Some(true),
            ..RestartRequest::default()
        };
        let ticket = self.run(Command::Restart(asked), Pending::Check(Box::new(form), session, name));
        self.wait_for(ticket);
    }

    fn save(&mut self) {
        let Some(form) = self.form() else { return };
        match form.save() {
            Ok(request) => {
                let form = Box::new(form.clone());
                let ticket = self.run(Command::Save(request), Pending::Save(form));
                self.wait_for(ticket);
            }
            Err(fault) => form.set_fault(fault),
        }
    }

    fn wait_for(&mut self, ticket: Ticket) {
        if let Some(form) = self.form() {
            (form.busy, form.fault) = (Some(ticket), None);
        }
    }

    /// Gives a form back to whoever types in it.
    pub(super) fn give_back(&mut self, ticket: Ticket) {
        if let Some(form) = self.waiting_form(ticket) {
            form.busy = None;
        }
    }

    fn waiting_form(&mut self, ticket: Ticket) -> Option<&mut Form> {
        let all = self.model.overlays.iter_mut().chain(&mut self.model.waiting);
        all.filter_map(|overlay| if let Overlay::Form(form) = overlay { Some(&mut **form) } else { None })
            .find(|form| form.busy == Some(ticket))
    }

    /// Shows an error in the form; one that was closed meanwhile comes back.
    fn fault(&mut self, ticket: Ticket, what: &str, form: Box<Form>, error: &AppError) {
        self.log(Tone::Bad, &format!("{what}: {}", error.message), true);
        if let Some(form) = self.waiting_form(ticket) {
            return form.fail(error);
        }
        let mut form = *form;
        form.fail(error);
        self.open_form(form);
    }

    fn done(&mut self, ticket: Ticket) {
        let is_it = |overlay: &Overlay| matches!(overlay, Overlay::Form(form) if form.busy == Some(ticket));
        self.model.overlays.retain(|overlay| !is_it(overlay));
        self.model.waiting.retain(|overlay| !is_it(overlay));
    }

    /// Takes in what came of a form, or of what it was opened for.
    pub(super) fn formed(&mut self, ticket: Ticket, pending: Pending, result: Result<Answer, AppError>) {
        match (pending, result) {
            (Pending::Form(_), Ok(Answer::Launched(launched))) => {
                self.done(ticket);
                self.launched(launched);
            }
            (Pending::Form(form) | Pending::Check(form, ..), Err(error)) => self.fault(ticket, "Launch", form, &error),
            (Pending::Check(form, session, name), Ok(Answer::Receipt(plan))) => {
                self.checked(ticket, form, (session, name), *plan);
            }
            (Pending::Replace(_, session, name), Ok(Answer::Restarted { receipt, launched })) => {
                self.ended(&session);
                self.done(ticket);
                self.receipt(*receipt, &name);
                self.replaced(Some(&session), launched);
            }
            (Pending::Replace(form, session, name), Err(error)) => {
                self.ended(&session);
                // Somebody came between the preview and the stop: it is shown anew.
                let again = error.kind == ErrorKind::Refused && error.about.is_none();
                let size = self.terminal();
                match form.request(size) {
                    Ok(request) if again && self.waiting_form(ticket).is_some() => {
                        self.note(Tone::Warn, &error.message);
                        self.give_back(ticket);
                        self.check(*form, session, name, request);
                    }
                    Ok(_) | Err(_) => self.fault(ticket, "Launch", form, &error),
                }
            }
            (Pending::Save(_), Ok(Answer::Saved(saved))) => {
                self.note(Tone::Good, &format!("recipe {} is written to {}", saved.name, saved.path));
                self.run(Command::Recipes {}, Pending::Recipes);
                if let Some(form) = self.waiting_form(ticket) {
                    form.notes = vec![format!("saved as recipe {} in {}", saved.name, saved.path)];
                    form.notes.extend(saved.notes);
                    (form.busy, form.overwrite) = (None, false);
                }
            }
            (Pending::Save(form), Err(error)) => {
                let exists = error.kind == ErrorKind::Refused
                    && error.about.as_ref().is_some_and(|about| about.field == crate::app::contract::LaunchField::Name);
                self.fault(ticket, "Save", form, &error);
                if let Some(form) = self.form().filter(|_| exists) {
                    (form.overwrite, form.at) = (true, Slot::Save);
                }
            }
            (Pending::Draft(name, suggested), Ok(Answer::Draft(draft))) => {
                let form = Form::of_draft(&draft, name, suggested.as_ref(), &self.model.recipes);
                self.open_form(form);
            }
            (Pending::Draft(..), Err(error)) => self.failed("Edit", error),
            (Pending::TmuxSessions, Ok(Answer::TmuxSessions(rows, notes))) => {
                if let Some(Overlay::Picker(picker)) = self.model.overlays.last_mut() {
                    (picker.rows, picker.notes) = (Some(rows), notes);
                }
            }
            (Pending::AdoptTmux(name), Ok(Answer::Launched(launched))) => {
                self.note(Tone::Good, &format!("{name} is adopted; nobody was signalled"));
                self.launched(launched);
            }
            (Pending::TmuxSessions | Pending::AdoptTmux(_), Err(error)) => self.failed("Adopt", error),
            // An answer to something else: the runtime does not send it.
            (_, _) => {}
        }
    }

    /// Shows who would be signalled for a launch; where that is nobody, it is made at once.
    fn checked(
        &mut self,
        ticket: Ticket,
        form: Box<Form>,
        (session, name): (String, String),
        plan: crate::lifecycle::receipt::Receipt,
    ) {
        if self.waiting_form(ticket).is_none() {
            return;
        }
        let mut preview = preview_of(Act::Replace, Some(session.clone()), name.clone(), None, ticket);
        preview.plan = Some(Box::new(plan));
        let nobody = preview.targets().next().is_none() && preview.choices().is_empty();
        if nobody {
            return self.replace(ticket, form, (session, name), preview.confirmed());
        }
        self.model.overlays.push(Overlay::Preview(preview));
    }

    /// Does what the preview has shown.
    pub(super) fn confirm_replace(&mut self, preview: &Preview) {
        let (Some(session), confirmed, name) = (preview.session.clone(), preview.confirmed(), preview.name.clone())
        else {
            return;
        };
        self.watch(Act::Replace, Some(&session), preview.plan.as_deref());
        self.model.overlays.pop();
        if let Some(form) = self.waiting_form(preview.ticket).cloned() {
            self.replace(preview.ticket, Box::new(form), (session, name), confirmed);
        }
    }

    fn replace(&mut self, ticket: Ticket, form: Box<Form>, (session, name): (String, String), confirmed: Confirmed) {
        let Ok(request) = form.request(self.terminal()) else { return };
        let kept: Vec<Choice> = confirmed.kept.into_iter().map(Choice::Identity).collect();
        let asked = RestartRequest {
            session: session.clone(),
            confirm: Some(confirmed.targets),
            end_kept: (!kept.is_empty()).then_some(kept),
            launch: Some(request),
            dry_run: None,
        };
        self.note(Tone::Plain, &format!("{}: {name} {}", Act::Replace.verb(), glyph::MORE));
        self.model.acting.push(session.clone());
        let next = self.run(Command::Restart(asked), Pending::Replace(form, session, name));
        if let Some(form) = self.waiting_form(ticket) {
            form.busy = Some(next);
        }
    }

    /// A stop of ours is over.
    fn ended(&mut self, session: &String) {
        self.model.acting.retain(|id| id != session);
        self.unwatch(Some(session), None);
    }

    /// Opens the picker of tmux sessions.
    pub(super) fn pick(&mut self) {
        self.model.overlays.push(Overlay::Picker(Picker::default()));
        self.run(Command::TmuxSessions {}, Pending::TmuxSessions);
    }

    /// Adopts the tmux session that is selected.
    pub(super) fn adopt_picked(&mut self) {
        let Some(Overlay::Picker(picker)) = self.model.overlays.last_mut() else { return };
        let Some(row) = picker.selected().cloned() else { return };
        if let Some(session) = &row.adopted {
            picker.note = Some(format!("it is adopted already: {session}"));
            return;
        }
        self.model.overlays.pop();
        let tmux = TmuxRef { socket: Some(row.socket), session: row.session_id };
        self.run(Command::Adopt { tmux }, Pending::AdoptTmux(row.name));
    }
}

/// Does what a key does in a form. Returns whether the line is to be carried out.
fn press(form: &mut Form, key: &KeyEvent, action: Option<Action>, recipes: &[crate::app::config::RecipeRow]) -> bool {
    match action {
        Some(Action::Confirm) if form.offers.chosen.is_some() => drop(form.take(recipes)),
        Some(Action::Confirm) => return true,
        Some(Action::Down) => form.step(1),
        Some(Action::Up) => form.step(-1),
        Some(Action::PageDown) => form.choose(1),
        Some(Action::PageUp) => form.choose(-1),
        Some(Action::Right) if form.turn(1) => {}
        Some(Action::Left) if form.turn(-1) => {}
        Some(Action::Right) if form.field(form.at).is_some_and(super::super::model::Field::at_end) => {
            form.take(recipes);
        }
        _ if key.code == KeyCode::Char(' ') && key.modifiers == KeyModifiers::NONE && form.turn(1) => {}
        _ => form.edit(|field| field.edit(key), recipes),
    }
    false
}
