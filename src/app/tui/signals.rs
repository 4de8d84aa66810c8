//! Signals, and the alarm that ends the program when its loop is stuck.
//!
//! A thread turns signals into events and sets the alarm; the alarm waits two seconds for the loop to
//! end, then restores the terminal and calls the hook. The loop normally ends at once and disarms it.

use std::fs::File;
use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::iterator::{Handle, Signals};

use super::seam::{OnStuck, Outcome, UiEvent};
use super::terminal::{Core, size_of};

/// How long the loop may take to end.
const DEADLINE: Duration = Duration::from_secs(2);

/// The thread that hears signals, until it is dropped.
#[derive(Debug)]
pub(super) struct Listener {
    handle: Handle,
}

impl Listener {
    /// Starts to hear signals.
    pub(super) fn start(tty: File, events: Sender<UiEvent>, alarm: Alarm) -> io::Result<Self> {
        let mut signals = Signals::new([SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGWINCH])?;
        let handle = signals.handle();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            for signal in signals.forever() {
                let event = match signal {
                    SIGWINCH => {
                        let (cols, rows) = size_of(&tty);
                        UiEvent::Input(crossterm::event::Event::Resize(cols, rows))
                    }
                    SIGHUP => {
                        alarm.set(Outcome::Hangup);
                        UiEvent::Hangup
                    }
                    _ => {
                        alarm.set(Outcome::Terminate);
                        UiEvent::Terminate
                    }
                };
                if events.send(event).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { handle })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.handle.close();
    }
}

/// The alarm. Clones are the same alarm; it never rings twice.
#[derive(Clone, Debug)]
pub(super) struct Alarm {
    shared: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Debug, Default)]
struct State {
    due: Option<(Instant, Outcome)>,
    disarmed: bool,
}

impl Alarm {
    /// Starts the thread of the alarm; it sleeps until the alarm is set.
    pub(super) fn start(terminal: Arc<Core>, on_stuck: Option<OnStuck>) -> io::Result<Self> {
        Self::with(DEADLINE, move |outcome| {
            terminal.leave();
            if let Some(hook) = &on_stuck {
                hook(outcome);
            }
        })
    }

    fn with(deadline: Duration, ring: impl FnOnce(Outcome) + Send + 'static) -> io::Result<Self> {
        let alarm = Self { shared: Arc::default() };
        let shared = Arc::clone(&alarm.shared);
        std::thread::Builder::new().name("alarm".into()).spawn(move || {
            let (lock, changed) = &*shared;
            let mut state = lock.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                if state.disarmed {
                    return;
                }
                let Some((set_at, outcome)) = state.due else {
                    state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                    continue;
                };
                let left = deadline.saturating_sub(set_at.elapsed());
                if left.is_zero() {
                    drop(state);
                    return ring(outcome);
                }
                state = changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        })?;
        Ok(alarm)
    }

    /// Sets the alarm, unless it is set already.
    pub(super) fn set(&self, outcome: Outcome) {
        self.change(|state| {
            state.due.get_or_insert((Instant::now(), outcome));
        });
    }

    /// Ends the alarm: the loop has ended by itself.
    pub(super) fn disarm(&self) {
        self.change(|state| state.disarmed = true);
    }

    /// Returns an alarm that rings nowhere.
    #[cfg(test)]
    pub(super) fn for_test() -> Self {
        Self { shared: Arc::default() }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let (lock, changed) = &*self.shared;
        change(&mut lock.lock().unwrap_or_else(PoisonError::into_inner));
        changed.notify_all();
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn the_alarm_rings_only_if_it_was_set_and_nobody_came() {
        let long = Duration::from_secs(10);
        let short = Duration::from_millis(30);
        for (set, disarm, rings) in [(true, false, true), (true, true, false), (false, true, false)] {
            let (sender, rung) = mpsc::channel();
            let deadline = if disarm { long } else { short };
            let alarm = Alarm::with(deadline, move |outcome| sender.send(outcome).unwrap()).unwrap();
            if set {
                alarm.set(Outcome::Hangup);
                alarm.set(Outcome::Terminate);
            }
            if disarm {
                alarm.disarm();
            }
            // A disarmed alarm ends its thread, which closes the channel.
            assert_eq!(rung.recv_timeout(long).ok(), rings.then_some(Outcome::Hangup), "{set} {disarm}");
        }
    }
}
