//! Daemons that outlive their starter on purpose, recognised by executable and listening socket.
//!
//! A name alone is never enough: the process must lead its own kernel session, and most entries of the
//! table also ask for a listening Unix socket.

use super::identity::Pid;
use super::inspect::{Facts, Inspector};

const TABLE: &str = include_str!("../../assets/kept.tsv");

/// Returns what kind of kept daemon a process is, if it is one.
pub(super) fn recognise(facts: &Facts, inspector: &Inspector) -> Option<String> {
    // Daemons call setsid(2); whoever shares a session with its starter is a plain child.
    if facts.sid != facts.pid.raw() && facts.sid != 0 {
        return None;
    }
    let may_match = |executable: &str| {
        let head = &executable.as_bytes()[..executable.len().min(4)];
        facts.comm.to_ascii_lowercase().starts_with(head)
    };
    let (_, needs_socket, what) = rows().find(|(executable, ..)| {
        may_match(executable) && inspector.executable(facts.pid).as_deref() == Some(*executable)
    })?;
    if !needs_socket {
        return Some(what.to_owned());
    }
    (inspector.listens_on_unix(facts.pid) && !is_fork(facts, inspector)).then(|| what.to_owned())
}

/// Tells whether a process has everything from its parent: a pane of a tmux server is its image, and holds its socket,
/// until it executes what it is for. A daemon of its own has left whoever started it, or was started by no listener.
fn is_fork(facts: &Facts, inspector: &Inspector) -> bool {
    Pid::new(facts.ppid).is_some_and(|parent| {
        inspector.executable(parent).is_some_and(|theirs| inspector.executable(facts.pid) == Some(theirs))
            && inspector.listens_on_unix(parent)
    })
}

fn rows() -> impl Iterator<Item = (&'static str, bool, &'static str)> {
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut columns = line.split('\t');
        Some((columns.next()?, columns.next()? == "yes", columns.next()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_parses() {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(rows().count(), lines);
        assert!(rows().all(|(executable, _, what)| !executable.is_empty() && !what.is_empty()));
        assert!(rows().any(|row| row == ("tmux", true, "a nested tmux server")));
    }
}
