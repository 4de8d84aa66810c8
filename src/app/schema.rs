//! The JSON Schema (draft 2020-12) of the batch protocol: requests, answers and events.
//!
//! Written by hand, because it is the contract; `tests/contract` holds live answers against it.

use serde_json::{Value, json};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Returns the schema. A line of input is a `request`; a line of output an `answer` or an `event`.
pub fn schema() -> Value {
    json!({
        "$schema": DIALECT,
        "title": "cookbook-tui batch protocol 1",
        "oneOf": [{ "$ref": "#/$defs/request" }, { "$ref": "#/$defs/answer" }, { "$ref": "#/$defs/event" }],
        "$defs": defs(),
    })
}

fn defs() -> Value {
    let mut defs = json!({ "request": request(), "answer": answer(), "event": event(), "results": results() });
    for part in [words(), rows(), receipt()] {
        if let (Value::Object(all), Value::Object(part)) = (&mut defs, part) {
            all.extend(part);
        }
    }
    defs
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

fn nullable(kind: &str) -> Value {
    json!({ "type": [kind, "null"] })
}

fn list(of: &str) -> Value {
    json!({ "type": "array", "items": reference(of) })
}

/// An object whose named fields must be there; unknown answer fields are to be ignored.
fn object(required: &Value, optional: &Value) -> Value {
    let (Value::Object(needed), Value::Object(more)) = (required, optional) else { return Value::Null };
    let names: Vec<&String> = needed.keys().collect();
    let mut properties = needed.clone();
    properties.extend(more.clone());
    json!({ "type": "object", "required": names, "properties": properties })
}

fn words() -> Value {
    json!({
        "pid": { "type": "integer", "minimum": 1 },
        "start_token": { "type": "string", "pattern": "^(procfs:[0-9a-f-]+:[0-9]+|ps:.+)$" },
        "maybe_token": { "oneOf": [reference("start_token"), { "type": "null" }] },
        "verdict": { "enum": ["owned", "gone", "foreign", "unverifiable"] },
        "membership": { "enum": ["tree", "sid", "cgroup", "reparented", "marker"] },
        "phase": { "enum": ["queued", "starting", "downloading", "loading", "warming", "ready", "idle", "running",
            "stopping", "exited", "failed", "unverifiable"] },
        "want": { "enum": ["waiting", "done", "bell", "busy"] },
        "kind": { "enum": ["serve", "agent", "shell", "download"] },
        "host": { "enum": ["pty", "tmux"] },
        "error_kind": { "enum": ["usage", "config", "not_found", "refused", "failed", "unverifiable", "timeout",
            "tmux", "pty", "state", "io", "internal"] },
        "choice": { "oneOf": [reference("pid"), reference("identity")] },
        "size": { "type": "integer", "minimum": 1, "maximum": 10_000 },
        "seconds": { "type": "number", "minimum": 0 },
        "identity": object(
            &json!({ "pid": reference("pid"), "start_token": reference("start_token") }),
            &json!({ "pidfd_inode": { "type": "integer" } }),
        ),
    })
}

fn request() -> Value {
    let session = || json!({ "session": { "type": "string" } });
    let flag = || json!({ "type": "boolean" });
    let commands = [
        ("hello", json!({}), json!({})),
        ("list", json!({}), json!({ "others": flag() })),
        ("recipes", json!({}), json!({})),
        ("subscribe", json!({}), json!({})),
        ("quit", json!({}), json!({})),
        ("launch", json!({}), launch_fields()),
        (
            "wait",
            json!({ "session": { "type": "string" }, "for": { "enum": ["ready", "exit", "gone", "output"] } }),
            json!({ "regex": { "type": "string" }, "timeout_s": reference("seconds") }),
        ),
        ("tree", session(), json!({})),
        ("why", json!({ "session": { "type": "string" }, "pid": reference("pid") }), json!({})),
        ("screen", session(), json!({ "scrollback": { "type": "integer", "minimum": 0 } })),
        (
            "send",
            session(),
            json!({ "text": { "type": "string" }, "keys": { "type": "array", "items": { "type": "string" } } }),
        ),
        (
            "resize",
            json!({ "session": { "type": "string" }, "rows": reference("size"), "cols": reference("size") }),
            json!({}),
        ),
        (
            "logs",
            json!({}),
            json!({ "session": { "type": "string" }, "tail": { "type": "integer", "minimum": 0 }, "receipts": flag() }),
        ),
        ("tmux_sessions", json!({}), json!({})),
        ("draft", session(), json!({})),
        ("save", json!({ "name": { "type": "string" }, "launch": launch() }), json!({ "overwrite": flag() })),
        (
            "restart",
            session(),
            json!({ "confirm": list("identity"), "end_kept": list("choice"), "launch": launch(), "dry_run": flag() }),
        ),
        (
            "stop",
            session(),
            json!({ "grace_s": reference("seconds"), "force": flag(), "timeout_s": reference("seconds"),
                "dry_run": flag(), "confirm": list("identity"), "end_kept": list("choice") }),
        ),
        (
            "notify",
            json!({ "state": { "enum": ["waiting", "working", "done"] } }),
            json!({ "session": { "type": "string" }, "message": { "type": "string" } }),
        ),
        ("doctor", json!({}), json!({})),
        ("dismiss", session(), json!({})),
        (
            "orphans",
            json!({}),
            json!({ "reap": flag(), "adopt": flag(), "session": { "type": "string" }, "dry_run": flag(),
                "confirm": list("identity"), "end_kept": list("choice") }),
        ),
        (
            "adopt",
            json!({ "tmux": {
                "type": "object",
                "required": ["session"],
                "properties": { "socket": { "type": "string" }, "session": { "type": "string" } },
                "additionalProperties": false,
            } }),
            json!({}),
        ),
        (
            "extend",
            json!({ "session": { "type": "string" }, "ceiling_s": { "type": "number", "exclusiveMinimum": 0 } }),
            json!({}),
        ),
        ("hold", json!({ "session": { "type": "string" } }), json!({ "release": flag() })),
        (
            "sweep",
            json!({}),
            json!({ "session": { "type": "string" }, "dry_run": flag(), "confirm": list("identity"),
                "end_kept": list("choice") }),
        ),
    ];
    let variants = commands.map(|(name, required, optional)| {
        let mut variant = object(&required, &optional);
        variant["properties"]["cmd"] = json!({ "const": name });
        variant["properties"]["id"] = json!(true);
        variant["properties"]["async"] = flag();
        if let Some(names) = variant["required"].as_array_mut() {
            names.push("cmd".into());
        }
        // Unknown request fields are errors.
        variant["additionalProperties"] = false.into();
        variant
    });
    json!({ "oneOf": variants })
}

/// A launch within another request.
fn launch() -> Value {
    json!({ "type": "object", "properties": launch_fields(), "additionalProperties": false })
}

fn launch_fields() -> Value {
    json!({
        "like": { "type": "string" },
        "gpus": { "type": "string" },
        "venv": { "type": "string" },
        "recipe": { "type": "string" },
        "command": { "oneOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" }, "minItems": 1 }] },
        "kind": reference("kind"),
        "host": reference("host"),
        "name": { "type": "string" },
        "cwd": { "type": "string" },
        "env": { "type": "object", "additionalProperties": { "type": "string" } },
        "rows": { "type": "integer", "minimum": 0, "maximum": 65535 },
        "cols": { "type": "integer", "minimum": 0, "maximum": 65535 },
        "grace_s": reference("seconds"),
        "ceiling_s": { "type": "number", "exclusiveMinimum": 0 },
        "replace": { "type": "boolean" },
        "machine": { "type": "string" },
    })
}

fn answer() -> Value {
    let fields = json!({ "enum": ["recipe", "command", "name", "kind", "host", "cwd", "gpus", "venv", "env"] });
    let about = object(&json!({ "field": fields }), &json!({ "holder": { "type": "string" } }));
    let error = object(
        &json!({ "kind": reference("error_kind"), "message": { "type": "string" } }),
        &json!({ "about": about }),
    );
    json!({ "oneOf": [
        object(&json!({ "id": true, "ok": { "const": true }, "result": { "type": "object" } }), &json!({})),
        object(&json!({ "id": true, "ok": { "const": false }, "error": error }), &json!({})),
    ] })
}

/// The `result` of each command.
fn results() -> Value {
    let empty = || json!({ "type": "object" });
    let text = || json!({ "type": "array", "items": { "type": "string" } });
    json!({
        "hello": object(
            &json!({ "protocol": { "const": 1 }, "version": { "type": "string" }, "features": text(),
                "inspector": { "enum": ["procfs", "ps", "none"] } }),
            &json!({ "ended": text() }),
        ),
        "launch": reference("launched"),
        "adopt": reference("launched"),
        "wait": object(
            &json!({ "phase": reference("phase") }),
            &json!({ "exit_code": nullable("integer"), "signal": nullable("string"), "match": { "type": "string" } }),
        ),
        "list": object(&json!({ "sessions": list("session") }), &json!({ "quarantined": list("quarantined"), "others": list("other"), "notes": text() })),
        "tree": object(
            &json!({ "processes": list("process"), "lookalikes": list("bystander"), "escapees": list("bystander") }),
            &json!({ "supervisors": list("process") }),
        ),
        "why": why(),
        "screen": object(
            &json!({ "rows": { "type": "integer" }, "cols": { "type": "integer" }, "lines": text(),
                "cursor": { "type": "array", "items": { "type": "integer" }, "minItems": 2, "maxItems": 2 } }),
            &json!({}),
        ),
        "send": empty(),
        "resize": empty(),
        "logs": { "oneOf": [object(&json!({ "lines": text() }), &json!({})), journal()] },
        "restart": { "anyOf": [
            { "allOf": [reference("launched"), object(&json!({ "receipt": reference("receipt") }), &json!({}))] },
            reference("receipt"),
        ] },
        "stop": reference("receipt"),
        "sweep": reference("receipt"),
        "extend": object(&json!({ "not_after": { "type": "number" } }), &json!({})),
        "hold": object(&json!({ "held": { "type": "boolean" }, "left_s": { "type": ["number", "null"] } }), &json!({})),
        "dismiss": empty(),
        "notify": object(&json!({ "session": { "type": "string" }, "verified": { "type": "boolean" } }), &json!({})),
        "doctor": object(&json!({ "checks": list("check") }), &json!({})),
        "orphans": object(
            &json!({ "orphans": list("session"), "quarantined": list("quarantined"), "swept": list("receipt"),
                "adopted": list("adopted"), "report": { "type": "object" } }),
            &json!({ "cookbook": list("claimed") }),
        ),
        "tmux_sessions": object(&json!({ "sessions": list("tmux_session"), "notes": text() }), &json!({})),
        "draft": object(&json!({ "session": { "type": "string" }, "launch": launch(), "notes": text() }), &json!({})),
        "save": object(
            &json!({ "name": { "type": "string" }, "path": { "type": "string" }, "overwritten": { "type": "boolean" } }),
            &json!({ "notes": text() }),
        ),
        "recipes": object(&json!({ "recipes": list("recipe") }), &json!({})),
        "subscribe": empty(),
        "quit": object(&json!({ "receipts": list("receipt") }), &json!({})),
    })
}

/// The answer to `why`.
fn why() -> Value {
    let role = || json!({ "enum": ["member", "supervisor", "escapee", "lookalike"] });
    let text = || json!({ "type": "string" });
    let ancestor = object(
        &json!({ "pid": reference("pid"), "start_token": reference("start_token"), "command": text(),
            "role": { "oneOf": [role(), { "type": "null" }] } }),
        &json!({}),
    );
    object(
        &json!({
            "session": text(), "pid": reference("pid"), "role": role(), "command": text(),
            "verdict": { "oneOf": [reference("verdict"), { "type": "null" }] },
            "reason": text(), "on_stop": text(), "membership": list("membership"),
            "start_token": reference("maybe_token"), "pidfd_inode": nullable("integer"), "state": nullable("string"),
            "pgid": nullable("integer"), "sid": nullable("integer"), "cgroup": nullable("string"),
            "parents": { "type": "array", "items": ancestor },
            "ports": { "type": ["array", "null"], "items": { "type": "integer" } },
            "age_s": nullable("number"), "cpu_pct": nullable("number"), "rss_bytes": nullable("integer"),
            "gpu_bytes": nullable("integer"),
        }),
        &json!({ "protected": text(), "kept": text() }),
    )
}

/// The answer to `logs` with `receipts`.
fn journal() -> Value {
    let count = || json!({ "type": "integer", "minimum": 0 });
    let entry = object(
        &json!({ "at": count(), "by": { "enum": ["manager", "warden"] },
            "act": { "enum": ["stop", "sweep", "reap", "restart"] }, "receipt": reference("receipt") }),
        &json!({}),
    );
    let totals = object(
        &json!({ "receipts": count(), "dead": count(), "escalated": count(), "signals": count(), "exited": count(),
            "survivors": count(), "unverified": count(), "refused": count(), "kept": count() }),
        &json!({}),
    );
    let receipts = json!({ "type": "array", "items": entry });
    object(&json!({ "receipts": receipts, "skipped": count(), "totals": totals }), &json!({}))
}

fn event() -> Value {
    let pid = || reference("pid");
    let text = || json!({ "type": "string" });
    let events = [
        ("launched", json!({ "name": text(), "kind": reference("kind"), "host": reference("host"), "pid": pid() })),
        ("phase", json!({ "phase": reference("phase"), "detail": nullable("string") })),
        ("verdict", json!({ "pid": pid(), "verdict": reference("verdict"), "reason": text() })),
        ("process_new", json!({ "pid": pid(), "command": text() })),
        ("process_gone", json!({ "pid": pid(), "command": text() })),
        ("signal", json!({ "pid": pid(), "signal": text() })),
        ("survivor", json!({ "pid": pid(), "reason": text() })),
        ("exited", json!({ "exit_code": nullable("integer"), "signal": nullable("string") })),
        ("receipt", json!({ "receipt": reference("receipt") })),
        ("attention", json!({ "reason": text() })),
        ("ended", json!({ "text": text() })),
        ("cookbook", json!({ "problem": nullable("string") })),
        ("lagged", json!({ "missed": { "type": "integer", "minimum": 1 } })),
    ];
    let variants = events.map(|(name, mut fields)| {
        fields["event"] = json!({ "const": name });
        fields["seq"] = json!({ "type": "integer", "minimum": 1 });
        fields["t_ms"] = json!({ "type": "integer", "minimum": 0 });
        if !matches!(name, "cookbook" | "lagged") {
            fields["session"] = text();
        }
        let optional = match name {
            "launched" | "exited" => json!({ "attempt": { "type": "integer", "minimum": 1 } }),
            "attention" => json!({ "state": reference("want") }),
            _ => json!({}),
        };
        object(&fields, &optional)
    });
    json!({ "oneOf": variants })
}

fn rows() -> Value {
    let text = || json!({ "type": "string" });
    let integer = || json!({ "type": "integer" });
    json!({
        "launched": object(
            &json!({ "session": text(), "host": reference("host"), "pid": reference("pid"),
                "start_token": reference("start_token") }),
            &json!({ "tmux": object(
                &json!({ "socket": text(), "session_id": { "type": "string", "pattern": "^\\$[0-9]+$" },
                    "pane_id": { "type": "string", "pattern": "^%[0-9]+$" } }),
                &json!({}),
            ), "notes": { "type": "array", "items": text() } }),
        ),
        "session": object(
            &json!({ "session": text(), "name": text(), "kind": reference("kind"), "host": reference("host"),
                "machine": text(), "lifetime": { "enum": ["grant", "background"] }, "phase": reference("phase"),
                "attention": { "oneOf": [reference("attention"), { "type": "null" }] },
                "pid": nullable("integer"), "verdict": reference("verdict"), "uptime_s": nullable("number"),
                "cpu_pct": nullable("number"), "rss_bytes": nullable("integer"), "gpu_bytes": nullable("integer"),
                "ports": { "type": ["array", "null"], "items": integer() }, "exit_code": nullable("integer"),
                "signal": nullable("string"), "adopted": { "type": "boolean" }, "owner": nullable("string"),
                "not_after": nullable("number"), "containment": { "type": "array", "items": text() } }),
            &json!({ "detail": text(), "command": text(), "cwd": nullable("string"), "processes": integer(),
                "progress_pct": { "type": "number", "minimum": 0, "maximum": 100 },
                "tokens_per_s": { "type": "number", "minimum": 0 }, "requests": integer(),
                "suggest": object(
                    &json!({ "text": text() }),
                    &json!({ "command": { "type": ["string", "array"], "items": text() }, "first": { "type": "boolean" } }),
                ) }),
        ),
        "attention": object(
            &json!({ "state": reference("want"), "message": nullable("string"), "since_s": reference("seconds"),
                "verified": { "type": "boolean" }, "guess": { "type": "boolean" } }),
            &json!({}),
        ),
        "process": object(
            &json!({ "pid": reference("pid"), "ppid": integer(), "pgid": integer(), "sid": integer(),
                "start_token": reference("maybe_token"), "command": text(), "state": text(),
                "verdict": reference("verdict"), "reason": text(), "membership": list("membership"),
                "cpu_pct": nullable("number"), "rss_bytes": nullable("integer"), "threads": nullable("integer") }),
            &json!({ "protected": text(), "kept": text(), "command_b64": text(), "age_s": reference("seconds"),
                "gpu_bytes": { "type": "integer", "minimum": 0 } }),
        ),
        "bystander": object(
            &json!({ "pid": reference("pid"), "start_token": reference("maybe_token"), "command": text() }),
            &json!({ "reason": text() }),
        ),
        "check": object(
            &json!({ "name": text(), "state": { "enum": ["ok", "warn", "fail"] }, "detail": text() }),
            &json!({ "way_out": text() }),
        ),
        "adopted": object(
            &json!({ "session": text(), "adopted": { "type": "boolean" }, "reason": text() }),
            &json!({}),
        ),
        "claimed": object(
            &json!({ "file": text(), "id": text(), "what": text(), "pid": { "oneOf": [reference("pid"), { "type": "null" }] },
                "start_token": nullable("string"), "verdict": reference("verdict"), "reason": text() }),
            &json!({}),
        ),
        "other": object(
            &json!({ "pid": reference("pid"), "server": text(), "user": nullable("string"),
                "ports": { "type": ["array", "null"], "items": integer() }, "rss_bytes": nullable("integer"),
                "command": text() }),
            &json!({}),
        ),
        "tmux_session": object(
            &json!({ "socket": text(), "session_id": text(), "name": text(), "holds_us": { "type": "boolean" } }),
            &json!({ "adopted": text() }),
        ),
        "quarantined": object(&json!({ "path": text(), "reason": text() }), &json!({})),
        "recipe": object(
            &json!({ "name": text(), "kind": reference("kind"), "host": reference("host"), "command": text(),
                "source": text(), "available": { "type": "boolean" } }),
            &json!({ "reason": nullable("string") }),
        ),
    })
}

fn receipt() -> Value {
    let text = || json!({ "type": "string" });
    let pids = || list("pid");
    let ports = json!({ "type": "array", "items": { "type": "integer" } });
    json!({
        "receipt": object(
            &json!({ "session": text(), "host": text(), "dead": nullable("boolean"),
                "escalated": { "type": "boolean" }, "captured": list("process"), "signals": list("signal"),
                "outcomes": list("outcome"), "survivors": pids(), "unverified": pids(), "refused": list("refused"),
                "lookalikes": list("bystander"), "escapees": list("bystander"), "kept": list("bystander"),
                "ports_released": ports, "still_held": list("held"), "host_closed": { "type": "boolean" },
                "containment": { "type": "array", "items": text() }, "notes": { "type": "array", "items": text() },
                "elapsed_ms": { "type": "integer", "minimum": 0 } }),
            &json!({ "name": text(), "plan": list("planned"), "grace_s": reference("seconds") }),
        ),
        "signal": object(
            &json!({ "pid": reference("pid"), "start_token": reference("start_token"), "signal": text(),
                "via": { "enum": ["pidfd", "kill", "cgroup"] } }),
            &json!({}),
        ),
        "outcome": object(
            &json!({ "pid": reference("pid"), "start_token": reference("maybe_token"),
                "outcome": { "enum": ["exited", "survived", "unverifiable", "foreign", "refused", "kept",
                    "already_gone"] } }),
            &json!({ "reason": text(), "command": text() }),
        ),
        "refused": object(&json!({ "pid": reference("pid"), "reason": text() }), &json!({})),
        "held": object(
            &json!({ "by": text() }),
            &json!({ "port": { "type": "integer" }, "gpu_bytes": { "type": "integer" } }),
        ),
        "planned": object(
            &json!({ "pid": reference("pid"), "start_token": reference("maybe_token"), "signal": nullable("string"),
                "verdict": reference("verdict"), "reason": text() }),
            &json!({ "command": text() }),
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::command::Command;
    use jsonschema::validator_for;

    #[test]
    fn it_is_a_schema_and_knows_a_request_from_a_mistake() {
        let validator = validator_for(&schema()).expect("a valid schema");
        let good = [
            json!({ "id": 1, "cmd": "hello" }),
            json!({ "cmd": "stop", "session": "x", "grace_s": 0.5, "async": true }),
            json!({ "cmd": "launch", "command": ["sleep", "1"], "host": "pty" }),
            json!({ "cmd": "stop", "session": "x", "end_kept": [4, { "pid": 5, "start_token": "procfs:b:1" }] }),
            json!({ "id": null, "ok": false, "error": { "kind": "usage", "message": "m" } }),
            json!({ "event": "lagged", "missed": 3, "seq": 1, "t_ms": 0 }),
        ];
        for line in &good {
            assert!(validator.is_valid(line), "{line}");
        }
        for line in good.iter().filter(|line| line.get("cmd").is_some()) {
            let mut fields = line.as_object().expect("object").clone();
            fields.retain(|name, _| name != "id" && name != "async");
            let name = fields.remove("cmd").expect("cmd");
            assert!(Command::parse(name.as_str().expect("text"), fields).is_ok(), "{line}");
        }
        for line in [
            json!({ "cmd": "stop" }),
            json!({ "cmd": "stop", "session": "x", "grce_s": 1 }),
            json!({ "cmd": "stop", "session": "x", "end_kept": [0] }),
            json!({ "cmd": "launch", "kind": "server" }),
            json!({ "event": "lagged", "seq": 1, "t_ms": 0 }),
            json!({ "id": 1, "ok": true }),
        ] {
            assert!(!validator.is_valid(&line), "{line}");
        }
    }
}
