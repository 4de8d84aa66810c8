//! tmux's answers. Pure.
//!
//! One line for each row, fields separated by single spaces, numbers and ids first. Names come last and
//! quoted by tmux (`#{q:...}` puts a backslash before each space), so that no name can shift a field.
//! Separators are printable because others are rewritten by version and locale. A row that does not fit is an
//! error that carries it.

use crate::lifecycle::identity::Pid;

use super::error::ParseError;
use super::ids::{PaneId, SessionId, WindowId};
use super::version::Version;

/// The format that [`Created::parse`] reads.
pub const CREATED_FORMAT: &str = "#{session_id} #{window_id} #{pane_id} #{pane_pid} #{pid} #{version}";

/// The format that [`PaneRow::parse`] reads. Variables that an older tmux does not know become empty.
pub const PANE_FORMAT: &str = "#{pid} #{session_id} #{window_id} #{pane_id} #{pane_pid} \
    #{pane_dead} #{pane_dead_status} #{pane_dead_signal} #{pane_width} #{pane_height} #{cursor_x} #{cursor_y} \
    #{history_size} #{alternate_on} #{pane_in_mode} #{pane_input_off} #{window_linked} #{window_linked_sessions} \
    #{session_group_size} #{session_attached} #{q:session_name} #{q:pane_title}";

/// The format that [`SessionRow::parse`] reads.
pub const SESSION_FORMAT: &str = "#{pid} #{session_id} #{session_windows} #{session_attached} #{session_created} \
    #{session_group_size} #{q:session_name}";

/// The format that [`bell`] reads.
pub const BELL_FORMAT: &str = "#{session_id} #{window_bell_flag}";

/// The format that [`Keeping::parse`] reads.
pub const KEEPS_FORMAT: &str = "#{pane_id} #{remain-on-exit} #{@cookbook-tui-kept} #{version}";

/// The format that [`activity`] reads.
pub const ACTIVITY_FORMAT: &str = "#{pid} #{session_id} #{window_activity} #{history_size} #{cursor_y} #{cursor_x}";

/// The format that [`PaneModes::parse`] reads. The word in front tells it from the contents of a pane.
pub const MODES_FORMAT: &str = "modes #{pane_width} #{pane_height} #{cursor_x} #{cursor_y} #{alternate_on} \
    #{keypad_cursor_flag} #{keypad_flag} #{mouse_standard_flag} #{mouse_all_flag} #{mouse_sgr_flag} \
    #{mouse_button_flag} #{cursor_flag} #{insert_flag} #{q:host} #{q:pane_title}";

/// What a new session consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// The session.
    pub session: SessionId,
    /// Its only window.
    pub window: WindowId,
    /// The window's only pane.
    pub pane: PaneId,
    /// The root process of the pane.
    pub pane_pid: Pid,
    /// The server.
    pub server_pid: Pid,
    /// What the server says it is: one that runs since before an upgrade is older than the program.
    pub version: Version,
}

/// What runs in a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaneState {
    /// A process.
    Running {
        /// Root process of the pane.
        pid: Pid,
    },
    /// Nothing any more, or nothing ever. tmux learns of the terminal's end apart from the process's: for a
    /// moment, or until [`super::Server::reap_panes`], neither status nor signal is known.
    Dead {
        /// The pid that the root process had. tmux has reaped it: it may be anybody's by now.
        pid: Option<Pid>,
        /// Exit status, where it exited.
        status: Option<i32>,
        /// Signal, where one ended it (from tmux 3.3 on).
        signal: Option<i32>,
    },
}

/// One pane, as seen from one session.
#[expect(clippy::struct_excessive_bools, reason = "independent facts that tmux reports side by side")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaneRow {
    /// The server that answered. The ids below mean nothing on another one.
    pub server: Pid,
    /// The session.
    pub session: SessionId,
    /// The window.
    pub window: WindowId,
    /// The pane.
    pub pane: PaneId,
    /// What runs in it.
    pub state: PaneState,
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
    /// Column of the cursor, from 0.
    pub cursor_x: u16,
    /// Row of the cursor, from 0.
    pub cursor_y: u16,
    /// Lines of history above the screen.
    pub history: u32,
    /// The alternate screen is shown.
    pub alternate_on: bool,
    /// Copy mode or another mode is shown.
    pub in_mode: bool,
    /// Input is switched off.
    pub input_off: bool,
    /// The window is also in another session, so that killing this one does not end it, and ending
    /// its processes hits somebody else.
    pub linked: bool,
    /// Clients attached to the session.
    pub attached: u32,
    /// Name of the session. Text of others.
    pub session_name: String,
    /// Title that the pane's program has set. Text of others.
    pub title: String,
}

/// What an emulator has to know of a pane besides its contents.
#[expect(clippy::struct_excessive_bools, reason = "independent modes of a terminal")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaneModes {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
    /// Column of the cursor, from 0; the width where a wrap is pending.
    pub cursor_x: u16,
    /// Row of the cursor, from 0.
    pub cursor_y: u16,
    /// The alternate screen is shown (mode 1049).
    pub alternate_on: bool,
    /// Application cursor keys (mode 1).
    pub cursor_keys: bool,
    /// Application keypad (`ESC =`).
    pub keypad: bool,
    /// Mouse clicks (mode 1000).
    pub mouse_standard: bool,
    /// All mouse motion (mode 1003).
    pub mouse_all: bool,
    /// SGR mouse reports (mode 1006).
    pub mouse_sgr: bool,
    /// Mouse clicks and drags (mode 1002).
    pub mouse_button: bool,
    /// The cursor is visible (mode 25).
    pub cursor_visible: bool,
    /// Text moves on what is behind it (mode 4).
    pub inserts: bool,
    /// Title that the pane's program has set; empty for that of a new pane, the name of the host. Text of others.
    pub title: String,
}

/// One session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// The server that answered. The id below means nothing on another one.
    pub server: Pid,
    /// The session.
    pub session: SessionId,
    /// Windows in it.
    pub windows: u32,
    /// Clients attached to it.
    pub attached: u32,
    /// When it was made, in seconds since the Unix epoch.
    pub created: u64,
    /// It shares its windows with other sessions of its group.
    pub grouped: bool,
    /// Name. Text of others.
    pub name: String,
}

impl Created {
    /// Reads the answer to `new-session`.
    pub fn parse(output: &[u8]) -> Result<Self, ParseError> {
        let row = output.strip_suffix(b"\n").unwrap_or(output);
        let mut fields = Fields::new("new session", row)?;
        let created = Self {
            session: fields.next("session_id")?,
            window: fields.next("window_id")?,
            pane: fields.next("pane_id")?,
            pane_pid: fields.pid("pane_pid")?,
            server_pid: fields.pid("pid")?,
            version: fields.version()?,
        };
        fields.end()?;
        Ok(created)
    }
}

impl PaneRow {
    /// Reads one row of [`PANE_FORMAT`], without its newline.
    pub fn parse(row: &[u8]) -> Result<Self, ParseError> {
        let mut fields = Fields::new("pane row", row)?;
        let server = fields.pid("pid")?;
        let (session, window, pane) = (fields.next("session_id")?, fields.next("window_id")?, fields.next("pane_id")?);
        let state = {
            let pid = Pid::new(fields.next("pane_pid")?);
            let dead = fields.flag("pane_dead")?;
            let (status, signal) = (fields.optional("pane_dead_status")?, fields.optional("pane_dead_signal")?);
            match (dead, pid) {
                (true, pid) => PaneState::Dead { pid, status, signal },
                (false, Some(pid)) => PaneState::Running { pid },
                (false, None) => return Err(fields.bad("pane_pid of a live pane")),
            }
        };
        let row = Self {
            server,
            session,
            window,
            pane,
            state,
            width: fields.next("pane_width")?,
            height: fields.next("pane_height")?,
            cursor_x: fields.next("cursor_x")?,
            cursor_y: fields.next("cursor_y")?,
            history: fields.next("history_size")?,
            alternate_on: fields.flag("alternate_on")?,
            in_mode: fields.optional::<u32>("pane_in_mode")?.is_some_and(|modes| modes > 0),
            input_off: fields.flag("pane_input_off")?,
            // A hint: `window_linked` alone is blind to the other sessions of the own group (3.3a), and both count
            // tmux's own notices too, see `Server::confirm_links`.
            linked: {
                let linked = fields.flag("window_linked")?;
                let sessions = fields.optional::<u32>("window_linked_sessions")?;
                let group = fields.optional::<u32>("session_group_size")?;
                linked || sessions.is_some_and(|n| n > 1) || group.is_some_and(|n| n > 1)
            },
            attached: fields.next("session_attached")?,
            session_name: fields.name("session_name")?,
            title: fields.name("pane_title")?,
        };
        fields.end()?;
        Ok(row)
    }
}

impl PaneModes {
    /// Reads the one line of [`MODES_FORMAT`].
    pub fn parse(row: &[u8]) -> Result<Self, ParseError> {
        let mut fields = Fields::new("pane modes", row)?;
        if fields.raw("modes")? != "modes" {
            return Err(fields.bad("start"));
        }
        let modes = Self {
            width: fields.next("pane_width")?,
            height: fields.next("pane_height")?,
            cursor_x: fields.next("cursor_x")?,
            cursor_y: fields.next("cursor_y")?,
            alternate_on: fields.flag("alternate_on")?,
            cursor_keys: fields.flag("keypad_cursor_flag")?,
            keypad: fields.flag("keypad_flag")?,
            mouse_standard: fields.flag("mouse_standard_flag")?,
            mouse_all: fields.flag("mouse_all_flag")?,
            mouse_sgr: fields.flag("mouse_sgr_flag")?,
            mouse_button: fields.flag("mouse_button_flag")?,
            cursor_visible: fields.flag("cursor_flag")?,
            inserts: fields.flag("insert_flag")?,
            title: {
                let (host, title) = (fields.name("host")?, fields.name("pane_title")?);
                if title == host { String::new() } else { title }
            },
        };
        fields.end()?;
        Ok(modes)
    }
}

impl SessionRow {
    /// Reads one row of [`SESSION_FORMAT`], without its newline.
    pub fn parse(row: &[u8]) -> Result<Self, ParseError> {
        let mut fields = Fields::new("session row", row)?;
        let row = Self {
            server: fields.pid("pid")?,
            session: fields.next("session_id")?,
            windows: fields.next("session_windows")?,
            attached: fields.next("session_attached")?,
            created: fields.next("session_created")?,
            grouped: fields.optional::<u32>("session_group_size")?.is_some_and(|n| n > 1),
            name: fields.name("session_name")?,
        };
        fields.end()?;
        Ok(row)
    }
}

/// Reads one row of [`BELL_FORMAT`]: a session, and whether the bell of one of its windows rang since somebody was
/// attached.
pub fn bell(row: &[u8]) -> Result<(SessionId, bool), ParseError> {
    let mut fields = Fields::new("bell row", row)?;
    let rang = (fields.next("session_id")?, fields.flag("window_bell_flag")?);
    fields.end()?;
    Ok(rang)
}

/// What becomes of a pane when its program ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keeping {
    /// The pane.
    pub pane: PaneId,
    /// It goes, always or with status 0, and takes its window along where it is the last one.
    pub goes: bool,
    /// It stays because a stop has said so: one that was interrupted, or that is under way.
    pub kept_for_a_stop: bool,
    /// The server.
    pub version: Version,
}

impl Keeping {
    /// Reads one row of [`KEEPS_FORMAT`].
    pub fn parse(row: &[u8]) -> Result<Self, ParseError> {
        let mut fields = Fields::new("pane", row)?;
        let keeping = Self {
            pane: fields.next("pane_id")?,
            goes: matches!(fields.raw("remain-on-exit")?, "off" | "failed"),
            kept_for_a_stop: fields.raw("@cookbook-tui-kept")? == "1",
            version: fields.version()?,
        };
        fields.end()?;
        Ok(keeping)
    }
}

/// Reads one row of [`ACTIVITY_FORMAT`]: the server, a session, and numbers that change whenever one of its panes prints.
/// The first of them is in seconds; the others change within one.
pub fn activity(row: &[u8]) -> Result<(Pid, SessionId, [u64; 4]), ParseError> {
    let mut fields = Fields::new("activity row", row)?;
    let (server, session) = (fields.pid("pid")?, fields.next("session_id")?);
    let mut numbers = [0; 4];
    for (number, name) in numbers.iter_mut().zip(["window_activity", "history_size", "cursor_y", "cursor_x"]) {
        *number = fields.next(name)?;
    }
    fields.end()?;
    Ok((server, session, numbers))
}

/// Reads all rows of an answer.
///
/// # Errors
/// That of the first row that does not fit: a partial list would look like an absence.
pub fn rows<T>(output: &[u8], parse: impl Fn(&[u8]) -> Result<T, ParseError>) -> Result<Vec<T>, ParseError> {
    let output = output.strip_suffix(b"\n").unwrap_or(output);
    if output.is_empty() { Ok(Vec::new()) } else { output.split(|byte| *byte == b'\n').map(parse).collect() }
}

/// Reads what the commands before input print: whether the pane is dead, whether it takes no input.
pub(super) fn before_input(output: &[u8]) -> Result<(bool, bool), ParseError> {
    let row = output.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut fields = Fields::new("pane condition", row)?;
    let condition = (fields.flag("pane_dead")?, fields.flag("pane_input_off")?);
    fields.end()?;
    Ok(condition)
}

/// The fields of one row, in order.
struct Fields<'a> {
    what: &'static str,
    row: &'a [u8],
    rest: Option<&'a str>,
}

impl<'a> Fields<'a> {
    fn new(what: &'static str, row: &'a [u8]) -> Result<Self, ParseError> {
        let text = std::str::from_utf8(row).map_err(|_| ParseError::new(what, row, "not UTF-8"))?;
        Ok(Self { what, row, rest: Some(text) })
    }

    fn bad(&self, field: &str) -> ParseError {
        ParseError::new(self.what, self.row, format!("bad {field}"))
    }

    /// Takes what is before the next space that has no backslash before it.
    fn raw(&mut self, field: &str) -> Result<&'a str, ParseError> {
        let Some(rest) = self.rest else { return Err(ParseError::new(self.what, self.row, format!("no {field}"))) };
        let mut escaped = false;
        let end = rest.bytes().position(|byte| {
            let separator = byte == b' ' && !escaped;
            escaped = byte == b'\\' && !escaped;
            separator
        });
        let (raw, rest) = end.map_or((rest, None), |end| (&rest[..end], Some(&rest[end + 1..])));
        self.rest = rest;
        Ok(raw)
    }

    /// A name that says nothing of its age is taken for new.
    fn version(&mut self) -> Result<Version, ParseError> {
        let word = self.raw("version")?;
        if word.is_empty() || word.contains(char::is_control) {
            return Err(self.bad("version"));
        }
        Ok(word.parse().unwrap_or_else(|_| Version::Unnumbered(word.to_owned())))
    }

    fn next<T: std::str::FromStr>(&mut self, field: &str) -> Result<T, ParseError> {
        self.raw(field)?.parse().map_err(|_| self.bad(field))
    }

    fn optional<T: std::str::FromStr>(&mut self, field: &str) -> Result<Option<T>, ParseError> {
        let raw = self.raw(field)?;
        if raw.is_empty() { Ok(None) } else { raw.parse().map(Some).map_err(|_| self.bad(field)) }
    }

    fn pid(&mut self, field: &str) -> Result<Pid, ParseError> {
        Pid::new(self.next(field)?).ok_or_else(|| self.bad(field))
    }

    fn flag(&mut self, field: &str) -> Result<bool, ParseError> {
        match self.raw(field)? {
            "" | "0" => Ok(false),
            "1" => Ok(true),
            _ => Err(self.bad(field)),
        }
    }

    fn name(&mut self, field: &str) -> Result<String, ParseError> {
        let mut name = String::new();
        let mut chars = self.raw(field)?.chars();
        while let Some(c) = chars.next() {
            name.push(if c == '\\' { chars.next().ok_or_else(|| self.bad(field))? } else { c });
        }
        Ok(name)
    }

    fn end(&self) -> Result<(), ParseError> {
        match self.rest {
            None => Ok(()),
            Some(_) => Err(ParseError::new(self.what, self.row, "more fields than asked for")),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use crate::text::noise::damaged;
    use proptest::prelude::*;

    use super::*;

    const ROW: &str = r"41 $1 @2 %3 99 0   80 24 5 6 7 1 0 0 0 1  0 work\ one ti\;t\\le";

    #[test]
    fn a_pane_row_is_read() {
        let row = PaneRow::parse(ROW.as_bytes()).unwrap();
        let expected = PaneRow {
            server: Pid::new(41).unwrap(),
            session: SessionId::new(1),
            window: WindowId::new(2),
            pane: PaneId::new(3),
            state: PaneState::Running { pid: Pid::new(99).unwrap() },
            width: 80,
            height: 24,
            cursor_x: 5,
            cursor_y: 6,
            history: 7,
            alternate_on: true,
            in_mode: false,
            input_off: false,
            linked: false,
            attached: 0,
            session_name: "work one".to_owned(),
            title: r"ti;t\le".to_owned(),
        };
        assert_eq!(row, expected);
    }

    #[test]
    fn dead_panes_keep_how_they_ended() {
        let state = |fields: &str| PaneRow::parse(ROW.replace("99 0  ", fields).as_bytes()).map(|row| row.state);
        let pid = Pid::new(99);
        assert_eq!(state("99 1 3 ").unwrap(), PaneState::Dead { pid, status: Some(3), signal: None });
        assert_eq!(state("99 1  9").unwrap(), PaneState::Dead { pid, status: None, signal: Some(9) });
        assert_eq!(state("0 1  ").unwrap(), PaneState::Dead { pid: None, status: None, signal: None });
        for bad in ["0 0  ", "-1 0  ", "x 0  ", "99 2  ", "99 1 x "] {
            assert!(state(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn any_sign_of_another_session_is_a_link() {
        for (fields, linked) in
            [("0 1 ", false), ("1 1 ", true), ("0 2 ", true), ("0 1 2", true), ("0 1 1", false), ("0  ", false)]
        {
            let row = ROW.replace("0 0 0 1  0 work", &format!("0 0 {fields} 0 work"));
            assert_eq!(PaneRow::parse(row.as_bytes()).unwrap().linked, linked, "{fields}");
        }
    }

    #[test]
    fn malformed_rows_are_errors_that_carry_the_row() {
        for row in [
            "",
            "41",
            "41 $1 @2 %3",
            &ROW[..ROW.len() - 30],
            &format!("{ROW} more"),
            &ROW.replace("$1", "1"),
            &ROW.replace(' ', "_"),
        ] {
            assert_eq!(PaneRow::parse(row.as_bytes()).unwrap_err().row, row);
        }
        assert!(PaneRow::parse(&[ROW.as_bytes(), b"\xff"].concat()).is_err());
        assert!(PaneRow::parse(format!("{ROW}\\").as_bytes()).is_err());
        let rows = rows(format!("{ROW}\nnonsense\n{ROW}\n").as_bytes(), PaneRow::parse);
        assert_eq!(rows.unwrap_err().row, "nonsense");
    }

    #[test]
    fn no_output_is_no_rows_and_an_empty_line_is_an_error() {
        assert_eq!(rows(b"", SessionRow::parse).unwrap(), []);
        assert!(rows(b"\n\n", SessionRow::parse).is_err());
    }

    #[test]
    fn pane_modes_are_read() {
        let modes = PaneModes::parse(b"modes 80 24 80 6 1 0 1 0 1 0 0 1 0 box a\\ title").unwrap();
        assert_eq!((modes.width, modes.height, modes.cursor_x, modes.cursor_y), (80, 24, 80, 6));
        assert!(modes.alternate_on && !modes.cursor_keys && modes.keypad && !modes.mouse_standard);
        assert!(modes.mouse_all && !modes.mouse_sgr && !modes.mouse_button && modes.cursor_visible);
        assert_eq!((modes.inserts, modes.title.as_str()), (false, "a title"));
        for (end, title) in [("box box", ""), ("box ", ""), (" ", ""), ("box box\\ 2", "box 2")] {
            let row = format!("modes 80 24 80 6 1 0 1 0 1 0 0 1 1 {end}");
            assert_eq!(PaneModes::parse(row.as_bytes()).unwrap().title, title, "{end:?}");
        }
        let row = "modes 80 24 5 6 1 0 1 0 1 0 0 1 0 h t";
        for row in ["", &row[6..], row.trim_end_matches(" t"), &row.replace("6 1", "6 2"), &format!("{row} t")] {
            assert!(PaneModes::parse(row.as_bytes()).is_err(), "{row}");
        }
    }

    #[test]
    fn a_session_row_is_read() {
        let row = SessionRow::parse(br"41 $1 2 1 1700000000 2 a\ b").unwrap();
        assert_eq!((row.windows, row.attached, row.created, row.grouped), (2, 1, 1_700_000_000, true));
        assert_eq!(row.name, "a b");
    }

    #[test]
    fn a_creation_is_read() {
        let created = Created::parse(b"$0 @1 %2 99 41 3.3a\n").unwrap();
        assert_eq!((created.pane, created.server_pid), (PaneId::new(2), Pid::new(41).unwrap()));
        for output in [
            "",
            "\n",
            "$0 @1 %2 99",
            "$0 @1 %2 0 41 3.3a",
            "$0 @1 %2 99 41",
            "$0 @1 %2 99 41 3.3a x",
            "$0 @1 %2 99 41 3.3a\n\n",
        ] {
            assert!(Created::parse(output.as_bytes()).is_err(), "{output:?}");
        }
    }

    #[test]
    fn the_condition_before_input_is_read() {
        assert_eq!(before_input(b"0 0\n").unwrap(), (false, false));
        assert_eq!(before_input(b"1 0\n").unwrap(), (true, false));
        assert_eq!(before_input(b" 1\n").unwrap(), (false, true));
        assert!(before_input(b"").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_row_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            drop(PaneRow::parse(&bytes));
            drop(rows(&bytes, SessionRow::parse));
        }

        #[test]
        fn any_quoted_name_comes_back(name in "[^\n]{0,20}") {
            let quoted: String = name.chars().flat_map(|c| ['\\', c]).collect();
            let row = format!("41 $1 2 1 1 1 {quoted}");
            prop_assert_eq!(SessionRow::parse(row.as_bytes()).unwrap().name, name);
        }
    }

    proptest! {
        /// A damaged row is a row, or an error that is fit to be shown.
        #[test]
        fn any_damaged_row_is_a_row_or_an_error(
            pane in damaged(b"41 $1 @2 %3 4242 0   80 24 0 0 100 0 0 0 0 1 1 1 na\\ me ti\\ tle".to_vec()),
            session in damaged(b"41 $1 2 1 1700000000 1 na\\ me".to_vec()),
            created in damaged(b"$1 @2 %3 4242 41 3.3a\n".to_vec()),
            modes in damaged(b"modes 80 24 0 0 0 0 0 0 0 0 0 1 0 host ti\\ tle".to_vec()),
        ) {
            for error in [
                PaneRow::parse(&pane).err(),
                SessionRow::parse(&session).err(),
                Created::parse(&created).err(),
                PaneModes::parse(&modes).err(),
                rows(&session, SessionRow::parse).err(),
                before_input(&pane).err(),
            ].into_iter().flatten() {
                let said = error.to_string();
                prop_assert!(!said.is_empty() && !said.contains(char::is_control), "{:?}", said);
            }
        }
    }
}
