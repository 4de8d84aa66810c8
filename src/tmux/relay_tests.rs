//! What brings a server down: the relay on a pair of sockets and between real clients and a real tmux, and panes that
//! are kept while a stop ends their programs.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU32;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::lifecycle::door::{self, Door};
use crate::lifecycle::tree::Captured;

use super::SessionId;
use super::argv::Follow;
use super::control::{Heard, attach};
use super::parse::Created;
use super::relay::{Identify, run};
use super::rig::{Rig, eventually};

const FLAGS: u32 = 100;
const STDIN: u32 = 104;
const ENVIRON: u32 = 105;
const DONE: u32 = 106;
const STDOUT: u32 = 110;
const LONG_FLAGS: u32 = 111;
const COMMAND: u32 = 200;

/// `CLIENT_CONTROL` and protocol 8 of tmux(1).
const CONTROL: u64 = 0x2000;
const PROTOCOL: u32 = 8;

/// How a message says that a descriptor comes along: before 3.6, and since.
const OLD_MARK: u32 = 1 << 16;
const NEW_MARK: u32 = 1 << 31;

fn message(kind: u32, mark: u32, text: &[u8]) -> Vec<u8> {
    let length = u32::try_from(16 + text.len()).unwrap() | mark;
    let head = [kind, length, PROTOCOL, u32::MAX].map(u32::to_ne_bytes).concat();
    [head, text.to_vec()].concat()
}

fn say(client: &UnixStream, bytes: &[u8], descriptor: Option<&File>) {
    use std::os::fd::AsFd;
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let rights = descriptor.map(|file| [file.as_fd()]);
    if let Some(rights) = &rights {
        control.push(SendAncillaryMessage::ScmRights(rights));
    }
    assert_eq!(
        sendmsg(client, &[std::io::IoSlice::new(bytes)], &mut control, SendFlags::empty()).unwrap(),
        bytes.len()
    );
}

/// Returns what comes to a server with each read, and the contents of the files whose descriptors come along.
fn reads(server: &UnixStream) -> Vec<(Vec<u8>, Vec<String>)> {
    let mut identify = Identify::default();
    while identify.read(server).unwrap() > 0 {}
    let text = |descriptor| {
        let mut text = String::new();
        File::from(descriptor).read_to_string(&mut text).unwrap();
        text
    };
    let reads = identify.reads.into_iter().filter(|(bytes, _)| !bytes.is_empty());
    reads.map(|(bytes, descriptors)| (bytes, descriptors.into_iter().map(text).collect())).collect()
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

/// Has bytes handed on, of which each part may bring a file with a text; returns what the server reads.
fn handed_on(parts: &[(&[u8], Option<&str>)]) -> Vec<(Vec<u8>, Vec<String>)> {
    let dir = tempfile::tempdir().unwrap();
    let (near, far) = UnixStream::pair().unwrap();
    for (bytes, text) in parts {
        let file = text.map(|text| {
            let path = dir.path().join(text);
            std::fs::write(&path, text).unwrap();
            File::open(path).unwrap()
        });
        say(&near, bytes, file.as_ref());
    }
    let identify = Identify::receive(&far, soon()).unwrap();
    let (server, ours) = UnixStream::pair().unwrap();
    identify.hand_on(&ours).unwrap();
    drop(ours);
    reads(&server)
}

#[test]
fn what_makes_a_control_client_comes_with_the_end() {
    for mark in [OLD_MARK, NEW_MARK] {
        let [flags, long] = [message(FLAGS, 0, b"f"), message(LONG_FLAGS, 0, b"long")];
        let (stdin, stdout) = (message(STDIN, mark, b""), message(STDOUT, mark, b""));
        let (variable, end) = (message(ENVIRON, 0, b"TERM=x"), message(DONE, 0, b""));
        let command = message(COMMAND, 0, b"attach");
        let first = [&flags[..], &long, &stdin].concat();
        let last = [&variable[..], &end, &command].concat();
        let got = handed_on(&[(&first, Some("in")), (&stdout, Some("out")), (&last, None)]);
        let expected = vec![
            (stdin, vec!["in".to_owned()]),
            (stdout, vec!["out".to_owned()]),
            ([variable, flags, long, end, command].concat(), Vec::new()),
        ];
        assert_eq!(got, expected);
    }
}

#[test]
fn what_has_another_form_is_handed_on_as_it_came() {
    for filler in [0, 0x70] {
        let first = [message(LONG_FLAGS, 0, b"long"), message(STDIN, OLD_MARK, b"")].concat();
        let strange = vec![filler; 40];
        let sent = handed_on(&[(&first, Some("x")), (&strange, Some("y"))]);
        assert_eq!(sent, vec![(first, vec!["x".to_owned()]), (strange, vec!["y".to_owned()])]);
    }
}

/// A descriptor that no message speaks of, and a message whose descriptor is missing: nobody can tell whose is whose.
#[test]
fn descriptors_that_do_not_fit_are_handed_on_as_they_came() {
    let (long, done) = (message(LONG_FLAGS, 0, b"long"), message(DONE, 0, b""));
    let sent = handed_on(&[(&long, Some("x")), (&done, None)]);
    assert_eq!(sent, vec![(long.clone(), vec!["x".to_owned()]), (done.clone(), Vec::new())]);
    let marked = message(STDIN, NEW_MARK, b"");
    let all = [&marked[..], &long, &done].concat();
    assert_eq!(handed_on(&[(&all, None)]), vec![(all, Vec::new())]);
}

#[test]
fn who_leaves_or_falls_silent_on_the_way_is_not_handed_on() {
    let (near, far) = UnixStream::pair().unwrap();
    say(&near, &message(LONG_FLAGS, 0, b"long")[..19], None);
    let silent = Identify::receive(&far, Instant::now() + Duration::from_millis(50)).unwrap_err();
    assert_eq!(silent.kind(), std::io::ErrorKind::TimedOut);
    drop(near);
    let left = Identify::receive(&far, soon()).unwrap_err();
    assert_eq!(left.kind(), std::io::ErrorKind::UnexpectedEof);
}

/// A manager that tidies up looks whether anybody listens.
#[test]
fn who_only_looks_is_no_client() {
    let rig = Rig::new();
    let created = rig.idle("one");
    let door = Door::open(door::place(rig.dir.path(), 'r')).unwrap();
    drop(UnixStream::connect(door.path()).unwrap());
    let path = door.path().to_owned();
    let socket = rig.server.socket_path();
    let relay = std::thread::spawn(move || run(door, &socket));
    let mut client = std::process::Command::new("tmux");
    client.arg("-S").arg(&path).args(["-C", "attach", "-t", &created.session.to_string()]);
    let mut client = client.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    eventually("the client is attached", || rig.server.pane(&created.pane).unwrap().attached == 1);
    drop(client.stdin.take());
    assert!(client.wait().unwrap().success());
    relay.join().unwrap().unwrap();
    assert!(!path.exists());
}

#[test]
fn a_client_is_not_waited_for_where_there_is_no_server() {
    let rig = Rig::new();
    let door = Door::open(door::place(rig.dir.path(), 'r')).unwrap();
    let mut client = UnixStream::connect(door.path()).unwrap();
    client.write_all(&message(DONE, 0, b"")).unwrap();
    let refused = run(door, &rig.server.socket_path()).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::NotFound);
    assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
}

/// tmux/tmux#4980 and #5004: a server of 3.3a falls when a session is made here, and when the client leaves here.
#[test]
fn a_client_that_takes_long_to_introduce_itself_harms_nobody() {
    let rig = Rig::new();
    let server = rig.idle("one").server_pid;
    for leaves in [false, true] {
        let door = Door::open(door::place(rig.dir.path(), 'r')).unwrap();
        let mut client = UnixStream::connect(door.path()).unwrap();
        let socket = rig.server.socket_path();
        let relay = std::thread::spawn(move || run(door, &socket));
        client.write_all(&message(LONG_FLAGS, 0, &CONTROL.to_ne_bytes())).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        if !leaves {
            let created = rig.idle("two");
            let _closed = rig.server.kill_session(&created.session, created.server_pid, &Captured::blind()).unwrap();
        }
        // Not waited for: another client may come until it is late.
        drop((client, relay));
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(rig.server.answering_pid().unwrap(), server);
    }
}

#[test]
fn a_server_lives_through_clients_and_sessions_that_come_and_go() {
    let rig = Rig::new();
    let first = rig.idle("one");
    let until = Instant::now() + Duration::from_secs(3);
    let (rig, first) = (&rig, &first);
    std::thread::scope(|scope| {
        for name in ["two", "three"] {
            scope.spawn(move || {
                while Instant::now() < until {
                    let created = rig.idle(name);
                    let tree = Captured::blind();
                    let _closed = rig.server.kill_session(&created.session, created.server_pid, &tree).unwrap();
                }
            });
        }
        scope.spawn(|| {
            // Some are heard out, and some leave at once.
            for wait_ms in (0..20).cycle() {
                if Instant::now() >= until {
                    return;
                }
                let follow = Follow::Output { pause_after_s: NonZeroU32::MIN };
                let (client, mut ear) = attach(&rig.server, &first.session, follow, rig.dir.path()).unwrap();
                let heard = ear.listen(Duration::from_millis(wait_ms)).unwrap();
                assert_ne!(heard, Heard::Closed);
                drop(client);
            }
        });
    });
    assert_eq!(rig.server.answering_pid().unwrap(), first.server_pid);
    eventually("all clients are gone", || rig.server.pane(&first.pane).unwrap().attached == 0);
    let is_door = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with('r');
    eventually("all doors are closed", || !std::fs::read_dir(rig.dir.path()).unwrap().flatten().any(is_door));
}

#[test]
fn panes_are_kept_for_a_stop_where_there_are_several() {
    let rig = Rig::new();
    let options = |created: &Created| {
        let format = "#{remain-on-exit}#{@cookbook-tui-kept}";
        rig.tmux(&["list-panes", "-s", "-t", &created.session.to_string(), "-F", format]).1
    };
    let single = rig.idle("single");
    rig.server.keep_panes(&single.session).unwrap();
    assert_eq!(options(&single), "off\n");
    let wide = rig.idle("wide");
    let target = wide.session.to_string();
    assert!(rig.tmux(&["split-window", "-t", &target, "sleep", "1000"]).0);
    assert!(rig.tmux(&["set-option", "-p", "-t", &wide.pane.to_string(), "remain-on-exit", "on"]).0);
    // A server that says it is of 3.2 would fall of it.
    let path = rig.file("old");
    let text = rig.file("old.text");
    std::fs::write(&text, "#!/bin/sh\ntmux \"$@\" | sed 's/ [^ ]*$/ 3.2a/'\n").unwrap();
    std::fs::set_permissions(&text, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(std::process::Command::new("cp").arg(&text).arg(&path).status().unwrap().success());
    rig.server.clone().with_program(path).keep_panes(&wide.session).unwrap();
    assert_eq!(options(&wide), "on\noff\n");
    for _ in 0..2 {
        rig.server.keep_panes(&wide.session).unwrap();
        assert_eq!(options(&wide), "on\non1\n", "who stays anyway is left as it is");
    }
    rig.server.release_panes(&wide.session).unwrap();
    assert_eq!(options(&wide), "on\noff\n");
    let missing = SessionId::new(99);
    assert!(rig.server.keep_panes(&missing).unwrap_err().is_absence());
}
