//! The terminal itself: raw mode, alternate screen, mouse, bracketed paste, and their restoration.
//!
//! Called by `run`. Restoration happens once, whoever asks first: the end of `run`, a panic of the
//! thread that runs the screen, a suspension, or the alarm when the loop is stuck. A panic of another
//! thread, or of an emulator that is looked at ([`contained`]), leaves the screen alone; what it says
//! becomes a note, because the emulator of one session may fail without costing anything else.

use std::any::Any;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};

use super::kitty;
use super::outlet::Outlet;
use super::seam::UiEvent;
use crate::pty::screen::panic_is_contained;
use crate::text::escape;

/// Alternate screen, mouse buttons and drags in the SGR encoding, bracketed paste, no cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[0m\x1b[2J\x1b[?1000h\x1b[?1002h\x1b[?1006h\x1b[?2004h\x1b[?25l";
/// Asks the terminal to tell when somebody looks elsewhere.
const REPORT_FOCUS: &[u8] = b"\x1b[?1004h";
const ENTER_WITHOUT_MOUSE: &[u8] = b"\x1b[?1049h\x1b[0m\x1b[2J\x1b[?2004h\x1b[?25l";
/// Takes everything back, whatever of it was on.
pub(super) const LEAVE: &[u8] =
    b"\x1b[?2026l\x1b[?1004l\x1b[?1003l\x1b[?1002l\x1b[?1000l\x1b[?1006l\x1b[?2004l\x1b[0m\x1b[?25h\x1b[?1049l";
/// Has the terminal remember its title, and take it back (XTWINOPS).
const KEEP_TITLE: &[u8] = b"\x1b[22;0t";
const TITLE_BACK: &[u8] = b"\x1b[23;0t";
/// How long a terminal may take to read the restoring sequences.
const PATIENCE: Duration = Duration::from_millis(80);

/// The two ends of our terminal.
#[derive(Debug)]
pub(super) struct Tty {
    pub(super) input: File,
    pub(super) output: File,
}

impl Tty {
    /// Takes standard input and output where they are terminals, else the controlling terminal.
    pub(super) fn open() -> io::Result<Self> {
        let end = |fd: BorrowedFd<'_>| -> io::Result<File> {
            if isatty(fd) {
                return Ok(File::from(fd.try_clone_to_owned()?));
            }
            File::options().read(true).write(true).open("/dev/tty")
        };
        Ok(Self { input: end(io::stdin().as_fd())?, output: end(io::stdout().as_fd())? })
    }
}

/// The terminal while the screen is on it. Dropping it restores what was before.
#[derive(Debug)]
pub(super) struct Terminal {
    core: Arc<Core>,
}

/// What restores; shared with the panic hook and the alarm.
#[derive(Debug)]
pub(super) struct Core {
    tty: OwnedFd,
    outlet: Outlet,
    /// The modes as the shell left them.
    cooked: Mutex<Termios>,
    entered: AtomicBool,
    mouse: bool,
    focus: bool,
    /// It has kitty's keyboard protocol.
    tells_keys_apart: AtomicBool,
    /// We have turned that on, and have to take it back.
    pushed: AtomicBool,
    /// The shape of the cursor; 0 is its own.
    shape: AtomicU8,
    title: Mutex<Title>,
}

/// The title of the terminal.
#[derive(Debug, Default)]
struct Title {
    /// Ours; empty as long as it has none of us.
    text: String,
    /// The terminal remembers the one before.
    kept: bool,
}

impl Terminal {
    /// Puts the screen on the terminal. With `focus` it tells when somebody looks elsewhere. `events` hears when a
    /// frame has been taken.
    pub(super) fn enter(tty: &Tty, mouse: bool, focus: bool, events: Sender<UiEvent>) -> io::Result<Self> {
        // NO_COLOR is obeyed by the theme; crossterm's way of obeying it resets bold and reverse too.
        crossterm::style::force_color_output(true);
        let idle = events.clone();
        let outlet = Outlet::start(tty.output.try_clone()?, move || {
            let _ignored = idle.send(UiEvent::Drawn);
        });
        let core = Core {
            cooked: Mutex::new(tcgetattr(&tty.input)?),
            tty: tty.input.as_fd().try_clone_to_owned()?,
            outlet,
            entered: AtomicBool::new(false),
            mouse,
            focus,
            tells_keys_apart: AtomicBool::new(false),
            pushed: AtomicBool::new(false),
            shape: AtomicU8::new(0),
            title: Mutex::default(),
        };
        let terminal = Self { core: Arc::new(core) };
        guard_against_panics(&terminal.core, events);
        terminal.core.enter()?;
        Ok(terminal)
    }

    /// Restores the terminal; the screen can come back with [`Terminal::reenter`].
    pub(super) fn leave(&self) {
        self.core.leave();
    }

    /// Puts the screen back.
    pub(super) fn reenter(&self) -> io::Result<()> {
        *self.core.cooked.lock().unwrap_or_else(PoisonError::into_inner) = tcgetattr(&self.core.tty)?;
        self.core.enter()
    }

    /// Sets the modes again after somebody else has changed them without our leaving.
    pub(super) fn assert(&self) -> io::Result<()> {
        self.core.enter()
    }

    /// Has it tell all keys apart, now and whenever the screen is on it: it has said that it can.
    pub(super) fn tell_keys_apart(&self) {
        self.core.tells_keys_apart.store(true, Ordering::SeqCst);
        self.core.turn_keyboard();
    }

    /// Gives the cursor a shape, as long as the screen is on it; 0 is the terminal's own.
    pub(super) fn shape_cursor(&self, shape: u8) {
        if self.core.shape.swap(shape, Ordering::SeqCst) != shape {
            self.core.outlet.push(&cursor(shape));
        }
    }

    /// Gives the terminal a title, as long as the screen is on it.
    pub(super) fn entitle(&self, text: &str) {
        let mut title = self.core.title();
        if title.text != text {
            text.clone_into(&mut title.text);
            self.core.show_title(&mut title);
        }
    }

    /// Returns columns and rows.
    pub(super) fn size(&self) -> (u16, u16) {
        size_of(&self.core.tty)
    }

    pub(super) fn outlet(&self) -> &Outlet {
        &self.core.outlet
    }

    pub(super) fn core(&self) -> Arc<Core> {
        Arc::clone(&self.core)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.core.leave();
        self.core.outlet.close();
        *GUARD.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Core {
    fn enter(&self) -> io::Result<()> {
        let mut raw = self.cooked.lock().unwrap_or_else(PoisonError::into_inner).clone();
        raw.make_raw();
        self.entered.store(true, Ordering::SeqCst);
        unstoppable(|| tcsetattr(&self.tty, OptionalActions::Now, &raw))?;
        self.outlet.push(if self.mouse { ENTER } else { ENTER_WITHOUT_MOUSE });
        if self.focus {
            self.outlet.push(REPORT_FOCUS);
        }
        self.turn_keyboard();
        let shape = self.shape.load(Ordering::SeqCst);
        if shape != 0 {
            self.outlet.push(&cursor(shape));
        }
        self.show_title(&mut self.title());
        Ok(())
    }

    fn title(&self) -> MutexGuard<'_, Title> {
        self.title.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows our title, if there is one and the screen is on the terminal. The one before is remembered once, however
    /// often it changes.
    fn show_title(&self, title: &mut Title) {
        if title.text.is_empty() || !self.entered.load(Ordering::SeqCst) {
            return;
        }
        if !std::mem::replace(&mut title.kept, true) {
            self.outlet.push(KEEP_TITLE);
        }
        self.outlet.push(format!("\x1b]2;{}\x07", escape(&title.text)).as_bytes());
    }

    /// Turns kitty's keyboard protocol on where the terminal has it. It is one entry on the stack of the alternate
    /// screen, however often it is turned on.
    fn turn_keyboard(&self) {
        if self.entered.load(Ordering::SeqCst) && self.tells_keys_apart.load(Ordering::SeqCst) {
            let again = self.pushed.swap(true, Ordering::SeqCst);
            self.outlet.push(if again { kitty::SET } else { kitty::PUSH });
        }
    }

    /// Restores the terminal if the screen is on it. A terminal that does not read gets its modes
    /// back all the same.
    pub(super) fn leave(&self) {
        if !self.entered.swap(false, Ordering::SeqCst) {
            return;
        }
        if self.pushed.swap(false, Ordering::SeqCst) {
            self.outlet.push(kitty::POP);
        }
        if self.shape.load(Ordering::SeqCst) != 0 {
            self.outlet.push(&cursor(0));
        }
        if std::mem::take(&mut self.title().kept) {
            self.outlet.push(TITLE_BACK);
        }
        self.outlet.push(LEAVE);
        self.outlet.drain(PATIENCE);
        let cooked = self.cooked.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let _ignored = unstoppable(|| tcsetattr(&self.tty, OptionalActions::Now, &cooked));
    }
}

/// Returns what gives the cursor a shape (DECSCUSR).
fn cursor(shape: u8) -> Vec<u8> {
    format!("\x1b[{shape} q").into_bytes()
}

/// Returns columns and rows of a terminal; 80 and 24 where it does not know.
pub(super) fn size_of(tty: impl AsFd) -> (u16, u16) {
    match tcgetwinsize(tty) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col, size.ws_row),
        Ok(_) | Err(_) => (80, 24),
    }
}

/// Runs something that the kernel answers with SIGTTOU while we are in the background. Blocked in
/// this thread, the signal is not sent and the call goes through; the mask is put back, so that no
/// child inherits it.
pub(super) fn unstoppable<T>(act: impl FnOnce() -> T) -> T {
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGTTOU);
    let before = mask.thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let result = act();
    if let Ok(before) = before {
        let _ignored = before.thread_set_mask();
    }
    result
}

/// Who restores what when something panics.
struct Guard {
    thread: ThreadId,
    core: Arc<Core>,
    events: Sender<UiEvent>,
}

static GUARD: Mutex<Option<Guard>> = Mutex::new(None);
static HOOK: Once = Once::new();

fn guard_against_panics(core: &Arc<Core>, events: Sender<UiEvent>) {
    let guard = Guard { thread: std::thread::current().id(), core: Arc::clone(core), events };
    *GUARD.lock().unwrap_or_else(PoisonError::into_inner) = Some(guard);
    HOOK.call_once(|| {
        let next = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if panic_is_contained() {
                return;
            }
            // Taken out while it is used: a panic in here must not come back to it.
            let guard = GUARD.lock().unwrap_or_else(PoisonError::into_inner).take();
            match guard {
                Some(guard) if guard.thread == std::thread::current().id() && !CONTAINED.get() => {
                    guard.core.leave();
                    next(info);
                }
                Some(guard) => {
                    let thread = std::thread::current().name().unwrap_or("a thread").to_owned();
                    let place = info.location().map(ToString::to_string).unwrap_or_default();
                    let what = message(info.payload());
                    let _ignored = guard.events.send(UiEvent::Note(format!("a fault in {thread} at {place}: {what}")));
                    *GUARD.lock().unwrap_or_else(PoisonError::into_inner) = Some(guard);
                }
                None => next(info),
            }
        }));
    });
}

thread_local! {
    /// A panic of this thread is caught and costs nothing but what it was about.
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Does something that may panic without ending the screen. Returns `None` if it did.
pub(super) fn contained<T>(act: impl FnOnce() -> T) -> Option<T> {
    CONTAINED.set(true);
    let result = std::panic::catch_unwind(AssertUnwindSafe(act));
    CONTAINED.set(false);
    result.ok()
}

/// Returns what a panic said.
fn message(payload: &dyn Any) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no reason given")
}

/// Writes the restoring sequences for a process that can no longer do it, if the terminal takes them.
pub(super) fn restore_for_another(output: impl AsFd) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut ready = [PollFd::new(&output, PollFlags::OUT)];
    let patience = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    if matches!(poll(&mut ready, Some(&patience)), Ok(1)) && ready[0].revents().contains(PollFlags::OUT) {
        // Where nothing was turned on, or is known of it, taking it back does nothing.
        let restore = [kitty::POP, &cursor(0), TITLE_BACK, LEAVE].concat();
        let _ignored = unstoppable(|| rustix::io::write(&output, &restore));
    }
    let _ignored = io::stdout().flush();
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::io::Read;
    use std::sync::mpsc::channel;

    use rustix::fs::{Mode, OFlags, open};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::LocalModes;

    use super::*;

    /// What a fault of ours leaves is a terminal that can be typed into.
    #[test]
    fn a_panic_of_the_loop_restores_the_terminal() {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = || File::from(open(&name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap());
        let tty = Tty { input: slave(), output: slave() };
        let (events, _heard) = channel();
        let terminal = Terminal::enter(&tty, true, true, events).unwrap();
        let cooked = |local: LocalModes| local.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        assert!(!cooked(tcgetattr(&tty.input).unwrap().local_modes));
        std::panic::catch_unwind(|| panic!("a fault of ours")).unwrap_err();
        assert!(cooked(tcgetattr(&tty.input).unwrap().local_modes), "before anything is unwound");
        drop(terminal);
        drop(tty);
        let mut printed = Vec::new();
        // A master whose slaves are all closed ends with EIO.
        let _ignored = File::from(master).read_to_end(&mut printed);
        assert!(printed.windows(LEAVE.len()).any(|part| part == LEAVE), "{}", printed.escape_ascii());
    }
}
