//! Answers and previews as sentences, a line each. Pure; foreign text is escaped.

use crate::app::command::Answer;
use crate::app::contract::{SessionRow, Tree};
use crate::app::report;
use crate::lifecycle::receipt::Receipt;
use crate::lifecycle::verdict::VerdictKind;
use crate::text::escape;

/// Returns an answer.
pub(super) fn answer(answer: &Answer) -> String {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are lines already")]
    match answer {
        Answer::List(rows, _, _, notes) => {
            let none = rows.is_empty().then(|| "No sessions.".to_owned());
            let notes = notes.iter().map(|note| format!("{}.", escape(note)));
            none.into_iter().chain(rows.iter().map(session)).chain(notes).collect::<Vec<_>>().join("\n")
        }
        Answer::Tree(tree) => self::tree(tree),
        Answer::Done | Answer::Noted(_) => "Done.".to_owned(),
        other => match report::text(other).trim_end() {
            "" => "Nothing to show.".to_owned(),
            text => text.to_owned(),
        },
    }
}

/// Returns a session: who it is, how far it has come, what it uses, what it wants.
pub(super) fn session(row: &SessionRow) -> String {
    let (name, detail) = (escape(&row.name), row.detail.as_deref().map(|detail| format!(", {}", escape(detail))));
    let mut text = format!("{name}, {}: {} in {}, {}", row.session, row.kind.name(), row.host.name(), row.phase.name());
    text.push_str(&detail.unwrap_or_default());
    if row.verdict != VerdictKind::Owned && !row.phase.is_over() {
        text.push_str(", ");
        text.push_str(row.verdict.name());
    }
    let mut say = |what: Option<String>| {
        if let Some(what) = what {
            text.push_str(", ");
            text.push_str(&what);
        }
    };
    say(row.uptime_s.map(|seconds| format!("up {}", report::age(seconds))));
    say(row.cpu_pct.map(|percent| format!("{percent:.0} percent of a core")));
    say(row.rss_bytes.map(|size| format!("{} of memory", report::bytes(size))));
    let ports = row.ports.iter().flatten().map(u16::to_string).collect::<Vec<_>>().join(" and ");
    say((!ports.is_empty()).then(|| format!("port {ports}")));
    say(row.owner.as_ref().map(|owner| format!("owned by {}", escape(owner))));
    say(row.attention.as_ref().map(|asks| format!("wants you: {}", escape(&asks.reason()))));
    text + "."
}

fn tree(tree: &Tree) -> String {
    let mut lines = Vec::new();
    for row in &tree.processes {
        let how: Vec<&str> = row.membership.iter().map(|how| report::membership(*how)).collect();
        let mut line =
            format!("Process {}, child of {}: {}; {}", row.pid, row.ppid, escape(&row.command), row.verdict.name());
        if !how.is_empty() {
            line = format!("{line}, member by {}", how.join(" and "));
        }
        for (word, why) in [("protected", &row.protected), ("kept", &row.kept)] {
            if let Some(why) = why {
                line = format!("{line}, {word}: {}", escape(why));
            }
        }
        lines.push(line + ".");
    }
    for (word, rows) in [("Escaped, only reported", &tree.escapees), ("Looks alike, none of ours", &tree.lookalikes)] {
        lines.extend(rows.iter().map(|row| format!("{word}: process {}, {}.", row.pid, escape(&row.command))));
    }
    if lines.is_empty() { "No processes.".to_owned() } else { lines.join("\n") }
}

/// Returns what plans would do, to whom and why.
pub(super) fn preview(what: &str, plans: &[&Receipt]) -> String {
    let rows = || plans.iter().filter_map(|receipt| receipt.plan.as_ref()).flatten();
    let count = rows().filter(|row| row.signal.is_some()).count();
    let processes = if count == 1 { "process" } else { "processes" };
    let mut lines = vec![format!("{what} would signal {count} {processes}; nothing was signalled yet.")];
    for row in rows() {
        let does = row.signal.as_ref().map_or("Nothing".to_owned(), |signal| escape(signal).into_owned());
        let (command, why) = (escape(&row.command), escape(&row.reason));
        lines.push(format!("{does} to {}, {command}: {}, {why}.", row.pid, row.verdict.name()));
    }
    for receipt in plans {
        for row in &receipt.escapees {
            lines.push(format!("Escaped, only reported: process {}, {}.", row.pid, escape(&row.command)));
        }
        for row in &receipt.lookalikes {
            lines.push(format!("Looks alike, not signalled: process {}, {}.", row.pid, escape(&row.command)));
        }
        lines.extend(receipt.notes.iter().map(|note| format!("Note: {}.", escape(note))));
    }
    lines.push("Type yes to do it; anything else leaves everything as it is.".to_owned());
    lines.join("\n")
}
