//! Everything that is claimed about speed, cost and survivors, beside what people use for the same.
//!
//!     scripts/compare [--quick] [--no-install] [--runs N] [--json FILE] [--readme] [WORD...]
//!
//! Prints one table; asserts nothing about speed. Words choose groups of rows, and of the stops their workloads.
//! All sides of a ratio are measured in this one run, in turns, so that a busy host slows all of them. The harness is
//! the outer terminal of whoever draws, and holds pidfds of whoever is to die: no tool is asked how it went.
//! What it starts it ends, by the pid and start that it holds. Where the harness itself is ended from outside, what it had
//! started is left to its own end: every sleep is one of ten minutes, and that of the one tmux server of an hour.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench starts its own processes and prints its table"
)]

mod figures;
mod flood;
mod frames;
mod held;
mod history;
mod launches;
mod ledger;
mod lifecycle;
mod owner;
mod paint;
mod peers;
mod place;
mod quiet;
mod report;
mod rest;
mod stops;
mod strangers;
mod terminal;
mod tools;
mod trees;
mod typing;

use std::path::{Path, PathBuf};

use figures::{Figures, put_between_markers};
use report::Report;

/// The committed figures, which the README tells.
const COMMITTED: &str = "assets/figures.json";

type Group = fn(&mut Report);

const GROUPS: [(&str, Group); 15] = [
    ("stop", stops::stops),
    ("owner", owner::owner),
    ("verify", lifecycle::verify),
    ("empty", lifecycle::empty),
    ("scan", strangers::scan),
    ("frame", frames::first_frame),
    ("flood", flood::flood),
    ("echo", typing::echo),
    ("keys", typing::keys),
    ("quit", rest::stalled),
    ("idle", rest::idle),
    ("history", history::history),
    ("warden", rest::warden),
    ("launch", launches::launches),
    ("paint", paint::paint),
];

fn main() {
    let asked = Asked::parse(std::env::args().skip(1)).unwrap_or_else(|complaint| {
        eprintln!("{complaint}");
        std::process::exit(2)
    });
    if asked.readme {
        write_readme();
        return;
    }
    let install = !asked.quick && !asked.no_install;
    let mut report = Report::new(asked.quick, install, asked.runs, asked.workloads.clone());
    let chosen = |name: &str| asked.groups.is_empty() || asked.groups.iter().any(|group| group == name);
    let groups: Vec<&(&str, Group)> = GROUPS.iter().filter(|(name, _)| chosen(name)).collect();
    for (name, group) in &groups {
        report.begin(name);
        let took = report::timed(|| group(&mut report));
        eprintln!("({name} took {:.0} s)", took.as_secs_f64());
    }
    let measured = report.finish();
    if let Some(path) = &asked.json {
        let names: Vec<&str> = groups.iter().map(|(name, _)| *name).collect();
        let mut all = read(path).unwrap_or_default();
        all.renew(measured, &names);
        std::fs::write(path, serde_json::to_string_pretty(&all).unwrap() + "\n").unwrap();
        println!("written to {}", path.display());
    }
}

fn read(path: &Path) -> Option<Figures> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// Renders the committed figures into the README.
fn write_readme() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let figures = read(&root.join(COMMITTED))
        .unwrap_or_else(|| panic!("{COMMITTED} is missing: scripts/compare --json {COMMITTED}"));
    assert!(!figures.machine.quick, "{COMMITTED} is of a run with --quick, which measures nothing");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let readme = put_between_markers(&readme, &figures.tables()).expect("README.md has lost a marker");
    std::fs::write(root.join("README.md"), readme).unwrap();
    println!("README.md tells {COMMITTED}");
}

/// What the command line asks for.
struct Asked {
    quick: bool,
    no_install: bool,
    runs: usize,
    json: Option<PathBuf>,
    readme: bool,
    groups: Vec<String>,
    workloads: Vec<String>,
}

impl Asked {
    fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut asked = Self {
            quick: false,
            no_install: false,
            runs: 5,
            json: None,
            readme: false,
            groups: Vec::new(),
            workloads: Vec::new(),
        };
        let mut words = words;
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} takes a value"));
            match word.as_str() {
                // Cargo's own word to every bench.
                "--bench" => {}
                "--quick" => (asked.quick, asked.runs) = (true, 1),
                "--no-install" => asked.no_install = true,
                "--readme" => asked.readme = true,
                // Cargo runs a bench in the directory of its package; a file is meant from where the person is.
                "--json" => {
                    let from = std::env::var_os("COMPARE_FROM").unwrap_or_default();
                    asked.json = Some(Path::new(&from).join(value()?));
                }
                "--runs" => {
                    let text = value()?;
                    let runs = text.parse().ok().filter(|runs| *runs > 0);
                    asked.runs = runs.ok_or_else(|| format!("--runs takes a number above 0, not {text:?}"))?;
                }
                name if GROUPS.iter().any(|(group, _)| *group == name) => asked.groups.push(word),
                name if stops::WORKLOADS.iter().any(|workload| workload.name == name) => asked.workloads.push(word),
                _ => {
                    let groups: Vec<&str> = GROUPS.iter().map(|(group, _)| *group).collect();
                    let workloads: Vec<&str> = stops::WORKLOADS.iter().map(|workload| workload.name).collect();
                    return Err(format!(
                        "{word:?} is neither an option (--quick, --no-install, --runs N, --json FILE, --readme), nor a group ({}), nor a \
                         workload of the stops ({})",
                        groups.join(", "),
                        workloads.join(", ")
                    ));
                }
            }
        }
        if asked.json.is_some() && !asked.workloads.is_empty() {
            return Err("--json keeps all stops or none: leave out the workload".to_owned());
        }
        Ok(asked)
    }
}
