//! What an event does to the model, and what is asked for because of it.
//!
//! Pure: called by `run` (and by tests) with the time as an argument; never reads a clock, the
//! terminal or a process. One event is one [`Turn`]; at its end [`Turn::settle`] brings what depends
//! on the whole model into line: the selection, the size of the terminal, the scroll positions.

mod answers;
mod early;
mod finding;
mod forms;
mod history;
mod keys;
mod live;
mod marks;
mod overlays;
mod pointer;
mod strangers;
#[cfg(test)]
mod tests;

pub(super) use early::Early;
pub(super) use keys::{ending, ends_nobody};

use std::time::{Duration, Instant};

use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::input;
use super::keymap::{Action, Context, is_chord, press_of};
use super::model::{Model, Overlay, Pane, Pending};
use super::seam::{Effect, Ticket, Typed, UiEvent};
use super::theme::Tone;
use super::view;
use super::view::layout::layout;
use crate::app::command::Command;

/// Takes in one event and returns what is asked for because of it.
pub fn update(model: &mut Model, event: UiEvent, now: Instant) -> Vec<Effect> {
    let was_typing = model.focused;
    let by_hand = matches!(event, UiEvent::Input(_));
    let mut turn = Turn { model, now, effects: Vec::new() };
    turn.take(event);
    turn.settle();
    if was_typing && !turn.model.focused && !by_hand {
        turn.model.deaf_until = Some(now + DEAF);
    }
    turn.effects
}

/// How long keys do nothing after a terminal has gone from under somebody's hands: what they type was
/// meant for it, and must not become commands. Each such key counts anew.
const DEAF: Duration = Duration::from_millis(600);

/// One event on its way through the model.
struct Turn<'a> {
    model: &'a mut Model,
    now: Instant,
    effects: Vec<Effect>,
}

impl Turn<'_> {
    fn take(&mut self, event: UiEvent) {
        match event {
            UiEvent::Input(Input::Key(key)) => self.key(&key),
            UiEvent::Input(Input::Paste(text)) => {
                if let Some(Typed::Paste(text)) = self.keep_early(Typed::Paste(text)) {
                    self.paste(&text);
                }
            }
            UiEvent::Input(Input::Mouse(event)) => self.pointer(event),
            UiEvent::Input(Input::Resize(cols, rows)) => self.model.size = (cols, rows),
            UiEvent::Background(colour) => self.model.theme = self.model.theme.on(colour),
            UiEvent::Keyboard => self.model.tells_keys_apart = true,
            UiEvent::Sessions(rows) => self.sessions(rows),
            UiEvent::Orphans(orphans) => {
                self.model.sessions.replace_orphans(orphans.orphans, orphans.quarantined);
            }
            UiEvent::Strangers(rows) => self.strangers(rows),
            UiEvent::Tree { session, tree } => {
                self.see_gone(&session, &tree);
                self.ask_why_again(&session);
                if self.model.selected.as_ref() == Some(&session) {
                    self.model.tree.turn_to(Some(&session));
                    self.model.tree.replace(tree, self.now);
                }
            }
            UiEvent::Answered { ticket, result } => self.answered(ticket, result),
            UiEvent::Happened(event) => self.happened(&event),
            UiEvent::Clipboard { session, bytes } => self.forward(&session, bytes),
            UiEvent::Frozen(frozen) => self.frozen(*frozen),
            UiEvent::Edited(Err(why)) => self.note(Tone::Bad, &why),
            UiEvent::Printed(printed) => self.model.news.take(printed),
            UiEvent::Branches(branches) => self.model.branches = branches,
            UiEvent::Recipes(recipes) => self.model.recipes = recipes,
            UiEvent::Catalog(catalog) => self.model.catalog = Some(*catalog),
            UiEvent::Listing(listing) => self.model.listing = Some(listing),
            UiEvent::Note(text) => self.note(Tone::Plain, &text),
            UiEvent::Suspend => self.effects.push(Effect::Suspend),
            UiEvent::Hangup | UiEvent::Terminate => self.effects.push(Effect::Quit),
            UiEvent::Input(Input::FocusGained) => {
                self.model.looks_elsewhere = false;
                self.model.unsaid.forget();
            }
            UiEvent::Input(Input::FocusLost) => self.model.looks_elsewhere = true,
            UiEvent::Edited(Ok(())) | UiEvent::ScreenChanged | UiEvent::Tick | UiEvent::Resume | UiEvent::Drawn => {}
        }
    }

    fn key(&mut self, key: &KeyEvent) {
        match key.kind {
            KeyEventKind::Press | KeyEventKind::Repeat => {}
            KeyEventKind::Release => return,
        }
        if self.model.deaf_until.take_if(|until| self.now < *until).is_some() {
            self.model.deaf_until = Some(self.now + DEAF);
            return;
        }
        let Some(Typed::Key(key)) = &self.keep_early(Typed::Key(*key)) else { return };
        let esc_first = KeyEvent { modifiers: key.modifiers - KeyModifiers::ALT, ..*key };
        if key.modifiers.contains(KeyModifiers::ALT)
            && !self.model.tells_keys_apart
            && matches!(key.code, KeyCode::Char(_))
            && !matches!(
                self.model.context(),
                Context::Terminal
                    | Context::Line
                    | Context::Form
                    | Context::Ask
                    | Context::Filter
                    | Context::Palette
                    | Context::Search
            )
            && !is_chord(self.model.escape, key)
        {
            // No command has Alt: it was Esc, and a key so soon after it that the terminal's bytes
            // look like Alt.
            self.key(&KeyCode::Esc.into());
            return self.key(&esc_first);
        }
        let chord = is_chord(self.model.escape, key);
        let left_at = self.model.chord_at.take();
        let context = self.model.context();
        if context != Context::Terminal && self.model.keys.lookup(context, key) == Some(Action::Help) {
            // Whoever has just left a terminal asks for what holds there.
            return self.help(if left_at.is_some() { Context::Terminal } else { context });
        }
        match context {
            Context::Terminal if chord => {
                self.model.focused = false;
                self.model.chord_at = Some(self.now);
                // Whoever has left a terminal moves among the sessions next.
                if layout(self.model).list.is_some() {
                    self.model.pane = Pane::List;
                }
            }
            Context::Terminal => self.type_key(key),
            Context::Panes if chord && left_at.is_some_and(|at| self.now < at + keys::TWICE) => {
                let chord = press_of(self.model.escape);
                (self.model.focused, self.model.pane) = (true, Pane::Screen);
                self.type_key(&chord);
            }
            Context::Panes => self.pane_key(key),
            Context::Filter if !self.model.overlays.is_empty() => self.dialog_filter_key(key),
            Context::Filter => self.filter_key(key),
            Context::Form => self.form_key(key),
            context @ (Context::History | Context::Search) => self.history_key(context, key),
            context @ (Context::Preview
            | Context::Reader
            | Context::Help
            | Context::Menu
            | Context::Picker
            | Context::Events
            | Context::Line
            | Context::Ask
            | Context::Palette
            | Context::Error
            | Context::Quit) => self.overlay_key(context, key),
        }
    }

    /// Types a key into the selected session.
    fn type_key(&mut self, key: &KeyEvent) {
        if let Some(modes) = self.model.modes().copied() {
            let bytes = input::key(key, modes);
            self.type_bytes(bytes);
            self.type_into_others(&Typed::Key(*key));
        }
    }

    fn type_bytes(&mut self, bytes: Vec<u8>) {
        if let (Some(session), false) = (&self.model.selected, bytes.is_empty()) {
            self.effects.push(Effect::Input { session: session.clone(), bytes });
            self.model.scroll = 0;
        }
    }

    fn paste(&mut self, text: &str) {
        match self.model.context() {
            Context::Terminal => {
                if let (Some(modes), Some(session)) = (self.model.modes(), self.model.selected.clone()) {
                    let paste = input::paste(text, *modes);
                    if !paste.text.is_empty() {
                        self.effects.push(Effect::Paste { session, paste });
                        self.model.scroll = 0;
                        self.type_into_others(&Typed::Paste(text.to_owned()));
                    }
                }
            }
            Context::Line => {
                if let Some(Overlay::Launch(launch)) = self.model.overlays.last_mut() {
                    launch.line.insert_lines(text);
                }
            }
            Context::Form => self.form_paste(text),
            Context::Ask => {
                if let Some(Overlay::Ask(ask)) = self.model.overlays.last_mut() {
                    ask.line.insert(text);
                }
            }
            Context::Filter if !self.model.overlays.is_empty() => self.type_dialog_filter(|line| line.insert(text)),
            Context::Filter => self.type_filter(|line| line.insert(text)),
            Context::Search => self.type_search(|line| line.insert(text)),
            Context::Palette => {
                if let Some(Overlay::Palette(palette)) = self.model.overlays.last_mut() {
                    palette.line.insert(text);
                    palette.chosen = 0;
                }
            }
            // Anywhere else a paste would press keys.
            Context::Panes
            | Context::History
            | Context::Preview
            | Context::Reader
            | Context::Help
            | Context::Menu
            | Context::Picker
            | Context::Events
            | Context::Error
            | Context::Quit => {}
        }
    }

    /// A session writes the clipboard only while somebody types into it, and looks here.
    fn forward(&mut self, session: &str, bytes: Vec<u8>) {
        let is_typed_into = self.model.context() == Context::Terminal && !self.model.looks_elsewhere;
        if !is_typed_into || self.model.selected.as_deref() != Some(session) {
            return;
        }
        let name = self.model.current().map(|row| row.name.clone()).unwrap_or_default();
        let size = if bytes.len() == 1 { "1 byte".to_owned() } else { format!("{} bytes", bytes.len()) };
        self.note(Tone::Plain, &format!("{name} copied {size} to the clipboard"));
        self.effects.push(Effect::Forward(bytes));
    }

    fn run(&mut self, command: Command, pending: Pending) -> Ticket {
        let ticket = self.model.next_ticket;
        self.model.next_ticket += 1;
        self.model.pending.insert(ticket, pending);
        self.effects.push(Effect::Run { ticket, command });
        ticket
    }

    fn note(&mut self, tone: Tone, text: &str) {
        self.log(tone, text, true);
    }

    fn log(&mut self, tone: Tone, text: &str, notable: bool) {
        let at = self.now.saturating_duration_since(self.model.started);
        self.model.log.push(at, tone, text, notable);
    }

    /// Selects a session and forgets what was shown of the one before.
    fn select(&mut self, session: Option<String>) {
        self.model.met = None;
        if self.model.selected != session {
            self.model.selected = session;
            self.model.scroll = 0;
            self.model.focused = false;
        }
    }

    /// Brings everything into line that depends on the whole model.
    fn settle(&mut self) {
        self.settle_filter();
        self.settle_form();
        self.settle_stops();
        self.settle_early();
        self.effects.extend(self.model.unsaid.take(self.now).map(Effect::Notify));
        let model = &mut *self.model;
        model.tree.expire(self.now);
        if model.focused && (model.modes().is_none() || model.current().is_none_or(|row| row.phase.is_over())) {
            model.focused = false;
        }
        if !model.focused && std::mem::take(&mut model.broadcast) {
            self.note(Tone::Plain, "the broadcast has ended: keys go to one session again");
        }
        let model = &mut *self.model;
        if model.selected.is_none() {
            model.zoom = false;
            if model.met.is_none() && layout(model).list.is_none() {
                model.pane = Pane::List;
            }
        }
        if let Some(id) = &model.selected {
            model.attention.remove(id);
        }
        // A dialog that came by itself waits until nobody is typing.
        if model.overlays.is_empty()
            && !model.focused
            && let Some(overlay) = model.waiting.pop_front()
        {
            model.overlays.push(overlay);
        }
        if model.watched != model.selected {
            model.watched.clone_from(&model.selected);
            model.tree.turn_to(model.selected.as_deref());
            self.effects.push(Effect::Select(model.selected.clone()));
        }
        let layout = layout(model);
        let (rows, cols) = layout.terminal;
        if let Some(row) = model.current()
            && rows >= 1
            && cols >= 2
        {
            // What a session has left is read as well: it is wrapped anew.
            let session = row.session.clone();
            if model.sized.insert(session.clone(), (rows, cols)) != Some((rows, cols)) {
                self.effects.push(Effect::Resize { session, rows, cols });
            }
        }
        if layout.area(model.pane).is_none() {
            model.pane = if layout.screen.is_some() { Pane::Screen } else { Pane::List };
        }
        if let Some(id) = model.selected.as_deref().filter(|_| layout.screen.is_some()) {
            model.news.look(id);
        }
        view::settle(model, &layout);
        self.settle_history();
    }
}
