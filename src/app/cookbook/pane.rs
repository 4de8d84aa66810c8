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
    let end = text.lines().rev().find_map(|line| marker(line.trim()))?;
    // A download that matched nothing ends well, and has fetched nothing.
    let nothing = text.contains("Fetching 0 files") && text.lines().any(|line| line.trim() == "DOWNLOAD_OK");
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
    let mut markers = (0..lines.len()).rev().filter(|at| marker(lines[*at].trim()).is_some());
    let end = markers.next().unwrap_or(lines.len());
    let begin = markers.next().map_or(0, |before| before + 1);
    lines[begin..end].join("\n")
}

fn marker(line: &str) -> Option<End> {
    let with_code = |code: i32| End {
        phase: if code == 0 { Phase::Exited } else { Phase::Failed },
        detail: format!("exit status {code}; its pane is still open"),
        code: Some(code),
    };
    if line == "DOWNLOAD_OK" {
        return Some(End { phase: Phase::Exited, detail: "downloaded; its pane is still open".into(), code: Some(0) });
    }
    if let Some(rest) = line.strip_prefix("DOWNLOAD_FAILED") {
        let code = rest.trim_start().strip_prefix("(exit ").and_then(leading_number);
        let detail =
            format!("its download failed{}", code.map(|code| format!(": exit status {code}")).unwrap_or_default());
        return Some(End { phase: Phase::Failed, detail, code });
    }
    if let Some(rest) = line.strip_prefix(":::EXIT_CODE:::") {
        return leading_number(rest).map(with_code);
    }
    let code = line.strip_prefix("=== Process exited with code ")?.strip_suffix(" ===")?;
    code.parse().ok().map(with_code)
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
            "DOWNLOAD_OKAY",
        ] {
            check(text, None);
        }
    }
}
