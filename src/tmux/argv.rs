//! The tmux command lines that sessions need, and no others. Pure.
//!
//! Each function returns the words after `tmux` and its global options ([`Global::prefix`]). Targets are
//! ids, texts are literal, and payload stands after `--`, which is where [`shown`] stops: an error or a
//! log never repeats what was typed into a session.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroU32;
use std::path::Path;

use crate::lifecycle::identity::Pid;

use super::ids::{PaneId, SessionId, WindowId, safe_name};
use super::keys::Key;
use super::parse::{ACTIVITY_FORMAT, BELL_FORMAT, CREATED_FORMAT, KEEPS_FORMAT, PANE_FORMAT, SESSION_FORMAT};
use super::quote;
use super::socket::SocketRef;

/// Most bytes of input that go into one command. A command must fit into one message of 16 KiB
/// (imsg(3), `MAX_IMSGSIZE`), and a byte in hexadecimal takes three.
const CHUNK: usize = 2048;

/// tmux's bounds for a window (`WINDOW_MINIMUM` is 1, but a wide character needs two columns).
const COLUMNS: std::ops::RangeInclusive<u16> = 2..=10_000;
const ROWS: std::ops::RangeInclusive<u16> = 1..=10_000;

/// What stands before every command.
#[derive(Clone, Copy, Debug)]
pub struct Global<'a> {
    /// The program.
    pub program: &'a OsStr,
    /// The server's socket.
    pub socket: &'a SocketRef,
    /// The configuration that a starting server reads; `None` leaves tmux its own, for a server that is
    /// the user's and not ours.
    pub config: Option<&'a Path>,
}

impl Global<'_> {
    /// Returns the program and its global options: UTF-8 whatever the locale, our socket, our
    /// configuration, and no server started but by `new-session`.
    pub fn prefix(&self, may_start_server: bool) -> Vec<OsString> {
        let mut argv = vec![self.program.to_owned(), "-u".into()];
        match self.socket {
            SocketRef::Name(name) => argv.extend(["-L".into(), name.into()]),
            SocketRef::Path(path) => argv.extend(["-S".into(), path.into()]),
        }
        if let Some(config) = self.config {
            argv.extend(["-f".into(), config.into()]);
        }
        if !may_start_server {
            argv.push("-N".into());
        }
        argv
    }
}

/// What `new-session` is to make.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// A name for people; made safe by [`safe_name`].
    pub name: String,
    /// Height.
    pub rows: u16,
    /// Width.
    pub cols: u16,
    /// Program and arguments of the pane's root. At least two words: tmux gives a single one to a shell.
    pub argv: Vec<OsString>,
}

/// `new-session`, detached; prints what [`super::parse::Created`] reads. The client's environment is not
/// copied (`-E`), and the words of the command are executed as they are, without a shell.
pub fn new_session(new: &NewSession) -> Vec<OsString> {
    let mut argv = words(["new-session", "-d", "-E", "-P", "-F", CREATED_FORMAT, "-x"]);
    argv.push(clamp(new.cols, &COLUMNS));
    argv.extend(["-y".into(), clamp(new.rows, &ROWS), "-s".into(), safe_name(&new.name).into(), "--".into()]);
    argv.extend(new.argv.iter().map(|word| quote::argument(word)));
    argv
}

/// `set-option` for the one pane: it stays when its program has ended.
pub fn keep_pane(pane: PaneId) -> Vec<OsString> {
    words(["set-option", "-p", "-t", &pane.to_string(), "remain-on-exit", "on"])
}

/// As [`keep_pane`], for many, until [`release_panes`]; that it is for a while is written down at the pane itself.
pub fn keep_panes(panes: &[PaneId]) -> Vec<OsString> {
    in_turn(panes, |pane| {
        format!("set-option -p -t {pane} @cookbook-tui-kept 1 ; set-option -p -t {pane} remain-on-exit on")
    })
}

/// Takes [`keep_panes`] back: its window's option holds for each pane again.
pub fn release_panes(panes: &[PaneId]) -> Vec<OsString> {
    in_turn(panes, |pane| {
        format!("set-option -p -u -t {pane} @cookbook-tui-kept ; set-option -p -u -t {pane} remain-on-exit")
    })
}

/// Closes a pane if its program has ended; nobody is hung up on.
pub fn close_dead_pane(pane: PaneId) -> Vec<OsString> {
    words(["if-shell", "-F", "-t", &pane.to_string(), "#{pane_dead}", &format!("kill-pane -t {pane}")])
}

/// Commands for each of some panes, in one call. None of the words needs quoting.
fn in_turn(panes: &[PaneId], commands: impl Fn(PaneId) -> String) -> Vec<OsString> {
    let all: Vec<_> = panes.iter().map(|pane| commands(*pane)).collect();
    words(["if-shell", "-F", "1", &all.join(" ; ")])
}

/// `list-panes` of a session, for which of them stay.
pub fn kept_panes(session: SessionId) -> Vec<OsString> {
    words(["list-panes", "-s", "-t", &session.to_string(), "-F", KEEPS_FORMAT])
}

/// Has the server start a child that ends at once; see [`super::Server::reap_panes`].
pub fn reap_panes() -> Vec<OsString> {
    words(["run-shell", "-b", "exit 0"])
}

/// `pipe-pane`: the pane's output goes to the standard input of a program, in place of the one before.
pub fn pipe_pane(pane: PaneId, program: &[OsString]) -> Vec<OsString> {
    let mut argv = words(["pipe-pane", "-O", "-t", &pane.to_string(), "--"]);
    argv.push(quote::argument(&quote::expanded_shell_line(program)));
    argv
}

/// Two commands in one call: the second is not run where the first fails.
pub fn then(mut first: Vec<OsString>, second: Vec<OsString>) -> Vec<OsString> {
    first.push(";".into());
    first.extend(second);
    first
}

/// `list-panes` of one session.
pub fn panes_of_session(session: SessionId) -> Vec<OsString> {
    words(["list-panes", "-s", "-t", &session.to_string(), "-F", PANE_FORMAT])
}

/// `list-panes` of the window that holds a pane; fails where there is no such pane (`display-message`
/// would not).
pub fn panes_beside(pane: PaneId) -> Vec<OsString> {
    words(["list-panes", "-t", &pane.to_string(), "-F", PANE_FORMAT])
}

/// `list-panes` of the whole server. A pane comes once for each session that its window is linked into.
pub fn all_panes() -> Vec<OsString> {
    words(["list-panes", "-a", "-F", PANE_FORMAT])
}

/// `list-sessions`.
pub fn list_sessions() -> Vec<OsString> {
    words(["list-sessions", "-F", SESSION_FORMAT])
}

/// `list-windows` of the whole server, for their bells.
pub fn bells() -> Vec<OsString> {
    words(["list-windows", "-a", "-F", BELL_FORMAT])
}

/// `list-panes` of the whole server, for what they have printed.
pub fn activity() -> Vec<OsString> {
    words(["list-panes", "-a", "-F", ACTIVITY_FORMAT])
}

/// `list-clients` of one session: `1` for each that is in control mode, and so nobody's terminal, else `0`.
pub fn clients_of_session(session: SessionId) -> Vec<OsString> {
    words(["list-clients", "-t", &session.to_string(), "-F", "#{client_control_mode}"])
}

/// Prints the pid of the server.
pub fn server_pid() -> Vec<OsString> {
    words(["display-message", "-p", "#{pid}"])
}

/// Prints the command that a pane was started with, quoted by tmux where it must be. Empty where there is no such
/// pane.
pub fn start_command(pane: PaneId) -> Vec<OsString> {
    words(["display-message", "-p", "-t", &pane.to_string(), "#{pane_start_command}"])
}

/// The commands that type keys.
pub fn send_keys(pane: PaneId, keys: &[Key]) -> Vec<OsString> {
    let mut argv = before_input(pane);
    argv.extend(words(["send-keys", "-t", &pane.to_string(), "--"]));
    argv.extend(keys.iter().map(|key| quote::argument(OsStr::new(key.name()))));
    argv
}

/// Returns the name of the buffer that a paste of this process into a pane goes through: those of two neither mix nor
/// meet.
pub fn paste_buffer(pid: u32, pane: PaneId) -> String {
    format!("cookbook-tui-{pid}-{}", pane.to_string().trim_start_matches('%'))
}

/// The commands that paste what the client reads from its standard input, in brackets where the program of the pane has
/// asked for them, and forget it.
pub fn paste(pane: PaneId, buffer: &str) -> Vec<OsString> {
    let mut argv = before_input(pane);
    argv.extend(words(["load-buffer", "-b", buffer, "-", ";"]));
    argv.extend(words(["paste-buffer", "-p", "-r", "-d", "-b", buffer, "-t", &pane.to_string()]));
    argv
}

/// `delete-buffer`.
pub fn delete_buffer(buffer: &str) -> Vec<OsString> {
    words(["delete-buffer", "-b", buffer])
}

/// The commands that type a text, one call of tmux for each item. Printable ASCII goes as it is (`-l`), and
/// everything else byte by byte: tmux leaves out characters that it has no width for.
pub fn send_text(pane: PaneId, text: &str) -> Vec<Vec<OsString>> {
    if !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return send_bytes(pane, text.as_bytes());
    }
    let literal = |chunk: &[u8]| {
        let mut argv = before_input(pane);
        argv.extend(words(["send-keys", "-l", "-t", &pane.to_string(), "--"]));
        argv.push(quote::argument(OsStr::new(&*String::from_utf8_lossy(chunk))));
        argv
    };
    text.as_bytes().chunks(CHUNK).map(literal).collect()
}

/// The commands that type bytes, one call of tmux for each item.
pub fn send_bytes(pane: PaneId, bytes: &[u8]) -> Vec<Vec<OsString>> {
    let hex = |chunk: &[u8]| {
        let mut argv = before_input(pane);
        argv.extend(words(["send-keys", "-H", "-t", &pane.to_string(), "--"]));
        argv.extend(chunk.iter().map(|byte| format!("{byte:02x}").into()));
        argv
    };
    bytes.chunks(CHUNK).map(hex).collect()
}

/// What comes before input: the pane's condition is printed, because tmux takes input for a dead
/// pane without a word; and copy mode is left, because it would take the input for its own commands.
fn before_input(pane: PaneId) -> Vec<OsString> {
    let pane = pane.to_string();
    words([
        "display-message",
        "-p",
        "-t",
        &pane,
        "#{pane_dead} #{pane_input_off}",
        ";",
        "copy-mode",
        "-q",
        "-t",
        &pane,
        ";",
    ])
}

/// `resize-window`. The size stays until [`follow_clients`].
pub fn resize_window(window: WindowId, rows: u16, cols: u16) -> Vec<OsString> {
    let mut argv = words(["resize-window", "-t", &window.to_string(), "-x"]);
    argv.extend([clamp(cols, &COLUMNS), "-y".into(), clamp(rows, &ROWS)]);
    argv
}

/// Undoes what [`resize_window`] did to the window's `window-size`: attached clients decide again.
pub fn follow_clients(window: WindowId) -> Vec<OsString> {
    words(["set-option", "-w", "-u", "-t", &window.to_string(), "window-size"])
}

/// What [`capture_pane`] is to return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// Lines of history above the screen.
    pub history: u32,
    /// Colours and attributes as escape sequences.
    pub escapes: bool,
    /// Wrapped lines in one, with their trailing spaces; otherwise one line for each row of the screen.
    pub joined: bool,
}

/// `capture-pane` to standard output.
pub fn capture_pane(pane: PaneId, capture: Capture) -> Vec<OsString> {
    let mut argv = words(["capture-pane", "-p", "-t", &pane.to_string()]);
    argv.extend(capture.escapes.then(|| "-e".into()));
    argv.extend(capture.joined.then(|| "-J".into()));
    if capture.history > 0 {
        argv.extend(["-S".into(), format!("-{}", capture.history).into()]);
    }
    argv
}

/// `list-clients` of one session: those that show it on a terminal, by the name of that terminal. A client has no
/// id, but no two have one terminal.
pub fn clients(session: SessionId) -> Vec<OsString> {
    let format = "#{?client_control_mode,,#{client_tty}}";
    words(["list-clients", "-t", &session.to_string(), "-F", format])
}

/// `display-message` for one client: a text in its status line, for some seconds.
pub fn show_message(client: &OsStr, text: &str) -> Vec<OsString> {
    let mut argv = words(["display-message", "-d", MESSAGE_MS, "-c"]);
    argv.extend([client.to_owned(), "--".into(), quote::argument(&quote::expanded_text(text))]);
    argv
}

/// How long a message stays, in milliseconds.
const MESSAGE_MS: &str = "15000";

/// `kill-session`, done by the server itself only if its pid is the expected one; else it prints
/// its own. A session id alone would name a stranger's session after a restart of the server.
pub fn kill_session(session: SessionId, server: Pid) -> Vec<OsString> {
    let condition = format!("#{{==:#{{pid}},{server}}}");
    let kill = format!("kill-session -t '{session}'");
    words(["if-shell", "-F", &condition, &kill, "display-message -p '#{pid}'"])
}

/// `attach-session`, for a person's terminal.
pub fn attach(session: SessionId) -> Vec<OsString> {
    words(["attach-session", "-E", "-t", &session.to_string()])
}

/// What a control-mode client hears of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// Events only.
    Events,
    /// Output also.
    Output {
        /// Seconds after which output that is not taken is dropped instead.
        pause_after_s: NonZeroU32,
    },
}

impl From<NonZeroU32> for Follow {
    fn from(pause_after_s: NonZeroU32) -> Self {
        Self::Output { pause_after_s }
    }
}

/// `attach-session` for a control-mode client that changes nothing for anybody else: it does not count for the
/// size, and copies no environment.
pub fn attach_control(session: SessionId, follow: Follow) -> Vec<OsString> {
    let flags = match follow {
        Follow::Events => "ignore-size,no-output".to_owned(),
        Follow::Output { pause_after_s } => format!("ignore-size,pause-after={pause_after_s}"),
    };
    words(["attach-session", "-E", "-f", &flags, "-t", &session.to_string()])
}

/// Returns a command line for people, up to and without its payload.
pub fn shown(argv: &[OsString]) -> String {
    let end = argv.iter().position(|word| word == "--");
    let mut shown: Vec<_> = argv[..end.unwrap_or(argv.len())].iter().map(|word| word.to_string_lossy()).collect();
    if end.is_some() {
        shown.push("-- ...".into());
    }
    shown.join(" ")
}

fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<OsString> {
    words.into_iter().map(OsString::from).collect()
}

fn clamp(size: u16, bounds: &std::ops::RangeInclusive<u16>) -> OsString {
    size.clamp(*bounds.start(), *bounds.end()).to_string().into()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::path::PathBuf;

    use super::*;

    const PANE: PaneId = PaneId::new(3);

    fn check(argv: &[OsString], expected: &str) {
        let words: Vec<_> = argv.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(words.join("|"), expected);
    }

    #[test]
    fn every_call_names_socket_and_configuration() {
        let name = SocketRef::Name("cookbook".to_owned());
        let path = SocketRef::Path(PathBuf::from("/run/x"));
        let global = Global { program: OsStr::new("tmux"), socket: &name, config: Some(Path::new("/c")) };
        check(&global.prefix(true), "tmux|-u|-L|cookbook|-f|/c");
        check(&global.prefix(false), "tmux|-u|-L|cookbook|-f|/c|-N");
        check(&Global { socket: &path, config: None, ..global }.prefix(false), "tmux|-u|-S|/run/x|-N");
    }

    #[test]
    fn a_session_is_made_without_a_shell_and_under_a_safe_name() {
        let new = NewSession { name: "x#(touch f)".into(), rows: 0, cols: 1, argv: vec!["front".into(), "a;".into()] };
        check(
            &new_session(&new),
            &format!("new-session|-d|-E|-P|-F|{CREATED_FORMAT}|-x|2|-y|1|-s|x__touch_f_|--|front|a\\;"),
        );
        let huge = NewSession { rows: u16::MAX, cols: u16::MAX, ..new };
        assert!(shown(&new_session(&huge)).ends_with("-x 10000 -y 10000 -s x__touch_f_ -- ..."));
    }

    #[test]
    fn targets_are_ids() {
        check(&panes_of_session(SessionId::new(1)), &format!("list-panes|-s|-t|$1|-F|{PANE_FORMAT}"));
        check(&panes_beside(PANE), &format!("list-panes|-t|%3|-F|{PANE_FORMAT}"));
        check(&keep_pane(PANE), "set-option|-p|-t|%3|remain-on-exit|on");
        let kept = "set-option -p -t %3 @cookbook-tui-kept 1 ; set-option -p -t %3 remain-on-exit on";
        check(&keep_panes(&[PANE]), &format!("if-shell|-F|1|{kept}"));
        assert!(keep_panes(&[PANE, PANE])[3].to_string_lossy().contains(&format!("{kept} ; {kept}")));
        let released = "set-option -p -u -t %3 @cookbook-tui-kept ; set-option -p -u -t %3 remain-on-exit";
        check(&release_panes(&[PANE]), &format!("if-shell|-F|1|{released}"));
        check(&close_dead_pane(PANE), "if-shell|-F|-t|%3|#{pane_dead}|kill-pane -t %3");
        check(&kept_panes(SessionId::new(1)), &format!("list-panes|-s|-t|$1|-F|{KEEPS_FORMAT}"));
        check(&resize_window(WindowId::new(2), 24, 80), "resize-window|-t|@2|-x|80|-y|24");
        check(&follow_clients(WindowId::new(2)), "set-option|-w|-u|-t|@2|window-size");
        check(&clients_of_session(SessionId::new(1)), "list-clients|-t|$1|-F|#{client_control_mode}");
        check(&attach(SessionId::new(1)), "attach-session|-E|-t|$1");
        let attached = |follow| attach_control(SessionId::new(1), follow);
        check(&attached(Follow::Events), "attach-session|-E|-f|ignore-size,no-output|-t|$1");
        let follow = Follow::Output { pause_after_s: NonZeroU32::new(2).unwrap() };
        check(&attached(follow), "attach-session|-E|-f|ignore-size,pause-after=2|-t|$1");
        check(&reap_panes(), "run-shell|-b|exit 0");
        check(&server_pid(), "display-message|-p|#{pid}");
    }

    #[test]
    fn a_session_is_killed_on_the_expected_server_only() {
        let argv = kill_session(SessionId::new(1), Pid::new(42).unwrap());
        check(&argv, "if-shell|-F|#{==:#{pid},42}|kill-session -t '$1'|display-message -p '#{pid}'");
    }

    const BEFORE: &str = "display-message|-p|-t|%3|#{pane_dead} #{pane_input_off}|;|copy-mode|-q|-t|%3|;";

    #[test]
    fn input_is_literal() {
        check(&send_text(PANE, "#{pid} $HOME;").concat(), &format!("{BEFORE}|send-keys|-l|-t|%3|--|#{{pid}} $HOME\\;"));
        check(&send_text(PANE, "é\n").concat(), &format!("{BEFORE}|send-keys|-H|-t|%3|--|c3|a9|0a"));
        check(&send_bytes(PANE, b"\0\xff;").concat(), &format!("{BEFORE}|send-keys|-H|-t|%3|--|00|ff|3b"));
        let keys = super::super::keys::parse_all(["C-c", ";"]).unwrap();
        check(&send_keys(PANE, &keys), &format!("{BEFORE}|send-keys|-t|%3|--|C-c|\\;"));
        assert_eq!(send_text(PANE, ""), Vec::<Vec<OsString>>::new());
    }

    #[test]
    fn a_paste_comes_by_standard_input() {
        let buffer = paste_buffer(42, PANE);
        let paste = paste(PANE, &buffer);
        let name = "cookbook-tui-42-3";
        check(&paste, &format!("{BEFORE}|load-buffer|-b|{name}|-|;|paste-buffer|-p|-r|-d|-b|{name}|-t|%3"));
        check(&delete_buffer(&buffer), &format!("delete-buffer|-b|{name}"));
    }

    #[test]
    fn long_input_is_cut_into_messages() {
        let long = "x".repeat(2 * CHUNK + 1);
        assert_eq!(send_text(PANE, &long).len(), 3);
        for argv in send_text(PANE, &long).iter().chain(&send_bytes(PANE, &vec![0xff; 5000])) {
            assert!(argv.iter().map(|word| word.len() + 1).sum::<usize>() < 8192);
        }
    }

    #[test]
    fn captures_say_what_they_want() {
        let all = Capture { history: 500, escapes: true, joined: true };
        check(&capture_pane(PANE, all), "capture-pane|-p|-t|%3|-e|-J|-S|-500");
        check(&capture_pane(PANE, Capture::default()), "capture-pane|-p|-t|%3");
    }

    #[test]
    fn payload_is_not_shown() {
        for argv in [
            send_text(PANE, "secret").concat(),
            send_bytes(PANE, b"secret").concat(),
            pipe_pane(PANE, &["secret".into()]),
            new_session(&NewSession { name: String::new(), rows: 1, cols: 1, argv: vec!["secret".into()] }),
        ] {
            let shown = shown(&argv);
            assert!(shown.ends_with(" -- ...") && !shown.contains("secret"), "{shown}");
        }
        assert_eq!(shown(&bells()), format!("list-windows -a -F {BELL_FORMAT}"));
        assert_eq!(shown(&activity()), format!("list-panes -a -F {ACTIVITY_FORMAT}"));
        assert_eq!(shown(&list_sessions()), format!("list-sessions -F {SESSION_FORMAT}"));
    }
}
