//! Which process listens on which TCP port: the kernel gives inodes (`diag`, else `/proc/net/tcp{,6}` of
//! `proc_net_tcp(5)`), the descriptors of a process give `socket:[inode]`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use super::{Inspector, diag};
use crate::lifecycle::identity::Pid;

/// A listening socket and the process that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listener {
    /// TCP port.
    pub port: u16,
    /// Address.
    pub ip: IpAddr,
    /// Who listens.
    pub pid: Pid,
}

/// The listening TCP sockets of this network namespace at one moment: address by inode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sockets(BTreeMap<u64, SocketAddr>);

impl Sockets {
    /// Reads them; `None` where that cannot be known.
    pub fn read(inspector: &Inspector) -> Option<Self> {
        let Inspector::Procfs(procfs) = inspector else { return None };
        Some(Self(listening(procfs.root())))
    }

    /// Returns those that these processes hold, sorted by port. Processes whose descriptors may not be read have
    /// none here.
    pub fn of(&self, inspector: &Inspector, pids: impl IntoIterator<Item = Pid>) -> Vec<Listener> {
        let Inspector::Procfs(procfs) = inspector else { return Vec::new() };
        if self.0.is_empty() {
            return Vec::new();
        }
        let held =
            pids.into_iter().flat_map(|pid| sockets(procfs.root(), pid).into_iter().map(move |inode| (pid, inode)));
        let listener = |address: &SocketAddr, pid| Listener { port: address.port(), ip: address.ip(), pid };
        let mut found: Vec<Listener> =
            held.filter_map(|(pid, inode)| Some(listener(self.0.get(&inode)?, pid))).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// Returns the listening TCP sockets of these processes, sorted by port; `None` where that cannot
/// be known. Processes whose descriptors may not be read have none here.
pub fn listeners_of(inspector: &Inspector, pids: impl IntoIterator<Item = Pid>) -> Option<Vec<Listener>> {
    Sockets::read(inspector).map(|sockets| sockets.of(inspector, pids))
}

/// Returns the ports of listening sockets, each once, sorted.
pub fn ports_of(listeners: &[Listener]) -> Vec<u16> {
    let ports: BTreeSet<u16> = listeners.iter().map(|listener| listener.port).collect();
    ports.into_iter().collect()
}

/// Who listens on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortOwner {
    /// Nobody, as far as can be seen.
    Nobody,
    /// This process, and perhaps others.
    Process(Pid),
    /// Somebody whom we may not look at.
    Hidden,
}

/// Returns who listens on a TCP port.
pub fn owner_of_port(inspector: &Inspector, port: u16) -> PortOwner {
    owner_at(inspector, port, |_| true)
}

/// Returns who listens on a TCP port at an address that `is_meant`.
pub fn owner_at(inspector: &Inspector, port: u16, is_meant: impl Fn(IpAddr) -> bool) -> PortOwner {
    let Inspector::Procfs(procfs) = inspector else { return PortOwner::Nobody };
    let meant = rows(procfs.root()).into_iter().filter(|row| row.address.port() == port && is_meant(row.address.ip()));
    let inodes: Vec<u64> = meant.map(|row| row.inode).collect();
    if inodes.is_empty() {
        return PortOwner::Nobody;
    }
    let Ok(snapshot) = inspector.scan() else { return PortOwner::Hidden };
    let holds = |pid: &Pid| sockets(procfs.root(), *pid).iter().any(|inode| inodes.contains(inode));
    let mut holders: Vec<Pid> = snapshot.iter().map(|facts| facts.pid).filter(holds).collect();
    holders.sort_unstable();
    holders.first().map_or(PortOwner::Hidden, |pid| PortOwner::Process(*pid))
}

/// Who listens on a port, as a session sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listening {
    /// Nobody can tell: there is no procfs.
    Unknown,
    /// Nobody.
    Nobody,
    /// This process of the session; a connection to the address reaches its socket and no other.
    Own(Pid, SocketAddr),
    /// Somebody else, or the session and somebody else on one address (`SO_REUSEPORT` of socket(7)).
    Other,
}

/// Tells whether one of these processes listens on a port, and where it can be reached.
pub fn listening_on(inspector: &Inspector, port: u16, pids: impl IntoIterator<Item = Pid>) -> Listening {
    let Inspector::Procfs(procfs) = inspector else { return Listening::Unknown };
    let mut open = rows(procfs.root());
    open.retain(|row| row.address.port() == port);
    if open.is_empty() {
        return Listening::Nobody;
    }
    let holds = |pid: Pid| {
        let inodes = sockets(procfs.root(), pid);
        open.iter().find(|row| inodes.contains(&row.inode)).map(|row| (pid, inodes.clone(), row.address))
    };
    let Some((pid, inodes, own)) = pids.into_iter().find_map(holds) else { return Listening::Other };
    let reached = reachable(own);
    // The most specific address wins a connection; equal ones share it.
    let taken = |row: &Row| !inodes.contains(&row.inode) && (row.address == reached || row.address == own);
    if open.iter().any(taken) { Listening::Other } else { Listening::Own(pid, reached) }
}

/// Returns the addresses on which anybody listens on a port; `None` where that cannot be known.
pub fn addresses_on(inspector: &Inspector, port: u16) -> Option<Vec<SocketAddr>> {
    let Inspector::Procfs(procfs) = inspector else { return None };
    Some(rows(procfs.root()).into_iter().map(|row| row.address).filter(|address| address.port() == port).collect())
}

/// Tells whether sockets on these addresses are in each other's way on one port: on the same one, or where one of them is
/// on all of its family (ip(7); on all of IPv6 is on all of IPv4 too, ipv6(7)).
pub fn share(one: IpAddr, other: IpAddr) -> bool {
    let covers = |all: IpAddr, one: IpAddr| all.is_unspecified() && (all.is_ipv6() || one.is_ipv4());
    one == other || covers(one, other) || covers(other, one)
}

/// Returns where a socket is reached from this computer: by loopback, where it listens on all addresses.
pub fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Tells whether a process holds a Unix socket that accepts connections (`__SO_ACCEPTCON` in
/// `/proc/net/unix`).
pub(super) fn listens_on_unix(root: &Path, pid: Pid) -> bool {
    let Ok(text) = fs::read_to_string(root.join("net/unix")) else { return false };
    let accepting = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (*fields.get(3)? == "00010000").then(|| fields.get(6)?.parse::<u64>().ok()).flatten()
    };
    let inodes: Vec<u64> = text.lines().filter_map(accepting).collect();
    sockets(root, pid).iter().any(|inode| inodes.contains(inode))
}

/// Returns the address of every listening socket by inode.
fn listening(root: &Path) -> BTreeMap<u64, SocketAddr> {
    rows(root).into_iter().map(|row| (row.inode, row.address)).collect()
}

/// A listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    inode: u64,
    address: SocketAddr,
}

fn rows(root: &Path) -> Vec<Row> {
    // Another root is a made-up one, of which the kernel knows nothing.
    if root == Path::new("/proc")
        && let Ok(all) = diag::listening()
    {
        return all.into_iter().map(|(inode, address)| Row { inode, address }).collect();
    }
    let mut found = Vec::new();
    for file in ["net/tcp", "net/tcp6"] {
        let Ok(text) = fs::read_to_string(root.join(file)) else { continue };
        found.extend(text.lines().skip(1).filter_map(parse_row));
    }
    found
}

/// Parses one row; `None` unless the socket listens (state `0A`).
fn parse_row(line: &str) -> Option<Row> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    if *fields.get(3)? != "0A" {
        return None;
    }
    let (ip, port) = fields.get(1)?.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    Some(Row { inode: fields.get(9)?.parse().ok()?, address: SocketAddr::new(parse_ip(ip)?, port) })
}

/// Parses an address as the kernel prints it: words of 32 bits in hexadecimal, each in the order of the host.
fn parse_ip(text: &str) -> Option<IpAddr> {
    let mut bytes = [0_u8; 16];
    let words = text.len() / 8;
    // (A number with a sign is one for `from_str_radix`.)
    if !text.bytes().all(|b| b.is_ascii_hexdigit()) || !text.len().is_multiple_of(8) || words > 4 {
        return None;
    }
    for word in 0..words {
        let value = u32::from_str_radix(text.get(word * 8..word * 8 + 8)?, 16).ok()?;
        bytes[word * 4..word * 4 + 4].copy_from_slice(&value.to_ne_bytes());
    }
    match words {
        1 => Some(IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]))),
        4 => Some(IpAddr::V6(Ipv6Addr::from(bytes))),
        _ => None,
    }
}

fn sockets(root: &Path, pid: Pid) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(root.join(format!("{pid}/fd"))) else { return Vec::new() };
    let inode = |entry: fs::DirEntry| {
        let link = fs::read_link(entry.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    entries.flatten().filter_map(inode).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use crate::text::noise::{cases, damaged};

    use super::*;

    #[test]
    fn only_listening_rows_count() {
        let row = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0";
        let address = "127.0.0.1:8080".parse().unwrap();
        assert_eq!(parse_row(row), Some(Row { inode: 4711, address }));
        let six = row.replace("0100007F", "00000000000000000000000001000000");
        assert_eq!(parse_row(&six).map(|row| row.address), Some("[::1]:8080".parse().unwrap()));
        assert_eq!(parse_row(&row.replace("0100007F", "0100")), None);
        assert_eq!(parse_row(&row.replace(" 0A ", " 01 ")), None);
        assert_eq!(parse_row("  sl  local_address"), None);
    }

    #[test]
    fn our_own_listener_is_found_and_is_ours() {
        let inspector = Inspector::open(None).unwrap();
        let me = Pid::new(i32::try_from(std::process::id()).unwrap()).unwrap();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(socket) = std::net::TcpListener::bind(address) else { continue };
            let (port, ip) = (socket.local_addr().unwrap().port(), socket.local_addr().unwrap().ip());
            assert!(listeners_of(&inspector, [me]).unwrap().contains(&Listener { port, ip, pid: me }));
            assert_eq!(owner_of_port(&inspector, port), PortOwner::Process(me));
            assert_eq!(addresses_on(&inspector, port), Some(vec![socket.local_addr().unwrap()]));
            assert_eq!(listening_on(&inspector, port, [me]), Listening::Own(me, socket.local_addr().unwrap()));
            // Whoever does not hold it is not taken for its holder.
            assert_eq!(listening_on(&inspector, port, [Pid::new(1).unwrap()]), Listening::Other);
            drop(socket);
            assert_eq!(owner_of_port(&inspector, port), PortOwner::Nobody);
            assert_eq!(listening_on(&inspector, port, [me]), Listening::Nobody);
        }
        assert_eq!(listening_on(&Inspector::None, 1, [me]), Listening::Unknown);
    }

    #[test]
    fn sockets_are_in_the_way_of_each_other_or_not() {
        for (one, other, expected) in [
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("127.0.0.1", "::1", false),
            ("127.0.0.1", "0.0.0.0", true),
            ("127.0.0.1", "::", true),
            ("::1", "::", true),
            ("::1", "0.0.0.0", false),
            ("::", "0.0.0.0", true),
        ] {
            let (a, b) = (one.parse().unwrap(), other.parse().unwrap());
            assert_eq!((share(a, b), share(b, a)), (expected, expected), "{one} {other}");
        }
    }

    #[test]
    fn both_ways_to_ask_agree() {
        let own = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let socket = std::net::TcpListener::bind(own).unwrap();
        let inode = |rows: Vec<Row>| rows.iter().find(|row| row.address == own).map(|row| row.inode);
        // The same directory by another name.
        let read = inode(rows(Path::new("/proc/self/..")));
        assert!(read.is_some());
        assert_eq!(inode(rows(Path::new("/proc"))), read);
        drop(socket);
    }

    #[test]
    fn a_socket_on_all_addresses_is_reached_by_loopback() {
        let check = |own: &str, expected: &str| assert_eq!(reachable(own.parse().unwrap()), expected.parse().unwrap());
        check("0.0.0.0:8080", "127.0.0.1:8080");
        check("[::]:8080", "[::1]:8080");
        check("192.0.2.1:8080", "192.0.2.1:8080");
    }

    fn row(address: SocketAddr, state: &str, inode: u64) -> String {
        let word = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        let ip: String = match address.ip() {
            IpAddr::V4(ip) => word(ip.octets()),
            IpAddr::V6(ip) => ip.octets().chunks(4).map(|part| word(part.try_into().unwrap())).collect(),
        };
        let port = address.port();
        format!(
            "   0: {ip}:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0        0 {inode} 1 0"
        )
    }

    proptest! {
        #![proptest_config(cases(300))]

        #[test]
        fn any_listening_row_comes_back(ip in any::<IpAddr>(), port in any::<u16>(), inode in any::<u64>(), state in 0_u8..16) {
            let address = SocketAddr::new(ip, port);
            let read = parse_row(&row(address, &format!("{state:02X}"), inode));
            prop_assert_eq!(read, (state == 10).then_some(Row { inode, address }));
        }

        #[test]
        fn any_line_is_a_row_or_none(
            bytes in damaged(row("127.0.0.1:8080".parse().unwrap(), "0A", 4711).into_bytes()),
            ip in "[0-9A-Fa-fé+ ]{0,40}",
        ) {
            let _any = parse_row(&String::from_utf8_lossy(&bytes));
            prop_assert!(parse_ip(&ip).is_none_or(|_| ip.bytes().all(|b| b.is_ascii_hexdigit())), "{:?}", ip);
        }
    }
}
