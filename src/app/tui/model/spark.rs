//! The last looks at how busy each session was. Pure.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::app::contract::SessionRow;

/// How many looks are kept.
pub(in super::super) const LOOKS: usize = 8;
/// Rows come in between, too, when somebody has done something: those are no looks.
const PACE: Duration = Duration::from_millis(900);
/// What a whole bar stands for at least, in percent of one core.
const WHOLE: f64 = 100.0;

/// The last looks at each session.
#[derive(Debug, Default)]
pub struct Sparks {
    looks: BTreeMap<String, VecDeque<Option<f64>>>,
    looked_at: Option<Instant>,
}

impl Sparks {
    /// Takes in what the sessions use now.
    pub(in super::super) fn look(&mut self, rows: &[SessionRow], now: Instant) {
        if self.looked_at.is_some_and(|at| now.saturating_duration_since(at) < PACE) {
            return;
        }
        self.looked_at = Some(now);
        self.looks.retain(|id, _| rows.iter().any(|row| row.session == *id));
        for row in rows {
            let looks = self.looks.entry(row.session.clone()).or_default();
            if looks.len() == LOOKS {
                looks.pop_front();
            }
            looks.push_back(row.cpu_pct.filter(|cpu| cpu.is_finite()));
        }
    }

    /// Returns the last looks as steps from 0 to `top`, the newest last; `None` where nobody knows. What takes more
    /// than one core is shown by its own highest look.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    pub(in super::super) fn steps(&self, session: &str, top: u8) -> impl Iterator<Item = Option<u8>> {
        let looks = self.looks.get(session).into_iter().flatten();
        let whole = looks.clone().flatten().fold(WHOLE, |most, cpu| most.max(*cpu));
        looks.map(move |cpu| cpu.map(|cpu| (cpu / whole * f64::from(top)).round().clamp(0.0, f64::from(top)) as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::tui::fixtures;

    fn steps(cpus: &[Option<f64>]) -> Vec<Option<u8>> {
        let (mut sparks, mut now) = (Sparks::default(), Instant::now());
        for cpu in cpus {
            let mut rows = fixtures::sessions();
            rows[0].cpu_pct = *cpu;
            sparks.look(&rows, now);
            // What comes too soon is no look.
            rows[0].cpu_pct = Some(5_000.0);
            sparks.look(&rows, now + Duration::from_millis(100));
            now += Duration::from_secs(1);
        }
        sparks.steps(&fixtures::sessions()[0].session, 7).collect()
    }

    #[test]
    fn a_core_is_the_whole_bar_and_more_is_shown_by_its_highest_look() {
        assert_eq!(steps(&[Some(0.0), Some(50.0), Some(100.0)]), [Some(0), Some(4), Some(7)]);
        assert_eq!(steps(&[Some(100.0), Some(700.0)]), [Some(1), Some(7)]);
        assert_eq!(steps(&[Some(1.0), None, Some(f64::NAN)]), [Some(0), None, None]);
    }

    #[test]
    fn only_the_last_looks_are_kept() {
        let many: Vec<Option<f64>> = (0..20).map(|look| Some(f64::from(look >= 15) * 100.0)).collect();
        let [older @ .., _, _, _, _, _] = &steps(&many)[..] else { panic!("too few") };
        assert_eq!(older, [Some(0); LOOKS - 5]);
    }

    #[test]
    fn sessions_that_are_gone_are_forgotten() {
        let (mut sparks, now) = (Sparks::default(), Instant::now());
        sparks.look(&fixtures::sessions(), now);
        sparks.look(&[], now + PACE);
        assert!(sparks.looks.is_empty());
    }
}
