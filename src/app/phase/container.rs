//! Clients of container engines: what they start lives elsewhere, and may outlive them.

use super::server::{base, flag};
use super::words::commands;
use super::wrapper::{SHELLS, shell_line, wrapped_line, wraps};

/// A command that starts a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// The program, for example `docker`.
    pub engine: String,
    /// The client, for example `docker run`.
    pub client: String,
    /// TCP ports of this computer that lead into the container, or that its program was told to use.
    pub ports: Vec<u16>,
    /// The name that the command gives it.
    pub name: Option<String>,
}

const ENGINES: [&str; 3] = ["docker", "podman", "nerdctl"];
/// How their elder programs for several containers end.
const COMPOSE: &str = "-compose";

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
    let interprets = SHELLS.contains(&program) || program.starts_with("python");
    if interprets && argv.get(1).is_some_and(|script| script.contains('/') && is_client(script)) {
        return container(&argv[1..]);
    }
    if SHELLS.contains(&program) {
        return line_in(&argv[shell_line(argv)?]);
    }
    if let Some(found) = wrapped_line(argv).and_then(|line| line_in(&line)) {
        return Some(found);
    }
    let at = if wraps(argv) { argv.iter().position(|word| is_client(word))? } else { 0 };
    let engine = base(Some(&argv[at]).filter(|word| is_client(word))?);
    let rest = &argv[at + 1..];
    let mut found = Container { engine: engine.to_owned(), client: String::new(), ports: Vec::new(), name: None };
    let is_verb = |word: &&String| matches!(word.as_str(), "run" | "start" | "compose" | "up");
    let verb = rest.iter().position(|word| is_verb(&word))?;
    let after = &rest[verb + 1..];
    match rest[verb].as_str() {
        "compose" => {
            let verb = after.iter().find(|word| *word != "compose" && is_verb(word))?;
            found.client = format!("{engine} compose {verb}");
            return Some(found);
        }
        verb if engine.ends_with(COMPOSE) => {
            found.client = format!("{engine} {verb}");
            return Some(found);
        }
        "start" => {
            found.client = format!("{engine} start");
            found.name = after.last().filter(|word| !word.starts_with('-')).cloned();
            return Some(found);
        }
        "run" => found.client = format!("{engine} run"),
        _ => return None,
    }
    let mut words = after.iter();
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

fn line_in(line: &str) -> Option<Container> {
    commands(line).iter().find_map(|words| {
        let begin = words.iter().position(|word| !word.contains('='))?;
        container(&words[begin..])
    })
}

fn is_client(word: &str) -> bool {
    let program = base(word);
    ENGINES.contains(&program.strip_suffix(COMPOSE).unwrap_or(program))
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
            client: format!("{engine} run"),
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
    fn other_clients_than_run() {
        let check = |line: &str, client: &str, name: Option<&str>| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let found = container(&words).map(|found| (found.client, found.name));
            assert_eq!(found, Some((client.to_owned(), name.map(str::to_owned))), "{line}");
        };
        check("docker start -a x", "docker start", Some("x"));
        check("podman --root /r start --attach x", "podman start", Some("x"));
        check("docker compose -f a.yml up", "docker compose up", None);
        check("exec docker compose up -d web", "docker compose up", None);
        check("podman compose run web", "podman compose run", None);
        check("docker-compose -f a.yml up", "docker-compose up", None);
        check("/usr/bin/python3 /usr/bin/podman-compose up", "podman-compose up", None);
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
        check("timeout -k 5 100 docker run -p 7:7 i", Some(("docker", &[7], None)));
        check("flock /tmp/l docker run -p 7:7 i", Some(("docker", &[7], None)));
        check("eval docker run -p 7:7 i", Some(("docker", &[7], None)));
        check("sh /opt/bin/docker run -p 7:7 i", Some(("docker", &[7], None)));
        check("docker run -P i start", Some(("docker", &[], None)));
        check("docker ps", None);
        check("docker up", None);
        check("docker compose ps", None);
        check("docker-compose down", None);
        check("sh start.sh docker run", None);
        check("echo docker run", None);
        check("llama-server -p 8080:80", None);
    }
}
