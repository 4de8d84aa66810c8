//! Servers that are none of ours: looked at, and nothing else. Pure.

use super::super::keymap::Action;
use super::super::model::{Group, Reading};
use super::super::theme::Tone;
use super::Turn;
use crate::app::contract::OtherServer;
use crate::lifecycle::identity::Pid;

/// Something that the keys stop at in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// A session, by its id.
    Session(String),
    /// A server of somebody else, by its process.
    Stranger(Pid),
}

impl Turn<'_> {
    /// Takes in the servers of others as they are now.
    pub(super) fn strangers(&mut self, rows: Vec<OtherServer>) {
        let before =
            self.model.met.and_then(|pid| self.model.sessions.strangers().iter().position(|row| row.pid == pid));
        self.model.sessions.replace_strangers(rows);
        let Some(before) = before.filter(|_| self.model.stranger().is_none()) else { return };
        // The selected one is no more: its place goes to the one that follows, else to the last session.
        let rows = self.model.sessions.strangers();
        if let Some(pid) = rows.get(before).or(rows.last()).map(|row| row.pid) {
            return self.meet(pid);
        }
        let last = self.model.sessions.rows().last().map(|row| row.session.clone());
        self.select(last);
    }

    /// Selects a server of somebody else, and no session.
    pub(super) fn meet(&mut self, pid: Pid) {
        self.select(None);
        self.model.met = Some(pid);
    }

    pub(super) fn stop_at(&mut self, stop: Stop) {
        match stop {
            Stop::Session(session) => self.select(Some(session)),
            Stop::Stranger(pid) => self.meet(pid),
        }
    }

    /// Returns where the keys stop below the sessions: at each server of somebody else that the list shows, or once
    /// where only the heading is shown.
    pub(super) fn strangers_listed(&self) -> impl Iterator<Item = Stop> {
        let folded = self.model.folds(Group::Strangers);
        let rows = self.model.sessions.strangers().iter().filter(|row| self.model.meets(row)).map(|row| row.pid);
        let stands = self.model.met.filter(|_| folded);
        rows.filter(move |pid| stands.is_none_or(|met| met == *pid))
            .take(if folded { 1 } else { usize::MAX })
            .map(Stop::Stranger)
    }

    /// Refuses what is done to a session where a server of somebody else is selected. What is done to all that are
    /// marked is not done to it. Returns whether it was refused.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the actions that are not about a session")]
    pub(super) fn spares(&mut self, action: Action) -> bool {
        let Some(row) = self.model.stranger() else { return false };
        let is_meant = match action {
            Action::Stop | Action::Force | Action::Restart | Action::Sweep | Action::Dismiss => {
                self.model.marked.is_empty()
            }
            Action::Focus => !self.model.folds(Group::Strangers),
            Action::Mark
            | Action::Broadcast
            | Action::Revise
            | Action::Fix
            | Action::Hold
            | Action::Extend
            | Action::LookBack
            | Action::Zoom => true,
            _ => false,
        };
        if is_meant {
            let text =
                format!("{} {} is not ours: it is shown, and never typed into or signalled", row.server, row.pid);
            self.note(Tone::Plain, &text);
        }
        is_meant
    }

    /// Opens what is known of the selected one. Returns whether one is selected.
    pub(super) fn introduce(&mut self) -> bool {
        let Some(row) = self.model.stranger().cloned() else { return false };
        self.read(Reading::Stranger(Box::new(row)));
        true
    }
}
