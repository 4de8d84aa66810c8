//! What is wrong with a request, in plain words: serde names the types of Rust, which nobody has who writes one. Pure.

use std::borrow::Cow;

use super::config::nearest_word;

/// Returns what serde says of a value in plain words; what it does not know stays as it is. `noun` is what a word is
/// that is none of those that can stand there.
pub(super) fn plain(said: &str, noun: &str) -> String {
    let wrong = said.strip_prefix("invalid type: ").or_else(|| said.strip_prefix("invalid value: "));
    if let Some((found, expected)) = wrong.and_then(|wrong| wrong.rsplit_once(", expected ")) {
        return format!("must be {}, found {}", self::expected(expected), self::found(found));
    }
    if let Some(rest) = said.strip_prefix("unknown variant ") {
        return unknown(rest, noun);
    }
    if let Some(rest) = said.strip_prefix("unknown field ") {
        return unknown(rest, "field");
    }
    said.to_owned()
}

/// Says of which field something is said. A name that somebody chose stands before no colon: what follows would be taken
/// for its value, and be masked where the name is that of a secret.
pub(super) fn of_field(field: &str, why: &str) -> String {
    match (why.starts_with("must be "), why.starts_with("unknown field "), field.rsplit_once('.')) {
        (true, ..) => format!("{field} {why}"),
        (_, true, None) => why.to_owned(),
        (_, true, Some((within, _))) => format!("{within}: {why}"),
        (..) => format!("{field}: {why}"),
    }
}

/// Says which word is none, and which one was probably meant: `` `x`, expected one of `a`, `b` ``.
fn unknown(rest: &str, noun: &str) -> String {
    // The known words have no such mark in them, the unknown one may have.
    let end = rest.rfind("`, expected ").or_else(|| rest.rfind("`, there are no ")).unwrap_or(rest.len());
    let (word, known) = rest.split_at(end);
    let word = word.trim_start_matches('`');
    let known: Vec<&str> = known.split('`').skip(2).step_by(2).collect();
    match nearest_word(word, &known) {
        Some(near) => format!("unknown {noun} {word:?}; the nearest is {near:?}"),
        None if known.is_empty() => format!("unknown {noun} {word:?}; there are none"),
        None => format!("unknown {noun} {word:?}; known are {}", known.join(", ")),
    }
}

fn expected(of: &str) -> Cow<'_, str> {
    let plain = match of {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" | "u64" | "usize" => "a whole number from 0",
        "i32" | "i64" => "a whole number",
        "f64" => "a number",
        "a string" | "string" => "a text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        of if of.starts_with("struct ") => "an object",
        of => return Cow::Borrowed(of),
    };
    Cow::Borrowed(plain)
}

fn found(what: &str) -> String {
    let number = ["integer `", "floating point `", "boolean `"].iter().find_map(|kind| what.strip_prefix(kind));
    if let Some(number) = number {
        return number.trim_end_matches('`').to_owned();
    }
    match what {
        "null" | "unit value" => "null".to_owned(),
        "sequence" => "a list".to_owned(),
        "map" => "an object".to_owned(),
        what => what.strip_prefix("string ").unwrap_or(what).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use crate::app::command::Command;

    fn check(name: &str, fields: Value, expected: &str) {
        let Value::Object(fields) = fields else { return assert_eq!(fields, json!({})) };
        assert_eq!(Command::parse(name, fields), Err(expected.to_owned()));
    }

    #[test]
    fn nobody_reads_the_types_of_rust() {
        let session = |field: &str, value: Value| {
            let mut fields = Map::from_iter([("session".to_owned(), json!("x"))]);
            fields.insert(field.to_owned(), value);
            Value::Object(fields)
        };
        let size = "resize: rows must be a whole number from 0 to 65535, found";
        check("resize", session("rows", json!("x")), &format!("{size} \"x\""));
        check("resize", session("rows", json!(-1)), &format!("{size} -1"));
        check("resize", session("rows", json!(65536)), &format!("{size} 65536"));
        check("resize", session("rows", json!(1.5)), &format!("{size} 1.5"));
        check("resize", session("rows", json!(null)), &format!("{size} null"));
        check("resize", session("rows", json!([1])), &format!("{size} a list"));
        check(
            "screen",
            session("scrollback", json!({})),
            "screen: scrollback must be a whole number from 0, found an object",
        );
        check("stop", session("grace_s", json!(true)), "stop: grace_s must be a number, found true");
        check(
            "stop",
            session("force", json!("a, expected b")),
            "stop: force must be true or false, found \"a, expected b\"",
        );
        check("send", session("keys", json!("x")), "send: keys must be a list, found \"x\"");
        check("stop", json!({"session": 5}), "stop: session must be a text, found 5");
        check("stop", session("grce_s", json!(1)), "stop: unknown field \"grce_s\"; the nearest is \"grace_s\"");
        check("tree", session("x", json!(1)), "tree: unknown field \"x\"; known are session");
        check("doctor", json!({"x": 1}), "doctor: unknown field \"x\"; there are none");
        check("launch", json!({"kind": "server"}), "launch: kind: unknown word \"server\"; the nearest is \"serve\"");
        check("launch", json!({"host": "xyzzy"}), "launch: host: unknown word \"xyzzy\"; known are pty, tmux");
        check(
            "launch",
            json!({"host": "a`, expected b"}),
            "launch: host: unknown word \"a`, expected b\"; known are pty, tmux",
        );
        check("launch", json!({"env": {"HF_TOKEN": 3}}), "launch: env.HF_TOKEN must be a text, found 3");
        check(
            "adopt",
            json!({"tmux": {"api_key": 1}}),
            "adopt: tmux: unknown field \"api_key\"; known are socket, session",
        );
        check("helo", json!({}), "unknown command \"helo\"; the nearest is \"hello\"");
        check("stop", json!({}), "stop: missing field `session`");
        check(
            "launch",
            json!({"command": 5}),
            "launch: command: command must be a string for sh -c or a list of strings",
        );
    }
}
