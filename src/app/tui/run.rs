//! The loop: hear, update, act, draw.
//!
//! Called by `main` on a thread of its own choice, which it keeps until the screen ends. The loop
//! never waits for the terminal (frames go through `outlet`), nor for the runtime (no method of
//! [`Cockpit`] blocks). It drains what has come before it draws, at most about sixty times a second, sooner where a
//! person waits to see what a key did, and a frame in which nothing changed writes nothing.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use crossterm::event::Event as Input;
use ratatui::layout::Rect;

use super::display::Display;
use super::editor;
use super::input;
use super::job::Listening;
use super::keymap::Context;
use super::kitty;
use super::model::{Frozen, Model, ScreenFacts, Shown};
use super::reader::Reader;
use super::seam::{Cockpit, Effect, Entered, Options, Outcome, Typed, UiEvent};
use super::signals::{Alarm, Listener};
use super::terminal::{Terminal, Tty, contained};
use super::update::update;
use super::view::{self, Surface};
use crate::pty::screen::Screen;

/// Shortest time between two frames.
const FRAME: Duration = Duration::from_millis(17);
/// The same right after a key or the mouse, when somebody waits to see what comes of it.
const ANSWERING: Duration = Duration::from_millis(4);
/// For so long after it.
const AWAITED: Duration = Duration::from_millis(100);
/// How long events are taken in before a frame is drawn all the same.
const BATCH: Duration = Duration::from_millis(8);
/// OSC 11 with a question mark.
const ASK_BACKGROUND: &[u8] = b"\x1b]11;?\x07";
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
    let reader = Reader::start(tty.input, sender.clone(), options.theme.asks(), move || hung_up.set(Outcome::Hangup))?;
    let link = options.link.map(|link| link.listen(sender.clone(), alarm.clone())).transpose()?;
    let shell = Job { terminal, reader, link, events: sender, has_title: options.title };
    if options.theme.asks() {
        // Nobody waits for the answer: it comes as an event, whenever it comes.
        shell.terminal.outlet().push(ASK_BACKGROUND);
    }
    shell.terminal.outlet().push(kitty::ASK);
    let size = shell.terminal.size();
    let display = Display::new(shell.terminal.outlet().clone()).notifying(options.notifier);
    let display = display.with_few_colours(options.theme.depth().is_few());
    let mut model = Model::new(size, options.theme, options.escape, Instant::now());
    model.keys = options.keys;
    model.recall(options.memory);
    let outcome = Loop::new(cockpit, events, &shell, display, model).run();
    drop(shell);
    alarm.disarm();
    Ok(outcome)
}

/// What the loop asks of the terminal besides showing frames.
trait Shell {
    /// Lets the shell have the terminal. Returns whether it has it.
    fn suspend(&self) -> bool;
    /// Lets an editor have the terminal, with a text in a file of its own; its end comes as
    /// [`UiEvent::Edited`].
    fn edit(&self, text: String) -> Result<(), String>;
    /// Has the terminal tell all keys apart: it has said that it can.
    fn tell_keys_apart(&self);
    /// Gives the cursor a shape (DECSCUSR); 0 is the terminal's own.
    fn shape_cursor(&self, shape: u8);
    /// Gives the terminal a title.
    fn entitle(&self, title: &str);
    /// Takes the terminal back; `left` says whether it was given away by us. Returns its size.
    fn resume(&self, left: bool) -> (u16, u16);
}

struct Job {
    terminal: Terminal,
    reader: Reader,
    link: Option<Listening>,
    events: Sender<UiEvent>,
    has_title: bool,
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

    fn edit(&self, text: String) -> Result<(), String> {
        self.reader.pause(PAUSE);
        self.terminal.leave();
        let events = self.events.clone();
        editor::start(&text, move |result| {
            let _ignored = events.send(UiEvent::Edited(result));
        })
    }

    fn tell_keys_apart(&self) {
        self.terminal.tell_keys_apart();
    }

    fn shape_cursor(&self, shape: u8) {
        self.terminal.shape_cursor(shape);
    }

    fn entitle(&self, title: &str) {
        if self.has_title {
            self.terminal.entitle(title);
        }
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
    /// The shell has the terminal, or an editor.
    suspended: bool,
    /// An editor has it.
    editing: bool,
    drawn_at: Option<Instant>,
    /// When a person did something last.
    heard_at: Option<Instant>,
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
            editing: false,
            drawn_at: None,
            heard_at: None,
            written: None,
            forwarded: None,
            in_flight: None,
        }
    }

    fn run(mut self) -> Outcome {
        let mut begun = false;
        loop {
            if let Some(outcome) = self.hear() {
                self.cockpit.remember(self.model.memory());
                return outcome;
            }
            let is_time = self.next_frame().is_none_or(|at| at <= Instant::now());
            if self.dirty && is_time && !self.suspended && self.display.is_idle() {
                self.draw();
            }
            if !std::mem::replace(&mut begun, true) {
                self.cockpit.begin();
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
        let until = Instant::now() + if self.is_awaited() { ANSWERING / 2 } else { BATCH };
        let mut next = Some(first);
        while let Some(event) = next {
            if let Some(outcome) = self.take(event) {
                return Some(outcome);
            }
            next = if Instant::now() < until { self.events.try_recv().ok() } else { None };
        }
        None
    }

    /// Returns when the next frame may be drawn; `None` is at once.
    fn next_frame(&self) -> Option<Instant> {
        self.drawn_at.map(|at| at + if self.is_awaited() { ANSWERING } else { FRAME })
    }

    /// Tells whether a person waits to see what something did.
    fn is_awaited(&self) -> bool {
        self.heard_at.is_some_and(|at| at.elapsed() < AWAITED)
    }

    /// Returns how long to wait for an event; `None` is for ever.
    fn patience(&self) -> Option<Duration> {
        let now = Instant::now();
        // While the terminal is busy with a frame, its end is an event.
        let frame = (self.dirty && !self.suspended && self.display.is_idle()).then(|| self.next_frame().unwrap_or(now));
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
            // The editor goes on, and keeps the terminal.
            UiEvent::Resume if self.editing => return None,
            UiEvent::Resume => return self.resume(),
            UiEvent::Edited(result) => {
                self.editing = false;
                let outcome = self.resume();
                self.update(UiEvent::Edited(result));
                return outcome;
            }
            UiEvent::Keyboard => self.shell.tell_keys_apart(),
            UiEvent::Input(_) => {
                self.heard_at = Some(Instant::now());
                self.cockpit.attend();
                // What was written before the key is decided about as it was before the key.
                self.look();
                self.forward();
            }
            UiEvent::Background(_)
            | UiEvent::Sessions(_)
            | UiEvent::Orphans(_)
            | UiEvent::Strangers(_)
            | UiEvent::Tree { .. }
            | UiEvent::Answered { .. }
            | UiEvent::Happened(_)
            | UiEvent::Clipboard { .. }
            | UiEvent::Frozen(_)
            | UiEvent::Branches(_)
            | UiEvent::Printed(_)
            | UiEvent::Recipes(_)
            | UiEvent::Catalog(_)
            | UiEvent::Listing(_)
            | UiEvent::Note(_)
            | UiEvent::Tick
            | UiEvent::Suspend => {}
        }
        self.update(event)
    }

    fn resume(&mut self) -> Option<Outcome> {
        let (cols, rows) = self.shell.resume(self.suspended);
        self.suspended = false;
        self.display.forget();
        self.update(UiEvent::Input(Input::Resize(cols, rows)))
    }

    /// Returns the text of the selected terminal.
    fn freeze(&self) -> Option<Frozen> {
        let session = self.model.selected.as_ref()?;
        let screen = self.cockpit.screen(session)?;
        contained(|| screen.lock().ok().map(|screen| Frozen::take(session, &screen)))?
    }

    fn update(&mut self, event: UiEvent) -> Option<Outcome> {
        self.dirty = true;
        for effect in update(&mut self.model, event, Instant::now()) {
            match effect {
                Effect::Run { ticket, command } => self.cockpit.run(ticket, command),
                Effect::Input { session, bytes } => self.cockpit.input(&session, Entered::Bytes(bytes)),
                Effect::Paste { session, paste } => self.cockpit.input(&session, Entered::Paste(paste)),
                Effect::Broadcast { session, typed } => {
                    let entered = self.encoded(&session, &typed);
                    self.cockpit.input(&session, entered);
                }
                Effect::Resize { session, rows, cols } => self.cockpit.resize(&session, rows, cols),
                Effect::Select(session) => {
                    self.cockpit.select(session.as_deref());
                    self.look();
                }
                Effect::Copy(text) => self.display.copy(&text),
                Effect::Forward(bytes) => self.forwarded = Some(bytes),
                Effect::Notify(said) if self.display.tells_the_desktop() => self.cockpit.notify(said),
                Effect::Notify(said) => self.display.notify(&said),
                Effect::Redraw => self.display.forget(),
                Effect::Look(look) => self.cockpit.look(look),
                Effect::Freeze => {
                    if let Some(frozen) = self.freeze() {
                        self.update(UiEvent::Frozen(Box::new(frozen)));
                    }
                }
                Effect::Edit(text) => {
                    (self.suspended, self.editing) = (true, true);
                    if let Err(why) = self.shell.edit(text) {
                        self.take(UiEvent::Edited(Err(why)));
                    }
                }
                // An editor and we are stopped together; the shell is told by our parent.
                Effect::Suspend if self.editing => drop(self.shell.suspend()),
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

    /// Returns what is typed as the terminal of a session asked for it; where that is not known here, as it is without
    /// any wish.
    fn encoded(&self, session: &str, typed: &Typed) -> Entered {
        let screen = self.cockpit.screen(session);
        let modes = screen.and_then(|screen| contained(|| screen.lock().ok().map(|screen| screen.modes()))?);
        match typed {
            Typed::Key(key) => Entered::Bytes(input::key(key, modes.unwrap_or_default())),
            Typed::Paste(text) => Entered::Paste(input::paste(text, modes.unwrap_or_default())),
        }
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
        let area = Rect::new(0, 0, cols, rows);
        let screen = self.model.selected.as_ref().and_then(|session| self.cockpit.screen(session));
        let with_screen = screen.and_then(|screen| {
            contained(|| {
                let screen = screen.lock().ok()?;
                let mut buffer = self.display.blank(area);
                let surface = &*screen as &dyn Surface;
                let cursor = view::draw(&self.model, Some(surface), &mut buffer);
                Some((buffer, view::links(&self.model, surface), cursor))
            })?
        });
        // Without a screen, or with one whose emulator has panicked: it costs this one screen.
        let (buffer, links, cursor) = with_screen.unwrap_or_else(|| {
            let mut buffer = self.display.blank(area);
            let cursor = view::draw(&self.model, None, &mut buffer);
            (buffer, Vec::new(), cursor)
        });
        // What is typed into is as its program wants it. Terminals with few colours know no shapes.
        let typed_into =
            cursor.is_some() && self.model.context() == Context::Terminal && !self.model.theme.depth().is_few();
        let facts = self.model.facts().filter(|_| typed_into);
        self.shell.shape_cursor(facts.map_or(0, |facts| facts.modes.cursor_shape));
        self.shell.entitle(&view::outer_title(&self.model));
        let shown = self.model.shown();
        let wrote = self.display.show(buffer, links, cursor);
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
mod tests;
