//! A container of a real podman, whose engine is no daemon: conmon, which keeps it, comes back to our warden. Where
//! podman or busybox (a static one) is missing, or may not start a container, the tests say so and are skipped.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::rig::{Ran, Rig, until};
use crate::servers::{free_port, row};

/// An engine with a store of its own, and an image that holds nothing but busybox.
struct Engine<'a> {
    rig: &'a Rig,
    options: Vec<String>,
}

/// The limits are given: raising them to the engine's own takes a capability that not every root has.
const RUN: [&str; 6] =
    ["run", "--rm", "--network=host", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1000:1000", "--name"];
const IMAGE: &str = "localhost/box";

impl<'a> Engine<'a> {
    fn new(rig: &'a Rig) -> Option<Self> {
        let ["podman", "busybox"] = ["podman", "busybox"].map(|name| if find(name).is_some() { name } else { "" })
        else {
            println!("skipped: podman or busybox is not installed");
            return None;
        };
        let place = |name: &str| rig.path(name).display().to_string();
        let (root, run) = (place("containers/store"), place("containers/run"));
        let fixed = ["--storage-driver=vfs", "--cgroup-manager=cgroupfs", "--events-backend=file"];
        let mut options = vec!["podman".to_owned(), format!("--root={root}"), format!("--runroot={run}")];
        options.extend(fixed.map(str::to_owned));
        options.push(format!("--tmpdir={}", place("containers/tmp")));
        fs::create_dir_all(rig.path("image/bin")).unwrap();
        fs::copy(find("busybox").unwrap(), rig.path("image/bin/busybox")).unwrap();
        let image = place("image.tar");
        let packed = Command::new("tar").args(["-C", &place("image"), "-cf", &image, "."]).status();
        assert!(packed.unwrap().success());
        let engine = Self { rig, options };
        // Where its usual runtime does not take these cgroups, another may.
        for runtime in ["", "--runtime=runc"] {
            let engine = Self {
                rig,
                options: engine
                    .options
                    .iter()
                    .cloned()
                    .chain(Some(runtime.to_owned()))
                    .filter(|word| !word.is_empty())
                    .collect(),
            };
            let made = engine.ask(&["import", &image, IMAGE]);
            let ran = engine.ask(&[&RUN[..], &["first", IMAGE, "/bin/busybox", "true"]].concat());
            if (made.code, ran.code) == (Some(0), Some(0)) {
                return Some(engine);
            }
            println!("podman {runtime}: {:?}", ran.error());
        }
        println!("skipped: podman starts no container here");
        None
    }

    fn ask(&self, arguments: &[&str]) -> Ran {
        let mut command = Command::new(&self.options[0]);
        self.rig.settle(&mut command);
        Ran::of(command.args(&self.options[1..]).args(arguments).spawn().unwrap())
    }

    /// Returns the command that runs busybox in a container.
    fn run(&self, name: &str, busybox: &[&str]) -> Vec<String> {
        let rest = RUN.into_iter().chain([name, IMAGE, "/bin/busybox"]).chain(busybox.iter().copied());
        self.options.iter().cloned().chain(rest.map(str::to_owned)).collect()
    }

    /// Returns the names of the containers that it knows.
    fn containers(&self) -> String {
        self.ask(&["ps", "--all", "--format={{.Names}}"]).text()
    }
}

impl Drop for Engine<'_> {
    fn drop(&mut self) {
        // Its mounts would keep the directory of the test.
        drop(self.ask(&["rm", "--all", "--force", "--time=0"]));
    }
}

fn find(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|path| path.exists())
}

/// A server that is deaf to TERM (nobody's first process hears it without a handler) goes with its port and its name.
#[test]
fn a_container_of_podman_is_ours_and_is_put_away_behind_the_stop() {
    let rig = Rig::new();
    let Some(engine) = Engine::new(&rig) else { return };
    for (host, force) in [("pty", false), ("tmux", false), ("pty", true)] {
        let port = free_port();
        let command = engine.run("served", &["httpd", "-f", "-p", &port.to_string()]);
        let mut batch = rig.batch();
        let session = batch.launch(json!({"command": command, "kind": "serve", "host": host, "grace_s": 0.5}));
        until("its port is shown", || row(&mut batch, &session)["ports"] == json!([port]));
        let tree = batch.ok(json!({"cmd": "tree", "session": session}));
        let processes = tree["processes"].as_array().unwrap();
        // Its runtime has helpers, some of the same name, that may have ended since they were seen.
        let lives = |process: &&Value| process["verdict"] == "owned";
        assert!(processes.iter().all(|process| lives(&process) || process["verdict"] == "gone"), "{tree}");
        let of = |program: &str| {
            let is = |row: &&Value| row["command"].as_str().unwrap().split(' ').next().unwrap().ends_with(program);
            processes.iter().filter(lives).find(is).unwrap_or_else(|| panic!("{program}: {tree}"))["pid"].clone()
        };
        let (conmon, server) = (of("conmon"), of("busybox"));
        let plan = batch.ok(json!({"cmd": "stop", "session": session, "dry_run": true}))["plan"].clone();
        let shown =
            |pid: &Value| plan.as_array().unwrap().iter().find(|row| row["pid"] == *pid).unwrap()["signal"].clone();
        assert_eq!((shown(&server), shown(&conmon)), (json!("TERM"), json!("KILL")), "{plan}");
        let receipt = batch.ok(json!({"cmd": "stop", "session": session, "force": force}));
        assert_eq!((&receipt["dead"], &receipt["still_held"]), (&json!(true), &json!([])), "{receipt}");
        assert_eq!(receipt["ports_released"], json!([port]), "{receipt}");
        assert!(!receipt["notes"].to_string().contains("container"), "nothing of it lives on: {receipt}");
        let signals = receipt["signals"].as_array().unwrap();
        assert!(signals.iter().all(|signal| signal["pid"] != conmon), "it ends by itself: {receipt}");
        assert_eq!(engine.containers(), "", "the name is free again: {receipt}");
        assert_eq!(batch.finish(), Some(0));
    }
}

/// The engine's own way goes first, and leaves little to do.
#[test]
fn a_stop_command_of_podman_leaves_nothing_to_end() {
    let rig = Rig::new();
    let Some(engine) = Engine::new(&rig) else { return };
    let port = free_port();
    let command = engine.run("told", &["httpd", "-f", "-p", &port.to_string()]);
    let stop: Vec<&str> = engine.options.iter().map(String::as_str).chain(["stop", "--time=0", "told"]).collect();
    let config = format!(
        "[[recipe]]\nname = \"told\"\nkind = \"serve\"\nhost = \"tmux\"\ncommand = {command:?}\nstop = {{ command = {stop:?} }}\n"
    );
    let config = rig.write("c.toml", &config);
    let mut batch = rig.batch_with(&[], &["--config", config.to_str().unwrap()]);
    let session = batch.launch(json!({"recipe": "told"}));
    until("its port is shown", || row(&mut batch, &session)["ports"] == json!([port]));
    let receipt = batch.ok(json!({"cmd": "stop", "session": session}));
    assert_eq!((&receipt["dead"], &receipt["escalated"]), (&json!(true), &json!(false)), "{receipt}");
    assert_eq!(receipt["ports_released"], json!([port]), "{receipt}");
    assert_eq!(engine.containers(), "", "{receipt}");
    assert_eq!(batch.finish(), Some(0));
}
