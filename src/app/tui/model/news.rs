//! What nobody has looked at yet: what a session has printed since, and that it has ended. Pure.

use std::collections::{BTreeMap, BTreeSet};

/// What happened in sessions while nobody looked at them.
#[derive(Debug, Default)]
pub struct News {
    /// When each session printed last, as its log says; only compared with itself.
    printed: BTreeMap<String, u64>,
    /// The same when it was looked at last.
    seen: BTreeMap<String, u64>,
    /// Looked at since the logs were looked at: what they tell next was seen.
    looked: BTreeSet<String>,
    ended: BTreeSet<String>,
    /// Whose end was taken in: it is news once.
    over: BTreeSet<String>,
    /// Whose end was looked at in an earlier run, as far as they were not launched again.
    known: BTreeSet<String>,
    /// The logs were looked at once: what was there before is no news.
    begun: bool,
}

impl News {
    /// Takes in when each session printed last.
    pub(in super::super) fn take(&mut self, printed: BTreeMap<String, u64>) {
        for id in std::mem::take(&mut self.looked) {
            if let Some(at) = printed.get(&id) {
                self.seen.insert(id, *at);
            }
        }
        if !std::mem::replace(&mut self.begun, true) {
            self.seen.clone_from(&printed);
        }
        self.seen.retain(|id, _| printed.contains_key(id));
        self.ended.retain(|id| printed.contains_key(id));
        self.printed = printed;
    }

    /// Takes up whose end was looked at in an earlier run.
    pub(super) fn recall(&mut self, known: impl IntoIterator<Item = String>) {
        self.known = known.into_iter().collect();
    }

    /// Tells whether the end of a session was looked at in an earlier run.
    pub fn knows(&self, session: &str) -> bool {
        self.known.contains(session)
    }

    /// Takes in that a session was launched, perhaps again: its next end is another one.
    pub(in super::super) fn begin(&mut self, session: &str) {
        self.known.remove(session);
        self.over.remove(session);
    }

    /// Takes in that a session has ended by itself. Returns whether that is news.
    pub(in super::super) fn end(&mut self, session: &str) -> bool {
        let is_new = self.pass(session) && !self.knows(session);
        if is_new {
            self.ended.insert(session.to_owned());
        }
        is_new
    }

    /// Takes in that a session has ended as somebody wanted. Returns whether that was not known.
    pub(in super::super) fn pass(&mut self, session: &str) -> bool {
        self.over.insert(session.to_owned())
    }

    /// Takes in that a session is looked at.
    pub(in super::super) fn look(&mut self, session: &str) {
        if let Some(at) = self.printed.get(session)
            && self.seen.get(session) != Some(at)
        {
            self.seen.insert(session.to_owned(), *at);
        }
        if !self.looked.contains(session) {
            self.looked.insert(session.to_owned());
        }
        self.ended.remove(session);
    }

    /// Tells whether a session has printed something that nobody has looked at.
    pub fn is_unseen(&self, session: &str) -> bool {
        self.printed.get(session).is_some_and(|at| self.seen.get(session) != Some(at))
    }

    /// Tells whether a session has ended while nobody looked at it.
    pub fn has_ended(&self, session: &str) -> bool {
        self.ended.contains(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(rows: &[(&str, u64)]) -> BTreeMap<String, u64> {
        rows.iter().map(|(id, at)| ((*id).to_owned(), *at)).collect()
    }

    #[test]
    fn what_was_there_before_is_no_news_and_what_comes_is() {
        let mut news = News::default();
        news.take(printed(&[("a", 1), ("b", 1)]));
        assert!(!news.is_unseen("a") && !news.is_unseen("b"));
        news.take(printed(&[("a", 2), ("b", 1), ("c", 9)]));
        assert!(news.is_unseen("a") && !news.is_unseen("b") && news.is_unseen("c"));
        news.look("a");
        assert!(!news.is_unseen("a") && news.is_unseen("c"));
        assert!(!news.is_unseen("x"));
    }

    /// The logs are looked at once a second: what was printed while somebody looked is told later.
    #[test]
    fn what_was_printed_while_it_was_looked_at_is_seen() {
        let mut news = News::default();
        news.take(printed(&[("a", 1)]));
        news.look("a");
        news.take(printed(&[("a", 2)]));
        assert!(!news.is_unseen("a"));
        news.take(printed(&[("a", 3)]));
        assert!(news.is_unseen("a"));
    }

    #[test]
    fn an_end_is_news_until_it_is_looked_at() {
        let mut news = News::default();
        news.take(printed(&[("a", 1), ("b", 1)]));
        news.end("a");
        news.end("b");
        assert!(news.has_ended("a"));
        news.look("a");
        assert!(!news.has_ended("a") && news.has_ended("b"));
        news.take(printed(&[("a", 1)]));
        assert!(!news.has_ended("b"), "it is forgotten with its session");
    }

    #[test]
    fn an_end_is_told_once_and_never_where_an_earlier_run_has_told_it() {
        let mut news = News::default();
        news.recall(["old".to_owned()]);
        assert!(news.end("a") && !news.end("a"));
        assert!(!news.end("old") && !news.has_ended("old"));
        for session in ["a", "old"] {
            news.begin(session);
            assert!(news.end(session), "{session} was launched again");
        }
        news.pass("b");
        assert!(!news.end("b"), "somebody has stopped it");
    }
}
