//! Answers for people on standard output. Pure: text from data, with everything foreign escaped.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::command::{Answer, Check, CheckState, Held, Launched, Orphans, Waited};
use super::contract::{CommandLine, OtherServer, SessionRow, Tree};
use super::draft::TmuxRow;
use super::why::Why;
use crate::lifecycle::clock;
use crate::lifecycle::journal::{By, Entries};
use crate::lifecycle::receipt::{Bystander, Membership, OutcomeKind, PlanRow, ProcessRow, Receipt};
use crate::lifecycle::store::Quarantined;
use crate::text::{escape, escape_json};

/// Returns an answer as text that ends with a newline, or is empty.
pub(super) fn text(answer: &Answer) -> String {
    match answer {
        Answer::Hello(value) => format!("{value}\n"),
        Answer::Launched(launched) => self::launched(launched),
        Answer::Waited(waited) => self::waited(waited),
        Answer::List(rows, quarantined, others, notes) => {
            let others = self::others(others.as_deref().unwrap_or_default());
            list(rows) + &left_alone(quarantined) + &others + &lines(notes)
        }
        Answer::Tree(tree) => self::tree(tree),
        Answer::Why(why) => self::why(why),
        Answer::Screen(screen) => lines(&screen.lines),
        Answer::Logs(text) => lines(text),
        Answer::Journal(entries) => journal(entries, clock::wall()),
        Answer::Receipt(receipt) => self::receipt(receipt),
        Answer::Restarted { receipt, launched } => format!("{}{}", self::receipt(receipt), self::launched(launched)),
        Answer::Orphans(orphans) => self::orphans(orphans),
        Answer::Held(Held { left_s: Some(left), .. }) => {
            format!("held before KILL, for {} at the longest\n", age(*left))
        }
        Answer::Held(_) => "it goes on\n".to_owned(),
        Answer::Extended(not_after) => {
            format!("it may live for another {}\n", age(not_after - clock::wall() + 1.0))
        }
        Answer::Doctor(checks) => doctor(checks),
        Answer::Recipes(rows) => {
            let cells = rows.iter().map(|row| {
                let state = row.reason.clone().unwrap_or_else(|| row.source.clone());
                vec![row.name.clone(), row.kind.name().into(), row.host.name().into(), state, row.command.clone()]
            });
            table(&["NAME", "KIND", "HOST", "FROM", "COMMAND"], cells.collect())
        }
        Answer::TmuxSessions(rows, notes) => tmux_sessions(rows, notes),
        Answer::Draft(_) => format!("{}\n", escape_json(&format!("{:#}", answer.to_value()))),
        Answer::Saved(saved) => {
            let mut text = format!("recipe {} is written to {}\n", escape(&saved.name), escape(&saved.path));
            for note in &saved.notes {
                writeln!(text, "  {}", escape(note)).ok();
            }
            text
        }
        Answer::Noted(_) | Answer::Done => String::new(),
    }
}

fn lines(lines: &[String]) -> String {
    let end = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    lines[..end].iter().fold(String::new(), |mut text, line| {
        text.push_str(&escape(line));
        text.push('\n');
        text
    })
}

fn left_alone(quarantined: &[Quarantined]) -> String {
    quarantined.iter().fold(String::new(), |mut text, left| {
        let path = left.path.display().to_string();
        writeln!(text, "left alone: {}: {}", escape(&path), escape(&left.reason)).ok();
        text
    })
}

fn journal(entries: &Entries, now: f64) -> String {
    let rows = entries.receipts.iter().map(|entry| {
        #[expect(clippy::cast_precision_loss, reason = "seconds since 1970")]
        let ago = age(now - entry.at as f64);
        let receipt = &entry.receipt;
        let is_dead = |kind| matches!(kind, OutcomeKind::Exited | OutcomeKind::AlreadyGone);
        let exited = receipt.outcomes.iter().filter(|row| is_dead(row.outcome)).count();
        let by = match entry.by {
            By::Manager => "manager",
            By::Warden => "warden",
        };
        let counts = format!("{exited} dead, {} signals", receipt.signals.len());
        vec![
            format!("{ago} ago"),
            receipt.session.clone(),
            entry.act.name().to_owned(),
            by.to_owned(),
            counts,
            receipt.end(),
        ]
    });
    let mut text = table(&["WHEN", "SESSION", "ACT", "BY", "COUNTS", "END"], rows.collect());
    let totals = &entries.totals;
    writeln!(
        text,
        "{} receipts, {} with nothing left; {} processes dead, {} survived, {} unverified, {} refused, {} kept; {} signals",
        totals.receipts,
        totals.dead,
        totals.exited,
        totals.survivors,
        totals.unverified,
        totals.refused,
        totals.kept,
        totals.signals
    )
    .ok();
    if entries.skipped > 0 {
        writeln!(text, "{} lines could not be read and were skipped", entries.skipped).ok();
    }
    text
}

fn tmux_sessions(rows: &[TmuxRow], notes: &[String]) -> String {
    let mut text = String::new();
    for row in rows {
        let state = match (&row.adopted, row.holds_us) {
            (_, true) => "holds this cookbook-tui".to_owned(),
            (Some(session), false) => format!("adopted: {session}"),
            (None, false) => String::new(),
        };
        let line = format!("{:<6} {}  {}  {state}", row.session_id, escape(&row.name), escape(&row.socket));
        writeln!(text, "{}", line.trim_end()).ok();
    }
    if rows.is_empty() {
        text.push_str("no tmux session of others\n");
    }
    for note in notes {
        writeln!(text, "{}", escape(note)).ok();
    }
    text
}

fn launched(launched: &Launched) -> String {
    let mut text = format!("{} runs in {} as process {}\n", launched.session, launched.host.name(), launched.pid);
    for note in &launched.notes {
        writeln!(text, "note: {}", escape(note)).ok();
    }
    text
}

fn waited(waited: &Waited) -> String {
    let mut text = waited.phase.name().to_owned();
    if let Some(code) = waited.exit_code {
        write!(text, ", exit status {code}").ok();
    }
    if let Some(signal) = &waited.signal {
        write!(text, ", ended by {signal}").ok();
    }
    if let Some(found) = &waited.matched {
        write!(text, ": {}", escape(found)).ok();
    }
    text + "\n"
}

fn list(rows: &[SessionRow]) -> String {
    if rows.is_empty() {
        return "no sessions; `cookbook-tui launch -- COMMAND` starts one\n".into();
    }
    let cells = rows.iter().map(|row| {
        let host = row.host.name();
        let ports = row.ports.as_ref().filter(|ports| !ports.is_empty());
        let ports = ports.map(|ports| ports.iter().map(u16::to_string).collect::<Vec<_>>().join(","));
        vec![
            row.session.clone(),
            row.name.clone(),
            if row.machine == "local" { host.into() } else { format!("{host} on {}", row.machine) },
            state(row),
            row.verdict.name().into(),
            row.uptime_s.map_or_else(|| "-".into(), age),
            row.cpu_pct.map_or_else(|| "-".into(), |pct| format!("{pct:.0}%")),
            row.rss_bytes.map_or_else(|| "-".into(), bytes),
            ports.unwrap_or_else(|| "-".into()),
            row.command.clone(),
        ]
    });
    let mut text = table(
        &["SESSION", "NAME", "HOST", "PHASE", "VERDICT", "UP", "CPU", "MEM", "PORTS", "COMMAND"],
        cells.collect(),
    );
    // A reason takes more room than a column has.
    text.extend(rows.iter().filter_map(more));
    text.extend(rows.iter().filter_map(asks));
    text
}

/// Returns the phase with what a server says of itself, or how it ended.
fn state(row: &SessionRow) -> String {
    let mut text = row.phase.name().to_owned();
    if let Some(percent) = row.progress_pct {
        write!(text, " {percent:.0}%").ok();
    }
    if let Some(rate) = row.tokens_per_s {
        write!(text, ", {rate:.1} tok/s").ok();
    }
    if let Some(requests @ 1..) = row.requests {
        write!(text, ", {requests} running").ok();
    }
    match (row.phase.is_over(), row.exit_code, &row.signal) {
        (true, Some(code), _) => write!(text, ", exit status {code}").ok(),
        (true, None, Some(signal)) => write!(text, ", ended by {signal}").ok(),
        (true | false, ..) => None,
    };
    text
}

/// Returns what a session asks a person's attention for.
fn asks(row: &SessionRow) -> Option<String> {
    let attention = row.attention.as_ref()?;
    let since = age(attention.since_s);
    Some(format!("{} wants you: {} ({since} ago)\n", escape(&row.name), escape(&attention.reason())))
}

/// Returns why a session has ended, where more than its status is known, and a way out.
pub(super) fn end(row: &SessionRow) -> Option<String> {
    row.reason().filter(|_| row.phase.is_over())?;
    row.detail.as_deref().map(|detail| with_way_out(row, detail))
}

/// Returns what more is known of a session than its row in the table says, and a way out.
fn more(row: &SessionRow) -> Option<String> {
    row.reason().map(|reason| with_way_out(row, reason))
}

fn with_way_out(row: &SessionRow, detail: &str) -> String {
    let mut text = format!("{}: {}\n", escape(&row.name), escape(detail));
    if let Some(suggest) = &row.suggest {
        writeln!(text, "    {}", escape(&suggest.text)).ok();
        if let Some(command) = suggest.command.as_ref().map(CommandLine::shown) {
            writeln!(text, "    {}", escape(&command)).ok();
        }
    }
    text
}

fn others(rows: &[OtherServer]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let known = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let cells = rows.iter().map(|row| {
        let ports = row.ports.as_ref().map(|ports| ports.iter().map(u16::to_string).collect::<Vec<_>>().join(","));
        let (memory, pid) = (known(row.rss_bytes.map(bytes)), row.pid.to_string());
        vec![pid, row.server.clone(), known(row.user.clone()), known(ports), memory, row.command.clone()]
    });
    let head = "\nmodel servers that are none of ours, never signalled:\n";
    head.to_owned() + &table(&["PID", "SERVER", "USER", "PORTS", "MEM", "COMMAND"], cells.collect())
}

fn tree(tree: &Tree) -> String {
    let cells = |row: &ProcessRow| {
        let mut how: Vec<&str> = row.membership.iter().map(|how| membership(*how)).collect();
        how.extend(row.kept.is_some().then_some("kept"));
        how.extend(row.protected.is_some().then_some("protected"));
        vec![
            row.pid.to_string(),
            row.ppid.to_string(),
            row.verdict.name().into(),
            how.join(","),
            row.state.clone(),
            row.cpu_pct.map_or_else(|| "-".into(), |pct| format!("{pct:.0}%")),
            row.rss_bytes.map_or_else(|| "-".into(), bytes),
            row.command.clone(),
        ]
    };
    let mut text = table(
        &["PID", "PPID", "VERDICT", "MEMBER BY", "S", "CPU", "MEM", "COMMAND"],
        tree.processes.iter().map(cells).collect(),
    );
    text.push_str(&bystanders("escaped, reported only", &tree.escapees));
    text.push_str(&bystanders("looks alike, none of ours", &tree.lookalikes));
    text
}

fn why(why: &Why) -> String {
    let mut text = String::new();
    let mut say = |what: &str, value: &str| {
        writeln!(text, "{what:<12} {}", escape(value)).ok();
    };
    let unknown = || "-".to_owned();
    say("process", &format!("{}  {}", why.pid, why.command));
    say("session", &format!("{}, {}", why.session, why.role.name()));
    say("verdict", &why.verdict.map_or_else(|| "only reported".to_owned(), |verdict| verdict.name().to_owned()));
    say("because", &why.reason);
    say("on a stop", &why.on_stop);
    say("member by", &why.membership.iter().map(|how| membership(*how)).collect::<Vec<_>>().join(", "));
    for (what, value) in [("protected", &why.protected), ("kept", &why.kept)] {
        if let Some(value) = value {
            say(what, value);
        }
    }
    say("start token", &why.start_token.as_ref().map_or_else(unknown, ToString::to_string));
    say("pidfd inode", &why.pidfd_inode.map_or_else(unknown, |inode| inode.to_string()));
    let number = |value: Option<i32>| value.map_or_else(unknown, |value| value.to_string());
    say("ids", &format!("group {}, session {}", number(why.pgid), number(why.sid)));
    let used = [
        ("age", why.age_s.map(age)),
        ("cpu", why.cpu_pct.map(|cpu| format!("{cpu:.0}%"))),
        ("memory", why.rss_bytes.map(bytes)),
        ("gpu memory", why.gpu_bytes.map(bytes)),
    ];
    for (what, value) in used {
        say(what, &value.unwrap_or_else(unknown));
    }
    say("cgroup", why.cgroup.as_deref().unwrap_or("-"));
    let ports = why.ports.as_ref().map(|ports| ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", "));
    say("listens on", &ports.map_or_else(unknown, |ports| if ports.is_empty() { "nothing".to_owned() } else { ports }));
    for parent in &why.parents {
        let role = parent.role.map(|role| format!("  ({})", role.name())).unwrap_or_default();
        say("child of", &format!("{}  {}{role}", parent.pid, parent.command));
    }
    text
}

pub(super) fn membership(how: Membership) -> &'static str {
    match how {
        Membership::Tree => "tree",
        Membership::Sid => "sid",
        Membership::Cgroup => "cgroup",
        Membership::Reparented => "reparented",
        Membership::Marker => "marker",
    }
}

fn bystanders(what: &str, rows: &[Bystander]) -> String {
    rows.iter().fold(String::new(), |mut text, row| {
        writeln!(text, "{what}: {} {}", row.pid, escape(&row.command)).ok();
        text
    })
}

/// Those with the same command line in one line.
fn lookalikes(rows: &[Bystander]) -> String {
    let mut by_command = BTreeMap::<&str, Vec<String>>::new();
    for row in rows {
        by_command.entry(&row.command).or_default().push(row.pid.to_string());
    }
    by_command.into_iter().fold(String::new(), |mut text, (command, pids)| {
        let (noun, verb) = if pids.len() == 1 { ("process", "looks") } else { ("processes", "look") };
        writeln!(
            text,
            "  {noun} {} {verb} the same and nothing says that this session started {}; not signalled: {}",
            pids.join(", "),
            if pids.len() == 1 { "it" } else { "them" },
            escape(command)
        )
        .ok();
        text
    })
}

/// Returns a plan that is carried out next.
pub(super) fn about_to(plan: &[PlanRow]) -> String {
    let (mut text, targets) = planned(plan);
    let verb = if targets == 1 { "is" } else { "are" };
    writeln!(text, "{targets} {verb} about to be signalled").ok();
    text
}

/// Returns the rows of a plan, and how many of them are to be signalled.
fn planned(plan: &[PlanRow]) -> (String, usize) {
    let mut text = String::new();
    for row in plan {
        let signal = row.signal.as_deref().unwrap_or("-");
        let (command, reason) = (escape(&row.command), escape(&row.reason));
        writeln!(text, "{:>7} {signal:<5} {command} ({}): {reason}", row.pid, row.verdict.name()).ok();
    }
    (text, plan.iter().filter(|row| row.signal.is_some()).count())
}

/// Returns a receipt as people read it: the verdict of the whole first.
pub(super) fn receipt(receipt: &Receipt) -> String {
    if let Some(plan) = &receipt.plan {
        let (mut text, would) = planned(plan);
        writeln!(text, "{would} would be signalled; nothing was").ok();
        return text;
    }
    let mut text = String::new();
    let of = |kind: OutcomeKind| receipt.outcomes.iter().filter(|row| row.outcome == kind).count();
    let session = if receipt.session.is_empty() { "sweep" } else { &receipt.session };
    let verdict = match receipt.dead {
        Some(true) => "dead",
        Some(false) => "NOT dead",
        None => "nobody can tell",
    };
    let ended = of(OutcomeKind::Exited) + of(OutcomeKind::AlreadyGone);
    writeln!(
        text,
        "{session}: {verdict}; {ended} ended in {} ms{}",
        receipt.elapsed_ms,
        if receipt.escalated { ", KILL was needed" } else { "" }
    )
    .ok();
    for row in &receipt.outcomes {
        let reason = row.reason.as_deref().unwrap_or_default();
        match row.outcome {
            OutcomeKind::Exited | OutcomeKind::AlreadyGone => continue,
            OutcomeKind::Survived => write!(text, "  {} survived", row.pid),
            OutcomeKind::Unverifiable => write!(text, "  {} could not be identified and was not signalled", row.pid),
            OutcomeKind::Foreign => write!(text, "  {} names another process now and was not signalled", row.pid),
            OutcomeKind::Refused => write!(text, "  {} must not be signalled", row.pid),
            OutcomeKind::Kept => write!(text, "  {} was left alive", row.pid),
        }
        .ok();
        writeln!(text, ": {}", escape(reason)).ok();
    }
    text.push_str(&bystanders("  escaped, left alive", &receipt.escapees));
    text.push_str(&lookalikes(&receipt.lookalikes));
    if !receipt.ports_released.is_empty() {
        let ports: Vec<String> = receipt.ports_released.iter().map(u16::to_string).collect();
        let (noun, verb) = if ports.len() == 1 { ("port", "is") } else { ("ports", "are") };
        writeln!(text, "  {noun} {} {verb} free again", ports.join(", ")).ok();
    }
    for held in &receipt.still_held {
        let gpu = held.gpu_bytes.map(|size| format!("{} of GPU memory", bytes(size)));
        let what = held.port.map(|port| format!("port {port}")).or(gpu).unwrap_or_default();
        writeln!(text, "  {what} is still held by {}", escape(&held.by)).ok();
    }
    for note in &receipt.notes {
        writeln!(text, "  note: {}", escape(note)).ok();
    }
    text
}

fn orphans(orphans: &Orphans) -> String {
    let mut text = String::new();
    for orphan in &orphans.orphans {
        let row = &orphan.row;
        let cpu = row.cpu_pct.map_or_else(|| "-".into(), |pct| format!("{pct:.0}%"));
        let memory = row.rss_bytes.map_or_else(|| "-".into(), bytes);
        let (verdict, age) = (row.verdict.name(), age(orphan.age_s));
        let noun = if row.processes == 1 { "process" } else { "processes" };
        writeln!(
            text,
            "{}  {verdict}, {age} old, {} {noun}, {cpu}, {memory}: {}",
            row.session,
            row.processes,
            escape(&row.command)
        )
        .ok();
        writeln!(text, "  {}", escape(&orphan.reason)).ok();
        for left in &orphan.left {
            writeln!(text, "  {:>7} {}: {}", left.pid, left.verdict.name(), escape(&left.command)).ok();
        }
    }
    text.push_str(&left_alone(&orphans.quarantined));
    for row in &orphans.adopted {
        let word = if row.adopted { "adopted" } else { "not adopted" };
        writeln!(text, "{}: {word}: {}", row.session, escape(&row.reason)).ok();
    }
    for receipt in &orphans.swept {
        text.push_str(&self::receipt(receipt));
    }
    for line in &orphans.report.ended {
        writeln!(text, "{}", escape(line)).ok();
    }
    let nobody = text.is_empty();
    for claim in &orphans.cookbook {
        let pid = claim.pid.map_or_else(|| "-".into(), |pid| pid.to_string());
        let (id, what) = (escape(&claim.id), escape(&claim.what));
        let verdict = claim.verdict.name();
        writeln!(text, "Cookbook's, {}: {id}: {pid} {verdict}, {}: {what}", claim.file, claim.reason).ok();
    }
    if nobody {
        text.push_str(if orphans.adopts { "nobody to adopt\n" } else { "no orphans\n" });
    }
    text
}

fn doctor(checks: &[Check]) -> String {
    checks.iter().fold(String::new(), |mut text, check| {
        let state = match check.state {
            CheckState::Ok => "ok",
            CheckState::Warn => "warn",
            CheckState::Fail => "FAIL",
        };
        writeln!(text, "{state:<5} {}: {}", check.name, escape(&check.detail)).ok();
        if let Some(way_out) = &check.way_out {
            writeln!(text, "      -> {}", escape(way_out)).ok();
        }
        text
    })
}

/// Lays out rows in columns; the last column is not padded.
fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    use unicode_width::UnicodeWidthStr;
    let head = head.iter().map(|cell| (*cell).to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head)
        .chain(rows.into_iter().map(|row| row.iter().map(|cell| escape(cell).into_owned()).collect()))
        .collect();
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - cell.width() + 2));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Returns a duration in its largest unit, rounded down.
pub(super) fn age(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an uptime")]
    let seconds = seconds.max(0.0) as u64;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Returns a size in binary units.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["K", "M", "G", "T", "P"];
    #[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 999.5 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    if size < 9.95 { format!("{size:.1}{}", UNITS[unit]) } else { format!("{size:.0}{}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_foreign_text_is_escaped() {
        let rows = vec![vec!["a\u{1b}[31m".into(), "x".into()], vec!["模型".into(), "y".into()]];
        assert_eq!(table(&["N", "C"], rows), "N          C\na\\x1b[31m  x\n模型       y\n");
    }

    #[test]
    fn sizes_and_ages() {
        for (size, expected) in
            [(0, "0.0K"), (1024, "1.0K"), (10 << 20, "10M"), (1_200_000_000, "1.1G"), (999 << 10, "999K")]
        {
            assert_eq!(bytes(size), expected);
        }
        for (seconds, expected) in [(0.0, "0s"), (59.9, "59s"), (60.0, "1m"), (7200.0, "2h"), (200_000.0, "2d")] {
            assert_eq!(age(seconds), expected);
        }
    }
}
