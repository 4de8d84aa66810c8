//! Looking back in a terminal: moving, searching, selecting, copying, by keys and by the mouse. Pure.

use crossterm::event::{KeyEvent, MouseEvent};

use super::super::keymap::{Action, Context};
use super::super::model::{Field, Frozen, History, Pane, Purpose, Selection};
use super::super::seam::Effect;
use super::super::theme::Tone;
use super::super::view::layout::{Area, layout};
use super::Turn;

impl Turn<'_> {
    /// Asks for the text of the selected terminal, to look back in it.
    pub(super) fn look_back(&mut self, purpose: Purpose) {
        if self.model.facts().is_none() {
            return self.note(Tone::Plain, "no terminal is shown");
        }
        self.show_screen();
        self.model.focused = false;
        self.model.freezing = Some(purpose);
        self.effects.push(Effect::Freeze);
    }

    /// Takes in the text that was asked for.
    pub(super) fn frozen(&mut self, frozen: Frozen) {
        let Some(purpose) = self.model.freezing.take() else { return };
        if frozen.is_empty() || self.model.selected.as_ref() != Some(&frozen.session) {
            return;
        }
        let height = usize::from(layout(self.model).screen.map_or(1, |area| area.body.height)).max(1);
        let first = self.model.facts().map_or(0, |facts| facts.first_row(u16::try_from(height).unwrap_or(0), 0));
        let rows = self.model.facts().map_or(0, |facts| facts.rows);
        // What is drawn of a screen that is higher than the pane may end above its last row.
        let below = usize::from(rows).saturating_sub(usize::from(first) + height);
        let scroll = if self.model.scroll > 0 { self.model.scroll } else { below };
        let mut history = History::new(frozen, height, scroll);
        match purpose {
            Purpose::Browse => {}
            Purpose::Search => history.begin_search(),
            Purpose::Drag((row, column), (to_row, to_column)) => {
                history.selection = Some(Selection::Places((history.top + usize::from(row), column)));
                history.cursor = (history.top + usize::from(to_row), to_column);
            }
        }
        history.settle(height);
        self.model.scroll = 0;
        self.model.history = Some(history);
    }

    pub(super) fn history_key(&mut self, context: Context, key: &KeyEvent) {
        let page = isize::try_from(self.history_height().saturating_sub(1).max(1)).unwrap_or(1);
        let action = self.model.keys.lookup(context, key);
        let Some(history) = &mut self.model.history else { return };
        let Some(action) = action else {
            return self.type_search(|line| line.edit(key));
        };
        let typing = history.search.as_ref().is_some_and(|search| search.typing);
        #[expect(clippy::wildcard_enum_match_arm, reason = "the table has no other action here")]
        match action {
            Action::Up => history.step(-1),
            Action::Down => history.step(1),
            Action::PageUp => history.step(-page),
            Action::PageDown => history.step(page),
            Action::Top => history.step(isize::MIN / 2),
            Action::Bottom => history.step(isize::MAX / 2),
            Action::Left => history.shift(-1),
            Action::Right => history.shift(1),
            Action::LineStart => history.cursor.1 = 0,
            Action::LineEnd => history.shift(i16::MAX),
            Action::Select => history.select(false),
            Action::SelectRows => history.select(true),
            Action::Find => history.begin_search(),
            Action::Next => history.hop(true),
            Action::Previous => history.hop(false),
            Action::Confirm => {
                if let Some(search) = &mut history.search {
                    search.typing = false;
                }
            }
            Action::Copy => self.copy_selected(),
            Action::Edit => {
                let text = history.frozen.all();
                self.effects.push(Effect::Edit(text));
            }
            Action::Close if typing => history.search = None,
            Action::Close if history.selection.take().is_some() => {}
            Action::Close => self.model.history = None,
            _ => {}
        }
    }

    /// Changes what is looked for, and goes to the nearest match above where that began.
    pub(super) fn type_search(&mut self, change: impl FnOnce(&mut Field)) {
        let Some(history) = &mut self.model.history else { return };
        if let Some(search) = history.search.as_mut().filter(|search| search.typing) {
            change(&mut search.line);
            history.look();
            history.hop_from_where_it_began();
        }
    }

    fn copy_selected(&mut self) {
        let Some(history) = self.model.history.take() else { return };
        let text = history.copied();
        let lines = text.lines().count();
        let what = if lines == 1 { "1 line".to_owned() } else { format!("{lines} lines") };
        self.note(Tone::Plain, &format!("copied {what}"));
        self.effects.push(Effect::Copy(text));
    }

    fn history_height(&self) -> usize {
        layout(self.model).screen.map_or(1, |area| usize::from(area.body.height))
    }

    /// Keeps the cursor in view; another session or another pane ends the look back.
    pub(super) fn settle_history(&mut self) {
        let height = self.history_height();
        let stays = self.model.pane == Pane::Screen && !self.model.focused;
        let selected = self.model.selected.clone();
        self.model.history.take_if(|history| !stays || selected.as_ref() != Some(&history.frozen.session));
        if let Some(history) = &mut self.model.history {
            history.settle(height);
        }
    }

    /// The left button went down in the terminal.
    pub(super) fn press(&mut self, area: Area, event: MouseEvent) {
        self.model.pressed = place(area, event);
        if let Some(history) = &mut self.model.history
            && let Some((row, column)) = self.model.pressed
        {
            history.selection = None;
            history.cursor = ((history.top + usize::from(row)).min(history.frozen.len().saturating_sub(1)), column);
        }
    }

    /// The mouse moves with the left button down: a selection.
    pub(super) fn drag(&mut self, area: Area, event: MouseEvent) {
        let (Some(pressed), Some(here)) = (self.model.pressed, place(area, event)) else { return };
        match &mut self.model.history {
            None if self.model.freezing.is_none() && pressed != here => self.look_back(Purpose::Drag(pressed, here)),
            None => {}
            Some(history) => {
                let last = history.frozen.len().saturating_sub(1);
                let at = |(row, column): (u16, u16)| ((history.top + usize::from(row)).min(last), column);
                history.selection.get_or_insert(Selection::Places(at(pressed)));
                history.cursor = at(here);
            }
        }
    }

    /// The button is up again: what was selected is copied.
    pub(super) fn release(&mut self) {
        if self.model.pressed.take().is_some()
            && self.model.history.as_ref().is_some_and(|history| history.selection.is_some())
        {
            self.copy_selected();
        }
    }
}

/// Returns row and column within the terminal.
fn place(area: Area, event: MouseEvent) -> Option<(u16, u16)> {
    let body = area.body;
    body.contains((event.column, event.row).into()).then(|| (event.row - body.y, event.column - body.x))
}
