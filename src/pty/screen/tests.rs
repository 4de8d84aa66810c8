//! Tests of the screen as its users see it.

mod storms;

use super::*;

fn screen(rows: u16, cols: u16) -> Screen {
    Screen::new(Size { rows, cols }, HistoryLimit::default())
}

fn fed(rows: u16, cols: u16, bytes: impl AsRef<[u8]>) -> Screen {
    let mut screen = screen(rows, cols);
    screen.process(bytes.as_ref());
    screen
}

type SeenCell = (u16, String, u8, CellStyle);

fn row_cells(screen: &Screen, offset: usize, row: u16) -> Vec<SeenCell> {
    let mut cells = Vec::new();
    screen.visit_row(offset, row, &mut |col, text, width, style| cells.push((col, text.to_owned(), width, style)));
    cells
}

/// All rows, history first, with styles where they can be seen.
fn everything(screen: &Screen) -> Vec<Vec<SeenCell>> {
    let above = screen.history_rows();
    let rows = screen.size().rows;
    let row = |index: usize| {
        let offset = above.saturating_sub(index);
        row_cells(screen, offset, u16::try_from(index + offset - above).unwrap_or(0))
    };
    let mut all: Vec<_> = (0..above + usize::from(rows)).map(row).collect();
    for cell in all.iter_mut().flatten() {
        if cell.1 == " " && !cell.3.shows_on_blank() {
            cell.3 = CellStyle::default();
        }
    }
    all
}

fn numbered(count: usize) -> String {
    (1..=count).flat_map(|number| [number.to_string(), "\r\n".to_owned()]).collect()
}

// ---- text ----

#[test]
fn text_wide_combining_and_emoji() {
    let screen = fed(3, 20, "a中é e\u{301} \u{1F600}\u{2764}\u{FE0F}!");
    assert_eq!(screen.lines(), ["a中é e\u{301} \u{1F600}\u{2764}\u{FE0F}!", "", ""]);
    let cells: Vec<_> = row_cells(&screen, 0, 0).into_iter().map(|(col, text, width, _)| (col, text, width)).collect();
    let expected =
        [(0, "a", 1), (1, "中", 2), (3, "é", 1), (4, " ", 1), (5, "e\u{301}", 1), (6, " ", 1), (7, "\u{1F600}", 2)];
    assert_eq!(cells[..7], expected.map(|(col, text, width)| (col, text.to_owned(), width)));
    assert_eq!(cells[7..9], [(9, "\u{2764}\u{FE0F}".to_owned(), 2), (11, "!".to_owned(), 1)]);
    assert_eq!(cells.iter().map(|cell| u16::from(cell.2)).sum::<u16>(), 20);
    assert_eq!(screen.cursor(), (0, 12));
}

#[test]
fn a_selector_that_comes_late_does_not_widen_the_last_column() {
    let mut screen = screen(2, 4);
    for piece in ["\r\nabc\u{2764}", "\u{FE0F}", "\x1b[2;4Hx\x1b[1;4Hy"] {
        screen.process(piece.as_bytes());
    }
    assert_eq!(screen.take_notices(), []);
    assert_eq!(screen.lines(), ["   y", "abcx"]);
}

/// As in tmux.
#[test]
fn a_row_up_or_down_nothing_waits_to_wrap() {
    for (sequence, expected) in [
        ("\x1b[A", ["   z", "abcd", ""]),
        ("\x1b[B", ["", "abcd", "   z"]),
        ("\x1b[C", ["", "abcz", ""]),
        ("\x1b[m", ["", "abcd", "z"]),
    ] {
        assert_eq!(fed(3, 4, format!("\x1b[2Habcd{sequence}z")).lines(), expected, "{sequence:?}");
    }
}

#[test]
fn bidi_controls_are_not_shown() {
    let screen = fed(1, 20, "a\u{202e}b");
    assert_eq!(row_cells(&screen, 0, 0)[0].1, "a");
    assert_eq!(screen.lines(), ["a\u{202e}b"]);
}

#[test]
fn styles_are_visited() {
    let screen = fed(1, 10, "\x1b[1;31ma\x1b[0;44;4mb\x1b[38;2;1;2;3m\x1b[7mc");
    let styles: Vec<_> = row_cells(&screen, 0, 0).into_iter().map(|cell| cell.3).collect();
    let blue = CellStyle { bg: Color::Indexed(4), underline: true, ..CellStyle::default() };
    assert_eq!(styles[0], CellStyle { bold: true, fg: Color::Indexed(1), ..CellStyle::default() });
    assert_eq!(styles[1], blue);
    assert_eq!(styles[2], CellStyle { fg: Color::Rgb(1, 2, 3), inverse: true, ..blue });
    assert_eq!(styles[3], CellStyle::default());
}

#[test]
fn bytes_may_be_split_anywhere() {
    let bytes = "\x1b[31mée\u{301}é中\u{1F600}\x1b[0m\r\n\x1b]2;ti中tle\x07\x1b[6n\x1b(0qx\x1b(B\x1b[3Jok".as_bytes();
    let mut whole = fed(4, 20, bytes);
    for size in 1..5 {
        let mut pieces = screen(4, 20);
        for piece in bytes.chunks(size) {
            pieces.process(piece);
        }
        assert_eq!(everything(&pieces), everything(&whole), "by {size}");
        assert_eq!(pieces.title(), "ti中tle");
        assert_eq!(pieces.take_replies(), b"\x1b[2;1R");
    }
    assert_eq!(whole.take_replies(), b"\x1b[2;1R");
    assert_eq!(whole.lines()[1], "─│ok");
}

#[test]
fn sequences_the_emulator_does_not_know_are_said_in_others() {
    assert_eq!(fed(3, 10, "ab\x1b[s\x1b[3;5Hx\x1b[uc").lines(), ["abc", "", "    x"]);
    assert_eq!(fed(3, 10, "ab\x1bDc\x1bEd").lines(), ["ab", "  c", "d"]);
    assert_eq!(fed(1, 30, "\x1b[20G\x1b[Zx\x1b[2Zy").lines(), ["        y       x"]);
    assert_eq!(fed(2, 10, "a\x1b[2ab\x1b[ec").lines(), ["a  b", "    c"]);
    assert_eq!(fed(1, 10, "main\x1b[?1047halt\x1b[?1047l").lines(), ["main"]);
    assert_eq!(fed(1, 10, "main\x1b[?1047l!").lines(), ["main!"]);
}

#[test]
fn margins_take_the_cursor_home() {
    assert_eq!(fed(5, 10, "\x1b[4;4H\x1b[3;5rA").lines(), ["A", "", "", "", ""]);
    assert_eq!(fed(5, 10, "\x1b[4;4H\x1b[?6h\x1b[3;5rA").lines(), ["", "", "A", "", ""], "of the margins (DECOM)");
    assert_eq!(fed(5, 10, "\x1b[4;4H\x1b[3;5r\x1b[5;5H\x1b[rA").lines()[0], "A");
}

#[test]
fn insert_mode_moves_on_what_is_behind() {
    for (bytes, expected) in [
        ("abc\r\x1b[4hxy\x1b[4lz", ["xyzbc", ""]),
        ("abcdef\r\x1b[4hx", ["xabcde", ""]),
        ("abcdef\r\x1b[4h中", ["中abcd", ""]),
        ("abc\x1b[1;2H\x1b[4he\u{301}!", ["ae\u{301}!bc", ""]),
        ("abcdef\x1b[4hgh", ["abcdef", "gh"]),
        ("\r\nabc\x1b[1;6H\x1b[4hxyz", ["     x", "yzbc"]),
        ("abcdef\x1b[1;5H\x1b[?7l\x1b[4hwxyz", ["abcdwz", ""]),
        ("ab\r\x1b(0\x1b[4hqx", ["─│ab", ""]),
    ] {
        for size in [1, 3, 1000] {
            let mut screen = screen(2, 6);
            for piece in bytes.as_bytes().chunks(size) {
                screen.process(piece);
            }
            assert_eq!(screen.take_notices(), []);
            assert_eq!(screen.lines(), expected, "{bytes:?} by {size}");
        }
    }
    assert_eq!(fed(1, 6, "abc\r\x1b[4h\u{2764}\u{fe0f}").lines(), ["\u{2764}\u{fe0f}abc"]);
}

#[test]
fn the_alignment_test_fills_the_screen() {
    let screen = fed(3, 4, "ab\x1b[31m\x1b[2;3r\x1b[?6h\x1b#8x");
    assert_eq!(screen.lines(), ["xEEE", "EEEE", "EEEE"]);
    assert_eq!(row_cells(&screen, 0, 0)[0].3.fg, Color::Indexed(1));
    assert_eq!(row_cells(&screen, 0, 0)[1].3, CellStyle::default());
}

// ---- history ----

/// What paints a screen paints it whole: cells, styles, cursor and modes.
#[test]
fn a_painted_screen_is_the_same() {
    for bytes in [
        "plain\r\nsecond \x1b[1;31mred\x1b[m\x1b[44m blue\x1b[m",
        "模型 e\u{301} 🦀\r\n\x1b[7mturned\x1b[m\x1b[3;5H",
        "\x1b[?1h\x1b=\x1b[?2004h\x1b[?1002h\x1b[?1006h\x1b[?25lhidden",
        "below\x1b[?1049h\x1b[2Jabove\x1b[38;2;1;2;3mtrue\x1b[m",
        "a very long line that wraps around the edge of a narrow screen twice\x1b[2;3H",
    ] {
        let original = fed(5, 24, bytes);
        let copy = fed(5, 24, original.painted());
        for row in 0..5 {
            assert_eq!(row_cells(&copy, 0, row), row_cells(&original, 0, row), "{bytes:?} row {row}");
        }
        assert_eq!((copy.modes(), copy.cursor()), (original.modes(), original.cursor()), "{bytes:?}");
    }
}

#[test]
fn wrapped_rows_join_without_losing_spaces() {
    let text = "the quick  brown fox jumps   over the lazy dog";
    for cols in 2..60 {
        for rows in [2, 3, 5, 60] {
            let screen = fed(rows, cols, format!("{text}\r\nnext"));
            assert_eq!(screen.logical_lines(), [text, "next"], "{rows}x{cols}");
        }
    }
}

#[test]
fn wide_characters_at_the_edge_join_too() {
    let text = "中文字符a中文 字符字符\u{2764}\u{FE0F}\u{2764}\u{FE0F}x";
    for cols in 2..30 {
        for rows in [2, 3, 40] {
            let mut screen = fed(rows, cols, text);
            assert_eq!(screen.logical_lines(), [text], "{rows}x{cols}");
            screen.process(b"\r\nnext");
            assert_eq!(screen.logical_lines(), [text, "next"], "{rows}x{cols}");
            assert!(!screen.text(99).concat().contains(cell::FILLER));
        }
    }
}

#[test]
fn rows_that_scroll_away_are_in_the_history() {
    let screen = fed(3, 10, numbered(10));
    assert_eq!(screen.lines(), ["9", "10", ""]);
    assert_eq!(screen.history_rows(), 8);
    assert_eq!(screen.text(2), ["7", "8", "9", "10", ""]);
    assert_eq!(screen.text(usize::MAX).len(), 11);
    assert_eq!(row_cells(&screen, 8, 0)[0].1, "1");
    assert_eq!(row_cells(&screen, usize::MAX, 2)[0].1, "3");
    assert_eq!(row_cells(&screen, 1, 1)[0].1, "9");
    assert_eq!(row_cells(&screen, 1, 0).len(), 10);
    assert_eq!(row_cells(&screen, 0, 3).len(), 0);
}

#[test]
fn scroll_regions_do_not_enter_the_history() {
    let screen = fed(5, 10, format!("top\x1b[2;4r\x1b[2;1H{}", numbered(50)));
    assert_eq!(screen.history_rows(), 0);
    assert_eq!(screen.lines()[0], "top");
    // Not by the short way either, however much comes at once.
    let screen = fed(5, 10, format!("top\x1b[2;4r\x1b[2;1H{}", numbered(5000)));
    assert_eq!(screen.history_rows(), 0);
    assert_eq!(screen.lines(), ["top", "4999", "5000", "", ""]);
}

#[test]
fn the_alternate_screen_leaves_no_history() {
    let mut screen = fed(3, 10, format!("{}\x1b[?1049h{}", numbered(4), numbered(5000)));
    assert!(screen.modes().alternate_screen);
    assert_eq!(screen.history_rows(), 0);
    assert_eq!(screen.text(10), ["4999", "5000", ""]);
    screen.process(b"\x1b[?1049l");
    assert_eq!(screen.history_rows(), 2);
    assert_eq!(screen.text(10), ["1", "2", "3", "4", ""]);
}

#[test]
fn erasing_the_scrollback_clears_the_history() {
    for sequence in ["\x1b[3J", "\x1b[H\x1b[2J\x1b[3J", "\x1b[?3J"] {
        let mut screen = fed(3, 10, format!("{}{sequence}{}", numbered(100), numbered(3)));
        assert_eq!(screen.text(10).iter().filter(|line| *line == "50").count(), 0, "{sequence:?}");
        screen.process(numbered(20).as_bytes());
        assert!(screen.history_rows() <= 26);
    }
    let screen = fed(3, 10, format!("{}\x1b[?1049h\x1b[3J\x1b[?1049l", numbered(10)));
    assert_eq!(screen.history_rows(), 8);
}

#[test]
fn an_erased_screen_does_not_continue_the_history() {
    for erase in ["\x1b[H\x1b[2J", "\x1b[H\x1b[J", "\x1bc", "\x1b[H\x1bM"] {
        let screen = fed(2, 4, format!("aaaabbbbcccc{erase}new\r\n"));
        assert_eq!(screen.logical_lines()[..2], ["aaaa", "new"], "{erase:?}");
    }
}

#[test]
fn the_history_is_bounded() {
    let limit = HistoryLimit { lines: 100, bytes: usize::MAX };
    let mut lines = Screen::new(Size { rows: 5, cols: 20 }, limit);
    lines.process(numbered(5000).as_bytes());
    assert_eq!(lines.history_rows(), 100);
    assert_eq!(lines.text(1)[0], "4996");
    for piece in numbered(500).as_bytes().chunks(10) {
        lines.process(piece);
        assert_eq!(lines.history_rows(), 100);
    }
    let mut bytes = Screen::new(Size { rows: 5, cols: 20 }, HistoryLimit { lines: usize::MAX, bytes: 5000 });
    for _ in 0..5000 {
        bytes.process(b"\x1b[31mno end in sight\x1b[32m");
        assert!(bytes.history_bytes() <= 5000);
    }
    let none = Screen::new(Size { rows: 2, cols: 5 }, HistoryLimit { lines: 0, bytes: 0 });
    let mut none = none;
    none.process(b"aaaaabbbbbccccc");
    none.resize(Size { rows: 3, cols: 10 });
    assert_eq!(none.lines(), ["bbbbbccccc", "", ""]);
    lines.limit_history(HistoryLimit { lines: 1, bytes: usize::MAX });
    assert_eq!(lines.history_rows(), 1);
}

#[test]
fn blanks_in_the_history_keep_their_colour_and_no_other() {
    let screen = fed(1, 20, "\x1b[42mok\x1b[0m\tx\r\n\x1b[44mbar\x1b[K\x1b[0m\r\n\x1b[41ma\x1b[3Cb\x1b[m\r\n");
    let bg = |row: usize| -> Vec<Color> {
        row_cells(&screen, screen.history_rows() - row, 0).into_iter().map(|cell| cell.3.bg).collect()
    };
    let (green, blue) = (Color::Indexed(2), Color::Indexed(4));
    assert_eq!(
        bg(0)[..9],
        [
            green,
            green,
            Color::Default,
            Color::Default,
            Color::Default,
            Color::Default,
            Color::Default,
            Color::Default,
            Color::Default
        ]
    );
    assert_eq!(bg(1), [blue; 20]);
}

// ---- resize ----

#[test]
fn a_new_width_wraps_history_and_screen_anew() {
    let text: Vec<String> =
        (0..20).map(|number| format!("{number}: {}", "word ".repeat(number % 7)).trim_end().to_owned()).collect();
    let mut screen = fed(6, 40, text.join("\r\n"));
    for (rows, cols) in [(6, 10), (6, 80), (3, 7), (24, 7), (24, 40), (1, 2), (6, 40)] {
        screen.resize(Size { rows, cols });
        assert_eq!(screen.size(), Size { rows, cols });
        assert_eq!(screen.logical_lines(), text, "{rows}x{cols}");
        assert_eq!(screen.lines().len(), usize::from(rows));
    }
    assert_eq!(screen.cursor(), (5, u16::try_from(text[19].len()).unwrap_or(0)));
    screen.process(b"!");
    assert_eq!(screen.lines()[5], format!("{}!", text[19]));
}

#[test]
fn a_full_screen_gets_lines_back_and_others_do_not() {
    let mut screen = fed(4, 20, numbered(10));
    screen.resize(Size { rows: 8, cols: 20 });
    assert_eq!(screen.lines(), ["4", "5", "6", "7", "8", "9", "10", ""]);
    assert_eq!((screen.history_rows(), screen.cursor()), (3, (7, 0)));
    screen.process(b"\x1b[H\x1b[2Jprompt");
    screen.resize(Size { rows: 10, cols: 20 });
    assert_eq!(screen.lines()[..2], ["prompt", ""]);
    assert_eq!((screen.history_rows(), screen.cursor()), (3, (0, 6)));
    screen.resize(Size { rows: 10, cols: 3 });
    assert_eq!(screen.lines()[..3], ["pro", "mpt", ""]);
    // Behind the last column, as after printing there: the next character wraps.
    assert_eq!(screen.cursor(), (1, 2));
    screen.process(b"!");
    assert_eq!(screen.lines()[..3], ["pro", "mpt", "!"]);
}

#[test]
fn the_row_of_the_cursor_stays() {
    let mut screen = fed(6, 10, "a\r\nb\r\nc\r\nd\r\ne\r\nf\x1b[2;1H");
    screen.resize(Size { rows: 3, cols: 10 });
    assert_eq!((screen.lines(), screen.cursor()), (vec!["b".into(), "c".into(), "d".into()], (0, 0)));
    assert_eq!(screen.text(9), ["a", "b", "c", "d"]);
}

#[test]
fn the_shape_of_the_cursor_is_what_was_asked_for_last() {
    let mut screen = screen(3, 10);
    for (bytes, shape) in [
        (&b"\x1b[6 q"[..], 6),
        (b"\x1b[7 q\x1b[99 q", 6),
        (b"\x1b[2 q", 2),
        (b"\x1b[ q", 0),
        (b"\x1b[4 q\x1b[5q", 4),
        (b"\x1bc", 0),
        (b"\x1b[3 q", 3),
    ] {
        screen.process(bytes);
        assert_eq!(screen.modes().cursor_shape, shape, "{}", bytes.escape_ascii());
    }
    let mut other = self::screen(3, 10);
    other.process(screen.painted().as_bytes());
    assert_eq!(other.modes(), screen.modes());
}

#[test]
fn modes_attributes_and_both_cursors_survive_a_resize() {
    let mut screen =
        fed(5, 20, "one\r\ntwo\x1b7\r\n\x1b[?1h\x1b[?2004h\x1b[?1002h\x1b[?1006h\x1b[?25l\x1b=\x1b[1;35mthree");
    let modes = screen.modes();
    screen.resize(Size { rows: 7, cols: 30 });
    assert_eq!(screen.modes(), modes);
    assert_eq!(
        modes,
        Modes {
            application_cursor: true,
            application_keypad: true,
            bracketed_paste: true,
            alternate_screen: false,
            mouse: MouseMode::ButtonMotion,
            mouse_encoding: MouseEncoding::Sgr,
            cursor_visible: false,
            disambiguates: false,
            cursor_shape: 0,
        }
    );
    screen.process(b"!\x1b8?");
    assert_eq!(screen.lines()[..3], ["one", "two?", "three!"]);
    let last = row_cells(&screen, 0, 2)[5].3;
    assert_eq!(last, CellStyle { bold: true, fg: Color::Indexed(5), ..CellStyle::default() });
    assert_eq!(row_cells(&screen, 0, 1)[3].3, CellStyle::default());
}

#[test]
fn the_primary_screen_is_wrapped_anew_behind_the_alternate_one() {
    let mut screen = fed(4, 10, "0123456789abcde\r\n$ \x1b[?1049h\x1b[Halternate");
    screen.resize(Size { rows: 4, cols: 5 });
    assert!(screen.modes().alternate_screen);
    assert_eq!(screen.lines()[0], "alter");
    screen.process(b"\x1b[?1049lx");
    assert_eq!(screen.lines(), ["01234", "56789", "abcde", "$ x"]);
    screen.resize(Size { rows: 4, cols: 20 });
    assert_eq!(screen.logical_lines(), ["0123456789abcde", "$ x"]);
}

#[test]
fn a_resize_in_the_middle_of_a_sequence_does_no_harm() {
    let mut screen = fed(3, 10, b"ab\x1b[3");
    screen.resize(Size { rows: 4, cols: 12 });
    screen.process(b"1mc\xe4\xb8");
    screen.resize(Size { rows: 3, cols: 10 });
    screen.process(b"\xad.");
    assert_eq!(screen.lines()[0], "abc中.");
    assert_eq!(row_cells(&screen, 0, 0)[2].3.fg, Color::Indexed(1));
}

#[test]
fn sizes_are_clamped() {
    assert_eq!(Size::clamped(0, 0), Size { rows: 1, cols: 2 });
    assert_eq!(Size::clamped(24, 80), Size { rows: 24, cols: 80 });
    let most = Size::clamped(u16::MAX, u16::MAX);
    assert!(u32::from(most.rows) * u32::from(most.cols) <= MAX_CELLS);
    let mut screen = screen(0, 1);
    assert_eq!(screen.size(), Size { rows: 1, cols: 2 });
    screen.process("中文x".as_bytes());
    screen.resize(Size { rows: 0, cols: 0 });
    assert_eq!(screen.size(), Size { rows: 1, cols: 2 });
}

// ---- notices and replies ----

#[test]
fn a_title_may_hold_semicolons() {
    for (bytes, title) in
        [("\x1b]2;a; b;c\x07", "a; b;c"), ("\x1b]0;x;\x1b\\", "x;"), ("\x1b]2;one\x07\x1b]2;\x07", "")]
    {
        assert_eq!(fed(1, 10, bytes).title(), title, "{bytes:?}");
    }
}

#[test]
fn only_attributes_and_status_are_answered() {
    for (query, answer) in [
        ("\x1b[c", "\x1b[?62;22c"),
        ("\x1b[0c", "\x1b[?62;22c"),
        ("\x1b[>c", "\x1b[>0;0;0c"),
        ("\x1b[5n", "\x1b[0n"),
        ("ab\r\ncd\x1b[6n", "\x1b[2;3R"),
        ("0123456789\x1b[6n", "\x1b[1;10R"),
        ("\x1b[=c", ""),
        ("\x1b[1c", ""),
        ("\x1b[?6n", ""),
        ("\x1b[18t\x1b[14t\x1b[21t", ""),
        ("\x1b]52;c;?\x07", ""),
        ("\x1b]10;?\x07\x1b]11;?\x1b\\", ""),
        ("\x1bP+q544e\x1b\\\x1b[>q\x1b[?2026$p", ""),
        ("\x05", ""),
    ] {
        let mut screen = fed(4, 10, query);
        assert_eq!(String::from_utf8_lossy(&screen.take_replies()), answer, "{query:?}");
        assert_eq!(screen.take_replies(), b"");
        assert_eq!(screen.take_notices(), [], "{query:?}");
    }
    assert!(fed(4, 10, "\x1b[c".repeat(100_000)).take_replies().len() <= 4096);
}

#[test]
fn notices_are_the_last_of_each_kind() {
    let mut screen = fed(2, 10, "\x07\x07\x1b]0;one\x07\x1b]2;two\u{9b}\x1b\\\x07\x1b]52;c;aGk=\x07");
    assert_eq!(screen.take_notices(), [Notice::Title("two\\u{9b}".into()), Notice::Bell]);
    assert_eq!(screen.take_clipboard(), Some(b"hi".to_vec()));
    assert_eq!(screen.take_clipboard(), None, "it is handed out once");
    assert_eq!(screen.take_notices(), []);
    assert_eq!(screen.title(), "two\\u{9b}");
}

#[test]
fn a_title_is_cut() {
    let screen = fed(2, 10, format!("\x1b]2;{}\x07", "t".repeat(100_000)));
    assert_eq!(screen.title(), "t".repeat(256));
}

#[test]
fn the_clipboard_is_bounded() {
    let set = |bytes: usize| {
        use base64::Engine as _;
        let data = base64::engine::general_purpose::STANDARD.encode(vec![b'x'; bytes]);
        fed(2, 10, format!("\x1b]52;c;{data}\x07")).take_clipboard()
    };
    assert_eq!(set(64 * 1024), Some(vec![b'x'; 64 * 1024]));
    for too_much in [64 * 1024 + 1, 80_000, 1_000_000] {
        assert_eq!(set(too_much), None);
    }
    let mut screen = fed(2, 10, "\x1b]52;c;!!!\x07\x1b]52;c;\x07\x1b]52;c;aG*k\x07");
    assert_eq!(screen.take_clipboard(), None, "what is no base64 is nothing");
    let mut screen = fed(2, 10, "\x1b]52;c;Zmlyc3Q=\x07\x1b]52;;bGFzdA==\x1b\\\x1b]52;c;?\x07");
    assert_eq!(screen.take_clipboard(), Some(b"last".to_vec()));
    assert_eq!(screen.take_replies(), b"", "nobody reads the clipboard");
}

#[test]
fn a_panic_costs_the_screen_and_nothing_else() {
    let mut screen = fed(3, 10, format!("{}\x1b]2;title\x07", numbered(10)));
    screen.take_notices();
    let generation = screen.generation();
    assert!(!panic_is_contained());
    screen.guarded(|screen| {
        assert!(panic_is_contained());
        screen.history().begin_row();
        screen.history().push_ascii("half a row", CellStyle::default());
        panic!("the emulator's fault");
    });
    assert!(!panic_is_contained());
    assert_eq!(screen.take_notices(), [Notice::EmulatorReset("the emulator's fault".into())]);
    assert_eq!(screen.lines(), ["", "", ""]);
    assert_eq!(screen.title(), "title");
    screen.process(numbered(3).as_bytes());
    assert_eq!(screen.generation(), generation + 1);
    assert_eq!(screen.text(99).iter().filter(|line| *line == "8").count(), 1);
    assert_eq!(screen.lines(), ["2", "3", ""]);
}

#[test]
fn a_screen_can_move_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<Screen>();
}

// Guards the doc comment of `process`: everything else is `&self`.
#[test]
fn looking_changes_nothing() {
    let screen = fed(3, 10, numbered(30));
    let before = (screen.generation(), everything(&screen));
    screen.logical_lines();
    screen.text(5);
    assert_eq!((screen.generation(), everything(&screen)), before);
}

#[test]
fn text_that_does_not_wrap_stays_in_its_row() {
    for (bytes, rows, cursor) in [
        ("\x1b[?7labcdefgh", ["abch", ""], (0, 3)),
        ("abcd\x1b[?7le", ["abce", ""], (0, 3)),
        ("\x1b[?7labcdef\r\nx", ["abcf", "x"], (1, 1)),
        ("\x1b[?7labcdef\x1b[?7hgh", ["abcg", "h"], (1, 1)),
        ("\x1b[?25;7labcdef", ["abcf", ""], (0, 3)),
        ("\x1b[?7labc\u{6a21}d", ["abcd", ""], (0, 3)),
        ("\x1b[?7lab\u{6a21}", ["ab\u{6a21}", ""], (0, 3)),
        ("\x1b[?7labcde\u{301}", ["abce\u{301}", ""], (0, 3)),
        ("\x1b[?7labcdef\x1bcabcdef", ["abcd", "ef"], (1, 2)),
        ("\x1b(0\x1b[?7lqqqqqx", ["───│", ""], (0, 3)),
    ] {
        for size in [1, 2, 3, bytes.len()] {
            let mut screen = screen(2, 4);
            bytes.as_bytes().chunks(size).for_each(|piece| screen.process(piece));
            assert_eq!(
                (screen.lines(), screen.cursor()),
                (rows.map(str::to_owned).to_vec(), cursor),
                "{bytes:?} by {size}"
            );
        }
    }
}

/// But in the last column, where the one in the same read has the character wrapped before it is drawn.
#[test]
fn a_selector_in_a_later_read_is_like_one_in_the_same() {
    for text in ["a\u{2764}\u{FE0F}b", "\u{2764}\u{FE0F}", "12345678\u{2764}\u{FE0F}b"] {
        let whole = fed(2, 10, text);
        let mut pieces = screen(2, 10);
        for piece in text.split_inclusive('\u{2764}') {
            pieces.process(piece.as_bytes());
        }
        let cells = |screen: &Screen| [row_cells(screen, 0, 0), row_cells(screen, 0, 1)];
        assert_eq!((cells(&pieces), pieces.cursor()), (cells(&whole), whole.cursor()), "{text:?}");
    }
}
