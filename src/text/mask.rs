//! Masks secrets in command lines and text (design rule 13).
//!
//! Called wherever a command, a variable or a log line becomes visible or durable. The lexer in
//! `scan` finds the secrets of one text; this file knows what arguments are. Masking is
//! idempotent, and nothing here restores what was masked.

use std::borrow::Cow;

use super::scan::{Due, settle};
use super::secret::{Strength, strength};

/// What stands where a secret stood.
pub const MASK: &str = "***";

/// What a value may be that hides nothing.
const LITERALS: &[&str] = &["", "\"\"", "''", MASK, "None", "null", "true", "false", "True", "False"];

/// Tells whether an environment variable holds a secret, by its name or by the shape of its value.
pub fn is_secret(name: &str, value: &str) -> bool {
    is_secret_name(name) || matches!(mask_text(value), Cow::Owned(_))
}

/// Tells whether an environment variable of this name holds a secret.
pub fn is_secret_name(name: &str) -> bool {
    strength(name).is_some()
}

/// Returns free text, for example a line for `sh -c` or a log line, with its secrets masked.
pub fn mask_text(text: &str) -> Cow<'_, str> {
    let masked = settle(text, is_vllm(text)).0;
    // What said that there are several values may itself have been masked.
    if is_vllm(text) && !is_vllm(&masked) { Cow::Owned(settle(&masked, false).0.into_owned()) } else { masked }
}

/// Returns arguments with their secrets masked; as many as there were.
///
/// Knows more than [`mask_text`]: where one argument ends, so that a secret may contain anything.
pub fn mask_argv<S: AsRef<str>>(argv: &[S]) -> Vec<String> {
    let several = argv.iter().any(|arg| is_vllm(arg.as_ref()));
    let masked = mask_once(argv, several);
    if several && !masked.iter().any(|arg| is_vllm(arg)) { mask_once(&masked, false) } else { masked }
}

/// Returns the command line as `ps` shows it: masked, valid UTF-8, arguments joined by spaces.
///
/// The second value holds the raw bytes, joined alike, where the text had to lose some of them;
/// never where something was masked.
pub fn command_line(argv: &[Vec<u8>]) -> (String, Option<Vec<u8>>) {
    let texts: Vec<Cow<'_, str>> = argv.iter().map(|arg| String::from_utf8_lossy(arg)).collect();
    let lossless = argv.iter().zip(&texts).all(|(raw, text)| raw.as_slice() == text.as_bytes());
    let masked = mask_argv(&texts);
    let raw = (!lossless && masked == texts).then(|| argv.join(&b' '));
    (masked.join(" "), raw)
}

fn mask_once<S: AsRef<str>>(argv: &[S], several: bool) -> Vec<String> {
    let mut due = Due::Nothing;
    let mut masked: Vec<String> = Vec::with_capacity(argv.len());
    for arg in argv.iter().map(AsRef::as_ref) {
        let is_line = masked.last().is_some_and(|flag| is_line_flag(flag));
        if due == Due::Values && arg.starts_with('-') {
            due = Due::Nothing;
        }
        let whole = match due {
            Due::Nothing if is_line => None,
            Due::Nothing => assignment(arg),
            Due::Value | Due::Values => Some(value(arg).to_owned()),
        };
        let (text, next) = settle(arg, several);
        due = match due {
            Due::Nothing => next,
            Due::Values => Due::Values,
            // An option in the place of a value may be just that: what it announces is masked too.
            Due::Value if arg.starts_with('-') => next,
            Due::Value if is_scheme(arg) => Due::Value,
            Due::Value => Due::Nothing,
        };
        masked.push(whole.unwrap_or_else(|| text.into_owned()));
    }
    masked
}

/// Returns what to show for a value that was announced as a secret.
pub(super) fn value(text: &str) -> &str {
    if LITERALS.contains(&text) { text } else { MASK }
}

/// Masks an argument that is one assignment or header as a whole: `--token=a b`, `A_KEY=a b`,
/// `X-Api-Key: a b`.
fn assignment(arg: &str) -> Option<String> {
    let (name, rest) = arg.split_at(arg.find(['=', ':'])?);
    let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
    let strength = strength(name).filter(|_| is_name)?;
    let kept = match rest.strip_prefix(':') {
        Some(_) if strength == Strength::Bare => return None,
        Some(after) => rest.len() - after.trim_start().len(),
        None => 1,
    };
    Some(format!("{name}{}{}", &rest[..kept], value(&rest[kept..])))
}

/// vLLM takes several values after one `--api-key`.
fn is_vllm(text: &str) -> bool {
    text.contains("vllm")
}

/// Tells whether an argument is the first word of an `Authorization` header that lost its quotes.
fn is_scheme(arg: &str) -> bool {
    ["basic", "bearer", "token"].iter().any(|scheme| arg.eq_ignore_ascii_case(scheme))
}

/// Tells whether an argument says that the next one is a line for a shell or an interpreter.
fn is_line_flag(arg: &str) -> bool {
    let flags = arg.strip_prefix('-').and_then(|flags| flags.strip_suffix('c'));
    flags.is_some_and(|flags| flags.bytes().all(|b| b.is_ascii_alphabetic()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn argv(args: &[&str]) -> String {
        mask_argv(args).join("|")
    }

    #[test]
    fn arguments_are_masked() {
        let cases: &[(&[&str], &str)] = &[
            (&[], ""),
            (&["vllm", "serve", "m", "--port", "8000"], "vllm|serve|m|--port|8000"),
            (&["x", "--api-key", "C", "--port", "1"], "x|--api-key|***|--port|1"),
            (&["x", "--api-key=C D", "y"], "x|--api-key=***|y"),
            (&["x", "--token", "a 'b\" c", "y"], "x|--token|***|y"),
            (&["x", "--hf-token", "C"], "x|--hf-token|***"),
            (&["x", "-token", "C"], "x|-token|***"),
            (&["x", "--password", "--api-key", "C", "d"], "x|--password|***|***|d"),
            (&["x", "--password", "--verbose", "d"], "x|--password|***|d"),
            (&["x", "--password"], "x|--password"),
            (&["x", "--password", ""], "x|--password|"),
            (&["x", "--token", "None", "y"], "x|--token|None|y"),
            (&["curl", "-H", "Authorization: Bearer C D", "u"], "curl|-H|Authorization: ***|u"),
            (&["curl", "-H", "Authorization:", "Bearer", "C", "u"], "curl|-H|Authorization:|***|***|u"),
            (&["curl", "-HAuthorization:Bearer C", "u"], "curl|-HAuthorization:***|u"),
            (&["curl", "-H", "X-Api-Key: C D", "u"], "curl|-H|X-Api-Key: ***|u"),
            (&["env", "HF_TOKEN=C D", "y"], "env|HF_TOKEN=***|y"),
            (&["docker", "run", "-e", "PASSWORD=C", "-eA_KEY=C", "img"], "docker|run|-e|PASSWORD=***|-eA_KEY=***|img"),
            (&["x", "https://user:C@host/p"], "x|https://***@host/p"),
            (&["x", "hf_CCCCCCCCCCCC", "sk-CCCC"], "x|***|***"),
            (&["sh", "-c", "A_KEY=C vllm serve --api-key 'C D' m"], "sh|-c|A_KEY=*** vllm serve --api-key *** ***"),
            (&["sh", "-c", "A_KEY=C llama --api-key 'C D' -m m"], "sh|-c|A_KEY=*** llama --api-key *** -m m"),
            (&["bash", "-lc", "A_KEY=C x"], "bash|-lc|A_KEY=*** x"),
            (&["ssh", "h", "x --token", "C"], "ssh|h|x --token|***"),
            (&["x", "{\"api_key\": \"C D\", \"n\": 1}"], "x|{\"api_key\": ***, \"n\": 1}"),
            (&["vllm", "serve", "--api-key", "C", "D", "--port", "1"], "vllm|serve|--api-key|***|***|--port|1"),
            (&["aider", "--api-key", "C", "file.py"], "aider|--api-key|***|file.py"),
        ];
        for (args, expected) in cases {
            assert_eq!(argv(args), *expected, "{args:?}");
        }
    }

    #[test]
    fn text_is_masked() {
        let cases = [
            ("", ""),
            ("x --api-key C --port 1", "x --api-key *** --port 1"),
            // A path that something is said of; whatever else ends like one is a name.
            ("/etc/passwd: Permission denied", "/etc/passwd: Permission denied"),
            ("sh: 1: '/a/db_password: not found", "sh: 1: '/a/db_password: not found"),
            ("(~/.passwd: x) ./my.secret_key: y ../a/API_KEY: z", "(~/.passwd: x) ./my.secret_key: y ../a/API_KEY: z"),
            ("/etc/passwd:", "/etc/passwd:"),
            ("/etc/passwd:C", "/etc/passwd:***"),
            ("/etc/password=C", "/etc/password=***"),
            ("--x=/etc/password: C", "--x=/etc/password: ***"),
            ("db/password: C", "db/password: ***"),
            ("https://h/password: C", "https://h/password: ***"),
            ("/a/ password: C", "/a/ password: ***"),
            ("password: C", "password: ***"),
            ("/a/authorization: Bearer C", "/a/authorization: ***"),
            ("x --api-key=C --port 1", "x --api-key=*** --port 1"),
            ("x --token 'C D' y", "x --token *** y"),
            ("x --token=\"C \\\" D\" y", "x --token=*** y"),
            ("x --token C\\ D y", "x --token *** y"),
            ("x --token 'C'\"D E\" y", "x --token *** y"),
            ("x --token \\\n  C y", "x --token \\\n  *** y"),
            ("x --token \"C D", "x --token ***"),
            ("x --token\ny", "x --token\ny"),
            ("x --token", "x --token"),
            ("bash -c 'x --token C' y", "bash -c 'x --token ***' y"),
            ("bash -c \"x --token 'C D'\" y", "bash -c \"x --token ***\" y"),
            ("bash -c \"x --token \\\"C D\\\" y\" z", "bash -c \"x --token *** y\" z"),
            ("bash -c 'x --token '\\''C D'\\'' y' z", "bash -c 'x --token *** y' z"),
            ("bash -c 'x --token '\"'\"'C D'\"'\"' y' z", "bash -c 'x --token *** y' z"),
            ("bash -c 'x --token '\"C D\"' y' z", "bash -c 'x --token *** y' z"),
            ("curl -H \"Authorization: Bearer C\" u", "curl -H \"Authorization: ***\" u"),
            ("curl -H 'Authorization: Odd C D' u", "curl -H 'Authorization: ***' u"),
            ("curl -H Authorization: Bearer C u", "curl -H Authorization: *** u"),
            ("sh -c \"curl -H \\\"Authorization: Bearer C\\\" u\"", "sh -c \"curl -H \\\"Authorization: ***\\\" u\""),
            ("{\"Authorization\": \"Bearer C\", \"n\": 1}", "{\"Authorization\": ***, \"n\": 1}"),
            ("got Bearer abcdefgh1 back", "got Bearer *** back"),
            ("HF_TOKEN=C vllm serve m", "HF_TOKEN=*** vllm serve m"),
            ("export MY_SECRET=\"C D\"; x", "export MY_SECRET=***; x"),
            ("PASSWORD='C' x && A_KEY=C y", "PASSWORD=*** x && A_KEY=*** y"),
            ("API_KEY= x", "API_KEY= x"),
            ("api_key = \"C\"", "api_key = ***"),
            ("$(x --token C) z", "$(x --token ***) z"),
            ("`x --token C` z", "`x --token ***` z"),
            ("git clone https://user:C@host/p.git", "git clone https://***@host/p.git"),
            ("git clone https://C@host/p.git", "git clone https://***@host/p.git"),
            ("postgres://u:C@h:5432/db?x=a@b", "postgres://***@h:5432/db?x=a@b"),
            ("git clone ssh://git@host:22/p", "git clone ssh://git@host:22/p"),
            ("http://host:8080/a@b", "http://host:8080/a@b"),
            ("GET /v1?api_key=C HTTP/1.1", "GET /v1?api_key=*** HTTP/1.1"),
            ("non-default args: {'api_key': ['C', 'D'], 'port': 1}", "non-default args: {'api_key': ***, 'port': 1}"),
            ("Namespace(hf_token=None, api_key='C', port=1)", "Namespace(hf_token=None, api_key=***, port=1)"),
            ("key hf_CCCCCCCCCCCC, or sk-proj-C_C.", "key ***, or ***"),
            ("vllm serve m --api-key C D --port 1", "vllm serve m --api-key *** *** --port 1"),
        ];
        for (text, expected) in cases {
            assert_eq!(mask_text(text), expected, "{text}");
        }
    }

    #[test]
    fn prose_is_left_alone() {
        let prose = [
            "the tokenizer has 5 tokens; don't --max-tokens 5",
            "--tokenizer-mode auto --api-key-file ~/key --eos-token 2 --ssl-keyfile k.pem",
            "unexpected token: `}` at line 3",
            "convert_hf_to_gguf.py, hf_hub_download, HF_HUB_ENABLE_HF_TRANSFER=1, hf_transfer",
            "PATH=/bin OLDPWD=/x MAX_TOKENS=5 sort_key=lambda",
            "api_key::new(token == other)",
            "a bearer of news; the Bearer token",
            "see https://example.org/a?b=c and user@host:path",
            "ünïcödé 'quotes\" and \\ backslashes",
        ];
        for text in prose {
            assert!(matches!(mask_text(text), Cow::Borrowed(_)), "{} -> {}", text, mask_text(text));
        }
    }

    #[test]
    fn a_command_line_is_valid_utf8() {
        let line = |args: &[&[u8]]| command_line(&args.iter().map(|arg| arg.to_vec()).collect::<Vec<_>>());
        assert_eq!(line(&[]), (String::new(), None));
        assert_eq!(line(&[b"a", b"", b"c d"]), ("a  c d".into(), None));
        assert_eq!(line(&[b"a\xff", b"c"]), ("a\u{fffd} c".into(), Some(b"a\xff c".to_vec())));
        assert_eq!(line(&[b"a\xff", b"--token", b"C"]), ("a\u{fffd} --token ***".into(), None));
        assert_eq!(line(&[b"--token", b"C\xff"]), ("--token ***".into(), None));
        assert_eq!(line(&[b"a", b"\xef\xbf\xbd"]), ("a \u{fffd}".into(), None));
    }

    #[test]
    fn hostile_text_takes_linear_time() {
        for piece in [
            "--token=[ ",
            "--token=\"",
            "\\",
            "'\\''",
            "https://",
            "a:b@",
            "sk-",
            "--token \\",
            "\\\"",
            "\"'`",
            "/passwd:",
        ] {
            let text = piece.repeat(200_000 / piece.len());
            let start = std::time::Instant::now();
            drop(mask_text(&text));
            assert!(start.elapsed().as_secs() < 5, "{piece:?} took {:?}", start.elapsed());
        }
    }

    /// Every way in which rule 13 says that a secret is written, with `§` for the secret.
    const FORMS: &[&str] = &[
        "--api-key §",
        "cd /etc/passwd; password: §",
        "/etc/passwd: password: §",
        "/etc/passwd: --password §",
        "--api-key=§",
        "--token §",
        "--token=§",
        "--hf-token §",
        "--password §",
        "-H \"Authorization: Bearer §\"",
        "-H 'Authorization: Bearer §'",
        "-H 'X-Api-Key: §'",
        "NAME_TOKEN=§",
        "ANY_KEY=§",
        "ANY_SECRET=§",
        "PASSWORD=§",
        "export HF_TOKEN='§'",
        "https://user:§@host/path",
        "hf_§",
        "sk-§",
        "{\"api_key\":\"§\"}",
    ];

    proptest! {
        #[test]
        fn a_canary_never_survives(
            canary in "[A-Za-z0-9]{16}",
            form in prop::sample::select(FORMS),
            around in prop::sample::select(&["@", "x @ y", "sh -c '@'", "sh -c \"@\"", "a=1; @; b", "(@)", "it's @ --port 1"][..]),
        ) {
            let line = around.replace('@', &form.replace('§', &canary));
            let masked = mask_text(&line);
            prop_assert!(!masked.contains(&canary), "{} -> {}", line, masked);
            prop_assert!(masked.contains(MASK));
            let words: Vec<&str> = line.split(' ').collect();
            prop_assert!(!mask_argv(&["sh", "-c", &line]).concat().contains(&canary), "{}", line);
            prop_assert!(!mask_argv(&[line.as_str()]).concat().contains(&canary), "{}", line);
            prop_assert!(!mask_argv(&words).concat().contains(&canary), "{:?}", words);
        }

        #[test]
        fn masking_twice_is_masking_once(parts in prop::collection::vec(prop::sample::select(&[
            "--token", "--api-key", "vllm", "/passwd: ", "A_KEY=", "=", ":", " ", "\n", "'", "\"", "`", "\\", "x", "secret", "-c", "é",
            "Authorization", "Bearer", "https://", "u", "@", "/", ";", ")", "[", "]", "***", "hf_abcdef", "sk-123", ".", "|",
        ][..]), 0..24)) {
            let text = parts.concat();
            let once = mask_text(&text).into_owned();
            prop_assert_eq!(mask_text(&once).into_owned(), once);
            let argv: Vec<&str> = text.split('|').collect();
            let once = mask_argv(&argv);
            prop_assert_eq!(once.len(), argv.len());
            prop_assert_eq!(mask_argv(&once), once);
        }

        #[test]
        fn any_text_is_survived(text in any::<String>(), bytes in prop::collection::vec(any::<Vec<u8>>(), 0..4)) {
            let once = mask_text(&text).into_owned();
            prop_assert_eq!(mask_text(&once).into_owned(), once);
            let (line, _) = command_line(&bytes);
            prop_assert!(line.len() < 1 << 20);
        }
    }
}
