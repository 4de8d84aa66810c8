//! The tmux sessions that could be adopted, to choose from. Pure data.

use crate::app::draft::TmuxRow;

/// The picker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picker {
    /// The sessions; `None` while the servers are asked.
    pub rows: Option<Vec<TmuxRow>>,
    /// Which servers could not be asked.
    pub notes: Vec<String>,
    /// Which of the sessions is selected, from 0.
    pub chosen: usize,
    /// First line that is shown.
    pub top: usize,
    /// Why the last key did nothing.
    pub note: Option<String>,
}

impl Picker {
    /// Moves to another session.
    pub(in super::super) fn step(&mut self, by: isize) {
        let last = self.rows.as_ref().map_or(0, Vec::len).saturating_sub(1);
        self.chosen = self.chosen.saturating_add_signed(by).min(last);
        self.note = None;
    }

    /// Returns the session that is selected.
    pub fn selected(&self) -> Option<&TmuxRow> {
        self.rows.as_ref()?.get(self.chosen)
    }
}
