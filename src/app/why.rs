//! Why a process is what it is: everything that decided about it, on one page.
//!
//! Pure: the answer to `why`, shared by the batch, the subcommand and the screen, and the one sentence that says
//! what a stop would do. `runtime::why` gathers the evidence.

use serde::{Deserialize, Serialize};

use crate::lifecycle::identity::{Pid, StartToken};
use crate::lifecycle::receipt::Membership;
use crate::lifecycle::verdict::VerdictKind;

/// What a process is to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It belongs to the session.
    Member,
    /// Our own front, warden or usher of the session.
    Supervisor,
    /// It left the tree and is only reported.
    Escapee,
    /// It has the same command line and nothing else.
    Lookalike,
}

impl Role {
    /// Returns the word used in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Supervisor => "supervisor",
            Self::Escapee => "escapee",
            Self::Lookalike => "lookalike",
        }
    }
}

/// An ancestor of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ancestor {
    /// Its pid.
    pub pid: Pid,
    /// When it started.
    pub start_token: StartToken,
    /// Its masked command line.
    pub command: String,
    /// What it is to the session; `None` outside of it.
    pub role: Option<Role>,
}

/// Everything that decided about one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Why {
    /// The session that was asked about.
    pub session: String,
    /// Which process.
    pub pid: Pid,
    /// What it is to the session.
    pub role: Role,
    /// The masked command line.
    pub command: String,
    /// What is known of its identity; `None` for whoever is only reported.
    pub verdict: Option<VerdictKind>,
    /// The rule that decided the verdict, or why it is only reported.
    pub reason: String,
    /// What a stop of the session does with it, and why.
    pub on_stop: String,
    /// Every way in which it belongs to the session.
    pub membership: Vec<Membership>,
    /// Why it must never be signalled, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protected: Option<String>,
    /// Which long-living daemon it is, where it is left alive by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// `None` where the identity could not be read.
    pub start_token: Option<StartToken>,
    /// Inode of its pidfd; `None` before Linux 6.9, or where the process could not be held.
    pub pidfd_inode: Option<u64>,
    /// State letter of `proc_pid_stat(5)`.
    pub state: Option<String>,
    /// Process group.
    pub pgid: Option<i32>,
    /// Kernel session.
    pub sid: Option<i32>,
    /// Path in the cgroup hierarchy (v2).
    pub cgroup: Option<String>,
    /// Its ancestors, the nearest first, as far as they can be read.
    pub parents: Vec<Ancestor>,
    /// TCP ports that it listens on; `None` where that is not known.
    pub ports: Option<Vec<u16>>,
    /// Seconds since its start; `None` where that is not known.
    pub age_s: Option<f64>,
    /// Percent of one core since the sample before; `None` where that is not known.
    pub cpu_pct: Option<f64>,
    /// Resident memory in bytes; `None` where that is not known.
    pub rss_bytes: Option<u64>,
    /// GPU memory in bytes; `None` where it has none that somebody can tell.
    pub gpu_bytes: Option<u64>,
}

impl Why {
    /// Takes in that it was seen to end: nobody knows more of it than before.
    pub fn has_gone(&mut self) {
        (self.verdict, self.reason) = (Some(VerdictKind::Gone), "it has ended".to_owned());
        (self.state, self.cpu_pct) = (None, None);
        self.on_stop = self.decide();
    }

    /// Returns what a stop does with it, in words, by the rules of the capture and of the verdict.
    pub fn decide(&self) -> String {
        match (self.role, self.verdict) {
            (Role::Supervisor, _) => "not signalled at first: it is our own and leaves by itself, last".to_owned(),
            (Role::Lookalike, _) => "never signalled: a command line is no ownership".to_owned(),
            (Role::Escapee, _) => "not signalled, only reported".to_owned(),
            (Role::Member, Some(VerdictKind::Gone)) => "nothing: it has ended".to_owned(),
            (Role::Member, Some(VerdictKind::Foreign)) => "never signalled: it is another process by now".to_owned(),
            (Role::Member, Some(VerdictKind::Unverifiable) | None) => {
                "never signalled: nobody can tell who it is; it is shown as left over".to_owned()
            }
            (Role::Member, Some(VerdictKind::Owned)) => match (&self.protected, &self.kept) {
                (Some(why), _) => format!("never signalled: protected: {why}"),
                (None, Some(what)) => format!("left alive on purpose ({what}), unless it is chosen in the preview"),
                (None, None) => "signalled, after it was held and judged once more".to_owned(),
            },
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn why(role: Role, verdict: Option<VerdictKind>) -> Why {
        Why {
            session: "serve-00000001".into(),
            pid: Pid::new(7).unwrap(),
            role,
            command: String::new(),
            verdict,
            reason: String::new(),
            on_stop: String::new(),
            membership: vec![Membership::Tree],
            protected: None,
            kept: None,
            start_token: None,
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

    #[test]
    fn only_an_owned_member_is_signalled() {
        for role in [Role::Member, Role::Supervisor, Role::Escapee, Role::Lookalike] {
            for verdict in VerdictKind::ALL.into_iter().map(Some).chain([None]) {
                let mut why = why(role, verdict);
                let ends = (role, verdict) == (Role::Member, Some(VerdictKind::Owned));
                assert_eq!(why.decide().starts_with("signalled"), ends, "{role:?} {verdict:?}: {}", why.decide());
                why.kept = Some("ssh-agent".into());
                assert!(!why.decide().starts_with("signalled"), "{role:?} {verdict:?}: {}", why.decide());
                (why.kept, why.protected) = (None, Some("an ancestor of this program".into()));
                assert!(!why.decide().starts_with("signalled"), "{role:?} {verdict:?}: {}", why.decide());
            }
        }
    }
}
