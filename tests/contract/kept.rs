//! Daemons that a stop keeps: real ssh agents inside a session, ended only at a person's word, and only the one
//! that was named.

use std::fs;

use serde_json::{Value, json};

use crate::client::Batch;
use crate::oracle::Watched;
use crate::rig::{Rig, until};

/// A session whose workload has started two ssh agents.
struct Agents {
    session: String,
    workload: Watched,
    daemons: Vec<Watched>,
}

impl Agents {
    /// The shell line of a workload that starts two agents; they say who they are themselves.
    fn line(rig: &Rig) -> String {
        let work = rig.work().display().to_string();
        let agent = |n: u8| {
            format!("ssh-agent -s -a {work}/sock{n} > {work}/agent{n}.new; mv {work}/agent{n}.new {work}/agent{n}")
        };
        format!("{}; {}; {}", agent(1), agent(2), rig.ledger("ledger").noted_line(&format!("sleep {}", rig.nap())))
    }

    fn found(rig: &Rig, session: String) -> Self {
        let agents = ["agent1", "agent2"].map(|name| {
            let path = rig.work().join(name);
            until("an agent that says who it is", || path.exists());
            let text = fs::read_to_string(&path).unwrap();
            let pid = text.split("SSH_AGENT_PID=").nth(1).unwrap().split(';').next().unwrap();
            Watched::of(pid.parse().unwrap())
        });
        let workload = rig.ledger("ledger").one();
        Self { session, workload, daemons: agents.into() }
    }

    fn launched(rig: &Rig, batch: &mut Batch, host: &str, kind: &str) -> Self {
        let session = batch.launch(json!({"command": Self::line(rig), "host": host, "kind": kind}));
        Self::found(rig, session)
    }
}

fn pids(receipt: &Value, field: &str) -> Vec<i64> {
    let mut pids: Vec<i64> =
        receipt[field].as_array().unwrap().iter().map(|row| row["pid"].as_i64().unwrap_or_default()).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

fn check_one_of_two(host: &str, kind: &str, by_identity: bool) {
    let rig = Rig::new();
    let mut batch = rig.batch();
    let Agents { session, workload, daemons: agents } = Agents::launched(&rig, &mut batch, host, kind);
    let [chosen, left] = [i64::from(agents[0].pid), i64::from(agents[1].pid)];
    let plan = batch.ok(json!({"cmd": "stop", "session": session, "dry_run": true}));
    let mut both = [chosen, left];
    both.sort_unstable();
    assert_eq!(pids(&plan, "kept"), both, "{plan:#}");
    let shown = plan["kept"].as_array().unwrap().iter().find(|row| row["pid"] == chosen).unwrap();
    let choice = if by_identity { json!({"pid": chosen, "start_token": shown["start_token"]}) } else { json!(chosen) };
    let dry = batch.ok(json!({"cmd": "stop", "session": session, "dry_run": true, "end_kept": [choice]}));
    let planned = dry["plan"].as_array().unwrap().iter().find(|row| row["pid"] == chosen).unwrap();
    assert!(planned["signal"].is_string(), "{dry:#}");
    assert_eq!(pids(&dry, "kept"), [left], "{dry:#}");
    agents.iter().for_each(Watched::assert_alive);
    let receipt = batch.ok(json!({"cmd": "stop", "session": session, "end_kept": [choice]}));
    assert!(!agents[0].is_alive() && !workload.is_alive(), "{receipt:#}");
    agents[1].assert_alive();
    assert_eq!(receipt["dead"], true, "{receipt:#}");
    assert_eq!(pids(&receipt, "kept"), [left], "{receipt:#}");
    assert!(pids(&receipt, "signals").contains(&chosen) && !pids(&receipt, "signals").contains(&left), "{receipt:#}");
    // That word was for that stop alone: the next one keeps the other as before.
    let again = batch.ok(json!({"cmd": "stop", "session": session}));
    assert_eq!(pids(&again, "kept"), [left], "{again:#}");
    agents[1].assert_alive();
    let reap = json!({"cmd": "orphans", "reap": true, "session": session, "end_kept": [left]});
    let last = batch.ok(reap)["swept"][0].clone();
    assert!(!agents[1].is_alive(), "{last:#}");
    assert_eq!((&last["kept"], &last["dead"]), (&json!([]), &json!(true)), "{last:#}");
    assert_eq!(batch.finish(), Some(0));
    assert!(!rig.records().contains(&format!("{session}.json")), "{:?}", rig.records());
}

#[test]
fn one_of_two_kept_agents_is_ended_at_a_word() {
    check_one_of_two("pty", "shell", true);
    check_one_of_two("tmux", "agent", false);
}

#[test]
fn who_is_not_kept_is_named_and_nobody_is_signalled() {
    let rig = Rig::new();
    let mut batch = rig.batch();
    let Agents { session, workload, daemons: agents } = Agents::launched(&rig, &mut batch, "pty", "agent");
    let agent = agents[0].pid;
    let plan = batch.ok(json!({"cmd": "stop", "session": session, "dry_run": true}));
    let token = plan["kept"][0]["start_token"].as_str().unwrap();
    let (head, ticks) = token.rsplit_once(':').unwrap();
    let other = format!("{head}:{}", ticks.parse::<u64>().unwrap() + 1);
    for (choice, named) in
        [(json!(workload.pid), workload.pid), (json!(1), 1), (json!({"pid": agent, "start_token": other}), agent)]
    {
        for dry_run in [true, false] {
            let request = json!({"cmd": "stop", "session": session, "dry_run": dry_run, "end_kept": [agent, choice]});
            let (kind, message) = batch.err(request);
            assert_eq!(kind, "refused", "{message}");
            assert!(message.contains(&format!("pid {named} is not a kept process")), "{message}");
        }
    }
    let (kind, message) = batch.err(json!({"cmd": "stop", "session": session, "end_kept": [0]}));
    assert_eq!(kind, "usage", "{message}");
    let (kind, _) = batch.err(json!({"cmd": "sweep", "end_kept": [agent]}));
    assert_eq!(kind, "usage");
    workload.assert_alive();
    agents.iter().for_each(Watched::assert_alive);
}

#[test]
fn the_subcommands_take_pids() {
    let rig = Rig::new();
    let line = Agents::line(&rig);
    let launched = rig.launch_tmux(&["--name", "n", "--kind", "agent"], &["sh".into(), "-c".into(), line]);
    let session = launched["session"].as_str().unwrap().to_owned();
    let Agents { session, workload, daemons: agents } = Agents::found(&rig, session);
    let chosen = agents[0].pid.to_string();
    let wrong = rig.run(&["stop", "n", "--end-kept", "1"]);
    assert_eq!(wrong.code, Some(3), "{wrong:?}");
    assert!(wrong.error().contains("pid 1 is not a kept process"), "{wrong:?}");
    assert_eq!(rig.run(&["stop", "n", "--end-kept", "-4"]).code, Some(2));
    workload.assert_alive();
    let restarted = rig.json(&["restart", "n", "--end-kept", &chosen]);
    let receipt = &restarted["receipt"];
    assert!(!agents[0].is_alive() && !workload.is_alive(), "{receipt:#}");
    agents[1].assert_alive();
    assert_eq!(pids(receipt, "kept"), [i64::from(agents[1].pid)], "{receipt:#}");
    assert_ne!(restarted["session"], json!(session));
    assert_eq!(rig.run(&["stop", restarted["session"].as_str().unwrap()]).code, Some(0));
}

/// Who is told how somebody is ended does just that, and they are.
#[test]
fn the_way_out_that_is_named_leads_out() {
    let rig = Rig::new();
    let launched = rig.launch_tmux(&["--kind", "agent"], &["sh".into(), "-c".into(), Agents::line(&rig)]);
    let Agents { session, daemons, .. } = Agents::found(&rig, launched["session"].as_str().unwrap().to_owned());
    assert_eq!(rig.run(&["stop", &session]).code, Some(0));
    let alive = || daemons.iter().filter(|agent| agent.is_alive()).count();
    for left in [2, 1] {
        assert_eq!(alive(), left, "only who was named is ended");
        let ran = rig.run(&["dismiss", &session]);
        let said = ran.error();
        let command = said.split('`').nth(1).unwrap_or_else(|| panic!("no way out: {said}"));
        let words: Vec<&str> = command.split(' ').collect();
        assert!(words.contains(&"--end-kept") && said.contains("ssh agent"), "{said}");
        let ended = rig.run(&words);
        let named: i32 = words.last().unwrap().parse().unwrap();
        until("the end of who was named", || !daemons.iter().any(|agent| agent.pid == named && agent.is_alive()));
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    assert_eq!(rig.run(&["dismiss", &session]).code, Some(4), "with the last one its record has gone");
}
