//! Kitty's keyboard protocol, outside and inside: the built binary in a terminal of the test's own, which has it.
//!
//! tmux does not have it (3.3a), so a pseudo-terminal is played here. What it shows is read off an emulator.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::outside::Outside;
use super::{PATIENCE, Terminal};

const PUSH: &[u8] = b"\x1b[>5u";
const POP: &[u8] = b"\x1b[<u";
const ASK: &[u8] = b"\x1b[?u";
const LEAVE_ALTERNATE: &[u8] = b"\x1b[?1049l";

/// The protocol was turned on so often, and taken back each time, on the alternate screen.
fn assert_balanced(outside: &Outside, times: usize) {
    outside.await_that("the end of it", |outside| outside.places(POP).len() >= times);
    let (pushed, popped, left) = (outside.places(PUSH), outside.places(POP), outside.places(LEAVE_ALTERNATE));
    assert_eq!((pushed.len(), popped.len()), (times, times), "{pushed:?} {popped:?}");
    assert!(left.len() >= times, "{left:?}");
    for ((pushed, popped), left) in pushed.iter().zip(&popped).zip(&left) {
        assert!(pushed < popped && popped < left, "{pushed} {popped} {left}");
    }
    assert!(!outside.seen.lock().unwrap().screen.modes().disambiguates);
}

/// A line that writes every byte that is typed into a file, once the program has asked for the protocol and to be told
/// its flags.
fn recorder(path: &std::path::Path, asks: &str) -> String {
    format!("stty raw -echo; printf '{asks}'; echo re''cording; exec cat > {}", path.display())
}

fn await_bytes(path: &std::path::Path, wanted: &str) {
    let until = Instant::now() + PATIENCE;
    loop {
        let got = fs::read(path).unwrap_or_default();
        if got == wanted.as_bytes() {
            return;
        }
        let (got, wanted) = (got.escape_ascii(), wanted.as_bytes().escape_ascii());
        assert!(Instant::now() < until, "it got {got}, not {wanted}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn keys_are_told_apart_for_whoever_asks_where_the_terminal_can() {
    let mut outside = Outside::new(true);
    outside.await_that("the protocol", |outside| outside.places(PUSH).len() == 1);
    assert_eq!(outside.places(ASK).len(), 1);
    outside.start_shell();
    // The shell has not asked: Shift-Enter is Enter there, and Ctrl-C is what it always was.
    outside.press("echo plain-$((1 + 1))\x1b[13;2u");
    outside.await_text("plain-2");
    // Ctrl-C throws away what was not read yet: the shell has begun with the line, and is back, before more is typed.
    outside.press("echo begun; sleep 1000\r");
    outside.await_that("the program", |outside| outside.text().contains("\nbegun"));
    outside.press("\x1b[99;5u");
    outside.await_text("^C");
    std::thread::sleep(Duration::from_millis(300));
    outside.press("echo broken-$((1 + 2))\r");
    outside.await_text("broken-3");
    let path = outside.folder.path().join("got");
    let line = recorder(&path, "\\033[>3u\\033[?u");
    outside.press(&format!("{line}\r"));
    outside.await_text("recording");
    let mut wanted = "\x1b[?1u".to_owned();
    await_bytes(&path, &wanted);
    for (key, bytes) in [
        ("\x1b[13;2u", "\x1b[13;2u"),
        ("\x1b[13;5u", "\x1b[13;5u"),
        ("\r", "\r"),
        ("\x1b[105;5u", "\x1b[105;5u"),
        ("\t", "\t"),
        ("\x1b[120;3u", "\x1b[120;3u"),
        ("\x1b[27u", "\x1b[27u"),
        ("\x1b[99;5u", "\x1b[99;5u"),
        ("\x1b[57400u", "\x1b[57400u"),
        ("\x1b[A", "\x1b[A"),
        ("x", "x"),
    ] {
        outside.press(key);
        wanted.push_str(bytes);
        await_bytes(&path, &wanted);
    }
    // The chord is ours, whatever was asked for; and Alt and a key press neither Esc nor the key.
    outside.press("\x1b[92;5u");
    outside.await_that("the end of typing", |outside| !outside.text().contains("TYPING"));
    outside.press("\x1b[120;3u");
    std::thread::sleep(Duration::from_millis(300));
    assert!(!outside.text().contains("Stop: shell"), "{}", outside.text());
    // An editor has the terminal as the shell left it, and gives it back.
    outside.press("[");
    outside.await_text("editor");
    outside.press("e");
    outside.await_that("the end of the editor", |outside| outside.places(PUSH).len() == 2);
    outside.press("\x1b[27u");
    outside.leave();
    assert_balanced(&outside, 2);
}

#[test]
fn however_it_ends_the_keys_are_as_they_were() {
    for signal in ["TERM", "KILL"] {
        let mut outside = Outside::new(true);
        outside.await_that("the protocol", |outside| outside.places(PUSH).len() == 1);
        outside.await_text("No sessions yet");
        // The cockpit is the child of the process that was started.
        let parent = outside.child.id().to_string();
        let listed = Command::new("ps").args(["-o", "pid=", "--ppid", &parent]).output().unwrap();
        let text = String::from_utf8(listed.stdout).unwrap();
        let cockpit = text.lines().next().and_then(|line| Pid::from_raw(line.trim().parse().ok()?)).unwrap();
        let sent = Command::new("kill").args([&format!("-{signal}"), &cockpit.as_raw_nonzero().to_string()]).status();
        assert!(sent.unwrap().success());
        outside.child.wait().unwrap();
        assert_balanced(&outside, 1);
    }
}

#[test]
fn a_terminal_that_does_not_answer_is_left_alone() {
    let mut outside = Outside::new(false);
    outside.start_shell();
    let path = outside.folder.path().join("got");
    // Who asks is told what is done for it: keys are written apart as far as they can be told.
    outside.press(&format!("{}\r", recorder(&path, "\\033[>1u\\033[?u")));
    outside.await_text("recording");
    outside.press("\t\x03x");
    await_bytes(&path, "\x1b[?1u\t\x1b[99;5ux");
    outside.press("\x1c");
    outside.await_that("the end of typing", |outside| !outside.text().contains("TYPING"));
    outside.leave();
    assert_eq!((outside.places(PUSH).len(), outside.places(POP).len()), (0, 0));
}

/// tmux outside: what it tells apart is passed on in the form that was asked for.
#[test]
fn in_tmux_too() {
    let terminal = Terminal::new(100, 30);
    terminal.start();
    drop(terminal.start_shell());
    terminal.key("Enter");
    terminal.await_text("TYPING");
    let path = terminal.folder.path().join("got");
    terminal.line(&recorder(&path, "\\033[>1u"));
    terminal.await_text("recording");
    let mut wanted = String::new();
    for (key, bytes) in [
        ("Escape", "\x1b[27u"),
        ("C-c", "\x1b[99;5u"),
        ("M-x", "\x1b[120;3u"),
        ("Tab", "\t"),
        ("Enter", "\r"),
        ("C-Up", "\x1b[1;5A"),
    ] {
        terminal.key(key);
        wanted.push_str(bytes);
        await_bytes(&path, &wanted);
    }
    terminal.key("C-\\");
    terminal.await_that("the end of typing", |text| !text.contains("TYPING"));
    terminal.key("q");
    terminal.await_that("the question or the end", |text| text.contains("Quit") || text.contains("prompt>"));
    terminal.confirm("Quit");
    terminal.await_text("prompt>");
    terminal.assert_restored();
}

/// A program's cursor is a bar while it is typed into, and the terminal's own wherever else and in the end.
#[test]
fn the_cursor_has_the_shape_that_was_asked_for() {
    const BAR: &[u8] = b"\x1b[6 q";
    const OWN: &[u8] = b"\x1b[0 q";
    let mut outside = Outside::new(false);
    outside.start_shell();
    assert_eq!((outside.places(BAR), outside.places(OWN)), (vec![], vec![]));
    outside.press("printf '\\033[6 q'\r");
    outside.await_that("the bar", |outside| outside.places(BAR).len() == 1);
    outside.press("\x1c");
    outside.await_that("the list", |outside| outside.places(OWN).len() == 1);
    outside.press("\r");
    outside.await_that("the bar again", |outside| outside.places(BAR).len() == 2);
    // Told to go while it is a bar, it takes that back before it leaves.
    rustix::process::kill_process(Pid::from_child(&outside.child), rustix::process::Signal::TERM).unwrap();
    outside.await_that("the end", |outside| !outside.places(LEAVE_ALTERNATE).is_empty());
    let (own, left) = (outside.places(OWN), outside.places(LEAVE_ALTERNATE));
    assert!(own.len() == 2 && own[1] < left[0], "{own:?} {left:?}");
}
