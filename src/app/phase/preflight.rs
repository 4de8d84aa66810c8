//! What can be told of a server before it is launched.

use super::server::{assignment, base};
use super::words::commands;
use super::wrapper::{is_away, shell_line};
use crate::app::contract::CommandLine;

/// A command whose program is plain to see: nothing runs before it that could change what it finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Direct {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Variables that the command itself sets.
    pub set: Vec<(String, String)>,
}

/// Programs that run the rest of their words as they are, in the same place.
const TRANSPARENT: [&str; 4] = ["exec", "env", "nohup", "setsid"];
/// What a shell does something with, so that the line is not what it looks like.
const SHELL_MARKS: &str = "$`*?[]{}();&|<>#!~\\\n";
/// Options that name something to fetch: the file of `-m` is where it is put then.
const FETCHED: [&str; 7] = ["-hf", "-hfr", "--hf-repo", "-mu", "--model-url", "-dr", "--docker-repo"];

/// Takes a command apart; `None` where a shell or another program decides what is run, and where.
pub fn direct(command: &CommandLine) -> Option<Direct> {
    let found = match command {
        CommandLine::Argv(argv) => unwrapped(argv.clone(), false)?,
        CommandLine::Line(line) => of_line(line)?,
    };
    let found = match shell_line(&found.words) {
        Some(at) => {
            let inner = of_line(&found.words[at])?;
            Direct { set: found.set.into_iter().chain(inner.set).collect(), ..inner }
        }
        None => found,
    };
    let moves = found.set.iter().any(|(name, _)| name == "PATH");
    let led = found.words.iter().any(|word| is_away(base(word)));
    (!moves && !led).then_some(found)
}

/// Takes a line for a shell apart that does nothing but run one program.
fn of_line(line: &str) -> Option<Direct> {
    if line.contains(|c| SHELL_MARKS.contains(c)) {
        return None;
    }
    unwrapped(commands(line).into_iter().next()?, true)
}

/// Takes off what runs the rest of the words as they are. `assigns`: the first words may set variables.
pub(super) fn unwrapped(mut words: Vec<String>, mut assigns: bool) -> Option<Direct> {
    let mut set = Vec::new();
    loop {
        if assigns {
            let count = words.iter().map_while(|word| assignment(word)).map(|pair| set.push(pair)).count();
            words.drain(..count);
        }
        let program = base(words.first()?);
        if !TRANSPARENT.contains(&program) {
            return Some(Direct { words, set });
        }
        assigns = program == "env";
        words.remove(0);
        if words.first()?.starts_with('-') {
            return None;
        }
    }
}

/// Returns the program that a shell or a wrapper was told to run, where that is one; a program that was started as it is
/// has been found.
pub(super) fn told_to_run(command: &CommandLine) -> Option<String> {
    let (words, in_shell) = simple_commands(command);
    let [words] = <[Vec<String>; 1]>::try_from(words).ok()?;
    let started = words.first().cloned();
    let program = unwrapped(words, in_shell)?.words.into_iter().next()?;
    (in_shell || Some(&program) != started.as_ref()).then_some(program).filter(|program| !program.contains(['$', '`']))
}

/// Returns the simple commands of a command line, each as its words, and whether a shell reads them.
pub(super) fn simple_commands(command: &CommandLine) -> (Vec<Vec<String>>, bool) {
    match command {
        CommandLine::Argv(argv) => match shell_line(argv) {
            Some(at) => (commands(&argv[at]), true),
            None => (vec![argv.clone()], false),
        },
        CommandLine::Line(line) => (commands(line), true),
    }
}

/// Tells whether a command may fetch its model file first.
pub fn fetches(words: &[String]) -> bool {
    words.iter().any(|word| FETCHED.contains(&word.split('=').next().unwrap_or_default()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn what_runs_is_plain_to_see_or_not() {
        let check = |text: &str, expected: Option<(&str, usize)>| {
            for command in [CommandLine::Line(text.into()), CommandLine::Argv(words(text))] {
                // Without a shell a word such as `A=1` is a program.
                if matches!(command, CommandLine::Argv(_)) && (text.starts_with("A=1") || expected.is_none()) {
                    continue;
                }
                let expected = expected.map(|(program, set)| (words(program), set));
                let found = direct(&command).map(|direct| (direct.words, direct.set.len()));
                assert_eq!(found, expected, "{command:?}");
            }
        };
        check("llama-server -m x", Some(("llama-server -m x", 0)));
        check("exec llama-server -m x", Some(("llama-server -m x", 0)));
        check("A=1 exec llama-server", Some(("llama-server", 1)));
        check("env A=1 B=2 nohup /opt/llama-server", Some(("/opt/llama-server", 2)));
        check("uv run vllm serve x", Some(("uv run vllm serve x", 0)));
        check("env PATH=/x llama-server", None);
        check("env -C /m llama-server", None);
        check("cd /m && llama-server -m x", None);
        check("llama-server -m $MODEL", None);
        check("llama-server -m ~/x", None);
        check("llama-server -m x > log", None);
        assert_eq!(direct(&CommandLine::Argv(words("env -C /m llama-server"))), None);
        assert_eq!(direct(&CommandLine::Argv(words("env PATH=/x llama-server"))), None);
        assert_eq!(direct(&CommandLine::Argv(words("env"))), None);
        assert_eq!(direct(&CommandLine::Line(" ".into())), None);
        // A shell in the argument vector is a shell.
        let shell = |line: &str| CommandLine::Argv(["bash", "-c", line].map(str::to_owned).to_vec());
        assert_eq!(direct(&shell("exec llama-server -m x")).unwrap().words, words("llama-server -m x"));
        for line in ["cd /m && llama-server -m x", "cd /m; llama-server -m x", "cp a b; llama-server -m b", "PATH=/x y"]
        {
            assert_eq!(direct(&shell(line)), None, "{line}");
        }
        // In an argument that no shell reads it is a character like any other.
        let odd = ["llama-server", "-m", "a b$.gguf"].map(str::to_owned);
        assert_eq!(direct(&CommandLine::Argv(odd.to_vec())).unwrap().words, odd);
    }

    #[test]
    fn a_file_may_be_fetched_first() {
        assert!(fetches(&words("llama-server -m x -hf org/x")));
        assert!(fetches(&words("llama-server --model-url=http://x -m x")));
        assert!(!fetches(&words("llama-server -m x")));
    }

    #[test]
    fn whom_a_shell_was_to_run() {
        let shell = |line: &str| CommandLine::Argv(["sh", "-c", line].map(str::to_owned).to_vec());
        let check = |command: CommandLine, expected: Option<&str>| {
            assert_eq!(told_to_run(&command).as_deref(), expected, "{command:?}");
        };
        check(shell("exec nope --port 8"), Some("nope"));
        check(shell("A=1 nohup ./x/nope >/dev/null 2>&1"), Some("./x/nope"));
        check(CommandLine::Line("nope".into()), Some("nope"));
        check(CommandLine::Argv(words("env A=1 nope --port 8")), Some("nope"));
        // It was found: what it runs nobody knows.
        check(CommandLine::Argv(words("./run.sh")), None);
        check(shell("a; b"), None);
        check(shell("$SERVER"), None);
    }
}
