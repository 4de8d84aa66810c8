//! A stop that is under way: how far each process has come, and how long until KILL.

use ratatui::text::Line;

use super::super::model::{Act, Live, Model, Stage};
use super::super::theme::Tone;
use super::doc::{Doc, Entry, span};

pub(super) fn lines(model: &Model, live: &Live, width: u16) -> Vec<Line<'static>> {
    let theme = &model.theme;
    let mut doc = Doc::new(theme, width);
    let (ended, all) = (live.ended(), live.targets.len());
    let head = format!("{ended} of {all} gone");
    let next = match (live.act, live.left_s) {
        (Act::Force, _) => "KILL is sent at once".to_owned(),
        (_, Some(0)) => "the grace is over: KILL".to_owned(),
        (_, Some(left)) if ended < all => format!("KILL in {left} s"),
        _ => String::new(),
    };
    doc.line(vec![span(&head, theme.strong()), span(&format!("   {next}"), theme.tone(Tone::Warn))]);
    doc.blank();
    for target in &live.targets {
        let (what, tone) = match &target.stage {
            Stage::Captured => ("captured".to_owned(), Tone::Dim),
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
