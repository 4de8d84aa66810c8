//! A disk without room: whatever cannot be written, what is there can be read, and the rest goes on.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Batch, World, eventually, pids, rows, skip};

/// The sessions of this test are in a mount namespace of their own, with so many KiB for all that is recorded.
pub(crate) fn batch_on(world: &World, kib: u32) -> Option<Batch> {
    let state = world.path("state");
    std::fs::create_dir_all(&state).unwrap();
    let script = format!("mount -t tmpfs -o size={kib}k,mode=700 tmpfs {} && exec \"$@\"", state.display());
    let wrapper = ["unshare", "-m", "sh", "-c", &script, "sh"].map(str::to_owned);
    let trial: Vec<String> = wrapper.iter().cloned().chain(["true".to_owned()]).collect();
    if !world.command(&trial).status().is_ok_and(|status| status.success()) {
        skip("needs a mount namespace");
        return None;
    }
    let mut argv = wrapper.to_vec();
    argv.extend(world.binary());
    argv.extend(["--batch".to_owned(), "-".to_owned()]);
    Some(Batch::start(world.command(&argv)))
}

/// Returns the state directory as the manager sees it.
pub(crate) fn state_of(world: &World, batch: &Batch) -> PathBuf {
    let inside = world.path("state");
    Path::new(&format!("/proc/{}/root", batch.child.id())).join(inside.strip_prefix("/").unwrap())
}

/// Every record there is parses; what parses not is only the line of a journal that was given back.
#[track_caller]
fn assert_readable(state: &Path, when: &str) {
    for file in std::fs::read_dir(state.join("sessions")).unwrap().map(|file| file.unwrap()) {
        let name = file.file_name().into_string().unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert!(!name.starts_with('.'), "{when}: half a file: {name}");
        if file.path().extension().is_none_or(|extension| extension != "lock") {
            serde_json::from_str::<Value>(&text).unwrap_or_else(|error| panic!("{when}: {name}: {error}: {text:?}"));
        }
    }
    let journal = std::fs::read_to_string(state.join("receipts.jsonl")).unwrap_or_default();
    for line in journal.lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{when}: {error}: {line:?}"));
    }
}

/// Takes all the room but so many pages.
pub(crate) fn fill_but(state: &Path, pages: usize) {
    let mut taken = Vec::new();
    for number in 0.. {
        let path = state.join(format!("fill{number}"));
        let Ok(mut file) = std::fs::File::create(&path) else { break };
        let whole = file.write_all(&[0; 4096]).is_ok();
        taken.push(path);
        if !whole {
            break;
        }
    }
    for path in taken.iter().rev().skip(1).take(pages) {
        std::fs::remove_file(path).unwrap();
    }
}

fn give_back(state: &Path) {
    for file in std::fs::read_dir(state).unwrap().map(|file| file.unwrap().path()) {
        if file.file_name().unwrap().to_str().unwrap().starts_with("fill") {
            std::fs::remove_file(file).unwrap();
        }
    }
}

/// The disk is full from the first, second, third ... write on.
#[test]
fn a_full_disk_at_every_save() {
    let mut failed = [0; 3];
    for pages in 0..4 {
        let world = World::new();
        let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
        let Some(mut batch) = batch_on(&world, 24) else { return };
        let state = state_of(&world, &batch);
        let script = world.shell("leaf root");
        let launch = json!({ "cmd": "launch", "command": ["bash", script], "kind": "serve", "host": "pty" });
        let session = batch.ok(launch.clone())["session"].as_str().unwrap().to_owned();
        world.ledger.await_roles(&["root"]);
        // Its log is in the way of exact counting.
        fill_but(&state, pages);
        let extended = batch.request(json!({ "cmd": "extend", "session": session, "ceiling_s": 5000 }));
        assert_readable(&state, "extend");
        let record = |state: &Path| -> Value {
            serde_json::from_str(&std::fs::read_to_string(state.join(format!("sessions/{session}.json"))).unwrap())
                .unwrap()
        };
        let left = record(&state)["not_after"].as_f64().unwrap() - record(&state)["spawned_at"].as_f64().unwrap();
        assert_eq!(extended["ok"], left < 6000.0, "what was answered is what is recorded: {extended}");
        failed[0] += usize::from(extended["ok"] == false);
        let second = batch.request(launch);
        assert_readable(&state, "launch");
        failed[1] += usize::from(second["ok"] == false);
        for session in [Some(session.as_str()), second["result"]["session"].as_str()].into_iter().flatten() {
            let receipt = batch.stop(session);
            assert_eq!(receipt["dead"], true, "a stop is a stop: {receipt:#}");
            assert_readable(&state, "stop");
            let unwritten = rows(&receipt, "notes").any(|note| note.as_str().unwrap().contains("journal of receipts"));
            failed[2] += usize::from(unwritten);
        }
        assert!(world.ledger.alive().is_empty());
        give_back(&state);
        let again = batch.ok(json!({ "cmd": "launch", "command": ["sleep", world.nap], "host": "pty" }));
        let again = again["session"].as_str().unwrap();
        batch.ok(json!({ "cmd": "extend", "session": again, "ceiling_s": 4321 }));
        let text = std::fs::read_to_string(state.join(format!("sessions/{again}.json"))).unwrap();
        let kept: Value = serde_json::from_str(&text).unwrap();
        let left = kept["not_after"].as_f64().unwrap() - kept["spawned_at"].as_f64().unwrap();
        assert!((4321.0..4400.0).contains(&left), "with room again it is written: {left}");
        assert_eq!(batch.stop(again)["dead"], true);
        let journal = batch.ok(json!({ "cmd": "logs", "receipts": true, "tail": 1 }));
        assert_eq!((&journal["receipts"][0]["receipt"]["session"], &journal["skipped"]), (&json!(again), &json!(0)));
        bystanders.assert_untouched();
    }
    assert!(failed.iter().all(|times| (1..8).contains(times)), "each kind of write failed and did not: {failed:?}");
}

/// Files that may not grow (`ulimit -f`) are as a full disk: what is refused is said, and nobody is ended by SIGXFSZ.
#[test]
fn files_that_may_not_grow() {
    let world = World::new();
    let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
    let mut batch = world.batch();
    let script = world.shell("leaf root");
    let launch = json!({ "cmd": "launch", "command": ["bash", script], "kind": "serve", "host": "pty" });
    let session = batch.ok(launch.clone())["session"].as_str().unwrap().to_owned();
    world.ledger.await_roles(&["root"]);
    let manager = i32::try_from(batch.child.id()).unwrap();
    let limit = |size: &str| {
        for pid in world.stages().into_iter().chain([manager]) {
            let set = Command::new("prlimit").args(["--pid", &pid.to_string(), &format!("--fsize={size}:")]).status();
            assert!(set.unwrap().success());
        }
    };
    limit("0");
    let refused = batch.error(json!({ "cmd": "extend", "session": session, "ceiling_s": 5000 }));
    assert!(refused["message"].as_str().unwrap().contains("File too large"), "{refused}");
    batch.error(launch);
    let receipt = batch.stop(&session);
    assert_eq!(receipt["dead"], true, "a stop is a stop: {receipt:#}");
    assert!(world.ledger.alive().is_empty());
    bystanders.assert_untouched();
    limit("unlimited");
    assert_eq!(batch.finish().code(), Some(1), "some of it was refused; nobody was ended by a signal");
}

/// Returns another manager on the same small disk.
fn beside(world: &World, batch: &Batch) -> Batch {
    let mut argv = ["nsenter", "-m", "-t", &batch.child.id().to_string()].map(str::to_owned).to_vec();
    argv.extend(world.binary());
    argv.extend(["--batch".to_owned(), "-".to_owned()]);
    Batch::start(world.command(&argv))
}

/// Returns the receipts of a session in the journal.
fn receipts(batch: &mut Batch, session: &str) -> Vec<Value> {
    let journal = batch.ok(json!({ "cmd": "logs", "receipts": true, "session": session }));
    rows(&journal, "receipts").map(|entry| entry["receipt"].clone()).collect()
}

/// A stop whose receipt finds no room: it is written as soon as there is some, by its manager or, where that is gone, by
/// the next one; until then the record stays.
#[test]
fn a_receipt_that_the_disk_refuses_is_written_later() {
    for (killed, host) in [(false, "pty"), (false, "tmux"), (true, "pty"), (true, "tmux")] {
        let world = World::new();
        let mut bystanders = world.bystanders(&["sleep", &world.nap], None);
        let Some(mut batch) = batch_on(&world, 64) else { return };
        let state = state_of(&world, &batch);
        let script = world.shell("leaf root");
        let launch = json!({ "cmd": "launch", "command": ["bash", script], "kind": "serve", "host": host });
        let session = batch.ok(launch.clone())["session"].as_str().unwrap().to_owned();
        world.ledger.await_roles(&["root"]);
        let mut other = beside(&world, &batch);
        let state = if killed { state_of(&world, &other) } else { state };
        world.end_server_later();
        fill_but(&state, 0);
        let receipt = batch.stop(&session);
        assert_eq!(receipt["dead"], true, "{receipt:#}");
        assert!(rows(&receipt, "notes").any(|note| note.as_str().unwrap().contains("tried again")), "{receipt:#}");
        assert!(world.ledger.alive().is_empty());
        assert_eq!(batch.row(&session)["phase"], "exited");
        let record = state.join(format!("sessions/{session}.json"));
        assert!(record.exists(), "nothing says yet how it ended");
        assert_readable(&state, "stop");
        if killed {
            batch.kill();
            other.ok(json!({ "cmd": "orphans", "reap": true }));
            assert!(record.exists(), "there is no room yet");
            give_back(&state);
            let told = beside(&world, &other).ok(json!({ "cmd": "hello" }));
            assert!(!record.exists(), "{host}: {told:#}");
            assert!(rows(&told, "ended").any(|line| line.as_str().unwrap().contains(&session)), "{host}: {told:#}");
            let again = beside(&world, &other).ok(json!({ "cmd": "hello" }));
            assert_eq!(again.get("ended"), None, "it is told once");
            let found = receipts(&mut other, &session);
            assert!(found.len() == 1 && found[0]["dead"] == true, "{host}: {found:#?}");
            let root = i64::from(world.ledger.of("root").pid);
            assert!(pids(&found[0], "outcomes").contains(&root), "{host}: {found:#?}");
        } else {
            // Its record is all that says how it ended.
            let error = batch.error(json!({ "cmd": "dismiss", "session": session }));
            assert!(error["message"].as_str().unwrap().contains("could not be written yet"), "{error}");
            assert!(record.exists());
            give_back(&state);
            let next = batch.ok(launch)["session"].as_str().unwrap().to_owned();
            batch.stop(&next);
            assert_eq!((receipts(&mut batch, &session), record.exists()), (vec![receipt], false));
            let all = batch.ok(json!({ "cmd": "logs", "receipts": true }));
            assert_eq!(rows(&all, "receipts").count(), 2, "{all:#}");
        }
        assert_readable(&state, "the end");
        bystanders.assert_untouched();
    }
}

/// Its tmux session is closed by somebody else while the disk is full and no manager is there: its warden ends everybody and
/// can say so nowhere. The next start does; so does whoever dismisses it, or it stays.
#[test]
fn an_end_that_its_warden_cannot_write_is_written_later() {
    for dismissed in [false, true] {
        let world = World::new();
        let Some(mut batch) = batch_on(&world, 64) else { return };
        let script = world.shell("leaf root");
        let launch = json!({ "cmd": "launch", "command": ["bash", script], "kind": "serve", "host": "tmux" });
        let launched = batch.ok(launch);
        let session = launched["session"].as_str().unwrap().to_owned();
        world.ledger.await_roles(&["root"]);
        world.end_server_later();
        let mut other = beside(&world, &batch);
        other.ok(json!({ "cmd": "list" }));
        let state = state_of(&world, &other);
        batch.kill();
        fill_but(&state, 0);
        let in_tmux = launched["tmux"]["session_id"].as_str().unwrap();
        assert!(world.tmux(&["kill-session", "-t", in_tmux]).status.success());
        world.ledger.await_empty();
        eventually("the end of its warden", || world.stages().is_empty());
        let record = state.join(format!("sessions/{session}.json"));
        assert!(record.exists(), "nothing says yet how it ended");
        if dismissed {
            eventually("its end to be seen", || other.row(&session)["phase"] == "failed");
            let error = other.error(json!({ "cmd": "dismiss", "session": session }));
            assert!(error["message"].as_str().unwrap().contains("could not be written yet"), "{error}");
            assert!(record.exists());
            give_back(&state);
            other.ok(json!({ "cmd": "dismiss", "session": session }));
        } else {
            give_back(&state);
            let told = beside(&world, &other).ok(json!({ "cmd": "hello" }));
            assert!(rows(&told, "ended").any(|line| line.as_str().unwrap().contains(&session)), "{told:#}");
        }
        assert!(!record.exists());
        let found = receipts(&mut other, &session);
        assert!(found.len() == 1 && found[0]["dead"] == true, "{found:#?}");
    }
}

/// A workload that ends while the disk is full: its status is written when there is room again, as long as its warden
/// has somebody to look after.
#[test]
fn a_status_that_the_disk_refuses_is_written_later() {
    let world = World::new();
    let Some(mut batch) = batch_on(&world, 64) else { return };
    let state = state_of(&world, &batch);
    let script = world.shell("log root; (trap '' HUP; leaf child) & until [ -e $FX/end ]; do sleep 0.05; done; exit 7");
    let launch = json!({ "cmd": "launch", "command": ["bash", script], "kind": "serve", "host": "pty" });
    let session = batch.ok(launch)["session"].as_str().unwrap().to_owned();
    world.ledger.await_roles(&["root", "child"]);
    fill_but(&state, 0);
    std::fs::write(world.path("end"), "").unwrap();
    eventually("the end of the workload", || !world.ledger.is_alive("root"));
    let exit = state.join(format!("sessions/{session}.exit"));
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(world.ledger.is_alive("child") && !exit.exists(), "there is no room for it");
    give_back(&state);
    eventually("the status", || exit.exists());
    let record: Value = serde_json::from_str(&std::fs::read_to_string(&exit).unwrap()).unwrap();
    assert_eq!(record["code"], 7);
    assert_eq!(batch.stop(&session)["dead"], true);
    assert!(world.ledger.alive().is_empty());
}

/// Several managers move one ceiling at a time while somebody reads: nobody is refused, and no reader sees half.
#[test]
fn several_managers_write_one_record() {
    let world = World::new();
    let mut first = world.batch();
    let launched =
        first.ok(json!({ "cmd": "launch", "command": ["sleep", world.nap], "kind": "serve", "host": "tmux" }));
    world.end_later(world.server());
    let session = launched["session"].as_str().unwrap().to_owned();
    let mut managers: Vec<Batch> = (0..8).map(|_| world.batch()).collect();
    let asked: Vec<Vec<u64>> = managers
        .iter_mut()
        .map(|manager| {
            let extend = |n: u32| json!({ "cmd": "extend", "session": session, "ceiling_s": 1000 + n });
            (0..25).map(|n| manager.send(extend(n))).collect()
        })
        .collect();
    for (manager, asked) in managers.iter_mut().zip(asked) {
        for id in asked {
            let answer = manager.answer(id);
            assert_eq!(answer["ok"], true, "{answer}");
            assert!(world.tether(&session).is_some(), "the record does not parse");
        }
    }
    assert_eq!(first.stop(&session)["dead"], true);
}
