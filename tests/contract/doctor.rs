//! The doctor runs on the faults that it is there for: each is a line with the way out, and the others are looked at.

use std::fs;
use std::os::unix::fs::{chown, symlink};

use serde_json::Value;

use crate::rig::{Ran, Rig};

/// Checks that the doctor has just this fault, names it with these words and a way out, looks at the rest all the same
/// and leaves nothing behind.
#[track_caller]
fn check_fault(ran: &Ran, name: &str, words: &[&str], way_out: &str) -> Value {
    assert_eq!((ran.code, ran.error().as_str()), (Some(1), ""), "{ran:?}");
    let [answer] = ran.lines().try_into().unwrap_or_else(|_| panic!("one line of JSON: {ran:?}"));
    let checks = answer["checks"].as_array().unwrap();
    let failed: Vec<&Value> = checks.iter().filter(|check| check["state"] == "fail").collect();
    assert_eq!(failed.len(), 1, "{answer:#}");
    assert_eq!(failed[0]["name"], name, "{answer:#}");
    for word in words {
        assert!(failed[0]["detail"].as_str().unwrap().contains(word), "{word:?}: {answer:#}");
    }
    assert!(failed[0]["way_out"].as_str().unwrap().contains(way_out), "{way_out:?}: {answer:#}");
    for name in ["inspector", "pidfd", "subreaper", "tmux", "cgroup", "logout", "configuration"] {
        assert_eq!(checks.iter().filter(|check| check["name"] == name).count(), 1, "{name}: {answer:#}");
    }
    answer
}

/// Tells whether a line was there.
fn has(answer: &Value, name: &str) -> bool {
    answer["checks"].as_array().unwrap().iter().any(|check| check["name"] == name)
}

fn doctor(rig: &Rig) -> Ran {
    rig.run(&["doctor", "--json"])
}

/// Runs the doctor in a mount namespace of its own; `None` where that is not possible here.
fn doctor_behind(rig: &Rig, mounts: &str) -> Option<Ran> {
    let script = format!("{mounts}; exec \"$@\"");
    let mut trial = std::process::Command::new("unshare");
    if !trial.args(["-m", "true"]).output().is_ok_and(|output| output.status.success()) {
        println!("skipped: no mount namespace");
        return None;
    }
    Some(Ran::of(rig.wrapped(&["unshare", "-m", "sh", "-ec", &script, "sh"], &["doctor", "--json"]).spawn().unwrap()))
}

#[test]
fn a_state_directory_that_cannot_be_used_is_a_line() {
    let rig = Rig::new();
    let state = rig.state();
    let shown = state.to_str().unwrap();
    symlink(rig.path("work"), &state).unwrap();
    let answer = check_fault(&doctor(&rig), "state directory", &[shown, "symbolic link"], "--state-dir");
    assert!(!has(&answer, "records"), "{answer:#}");
    fs::remove_file(&state).unwrap();
    fs::write(&state, "").unwrap();
    check_fault(&doctor(&rig), "state directory", &[shown, "not a directory"], "--state-dir");
    fs::remove_file(&state).unwrap();
    // It is said to people, too.
    symlink("/no/such/place", &state).unwrap();
    let text = rig.run(&["doctor"]).text();
    assert!(text.contains(&format!("FAIL  state directory: {shown} is a symbolic link")), "{text}");
    assert!(text.contains("\nok    subreaper"), "{text}");
}

#[test]
fn a_runtime_directory_that_cannot_be_used_is_a_line() {
    let rig = Rig::new();
    symlink(rig.path("work"), rig.runtime()).unwrap();
    let shown = rig.runtime().display().to_string();
    let answer = check_fault(&doctor(&rig), "runtime directory", &[&shown, "symbolic link"], "XDG_RUNTIME_DIR");
    assert!(has(&answer, "records"), "{answer:#}");
    assert_eq!(fs::read_dir(rig.path("work")).unwrap().count(), 0);
}

#[test]
fn directories_of_others_are_lines() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can give files away");
        return;
    }
    let rig = Rig::new();
    fs::create_dir(rig.state()).unwrap();
    chown(rig.state(), Some(54321), None).unwrap();
    check_fault(&doctor(&rig), "state directory", &[rig.state().to_str().unwrap(), "54321"], "--state-dir");
    fs::remove_dir(rig.state()).unwrap();
    chown(rig.runtime(), Some(54321), None).unwrap();
    check_fault(&doctor(&rig), "runtime directory", &[rig.runtime().to_str().unwrap(), "54321"], "XDG_RUNTIME_DIR");
}

#[test]
fn a_configuration_that_cannot_be_used_is_a_line() {
    let rig = Rig::new();
    let path = rig.write("home/config/cookbook-tui/config.toml", "[[recipe]]\nname = 3\n");
    let answer = check_fault(&doctor(&rig), "configuration", &[path.to_str().unwrap(), ":2: ", "`name`"], "mend");
    assert!(has(&answer, "records") && has(&answer, "tmux server"), "{answer:#}");
    // Which server is ours is in there, unless it is said.
    let ran = Ran::of({
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_cookbook-tui"));
        rig.settle(&mut command);
        command.args(["doctor", "--json"]).spawn().unwrap()
    });
    let answer = check_fault(&ran, "configuration", &[path.to_str().unwrap()], "mend");
    let checks = answer["checks"].as_array().unwrap();
    let server = checks.iter().find(|check| check["name"] == "tmux server").unwrap();
    assert_eq!(server["state"], "warn", "{server}");
    assert!(server["way_out"].as_str().unwrap().contains("--tmux-socket"), "{server}");
}

#[test]
fn a_place_of_ours_that_somebody_else_has_taken_is_a_line() {
    let rig = Rig::new();
    fs::create_dir_all(rig.state().join("tmux.conf")).unwrap();
    let conf = rig.state().join("tmux.conf").display().to_string();
    check_fault(&doctor(&rig), "tmux server", &[&conf], "away");
    fs::remove_dir(&conf).unwrap();
    fs::remove_dir(rig.state().join("sessions")).unwrap();
    let sessions = rig.state().join("sessions");
    symlink(rig.path("work"), &sessions).unwrap();
    check_fault(&doctor(&rig), "records", &[sessions.to_str().unwrap(), "symbolic link"], "look");
}

#[test]
fn a_disk_that_takes_no_writes_is_a_line() {
    let rig = Rig::new();
    let state = rig.state().display().to_string();
    let read_only = |place: &str| format!("mount --bind {place} {place}; mount -o remount,bind,ro {place}");
    // A new state directory, and one that is there.
    let parent = rig.path("").display().to_string();
    let Some(ran) = doctor_behind(&rig, &read_only(&parent)) else { return };
    let answer = &ran.lines()[0];
    let line = answer["checks"].as_array().unwrap().iter().find(|check| check["name"] == "state directory").unwrap();
    assert!(line["state"] == "fail" && line["detail"].as_str().unwrap().contains("Read-only"), "{answer:#}");
    assert_eq!(rig.run(&["ls"]).code, Some(0));
    let ran = doctor_behind(&rig, &read_only(&state)).unwrap();
    let answer = check_fault(&ran, "state directory", &[&state, "Read-only"], "mounted for writing");
    assert!(has(&answer, "records"), "{answer:#}");
    let runtime = rig.runtime().display().to_string();
    let ran = doctor_behind(&rig, &read_only(&runtime)).unwrap();
    check_fault(&ran, "runtime directory", &[&runtime, "sockets", "Read-only"], "mounted for writing");
    // What was tried is not left there.
    assert_eq!(rig.run(&["doctor"]).code, Some(0));
    let names = fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| !name.as_encoded_bytes().starts_with(b".")));
    assert_eq!(rig.passing(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_full_disk_is_a_line() {
    let rig = Rig::new();
    let state = rig.state().display().to_string();
    fs::create_dir(&state).unwrap();
    let full = format!("mount -t tmpfs -o size=16k,mode=700 tmpfs {state}; cat /dev/zero > {state}/fill 2>&- || :");
    let Some(ran) = doctor_behind(&rig, &full) else { return };
    check_fault(&ran, "state directory", &[&state, "No space left"], "make room");
    let runtime = rig.runtime().display().to_string();
    fs::create_dir_all(&runtime).unwrap();
    let full = format!("mount -t tmpfs -o nr_inodes=1,mode=700 tmpfs {runtime}");
    let ran = doctor_behind(&rig, &full).unwrap();
    check_fault(&ran, "runtime directory", &[&runtime, "No space left"], "make room");
}
