//! What the pane of one of Cookbook's tasks says of its work: that it downloads, that it has ended, and why.

use std::sync::Arc;

use super::Inner;
use super::session::Session;
use crate::app::contract::{Kind, Phase};
use crate::app::cookbook::pane;
use crate::app::cookbook::state::Task;
use crate::lifecycle::clock;
use crate::lifecycle::tether::ExitRecord;
use crate::tmux::Server;
use crate::tmux::argv::Capture;
use crate::tmux::parse::PaneRow;

/// Lines of a pane's history in which the end of its work is looked for.
const HISTORY: u32 = 200;

impl Inner {
    /// Takes note of what the pane of a task says. Of a server that has failed the first cause is looked for, once.
    pub(super) fn hear(&self, session: &Arc<Session>, task: &Task, server: &Server, pane: &PaneRow) {
        let capture = Capture { history: HISTORY, escapes: false, joined: true };
        let Ok(text) = server.capture(&pane.pane, capture) else { return };
        let end = pane::end_of(&String::from_utf8_lossy(&text));
        let running = (task.kind == Kind::Download).then_some((Phase::Downloading, None));
        let failed = end.as_ref().is_some_and(|end| end.phase == Phase::Failed);
        let code = end.as_ref().and_then(|end| end.code);
        {
            let mut state = session.state();
            state.said_code = code;
            state.said = end.map(|end| (end.phase, Some(end.detail))).or(running);
            if !failed {
                // Its shell may start it again.
                (state.examined, state.diagnosis) = (false, None);
            }
        }
        if failed {
            self.look_into(session, Some(&ExitRecord { code, signal: None, at: clock::wall_seconds() }));
        }
    }
}
