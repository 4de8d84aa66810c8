//! Why a process is what it is: the evidence behind its row, and what a stop would do with it.

use ratatui::text::Line;

use super::super::glyph::DOT;
use super::super::model::Model;
use super::super::theme::{Tone, verdict_glyph, verdict_tone};
use super::doc::{Doc, span, wrap};
use super::human::{self, UNKNOWN};
use super::tree::membership;
use crate::app::why::{Role, Why};
use crate::text::escape;

/// Columns for the names of the facts.
const NAMES: usize = 13;

pub(super) fn lines(model: &Model, why: &Why, width: u16) -> Vec<Line<'static>> {
    let theme = &model.theme;
    let mut doc = Doc::new(theme, width);
    let (glyph, word, tone) = match why.verdict {
        Some(verdict) => (verdict_glyph(verdict), verdict.name(), verdict_tone(verdict)),
        None => (DOT, "only reported", Tone::Warn),
    };
    doc.line(vec![
        span(&format!("{glyph} {word}"), theme.tone(tone)),
        span(&format!("  {}", role(why.role)), theme.dim()),
    ]);
    doc.text(0, &why.command, theme.strong());
    doc.heading("What decided", None, Tone::Plain);
    fact(&mut doc, "rule", &why.reason);
    fact(&mut doc, "on a stop", &why.on_stop);
    let ways = membership(&why.membership, ", ");
    fact(&mut doc, "member by", if ways.is_empty() { UNKNOWN } else { &ways });
    for (name, value) in [("protected", &why.protected), ("kept", &why.kept)] {
        if let Some(value) = value {
            fact(&mut doc, name, value);
        }
    }
    doc.heading("Who it is", None, Tone::Plain);
    let or_unknown = |value: Option<String>| value.unwrap_or_else(|| UNKNOWN.to_owned());
    fact(&mut doc, "start token", &or_unknown(why.start_token.as_ref().map(ToString::to_string)));
    fact(&mut doc, "pidfd inode", &or_unknown(why.pidfd_inode.map(|inode| inode.to_string())));
    let number = |value: Option<i32>| or_unknown(value.map(|value| value.to_string()));
    let state = why.state.as_deref().unwrap_or(UNKNOWN);
    let ids = format!(
        "pid {} {DOT} group {} {DOT} session {} {DOT} state {state}",
        why.pid,
        number(why.pgid),
        number(why.sid)
    );
    fact(&mut doc, "ids", &ids);
    let used = format!(
        "age {} {DOT} cpu {} {DOT} memory {} {DOT} gpu {}",
        human::age(why.age_s),
        human::percent(why.cpu_pct),
        human::bytes(why.rss_bytes),
        human::bytes(why.gpu_bytes)
    );
    fact(&mut doc, "uses", &used);
    fact(&mut doc, "cgroup", why.cgroup.as_deref().unwrap_or(UNKNOWN));
    let ports = why.ports.as_ref().map(|ports| ports.iter().map(|port| format!(":{port}")).collect::<Vec<_>>());
    let ports = ports.map(|ports| if ports.is_empty() { "nothing".to_owned() } else { ports.join(" ") });
    fact(&mut doc, "listens on", &or_unknown(ports));
    if !why.parents.is_empty() {
        doc.heading("Its parents, the nearest first", None, Tone::Plain);
    }
    for parent in &why.parents {
        let what = parent.role.map(|part| format!("  ({})", role(part))).unwrap_or_default();
        fact(&mut doc, &parent.pid.to_string(), &format!("{}{what}", parent.command));
    }
    doc.into_lines()
}

const fn role(role: Role) -> &'static str {
    match role {
        Role::Member => "member",
        Role::Supervisor => "our own",
        Role::Escapee => "left the tree",
        Role::Lookalike => "looks alike",
    }
}

/// Adds a name with its value beside it, wrapped, or, where that is too narrow, below it.
pub(super) fn fact(doc: &mut Doc<'_>, name: &str, value: &str) {
    let (dim, text) = (doc.theme.dim(), doc.theme.text());
    if doc.width() < NAMES + 20 {
        doc.text(0, name, dim);
        return doc.text(2, value, text);
    }
    let mut name = format!(" {name:<NAMES$}");
    for part in wrap(&escape(value), doc.width() - NAMES - 1) {
        doc.line(vec![span(&name, dim), span(&part, text)]);
        name = " ".repeat(NAMES + 1);
    }
}
