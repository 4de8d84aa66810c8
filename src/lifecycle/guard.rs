//! Who must never be signalled, whatever the verdict.
//!
//! A [`Guard`] knows ourselves, our ancestors, our process group and kernel session, and the
//! multiplexer servers that hold sessions. `authority::authorize` asks it for every signal.

use super::identity::Pid;
use super::inspect::{Facts, Inspector, Start};

/// The protected processes of this host, as seen by this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    me: Pid,
    /// Our group and kernel session as the inspector shows them: 0 where their leader is outside of our pid
    /// namespace, which every process with such a leader shares. `None`: they could not be read.
    own: Option<(i32, i32)>,
    ancestors: Vec<Pid>,
    /// Whoever has us do it, and its ancestors, nearest first.
    askers: Vec<Facts>,
    servers: Vec<(Pid, String)>,
}

impl Guard {
    /// Looks up ourselves and our ancestors.
    pub fn new(inspector: &Inspector) -> Self {
        let me = Pid::new(rustix::process::getpid().as_raw_nonzero().get()).unwrap_or(INIT);
        let own = inspector.facts(me).ok().flatten().map(|facts| (facts.pgid, facts.sid));
        let mut ancestors = Vec::new();
        let mut next = Some(me);
        while let Some(pid) = next {
            let parent = inspector.facts(pid).ok().flatten().and_then(|facts| Pid::new(facts.ppid));
            next = parent.filter(|parent| !ancestors.contains(parent));
            ancestors.extend(next);
        }
        Self { me, own, ancestors, askers: Vec::new(), servers: Vec::new() }
    }

    /// Adds a multiplexer server, for example the tmux server that holds the session.
    pub fn protect_server(&mut self, pid: Pid, what: impl Into<String>) {
        self.servers.push((pid, what.into()));
    }

    /// Adds another cookbook-tui that has us do it, with its ancestors, nearest first.
    pub fn protect_asker(&mut self, lineage: &[Facts]) {
        self.askers.extend_from_slice(lineage);
    }

    /// Returns the server's description where `pid` is a protected server: a capture stops there.
    pub fn server(&self, pid: Pid) -> Option<&str> {
        self.servers.iter().find(|(server, _)| *server == pid).map(|(_, what)| what.as_str())
    }

    /// Tells whether `pid` is ourselves.
    pub fn is_me(&self, pid: Pid) -> bool {
        pid == self.me
    }

    /// Tells whether `pid` is ourselves or one of our ancestors: whatever holds it holds us.
    pub fn holds_us(&self, pid: Pid) -> bool {
        pid == self.me || self.ancestors.contains(&pid)
    }

    /// Tells whether it is ourselves, or whoever has us do it.
    pub fn asks(&self, facts: &Facts) -> bool {
        self.is_me(facts.pid) || self.askers.first().is_some_and(|asker| is_same(asker, facts))
    }

    /// Tells whether it is an ancestor of one who [`Guard::asks`].
    pub fn is_above(&self, facts: &Facts) -> bool {
        self.ancestors.contains(&facts.pid) || self.askers.iter().skip(1).any(|above| is_same(above, facts))
    }

    /// Returns why a process must never be signalled, if so.
    pub fn protects(&self, facts: &Facts) -> Option<String> {
        if facts.pid <= INIT {
            return Some("the init process".into());
        }
        if facts.pid == self.me {
            return Some("this cookbook-tui".into());
        }
        if self.ancestors.contains(&facts.pid) {
            return Some("an ancestor of this cookbook-tui".into());
        }
        if self.asks(facts) {
            return Some("the cookbook-tui that asks for it".into());
        }
        if self.is_above(facts) {
            return Some("an ancestor of the cookbook-tui that asks for it".into());
        }
        if let Some(what) = self.server(facts.pid) {
            return Some(what.to_owned());
        }
        let Some((pgid, sid)) = self.own else {
            return Some("our own process group could not be read, so it may be in it".into());
        };
        if facts.pgid == pgid {
            return Some("in the process group of this cookbook-tui".into());
        }
        // ps(1) of BSD shows no session ids: all are 0 there.
        if facts.sid == sid && (sid != 0 || matches!(facts.start, Start::Ticks(_))) {
            return Some("in the kernel session of this cookbook-tui".into());
        }
        None
    }
}

fn is_same(one: &Facts, other: &Facts) -> bool {
    one.pid == other.pid && one.start == other.start
}

const INIT: Pid = match Pid::new(1) {
    Some(pid) => pid,
    None => unreachable!(),
};

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(raw: i32) -> Pid {
        Pid::new(raw).expect("positive")
    }

    fn facts(raw: i32, pgid: i32, sid: i32, start: Start) -> Facts {
        let (state, threads, comm) = ('S', 1, b"x".to_vec());
        let (cpu_ticks, rss_bytes, settled) = (None, None, true);
        Facts { pid: pid(raw), ppid: 1, pgid, sid, start, state, threads, comm, cpu_ticks, rss_bytes, settled }
    }

    fn guard() -> Guard {
        let askers = vec![facts(80, 80, 80, Start::Ticks(1)), facts(81, 81, 81, Start::Ticks(1))];
        let servers = vec![(pid(60), "tmux".into())];
        Guard { me: pid(50), own: Some((51, 52)), ancestors: vec![pid(40)], askers, servers }
    }

    #[track_caller]
    fn check(guard: &Guard, facts: &Facts, expected: Option<&str>) {
        let reason = guard.protects(facts);
        assert_eq!(reason.is_some(), expected.is_some(), "{facts:?}: {reason:?}");
        assert!(reason.unwrap_or_default().contains(expected.unwrap_or_default()), "{facts:?}");
    }

    /// Each reason alone is one.
    #[test]
    fn every_reason_protects_by_itself() {
        let guard = guard();
        let of = |raw, pgid, sid| facts(raw, pgid, sid, Start::Ticks(1));
        check(&guard, &of(70, 70, 70), None);
        check(&guard, &of(1, 70, 70), Some("init"));
        check(&guard, &of(50, 70, 70), Some("this cookbook-tui"));
        check(&guard, &of(40, 70, 70), Some("an ancestor"));
        check(&guard, &of(60, 70, 70), Some("tmux"));
        check(&guard, &of(80, 70, 70), Some("the cookbook-tui that asks"));
        check(&guard, &of(81, 70, 70), Some("an ancestor of the cookbook-tui that asks"));
        check(&guard, &of(70, 51, 70), Some("process group"));
        check(&guard, &of(70, 70, 52), Some("kernel session"));
        assert!(guard.holds_us(pid(40)) && guard.holds_us(pid(50)) && !guard.holds_us(pid(60)));
    }

    /// The number alone is not whoever asks.
    #[test]
    fn whoever_asks_is_known_by_its_start_too() {
        let guard = guard();
        let of = |raw, start| facts(raw, 70, 70, Start::Ticks(start));
        assert!(guard.asks(&of(50, 9)) && guard.asks(&of(80, 1)) && !guard.asks(&of(80, 2)) && !guard.asks(&of(81, 1)));
        assert!(guard.is_above(&of(40, 9)) && guard.is_above(&of(81, 1)));
        assert!(!guard.is_above(&of(81, 2)) && !guard.is_above(&of(80, 1)));
        check(&guard, &of(80, 2), None);
        check(&guard, &of(81, 2), None);
    }

    #[test]
    fn what_could_not_be_read_protects_everybody() {
        check(&Guard { own: None, ..guard() }, &facts(70, 70, 70, Start::Ticks(1)), Some("could not be read"));
    }

    /// In procfs a 0 is the number of every session that is led from outside of our pid namespace, ours perhaps; ps(1)
    /// of BSD shows nothing else.
    #[test]
    fn the_session_zero_is_one_in_procfs_and_none_in_ps() {
        let guard = Guard { own: Some((51, 0)), ..guard() };
        check(&guard, &facts(70, 70, 0, Start::Ticks(1)), Some("kernel session"));
        check(&guard, &facts(70, 70, 0, Start::Lstart("x".into())), None);
    }
}
