//! The stops: who is left of a workload, and when its last process died, by the harness's own ledger and pidfds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::figures::{Run, Stops};
use crate::held::Flock;
use crate::report::Report;
use crate::tools::{self, Setting, Tool};

/// A shape of a process tree, by its name in `job.sh`.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// Who lives when it is stopped.
    lives: &'static [&'static str],
    /// Who has ended by itself before.
    gone: &'static [&'static str],
}

const BOTH: &[&str] = &["leader", "child"];

pub(crate) const WORKLOADS: [Workload; 7] = [
    Workload { name: "plain child", lives: BOTH, gone: &[] },
    Workload { name: "deaf to TERM", lives: BOTH, gone: &[] },
    Workload { name: "child in its own group", lives: BOTH, gone: &[] },
    Workload { name: "setsid daemon", lives: BOTH, gone: &[] },
    Workload { name: "double fork", lives: BOTH, gone: &[] },
    Workload { name: "leader gone", lives: &["child"], gone: &["leader"] },
    Workload { name: "forks on TERM", lives: BOTH, gone: &[] },
];

/// After the last death and the answer, in which somebody new would show up.
const QUIET: Duration = Duration::from_millis(150);

/// One tool, and what its stops came to.
struct Bench {
    tool: Box<dyn Tool>,
    dir: PathBuf,
    runs: Vec<(&'static str, Run)>,
    failed: Option<String>,
}

pub(crate) fn stops(report: &mut Report) {
    let place = tempfile::Builder::new().prefix("cb").tempdir_in("/tmp").unwrap();
    let setting =
        Setting { grace: Duration::from_millis(if report.quick { 300 } else { 1000 }), peers: report.peers.clone() };
    let mut benches = Vec::new();
    for (name, open) in tools::TOOLS {
        let dir = place.path().join(name.replace(' ', "-"));
        fs::create_dir(&dir).unwrap();
        match open(&dir, &setting) {
            Ok(tool) => benches.push(Bench { tool, dir, runs: Vec::new(), failed: None }),
            Err(why) => report.skip(name, &why),
        }
    }
    let wanted =
        |workload: &&Workload| report.workloads.is_empty() || report.workloads.iter().any(|name| name == workload.name);
    // The third part is enough to see that every tool works.
    let step = if report.quick && report.workloads.is_empty() { 3 } else { 1 };
    let workloads: Vec<&Workload> = WORKLOADS.iter().filter(wanted).step_by(step).collect();
    if report.quick {
        // Nothing is measured, so that they need not take turns.
        std::thread::scope(|scope| {
            for bench in &mut benches {
                scope.spawn(|| workloads.iter().for_each(|workload| bench.run(workload, 0, setting.grace)));
            }
        });
    } else {
        for number in 0..report.runs {
            for workload in &workloads {
                for bench in &mut benches {
                    bench.run(workload, number, setting.grace);
                }
            }
        }
    }
    for workload in &workloads {
        for bench in &benches {
            let runs: Vec<Run> =
                bench.runs.iter().filter(|(name, _)| *name == workload.name).map(|(_, run)| *run).collect();
            if !runs.is_empty() {
                report.put_stops(Stops::of(workload.name, bench.tool.name(), bench.tool.grace(), &runs));
            }
        }
    }
    for bench in benches {
        if let Some(why) = &bench.failed {
            report.skip(bench.tool.name(), why);
        }
    }
}

impl Bench {
    fn run(&mut self, workload: &Workload, number: usize, grace: Duration) {
        if self.failed.is_some() {
            return;
        }
        match once(&mut *self.tool, workload, &self.dir, number, grace) {
            Ok(run) => self.runs.push((workload.name, run)),
            Err(why) => self.failed = Some(format!("{}: {why}", workload.name)),
        }
    }
}

/// Writes out what the tool starts. A shell that still reads the one before goes on with that.
pub(crate) fn write_job(dir: &Path, workload: &str, ledger: &Path) -> PathBuf {
    let text = include_str!("job.sh").replace("@workload@", workload);
    let (path, next) = (dir.join("job"), dir.join("job.next"));
    fs::write(&next, text.replace("@ledger@", ledger.to_str().unwrap())).unwrap();
    fs::rename(next, &path).unwrap();
    path
}

fn once(tool: &mut dyn Tool, workload: &Workload, dir: &Path, number: usize, grace: Duration) -> Result<Run, String> {
    let word = format!("{}-{number}", workload.name.replace(' ', "-"));
    let ledger = dir.join(format!("{word}.ledger"));
    let job = write_job(dir, workload.name, &ledger);
    let bystanders = Bystanders::call(&job, &dir.join(format!("{word}.bystanders")), workload)?;
    let mut flock = Flock::follow(&ledger);
    tool.start(&job)?;
    flock.wait_for(workload.lives, workload.gone)?;
    let (begun, mut last, mut answered) = (Instant::now(), None, None);
    std::thread::scope(|scope| {
        let stop = scope.spawn(|| tool.stop());
        loop {
            flock.read();
            if flock.alive() == 0 {
                std::thread::sleep(Duration::from_millis(2));
            } else if flock.wait(Duration::from_millis(2)) {
                last = Some(begun.elapsed());
            }
            if answered.is_none() && stop.is_finished() {
                answered = Some(Instant::now());
            }
            let Some(answered) = answered else { continue };
            let over = flock.alive() == 0 && answered.elapsed() >= QUIET;
            // Whoever was to die gets the grace again.
            if over || answered.elapsed() > QUIET + grace {
                break;
            }
        }
    });
    flock.read();
    let survivors = flock.alive();
    flock.end();
    let dead = bystanders.dead();
    tool.after();
    Ok(Run { survivors, bystanders: dead, last_death: last.map(|last| last.as_secs_f64()) })
}

/// The same command line, started by the harness: nobody's to end.
struct Bystanders {
    child: Child,
    flock: Flock,
    lives: &'static [&'static str],
}

impl Bystanders {
    fn call(job: &Path, ledger: &Path, workload: &Workload) -> Result<Self, String> {
        let mut command = Command::new("setsid");
        command.args(["bash", job.to_str().unwrap()]).env("COMPARE_LEDGER", ledger);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut bystanders = Self { child, flock: Flock::follow(ledger), lives: workload.lives };
        bystanders.flock.wait_for(workload.lives, workload.gone)?;
        Ok(bystanders)
    }

    fn dead(&self) -> usize {
        self.flock.ended(self.lives)
    }
}

impl Drop for Bystanders {
    fn drop(&mut self) {
        self.flock.end();
        self.child.wait().unwrap();
    }
}
