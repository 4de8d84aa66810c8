//! The warden itself: subreaper, gate, lifeline, exit record and ceiling of one session.
//!
//! It never leaves while descendants live. An owner that died, a host that went away by itself, a TERM
//! and the ceiling all mean the same: run the ladder, the one in `stop`.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal as S};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process as p;

use super::again::{Run, Stand};
use super::resume::{continues, resume};
use super::wire::{Hello, Orders, Outcome, receive, send};
use super::{HostStage, NOT_LAUNCHED, NOTICE, TRAMPOLINE};
use crate::lifecycle::authority::verify;
use crate::lifecycle::ceiling::next_notice;
use crate::lifecycle::clock::{boottime, timespec, wall_seconds};
use crate::lifecycle::conduct::Observed;
use crate::lifecycle::guard::Guard;
use crate::lifecycle::identity::{Identity, Pid};
use crate::lifecycle::inspect::Inspector;
use crate::lifecycle::journal::{Act, By};
use crate::lifecycle::leaf::containment;
use crate::lifecycle::receipt::{BY_WARDEN, Receipt};
use crate::lifecycle::spawn::{End, Spec, start};
use crate::lifecycle::stop::{Host, Order, stop, tell_gone};
use crate::lifecycle::store::{Store, write_json};
use crate::lifecycle::teardown::{GRACE, Ladder};
use crate::lifecycle::tether::{CapturedRecord, ExitRecord, PROTOCOL, Tether};
use crate::lifecycle::tree::{Captured, Scope, WARDEN_NAME};
use crate::lifecycle::verdict::VerdictKind;

/// How often the lock of the session is tried while somebody else holds it.
const LOCK_POLL_S: f64 = 0.02;
/// How often a stop of somebody else is looked at while it is under way.
const STOP_POLL_S: f64 = 0.2;
/// How often the record is looked at while nothing happens.
const GLANCE_S: i64 = 3600;
/// Seconds between two tries of a write that the disk has refused.
const DISK_POLL_S: f64 = 1.0;
/// How long the manager may take to write the tether down.
const PATIENCE: Duration = Duration::from_secs(20);

/// Arguments: `pty` or `tmux`, and the path of the gate. In tmux standard input leads to the front.
pub(super) fn run(arguments: &[OsString]) -> u8 {
    let [host, gate] = arguments else { return NOT_LAUNCHED };
    let Some(host) = HostStage::parse(host) else { return NOT_LAUNCHED };
    launch(host, gate).map_or(NOT_LAUNCHED, |mut keeper| keeper.keep())
}

#[expect(clippy::struct_excessive_bools, reason = "independent facts, each noted at its own time")]
pub(super) struct Keeper {
    pub(super) host: HostStage,
    signals: SignalFd,
    /// The manager, until it leaves.
    manager: Option<UnixStream>,
    /// The front, until it has left.
    pub(super) front: Option<UnixStream>,
    pub(super) workload: p::Pid,
    pub(super) run: Run,
    /// Where later runs get their terminal from, where there may be some.
    pub(super) stand: Option<Stand>,
    /// Somebody asks us to look at the record again.
    pub(super) nudged: bool,
    /// The workload has stopped, and is to be continued.
    paused: bool,
    /// Why the ladder is to be run, until it was.
    pub(super) due: Option<&'static str>,
    /// The ladder was run; what lives on is kept or reported.
    settled: bool,
    pub(super) orders: Orders,
    not_after: Option<f64>,
    /// When the ceiling is to be spoken of.
    notice_at: Option<f64>,
    /// Somebody else has begun a stop.
    stop_seen: bool,
    /// How the workload has ended, as long as the disk refuses it.
    unwritten: Option<ExitRecord>,
    /// The record as it was read last: how the session ends where the record is lost.
    pub(super) remembered: Option<Tether>,
}

fn launch(host: HostStage, gate: &OsString) -> io::Result<Keeper> {
    // An inherited SIG_IGN of CHLD would reap behind our back.
    signal_hook::flag::register(17, std::sync::Arc::default())?;
    p::set_child_subreaper(Some(p::getpid()))?;
    let signals = block_signals()?;
    let front = match host {
        HostStage::Pty => None,
        HostStage::Tmux => {
            let front = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?);
            Some(front)
        }
    };
    if host == HostStage::Pty {
        p::setsid()?;
    }
    let mut manager = UnixStream::connect(gate)?;
    let (mut trampoline, theirs) = UnixStream::pair()?;
    let mut spec = Spec::new(["/proc/self/exe", TRAMPOLINE, host.name()]);
    spec.arg0 = Some(WARDEN_NAME.into());
    spec.own_group = host == HostStage::Tmux;
    let mut child = start(&spec, End::Fd(OwnedFd::from(theirs)), End::Inherit, End::Inherit)?;
    let workload = i32::try_from(child.id()).ok().and_then(p::Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
    let me = p::getpid();
    let mut admitted = || -> io::Result<Orders> {
        let as_pid = |pid: p::Pid| Pid::new(pid.as_raw_nonzero().get()).ok_or(io::ErrorKind::InvalidData);
        let hello = Hello { protocol: PROTOCOL, warden: as_pid(me)?, workload: as_pid(workload)? };
        send(&mut manager, &hello)?;
        manager.set_read_timeout(Some(PATIENCE))?;
        let orders = receive(&mut manager)?;
        manager.set_read_timeout(None)?;
        Ok(orders)
    };
    let orders = match admitted() {
        Ok(orders) => orders,
        Err(error) => {
            // The trampoline sees EOF and leaves without a workload.
            drop(trampoline);
            child.wait().ok();
            return Err(error);
        }
    };
    let stand = if orders.restart { Some(Stand::of(host)?) } else { None };
    if host == HostStage::Tmux {
        p::setsid()?;
    }
    send(&mut trampoline, &orders.workspace)?;
    let outcome = receive::<Outcome>(&mut trampoline).unwrap_or(Outcome::Started);
    send(&mut manager, &outcome).ok();
    if let Outcome::Failed { .. } = outcome {
        child.wait().ok();
        return Err(io::ErrorKind::NotFound.into());
    }
    let nowhere = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    // The terminal is the workload's alone: a copy here would keep it open.
    rustix::stdio::dup2_stdin(&nowhere)?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    rustix::stdio::dup2_stderr(&nowhere)?;
    std::env::set_current_dir("/").ok();
    let mut keeper = Keeper {
        host,
        signals,
        manager: Some(manager),
        front,
        workload,
        run: Run::Runs,
        stand,
        nudged: false,
        paused: false,
        due: None,
        settled: false,
        orders,
        not_after: None,
        notice_at: None,
        stop_seen: false,
        unwritten: None,
        remembered: None,
    };
    keeper.look_at_ceiling();
    Ok(keeper)
}

fn block_signals() -> io::Result<SignalFd> {
    let mut set = SigSet::empty();
    for signal in [
        S::SIGHUP,
        S::SIGINT,
        S::SIGQUIT,
        S::SIGTERM,
        S::SIGCHLD,
        S::SIGCONT,
        S::SIGTSTP,
        S::SIGTTIN,
        S::SIGTTOU,
        S::SIGUSR1,
        S::SIGUSR2,
        S::SIGWINCH,
        S::SIGPIPE,
    ] {
        set.add(signal);
    }
    set.thread_block()?;
    Ok(SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?)
}

impl Keeper {
    /// Runs until nothing is left to keep.
    fn keep(&mut self) -> u8 {
        loop {
            self.reap();
            self.resume();
            self.go_on();
            self.write_exit();
            if let Run::Over(status) = self.run
                && !has_children()
            {
                self.finish();
                return status;
            }
            if let Some(cause) = self.due
                && !self.settled
            {
                self.settled = self.run_ladder(cause);
                if self.settled {
                    continue;
                }
            }
            self.wait();
        }
    }

    fn wait(&mut self) {
        let timeout = self.timeout();
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        fds.extend(self.manager.as_ref().map(|stream| PollFd::new(stream, PollFlags::IN)));
        fds.extend(self.front.as_ref().map(|stream| PollFd::new(stream, PollFlags::IN)));
        let Ok(spoke) = poll(&mut fds, Some(&timeout)) else { return };
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        if spoke == 0 && timeout.tv_sec >= GLANCE_S {
            // Whoever changed the record may have failed to nudge us.
            self.look_at_ceiling();
        }
        let manager_spoke = self.manager.is_some() && ready[1];
        let front_spoke = self.front.is_some() && ready[ready.len() - 1];
        while let Ok(Some(signal)) = self.signals.read_signal() {
            // TERM and HUP from outside: the session is to end. What the terminal sends goes to the
            // foreground group of the workload, not to us.
            if [S::SIGTERM as u32, S::SIGHUP as u32].contains(&signal.ssi_signo) {
                self.due.get_or_insert("its warden was told to end it");
            }
            // `nudge`: what the record says has changed.
            if signal.ssi_signo == S::SIGUSR1 as u32 {
                self.nudged = true;
                self.look_at_ceiling();
                self.stop_seen = self.remembered.as_ref().is_some_and(|tether| tether.stopping);
            }
        }
        self.look_at_stop();
        if manager_spoke && self.manager.as_ref().is_some_and(hung_up) {
            self.manager = None;
            if self.host == HostStage::Pty {
                self.due.get_or_insert("its owner is gone");
            }
        }
        if front_spoke && self.front.as_ref().is_some_and(hung_up) {
            self.front = None;
            if !matches!(self.run, Run::Over(_)) {
                self.due.get_or_insert("its tmux pane is gone");
            }
        }
        if self.notice_at.is_some_and(|at| boottime() >= at) {
            let before = self.not_after;
            self.look_at_ceiling();
            // It may have been moved since.
            if let Some(not_after) = self.not_after.filter(|_| self.not_after == before) {
                self.tell_ceiling(not_after - boottime());
            }
        }
        if let Some(not_after) = self.not_after
            && boottime() >= not_after
        {
            // The record is asked again: `extend` writes nothing else.
            self.look_at_ceiling();
            if self.not_after.is_some_and(|not_after| boottime() >= not_after) {
                self.not_after = None;
                self.due.get_or_insert("its ceiling has come");
            }
        }
    }

    /// Reads the ceiling from the record. One that is lost, or cannot be read now, takes no ceiling away.
    fn look_at_ceiling(&mut self) {
        if let Some(tether) = self.tether() {
            self.not_after = Some(tether.not_after);
            self.remembered = Some(tether);
        }
        self.notice_at = self.not_after.and_then(|not_after| next_notice(not_after, boottime()));
    }

    /// Finishes what somebody else has begun: who holds no lock any more, and has not said how it ended, is dead.
    fn look_at_stop(&mut self) {
        if !self.stop_seen || self.due.is_some() {
            return;
        }
        let lock = self.store().and_then(|store| store.lock(&self.orders.session, Duration::ZERO));
        if lock.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            return;
        }
        self.stop_seen = false;
        if self.tether().is_some_and(|tether| tether.stopping) {
            self.due = Some("whoever stopped it died before it was done");
        }
    }

    /// Has the people who look at the session in tmux told. Others are told by their managers.
    fn tell_ceiling(&self, left_s: f64) {
        if self.host == HostStage::Tmux {
            let mut spec = Spec::new(["/proc/self/exe", NOTICE]);
            spec.argv.extend([self.orders.state_dir.clone().into(), self.orders.session.clone().into()]);
            spec.argv.push(format!("{left_s}").into());
            spec.arg0 = Some(WARDEN_NAME.into());
            // It is reaped like any other child.
            start(&spec, End::Null, End::Null, End::Null).ok();
        }
    }

    fn timeout(&self) -> Timespec {
        let restart = match self.run {
            Run::Pauses { until, .. } => Some(until),
            Run::Runs | Run::Ended(_) | Run::Over(_) => None,
        };
        let waits_for_lock = (self.due.is_some() && !self.settled) || matches!(self.run, Run::Ended(_));
        let seconds = if waits_for_lock {
            LOCK_POLL_S
        } else {
            let stop = (self.stop_seen || self.paused).then(|| boottime() + STOP_POLL_S);
            let disk = self.unwritten.is_some().then(|| boottime() + DISK_POLL_S);
            let next = [self.not_after, self.notice_at, restart, stop, disk].into_iter().flatten().reduce(f64::min);
            // A restart whose time has come waits for nothing but the lock.
            let least = if restart.is_some() { LOCK_POLL_S } else { 0.0 };
            let glance = Duration::from_secs(GLANCE_S.unsigned_abs()).as_secs_f64();
            next.map_or(glance, |next| (next - boottime()).clamp(least, glance))
        };
        timespec(Duration::from_secs_f64(seconds))
    }

    fn reap(&mut self) {
        let options = p::WaitOptions::NOHANG | p::WaitOptions::UNTRACED;
        loop {
            let address_space = self.limit_at_its_end();
            let Ok(Some((pid, status))) = p::wait(options) else { return };
            if pid != self.workload {
                continue;
            }
            if let Some(signal) = status.stopping_signal() {
                self.paused |= continues(signal);
                continue;
            }
            self.paused = false;
            let named = |raw: i32| {
                S::try_from(raw)
                    .map_or_else(|_| raw.to_string(), |signal| signal.as_str().trim_start_matches("SIG").to_owned())
            };
            let (code, signal) = (status.exit_status(), status.terminating_signal().map(named));
            if matches!(self.run, Run::Runs) {
                self.run = Run::Ended(ExitRecord { code, signal, at: wall_seconds(), emptied: false, address_space });
            }
        }
    }

    /// Continues a workload that has stopped, unless a stop of the session is under way: that one stops whom it is to end.
    fn resume(&mut self) {
        self.paused &= self.due.is_none();
        if !self.paused {
            return;
        }
        let lock = self.store().and_then(|store| store.lock(&self.orders.session, Duration::ZERO));
        if lock.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            return;
        }
        self.paused = false;
        let inspector = Inspector::open(self.orders.inspector.parse().ok());
        if let (Ok(inspector), Some(workload)) = (inspector, Pid::new(self.workload.as_raw_nonzero().get())) {
            resume(workload, &own_scope(&inspector), &inspector);
        }
    }

    /// Returns how the address space of the workload is limited, where it has ended: until it is reaped that can be read.
    fn limit_at_its_end(&self) -> Option<u64> {
        let options = p::WaitIdOptions::EXITED | p::WaitIdOptions::NOHANG | p::WaitIdOptions::NOWAIT;
        p::waitid(p::WaitId::Pid(self.workload), options).ok()??;
        let inspector = Inspector::open(self.orders.inspector.parse().ok()).ok()?;
        inspector.address_space(Pid::new(self.workload.as_raw_nonzero().get())?)
    }

    pub(super) fn record_exit(&mut self, record: &ExitRecord) {
        self.unwritten = Some(ExitRecord { emptied: !has_children(), ..record.clone() });
        self.write_exit();
    }

    /// Writes down how the workload has ended. What the disk refuses is tried again as long as somebody lives, and the
    /// session is on record; after that the status is unknown, and said to be.
    fn write_exit(&mut self) {
        let Some(exit) = &self.unwritten else { return };
        let Ok(store) = self.store() else { return };
        let session = &self.orders.session;
        let forgotten = !store.tether_path(session).exists();
        if forgotten
            || store.exit(session).as_ref() == Some(exit)
            || write_json(&store.exit_path(session), exit).is_ok()
        {
            self.unwritten = None;
        }
    }

    /// Writes down how the workload has ended, where it has: before the record may go, and without waiting for who is
    /// still being ended.
    fn note_end(&mut self) {
        self.reap();
        if let Run::Ended(exit) = &self.run {
            let exit = exit.clone();
            self.record_exit(&exit);
        }
        if !has_children() {
            self.say_emptied();
        }
    }

    pub(super) fn store(&self) -> io::Result<Store> {
        Store::open(&self.orders.state_dir)
    }

    pub(super) fn tether(&self) -> Option<Tether> {
        self.store().ok()?.tether(&self.orders.session).ok().flatten()
    }

    /// Runs the ladder if nobody else does; tells whether that is done with.
    fn run_ladder(&mut self, cause: &str) -> bool {
        // Without a readable record our own descendants are still ours.
        let Ok(store) = self.store() else { return self.end_tree(cause, None, None) };
        let Ok(_lock) = store.lock(&self.orders.session, Duration::ZERO) else { return false };
        match store.tether(&self.orders.session) {
            // Whoever held the lock before has finished the stop; where somebody lives, the record was lost.
            Ok(None) => !has_children() || self.end_tree(cause, Some(&store), None),
            // What is left was left alive on purpose.
            Ok(Some(tether)) if tether.is_settled() => true,
            Ok(Some(tether)) => self.end_tree(cause, Some(&store), Some(tether)),
            Err(_) => self.end_tree(cause, Some(&store), None),
        }
    }

    fn end_tree(&mut self, cause: &str, store: Option<&Store>, mut tether: Option<Tether>) -> bool {
        let Ok(inspector) = Inspector::open(self.orders.inspector.parse().ok()) else { return false };
        let guard = Guard::new(&inspector);
        let why = format!("{BY_WARDEN}: {cause}");
        if let Some(restarts) = tether.as_mut().and_then(|tether| tether.restarts.as_mut()) {
            restarts.end(&why);
        }
        let known = tether.as_ref().or(self.remembered.as_ref());
        let ladder = known.map_or_else(|| Ladder::terminal(GRACE), Tether::ladder);
        let scope = known.map_or_else(|| own_scope(&inspector), |tether| tether.scope(Vec::new()));
        let name = known.map(|tether| tether.name.clone());
        let known_workload = known.map(|tether| tether.workload.identity.clone());
        let recorded = tether.is_some();
        let unrecorded = || ["tree", "warden"].map(str::to_owned).to_vec();
        let containment = known.map_or_else(unrecorded, |tether| containment(tether, true, false));
        let session = self.orders.session.clone();
        let order = Order {
            session: &session,
            ladder,
            dry_run: false,
            confirm: None,
            end_kept: &[],
            timeout: None,
            sweep: true,
            hold: None,
        };
        let mut below = Below { name: self.host.name(), scope, store, tether };
        let mut observe = |seen| {
            if matches!(seen, Observed::Exited(..)) {
                self.note_end();
            }
        };
        let Ok(mut receipt) = stop(&order, &mut below, &guard, &inspector, &mut observe) else { return false };
        self.note_end();
        if let Some(workload) = known_workload.filter(|_| receipt.dead.is_some()) {
            // The hang-up of its terminal may have been faster.
            tell_gone(&mut receipt.outcomes, &[workload], "its workload", |one| verify(one, &inspector).kind);
        }
        let left = self.left_of(&receipt, cause);
        receipt.notes.insert(0, why);
        (receipt.containment, receipt.name) = (containment, name);
        // Whoever holds the terminal, or knows tmux, closes the host.
        receipt.host_closed = self.host == HostStage::Pty && self.manager.is_none();
        // Without a record, and with nobody there, nothing was ended.
        if let Some(store) = store.filter(|_| recorded || !receipt.captured.is_empty()) {
            let is_written = journal(store, Act::Stop, &mut receipt);
            let is_stored = write_json(&store.receipt_path(&session), &receipt).is_ok();
            match (left, below.tether) {
                // A record that could not be read stays as it is; so does one whose end nobody could write down. Without a
                // receipt nobody would ever take the exit record away.
                (_, None) => {}
                (None, Some(_)) if !(is_written && is_stored) => {}
                (None, Some(_)) => drop(store.remove(&session)),
                (Some(why), Some(mut tether)) => {
                    // It must still be found, by whoever looks next.
                    tether.keep(why, &receipt, wall_seconds());
                    tether.untold = true;
                    if receipt.dead == Some(true) {
                        tether.captured.clear();
                    }
                    store.save(&tether).ok();
                }
            }
        }
        true
    }

    /// Returns what is known of whoever is left, and why its record has to stay; `None` where it may go.
    fn left_of(&self, receipt: &Receipt, cause: &str) -> Option<(VerdictKind, String)> {
        if receipt.dead != Some(true) || !(receipt.escapees.is_empty() && receipt.kept.is_empty()) {
            let (verdict, reason) = receipt.why_left();
            return Some((verdict, format!("{reason}; its warden had to end it: {cause}")));
        }
        // A tmux session with a dead pane may still be open; whoever knows tmux closes it and the record.
        (self.host == HostStage::Tmux).then(|| (VerdictKind::Gone, format!("{BY_WARDEN}: {cause}")))
    }

    /// The tree is empty, which is said where it was not before. A PTY session whose owner lives is settled by the owner.
    fn finish(&mut self) {
        if let Some(cause) = self.due.filter(|_| !self.settled) {
            self.run_ladder(cause);
        }
        self.say_emptied();
    }

    /// Says in the record of the exit that nobody is left.
    fn say_emptied(&self) {
        let Ok(store) = self.store() else { return };
        let session = &self.orders.session;
        if let Some(exit) = store.exit(session).filter(|exit| !exit.emptied) {
            write_json(&store.exit_path(session), &ExitRecord { emptied: true, ..exit }).ok();
        }
    }
}

/// Writes a receipt into the journal; one that cannot be written says so itself. Tells whether it was.
pub(super) fn journal(store: &Store, act: Act, receipt: &mut Receipt) -> bool {
    let written = store.journal().append(By::Warden, act, receipt);
    if let Err(error) = &written {
        receipt.notes.push(format!("the journal of receipts could not be written: {error}"));
    }
    written.is_ok()
}

/// Everything below ourselves.
fn own_scope(inspector: &Inspector) -> Scope {
    let me = Pid::new(p::getpid().as_raw_nonzero().get());
    let facts = me.and_then(|me| inspector.facts(me).ok().flatten());
    let warden =
        facts.map(|facts| Identity { pid: facts.pid, token: inspector.token(&facts.start), pidfd_inode: None });
    Scope { warden, ..Scope::default() }
}

/// The tree below the warden: its host is gone, so there is nothing to hang up.
pub(super) struct Below<'a> {
    pub(super) name: &'static str,
    pub(super) scope: Scope,
    pub(super) store: Option<&'a Store>,
    pub(super) tether: Option<Tether>,
}

impl Host for Below<'_> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn scope(&mut self) -> Result<Scope, String> {
        Ok(self.scope.clone())
    }

    fn begun(&self) -> Vec<Identity> {
        let begun = self.tether.iter().flat_map(Tether::begun);
        begun.map(|record| record.identity.clone()).collect()
    }

    fn record(&mut self, captured: &[CapturedRecord]) -> Result<(), String> {
        let (Some(store), Some(tether)) = (self.store, self.tether.as_mut()) else { return Ok(()) };
        tether.capture(captured);
        store.save(tether).map(|_| ()).map_err(|error| error.to_string())
    }

    fn hang_up(&mut self, _captured: &Captured) -> Result<(), String> {
        Ok(())
    }
}

/// Tells whether the other end of a stream has been closed; what it says otherwise is dropped.
fn hung_up(stream: &UnixStream) -> bool {
    use rustix::net::{RecvFlags, recv};
    let mut buffer = [0_u8; 64];
    matches!(recv(stream, &mut buffer[..], RecvFlags::DONTWAIT), Ok((_, 0)) | Err(rustix::io::Errno::CONNRESET))
}

/// Tells whether any child is left, dead or alive; as a subreaper we are the parent of every orphan.
fn has_children() -> bool {
    let options = p::WaitIdOptions::EXITED | p::WaitIdOptions::NOHANG | p::WaitIdOptions::NOWAIT;
    !matches!(p::waitid(p::WaitId::All, options), Err(rustix::io::Errno::CHILD))
}
