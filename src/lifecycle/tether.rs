//! The tether: the durable record of a launched session. Pure; `store` reads and writes it.
//!
//! It says who spawned the session, who its processes are, and how long it may live. It is validated
//! when it is made and when it is read; what does not validate is quarantined, never acted on.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::identity::{Identity, StartToken};
use super::kill::Signal;
use super::receipt::{Bystander, Membership, Receipt};
use super::restart::Restarts;
use super::scope::{CgroupRecord, Scope};
use super::teardown::Ladder;
use super::verdict::VerdictKind;

/// Version of the record's shape. A newer one is shown and left alone.
pub const SCHEMA_VERSION: u32 = 1;
/// Version of the gate protocol that its warden speaks.
pub const PROTOCOL: u32 = 1;

/// The workload as it was when it waited at the gate; exec changes none of this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// Who it is.
    #[serde(flatten)]
    pub identity: Identity,
    /// Its process group.
    pub pgid: i32,
    /// Its kernel session.
    pub sid: i32,
}

/// Where a session is in tmux.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TmuxRecord {
    /// Path of the server's socket.
    pub socket: String,
    /// Who the server is.
    pub server: Identity,
    /// `$N`.
    pub session_id: String,
    /// `%N` of the first pane.
    pub pane_id: String,
}

/// The root process of a pane that was there when a session was adopted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaneRoot {
    /// `%N`.
    pub pane_id: String,
    /// Who it was.
    #[serde(flatten)]
    pub identity: Identity,
}

/// What was bound of a tmux session that cookbook-tui did not launch. It has no warden: it is watched and, at a
/// person's word, stopped; nothing else ever ends it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adoption {
    /// The name that tmux had for it. Never a target.
    pub tmux_name: String,
    /// The panes. A process that is none of these roots was not adopted.
    pub panes: Vec<PaneRoot>,
    /// The task of Cookbook that names it.
    #[serde(default)]
    pub task: Option<String>,
}

/// One captured process of a stop that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedRecord {
    /// Who it is.
    #[serde(flatten)]
    pub identity: Identity,
    /// Why it belongs to the session.
    pub membership: BTreeSet<Membership>,
}

impl CapturedRecord {
    /// Returns those whom a stop has left alive on purpose: escapees that were reported, and kept daemons.
    fn left_alive(receipt: &Receipt) -> Vec<Self> {
        let membership = |pid| {
            let row = receipt.captured.iter().find(|row| row.pid == pid);
            row.map(|row| row.membership.iter().copied().collect()).unwrap_or_default()
        };
        let left = receipt.escapees.iter().chain(&receipt.kept);
        let record = |left: &Bystander| {
            let identity = Identity { pid: left.pid, token: left.start_token.clone()?, pidfd_inode: None };
            Some(Self { identity, membership: membership(left.pid) })
        };
        left.filter_map(record).collect()
    }
}

/// The last verdict on what is left of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Last {
    /// What was known.
    pub verdict: VerdictKind,
    /// Why it is still here.
    pub reason: String,
    /// Seconds since the Unix epoch.
    pub at: u64,
}

/// A tether.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "facts of a record, each written at its own time")]
pub struct Tether {
    /// [`SCHEMA_VERSION`] when it was written.
    pub schema_version: u32,
    /// [`PROTOCOL`] of its warden.
    pub protocol: u32,
    /// Id of the session.
    pub session: String,
    /// Name for people.
    pub name: String,
    /// `serve`, `agent`, `shell` or `download`.
    pub kind: String,
    /// `pty` or `tmux`.
    pub host: String,
    /// `grant` or `background`.
    pub lifetime: String,
    /// Name of the recipe, where there is one.
    pub origin: Option<String>,
    /// The masked command line.
    pub command: String,
    /// The arguments, where none of them had to be masked: a restart needs them.
    pub argv: Option<Vec<String>>,
    /// Its launch gave it another command than its recipe has.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_command: bool,
    /// What its launch chose in the place of its recipe's `gpus`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<String>,
    /// What its launch chose in the place of its recipe's `venv`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub venv: Option<String>,
    /// Names of the variables that its launch added; their values may be secret and are not recorded.
    #[serde(default)]
    pub env_names: Vec<String>,
    /// Seconds that its launch gave it, for a restart.
    #[serde(default)]
    pub ceiling_s: Option<f64>,
    /// Nobody chose its ceiling: while a manager verifies it, it is moved to this many seconds from then.
    #[serde(default)]
    pub renew_s: Option<f64>,
    /// The resource that it holds alone, as its recipe names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclusive: Option<String>,
    /// Working directory.
    pub cwd: String,
    /// The boot that all tokens belong to; `None` where the inspector knows none.
    pub boot_id: Option<String>,
    /// Inode of the pid namespace.
    pub pidns_inode: Option<u64>,
    /// Inode of the time namespace.
    pub timens_inode: Option<u64>,
    /// The manager that launched it, or has adopted it since.
    pub spawner: Identity,
    /// Its launcher is gone, and another manager has taken it over; or it was not launched by us.
    #[serde(default)]
    pub adopted: bool,
    /// It was not launched by us.
    #[serde(default)]
    pub adoption: Option<Adoption>,
    /// Its warden.
    pub warden: Option<Identity>,
    /// Its front, in tmux.
    pub front: Option<Identity>,
    /// Its workload.
    pub workload: Workload,
    /// Where it is in tmux.
    pub tmux: Option<TmuxRecord>,
    /// Seconds on `CLOCK_BOOTTIME` at the launch.
    pub spawned_at: f64,
    /// The same moment in seconds since the Unix epoch, for display.
    pub spawned_at_wall: f64,
    /// Seconds on `CLOCK_BOOTTIME` until which it may live.
    pub not_after: f64,
    /// The same moment in seconds since the Unix epoch, for display.
    pub not_after_wall: f64,
    /// Random marker in the environment of the session.
    pub marker: String,
    /// Containments that held at the launch.
    pub containment: Vec<String>,
    /// The cgroup that was made for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<CgroupRecord>,
    /// Name of the first signal of a stop.
    pub stop_signal: Option<String>,
    /// Seconds between the first signal and KILL.
    pub grace_s: f64,
    /// Members that only came back to the warden are reported, not ended.
    pub report_escapees: bool,
    /// The identities of a stop that is under way.
    #[serde(default)]
    pub captured: Vec<CapturedRecord>,
    /// A stop has begun: whoever does it holds the lock. Where nobody does, it was interrupted.
    #[serde(default)]
    pub stopping: bool,
    /// Who was left alive on purpose by a stop: as long as one of them lives, the record
    /// stays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<CapturedRecord>,
    /// Why it is still here.
    #[serde(default)]
    pub last: Option<Last>,
    /// Nobody saw what `last` says: the next start tells it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untold: bool,
    /// It is started again when it fails.
    #[serde(default)]
    pub restarts: Option<Restarts>,
}

impl Tether {
    /// Checks what no record of ours can hold.
    ///
    /// # Errors
    /// Names the field and what is wrong with it.
    pub fn validate(&self) -> Result<(), String> {
        if self.schema_version != SCHEMA_VERSION {
            return Err(format!("schema_version {} is not {SCHEMA_VERSION}", self.schema_version));
        }
        if !is_session_id(&self.session) {
            return Err(format!("session {:?} is not a session id", self.session));
        }
        for (field, value, known) in
            [("host", &self.host, ["pty", "tmux"]), ("lifetime", &self.lifetime, ["grant", "background"])]
        {
            if !known.contains(&value.as_str()) {
                return Err(format!("{field} {value:?} is none of {}", known.join(", ")));
            }
        }
        if (self.host == "tmux") != self.tmux.is_some() {
            return Err(format!("host is {}, and its place in tmux does not go with that", self.host));
        }
        for (field, seconds) in [
            ("spawned_at", self.spawned_at),
            ("not_after", self.not_after),
            ("spawned_at_wall", self.spawned_at_wall),
            ("not_after_wall", self.not_after_wall),
            ("grace_s", self.grace_s),
        ] {
            if !seconds.is_finite() || seconds < 0.0 {
                return Err(format!("{field} is {seconds}, not a time"));
            }
        }
        let moments = self.restarts.iter().flat_map(|restarts| [restarts.began, restarts.next_at]).flatten();
        if let Some(bad) = moments.into_iter().find(|seconds| !seconds.is_finite() || *seconds < 0.0) {
            return Err(format!("restarts holds {bad}, not a time"));
        }
        for (field, seconds) in [("ceiling_s", self.ceiling_s), ("renew_s", self.renew_s)] {
            if let Some(bad) = seconds.filter(|seconds| !seconds.is_finite() || *seconds <= 0.0) {
                return Err(format!("{field} is {bad}, no length of time"));
            }
        }
        if self.grace_s > 86_400.0 {
            return Err(format!("grace_s is {}, more than a day", self.grace_s));
        }
        if self.not_after <= self.spawned_at {
            return Err("not_after is not after spawned_at".into());
        }
        if let Some(adoption) = &self.adoption {
            self.validate_adoption(adoption)?;
        }
        // A session of 0 is one that could not be read (ps(1) of the BSDs).
        if self.workload.pgid <= 1 || self.workload.sid < 0 || self.workload.sid == 1 {
            return Err(format!("workload has the group {} and the session {}", self.workload.pgid, self.workload.sid));
        }
        let identities =
            [Some(&self.spawner), self.warden.as_ref(), self.front.as_ref(), Some(&self.workload.identity)];
        let captured = self.captured.iter().chain(&self.left).map(|record| &record.identity);
        for identity in identities.into_iter().flatten().chain(captured).chain(self.pane_roots()) {
            if identity.pid.raw() == 1 && identity != &self.spawner {
                return Err("it names init as a process of the session".into());
            }
            if let (StartToken::Procfs { boot_id, .. }, Some(boot)) = (&identity.token, &self.boot_id)
                && boot_id != boot
            {
                return Err(format!("the token of {} is of another boot than the record", identity.pid));
            }
        }
        Ok(())
    }

    fn validate_adoption(&self, adoption: &Adoption) -> Result<(), String> {
        if self.warden.is_some() || self.front.is_some() || self.restarts.is_some() {
            return Err("it was adopted, and yet has a warden".into());
        }
        if self.tmux.is_none() || self.host != "tmux" || self.lifetime != "background" || !self.adopted {
            return Err("it was adopted, and yet is no background session in tmux".into());
        }
        if !adoption.panes.iter().any(|root| root.identity == self.workload.identity) {
            return Err("its workload is not the root of a pane that was adopted".into());
        }
        Ok(())
    }

    /// Returns the roots of the panes that were adopted; none of a session that we launched.
    pub fn pane_roots(&self) -> impl Iterator<Item = &Identity> {
        self.adoption.iter().flat_map(|adoption| &adoption.panes).map(|root| &root.identity)
    }

    /// Tells whether a stop has ended everything but what was left alive on purpose.
    pub fn is_settled(&self) -> bool {
        self.captured.is_empty() && self.last.as_ref().is_some_and(|last| last.verdict == VerdictKind::Owned)
    }

    /// Returns whom a stop had captured that was never finished: whoever ran it died over it.
    pub fn begun(&self) -> &[CapturedRecord] {
        // What a stop has left says so in `last`.
        if self.stopping || self.last.is_none() { &self.captured } else { &[] }
    }

    /// Writes down whom a stop has captured. Those of one that was never finished stay beside them.
    pub fn capture(&mut self, captured: &[CapturedRecord]) {
        let is_new = |begun: &&CapturedRecord| !captured.iter().any(|one| begun.identity.names(&one.identity));
        let before: Vec<CapturedRecord> = self.begun().iter().filter(is_new).cloned().collect();
        self.captured = captured.iter().cloned().chain(before).collect();
    }

    /// Writes down what a stop has left of the session: why the record stays, and whom it names.
    pub fn keep(&mut self, (verdict, reason): (VerdictKind, String), receipt: &Receipt, at: u64) {
        self.last = Some(Last { verdict, reason, at });
        (self.stopping, self.untold) = (false, false);
        self.left = CapturedRecord::left_alive(receipt);
    }

    /// Says why it is not ours to judge, if so: its pids and times are of other namespaces than ours, which are `pid`
    /// and `time`, where they could be read.
    pub fn elsewhere(&self, pid: Option<u64>, time: Option<u64>) -> Option<String> {
        let other = |recorded: Option<u64>, ours: Option<u64>, name: &str| match (recorded, ours) {
            (Some(recorded), Some(ours)) if recorded != ours => {
                Some(format!("it was recorded in the {name} namespace {recorded}, and ours is {ours}"))
            }
            // Its pids may be anybody's here.
            (None, Some(_)) => Some(format!("it does not say in which {name} namespace it was recorded")),
            (Some(_) | None, _) => None,
        };
        other(self.pidns_inode, pid, "pid").or_else(|| other(self.timens_inode, time, "time"))
    }

    /// Says so where its warden speaks another protocol than this program: such a warden is told nothing.
    pub fn other_protocol(&self) -> Option<String> {
        let Self { protocol, .. } = self;
        (*protocol != PROTOCOL).then(|| format!("its warden speaks protocol {protocol}, this cookbook-tui {PROTOCOL}"))
    }

    /// Tells whether its workload is to be started again, or waits for it.
    pub fn restarts_on_failure(&self) -> bool {
        self.restarts.as_ref().is_some_and(|restarts| restarts.over.is_none())
    }

    /// Returns how the last run has ended, where another one was to follow it.
    pub fn exit_in_pause(&self) -> Option<&ExitRecord> {
        self.restarts.as_ref().and_then(Restarts::in_pause)
    }

    /// Returns how the session is to be ended.
    pub fn ladder(&self) -> Ladder {
        let grace = Duration::from_secs_f64(self.grace_s);
        let signal = self.stop_signal.as_deref().and_then(|name| name.parse().ok());
        match (signal, self.kind.as_str()) {
            (Some(signal), _) => Ladder::server(signal, grace),
            (None, "agent" | "shell") => Ladder::terminal(grace),
            (None, _) => Ladder::server(Signal::Term, grace),
        }
    }

    /// Returns what the members follow from. `panes` are the pane roots as tmux names them now; of an adopted
    /// session those of its roots that have not gone to another session.
    pub fn scope(&self, panes: Vec<Identity>) -> Scope {
        if self.adoption.is_some() {
            // Nobody has watched it without a gap, so that a number alone proves nothing.
            return Scope {
                workload: Some(self.workload.identity.clone()).filter(|workload| panes.contains(workload)),
                sid: Some(self.workload.sid).filter(|sid| *sid != 0),
                pgid: Some(self.workload.pgid),
                panes,
                known: self.known(),
                ..Scope::default()
            };
        }
        Scope {
            workload: Some(self.workload.identity.clone()),
            warden: self.warden.clone(),
            front: self.front.clone(),
            sid: Some(self.workload.sid).filter(|sid| *sid != 0),
            pgid: Some(self.workload.pgid),
            marker: Some(self.marker.clone()),
            panes,
            known: self.known(),
            report_escapees: self.report_escapees,
            cgroup: self.cgroup.clone(),
            end_kept: Vec::new(),
        }
    }

    fn known(&self) -> Vec<(Identity, BTreeSet<Membership>)> {
        let known = self.captured.iter().chain(&self.left);
        known.map(|record| (record.identity.clone(), record.membership.clone())).collect()
    }
}

/// Tells whether `text` has the shape of our ids: a known prefix, a dash and eight hexadecimal digits.
pub fn is_session_id(text: &str) -> bool {
    let Some((prefix, digits)) = text.rsplit_once('-') else { return false };
    ["serve", "agent", "shell", "cookbook"].contains(&prefix)
        && digits.len() == 8
        && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// How a workload ended, as its warden saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// Exit status.
    pub code: Option<i32>,
    /// Name of the signal without `SIG`, or its number.
    pub signal: Option<String>,
    /// Seconds since the Unix epoch.
    pub at: u64,
    /// Nobody of the session was left below its warden, which has gone because of that. Not said: whoever finds no
    /// warden must think that it was killed, and that somebody may be left.
    #[serde(default)]
    pub emptied: bool,
    /// Bytes of address space that it might have at its end, where that was limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_space: Option<u64>,
}

/// Returns a record that validates.
#[cfg(test)]
pub(super) fn sample() -> Tether {
    let identity = |raw| Identity {
        pid: super::identity::Pid::new(raw).expect("positive"),
        token: "procfs:b:5".parse().expect("token"),
        pidfd_inode: None,
    };
    Tether {
        schema_version: SCHEMA_VERSION,
        protocol: PROTOCOL,
        session: "serve-0123abcd".into(),
        name: "x".into(),
        kind: "serve".into(),
        host: "pty".into(),
        lifetime: "grant".into(),
        origin: None,
        own_command: false,
        gpus: None,
        venv: None,
        command: "sleep".into(),
        argv: None,
        env_names: Vec::new(),
        exclusive: None,
        ceiling_s: None,
        renew_s: None,
        cwd: "/".into(),
        boot_id: Some("b".into()),
        pidns_inode: Some(1),
        timens_inode: Some(1),
        spawner: identity(7),
        adopted: false,
        adoption: None,
        warden: Some(identity(8)),
        front: None,
        workload: Workload { identity: identity(9), pgid: 9, sid: 9 },
        tmux: None,
        spawned_at: 1.0,
        spawned_at_wall: 1.0,
        not_after: 2.0,
        not_after_wall: 2.0,
        marker: "m".into(),
        containment: vec!["tree".into()],
        cgroup: None,
        stop_signal: None,
        grace_s: 2.0,
        report_escapees: false,
        captured: Vec::new(),
        stopping: false,
        left: Vec::new(),
        last: None,
        untold: false,
        restarts: None,
    }
}

#[cfg(test)]
mod tests;
