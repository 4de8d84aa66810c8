//! Words that some files must not say: programs that signal, and the clock that people set.

use super::{Source, check, check_house};

/// Programs that signal by number, by name or by port: a wrong word to one of them can hit everybody.
fn signalling_programs(source: &Source) -> Vec<String> {
    // The word for the call, in answers.
    let is_schema = source.path == "src/app/schema.rs";
    let runs = |text: &&str| {
        let first = text.split(' ').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        matches!(first, "pkill" | "killall" | "skill" | "fuser") || (*text == "kill" && !is_schema)
    };
    source.literals().filter(runs).map(|text| source.says(format!("{text:?}"))).collect()
}

/// Files that may read the wall clock, which people set: for display, and for files of dead writers.
const WALL: [&str; 3] = ["src/lifecycle/clock.rs", "src/lifecycle/store.rs", "src/lifecycle/store/tests.rs"];

/// Files of `lifecycle` on the way from a process to a verdict and from a verdict to a signal: none of them may
/// even ask for the wall clock of `clock`.
fn wall_clocks(source: &Source) -> Vec<String> {
    const DECIDES: [&str; 14] = [
        "identity",
        "verdict",
        "authority",
        "inspect",
        "tree",
        "guard",
        "plan",
        "reap",
        "teardown",
        "conduct",
        "scope",
        "kept",
        "kill",
        "ceiling",
    ];
    let module = source.module();
    let below = |layers: &[&str]| layers.contains(&source.layer());
    let reads = |word: &&str| *word == "SystemTime" && below(&["lifecycle"]) && !WALL.contains(&source.path.as_str());
    let decides = source.layer() == "lifecycle" && module.get(1).is_some_and(|file| DECIDES.contains(&file.as_str()));
    let asks = |word: &&str| decides && matches!(*word, "wall" | "wall_seconds" | "SystemTime" | "Realtime");
    source.words().filter(|word| reads(word) || asks(word)).map(|word| source.says(word)).collect()
}

#[test]
fn no_program_is_run_that_signals() {
    check_house(signalling_programs);
}

#[test]
fn the_rule_about_such_programs_can_fail() {
    check(signalling_programs, "src/lifecycle/stop.rs", "fn f() { Spec::new([\"kill\", \"-9\"]) }", 1);
    check(signalling_programs, "src/app/x.rs", "const X: &str = \"/usr/bin/pkill -f x\";", 1);
    check(signalling_programs, "src/tmux/argv.rs", "const X: &str = \"kill-session\"; // \"killall\"", 0);
    check(signalling_programs, "src/app/schema.rs", "json!({ \"enum\": [\"pidfd\", \"kill\"] })", 0);
}

#[test]
fn no_verdict_knows_the_wall_clock() {
    check_house(wall_clocks);
}

#[test]
fn the_clock_rule_can_fail() {
    check(wall_clocks, "src/lifecycle/verdict.rs", "use super::clock::wall_seconds;", 1);
    check(wall_clocks, "src/lifecycle/inspect/ps.rs", "fn f() { clock_gettime(ClockId::Realtime) }", 1);
    check(wall_clocks, "src/lifecycle/stop.rs", "use std::time::SystemTime;", 1);
    check(wall_clocks, "src/lifecycle/warden/keeper.rs", "use crate::lifecycle::clock::wall_seconds;", 0);
    check(wall_clocks, "src/lifecycle/reap.rs", "// wall clock\nconst X: &str = \"wall\";", 0);
}
