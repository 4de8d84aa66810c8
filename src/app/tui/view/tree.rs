//! The processes of the selected session.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::super::glyph::{self, DOT};
use super::super::model::{Model, Pane, TreeLine};
use super::super::theme::{Theme, Tone, verdict_glyph, verdict_tone};
use super::layout::Area;
use super::paint::{Room, Row, tint};
use super::{bars, cause, human};
use crate::lifecycle::receipt::{Membership, ProcessRow};
use crate::lifecycle::verdict::VerdictKind;

/// Returns the part of the pane that holds the processes: below the headings, above the reason.
pub(in super::super) fn tree_rows(body: Rect) -> Rect {
    let above = u16::from(body.height >= 3);
    let below = u16::from(body.height >= 4);
    Rect { y: body.y + above, height: body.height - above - below, ..body }
}

pub(super) fn draw(model: &Model, area: Area, buffer: &mut Buffer) {
    let theme = &model.theme;
    let active = model.pane == Pane::Tree && model.overlays.is_empty();
    let lines = model.tree.lines();
    if let Some(title) = area.title {
        let name = model.current().map(|session| session.name.as_str()).unwrap_or_default();
        let is_live =
            |line: &&TreeLine<'_>| matches!(line, TreeLine::Process { row, .. } if row.verdict != VerdictKind::Gone);
        let members = lines.iter().filter(is_live).count();
        let aside = model.current().map(|session| {
            let (cpu, memory) = (human::percent(session.cpu_pct), human::bytes(session.rss_bytes));
            format!("{} {DOT} {cpu} {DOT} {memory}", human::count(members, "process", "processes"))
        });
        let aside = aside.unwrap_or_default();
        let of = if name.is_empty() { String::new() } else { format!("  {name}") };
        bars::title(theme, title, active, &[("Processes", theme.text()), (&of, theme.dim())], &aside, buffer);
    }
    let rows = tree_rows(area.body);
    if let Some(session) = model.current().filter(|session| lines.is_empty() && session.phase.is_over())
        && session.reason().is_some()
    {
        // The title has no room for a whole reason; here is nothing else to tell.
        for (index, line) in cause::lines(model, session, rows.width.saturating_sub(2)).iter().enumerate() {
            let Ok(index) = u16::try_from(index) else { break };
            if index < rows.height {
                buffer.set_line(rows.x + 2, rows.y + index, line, rows.width.saturating_sub(2));
            }
        }
        return;
    }
    if model.tree.tree.is_none() || lines.is_empty() {
        let text = match (&model.selected, &model.tree.tree) {
            (None, _) if model.met.is_some() => "not ours: its processes are not followed",
            (None, _) => "no session is selected",
            (Some(_), None) => "not looked at yet",
            (Some(_), Some(_)) if model.current().is_some_and(|row| row.verdict == VerdictKind::Unverifiable) => {
                "nobody can look at its processes"
            }
            (Some(_), Some(_)) => "no processes are left",
        };
        if let Some(mut row) = Row::new(buffer, rows, 0) {
            row.gap(2).put(text, theme.dim());
        }
        return;
    }
    let columns = Columns::of(area.body.width, model.tree.has_gpu);
    if rows.y > area.body.y
        && let Some(mut row) = Row::new(buffer, area.body, 0)
    {
        columns.headings(theme, &mut row);
    }
    let selected = model.tree.selected(&lines);
    for (index, (at, line)) in (0..rows.height).zip(lines.iter().enumerate().skip(model.tree.top)) {
        let Some(mut row) = Row::new(buffer, rows, index) else { break };
        let is_selected = at == selected && active;
        row.put(if is_selected { glyph::BAR } else { " " }, theme.accent());
        columns.draw(model, line, &mut row);
        if is_selected {
            tint(buffer, Rect { y: rows.y + index, height: 1, ..rows }, theme.selection(true));
        }
    }
    if rows.bottom() < area.body.bottom()
        && let Some(mut row) = Row::new(buffer, area.body, area.body.height - 1)
    {
        reason(theme, lines.get(selected).filter(|_| active), lines.len(), usize::from(rows.height), &mut row);
    }
}

/// Which columns there is room for.
struct Columns {
    cpu: u16,
    memory: u16,
    age: u16,
    state: u16,
    gpu: u16,
    threads: u16,
    member: u16,
}

const VERDICT: u16 = 15;
const PID: u16 = 8;

impl Columns {
    /// Gives columns in the order of their importance while enough is left for the command.
    fn of(width: u16, has_gpu: bool) -> Self {
        let mut left = Room(width.saturating_sub(1 + VERDICT + PID));
        Self {
            cpu: left.take(6, 16),
            memory: left.take(6, 16),
            age: left.take(5, 16),
            state: left.take(2, 16),
            gpu: if has_gpu { left.take(6, 24) } else { 0 },
            threads: left.take(5, 28),
            member: left.take(12, 26),
        }
    }

    /// Returns the columns of the numbers together.
    const fn numbers(&self) -> u16 {
        self.age + self.cpu + self.memory + self.gpu + self.threads
    }

    fn headings(&self, theme: &Theme, row: &mut Row<'_>) {
        let dim = theme.dim();
        row.gap(1).left(VERDICT, "verdict", dim).right(PID - 1, "pid", dim).gap(1);
        if self.state > 0 {
            row.left(self.state, "s", dim);
        }
        for (columns, text) in
            [(self.age, "age"), (self.cpu, "cpu"), (self.memory, "rss"), (self.gpu, "gpu"), (self.threads, "thr")]
        {
            if columns > 0 {
                row.right(columns, text, dim);
            }
        }
        if self.member > 0 {
            row.gap(2).left(self.member - 1, "member by", dim);
        }
        row.gap(1).put("command", dim);
    }

    fn draw(&self, model: &Model, line: &TreeLine<'_>, row: &mut Row<'_>) {
        let theme = &model.theme;
        match line {
            TreeLine::Process { row: process, guides } => self.process(model, process, (guides, ""), row),
            TreeLine::Supervisor(process) => self.process(model, process, ("", "our own: leaves last "), row),
            TreeLine::Bystander { what, row: other } => {
                row.left(VERDICT, &format!("{DOT} {what}"), theme.tone(Tone::Warn));
                row.right(PID - 1, &other.pid.to_string(), theme.dim());
                row.gap(1 + self.state + self.numbers());
                if self.member > 0 {
                    row.gap(2).left(self.member - 1, "not signalled", theme.dim());
                }
                row.gap(1).put(&other.command, theme.dim());
            }
        }
    }

    fn process(&self, model: &Model, process: &ProcessRow, (guides, label): (&str, &str), row: &mut Row<'_>) {
        let theme = &model.theme;
        let gone = process.verdict == VerdictKind::Gone;
        let base = if gone || !label.is_empty() { theme.dim() } else { theme.text() };
        let verdict = format!("{} {}", verdict_glyph(process.verdict), process.verdict.name());
        row.left(VERDICT, &verdict, theme.tone(verdict_tone(process.verdict)));
        row.right(PID - 1, &process.pid.to_string(), base).gap(1);
        if self.state > 0 {
            row.left(self.state, &process.state, theme.dim());
        }
        // What a process used before it ended says nothing now.
        let live = |text: String| if gone { human::UNKNOWN.to_owned() } else { text };
        for (columns, text) in [
            (self.age, live(human::age(process.age_s))),
            (self.cpu, live(human::percent(process.cpu_pct))),
            (self.memory, live(human::bytes(process.rss_bytes))),
            (self.gpu, live(human::bytes(process.gpu_bytes))),
            (self.threads, live(process.threads.map_or_else(|| human::UNKNOWN.to_owned(), |n| n.to_string()))),
        ] {
            if columns > 0 {
                row.right(columns, &text, base);
            }
        }
        if self.member > 0 {
            row.gap(2).left(self.member - 1, &membership(&process.membership, ","), theme.dim());
        }
        row.gap(1).put(guides, theme.rule(false)).put(label, theme.dim());
        if model.tree.is_new(process) {
            row.put("new", theme.tone(Tone::Good)).gap(1);
        }
        if process.protected.is_some() {
            row.put("protected", theme.tone(Tone::Warn)).gap(1);
        }
        if process.kept.is_some() {
            row.put("kept", theme.tone(Tone::Warn)).gap(1);
        }
        row.put(&process.command, base);
    }
}

/// Returns the ways of belonging in words.
pub(super) fn membership(ways: &[Membership], between: &str) -> String {
    let word = |way: &Membership| match way {
        Membership::Tree => "tree",
        Membership::Sid => "sid",
        Membership::Cgroup => "cgroup",
        Membership::Reparented => "reparented",
        Membership::Marker => "marker",
    };
    ways.iter().map(word).collect::<Vec<_>>().join(between)
}

/// Draws why the selected process is what it is; without one, how many are not shown.
fn reason(theme: &Theme, line: Option<&TreeLine<'_>>, count: usize, height: usize, row: &mut Row<'_>) {
    row.gap(1);
    match line {
        Some(TreeLine::Process { row: process, .. } | TreeLine::Supervisor(process)) => {
            row.put(&process.pid.to_string(), theme.accent()).gap(1);
            if let Some(why) = &process.protected {
                row.put(&format!("protected: {why} {DOT} "), theme.tone(Tone::Warn));
            }
            if let Some(why) = &process.kept {
                row.put(&format!("kept: {why} {DOT} "), theme.tone(Tone::Warn));
            }
            row.put(&process.reason, theme.text());
            let ids = format!(
                " {DOT} member by {} {DOT} parent {} {DOT} group {} {DOT} session {}",
                membership(&process.membership, ", "),
                process.ppid,
                process.pgid,
                process.sid
            );
            row.put(&ids, theme.dim());
        }
        Some(TreeLine::Bystander { what, row: other }) => {
            row.put(&other.pid.to_string(), theme.accent()).gap(1);
            row.put(other.reason.as_deref().unwrap_or(what), theme.text());
        }
        None if count > height => {
            row.gap(1).put(&format!("{} more", count - height), theme.dim());
        }
        None => {}
    }
}
