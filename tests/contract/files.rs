//! Files: private whatever the umask, refused where somebody else put them, and a disk that refuses starts nothing.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::client::Batch;
use crate::oracle::Bystanders;
use crate::rig::{Ran, Rig, until, walk};

/// Checks owner and mode of everything in a directory; returns what was seen.
fn check_private(dir: &Path) -> Vec<PathBuf> {
    let found = walk(dir);
    for path in &found {
        let Ok(meta) = fs::symlink_metadata(path) else { continue };
        let expected = if meta.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(meta.mode() & 0o7777, expected, "{}", path.display());
        assert_eq!(meta.uid(), rustix::process::geteuid().as_raw(), "{}", path.display());
    }
    found
}

#[test]
fn everything_is_private_whatever_the_umask() {
    for mask in ["000", "077", "022", "177", "277", "777"] {
        let rig = Rig::new();
        rig.write("home/config/cookbook-tui/config.toml", "[containment]\ncgroup = true\n");
        let workloads = ["pty-serve", "pty-agent", "tmux-serve", "tmux-agent"];
        for name in workloads {
            // What a workload made under such a mask could not be read.
            rig.write(name, "");
        }
        let wrap = format!("umask {mask}; exec \"$@\"");
        let mut batch = rig.batch_with(&["sh", "-c", &wrap, "sh"], &["--log-level", "trace"]);
        let mut sessions = Vec::new();
        for host in ["pty", "tmux"] {
            for kind in ["serve", "agent"] {
                let command =
                    format!("echo printed; umask > {}; sleep 3600", rig.path(&format!("{host}-{kind}")).display());
                let session = batch.launch(json!({"command": command, "host": host, "kind": kind}));
                batch.expect_output(&session, "printed");
                sessions.push(session);
            }
        }
        let short = batch.launch(json!({"command": "exit 3"}));
        batch.ok(json!({"cmd": "wait", "session": short, "for": "exit", "timeout_s": 20}));
        rig.write("work/cookbook.toml", "");
        let mut trust = rig.wrapped(&["sh", "-c", &wrap, "sh"], &["trust"]);
        assert!(trust.status().unwrap().success());
        let logged = || sessions.iter().all(|session| rig.state().join(format!("logs/{session}.log")).exists());
        until("every session has a log", logged);
        let seen = check_private(&rig.state());
        for name in ["tmux.conf", "trusted.json", "cookbook-tui.log", "sessions", "logs", &format!("{short}.exit")] {
            assert!(seen.iter().any(|path| path.ends_with(name)), "{name} was not looked at: {seen:?}");
        }
        let seen = check_private(&rig.runtime());
        for (what, first) in [("the control socket", b'c'), ("the private tmux of an agent", b't')] {
            let is_there = |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == first);
            assert!(seen.iter().any(is_there), "{what} was not looked at: {seen:?}");
        }
        // Our care is ours: the workload has the mask that it was launched with.
        for name in workloads {
            until(name, || fs::read_to_string(rig.path(name)).is_ok_and(|text| text.ends_with('\n')));
            assert_eq!(fs::read_to_string(rig.path(name)).unwrap().trim(), format!("0{mask}"), "{name}");
        }
        let tmux = rig.path(&format!("tmux-{}", rustix::process::geteuid().as_raw()));
        assert_eq!(fs::metadata(&tmux).unwrap().mode() & 0o7777, 0o700, "{}", tmux.display());
        for session in &sessions {
            let record = fs::read(rig.state().join(format!("sessions/{session}.json"))).unwrap();
            let record: Value = serde_json::from_slice(&record).unwrap();
            // A cgroup is nobody's secret, where there is one; but its owner needs it.
            if let Some(path) = record["cgroup"]["path"].as_str() {
                assert_eq!(fs::metadata(path).unwrap().mode() & 0o700, 0o700, "{path}");
            }
            batch.ok(json!({"cmd": "stop", "session": session, "timeout_s": 0.01, "grace_s": 0}));
        }
        let seen = check_private(&rig.state());
        for name in ["receipts.jsonl", "receipts.lock"] {
            assert!(seen.iter().any(|path| path.ends_with(name)), "{name} was not looked at: {seen:?}");
        }
    }
}

/// Nobody has this one.
const SOMEBODY: u32 = 64_985;

/// Root is stopped by no mode: whether we set them in time is seen by who is not root.
#[test]
fn who_is_not_root_launches_whatever_the_umask() {
    if !is_root() {
        return;
    }
    for mask in ["177", "277", "777"] {
        let rig = Rig::new();
        // It may be where only root can read.
        fs::copy(env!("CARGO_BIN_EXE_cookbook-tui"), rig.path("binary")).unwrap();
        for name in ["", "run", "home", "work"] {
            chown(rig.path(name), Some(SOMEBODY), Some(SOMEBODY)).unwrap();
        }
        let program = rig.path("binary").display().to_string();
        let id = SOMEBODY.to_string();
        let script = format!("umask {mask}; shift; exec {program} \"$@\"");
        let wrapper = ["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups", "sh", "-c", &script, "sh"];
        let run = |words: &[&str]| Ran::of(rig.wrapped(&wrapper, words).spawn().unwrap());
        // A launch in a PTY stays until its end.
        for (host, script) in [("pty", "umask".to_owned()), ("tmux", format!("umask; sleep {}", rig.nap()))] {
            let ran = run(&["launch", "--json", "--host", host, "--", "sh", "-c", &script]);
            assert_eq!((ran.code, ran.error().as_str()), (Some(0), ""), "{mask} {host}: {ran:?}");
            let session = ran.lines()[0]["session"].as_str().unwrap().to_owned();
            let log = rig.state().join(format!("logs/{session}.log"));
            let printed = || fs::read_to_string(&log).is_ok_and(|text| text.contains(&format!("0{mask}")));
            until("the workload has the mask of its launcher", printed);
            assert!(host == "pty" || run(&["stop", &session]).code == Some(0), "{mask}");
        }
        // One that died before it had set a mode stops nobody.
        for name in ["receipts.jsonl", "receipts.lock", "cookbook-tui.log"] {
            fs::set_permissions(rig.state().join(name), fs::Permissions::from_mode(0o0)).unwrap();
        }
        let ran = run(&["launch", "--host", "pty", "--", "true"]);
        assert_eq!((ran.code, ran.error().as_str()), (Some(0), ""), "{mask}: {ran:?}");
        assert_eq!(run(&["doctor"]).code, Some(0), "{mask}");
        for path in walk(&rig.state()).into_iter().chain(walk(&rig.runtime())) {
            let Ok(meta) = fs::symlink_metadata(&path) else { continue };
            let expected = if meta.is_dir() { 0o700 } else { 0o600 };
            assert_eq!((meta.mode() & 0o7777, meta.uid()), (expected, SOMEBODY), "{mask}: {}", path.display());
        }
    }
}

/// A run that died before it had set a mode has left nothing that stops the next one.
#[test]
fn what_a_umask_has_left_is_mended() {
    let rig = Rig::new();
    assert_eq!(rig.run(&["launch", "--host", "pty", "--", "true"]).code, Some(0));
    for path in walk(&rig.state()) {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o0)).unwrap();
    }
    for dir in [rig.state(), rig.runtime()] {
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o0)).unwrap();
    }
    let session = rig.json(&["launch", "--host", "pty", "--", "true"])["session"].as_str().unwrap().to_owned();
    for name in ["", "sessions", "logs", "receipts.jsonl", "receipts.lock", "cookbook-tui.log"] {
        let mode = fs::symlink_metadata(rig.state().join(name)).unwrap().mode() & 0o7777;
        assert_eq!(mode, if name.contains('.') { 0o600 } else { 0o700 }, "{name}");
    }
    assert_eq!(fs::symlink_metadata(rig.runtime()).unwrap().mode() & 0o7777, 0o700);
    assert!(rig.state().join(format!("logs/{session}.log")).exists());
}

#[test]
fn the_gate_of_a_launch_is_private() {
    let rig = Rig::new();
    // A tmux that takes its time leaves the gate open meanwhile.
    rig.executable(
        "bin/tmux",
        "#!/bin/sh\ncase \"$*\" in *new-session*) sleep 0.8;; esac\nPATH=${PATH#*:}\nexec tmux \"$@\"\n",
    );
    let mut command = rig.wrapped(&["sh", "-c", "umask 000; exec \"$@\"", "sh"], &["--batch"]);
    command.env("PATH", format!("{}:{}", rig.path("bin").display(), std::env::var("PATH").unwrap()));
    let mut batch = Batch::start(command);
    let launch = batch.send(json!({"cmd": "launch", "command": ["sleep", rig.nap()], "host": "tmux"}));
    let is_socket = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    until("the gate", || rig.passing().iter().any(is_socket));
    std::thread::sleep(std::time::Duration::from_millis(20));
    let seen = check_private(&rig.runtime());
    assert!(seen.iter().any(is_socket), "{seen:?}");
    assert_eq!(batch.answer(&launch)["ok"], json!(true));
    assert_eq!(rig.passing(), Vec::<PathBuf>::new(), "a gate was left open");
}

/// Checks that nothing starts with such a state or runtime directory, and that the message says why.
fn check_refused(rig: &Rig, place: &Path, words: &[&str]) {
    let ledger = rig.ledger("ledger");
    let argv = ledger.noted(&["sleep", "0.1"]);
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    let launch = [&["launch", "--json", "--host", "tmux", "--"][..], &argv].concat();
    for words_of_run in [&["ls", "--json"][..], &launch] {
        let ran = rig.run(words_of_run);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let error = ran.lines()[0]["error"].take();
        let message = error["message"].as_str().unwrap();
        assert_eq!(error["kind"], "state", "{message}");
        assert!(message.contains(place.to_str().unwrap()), "{message}");
        for word in words {
            assert!(message.contains(word), "{word:?} is not in: {message}");
        }
    }
    let batch = rig.script(&[], b"{\"cmd\":\"hello\"}\n");
    assert_eq!((batch.code, batch.out.len()), (Some(1), 0), "{batch:?}");
    assert_eq!(ledger.entries().len(), 0, "a workload ran");
}

#[test]
fn a_linked_state_directory_is_refused() {
    let rig = Rig::new();
    fs::create_dir(rig.path("elsewhere")).unwrap();
    symlink(rig.path("elsewhere"), rig.state()).unwrap();
    check_refused(&rig, &rig.state(), &["symbolic link", "--state-dir"]);
    assert_eq!(fs::read_dir(rig.path("elsewhere")).unwrap().count(), 0);
}

#[test]
fn a_state_directory_that_is_none_is_refused() {
    let rig = Rig::new();
    fs::write(rig.state(), "").unwrap();
    check_refused(&rig, &rig.state(), &["not a directory", "--state-dir"]);
    fs::remove_file(rig.state()).unwrap();
    symlink("/no/such/place", rig.state()).unwrap();
    check_refused(&rig, &rig.state(), &["--state-dir"]);
}

#[test]
fn linked_directories_inside_are_refused() {
    for name in ["sessions", "logs"] {
        let rig = Rig::new();
        fs::create_dir(rig.path("elsewhere")).unwrap();
        fs::create_dir(rig.state()).unwrap();
        symlink(rig.path("elsewhere"), rig.state().join(name)).unwrap();
        check_refused(&rig, &rig.state().join(name), &["--state-dir"]);
    }
}

#[test]
fn a_linked_runtime_directory_is_refused() {
    let rig = Rig::new();
    fs::create_dir(rig.path("elsewhere")).unwrap();
    symlink(rig.path("elsewhere"), rig.runtime()).unwrap();
    check_refused(&rig, &rig.runtime(), &["symbolic link", "XDG_RUNTIME_DIR"]);
    assert_eq!(fs::read_dir(rig.path("elsewhere")).unwrap().count(), 0);
}

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped: only root can give files away");
    }
    root
}

#[test]
fn directories_of_others_are_refused() {
    if !is_root() {
        return;
    }
    let rig = Rig::new();
    fs::create_dir(rig.state()).unwrap();
    chown(rig.state(), Some(54321), None).unwrap();
    check_refused(&rig, &rig.state(), &["54321", "--state-dir"]);
    fs::remove_dir(rig.state()).unwrap();
    fs::create_dir_all(rig.runtime()).unwrap();
    chown(rig.runtime(), Some(54321), None).unwrap();
    check_refused(&rig, &rig.runtime(), &["54321", "XDG_RUNTIME_DIR"]);
}

#[test]
fn an_open_directory_of_ours_is_closed() {
    let rig = Rig::new();
    for dir in [rig.state(), rig.runtime()] {
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    }
    assert_eq!(rig.run(&["ls"]).code, Some(0));
    check_private(&rig.state());
    check_private(&rig.runtime());
}

#[test]
fn without_a_runtime_directory_of_the_session_there_is_one_in_tmp() {
    let rig = Rig::new();
    let place = PathBuf::from(format!("/tmp/cookbook-tui-{}", rustix::process::geteuid().as_raw()));
    for unusable in ["", "relative", "/no/such/dir", &format!("/tmp/{}", "x".repeat(80))] {
        let mut command = rig.command(&["launch", "--host", "pty", "--", "true"]);
        command.env("XDG_RUNTIME_DIR", unusable);
        assert!(command.status().unwrap().success(), "{unusable:?}");
        assert_eq!(fs::symlink_metadata(&place).unwrap().mode() & 0o7777, 0o700);
    }
}

/// Starts a batch whose state directory is a file system of its own, in a mount namespace of its own; `None`
/// where that is not possible here.
fn batch_on(rig: &Rig, mount: &str) -> Option<Batch> {
    fs::create_dir_all(rig.state()).unwrap();
    let state = rig.state().display().to_string();
    let script = format!("{} && exec \"$@\"", mount.replace("STATE", &state));
    let wrapper = ["unshare", "-m", "sh", "-c", &script, "sh"];
    let mut trial = std::process::Command::new("unshare");
    let possible = trial.args(&wrapper[1..]).arg("true").output().is_ok_and(|output| output.status.success());
    if !possible {
        println!("skipped: no mount namespace");
        return None;
    }
    Some(rig.batch_with(&wrapper, &[]))
}

/// Returns the state directory as the batch sees it.
fn state_of(batch: &Batch, rig: &Rig) -> PathBuf {
    let inside = rig.state();
    Path::new(&format!("/proc/{}/root", batch.pid())).join(inside.strip_prefix("/").unwrap())
}

#[test]
fn a_state_directory_that_cannot_be_written_launches_nothing() {
    let rig = Rig::new();
    let ledger = rig.ledger("ledger");
    let first = rig.run(&["ls"]);
    assert_eq!(first.code, Some(0));
    let Some(mut batch) = batch_on(&rig, "mount --bind STATE STATE && mount -o remount,bind,ro STATE") else { return };
    for host in ["pty", "tmux"] {
        let launch = json!({"cmd": "launch", "command": ledger.noted(&["sleep", "1"]), "host": host});
        let (kind, message) = batch.err(launch);
        assert!(matches!(kind.as_str(), "state" | "io"), "{kind}: {message}");
        assert!(message.contains(rig.state().to_str().unwrap()), "{message}");
    }
    assert_eq!(batch.finish(), Some(1));
    assert_eq!(ledger.entries().len(), 0, "a workload ran");
    rig.assert_empty();
}

#[test]
fn a_full_disk_launches_nothing_and_harms_no_record() {
    let rig = Rig::new();
    let nap = rig.nap();
    let mut strangers = Bystanders::new(&["sleep", &nap]);
    let Some(mut batch) = batch_on(&rig, "mount -t tmpfs -o size=16k,mode=700 tmpfs STATE") else { return };
    let first = rig.ledger("first");
    let session = batch.launch(json!({"command": first.noted(&["sleep", &nap]), "kind": "serve", "host": "pty"}));
    let workload = first.one();
    let state = state_of(&batch, &rig);
    let record = state.join(format!("sessions/{session}.json"));
    let before = fs::read(&record).unwrap();
    // What is left of the disk.
    let mut fill = fs::File::create(state.join("fill")).unwrap();
    while std::io::Write::write_all(&mut fill, &[0; 4096]).is_ok() {}
    for host in ["pty", "tmux"] {
        let ledger = rig.ledger(host);
        let launch = json!({"cmd": "launch", "command": ledger.noted(&["sleep", &nap]), "host": host});
        let (kind, message) = batch.err(launch);
        assert_eq!(kind, "state", "{host}: {message}");
        assert!(
            message.contains("nothing was launched") && message.contains(rig.state().to_str().unwrap()),
            "{message}"
        );
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert_eq!(ledger.entries().len(), 0, "{host}: a workload ran");
    }
    assert_eq!(fs::read(&record).unwrap(), before, "the record of another session was touched");
    let names: Vec<_> = fs::read_dir(state.join("sessions")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| name.to_str().unwrap().starts_with(&session)), "half files: {names:?}");
    workload.assert_alive();
    // A stop is a stop, whether or not it can be written down.
    let receipt = batch.ok(json!({"cmd": "stop", "session": session}));
    assert_eq!(receipt["dead"], json!(true), "{receipt}");
    workload.assert_ends();
    strangers.assert_alive();
    // With room again everything works.
    fs::remove_file(state.join("fill")).unwrap();
    let second = rig.ledger("second");
    batch.launch(json!({"command": second.noted(&["sleep", &nap])}));
    let second = second.one();
    assert_eq!(batch.finish(), Some(1));
    second.assert_ends();
    rig.assert_empty();
}
