//! The README's tables of figures are what the committed figures render to, and the harness's pure parts are right.

use std::fs;
use std::path::Path;

#[path = "../../benches/compare/ledger.rs"]
mod ledger;
#[path = "../../benches/compare/figures.rs"]
mod rendered;

use ledger::{Entry, entries, stat};
use rendered::{
    Amount, Figure, Figures, Goal, MARKERS, Machine, Other, Run, Skipped, Stops, put_between_markers, quantile,
};

fn committed(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

#[test]
fn the_readme_tells_the_committed_figures() {
    let figures: Figures = serde_json::from_str(&committed("assets/figures.json")).unwrap();
    assert!(!figures.machine.quick, "a quick run measures nothing");
    let readme = committed("README.md");
    let told = put_between_markers(&readme, &figures.tables()).expect("README.md has lost a marker");
    assert!(told == readme, "README.md does not tell assets/figures.json: run scripts/compare --readme");
}

fn run(survivors: usize, last_death: f64) -> Run {
    Run { survivors, bystanders: 0, last_death: Some(last_death) }
}

fn cost(what: &str, ours: Amount, goal: Option<Goal>) -> Figure {
    let others = vec![Other { name: "tmux".into(), amount: Amount::Seconds(0.008) }];
    Figure { group: "echo".into(), what: what.into(), ours, others, goal, told: true }
}

fn made_up() -> Figures {
    let runs = [run(0, 0.004), run(0, 0.002), run(0, 0.003)];
    Figures {
        machine: Machine {
            kernel: "6.9".into(),
            cores: 2,
            load: [0.1, 1.26],
            versions: vec!["tmux 3.3a".into()],
            quick: false,
        },
        skipped: vec![Skipped { group: "peers".into(), what: "pm2".into(), why: "no npm".into() }],
        stops: vec![
            Stops::of("setsid daemon", "here", 1.0, &runs),
            Stops::of("setsid daemon", "tmux", 0.0, &[run(1, 0.001), run(0, 0.001)]),
            Stops::of("plain child", "here", 1.0, &runs),
        ],
        costs: vec![
            cost("key to echo", Amount::Seconds(0.004), Some(Goal::Times { of: "tmux".into(), at_most: 1.0 })),
            cost("quit", Amount::Seconds(0.2), Some(Goal::AtMost(Amount::Seconds(0.1)))),
        ],
    }
}

#[test]
fn tables_say_what_was_measured() {
    let expected = "\
Measured by `scripts/compare` all sides of a row in the same run and in turns, on 2 cores with Linux 6.9 (load 0.1 to 1.3); tmux 3.3a.

From the stop to the last death, by pidfds that the harness holds: the median of 3 stops, or who was left alive (the \
harness has its own ledger of each workload). Of the bystanders with the same command line 0 died. The goal of ours is 5.0 ms, after the grace \
where somebody waits for KILL.

| stop of | here (grace 1.0 s) | tmux | again |
|---|---|---|---|
| setsid daemon | 3.0 ms | **leaves some** in 1 of 2 | `scripts/compare stop 'setsid daemon'` |
| plain child | 3.0 ms | - | `scripts/compare stop 'plain child'` |

| what it costs | here | compared with | goal | again |
|---|---|---|---|---|
| key to echo | 4.0 ms | tmux 8.0 ms (x 0.50) | <= 1 x tmux | `scripts/compare echo` |
| quit | 200 ms | tmux 8.0 ms (x 25) | <= 100 ms, missed | `scripts/compare echo` |

Skipped: pm2 (no npm).
";
    assert_eq!(made_up().tables(), expected);
    let nothing = "Not measured yet: `scripts/compare --json assets/figures.json`, then `scripts/compare --readme`.\n";
    assert_eq!(Figures::default().tables(), nothing);
}

#[test]
fn a_changed_readme_is_noticed() {
    let [begin, end] = MARKERS;
    let whole = |inside: &str| format!("# x\n{begin}{inside}{end}rest\n");
    assert_eq!(put_between_markers(&whole("old"), "new\n"), Some(whole("new\n")));
    assert_ne!(put_between_markers(&whole("by hand\n"), "new\n"), Some(whole("by hand\n")));
    for damaged in ["", begin, end, &format!("{end}{begin}"), &format!("{begin}{end}{begin}{end}")] {
        assert_eq!(put_between_markers(damaged, "new\n"), None, "{damaged:?}");
    }
}

#[test]
fn stops_are_summed_up() {
    let runs = [run(0, 0.004), run(2, 9.0), Run { bystanders: 1, ..run(0, 0.002) }, run(0, 0.003)];
    let stops = Stops::of("plain child", "x", 1.0, &runs);
    assert_eq!((stops.runs, stops.left, stops.bystanders), (4, 1, 1));
    assert_eq!((stops.median, stops.longest), (Some(0.003), Some(0.004)), "only of those that left nobody");
    let stops = Stops::of("plain child", "x", 1.0, &[run(1, 0.1)]);
    assert_eq!((stops.left, stops.median, stops.longest), (1, None, None));
    assert!(stops.line().contains("left some in  1 of 1"), "{}", stops.line());
}

#[test]
fn goals_are_held_against_figures() {
    let meets = |ours, goal| cost("x", Amount::Seconds(ours), Some(goal)).meets();
    let times = |of: &str, at_most| Goal::Times { of: of.into(), at_most };
    assert_eq!(meets(0.005, Goal::AtMost(Amount::Seconds(0.005))), Some(true));
    assert_eq!(meets(0.006, Goal::AtMost(Amount::Seconds(0.005))), Some(false));
    assert_eq!(meets(0.004, times("tmux", 0.5)), Some(true));
    assert_eq!(meets(0.005, times("tmux", 0.5)), Some(false));
    assert_eq!(meets(0.005, times("mprocs", 0.5)), None, "who could not be had is no measure");
    let between = Goal::Between(Amount::PerSecond(30.0), Amount::PerSecond(60.0));
    let frames = |ours| cost("x", Amount::PerSecond(ours), Some(between.clone())).meets();
    assert_eq!([20.0, 30.0, 61.0].map(frames), [Some(false), Some(true), Some(false)]);
    assert_eq!(cost("x", Amount::Seconds(1.0), None).meets(), None);
    let missed = cost("x", Amount::Seconds(0.006), Some(Goal::AtMost(Amount::Seconds(0.005)))).line();
    assert!(missed.contains("<= 5.0 ms, missed"), "{missed}");
}

#[test]
fn amounts_have_the_digits_that_say_something() {
    let check = |amount: Amount, expected: &str| assert_eq!(amount.to_string(), expected);
    check(Amount::Seconds(0.000_000_21), "0.21 us");
    check(Amount::Seconds(0.004_26), "4.3 ms");
    check(Amount::Seconds(0.0425), "42 ms");
    check(Amount::Seconds(3.04), "3.0 s");
    check(Amount::Bytes(523_000.0), "511 KiB");
    check(Amount::Bytes(12.5 * 1024.0 * 1024.0), "12 MiB");
    check(Amount::BytesPerSecond(0.0), "0 B/s");
    check(Amount::PerSecond(59.6), "60/s");
    check(Amount::OfACore(0.0045), "0.45 % of a core");
}

#[test]
fn quantiles_are_values_of_the_list() {
    let sorted: Vec<u32> = (1..=100).collect();
    assert_eq!([0.0, 0.5, 0.95, 0.99, 1.0].map(|part| quantile(&sorted, part)), [1, 51, 95, 99, 100]);
    assert_eq!(quantile(&[7], 0.99), 7);
}

#[test]
fn a_run_of_some_groups_leaves_the_others() {
    let mut all = made_up();
    let mut later = made_up();
    later.stops.clear();
    later.skipped.clear();
    later.costs.truncate(1);
    later.machine.cores = 4;
    all.renew(later, &["echo"]);
    assert_eq!((all.costs.len(), all.stops.len(), all.skipped.len(), all.machine.cores), (1, 3, 1, 4));
    all.renew(Figures::default(), &["stop"]);
    assert_eq!((all.costs.len(), all.stops.len()), (1, 0));
}

#[test]
fn figures_survive_their_file() {
    let text = serde_json::to_string(&made_up()).unwrap();
    let again: Figures = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&again).unwrap(), text);
    assert_eq!(again.tables(), made_up().tables());
}

#[test]
fn only_whole_lines_of_a_ledger_count() {
    let entry = |role: &str, pid, start| Entry { role: role.into(), pid, start };
    let text = "leader 41 1000\nchild 42 1001\nbad x 1\nshort 43\nlong 44 1 2\nnobody 1 5\nborn 45 10";
    assert_eq!(entries(text), [entry("leader", 41, 1000), entry("child", 42, 1001)]);
    assert_eq!(entries(""), []);
    let fields: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
    assert_eq!(stat(&format!("7 (a) b (c) {}", fields.join(" "))), Some((4, 22)));
    assert_eq!(stat("7 (sleep) S 1"), None);
}
