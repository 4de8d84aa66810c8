//! The launch form in a real terminal: filled by keys, completed from the disk, launched, edited, saved.

use std::fs;
use std::path::PathBuf;

use super::{Terminal, ends};
use rustix::process::{PidfdFlags, pidfd_open};

/// A stand-in for llama-server that says that its model file is not there, or waits.
const SERVER: &str = "#!/bin/sh\n[ -f \"$2\" ] || { echo \"error: failed to open $2\" >&2; exit 1; }\necho serving \"$2\"\nexec sleep 1000\n";

impl Terminal {
    fn place(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Starts the screen with a home and a program of its own; the working directory is the folder.
    fn start_at_home(&self) {
        use std::os::unix::fs::PermissionsExt;
        let (home, bin) = (self.place().join("home"), self.place().join("bin"));
        fs::create_dir_all(home.join("models")).unwrap();
        fs::create_dir_all(&bin).unwrap();
        fs::write(home.join("models/little-one.gguf"), format!("GGUF\x03\0\0\0{}", "\0".repeat(24))).unwrap();
        fs::write(bin.join("llama-server"), SERVER).unwrap();
        fs::set_permissions(bin.join("llama-server"), fs::Permissions::from_mode(0o755)).unwrap();
        let (place, home, bin) =
            (self.place().display().to_string(), home.display().to_string(), bin.display().to_string());
        self.line(&format!("cd {place}; export HOME={home} XDG_CONFIG_HOME={home}/c PATH={bin}:$PATH"));
        self.start();
    }

    fn types(&self, text: &str) {
        assert!(self.tmux(&["send-keys", "-l", "--", text]).status.success());
    }

    fn keys(&self, key: &str, times: usize) {
        (0..times).for_each(|_| self.key(key));
    }

    /// Returns whether the line of the form that has the keys has this label.
    fn await_line(&self, label: &str) {
        self.await_that(label, |text| text.lines().any(|line| line.contains(&format!("▌ {label}"))));
    }

    /// Types a command for a model that is found on the disk.
    fn complete_a_server(&self) {
        self.key("a");
        self.await_line("recipe");
        self.key("Tab");
        self.await_line("command");
        self.types("llama-ser");
        self.await_that("the program", |text| text.contains("llama-server") && text.contains("program"));
        self.key("Right");
        self.types("-m litt");
        self.await_text("little-one.gguf");
        self.key("Right");
        self.await_text("models/little-one.gguf");
    }
}

fn check_a_launch(cols: u16, rows: u16) {
    let terminal = Terminal::new(cols, rows);
    terminal.start_at_home();
    terminal.complete_a_server();
    // A directory that is not there is told at its line, and nothing is lost.
    terminal.keys("Tab", 4);
    terminal.await_line("cwd");
    terminal.types("/nowhere-at-all");
    terminal.key("Enter");
    terminal.await_text("is not a directory");
    terminal.await_line("cwd");
    assert_eq!(terminal.workloads(), []);
    terminal.keys("BSpace", "/nowhere-at-all".len());
    terminal.keys("Up", 2);
    terminal.await_line("kind");
    // It follows the program, and can be chosen.
    terminal.await_text("< serve >");
    terminal.key("Right");
    terminal.await_text("< agent >");
    terminal.key("Left");
    terminal.await_text("< serve >");
    terminal.key("Down");
    terminal.await_line("host");
    terminal.key("Right");
    terminal.await_text("< pty >");
    terminal.key("Enter");
    terminal.await_that("its session", |text| text.contains("llama-server") && !text.contains("╭─ Launch"));
    let pid = loop {
        if let Some(pid) = terminal.workloads().first() {
            break *pid;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    let server = pidfd_open(pid, PidfdFlags::empty()).unwrap();
    // Edited and launched again: the one that runs is previewed, and gives place.
    terminal.key("E");
    terminal.await_text("Edit and launch again");
    terminal.await_line("command");
    terminal.key("Tab");
    terminal.await_line("name");
    terminal.types("second");
    terminal.key("Enter");
    terminal.await_text("Replace: ");
    terminal.await_text(&pid.as_raw_nonzero().to_string());
    terminal.confirm("Replace: ");
    assert!(ends(&server), "exactly that one");
    terminal.await_that("the new one alone", |text| {
        text.contains("second") && !text.contains("Replace: ") && !text.contains("Edit and launch")
    });
    assert_eq!(terminal.workloads().len(), 1);
    terminal.key("x");
    terminal.await_that("the plan", |text| text.contains("signalled") || text.contains("to signal"));
    terminal.confirm("Stop: ");
    terminal.await_that("its end", |text| text.contains("stopped"));
    // One that is over is launched again without a question.
    terminal.key("E");
    terminal.await_text("Edit and launch again");
    terminal.key("Enter");
    terminal.await_that("it runs again", |_| !terminal.workloads().is_empty());
    terminal.await_that("the panes", |text| !text.contains("Edit and launch"));
    terminal.key("x");
    terminal.await_that("the plan", |text| text.contains("signalled") || text.contains("to signal"));
    terminal.confirm("Stop: ");
    terminal.await_that("its end", |text| text.contains("stopped"));
    terminal.key("q");
    terminal.await_text("prompt>");
    terminal.assert_restored();
}

#[test]
fn a_model_on_disk_is_launched_by_the_form_at_140x36() {
    check_a_launch(140, 36);
}

#[test]
fn a_model_on_disk_is_launched_by_the_form_at_80x24() {
    check_a_launch(80, 24);
}

#[test]
fn a_model_on_disk_is_launched_by_the_form_at_60x15() {
    check_a_launch(60, 15);
}

#[test]
fn a_recipe_is_saved_from_the_form_and_every_comment_stays() {
    let terminal = Terminal::new(100, 36);
    let config = terminal.place().join("home/c/cookbook-tui/config.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    let before = "# my own file\n[ui]   # how it looks\ntheme = \"mono\"  # no colours\n# the end\n";
    fs::write(&config, before).unwrap();
    terminal.start_at_home();
    terminal.complete_a_server();
    terminal.key("Tab");
    terminal.types("little");
    terminal.keys("Tab", 6);
    terminal.types("HF_TOKEN=hf_donotwriteme");
    terminal.await_text("HF_TOKEN=***");
    assert!(!terminal.text().contains("donotwriteme"), "{}", terminal.text());
    terminal.keys("Tab", 3);
    terminal.await_line("[ Save as recipe ]");
    terminal.key("Enter");
    terminal.await_text("saved as recipe little");
    terminal.await_text("HF_TOKEN was not written");
    let after = fs::read_to_string(&config).unwrap();
    assert!(
        after.contains("name = \"little\"") && after.contains("little-one.gguf") && !after.contains("donotwriteme"),
        "{after}"
    );
    assert!(after.starts_with(&format!("{before}\n[[recipe]]\n")), "{after}");
    // A second time it asks.
    terminal.await_line("[ Save as recipe ]");
    terminal.key("Enter");
    terminal.await_text("[ Replace the recipe of that name ]");
    assert_eq!(fs::read_to_string(&config).unwrap(), after);
    terminal.key("Escape");
    terminal.await_that("the panes", |text| !text.contains("─ Launch"));
    terminal.key("s");
    terminal.await_text("Start");
    terminal.await_text("little");
    terminal.key("Escape");
    terminal.await_that("the panes", |text| !text.contains("Start"));
    terminal.key("q");
    terminal.await_text("prompt>");
}

/// Its model file is renamed while it runs, and it fails: the one beside it is suggested, and launched by two keys.
#[test]
fn a_suggestion_is_opened_and_launched() {
    let terminal = Terminal::new(140, 36);
    terminal.start_at_home();
    let model = terminal.place().join("home/models/little-one.gguf");
    let server = "#!/bin/sh\nwhile [ -f \"$2\" ]; do sleep 0.2; done\nexit 1\n";
    fs::write(terminal.place().join("bin/llama-server"), server).unwrap();
    terminal.complete_a_server();
    terminal.keys("Tab", 2);
    terminal.await_text("< serve >");
    terminal.key("Down");
    terminal.key("Right");
    terminal.await_text("< pty >");
    terminal.key("Enter");
    terminal.await_that("its session", |_| !terminal.workloads().is_empty());
    fs::rename(&model, model.with_file_name("little-two.gguf")).unwrap();
    terminal.await_text("(F opens a fix)");
    terminal.key("F");
    terminal.await_text("Edit and launch again");
    terminal.await_that("the other file", |text| {
        text.lines().any(|line| line.contains("▌ command") && line.contains("models/little-two.gguf"))
    });
    terminal.key("Enter");
    terminal.await_that("a server that runs", |text| !text.contains("Edit and launch") && !text.contains("exit 1"));
    terminal.await_that("its record", |_| !terminal.workloads().is_empty());
    let running = pidfd_open(*terminal.workloads().first().unwrap(), PidfdFlags::empty()).unwrap();
    terminal.key("x");
    terminal.await_that("the plan", |text| text.contains("signalled") || text.contains("to signal"));
    terminal.confirm("Stop: ");
    assert!(ends(&running));
    terminal.key("q");
    terminal.await_text("prompt>");
}
