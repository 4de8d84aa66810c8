//! What stays in the foreground: `launch --host pty` as the owner, `wait`, and `logs -f`.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Child;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::oracle::{Bystanders, Watched};
use crate::rig::{Ran, Rig, until, wait};

/// Launches in the foreground; returns the owner and the line that it printed at once.
fn own(rig: &Rig, options: &[&str], argv: &[String]) -> (Child, String) {
    let mut words = vec!["launch", "--host", "pty"];
    words.extend(options);
    words.push("--");
    words.extend(argv.iter().map(String::as_str));
    let mut child = rig.command(&words).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (child, line)
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn the_owner_stays_as_long_as_the_workload() {
    let rig = Rig::new();
    let go = rig.path("go");
    for (end, code) in [("exit 0", 0), ("exit 3", 1), ("kill -SEGV $$", 1)] {
        let script = format!("while [ ! -e {} ]; do sleep 0.05; done; {end}", go.display());
        let (mut owner, line) = own(&rig, &["--name", "n"], &["sh".into(), "-c".into(), script]);
        let pid: i32 = line.trim_end().rsplit(' ').next().unwrap().parse().unwrap();
        assert!(line.starts_with("shell-") && line.contains(" runs in pty as process "), "{line}");
        let workload = Watched::of(pid);
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(owner.try_wait().unwrap(), None, "the owner left before its workload");
        // Another run sees it, with its owner, and reaches it through that one.
        let row = rig.json(&["ls"])["sessions"][0].take();
        assert_eq!((&row["lifetime"], &row["pid"]), (&json!("grant"), &json!(pid)), "{row}");
        assert!(row["owner"].as_str().unwrap().contains(&owner.id().to_string()), "{row}");
        assert_eq!(rig.json(&["stop", "n", "--dry-run"])["plan"][0]["pid"], json!(pid));
        workload.assert_alive();
        fs::write(&go, "").unwrap();
        assert_eq!(wait(&mut owner), Some(code), "{end}");
        workload.assert_ends();
        assert_eq!(rig.records(), [""; 0]);
        fs::remove_file(&go).unwrap();
    }
    rig.assert_empty();
}

#[test]
fn the_owner_as_json_prints_one_line() {
    let rig = Rig::new();
    let ran = rig.run(&["launch", "--host", "pty", "--json", "--", "true"]);
    assert_eq!((ran.code, ran.lines().len(), ran.err.len()), (Some(0), 1, 0), "{ran:?}");
    assert_eq!(ran.lines()[0]["host"], "pty");
}

/// Ends the owner and expects its whole session to end: worker, and worker in a kernel session of its own.
fn check_ended_by(ended_by: Signal) {
    let rig = Rig::new();
    let nap = rig.nap();
    let mut strangers = Bystanders::new(&["sleep", &nap]);
    let ledger = rig.ledger("ledger");
    let worker = ledger.noted_line(&format!("sleep {nap}"));
    let script = format!("{worker} & setsid -f {worker}; wait");
    let (mut owner, _) = own(&rig, &["--kind", "serve"], &["sh".into(), "-c".into(), script]);
    let workers = ledger.wait(2);
    signal(&owner, ended_by);
    let code = wait(&mut owner);
    for worker in &workers {
        worker.assert_ends();
    }
    if ended_by == Signal::KILL {
        assert_eq!(code, None);
    } else {
        assert_eq!(code, Some(0), "it ended by the signal itself, or says that something is left");
        // What says how it ended is for the next start; of Ctrl-C nobody needs to be told.
        let left = usize::from(ended_by != Signal::INT);
        let records = rig.records();
        assert!(records.len() == left && records.iter().all(|name| name.contains(".receipt")), "{records:?}");
    }
    strangers.assert_alive();
    rig.assert_empty();
    assert_eq!(rig.json(&["ls"]), json!({"sessions": []}));
    let told = rig.batch().ok(json!({"cmd": "hello"}))["ended"].to_string();
    let why = match ended_by {
        Signal::TERM => "its manager was ended by TERM; nothing is left",
        Signal::HUP => "its manager was ended by HUP: its terminal went away; nothing is left",
        // With the signal that was first, its terminal's or its warden's.
        Signal::KILL => "its owner is gone (ended by ",
        _ => "null",
    };
    let is_told = told.contains(why) && (told == "null" || told.contains("; nothing is left"));
    assert!(is_told, "{ended_by:?}: {told}");
    assert_eq!(rig.batch().ok(json!({"cmd": "hello"})).get("ended"), None, "it is told once");
}

#[test]
fn an_owner_that_is_told_to_end_tears_down() {
    for ended_by in [Signal::TERM, Signal::INT, Signal::HUP] {
        check_ended_by(ended_by);
    }
}

#[test]
fn an_owner_that_crashed_is_survived_by_nothing() {
    check_ended_by(Signal::KILL);
}

#[test]
fn a_wait_can_be_interrupted() {
    let rig = Rig::new();
    let ledger = rig.ledger("ledger");
    rig.launch_tmux(&["--name", "n"], &ledger.noted(&["sleep", &rig.nap()]));
    let workload = ledger.one();
    for told in [Signal::INT, Signal::TERM] {
        let mut waiting = rig.command(&["wait", "n", "--for", "exit"]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(waiting.try_wait().unwrap(), None);
        signal(&waiting, told);
        assert_ne!(wait(&mut waiting), Some(0), "a wait that was interrupted has not come true");
    }
    workload.assert_alive();
}

/// Follows the log of a script that begins when a key is typed; returns what was printed by its end.
fn followed(rig: &Rig, options: &[&str], script: &str) -> Ran {
    let script = format!("stty -echo; echo ready; read x; {script}");
    rig.launch_tmux(&["--name", "n"], &["sh".into(), "-c".into(), script]);
    until("it is ready", || rig.run(&["logs", "n"]).text().contains("ready"));
    let mut words = vec!["logs", "-f", "n"];
    words.extend(options);
    let follower = rig.command(&words).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(400));
    rig.json(&["send", "n", "--key", "Enter"]);
    Ran::of(follower)
}

#[test]
fn a_log_is_followed_until_the_end() {
    let rig = Rig::new();
    let ran = followed(&rig, &[], "i=0; while [ $i -lt 30 ]; do i=$((i+1)); echo line $i; sleep 0.02; done");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let expected: String = (1..=30).fold("ready\n".to_owned(), |text, n| text + &format!("line {n}\n"));
    assert_eq!(ran.text().replace("\n\n", "\n"), expected);
}

#[test]
fn a_followed_line_is_not_torn() {
    let rig = Rig::new();
    let ran = followed(&rig, &[], "printf hel; sleep 0.5; printf 'lo \\342\\202'; sleep 0.5; printf '\\254\\n'");
    assert!(ran.text().lines().any(|line| line == "hello €"), "{ran:?}");
}

#[test]
fn a_followed_log_can_be_json() {
    let rig = Rig::new();
    let ran = followed(&rig, &["--json"], "echo one; sleep 0.5; echo two");
    let lines = ran.lines();
    let all = Value::from(lines).to_string();
    assert!(all.contains("\"one\"") && all.contains("\"two\""), "{ran:?}");
}

#[test]
fn following_can_be_interrupted() {
    let rig = Rig::new();
    let ledger = rig.ledger("ledger");
    rig.launch_tmux(&["--name", "n"], &ledger.noted(&["sh", "-c", "echo here; sleep 3600"]));
    until("it has printed", || rig.run(&["logs", "n"]).text().contains("here"));
    for told in [Signal::INT, Signal::TERM] {
        let mut follower = rig.command(&["logs", "-f", "n"]).spawn().unwrap();
        let mut first = [0; 5];
        follower.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        assert_eq!(&first, b"here\n");
        signal(&follower, told);
        assert!(wait(&mut follower).is_some(), "it ended by the signal itself");
    }
    ledger.one().assert_alive();
}

#[test]
fn the_owner_says_why_its_workload_failed() {
    let rig = Rig::new();
    let ran = rig.run(&["launch", "--host", "pty", "--kind", "serve", "--name", "n", "--", "sh", "-c", "exit 127"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.error().starts_with("cookbook-tui: n: exit status 127: "), "{ran:?}");
}

/// A log outlives its session: it is read to its end, and nobody waits.
#[test]
fn a_log_of_a_session_that_is_gone_is_followed_to_its_end() {
    let rig = Rig::new();
    let launched = rig.launch_tmux(&[], &["sh", "-c", "echo first; echo last; exit 3"].map(str::to_owned));
    let id = launched["session"].as_str().unwrap();
    until("it has printed", || rig.run(&["logs", id]).text().contains("last"));
    rig.json(&["stop", id]);
    assert_eq!(rig.run(&["tree", id]).code, Some(4), "it is forgotten");
    for (options, expected) in [
        (&[][..], "first\nlast\n"),
        (&["-f"], "first\nlast\n"),
        (&["--tail", "1"], "last\n"),
        (&["-f", "--tail", "1"], "last\n"),
    ] {
        let ran = rig.run(&[&["logs", id][..], options].concat());
        assert_eq!((ran.code, ran.text().as_str()), (Some(0), expected), "{options:?}: {ran:?}");
    }
    let ran = rig.run(&["logs", "-f", "serve-00000000"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
}
