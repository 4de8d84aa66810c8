//! The session list.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use std::borrow::Cow;

use super::super::glyph::{self, CHECK, DOT, MORE};
use super::super::keymap::{Action, Context};
use super::super::model::{Group, LOOKS, ListLine, Model, Pane, Totals};
use super::super::theme::{Theme, Tone, verdict_glyph, verdict_tone};
use super::bars;
use super::human;
use super::layout::{Area, Arrangement, arrangement};
use super::paint::{self, Room, Row, tint};
use super::palette;
use super::stranger;
use crate::app::command::Orphan;
use crate::app::contract::{Kind, Phase, SessionRow};
use crate::lifecycle::verdict::VerdictKind;
use crate::text::{escape, shorten};

/// Returns the lines of the list as they are shown.
pub(in super::super) fn list_lines(model: &Model) -> Vec<ListLine<'_>> {
    let spaced = arrangement(model.size) == Arrangement::Wide;
    model.sessions.lines(spaced, &|session| model.lists(session), &|group| model.folds(group), &|row| model.meets(row))
}

pub(super) fn draw(model: &Model, area: Area, buffer: &mut Buffer) {
    let theme = &model.theme;
    let active = model.pane == Pane::List && model.overlays.is_empty();
    let lines = list_lines(model);
    if let Some(title) = area.title {
        let hidden = |is, glyph| if is { format!(" {glyph}") } else { String::new() };
        let above = hidden(model.list_top > 0, glyph::UP);
        let below = hidden(lines.len() > model.list_top + usize::from(area.body.height), glyph::DOWN);
        let count = count(model);
        let aside = if count.is_empty() { count } else { format!("{count}{above}{below}") };
        let aside = totals(model, title.width, &aside);
        let typed = filter(model);
        let parts = [("Sessions", theme.text()), (typed.as_str(), theme.tone(Tone::Warn))];
        bars::title(theme, title, active, &parts, &aside, buffer);
    }
    if lines.is_empty() && model.filter.is_some() {
        if let Some(mut row) = Row::new(buffer, area.body, 0) {
            let key = model.keys.shown(Context::Panes, Action::Back);
            row.gap(1).put(&format!("No session matches ({key} shows all)."), theme.dim());
        }
        return;
    }
    if lines.is_empty() {
        return empty(model, area.body, buffer);
    }
    let columns = Columns::of(model, area.body.width.saturating_sub(1));
    if model.sessions.is_empty() && model.filter.is_none() {
        // Servers of others are no sessions: what can be done is said below them.
        let used = u16::try_from(lines.len() + 1).unwrap_or(u16::MAX).min(area.body.height);
        let below = Rect { y: area.body.y + used, height: area.body.height - used, ..area.body };
        empty(model, below, buffer);
    }
    for (index, line) in (0..area.body.height).zip(lines.iter().skip(model.list_top)) {
        let Some(mut row) = Row::new(buffer, area.body, index) else { break };
        match line {
            ListLine::Gap => {}
            ListLine::Heading(group, totals) => {
                let selected = totals.folded && model.group() == Some(*group);
                draw_heading(theme, *group, totals, selected, &mut row);
                if selected {
                    let y = area.body.y + index;
                    tint(buffer, Rect { y, height: 1, ..area.body }, theme.selection(active));
                }
            }
            ListLine::Orphan(session, orphan) => {
                let selected = model.selected.as_ref() == Some(&session.session);
                draw_orphan(theme, session, orphan, selected, &mut row);
                if selected {
                    let y = area.body.y + index;
                    tint(buffer, Rect { y, height: 1, ..area.body }, theme.selection(active));
                }
            }
            ListLine::Record(record) => {
                let name = record.path.file_name().unwrap_or(record.path.as_os_str()).to_string_lossy();
                row.gap(3).put("left alone: ", theme.dim()).put(&name, theme.text());
            }
            ListLine::Reason(record) => {
                row.gap(3).put(&record.reason, theme.dim());
            }
            ListLine::Stranger(stranger) => {
                let selected = model.met == Some(stranger.pid);
                stranger::draw_row(model, stranger, if selected { glyph::BAR } else { " " }, &mut row);
                if selected {
                    let y = area.body.y + index;
                    tint(buffer, Rect { y, height: 1, ..area.body }, theme.selection(active));
                }
            }
            ListLine::Session(session) => {
                let selected = model.selected.as_ref() == Some(&session.session);
                draw_session(model, session, &columns, selected, &mut row);
                if selected {
                    let y = area.body.y + index;
                    tint(buffer, Rect { y, height: 1, ..area.body }, theme.selection(active));
                }
            }
        }
    }
}

/// Returns how many sessions there are, and how many of them are listed where that differs; empty where there is none.
pub(super) fn count(model: &Model) -> String {
    let all = model.sessions.rows();
    match &model.filter {
        _ if all.is_empty() => String::new(),
        None => all.len().to_string(),
        Some(filter) => {
            format!("{} of {}", all.iter().filter(|row| filter.shows(&row.session)).count(), all.len())
        }
    }
}

/// Says how many sessions want somebody.
pub(super) fn wanting(model: &Model) -> Option<String> {
    match model.sessions.rows().iter().filter(|row| model.wants(row)).count() {
        0 => None,
        1 => Some("1 wants you".to_owned()),
        many => Some(format!("{many} want you")),
    }
}

/// Returns how many sessions want a person and what all of them use, as far as it fits: whom they want first.
pub(super) fn brief(model: &Model, room: u16) -> String {
    if model.sessions.rows().is_empty() {
        return String::new();
    }
    let mut said = String::new();
    for part in wanting(model).into_iter().chain(used(model)) {
        let more = if said.is_empty() { part } else { format!("{said} {DOT} {part}") };
        if paint::width(&more) > room {
            break;
        }
        said = more;
    }
    said
}

/// Returns what all sessions use of the processors and the memory, and of the GPUs' where that is known.
fn used(model: &Model) -> impl Iterator<Item = String> + use<> {
    let totals = Totals::of(model.sessions.rows().iter(), false);
    let used = [human::percent(totals.cpu_pct), human::bytes(totals.rss_bytes)].join(" ");
    let gpu = totals.gpu_bytes.map(|bytes| format!("{} GPU", human::bytes(Some(bytes))));
    [Some(used), gpu].into_iter().flatten()
}

/// Puts what all sessions use, and how many of them want a person, in front of how many there are, as far as it fits.
fn totals(model: &Model, room: u16, count: &str) -> String {
    if count.is_empty() {
        return String::new();
    }
    let wants = wanting(model);
    let said = |gpu_too: bool, wants_too: bool| {
        let used = used(model).take(if gpu_too { 2 } else { 1 });
        let parts = wants.clone().filter(|_| wants_too).into_iter().chain(used).chain([count.to_owned()]);
        parts.collect::<Vec<_>>().join(&format!(" {DOT} "))
    };
    let tries = [said(true, true), said(false, true)];
    let fits = |text: &String| paint::width(text) + LEAST_TITLE < room;
    tries.into_iter().find(fits).unwrap_or_else(|| said(false, false))
}

/// Columns that the title itself gets at least.
const LEAST_TITLE: u16 = 24;

/// Returns the filter and the number of marks as they stand behind the title.
pub(super) fn filter(model: &Model) -> String {
    let marked = match model.marked.len() {
        0 => String::new(),
        count => format!("  {CHECK} {count} marked"),
    };
    marked + &typed(model)
}

fn typed(model: &Model) -> String {
    match &model.filter {
        None => String::new(),
        Some(filter) if filter.typing => format!("  /{}", palette::typed(&filter.line)),
        Some(filter) => format!("  /{}", filter.line.text()),
    }
}

/// Draws the heading of a group: how many sessions, and of a folded one what they come to.
fn draw_heading(theme: &Theme, group: Group, totals: &Totals, selected: bool, row: &mut Row<'_>) {
    row.reserve(1);
    row.put(if selected { glyph::BAR } else { " " }, theme.accent());
    let style = if group == Group::Orphans { theme.tone(Tone::Warn) } else { theme.dim() };
    row.put(title(group), style).put(&format!(" {}", totals.count), theme.dim());
    let ready = if totals.ready > 0 { format!(" {DOT} {} ready", totals.ready) } else { String::new() };
    if totals.folded || (totals.ready > 0 && row.room() >= 24) {
        row.put(&ready, theme.dim());
    }
    if totals.folded {
        row.put(&format!(" {MORE}"), theme.accent());
        let used = format!("{} {}", human::percent(totals.cpu_pct), human::bytes(totals.rss_bytes));
        let room = row.room();
        row.right(room, &used, theme.dim());
    }
}

/// Which columns there is room for beside the name.
struct Columns {
    state: u16,
    place: u16,
    host: u16,
    port: u16,
    pid: u16,
    uptime: u16,
    spark: u16,
    cpu: u16,
    memory: u16,
    gpu: u16,
}

impl Columns {
    /// Gives columns in the order of their importance while enough is left for the name, whatever there is to show in
    /// them: none moves while sessions change. GPU memory has one from when a session had some.
    fn of(model: &Model, room: u16) -> Self {
        let state = if room >= 26 {
            14
        } else if room >= 16 {
            9
        } else {
            0
        };
        let uptime = if room >= 30 { 5 } else { 0 };
        let memory = if room >= 35 { 6 } else { 0 };
        let mut left = Room(room.saturating_sub(MARKS + state + uptime + memory));
        let wide = arrangement(model.size) == Arrangement::Wide;
        Self {
            state,
            uptime,
            memory,
            port: left.take(7, 14),
            gpu: if model.sessions.has_gpu() { left.take(6, 14) } else { 0 },
            cpu: left.take(6, 14),
            place: [PLACE_LONG, PLACE]
                .into_iter()
                .map(|columns| left.take(columns, columns))
                .find(|columns| *columns > 0)
                .unwrap_or_default(),
            spark: if wide { left.take(SPARK, 18) } else { 0 },
            host: left.take(5, 22),
            pid: left.take(9, 22),
        }
    }
}

/// Columns of a directory with its branch, where there is some room for it, and where there is much.
const PLACE: u16 = 16;
const PLACE_LONG: u16 = 30;

/// Returns the last part of the directory that a session works in, and the branch that it is on.
fn whereabouts(model: &Model, session: &SessionRow) -> String {
    let Some(dir) = session.cwd.as_deref() else { return String::new() };
    let last = dir.trim_end_matches('/').rsplit('/').next().filter(|last| !last.is_empty()).unwrap_or(dir);
    model.branches.get(dir).map_or_else(|| last.to_owned(), |branch| format!("{last} ({branch})"))
}

/// Columns of the bar, the verdict and the mark before a name.
const MARKS: u16 = 3;

fn draw_session(model: &Model, session: &SessionRow, columns: &Columns, selected: bool, row: &mut Row<'_>) {
    let theme = &model.theme;
    // A blank column keeps the numbers off the edge.
    row.reserve(1);
    let over = session.phase.is_over();
    let base = if over { theme.dim() } else { theme.text() };
    let name = if selected { base.add_modifier(Modifier::BOLD) } else { base };
    let (word, tone) = state(model, session);
    let &Columns { state, place, host, port, pid, uptime, spark, cpu, memory, gpu } = columns;
    row.put(if selected { glyph::BAR } else { " " }, theme.accent());
    row.put(verdict_glyph(session.verdict), theme.tone(verdict_tone(session.verdict)));
    row.put(if model.marked.contains(&session.session) { CHECK } else { " " }, theme.accent());
    let attention = model.wants(session);
    let columns = memory + gpu + spark + cpu + uptime + host + port + pid + place + state;
    let ended = model.news.has_ended(&session.session);
    let unseen = model.news.is_unseen(&session.session);
    let marks = [session.adopted, attention || ended || unseen].into_iter().filter(|mark| *mark).count();
    let width = row.room().saturating_sub(columns + 2 * u16::try_from(marks).unwrap_or(2));
    row.left(width, &shown_name(model, session, width), name);
    if session.adopted {
        // Behind the name of a session that somebody else has launched.
        row.gap(1).put(glyph::GUEST, theme.dim());
    }
    if ended {
        row.gap(1).put(glyph::ENDED, theme.tone(Tone::Warn));
    } else if attention {
        row.put(" !", theme.tone(Tone::Warn));
    } else if unseen {
        row.gap(1).put(glyph::UNSEEN, theme.accent());
    }
    if state > 0 {
        row.gap(1).left(state - 2, &word, theme.tone(tone)).gap(1);
    }
    if place > 0 {
        row.left(place - 1, &whereabouts(model, session), theme.dim()).gap(1);
    }
    if host > 0 {
        row.left(host, session.host.name(), theme.dim());
    }
    if port > 0 {
        let ports: Vec<String> = session.ports.iter().flatten().map(|port| format!(":{port}")).collect();
        row.left(port - 1, &ports.join(" "), theme.text()).gap(1);
    }
    if pid > 0 {
        row.right(pid, &session.pid.map_or_else(|| human::UNKNOWN.into(), |pid| pid.to_string()), theme.dim());
    }
    number(row, uptime, &human::age(session.uptime_s), theme.dim());
    if spark > 0 {
        draw_spark(model, session, row);
    }
    number(row, cpu, &human::percent(session.cpu_pct), base);
    number(row, memory, &human::bytes(session.rss_bytes), base);
    number(row, gpu, &human::bytes(session.gpu_bytes), base);
}

/// Returns the name of a session; one that would look like another's where its end is cut is cut in the middle.
fn shown_name<'a>(model: &Model, session: &'a SessionRow, columns: u16) -> Cow<'a, str> {
    let name = escape(&session.name);
    if paint::width(&name) <= columns {
        return name;
    }
    let cut = |name: &str| shorten(&escape(name), usize::from(columns));
    let mine = cut(&session.name);
    let is_alike = |row: &&SessionRow| row.name != session.name && cut(&row.name) == mine;
    if model.sessions.rows().iter().any(|row| is_alike(&row)) { paint::middle(&name, columns).into() } else { name }
}

/// Columns of the last looks at how busy a session was, with a gap before them.
#[expect(clippy::cast_possible_truncation, reason = "a handful")]
const SPARK: u16 = LOOKS as u16 + 1;

/// Draws the last looks at how busy a session was, the newest on the right.
fn draw_spark(model: &Model, session: &SessionRow, row: &mut Row<'_>) {
    let text: String = model.sparks.steps(&session.session, glyph::TOP_STEP).map(glyph::step).collect();
    row.right(SPARK, &text, model.theme.dim());
}

/// Draws what is known of an orphan: how old it is, what it uses, and the last verdict with its reason.
fn draw_orphan(theme: &Theme, session: &SessionRow, orphan: &Orphan, selected: bool, row: &mut Row<'_>) {
    row.reserve(1);
    row.put(if selected { glyph::BAR } else { " " }, theme.accent()).gap(2);
    let verdict = orphan.last.as_ref().map_or(session.verdict, |last| last.verdict);
    let used = [human::age(Some(orphan.age_s)), human::percent(session.cpu_pct), human::bytes(session.rss_bytes)];
    row.put(&used.join(" "), theme.dim()).gap(1);
    row.put(verdict.name(), theme.tone(verdict_tone(verdict)));
    row.put(&format!(": {}", orphan.reason), theme.dim());
}

fn number(row: &mut Row<'_>, columns: u16, text: &str, style: Style) {
    if columns > 0 {
        row.right(columns, text, style);
    }
}

/// Returns how a session is, in one word: what is wrong with its identity comes before its phase.
pub(super) fn state(model: &Model, session: &SessionRow) -> (String, Tone) {
    if model.acting.contains(&session.session) {
        return ("stopping".to_owned(), Tone::Warn);
    }
    let tone = match session.phase {
        Phase::Ready | Phase::Idle | Phase::Running => Tone::Good,
        Phase::Queued | Phase::Starting | Phase::Downloading | Phase::Loading | Phase::Warming => Tone::Plain,
        Phase::Stopping | Phase::Unverifiable => Tone::Warn,
        Phase::Exited => Tone::Dim,
        Phase::Failed => Tone::Bad,
    };
    match (session.phase, session.verdict) {
        // It ended with 0, or because we stopped it: by which signal is no news.
        (Phase::Exited, _) => {
            let stopped = session.signal.is_some() || session.detail.as_deref() == Some("stopped");
            (if stopped { "stopped" } else { "exited" }.to_owned(), tone)
        }
        (Phase::Failed, _) => match (session.exit_code, &session.signal) {
            (Some(code), _) => (format!("exit {code}"), tone),
            (None, Some(signal)) => (signal.clone(), tone),
            (None, None) => (session.phase.name().to_owned(), tone),
        },
        (_, verdict @ (VerdictKind::Foreign | VerdictKind::Unverifiable)) => {
            (verdict.name().to_owned(), verdict_tone(verdict))
        }
        (Phase::Running, VerdictKind::Owned | VerdictKind::Gone) if let Some(asks) = &session.attention => {
            (if asks.guess { format!("{} (guess)", asks.name()) } else { asks.state.name().to_owned() }, Tone::Warn)
        }
        // The number comes first: where there is little room it stays.
        (phase, VerdictKind::Owned | VerdictKind::Gone) => match session.progress_pct {
            Some(percent) => (format!("{percent:.0}% {}", phase.name()), tone),
            None => (phase.name().to_owned(), tone),
        },
    }
}

const fn title(group: Group) -> &'static str {
    match group {
        Group::Of(kind) => heading(kind),
        Group::Adopted => "Adopted",
        Group::Orphans => "Orphans",
        Group::Strangers => "Not ours",
    }
}

/// Returns the heading of a kind.
pub(super) const fn heading(kind: Kind) -> &'static str {
    match kind {
        Kind::Serve => "Servers",
        Kind::Agent => "Agents",
        Kind::Shell => "Shells",
        Kind::Download => "Downloads",
    }
}

fn empty(model: &Model, area: Rect, buffer: &mut Buffer) {
    let theme = &model.theme;
    let key = |action| model.keys.shown(Context::Panes, action);
    let (start, help, quit) = (key(Action::Start), key(Action::Help), key(Action::Quit));
    let hints = [("", "No sessions yet."), ("", ""), (&start, "start one"), (&help, "all keys"), (&quit, "quit")];
    for (index, (key, text)) in (0..area.height).zip(hints) {
        if let Some(mut row) = Row::new(buffer, area, index) {
            row.gap(1);
            if !key.is_empty() {
                row.left(3, key, theme.accent());
            }
            row.put(text, if key.is_empty() { theme.text() } else { theme.dim() });
        }
    }
}
