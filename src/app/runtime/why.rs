//! Gathers what decided about one process of a session. Looks only; signals nobody.
//!
//! The process is held while its facts are read, so that they are those of the process in the row.

use super::Inner;
use crate::app::contract::Tree;
use crate::app::error::{AppError, ErrorKind};
use crate::app::why::{Ancestor, Role, Why};
use crate::lifecycle::authority::{Pin, Pinned};
use crate::lifecycle::identity::{Pid, StartToken};
use crate::lifecycle::inspect::{listeners_of, ports_of};
use crate::lifecycle::receipt::{Bystander, ProcessRow};
use crate::lifecycle::verdict::VerdictKind;
use crate::text;

/// Most ancestors that are named.
const ANCESTORS: usize = 32;

impl Inner {
    pub(super) fn why(&self, reference: &str, pid: Pid) -> Result<Why, AppError> {
        let session = self.find(reference)?;
        let tree = self.tree_of(&session)?;
        let mut why = found(&session.id, &tree, pid).ok_or_else(|| {
            let message = format!("process {pid} is not of {}; `tree` names those that are", session.id);
            AppError::new(ErrorKind::NotFound, message)
        })?;
        self.add_facts(&mut why);
        let mut above = self.parent_of(pid);
        while let Some(ancestor) = above.filter(|_| why.parents.len() < ANCESTORS) {
            let role = found(&session.id, &tree, ancestor.pid).map(|why| why.role);
            above = self.parent_of(ancestor.pid);
            why.parents.push(Ancestor { role, ..ancestor });
        }
        why.on_stop = why.decide();
        Ok(why)
    }

    /// Adds what the row does not say, if the pid is still that of the row.
    fn add_facts(&self, why: &mut Why) {
        let Pin::Held(pinned) = Pinned::open(&self.inspector, why.pid) else { return };
        if why.start_token.as_ref() != Some(&pinned.identity().token) {
            return;
        }
        let cgroup = self.inspector.cgroup(why.pid);
        let ports = listeners_of(&self.inspector, [why.pid]);
        if pinned.has_ended(&self.inspector) {
            return;
        }
        let facts = pinned.facts();
        why.pidfd_inode = pinned.identity().pidfd_inode;
        (why.state, why.pgid, why.sid) = (Some(facts.state.to_string()), Some(facts.pgid), Some(facts.sid));
        why.cgroup = cgroup;
        // A bystander has no row; how old it is and what memory it has is known all the same.
        why.age_s = self.inspector.age_s(&facts.start);
        why.rss_bytes = facts.rss_bytes;
        why.ports = ports.as_deref().map(ports_of);
    }

    fn parent_of(&self, pid: Pid) -> Option<Ancestor> {
        let parent = Pid::new(self.inspector.facts(pid).ok()??.ppid)?;
        let facts = self.inspector.facts(parent).ok()??;
        let argv = self.inspector.argv(parent);
        let (name, _) = text::command_line(std::slice::from_ref(&facts.comm));
        let command = if argv.is_empty() { format!("[{name}]") } else { text::command_line(&argv).0 };
        Some(Ancestor { pid: parent, start_token: self.inspector.token(&facts.start), command, role: None })
    }
}

/// Returns what a tree says of a process.
fn found(session: &str, tree: &Tree, pid: Pid) -> Option<Why> {
    let of_row = |role, rows: &[ProcessRow]| {
        let row = rows.iter().find(|row| row.pid == pid)?;
        let mut why = blank(session, role, pid, row.start_token.clone());
        why.command.clone_from(&row.command);
        (why.verdict, why.membership) = (Some(row.verdict), row.membership.clone());
        why.reason.clone_from(&row.reason);
        (why.protected, why.kept) = (row.protected.clone(), row.kept.clone());
        (why.state, why.pgid, why.sid) = (Some(row.state.clone()), Some(row.pgid), Some(row.sid));
        // What a process used before it ended says nothing now.
        if matches!(row.verdict, VerdictKind::Owned | VerdictKind::Unverifiable) {
            (why.age_s, why.cpu_pct) = (row.age_s, row.cpu_pct);
            (why.rss_bytes, why.gpu_bytes) = (row.rss_bytes, row.gpu_bytes);
        }
        Some(why)
    };
    let of_other = |role, rows: &[Bystander]| {
        let row = rows.iter().find(|row| row.pid == pid)?;
        let mut why = blank(session, role, pid, row.start_token.clone());
        why.command.clone_from(&row.command);
        why.reason = row.reason.clone().unwrap_or_default();
        Some(why)
    };
    // An escapee is a member, too, but what is done with it is that it is reported.
    of_other(Role::Escapee, &tree.escapees)
        .or_else(|| of_row(Role::Member, &tree.processes))
        .or_else(|| of_row(Role::Supervisor, &tree.supervisors))
        .or_else(|| of_other(Role::Lookalike, &tree.lookalikes))
}

fn blank(session: &str, role: Role, pid: Pid, start_token: Option<StartToken>) -> Why {
    Why {
        session: session.to_owned(),
        pid,
        role,
        command: String::new(),
        verdict: None,
        reason: String::new(),
        on_stop: String::new(),
        membership: Vec::new(),
        protected: None,
        kept: None,
        start_token,
        pidfd_inode: None,
        state: None,
        pgid: None,
        sid: None,
        cgroup: None,
        parents: Vec::new(),
        ports: None,
        age_s: None,
        cpu_pct: None,
        rss_bytes: None,
        gpu_bytes: None,
    }
}
