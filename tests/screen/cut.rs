//! Somebody takes the client by which the screen watches a session in tmux: the session lives, so the screen goes on,
//! and what is typed arrives or is said to be lost.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::attach::{clients, hold, start_in_tmux};
use super::{PATIENCE, Terminal, ends};

const TICKS: &str = "n=0; while :; do n=$((n+1)); echo tick-$n; sleep 0.2; done";
/// What is said where the screen stands still.
const STANDS_STILL: &str = "cannot be watched for now";

impl Terminal {
    fn session(&self) -> String {
        self.ask(&["list-sessions", "-F", "#{session_name}"]).lines().next().unwrap().to_owned()
    }

    /// Returns the number of the latest tick in a text.
    fn tick(text: &str) -> u32 {
        let ticks = text.split("tick-").skip(1);
        let number = |rest: &str| rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok();
        ticks.filter_map(number).max().unwrap_or(0)
    }

    fn await_client(&self) -> Pid {
        let until = Instant::now() + PATIENCE;
        loop {
            if let [client] = clients(self)[..] {
                return client;
            }
            assert!(Instant::now() < until, "{:?}\n{}", clients(self), self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The screen shows what the session prints from now on.
    fn assert_live(&self, what: &str) {
        let now = Self::tick(&self.ask(&["capture-pane", "-p", "-t", &format!("={}:", self.session())]));
        assert!(now > 0);
        self.await_that(what, |text| Self::tick(text) > now + 2);
    }

    fn await_in_pane(&self, wanted: &str) {
        let until = Instant::now() + PATIENCE;
        let pane = || self.ask(&["capture-pane", "-p", "-t", &format!("={}:", self.session())]);
        while !pane().contains(wanted) {
            assert!(Instant::now() < until, "{wanted:?} does not come:\n{}\n{}", pane(), self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A screen that watches a session which prints.
fn watching_ticks() -> Terminal {
    let terminal = Terminal::new(140, 40);
    terminal.start();
    start_in_tmux(&terminal, TICKS);
    terminal.await_text("tick-3");
    terminal
}

/// A screen that types into a session which gives all back.
fn typing_to_cat() -> Terminal {
    let terminal = Terminal::new(140, 40);
    terminal.start();
    start_in_tmux(&terminal, "exec cat");
    terminal.key("Enter");
    terminal.await_text("TYPING");
    terminal.line("before");
    terminal.await_in_pane("before\nbefore");
    terminal
}

#[test]
fn the_screen_goes_on_whatever_becomes_of_its_client() {
    let terminal = watching_ticks();
    let (session, first) = (terminal.session(), hold(terminal.await_client()));
    terminal.ask(&["detach-client", "-s", &session]);
    assert!(ends(&first));
    terminal.assert_live("a tick after a detachment");
    let second = hold(terminal.await_client());
    pidfd_send_signal(&second, Signal::KILL).unwrap();
    terminal.assert_live("a tick after a kill");
    // A person tidies up.
    let visitor = Terminal::new(100, 30);
    let own = format!("{}o", terminal.socket);
    visitor.line(&format!("tmux -L {own} attach -t {session}"));
    visitor.await_text("tick-");
    let listed = terminal.ask(&["list-clients", "-F", "#{client_control_mode} #{client_name}"]);
    let person = listed.lines().find_map(|line| line.strip_prefix("0 ")).unwrap();
    terminal.ask(&["detach-client", "-a", "-t", person]);
    terminal.assert_live("a tick after a person detached all others");
    visitor.key("C-b");
    visitor.key("d");
    visitor.await_text("prompt>");
    // It is made to look at another session.
    terminal.ask(&["new-session", "-d", "-s", "zz", "exec sleep 1000"]);
    let client = terminal.ask(&["list-clients", "-F", "#{client_name}"]);
    terminal.ask(&["switch-client", "-c", &client, "-t", "=zz:"]);
    terminal.assert_live("a tick after a switch");
    assert_eq!(terminal.ask(&["list-clients", "-F", "#{session_name}"]), session, "and no client is left elsewhere");
}

#[test]
fn what_is_typed_when_the_client_is_taken_arrives() {
    let terminal = typing_to_cat();
    for (word, taken) in [("first", "detached"), ("second", "killed")] {
        let pid = terminal.await_client();
        let client = hold(pid);
        if taken == "killed" {
            pidfd_send_signal(&client, Signal::KILL).unwrap();
        } else {
            terminal.ask(&["detach-client", "-s", &terminal.session()]);
        }
        assert!(ends(&client));
        // What the server was given before it noticed would be told as lost, not typed.
        let until = Instant::now() + PATIENCE;
        while clients(&terminal).contains(&pid) {
            assert!(Instant::now() < until);
            std::thread::sleep(Duration::from_millis(5));
        }
        terminal.line(word);
        terminal.await_in_pane(&format!("{word}\n{word}"));
        terminal.await_that("the same on the screen", |text| text.matches(word).count() >= 2);
    }
    assert!(!terminal.text().contains("lost"), "{}", terminal.text());
}

/// Somebody detaches it as soon as it comes: it is said, it costs little, and what was typed comes in its order.
#[test]
fn a_client_that_is_taken_again_and_again_comes_less_often() {
    let terminal = typing_to_cat();
    let mut seen = BTreeSet::new();
    let begin = Instant::now();
    let mut is_said = false;
    while begin.elapsed() < Duration::from_secs(8) {
        for client in clients(&terminal) {
            if seen.insert(client.as_raw_nonzero())
                && let Ok(client) = pidfd_open(client, PidfdFlags::empty())
            {
                pidfd_send_signal(&client, Signal::KILL).ok();
            }
        }
        is_said |= terminal.text().contains(STANDS_STILL);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(is_said, "{}", terminal.text());
    assert!((4..=8).contains(&seen.len()), "{} clients in {:?}", seen.len(), begin.elapsed());
    terminal.line("one");
    terminal.line("two");
    // The echo of both, then what cat has read.
    terminal.await_in_pane("one\ntwo\none\ntwo");
}

/// A server that cannot be reached is no end of its session.
#[test]
fn a_screen_that_cannot_be_attached_again_says_why() {
    let terminal = watching_ticks();
    let client = hold(terminal.await_client());
    let socket = PathBuf::from(terminal.ask(&["display-message", "-p", "#{socket_path}"]));
    let aside = socket.with_extension("aside");
    fs::rename(&socket, &aside).unwrap();
    pidfd_send_signal(&client, Signal::KILL).unwrap();
    terminal.await_text(STANDS_STILL);
    fs::rename(&aside, &socket).unwrap();
    terminal.assert_live("a tick after the server was reached again");
}

#[test]
fn the_end_of_a_session_is_no_loss() {
    let terminal = watching_ticks();
    terminal.ask(&["kill-session", "-t", &format!("={}", terminal.session())]);
    terminal.await_that("its end", |text| !text.contains("running"));
    std::thread::sleep(Duration::from_secs(4));
    let text = terminal.text();
    assert!(!text.contains(STANDS_STILL) && !text.contains(" lost"), "{text}");
}

/// Whoever launched it decides about its windows, also when clients come and go.
#[test]
fn a_session_of_others_keeps_its_shape_when_clients_come_and_go() {
    let terminal = Terminal::new(140, 40);
    let _theirs = terminal.adopt();
    terminal.ask(&["set-option", "-w", "-t", "=main:", "window-size", "manual"]);
    terminal.start_to(" ◦ running");
    terminal.await_text("theirs-in-it:");
    let before = terminal.shape();
    let client = hold(terminal.await_client());
    terminal.ask(&["detach-client", "-s", "main"]);
    assert!(ends(&client));
    terminal.ask(&["send-keys", "-t", "=main:", "echo watched-$((40 + 2))", "Enter"]);
    terminal.await_text("watched-42");
    let visitor = Terminal::new(100, 30);
    visitor.line(&format!("tmux -L {}o attach -t main", terminal.socket));
    visitor.await_text("watched-42");
    visitor.key("C-b");
    visitor.key("d");
    visitor.await_text("prompt>");
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(terminal.shape(), before, "it was only watched");
}
