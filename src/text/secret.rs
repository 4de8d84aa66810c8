//! What counts as a secret: names that announce one, and values that are one by their shape.
//!
//! Called by `mask` only. It decides and changes nothing; where a name is ambiguous it leans
//! towards secret, because a masked word is a nuisance and a shown key is a leak.

/// Words before `token` that make it a token of a language model.
const MODEL_TOKENS: &[&str] = &[
    "audio", "bos", "cls", "end", "eos", "first", "image", "last", "mask", "next", "pad", "per", "sep", "special",
    "start", "stop", "unk", "video",
];

/// Words before `key` that make it a key anybody may see.
const OPEN_KEYS: &[&str] =
    &["cache", "foreign", "group", "partition", "primary", "pub", "public", "row", "sort", "ssl", "tls"];

/// Endings of the last word of a name that announce a secret by themselves.
const SECRET_ENDINGS: &[&str] =
    &["password", "passwd", "passphrase", "secret", "apikey", "authkey", "accesskey", "secretkey", "authorization"];

/// What providers begin their keys with, and how many characters must follow at least.
const VALUE_PREFIXES: &[(&str, usize)] = &[
    ("hf_", 5),
    ("sk-", 3),
    ("sk_live_", 8),
    ("ghp_", 16),
    ("gho_", 16),
    ("ghu_", 16),
    ("ghs_", 16),
    ("ghr_", 16),
    ("github_pat_", 16),
    ("glpat-", 12),
    ("gsk_", 16),
    ("nvapi-", 12),
    ("r8_", 20),
    ("xoxb-", 12),
    ("xoxp-", 12),
    ("AKIA", 16),
    ("AIza", 30),
    ("eyJ", 20),
];

/// What follows `hf_` or `sk-` in ordinary identifiers.
const IDENTIFIER_WORDS: &[&str] = &[
    "api",
    "cache",
    "config",
    "configs",
    "dataset",
    "datasets",
    "download",
    "endpoint",
    "from",
    "inference",
    "home",
    "hub",
    "learn",
    "loader",
    "model",
    "models",
    "overrides",
    "path",
    "processor",
    "quant",
    "quantizer",
    "repo",
    "revision",
    "text",
    "token",
    "tokenizer",
    "to",
    "transfer",
    "transformers",
    "upload",
    "utils",
    "weights",
    "xet",
];

/// How plainly a name announces a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strength {
    /// A single word such as `token`, which prose uses too: `unexpected token: x` hides nothing.
    Bare,
    /// A compound such as `api_key`, or a word such as `password`.
    Plain,
    /// The name of a header whose value has several words.
    Header,
}

/// Returns how plainly the name of an option, a variable, a header or a JSON key announces a
/// secret; `None` where it does not.
pub(super) fn strength(name: &str) -> Option<Strength> {
    if name.starts_with("--no-") {
        return None;
    }
    let words = words(name.trim_matches(['-', '.']));
    let mut ends = words.iter().rev().map(String::as_str);
    let last = ends.next()?;
    let before = ends.next();
    if last.ends_with("authorization") {
        return Some(Strength::Header);
    }
    let secret = match last {
        "token" => before.is_none_or(|word| !MODEL_TOKENS.contains(&word)),
        "key" => before.is_some_and(|word| !OPEN_KEYS.contains(&word)),
        "keys" => before.is_some_and(|word| matches!(word, "api" | "access" | "secret" | "auth")),
        // `--two-pass` and `OLDPWD` are no secrets, `DB_PASS` and `MYSQL_PWD` are.
        "pass" | "pwd" => before.is_some() && !name.contains(|c: char| c.is_ascii_lowercase()),
        "secrets" | "passwords" | "apikeys" => true,
        _ => last.ends_with("token") || SECRET_ENDINGS.iter().any(|ending| last.ends_with(ending)),
    };
    let bare = before.is_none() && matches!(last, "token" | "secret" | "secrets");
    secret.then_some(if bare { Strength::Bare } else { Strength::Plain })
}

/// Tells whether the name announces keys for an API, of which vLLM's option takes several.
pub(super) fn is_api_key(name: &str) -> bool {
    let words = words(name);
    words.iter().rev().map(String::as_str).take(2).eq(["key", "api"])
}

/// Returns where in a run of name characters a key of a known provider begins.
pub(super) fn value_start(run: &str) -> Option<usize> {
    let bytes = run.as_bytes();
    let starts = (0..run.len()).filter(|&at| at == 0 || matches!(bytes[at - 1], b'-' | b'.'));
    starts.into_iter().find(|&at| is_value(&run[at..]))
}

fn is_value(tail: &str) -> bool {
    let Some((rest, least)) =
        VALUE_PREFIXES.iter().find_map(|(prefix, least)| Some((tail.strip_prefix(prefix)?, *least)))
    else {
        return false;
    };
    let word = rest.split(['_', '-', '.']).next().unwrap_or_default();
    let is_identifier = matches!(&tail[..3], "hf_" | "sk-") && IDENTIFIER_WORDS.contains(&word);
    let is_long = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')).nth(least - 1);
    !is_identifier && is_long.is_some()
}

/// Splits `HF_TOKEN`, `--hf-token`, `hf.token` and `hfToken` alike into lower-case words.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for c in name.chars() {
        let splits = matches!(c, '_' | '-' | '.');
        if splits || (after_lower && c.is_ascii_uppercase()) {
            words.push(String::new());
        }
        if let (false, Some(word)) = (splits, words.last_mut()) {
            word.push(c.to_ascii_lowercase());
        }
        after_lower = c.is_ascii_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_announce_secrets() {
        let plain = [
            "HF_TOKEN",
            "HUGGING_FACE_HUB_TOKEN",
            "OPENAI_API_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "CLIENT_SECRET",
            "PASSWORD",
            "PGPASSWORD",
            "DB_PASS",
            "MYSQL_PWD",
            "API_KEYS",
            "VLLM_APIKEY",
            "--api-key",
            "--api_key",
            "--hf-token",
            "--password",
            "-hf-token",
            "apiKey",
            "clientSecret",
            "hfToken",
            "HFToken",
            "x-api-key",
            "auth.token",
            "csrf_token",
        ];
        for name in plain {
            assert_eq!(strength(name), Some(Strength::Plain), "{name}");
        }
        for name in ["token", "TOKEN", "--token", "secret", "SECRET"] {
            assert_eq!(strength(name), Some(Strength::Bare), "{name}");
        }
        for name in ["Authorization", "authorization", "Proxy-Authorization", "-HAuthorization"] {
            assert_eq!(strength(name), Some(Strength::Header), "{name}");
        }
    }

    #[test]
    fn ordinary_names_do_not() {
        let ordinary = [
            "",
            "-",
            "--",
            "KEY",
            "key",
            "PWD",
            "OLDPWD",
            "PATH",
            "tokenizer",
            "TOKENIZERS_PARALLELISM",
            "MAX_TOKENS",
            "--max-tokens",
            "--tokens",
            "--tokenizer",
            "--tokenizer-mode",
            "--api-key-file",
            "--password-file",
            "--password-stdin",
            "--token-path",
            "HF_TOKEN_PATH",
            "--eos-token",
            "stopToken",
            "--ssl-key",
            "--ssl-keyfile",
            "sort_key",
            "--public-key",
            "--keys",
            "monkey",
            "--two-pass",
            "--no-token",
            "secretary",
        ];
        for name in ordinary {
            assert_eq!(strength(name), None, "{name}");
        }
    }

    #[test]
    fn values_are_known_by_their_prefix() {
        let cases = [
            ("hf_abcdefghij", Some(0)),
            ("hf_CANARY_1", Some(0)),
            ("sk-1234", Some(0)),
            ("sk-proj-abc_DEF", Some(0)),
            ("sk-ant-api03-abc", Some(0)),
            ("x-sk-12345678", Some(2)),
            ("ghp_0123456789abcdef", Some(0)),
            ("hf_hub_download", None),
            ("hf_transfer", None),
            ("hf_xet", None),
            ("hf_abc", None),
            ("hf", None),
            ("sk-", None),
            ("sk-SK", None),
            ("sk-learn", None),
            ("task-force", None),
            ("convert_hf_to_gguf.py", None),
            ("ghp_short", None),
        ];
        for (run, expected) in cases {
            assert_eq!(value_start(run), expected, "{run}");
        }
    }
}
