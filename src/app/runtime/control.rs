//! The control socket: how another cookbook-tui of the same user reaches the PTY sessions that this one owns.
//!
//! Only the owner holds a PTY and its lifeline, so whoever finds such a session asks the owner to carry the
//! command out. The socket lies in the runtime directory (mode 0700) under a name that follows from the owner's
//! identity, and each side asks the kernel who the other is (`SO_PEERCRED`, unix(7)): a pid that was reused, or
//! another user, is told nothing. One connection carries one command and its answer, each a line of JSON.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::elsewhere::{Glance, Typed};
use super::session::Session;
use super::wait::ENDING;
use super::{Inner, Runtime};
use crate::app::command::{Answer, Command, RestartRequest, StopRequest, SweepRequest, WaitFor};
use crate::app::config::trust::fingerprint;
use crate::app::contract::HostKind;
use crate::app::error::{AppError, ErrorKind};
use crate::lifecycle::authority::verify;
use crate::lifecycle::door::has_left;
use crate::lifecycle::identity::{Identity, Pid};
use crate::lifecycle::inspect::{Facts, Inspector};
use crate::lifecycle::verdict::VerdictKind;

/// Version of what is said here.
const PROTOCOL: u32 = 1;

/// A request longer than this is nobody's of ours (bytes).
const REQUEST_MAX: u64 = 4 << 20;

/// A longer answer is nobody's of ours, either (bytes).
const ANSWER_MAX: u64 = 64 << 20;

/// How long the owner may take with what is done at once.
pub(super) const AT_ONCE: Duration = Duration::from_secs(5);

/// How often whoever asks looks whether it is to end.
const PAUSE: Duration = Duration::from_millis(50);

/// How long it may take over a stop beyond the grace: as long as a stop waits for another's lock, and some.
const STOP: Duration = Duration::from_secs(60);

#[derive(Debug, Serialize, Deserialize)]
struct Request {
    protocol: u32,
    #[serde(flatten)]
    asked: Asked,
}

/// What is asked of an owner.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Asked {
    /// A command is carried out.
    Command(Box<Command>),
    /// The screen is shown to somebody who watches it.
    Picture(Glance),
    /// Somebody who watches it types.
    Type(Typed),
}

/// An open control socket; it is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Control(PathBuf);

impl Drop for Control {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}

/// Opens the socket and answers until [`end`]. Without one, our PTY sessions are refused elsewhere.
pub(super) fn start(inner: &Arc<Inner>) {
    tidy(&inner.paths.runtime_dir);
    let path = place(&inner.paths.runtime_dir, &inner.me);
    match listen(&path) {
        Ok(listener) => {
            let weak = Arc::downgrade(inner);
            std::thread::spawn(move || accept(&listener, &weak));
            *inner.control.lock().unwrap_or_else(PoisonError::into_inner) = Some(Control(path));
        }
        Err(error) => tracing::warn!(path = %path.display(), %error, "no control socket"),
    }
}

/// Removes the socket.
pub(super) fn end(inner: &Inner) {
    inner.control.lock().unwrap_or_else(PoisonError::into_inner).take();
}

fn place(runtime_dir: &Path, owner: &Identity) -> PathBuf {
    let digest = fingerprint(owner.token.to_string().as_bytes());
    runtime_dir.join(format!("c{}-{}", owner.pid, digest.get(..8).unwrap_or_default()))
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Removes the sockets of managers that were killed: nobody listens there any more.
fn tidy(runtime_dir: &Path) {
    for entry in fs::read_dir(runtime_dir).into_iter().flatten().flatten() {
        let is_socket = entry.file_type().is_ok_and(|kind| kind.is_socket());
        let changed = entry.metadata().and_then(|metadata| metadata.modified()).ok();
        let age = changed.and_then(|at| at.elapsed().ok()).filter(|_| is_socket).unwrap_or_default();
        let left = match entry.file_name().as_bytes().first() {
            // Between bind(2) and listen(2) nobody listens either.
            Some(b'c') if age > Duration::from_secs(60) => {
                let refused = UnixStream::connect(entry.path()).err();
                refused.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
            }
            // A door is open for seconds; whoever knocks is taken for the one that is expected.
            Some(b'g' | b'r') => age > Duration::from_secs(600),
            _ => false,
        };
        if left {
            fs::remove_file(entry.path()).ok();
        }
    }
}

fn accept(listener: &UnixListener, inner: &Weak<Inner>) {
    for stream in listener.incoming() {
        let Some(inner) = inner.upgrade() else { return };
        match stream {
            Ok(stream) => drop(std::thread::spawn(move || serve(&stream, inner))),
            // Out of descriptors, most likely: the asker is told nothing, and may ask again.
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn serve(stream: &UnixStream, inner: Arc<Inner>) {
    let Ok(peer) = rustix::net::sockopt::socket_peercred(stream) else { return };
    if peer.uid != rustix::process::geteuid() {
        return;
    }
    stream.set_read_timeout(Some(AT_ONCE)).ok();
    stream.set_write_timeout(Some(AT_ONCE)).ok();
    let mut line = Vec::new();
    if BufReader::new(stream.take(REQUEST_MAX)).read_until(b'\n', &mut line).is_err() {
        return;
    }
    let told: Result<Value, AppError> = match serde_json::from_slice::<Request>(&line) {
        Ok(request) if request.protocol == PROTOCOL => match &request.asked {
            Asked::Command(command) => {
                let pid = Pid::new(peer.pid.as_raw_nonzero().get());
                carry_out(inner, command, &Asker { pid, stream })
            }
            Asked::Picture(glance) => inner.show(glance),
            Asked::Type(typed) => inner.take_typed(typed),
        },
        Ok(request) => Err(refused(format!("the asker speaks protocol {}, not {PROTOCOL}", request.protocol))),
        Err(error) => Err(AppError::new(ErrorKind::Usage, format!("not a request of this version: {error}"))),
    };
    let Ok(mut text) = serde_json::to_vec(&told) else { return };
    text.push(b'\n');
    let mut stream = stream;
    stream.write_all(&text).ok();
}

/// Another manager, as the kernel names it.
struct Asker<'a> {
    /// `None` where it is outside of our pid namespace.
    pid: Option<Pid>,
    stream: &'a UnixStream,
}

impl Asker<'_> {
    /// Returns its process and all above it, as they are now, where a command could end them. It waits for its
    /// answer, so nobody else has its number.
    fn lineage(&self, command: &Command, inspector: &Inspector) -> Vec<Facts> {
        if !ends_somebody(command) {
            return Vec::new();
        }
        let line = |pid| inspector.scan().ok().map(|snapshot| snapshot.lineage(pid));
        self.pid.and_then(line).unwrap_or_default()
    }
}

/// Carries out what was asked from elsewhere, for a session that is ours.
fn carry_out(inner: Arc<Inner>, command: &Command, asker: &Asker<'_>) -> Result<Value, AppError> {
    let Some(reference) = asks_the_owner(command) else {
        return Err(refused("this is not asked of an owner".into()));
    };
    inner.ours(reference)?;
    // Nobody goes on waiting for an asker that has left.
    let answer = if let Command::Wait(request) = command {
        inner.wait_while(request, &|| !has_left(asker.stream)).map(Answer::Waited)
    } else {
        if ends_somebody(command) && has_left(asker.stream) {
            // While we were suspended it was told that nobody answers: what has failed for it is not done after all.
            return Err(refused("whoever asked for it has left".into()));
        }
        let lineage = asker.lineage(command, &inner.inspector);
        Runtime { inner }.execute_for(command, &lineage)
    };
    answer.map(|answer| answer.to_value())
}

fn ends_somebody(command: &Command) -> bool {
    matches!(command, Command::Stop(_) | Command::Restart(_) | Command::Sweep(_))
}

pub(super) fn refused(message: String) -> AppError {
    AppError::new(ErrorKind::Refused, message)
}

/// Returns the session of a command that only the owner of a PTY can carry out.
fn asks_the_owner(command: &Command) -> Option<&str> {
    match command {
        Command::Screen { session, .. }
        | Command::Send { session, .. }
        | Command::Resize { session, .. }
        | Command::Hold { session, .. } => Some(session),
        Command::Restart(request) => Some(&request.session),
        Command::Stop(request) => Some(&request.session),
        Command::Sweep(request) => request.session.as_deref(),
        Command::Wait(request) if matches!(request.what, WaitFor::Output | WaitFor::Ready) => Some(&request.session),
        Command::Hello {}
        | Command::Draft { .. }
        | Command::TmuxSessions {}
        | Command::Save(_)
        | Command::Launch(_)
        | Command::Wait(_)
        | Command::List { .. }
        | Command::Tree { .. }
        | Command::Why { .. }
        | Command::Logs { .. }
        | Command::Orphans { .. }
        | Command::Adopt { .. }
        | Command::Extend { .. }
        | Command::Dismiss { .. }
        | Command::Notify(_)
        | Command::Doctor {}
        | Command::Recipes {}
        | Command::Subscribe {}
        | Command::Quit {} => None,
    }
}

/// Why there is no answer.
enum Unheard {
    /// Nobody listens there, or the owner ended before it answered.
    Nobody(io::Error),
    /// It takes too long.
    Slow(Duration),
    /// It answered with an error.
    Said(AppError),
}

impl Inner {
    /// Has the owner carry a command out, where the session is a PTY of another manager; `None` where it is ours
    /// to carry out.
    pub(super) fn by_its_owner(&self, command: &Command) -> Result<Option<Answer>, AppError> {
        let Some(reference) = asks_the_owner(command) else { return Ok(None) };
        if self.lock().by_id.get(reference).is_some_and(|session| session.pty.is_some()) {
            return Ok(None);
        }
        if self.only_coming(reference).is_some() {
            return Ok(None);
        }
        let session = match self.find(reference) {
            Ok(session) => session,
            // A task that is only listed has no owner to ask.
            Err(error) if error.kind == ErrorKind::Refused => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(owner) = self.owner(&session).filter(|_| session.host == HostKind::Pty) else { return Ok(None) };
        let command = of_session(command, &session.id).map_err(|error| unreachable(&session.id, &owner, &error))?;
        let value = self.ask_owner(&session, &owner, Asked::Command(Box::new(command.clone())), patience(&command))?;
        let answer = value.map(|value| answer(&command, value)).transpose();
        answer.map_err(|error| unreachable(&session.id, &owner, &error))
    }

    /// Asks an owner; `None` where it ended meanwhile, so that what is left is for its warden, and for us.
    pub(super) fn ask_owner(
        &self,
        session: &Arc<Session>,
        owner: &Identity,
        asked: Asked,
        patience: Option<Duration>,
    ) -> Result<Option<Value>, AppError> {
        match self.ask(owner, asked, patience) {
            Ok(answer) => Ok(Some(answer)),
            Err(Unheard::Said(error)) => Err(error),
            Err(Unheard::Nobody(_)) if self.owner(session).is_none() => Ok(None),
            Err(Unheard::Nobody(error)) => Err(unreachable(&session.id, owner, &error)),
            Err(Unheard::Slow(patience)) => Err(AppError::new(
                ErrorKind::Timeout,
                format!(
                    "the cookbook-tui that owns {} (process {}) has not answered within {} s; it may be suspended",
                    session.id,
                    owner.pid,
                    patience.as_secs()
                ),
            )),
        }
    }

    fn ask(&self, owner: &Identity, asked: Asked, patience: Option<Duration>) -> Result<Value, Unheard> {
        let path = place(&self.paths.runtime_dir, owner);
        let mut stream = UnixStream::connect(path).map_err(Unheard::Nobody)?;
        let peer = rustix::net::sockopt::socket_peercred(&stream).map_err(|error| Unheard::Nobody(error.into()))?;
        let is_owner = peer.pid.as_raw_nonzero().get() == owner.pid.raw()
            && peer.uid == rustix::process::geteuid()
            && verify(owner, &self.inspector).kind == VerdictKind::Owned;
        if !is_owner {
            return Err(Unheard::Nobody(io::Error::other("somebody else listens in its place")));
        }
        let is_wait = matches!(&asked, Asked::Command(command) if matches!(**command, Command::Wait(_)));
        let mut text = serde_json::to_vec(&Request { protocol: PROTOCOL, asked })
            .map_err(|error| Unheard::Nobody(error.into()))?;
        text.push(b'\n');
        stream.set_write_timeout(Some(AT_ONCE)).map_err(Unheard::Nobody)?;
        stream.set_read_timeout(Some(PAUSE)).map_err(Unheard::Nobody)?;
        let is_late = |error: &io::Error| matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
        let asked_at = Instant::now();
        let until = patience.and_then(|patience| asked_at.checked_add(patience));
        stream
            .write_all(&text)
            .map_err(|error| if is_late(&error) { Unheard::Slow(AT_ONCE) } else { Unheard::Nobody(error) })?;
        let mut answers = BufReader::new((&stream).take(ANSWER_MAX));
        let mut line = Vec::new();
        loop {
            match answers.read_until(b'\n', &mut line) {
                Ok(0) => return Err(Unheard::Nobody(io::Error::other("it ended before it answered"))),
                Ok(_) => break,
                Err(error) if !is_late(&error) => return Err(Unheard::Nobody(error)),
                Err(_) if is_wait && self.are_waits_over() => {
                    return Err(Unheard::Said(AppError::new(ErrorKind::Failed, ENDING)));
                }
                Err(_) if until.is_some_and(|until| Instant::now() >= until) => {
                    return Err(Unheard::Slow(patience.unwrap_or_default()));
                }
                // Whoever is suspended answers nobody, however long it may take.
                Err(_) if asked_at.elapsed() >= AT_ONCE && self.is_suspended(owner) => {
                    return Err(Unheard::Slow(AT_ONCE));
                }
                Err(_) => {}
            }
        }
        let told: Result<Value, AppError> =
            serde_json::from_slice(&line).map_err(|error| Unheard::Nobody(error.into()))?;
        told.map_err(Unheard::Said)
    }

    fn is_suspended(&self, owner: &Identity) -> bool {
        let facts = self.inspector.facts(owner.pid).ok().flatten();
        facts.is_some_and(|facts| matches!(facts.state, 'T' | 't'))
    }
}

fn unreachable(session: &str, owner: &Identity, error: &dyn std::fmt::Display) -> AppError {
    refused(format!(
        "{session} belongs to another cookbook-tui (process {}), which cannot be reached: {error}; do it there",
        owner.pid
    ))
}

/// Returns a command with the session's id, which means the same everywhere.
fn of_session(command: &Command, id: &str) -> serde_json::Result<Command> {
    let mut fields = serde_json::to_value(command)?;
    for fields in fields.as_object_mut().into_iter().flat_map(|tagged| tagged.values_mut()) {
        fields["session"] = id.into();
    }
    serde_json::from_value(fields)
}

/// Returns how long the owner may take; `None` where it may take for ever.
fn patience(command: &Command) -> Option<Duration> {
    let given = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
    if let Command::Wait(request) = command {
        return request.timeout_s.map(|seconds| AT_ONCE + given(seconds));
    }
    let is_dry = if let Command::Stop(StopRequest { dry_run, .. })
    | Command::Sweep(SweepRequest { dry_run, .. })
    | Command::Restart(RestartRequest { dry_run, .. }) = command
    {
        *dry_run == Some(true)
    } else {
        true
    };
    if is_dry {
        return Some(AT_ONCE);
    }
    if let Command::Stop(request) = command {
        // With a time limit of its own it answers by then.
        let own = request.timeout_s.map(|seconds| AT_ONCE + given(seconds));
        return own.or(Some(STOP + given(request.grace_s.unwrap_or_default())));
    }
    Some(STOP)
}

/// Reads the answer to a command back from its JSON.
fn answer(command: &Command, value: Value) -> serde_json::Result<Answer> {
    if let Command::Screen { .. } = command {
        return serde_json::from_value(value).map(Answer::Screen);
    }
    if let Command::Wait(_) = command {
        return serde_json::from_value(value).map(Answer::Waited);
    }
    if matches!(command, Command::Hold { .. }) {
        return serde_json::from_value(value).map(Answer::Held);
    }
    if let Command::Stop(_) | Command::Sweep(_) = command {
        return serde_json::from_value(value).map(Answer::Receipt);
    }
    if let Command::Restart(request) = command
        && request.dry_run == Some(true)
    {
        return serde_json::from_value(value).map(Answer::Receipt);
    }
    if let Command::Restart(_) = command {
        let receipt = serde_json::from_value(value.get("receipt").cloned().unwrap_or_default())?;
        return serde_json::from_value(value).map(|launched| Answer::Restarted { receipt, launched });
    }
    Ok(Answer::Done)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::noise::{cases, damaged};

    fn request(command: &str) -> Vec<u8> {
        let command: Command = serde_json::from_str(command).unwrap();
        serde_json::to_vec(&Request { protocol: PROTOCOL, asked: Asked::Command(Box::new(command)) }).unwrap()
    }

    proptest! {
        #![proptest_config(cases(200))]

        /// What is damaged is an error, or a request that an owner may refuse; what it would carry out names a session.
        #[test]
        fn any_bytes_are_a_request_or_an_error(bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..80),
            damaged(request(r#"{"stop": {"session": "shell-0123abcd", "grace_s": 1.5, "confirm": []}}"#)),
            damaged(request(r#"{"send": {"session": "shell-0123abcd", "text": "x"}}"#)),
            damaged(b"{\"protocol\":1,\"picture\":{\"session\":\"shell-0123abcd\"}}".to_vec()),
        ]) {
            let Ok(Request { asked: Asked::Command(command), .. }) = serde_json::from_slice(&bytes) else { return Ok(()) };
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if let Some(session) = asks_the_owner(&command) {
                prop_assert!(text.contains(session) || text.contains('\\'), "{} in {}", session, text);
                let named = of_session(&command, "shell-ffffffff").unwrap();
                prop_assert_eq!(asks_the_owner(&named), Some("shell-ffffffff"));
            }
        }
    }
}
