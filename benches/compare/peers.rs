//! The tools that others use for the same: where they are, or how they are installed, each into a directory of ours.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program, and what installs it; `{}` stands for the directory. Without commands the host has it or not.
struct Recipe {
    program: &'static str,
    commands: &'static [&'static str],
}

const VENV: &str = "python3 -m venv {}/venv";

const RECIPES: [Recipe; 8] = [
    Recipe { program: "tmux", commands: &[] },
    Recipe { program: "mprocs", commands: &["cargo install --locked --root {}/cargo mprocs"] },
    Recipe { program: "pueue", commands: &["cargo install --locked --root {}/cargo pueue"] },
    Recipe { program: "supervisorctl", commands: &[VENV, "{}/venv/bin/pip install -q setuptools<81 supervisor"] },
    Recipe { program: "circusctl", commands: &[VENV, "{}/venv/bin/pip install -q circus"] },
    Recipe { program: "honcho", commands: &[VENV, "{}/venv/bin/pip install -q honcho"] },
    Recipe { program: "pm2", commands: &["npm install --no-audit --no-fund --prefix {}/npm pm2"] },
    Recipe { program: "psutil", commands: &[VENV, "{}/venv/bin/pip install -q psutil"] },
];

/// Where the tools are.
#[derive(Clone, Default)]
pub(crate) struct Peers {
    dir: PathBuf,
}

impl Peers {
    /// Looks for all of them, and installs what is missing, if so wished. Returns what cannot be had, and why.
    pub(crate) fn find(install: bool) -> (Self, Vec<(String, String)>) {
        let peers = Self { dir: Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers") };
        fs::create_dir_all(&peers.dir).unwrap();
        let mut missing = Vec::new();
        for Recipe { program, commands } in RECIPES {
            if peers.has(program) {
                continue;
            }
            let why = match (commands.is_empty(), install) {
                (true, _) => Some("the host does not have it".to_owned()),
                (false, false) => Some("not installed; a run without --quick and --no-install does that".to_owned()),
                (false, true) => peers.install(program, commands).err(),
            };
            if let Some(why) =
                why.or_else(|| (!peers.has(program)).then(|| "it was installed, and is not there".to_owned()))
            {
                missing.push((program.to_owned(), why));
            }
        }
        (peers, missing)
    }

    fn install(&self, program: &str, commands: &[&str]) -> Result<(), String> {
        eprintln!("installing {program} into {}", self.dir.display());
        let log = self.dir.join(format!("{program}.log"));
        let output = fs::File::create(&log).unwrap();
        for line in commands {
            let line = line.replace("{}", self.dir.to_str().unwrap());
            let words: Vec<&str> = line.split(' ').collect();
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).env("CARGO_TARGET_DIR", self.dir.join("build")).stdin(Stdio::null());
            command.stdout(output.try_clone().unwrap()).stderr(output.try_clone().unwrap());
            let status = command.status().map_err(|error| format!("{}: {error}", words[0]))?;
            if !status.success() {
                return Err(format!("`{}` failed, see {}", words[0], log.display()));
            }
        }
        Ok(())
    }

    fn dirs(&self) -> Vec<PathBuf> {
        let ours = ["cargo/bin", "venv/bin", "npm/node_modules/.bin"].map(|name| self.dir.join(name));
        let path = std::env::var_os("PATH").unwrap_or_default();
        ours.into_iter().chain(std::env::split_paths(&path)).collect()
    }

    /// Returns a `PATH` with the tools first.
    pub(crate) fn path(&self) -> OsString {
        std::env::join_paths(self.dirs()).unwrap()
    }

    pub(crate) fn program(&self, program: &str) -> Option<PathBuf> {
        self.dirs().into_iter().map(|dir| dir.join(program)).find(|path| path.is_file())
    }

    pub(crate) fn has(&self, program: &str) -> bool {
        match program {
            "psutil" => self.python(&["-c", "import psutil"]).is_some(),
            _ => self.program(program).is_some(),
        }
    }

    /// Runs Python and returns what it prints, where it ends well.
    pub(crate) fn python(&self, arguments: &[&str]) -> Option<String> {
        self.answer("python3", arguments)
    }

    fn answer(&self, program: &str, arguments: &[&str]) -> Option<String> {
        let mut command = Command::new(self.program(program)?);
        command.args(arguments).env("PATH", self.path()).stdin(Stdio::null()).stderr(Stdio::null());
        let output = command.output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Returns the name and version of each that is there.
    pub(crate) fn versions(&self) -> Vec<String> {
        let of = |name: &str, answer: Option<String>| {
            // The last word with a digit in its first line; `tmux 3.3a`, `pm2` says the number alone.
            let answer = answer?;
            let version = answer.lines().next()?.split_whitespace().next_back()?.to_owned();
            Some(format!("{name} {version}"))
        };
        let script = "import importlib.metadata as m,sys;print(m.version(sys.argv[1]))";
        let package = |name: &str| of(name, self.python(&["-c", script, name]));
        let programs = [("tmux", "-V"), ("mprocs", "--version"), ("pueue", "--version")];
        let mut all: Vec<String> =
            programs.iter().filter_map(|(name, word)| of(name, self.answer(name, &[word]))).collect();
        all.extend(["supervisor", "circus", "honcho", "psutil"].iter().filter_map(|name| package(name)));
        let package = fs::read_to_string(self.dir.join("npm/node_modules/pm2/package.json")).unwrap_or_default();
        let package: Option<serde_json::Value> = serde_json::from_str(&package).ok();
        all.extend(package.and_then(|package| Some(format!("pm2 {}", package["version"].as_str()?))));
        all
    }
}
