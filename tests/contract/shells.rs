//! Shells, an editor and a REPL answer under a warden as they do without one: the same keys are typed into a session
//! of ours and into a bare terminal of the same kind, and what the programs say of it is compared.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::pty::OpenptFlags;
use serde_json::json;

use crate::client::Batch;
use crate::rig::Rig;

const ROWS: u16 = 24;
const COLS: u16 = 80;

/// How long something that may not happen at all is waited for.
const GLANCE: Duration = Duration::from_secs(4);

/// What was asked, and what came of it.
type Answers = BTreeMap<String, String>;

/// Where a program runs.
enum Terminal {
    /// A session of ours, in a PTY or in tmux.
    Ours { batch: Batch, session: String, pane: Option<String> },
    /// A PTY without anybody.
    Bare { master: File, child: Child },
    /// A pane of a tmux server with the same configuration.
    BareTmux { socket: String },
}

impl Terminal {
    fn ours(rig: &Rig, host: &str, argv: &[&str]) -> Self {
        let mut batch = rig.batch();
        let launch =
            json!({"cmd": "launch", "command": argv, "kind": "shell", "host": host, "rows": ROWS, "cols": COLS});
        let launched = batch.ok(launch);
        let session = launched["session"].as_str().unwrap().to_owned();
        Self::Ours { batch, session, pane: launched["tmux"]["pane_id"].as_str().map(str::to_owned) }
    }

    fn bare(rig: &Rig, host: &str, argv: &[&str]) -> Self {
        if host == "tmux" {
            let conf = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/tmux.conf");
            let socket = format!("{}b", rig.path("").file_name().unwrap().to_str().unwrap());
            let terminal = Self::BareTmux { socket };
            let (rows, cols) = (ROWS.to_string(), COLS.to_string());
            let mut words = vec!["-f", conf, "new-session", "-d", "-x", &cols, "-y", &rows];
            words.extend(argv);
            terminal.tmux(rig, &words);
            return terminal;
        }
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = rustix::pty::openpt(flags).unwrap();
        rustix::pty::grantpt(&master).unwrap();
        rustix::pty::unlockpt(&master).unwrap();
        let size = rustix::termios::Winsize { ws_row: ROWS, ws_col: COLS, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&master, size).unwrap();
        let name = rustix::pty::ptsname(&master, Vec::new()).unwrap();
        let slave = || Stdio::from(File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap());
        // It leads no group, so setsid(1) becomes the program.
        let mut command = Command::new("setsid");
        rig.settle(&mut command);
        command.arg("--ctty").args(argv).stdin(slave()).stdout(slave()).stderr(slave());
        let child = command.spawn().unwrap();
        drop(command);
        let mut output = File::from(rustix::io::dup(&master).unwrap());
        // A terminal that nobody reads stands still.
        std::thread::spawn(move || while output.read(&mut [0; 4096]).is_ok_and(|length| length > 0) {});
        Self::Bare { master: File::from(master), child }
    }

    fn tmux(&self, rig: &Rig, arguments: &[&str]) -> String {
        if let Self::BareTmux { socket } = self {
            let mut command = Command::new("tmux");
            rig.settle(&mut command);
            return String::from_utf8(command.args(["-L", socket]).args(arguments).output().unwrap().stdout).unwrap();
        }
        rig.tmux(arguments).text()
    }

    /// Types as a keyboard would.
    fn keys(&mut self, rig: &Rig, keys: &str) {
        match self {
            Self::Ours { batch, session, .. } => {
                batch.ok(json!({"cmd": "send", "session": session, "text": keys}));
            }
            Self::Bare { master, .. } => master.write_all(keys.as_bytes()).unwrap(),
            Self::BareTmux { .. } => {
                let codes: Vec<String> = keys.bytes().map(|byte| format!("{byte:x}")).collect();
                let mut words = vec!["send-keys", "-H"];
                words.extend(codes.iter().map(String::as_str));
                self.tmux(rig, &words);
            }
        }
    }

    /// Gives the terminal another size, as a window that is dragged does.
    fn resize(&mut self, rig: &Rig, rows: u16, cols: u16) {
        match self {
            Self::Ours { batch, session, .. } => {
                batch.ok(json!({"cmd": "resize", "session": session, "rows": rows, "cols": cols}));
            }
            Self::Bare { master, .. } => {
                let size = rustix::termios::Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
                rustix::termios::tcsetwinsize(master, size).unwrap();
            }
            Self::BareTmux { .. } => {
                self.tmux(rig, &["resize-window", "-t", "%0", "-x", &cols.to_string(), "-y", &rows.to_string()]);
            }
        }
    }

    /// Returns what tmux takes for the command of the pane.
    fn pane_command(&self, rig: &Rig) -> String {
        let target = match self {
            Self::Ours { pane: Some(pane), .. } => pane,
            Self::Bare { .. } | Self::Ours { pane: None, .. } => return String::new(),
            Self::BareTmux { .. } => "%0",
        };
        self.tmux(rig, &["display-message", "-p", "-t", target, "#{pane_current_command}"]).trim().to_owned()
    }

    /// Ends with the shell; returns its exit status, which tmux does not always know.
    fn status(mut self, rig: &Rig) -> Option<String> {
        match &mut self {
            Self::Ours { batch, session, .. } => {
                let ended = batch.ok(json!({"cmd": "wait", "session": session, "for": "exit", "timeout_s": 20}));
                Some(ended["exit_code"].to_string())
            }
            Self::Bare { child, .. } => Some(crate::rig::wait(child).unwrap().to_string()),
            Self::BareTmux { .. } => {
                self.tmux(rig, &["kill-server"]);
                None
            }
        }
    }
}

/// One program in one place, and what it answered so far.
struct Talk<'a> {
    rig: &'a Rig,
    dir: PathBuf,
    terminal: Terminal,
    /// The shell.
    pid: i32,
    answers: Answers,
}

impl<'a> Talk<'a> {
    /// Waits until the shell reads what is typed.
    fn begin(rig: &'a Rig, terminal: Terminal, name: &str) -> Self {
        let dir = rig.path(name);
        fs::create_dir(&dir).unwrap();
        let mut talk = Self { rig, dir, terminal, pid: 0, answers: Answers::new() };
        let ask = format!("sh -c 'echo $PPID > {}'", talk.dir.join("pid").display());
        talk.pid = talk.listens("pid", &ask).trim().parse().unwrap();
        talk
    }

    /// Types a line until it is answered in a file: what comes before a program listens may be lost.
    fn listens(&mut self, name: &str, line: &str) -> String {
        let until = Instant::now() + crate::rig::DEADLINE;
        loop {
            self.line(line);
            if self.glance(|talk| talk.read(name).is_some()) {
                return self.read(name).unwrap();
            }
            assert!(Instant::now() < until, "{line} is not answered: {:?}", self.answers);
        }
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.dir.join(name)).ok().filter(|text| text.ends_with('\n'))
    }

    fn glance(&self, holds: impl Fn(&Self) -> bool) -> bool {
        let until = Instant::now() + GLANCE;
        while Instant::now() < until {
            if holds(self) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// Returns the name of the group that the keys of the terminal go to.
    fn foreground(&self) -> String {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        let group = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(5).map(str::to_owned));
        fs::read_to_string(format!("/proc/{}/comm", group.unwrap_or_default())).unwrap_or_default().trim().to_owned()
    }

    fn keys(&mut self, keys: &str) {
        self.terminal.keys(self.rig, keys);
    }

    fn line(&mut self, line: &str) {
        self.keys(&format!("{line}\r"));
    }

    /// Has the shell write the output of a command down; numbers of processes are left out.
    fn asks(&mut self, what: &str, command: &str) {
        let file = self.dir.join(what.replace(' ', "-"));
        self.line(&format!("{command} > {0}.new; echo >> {0}.new; mv {0}.new {0}", file.display()));
        assert!(self.glance(|_| file.exists()), "{what}: {command} is not answered; {:?}", self.answers);
        let text = fs::read_to_string(&file).unwrap();
        let plain: String =
            text.chars().map(|c| if c.is_ascii_digit() && what.contains("job") { '#' } else { c }).collect();
        let mut words: Vec<&str> = plain.split_whitespace().collect();
        words.dedup();
        let answer = words.join(" ").replace("##", "#").replace("##", "#").replace("##", "#");
        self.answers.insert(what.to_owned(), answer);
    }

    /// Notes whether this program comes to be the one that keys go to.
    fn comes(&mut self, what: &str, program: &str) {
        let came = self.glance(|talk| talk.foreground() == program);
        let seen = self.foreground();
        self.answers.insert(format!("{what}: foreground"), if came { program.to_owned() } else { seen });
        let pane = self.terminal.pane_command(self.rig);
        self.answers.insert(format!("{what}: pane"), pane);
    }
}

/// Jobs, the terminal's size and its settings, by a shell that says its last status in `status`.
fn job_control(talk: &mut Talk<'_>, shell: &str, status: &str) {
    talk.comes("at first", shell);
    talk.asks("size", "stty size");
    talk.asks("settings", "stty -a");
    // Whoever is in the foreground is told of another size.
    let told = talk.dir.join("told");
    let waits = format!(
        "trap \"stty size > {}\" WINCH; echo > {}; while :; do sleep 0.05; done",
        told.display(),
        talk.dir.join("waits").display()
    );
    talk.line(&format!("sh -c '{waits}'"));
    assert!(talk.glance(|talk| talk.read("waits").is_some()), "it does not wait: {:?}", talk.answers);
    talk.terminal.resize(talk.rig, ROWS + 7, COLS + 21);
    let heard = talk.glance(|talk| talk.read("told").is_some());
    assert!(heard, "nobody is told of a new size");
    talk.answers.insert("the size that is told".into(), talk.read("told").unwrap());
    talk.keys("\x03");
    talk.comes("after it", shell);
    talk.asks("another size", "stty size");
    assert_eq!(talk.answers["another size"], format!("{} {}", ROWS + 7, COLS + 21));
    talk.line("sleep 321");
    talk.comes("a command", "sleep");
    talk.keys("\x1a");
    talk.comes("stopped by Ctrl-Z", shell);
    talk.asks("jobs while stopped", "jobs");
    talk.line("bg");
    talk.asks("jobs in the background", "jobs");
    talk.line("fg");
    talk.comes("after fg", "sleep");
    talk.keys("\x03");
    talk.comes("interrupted by Ctrl-C", shell);
    talk.asks("status after Ctrl-C", &format!("echo {status}"));
    talk.line("sleep 322 &");
    talk.asks("jobs of our own", "jobs");
    talk.line("fg");
    talk.comes("our own in the foreground", "sleep");
    talk.keys("\x1c");
    talk.comes("ended by Ctrl-\\", shell);
    talk.asks("jobs after it", "jobs");
    // Whoever reads in the background is stopped by the terminal.
    talk.line("cat &");
    talk.comes("a reader in the background", shell);
    let stopped = talk.glance(|talk| has_stopped_child(talk.pid, "cat"));
    talk.answers.insert("the reader was stopped".into(), stopped.to_string());
    if stopped {
        talk.line("fg");
        talk.comes("the reader in the foreground", "cat");
        talk.keys("\x04");
        talk.comes("after the end of its input", shell);
    }
    talk.asks("status of false", &format!("false; echo {status}"));
    // Two that fail alike are no proof.
    let seen = |what: &str| talk.answers[what].as_str();
    assert_eq!((seen("after fg: foreground"), seen("interrupted by Ctrl-C: foreground")), ("sleep", shell));
    let shown = seen("jobs while stopped").to_lowercase();
    assert!(["stopped", "suspended"].iter().any(|word| shown.contains(word)) && shown.contains("sleep"), "{shown}");
}

/// Tells whether a process has not ended yet.
fn is_there(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn has_stopped_child(parent: i32, name: &str) -> bool {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    children.split_whitespace().any(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains(&format!("({name}) T"))
    })
}

fn editor(talk: &mut Talk<'_>) {
    let (talk_dir, text) = (talk.dir.clone(), talk.dir.join("text"));
    talk.line(&format!("vim -u NONE -N -n {}", text.display()));
    talk.comes("the editor", "vim");
    let ready = |name: &str| format!(":call writefile(['yes', ''], '{}')", talk_dir.join(name).display());
    talk.listens("ready", &ready("ready"));
    talk.keys("ihello");
    talk.keys("\x1b");
    talk.line(":put ='size '.&lines.' '.&columns");
    talk.keys("\x1a");
    talk.comes("the editor is stopped", "bash");
    talk.asks("jobs with an editor", "jobs | sed 's/-n .*//'");
    talk.line("fg");
    talk.comes("the editor again", "vim");
    talk.listens("back", &ready("back"));
    talk.line(":wq");
    talk.comes("after the editor", "bash");
    let text = fs::read_to_string(text).unwrap_or_default();
    talk.answers.insert("what was edited".into(), text);
}

fn repl(talk: &mut Talk<'_>, python: &str) {
    talk.line(&format!("{python} -q -I"));
    let name = fs::canonicalize(python).unwrap();
    let name = name.file_name().unwrap().to_str().unwrap().to_owned();
    let comm = if talk.glance(|talk| talk.foreground() == "python3") { "python3".to_owned() } else { name };
    talk.comes("the REPL", &comm);
    let (facts, sleeps, after) = (talk.dir.join("facts"), talk.dir.join("sleeps"), talk.dir.join("after"));
    let says_yes = |file: PathBuf| format!("print('yes', file=open('{}', 'w'), flush=True)", file.display());
    talk.listens("ready", &says_yes(talk.dir.join("ready")));
    talk.line("import os, signal, sys, time");
    let says = "(os.get_terminal_size(), os.isatty(0), os.getpgrp() == os.getpid(), os.tcgetpgrp(0) == os.getpid(), signal.getsignal(signal.SIGINT).__name__)";
    talk.line(&format!("print({says}, file=open('{}', 'w'), flush=True)", facts.display()));
    assert!(talk.glance(|talk| talk.read("facts").is_some()), "the REPL says nothing: {:?}", talk.answers);
    talk.answers.insert("what the REPL says".into(), talk.read("facts").unwrap());
    talk.line(&format!("print(1, file=open('{}', 'w'), flush=True); time.sleep(300)", sleeps.display()));
    assert!(talk.glance(|talk| talk.read("sleeps").is_some()));
    talk.keys("\x03");
    talk.line(&format!("print('goes on', file=open('{}', 'w'), flush=True)", after.display()));
    let goes_on = talk.glance(|talk| talk.read("after").is_some());
    talk.answers.insert("the REPL after Ctrl-C".into(), goes_on.to_string());
    talk.keys("\x1a");
    talk.comes("the REPL is stopped", "bash");
    talk.line("fg");
    talk.comes("the REPL again", &comm);
    talk.listens("back", &says_yes(talk.dir.join("back")));
    talk.line("sys.exit(3)");
    talk.comes("after the REPL", "bash");
    talk.asks("status of the REPL", "echo $?");
}

/// Compares a shell of ours with a bare one, in a PTY and in tmux.
fn compare(program: &str, argv: &[&str], converse: impl Fn(&mut Talk<'_>)) {
    compare_in(&["pty", "tmux"], program, argv, converse);
}

fn compare_in(hosts: &[&str], program: &str, argv: &[&str], converse: impl Fn(&mut Talk<'_>)) {
    let found = |program: &str| Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    if !found(program).is_ok_and(|output| output.status.success()) {
        return println!("skipped: no {program}");
    }
    for host in hosts {
        let rig = Rig::new();
        let talked = |terminal: Terminal, name: &str| {
            let mut talk = Talk::begin(&rig, terminal, name);
            converse(&mut talk);
            // A shell that sees jobs left asks to be told twice.
            for _ in 0..2 {
                talk.line("exit 7");
                if talk.glance(|talk| !is_there(talk.pid)) {
                    break;
                }
            }
            assert!(!is_there(talk.pid), "{name}: the shell stays");
            (talk.answers, talk.terminal.status(&rig))
        };
        let (bare, status) = talked(Terminal::bare(&rig, host, argv), "bare");
        assert!(status.is_none_or(|status| status == "7"));
        let (ours, status) = talked(Terminal::ours(&rig, host, argv), "ours");
        assert_eq!(ours, bare, "{program} in {host}: ours, and bare");
        assert_eq!(status.as_deref(), Some("7"), "{program} in {host}");
    }
}

#[test]
fn bash_has_its_jobs() {
    compare("bash", &["bash", "--norc", "--noprofile", "-i"], |talk| job_control(talk, "bash", "$?"));
}

/// Stops the shell itself, and whoever else is in its group.
fn suspend(talk: &mut Talk<'_>) {
    for (what, stop) in [("suspend", "suspend"), ("itself", "kill -STOP $$"), ("its group", "kill -STOP 0")] {
        talk.line(stop);
        talk.asks(what, "echo goes on");
    }
    talk.comes("after it", "bash");
}

/// tmux continues a pane that stops, and so does the warden of a shell; a bare PTY has nobody to do so.
#[test]
fn a_shell_that_stops_itself_goes_on() {
    let bash = ["bash", "--norc", "--noprofile", "-i"];
    compare_in(&["tmux"], "bash", &bash, suspend);
    let rig = Rig::new();
    let mut talk = Talk::begin(&rig, Terminal::ours(&rig, "pty", &bash), "ours");
    suspend(&mut talk);
    assert_eq!(talk.answers["suspend"], "goes on");
}

#[test]
fn dash_has_its_jobs() {
    compare("dash", &["dash", "-i"], |talk| job_control(talk, "dash", "$?"));
}

#[test]
fn zsh_has_its_jobs() {
    compare("zsh", &["zsh", "-f", "-i"], |talk| job_control(talk, "zsh", "$?"));
}

#[test]
fn fish_has_its_jobs() {
    compare("fish", &["fish", "--no-config", "-i"], |talk| job_control(talk, "fish", "$status"));
}

#[test]
fn vim_is_edited_in_stopped_and_resumed() {
    if Command::new("vim").arg("--version").output().is_err() {
        return println!("skipped: no vim");
    }
    compare("bash", &["bash", "--norc", "--noprofile", "-i"], editor);
}

#[test]
fn the_python_repl_is_interrupted_and_goes_on() {
    let python = "/usr/bin/python3";
    if !PathBuf::from(python).exists() {
        return println!("skipped: no {python}");
    }
    compare("bash", &["bash", "--norc", "--noprofile", "-i"], |talk| repl(talk, python));
}
