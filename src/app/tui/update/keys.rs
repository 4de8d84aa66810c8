//! Keys on the panes. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use crossterm::event::KeyEvent;

use super::super::keymap::{Action, Context};
use super::super::model::{
    Act, Ask, Events, Form, Help, Launch, ManyAct, Model, Overlay, Palette, Pane, Pending, Preview, Purpose, QuitBox,
    Reader, Reading, TreeLine, dry_run,
};
use super::super::seam::{Effect, Ticket};
use super::super::theme::Tone;
use super::super::view::layout::{Arrangement, arrangement, layout, tree_shown};
use super::Turn;
use super::strangers::Stop;
use crate::app::command::{Command, OrphansRequest};
use crate::app::contract::SessionRow;
use crate::app::error::{AppError, ErrorKind};
use crate::app::why::Why;
use crate::lifecycle::identity::Pid;

/// How quickly the chord must come again to be sent through.
pub(super) const TWICE: Duration = Duration::from_secs(1);

impl Turn<'_> {
    pub(super) fn pane_key(&mut self, key: &KeyEvent) {
        if let Some(action) = self.model.keys.lookup(Context::Panes, key) {
            self.act(action);
        }
    }

    /// Does what a key of the panes does.
    pub(super) fn act(&mut self, action: Action) {
        if self.spares(action) {
            return;
        }
        match action {
            Action::Up => self.step(-1),
            Action::Down => self.step(1),
            Action::PageUp => self.step(-self.page()),
            Action::PageDown => self.step(self.page()),
            Action::Top => self.step(isize::MIN / 2),
            Action::Bottom => self.step(isize::MAX / 2),
            Action::NextPane => self.turn_pane(1),
            Action::PreviousPane => self.turn_pane(-1),
            Action::Back => self.back(),
            Action::Focus if self.model.group().is_some_and(|group| self.model.folds(group)) => self.fold(),
            Action::Focus => self.focus(),
            Action::Start => self.open_menu(),
            Action::Form => self.open_form(Form::new()),
            Action::Revise => self.revise(),
            Action::Fix => self.fix(),
            Action::Stop => self.preview_marked(Act::Stop),
            Action::Force => self.preview_marked(Act::Force),
            Action::Restart => self.preview_marked(Act::Restart),
            Action::Sweep => {
                if self.many(ManyAct::Act(Act::Sweep)) {
                    return;
                }
                // What is over is swept alone; otherwise everything that is over.
                let over = self.model.current().filter(|row| row.phase.is_over()).map(|row| row.session.clone());
                self.preview(Act::Sweep, over, None);
            }
            Action::Hold => self.hold(),
            Action::Mark => self.mark(),
            Action::Broadcast => self.broadcast(),
            Action::Fold => self.fold(),
            Action::Attention => self.next_attention(),
            Action::Zoom => self.zoom(),
            Action::Tree => self.toggle_tree(),
            Action::Why => self.why(),
            Action::Find if self.model.pane == Pane::Screen => self.look_back(Purpose::Search),
            Action::Find => self.find(),
            Action::LookBack => self.look_back(Purpose::Browse),
            Action::Palette => self.model.overlays.push(Overlay::Palette(Palette::default())),
            Action::Events => self.model.overlays.push(Overlay::Events(Events::default())),
            Action::Receipt => match self.model.last_receipt() {
                Some(receipt) => self.read(Reading::Receipt(Box::new(receipt.clone()))),
                None => self.note(Tone::Plain, "no receipt yet: nothing was stopped or swept"),
            },
            Action::Orphans => {
                self.run(Command::Orphans(OrphansRequest::default()), Pending::Report);
            }
            Action::Reap => self.preview(Act::Reap, self.orphan(), None),
            Action::Adopt => self.adopt(),
            Action::Doctor => {
                self.run(Command::Doctor {}, Pending::Report);
            }
            Action::Extend => self.extend(),
            Action::Dismiss => self.dismiss(),
            Action::Copy => self.copy(),
            Action::Help => self.help(self.model.context()),
            Action::Suspend => self.effects.push(Effect::Suspend),
            Action::Quit => self.quit(),
            Action::Redraw => self.effects.push(Effect::Redraw),
            Action::Leave
            | Action::Left
            | Action::Right
            | Action::LineStart
            | Action::LineEnd
            | Action::Select
            | Action::SelectRows
            | Action::Next
            | Action::Previous
            | Action::Edit
            | Action::Confirm
            | Action::Close
            | Action::Scope
            | Action::Choose
            | Action::Type
            | Action::NextKind
            | Action::NextHost => {}
        }
    }

    /// Moves by rows in the active pane.
    fn step(&mut self, by: isize) {
        match self.model.pane {
            Pane::List => self.step_session(by),
            Pane::Screen => self.scroll_history(by),
            Pane::Tree => self.step_process(by),
        }
    }

    fn page(&self) -> isize {
        let area = layout(self.model).area(self.model.pane);
        area.map_or(1, |area| isize::try_from(area.body.height.saturating_sub(1).max(1)).unwrap_or(1))
    }

    pub(super) fn step_session(&mut self, by: isize) {
        let mut rows: Vec<Stop> = self.listed().collect();
        let Some(last) = rows.len().checked_sub(1) else { return };
        let is_selected = |stop: &Stop| match stop {
            Stop::Session(id) => Some(id) == self.model.selected.as_ref(),
            Stop::Stranger(pid) => Some(*pid) == self.model.met,
        };
        let at = rows.iter().position(is_selected);
        let next = at.map_or(0, |at| at.saturating_add_signed(by).min(last));
        self.stop_at(rows.swap_remove(next));
    }

    pub(super) fn scroll_history(&mut self, by: isize) {
        let most = self.model.facts().map_or(0, |facts| facts.history);
        self.model.scroll = self.model.scroll.saturating_add_signed(by.saturating_neg()).min(most);
    }

    pub(super) fn step_process(&mut self, by: isize) {
        let lines = self.model.tree.lines();
        let Some(last) = lines.len().checked_sub(1) else { return };
        let at = self.model.tree.selected(&lines);
        self.model.tree.cursor = Some(lines[at.saturating_add_signed(by).min(last)].pid());
    }

    fn turn_pane(&mut self, by: isize) {
        let panes: Vec<Pane> = match arrangement(self.model.size) {
            // One at a time: all of them can be turned to.
            Arrangement::Single => vec![Pane::List, Pane::Screen, Pane::Tree],
            Arrangement::Wide | Arrangement::Stacked => {
                let layout = layout(self.model);
                let visible = |pane: &Pane| layout.area(*pane).is_some();
                [Pane::List, Pane::Screen, Pane::Tree].into_iter().filter(visible).collect()
            }
        };
        let count = isize::try_from(panes.len()).unwrap_or(1).max(1);
        let at = panes.iter().position(|pane| *pane == self.model.pane).unwrap_or(0);
        let next = (isize::try_from(at).unwrap_or(0) + by).rem_euclid(count);
        if let Some(pane) = usize::try_from(next).ok().and_then(|next| panes.get(next)) {
            self.model.pane = *pane;
        }
    }

    fn back(&mut self) {
        if self.model.scroll > 0 && self.model.pane == Pane::Screen {
            self.model.scroll = 0;
        } else if self.model.zoom {
            self.model.zoom = false;
        } else if self.model.pane == Pane::List {
            if self.model.filter.take().is_none() {
                self.model.marked.clear();
            }
        } else {
            self.model.pane = Pane::List;
        }
    }

    pub(super) fn focus(&mut self) {
        if self.spares(Action::Focus) {
            return;
        }
        let Some(row) = self.model.current() else {
            return self.open_menu();
        };
        if row.phase.is_over() {
            let key = self.model.keys.shown(Context::Panes, Action::Restart);
            let text = format!("{} has ended: nobody reads what you type ({key} starts it again)", row.name);
            return self.note(Tone::Plain, &text);
        }
        if self.model.modes().is_none() {
            let session = row.session.clone();
            return self.wait_for_terminal(&session);
        }
        if layout(self.model).screen.is_none() {
            self.show_screen();
        }
        self.model.pane = Pane::Screen;
        self.model.scroll = 0;
        self.model.focused = true;
    }

    /// Makes the terminal visible.
    pub(super) fn show_screen(&mut self) {
        self.model.pane = Pane::Screen;
        match arrangement(self.model.size) {
            Arrangement::Stacked if !self.model.zoom => self.model.tree_wanted = Some(false),
            Arrangement::Wide | Arrangement::Stacked | Arrangement::Single => {}
        }
    }

    fn zoom(&mut self) {
        if self.model.selected.is_none() {
            return;
        }
        self.model.zoom = !self.model.zoom;
        if self.model.zoom && self.model.pane == Pane::List {
            self.model.pane = Pane::Screen;
        }
    }

    fn toggle_tree(&mut self) {
        match arrangement(self.model.size) {
            Arrangement::Single => {
                self.model.pane = if self.model.pane == Pane::Tree { Pane::Screen } else { Pane::Tree };
            }
            Arrangement::Wide | Arrangement::Stacked => {
                let shown = !tree_shown(self.model);
                self.model.tree_wanted = Some(shown);
                self.model.zoom = false;
                if !shown && self.model.pane == Pane::Tree {
                    self.model.pane = Pane::Screen;
                }
            }
        }
    }

    /// Opens the help at a place.
    pub(super) fn help(&mut self, at: Context) {
        if matches!(self.model.overlays.last(), Some(Overlay::Help(_))) {
            return;
        }
        let pane = if at == Context::Panes { self.model.pane } else { Pane::List };
        self.model.overlays.push(Overlay::Help(Help::at(at, pane)));
    }

    /// Opens something to read, as soon as nobody is typing.
    pub(super) fn read(&mut self, reading: Reading) {
        self.model.waiting.push_back(Overlay::Reader(Reader { reading, scroll: 0 }));
    }

    fn extend(&mut self) {
        match self.model.current().map(|row| (row.session.clone(), row.name.clone())) {
            Some((session, name)) => self.model.overlays.push(Overlay::Ask(Ask::new(session, name))),
            None => self.note(Tone::Plain, "no session is selected (s starts one)"),
        }
    }

    /// Returns the selected session, where it is an orphan.
    pub(super) fn orphan(&self) -> Option<String> {
        self.model.selected.clone().filter(|id| self.model.sessions.is_orphan(id))
    }

    fn adopt(&mut self) {
        let orphan = self.model.current().filter(|row| self.model.sessions.is_orphan(&row.session));
        match orphan.map(|row| (row.session.clone(), row.name.clone())) {
            Some((session, name)) => {
                let request = OrphansRequest { adopt: Some(true), session: Some(session), ..OrphansRequest::default() };
                self.run(Command::Orphans(request), Pending::Adopt(name));
            }
            None => self.pick(),
        }
    }

    fn dismiss(&mut self) {
        if self.many(ManyAct::Dismiss) {
            return;
        }
        match self.model.current().map(|row| (row.session.clone(), row.name.clone())) {
            Some((session, name)) => {
                self.run(Command::Dismiss { session }, Pending::Dismiss(name));
            }
            None => self.note(Tone::Plain, "no session is selected (s starts one)"),
        }
    }

    /// Asks why the selected process is what it is; of a session that is over, says why, unless a process is meant.
    fn why(&mut self) {
        if self.introduce() {
            return;
        }
        if self.model.pane != Pane::Tree
            && let Some(session) = self.model.cause().cloned()
        {
            return self.read(Reading::Cause(Box::new(session)));
        }
        let lines = self.model.tree.lines();
        let pid = lines.get(self.model.tree.selected(&lines)).map(TreeLine::pid);
        match (self.model.selected.clone(), pid) {
            (Some(session), Some(pid)) => {
                self.run(Command::Why { session, pid }, Pending::Report);
            }
            (Some(_), None) => self.note(Tone::Plain, "no process is known of this session"),
            (None, _) => self.note(Tone::Plain, "no session is selected (s starts one)"),
        }
    }

    /// Asks again about the process whose panel is open, with each look at its session.
    pub(super) fn ask_why_again(&mut self, session: &str) {
        let Some(Overlay::Reader(Reader { reading: Reading::Why(why), .. })) = self.model.overlays.last() else {
            return;
        };
        let pid = why.pid;
        let is_asked = self.model.pending.values().any(|pending| matches!(pending, Pending::WhyAgain(_)));
        if why.session == session && !is_asked {
            self.run(Command::Why { session: session.to_owned(), pid }, Pending::WhyAgain(pid));
        }
    }

    /// Shows what is known by now of the process whose panel is open. One that is forgotten was seen to end.
    pub(super) fn why_again(&mut self, pid: Pid, now: Result<Box<Why>, AppError>) {
        let Some(Overlay::Reader(Reader { reading: Reading::Why(why), .. })) = self.model.overlays.last_mut() else {
            return;
        };
        match now {
            Ok(now) if now.session == why.session && now.pid == why.pid => *why = now,
            Err(error) if why.pid == pid && error.kind == ErrorKind::NotFound => why.has_gone(),
            Ok(_) | Err(_) => {}
        }
    }

    pub(super) fn open_menu(&mut self) {
        self.model.overlays.push(Overlay::Launch(Launch::default()));
        self.run(Command::Recipes {}, Pending::Recipes);
    }

    /// Previews an act on all that are marked, else on the selected session.
    fn preview_marked(&mut self, act: Act) {
        if self.many(ManyAct::Act(act)) {
            return;
        }
        let ended = self.model.current().filter(|row| ends_nobody(self.model, act, row)).map(|row| row.name.clone());
        match (self.model.selected.clone(), ended) {
            (Some(_), Some(name)) => {
                self.note(Tone::Plain, &format!("{name} has ended already: nothing is left to stop"));
            }
            (Some(session), None) if act == Act::Stop && self.look_again(&session) => {}
            (Some(session), None) => self.preview(act, Some(session), None),
            (None, _) => self.note(Tone::Plain, "no session is selected (s starts one)"),
        }
    }

    /// Opens a preview and asks for its plan. With `note` it opens by itself, and not before nobody is
    /// typing.
    pub(super) fn preview(&mut self, act: Act, session: Option<String>, note: Option<String>) {
        let name = match &session {
            Some(id) => self.model.sessions.by_id(id).map_or_else(|| id.clone(), |row| row.name.clone()),
            None if act == Act::Reap => "all orphans".to_owned(),
            None => "all sessions that are over".to_owned(),
        };
        let ticket = self.run(act.command(session.as_deref(), None), Pending::Plan);
        let overlay = Overlay::Preview(preview_of(act, session, name, note, ticket));
        if self.model.focused || !self.model.overlays.is_empty() {
            self.model.waiting.push_back(overlay);
        } else {
            self.model.overlays.push(overlay);
        }
    }

    fn copy(&mut self) {
        let text = match self.model.pane {
            Pane::List => self.model.selected.clone().or_else(|| self.model.met.map(|pid| pid.to_string())),
            Pane::Screen => {
                if let Some(session) = self.model.selected.clone() {
                    self.run(Command::Screen { session, scrollback: None }, Pending::Text);
                }
                return;
            }
            Pane::Tree => {
                let lines = self.model.tree.lines();
                lines.get(self.model.tree.selected(&lines)).map(|line| line.pid().to_string())
            }
        };
        if let Some(text) = text {
            self.note(Tone::Plain, &format!("copied {text}"));
            self.effects.push(Effect::Copy(text));
        }
    }

    fn quit(&mut self) {
        let ending = ending(self.model);
        if ending.is_empty() {
            self.effects.push(Effect::Quit);
            return;
        }
        for session in &ending {
            self.run(dry_run(session), Pending::QuitPlan(session.clone()));
        }
        self.model.overlays.push(Overlay::Quit(QuitBox::default()));
    }
}

/// Tells whether a stop would find nobody: the session is over, and nothing of it is left. A task of Cookbook is marked by
/// its stop all the same.
pub(in super::super) fn ends_nobody(model: &Model, act: Act, row: &SessionRow) -> bool {
    matches!(act, Act::Stop | Act::Force)
        && row.phase.is_over()
        && row.processes == 0
        && !row.adopted
        && !model.sessions.is_orphan(&row.session)
}

/// Returns a preview whose plan is on its way.
pub(super) fn preview_of(
    act: Act,
    session: Option<String>,
    name: String,
    note: Option<String>,
    ticket: Ticket,
) -> Preview {
    Preview {
        act,
        session,
        name,
        plan: None,
        not_before: None,
        note,
        end_kept: BTreeSet::new(),
        kept: None,
        follows: false,
        scroll: 0,
        drawn: false,
        ticket,
        revision: 0,
    }
}

/// Returns the ids of the sessions that end with us: those in a PTY of ours that still run, or of which more is left than
/// what was left alive on purpose.
pub(in super::super) fn ending(model: &Model) -> Vec<String> {
    let rows = model.sessions.rows().iter();
    rows.filter(|row| row.may_end_with_us() && !(row.phase.is_over() && model.sessions.kept(&row.session).is_some()))
        .map(|row| row.session.clone())
        .collect()
}
