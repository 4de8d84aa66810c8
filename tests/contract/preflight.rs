//! What is looked at before a launch: nothing is made of one that cannot come true.

use std::net::TcpListener;
use std::path::Path;

use serde_json::{Value, json};

use crate::client::Batch;
use crate::rig::{Rig, walk};
use crate::servers::{STUB, free_port, ready};

/// A place with a program named llama-server, which serves, and a model file.
fn rig() -> Rig {
    let rig = Rig::new();
    rig.executable("bin/llama-server", &format!("#!/usr/bin/env python3\n{STUB}"));
    // A header that promises nothing more: version 3, no tensors, no values, 32 bytes.
    rig.write("work/tiny.gguf", &format!("GGUF\x03\0\0\0{}", "\0".repeat(24)));
    rig
}

fn path_of(rig: &Rig) -> Value {
    json!({"PATH": format!("{}:{}", rig.path("bin").display(), std::env::var("PATH").unwrap())})
}

fn server(port: u16, model: &str) -> Vec<String> {
    ["llama-server", "-m", model, "--port", &port.to_string()].map(str::to_owned).to_vec()
}

/// Launches, which must be refused, and checks that nothing is left of it.
fn refused(rig: &Rig, batch: &mut Batch, mut fields: Value, expected: &[&str]) {
    (fields["cmd"], fields["kind"]) = (json!("launch"), json!("serve"));
    // How others ended may be written down meanwhile.
    let tethers = || rig.records().into_iter().filter(|name| name.contains(".json")).collect::<Vec<_>>();
    let (before, logs) = (tethers(), walk(&rig.state().join("logs")));
    let (kind, message) = batch.err(fields.clone());
    assert_eq!(kind, "failed", "{fields}: {message}");
    for part in expected.iter().chain(&["nothing was launched: "]) {
        assert!(message.contains(part), "{fields}: {message}: {part}");
    }
    assert_eq!(tethers(), before, "{fields}");
    assert_eq!(walk(&rig.state().join("logs")), logs, "{fields}");
}

#[test]
fn a_program_or_a_file_that_is_not_there_is_named_before_the_launch() {
    for host in ["pty", "tmux"] {
        let rig = rig();
        let mut batch = rig.batch();
        let port = free_port();
        let launch = |command: Value, env: Value| json!({"command": command, "host": host, "env": env});
        let nowhere = json!({"PATH": "/nowhere:/bin"});
        let whole = server(port, "tiny.gguf");
        let missing =
            ["the command \"llama-server\" was not found on the PATH of the session, /nowhere:/bin; install it"];
        refused(&rig, &mut batch, launch(json!(whole), nowhere.clone()), &missing);
        refused(&rig, &mut batch, launch(json!(whole.join(" ")), nowhere.clone()), &missing);
        let wrapped: Vec<&str> = ["env", "A=1"].into_iter().chain(whole.iter().map(String::as_str)).collect();
        refused(&rig, &mut batch, launch(json!(wrapped), nowhere), &missing);
        let pip = ["(python3 -m pip install vllm)"];
        refused(&rig, &mut batch, launch(json!(["vllm", "serve", "x"]), json!({"PATH": "/nowhere"})), &pip);
        let by_path = json!(["bin/llama-server", "-m", "tiny.gguf"]);
        refused(&rig, &mut batch, launch(by_path, json!({})), &["work/bin/llama-server is not there"]);
        let slip =
            ["its model file \"tini.gguf\" is not there; \"tiny.gguf\" is there: llama-server -m tiny.gguf --port"];
        refused(&rig, &mut batch, launch(json!(server(port, "tini.gguf")), path_of(&rig)), &slip);
        let lost = ["its model file \"/nowhere/x\" is not there; check its path"];
        refused(&rig, &mut batch, launch(json!(server(port, "/nowhere/x")), path_of(&rig)), &lost);
        assert_eq!(batch.ok(json!({"cmd": "list"}))["sessions"], json!([]), "{host}");
        // What is there is launched, with nothing to say.
        let launched =
            batch.ok(json!({"cmd": "launch", "command": wrapped, "kind": "serve", "host": host, "env": path_of(&rig)}));
        assert_eq!(launched["notes"], Value::Null, "{host}");
        batch.ok(ready(launched["session"].as_str().unwrap(), 20.0));
        batch.finish();
    }
}

#[test]
fn a_taken_port_is_told_before_the_launch_and_the_ready_server_offered() {
    let rig = rig();
    let mut batch = rig.batch();
    let port = free_port();
    let fields = |command: Value| json!({"command": command, "kind": "serve", "host": "pty", "env": path_of(&rig)});
    let mut first = fields(json!(server(port, "tiny.gguf")));
    first["name"] = json!("first");
    let first = batch.launch(first);
    batch.ok(ready(&first, 20.0));
    let own = format!(
        "port {port} is in use by session first ({first}), which is ready: use that one, at http://127.0.0.1:{port}; or take another port: "
    );
    refused(&rig, &mut batch, fields(json!(server(port, "tiny.gguf"))), &[&own, ": llama-server -m tiny.gguf --port "]);
    // Another address on the same port is free.
    let mut other = server(port, "tiny.gguf");
    other.extend(["--host".to_owned(), "127.0.0.9".to_owned()]);
    let launched = batch.ok({
        let mut launch = fields(json!(other));
        launch["cmd"] = json!("launch");
        launch
    });
    assert_eq!(launched["notes"], Value::Null);
    // Behind a shell nobody can be sure.
    let line = format!("true && exec {}", server(port, "tiny.gguf").join(" "));
    let mut launch = fields(json!(line));
    launch["cmd"] = json!("launch");
    let notes = batch.ok(launch)["notes"].take();
    assert!(notes[0].as_str().unwrap().starts_with(&own), "{notes}");
    // Nobody has been signalled.
    assert_eq!(batch.ok(ready(&first, 20.0))["phase"], "ready");
    // A stranger, who answers nobody.
    let stranger = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = stranger.local_addr().unwrap().port();
    let who = format!("port {port} is in use by process {} (", std::process::id());
    refused(&rig, &mut batch, fields(json!(server(port, "tiny.gguf"))), &[&who, "); take another port: "]);
    batch.finish();
}

#[test]
fn a_virtual_environment_that_is_not_there_is_no_place_to_launch_in() {
    let rig = rig();
    let config = |venv: &Path| {
        format!("[[recipe]]\nname = \"v\"\nhost = \"pty\"\ncommand = [\"here\"]\nvenv = \"{}\"\n", venv.display())
    };
    rig.executable("venv/bin/here", "#!/bin/sh\nexec sleep 3600\n");
    let venv = rig.path("venv");
    let good = rig.write("good.toml", &config(&venv));
    let bad = rig.write("bad.toml", &config(&rig.path("gone")));
    let mut batch = rig.batch_with(&[], &["--config", bad.to_str().unwrap()]);
    refused(&rig, &mut batch, json!({"recipe": "v"}), &["gone is not there; make it with `python3 -m venv "]);
    batch.finish();
    let mut batch = rig.batch_with(&[], &["--config", good.to_str().unwrap()]);
    batch.launch(json!({"recipe": "v"}));
    batch.finish();
}
