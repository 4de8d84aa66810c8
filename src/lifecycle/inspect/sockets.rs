//! Which process listens on which TCP port: `/proc/net/tcp{,6}` gives inodes (`proc_net_tcp(5)`), the
//! descriptors of a process give `socket:[inode]`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::Inspector;
use crate::lifecycle::identity::Pid;

/// A port and the process that holds its listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listener {
    /// TCP port.
    pub port: u16,
    /// Who listens.
    pub pid: Pid,
}

/// Returns the listening TCP sockets of these processes, sorted by port; `None` where that cannot
/// be known. Processes whose descriptors may not be read have none here.
pub fn listeners_of(inspector: &Inspector, pids: impl IntoIterator<Item = Pid>) -> Option<Vec<Listener>> {
    let Inspector::Procfs(procfs) = inspector else { return None };
    let held: Vec<(Pid, u64)> = pids
        .into_iter()
        .flat_map(|pid| sockets(procfs.root(), pid).into_iter().map(move |inode| (pid, inode)))
        .collect();
    if held.is_empty() {
        return Some(Vec::new());
    }
    let ports = listening(procfs.root());
    let mut found: Vec<Listener> =
        held.into_iter().filter_map(|(pid, inode)| Some(Listener { port: *ports.get(&inode)?, pid })).collect();
    found.sort_unstable();
    found.dedup();
    Some(found)
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
    let Inspector::Procfs(procfs) = inspector else { return PortOwner::Nobody };
    let inodes: Vec<u64> = listening(procfs.root()).into_iter().filter(|(_, p)| *p == port).map(|(i, _)| i).collect();
    if inodes.is_empty() {
        return PortOwner::Nobody;
    }
    let Ok(snapshot) = inspector.scan() else { return PortOwner::Hidden };
    let holds = |pid: &Pid| sockets(procfs.root(), *pid).iter().any(|inode| inodes.contains(inode));
    let mut holders: Vec<Pid> = snapshot.iter().map(|facts| facts.pid).filter(holds).collect();
    holders.sort_unstable();
    holders.first().map_or(PortOwner::Hidden, |pid| PortOwner::Process(*pid))
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

/// Returns the port of every listening socket by inode.
fn listening(root: &Path) -> BTreeMap<u64, u16> {
    let mut found = BTreeMap::new();
    for file in ["net/tcp", "net/tcp6"] {
        let Ok(text) = fs::read_to_string(root.join(file)) else { continue };
        found.extend(text.lines().skip(1).filter_map(parse_row));
    }
    found
}

/// Parses one row; `None` unless the socket listens (state `0A`).
fn parse_row(line: &str) -> Option<(u64, u16)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    if *fields.get(3)? != "0A" {
        return None;
    }
    let port = u16::from_str_radix(fields.get(1)?.rsplit(':').next()?, 16).ok()?;
    Some((fields.get(9)?.parse().ok()?, port))
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
    use super::*;

    #[test]
    fn only_listening_rows_count() {
        let row = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0";
        assert_eq!(parse_row(row), Some((4711, 8080)));
        assert_eq!(parse_row(&row.replace(" 0A ", " 01 ")), None);
        assert_eq!(parse_row("  sl  local_address"), None);
    }

    #[test]
    fn our_own_listener_is_found_and_is_ours() {
        let inspector = Inspector::open(None).unwrap();
        let me = Pid::new(i32::try_from(std::process::id()).unwrap()).unwrap();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(socket) = std::net::TcpListener::bind(address) else { continue };
            let port = socket.local_addr().unwrap().port();
            assert!(listeners_of(&inspector, [me]).unwrap().contains(&Listener { port, pid: me }));
            assert_eq!(owner_of_port(&inspector, port), PortOwner::Process(me));
            drop(socket);
            assert_eq!(owner_of_port(&inspector, port), PortOwner::Nobody);
        }
    }
}
