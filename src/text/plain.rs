//! Plain text out of what was printed to a terminal. Pure.

/// Returns the lines of a terminal's output without escape sequences; of a line that was redrawn with
/// carriage returns, what was written last. Bytes that are not UTF-8 become U+FFFD.
pub fn plain_lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines: Vec<String> = strip(&text).split('\n').map(last_drawn).collect();
    if lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

fn last_drawn(line: &str) -> String {
    let line = line.trim_end_matches('\r');
    line.rsplit('\r').next().unwrap_or_default().to_owned()
}

/// Removes CSI, OSC, DCS and other escape sequences and all controls but newline, return and tab (ECMA-48).
fn strip(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => match chars.next() {
                Some('[') => drop(chars.by_ref().find(|c| ('@'..='~').contains(c))),
                // A string ends with BEL or ST, and never runs over the end of its line.
                Some(']' | 'P' | 'X' | '^' | '_') => {
                    while let Some(c) = chars.next_if(|c| *c != '\n') {
                        if c == '\u{7}' || (c == '\u{1b}' && chars.next_if_eq(&'\\').is_some()) {
                            break;
                        }
                    }
                }
                Some(' '..='/') => drop(chars.next()),
                Some(_) | None => {}
            },
            '\n' | '\r' | '\t' => plain.push(c),
            c if c.is_control() => {}
            c => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: &[&str]) {
        assert_eq!(plain_lines(bytes), expected);
    }

    #[test]
    fn sequences_go_and_text_stays() {
        check(b"", &[]);
        check(b"a\r\nb\n", &["a", "b"]);
        check(b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07x\x1b]8;;u\x1b\\y\n", &["red xy"]);
        check(b"10%\r20%\r30%\r\n", &["30%"]);
        check(b"\x1b(Bq\x07\x08w", &["qw"]);
        check(b"half \x1b[", &["half "]);
        check(b"\x1b]0;never ends\nnext", &["", "next"]);
        check(b"\xff", &["\u{fffd}"]);
        check("模\t型".as_bytes(), &["模\t型"]);
    }
}
