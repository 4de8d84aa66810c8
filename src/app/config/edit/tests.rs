use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::super::parse::{Origin, parse};
use super::super::recipe::Source;
use super::*;
use crate::app::contract::{HostKind, Kind};

fn recipes(text: &str) -> Vec<Recipe> {
    let origin = Origin {
        path: Path::new("/c/config.toml"),
        dir: Path::new("/c"),
        home: Some(Path::new("/h")),
        source: Source::User,
    };
    parse(text, &origin).unwrap_or_else(|error| panic!("{error}\n{text}")).recipes
}

fn one(text: &str) -> Recipe {
    recipes(text).swap_remove(0)
}

/// A file as people write them: comments everywhere, odd blanks, sections between the recipes.
const FILE: &str = r#"# my things
  # indented

[[recipe]]   # the first
name = 'tiny'      # its name
kind   = "serve"
command = [
  "llama-server",  # the server
  "-m", "tiny.gguf",
]
cwd = "."          # here
env = { A = "1", B = "2" } # two
# about ready
ready = { tcp = 8080 }

[tmux]
socket = "x"   # mine

[[recipe]]
name = "big"
kind = "serve"
command = "vllm serve x"
[recipe.env]
# a comment in there
HF_HOME = "/data"  # where

# the end
"#;

const NEW: &str = "[[recipe]]\nname = \"new\"\nkind = \"serve\"\ncommand = [\"a b\", \"\"]\ncwd = \"/srv\"\nenv = { A = \"x\" }\ngpus = \"0,1\"\nvenv = \"/v\"\nneeds = [\"tiny\"]\nexclusive = \"gpu0\"\nready = { log = 'ready \\d' }\nstop = { signal = \"INT\", grace_s = 1.5, command = [\"x\"], keys = [\"C-c\"] }\nceiling_s = 60\nrestart = \"on-failure\"\nescapees = \"report\"\nautostart = true\nhost = \"pty\"\n";

#[test]
fn a_new_recipe_leaves_every_byte_where_it_is() {
    for file in
        ["", "\n", "# only a comment", "# only\n", FILE, "[ui]\ntheme = \"dark\"\n", &FILE.replace('\n', "\r\n")]
    {
        let recipe = one(NEW);
        let after = put(file, &recipe, None).unwrap();
        assert_eq!(recipes(&after).last(), Some(&recipe), "{after}");
        // What was there is there, in one or two pieces.
        let added = after.len() - file.len();
        let at = (0..=file.len())
            .filter(|at| file.is_char_boundary(*at))
            .find(|at| after.starts_with(&file[..*at]) && after[at + added..] == file[*at..]);
        assert!(at.is_some(), "{file:?}\n{after:?}");
        assert_eq!(after.contains("\r\n"), file.contains("\r\n"));
    }
}

/// What stands behind the last recipe is about that one.
#[test]
fn a_new_recipe_comes_after_the_comments_on_the_last_one() {
    let last = "[[recipe]]\nname = \"one\"\ncommand = [\"sleep\", \"5\"]\n# cwd = \"~\"\n# gpus = \"0\"\n";
    for file in ["# only\n", last, &format!("[ui]\ntheme = \"dark\"\n\n{last}")] {
        let after = put(file, &one(NEW), None).unwrap();
        assert!(after.starts_with(&format!("{file}\n[[recipe]]\n")), "{after}");
    }
    // Comments on another table stay with it.
    let file = format!("{last}\n[ui]\n# theme = \"dark\"\n");
    let after = put(&file, &one(NEW), None).unwrap();
    assert!(after.ends_with("\n[ui]\n# theme = \"dark\"\n"), "{after}");
}

#[test]
fn a_last_line_without_an_end_and_a_byte_order_mark_are_no_reason_to_refuse() {
    for file in [
        "[ui]\ntheme = \"dark\"",
        "[ui]\ntheme = \"dark\" # c",
        "[ui]\r\ntheme = \"dark\"",
        "\u{feff}[ui]\n",
        FILE.trim_end(),
    ] {
        let recipe = one(NEW);
        let after = put(file, &recipe, None).unwrap();
        assert!(after.starts_with(file), "{after:?}");
        assert_eq!(recipes(after.trim_start_matches('\u{feff}')).last(), Some(&recipe), "{after}");
    }
    assert!(put("a = 1\r\nb = 2\n", &one(NEW), None).is_err(), "mixed line ends");
}

#[test]
fn only_what_changes_is_written() {
    let check = |name: &str, change: &dyn Fn(&mut Recipe), pairs: &[(&str, &str)]| {
        let before = recipes(FILE).into_iter().find(|recipe| recipe.name == name).unwrap();
        let mut after = before.clone();
        change(&mut after);
        let text = put(FILE, &after, Some(&before)).unwrap();
        let expected = pairs.iter().fold(FILE.to_owned(), |text, (old, new)| {
            assert_eq!(text.matches(old).count(), 1, "{old}");
            text.replace(old, new)
        });
        assert_eq!(text, expected);
        assert_eq!(recipes(&text).into_iter().find(|recipe| recipe.name == name), Some(after));
    };
    check("tiny", &|_| {}, &[]);
    check("big", &|_| {}, &[]);
    check("tiny", &|recipe| recipe.kind = Kind::Agent, &[("\"serve\"\ncommand = [", "\"agent\"\ncommand = [")]);
    check(
        "tiny",
        &|recipe| recipe.cwd = Some("/x".into()),
        &[("cwd = \".\"          # here", "cwd = \"/x\"          # here")],
    );
    check("tiny", &|recipe| recipe.cwd = None, &[("cwd = \".\"          # here\n", "")]);
    check("tiny", &|recipe| drop(recipe.env.insert("A".into(), "3".into())), &[("{ A = \"1\", B", "{ A = \"3\", B")]);
    check("tiny", &|recipe| drop(recipe.env.remove("A")), &[("{ A = \"1\", B", "{ B")]);
    check("tiny", &|recipe| recipe.env.clear(), &[("env = { A = \"1\", B = \"2\" } # two\n", "")]);
    check(
        "big",
        &|recipe| drop(recipe.env.insert("HF_HOME".into(), "/other".into())),
        &[("HF_HOME = \"/data\"  # where", "HF_HOME = \"/other\"  # where")],
    );
    check(
        "big",
        &|recipe| recipe.command = CommandLine::Argv(vec!["vllm".into(), "serve".into()]),
        &[("\"vllm serve x\"", "[\"vllm\", \"serve\"]")],
    );
    check(
        "big",
        &|recipe| recipe.host = Some(HostKind::Pty),
        &[("vllm serve x\"\n", "vllm serve x\"\nhost = \"pty\"\n")],
    );
}

#[test]
fn a_list_in_one_line_stays_one() {
    let file = "recipe = [{ name = \"a\", command = \"x\" }] # all\n";
    let after = put(file, &one(NEW), None).unwrap();
    assert_eq!(recipes(&after).len(), 2);
    assert!(
        after.starts_with("recipe = [{ name = \"a\", command = \"x\" }, {") && after.ends_with("] # all\n"),
        "{after}"
    );
    let before = one(file);
    let after = put(file, &Recipe { command: CommandLine::Line("y".into()), ..before.clone() }, Some(&before)).unwrap();
    assert_eq!(after, file.replace("\"x\"", "\"y\""));
}

#[test]
fn what_could_not_be_kept_is_refused() {
    let mixed = "# a\r\n# b\n";
    assert!(put(mixed, &one(NEW), None).is_err());
    assert!(put("x = ", &one(NEW), None).is_err());
    let other = one(NEW);
    assert!(put(FILE, &other, Some(&other)).is_err(), "there is none of that name");
}

proptest! {
    /// Whatever a recipe holds, it is read back as it is, and a change back is no change.
    #[test]
    fn what_is_written_is_read_back(
        words in prop::collection::vec("[ -~äé\\n\\t]{1,8}", 1..4),
        value in "[ -~\\n\"'\\\\]{0,12}",
        grace in 0.0_f64..100.0,
        line in any::<bool>(),
    ) {
        let mut recipe = one(NEW);
        recipe.command = if line { CommandLine::Line(format!("x{}", words.concat())) } else { CommandLine::Argv(words) };
        recipe.env.insert("V".into(), value);
        recipe.stop.grace_s = Some(grace);
        recipe.cwd = Some(PathBuf::from("/a b/\"c"));
        let text = put(FILE, &recipe, None).unwrap();
        let read = recipes(&text).swap_remove(2);
        prop_assert_eq!(&read, &recipe);
        let other = Recipe { gpus: None, ceiling_s: Some(1.0), ..recipe.clone() };
        let changed = put(&text, &other, Some(&recipe)).unwrap();
        prop_assert_eq!(&recipes(&changed)[2], &other);
    }
}
