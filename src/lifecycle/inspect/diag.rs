//! The listening TCP sockets of this network namespace, asked of the kernel by `sock_diag(7)`.
//!
//! It answers in microseconds. `/proc/net/tcp` has the same rows, but takes milliseconds: the kernel walks its
//! whole table of connections for every read.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// `SOCK_DIAG_BY_FAMILY`, `NLM_F_REQUEST | NLM_F_DUMP`, `NLMSG_ERROR`, `NLMSG_DONE`; `linux/sock_diag.h`,
/// `linux/netlink.h`.
const BY_FAMILY: u16 = 20;
const DUMP: u16 = 0x301;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const HEADER: usize = 16;
/// Size of `inet_diag_req_v2`, and where what is read stands in `inet_diag_msg`; `linux/inet_diag.h`.
const REQUEST: usize = 56;
const PORT: usize = 4;
const ADDRESS: usize = 8;
const INODE: usize = 68;
const IPPROTO_TCP: u8 = 6;
/// `1 << TCP_LISTEN`.
const LISTENING: u32 = 1 << 10;

/// Returns inode and address of every listening TCP socket.
///
/// # Errors
/// When the kernel does not answer such questions, or not to us.
pub(super) fn listening() -> io::Result<Vec<(u64, SocketAddr)>> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?;
    let mut found = Vec::new();
    let mut bytes = vec![0; 32 << 10];
    for family in [AddressFamily::INET, AddressFamily::INET6] {
        send(&socket, &request(family), SendFlags::empty())?;
        loop {
            let (length, _) = recv(&socket, &mut bytes[..], RecvFlags::empty())?;
            if read(&bytes[..length], &mut found)? {
                break;
            }
        }
    }
    Ok(found)
}

fn request(family: AddressFamily) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + REQUEST);
    bytes.extend(u32::try_from(HEADER + REQUEST).unwrap_or_default().to_ne_bytes());
    bytes.extend([BY_FAMILY.to_ne_bytes(), DUMP.to_ne_bytes()].concat());
    // Sequence and sender: there is one question at a time.
    bytes.extend([0; 8]);
    bytes.extend([u8::try_from(family.as_raw()).unwrap_or_default(), IPPROTO_TCP, 0, 0]);
    bytes.extend(LISTENING.to_ne_bytes());
    bytes.resize(HEADER + REQUEST, 0);
    bytes
}

/// Reads the messages of one answer; tells whether the last one was among them.
fn read(mut bytes: &[u8], found: &mut Vec<(u64, SocketAddr)>) -> io::Result<bool> {
    while bytes.len() >= HEADER {
        let length = number(bytes, 0).and_then(|length| usize::try_from(length).ok());
        let length = length.filter(|length| (HEADER..=bytes.len()).contains(length));
        let Some(length) = length else { return Err(io::ErrorKind::InvalidData.into()) };
        match u16::from_ne_bytes([bytes[4], bytes[5]]) {
            DONE => return Ok(true),
            ERROR => return Err(io::ErrorKind::Unsupported.into()),
            _ => found.extend(parse(&bytes[HEADER..length])),
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

fn parse(message: &[u8]) -> Option<(u64, SocketAddr)> {
    let inode = u64::from(number(message, INODE)?);
    let port = u16::from_be_bytes([message[PORT], message[PORT + 1]]);
    let address: [u8; 16] = message.get(ADDRESS..ADDRESS + 16)?.try_into().ok()?;
    let ip = if AddressFamily::from_raw(u16::from(message[0])) == AddressFamily::INET {
        IpAddr::V4(Ipv4Addr::new(address[0], address[1], address[2], address[3]))
    } else {
        IpAddr::V6(Ipv6Addr::from(address))
    };
    Some((inode, SocketAddr::new(ip, port)))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use crate::text::noise::{cases, damaged};

    use super::*;

    #[test]
    fn the_kernel_names_what_listens_and_nothing_else() {
        let sockets: Vec<_> = ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0"]
            .iter()
            .filter_map(|at| std::net::TcpListener::bind(at).ok())
            .collect();
        let own = sockets[0].local_addr().unwrap();
        let connection = std::net::TcpStream::connect(own).unwrap();
        // A kernel without it is asked by way of procfs.
        let Ok(found) = listening() else { return };
        for socket in &sockets {
            let address = socket.local_addr().unwrap();
            assert_eq!(found.iter().filter(|(inode, at)| *at == address && *inode > 0).count(), 1, "{address}");
        }
        let client = connection.local_addr().unwrap();
        assert!(found.iter().all(|(_, at)| *at != client), "a connection does not listen");
    }

    #[test]
    fn broken_answers_are_errors() {
        let message = |length: u32, kind: u16| [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10]].concat();
        assert!(read(&message(16, DONE), &mut Vec::new()).unwrap());
        assert!(!read(&message(16, BY_FAMILY), &mut Vec::new()).unwrap());
        assert!(!read(b"short", &mut Vec::new()).unwrap());
        for (length, kind) in [(16, ERROR), (0, DONE), (17, DONE), (u32::MAX, DONE)] {
            assert!(read(&message(length, kind), &mut Vec::new()).is_err(), "{length} {kind}");
        }
    }

    /// An answer of the kernel: two sockets and the end.
    fn answer() -> Vec<u8> {
        let head = |length: usize, kind: u16| {
            let length = u32::try_from(HEADER + length).unwrap().to_ne_bytes();
            [&length[..], &kind.to_ne_bytes(), &[0; 10]].concat()
        };
        let mut bytes = Vec::new();
        for (port, inode) in [(8080_u16, 7_u32), (9090, 8)] {
            let mut body = vec![0; INODE + 4];
            body[0] = u8::try_from(AddressFamily::INET.as_raw()).unwrap();
            body[PORT..PORT + 2].copy_from_slice(&port.to_be_bytes());
            body[ADDRESS..ADDRESS + 4].copy_from_slice(&[127, 0, 0, 1]);
            body[INODE..].copy_from_slice(&inode.to_ne_bytes());
            bytes.extend(head(body.len(), BY_FAMILY));
            bytes.extend(body);
        }
        bytes.extend(head(0, DONE));
        bytes
    }

    #[test]
    fn an_answer_is_read() {
        let mut found = Vec::new();
        assert!(read(&answer(), &mut found).unwrap());
        assert_eq!(found, [(7, "127.0.0.1:8080".parse().unwrap()), (8, "127.0.0.1:9090".parse().unwrap())]);
    }

    proptest! {
        #![proptest_config(cases(400))]

        #[test]
        fn any_answer_is_read_or_an_error(bytes in prop_oneof![damaged(answer()), proptest::collection::vec(any::<u8>(), 0..300)]) {
            let mut found = Vec::new();
            let _any = read(&bytes, &mut found);
            prop_assert!(found.len() <= bytes.len() / HEADER);
        }
    }
}
