//! Quoting for the three readers between us and a program: tmux's command parser, its format
//! expansion, and sh(1). Pure.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Escapes an argument for tmux's own argument vector, where a trailing `;` ends a command
/// (tmux(1), "COMMAND PARSING AND EXECUTION").
pub(super) fn argument(text: &OsStr) -> OsString {
    match text.as_bytes().strip_suffix(b";") {
        Some(head) => OsString::from_vec([head, br"\;"].concat()),
        None => text.to_owned(),
    }
}

/// Returns a line that makes sh(1) replace itself by the program, after tmux has expanded the line as
/// a format and by strftime(3), as `pipe-pane` does.
pub(super) fn expanded_shell_line(argv: &[OsString]) -> OsString {
    let mut line = b"exec".to_vec();
    for word in argv {
        line.extend_from_slice(b" '");
        for byte in word.as_bytes() {
            match byte {
                b'\'' => line.extend_from_slice(br"'\''"),
                // Apart from what follows: "##[" is the start of a style and would stay as it is.
                b'#' => line.extend_from_slice(b"##''"),
                b'%' => line.extend_from_slice(b"%%"),
                _ => line.push(*byte),
            }
        }
        line.push(b'\'');
    }
    OsString::from_vec(line)
}

/// Returns a text that comes out as it is after tmux has expanded it as a format and by strftime(3), as
/// `display-message` does: nothing in it is a variable, a style or a command. Styles have no escape, so their
/// opening bracket is set apart.
pub(super) fn expanded_text(text: &str) -> OsString {
    text.replace("#[", "# [").replace('#', "##").replace('%', "%%").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailing_semicolon_is_kept_from_tmux() {
        for (text, quoted) in
            [("", ""), ("a", "a"), (";", r"\;"), ("a;", r"a\;"), ("a;b", "a;b"), (r"a\;", r"a\\;"), (";;", r";\;")]
        {
            assert_eq!(argument(OsStr::new(text)), quoted);
        }
    }

    #[test]
    fn texts_hold_no_formats() {
        for (text, quoted) in [("a", "a"), ("#(touch f)", "##(touch f)"), ("5%H", "5%%H"), ("#[x]", "## [x]")] {
            assert_eq!(expanded_text(text), quoted);
        }
    }

    #[test]
    fn shell_lines_are_quoted_for_all_readers() {
        let line = |words: &[&str]| expanded_shell_line(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(line(&["cat", "/a b"]), "exec 'cat' '/a b'");
        assert_eq!(line(&["a'b"]), r"exec 'a'\''b'");
        assert_eq!(line(&["#[x]#(y)"]), "exec '##''[x]##''(y)'");
        assert_eq!(line(&["%H"]), "exec '%%H'");
        assert_eq!(line(&["", "$HOME `id`"]), "exec '' '$HOME `id`'");
    }
}
