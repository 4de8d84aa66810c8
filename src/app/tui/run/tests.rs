//! The loop with a made-up runtime, shell and terminal.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;

use crossterm::event::KeyCode;

use super::*;
use crate::app::catalog::Look;
use crate::app::command::{Answer, Command};
use crate::app::config::Chord;
use crate::app::tui::fixtures;
use crate::app::tui::model::Memory;
use crate::app::tui::outlet::Outlet;
use crate::app::tui::seam::{Entered, Ticket};
use crate::app::tui::theme::Theme;

const LONG: Duration = Duration::from_secs(20);

/// How the cockpit says that it may begin; the loop itself draws anew without asking it.
const BEGUN: Effect = Effect::Redraw;

/// Tells the test what it was asked to do.
struct FakeCockpit(Mutex<Sender<Effect>>);

impl FakeCockpit {
    fn say(&self, effect: Effect) {
        let _ignored = self.0.lock().unwrap().send(effect);
    }
}

impl Cockpit for FakeCockpit {
    fn begin(&self) {
        self.say(BEGUN);
    }

    fn run(&self, ticket: Ticket, command: Command) {
        self.say(Effect::Run { ticket, command });
    }

    fn input(&self, session: &str, entered: Entered) {
        let session = session.into();
        self.say(match entered {
            Entered::Bytes(bytes) => Effect::Input { session, bytes },
            Entered::Paste(paste) => Effect::Paste { session, paste },
        });
    }

    fn resize(&self, session: &str, rows: u16, cols: u16) {
        self.say(Effect::Resize { session: session.into(), rows, cols });
    }

    fn attend(&self) {}

    fn select(&self, session: Option<&str>) {
        self.say(Effect::Select(session.map(str::to_owned)));
    }

    fn look(&self, _look: Look) {}

    fn notify(&self, said: String) {
        self.say(Effect::Notify(said));
    }

    fn remember(&self, _memory: Memory) {}

    fn screen(&self, _session: &str) -> Option<Arc<Mutex<Screen>>> {
        None
    }
}

/// Counts; a shell is there if it was made with `true`.
#[derive(Default)]
struct FakeShell {
    there: bool,
    resumed: AtomicUsize,
    asked_for_keys: AtomicUsize,
}

impl Shell for FakeShell {
    fn suspend(&self) -> bool {
        self.there
    }

    fn edit(&self, _text: String) -> Result<(), String> {
        Ok(())
    }

    fn tell_keys_apart(&self) {
        self.asked_for_keys.fetch_add(1, Ordering::SeqCst);
    }

    fn shape_cursor(&self, _shape: u8) {}

    fn entitle(&self, _title: &str) {}

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
fn what_watches_begins_once_with_the_first_frame() {
    let outcome = with(false, |sender, said, sink, _| {
        assert_eq!(said.recv_timeout(LONG).unwrap(), BEGUN);
        sink.wait_for("quit");
        sender.send(UiEvent::Sessions(fixtures::sessions())).unwrap();
        sink.wait_for("qwen-coder-32b");
        sink.settle();
        assert!(said.try_iter().all(|effect| effect != BEGUN));
        sender.send(UiEvent::Terminate).unwrap();
    });
    assert_eq!(outcome, Outcome::Terminate);
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
