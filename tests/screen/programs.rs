//! Real programs in a session, cell by cell against the same program in tmux itself at the same size.
//!
//! Both are driven by the same keys and read back by tmux: characters, colours, attributes and the cursor.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{PATIENCE, Terminal};

/// What the screen shows otherwise than tmux does, and why. Each row is proved by `the_known_differences_are_there`.
const KNOWN: [(&str, &str); 4] = [
    ("1;2", "bold and dim at once: the emulator has one intensity, and the last one counts"),
    ("5", "blink: the emulator has no such attribute, and a list that blinks helps nobody"),
    ("8", "hidden: the emulator has no such attribute; what a program hides is shown"),
    ("9", "strike-through: the emulator has no such attribute"),
];

/// Waits until it may go, says which size it has, and becomes the program.
const WRAPPER: &str = "while [ ! -e go ]; do sleep 0.05; done\nprintf '\\033[H\\033[2J\\033[3J'\nstty size > \"$1\"\n\
                       export LINES= COLUMNS=; unset LINES COLUMNS\n. ./program\n";

/// How tmux prints lines that were drawn with letters.
const LINES: [(char, char); 6] =
    [('l', '\u{250c}'), ('q', '\u{2500}'), ('k', '\u{2510}'), ('x', '\u{2502}'), ('m', '\u{2514}'), ('j', '\u{2518}')];

/// One cell: its character with what combines with it, and how it looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Cell {
    text: String,
    look: Look,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Look {
    front: String,
    back: String,
    /// Attributes by their number, those of [`KNOWN`] left out.
    attributes: Vec<String>,
}

impl Look {
    /// Takes the parameters of an SGR sequence.
    fn take(&mut self, parameters: &str, with_known: bool) {
        let numbers: Vec<&str> = parameters.split(';').collect();
        let mut at = 0;
        while at < numbers.len() {
            let number: u16 = numbers[at].split(':').next().unwrap().parse().unwrap_or(0);
            let colour = |base: u16| (number - base).to_string();
            at += 1;
            match number {
                0 => *self = Self::default(),
                22 => self.attributes.retain(|one| one != "1" && one != "2"),
                23..=29 => self.attributes.retain(|one| *one != (number - 20).to_string()),
                30..=37 => self.front = colour(30),
                90..=97 => self.front = colour(82),
                40..=47 => self.back = colour(40),
                100..=107 => self.back = colour(92),
                39 => self.front.clear(),
                49 => self.back.clear(),
                38 | 48 => {
                    let count = if numbers[at] == "5" { 2 } else { 4 };
                    let value = numbers[at + 1..at + count].join(",");
                    if number == 38 {
                        self.front = value;
                    } else {
                        self.back = value;
                    }
                    at += count;
                }
                1..=9 => {
                    let name = number.to_string();
                    if !with_known && number <= 2 {
                        self.attributes.retain(|one| one != "1" && one != "2");
                    }
                    if with_known || KNOWN.iter().all(|(known, _)| *known != name) {
                        self.attributes.push(name);
                        self.attributes.sort();
                        self.attributes.dedup();
                    }
                }
                _ => panic!("what is SGR {parameters}?"),
            }
        }
    }
}

/// Reads what `capture-pane -p -e` printed. Blanks that look like nothing are left out at the end of a row.
fn cells(captured: &str, with_known: bool) -> Vec<Vec<Cell>> {
    let (mut look, mut in_lines) = (Look::default(), false);
    let row = |line: &str| {
        let mut row: Vec<Cell> = Vec::new();
        let mut rest = line;
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            if c == '\x1b' {
                let (parameters, tail) = rest.strip_prefix('[').and_then(|tail| tail.split_once('m')).unwrap();
                look.take(parameters, with_known);
                rest = tail;
            } else if matches!(c, '\x0e' | '\x0f') {
                in_lines = c == '\x0e';
            } else if is_joined(c) && !row.is_empty() {
                row.last_mut().unwrap().text.push(c);
            } else {
                let drawn = LINES.iter().find(|(letter, _)| in_lines && *letter == c).map_or(c, |(_, line)| *line);
                let mut cell = Cell { text: drawn.into(), look: look.clone() };
                if c == ' ' && !look.attributes.iter().any(|one| one == "4" || one == "7") {
                    // Nobody sees the colour and the weight of a letter that is not there.
                    cell.look = Look { back: look.back.clone(), ..Look::default() };
                }
                row.push(cell);
            }
        }
        let blank = Cell { text: " ".into(), look: Look::default() };
        while row.last() == Some(&blank) {
            row.pop();
        }
        row
    };
    captured.lines().map(row).collect()
}

fn is_joined(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
}

/// A program in a session of the screen, and the same one in tmux.
struct Pair {
    ours: Terminal,
    theirs: Terminal,
    rows: usize,
}

impl Pair {
    /// Starts a program (a line for `sh`) in both, each in a folder of its own with these files.
    fn start(program: &str, files: &[(&str, &str)]) -> Self {
        let (ours, theirs) = (Terminal::new(100, 32), Terminal::new(90, 20));
        for terminal in [&ours, &theirs] {
            let place = terminal.folder.path();
            fs::write(place.join("wrapper"), WRAPPER).unwrap();
            fs::write(place.join("program"), format!("exec {program}\n")).unwrap();
            for (name, text) in files {
                fs::write(place.join(name), text).unwrap();
            }
        }
        let place = ours.folder.path().display().to_string();
        let recipe = "[[recipe]]\nname = \"inside\"\nkind = \"agent\"\nhost = \"pty\"\n\
                      command = [\"sh\", \"wrapper\", \"size\"]\nautostart = true\n";
        fs::write(ours.folder.path().join("config.toml"), recipe).unwrap();
        ours.line(&format!(
            "cd {place}; COLORTERM=truecolor TERM=screen-256color {} --config config.toml --state-dir s \
             --tmux-socket {}o",
            env!("CARGO_BIN_EXE_cookbook-tui"),
            ours.socket
        ));
        ours.await_that("the session", |text| text.contains("inside") && text.contains("running"));
        ours.key("z");
        ours.await_that("its terminal alone", |text| !text.contains(" Sessions "));
        ours.key("Enter");
        ours.await_text("TYPING");
        // The notice of its start has gone, and with it nothing moves any more.
        std::thread::sleep(Duration::from_millis(400));
        fs::write(ours.folder.path().join("go"), "").unwrap();
        let (rows, cols) = size(&ours.folder.path().join("size"));
        assert!(theirs.tmux(&["resize-window", "-x", &cols.to_string(), "-y", &rows.to_string()]).status.success());
        let place = theirs.folder.path().display().to_string();
        fs::write(theirs.folder.path().join("go"), "").unwrap();
        theirs.line(&format!("cd {place}; TERM=xterm-256color COLORTERM=truecolor exec sh wrapper size"));
        assert_eq!(size(&theirs.folder.path().join("size")), (rows, cols));
        Self { ours, theirs, rows: rows.into() }
    }

    fn both(&self) -> [&Terminal; 2] {
        [&self.ours, &self.theirs]
    }

    fn keys(&self, keys: &[&str]) {
        for terminal in self.both() {
            for key in keys {
                terminal.key(key);
            }
        }
    }

    fn text(&self, text: &str) {
        for terminal in self.both() {
            assert!(terminal.tmux(&["send-keys", "-l", "--", text]).status.success());
        }
    }

    fn paste(&self, text: &str) {
        for terminal in self.both() {
            terminal.tmux(&["set-buffer", "--", text]);
            assert!(terminal.tmux(&["paste-buffer", "-p"]).status.success());
        }
    }

    /// Presses and releases the left button on a cell of the program.
    fn click(&self, row: usize, col: usize) {
        for (terminal, title) in [(&self.ours, 1), (&self.theirs, 0)] {
            for end in ['M', 'm'] {
                let mut bytes: Vec<String> = ["send-keys", "-H"].map(str::to_owned).into();
                let report = format!("\x1b[<0;{};{}{end}", col + 1, row + 1 + title);
                bytes.extend(report.bytes().map(|byte| format!("{byte:02x}")));
                let bytes: Vec<&str> = bytes.iter().map(String::as_str).collect();
                assert!(terminal.tmux(&bytes).status.success());
            }
        }
    }

    /// Returns what the program has painted, in the screen and in tmux, with the cursor.
    fn pictures(&self, with_known: bool) -> [(Vec<Vec<Cell>>, String); 2] {
        [(&self.ours, 1), (&self.theirs, 0)].map(|(terminal, title)| {
            let format = "#{cursor_x} #{cursor_y} #{cursor_flag}";
            let shown = terminal.tmux(&["display-message", "-p", format, ";", "capture-pane", "-p", "-e"]);
            let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
            let (cursor, captured) = shown.split_once('\n').unwrap();
            let mut numbers = cursor.split(' ').map(|number| number.parse::<i64>().unwrap());
            let (x, y, shown) = (numbers.next().unwrap(), numbers.next().unwrap(), numbers.next().unwrap());
            let hidden = "hidden".to_owned();
            let cursor = if shown == 0 { hidden } else { format!("{x} {}", y - title) };
            let mut rows = cells(captured, with_known);
            rows.drain(..usize::try_from(title).unwrap());
            rows.resize(self.rows, Vec::new());
            (rows, cursor)
        })
    }

    /// Waits until tmux shows a text, and the screen the same cells as tmux.
    fn agree(&self, wanted: &str) {
        self.theirs.await_text(wanted);
        let until = Instant::now() + PATIENCE / 3;
        loop {
            let [ours, theirs] = self.pictures(false);
            if ours == theirs {
                return;
            }
            assert!(Instant::now() < until, "{wanted:?}: {}", difference(&ours, &theirs));
            std::thread::sleep(Duration::from_millis(60));
        }
    }
}

fn difference(ours: &(Vec<Vec<Cell>>, String), theirs: &(Vec<Vec<Cell>>, String)) -> String {
    let mut text = format!("cursor {} and in tmux {}\n", ours.1, theirs.1);
    let plain = |row: &[Cell]| row.iter().map(|cell| cell.text.as_str()).collect::<String>();
    for (number, (ours, theirs)) in ours.0.iter().zip(&theirs.0).enumerate().filter(|(_, (a, b))| a != b) {
        writeln!(text, "row {number}\n  ours {:?}\n  tmux {:?}", plain(ours), plain(theirs)).unwrap();
        let none = Cell::default();
        let length = ours.len().max(theirs.len());
        let pairs = (0..length).map(|at| (at, ours.get(at).unwrap_or(&none), theirs.get(at).unwrap_or(&none)));
        for (at, ours, theirs) in pairs.filter(|(_, a, b)| a != b).take(3) {
            writeln!(text, "    cell {at}: {ours:?}\n          and {theirs:?}").unwrap();
        }
    }
    text
}

fn size(file: &PathBuf) -> (u16, u16) {
    let until = Instant::now() + PATIENCE;
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        if let Some((rows, cols)) = text.trim().split_once(' ') {
            return (rows.parse().unwrap(), cols.parse().unwrap());
        }
        assert!(Instant::now() < until, "no size in {}", file.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Lines of every width: wide, combining, emoji, tabs, longer than a row, with a word to look for.
fn prose() -> String {
    let mut text = String::new();
    for number in 1..=90 {
        let line = match number % 6 {
            0 => "\u{6a21}\u{578b}\u{3092}\u{8aad}\u{8fbc}\u{4e2d} needle \u{ff21}\u{ff22}".to_owned(),
            1 => "cafe\u{301} n\u{303}ando e\u{301}e\u{301} needle".to_owned(),
            2 => "emoji \u{1f600}\u{1f680} and after".to_owned(),
            3 => "\ttab\tstops\there".to_owned(),
            4 => "long ".repeat(30) + "\u{754c}\u{754c}",
            _ => "fn main() { let x = \"text\"; } // code".to_owned(),
        };
        writeln!(text, "{number} {line}").unwrap();
    }
    text
}

#[test]
fn vim() {
    // What it asks terminals for is answered by each for itself: not asked here.
    let quiet = "set t_RV= t_u7= t_RB= t_RF= t_TI= t_TE= t_Co=256 hlsearch ruler";
    let program = format!("vim -u NONE -N -i NONE -n --cmd '{quiet}' -c 'syntax on' prose.rs");
    let pair = Pair::start(&program, &[("prose.rs", &prose())]);
    pair.agree("1 cafe");
    pair.keys(&["C-f"]);
    pair.keys(&["C-e", "C-e", "C-e", "C-y"]);
    pair.agree("30 ");
    pair.text(":split\rG");
    pair.agree("90 ");
    pair.text(":set number\r/needle\r");
    pair.agree("/needle");
    pair.text("Vjj");
    pair.agree("VISUAL LINE");
    pair.keys(&["Escape"]);
    pair.text("ggO\u{6a21}\u{578b} e\u{301} \u{1f600}\t|");
    pair.agree("INSERT");
    pair.keys(&["Escape", "C-w", "j", "C-d"]);
    pair.text(":vsplit\r:5\r");
    pair.agree("prose.rs");
}

#[test]
fn less() {
    let pair = Pair::start("env LESS= LESSHISTFILE=- less prose", &[("prose", &prose())]);
    pair.agree("1 cafe");
    pair.text("/needle\r");
    pair.agree("needle");
    pair.text("nn");
    pair.text(" ");
    pair.agree("48 ");
    pair.text("b");
    pair.text("-N\r");
    pair.agree("     10 10 long");
    pair.text("G");
    pair.agree("(END)");
    pair.text("-S\rg");
    pair.agree("1 cafe");
}

/// Processes that do nothing, and end with the test.
struct Sleepers(Vec<Child>);

impl Sleepers {
    fn new(count: usize) -> Self {
        let sleeper =
            |_| Command::new("sleep").arg("3600").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Self((0..count).map(sleeper).collect())
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        for sleeper in &mut self.0 {
            sleeper.kill().ok();
            sleeper.wait().ok();
        }
    }
}

/// With what does not change from one look to the next: three processes of this test's own, and no meters.
#[test]
fn htop() {
    let sleepers = Sleepers::new(3);
    let pids: Vec<String> = sleepers.0.iter().map(|sleeper| sleeper.id().to_string()).collect();
    let settings = "htop_version=3.2.2\nconfig_reader_min_version=3\nfields=0 48 17 18 2 1\nheader_layout=one_100\n\
                    column_meters_0=Blank\ncolumn_meter_modes_0=2\n";
    let pair =
        Pair::start(&format!("env HTOPRC=settings htop -d 100 -p {}", pids.join(",")), &[("settings", settings)]);
    pair.agree(&pids[2]);
    pair.keys(&["Down", "Down"]);
    pair.text("/3600");
    pair.agree("Search: 3600");
    pair.keys(&["Enter", "Space", "F6"]);
    pair.agree("Sort by");
    pair.keys(&["Escape"]);
    pair.agree("Setup");
    pair.text("u");
    pair.agree("Show processes of");
    pair.keys(&["Escape"]);
    pair.agree("Setup");
    pair.text("h");
    pair.agree("Released under");
    pair.text(" t");
    pair.agree(&pids[2]);
    pair.click(pair.rows - 1, 1);
    pair.agree("Released under");
}

#[test]
fn python() {
    let pair = Pair::start("env PYTHONSTARTUP= PYTHON_HISTORY=/dev/null HOME=. python3 -q", &[]);
    pair.agree(">>>");
    pair.text("print('\u{6a21}\u{578b}', 'e\u{301}', '\\033[1;38;2;1;2;3mbold\\033[m')\r");
    pair.agree("bold");
    pair.text("for i in range(60): print(i, 'x' * i)\r\r");
    pair.agree("59 x");
    pair.text("1/0\r");
    pair.agree("ZeroDivisionError");
    pair.keys(&["Up", "Home", "Right", "DC"]);
    pair.text("7");
    pair.agree("170");
    pair.keys(&["C-c"]);
    pair.agree("KeyboardInterrupt");
}

#[test]
fn a_tmux_inside() {
    let conf = "set -g status-right ''\nset -g automatic-rename off\nset -g default-shell /bin/sh\n\
                set -g default-terminal screen-256color\nset -g status-left '[in] '\nset -g escape-time 5\nset -g repeat-time 0\n\
                set -g default-command 'PS1=\"in$TMUX_PANE> \" exec sh'\n";
    let program = "tmux -S inner -f conf new-session -n one";
    let pair = Pair::start(program, &[("conf", conf), ("prose", &prose())]);
    pair.agree("in%0>");
    pair.text("cat prose\r");
    pair.agree("90 ");
    pair.keys(&["C-b", "%"]);
    pair.agree("in%1>");
    pair.text("head -n 4 prose\r");
    pair.agree("4 long");
    pair.keys(&["C-b", "\""]);
    pair.agree("in%2>");
    pair.text("printf '\\033[44mblue\\033[K\\033[m\\n'\r");
    pair.agree("blue");
    pair.keys(&["C-b", "Left", "C-b", "["]);
    pair.keys(&["PPage"]);
    pair.agree("0:one");
    pair.keys(&["q"]);
    for terminal in pair.both() {
        Command::new("tmux").arg("-S").arg(terminal.folder.path().join("inner")).arg("kill-server").output().unwrap();
    }
}

/// What full-screen agents do with a terminal, and what they are sent.
const AGENT: &str = r"
import os, sys, tty
out = lambda text: (sys.stdout.write(text), sys.stdout.flush())
tty.setraw(0)
out('\x1b[?1049h\x1b[?1000h\x1b[?1002h\x1b[?1006h\x1b[?2004h\x1b[2J\x1b[H')
for n in range(1, 16):
    out(f'\x1b[{n};1Hrow {n}\t|\tx')
out('\x1b[4;10r\x1b[10;1Hin the region\n\n\x1b[4;1H\x1bM\x1bMreverse\x1b[2L\x1b[8;1H\x1b[M\x1b[r')
out('\x1b[12;5H\x1b[3@ins\x1b[12;1H\x1b[2Pdel\x1b[13;4H\x1b[6X\x1b[14;3Hab\x1b[5b')
out('\x1b[15;1H\x1b[1mbold\x1b[2mdim\x1b[22;3mitalic\x1b[23;4munder\x1b[24;7mreverse\x1b[27m '
    '\x1b[38;5;208;48;5;17mindexed\x1b[m \x1b[38;2;10;200;30;48;2;1;2;3mrgb\x1b[m \x1b[95;101mbright\x1b[m')
out('\x1b[16;1H\x1b[5mblink\x1b[m \x1b[8mhidden\x1b[m \x1b[9mstruck\x1b[m')
out('\x1b[17;1H\x1b[44m\x1b[K\x1b[m\x1b[18;1H\x1b[1K\x1b[18;200Hedge\x1b[19;1H' + 'wrap' * 40)
out('\x1b[22;1H\x1b[?7l' + 'cut' * 60 + '\x1b[?7h\x1b[23;1H\u6a21\u578b e\u0301 \U0001f600|\x1b[23;3H*')
out('\x1b7\x1b[1;40H\x1b(0lqqk\x1b(B\x1b8saved\x1b[24;1H')
line = ''
while True:
    data = os.read(0, 100)
    line = (line + data.decode('utf-8', 'backslashreplace')).replace('\x1b', 'E').replace('\r', 'R')[-80:]
    out('\x1b[24;1H\x1b[2K' + line.replace('\n', 'N') + '\x1b[?25h')
";

#[test]
fn an_agent_that_uses_all_of_the_screen() {
    let pair = Pair::start("python3 agent.py", &[("agent.py", AGENT)]);
    pair.agree("saved");
    pair.text("typed \u{6a21}");
    pair.agree("typed \u{6a21}");
    pair.paste("two\nlines");
    pair.agree("E[200~twoRlinesE[201~");
    pair.click(11, 40);
    pair.agree("E[<0;41;12ME[<0;41;12m");
    pair.keys(&["Up", "F5", "C-a", "PPage", "BTab", "DC"]);
    pair.agree("E[Z");
}

/// What line editors and forms ask of a terminal by way of `tabs` and `tput`, and of older programs by hand.
#[test]
fn margins_tab_stops_and_insert_mode() {
    let pair = Pair::start("env PS1='ready> ' ENV= sh -i", &[]);
    pair.agree("ready>");
    for (typed, wanted) in [
        ("tabs -4; printf 'a\\tb\\tfour\\n'", "b   four"),
        ("printf '\\033[20G\\033[Zback\\033[3G\\033H\\rx\\ttwo\\n'", "x two"),
        ("tabs -8; printf 'a\\teight\\n'", "a       eight"),
        ("printf 'behind\\r\\033[4h\\346\\250\\241before \\033[4l\\n'", "before behind"),
        ("printf '\\033[2J\\033[3;10rhome'; tput csr 5 10; echo top", "top"),
        ("printf '\\033[r\\033#8'; tput cup 4 0; echo aligned", "alignedE"),
    ] {
        pair.text(&format!("{typed}\r"));
        pair.agree(wanted);
    }
}

#[test]
fn the_known_differences_are_there() {
    let pair = Pair::start("python3 agent.py", &[("agent.py", AGENT)]);
    pair.agree("saved");
    let [(ours, _), (theirs, _)] = pair.pictures(true);
    for (number, why) in KNOWN {
        let all = |cell: &Cell| number.split(';').all(|one| cell.look.attributes.iter().any(|a| a == one));
        let has = |rows: &[Vec<Cell>]| rows.iter().flatten().any(all);
        assert_eq!((has(&theirs), has(&ours)), (true, false), "{number} {why}");
    }
}
