//! Scroll positions: kept within what there is, and moved only as far as the selection asks for.

use std::ops::Range;

use super::super::model::{ListLine, Model, Overlay};
use super::dialog::dialog;
use super::layout::Layout;
use super::list::list_lines;
use super::tree::tree_rows;

/// Brings the scroll positions into line with what is shown.
pub(in super::super) fn settle(model: &mut Model, layout: &Layout) {
    if let Some(area) = layout.list {
        let lines = list_lines(model);
        let folded = model.group().filter(|group| model.folds(*group));
        let is_selected = |line: &ListLine<'_>| match line {
            ListLine::Session(row) => Some(&row.session) == model.selected.as_ref(),
            ListLine::Stranger(row) => Some(row.pid) == model.met,
            ListLine::Heading(group, _) => Some(*group) == folded,
            ListLine::Gap | ListLine::Orphan(..) | ListLine::Record(_) | ListLine::Reason(_) => false,
        };
        let at = lines.iter().position(is_selected);
        // With the first session its heading comes into view; with each one what follows and cannot be selected.
        let next = |at: usize| {
            lines[at + 1..].iter().position(|line| matches!(line, ListLine::Session(_) | ListLine::Stranger(_)))
        };
        let end = |at: usize| match lines.get(at + 1) {
            Some(ListLine::Orphan(..)) if next(at).is_some() => at + 2,
            _ if next(at).is_none() => lines.len(),
            _ => at + 1,
        };
        let range = at.map(|at| if at <= 1 { 0..end(at) } else { at..end(at) });
        model.list_top = follow_line(model.list_top, range, at, lines.len(), usize::from(area.body.height));
    }
    if let Some(area) = layout.tree {
        let lines = model.tree.lines();
        let at = model.tree.selected(&lines);
        let height = usize::from(tree_rows(area.body).height);
        model.tree.top = follow(model.tree.top, Some(at..at + 1), lines.len(), height);
    }
    if let Some(overlay) = model.overlays.last() {
        let dialog = dialog(model, overlay);
        let (count, height) = (dialog.lines.len(), usize::from(dialog.body.height));
        let at = dialog.selected;
        let selected = at.map(|at| if at <= 1 { 0..at + 1 } else { at..at + 1 });
        let choose = |top| follow_line(top, selected.clone(), at, count, height);
        match model.overlays.last_mut() {
            Some(Overlay::Preview(p)) => {
                p.scroll = follow(p.scroll, selected.clone().filter(|_| p.follows), count, height);
            }
            Some(Overlay::Many(m)) => m.scroll = follow(m.scroll, None, count, height),
            Some(Overlay::Reader(r)) => r.scroll = follow(r.scroll, None, count, height),
            Some(Overlay::Help(h)) => h.scroll = follow(h.scroll, None, count, height),
            Some(Overlay::Quit(q)) => q.scroll = follow(q.scroll, None, count, height),
            Some(Overlay::Palette(p)) => p.top = choose(p.top),
            Some(Overlay::Form(f)) => {
                // What is offered and what is wrong belong to their line.
                let range =
                    selected.clone().map(|range| range.start..(range.start + super::form::rows(f, height)).min(count));
                f.top = follow(f.top, range, count, height);
            }
            Some(Overlay::Events(e)) => e.top = choose(e.top),
            Some(Overlay::Picker(p)) => p.top = choose(p.top),
            Some(Overlay::Launch(l)) => l.top = choose(l.top),
            Some(Overlay::Ask(_) | Overlay::Error(_)) | None => {}
        }
    }
}

/// As [`follow`]; where not all of the selection fits, its line `at` does.
fn follow_line(top: usize, range: Option<Range<usize>>, at: Option<usize>, count: usize, height: usize) -> usize {
    follow(follow(top, range, count, height), at.map(|at| at..at + 1), count, height)
}

/// Returns the first line that is shown: as before, unless the end or the selection asks for another.
fn follow(top: usize, selected: Option<Range<usize>>, count: usize, height: usize) -> usize {
    let mut top = top.min(count.saturating_sub(height));
    if let Some(range) = selected {
        if range.end > top + height {
            top = range.end - height;
        }
        if range.start < top {
            top = range.start;
        }
    }
    top
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selected_line_shows_however_few_rows_there_are() {
        for (range, at, height, expected) in [(0..2, 1, 1, 1), (0..2, 1, 2, 0), (0..9, 1, 3, 0), (4..9, 4, 3, 4)] {
            assert_eq!(follow_line(0, Some(range.clone()), Some(at), 9, height), expected, "{range:?} {height}");
        }
        for rows in 2..=6 {
            let mut bench = super::super::super::fixtures::Bench::full(40, rows);
            let name = bench.model.current().map(|row| row.name[..8].to_owned()).unwrap_or_default();
            let text = bench.draw();
            assert!(text.contains(&name), "{rows}: {text}");
        }
    }

    #[test]
    fn only_the_selection_and_the_end_move_the_view() {
        for (top, selected, count, height, expected) in [
            (0, None, 100, 10, 0),
            (95, None, 100, 10, 90),
            (usize::MAX, None, 100, 10, 90),
            (5, None, 3, 10, 0),
            (20, Some(25..26), 100, 10, 20),
            (20, Some(30..31), 100, 10, 21),
            (20, Some(5..6), 100, 10, 5),
            (20, Some(0..2), 100, 10, 0),
            (0, Some(4..5), 5, 0, 4),
        ] {
            assert_eq!(follow(top, selected.clone(), count, height), expected, "{top} {selected:?} {count} {height}");
        }
    }
}
