//! From one frame to the next: the bytes that make a terminal that shows one of them show the other.
//!
//! Pure. Called by `display`, row by row: a run of cells that differ costs one movement of the cursor, a run of
//! cells with the same look one sequence for it. Cells hold no control characters (`view` sees to that).

use std::io::Write as _;

use ratatui::buffer::{Buffer, Cell, CellWidth as _};
use ratatui::style::{Color, Modifier};

use super::super::theme::number_of;
use crate::pty::screen::Link;

/// Parameters of "select graphic rendition" (ECMA-48, 8.3.117).
const ATTRIBUTES: [(Modifier, u8); 9] = [
    (Modifier::BOLD, 1),
    (Modifier::DIM, 2),
    (Modifier::ITALIC, 3),
    (Modifier::UNDERLINED, 4),
    (Modifier::SLOW_BLINK, 5),
    (Modifier::RAPID_BLINK, 6),
    (Modifier::REVERSED, 7),
    (Modifier::HIDDEN, 8),
    (Modifier::CROSSED_OUT, 9),
];

/// How what is written next looks.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Look {
    fg: Color,
    bg: Color,
    modifier: Modifier,
}

impl Look {
    const PLAIN: Self = Self { fg: Color::Reset, bg: Color::Reset, modifier: Modifier::empty() };

    const fn of(cell: &Cell) -> Self {
        Self { fg: cell.fg, bg: cell.bg, modifier: cell.modifier }
    }
}

/// A frame: its cells, and which of them are links, from the top.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    cells: &'a Buffer,
    links: &'a [Link],
}

impl<'a> Frame<'a> {
    pub(super) const fn new(cells: &'a Buffer, links: &'a [Link]) -> Self {
        Self { cells, links }
    }

    fn links_in(&self, y: usize) -> &'a [Link] {
        let row = |link: &Link| usize::from(link.row);
        let start = self.links.partition_point(|link| row(link) < y);
        let end = self.links.partition_point(|link| row(link) <= y);
        &self.links[start..end]
    }
}

impl<'a> From<&'a Buffer> for Frame<'a> {
    fn from(cells: &'a Buffer) -> Self {
        Self::new(cells, &[])
    }
}

/// Adds the bytes that lead from one frame to another of the same size; none where nothing differs. Before and after
/// them the terminal writes plain text. `few` asks for the first 16 colours as all terminals know it.
pub fn encode<'a>(shown: impl Into<Frame<'a>>, next: impl Into<Frame<'a>>, few: bool, out: &mut Vec<u8>) {
    let (shown, next) = (shown.into(), next.into());
    let columns = usize::from(next.cells.area.width).max(1);
    let mut pen = Pen { look: Look::PLAIN, at: None, link: None, few, out };
    let rows = shown.cells.content.chunks(columns).zip(next.cells.content.chunks(columns));
    for (y, (was, is)) in rows.enumerate() {
        let links = next.links_in(y);
        // A row whose links have changed is written anew.
        let unsure = if shown.links_in(y) == links { 0 } else { columns };
        row(was, is, y, (links, unsure), &mut pen);
    }
    pen.take(Look::PLAIN);
    pen.lead_to(None);
}

/// `unsure`: cells before this column show what nobody can be sure of.
fn row<'a>(shown: &[Cell], next: &[Cell], y: usize, (links, mut unsure): (&'a [Link], usize), pen: &mut Pen<'a>) {
    let mut x = 0;
    while let (Some(was), Some(cell)) = (shown.get(x), next.get(x)) {
        let may_be_shown = x >= unsure && Look::of(was) == Look::of(cell);
        // Nearly every cell ends here.
        if may_be_shown && matches!((bytes_of(was), bytes_of(cell)), ([was], [is]) if was == is) {
            x += 1;
            continue;
        }
        let (symbol, columns) = seen(next, x);
        if !(may_be_shown && seen(shown, x) == (symbol, columns)) {
            // Whatever is overwritten in part leaves a rest that terminals do not agree about.
            let overwritten = (x..x + columns).map(|x| x + seen(shown, x).1).max().unwrap_or_default();
            unsure = unsure.max(overwritten);
            let link = links.iter().find(|link| (link.columns.start.into()..link.columns.end.into()).contains(&x));
            pen.put(symbol, columns, Look::of(cell), (x, y), next.len(), link);
        }
        x += columns;
    }
}

fn bytes_of(cell: &Cell) -> &[u8] {
    cell.symbol().as_bytes()
}

/// Returns what is seen at a column, and how many it takes. A wide character that something else covers by half is
/// not seen; nor is what has no width.
fn seen(row: &[Cell], x: usize) -> (&str, usize) {
    let symbol = row.get(x).map_or(" ", Cell::symbol);
    if symbol.len() == 1 {
        return (symbol, 1);
    }
    match symbol.cell_width() {
        1 => (symbol, 1),
        2 if row.get(x + 1).is_some_and(|next| next.symbol() == " ") => (symbol, 2),
        _ => (" ", 1),
    }
}

struct Pen<'a> {
    look: Look,
    /// Column and row of the cursor, where they are known.
    at: Option<(usize, usize)>,
    /// What is written leads somewhere.
    link: Option<&'a Link>,
    few: bool,
    out: &'a mut Vec<u8>,
}

impl<'a> Pen<'a> {
    fn put(
        &mut self,
        symbol: &str,
        columns: usize,
        look: Look,
        (x, y): (usize, usize),
        width: usize,
        link: Option<&'a Link>,
    ) {
        self.take(look);
        // One that ends does so where its text ends, before the cursor goes elsewhere.
        if link.map(|link| link.number) != self.link.map(|link| link.number) {
            self.lead_to(None);
        }
        // Terminals do not agree on how wide this is: both columns are blank below it.
        let is_disputed = columns > 1 && symbol.chars().nth(1).is_some();
        if is_disputed {
            self.go(x, y);
            self.out.extend_from_slice(b"  ");
            self.at = None;
        }
        self.go(x, y);
        self.lead_to(link);
        self.out.extend_from_slice(symbol.as_bytes());
        // Behind the last column the cursor waits in it.
        let is_known = columns == 1 && x + 1 < width;
        self.at = is_known.then_some((x + 1, y));
    }

    /// What is written from here on is a link, or none (OSC 8). The number has terminals take its rows for one.
    fn lead_to(&mut self, link: Option<&'a Link>) {
        if link.map(|link| link.number) != self.link.map(|link| link.number) {
            match link {
                Some(link) => self.write(format_args!("\x1b]8;id={};{}\x1b\\", link.number, link.target)),
                None => self.write(format_args!("\x1b]8;;\x1b\\")),
            }
            self.link = link;
        }
    }

    fn go(&mut self, x: usize, y: usize) {
        if self.at != Some((x, y)) {
            self.write(format_args!("\x1b[{};{}H", y + 1, x + 1));
            self.at = Some((x, y));
        }
    }

    fn take(&mut self, look: Look) {
        if self.look == look {
            return;
        }
        let mut parameters = Vec::with_capacity(48);
        // Attributes go one by one in ways that differ between terminals; zero takes all.
        if look == Look::PLAIN || !look.modifier.contains(self.look.modifier) {
            self.look = Look::PLAIN;
            parameters.extend_from_slice(b"0");
        }
        let added = look.modifier - self.look.modifier;
        for (_, number) in ATTRIBUTES.iter().filter(|(attribute, _)| added.contains(*attribute)) {
            parameter(&mut parameters, format_args!("{number}"));
        }
        for (wanted, now, base) in [(look.fg, self.look.fg, 30), (look.bg, self.look.bg, 40)] {
            if wanted != now {
                self.colour(&mut parameters, wanted, base);
            }
        }
        self.out.extend_from_slice(b"\x1b[");
        self.out.append(&mut parameters);
        self.out.push(b'm');
        self.look = look;
    }

    fn colour(&self, parameters: &mut Vec<u8>, colour: Color, base: u8) {
        match (colour, number_of(colour)) {
            (_, Some(index @ 0..8)) if self.few => parameter(parameters, format_args!("{}", base + index)),
            (_, Some(index @ 8..16)) if self.few => parameter(parameters, format_args!("{}", base + 60 + index - 8)),
            (_, Some(index)) => parameter(parameters, format_args!("{};5;{index}", base + 8)),
            (Color::Rgb(red, green, blue), None) => {
                parameter(parameters, format_args!("{};2;{red};{green};{blue}", base + 8));
            }
            (_, None) => parameter(parameters, format_args!("{}", base + 9)),
        }
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a vector cannot fail.
        let _ignored = self.out.write_fmt(text);
    }
}

fn parameter(parameters: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    if !parameters.is_empty() {
        parameters.push(b';');
    }
    // Writing to a vector cannot fail.
    let _ignored = parameters.write_fmt(text);
}

#[cfg(test)]
mod tests;
