//! Titles, breadcrumb, event line and footer.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::super::glyph::{self, WITHIN};
use super::super::keymap::{Action, Bound, Context, name_of};
use super::super::model::{Act, Live, Model, Overlay, Pane, Reading, Slot};
use super::super::theme::{Theme, Tone};
use super::super::update::ends_nobody;
use super::history;
use super::human;
use super::list;
use super::paint::{Row, width};

/// Draws the title of a pane on a rule: what it is on the left, `aside` on the right. The pane that
/// has the keys is marked by weight and by a heavier rule, not by colour alone.
pub(super) fn title(
    theme: &Theme,
    area: Rect,
    active: bool,
    parts: &[(&str, Style)],
    aside: &str,
    buffer: &mut Buffer,
) {
    let (line, rule) = (if active { glyph::HEAVY } else { glyph::LIGHT }, theme.rule(active));
    let aside = if aside.is_empty() { String::new() } else { format!(" {aside} ") };
    let aside_room = Some(width(&aside) + 1).filter(|room| *room + 12 < area.width && !aside.is_empty()).unwrap_or(0);
    let Some(mut row) = Row::new(buffer, area, 0) else { return };
    row.reserve(aside_room + 1);
    row.put(line, rule).put(" ", theme.text());
    for (index, (text, style)) in parts.iter().enumerate() {
        let style = if index == 0 && active { theme.accent().add_modifier(Modifier::BOLD) } else { *style };
        if !row.words(text, style) {
            break;
        }
    }
    row.put(" ", theme.text());
    // The rule is drawn beside the text and not below it: text in the terminal's own colour would take the rule's.
    let left = (row.room() + aside_room + 1).min(area.width);
    let Some(mut row) = Row::new(buffer, Rect { x: area.right() - left, width: left, ..area }, 0) else { return };
    row.put(&line.repeat(usize::from(left - aside_room.min(left))), rule);
    if aside_room > 0 {
        row.put(&aside, theme.dim()).fill(line, rule);
    }
}

/// Draws where one is, where one pane fills the screen, and on the right what all sessions come to, as far as it fits.
pub(super) fn crumb(model: &Model, area: Rect, buffer: &mut Buffer) {
    let Some(mut row) = Row::new(buffer, area, 0) else { return };
    place(model, &mut row);
    let brief = list::brief(model, row.room().saturating_sub(3));
    if !brief.is_empty() {
        row.reserve(1);
        row.right(row.room(), &brief, model.theme.dim());
    }
}

fn place(model: &Model, row: &mut Row<'_>) {
    let theme = &model.theme;
    let here = theme.accent().add_modifier(Modifier::BOLD);
    if model.broadcast {
        row.put(&format!(" BROADCAST to {} ", model.others().count() + 1), theme.alarm());
    } else if model.focused {
        row.put(" TYPING ", theme.badge());
    }
    let at_list = model.pane == Pane::List;
    row.gap(1);
    let says_all = at_list || row.room() >= 30;
    if says_all {
        row.put("Sessions", if at_list { here } else { theme.dim() });
        let count = list::count(model);
        row.put(&format!(" {}", if count.is_empty() { "0" } else { &count }), theme.dim());
        row.put(&list::filter(model), theme.tone(Tone::Warn));
    }
    if at_list {
        return;
    }
    let stranger = model.stranger().map(|row| row.server.as_str());
    let session = model.current().map(|session| session.name.as_str());
    let name = session.or(stranger).unwrap_or("nothing selected");
    if row.room() >= 20 {
        row.put(&format!(" {WITHIN} "), theme.dim());
    } else if says_all {
        // Whatever stands before it does not run into the name.
        row.gap(1);
    }
    row.put(name, if model.pane == Pane::Screen { here } else { theme.dim() });
    if model.pane == Pane::Tree {
        row.put(&format!(" {WITHIN} "), theme.dim()).put("Processes", here);
    } else if let Some(history) = &model.history {
        row.put(&format!(" {WITHIN} {}", history::place(history)), theme.tone(Tone::Warn));
    } else if model.scroll > 0 {
        row.put(&format!(" {WITHIN} {} back", model.scroll), theme.tone(Tone::Warn));
    }
}

/// Draws the last thing that happened.
pub(super) fn event(model: &Model, area: Rect, buffer: &mut Buffer) {
    let theme = &model.theme;
    let Some(mut row) = Row::new(buffer, area, 0) else { return };
    let Some(line) = model.log.notable() else { return };
    row.gap(1).put(line.tone.glyph(), theme.tone(line.tone)).gap(1);
    if row.room() >= 40 {
        let at = human::since_start(line.at);
        row.left(width(&at) + 2, &at, theme.dim());
    }
    let style = if line.tone == Tone::Good { theme.text() } else { theme.tone(line.tone) };
    row.put(&line.text, style);
}

/// Tells whether a key would do something now.
#[expect(clippy::wildcard_enum_match_arm, reason = "the actions that are always of use")]
fn is_of_use(model: &Model, action: Action) -> bool {
    match action {
        Action::Why | Action::Copy if model.met.is_some() => true,
        // Nobody reads what is typed into a session that is over.
        Action::Focus if model.context() == Context::Panes => model.current().is_some_and(|row| !row.phase.is_over()),
        Action::Stop if model.context() == Context::Panes && model.marked.is_empty() => {
            model.current().is_some_and(|row| !ends_nobody(model, Act::Stop, row))
        }
        Action::Help => !matches!(model.overlays.last(), Some(Overlay::Help(_))),
        Action::Mark => model.met.is_none(),
        Action::Sweep => model.met.is_none() || !model.marked.is_empty(),
        Action::Focus | Action::Why | Action::Stop | Action::Restart | Action::Tree | Action::Zoom | Action::Copy => {
            model.selected.is_some() || !model.overlays.is_empty()
        }
        Action::Confirm => match model.overlays.last() {
            Some(Overlay::Preview(preview)) => preview.plan.is_some(),
            Some(Overlay::Many(many)) => many.is_planned(),
            Some(Overlay::Events(events)) => events.receipt(&model.log).is_some(),
            _ => true,
        },
        Action::Hold => {
            let is_open = match model.overlays.last() {
                Some(Overlay::Reader(reader)) => matches!(reader.reading, Reading::Live(_)),
                _ => true,
            };
            is_open && model.live.iter().any(Live::can_hold)
        }
        Action::Fix => model.current().is_some_and(|row| row.suggest.is_some()),
        Action::Right | Action::PageDown if model.context() == Context::Form => {
            matches!(model.overlays.last(), Some(Overlay::Form(form)) if !form.offers.list.is_empty())
        }
        Action::Reap | Action::Adopt => model.current().is_some_and(|row| model.sessions.is_orphan(&row.session)),
        Action::Choose => {
            matches!(model.overlays.last(), Some(Overlay::Preview(preview)) if !preview.choices().is_empty())
        }
        _ => true,
    }
}

/// Returns what a key does now, in a word.
fn label(model: &Model, binding: &Bound) -> &'static str {
    match model.overlays.last() {
        Some(Overlay::Form(form)) if binding.action == Action::Confirm => match (form.offers.chosen, form.at) {
            (Some(_), _) => "take",
            (None, Slot::Save) => "save",
            (None, Slot::Replace) => "replace",
            (None, _) => binding.label,
        },
        _ => binding.label,
    }
}

/// Draws the keys of the context. What does not fit is left out; the help and, in a terminal, the
/// chord stay.
pub(super) fn footer(model: &Model, area: Rect, buffer: &mut Buffer) {
    let theme = &model.theme;
    let Some(mut row) = Row::new(buffer, area, 0) else { return };
    let context = model.context();
    if context == Context::Terminal {
        let chord = name_of(model.escape);
        let name = model.current().map(|session| session.name.clone()).unwrap_or_default();
        let name = if model.broadcast { format!("{} sessions", model.others().count() + 1) } else { name };
        if model.broadcast {
            let badge = format!(" BROADCAST to {} ", model.others().count() + 1);
            row.put(&badge, theme.alarm()).gap(1);
        } else if row.room() >= 40 {
            row.gap(1).put(" TYPING ", theme.badge()).gap(2);
        } else if row.room() >= 10 {
            row.gap(1);
        }
        row.put(&chord, theme.accent()).put(" leaves", theme.dim());
        if row.room() >= 24 {
            row.gap(2).put("twice", theme.accent()).put(" sends it", theme.dim());
        }
        if row.room() > width(&name) + 24 {
            row.put(&format!("   every other key goes to {name}"), theme.dim());
        }
        return;
    }
    let mut hints: Vec<(String, &str)> = Vec::new();
    // Of a session that is over, why and what would help come first: its title has no room for them.
    let is_urgent =
        |action| context == Context::Panes && model.cause().is_some() && matches!(action, Action::Why | Action::Fix);
    let mut bindings: Vec<_> = model.keys.in_context(context).filter(|binding| !binding.label.is_empty()).collect();
    bindings.sort_by_key(|binding| !is_urgent(binding.action));
    for binding in bindings {
        if let Some(key) = binding.keys.first().filter(|_| is_of_use(model, binding.action)) {
            hints.push((key.to_string(), label(model, binding)));
        }
    }
    // The keys that lead out and to the help are never crowded out: they are measured first.
    let room = row.room().saturating_sub(1);
    let size = |(key, label): &(String, &str)| width(key) + 1 + width(label) + 2;
    let must = |hint: &(String, &str)| {
        matches!(hint.1, "quit" | "cancel" | "close" | "do it") || (hint.1 == "help" && context == Context::Panes)
    };
    let mut left = room.saturating_sub(hints.iter().filter(|hint| must(hint)).map(&size).sum());
    let mut shown: Vec<&(String, &str)> = Vec::new();
    let mut crowded = false;
    for hint in &hints {
        if must(hint) {
            shown.push(hint);
        } else if !crowded && size(hint) <= left {
            left -= size(hint);
            shown.push(hint);
        } else {
            crowded = true;
        }
    }
    row.gap(1);
    for (key, label) in shown {
        if row.room() < width(key) {
            break;
        }
        row.put(key, theme.accent()).gap(1).put(label, theme.dim()).gap(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where there is no room for the sign between them, a blank is.
    #[test]
    fn the_filter_and_the_name_stand_apart() {
        let mut bench = super::super::super::fixtures::Bench::full(44, 12);
        bench.press("/qwen-coder-32b<Enter><Tab>");
        for columns in 31..=44 {
            let area = Rect::new(0, 0, columns, 1);
            let mut buffer = Buffer::empty(area);
            crumb(&bench.model, area, &mut buffer);
            let text = super::super::tests::text_of(&buffer);
            let name = text.split("/qwen-coder-32b").nth(1).unwrap_or_default();
            assert!(name.is_empty() || name.starts_with(' '), "{columns}: {text}");
        }
    }

    /// Who wants somebody is told first, and nothing of it where it does not fit.
    #[test]
    fn what_all_sessions_come_to_is_told_as_far_as_it_fits() {
        let bench = super::super::super::fixtures::Bench::full(60, 15);
        for (columns, expected) in [
            (60, " Sessions 8                1 wants you · 438% 23G · 22G GPU"),
            (40, " Sessions 8      1 wants you · 438% 23G"),
            (30, " Sessions 8       1 wants you"),
            (20, " Sessions 8"),
        ] {
            let area = Rect::new(0, 0, columns, 1);
            let mut buffer = Buffer::empty(area);
            crumb(&bench.model, area, &mut buffer);
            let text = super::super::tests::text_of(&buffer);
            assert_eq!(text.trim_end(), expected, "{columns}");
        }
    }

    /// Text in the terminal's own colour is none of the rule's, in whatever theme.
    #[test]
    fn the_name_in_a_title_has_the_colour_of_text() {
        let theme = Theme::DARK;
        let area = Rect::new(0, 0, 30, 1);
        for active in [false, true] {
            let mut buffer = Buffer::empty(area);
            title(&theme, area, active, &[("one", theme.text()), ("two", theme.text())], "aside", &mut buffer);
            let fg = |x: u16| buffer.cell((x, 0)).map(|cell| cell.fg);
            assert_eq!(fg(5), Buffer::empty(area).cell((5, 0)).map(|cell| cell.fg), "{active}: {buffer:?}");
            assert_eq!(fg(0), theme.rule(active).fg);
            let line = if active { glyph::HEAVY } else { glyph::LIGHT };
            let expected = format!("{line} onetwo {} aside {line}", line.repeat(13));
            assert_eq!(super::super::tests::text_of(&buffer), expected);
        }
    }
}
