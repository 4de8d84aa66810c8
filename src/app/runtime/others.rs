//! Model servers that are none of ours: shown to whoever asks, and never signalled.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Inner;
use super::sampler::TICK;
use crate::app::contract::OtherServer;
use crate::app::phase::looks_like;
use crate::lifecycle::identity::Pid;
use crate::lifecycle::inspect::{Snapshot, Sockets, listeners_of, ports_of};
use crate::text;

/// Shortest time between two looks.
const PAUSE: Duration = Duration::from_secs(5);
/// Longest time between two looks: a server in a network of its own is in no list of sockets here.
const REST: Duration = Duration::from_secs(60);

/// What a repeated look for servers of others has seen last.
#[derive(Debug, Default)]
pub struct Watched {
    at: Option<Instant>,
    sockets: Option<Arc<Sockets>>,
    rows: Vec<OtherServer>,
}

impl Watched {
    /// Tells whether it is time to look at the processes. A server listens: as long as none is shown and nobody else
    /// listens than before, there is none to be found.
    fn is_due(&self, now: Instant, sockets: Option<&Arc<Sockets>>) -> bool {
        self.at.is_none_or(|at| now.duration_since(at) >= REST)
            || !self.rows.is_empty()
            || self.sockets.as_ref() != sockets
    }
}

impl super::Runtime {
    /// Returns the servers of others where they are not what they were at the last call. The processes are looked at
    /// seldom, and where none is shown only when somebody else listens than before.
    pub fn watch_others(&self, watched: &mut Watched) -> Option<Vec<OtherServer>> {
        let now = Instant::now();
        if watched.at.is_some_and(|at| now.duration_since(at) < PAUSE) {
            return None;
        }
        let sockets = self.inner.sockets();
        if !watched.is_due(now, sockets.as_ref()) {
            return None;
        }
        let rows = self.inner.others();
        (watched.at, watched.sockets) = (Some(now), sockets);
        (rows != watched.rows).then(|| {
            watched.rows.clone_from(&rows);
            rows
        })
    }
}

impl Inner {
    /// Returns the processes that look like model servers and belong to no session of this state directory, each
    /// with what is below it. One look at the process table; without one there are none to show.
    pub(super) fn others(&self) -> Vec<OtherServer> {
        let Ok(snapshot) = self.inspector.scan() else { return Vec::new() };
        let mut ours = BTreeSet::new();
        for session in self.all() {
            // Who was left alone for a while may have begun a server since.
            let is_old = session.state().sample.at.is_some_and(|at| at.elapsed() > TICK);
            if is_old && !session.state().over {
                self.sample_one(&session);
            }
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
                let listeners = listeners_of(&self.inspector, tree.iter().copied()).filter(|_| may_look);
                let rss = tree.iter().filter_map(|pid| snapshot.of(*pid)?.rss_bytes);
                Some(OtherServer {
                    pid,
                    server: servers.get(&pid).copied()?.to_owned(),
                    user: uid.map(|uid| user(&names, uid)),
                    ports: listeners.as_deref().map(ports_of),
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
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn processes_are_looked_at_where_something_can_have_changed() {
        let (at, none) = (Instant::now(), Some(Arc::new(Sockets::default())));
        let server = OtherServer {
            pid: Pid::new(7).unwrap(),
            server: "vllm".into(),
            user: None,
            ports: None,
            rss_bytes: None,
            command: String::new(),
        };
        let idle = Watched { at: Some(at), sockets: none.clone(), rows: Vec::new() };
        assert!(Watched::default().is_due(at, none.as_ref()), "nobody has looked yet");
        assert!(!idle.is_due(at + PAUSE, none.as_ref()));
        assert!(idle.is_due(at + PAUSE, None), "somebody else listens");
        assert!(idle.is_due(at + REST, none.as_ref()));
        let shown = Watched { rows: vec![server], ..idle };
        assert!(shown.is_due(at + PAUSE, none.as_ref()), "it may be gone");
    }

    #[test]
    fn users_have_names_or_numbers() {
        let names = "root:x:0:0:root:/root:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh\nbroken\n";
        assert_eq!([0, 1000, 7].map(|uid| user(names, uid)), ["root", "me", "7"]);
    }
}
