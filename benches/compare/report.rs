//! Collects what is measured, and prints it as it comes.

use std::fs;
use std::time::Duration;

use crate::figures::{Amount, Figure, Figures, Goal, Other, Skipped, Stops, quantile};
use crate::peers::Peers;

/// The run so far.
pub(crate) struct Report {
    figures: Figures,
    group: &'static str,
    /// Only to see that the harness works: as few rounds as there can be.
    pub(crate) quick: bool,
    /// Stops of each workload by each tool.
    pub(crate) runs: usize,
    /// Workloads that are wanted; all of them where none is named.
    pub(crate) workloads: Vec<String>,
    pub(crate) peers: Peers,
}

impl Report {
    pub(crate) fn new(quick: bool, install: bool, runs: usize, workloads: Vec<String>) -> Self {
        let mut figures = Figures::default();
        figures.machine.kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap().trim().into();
        figures.machine.cores = std::thread::available_parallelism().unwrap().get();
        figures.machine.load[0] = load();
        figures.machine.quick = quick;
        println!("load at the start: {:.2} on {} cores", figures.machine.load[0], figures.machine.cores);
        let mut report = Self { figures, group: "", quick, runs, workloads, peers: Peers::default() };
        let (peers, missing) = Peers::find(install);
        report.peers = peers;
        report.begin("peers");
        for (what, why) in missing {
            report.skip(&what, &why);
        }
        report.figures.machine.versions = report.peers.versions();
        report
    }

    pub(crate) fn begin(&mut self, group: &'static str) {
        self.group = group;
    }

    /// Returns a number of rounds: of a real one, or of a quick one.
    pub(crate) fn rounds(&self, real: usize, quick: usize) -> usize {
        if self.quick { quick } else { real }
    }

    pub(crate) fn put(&mut self, figure: Figure) {
        let figure = Figure { group: self.group.to_owned(), ..figure };
        println!("{}", figure.line());
        self.figures.costs.push(figure);
    }

    pub(crate) fn put_stops(&mut self, stops: Stops) {
        println!("{}", stops.line());
        self.figures.stops.push(stops);
    }

    pub(crate) fn skip(&mut self, what: &str, why: &str) {
        println!("{:<8} {what}: skipped: {why}", self.group);
        let (group, what, why) = (self.group.to_owned(), what.to_owned(), why.to_owned());
        self.figures.skipped.push(Skipped { group, what, why });
    }

    pub(crate) fn finish(mut self) -> Figures {
        self.figures.machine.load[1] = load();
        println!("load at the end: {:.2}", self.figures.machine.load[1]);
        self.figures
    }
}

fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// Begins a row.
pub(crate) fn figure(what: &str, ours: impl Into<Amount>) -> Figure {
    let (group, what, ours) = (String::new(), what.to_owned(), ours.into());
    Figure { group, what, ours, others: Vec::new(), goal: None, told: false }
}

impl Figure {
    pub(crate) fn beside(mut self, name: &str, amount: impl Into<Amount>) -> Self {
        self.others.push(Other { name: name.to_owned(), amount: amount.into() });
        self
    }

    /// The same, where the other side could be had.
    pub(crate) fn beside_any(self, name: &str, amount: Option<impl Into<Amount>>) -> Self {
        match amount {
            Some(amount) => self.beside(name, amount),
            None => self,
        }
    }

    pub(crate) fn at_most(self, most: impl Into<Amount>) -> Self {
        Self { goal: Some(Goal::AtMost(most.into())), ..self }
    }

    pub(crate) fn between(self, least: Amount, most: Amount) -> Self {
        Self { goal: Some(Goal::Between(least, most)), ..self }
    }

    pub(crate) fn times(self, of: &str, at_most: f64) -> Self {
        Self { goal: Some(Goal::Times { of: of.to_owned(), at_most }), ..self }
    }

    /// The README tells it.
    pub(crate) fn told(self) -> Self {
        Self { told: true, ..self }
    }
}

impl From<Duration> for Amount {
    fn from(duration: Duration) -> Self {
        Self::Seconds(duration.as_secs_f64())
    }
}

/// Returns the value below which this part of all values is; there is at least one.
pub(crate) fn part(times: &mut [Duration], part: f64) -> Duration {
    times.sort();
    quantile(times, part)
}

pub(crate) fn median(times: &mut [Duration]) -> Duration {
    part(times, 0.5)
}

/// Returns the median, where there is one.
pub(crate) fn median_of(times: &mut [Duration]) -> Option<Duration> {
    (!times.is_empty()).then(|| median(times))
}

/// Returns the medians of two sides, measured in turns.
pub(crate) fn medians(rounds: usize, mut ours: impl FnMut(), mut other: impl FnMut()) -> (Duration, Duration) {
    let mut times = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        times.0.push(timed(&mut ours));
        times.1.push(timed(&mut other));
    }
    (median(&mut times.0), median(&mut times.1))
}

pub(crate) fn timed(work: impl FnOnce()) -> Duration {
    let start = std::time::Instant::now();
    work();
    start.elapsed()
}
