//! FIFOs, sockets and devices in the place of our files: nobody waits for them, and none is taken for a record.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use crate::rig::{Rig, until};

const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// What is put in the place of a file.
#[derive(Clone, Copy, Debug)]
enum Strange {
    Fifo,
    Socket,
    /// Reads of it never end.
    Device,
}

const STRANGE: [Strange; 3] = [Strange::Fifo, Strange::Socket, Strange::Device];

impl Strange {
    fn put(self, path: &Path) {
        fs::remove_file(path).ok();
        match self {
            Self::Fifo => mknodat(CWD, path, FileType::Fifo, PRIVATE, 0).unwrap(),
            Self::Socket => drop(UnixListener::bind(path).unwrap()),
            Self::Device => std::os::unix::fs::symlink("/dev/zero", path).unwrap(),
        }
    }
}

#[test]
fn what_is_no_file_is_no_record() {
    let rig = Rig::new();
    assert_eq!(rig.run(&["ls"]).code, Some(0));
    let names = ["x.json", "serve-00000000.json", "serve-00000001.json"];
    let places: Vec<_> = names.iter().map(|name| rig.state().join("sessions").join(name)).collect();
    for (place, strange) in places.iter().zip(STRANGE) {
        strange.put(place);
        strange.put(&place.with_extension("receipt"));
        strange.put(&place.with_extension("exit"));
    }
    for (command, code) in [(&["ls"][..], 0), (&["orphans"], 0), (&["orphans", "--reap"], 3)] {
        let ran = rig.run(&[command, &["--json"]].concat());
        assert_eq!(ran.code, Some(code), "{ran:?}");
        let answer: Value = serde_json::from_str(&ran.text()).unwrap();
        let quarantined = answer["quarantined"].as_array().unwrap();
        for place in &places {
            let row = quarantined.iter().find(|row| row["path"] == place.to_str().unwrap());
            let reason = row.unwrap_or_else(|| panic!("{command:?}: {answer:#}"))["reason"].as_str().unwrap();
            assert!(reason.contains("not a regular file"), "{reason}");
            assert!(fs::symlink_metadata(place).is_ok_and(|meta| !meta.is_file()), "it stays as it is");
        }
    }
    rig.json(&["doctor"]);
    // What a name stands for cannot be said; everybody else lives as ever.
    assert_eq!(rig.run(&["stop", "serve-00000000"]).code, Some(3));
    let mut batch = rig.batch();
    for host in ["pty", "tmux"] {
        let session = batch.launch(json!({"command": ["sleep", rig.nap()], "host": host}));
        assert_eq!(batch.ok(json!({"cmd": "stop", "session": session}))["dead"], json!(true));
    }
    assert_eq!(batch.finish(), Some(0));
}

/// Every other file of ours, one after the other, while a session is launched, asked and ended.
#[test]
fn nobody_waits_for_a_file_that_is_none() {
    for strange in STRANGE {
        for name in ["receipts.jsonl", "receipts.lock", "cookbook-tui.log", "tmux.conf", "trusted.json"] {
            let rig = Rig::new();
            fs::create_dir(rig.state()).unwrap();
            strange.put(&rig.state().join(name));
            let mut batch = rig.batch();
            let session = batch.launch(json!({"command": ["sleep", rig.nap()], "host": "tmux"}));
            let receipt = batch.ok(json!({"cmd": "stop", "session": session}));
            assert_eq!(receipt["dead"], json!(true), "{name}: {strange:?}");
            let noted = receipt["notes"].as_array().unwrap().iter().filter_map(Value::as_str);
            let noted = noted.filter(|note| note.contains("journal of receipts could not be written")).count();
            assert_eq!(noted, usize::from(name.starts_with("receipts")), "{name}: {strange:?}: {receipt:#}");
            batch.finish();
            let logs = rig.run(&["logs", "--receipts", "--json"]);
            assert_eq!(logs.code, Some(i32::from(name == "receipts.jsonl")), "{name}: {strange:?}: {logs:?}");
        }
    }
}

/// The files of a session that runs.
#[test]
fn a_session_whose_files_were_taken_can_be_ended() {
    for strange in STRANGE {
        let rig = Rig::new();
        let ledger = rig.ledger("ledger");
        let launched = rig.launch_tmux(&["--kind", "serve"], &ledger.noted(&["sleep", &rig.nap()]));
        let session = launched["session"].as_str().unwrap().to_owned();
        let workload = ledger.one();
        until("the log", || rig.state().join(format!("logs/{session}.log")).exists());
        for extension in ["exit", "receipt", "lock"] {
            strange.put(&rig.state().join(format!("sessions/{session}.{extension}")));
        }
        strange.put(&rig.state().join(format!("logs/{session}.log")));
        let row = rig.json(&["ls"])["sessions"][0].take();
        assert_eq!((&row["session"], &row["verdict"]), (&json!(session), &json!("owned")), "{row:#}");
        assert_eq!(rig.run(&["logs", &session]).code, Some(1), "{strange:?}");
        // A lock that cannot be taken is nobody's leave to signal.
        let refused = rig.run(&["stop", &session, "--json"]);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.text().contains("not a regular file"), "{refused:?}");
        workload.assert_alive();
        fs::remove_file(rig.state().join(format!("sessions/{session}.lock"))).unwrap();
        assert_eq!(rig.json(&["stop", &session])["dead"], json!(true), "{strange:?}");
        workload.assert_ends();
    }
}

#[test]
fn a_configuration_that_is_no_file_is_an_error() {
    for strange in STRANGE {
        let rig = Rig::new();
        rig.write("home/config/cookbook-tui/config.toml", "");
        strange.put(&rig.path("home/config/cookbook-tui/config.toml"));
        let ran = rig.run(&["recipes"]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.error().contains("config.toml") && ran.error().contains("not a regular file"), "{ran:?}");
        // The one of a directory is inert anyway, and says so.
        let rig = Rig::new();
        strange.put(&rig.work().join("cookbook.toml"));
        assert_eq!(rig.run(&["recipes"]).code, Some(0));
        assert_ne!(rig.run(&["trust"]).code, Some(0));
    }
}

/// Also where it is named: nobody waits for whoever might write into it.
#[test]
fn a_named_configuration_that_is_no_file_is_an_error() {
    for strange in [Strange::Fifo, Strange::Socket] {
        let rig = Rig::new();
        let place = rig.path("named.toml");
        strange.put(&place);
        let name = place.to_str().unwrap();
        for words in [&["--config", name, "recipes"][..], &["--config", name, "--batch", "-"], &["trust", name]] {
            let ran = rig.run(words);
            assert_eq!(ran.code, Some(2), "{words:?}: {ran:?}");
            assert!(ran.error().contains("named.toml"), "{words:?}: {ran:?}");
        }
        assert!(rig.run(&["--config", name, "recipes"]).error().contains("not a regular file"));
    }
    let rig = Rig::new();
    assert_eq!(rig.run(&["--config", "/dev/null", "recipes"]).code, Some(0), "it is always empty");
}

/// A shell that hands a pipe over has opened it.
#[test]
fn a_named_configuration_may_come_through_a_pipe() {
    let rig = Rig::new();
    let line = "exec \"$@\" --config <(printf '[[recipe]]\\nname = \"piped\"\\nkind = \"shell\"\\ncommand = \"true\"\\n') recipes --json";
    let ran = crate::rig::Ran::of(rig.wrapped(&["bash", "-c", line, "bash"], &[]).spawn().unwrap());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.text().contains("\"piped\""), "{ran:?}");
}
