//! A tmux server that an agent has started is kept; where it is chosen to be ended, whoever goes with it is shown before.

use std::fs;

use serde_json::{Value, json};

use crate::client::Batch;
use crate::oracle::Watched;
use crate::rig::{Rig, until};

/// Launches an agent that runs a line, and then waits.
fn agent(rig: &Rig, batch: &mut Batch, line: &str) -> String {
    let wait = rig.ledger("agent").noted_line(&format!("sleep {}", rig.nap()));
    batch.launch(json!({"command": format!("{line}; {wait}"), "host": "pty", "kind": "agent"}))
}

/// Returns the pid that a line of a shell has written to a file.
fn written(rig: &Rig, name: &str) -> i32 {
    let path = rig.work().join(name);
    until("a written pid", || fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n')));
    fs::read_to_string(&path).unwrap().trim().parse().unwrap()
}

fn plan(batch: &mut Batch, session: &str, end_kept: &[i32]) -> Vec<Value> {
    let request = json!({"cmd": "stop", "session": session, "dry_run": true, "end_kept": end_kept});
    let plan = batch.ok(request)["plan"].as_array().unwrap().clone();
    plan.into_iter().filter(|row| row["signal"].is_string()).collect()
}

fn pids(rows: &[Value]) -> Vec<i64> {
    rows.iter().map(|row| row["pid"].as_i64().unwrap()).collect()
}

/// Stops a session as it was shown; returns whom that signalled.
fn stop(batch: &mut Batch, session: &str, server: i32, shown: &[Value]) -> Vec<i64> {
    let confirm: Vec<Value> =
        shown.iter().map(|row| json!({"pid": row["pid"], "start_token": row["start_token"]})).collect();
    let request = json!({"cmd": "stop", "session": session, "end_kept": [server], "confirm": confirm, "grace_s": 0.3});
    let receipt = batch.ok(request);
    assert_eq!(receipt["dead"], true, "{receipt:#}");
    pids(receipt["signals"].as_array().unwrap())
}

#[test]
fn whoever_is_in_its_panes_is_shown_with_it() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    let (tmux, nap) = (format!("tmux -S {}/inner -f /dev/null", rig.work().display()), rig.nap());
    let deaf = rig.ledger("deaf").noted_line(&format!("sleep {nap}"));
    let pid = rig.work().join("server").display().to_string();
    let line =
        format!("{tmux} new-session -d \"trap '' HUP TERM; {deaf}\"; {tmux} display-message -p '#{{pid}}' > {pid}");
    let session = agent(&rig, &mut batch, &line);
    let server = Watched::of(written(&rig, "server"));
    let (deaf, workload) = (rig.ledger("deaf").one(), rig.ledger("agent").one());
    let kept = pids(&plan(&mut batch, &session, &[]));
    assert!(!kept.contains(&server.pid.into()) && !kept.contains(&deaf.pid.into()), "{kept:?}");
    let shown = plan(&mut batch, &session, &[server.pid]);
    let all = pids(&shown);
    assert!(all.contains(&server.pid.into()) && all.contains(&deaf.pid.into()), "{shown:#?}");
    [&server, &deaf, &workload].into_iter().for_each(Watched::assert_alive);
    let signalled = stop(&mut batch, &session, server.pid, &shown);
    assert!(signalled.iter().all(|pid| all.contains(pid)), "{signalled:?} of {all:?}");
    [&server, &deaf, &workload].into_iter().for_each(Watched::assert_ends);
}

/// Sessions of another manager in it have wardens, which end them when their host goes: nobody else signals them.
#[test]
fn sessions_of_a_manager_in_it_end_by_their_wardens() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    let (work, nap) = (rig.work().display().to_string(), rig.nap());
    let socket = format!("{}n", rig.socket);
    let inner = rig.ledger("inner").noted_line(&format!("sleep {nap}"));
    let line = format!(
        "{} --state-dir {work}/inner --tmux-socket {socket} launch --host tmux -- {inner}; \
         tmux -L {socket} display-message -p '#{{pid}}' > {work}/server; \
         tmux -L {socket} display-message -p '#{{pane_pid}}' > {work}/front",
        env!("CARGO_BIN_EXE_cookbook-tui")
    );
    let session = agent(&rig, &mut batch, &line);
    let (server, front) = (written(&rig, "server"), written(&rig, "front"));
    let (inner, workload) = (rig.ledger("inner").one(), rig.ledger("agent").one());
    let shown = plan(&mut batch, &session, &[server]);
    let all = pids(&shown);
    assert!(all.contains(&server.into()), "{shown:#?}");
    assert!(![inner.pid, front].iter().any(|pid| all.contains(&i64::from(*pid))), "{shown:#?}");
    inner.assert_alive();
    let signalled = stop(&mut batch, &session, server, &shown);
    assert!(signalled.iter().all(|pid| all.contains(pid)), "{signalled:?} of {all:?}");
    [&inner, &workload].into_iter().for_each(Watched::assert_ends);
}
