//! Finds the secrets of one text, in the manner of a shell, of JSON and of URLs at once.
//!
//! Called by `mask` only. A pass goes from left to right and is linear in the length of the text;
//! passes repeat until nothing changes, which is what makes masking idempotent. It does not parse
//! any language exactly: where the end of a value is unclear, it masks more, never less.

use std::borrow::Cow;

use super::mask::{MASK, value};
use super::secret::{Strength, is_api_key, strength, value_start};

/// What may follow a value directly without being part of it.
const CLOSERS: &[u8] = b";&|<>(),]}";

/// How far away the end of a list is looked for; keeps a pass linear.
const LONGEST_LIST: usize = 4096;

/// What the end of an argument announces for the next ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// Nothing.
    Nothing,
    /// The next argument is a secret.
    Value,
    /// All arguments up to the next option are secrets.
    Values,
}

/// Masks until nothing changes. Ends, because every pass that changes something turns a stretch of
/// text into asterisks. `several` says that an option for API keys may have several values.
pub(super) fn settle(text: &str, several: bool) -> (Cow<'_, str>, Due) {
    let mut settled = Cow::Borrowed(text);
    loop {
        let (next, due) = Scanner::new(&settled, several).run();
        match next {
            None => return (settled, due),
            Some(next) => settled = Cow::Owned(next),
        }
    }
}

/// A quotation mark with the backslashes before it: `\"` inside of `"` is a mark of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Quote {
    escapes: usize,
    mark: u8,
}

impl Quote {
    fn len(self) -> usize {
        self.escapes + 1
    }
}

/// One pass over one text.
///
/// `run` drives it. `on_*` handle what begins at the position and move it; `*_end` and the rest
/// look ahead and change nothing; `mask` alone writes to the output. Text is cut at ASCII bytes
/// only, hence always between characters.
struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    several: bool,
    at: usize,
    /// The quotes that enclose the position, outermost first.
    quotes: Vec<Quote>,
    out: String,
    /// How much of the text the output covers.
    copied: usize,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str, several: bool) -> Self {
        let (quotes, out) = (Vec::new(), String::new());
        Self { text, bytes: text.as_bytes(), several, at: 0, quotes, out, copied: 0 }
    }

    /// Returns the masked text, or `None` where nothing changed, and what its end announces.
    fn run(mut self) -> (Option<String>, Due) {
        let mut due = Due::Nothing;
        while self.at < self.bytes.len() {
            let name = self.bytes[self.at..].iter().take_while(|b| is_name(**b)).count();
            if name > 0 {
                due = self.on_name(self.at + name);
            } else if self.bytes[self.at..].starts_with(b"://") {
                self.on_authority();
            } else if let Some(quote) = self.quote_at(self.at) {
                self.on_quote(quote);
            } else {
                self.at += self.escapes(self.at).max(1);
            }
        }
        let changed = self.copied > 0;
        self.out.push_str(&self.text[self.copied..]);
        (changed.then_some(self.out), due)
    }

    fn on_name(&mut self, end: usize) -> Due {
        let start = self.at;
        let name = &self.text[start..end];
        self.at = end;
        let announced = strength(name)
            .filter(|of| *of == Strength::Header || !self.is_path(start, end))
            .and_then(|strength| Some((self.separator_end(name, strength)?, strength)));
        if let Some((begin, strength)) = announced {
            let api_keys = self.several && is_api_key(name);
            if begin == self.bytes.len() {
                self.at = begin;
                return if api_keys { Due::Values } else { Due::Value };
            }
            let stop = if strength == Strength::Header { self.header_end(begin) } else { self.value_end(begin) };
            let spaced = self.bytes[begin - 1].is_ascii_whitespace();
            self.mask(begin, stop);
            if api_keys && spaced {
                self.on_more_values();
            }
        } else if name.eq_ignore_ascii_case("bearer") {
            let begin = self.blanks_end(end);
            let word = self.bytes[begin..].iter().take_while(|b| is_name(**b) || b"~+/=".contains(b));
            let (length, digits) = word.fold((0, 0), |(n, d), b| (n + 1, d + usize::from(b.is_ascii_digit())));
            if length >= 20 || (length >= 8 && digits > 0) {
                self.mask(begin, self.value_end(begin));
            }
        } else if let Some(offset) = value_start(name) {
            self.mask(start + offset, end);
        }
        Due::Nothing
    }

    fn on_more_values(&mut self) {
        loop {
            let begin = self.blanks_end(self.at);
            let is_over = self.bytes.get(begin).is_none_or(|b| *b == b'-' || b.is_ascii_whitespace());
            let stop = if is_over { begin } else { self.value_end(begin) };
            if stop == begin {
                return;
            }
            self.mask(begin, stop);
        }
    }

    /// Masks who logs in to a URL. `ssh://git@host` names a user and hides nothing.
    fn on_authority(&mut self) {
        let is_web = self.text[..self.at].ends_with("http") || self.text[..self.at].ends_with("https");
        let begin = self.at + 3;
        let is_authority = |b: &&u8| !b.is_ascii_whitespace() && !b"/?#\"'`<>\\".contains(b);
        let end = begin + self.bytes[begin..].iter().take_while(is_authority).count();
        self.at = begin;
        if let Some(user) = self.bytes[begin..end].iter().rposition(|b| *b == b'@')
            && (is_web || self.bytes[begin..begin + user].contains(&b':'))
        {
            self.mask(begin, begin + user);
        }
    }

    fn on_quote(&mut self, quote: Quote) {
        // An apostrophe inside a word opens nothing.
        let in_word = self.at > 0 && self.bytes[self.at - 1].is_ascii_alphanumeric();
        if let Some(opened) = self.quotes.iter().rposition(|open| *open == quote) {
            self.quotes.truncate(opened);
        } else if !in_word {
            self.quotes.push(quote);
        }
        self.at += quote.len();
    }

    fn mask(&mut self, begin: usize, end: usize) {
        self.at = end;
        let text = &self.text[begin..end];
        if value(text) != text {
            self.out.push_str(&self.text[self.copied..begin]);
            self.out.push_str(MASK);
            self.copied = end;
        }
    }

    /// Returns where the value of a secret's name begins; the end of the text where the value is
    /// still to come; `None` where the name stands alone.
    fn separator_end(&mut self, name: &str, strength: Strength) -> Option<usize> {
        if let Some(quote) = self.quote_at(self.at) {
            let sign = self.blanks_end(self.at + quote.len());
            let is_key = matches!(self.bytes.get(sign), Some(b':' | b'='));
            if is_key && self.quotes.last() == Some(&quote) {
                self.quotes.pop();
            }
            return is_key.then(|| self.blanks_end(sign + 1)).filter(|begin| !self.is_space(*begin));
        }
        let sign = self.blanks_end(self.at);
        let is_spaced = sign > self.at;
        let next = self.bytes.get(sign + 1).copied();
        let begin = match self.bytes.get(sign) {
            Some(b'=') if next == Some(b'=') => None,
            Some(b'=') if is_spaced => Some(self.blanks_end(sign + 1)),
            Some(b'=') => next.map(|_| sign + 1),
            Some(b':') if !is_spaced && strength > Strength::Bare && next != Some(b':') => {
                Some(self.blanks_end(sign + 1))
            }
            Some(_) => (name.starts_with('-') && is_spaced).then_some(sign),
            None => name.starts_with('-').then_some(sign),
        };
        begin.filter(|begin| !self.is_space(*begin))
    }

    /// Tells whether a name is the end of a path that something is said of: `/etc/passwd: Permission denied`. What is
    /// written as an assignment, or is no path from a root, is none.
    fn is_path(&self, start: usize, end: usize) -> bool {
        let after = self.bytes.get(end + 1);
        let is_said = self.bytes.get(end) == Some(&b':') && after.is_none_or(u8::is_ascii_whitespace);
        if !is_said || start == 0 || self.bytes[start - 1] != b'/' {
            return false;
        }
        // Up to the blank before it: a word is walked through once.
        let opens = |b: &u8| b.is_ascii_whitespace() || b"\"'`(".contains(b);
        let begin = self.bytes[..start].iter().rposition(opens).map_or(0, |before| before + 1);
        let path = &self.text[begin..start];
        path.starts_with(['/', '~']) || path.starts_with("./") || path.starts_with("../")
    }

    /// Returns the end of a header's value, which may have several words.
    fn header_end(&self, begin: usize) -> usize {
        let own = self.quote_at(begin);
        if let Some(enclosing) = self.quotes.last().filter(|enclosing| own.is_none_or(|own| own == **enclosing)) {
            return self.closing(*enclosing, begin).unwrap_or_else(|| self.line_end(begin));
        }
        let first = self.value_end(begin);
        let is_scheme = self.bytes[begin..first].iter().all(|b| b.is_ascii_alphabetic() || *b == b'-');
        let second = self.blanks_end(first);
        if is_scheme && second > first && self.is_joined(second) { self.value_end(second) } else { first }
    }

    /// Returns the end of a value: of the shell word that begins here, without what closes the
    /// surroundings.
    fn value_end(&self, begin: usize) -> usize {
        let enclosing = self.quotes.last().copied();
        let mut inside = true;
        let mut at = begin;
        // Up to here no closing bracket belongs to the surroundings.
        let mut settled = begin;
        while let Some(&byte) = self.bytes.get(at) {
            if byte.is_ascii_whitespace() {
                break;
            }
            if byte == b'[' && at == begin {
                at = self.list_end(at);
                settled = at;
            } else if let Some(quote) = self.quote_at(at) {
                let after = at + quote.len();
                if let Some(end) = self.nested_quote_end(at, enclosing) {
                    at = end;
                } else if self.quotes.contains(&quote) && inside && !self.is_joined(after) {
                    break;
                } else if Some(quote) == enclosing {
                    // The quote is closed and opened again in the middle of a word.
                    inside = !inside;
                    at = after;
                } else {
                    at = self.closing(quote, after).map_or_else(|| self.line_end(at), |end| end + quote.len());
                    if self.bytes.get(at).is_some_and(|b| CLOSERS.contains(b)) {
                        break;
                    }
                }
            } else {
                let escapes = self.escapes(at);
                at += if byte == b'\\' { escapes + escapes % 2 } else { 1 };
            }
        }
        at = at.min(self.bytes.len());
        let closers = self.bytes[settled..at].iter().rev().take_while(|b| CLOSERS.contains(b)).count();
        at - closers
    }

    /// Returns the end of a list of values; of its bracket only, where it does not end soon.
    fn list_end(&self, at: usize) -> usize {
        let near = &self.bytes[at..self.bytes.len().min(at + LONGEST_LIST)];
        let end = near.iter().position(|b| matches!(b, b']' | b'\n')).filter(|end| near[*end] == b']');
        end.map_or(at + 1, |end| at + end + 1)
    }

    /// Returns the end of a quoted word inside a single-quoted one: `'\''a b'\''`, `'"'"'a b'"'"'`.
    fn nested_quote_end(&self, at: usize, enclosing: Option<Quote>) -> Option<usize> {
        enclosing.filter(|enclosing| *enclosing == Quote { escapes: 0, mark: b'\'' })?;
        let rest = &self.text[at..];
        [r"'\''", r#"'"'"'"#].iter().find_map(|nested| {
            let inner = rest.strip_prefix(nested)?;
            Some(at + nested.len() + inner.find(nested).map_or(0, |end| end + nested.len()))
        })
    }

    /// Returns the position of the next such quote.
    fn closing(&self, quote: Quote, from: usize) -> Option<usize> {
        let mut at = from;
        while at < self.bytes.len() {
            match self.quote_at(at) {
                Some(found) if found == quote => return Some(at),
                // Inside of single quotes a backslash is nothing special.
                Some(found) if quote.mark == b'\'' && quote.escapes == 0 && found.mark == b'\'' => {
                    return Some(at + found.escapes);
                }
                Some(found) => at += found.len(),
                None => at += self.escapes(at).max(1),
            }
        }
        None
    }

    fn escapes(&self, at: usize) -> usize {
        self.bytes[at..].iter().take_while(|b| **b == b'\\').count()
    }

    fn quote_at(&self, at: usize) -> Option<Quote> {
        let escapes = self.escapes(at);
        let mark = *self.bytes.get(at + escapes)?;
        matches!(mark, b'"' | b'\'' | b'`').then_some(Quote { escapes, mark })
    }

    /// Returns the end of blanks on the same line; a backslash before a newline continues it.
    fn blanks_end(&self, mut at: usize) -> usize {
        loop {
            match &self.bytes[at..] {
                [b' ' | b'\t', ..] => at += 1,
                [b'\\', b'\n', ..] => at += 2,
                _ => return at,
            }
        }
    }

    fn line_end(&self, at: usize) -> usize {
        self.bytes[at..].iter().position(|b| *b == b'\n').map_or(self.bytes.len(), |end| at + end)
    }

    fn is_space(&self, at: usize) -> bool {
        self.bytes.get(at).is_some_and(u8::is_ascii_whitespace)
    }

    /// Tells whether the word goes on here.
    fn is_joined(&self, at: usize) -> bool {
        self.bytes.get(at).is_some_and(|b| !b.is_ascii_whitespace() && !CLOSERS.contains(b))
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}
