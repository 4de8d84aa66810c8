//! Asks a server whether it is ready. It is asked only where it is the session's own: the listening socket
//! must belong to one of its members.

use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use crate::app::phase::{Probe, Probed, server_like};
use crate::lifecycle::authority::verify;
use crate::lifecycle::identity::{Identity, Pid};
use crate::lifecycle::inspect::{Inspector, Listening, PortOwner, listeners_of, listening_on, owner_of_port};
use crate::lifecycle::verdict::VerdictKind;
use crate::text;

/// How long an answer may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// Longest command line in a message, in columns.
const SHOWN: usize = 80;

/// What is asked, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// The port that it is expected on.
    pub(super) port: Option<u16>,
    /// It is on that port or nowhere: somebody has said so.
    pub(super) fixed: bool,
    pub(super) ask: Ask,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// As is known of the server; where nothing is, as is known of whoever turns out to listen.
    Known(Probe),
    /// A socket that listens is enough: the recipe says so.
    Socket,
    /// GET on this path answers with a success.
    Path(String),
    /// GET on this URL of another computer answers with a success.
    Elsewhere(String),
}

impl Question {
    /// Returns the question that a recipe's URL stands for.
    pub(super) fn of_url(url: &str) -> Self {
        let rest = url.strip_prefix("http://").unwrap_or(url);
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse().ok()),
            Some(_) | None => (authority, None),
        };
        if !is_local(host) {
            return Self { port: None, fixed: true, ask: Ask::Elsewhere(url.to_owned()) };
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Self { port: Some(port.unwrap_or(80)), fixed: true, ask: Ask::Path(path) }
    }
}

/// Tells whether a host is this computer.
fn is_local(host: &str) -> bool {
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(ip) = plain.parse::<IpAddr>() {
        // Only an address of one's own can be bound.
        return ip.is_loopback() || ip.is_unspecified() || UdpSocket::bind((ip, 0)).is_ok();
    }
    let own = rustix::system::uname();
    plain.eq_ignore_ascii_case("localhost") || own.nodename().to_str().is_ok_and(|own| own == plain)
}

/// Asks once; takes [`PATIENCE`] at most. Also returns the port that the session itself listens on.
pub(super) fn ask(inspector: &Inspector, question: &Question, members: &[Identity]) -> (Probed, Option<u16>) {
    if let Ask::Elsewhere(url) = &question.ask {
        return (answer(get(url), true), None);
    }
    let pids = || members.iter().map(|member| member.pid);
    let mut found = question.port.map(|port| (port, listening_on(inspector, port, pids())));
    if !question.fixed && !matches!(found, Some((_, Listening::Own(..) | Listening::Unknown))) {
        // It was told its port in a way that we do not read, for example by a file.
        let own = listeners_of(inspector, pids()).and_then(|all| all.first().map(|listener| listener.port));
        found = own.map(|port| (port, listening_on(inspector, port, pids()))).or(found);
    }
    match found {
        None | Some((_, Listening::Nobody)) => (Probed::Closed, None),
        Some((port, Listening::Other)) => (Probed::Elsewhere(in_use(inspector, port)), None),
        Some((port, Listening::Unknown)) => {
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            let open = TcpStream::connect_timeout(&address, PATIENCE).is_ok();
            let answers = open && matches!(at(&question.ask, address), Probed::Ready);
            (if answers { Probed::Unverified } else { Probed::Closed }, None)
        }
        Some((port, Listening::Own(pid, address))) => {
            let holder = members.iter().find(|member| member.pid == pid);
            // Its number may have gone to somebody else since it was sampled.
            if holder.is_none_or(|holder| verify(holder, inspector).kind != VerdictKind::Owned) {
                return (Probed::Closed, None);
            }
            (at(&as_listens(inspector, &question.ask, pid), address), Some(port))
        }
    }
}

/// Tells whether whoever listens on an address answers there as a server that is ready does.
pub(super) fn serves(probe: Probe, address: SocketAddr) -> bool {
    match probe {
        Probe::Tcp => false,
        Probe::Http(path) => answer(get(&format!("http://{address}{path}")), true) == Probed::Ready,
    }
}

/// Returns how whoever listens is asked. A command that we do not see through may have started a server whose ways are
/// known, and that listens long before it is ready.
fn as_listens(inspector: &Inspector, ask: &Ask, pid: Pid) -> Ask {
    if *ask != Ask::Known(Probe::Tcp) {
        return ask.clone();
    }
    let words = inspector.argv(pid);
    let argv: Vec<String> = words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    Ask::Known(server_like(&argv).probe())
}

fn at(ask: &Ask, address: SocketAddr) -> Probed {
    match ask {
        // A socket that listens accepts connections: the kernel makes them.
        Ask::Known(Probe::Tcp) | Ask::Socket => Probed::Ready,
        Ask::Known(Probe::Http(path)) => answer(get(&format!("http://{address}{path}")), false),
        Ask::Path(path) => answer(get(&format!("http://{address}{path}")), true),
        Ask::Elsewhere(url) => answer(get(url), true),
    }
}

/// What a GET came to.
#[derive(Clone, Copy)]
pub(super) enum Got {
    Status(u16),
    Refused,
    Nothing,
}

/// Judges an answer. What is known of a server is its path: one that wants a key, or has no such path, serves;
/// only 5xx says that it does not yet. A recipe's own URL must answer with a success.
pub(super) fn answer(got: Got, strict: bool) -> Probed {
    match got {
        Got::Status(200..=299) => Probed::Ready,
        Got::Status(..500) if !strict => Probed::Ready,
        Got::Status(_) => Probed::Busy,
        Got::Refused => Probed::Closed,
        Got::Nothing => Probed::Silent,
    }
}

/// Makes one request: no proxy, no redirect, no connection kept, and the body is not read.
fn get(url: &str) -> Got {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_idle_connections(0)
        .proxy(None)
        .user_agent(concat!("cookbook-tui/", env!("CARGO_PKG_VERSION")))
        .build();
    let answer = ureq::Agent::new_with_config(config).get(url).header("connection", "close").call();
    match answer {
        Ok(answer) => Got::Status(answer.status().as_u16()),
        Err(ureq::Error::Timeout(_)) => Got::Nothing,
        Err(_) => Got::Refused,
    }
}

/// Returns `port N is in use by process P (command)`.
fn in_use(inspector: &Inspector, port: u16) -> String {
    match holder(inspector, port) {
        Some(who) => format!("port {port} is in use by {who}"),
        None => format!("port {port} was in use by somebody else"),
    }
}

/// Returns who listens on a port, in words; `None` where that is nobody.
pub(super) fn holder(inspector: &Inspector, port: u16) -> Option<String> {
    in_words(inspector, owner_of_port(inspector, port))
}

/// Returns who that is; `None` where it is nobody.
pub(super) fn in_words(inspector: &Inspector, owner: PortOwner) -> Option<String> {
    match owner {
        PortOwner::Nobody => None,
        PortOwner::Process(pid) => {
            let (command, _) = text::command_line(&inspector.argv(pid));
            Some(format!("process {pid} ({})", text::shorten(&text::escape(&command), SHOWN)))
        }
        PortOwner::Hidden => Some("a process that cannot be looked at".into()),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;
    use crate::lifecycle::authority::{Pin, Pinned};
    use crate::lifecycle::identity::Pid;

    #[test]
    fn urls_become_questions() {
        let check = |url: &str, port: Option<u16>, ask: Ask| {
            assert_eq!(Question::of_url(url), Question { port, fixed: true, ask }, "{url}");
        };
        check("http://127.0.0.1:8080/health", Some(8080), Ask::Path("/health".into()));
        check("http://localhost:8080", Some(8080), Ask::Path("/".into()));
        check("http://[::1]:8080/a?b", Some(8080), Ask::Path("/a?b".into()));
        check("http://0.0.0.0/x", Some(80), Ask::Path("/x".into()));
        let away = "http://203.0.113.9:8080/health";
        check(away, None, Ask::Elsewhere(away.into()));
        let named = "http://gpu.example:8080/health";
        check(named, None, Ask::Elsewhere(named.into()));
    }

    #[test]
    fn answers_are_judged() {
        let check = |status, strict, expected: Probed| {
            assert_eq!(answer(Got::Status(status), strict), expected, "{status} {strict}");
        };
        for strict in [false, true] {
            check(200, strict, Probed::Ready);
            check(204, strict, Probed::Ready);
            check(503, strict, Probed::Busy);
            check(500, strict, Probed::Busy);
        }
        check(401, false, Probed::Ready);
        check(404, false, Probed::Ready);
        check(401, true, Probed::Busy);
        check(302, true, Probed::Busy);
        assert_eq!(answer(Got::Refused, false), Probed::Closed);
        assert_eq!(answer(Got::Nothing, false), Probed::Silent);
    }

    /// Answers every connection with the bytes, or lets it wait.
    fn serve(address: &str, reply: Option<&'static str>) -> Option<u16> {
        let listener = TcpListener::bind(address).ok()?;
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let mut kept = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                match reply {
                    Some(reply) => {
                        let mut request = [0; 1024];
                        let read = stream.read(&mut request).unwrap();
                        assert!(request[..read].starts_with(b"GET /health HTTP/1.1\r\n"));
                        stream.write_all(reply.as_bytes()).unwrap();
                    }
                    None => kept.push(stream),
                }
            }
        });
        Some(port)
    }

    fn me(inspector: &Inspector) -> Identity {
        let pid = Pid::new(i32::try_from(std::process::id()).unwrap()).unwrap();
        match Pinned::open(inspector, pid) {
            Pin::Held(pinned) => pinned.identity().clone(),
            Pin::Gone | Pin::Unreadable(_) => unreachable!("we are here"),
        }
    }

    #[test]
    fn only_the_sessions_own_server_is_asked() {
        let inspector = Inspector::open(None).unwrap();
        let me = me(&inspector);
        let question = |port| Question { port: Some(port), fixed: true, ask: Ask::Known(Probe::Http("/health")) };
        let check = |port, expected: Probed, own| {
            assert_eq!(ask(&inspector, &question(port), std::slice::from_ref(&me)), (expected, own));
        };
        let ready = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
            let Some(port) = serve(address, Some(ready)) else { continue };
            check(port, Probed::Ready, Some(port));
            // To a session that does not hold the socket it is somebody else's, whatever it answers.
            let (other, own) = ask(&inspector, &question(port), &[]);
            assert!(matches!(&other, Probed::Elsewhere(who) if who.contains("is in use by process")), "{other:?}");
            assert_eq!(own, None);
        }
        let busy = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
        let port = serve("127.0.0.1:0", Some(busy)).unwrap();
        check(port, Probed::Busy, Some(port));
        let port = serve("127.0.0.1:0", None).unwrap();
        check(port, Probed::Silent, Some(port));
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        check(closed, Probed::Closed, None);
    }
}
