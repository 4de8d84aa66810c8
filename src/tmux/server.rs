//! One tmux server, asked by running tmux(1).
//!
//! Called by `app` from threads that may wait: every call may take up to [`DEADLINE`]. It never targets a
//! name, never starts a server except in [`Server::create`], and never hands its own environment on.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::lifecycle::identity::Pid;
use crate::lifecycle::inspect::Inspector;
use crate::lifecycle::spawn::{self, Output, Spec};
use crate::lifecycle::store::make_dir;
use crate::lifecycle::tree::Captured;

use super::argv::{self, Capture, Global, NewSession};
use super::error::{Complaint, TmuxError, classify};
use super::ids::{PaneId, SessionId, WindowId};
use super::keys::Key;
use super::parse::{self, Created, Keeping, PaneRow, SessionRow};
use super::socket::{self, Probe, SocketRef};
use super::version::Version;

/// How long tmux may take to answer.
pub const DEADLINE: Duration = Duration::from_secs(2);

/// How long a server that is leaving gets before it is asked again.
const RETRY: Duration = Duration::from_millis(20);

/// Returns the variables that tmux may see: what it needs to find programs, its sockets, a locale
/// and a terminal description. A server keeps the environment of whoever starts it for all of its
/// sessions, so nothing of the launcher's may be in it, and no `TMUX` that would make it look nested.
pub fn environment(vars: impl IntoIterator<Item = (OsString, OsString)>) -> Vec<(OsString, OsString)> {
    const NAMES: [&str; 8] = ["PATH", "HOME", "TERM", "LANG", "SHELL", "USER", "TMUX_TMPDIR", "XDG_RUNTIME_DIR"];
    let passes = |name: &OsStr| name.to_str().is_some_and(|name| NAMES.contains(&name) || name.starts_with("LC_"));
    vars.into_iter().filter(|(name, _)| passes(name)).collect()
}

/// How a [`Server::kill_session`] went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Closed {
    /// The server has closed the session.
    Killed,
    /// The server had no such session any more.
    AlreadyGone,
    /// No server answers on the socket. The session is gone if the server is: whoever knows the server's
    /// identity has to look, because a server can outlive its socket.
    NoServer,
}

/// A tmux server.
///
/// Calls that look: [`Self::probe`], [`Self::version`], [`Self::sessions`], [`Self::panes`], [`Self::all_panes`], [`Self::bells`],
/// [`Self::activity`], [`Self::pane`], [`Self::capture`]. Calls that change something: all others. None of them changes `self`.
#[derive(Clone, Debug)]
pub struct Server {
    program: OsString,
    socket: SocketRef,
    config: Option<PathBuf>,
    env: Vec<(OsString, OsString)>,
    /// What its program has said of itself.
    known: Arc<OnceLock<Version>>,
}

impl Server {
    /// Returns the server behind a socket; asks nothing yet.
    ///
    /// `config` is the file that it reads if [`Self::create`] starts it (write [`super::CONFIG`] there), `None`
    /// for a server that is the user's own. `vars` is the environment of this process, of which
    /// [`environment`] passes a few.
    pub fn new(
        socket: SocketRef,
        config: Option<PathBuf>,
        vars: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Self {
        Self { program: "tmux".into(), socket, config, env: environment(vars), known: Arc::default() }
    }

    /// Uses another program than `tmux`.
    #[must_use]
    pub fn with_program(self, program: impl Into<OsString>) -> Self {
        Self { program: program.into(), known: Arc::default(), ..self }
    }

    /// Returns the same server reached by way of another socket, which somebody passes on from.
    pub(super) fn at_socket(&self, socket: &Path) -> Self {
        Self { socket: SocketRef::Path(socket.to_owned()), ..self.clone() }
    }

    /// Returns how it is reached.
    pub const fn socket(&self) -> &SocketRef {
        &self.socket
    }

    /// Returns where its socket is.
    pub fn socket_path(&self) -> PathBuf {
        self.socket.path(self.tmpdir())
    }

    /// Asks the kernel who listens on the socket. Never blocks.
    pub fn probe(&self) -> Probe {
        socket::probe(&self.socket, self.tmpdir())
    }

    /// Returns the version of the program, which a server that runs since before an upgrade need not have.
    ///
    /// # Errors
    /// [`TmuxError::TooOld`] before 3.2, [`TmuxError::NotInstalled`].
    pub fn version(&self) -> Result<Version, TmuxError> {
        let output = self.run(vec![self.program.clone(), "-V".into()], None, "-V")?;
        let version = Version::parse(&String::from_utf8_lossy(&output.stdout))?;
        if version.is_supported() { Ok(version) } else { Err(TmuxError::TooOld { version }) }
    }

    /// As [`Self::version`], asked until there is an answer, and then no more.
    ///
    /// # Errors
    /// As those of [`Self::version`].
    pub fn known_version(&self) -> Result<Version, TmuxError> {
        if let Some(known) = self.known.get() {
            return Ok(known.clone());
        }
        let version = self.version()?;
        Ok(self.known.get_or_init(|| version).clone())
    }

    /// Makes a session, and starts the server if there is none.
    ///
    /// # Errors
    /// [`TmuxError::ForeignServer`] where the server that answered is not the one that the kernel names: the
    /// session then exists, on a server that nothing should be done to.
    pub fn create(&self, new: &NewSession) -> Result<Created, TmuxError> {
        if new.argv.len() < 2 {
            return Err(TmuxError::Invalid("a command for tmux needs at least one argument".to_owned()));
        }
        self.make_directory();
        let output = self.persist(&argv::new_session(new), true)?;
        let created = Created::parse(&output)?;
        let listener = self.probe();
        if listener == (Probe::Running { pid: created.server_pid }) {
            Ok(created)
        } else {
            Err(TmuxError::ForeignServer { expected: created.server_pid, found: listener.to_string() })
        }
    }

    /// Makes the directory of a socket that has only a name, as tmux does: but that makes it by the umask, which may take
    /// the owner's bits, and then finds nothing in there. Where we cannot, tmux says why.
    fn make_directory(&self) {
        if let (SocketRef::Name(_), Some(directory)) = (&self.socket, self.socket_path().parent()) {
            make_dir(directory).ok();
        }
    }

    /// Returns the panes of a session.
    pub fn panes(&self, session: &SessionId) -> Result<Vec<PaneRow>, TmuxError> {
        let rows = parse::rows(&self.call(argv::panes_of_session(*session))?, PaneRow::parse)?;
        if rows.is_empty() {
            return Err(TmuxError::Unreadable(format!(
                "it lists no pane of {session}, and does not say that it is gone"
            )));
        }
        self.confirm_links(rows)
    }

    /// Returns one pane.
    pub fn pane(&self, pane: &PaneId) -> Result<PaneRow, TmuxError> {
        let rows = parse::rows(&self.call(argv::panes_beside(*pane))?, PaneRow::parse)?;
        self.confirm_links(rows)?
            .into_iter()
            .find(|row| row.pane == *pane)
            .ok_or_else(|| TmuxError::NoPane(format!("did not list pane {pane}")))
    }

    /// Returns every pane of the server, once for each session that its window is in.
    pub fn all_panes(&self) -> Result<Vec<PaneRow>, TmuxError> {
        let mut rows = parse::rows(&self.call(argv::all_panes())?, PaneRow::parse)?;
        let listed = places(&rows);
        keep_links(&listed, &mut rows);
        Ok(rows)
    }

    /// Leaves `linked` with those rows whose window another session lists too. tmux counts whoever holds a window,
    /// its own notices that are still to be sent included, so that a window which has just changed its size
    /// looks linked for a moment (3.3a).
    pub(super) fn confirm_links(&self, mut rows: Vec<PaneRow>) -> Result<Vec<PaneRow>, TmuxError> {
        if rows.iter().any(|row| row.linked) {
            let listed = places(&parse::rows(&self.call(argv::all_panes())?, PaneRow::parse)?);
            keep_links(&listed, &mut rows);
        }
        Ok(rows)
    }

    /// Returns the sessions.
    ///
    /// # Errors
    /// [`TmuxError::NoServer`] where nobody answers, which is not an empty list.
    pub fn sessions(&self) -> Result<Vec<SessionRow>, TmuxError> {
        Ok(parse::rows(&self.call(argv::list_sessions())?, SessionRow::parse)?)
    }

    /// Returns the sessions in which a bell rang since somebody was attached to them last.
    ///
    /// # Errors
    /// As [`Self::sessions`].
    pub fn bells(&self) -> Result<BTreeSet<SessionId>, TmuxError> {
        let rows = parse::rows(&self.call(argv::bells())?, parse::bell)?;
        Ok(rows.into_iter().filter_map(|(session, rang)| rang.then_some(session)).collect())
    }

    /// Returns a number for each session of this server that changes whenever one of its panes prints, and the pid of the
    /// server that says so. It is compared with itself only.
    ///
    /// # Errors
    /// As [`Self::sessions`].
    pub fn activity(&self) -> Result<BTreeMap<(Pid, SessionId), u64>, TmuxError> {
        let mut sessions: BTreeMap<(Pid, SessionId), DefaultHasher> = BTreeMap::new();
        for (server, session, numbers) in parse::rows(&self.call(argv::activity())?, parse::activity)? {
            numbers.hash(sessions.entry((server, session)).or_default());
        }
        Ok(sessions.into_iter().map(|(session, hasher)| (session, hasher.finish())).collect())
    }

    /// Returns the terminals on which people look at a session.
    pub fn clients(&self, session: &SessionId) -> Result<Vec<OsString>, TmuxError> {
        let output = self.call(argv::clients(*session))?;
        let lines = output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Ok(lines.map(|line| OsStr::from_bytes(line).to_owned()).collect())
    }

    /// Shows a text in the status line of one client.
    pub fn show_message(&self, client: &OsStr, text: &str) -> Result<(), TmuxError> {
        self.call(argv::show_message(client, text)).map(drop)
    }

    /// Asks the server for its own pid. Unlike [`Self::probe`] it shows that the server answers.
    pub fn answering_pid(&self) -> Result<Pid, TmuxError> {
        let output = self.call(argv::server_pid())?;
        let text = String::from_utf8_lossy(&output);
        let pid = text.trim_end().parse().ok().and_then(Pid::new);
        Ok(pid.ok_or_else(|| super::ParseError::new("server pid", &output, "not a pid"))?)
    }

    /// Returns the command that a pane was started with, quoted where it must be. Text of others.
    pub fn start_command(&self, pane: &PaneId) -> Result<String, TmuxError> {
        let output = self.call(argv::start_command(*pane))?;
        Ok(String::from_utf8_lossy(&output).trim_end().to_owned())
    }

    /// Has the panes of a session stay when their programs end, where it has several, until [`Self::release_panes`] or
    /// until the session is closed. To be called before the programs are ended.
    ///
    /// When the last panes of a session go at once, a server to which any control-mode client is attached falls with
    /// all of its sessions: it tells of the window that has become the current one after that has gone, too (3.3a;
    /// tmux/tmux#5243). One that may not keep panes ([`Version::may_keep_panes`]) is left as it is.
    pub fn keep_panes(&self, session: &SessionId) -> Result<(), TmuxError> {
        let goes = |panes: &[Keeping]| {
            let falls = panes.len() > 1 && panes.iter().all(|pane| pane.version.may_keep_panes());
            panes.iter().filter(|pane| falls && pane.goes).map(|pane| pane.pane).collect()
        };
        self.for_panes(*session, goes, argv::keep_panes).map(drop)
    }

    /// Takes [`Self::keep_panes`] back, also one whose caller was killed. A pane whose program has ended meanwhile goes,
    /// as it would have: one after the other, each in a call of its own, because the last ones must not go at once.
    pub fn release_panes(&self, session: &SessionId) -> Result<(), TmuxError> {
        let kept = |panes: &[Keeping]| panes.iter().filter(|pane| pane.kept_for_a_stop).map(|pane| pane.pane).collect();
        for pane in self.for_panes(*session, kept, argv::release_panes)? {
            match self.call(argv::close_dead_pane(pane)) {
                Err(error) if !error.is_absence() => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Does something with some panes of a session, in one call; again, where one of them has gone meanwhile. Returns
    /// those panes.
    fn for_panes(
        &self,
        session: SessionId,
        choose: impl Fn(&[Keeping]) -> Vec<PaneId>,
        command: fn(&[PaneId]) -> Vec<OsString>,
    ) -> Result<Vec<PaneId>, TmuxError> {
        let until = Instant::now() + DEADLINE;
        loop {
            let panes = choose(&parse::rows(&self.call(argv::kept_panes(session))?, Keeping::parse)?);
            if panes.is_empty() {
                return Ok(panes);
            }
            match self.call(command(&panes)) {
                Err(TmuxError::NoPane(_)) if Instant::now() < until => {}
                result => return result.map(|_| panes),
            }
        }
    }

    /// Has the server look for panes whose program has ended. 3.3a can miss one, which then stays dead without a
    /// status, and is not closed, until another child of the server ends: this starts such a child.
    pub fn reap_panes(&self) -> Result<(), TmuxError> {
        self.call(argv::reap_panes()).map(drop)
    }

    /// Sends the output of a pane to a program's standard input. The program is run by sh(1) as a child of the
    /// server; a program that was there before gets its end of file. With `keep` the pane stays when its program has
    /// ended.
    pub fn pipe_to_log(&self, pane: &PaneId, program: &[OsString], keep: bool) -> Result<(), TmuxError> {
        if program.is_empty() {
            return Err(TmuxError::Invalid("no program to pipe to".to_owned()));
        }
        let pipe = argv::pipe_pane(*pane, program);
        self.call(if keep { argv::then(argv::keep_pane(*pane), pipe) } else { pipe }).map(drop)
    }

    /// Types a text, exactly as it is. A long one takes several calls, between which others may type.
    pub fn send_text(&self, pane: &PaneId, text: &str) -> Result<(), TmuxError> {
        argv::send_text(*pane, text).into_iter().try_for_each(|argv| self.input(*pane, argv))
    }

    /// Pastes a text, in brackets where the program of the pane has asked for them: only the server knows that for sure.
    pub fn paste(&self, pane: &PaneId, text: &str) -> Result<(), TmuxError> {
        let buffer = argv::paste_buffer(std::process::id(), *pane);
        let pasted = self.ask(argv::paste(*pane, &buffer), Some(text.as_bytes()), false);
        let pasted = pasted.and_then(|answer| may_type(*pane, &answer));
        if pasted.is_err() {
            // What nobody took is not left lying about.
            drop(self.call(argv::delete_buffer(&buffer)));
        }
        pasted
    }

    /// Types keys.
    pub fn send_keys(&self, pane: &PaneId, keys: &[Key]) -> Result<(), TmuxError> {
        if keys.is_empty() { Ok(()) } else { self.input(*pane, argv::send_keys(*pane, keys)) }
    }

    /// Types bytes. Many take several calls, between which others may type.
    pub fn send_bytes(&self, pane: &PaneId, bytes: &[u8]) -> Result<(), TmuxError> {
        argv::send_bytes(*pane, bytes).into_iter().try_for_each(|argv| self.input(*pane, argv))
    }

    /// Returns how many terminals of people are attached to a session: clients in control mode are none.
    pub fn people(&self, session: &SessionId) -> Result<usize, TmuxError> {
        let output = self.call(argv::clients_of_session(*session))?;
        Ok(output.split(|byte| *byte == b'\n').filter(|line| *line == b"0").count())
    }

    /// Resizes a window, and keeps it at that size until [`Self::follow_clients`].
    pub fn resize(&self, window: &WindowId, rows: u16, cols: u16) -> Result<(), TmuxError> {
        self.call(argv::resize_window(*window, rows, cols)).map(drop)
    }

    /// Lets attached clients decide about a window's size again. To be called before a person attaches.
    pub fn follow_clients(&self, window: &WindowId) -> Result<(), TmuxError> {
        self.call(argv::follow_clients(*window)).map(drop)
    }

    /// Returns the text of a pane, lines separated by newlines.
    pub fn capture(&self, pane: &PaneId, capture: Capture) -> Result<Vec<u8>, TmuxError> {
        self.call(argv::capture_pane(*pane, capture))
    }

    /// Closes a session, which hangs up on everything in it: hence the captured tree.
    ///
    /// `server` is the pid that the session was made on; the server itself compares, so that no session
    /// of another server is hit.
    ///
    /// # Errors
    /// [`TmuxError::ForeignServer`] where another one answers; nothing was closed then.
    pub fn kill_session(&self, session: &SessionId, server: Pid, _tree: &Captured) -> Result<Closed, TmuxError> {
        match self.persist(&argv::kill_session(*session, server), false) {
            Ok(output) if output.is_empty() => Ok(Closed::Killed),
            Ok(output) => Err(TmuxError::ForeignServer {
                expected: server,
                found: format!("process {}", String::from_utf8_lossy(&output).trim_end()),
            }),
            Err(TmuxError::NoSession(_)) => Ok(Closed::AlreadyGone),
            Err(TmuxError::NoServer { .. }) => Ok(Closed::NoServer),
            Err(error) => Err(error),
        }
    }

    /// Returns the command that attaches a person's terminal. To be run with [`Self::spec`].
    pub fn attach_argv(&self, session: &SessionId) -> Vec<OsString> {
        self.argv(argv::attach(*session), false)
    }

    /// Returns a whole command line for the spawn funnel: tmux's own few variables, and `/` for a
    /// directory, which a server keeps busy for ever.
    pub fn spec(&self, argv: Vec<OsString>) -> Spec {
        Spec { env: self.env.clone(), env_clear: true, cwd: Some(PathBuf::from("/")), ..Spec::new(argv) }
    }

    pub(super) fn argv(&self, command: Vec<OsString>, may_start_server: bool) -> Vec<OsString> {
        let global = Global { program: &self.program, socket: &self.socket, config: self.config.as_deref() };
        let mut argv = global.prefix(may_start_server);
        argv.extend(command);
        argv
    }

    fn tmpdir(&self) -> Option<&OsStr> {
        self.env.iter().find(|(name, _)| name == "TMUX_TMPDIR").map(|(_, value)| value.as_os_str())
    }

    fn input(&self, pane: PaneId, argv: Vec<OsString>) -> Result<(), TmuxError> {
        may_type(pane, &self.call(argv)?)
    }

    fn call(&self, command: Vec<OsString>) -> Result<Vec<u8>, TmuxError> {
        self.call_with(command, false)
    }

    /// Asks again when the server goes away. One that leaves with its last session hangs up on whoever comes
    /// then; what it may have done before goes with it, so that nothing is done twice.
    fn persist(&self, command: &[OsString], may_start_server: bool) -> Result<Vec<u8>, TmuxError> {
        let until = Instant::now() + DEADLINE;
        loop {
            match self.call_with(command.to_vec(), may_start_server) {
                Err(TmuxError::ServerLost(_)) if Instant::now() < until => std::thread::sleep(RETRY),
                result => return result,
            }
        }
    }

    fn call_with(&self, command: Vec<OsString>, may_start_server: bool) -> Result<Vec<u8>, TmuxError> {
        self.ask(command, None, may_start_server)
    }

    fn ask(&self, command: Vec<OsString>, stdin: Option<&[u8]>, may_start_server: bool) -> Result<Vec<u8>, TmuxError> {
        let shown = argv::shown(&command);
        let asked = command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let output = self.run(self.argv(command, may_start_server), stdin, &asked)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        let (complaint, line) = classify(&stderr);
        let line = line.to_owned();
        tracing::debug!(argv = shown, status = %output.status, stderr = %line, "tmux complained");
        Err(match complaint {
            Complaint::Session => TmuxError::NoSession(line),
            Complaint::Window => TmuxError::NoWindow(line),
            Complaint::Pane => TmuxError::NoPane(line),
            Complaint::Denied => TmuxError::Unreadable(line),
            // Why there was no connection is asked of the socket: the text does not tell for sure.
            Complaint::Lost => TmuxError::ServerLost(line),
            Complaint::Connect => match self.probe() {
                Probe::Absent | Probe::Stale => TmuxError::NoServer { socket: self.socket_path() },
                Probe::Unreadable(reason) => TmuxError::Unreadable(reason),
                Probe::Running { .. } => TmuxError::Unreadable(line),
            },
            Complaint::Other => TmuxError::Failed { argv: shown, stderr: line },
        })
    }

    /// Returns the server where it is stopped, and hence silent.
    fn stopped(&self) -> Option<Pid> {
        match self.probe() {
            Probe::Running { pid } if is_stopped(pid) => Some(pid),
            Probe::Running { .. } | Probe::Absent | Probe::Stale | Probe::Unreadable(_) => None,
        }
    }

    fn run(&self, argv: Vec<OsString>, stdin: Option<&[u8]>, asked: &str) -> Result<Output, TmuxError> {
        spawn::run(&self.spec(argv), stdin, DEADLINE).map_err(|error| {
            if error.kind() == io::ErrorKind::TimedOut {
                TmuxError::Timeout { asked: asked.to_owned(), stopped: self.stopped() }
            } else if error.kind() == io::ErrorKind::NotFound {
                TmuxError::NotInstalled { program: self.program.to_string_lossy().into_owned() }
            } else {
                TmuxError::Io(error)
            }
        })
    }
}

/// Reads what a pane said before something was typed into it.
fn may_type(pane: PaneId, said: &[u8]) -> Result<(), TmuxError> {
    match parse::before_input(said)? {
        (true, _) => Err(TmuxError::PaneDead(pane)),
        (_, true) => Err(TmuxError::InputOff(pane)),
        (false, false) => Ok(()),
    }
}

/// Tells whether a process is seen to be stopped, by a signal or by a debugger (proc(5)).
fn is_stopped(pid: Pid) -> bool {
    let facts = Inspector::open(None).ok().and_then(|inspector| inspector.facts(pid).ok().flatten());
    facts.is_some_and(|facts| matches!(facts.state, 'T' | 't'))
}

fn places(rows: &[PaneRow]) -> Vec<(WindowId, SessionId)> {
    rows.iter().map(|row| (row.window, row.session)).collect()
}

fn keep_links(listed: &[(WindowId, SessionId)], rows: &mut [PaneRow]) {
    for row in rows {
        row.linked &= listed.iter().any(|(window, session)| *window == row.window && *session != row.session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn var(name: &str) -> (OsString, OsString) {
        (name.into(), "value".into())
    }

    #[test]
    fn the_launchers_environment_stays_with_it() {
        let kept =
            ["PATH", "HOME", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "SHELL", "USER", "TMUX_TMPDIR", "XDG_RUNTIME_DIR"];
        let dropped = ["TMUX", "TMUX_PANE", "HF_TOKEN", "OPENAI_API_KEY", "LCX", "path", "SSH_AUTH_SOCK", ""];
        let vars = environment(kept.iter().chain(&dropped).map(|name| var(name)));
        assert_eq!(vars, kept.map(var));
    }
}
