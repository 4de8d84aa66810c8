//! What every view looks like, at six sizes, as text.

mod look;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use unicode_width::UnicodeWidthStr as _;

use crate::app::command::{Answer, Held};
use crate::app::contract::{LaunchField, Phase, SessionRow};
use crate::app::error::{AppError, ErrorKind};
use crate::app::event::Event;
use crate::app::phase::Suggestion;
use crate::app::tui::fixtures::{self, Bench, FakeScreen};
use crate::app::tui::model::Model;
use crate::app::tui::seam::UiEvent;
use crate::app::tui::theme::Theme;
use crate::lifecycle::receipt::Receipt;
use crate::lifecycle::verdict::VerdictKind;
use crate::pty::screen::Size;

const SIZES: [(u16, u16); 6] = [(200, 60), (140, 40), (80, 24), (60, 15), (40, 10), (20, 5)];

/// Returns a buffer as text, trailing blanks cut.
pub(in super::super) fn text_of(buffer: &Buffer) -> String {
    let mut lines = Vec::new();
    for y in buffer.area.y..buffer.area.bottom() {
        let mut line = String::new();
        let mut x = buffer.area.x;
        while x < buffer.area.right() {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            // A wide character hides the cell behind it.
            x += u16::try_from(symbol.width().max(1)).unwrap_or(1);
        }
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n")
}

/// Draws a model with a made-up terminal.
pub(in super::super) fn render(model: &Model) -> (String, Option<Position>) {
    let (buffer, cursor) = draw(model);
    (text_of(&buffer), cursor)
}

/// Draws a model with a made-up terminal into a buffer.
pub(in super::super) fn draw(model: &Model) -> (Buffer, Option<Position>) {
    let (cols, rows) = model.size;
    let mut buffer = Buffer::empty(Rect::new(0, 0, cols, rows));
    let screen = FakeScreen(Size { rows: 24, cols: 80 });
    let surface = model.selected.as_ref().map(|_| &screen as &dyn super::Surface);
    let cursor = super::draw(model, surface, &mut buffer);
    (buffer, cursor)
}

/// Compares a view with its snapshot at every size.
fn check(name: &str, prepare: impl Fn(&mut Bench)) {
    for (cols, rows) in SIZES {
        let mut bench = Bench::full(cols, rows);
        prepare(&mut bench);
        let text = bench.draw();
        for line in text.lines() {
            assert!(line.width() <= usize::from(cols), "{name}: {line:?} is wider than {cols}");
        }
        assert_clean(&text);
        insta::assert_snapshot!(format!("{name}_{cols}x{rows}"), text);
    }
}

fn assert_clean(text: &str) {
    let steering = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!text.contains(steering), "{text:?}");
}

#[test]
fn panes() {
    check("panes", |_| {});
}

/// What others have launched is marked, and said to be theirs; the columns stay where they are.
#[test]
fn adopted_sessions_are_marked() {
    let mut bench = Bench::full(140, 40);
    let before = bench.draw();
    let mut rows = fixtures::sessions();
    let task = rows.iter_mut().find(|row| row.name == "embedder").expect("a fixture");
    (task.adopted, task.owner) = (true, Some("cookbook".into()));
    bench.send(UiEvent::Sessions(rows));
    let after = bench.draw();
    let line = |text: &str| {
        let line = text.lines().find(|line| line.contains("embedder")).expect("its line");
        line.split_once('│').map_or(line, |(list, _)| list).to_owned()
    };
    assert!(line(&after).contains(" ◦") && !before.contains('◦'), "{after}");
    assert_eq!(line(&after).replace(" ◦", "  "), line(&before));
}

#[test]
fn servers_on_their_way() {
    check("servers", |bench| {
        let mut rows = fixtures::sessions();
        let mut set = |name: &str, change: &dyn Fn(&mut SessionRow)| {
            let row = rows.iter_mut().find(|row| row.name == name);
            change(row.unwrap_or_else(|| panic!("{name} is a fixture")));
        };
        set("embedder", &|row| (row.phase, row.progress_pct) = (Phase::Downloading, Some(37.2)));
        set("qwen-coder-32b", &|row| {
            (row.phase, row.exit_code) = (Phase::Failed, Some(1));
            row.detail = Some("exit status 1: port 8080 is in use by process 7 (nginx)".into());
            let text = "take another port: 8081 is free".into();
            row.suggest = Some(Suggestion { text, command: None, first: false });
        });
        bench.send(UiEvent::Sessions(rows));
    });
}

/// Neither the cause of a failure nor what is suggested is cut; the footer names the keys first.
#[test]
fn why_a_session_has_failed() {
    for key in ["w", "F"] {
        check("cause", |bench| {
            let mut rows = fixtures::sessions();
            let row = rows.iter_mut().find(|row| row.name == "qwen-coder-32b").expect("a fixture");
            (row.phase, row.exit_code) = (Phase::Failed, Some(1));
            row.detail = Some("exit status 1: port 8080 is in use by process 7 (nginx: worker)".into());
            let text = "stop nginx, or take another port: 8081 is free".into();
            row.suggest = Some(Suggestion { text, command: None, first: false });
            bench.send(UiEvent::Sessions(rows));
            let footer = bench.draw().lines().last().unwrap_or_default().to_owned();
            let narrow = bench.model.size.0 < 40;
            assert!(narrow || footer.starts_with(" F fix  w why "), "{footer}");
            assert_eq!(bench.press(key), []);
        });
    }
}

#[test]
fn nothing_yet() {
    check("nothing_yet", |bench| *bench = Bench::empty(bench.model.size.0, bench.model.size.1));
}

#[test]
fn list_of_a_dangerous_name() {
    check("list", |bench| {
        bench.press("jjjj");
    });
}

#[test]
fn typing() {
    check("typing", |bench| {
        bench.press("<Enter>");
    });
}

#[test]
fn history() {
    check("history", |bench| {
        bench.press("<Tab><PgUp>");
    });
}

#[test]
fn processes() {
    check("processes", |bench| {
        if bench.model.size.0 < 110 {
            bench.press("t");
        }
        while bench.model.pane != crate::app::tui::model::Pane::Tree {
            bench.press("<Tab>");
        }
        bench.press("jj");
    });
}

/// Ports and GPU memory are in the list beside the terminal, and where there is no GPU its column is not.
#[test]
fn ports_and_gpu_memory_are_in_the_list() {
    for (cols, rows) in [(200, 60), (140, 40), (80, 24)] {
        let mut bench = Bench::full(cols, rows);
        let line = |bench: &mut Bench| {
            let text = bench.draw();
            let line = text.lines().find(|line| line.starts_with('▌')).expect("the selected session").to_owned();
            line.split('│').next().unwrap_or_default().trim_end().to_owned()
        };
        let with = line(&mut bench);
        assert!(with.contains("qwen-coder-32b ") && with.contains(":8080") && with.ends_with("19G   22G"), "{with}");
        let mut sessions = fixtures::sessions();
        for row in &mut sessions {
            row.gpu_bytes = None;
        }
        let mut other = Bench::empty(cols, rows);
        other.send(UiEvent::Sessions(sessions.clone()));
        let without = line(&mut other);
        assert!(without.contains(":8080") && without.ends_with("12%   19G"), "{without}");
        // What was there stays, and what is there for none keeps its place: no column moves.
        for row in &mut sessions {
            (row.ports, row.cwd) = (Some(Vec::new()), None);
        }
        for (bench, before, gpu) in [(&mut bench, &with, "     –"), (&mut other, &without, "")] {
            bench.send(UiEvent::Sessions(sessions.clone()));
            let after = line(bench);
            assert_eq!(after.find(" ready"), before.find(" ready"), "{after}\n{before}");
            assert!(!after.contains(":8080") && after.ends_with(&format!("19G{gpu}")), "{after}");
        }
    }
}

/// Age, cpu and memory are there from 60 columns on; GPU memory takes a column only where there is some.
#[test]
fn the_columns_of_the_tree() {
    for (cols, rows, gpu, expected) in [
        (60, 15, true, "verdict pid s age cpu rss command"),
        (80, 24, true, "verdict pid s age cpu rss gpu command"),
        (80, 24, false, "verdict pid s age cpu rss thr command"),
        (200, 60, true, "verdict pid s age cpu rss gpu thr member by command"),
        (200, 60, false, "verdict pid s age cpu rss thr member by command"),
    ] {
        let mut bench = Bench::full(cols, rows);
        bench.model.tree.has_gpu = gpu;
        if cols < 110 {
            bench.press("t");
        }
        while bench.model.pane != crate::app::tui::model::Pane::Tree {
            bench.press("<Tab>");
        }
        let text = bench.draw();
        let line = text.lines().find(|line| line.contains("verdict")).expect("the headings");
        let words: Vec<&str> = line.rsplit('│').next().unwrap_or_default().split_whitespace().collect();
        assert_eq!(words.join(" "), expected, "{cols}x{rows}");
    }
}

#[test]
fn zoomed() {
    check("zoomed", |bench| {
        bench.press("z");
    });
}

#[test]
fn looking() {
    check("looking", |bench| {
        bench.press("x");
    });
}

fn preview(bench: &mut Bench, key: &str) {
    let effects = bench.press(key);
    bench.answer(&effects, Answer::Receipt(Box::new(fixtures::plan())));
}

#[test]
fn previews() {
    check("preview_stop", |bench| preview(bench, "x"));
    check("preview_force", |bench| preview(bench, "X"));
    check("preview_sweep", |bench| preview(bench, "S"));
    check("preview_restart", |bench| preview(bench, "r"));
}

#[test]
fn a_preview_that_comes_back() {
    check("preview_again", |bench| {
        preview(bench, "x");
        bench.draw();
        let effects = bench.press("y");
        let error = AppError::new(ErrorKind::Refused, "2 processes are new: 4801 by sid, 4802 by sid");
        let again = bench.send(UiEvent::Answered { ticket: fixtures::ticket(&effects), result: Err(error) });
        bench.answer(&again, Answer::Receipt(Box::new(fixtures::plan())));
    });
}

#[test]
fn receipts() {
    for (name, receipt) in [("receipt_bad", fixtures::bad_receipt()), ("receipt_clean", fixtures::clean_receipt())] {
        check(name, |bench| {
            preview(bench, "x");
            bench.draw();
            let effects = bench.press("y");
            bench.answer(&effects, Answer::Receipt(Box::new(receipt.clone())));
        });
    }
}

#[test]
fn help() {
    check("help", |bench| {
        bench.press("?");
    });
    check("help_of_history", |bench| {
        bench.freeze("[");
        bench.press("?");
    });
    check("help_of_preview", |bench| {
        bench.press("x?");
    });
    check("help_of_form", |bench| {
        bench.press("a<F1>");
    });
    check("help_of_processes", |bench| {
        bench.press("t");
        bench.press(if bench.model.pane == crate::app::tui::model::Pane::Tree { "?" } else { "t<Tab><Tab>?" });
    });
    check("help_filtered", |bench| {
        bench.press("?/copy");
    });
}

#[test]
fn reports() {
    check("orphans", |bench| {
        let effects = bench.press("o");
        bench.answer(&effects, Answer::Orphans(Box::new(fixtures::orphans())));
    });
    check("doctor", |bench| {
        let effects = bench.press("D");
        bench.answer(&effects, Answer::Doctor(fixtures::checks()));
    });
}

#[test]
fn why_a_process_is_what_it_is() {
    check("why", |bench| {
        let effects = bench.press("w");
        bench.answer(&effects, Answer::Why(Box::new(fixtures::why())));
    });
    check("why_unsure", |bench| {
        let effects = bench.press("w");
        let mut why = fixtures::why();
        (why.verdict, why.reason) = (Some(VerdictKind::Unverifiable), "stat is not readable (hidepid)".into());
        (why.kept, why.ports, why.cgroup, why.pidfd_inode) = (Some("ssh-agent".into()), None, None, None);
        (why.pgid, why.sid, why.state, why.start_token) = (None, None, None, None);
        (why.age_s, why.cpu_pct, why.rss_bytes, why.gpu_bytes) = (None, None, None, None);
        why.parents.clear();
        why.on_stop = why.decide();
        bench.answer(&effects, Answer::Why(Box::new(why)));
    });
}

#[test]
fn finding() {
    check("filter", |bench| {
        bench.press("/serve co");
    });
    check("filter_of_nothing", |bench| {
        bench.press("/no such name<Enter>");
    });
    check("palette", |bench| {
        bench.press(":st<Down>");
    });
}

#[test]
fn many() {
    check("marked", |bench| {
        bench.press("  ");
    });
    check("many_stop", |bench| {
        bench.press("  ");
        let effects = bench.press("x");
        let mut plan = fixtures::plan();
        (plan.refused, plan.unverified, plan.lookalikes) = (Vec::new(), Vec::new(), Vec::new());
        plan.plan = plan.plan.map(|rows| rows.into_iter().take(2).collect());
        for effect in &effects {
            if let crate::app::tui::seam::Effect::Run { ticket, .. } = effect {
                let result = Ok(Answer::Receipt(Box::new(plan.clone())));
                bench.send(UiEvent::Answered { ticket: *ticket, result });
            }
        }
    });
    check("many_dismiss", |bench| {
        bench.press("/build<Enter> <Esc>/fix<Enter> <Esc>f");
    });
}

#[test]
fn looking_back() {
    check("look_back", |bench| {
        bench.freeze("[/line 4\\d<Enter>NVkk");
    });
    check("search", |bench| {
        bench.freeze("[/読");
    });
}

/// A stop that has sent its first signals.
fn stopping(bench: &mut Bench) {
    let effects = bench.press("x");
    let plan = Receipt { grace_s: Some(2.0), ..fixtures::plan() };
    bench.answer(&effects, Answer::Receipt(Box::new(plan)));
    bench.draw();
    bench.press("y");
    let session = "serve-1a2b3c4d".to_owned();
    for pid in [4242, 4301] {
        let (session, signal) = (session.clone(), "TERM".to_owned());
        bench.send(UiEvent::Happened(Event::Signal { session, pid, signal }));
    }
    bench.send(UiEvent::Happened(Event::ProcessGone { session, pid: 4301, command: String::new() }));
    bench.now += std::time::Duration::from_millis(400);
    bench.send(UiEvent::Tick);
}

#[test]
fn a_stop_under_way() {
    check("live", stopping);
    check("held", |bench| {
        stopping(bench);
        let effects = bench.press("H");
        bench.answer(&effects, Answer::Held(Held { held: true, left_s: Some(600.0) }));
        bench.now += std::time::Duration::from_secs(3);
        bench.send(UiEvent::Tick);
    });
}

#[test]
fn folded_groups() {
    check("folded", |bench| {
        bench.press("-j-G-");
    });
}

#[test]
fn orphans_in_their_group() {
    check("orphan_group", |bench| {
        bench.send(UiEvent::Orphans(Box::new(fixtures::orphans_in_the_list())));
        bench.press("G");
    });
}

#[test]
fn servers_that_are_not_ours() {
    check("strangers", |bench| {
        bench.send(UiEvent::Strangers(fixtures::strangers()));
        bench.press("Gk");
    });
    check("stranger", |bench| {
        bench.send(UiEvent::Strangers(fixtures::strangers()));
        bench.press("Gw");
    });
}

#[test]
fn a_question_for_a_duration() {
    check("extend", |bench| {
        bench.press("+<C-u>12x<Enter>");
    });
}

#[test]
fn events() {
    check("events", |bench| {
        bench.press("e");
    });
}

#[test]
fn launch_menu() {
    check("launch", |bench| {
        bench.press("sj<Enter>");
    });
}

#[test]
fn launch_form() {
    check("form", |bench| {
        bench.send(UiEvent::Recipes(fixtures::rich_recipes()));
        bench.send(UiEvent::Catalog(Box::new(fixtures::catalog())));
        bench.press("atiny<Tab><C-u>llama-server -m model");
    });
}

#[test]
fn launch_form_of_a_session() {
    check("form_of_session", |bench| {
        let effects = bench.press("E");
        bench.answer(&effects, Answer::Draft(Box::new(fixtures::draft())));
        let effects = bench.press("<Enter>");
        let error = AppError::new(
            ErrorKind::Failed,
            "nothing was launched: port 8080 is in use by session embedder (serve-00000002); take another port: 8081 is free",
        );
        let result = Err(error.held(LaunchField::Command, Some("serve-00000002".into())));
        bench.send(UiEvent::Answered { ticket: fixtures::ticket(&effects), result });
    });
}

#[test]
fn picker() {
    check("picker", |bench| {
        let effects = bench.press("A");
        bench.answer(&effects, Answer::TmuxSessions(fixtures::tmux_rows(), Vec::new()));
        bench.press("j");
    });
}

#[test]
fn command_line() {
    check("command_line", |bench| {
        bench.press("s:llama-server -m モデル.gguf --port 8080");
    });
}

#[test]
fn command_lines() {
    check("command_lines", |bench| {
        bench.press("s:");
        let paste = "cd /srv/models\rmake モデル && \\\rllama-server -m tiny.gguf\r";
        bench.send(UiEvent::Input(crossterm::event::Event::Paste(paste.into())));
    });
}

#[test]
fn error() {
    check("error", |bench| {
        let effects = bench.press("x");
        let error =
            AppError::new(ErrorKind::Tmux, "tmux on socket cookbook did not answer within 2.0 s (is it stopped?)");
        bench.send(UiEvent::Answered { ticket: fixtures::ticket(&effects), result: Err(error) });
    });
}

#[test]
fn quit() {
    check("quit", |bench| {
        let effects = bench.press("q");
        let mut plan = fixtures::plan();
        plan.plan = plan.plan.map(|rows| rows.into_iter().take(2).collect());
        bench.answer(&effects, Answer::Receipt(Box::new(plan)));
    });
}

#[test]
fn ascii_is_ascii() {
    for (cols, rows) in SIZES {
        for keys in ["", "x", "?", "s", "e", "a", "A"] {
            let mut bench = Bench::full(cols, rows);
            bench.model.theme = Theme::DARK.in_ascii();
            bench.press(keys);
            let (buffer, _) = draw(&bench.model);
            assert!(buffer.content.iter().all(|cell| cell.symbol().is_ascii()), "{cols}x{rows} {keys}");
        }
    }
    let mut bench = Bench::full(80, 24);
    bench.model.theme = Theme::MONO.in_ascii();
    insta::assert_snapshot!("panes_ascii_80x24", bench.draw());
}

#[test]
fn mono_uses_no_colour_of_its_own() {
    let mut bench = Bench::full(140, 40);
    bench.model.theme = Theme::MONO;
    for keys in ["", "x", "<Esc>?", "<Esc>s"] {
        bench.press(keys);
        let (cols, rows) = bench.model.size;
        let mut buffer = Buffer::empty(Rect::new(0, 0, cols, rows));
        // Without a terminal: what a session prints keeps its colours.
        super::draw(&bench.model, None, &mut buffer);
        let colours = |cell: &ratatui::buffer::Cell| (cell.fg, cell.bg);
        let reset = (ratatui::style::Color::Reset, ratatui::style::Color::Reset);
        assert!(buffer.content.iter().all(|cell| colours(cell) == reset), "{keys}");
    }
}

#[test]
fn the_chord_is_always_shown_while_typing() {
    for (cols, rows) in [(200, 60), (140, 40), (80, 24), (60, 15), (20, 5), (14, 2)] {
        let mut bench = Bench::full(cols, rows);
        bench.press("<Enter>");
        assert!(bench.model.focused, "{cols}x{rows}");
        let text = bench.draw();
        assert!(text.contains("Ctrl-\\"), "{cols}x{rows}\n{text}");
    }
}

#[test]
fn the_cursor_is_the_sessions_while_typing_only() {
    let mut bench = Bench::full(80, 24);
    assert_eq!(draw(&bench.model).1, None);
    bench.press("<Enter>");
    let body = super::layout::layout(&bench.model).screen.map(|area| area.body).unwrap_or_default();
    assert_eq!(draw(&bench.model).1, Some(Position::new(body.x + 2, body.y + 3)));
    bench.press("<C-\\>");
    assert_eq!(draw(&bench.model).1, None);
}

#[test]
fn the_same_state_draws_the_same_frame() {
    let mut bench = Bench::full(140, 40);
    let before = bench.draw();
    bench.now += std::time::Duration::from_secs(3_600);
    bench.send(UiEvent::Tick);
    bench.send(UiEvent::Sessions(fixtures::sessions()));
    assert_eq!(bench.draw(), before, "nothing ticks");
}
