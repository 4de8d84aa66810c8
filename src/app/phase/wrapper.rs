//! Programs that run another one, and the lines that they hand to a shell.

use super::server::base;
use super::words::commands;

/// Programs that run the rest of their words.
pub(super) const WRAPPERS: &[&str] = &[
    "builtin",
    "cgexec",
    "chroot",
    "chrt",
    "command",
    "conda",
    "coproc",
    "dbus-run-session",
    "doas",
    "dumb-init",
    "env",
    "eval",
    "exec",
    "flock",
    "gdb",
    "gosu",
    "ionice",
    "ltrace",
    "mamba",
    "micromamba",
    "nice",
    "nohup",
    "nsenter",
    "numactl",
    "perf",
    "pipenv",
    "poetry",
    "prlimit",
    "runuser",
    "script",
    "setarch",
    "setpriv",
    "setsid",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "systemd-run",
    "taskset",
    "time",
    "timeout",
    "tini",
    "unbuffer",
    "unshare",
    "uv",
    "uvx",
    "valgrind",
    "xvfb-run",
];
pub(super) const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh"];

/// Of the wrappers, those that a shell has built in, and those that may run a program where other files and other
/// addresses are.
const AWAY: [&str; 12] = [
    "builtin",
    "chroot",
    "command",
    "coproc",
    "doas",
    "eval",
    "gosu",
    "nsenter",
    "runuser",
    "su",
    "systemd-run",
    "unshare",
];

/// Programs that take a line for a shell with `-c`, as `flock FILE -c LINE` (flock(1), su(1), runuser(1), script(1)).
const TAKE_LINES: [&str; 4] = ["flock", "runuser", "script", "su"];

/// Commands whose words are about a program that they do not run.
const SPEAK_OF: [&str; 11] =
    ["cat", "echo", "grep", "journalctl", "ls", "pgrep", "printf", "systemctl", "tail", "type", "which"];

/// Tells whether a program runs the rest of its words. gdb(1) takes a program and its core file for words of its own.
pub(super) fn wraps(argv: &[String]) -> bool {
    let first = argv.first().map(|word| base(word)).unwrap_or_default();
    let runs = first != "gdb" || argv.iter().any(|word| matches!(word.as_str(), "--args" | "-args"));
    runs && WRAPPERS.contains(&first)
}

/// Tells whether a program is built into the shell, or may run another one elsewhere.
pub(super) fn is_away(program: &str) -> bool {
    AWAY.contains(&program)
}

/// Returns which word of `sh -c LINE` is the line; `None` for any other command.
pub(super) fn shell_line(argv: &[String]) -> Option<usize> {
    if !SHELLS.contains(&base(argv.first()?)) {
        return None;
    }
    line_after_c(argv)
}

fn line_after_c(argv: &[String]) -> Option<usize> {
    let is_c = |word: &String| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
    argv.iter().position(is_c).map(|at| at + 1).filter(|at| *at < argv.len())
}

/// Returns the line that a wrapper has a shell run: `timeout 9 sh -c LINE`, `flock FILE -c LINE`, `env -S LINE`,
/// `eval LINE`.
pub(super) fn wrapped_line(argv: &[String]) -> Option<String> {
    if !wraps(argv) {
        return None;
    }
    // It takes further ones for a command, too: what the last one is given is in one line with that.
    if let Some(last) = argv.iter().rposition(|word| base(word) == "eval") {
        return Some(argv[last + 1..].join(" "));
    }
    (0..argv.len()).find_map(|at| {
        let words = &argv[at..];
        let after = |names: &[&str]| {
            let place = words.iter().position(|word| names.contains(&word.as_str()))?;
            words.get(place + 1).cloned()
        };
        let joined = |name: &str| words.iter().find_map(|word| Some(word.strip_prefix(name)?.to_owned()));
        match base(&words[0]) {
            "env" => after(&["-S", "--split-string"]).or_else(|| joined("--split-string=")),
            shell if SHELLS.contains(&shell) => line_after_c(words).map(|line| words[line].clone()),
            program if TAKE_LINES.contains(&program) => line_after_c(words)
                .map(|line| words[line].clone())
                .or_else(|| after(&["--command", "--session-command"]))
                .or_else(|| joined("--command=")),
            _ => None,
        }
    })
}

/// Returns the places in a command from which on its words may be those of a program that something runs of which
/// nobody knows that it does.
pub(super) fn tails(argv: &[String]) -> Vec<Vec<String>> {
    let all = shell_line(argv).map_or_else(|| vec![argv.to_vec()], |at| commands(&argv[at]));
    let speaks = |words: &Vec<String>| words.first().is_some_and(|word| SPEAK_OF.contains(&base(word)));
    let runs = all.into_iter().filter(|words| !speaks(words));
    runs.flat_map(|words| (1..words.len()).map(|at| words[at..].to_vec()).collect::<Vec<_>>()).collect()
}
