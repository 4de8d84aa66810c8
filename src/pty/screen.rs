//! The screen of one session, and the one seam to the terminal emulator: nothing outside this module knows
//! which emulator it is.
//!
//! Fed by the reader of a PTY (or of a tmux pane), looked at by the view and by the `screen`, `wait` and
//! search commands. The emulator holds what is visible; what scrolls away goes to a compact history; a new
//! width wraps both anew. Whatever a session prints, this never panics, never blocks, never grows without a
//! bound, and never writes to a PTY, a clipboard or a terminal itself: answers and notices are handed out.

pub(crate) mod cell;
mod edge;
mod events;
mod fill;
mod flood;
mod keyboard;
mod links;
mod perform;
mod read;
mod reflow;
mod scan;
mod tabs;
mod wraps;

use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use self::cell::{CellStyle, Color};
use self::events::Events;
pub use self::links::Link;
use self::scan::{Action, Scanner, Step};
use self::tabs::Tabs;
pub use crate::pty::history::HistoryLimit;

const MIN_COLS: u16 = 2;
const MIN_ROWS: u16 = 1;
const MAX_COLS: u16 = 4000;
const MAX_ROWS: u16 = 2000;
/// A cell takes 32 bytes twice.
const MAX_CELLS: u32 = 1_000_000;

/// Fewer bytes at once are not looked through for a flood.
const FLOOD_BYTES: usize = 1024;
/// So many lines must be spared to be worth it.
const FLOOD_LINES: usize = 8;
/// After what ended a flood, so much is fed before the next is looked for.
const FLOOD_PAUSE: usize = 512;

/// The size of a screen in cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Rows, at least 1.
    pub rows: u16,
    /// Columns, at least 2.
    pub cols: u16,
}

impl Size {
    /// Returns the nearest size that a screen can have: at least 1 row and 2 columns, at most 2000 rows, 4000
    /// columns and a million cells.
    pub fn clamped(rows: u16, cols: u16) -> Self {
        let cols = cols.clamp(MIN_COLS, MAX_COLS);
        let most = u16::try_from(MAX_CELLS / u32::from(cols)).unwrap_or(MAX_ROWS);
        Self { rows: rows.clamp(MIN_ROWS, MAX_ROWS.min(most)), cols }
    }
}

/// Which mouse events the program wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MouseMode {
    /// None.
    #[default]
    None,
    /// Button presses.
    Press,
    /// Button presses and releases.
    PressRelease,
    /// The same, and motion while a button is down.
    ButtonMotion,
    /// The same, and all motion.
    AnyMotion,
}

/// How mouse events are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MouseEncoding {
    /// One byte a coordinate.
    #[default]
    Default,
    /// One character a coordinate.
    Utf8,
    /// Decimal numbers.
    Sgr,
}

/// The modes a program has set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one independent mode of a terminal")]
pub struct Modes {
    /// Arrow keys send SS3 sequences.
    pub application_cursor: bool,
    /// The keypad sends application codes.
    pub application_keypad: bool,
    /// Pasted text is to be bracketed.
    pub bracketed_paste: bool,
    /// The alternate screen is shown; it has no history.
    pub alternate_screen: bool,
    /// Mouse events wanted.
    pub mouse: MouseMode,
    /// Their encoding.
    pub mouse_encoding: MouseEncoding,
    /// The cursor is to be shown.
    pub cursor_visible: bool,
    /// Keys that look alike in the older encoding are told apart (kitty's keyboard protocol).
    pub disambiguates: bool,
    /// The shape of the cursor that was asked for (DECSCUSR): 1 and 2 are a block, 3 and 4 a line below, 5 and 6 a
    /// bar, the odd ones blink; 0 is the terminal's own.
    pub cursor_shape: u8,
}

/// Something the program did that is not on its screen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// The bell rang.
    Bell,
    /// The title changed; without control characters.
    Title(String),
    /// The emulator failed and was replaced; the visible screen is lost, the history is not.
    EmulatorReset(String),
}

/// The screen and the scrollback of one session.
///
/// `process` and `resize` change it; `take_replies` and `take_notices` are to be called after `process`; all
/// else looks. It is fastest when `process` gets much at once (64 KiB rather than 4).
pub struct Screen {
    parser: vt100::Parser<Events>,
    scanner: Scanner,
    /// The beginning of a character whose end has not come yet.
    partial: Vec<u8>,
    size: Size,
    generation: u64,
    /// The primary screen scrolls as a whole.
    whole: bool,
    tabs: Tabs,
    limit: HistoryLimit,
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen").field("size", &self.size).field("generation", &self.generation).finish_non_exhaustive()
    }
}

impl Screen {
    /// Creates an empty screen.
    pub fn new(size: Size, limit: HistoryLimit) -> Self {
        let size = Size::clamped(size.rows, size.cols);
        let parser = new_parser(size, Events::new(limit, size.cols));
        Self {
            parser,
            scanner: Scanner::default(),
            partial: Vec::new(),
            size,
            generation: 0,
            whole: true,
            tabs: Tabs::default(),
            limit,
        }
    }

    // ---- changing ----

    /// Takes output of the program, split anywhere.
    pub fn process(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.generation += 1;
        self.guarded(|screen| screen.advance(bytes));
    }

    /// Changes the size. Lines are wrapped anew; the program has to be told by the PTY.
    pub fn resize(&mut self, size: Size) {
        let size = Size::clamped(size.rows, size.cols);
        if size == self.size {
            return;
        }
        self.generation += 1;
        if size.cols != self.size.cols {
            // As in tmux; others keep them, where they no longer fit.
            self.reset_tabs();
        }
        self.size = size;
        self.guarded(|screen| {
            let (emulator, events) = screen.parser.screen_and_callbacks_mut();
            reflow::resize(emulator, &mut events.history, size);
            events.links = links::Links::default();
            screen.whole = true;
        });
    }

    /// Changes how much history is kept.
    pub fn limit_history(&mut self, limit: HistoryLimit) {
        self.limit = limit;
        self.parser.callbacks_mut().history.set_limit(limit);
        self.generation += 1;
    }

    /// Returns what is to be written back to the PTY: answers to queries of device attributes and status.
    pub fn take_replies(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.parser.callbacks_mut().replies)
    }

    /// Returns what happened since the last call, at most the last notice of each kind.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.parser.callbacks_mut().take_notices()
    }

    /// Returns what the program put on the clipboard last (OSC 52) since the last call: the decoded bytes, at most
    /// 64 KiB. Whoever shows the screen decides whether it gets there.
    pub fn take_clipboard(&mut self) -> Option<Vec<u8>> {
        self.parser.callbacks_mut().clipboard.take()
    }

    // ---- looking ----

    /// Returns the size.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Returns the row and column of the cursor, both within the size.
    pub fn cursor(&self) -> (u16, u16) {
        let (row, col) = self.emulator().cursor_position();
        (row.min(self.size.rows - 1), col.min(self.size.cols - 1))
    }

    /// Returns the modes in force.
    pub fn modes(&self) -> Modes {
        let emulator = self.emulator();
        Modes {
            application_cursor: emulator.application_cursor(),
            application_keypad: emulator.application_keypad(),
            bracketed_paste: emulator.bracketed_paste(),
            alternate_screen: emulator.alternate_screen(),
            mouse: match emulator.mouse_protocol_mode() {
                vt100::MouseProtocolMode::None => MouseMode::None,
                vt100::MouseProtocolMode::Press => MouseMode::Press,
                vt100::MouseProtocolMode::PressRelease => MouseMode::PressRelease,
                vt100::MouseProtocolMode::ButtonMotion => MouseMode::ButtonMotion,
                vt100::MouseProtocolMode::AnyMotion => MouseMode::AnyMotion,
            },
            mouse_encoding: match emulator.mouse_protocol_encoding() {
                vt100::MouseProtocolEncoding::Default => MouseEncoding::Default,
                vt100::MouseProtocolEncoding::Utf8 => MouseEncoding::Utf8,
                vt100::MouseProtocolEncoding::Sgr => MouseEncoding::Sgr,
            },
            cursor_visible: !emulator.hide_cursor(),
            disambiguates: self.events().keyboard.disambiguates(emulator.alternate_screen()),
            cursor_shape: match emulator.cursor_style() {
                vt100::CursorStyle::Default => 0,
                vt100::CursorStyle::BlinkBlock => 1,
                vt100::CursorStyle::SteadyBlock => 2,
                vt100::CursorStyle::BlinkUnderline => 3,
                vt100::CursorStyle::SteadyUnderline => 4,
                vt100::CursorStyle::BlinkVerticalBar => 5,
                vt100::CursorStyle::SteadyVerticalBar => 6,
            },
        }
    }

    /// Returns what paints an empty screen of this size like this one, modes included; the history is left out.
    pub fn painted(&self) -> String {
        let emulator = self.emulator();
        let alternate = if emulator.alternate_screen() { "\x1b[?1049h" } else { "" };
        let keyboard = if self.modes().disambiguates { "\x1b[=1u" } else { "" };
        let inserts = if self.scanner.inserts() { "\x1b[4h" } else { "" };
        let tabs = self.tabs.sequences();
        format!("{alternate}{tabs}{}{keyboard}{inserts}", emulator.state_formatted())
    }

    /// Returns the title the program set, without control characters.
    pub fn title(&self) -> &str {
        &self.events().title
    }

    /// Returns a number that grows with every visible change.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Makes the generation greater than `other`: for a screen that takes the place of another.
    pub fn outrun(&mut self, other: u64) {
        self.generation = self.generation.max(other) + 1;
    }

    /// Returns the bytes of history that count against its limit.
    pub fn history_bytes(&self) -> usize {
        self.events().history.bytes()
    }

    /// Returns the rows above the screen at the present width; 0 on the alternate screen.
    pub fn history_rows(&self) -> usize {
        if self.emulator().alternate_screen() { 0 } else { self.events().history.rows() }
    }

    /// Visits the cells of one row of the view scrolled back by `offset` rows: column, text, width, style.
    ///
    /// Every column is covered; a cell without text is a blank, a wide character is visited once with width
    /// 2. An offset beyond the history counts as its beginning; a row beyond the view has no cells.
    pub fn visit_row(&self, offset: usize, row: u16, visit: &mut dyn FnMut(u16, &str, u8, CellStyle)) {
        if row >= self.size.rows {
            return;
        }
        let above = self.history_rows();
        let index = above - offset.min(above) + usize::from(row);
        if index < above {
            let used = self.events().history.visit_row(index, visit);
            for col in used..self.size.cols {
                visit(col, " ", 1, CellStyle::default());
            }
        } else {
            let row = u16::try_from(index - above).unwrap_or(u16::MAX);
            read::visit_row(self.emulator(), row, visit);
        }
    }

    /// Returns the hyperlinks (OSC 8) in the view scrolled back by `offset` rows, from the top. They are those whose
    /// text still stands where it was written, since the last change of the size and the last flood.
    pub fn links(&self, offset: usize) -> Vec<Link> {
        let offset = offset.min(self.history_rows());
        let text = |row, columns: &Range<u16>| links::text_in(columns, |visit| self.visit_row(offset, row, visit));
        let offset = u64::try_from(offset).unwrap_or(u64::MAX);
        self.events().links.seen(offset, self.size.rows, text)
    }

    /// Returns the visible rows as text, trailing blanks cut.
    pub fn lines(&self) -> Vec<String> {
        self.text(0)
    }

    /// Returns the last `scrollback` rows of the history and then the visible rows, trailing blanks cut.
    pub fn text(&self, scrollback: usize) -> Vec<String> {
        let above = self.history_rows();
        let history = (above - scrollback.min(above)..above).map(|row| self.events().history.row_text(row));
        let visible = (0..self.size.rows).map(|row| {
            let mut text = String::new();
            read::push_row(self.emulator(), row, &mut text);
            text.truncate(text.trim_end_matches(' ').len());
            text
        });
        history.chain(visible).collect()
    }

    /// Returns history and visible screen with soft wraps joined, trailing blanks and trailing empty lines
    /// cut. On the alternate screen the history is that of the primary one. What was wrapped on a screen of one
    /// row cannot be told from what was not.
    pub fn logical_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut open = self.events().history.logical_lines(&mut lines);
        let emulator = self.emulator();
        if emulator.alternate_screen() {
            lines.extend(open.take());
        }
        for row in 0..self.size.rows {
            let mut line = open.take().unwrap_or_default();
            read::push_row(emulator, row, &mut line);
            if row + 1 < self.size.rows && emulator.row_wrapped(row) {
                open = Some(line);
            } else {
                line.truncate(line.trim_end_matches(' ').len());
                lines.push(line);
            }
        }
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        lines
    }

    // ---- the emulator ----

    fn emulator(&self) -> &vt100::Screen {
        self.parser.screen()
    }

    fn events(&self) -> &Events {
        self.parser.callbacks()
    }

    /// Does work that may panic inside the emulator; such a panic costs the visible screen and no more.
    fn guarded(&mut self, work: impl FnOnce(&mut Self)) {
        let outer = CONTAINED.replace(true);
        let result = catch_unwind(AssertUnwindSafe(|| work(self)));
        CONTAINED.set(outer);
        if let Err(panic) = result {
            let message = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let message = message.or_else(|| panic.downcast_ref::<String>().cloned());
            self.replace_emulator(message.unwrap_or_else(|| "unknown panic".to_owned()));
        }
    }

    fn replace_emulator(&mut self, message: String) {
        let fresh = Events::new(self.limit, self.size.cols);
        let mut events = std::mem::replace(self.parser.callbacks_mut(), fresh);
        events.known_rows = 0;
        events.history.close();
        events.history.set_width(self.size.cols);
        events.history.hold(false);
        events.note(Notice::EmulatorReset(message));
        self.parser = new_parser(self.size, events);
        self.scanner = Scanner::default();
        self.partial.clear();
        self.whole = true;
        self.tabs = Tabs::default();
    }

    /// Feeds bytes, floods by the short way.
    fn advance(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let mut next = rest.len();
            if next >= FLOOD_BYTES && self.may_flood() {
                let front = flood::find(rest, self.size.cols, read::pen(self.emulator()));
                let taken = self.flood(&rest[..front.len], front.lines);
                if taken > 0 {
                    rest = &rest[taken..];
                    continue;
                }
                // Not within a character or between it and what combines with it.
                let pause = rest.iter().skip(front.seen + FLOOD_PAUSE).position(u8::is_ascii);
                next = pause.map_or(next, |more| front.seen + FLOOD_PAUSE + more);
            }
            self.feed(&rest[..next]);
            rest = &rest[next..];
        }
    }

    fn may_flood(&self) -> bool {
        self.whole && self.scanner.is_plain() && !self.emulator().alternate_screen()
    }

    /// Takes plain lines, of which the last fill the screen and those before them are never seen. Returns
    /// the bytes taken.
    fn flood(&mut self, bytes: &[u8], lines: usize) -> usize {
        let rows = usize::from(self.size.rows);
        // Enough lines to bring the cursor to the bottom, and one more to be sure of an empty row there.
        let head = rows - usize::from(self.cursor().0);
        if lines < head + rows + FLOOD_LINES {
            return 0;
        }
        let start = flood::after_lines(bytes, head);
        self.feed(&bytes[..start]);
        if self.emulator().cursor_position() != (self.size.rows - 1, 0) {
            return start;
        }
        let end = start + flood::before_lines(&bytes[start..], rows);
        let above = self.size.rows - 1;
        if above > 0 {
            self.parser.process(format!("\x1b[{above}S").as_bytes());
        }
        let pen = read::pen(self.emulator());
        let events = self.parser.callbacks_mut();
        events.history.close();
        events.links.clear();
        let new_pen = flood::write(&bytes[start..end], pen, &mut events.history);
        // The rows that were just scrolled out are empty now; they scroll out again as the last lines come.
        events.known_rows = usize::from(above);
        if new_pen != pen {
            let mut sgr = Vec::new();
            new_pen.write_sgr(&mut sgr);
            self.parser.process(&sgr);
        }
        self.feed(&bytes[end..]);
        self.parser.callbacks_mut().known_rows = 0;
        bytes.len()
    }

    fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        if !self.partial.is_empty() {
            rest = &rest[scan::complete_character(&mut self.partial, rest)..];
            if rest.is_empty() && scan::unfinished_character(&self.partial) > 0 {
                return;
            }
            let character = std::mem::take(&mut self.partial);
            self.feed_text(&character);
        }
        while !rest.is_empty() {
            self.scanner.set_coloured(self.is_coloured());
            let (taken, step) = self.scanner.scan(rest);
            let (mut piece, after) = rest.split_at(taken);
            if after.is_empty() && self.scanner.is_in_text() {
                // The emulator's parser loses what follows a character that it got in two parts.
                let unfinished = scan::unfinished_character(piece);
                let (whole, rest) = piece.split_at(piece.len() - unfinished);
                self.partial.extend_from_slice(rest);
                piece = whole;
            }
            match step {
                Step::Feed(Action::ReverseIndex) => {
                    let (before, last) = piece.split_at(piece.len() - 1);
                    self.parser.process(before);
                    if self.scrolling(last) {
                        self.parser.callbacks_mut().links.clear();
                    }
                    self.detach_at_top();
                }
                Step::Feed(action) => {
                    self.parser.process(piece);
                    self.perform(action);
                }
                Step::Graphics => {
                    let text = self.scanner.translate(piece);
                    self.feed_lines(&text, Self::feed_wide);
                }
                Step::Wide => self.feed_lines(piece, Self::feed_wide),
                Step::Lines => self.feed_lines(piece, |screen, line| screen.parser.process(line)),
                Step::Cut => {
                    let text = self.scanner.translate(piece);
                    self.feed_lines(&text, Self::feed_cut);
                }
                Step::Insert => {
                    let text = self.scanner.translate(piece);
                    self.feed_lines(&text, Self::feed_inserted);
                }
                Step::Tab => self.tab(1),
                Step::Drop => {}
            }
            rest = after;
        }
    }

    fn history(&mut self) -> &mut crate::pty::history::History {
        &mut self.parser.callbacks_mut().history
    }
}

fn new_parser(size: Size, events: Events) -> vt100::Parser<Events> {
    vt100::Parser::new_with_callbacks(reflow::non_zero(size.rows), reflow::non_zero(size.cols), 0, events)
}

thread_local! {
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether a panic on this thread would be caught by a screen, for a panic hook: it must not restore
/// the terminal or report a crash then.
pub fn panic_is_contained() -> bool {
    CONTAINED.get()
}

#[cfg(test)]
mod tests;
