//! `cookbook_state.json`: its tasks, its presets, and one change to it. Pure.
//!
//! Cookbook's own writers know no lock, and keep more in the file than is known here. A change therefore goes into the
//! text itself: the value of one `status` is cut out and another one put in, and every other byte stays.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::app::contract::{Kind, Phase};

/// What a stopped task has for a status.
const STOPPED: &str = "\"stopped\"";

/// The file as far as it concerns us.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Its tasks, in its order, without those that it has removed.
    pub tasks: Vec<Task>,
    /// Its presets, in its order.
    pub presets: Vec<Preset>,
    /// Entries that are not shaped like tasks or presets; they stay in the file as they are.
    pub odd: usize,
}

impl State {
    /// Says that there are entries which are not shaped like tasks or presets, where there are any.
    pub fn oddities(&self, path: &Path) -> Option<String> {
        let path = path.display();
        match self.odd {
            0 => None,
            1 => Some(format!("one entry of {path} is neither a task nor a preset; it stays as it is")),
            odd => Some(format!("{odd} entries of {path} are neither tasks nor presets; they stay as they are")),
        }
    }
}

/// A task: the name of a tmux session, and what Cookbook says of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Name of the tmux session.
    pub session: String,
    /// Name for people.
    pub name: String,
    /// `serve` or `download`.
    pub kind: Kind,
    /// What Cookbook says.
    pub status: String,
    /// The machine it runs on; empty for this one.
    pub remote: String,
    /// The command; may hold secrets.
    pub command: String,
}

/// A way to serve a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preset {
    /// Its name.
    pub name: String,
    /// The line that serves it; may hold secrets.
    pub command: String,
    /// The machine it is for; empty for this one.
    pub remote: String,
    /// `fields.venv`: a virtual environment, its `bin/activate`, or a conda environment.
    pub venv: String,
    /// `fields.gpus`: device numbers.
    pub gpus: String,
    /// `fields.extra_env`: assignments that stand before the command, separated by blanks.
    pub env: String,
}

/// What became of the wish to mark a task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Change {
    /// The text of the file with the task marked.
    Text(String),
    /// It says already how the task ended.
    Over(String),
    /// There is no such task, or Cookbook has removed it.
    Missing,
}

impl Task {
    /// Tells whether Cookbook says that it is over.
    pub fn is_over(&self) -> bool {
        is_over(&self.status)
    }

    /// Returns how far Cookbook says that it has come, where nothing of it is to be seen here.
    pub fn claimed(&self) -> Phase {
        match self.status.as_str() {
            "queued" => Phase::Queued,
            "crashed" | "error" | "failed" => Phase::Failed,
            _ if self.is_over() => Phase::Exited,
            _ => Phase::Unverifiable,
        }
    }
}

fn is_over(status: &str) -> bool {
    ["stopped", "done", "completed", "crashed", "error", "failed", "ended", "killed", "cancelled"].contains(&status)
}

/// Reads the file.
///
/// # Errors
/// Says what is wrong with a text that is not JSON, or not shaped like Cookbook's.
pub fn parse(text: &str) -> Result<State, String> {
    let shape = Shape::parse(text)?;
    let removed = shape.removed();
    let mut state = State::default();
    for (_, raw) in &shape.tasks.0 {
        match task(raw.get()) {
            Some(task) if removed.contains(task.session.as_str()) => {}
            Some(task) => state.tasks.push(task),
            None => state.odd += 1,
        }
    }
    for (_, raw) in &shape.presets.0 {
        match preset(raw.get()) {
            Some(preset) => state.presets.push(preset),
            None => state.odd += 1,
        }
    }
    Ok(state)
}

/// Marks the task of a tmux session as stopped. One that is over keeps the status that it has.
///
/// # Errors
/// As for [`parse`].
pub fn mark_stopped(text: &str, session: &str) -> Result<Change, String> {
    let shape = Shape::parse(text)?;
    if shape.removed().contains(session) {
        return Ok(Change::Missing);
    }
    let (mut cuts, mut over) = (Vec::new(), None);
    for (_, raw) in &shape.tasks.0 {
        let Some(task) = task(raw.get()).filter(|task| task.session == session) else { continue };
        if task.is_over() {
            over = Some(task.status);
            continue;
        }
        let fields: Entries<'_> = serde_json::from_str(raw.get()).map_err(|error| error.to_string())?;
        let status = fields.0.iter().rev().find(|(key, _)| key.as_deref() == Some("status"));
        cuts.push(match status {
            Some((_, value)) => (offset(text, value.get()), value.get().len(), STOPPED.to_owned()),
            None => (offset(text, raw.get()) + 1, 0, format!("\"status\": {STOPPED}, ")),
        });
    }
    if cuts.is_empty() {
        return Ok(over.map_or(Change::Missing, Change::Over));
    }
    let mut changed = text.to_owned();
    cuts.sort_unstable_by(|a, b| b.cmp(a));
    for (at, length, new) in cuts {
        changed.replace_range(at..at + length, &new);
    }
    Ok(Change::Text(changed))
}

/// Returns where a part of a text begins.
fn offset(text: &str, part: &str) -> usize {
    part.as_ptr().addr() - text.as_ptr().addr()
}

/// The file, with everything that is not looked at left as it is written.
#[derive(Deserialize)]
struct Shape<'a> {
    #[serde(borrow, default)]
    tasks: Entries<'a>,
    #[serde(borrow, default)]
    presets: Entries<'a>,
    #[serde(borrow, default, rename = "removedTasks")]
    removed: Entries<'a>,
}

impl<'a> Shape<'a> {
    fn parse(text: &'a str) -> Result<Self, String> {
        // Of an array, serde would take the fields in their order.
        if !text.trim_start().starts_with('{') {
            return Err("it is no JSON object".into());
        }
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    fn removed(&self) -> BTreeSet<&str> {
        self.removed.0.iter().filter_map(|(key, _)| key.as_deref()).collect()
    }
}

/// The values of a list or, as older versions have it, of a dictionary; each where it stands in the text.
#[derive(Default)]
struct Entries<'a>(Vec<(Option<String>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListOrDictionary).map(Entries)
    }
}

struct ListOrDictionary;

impl<'de> Visitor<'de> for ListOrDictionary {
    type Value = Vec<(Option<String>, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list or a dictionary")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(value) = list.next_element()? {
            entries.push((None, value));
        }
        Ok(entries)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut dictionary: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = dictionary.next_entry::<String, _>()? {
            entries.push((Some(key), value));
        }
        Ok(entries)
    }
}

/// The fields of a task that are looked at; the others may hold text that is not even Unicode.
#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[derive(Default)]
struct RawTask<'a> {
    id: Value,
    session_id: Value,
    name: Value,
    model_id: Value,
    repo_id: Value,
    repo: Value,
    r#type: Value,
    status: Value,
    remote_host: Value,
    /// Some have none, or a text in its place.
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPayload {
    #[serde(rename = "_cmd")]
    cmd: Value,
    remote_host: Value,
}

fn text_of(values: &[&Value]) -> String {
    let mut texts = values.iter().filter_map(|value| value.as_str()).filter(|text| !text.trim().is_empty());
    texts.next().unwrap_or_default().to_owned()
}

fn task(raw: &str) -> Option<Task> {
    let raw: RawTask<'_> = serde_json::from_str(raw).ok()?;
    // Of a list, serde would take the fields in their order.
    let payload = raw.payload.map(RawValue::get).filter(|payload| payload.starts_with('{'));
    let payload: RawPayload = payload.and_then(|payload| serde_json::from_str(payload).ok()).unwrap_or_default();
    let session = text_of(&[&raw.session_id, &raw.id]);
    if session.is_empty() {
        return None;
    }
    let kind = match raw.r#type.as_str() {
        Some("serve") => Kind::Serve,
        Some("download") => Kind::Download,
        _ if session.starts_with("serve-") => Kind::Serve,
        _ => Kind::Download,
    };
    let name = text_of(&[&raw.name, &raw.model_id, &raw.repo_id, &raw.repo]);
    Some(Task {
        name: if name.is_empty() { session.clone() } else { name },
        session,
        kind,
        status: text_of(&[&raw.status]),
        remote: text_of(&[&raw.remote_host, &payload.remote_host]),
        command: text_of(&[&payload.cmd]),
    })
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPreset {
    name: Value,
    label: Value,
    model: Value,
    model_id: Value,
    cmd: Value,
    remote_host: Value,
    host: Value,
    fields: Value,
}

fn preset(raw: &str) -> Option<Preset> {
    let raw: RawPreset = serde_json::from_str(raw).ok()?;
    let (name, command) = (text_of(&[&raw.name, &raw.label, &raw.model, &raw.model_id]), text_of(&[&raw.cmd]));
    let remote = text_of(&[&raw.remote_host, &raw.host]);
    let field = |names: &[&str]| {
        let found: Vec<&Value> = names.iter().filter_map(|name| raw.fields.get(name)).collect();
        text_of(&found).trim().to_owned()
    };
    // A list of devices is not always written as text.
    let listed = raw.fields.get("gpus").and_then(Value::as_array);
    let listed = listed.map(|list| list.iter().map(Value::to_string).collect::<Vec<_>>().join(","));
    let gpus = listed.unwrap_or_else(|| field(&["gpus", "_gpus"]));
    let (venv, env) = (field(&["venv", "envPath", "env_path", "_envPath"]), field(&["extra_env"]));
    (!name.is_empty() && !command.is_empty()).then_some(Preset { name, command, remote, venv, gpus, env })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use crate::text::noise::{cases, damaged};

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const FILE: &str = r#"{
  "tasks": [
    {"id": "serve-0000000a", "sessionId": "serve-0000000a", "name": "Qwen", "type": "serve", "status": "running",
     "output": "caf\u00e9 \ud800 é", "_new": {"b": 1, "a": [1.50, 1e400, 12345678901234567890123]}, "ts": 1700000000123,
     "payload": {"_cmd": "vllm serve Qwen --api-key abc", "port": 8000, "hf_token": "hf_x"}},
    {"id": "cookbook-0000000b", "type": "download", "repoId": "org/m", "remoteHost": "gpu1", "status":   null  },
    {"sessionId": "serve-0000000c", "status": "done"},
    {"sessionId": "serve-0000000d", "type": "serve"},
    {"sessionId": "serve-0000000e", "status": "running"},
    "what is this", {"name": "no session"}
  ],
  "presets": [{"name": "p", "cmd": "vllm serve x", "port": 8000, "fields": {"z": 1}}, {"name": "r", "cmd": "ollama serve", "host": "gpu1"}, {}],
  "removedTasks": {"serve-0000000e": 1700000000000},
  "serveState": {"x": [ 1,2 ]}, "zz": null
}
"#;

    fn sessions(state: &State) -> Vec<&str> {
        state.tasks.iter().map(|task| task.session.as_str()).collect()
    }

    #[test]
    fn tasks_are_read_from_a_list_and_from_a_dictionary() {
        let state = parse(FILE).unwrap();
        assert_eq!(sessions(&state), ["serve-0000000a", "cookbook-0000000b", "serve-0000000c", "serve-0000000d"]);
        assert_eq!(state.odd, 3);
        let first = &state.tasks[0];
        let seen = (first.name.as_str(), first.kind, first.status.as_str(), first.remote.as_str());
        assert_eq!(seen, ("Qwen", Kind::Serve, "running", ""));
        let second = &state.tasks[1];
        assert_eq!((second.name.as_str(), second.kind, second.remote.as_str()), ("org/m", Kind::Download, "gpu1"));
        assert_eq!(state.presets.len(), 2);
        assert_eq!((state.presets[1].name.as_str(), state.presets[1].remote.as_str()), ("r", "gpu1"));
        let legacy = r#"{"tasks": {"x": {"sessionId": "serve-0000000a"}, "a": {"id": "serve-0000000b"}}}"#;
        assert_eq!(sessions(&parse(legacy).unwrap()), ["serve-0000000a", "serve-0000000b"]);
        for nothing in ["{}", r#"{"tasks": null}"#, r#" {"tasks": [], "presets": {}}"#] {
            assert_eq!(parse(nothing).unwrap(), State::default(), "{nothing}");
        }
    }

    #[test]
    fn a_task_without_a_payload_is_one() {
        for payload in ["null", r#""vllm serve x""#, "7", r#"["vllm serve x"]"#, "{}", r#"{"_cmd": "\ud800"}"#] {
            let task =
                r#"{"id":"serve-000000aa","type":"serve","status":"running","name":"x","remoteHost":"gpu1","payload":"#;
            let text = format!(r#"{{"tasks":[{task}{payload}}}]}}"#);
            let state = parse(&text).unwrap();
            assert_eq!((sessions(&state), state.odd), (vec!["serve-000000aa"], 0), "{payload}");
            let task = &state.tasks[0];
            let seen = (task.name.as_str(), task.remote.as_str(), task.command.as_str());
            assert_eq!(seen, ("x", "gpu1", ""), "{payload}");
            assert!(matches!(mark_stopped(&text, "serve-000000aa"), Ok(Change::Text(_))), "{payload}");
        }
    }

    #[test]
    fn what_is_no_task_is_told() {
        let told = |text: &str| parse(text).unwrap().oddities(Path::new("/x"));
        assert_eq!(told("{}"), None);
        let one = "one entry of /x is neither a task nor a preset; it stays as it is";
        assert_eq!(told(r#"{"tasks": [7]}"#).as_deref(), Some(one));
        let more = "2 entries of /x are neither tasks nor presets; they stay as they are";
        assert_eq!(told(r#"{"tasks": [7], "presets": [{}]}"#).as_deref(), Some(more));
    }

    #[test]
    fn what_is_not_shaped_like_it_is_an_error() {
        for bad in [
            "",
            "[]",
            "[[], [], {}]",
            "null",
            "7",
            "{",
            r#"{"tasks": 7}"#,
            r#"{"tasks": "x"}"#,
            r#"{"tasks": [}"#,
            "{} x",
            r#"{"removedTasks": 1}"#,
            r#"{"tasks": [], "tasks": []}"#,
            r#"{"tasks": [NaN]}"#,
        ] {
            assert!(parse(bad).is_err(), "{bad}");
            assert!(mark_stopped(bad, "serve-0000000a").is_err(), "{bad}");
        }
    }

    fn changed(text: &str, session: &str) -> String {
        match mark_stopped(text, session).unwrap() {
            Change::Text(text) => text,
            other @ (Change::Over(_) | Change::Missing) => panic!("{session}: {other:?}"),
        }
    }

    #[test]
    fn nothing_but_one_status_changes() {
        let first = changed(FILE, "serve-0000000a");
        assert_eq!(first, FILE.replacen("\"running\"", "\"stopped\"", 1));
        assert_eq!(changed(FILE, "cookbook-0000000b"), FILE.replacen("  null  }", "  \"stopped\"  }", 1));
        let without = changed(FILE, "serve-0000000d");
        assert_eq!(
            without,
            FILE.replacen(
                "{\"sessionId\": \"serve-0000000d\"",
                "{\"status\": \"stopped\", \"sessionId\": \"serve-0000000d\"",
                1
            )
        );
        let legacy = r#"{"tasks": {"x": {"id":"serve-0000000a","status":"ready"},"y":{"status":"running","id":"z"}}}"#;
        assert_eq!(changed(legacy, "serve-0000000a"), legacy.replace("ready", "stopped"));
        assert_eq!(changed(legacy, "z"), legacy.replace("running", "stopped"));
        // Twice in the file is marked twice, and a marked one is not marked again.
        let twice = r#"{"tasks": [{"id":"z","status":"running"},{"id":"z","status":"queued"}]}"#;
        let marked = changed(twice, "z");
        assert_eq!(marked, twice.replace("running", "stopped").replace("queued", "stopped"));
        assert_eq!(mark_stopped(&marked, "z").unwrap(), Change::Over("stopped".into()));
    }

    #[test]
    fn what_is_over_or_removed_stays_as_it_is() {
        assert_eq!(mark_stopped(FILE, "serve-0000000c").unwrap(), Change::Over("done".into()));
        assert_eq!(mark_stopped(FILE, "serve-0000000e").unwrap(), Change::Missing, "never brought back");
        assert_eq!(mark_stopped(FILE, "serve-0000").unwrap(), Change::Missing, "no prefix");
    }

    #[test]
    fn what_cookbook_says_is_a_claim() {
        let task = |status: &str| Task { status: status.into(), ..parse(FILE).unwrap().tasks.remove(0) };
        for (status, over, phase) in [
            ("queued", false, Phase::Queued),
            ("running", false, Phase::Unverifiable),
            ("ready", false, Phase::Unverifiable),
            ("", false, Phase::Unverifiable),
            ("done", true, Phase::Exited),
            ("stopped", true, Phase::Exited),
            ("killed", true, Phase::Exited),
            ("error", true, Phase::Failed),
            ("crashed", true, Phase::Failed),
        ] {
            assert_eq!((task(status).is_over(), task(status).claimed()), (over, phase), "{status}");
        }
    }

    proptest! {
        /// Whatever else a task and the file hold, in whatever order.
        #[test]
        fn every_other_value_survives(
            keys in proptest::collection::vec("[a-z\"\\\\é]{1,6}", 0..6),
            texts in proptest::collection::vec(any::<String>(), 6),
            at in 0_usize..7,
            pretty in any::<bool>(),
        ) {
            let mut task = serde_json::Map::new();
            for (index, key) in keys.iter().enumerate() {
                task.insert(format!("k{key}"), json!({ "t": texts[index % texts.len()], "n": [index, null, true] }));
            }
            let mut fields: Vec<(String, Value)> = task.into_iter().collect();
            fields.insert(at.min(fields.len()), ("status".into(), "running".into()));
            fields.push(("id".into(), "s".into()));
            let task: serde_json::Map<String, Value> = fields.into_iter().collect();
            let file = json!({ "z": texts[0], "tasks": [{ "id": "t", "status": "running" }, task], "removedTasks": { "q": 1 } });
            let text = if pretty { format!("{file:#}") } else { file.to_string() };
            let mut expected = file.clone();
            expected["tasks"][1]["status"] = "stopped".into();
            let marked = changed(&text, "s");
            prop_assert_eq!(serde_json::from_str::<Value>(&marked).unwrap(), expected);
            prop_assert_eq!(marked.len(), text.len(), "running and stopped are of one length");
        }
    }

    /// What stands between the longest common beginning and the longest common end of two texts, in each of them.
    fn difference<'a>(before: &'a str, after: &'a str) -> (&'a str, &'a str) {
        let (one, other) = (before.as_bytes(), after.as_bytes());
        let head = one.iter().zip(other).take_while(|(a, b)| a == b).count();
        let most = one.len().min(other.len()) - head;
        let tail = one.iter().rev().zip(other.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
        let cut = |text: &'a str| text.get(head..text.len() - tail).unwrap_or("no boundary");
        (cut(before), cut(after))
    }

    proptest! {
        #![proptest_config(cases(500))]

        /// A damaged file is refused, or one word of it changes (two of a task that is in it twice).
        #[test]
        fn a_damaged_file_loses_nothing_but_one_word(bytes in damaged(FILE.as_bytes().to_vec())) {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            for session in ["serve-0000000a", "cookbook-0000000b", "serve-0000000d"] {
                let Ok(Change::Text(after)) = mark_stopped(&text, session) else { continue };
                let before = parse(&text).unwrap();
                if before.tasks.iter().filter(|task| task.session == session).count() == 1 {
                    let (_, put) = difference(&text, &after);
                    prop_assert!("\"status\": \"stopped\", \"status\"".contains(put), "{:?}", put);
                }
                // It is still a file of Cookbook's, and says what was meant: one that was over already says how.
                prop_assert!(matches!(mark_stopped(&after, session), Ok(Change::Over(_))), "{}", after);
                let after = parse(&after).unwrap();
                let of = |state: &State| state.tasks.iter().filter(|task| task.session == session).cloned().collect::<Vec<_>>();
                let meant = |task: Task| if task.is_over() { task } else { Task { status: "stopped".into(), ..task } };
                let expected: Vec<Task> = of(&before).into_iter().map(meant).collect();
                prop_assert_eq!(of(&after), expected);
                prop_assert_eq!(&before.presets, &after.presets);
                let others = |state: State| state.tasks.into_iter().filter(|task| task.session != session).collect::<Vec<_>>();
                prop_assert_eq!(others(before), others(after));
            }
        }
    }
}
