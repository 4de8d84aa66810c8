//! A random walk on the built binary: keys of its table, text, pastes, the mouse and sizes, with real sessions.
//!
//! The walk may start, stop and forget whatever it likes: it sees no program but the ones of its own, and no tmux
//! server but its own. `WALK_SEED` walks another way, `WALK_STEPS` further.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{PATIENCE, Terminal};

/// Prints, with colours and wide characters, and takes whatever it is sent for text.
const TALKER: &str = "#!/bin/sh\ni=0\nwhile :; do i=$((i + 1)); printf '\\033[3%dmline %d \\346\\250\\241\\033[m\\n' \
                      $((i % 8)) $i; read -r word < /dev/tty || exit 0; done\n";

/// Starts the screen again as often as the walk leaves it, and writes down how it ended. Keys that come in between mean
/// nothing to it.
const LOOP: &str = "trap : INT QUIT TSTP\nwhile [ ! -e over ]; do \"$@\"; echo $? >> ends; sleep 0.1; done\n: > left\n";

const RECIPES: &str = "[[recipe]]\nname = \"here\"\nkind = \"agent\"\nhost = \"pty\"\ncommand = [\"talker\"]\n\n\
                       [[recipe]]\nname = \"there\"\nkind = \"serve\"\nhost = \"tmux\"\ncommand = [\"talker\"]\n\
                       stop = { grace_s = 0.5 }\nautostart = true\n";

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap()
    }

    fn pick<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

/// A place of its own for everything that the walk can reach.
struct Walk {
    terminal: Terminal,
    random: Random,
    keys: Vec<String>,
    bystander: Child,
}

impl Walk {
    fn new(seed: u64) -> Self {
        let terminal = Terminal::new(100, 30);
        let place = terminal.folder.path();
        for folder in ["bin", "tmux", "run"] {
            fs::create_dir(place.join(folder)).unwrap();
        }
        fs::set_permissions(place.join("run"), fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(place.join("bin/talker"), TALKER).unwrap();
        fs::set_permissions(place.join("bin/talker"), fs::Permissions::from_mode(0o755)).unwrap();
        for program in ["tmux", "sh", "sleep", "true"] {
            let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap();
            symlink(String::from_utf8(found.stdout).unwrap().trim(), place.join("bin").join(program)).unwrap();
        }
        fs::write(place.join("loop"), LOOP).unwrap();
        fs::write(place.join("config.toml"), RECIPES).unwrap();
        let listed = Command::new(env!("CARGO_BIN_EXE_cookbook-tui")).args(["keys", "--json"]).output().unwrap();
        let table: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
        let of = |row: &serde_json::Value| -> Vec<String> {
            // Who is suspended is not there any more: it has a test of its own.
            if row["action"] == "suspend" { Vec::new() } else { serde_json::from_value(row["keys"].clone()).unwrap() }
        };
        let keys = table["keys"].as_array().unwrap().iter().flat_map(of).filter(|key| key != "C-z").collect();
        let bystander = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
        Self { terminal, random: Random(seed), keys, bystander }
    }

    fn place(&self) -> PathBuf {
        self.terminal.folder.path().to_owned()
    }

    fn start(&self) {
        let place = self.place().display().to_string();
        self.terminal.line(&format!(
            "cd {place}; env -i HOME={place} PATH={place}/bin TMUX_TMPDIR={place}/tmux XDG_RUNTIME_DIR={place}/run \
             LC_ALL=C.UTF-8 TERM=$TERM SHELL=/bin/sh VISUAL=true sh loop {} --config config.toml --state-dir s \
             --tmux-socket w",
            env!("CARGO_BIN_EXE_cookbook-tui")
        ));
        self.terminal.await_text("there");
    }

    fn send(&self, arguments: &[&str]) {
        let sent = self.terminal.tmux(arguments);
        assert!(sent.status.success(), "{arguments:?}: {sent:?}");
    }

    fn type_text(&self, text: &str) {
        self.send(&["send-keys", "-l", "--", text]);
    }

    /// Presses a key, as `keys` spells it.
    fn press(&self, key: &str) {
        let named = match key {
            "Esc" => "Escape",
            "BackTab" => "BTab",
            "Backspace" => "BSpace",
            "Delete" => "DC",
            "Insert" => "IC",
            "PageUp" => "PPage",
            "PageDown" => "NPage",
            key if key.chars().count() == 1 => return self.type_text(key),
            key => key,
        };
        self.send(&["send-keys", named]);
    }

    fn point(&mut self) {
        let button = self.random.pick(&["0", "1", "2", "32", "35", "64", "65"]);
        let end = self.random.pick(&["M", "m"]);
        let report = format!("\x1b[<{button};{};{}{end}", 1 + self.random.below(210), 1 + self.random.below(65));
        let mut bytes: Vec<String> = vec!["send-keys".into(), "-H".into()];
        bytes.extend(report.bytes().map(|byte| format!("{byte:02x}")));
        self.send(&bytes.iter().map(String::as_str).collect::<Vec<_>>());
    }

    fn resize(&mut self) {
        let (cols, rows) = (2 + self.random.below(199), 1 + self.random.below(60));
        self.send(&["resize-window", "-x", &cols.to_string(), "-y", &rows.to_string()]);
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0 => self.resize(),
            1..=3 => self.point(),
            4 => {
                let text = self.random.pick(&["two\nlines", "\u{6a21}\u{578b} e\u{301}", "x", " \t "]);
                self.send(&["set-buffer", "--", text]);
                self.send(&["paste-buffer", "-p"]);
            }
            5..=6 => {
                let text = self.random.pick(&["talker", "here", "there", "\u{6a21}\u{301}", "1h", "e", "./", "A=b"]);
                self.type_text(text);
            }
            7 => self.press("C-\\"),
            _ => {
                let key = self.keys[self.random.below(self.keys.len())].clone();
                self.press(&key);
            }
        }
    }

    /// Checks how the screens ended so far: left by a key, or by the terminal's own C-c or C-\\ before they had it.
    fn assert_good_ends(&self) {
        let ends = fs::read_to_string(self.place().join("ends")).unwrap_or_default();
        assert!(ends.lines().all(|code| matches!(code, "0" | "130" | "131")), "a screen has ended with {ends:?}");
    }

    /// Closes whatever is open, until the help answers to its key.
    fn assert_that_it_answers(&self) {
        self.send(&["resize-window", "-x", "100", "-y", "30"]);
        let until = Instant::now() + PATIENCE;
        loop {
            for key in ["C-\\", "Escape", "Escape", "Escape", "Escape"] {
                self.send(&["send-keys", key]);
                std::thread::sleep(Duration::from_millis(60));
            }
            // Far enough from the last ESC to be a key of its own.
            std::thread::sleep(Duration::from_millis(150));
            self.press("?");
            for _ in 0..20 {
                if self.terminal.text().contains("\u{2500} Keys: ") {
                    return self.press("q");
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            assert!(Instant::now() < until, "it does not answer:\n{}", self.terminal.text());
        }
    }

    fn leave(&self) {
        fs::write(self.place().join("over"), "").unwrap();
        let until = Instant::now() + PATIENCE;
        while !self.place().join("left").exists() {
            assert!(Instant::now() < until, "it does not leave:\n{}", self.terminal.text());
            self.press("q");
            std::thread::sleep(Duration::from_millis(200));
            if self.terminal.text().contains("Quit") {
                self.press("y");
            }
        }
    }

    /// Every mode that the screen sets is reset, as the terminal outside knows it.
    fn assert_modes_are_reset(&self) {
        let format = "#{alternate_on}#{cursor_flag}#{mouse_any_flag}#{keypad_flag}#{keypad_cursor_flag}#{insert_flag}";
        let modes = self.terminal.tmux(&["display-message", "-p", format]);
        assert_eq!(String::from_utf8_lossy(&modes.stdout).trim(), "010000");
        self.terminal.key("C-c");
        self.terminal.line("clear; cat -v");
        self.send(&["set-buffer", "pasted"]);
        self.send(&["paste-buffer", "-p"]);
        self.terminal.key("Enter");
        self.terminal.await_text("pasted");
        assert!(!self.terminal.text().contains("200~"), "{}", self.terminal.text());
        self.terminal.key("C-c");
        self.terminal.assert_restored();
    }

    fn walk(&mut self, steps: usize, taken: &mut usize) {
        self.start();
        for step in 0..steps {
            *taken = step;
            self.step();
            std::thread::sleep(Duration::from_millis(15));
            if step % 50 == 49 {
                self.assert_that_it_answers();
                self.assert_good_ends();
            }
        }
        self.leave();
        assert!(self.place().join("ends").exists());
        self.assert_good_ends();
        self.assert_modes_are_reset();
        assert!(self.bystander.try_wait().unwrap().is_none(), "somebody else was hit");
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        self.bystander.kill().unwrap();
        self.bystander.wait().unwrap();
        let socket = fs::read_dir(self.place().join("tmux")).into_iter().flatten().flatten().next();
        let server = socket.map(|folder| folder.path().join("w"));
        if let Some(server) = server {
            Command::new("tmux").arg("-S").arg(server).arg("kill-server").output().unwrap();
        }
    }
}

#[test]
fn a_random_walk_leaves_a_screen_that_answers_and_a_terminal_that_is_restored() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    let seed = number("WALK_SEED").unwrap_or(0x00c0_ffee_1234_5678);
    let steps = usize::try_from(number("WALK_STEPS").unwrap_or(600)).unwrap();
    let mut walk = Walk::new(seed);
    let mut taken = 0;
    let walked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| walk.walk(steps, &mut taken)));
    assert!(walked.is_ok(), "see above, at step {taken}; replay: WALK_SEED={seed} cargo test --test screen walk::");
}
