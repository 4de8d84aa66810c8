//! Reads what agents leave by `notify`, guesses where they leave nothing, and tells who asks for attention.
//!
//! One thread looks at all sessions, at once when a note is left and once a second anyway. Nothing here draws, and
//! whoever types only takes note of it: the thread writes it down.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::File;
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use super::hosts::server_of;
use super::session::{Session, State};
use super::{Inner, Runtime};
use crate::app::attention::{Answered, Attention, FILE_MAX, Note, Noted, NotifyRequest, Watch};
use crate::app::contract::{Kind, Phase};
use crate::app::error::AppError;
use crate::app::event::Event;
use crate::app::notify::note;
use crate::app::prompt;
use crate::lifecycle::clock::{boottime, timespec};
use crate::lifecycle::store::write_json;
use crate::lifecycle::tether::TmuxRecord;

/// Time between two looks where nothing is heard.
const TICK: Duration = Duration::from_secs(1);
/// So long after the start of this run no screen is looked at for a question (seconds).
const YOUNG_S: f64 = 2.0;
/// The time of a file is that of the last tick of the kernel's clock, so much before the write at most (seconds; `HZ` is
/// 100 at least).
const TICK_S: f64 = 0.01;
/// How long a bell waits for its session to be known, in seconds: a launch takes less.
const EARLY_S: f64 = 60.0;

/// Starts the thread; it ends with the runtime.
pub(super) fn start(inner: &Arc<Inner>) {
    let weak = Arc::downgrade(inner);
    // Without one, notes are heard of a second later.
    let ear = inner.store.note_path("").parent().and_then(|directory| listen(directory).ok());
    std::thread::spawn(move || {
        while let Some(inner) = weak.upgrade() {
            if inner.is_closing() {
                return;
            }
            let left = inner.store.notes();
            for session in inner.all() {
                if left.as_ref().is_none_or(|left| left.contains(&session.id)) {
                    inner.attend(&session);
                } else {
                    inner.attend_to(&session, None, None);
                }
            }
            drop(inner);
            wait(ear.as_ref());
        }
    });
}

fn listen(directory: &Path) -> rustix::io::Result<OwnedFd> {
    let ear = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    inotify::add_watch(&ear, directory, WatchFlags::MOVED_TO | WatchFlags::ONLYDIR)?;
    Ok(ear)
}

/// Waits for a new note, at most until the next look is due.
fn wait(ear: Option<&OwnedFd>) {
    let until = Instant::now() + TICK;
    let Some(ear) = ear else { return std::thread::sleep(TICK) };
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        let mut fds = [PollFd::new(ear, PollFlags::IN)];
        match poll(&mut fds, Some(&timespec(left))) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => return std::thread::sleep(left),
        }
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut names = inotify::Reader::new(ear, &mut buffer);
        let mut heard = false;
        while let Ok(event) = names.next() {
            let name = event.file_name().map(CStr::to_bytes).unwrap_or_default();
            heard |= [&b".note"[..], b".seen"].iter().any(|end| name.ends_with(end));
        }
        if heard {
            return;
        }
    }
}

impl Inner {
    /// Looks at what a session has left, writes down that it was answered, and tells what is new.
    pub(super) fn attend(&self, session: &Session) {
        let (note, seen) = (self.read_note(session), self.read_answer(session));
        self.attend_to(session, note, seen);
    }

    fn attend_to(&self, session: &Session, note: Option<Note>, seen: Option<f64>) {
        let cpu = session.state().cpu_pct();
        let (may_ask, may_be_busy) = (matches!(session.kind, Kind::Agent | Kind::Shell), Watch::may_be_busy(cpu));
        let printed = (may_ask || may_be_busy).then(|| self.printed_at(session)).flatten();
        let now = boottime();
        if let Some(printed) = printed.filter(|_| may_ask) {
            self.look_for_question(session, printed);
        }
        let printed = printed.filter(|_| may_be_busy);
        let (news, answer) = {
            let mut state = session.state();
            let over = state.settled || state.phase().0.is_over();
            // A server that answers may compute as long as it likes.
            let speaks = matches!(state.phase().0, Phase::Ready | Phase::Idle);
            let watch = &mut state.attention;
            watch.hear(note);
            if let Some(seen) = seen {
                watch.answer(seen);
            }
            watch.observe(now, cpu, printed.filter(|_| !speaks));
            let news = watch.news(now, self.began);
            (news.filter(|_| !over), std::mem::take(&mut state.unsaved_answer))
        };
        if let Some(at) = answer {
            let answered = Answered { boot_id: self.inspector.boot_id().map(str::to_owned), at };
            if let Err(error) = write_json(&self.store.seen_path(&session.id), &answered) {
                tracing::warn!(session = session.id, %error, "other managers do not hear that it was answered");
            }
        }
        if let Some(attention) = news {
            let (session, reason) = (session.id.clone(), attention.reason());
            self.publish(Event::Attention { session, reason, state: Some(attention.state) });
        }
    }

    /// Looks at the screen of a session that has gone quiet, once, for a question to a person.
    fn look_for_question(&self, session: &Session, printed: f64) {
        let now = boottime();
        // Whoever asks only one thing of us does not wait for this.
        let is_young = now - self.began < YOUNG_S;
        let is_due = {
            let mut state = session.state();
            let over = state.settled || state.phase().0.is_over();
            state.attention.is_quiet(now, printed) && !over
        };
        if is_due && !is_young {
            let shown = self.screen(&session.id, 0).ok();
            let question = shown.as_ref().and_then(|shown| prompt::question(&shown.lines, shown.cursor));
            session.state().attention.look(printed, question);
        }
    }

    /// Takes note that somebody types this into a session: whatever it asked for until then is answered, and not what it
    /// asks for in return. Touches no disk.
    pub(super) fn answer(&self, session: &Session, at: f64, typed: &[u8]) {
        if prompt::only_points(typed) {
            return;
        }
        let mut state = session.state();
        state.attention.take_typed(typed);
        if state.attention.answer(at) {
            state.unsaved_answer = Some(at);
            drop(state);
            self.changed();
        }
    }

    /// As [`Self::answer`], for a session whose notes nobody may have read yet, and at once on disk.
    pub(super) fn answer_now(&self, session: &Session, at: f64, typed: &[u8]) {
        self.attend(session);
        self.answer(session, at, typed);
        self.attend(session);
    }

    /// Leaves a note for a session by its id, its unique name, or `$last`; else for the one that we run in.
    pub(super) fn notify(&self, request: &NotifyRequest) -> Result<Noted, AppError> {
        let session = request.session.as_deref().map(|reference| self.find(reference)).transpose()?;
        let request = NotifyRequest { session: session.as_ref().map(|session| session.id.clone()), ..request.clone() };
        let noted = note(&self.store, &self.inspector, &request)?;
        if let Some(session) = session {
            self.attend(&session);
        }
        Ok(noted)
    }

    /// Takes note of a bell. One that rings before its session is known waits for [`Self::ring_early`].
    pub(super) fn ring(&self, id: &str) {
        let now = boottime();
        let session = {
            let mut sessions = self.lock();
            let known = sessions.by_id.get(id).cloned();
            if known.is_none() {
                keep_early(&mut sessions.bells, id, now);
            }
            known
        };
        if let Some(session) = session {
            self.rang(&session, now);
        }
    }

    /// Tells of a bell that rang while a session was being launched.
    pub(super) fn ring_early(&self, session: &Session) {
        let at = self.lock().bells.remove(&session.id);
        if let Some(at) = at {
            self.rang(session, at);
        }
    }

    fn rang(&self, session: &Session, at: f64) {
        // Bound to a name: the state is not held while others are told.
        let is_first = session.state().attention.ring(at);
        if is_first {
            self.attend(session);
        }
    }

    fn read_note(&self, session: &Session) -> Option<Note> {
        let bytes = read(&self.store.note_path(&session.id))?;
        // A note of an earlier run says nothing of this one.
        let since = {
            let state = session.state();
            let began = state.tether.restarts.as_ref().and_then(|restarts| restarts.began);
            began.map_or(state.tether.spawned_at, |began| began.max(state.tether.spawned_at))
        };
        let boot_id = self.inspector.boot_id();
        let parsed = Note::parse(&bytes, &session.id, boot_id, since, boottime());
        parsed.inspect_err(|reason| tracing::debug!(session = session.id, reason, "a note is not taken")).ok()
    }

    fn read_answer(&self, session: &Session) -> Option<f64> {
        let answered: Answered = serde_json::from_slice(&read(&self.store.seen_path(&session.id))?).ok()?;
        let same_boot = answered.boot_id.as_deref() == self.inspector.boot_id();
        Some(answered.at).filter(|at| same_boot && (0.0..=boottime()).contains(at))
    }

    /// Returns when a session printed last, on `CLOCK_BOOTTIME`: in a PTY of ours exactly, else by its log, not before it
    /// did.
    fn printed_at(&self, session: &Session) -> Option<f64> {
        if let Some(owned) = &session.pty {
            return Some(owned.pty.printed());
        }
        let written = self.store.log_written(&session.id)?;
        // A clock that was set back makes it now.
        let since = written.elapsed().unwrap_or_default().as_secs_f64();
        Some(boottime() - (since - TICK_S).max(0.0))
    }
}

/// Reads a small file; `None` where there is none, or it is not small.
fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let length = File::open(path).ok()?.take(FILE_MAX + 1).read_to_end(&mut bytes).ok()?;
    (length as u64 <= FILE_MAX).then_some(bytes)
}

impl State {
    /// Returns what the session asks attention for. What has ended asks for nothing: its phase says it.
    pub(super) fn asks(&self) -> Option<Attention> {
        let over = self.settled || self.phase().0.is_over();
        self.attention.attention(boottime()).filter(|_| !over)
    }

    /// Returns the percent of one core that all members together use; `None` where nothing is known.
    pub(super) fn cpu_pct(&self) -> Option<f64> {
        use crate::lifecycle::verdict::VerdictKind;
        let live = self.sample.rows.values().filter(|sampled| sampled.row.verdict != VerdictKind::Gone);
        live.filter_map(|sampled| sampled.row.cpu_pct).reduce(|a, b| a + b)
    }
}

/// Keeps the bell of a session that is not known yet. One that is over rings as well: of what nobody comes for, nothing
/// stays.
fn keep_early(bells: &mut BTreeMap<String, f64>, id: &str, now: f64) {
    bells.retain(|_, at| now - *at < EARLY_S);
    bells.insert(id.to_owned(), now);
}

/// A session, and where it is in tmux.
type There = (Arc<Session>, TmuxRecord);

/// Returns those of the sessions that are in tmux by their servers, which the first record of each tells.
fn by_server(sessions: impl Iterator<Item = Arc<Session>>) -> Vec<(TmuxRecord, Vec<There>)> {
    let mut servers: BTreeMap<String, (TmuxRecord, Vec<_>)> = BTreeMap::new();
    for session in sessions {
        if let Some(record) = session.tether().tmux {
            let (_, there) = servers.entry(record.socket.clone()).or_insert_with(|| (record.clone(), Vec::new()));
            there.push((session, record));
        }
    }
    servers.into_values().collect()
}

impl Runtime {
    /// Takes note of a bell that the view of a session in tmux has heard.
    pub fn ring(&self, session: &str) {
        self.inner.ring(session);
    }

    /// Asks tmux whether the bell rang in one of these sessions, which have printed something: once for each server of
    /// theirs. A server that does not answer has said nothing.
    pub fn hear_bells<'a>(&self, printed: impl Iterator<Item = &'a str>) {
        let sessions = printed.filter_map(|id| self.inner.lock().by_id.get(id).cloned());
        for (server, sessions) in by_server(sessions) {
            let Ok(rung) = server_of(&self.inner, &server).bells() else { continue };
            for (session, record) in sessions {
                let rings = record.session_id.parse().is_ok_and(|place| rung.contains(&place));
                let before = std::mem::replace(&mut session.state().bell_flag, rings);
                if rings && !before {
                    self.inner.rang(&session, boottime());
                }
            }
        }
    }

    /// Hears what sessions of others have printed: one question to each tmux server that has one. It changes neither a
    /// size nor an option there. A server that does not answer has said nothing; another one on its socket says nothing
    /// of these. Tells whether anybody was asked.
    pub fn hear_guests(&self) -> bool {
        let guests = self.inner.all().into_iter().filter(|session| {
            let state = session.state();
            state.tether.adoption.is_some() && !state.over
        });
        let servers = by_server(guests);
        let asked = !servers.is_empty();
        for (server, sessions) in servers {
            let heard = server_of(&self.inner, &server).activity().unwrap_or_default();
            for (session, record) in sessions {
                let activity = record.session_id.parse().ok().and_then(|place| heard.get(&(record.server.pid, place)));
                if let Some(activity) = activity {
                    session.state().activity = *activity;
                }
            }
        }
        asked
    }

    /// Takes note that somebody types this into a session. Does not wait.
    pub fn answer(&self, session: &str, typed: &[u8]) {
        let session = self.inner.lock().by_id.get(session).cloned();
        if let Some(session) = session {
            self.inner.answer(&session, boottime(), typed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bells_of_sessions_that_never_come_do_not_pile_up() {
        let mut bells = BTreeMap::new();
        for second in 0..1000_u32 {
            keep_early(&mut bells, &format!("serve-{second:08x}"), f64::from(second));
        }
        assert_eq!(bells.len(), 60);
        assert!(bells.contains_key("serve-000003e7") && !bells.contains_key("serve-00000000"));
    }
}
