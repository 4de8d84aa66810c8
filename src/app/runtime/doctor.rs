//! `doctor`: what this host gives us to work with, each line with the way out.

use std::sync::PoisonError;

use super::Inner;
use super::host_checks::{cgroup, clock, directory, logind};
use crate::app::command::{Check, CheckState};
use crate::app::cookbook::file::WAY_OUT;
use crate::lifecycle::inspect::InspectorKind;
use crate::lifecycle::kill::takes_signals_by_pidfd;
use crate::tmux::Probe;

impl Inner {
    pub(super) fn doctor(&self) -> Vec<Check> {
        let mut checks = vec![self.inspector_check(), pidfd_check(self), subreaper_check()];
        checks.extend(self.tmux_checks());
        checks.push(directory("state directory", &self.paths.state_dir));
        checks.push(directory("runtime directory", &self.paths.runtime_dir));
        checks.extend([self.record_check(), self.orphan_check(), self.warden_check()]);
        checks.extend(self.container_check());
        checks.extend([clock(&self.inspector), cgroup(&self.inspector), logind(&self.inspector)]);
        checks.push(self.gpu_check());
        checks.push(self.config_check());
        checks.extend(self.cookbook_check());
        checks.extend(self.claim_checks());
        checks
    }

    fn inspector_check(&self) -> Check {
        match self.inspector.kind() {
            InspectorKind::Procfs => ok("inspector", "procfs"),
            InspectorKind::Ps => warn("inspector", "ps: start times have a resolution of one second", "mount procfs"),
            InspectorKind::None => fail("inspector", "none: every verdict is unverifiable", "drop --inspector none"),
        }
    }

    fn tmux_checks(&self) -> Vec<Check> {
        let version = match self.server.version() {
            Ok(version) => ok("tmux", format!("{version}")),
            Err(error) => {
                warn("tmux", error.to_string(), "install tmux 3.2 or later; until then sessions live in PTYs")
            }
        };
        let socket = self.server.socket_path().display().to_string();
        let server = match self.server.probe() {
            Probe::Running { pid } => match self.server.answering_pid() {
                Ok(answered) if answered == pid => ok("tmux server", format!("process {pid} on {socket}")),
                Ok(answered) => fail(
                    "tmux server",
                    format!("process {pid} listens on {socket}, {answered} answers"),
                    "look who uses this socket",
                ),
                Err(error) => fail(
                    "tmux server",
                    format!("process {pid} on {socket}: {error}"),
                    format!("if it is stopped: kill -CONT {pid}"),
                ),
            },
            Probe::Absent => match self.lost_server() {
                Some(why) => fail("tmux server", why, "do that before anything is launched in tmux"),
                None => ok("tmux server", format!("none yet on {socket}")),
            },
            Probe::Stale => ok("tmux server", format!("none; {socket} is left of an old one")),
            Probe::Unreadable(reason) => {
                fail("tmux server", reason, "mend the owner and mode of the socket's directory")
            }
        };
        vec![version, server]
    }

    fn record_check(&self) -> Check {
        self.take_in();
        let quarantined = self.quarantine();
        match quarantined.first() {
            None => ok("records", format!("{} sessions, all readable", self.all().len())),
            Some(first) => warn(
                "records",
                format!("{} are left alone, for example {}: {}", quarantined.len(), first.path.display(), first.reason),
                "look at the file; move it away when you know that nothing of it runs",
            ),
        }
    }

    /// A program that was replaced leaves wardens of the one before.
    fn warden_check(&self) -> Check {
        let strange = self.all().into_iter().filter(|session| !session.phase().0.is_over());
        let mut strange = strange.filter_map(|session| Some((session.id.clone(), session.tether().other_protocol()?)));
        match strange.next() {
            None => ok("wardens", "all speak our protocol"),
            Some((session, how)) => warn(
                "wardens",
                format!("{} of another version, for example of {session}: {how}", strange.count() + 1),
                "nobody ends a session for it; restart it when it suits",
            ),
        }
    }

    fn config_check(&self) -> Check {
        match &self.config().untrusted {
            Some(untrusted) => warn(
                "configuration",
                format!("{} is not trusted and not used", untrusted.path.display()),
                "read it, then: cookbook-tui trust",
            ),
            None => ok("configuration", format!("{} recipes", self.config().recipes.len())),
        }
    }

    fn cookbook_check(&self) -> Option<Check> {
        let cookbook = self.cookbook.as_ref()?;
        let path = cookbook.file.path();
        Some(match cookbook.file.load() {
            Ok(state) => match state.oddities(path) {
                None => ok("Cookbook", format!("{} tasks in {}", state.tasks.len(), path.display())),
                Some(odd) => warn("Cookbook", odd, "look at the file"),
            },
            Err(reason) => warn("Cookbook", reason, WAY_OUT),
        })
    }

    /// Returns what a list says of Cookbook's tasks below it.
    pub(super) fn task_notes(&self) -> Vec<String> {
        let Some(cookbook) = &self.cookbook else { return Vec::new() };
        let problem = cookbook.problem().map(|problem| format!("Cookbook's tasks cannot be read: {problem}"));
        let odd = || cookbook.odd.lock().unwrap_or_else(PoisonError::into_inner).clone();
        problem.or_else(odd).into_iter().collect()
    }

    fn quarantine(&self) -> Vec<crate::lifecycle::store::Quarantined> {
        self.lock().quarantined.clone()
    }
}

fn pidfd_check(inner: &Inner) -> Check {
    match (takes_signals_by_pidfd(), inner.me.pidfd_inode) {
        (true, Some(_)) => ok("pidfd", "with pidfs: identities are exact"),
        (true, None) => {
            warn("pidfd", "without pidfs: a pid reused within one tick is told by waiting a tick", "Linux 6.9 or later")
        }
        (false, _) => warn(
            "pidfd",
            "no signals through pidfds: each process is verified immediately before kill(2)",
            "Linux 5.3 or later, without a filter on pidfd_open and pidfd_send_signal",
        ),
    }
}

fn subreaper_check() -> Check {
    // prctl(2): Linux 3.4. Asking changes nothing.
    match rustix::process::child_subreaper() {
        Ok(_) => ok("subreaper", "daemons come back to their warden"),
        Err(error) => fail("subreaper", error.to_string(), "Linux 3.4 or later"),
    }
}

pub(super) fn ok(name: &str, detail: impl Into<String>) -> Check {
    Check { name: name.into(), state: CheckState::Ok, detail: detail.into(), way_out: None }
}

pub(super) fn warn(name: &str, detail: impl Into<String>, way_out: impl Into<String>) -> Check {
    Check { state: CheckState::Warn, way_out: Some(way_out.into()), ..ok(name, detail) }
}

pub(super) fn fail(name: &str, detail: impl Into<String>, way_out: impl Into<String>) -> Check {
    Check { state: CheckState::Fail, ..warn(name, detail, way_out) }
}
