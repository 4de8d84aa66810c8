//! Ports: what a stop brings back, and what somebody else still holds.

use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};

use crate::matrix::in_both;
use crate::support::{Batch, Host, Launch, Session, World, pids, python, skip};

in_both! { of_a_child inherited_by_an_escapee }

const LISTEN: &str = "
listener = socket.socket()
listener.bind(('127.0.0.1', 0))
listener.listen()
listener.set_inheritable(True)
with open(FX + '/port.new', 'w') as port:
    port.write(str(listener.getsockname()[1]))
os.rename(FX + '/port.new', FX + '/port')
";

fn launched(world: &World, batch: &mut Batch, host: Host, kind: &str, body: &str, roles: &[&str]) -> (Session, u16) {
    let script = world.python(body);
    let session = world.launch(batch, &Launch { host, kind, grace_s: 5.0, argv: &[python(), &script] });
    world.ledger.await_roles(roles);
    let port = world.text("port").parse().unwrap();
    assert!(listens(port), "the fixture listens");
    (session, port)
}

fn listens(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

fn of_a_child(host: Host) {
    let world = World::new();
    let mut batch = world.batch();
    let body = format!(
        "
def child():
{}
    leaf('child')

forked(child)
log('root')
time.sleep(60)
",
        LISTEN.replace('\n', "\n    ")
    );
    let (session, port) = launched(&world, &mut batch, host, "serve", &body, &["root", "child"]);
    let receipt = batch.stop(&session.id);
    assert_eq!(receipt["ports_released"], json!([port]), "{receipt:#}");
    assert_eq!(receipt["still_held"], json!([]), "{receipt:#}");
    assert!(!listens(port));
    assert!(world.ledger.alive().is_empty());
    assert_eq!(batch.finish().code(), Some(0));
}

fn inherited_by_an_escapee(host: Host) {
    let world = World::new();
    let mut batch = world.batch();
    let body = format!(
        "{LISTEN}
def middle():
    os.setsid()
    forked(leaf, 'daemon')

forked(middle)
os.wait()
log('root')
time.sleep(60)
"
    );
    let (session, port) = launched(&world, &mut batch, host, "shell", &body, &["root", "daemon"]);
    let receipt = batch.stop(&session.id);
    let daemon = world.ledger.of("daemon").pid;
    assert!(world.ledger.is_alive("daemon") && !world.ledger.is_alive("root"), "{receipt:#}");
    assert_eq!(pids(&receipt, "escapees"), [i64::from(daemon)].into(), "{receipt:#}");
    still_held(&receipt, port, daemon);
    assert!(listens(port));
    assert_eq!(batch.finish().code(), Some(3), "something is still held");
}

fn still_held(receipt: &Value, port: u16, by: i32) {
    assert_eq!(receipt["ports_released"], json!([]), "{receipt:#}");
    let held = receipt["still_held"].as_array().unwrap();
    assert_eq!(held.len(), 1, "{receipt:#}");
    assert_eq!(held[0]["port"], port, "{receipt:#}");
    let words: Vec<&str> = held[0]["by"].as_str().unwrap().split_whitespace().collect();
    assert!(words.contains(&by.to_string().as_str()), "{receipt:#}");
}

/// A daemon that is kept on purpose (a compiler cache, by the name of its program) holds the port.
#[test]
fn inherited_by_a_kept_daemon() {
    let world = World::new();
    let mut batch = world.batch();
    std::fs::copy(python(), world.path("sccache")).unwrap();
    let body = format!(
        "{LISTEN}
if os.fork() == 0:
    os.setsid()
    log('kept')
    os.execv(FX + '/sccache', ['sccache', '-c', 'import time; time.sleep(60)'])
log('root')
time.sleep(60)
"
    );
    let (session, port) = launched(&world, &mut batch, Host::Pty, "serve", &body, &["root", "kept"]);
    let kept = world.ledger.of("kept").pid;
    crate::support::eventually("the exec", || {
        std::fs::read_to_string(format!("/proc/{kept}/comm")).unwrap() == "sccache\n"
    });
    let receipt = batch.stop(&session.id);
    assert!(world.ledger.is_alive("kept") && !world.ledger.is_alive("root"), "{receipt:#}");
    assert_eq!(pids(&receipt, "kept"), [i64::from(kept)].into(), "{receipt:#}");
    assert_eq!(receipt["dead"], true, "{receipt:#}");
    still_held(&receipt, port, kept);
    assert_eq!(batch.finish().code(), Some(3));
}

/// Who has the same number on another address was never in the way, and is not now.
#[test]
fn a_stranger_on_another_address_holds_nothing_of_it() {
    let world = World::new();
    let mut batch = world.batch();
    let body = format!("{LISTEN}\nleaf('root')\n");
    let (session, port) = launched(&world, &mut batch, Host::Pty, "serve", &body, &["root"]);
    let Ok(stranger) = TcpListener::bind(("127.0.0.2", port)) else { return skip("needs another loopback address") };
    let receipt = batch.stop(&session.id);
    assert_eq!((&receipt["ports_released"], &receipt["still_held"]), (&json!([port]), &json!([])), "{receipt:#}");
    assert!(TcpStream::connect(stranger.local_addr().unwrap()).is_ok());
    assert_eq!(batch.finish().code(), Some(0));
}
