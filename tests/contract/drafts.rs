//! Launches that are changed before they are made again, and become recipes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};

use crate::client::Batch;
use crate::oracle::Watched;
use crate::rig::{Rig, until};

const FILE: &str = "# mine\n\n[[recipe]]   # first\nname = 'nap'\nkind = \"shell\"\nhost = \"pty\"\ncommand = [ \"sleep\", \"1000\" ]  # long\nenv = { HF_TOKEN = \"hf_inthefilealready\" }\nstop = { grace_s = 0.5 }\n\n[ui]\ntheme = \"mono\" # no colours\n";

fn rig() -> Rig {
    let rig = Rig::new();
    rig.write("c/config.toml", FILE);
    rig
}

fn file(rig: &Rig) -> String {
    fs::read_to_string(rig.path("c/config.toml")).unwrap()
}

fn batch(rig: &Rig) -> Batch {
    rig.batch_with(&[], &["--config", rig.path("c/config.toml").to_str().unwrap()])
}

fn watched(batch: &mut Batch, session: &str) -> Watched {
    let rows = batch.ok(json!({"cmd": "list"}))["sessions"].take();
    let row = rows.as_array().unwrap().iter().find(|row| row["session"] == session).unwrap().clone();
    Watched::of(i32::try_from(row["pid"].as_i64().unwrap()).unwrap())
}

fn error(batch: &mut Batch, request: Value) -> Value {
    let id = batch.send(request);
    batch.answer(&id)["error"].clone()
}

#[test]
fn an_error_names_the_field_that_it_is_about() {
    let rig = rig();
    let mut batch = batch(&rig);
    for (fields, field) in [
        (json!({"recipe": "none"}), "recipe"),
        (json!({"command": "sleep 1", "like": "none"}), "recipe"),
        (json!({"command": " "}), "command"),
        (json!({"like": "nap"}), "command"),
        (json!({"command": "x --token ***"}), "command"),
        (json!({"command": "sleep 1", "cwd": "/nowhere"}), "cwd"),
        (json!({"command": "sleep 1", "gpus": "all"}), "gpus"),
        (json!({"command": "sleep 1", "venv": "/nowhere"}), "venv"),
        (json!({"command": "sleep 1", "env": {"A=B": "1"}}), "env"),
        (json!({"command": "sleep 1", "env": {"A": "***"}}), "env"),
        (json!({"command": "/nowhere/llama-server", "kind": "serve"}), "command"),
    ] {
        let mut request = fields.clone();
        request["cmd"] = json!("launch");
        assert_eq!(error(&mut batch, request)["about"]["field"], field, "{fields}");
    }
    assert_eq!(batch.ok(json!({"cmd": "list"}))["sessions"], json!([]));
    batch.finish();
}

/// A recipe with another command, devices and a virtual environment; another manager reads the same off the record.
#[test]
fn what_a_session_was_launched_with_comes_back() {
    let rig = rig();
    fs::create_dir_all(rig.path("home/v/bin")).unwrap();
    let mut first = batch(&rig);
    let launched = first.launch(json!({
        "command": ["sleep", "1001"], "like": "nap", "host": "tmux", "gpus": "1", "venv": "~/v", "env": {"SOME_TOKEN": "s3cr3t", "A": "1"},
    }));
    let pid = watched(&mut first, &launched).pid;
    let environment = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    let wanted = [
        "CUDA_VISIBLE_DEVICES=1".to_owned(),
        format!("VIRTUAL_ENV={}", rig.path("home/v").display()),
        "HF_TOKEN=hf_inthefilealready".to_owned(),
        "SOME_TOKEN=s3cr3t".to_owned(),
    ];
    for wanted in wanted {
        assert!(environment.split('\0').any(|set| set == wanted), "{wanted}");
    }
    let draft = first.ok(json!({"cmd": "draft", "session": launched}));
    assert_eq!((&draft["launch"]["command"], &draft["launch"]["like"]), (&json!(["sleep", "1001"]), &json!("nap")));
    assert_eq!(draft["launch"]["env"], json!({"SOME_TOKEN": "***", "A": "1"}), "masked on its way out");
    let mut second = batch(&rig);
    let draft = second.ok(json!({"cmd": "draft", "session": launched}));
    let launch = &draft["launch"];
    assert_eq!(
        (&launch["command"], &launch["like"], &launch["gpus"], &launch["venv"]),
        (&json!(["sleep", "1001"]), &json!("nap"), &json!("1"), &json!("~/v"))
    );
    assert_eq!(launch["env"], json!({"SOME_TOKEN": "***", "A": "***"}), "values are not on disk");
    assert!(draft["notes"][0].as_str().unwrap().contains("A, SOME_TOKEN were not recorded"), "{draft}");
    first.ok(json!({"cmd": "stop", "session": launched}));
    first.finish();
    second.finish();
}

#[test]
fn a_session_gives_place_to_a_launch_that_can_come_true() {
    let rig = rig();
    let mut batch = batch(&rig);
    let old = batch.launch(json!({"recipe": "nap"}));
    let process = watched(&mut batch, &old);
    let bad = json!({"cmd": "restart", "session": old, "launch": {"command": "sleep 1", "cwd": "/nowhere"}});
    assert_eq!(error(&mut batch, bad)["about"]["field"], "cwd");
    process.assert_alive();
    let launch = json!({"command": ["sleep", "1002"], "like": "nap"});
    let plan = batch.ok(json!({"cmd": "restart", "session": old, "launch": launch, "dry_run": true}));
    assert_eq!(plan["plan"].as_array().unwrap().len(), 1, "{plan}");
    process.assert_alive();
    let done = batch.ok(json!({"cmd": "restart", "session": old, "launch": launch}));
    process.assert_ends();
    assert_eq!(done["receipt"]["dead"], true);
    let rows = batch.ok(json!({"cmd": "list"}))["sessions"].take();
    let commands: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["command"].as_str().unwrap()).collect();
    assert_eq!(commands, ["sleep 1002"], "the new one stands for the old one");
    batch.finish();
}

#[test]
fn whoever_holds_what_a_launch_needs_is_named() {
    let rig = Rig::new();
    let recipe = |name: &str| {
        format!(
            "[[recipe]]\nname = \"{name}\"\nhost = \"pty\"\ncommand = [\"sleep\", \"1000\"]\nexclusive = \"gpu0\"\n"
        )
    };
    rig.write("c/config.toml", &(recipe("big") + &recipe("other")));
    let mut batch = batch(&rig);
    let big = batch.launch(json!({"recipe": "big"}));
    let process = watched(&mut batch, &big);
    let about = error(&mut batch, json!({"cmd": "launch", "recipe": "other"}))["about"].clone();
    assert_eq!((&about["field"], &about["holder"]), (&json!("recipe"), &json!(big)));
    let launch = json!({"recipe": "other"});
    let plan = batch.ok(json!({"cmd": "restart", "session": big, "launch": launch, "dry_run": true}));
    assert_eq!(plan["plan"][0]["pid"], process.pid);
    batch.ok(json!({"cmd": "restart", "session": big, "launch": launch}));
    process.assert_ends();
    batch.finish();
}

#[test]
fn a_recipe_is_saved_and_can_be_launched_at_once() {
    let rig = rig();
    fs::set_permissions(rig.path("c/config.toml"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::rename(rig.path("c/config.toml"), rig.path("c/real.toml")).unwrap();
    symlink("real.toml", rig.path("c/config.toml")).unwrap();
    let mut batch = batch(&rig);
    let launch = json!({"command": ["sleep", "1003"], "like": "nap", "env": {"A": "1", "OTHER_KEY": "secret", "X": "hf_abcdefghijkl"}, "cwd": "."});
    let saved = batch.ok(json!({"cmd": "save", "name": "new", "launch": launch}));
    assert_eq!(saved["overwritten"], false);
    let notes = saved["notes"].to_string();
    assert!(["HF_TOKEN was not", "OTHER_KEY was not", "X was not"].iter().all(|note| notes.contains(note)), "{notes}");
    let text = file(&rig);
    let (head, tail) = FILE.split_at(FILE.find("\n[ui]").unwrap());
    assert!(text.starts_with(head) && text.ends_with(tail), "every byte of it stays:\n{text}");
    let added = &text[head.len()..text.len() - tail.len()];
    assert!(
        added.contains("name = \"new\"") && added.contains("A = \"1\"") && added.contains("grace_s = 0.5"),
        "{added}"
    );
    assert!(!added.contains("hf_") && !added.contains("secret"), "{added}");
    assert!(fs::symlink_metadata(rig.path("c/config.toml")).unwrap().is_symlink());
    assert_eq!(fs::metadata(rig.path("c/real.toml")).unwrap().permissions().mode() & 0o7777, 0o640);
    assert_eq!(fs::read_dir(rig.path("c")).unwrap().count(), 2, "no temporary file is left");
    // This manager knows it already.
    let session = batch.launch(json!({"recipe": "new"}));
    watched(&mut batch, &session).assert_alive();
    // A name that is taken asks; what is replaced changes where it has to.
    let again = json!({"cmd": "save", "name": "nap", "launch": {"recipe": "nap", "gpus": "0"}});
    let refused = error(&mut batch, again.clone());
    assert_eq!((&refused["kind"], &refused["about"]["field"]), (&json!("refused"), &json!("name")));
    assert_eq!(file(&rig), text);
    let mut over = again;
    over["overwrite"] = json!(true);
    assert_eq!(batch.ok(over)["overwritten"], true);
    assert_eq!(file(&rig), text.replacen("stop = { grace_s = 0.5 }\n", "stop = { grace_s = 0.5 }\ngpus = \"0\"\n", 1));
    batch.finish();
}

#[test]
fn what_cannot_be_saved_changes_nothing() {
    let rig = rig();
    let mut batch = batch(&rig);
    let launch = json!({"command": ["sleep", "1"]});
    for (name, launch, kind, part) in [
        ("-x", launch.clone(), "usage", "must be a name of 1 to 64 visible characters"),
        ("x", json!({"command": ["x", "--api-key", "sk-abcdefghij"]}), "refused", "looks like a secret"),
        ("x", json!({"command": "x", "gpus": "all"}), "config", "`gpus`"),
        ("x", json!({"recipe": "none"}), "not_found", "there is no recipe"),
    ] {
        let (found, message) = batch.err(json!({"cmd": "save", "name": name, "launch": launch}));
        assert!(found == kind && message.contains(part), "{name}: {found}: {message}");
    }
    assert_eq!(file(&rig), FILE);
    // Somebody has broken it since.
    let broken = format!("{FILE}\n[[recipe]]\nname = \n");
    rig.write("c/config.toml", &broken);
    let (kind, message) = batch.err(json!({"cmd": "save", "name": "x", "launch": launch}));
    assert!(kind == "config" && message.contains("config.toml:15: "), "{kind}: {message}");
    assert_eq!(file(&rig), broken);
    batch.finish();
}

#[test]
fn the_first_recipe_makes_the_file() {
    let rig = Rig::new();
    let saved = rig.json(&["save", "nap", "--host", "pty", "--", "sleep", "1000"]);
    let path = rig.path("home/config/cookbook-tui/config.toml");
    assert_eq!(saved["path"], json!(path));
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    let recipes = rig.json(&["recipes"]);
    assert!(
        recipes["recipes"]
            .as_array()
            .unwrap()
            .iter()
            .any(|row| row["name"] == "nap" && row["argv"] == json!(["sleep", "1000"]))
    );
    let again = rig.run(&["save", "nap", "--recipe", "nap"]);
    assert!(again.code == Some(3) && again.error().contains("already"), "{again:?}");
    assert_eq!(rig.run(&["save", "nap", "--recipe", "nap", "--cwd", "/", "--overwrite"]).code, Some(0));
    assert!(fs::read_to_string(&path).unwrap().contains("cwd = \"/\""));
}

#[test]
fn tmux_sessions_of_others_are_listed_and_ours_are_not() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    batch.launch(json!({"command": "sleep 1000", "host": "tmux"}));
    let other = rig.tmux(&["new-session", "-d", "-s", "theirs", "sleep 1000"]);
    assert_eq!(other.code, Some(0), "{other:?}");
    let listed = |batch: &mut Batch| batch.ok(json!({"cmd": "tmux_sessions"}))["sessions"].clone();
    let rows = listed(&mut batch);
    assert_eq!(rows.as_array().unwrap().len(), 1, "{rows}");
    assert_eq!(
        (&rows[0]["name"], &rows[0]["holds_us"], &rows[0]["adopted"]),
        (&json!("theirs"), &json!(false), &Value::Null)
    );
    let tmux = json!({"session": rows[0]["session_id"], "socket": rows[0]["socket"]});
    let adopted = batch.ok(json!({"cmd": "adopt", "tmux": tmux}))["session"].clone();
    until("it is listed as adopted", || listed(&mut batch)[0]["adopted"] == adopted);
    let receipt = batch.ok(json!({"cmd": "stop", "session": adopted}));
    assert_eq!(receipt["dead"], true);
    batch.ok(json!({"cmd": "stop", "session": "sleep"}));
    batch.finish();
}
