//! The command that would have worked, as far as that can be said.

use regex::Regex;
use serde::{Deserialize, Serialize};

use super::server::base;
use super::silent::HARMLESS;
use super::words::commands;
use super::wrapper::shell_line;
use crate::app::contract::CommandLine;
use crate::text;

/// What to do about a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suggestion {
    /// In words.
    pub text: String,
    /// The changed command, or another one to run first; secrets are masked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandLine>,
    /// The command is to be run first, and does not stand for the one that failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first: bool,
}

impl Suggestion {
    /// Makes one without a command.
    pub(super) fn words(text: impl Into<String>) -> Self {
        Self::with(text, None)
    }

    /// Makes one with a command, which is masked here.
    pub(super) fn with(text: impl Into<String>, command: Option<CommandLine>) -> Self {
        let command = command.map(|command| command.masked());
        let text = text::mask_text(&text::escape(&text.into())).into_owned();
        Self { text, command, first: false }
    }

    /// Tells whether its command asks the program for its options.
    pub fn is_help(&self) -> bool {
        matches!(&self.command, Some(CommandLine::Argv(argv)) if argv.last().is_some_and(|word| word == "--help"))
    }

    /// Makes one with a command that is to be run before the failed one is started again.
    pub(super) fn before(text: impl Into<String>, command: CommandLine) -> Self {
        Self { first: true, ..Self::with(text, Some(command)) }
    }
}

/// How a word of a shell begins that is no option, as an expression: what is quoted belongs to it.
const FIRST: &str = r#"(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^-\s;&|<>()'"\\])"#;
/// How such a word goes on, or how one goes on that has begun.
const REST: &str = r#"(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s;&|<>()'"\\])*"#;

/// Returns the command with an option set: its value is replaced where it is there, else it is added.
pub(super) fn with_option(command: &CommandLine, names: &[&str], value: &str) -> Option<CommandLine> {
    if let Some(at) = line_at(command) {
        return in_shell(command, at, |line| with_option(line, names, value));
    }
    match command {
        CommandLine::Argv(argv) => {
            let mut argv = argv.clone();
            let found = argv.iter().enumerate().rev().find_map(|(index, word)| {
                let name = names.iter().find(|name| {
                    word.strip_prefix(**name).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
                })?;
                Some((index, *name, word.len() > name.len()))
            });
            match found {
                Some((index, name, true)) => argv[index] = format!("{name}={value}"),
                Some((index, ..)) if index + 1 < argv.len() => value.clone_into(&mut argv[index + 1]),
                Some(_) => argv.push(value.to_owned()),
                None => argv.extend([(*names.first()?).to_owned(), value.to_owned()]),
            }
            Some(CommandLine::Argv(argv))
        }
        CommandLine::Line(line) => {
            let any: Vec<String> = names.iter().map(|name| regex::escape(name)).collect();
            let option = Regex::new(&format!(r"(^|\s)({})([=\s]\s*){FIRST}{REST}", any.join("|"))).ok()?;
            let value = shlex::try_quote(value).ok()?;
            // Of several ones nobody can tell which it is.
            if option.find_iter(line).count() > 1 || option.find(line).is_some_and(|found| is_cut(line, found.end())) {
                return None;
            }
            let changed = option
                .replace(line, |found: &regex::Captures<'_>| format!("{}{}{}{value}", &found[1], &found[2], &found[3]));
            if changed != *line {
                return Some(CommandLine::Line(changed.into_owned()));
            }
            // Where there are several commands, nobody can tell whose option it would be.
            let single = commands(line).len() == 1;
            single.then(|| CommandLine::Line(format!("{} {} {value}", line.trim_end(), names.first().unwrap_or(&""))))
        }
    }
}

/// Returns the command without an option and, where it is no option itself, the word after it.
pub(super) fn without_option(command: &CommandLine, name: &str, takes_value: bool) -> Option<CommandLine> {
    if let Some(at) = line_at(command) {
        return in_shell(command, at, |line| without_option(line, name, takes_value));
    }
    match command {
        CommandLine::Argv(argv) => {
            let index = argv.iter().position(|word| word == name || word.starts_with(&format!("{name}=")))?;
            let mut argv = argv.clone();
            let spaced = argv[index] == name;
            argv.remove(index);
            if takes_value && spaced && argv.get(index).is_some_and(|next| !next.starts_with('-')) {
                argv.remove(index);
            }
            Some(CommandLine::Argv(argv))
        }
        CommandLine::Line(line) => {
            let value = if takes_value { format!(r"(={REST}|\s+{FIRST}{REST})?") } else { String::new() };
            // Another option may begin in the same way.
            let option = Regex::new(&format!(r"(^|\s){}{value}(?<end>$|[\s;&|<>()])", regex::escape(name))).ok()?;
            if option.find(line).is_some_and(|found| is_cut(line, found.end())) {
                return None;
            }
            let changed = option.replace(line, "$end");
            (changed != *line).then(|| CommandLine::Line(changed.trim().to_owned()))
        }
    }
}

/// Tells whether a part of a line that ends there ends within a substitution, as `--port $` of `--port $(next)`.
fn is_cut(line: &str, end: usize) -> bool {
    let (before, after) = line.split_at(end);
    let count = |mark: &str| before.matches(mark).count();
    count("`") % 2 == 1
        || count("${") > count("}")
        || count("$(") > count(")")
        || (before.ends_with('$') && after.starts_with('('))
}

/// Returns the command without what sends its output to nobody; `None` where nothing does, or where it may be the output
/// of another one.
pub(super) fn with_output(command: &CommandLine) -> Option<CommandLine> {
    if let Some(at) = line_at(command) {
        return in_shell(command, at, with_output);
    }
    let CommandLine::Line(line) = command else { return None };
    let away = Regex::new(r"\s*(?:&>>?|>&|[12]?>>?)\s*/dev/null(?:\s+[12]>&[12])?(?<end>$|[\s;&|)])").ok()?;
    let changed = away.replace_all(line, "$end");
    let matters = |words: &Vec<String>| words.first().is_some_and(|word| !HARMLESS.contains(&base(word)));
    let single = commands(&changed).into_iter().filter(matters).count() == 1;
    (single && changed != *line).then(|| CommandLine::Line(changed.trim().to_owned()))
}

/// Returns which word of `sh -c LINE` is the line; what comes after it is no option of any command in it.
fn line_at(command: &CommandLine) -> Option<usize> {
    if let CommandLine::Argv(argv) = command { shell_line(argv) } else { None }
}

fn in_shell(
    command: &CommandLine,
    at: usize,
    change: impl Fn(&CommandLine) -> Option<CommandLine>,
) -> Option<CommandLine> {
    let mut argv = command.argv();
    let CommandLine::Line(line) = change(&CommandLine::Line(argv[at].clone()))? else { return None };
    argv[at] = line;
    Some(CommandLine::Argv(argv))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(command: Option<CommandLine>) -> Option<String> {
        command.map(|command| match command {
            CommandLine::Line(line) => line,
            CommandLine::Argv(argv) => argv.join(" "),
        })
    }

    fn both(text: &str) -> [CommandLine; 2] {
        [CommandLine::Line(text.into()), CommandLine::Argv(text.split(' ').map(str::to_owned).collect())]
    }

    #[test]
    fn options_are_set() {
        let check = |text: &str, expected: &str| {
            for command in both(text) {
                assert_eq!(line(with_option(&command, &["--port", "-p"], "9")).as_deref(), Some(expected), "{text}");
            }
        };
        check("x --port 8 -m a", "x --port 9 -m a");
        check("x --port=8 -m a", "x --port=9 -m a");
        check("x -p 8", "x -p 9");
        check("x -m a", "x -m a --port 9");
        for value in ["$PORT", "${PORT:-8}"] {
            let line_of = |value: &str| CommandLine::Line(format!("x --port {value} -m a >/dev/null"));
            assert_eq!(with_option(&line_of(value), &["--port"], "9"), Some(line_of("9")), "{value}");
        }
        let twice = CommandLine::Line("y --port 8 & x --port 8".into());
        assert_eq!(with_option(&twice, &["--port"], "9"), None);
        // Nothing is left of half a substitution.
        for value in ["$(next 8)", "`next 8`", "$((8 + 1))", "${PORT:-$(next 8)}"] {
            let command = CommandLine::Line(format!("x --port {value} -m a"));
            assert_eq!(with_option(&command, &["--port"], "9"), None, "{value}");
            assert_eq!(without_option(&command, "--port", true), None, "{value}");
        }
        let several = CommandLine::Line("cd /m && x".into());
        assert_eq!(with_option(&several, &["--port"], "9"), None);
        let several = CommandLine::Line("cd /m && x --port 8; y".into());
        assert_eq!(line(with_option(&several, &["--port"], "9")).as_deref(), Some("cd /m && x --port 9; y"));
    }

    #[test]
    fn what_goes_to_nobody_is_shown_again() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(line(with_output(&CommandLine::Line(text.into()))).as_deref(), expected, "{text}");
        };
        for away in [">/dev/null 2>&1", "> /dev/null 2>&1", ">>/dev/null", "&>/dev/null", ">& /dev/null", "2>/dev/null"]
        {
            check(&format!("exec x -m a {away}"), Some("exec x -m a"));
        }
        check("x >/dev/null 2>/dev/null", Some("x"));
        check("ulimit -v 7; exec x >/dev/null 2>&1", Some("ulimit -v 7; exec x"));
        check("x -m a", None);
        check("x > /dev/nullify", None);
        check("x > log 2>&1", None);
        check("cd m >/dev/null; x", None);
        let shell = |line: &str| CommandLine::Argv(["sh", "-c", line].map(str::to_owned).to_vec());
        assert_eq!(with_output(&shell("x >/dev/null")), Some(shell("x")));
        assert_eq!(with_output(&CommandLine::Argv(vec!["x".into(), ">/dev/null".into()])), None);
    }

    #[test]
    fn what_a_shell_is_given_is_changed_inside() {
        let shell = |line: &str| CommandLine::Argv(["sh", "-ec", line].map(str::to_owned).to_vec());
        let set = |line: &str| with_option(&shell(line), &["--port"], "9");
        assert_eq!(set("sleep 1; x --port 8"), Some(shell("sleep 1; x --port 9")));
        assert_eq!(set("exec x"), Some(shell("exec x --port 9")));
        assert_eq!(set("sleep 1; x"), None, "whose option it would be nobody can tell");
        assert_eq!(without_option(&shell("x --bogus 3 -m a"), "--bogus", true), Some(shell("x -m a")));
        assert_eq!(without_option(&shell("x"), "--bogus", true), None);
        // A script of one's own is no line.
        let script = CommandLine::Argv(["sh", "run.sh", "--port", "8"].map(str::to_owned).to_vec());
        assert_eq!(line(with_option(&script, &["--port"], "9")).as_deref(), Some("sh run.sh --port 9"));
    }

    #[test]
    fn options_are_taken_out() {
        let check = |text: &str, takes_value, expected: &str| {
            for command in both(text) {
                assert_eq!(line(without_option(&command, "--bogus", takes_value)).as_deref(), Some(expected), "{text}");
            }
        };
        check("x --bogus 3 -m a", true, "x -m a");
        check("x --bogus -m a", true, "x -m a");
        check("x --bogus=3", true, "x");
        check("x --bogus 3", false, "x 3");
        // What a shell quotes is one word, and what ends a command stays.
        let check = |text: &str, expected: Option<&str>| {
            let command = CommandLine::Line(text.into());
            assert_eq!(line(without_option(&command, "--bogus", true)).as_deref(), expected, "{text}");
        };
        check("echo; x --port 8 --bogus 1; exit 1", Some("echo; x --port 8; exit 1"));
        check("x --bogus 1;exit 1", Some("x;exit 1"));
        check("x --bogus; exit 1", Some("x; exit 1"));
        check("x --bogus \"a b\" --alias \"x y\"", Some("x --alias \"x y\""));
        check("x --bogus='a;b' -m a", Some("x -m a"));
        check("x --bogus a\\ b\\;c -m a", Some("x -m a"));
        check("x --bogus-too 3", None);
        check("x --bogus>log", Some("x>log"));
        let set = |text: &str| line(with_option(&CommandLine::Line(text.into()), &["-m"], "b c"));
        assert_eq!(set("x -m 'a; b'; y").as_deref(), Some("x -m 'b c'; y"));
        assert_eq!(set("x -m a;y").as_deref(), Some("x -m 'b c';y"));
        for command in both("x -m a") {
            assert_eq!(without_option(&command, "--bogus", true), None);
        }
    }

    #[test]
    fn secrets_are_masked() {
        let command = CommandLine::Argv(["x", "--api-key", "sk-secret-secret-secret"].map(str::to_owned).to_vec());
        let suggestion = Suggestion::with("t", with_option(&command, &["--port"], "9"));
        assert!(!format!("{suggestion:?}").contains("secret-secret"), "{suggestion:?}");
    }
}
