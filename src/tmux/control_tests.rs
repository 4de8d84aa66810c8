//! The control-mode client on a real tmux.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::lifecycle::tree::Captured;

use super::argv::{Capture, Follow};
use super::control::{Client, Ear, Heard, attach};
use super::decoder::{Notification, Reply};
use super::parse::{Created, PaneModes};
use super::rig::{Rig, eventually, read, signal};
use super::{PaneId, SessionId, TmuxError};

const OUTPUT: Follow = Follow::Output { pause_after_s: NonZeroU32::MIN };

/// Attaches, and waits until the server has answered.
fn attached(rig: &Rig, created: &Created) -> (Client, Ear) {
    following(rig, created, OUTPUT)
}

fn following(rig: &Rig, created: &Created, follow: Follow) -> (Client, Ear) {
    let (client, mut ear) = attach(&rig.server, &created.session, follow, rig.dir.path()).unwrap();
    let id = created.session;
    until(&mut ear, |heard| matches!(heard, Notification::SessionChanged { session, .. } if *session == id));
    (client, ear)
}

/// Listens until something is heard; returns everything up to then.
fn until(ear: &mut Ear, mut done: impl FnMut(&Notification) -> bool) -> Vec<Notification> {
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut all = Vec::new();
    loop {
        assert!(Instant::now() < deadline, "not heard in time: {all:?}");
        match ear.listen(Duration::from_millis(100)).unwrap() {
            Heard::Notifications(heard) => {
                let found = heard.iter().any(&mut done);
                all.extend(heard);
                if found {
                    return all;
                }
            }
            Heard::Silence => {}
            Heard::Closed => panic!("closed: {all:?}"),
        }
    }
}

fn closes(ear: &mut Ear) -> Vec<Notification> {
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut all = Vec::new();
    while Instant::now() < deadline {
        match ear.listen(Duration::from_millis(100)).unwrap() {
            Heard::Notifications(heard) => all.extend(heard),
            Heard::Silence => {}
            Heard::Closed => return all,
        }
    }
    panic!("not closed in time: {all:?}");
}

fn output(heard: &[Notification], of: PaneId) -> Vec<u8> {
    let mut all = Vec::new();
    for notification in heard {
        if let Notification::Output { pane, bytes, .. } = notification {
            assert_eq!(*pane, of);
            all.extend_from_slice(bytes);
        }
    }
    all
}

#[test]
fn bytes_go_in_and_come_out_as_they_are() {
    let rig = Rig::new();
    let file = rig.file("ready");
    let created = rig.sh("one", "stty raw -echo; : > \"$1\"; exec cat", &[file.to_str().unwrap()]);
    eventually("the terminal is raw", || file.exists());
    let (mut client, mut ear) = attached(&rig, &created);
    let every: Vec<u8> = (0..=255).chain(*b"\\134 \xff\xfe end").collect();
    client.type_bytes(created.pane, &every).unwrap();
    let mut heard = Vec::new();
    while output(&heard, created.pane).len() < every.len() {
        heard.extend(until(&mut ear, |one| matches!(one, Notification::Output { .. })));
    }
    assert_eq!(output(&heard, created.pane), every);
}

#[test]
fn a_capture_is_answered_by_modes_and_rows() {
    let rig = Rig::new();
    let sequences = r"\033[?1049h\033[?1h\033=\033[?1002h\033[?1006h\033[?25l\033]2;a; title\007\033[2;3H\033[31mred";
    let created = rig.sh("one", &format!("printf '{sequences}'; exec sleep 1000"), &[]);
    eventually("it is drawn", || rig.server.pane(&created.pane).unwrap().cursor_x == 5);
    let (mut client, mut ear) = attached(&rig, &created);
    client.type_bytes(created.pane, b"x").unwrap();
    client.capture(created.pane, 0).unwrap();
    let mut replies = Vec::new();
    let modes = loop {
        let heard = until(&mut ear, |heard| matches!(heard, Notification::Reply(_)));
        replies.extend(
            heard.into_iter().filter_map(|one| if let Notification::Reply(it) = one { Some(it) } else { None }),
        );
        let first = |reply: &Reply| reply.lines.first().is_some_and(|line| PaneModes::parse(line).is_ok());
        if let Some(at) = replies.iter().position(first).filter(|at| replies.len() > at + 1) {
            break at;
        }
    };
    let expected = PaneModes {
        width: 80,
        height: 24,
        cursor_x: 6,
        cursor_y: 1,
        alternate_on: true,
        cursor_keys: true,
        keypad: true,
        mouse_standard: false,
        mouse_all: false,
        mouse_sgr: true,
        mouse_button: true,
        cursor_visible: false,
        inserts: false,
        title: "a; title".to_owned(),
    };
    let got = PaneModes::parse(&replies[modes].lines[0]).unwrap();
    // The terminal may not have echoed the letter yet.
    assert_eq!(PaneModes { cursor_x: 6, ..got }, expected);
    let rows = &replies[modes + 1].lines;
    assert_eq!(rows.len(), 24);
    assert!(rows[1].starts_with(b"  \x1b[31mred"), "{:?}", String::from_utf8_lossy(&rows[1]));
}

#[test]
fn events_come_without_output() {
    let rig = Rig::new();
    let created = rig.sh("one", "while read line; do echo \"said $line\"; done", &[]);
    let (mut client, mut ear) = following(&rig, &created, Follow::Events);
    client.type_bytes(created.pane, b"hello\r").unwrap();
    eventually("it is said", || {
        let screen = rig.server.capture(&created.pane, Capture::default()).unwrap();
        String::from_utf8_lossy(&screen).contains("said hello")
    });
    rig.server.resize(&created.window, 30, 90).unwrap();
    let heard = until(&mut ear, |heard| matches!(heard, Notification::LayoutChange { .. }));
    assert_eq!(output(&heard, created.pane), b"");
    let layout = heard.iter().any(|one| {
        matches!(one, Notification::LayoutChange { window, layout } if *window == created.window && layout.contains("90x30"))
    });
    assert!(layout, "{heard:?}");
}

#[test]
fn typing_leaves_copy_mode() {
    let rig = Rig::new();
    let (created, file) = rig.recorder("one");
    let (mut client, _ear) = attached(&rig, &created);
    assert!(rig.tmux(&["copy-mode", "-t", &created.pane.to_string()]).0);
    client.type_bytes(created.pane, b"q;x").unwrap();
    eventually("the bytes arrive", || read(&file) == b"q;x");
}

#[test]
fn nothing_that_others_see_is_changed() {
    let rig = Rig::new();
    let created = rig.sh("one", "exec sleep 1000", &[]);
    rig.server.resize(&created.window, 33, 111).unwrap();
    rig.server.follow_clients(&created.window).unwrap();
    let (session, window) = (created.session.to_string(), created.window.to_string());
    let seen = || {
        let row = rig.server.pane(&created.pane).unwrap();
        let options = [
            rig.tmux(&["show-options", "-t", &session]),
            rig.tmux(&["show-options", "-w", "-t", &window]),
            rig.tmux(&["show-options", "-g"]),
            rig.tmux(&["show-environment", "-t", &session]),
            rig.tmux(&["list-windows", "-t", &session]),
        ];
        (row.width, row.height, options)
    };
    let before = seen();
    assert_eq!((before.0, before.1), (111, 33));
    let (client, _ear) = attached(&rig, &created);
    assert_eq!(rig.server.pane(&created.pane).unwrap().attached, 1);
    assert_eq!(rig.server.people(&created.session).unwrap(), 0, "nobody's terminal");
    assert_eq!(seen(), before);
    drop(client);
    eventually("the client is gone", || rig.server.pane(&created.pane).unwrap().attached == 0);
    assert_eq!(seen(), before);
}

#[test]
fn dropping_detaches_after_what_was_typed() {
    let rig = Rig::new();
    let (created, file) = rig.recorder("one");
    let (mut client, mut ear) = attached(&rig, &created);
    client.type_bytes(created.pane, b"last words").unwrap();
    drop(client);
    eventually("the bytes arrive", || read(&file) == b"last words");
    closes(&mut ear);
    assert_eq!(rig.server.pane(&created.pane).unwrap().attached, 0);
}

#[test]
fn detaching_is_confirmed() {
    let rig = Rig::new();
    let created = rig.idle("one");
    let (mut client, mut ear) = attached(&rig, &created);
    client.detach().unwrap();
    assert!(closes(&mut ear).iter().any(|heard| matches!(heard, Notification::Exit { .. })));
    eventually("typing fails", || client.type_bytes(created.pane, b"x").is_err());
}

#[test]
fn a_missing_session_or_server_closes() {
    let rig = Rig::new();
    let (_client, mut ear) = attach(&rig.server, &SessionId::new(99), OUTPUT, rig.dir.path()).unwrap();
    closes(&mut ear);
    rig.idle("one");
    let (_client, mut ear) = attach(&rig.server, &SessionId::new(99), OUTPUT, rig.dir.path()).unwrap();
    assert!(closes(&mut ear).iter().any(|heard| matches!(heard, Notification::Exit { .. })));
    assert_eq!(rig.server.sessions().unwrap().len(), 1);
}

#[test]
fn a_killed_session_is_heard() {
    let rig = Rig::new();
    let (created, _other) = (rig.idle("one"), rig.idle("two"));
    let (_client, mut ear) = attached(&rig, &created);
    let _closed = rig.server.kill_session(&created.session, created.server_pid, &Captured::blind()).unwrap();
    assert!(closes(&mut ear).iter().any(|heard| matches!(heard, Notification::Exit { .. })));
}

#[test]
fn a_killed_server_is_heard() {
    let rig = Rig::new();
    let created = rig.idle("one");
    let (_client, mut ear) = attached(&rig, &created);
    signal(created.server_pid, Signal::SIGKILL);
    let heard = closes(&mut ear);
    assert!(heard.contains(&Notification::Exit { reason: Some("server exited unexpectedly".to_owned()) }), "{heard:?}");
}

#[test]
fn a_stopped_server_is_silence_and_holds_nobody_up() {
    let rig = Rig::new();
    let created = rig.idle("one");
    let (mut client, mut ear) = attached(&rig, &created);
    while ear.listen(Duration::from_millis(100)).unwrap() != Heard::Silence {}
    signal(created.server_pid, Signal::SIGSTOP);
    let begun = Instant::now();
    assert_eq!(ear.listen(Duration::from_millis(200)).unwrap(), Heard::Silence);
    // Typed on and on, until the queue is full: the last one is refused as a whole.
    let refused = (0..10_000).find_map(|_| client.type_bytes(created.pane, &[b'x'; 500]).err()).unwrap();
    assert_eq!(refused.kind(), std::io::ErrorKind::WouldBlock);
    assert!(client.flush().unwrap() <= 1 << 20);
    drop(client);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    signal(created.server_pid, Signal::SIGCONT);
    closes(&mut ear);
    assert_eq!(rig.server.pane(&created.pane).unwrap().attached, 0);
}

#[test]
fn a_paused_pane_is_resumed() {
    let rig = Rig::new();
    let created = rig.sh("one", "while read line; do echo \"said $line\"; done", &[]);
    let (mut client, mut ear) = attached(&rig, &created);
    client.say(&format!("refresh-client -A '{}:pause'\n", created.pane)).unwrap();
    until(&mut ear, |heard| *heard == Notification::Pause(created.pane));
    client.type_bytes(created.pane, b"lost\r").unwrap();
    eventually("it is said", || {
        let screen = rig.server.capture(&created.pane, Capture::default()).unwrap();
        String::from_utf8_lossy(&screen).contains("said lost")
    });
    client.resume(created.pane).unwrap();
    let mut heard = until(&mut ear, |heard| *heard == Notification::Continue(created.pane));
    client.type_bytes(created.pane, b"found\r").unwrap();
    while !String::from_utf8_lossy(&output(&heard, created.pane)).contains("said found") {
        heard.extend(until(&mut ear, |heard| matches!(heard, Notification::Output { .. })));
    }
    assert!(!String::from_utf8_lossy(&output(&heard, created.pane)).contains("said lost"));
}

/// Whatever tmux does about a client that does not listen, the client must get over it.
#[test]
fn a_flood_that_is_not_listened_to_ends_well() {
    let rig = Rig::new();
    let created = rig.sh("one", "read line; seq 1 300000; echo the\"\"end; exec sleep 1000", &[]);
    let (mut client, mut ear) = attached(&rig, &created);
    client.type_bytes(created.pane, b"go\r").unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let mut tail = Vec::new();
    eventually("the flood ends", || {
        if let Heard::Notifications(heard) = ear.listen(Duration::from_millis(100)).unwrap() {
            for one in heard {
                match one {
                    Notification::Output { bytes, .. } => tail.extend_from_slice(&bytes),
                    Notification::Pause(pane) => client.resume(pane).unwrap(),
                    Notification::Reply(_)
                    | Notification::Continue(_)
                    | Notification::Exit { .. }
                    | Notification::LayoutChange { .. }
                    | Notification::WindowClose(_)
                    | Notification::SessionChanged { .. }
                    | Notification::ClientSessionChanged(_)
                    | Notification::ClientDetached
                    | Notification::SessionsChanged
                    | Notification::Unknown(_)
                    | Notification::Overlong(_) => {}
                }
            }
        }
        let screen = rig.server.capture(&created.pane, Capture::default()).unwrap();
        String::from_utf8_lossy(&screen).contains("theend")
    });
}

/// Whatever is pasted arrives as it is, in brackets only where the program wants them.
#[test]
fn a_paste_is_bracketed_where_its_program_has_asked_before() {
    let rig = Rig::new();
    let text: Vec<u8> =
        "a\rb; \"c\" \\ $HOME #{pid} 中 '%d' ".bytes().chain((b'a'..=b'z').cycle().take(3000)).collect();
    for wants in [true, false] {
        let file = rig.file(if wants { "with" } else { "without" });
        let ask = if wants { "printf '\\033[?2004h'; " } else { "" };
        let line = format!("stty raw -echo; {ask}echo ready; exec cat > {}", file.display());
        let created = rig.sh(if wants { "one" } else { "two" }, &line, &[]);
        eventually("it is ready", || {
            rig.tmux(&["capture-pane", "-p", "-t", &created.pane.to_string()]).1.contains("ready")
        });
        let around = |side: &[u8]| if wants { side.to_vec() } else { Vec::new() };
        let once = [around(b"\x1b[200~"), text.clone(), around(b"\x1b[201~")].concat();
        // Somebody who does not look.
        rig.server.paste(&created.pane, std::str::from_utf8(&text).unwrap()).unwrap();
        eventually("the paste", || read(&file).len() >= once.len());
        // Only now somebody looks.
        let (mut client, _ear) = attached(&rig, &created);
        client.paste(created.pane, &text).unwrap();
        let expected = [once.clone(), once].concat();
        eventually("the second", || read(&file).len() >= expected.len());
        assert_eq!(read(&file).escape_ascii().to_string(), expected.escape_ascii().to_string());
        eventually("no buffer is left", || !rig.tmux(&["list-buffers"]).1.contains("cookbook"));
    }
}

/// What a pane does not take is not left in a buffer.
#[test]
fn a_paste_that_nobody_takes_leaves_nothing() {
    let rig = Rig::new();
    let created = rig.sh("one", "exec sleep 1000", &[]);
    let gone = PaneId::new(4242);
    assert!(matches!(rig.server.paste(&gone, "text"), Err(TmuxError::NoPane(_))));
    assert!(!rig.tmux(&["list-buffers"]).1.contains("cookbook"));
    let (mut client, _ear) = attached(&rig, &created);
    client.paste(gone, b"text").unwrap();
    client.paste(created.pane, b"text").unwrap();
    eventually("no buffer is left", || !rig.tmux(&["list-buffers"]).1.contains("cookbook"));
}
