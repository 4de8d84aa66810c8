//! What asks for a person's attention: notes that agents leave by `notify`, and guesses where they leave none.
//! Pure: `notify` writes the notes, `runtime::attention` reads them and tells what changed.
//!
//! A note outranks a guess, and a guess says that it is one. Whatever asked is answered when somebody types into
//! the session, or when a newer note says that it works.

use serde::{Deserialize, Serialize};

use super::prompt::Typed;
use crate::text;

/// Version of a note's shape.
const SCHEMA_VERSION: u32 = 1;

/// Longest message, in columns; the rest of a longer one is cut.
const MESSAGE_MAX: usize = 200;

/// What is looked at of a message before it is cut, in characters.
const MESSAGE_READ: usize = 4096;

/// Most bytes of a note or an answer on disk.
pub const FILE_MAX: u64 = 16 << 10;

/// A bell this soon after typing answers it, as a shell's completion does (seconds).
const ECHO_S: f64 = 2.0;

/// What looks like a question is taken for one after so long without output (seconds).
const QUIET_S: f64 = 2.0;

/// Two looks at a log may tell of the same output so far apart (seconds).
const SAME_S: f64 = 0.5;

/// Above this much of one core a session is busy (percent).
const BUSY_PCT: f64 = 80.0;

/// How long it is busy without a word before that is worth a look (seconds).
const BUSY_S: f64 = 600.0;

/// What an agent says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Says {
    /// It waits for a person.
    Waiting,
    /// It works, and needs nobody.
    Working,
    /// It has finished what it was asked to do.
    Done,
}

/// Fields of `notify`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotifyRequest {
    /// Which session; without it the one that the caller runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What it says.
    pub state: Says,
    /// More, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The answer to `notify`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Noted {
    /// Which session.
    pub session: String,
    /// The caller is a process of that session.
    pub verified: bool,
}

/// What an agent has left: one small file per session, in the state directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Note {
    schema_version: u32,
    /// Which session.
    session: String,
    /// What it says.
    state: Says,
    /// More, in one masked and escaped line.
    message: Option<String>,
    /// The boot that `at` belongs to; `None` where the inspector knows none.
    boot_id: Option<String>,
    /// Seconds on `CLOCK_BOOTTIME`.
    at: f64,
    /// Whoever wrote it saw that it was a process of the session.
    verified: bool,
}

/// When a note was written, and by whom.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The boot.
    pub boot_id: Option<&'a str>,
    /// Seconds on `CLOCK_BOOTTIME`.
    pub at: f64,
    /// The caller is a process of the session.
    pub verified: bool,
}

impl Note {
    /// Returns the note of a session.
    pub fn new(session: &str, state: Says, message: Option<&str>, origin: Origin<'_>) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            session: session.to_owned(),
            state,
            message: message.and_then(line),
            boot_id: origin.boot_id.map(str::to_owned),
            at: origin.at,
            verified: origin.verified,
        }
    }

    /// Reads a note back. Whoever wrote it need not have been us: its message is bounded, masked and escaped again.
    ///
    /// # Errors
    /// Says why it is not taken for a note of this session, written since `since` and before `now` in this boot
    /// (seconds on `CLOCK_BOOTTIME`).
    pub fn parse(bytes: &[u8], session: &str, boot_id: Option<&str>, since: f64, now: f64) -> Result<Self, String> {
        let note: Self = serde_json::from_slice(bytes).map_err(|error| format!("not a note of ours: {error}"))?;
        let same_boot = note.boot_id.is_none() || boot_id.is_none() || note.boot_id.as_deref() == boot_id;
        if note.schema_version != SCHEMA_VERSION {
            return Err(format!("schema_version {} is not {SCHEMA_VERSION}", note.schema_version));
        }
        if note.session != session {
            return Err("it is of another session".into());
        }
        if !same_boot || !(since..=now).contains(&note.at) {
            return Err("it is of another time".into());
        }
        let message = note.message.as_deref().and_then(line);
        Ok(Self { message, ..note })
    }
}

/// The moment at which somebody typed into a session that had asked: on disk, so that every manager knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    /// The boot that `at` belongs to.
    pub boot_id: Option<String>,
    /// Seconds on `CLOCK_BOOTTIME`.
    pub at: f64,
}

/// Returns text as one line that is fit to be shown; `None` where nothing is left of it.
fn line(message: &str) -> Option<String> {
    let read: String = message.chars().take(MESSAGE_READ).collect();
    let masked = text::mask_text(&read);
    let words: Vec<&str> = masked.split_whitespace().collect();
    let line = text::shorten(&text::escape(&words.join(" ")), MESSAGE_MAX);
    (!line.is_empty()).then_some(line)
}

/// What a session asks attention for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Want {
    /// Its agent waits for a person, or its screen looks so: a guess.
    Waiting,
    /// Its agent has finished.
    Done,
    /// Its terminal's bell rang: a guess.
    Bell,
    /// It is busy and prints nothing: a guess.
    Busy,
}

impl Want {
    /// Returns the word used in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Done => "done",
            Self::Bell => "bell",
            Self::Busy => "busy",
        }
    }

    /// Tells whether nobody ever says so.
    pub const fn is_guess(self) -> bool {
        matches!(self, Self::Bell | Self::Busy)
    }

    /// Returns it in words for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Done => "done",
            Self::Bell => "bell (a guess)",
            Self::Busy => "busy without a word (a guess)",
        }
    }
}

/// `attention` of a session in `list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attention {
    /// What for.
    pub state: Want,
    /// What its agent says, or the question on its screen, in one masked and escaped line.
    pub message: Option<String>,
    /// Seconds since it began.
    pub since_s: f64,
    /// A process of the session said so.
    pub verified: bool,
    /// Nobody said so.
    pub guess: bool,
}

impl Attention {
    /// Returns what for in a word.
    pub const fn name(&self) -> &'static str {
        if self.is_prompt() { "asks" } else { self.state.name() }
    }

    /// Returns the reason in one line.
    pub fn reason(&self) -> String {
        let unverified = if self.guess || self.verified { "" } else { " (unverified)" };
        let words = if self.is_prompt() { "prompt (a guess)" } else { self.state.words() };
        match &self.message {
            Some(message) => format!("{words}{unverified}: {message}"),
            None => format!("{words}{unverified}"),
        }
    }

    const fn is_prompt(&self) -> bool {
        self.guess && matches!(self.state, Want::Waiting)
    }
}

/// What it asks for, since when, and the question on its screen where that is all there is.
struct Asks<'a> {
    state: Want,
    since: f64,
    question: Option<&'a str>,
}

/// What is known of one session. All times are seconds on `CLOCK_BOOTTIME`.
///
/// `hear`, `ring`, `look`, `observe` and `answer` take in what happened; `attention` says what follows from it, and `news`
/// says it once.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    note: Option<Note>,
    /// When the bell rang first since the last answer.
    bell: Option<f64>,
    /// What it had printed last when its screen was looked at for a question.
    looked: Option<f64>,
    /// The question that was found there.
    question: Option<String>,
    /// Since when it is busy.
    busy: Option<f64>,
    /// When it printed last.
    printed: Option<f64>,
    answered: Option<f64>,
    /// What is typed into it.
    typed: Typed,
    /// What was told last.
    told: Option<(Want, u64)>,
}

impl Watch {
    /// Takes in the note that is on disk now.
    pub fn hear(&mut self, note: Option<Note>) {
        self.note = note;
    }

    /// Takes in a bell of its terminal. Returns whether it is the first since the last answer.
    pub fn ring(&mut self, now: f64) -> bool {
        let is_echo = self.answered.is_some_and(|at| now - at < ECHO_S);
        let is_first = !is_echo && self.bell.is_none_or(|at| self.is_answered_since(at));
        if is_first {
            self.bell = Some(now);
        }
        is_first
    }

    /// Takes in when it printed last. Tells whether its screen is to be looked at for a question: it is quiet since, and
    /// nobody has looked.
    pub fn is_quiet(&mut self, now: f64, printed: f64) -> bool {
        if self.looked.is_some_and(|at| (at - printed).abs() < SAME_S) {
            return false;
        }
        self.question = None;
        now - printed >= QUIET_S
    }

    /// Takes in what its screen asks since it printed last. What is only the echo of what is typed asks nothing.
    pub fn look(&mut self, printed: f64, question: Option<&str>) {
        self.looked = Some(printed);
        self.question = question.filter(|asks| !self.typed.is_echoed_by(asks)).and_then(line);
    }

    /// Tells whether it may be guessed to be busy from how much of a core it uses: if so, it matters when it printed
    /// last.
    pub fn may_be_busy(cpu_pct: Option<f64>) -> bool {
        cpu_pct.is_none_or(|pct| pct > BUSY_PCT)
    }

    /// Takes in how much of a core it uses, where that is known, and when it printed last. `None` says that it is
    /// not to be guessed from.
    pub fn observe(&mut self, now: f64, cpu_pct: Option<f64>, printed: Option<f64>) {
        self.printed = printed;
        match cpu_pct {
            _ if printed.is_none() => self.busy = None,
            Some(pct) if pct > BUSY_PCT => self.busy = self.busy.or(Some(now)),
            Some(_) => self.busy = None,
            // Two looks at the same moment show nothing.
            None => {}
        }
    }

    /// Takes in that somebody typed into it, and when they began to. Returns whether it had asked for attention.
    pub fn answer(&mut self, at: f64) -> bool {
        let asked = self.want(at).is_some_and(|asks| asks.since <= at);
        self.answered = Some(self.answered.map_or(at, |before| before.max(at)));
        asked
    }

    /// Takes in what was typed, which [`Self::answer`] is told of as well.
    pub fn take_typed(&mut self, bytes: &[u8]) {
        self.typed.take(bytes);
    }

    /// Returns when somebody typed into it last.
    pub fn answered(&self) -> Option<f64> {
        self.answered
    }

    /// Returns what it asks attention for.
    pub fn attention(&self, now: f64) -> Option<Attention> {
        let Asks { state, since, question } = self.want(now)?;
        let guess = state.is_guess() || question.is_some();
        let note = self.note.as_ref().filter(|_| !guess);
        Some(Attention {
            state,
            message: question.map(str::to_owned).or_else(|| note.and_then(|note| note.message.clone())),
            since_s: ((now - since).max(0.0) * 1000.0).round() / 1000.0,
            verified: note.is_some_and(|note| note.verified),
            guess,
        })
    }

    /// Returns what it asks attention for if that was not said before, and began after `since`.
    pub fn news(&mut self, now: f64, since: f64) -> Option<Attention> {
        let want = self.want(now).map(|asks| (asks.state, asks.since.to_bits()));
        if want == self.told {
            return None;
        }
        self.told = want;
        let (_, at) = want?;
        self.attention(now).filter(|_| f64::from_bits(at) >= since)
    }

    fn want(&self, now: f64) -> Option<Asks<'_>> {
        let asks = |state, since| Some(Asks { state, since, question: None });
        let said = self.note.as_ref().filter(|note| self.answered.is_none_or(|at| note.at > at));
        match said.map(|note| (note.state, note.at)) {
            Some((Says::Waiting, at)) => return asks(Want::Waiting, at),
            Some((Says::Done, at)) => return asks(Want::Done, at),
            Some((Says::Working, _)) | None => {}
        }
        if let (Some(at), Some(question)) = (self.looked.filter(|at| !self.is_answered_since(*at)), &self.question) {
            return Some(Asks { state: Want::Waiting, since: at, question: Some(question) });
        }
        if let Some(at) = self.bell.filter(|at| !self.is_answered_since(*at)) {
            return asks(Want::Bell, at);
        }
        let busy = self.busy?;
        let word = [self.printed, self.answered, self.note.as_ref().map(|note| note.at)].into_iter().flatten();
        let due = word.fold(busy, f64::max) + BUSY_S;
        if now >= due { asks(Want::Busy, due) } else { None }
    }

    /// Tells whether something since this moment has answered it: typing, or a note.
    fn is_answered_since(&self, at: f64) -> bool {
        let note = self.note.as_ref().map(|note| note.at);
        [self.answered, note].into_iter().flatten().any(|word| word >= at)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use crate::text::noise::{cases, damaged};

    use super::*;

    fn note(state: Says, at: f64) -> Note {
        Note::new("agent-0000000a", state, None, Origin { boot_id: Some("b"), at, verified: true })
    }

    fn want(watch: &Watch, now: f64) -> Option<Want> {
        watch.attention(now).map(|attention| attention.state)
    }

    fn since_ms(watch: &Watch, now: f64) -> u128 {
        std::time::Duration::from_secs_f64(watch.attention(now).unwrap().since_s).as_millis()
    }

    #[test]
    fn a_note_asks_until_it_is_answered() {
        let mut watch = Watch::default();
        assert_eq!(want(&watch, 0.0), None);
        watch.hear(Some(note(Says::Waiting, 10.0)));
        assert_eq!(since_ms(&watch, 12.5), 2_500);
        assert!(watch.answer(13.0), "it had asked");
        assert_eq!(want(&watch, 14.0), None);
        assert!(!watch.answer(14.0), "it had not asked again");
        watch.hear(Some(note(Says::Done, 15.0)));
        assert_eq!(want(&watch, 15.0), Some(Want::Done));
        watch.hear(Some(note(Says::Working, 16.0)));
        assert_eq!(want(&watch, 16.0), None);
    }

    #[test]
    fn an_answer_of_before_does_not_answer_what_comes_after() {
        let mut watch = Watch::default();
        watch.answer(20.0);
        watch.answer(5.0);
        assert_eq!(watch.answered(), Some(20.0));
        watch.hear(Some(note(Says::Waiting, 19.0)));
        assert_eq!(want(&watch, 21.0), None);
        watch.hear(Some(note(Says::Waiting, 20.5)));
        assert_eq!(want(&watch, 21.0), Some(Want::Waiting));
    }

    #[test]
    fn a_bell_is_a_guess_that_a_note_outranks() {
        let mut watch = Watch::default();
        watch.answer(1.0);
        assert!(!watch.ring(1.5));
        assert_eq!(want(&watch, 2.0), None, "it answers what was typed");
        assert!(watch.ring(10.0) && !watch.ring(11.0));
        let bell = watch.attention(12.0).unwrap();
        assert_eq!((bell.state, bell.guess, bell.verified), (Want::Bell, true, false));
        assert_eq!(since_ms(&watch, 12.0), 2_000, "it rang first then");
        assert_eq!(bell.reason(), "bell (a guess)");
        watch.hear(Some(note(Says::Waiting, 13.0)));
        assert_eq!(want(&watch, 13.0), Some(Want::Waiting));
        watch.hear(Some(note(Says::Working, 14.0)));
        assert_eq!(want(&watch, 14.0), None, "the bell was before the note");
        assert!(watch.ring(15.0));
        assert_eq!(want(&watch, 15.0), Some(Want::Bell));
        watch.answer(16.0);
        assert_eq!(want(&watch, 16.0), None);
    }

    #[test]
    fn a_question_on_a_quiet_screen_is_a_guess_until_it_is_answered() {
        let mut watch = Watch::default();
        assert!(!watch.is_quiet(11.9, 10.0) && watch.is_quiet(12.0, 10.0));
        watch.look(10.0, Some("Password for sk-abcdefghijklmnopqrstuvwx:"));
        assert!(!watch.is_quiet(13.0, 10.001), "it was looked at");
        let asks = watch.attention(13.0).unwrap();
        assert_eq!((asks.state, asks.guess, asks.verified, asks.name()), (Want::Waiting, true, false, "asks"));
        assert!(asks.reason().starts_with("prompt (a guess): Password for"), "{}", asks.reason());
        assert!(!asks.reason().contains("ghijkl"), "secrets are masked: {}", asks.reason());
        assert!(watch.news(13.0, 0.0).is_some() && watch.news(14.0, 0.0).is_none(), "it is told once");
        watch.ring(13.0);
        assert_eq!(want(&watch, 13.0), Some(Want::Waiting), "it says more than a bell");
        watch.answer(14.0);
        assert_eq!(want(&watch, 14.0), None);
        // Output that goes on clears it, and so does a note.
        assert!(watch.is_quiet(22.0, 20.0));
        watch.look(20.0, Some("[y/N]"));
        assert_eq!(want(&watch, 22.0), Some(Want::Waiting));
        assert!(!watch.is_quiet(23.0, 22.9));
        assert_eq!(want(&watch, 23.0), None);
        watch.look(22.9, Some("[y/N]"));
        watch.hear(Some(note(Says::Working, 24.0)));
        assert_eq!(want(&watch, 24.0), None);
        watch.look(30.0, None);
        assert_eq!(want(&watch, 33.0), None);
    }

    #[test]
    fn an_echo_asks_nothing_and_what_follows_it_does() {
        let mut watch = Watch::default();
        watch.answer(10.0);
        watch.take_typed(b"echo [y/N]");
        watch.look(10.001, Some("$ echo [y/N]"));
        assert_eq!(want(&watch, 13.0), None);
        watch.answer(20.0);
        watch.take_typed(b"\r");
        watch.look(20.001, Some("[y/N]"));
        assert_eq!(want(&watch, 23.0), Some(Want::Waiting));
    }

    #[test]
    fn busy_without_a_word_for_ten_minutes() {
        let mut watch = Watch::default();
        watch.observe(0.0, Some(81.0), Some(-50.0));
        watch.observe(599.0, None, Some(-50.0));
        assert_eq!(want(&watch, 599.0), None);
        assert_eq!(want(&watch, 600.0), Some(Want::Busy));
        assert_eq!(since_ms(&watch, 601.0), 1_000);
        // A word begins the ten minutes anew: output, typing, a note.
        watch.observe(601.0, Some(99.0), Some(300.0));
        assert_eq!((want(&watch, 899.0), want(&watch, 900.0)), (None, Some(Want::Busy)));
        watch.answer(400.0);
        assert_eq!((want(&watch, 999.0), want(&watch, 1000.0)), (None, Some(Want::Busy)));
        watch.hear(Some(note(Says::Working, 500.0)));
        assert_eq!((want(&watch, 1099.0), want(&watch, 1100.0)), (None, Some(Want::Busy)));
        // So does a moment at rest; and without knowing what it prints nothing is guessed.
        watch.observe(1200.0, Some(80.0), Some(300.0));
        assert_eq!(want(&watch, 9999.0), None);
        watch.observe(1201.0, Some(100.0), Some(300.0));
        watch.observe(1202.0, Some(100.0), None);
        assert_eq!(want(&watch, 9999.0), None);
    }

    #[test]
    fn news_is_told_once() {
        let mut watch = Watch::default();
        watch.hear(Some(note(Says::Waiting, 10.0)));
        assert_eq!(watch.news(11.0, 10.5), None, "it was there before the first look");
        watch.hear(Some(note(Says::Waiting, 12.0)));
        assert_eq!(watch.news(13.0, 10.5).unwrap().state, Want::Waiting);
        assert_eq!(watch.news(14.0, 10.5), None);
        watch.hear(Some(note(Says::Working, 15.0)));
        assert_eq!(watch.news(15.0, 10.5), None);
        assert!(watch.ring(16.0) && !watch.ring(17.0));
        assert_eq!(watch.news(17.0, 10.5).unwrap().state, Want::Bell);
        assert_eq!(watch.news(18.0, 10.5), None);
    }

    #[test]
    fn a_message_is_one_masked_and_escaped_line() {
        let check = |message: &str, expected: Option<&str>| assert_eq!(line(message).as_deref(), expected);
        check("may I\n  run\tls?\n", Some("may I run ls?"));
        check(" \n\t", None);
        check("", None);
        check("\u{1b}[2J\u{202e}x", Some("\\x1b[2J\\u{202e}x"));
        let secret = line("run curl --token hunter2hunter2 now").unwrap();
        assert!(!secret.contains("hunter2"), "{secret}");
        let long = line(&"x".repeat(1 << 20)).unwrap();
        assert_eq!((long.chars().count(), long.chars().last()), (MESSAGE_MAX, Some('…')));
    }

    #[test]
    fn only_a_note_of_this_session_and_time_is_taken() {
        let origin = Origin { boot_id: Some("b"), at: 10.0, verified: false };
        let written = Note::new("agent-0000000a", Says::Waiting, Some("x"), origin);
        let bytes = serde_json::to_vec(&written).unwrap();
        let parse = |session, boot, since, now| Note::parse(&bytes, session, boot, since, now);
        assert_eq!(parse("agent-0000000a", Some("b"), 5.0, 11.0).unwrap(), written);
        assert_eq!(parse("agent-0000000a", None, 5.0, 11.0).unwrap(), written);
        assert!(parse("agent-0000000b", Some("b"), 5.0, 11.0).is_err());
        assert!(parse("agent-0000000a", Some("c"), 5.0, 11.0).is_err());
        assert!(parse("agent-0000000a", Some("b"), 10.5, 11.0).is_err(), "it is of an earlier run");
        assert!(parse("agent-0000000a", Some("b"), 5.0, 9.0).is_err(), "it would never be answered");
        for bad in [&b""[..], b"{", b"[]", b"\0", br#"{"schema_version":2}"#] {
            assert!(Note::parse(bad, "agent-0000000a", None, 0.0, 99.0).is_err());
        }
        let forged = String::from_utf8(bytes).unwrap().replace("\"x\"", "\"a\\u001b]0;b\\u0007\\nc\"");
        let read = Note::parse(forged.as_bytes(), "agent-0000000a", Some("b"), 5.0, 11.0).unwrap();
        assert_eq!(read.message.as_deref(), Some("a\\x1b]0;b\\x07 c"));
    }

    proptest! {
        #![proptest_config(cases(300))]

        /// Whoever wrote it: what is taken for a note is of this session and this time, and fit to be shown.
        #[test]
        fn any_bytes_are_a_note_or_an_error(
            message in any::<String>(),
            bytes in damaged(serde_json::to_vec(&Note::new(
                "serve-0123abcd", Says::Waiting, Some("a\u{202e}b --token abcdefgh"), Origin { boot_id: Some("b"), at: 5.0, verified: true },
            )).unwrap_or_default()),
        ) {
            let told = Note::new("s", Says::Done, Some(&message), Origin { boot_id: None, at: 5.0, verified: false });
            let known = serde_json::to_vec(&told).unwrap_or_default();
            for (bytes, session) in [(bytes, "serve-0123abcd"), (known, "s")] {
                let Ok(note) = Note::parse(&bytes, session, Some("b"), 1.0, 9.0) else { continue };
                prop_assert!(note.session == session && (1.0..=9.0).contains(&note.at));
                let shown = note.message.unwrap_or_default();
                prop_assert_eq!(text::escape(&shown), shown.as_str());
                prop_assert_eq!(text::shorten(&shown, MESSAGE_MAX), shown);
            }
        }
    }
}
