//! A stop that is under way: how far each process has come, and how long until KILL.

use std::time::Duration;

use ratatui::text::Line;

use super::super::keymap::{Action, Context};
use super::super::model::{Act, Live, Model, Stage};
use super::super::theme::Tone;
use super::doc::{Doc, Entry, span};
use super::human;

pub(super) fn lines(model: &Model, live: &Live, width: u16) -> Vec<Line<'static>> {
    let theme = &model.theme;
    let mut doc = Doc::new(theme, width);
    let (ended, all) = (live.ended(), live.targets.len());
    let head = format!("{ended} of {all} gone");
    let (it, lets) = if model.live.len() > 1 { ("all", "lets all go on") } else { ("it", "lets it go on") };
    let key = model.keys.shown(Context::Reader, Action::Hold);
    let next = match (live.act, live.left_s) {
        (Act::Force, _) => "KILL is sent at once".to_owned(),
        _ if live.killed => "KILL was sent".to_owned(),
        _ if let Some(held) = live.held_s => {
            format!(
                "held before KILL, for {} at the longest   {key} {lets}",
                human::since_start(Duration::from_secs(held))
            )
        }
        (_, Some(0)) => "the grace is over: KILL".to_owned(),
        (_, Some(left)) if ended < all => format!("KILL in {left} s   {key} holds {it}"),
        _ => String::new(),
    };
    if doc.width() < 60 {
        doc.line(vec![span(&head, theme.strong())]);
        doc.text(0, &next, theme.tone(Tone::Warn));
    } else {
        doc.line(vec![span(&head, theme.strong()), span(&format!("   {next}"), theme.tone(Tone::Warn))]);
    }
    doc.blank();
    for target in &live.targets {
        let (what, tone) = match &target.stage {
            Stage::Planned => ("no signal yet".to_owned(), Tone::Dim),
            Stage::Signalled(sent) => (format!("signalled {}", sent.join(" ")), Tone::Warn),
            Stage::Gone => ("gone".to_owned(), Tone::Good),
        };
        doc.entry(&Entry {
            pid: target.pid,
            verdict: None,
            what: &format!("{} {what:<20}", tone.glyph()),
            tone,
            command: &target.command,
            reason: "",
        });
    }
    doc.into_lines()
}
