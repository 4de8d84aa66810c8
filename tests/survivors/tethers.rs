//! Records that lie, that are torn, or that are not ours to judge: nobody is signalled for them, and nothing of
//! them is deleted.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{Bystanders, Entry, Host, Launch, World, is_root, rows, skip};

/// What becomes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Nobody can read it, or it is not ours to judge: it stays as it is, byte for byte.
    LeftAlone,
    /// It is sound, and its process is not there: it is shown, and a sweep of the records drops it.
    Dropped,
}

/// Returns a sound record that names a process, as its workload, its group and its kernel session.
fn record_of(world: &World, pid: i64) -> Value {
    let mut batch = world.batch();
    let launch = Launch { host: Host::Tmux, kind: "serve", grace_s: 0.2, argv: &["sleep", &world.nap] };
    let session = world.launch(&mut batch, &launch);
    let mut record = world.tether(&session.id).unwrap();
    assert_eq!(batch.stop(&session.id)["dead"], true);
    let entry = Entry::of_pid(i32::try_from(pid).unwrap(), "named").unwrap();
    // Its stages are gone, and so is its manager: nothing holds the sweep back.
    record["workload"] = json!({ "pid": pid, "start_token": entry.token(), "pgid": pid, "sid": pid });
    for gone in ["warden", "front", "spawner"] {
        record[gone] = json!({ "pid": pid, "start_token": entry.token().replace(&entry.ticks.to_string(), "7") });
    }
    record["tmux"] = Value::Null;
    (record["host"], record["lifetime"]) = (json!("pty"), json!("grant"));
    record
}

/// Writes one record of each kind; returns their paths with what is to become of them.
fn spoiled(world: &World, sound: &Value) -> Vec<(PathBuf, Fate)> {
    let ticks = sound["workload"]["start_token"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
    let boot = sound["boot_id"].as_str().unwrap().to_owned();
    let text = sound.to_string();
    let with = |field: &str, value: Value| {
        let mut record = sound.clone();
        *record.pointer_mut(field).unwrap() = value;
        record.to_string().into_bytes()
    };
    let off_by = |by: i64| format!("procfs:{boot}:{}", ticks.parse::<i64>().unwrap() + by);
    let inode = |field: &str| json!(sound[field].as_u64().unwrap() + 1);
    let raw = |from: &str, to: &str| {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        changed.into_bytes()
    };
    let not_after = format!("\"not_after\":{}", sound["not_after"]);
    let cases: Vec<(Vec<u8>, Fate)> = vec![
        (with("/workload/start_token", json!(off_by(1))), Fate::Dropped),
        (with("/workload/start_token", json!(off_by(-1))), Fate::Dropped),
        (text.replace(&boot, "00000000-0000-0000-0000-000000000000").into_bytes(), Fate::Dropped),
        (with("/pidns_inode", inode("pidns_inode")), Fate::LeftAlone),
        (with("/timens_inode", inode("timens_inode")), Fate::LeftAlone),
        (with("/workload/pid", json!(0)), Fate::LeftAlone),
        (with("/workload/pid", json!(1)), Fate::LeftAlone),
        (with("/workload/pid", json!(-1)), Fate::LeftAlone),
        (with("/workload/pgid", json!(0)), Fate::LeftAlone),
        (with("/workload/pgid", json!(1)), Fate::LeftAlone),
        (with("/workload/pgid", json!(-1)), Fate::LeftAlone),
        (with("/workload/sid", json!(1)), Fate::LeftAlone),
        (with("/not_after", json!(-5.0)), Fate::LeftAlone),
        (with("/not_after", json!(0)), Fate::LeftAlone),
        (raw(&not_after, "\"not_after\":NaN"), Fate::LeftAlone),
        (raw(&not_after, "\"not_after\":1e999"), Fate::LeftAlone),
        (with("/ceiling_s", json!(0)), Fate::LeftAlone),
        (with("/ceiling_s", json!(-5.0)), Fate::LeftAlone),
        (with("/renew_s", json!(0)), Fate::LeftAlone),
        (with("/schema_version", json!(2)), Fate::LeftAlone),
        (with("/session", json!("serve-00000000")), Fate::LeftAlone),
        (with("/kind", json!("notebook")), Fate::LeftAlone),
        (with("/host", json!("screen")), Fate::LeftAlone),
        (with("/host", json!("tmux")), Fate::LeftAlone),
        (with("/lifetime", json!("forever")), Fate::LeftAlone),
        (with("/lifetime", json!("Background")), Fate::LeftAlone),
        (text.as_bytes()[..text.len() / 2].to_vec(), Fate::LeftAlone),
        (vec![0; 512], Fate::LeftAlone),
        (Vec::new(), Fate::LeftAlone),
    ];
    let dir = world.path("state/sessions");
    let number = |n: usize| format!("serve-{:08x}", 0xabc0_0000 + n);
    let own = sound["session"].as_str().unwrap();
    cases
        .into_iter()
        .enumerate()
        .map(|(n, (bytes, fate))| {
            let path = dir.join(format!("{}.json", number(n)));
            let text = String::from_utf8(bytes).unwrap().replace(own, &number(n));
            std::fs::write(&path, text).unwrap();
            (path, fate)
        })
        .collect()
}

fn id(path: &std::path::Path) -> String {
    path.file_stem().unwrap().to_str().unwrap().to_owned()
}

/// Runs everything that reads records, and everything that could end somebody for them.
fn touch_all(world: &World, records: &[(PathBuf, Fate)], bystanders: &mut Bystanders) {
    for (path, _) in records {
        for arguments in
            [&["stop", &id(path), "--grace", "0"][..], &["sweep", &id(path)], &["orphans", &id(path), "--reap"]]
        {
            let (code, answer) = world.run(arguments);
            assert_eq!(answer["signals"].as_array().map_or(0, Vec::len), 0, "{arguments:?}: {code} {answer:#}");
            bystanders.assert_untouched();
        }
    }
    world.run(&["sweep"]);
    bystanders.assert_untouched();
    let (code, answer) = world.run(&["orphans", "--reap"]);
    assert_eq!(code, 3, "whoever asks for all of them hears that some are left alone: {answer:#}");
    bystanders.assert_untouched();
    drop(world.batch());
    bystanders.assert_untouched();
}

#[test]
fn nobody_is_signalled_for_a_record_that_cannot_be_trusted() {
    let world = World::new();
    let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
    let named = *bystanders.pids().iter().next().unwrap();
    let sound = record_of(&world, named);
    let records = spoiled(&world, &sound);
    std::fs::create_dir(world.path("state/sessions/serve-abcd0000.json")).unwrap();
    let before: Vec<Vec<u8>> = records.iter().map(|(path, _)| std::fs::read(path).unwrap()).collect();

    let (code, orphans) = world.run(&["orphans"]);
    assert_eq!(code, 0, "{orphans:#}");
    let (_, listed) = world.run(&["ls"]);
    let (_, doctor) = world.run(&["doctor"]);
    let alone = |answer: &Value, path: &PathBuf| {
        rows(answer, "quarantined").any(|row| row["path"] == path.display().to_string() && row["reason"] != "")
    };
    for (path, fate) in &records {
        if *fate == Fate::LeftAlone {
            assert!(alone(&orphans, path) && alone(&listed, path), "{}: {orphans:#}", path.display());
            let (code, answer) = world.run(&["stop", &id(path)]);
            assert_eq!((code, &answer["error"]["kind"]), (3, &json!("refused")), "{answer}");
        } else {
            let shown = |answer: &Value, list: &str| rows(answer, list).any(|row| row["session"] == id(path));
            assert!(shown(&orphans, "orphans") && shown(&listed, "sessions"), "{}: {orphans:#}", path.display());
        }
    }
    let directory = world.path("state/sessions/serve-abcd0000.json");
    assert!(alone(&orphans, &directory) && alone(&listed, &directory), "{orphans:#}");
    let told = rows(&doctor, "checks").find(|check| check["name"] == "records").unwrap();
    let left = records.iter().filter(|(_, fate)| *fate == Fate::LeftAlone).count() + 1;
    assert!(told["detail"].as_str().unwrap().starts_with(&format!("{left} are left alone")), "{told}");
    assert!(records.iter().all(|(path, _)| path.exists()), "looking deletes nothing");

    touch_all(&world, &records, &mut bystanders);
    for ((path, fate), before) in records.iter().zip(before) {
        match fate {
            Fate::LeftAlone => assert_eq!(std::fs::read(path).unwrap(), before, "{}", path.display()),
            Fate::Dropped => assert!(!path.exists(), "{}: nothing is left of it", path.display()),
        }
    }
    assert!(directory.is_dir());
    // The same record, untouched, is one that a sweep acts on: the table above does not pass by chance.
    std::fs::write(
        world.path(&format!("state/sessions/{}.json", sound["session"].as_str().unwrap())),
        sound.to_string(),
    )
    .unwrap();
    let (_, answer) = world.run(&["orphans", "--reap"]);
    let signalled: Vec<i64> = rows(&answer, "swept")
        .flat_map(|receipt| rows(receipt, "signals"))
        .filter_map(|row| row["pid"].as_i64())
        .collect();
    assert!(!signalled.is_empty() && signalled.iter().all(|pid| *pid == named), "{answer:#}");
}

/// A record that names the very process which reads it, or its group.
#[test]
fn a_record_of_ourselves_ends_nobody() {
    let world = World::new();
    let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
    let sound = record_of(&world, *bystanders.pids().iter().next().unwrap());
    let session = sound["session"].as_str().unwrap();
    let path = world.path(&format!("state/sessions/{session}.json"));
    let template = world.path("template");
    for (own_pid, own_group) in [(true, false), (false, true), (true, true)] {
        let mut record = sound.clone();
        // Its pid is somebody else's now.
        record["workload"]["start_token"] = json!("procfs:BOOT:7");
        if own_pid {
            record["workload"]["pid"] = json!(4_000_001);
            record["workload"]["start_token"] = json!("procfs:BOOT:4000003");
        }
        if own_group {
            record["workload"]["pgid"] = json!(4_000_002);
            record["workload"]["sid"] = json!(4_000_002);
        }
        let boot = sound["boot_id"].as_str().unwrap();
        std::fs::write(&template, record.to_string().replace("BOOT", boot)).unwrap();
        let command = world.binary().iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
        // The shell becomes the program: pid, start and group stay what they are.
        let script = format!(
            "read -r s < /proc/self/stat; s=\"${{s##*) }}\"; set -- $s
            sed \"s/4000001/$$/g; s/4000002/$3/g; s/4000003/${{20}}/g\" {} > {}
            exec {command} stop {session} --grace 0 --json",
            template.display(),
            path.display()
        );
        // With a group and a kernel session of its own.
        let argv = ["setsid", "--wait", "bash", "-c", &script].map(str::to_owned);
        let output = world.command(&argv).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let answer: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text} {output:?}"));
        bystanders.assert_untouched();
        let ended = output.status.code();
        assert!(ended.is_some(), "it ended itself: {output:?}");
        if own_pid {
            assert_eq!(answer["error"]["kind"], "refused", "{answer:#}");
        }
        std::fs::remove_file(&path).ok();
    }
}

/// Nobody may read it: that is no absence.
#[test]
fn a_record_without_a_right_to_read_is_shown_and_kept() {
    if !is_root() {
        return skip("needs root, to run as somebody who may not read");
    }
    let world = World::new();
    let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
    let record = record_of(&world, *bystanders.pids().iter().next().unwrap());
    let path = world.path(&format!("state/sessions/{}.json", record["session"].as_str().unwrap()));
    std::fs::write(&path, record.to_string()).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    let binary = world.path("cookbook-tui");
    std::fs::copy(env!("CARGO_BIN_EXE_cookbook-tui"), &binary).unwrap();
    for name in ["", "run", "tmux", "home", "state", "state/sessions", "state/logs", "run/cookbook-tui"] {
        if world.path(name).exists() {
            chown(world.path(name), Some(65_534), Some(65_534)).unwrap();
        }
    }
    for file in std::fs::read_dir(world.path("state")).unwrap().flatten().filter(|file| file.path().is_file()) {
        chown(file.path(), Some(65_534), Some(65_534)).unwrap();
    }
    for arguments in [&["orphans"][..], &["orphans", "--reap"], &["ls"]] {
        let mut argv: Vec<String> =
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"].map(str::to_owned).into();
        argv.push(binary.to_str().unwrap().to_owned());
        argv.extend(world.binary().into_iter().skip(1));
        argv.extend(arguments.iter().map(|&word| word.to_owned()));
        argv.push("--json".into());
        let output = world.command(&argv).output().unwrap();
        let answer: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        let row = rows(&answer, "quarantined").next().unwrap_or_else(|| panic!("{arguments:?}: {answer:#}"));
        assert_eq!(row["path"], path.display().to_string(), "{answer:#}");
        assert!(row["reason"].as_str().unwrap().contains("ermission"), "{row}");
    }
    assert!(path.exists());
    bystanders.assert_untouched();
}
