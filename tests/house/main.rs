//! The order of the house (`docs/design.md`, section 3), read off the sources themselves.
//!
//! Each rule is a pure function from one [`Source`] to its complaints, a test over every file of `src`, and
//! a test that the rule can fail. Comments and strings are told from code by a small lexer, so that a rule is
//! neither fooled by `// use crate::tmux` nor by a path that is broken over several lines.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

mod figures;
mod leftovers;
mod mutants;
mod tables;
mod words;

/// Longest file, in lines.
const LINES_MAX: usize = 600;

/// Which layers a layer may import.
const EDGES: [(&str, &[&str]); 7] = [
    ("main", &["app"]),
    ("lib", &[]),
    ("app", &["pty", "tmux", "lifecycle", "text"]),
    ("pty", &["lifecycle", "text"]),
    ("tmux", &["lifecycle", "text"]),
    ("lifecycle", &["text"]),
    ("text", &[]),
];

/// Files of `lifecycle` that decide and never perform.
const PURE: [&str; 10] =
    ["identity", "verdict", "plan", "teardown", "tether", "receipt", "scope", "reap", "restart", "ceiling"];

/// What a pure file may take from the others: data, by name.
const DATA: [(&str, &[&str]); 3] = [
    ("kill", &["Signal"]),
    ("tree", &["Captured", "Fate", "Member"]),
    // A masked line from a held member's arguments; it asks nobody.
    ("rows", &["known_command_of"]),
];

/// Files that may lift the ban on signals and child processes.
const FUNNELS: [&str; 2] = ["src/lifecycle/kill.rs", "src/lifecycle/spawn.rs"];

// --- Sources ---------------------------------------------------------------------------------------

/// One file, taken apart.
struct Source {
    /// From the root of the crate, for example `src/pty/host.rs`.
    path: String,
    raw: String,
    tokens: Vec<Token>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Mark(char),
    Literal(String),
}

impl Source {
    fn new(path: &str, raw: &str) -> Self {
        Self { path: path.to_owned(), raw: raw.to_owned(), tokens: lex(raw) }
    }

    /// Returns the module that the file is, for example `["pty", "host"]`.
    fn module(&self) -> Vec<String> {
        let inner = self.path.trim_start_matches("src/").trim_end_matches(".rs");
        let mut parts: Vec<String> = inner.split('/').map(str::to_owned).collect();
        if parts.last().is_some_and(|last| last == "mod" || inner == "lib" || inner == "main") {
            parts.pop();
        }
        parts
    }

    /// Returns the layer; the root of the library and the program itself are layers of their own.
    fn layer(&self) -> &str {
        let inner = self.path.trim_start_matches("src/").trim_end_matches(".rs");
        inner.split('/').next().unwrap_or_default()
    }

    fn literals(&self) -> impl Iterator<Item = &str> {
        self.tokens.iter().filter_map(|token| match token {
            Token::Literal(text) => Some(text.as_str()),
            Token::Word(_) | Token::Mark(_) => None,
        })
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        self.tokens.iter().filter_map(|token| match token {
            Token::Word(word) => Some(word.as_str()),
            Token::Literal(_) | Token::Mark(_) => None,
        })
    }

    fn says(&self, what: impl std::fmt::Display) -> String {
        format!("{}: {what}", self.path)
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Takes Rust apart into words, marks and string literals; comments and character literals are dropped.
fn lex(raw: &str) -> Vec<Token> {
    let chars: Vec<char> = raw.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut tokens = Vec::new();
    let mut i = 0;
    while i < chars.len() {
        let c = chars[i];
        if c == '/' && at(i + 1) == '/' {
            while i < chars.len() && chars[i] != '\n' {
                i += 1;
            }
        } else if c == '/' && at(i + 1) == '*' {
            let mut depth = 0;
            loop {
                match (at(i), at(i + 1)) {
                    ('/', '*') => (depth, i) = (depth + 1, i + 2),
                    ('*', '/') => (depth, i) = (depth - 1, i + 2),
                    _ => i += 1,
                }
                if depth == 0 || i >= chars.len() {
                    break;
                }
            }
        } else if c == '"' {
            let (text, end) = quoted(&chars, i + 1);
            tokens.push(Token::Literal(text));
            i = end;
        } else if is_word(c) {
            let start = i;
            while i < chars.len() && is_word(chars[i]) {
                i += 1;
            }
            let word: String = chars[start..i].iter().collect();
            let hashes = chars[i..].iter().take_while(|c| **c == '#').count();
            if matches!(word.as_str(), "r" | "br" | "cr") && at(i + hashes) == '"' {
                let (text, end) = raw_quoted(&chars, i + hashes + 1, hashes);
                tokens.push(Token::Literal(text));
                i = end;
            } else if !(matches!(word.as_str(), "b" | "c") && matches!(at(i), '"' | '\'')) {
                tokens.push(Token::Word(word));
            }
        } else if c == '\'' {
            // A character literal ends within a few characters; a lifetime has no end.
            let length = if at(i + 1) == '\\' { (3..12).find(|n| at(i + n) == '\'') } else { Some(2) };
            i += length.filter(|n| at(i + n) == '\'').map_or(1, |n| n + 1);
        } else {
            if !c.is_whitespace() {
                tokens.push(Token::Mark(c));
            }
            i += 1;
        }
    }
    tokens
}

fn quoted(chars: &[char], mut i: usize) -> (String, usize) {
    let start = i;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    let end = i.min(chars.len());
    (chars[start..end].iter().collect(), end + 1)
}

fn raw_quoted(chars: &[char], start: usize, hashes: usize) -> (String, usize) {
    let closes = |i: &usize| chars[*i] == '"' && (1..=hashes).all(|n| chars.get(i + n) == Some(&'#'));
    let end = (start..chars.len()).find(closes).unwrap_or(chars.len());
    (chars[start..end].iter().collect(), end + hashes + 1)
}

/// Returns every path of the file that begins with `crate`, `super` or our own crate's name, from the root of
/// the crate. A group becomes several paths.
fn paths(source: &Source) -> Vec<Vec<String>> {
    let tokens = &source.tokens;
    let mut found = Vec::new();
    // Inline modules, each with the depth of braces at which it ends.
    let (mut inline, mut depth): (Vec<(String, usize)>, usize) = (Vec::new(), 0);
    let mut i = 0;
    while i < tokens.len() {
        match &tokens[i] {
            Token::Mark('{') => depth += 1,
            Token::Mark('}') => {
                depth = depth.saturating_sub(1);
                if inline.last().is_some_and(|(_, end)| *end == depth) {
                    inline.pop();
                }
            }
            Token::Word(word) if word == "mod" => {
                if let (Some(Token::Word(name)), Some(Token::Mark('{'))) = (tokens.get(i + 1), tokens.get(i + 2)) {
                    inline.push((name.clone(), depth));
                }
            }
            Token::Word(word) if matches!(word.as_str(), "crate" | "super" | "cookbook_tui") => {
                let begins = i == 0 || tokens[i - 1] != Token::Mark(':');
                if begins && is_separator(tokens, i + 1) {
                    let mut here = source.module();
                    here.extend(inline.iter().map(|(name, _)| name.clone()));
                    let mut base = if word == "super" { here } else { Vec::new() };
                    if word == "super" {
                        base.pop();
                    }
                    tail(tokens, i + 3, base, &mut found);
                }
            }
            Token::Word(_) | Token::Mark(_) | Token::Literal(_) => {}
        }
        i += 1;
    }
    found
}

fn is_separator(tokens: &[Token], i: usize) -> bool {
    tokens.get(i) == Some(&Token::Mark(':')) && tokens.get(i + 1) == Some(&Token::Mark(':'))
}

/// Follows a path from the token after a `::`; returns the token after it.
fn tail(tokens: &[Token], mut i: usize, mut base: Vec<String>, found: &mut Vec<Vec<String>>) -> usize {
    loop {
        match tokens.get(i) {
            Some(Token::Word(word)) => {
                match word.as_str() {
                    "super" => drop(base.pop()),
                    "self" => {}
                    _ => base.push(word.clone()),
                }
                i += 1;
                if !is_separator(tokens, i) {
                    found.push(base);
                    return i;
                }
                i += 2;
            }
            Some(Token::Mark('{')) => {
                i += 1;
                while !matches!(tokens.get(i), None | Some(Token::Mark('}'))) {
                    let next = tail(tokens, i, base.clone(), found);
                    i = next.max(i + 1);
                    // `as name`, and the comma.
                    while !matches!(tokens.get(i), None | Some(Token::Mark('}' | ','))) {
                        i += 1;
                    }
                    i += usize::from(tokens.get(i) == Some(&Token::Mark(',')));
                }
                return i + 1;
            }
            Some(Token::Mark('*')) => {
                base.push("*".to_owned());
                found.push(base);
                return i + 1;
            }
            Some(Token::Mark(_) | Token::Literal(_)) | None => {
                found.push(base);
                return i;
            }
        }
    }
}

// --- Rules -----------------------------------------------------------------------------------------

fn forbidden_edges(source: &Source) -> Vec<String> {
    let layer = source.layer();
    let Some((_, allowed)) = EDGES.iter().find(|(name, _)| *name == layer) else {
        return vec![source.says(format!("{layer} is no layer of the house"))];
    };
    let leaves = |path: &Vec<String>| {
        let to = path.first().map(String::as_str);
        to.is_some_and(|to| to != layer && !allowed.contains(&to))
    };
    paths(source).iter().filter(|path| leaves(path)).map(|path| source.says(path.join("::"))).collect()
}

fn impure_imports(source: &Source) -> Vec<String> {
    let module = source.module();
    let is_pure = |name: &String| PURE.contains(&name.as_str());
    if module.len() < 2 || module[0] != "lifecycle" || !is_pure(&module[1]) {
        return Vec::new();
    }
    let is_io = |path: &Vec<String>| {
        let [layer, file, rest @ ..] = path.as_slice() else { return false };
        // `super::*` of the tests inside is the file itself.
        if layer != "lifecycle" || is_pure(file) {
            return false;
        }
        let data = DATA.iter().find(|(name, _)| name == file).map_or(&[][..], |(_, data)| *data);
        !rest.first().is_some_and(|item| data.contains(&item.as_str()))
    };
    paths(source).iter().filter(|path| is_io(path)).map(|path| source.says(path.join("::"))).collect()
}

fn terminals_outside_app(source: &Source) -> Vec<String> {
    if source.layer() == "app" {
        return Vec::new();
    }
    let banned = |word: &&str| matches!(*word, "ratatui" | "crossterm" | "tokio");
    source.words().filter(banned).map(|word| source.says(word)).collect()
}

fn procfs_outside_inspect(source: &Source) -> Vec<String> {
    let inspects = source.path.starts_with("src/lifecycle/inspect/");
    let is_stage = source.path.starts_with("src/lifecycle/warden/");
    let banned = |text: &&str| {
        let reads = text.contains("/proc/") || text.ends_with("/proc");
        reads && !inspects && !(is_stage && *text == "/proc/self/exe")
    };
    source.literals().filter(banned).map(|text| source.says(format!("{text:?}"))).collect()
}

/// The phase detector and what reads Cookbook's files decide over what they are given: they open nothing, start
/// nothing, read no clock.
fn performing_phases(source: &Source) -> Vec<String> {
    let phases = source.path.starts_with("src/app/phase/") && !source.path.ends_with("tests.rs");
    let cookbook = source.path.starts_with("src/app/cookbook/") && source.path != "src/app/cookbook/file.rs";
    if !phases && !cookbook {
        return Vec::new();
    }
    let banned = |word: &&str| {
        matches!(*word, "fs" | "net" | "process" | "thread" | "Instant" | "SystemTime" | "env" | "runtime" | "ureq")
            // The name of a recipe's field.
            && !(cookbook && *word == "env")
    };
    source.words().filter(banned).map(|word| source.says(word)).collect()
}

/// Returns the arguments of every attribute `name(...)`, and whether it stands in `cfg_attr(test, ...)`.
fn attributes(source: &Source, name: &str) -> Vec<(Vec<String>, bool)> {
    let tokens = &source.tokens;
    let mut found = Vec::new();
    for i in 0..tokens.len() {
        let starts = |offset: usize, mark| i.checked_sub(offset).is_some_and(|at| tokens[at] == Token::Mark(mark));
        let in_test = i >= 4
            && tokens[i - 4..i] == [word("cfg_attr"), Token::Mark('('), word("test"), Token::Mark(',')]
            && tokens.get(i.wrapping_sub(5)).is_none_or(|token| *token == Token::Mark('['));
        let opens = tokens.get(i + 1) == Some(&Token::Mark('('));
        if tokens[i] == word(name) && opens && (starts(1, '[') || starts(1, ',')) {
            let end = (i..tokens.len()).find(|at| tokens[*at] == Token::Mark(')')).unwrap_or(tokens.len());
            let words = tokens[i..end].iter().filter_map(|token| match token {
                Token::Word(word) => Some(word.clone()),
                Token::Mark(_) | Token::Literal(_) => None,
            });
            found.push((words.collect(), in_test));
        }
    }
    found
}

fn word(text: &str) -> Token {
    Token::Word(text.to_owned())
}

fn lifted_bans(source: &Source) -> Vec<String> {
    if FUNNELS.contains(&source.path.as_str()) {
        return Vec::new();
    }
    let lifted = attributes(source, "expect").into_iter().filter(|(words, in_test)| {
        let lifts = words.iter().any(|word| word == "disallowed_methods" || word == "disallowed_types");
        lifts && !(source.path == "src/lib.rs" && *in_test)
    });
    lifted.map(|_| source.says("lifts clippy::disallowed_methods outside the funnels")).collect()
}

fn bare_allows(source: &Source) -> Vec<String> {
    attributes(source, "allow").into_iter().map(|(words, _)| source.says(words.join(" "))).collect()
}

fn too_long(source: &Source) -> Vec<String> {
    let lines = source.raw.lines().count();
    if lines > LINES_MAX { vec![source.says(format!("{lines} lines"))] } else { Vec::new() }
}

fn unfinished(source: &Source) -> Vec<String> {
    let is_macro = |pair: &&[Token]| matches!(pair, [Token::Word(name), Token::Mark('!')] if name == "todo" || name == "unimplemented");
    let macros = source.tokens.windows(2).filter(is_macro).map(|pair| source.says(format!("{:?}", pair[0])));
    let marked = source.raw.lines().filter(|line| line.contains(concat!("FIX", "ME"))).map(|line| source.says(line));
    macros.chain(marked).collect()
}

// --- The house as it is ----------------------------------------------------------------------------

fn sources(of: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut found, mut open) = (Vec::new(), vec![root.join(of)]);
    while let Some(dir) = open.pop() {
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root).map(PathBuf::from).unwrap();
                found.push(Source::new(name.to_str().unwrap(), &fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found
}

fn check_house(rule: fn(&Source) -> Vec<String>) {
    let sources = sources("src");
    assert!(sources.len() > 50 && sources.iter().any(|source| source.path == "src/lib.rs"), "src was not read");
    let complaints: Vec<String> = sources.iter().flat_map(rule).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Checks how many complaints a rule has about a made-up file.
fn check(rule: fn(&Source) -> Vec<String>, path: &str, raw: &str, expected: usize) {
    let complaints = rule(&Source::new(path, raw));
    assert_eq!(complaints.len(), expected, "{path}: {raw}: {complaints:?}");
}

#[test]
fn imports_run_one_way() {
    check_house(forbidden_edges);
}

#[test]
fn the_import_rule_can_fail() {
    let bad = |path, raw| check(forbidden_edges, path, raw, 1);
    bad("src/pty/host.rs", "use crate::tmux::Server;");
    bad("src/pty/host.rs", "use crate::{lifecycle::tree::Captured, tmux};");
    bad(
        "src/pty/host.rs",
        "use crate::{\n    lifecycle::{tree::Captured, kill::{Signal as S, deliver}},\n    tmux::Server};",
    );
    bad("src/pty/host.rs", "use super::super::tmux::Server;");
    bad("src/pty/mod.rs", "pub use super::tmux::Server;");
    bad("src/pty/host.rs", "fn f() { crate::tmux::go(); }");
    bad("src/pty/host.rs", "fn f(_: &crate::tmux::Server) {}");
    bad("src/pty/host.rs", "mod tests { mod deep { use super::super::super::super::tmux; } }");
    bad("src/pty/host.rs", "const A: char = '\"'; use crate::tmux; const B: char = '\"';");
    bad("src/tmux/argv.rs", "use crate::pty::keys;");
    bad("src/tmux/argv.rs", "use crate::app::command::Command;");
    bad("src/lifecycle/stop.rs", "use crate::app::paths::Paths;");
    bad("src/lifecycle/stop.rs", "use crate::pty;");
    bad("src/lifecycle/warden/gate.rs", "use super::super::super::tmux;");
    bad("src/text/mask.rs", "use crate::lifecycle::identity::Pid;");
    bad("src/text.rs", "use crate::app;");
    bad("src/elsewhere.rs", "fn f() {}");
    bad("src/main.rs", "use cookbook_tui::lifecycle;");
    let good = |path, raw| check(forbidden_edges, path, raw, 0);
    good("src/app/start.rs", "use crate::{lifecycle, pty, tmux, text};\nuse super::config;");
    good("src/lifecycle/stop.rs", "use crate::text; use super::plan;");
    good(
        "src/pty/host.rs",
        "// use crate::tmux;\n/* /* crate::tmux */ crate::tmux::x */ const X: &str = \"crate::tmux::x\";",
    );
    good(
        "src/pty/host.rs",
        "const X: &str = r#\"use crate::tmux; \" \"#; mod tests { use super::*; use super::super::log; }",
    );
    good("src/tmux/tests.rs", "fn f<'a>(c: &'a str) -> char { use super::rig; '\\'' }");
}

#[test]
fn what_decides_imports_nothing_that_performs() {
    check_house(impure_imports);
}

#[test]
fn the_purity_rule_can_fail() {
    for file in PURE {
        let path = format!("src/lifecycle/{file}.rs");
        let bad = |raw| check(impure_imports, &path, raw, 1);
        bad("use super::store::Store;");
        bad("use crate::lifecycle::spawn;");
        bad("use super::kill::{Signal, deliver};");
        bad("use super::kill;");
        bad("use super::kill::*;");
        bad("use super::tree::{Fate, capture};");
        bad("fn f() { super::authority::verify() }");
        bad("mod tests { use super::super::inspect::Inspector; }");
        check(impure_imports, &path, "use super::kill::Signal; use super::identity::Pid;", 0);
        check(impure_imports, &path, "mod tests { use super::*; }", 0);
        check(impure_imports, &format!("src/lifecycle/{file}/tests.rs"), "use super::super::inspect::Inspector;", 1);
    }
    check(impure_imports, "src/lifecycle/stop.rs", "use super::store::Store;", 0);
}

#[test]
fn terminals_and_runtimes_live_in_app() {
    check_house(terminals_outside_app);
}

#[test]
fn the_terminal_rule_can_fail() {
    for library in ["ratatui", "crossterm", "tokio"] {
        check(terminals_outside_app, "src/pty/host.rs", &format!("use {library}::x;"), 1);
        check(terminals_outside_app, "src/lib.rs", &format!("fn f() {{ {library}::x() }}"), 1);
        check(terminals_outside_app, "src/app/tui.rs", &format!("use {library}::x;"), 0);
        check(terminals_outside_app, "src/pty/host.rs", &format!("// {library}\nconst X: &str = \"{library}\";"), 0);
    }
}

#[test]
fn procfs_is_read_in_one_place() {
    check_house(procfs_outside_inspect);
}

#[test]
fn the_procfs_rule_can_fail() {
    let bad = |path, raw| check(procfs_outside_inspect, path, raw, 1);
    bad("src/lifecycle/tree.rs", "fn f() { read(\"/proc/1/stat\") }");
    bad("src/lifecycle/tree.rs", "const X: &str = \"/proc\";");
    bad("src/app/x.rs", "fn f() { format!(\"/proc/{pid}/comm\") }");
    bad("src/app/x.rs", "const X: &[u8] = b\"/proc/stat\";");
    bad("src/app/x.rs", "const X: &str = r#\"/proc/self/exe\"#;");
    bad("src/lifecycle/warden/front.rs", "const X: &str = \"/proc/self/status\";");
    check(procfs_outside_inspect, "src/lifecycle/warden/front.rs", "const X: &str = \"/proc/self/exe\";", 0);
    check(procfs_outside_inspect, "src/lifecycle/inspect/ps.rs", "const X: &str = \"/proc/1/stat\";", 0);
    check(procfs_outside_inspect, "src/app/x.rs", "// \"/proc/1\"\nconst X: &str = \"/processes\";", 0);
}

#[test]
fn phases_are_decided_not_performed() {
    check_house(performing_phases);
}

#[test]
fn the_phase_rule_can_fail() {
    let bad = |raw| check(performing_phases, "src/app/phase/detect.rs", raw, 1);
    bad("use std::fs;");
    bad("use std::net::TcpStream;");
    bad("fn f() { std::thread::yield_now() }");
    bad("use std::time::Instant;");
    bad("use super::super::runtime::Runtime;");
    check(performing_phases, "src/app/phase/detect.rs", "use crate::text; // fs\nconst X: &str = \"env\";", 0);
    check(performing_phases, "src/app/runtime/x.rs", "use std::fs;", 0);
    check(performing_phases, "src/app/cookbook/state.rs", "use std::fs;", 1);
    check(performing_phases, "src/app/cookbook/file.rs", "use std::fs;", 0);
}

#[test]
fn only_the_funnels_lift_the_ban_on_signals_and_children() {
    check_house(lifted_bans);
}

#[test]
fn the_funnel_rule_can_fail() {
    let lift = "#[expect(clippy::disallowed_methods, reason = \"x\")]\nfn f() {}";
    check(lifted_bans, "src/lifecycle/stop.rs", lift, 1);
    check(lifted_bans, "src/app/x.rs", "#![expect(\n    clippy::unwrap_used,\n    clippy::disallowed_methods\n)]", 1);
    check(lifted_bans, "src/app/x.rs", "#[cfg_attr(test, expect(clippy::disallowed_methods))]", 1);
    check(lifted_bans, "src/lib.rs", lift, 1);
    check(lifted_bans, "src/lib.rs", "#![cfg_attr(unix, expect(clippy::disallowed_methods))]", 1);
    check(lifted_bans, "src/lib.rs", "#![cfg_attr(test, expect(clippy::disallowed_methods, reason = \"x\"))]", 0);
    check(lifted_bans, "src/app/x.rs", "#[expect(clippy::unwrap_used)] // clippy::disallowed_methods", 0);
    for funnel in FUNNELS {
        check(lifted_bans, funnel, lift, 0);
    }
}

#[test]
fn no_lint_is_simply_allowed() {
    check_house(bare_allows);
}

#[test]
fn the_allow_rule_can_fail() {
    check(bare_allows, "src/app/x.rs", "#[allow(dead_code)] fn f() {}", 1);
    check(bare_allows, "src/app/x.rs", "#![allow(clippy::all)]", 1);
    check(bare_allows, "src/lifecycle/kill.rs", "#[cfg_attr(test, allow(dead_code))] fn f() {}", 1);
    check(bare_allows, "src/app/x.rs", "// #[allow(x)]\nfn allow(x: u8) {} fn f() { allow(1); (1, allow) }", 0);
}

#[test]
fn no_file_is_longer_than_people_read() {
    check_house(too_long);
    let complaints: Vec<String> =
        ["tests", "benches"].into_iter().flat_map(sources).flat_map(|s| too_long(&s)).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn the_length_rule_can_fail() {
    check(too_long, "src/app/x.rs", &"\n".repeat(LINES_MAX + 1), 1);
    check(too_long, "src/app/x.rs", &"\n".repeat(LINES_MAX), 0);
}

#[test]
fn nothing_is_left_for_later() {
    check_house(unfinished);
}

#[test]
fn the_rule_about_later_can_fail() {
    check(unfinished, "src/app/x.rs", "fn f() { todo!() }", 1);
    check(unfinished, "src/app/x.rs", "fn f() { std::unimplemented ! (\"x\") }", 1);
    check(unfinished, "src/app/x.rs", concat!("// FIX", "ME: x"), 1);
    check(unfinished, "src/app/x.rs", "fn f(todo: bool) -> bool { !todo } // todo!()", 0);
}
