//! Tests of the history without a screen.

use super::line::Run;
use super::*;
use crate::pty::screen::cell::Color;

const PLAIN: CellStyle = CellStyle {
    fg: Color::Default,
    bg: Color::Default,
    bold: false,
    dim: false,
    italic: false,
    underline: false,
    inverse: false,
};
const RED: CellStyle = CellStyle { fg: Color::Indexed(1), ..PLAIN };
const ON_BLUE: CellStyle = CellStyle { bg: Color::Indexed(4), ..PLAIN };

fn history(width: u16) -> History {
    History::new(HistoryLimit::default(), width)
}

fn add(history: &mut History, text: &str, style: CellStyle, wrapped: bool) {
    history.begin_row();
    history.push_text(text, style);
    history.end_row(wrapped);
}

fn rows(history: &History) -> Vec<String> {
    (0..history.rows()).map(|row| history.row_text(row)).collect()
}

fn lines(history: &History) -> Vec<String> {
    let mut out = Vec::new();
    let open = history.logical_lines(&mut out);
    out.extend(open);
    out
}

/// Checks that the counters agree with what is stored.
#[track_caller]
fn assert_counted(history: &History) {
    let views: Vec<_> = history.lines_rev().collect();
    assert_eq!(views.len(), history.lines);
    assert_eq!(views.iter().map(|view| view.rows).sum::<usize>(), history.rows);
    let pages = history.full.iter().chain([&history.page]);
    assert_eq!(pages.clone().map(|page| page.rows).sum::<usize>(), history.rows);
    let mut cost = 0;
    let mut skip = history.gone;
    for page in pages {
        cost += (skip..page.lines.len()).map(|index| page.cost(index)).sum::<usize>();
        skip = 0;
    }
    assert_eq!(cost, history.bytes);
}

#[test]
fn wrapped_rows_are_one_line_and_wrap_anew() {
    let mut history = history(5);
    add(&mut history, "hello", PLAIN, true);
    add(&mut history, " worl", PLAIN, true);
    add(&mut history, "d", PLAIN, false);
    add(&mut history, "next", PLAIN, false);
    assert_eq!(lines(&history), ["hello world", "next"]);
    assert_eq!(rows(&history), ["hello", " worl", "d", "next"]);
    history.set_width(8);
    assert_eq!(rows(&history), ["hello wo", "rld", "next"]);
    history.set_width(100);
    assert_eq!(rows(&history), ["hello world", "next"]);
    assert_counted(&history);
}

#[test]
fn blanks_are_cut_at_the_end_of_a_line_only() {
    let mut history = history(4);
    add(&mut history, "ab  ", PLAIN, true);
    add(&mut history, "  cd", RED, false);
    add(&mut history, "x   ", RED, false);
    add(&mut history, "    ", PLAIN, false);
    add(&mut history, "y ", ON_BLUE, false);
    assert_eq!(lines(&history), ["ab    cd", "x", "", "y"]);
    let mut cells = Vec::new();
    history.visit_row(4, &mut |_, text, _, style| cells.push((text.to_owned(), style)));
    assert_eq!(cells, [("y".to_owned(), ON_BLUE), (" ".to_owned(), ON_BLUE)]);
    assert_counted(&history);
}

#[test]
fn styles_follow_the_text() {
    let mut history = history(4);
    history.begin_row();
    history.push_ascii("ab", PLAIN);
    history.push_ascii("cde", RED);
    history.push_text("f\u{301}g", PLAIN);
    history.end_row(false);
    let mut seen = Vec::new();
    for row in 0..history.rows() {
        history.visit_row(row, &mut |col, text, _, style| seen.push((row, col, text.to_owned(), style == RED)));
    }
    let expected = [
        (0, 0, "a", false),
        (0, 1, "b", false),
        (0, 2, "c", true),
        (0, 3, "d", true),
        (1, 0, "e", true),
        (1, 1, "f\u{301}", false),
        (1, 2, "g", false),
    ];
    assert_eq!(seen, expected.map(|(row, col, text, red)| (row, col, text.to_owned(), red)));
}

#[test]
fn wide_characters_do_not_break_at_the_edge() {
    let mut history = history(5);
    add(&mut history, "中文字符ab", PLAIN, false);
    assert_eq!(rows(&history), ["中文", "字符a", "b"]);
    assert_eq!(history.position(0, 4), (1, 0));
    assert_eq!(history.position(0, 9), (2, 0));
    assert_eq!(history.position(0, 10), (2, 1));
    assert_eq!(history.position(0, 99), (2, 4));
    history.set_width(10);
    assert_eq!(history.position(0, 10), (0, 10));
}

#[test]
fn fillers_are_blanks_inside_and_nothing_at_the_end() {
    let mut history = history(5);
    for (text, wrapped) in [("中文", true), ("字", true), ("x", false)] {
        history.begin_row();
        history.push_text(text, PLAIN);
        history.push(cell::FILLER_TEXT, 1, PLAIN);
        if !wrapped {
            history.push_text("y", PLAIN);
        }
        history.end_row(wrapped);
    }
    assert_eq!(lines(&history), ["中文字x y"]);
}

#[test]
fn the_oldest_lines_go_first() {
    let mut history = History::new(HistoryLimit { lines: 3, bytes: usize::MAX }, 10);
    for number in 0..1000 {
        add(&mut history, &number.to_string(), PLAIN, false);
        assert!(history.lines() <= 3);
    }
    assert_eq!(lines(&history), ["997", "998", "999"]);
    assert_counted(&history);

    let mut history = History::new(HistoryLimit { lines: usize::MAX, bytes: 10_000 }, 80);
    for number in 0..5000 {
        add(&mut history, &number.to_string(), if number % 3 == 0 { RED } else { PLAIN }, false);
        assert!(history.bytes() <= 10_000);
    }
    assert!(history.lines() > 100);
    assert_eq!(lines(&history).last().map(String::as_str), Some("4999"));
    assert_counted(&history);
    history.set_limit(HistoryLimit { lines: 1, bytes: 10_000 });
    assert_eq!(lines(&history), ["4999"]);
    history.set_limit(HistoryLimit { lines: 0, bytes: 0 });
    assert_eq!((history.lines(), history.rows(), history.bytes()), (0, 0, 0));
    add(&mut history, "gone at once", PLAIN, true);
    assert_eq!(history.rows(), 0);
}

#[test]
fn a_line_without_an_end_is_bounded() {
    let mut history = History::new(HistoryLimit { lines: 100, bytes: 100_000 }, 100);
    for _ in 0..5000 {
        add(&mut history, &"x".repeat(100), PLAIN, true);
    }
    assert!(history.bytes() <= 100_000);
    assert!(history.is_open());
    let text = lines(&history);
    assert_eq!(text.len(), 1);
    assert_eq!(text[0].len(), history.rows() * 100);
    assert_counted(&history);
}

#[test]
fn the_text_of_a_row_that_was_not_ended_is_forgotten() {
    let mut history = history(10);
    add(&mut history, "one", PLAIN, false);
    history.begin_row();
    history.push_ascii("lost", RED);
    add(&mut history, "two", PLAIN, false);
    assert_eq!(lines(&history), ["one", "", "two"]);
    assert_counted(&history);
}

#[test]
fn rows_can_be_taken_back() {
    let mut history = history(4);
    add(&mut history, "zero", PLAIN, false);
    add(&mut history, "abcdefghij", RED, false);
    add(&mut history, "end", PLAIN, false);
    let taken = history.take_rows(3);
    assert_eq!(taken.iter().map(|row| row.text.as_str()).collect::<Vec<_>>(), ["efgh", "ij", "end"]);
    assert_eq!(taken.iter().map(|row| row.wrapped).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!(taken[0].runs, [Run { len: 4, style: RED }]);
    assert!(history.is_open());
    assert_eq!(rows(&history), ["zero", "abcd"]);
    assert_counted(&history);
    add(&mut history, "EF", PLAIN, false);
    assert_eq!(lines(&history), ["zero", "abcdEF"]);
    assert_eq!(history.take_rows(100).len(), 3);
    assert_eq!((history.lines(), history.rows(), history.bytes()), (0, 0, 0));
    assert_counted(&history);
}

#[test]
fn many_pages_are_found_taken_and_evicted() {
    let mut history = History::new(HistoryLimit { lines: 2000, bytes: usize::MAX }, 40);
    for number in 0..5000 {
        add(&mut history, &format!("{number} {}", "-".repeat(number % 100)), PLAIN, false);
    }
    assert_counted(&history);
    assert!(history.full.len() > 3);
    let all = rows(&history);
    assert_eq!(all[0], "3000");
    history.set_width(17);
    history.set_width(40);
    assert_eq!(rows(&history), all);
    let taken = history.take_rows(1500);
    assert_eq!(taken.iter().map(|row| row.text.clone()).collect::<Vec<_>>(), all[all.len() - 1500..]);
    assert_eq!(rows(&history), all[..all.len() - 1500]);
    assert_counted(&history);
}
