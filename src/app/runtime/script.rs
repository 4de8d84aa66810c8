//! The scripts by which servers are started: what is in them tells which server it will be.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::lifecycle::regular;

/// Longest script that is looked into.
const LENGTH_MAX: u64 = 64 << 10;
const SHELLS: [&str; 5] = ["sh", "bash", "dash", "zsh", "ksh"];

/// Tells whether a command line is that of a shell, whatever it was told.
pub(super) fn is_shell(command: &str) -> bool {
    let program = command.split_whitespace().next().unwrap_or_default().trim_start_matches('-');
    let program = program.rsplit('/').next().unwrap_or(program);
    SHELLS.contains(&program) || program == "fish"
}

/// Returns the text of the shell script that a command runs, without its comments; `None` where it runs none. It is
/// read, never run.
pub(super) fn text_of(argv: &[String], cwd: &str) -> Option<String> {
    let program = argv.first()?;
    let is_shell = |path: &str| SHELLS.contains(&path.rsplit('/').next().unwrap_or(path));
    let named = if is_shell(program) {
        // Options of its own aside; of `-c` there is no file.
        argv[1..].iter().find(|word| !word.starts_with('-')).filter(|_| !argv[1..].iter().any(|word| word == "-c"))?
    } else {
        Some(program).filter(|program| program.contains('/'))?
    };
    let path: PathBuf = Path::new(cwd).join(named);
    let mut text = String::new();
    regular::open(&path).ok()?.take(LENGTH_MAX).read_to_string(&mut text).ok()?;
    let mut first = text.lines().next()?.strip_prefix("#!").unwrap_or_default().split_whitespace();
    let by_shell = first.any(is_shell);
    let is_code = |line: &&str| !line.trim_start().starts_with('#');
    (by_shell || is_shell(program)).then(|| text.lines().filter(is_code).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn shells_are_told_by_their_program() {
        for line in ["bash", "-bash", "/bin/zsh -i", "fish", "/usr/bin/bash --norc -i", "bash /tmp/run.sh"] {
            assert!(is_shell(line), "{line}");
        }
        for line in ["", "vllm serve x", "/opt/run.sh", "python3 bash"] {
            assert!(!is_shell(line), "{line}");
        }
    }

    #[test]
    fn scripts_of_shells_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
        write("run.sh", "#!/usr/bin/env bash\n# it's a comment\nexec x\n");
        write("bare", "x --port 8\n");
        write("tool.py", "#!/usr/bin/python3\nimport os\n");
        write("binary", "\u{7f}ELF");
        let check = |line: &str, expected: Option<&str>| {
            let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let found = text_of(&argv, folder.path().to_str().expect("utf-8"));
            assert_eq!(found.as_deref(), expected, "{line}");
        };
        check("./run.sh --fast", Some("exec x"));
        check("bash -e run.sh", Some("exec x"));
        check("sh bare", Some("x --port 8"));
        check("./bare", None);
        check("run.sh", None);
        check("sh -c run.sh", None);
        check("./tool.py", None);
        check("./binary", None);
        check("./none", None);
        check("sh", None);
    }
}
