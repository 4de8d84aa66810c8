//! The loop: hear, update, act, draw.
//!
//! Called by `main` on a thread of its own choice, which it keeps until the screen ends. The loop
//! never waits for the terminal (frames go through `outlet`), nor for the runtime (no method of
//! [`Cockpit`] blocks). It drains what has come before it draws, at most about sixty times a second,
//! and a frame in which nothing changed writes nothing.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use crossterm::event::Event as Input;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::display::Display;
use super::job::Listening;
use super::model::{Model, ScreenFacts, Shown};
use super::reader::Reader;
use super::seam::{Cockpit, Effect, Options, Outcome, UiEvent};
use super::signals::{Alarm, Listener};
use super::terminal::{Terminal, Tty, contained};
use super::update::update;
use super::view::{self, Surface};
use crate::pty::screen::Screen;

/// Shortest time between two frames.
const FRAME: Duration = Duration::from_millis(16);
/// How long events are taken in before a frame is drawn all the same.
const BATCH: Duration = Duration::from_millis(8);
/// How long the input thread may take to let go of the terminal.
const PAUSE: Duration = Duration::from_millis(300);

/// Shows the screen until a person quits, the terminal hangs up, or a signal ends it.
///
/// `sender` is the other end of `events`, for what the screen itself hears: keys and signals.
///
/// # Errors
/// Where there is no terminal, or a thread cannot be started. The terminal is restored by then.
pub fn run(
    cockpit: &dyn Cockpit,
    events: Receiver<UiEvent>,
    sender: Sender<UiEvent>,
    options: Options,
) -> io::Result<Outcome> {
    let tty = Tty::open()?;
    let terminal = Terminal::enter(&tty, options.mouse, options.notifier.speaks(), sender.clone())?;
    let alarm = Alarm::start(terminal.core(), options.on_stuck)?;
    let _signals = Listener::start(tty.input.try_clone()?, sender.clone(), alarm.clone())?;
    let hung_up = alarm.clone();
    let reader = Reader::start(tty.input, sender.clone(), move || hung_up.set(Outcome::Hangup))?;
    let link = options.link.map(|link| link.listen(sender, alarm.clone())).transpose()?;
    let shell = Job { terminal, reader, link };
    let size = shell.terminal.size();
    let display = Display::new(shell.terminal.outlet().clone()).notifying(options.notifier);
    let model = Model::new(size, options.theme, options.escape, Instant::now());
    let outcome = Loop::new(cockpit, events, &shell, display, model).run();
    drop(shell);
    alarm.disarm();
    Ok(outcome)
}

/// What the loop asks of the terminal besides showing frames.
trait Shell {
    /// Lets the shell have the terminal. Returns whether it has it.
    fn suspend(&self) -> bool;
    /// Takes the terminal back; `left` says whether it was given away by us. Returns its size.
    fn resume(&self, left: bool) -> (u16, u16);
}

struct Job {
    terminal: Terminal,
    reader: Reader,
    link: Option<Listening>,
}

impl Shell for Job {
    fn suspend(&self) -> bool {
        let Some(link) = &self.link else { return false };
        if !link.may_suspend() {
            return false;
        }
        self.reader.pause(PAUSE);
        self.terminal.leave();
        link.suspended();
        true
    }

    fn resume(&self, left: bool) -> (u16, u16) {
        // A terminal that cannot be set is gone; the reader notices.
        let _ignored = if left { self.terminal.reenter() } else { self.terminal.assert() };
        self.reader.resume();
        self.terminal.size()
    }
}

struct Loop<'a> {
    cockpit: &'a dyn Cockpit,
    events: Receiver<UiEvent>,
    shell: &'a dyn Shell,
    display: Display,
    model: Model,
    /// Something may look other than the last frame.
    dirty: bool,
    /// The shell has the terminal.
    suspended: bool,
    drawn_at: Option<Instant>,
    /// What the program that is looked at wrote to the clipboard, and nobody has decided about.
    written: Option<(String, Vec<u8>)>,
    /// What goes to the clipboard with the next frame: a terminal that is busy takes the last one only.
    forwarded: Option<Vec<u8>>,
    /// What can be confirmed once the terminal has taken the frame that is under way.
    in_flight: Option<Shown>,
}

impl<'a> Loop<'a> {
    fn new(
        cockpit: &'a dyn Cockpit,
        events: Receiver<UiEvent>,
        shell: &'a dyn Shell,
        display: Display,
        model: Model,
    ) -> Self {
        Self {
            cockpit,
            events,
            shell,
            display,
            model,
            dirty: true,
            suspended: false,
            drawn_at: None,
            written: None,
            forwarded: None,
            in_flight: None,
        }
    }

    fn run(mut self) -> Outcome {
        loop {
            if let Some(outcome) = self.hear() {
                return outcome;
            }
            let paced = self.drawn_at.is_none_or(|at| at.elapsed() >= FRAME);
            if self.dirty && paced && !self.suspended && self.display.is_idle() {
                self.draw();
            }
        }
    }

    /// Waits for an event, then takes in all that have come.
    fn hear(&mut self) -> Option<Outcome> {
        let first = match self.patience() {
            Some(patience) => match self.events.recv_timeout(patience) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) => UiEvent::Tick,
                Err(RecvTimeoutError::Disconnected) => return Some(Outcome::Hangup),
            },
            None => match self.events.recv() {
                Ok(event) => event,
                Err(_) => return Some(Outcome::Hangup),
            },
        };
        let until = Instant::now() + BATCH;
        let mut next = Some(first);
        while let Some(event) = next {
            if let Some(outcome) = self.take(event) {
                return Some(outcome);
            }
            next = if Instant::now() < until { self.events.try_recv().ok() } else { None };
        }
        None
    }

    /// Returns how long to wait for an event; `None` is for ever.
    fn patience(&self) -> Option<Duration> {
        let now = Instant::now();
        // While the terminal is busy with a frame, its end is an event.
        let frame = (self.dirty && !self.suspended && self.display.is_idle())
            .then(|| self.drawn_at.map_or(now, |at| at + FRAME));
        let next = frame.into_iter().chain(self.model.deadline()).min()?;
        Some(next.saturating_duration_since(now))
    }

    fn take(&mut self, event: UiEvent) -> Option<Outcome> {
        match event {
            UiEvent::Hangup => return Some(Outcome::Hangup),
            UiEvent::Terminate => return Some(Outcome::Terminate),
            UiEvent::ScreenChanged => {
                // Most of these say what is known already, or are about another session.
                let changed = self.look();
                self.forward();
                if !changed {
                    return None;
                }
            }
            UiEvent::Drawn => {
                if let Some(shown) = self.in_flight.take() {
                    self.model.note_shown(&shown, Instant::now());
                }
                return None;
            }
            UiEvent::Resume => {
                let (cols, rows) = self.shell.resume(self.suspended);
                self.suspended = false;
                self.display.forget();
                return self.update(UiEvent::Input(Input::Resize(cols, rows)));
            }
            UiEvent::Input(_) => {
                // What was written before the key is decided about as it was before the key.
                self.look();
                self.forward();
            }
            UiEvent::Sessions(_)
            | UiEvent::Orphans(_)
            | UiEvent::Tree { .. }
            | UiEvent::Answered { .. }
            | UiEvent::Happened(_)
            | UiEvent::Clipboard { .. }
            | UiEvent::Recipes(_)
            | UiEvent::Note(_)
            | UiEvent::Tick
            | UiEvent::Suspend => {}
        }
        self.update(event)
    }

    fn update(&mut self, event: UiEvent) -> Option<Outcome> {
        self.dirty = true;
        for effect in update(&mut self.model, event, Instant::now()) {
            match effect {
                Effect::Run { ticket, command } => self.cockpit.run(ticket, command),
                Effect::Input { session, bytes } => self.cockpit.input(&session, bytes),
                Effect::Resize { session, rows, cols } => self.cockpit.resize(&session, rows, cols),
                Effect::Select(session) => {
                    self.cockpit.select(session.as_deref());
                    self.look();
                }
                Effect::Copy(text) => self.display.copy(&text),
                Effect::Forward(bytes) => self.forwarded = Some(bytes),
                Effect::Notify(said) => self.display.notify(&said),
                Effect::Redraw => self.display.forget(),
                Effect::Suspend if self.suspended => {}
                Effect::Suspend => {
                    self.suspended = self.shell.suspend();
                    if !self.suspended {
                        let text = "cannot be suspended: no shell with job control started this program";
                        self.update(UiEvent::Note(text.to_owned()));
                    }
                }
                Effect::Quit => return Some(Outcome::Quit),
            }
        }
        self.display.report_motion(self.model.wants_motion());
        None
    }

    /// Takes in what the selected session's emulator is like. Returns whether it has changed.
    fn look(&mut self) -> bool {
        let facts = self.model.selected.as_ref().and_then(|session| {
            let screen = self.cockpit.screen(session)?;
            // An emulator that panics poisons its lock and is not looked at any more.
            contained(|| screen.lock().ok().map(|mut screen| (facts(session, &screen), screen.take_clipboard())))?
        });
        let (facts, written) = facts.unzip();
        if let (Some(bytes), Some(session)) = (written.flatten(), &self.model.selected) {
            self.written = Some((session.clone(), bytes));
        }
        self.model.observe(facts)
    }

    /// Hands on what was written to the clipboard.
    fn forward(&mut self) {
        if let Some((session, bytes)) = self.written.take() {
            self.update(UiEvent::Clipboard { session, bytes });
        }
    }

    fn draw(&mut self) {
        self.look();
        self.forward();
        if let Some(bytes) = self.forwarded.take() {
            self.display.copy_bytes(&bytes);
        }
        let (cols, rows) = self.model.size;
        let blank = || Buffer::empty(Rect::new(0, 0, cols, rows));
        let screen = self.model.selected.as_ref().and_then(|session| self.cockpit.screen(session));
        let with_screen = screen.and_then(|screen| {
            contained(|| {
                let screen = screen.lock().ok()?;
                let mut buffer = blank();
                let cursor = view::draw(&self.model, Some(&*screen as &dyn Surface), &mut buffer);
                Some((buffer, cursor))
            })?
        });
        // Without a screen, or with one whose emulator has panicked: it costs this one screen.
        let (buffer, cursor) = with_screen.unwrap_or_else(|| {
            let mut buffer = blank();
            let cursor = view::draw(&self.model, None, &mut buffer);
            (buffer, cursor)
        });
        let shown = self.model.shown();
        let wrote = self.display.show(buffer, cursor);
        if wrote {
            self.in_flight = shown;
        } else if let Some(shown) = shown {
            self.model.note_shown(&shown, Instant::now());
        }
        self.dirty = false;
        if wrote {
            self.drawn_at = Some(Instant::now());
        }
    }
}

fn facts(session: &str, screen: &Screen) -> ScreenFacts {
    ScreenFacts {
        session: session.to_owned(),
        modes: screen.modes(),
        rows: screen.size().rows,
        cursor_row: screen.cursor().0,
        history: screen.history_rows(),
        generation: screen.generation(),
        title: screen.title().to_owned(),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::io::Write;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::sync::{Arc, Mutex};
    use std::thread;

    use crossterm::event::KeyCode;

    use super::*;
    use crate::app::command::{Answer, Command};
    use crate::app::config::Chord;
    use crate::app::tui::fixtures;
    use crate::app::tui::outlet::Outlet;
    use crate::app::tui::seam::Ticket;
    use crate::app::tui::theme::Theme;

    const LONG: Duration = Duration::from_secs(20);

    /// Tells the test what it was asked to do.
    struct FakeCockpit(Mutex<Sender<Effect>>);

    impl FakeCockpit {
        fn say(&self, effect: Effect) {
            let _ignored = self.0.lock().unwrap().send(effect);
        }
    }

    impl Cockpit for FakeCockpit {
        fn run(&self, ticket: Ticket, command: Command) {
            self.say(Effect::Run { ticket, command });
        }

        fn input(&self, session: &str, bytes: Vec<u8>) {
            self.say(Effect::Input { session: session.into(), bytes });
        }

        fn resize(&self, session: &str, rows: u16, cols: u16) {
            self.say(Effect::Resize { session: session.into(), rows, cols });
        }

        fn select(&self, session: Option<&str>) {
            self.say(Effect::Select(session.map(str::to_owned)));
        }

        fn screen(&self, _session: &str) -> Option<Arc<Mutex<Screen>>> {
            None
        }
    }

    /// Counts; a shell is there if it was made with `true`.
    #[derive(Default)]
    struct FakeShell {
        there: bool,
        resumed: AtomicUsize,
    }

    impl Shell for FakeShell {
        fn suspend(&self) -> bool {
            self.there
        }

        fn resume(&self, _left: bool) -> (u16, u16) {
            self.resumed.fetch_add(1, Ordering::SeqCst);
            (100, 30)
        }
    }

    /// A terminal that counts what it takes, and takes nothing while it is stalled.
    #[derive(Clone, Default)]
    struct Sink {
        taken: Arc<Mutex<Vec<u8>>>,
        stalled: Arc<Mutex<()>>,
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            drop(self.stalled.lock().unwrap());
            self.taken.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Sink {
        fn text(&self) -> String {
            String::from_utf8_lossy(&self.taken.lock().unwrap()).into_owned()
        }

        /// Waits until the terminal shows a text.
        fn wait_for(&self, text: &str) {
            let until = Instant::now() + LONG;
            while !self.text().contains(text) {
                assert!(Instant::now() < until, "no {text:?} in {:?}", self.text());
                thread::sleep(Duration::from_millis(2));
            }
        }

        /// Waits until nothing comes any more.
        fn settle(&self) -> usize {
            let mut before = usize::MAX;
            loop {
                let now = self.taken.lock().unwrap().len();
                if now == before {
                    return now;
                }
                before = now;
                thread::sleep(Duration::from_millis(100));
            }
        }
    }

    /// Ends the loop of a test that has failed.
    struct EndsAnyway(Sender<UiEvent>);

    impl Drop for EndsAnyway {
        fn drop(&mut self) {
            let _ignored = self.0.send(UiEvent::Hangup);
        }
    }

    /// Runs a loop and hands its ends to a test; the test must end it.
    fn with(there: bool, test: impl FnOnce(&Sender<UiEvent>, &Receiver<Effect>, &Sink, &FakeShell)) -> Outcome {
        let (sender, events) = channel();
        let (say, said) = channel();
        let cockpit = FakeCockpit(Mutex::new(say));
        let shell = FakeShell { there, ..FakeShell::default() };
        let sink = Sink::default();
        let drawn = sender.clone();
        let outlet = Outlet::start(sink.clone(), move || {
            let _ignored = drawn.send(UiEvent::Drawn);
        });
        thread::scope(|scope| {
            let running = scope.spawn(|| {
                let model = Model::new((100, 30), Theme::DARK, Chord::default(), Instant::now());
                Loop::new(&cockpit, events, &shell, Display::new(outlet), model).run()
            });
            let end = EndsAnyway(sender.clone());
            test(&sender, &said, &sink, &shell);
            drop(end);
            running.join().unwrap()
        })
    }

    fn key(code: KeyCode) -> UiEvent {
        UiEvent::Input(Input::Key(code.into()))
    }

    #[test]
    fn an_idle_screen_writes_nothing() {
        let outcome = with(false, |sender, _, sink, _| {
            sender.send(UiEvent::Sessions(fixtures::sessions())).unwrap();
            sink.wait_for("qwen-coder-32b");
            let before = sink.settle();
            for _ in 0..20 {
                sender.send(UiEvent::Sessions(fixtures::sessions())).unwrap();
                sender.send(UiEvent::ScreenChanged).unwrap();
                sender.send(UiEvent::Tick).unwrap();
                thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(sink.settle(), before);
            sender.send(key(KeyCode::Char('j'))).unwrap();
            while sink.settle() == before {}
            sender.send(UiEvent::Terminate).unwrap();
        });
        assert_eq!(outcome, Outcome::Terminate);
    }

    #[test]
    fn a_flood_of_output_delays_no_key() {
        let outcome = with(false, |sender, said, sink, _| {
            sender.send(UiEvent::Sessions(fixtures::sessions())).unwrap();
            sink.wait_for("qwen-coder-32b");
            while said.recv_timeout(Duration::from_millis(100)).is_ok() {}
            for _ in 0..300_000 {
                sender.send(UiEvent::ScreenChanged).unwrap();
            }
            sender.send(key(KeyCode::Char('j'))).unwrap();
            let asked = Instant::now();
            let selected = Effect::Select(Some("serve-00000002".into()));
            assert_eq!(said.recv_timeout(LONG).unwrap(), selected);
            assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
            sender.send(UiEvent::Hangup).unwrap();
        });
        assert_eq!(outcome, Outcome::Hangup);
    }

    #[test]
    fn a_stalled_terminal_delays_neither_a_key_nor_the_end() {
        let outcome = with(false, |sender, said, sink, _| {
            sender.send(UiEvent::Sessions(fixtures::sessions())).unwrap();
            sink.wait_for("qwen-coder-32b");
            while said.recv_timeout(Duration::from_millis(100)).is_ok() {}
            let hold = sink.stalled.lock().unwrap();
            for n in 0..50 {
                sender.send(UiEvent::Note(format!("note {n}"))).unwrap();
            }
            sender.send(key(KeyCode::Char('x'))).unwrap();
            assert!(matches!(said.recv_timeout(LONG).unwrap(), Effect::Run { .. }));
            sender.send(UiEvent::Terminate).unwrap();
            thread::sleep(Duration::from_millis(50));
            drop(hold);
        });
        assert_eq!(outcome, Outcome::Terminate);
    }

    #[test]
    fn what_is_confirmed_was_on_the_terminal() {
        let outcome = with(false, |sender, said, sink, _| {
            sender.send(UiEvent::Sessions(fixtures::sessions())).unwrap();
            sink.wait_for("qwen-coder-32b");
            while said.recv_timeout(Duration::from_millis(100)).is_ok() {}
            sender.send(key(KeyCode::Char('x'))).unwrap();
            let Ok(Effect::Run { ticket, .. }) = said.recv_timeout(LONG) else { panic!("no dry run") };
            let hold = sink.stalled.lock().unwrap();
            let result = Ok(Answer::Receipt(Box::new(fixtures::plan())));
            sender.send(UiEvent::Answered { ticket, result }).unwrap();
            sender.send(key(KeyCode::Enter)).unwrap();
            assert!(said.recv_timeout(Duration::from_millis(300)).is_err(), "the terminal has not shown it");
            drop(hold);
            sink.wait_for("signalled");
            sink.settle();
            sender.send(key(KeyCode::Enter)).unwrap();
            let Ok(Effect::Run { command: Command::Stop(request), .. }) = said.recv_timeout(LONG) else {
                panic!("no stop");
            };
            assert_eq!(request.confirm.map(|shown| shown.len()), Some(3));
            sender.send(UiEvent::Terminate).unwrap();
        });
        assert_eq!(outcome, Outcome::Terminate);
    }

    #[test]
    fn while_the_shell_has_the_terminal_nothing_is_written() {
        let outcome = with(true, |sender, _, sink, shell| {
            sender.send(UiEvent::Sessions(fixtures::sessions())).unwrap();
            sink.wait_for("qwen-coder-32b");
            sender.send(key(KeyCode::Char('Z'))).unwrap();
            thread::sleep(Duration::from_millis(100));
            let before = sink.settle();
            sender.send(UiEvent::Note("unseen".into())).unwrap();
            sender.send(UiEvent::Sessions(Vec::new())).unwrap();
            assert_eq!(sink.settle(), before);
            sender.send(UiEvent::Resume).unwrap();
            sink.wait_for("unseen");
            assert_eq!(shell.resumed.load(Ordering::SeqCst), 1);
            sender.send(key(KeyCode::Char('q'))).unwrap();
        });
        assert_eq!(outcome, Outcome::Quit);
    }

    #[test]
    fn without_a_shell_nobody_is_suspended() {
        let outcome = with(false, |sender, _, sink, _| {
            sender.send(key(KeyCode::Char('Z'))).unwrap();
            sink.wait_for("suspended:");
            sender.send(key(KeyCode::Char('q'))).unwrap();
        });
        assert_eq!(outcome, Outcome::Quit);
    }
}
