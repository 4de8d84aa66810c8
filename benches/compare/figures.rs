//! What a run came to, as data, and how it is shown: as a table, as JSON, as the README's tables.
//!
//! Nothing here measures, and nothing here knows the machine. `tests/house` holds the README against these
//! functions and the committed JSON, so that a claim cannot be edited by hand.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// Between these the README's tables stand.
pub(crate) const MARKERS: [&str; 2] = ["<!-- figures: begin -->\n", "<!-- figures: end -->\n"];
/// What reruns a row, before the row's word.
const COMMAND: &str = "scripts/compare";

/// All that was measured on one machine.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figures {
    pub(crate) machine: Machine,
    /// What could not be had, and why.
    pub(crate) skipped: Vec<Skipped>,
    pub(crate) stops: Vec<Stops>,
    pub(crate) costs: Vec<Figure>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Machine {
    pub(crate) kernel: String,
    pub(crate) cores: usize,
    /// The load averages of one minute before and after.
    pub(crate) load: [f64; 2],
    pub(crate) versions: Vec<String>,
    /// The harness was tried; nothing was measured.
    pub(crate) quick: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Skipped {
    pub(crate) group: String,
    pub(crate) what: String,
    pub(crate) why: String,
}

/// All stops of one workload by one tool.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stops {
    pub(crate) workload: String,
    pub(crate) tool: String,
    pub(crate) runs: usize,
    /// Runs that left somebody alive.
    pub(crate) left: usize,
    /// Bystanders that did not live.
    pub(crate) bystanders: usize,
    /// From the stop to the last death, in seconds: median and longest of the runs that left nobody.
    pub(crate) median: Option<f64>,
    pub(crate) longest: Option<f64>,
    /// Grace before KILL that the tool was given (or insists on), in seconds.
    pub(crate) grace: f64,
}

/// What the names of our own sides begin with.
const OURS: &str = "here ";
/// Seconds from a stop, or from the end of its grace, to the last death.
const STOP_GOAL: f64 = 0.005;

/// One thing that was measured, beside others.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figure {
    /// The word that reruns it.
    pub(crate) group: String,
    pub(crate) what: String,
    pub(crate) ours: Amount,
    pub(crate) others: Vec<Other>,
    pub(crate) goal: Option<Goal>,
    /// Stands in the README.
    pub(crate) told: bool,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Other {
    pub(crate) name: String,
    pub(crate) amount: Amount,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Amount {
    Seconds(f64),
    Bytes(f64),
    BytesPerSecond(f64),
    PerSecond(f64),
    /// Of one core; 1 is all of it.
    OfACore(f64),
}

/// Not more than this, or not more than so much of another side; a share of less than nothing is at least.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Goal {
    AtMost(Amount),
    Between(Amount, Amount),
    Times { of: String, at_most: f64 },
}

impl Amount {
    fn value(self) -> f64 {
        match self {
            Self::Seconds(value)
            | Self::Bytes(value)
            | Self::BytesPerSecond(value)
            | Self::PerSecond(value)
            | Self::OfACore(value) => value,
        }
    }
}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match *self {
            Self::Seconds(value) if value < 1e-3 => format!("{} us", digits(value * 1e6)),
            Self::Seconds(value) if value < 1.0 => format!("{} ms", digits(value * 1e3)),
            Self::Seconds(value) => format!("{} s", digits(value)),
            Self::Bytes(value) if value < 1024.0 * 1024.0 => format!("{} KiB", digits(value / 1024.0)),
            Self::Bytes(value) => format!("{} MiB", digits(value / 1024.0 / 1024.0)),
            Self::BytesPerSecond(value) if value >= 10_000.0 => format!("{} kB/s", digits(value / 1e3)),
            Self::BytesPerSecond(value) => format!("{value:.0} B/s"),
            Self::PerSecond(value) => format!("{}/s", digits(value)),
            Self::OfACore(value) => format!("{} % of a core", digits(value * 100.0)),
        };
        f.pad(&text)
    }
}

/// Two digits that say something; more would be noise.
fn digits(value: f64) -> String {
    let places = match value {
        0.0 => 0,
        ..0.1 => 3,
        ..1.0 => 2,
        ..10.0 => 1,
        _ => 0,
    };
    format!("{value:.places$}")
}

impl Figure {
    fn ratio(&self, other: &Other) -> Option<f64> {
        (other.amount.value() > 0.0).then(|| self.ours.value() / other.amount.value())
    }

    /// Tells whether the goal is met; `None` where there is none, or its other side could not be had.
    pub(crate) fn meets(&self) -> Option<bool> {
        match self.goal.as_ref()? {
            Goal::AtMost(most) => Some(self.ours.value() <= most.value()),
            Goal::Between(least, most) => Some((least.value()..=most.value()).contains(&self.ours.value())),
            Goal::Times { of, at_most } => {
                let other = self.others.iter().find(|other| other.name == *of)?;
                Some(self.ratio(other)? <= *at_most)
            }
        }
    }

    fn goal(&self) -> String {
        let missed = if self.meets() == Some(false) { ", missed" } else { "" };
        match &self.goal {
            None => String::new(),
            Some(Goal::AtMost(most)) => format!("<= {most}{missed}"),
            Some(Goal::Between(least, most)) => format!("{least} to {most}{missed}"),
            Some(Goal::Times { of, at_most }) => format!("<= {at_most} x {of}{missed}"),
        }
    }

    fn compared(&self) -> String {
        let shown = self.others.iter().map(|other| {
            let ratio = self.ratio(other).map(|ratio| format!(" (x {})", digits(ratio))).unwrap_or_default();
            format!("{} {}{ratio}", other.name, other.amount)
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    /// Returns one line of the run's table.
    pub(crate) fn line(&self) -> String {
        let line =
            format!("{:<8} {:<56} {:>15}  {:<24} {}", self.group, self.what, self.ours, self.goal(), self.compared());
        line.trim_end().to_owned()
    }
}

impl Stops {
    /// Sums up the runs: for each who was left, whether the bystanders lived, and when the last one died.
    pub(crate) fn of(workload: &str, tool: &str, grace: f64, runs: &[Run]) -> Self {
        let clean = runs.iter().filter(|run| run.survivors == 0);
        let mut times: Vec<f64> = clean.filter_map(|run| run.last_death).collect();
        times.sort_by(f64::total_cmp);
        Self {
            workload: workload.to_owned(),
            tool: tool.to_owned(),
            runs: runs.len(),
            left: runs.iter().filter(|run| run.survivors > 0).count(),
            bystanders: runs.iter().map(|run| run.bystanders).sum(),
            median: (!times.is_empty()).then(|| quantile(&times, 0.5)),
            longest: times.last().copied(),
            grace,
        }
    }

    fn cell(&self) -> String {
        let mut cell = match (self.left, self.median) {
            (0, Some(median)) => self.last_death(median),
            (0, None) => "none left".to_owned(),
            (left, _) if left == self.runs => "**leaves some**".to_owned(),
            (left, _) => format!("**leaves some** in {left} of {}", self.runs),
        };
        if self.bystanders > 0 {
            let _ = write!(cell, ", **{} bystanders died**", self.bystanders);
        }
        cell
    }

    /// Shows when the last one died: of those that wait for KILL, how long after the grace. Ours have a goal.
    fn last_death(&self, median: f64) -> String {
        let waited = self.grace > 0.0 && median >= self.grace;
        let after = if waited { median - self.grace } else { median };
        let missed = if self.tool.starts_with(OURS) && after > STOP_GOAL { ", missed" } else { "" };
        format!("{}{}{missed}", if waited { "grace + " } else { "" }, Amount::Seconds(after))
    }

    /// Returns one line of the run's table.
    pub(crate) fn line(&self) -> String {
        let Self { workload, tool, runs, left, bystanders, .. } = self;
        let time = |time: Option<f64>| time.map_or_else(String::new, |time| Amount::Seconds(time).to_string());
        format!(
            "{:<8} {workload:<24} {tool:<18} left some in {left:>2} of {runs:<2}  bystanders dead {bystanders:<2}  \
             last death {:>8}, at most {:>8}",
            "stop",
            time(self.median),
            time(self.longest)
        )
    }
}

/// One stop: what the harness saw.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) survivors: usize,
    pub(crate) bystanders: usize,
    /// From the stop to the last death, in seconds.
    pub(crate) last_death: Option<f64>,
}

/// Returns the value below which this part of all sorted values is.
pub(crate) fn quantile<T: Copy>(sorted: &[T], part: f64) -> T {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index"
    )]
    let at = ((sorted.len() - 1) as f64 * part).round() as usize;
    sorted[at]
}

impl Figures {
    /// Takes over what a later run measured anew; its other groups stay.
    pub(crate) fn renew(&mut self, later: Self, groups: &[&str]) {
        let stays = |group: &str| !groups.contains(&group);
        self.skipped.retain(|skipped| stays(&skipped.group));
        self.costs.retain(|figure| stays(&figure.group));
        if !stays("stop") {
            self.stops.clear();
        }
        self.machine = later.machine;
        self.skipped.extend(later.skipped);
        self.stops.extend(later.stops);
        self.costs.extend(later.costs);
    }

    /// Returns what stands between the README's markers.
    pub(crate) fn tables(&self) -> String {
        if self.stops.is_empty() && self.costs.is_empty() {
            return format!("Not measured yet: `{COMMAND} --json assets/figures.json`, then `{COMMAND} --readme`.\n");
        }
        let Machine { kernel, cores, load, versions, .. } = &self.machine;
        let mut text = format!(
            "Measured by `{COMMAND}` all sides of a row in the same run and in turns, on {cores} cores with Linux {kernel} (load {:.1} to {:.1}); {}.\n",
            load[0],
            load[1],
            versions.join(", ")
        );
        if !self.stops.is_empty() {
            text.push_str(&self.stop_table());
        }
        // What misses its goal is told, whatever was meant to be.
        let told: Vec<&Figure> =
            self.costs.iter().filter(|figure| figure.told || figure.meets() == Some(false)).collect();
        if !told.is_empty() {
            text.push_str("\n| what it costs | here | compared with | goal | again |\n|---|---|---|---|---|\n");
            for figure in told {
                let Figure { group, what, ours, .. } = figure;
                let _ = writeln!(
                    text,
                    "| {what} | {ours} | {} | {} | `{COMMAND} {group}` |",
                    figure.compared(),
                    figure.goal()
                );
            }
        }
        if !self.skipped.is_empty() {
            let skipped = self.skipped.iter().map(|Skipped { what, why, .. }| format!("{what} ({why})"));
            let _ = writeln!(text, "\nSkipped: {}.", skipped.collect::<Vec<_>>().join(", "));
        }
        text
    }

    fn stop_table(&self) -> String {
        let unique = |name: fn(&Stops) -> &String| {
            let mut names: Vec<&String> = Vec::new();
            for stops in &self.stops {
                if !names.contains(&name(stops)) {
                    names.push(name(stops));
                }
            }
            names
        };
        let (workloads, tools) = (unique(|stops| &stops.workload), unique(|stops| &stops.tool));
        let runs = self.stops.iter().map(|stops| stops.runs).max().unwrap_or_default();
        let bystanders: usize = self.stops.iter().map(|stops| stops.bystanders).sum();
        let mut text = format!(
            "\nFrom the stop to the last death, by pidfds that the harness holds: the median of {runs} stops, or who was \
             left alive (the harness has its own ledger of each workload). Of the bystanders with the same command line \
             {bystanders} died. The goal of ours is {}, after the grace where somebody waits for KILL.\n\n| stop of |",
            Amount::Seconds(STOP_GOAL)
        );
        for tool in &tools {
            let grace = self.stops.iter().find(|stops| stops.tool == **tool).map_or(0.0, |stops| stops.grace);
            let grace = if grace > 0.0 { format!(" (grace {} s)", digits(grace)) } else { String::new() };
            let _ = write!(text, " {tool}{grace} |");
        }
        text.push_str(" again |\n|---|");
        text.push_str(&"---|".repeat(tools.len() + 1));
        text.push('\n');
        for workload in workloads {
            let _ = write!(text, "| {workload} |");
            for tool in &tools {
                let stops = self.stops.iter().find(|stops| stops.workload == *workload && stops.tool == **tool);
                let _ = write!(text, " {} |", stops.map_or_else(|| "-".to_owned(), Stops::cell));
            }
            let _ = writeln!(text, " `{COMMAND} stop '{workload}'` |");
        }
        text
    }
}

/// Returns the README with these tables between its markers, or `None` where it does not have both, in order, once.
pub(crate) fn put_between_markers(readme: &str, tables: &str) -> Option<String> {
    let [begin, end] = MARKERS;
    let (before, rest) = readme.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    let once = [before, after].iter().all(|part| !part.contains(begin) && !part.contains(end));
    once.then(|| format!("{before}{begin}{tables}{end}{after}"))
}
