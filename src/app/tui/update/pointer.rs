//! The mouse. Pure.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

use super::super::input;
use super::super::model::{ListLine, Overlay, Pane};
use super::super::view::layout::{Area, layout};
use super::super::view::{list_lines, tree_rows};
use super::Turn;
use crate::pty::screen::MouseMode;

/// Rows per notch of the wheel.
const NOTCH: isize = 3;

impl Turn<'_> {
    pub(super) fn pointer(&mut self, event: MouseEvent) {
        let wheel = match event.kind {
            MouseEventKind::ScrollUp => Some(-NOTCH),
            MouseEventKind::ScrollDown => Some(NOTCH),
            MouseEventKind::Down(_)
            | MouseEventKind::Up(_)
            | MouseEventKind::Drag(_)
            | MouseEventKind::Moved
            | MouseEventKind::ScrollLeft
            | MouseEventKind::ScrollRight => None,
        };
        if self.pass_held(event) {
            return;
        }
        if matches!(event.kind, MouseEventKind::Down(_)) {
            self.model.held = None;
        }
        if !self.model.overlays.is_empty() {
            // Below a dialog the mouse does nothing; a list of choices moves by one.
            let by = match self.model.overlays.last() {
                Some(Overlay::Launch(_) | Overlay::Palette(_)) => wheel.map(isize::signum),
                _ => wheel,
            };
            return by.into_iter().for_each(|by| self.scroll_overlay(by));
        }
        if event.kind == MouseEventKind::Up(MouseButton::Left) {
            self.release();
        }
        let Some((pane, area)) = layout(self.model).pane_at(event.column, event.row) else { return };
        if pane == Pane::Screen && self.passes(event) {
            if area.body.contains((event.column, event.row).into()) {
                self.pass(event, area);
                if let MouseEventKind::Down(button) = event.kind {
                    self.model.held = self.model.selected.clone().map(|session| (session, button));
                }
            }
            return;
        }
        match (event.kind, wheel) {
            (_, Some(by)) => self.wheel(pane, by),
            (MouseEventKind::Drag(MouseButton::Left), None) if pane == Pane::Screen => self.drag(area, event),
            (MouseEventKind::Down(MouseButton::Left), None) if pane == Pane::Screen && self.model.history.is_some() => {
                self.press(area, event);
            }
            (MouseEventKind::Down(MouseButton::Left), None) => {
                self.model.pressed = None;
                if pane == Pane::Screen {
                    self.press(area, event);
                }
                self.click(pane, area, event.row);
            }
            _ => {}
        }
    }

    /// Tells whether the program in the terminal gets the event. The wheel is for whatever is under
    /// the pointer, if its program asked for it; the rest needs the focus.
    fn passes(&self, event: MouseEvent) -> bool {
        if matches!(event.kind, MouseEventKind::Up(_) | MouseEventKind::Drag(_)) {
            // A button that was not pressed for the program is not let go for it.
            return false;
        }
        let wants = self.model.modes().is_some_and(|modes| modes.mouse != MouseMode::None);
        let wheel = matches!(event.kind, MouseEventKind::ScrollUp | MouseEventKind::ScrollDown);
        wants && self.model.history.is_none() && self.model.scroll == 0 && (self.model.focused || wheel)
    }

    /// Passes on what happens to a button that was pressed in the terminal, wherever the pointer has gone meanwhile: a
    /// program that hears of no end drags for ever. Returns whether it was that.
    fn pass_held(&mut self, event: MouseEvent) -> bool {
        let (MouseEventKind::Drag(button) | MouseEventKind::Up(button)) = event.kind else { return false };
        let is_its = |held: &(String, MouseButton)| held.1 == button && Some(&held.0) == self.model.selected.as_ref();
        let area = layout(self.model).screen.filter(|area| !area.body.is_empty());
        let (Some(area), true) = (area, self.model.held.as_ref().is_some_and(is_its)) else { return false };
        if event.kind == MouseEventKind::Up(button) {
            self.model.held = None;
        }
        let body = area.body;
        let column = event.column.clamp(body.x, body.right() - 1);
        let row = event.row.clamp(body.y, body.bottom() - 1);
        self.pass(MouseEvent { column, row, ..event }, area);
        true
    }

    /// Passes on what happens within the terminal.
    fn pass(&mut self, event: MouseEvent, area: Area) {
        let body = area.body;
        let first = self.model.facts().map_or(0, |facts| facts.first_row(body.height, self.model.scroll));
        let mouse = input::Mouse {
            kind: event.kind,
            column: event.column - body.x,
            row: event.row - body.y + first,
            modifiers: event.modifiers,
        };
        if let Some(bytes) = self.model.modes().copied().and_then(|modes| input::mouse(mouse, modes)) {
            self.type_bytes(bytes);
        }
    }

    fn wheel(&mut self, pane: Pane, by: isize) {
        match pane {
            // Another session would take the keys away from whoever types.
            Pane::List if self.model.focused || self.model.early.is_some() => {}
            Pane::List => self.step_session(by.signum()),
            Pane::Tree => self.step_process(by.signum()),
            Pane::Screen if let Some(history) = &mut self.model.history => history.step(by),
            Pane::Screen => {
                // Programs that fill the screen have no history; they read the wheel as arrows.
                let full = self.model.modes().is_some_and(|modes| modes.alternate_screen);
                if let (true, Some(modes)) = (full, self.model.modes().copied()) {
                    let arrow = if by < 0 { crossterm::event::KeyCode::Up } else { crossterm::event::KeyCode::Down };
                    // For the program under the pointer, and nobody else.
                    for _ in 0..NOTCH {
                        self.type_bytes(input::key(&arrow.into(), modes));
                    }
                } else {
                    self.scroll_history(by);
                }
            }
        }
    }

    fn click(&mut self, pane: Pane, area: Area, row: u16) {
        let again = self.model.pane == pane && !self.model.focused;
        if pane != Pane::Screen {
            self.model.focused = false;
        }
        self.model.pane = pane;
        self.keep_filter();
        let Some(line) = row.checked_sub(area.body.y).map(usize::from) else { return };
        match pane {
            Pane::List => {
                let lines = list_lines(self.model);
                if let Some(ListLine::Heading(group, _)) = lines.get(self.model.list_top + line) {
                    let group = *group;
                    self.fold_group(group);
                } else if let Some(ListLine::Session(row) | ListLine::Orphan(row, _)) =
                    lines.get(self.model.list_top + line)
                {
                    let session = row.session.clone();
                    self.select(Some(session));
                } else if let Some(ListLine::Stranger(row)) = lines.get(self.model.list_top + line) {
                    let pid = row.pid;
                    self.meet(pid);
                }
            }
            Pane::Tree => {
                let lines = self.model.tree.lines();
                let rows = tree_rows(area.body);
                if let Some(line) = line.checked_sub(usize::from(rows.y - area.body.y))
                    && line < usize::from(rows.height)
                    && let Some(line) = lines.get(self.model.tree.top + line)
                {
                    self.model.tree.cursor = Some(line.pid());
                }
            }
            // The first click selects the pane, the second one is for typing.
            Pane::Screen if again => self.focus(),
            Pane::Screen => {}
        }
    }
}
