//! `restart = "on-failure"`: the warden starts a workload again that failed, and nobody else's.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Batch, Host, PATIENCE, Session, World, eventually, rows};

/// A workload whose runs count themselves: `run1`, `run2`, ... Each leaves a deaf daemon behind and fails when
/// the file `fail` appears; each says who of the run before lives, and whether the terminal is its own.
fn failing(world: &World, then: &str) {
    let daemon = world.shell("trap '' TERM HUP; log daemon; (leaf deep) & wait");
    let script = world.shell(&format!(
        "echo run >> $FX/runs
        n=$(wc -l < $FX/runs)
        for pid in $(cut -d' ' -f1 $LEDGER); do kill -0 $pid 2>> $FX/null && echo run$n meets $pid >> $FX/met; done
        log run$n
        read -r s < /proc/self/stat; set -- ${{s##*) }}
        echo run$n pgrp $3 session $4 tty $5 foreground $6 >> $FX/terminal
        tty >> $FX/terminal
        echo words of run$n
        (setsid bash {daemon} < /dev/null > /dev/null 2>&1 &)
        until [ -e $FX/fail ]; do sleep 0.02; done
        rm $FX/fail
        {then}"
    ));
    world.recipes(&format!(
        "[[recipe]]\nname = \"failing\"\nkind = \"serve\"\ncommand = [\"bash\", \"{script}\"]\nrestart = \"on-failure\"\nstop = {{ grace_s = 0.3 }}\n"
    ));
}

fn fail(world: &World) {
    std::fs::write(world.path("fail"), "").unwrap();
}

fn row(world: &World, session: &Session) -> Value {
    let (_, listed) = world.run(&["ls"]);
    rows(&listed, "sessions").find(|row| row["session"] == session.id).cloned().unwrap_or(Value::Null)
}

/// Has the record say that this is the run after so many restarts.
fn after_restarts(world: &World, session: &Session, attempt: u32) {
    let path = world.path(&format!("state/sessions/{}.json", session.id));
    let mut record = world.tether(&session.id).unwrap();
    record["restarts"]["attempt"] = json!(attempt);
    std::fs::write(path, record.to_string()).unwrap();
}

/// Nobody is left, and nothing runs again while one would wait for the longest pause of a first restart.
#[track_caller]
fn assert_stays_ended(world: &World, session: &Session, runs: usize) {
    world.ledger.await_empty();
    for supervisor in &session.supervisors {
        assert!(supervisor.ends_within(PATIENCE), "{supervisor:?}");
    }
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(world.text("runs").lines().count(), runs, "it ran again");
    assert!(world.ledger.alive().is_empty());
}

fn it_runs_again(host: Host) {
    let world = World::new();
    failing(&world, "exit 3");
    let mut batch = world.batch();
    let session = world.launch_recipe(&mut batch, "failing", host);
    world.ledger.await_roles(&["run1", "daemon", "deep"]);
    let mut bystanders = world.bystanders(&["sleep", &world.nap], Some(&session.id));
    let exit =
        batch.send(json!({ "cmd": "wait", "session": session.id, "for": "exit", "timeout_s": 2, "async": true }));
    fail(&world);
    let ended = batch.await_event("of an end", |event| event["event"] == "exited");
    assert_eq!((&ended["exit_code"], &ended["attempt"]), (&json!(3), &json!(1)), "{ended}");
    let again = batch.await_event("of a restart", |event| event["event"] == "launched" && event["attempt"] == json!(1));
    world.ledger.await_roles(&["run2", "daemon", "deep", "daemon", "deep"]);
    assert_eq!(again["pid"], world.ledger.of("run2").pid, "{again}");
    assert_eq!(world.text("met"), "", "the first run was ended before the second began");
    let terminal = world.text("terminal");
    let lines: Vec<Vec<&str>> = terminal.lines().map(|line| line.split(' ').collect()).collect();
    let (first, second) = (&lines[0], &lines[2]);
    assert_eq!(lines[1], lines[3], "the same terminal: {terminal}");
    assert_eq!(first[6], second[6], "the same controlling terminal: {terminal}");
    assert_ne!(first[6], "0", "{terminal}");
    for line in [first, second] {
        assert_eq!(line[2], line[8], "in the foreground: {terminal}");
    }
    if host == Host::Tmux {
        assert_eq!(first[4], second[4], "the kernel session of the pane: {terminal}");
    }
    let answer = batch.answer(exit);
    assert_eq!(answer["error"]["kind"], "timeout", "a restart is no exit: {answer}");
    eventually("the words of the second run", || {
        let screen = batch.ok(json!({ "cmd": "screen", "session": session.id }));
        rows(&screen, "lines").any(|line| line.as_str().unwrap().contains("words of run2"))
    });
    eventually("the end by a key", || {
        // bash goes on when the key comes between two of its children.
        batch.request(json!({ "cmd": "send", "session": session.id, "keys": ["C-c"] }));
        std::thread::sleep(std::time::Duration::from_millis(100));
        !world.ledger.is_alive("run2")
    });
    let waited = batch.ok(json!({ "cmd": "wait", "session": session.id, "for": "exit", "timeout_s": 20 }));
    assert_eq!(waited["signal"], "INT", "what a person asked for is no failure: {waited}");
    let receipt = batch.stop(&session.id);
    assert_eq!(receipt["dead"], true, "{receipt:#}");
    assert_stays_ended(&world, &session, 2);
    bystanders.assert_untouched();
}

/// With no manager at all.
#[test]
fn its_warden_does_it_alone() {
    let world = World::new();
    failing(&world, "kill -SEGV $$");
    let mut batch = world.batch();
    let session = world.launch_recipe(&mut batch, "failing", Host::Tmux);
    world.ledger.await_roles(&["run1", "daemon", "deep"]);
    batch.kill();
    fail(&world);
    world.ledger.await_roles(&["run2"]);
    let row = row(&world, &session);
    assert_eq!((&row["phase"], &row["verdict"]), (&json!("running"), &json!("owned")), "{row}");
    assert_eq!(row["pid"], world.ledger.of("run2").pid, "{row}");
    assert_eq!(row["detail"], "restart 1 of 8, after ended by SEGV", "{row}");
    let (code, receipt) = world.run(&["stop", &session.id]);
    assert_eq!((code, &receipt["dead"]), (0, &json!(true)), "{receipt:#}");
    assert_stays_ended(&world, &session, 2);
}

fn a_stop_is_no_failure(host: Host) {
    let world = World::new();
    failing(&world, "exit 3");
    let mut batch = world.batch();
    let session = world.launch_recipe(&mut batch, "failing", host);
    world.ledger.await_roles(&["run1", "daemon", "deep"]);
    let receipt = batch.stop(&session.id);
    assert_eq!((&receipt["dead"], &receipt["escalated"]), (&json!(true), &json!(true)), "{receipt:#}");
    assert_eq!(batch.row(&session.id)["detail"], "stopped", "said once");
    assert_stays_ended(&world, &session, 1);
}

/// Has a run fail of which a pause of eight seconds follows.
fn pause(world: &World, batch: &mut Batch, session: &Session) {
    after_restarts(world, session, 3);
    fail(world);
    batch.await_event("of an end", |event| event["event"] == "exited");
}

/// The end of the one run, and the phase after it, which says why no other follows.
#[track_caller]
fn assert_is_told_once(batch: &mut Batch, detail: &str) {
    let told = batch.events();
    let of = |name| told.iter().filter(move |event| event["event"] == name);
    assert_eq!(of("exited").count(), 1, "{told:#?}");
    let is_over = |event: &&Value| event["phase"] == "failed" || event["phase"] == "exited";
    let over: Vec<&Value> = of("phase").filter(is_over).map(|event| &event["detail"]).collect();
    assert_eq!(over, [detail], "{told:#?}");
}

fn a_stop_in_the_pause(host: Host) {
    let world = World::new();
    failing(&world, "exit 3");
    let mut batch = world.batch();
    let session = world.launch_recipe(&mut batch, "failing", host);
    world.ledger.await_roles(&["run1", "daemon", "deep"]);
    pause(&world, &mut batch, &session);
    let row = row(&world, &session);
    assert_eq!(row["phase"], "starting", "{row}");
    assert!(row["detail"].as_str().unwrap().starts_with("exit status 3; restart 4 of 8 in "), "{row}");
    let receipt = batch.stop(&session.id);
    assert_eq!((&receipt["dead"], &receipt["signals"]), (&json!(true), &json!([])), "{receipt:#}");
    assert_eq!(receipt["notes"], json!([]), "its warden has left: {receipt:#}");
    assert_stays_ended(&world, &session, 1);
    assert_is_told_once(&mut batch, "exit status 3; stopped");
}

/// Its ceiling comes while it runs, or in the pause: no restart is announced of what is over, and nothing is said twice.
fn a_ceiling_ends_it(host: Host) {
    for pauses in [true, false] {
        let world = World::new();
        failing(&world, "exit 3");
        let mut batch = world.batch();
        let session = world.launch_recipe(&mut batch, "failing", host);
        world.ledger.await_roles(&["run1", "daemon", "deep"]);
        if pauses {
            pause(&world, &mut batch, &session);
        }
        let mut bystanders = world.bystanders(&["sleep", &world.nap], Some(&session.id));
        batch.ok(json!({ "cmd": "extend", "session": session.id, "ceiling_s": 1 }));
        batch.await_event("of the receipt", |event| event["event"] == "receipt");
        let cause = "ended by its warden: its ceiling has come";
        let detail = if pauses { format!("exit status 3; {cause}") } else { cause.to_owned() };
        let row = batch.row(&session.id);
        assert_eq!(row["detail"], detail, "{row}");
        assert_stays_ended(&world, &session, 1);
        assert_is_told_once(&mut batch, &detail);
        let receipt = batch.stop(&session.id);
        assert_eq!(receipt["dead"], true, "{receipt:#}");
        let row = batch.row(&session.id);
        assert_eq!(row["detail"], detail, "{row}");
        bystanders.assert_untouched();
    }
}

/// Nobody is left who could start it again: how the last run ended is in the record, and kept to be looked at.
fn both_are_killed_in_the_pause(host: Host) {
    let world = World::new();
    failing(&world, "exit 3");
    let mut batch = world.batch();
    let session = world.launch_recipe(&mut batch, "failing", host);
    world.ledger.await_roles(&["run1", "daemon", "deep"]);
    pause(&world, &mut batch, &session);
    world.ledger.await_empty();
    eventually("the failed run is emptied", || {
        let record = world.tether(&session.id).unwrap();
        record["captured"] == json!([]) && record["restarts"]["next_at"].is_number()
    });
    // Neither has time to see the end of the other.
    batch.signal(Signal::STOP);
    let warden = world.tether(&session.id).unwrap()["warden"]["pid"].clone();
    let warden = session.supervisors.iter().find(|held| warden == held.entry.pid).unwrap();
    warden.signal(Signal::KILL);
    batch.kill();
    assert_stays_ended(&world, &session, 1);
    let hello = world.batch().ok(json!({ "cmd": "hello" }));
    assert_eq!(hello["ended"], Value::Null, "{hello}");
    let row = row(&world, &session);
    assert_eq!((&row["phase"], &row["exit_code"]), (&json!("failed"), &json!(3)), "{row}");
    assert_eq!(row["detail"], "exit status 3; not started again", "{row}");
    let (code, receipt) = world.run(&["stop", &session.id]);
    assert_eq!((code, &receipt["dead"]), (0, &json!(true)), "{receipt:#}");
}

fn it_is_given_up(host: Host) {
    let world = World::new();
    failing(&world, "exit 3");
    let mut batch = world.batch();
    let session = world.launch_recipe(&mut batch, "failing", host);
    world.ledger.await_roles(&["run1", "daemon", "deep"]);
    after_restarts(&world, &session, 8);
    fail(&world);
    let waited = batch.ok(json!({ "cmd": "wait", "session": session.id, "for": "exit", "timeout_s": 20 }));
    assert_eq!((&waited["phase"], &waited["exit_code"]), (&json!("failed"), &json!(3)), "{waited}");
    let row = row(&world, &session);
    assert_eq!(row["detail"], "exit status 3; given up after 8 restarts; 2 processes of it live on", "{row}");
    let receipt = batch.stop(&session.id);
    assert_eq!(receipt["dead"], true, "{receipt:#}");
    assert_stays_ended(&world, &session, 1);
}

/// Ends the workload from outside, as the kernel does when memory is short.
#[test]
fn one_that_was_killed_runs_again_and_one_that_was_told_to_end_does_not() {
    let world = World::new();
    failing(&world, "exit 3");
    let mut batch = world.batch();
    let session = world.launch_recipe(&mut batch, "failing", Host::Pty);
    world.ledger.await_roles(&["run1", "daemon", "deep"]);
    world.ledger.signal("run1", Signal::KILL);
    world.ledger.await_roles(&["run2", "daemon", "deep", "daemon", "deep"]);
    world.ledger.signal("run2", Signal::TERM);
    let waited = batch.ok(json!({ "cmd": "wait", "session": session.id, "for": "exit", "timeout_s": 20 }));
    assert_eq!(waited["signal"], "TERM", "{waited}");
    finish(batch);
    assert_stays_ended(&world, &session, 2);
}

fn finish(batch: Batch) {
    assert!(batch.finish().code().is_some());
}

crate::matrix::in_both! {
    it_runs_again a_stop_is_no_failure a_stop_in_the_pause a_ceiling_ends_it both_are_killed_in_the_pause it_is_given_up
}
