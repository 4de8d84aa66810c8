//! The title of the terminal outside: how many sessions run, and how many want somebody. Nothing of it is foreign text, and
//! it changes only when one of the two numbers does.

use super::super::model::Model;
use super::list::wanting;

/// Returns the title.
pub(in super::super) fn outer_title(model: &Model) -> String {
    let running = model.sessions.rows().iter().filter(|row| !row.phase.is_over()).count();
    let running = (running > 0).then(|| format!("{running} running"));
    let parts: Vec<String> = running.into_iter().chain(wanting(model)).collect();
    if parts.is_empty() { "cookbook-tui".to_owned() } else { format!("cookbook-tui: {}", parts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::super::super::fixtures::{self, Bench};
    use super::super::super::seam::UiEvent;
    use super::*;
    use crate::app::contract::Phase;

    #[test]
    fn it_says_what_runs_and_who_wants_somebody() {
        let mut bench = Bench::empty(80, 24);
        assert_eq!(outer_title(&bench.model), "cookbook-tui");
        let mut rows = fixtures::sessions();
        for row in &mut rows {
            (row.phase, row.attention) = (Phase::Running, None);
        }
        bench.send(UiEvent::Sessions(rows.clone()));
        let count = rows.len();
        assert_eq!(outer_title(&bench.model), format!("cookbook-tui: {count} running"));
        for (index, wanted) in [(1, "1 wants you"), (2, "2 want you")] {
            bench.model.attention.insert(rows[index].session.clone(), "\x1b]0;bad\x07".into());
            assert_eq!(outer_title(&bench.model), format!("cookbook-tui: {count} running, {wanted}"));
        }
        // What a session prints, or is called, is not in it.
        rows[0].name = "\x1b]0;evil\x07".into();
        for row in &mut rows {
            row.phase = Phase::Exited;
        }
        bench.send(UiEvent::Sessions(rows));
        bench.model.attention.clear();
        assert_eq!(outer_title(&bench.model), "cookbook-tui");
    }
}
