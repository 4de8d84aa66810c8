//! What a stop or a sweep observed, per process; never what it intended.
//!
//! Pure data. It is filled by `conduct` from what the kernel answered and is printed, stored and
//! drawn by everything above.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::identity::{Pid, StartToken};
use super::verdict::VerdictKind;

/// Why a process belongs to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Membership {
    /// An unbroken chain of parents leads to the workload or to a pane of the session.
    Tree,
    /// It is in the kernel session of a leader that was identified.
    Sid,
    /// It is in a cgroup leaf that was made for the session.
    Cgroup,
    /// It came back to the warden after its parent had left.
    Reparented,
    /// It carries the random marker of the session in its environment: a hint, shown only.
    Marker,
}

/// One process of a session, as it was last seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessRow {
    /// Process id.
    pub pid: Pid,
    /// Parent's process id; 0 where the parent is outside the pid namespace.
    pub ppid: i32,
    /// Process group.
    pub pgid: i32,
    /// Kernel session.
    pub sid: i32,
    /// `None` where the identity could not be read.
    pub start_token: Option<StartToken>,
    /// The masked command line, valid UTF-8.
    pub command: String,
    /// The raw bytes of the command line, where `command` had to lose some (and no secret was masked).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_b64: Option<String>,
    /// The state letter of `proc_pid_stat(5)`, for example `S`.
    pub state: String,
    /// What is known of its identity now.
    pub verdict: VerdictKind,
    /// Why, in words.
    pub reason: String,
    /// Every way in which it belongs to the session.
    pub membership: Vec<Membership>,
    /// Why it must never be signalled, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protected: Option<String>,
    /// Which long-living daemon it is, where it is left alive by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// Seconds since its start, in milliseconds at the finest; `None` where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_s: Option<f64>,
    /// Percent of one core since the sample before; `None` on the first sample.
    pub cpu_pct: Option<f64>,
    /// Resident memory in bytes.
    pub rss_bytes: Option<u64>,
    /// Number of threads.
    pub threads: Option<u32>,
    /// GPU memory in bytes, where it has any that somebody can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_bytes: Option<u64>,
}

/// A process that looks like one of ours, or has slipped away from us: reported, not signalled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bystander {
    /// Process id.
    pub pid: Pid,
    /// `None` where the identity could not be read.
    pub start_token: Option<StartToken>,
    /// The masked command line.
    pub command: String,
    /// Why it is reported and not signalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How a signal travelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// `pidfd_send_signal(2)` on a descriptor opened before the identity was verified.
    Pidfd,
    /// kill(2) right after a verification, where the kernel has no pidfds.
    Kill,
    /// `cgroup.kill` of a leaf that holds nothing but the session.
    Cgroup,
}

/// A signal that was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalSent {
    /// To whom.
    pub pid: Pid,
    /// To which process of that pid.
    pub start_token: StartToken,
    /// For example `TERM`.
    pub signal: String,
    /// By which call.
    pub via: Via,
}

/// How it ended for one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    /// Observed dead after the capture.
    Exited,
    /// Observed alive after the last signal.
    Survived,
    /// Its identity could not be established, so it was not signalled.
    Unverifiable,
    /// The pid names another process now; not signalled.
    Foreign,
    /// It must never be signalled.
    Refused,
    /// A daemon that is left alive on purpose.
    Kept,
    /// It was dead before the first signal.
    AlreadyGone,
}

/// The outcome of one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Process id.
    pub pid: Pid,
    /// `None` where the identity could not be read.
    pub start_token: Option<StartToken>,
    /// The masked command line, where it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What was observed.
    pub outcome: OutcomeKind,
    /// Why, where that is not plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A process that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Process id.
    pub pid: Pid,
    /// Which protection holds.
    pub reason: String,
}

/// A resource that a stop did not bring back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StillHeld {
    /// A TCP port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// GPU memory in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_bytes: Option<u64>,
    /// Who holds it.
    pub by: String,
}

/// One planned step of a dry run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRow {
    /// Process id.
    pub pid: Pid,
    /// `None` where the identity could not be read.
    pub start_token: Option<StartToken>,
    /// The first signal it would get; `None` where it would get none.
    pub signal: Option<String>,
    /// What is known of its identity now.
    pub verdict: VerdictKind,
    /// Why it would be signalled, or would not.
    pub reason: String,
    /// The masked command line.
    pub command: String,
}

/// What a stop or a sweep observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// The session's id; empty in the total of a sweep over all sessions.
    pub session: String,
    /// Its name for people, where it is told when its record is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `pty` or `tmux`.
    pub host: String,
    /// Everything that was to be ended was observed dead; `None` where nobody could look.
    pub dead: Option<bool>,
    /// KILL was needed.
    pub escalated: bool,
    /// The process tree before the first signal.
    pub captured: Vec<ProcessRow>,
    /// Every signal sent, in order.
    pub signals: Vec<SignalSent>,
    /// One row for each captured process and each newcomer.
    pub outcomes: Vec<Outcome>,
    /// Alive after the last signal.
    pub survivors: Vec<Pid>,
    /// Not identified, hence not signalled.
    pub unverified: Vec<Pid>,
    /// Never to be signalled.
    pub refused: Vec<Refused>,
    /// Same command line as a captured process, but not a member.
    pub lookalikes: Vec<Bystander>,
    /// Descendants that left the tree and were reported instead of swept.
    pub escapees: Vec<Bystander>,
    /// Daemons left alive on purpose.
    pub kept: Vec<Bystander>,
    /// Ports that were listened on before and are free now.
    pub ports_released: Vec<u16>,
    /// What did not come back.
    pub still_held: Vec<StillHeld>,
    /// The PTY master was closed, or the tmux session is gone.
    pub host_closed: bool,
    /// Which containments held: `tree`, `warden`, `cgroup`.
    pub containment: Vec<String>,
    /// Everything else a person should know.
    pub notes: Vec<String>,
    /// Duration in milliseconds.
    pub elapsed_ms: u64,
    /// With `dry_run`: what would be signalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Vec<PlanRow>>,
    /// With the plan: seconds between the first signal and KILL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_s: Option<f64>,
}

/// How the first note of a warden's receipt begins.
pub(super) const BY_WARDEN: &str = "ended by its warden";

impl Receipt {
    /// Returns how it ended, in a few words that leave nobody out.
    pub fn end(&self) -> String {
        let left = self.escapees.len() + self.kept.len();
        match (self.dead, left) {
            (Some(true), 0) if !self.still_held.is_empty() => format!("dead, {} still held", self.still_held.len()),
            (Some(true), 0) => "nothing is left".to_owned(),
            (Some(true), 1) => "one process was left alive".to_owned(),
            (Some(true), left) => format!("{left} processes were left alive"),
            (Some(false), _) => format!("{} survived", self.survivors.len() + self.refused.len()),
            (None, _) => "not everything is known to be dead".to_owned(),
        }
    }

    /// Tells whether a KILL was delivered; one that the kernel refused, or that came too late, is none.
    pub fn was_killed(&self) -> bool {
        self.signals.iter().any(|sent| sent.signal == "KILL")
    }

    /// Tells whether everything went as asked: it was observed dead, its host is closed, and nothing
    /// survived, stayed unverifiable, was refused or is still held. Decides exit code 3.
    pub fn is_clean(&self) -> bool {
        self.dead == Some(true)
            && self.host_closed
            && self.survivors.is_empty()
            && self.unverified.is_empty()
            && self.refused.is_empty()
            && self.still_held.is_empty()
    }

    /// Tells whether a warden has made it, by itself.
    pub fn is_wardens(&self) -> bool {
        self.notes.first().is_some_and(|note| note.starts_with(BY_WARDEN))
    }

    /// Tells whether nobody was there any more: nobody was signalled, and nobody is named.
    pub fn found_nobody(&self) -> bool {
        let named = self.escapees.len() + self.kept.len() + self.unverified.len() + self.refused.len();
        self.dead == Some(true) && self.signals.is_empty() && named == 0
    }

    /// Returns why a record of the session is still needed after this: what is known of whom, in words.
    pub fn why_left(&self) -> (VerdictKind, String) {
        let alive = [
            (OutcomeKind::Survived, VerdictKind::Owned, "survived"),
            (OutcomeKind::Unverifiable, VerdictKind::Unverifiable, "cannot be verified"),
            (OutcomeKind::Refused, VerdictKind::Owned, "must not be signalled"),
        ];
        for (kind, verdict, what) in alive {
            if let Some(row) = self.outcomes.iter().find(|row| row.outcome == kind) {
                let why = row.reason.as_deref().unwrap_or("nobody knows why");
                return (verdict, format!("pid {} {what}: {why}", row.pid));
            }
        }
        let ended = self.dead == Some(true) && self.host_closed;
        if let Some(row) = self.escapees.iter().chain(&self.kept).next().filter(|_| ended) {
            let why = row.reason.as_deref().unwrap_or("on purpose");
            return (VerdictKind::Owned, format!("pid {} was left alive: {why}", row.pid));
        }
        let reason = self.notes.first().cloned().unwrap_or_else(|| "its host is still open".into());
        (VerdictKind::Unverifiable, reason)
    }
}

/// Adds up the receipts of a sweep over several sessions.
pub fn total(receipts: impl IntoIterator<Item = Receipt>) -> Receipt {
    let mut total = Receipt { dead: Some(true), host_closed: true, ..Receipt::default() };
    for receipt in receipts {
        total.dead = match (total.dead, receipt.dead) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (None, _) | (_, None) => None,
            (Some(true), Some(true)) => Some(true),
        };
        let labelled = |notes: Vec<String>| {
            notes.into_iter().map(|note| format!("{}: {note}", receipt.session)).collect::<Vec<_>>()
        };
        total.notes.extend(labelled(receipt.notes.clone()));
        total.escalated |= receipt.escalated;
        total.grace_s = total.grace_s.into_iter().chain(receipt.grace_s).reduce(f64::max);
        total.host_closed &= receipt.host_closed;
        total.captured.extend(receipt.captured);
        total.signals.extend(receipt.signals);
        total.outcomes.extend(receipt.outcomes);
        total.survivors.extend(receipt.survivors);
        total.unverified.extend(receipt.unverified);
        total.refused.extend(receipt.refused);
        total.lookalikes.extend(receipt.lookalikes);
        total.escapees.extend(receipt.escapees);
        total.kept.extend(receipt.kept);
        total.ports_released.extend(receipt.ports_released);
        total.still_held.extend(receipt.still_held);
        total.elapsed_ms += receipt.elapsed_ms;
        for how in receipt.containment {
            if !total.containment.contains(&how) {
                total.containment.push(how);
            }
        }
        if let Some(plan) = receipt.plan {
            total.plan.get_or_insert_default().extend(plan);
        }
    }
    // A process can look like members of two sessions.
    let mut seen = BTreeSet::new();
    total.lookalikes.retain(|row: &Bystander| seen.insert(row.pid));
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(pid: i32, outcome: OutcomeKind) -> Outcome {
        let pid = Pid::new(pid).expect("positive");
        Outcome { pid, start_token: None, command: None, outcome, reason: Some("of old".into()) }
    }

    /// Somebody who lives is named before anything else; whoever was left alive on purpose keeps a verdict that
    /// says so, whatever they hold on to.
    #[test]
    fn the_reason_for_a_record_names_who_is_left() {
        let check = |change: &dyn Fn(&mut Receipt), expected: (VerdictKind, &str)| {
            let ended = [outcome(6, OutcomeKind::Exited), outcome(7, OutcomeKind::AlreadyGone)].into();
            let mut receipt = Receipt { outcomes: ended, notes: vec!["a note".into()], ..Receipt::default() };
            change(&mut receipt);
            let (verdict, reason) = receipt.why_left();
            assert_eq!((verdict, reason.as_str()), expected);
        };
        check(
            &|receipt| {
                receipt.outcomes.push(outcome(8, OutcomeKind::Unverifiable));
                receipt.outcomes.push(outcome(9, OutcomeKind::Survived));
            },
            (VerdictKind::Owned, "pid 9 survived: of old"),
        );
        check(
            &|receipt| receipt.outcomes.push(outcome(8, OutcomeKind::Unverifiable)),
            (VerdictKind::Unverifiable, "pid 8 cannot be verified: of old"),
        );
        check(
            &|receipt| receipt.outcomes.push(outcome(8, OutcomeKind::Refused)),
            (VerdictKind::Owned, "pid 8 must not be signalled: of old"),
        );
        check(&|_| {}, (VerdictKind::Unverifiable, "a note"));
        check(&|receipt| receipt.notes.clear(), (VerdictKind::Unverifiable, "its host is still open"));
        let left_alive = |receipt: &mut Receipt| {
            let pid = Pid::new(8).expect("positive");
            let row = Bystander { pid, start_token: None, command: String::new(), reason: Some("a daemon".into()) };
            receipt.kept.push(row);
            receipt.still_held.push(StillHeld { port: Some(80), gpu_bytes: None, by: "pid 8".into() });
            (receipt.dead, receipt.host_closed) = (Some(true), true);
        };
        check(&left_alive, (VerdictKind::Owned, "pid 8 was left alive: a daemon"));
        check(
            &|receipt| {
                left_alive(receipt);
                receipt.host_closed = false;
            },
            (VerdictKind::Unverifiable, "a note"),
        );
    }
}
