//! Rich made-up data for the tests of the screen: wide and combining characters, escape sequences in
//! names, every verdict, every phase.

mod launching;

use std::time::{Duration, Instant};

pub(super) use launching::*;

use super::model::{Frozen, Memory, Model, ScreenFacts};
use super::seam::{Effect, UiEvent};
use super::theme::Theme;
use super::update::update;
use super::view::Surface;
use crate::app::command::{Answer, Check, CheckState, Orphan, Orphans, ReapReport};
use crate::app::config::Chord;
use crate::app::contract::{HostKind, Kind, OtherServer, Phase, SessionRow, Tree};
use crate::app::event::Event;
use crate::app::why::{Ancestor, Role, Why};
use crate::lifecycle::identity::{Pid, StartToken};
use crate::lifecycle::receipt::{
    Bystander, Membership, Outcome, OutcomeKind, PlanRow, ProcessRow, Receipt, Refused, SignalSent, StillHeld, Via,
};
use crate::lifecycle::store::Quarantined;
use crate::lifecycle::tether::Last;
use crate::lifecycle::verdict::VerdictKind;
use crate::pty::screen::{CellStyle, Color, HistoryLimit, Link, Modes, MouseEncoding, MouseMode, Screen, Size};

pub(super) fn pid(raw: i32) -> Pid {
    Pid::new(raw).unwrap_or_else(|| panic!("{raw} is no pid"))
}

pub(super) fn token(pid: i32) -> StartToken {
    StartToken::Procfs { boot_id: "b00t".into(), ticks: pid.unsigned_abs().into() }
}

pub(super) fn session(id: &str, name: &str, kind: Kind, host: HostKind, phase: Phase) -> SessionRow {
    SessionRow {
        pid: Some(4242),
        verdict: VerdictKind::Owned,
        uptime_s: Some(7_400.0),
        cpu_pct: Some(12.4),
        rss_bytes: Some(1_288_490_189),
        ports: Some(Vec::new()),
        containment: vec!["tree".into(), "warden".into()],
        command: "llama-server -m qwen.gguf --port 8080".into(),
        cwd: Some("/srv/models".into()),
        processes: 3,
        ..SessionRow::without_processes(id, name, kind, host, phase)
    }
}

const PARSER: &str = "/home/me/src/parser";

/// Sessions of every kind, in no order.
pub(super) fn sessions() -> Vec<SessionRow> {
    use HostKind::{Pty, Tmux};
    let mut qwen = session("serve-1a2b3c4d", "qwen-coder-32b", Kind::Serve, Tmux, Phase::Ready);
    qwen.ports = Some(vec![8080]);
    qwen.rss_bytes = Some(19 << 30);
    qwen.gpu_bytes = Some(22 << 30);
    qwen.uptime_s = Some(200_000.0);
    let mut embed = session("serve-00000002", "embedder", Kind::Serve, Tmux, Phase::Loading);
    embed.detail = Some("weights 42 %".into());
    embed.uptime_s = Some(30.0);
    embed.cpu_pct = Some(388.0);
    let mut unsure = session("serve-00000003", "vllm 実験 サーバー", Kind::Serve, Tmux, Phase::Running);
    unsure.verdict = VerdictKind::Unverifiable;
    (unsure.cpu_pct, unsure.rss_bytes, unsure.uptime_s) = (None, None, None);
    let mut claude = session("agent-0000000a", "fix-the-parser", Kind::Agent, Tmux, Phase::Idle);
    claude.uptime_s = Some(2_000.0);
    let mut evil = session("agent-0000000b", "evil\x1b[2J\u{202e}name", Kind::Agent, Tmux, Phase::Running);
    evil.verdict = VerdictKind::Foreign;
    evil.uptime_s = Some(900.0);
    let mut shell = session("shell-0000000c", "zsh cafe\u{301}", Kind::Shell, Pty, Phase::Running);
    (shell.uptime_s, shell.cpu_pct, shell.rss_bytes) = (Some(300.0), Some(0.0), Some(9 << 20));
    let mut died = session("shell-0000000d", "build", Kind::Shell, Pty, Phase::Failed);
    (died.exit_code, died.verdict, died.processes) = (Some(137), VerdictKind::Gone, 0);
    (died.cpu_pct, died.rss_bytes, died.uptime_s) = (None, None, Some(100.0));
    (claude.cwd, evil.cwd, shell.cwd, died.cwd) =
        (Some(PARSER.into()), Some("/srv/ev\x1b[2Jil/".into()), Some("/".into()), None);
    let mut load =
        session("cookbook-000000e0", "Qwen3-Coder-480B-A35B-Instruct-GGUF", Kind::Download, Tmux, Phase::Downloading);
    load.uptime_s = Some(600.0);
    load.rss_bytes = Some(230 << 20);
    vec![load, shell, qwen, evil, embed, died, claude, unsure]
}

pub(super) fn process(raw: i32, ppid: i32, command: &str) -> ProcessRow {
    ProcessRow {
        pid: pid(raw),
        ppid,
        pgid: 4242,
        sid: 4240,
        start_token: Some(token(raw)),
        command: command.into(),
        command_b64: None,
        state: "S".into(),
        verdict: VerdictKind::Owned,
        reason: "start token and pidfd agree with the record".into(),
        membership: vec![Membership::Tree, Membership::Sid],
        protected: None,
        kept: None,
        age_s: Some(7_400.0),
        cpu_pct: Some(3.0),
        rss_bytes: Some(812 << 20),
        threads: Some(8),
        gpu_bytes: None,
    }
}

pub(super) fn tree() -> Tree {
    let mut worker = process(4301, 4242, "python -m vllm.worker --rank 0");
    worker.cpu_pct = Some(388.0);
    worker.state = "R".into();
    worker.gpu_bytes = Some(22 << 30);
    let mut agent = process(4400, 4301, "ssh-agent -D");
    agent.kept = Some("ssh-agent".into());
    let mut foreign = process(4500, 1, "\x1b]0;owned\x07innocent");
    foreign.verdict = VerdictKind::Foreign;
    foreign.reason = "pid 4500 started later than what was recorded".into();
    foreign.membership = vec![Membership::Marker];
    let mut unsure = process(4600, 4242, "名前 の 長い プロセス");
    unsure.verdict = VerdictKind::Unverifiable;
    unsure.reason = "stat is not readable (hidepid)".into();
    (unsure.cpu_pct, unsure.rss_bytes, unsure.threads, unsure.age_s) = (None, None, None, None);
    let mut gone = process(4302, 4242, "sh -c warmup");
    gone.verdict = VerdictKind::Gone;
    gone.reason = "has ended".into();
    (gone.cpu_pct, gone.rss_bytes, gone.threads) = (None, None, None);
    let mut guarded = process(4700, 4301, "tmux new-session");
    guarded.protected = Some("holds this very session".into());
    Tree {
        processes: vec![
            process(4242, 4241, "llama-server -m qwen2.5-coder-32b-instruct-q4_k_m.gguf --port 8080"),
            worker,
            process(4303, 4301, "python -m vllm.worker --rank 1"),
            agent,
            foreign,
            unsure,
            gone,
            guarded,
        ],
        lookalikes: vec![Bystander {
            pid: pid(999),
            start_token: Some(token(999)),
            command: "llama-server -m qwen.gguf --port 8080".into(),
            reason: Some("same command line, not a member".into()),
        }],
        escapees: vec![Bystander {
            pid: pid(5100),
            start_token: Some(token(5100)),
            command: "sleep 999".into(),
            reason: None,
        }],
        supervisors: vec![process(4241, 4240, "cookbook-warden")],
    }
}

fn planned(raw: i32, signal: Option<&str>, verdict: VerdictKind, reason: &str, command: &str) -> PlanRow {
    PlanRow {
        pid: pid(raw),
        start_token: Some(token(raw)),
        signal: signal.map(str::to_owned),
        verdict,
        reason: reason.into(),
        command: command.into(),
    }
}

/// The answer to a dry run.
pub(super) fn plan() -> Receipt {
    Receipt {
        session: "serve-1a2b3c4d".into(),
        host: "tmux".into(),
        captured: tree().processes,
        refused: vec![Refused { pid: pid(4700), reason: "the tmux server that holds this session".into() }],
        unverified: vec![pid(4600)],
        kept: vec![Bystander {
            pid: pid(4400),
            start_token: Some(token(4400)),
            command: "ssh-agent -D".into(),
            reason: Some("an ssh-agent outlives its starter on purpose".into()),
        }],
        lookalikes: tree().lookalikes,
        containment: vec!["tree".into()],
        plan: Some(vec![
            planned(
                4242,
                Some("TERM"),
                VerdictKind::Owned,
                "member by tree: the workload itself",
                "llama-server -m qwen2.5-coder-32b-instruct-q4_k_m.gguf --port 8080",
            ),
            planned(
                4301,
                Some("TERM"),
                VerdictKind::Owned,
                "member by tree: child of 4242",
                "python -m vllm.worker --rank 0",
            ),
            planned(
                4303,
                Some("TERM"),
                VerdictKind::Owned,
                "member by tree: child of 4301",
                "python -m vllm.worker --rank 1",
            ),
            planned(4400, None, VerdictKind::Owned, "kept", "ssh-agent -D"),
            planned(
                4500,
                None,
                VerdictKind::Foreign,
                "pid 4500 started later than what was recorded",
                "\x1b]0;owned\x07innocent",
            ),
            planned(4600, None, VerdictKind::Unverifiable, "stat is not readable (hidepid)", "名前 の 長い プロセス"),
            planned(4700, None, VerdictKind::Owned, "protected", "tmux new-session"),
        ]),
        ..Receipt::default()
    }
}

fn outcome(raw: i32, outcome: OutcomeKind, reason: Option<&str>) -> Outcome {
    Outcome { pid: pid(raw), start_token: Some(token(raw)), command: None, outcome, reason: reason.map(str::to_owned) }
}

/// A receipt in which nearly everything went wrong.
pub(super) fn bad_receipt() -> Receipt {
    let sent = |raw: i32, signal: &str| SignalSent {
        pid: pid(raw),
        start_token: StartToken::Procfs { boot_id: "b00t".into(), ticks: 1 },
        signal: signal.into(),
        via: Via::Pidfd,
    };
    Receipt {
        dead: Some(false),
        escalated: true,
        signals: vec![sent(4242, "TERM"), sent(4301, "TERM"), sent(4303, "TERM"), sent(4303, "KILL")],
        outcomes: vec![
            outcome(4242, OutcomeKind::Exited, None),
            outcome(4301, OutcomeKind::Exited, None),
            outcome(4303, OutcomeKind::Survived, Some("in uninterruptible sleep (D)")),
            outcome(4302, OutcomeKind::AlreadyGone, None),
            outcome(4600, OutcomeKind::Unverifiable, Some("stat is not readable (hidepid)")),
            outcome(4400, OutcomeKind::Kept, Some("an ssh-agent outlives its starter on purpose")),
        ],
        survivors: vec![pid(4303)],
        unverified: vec![pid(4600)],
        ports_released: vec![8081],
        still_held: vec![StillHeld { port: Some(8080), gpu_bytes: None, by: "4303 python".into() }],
        escapees: tree().escapees,
        notes: vec!["the warden was replaced by tree and sid: it had been killed".into()],
        elapsed_ms: 3_021,
        plan: None,
        ..plan()
    }
}

/// A receipt as it should be.
pub(super) fn clean_receipt() -> Receipt {
    Receipt {
        session: "serve-1a2b3c4d".into(),
        host: "tmux".into(),
        dead: Some(true),
        outcomes: vec![outcome(4242, OutcomeKind::Exited, None), outcome(4301, OutcomeKind::Exited, None)],
        host_closed: true,
        elapsed_ms: 240,
        ..Receipt::default()
    }
}

/// What is left of earlier sessions.
pub(super) fn orphans() -> Orphans {
    let mut row = session("serve-0000dead", "old\x1b[31m", Kind::Serve, HostKind::Tmux, Phase::Unverifiable);
    row.verdict = VerdictKind::Unverifiable;
    let last = Last { verdict: VerdictKind::Owned, reason: "survived KILL".into(), at: 1 };
    Orphans {
        orphans: vec![Orphan {
            row,
            age_s: 90_000.0,
            reason: "its manager 4711 is gone".into(),
            left: Vec::new(),
            last: Some(last),
        }],
        quarantined: vec![Quarantined { path: "/state/tethers/x.json".into(), reason: "schema 9 is newer".into() }],
        swept: Vec::new(),
        adopted: Vec::new(),
        cookbook: Vec::new(),
        report: ReapReport { seen: 3, kept: 2, inspector: "procfs".into(), ..ReapReport::default() },
        reaped: false,
        only: false,
        adopts: false,
    }
}

/// An orphan that is in the list of sessions, and a record that is left alone.
pub(super) fn orphans_in_the_list() -> Orphans {
    let mut orphans = orphans();
    for (orphan, row) in
        orphans.orphans.iter_mut().zip(sessions().into_iter().filter(|r| r.session == "serve-00000003"))
    {
        orphan.row = row;
        orphan.reason = "survived KILL".into();
    }
    orphans
}

/// Servers that are none of ours: one of ours by name, and one whose ports nobody can tell.
pub(super) fn strangers() -> Vec<OtherServer> {
    let server = |raw, server: &str, user: &str, ports: Option<Vec<u16>>, rss_bytes, command: &str| OtherServer {
        pid: pid(raw),
        server: server.into(),
        user: Some(user.into()),
        ports,
        rss_bytes,
        command: command.into(),
    };
    let line = "llama-server -m /models/qwen3-8b.gguf --port 8081 --api-key *** \x1b[31m";
    vec![
        server(7001, "llama-server", "me", Some(vec![8081]), Some(5 << 30), line),
        server(812, "ollama", "ollama", None, None, "/usr/local/bin/ollama serve"),
    ]
}

/// Why a process is what it is.
pub(super) fn why() -> Why {
    let ancestor = |raw: i32, command: &str, role| Ancestor {
        pid: pid(raw),
        start_token: token(raw),
        command: command.into(),
        role,
    };
    let mut why = Why {
        session: "serve-1a2b3c4d".into(),
        pid: pid(4301),
        role: Role::Member,
        command: "python -m vllm.worker --rank 0 \x1b[31m".into(),
        verdict: Some(VerdictKind::Owned),
        reason: "same pid, same start".into(),
        on_stop: String::new(),
        membership: vec![Membership::Tree, Membership::Sid],
        protected: None,
        kept: None,
        start_token: Some(token(4301)),
        pidfd_inode: Some(918_273),
        state: Some("R".into()),
        pgid: Some(4242),
        sid: Some(4240),
        cgroup: Some("/user.slice/user-1000.slice/user@1000.service/app.slice/run-p4711.scope".into()),
        parents: vec![
            ancestor(4242, "llama-server -m qwen2.5-coder-32b-instruct-q4_k_m.gguf --port 8080", Some(Role::Member)),
            ancestor(4241, "cookbook-warden", Some(Role::Supervisor)),
            ancestor(1, "/sbin/init", None),
        ],
        ports: Some(vec![8080, 8081]),
        age_s: Some(7_400.0),
        cpu_pct: Some(388.0),
        rss_bytes: Some(812 << 20),
        gpu_bytes: Some(22 << 30),
    };
    why.on_stop = why.decide();
    why
}

/// What the doctor says.
pub(super) fn checks() -> Vec<Check> {
    let check = |name: &str, state, detail: &str, way_out: Option<&str>| Check {
        name: name.into(),
        state,
        detail: detail.into(),
        way_out: way_out.map(str::to_owned),
    };
    vec![
        check("pidfd", CheckState::Ok, "pidfds with inodes (pidfs)", None),
        check("tmux", CheckState::Warn, "tmux 3.3a: no control of scopes", Some("nothing to do")),
        check("state", CheckState::Fail, "/state is on a full disk", Some("make room in /state")),
    ]
}

pub(super) fn modes() -> Modes {
    Modes {
        application_cursor: false,
        application_keypad: false,
        bracketed_paste: false,
        alternate_screen: false,
        mouse: MouseMode::None,
        mouse_encoding: MouseEncoding::Default,
        cursor_visible: true,
        disambiguates: false,
        cursor_shape: 0,
    }
}

pub(super) fn facts(session: &str) -> ScreenFacts {
    ScreenFacts {
        session: session.into(),
        modes: modes(),
        rows: 24,
        cursor_row: 3,
        history: 100,
        generation: 1,
        title: String::new(),
    }
}

/// An emulator that shows what a model server prints.
pub(super) struct FakeScreen(pub(super) Size);

impl Surface for FakeScreen {
    fn links(&self, offset: usize) -> Vec<Link> {
        let link = Link { row: 2, columns: 29..50, target: "http://127.0.0.1:8080".into(), number: 7 };
        if offset == 0 { vec![link] } else { Vec::new() }
    }

    fn size(&self) -> Size {
        self.0
    }

    fn cursor(&self) -> (u16, u16, bool) {
        (3, 2, true)
    }

    fn visit_row(&self, offset: usize, row: u16, visit: &mut dyn FnMut(u16, &str, u8, CellStyle)) {
        let lines: [&[(&str, u8)]; 4] = [
            &[("build: 4321 (abcdef01) with gcc for x86_64-linux-gnu", 1)],
            &[("読", 2), ("込", 2), (" ", 1), ("e\u{301}", 1), (" ok \u{9b}", 1)],
            &[(
                "main: server is listening on http://127.0.0.1:8080 - starting the main loop and waiting for requests that may be long",
                1,
            )],
            &[("$ ", 1)],
        ];
        let green = CellStyle {
            fg: Color::Indexed(2),
            bg: Color::Default,
            bold: row == 2,
            dim: false,
            italic: false,
            underline: false,
            inverse: false,
        };
        if offset > 0 {
            let text = format!("history {offset} {row}");
            for (column, c) in (0..).zip(text.chars()) {
                visit(column, c.encode_utf8(&mut [0; 4]), 1, green);
            }
            return;
        }
        let mut column = 0;
        for (text, width) in lines.get(usize::from(row)).copied().unwrap_or_default() {
            if *width == 2 || text.chars().count() == 2 && text.contains('\u{301}') {
                visit(column, text, *width, green);
                column += u16::from(*width);
                continue;
            }
            for c in text.chars() {
                visit(column, c.encode_utf8(&mut [0; 4]), 1, green);
                column += 1;
            }
        }
    }
}

/// A model under test, with its clock.
pub(super) struct Bench {
    pub(super) model: Model,
    pub(super) now: Instant,
}

impl Bench {
    /// An empty screen.
    pub(super) fn empty(cols: u16, rows: u16) -> Self {
        let now = Instant::now();
        Self { model: Model::new((cols, rows), Theme::DARK, Chord::default(), now), now }
    }

    /// A screen full of sessions; the first one is selected and has a terminal and a tree.
    pub(super) fn full(cols: u16, rows: u16) -> Self {
        let mut bench = Self::empty(cols, rows);
        bench.model.recall(Memory { over: vec!["shell-0000000d".into()], ..Memory::default() });
        bench.send(UiEvent::Recipes(recipes()));
        bench.send(UiEvent::Sessions(sessions()));
        bench.send(UiEvent::Branches([(PARSER.to_owned(), "fix/empty-input".to_owned())].into()));
        bench.look();
        bench.send(UiEvent::Tree { session: "serve-1a2b3c4d".into(), tree: tree() });
        bench.now += Duration::from_secs(192);
        bench.send(UiEvent::Happened(Event::Phase {
            session: "serve-1a2b3c4d".into(),
            phase: Phase::Ready,
            detail: Some("http://127.0.0.1:8080/health answers".into()),
        }));
        bench.send(UiEvent::Happened(Event::Attention {
            session: "agent-0000000a".into(),
            reason: "asks for permission \x1b[5m".into(),
            state: None,
        }));
        bench
    }

    pub(super) fn send(&mut self, event: UiEvent) -> Vec<Effect> {
        update(&mut self.model, event, self.now)
    }

    /// Connects a terminal to the selected session.
    pub(super) fn look(&mut self) {
        let facts = self.model.selected.as_deref().map(facts);
        self.model.observe(facts);
    }

    /// Presses keys: characters, or names in angle brackets as in `<Enter>`.
    pub(super) fn press(&mut self, keys: &str) -> Vec<Effect> {
        use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers};
        let mut effects = Vec::new();
        let mut rest = keys;
        while let Some(first) = rest.chars().next() {
            let named = rest.strip_prefix('<').and_then(|tail| tail.split_once('>'));
            let event = if let Some((name, tail)) = named {
                rest = tail;
                match name {
                    "Enter" => KeyCode::Enter.into(),
                    "Esc" => KeyCode::Esc.into(),
                    "Tab" => KeyCode::Tab.into(),
                    "BackTab" => KeyEvent::new(KeyCode::BackTab, KeyModifiers::SHIFT),
                    "Up" => KeyCode::Up.into(),
                    "Down" => KeyCode::Down.into(),
                    "PgUp" => KeyCode::PageUp.into(),
                    "PgDn" => KeyCode::PageDown.into(),
                    "Left" => KeyCode::Left.into(),
                    "Right" => KeyCode::Right.into(),
                    "Home" => KeyCode::Home.into(),
                    "End" => KeyCode::End.into(),
                    _ if let Some(n) = name.strip_prefix('F').and_then(|n| n.parse().ok()) => KeyCode::F(n).into(),
                    "Backspace" => KeyCode::Backspace.into(),
                    name => {
                        let c = name.strip_prefix("C-").and_then(|c| c.chars().next());
                        let c = c.unwrap_or_else(|| panic!("no key {name}"));
                        KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL)
                    }
                }
            } else {
                rest = &rest[first.len_utf8()..];
                KeyEvent::new(KeyCode::Char(first), KeyModifiers::NONE)
            };
            effects.extend(self.send(UiEvent::Input(Input::Key(event))));
        }
        effects
    }

    /// Presses keys, the first of which asks for the text of the terminal.
    pub(super) fn freeze(&mut self, keys: &str) -> Vec<Effect> {
        let (first, rest) = keys.split_at(1);
        self.press(first);
        self.thaw();
        self.press(rest)
    }

    /// Sends the text of a terminal that has printed some lines.
    pub(super) fn thaw(&mut self) {
        let mut screen = Screen::new(Size { rows: 24, cols: 80 }, HistoryLimit::default());
        for n in 0..60 {
            screen.process(format!("line {n}\r\n").as_bytes());
        }
        let wrapped = "x".repeat(100);
        screen.process(format!("a wrapped line {wrapped}\r\n\x1b[31merr: 読込\r\n\x1b[m$ ").as_bytes());
        let session = self.model.selected.clone().unwrap_or_default();
        self.send(UiEvent::Frozen(Box::new(Frozen::take(&session, &screen))));
    }

    /// Draws, and takes the frame as shown.
    pub(super) fn draw(&mut self) -> String {
        let (text, _) = super::view::tests::render(&self.model);
        self.frame();
        text
    }

    /// Draws, and takes the frame as shown, without looking at it.
    pub(super) fn frame(&mut self) {
        super::view::tests::draw(&self.model);
        if let Some(shown) = self.model.shown() {
            self.model.note_shown(&shown, self.now);
        }
    }

    /// Answers the last command among effects.
    pub(super) fn answer(&mut self, effects: &[Effect], answer: Answer) -> Vec<Effect> {
        let ticket = ticket(effects);
        self.send(UiEvent::Answered { ticket, result: Ok(answer) })
    }
}

/// Returns the ticket of the last command among effects.
pub(super) fn ticket(effects: &[Effect]) -> u64 {
    for effect in effects.iter().rev() {
        if let Effect::Run { ticket, .. } = effect {
            return *ticket;
        }
    }
    panic!("no command in {effects:?}")
}
