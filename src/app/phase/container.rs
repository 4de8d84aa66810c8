//! Clients of container engines: what they start lives elsewhere, and may outlive them.

use super::server::{SHELLS, WRAPPERS, base, flag, shell_line};
use super::words::commands;

/// A command that starts a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// The client, for example `docker`.
    pub engine: String,
    /// TCP ports of this computer that lead into the container, or that its program was told to use.
    pub ports: Vec<u16>,
    /// The name that the command gives it.
    pub name: Option<String>,
}

const ENGINES: [&str; 3] = ["docker", "podman", "nerdctl"];

/// Options of `run` that take no value; all others take one.
const FLAGS: [&str; 21] = [
    "--detach",
    "--disable-content-trust",
    "--env-host",
    "--help",
    "--http-proxy",
    "--init",
    "--interactive",
    "--no-healthcheck",
    "--no-hosts",
    "--oom-kill-disable",
    "--privileged",
    "--publish-all",
    "--quiet",
    "--read-only",
    "--read-only-tmpfs",
    "--replace",
    "--rm",
    "--rmi",
    "--sig-proxy",
    "--tls-verify",
    "--tty",
];
/// The same, in one letter.
const LETTERS: &str = "ditPq";

/// Returns the container that a command starts; `None` where it starts none.
pub fn container(argv: &[String]) -> Option<Container> {
    let program = base(argv.first()?);
    if SHELLS.contains(&program) {
        return commands(&argv[shell_line(argv)?]).iter().find_map(|words| {
            let begin = words.iter().position(|word| !word.contains('='))?;
            container(&words[begin..])
        });
    }
    let is_engine = |word: &String| ENGINES.contains(&base(word));
    let at = if WRAPPERS.contains(&program) { argv.iter().position(is_engine)? } else { 0 };
    let engine = Some(&argv[at]).filter(|word| is_engine(word))?;
    let rest = &argv[at + 1..];
    let run = rest.iter().position(|word| word == "run")?;
    let mut found = Container { engine: base(engine).to_owned(), ports: Vec::new(), name: None };
    let mut words = rest[run + 1..].iter();
    let mut in_our_network = false;
    // The first word that is no option is the image: what follows is the container's own.
    while let Some(word) = words.next().filter(|word| word.starts_with('-') && word.len() > 1) {
        let (name, value) = match word.strip_prefix("--") {
            Some(_) if FLAGS.contains(&word.as_str()) => continue,
            Some(_) => match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word.as_str(), words.next().map(String::as_str)),
            },
            None => {
                let letters = word[1..].trim_start_matches(|letter| LETTERS.contains(letter));
                let Some(letter) = letters.chars().next() else { continue };
                let value = &letters[letter.len_utf8()..];
                let value = if value.is_empty() { words.next().map(String::as_str) } else { Some(value) };
                (if letter == 'p' { "--publish" } else { "" }, value)
            }
        };
        match (name, value) {
            ("--publish", Some(value)) => found.ports.extend(published(value.trim_start_matches('='))),
            ("--network" | "--net", Some("host")) => in_our_network = true,
            ("--name", Some(value)) => found.name = Some(value.to_owned()),
            _ => {}
        }
    }
    if in_our_network {
        // Nothing is published there: its own port is one of this computer.
        found
            .ports
            .extend(flag(words.as_slice(), &["--port", "--server-port"]).and_then(|port| port.parse::<u16>().ok()));
    }
    Some(found)
}

/// Returns the ports of `8080:80`, `127.0.0.1:8080:80`, `[::1]:8080:80/tcp` or `8000-8002:80-82`. Of a port that the
/// engine is to choose nobody knows.
fn published(value: &str) -> Vec<u16> {
    let (value, protocol) = value.split_once('/').unwrap_or((value, "tcp"));
    let Some((own, _)) = value.rsplit_once(':').filter(|_| protocol == "tcp") else { return Vec::new() };
    let own = own.rsplit(':').next().unwrap_or_default();
    let (first, last) = own.split_once('-').unwrap_or((own, own));
    match (first.parse::<u16>(), last.parse::<u16>()) {
        (Ok(first), Ok(last)) => (first..=last).filter(|port| *port > 0).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<(&str, &[u16], Option<&str>)>) {
        let expected = expected.map(|(engine, ports, name)| Container {
            engine: engine.to_owned(),
            ports: ports.to_vec(),
            name: name.map(str::to_owned),
        });
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        // Only a shell sets variables in this way.
        if !line.starts_with("A=1") {
            assert_eq!(container(&words), expected, "{line}");
        }
        let shell = ["sh", "-c", line].map(str::to_owned);
        assert_eq!(container(&shell), expected, "{line}");
    }

    #[test]
    fn clients_and_their_ports() {
        check("docker run image", Some(("docker", &[], None)));
        check("docker run -p 8080:80 image", Some(("docker", &[8080], None)));
        check("docker container run --rm -it -p 8080:80 --gpus all image -p 9:9", Some(("docker", &[8080], None)));
        check("sudo podman run -d --name x --publish=127.0.0.1:8000:8000/tcp i", Some(("podman", &[8000], Some("x"))));
        check("/usr/bin/docker --context y run -dp 1:2 -p3:4 --name=z i", Some(("docker", &[1, 3], Some("z"))));
        check("docker run -p [::1]:8080:80 -p 53:53/udp -p 80 i", Some(("docker", &[8080], None)));
        check("docker run -p 8000-8002:80-82 -P i", Some(("docker", &[8000, 8001, 8002], None)));
        check("docker run -e P=1 -v /a:/b --shm-size 1g -p 7:7 i --port 8", Some(("docker", &[7], None)));
        check("docker run --network host --name v i serve m --port 8000", Some(("docker", &[8000], Some("v"))));
        check("podman run --net=host i --port=8000 -p 1", Some(("podman", &[8000], None)));
        check("docker run --network bridge i --port 8000", Some(("docker", &[], None)));
        check("A=1 exec docker run -p 7:7 i", Some(("docker", &[7], None)));
        check("docker ps", None);
        check("echo docker run", None);
        check("llama-server -p 8080:80", None);
    }
}
