//! Where everything is. Pure: `view` draws by it, `update` finds by it what the pointer is on and how
//! large a session's terminal is.

use ratatui::layout::{Position, Rect};

use super::super::model::{Model, Pane};

/// A part of the screen: a row of title (if any) and what is below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Area {
    pub(in super::super) title: Option<Rect>,
    pub(in super::super) body: Rect,
}

/// How the panes are arranged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Arrangement {
    /// List on the left, terminal over tree on the right.
    Wide,
    /// List over terminal or tree.
    Stacked,
    /// One pane at a time.
    Single,
}

/// Where everything is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Layout {
    pub(in super::super) arrangement: Arrangement,
    pub(in super::super) list: Option<Area>,
    pub(in super::super) screen: Option<Area>,
    pub(in super::super) tree: Option<Area>,
    /// The column between list and terminal.
    pub(in super::super) divider: Option<Rect>,
    /// Where one is, when not everything is visible.
    pub(in super::super) crumb: Option<Rect>,
    pub(in super::super) event: Option<Rect>,
    pub(in super::super) footer: Option<Rect>,
    /// Rows and columns of a session's terminal, also while it is not visible.
    pub(in super::super) terminal: (u16, u16),
}

/// Returns the arrangement for a size in columns and rows.
pub(in super::super) fn arrangement((cols, rows): (u16, u16)) -> Arrangement {
    if cols >= 110 && rows >= 18 {
        Arrangement::Wide
    } else if cols >= 50 && rows >= 18 {
        Arrangement::Stacked
    } else {
        Arrangement::Single
    }
}

/// Returns whether the tree is shown beside or instead of the terminal.
pub(in super::super) fn tree_shown(model: &Model) -> bool {
    model.tree_wanted.unwrap_or(arrangement(model.size) == Arrangement::Wide)
}

/// Returns where everything is.
pub(in super::super) fn layout(model: &Model) -> Layout {
    let (cols, rows) = model.size;
    let whole = Rect::new(0, 0, cols, rows);
    let (rest, footer) = if rows >= 2 { cut_bottom(whole, 1) } else { (whole, None) };
    let (rest, event) = if rows >= 8 { cut_bottom(rest, 1) } else { (rest, None) };
    let arrangement = arrangement(model.size);
    let mut layout = Layout {
        arrangement,
        list: None,
        screen: None,
        tree: None,
        divider: None,
        crumb: None,
        event,
        footer,
        terminal: (0, 0),
    };
    match arrangement {
        Arrangement::Single => single(&mut layout, rest, model),
        Arrangement::Wide | Arrangement::Stacked => {
            split(&mut layout, rest, model);
            if model.zoom {
                let terminal = layout.terminal;
                (layout.list, layout.screen, layout.tree, layout.divider) = (None, None, None, None);
                let area = titled(rest);
                layout.terminal = (area.body.height, area.body.width);
                if model.pane == Pane::Tree {
                    layout.tree = Some(area);
                    layout.terminal = terminal;
                } else {
                    layout.screen = Some(area);
                }
            }
        }
    }
    layout
}

fn single(layout: &mut Layout, rest: Rect, model: &Model) {
    let (body, crumb) = if rest.height >= 2 { cut_top(rest, 1) } else { (rest, None) };
    layout.crumb = crumb;
    layout.terminal = (body.height, body.width);
    let area = Some(Area { title: None, body });
    match model.pane {
        Pane::List => layout.list = area,
        Pane::Screen => layout.screen = area,
        Pane::Tree => layout.tree = area,
    }
}

fn split(layout: &mut Layout, rest: Rect, model: &Model) {
    let tree = tree_shown(model);
    if layout.arrangement == Arrangement::Wide {
        // From 140 columns on a terminal keeps its 80 beside a list that has room for ports and GPU memory, and from
        // 200 on its 105 beside one that has room for directories and branches.
        let width = match rest.width {
            200.. => 94,
            140.. => (rest.width * 2 / 5).clamp(58, 76),
            _ => (rest.width / 3).clamp(36, 46),
        };
        layout.list = Some(titled(Rect { width, ..rest }));
        layout.divider = Some(Rect { x: rest.x + width, width: 1, ..rest });
        let right = Rect { x: rest.x + width + 1, width: rest.width - width - 1, ..rest };
        let height = if tree { (right.height * 3 / 10).clamp(5, 14) } else { 0 };
        let (top, bottom) = cut_bottom(right, height);
        layout.screen = Some(titled(top));
        layout.tree = bottom.filter(|_| tree).map(titled);
    } else {
        let height = (rest.height * 3 / 10).clamp(6, 12);
        let (bottom, top) = cut_top(rest, height);
        layout.list = top.map(titled);
        // The terminal keeps its size while the tree stands in its place.
        let below = titled(bottom);
        layout.terminal = (below.body.height, below.body.width);
        if tree {
            layout.tree = Some(below);
            return;
        }
        layout.screen = Some(below);
    }
    if let Some(area) = layout.screen {
        layout.terminal = (area.body.height, area.body.width);
    }
}

fn cut_top(area: Rect, height: u16) -> (Rect, Option<Rect>) {
    let height = height.min(area.height);
    let top = Rect { height, ..area };
    (Rect { y: area.y + height, height: area.height - height, ..area }, Some(top))
}

fn cut_bottom(area: Rect, height: u16) -> (Rect, Option<Rect>) {
    let height = height.min(area.height);
    let bottom = Rect { y: area.y + area.height - height, height, ..area };
    (Rect { height: area.height - height, ..area }, Some(bottom))
}

fn titled(area: Rect) -> Area {
    let (body, title) = cut_top(area, 1);
    Area { title, body }
}

impl Layout {
    /// Returns the pane at a place.
    pub(in super::super) fn pane_at(&self, column: u16, row: u16) -> Option<(Pane, Area)> {
        let at = Position::new(column, row);
        let panes = [(Pane::List, self.list), (Pane::Screen, self.screen), (Pane::Tree, self.tree)];
        panes.into_iter().find_map(|(pane, area)| {
            let area = area?;
            let hit = area.body.contains(at) || area.title.is_some_and(|title| title.contains(at));
            hit.then_some((pane, area))
        })
    }

    /// Returns the area of a pane that is visible.
    pub(in super::super) fn area(&self, pane: Pane) -> Option<Area> {
        match pane {
            Pane::List => self.list,
            Pane::Screen => self.screen,
            Pane::Tree => self.tree,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::app::config::Chord;
    use crate::app::tui::theme::Theme;

    fn model(size: (u16, u16)) -> Model {
        Model::new(size, Theme::default(), Chord::default(), Instant::now())
    }

    #[test]
    fn areas_never_overlap_and_never_leave_the_screen() {
        for cols in [0, 1, 2, 5, 20, 49, 50, 80, 109, 110, 140, 200, 500] {
            for rows in [0, 1, 2, 3, 5, 7, 8, 15, 17, 18, 24, 40, 60, 200] {
                for pane in [Pane::List, Pane::Screen, Pane::Tree] {
                    for (zoom, tree) in [(false, None), (true, None), (false, Some(true)), (true, Some(false))] {
                        let mut model = model((cols, rows));
                        (model.pane, model.zoom, model.tree_wanted) = (pane, zoom, tree);
                        check(&layout(&model), cols, rows);
                    }
                }
            }
        }
    }

    fn check(layout: &Layout, cols: u16, rows: u16) {
        let mut areas = Vec::new();
        for area in [layout.list, layout.screen, layout.tree].into_iter().flatten() {
            areas.push(area.body);
            areas.extend(area.title);
        }
        areas.extend([layout.divider, layout.crumb, layout.event, layout.footer].into_iter().flatten());
        let mut seen = vec![false; usize::from(cols) * usize::from(rows)];
        for area in areas {
            assert!(area.right() <= cols && area.bottom() <= rows, "{area:?} leaves {cols}x{rows}");
            for position in area.positions() {
                let index = usize::from(position.y) * usize::from(cols) + usize::from(position.x);
                assert!(!std::mem::replace(&mut seen[index], true), "overlap at {position:?} in {cols}x{rows}");
            }
        }
        assert!(seen.iter().all(|seen| *seen), "a hole in {cols}x{rows}: {layout:?}");
    }

    #[test]
    fn the_terminal_keeps_its_size_while_the_tree_covers_it() {
        let mut model = model((80, 24));
        let before = layout(&model).terminal;
        model.tree_wanted = Some(true);
        assert_eq!((layout(&model).terminal, layout(&model).screen), (before, None));
        assert_eq!(before, (15, 80));
    }

    #[test]
    fn a_wide_terminal_keeps_eighty_columns() {
        for (cols, list, terminal) in
            [(110, 36, 73), (139, 46, 92), (140, 58, 81), (199, 76, 122), (200, 94, 105), (500, 94, 405)]
        {
            let layout = layout(&model((cols, 40)));
            assert_eq!((layout.list.map(|area| area.body.width), layout.terminal.1), (Some(list), terminal), "{cols}");
        }
    }

    #[test]
    fn the_footer_survives_down_to_two_rows() {
        for (rows, footer) in [(1, false), (2, true), (3, true), (15, true)] {
            assert_eq!(layout(&model((2, rows))).footer.is_some(), footer, "{rows}");
        }
    }
}
