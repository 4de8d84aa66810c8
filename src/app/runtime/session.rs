//! One session as the runtime holds it: its record, its host, and what was last seen of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use super::ports::Seen;
use super::serving::Serving;
use crate::app::attention::Watch;
use crate::app::contract::{HostKind, Kind, LaunchRequest, Phase};
use crate::app::phase::{Diagnosis, Progress, Readiness};
use crate::lifecycle::hold::Hold;
use crate::lifecycle::identity::Identity;
use crate::lifecycle::kill::OwnChild;
use crate::lifecycle::receipt::{Membership, ProcessRow, Receipt};
use crate::lifecycle::tether::{ExitRecord, Tether};
use crate::lifecycle::tree::{Captured, Followed};
use crate::lifecycle::verdict::VerdictKind;
use crate::lifecycle::warden::Lifeline;
use crate::pty::Pty;

/// The parts that exist only in the manager which launched a PTY session.
#[derive(Debug)]
pub(super) struct OwnedPty {
    pub(super) pty: Pty,
    lifeline: Mutex<Option<Lifeline>>,
    warden_child: Mutex<Option<OwnChild>>,
}

impl OwnedPty {
    pub(super) fn new(pty: Pty, lifeline: Lifeline, warden: OwnChild) -> Self {
        Self { pty, lifeline: Mutex::new(Some(lifeline)), warden_child: Mutex::new(Some(warden)) }
    }

    /// Hangs up and lets its warden go: nothing of it is held after that but its last screen.
    pub(super) fn let_go(&self, captured: &Captured) {
        self.pty.hang_up(captured);
        if let Some(lifeline) = self.lifeline.lock().unwrap_or_else(PoisonError::into_inner).take() {
            lifeline.cut();
        }
    }

    /// Reaps the warden if it has left.
    pub(super) fn reap(&self) {
        let mut child = self.warden_child.lock().unwrap_or_else(PoisonError::into_inner);
        if child.as_mut().is_some_and(|child| child.try_reap().is_some()) {
            *child = None;
        }
    }
}

impl Drop for OwnedPty {
    fn drop(&mut self) {
        if let Some(child) = self.warden_child.lock().unwrap_or_else(PoisonError::into_inner).take() {
            child.leave();
        }
    }
}

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) kind: Kind,
    pub(super) host: HostKind,
    /// What it was launched with, where this run launched it.
    pub(super) request: Option<LaunchRequest>,
    pub(super) pty: Option<OwnedPty>,
    /// What is known of its readiness; not set where nothing is.
    pub(super) serving: OnceLock<Serving>,
    state: Mutex<State>,
    /// Its tree, while it is followed. Taken before `state`.
    followed: Mutex<Option<Followed>>,
    /// Held during a stop in this process: a second one waits.
    pub(super) stopping: Mutex<()>,
    /// Held while its failure is looked into, which may take seconds. Taken before `state`.
    examining: Mutex<()>,
}

/// What changes.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each seen at its own time")]
#[derive(Debug)]
pub(super) struct State {
    pub(super) tether: Tether,
    pub(super) stopping: bool,
    /// Of a stop of ours that is under way: whether a person holds it before KILL.
    pub(super) hold: Option<Arc<Hold>>,
    pub(super) exit: Option<ExitRecord>,
    /// The workload was observed dead; its status may still be unknown.
    pub(super) over: bool,
    /// It had ended before this run knew it: that is shown, and no news.
    pub(super) ended_before: bool,
    /// Another cookbook-tui, an earlier one, or its warden, has stopped it.
    pub(super) elsewhere: bool,
    /// The watching thread knows it, and tells what comes of its end.
    pub(super) watched: bool,
    /// The tether is gone: everything was observed dead.
    pub(super) settled: bool,
    /// A look at the whole host found nobody after the end. Nobody can join what nobody is in.
    pub(super) empty: bool,
    pub(super) receipt: Option<Receipt>,
    pub(super) last_phase: Option<Phase>,
    /// How far it has come while it runs.
    pub(super) progress: Progress,
    /// Why it failed, where that is known.
    pub(super) diagnosis: Option<Diagnosis>,
    /// Its failure was looked into.
    pub(super) examined: bool,
    pub(super) sample: Sample,
    /// What its ports follow from.
    pub(super) seen_ports: Option<Seen>,
    /// What keeps its tmux server from being asked: nobody can tell how it is.
    pub(super) trouble: Option<String>,
    /// What tmux says of a session that has no warden to ask.
    pub(super) witness: Option<(Phase, Option<String>)>,
    /// How far its own pane says that it has come, for a task of Cookbook.
    pub(super) said: Option<(Phase, Option<String>)>,
    /// The exit status that its pane has printed.
    pub(super) said_code: Option<i32>,
    /// What the work printed that ended last, or goes on.
    pub(super) work: String,
    /// It is bound in memory only: a task of Cookbook that nobody has acted on.
    pub(super) borrowed: bool,
    /// A ceiling, and when it is to be spoken of, both on `CLOCK_BOOTTIME`.
    pub(super) notice: Option<(f64, f64)>,
    /// What it asks a person's attention for.
    pub(super) attention: Watch,
    /// Its tmux server says that its bell rang since somebody was attached.
    pub(super) bell_flag: bool,
    /// What its tmux server said last of what it has printed, for one that we did not launch: it has no log.
    pub(super) activity: u64,
    /// When it was answered, where that is not on disk yet.
    pub(super) unsaved_answer: Option<f64>,
    /// Whose coming and going a stop has told already.
    pub(super) told_new: BTreeSet<Identity>,
    /// See `told_new`.
    pub(super) told_gone: BTreeSet<Identity>,
}

/// The last look at the members.
#[derive(Debug, Default)]
pub(super) struct Sample {
    pub(super) at: Option<Instant>,
    pub(super) rows: BTreeMap<Identity, Sampled>,
    pub(super) supervisors: Vec<ProcessRow>,
    /// Whoever could not be bound to the session; without an inspector that is everybody, and nobody is named.
    pub(super) unbound: Vec<ProcessRow>,
    pub(super) blind: bool,
    pub(super) workload: Option<VerdictKind>,
    pub(super) ports: Option<Vec<u16>>,
}

impl Sample {
    /// Tells whether all members are ours and have done nothing between two looks.
    pub(super) fn is_quiet(&self) -> bool {
        let does_nothing = |sampled: &Sampled| {
            sampled.gone_since.is_none()
                && sampled.row.verdict == VerdictKind::Owned
                && sampled.row.cpu_pct.is_some_and(|pct| pct <= 0.0)
        };
        !self.rows.is_empty() && self.unbound.is_empty() && self.rows.values().all(does_nothing)
    }
}

/// One member with what is needed to compare it with the next look.
#[derive(Clone, Debug)]
pub(super) struct Sampled {
    pub(super) row: ProcessRow,
    pub(super) cpu_ticks: Option<u64>,
    pub(super) escapee: bool,
    /// It lives, and one look has not found it, and nobody else has it: nothing but its identity links it.
    pub(super) left_behind: bool,
    /// When it was first seen gone or foreign; it is shown for a few seconds more.
    pub(super) gone_since: Option<Instant>,
}

/// How long a row stays after its process is gone.
pub(super) const GONE_SHOWN: Duration = Duration::from_secs(4);

/// While it is there, the output of a session is read with pauses.
#[derive(Debug)]
pub(super) struct Calm<'a>(&'a Session);

impl Drop for Calm<'_> {
    fn drop(&mut self) {
        if let Some(owned) = &self.0.pty {
            owned.pty.calm(false);
        }
    }
}

impl Session {
    /// Leaves the processors to those who end the session, whatever it prints.
    pub(super) fn calm(&self) -> Calm<'_> {
        if let Some(owned) = &self.pty {
            owned.pty.calm(true);
        }
        Calm(self)
    }

    pub(super) fn new(tether: Tether, request: Option<LaunchRequest>, pty: Option<OwnedPty>) -> Option<Arc<Self>> {
        let kind = Kind::named(&tether.kind)?;
        let host = [HostKind::Pty, HostKind::Tmux].into_iter().find(|host| host.name() == tether.host)?;
        let state = State {
            stopping: false,
            hold: None,
            exit: None,
            over: false,
            ended_before: false,
            elsewhere: false,
            watched: false,
            settled: false,
            empty: false,
            receipt: None,
            last_phase: None,
            progress: Progress::of(Phase::Running),
            diagnosis: None,
            examined: false,
            sample: Sample::default(),
            seen_ports: None,
            trouble: None,
            witness: None,
            said: None,
            said_code: None,
            work: String::new(),
            borrowed: false,
            notice: None,
            attention: Watch::default(),
            bell_flag: false,
            activity: 0,
            unsaved_answer: None,
            told_new: BTreeSet::new(),
            told_gone: BTreeSet::new(),
            tether,
        };
        let id = state.tether.session.clone();
        Some(Arc::new(Self {
            id,
            kind,
            host,
            request,
            pty,
            serving: OnceLock::new(),
            state: Mutex::new(state),
            followed: Mutex::default(),
            stopping: Mutex::new(()),
            examining: Mutex::new(()),
        }))
    }

    /// Reaps its warden, where it is our child and has left.
    pub(super) fn reap(&self) {
        if let Some(owned) = &self.pty {
            owned.reap();
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns its tree, while it is followed.
    pub(super) fn followed(&self) -> MutexGuard<'_, Option<Followed>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody looks into its failure, and keeps others from it.
    pub(super) fn examining(&self) -> MutexGuard<'_, ()> {
        self.examining.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether somebody looks into its failure.
    pub(super) fn is_examined_now(&self) -> bool {
        matches!(self.examining.try_lock(), Err(TryLockError::WouldBlock))
    }

    pub(super) fn tether(&self) -> Tether {
        self.state().tether.clone()
    }

    pub(super) fn phase(&self) -> (Phase, Option<String>) {
        self.state().phase()
    }

    /// Returns the members that nothing but their identities links to the session, and that is enough: those that were
    /// seen while its warden was there, which it is not any more, and those that a pane without a warden has left
    /// behind. The latter are as who comes back to a warden is: its recipe decides about them.
    pub(super) fn remembered(&self) -> Vec<(Identity, BTreeSet<Membership>)> {
        let state = self.state();
        let lost = state.tether.warden.is_some() && !state.sees_warden();
        let alone = |sampled: &Sampled| sampled.left_behind || (lost && !sampled.escapee);
        let alive = |sampled: &Sampled| sampled.row.verdict == VerdictKind::Owned;
        let rows = state.sample.rows.iter().filter(|(_, sampled)| alive(sampled) && alone(sampled));
        let how = |sampled: &Sampled| {
            let seen = sampled.row.membership.iter().copied();
            if lost { seen.collect() } else { BTreeSet::from([Membership::Reparented]) }
        };
        rows.map(|(identity, sampled)| (identity.clone(), how(sampled))).collect()
    }

    /// Tells whether it can come to be ready.
    pub(super) fn has_readiness(&self) -> bool {
        self.serving.get().is_some_and(|serving| serving.readiness != Readiness::Unknown)
    }

    /// Tells whether it has ended, or is being ended.
    pub(super) fn has_ended(&self) -> bool {
        let state = self.state();
        state.over || state.settled || state.stopping || state.exit.is_some()
    }

    /// Tells whether its workload has ended by itself, as far as is known: how is on record, and nobody has stopped it.
    pub(super) fn has_exited(&self) -> bool {
        let state = self.state();
        state.over && state.exit.is_some() && state.receipt.is_none() && !state.elsewhere
    }

    /// Tells whether a person has adopted it from tmux, and it is no task of Cookbook's.
    pub(super) fn is_guest(&self) -> bool {
        self.state().tether.adoption.as_ref().is_some_and(|adoption| adoption.task.is_none())
    }

    /// Tells whether its server is to be followed: it has not ended, and its pane does not say that it has.
    pub(super) fn is_followed(&self) -> bool {
        !self.has_ended() && !self.state().said.as_ref().is_some_and(|(phase, _)| phase.is_over())
    }

    /// Takes a session for what its new record says: it was adopted again.
    pub(super) fn forget_end(&self, tether: Tether) {
        let mut state = self.state();
        (state.over, state.elsewhere, state.exit, state.receipt) = (false, false, None, None);
        (state.empty, state.ended_before) = (false, false);
        (state.witness, state.borrowed, state.tether) = (None, false, tether);
    }
}

impl State {
    /// Returns how far the session has come. Pure over what was seen.
    pub(super) fn phase(&self) -> (Phase, Option<String>) {
        let seen = self.seen_phase();
        match &self.trouble {
            Some(why) if !seen.0.is_over() && seen.0 != Phase::Stopping => (Phase::Unverifiable, Some(why.clone())),
            Some(_) | None => seen,
        }
    }

    fn seen_phase(&self) -> (Phase, Option<String>) {
        if self.stopping {
            return (Phase::Stopping, None);
        }
        // Where the terminal of an owner that died was faster than its warden, nobody was left to be signalled.
        let hung_up = || self.exit.as_ref().is_some_and(|exit| exit.signal.as_deref() == Some("HUP"));
        let stopped = |receipt: &Receipt| {
            let by_somebody =
                !receipt.signals.is_empty() || ((receipt.is_wardens() || self.tether.is_settled()) && hung_up());
            // Who was found gone was stopped by nobody; of a guest nobody records how it ends.
            let unrecorded = self.exit.is_none() && self.tether.adoption.is_some();
            receipt.dead == Some(true) && (by_somebody || unrecorded)
        };
        if let Some(receipt) = self.receipt.as_ref().filter(|receipt| stopped(receipt)) {
            let why = receipt.notes.first().filter(|_| receipt.is_wardens());
            return (Phase::Exited, Some(why.cloned().unwrap_or_else(|| "stopped".into())));
        }
        // As an earlier run has left it.
        if self.receipt.is_none() && self.over && self.tether.is_settled() {
            return (Phase::Exited, Some("stopped".into()));
        }
        if self.elsewhere && self.receipt.is_none() && !self.ended_in_pause() {
            // Its record may say already who.
            let last = self.tether.last.as_ref().filter(|last| last.verdict == VerdictKind::Gone);
            let why = last.map_or("stopped by another cookbook-tui or its warden", |last| last.reason.as_str());
            return (Phase::Exited, Some(why.to_owned()));
        }
        if let Some(known) = self.witness.as_ref().or(self.said.as_ref().filter(|_| !self.over)) {
            let (phase, detail) = known.clone();
            let failed = phase == Phase::Failed;
            return (phase, if failed { detail.map(|how| self.because(how)) } else { detail });
        }
        if let Some(exit) = &self.exit {
            return match (exit.code, &exit.signal) {
                (Some(0), _) => (Phase::Exited, None),
                (Some(code), _) => (Phase::Failed, Some(self.because(format!("exit status {code}")))),
                (None, Some(signal)) => (Phase::Failed, Some(self.because(format!("ended by {signal}")))),
                (None, None) => (Phase::Failed, Some(self.because("its exit status is unknown".into()))),
            };
        }
        match self.sample.workload {
            _ if self.over => (Phase::Failed, Some(self.because("ended; its exit status was not recorded".into()))),
            Some(VerdictKind::Gone) if self.tether.restarts.as_ref().is_some_and(|r| r.next_at.is_some()) => {
                (Phase::Starting, None)
            }
            // Gone, but not over: it has just ended, and its status is being recorded.
            Some(VerdictKind::Owned | VerdictKind::Gone | VerdictKind::Foreign) => {
                (self.progress.phase, self.progress.detail.clone())
            }
            Some(VerdictKind::Unverifiable) => (Phase::Unverifiable, Some("its identity cannot be verified".into())),
            None => (Phase::Starting, None),
        }
    }

    /// Tells whether its last run had ended by itself, and the session was ended before another one followed.
    fn ended_in_pause(&self) -> bool {
        let last = self.tether.restarts.as_ref().and_then(|restarts| restarts.last_exit.as_ref());
        last.zip(self.exit.as_ref())
            .is_some_and(|(last, exit)| (last.at, last.code, &last.signal) == (exit.at, exit.code, &exit.signal))
    }

    /// Returns how it ended, and why where that is known.
    fn because(&self, how: String) -> String {
        match &self.diagnosis {
            Some(diagnosis) => format!("{how}: {}", diagnosis.detail),
            None => how,
        }
    }

    /// Tells whether somebody lives whom a pane without a warden has left behind.
    pub(super) fn sees_left_behind(&self) -> bool {
        let lives = |sampled: &Sampled| sampled.left_behind && sampled.row.verdict == VerdictKind::Owned;
        self.sees_warden() && self.sample.rows.values().any(lives)
    }

    /// Tells whether its warden was there at the last look; one that could not be looked at may be.
    pub(super) fn sees_warden(&self) -> bool {
        let Some(warden) = &self.tether.warden else { return false };
        let Sample { supervisors, unbound, blind, at, .. } = &self.sample;
        at.is_none() || *blind || supervisors.iter().chain(unbound).any(|row| row.pid == warden.pid)
    }

    /// Tells whether its warden was ended before its workload.
    pub(super) fn has_lost_warden(&self) -> bool {
        let lives = self.sample.workload.is_some_and(|verdict| verdict != VerdictKind::Gone);
        self.tether.warden.is_some() && !self.sees_warden() && lives
    }

    /// Returns the worst verdict among the members; gone ones count only when nothing else is left.
    pub(super) fn verdict(&self) -> VerdictKind {
        if self.sample.blind || !self.sample.unbound.is_empty() {
            return VerdictKind::Unverifiable;
        }
        let live = self.sample.rows.values().filter(|sampled| sampled.row.verdict != VerdictKind::Gone);
        live.map(|sampled| sampled.row.verdict)
            .reduce(VerdictKind::worst)
            .or(self.sample.workload)
            // Not looked at yet: it was bound when it was launched.
            .unwrap_or(VerdictKind::Owned)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::super::Inner;
    use super::*;
    use crate::lifecycle::identity::Pid;
    use crate::lifecycle::inspect::{Inspector, Unreadable};
    use crate::lifecycle::rows::unbound_row;

    fn session() -> Arc<Session> {
        let identity = json!({ "pid": 9, "start_token": "procfs:b:5" });
        let tether = json!({
            "schema_version": 1, "protocol": 1, "session": "serve-0123abcd", "name": "x", "kind": "serve",
            "host": "tmux", "lifetime": "background", "origin": null, "command": "sleep", "argv": null, "cwd": "/",
            "boot_id": "b", "pidns_inode": 1, "timens_inode": 1, "spawner": identity, "warden": null, "front": null,
            "workload": { "pid": 9, "start_token": "procfs:b:5", "pgid": 9, "sid": 9 }, "tmux": null,
            "spawned_at": 1.0, "spawned_at_wall": 1.0, "not_after": 2.0, "not_after_wall": 2.0, "marker": "m",
            "containment": ["tree"], "stop_signal": null, "grace_s": 2.0, "report_escapees": false,
        });
        Session::new(serde_json::from_value(tether).unwrap(), None, None).unwrap()
    }

    /// Whoever could not be bound is in the tree that the screen shows, by name and with the reason, and makes the
    /// session unverifiable; a look that finds nobody unbound takes it out again.
    #[test]
    fn the_sampled_tree_names_who_could_not_be_bound() {
        let inspector = Inspector::open(None).unwrap();
        let own = Pid::new(rustix::process::getpid().as_raw_nonzero().get()).unwrap();
        let gone = Pid::new(i32::MAX - 1).unwrap();
        let session = session();
        assert_eq!(session.state().verdict(), VerdictKind::Owned);
        let unreadable = |pid, reason: &str| Unreadable { pid, reason: reason.to_owned() };
        let found = [unreadable(own, "stat is not readable"), unreadable(gone, "its start changed with every look")];
        session.state().sample = Sample {
            at: Some(Instant::now()),
            unbound: found.iter().map(|error| unbound_row(error, &inspector)).collect(),
            workload: Some(VerdictKind::Owned),
            ..Sample::default()
        };
        let tree = Inner::sampled_tree(&session);
        let rows: Vec<_> = tree
            .processes
            .iter()
            .map(|row| (row.pid, row.verdict, row.reason.as_str(), row.membership.len()))
            .collect();
        let unverifiable = VerdictKind::Unverifiable;
        let expected = [
            (own, unverifiable, "stat is not readable", 0),
            (gone, unverifiable, "its start changed with every look", 0),
        ];
        assert_eq!(rows, expected);
        assert!(!tree.processes[0].command.is_empty(), "what can be read of it is shown");
        assert_eq!((tree.processes[1].start_token.as_ref(), tree.processes[1].rss_bytes), (None, None), "never 0");
        assert_eq!(session.state().verdict(), unverifiable);
        session.state().sample.unbound.clear();
        assert_eq!(Inner::sampled_tree(&session).processes, []);
        assert_eq!(session.state().verdict(), VerdictKind::Owned);
    }
}
