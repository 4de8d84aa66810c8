//! Model servers that are none of ours: shown to whoever asks, and never signalled.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::Inner;
use crate::app::contract::OtherServer;
use crate::app::phase::looks_like;
use crate::lifecycle::identity::Pid;
use crate::lifecycle::inspect::{Snapshot, listeners_of};
use crate::text;

impl Inner {
    /// Returns the processes that look like model servers and belong to no session of this state directory, each
    /// with what is below it. One look at the process table; without one there are none to show.
    pub(super) fn others(&self) -> Vec<OtherServer> {
        let Ok(snapshot) = self.inspector.scan() else { return Vec::new() };
        let mut ours = BTreeSet::new();
        for session in self.all() {
            let state = session.state();
            let beside = state.sample.supervisors.iter().chain(&state.sample.unbound).map(|row| row.pid);
            ours.extend(state.sample.rows.keys().map(|member| member.pid).chain(beside));
        }
        let alive: Vec<Pid> = snapshot.iter().filter(|facts| !facts.ended()).map(|facts| facts.pid).collect();
        let argvs = self.inspector.argv_of_many(&alive);
        let servers: BTreeMap<Pid, &'static str> = argvs
            .iter()
            .filter_map(|(pid, argv)| {
                let words: Vec<String> = argv.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
                Some((*pid, looks_like(&words)?))
            })
            .collect();
        let me = rustix::process::geteuid();
        let names = fs::read_to_string("/etc/passwd").unwrap_or_default();
        topmost(&snapshot, &servers, &ours)
            .into_iter()
            .filter_map(|pid| {
                let tree = below(&snapshot, pid);
                let uid = self.inspector.uid(pid);
                // Whose descriptors may not be read, of those nobody can tell.
                let may_look = me.is_root() || uid == Some(me.as_raw());
                let ports = listeners_of(&self.inspector, tree.iter().copied()).filter(|_| may_look).map(|listeners| {
                    let ports: BTreeSet<u16> = listeners.into_iter().map(|listener| listener.port).collect();
                    ports.into_iter().collect()
                });
                let rss = tree.iter().filter_map(|pid| snapshot.of(*pid)?.rss_bytes);
                Some(OtherServer {
                    pid,
                    server: servers.get(&pid).copied()?.to_owned(),
                    user: uid.map(|uid| user(&names, uid)),
                    ports,
                    rss_bytes: rss.reduce(|a, b| a + b),
                    command: text::command_line(argvs.get(&pid)?).0,
                })
            })
            .collect()
    }
}

/// Returns the servers that are not below another one, and not below anybody of ours.
fn topmost(snapshot: &Snapshot, servers: &BTreeMap<Pid, &str>, ours: &BTreeSet<Pid>) -> Vec<Pid> {
    let is_free = |pid: &Pid| {
        let above = snapshot.ancestors(*pid);
        !ours.contains(pid) && !above.iter().any(|above| servers.contains_key(above) || ours.contains(above))
    };
    servers.keys().copied().filter(is_free).collect()
}

/// Returns a process and its descendants.
fn below(snapshot: &Snapshot, root: Pid) -> Vec<Pid> {
    let children = snapshot.children();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        let more: Vec<Pid> = children.get(&pid.raw()).into_iter().flatten().copied().collect();
        found.extend(more.into_iter().filter(|pid| *pid != root));
        next += 1;
    }
    found
}

/// Returns the name of a user in a passwd(5) file, else the number.
fn user(names: &str, uid: u32) -> String {
    let number = uid.to_string();
    let name = names.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == number).then(|| name.to_owned())
    });
    name.unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names_or_numbers() {
        let names = "root:x:0:0:root:/root:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh\nbroken\n";
        assert_eq!([0, 1000, 7].map(|uid| user(names, uid)), ["root", "me", "7"]);
    }
}
