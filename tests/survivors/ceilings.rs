//! Ceilings: a nearer one holds at once, people are told before it comes, and a default one is renewed.

use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use crate::support::{Batch, Entry, Held, Host, Launch, Session, World, eventually, rows};

fn idle(world: &World, batch: &mut Batch, host: Host, role: &str) -> Session {
    let script = world.shell(&format!("leaf {role}"));
    let session = world.launch(batch, &Launch { host, kind: "serve", grace_s: 0.5, argv: &["bash", &script] });
    world.ledger.await_roles(&[role]);
    session
}

/// How often a process has gone to sleep by itself so far.
fn naps(held: &Held) -> String {
    let status = std::fs::read_to_string(format!("/proc/{}/status", held.entry.pid)).unwrap();
    status.lines().find(|line| line.starts_with("voluntary_ctxt_switches")).unwrap().to_owned()
}

fn a_nearer_ceiling_holds_at_once(host: Host) {
    let world = World::new();
    let mut batch = world.batch();
    let session = idle(&world, &mut batch, host, "root");
    let mut bystanders = world.bystanders(&["sleep", &world.nap], Some(&session.id));
    if host == Host::Tmux {
        // Nobody but the warden is there to notice.
        batch.kill();
    }
    let before: Vec<String> = session.supervisors.iter().map(naps).collect();
    std::thread::sleep(Duration::from_millis(700));
    let after: Vec<String> = session.supervisors.iter().map(naps).collect();
    assert_eq!(before, after, "front and warden sleep until something happens");
    let begun = Instant::now();
    if host == Host::Tmux {
        let (code, answer) = world.run(&["extend", &session.id, "1"]);
        assert_eq!(code, 0, "{answer}");
    } else {
        batch.ok(json!({ "cmd": "extend", "session": session.id, "ceiling_s": 1 }));
    }
    world.ledger.await_empty();
    assert!(begun.elapsed() > Duration::from_millis(900), "{:?}", begun.elapsed());
    for supervisor in session.supervisors.iter().rev().take(1) {
        assert!(supervisor.ends_within(Duration::from_secs(10)), "{supervisor:?}");
    }
    bystanders.assert_untouched();
}

/// A person at a terminal: a client of the session in a pane of another server.
struct Watcher<'a> {
    world: &'a World,
    argv: Vec<String>,
}

impl<'a> Watcher<'a> {
    fn of(world: &'a World, session: &Session) -> Self {
        let mut argv = world.tmux_argv();
        argv[2] = format!("{}-{}", argv[2], session.id);
        let watcher = Self { world, argv };
        let mut attach = world.tmux_argv();
        attach.extend(["attach", "-t", session.in_tmux.as_deref().unwrap()].map(str::to_owned));
        let line = attach.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
        watcher.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "150",
            "-y",
            "20",
            &format!("exec env -u TMUX {line}"),
        ]);
        let pid = watcher.tmux(&["display-message", "-p", "#{pid}"]).trim().parse().unwrap();
        world.end_later(Held::open(Entry::of_pid(pid, "the watcher's server").unwrap()));
        eventually("the client is attached", || {
            let clients =
                world.tmux(&["list-clients", "-t", session.in_tmux.as_deref().unwrap(), "-F", "#{client_tty}"]);
            !clients.stdout.is_empty()
        });
        watcher
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut argv = self.argv.clone();
        argv.extend(arguments.iter().map(|&argument| argument.to_owned()));
        String::from_utf8(self.world.command(&argv).output().unwrap().stdout).unwrap()
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }
}

impl Drop for Watcher<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn people_are_told_before_it_comes() {
    let world = World::new();
    let mut batch = world.batch();
    let session = idle(&world, &mut batch, Host::Tmux, "root");
    let other = idle(&world, &mut batch, Host::Tmux, "other");
    let (watcher, elsewhere) = (Watcher::of(&world, &session), Watcher::of(&world, &other));
    let options = |world: &World| world.tmux(&["show-options", "-g"]).stdout;
    let before = options(&world);
    batch.ok(json!({ "cmd": "extend", "session": session.id, "ceiling_s": 1801.5 }));
    let told = batch.await_event("of the ceiling", |event| event["event"] == "attention");
    assert_eq!(told["session"], session.id, "{told}");
    assert_eq!(told["reason"], "its ceiling comes in 30 minutes and ends it; `extend` moves it", "{told}");
    let text = format!("{}: its ceiling comes in 30 minutes", session.id);
    eventually("the message at the terminal", || watcher.screen().contains(&text));
    assert!(!elsewhere.screen().contains("ceiling"), "{}", elsewhere.screen());
    // With no manager the warden tells.
    batch.kill();
    let (code, answer) = world.run(&["extend", &session.id, "301.5"]);
    assert_eq!(code, 0, "{answer}");
    eventually("the second message", || watcher.screen().contains("its ceiling comes in 5 minutes"));
    assert!(!elsewhere.screen().contains("ceiling"), "{}", elsewhere.screen());
    assert_eq!(options(&world), before, "no option was changed");
    assert!(world.ledger.is_alive("root") && world.ledger.is_alive("other"));
}

fn left(row: &Value) -> f64 {
    row["not_after"].as_f64().unwrap() - SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64()
}

#[test]
fn a_default_is_renewed_and_a_choice_is_not() {
    const DAY: f64 = 86_400.0;
    let world = World::new();
    world.recipes(&format!(
        "[[recipe]]\nname = \"napper\"\nkind = \"serve\"\nhost = \"tmux\"\ncommand = [\"sleep\", \"{}\"]\n",
        world.nap
    ));
    let (code, launched) = world.run(&["launch", "napper"]);
    assert_eq!(code, 0, "{launched}");
    world.end_later(world.server());
    let id = launched["session"].as_str().unwrap().to_owned();
    let row = |world: &World| {
        let (_, listed) = world.run(&["ls"]);
        rows(&listed, "sessions").find(|row| row["session"] == id).cloned().unwrap()
    };
    assert!((29.9 * DAY..30.1 * DAY).contains(&left(&row(&world))), "{launched}");
    // Twenty days later.
    let mut record = world.tether(&id).unwrap();
    for field in ["not_after", "not_after_wall"] {
        record[field] = json!(record[field].as_f64().unwrap() - 20.0 * DAY);
    }
    std::fs::write(world.path(&format!("state/sessions/{id}.json")), record.to_string()).unwrap();
    row(&world);
    assert!((29.9 * DAY..30.1 * DAY).contains(&left(&row(&world))), "a verified server does not die of a default");
    assert_eq!(world.run(&["extend", &id, "3600"]).0, 0);
    assert!(left(&row(&world)) <= 3600.0, "a ceiling that somebody chose stays");
    let mut batch = world.batch();
    let script = batch.ok(json!({ "cmd": "launch", "command": ["sleep", world.nap], "kind": "serve", "host": "tmux" }));
    let listed = batch.ok(json!({ "cmd": "list" }));
    let scripted = rows(&listed, "sessions").find(|row| row["session"] == script["session"]).unwrap();
    assert!((0.9 * DAY..1.1 * DAY).contains(&left(scripted)), "what a script starts: {scripted}");
    for session in [id.as_str(), "$last"] {
        assert_eq!(batch.stop(session)["dead"], true);
    }
}

/// The record is spoiled while the session runs: its ceiling holds all the same, for its own processes alone.
#[test]
fn a_ceiling_outlives_its_record() {
    let world = World::new();
    let mut batch = world.batch();
    let session = idle(&world, &mut batch, Host::Tmux, "root");
    let mut bystanders = world.bystanders(&["sleep", &world.nap], Some(&session.id));
    let asleep = || session.supervisors.iter().map(naps).collect::<Vec<_>>();
    let before = asleep();
    batch.ok(json!({ "cmd": "extend", "session": session.id, "ceiling_s": 3 }));
    eventually("the warden has looked, and sleeps again", || asleep() != before);
    batch.kill();
    std::fs::write(world.path(&format!("state/sessions/{}.json", session.id)), "{").unwrap();
    world.ledger.await_empty();
    bystanders.assert_untouched();
}

/// A manager that lives hears of the end and of its status at once, while others of it are still being ended, and of the
/// cause when that is done. Nothing stays on disk of a session in a PTY; one in tmux is closed by a stop.
fn its_end_is_known_at_once(host: Host) {
    let world = World::new();
    let mut batch = world.batch();
    let deaf = world.shell("trap '' TERM HUP; log deaf; while :; do sleep 0.05; done");
    let script = world.shell(&format!("trap 'exit 7' TERM HUP; log root; bash {deaf} & while :; do sleep 0.05; done"));
    let launch = Launch { host, kind: "serve", grace_s: 3.0, argv: &["bash", &script] };
    let session = world.launch(&mut batch, &launch);
    world.ledger.await_roles(&["root", "deaf"]);
    let mut bystanders = world.bystanders(&["sleep", &world.nap], Some(&session.id));
    batch.ok(json!({ "cmd": "extend", "session": session.id, "ceiling_s": 1 }));
    let waited = batch.ok(json!({ "cmd": "wait", "session": session.id, "for": "exit", "timeout_s": 20 }));
    assert_eq!((&waited["phase"], &waited["exit_code"]), (&json!("exited"), &json!(7)), "{waited}");
    assert!(world.ledger.is_alive("deaf"), "it is told before all have ended");
    let exited = batch.await_event("of the end", |event| event["event"] == "exited");
    assert_eq!((&exited["session"], &exited["exit_code"]), (&json!(session.id), &json!(7)), "{exited}");
    let told = batch.await_event("of the receipt", |event| event["event"] == "receipt");
    let cause = "ended by its warden: its ceiling has come";
    assert_eq!(told["receipt"]["notes"][0], cause, "{told}");
    assert_eq!(told["receipt"]["host_closed"], host == Host::Pty, "{told}");
    world.ledger.await_empty();
    let row = batch.row(&session.id);
    assert_eq!(
        (&row["phase"], &row["exit_code"], &row["detail"]),
        (&json!("exited"), &json!(7), &json!(cause)),
        "{row}"
    );
    assert!(rows(&row, "containment").any(|how| how == "warden"), "{row}");
    let stored = || {
        let files = std::fs::read_dir(world.path("state/sessions")).unwrap();
        files.filter(|file| file.as_ref().unwrap().file_name().to_str().unwrap().contains(&session.id)).count()
    };
    if host == Host::Pty {
        assert_eq!(stored(), 0, "nobody needs a file of it any more");
    }
    let receipt = batch.stop(&session.id);
    assert_eq!((&receipt["notes"][0], &receipt["host_closed"]), (&json!(cause), &json!(true)), "{receipt:#}");
    assert_eq!(stored(), 0);
    assert_eq!(world.text("state/receipts.jsonl").lines().count(), 1, "one end, one receipt");
    bystanders.assert_untouched();
}

/// A manager that has come to know a session while it ran tells its end as well, once, and with its cause.
fn another_manager_tells_the_end(host: Host) {
    for cause in ["ended by its warden: its ceiling has come", "stopped"] {
        let world = World::new();
        let (mut batch, mut other) = (world.batch(), world.batch());
        let session = idle(&world, &mut batch, host, "root");
        other.row(&session.id);
        let mut bystanders = world.bystanders(&["sleep", &world.nap], Some(&session.id));
        if cause == "stopped" {
            batch.stop(&session.id);
        } else {
            batch.ok(json!({ "cmd": "extend", "session": session.id, "ceiling_s": 0.5 }));
        }
        for manager in [&mut batch, &mut other] {
            manager.await_event("of the receipt", |event| event["event"] == "receipt");
        }
        world.ledger.await_empty();
        // Both have looked again.
        std::thread::sleep(Duration::from_millis(1500));
        for manager in [&mut batch, &mut other] {
            let told = manager.events();
            let of = |name| told.iter().filter(move |event| event["event"] == name);
            assert_eq!((of("exited").count(), of("receipt").count()), (1, 1), "{told:#?}");
            let over: Vec<&Value> = of("phase").filter(|event| event["phase"] == "exited").collect();
            assert_eq!((over.len(), &over[0]["detail"]), (1, &json!(cause)), "{told:#?}");
        }
        bystanders.assert_untouched();
    }
}

/// Its workload has failed by itself, and its ceiling ends who was left: that is told as well.
fn who_was_left_is_ended_by_its_ceiling(host: Host) {
    let world = World::new();
    let mut batch = world.batch();
    let script = world.shell("log root; (trap '' HUP; leaf left) & until [ -e $FX/end ]; do sleep 0.02; done; exit 3");
    let launch = Launch { host, kind: "serve", grace_s: 0.5, argv: &["bash", &script] };
    let session = world.launch(&mut batch, &launch);
    world.ledger.await_roles(&["root", "left"]);
    std::fs::write(world.path("end"), "").unwrap();
    let waited = batch.ok(json!({ "cmd": "wait", "session": session.id, "for": "exit", "timeout_s": 20 }));
    assert_eq!((&waited["phase"], &waited["exit_code"]), (&json!("failed"), &json!(3)), "{waited}");
    let warden = world.tether(&session.id).unwrap()["warden"]["pid"].clone();
    let warden = session.supervisors.iter().find(|held| warden == held.entry.pid).unwrap();
    warden.signal(rustix::process::Signal::TERM);
    let told = batch.await_event("of the receipt", |event| event["event"] == "receipt");
    let cause = "ended by its warden: its warden was told to end it";
    assert_eq!(told["receipt"]["notes"][0], cause, "{told}");
    world.ledger.await_empty();
    let row = batch.row(&session.id);
    assert_eq!((&row["exit_code"], &row["detail"]), (&json!(3), &json!(cause)), "{row}");
}

crate::matrix::in_both! {
    a_nearer_ceiling_holds_at_once its_end_is_known_at_once another_manager_tells_the_end
    who_was_left_is_ended_by_its_ceiling
}
