//! The words of a command as it is typed: quoted for a shell, taken apart again, and the one at the cursor. Pure.

/// What a shell reads as something else than itself, outside of quotes.
const MARKS: &str = "$`*?[]{}();&|<>#!~\\\"'\n";

/// Returns a word as it has to be typed.
pub(in super::super) fn quote(word: &str) -> String {
    let plain = !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || c.is_control() || MARKS.contains(c));
    if plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// Returns a path as it has to be typed: a `~/` at its start stays what it is.
pub(in super::super) fn quote_path(path: &str) -> String {
    match path.strip_prefix("~/") {
        Some("") => path.to_owned(),
        Some(rest) => format!("~/{}", quote(rest)),
        None => quote(path),
    }
}

/// Returns arguments as one line.
pub(in super::super) fn join(argv: &[String]) -> String {
    argv.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
}

/// Returns the arguments that a line stands for; `None` where only a shell can tell.
pub(in super::super) fn split(line: &str) -> Option<Vec<String>> {
    let cursor = Cursor::read(line);
    let is_plain = !cursor.open && !cursor.shell;
    let mut words = cursor.before;
    words.extend((cursor.start < line.len()).then_some(cursor.value));
    is_plain.then_some(words)
}

/// The word in which a text ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Cursor {
    /// Where it begins.
    pub start: usize,
    /// It, without its quotes.
    pub value: String,
    /// The words of the same command before it.
    pub before: Vec<String>,
    /// A quote is open.
    open: bool,
    /// There is something that only a shell understands.
    shell: bool,
}

impl Cursor {
    /// Reads the text before a cursor.
    pub(in super::super) fn read(text: &str) -> Self {
        let mut found = Self { start: text.len(), ..Self::default() };
        let mut word: Option<String> = None;
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            if word.is_none() && !c.is_whitespace() {
                found.start = at;
            }
            match c {
                '\'' | '"' => {
                    let word = word.get_or_insert_default();
                    found.open = true;
                    while let Some((_, inner)) = chars.next() {
                        if inner == c {
                            found.open = false;
                            break;
                        }
                        found.shell |= c == '"' && "$`".contains(inner);
                        let escapes = c == '"' && inner == '\\';
                        let next = if escapes { chars.next_if(|(_, next)| "\"\\$`".contains(*next)) } else { None };
                        word.push(next.map_or(inner, |(_, next)| next));
                    }
                }
                '\\' => {
                    let next = chars.next();
                    found.shell |= next.is_none_or(|(_, next)| next == '\n');
                    word.get_or_insert_default().extend(next.map(|(_, next)| next));
                }
                ';' | '&' | '|' | '(' | ')' | '\n' => {
                    (found.shell, word) = (true, None);
                    found.before.clear();
                    found.start = text.len();
                }
                c if c.is_whitespace() => {
                    found.before.extend(word.take());
                    found.start = text.len();
                }
                c => {
                    found.shell |= MARKS.contains(c);
                    word.get_or_insert_default().push(c);
                }
            }
        }
        found.value = word.unwrap_or_default();
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_taken_apart_where_no_shell_is_needed() {
        let check = |line: &str, expected: Option<&[&str]>| {
            let expected = expected.map(|words| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
            assert_eq!(split(line), expected, "{line}");
        };
        check("", Some(&[]));
        check(" a  b ", Some(&["a", "b"]));
        check("a 'b c' \"d e\" f\\ g ''", Some(&["a", "b c", "d e", "f g", ""]));
        check("a \"\\\"\" '\\'", Some(&["a", "\"", "\\"]));
        for shell in ["a $B", "a \"$B\"", "a; b", "a | b", "a > b", "a *", "a ~/b", "a 'b", "a `b`", "a \\", "a &"] {
            check(shell, None);
        }
    }

    #[test]
    fn the_word_at_the_cursor_is_found() {
        let check = |text: &str, start: usize, value: &str, before: &[&str]| {
            let cursor = Cursor::read(text);
            assert_eq!((cursor.start, cursor.value.as_str()), (start, value), "{text}");
            assert_eq!(cursor.before, before, "{text}");
        };
        check("", 0, "", &[]);
        check("lla", 0, "lla", &[]);
        check("a -m ", 5, "", &["a", "-m"]);
        check("a -m 'x y/z", 5, "x y/z", &["a", "-m"]);
        check("cd /m && vllm serve Q", 20, "Q", &["vllm", "serve"]);
        check("a|", 2, "", &[]);
        check("é 界", 3, "界", &["é"]);
    }

    proptest! {
        #[test]
        fn what_is_joined_is_split_again(argv in prop::collection::vec("[ -~éä\\n\\t]{0,6}", 1..5)) {
            prop_assert_eq!(split(&join(&argv)), Some(argv));
        }
    }
}
