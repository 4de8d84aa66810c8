//! Trees that grow while they are stopped. Each is bounded in time, whatever the stop does.

use serde_json::json;

use crate::matrix::{Shape, check, in_both};
use crate::support::{Batch, Ending, Host, Launch, Session, World, assert_ended, python};

in_both! { forkers hoppers respawn_ring }

/// Runs a storm that hears no TERM; it goes on while the stop runs.
fn storm(host: Host, script: &str) {
    let world = World::new();
    let script = world.python(script);
    let shape = Shape { births: true, ..Shape::stubborn(&[python(), &script], &["root", "calm"]) };
    check(&world, host, &shape, |world, _, _| {
        crate::support::eventually("the storm", || world.ledger.entries().len() > 20);
    });
}

/// Eight processes that fork and fork.
fn forkers(host: Host) {
    storm(
        host,
        "
deaf()
end = time.monotonic() + 20

def child():
    log('born')
    time.sleep(30)

def forker():
    log('forker')
    for _ in range(80):
        if time.monotonic() < end:
            forked(child)
            time.sleep(0.025)
    time.sleep(30)

for _ in range(8):
    forked(forker)
forked(leaf, 'calm')
log('root')
time.sleep(60)
",
    );
}

/// Eight processes that are never there: each is replaced by its child every few milliseconds.
fn hoppers(host: Host) {
    storm(
        host,
        "
deaf()
end = time.monotonic() + 20

def hop():
    while time.monotonic() < end:
        log('hop')
        time.sleep(0.015)
        if os.fork():
            os._exit(0)

for _ in range(8):
    forked(hop)
forked(leaf, 'calm')
log('root')
time.sleep(60)
",
    );
}

/// A ring in which everybody waits for the death of the one opposite, and has him back within a millisecond: killed
/// one after the other, half of them come back each time. Only a ring that stands still can be ended.
fn respawn_ring(host: Host) {
    storm(
        host,
        "
import select
deaf()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
end = time.monotonic() + 20
SEATS = 24
ring = memoryview(mmap.mmap(-1, 4096)).cast('i')
born = memoryview(mmap.mmap(-1, 4096)).cast('i')

def opposite_is_gone(seat):
    try:
        held = os.pidfd_open(ring[seat])
    except ProcessLookupError:
        return True
    poll = select.poll()
    poll.register(held, select.POLLIN)
    gone = bool(poll.poll(200))
    os.close(held)
    return gone

def sit(seat):
    log('seat')
    other = (seat + SEATS // 2) % SEATS
    while time.monotonic() < end and born[0] < 3000:
        if ring[other] and opposite_is_gone(other):
            born[0] += 1
            child = os.fork()
            if child == 0:
                sit(other)
                os._exit(0)
            ring[other] = child
        elif not ring[other]:
            time.sleep(0.001)

for seat in range(SEATS):
    child = os.fork()
    if child == 0:
        sit(seat)
        os._exit(0)
    ring[seat] = child
forked(leaf, 'calm')
log('root')
time.sleep(60)
",
    );
}

/// Two panes more, in a window of their own and beside the first, with trees that no warden of ours holds. The
/// strays have lost their parent and are only in the pane's kernel session.
#[test]
fn two_windows_in_tmux() {
    let world = World::new();
    let script = world.shell("log root; (leaf child) & wait");
    let mut batch = world.batch();
    let launch = Launch { host: Host::Tmux, kind: "serve", grace_s: 10.0, argv: &["bash", &script] };
    let session: Session = world.launch(&mut batch, &launch);
    world.ledger.await_roles(&["root", "child"]);
    let tree = world.shell("log pane; (leaf deep) & (leaf stray &); setsid bash $FX/beyond & wait");
    std::fs::write(
        world.path("beyond"),
        format!(". {}\nlog beyond; (leaf far) & wait\n", world.path("lib.sh").display()),
    )
    .unwrap();
    let target = session.in_tmux.clone().unwrap();
    let window = world.tmux(&["new-window", "-d", "-t", &format!("{target}:"), "bash", &tree]);
    assert!(window.status.success(), "{window:?}");
    let split = world.tmux(&["split-window", "-d", "-t", &format!("{target}:0"), "bash", &tree]);
    assert!(split.status.success(), "{split:?}");
    world.ledger.await_roles(&["pane", "pane", "deep", "deep", "beyond", "beyond", "far", "far", "stray", "stray"]);
    let mut bystanders = world.bystanders(&["sleep", &world.nap], Some(&session.id));
    let before = world.ledger.alive();
    assert_eq!(before.len(), 12, "{before:?}");
    let receipt = batch.stop(&session.id);
    assert_eq!(receipt["containment"], json!(["tree"]), "no warden holds what was opened by hand: {receipt:#}");
    let ending = Ending { session: &session, before: &before, escalated: Some(false), births: false };
    assert_ended(&world, &mut batch, &receipt, &ending, &mut bystanders);
    finished(batch);
}

fn finished(batch: Batch) {
    assert_eq!(batch.finish().code(), Some(0));
}

/// Somebody opens a window while the stop is under way; what is in it hears nothing but KILL.
#[test]
fn a_window_that_is_opened_during_the_stop() {
    let world = World::new();
    let script = world.shell("trap '' TERM HUP; log root; (leaf child) & wait");
    let mut batch = world.batch();
    let launch = Launch { host: Host::Tmux, kind: "serve", grace_s: 2.5, argv: &["bash", &script] };
    let session: Session = world.launch(&mut batch, &launch);
    world.ledger.await_roles(&["root", "child"]);
    let id = batch.send(json!({ "cmd": "stop", "session": session.id }));
    batch.await_event("of a signal", |event| event["event"] == "signal");
    let late = world.shell("trap '' TERM HUP; log late; (leaf deep) & wait");
    let target = format!("{}:", session.in_tmux.as_deref().unwrap());
    let window = world.tmux(&["new-window", "-d", "-t", &target, "bash", &late]);
    assert!(window.status.success(), "{window:?}");
    world.ledger.await_roles(&["late", "deep"]);
    assert!(world.ledger.is_alive("root"), "the grace is not over yet");
    let answer = batch.answer(id);
    let receipt = &answer["result"];
    assert!(world.ledger.alive().is_empty(), "{:?}\n{receipt:#}", world.ledger.alive());
    assert_eq!(receipt["dead"], true, "{receipt:#}");
}
