//! What the pane of one of Cookbook's tasks says of its work: that it downloads, that it has ended, and why.

use std::sync::Arc;

use super::Inner;
use super::script;
use super::session::Session;
use crate::app::contract::{Kind, Phase};
use crate::app::cookbook::pane;
use crate::app::cookbook::state::Task;
use crate::lifecycle::tether::ExitRecord;
use crate::tmux::Server;
use crate::tmux::argv::Capture;
use crate::tmux::parse::PaneRow;

/// Lines of a pane's history in which the end of its work is looked for.
const HISTORY: u32 = 200;
/// The same, where only a shell is left: a person may have worked in it since.
const HISTORY_OF_SHELL: u32 = 2000;

impl Inner {
    /// Takes note of what the pane of a task says. Of a server that has failed the first cause is looked for, once, and
    /// before anybody hears of the failure.
    pub(super) fn hear(&self, session: &Arc<Session>, task: &Task, server: &Server, pane: &PaneRow) {
        let read = |history| {
            let text = server.capture(&pane.pane, Capture { history, escapes: false, joined: true }).ok()?;
            let text = String::from_utf8_lossy(&text).into_owned();
            Some((pane::end_of(&text), text))
        };
        let Some(mut found) = read(HISTORY) else { return };
        if found.0.is_none() && pane.history > HISTORY && is_left_to_a_shell(session) {
            let Some(more) = read(HISTORY_OF_SHELL) else { return };
            found = more;
        }
        let (end, text) = found;
        let code = end.as_ref().and_then(|end| end.code);
        let failed = end.as_ref().is_some_and(|end| end.phase == Phase::Failed);
        let running = (task.kind == Kind::Download).then_some((Phase::Downloading, None));
        let said = end.map(|end| (end.phase, Some(end.detail))).or(running);
        let printed = pane::last_work(&text);
        {
            let mut state = session.state();
            if state.said != said || state.work != printed {
                // Its shell has started it again.
                (state.examined, state.diagnosis) = (false, None);
            }
        }
        if failed {
            // Nobody knows when: who holds its port now may have come later.
            self.look_into(
                session,
                Some(&ExitRecord { code, signal: None, at: 0, emptied: false, address_space: None }),
                Some(&printed),
            );
        }
        let mut state = session.state();
        (state.said, state.said_code, state.work) = (said, code, printed);
    }
}

/// Tells whether nothing but shells was seen in a session when its members were last looked at.
fn is_left_to_a_shell(session: &Session) -> bool {
    let state = session.state();
    state.sample.rows.values().all(|sampled| script::is_shell(&sampled.row.command))
}
