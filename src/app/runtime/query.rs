//! Questions and typing: list, tree, screen, logs, send, resize, hello.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use serde_json::json;

use super::Inner;
use super::adopted::only_ours;
use super::hosts::{LEAVES, lasting_trouble, panes, server_of};
use super::launch::tmux;
use super::session::{Session, State};
use super::tasks::{ASKED, OWNER};
use crate::app::command::{Answer, ScreenText};
use crate::app::config::Config;
use crate::app::contract::{HostKind, SessionRow, Tree};
use crate::app::error::{AppError, ErrorKind};
use crate::lifecycle::clock::boottime;
use crate::lifecycle::journal::Entries;
use crate::lifecycle::leaf::containment;
use crate::lifecycle::receipt::{Bystander, ProcessRow};
use crate::lifecycle::rows::{LEFT_THE_TREE, bystander, lookalikes, marked, row};
use crate::lifecycle::tether::{TmuxRecord, is_session_id};
use crate::lifecycle::tree::Fate;
use crate::lifecycle::verdict::VerdictKind;
use crate::pty::screen::{Screen, Size};
use crate::tmux::argv::Capture;
use crate::tmux::parse::PaneRow;
use crate::tmux::{Probe, Server};

/// Version of the batch protocol.
const PROTOCOL: u32 = 1;

/// What a row says of a session whose warden was ended before it.
const LOST_WARDEN: &str =
    "its warden is gone: who leaves its tree may be missed, and no ceiling holds without a manager";

impl Inner {
    pub(super) fn hello(&self) -> Answer {
        let features = [
            "launch",
            "pty",
            "tmux",
            "warden",
            "subscribe",
            "sweep",
            "confirm",
            "pidfd",
            "adopt",
            "cookbook",
            "notify",
        ];
        let mut hello = json!({
            "protocol": PROTOCOL,
            "version": env!("CARGO_PKG_VERSION"),
            "features": features,
            "inspector": self.inspector.kind().name(),
        });
        let earlier = self.take_earlier();
        if !earlier.is_empty() {
            hello["ended"] = json!(earlier);
        }
        Answer::Hello(hello)
    }

    pub(super) fn list(&self) -> Vec<SessionRow> {
        self.take_in();
        self.refresh_tasks(ASKED);
        let all = self.all();
        for session in &all {
            let stale = session.state().sample.at.is_none_or(|at| at.elapsed().as_millis() > 300);
            if stale {
                self.sample_one(session);
            }
            self.look_into_again(session);
            self.attend(session);
        }
        self.look_at_phases();
        self.look_at_gpus_once();
        self.look_at_servers(&all);
        let rows = all.iter().map(|session| self.session_row(session));
        rows.chain(self.queued_rows()).chain(self.idle_rows()).collect()
    }

    /// Says so where a tmux server of ours lives at our socket's place, and the socket does not lead to it: another server
    /// there would keep it from being reached for good.
    pub(super) fn lost_server(&self) -> Option<String> {
        if !matches!(self.server.probe(), Probe::Absent | Probe::Stale) {
            return None;
        }
        let ours = self.server.socket_path().to_string_lossy().into_owned();
        let sessions = self.all().into_iter().filter(|session| !session.state().settled);
        let mut records = sessions.filter_map(|session| session.tether().tmux).filter(|record| record.socket == ours);
        records.find_map(|record| lasting_trouble(self, &record, LEAVES))
    }

    pub(super) fn session_row(&self, session: &Arc<Session>) -> SessionRow {
        let owner = self.owner(session).map(|owner| format!("pid {}", owner.pid));
        let adoption = (!session.phase().0.is_over()).then(|| self.adoption_detail(&session.tether())).flatten();
        let watched = session.state().sees_warden();
        let contained = watched || self.was_emptied(session);
        let beside = !session.state().settled && self.has_panes_beside(session, &session.tether());
        let state = session.state();
        let tether = &state.tether;
        let (phase, detail) = state.phase();
        let live = || state.sample.rows.values().filter(|sampled| sampled.row.verdict != VerdictKind::Gone);
        let over = phase.is_over();
        let task = tether.adoption.as_ref().and_then(|adoption| adoption.task.as_ref());
        let restarts = tether.restarts.as_ref().and_then(|restarts| restarts.detail(boottime(), over));
        let stranger = tether.other_protocol().filter(|_| !over);
        // Of whom was left the last word holds as long as somebody is.
        let alive = live().count() + state.sample.unbound.len();
        let last = tether.last.as_ref().filter(|last| last.verdict == VerdictKind::Gone || alive > 0);
        let last = last.map(|last| last.reason.clone());
        // Seen after the end of its first process, which was looked at with them.
        let outlives = over && !state.settled && state.sample.workload == Some(VerdictKind::Gone) && alive > 0;
        let living = (outlives && last.is_none()).then(|| match alive {
            1 => "1 process of it lives on".to_owned(),
            _ => format!("{alive} processes of it live on"),
        });
        let unwatched = (state.has_lost_warden() && !over).then(|| LOST_WARDEN.to_owned());
        let old = (state.borrowed && !state.settled).then(|| self.old_task()).flatten();
        // What was known of a session that has ended since is no news of it.
        let running = Some(&state.progress).filter(|progress| progress.phase == phase);
        let mut containment = containment(tether, contained, over || state.sample.workload == Some(VerdictKind::Gone));
        if beside {
            containment.retain(|how| how == "tree");
        }
        SessionRow {
            session: session.id.clone(),
            name: tether.name.clone(),
            kind: session.kind,
            host: session.host,
            machine: "local".into(),
            lifetime: tether.lifetime.clone(),
            phase,
            detail: once([old, detail, restarts, adoption, stranger, unwatched, last, living]),
            progress_pct: running.and_then(|progress| progress.percent),
            tokens_per_s: running.and_then(|progress| progress.tokens_per_s),
            requests: running.and_then(|progress| progress.requests),
            suggest: state.diagnosis.as_ref().filter(|_| over).and_then(|diagnosis| diagnosis.suggestion.clone()),
            attention: state.asks(),
            pid: Some(tether.workload.identity.pid.raw()),
            verdict: state.verdict(),
            uptime_s: (!over).then(|| ((boottime() - tether.spawned_at).max(0.0) * 1000.0).round() / 1000.0),
            cpu_pct: state.cpu_pct().map(|pct| (pct * 10.0).round() / 10.0),
            rss_bytes: live().filter_map(|sampled| sampled.row.rss_bytes).reduce(|a, b| a + b),
            gpu_bytes: live().filter_map(|sampled| sampled.row.gpu_bytes).reduce(|a, b| a + b),
            ports: state.sample.ports.clone(),
            exit_code: state.exit.as_ref().and_then(|exit| exit.code).or(state.said_code),
            signal: state.exit.as_ref().and_then(|exit| exit.signal.clone()),
            adopted: tether.adopted,
            owner: owner.or_else(|| task.map(|_| OWNER.to_owned())),
            not_after: Some(tether.not_after_wall).filter(|_| tether.adoption.is_none()),
            containment,
            command: tether.command.clone(),
            cwd: Some(tether.cwd.clone()).filter(|cwd| !cwd.is_empty()),
            processes: alive,
        }
    }

    pub(super) fn tree(&self, reference: &str) -> Result<Tree, AppError> {
        let session = self.find(reference)?;
        self.tree_of(&session)
    }

    /// Returns the processes of a session; those that have just gone stay for a few seconds.
    pub(super) fn tree_of(&self, session: &Arc<Session>) -> Result<Tree, AppError> {
        if session.state().settled {
            self.sample_one(session);
        } else {
            let (captured, workload) = self.capture_all(session).map_err(|reason| {
                AppError::new(
                    ErrorKind::Unverifiable,
                    format!("the processes of {} cannot be told: {reason}", session.id),
                )
            })?;
            self.note(session, &captured, workload);
            if captured.blind {
                let message = format!(
                    "the processes of {} cannot be told: there is no process inspector; drop --inspector none",
                    session.id
                );
                return Err(AppError::new(ErrorKind::Unverifiable, message));
            }
            let alike = lookalikes(captured.members.iter(), &self.inspector);
            let mut escapees: Vec<_> = captured
                .members
                .iter()
                .filter(|member| member.fate == Fate::Report)
                .map(|member| bystander(member, &self.inspector, LEFT_THE_TREE))
                .collect();
            let tether = session.tether();
            let all = usize::from(tether.front.is_some()) + usize::from(tether.warden.is_some());
            if captured.supervisors.len() < all {
                let guard = super::hosts::guard(self, &tether);
                let named: Vec<_> = captured.unbound.iter().map(|error| error.pid).collect();
                let marked = marked(captured.members.iter(), &tether.marker, &guard, &self.inspector);
                escapees.extend(marked.into_iter().filter(|row| !named.contains(&row.pid)));
            }
            let supervisors = captured.supervisors.iter().map(|member| row(member, &self.inspector, None)).collect();
            return Ok(Tree { processes: rows_of(&session.state()), lookalikes: alike, escapees, supervisors });
        }
        Ok(Tree { processes: rows_of(&session.state()), ..Tree::default() })
    }

    /// Returns the tree as the sampler last saw it, without looking again.
    pub(super) fn sampled_tree(session: &Session) -> Tree {
        let state = session.state();
        let escapees = state.sample.rows.values().filter(|sampled| sampled.escapee);
        let escapees = escapees
            .map(|sampled| Bystander {
                pid: sampled.row.pid,
                start_token: sampled.row.start_token.clone(),
                command: sampled.row.command.clone(),
                reason: Some(LEFT_THE_TREE.into()),
            })
            .collect();
        Tree {
            processes: rows_of(&state),
            lookalikes: Vec::new(),
            escapees,
            supervisors: state.sample.supervisors.clone(),
        }
    }

    pub(super) fn screen(&self, reference: &str, scrollback: usize) -> Result<ScreenText, AppError> {
        let session = self.find(reference)?;
        if let Some(owned) = &session.pty {
            let screen = owned.pty.screen();
            let screen = screen.lock().unwrap_or_else(PoisonError::into_inner);
            return Ok(text_of(&screen, scrollback));
        }
        if session.host == HostKind::Pty && self.owner(&session).is_none() {
            // Its terminal went with its owner: what it showed last is in its log.
            let painted = crate::pty::painted_log(&self.log_path(reference)?).map_err(|error| {
                AppError::new(ErrorKind::Io, format!("failed to read the log of {reference}: {error}"))
            })?;
            return Ok(text_of(&painted, scrollback));
        }
        let (server, pane) = self.pane_of(&session)?;
        let capture = Capture { history: u32::try_from(scrollback).unwrap_or(u32::MAX), escapes: false, joined: false };
        let text = server.capture(&pane.pane, capture).map_err(|error| tmux(&error))?;
        let text = String::from_utf8_lossy(&text);
        let mut lines: Vec<String> = text.lines().map(|line| line.trim_end().to_owned()).collect();
        // tmux leaves out the blank rows at the bottom.
        let least = usize::from(pane.height);
        lines.resize(lines.len().max(least), String::new());
        Ok(ScreenText { rows: pane.height, cols: pane.width, lines, cursor: (pane.cursor_y, pane.cursor_x) })
    }

    /// Returns everything that a session has printed and that is still in its history, wraps joined.
    pub(super) fn printed(&self, session: &Arc<Session>) -> Result<String, AppError> {
        if let Some(owned) = &session.pty {
            let screen = owned.pty.screen();
            let screen = screen.lock().unwrap_or_else(PoisonError::into_inner);
            return Ok(screen.logical_lines().join("\n"));
        }
        let (server, pane) = self.pane_of(session)?;
        let capture = Capture { history: pane.history, escapes: false, joined: true };
        let text = server.capture(&pane.pane, capture).map_err(|error| tmux(&error))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Returns the first pane of a session and its server.
    pub(super) fn pane_of(&self, session: &Arc<Session>) -> Result<(Server, PaneRow), AppError> {
        if let Some(owner) = self.owner(session) {
            let message = format!(
                "{} belongs to another cookbook-tui (process {}): only that one can reach its PTY",
                session.id, owner.pid
            );
            return Err(AppError::new(ErrorKind::Refused, message));
        }
        let tether = session.tether();
        let Some(record) = tether.tmux.as_ref().filter(|_| session.host == HostKind::Tmux) else {
            return Err(AppError::new(
                ErrorKind::Failed,
                format!("the terminal of {} is gone with its owner", session.id),
            ));
        };
        let found = self
            .first_pane(record)
            .map_err(|reason| AppError::new(ErrorKind::Tmux, format!("{}: {reason}", session.id)))?;
        found.ok_or_else(|| AppError::new(ErrorKind::Failed, format!("the tmux session of {} is gone", session.id)))
    }

    /// Returns the pane on record, or the first one of its session; none where the session is gone.
    fn first_pane(&self, record: &TmuxRecord) -> Result<Option<(Server, PaneRow)>, String> {
        let rows = panes(self, record)?;
        let first = rows.iter().position(|row| row.pane.to_string() == record.pane_id).unwrap_or(0);
        Ok(rows.into_iter().nth(first).map(|row| (server_of(self, record), row)))
    }

    pub(super) fn resize(&self, reference: &str, rows: u16, cols: u16) -> Result<(), AppError> {
        let session = self.find(reference)?;
        only_ours(&session, "its size is its owner's")?;
        if rows == 0 || cols == 0 || rows > 10_000 || cols > 10_000 {
            return Err(AppError::new(
                ErrorKind::Usage,
                format!("a terminal of {rows} x {cols} is not possible: give 1 to 10000 of each"),
            ));
        }
        let size = Size::clamped(rows, cols);
        if let Some(owned) = &session.pty {
            return owned
                .pty
                .resize(size)
                .map_err(|error| AppError::new(ErrorKind::Pty, format!("failed to resize {}: {error}", session.id)));
        }
        let (server, pane) = self.pane_of(&session)?;
        if server.people(&pane.session).map_err(|error| tmux(&error))? > 0 {
            let message = format!("{} is attached in another terminal, which decides its size", session.id);
            return Err(AppError::new(ErrorKind::Refused, message));
        }
        server.resize(&pane.window, size.rows, size.cols).map_err(|error| tmux(&error))
    }

    /// Reads the journal of receipts. A session that is forgotten is still in it, by its id.
    pub(super) fn receipts(&self, reference: Option<&str>, tail: Option<usize>) -> Result<Entries, AppError> {
        let id = match reference {
            Some(reference) if is_session_id(reference) => Some(reference.to_owned()),
            Some(reference) => Some(self.find(reference)?.id.clone()),
            None => None,
        };
        self.store.journal().read(id.as_deref(), tail).map_err(|error| {
            let message = format!("failed to read receipts.jsonl in {}: {error}", self.paths.state_dir.display());
            AppError::new(ErrorKind::State, message)
        })
    }

    pub(super) fn logs(&self, reference: &str, tail: Option<usize>) -> Result<Vec<String>, AppError> {
        if let Ok(session) = self.find(reference)
            && session.tether().adoption.is_some()
        {
            // It was never told to write a log: what its terminal remembers is all there is.
            let mut lines: Vec<String> =
                self.printed(&session)?.lines().map(|line| line.trim_end().to_owned()).collect();
            let end = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
            lines.truncate(end);
            lines.drain(..tail.map_or(0, |tail| lines.len().saturating_sub(tail)));
            return Ok(lines);
        }
        log_lines(&self.log_path(reference)?, tail)
            .map_err(|error| AppError::new(ErrorKind::Io, format!("failed to read the log of {reference}: {error}")))
    }

    /// Returns where the log of a session is, also of one that is gone: a log outlives its session for a while.
    pub(super) fn log_path(&self, reference: &str) -> Result<PathBuf, AppError> {
        let session = match self.find(reference) {
            Ok(session) => session,
            Err(error) => {
                let left = Some(reference).filter(|id| is_session_id(id)).map(|id| self.store.log_path(id));
                return left.filter(|path| path.exists()).ok_or(error);
            }
        };
        if session.tether().adoption.is_none() {
            return Ok(self.store.log_path(&session.id));
        }
        let id = &session.id;
        Err(AppError::new(
            ErrorKind::Refused,
            format!(
                "{id} was adopted, and nobody writes its log: `cookbook-tui logs {id}` shows what its terminal holds"
            ),
        ))
    }
}

/// Joins what is to be said, each thing once.
pub(super) fn once<const N: usize>(parts: [Option<String>; N]) -> Option<String> {
    let mut said: Vec<String> = Vec::new();
    for part in parts.into_iter().flatten() {
        if !said.contains(&part) {
            said.push(part);
        }
    }
    (!said.is_empty()).then(|| said.join("; "))
}

fn text_of(screen: &Screen, scrollback: usize) -> ScreenText {
    let Size { rows, cols } = screen.size();
    ScreenText { rows, cols, lines: screen.text(scrollback), cursor: screen.cursor() }
}

/// Returns the lines of a log, or the last of them.
fn log_lines(path: &Path, tail: Option<usize>) -> io::Result<Vec<String>> {
    let mut lines = crate::text::plain_lines(&crate::pty::read_log(path)?);
    if let Some(tail) = tail {
        lines.drain(..lines.len().saturating_sub(tail));
    }
    Ok(lines)
}

/// Returns everybody of the last look: the members, and whoever could not be bound.
pub(super) fn rows_of(state: &State) -> Vec<ProcessRow> {
    state.sample.rows.values().map(|sampled| &sampled.row).chain(&state.sample.unbound).cloned().collect()
}

/// What was seen of what can be launched.
#[derive(Debug, Default)]
pub struct SeenRecipes(Option<Arc<Config>>);

/// What the screen asks, without waiting for anything but short locks.
impl super::Runtime {
    /// Returns all sessions as they were last sampled.
    pub fn rows(&self) -> Vec<SessionRow> {
        let inner = &self.inner;
        inner.take_in();
        for session in inner.all() {
            // Never shown before it was looked at.
            if session.state().sample.at.is_none() {
                inner.sample_one(&session);
            }
        }
        let all = inner.all();
        let rows = all.iter().map(|session| inner.session_row(session));
        rows.chain(inner.queued_rows()).chain(inner.idle_rows()).collect()
    }

    /// Returns the tree of a session as it was last sampled.
    pub fn sampled(&self, session: &str) -> Option<Tree> {
        let session = self.inner.lock().by_id.get(session).cloned()?;
        Some(Inner::sampled_tree(&session))
    }

    /// Looks at the processes of a session now.
    ///
    /// # Errors
    /// As for the command `tree`.
    pub fn look(&self, session: &str) -> Result<Tree, AppError> {
        self.inner.tree(session)
    }

    /// Returns the settings of the screen.
    pub fn ui(&self) -> crate::app::config::UiConfig {
        self.inner.config().ui.clone()
    }

    /// Asks tmux for its version, which takes a moment; says so where it cannot be used.
    pub fn tmux_note(&self) -> Option<String> {
        self.inner.server.version().err().map(|error| format!("sessions live in PTYs only: {error}"))
    }

    /// Returns what a person should know at the start.
    pub fn notes(&self) -> Vec<String> {
        let config = self.inner.config();
        let mut notes = config.notes.clone();
        if let Some(untrusted) = &config.untrusted {
            let path = untrusted.path.display();
            notes.push(format!("{path} is not trusted and not used; read it, then run `cookbook-tui trust`"));
        }
        let quarantined = self.quarantined().len();
        if quarantined > 0 {
            notes.push(format!("{quarantined} records are left alone; `cookbook-tui doctor` names them"));
        }
        notes
    }

    /// Returns what can be launched, where that may be other than at the last call.
    pub fn watch_recipes(&self, seen: &mut SeenRecipes) -> Option<Vec<crate::app::config::RecipeRow>> {
        let config = self.inner.config();
        let is_same = seen.0.as_ref().is_some_and(|seen| Arc::ptr_eq(seen, &config));
        (!is_same).then(|| seen.0.insert(config).rows())
    }

    /// Returns the emulator of a PTY session of this run.
    pub fn screen_of(&self, session: &str) -> Option<Arc<std::sync::Mutex<Screen>>> {
        let session = self.inner.lock().by_id.get(session).cloned()?;
        session.pty.as_ref().map(|owned| owned.pty.screen())
    }

    /// Returns the first pane of a session that lives in tmux.
    pub fn pane(&self, session: &str) -> Option<(Server, PaneRow)> {
        let session = self.inner.lock().by_id.get(session).cloned()?;
        self.inner.pane_of(&session).ok()
    }

    /// Looks for the pane of a session that was seen in tmux before; none where the session has ended. An error says that
    /// nobody could look.
    pub fn seek_pane(&self, session: &str) -> Result<Option<(Server, PaneRow)>, String> {
        let session = self.inner.lock().by_id.get(session).cloned();
        let record = session.and_then(|session| session.tether().tmux.clone());
        record.map_or(Ok(None), |record| self.inner.first_pane(&record))
    }

    /// Returns where our sockets are.
    pub fn runtime_dir(&self) -> &Path {
        &self.inner.paths.runtime_dir
    }

    /// Tells whether a session was not launched by us.
    pub fn is_guest(&self, session: &str) -> bool {
        self.inner.lock().by_id.get(session).is_some_and(|session| session.tether().adoption.is_some())
    }

    /// Tells whether a session has ended.
    pub fn is_over(&self, session: &str) -> bool {
        self.inner.lock().by_id.get(session).is_some_and(|session| session.phase().0.is_over())
    }

    /// Gives the terminal of a PTY session of this run another size.
    pub fn resize_owned(&self, session: &str, rows: u16, cols: u16) {
        let session = self.inner.lock().by_id.get(session).cloned();
        if let Some(owned) = session.as_ref().and_then(|session| session.pty.as_ref()) {
            let size = Size::clamped(rows, cols);
            // A terminal that is closed takes no size any more; what is left of it is wrapped anew.
            if owned.pty.resize(size).is_err() {
                owned.pty.screen().lock().unwrap_or_else(PoisonError::into_inner).resize(size);
            }
        }
    }

    /// Returns a number for each session that is another one when it has printed: a look at each log, whatever it prints.
    /// What others have launched has no log, and the number that `hear_guests` heard last. One without either
    /// is not there.
    pub fn printed(&self) -> BTreeMap<String, u64> {
        let printed = |id: &str| {
            let since = self.inner.store.log_written(id)?.duration_since(std::time::UNIX_EPOCH).ok()?;
            u64::try_from(since.as_nanos()).ok()
        };
        let sessions = self.inner.all();
        let heard = |session: &Session| {
            let state = session.state();
            state.tether.adoption.as_ref().map(|_| state.activity)
        };
        let number = |session: &Session| heard(session).or_else(|| printed(&session.id));
        sessions.iter().filter_map(|session| Some((session.id.clone(), number(session)?))).collect()
    }

    /// Tells whether the runtime is ending.
    pub fn is_closing(&self) -> bool {
        self.inner.is_closing()
    }

    /// Waits until some PTY session prints; returns a number that counts what was printed so far.
    pub fn wait_for_output(&self, seen: u64) -> u64 {
        use std::sync::atomic::Ordering;
        self.inner.sleep_until(|| self.inner.screens.load(Ordering::Relaxed) != seen || self.inner.is_closing());
        self.inner.screens.load(Ordering::Relaxed)
    }
}
