//! Keys in dialogs. Pure.

use crossterm::event::KeyEvent;

use super::super::glyph::MORE;
use super::super::keymap::{Action, Context};
use super::super::model::{Act, Ask, Confirmed, Field, Launch, Overlay, Pending, Reader, Reading, seconds};
use super::super::seam::Effect;
use super::super::theme::Tone;
use super::super::view;
use super::super::view::layout::layout;
use super::Turn;
use crate::app::command::Command;
use crate::app::contract::{HostKind, Kind, LaunchRequest};

impl Turn<'_> {
    pub(super) fn overlay_key(&mut self, context: Context, key: &KeyEvent) {
        let Some(action) = self.model.keys.lookup(context, key) else {
            match self.model.overlays.last_mut() {
                Some(Overlay::Launch(launch)) if launch.typing => {
                    launch.note = None;
                    launch.line.edit(key);
                }
                Some(Overlay::Palette(palette)) => {
                    palette.line.edit(key);
                    palette.chosen = 0;
                }
                Some(Overlay::Ask(ask)) => {
                    ask.note = None;
                    ask.line.edit(key);
                }
                _ => {}
            }
            return;
        };
        match action {
            Action::Up => self.step_overlay(-1),
            Action::Down => self.step_overlay(1),
            Action::PageUp => self.scroll_overlay(-10),
            Action::PageDown => self.scroll_overlay(10),
            Action::Top => self.scroll_overlay(isize::MIN / 2),
            Action::Bottom => self.scroll_overlay(isize::MAX / 2),
            Action::Close => self.close(),
            Action::Confirm => self.confirm(),
            Action::Scope => self.change_scope(),
            Action::Choose => {
                if let Some(Overlay::Preview(preview)) = self.model.overlays.last_mut() {
                    preview.toggle();
                }
            }
            Action::Hold => self.hold(),
            Action::Copy => self.copy_overlay(),
            Action::Type => self.with_launch(|launch| launch.typing = true),
            Action::NextKind => self.with_launch(|launch| {
                let at = Kind::ALL.iter().position(|kind| *kind == launch.kind()).unwrap_or(0);
                launch.kind = Some(Kind::ALL[(at + 1) % Kind::ALL.len()]);
            }),
            Action::NextHost => self.with_launch(|launch| {
                launch.host = match launch.host {
                    None => Some(HostKind::Pty),
                    Some(HostKind::Pty) => Some(HostKind::Tmux),
                    Some(HostKind::Tmux) => None,
                };
            }),
            Action::Find => {
                if let Some((typing, _)) = self.dialog_filter() {
                    *typing = true;
                }
            }
            Action::Form => self.form_of_menu(),
            Action::NextPane
            | Action::PreviousPane
            | Action::Back
            | Action::Focus
            | Action::Leave
            | Action::Start
            | Action::Revise
            | Action::Fix
            | Action::Stop
            | Action::Force
            | Action::Sweep
            | Action::Restart
            | Action::Zoom
            | Action::Tree
            | Action::Why
            | Action::LookBack
            | Action::Left
            | Action::Right
            | Action::LineStart
            | Action::LineEnd
            | Action::Select
            | Action::SelectRows
            | Action::Next
            | Action::Previous
            | Action::Edit
            | Action::Mark
            | Action::Broadcast
            | Action::Fold
            | Action::Attention
            | Action::Palette
            | Action::Events
            | Action::Receipt
            | Action::Orphans
            | Action::Reap
            | Action::Adopt
            | Action::Doctor
            | Action::Extend
            | Action::Dismiss
            | Action::Help
            | Action::Suspend
            | Action::Redraw
            | Action::Quit => {}
        }
    }

    fn with_launch(&mut self, change: impl FnOnce(&mut Launch)) {
        if let Some(Overlay::Launch(launch)) = self.model.overlays.last_mut() {
            launch.note = None;
            change(launch);
        }
    }

    /// Moves by rows in the topmost dialog.
    fn step_overlay(&mut self, by: isize) {
        match self.model.overlays.last_mut() {
            Some(Overlay::Preview(preview)) => preview.step(by),
            _ => self.scroll_overlay(by),
        }
    }

    /// Scrolls the topmost dialog; `settle` keeps the position within the text.
    pub(super) fn scroll_overlay(&mut self, by: isize) {
        if let Some(Overlay::Palette(palette)) = self.model.overlays.last() {
            let last = palette.entries(self.model).len().saturating_sub(1);
            let chosen = palette.chosen.saturating_add_signed(by).min(last);
            if let Some(Overlay::Palette(palette)) = self.model.overlays.last_mut() {
                palette.chosen = chosen;
            }
            return;
        }
        let recipes: Vec<String> = view::menu_order(&self.model.recipes).map(|row| row.name.clone()).collect();
        match self.model.overlays.last_mut() {
            Some(Overlay::Preview(preview)) => {
                (preview.scroll, preview.follows) = (preview.scroll.saturating_add_signed(by), false);
            }
            Some(Overlay::Many(many)) => many.scroll = many.scroll.saturating_add_signed(by),
            Some(Overlay::Help(help)) => help.scroll = help.scroll.saturating_add_signed(by),
            Some(Overlay::Reader(reader)) => reader.scroll = reader.scroll.saturating_add_signed(by),
            Some(Overlay::Quit(quit)) => quit.scroll = quit.scroll.saturating_add_signed(by),
            Some(Overlay::Launch(launch)) if !launch.typing => {
                let Some(last) = recipes.len().checked_sub(1) else { return };
                let at = launch.recipe.as_ref().and_then(|name| recipes.iter().position(|other| other == name));
                let next = at.unwrap_or(0).saturating_add_signed(by).min(last);
                launch.recipe = recipes.into_iter().nth(next);
                launch.note = None;
            }
            Some(Overlay::Form(form)) => form.step(by.signum()),
            Some(Overlay::Picker(picker)) => picker.step(by),
            Some(Overlay::Events(events)) => events.step(by, &self.model.log),
            Some(Overlay::Launch(_) | Overlay::Ask(_) | Overlay::Palette(_) | Overlay::Error(_)) | None => {}
        }
    }

    fn close(&mut self) {
        if let Some(Overlay::Launch(launch)) = self.model.overlays.last_mut()
            && launch.typing
        {
            // One step back: from the command line to the recipes.
            launch.typing = false;
            return;
        }
        if let Some((_, line)) = self.dialog_filter().filter(|(_, line)| !line.text().is_empty()) {
            // One step back: from some lines to all.
            *line = Field::default();
            return;
        }
        match self.model.overlays.pop() {
            Some(Overlay::Preview(preview)) => {
                self.model.pending.remove(&preview.ticket);
                self.give_back(preview.ticket);
            }
            Some(Overlay::Many(many)) => {
                many.items.iter().filter_map(|item| item.ticket).for_each(|ticket| {
                    self.model.pending.remove(&ticket);
                });
            }
            _ => {}
        }
    }

    fn confirm(&mut self) {
        match self.model.overlays.last() {
            Some(Overlay::Preview(preview)) => {
                // What was not on the screen cannot be confirmed.
                if !preview.drawn || preview.not_before.is_some_and(|until| self.now < until) {
                    return;
                }
                if preview.act == Act::Replace {
                    return self.confirm_replace(&preview.clone());
                }
                let (act, session, name) = (preview.act, preview.session.clone(), preview.name.clone());
                let (confirmed, plan) = (preview.confirmed(), preview.plan.clone());
                self.watch(act, session.as_ref(), plan.as_deref());
                self.model.overlays.pop();
                self.carry_out(act, session, name, confirmed);
            }
            Some(Overlay::Many(many)) => self.confirm_many(many.clone()),
            Some(Overlay::Launch(launch)) if launch.typing => self.launch_line(launch.clone()),
            Some(Overlay::Launch(launch)) => {
                let name = launch.recipe.clone();
                self.launch_recipe(name.as_deref());
            }
            Some(Overlay::Ask(ask)) => self.extend_by(ask.clone()),
            Some(Overlay::Picker(_)) => self.adopt_picked(),
            Some(Overlay::Events(_)) => self.open_receipt(),
            Some(Overlay::Palette(palette)) => {
                let chosen = palette.entries(self.model).into_iter().nth(palette.chosen);
                self.choose(chosen);
            }
            Some(Overlay::Quit(quit)) if quit.drawn => self.effects.push(Effect::Quit),
            Some(Overlay::Quit(_) | Overlay::Form(_) | Overlay::Reader(_) | Overlay::Help(_) | Overlay::Error(_))
            | None => {}
        }
    }

    /// Does what was agreed to.
    pub(super) fn carry_out(&mut self, act: Act, session: Option<String>, name: String, confirmed: Confirmed) {
        let command = act.command(session.as_deref(), Some(confirmed));
        self.note(Tone::Plain, &format!("{}: {name} {MORE}", act.verb()));
        self.model.acting.extend(session.clone());
        self.run(command, Pending::Act { act, session, name });
    }

    /// Returns the filter of the topmost dialog: whether it has the keys, and its line.
    fn dialog_filter(&mut self) -> Option<(&mut bool, &mut Field)> {
        match self.model.overlays.last_mut()? {
            Overlay::Events(events) => Some((&mut events.typing, &mut events.line)),
            Overlay::Help(help) => Some((&mut help.typing, &mut help.line)),
            Overlay::Preview(_)
            | Overlay::Many(_)
            | Overlay::Reader(_)
            | Overlay::Launch(_)
            | Overlay::Form(_)
            | Overlay::Picker(_)
            | Overlay::Ask(_)
            | Overlay::Palette(_)
            | Overlay::Error(_)
            | Overlay::Quit(_) => None,
        }
    }

    /// Changes what the topmost dialog filters by.
    pub(super) fn type_dialog_filter(&mut self, change: impl FnOnce(&mut Field)) {
        if let Some((_, line)) = self.dialog_filter() {
            change(line);
        }
        match self.model.overlays.last_mut() {
            Some(Overlay::Events(events)) => events.chosen = None,
            Some(Overlay::Help(help)) => help.scroll = 0,
            _ => {}
        }
    }

    /// Takes a key while the filter of a dialog is typed.
    pub(super) fn dialog_filter_key(&mut self, key: &KeyEvent) {
        let action = self.model.keys.lookup(Context::Filter, key);
        if let Some(action) = action.filter(|action| action.moves()) {
            let rows = if matches!(action, Action::PageUp | Action::PageDown) { 10 } else { 1 };
            let up = matches!(action, Action::Up | Action::PageUp);
            return self.scroll_overlay(if up { -rows } else { rows });
        }
        let Some((typing, line)) = self.dialog_filter() else { return };
        match action {
            Some(Action::Confirm) => *typing = false,
            Some(_) => (*typing, *line) = (false, Field::default()),
            None => self.type_dialog_filter(|line| line.edit(key)),
        }
    }

    /// Opens the receipt that the line of the event log tells of.
    fn open_receipt(&mut self) {
        let Some(Overlay::Events(events)) = self.model.overlays.last() else { return };
        let Some(number) = events.receipt(&self.model.log) else { return };
        match self.model.receipt(number).cloned() {
            Some(receipt) => {
                let reading = Reading::Receipt(Box::new(receipt));
                self.model.overlays.push(Overlay::Reader(Reader { reading, scroll: 0 }));
            }
            None => self.note(Tone::Plain, "it is not kept here any more: `cookbook-tui logs --receipts` has it"),
        }
    }

    fn extend_by(&mut self, ask: Ask) {
        let text = ask.line.text().trim().to_owned();
        let Some(ceiling_s) = seconds(&text) else {
            if let Some(Overlay::Ask(ask)) = self.model.overlays.last_mut() {
                ask.note = Some("give a number above 0 with s, m, h or d, for example 12h".to_owned());
            }
            return;
        };
        self.model.overlays.pop();
        let for_long = if text.ends_with(|c: char| c.is_ascii_digit()) { format!("{text}h") } else { text };
        self.run(Command::Extend { session: ask.session, ceiling_s }, Pending::Extend(ask.name, for_long));
    }

    fn launch_line(&mut self, launch: Launch) {
        if launch.line.text().trim().is_empty() {
            return self.with_launch(|launch| launch.note = Some("type a command first".to_owned()));
        }
        let (rows, cols) = self.terminal();
        let request = launch.request(rows, cols);
        self.model.overlays.pop();
        self.run(Command::Launch(request.clone()), Pending::Launch(Some(launch), Box::new(request)));
    }

    fn launch_recipe(&mut self, name: Option<&str>) {
        let mut offered = view::menu_order(&self.model.recipes);
        let Some(row) = offered.find(|row| name.is_none_or(|name| row.name == name)).cloned() else {
            return;
        };
        drop(offered);
        if !row.available {
            let reason = row.reason.unwrap_or_else(|| "not available here".to_owned());
            return self.with_launch(|launch| launch.note = Some(reason));
        }
        let (rows, cols) = self.terminal();
        let request =
            LaunchRequest { recipe: Some(row.name), rows: Some(rows), cols: Some(cols), ..LaunchRequest::default() };
        self.model.overlays.pop();
        self.run(Command::Launch(request.clone()), Pending::Launch(None, Box::new(request)));
    }

    /// Rows and columns for a new session.
    pub(super) fn terminal(&self) -> (u16, u16) {
        let (rows, cols) = layout(self.model).terminal;
        (rows.max(1), cols.max(2))
    }

    fn change_scope(&mut self) {
        let Some(Overlay::Preview(preview)) = self.model.overlays.last() else { return };
        let act = preview.act;
        let session = match (act, &preview.session) {
            (Act::Sweep | Act::Reap, Some(_)) => None,
            (Act::Sweep, None) => self.model.selected.clone(),
            (Act::Reap, None) => self.orphan(),
            (Act::Stop | Act::Force | Act::Restart | Act::Replace, _) => return,
        };
        self.close();
        self.preview(act, session, None);
    }

    fn copy_overlay(&mut self) {
        let Some(overlay) = self.model.overlays.last() else { return };
        let what = match overlay {
            Overlay::Events(_) => "the events",
            Overlay::Help(_) => "the help",
            Overlay::Preview(_) | Overlay::Many(_) => "the preview",
            Overlay::Reader(reader) => match reader.reading {
                Reading::Receipt(_) => "the receipt",
                Reading::Live(_) => "the stop",
                Reading::Orphans(_) => "the orphans",
                Reading::Doctor(_) => "the checks",
                Reading::Why(_) => "why it is what it is",
                Reading::Cause(_) => "the cause",
                Reading::Stranger(_) => "what is known of it",
            },
            Overlay::Launch(_)
            | Overlay::Form(_)
            | Overlay::Picker(_)
            | Overlay::Ask(_)
            | Overlay::Palette(_)
            | Overlay::Error(_)
            | Overlay::Quit(_) => return,
        };
        let text = view::overlay_text(self.model, overlay);
        self.note(Tone::Plain, &format!("copied {what}"));
        self.effects.push(Effect::Copy(text));
    }
}
