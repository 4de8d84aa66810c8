//! GPU memory of the members: by NVIDIA's word ([`super::nvidia`]), and by what the other drivers of the kernel tell.
//!
//! Asked by a thread of its own, every few seconds and only while a session lives; a single command that shows it
//! asks once. A figure belongs to a member that was `owned` before and after the question. What nobody can tell stays
//! unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::Inner;
use super::doctor::{ok, warn};
use super::nvidia::{Silence, Teller, Told};
use super::session::Session;
use crate::app::command::Check;
use crate::app::contract::Kind;
use crate::app::nvml::Usage;
use crate::app::report::bytes;
use crate::lifecycle::authority::verify;
use crate::lifecycle::identity::{Identity, Pid};
use crate::lifecycle::inspect::{INITIAL_PID_NAMESPACE, drm_memory, has_drm};
use crate::lifecycle::receipt::{Receipt, StillHeld};
use crate::lifecycle::verdict::VerdictKind;
use crate::text;

/// Time between two questions.
const TICK: Duration = Duration::from_secs(3);
/// How long a driver may take to give back the memory of a process that has ended.
const GIVE_BACK: Duration = Duration::from_secs(5);
/// Longest command line in a receipt, in columns.
const SHOWN: usize = 80;

/// What was last answered: bytes by member.
#[derive(Debug, Default)]
pub(super) struct Known(BTreeMap<Identity, Memory>);

/// What a member has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    bytes: u64,
    /// NVIDIA's tools told of it, so that only they can tell whether it came back.
    by_nvidia: bool,
}

/// The answer to one question.
struct Answer {
    used: BTreeMap<Pid, Memory>,
    /// Why NVIDIA's tools told nothing.
    silence: Option<Silence>,
}

/// Starts the asking thread; it ends with the runtime.
pub(super) fn start(inner: &Arc<Inner>) {
    let weak = Arc::downgrade(inner);
    std::thread::spawn(move || {
        while let Some(inner) = weak.upgrade() {
            if inner.is_closing() {
                return;
            }
            inner.look_at_gpus();
            drop(inner);
            std::thread::sleep(TICK);
        }
    });
}

impl Inner {
    /// Asks for the GPU memory of all members that live, and takes note of it in their rows.
    pub(super) fn look_at_gpus(&self) {
        let live = |session: &Arc<Session>| {
            let state = session.state();
            let owned = state.sample.rows.iter().filter(|(_, sampled)| sampled.row.verdict == VerdictKind::Owned);
            owned.map(|(identity, _)| identity.clone()).collect::<Vec<_>>()
        };
        let sessions = self.all();
        let members: Vec<Identity> = sessions.iter().flat_map(live).collect();
        let members: BTreeMap<Identity, Memory> = if members.is_empty() {
            self.nvidia.lock().unwrap_or_else(PoisonError::into_inner).rest();
            BTreeMap::new()
        } else {
            let used = self.gpu_memory(members.iter().map(|member| member.pid)).used;
            let have = members.into_iter().filter_map(|member| Some((used.get(&member.pid).copied()?, member)));
            // Whoever was there before and is there now had the pid all the time.
            let still = have.filter(|(_, member)| verify(member, &self.inspector).kind == VerdictKind::Owned);
            still.map(|(had, member)| (member, had)).collect()
        };
        for session in sessions {
            for (identity, sampled) in &mut session.state().sample.rows {
                sampled.row.gpu_bytes = members.get(identity).map(|had| had.bytes);
            }
        }
        self.gpu.lock().unwrap_or_else(PoisonError::into_inner).0 = members;
    }

    /// Asks once, where no thread does so: for a single command.
    pub(super) fn look_at_gpus_once(&self) {
        if self.watcher.get().is_none() {
            self.look_at_gpus();
        }
    }

    /// Returns what is known of one member.
    pub(super) fn gpu_bytes_of(&self, member: &Identity) -> Option<u64> {
        self.gpu.lock().unwrap_or_else(PoisonError::into_inner).0.get(member).map(|had| had.bytes)
    }

    /// Returns what the members of a session were last seen to have.
    pub(super) fn gpu_memory_of(&self, session: &Session) -> BTreeMap<Identity, Memory> {
        let known = self.gpu.lock().unwrap_or_else(PoisonError::into_inner);
        let state = session.state();
        let members = state.sample.rows.keys();
        members.filter_map(|member| Some((member.clone(), *known.0.get(member)?))).collect()
    }

    /// Asks for the GPU memory of these processes.
    fn gpu_memory(&self, pids: impl Iterator<Item = Pid>) -> Answer {
        let pids: Vec<Pid> = pids.collect();
        let (mut nvidia, silence) = match self.ask_nvidia().map(|told| told.usage) {
            Some(Ok((_, usage))) => (usage, None),
            Some(Err(silence)) => (Usage::new(), Some(silence)),
            None => (Usage::new(), Some(Silence::Absent("another pid namespace".into()))),
        };
        nvidia.retain(|pid, _| pids.contains(pid));
        let told: BTreeSet<Pid> = nvidia.keys().copied().collect();
        let drm = drm_memory(&self.inspector, pids, &told);
        let mut used: BTreeMap<Pid, Memory> =
            drm.into_iter().map(|(pid, bytes)| (pid, Memory { bytes, by_nvidia: false })).collect();
        for (pid, bytes) in nvidia {
            let before = used.remove(&pid).map_or(0, |had| had.bytes);
            // A sum with an unknown part is unknown, and 0 of a process that a GPU knows is no figure either.
            if let Some(bytes) = bytes.map(|bytes| bytes.saturating_add(before)).filter(|bytes| *bytes > 0) {
                used.insert(pid, Memory { bytes, by_nvidia: true });
            }
        }
        Answer { used, silence }
    }

    /// Asks NVIDIA's tools. They tell pids of the host: in another pid namespace, or where nobody knows in which one we
    /// are, nobody is asked.
    fn ask_nvidia(&self) -> Option<Told> {
        let ours = self.namespaces.pid == Some(INITIAL_PID_NAMESPACE);
        ours.then(|| self.nvidia.lock().unwrap_or_else(PoisonError::into_inner).ask())
    }

    /// Says who tells the GPU memory.
    pub(super) fn gpu_check(&self) -> Check {
        const NAME: &str = "GPU memory";
        let drm = if has_drm(&self.inspector) { "drm" } else { "none" };
        let Some(told) = self.ask_nvidia() else {
            if !super::nvidia::is_here() {
                return ok(NAME, drm);
            }
            let reason = "NVIDIA's tools tell pids of the host, and this is another pid namespace";
            return warn(NAME, format!("{drm}: {reason}"), "share the host's pid namespace (docker run --pid=host)");
        };
        let teller = match told.usage {
            Ok((Teller::Nvml, _)) => "nvml",
            Ok((Teller::Smi, _)) => "nvidia-smi",
            Err(_) => drm,
        };
        let and_drm = told.usage.is_ok() && drm == "drm";
        let detail = if and_drm { format!("{teller}, drm") } else { teller.to_owned() };
        match told.usage.err().filter(|silence| matches!(silence, Silence::Failed(_))).or(told.nvml) {
            Some(Silence::Failed(reason)) => warn(
                NAME,
                format!("{detail}: {reason}"),
                "look what nvidia-smi says: the driver and its library must be of one version",
            ),
            Some(Silence::Absent(reason)) if teller == "nvidia-smi" => ok(NAME, format!("{detail} ({reason})")),
            Some(Silence::Absent(_)) | None => ok(NAME, detail),
        }
    }

    /// Looks whether a stop brought the GPU memory back, and writes down what it did not. A driver may take a moment
    /// over the memory of a process that has ended.
    pub(super) fn check_gpus(&self, session: &Session, had: &BTreeMap<Identity, Memory>, receipt: &mut Receipt) {
        if had.is_empty() && session.kind != Kind::Serve {
            return;
        }
        let rows = receipt.outcomes.iter().map(|row| (row.pid, row.start_token.clone(), row.command.clone()));
        let beside = receipt.kept.iter().chain(&receipt.escapees);
        let beside = beside.map(|row| (row.pid, row.start_token.clone(), Some(row.command.clone())));
        let asked: BTreeMap<Pid, (Option<Identity>, Option<String>)> = rows
            .chain(beside)
            .map(|(pid, token, command)| {
                let identity = token.map(|token| Identity { pid, token, pidfd_inode: None });
                (pid, (identity, command))
            })
            .collect();
        if asked.is_empty() {
            return;
        }
        let until = Instant::now() + GIVE_BACK;
        loop {
            let Answer { used, silence } = self.gpu_memory(asked.keys().copied());
            let judge = |(pid, had): (Pid, Memory)| {
                let (identity, command) = &asked[&pid];
                (pid, had.bytes, identity.as_ref().map(|identity| verify(identity, &self.inspector).kind), command)
            };
            let judged: Vec<_> = used.into_iter().map(judge).collect();
            let waits = judged.iter().any(|(_, _, verdict, _)| *verdict == Some(VerdictKind::Gone));
            if waits && Instant::now() < until {
                std::thread::sleep(GIVE_BACK / 50);
                continue;
            }
            let mut held = BTreeSet::new();
            for (pid, bytes, verdict, command) in judged {
                let by = match verdict {
                    // Whoever has the number now has memory of its own.
                    Some(VerdictKind::Foreign) => continue,
                    Some(VerdictKind::Gone) => format!("the driver, for pid {pid}, which has ended"),
                    Some(VerdictKind::Owned | VerdictKind::Unverifiable) | None => {
                        let command = text::escape(command.as_deref().unwrap_or_default()).into_owned();
                        format!("pid {pid} ({})", text::shorten(&command, SHOWN))
                    }
                };
                held.insert(pid);
                receipt.still_held.push(StillHeld { port: None, gpu_bytes: Some(bytes), by });
            }
            receipt.notes.extend(came_back(had, &held, silence.as_ref()));
            return;
        }
    }
}

/// Says what of the memory that was seen before came back, and of what nobody can tell it.
fn came_back(had: &BTreeMap<Identity, Memory>, held: &BTreeSet<Pid>, silence: Option<&Silence>) -> Vec<String> {
    let gone = had.iter().filter(|(member, _)| !held.contains(&member.pid)).map(|(_, had)| had);
    let (untold, back): (Vec<&Memory>, Vec<&Memory>) = gone.partition(|had| had.by_nvidia && silence.is_some());
    let sum = |all: Vec<&Memory>| Some(all.iter().map(|had| had.bytes).sum::<u64>()).filter(|sum| *sum > 0).map(bytes);
    let reason = silence.map(Silence::reason).unwrap_or_default();
    let untold = sum(untold)
        .map(|size| format!("nobody can tell whether {size} of GPU memory came back: {}", text::escape(reason)));
    sum(back).map(|size| format!("{size} of GPU memory came back")).into_iter().chain(untold).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::identity::StartToken;

    #[test]
    fn what_came_back_is_told_apart_from_what_nobody_can_tell() {
        let had = |all: &[(i32, u64, bool)]| -> BTreeMap<Identity, Memory> {
            let one = |(pid, bytes, by_nvidia): &(i32, u64, bool)| {
                let token = StartToken::Ps { lstart: "x".into() };
                let pid = Pid::new(*pid).expect("a pid");
                (Identity { pid, token, pidfd_inode: None }, Memory { bytes: *bytes, by_nvidia: *by_nvidia })
            };
            all.iter().map(one).collect()
        };
        let check = |all: &[(i32, u64, bool)], held: &[i32], silence: Option<&Silence>, expected: &[&str]| {
            let held = held.iter().filter_map(|pid| Pid::new(*pid)).collect();
            assert_eq!(came_back(&had(all), &held, silence), expected, "{all:?}");
        };
        let silence = Silence::Failed("no driver".into());
        check(&[], &[], None, &[]);
        check(&[(7, 1 << 30, true), (8, 1 << 29, false)], &[], None, &["1.5G of GPU memory came back"]);
        check(&[(7, 1 << 30, true), (8, 1 << 29, true)], &[7], None, &["512M of GPU memory came back"]);
        check(&[(7, 1 << 30, true)], &[7], None, &[]);
        let untold = "nobody can tell whether 1.0G of GPU memory came back: no driver";
        check(&[(7, 1 << 30, true)], &[], Some(&silence), &[untold]);
        let back = "512M of GPU memory came back";
        check(&[(7, 1 << 30, true), (8, 1 << 29, false)], &[], Some(&silence), &[back, untold]);
    }
}
