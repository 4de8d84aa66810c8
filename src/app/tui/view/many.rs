//! The preview of an act on all sessions that are marked.

use ratatui::text::Line;
use std::fmt::Write as _;

use super::super::glyph::{DOT, MORE};
use super::super::model::{Act, Item, Many, ManyAct, Model};
use super::super::theme::Tone;
use super::doc::{Doc, span};
use super::human;
use super::preview::plan_lines;

pub(super) fn lines(model: &Model, many: &Many, width: u16) -> Vec<Line<'static>> {
    let theme = &model.theme;
    let mut doc = Doc::new(theme, width);
    if model.size.1 >= 10 {
        let what = match many.act {
            ManyAct::Act(Act::Stop) => "ends what is listed, politely at first, with KILL after the grace",
            ManyAct::Act(Act::Force) => "ends what is listed with KILL at once",
            ManyAct::Act(Act::Sweep | Act::Reap) => "ends what earlier stops left behind",
            ManyAct::Act(Act::Restart | Act::Replace) => "ends what is listed, then starts each session again",
            ManyAct::Dismiss => "forgets those that are over; their logs stay",
        };
        doc.text(0, what, theme.dim());
    }
    doc.text(0, &summary(many), theme.text());
    for item in &many.items {
        doc.blank();
        doc.line(vec![span(&item.name, theme.strong()), span(&format!("  {}", about(model, item)), theme.dim())]);
        match (&many.act, &item.plan) {
            (ManyAct::Dismiss, Some(Err(why))) => doc.text(2, why, theme.tone(Tone::Warn)),
            (ManyAct::Dismiss, _) => doc.text(2, "is forgotten", theme.text()),
            (ManyAct::Act(_), None) => doc.text(2, &format!("looking at the processes {MORE}"), theme.dim()),
            (ManyAct::Act(_), Some(Err(why))) => {
                doc.text(2, &format!("left as it is: {why}"), theme.tone(Tone::Bad));
            }
            (ManyAct::Act(_), Some(Ok(plan))) => {
                plan_lines(&mut doc, plan, None);
                for note in &plan.notes {
                    doc.text(2, note, theme.dim());
                }
            }
        }
    }
    doc.into_lines()
}

fn about(model: &Model, item: &Item) -> String {
    let place =
        model.sessions.by_id(&item.session).map(|row| format!(" {DOT} {} {DOT} {}", row.kind.name(), row.host.name()));
    format!("{}{}", item.session, place.unwrap_or_default())
}

/// Says in one line what follows, as it may not all be in view.
fn summary(many: &Many) -> String {
    let mut text = human::count(many.items.len(), "session", "sessions");
    if many.act == ManyAct::Dismiss {
        return text;
    }
    if !many.is_planned() {
        let _ignored = write!(text, " {DOT} looking at the processes {MORE}");
        return text;
    }
    let plans = || many.items.iter().filter_map(|item| item.plan.as_ref()?.as_ref().ok());
    let targets = plans().flat_map(|plan| plan.plan.iter().flatten()).filter(|row| row.signal.is_some()).count();
    let _ignored = write!(text, " {DOT} {} to signal", human::count(targets, "process", "processes"));
    for (count, word) in [
        (plans().map(|plan| plan.refused.len()).sum::<usize>(), "must not be signalled"),
        (plans().map(|plan| plan.unverified.len()).sum(), "cannot be verified"),
        (plans().map(|plan| plan.kept.len()).sum(), "kept"),
        (many.items.len() - plans().count(), "left as they are"),
    ] {
        if count > 0 {
            let _ignored = write!(text, " {DOT} {count} {word}");
        }
    }
    text
}
