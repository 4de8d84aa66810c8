//! Finding: the filter of the session list, and the command palette. Pure.

use std::collections::BTreeSet;

use crossterm::event::KeyEvent;

use super::super::keymap::{Action, Context};
use super::super::model::{Entry, Field, Group, Pane};
use super::Turn;
use super::strangers::Stop;

impl Turn<'_> {
    /// Returns what the keys stop at, in order: what the list shows, and one for each folded group.
    pub(super) fn listed(&self) -> impl Iterator<Item = Stop> {
        let model = &*self.model;
        let mut folded: BTreeSet<Group> = BTreeSet::new();
        let inside = model.current().filter(|row| model.is_folded(row));
        let stops = model.sessions.rows().iter().filter(move |row| {
            let group = model.sessions.group(row);
            let stands =
                inside.is_none_or(|inside| model.sessions.group(inside) != group || inside.session == row.session);
            model.lists(&row.session) && (!model.is_folded(row) || (stands && folded.insert(group)))
        });
        stops.map(|row| Stop::Session(row.session.clone())).chain(self.strangers_listed())
    }

    /// Folds the group of the selected session, or unfolds it.
    pub(super) fn fold(&mut self) {
        if let Some(group) = self.model.group() {
            self.fold_group(group);
        }
    }

    pub(super) fn fold_group(&mut self, group: Group) {
        if !self.model.folded.remove(&group) {
            self.model.folded.insert(group);
        }
    }

    /// Opens the line that filters the list.
    pub(super) fn find(&mut self) {
        self.model.pane = Pane::List;
        self.model.zoom = false;
        self.model.filter.get_or_insert_default().typing = true;
    }

    pub(super) fn filter_key(&mut self, key: &KeyEvent) {
        match self.model.keys.lookup(Context::Filter, key) {
            Some(Action::Confirm) => self.keep_filter(),
            Some(Action::Close) => self.model.filter = None,
            Some(action) => self.act(action),
            None => self.type_filter(|line| line.edit(key)),
        }
    }

    /// Ends the typing; an empty filter is none.
    pub(super) fn keep_filter(&mut self) {
        if let Some(filter) = &mut self.model.filter {
            filter.typing = false;
        }
        self.model.filter.take_if(|filter| filter.line.text().trim().is_empty());
    }

    /// Changes what is looked for; the first session that matches is selected if the selected one does not.
    pub(super) fn type_filter(&mut self, change: impl FnOnce(&mut Field)) {
        if let Some(filter) = &mut self.model.filter {
            change(&mut filter.line);
        }
        self.settle_filter();
        let hidden = self.model.selected.as_deref().is_some_and(|selected| !self.model.lists(selected))
            || self.model.stranger().is_some_and(|row| !self.model.meets(row));
        let first = self.listed().next();
        if let Some(first) = first.filter(|_| hidden) {
            self.stop_at(first);
        }
    }

    /// Matches the sessions as they are now.
    pub(super) fn settle_filter(&mut self) {
        if let Some(filter) = &mut self.model.filter {
            filter.settle(self.model.sessions.rows(), self.model.sessions.strangers());
        }
    }

    /// Selects a session, also one that the filter hides.
    pub(super) fn reveal(&mut self, session: String) {
        self.model.filter.take_if(|filter| !filter.shows(&session));
        if let Some(group) = self.model.sessions.by_id(&session).map(|row| self.model.sessions.group(row)) {
            self.model.folded.remove(&group);
        }
        self.select(Some(session));
    }

    /// Does what was chosen in the palette.
    pub(super) fn choose(&mut self, entry: Option<Entry>) {
        let Some(entry) = entry else { return };
        self.model.overlays.pop();
        match entry {
            Entry::Command { action, .. } => self.act(action),
            Entry::Session { session, .. } => {
                self.settle_filter();
                self.reveal(session);
            }
        }
    }
}
