//! The bytes that a terminal gets from the built binary: what is in them besides text, and who wrote it.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

use super::PATIENCE;
use super::outside::Outside;

/// ESC, OSC with BEL, C1's CSI, a right-to-left override, an isolate, a line separator, DEL, a newline.
const EVIL: &str = "\u{1b}]0;T\u{7}\u{9b}31m\u{202e}\u{2066}\u{2028}\u{7f}\n";
/// The same in the fifteen bytes of a process name.
const EVIL_NAME: &str = "\u{1b}[31m\u{7}\u{9b}\u{202e}x";

/// Returns what of a terminal's input is nothing that this program writes by itself: text that steers, and sequences
/// of kinds that it has no use for.
fn strange(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut found = Vec::new();
    let mut rest = &*text;
    while let Some(c) = rest.chars().next() {
        let length = if let Some(sequence) = rest.strip_prefix("\x1b[") {
            // What is on its way when one looks is looked at the next time.
            let Some(end) = sequence.find(|c: char| ('@'..='~').contains(&c)).map(|end| end + 3) else { break };
            let sequence = &rest[..end];
            // Colours go by number (38;5), so `31` is another's; the rest are movements, modes, and what is asked.
            let is_ours = match sequence.chars().next_back() {
                Some('m') => !sequence[2..sequence.len() - 1].split(';').any(|number| number == "31"),
                Some('H' | 'J' | 'h' | 'l' | 'u' | 'q' | 'c' | 'n' | 'p') => true,
                Some('t') => matches!(sequence, "\x1b[22;0t" | "\x1b[23;0t"),
                _ => false,
            };
            if !is_ours {
                found.push(sequence.to_owned());
            }
            end
        } else if rest.starts_with("\x1b]") {
            let Some(end) = rest.find(['\x07', '\\']).map(|end| end + 1) else { break };
            let is_title = rest[..end].strip_prefix("\x1b]2;cookbook-tui").and_then(|rest| rest.strip_suffix('\x07'));
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | ',' | ' ');
            if !is_title.is_some_and(|rest| rest.chars().all(is_plain))
                && !["\x1b]8;", "\x1b]11;?", "\x1b]9;", "\x1b]777;", "\x1b]99;"]
                    .iter()
                    .any(|begin| rest.starts_with(begin))
            {
                found.push(rest[..end].to_owned());
            }
            end
        } else if rest == "\x1b" {
            break;
        } else {
            let steers = c.is_control()
                || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            // The line that names what is over once it has left.
            if steers && !matches!(c, '\r' | '\n') {
                found.push(c.escape_unicode().to_string());
            }
            c.len_utf8()
        };
        rest = &rest[length..];
    }
    found
}

fn assert_clean(outside: &Outside, what: &str) {
    let found = strange(&outside.seen.lock().unwrap().bytes);
    assert!(found.is_empty(), "{what}: {found:?}");
}

#[test]
fn what_is_strange_is_found() {
    assert_eq!(strange(b"\x1b[?2026h\x1b[1;2Hab\x1b[0;1;38;5;1mc\x1b]8;id=1;https://a\x1b\\d"), [""; 0]);
    assert_eq!(strange(b"\x1b[22;0t\x1b]2;cookbook-tui: 1 running, 2 want you\x07"), [""; 0]);
    for evil in [
        "\u{9b}31m",
        "\x1b[31m",
        "\x1b[21t",
        "\x1b]0;T\x07",
        "\x1b]2;cookbook-tui(\x07",
        "\u{202e}",
        "\x07",
        "\x1bc",
        "\x1b[5n\x1b[2S",
    ] {
        assert_eq!(strange(evil.as_bytes()).len(), 1, "{evil:?}");
    }
}

/// Names of sessions and processes, arguments, titles and output, in every view that shows them.
#[test]
fn nothing_that_is_foreign_steers_the_terminal() {
    let mut outside = Outside::new(true);
    outside.await_text("No sessions yet");
    let evil = outside.folder.path().join(EVIL_NAME);
    symlink("/bin/sleep", &evil).unwrap();
    let script = r#"printf '\033]2;ti\302\233tle\007\033[31mred\033[0m\302\233x\342\200\256rtl\n'; "$1" 3601 & exec sh -c 'read _' "$2""#;
    // A name that is given cannot be evil; the one of a program can.
    let shell = outside.folder.path().join(format!("n{EVIL}"));
    symlink("/bin/sh", &shell).unwrap();
    let launched = Command::new(env!("CARGO_BIN_EXE_cookbook-tui"))
        .args(["--state-dir"])
        .arg(outside.folder.path().join("s"))
        .args(["--tmux-socket", &outside.own_socket(), "launch", "--host", "tmux", "--"])
        .args([shell.to_str().unwrap(), "-c", script, "sh", evil.to_str().unwrap(), EVIL])
        .env("HOME", outside.folder.path())
        .env("XDG_CONFIG_HOME", outside.folder.path().join("c"))
        .output()
        .unwrap();
    assert!(launched.status.success(), "{launched:?}");
    outside.await_text("rtl");
    outside.press("t");
    outside.await_text("\\x1b[31m");
    assert_clean(&outside, "the tree");
    for (key, wanted) in [("w", "pidfd inode"), ("e", "\u{2500} Events")] {
        outside.press(key);
        outside.await_text(wanted);
        assert_clean(&outside, wanted);
        outside.press("\x1b");
        outside.await_that("its end", |outside| !outside.text().contains(wanted));
    }
    outside.press("x");
    outside.await_text("Stop: n\\x1b]0;T");
    assert_clean(&outside, "the preview");
    outside.confirm("Stop: ");
    outside.await_text("stopped");
    assert_clean(&outside, "the receipt");
    // The receipt may have been closed with the question.
    let until = Instant::now() + PATIENCE;
    while outside.text().contains('\u{256d}') {
        assert!(Instant::now() < until, "{}", outside.text());
        outside.press("\x1b");
        std::thread::sleep(Duration::from_millis(200));
    }
    outside.leave();
    assert_clean(&outside, "the end");
}

/// Links that a program prints are links outside; where its text goes, they go.
#[test]
fn a_link_stays_a_link() {
    let mut outside = Outside::new(false);
    outside.start_shell();
    let target = "https://example.org/a;b?c=d";
    outside.press(&format!("printf '\\033]8;;{target}\\033\\\\he''re\\033]8;;\\033\\\\ it is\\n'\r"));
    outside.await_text("here it is");
    let is_link = |outside: &Outside| !outside.seen.lock().unwrap().screen.links(0).is_empty();
    outside.await_that("the link", is_link);
    let links = outside.seen.lock().unwrap().screen.links(0);
    let row = outside.text().lines().position(|line| line.starts_with("here it is")).unwrap();
    assert_eq!((&*links[0].target, usize::from(links[0].row), links[0].columns.clone()), (target, row, 0..4));
    // Something lies over it: nothing there leads anywhere.
    outside.press("\x1c?");
    outside.await_text("Keys");
    outside.await_that("no link", |outside| !is_link(outside));
    outside.press("\x1b");
    outside.await_that("the link again", is_link);
    outside.press("\r");
    outside.await_text("TYPING");
    outside.press("clear\r");
    outside.await_that("no text", |outside| !outside.text().contains("here it is"));
    outside.await_that("no link", |outside| !is_link(outside));
    outside.press("\x1c");
    outside.await_that("the end of typing", |outside| !outside.text().contains("TYPING"));
    outside.leave();
}

/// Nobody has tmux here: it is said at once, and everything goes on in pseudo-terminals.
#[test]
fn without_tmux_sessions_live_in_ptys() {
    let mut outside = Outside::with(false, |command, folder| {
        let bin = folder.join("bin");
        fs::create_dir(&bin).unwrap();
        for program in ["setsid", "sh"] {
            let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap();
            symlink(String::from_utf8(found.stdout).unwrap().trim(), bin.join(program)).unwrap();
        }
        command.env("PATH", &bin);
    });
    outside.await_text("sessions live in PTYs only");
    outside.start_shell();
    outside.press("echo from a $((40 + 2))\r");
    outside.await_text("from a 42");
    outside.press("\x1c");
    outside.await_that("the end of typing", |outside| !outside.text().contains("TYPING"));
    assert!(outside.text().contains("pty"), "{}", outside.text());
    outside.leave();
}

/// The terminal outside says what runs, and has its own title back whenever the screen is not on it.
#[test]
fn the_title_of_the_terminal_is_lent() {
    let mut outside = Outside::new(true);
    outside.start_shell();
    outside.await_that("its title", |outside| !outside.places(b"\x1b]2;cookbook-tui: 1 running\x07").is_empty());
    let before = outside.places(b"\x1b]2;");
    outside.press("echo said\r");
    outside.await_text("said");
    outside.press("\x1c");
    outside.await_text("start");
    assert_eq!(outside.places(b"\x1b]2;"), before, "it is set when it changes, and then only");
    outside.leave();
    let (kept, back) = (outside.places(b"\x1b[22;0t"), outside.places(b"\x1b[23;0t"));
    assert_eq!((kept.len(), back.len()), (1, 1));
    let titles = outside.places(b"\x1b]2;");
    assert!(titles.iter().all(|title| kept[0] < *title && *title < back[0]), "{kept:?} {titles:?} {back:?}");
}

#[test]
fn a_title_can_be_left_out() {
    for (term, setting) in [("xterm-256color", "false"), ("linux", "true")] {
        let mut outside = Outside::with(true, |command, folder| {
            fs::create_dir_all(folder.join("c/cookbook-tui")).unwrap();
            fs::write(folder.join("c/cookbook-tui/config.toml"), format!("[ui]\ntitle = {setting}\n")).unwrap();
            command.env("TERM", term);
        });
        outside.await_text("No sessions yet");
        outside.leave();
        let places = [outside.places(b"\x1b]2;"), outside.places(b"\x1b[22;0t")].concat();
        assert!(places.is_empty(), "{term}: {places:?}");
    }
}

/// Who ignores SIGCHLD hands that on (execve(2)): the end of a child of ours is seen all the same.
#[test]
fn it_leaves_well_below_somebody_who_ignores_the_end_of_children() {
    let ignore =
        "import os,signal,sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])";
    let mut outside = Outside::behind(&["python3", "-c", ignore], true, |_, _| {});
    outside.await_text("No sessions yet");
    outside.leave();
    assert_eq!(outside.child.wait().unwrap().code(), Some(0), "{}", outside.text());
    assert!(!outside.text().contains("No child processes"), "{}", outside.text());
}
