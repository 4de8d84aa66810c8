//! What a stop brings back besides processes: GPU memory, and the ports of containers. Stand-ins take the place of
//! nvidia-smi and docker.

use std::fs;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::client::Batch;
use crate::nvml::has_pids_of_the_host;
use crate::rig::{Rig, until};
use crate::servers::{free_port, row};

/// A batch that finds the stand-ins before anything else.
fn batch(rig: &Rig, options: &[&str]) -> Batch {
    let path = path(rig);
    rig.batch_with(&["env", &path], options)
}

fn path(rig: &Rig) -> String {
    format!("PATH={}:{}", rig.path("bin").display(), std::env::var("PATH").unwrap())
}

/// Makes a nvidia-smi that prints a file of the test's.
fn gpu(rig: &Rig) {
    let script = "#!/bin/sh
[ \"$*\" = '--query-compute-apps=pid,used_memory --format=csv,noheader,nounits' ] || exit 9
cat \"${0%/*}/used\"
";
    rig.executable("bin/nvidia-smi", script);
    rig.write("bin/used", "");
}

fn uses(rig: &Rig, text: &str) {
    rig.write("bin/new", text);
    fs::rename(rig.path("bin/new"), rig.path("bin/used")).unwrap();
}

#[test]
fn gpu_memory_is_told_by_session_and_process() {
    if !has_pids_of_the_host() {
        return;
    }
    let rig = Rig::new();
    gpu(&rig);
    let mut batch = batch(&rig, &[]);
    let launched = batch.ok(json!({"cmd": "launch", "command": ["sleep", rig.nap()], "kind": "serve", "host": "pty"}));
    let (session, pid) = (launched["session"].as_str().unwrap(), launched["pid"].as_i64().unwrap());
    assert_eq!(row(&mut batch, session)["gpu_bytes"], Value::Null, "never 0");
    // On two GPUs, beside somebody else.
    uses(&rig, &format!("{pid}, 1024\n1, 77\n{pid}, 512\n"));
    until("it is seen", || row(&mut batch, session)["gpu_bytes"] == json!(1536 << 20));
    let tree = batch.ok(json!({"cmd": "tree", "session": session}));
    assert_eq!(tree["processes"][0]["gpu_bytes"], json!(1536 << 20), "{tree}");
    // The driver gives it back a moment after the end: that is waited for.
    let used = rig.path("bin/used");
    let watched = std::thread::spawn(move || {
        until("it has ended", || !std::path::Path::new(&format!("/proc/{pid}")).exists());
        std::thread::sleep(std::time::Duration::from_millis(400));
        fs::write(used, "").unwrap();
    });
    let receipt = batch.ok(json!({"cmd": "stop", "session": session}));
    watched.join().unwrap();
    assert_eq!((&receipt["dead"], &receipt["still_held"]), (&json!(true), &json!([])), "{receipt}");
    assert!(receipt["elapsed_ms"].as_u64().unwrap() < 3000, "{receipt}");
    assert_eq!(batch.finish(), Some(0));
}

#[test]
fn gpu_memory_that_does_not_come_back_is_still_held() {
    if !has_pids_of_the_host() {
        return;
    }
    let rig = Rig::new();
    gpu(&rig);
    let mut command = rig.wrapped(
        &["env", &path(&rig)],
        &["launch", "--host", "tmux", "--kind", "serve", "--name", "g", "--json", "--", "sleep", &rig.nap()],
    );
    let launched = crate::rig::Ran::of(command.spawn().unwrap()).lines().remove(0);
    let pid = launched["pid"].as_i64().unwrap();
    uses(&rig, &format!("{pid}, 4096\n"));
    // A single command asks by itself.
    let mut list = rig.wrapped(&["env", &path(&rig)], &["ls", "--json"]);
    let listed = crate::rig::Ran::of(list.spawn().unwrap()).lines().remove(0);
    assert_eq!(listed["sessions"][0]["gpu_bytes"], json!(4096_u64 << 20), "{listed}");
    let mut stop = rig.wrapped(&["env", &path(&rig)], &["stop", "g"]);
    let ran = crate::rig::Ran::of(stop.spawn().unwrap());
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let held = format!("4.0G of GPU memory is still held by the driver, for pid {pid}, which has ended");
    assert!(ran.text().contains(&held) && ran.text().contains(": dead;"), "{ran:?}");
}

#[test]
fn a_gpu_that_does_not_answer_costs_nothing_but_its_numbers() {
    let rig = Rig::new();
    rig.executable("bin/nvidia-smi", "#!/bin/sh\nexec sleep 3600\n");
    let mut batch = batch(&rig, &[]);
    let session = batch.launch(json!({"command": ["sleep", rig.nap()], "kind": "serve", "host": "pty"}));
    let begun = std::time::Instant::now();
    assert_eq!(row(&mut batch, &session)["gpu_bytes"], Value::Null);
    assert!(begun.elapsed().as_secs() < 2, "nobody waits for it");
    let receipt = batch.ok(json!({"cmd": "stop", "session": session}));
    assert_eq!((&receipt["dead"], &receipt["still_held"]), (&json!(true), &json!([])), "{receipt}");
    assert_eq!(batch.finish(), Some(0));
}

/// Stands for the daemon of docker: listens on the port of each file in a folder, for as long as the file is there.
const DAEMON: &str = r"
import os, socket, sys, time
held = {}
while True:
    wanted = {name for name in os.listdir(sys.argv[1]) if name.isdigit()}
    for name in set(held) - wanted:
        held.pop(name).close()
    for name in wanted - set(held):
        held[name] = socket.create_server(('127.0.0.1', int(name)))
    time.sleep(0.02)
";

/// Stands for its client: `docker run -p HOST:PORT --name NAME image`, and `docker stop NAME`.
const CLIENT: &str = "#!/bin/sh
folder=\"${0%/*}/../containers\"
case $1 in
run) : > \"$folder/${3%%:*}\"; echo up; [ \"$KEEPS\" ] || trap 'rm -f \"$folder/${3%%:*}\"; exit 0' TERM
     while :; do sleep 0.05; done ;;
stop) rm -f \"$folder\"/* ;;
esac
";

struct Daemon(Child);

impl Daemon {
    fn start(rig: &Rig) -> Self {
        fs::create_dir(rig.path("containers")).unwrap();
        rig.executable("bin/docker", CLIENT);
        rig.write("daemon.py", DAEMON);
        let mut command = Command::new("python3");
        rig.settle(&mut command);
        command.arg(rig.path("daemon.py")).arg(rig.path("containers")).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn listens(port: u16) -> bool {
    std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
}

#[test]
fn a_container_that_outlives_its_client_is_in_the_receipt() {
    let rig = Rig::new();
    let daemon = Daemon::start(&rig);
    let recipe = |name: &str, port: u16, stop: &str| {
        let command = ["docker", "run", "-p", &format!("{port}:80"), "--name", name, "image"].map(str::to_owned);
        format!("[[recipe]]\nname = \"{name}\"\nkind = \"serve\"\nhost = \"pty\"\ncommand = {command:?}\n{stop}\n")
    };
    let ports = [free_port(), free_port(), free_port()];
    let keeps = "env = { KEEPS = \"1\" }";
    let recipes = [
        recipe("good", ports[0], ""),
        recipe("bad", ports[1], keeps),
        recipe("told", ports[2], &format!("{keeps}\nstop = {{ command = [\"docker\", \"stop\", \"told\"] }}")),
    ];
    let config = rig.write("c.toml", &recipes.concat());
    let mut batch = batch(&rig, &["--config", config.to_str().unwrap()]);
    let stop = |batch: &mut Batch, name: &str, port: u16| {
        let session = batch.launch(json!({"recipe": name}));
        batch.expect_output(&session, "up");
        until("it listens", || listens(port));
        batch.ok(json!({"cmd": "stop", "session": session}))
    };
    let receipt = stop(&mut batch, "good", ports[0]);
    assert_eq!((&receipt["dead"], &receipt["still_held"]), (&json!(true), &json!([])), "{receipt}");
    let receipt = stop(&mut batch, "bad", ports[1]);
    assert_eq!(receipt["dead"], json!(null), "the client is, its work is not: {receipt}");
    let held = &receipt["still_held"][0];
    assert_eq!(held["port"], json!(ports[1]), "{receipt}");
    assert!(held["by"].as_str().unwrap().starts_with(&format!("process {} (", daemon.0.id())), "{receipt}");
    let note = receipt["notes"].to_string();
    assert!(note.contains("end it with `docker stop bad`") && note.contains("stop = { command = "), "{receipt}");
    assert!(listens(ports[1]), "nobody of ours has ended it");
    // No session has it any more; the doctor does, until it is gone.
    let containers = || -> Option<Value> {
        let checks = rig.json(&["doctor"]);
        checks["checks"].as_array().unwrap().iter().find(|check| check["name"] == "containers").cloned()
    };
    let left = containers().unwrap();
    // Another stop of the same session leaves another receipt, and no other container.
    let again = batch.ok(json!({"cmd": "stop", "session": receipt["session"]}));
    assert_eq!(again["still_held"][0]["port"], json!(ports[1]), "{again}");
    assert_eq!(containers().unwrap()["detail"], left["detail"], "{again}");
    let detail = left["detail"].as_str().unwrap();
    assert!(detail.starts_with(&format!("one, on port {}, which is held by process", ports[1])), "{left}");
    assert!(left["way_out"].as_str().unwrap().contains("end it with `docker stop bad`"), "{left}");
    fs::remove_file(rig.path("containers").join(ports[1].to_string())).unwrap();
    until("it is gone", || !listens(ports[1]));
    assert_eq!(containers(), None);
    let receipt = stop(&mut batch, "told", ports[2]);
    assert_eq!((&receipt["dead"], &receipt["still_held"]), (&json!(true), &json!([])), "{receipt}");
    assert_eq!(batch.finish(), Some(3));
}

/// Of a port that a shell puts in, only the arguments of the client tell.
#[test]
fn a_container_whose_port_is_a_variable_is_in_the_receipt() {
    let rig = Rig::new();
    let _daemon = Daemon::start(&rig);
    let mut batch = batch(&rig, &[]);
    let port = free_port();
    let line = format!("PORT={port}; docker run -p $PORT:80 --name box image; true");
    let request = json!({"command": line, "kind": "serve", "host": "pty", "env": {"KEEPS": "1"}});
    let session = batch.launch(request);
    batch.expect_output(&session, "up");
    until("it listens", || listens(port));
    let receipt = batch.ok(json!({"cmd": "stop", "session": session}));
    assert_eq!(receipt["dead"], json!(null), "the client is, its work is not: {receipt}");
    assert_eq!(receipt["still_held"][0]["port"], json!(port), "{receipt}");
    assert!(receipt["notes"].to_string().contains("end it with `docker stop box`"), "{receipt}");
    assert!(listens(port), "nobody of ours has ended it");
    assert_eq!(batch.finish(), Some(3));
}

/// What has ended by itself is kept to be looked at, not to be held: ten of them take no more descriptors than none.
#[test]
fn what_has_ended_holds_no_descriptor() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    let held = |batch: &Batch| fs::read_dir(format!("/proc/{}/fd", batch.pid())).unwrap().count();
    batch.ok(json!({"cmd": "list"}));
    let before = held(&batch);
    for number in 0..10 {
        let command = format!("echo last-words-{number}");
        let name = format!("s{number}");
        batch.ok(json!({"cmd": "launch", "command": command, "kind": "shell", "host": "pty", "name": name}));
        batch.ok(json!({"cmd": "wait", "session": name, "for": "exit", "timeout_s": 20}));
    }
    until("all is let go", || held(&batch) <= before);
    for number in 0..10 {
        let screen = batch.ok(json!({"cmd": "screen", "session": format!("s{number}")}));
        assert_eq!(screen["lines"][0], json!(format!("last-words-{number}")), "its last screen stays");
        batch.ok(json!({"cmd": "dismiss", "session": format!("s{number}")}));
    }
    assert_eq!(batch.finish(), Some(0));
}

/// The port is named by `ready` alone: the client is told by its verb, or by the command line of a member.
#[test]
fn a_container_is_looked_for_at_the_port_that_its_recipe_waits_for() {
    let rig = Rig::new();
    let daemon = Daemon::start(&rig);
    let client = "#!/bin/sh\n: > \"${0%/*}/../containers/$PORT\"\necho up\nwhile :; do sleep 0.05; done\n";
    rig.executable("bin/docker", client);
    let docker = rig.path("bin/docker");
    rig.executable("work/up.sh", &format!("#!/bin/sh\nexec {} run -P image\n", docker.display()));
    let commands: [(&str, &[&str], &str); 3] = [
        ("compose", &["docker", "compose", "up"], "end it with `docker compose stop`"),
        ("start", &["docker", "start", "-a", "box"], "end it with `docker stop box`"),
        ("script", &["./up.sh"], "`docker ps` shows it"),
    ];
    let ports = [free_port(), free_port(), free_port(), free_port()];
    let recipe = |name: &str, command: &[&str], port: u16| {
        format!(
            "[[recipe]]\nname = \"{name}\"\nkind = \"serve\"\nhost = \"pty\"\ncommand = {command:?}\nready = {{ tcp = {port} }}\nenv = {{ PORT = \"{port}\" }}\n"
        )
    };
    let mut recipes: Vec<String> =
        commands.iter().zip(ports).map(|((name, command, _), port)| recipe(name, command, port)).collect();
    recipes.push(recipe("stranger", &["sh", "-c", "echo up; exec sleep 1000"], ports[3]));
    let config = rig.write("c.toml", &recipes.concat());
    let mut batch = batch(&rig, &["--config", config.to_str().unwrap()]);
    let mut stop = |name: &str, port: u16| {
        let session = batch.launch(json!({"recipe": name}));
        batch.expect_output(&session, "up");
        until("it listens", || listens(port));
        batch.ok(json!({"cmd": "stop", "session": session}))
    };
    let holder = format!("process {} (", daemon.0.id());
    for ((name, _, way_out), port) in commands.into_iter().zip(ports) {
        let receipt = stop(name, port);
        assert_eq!(receipt["dead"], json!(null), "{receipt}");
        assert_eq!(receipt["still_held"][0]["port"], json!(port), "{receipt}");
        assert!(receipt["still_held"][0]["by"].as_str().unwrap().starts_with(&holder), "{receipt}");
        assert!(receipt["notes"].to_string().contains(way_out), "{receipt}");
        assert!(listens(port), "nobody of ours has ended it");
    }
    // Where there is no client, it is somebody else's port.
    rig.write(&format!("containers/{}", ports[3]), "");
    let receipt = stop("stranger", ports[3]);
    assert_eq!((&receipt["dead"], &receipt["still_held"]), (&json!(true), &json!([])), "{receipt}");
    let note = receipt["notes"].to_string();
    assert!(note.contains(&format!("port {} is held by {holder}", ports[3])), "{receipt}");
    assert!(listens(ports[3]));
    batch.finish();
}
