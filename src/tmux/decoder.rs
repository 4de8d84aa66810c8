//! What a control-mode client hears (tmux(1), "CONTROL MODE"). Sans-io and pure.
//!
//! tmux speaks in lines. Replies stand between `%begin` and `%end` or `%error`; everything else is a
//! notification. None should come inside a reply, but `refresh-client -A` has its `%pause` and `%continue`
//! there (3.3a). Bytes below 0x20 and backslashes of a pane's output are
//! written as three octal digits; all other bytes come as they are, UTF-8 or not. Nothing here
//! panics, waits or holds more than the limits below.

use super::ids::{PaneId, SessionId, WindowId};

/// Longest line that is kept. tmux cuts a pane's output far below that.
const LINE_LIMIT: usize = 1 << 20;

/// Most bytes of one reply that are kept.
const REPLY_LIMIT: usize = 16 << 20;

/// The answer to one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The server's number of the command.
    pub number: u64,
    /// `false`: the lines say what went wrong.
    pub ok: bool,
    /// What the command printed, without newlines.
    pub lines: Vec<Vec<u8>>,
    /// It printed more than is kept.
    pub truncated: bool,
}

/// One thing that was heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notification {
    /// A command has been answered.
    Reply(Reply),
    /// A pane has printed.
    Output {
        /// The pane.
        pane: PaneId,
        /// What it printed.
        bytes: Vec<u8>,
        /// How long tmux has held it back, in milliseconds, where the client has `pause-after`.
        age_ms: Option<u64>,
    },
    /// Output of the pane is held back, and lost, until the client continues it.
    Pause(PaneId),
    /// Output of the pane comes again.
    Continue(PaneId),
    /// The client ends.
    Exit {
        /// Why, if the server has said so.
        reason: Option<String>,
    },
    /// The layout of a window, and so perhaps the size of its panes, has changed.
    LayoutChange {
        /// The window.
        window: WindowId,
        /// The rest of the line.
        layout: String,
    },
    /// A window of the session was closed.
    WindowClose(WindowId),
    /// The client looks at another session now.
    SessionChanged {
        /// The session.
        session: SessionId,
        /// Its name. Text of others.
        name: String,
    },
    /// Another client looks at a session now: it may have attached just now.
    ClientSessionChanged(SessionId),
    /// Some client of the server has left.
    ClientDetached,
    /// A session was made or closed.
    SessionsChanged,
    /// A line that is none of these, or not in their form.
    Unknown(Vec<u8>),
    /// A line outside of a reply that was too long to be kept; this is its start.
    Overlong(Vec<u8>),
}

/// Turns the bytes of a control-mode client into [`Notification`]s.
#[derive(Debug, Default)]
pub struct Decoder {
    line: Vec<u8>,
    overlong: bool,
    reply: Option<Open>,
}

/// A reply that has begun.
#[derive(Debug)]
struct Open {
    /// The three numbers of `%begin`: only the same three end the reply, so that a pane's text which looks
    /// like an end does not.
    mark: Vec<u8>,
    bytes: usize,
    reply: Reply,
}

impl Decoder {
    /// Takes the next bytes, cut wherever they were cut, and returns what is complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Notification> {
        let mut heard = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, complete) = piece.strip_suffix(b"\n").map_or((piece, false), |text| (text, true));
            let room = LINE_LIMIT - self.line.len();
            self.overlong |= text.len() > room;
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if complete {
                let (line, overlong) = (std::mem::take(&mut self.line), std::mem::take(&mut self.overlong));
                self.line(line, overlong, &mut heard);
            }
        }
        heard
    }

    fn line(&mut self, line: Vec<u8>, overlong: bool, heard: &mut Vec<Notification>) {
        if let Some(mut open) = self.reply.take() {
            if let Some(ok) = end_of_reply(&line, &open.mark) {
                let flow = flow(&open.reply.lines);
                heard.push(Notification::Reply(Reply { ok, ..open.reply }));
                heard.extend(flow);
                return;
            }
            open.bytes += line.len();
            open.reply.truncated |= overlong;
            if open.bytes <= REPLY_LIMIT {
                open.reply.lines.push(line);
            } else {
                open.reply.truncated = true;
            }
            self.reply = Some(open);
        } else if overlong {
            let mut start = line;
            start.truncate(64);
            heard.push(Notification::Overlong(start));
        } else if let Some((mark, number)) = begin_of_reply(&line) {
            let reply = Reply { number, ok: false, lines: Vec::new(), truncated: false };
            self.reply = Some(Open { mark, bytes: 0, reply });
        } else {
            heard.push(notification(&line).unwrap_or(Notification::Unknown(line)));
        }
    }
}

/// Returns the pauses and continuations that a reply consists of; none where there is anything else in it,
/// which would be the text of a pane.
fn flow(lines: &[Vec<u8>]) -> Vec<Notification> {
    let one = |line: &Vec<u8>| {
        notification(line).filter(|one| matches!(one, Notification::Pause(_) | Notification::Continue(_)))
    };
    lines.iter().map(one).collect::<Option<_>>().unwrap_or_default()
}

/// Reads `%begin <time> <number> <flags>`.
fn begin_of_reply(line: &[u8]) -> Option<(Vec<u8>, u64)> {
    let mark = line.strip_prefix(b"%begin ")?;
    let mut numbers = text(mark)?.split(' ');
    let (_time, number) = (numbers.next()?, numbers.next()?.parse().ok()?);
    Some((mark.to_vec(), number))
}

fn end_of_reply(line: &[u8], mark: &[u8]) -> Option<bool> {
    let ended = |word: &[u8]| line.strip_prefix(word) == Some(mark);
    if ended(b"%end ") {
        Some(true)
    } else if ended(b"%error ") {
        Some(false)
    } else {
        None
    }
}

/// Reads a line outside of a reply; `None` where it is not in the form of a known one.
fn notification(line: &[u8]) -> Option<Notification> {
    let (word, rest) = cut(line).map_or((line, None), |(word, rest)| (word, Some(rest)));
    let target = || text(rest?);
    Some(match word {
        b"%output" => {
            let (pane, data) = cut(rest?)?;
            Notification::Output { pane: text(pane)?.parse().ok()?, bytes: unescape(data), age_ms: None }
        }
        b"%extended-output" => {
            let (pane, rest) = cut(rest?)?;
            let (age, rest) = cut(rest)?;
            // Words for future use may stand before the colon.
            let colon = rest.windows(2).position(|pair| pair == b": ")?;
            let bytes = unescape(&rest[colon + 2..]);
            Notification::Output { pane: text(pane)?.parse().ok()?, bytes, age_ms: Some(text(age)?.parse().ok()?) }
        }
        b"%pause" => Notification::Pause(target()?.parse().ok()?),
        b"%continue" => Notification::Continue(target()?.parse().ok()?),
        b"%exit" => Notification::Exit { reason: rest.map(lossy) },
        b"%layout-change" => {
            let (window, layout) = cut(rest?)?;
            Notification::LayoutChange { window: text(window)?.parse().ok()?, layout: lossy(layout) }
        }
        b"%window-close" => Notification::WindowClose(target()?.parse().ok()?),
        b"%session-changed" => {
            let (session, name) = cut(rest?)?;
            Notification::SessionChanged { session: text(session)?.parse().ok()?, name: lossy(name) }
        }
        // The name of a client is text of others, but has no spaces.
        b"%client-session-changed" => {
            let (session, _name) = cut(cut(rest?)?.1)?;
            Notification::ClientSessionChanged(text(session)?.parse().ok()?)
        }
        b"%client-detached" if rest.is_some() => Notification::ClientDetached,
        b"%sessions-changed" if rest.is_none() => Notification::SessionsChanged,
        _ => return None,
    })
}

/// Splits at the first space.
fn cut(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = line.iter().position(|byte| *byte == b' ')?;
    Some((&line[..space], &line[space + 1..]))
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Undoes tmux's escapes. A backslash without three octal digits stays as it is.
fn unescape(data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(data.len());
    let mut rest = data;
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'\\').then(|| octal(after)).flatten();
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &after[3..] } else { after };
    }
    bytes
}

fn octal(digits: &[u8]) -> Option<u8> {
    let digits = digits.get(..3)?;
    if digits.iter().all(|digit| (b'0'..=b'7').contains(digit)) {
        u8::from_str_radix(text(digits)?, 8).ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::text::noise::{damaged, pieces};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const PANE: PaneId = PaneId::new(3);

    /// tmux's side (`control_append_data`): what is below 0x20, and the backslash, in octal.
    fn escape(bytes: &[u8]) -> Vec<u8> {
        let one =
            |byte: &u8| if *byte < 0x20 || *byte == b'\\' { format!("\\{byte:03o}").into_bytes() } else { vec![*byte] };
        bytes.iter().flat_map(one).collect()
    }

    fn encode(heard: &Notification) -> Vec<u8> {
        let line = match heard {
            Notification::Output { pane, bytes, age_ms: None } => {
                [format!("%output {pane} ").into_bytes(), escape(bytes)].concat()
            }
            Notification::Output { pane, bytes, age_ms: Some(age) } => {
                [format!("%extended-output {pane} {age} : ").into_bytes(), escape(bytes)].concat()
            }
            Notification::Reply(reply) => {
                let mark = format!("1700000000 {} 1", reply.number);
                let mut text = format!("%begin {mark}\n").into_bytes();
                for line in &reply.lines {
                    text.extend_from_slice(line);
                    text.push(b'\n');
                }
                text.extend_from_slice(format!("%{} {mark}", if reply.ok { "end" } else { "error" }).as_bytes());
                text
            }
            Notification::Pause(pane) => format!("%pause {pane}").into_bytes(),
            Notification::Continue(pane) => format!("%continue {pane}").into_bytes(),
            Notification::Exit { reason: None } => b"%exit".to_vec(),
            Notification::Exit { reason: Some(reason) } => format!("%exit {reason}").into_bytes(),
            Notification::LayoutChange { window, layout } => format!("%layout-change {window} {layout}").into_bytes(),
            Notification::WindowClose(window) => format!("%window-close {window}").into_bytes(),
            Notification::SessionChanged { session, name } => format!("%session-changed {session} {name}").into_bytes(),
            Notification::ClientSessionChanged(session) => {
                format!("%client-session-changed /dev/pts/1 {session} a b").into_bytes()
            }
            Notification::ClientDetached => b"%client-detached /dev/pts/1".to_vec(),
            Notification::SessionsChanged => b"%sessions-changed".to_vec(),
            Notification::Unknown(line) | Notification::Overlong(line) => line.clone(),
        };
        [line, b"\n".to_vec()].concat()
    }

    fn check(line: &str, expected: &Notification) {
        assert_eq!(Decoder::default().push(format!("{line}\n").as_bytes()), std::slice::from_ref(expected), "{line}");
    }

    #[test]
    fn notifications_are_read() {
        let output = |bytes: &[u8], age_ms| Notification::Output { pane: PANE, bytes: bytes.to_vec(), age_ms };
        check(r"%output %3 a\015\012\134b", &output(b"a\r\n\\b", None));
        check("%output %3  two  spaces ", &output(b" two  spaces ", None));
        check("%output %3 ", &output(b"", None));
        check(r"%output %3 \9 \01 \777 \", &output(br"\9 \01 \777 \", None));
        check("%extended-output %3 17 : a : b", &output(b"a : b", Some(17)));
        check("%extended-output %3 17 later words : a", &output(b"a", Some(17)));
        check("%pause %3", &Notification::Pause(PANE));
        check("%continue %3", &Notification::Continue(PANE));
        check("%exit", &Notification::Exit { reason: None });
        check(
            "%exit server exited unexpectedly",
            &Notification::Exit { reason: Some("server exited unexpectedly".into()) },
        );
        let layout = "b25f,80x24,0,0,2 b25f,80x24,0,0,2 *";
        check(
            &format!("%layout-change @1 {layout}"),
            &Notification::LayoutChange { window: WindowId::new(1), layout: layout.into() },
        );
        check("%window-close @1", &Notification::WindowClose(WindowId::new(1)));
        check(
            "%session-changed $1 a b",
            &Notification::SessionChanged { session: SessionId::new(1), name: "a b".into() },
        );
        check("%client-session-changed /dev/pts/1 $1 a b", &Notification::ClientSessionChanged(SessionId::new(1)));
        check("%client-detached /dev/pts/1", &Notification::ClientDetached);
        check("%sessions-changed", &Notification::SessionsChanged);
    }

    #[test]
    fn what_is_not_known_is_kept() {
        for line in [
            "",
            "hello",
            "%",
            "%window-renamed @1 x",
            "%output",
            "%output %3",
            "%output 3 x",
            "%output @3 x",
            "%pause",
            "%pause 3",
            "%extended-output %3 x : a",
            "%extended-output %3 1 a",
            "%end 1 2 3",
            "%error 1 2 3",
            "%begin",
            "%begin x",
            "%begin 1 x 2",
            "%session-changed $1",
            "%client-session-changed /dev/pts/1 1 x",
            "%client-session-changed /dev/pts/1",
            "%client-detached",
            "%sessions-changed x",
        ] {
            check(line, &Notification::Unknown(line.as_bytes().to_vec()));
        }
    }

    #[test]
    fn a_reply_ends_with_its_own_numbers_only() {
        let mut decoder = Decoder::default();
        let heard = decoder.push(b"%begin 1 7 1\n%end 1 6 1\n%output %3 x\n%error 2 7 1\n\n%end 1 7 1\n%pause %3\n");
        let lines = ["%end 1 6 1", "%output %3 x", "%error 2 7 1", ""].map(|line| line.as_bytes().to_vec()).to_vec();
        let reply = Notification::Reply(Reply { number: 7, ok: true, lines, truncated: false });
        assert_eq!(heard, [reply, Notification::Pause(PANE)]);
    }

    #[test]
    fn flow_control_inside_a_reply_is_heard() {
        let heard = Decoder::default().push(b"%begin 1 7 1\n%continue %3\n%end 1 7 1\n");
        assert!(matches!(heard.as_slice(), [Notification::Reply(_), Notification::Continue(PANE)]), "{heard:?}");
        let heard = Decoder::default().push(b"%begin 1 7 1\n%pause %3\ntext of a pane\n%end 1 7 1\n");
        assert!(matches!(heard.as_slice(), [Notification::Reply(_)]), "{heard:?}");
    }

    #[test]
    fn an_error_is_a_reply_that_is_not_ok() {
        let heard = Decoder::default().push(b"%begin 1 7 1\ncan't find pane: %99\n%error 1 7 1\n");
        let lines = vec![b"can't find pane: %99".to_vec()];
        assert_eq!(heard, [Notification::Reply(Reply { number: 7, ok: false, lines, truncated: false })]);
    }

    #[test]
    fn lines_and_replies_are_bounded() {
        let mut decoder = Decoder::default();
        let long = vec![b'x'; LINE_LIMIT + 1];
        assert_eq!(decoder.push(&long), []);
        assert_eq!(decoder.push(&long), []);
        assert_eq!(decoder.line.len(), LINE_LIMIT);
        assert_eq!(decoder.push(b"\n%pause %3\n"), [Notification::Overlong(vec![b'x'; 64]), Notification::Pause(PANE)]);

        assert_eq!(decoder.push(b"%begin 1 7 1\n"), []);
        for _ in 0..=REPLY_LIMIT / LINE_LIMIT {
            assert_eq!(decoder.push(&long), []);
            assert_eq!(decoder.push(b"\n"), []);
        }
        let heard = decoder.push(b"%end 1 7 1\n");
        let [Notification::Reply(reply)] = heard.as_slice() else { panic!("{heard:?}") };
        assert!(reply.truncated);
        assert!(reply.lines.iter().map(Vec::len).sum::<usize>() <= REPLY_LIMIT);

        let exact = [b"%output %3 ".to_vec(), vec![b'x'; LINE_LIMIT - 11], b"\n".to_vec()].concat();
        assert!(
            matches!(decoder.push(&exact).as_slice(), [Notification::Output { bytes, .. }] if bytes.len() == LINE_LIMIT - 11)
        );
    }

    proptest! {
        #[test]
        fn nothing_panics_and_cuts_do_not_matter(bytes in vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b'%'), Just(b'\\')], 0..400), cut in 0_usize..400) {
            let whole = Decoder::default().push(&bytes);
            let mut decoder = Decoder::default();
            let (head, tail) = bytes.split_at(cut.min(bytes.len()));
            let mut parts = decoder.push(head);
            parts.extend(decoder.push(tail));
            prop_assert_eq!(parts, whole);
        }

        #[test]
        fn words_of_the_protocol_do_not_panic(lines in vec("%(output|extended-output|begin|end|error|exit|layout-change|pause)( [%@$]?[0-9]{0,4}){0,4}( :)?.{0,9}\n", 0..12)) {
            Decoder::default().push(lines.concat().as_bytes());
        }

        #[test]
        fn any_output_comes_back(pane in any::<u32>(), bytes in vec(any::<u8>(), 0..300), age_ms in proptest::option::of(any::<u64>())) {
            let heard = Notification::Output { pane: PaneId::new(pane), bytes, age_ms };
            prop_assert_eq!(Decoder::default().push(&encode(&heard)), [heard]);
        }

        #[test]
        fn any_other_notification_comes_back(id in any::<u32>(), text in "[^\n]{0,40}", which in 0..9) {
            let heard = match which {
                0 => Notification::Pause(PaneId::new(id)),
                1 => Notification::Continue(PaneId::new(id)),
                2 => Notification::Exit { reason: Some(text) },
                3 => Notification::LayoutChange { window: WindowId::new(id), layout: text },
                4 => Notification::WindowClose(WindowId::new(id)),
                5 => Notification::SessionChanged { session: SessionId::new(id), name: text },
                6 => Notification::ClientSessionChanged(SessionId::new(id)),
                7 => Notification::ClientDetached,
                _ => Notification::Unknown(format!("%later-{id} {text}").into_bytes()),
            };
            prop_assert_eq!(Decoder::default().push(&encode(&heard)), [heard]);
        }

        #[test]
        fn any_reply_comes_back(number in any::<u64>(), ok in any::<bool>(), lines in vec(vec(any::<u8>().prop_filter("one line", |b| *b != b'\n'), 0..40), 0..8)) {
            let heard = Notification::Reply(Reply { number, ok, lines, truncated: false });
            prop_assert_eq!(Decoder::default().push(&encode(&heard)), [heard]);
        }
    }

    proptest! {
        #[test]
        fn no_cuts_matter(
            bytes in prop_oneof![
                vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b'%'), Just(b'\\')], 0..300),
                damaged(b"%begin 1 7 1\n%pause %3\n%end 1 7 1\n%output %3 a\\015\\012\n%extended-output %3 17 : x\n%exit\n".to_vec()),
            ],
            lengths in vec(0_usize..40, 0..40),
        ) {
            let whole = Decoder::default().push(&bytes);
            let mut decoder = Decoder::default();
            let heard: Vec<_> = pieces(&bytes, &lengths).into_iter().flat_map(|piece| decoder.push(piece)).collect();
            prop_assert_eq!(heard, whole);
        }

        /// Whatever a line outside of a reply is, the next one is heard.
        #[test]
        fn a_bad_line_costs_nothing_but_itself(line in vec(any::<u8>().prop_filter("one line", |b| *b != b'\n'), 0..80)) {
            prop_assume!(begin_of_reply(&line).is_none());
            let heard = Decoder::default().push(&[&line[..], b"\n%pause %3\n"].concat());
            prop_assert_eq!((heard.len(), heard.last()), (2, Some(&Notification::Pause(PANE))));
        }

        #[test]
        fn any_bytes_come_back_from_their_escapes(bytes in vec(any::<u8>(), 0..200), noise in vec(prop::sample::select(b"\\01789a".to_vec()), 0..40)) {
            prop_assert_eq!(unescape(&escape(&bytes)), bytes);
            prop_assert!(unescape(&noise).len() <= noise.len());
        }
    }
}
