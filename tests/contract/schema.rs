//! The JSON Schema that the program prints: every live answer and event of these tests is held against it.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::rig::Rig;

fn schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let output = Command::new(env!("CARGO_BIN_EXE_cookbook-tui")).arg("schema").env_clear().output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    })
}

/// Returns the part of the schema with a name in `$defs`.
fn part(name: &str) -> Arc<Validator> {
    static PARTS: Mutex<BTreeMap<String, Arc<Validator>>> = Mutex::new(BTreeMap::new());
    let mut parts = PARTS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let compile = || {
        let of = json!({"$schema": schema()["$schema"], "$defs": schema()["$defs"], "$ref": format!("#/$defs/{name}")});
        Arc::new(jsonschema::validator_for(&of).unwrap_or_else(|error| panic!("{name}: {error}")))
    };
    Arc::clone(parts.entry(name.to_owned()).or_insert_with(compile))
}

/// Checks a live value against a part of the schema.
pub(crate) fn check(name: &str, value: &Value) {
    if let Err(error) = part(name).validate(value) {
        panic!("not as the schema has {name}: at {}: {error}: {value}", error.instance_path());
    }
}

#[test]
fn the_schema_is_one_and_knows_every_word() {
    assert!(jsonschema::meta::is_valid(schema()), "not a JSON Schema");
    let text = schema().to_string();
    let words = [
        "hello",
        "launch",
        "wait",
        "list",
        "tree",
        "why",
        "screen",
        "send",
        "resize",
        "logs",
        "restart",
        "stop",
        "sweep",
        "extend",
        "draft",
        "save",
        "adopt",
        "tmux_sessions",
        "notify",
        "orphans",
        "doctor",
        "recipes",
        "subscribe",
        "quit",
        "launched",
        "phase",
        "verdict",
        "process_new",
        "process_gone",
        "signal",
        "survivor",
        "exited",
        "receipt",
        "attention",
        "lagged",
        "usage",
        "config",
        "not_found",
        "refused",
        "failed",
        "unverifiable",
        "timeout",
        "tmux",
        "pty",
        "state",
        "io",
        "internal",
    ];
    let missing: Vec<&str> = words.into_iter().filter(|word| !text.contains(&format!("\"{word}\""))).collect();
    assert!(missing.is_empty(), "the schema does not know {missing:?}");
    let rig = Rig::new();
    let plain = rig.run(&["schema"]);
    assert_eq!((plain.code, serde_json::from_slice::<Value>(&plain.out).unwrap()), (Some(0), schema().clone()));
}

#[test]
fn the_schema_refuses_what_the_program_refuses() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    let mut taken = Vec::new();
    for request in [
        json!({}),
        json!({"cmd": "frobnicate"}),
        json!({"cmd": "list", "x": 1}),
        json!({"cmd": "stop"}),
        json!({"cmd": "stop", "session": "x", "force": "yes"}),
        json!({"cmd": "launch", "command": 5}),
        json!({"cmd": "launch", "command": []}),
        json!({"cmd": "launch", "command": "true", "kind": "server"}),
        json!({"cmd": "launch", "command": "true", "host": "screen"}),
        json!({"cmd": "launch", "command": "true", "ceiling_s": 0}),
        json!({"cmd": "launch", "command": "true", "grace_s": -1}),
        json!({"cmd": "launch", "command": "true", "env": {"A": 1}}),
        json!({"cmd": "launch", "command": "true", "rows": 65536}),
        json!({"cmd": "wait", "session": "x", "for": "doom"}),
        json!({"cmd": "send", "session": "x", "keys": "Enter"}),
        json!({"cmd": "resize", "session": "x", "rows": 0, "cols": 5}),
        json!({"cmd": "adopt", "session": "x"}),
        json!({"cmd": "adopt", "tmux": {"session": "x", "sokcet": "y"}}),
        json!({"cmd": "extend", "session": "x", "ceiling_s": -1}),
        json!({"cmd": "hello", "async": "yes"}),
    ] {
        taken.extend(part("request").is_valid(&request).then(|| request.to_string()));
        let (kind, message) = batch.err(request.clone());
        assert!(kind == "usage" || kind == "not_found", "{request}: {kind}: {message}");
    }
    assert!(taken.is_empty(), "the schema takes {taken:#?}");
    for line in [json!({"id": 1, "ok": true}), json!({"id": 1, "ok": false, "error": {"kind": "odd", "message": ""}})] {
        assert!(!part("answer").is_valid(&line), "{line}");
    }
    assert!(!part("event").is_valid(&json!({"event": "launched", "seq": 1, "t_ms": 1})));
}
