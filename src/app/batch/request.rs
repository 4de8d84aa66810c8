//! A line of a batch: what it asks for, or what is wrong with it. Pure.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::app::command::Command;
use crate::app::error::{AppError, ErrorKind};

/// What a request is called; it comes back byte for byte, so a number of any size stays itself.
pub(super) type Id = Box<RawValue>;

pub(super) fn no_id() -> Id {
    RawValue::NULL.to_owned()
}

/// A line that could be read.
pub(super) struct Request {
    /// What its answer is called.
    pub(super) id: Id,
    /// The next line does not wait for it.
    pub(super) run_async: bool,
    /// What it asks for.
    pub(super) command: Command,
}

/// The part of a request whose bytes count.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

impl Request {
    /// Reads a line.
    ///
    /// # Errors
    /// Names what is wrong with it, for an answer to the id that it has.
    pub(super) fn parse(line: &str) -> Result<Self, (Id, AppError)> {
        let usage = |message: String| AppError::new(ErrorKind::Usage, message);
        // The end of the line is none of its columns.
        let line = line.trim_end();
        if line.starts_with('\u{feff}') {
            return Err((no_id(), usage("it begins with a byte order mark: write UTF-8 without one".into())));
        }
        let value: Value = serde_json::from_str(line).map_err(|error| (no_id(), usage(not_json(&error))))?;
        let Value::Object(mut fields) = value else {
            return Err((no_id(), usage("a request is an object such as {\"id\": 1, \"cmd\": \"list\"}".into())));
        };
        let envelope: Option<Envelope<'_>> = serde_json::from_str(line).ok();
        let id = envelope.and_then(|envelope| envelope.id).map_or_else(no_id, ToOwned::to_owned);
        if let Some(key) = twice(line) {
            return Err((id, usage(format!("{key:?} is there twice; nothing was done"))));
        }
        fields.remove("id");
        let run_async = match fields.remove("async") {
            None => false,
            Some(Value::Bool(run_async)) => run_async,
            Some(_) => return Err((id, usage("async must be true or false".into()))),
        };
        match command(fields) {
            Ok(command) => Ok(Self { id, run_async, command }),
            Err(message) => Err((id, usage(message))),
        }
    }
}

/// Says where and why a line is no JSON. It is one line: only its column tells more.
fn not_json(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let why = text.rsplit_once(" at line ").map_or(text.as_str(), |(why, _)| why);
    let why = if error.is_eof() { "it ends too early" } else { why };
    format!("not JSON: {why}, at column {}", error.column())
}

/// Returns a key that an object of a request has twice: nobody can tell which of the two was meant. An id is whatever
/// it is.
fn twice(line: &str) -> Option<String> {
    let mut found = None;
    let mut deserializer = serde_json::Deserializer::from_str(line);
    // That it is JSON is known.
    Twice { found: &mut found, is_request: true }.deserialize(&mut deserializer).ok();
    found
}

/// Walks through a value and leaves the first key that is there twice.
struct Twice<'a> {
    found: &'a mut Option<String>,
    is_request: bool,
}

impl<'de> DeserializeSeed<'de> for Twice<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Twice<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if self.is_request && key == "id" {
                map.next_value::<IgnoredAny>()?;
            } else {
                map.next_value_seed(Twice { found: &mut *self.found, is_request: false })?;
            }
            if !seen.insert(key.clone()) {
                self.found.get_or_insert(key);
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Twice { found: &mut *self.found, is_request: false })?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

fn command(mut fields: Map<String, Value>) -> Result<Command, String> {
    match fields.remove("cmd") {
        Some(Value::String(name)) => Command::parse(&name, fields),
        Some(_) => Err("cmd must be a string".into()),
        None => Err("cmd is missing".into()),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use crate::text::noise::{cases, damaged};

    use super::super::{failure, success};
    use super::*;

    fn check(line: &str, expected: &str) {
        let error = Request::parse(line).map(|request| request.command).unwrap_err().1;
        assert_eq!(error.kind, ErrorKind::Usage);
        assert!(error.message.contains(expected), "{line}: {}", error.message);
    }

    #[test]
    fn wrong_lines_name_what_is_wrong() {
        check("{", "not JSON: it ends too early, at column 1");
        check("{\n", "not JSON: it ends too early, at column 1");
        check("{\"cmd\": x}", "not JSON: expected value, at column 9");
        check("\u{feff}{\"cmd\": \"list\"}", "byte order mark");
        check("[]", "a request is an object");
        check("{}", "cmd is missing");
        check(r#"{"cmd": 1}"#, "cmd must be a string");
        check(r#"{"cmd": "frobnicate"}"#, "frobnicate");
        check(r#"{"cmd": "stop", "session": "x", "grce_s": 1}"#, "grce_s");
        check(r#"{"cmd": "stop"}"#, "session");
        check(r#"{"cmd": "list", "async": 1}"#, "async");
        check(r#"{"cmd": "list", "x": 1}"#, "x");
        check(r#"{"cmd": "launch", "command": 5}"#, "command");
    }

    #[test]
    fn what_is_there_twice_is_named() {
        check(r#"{"id": 1, "id": 2, "cmd": "list"}"#, "\"id\" is there twice");
        check(r#"{"cmd": "stop", "session": "x", "cmd": "list"}"#, "\"cmd\" is there twice");
        check(r#"{"cmd": "stop", "session": "x", "session": "y"}"#, "\"session\" is there twice");
        check(r#"{"cmd": "launch", "command": "true", "env": {"A": "1", "A": "2"}}"#, "\"A\" is there twice");
        check(r#"{"cmd": "stop", "session": "x", "confirm": [{"pid": 1, "p\u0069d": 2}]}"#, "\"pid\" is there twice");
        // Each in an object of its own, and whatever an id holds.
        let line = r#"{"id": {"a": 1, "a": 2}, "cmd": "launch", "command": "true", "env": {"command": "x"}}"#;
        assert!(Request::parse(line).is_ok());
    }

    #[test]
    fn ids_come_back_whatever_they_are() {
        for id in ["1", "null", "\"x\"", "{\"a\":[1]}", "123456789012345678901234567890", "1.50"] {
            let request = Request::parse(&format!(r#"{{"id": {id}, "cmd": "list"}}"#)).map_err(|(_, e)| e).unwrap();
            assert_eq!(request.id.get(), id);
            assert!(success(&request.id, &json!({})).starts_with(&format!("{{\"id\":{id},\"ok\":true")));
            let (id_of_bad, _) = Request::parse(&format!(r#"{{"id": {id}, "cmd": "x"}}"#)).err().unwrap();
            assert_eq!(id_of_bad.get(), id);
        }
    }

    proptest! {
        #![proptest_config(cases(300))]

        /// Every line is a request, or an error that a person can read.
        #[test]
        fn any_line_is_a_request_or_an_error(bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..80),
            damaged(br#"{"id": [1, {"a": null}], "cmd": "stop", "session": "serve-0123abcd", "grace_s": 1.5, "async": true}"#.to_vec()),
            damaged(br#"{"cmd": "launch", "command": ["sh", "-c", "x"], "env": {"A": "b"}, "rows": 24, "cols": 80, "host": "pty"}"#.to_vec()),
        ]) {
            if let Err((id, error)) = Request::parse(&String::from_utf8_lossy(&bytes)) {
                prop_assert!(!error.message.is_empty());
                let answer: Value = serde_json::from_str(&failure(&id, &error)).unwrap();
                prop_assert_eq!(&answer["ok"], &json!(false));
            }
        }
    }
}
