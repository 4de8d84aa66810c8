//! What is typed in the plain mode: words of a line, and the subcommand that they are. Pure.

use clap::{CommandFactory, Parser};

use crate::app::args::{Action, Typed};
use crate::text::escape;

/// What a line asks for.
#[derive(Debug)]
pub(super) enum Asked {
    /// Nothing.
    Nothing,
    /// The list of commands.
    Help,
    /// The end.
    Quit,
    /// A subcommand.
    Action(Box<Action>),
}

/// Commands of the screen that are subcommands under another name.
const ALIASES: [(&str, &[&str]); 5] = [
    ("list", &["ls"]),
    ("start", &["launch"]),
    ("force", &["stop", "--force"]),
    ("reap", &["orphans", "--reap"]),
    ("take-over", &["orphans", "--adopt"]),
];

/// Subcommands that take the terminal, or print what is meant for a file.
const NOT_HERE: [&str; 7] = ["attach", "trust", "keys", "schema", "completions", "man", "help"];

/// Reads a line.
///
/// # Errors
/// Says what is wrong with it, in lines.
pub(super) fn read(line: &str) -> Result<Asked, String> {
    let mut words = split(line)?;
    let Some(first) = words.first() else { return Ok(Asked::Nothing) };
    match first.as_str() {
        "help" | "?" if words.len() == 1 => return Ok(Asked::Help),
        // `help stop` is `stop --help`.
        "help" => {
            words.remove(0);
            words.push("--help".to_owned());
        }
        "quit" | "exit" | "q" => return Ok(Asked::Quit),
        first if NOT_HERE.contains(&first) => {
            return Err(format!("{first} is not for here: run `cookbook-tui {first}` outside of the plain mode"));
        }
        first => {
            if let Some((_, instead)) = ALIASES.iter().find(|(alias, _)| *alias == first) {
                words.splice(0..1, instead.iter().map(|word| (*word).to_owned()));
            }
        }
    }
    let typed = Typed::try_parse_from(words).map_err(|error| {
        let text = error.to_string();
        text.lines().filter(|line| !line.trim().is_empty()).map(escape).collect::<Vec<_>>().join("\n")
    })?;
    if matches!(&typed.action, Action::Logs(logs) if logs.follow) {
        return Err("-f is not for here: what happens is told as it happens".to_owned());
    }
    if typed.action.wants_json() {
        return Err("--json is not for here: take --batch for programs".to_owned());
    }
    Ok(Asked::Action(Box::new(typed.action)))
}

/// Returns the commands, a sentence each.
pub(super) fn help() -> String {
    let mut lines = vec!["Commands, each on a line of its own; help COMMAND tells more.".to_owned()];
    for command in Typed::command().get_subcommands() {
        let name = command.get_name();
        if !NOT_HERE.contains(&name) {
            let also = ALIASES.iter().filter(|(_, words)| **words == [name]).map(|(alias, _)| format!(", or {alias}"));
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            lines.push(format!("{name}{}: {about}.", also.collect::<String>()));
        }
    }
    for (alias, words) in ALIASES.iter().filter(|(_, words)| words.len() > 1) {
        lines.push(format!("{alias}: the same as {}.", words.join(" ")));
    }
    lines.push("quit: Say what ends, and leave; so does the end of the input, without a question.".to_owned());
    lines.push("Whatever signals is read out first, and done only when you type yes.".to_owned());
    lines.join("\n")
}

/// Splits a line into words as a shell does: blanks separate, quotes and backslashes hold together.
fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some(end) if end == c => break,
                        Some('\\') if c == '"' => word.extend(chars.next()),
                        Some(inside) => word.push(inside),
                        None => return Err(format!("a {c} has no second one: close the quote")),
                    }
                }
            }
            '\\' => word.get_or_insert_default().extend(chars.next()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_becomes_words() {
        for (line, expected) in [
            ("", &[][..]),
            ("  a\tb ", &["a", "b"]),
            ("send x 'echo \"hi\"' -k Enter", &["send", "x", "echo \"hi\"", "-k", "Enter"]),
            ("a \"b \\\" c\" d\\ e ''", &["a", "b \" c", "d e", ""]),
        ] {
            assert_eq!(split(line).unwrap_or_default(), expected, "{line}");
        }
        assert!(split("a 'b").is_err());
    }

    #[test]
    fn lines_are_subcommands_by_either_name() {
        let shown = |line: &str| match read(line) {
            Ok(asked) => format!("{asked:?}"),
            Err(why) => format!("Err {why}"),
        };
        for (line, expected) in [
            ("", "Nothing"),
            ("?", "Help"),
            ("quit", "Quit"),
            ("list", "Action(Ls("),
            ("start tiny", "recipe: Some(\"tiny\")"),
            ("start --kind serve -- sleep 1", "command: [\"sleep\", \"1\"]"),
            ("force x", "force: true"),
            ("reap", "reap: true"),
            ("attach x", "Err attach is not for here"),
            ("man", "Err man is not for here"),
            ("logs x -f", "Err -f is not for here"),
            ("ls --json", "Err --json is not for here"),
            ("stpo x", "'stop'"),
            ("help stop", "Seconds between TERM and KILL"),
        ] {
            assert!(shown(line).contains(expected), "{line}: {}", shown(line));
        }
    }

    #[test]
    fn the_help_names_every_command_that_can_be_typed() {
        let help = help();
        for name in ["ls, or list: ", "launch, or start: ", "stop: ", "why: ", "send: ", "reap: ", "quit: "] {
            assert!(help.contains(&format!("\n{name}")), "{name}: {help}");
        }
        assert!(!help.contains("completions"), "{help}");
    }
}
