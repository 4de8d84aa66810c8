//! The launch form: a line for each part of a launch, what is offered below the line that has the keys, and what is
//! wrong below the line that it is about.

use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use super::super::glyph;
use super::super::model::{Field, Form, Model, Slot};
use super::super::theme::Tone;
use super::ask::{typed, visible};
use super::doc::{Doc, span};
use super::paint::marker;
use crate::app::contract::{HostKind, Kind};
use crate::text::{escape, is_secret, shorten};

/// Columns for the labels.
const LABELS: usize = 10;
/// How many offers are shown at most.
const OFFERS: usize = 6;

pub(super) fn title(form: &Form) -> String {
    match &form.origin {
        Some(origin) => format!("Edit and launch again: {}", origin.name),
        None => "Launch".to_owned(),
    }
}

/// Returns how many rows the line that has the keys takes with what belongs to it.
pub(super) fn rows(form: &Form, height: usize) -> usize {
    let notes = usize::from(form.offers.note.is_some());
    let fault = form.fault.as_ref().filter(|fault| fault.slot == form.at || form.at == Slot::Replace).map_or(0, |_| 4);
    (1 + shown(form, height).1 + notes + fault).min(height.max(1))
}

/// Returns which offers are shown, by the place of the first one, and how many.
fn shown(form: &Form, height: usize) -> (usize, usize) {
    let room = if height >= 16 { OFFERS } else { 3 };
    let count = form.offers.list.len().min(room);
    let first = form.offers.chosen.map_or(0, |at| (at + 1).saturating_sub(count));
    (first, count)
}

/// The text of the form, and which of its lines has the keys.
pub(super) fn lines(model: &Model, form: &Form, width: u16) -> (Vec<Line<'static>>, Option<usize>) {
    let theme = &model.theme;
    let mut doc = Doc::new(theme, width);
    let mut selected = None;
    for note in &form.notes {
        doc.text(0, note, theme.tone(Tone::Warn));
    }
    if !form.notes.is_empty() {
        doc.blank();
    }
    for slot in form.slots() {
        if slot == Slot::Launch {
            recipe_has(&mut doc, form);
            doc.blank();
        }
        let has_keys = slot == form.at;
        if has_keys {
            selected = Some(doc.height());
        }
        match slot {
            Slot::Launch | Slot::Save | Slot::Replace => button(&mut doc, model, form, slot),
            Slot::Recipe
            | Slot::Command
            | Slot::Name
            | Slot::Kind
            | Slot::Host
            | Slot::Cwd
            | Slot::Gpus
            | Slot::Venv
            | Slot::Env(_) => value(&mut doc, form, slot),
        }
        if has_keys {
            offers(&mut doc, form, usize::from(model.size.1.saturating_sub(4)));
        }
        // On a small screen the line that it is about may be out of sight.
        let beside = slot == Slot::Replace && has_keys && model.size.1 < 24;
        if let Some(fault) = form.fault.as_ref().filter(|fault| fault.slot == slot || beside) {
            let indent = if doc.width() >= 40 { LABELS + 2 } else { 2 };
            doc.text(indent, &fault.text, theme.tone(Tone::Bad));
        }
    }
    (doc.into_lines(), selected)
}

fn value(doc: &mut Doc<'_>, form: &Form, slot: Slot) {
    let theme = doc.theme;
    let has_keys = slot == form.at;
    let label = if doc.width() >= 30 {
        format!("{:<LABELS$}", slot.label())
    } else {
        format!("{:<5}", shorten(slot.label(), 4))
    };
    let room = doc.width().saturating_sub(label.len() + 3);
    let mut spans = vec![
        Span::styled(marker(glyph::BAR, has_keys), theme.accent()),
        span(&label, if has_keys { theme.strong() } else { theme.dim() }),
    ];
    let text = form.field(slot).map(Field::split);
    match (slot, text) {
        (Slot::Kind, _) => spans.extend(choice(doc, form.kind().name(), has_keys)),
        (Slot::Host, _) => spans.extend(choice(doc, &host(form), has_keys)),
        (Slot::Env(_), Some((before, after))) => {
            let (before, after) = masked(before, after);
            spans.extend(line(doc, form, slot, (&before, &after), room));
        }
        (_, Some(text)) => spans.extend(line(doc, form, slot, text, room)),
        (_, None) => {}
    }
    doc.line(spans);
}

fn line(doc: &Doc<'_>, form: &Form, slot: Slot, (before, after): (&str, &str), room: usize) -> Vec<Span<'static>> {
    let theme = doc.theme;
    let text = format!("{before}{after}");
    if slot == form.at {
        let mut spans = typed((before, after), room);
        if text.is_empty() {
            spans.push(Span::styled(shorten(&hint(form, slot), room.saturating_sub(2)), theme.dim()));
        }
        return spans;
    }
    if text.is_empty() {
        return vec![Span::styled(shorten(&hint(form, slot), room), theme.dim())];
    }
    vec![Span::styled(shorten(&visible(&text), room), theme.text())]
}

/// Returns what holds where a line is empty.
fn hint(form: &Form, slot: Slot) -> String {
    match slot {
        Slot::Recipe | Slot::Venv => "none".to_owned(),
        Slot::Command => "a program and its arguments".to_owned(),
        Slot::Name => form.session_name().map_or_else(|| "by the command".to_owned(), |name| escape(name).into_owned()),
        Slot::Cwd => "where cookbook-tui was started".to_owned(),
        Slot::Gpus => "all, for example 0,1".to_owned(),
        Slot::Env(0) => "NAME=VALUE".to_owned(),
        Slot::Env(_) | Slot::Kind | Slot::Host | Slot::Launch | Slot::Save | Slot::Replace => String::new(),
    }
}

fn host(form: &Form) -> String {
    let usual = form.base.as_ref().map_or(
        match form.kind() {
            Kind::Shell => HostKind::Pty,
            Kind::Serve | Kind::Agent | Kind::Download => HostKind::Tmux,
        },
        |base| base.host,
    );
    form.host.map_or_else(|| format!("{} as usual", usual.name()), |host| host.name().to_owned())
}

fn choice(doc: &Doc<'_>, text: &str, has_keys: bool) -> Vec<Span<'static>> {
    let theme = doc.theme;
    let mark = |mark: &'static str| Span::styled(if has_keys { mark } else { "" }, theme.accent());
    vec![mark("< "), span(text, theme.text()), mark(" >")]
}

/// Returns a variable with its value masked where that looks like a secret, character by character, so that the cursor
/// stays where it is.
fn masked(before: &str, after: &str) -> (String, String) {
    let text = format!("{before}{after}");
    let Some((name, value)) = text.split_once('=').filter(|(name, value)| is_secret(name.trim(), value)) else {
        return (before.to_owned(), after.to_owned());
    };
    let hidden = |c: char| if c == '\n' { c } else { '*' };
    let open = name.len() + 1;
    let hide = |part: &str, at: usize| -> String {
        part.char_indices().map(|(index, c)| if at + index >= open { hidden(c) } else { c }).collect()
    };
    debug_assert!(text.ends_with(value));
    (hide(before, 0), hide(after, before.len()))
}

/// Says what else the recipe has.
fn recipe_has(doc: &mut Doc<'_>, form: &Form) {
    let Some(base) = &form.base else { return };
    let env: Vec<String> = base.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let exclusive: Vec<String> = base.exclusive.iter().cloned().collect();
    for (label, values) in [("sets", env), ("needs", base.needs.clone()), ("exclusive", exclusive)] {
        if !values.is_empty() {
            let text = format!("  {label:<LABELS$}{}", values.join(" "));
            let text = shorten(&escape(&text), doc.width());
            doc.line(vec![Span::styled(text, doc.theme.dim())]);
        }
    }
    if let Some(reason) = base.reason.as_ref().filter(|_| !base.available) {
        doc.text(2, reason, doc.theme.tone(Tone::Warn));
    }
}

fn offers(doc: &mut Doc<'_>, form: &Form, height: usize) {
    let theme = doc.theme;
    let (first, count) = shown(form, height);
    let indent = if doc.width() >= 40 { LABELS + 2 } else { 2 };
    let room = doc.width().saturating_sub(indent + 2);
    for (index, offer) in form.offers.list.iter().enumerate().skip(first).take(count) {
        let chosen = form.offers.chosen == Some(index);
        let shown = shorten(&escape(&offer.shown), room);
        let aside = if offer.aside.is_empty() { String::new() } else { format!("  {}", offer.aside) };
        let aside = shorten(&escape(&aside), room.saturating_sub(shown.width()));
        let bold = if chosen { Modifier::BOLD } else { Modifier::empty() };
        doc.line(vec![
            Span::raw(" ".repeat(indent)),
            Span::styled(marker(glyph::WITHIN, chosen), theme.accent()),
            Span::styled(shown, theme.text().add_modifier(bold)),
            Span::styled(aside, theme.dim()),
        ]);
    }
    if let Some(note) = &form.offers.note {
        doc.text(indent + 2, note, theme.dim());
    }
}

fn button(doc: &mut Doc<'_>, model: &Model, form: &Form, slot: Slot) {
    let theme = doc.theme;
    let name = |session: &str| model.sessions.by_id(session).map_or_else(|| session.to_owned(), |row| row.name.clone());
    let runs = |session: &str| model.sessions.by_id(session).is_some_and(|row| !row.phase.is_over());
    let text = match slot {
        _ if form.busy.is_some() && slot == Slot::Launch => format!("Launching {}", glyph::MORE),
        Slot::Replace => {
            format!("Replace {}: stop it first, after a preview", form.holder().map(name).unwrap_or_default())
        }
        Slot::Save if form.overwrite => "Replace the recipe of that name".to_owned(),
        Slot::Save => "Save as recipe".to_owned(),
        Slot::Launch
        | Slot::Recipe
        | Slot::Command
        | Slot::Name
        | Slot::Kind
        | Slot::Host
        | Slot::Cwd
        | Slot::Gpus
        | Slot::Venv
        | Slot::Env(_) => match form.origin.as_ref().filter(|origin| runs(&origin.session)) {
            Some(origin) => format!("Launch in the place of {}: stop it first, after a preview", origin.name),
            None if form.second => "Launch another one".to_owned(),
            None => "Launch".to_owned(),
        },
    };
    let has_keys = slot == form.at;
    let style = if has_keys { theme.strong() } else { theme.text() };
    let text = shorten(&escape(&format!("[ {text} ]")), doc.width().saturating_sub(2));
    doc.line(vec![Span::styled(marker(glyph::BAR, has_keys), theme.accent()), Span::styled(text, style)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown_and_the_cursor_stays() {
        for (before, after, expected) in [
            ("HF_TOKEN=abc", "de", ("HF_TOKEN=***", "**")),
            ("HF_TO", "KEN=abc", ("HF_TO", "KEN=***")),
            ("X=hf_abcdefgh", "", ("X=***********", "")),
            ("A=plain", " text", ("A=plain", " text")),
            ("HF_TOKEN", "", ("HF_TOKEN", "")),
            ("MY_KEY=", "äö", ("MY_KEY=", "**")),
        ] {
            let found = masked(before, after);
            assert_eq!((found.0.as_str(), found.1.as_str()), expected, "{before} {after}");
        }
    }
}
