//! What Cookbook has written down of processes, judged: shown, and never acted on.

use std::collections::BTreeMap;

use super::Inner;
use crate::app::command::{Check, CheckState};
use crate::app::cookbook::file::read;
use crate::app::cookbook::ledger::{Claim, Claimed, FILES, parse, token_of};
use crate::lifecycle::authority::verify;
use crate::lifecycle::identity::Identity;
use crate::lifecycle::kill::{Existence, probe};
use crate::lifecycle::verdict::{Verdict, VerdictKind};

impl Inner {
    /// Returns the claims that are not over; none without a data directory.
    pub(super) fn claims(&self) -> Vec<Claimed> {
        let read = self.claim_files().into_iter().filter_map(|(file, claims)| Some((file, claims.ok()?)));
        let open = read.flat_map(|(file, claims)| claims.into_iter().map(move |claim| (file, claim)));
        open.filter(|(_, claim)| !claim.over).map(|(file, claim)| self.judged(file, claim)).collect()
    }

    /// Returns one line for each of the files that is there.
    pub(super) fn claim_checks(&self) -> Vec<Check> {
        let check = |(file, claims): (&'static str, Result<Vec<Claim>, String>)| match claims {
            Err(reason) => Check {
                name: file.into(),
                state: CheckState::Warn,
                detail: reason,
                way_out: Some("look at the file; it is only read".into()),
            },
            Ok(claims) => {
                let (all, mut counts) = (claims.len(), BTreeMap::new());
                for claimed in claims.into_iter().filter(|claim| !claim.over).map(|claim| self.judged(file, claim)) {
                    *counts.entry(claimed.verdict).or_insert(0) += 1;
                }
                let counts: Vec<_> =
                    counts.into_iter().map(|(kind, count)| format!("{count} {}", kind.name())).collect();
                let open =
                    if counts.is_empty() { "none open".to_owned() } else { format!("open: {}", counts.join(", ")) };
                Check {
                    name: file.into(),
                    state: CheckState::Ok,
                    detail: format!("{all} records, {open}"),
                    way_out: None,
                }
            }
        };
        self.claim_files().into_iter().map(check).collect()
    }

    fn claim_files(&self) -> Vec<(&'static str, Result<Vec<Claim>, String>)> {
        let Some(dir) = self.cookbook.as_ref().and_then(|cookbook| cookbook.file.path().parent()) else {
            return Vec::new();
        };
        let claims = |file: &str| {
            let path = dir.join(file);
            let text = read(&path).transpose()?;
            Some(text.and_then(|text| parse(&text).map_err(|reason| format!("{}: {reason}", path.display()))))
        };
        FILES.into_iter().filter_map(|file| Some((file, claims(file)?))).collect()
    }

    fn judged(&self, file: &str, claim: Claim) -> Claimed {
        let Verdict { kind, reason } = self.judge_claim(&claim);
        let Claim { id, what, pid, token, .. } = claim;
        Claimed { file: file.into(), id, what, pid, start_token: token, verdict: kind, reason }
    }

    fn judge_claim(&self, claim: &Claim) -> Verdict {
        let Some(pid) = claim.pid else {
            return Verdict::new(VerdictKind::Unverifiable, "no process was recorded");
        };
        match token_of(claim.token.as_deref()) {
            Ok(token) => verify(&Identity { pid, token, pidfd_inode: None }, &self.inspector),
            Err(verdict) if verdict.kind == VerdictKind::Foreign && probe(pid) == Existence::Absent => {
                Verdict::new(VerdictKind::Gone, "no process has this pid")
            }
            Err(verdict) => verdict,
        }
    }
}
