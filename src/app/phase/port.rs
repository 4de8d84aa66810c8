//! Where a server listens, as far as its command tells: what nobody can read is not what nobody has said.

use super::server::{Server, flag};

/// Where a server listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// On this port: the command names it, or its environment does.
    Named(u16),
    /// On the port that its kind takes where nobody says another.
    Usual,
    /// On a port that is told in a way that cannot be read here, as by a variable of a shell, or left to the system.
    Unread,
    /// On none, but on a socket in the file system.
    Nowhere,
}

/// What stands for the value of a variable that is set to something nobody knows.
pub const HIDDEN: &str = "$";

const OPTIONS: [&str; 2] = ["--port", "--server-port"];
/// What its next word is about is no option, whatever a shell puts there.
const SUBCOMMANDS: [&str; 2] = ["api_server", "serve"];

impl Port {
    /// Reads the port in the words of a server, from its program on; else in its environment.
    pub(super) fn read(server: Server, words: &[String], variable: &dyn Fn(&str) -> Option<String>) -> Self {
        // To llama-server `-p` is the prompt.
        let short = || flag(words, &["-p"]).filter(|_| server != Server::LlamaServer);
        // The option without a value names none.
        let open = || words.last().filter(|word| OPTIONS.contains(&word.as_str())).map(|_| "");
        if let Some(text) = open().or_else(|| flag(words, &OPTIONS)).or_else(short) {
            return text.parse().ok().filter(|port| *port > 0).map_or(Self::Unread, Self::Named);
        }
        if may_hold_options(words) {
            return Self::Unread;
        }
        let value = |name: &str| variable(name).filter(|value| !value.is_empty());
        let set = server.port_variables().iter().find_map(|name| Some(of_variable(name, &value(name)?)));
        set.unwrap_or(Self::Usual)
    }
}

fn of_variable(name: &str, value: &str) -> Port {
    let text = value.trim().trim_end_matches('/');
    let last = text.rsplit(':').next().unwrap_or(text);
    match last.parse::<u16>() {
        Ok(0) => Port::Unread,
        Ok(port) => Port::Named(port),
        // An address without a port.
        Err(_) if name == "OLLAMA_HOST" && !is_expanded(text) => Port::Usual,
        Err(_) => Port::Unread,
    }
}

/// Tells whether llama-server takes a host for the name of a socket (`tools/server/server-http.cpp`).
pub(super) fn is_socket(host: &str) -> bool {
    host.strip_suffix(".sock").is_some()
}

/// Tells whether a shell puts something in the place of a word, or of a part of it.
pub(super) fn is_expanded(word: &str) -> bool {
    word.contains(['$', '`'])
}

/// Tells whether a word stands for others that may be options, as in `llama-server $OPTIONS`.
fn may_hold_options(words: &[String]) -> bool {
    words.windows(2).any(|pair| {
        let is_value = pair[0].starts_with('-') || SUBCOMMANDS.contains(&pair[0].as_str());
        pair[1].starts_with(['$', '`']) && !is_value
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::server::recognise;
    use super::*;

    fn check(line: &str, variables: &[(&str, &str)], expected: Port) {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let shell = ["sh", "-c", line].map(str::to_owned);
        assert_eq!(recognise(&shell, &variable, "/work").unwrap().port, expected, "{line}");
    }

    #[test]
    fn a_port_that_cannot_be_read_is_not_the_usual_one() {
        for port in
            ["$PORT", "${PORT:-1}", "${PORT:-$(next 1)}", "$((8080 + 1))", "$(cmd a b)", "`cmd a`", "\"$PORT\"", "0"]
        {
            for line in
                ["llama-server -m x --port P -t 1 >/dev/null 2>&1", "vllm serve x --port=P", "ollama serve -p P"]
            {
                check(&line.replace('P', "\0").replace('\0', port), &[], Port::Unread);
            }
            check(&format!("LLAMA_ARG_PORT={port} llama-server -m x"), &[], Port::Unread);
            check(&format!("export LLAMA_ARG_PORT={port} && exec llama-server -m x"), &[], Port::Unread);
            check(&format!("env OLLAMA_HOST=127.0.0.1:{port} ollama serve"), &[], Port::Unread);
        }
        for line in [
            "llama-server -m x --port",
            "llama-server --port zero -m x",
            "llama-server $OPTIONS",
            "llama-server -m x \"$@\"",
            "llama-server -m x $(cat options)",
            "LLAMA_ARG_PORT=5; llama-server -m x",
            ". ./settings; llama-server -m x",
        ] {
            check(line, &[], Port::Unread);
        }
        check("llama-server -m x", &[("LLAMA_ARG_PORT", HIDDEN)], Port::Unread);
        check("ollama serve", &[("OLLAMA_HOST", HIDDEN)], Port::Unread);
    }

    #[test]
    fn what_is_expanded_elsewhere_hides_no_port() {
        for line in [
            "llama-server -m $MODEL",
            "llama-server -t $(nproc) -m \"$(pwd)/x\"",
            "vllm serve $MODEL",
            ". venv/bin/activate && vllm serve x",
            "source /v/bin/activate; llama-server -m x",
            "export LLAMA_ARG_PORT=5; unset LLAMA_ARG_PORT; llama-server -m x",
        ] {
            check(line, &[], Port::Usual);
        }
        for line in [
            "llama-server -t $(nproc) -m x --port 9",
            "llama-server $OPTIONS --port 9",
            "llama-server -m x > >(tee log) 2>&1 --port 9",
            "export LLAMA_ARG_PORT=9; exec llama-server -m x",
            "env LLAMA_ARG_PORT=9 llama-server -m x",
        ] {
            check(line, &[("LLAMA_ARG_PORT", "7")], Port::Named(9));
        }
        check("unset X; llama-server -m x", &[("LLAMA_ARG_PORT", "7")], Port::Named(7));
    }

    #[test]
    fn a_socket_in_the_file_system_has_no_port() {
        check("llama-server -m x --host /run/l.sock --port 9", &[], Port::Nowhere);
        check("llama-server -m x --host $DIR/l.sock", &[], Port::Nowhere);
        check("llama-server -m x", &[("LLAMA_ARG_HOST", "l.sock")], Port::Nowhere);
        check("vllm serve x --host l.sock", &[], Port::Usual);
    }
}
