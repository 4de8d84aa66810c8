//! The outer terminal of a bench: a PTY that it owns, with an emulator that shows what a person would see.

use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Longer than anything here takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(100);

/// Rows and columns.
pub(crate) type Size = (u16, u16);

/// Both ends of a PTY.
pub(crate) fn pair((rows, cols): Size) -> (OwnedFd, OwnedFd) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    tcsetwinsize(&master, Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    (master, slave)
}

/// Starts a command with the slave as its standard streams.
pub(crate) fn spawn_on(mut command: Command, slave: &OwnedFd) -> Child {
    let copy = || Stdio::from(slave.try_clone().unwrap());
    command.stdin(copy()).stdout(copy()).stderr(copy()).spawn().unwrap()
}

struct View {
    emulator: vt100::Parser,
    bytes: u64,
    /// Frames that were announced as such (synchronized output).
    frames: u64,
    /// The end of what came last: an announcement may come in two pieces.
    tail: Vec<u8>,
}

const FRAME: &[u8] = b"\x1b[?2026h";

impl View {
    fn take(&mut self, bytes: &[u8]) {
        self.emulator.process(bytes);
        self.bytes += u64::try_from(bytes.len()).unwrap();
        self.tail.extend_from_slice(bytes);
        self.frames += u64::try_from(self.tail.windows(FRAME.len()).filter(|window| *window == FRAME).count()).unwrap();
        let kept = self.tail.len().min(FRAME.len() - 1);
        self.tail.drain(..self.tail.len() - kept);
    }
}

/// A program in a terminal whose output is read at once, whatever comes.
pub(crate) struct Terminal {
    child: Child,
    master: Arc<OwnedFd>,
    view: Arc<(Mutex<View>, Condvar)>,
    stalled: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    /// Returns a command that gets the terminal as its controlling one, which takes a program: there is
    /// no unsafe code here that could do it between fork and exec.
    pub(crate) fn command(program: &str) -> Command {
        let mut command = Command::new("setsid");
        command.args(["--ctty", program]);
        command
    }

    pub(crate) fn start(command: Command, size: Size) -> Self {
        let (master, slave) = pair(size);
        let child = spawn_on(command, &slave);
        drop(slave);
        let master = Arc::new(master);
        let emulator = vt100::Parser::new(size.0.try_into().unwrap(), size.1.try_into().unwrap(), 0);
        let view = Arc::new((Mutex::new(View { emulator, bytes: 0, frames: 0, tail: Vec::new() }), Condvar::new()));
        let (input, shared) = (Arc::clone(&master), Arc::clone(&view));
        let stalled = Arc::new(AtomicBool::new(false));
        let stalls = Arc::clone(&stalled);
        let reader = std::thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            // EIO is the end: nobody holds the slave any more.
            while let Ok(length @ 1..) = rustix::io::read(input.as_fd(), &mut buffer[..]) {
                shared.0.lock().unwrap().take(&buffer[..length]);
                shared.1.notify_all();
                while stalls.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        });
        Self { child, master, view, stalled, reader: Some(reader) }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.0.lock().unwrap()
    }

    /// Returns how much was written to the terminal so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.view().bytes
    }

    /// Returns how many frames were announced so far.
    pub(crate) fn frames(&self) -> u64 {
        self.view().frames
    }

    /// Takes nothing of what is written any more, or goes on.
    pub(crate) fn stall(&self, stalled: bool) {
        self.stalled.store(stalled, Ordering::Relaxed);
    }

    pub(crate) fn text(&self) -> String {
        self.view().emulator.screen().contents()
    }

    pub(crate) fn cursor(&self) -> (u16, u16) {
        self.view().emulator.screen().cursor_position()
    }

    /// Types; these are few bytes, which the kernel takes at once.
    pub(crate) fn type_bytes(&self, bytes: &[u8]) {
        assert_eq!(rustix::io::write(self.master.as_fd(), bytes), Ok(bytes.len()));
    }

    /// Waits until the screen is so.
    pub(crate) fn wait(&self, what: &str, mut is_so: impl FnMut(&vt100::Screen) -> bool) {
        let end = Instant::now() + DEADLINE;
        let mut view = self.view();
        while !is_so(view.emulator.screen()) {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{what} never came:\n{}", view.emulator.screen().contents());
            view = self.view.1.wait_timeout(view, left).unwrap().0;
        }
    }

    pub(crate) fn wait_for(&self, text: &str) {
        self.wait(text, |screen| screen.contents().contains(text));
    }

    /// Waits until nothing has been written for a while.
    pub(crate) fn settle(&self, quiet: Duration) {
        let mut before = u64::MAX;
        while before != self.bytes() {
            before = self.bytes();
            std::thread::sleep(quiet);
        }
    }

    pub(crate) fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.stall(false);
        if self.has_ended().is_none() {
            self.child.kill().ok();
            self.child.wait().ok();
        }
        // What it has started may hold the slave for a moment longer.
        if let Some(reader) = self.reader.take() {
            reader.join().ok();
        }
    }
}
