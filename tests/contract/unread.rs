//! A real llama-server whose port is told in a way that nobody can read, or that has none: no port is blamed for what it
//! has nothing to do with.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use serde_json::json;

use crate::llama::{Place, check, check_of, ready};
use crate::servers::row;

const HOSTS: [&str; 2] = ["pty", "tmux"];
const QUIET: &str = ">/dev/null 2>&1";

#[test]
fn a_port_that_nobody_can_read_is_not_blamed() {
    for host in HOSTS {
        let Some(place) = Place::new() else { return };
        place.model("tiny.gguf", &[]);
        place.model("truncate.gguf", &["--break", "truncate"]);
        // Somebody holds its usual port, whoever that is.
        let _usual = TcpListener::bind(("127.0.0.1", 8080));
        let mut batch = place.rig.batch();
        let line = |model: &str, port: &str, end: &str| {
            format!("exec {} -m {model} --host 127.0.0.1 --port {port} -t 1 -c 512 {end}", place.server.display())
        };
        let env = json!({"PORT": place.port.to_string()});
        let launch = |line: String| json!({"command": line, "kind": "serve", "host": host, "env": env});
        for port in [
            "$PORT".to_owned(),
            "${PORT:-1}".into(),
            format!("$(echo {})", place.port),
            format!("$(({} + 0))", place.port),
        ] {
            let broken =
                "exit status 1: its model file \"truncate.gguf\" is broken: it is shorter than its header says";
            check_of(&mut batch, &launch(line("truncate.gguf", &port, QUIET)), &[broken]);
        }
        // Its own port is found.
        let session = batch.launch(launch(line("tiny.gguf", "$PORT", QUIET)));
        assert_eq!(batch.ok(ready(&session))["phase"], "ready", "{host}");
        assert_eq!(row(&mut batch, &session)["ports"], json!([place.port]), "{host}");
        // The port of the log is the one that is looked up; without it nothing is said of one.
        let silent =
            "exit status 1: its output does not say why; its model file is whole, of the architecture \"llama\"";
        let told = format!("exit status 1: port {} is in use by session ", place.port);
        check_of(&mut batch, &launch(line("tiny.gguf", "$PORT", "2>&1")), &[&told, silent]);
        check_of(&mut batch, &launch(line("tiny.gguf", "$PORT", QUIET)), &[silent]);
        let receipt = batch.ok(json!({"cmd": "stop", "session": session}));
        assert_eq!((&receipt["dead"], &receipt["notes"]), (&json!(true), &json!([])), "{host}: {receipt}");
        // A process of its own has it.
        let twice = format!(
            "{} & sleep 2; {}",
            line("tiny.gguf", "$PORT", "").trim_start_matches("exec "),
            line("tiny.gguf", "$PORT", "2>&1")
        );
        let session = batch.launch(launch(twice));
        batch.ok(json!({"cmd": "wait", "session": session, "for": "exit", "timeout_s": 30}));
        let (row, own) =
            (row(&mut batch, &session), format!("port {} was taken by another process of this session", place.port));
        let detail = row["detail"].as_str().unwrap_or_default();
        assert!(detail.ends_with(&own) || detail.starts_with(silent), "{host}: {row}");
        batch.finish();
    }
}

#[test]
fn a_socket_in_the_file_system_is_no_port() {
    for host in HOSTS {
        let Some(place) = Place::new() else { return };
        place.model("tiny.gguf", &[]);
        place.model("truncate.gguf", &["--break", "truncate"]);
        let _usual = TcpListener::bind(("127.0.0.1", 8080));
        let mut batch = place.rig.batch();
        let line = |model: &str, socket: &str, end: &str| {
            format!("exec {} -m {model} --host {socket} -t 1 -c 512 {end}", place.server.display())
        };
        // With a log and without, its name read or not.
        for (socket, end) in [("a.sock", "2>&1"), ("b.sock", QUIET), ("$PWD/c.sock", "2>&1")] {
            let command = json!(line("tiny.gguf", socket, end));
            let session = batch.launch(json!({"command": command, "kind": "serve", "host": host}));
            assert_eq!(batch.ok(ready(&session))["phase"], "ready", "{host} {command}");
            let receipt = batch.ok(json!({"cmd": "stop", "session": session}));
            assert_eq!((&receipt["dead"], &receipt["notes"]), (&json!(true), &json!([])), "{host}: {receipt}");
        }
        drop(UnixListener::bind(place.rig.work().join("left.sock")).unwrap());
        let _served = UnixListener::bind(place.rig.work().join("served.sock")).unwrap();
        for end in ["2>&1", QUIET] {
            for (socket, why) in [
                ("left.sock", "its socket \"left.sock\" is there already, though nobody listens on it"),
                ("served.sock", "its socket \"served.sock\" is there already, and somebody listens on it"),
                ("gone/x.sock", "the folder of its socket \"gone/x.sock\" is not there"),
            ] {
                check(&mut batch, host, &json!(line("tiny.gguf", socket, end)), &[&format!("exit status 1: {why}")]);
            }
        }
        let command = line("truncate.gguf", "d.sock", QUIET);
        check(&mut batch, host, &json!(command), &["exit status 1: its model file \"truncate.gguf\" is broken"]);
        let words: Vec<String> =
            line("tiny.gguf", "left.sock", "").split_whitespace().skip(1).map(str::to_owned).collect();
        let (kind, message) = batch.err(json!({"cmd": "launch", "command": words, "kind": "serve", "host": host}));
        assert!(kind == "failed" && message.contains("its socket \"left.sock\" is there already"), "{host}: {message}");
        batch.finish();
    }
}

#[test]
fn options_and_files_beside_are_told_without_a_log() {
    for host in HOSTS {
        let Some(place) = Place::new() else { return };
        place.model("tiny.gguf", &[]);
        place.model("arch.gguf", &["--break", "arch"]);
        let mut batch = place.rig.batch();
        let draft =
            "exit status 1: it does not know the architecture \"notanarch\" of the draft model \"arch.gguf\" of -md";
        let path = "exit status 1: it does not take the value of --path (static assets path not found: /nope)";
        let silent = "exit status 1: its output does not say why; its port was free";
        let cases: [(&[&str], &str, &str); 3] = [
            (&["-md", "arch.gguf"], draft, draft),
            (&["--path", "/nope"], path, silent),
            (
                &["-c"],
                "exit status 1: it does not take the value of -c",
                "exit status 1: its last option, -c, has no value",
            ),
        ];
        for (more, told, silent) in cases {
            let line = place.command("tiny.gguf", more).join(" ");
            check(&mut batch, host, &json!(format!("exec {line} 2>&1")), &[told, silent]);
            check(&mut batch, host, &json!(format!("exec {line} {QUIET}")), &[silent]);
        }
        batch.finish();
    }
}
