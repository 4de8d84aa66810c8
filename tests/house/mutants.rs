//! The faults of `scripts/mutants` still apply: a list that rots proves nothing.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutants {
    mutant: Vec<Mutant>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutant {
    name: String,
    file: String,
    find: String,
    replace: String,
    test: String,
}

fn complaints(mutant: &Mutant, source: &str) -> Vec<String> {
    let Mutant { name, file, find, replace, test } = mutant;
    let times = source.matches(find.as_str()).count();
    let mut found = Vec::new();
    if times != 1 || find.is_empty() {
        found.push(format!("{name}: its text is {times} times in {file}"));
    }
    if find == replace {
        found.push(format!("{name}: it changes nothing"));
    }
    let words: Vec<&str> = test.split(' ').collect();
    if !matches!(words.as_slice(), ["--lib", _] | ["--test", "contract" | "survivors" | "screen", _]) {
        found.push(format!("{name}: {test:?} names no test"));
    }
    found
}

#[test]
fn every_mutant_applies() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("tests/mutants.toml")).unwrap();
    let Mutants { mutant: mutants } = toml::from_str(&text).unwrap();
    let source = |mutant: &Mutant| fs::read_to_string(root.join(&mutant.file)).unwrap_or_default();
    let found: Vec<String> = mutants.iter().flat_map(|mutant| complaints(mutant, &source(mutant))).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    let names: BTreeSet<&str> = mutants.iter().map(|mutant| mutant.name.as_str()).collect();
    assert!(names.len() == mutants.len() && names.len() >= 30, "{} names for {} mutants", names.len(), mutants.len());
}

#[test]
fn the_rule_about_mutants_can_fail() {
    let sound = Mutant {
        name: "x".into(),
        file: "src/x.rs".into(),
        find: "a == b".into(),
        replace: "true".into(),
        test: "--lib x".into(),
    };
    let check = |mutant: &Mutant, source: &str, expected| assert_eq!(complaints(mutant, source).len(), expected);
    check(&sound, "if a == b {}", 0);
    check(&sound, "if a != b {}", 1);
    check(&sound, "if a == b || a == b {}", 1);
    check(&Mutant { replace: "a == b".into(), ..sound.clone() }, "a == b", 1);
    check(&Mutant { test: "--lib".into(), ..sound }, "a == b", 1);
}
