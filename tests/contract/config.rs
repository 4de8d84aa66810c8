//! Configuration: errors that name the place, and a directory's file that is inert until it is trusted.

use std::fs;

use serde_json::{Value, json};

use crate::client::Batch;
use crate::rig::Rig;

/// What was trusted is read by every command in its directory.
#[test]
fn what_cannot_be_used_is_not_trusted() {
    let rig = Rig::new();
    let recipe = |name: &str, more: &str| format!("[[recipe]]\nname = \"{name}\"\nkind = \"shell\"\n{more}\n");
    let circle =
        recipe("a", "command = \"true\"\nneeds = [\"b\"]") + &recipe("b", "command = \"true\"\nneeds = [\"a\"]");
    for (content, said) in [
        ("[[recipe]\n".to_owned(), "cookbook.toml:1: "),
        ("\n[ui]\nthem = \"dark\"\n".to_owned(), "cookbook.toml:3: unknown key `them`"),
        (recipe("a", "command = 5"), "cookbook.toml:4: "),
        ("[keys]\nstop = \"a\"\nforce = \"a\"\n".to_owned(), "cookbook.toml"),
        (circle, "circle"),
    ] {
        fs::write(rig.work().join("cookbook.toml"), &content).unwrap();
        let ran = rig.run(&["trust"]);
        assert_eq!(ran.code, Some(2), "{content}: {ran:?}");
        assert!(ran.error().contains("was not trusted") && ran.error().contains(said), "{content}: {ran:?}");
        assert_eq!(rig.run(&["ls"]).code, Some(0), "{content}: it is still inert");
    }
    fs::write(rig.work().join("cookbook.toml"), recipe("a", "command = \"true\"")).unwrap();
    assert_eq!(rig.run(&["trust"]).code, Some(0));
    assert!(rig.run(&["recipes", "--json"]).text().contains("\"name\":\"a\""));
}

#[test]
fn a_typo_is_named_with_its_place_and_the_nearest_key() {
    let rig = Rig::new();
    let cases = [
        ("[[recipe]]\nname = \"a\"\ncomand = [\"true\"]\n", ":3:", "`comand`", "`command`"),
        ("[[recipe]]\nname = \"a\"\ncommand = \"true\"\nstop = { grce_s = 1 }\n", ":4:", "`grce_s`", "`grace_s`"),
        ("\n\n[[recipee]]\nname = \"a\"\n", ":3:", "`recipee`", "`recipe`"),
        ("[ui]\ntheme = \"drak\"\n", ":2:", "`drak`", "`dark`"),
        ("[tmux]\nsoket = \"x\"\n", ":2:", "`soket`", "`socket`"),
        ("[[recipe]]\nname = \"a\"\ncommand = \"true\"\nceiling_s = \"long\"\n", ":4:", "`ceiling_s`", "number"),
        ("[[recipe]]\nname = \"a\"\ncommand = \"true\"\nkind = \"server\"\n", ":4:", "`server`", "`serve`"),
        ("[ui\n", ":1:", "", ""),
    ];
    for (content, place, key, nearest) in cases {
        let file = rig.write("typo.toml", content);
        let path = file.to_str().unwrap();
        for (words, as_json) in [(&["ls"][..], false), (&["ls", "--json"], true), (&["--batch"], false)] {
            let ran = rig.run(&[&["--config", path][..], words].concat());
            assert_eq!(ran.code, Some(2), "{content}: {ran:?}");
            let message = if as_json {
                let error = ran.lines()[0]["error"].take();
                assert_eq!(error["kind"], "config", "{ran:?}");
                error["message"].as_str().unwrap().to_owned()
            } else {
                assert!(ran.out.is_empty(), "{ran:?}");
                ran.error()
            };
            for word in [path, place, key, nearest] {
                assert!(message.contains(word), "{content}: {word} is not in: {message}");
            }
        }
    }
}

#[test]
fn a_configuration_that_is_not_there_is_code_2() {
    let rig = Rig::new();
    for (words, variable) in [(&["--config", "/no/such.toml", "ls"][..], false), (&["ls"], true)] {
        let mut command = rig.command(words);
        if variable {
            command.env("COOKBOOK_TUI_CONFIG", "/no/such.toml");
        }
        let ran = crate::rig::Ran::of(command.spawn().unwrap());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.error().contains("/no/such.toml"), "{ran:?}");
    }
    // The user's own file need not be there, but must be right.
    assert_eq!(rig.run(&["ls"]).code, Some(0));
    rig.write("home/config/cookbook-tui/config.toml", "x = 1\n");
    let ran = rig.run(&["ls"]);
    assert!(ran.code == Some(2) && ran.error().contains("home/config/cookbook-tui/config.toml"), "{ran:?}");
}

fn names(rig: &Rig) -> Vec<String> {
    let rows = rig.json(&["recipes"])["recipes"].take();
    rows.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

/// A file that would do much, if anybody acted on it.
fn tempting(rig: &Rig) -> String {
    let ledger = rig.ledger("ledger");
    format!(
        "[[recipe]]\nname = \"planted\"\nkind = \"serve\"\nautostart = true\ncommand = {argv}\n\n\
         [[recipe]]\nname = \"shell\"\ncommand = {argv}\n\n[tmux]\nsocket = \"planted\"\n",
        argv = json!(ledger.noted(&["sleep", "3600"]))
    )
}

#[test]
fn a_directorys_file_is_inert_until_it_is_trusted_and_after_every_change() {
    let rig = Rig::new();
    let file = rig.write("work/cookbook.toml", &tempting(&rig));
    let ledger = rig.ledger("ledger");
    let refuse = |rig: &Rig| {
        assert!(!names(rig).contains(&"planted".to_owned()));
        let ran = rig.run(&["launch", "planted"]);
        assert_eq!(ran.code, Some(4), "{ran:?}");
        assert_eq!(ledger.entries().len(), 0, "it was acted on");
    };
    refuse(&rig);
    // Whoever misses it is told.
    let note = format!("{} is not trusted and not used; read it, then run `cookbook-tui trust`", file.display());
    for words in [&["launch", "planted"][..], &["recipes"], &["recipes", "--json"]] {
        let ran = rig.run(words);
        assert!(ran.error().contains(&note), "{words:?}: {ran:?}");
    }
    let (_, message) = rig.batch().err(json!({"cmd": "launch", "recipe": "planted"}));
    assert!(message.contains(&note), "{message}");
    // Not even its mistakes count.
    fs::write(&file, "this is no TOML").unwrap();
    refuse(&rig);
    fs::write(&file, tempting(&rig)).unwrap();
    refuse(&rig);
    assert_eq!(rig.run(&["trust"]).code, Some(0));
    assert_eq!(rig.run(&["recipes"]).error(), "");
    assert_eq!(names(&rig).iter().filter(|name| *name == "planted").count(), 1);
    let row: Value = rig.json(&["recipes"])["recipes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["name"] == "planted")
        .unwrap()
        .clone();
    assert_eq!(row["source"], "directory", "{row}");
    // From below as well: it is looked for upward.
    fs::create_dir(rig.path("work/below")).unwrap();
    let mut below = rig.command(&["recipes"]);
    below.current_dir(rig.path("work/below"));
    let ran = crate::rig::Ran::of(below.spawn().unwrap());
    assert!(ran.text().contains("planted"), "{ran:?}");
    // A change, however small, makes it a stranger again.
    fs::write(&file, tempting(&rig) + "\n").unwrap();
    refuse(&rig);
    fs::write(&file, tempting(&rig)).unwrap();
    assert!(names(&rig).contains(&"planted".to_owned()), "the very bytes that were trusted");
    // The same bytes elsewhere were never trusted.
    fs::remove_file(&file).unwrap();
    rig.write("work/below/cookbook.toml", &tempting(&rig));
    let mut elsewhere = rig.command(&["recipes"]);
    elsewhere.current_dir(rig.path("work/below"));
    assert!(!crate::rig::Ran::of(elsewhere.spawn().unwrap()).text().contains("planted"));
    // A link to a trusted file is not the file.
    fs::write(rig.path("work/real.toml"), tempting(&rig)).unwrap();
    std::os::unix::fs::symlink(rig.path("work/real.toml"), &file).unwrap();
    refuse(&rig);
    assert_ne!(rig.run(&["trust"]).code, Some(0));
    refuse(&rig);
}

#[test]
fn a_trusted_file_is_used_by_batch_and_subcommand() {
    let rig = Rig::new();
    rig.write("work/cookbook.toml", &tempting(&rig));
    let ledger = rig.ledger("ledger");
    assert_eq!(rig.run(&["trust"]).code, Some(0));
    let mut batch = rig.batch();
    let session = batch.launch(json!({"recipe": "planted", "host": "pty"}));
    let workload = ledger.one();
    assert_eq!(batch.ok(json!({"cmd": "stop", "session": session}))["dead"], json!(true));
    workload.assert_ends();
    assert_eq!(batch.finish(), Some(0));
    // `--config` is trust, and replaces it.
    let other = rig.write("other.toml", "[[recipe]]\nname = \"other\"\ncommand = \"true\"\n");
    let ran = rig.run(&["--config", other.to_str().unwrap(), "recipes"]);
    assert!(ran.text().contains("other") && !ran.text().contains("planted"), "{ran:?}");
}

#[test]
fn a_recipe_is_launched_as_it_is_written() {
    let rig = Rig::new();
    rig.write("sub/marker", "here");
    let config = rig.write(
        "sub/c.toml",
        "[[recipe]]\nname = \"r\"\nkind = \"agent\"\nhost = \"pty\"\ncwd = \".\"\nenv = { A = \"recipe\", B = \"recipe\" }\n\
         gpus = \"2,3\"\nceiling_s = 7200\ncommand = 'echo \"[$A $B $CUDA_VISIBLE_DEVICES $(cat marker)]\"; sleep 3600'\n",
    );
    let mut batch: Batch = rig.batch_with(&[], &["--config", config.to_str().unwrap()]);
    let session = batch.launch(json!({"recipe": "r", "env": {"B": "request"}}));
    assert!(session.starts_with("agent-"), "{session}");
    assert_eq!(batch.expect_output(&session, "^\\[.*\\]$"), "[recipe request 2,3 here]");
    let row = batch.ok(json!({"cmd": "list"}))["sessions"][0].take();
    assert_eq!((&row["name"], &row["host"], &row["kind"]), (&json!("r"), &json!("pty"), &json!("agent")), "{row}");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let left = row["not_after"].as_f64().unwrap() - now;
    assert!((7000.0..=7200.0).contains(&left), "{left}");
}
