//! Text on its way to people: escaping, masking of secrets, shortening.
//!
//! Every layer calls it, and it calls none: a pure leaf. It never reads anything, never decides
//! what is shown, and never returns a control character from [`escape`] or a recognised secret
//! from the `mask_` functions.

mod mask;
#[cfg(test)]
pub(crate) mod noise;
mod plain;
mod scan;
mod secret;

use std::borrow::Cow;
use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

pub use mask::{MASK, command_line, is_secret, is_secret_name, mask_argv, mask_text};
pub use plain::plain_lines;

/// Returns the text with every character that could steer a terminal or reorder what is read made
/// visible: C0, DEL, C1, bidi controls, line and paragraph separators.
///
/// A newline becomes the two characters `\n`, ESC becomes `\x1b`, U+202E becomes `\u{202e}`. A
/// backslash stays as it is: the result is for eyes, not for parsing back.
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(is_steering) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    push_escaped(&mut out, text);
    Cow::Owned(out)
}

/// Returns bytes as text that is safe to show: as [`escape`] does, and with bytes that are not
/// UTF-8 as `\xNN`.
pub fn escape_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        push_escaped(&mut out, chunk.valid());
        for byte in chunk.invalid() {
            push_hex(&mut out, *byte);
        }
    }
    out
}

/// Returns JSON that means the same and holds none of the characters that [`escape`] makes visible: they are written
/// as `\u009b`. They can only stand inside of its strings; C0 was escaped by whoever wrote them.
pub fn escape_json(json: &str) -> Cow<'_, str> {
    let is_raw = |c: char| c == '\x7f' || (is_steering(c) && !c.is_ascii_control());
    if !json.contains(is_raw) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_raw(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing into a String cannot fail.
                let _infallible = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Returns the text, cut to a display width in columns; what was cut shows as `…`.
///
/// The width is the terminal's (wide characters take two columns), and the result never exceeds
/// it. Nothing fits into no columns: then the result is empty.
pub fn shorten(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let Some(room) = width.checked_sub(1) else {
        return String::new();
    };
    let mut used = 0;
    let mut end = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(1);
        if used > room {
            break;
        }
        end = at + c.len_utf8();
    }
    // A variation selector can make a sequence wider than the sum of its characters.
    while text[..end].width() > room {
        end = text[..end].char_indices().next_back().map_or(0, |(at, _)| at);
    }
    let mut out = text[..end].to_owned();
    out.push('…');
    out
}

fn is_steering(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn push_escaped(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\x1f' | '\x7f' => push_hex(out, c as u8),
            c if is_steering(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
}

fn push_hex(out: &mut String, byte: u8) {
    // Writing into a String cannot fail.
    let _infallible = write!(out, "\\x{byte:02x}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn steering_characters_become_visible() {
        let cases = [
            ("", ""),
            ("plain text, ümläut, 漢字, \\n stays", "plain text, ümläut, 漢字, \\n stays"),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\x1b]52;c;AAAA\x07", "\\x1b]52;c;AAAA\\x07"),
            ("\0\x7f", "\\x00\\x7f"),
            ("\u{80}\u{9b}31m\u{9f}", "\\u{80}\\u{9b}31m\\u{9f}"),
            ("\u{61c}\u{200e}\u{200f}", "\\u{61c}\\u{200e}\\u{200f}"),
            ("\u{202a}\u{202e}\u{2066}\u{2069}", "\\u{202a}\\u{202e}\\u{2066}\\u{2069}"),
            ("\u{2028}\u{2029}", "\\u{2028}\\u{2029}"),
            ("\u{200d}\u{2027}\u{202f}\u{2065}\u{206a}", "\u{200d}\u{2027}\u{202f}\u{2065}\u{206a}"),
        ];
        for (text, expected) in cases {
            assert_eq!(escape(text), expected, "{text:?}");
        }
        assert!(matches!(escape("plain"), Cow::Borrowed(_)), "plain text is not copied");
    }

    #[test]
    fn bytes_that_are_not_utf8_become_visible() {
        let cases: [(&[u8], &str); 5] = [
            (b"", ""),
            (b"a\xffb", "a\\xffb"),
            (b"\xc3\xa4", "ä"),
            (b"\xc3", "\\xc3"),
            (b"\x1b[2J\xe2\x80", "\\x1b[2J\\xe2\\x80"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(escape_bytes(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn json_says_the_same_without_steering_characters() {
        let all: String = ('\0'..=char::MAX).filter(|c| is_steering(*c)).collect();
        assert!(all.chars().count() > 70);
        for text in ["", "plain \\ \"ü\" 漢 😀", all.as_str(), "\\\u{9b}", "\u{7f}"] {
            let value = serde_json::json!({ text: [text, { "n": 1 }] });
            for json in [format!("{value}"), format!("{value:#}")] {
                let escaped = escape_json(&json);
                assert!(!escaped.contains(|c| is_steering(c) && c != '\n'), "{escaped:?}");
                assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).expect("still JSON"), value);
                assert_eq!(escape_json(&escaped), escaped);
            }
        }
        assert_eq!(escape_json("\"\u{9b}\u{202e}\""), r#""\u009b\u202e""#);
        assert!(matches!(escape_json("{\n}"), Cow::Borrowed(_)), "what is clean is not copied");
    }

    #[test]
    fn text_is_cut_to_its_display_width() {
        let cases = [
            ("", 0, ""),
            ("abc", 0, ""),
            ("abc", 1, "…"),
            ("abc", 2, "a…"),
            ("abc", 3, "abc"),
            ("漢字", 4, "漢字"),
            ("漢字", 3, "漢…"),
            ("漢字", 2, "…"),
            ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…"),
        ];
        for (text, width, expected) in cases {
            assert_eq!(shorten(text, width), expected, "{text:?} in {width}");
        }
    }

    proptest! {
        #[test]
        fn nothing_steering_survives(text in any::<String>(), bytes in any::<Vec<u8>>()) {
            prop_assert!(!escape(&text).contains(is_steering));
            prop_assert!(!escape_bytes(&bytes).contains(is_steering));
            let once = escape(&text).into_owned();
            prop_assert_eq!(escape(&once).into_owned(), once.clone());
            prop_assert_eq!(escape_bytes(text.as_bytes()), once);
        }

        #[test]
        fn json_means_the_same(text in any::<String>()) {
            let json = serde_json::Value::from(text.as_str()).to_string();
            let escaped = escape_json(&json);
            prop_assert!(!escaped.contains(is_steering));
            prop_assert_eq!(serde_json::from_str::<String>(&escaped).ok(), Some(text));
        }

        #[test]
        fn nothing_is_wider_than_asked(text in "[a漢\u{301}\u{fe0f}☀👩\u{200d}\u{1f3fd}\\n]{0,12}", width in 0_usize..14) {
            let cut = shorten(&text, width);
            prop_assert!(cut.width() <= width, "{:?} is {} wide", cut, cut.width());
            prop_assert_eq!(text.width() <= width, cut == text);
        }
    }
}
