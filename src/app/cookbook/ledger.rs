//! `containment_grants.json` and `bg_jobs.json`: processes that Cookbook has written down. Pure.
//!
//! They are Cookbook's to end. What is said about them here is whether a pid still means what it meant.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lifecycle::identity::{Pid, StartToken};
use crate::lifecycle::verdict::{Verdict, VerdictKind};
use crate::text;

/// The files, in the order in which they are shown.
pub const FILES: [&str; 2] = ["containment_grants.json", "bg_jobs.json"];

/// A process that Cookbook has written down.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Key of the record.
    pub id: String,
    /// What it is for.
    pub what: String,
    /// The process.
    pub pid: Option<Pid>,
    /// When it had started, as it is written.
    pub token: Option<String>,
    /// It is over, as far as Cookbook knows.
    pub over: bool,
}

/// A claim with what is known of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimed {
    /// Which file.
    pub file: String,
    /// Key of the record.
    pub id: String,
    /// What it is for.
    pub what: String,
    /// The process.
    pub pid: Option<Pid>,
    /// When it had started, as it is written.
    pub start_token: Option<String>,
    /// What is known of its identity now.
    pub verdict: VerdictKind,
    /// Why, in words.
    pub reason: String,
}

/// Reads one of the files.
///
/// # Errors
/// Says what is wrong with a text that is not one of them.
pub fn parse(text: &str) -> Result<Vec<Claim>, String> {
    let records: BTreeMap<String, Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Ok(records.into_iter().map(|(id, record)| claim(id, &record)).collect())
}

fn claim(id: String, record: &Value) -> Claim {
    let text = |key: &str| record[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let what = text("command").or_else(|| text("owner")).unwrap_or_default();
    let ended = text("status").is_some_and(|status| status != "running");
    let survivors = record["release"]["survivors"].as_array().is_some_and(|left| !left.is_empty());
    Claim {
        id,
        what: text::mask_text(&what).into_owned(),
        pid: record["pid"].as_i64().and_then(|raw| Pid::try_from(raw).ok()),
        token: text("start_token"),
        over: (ended || !record["released_at"].is_null()) && !survivors,
    }
}

/// Reads a start token that Cookbook has written.
///
/// # Errors
/// With the verdict on one that cannot be compared.
pub fn token_of(token: Option<&str>) -> Result<StartToken, Verdict> {
    let Some(token) = token else {
        return Err(Verdict::new(VerdictKind::Unverifiable, "no start was recorded"));
    };
    if token.strip_prefix("procfs:").is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit())) {
        return Err(Verdict::new(
            VerdictKind::Foreign,
            "recorded by an old version without its boot: it matches nobody",
        ));
    }
    if token.starts_with("win32:") {
        return Err(Verdict::new(VerdictKind::Unverifiable, "recorded on Windows: it cannot be compared here"));
    }
    token.parse().map_err(|_| Verdict::new(VerdictKind::Unverifiable, "its start is not in a known form"))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_token_is_judged() {
        use VerdictKind::{Foreign, Unverifiable};
        for (token, expected) in [
            (Some("procfs:0f0d-1:42"), None),
            (Some("ps:Sun Nov  9 1"), None),
            (Some("procfs:42"), Some(Foreign)),
            (Some("win32:133500000000000000"), Some(Unverifiable)),
            (Some("procfs:"), Some(Unverifiable)),
            (Some("procfs:x"), Some(Unverifiable)),
            (Some("ps:"), Some(Unverifiable)),
            (Some("42"), Some(Unverifiable)),
            (None, Some(Unverifiable)),
        ] {
            assert_eq!(token_of(token).err().map(|verdict| verdict.kind), expected, "{token:?}");
        }
    }

    #[test]
    fn grants_and_jobs_are_read_and_their_secrets_masked() {
        let grants = r#"{"g2": {"owner": "agent", "pid": 42, "start_token": "procfs:b:1", "released_at": 5, "release": {"survivors": [42]}},
            "g1": {"owner": "agent", "pid": -1, "released_at": 5, "release": {"survivors": []}}}"#;
        let claims = parse(grants).unwrap();
        let seen: Vec<_> = claims.iter().map(|claim| (claim.id.as_str(), claim.pid.is_some(), claim.over)).collect();
        assert_eq!(seen, [("g1", false, true), ("g2", true, false)]);
        let jobs = r#"{"j": {"command": "x --token abcdefgh", "status": "running", "pid": 7}, "k": {"status": "done", "pid": 8}, "l": 3}"#;
        let claims = parse(jobs).unwrap();
        assert_eq!(claims.iter().map(|claim| claim.over).collect::<Vec<_>>(), [false, true, false]);
        assert!(!claims[0].what.contains("abcdefgh"), "{}", claims[0].what);
        for bad in ["", "[]", "{\"a\": }", "7"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
