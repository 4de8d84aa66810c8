//! What the screen remembers from one run to the next: its layout and the selection. Pure.

use serde::{Deserialize, Serialize};

use super::{Group, Model, Pane};
use crate::app::contract::{HostKind, Kind, SessionRow};

/// What is remembered. What an older version does not know it leaves out, and what it wrote is taken as far as it goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// The active pane has the whole screen.
    pub zoom: bool,
    /// The tree was switched on or off.
    pub tree: Option<bool>,
    /// Names of the groups of which only the heading is shown.
    pub folded: Vec<String>,
    /// Id of the selected session.
    pub selected: Option<String>,
    /// Ids of the sessions whose end is no news for the next run: it was looked at, or it ends with this run.
    pub over: Vec<String>,
}

impl Memory {
    /// Reads what was written.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let fields: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        serde_json::from_value(fields.into()).map_err(|error| error.to_string())
    }

    /// Returns it as it is written.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}

/// The name of a group in the memory.
const fn name(group: Group) -> &'static str {
    match group {
        Group::Of(Kind::Serve) => "servers",
        Group::Of(Kind::Agent) => "agents",
        Group::Of(Kind::Shell) => "shells",
        Group::Of(Kind::Download) => "downloads",
        Group::Adopted => "adopted",
        Group::Orphans => "orphans",
        Group::Strangers => "not ours",
    }
}

impl Model {
    /// Returns what is to be remembered.
    pub fn memory(&self) -> Memory {
        Memory {
            zoom: self.zoom,
            tree: self.tree_wanted,
            folded: self.folded.iter().map(|group| name(*group).to_owned()).collect(),
            selected: self.selected.clone(),
            over: match &self.recalled {
                // No session has come.
                Some(recalled) => recalled.over.clone(),
                None => self
                    .sessions
                    .rows()
                    .iter()
                    .filter(|row| self.is_known(row))
                    .map(|row| row.session.clone())
                    .collect(),
            },
        }
    }

    /// Tells whether the end of a session is no news for the next run.
    fn is_known(&self, row: &SessionRow) -> bool {
        if !row.phase.is_over() {
            return row.host == HostKind::Pty && row.owner.is_none();
        }
        !self.attention.contains_key(&row.session) && !self.news.has_ended(&row.session)
    }

    /// Takes up what was remembered: the selection with the first sessions that come.
    pub fn recall(&mut self, memory: Memory) {
        self.tree_wanted = memory.tree;
        let is_folded = |group: &Group| memory.folded.iter().any(|folded| folded == name(*group));
        self.folded = Group::ALL.into_iter().filter(is_folded).collect();
        self.news.recall(memory.over.iter().cloned());
        self.recalled = Some(memory);
    }

    /// Selects what was selected, once there are sessions. A terminal that had the whole screen has it again.
    pub(in super::super) fn take_up(&mut self) -> Option<String> {
        let memory = self.recalled.take_if(|_| !self.sessions.is_empty())?;
        let session = memory.selected.filter(|id| self.sessions.by_id(id).is_some())?;
        if memory.zoom {
            (self.zoom, self.pane) = (true, Pane::Screen);
        }
        Some(session)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::app::tui::fixtures::{self, Bench};
    use crate::app::tui::seam::UiEvent;

    #[test]
    fn the_next_run_looks_as_this_one_did() {
        let mut bench = Bench::full(140, 40);
        bench.press("-jjjjtz");
        let memory = bench.model.memory();
        let selected = bench.model.selected.clone().unwrap();
        assert!(memory.zoom && memory.folded == ["servers"] && memory.tree == Some(false), "{memory:?}");
        let mut next = Bench::empty(140, 40);
        next.model.recall(Memory::read(&memory.bytes()).unwrap());
        next.send(UiEvent::Sessions(Vec::new()));
        next.send(UiEvent::Tick);
        next.send(UiEvent::Sessions(fixtures::sessions()));
        assert_eq!(next.model.selected, Some(selected));
        assert_eq!(next.model.memory(), memory);
        // It is taken up once.
        next.press("zgj");
        let here = next.model.selected.clone();
        next.send(UiEvent::Sessions(fixtures::sessions()));
        assert_eq!((next.model.selected.clone(), next.model.zoom), (here, false));
    }

    #[test]
    fn a_session_that_is_gone_leaves_the_first_one_selected() {
        let mut next = Bench::empty(140, 40);
        next.model.recall(Memory { selected: Some("serve-ffffffff".into()), zoom: true, ..Memory::default() });
        next.send(UiEvent::Sessions(fixtures::sessions()));
        assert_eq!(next.model.selected.as_deref(), Some("serve-1a2b3c4d"));
        assert!(!next.model.zoom);
    }

    #[test]
    fn what_is_damaged_is_named_and_what_is_newer_is_taken_as_far_as_it_goes() {
        for damaged in ["", "{", "[]", "null", "{\"zoom\": 3}", "\u{0}"] {
            assert!(Memory::read(damaged.as_bytes()).is_err(), "{damaged:?}");
        }
        let newer = br#"{"zoom": true, "folded": ["servers", "moons"], "sort": "age"}"#;
        let memory = Memory::read(newer).unwrap();
        assert!(memory.zoom && memory.selected.is_none());
        let mut bench = Bench::empty(80, 24);
        bench.model.recall(memory);
        assert_eq!(bench.model.folded.len(), 1);
    }
}
