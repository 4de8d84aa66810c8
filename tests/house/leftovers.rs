//! What lies at the top of the tree: what an editor or a shell left there is not committed with the rest.

const KNOWN: [&str; 17] = [
    ".cargo",
    ".ci",
    ".git",
    ".gitignore",
    "Cargo.lock",
    "Cargo.toml",
    "README.md",
    "assets",
    "benches",
    "build.rs",
    "clippy.toml",
    "docs",
    "rustfmt.toml",
    "scripts",
    "src",
    "target",
    "tests",
];

fn unknown(names: impl Iterator<Item = String>) -> Vec<String> {
    names.filter(|name| !KNOWN.contains(&name.as_str())).collect()
}

#[test]
fn nothing_is_left_lying_about() {
    let entries = std::fs::read_dir(env!("CARGO_MANIFEST_DIR")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    assert_eq!(unknown(names), [""; 0], "remove it, or name it here");
}

#[test]
fn the_rule_about_leftovers_can_fail() {
    assert_eq!(unknown([".swp", "src", "nohup.out"].map(str::to_owned).into_iter()), [".swp", "nohup.out"]);
}
