//! Texts of dialogs: lines of a given width, wrapped, never cut where a reason stands.
//!
//! Every text is escaped here, on its way into a span.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::super::theme::{Theme, Tone, verdict_glyph, verdict_tone};
use crate::lifecycle::identity::Pid;
use crate::lifecycle::verdict::VerdictKind;
use crate::text::{escape, shorten};

/// A text that grows line by line.
pub(super) struct Doc<'a> {
    pub(super) theme: &'a Theme,
    width: usize,
    lines: Vec<Line<'static>>,
}

/// One process in a dialog.
pub(super) struct Entry<'a> {
    pub(super) pid: Pid,
    pub(super) verdict: Option<VerdictKind>,
    /// The signal it would get, or what came of it.
    pub(super) what: &'a str,
    pub(super) tone: Tone,
    pub(super) command: &'a str,
    pub(super) reason: &'a str,
}

impl<'a> Doc<'a> {
    pub(super) fn new(theme: &'a Theme, width: u16) -> Self {
        Self { theme, width: usize::from(width.max(1)), lines: Vec::new() }
    }

    pub(super) fn into_lines(self) -> Vec<Line<'static>> {
        self.lines
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Returns how many lines there are so far.
    pub(super) fn height(&self) -> usize {
        self.lines.len()
    }

    /// Adds an empty line, unless there is one or nothing is there yet.
    pub(super) fn blank(&mut self) {
        if self.lines.last().is_some_and(|line| line.width() > 0) {
            self.lines.push(Line::default());
        }
    }

    /// Adds a heading with a count.
    pub(super) fn heading(&mut self, text: &str, count: Option<usize>, tone: Tone) {
        self.blank();
        let mut spans = vec![span(text, self.theme.tone(tone).patch(self.theme.strong()))];
        if let Some(count) = count {
            spans.push(span(&format!("  {count}"), self.theme.dim()));
        }
        self.lines.push(Line::from(spans));
    }

    /// Adds text, wrapped, with an indentation.
    pub(super) fn text(&mut self, indent: usize, text: &str, style: Style) {
        let indent = indent.min(self.width / 2);
        for part in wrap(&escape(text), self.width - indent) {
            self.lines.push(Line::from(vec![Span::raw(" ".repeat(indent)), Span::styled(part, style)]));
        }
    }

    /// Adds one line of spans as they are.
    pub(super) fn line(&mut self, spans: Vec<Span<'static>>) {
        self.lines.push(Line::from(spans));
    }

    /// Adds a process: what would be done to it, or was, and why.
    pub(super) fn entry(&mut self, entry: &Entry<'_>) {
        let theme = self.theme;
        let tone = theme.tone(entry.tone);
        let pid = span(&format!("{:>8}", entry.pid), theme.text());
        let what = span(&format!("{:<9} ", entry.what), tone);
        let mut head = vec![pid, Span::raw("  ")];
        if let Some(verdict) = entry.verdict {
            let word = format!("{:<15}", format!("{} {}", verdict_glyph(verdict), verdict.name()));
            head.push(span(&word, theme.tone(verdict_tone(verdict))));
        }
        if !entry.what.is_empty() {
            head.push(what);
        }
        let used: usize = head.iter().map(Span::width).sum();
        let command = escape(entry.command);
        if used + 16 <= self.width {
            head.push(Span::raw(shorten(&command, self.width - used)));
            self.lines.push(Line::from(head));
        } else {
            self.lines.push(Line::from(head));
            self.text(2, &command, theme.text());
        }
        if !entry.reason.is_empty() {
            self.text(if self.width >= 50 { 10 } else { 2 }, entry.reason, theme.dim());
        }
    }
}

/// Returns a span of foreign text.
pub(super) fn span(text: &str, style: Style) -> Span<'static> {
    Span::styled(escape(text).into_owned(), style)
}

/// Breaks text at spaces into lines of at most `width` columns; words that are too long are broken.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let gap = usize::from(!line.is_empty());
        if line.width() + gap + word.width() <= width {
            line.push_str(&" "[..gap]);
            line.push_str(word);
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        let mut used = 0;
        for c in word.chars() {
            let columns = c.width().unwrap_or(0);
            if used + columns > width && !line.is_empty() {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            line.push(c);
            used += columns;
        }
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, width: usize, expected: &[&str]) {
        assert_eq!(wrap(text, width), expected);
    }

    #[test]
    fn wrapping() {
        check("", 5, &[]);
        check("a b c", 5, &["a b c"]);
        check("a b c", 3, &["a b", "c"]);
        check("abcdefgh ij", 3, &["abc", "def", "gh", "ij"]);
        check("界界 界", 4, &["界界", "界"]);
        check("界", 1, &["界"]);
        check("a  \n b", 9, &["a b"]);
        check("e\u{301}e\u{301}", 1, &["e\u{301}", "e\u{301}"]);
        check("x", 0, &["x"]);
    }

    #[test]
    fn every_text_is_escaped() {
        let mut doc = Doc::new(&Theme::MONO, 80);
        doc.text(0, "a\x1b[2Jb", Style::new());
        doc.heading("h\u{202e}x", None, Tone::Plain);
        if let Some(pid) = Pid::new(7) {
            doc.entry(&Entry { pid, verdict: None, what: "T\x07", tone: Tone::Plain, command: "c\x1b", reason: "r\r" });
        }
        for line in doc.into_lines() {
            let text = line.to_string();
            assert!(!text.contains(|c: char| c.is_control() || c == '\u{202e}'), "{text:?}");
        }
    }
}
