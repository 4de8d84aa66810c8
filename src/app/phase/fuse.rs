//! The phase that is shown: what a server says and what a probe saw, put together.

use super::detect::Seen;
use crate::app::contract::Phase;

/// How the readiness of a session is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Not at all.
    Unknown,
    /// By a line of its output.
    Log,
    /// By asking it.
    Probe,
}

/// What asking showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Probed {
    /// Nobody has asked yet, or its port is closed.
    #[default]
    Closed,
    /// Somebody else listens on its port.
    Elsewhere(String),
    /// It answers that it is not ready.
    Busy,
    /// It listens and does not answer.
    Silent,
    /// It answers, and nobody can tell whether it is the session's own.
    Unverified,
    /// It answers, and it is the session's own.
    Ready,
}

/// How far a session has come.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The phase.
    pub phase: Phase,
    /// How much of it is done, in percent.
    pub percent: Option<f64>,
    /// More, in words.
    pub detail: Option<String>,
    /// Tokens a second, as the server said last.
    pub tokens_per_s: Option<f64>,
    /// Requests that run now, where the server says so.
    pub requests: Option<u32>,
}

impl Progress {
    /// Returns the progress of a session of which nothing but its phase is known.
    pub const fn of(phase: Phase) -> Self {
        Self { phase, percent: None, detail: None, tokens_per_s: None, requests: None }
    }
}

/// Puts together what was said and what was seen. `before` is the phase that was shown last; `quiet` says that
/// there was no request for a while.
pub fn fuse(readiness: Readiness, seen: &Seen, probed: &Probed, before: Phase, quiet: bool) -> Progress {
    let works = match (readiness, probed) {
        (Readiness::Unknown, _) => return unknown(seen),
        (Readiness::Log, _) => seen.matched,
        (Readiness::Probe, Probed::Ready) => true,
        // Busy with a request; whoever hangs for good is not told apart from it here.
        (Readiness::Probe, Probed::Silent) => matches!(before, Phase::Ready | Phase::Idle),
        (Readiness::Probe, Probed::Unverified) => seen.phase == Some(Phase::Ready),
        (Readiness::Probe, Probed::Closed | Probed::Elsewhere(_) | Probed::Busy) => false,
    };
    if works {
        return working(seen, *probed == Probed::Silent, quiet);
    }
    let floor = if *probed == Probed::Busy { Phase::Loading } else { Phase::Starting };
    let phase = match seen.phase {
        // It claims to be ready; as long as it does not answer, it is not.
        Some(Phase::Ready) => Phase::Warming,
        Some(phase) => phase.max(floor),
        None => floor,
    };
    let detail = match probed {
        Probed::Elsewhere(who) => Some(who.clone()),
        Probed::Silent => Some("it listens, and does not answer".into()),
        Probed::Unverified => Some("its port answers, but whether it is its own cannot be told without procfs".into()),
        Probed::Closed | Probed::Busy | Probed::Ready => seen.detail.clone(),
    };
    let percent = seen.percent.filter(|_| seen.phase == Some(phase));
    Progress { percent, detail, ..Progress::of(phase) }
}

fn unknown(seen: &Seen) -> Progress {
    match seen.phase {
        Some(phase @ Phase::Downloading) => {
            Progress { percent: seen.percent, detail: seen.detail.clone(), ..Progress::of(phase) }
        }
        Some(_) | None => Progress::of(Phase::Running),
    }
}

fn working(seen: &Seen, silent: bool, quiet: bool) -> Progress {
    // Between two requests it is not idle yet, or it would be told of with every one.
    let phase = if seen.requests == Some(0) && quiet { Phase::Idle } else { Phase::Ready };
    let mut words = Vec::new();
    if silent {
        words.push("it does not answer its health check".to_owned());
    }
    match seen.requests {
        Some(1) => words.push("1 request".to_owned()),
        Some(several) if several > 1 => words.push(format!("{several} requests")),
        Some(_) | None => {}
    }
    // What the last request had is no speed of a server that has none.
    let tokens_per_s = seen.tokens_per_s.filter(|_| phase == Phase::Ready);
    words.extend(tokens_per_s.map(|speed| format!("{speed:.1} tok/s")));
    // A router, or Ollama, that loads one more model.
    if matches!(seen.phase, Some(Phase::Downloading | Phase::Loading)) {
        words.extend(seen.detail.clone());
    }
    let detail = (!words.is_empty()).then(|| words.join(", "));
    Progress { phase, percent: None, detail, tokens_per_s, requests: seen.requests }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(phase: Phase, percent: Option<f64>) -> Seen {
        Seen { phase: Some(phase), percent, detail: Some("said".into()), ..Seen::default() }
    }

    fn check(readiness: Readiness, seen: &Seen, probed: &Probed, before: Phase, expected: Phase, detail: Option<&str>) {
        let progress = fuse(readiness, seen, probed, before, true);
        assert_eq!((progress.phase, progress.detail.as_deref()), (expected, detail), "{seen:?} {probed:?}");
    }

    #[test]
    fn asking_decides_and_saying_explains() {
        let probe = |seen: &Seen, probed: &Probed, phase, detail| {
            check(Readiness::Probe, seen, probed, Phase::Starting, phase, detail);
        };
        let nothing = Seen::default();
        probe(&nothing, &Probed::Closed, Phase::Starting, None);
        probe(&nothing, &Probed::Busy, Phase::Loading, None);
        probe(&nothing, &Probed::Ready, Phase::Ready, None);
        probe(&said(Phase::Downloading, None), &Probed::Closed, Phase::Downloading, Some("said"));
        probe(&said(Phase::Warming, None), &Probed::Busy, Phase::Warming, Some("said"));
        // What it claims is no proof.
        probe(&said(Phase::Ready, None), &Probed::Closed, Phase::Warming, Some("said"));
        let other = Probed::Elsewhere("port 1 is another's".into());
        probe(&said(Phase::Ready, None), &other, Phase::Warming, Some("port 1 is another's"));
        probe(&nothing, &Probed::Silent, Phase::Starting, Some("it listens, and does not answer"));
        probe(&said(Phase::Ready, None), &Probed::Unverified, Phase::Ready, None);
        let blind = "its port answers, but whether it is its own cannot be told without procfs";
        probe(&nothing, &Probed::Unverified, Phase::Starting, Some(blind));
        // Ready, and loading one more model.
        probe(&said(Phase::Loading, None), &Probed::Ready, Phase::Ready, Some("said"));
    }

    #[test]
    fn a_ready_server_that_is_busy_stays_ready() {
        let silent = "it does not answer its health check";
        check(Readiness::Probe, &Seen::default(), &Probed::Silent, Phase::Ready, Phase::Ready, Some(silent));
        check(Readiness::Probe, &Seen::default(), &Probed::Closed, Phase::Ready, Phase::Starting, None);
    }

    #[test]
    fn requests_make_the_difference_between_ready_and_idle() {
        let seen = |requests, tokens_per_s| Seen { tokens_per_s, requests, ..Seen::default() };
        let check = |seen: &Seen, phase, detail| {
            check(Readiness::Probe, seen, &Probed::Ready, Phase::Ready, phase, detail);
        };
        check(&seen(Some(2), Some(31.26)), Phase::Ready, Some("2 requests, 31.3 tok/s"));
        check(&seen(Some(1), None), Phase::Ready, Some("1 request"));
        check(&seen(Some(0), Some(5.0)), Phase::Idle, None);
        check(&seen(Some(0), None), Phase::Idle, None);
        let between = fuse(Readiness::Probe, &seen(Some(0), None), &Probed::Ready, Phase::Ready, false);
        assert_eq!(between.phase, Phase::Ready);
    }

    #[test]
    fn a_pattern_or_nothing() {
        let matched = Seen { matched: true, ..Seen::default() };
        check(Readiness::Log, &matched, &Probed::Closed, Phase::Starting, Phase::Ready, None);
        check(
            Readiness::Log,
            &said(Phase::Ready, None),
            &Probed::Closed,
            Phase::Starting,
            Phase::Warming,
            Some("said"),
        );
        check(Readiness::Unknown, &said(Phase::Loading, None), &Probed::Closed, Phase::Running, Phase::Running, None);
        let download = said(Phase::Downloading, Some(37.0));
        let progress = fuse(Readiness::Unknown, &download, &Probed::Closed, Phase::Running, true);
        assert_eq!((progress.phase, progress.percent), (Phase::Downloading, Some(37.0)));
    }
}
