//! The server on a real tmux: the faults that this kind of program has shipped, and the plain uses.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::lifecycle::identity::Pid;
use crate::lifecycle::tree::Captured;

use super::argv::{Capture, NewSession};
use super::keys;
use super::parse::{self, PANE_FORMAT, PaneRow, PaneState};
use super::rig::{Rig, alive, eventually, read, signal};
use super::server::{Closed, Server};
use super::socket::{Probe, SocketRef};
use super::{PaneId, SessionId, TmuxError, WindowId};

const TREE: Captured = Captured::blind();

#[test]
fn a_created_session_is_known_by_its_ids() {
    let rig = Rig::new();
    assert_eq!(rig.server.probe(), Probe::Absent);
    let created = rig.idle("one");
    assert_eq!(rig.server.probe(), Probe::Running { pid: created.server_pid });
    assert_eq!(rig.server.answering_pid().unwrap(), created.server_pid);
    let rows = rig.server.panes(&created.session).unwrap();
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!((row.session, row.window, row.pane), (created.session, created.window, created.pane));
    assert_eq!((row.server, row.state), (created.server_pid, PaneState::Running { pid: created.pane_pid }));
    assert_eq!((row.width, row.height, row.attached, row.linked), (80, 24, 0, false));
    assert_eq!(row.session_name, "one");
    assert_eq!(rig.server.all_panes().unwrap(), rows);
    assert_eq!(rig.server.pane(&created.pane).unwrap(), *row);
    let sessions = rig.server.sessions().unwrap();
    assert_eq!((sessions.len(), sessions[0].session, sessions[0].windows), (1, created.session, 1));
}

#[test]
fn arguments_reach_the_program_as_they_are() {
    let rig = Rig::new();
    let args = [
        "",
        "a b",
        ";",
        "a;",
        r"a\;",
        "-x",
        "--",
        "#{pid}",
        "#(touch f)",
        "$HOME",
        "~",
        "'\"`",
        "é",
        "%1",
        "=$0",
        "l1\nl2",
    ];
    let file = rig.file("args");
    rig.sh(
        "one",
        "f=$1; shift; printf '%s|' \"$@\" > \"$f\"; exec sleep 1000",
        &[&[file.to_str().unwrap()], &args[..]].concat(),
    );
    let expected = args.map(|arg| format!("{arg}|")).concat();
    eventually("the program wrote its arguments", || read(&file) == expected.as_bytes());
}

#[test]
fn a_command_of_one_word_is_refused_because_a_shell_would_get_it() {
    let rig = Rig::new();
    for argv in [vec![], vec![OsString::from("sleep 1000")]] {
        let error = rig.server.create(&NewSession { name: "x".into(), rows: 24, cols: 80, argv }).unwrap_err();
        assert!(matches!(error, TmuxError::Invalid(_)), "{error}");
    }
    assert_eq!(rig.server.probe(), Probe::Absent);
}

/// Faults 22 and 23.
#[test]
fn names_are_never_targets() {
    let rig = Rig::new();
    let names = ["$0", "a.b:c", "x#(touch f)", "work", "work-2", "-t"];
    let ids = names.map(|name| rig.idle(name).session);
    let listed = |sessions: Vec<parse::SessionRow>| sessions.into_iter().map(|row| (row.session, row.name)).collect();
    let listed: BTreeMap<_, _> = listed(rig.server.sessions().unwrap());
    let safe = ["_0", "a_b_c", "x__touch_f_", "work", "work-2", "-t"].map(str::to_owned);
    assert_eq!(listed, ids.into_iter().zip(safe).collect());
    assert!(!rig.file("f").exists());
}

/// Fault 22: a target that is gone does not fall through to a session of such a name.
#[test]
fn an_id_does_not_hit_a_session_of_that_name() {
    let rig = Rig::new();
    let (work, work_2, other) = (rig.idle("work"), rig.idle("work-2"), rig.idle("other"));
    // Somebody names a session after the id of another one.
    assert!(rig.tmux(&["rename-session", "-t", &other.session.to_string(), &work.session.to_string()]).0);
    assert_eq!(rig.server.kill_session(&work.session, work.server_pid, &TREE).unwrap(), Closed::Killed);
    let left: BTreeSet<_> = rig.server.sessions().unwrap().iter().map(|row| row.session).collect();
    assert_eq!(left, BTreeSet::from([work_2.session, other.session]));
    assert_eq!(rig.server.kill_session(&work.session, work.server_pid, &TREE).unwrap(), Closed::AlreadyGone);
    assert!(matches!(rig.server.panes(&work.session), Err(TmuxError::NoSession(_))));
    assert!(alive(other.pane_pid) && alive(work_2.pane_pid));
}

/// Faults 23 and 24: names and titles of others neither shift fields nor lose their letters.
#[test]
fn names_of_others_are_read_whatever_the_locale() {
    for locale in ["C", "C.UTF-8"] {
        let rig = Rig::with_vars(&[("LC_ALL", locale), ("LANG", locale)]);
        let created = rig.sh("one", "printf '\\033]2;t 1 $2 %%3 é\\\\;|#x\\033\\\\'; exec sleep 1000", &[]);
        let raw = "n 4 @5 \\ é 'q' \"##\\;";
        assert!(rig.tmux(&["rename-session", "-t", &created.session.to_string(), "--", raw]).0);
        eventually("the title is set", || rig.server.pane(&created.pane).unwrap().title.starts_with("t "));
        let row = rig.server.pane(&created.pane).unwrap();
        assert_eq!(row.title, "t 1 $2 %3 é\\;|#x");
        assert_eq!(row.state, PaneState::Running { pid: created.pane_pid });
        // tmux itself doubles backslashes in names.
        assert_eq!(row.session_name, "n 4 @5 \\\\ é 'q' \"#;");
        assert_eq!(rig.server.sessions().unwrap()[0].name, row.session_name);
    }
}

/// Fault 25.
#[test]
fn a_deleted_socket_is_not_an_absence_of_sessions() {
    let rig = Rig::new();
    let created = rig.idle("one");
    std::fs::remove_file(rig.server.socket_path()).unwrap();
    assert_eq!(rig.server.probe(), Probe::Absent);
    for error in [
        rig.server.sessions().unwrap_err(),
        rig.server.all_panes().unwrap_err(),
        rig.server.panes(&created.session).unwrap_err(),
    ] {
        assert!(matches!(error, TmuxError::NoServer { .. }) && !error.is_absence(), "{error}");
    }
    assert_eq!(rig.server.kill_session(&created.session, created.server_pid, &TREE).unwrap(), Closed::NoServer);
    assert!(alive(created.server_pid) && alive(created.pane_pid));
    signal(created.server_pid, Signal::SIGUSR1);
    eventually("the socket is back", || rig.running() == Some(created.server_pid));
    assert_eq!(rig.server.sessions().unwrap().len(), 1);
}

/// Faults 19 and 28: a server that hangs costs two seconds and tells nothing about sessions.
#[test]
fn a_stopped_server_times_out_and_is_still_identified() {
    let rig = Rig::new();
    let created = rig.idle("one");
    signal(created.server_pid, Signal::SIGSTOP);
    let begun = Instant::now();
    let error = rig.server.sessions().unwrap_err();
    let took = begun.elapsed();
    assert!(matches!(&error, TmuxError::Timeout { asked, .. } if asked == "list-sessions"), "{error}");
    let way_out = format!("its server is stopped: `kill -CONT {}` lets it go on", created.server_pid);
    assert_eq!(error.to_string(), format!("tmux did not answer within 2 s (list-sessions); {way_out}"));
    assert!(!error.is_absence());
    assert!((Duration::from_millis(1900)..Duration::from_secs(4)).contains(&took), "{took:?}");
    assert_eq!(rig.server.probe(), Probe::Running { pid: created.server_pid });
    signal(created.server_pid, Signal::SIGCONT);
    assert_eq!(rig.server.sessions().unwrap().len(), 1);
}

/// Fault 26.
#[test]
fn missing_targets_are_absences() {
    let rig = Rig::new();
    let created = rig.idle("one");
    let missing = PaneId::new(99);
    assert!(rig.tmux(&["display-message", "-p", "-t", "%99", "x"]).0, "display-message cannot be asked");
    let key = keys::parse_all(["Enter"]).unwrap();
    for result in [
        rig.server.pane(&missing).map(drop),
        rig.server.send_text(&missing, "x"),
        rig.server.send_bytes(&missing, b"x"),
        rig.server.send_keys(&missing, &key),
        rig.server.capture(&missing, Capture::default()).map(drop),
        rig.server.pipe_to_log(&missing, &["cat".into()], true),
        rig.server.pipe_to_log(&missing, &["cat".into()], false),
    ] {
        let error = result.unwrap_err();
        assert!(matches!(&error, TmuxError::NoPane(_)) && error.is_absence(), "{error:?}");
    }
    for result in [rig.server.resize(&WindowId::new(99), 24, 80), rig.server.follow_clients(&WindowId::new(99))] {
        assert!(matches!(result, Err(TmuxError::NoWindow(_))), "{result:?}");
    }
    assert!(matches!(rig.server.panes(&SessionId::new(99)), Err(TmuxError::NoSession(_))));
    assert!(alive(created.pane_pid));
}

/// Fault 27.
#[test]
fn tmux_continues_a_stopped_pane_root() {
    let rig = Rig::new();
    let file = rig.file("continued");
    rig.sh("one", "kill -STOP $$; : > \"$1\"; exec sleep 1000", &[file.to_str().unwrap()]);
    eventually("tmux continued it", || file.exists());
}

/// Fault 28.
#[test]
fn the_users_configuration_does_not_matter() {
    let rig = Rig::new();
    std::fs::write(rig.file(".tmux.conf"), "set -g status on\nno-such-command\nset -g base-index 7\n").unwrap();
    let created = rig.idle("one");
    assert!(!rig.server.pane(&created.pane).unwrap().in_mode, "no page of errors is shown");
    assert_eq!(rig.tmux(&["show-options", "-gv", "status"]).1, "off\n");
    assert_eq!(rig.tmux(&["show-options", "-gv", "base-index"]).1, "0\n");
}

#[test]
fn our_configuration_is_accepted_and_takes_effect() {
    let rig = Rig::new();
    let created = rig.idle("one");
    assert_eq!(rig.tmux(&["source-file", rig.file("tmux.conf").to_str().unwrap()]), (true, String::new()));
    for (option, value) in [
        ("history-limit", "100000"),
        ("update-environment", ""),
        ("default-terminal", "screen-256color"),
        ("escape-time", "10"),
        ("exit-empty", "on"),
        ("remain-on-exit", "off"),
        ("window-size", "latest"),
        ("allow-rename", "off"),
        ("mouse", "on"),
        ("set-clipboard", "external"),
        ("allow-passthrough", "off"),
    ] {
        let pane = created.pane.to_string();
        let (_, session) = rig.tmux(&["show-options", "-Aqv", "-t", &pane, option]);
        let (_, window) = rig.tmux(&["show-options", "-Aqvp", "-t", &pane, option]);
        assert!([session.trim_end(), window.trim_end()].contains(&value), "{option}: {session}{window}");
    }
}

#[test]
fn the_launchers_environment_does_not_reach_a_session() {
    let rig = Rig::with_vars(&[("HF_TOKEN", "hf_secret"), ("TMUX", "/x,1,0"), ("TMUX_PANE", "%77"), ("DISPLAY", ":0")]);
    let file = rig.file("env");
    let created = rig.sh("one", "env > \"$1.new\"; mv \"$1.new\" \"$1\"; exec sleep 1000", &[file.to_str().unwrap()]);
    eventually("the environment is written", || file.exists());
    // What a shell sets by itself, and what tmux sets for a pane.
    let own = ["PWD", "OLDPWD", "SHLVL", "_", "TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TMUX", "TMUX_PANE"];
    let ours: Vec<_> = rig.server.spec(vec![]).env.into_iter().map(|(name, _)| name).collect();
    for text in [String::from_utf8(read(&file)).unwrap(), rig.tmux(&["show-environment", "-g"]).1] {
        assert!(text.contains("PATH="), "{text}");
        for secret in ["HF_TOKEN", "hf_secret", "/x,1,0", "%77", "DISPLAY"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
        for name in text.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name) {
            assert!(own.contains(&name) || ours.iter().any(|known| known == name), "{name}");
        }
    }
    assert_eq!(rig.tmux(&["show-environment", "-t", &created.session.to_string()]).1, "");
}

/// Stop refuses such a window: killing the session would not end it.
#[test]
fn linked_windows_are_flagged() {
    let rig = Rig::new();
    let (one, two, three) = (rig.idle("one"), rig.idle("two"), rig.idle("three"));
    let linked =
        |session: &SessionId| rig.server.panes(session).unwrap().iter().map(|row| row.linked).collect::<Vec<_>>();
    assert!(rig.tmux(&["link-window", "-s", &one.window.to_string(), "-t", &format!("{}:5", two.session)]).0);
    assert_eq!(linked(&one.session), [true]);
    assert_eq!(linked(&two.session), [false, true]);
    assert_eq!(linked(&three.session), [false]);
    assert!(rig.tmux(&["new-session", "-d", "-t", &three.session.to_string()]).0);
    assert_eq!(linked(&three.session), [true]);
    assert!(rig.server.sessions().unwrap().iter().any(|row| row.session == three.session && row.grouped));
    let twice = rig.server.all_panes().unwrap().iter().filter(|row| row.pane == one.pane).count();
    assert_eq!(twice, 2);
}

/// A notice of tmux's own holds the window until it is sent: nobody else's session is in the way of a stop.
#[test]
fn a_window_that_has_just_changed_its_size_is_not_linked() {
    let rig = Rig::new();
    let one = rig.idle("one");
    let window = one.window.to_string();
    let (ok, text) =
        rig.tmux(&["resize-window", "-t", &window, "-x", "91", "-y", "31", ";", "list-panes", "-a", "-F", PANE_FORMAT]);
    assert!(ok, "{text}");
    let rows = parse::rows(text.as_bytes(), PaneRow::parse).unwrap();
    assert!(rows[0].linked, "this tmux counts its notices no more: the second question can go");
    assert!(!rig.server.confirm_links(rows).unwrap()[0].linked);
}

#[test]
fn a_dead_pane_stays_with_how_it_ended_and_takes_no_input() {
    let rig = Rig::new();
    let ends = [("exit 3", Some(3), None), ("kill -KILL $$", None, Some(9))];
    for (script, status, signal) in ends {
        let created = rig.sh("one", &format!("read line; {script}"), &[]);
        rig.server.pipe_to_log(&created.pane, &["cat".into()], true).unwrap();
        rig.server.send_text(&created.pane, "go\n").unwrap();
        let state = || rig.server.pane(&created.pane).unwrap().state;
        let dead = PaneState::Dead { pid: Some(created.pane_pid), status, signal };
        eventually("the pane is dead", || matches!(state(), PaneState::Dead { .. }));
        rig.server.reap_panes().unwrap();
        eventually("how it ended is known", || state() == dead);
        for result in [rig.server.send_text(&created.pane, "x"), rig.server.send_bytes(&created.pane, b"x")] {
            assert!(matches!(result, Err(TmuxError::PaneDead(pane)) if pane == created.pane));
        }
        assert_eq!(rig.server.kill_session(&created.session, created.server_pid, &TREE).unwrap(), Closed::Killed);
    }
}

#[test]
fn input_that_is_switched_off_is_an_error() {
    let rig = Rig::new();
    let created = rig.idle("one");
    assert!(rig.tmux(&["select-pane", "-d", "-t", &created.pane.to_string()]).0);
    assert!(rig.server.pane(&created.pane).unwrap().input_off);
    assert!(matches!(rig.server.send_text(&created.pane, "x"), Err(TmuxError::InputOff(_))));
}

#[test]
fn a_log_gets_the_output_whatever_its_path() {
    let rig = Rig::new();
    let created = rig.sh("one", "read line; printf 'said %s\\n' \"$line\"; exec sleep 1000", &[]);
    let dir = rig.file("%H #{pid} #[x] ##(touch f) 'q' \"$HOME\" \\ é;");
    std::fs::create_dir(&dir).unwrap();
    let log = dir.join("log");
    rig.server.pipe_to_log(&created.pane, &["tee".into(), "-a".into(), log.clone().into()], false).unwrap();
    rig.server.send_text(&created.pane, "hello\r").unwrap();
    eventually("the log has the output", || String::from_utf8_lossy(&read(&log)).contains("said hello"));
    assert!(matches!(rig.server.pipe_to_log(&created.pane, &[], false), Err(TmuxError::Invalid(_))));
}

/// Fault 29, and copy mode, which would take the input for commands.
#[test]
fn text_and_bytes_arrive_as_they_are() {
    let rig = Rig::new();
    let (created, file) = rig.recorder("one");
    let mut expected = Vec::new();
    for text in [
        "plain",
        ";",
        "a;",
        r"\;",
        "-x",
        "--",
        "Enter",
        "C-c",
        "0x41",
        "#{pid}#(touch f)",
        "$HOME ~ `id` 'q' \"q\" %H",
        "l1\nl2\r\t",
        "é 漢字 👩‍💻 \u{301}\u{200b}\u{feff}\u{10ffff}\u{85}",
        "\0\u{1b}[A\u{7f}",
        "",
    ] {
        rig.server.send_text(&created.pane, text).unwrap();
        expected.extend_from_slice(text.as_bytes());
        eventually(text, || read(&file) == expected);
    }
    let every: Vec<u8> = (0..=255).collect();
    rig.server.send_bytes(&created.pane, &every).unwrap();
    expected.extend(every);
    assert!(rig.tmux(&["copy-mode", "-t", &created.pane.to_string()]).0);
    assert!(rig.server.pane(&created.pane).unwrap().in_mode);
    let long = "0123456789 ".repeat(1000);
    rig.server.send_text(&created.pane, &long).unwrap();
    expected.extend_from_slice(long.as_bytes());
    eventually("the rest arrives", || read(&file) == expected);
    assert!(!rig.server.pane(&created.pane).unwrap().in_mode);
}

#[test]
fn every_key_of_the_table_arrives_as_a_key() {
    let rig = Rig::new();
    let (created, file) = rig.recorder("one");
    let mut wrong = Vec::new();
    for key in keys::every_key() {
        std::fs::write(&file, "").unwrap();
        rig.server.send_keys(&created.pane, std::slice::from_ref(&key)).unwrap();
        rig.server.send_bytes(&created.pane, b"\xff").unwrap();
        eventually("the mark arrives", || read(&file).ends_with(b"\xff"));
        let bytes = read(&file);
        let bytes = &bytes[..bytes.len() - 1];
        // A name that tmux does not know is typed as text; a combination it cannot express is nothing.
        let good = if key.name().len() == 1 {
            bytes == key.name().as_bytes()
        } else {
            !bytes.is_empty() && bytes != key.name().as_bytes()
        };
        if !good {
            wrong.push(format!("{key}: {bytes:?}"));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn well_known_keys_have_their_well_known_bytes() {
    let rig = Rig::new();
    let (created, file) = rig.recorder("one");
    let names = [
        "C-c", "Enter", "Tab", "Escape", "C-d", "C-z", "Up", "M-x", "BTab", "F1", "C-Space", "C-_", "BSpace", ";", "é",
    ];
    rig.server.send_keys(&created.pane, &keys::parse_all(names).unwrap()).unwrap();
    let expected = "\x03\r\t\x1b\x04\x1a\x1b[A\x1bx\x1b[Z\x1bOP\0\x1f\x7f;é";
    eventually("the keys arrive", || read(&file).len() >= expected.len());
    assert_eq!(String::from_utf8_lossy(&read(&file)), expected);
}

#[test]
fn a_window_is_resized_and_let_go() {
    let rig = Rig::new();
    let created = rig.idle("one");
    let size = || rig.server.pane(&created.pane).map(|row| (row.height, row.width)).unwrap();
    for (rows, cols, expected) in [(50, 132, (50, 132)), (0, 0, (1, 2)), (30, 90, (30, 90))] {
        rig.server.resize(&created.window, rows, cols).unwrap();
        assert_eq!(size(), expected);
    }
    let option = || rig.tmux(&["show-options", "-wqv", "-t", &created.window.to_string(), "window-size"]).1;
    assert_eq!(option(), "manual\n");
    rig.server.follow_clients(&created.window).unwrap();
    assert_eq!(option(), "");
}

/// Fault 36: the size is right when a person attaches, from within another tmux even.
#[test]
fn a_person_attaches_at_the_size_of_the_terminal() {
    let (rig, outside) = (Rig::new(), Rig::new());
    let created = rig.idle("one");
    rig.server.resize(&created.window, 50, 132).unwrap();
    rig.server.follow_clients(&created.window).unwrap();
    let spec = rig.server.spec(rig.server.attach_argv(&created.session));
    assert!(spec.env_clear && spec.env.iter().all(|(name, _)| name != "TMUX"));
    let mut argv: Vec<OsString> = vec!["env".into(), "-i".into()];
    for (name, value) in spec.env {
        argv.push([name, "=".into(), value].into_iter().collect());
    }
    argv.extend(spec.argv);
    outside.create("terminal", argv);
    eventually("it is attached in full", || {
        let row = rig.server.pane(&created.pane).unwrap();
        (row.attached, row.height, row.width) == (1, 24, 80)
    });
}

#[test]
fn captures_have_history_colours_and_whole_lines() {
    let rig = Rig::new();
    let script = "seq 1 100; printf '\\033[31mred\\033[0m\\n'; printf '%0100d\\n' 7; printf end; exec sleep 1000";
    let created = rig.sh("one", script, &[]);
    let capture = |capture| String::from_utf8(rig.server.capture(&created.pane, capture).unwrap()).unwrap();
    eventually("all is printed", || capture(Capture::default()).trim_end().ends_with("end"));
    let screen = capture(Capture::default());
    assert_eq!(screen.lines().count(), 24);
    assert!(screen.contains("\nred\n") && !screen.contains('\u{1b}'));
    let all = capture(Capture { history: 1000, escapes: true, joined: true });
    assert!(all.starts_with("1\n2\n"), "{all}");
    assert!(all.contains("\u{1b}[31mred"));
    assert!(all.contains(&format!("{:0100}\n", 7)));
    assert_eq!(capture(Capture { history: 3, ..Capture::default() }).lines().count(), 27);
    assert!(rig.server.pane(&created.pane).unwrap().history > 70);
}

#[test]
fn a_session_is_closed_on_its_own_server_only() {
    let rig = Rig::new();
    let created = rig.idle("one");
    let stranger = Pid::new(created.server_pid.raw() + 1).unwrap();
    let error = rig.server.kill_session(&created.session, stranger, &TREE).unwrap_err();
    let found = format!("process {}", created.server_pid);
    assert!(matches!(&error, TmuxError::ForeignServer { found: it, .. } if *it == found), "{error}");
    assert!(alive(created.pane_pid));
    assert_eq!(rig.server.sessions().unwrap().len(), 1);
}

#[test]
fn closing_the_last_session_succeeds_and_so_does_the_second_time() {
    let rig = Rig::new();
    for _ in 0..10 {
        let created = rig.idle("one");
        assert_eq!(rig.server.kill_session(&created.session, created.server_pid, &TREE).unwrap(), Closed::Killed);
        // The server leaves with its last session; while it does, it may still answer.
        eventually("the server is gone", || rig.running().is_none());
        assert_eq!(rig.server.kill_session(&created.session, created.server_pid, &TREE).unwrap(), Closed::NoServer);
        assert!(matches!(rig.server.sessions(), Err(TmuxError::NoServer { .. })));
    }
}

/// The server that leaves with its last session hangs up on whoever comes then.
#[test]
fn a_session_can_follow_the_last_one_at_once() {
    let rig = Rig::new();
    for _ in 0..15 {
        let created = rig.idle("one");
        let closed = rig.server.kill_session(&created.session, created.server_pid, &TREE).unwrap();
        assert_ne!(closed, Closed::AlreadyGone);
    }
}

#[test]
fn looking_never_starts_a_server() {
    let rig = Rig::new();
    assert!(matches!(rig.server.sessions(), Err(TmuxError::NoServer { .. })));
    assert!(matches!(rig.server.panes(&SessionId::new(0)), Err(TmuxError::NoServer { .. })));
    assert_eq!(rig.server.kill_session(&SessionId::new(0), Pid::new(1).unwrap(), &TREE).unwrap(), Closed::NoServer);
    assert_eq!(rig.server.probe(), Probe::Absent);
}

#[test]
fn a_stale_socket_is_told_from_none_and_is_taken_over() {
    let rig = Rig::new();
    let created = rig.idle("one");
    signal(created.server_pid, Signal::SIGKILL);
    eventually("nobody listens", || rig.server.probe() == Probe::Stale);
    assert!(matches!(rig.server.sessions(), Err(TmuxError::NoServer { .. })));
    let again = rig.idle("two");
    assert_ne!(again.server_pid, created.server_pid);
    // The ids begin anew: `$0` is another session now.
    assert_eq!(again.session, created.session);
    assert!(matches!(
        rig.server.kill_session(&created.session, created.server_pid, &TREE),
        Err(TmuxError::ForeignServer { .. })
    ));
    assert!(alive(again.pane_pid));
}

/// Fault 19: whatever else fails is not an absence.
#[test]
fn what_cannot_be_reached_is_unreadable() {
    let rig = Rig::new();
    let created = rig.idle("one");
    let path = rig.server.socket_path();
    let sockets = path.parent().unwrap();
    let mode = |mode| std::fs::set_permissions(sockets, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o707);
    let error = rig.server.panes(&created.session).unwrap_err();
    mode(0o700);
    assert!(matches!(&error, TmuxError::Unreadable(reason) if reason.contains("unsafe permissions")), "{error}");
    assert_eq!(rig.server.panes(&created.session).unwrap().len(), 1);

    std::fs::write(rig.file("plain"), "").unwrap();
    let plain = Server::new(SocketRef::Path(rig.file("plain")), None, std::env::vars_os());
    assert!(matches!(plain.sessions(), Err(TmuxError::Unreadable(_))));
}

#[test]
fn tmux_itself_may_be_missing_old_or_broken() {
    let rig = Rig::new();
    assert!(rig.server.version().unwrap().is_supported());
    assert_eq!(rig.server.known_version().unwrap(), rig.server.version().unwrap());
    let missing = rig.server.clone().with_program("no-such-tmux");
    assert!(matches!(missing.version(), Err(TmuxError::NotInstalled { program }) if program == "no-such-tmux"));
    assert!(matches!(missing.sessions(), Err(TmuxError::NotInstalled { .. })));
    assert!(matches!(missing.known_version(), Err(TmuxError::NotInstalled { .. })), "of another program");
    let fake = |name: &str, script: &str| {
        let (text, path) = (rig.file(&format!("{name}.sh")), rig.file(name));
        std::fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&text, std::fs::Permissions::from_mode(0o755)).unwrap();
        // Copied by another process: one that we had open for writing would be busy while any thread forks.
        assert!(std::process::Command::new("cp").arg(&text).arg(&path).status().unwrap().success());
        rig.server.clone().with_program(path)
    };
    assert!(
        matches!(fake("old", "echo tmux 2.9a").version(), Err(TmuxError::TooOld { version }) if version.to_string() == "2.9a")
    );
    assert!(matches!(fake("odd", "echo what").version(), Err(TmuxError::Parse(_))));
    let broken = fake("broken", "echo 'unknown variable' >&2; exit 1").sessions();
    assert!(matches!(broken, Err(TmuxError::Failed { stderr, .. }) if stderr == "unknown variable"));
    assert!(
        matches!(fake("rows", "echo 1 '$0' nonsense").sessions(), Err(TmuxError::Parse(error)) if error.row == "1 $0 nonsense")
    );
    let other = fake("other", "echo '$0 @0 %0 99 98 3.3a'");
    let new = NewSession { name: "x".into(), rows: 24, cols: 80, argv: vec!["a".into(), "b".into()] };
    assert!(matches!(other.create(&new), Err(TmuxError::ForeignServer { .. })));
}
