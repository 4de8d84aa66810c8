//! What is typed to find something: matched loosely, in fzf's manner. Pure.

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

/// A search that is matched against many texts.
pub(in super::super) struct Fuzzy {
    matcher: Matcher,
    pattern: Pattern,
    buffer: Vec<char>,
}

impl Fuzzy {
    /// Takes in what is typed: words that all must be in a text, each with gaps; `'word` without gaps, `^word` at
    /// the start, `word$` at the end, `!word` not at all. Capitals count where there is one.
    pub(in super::super) fn new(typed: &str) -> Self {
        Self {
            matcher: Matcher::new(Config::DEFAULT),
            pattern: Pattern::parse(typed, CaseMatching::Smart, Normalization::Smart),
            buffer: Vec::new(),
        }
    }

    /// Returns how well a text matches, more is better; `None` where it does not.
    pub(in super::super) fn score(&mut self, text: &str) -> Option<u32> {
        self.pattern.score(Utf32Str::new(text, &mut self.buffer), &mut self.matcher)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_loosely() {
        for (typed, text, found) in [
            ("", "anything", true),
            ("qc", "qwen-coder-32b", true),
            ("coder qwen", "qwen-coder-32b", true),
            ("cq", "qwen-coder-32b", false),
            ("'coder", "qwen-coder", true),
            ("'cdr", "qwen-coder", false),
            ("^qwen", "qwen", true),
            ("!tiny", "qwen", true),
            ("!tiny", "tiny", false),
            ("Q", "qwen", false),
            ("モデル", "大きいモデル", true),
            ("cafe", "zsh café", true),
        ] {
            assert_eq!(Fuzzy::new(typed).score(text).is_some(), found, "{typed:?} {text:?}");
        }
    }

    #[test]
    fn the_nearer_text_scores_higher() {
        let mut fuzzy = Fuzzy::new("stop");
        assert!(fuzzy.score("stop the session") > fuzzy.score("show the last receipt: what stood open"));
    }
}
