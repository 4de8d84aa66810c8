//! Looks at the bytes before the emulator does, and stops where more is to be done than to feed them.
//!
//! Called by the screen. It follows the emulator's parser just far enough to know where sequences end. What
//! it stops for: what the emulator does not report (erase scrollback, margins, reset), sequences it does not
//! know but that can be said in ones it knows, line-drawing characters, wide characters, text that does not wrap or
//! is inserted, tabs while their stops are the program's own, and control strings without an end, which it would store without a bound. Never changes a screen itself.

/// Longest control string (title, clipboard) that reaches the emulator. Base64 of the clipboard limit fits;
/// what was cut here decodes to more than that limit and is refused there.
const STRING_LIMIT: usize = 96 * 1024;

const PARAMETERS: usize = 32;

/// How the bytes of a step are to be treated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Feed them, then do this.
    Feed(Action),
    /// Text while line-drawing characters are designated: feed [`Scanner::translate`]d.
    Graphics,
    /// Text that may hold wide characters: feed with care for the last column.
    Wide,
    /// Text with line feeds while blanks have a colour: feed it line by line.
    Lines,
    /// Text while nothing wraps (DECAWM is off): feed [`Scanner::translate`]d, and keep it in its row.
    Cut,
    /// Text in insert mode (IRM): feed [`Scanner::translate`]d, each character where it moves the others on.
    Insert,
    /// A tab while the program has set stops of its own: go to the next one.
    Tab,
    /// Bytes beyond the limit of a control string: drop.
    Drop,
}

/// What is to be done after a sequence was fed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    /// Nothing.
    None,
    /// Forget the scrollback.
    ClearHistory,
    /// The screen was erased: its first row no longer continues the history.
    Detach,
    /// The same, if the cursor is at home.
    DetachAtHome,
    /// Cells or rows were moved in, so many.
    Shift(Shift, u16),
    /// The last byte scrolls the screen down where the cursor is in the first row of the margins.
    ReverseIndex,
    /// The terminal was reset.
    Reset,
    /// Margins were set to these rows, counted from 1; 0 stands for the edge.
    Margins(u16, u16),
    /// Feed another sequence in place of the one that the emulator passed over.
    Say(&'static [u8]),
    /// Feed a cursor movement with a count.
    Move(u16, u8),
    /// Go on so many tab stops.
    Tab(u16),
    /// Go back so many tab stops.
    BackTab(u16),
    /// A tab stop where the cursor is.
    SetTab,
    /// None where the cursor is.
    ClearTab,
    /// None at all.
    ClearTabs,
    /// Fill the screen with the letter E.
    Align,
    /// A cursor that is about to wrap is not any more.
    LastColumn,
    /// Leave the alternate screen after erasing it.
    LeaveAlternate,
}

/// What moves cells or rows in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shift {
    /// ICH.
    InsertCells,
    /// DCH.
    DeleteCells,
    /// IL.
    InsertLines,
    /// DL.
    DeleteLines,
    /// SU.
    ScrollUp,
    /// SD.
    ScrollDown,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Ground,
    Escape,
    EscapeIntermediate,
    Csi,
    Osc,
    /// DCS, APC, PM, SOS: nothing of it reaches a screen.
    ControlString,
}

/// The state of the scanner between calls.
#[expect(clippy::struct_excessive_bools, reason = "each is one independent mode of the text")]
#[derive(Clone, Debug, Default)]
pub(super) struct Scanner {
    state: State,
    parameters: [u8; PARAMETERS],
    len: usize,
    intermediate: u8,
    string_len: usize,
    line_drawing: [bool; 2],
    shifted: bool,
    /// Text stays in its row.
    cuts: bool,
    /// Text moves on what is behind it.
    inserts: bool,
    /// Tab stops are no longer those of the emulator.
    own_tabs: bool,
    /// Blanks may have a colour; whether they do is known by the emulator.
    coloured: bool,
}

impl Scanner {
    /// Returns whether the next byte is plain text or begins a sequence, and text is shown as it comes.
    pub(super) fn is_plain(&self) -> bool {
        self.state == State::Ground && !self.draws_lines() && !self.cuts && !self.inserts && !self.own_tabs
    }

    /// Returns whether the next byte is text or begins a sequence.
    pub(super) fn is_in_text(&self) -> bool {
        self.state == State::Ground
    }

    /// Returns whether text stays in its row.
    pub(super) fn cuts(&self) -> bool {
        self.cuts
    }

    /// Returns whether text moves on what is behind it.
    pub(super) fn inserts(&self) -> bool {
        self.inserts
    }

    /// Leaves tab stops to the emulator again.
    pub(super) fn forget_tabs(&mut self) {
        self.own_tabs = false;
    }

    fn draws_lines(&self) -> bool {
        self.line_drawing[0] || self.line_drawing[1]
    }

    /// Says whether blanks have a colour before the next bytes.
    pub(super) fn set_coloured(&mut self, coloured: bool) {
        self.coloured = coloured;
    }

    /// Takes the first bytes (at least one) and returns their number and what to do with them.
    pub(super) fn scan(&mut self, bytes: &[u8]) -> (usize, Step) {
        let mut at = 0;
        while at < bytes.len() {
            match self.state {
                State::Ground => {
                    let rest = &bytes[at..];
                    let ends = |byte: &u8| *byte == 0x1b || (self.own_tabs && *byte == b'\t');
                    let text = &rest[..rest.iter().position(ends).unwrap_or(rest.len())];
                    if text.is_empty() && rest[0] == b'\t' {
                        return if at > 0 { (at, Step::Feed(Action::None)) } else { (1, Step::Tab) };
                    }
                    if let Some(step) = self.special_text(text) {
                        return if at > 0 { (at, Step::Feed(Action::None)) } else { (text.len(), step) };
                    }
                    at += text.len();
                    if bytes.get(at) == Some(&0x1b) {
                        at += 1;
                        self.state = State::Escape;
                    }
                }
                State::Osc => {
                    let rest = &bytes[at..];
                    let end = rest.iter().position(|byte| matches!(byte, 0x07 | 0x18 | 0x1a | 0x1b));
                    let inside = end.unwrap_or(rest.len());
                    let allowed = STRING_LIMIT - self.string_len;
                    if inside > allowed {
                        self.string_len = STRING_LIMIT;
                        let fed = at + allowed;
                        return if fed > 0 { (fed, Step::Feed(Action::None)) } else { (inside, Step::Drop) };
                    }
                    self.string_len += inside;
                    at += inside;
                    if let Some(end) = end {
                        at += 1;
                        self.state = if rest[end] == 0x1b { State::Escape } else { State::Ground };
                    }
                }
                State::Escape | State::EscapeIntermediate | State::Csi | State::ControlString => {
                    let action = self.sequence_byte(bytes[at]);
                    at += 1;
                    if action != Action::None {
                        return (at, Step::Feed(action));
                    }
                }
            }
        }
        (at, Step::Feed(Action::None))
    }

    fn special_text(&self, text: &[u8]) -> Option<Step> {
        if text.is_empty() {
            None
        } else if self.inserts {
            Some(Step::Insert)
        } else if self.cuts {
            Some(Step::Cut)
        } else if self.draws_lines() {
            Some(Step::Graphics)
        } else if !text.is_ascii() && text.iter().any(|byte| *byte >= 0xe1) {
            // The first wide character is U+1100: E1 84 80.
            Some(Step::Wide)
        } else if self.coloured && text.contains(&b'\n') {
            Some(Step::Lines)
        } else {
            None
        }
    }

    fn sequence_byte(&mut self, byte: u8) -> Action {
        match byte {
            0x1b => self.state = State::Escape,
            0x18 | 0x1a => self.state = State::Ground,
            _ => match self.state {
                State::Escape => return self.escape_byte(byte),
                State::EscapeIntermediate => return self.designation_byte(byte),
                State::Csi => return self.csi_byte(byte),
                State::Ground | State::Osc | State::ControlString => {}
            },
        }
        Action::None
    }

    fn escape_byte(&mut self, byte: u8) -> Action {
        match byte {
            b'[' => {
                self.state = State::Csi;
                self.len = 0;
            }
            b']' => {
                self.state = State::Osc;
                self.string_len = 0;
            }
            b'P' | b'X' | b'^' | b'_' => self.state = State::ControlString,
            0x20..=0x2f => {
                self.state = State::EscapeIntermediate;
                self.intermediate = byte;
            }
            0x30..=0x7e => {
                self.state = State::Ground;
                return match byte {
                    b'D' => Action::Say(b"\n"),
                    b'E' => Action::Say(b"\r\n"),
                    b'M' => Action::ReverseIndex,
                    b'H' => {
                        self.own_tabs = true;
                        Action::SetTab
                    }
                    b'8' => {
                        self.coloured = true;
                        Action::None
                    }
                    b'c' => {
                        *self = Self::default();
                        Action::Reset
                    }
                    _ => Action::None,
                };
            }
            _ => {}
        }
        Action::None
    }

    /// `ESC ( 0` designates line drawing as G0, `ESC ) 0` as G1; any other set counts as plain. `ESC # 8` is DECALN.
    fn designation_byte(&mut self, byte: u8) -> Action {
        match byte {
            0x20..=0x2f => self.intermediate = 0,
            0x30..=0x7e => {
                self.state = State::Ground;
                match self.intermediate {
                    b'(' => self.line_drawing[0] = byte == b'0',
                    b')' => self.line_drawing[1] = byte == b'0',
                    b'#' if byte == b'8' => return Action::Align,
                    _ => {}
                }
            }
            _ => {}
        }
        Action::None
    }

    fn csi_byte(&mut self, byte: u8) -> Action {
        match byte {
            0x20..=0x3f => {
                if let Some(slot) = self.parameters.get_mut(self.len) {
                    *slot = byte;
                }
                self.len += 1;
            }
            0x40..=0x7e => {
                self.state = State::Ground;
                // These may bring a colour, or another screen that has one.
                self.coloured |= matches!(byte, b'm' | b'h' | b'l');
                if let Some(parameters) = self.parameters.get(..self.len) {
                    let wrapping = parameters.strip_prefix(b"?").is_some_and(|modes| names(modes, 7));
                    if matches!(byte, b'h' | b'l') && wrapping {
                        self.cuts = byte == b'l';
                        return Action::LastColumn;
                    }
                    match (byte, parameters) {
                        (b'h' | b'l', _) if names(parameters, 4) => self.inserts = byte == b'h',
                        // DECSTR: of what it resets, this is kept here.
                        (b'p', b"!") => self.inserts = false,
                        _ => {}
                    }
                    let action = csi_action(byte, parameters);
                    self.own_tabs |= matches!(action, Action::ClearTab | Action::ClearTabs);
                    return action;
                }
            }
            _ => {}
        }
        Action::None
    }

    /// Returns text with line-drawing characters in place of the letters that stand for them.
    pub(super) fn translate(&mut self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len() * 2);
        for byte in text {
            match byte {
                0x0e => self.shifted = true,
                0x0f => self.shifted = false,
                0x60..=0x7e if self.line_drawing[usize::from(self.shifted)] => {
                    let mut buffer = [0; 4];
                    let c = LINE_DRAWING[usize::from(byte - 0x60)];
                    out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
                }
                _ => out.push(*byte),
            }
        }
        out
    }
}

/// Returns whether a mode is among these: 4 is IRM, and of the private ones 7 is DECAWM.
fn names(modes: &[u8], wanted: u16) -> bool {
    let plain = modes.iter().all(|byte| matches!(byte, b'0'..=b'9' | b';'));
    plain && modes.split(|byte| *byte == b';').any(|mode| number(mode) == wanted)
}

/// DEC Special Graphics, 0x60 to 0x7e.
const LINE_DRAWING: [char; 31] = [
    '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─', '⎼', '⎽', '├', '┤', '┴',
    '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
];

fn csi_action(last: u8, parameters: &[u8]) -> Action {
    let private = parameters.first() == Some(&b'?');
    let numbers = &parameters[usize::from(private)..];
    if !numbers.iter().all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':')) {
        return Action::None;
    }
    let mut numbers = numbers.split(|byte| *byte == b';').map(number);
    let first = numbers.next().unwrap_or(0);
    let second = numbers.next();
    let lone = second.is_none();
    match (private, last) {
        (_, b'J') => match first {
            0 => Action::DetachAtHome,
            2 => Action::Detach,
            3 => Action::ClearHistory,
            _ => Action::None,
        },
        (false, b'A' | b'B') => Action::LastColumn,
        (false, b'@') => Action::Shift(Shift::InsertCells, first.max(1)),
        (false, b'P') => Action::Shift(Shift::DeleteCells, first.max(1)),
        (false, b'L') => Action::Shift(Shift::InsertLines, first.max(1)),
        (false, b'M') => Action::Shift(Shift::DeleteLines, first.max(1)),
        (false, b'S') => Action::Shift(Shift::ScrollUp, first.max(1)),
        (false, b'T') => Action::Shift(Shift::ScrollDown, first.max(1)),
        (false, b'r') => Action::Margins(first, second.unwrap_or(0)),
        (false, b's') if parameters.is_empty() => Action::Say(b"\x1b7"),
        (false, b'u') if parameters.is_empty() => Action::Say(b"\x1b8"),
        (false, b'a') => Action::Move(first.max(1), b'C'),
        (false, b'e') => Action::Move(first.max(1), b'B'),
        (false, b'Z') => Action::BackTab(first.max(1)),
        (false, b'I') => Action::Tab(first.max(1)),
        (false, b'g') if first == 0 => Action::ClearTab,
        (false, b'g') if first == 3 => Action::ClearTabs,
        (true, b'h') if lone && first == 1047 => Action::Say(b"\x1b[?47h"),
        (true, b'l') if lone && first == 1047 => Action::LeaveAlternate,
        (true, b'h') if lone && first == 1048 => Action::Say(b"\x1b7"),
        (true, b'l') if lone && first == 1048 => Action::Say(b"\x1b8"),
        _ => Action::None,
    }
}

/// Returns a parameter without its sub-parameters; 0 if it is empty.
fn number(parameter: &[u8]) -> u16 {
    let digits = parameter.split(|byte| *byte == b':').next().unwrap_or_default();
    digits.iter().fold(0, |value: u16, digit| value.saturating_mul(10).saturating_add(u16::from(digit & 0x0f)))
}

/// Returns how many bytes at the end begin a character and do not end it.
pub(super) fn unfinished_character(bytes: &[u8]) -> usize {
    let continuations = bytes.iter().rev().take(3).take_while(|byte| is_continuation(**byte)).count();
    let Some(lead) = bytes.len().checked_sub(continuations + 1) else { return 0 };
    let have = continuations + 1;
    if have < character_len(bytes[lead]) { have } else { 0 }
}

/// Moves the bytes that belong to a begun character to it, and returns their number.
pub(super) fn complete_character(begun: &mut Vec<u8>, bytes: &[u8]) -> usize {
    let missing = begun.first().map_or(0, |lead| character_len(*lead)).saturating_sub(begun.len());
    let count = bytes.iter().take(missing).take_while(|byte| is_continuation(**byte)).count();
    begun.extend_from_slice(&bytes[..count]);
    count
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// Returns the length of a character beyond ASCII from its first byte; 0 if that is not one.
fn character_len(lead: u8) -> usize {
    match lead {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scans in pieces of `size` bytes and returns everything but plain feeding.
    fn steps(bytes: &[u8], size: usize) -> Vec<Step> {
        let mut scanner = Scanner::default();
        let mut found = Vec::new();
        for piece in bytes.chunks(size) {
            let mut rest = piece;
            while !rest.is_empty() {
                let (taken, step) = scanner.scan(rest);
                assert!(taken > 0);
                rest = &rest[taken..];
                if step != Step::Feed(Action::None) {
                    found.push(step);
                }
            }
        }
        found
    }

    #[test]
    fn actions_are_found_however_the_bytes_are_split() {
        let cases: &[(&[u8], &[Action])] = &[
            (b"plain \x1b[1;31mtext\x1b[m", &[]),
            (b"a\x1b[3Jb", &[Action::ClearHistory]),
            (b"a\x1b[?3Jb", &[Action::ClearHistory]),
            (b"\x1b[H\x1b[2J", &[Action::Detach]),
            (b"\x1b[J", &[Action::DetachAtHome]),
            (b"\x1b[3\x1b[4J", &[]),
            (b"\x1b[3\x18J", &[]),
            (b"\x1b[3 J", &[]),
            (b"\x1b[>3J", &[]),
            (b"\x1b]0;\x1b[3J", &[Action::ClearHistory]),
            (b"\x1b]0;[3J\x07", &[]),
            (b"\x1bPq[3J\x1b\\", &[]),
            (b"\x1b[5;10r\x1b[r", &[Action::Margins(5, 10), Action::Margins(0, 0)]),
            (b"\x1b[s\x1b[u", &[Action::Say(b"\x1b7"), Action::Say(b"\x1b8")]),
            (b"\x1b[1;2s\x1b[>1u\x1b[?u", &[]),
            (b"\x1bD\x1bE\x1bM", &[Action::Say(b"\n"), Action::Say(b"\r\n"), Action::ReverseIndex]),
            (b"\x1b[3Z\x1b[a", &[Action::BackTab(3), Action::Move(1, b'C')]),
            (b"\x1b[?1047h\x1b[?1047l", &[Action::Say(b"\x1b[?47h"), Action::LeaveAlternate]),
            (b"\x1b[?1049h\x1b[?25l", &[]),
            (b"\x1bc", &[Action::Reset]),
            (b"\x1bH\x1b[g\x1b[3g\x1b[2I", &[Action::SetTab, Action::ClearTab, Action::ClearTabs, Action::Tab(2)]),
            (b"\x1b#8\x1b#3", &[Action::Align]),
        ];
        for (bytes, expected) in cases {
            let expected: Vec<_> = expected.iter().map(|action| Step::Feed(*action)).collect();
            for size in [1, 2, 3, 5, 100] {
                assert_eq!(steps(bytes, size), expected, "{:?} by {size}", String::from_utf8_lossy(bytes));
            }
        }
    }

    #[test]
    fn wide_and_line_drawing_text_is_told_apart() {
        assert_eq!(steps("héllo".as_bytes(), 100), vec![]);
        assert_eq!(steps("ab中".as_bytes(), 100), vec![Step::Wide]);
        assert_eq!(steps(b"\x1b(0qqx\x1b(Bqqx", 100), vec![Step::Graphics]);
        let mut scanner = Scanner::default();
        scanner.scan(b"\x1b)0");
        assert_eq!(scanner.translate(b"lq\x0elqk\x0fq"), "lq┌─┐q".as_bytes());
    }

    #[test]
    fn text_in_insert_mode_and_tabs_between_own_stops_are_told_apart() {
        assert_eq!(steps(b"a\tb\x1b[4hcd\x1b[4le\x1b[?4hf", 100), [Step::Insert]);
        assert_eq!(
            steps(b"\x1b[20;4hc\x1b[!pd\x1b[4he\x1bcf", 100),
            [Step::Insert, Step::Insert, Step::Feed(Action::Reset)]
        );
        let own = [Step::Feed(Action::SetTab), Step::Tab, Step::Tab, Step::Feed(Action::Reset)];
        for size in [1, 2, 100] {
            assert_eq!(steps(b"\ta\x1bH\ta\tb\x1bc\tc", size), own, "by {size}");
        }
    }

    #[test]
    fn characters_that_are_cut_are_put_together() {
        for (bytes, unfinished) in [
            (&b""[..], 0),
            (b"a", 0),
            (b"\xe4", 1),
            (b"a\xe4\xb8", 2),
            (b"a\xe4\xb8\xad", 0),
            (b"\xf0\x9f\x98", 3),
            (b"\xf0\x9f\x98\x80", 0),
            (b"\xc3", 1),
            (b"\xc3\xa9", 0),
            (b"\xc0", 0),
            (b"\x80\x80\x80\x80", 0),
        ] {
            assert_eq!(unfinished_character(bytes), unfinished, "{bytes:?}");
        }
        let mut begun = b"\xe4".to_vec();
        assert_eq!(complete_character(&mut begun, b"\xb8"), 1);
        assert_eq!(complete_character(&mut begun, b"\xad\xad"), 1);
        assert_eq!(begun, "中".as_bytes());
        assert_eq!(complete_character(&mut b"\xe4".to_vec(), b"x"), 0);
    }

    #[test]
    fn a_control_string_is_cut() {
        let mut scanner = Scanner::default();
        let mut bytes = b"\x1b]52;c;".to_vec();
        bytes.resize(300_000, b'A');
        bytes.extend_from_slice(b"\x07rest");
        let (mut fed, mut dropped, mut rest) = (0, 0, &bytes[..]);
        while !rest.is_empty() {
            let (taken, step) = scanner.scan(rest);
            rest = &rest[taken..];
            if step == Step::Drop { dropped += taken } else { fed += taken }
        }
        assert_eq!(fed, 2 + STRING_LIMIT + 5);
        assert_eq!(fed + dropped, bytes.len());
    }
}
