//! What is told of earlier runs: which of their sessions have ended, why, and who is left of them. Once.

use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::Inner;
use super::reaper::Swept;
use super::session::Session;
use crate::app::event::Event;
use crate::lifecycle::clock::wall_seconds;
use crate::lifecycle::reap::{Decision, View};
use crate::lifecycle::receipt::{OutcomeKind, Receipt};
use crate::lifecycle::store::read_json;
use crate::lifecycle::tether::{ExitRecord, Last, Tether};
use crate::lifecycle::verdict::VerdictKind;

/// The end of a session of an earlier run, as it is to be told.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) session: String,
    /// Its name, where its record is gone.
    pub(super) name: Option<String>,
    pub(super) text: String,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { session, name, text } = self;
        match name {
            Some(name) => write!(f, "{session} ({name}): {text}"),
            None => write!(f, "{session}: {text}"),
        }
    }
}

impl Swept {
    /// Returns everything that is to be told at a start.
    pub(super) fn told(self) -> Vec<End> {
        let by_us = self.receipts.into_iter().map(|receipt| {
            let text = if receipt.is_wardens() {
                told_end(true, Some(&receipt), None, None)
            } else {
                format!("left by an earlier run; {}", in_full(&receipt))
            };
            End { session: receipt.session, name: receipt.name, text }
        });
        by_us.chain(self.ended).collect()
    }
}

impl Inner {
    /// Keeps for `hello` what was told of earlier runs.
    pub(super) fn remember(&self, ends: Vec<End>) {
        self.earlier.lock().unwrap_or_else(PoisonError::into_inner).extend(ends);
    }

    /// Takes what is to be told of earlier runs and was not asked for yet.
    pub(super) fn take_earlier(&self) -> Vec<String> {
        let earlier = std::mem::take(&mut *self.earlier.lock().unwrap_or_else(PoisonError::into_inner));
        earlier.iter().map(ToString::to_string).collect()
    }

    /// Tells those who have just subscribed what was found before; `hello` says it all the same.
    pub(super) fn publish_earlier(&self) {
        for End { session, text, .. } in &*self.earlier.lock().unwrap_or_else(PoisonError::into_inner) {
            self.publish(Event::Ended { session: session.clone(), text: text.clone() });
        }
    }

    /// Says how a session ended of which nothing is left, from what was written down of it.
    pub(super) fn how_it_ended(&self, tether: &Tether, same_boot: bool) -> String {
        let id = &tether.session;
        let receipt = self.stored_receipt(id);
        if same_boot && !tether.begun().is_empty() {
            return "whoever stopped it died before it was done; nothing is left".into();
        }
        let gone = receipt.as_ref().filter(|_| same_boot).and_then(|receipt| told_gone(tether.untold, receipt));
        gone.unwrap_or_else(|| {
            told_end(same_boot, receipt.as_ref(), tether.last.as_ref(), self.exit_of(tether).as_ref())
        })
    }

    /// Says how a session ended of which somebody is left, or may be, so that its record stays: where nobody was told
    /// yet, and no other manager is there to do so.
    pub(super) fn tell_left(&self, session: &Arc<Session>, view: &View, decision: Decision) -> Option<End> {
        let by_us = session.tether().spawner == self.me;
        if !by_us && !matches!(view.spawner, VerdictKind::Gone | VerdictKind::Foreign) {
            return None;
        }
        if !has_news(&session.tether(), decision) {
            return None;
        }
        // Whoever holds the lock is ending it right now, or telling it.
        let _lock = self.store.lock(&session.id, Duration::ZERO).ok()?;
        let mut tether = self.store.tether(&session.id).ok().flatten()?;
        let receipt = self.stored_receipt(&session.id);
        let (text, last) = told_left(&tether, receipt.as_ref(), decision)?;
        tether.untold = false;
        tether.last = tether
            .last
            .or_else(|| last.map(|reason| Last { verdict: VerdictKind::Unverifiable, reason, at: wall_seconds() }));
        // What cannot be marked as told is left to the next one: `ls` and `orphans` say it all the while.
        self.store.save(&tether).ok()?;
        session.state().tether = tether;
        // What this run has launched itself was told when it ended.
        (!by_us).then(|| End { session: session.id.clone(), name: None, text })
    }

    pub(super) fn stored_receipt(&self, session: &str) -> Option<Receipt> {
        read_json(&self.store.receipt_path(session)).ok().flatten()
    }

    /// Returns which sessions were ended while nobody watched, and forgets what was kept to say so.
    pub(super) fn take_ended(&self) -> Vec<End> {
        let mut ended = Vec::new();
        for session in self.store.receipts() {
            // Whoever holds the lock is writing it right now, or telling it.
            let Ok(_lock) = self.store.lock(&session, Duration::ZERO) else { continue };
            if self.store.tether_path(&session).exists() || self.lock().by_id.contains_key(&session) {
                continue;
            }
            if let Some(receipt) = self.stored_receipt(&session) {
                let text = told_end(true, Some(&receipt), None, self.store.exit(&session).as_ref());
                ended.push(End { session: session.clone(), name: receipt.name, text });
            }
            self.store.forget(&session);
        }
        ended
    }
}

/// Says how a session has ended of which nothing is left: what a receipt says that saw it dead, else why its record was
/// still there, else how its workload ended.
fn told_end(same_boot: bool, receipt: Option<&Receipt>, last: Option<&Last>, exit: Option<&ExitRecord>) -> String {
    if !same_boot {
        return "it was gone with the last boot of this machine".into();
    }
    if let Some(receipt) = receipt.filter(|receipt| receipt.dead == Some(true)) {
        let why = receipt.notes.first().map_or("it was stopped", String::as_str);
        let how = exit.map(|exit| format!(" ({})", exit.in_words())).unwrap_or_default();
        return format!("{why}{how}; {}", in_full(receipt));
    }
    match (last, exit) {
        (Some(last), _) if last.verdict == VerdictKind::Gone => last.reason.clone(),
        (_, Some(exit)) => format!("its workload has ended ({})", exit.in_words()),
        (_, None) => "it was gone, and nobody knows how it ended".into(),
    }
}

/// Says that those are gone whom a stop had left alive; `None` where it had left nobody.
fn told_gone(untold: bool, receipt: &Receipt) -> Option<String> {
    if receipt.dead != Some(true) || (receipt.escapees.is_empty() && receipt.kept.is_empty()) {
        return None;
    }
    let why = receipt.notes.first().filter(|_| untold);
    Some(why.map_or_else(|| "who was left of it is gone".into(), |why| format!("{why}; who was left of it is gone")))
}

/// Says how a session has ended of which somebody is left; `None` where that is known already. The second is why its
/// record stays, where that does not say so itself.
fn told_left(tether: &Tether, receipt: Option<&Receipt>, decision: Decision) -> Option<(String, Option<String>)> {
    if tether.untold {
        let text = match (receipt, &tether.last) {
            (Some(receipt), _) => {
                let why = receipt.notes.first().map_or("it was stopped", String::as_str);
                format!("{why}; {}", in_full(receipt))
            }
            (None, last) => last.as_ref()?.reason.clone(),
        };
        return Some((text, None));
    }
    if !has_news(tether, decision) {
        return None;
    }
    let why = decision.why();
    Some((format!("its manager is gone; {why}"), Some(why.to_owned())))
}

/// Tells whether there is anything to be told of a session of which somebody is left.
fn has_news(tether: &Tether, decision: Decision) -> bool {
    let nobody_knows = matches!(decision, Decision::Unverifiable | Decision::Failed);
    // What outlives its manager on purpose is shown, and no news.
    tether.untold || (nobody_knows && tether.lifetime == "grant" && tether.last.is_none())
}

/// How many of those who are left are named.
const NAMED: usize = 3;

/// Says how it ended, and who is left.
fn in_full(receipt: &Receipt) -> String {
    let is_left = |kind| matches!(kind, OutcomeKind::Survived | OutcomeKind::Unverifiable | OutcomeKind::Refused);
    let outcomes = receipt.outcomes.iter().filter(|row| is_left(row.outcome)).map(|row| (row.pid, &row.reason));
    let beside = receipt.escapees.iter().chain(&receipt.kept).map(|row| (row.pid, &row.reason));
    let mut names: Vec<String> = outcomes
        .chain(beside)
        .map(|(pid, reason)| reason.as_ref().map_or_else(|| format!("pid {pid}"), |why| format!("pid {pid} ({why})")))
        .collect();
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    names.extend((more > 0).then(|| format!("{more} more")));
    if names.is_empty() { receipt.end() } else { format!("{}: {}", receipt.end(), names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::identity::Pid;
    use crate::lifecycle::receipt::Bystander;

    #[test]
    fn an_end_is_told_by_whoever_knows_most() {
        let receipt = Receipt { dead: Some(true), notes: vec!["its ceiling has come".into()], ..Receipt::default() };
        let last = Last { verdict: VerdictKind::Gone, reason: "its pane is gone".into(), at: 7 };
        let exit = ExitRecord { code: Some(3), signal: None, at: 7, emptied: false, address_space: None };
        for (same_boot, receipt, last, exit, told) in [
            (false, Some(&receipt), Some(&last), Some(&exit), "last boot"),
            (true, Some(&receipt), Some(&last), Some(&exit), "its ceiling has come (exit status 3); "),
            (true, Some(&receipt), Some(&last), None, "its ceiling has come; "),
            // What was left by a stop has ended since, by itself.
            (true, Some(&Receipt { dead: Some(false), ..receipt.clone() }), None, Some(&exit), "exit status 3"),
            (true, None, Some(&Last { verdict: VerdictKind::Owned, ..last.clone() }), None, "nobody knows"),
            (true, None, Some(&last), Some(&exit), "its pane is gone"),
            (true, None, None, Some(&exit), "exit status 3"),
            (true, None, None, None, "nobody knows"),
        ] {
            let text = told_end(same_boot, receipt, last, exit);
            assert!(text.contains(told), "{text}");
        }
    }

    #[test]
    fn who_is_left_is_named() {
        let left = |raw: i32| Bystander {
            pid: Pid::new(raw).expect("positive"),
            start_token: None,
            command: String::new(),
            reason: (raw != 9).then(|| "an ssh agent".into()),
        };
        let check = |escapees: &[i32], kept: &[i32], expected: &str| {
            let receipt = Receipt {
                dead: Some(true),
                escapees: escapees.iter().copied().map(left).collect(),
                kept: kept.iter().copied().map(left).collect(),
                ..Receipt::default()
            };
            assert_eq!(in_full(&receipt), expected);
        };
        check(&[], &[], "nothing is left");
        check(&[], &[7], "one process was left alive: pid 7 (an ssh agent)");
        check(&[9], &[7], "2 processes were left alive: pid 9, pid 7 (an ssh agent)");
        check(&[9, 9, 9], &[9, 9], "5 processes were left alive: pid 9, pid 9, pid 9, 2 more");
        let ended = Receipt { dead: Some(true), notes: vec!["its ceiling has come".into()], ..Receipt::default() };
        assert_eq!(told_gone(true, &ended), None);
        let ended = Receipt { kept: vec![left(7)], ..ended };
        assert_eq!(told_gone(false, &ended).as_deref(), Some("who was left of it is gone"));
        assert_eq!(told_gone(true, &ended).as_deref(), Some("its ceiling has come; who was left of it is gone"));
    }
}
