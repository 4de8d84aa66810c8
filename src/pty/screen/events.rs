//! What the emulator reports while it works: rows that scroll away, titles, bells, clipboard writes, queries.
//!
//! Called by the emulator. Collects; never writes to a PTY, a clipboard or a terminal. Clipboard reads are
//! ignored, and of the queries only device attributes, device status and the keyboard's flags are answered.

use std::fmt;
use std::ops::Range;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use vt100::capture::{BasicFormattedCaptureState, RowContents};

use super::Notice;
use super::cell::{self, CellStyle};
use super::keyboard::Keyboard;
use super::links::{self, Links};
use super::read;
use crate::pty::history::{History, HistoryLimit};
use crate::text;

/// The most a session can put on the clipboard at once.
pub(super) const CLIPBOARD_LIMIT: usize = 64 * 1024;

/// Characters of a title.
const TITLE_LIMIT: usize = 256;
/// Answers nobody takes do not pile up.
const REPLY_LIMIT: usize = 4096;

/// VT220 with colour.
const PRIMARY_ATTRIBUTES: &[u8] = b"\x1b[?62;22c";
const SECONDARY_ATTRIBUTES: &[u8] = b"\x1b[>0;0;0c";
const STATUS_OK: &[u8] = b"\x1b[0n";

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Collects what the emulator reports.
#[derive(Debug)]
pub(super) struct Events {
    pub(super) history: History,
    pub(super) replies: Vec<u8>,
    pub(super) title: String,
    /// What was put on the clipboard last and nobody has taken.
    pub(super) clipboard: Option<Vec<u8>>,
    /// So many rows to come are in the history already.
    pub(super) known_rows: usize,
    pub(super) keyboard: Keyboard,
    pub(super) links: Links,
    notices: Vec<Notice>,
}

impl Events {
    pub(super) fn new(limit: HistoryLimit, width: u16) -> Self {
        Self {
            history: History::new(limit, width),
            replies: Vec::new(),
            title: String::new(),
            clipboard: None,
            known_rows: 0,
            keyboard: Keyboard::default(),
            links: Links::default(),
            notices: Vec::new(),
        }
    }

    /// Keeps the last notice of each kind, so the list is bounded whatever a session sends.
    pub(super) fn note(&mut self, notice: Notice) {
        let kind = std::mem::discriminant(&notice);
        self.notices.retain(|kept| std::mem::discriminant(kept) != kind);
        self.notices.push(notice);
    }

    pub(super) fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    fn reply(&mut self, bytes: &[u8]) {
        if self.replies.len() + bytes.len() <= REPLY_LIMIT {
            self.replies.extend_from_slice(bytes);
        }
    }
}

impl vt100::Callbacks for Events {
    fn audible_bell(&mut self, _: &mut vt100::Screen) {
        self.note(Notice::Bell);
    }

    fn set_window_title(&mut self, _: &mut vt100::Screen, title: &[u8]) {
        let title: String = String::from_utf8_lossy(title).chars().take(TITLE_LIMIT).collect();
        self.title = text::escape(&title).into_owned();
        self.note(Notice::Title(self.title.clone()));
    }

    fn copy_to_clipboard(&mut self, _: &mut vt100::Screen, _selection: &[u8], data: &[u8]) {
        if data.len() / 4 * 3 > CLIPBOARD_LIMIT + 3 {
            return;
        }
        let Ok(bytes) = BASE64.decode(data) else { return };
        if !bytes.is_empty() && bytes.len() <= CLIPBOARD_LIMIT {
            self.clipboard = Some(bytes);
        }
    }

    fn unhandled_csi(
        &mut self,
        screen: &mut vt100::Screen,
        first: Option<u8>,
        second: Option<u8>,
        params: &[&[u16]],
        c: char,
    ) {
        if let (Some(prefix), None, 'u') = (first, second, c) {
            let answer = self.keyboard.take(screen.alternate_screen(), prefix, params);
            return self.reply(&answer.unwrap_or_default());
        }
        let param = match params {
            [] => 0,
            [[param]] => *param,
            _ => return,
        };
        match (first, second, param, c) {
            (None, None, 0, 'c') => self.reply(PRIMARY_ATTRIBUTES),
            (Some(b'>'), None, 0, 'c') => self.reply(SECONDARY_ATTRIBUTES),
            (None, None, 5, 'n') => self.reply(STATUS_OK),
            (None, None, 6, 'n') => {
                let (row, col) = screen.cursor_position();
                let col = col.min(screen.size().1.get() - 1);
                self.reply(format!("\x1b[{};{}R", row + 1, col + 1).as_bytes());
            }
            _ => {}
        }
    }

    fn unhandled_osc(&mut self, screen: &mut vt100::Screen, params: &[&[u8]]) {
        // The emulator knows no title that holds what parts parameters.
        if let [b"0" | b"2", title @ ..] = params {
            return self.set_window_title(screen, &title.join(&b';'));
        }
        // OSC 8 ; parameters ; address: an address may hold what parts parameters.
        let is_kept = self.links.are_kept(screen.alternate_screen());
        if let ([b"8", _, address @ ..], true) = (params, is_kept) {
            let wraps = |row| screen.row_wrapped(row);
            let text = |row, columns: &Range<u16>| links::text_in(columns, |visit| read::visit_row(screen, row, visit));
            self.links.turn(&address.join(&b';'), screen.cursor_position(), screen.size().1.get(), wraps, text);
        }
    }

    fn on_scroll(&mut self, row: RowContents<'_>, alternate_screen: bool) {
        if alternate_screen {
            return self.links.clear();
        }
        self.links.scroll();
        if self.known_rows > 0 {
            self.known_rows -= 1;
            return;
        }
        self.history.begin_row();
        let mut state = BasicFormattedCaptureState::new();
        let mut capture = Capture::new(&mut self.history);
        // Neither the capture nor the emulator fails here; a row that is cut is better than none.
        let _ = row.write_formatted_basic(&mut capture, &mut state);
        capture.finish();
        // The state keeps to itself whether the row was wrapped, but a row that was not is followed by a line
        // feed before anything else is written.
        let mut probe = Probe::default();
        let _ = row.write_formatted_basic(&mut probe, &mut state);
        self.history.end_row(!probe.line_feed);
    }
}

/// Fails at the first thing written, and tells whether that was a line feed.
#[derive(Default)]
struct Probe {
    line_feed: bool,
}

impl fmt::Write for Probe {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        Err(fmt::Error)
    }

    fn write_char(&mut self, c: char) -> fmt::Result {
        self.line_feed = c == '\n';
        Err(fmt::Error)
    }
}

/// Turns the emulator's capture of a row, text with SGR sequences, into cells of the history.
///
/// The emulator writes the text of a cell with `write_str` and a blank without text with `write_char`. It
/// writes cells that were never touched *before* the change of style they belong behind, so a blank after
/// text in some style may be either. Such blanks are held back: a change of style that follows shows that
/// they were never touched; more text in the same style, or the end of the row, that they were erased in it.
struct Capture<'a> {
    history: &'a mut History,
    style: CellStyle,
    sgr: Vec<u8>,
    in_sgr: bool,
    blanks: usize,
    blanks_follow_sgr: bool,
    after_sgr: bool,
}

impl<'a> Capture<'a> {
    fn new(history: &'a mut History) -> Self {
        Self {
            history,
            style: CellStyle::default(),
            sgr: Vec::new(),
            in_sgr: false,
            blanks: 0,
            blanks_follow_sgr: false,
            after_sgr: false,
        }
    }

    fn flush_blanks(&mut self, style: CellStyle) {
        if self.blanks > 0 {
            self.history.push_blanks(std::mem::take(&mut self.blanks), style);
        }
    }

    fn sgr_text(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                0x1b | b'[' => {}
                b'm' => {
                    self.style.apply_sgr(&self.sgr);
                    self.sgr.clear();
                    self.in_sgr = false;
                    self.after_sgr = true;
                }
                _ => self.sgr.push(byte),
            }
        }
    }

    fn finish(mut self) {
        self.flush_blanks(self.style);
    }
}

impl fmt::Write for Capture<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.in_sgr {
            self.sgr_text(text);
            return Ok(());
        }
        if text.as_bytes().first() == Some(&0x1b) {
            let style = if self.blanks_follow_sgr { self.style } else { CellStyle::default() };
            self.flush_blanks(style);
            self.in_sgr = true;
            self.sgr_text(text);
            return Ok(());
        }
        self.flush_blanks(self.style);
        self.after_sgr = false;
        if text.len() == 1 {
            self.history.push_ascii(text, self.style);
        } else {
            let width = cell::cells(text).next().map_or(1, |(_, width)| width);
            self.history.push(text, width, self.style);
        }
        Ok(())
    }

    fn write_char(&mut self, c: char) -> fmt::Result {
        if self.in_sgr {
            let mut buffer = [0; 4];
            self.sgr_text(c.encode_utf8(&mut buffer));
        } else if c == ' ' {
            if self.blanks == 0 {
                self.blanks_follow_sgr = self.after_sgr;
            }
            self.blanks += 1;
            self.after_sgr = false;
        }
        Ok(())
    }
}
