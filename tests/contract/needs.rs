//! What a recipe needs, and what only one session has at a time.

use serde_json::{Value, json};

use crate::client::Batch;
use crate::rig::{Rig, until};
use crate::servers::{STUB, free_port, phases, ready, row};

/// One recipe for the stub server.
fn recipe(name: &str, stub: &str, more: &str) -> String {
    let port = free_port();
    format!(
        "[[recipe]]\nname = \"{name}\"\nkind = \"serve\"\nhost = \"pty\"\ncommand = \"exec python3 stub.py --port {port} {stub}\"\n{more}\n"
    )
}

fn rig(recipes: &[String]) -> Rig {
    let rig = Rig::new();
    rig.write("work/stub.py", STUB);
    rig.write("recipes.toml", &recipes.concat());
    rig
}

fn batch(rig: &Rig) -> Batch {
    rig.batch_with(&[], &["--config", rig.path("recipes.toml").to_str().unwrap()])
}

fn launch(name: &str) -> Value {
    json!({"cmd": "launch", "recipe": name})
}

/// Launches without waiting, and waits until it is queued: the id of the answer, and that of the session.
fn queue(batch: &mut Batch, name: &str) -> (String, String) {
    let id = batch.send(json!({"cmd": "launch", "recipe": name, "async": true}));
    let mut session = String::new();
    until("it is queued", || {
        let rows = batch.ok(json!({"cmd": "list"}))["sessions"].take();
        let found = rows.as_array().unwrap().iter().find(|row| row["name"] == name && row["phase"] == "queued");
        let Some(row) = found else { return false };
        row["session"].as_str().unwrap().clone_into(&mut session);
        assert_eq!((&row["pid"], &row["processes"]), (&Value::Null, &json!(0)), "{row}");
        row["detail"].as_str().unwrap().starts_with("waits for ")
    });
    (id, session)
}

#[test]
fn a_launch_waits_for_those_it_needs_and_starts_them() {
    let rig = rig(&[
        recipe("main", "", "needs = [\"embedder\", \"ranker\"]"),
        recipe("embedder", "--bind 1.5", "needs = [\"ranker\"]"),
        recipe("ranker", "", ""),
    ]);
    let mut batch = batch(&rig);
    batch.ok(json!({"cmd": "subscribe"}));
    let (id, main) = queue(&mut batch, "main");
    // It can be waited for; nothing else can be done with it.
    let waits = batch.send(json!({"cmd": "wait", "session": "main", "for": "ready", "timeout_s": 20, "async": true}));
    let (kind, message) = batch.err(json!({"cmd": "tree", "session": main}));
    assert!(kind == "refused" && message.contains("is queued: waits for "), "{kind}: {message}");
    let mut answer = batch.answer(&id);
    let notes = answer["result"]["notes"].take();
    assert_eq!(answer["result"]["session"], json!(main), "{answer}");
    assert!(notes[0].as_str().unwrap().starts_with("started embedder (serve-"), "{notes}");
    assert_eq!(notes.as_array().unwrap().len(), 1, "the ranker was started for the embedder: {notes}");
    for need in ["embedder", "ranker"] {
        assert_eq!(batch.ok(ready(need, 0.0))["phase"], "ready", "{need}");
    }
    assert_eq!(batch.answer(&waits)["result"]["phase"], "ready");
    batch.event("it was told", |event| event["session"] == main && event["phase"] == "ready");
    let told = phases(&batch, &main);
    assert!(told[0] == "queued" && told.last().unwrap() == "ready", "{told:?}");
    // Those that are there are not started again.
    let notes = batch.ok(launch("main"))["notes"].take();
    assert!(!notes.to_string().contains("started"), "{notes}");
    assert_eq!(batch.ok(json!({"cmd": "list"}))["sessions"].as_array().unwrap().len(), 4);
    batch.finish();
}

#[test]
fn those_that_are_needed_twice_are_started_once() {
    let rig = rig(&[
        recipe("one", "", "needs = [\"base\"]"),
        recipe("two", "", "needs = [\"base\"]"),
        recipe("base", "--bind 0.7", ""),
    ]);
    let mut batch = batch(&rig);
    let ids = ["one", "two"].map(|name| batch.send(json!({"cmd": "launch", "recipe": name, "async": true})));
    for id in &ids {
        assert_eq!(batch.answer(id)["ok"], true);
    }
    let rows = batch.ok(json!({"cmd": "list"}))["sessions"].take();
    let mut names: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["base", "one", "two"]);
    batch.finish();
}

#[test]
fn a_launch_fails_with_the_first_of_those_it_needs() {
    let broken = "[[recipe]]\nname = \"broken\"\nkind = \"serve\"\nhost = \"pty\"\ncommand = \"sleep 0.5; exit 5\"\nready = { tcp = 9 }\n";
    let shell = "[[recipe]]\nname = \"unknown\"\nhost = \"pty\"\ncommand = \"exec sleep 3600\"\n";
    let rig = rig(&[
        recipe("main", "", "needs = [\"slow\", \"broken\"]"),
        recipe("slow", "--sleep", ""),
        recipe("lost", "", "needs = [\"nobody\"]"),
        recipe("blind", "", "needs = [\"unknown\"]"),
        broken.to_owned(),
        shell.to_owned(),
    ]);
    let mut batch = batch(&rig);
    let cases = [
        ("main", "it needs broken: "),
        ("lost", "it needs nobody: it neither runs nor is a recipe; start it, or correct `needs`"),
        ("blind", "no readiness is known of it"),
    ];
    for (name, expected) in cases {
        let (kind, message) = batch.err(launch(name));
        assert!(kind == "failed" && message.contains(expected), "{name}: {kind}: {message}");
        let rows = batch.ok(json!({"cmd": "list"}))["sessions"].take();
        assert!(rows.as_array().unwrap().iter().all(|row| row["name"] != name), "{name}: {rows}");
    }
    batch.finish();
}

#[test]
fn a_launch_that_waits_is_called_off() {
    let rig = rig(&[recipe("main", "", "needs = [\"slow\"]"), recipe("slow", "--sleep", "")]);
    let mut batch = batch(&rig);
    let (id, main) = queue(&mut batch, "main");
    let plan = batch.ok(json!({"cmd": "stop", "session": "main", "dry_run": true}));
    assert_eq!(plan["plan"], json!([]), "{plan}");
    let receipt = batch.ok(json!({"cmd": "stop", "session": "main"}));
    assert_eq!((&receipt["session"], &receipt["dead"]), (&json!(main), &json!(true)), "{receipt}");
    assert_eq!(receipt["signals"], json!([]));
    let answer = batch.answer(&id);
    assert_eq!(answer["error"]["kind"], "refused", "{answer}");
    assert_eq!(batch.err(json!({"cmd": "tree", "session": "main"})).0, "not_found");
    batch.finish();
}

#[test]
fn recipes_that_need_each_other_are_an_error_of_the_configuration() {
    let rig = rig(&[
        recipe("z", "", "needs = [\"a\"]"),
        recipe("a", "", "needs = [\"b\"]"),
        recipe("b", "", "needs = [\"c\", \"a\"]"),
        recipe("c", "", ""),
    ]);
    let ran = rig.run(&["--config", rig.path("recipes.toml").to_str().unwrap(), "ls"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.error().contains("in a circle: `a` needs `b` needs `a`; take one of them out"), "{ran:?}");
}

#[test]
fn one_session_holds_a_resource_at_a_time() {
    let rig = rig(&[
        recipe("big", "", "exclusive = \"gpu0\""),
        recipe("other", "", "exclusive = \"gpu0\""),
        recipe("free", "", "exclusive = \"gpu1\""),
    ]);
    let mut batch = batch(&rig);
    let big = batch.launch(launch("big"));
    batch.launch(launch("free"));
    let held = format!(
        "nothing was launched: gpu0 is held by session big ({big}); stop that one first, or launch with --replace"
    );
    // Another manager on the same state directory is told the same.
    let mut elsewhere = self::batch(&rig);
    for asked in [&mut batch, &mut elsewhere] {
        for name in ["other", "big"] {
            let (kind, message) = asked.err(launch(name));
            assert!(kind == "refused" && message.contains(&held), "{name}: {kind}: {message}");
        }
    }
    // It stops the session of the other manager, which owns its terminal.
    let mut replace = launch("other");
    replace["replace"] = json!(true);
    let launched = elsewhere.ok(replace.clone());
    assert_eq!(launched["notes"], json!([format!("stopped session big ({big}), which held gpu0")]));
    assert_eq!(row(&mut batch, &big)["phase"], "exited");
    assert_eq!(row(&mut batch, launched["session"].as_str().unwrap())["name"], "other");
    assert_eq!(batch.err(launch("big")).0, "refused");
    // With nobody to replace it is a launch like any other.
    elsewhere.ok(json!({"cmd": "stop", "session": "other"}));
    assert_eq!(batch.ok(replace)["notes"], Value::Null);
    batch.finish();
    elsewhere.finish();
}

#[test]
fn of_launches_at_the_same_time_one_gets_the_resource() {
    let rig = rig(&[recipe("big", "", "exclusive = \"gpu0\""), recipe("other", "", "exclusive = \"gpu0\"")]);
    let mut managers = [batch(&rig), batch(&rig), batch(&rig)];
    let mut ids = Vec::new();
    for manager in &mut managers {
        ids.push(["big", "other"].map(|name| manager.send(json!({"cmd": "launch", "recipe": name, "async": true}))));
    }
    let mut launched = 0;
    for (manager, ids) in managers.iter_mut().zip(&ids) {
        for id in ids {
            let answer = manager.answer(id);
            launched += usize::from(answer["ok"] == true);
            assert!(answer["ok"] == true || answer["error"]["kind"] == "refused", "{answer}");
        }
    }
    assert_eq!(launched, 1);
    for mut manager in managers {
        manager.finish();
    }
}
