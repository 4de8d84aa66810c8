//! GPU memory of the members: nvidia-smi where it is installed, and what the drivers of the kernel tell.
//!
//! Asked by a thread of its own, every few seconds and only while a session lives; a single command that shows it
//! asks once. What nobody can tell stays unknown.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::Inner;
use super::session::Session;
use crate::app::config::find_program;
use crate::app::contract::Kind;
use crate::lifecycle::authority::verify;
use crate::lifecycle::identity::{Identity, Pid};
use crate::lifecycle::inspect::drm_memory;
use crate::lifecycle::receipt::{Receipt, StillHeld};
use crate::lifecycle::spawn::{Spec, run};
use crate::lifecycle::verdict::VerdictKind;
use crate::text;

/// Time between two questions.
const TICK: Duration = Duration::from_secs(3);
/// Time to the next question after one that was not answered.
const LATER: Duration = Duration::from_secs(30);
/// How long nvidia-smi may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a driver may take to give back the memory of a process that has ended.
const GIVE_BACK: Duration = Duration::from_secs(5);
/// Longest command line in a receipt, in columns.
const SHOWN: usize = 80;

/// What was last answered.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Bytes by member.
    members: BTreeMap<Identity, u64>,
    /// No question to nvidia-smi before.
    not_before: Option<Instant>,
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
        if members.is_empty() {
            return;
        }
        let used = self.gpu_memory(members.iter().map(|member| member.pid));
        let mut known = self.gpu.lock().unwrap_or_else(PoisonError::into_inner);
        known.members =
            members.into_iter().filter_map(|member| Some((member.clone(), *used.get(&member.pid)?))).collect();
        for session in sessions {
            for (identity, sampled) in &mut session.state().sample.rows {
                sampled.row.gpu_bytes = known.members.get(identity).copied();
            }
        }
    }

    /// Asks once, where no thread does so: for a single command.
    pub(super) fn look_at_gpus_once(&self) {
        if self.watcher.get().is_none() {
            self.look_at_gpus();
        }
    }

    /// Returns what is known of one member.
    pub(super) fn gpu_bytes_of(&self, member: &Identity) -> Option<u64> {
        self.gpu.lock().unwrap_or_else(PoisonError::into_inner).members.get(member).copied()
    }

    /// Returns the GPU memory of those processes that have any, in bytes.
    fn gpu_memory(&self, pids: impl Iterator<Item = Pid>) -> BTreeMap<Pid, u64> {
        let pids: Vec<Pid> = pids.collect();
        let mut used = drm_memory(&self.inspector, pids.iter().copied());
        for (pid, bytes) in self.nvidia().into_iter().filter(|(pid, _)| pids.contains(pid)) {
            *used.entry(pid).or_default() += bytes;
        }
        used
    }

    /// Asks nvidia-smi, where it is installed.
    fn nvidia(&self) -> BTreeMap<Pid, u64> {
        let waits = self.gpu.lock().unwrap_or_else(PoisonError::into_inner).not_before;
        let Some(program) = find_program("nvidia-smi", std::env::var_os("PATH").as_deref()) else {
            return BTreeMap::new();
        };
        if waits.is_some_and(|until| Instant::now() < until) {
            return BTreeMap::new();
        }
        let what = ["--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"];
        let spec = Spec::new(std::iter::once(program.into_os_string()).chain(what.map(Into::into)));
        let output = run(&spec, None, PATIENCE).ok().filter(|output| output.status.success());
        if output.is_none() {
            let mut known = self.gpu.lock().unwrap_or_else(PoisonError::into_inner);
            known.not_before = Some(Instant::now() + LATER);
        }
        output.map(|output| parse(&String::from_utf8_lossy(&output.stdout))).unwrap_or_default()
    }

    /// Looks whether a stop brought the GPU memory back, and writes down what it did not. A driver may take a moment
    /// over the memory of a process that has ended.
    pub(super) fn check_gpus(&self, session: &Session, receipt: &mut Receipt) {
        let used = session.state().sample.rows.values().any(|sampled| sampled.row.gpu_bytes.is_some());
        if !used && session.kind != Kind::Serve {
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
            let used = self.gpu_memory(asked.keys().copied());
            let judge = |(pid, bytes): (Pid, u64)| {
                let (identity, command) = &asked[&pid];
                (pid, bytes, identity.as_ref().map(|identity| verify(identity, &self.inspector).kind), command)
            };
            let judged: Vec<_> = used.into_iter().map(judge).collect();
            let waits = judged.iter().any(|(_, _, verdict, _)| *verdict == Some(VerdictKind::Gone));
            if waits && Instant::now() < until {
                std::thread::sleep(GIVE_BACK / 50);
                continue;
            }
            // Whoever has the number now has memory of its own.
            for (pid, bytes, verdict, command) in judged {
                let by = match verdict {
                    Some(VerdictKind::Foreign) => continue,
                    Some(VerdictKind::Gone) => format!("the driver, for pid {pid}, which has ended"),
                    Some(VerdictKind::Owned | VerdictKind::Unverifiable) | None => {
                        let command = text::escape(command.as_deref().unwrap_or_default()).into_owned();
                        format!("pid {pid} ({})", text::shorten(&command, SHOWN))
                    }
                };
                receipt.still_held.push(StillHeld { port: None, gpu_bytes: Some(bytes), by });
            }
            return;
        }
    }
}

/// Reads lines such as `4711, 5120` (MiB). A process on several GPUs has several; of some a driver tells nothing.
fn parse(text: &str) -> BTreeMap<Pid, u64> {
    let mut used = BTreeMap::new();
    for line in text.lines() {
        let Some((pid, mib)) = line.split_once(',') else { continue };
        let pid = pid.trim().parse::<i32>().ok().and_then(Pid::new);
        let bytes = mib.trim().parse::<u64>().ok().and_then(|mib| mib.checked_mul(1 << 20));
        if let (Some(pid), Some(bytes)) = (pid, bytes) {
            *used.entry(pid).or_default() += bytes;
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_nvidia_smi_is_read() {
        let check = |text: &str, expected: &[(i32, u64)]| {
            let found: Vec<(i32, u64)> = parse(text).into_iter().map(|(pid, bytes)| (pid.raw(), bytes)).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("4711, 5120\n4711, 1\n12, 3\n", &[(12, 3 << 20), (4711, 5121 << 20)]);
        check("4711, [N/A]\n", &[]);
        check("No running processes found\n\n-1, 4\n0, 4\n5, 99999999999999999\n", &[]);
    }
}
