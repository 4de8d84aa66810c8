//! Clocks that step, and clocks of another namespace.

use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::support::{Batch, Host, Launch, World, eventually, rows, skip};

/// Moves the wall clock of one program by the seconds in a file. `CLOCK_BOOTTIME`, `CLOCK_MONOTONIC` and the
/// ticks of procfs stay what they are, as in a real step.
const STEP: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int done = real(clock, now);
    const char *path = getenv("STEP");
    FILE *file = clock == CLOCK_REALTIME && path ? fopen(path, "r") : NULL;
    long step = 0;
    if (file) {
        if (fscanf(file, "%ld", &step) == 1) now->tv_sec += step;
        fclose(file);
    }
    return done;
}
"#;

const TEN_YEARS: i64 = 315_360_000;

fn step(world: &World, seconds: i64) {
    std::fs::write(world.path("step"), seconds.to_string()).unwrap();
}

fn row(batch: &mut Batch, session: &str) -> Value {
    let listed = batch.ok(json!({ "cmd": "list" }));
    rows(&listed, "sessions").find(|row| row["session"] == session).cloned().unwrap_or(Value::Null)
}

/// Fault 1: identities are ticks and ceilings count on a clock that nobody sets.
#[test]
fn a_clock_step_changes_no_verdict() {
    let world = World::new();
    let (source, library) = (world.path("step.c"), world.path("step.so"));
    std::fs::write(&source, STEP).unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).arg("-ldl").status();
    if !built.is_ok_and(|status| status.success()) {
        return skip("needs a C compiler");
    }
    step(&world, 0);
    let mut argv = world.binary();
    argv.extend(["--batch".to_owned(), "-".to_owned()]);
    let mut command = world.command(&argv);
    command.env("LD_PRELOAD", &library).env("STEP", world.path("step"));
    let mut batch = Batch::start(command);
    let script = world.shell("unset LD_PRELOAD; log root; (leaf child) & wait");
    let command = ["bash", script.as_str()];
    let launch = |host| Launch { host, kind: "serve", grace_s: 0.5, argv: &command };
    let sessions = [world.launch(&mut batch, &launch(Host::Pty)), world.launch(&mut batch, &launch(Host::Tmux))];
    world.ledger.await_roles(&["root", "root", "child", "child"]);
    for seconds in [TEN_YEARS, -TEN_YEARS] {
        step(&world, seconds);
        // Longer than a look of the manager takes, so that each has seen the step.
        std::thread::sleep(Duration::from_millis(1200));
        for session in &sessions {
            let row = row(&mut batch, &session.id);
            assert_eq!((&row["verdict"], &row["phase"]), (&json!("owned"), &json!("running")), "{seconds}: {row}");
            assert!(row["uptime_s"].as_f64().unwrap() < 60.0, "{seconds}: {row}");
            let tree = batch.ok(json!({ "cmd": "tree", "session": session.id }));
            assert!(rows(&tree, "processes").all(|row| row["verdict"] == "owned"), "{seconds}: {tree:#}");
        }
        let orphans = batch.ok(json!({ "cmd": "orphans", "reap": true }));
        assert_eq!((&orphans["orphans"], &orphans["swept"]), (&json!([]), &json!([])), "{seconds}: {orphans:#}");
        assert_eq!(world.ledger.alive().len(), 4, "{seconds}: nobody was ended");
        let extended = batch.ok(json!({ "cmd": "extend", "session": sessions[1].id, "ceiling_s": 3600 }));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
        let shown = extended["not_after"].as_f64().unwrap() - now;
        let stepped = f64::from(i32::try_from(seconds).unwrap());
        assert!((shown - stepped - 3600.0).abs() < 60.0, "the step was felt, or this test shows nothing: {extended}");
    }
    for session in &sessions {
        let receipt = batch.stop(&session.id);
        assert_eq!(receipt["dead"], true, "{receipt:#}");
        assert_eq!(rows(&receipt, "outcomes").filter(|row| row["outcome"] == "exited").count(), 2, "{receipt:#}");
    }
    assert!(world.ledger.alive().is_empty());
}

/// In another time namespace every process has another start: its ticks are not those of the record.
#[test]
fn another_time_namespace_is_not_ours_to_judge() {
    let world = World::new();
    let inside = ["unshare", "--time", "--boottime", "100000", "--fork"].map(str::to_owned);
    let trial: Vec<String> = inside.iter().cloned().chain(["true".to_owned()]).collect();
    if !world.command(&trial).stderr(std::process::Stdio::null()).status().is_ok_and(|status| status.success()) {
        return skip("needs a time namespace");
    }
    let mut batch = world.batch();
    let script = world.shell("leaf root");
    let launch = Launch { host: Host::Tmux, kind: "serve", grace_s: 0.5, argv: &["bash", &script] };
    let session = world.launch(&mut batch, &launch);
    world.ledger.await_roles(&["root"]);
    let before = world.tether(&session.id).unwrap();
    for arguments in [&["orphans", "--reap"][..], &["sweep"], &["ls"], &["stop", &session.id]] {
        let mut argv = inside.to_vec();
        argv.extend(world.binary());
        argv.extend(arguments.iter().map(|&word| word.to_owned()));
        argv.push("--json".to_owned());
        let output = world.command(&argv).output().unwrap();
        let answer: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        assert!(world.ledger.is_alive("root"), "{arguments:?}: {answer:#}");
        if let Some(left) = answer.get("quarantined") {
            assert!(left[0]["reason"].as_str().unwrap().contains("time namespace"), "{arguments:?}: {answer:#}");
        }
        if arguments[0] == "stop" {
            assert_eq!(answer["error"]["kind"], "refused", "{answer:#}");
        }
    }
    assert_eq!(world.tether(&session.id).unwrap(), before);
    eventually("its own manager still knows it", || row(&mut batch, &session.id)["verdict"] == "owned");
    assert_eq!(batch.stop(&session.id)["dead"], true);
}
