//! The words of a command line, in the manner of a shell: enough to find a program and its flags.

use std::iter::Peekable;
use std::str::Chars;

/// Words of a shell that stand before a command, or after one.
const KEYWORDS: [&str; 10] = ["!", "do", "done", "elif", "else", "fi", "if", "then", "until", "while"];

/// Substitutions within others that are looked into.
const DEEPEST: usize = 16;

/// Returns the simple commands of a line for `sh -c`, each as its words. Quotes, backslashes and keywords are taken
/// off; variables and substitutions stay as they are written, and what a substitution runs comes last.
pub(super) fn commands(line: &str) -> Vec<Vec<String>> {
    let (mut all, mut lines) = (Vec::new(), vec![line.to_owned()]);
    for _ in 0..=DEEPEST {
        let mut inner = Vec::new();
        for line in &lines {
            all.extend(commands_of(line, &mut inner));
        }
        lines = inner;
    }
    all
}

/// Returns the commands of a line itself, and adds the lines that its substitutions run to `inner`.
fn commands_of(line: &str, inner: &mut Vec<String>) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' => word.get_or_insert_default().extend(chars.by_ref().take_while(|c| *c != '\'')),
            '"' => {
                let word = word.get_or_insert_default();
                while let Some(c) = chars.next().filter(|c| *c != '"') {
                    let escaped = c == '\\' && chars.peek().is_some_and(|next| "\"\\$`".contains(*next));
                    match c {
                        '$' | '`' => word.push_str(&expansion(c, &mut chars, inner)),
                        c => word.extend(if escaped { chars.next() } else { Some(c) }),
                    }
                }
            }
            '\\' => {
                // A line that goes on.
                if let Some(next) = chars.next().filter(|c| *c != '\n') {
                    word.get_or_insert_default().push(next);
                }
            }
            '$' | '`' => word.get_or_insert_default().push_str(&expansion(c, &mut chars, inner)),
            // `<(command)`, `>(command)`
            '(' if word.as_ref().is_some_and(|word| word.ends_with(['<', '>'])) => {
                word.get_or_insert_default().push_str(&expansion(c, &mut chars, inner));
            }
            // Within a word a brace is that of a variable.
            '{' | '}' if word.is_some() => word.get_or_insert_default().push(c),
            ';' | '&' | '|' | '\n' | '(' | ')' | '{' | '}' => {
                // A redirection such as `2>&1` is no end of a command.
                if c == '&' && word.as_ref().is_some_and(|word| word.ends_with('>')) {
                    word.get_or_insert_default().push(c);
                    continue;
                }
                push(&mut all, word.take());
                all.push(Vec::new());
            }
            c if c.is_whitespace() => push(&mut all, word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    push(&mut all, word);
    for words in &mut all {
        let before = words.iter().take_while(|word| KEYWORDS.contains(&word.as_str())).count();
        words.drain(..before);
    }
    all.retain(|words| !words.is_empty());
    all
}

/// Takes what a shell puts something in the place of, whole: `$(date)`, `${A:-b c}`, `` `date` ``. `first` is its first
/// character; the line that it runs is added to `inner`.
fn expansion(first: char, chars: &mut Peekable<Chars<'_>>, inner: &mut Vec<String>) -> String {
    let mut text = String::from(first);
    let open = if first == '$' { chars.next_if(|next| matches!(next, '(' | '{')) } else { Some(first) };
    if first == '$' {
        text.extend(open);
    }
    let close = match open {
        None => return text,
        Some('(') => ')',
        Some('{') => '}',
        Some(_) => '`',
    };
    let (begin, mut depth, mut quote) = (text.len(), 1_usize, None);
    while let Some(c) = chars.next() {
        text.push(c);
        match quote {
            _ if c == '\\' => text.extend(chars.next()),
            Some(quoting) if c == quoting => quote = None,
            None if c == close => depth -= 1,
            None if Some(c) == open => depth += 1,
            None if matches!(c, '\'' | '"') => quote = Some(c),
            Some(_) | None => {}
        }
        if depth == 0 {
            break;
        }
    }
    let body = &text[begin..];
    // `$((1 + 1))` runs nothing.
    if close != '}' && !body.starts_with('(') {
        inner.push(body.strip_suffix(close).unwrap_or(body).to_owned());
    }
    text
}

fn push(all: &mut [Vec<String>], word: Option<String>) {
    if let (Some(last), Some(word)) = (all.last_mut(), word) {
        last.push(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &[&[&str]]) {
        assert_eq!(commands(line), expected, "{line}");
    }

    #[test]
    fn a_line_falls_into_commands_and_words() {
        check("", &[]);
        check("a b  c", &[&["a", "b", "c"]]);
        check("cd /x && exec a 'b c' \"d \\\" e\" f\\ g", &[&["cd", "/x"], &["exec", "a", "b c", "d \" e", "f g"]]);
        check("a; b|c &\nd", &[&["a"], &["b"], &["c"], &["d"]]);
        check("a >/dev/null 2>&1", &[&["a", ">/dev/null", "2>&1"]]);
        check("a \\\n  --b", &[&["a", "--b"]]);
        check("a ''", &[&["a", ""]]);
        check("a ${X} $(b)", &[&["a", "${X}", "$(b)"], &["b"]]);
        check("a $(b \"c d\" `e`) f; g", &[&["a", "$(b \"c d\" `e`)", "f"], &["g"], &["b", "c d", "`e`"], &["e"]]);
        check(
            "a \"$(b \"c\")/d\" ${X:-e f} $((1 + 2))",
            &[&["a", "$(b \"c\")/d", "${X:-e f}", "$((1 + 2))"], &["b", "c"]],
        );
        check("a > >(b c) <(d)", &[&["a", ">", ">(b c)", "<(d)"], &["b", "c"], &["d"]]);
        check("a $(b", &[&["a", "$(b"], &["b"]]);
        check("{ a; }", &[&["a"]]);
        check("while ! a b; do sleep 1; done", &[&["a", "b"], &["sleep", "1"]]);
        check("if a; then b; elif c; then d; else e; fi > x", &[&["a"], &["b"], &["c"], &["d"], &["e"], &[">", "x"]]);
        check("for i in 1 2\ndo\nA=1 a && break\ndone", &[&["for", "i", "in", "1", "2"], &["A=1", "a"], &["break"]]);
        check("echo if then", &[&["echo", "if", "then"]]);
        check("a 'never ends", &[&["a", "never ends"]]);
    }
}
