//! Model servers of somebody else are shown to whoever asks, and left alone.

use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::rig::{Rig, until};
use crate::servers::{STUB, free_port, ready};

struct Stranger(Child);

impl Drop for Stranger {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn servers_that_are_none_of_ours_are_listed_and_left_alone() {
    let rig = Rig::new();
    let program = rig.executable("bin/llama-server", &format!("#!/usr/bin/env python3\n{STUB}"));
    let program = program.to_str().unwrap();
    let (own, port) = (free_port().to_string(), free_port());
    let mut batch = rig.batch();
    let session = batch.launch(json!({"command": [program, "--port", own], "kind": "serve", "host": "pty"}));
    batch.ok(ready(&session, 20.0));
    let mut stranger = Command::new(program);
    rig.settle(&mut stranger);
    stranger.args(["--port", &port.to_string(), "--api-key", "canary-of-a-secret"]).stdout(Stdio::null());
    let stranger = Stranger(stranger.spawn().unwrap());
    until("it listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let others = batch.ok(json!({"cmd": "list", "others": true}))["others"].take();
    // Other servers of this computer may be there, too.
    let ours: Vec<&Value> =
        others.as_array().unwrap().iter().filter(|row| row["command"].as_str().unwrap().contains(program)).collect();
    assert_eq!(ours.len(), 1, "the session's own is none of them: {others}");
    let row = ours[0];
    assert_eq!((&row["pid"], &row["server"]), (&json!(stranger.0.id()), &json!("llama-server")), "{row}");
    assert_eq!(row["ports"], json!([port]), "{row}");
    assert!(row["rss_bytes"].as_u64().unwrap() > 1 << 20 && row["user"].is_string(), "{row}");
    assert!(!row.to_string().contains("canary"), "{row}");
    // It is asked for, and not looked for otherwise.
    assert_eq!(batch.ok(json!({"cmd": "list"}))["others"], Value::Null);
    assert!(rig.json(&["ls", "--others"])["others"].is_array());
    let shown = rig.run(&["ls"]).text();
    let line = shown.lines().find(|line| line.contains(&port.to_string())).unwrap();
    assert!(line.contains(&stranger.0.id().to_string()) && !line.contains("canary"), "{shown}");
    let (before, _) = shown.split_once(line).unwrap();
    assert!(before.contains("none of ours, never signalled") && before.contains(&session), "{shown}");
    batch.finish();
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok(), "it lives");
}
