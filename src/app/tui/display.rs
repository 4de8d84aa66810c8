//! Frames on their way to the terminal: only what differs from the last one is written, and nothing
//! at all where nothing differs.

mod encode;

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use super::notify::Notifier;
use super::outlet::Outlet;
use crate::pty::screen::Link;

pub use encode::{Frame, encode};

/// Most text that is put on the clipboard; terminals cut or ignore longer ones.
const CLIPBOARD: usize = 100_000;

/// The last frame, and the way to the terminal.
#[derive(Debug)]
pub(super) struct Display {
    outlet: Outlet,
    shown: Buffer,
    /// The frame before, whose memory the next one takes.
    spare: Buffer,
    /// The links of the last frame.
    links: Vec<Link>,
    cursor: Option<Position>,
    /// The terminal does not show the last frame any more.
    forgotten: bool,
    motion: bool,
    notifier: Notifier,
    /// The terminal knows only the oldest sequences for colours.
    few: bool,
}

impl Display {
    pub(super) fn new(outlet: Outlet) -> Self {
        Self {
            outlet,
            shown: Buffer::empty(Rect::ZERO),
            spare: Buffer::empty(Rect::ZERO),
            links: Vec::new(),
            cursor: None,
            forgotten: true,
            motion: false,
            notifier: Notifier::Silent,
            few: false,
        }
    }

    /// Returns the display with another way to notify.
    pub(super) fn notifying(self, notifier: Notifier) -> Self {
        Self { notifier, ..self }
    }

    /// Returns the display for a terminal that has 16 colours at most, or more.
    pub(super) fn with_few_colours(self, few: bool) -> Self {
        Self { few, ..self }
    }

    /// Tells whether the terminal has taken the last frame.
    pub(super) fn is_idle(&self) -> bool {
        self.outlet.is_idle()
    }

    /// Makes the next frame a whole one.
    pub(super) fn forget(&mut self) {
        self.forgotten = true;
        self.motion = false;
    }

    /// Returns an empty frame to draw the next one in.
    pub(super) fn blank(&mut self, area: Rect) -> Buffer {
        let mut buffer = std::mem::take(&mut self.spare);
        buffer.resize(area);
        buffer.reset();
        buffer
    }

    /// Shows a frame and its links, from the top. Returns whether anything was written.
    pub(super) fn show(&mut self, next: Buffer, links: Vec<Link>, cursor: Option<Position>) -> bool {
        // The oldest terminals print what they do not know.
        let links = if self.few { Vec::new() } else { links };
        let mut bytes = Vec::new();
        if self.forgotten || self.shown.area != next.area {
            bytes.extend_from_slice(b"\x1b[0m\x1b[2J");
            self.shown = Buffer::empty(next.area);
            self.links.clear();
            self.forgotten = false;
        }
        encode(Frame::new(&self.shown, &self.links), Frame::new(&next, &links), self.few, &mut bytes);
        if bytes.is_empty() && cursor == self.cursor {
            self.spare = next;
            return false;
        }
        let mut frame = Vec::with_capacity(bytes.len() + 64);
        // Synchronized output: terminals that know it show the frame at once.
        frame.extend_from_slice(b"\x1b[?2026h\x1b[?25l");
        frame.append(&mut bytes);
        if let Some(Position { x, y }) = cursor {
            let _ignored = write!(frame, "\x1b[{};{}H\x1b[?25h", y + 1, x + 1);
        }
        frame.extend_from_slice(b"\x1b[?2026l");
        self.outlet.push(&frame);
        self.spare = std::mem::replace(&mut self.shown, next);
        self.links = links;
        self.cursor = cursor;
        true
    }

    /// Asks the terminal for every movement of the mouse, or no longer.
    pub(super) fn report_motion(&mut self, wanted: bool) {
        if self.motion != wanted {
            self.motion = wanted;
            self.outlet.push(if wanted { b"\x1b[?1003h" } else { b"\x1b[?1003l\x1b[?1002h" });
        }
    }

    /// Has the terminal say something, where it knows how.
    pub(super) fn notify(&self, said: &str) {
        self.outlet.push(&self.notifier.bytes(said));
    }

    /// Tells whether it is the desktop that says something, and not the terminal.
    pub(super) fn tells_the_desktop(&self) -> bool {
        self.notifier == Notifier::Desktop
    }

    /// Puts text on the clipboard (OSC 52).
    pub(super) fn copy(&self, text: &str) {
        let mut end = text.len().min(CLIPBOARD);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.copy_bytes(&text.as_bytes()[..end]);
    }

    /// Puts bytes on the clipboard as they are; their bound is the caller's.
    pub(super) fn copy_bytes(&self, bytes: &[u8]) {
        self.outlet.push(format!("\x1b]52;c;{}\x07", STANDARD.encode(bytes)).as_bytes());
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn display() -> (Display, impl Fn(&Display) -> String) {
        let sink = Sink::default();
        let display = Display::new(Outlet::start(sink.clone(), || {}));
        let take = move |display: &Display| {
            assert!(display.outlet.drain(Duration::from_secs(10)));
            String::from_utf8(std::mem::take(&mut *sink.0.lock().unwrap())).unwrap()
        };
        (display, take)
    }

    /// The oldest terminals would print the address.
    #[test]
    fn links_are_for_terminals_that_can_have_them() {
        for (few, expected) in [(false, true), (true, false)] {
            let (display, take) = display();
            let mut display = display.with_few_colours(few);
            let link = Link { row: 0, columns: 0..2, target: "https://a.b".into(), number: 1 };
            display.show(Buffer::with_lines(["ab"]), vec![link], None);
            assert_eq!(take(&display).contains("https://a.b"), expected);
        }
    }

    #[test]
    fn only_what_differs_is_written() {
        let (mut display, take) = display();
        assert!(display.show(Buffer::with_lines(["hello", "world"]), Vec::new(), None));
        assert!(take(&display).contains("\x1b[2J"));
        assert!(!display.show(Buffer::with_lines(["hello", "world"]), Vec::new(), None));
        assert_eq!(take(&display), "");
        assert!(display.show(Buffer::with_lines(["hello", "worLd"]), Vec::new(), None));
        let written = take(&display);
        assert!(written.contains("\x1b[2;4HL") && !written.contains("hello"), "{written:?}");
    }

    #[test]
    fn the_cursor_alone_is_a_change() {
        let (mut display, take) = display();
        display.show(Buffer::with_lines(["ab"]), Vec::new(), None);
        take(&display);
        assert!(display.show(Buffer::with_lines(["ab"]), Vec::new(), Some(Position::new(1, 0))));
        assert!(take(&display).contains("\x1b[1;2H\x1b[?25h"));
        assert!(!display.show(Buffer::with_lines(["ab"]), Vec::new(), Some(Position::new(1, 0))));
        assert!(display.show(Buffer::with_lines(["ab"]), Vec::new(), None));
        assert!(!take(&display).contains("\x1b[?25h"));
    }

    #[test]
    fn another_size_and_a_lost_screen_are_drawn_whole() {
        let (mut display, take) = display();
        display.show(Buffer::with_lines(["ab"]), Vec::new(), None);
        display.show(Buffer::with_lines(["abc"]), Vec::new(), None);
        take(&display);
        display.forget();
        assert!(display.show(Buffer::with_lines(["abc"]), Vec::new(), None));
        let written = take(&display);
        assert!(written.contains("\x1b[2J") && written.contains("abc"), "{written:?}");
    }

    #[test]
    fn the_clipboard_is_bounded() {
        let (display, take) = display();
        display.copy("héllo");
        assert_eq!(take(&display), "\x1b]52;c;aMOpbGxv\x07");
        display.copy(&"é".repeat(CLIPBOARD));
        assert!(take(&display).len() < CLIPBOARD * 4 / 3 + 20);
    }

    #[test]
    fn movement_is_asked_for_once() {
        let (mut display, take) = display();
        display.report_motion(false);
        assert_eq!(take(&display), "");
        display.report_motion(true);
        display.report_motion(true);
        assert_eq!(take(&display), "\x1b[?1003h");
    }
}
