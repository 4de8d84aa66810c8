//! How the work in a pane of Cookbook has ended, as its runner prints it. Pure.
//!
//! A pane outlives its work: after the marker it is a shell. The last marker counts.

use crate::app::contract::Phase;

/// How it has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// `exited` or `failed`.
    pub phase: Phase,
    /// More, in words.
    pub detail: String,
    /// Exit status, where one was printed.
    pub code: Option<i32>,
}

/// Reads what a pane shows and remembers; `None` while the work goes on.
pub fn end_of(text: &str) -> Option<End> {
    let (_, end) = text.lines().rev().find_map(|line| marker(line.trim()))?;
    // A download that matched nothing ends well, and has fetched nothing.
    let nothing = text.contains("Fetching 0 files") && text.lines().any(|line| line.trim().ends_with("DOWNLOAD_OK"));
    if nothing && end.phase == Phase::Exited {
        return Some(End {
            phase: Phase::Failed,
            detail: "it fetched nothing: no file matched".into(),
            code: end.code,
        });
    }
    Some(end)
}

/// Returns what the work that has ended last has printed: what stands between the last marker and the one before.
pub fn last_work(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let found = |at: usize| marker(lines[at].trim()).map(|(begin, _)| (at, &lines[at].trim()[..begin]));
    let mut markers = (0..lines.len()).rev().filter_map(found);
    let (end, open) = markers.next().unwrap_or((lines.len(), ""));
    let begin = markers.next().map_or(0, |(before, _)| before + 1);
    let open = Some(open).filter(|open| !open.is_empty());
    lines[begin..end].iter().copied().chain(open).collect::<Vec<_>>().join("\n")
}

/// Returns where the marker of a line begins, and what it says. Work that dies in the middle of a line, as that of a
/// progress bar, leaves the marker at its end; where the bar has gone back to its begin, its rest stands behind it.
fn marker(line: &str) -> Option<(usize, End)> {
    const PROCESS: &str = "=== Process exited with code ";
    const CODE: &str = ":::EXIT_CODE:::";
    const FAILED: &str = "DOWNLOAD_FAILED";
    const OK: &str = "DOWNLOAD_OK";
    let with_code = |code: i32| End {
        phase: if code == 0 { Phase::Exited } else { Phase::Failed },
        detail: format!("exit status {code}; its pane is still open"),
        code: Some(code),
    };
    let of_process = |rest: &str| rest.split_once(" ===").and_then(|(code, _)| code.parse().ok());
    if let Some(code) = line.strip_prefix(PROCESS).and_then(of_process) {
        return Some((0, with_code(code)));
    }
    if let Some((before, rest)) = line.rsplit_once(PROCESS)
        && let Some(code) = rest.strip_suffix(" ===").and_then(|code| code.parse().ok())
    {
        return Some((before.len(), with_code(code)));
    }
    if let Some(code) = line.strip_prefix(CODE).and_then(leading_number) {
        return Some((0, with_code(code)));
    }
    if let Some((before, code)) = line.rsplit_once(CODE) {
        return code.parse().ok().map(|code| (before.len(), with_code(code)));
    }
    // Its words alone may be those of a sentence.
    let is_bar = |before: &str| before.is_empty() || before.contains('%');
    if let Some(before) = line.strip_suffix(OK).filter(|before| is_bar(before)) {
        let detail = "downloaded; its pane is still open".into();
        return Some((before.len(), End { phase: Phase::Exited, detail, code: Some(0) }));
    }
    let (before, rest) = line.rsplit_once(FAILED).filter(|(before, _)| is_bar(before))?;
    let code = rest.trim_start().strip_prefix("(exit ").and_then(leading_number);
    let detail = format!("its download failed{}", code.map(|code| format!(": exit status {code}")).unwrap_or_default());
    Some((before.len(), End { phase: Phase::Failed, detail, code }))
}

fn leading_number(text: &str) -> Option<i32> {
    let end = text
        .char_indices()
        .find(|(at, c)| !(c.is_ascii_digit() || (*at == 0 && *c == '-')))
        .map_or(text.len(), |(at, _)| at);
    text[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(Phase, Option<i32>)>) {
        assert_eq!(end_of(text).map(|end| (end.phase, end.code)), expected, "{text:?}");
    }

    #[test]
    fn the_last_work_is_between_two_markers() {
        assert_eq!(last_work("a\nb\n:::EXIT_CODE:::3\n$ "), "a\nb");
        assert_eq!(last_work("a\n:::EXIT_CODE:::3\nb\nc\n:::EXIT_CODE:::1\n$"), "b\nc");
        assert_eq!(last_work("a\nb"), "a\nb");
        assert_eq!(last_work(""), "");
        assert_eq!(last_work("a\nb: boom=== Process exited with code 1 ===\n$ "), "a\nb: boom");
    }

    #[test]
    fn a_marker_may_end_a_line_that_was_not_finished() {
        use Phase::{Exited, Failed};
        let bar = "Loading safetensors checkpoint shards:  75%";
        check(&format!("{bar}=== Process exited with code 1 ===\n$ "), Some((Failed, Some(1))));
        check(&format!("{bar} === Process exited with code -9 ==="), Some((Failed, Some(-9))));
        check(&format!("{bar}:::EXIT_CODE:::3"), Some((Failed, Some(3))));
        check(&format!("{bar}DOWNLOAD_OK"), Some((Exited, Some(0))));
        check(&format!("{bar}DOWNLOAD_FAILED (exit 7 after 3 attempts)"), Some((Failed, Some(7))));
        // The bar went back to the begin of its line.
        check("=== Process exited with code 1 ===shards:  75%|####  |", Some((Failed, Some(1))));
    }

    #[test]
    fn the_last_marker_counts() {
        use Phase::{Exited, Failed};
        check("", None);
        check("INFO: Uvicorn running on http://0.0.0.0:8000\n", None);
        check("boom\n=== Process exited with code 1 ===\nuser@host:~$ ", Some((Failed, Some(1))));
        check("=== Process exited with code 0 ===\n$", Some((Exited, Some(0))));
        check("=== Process exited with code -9 ===", Some((Failed, Some(-9))));
        check("=== Process exited with code 98 ===\n=== Process exited with code 0 ===", Some((Exited, Some(0))));
        check("Fetching 3 files\nDOWNLOAD_OK\n", Some((Exited, Some(0))));
        check("Fetching 0 files: 0it\nDOWNLOAD_OK\n", Some((Failed, Some(0))));
        check("Fetching 0 files\nDOWNLOAD_OK\n:::EXIT_CODE:::0", Some((Failed, Some(0))));
        check("DOWNLOAD_FAILED (exit 7 after 3 attempts)", Some((Failed, Some(7))));
        check("DOWNLOAD_FAILED", Some((Failed, None)));
        check("DOWNLOAD_FAILED (exit 7 after 3 attempts)\nDOWNLOAD_OK", Some((Exited, Some(0))));
        check("  :::EXIT_CODE:::3  ", Some((Failed, Some(3))));
    }

    #[test]
    fn a_line_that_only_mentions_one_is_none() {
        for text in [
            "he said DOWNLOAD_OK",
            "=== Process exited with code x ===",
            "=== Process exited with code 1",
            ":::EXIT_CODE:::",
            "$ ./serve; echo \"=== Process exited with code $? ===\"",
            "$ ./serve; echo \":::EXIT_CODE:::$?\"",
            "he said DOWNLOAD_FAILED",
            "DOWNLOAD_OKAY",
        ] {
            check(text, None);
        }
    }
}
