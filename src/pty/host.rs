//! One owned pseudo-terminal with its reader.
//!
//! A thread per PTY reads, answers queries, paints the screen and writes what is typed; it never waits
//! for anybody who draws. The master is close-on-exec from its first moment (`O_CLOEXEC` of
//! `posix_openpt(3)`), so no other child inherits it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::log::Log;
use super::screen::{Notice, Screen, Size};
use crate::lifecycle::clock::boottime;
use crate::lifecycle::tree::Captured;

/// Both ends of a new pseudo-terminal.
#[derive(Debug)]
pub struct PtyPair {
    master: OwnedFd,
    slave: OwnedFd,
}

impl PtyPair {
    /// Opens a pseudo-terminal of this size. The slave does not become our controlling terminal.
    ///
    /// # Errors
    /// When the system has no pseudo-terminal left.
    pub fn open(size: Size) -> io::Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = rustix::fs::open(name.as_c_str(), flags, Mode::empty())?;
        tcsetwinsize(&master, winsize(size))?;
        Ok(Self { master, slave })
    }

    /// Returns a copy of the slave for a child's standard stream.
    pub fn slave(&self) -> io::Result<OwnedFd> {
        Ok(rustix::io::fcntl_dupfd_cloexec(&self.slave, 3)?)
    }
}

const fn winsize(size: Size) -> Winsize {
    Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Who is told that the screen changed, and what the program asked of its terminal.
pub trait Sink: Send + 'static {
    /// The screen shows something new.
    fn changed(&mut self);
    /// A bell, a title.
    fn notice(&mut self, notice: Notice);
    /// Tells who waits to see what is printed.
    fn watch(&self) -> Watch {
        Watch::Closely
    }
}

/// Who waits to see what a session prints, where it prints much at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watch {
    /// Somebody looks: it is taken as it comes.
    Closely,
    /// Somebody looks, and has just pressed a key: it is taken as it comes, with pauses.
    Busy,
    /// Nobody: it waits for its turn.
    Not,
}

enum Ask {
    Write(Vec<u8>),
    Resume,
    Drain,
    Calm(bool),
    Close,
}

/// A pseudo-terminal whose reader runs.
#[derive(Debug)]
pub struct Pty {
    screen: Arc<Mutex<Screen>>,
    master: Arc<Mutex<Option<Arc<OwnedFd>>>>,
    asks: mpsc::Sender<Ask>,
    /// The reader's: it is let go of with it.
    wake: Weak<OwnedFd>,
    reader: Mutex<Option<JoinHandle<()>>>,
    /// Nobody holds the slave any more.
    ended: Arc<AtomicBool>,
    /// When something was read last: the bits of seconds on `CLOCK_BOOTTIME`.
    printed: Arc<AtomicU64>,
}

impl Pty {
    /// Starts the reader. Our copy of the slave is closed, or the end of the session would go unseen.
    ///
    /// # Errors
    /// When the system refuses a descriptor or a thread.
    pub fn start(pair: PtyPair, screen: Screen, log: Option<Log>, sink: impl Sink) -> io::Result<Self> {
        let PtyPair { master, slave } = pair;
        drop(slave);
        rustix::io::ioctl_fionbio(&master, true)?;
        let master = Arc::new(master);
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let screen = Arc::new(Mutex::new(screen));
        let (asks, inbox) = mpsc::channel();
        let ended = Arc::new(AtomicBool::new(false));
        let printed = Arc::new(AtomicU64::new(boottime().to_bits()));
        let mut reader = Reader {
            master: Arc::clone(&master),
            wake: Arc::clone(&wake),
            inbox,
            screen: Arc::clone(&screen),
            log,
            sink,
            typed: VecDeque::new(),
            ended: Arc::clone(&ended),
            printed: Arc::clone(&printed),
            calm: false,
            draining: false,
        };
        let thread =
            std::thread::Builder::new().name("pty".into()).stack_size(512 << 10).spawn(move || reader.run())?;
        let master = Arc::new(Mutex::new(Some(master)));
        let wake = Arc::downgrade(&wake);
        Ok(Self { screen, master, asks, wake, reader: Mutex::new(Some(thread)), ended, printed })
    }

    /// Returns the screen that the session paints.
    pub fn screen(&self) -> Arc<Mutex<Screen>> {
        Arc::clone(&self.screen)
    }

    /// Returns when the session printed last, or was started, in seconds on `CLOCK_BOOTTIME`.
    pub fn printed(&self) -> f64 {
        f64::from_bits(self.printed.load(Ordering::Acquire))
    }

    /// Types into the session; never waits for it to read.
    pub fn write(&self, bytes: Vec<u8>) {
        self.ask(Ask::Write(bytes));
    }

    /// Sets the size of terminal and screen.
    ///
    /// # Errors
    /// When the terminal was closed.
    pub fn resize(&self, size: Size) -> io::Result<()> {
        let master = lock(&self.master).clone().ok_or(io::ErrorKind::NotConnected)?;
        lock(&self.screen).resize(size);
        Ok(tcsetwinsize(&*master, winsize(size))?)
    }

    /// Closes the master, which hangs up the session. The captured tree is the proof that somebody
    /// looked before.
    ///
    /// ```compile_fail
    /// # use cookbook_tui::pty::Pty;
    /// fn careless(pty: &Pty) {
    ///     pty.hang_up(); // no capture
    /// }
    /// ```
    pub fn hang_up(&self, _captured: &Captured) {
        self.close();
    }

    /// Waits until the output has ended, at most this long: the bounded drain after an exit, for which nobody waits for a
    /// turn. With the slave in the hands of a grandchild it never ends.
    pub fn drain(&self, patience: Duration) {
        self.ask(Ask::Drain);
        let until = Instant::now() + patience;
        while !self.ended.load(Ordering::Acquire) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Reads again after the output had ended: somebody holds the slave anew.
    pub fn resume(&self) {
        self.ask(Ask::Resume);
    }

    /// Reads with pauses, or no longer: while a session is ended, what it prints without end costs those who end it
    /// no more than a part of a processor. Nothing is lost.
    pub fn calm(&self, is_calm: bool) {
        self.ask(Ask::Calm(is_calm));
    }

    fn close(&self) {
        self.ask(Ask::Close);
        if let Some(reader) = lock(&self.reader).take() {
            // The reader never blocks on anything but its poll, so this takes no time.
            reader.join().ok();
        }
        lock(&self.master).take();
    }

    fn ask(&self, ask: Ask) {
        if self.asks.send(ask).is_ok()
            && let Some(wake) = self.wake.upgrade()
        {
            rustix::io::write(&*wake, &1_u64.to_ne_bytes()).ok();
        }
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        self.close();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A reader that panicked costs one screen, never the program.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Reader<S> {
    master: Arc<OwnedFd>,
    wake: Arc<OwnedFd>,
    inbox: mpsc::Receiver<Ask>,
    screen: Arc<Mutex<Screen>>,
    log: Option<Log>,
    sink: S,
    typed: VecDeque<u8>,
    ended: Arc<AtomicBool>,
    printed: Arc<AtomicU64>,
    calm: bool,
    /// What is left is waited for.
    draining: bool,
}

/// Read at most this much before the screen is painted and the keyboard is looked at.
const CHUNK: usize = 64 << 10;
/// What the kernel may hold of a terminal's output is less than this many chunks (64 KiB in `tty_buffer.c`, and a
/// page of the line discipline).
const LEFT_CHUNKS: usize = 4;
/// The pause after what a session prints while it is being ended, where that is more than a few lines.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
const A_FEW_LINES: usize = 1 << 10;
/// How much longer the turn lasts than the work.
const RESTS: u32 = 4;
/// How long a reader waits before it looks whether it is its turn.
const TURN_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 4_000_000 };
/// What may wait to be read by the session; a program that never reads its input gets no more.
const TYPED_MAX: usize = 1 << 20;

/// The turns of all readers of the program.
static TURNS: Turns = Turns::new();

/// Who waits for a turn, in the order in which they came.
struct Turns(Mutex<(u64, VecDeque<u64>)>);

impl Turns {
    const fn new() -> Self {
        Self(Mutex::new((0, VecDeque::new())))
    }

    fn queue(&'static self) -> Ticket {
        let mut turns = lock(&self.0);
        turns.0 += 1;
        let number = turns.0;
        turns.1.push_back(number);
        Ticket { turns: self, number }
    }
}

/// A place among those who wait; it is given up with this.
struct Ticket {
    turns: &'static Turns,
    number: u64,
}

impl Ticket {
    fn is_first(&self) -> bool {
        lock(&self.turns.0).1.front() == Some(&self.number)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        lock(&self.turns.0).1.retain(|number| *number != self.number);
    }
}

enum Read {
    Some(usize),
    Nothing,
    Ended,
}

impl<S: Sink> Reader<S> {
    fn run(&mut self) {
        let mut buffer = vec![0_u8; CHUNK];
        loop {
            if !self.wait(self.ended.load(Ordering::Relaxed)) {
                break;
            }
            match self.read(&mut buffer) {
                Read::Some(length) => {
                    let bytes = &buffer[..length];
                    if length > A_FEW_LINES { self.take_much(bytes) } else { self.take(bytes) }
                }
                Read::Nothing => {}
                Read::Ended => self.ended.store(true, Ordering::Release),
            }
        }
        // What was printed before the close is still in the kernel. Whoever lives on may print for ever.
        for _ in 0..LEFT_CHUNKS {
            let Read::Some(length) = self.read(&mut buffer) else { break };
            self.take(&buffer[..length]);
        }
    }

    /// Waits for output, for room to type, or for an ask; `false` to end.
    fn wait(&mut self, ended: bool) -> bool {
        let interest = if self.typed.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT };
        let mut fds = vec![PollFd::new(&*self.wake, PollFlags::IN)];
        if !ended {
            fds.push(PollFd::new(&*self.master, interest));
        }
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return false,
        }
        let mut count = [0_u8; 8];
        rustix::io::read(&*self.wake, &mut count).ok();
        loop {
            match self.inbox.try_recv() {
                Ok(Ask::Write(bytes)) if self.typed.len() + bytes.len() <= TYPED_MAX => self.typed.extend(bytes),
                Ok(Ask::Write(_)) => {}
                Ok(Ask::Resume) => {
                    self.draining = false;
                    self.ended.store(false, Ordering::Release);
                }
                Ok(Ask::Drain) => self.draining = true,
                Ok(Ask::Calm(is_calm)) => self.calm = is_calm,
                Ok(Ask::Close) | Err(mpsc::TryRecvError::Disconnected) => return false,
                Err(mpsc::TryRecvError::Empty) => break,
            }
        }
        self.type_in();
        true
    }

    /// Lets others work; whoever asks for something ends it. Returns whether somebody does.
    fn wait_for_ask(&self, time: &Timespec) -> bool {
        poll(&mut [PollFd::new(&*self.wake, PollFlags::IN)], Some(time)).is_ok_and(|count| count > 0)
    }

    /// Takes more than a few lines as soon as those who wait for something else let it.
    fn take_much(&mut self, bytes: &[u8]) {
        if self.calm {
            self.take(bytes);
            self.wait_for_ask(&PAUSE);
        } else if self.draining {
            self.take(bytes);
        } else {
            match self.sink.watch() {
                Watch::Closely => self.take(bytes),
                Watch::Busy => self.take_and_rest(bytes),
                Watch::Not => self.take_in_turn(bytes),
            }
        }
    }

    /// Takes what nobody sees: one reader of the whole program at a time, one after the other, and most of the time none.
    /// However many sessions print without end, they have a fifth of a processor together (and what their programs need
    /// to print so much, which is more), and who types waits for none of them.
    fn take_in_turn(&mut self, bytes: &[u8]) {
        let ticket = TURNS.queue();
        while !ticket.is_first() {
            if self.wait_for_ask(&TURN_PAUSE) {
                // Who is asked for something does not wait.
                return self.take(bytes);
            }
        }
        self.take_and_rest(bytes);
    }

    fn take_and_rest(&mut self, bytes: &[u8]) {
        let begin = Instant::now();
        self.take(bytes);
        if let Ok(rest) = Timespec::try_from(begin.elapsed() * RESTS) {
            self.wait_for_ask(&rest);
        }
    }

    fn type_in(&mut self) {
        while !self.typed.is_empty() {
            let (front, _) = self.typed.as_slices();
            match rustix::io::write(self.master.as_fd(), front) {
                Ok(written) => drop(self.typed.drain(..written)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => return self.typed.clear(),
            }
        }
    }

    /// Reads until the buffer is full or nothing more is there.
    fn read(&self, buffer: &mut [u8]) -> Read {
        let mut length = 0;
        while length < buffer.len() {
            match rustix::io::read(self.master.as_fd(), &mut buffer[length..]) {
                // EIO: no process holds the slave. Not an exit of the workload: it may open it again.
                Ok(0) | Err(Errno::IO) if length == 0 => return Read::Ended,
                Ok(0) | Err(Errno::IO | Errno::AGAIN) => break,
                Ok(read) => length += read,
                Err(Errno::INTR) => {}
                Err(_) => return Read::Ended,
            }
        }
        if length == 0 { Read::Nothing } else { Read::Some(length) }
    }

    fn take(&mut self, bytes: &[u8]) {
        let read_at = boottime();
        if let Some(log) = self.log.as_mut() {
            log.append(bytes);
        }
        let (replies, notices) = {
            let mut screen = lock(&self.screen);
            screen.process(bytes);
            (screen.take_replies(), screen.take_notices())
        };
        // After the screen: whoever looks at it for that moment's sake sees what was printed.
        self.printed.store(read_at.to_bits(), Ordering::Release);
        self.typed.extend(replies);
        self.type_in();
        for notice in notices {
            self.sink.notice(notice);
        }
        self.sink.changed();
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::pty::screen::HistoryLimit;

    struct Nobody;

    impl Sink for Nobody {
        fn changed(&mut self) {}
        fn notice(&mut self, _: Notice) {}
    }

    const PATIENCE: Duration = Duration::from_secs(30);

    fn start() -> (Pty, std::fs::File) {
        start_with(Nobody)
    }

    fn start_with(sink: impl Sink) -> (Pty, std::fs::File) {
        let size = Size::clamped(5, 40);
        let pair = PtyPair::open(size).unwrap();
        let slave = std::fs::File::from(pair.slave().unwrap());
        let pty = Pty::start(pair, Screen::new(size, HistoryLimit::default()), None, sink).unwrap();
        (pty, slave)
    }

    fn shows(pty: &Pty, text: &str) -> bool {
        let mut shown = String::new();
        let screen = pty.screen();
        let screen = screen.lock().unwrap();
        for row in 0..5 {
            screen.visit_row(0, row, &mut |_, text, _, _| shown.push_str(text));
        }
        shown.contains(text)
    }

    fn eventually(what: &str, is_so: impl Fn() -> bool) {
        let until = Instant::now() + PATIENCE;
        while !is_so() {
            assert!(Instant::now() < until, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn what_is_printed_is_no_older_than_what_was_typed_before() {
        let (pty, mut slave) = start();
        for _ in 0..50 {
            let before = boottime();
            io::Write::write_all(&mut slave, b"x").unwrap();
            eventually("it is read", || (before..=boottime()).contains(&pty.printed()));
        }
    }

    /// A survivor that holds the slave may print for ever; the session is closed all the same.
    #[test]
    fn a_close_does_not_wait_for_the_end_of_the_output() {
        let wake = Arc::new(eventfd(1, EventfdFlags::NONBLOCK).unwrap());
        let (asks, inbox) = mpsc::channel();
        let size = Size::clamped(5, 40);
        let mut reader = Reader {
            // There is always more to read.
            master: Arc::new(std::fs::File::open("/dev/zero").unwrap().into()),
            wake,
            inbox,
            screen: Arc::new(Mutex::new(Screen::new(size, HistoryLimit::default()))),
            log: None,
            sink: Nobody,
            typed: VecDeque::new(),
            ended: Arc::default(),
            printed: Arc::default(),
            calm: false,
            draining: false,
        };
        asks.send(Ask::Close).unwrap();
        let (closed, is_closed) = mpsc::channel();
        std::thread::spawn(move || {
            reader.run();
            closed.send(()).unwrap();
        });
        is_closed.recv_timeout(PATIENCE).expect("it reads on");
    }

    struct Unseen;

    impl Sink for Unseen {
        fn changed(&mut self) {}
        fn notice(&mut self, _: Notice) {}
        fn watch(&self) -> Watch {
            Watch::Not
        }
    }

    /// Six print without end and nobody looks; who prints less is read all the same, and each of them is closed.
    #[test]
    fn who_floods_unseen_keeps_nobody_waiting() {
        use std::io::Write as _;
        let flooded: Vec<_> = (0..6)
            .map(|_| {
                let (pty, mut slave) = start_with(Unseen);
                let printer = std::thread::spawn(move || while slave.write_all(&[b'x'; 4096]).is_ok() {});
                (pty, printer)
            })
            .collect();
        let (pty, mut slave) = start_with(Unseen);
        slave.write_all(&vec![b'x'; 300_000]).unwrap();
        slave.write_all(b"\r\nthe end").unwrap();
        eventually("the end is not read", || shows(&pty, "the end"));
        for (pty, printer) in flooded {
            drop(pty);
            printer.join().unwrap();
        }
    }

    /// It is another's turn, and stays so: much that nobody sees waits, until somebody waits for it.
    #[test]
    fn whoever_is_waited_for_waits_for_no_turn() {
        use std::io::Write as _;
        let first = TURNS.queue();
        eventually("those before have had theirs", || first.is_first());
        let (pty, mut slave) = start_with(Unseen);
        let printer = std::thread::spawn(move || {
            slave.write_all(&vec![b'x'; 600_000]).unwrap();
            slave.write_all(b"\r\nthe end").unwrap();
        });
        std::thread::sleep(Duration::from_millis(100));
        assert!(!shows(&pty, "x"), "it has not waited");
        pty.drain(PATIENCE);
        assert!(shows(&pty, "the end"));
        assert!(first.is_first(), "the turn is still another's");
        printer.join().unwrap();
    }

    #[test]
    fn who_reads_with_pauses_reads_everything() {
        use std::io::Write as _;
        let (pty, mut slave) = start();
        pty.calm(true);
        let printer = std::thread::spawn(move || {
            slave.write_all(&vec![b'x'; 600_000]).unwrap();
            slave.write_all(b"\r\nthe end").unwrap();
            slave
        });
        eventually("the end is not read", || shows(&pty, "the end"));
        drop(printer.join().unwrap());
    }
}
