//! What follows the end of a run: the workload stays ended, or its warden starts it again.
//!
//! It needs no manager. The rules of a launch hold for every run: what is left of the run before is ended first,
//! the identity of the new one is on disk before it runs, and whoever wants the session ended only has to say so
//! in its record.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::str::FromStr;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal as S;
use rustix::fs::{Mode, OFlags};
use rustix::process as p;

use super::keeper::{Below, Keeper, journal};
use super::wire::{Outcome, Workspace, receive, send};
use super::{HostStage, TRAMPOLINE, usher};
use crate::lifecycle::authority::{Pin, Pinned};
use crate::lifecycle::clock::{boottime, wall_seconds};
use crate::lifecycle::guard::Guard;
use crate::lifecycle::identity::Pid;
use crate::lifecycle::inspect::Inspector;
use crate::lifecycle::journal::Act;
use crate::lifecycle::leaf::{Leaf, containment};
use crate::lifecycle::restart::Next;
use crate::lifecycle::spawn::{End, Spec, start};
use crate::lifecycle::stop::{Order, stop};
use crate::lifecycle::store::{Durable, SessionLock, Store};
use crate::lifecycle::tether::{ExitRecord, Tether, Workload};
use crate::lifecycle::tree::WARDEN_NAME;

/// How far the workload is.
#[derive(Debug)]
pub(super) enum Run {
    /// It runs.
    Runs,
    /// It has ended; nobody has decided yet what follows.
    Ended(ExitRecord),
    /// It is started again.
    Pauses {
        /// Seconds on `CLOCK_BOOTTIME`.
        until: f64,
        /// How the run before ended.
        last: ExitRecord,
    },
    /// It stays ended, with the status that the front ends with.
    Over(u8),
}

/// Where the next run gets its terminal from.
#[derive(Debug)]
pub(super) enum Stand {
    /// A PTY. The end of its session leader has hung up our copy, which still keeps the name from being reused.
    Terminal { _held: OwnedFd, name: CString },
    /// A tmux pane.
    Usher(UnixStream),
}

impl Stand {
    /// Prepares for later runs. To be called before the warden leaves the terminal.
    pub(super) fn of(host: HostStage) -> io::Result<Self> {
        match host {
            HostStage::Pty => Ok(Self::Terminal {
                name: rustix::termios::ttyname(rustix::stdio::stdout(), Vec::new())?,
                _held: rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?,
            }),
            HostStage::Tmux => usher::first().map(Self::Usher),
        }
    }

    /// Starts a trampoline that waits behind its gate.
    fn trampoline(&mut self) -> io::Result<(Pid, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        let pid = match self {
            Self::Usher(usher) => usher::ask(usher, &theirs)?,
            Self::Terminal { name, .. } => {
                let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
                let terminal = || rustix::fs::open(name.as_c_str(), flags, Mode::empty()).map(End::Fd);
                let mut spec = Spec::new(["/proc/self/exe", TRAMPOLINE, HostStage::Pty.name()]);
                spec.arg0 = Some(WARDEN_NAME.into());
                let child = start(&spec, End::Fd(OwnedFd::from(theirs)), terminal()?, terminal()?)?;
                i32::try_from(child.id()).ok().and_then(Pid::new).ok_or(io::ErrorKind::InvalidData)?
            }
        };
        Ok((pid, ours))
    }
}

/// Lets a trampoline become the workload, now that its identity is on disk.
fn open_gate(durable: &Durable, gate: &mut UnixStream, session: &str, workspace: &Workspace) -> io::Result<Outcome> {
    debug_assert_eq!(durable.session(), session);
    send(gate, workspace)?;
    // The end of the stream is the exec: the descriptor is close-on-exec.
    Ok(receive::<Outcome>(gate).unwrap_or(Outcome::Started))
}

impl Keeper {
    /// Brings an ended run further; never waits for anybody.
    pub(super) fn go_on(&mut self) {
        let run = std::mem::replace(&mut self.run, Run::Runs);
        self.run = match run {
            Run::Ended(exit) => self.after(exit),
            Run::Pauses { until, last } => self.pause(until, last),
            Run::Runs | Run::Over(_) => run,
        };
    }

    /// Returns the record and its lock while the session is to be started again: `Ok(None)` when it is not.
    ///
    /// # Errors
    /// `WouldBlock` while somebody else holds the lock.
    fn to_restart(&self) -> io::Result<Option<Found>> {
        if self.stand.is_none() || self.due.is_some() {
            return Ok(None);
        }
        let wanted = |store: &Store| {
            let tether = store.tether(&self.orders.session).ok().flatten();
            tether.filter(Tether::restarts_on_failure)
        };
        let Ok(store) = self.store() else { return Ok(None) };
        // Whoever stops it has said so before the first signal, and holds the lock until we have left.
        if wanted(&store).is_none() {
            return Ok(None);
        }
        let lock = store.lock(&self.orders.session, Duration::ZERO)?;
        Ok(wanted(&store).map(|tether| Found { store, _lock: lock, tether }))
    }

    fn after(&mut self, exit: ExitRecord) -> Run {
        match self.to_restart() {
            Ok(Some(found)) => match self.decide(found, &exit) {
                Some(until) => Run::Pauses { until, last: exit },
                None => self.over(&exit),
            },
            Ok(None) => self.over(&exit),
            Err(_) => Run::Ended(exit),
        }
    }

    /// Returns when it runs again; `None` when it stays ended. The lock is given back before that is told: whoever
    /// sees an end while somebody else holds the lock takes it for a stop.
    fn decide(&self, found: Found, exit: &ExitRecord) -> Option<f64> {
        let Found { store, _lock, mut tether } = found;
        let restarts = tether.restarts.as_mut()?;
        let began = restarts.began.unwrap_or(tether.spawned_at);
        let ran = Duration::try_from_secs_f64(boottime() - began).unwrap_or_default();
        let (attempt, pause) = match restarts.after(exit, ran) {
            Next::Fine => return None,
            Next::GivenUp(why) => {
                give_up(&store, tether, exit, why);
                return None;
            }
            Next::Again { attempt, pause } => (attempt, pause),
        };
        let until = boottime() + pause.as_secs_f64();
        restarts.attempt = attempt;
        restarts.last_exit = Some(exit.clone());
        restarts.next_at = Some(until);
        let saved = store.save(&tether).map_err(|error| format!("not started again: {error}"));
        match saved.and_then(|_| self.empty(&store, &tether)) {
            Ok(()) => Some(until),
            Err(why) => {
                // Who is left of it is in the record by now.
                give_up(&store, self.tether().unwrap_or(tether), exit, why);
                None
            }
        }
    }

    /// Ends what is left of the failed run: a second one must not meet it.
    fn empty(&self, store: &Store, tether: &Tether) -> Result<(), String> {
        let unable = |why: &dyn std::fmt::Display| format!("not started again: {why}");
        let inspector = Inspector::open(self.orders.inspector.parse().ok()).map_err(|error| unable(&error))?;
        let guard = Guard::new(&inspector);
        let order = Order {
            session: &self.orders.session,
            ladder: tether.ladder(),
            dry_run: false,
            confirm: None,
            timeout: None,
            sweep: true,
            hold: None,
            end_kept: &[],
        };
        let (scope, containment) = (tether.scope(Vec::new()), containment(tether, true, false));
        let mut below = Below { name: self.host.name(), scope, store: Some(store), tether: Some(tether.clone()) };
        let mut receipt =
            stop(&order, &mut below, &guard, &inspector, &mut |_| {}).map_err(|refusal| unable(&refusal))?;
        // Its host stays: the next run is to have it.
        (receipt.containment, receipt.host_closed) = (containment, false);
        if !receipt.outcomes.is_empty() || receipt.dead != Some(true) {
            journal(store, Act::Restart, &mut receipt);
        }
        if receipt.dead != Some(true) {
            let left = receipt.survivors.iter().chain(&receipt.unverified).next();
            let left = left.map_or_else(|| "somebody".to_owned(), |pid| format!("pid {pid}"));
            return Err(unable(&format_args!("{left} of the failed run is left")));
        }
        // What was captured is dead; the record speaks of the session alone again.
        store.save(tether).map(|_| ()).map_err(|error| unable(&error))
    }

    fn pause(&mut self, until: f64, last: ExitRecord) -> Run {
        let nudged = std::mem::take(&mut self.nudged);
        if boottime() < until && !nudged && self.due.is_none() {
            return Run::Pauses { until, last };
        }
        match self.to_restart() {
            Ok(None) => self.over(&last),
            Ok(Some(found)) if boottime() >= until => match self.begin(found, &last) {
                Some(run) => run,
                None => self.over(&last),
            },
            Ok(Some(_)) | Err(_) => Run::Pauses { until, last },
        }
    }

    /// Starts the next run; `None` when it stays ended.
    fn begin(&mut self, found: Found, last: &ExitRecord) -> Option<Run> {
        let Found { store, _lock, mut tether } = found;
        match self.start_run(&store, &mut tether) {
            Ok(Outcome::Started) => Some(Run::Runs),
            Ok(Outcome::Failed { errno, .. }) => {
                let missing = io::Error::from_raw_os_error(errno).kind() == io::ErrorKind::NotFound;
                let code = Some(if missing { 127 } else { 126 });
                Some(Run::Ended(ExitRecord {
                    code,
                    signal: None,
                    at: wall_seconds(),
                    emptied: false,
                    address_space: None,
                }))
            }
            Err(error) => {
                give_up(&store, tether, last, format!("not started again: {error}"));
                None
            }
        }
    }

    fn start_run(&mut self, store: &Store, tether: &mut Tether) -> io::Result<Outcome> {
        let stand = self.stand.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let (pid, mut gate) = stand.trampoline()?;
        let inspector = Inspector::open(self.orders.inspector.parse().ok()).map_err(io::Error::other)?;
        let pinned = ours(&inspector, pid)?;
        let sid = match self.host {
            HostStage::Pty => pid.raw(),
            HostStage::Tmux => tether.workload.sid,
        };
        if let Some(leaf) = tether.cgroup.as_ref().and_then(Leaf::open) {
            leaf.admit(&pinned, &inspector)?;
        }
        tether.workload = Workload { identity: pinned.identity().clone(), pgid: pid.raw(), sid };
        if let Some(restarts) = tether.restarts.as_mut() {
            (restarts.began, restarts.next_at) = (Some(boottime()), None);
        }
        let durable = store.save(tether)?;
        self.workload = pid.rustix();
        self.remembered = Some(tether.clone());
        open_gate(&durable, &mut gate, &self.orders.session, &self.orders.workspace)
    }

    /// The workload stays ended: its status is recorded, and the front may leave with it.
    fn over(&mut self, exit: &ExitRecord) -> Run {
        let byte = status_byte(exit);
        self.stand = None;
        self.record_exit(exit);
        if let Some(front) = self.front.as_mut() {
            use std::io::Write;
            front.write_all(&[byte]).ok();
        }
        Run::Over(byte)
    }
}

/// The record of a session that is to be started again, and the lock of it.
struct Found {
    store: Store,
    _lock: SessionLock,
    tether: Tether,
}

/// Says in the record why it is not started again.
fn give_up(store: &Store, mut tether: Tether, exit: &ExitRecord, why: String) {
    if let Some(restarts) = tether.restarts.as_mut() {
        (restarts.over, restarts.next_at, restarts.last_exit) = (Some(why), None, Some(exit.clone()));
    }
    // A disk that refuses leaves the reason unsaid; the exit record says the rest.
    store.save(&tether).ok();
}

/// How long a trampoline may take to come to us from the usher that started it.
const ADOPTION: Duration = Duration::from_secs(5);

/// Holds a process that is our child, or becomes it.
fn ours(inspector: &Inspector, pid: Pid) -> io::Result<Pinned> {
    let me = p::getpid().as_raw_nonzero().get();
    let until = Instant::now() + ADOPTION;
    loop {
        match Pinned::open(inspector, pid) {
            Pin::Held(pinned) if pinned.facts().ppid == me => return Ok(pinned),
            Pin::Held(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
            Pin::Held(_) => return Err(io::Error::other(format!("process {pid} is no child of its warden"))),
            Pin::Gone => return Err(io::Error::other(format!("{pid} is gone already"))),
            Pin::Unreadable(error) => return Err(io::Error::other(error.to_string())),
        }
    }
}

/// Returns the exit status as shells say it: `128 + n` for a signal.
fn status_byte(exit: &ExitRecord) -> u8 {
    let signal = exit.signal.as_deref().map(|name| {
        S::from_str(&format!("SIG{name}")).map_or_else(|_| name.parse().unwrap_or(0), |signal| signal as i32)
    });
    let status = exit.code.unwrap_or_else(|| 128 + signal.unwrap_or(0));
    u8::try_from(status).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_what_a_shell_would_say() {
        for (code, signal, expected) in [
            (Some(0), None, 0),
            (Some(3), None, 3),
            (None, Some("TERM"), 143),
            (None, Some("KILL"), 137),
            (None, Some("34"), 162),
            (Some(-1), None, 255),
        ] {
            let exit = ExitRecord { code, signal: signal.map(Into::into), at: 0, emptied: false, address_space: None };
            assert_eq!(status_byte(&exit), expected, "{exit:?}");
        }
    }
}
