//! GPU memory by NVML. A small shared library stands for NVIDIA's: it is loaded by its name as the real one is, and
//! says what the test's file says.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::Batch;
use crate::oracle::all_pids;
use crate::rig::{Ran, Rig, until};
use crate::servers::row;

/// The library in a directory of its own, and the file of its answers.
struct Gpus<'a> {
    rig: &'a Rig,
    environment: [String; 3],
}

/// Tells whether pids here are those that a driver tells; says so where they are not.
pub(crate) fn has_pids_of_the_host() -> bool {
    // The inode of the initial pid namespace is a constant of the kernel.
    let has = fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == "pid:[4026531836]");
    if !has {
        println!("skipped: in this pid namespace nobody asks for GPU memory");
    }
    has
}

impl<'a> Gpus<'a> {
    fn new(rig: &'a Rig) -> Option<Self> {
        if has_pids_of_the_host() { Self::anywhere(rig) } else { None }
    }

    /// Compiles the library; says so where there is no compiler.
    fn anywhere(rig: &'a Rig) -> Option<Self> {
        if Command::new("cc").arg("--version").output().is_err() {
            println!("skipped: there is no cc to make a library with");
            return None;
        }
        fs::create_dir(rig.path("lib")).unwrap();
        let mut cc = Command::new("cc");
        rig.settle(&mut cc);
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/contract/nvml.c");
        cc.args(["-shared", "-fPIC", "-o"]).arg(rig.path("lib/libnvidia-ml.so.1")).arg(source);
        let made = Ran::of(cc.spawn().unwrap());
        assert_eq!(made.code, Some(0), "{made:?}");
        let environment = [
            format!("LD_LIBRARY_PATH={}", rig.path("lib").display()),
            format!("NVML_ANSWERS={}", rig.path("answers").display()),
            format!("PATH={}:{}", rig.path("bin").display(), std::env::var("PATH").unwrap()),
        ];
        let gpus = Self { rig, environment };
        gpus.say("");
        Some(gpus)
    }

    fn say(&self, answers: &str) {
        self.rig.write("answers.new", answers);
        fs::rename(self.rig.path("answers.new"), self.rig.path("answers")).unwrap();
    }

    /// Makes a nvidia-smi that says this.
    fn smi(&self, answer: &str) {
        self.rig.executable("bin/nvidia-smi", &format!("#!/bin/sh\necho '{answer}'\n"));
    }

    fn wrapper(&self) -> Vec<&str> {
        std::iter::once("env").chain(self.environment.iter().map(String::as_str)).collect()
    }

    fn batch(&self) -> Batch {
        self.rig.batch_with(&self.wrapper(), &[])
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.rig.wrapped(&self.wrapper(), arguments).spawn().unwrap())
    }

    /// Returns what `doctor` says of the GPU memory: state and detail.
    fn doctor(&self) -> (String, String) {
        let answer = self.run(&["doctor", "--json"]).lines().remove(0);
        let checks = answer["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["name"] == "GPU memory").unwrap();
        assert_eq!(check["state"] == "ok", check["way_out"].is_null(), "{check}");
        (check["state"].as_str().unwrap().to_owned(), check["detail"].as_str().unwrap().to_owned())
    }
}

fn serve(rig: &Rig, batch: &mut Batch) -> (String, i64) {
    let launched = batch.ok(json!({"cmd": "launch", "command": ["sleep", rig.nap()], "kind": "serve", "host": "pty"}));
    (launched["session"].as_str().unwrap().to_owned(), launched["pid"].as_i64().unwrap())
}

/// Returns the helpers of this test that have the library.
fn helpers(rig: &Rig) -> Vec<i32> {
    let is_helper = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == b"__nvml")
    };
    let ours = rig.processes();
    all_pids().into_iter().filter(|pid| ours.contains(pid)).filter(is_helper).collect()
}

#[test]
fn memory_is_told_by_session_and_process_and_comes_back() {
    let rig = Rig::new();
    let Some(gpus) = Gpus::new(&rig) else { return };
    // Its word goes over that of nvidia-smi.
    gpus.smi("1, 1");
    let mut batch = gpus.batch();
    let (session, pid) = serve(&rig, &mut batch);
    // Two GPUs, in one of which it computes and draws, which is one number told twice; a line of the library's own.
    let one = 1_u64 << 30;
    gpus.say(&format!("print hello\n0 c {pid} {one}\n0 g {pid} {one}\n1 c {pid} 5\n1 c 1 99\n"));
    until("it is seen", || row(&mut batch, &session)["gpu_bytes"] == json!(one + 5));
    let tree = batch.ok(json!({"cmd": "tree", "session": session}));
    assert_eq!(tree["processes"][0]["gpu_bytes"], json!(one + 5), "{tree}");
    assert_eq!(helpers(&rig).len(), 1, "one helper is kept");
    // Of a part nobody can tell: the sum is unknown, and never a part of it.
    gpus.say(&format!("0 c {pid} {one}\n1 c {pid} - 3\n"));
    until("it is unknown", || row(&mut batch, &session)["gpu_bytes"] == Value::Null);
    gpus.say(&format!("0 c {pid} 0\n"));
    std::thread::sleep(Duration::from_millis(3500));
    assert_eq!(row(&mut batch, &session)["gpu_bytes"], Value::Null, "never 0");
    gpus.say(&format!("1 g {pid} {one}\n"));
    until("it is seen again", || row(&mut batch, &session)["gpu_bytes"] == json!(one));
    // The driver gives it back a moment after the end: that is waited for.
    let answers = rig.path("answers");
    let watched = std::thread::spawn(move || {
        until("it has ended", || !std::path::Path::new(&format!("/proc/{pid}")).exists());
        std::thread::sleep(Duration::from_millis(400));
        fs::write(answers, "").unwrap();
    });
    let receipt = batch.ok(json!({"cmd": "stop", "session": session}));
    watched.join().unwrap();
    assert_eq!((&receipt["dead"], &receipt["still_held"]), (&json!(true), &json!([])), "{receipt}");
    assert!(receipt["notes"].to_string().contains("1.0G of GPU memory came back"), "{receipt}");
    assert!(receipt["elapsed_ms"].as_u64().unwrap() < 3000, "{receipt}");
    until("with nobody to ask for, the library is let go", || helpers(&rig).is_empty());
    assert_eq!(batch.finish(), Some(0));
    rig.assert_empty();
}

#[test]
fn memory_that_does_not_come_back_is_still_held() {
    let rig = Rig::new();
    let Some(gpus) = Gpus::new(&rig) else { return };
    let mut batch = gpus.batch();
    let (session, pid) = serve(&rig, &mut batch);
    gpus.say(&format!("0 c {pid} 4096\n"));
    until("it is seen", || row(&mut batch, &session)["gpu_bytes"] == json!(4096));
    let receipt = batch.ok(json!({"cmd": "stop", "session": session}));
    let by = format!("the driver, for pid {pid}, which has ended");
    assert_eq!(receipt["still_held"], json!([{"gpu_bytes": 4096, "by": by}]), "{receipt}");
    assert!(!receipt["notes"].to_string().contains("came back"), "{receipt}");
    // Where the library fails meanwhile, nobody knows; that is no memory that came back.
    let (session, pid) = serve(&rig, &mut batch);
    gpus.say(&format!("0 c {pid} 4096\n"));
    until("it is seen", || row(&mut batch, &session)["gpu_bytes"] == json!(4096));
    gpus.say("0 fails 999\n");
    let receipt = batch.ok(json!({"cmd": "stop", "session": session}));
    let note = "nobody can tell whether 4.0K of GPU memory came back: NVML: an internal driver error occurred";
    assert!(receipt["notes"].to_string().contains(note), "{receipt}");
    assert_eq!((&receipt["dead"], &receipt["still_held"]), (&json!(true), &json!([])), "{receipt}");
    assert_eq!(batch.finish(), Some(3));
}

/// A driver that hangs holds up nobody, and what has it goes with the manager however that ends.
#[test]
fn a_library_that_hangs_costs_nothing_but_its_numbers() {
    let rig = Rig::new();
    let Some(gpus) = Gpus::new(&rig) else { return };
    gpus.say("hang\n");
    let mut batch = gpus.batch();
    let (session, pid) = serve(&rig, &mut batch);
    gpus.smi(&format!("{pid}, 3"));
    until("the library hangs", || helpers(&rig).len() == 1);
    let begun = Instant::now();
    for _ in 0..10 {
        row(&mut batch, &session);
    }
    assert!(begun.elapsed() < Duration::from_secs(1), "nobody waits for it: {:?}", begun.elapsed());
    until("nvidia-smi is asked instead", || row(&mut batch, &session)["gpu_bytes"] == json!(3 << 20));
    let (state, detail) = gpus.doctor();
    assert_eq!((state.as_str(), detail.as_str()), ("warn", "nvidia-smi: NVML has not answered yet"));
    batch.signal(Signal::KILL);
    batch.ended();
    rig.assert_empty();
}

#[test]
fn a_library_that_fails_leaves_the_word_to_nvidia_smi() {
    let rig = Rig::new();
    let Some(gpus) = Gpus::new(&rig) else { return };
    assert_eq!(gpus.doctor(), ("ok".into(), "nvml".into()));
    gpus.smi("1, 1");
    gpus.say("init 9\n");
    assert_eq!(gpus.doctor(), ("warn".into(), "nvidia-smi: NVML: NVIDIA driver is not loaded".into()));
    gpus.say("crash\n");
    assert_eq!(gpus.doctor(), ("warn".into(), "nvidia-smi: NVML's helper has ended".into()));
    let mut batch = gpus.batch();
    let (session, pid) = serve(&rig, &mut batch);
    gpus.smi(&format!("{pid}, 3"));
    until("nvidia-smi is asked instead", || row(&mut batch, &session)["gpu_bytes"] == json!(3 << 20));
    gpus.smi("1, 1");
    let receipt = batch.ok(json!({"cmd": "stop", "session": session}));
    assert!(receipt["notes"].to_string().contains("3.0M of GPU memory came back"), "{receipt}");
    assert_eq!(batch.finish(), Some(0), "it crashed elsewhere");
    // One GPU that tells nothing is no reason to be silent about the other; two are.
    gpus.say("0 fails 3\n");
    assert_eq!(gpus.doctor(), ("ok".into(), "nvml".into()));
    gpus.say("0 fails 4\n1 fails 4\n");
    let (state, detail) = gpus.doctor();
    assert!(state == "warn" && detail.contains("permission"), "{detail}");
    // The loader looks into no working directory.
    fs::copy(rig.path("lib/libnvidia-ml.so.1"), rig.work().join("libnvidia-ml.so.1")).unwrap();
    let answer = rig.json(&["doctor"]);
    let checks = answer["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == "GPU memory").unwrap();
    assert!(!check["detail"].as_str().unwrap().contains("cannot be loaded"), "{check}");
    fs::write(rig.path("lib/libnvidia-ml.so.1"), "no library").unwrap();
    let (state, detail) = gpus.doctor();
    assert!(state == "warn" && detail.starts_with("nvidia-smi: libnvidia-ml.so.1 cannot be loaded"), "{detail}");
    fs::remove_file(rig.path("lib/libnvidia-ml.so.1")).unwrap();
    assert_eq!(gpus.doctor(), ("ok".into(), "nvidia-smi (libnvidia-ml.so.1 is not here)".into()));
    fs::remove_file(rig.path("bin/nvidia-smi")).unwrap();
    let (state, detail) = gpus.doctor();
    assert!(state == "ok" && ["none", "drm"].contains(&detail.as_str()), "{detail}");
}

/// NVIDIA's tools tell pids of the host: in another pid namespace they are other processes, or none.
#[test]
fn in_another_pid_namespace_nobodys_memory_is_taken_for_ours() {
    let script = r#"answers=$1 smi=$2; shift 2
        pid=$("$@" launch --host tmux --kind serve --json -- sleep 99 | sed 's/.*"pid":\([0-9]*\).*/\1/')
        echo "0 c $pid 4096" > "$answers"
        printf '#!/bin/sh\necho "%s, 3"\n' "$pid" > "$smi"
        chmod 755 "$smi"
        "$@" ls --json
        "$@" doctor --json"#;
    let look = |wrapper: &[&str]| {
        let rig = Rig::new();
        let gpus = Gpus::anywhere(&rig)?;
        gpus.smi("");
        let paths = ["answers", "bin/nvidia-smi"].map(|name| rig.path(name).display().to_string());
        let mut words = gpus.wrapper();
        words.extend(wrapper);
        words.extend(["sh", "-c", script, "sh", &paths[0], &paths[1]]);
        let ran = Ran::of(rig.wrapped(&words, &[]).spawn().unwrap());
        let [list, doctor] = ran.lines().try_into().unwrap_or_else(|_| panic!("{ran:?}"));
        let checks = doctor["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["name"] == "GPU memory").unwrap().clone();
        Some((list["sessions"][0]["gpu_bytes"].clone(), check["detail"].as_str().unwrap().to_owned()))
    };
    let Some((bytes, detail)) = look(&[]) else { return };
    if !has_pids_of_the_host() {
        assert_eq!(bytes, Value::Null, "{detail}");
        return;
    }
    assert_eq!((bytes, detail.as_str()), (json!(4096), "nvml"), "else the rest would prove nothing");
    let apart = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
    let works = Command::new(apart[0]).args(&apart[1..]).arg("true").output();
    if !works.is_ok_and(|output| output.status.success()) {
        println!("skipped: a pid namespace needs root");
        return;
    }
    let (bytes, detail) = look(&apart).unwrap();
    assert_eq!(bytes, Value::Null, "{detail}");
    assert!(detail.contains("this is another pid namespace"), "{detail}");
}
