//! The way out to the terminal: a thread that writes, so that nobody else waits for a terminal that
//! does not read.
//!
//! `run` offers a frame only while the outlet [is idle](Outlet::is_idle), so at most one is under way
//! and the next one is drawn from the newest state. Restoring sequences are pushed behind it and
//! waited for with a limit.

use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};

/// Most bytes that are kept for a terminal that does not read.
const LIMIT: usize = 4 << 20;

/// How long a write that has been under way for long already is waited for.
const LAST_MOMENT: Duration = Duration::from_millis(10);

/// The way out. Clones share the same thread.
#[derive(Clone, Debug)]
pub(super) struct Outlet {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: Vec<u8>,
    /// Since when a write is under way.
    writing: Option<Instant>,
    closed: bool,
}

impl Outlet {
    /// Starts the thread. `on_idle` is called on it whenever everything has been written.
    pub(super) fn start(sink: impl Write + Send + 'static, on_idle: impl Fn() + Send + 'static) -> Self {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        let outlet = Self { shared: Arc::clone(&shared) };
        std::thread::spawn(move || write_all(&shared, sink, on_idle));
        outlet
    }

    /// Tells whether everything has been written.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.lock();
        state.queue.is_empty() && state.writing.is_none()
    }

    /// Adds bytes. They are dropped when the outlet is closed, or when far too many wait already.
    pub(super) fn push(&self, bytes: &[u8]) {
        let mut state = self.lock();
        if !state.closed && state.queue.len() + bytes.len() <= LIMIT {
            state.queue.extend_from_slice(bytes);
            self.shared.changed.notify_all();
        }
    }

    /// Waits until everything has been written, at most for `limit`. Returns whether it has. A terminal that has not
    /// read for some time already has used it up.
    pub(super) fn drain(&self, limit: Duration) -> bool {
        let mut state = self.lock();
        let until = Instant::now() + patience(limit, state.writing.map(|since| since.elapsed()));
        while !state.queue.is_empty() || state.writing.is_some() {
            let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
                return false;
            };
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Ends the thread once it has written what is there; later bytes are dropped.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.shared.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns how much of a time to wait is left after a write has been under way for so long.
fn patience(limit: Duration, under_way: Option<Duration>) -> Duration {
    limit.saturating_sub(under_way.unwrap_or_default()).max(LAST_MOMENT.min(limit))
}

fn write_all(shared: &Shared, mut sink: impl Write, on_idle: impl Fn()) {
    // In the background a write must not stop the whole program, where the terminal is set to
    // `tostop`: blocked, SIGTTOU lets the write pass (tty_check_change in the kernel's tty_jobctrl.c).
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGTTOU);
    let _ignored = mask.thread_block();
    let lock = || shared.state.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let mut state = lock();
        while state.queue.is_empty() && !state.closed {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.queue.is_empty() {
            return;
        }
        let bytes = std::mem::take(&mut state.queue);
        state.writing = Some(Instant::now());
        drop(state);
        // A terminal that is gone takes nothing; the reader notices and ends the program.
        let _ignored = sink.write_all(&bytes).and_then(|()| sink.flush());
        let idle = {
            let mut state = lock();
            state.writing = None;
            state.queue.is_empty()
        };
        shared.changed.notify_all();
        if idle {
            on_idle();
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Hands every write to the test, which decides when it returns.
    struct Slow {
        written: mpsc::Sender<Vec<u8>>,
        go_on: mpsc::Receiver<()>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.written.send(bytes.to_vec()).unwrap();
            self.go_on.recv().unwrap();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_terminal_that_does_not_read_delays_nobody() {
        let (written, writes) = mpsc::channel();
        let (go, go_on) = mpsc::channel();
        let (idle, idles) = mpsc::channel();
        let outlet = Outlet::start(Slow { written, go_on }, move || idle.send(()).unwrap());
        assert!(outlet.is_idle());
        outlet.push(b"frame");
        assert_eq!(writes.recv().unwrap(), b"frame");
        assert!(!outlet.is_idle());
        let before = Instant::now();
        outlet.push(b"restore");
        assert!(!outlet.drain(Duration::from_millis(20)));
        assert!(before.elapsed() < Duration::from_millis(500));
        go.send(()).unwrap();
        assert_eq!(writes.recv().unwrap(), b"restore");
        assert!(idles.try_recv().is_err());
        go.send(()).unwrap();
        assert!(outlet.drain(Duration::from_secs(5)));
        idles.recv().unwrap();
    }

    #[test]
    fn who_has_waited_already_waits_a_moment_more() {
        let ms = Duration::from_millis;
        for (under_way, expected) in [(None, 120), (Some(20), 100), (Some(115), 10), (Some(5000), 10)] {
            assert_eq!(patience(ms(120), under_way.map(ms)), ms(expected), "{under_way:?}");
        }
        assert_eq!(patience(ms(3), Some(ms(50))), ms(3));
    }

    #[test]
    fn what_comes_after_the_end_is_dropped() {
        let (written, writes) = mpsc::channel();
        let (go, go_on) = mpsc::channel();
        let outlet = Outlet::start(Slow { written, go_on }, || {});
        outlet.push(b"last");
        outlet.close();
        outlet.push(b"late");
        go.send(()).unwrap();
        assert_eq!(writes.recv().unwrap(), b"last");
        assert!(writes.recv().is_err(), "the thread has ended");
        assert!(outlet.drain(Duration::from_secs(5)));
    }

    #[test]
    fn the_queue_is_bounded() {
        let (written, writes) = mpsc::channel();
        let (_go, go_on) = mpsc::channel();
        let outlet = Outlet::start(Slow { written, go_on }, || {});
        outlet.push(b"x");
        writes.recv().unwrap();
        for _ in 0..100 {
            outlet.push(&vec![0; 1 << 20]);
        }
        assert!(outlet.lock().queue.len() <= LIMIT);
    }
}
