//! Agent shells of older versions of Cookbook, which no file of it names. Pure.
//!
//! The name of a session says nothing: one is taken for an agent shell only when its whole launcher matches, down to
//! the home that it was given, and its process runs what the launcher ends with.

use std::path::Path;

/// What their tmux sessions are named like.
pub const PREFIX: &str = "ody-agent-";

/// The variables that the launcher may set.
const VARIABLES: [&str; 7] = ["PATH", "VIRTUAL_ENV", "HOME", "TMPDIR", "TERM", "COLUMNS", "LINES"];

const SHELL: [&str; 3] = ["/bin/bash", "--noprofile", "--norc"];

/// Checks a pane: the command that it was started with, as tmux tells it, and the arguments of its process.
///
/// # Errors
/// Says what does not match.
pub fn check(started: &str, argv: &[Vec<u8>], data_dir: &Path) -> Result<(), &'static str> {
    let words = match words(started) {
        // A line for a shell is one word.
        Some(words) if words.len() == 1 => self::words(&words[0]),
        words => words,
    };
    let words = words.ok_or("its launcher cannot be read")?;
    let rest = words.strip_prefix(&["env".to_owned()][..]).ok_or("its launcher does not begin with env")?;
    let (variables, shell) = rest.split_at(rest.len().saturating_sub(SHELL.len()));
    if shell != SHELL {
        return Err("its launcher does not end with the shell of an agent");
    }
    let variables: Option<Vec<(&str, &str)>> = variables.iter().map(|word| word.split_once('=')).collect();
    let variables = variables.ok_or("its launcher holds more than variables and the shell")?;
    if variables.iter().any(|(name, _)| !VARIABLES.contains(name)) {
        return Err("its launcher sets a variable that Cookbook does not set");
    }
    let mut homes = variables.iter().filter(|(name, _)| *name == "HOME");
    if homes.next().is_none_or(|(_, home)| Path::new(home) != data_dir) || homes.next().is_some() {
        return Err("its home is not the data directory");
    }
    if argv.iter().map(Vec::as_slice).ne(SHELL.iter().map(|word| word.as_bytes())) {
        return Err("it runs something else by now");
    }
    Ok(())
}

/// Takes a line apart as a shell would that expands nothing; `None` where a quote stays open.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().push(chars.next()?),
            (None, ' ' | '\t') => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(started: &str, argv: &str) -> bool {
        let argv: Vec<Vec<u8>> = argv.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        check(started, &argv, Path::new("/data dir")).is_ok()
    }

    #[test]
    fn only_the_whole_launcher_matches() {
        const BASH: &str = "/bin/bash --noprofile --norc";
        for started in [
            "env PATH=/bin \"HOME=/data dir\" TERM=xterm /bin/bash --noprofile --norc",
            "env HOME='/data dir' /bin/bash --noprofile --norc",
            "\"env HOME='/data dir' /bin/bash --noprofile --norc\"",
            "env HOME=/data\\ dir/ /bin/bash --noprofile --norc",
        ] {
            assert!(matches(started, BASH), "{started}");
        }
        for started in [
            "",
            "/bin/bash --noprofile --norc",
            "env /bin/bash --noprofile --norc",
            "env HOME=/root /bin/bash --noprofile --norc",
            "env HOME='/data dir' HOME=/root /bin/bash --noprofile --norc",
            "env HOME='/data dir' LD_PRELOAD=x /bin/bash --noprofile --norc",
            "env HOME='/data dir' /bin/bash --noprofile --norc -c x",
            "env HOME='/data dir' /bin/bash --norc --noprofile",
            "env -i HOME='/data dir' /bin/bash --noprofile --norc",
            "sudo env HOME='/data dir' /bin/bash --noprofile --norc",
            "env HOME='/data dir /bin/bash --noprofile --norc",
        ] {
            assert!(!matches(started, BASH), "{started}");
        }
        let good = "env HOME='/data dir' /bin/bash --noprofile --norc";
        assert!(!matches(good, "vim") && !matches(good, "/bin/bash --noprofile --norc -i"));
    }
}
