//! What is to become of the record of a session that an earlier run left. Pure.
//!
//! The order of the questions is the order of the design (section 6); the first that applies decides.

use super::verdict::VerdictKind;

/// Everything that the decision rests on, as it was just seen.
#[expect(clippy::struct_excessive_bools, reason = "independent facts that were seen side by side")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The record is of the running boot.
    pub same_boot: bool,
    /// The record is of our own pid and time namespace.
    pub same_namespaces: bool,
    /// It was not launched by us: only a person ends it.
    pub guest: bool,
    /// It outlives its manager on purpose.
    pub background: bool,
    /// Its ceiling has come.
    pub expired: bool,
    /// The manager that launched it.
    pub spawner: VerdictKind,
    /// Its warden, where there is one.
    pub warden: Option<VerdictKind>,
    /// Its workload.
    pub workload: VerdictKind,
    /// Identities that a stop had captured before it was interrupted, and that are still there.
    pub captured: Vec<VerdictKind>,
    /// Those whom a stop has left alive on purpose.
    pub left: Vec<VerdictKind>,
    /// A stop had begun, and its captured processes were not ended.
    pub interrupted: bool,
    /// A stop has ended everything but what was left alive on purpose.
    pub settled: bool,
    /// The workload is gone, but its process group or kernel session still has members.
    pub populated: bool,
    /// The workload is gone, but verified members live: below its warden, or in its cgroup.
    pub held: bool,
    /// Its warden has ended it, and nobody was left.
    pub ended: bool,
    /// Its workload has ended by itself, and how is on record: it is kept to be looked at.
    pub exited: bool,
}

/// What is to be done with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Decision {
    /// Left as it is; another manager or its own ceiling looks after it.
    Keep,
    /// What is left of it is verified and ended.
    TearDown,
    /// Nothing is left: the record goes.
    AlreadyGone,
    /// Its pids name other processes now: the record goes, nobody is signalled.
    Foreign,
    /// Nobody can tell what is left: kept, and shown.
    Unverifiable,
    /// Its leader is gone, but not everything that was with it: kept, and shown.
    Failed,
    /// It is not ours to judge: kept, and shown.
    Quarantine,
}

impl Decision {
    /// Says what a record is that this was decided about.
    pub const fn why(self) -> &'static str {
        match self {
            Self::Keep => "somebody looks after it",
            Self::TearDown => "its manager is gone, or its ceiling has come",
            Self::AlreadyGone => "nothing is left of it",
            Self::Foreign => "its pids name other processes now",
            Self::Unverifiable => "nobody can tell what is left of it",
            Self::Failed => "its leader is gone, but not everything that was with it",
            Self::Quarantine => "it was recorded in another pid or time namespace",
        }
    }
}

/// Decides about one record.
pub fn decide(view: &View) -> Decision {
    use VerdictKind::{Foreign, Gone, Owned, Unverifiable};
    if !view.same_namespaces {
        return Decision::Quarantine;
    }
    if !view.same_boot {
        return Decision::AlreadyGone;
    }
    if view.guest {
        return Decision::Keep;
    }
    // An unverifiable spawner may be alive: its session is not swept behind its back.
    let attended = !matches!(view.spawner, Gone | Foreign);
    // What a stop had begun is finished, unless its warden is there to do so.
    let interrupted = view.interrupted && view.warden != Some(Owned);
    if !view.expired && attended {
        return Decision::Keep;
    }
    let leaderless = matches!(view.workload, Gone | Foreign) && !view.settled && view.left.is_empty();
    let ended = view.ended && leaderless && !view.held && !view.populated;
    // Its warden is gone as well, and nobody has said that it ended by itself.
    let may_live = |verdict: &VerdictKind| matches!(verdict, Owned | Unverifiable);
    let mut named = view.warden.iter().chain([&view.workload]).chain(&view.captured).chain(&view.left);
    let over = !view.exited && !view.held && !view.populated && !named.any(may_live);
    if !view.expired && view.background && !interrupted && !ended && !over {
        // What outlives its leader is named, and ended at a person's word.
        return if leaderless && (view.held || view.populated) { Decision::Failed } else { Decision::Keep };
    }
    // Its warden leaves with the last of them; until then they are shown and left alive.
    if view.settled && (view.warden == Some(Owned) || view.left.iter().any(may_live)) {
        return Decision::Keep;
    }
    let all = || view.warden.into_iter().chain([view.workload]).chain(view.captured.iter().copied());
    if view.held || all().any(|verdict| verdict == Owned) {
        return Decision::TearDown;
    }
    if all().any(|verdict| verdict == Unverifiable) {
        return Decision::Unverifiable;
    }
    if view.populated {
        return Decision::Failed;
    }
    if view.left.iter().any(may_live) {
        return Decision::Keep;
    }
    if view.exited && !view.expired {
        return Decision::Keep;
    }
    if all().any(|verdict| verdict == Foreign) { Decision::Foreign } else { Decision::AlreadyGone }
}

/// Tells whether a manager may take a session over as its own.
///
/// # Errors
/// Says why not, and the way out where there is one.
pub fn adoptable(view: &View) -> Result<(), &'static str> {
    use VerdictKind::{Foreign, Gone, Owned, Unverifiable};
    if !view.same_namespaces {
        return Err("it was recorded in another pid or time namespace");
    }
    if !view.same_boot {
        return Err("nothing of it is left: it was recorded before the last boot");
    }
    match view.spawner {
        Gone | Foreign => {}
        Owned => return Err("its manager is alive"),
        Unverifiable => return Err("nobody can tell whether its manager is gone"),
    }
    if !view.background {
        return Err(
            "its terminal went with its owner: there is nothing to take over; `orphans --reap` ends what is left",
        );
    }
    match view.workload {
        Owned => {}
        Gone => return Err("its workload has ended"),
        Foreign => return Err("its pid names another process now"),
        Unverifiable => return Err("the identity of its workload cannot be verified"),
    }
    if view.warden == Some(Unverifiable) {
        return Err("the identity of its warden cannot be verified");
    }
    if view.expired {
        return Err("its ceiling has come; `extend` gives it more time");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use VerdictKind::{Foreign, Gone, Owned, Unverifiable};

    fn view() -> View {
        View {
            same_boot: true,
            same_namespaces: true,
            guest: false,
            background: false,
            expired: false,
            spawner: Gone,
            warden: Some(Gone),
            workload: Gone,
            captured: Vec::new(),
            left: Vec::new(),
            interrupted: false,
            settled: false,
            populated: false,
            held: false,
            ended: false,
            exited: false,
        }
    }

    fn check(change: impl FnOnce(&mut View), expected: Decision) {
        let mut view = view();
        change(&mut view);
        assert_eq!(decide(&view), expected, "{view:?}");
    }

    #[test]
    fn the_first_question_that_applies_decides() {
        check(|_| {}, Decision::AlreadyGone);
        check(|v| v.same_namespaces = false, Decision::Quarantine);
        check(|v| (v.same_namespaces, v.same_boot) = (false, false), Decision::Quarantine);
        check(|v| (v.same_boot, v.workload) = (false, Owned), Decision::AlreadyGone);
        check(|v| (v.spawner, v.workload) = (Owned, Owned), Decision::Keep);
        check(|v| (v.spawner, v.workload) = (Unverifiable, Owned), Decision::Keep);
        check(|v| (v.spawner, v.workload) = (Foreign, Owned), Decision::TearDown);
        check(|v| (v.background, v.workload) = (true, Owned), Decision::Keep);
        check(|v| (v.background, v.expired, v.workload) = (true, true, Owned), Decision::TearDown);
        check(|v| (v.spawner, v.expired, v.workload) = (Owned, true, Owned), Decision::TearDown);
        check(|v| (v.guest, v.expired, v.workload) = (true, true, Owned), Decision::Keep);
        check(|v| (v.guest, v.same_boot, v.workload) = (true, false, Owned), Decision::AlreadyGone);
        check(|v| (v.guest, v.same_namespaces) = (true, false), Decision::Quarantine);
        check(|v| (v.settled, v.warden) = (true, Some(Owned)), Decision::Keep);
        check(|v| (v.settled, v.warden) = (true, Some(Gone)), Decision::AlreadyGone);
        check(|v| (v.settled, v.left) = (true, vec![Gone, Owned]), Decision::Keep);
        check(|v| (v.settled, v.left) = (true, vec![Unverifiable]), Decision::Keep);
        check(|v| (v.captured, v.left) = (vec![Gone], vec![Owned]), Decision::Keep);
        check(|v| (v.captured, v.left) = (vec![Owned], vec![Owned]), Decision::TearDown);
        check(|v| (v.settled, v.left) = (true, vec![Gone, Foreign]), Decision::AlreadyGone);
        let stopped = |v: &mut View, warden| {
            (v.background, v.interrupted, v.captured, v.warden) = (true, true, vec![Owned], Some(warden));
        };
        check(|v| stopped(v, Gone), Decision::TearDown);
        check(|v| stopped(v, Owned), Decision::Keep);
        check(|v| (stopped(v, Gone), v.spawner = Owned).1, Decision::Keep);
    }

    /// Only what is verified is taken over, and only from nobody.
    #[test]
    fn the_whole_table_of_adoptions() {
        for bits in 0..16_u8 {
            let on = |bit: u8| bits & (1 << bit) != 0;
            for spawner in VerdictKind::ALL {
                for warden in VerdictKind::ALL {
                    for workload in VerdictKind::ALL {
                        let view = View {
                            same_boot: on(0),
                            same_namespaces: on(1),
                            background: on(2),
                            expired: on(3),
                            spawner,
                            warden: Some(warden),
                            workload,
                            ..view()
                        };
                        let expected = on(0)
                            && on(1)
                            && on(2)
                            && !on(3)
                            && matches!(spawner, Gone | Foreign)
                            && warden != Unverifiable
                            && workload == Owned;
                        assert_eq!(adoptable(&view).is_ok(), expected, "{view:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_left_is_ended_named_or_let_go() {
        check(|v| v.warden = Some(Owned), Decision::TearDown);
        check(|v| v.captured = vec![Gone, Owned], Decision::TearDown);
        check(|v| v.workload = Unverifiable, Decision::Unverifiable);
        check(|v| (v.workload, v.warden) = (Unverifiable, Some(Owned)), Decision::TearDown);
        check(|v| v.workload = Foreign, Decision::Foreign);
        check(|v| (v.workload, v.populated) = (Gone, true), Decision::Failed);
        check(|v| (v.workload, v.populated) = (Foreign, true), Decision::Failed);
        check(|v| v.warden = None, Decision::AlreadyGone);
        // Verified members without a leader are ended where their owner is gone, and left to a person in the background.
        check(|v| v.held = true, Decision::TearDown);
        check(|v| (v.held, v.background) = (true, true), Decision::Failed);
        check(|v| (v.populated, v.background) = (true, true), Decision::Failed);
        check(|v| (v.held, v.background, v.expired) = (true, true, true), Decision::TearDown);
        check(|v| (v.held, v.background, v.spawner) = (true, true, Owned), Decision::Keep);
        // What has ended by itself is kept to be looked at, up to its ceiling.
        check(|v| v.exited = true, Decision::Keep);
        check(|v| (v.exited, v.workload) = (true, Foreign), Decision::Keep);
        check(|v| (v.exited, v.expired) = (true, true), Decision::AlreadyGone);
        check(|v| (v.exited, v.same_boot) = (true, false), Decision::AlreadyGone);
        check(|v| (v.exited, v.populated) = (true, true), Decision::Failed);
        check(|v| (v.exited, v.captured) = (true, vec![Owned]), Decision::TearDown);
        // What its warden has ended is closed and told by whoever comes.
        check(|v| (v.ended, v.background) = (true, true), Decision::AlreadyGone);
        check(|v| (v.ended, v.background, v.held) = (true, true, true), Decision::Failed);
        check(|v| (v.ended, v.background, v.spawner) = (true, true, Owned), Decision::Keep);
        // Neither its warden is there nor a word of it, and nobody else.
        check(|v| v.background = true, Decision::AlreadyGone);
        check(|v| (v.background, v.workload) = (true, Foreign), Decision::Foreign);
        check(|v| (v.background, v.exited) = (true, true), Decision::Keep);
        check(|v| (v.background, v.warden) = (true, Some(Owned)), Decision::Keep);
        check(|v| (v.background, v.warden) = (true, Some(Unverifiable)), Decision::Keep);
        check(|v| (v.background, v.settled, v.left) = (true, true, vec![Gone]), Decision::AlreadyGone);
        check(|v| (v.background, v.settled, v.left) = (true, true, vec![Gone, Owned]), Decision::Keep);
        check(|v| (v.background, v.captured) = (true, vec![Owned]), Decision::Keep);
    }

    /// Nobody who is not verified is ever ended, and nothing that may live is ever forgotten: not what was captured,
    /// nor who was left alive.
    #[test]
    fn the_whole_table_keeps_the_two_promises() {
        for bits in 0..2048_u16 {
            let on = |bit: u8| bits & (1 << bit) != 0;
            for [spawner, warden, workload, other] in verdicts() {
                for (captured, left) in [(vec![], vec![]), (vec![other], vec![]), (vec![], vec![other])] {
                    let view = View {
                        same_boot: on(0),
                        same_namespaces: on(1),
                        background: on(2),
                        expired: on(3),
                        populated: on(4),
                        guest: on(5),
                        interrupted: on(6),
                        // A record with captured processes is not settled.
                        settled: on(7) && captured.is_empty(),
                        spawner,
                        warden: Some(warden),
                        workload,
                        captured,
                        left,
                        held: on(8),
                        ended: on(9),
                        exited: on(10),
                    };
                    let decision = decide(&view);
                    let all = [warden, workload].into_iter().chain(view.captured.iter().copied());
                    if decision == Decision::TearDown {
                        assert!(view.held || all.clone().any(|verdict| verdict == Owned), "{view:?}");
                        assert!(view.same_boot && view.same_namespaces && !view.guest);
                    }
                    let forgotten = matches!(decision, Decision::AlreadyGone | Decision::Foreign);
                    let may_live =
                        all.chain(view.left.iter().copied()).any(|verdict| matches!(verdict, Owned | Unverifiable));
                    assert!(!(forgotten && may_live && view.same_boot), "{view:?}");
                }
            }
        }
    }

    fn verdicts() -> impl Iterator<Item = [VerdictKind; 4]> {
        let all = VerdictKind::ALL;
        (0..all.len().pow(4)).map(move |mut number| {
            [0; 4].map(|_| {
                let verdict = all[number % all.len()];
                number /= all.len();
                verdict
            })
        })
    }
}
