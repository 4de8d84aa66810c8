//! `launch --host pty` in a terminal: this terminal is the session's until its workload ends.
//!
//! What the session prints is copied from its log, which holds every byte from the first; what is typed
//! goes to it as it comes, Ctrl-C included. The terminal is put back when this ends in any way.

use std::io::{IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::runtime::Runtime;
use crate::lifecycle::regular;

/// How often the log is looked at: less than a frame of a display.
const GLANCE: Duration = Duration::from_millis(12);

/// Returns the size of this terminal, rows first; `None` where input or output is no terminal.
pub(super) fn size() -> Option<(u16, u16)> {
    if !std::io::stdin().is_terminal() {
        return None;
    }
    tcgetwinsize(std::io::stdout()).ok().map(|size| (size.ws_row, size.ws_col))
}

/// Lends this terminal to a session. Dropped, it is given back.
pub(super) struct Foreground {
    before: Termios,
    done: Arc<AtomicBool>,
    copier: Option<std::thread::JoinHandle<()>>,
}

impl Foreground {
    /// Starts to copy; `None` where there is no terminal.
    pub(super) fn start(runtime: &Runtime, session: &str) -> Option<Self> {
        size()?;
        let before = tcgetattr(std::io::stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(std::io::stdin(), OptionalActions::Now, &raw).ok()?;
        let done = Arc::new(AtomicBool::new(false));
        let (runtime, session) = (runtime.clone(), session.to_owned());
        let (keys, keys_session, keys_done) = (runtime.clone(), session.clone(), Arc::clone(&done));
        std::thread::spawn(move || type_keys(&keys, &keys_session, &keys_done));
        let copier_done = Arc::clone(&done);
        let copier = std::thread::spawn(move || copy_output(&runtime, &session, &copier_done));
        Some(Self { before, done, copier: Some(copier) })
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        self.done.store(true, Ordering::SeqCst);
        if let Some(copier) = self.copier.take() {
            copier.join().ok();
        }
        tcsetattr(std::io::stdin(), OptionalActions::Drain, &self.before).ok();
    }
}

fn type_keys(runtime: &Runtime, session: &str, done: &AtomicBool) {
    let mut buffer = [0_u8; 4096];
    let pause = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    while !done.load(Ordering::SeqCst) {
        let mut stdin = std::io::stdin();
        let ready = poll(&mut [PollFd::new(&stdin.as_fd(), PollFlags::IN)], Some(&pause));
        if !matches!(ready, Ok(1)) {
            continue;
        }
        match stdin.read(&mut buffer) {
            Ok(length) if length > 0 => _ = runtime.type_bytes(session, || buffer[..length].to_vec()),
            Ok(_) | Err(_) => return,
        }
    }
}

fn copy_output(runtime: &Runtime, session: &str, done: &AtomicBool) {
    let Ok(path) = runtime.log_path(session) else { return };
    let Ok(mut log) = regular::open(&path) else { return };
    let mut size_before = size();
    loop {
        // Asked before the read: what was printed before the end is copied.
        let last = done.load(Ordering::SeqCst);
        let mut bytes = Vec::new();
        if log.read_to_end(&mut bytes).is_err() {
            return;
        }
        let mut output = std::io::stdout().lock();
        if output.write_all(&bytes).and_then(|()| output.flush()).is_err() || last {
            return;
        }
        drop(output);
        let now = size();
        if let Some((rows, cols)) = now.filter(|_| now != size_before) {
            runtime.resize_owned(session, rows, cols);
            size_before = now;
        }
        if bytes.is_empty() {
            std::thread::sleep(GLANCE);
        }
    }
}
