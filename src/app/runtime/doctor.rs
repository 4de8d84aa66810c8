//! `doctor`: what this host gives us to work with, each line with the way out.

use std::path::Path;
use std::sync::PoisonError;

use super::Inner;
use super::enter::own_identity;
use super::host_checks::{Place, cgroup, clock, directory, logind};
use crate::app::command::{Check, CheckState};
use crate::app::config::Config;
use crate::app::cookbook::file::WAY_OUT;
use crate::app::error::without_numbers;
use crate::app::paths::Paths;
use crate::lifecycle::inspect::{Inspector, InspectorKind};
use crate::lifecycle::kill::takes_signals_by_pidfd;
use crate::tmux::{Probe, Server};

/// What can be looked at without a runtime, as far as the start came.
#[derive(Debug)]
pub(crate) struct Host<'a> {
    /// How the process table is read.
    pub(crate) inspector: Option<&'a Inspector>,
    /// Our tmux server.
    pub(crate) server: Option<&'a Server>,
    /// Where things are.
    pub(crate) paths: Option<&'a Paths>,
    /// What can be launched.
    pub(crate) config: Option<&'a Config>,
    /// Lines that the start has found already: each stands in the place of the one of its name.
    pub(crate) found: Vec<Check>,
}

impl Host<'_> {
    /// Returns the lines of all that is there to be looked at.
    pub(crate) fn checks(&self) -> Vec<Check> {
        self.checks_with(None)
    }

    fn checks_with(&self, runtime: Option<&Inner>) -> Vec<Check> {
        let mut checks = Vec::new();
        checks.extend(self.line("inspector", || self.inspector.map(inspector_check)));
        checks.extend(self.inspector.map(pidfd_check));
        checks.push(subreaper_check());
        checks.extend(self.server.map(version_check));
        checks.extend(self.line("tmux server", || self.server.map(|server| server_check(server, runtime))));
        let directory = |place: Place, path: fn(&Paths) -> &Path| {
            self.line(place.name(), || self.paths.map(|paths| directory(place, path(paths))))
        };
        checks.extend(directory(Place::State, |paths| &paths.state_dir));
        checks.extend(directory(Place::Runtime, |paths| &paths.runtime_dir));
        checks.extend(self.line("records", || runtime.map(Inner::record_check)));
        checks.extend(runtime.map(Inner::orphan_check));
        checks.extend(runtime.map(Inner::warden_check));
        checks.extend(runtime.and_then(Inner::container_check));
        checks.extend(
            self.inspector.into_iter().flat_map(|inspector| [clock(inspector), cgroup(inspector), logind(inspector)]),
        );
        checks.extend(runtime.map(Inner::gpu_check));
        checks.extend(self.line("configuration", || self.config.map(config_check)));
        checks.extend(runtime.and_then(Inner::cookbook_check));
        checks.extend(runtime.into_iter().flat_map(Inner::claim_checks));
        checks
    }

    fn line(&self, name: &str, look: impl FnOnce() -> Option<Check>) -> Option<Check> {
        self.found.iter().find(|check| check.name == name).cloned().or_else(look)
    }
}

impl Inner {
    /// Returns all lines; those that the start has `found` stand in the places of their names.
    pub(super) fn doctor(&self, found: Vec<Check>) -> Vec<Check> {
        let config = self.config();
        let host = Host {
            inspector: Some(&self.inspector),
            server: Some(&self.server),
            paths: Some(&self.paths),
            config: Some(&config),
            found,
        };
        host.checks_with(Some(self))
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

    /// A program that was replaced leaves wardens of the one before; one that was killed leaves its session to managers.
    fn warden_check(&self) -> Check {
        let live: Vec<_> = self.all().into_iter().filter(|session| !session.phase().0.is_over()).collect();
        let mut lost = live.iter().filter(|session| {
            self.sample_one(session);
            session.state().has_lost_warden()
        });
        if let Some(first) = lost.next() {
            return warn(
                "wardens",
                format!("{} sessions have lost theirs, for example {}", lost.count() + 1, first.id),
                "restart the session when it suits; until then its ceiling holds only while a manager runs",
            );
        }
        let mut strange = live.iter().filter_map(|session| Some((&session.id, session.tether().other_protocol()?)));
        match strange.next() {
            None => ok("wardens", "all speak our protocol"),
            Some((session, how)) => warn(
                "wardens",
                format!("{} of another version, for example of {session}: {how}", strange.count() + 1),
                "nobody ends a session for it; restart it when it suits",
            ),
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

fn inspector_check(inspector: &Inspector) -> Check {
    match inspector.kind() {
        InspectorKind::Procfs => ok("inspector", "procfs"),
        InspectorKind::Ps => warn("inspector", "ps: start times have a resolution of one second", "mount procfs"),
        InspectorKind::None => fail("inspector", "none: every verdict is unverifiable", "drop --inspector none"),
    }
}

fn version_check(server: &Server) -> Check {
    match server.version() {
        Ok(version) => ok("tmux", format!("{version}")),
        Err(error) => warn("tmux", error.to_string(), "install tmux 3.2 or later; until then sessions live in PTYs"),
    }
}

fn server_check(server: &Server, runtime: Option<&Inner>) -> Check {
    let socket = server.socket_path().display().to_string();
    match server.probe() {
        Probe::Running { pid } => match server.answering_pid() {
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
        Probe::Absent => match runtime.and_then(Inner::lost_server) {
            Some(why) => fail("tmux server", why, "do that before anything is launched in tmux"),
            None => ok("tmux server", format!("none yet on {socket}")),
        },
        Probe::Stale => ok("tmux server", format!("none; {socket} is left of an old one")),
        Probe::Unreadable(reason) => fail("tmux server", reason, "mend the owner and mode of the socket's directory"),
    }
}

fn config_check(config: &Config) -> Check {
    match &config.untrusted {
        Some(untrusted) => warn(
            "configuration",
            format!("{} is not trusted and not used", untrusted.path.display()),
            "read it, then: cookbook-tui trust",
        ),
        None => ok("configuration", format!("{} recipes", config.recipes.len())),
    }
}

fn pidfd_check(inspector: &Inspector) -> Check {
    match (takes_signals_by_pidfd(), own_identity(inspector).pidfd_inode) {
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
    Check { name: name.into(), state: CheckState::Ok, detail: without_numbers(detail.into()), way_out: None }
}

pub(crate) fn warn(name: &str, detail: impl Into<String>, way_out: impl Into<String>) -> Check {
    Check { state: CheckState::Warn, way_out: Some(way_out.into()), ..ok(name, detail) }
}

pub(crate) fn fail(name: &str, detail: impl Into<String>, way_out: impl Into<String>) -> Check {
    Check { state: CheckState::Fail, ..warn(name, detail, way_out) }
}
