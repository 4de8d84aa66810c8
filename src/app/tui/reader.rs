//! The input thread: bytes of the terminal to events, and the notice that the terminal is gone.
//!
//! It reads only after poll(2) said that there is something, and never while it is paused: a read
//! from the background would take the shell's input or stop the whole program.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::decode::Decoder;
use super::seam::UiEvent;

/// How long a lone ESC may be the start of a sequence.
const ESCAPE: Duration = Duration::from_millis(30);
/// How long to wait before another try, while reading fails without a hang-up.
const RETRY: Duration = Duration::from_millis(100);

/// The handle of the input thread.
#[derive(Debug)]
pub(super) struct Reader {
    gate: Arc<Gate>,
    wake: UnixStream,
}

#[derive(Debug, Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    paused: bool,
    parked: bool,
    ended: bool,
}

impl Reader {
    /// Starts the thread. `on_hangup` is called once when the terminal is gone; `asked` says that the terminal was
    /// asked for its background.
    pub(super) fn start(
        tty: File,
        events: Sender<UiEvent>,
        asked: bool,
        on_hangup: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let (wake, woken) = UnixStream::pair()?;
        let gate = Arc::new(Gate::default());
        let shared = Arc::clone(&gate);
        std::thread::Builder::new().name("terminal input".into()).spawn(move || {
            let gone = read_events(tty, &woken, &shared, &events, Decoder::new(asked));
            shared.set(|state| (state.parked, state.ended) = (true, true));
            if gone {
                on_hangup();
                let _ignored = events.send(UiEvent::Hangup);
            }
        })?;
        Ok(Self { gate, wake })
    }

    /// Stops reading, and waits until that is so, at most for `limit`. Returns whether it is.
    pub(super) fn pause(&self, limit: Duration) -> bool {
        self.gate.set(|state| state.paused = true);
        self.ring();
        let state = self.gate.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.gate.changed.wait_timeout_while(state, limit, |state| !state.parked);
        waited.unwrap_or_else(PoisonError::into_inner).0.parked
    }

    /// Reads again.
    pub(super) fn resume(&self) {
        self.gate.set(|state| state.paused = false);
        self.ring();
    }

    fn ring(&self) {
        let _ignored = (&self.wake).write(b"!");
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.gate.set(|state| state.ended = true);
        self.ring();
    }
}

impl Gate {
    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Returns whether the thread is to pause, and whether it is to end.
    fn orders(&self) -> (bool, bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.parked != state.paused {
            state.parked = state.paused;
            self.changed.notify_all();
        }
        (state.paused, state.ended)
    }
}

/// Reads until it is told to end (`false`) or the terminal is gone (`true`).
fn read_events(mut tty: File, woken: &UnixStream, gate: &Gate, events: &Sender<UiEvent>, mut decoder: Decoder) -> bool {
    // Blocked, SIGTTIN turns a read from the background into EIO (tty_jobctrl.c); otherwise it would
    // stop the program together with everything that it reads from its sessions.
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGTTIN);
    let _ignored = mask.thread_block();
    let mut buffer = [0; 4096];
    loop {
        let (paused, ended) = gate.orders();
        if ended {
            return false;
        }
        let interest = if paused { PollFlags::empty() } else { PollFlags::IN };
        let timeout = decoder.is_undecided().then(|| timespec(ESCAPE));
        let mut fds = [PollFd::new(&tty, interest), PollFd::new(woken, PollFlags::IN)];
        let count = match poll(&mut fds, timeout.as_ref()) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return true,
        };
        let [tty_is, woken_is] = [fds[0].revents(), fds[1].revents()];
        if count == 0 {
            send(events, decoder.flush());
            continue;
        }
        if !woken_is.is_empty() {
            let _ignored = (&*woken).read(&mut [0; 64]);
            continue;
        }
        if tty_is.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return true;
        }
        if tty_is.contains(PollFlags::IN) {
            match tty.read(&mut buffer) {
                Ok(0) => std::thread::sleep(RETRY),
                Ok(length) => {
                    send(events, decoder.feed(&buffer[..length]));
                    if let Some(background) = decoder.take_background() {
                        let _ignored = events.send(UiEvent::Background(background));
                    }
                    if decoder.take_keyboard() {
                        let _ignored = events.send(UiEvent::Keyboard);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // We are in the background; whoever brings us back says so.
                Err(_) => std::thread::sleep(RETRY),
            }
        }
    }
}

fn send(events: &Sender<UiEvent>, inputs: Vec<crossterm::event::Event>) {
    for input in inputs {
        let _ignored = events.send(UiEvent::Input(input));
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: 0, tv_nsec: i64::from(duration.subsec_nanos()) }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::mpsc::{self, Receiver};

    use crossterm::event::{Event, KeyCode, KeyEvent};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::*;

    fn open() -> (File, Reader, Receiver<UiEvent>) {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
        let slave = rustix::fs::open(name, flags, rustix::fs::Mode::empty()).unwrap();
        let mut raw = rustix::termios::tcgetattr(&slave).unwrap();
        raw.make_raw();
        rustix::termios::tcsetattr(&slave, rustix::termios::OptionalActions::Now, &raw).unwrap();
        let (sender, events) = mpsc::channel();
        let reader = Reader::start(File::from(slave), sender, true, || {}).unwrap();
        (File::from(master), reader, events)
    }

    fn key(events: &Receiver<UiEvent>) -> KeyCode {
        let event = events.recv_timeout(Duration::from_secs(10)).unwrap();
        let UiEvent::Input(Event::Key(KeyEvent { code, .. })) = event else { panic!("not a key: {event:?}") };
        code
    }

    #[test]
    fn keys_arrive_also_a_lone_escape() {
        let (mut master, _reader, events) = open();
        master.write_all(b"a\x1b[A\x1b").unwrap();
        assert_eq!([key(&events), key(&events), key(&events)], [KeyCode::Char('a'), KeyCode::Up, KeyCode::Esc]);
        master.write_all(b"\x1b]11;rgb:ff/ff/ff\x07b").unwrap();
        assert_eq!(key(&events), KeyCode::Char('b'));
        let event = events.recv_timeout(Duration::from_secs(10)).unwrap();
        assert!(matches!(event, UiEvent::Background([255, 255, 255])), "{event:?}");
    }

    #[test]
    fn more_than_one_read_arrives_whole() {
        let (mut master, _reader, events) = open();
        let writer = std::thread::spawn(move || {
            master.write_all(&vec![b'k'; 50_000]).unwrap();
            master
        });
        for _ in 0..50_000 {
            assert_eq!(key(&events), KeyCode::Char('k'));
        }
        drop(writer.join().unwrap());
    }

    #[test]
    fn a_paused_reader_leaves_the_input_alone() {
        let (mut master, reader, events) = open();
        assert!(reader.pause(Duration::from_secs(10)));
        master.write_all(b"x").unwrap();
        assert!(events.recv_timeout(Duration::from_millis(100)).is_err());
        reader.resume();
        assert_eq!(key(&events), KeyCode::Char('x'));
    }

    #[test]
    fn a_hang_up_is_noticed_even_while_paused() {
        for paused in [false, true] {
            let (master, reader, events) = open();
            if paused {
                assert!(reader.pause(Duration::from_secs(10)));
            }
            drop(master);
            assert!(matches!(events.recv_timeout(Duration::from_secs(10)), Ok(UiEvent::Hangup)), "{paused}");
        }
    }
}
