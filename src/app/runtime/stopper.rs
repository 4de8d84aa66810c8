//! Stop and sweep: who may, in which order, and what is written down.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::adopted::{NO_WARDEN, only_ours};
use super::containers::Had;
use super::hosts::{SessionHost, guard, is_open, named};
use super::limits::{ceiling, grace};
use super::panes::BESIDE;
use super::session::Session;
use super::{Inner, not_found};
use crate::app::command::{Held, StopRequest, SweepRequest};
use crate::app::config::Stop;
use crate::app::contract::{HostKind, Phase};
use crate::app::error::{AppError, ErrorKind};
use crate::app::event::Event;
use crate::lifecycle::authority::verify;
use crate::lifecycle::clock;
use crate::lifecycle::conduct::Observed;
use crate::lifecycle::guard::Guard;
use crate::lifecycle::hold::Hold;
use crate::lifecycle::identity::Identity;
use crate::lifecycle::inspect::Facts;
use crate::lifecycle::journal::Entry;
use crate::lifecycle::leaf::containment;
use crate::lifecycle::plan::Choice;
use crate::lifecycle::receipt::{OutcomeKind, Receipt, total};
use crate::lifecycle::spawn::{Spec, run};
use crate::lifecycle::stop::{Order, Refusal, check, stop};
use crate::lifecycle::store::{SessionLock, write_json};
use crate::lifecycle::teardown::Ladder;
use crate::lifecycle::tether::Tether;
use crate::lifecycle::verdict::VerdictKind;

/// How long another process may hold the lock of a session: its own ladder, and some.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_secs(20);
/// How long a recipe's own stop command may take.
const STOP_COMMAND: Duration = Duration::from_secs(30);

/// The part of a request that stop, sweep, restart and a reaping share.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent wishes")]
pub(super) struct How<'a> {
    pub(super) grace_s: Option<f64>,
    pub(super) force: bool,
    pub(super) timeout_s: Option<f64>,
    pub(super) dry_run: bool,
    pub(super) confirm: Option<&'a [Identity]>,
    /// Another cookbook-tui that asks for it, and its ancestors.
    pub(super) asker: &'a [Facts],
    pub(super) sweep: bool,
    pub(super) end_kept: &'a [Choice],
    /// It is the sweep of the records that ends it.
    pub(super) reap: bool,
    /// Ends those that the recipe only reports, too: a person has named the session and seen them.
    pub(super) end_escapees: bool,
    /// Its workload has ended by itself: its record stays for the next run to show, where nobody is left.
    pub(super) exited: bool,
    /// Nobody looks any more, and why: its receipt is kept for the next start to tell.
    pub(super) unseen: Option<&'static str>,
}

impl Inner {
    pub(super) fn stop(self: &Arc<Self>, request: &StopRequest, asker: &[Facts]) -> Result<Receipt, AppError> {
        let session = match self.find_to_end(&request.session) {
            Ok(session) => session,
            Err(error) if error.kind == ErrorKind::Refused => {
                let idle = self.idle_task(&request.session).ok_or(error)?;
                return self.stop_idle(&idle, request);
            }
            Err(error) => return Err(error),
        };
        let how = How {
            grace_s: request.grace_s,
            force: request.force.unwrap_or(false),
            timeout_s: request.timeout_s,
            dry_run: request.dry_run.unwrap_or(false),
            confirm: request.confirm.as_deref(),
            asker,
            end_kept: request.end_kept.as_deref().unwrap_or_default(),
            ..How::default()
        };
        self.end(&session, how)
    }

    /// Lets a session live until `seconds` from now, which may be sooner than before.
    pub(super) fn extend(&self, reference: &str, seconds: f64) -> Result<f64, AppError> {
        let session = self.find(reference)?;
        let seconds = ceiling(seconds)?;
        only_ours(&session, "it has no ceiling, and nothing but a person's stop ends it")?;
        self.sample_one(&session);
        if session.state().settled || session.phase().0.is_over() {
            return Err(AppError::new(
                ErrorKind::Failed,
                format!("{} has ended: there is nothing to extend", session.id),
            ));
        }
        let _lock = self.take_lock(&session.id, LOCK_PATIENCE)?;
        let mut tether = self.reread(&session);
        let wall = clock::wall();
        // Somebody has chosen: it is not moved by itself any more.
        tether.renew_s = None;
        tether.not_after = clock::boottime() + seconds;
        tether.not_after_wall = wall + seconds;
        self.store.save(&tether).map_err(|error| {
            AppError::new(ErrorKind::State, format!("the record of {} could not be written: {error}", session.id))
        })?;
        self.nudge(&tether);
        let not_after = tether.not_after_wall;
        session.state().tether = tether;
        Ok(not_after)
    }

    pub(super) fn sweep(self: &Arc<Self>, request: &SweepRequest, asker: &[Facts]) -> Result<Receipt, AppError> {
        let how = How {
            dry_run: request.dry_run.unwrap_or(false),
            confirm: request.confirm.as_deref(),
            asker,
            end_kept: request.end_kept.as_deref().unwrap_or_default(),
            sweep: true,
            ..How::default()
        };
        if let Some(reference) = &request.session {
            let session = self.find_to_end(reference)?;
            if self.still_runs(&session) {
                let message = format!(
                    "{} still runs: a sweep ends only what is left of a session that is over; use stop",
                    session.id
                );
                return Err(AppError::new(ErrorKind::Refused, message));
            }
            return self.end(&session, how);
        }
        if !how.end_kept.is_empty() {
            let message = "end_kept names processes of one session: say which with session";
            return Err(AppError::new(ErrorKind::Usage, message));
        }
        self.take_in();
        let mut receipts = Vec::new();
        let mut failed = Vec::new();
        for session in self.all() {
            // Another manager's session is not ours to sweep, nor is what we did not launch; what was settled is gone.
            let guest = session.tether().adoption.is_some();
            if guest || session.state().settled || self.owner(&session).is_some() || self.still_runs(&session) {
                continue;
            }
            match self.end(&session, how) {
                Ok(receipt) => receipts.push(receipt),
                Err(error) => failed.push(format!("{}: {error}", session.id)),
            }
        }
        let unable = !failed.is_empty();
        let mut total = total(receipts);
        total.notes.extend(failed);
        if how.dry_run {
            total.plan.get_or_insert_default();
        }
        if (unable && total.dead == Some(true)) || how.dry_run {
            total.dead = None;
        }
        Ok(total)
    }

    /// Holds a stop of ours that is under way before its KILL, or lets it go on.
    pub(super) fn hold(&self, reference: &str, release: bool) -> Result<Held, AppError> {
        let session = self.find(reference)?;
        let failed = |what: &str| AppError::new(ErrorKind::Failed, format!("{}: {what}", session.id));
        let Some(hold) = session.state().hold.clone() else {
            return Err(failed(
                "no stop of this manager that comes to a KILL later is under way: there is nothing to hold",
            ));
        };
        let now = Instant::now();
        if release {
            hold.release(now);
            return Ok(Held { held: false, left_s: None });
        }
        match hold.hold(now) {
            Some(until) => Ok(Held { held: true, left_s: Some((until - now).as_secs_f64()) }),
            None => Err(failed("KILL was sent already, or it was held for as long as a stop can be")),
        }
    }

    /// Lets every stop go on that is held.
    pub(super) fn release_holds(&self) {
        let now = Instant::now();
        for hold in self.all().iter().filter_map(|session| session.state().hold.clone()) {
            hold.release(now);
        }
    }

    /// A session whose workload lives, or whose tmux session has live panes, is not over.
    fn still_runs(&self, session: &Arc<Session>) -> bool {
        self.sample_one(session);
        let over = matches!(session.phase().0, Phase::Exited | Phase::Failed);
        !over
    }

    /// Tears down every PTY session of this run, all at once.
    pub(super) fn stop_owned(self: &Arc<Self>) -> Vec<Receipt> {
        self.release_holds();
        let owned: Vec<_> = self.all().into_iter().filter(|s| s.pty.is_some() && !s.state().settled).collect();
        // All of them before the first is ended.
        let _calm: Vec<_> = owned.iter().map(|session| session.calm()).collect();
        let unseen = self.unseen_end.get().copied();
        let threads: Vec<_> = owned
            .iter()
            .map(|session| {
                let (inner, session) = (Arc::clone(self), Arc::clone(session));
                // One that was over already was told when it ended.
                // Whoever read a batch's answers knows how it ended.
                let exited = self.attended && session.has_exited();
                let how = How { unseen: unseen.filter(|_| !session.state().over), exited, ..How::default() };
                std::thread::spawn(move || inner.end(&session, how))
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().ok().and_then(Result::ok)).collect()
    }

    pub(super) fn end(self: &Arc<Self>, session: &Arc<Session>, how: How<'_>) -> Result<Receipt, AppError> {
        if let Some(owner) = self.owner(session) {
            let message = format!("{} belongs to another cookbook-tui ({}): stop it there", session.id, named(&owner));
            return Err(AppError::new(ErrorKind::Refused, message));
        }
        self.check_guest(session, how)?;
        let grace_s = grace(how.grace_s.or(Some(session.tether().grace_s)))?;
        let timeout = how.timeout_s.map(stop_timeout).transpose()?;
        let begun = Instant::now();
        let _turn = session.stopping.lock();
        let _calm = (!how.dry_run).then(|| session.calm());
        let patience = timeout.map_or(LOCK_PATIENCE, |timeout| timeout.min(LOCK_PATIENCE));
        let _lock = if how.dry_run { None } else { Some(self.begin_for(session, how, patience)?) };
        let mut tether = self.reread(session);
        if let Some(restarts) = tether.restarts.as_mut().filter(|_| !how.dry_run && !how.exited) {
            // Said in the record before the first signal: its warden does not start it again.
            restarts.end("stopped");
        }
        // What is left of work that its pane says has ended is a shell.
        let shell = session.state().said.as_ref().is_some_and(|(phase, _)| phase.is_over());
        let ladder = if shell { Ladder::terminal(Duration::ZERO) } else { tether.ladder() };
        let ladder = Ladder { grace: Duration::from_secs_f64(grace_s), force: how.force, ..ladder };
        let mut notes: Vec<String> = tether.adoption.iter().map(|_| NO_WARDEN.to_owned()).collect();
        let mut had =
            Had { gpus: self.gpu_memory_of(session), container: self.container_of(session), ports: Vec::new() };
        let mut guard = guard(self, &tether);
        guard.protect_asker(how.asker);
        let mut host = SessionHost {
            inner: self,
            session,
            tether,
            recorded: self.store.tether_path(&session.id).exists(),
            notes: Vec::new(),
            asked: false,
            end_escapees: how.end_escapees,
            running_panes: 0,
            beside: self.has_panes_beside(session, &session.tether()).then_some(BESIDE),
        };
        let give_up = |refusal: &Refusal| {
            session.state().stopping = false;
            self.changed();
            refused(&session.id, refusal)
        };
        if !how.dry_run {
            self.publish(Event::Phase { session: session.id.clone(), phase: Phase::Stopping, detail: None });
            if !how.sweep && !how.force {
                had.ports = self.own_stop(&mut host, &guard, &mut notes).map_err(|refusal| give_up(&refusal))?;
            }
        }
        host.recorded = self.store.tether_path(&session.id).exists();
        let (tether, recorded) = (&host.tether, host.recorded);
        // Whoever has ended it meanwhile has said what held.
        let mut containment = if recorded { self.containment(session, tether) } else { tether.containment.clone() };
        let lost = tether.containment.iter().filter(|held| !containment.contains(held));
        notes.extend(lost.map(|how| format!("its {how} was gone: who had left the tree before may be missing here")));
        let order = Order {
            session: &session.id,
            ladder,
            dry_run: how.dry_run,
            confirm: how.confirm,
            end_kept: how.end_kept,
            timeout: timeout.map(|timeout| timeout.saturating_sub(begun.elapsed())),
            // A session that is over is closed like any other; `sweep` without a host is the warden's.
            sweep: false,
            hold: None,
        };
        let mut receipt = self.stop_held(session, order, &mut host, &guard).map_err(|refusal| give_up(&refusal))?;
        if !how.dry_run && !receipt.host_closed {
            host.release();
        }
        if let Some(note) = host.beside {
            containment.retain(|how| how == "tree");
            notes.push(note.to_owned());
        }
        if !how.dry_run && recorded {
            notes.extend(self.unsaid(session, &host.tether, &mut containment));
        }
        receipt.containment = containment;
        receipt.name = (how.reap || how.unseen.is_some()).then(|| host.tether.name.clone());
        receipt.grace_s = how.dry_run.then_some(grace_s);
        receipt.notes.extend(notes);
        receipt.notes.append(&mut host.notes);
        // Said first: whoever reads it later asks for the reason.
        receipt.notes.splice(0..0, how.unseen.map(str::to_owned));
        if !how.dry_run {
            self.check_brought_back(session, &had, &mut receipt);
        }
        let by_warden = host.tether.last.as_ref().is_some_and(|last| last.verdict == VerdictKind::Gone);
        let ended_before = (!recorded || by_warden) && receipt.signals.is_empty() && receipt.dead == Some(true);
        let earlier = ended_before.then(|| self.receipt_of_another(session)).flatten();
        let mut unwritten = None;
        if let Some(earlier) = earlier {
            // Somebody else has ended it: its warden, or another manager. What they observed is the answer.
            unwritten = recorded.then(|| self.journal_late(&earlier)).flatten();
            let Receipt { notes, host_closed, .. } = std::mem::replace(&mut receipt, earlier);
            receipt.notes.extend(notes);
            receipt.host_closed = host_closed;
        } else if !how.dry_run {
            self.mark_task(&host.tether, &mut receipt);
            unwritten = self.journal(how, &mut receipt);
        }
        if !how.dry_run {
            let tether = host.tether;
            self.settle(session, tether, &mut receipt, how, unwritten);
        }
        Ok(receipt)
    }

    /// Says that a session is being ended, and takes its lock.
    pub(super) fn begin(&self, session: &Arc<Session>, patience: Duration) -> Result<SessionLock, AppError> {
        // Said before the lock is taken, or our own lock would look like somebody else's stop.
        {
            let mut state = session.state();
            (state.stopping, state.last_phase) = (true, Some(Phase::Stopping));
        }
        let lock = self.take_lock(&session.id, patience);
        let ready = lock.and_then(|lock| self.keep_task(session).map(|()| lock));
        ready.inspect_err(|_| session.state().stopping = false)
    }

    /// Runs a stop that a person can hold before its KILL, where one comes later.
    fn stop_held(
        &self,
        session: &Arc<Session>,
        order: Order<'_>,
        host: &mut SessionHost<'_>,
        guard: &Guard,
    ) -> Result<Receipt, Refusal> {
        let hold = Arc::new(Hold::new());
        if !order.dry_run && !order.ladder.force {
            session.state().hold = Some(Arc::clone(&hold));
        }
        let order = Order { hold: Some(&hold), ..order };
        let outcome = stop(&order, host, guard, &self.inspector, &mut |seen| self.tell(session, seen));
        session.state().hold = None;
        let waited = hold.held(Instant::now());
        outcome.map(|mut receipt| {
            if !waited.is_zero() {
                receipt.notes.push(format!("a person held it before KILL for {:.1} s", waited.as_secs_f64()));
            }
            receipt
        })
    }

    /// Returns the containments that hold now. A warden that was killed degrades its session, visibly.
    fn containment(&self, session: &Session, tether: &Tether) -> Vec<String> {
        let is_gone =
            |identity| matches!(verify(identity, &self.inspector).kind, VerdictKind::Gone | VerdictKind::Foreign);
        let warden = tether.warden.as_ref().is_some_and(|warden| !is_gone(warden)) || self.was_emptied(session);
        let over = verify(&tether.workload.identity, &self.inspector).kind == VerdictKind::Gone;
        containment(tether, warden, over)
    }

    /// Takes out what does not hold any more: one that was killed meanwhile has not seen the end. Says so.
    fn unsaid(&self, session: &Session, tether: &Tether, containment: &mut Vec<String>) -> Vec<String> {
        let held = self.containment(session, tether);
        let said = |how: String| format!("its {how} has not said that nobody is left: somebody may be missing here");
        containment.extract_if(.., |how| !held.contains(how)).map(said).collect()
    }

    /// Tells whether its warden has said that nobody was left, and has gone because of that.
    pub(super) fn was_emptied(&self, session: &Session) -> bool {
        {
            let state = session.state();
            if state.tether.warden.is_none() || state.exit.as_ref().is_some_and(|exit| exit.emptied) {
                return state.tether.warden.is_some();
            }
        }
        let said = self.store.exit(&session.id).is_some_and(|exit| exit.emptied);
        if let Some(exit) = session.state().exit.as_mut() {
            exit.emptied |= said;
        }
        said
    }

    pub(super) fn take_lock(&self, session: &str, patience: Duration) -> Result<SessionLock, AppError> {
        self.store.lock(session, patience).map_err(|error| {
            if error.kind() == std::io::ErrorKind::WouldBlock {
                let seconds = patience.as_secs_f64();
                let message = format!("another process has been stopping {session} for {seconds:.1} s; try again");
                return AppError::new(ErrorKind::Timeout, message);
            }
            AppError::new(ErrorKind::State, format!("failed to lock {session}: {error}"))
        })
    }

    /// Runs the recipe's own stop command or types its stop keys, for what lives elsewhere; returns the ports that the
    /// members had before.
    fn own_stop(
        &self,
        host: &mut SessionHost<'_>,
        guard: &Guard,
        notes: &mut Vec<String>,
    ) -> Result<Vec<u16>, Refusal> {
        let (config, session) = (self.config(), host.session);
        let recipe = host.tether.origin.as_deref().and_then(|name| config.recipe(name));
        let Some(Stop { command, keys, .. }) = recipe.map(|recipe| &recipe.stop) else { return Ok(Vec::new()) };
        let mut ports = Vec::new();
        if keys.is_some() || command.is_some() {
            // It may end whoever asks for the stop as well as a signal.
            check(host, guard, &self.inspector)?;
            let unseen = session.state().sample.at.is_none();
            if unseen {
                self.sample_one(session);
            }
            ports = session.state().sample.ports.clone().unwrap_or_default();
        }
        if let Some(keys) = keys
            && let Err(error) = self.send_to(session, None, keys)
        {
            notes.push(format!("its stop keys could not be typed: {error}"));
        }
        if let Some(command) = command {
            let mut spec = Spec::new(command.argv());
            spec.cwd = Some(host.tether.cwd.clone().into());
            match run(&spec, None, STOP_COMMAND) {
                Ok(output) if output.status.success() => notes.push("its stop command ran first".into()),
                Ok(output) => notes.push(format!("its stop command ended with {}", output.status)),
                Err(error) => notes.push(format!("its stop command failed: {error}")),
            }
        }
        Ok(ports)
    }

    /// Tells what happens in a stop while it happens; the sampler does not tell it again.
    fn tell(&self, session: &Arc<Session>, seen: Observed) {
        let id = session.id.clone();
        let event = match seen {
            Observed::Signalled(identity, signal) => {
                Event::Signal { session: id, pid: identity.pid.raw(), signal: signal.name().into() }
            }
            Observed::Exited(identity, command) => {
                let pid = identity.pid.raw();
                if !session.state().told_gone.insert(identity) {
                    return;
                }
                Event::ProcessGone { session: id, pid, command }
            }
            Observed::Newcomer(identity, command) => {
                let pid = identity.pid.raw();
                session.state().told_new.insert(identity);
                Event::ProcessNew { session: id, pid, command }
            }
        };
        self.publish(event);
    }

    /// Writes down what was observed; the tether goes only when everything was observed dead, and that is in the journal.
    fn settle(
        &self,
        session: &Arc<Session>,
        mut tether: Tether,
        receipt: &mut Receipt,
        how: How<'_>,
        unwritten: Option<Entry>,
    ) {
        let unseen = how.unseen;
        let clean = receipt.dead == Some(true) && receipt.host_closed;
        // Whoever was left alive on purpose must still be found: by `ls`, `orphans`, and the next start.
        let left_alive = clean && !(receipt.escapees.is_empty() && receipt.kept.is_empty());
        let clean = clean && !left_alive;
        let exited = clean && how.exited;
        // The next start knows of one that waits for the journal by nothing else.
        if !exited && !self.waits(&session.id) {
            write_json(&self.store.receipt_path(&session.id), receipt).ok();
        }
        let may_go = clean && !exited && unwritten.is_none();
        if clean || left_alive {
            // The stop is finished: whoever stops it again has nobody to look for.
            tether.stopping = false;
            tether.captured.clear();
        }
        if exited {
            // As its workload has left it.
            tether.last = None;
            self.store.save(&tether).ok();
        } else if may_go {
            if let Err(error) = self.store.remove(&session.id) {
                receipt.notes.push(format!("its record could not be removed: {error}"));
            }
        } else if clean {
            let mut ended = tether.clone();
            let why = (VerdictKind::Gone, "stopped; its receipt could not be written yet".to_owned());
            ended.keep(why, receipt, clock::wall_seconds());
            // A full disk refuses this as well: then the record is as it was, and its processes are found gone.
            self.store.save(&ended).ok();
        } else {
            tether.keep(receipt.why_left(), receipt, clock::wall_seconds());
            tether.untold = unseen.is_some();
            if let Err(error) = self.store.save(&tether) {
                receipt.notes.push(format!("what is left could not be written down: {error}"));
            }
        }
        for outcome in receipt.outcomes.iter().filter(|row| row.outcome == OutcomeKind::Survived) {
            let reason = outcome.reason.clone().unwrap_or_default();
            self.publish(Event::Survivor { session: session.id.clone(), pid: outcome.pid.raw(), reason });
        }
        if let Some(exit) = self.store.exit(&session.id) {
            session.state().exit = Some(exit);
        }
        {
            let mut state = session.state();
            state.stopping = false;
            state.tether = tether;
            state.settled = clean;
            state.over |= clean;
            // Another stop of what was dead by then changes nothing of what happened.
            let again = receipt.signals.is_empty() && state.receipt.as_ref().is_some_and(|one| one.dead == Some(true));
            if !again {
                state.receipt = Some(receipt.clone());
            }
        }
        if clean && receipt.kept.is_empty() {
            self.forget_private_tmux(&session.id);
        }
        if let Some(entry) = unwritten {
            self.keep_unwritten(entry, clean && !exited, unseen.is_some());
        }
        if may_go {
            // What other managers would still show of it goes as well; the log stays.
            self.store.forget(&session.id);
            if unseen.is_some() {
                write_json(&self.store.receipt_path(&session.id), receipt).ok();
            }
        }
        self.sample_known(session);
        self.publish(Event::Receipt { session: session.id.clone(), receipt: Box::new(receipt.clone()) });
    }

    /// Removes the private tmux directory of an agent, once no server of it is left.
    pub(super) fn forget_private_tmux(&self, session: &str) {
        let directory = self.paths.runtime_dir.join(format!("t-{session}"));
        if directory.is_dir() {
            std::fs::remove_dir_all(directory).ok();
        }
    }

    /// Returns what `attach` executes.
    pub(super) fn attach(&self, reference: &str) -> Result<Vec<std::ffi::OsString>, AppError> {
        let session = self.find(reference)?;
        let tether = session.tether();
        let Some(record) = tether.tmux.as_ref().filter(|_| session.host == HostKind::Tmux) else {
            let message = format!("{} lives in a PTY: only the cookbook-tui that owns it can show it", session.id);
            return Err(AppError::new(ErrorKind::Refused, message));
        };
        match is_open(self, &session) {
            Ok(true) => {}
            Ok(false) => return Err(not_found(format!("the tmux session of {} is gone", session.id))),
            Err(why) => return Err(AppError::new(ErrorKind::Unverifiable, format!("{}: {why}", session.id))),
        }
        let id = record.session_id.parse().map_err(|error| AppError::new(ErrorKind::State, format!("{error}")))?;
        // From now on the person's terminal decides the size. A window that keeps another one is no hindrance.
        if let Ok((server, pane)) = self.pane_of(&session) {
            server.follow_clients(&pane.window).ok();
        }
        Ok(super::hosts::server_of(self, record).attach_argv(&id))
    }
}

fn stop_timeout(seconds: f64) -> Result<Duration, AppError> {
    if seconds.is_finite() && (0.0..=86_400.0).contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    let message = format!("timeout_s is {seconds:?}: it must be a number of seconds from 0 to 86400");
    Err(AppError::new(ErrorKind::Usage, message))
}

fn refused(session: &str, refusal: &Refusal) -> AppError {
    let kind = match refusal {
        Refusal::HoldsUs(_) | Refusal::Changed(_) | Refusal::NotKept(_) => ErrorKind::Refused,
        Refusal::Host(reason) if reason.contains("linked into another") => ErrorKind::Refused,
        Refusal::Host(_) => ErrorKind::Unverifiable,
    };
    AppError::new(kind, format!("{session} was not stopped: {refusal}"))
}
