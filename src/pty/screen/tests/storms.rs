//! Tests with much input: the oracle of the short way for floods is the long way, and nothing may panic.

use proptest::prelude::*;

use super::*;

/// Panics with the first line that differs.
#[track_caller]
fn assert_same<T: PartialEq + std::fmt::Debug>(fast: &[T], slow: &[T]) {
    let slow_lines = slow;
    if let Some((index, (fast, slow))) = fast.iter().zip(slow).enumerate().find(|(_, (fast, slow))| fast != slow) {
        panic!(
            "line {index} differs:\n{fast:?}\n{slow:?}\nafter {:?}",
            index.checked_sub(1).map(|before| &slow_lines[before])
        );
    }
    assert_eq!(fast.len(), slow.len());
}

/// Feeds without looking for a flood.
fn fed_slowly(rows: u16, cols: u16, bytes: &[u8]) -> Screen {
    let mut screen = screen(rows, cols);
    screen.guarded(|screen| screen.feed(bytes));
    screen
}

#[track_caller]
fn assert_flood_is_like_the_long_way(rows: u16, cols: u16, bytes: &[u8]) {
    let mut fast = fed(rows, cols, bytes);
    let mut slow = fed_slowly(rows, cols, bytes);
    for rest in ["", "\x1b[7mtail\r\n", "\x1b[A\x1b[2Kabove\x1b[20b"] {
        fast.process(rest.as_bytes());
        slow.process(rest.as_bytes());
        assert_same(&fast.logical_lines(), &slow.logical_lines());
        assert_eq!(fast.cursor(), slow.cursor());
        assert_eq!(fast.history_rows(), slow.history_rows());
        assert_same(&everything(&fast), &everything(&slow));
    }
}

#[test]
fn a_flood_is_like_the_long_way() {
    for (rows, cols) in [(1, 10), (2, 2), (5, 7), (24, 80)] {
        let start = "start\x1b[2;2Hx";
        assert_flood_is_like_the_long_way(rows, cols, numbered(2000).as_bytes());
        assert_flood_is_like_the_long_way(rows, cols, format!("{start}{}", numbered(2000)).as_bytes());
        let line = |number: usize| {
            format!(
                "\x1b[2m{number}\x1b[0m \x1b[32mINFO\x1b[m\x1b[K a\tb 中文é\u{301} {}\r\n",
                "=".repeat(number % 100)
            )
        };
        let log = (0..600).map(line).collect::<Vec<_>>().concat();
        assert_flood_is_like_the_long_way(rows, cols, log.as_bytes());
        let mixed = format!("{}\r50%\r60%\x1b[1A{log}\x1b]0;t\x07{}", numbered(900), numbered(700));
        assert_flood_is_like_the_long_way(rows, cols, mixed.as_bytes());
    }
}

#[test]
fn a_flood_is_really_taken_the_short_way() {
    let mut screen = screen(5, 20);
    let bytes = numbered(1000);
    assert_eq!(screen.flood(bytes.as_bytes(), 1000), bytes.len());
    assert_eq!(screen.history_rows(), 996);
    assert_eq!(screen.lines(), ["997", "998", "999", "1000", ""]);
    assert_eq!(screen.flood(&bytes.as_bytes()[..30], 13), 0);
}

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "[ -~]{0,30}",
        3 => Just("\r\n".to_owned()),
        1 => "(中|é|e\u{301}|\u{1F600}|\u{2764}\u{FE0F}|\u{200d}){1,6}",
        2 => "\x1b\\[(|0|1|31|44|1;32|38;5;9|48;2;9;8;7|7|4|27)m",
        1 => Just("\x1b[K".to_owned()),
        1 => Just("\t".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_flood_is_like_the_long_way(
        pieces in prop::collection::vec(piece(), 200..900),
        // The emulator does not tell that a row was wrapped when there is but one.
        rows in 2u16..8,
        cols in 2u16..60,
    ) {
        let bytes = pieces.concat();
        let fast = fed(rows, cols, &bytes);
        let slow = fed_slowly(rows, cols, bytes.as_bytes());
        assert_same(&fast.logical_lines(), &slow.logical_lines());
        assert_same(&fast.lines(), &slow.lines());
        prop_assert_eq!(fast.cursor(), slow.cursor());
    }

    #[test]
    fn a_storm_of_sizes_and_bytes_is_survived(
        steps in prop::collection::vec((storm_bytes(), 0u16..201, 0u16..301), 1..12),
    ) {
        let mut screen = screen(24, 80);
        for (bytes, rows, cols) in steps {
            screen.process(&bytes);
            screen.resize(Size { rows, cols });
            let size = screen.size();
            let (row, col) = screen.cursor();
            prop_assert!(row < size.rows && col < size.cols);
            prop_assert_eq!(screen.lines().len(), usize::from(size.rows));
            for row in [0, size.rows / 2, size.rows - 1] {
                let mut next = 0;
                screen.visit_row(3, row, &mut |col, text, width, _| {
                    assert_eq!(col, next);
                    assert!(!text.is_empty() && !text.contains(cell::FILLER));
                    next += u16::from(width);
                });
                prop_assert_eq!(next, size.cols);
            }
            prop_assert_eq!(screen.text(usize::MAX).len(), screen.history_rows() + usize::from(size.rows));
            screen.logical_lines();
            let resets = screen.take_notices();
            prop_assert!(!resets.iter().any(|notice| matches!(notice, Notice::EmulatorReset(_))), "{:?}", resets);
        }
    }

    /// Bytes come as they come: what they paint does not depend on it. Left out is the selector of emoji, which may come
    /// after its character is in the last column already, and too late to widen it.
    #[test]
    fn no_cuts_matter(
        steps in prop::collection::vec((storm_bytes(), 0u16..12, 0u16..30), 1..6),
        lengths in prop::collection::vec(0_usize..50, 0..30),
    ) {
        let (mut whole, mut pieces) = (screen(5, 20), screen(5, 20));
        for (bytes, rows, cols) in steps {
            let bytes = String::from_utf8_lossy(&bytes).replace('\u{fe0f}', "").into_bytes();
            whole.process(&bytes);
            for piece in crate::text::noise::pieces(&bytes, &lengths) {
                pieces.process(piece);
            }
            for screen in [&mut whole, &mut pieces] {
                screen.resize(Size { rows, cols });
            }
            assert_same(&everything(&pieces), &everything(&whole));
            prop_assert_eq!((pieces.cursor(), pieces.title(), pieces.modes()), (whole.cursor(), whole.title(), whole.modes()));
            prop_assert_eq!(pieces.take_replies(), whole.take_replies());
        }
    }

    #[test]
    fn text_survives_any_sizes(
        lines in prop::collection::vec("[a-z中é ]{0,40}[a-z]", 1..20),
        sizes in prop::collection::vec((1u16..30, 2u16..100), 1..8),
    ) {
        let mut screen = screen(10, 40);
        screen.process(lines.join("\r\n").as_bytes());
        for (rows, cols) in sizes {
            screen.resize(Size { rows, cols });
            prop_assert_eq!(screen.logical_lines(), lines.clone());
        }
    }
}

fn storm_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        prop::collection::vec(storm_piece(), 0..60).prop_map(|pieces| pieces.concat().into_bytes()),
    ]
}

fn storm_piece() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,30}",
        "(中|é|e\u{301}|\u{1F600}|\u{2764}\u{FE0F}|\u{200d}|\u{fe0f}|\u{fdd0}){1,9}",
        "[\r\n\t\u{8}\u{e}\u{f}]{1,3}",
        "\x1b\\[[0-9]{0,3}(;[0-9]{0,3})?[@-~]",
        "\x1b\\[\\?(1|6|7|25|47|1047|1048|1049|2004)[hl]",
        "\x1b[78cDEM=>]",
        "\x1b[()][0B]",
        "\x1b\\[[34]?J",
    ]
}

/// What is no text takes no column, also for whoever counts how much fits into the row.
#[test]
fn a_wide_character_at_the_edge_is_kept_behind_what_is_no_text() {
    for text in ["ab\u{fffd}c中d", "abc\u{fffd}中d"] {
        for size in [Size { rows: 3, cols: 8 }, Size { rows: 1, cols: 3 }] {
            let (mut whole, mut pieces) = (fed(3, 4, text), screen(3, 4));
            text.as_bytes().iter().for_each(|byte| pieces.process(&[*byte]));
            assert_same(&everything(&pieces), &everything(&whole));
            for screen in [&mut whole, &mut pieces] {
                screen.resize(size);
            }
            assert_same(&everything(&pieces), &everything(&whole));
            assert_eq!(whole.logical_lines().concat(), "abc中d", "{text:?}");
        }
    }
}
