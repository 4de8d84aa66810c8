//! A stop while something around it breaks: tmux, the disk, the limits of the process. Each ends in time, in a receipt
//! that is true or in an error that has changed nothing; and when the world is whole again, everything can be ended.
//!
//! A clock that steps is in `clock`, a server that was killed, stopped or hidden before the stop in `tmux`, a disk
//! that fills up write by write in `room`.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::matrix::in_both;
use crate::room::{batch_on, fill_but, state_of};
use crate::support::{Batch, Bystanders, Host, Launch, PATIENCE, Session, World, eventually, pids, rows};

/// A grace that lets something happen in it.
const GRACE_S: f64 = 1.0;

/// How long a stop may take beyond its grace: each question to tmux has two seconds, and the machine is busy.
const DEADLINE: Duration = Duration::from_secs(12);

/// A deaf tree with a daemon that left it, and what surrounds it.
struct Scene<'a> {
    world: &'a World,
    batch: Batch,
    session: Session,
    bystanders: Bystanders,
}

const ROLES: [&str; 3] = ["root", "child", "daemon"];

fn deaf(world: &World) -> String {
    let daemon = world.shell("trap '' TERM HUP; leaf daemon");
    world.shell(&format!(
        "trap '' TERM HUP
        log root
        (setsid bash {daemon} < /dev/null > /dev/null 2>&1 &)
        (leaf child) & wait; wait"
    ))
}

impl<'a> Scene<'a> {
    fn of(world: &'a World, mut batch: Batch, host: Host) -> Self {
        let script = deaf(world);
        let launch = Launch { host, kind: "serve", grace_s: GRACE_S, argv: &["bash", &script] };
        let session = world.launch(&mut batch, &launch);
        world.ledger.await_roles(&ROLES);
        // They carry no marker: in a mount namespace of its own its record is not to be seen from here.
        let bystanders = world.bystanders(&["sleep", &world.nap], None);
        Self { world, batch, session, bystanders }
    }

    /// Asks for a stop and returns its whole answer, which comes in time.
    fn stop(&mut self) -> Value {
        let asked = self.ask();
        self.answer(asked)
    }

    fn ask(&mut self) -> (u64, Instant) {
        (self.batch.send(json!({ "cmd": "stop", "session": self.session.id })), Instant::now())
    }

    fn answer(&mut self, (id, begun): (u64, Instant)) -> Value {
        let answer = self.batch.answer(id);
        let took = begun.elapsed();
        assert!(took < DEADLINE + Duration::from_secs_f64(GRACE_S), "it took {took:?}: {answer:#}");
        self.bystanders.assert_untouched();
        answer
    }

    /// Asks for a stop, and returns once its first signal was sent.
    fn stop_under_way(&mut self) -> (u64, Instant) {
        let asked = self.ask();
        self.batch.await_event("of a signal", |event| event["event"] == "signal");
        assert!(self.world.ledger.is_alive("root"), "its grace is not over");
        asked
    }

    /// The answer is an error of this kind that says these words; nobody was signalled, and the record is there.
    fn assert_nothing_was_done(&mut self, answer: &Value, kinds: &[&str], words: &[&str]) {
        let error = &answer["error"];
        assert!(kinds.contains(&error["kind"].as_str().unwrap_or_default()), "{answer:#}");
        let message = error["message"].as_str().unwrap();
        assert!(words.iter().all(|word| message.contains(word)), "{words:?} are not in {message:?}");
        for role in ROLES {
            assert!(self.world.ledger.is_alive(role), "{role}: {answer:#}");
        }
        assert!(!self.batch.events().iter().any(|event| event["event"] == "signal"), "{answer:#}");
        let listed = self.batch.ok(json!({ "cmd": "list" }));
        assert!(rows(&listed, "sessions").any(|row| row["session"] == self.session.id), "no absence: {listed}");
    }

    /// The receipt says of exactly the ledger that it was ended, and it was.
    fn assert_ended(&mut self, receipt: &Value) {
        assert!(self.world.ledger.alive().is_empty(), "{:?}\n{receipt:#}", self.world.ledger.alive());
        assert_eq!(receipt["dead"], true, "{receipt:#}");
        let ledger = self.world.ledger.entries().iter().map(|entry| i64::from(entry.pid)).collect();
        assert_eq!(pids(receipt, "outcomes"), ledger, "{receipt:#}");
        let killed: Vec<i64> = rows(receipt, "signals")
            .filter(|row| row["signal"] == "KILL")
            .map(|row| row["pid"].as_i64().unwrap())
            .collect();
        assert_eq!(killed.into_iter().collect::<std::collections::BTreeSet<_>>(), ledger, "{receipt:#}");
        self.bystanders.assert_untouched();
    }

    /// A stop in a world that is whole.
    fn assert_stops(mut self) {
        let answer = self.stop();
        let receipt = &answer["result"];
        assert!(self.world.ledger.alive().is_empty(), "{answer:#}");
        assert_eq!((&receipt["dead"], &receipt["host_closed"]), (&json!(true), &json!(true)), "{answer:#}");
        self.assert_over();
    }

    fn assert_over(self) {
        for supervisor in &self.session.supervisors {
            assert!(supervisor.ends_within(PATIENCE), "front or warden stays: {supervisor:?}");
        }
        if let Some(id) = &self.session.in_tmux {
            assert!(!self.world.tmux(&["has-session", "-t", id]).status.success(), "{id} is still there");
        }
        let mut scene = self;
        let orphans = scene.batch.ok(json!({ "cmd": "orphans" }));
        assert_eq!((&orphans["orphans"], &orphans["quarantined"]), (&json!([]), &json!([])), "{orphans:#}");
        scene.bystanders.assert_untouched();
        assert!(scene.batch.finish().code().is_some());
    }
}

/// The server goes in the middle of a stop, and with it the host.
#[test]
fn the_server_is_killed_during_the_stop() {
    let world = World::new();
    let mut scene = Scene::of(&world, world.batch(), Host::Tmux);
    let server = world.server();
    let asked = scene.stop_under_way();
    server.signal(Signal::KILL);
    assert!(server.ends_within(PATIENCE));
    let answer = scene.answer(asked);
    scene.assert_ended(&answer["result"]);
    assert_eq!(answer["result"]["host_closed"], true, "a session of a dead server is closed: {answer:#}");
    scene.assert_over();
}

/// Nobody can close a host that does not answer: whoever was in it is dead all the same, and the record stays.
fn unreachable_during_the_stop(lose: impl FnOnce(&World), find: impl FnOnce(&World), words: &str) {
    let world = World::new();
    let mut scene = Scene::of(&world, world.batch(), Host::Tmux);
    let asked = scene.stop_under_way();
    lose(&world);
    let answer = scene.answer(asked);
    let receipt = &answer["result"];
    scene.assert_ended(receipt);
    assert_eq!(receipt["host_closed"], false, "{receipt:#}");
    let told = |note: &Value| note.as_str().unwrap().contains(words);
    assert!(rows(receipt, "notes").any(told), "{words:?} is in no note: {receipt:#}");
    let record = world.tether(&scene.session.id).expect("its host is open: the record stays");
    let reason = record["last"]["reason"].as_str().unwrap();
    assert!(reason.contains("could not be closed"), "{reason}");
    find(&world);
    scene.assert_stops();
}

#[test]
fn the_server_is_stopped_during_the_stop() {
    let world_server = std::cell::OnceCell::new();
    let lose = |world: &World| {
        let server = world_server.get_or_init(|| world.server());
        server.signal(Signal::STOP);
    };
    let find = |_: &World| world_server.get().unwrap().signal(Signal::CONT);
    unreachable_during_the_stop(lose, find, "did not answer");
}

#[test]
fn the_socket_is_removed_during_the_stop() {
    let server = std::cell::OnceCell::new();
    let lose = |world: &World| {
        server.get_or_init(|| world.server());
        std::fs::remove_file(world.socket_path()).unwrap();
    };
    let find = |world: &World| {
        server.get().unwrap().signal(Signal::USR1);
        eventually("the new socket", || world.socket_path().exists());
    };
    unreachable_during_the_stop(lose, find, "kill -USR1");
}

fn set_mode(world: &World, mode: u32) {
    let sockets = world.socket_path().parent().unwrap().to_owned();
    std::fs::set_permissions(sockets, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn the_directory_of_sockets_is_opened_during_the_stop() {
    unreachable_during_the_stop(|world| set_mode(world, 0o777), |world| set_mode(world, 0o700), "unsafe permissions");
}

/// Who else may have put a socket there.
#[test]
fn a_directory_of_sockets_that_is_open_to_all() {
    let world = World::new();
    let mut scene = Scene::of(&world, world.batch(), Host::Tmux);
    set_mode(&world, 0o777);
    let answer = scene.stop();
    let directory = world.socket_path().parent().unwrap().display().to_string();
    scene.assert_nothing_was_done(&answer, &["unverifiable", "tmux"], &["unsafe permissions", &directory]);
    set_mode(&world, 0o700);
    scene.assert_stops();
}

/// A tmux of ours on PATH that does what the file `mood` says, and the real one's part without it.
fn moody(world: &World) -> Batch {
    let script = format!(
        "#!/bin/sh
        case $(cat {} 2> /dev/null) in
        hangs) exec sleep 30;;
        floods) head -c 100000 /dev/urandom; exit 0;;
        mumbles) echo '%0 $0 @0 12 words'; exit 0;;
        lies) exit 0;;
        fails) echo 'lost server' >&2; exit 1;;
        esac
        PATH=${{PATH#*:}}
        exec tmux \"$@\"\n",
        world.path("mood").display()
    );
    std::fs::create_dir_all(world.path("bin")).unwrap();
    std::fs::write(world.path("bin/tmux"), script).unwrap();
    std::fs::set_permissions(world.path("bin/tmux"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut argv = world.binary();
    argv.extend(["--batch".to_owned(), "-".to_owned()]);
    let mut command = world.command(&argv);
    command.env("PATH", format!("{}:{}", world.path("bin").display(), std::env::var("PATH").unwrap()));
    Batch::start(command)
}

const MOODS: [&str; 5] = ["hangs", "floods", "mumbles", "lies", "fails"];

fn put_into(world: &World, mood: &str) {
    std::fs::write(world.path("mood"), mood).unwrap();
}

/// What a broken tmux says, or does not say, is neither an absence nor a list of panes.
#[test]
fn a_tmux_on_path_that_is_broken() {
    let world = World::new();
    let mut scene = Scene::of(&world, moody(&world), Host::Tmux);
    for mood in MOODS {
        put_into(&world, mood);
        let answer = scene.stop();
        scene.assert_nothing_was_done(&answer, &["unverifiable", "tmux"], &["tmux"]);
    }
    put_into(&world, "is itself");
    scene.assert_stops();
}

/// Whatever it says of the end of its session, only one that is gone is closed.
#[test]
fn a_tmux_on_path_that_breaks_during_the_stop() {
    for mood in MOODS {
        let world = World::new();
        let mut scene = Scene::of(&world, moody(&world), Host::Tmux);
        let asked = scene.stop_under_way();
        put_into(&world, mood);
        let answer = scene.answer(asked);
        let receipt = &answer["result"];
        scene.assert_ended(receipt);
        assert_eq!(receipt["host_closed"], false, "{mood}: {receipt:#}");
        assert!(world.tether(&scene.session.id).is_some(), "{mood}: the record stays");
        put_into(&world, "is itself");
        scene.assert_stops();
    }
}

/// Has the state directory refuse everything from now on.
#[derive(Clone, Copy, Debug)]
enum Disk {
    ReadOnly,
    Full,
    Gone,
}

impl Disk {
    const ALL: [Self; 3] = [Self::ReadOnly, Self::Full, Self::Gone];

    /// Starts a manager whose state directory can be broken in this way, where the host grants that.
    fn batch(self, world: &World) -> Option<Batch> {
        match self {
            Self::ReadOnly | Self::Full => batch_on(world, 1024),
            Self::Gone => Some(world.batch()),
        }
    }

    fn fail(self, world: &World, batch: &Batch) {
        match self {
            Self::ReadOnly => cover(world, batch),
            Self::Full => fill_but(&state_of(world, batch), 0),
            Self::Gone => {
                let gone = || std::fs::remove_dir_all(world.path("state")).is_ok();
                eventually("the end of the state directory", gone);
            }
        }
    }
}

/// Covers the state directory by itself, read-only. What is open for writing stays open, as on a disk that has given
/// up.
fn cover(world: &World, batch: &Batch) {
    let state = world.path("state").display().to_string();
    let script = format!("mount --bind {state} {state} && mount -o remount,bind,ro {state}");
    let mut command = Command::new("nsenter");
    command.args(["-m", "-t", &batch.child.id().to_string(), "sh", "-c", &script]);
    assert!(command.status().unwrap().success(), "{command:?}");
}

/// A stop is a stop, whether or not it can be written down; what could not be written is said.
fn a_disk_that_refuses(host: Host) {
    for disk in Disk::ALL {
        let world = World::new();
        let Some(batch) = disk.batch(&world) else { return };
        let mut scene = Scene::of(&world, batch, host);
        disk.fail(&world, &scene.batch);
        let answer = scene.stop();
        let receipt = &answer["result"];
        scene.assert_ended(receipt);
        assert_eq!(receipt["host_closed"], true, "{disk:?}: {receipt:#}");
        // Where the directory was removed a new one takes whatever is written.
        let unwritten =
            rows(receipt, "notes").filter(|note| note.as_str().unwrap().contains("could not be written")).count();
        assert_eq!(unwritten > 0, !matches!(disk, Disk::Gone), "{disk:?}: {receipt:#}");
        for supervisor in &scene.session.supervisors {
            assert!(supervisor.ends_within(PATIENCE), "{disk:?}: front or warden stays: {supervisor:?}");
        }
        let listed = scene.batch.ok(json!({ "cmd": "list" }));
        let row = rows(&listed, "sessions").find(|row| row["session"] == scene.session.id).unwrap();
        assert_eq!((&row["phase"], &row["detail"]), (&json!("exited"), &json!("stopped")), "{disk:?}: {row}");
        scene.bystanders.assert_untouched();
    }
}

/// Nobody but the warden is there to end it, and it can write nothing.
fn a_disk_that_refuses_the_warden(host: Host) {
    for disk in Disk::ALL {
        let world = World::new();
        let Some(batch) = disk.batch(&world) else { return };
        let mut scene = Scene::of(&world, batch, host);
        disk.fail(&world, &scene.batch);
        scene.batch.kill();
        if let Some(id) = &scene.session.in_tmux {
            assert!(ROLES.iter().all(|role| world.ledger.is_alive(role)), "{disk:?}: in tmux nothing depends on it");
            assert!(world.tmux(&["kill-session", "-t", id]).status.success());
        }
        let begun = Instant::now();
        world.ledger.await_empty();
        assert!(begun.elapsed() < DEADLINE, "{disk:?}: {:?}", begun.elapsed());
        for supervisor in &scene.session.supervisors {
            assert!(supervisor.ends_within(PATIENCE), "{disk:?}: {supervisor:?}");
        }
        scene.bystanders.assert_untouched();
    }
}

/// How many processes are in the tree that has more of them than its manager may have descriptors.
const MANY: usize = 600;

fn many(world: &World) -> String {
    world.python(&format!(
        "
def each(number):
    if number % 10 == 0:
        deaf()
    leaf('many')

for number in range({MANY}):
    forked(each, number)
log('root')
time.sleep(200)
"
    ))
}

fn crowded(world: &World, host: Host) -> (Batch, Session, Bystanders) {
    let mut argv: Vec<String> = ["sh", "-c", "ulimit -n 256; exec \"$@\"", "sh"].map(str::to_owned).into();
    argv.extend(world.binary());
    argv.extend(["--batch".to_owned(), "-".to_owned()]);
    let mut batch = Batch::start(world.command(&argv));
    let script = many(world);
    let argv = [crate::support::python(), script.as_str()];
    let session = world.launch(&mut batch, &Launch { host, kind: "serve", grace_s: GRACE_S, argv: &argv });
    world.ledger.await_roles(&["root"]);
    eventually("all of them", || world.ledger.entries().len() == MANY + 1);
    let bystanders = world.bystanders(&["sleep", &world.nap], Some(&session.id));
    (batch, session, bystanders)
}

/// A tree of 600 processes, and 256 descriptors.
fn more_processes_than_descriptors(host: Host) {
    let world = World::new();
    let (mut batch, session, mut bystanders) = crowded(&world, host);
    let begun = Instant::now();
    let receipt = batch.stop(&session.id);
    let took = begun.elapsed();
    assert!(world.ledger.alive().is_empty(), "{} are alive: {}", world.ledger.alive().len(), receipt["notes"]);
    assert_eq!((&receipt["dead"], &receipt["escalated"]), (&json!(true), &json!(true)), "{}", receipt["notes"]);
    let ledger = world.ledger.entries().iter().map(|entry| i64::from(entry.pid)).collect();
    assert_eq!(pids(&receipt, "outcomes"), ledger);
    assert!(took < DEADLINE + Duration::from_secs_f64(GRACE_S), "{took:?}");
    bystanders.assert_untouched();
    assert_eq!(batch.finish().code(), Some(0));
}

/// Their warden has no more descriptors than their manager had.
#[test]
fn more_processes_than_descriptors_and_no_manager() {
    let world = World::new();
    let (mut batch, session, mut bystanders) = crowded(&world, Host::Pty);
    let begun = Instant::now();
    batch.kill();
    world.ledger.await_empty();
    assert!(begun.elapsed() < DEADLINE + Duration::from_secs_f64(GRACE_S), "{:?}", begun.elapsed());
    for supervisor in &session.supervisors {
        assert!(supervisor.ends_within(PATIENCE), "{supervisor:?}");
    }
    bystanders.assert_untouched();
}

in_both! { a_disk_that_refuses a_disk_that_refuses_the_warden more_processes_than_descriptors }
