//! What travels through the gate: frames of a 4-byte big-endian length and JSON. Pure but for the
//! reading and writing of a stream that the caller names.
//!
//! Arguments, directories and environments are bytes on Unix, so they travel in base64.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::lifecycle::identity::Pid;

/// Larger than any environment the kernel would take (execve(2) allows 6 MiB in all).
const FRAME_MAX: usize = 16 << 20;

/// Bytes of the operating system, as base64 in JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bytes(pub(super) OsString);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(self.0.as_bytes()))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = STANDARD.decode(text).map_err(serde::de::Error::custom)?;
        Ok(Self(OsString::from_vec(bytes)))
    }
}

impl From<&OsStr> for Bytes {
    fn from(text: &OsStr) -> Self {
        Self(text.to_owned())
    }
}

/// The warden's first words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// Version of this protocol.
    pub(super) protocol: u32,
    /// The warden's own pid, which the kernel confirms.
    pub(super) warden: Pid,
    /// The trampoline's pid: the workload's.
    pub(super) workload: Pid,
}

/// What the trampoline needs to become the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// Working directory.
    pub cwd: PathBuf,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// It has a tmux of its own, and must not find the server that holds it.
    pub own_tmux: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct WorkspaceWire {
    argv: Vec<Bytes>,
    cwd: Bytes,
    env: Vec<(Bytes, Bytes)>,
    #[serde(default)]
    own_tmux: bool,
}

impl Serialize for Workspace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let wire = WorkspaceWire {
            argv: self.argv.iter().map(|text| Bytes::from(text.as_os_str())).collect(),
            cwd: Bytes::from(self.cwd.as_os_str()),
            env: self.env.iter().map(|(k, v)| (Bytes::from(k.as_os_str()), Bytes::from(v.as_os_str()))).collect(),
            own_tmux: self.own_tmux,
        };
        wire.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Workspace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = WorkspaceWire::deserialize(deserializer)?;
        Ok(Self {
            argv: wire.argv.into_iter().map(|bytes| bytes.0).collect(),
            cwd: PathBuf::from(wire.cwd.0),
            env: wire.env.into_iter().map(|(k, v)| (k.0, v.0)).collect(),
            own_tmux: wire.own_tmux,
        })
    }
}

/// The manager's answer once the tether is on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Orders {
    /// Id of the session.
    pub session: String,
    /// Directory of the store that holds its tether.
    pub state_dir: PathBuf,
    /// Which inspector the manager uses: `procfs`, `ps` or `none`.
    pub inspector: String,
    /// What to execute.
    pub workspace: Workspace,
    /// It is executed again when it fails.
    #[serde(default)]
    pub restart: bool,
}

/// What became of the exec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Outcome {
    /// The workload runs.
    Started,
    /// It could not be executed.
    Failed {
        /// errno of execve(2) or chdir(2).
        errno: i32,
        /// What failed: the program, or the working directory.
        what: String,
    },
}

/// Writes one frame.
pub(super) fn send<T: Serialize>(stream: &mut impl Write, message: &T) -> io::Result<()> {
    let body = serde_json::to_vec(message).map_err(io::Error::other)?;
    if body.len() > FRAME_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "command and environment are too large"));
    }
    let mut frame = u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes().to_vec();
    frame.extend(body);
    stream.write_all(&frame)
}

/// Reads one frame.
///
/// # Errors
/// `UnexpectedEof` when the other side has left, `InvalidData` when it is not of this protocol.
pub(super) fn receive<T: DeserializeOwned>(stream: &mut impl Read) -> io::Result<T> {
    let mut length = [0_u8; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > FRAME_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a frame of {length} bytes")));
    }
    // No more room is taken than what has come: the length is what somebody says.
    let mut body = Vec::new();
    stream.take(length as u64).read_to_end(&mut body)?;
    if body.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&body).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::text::noise::{cases, damaged};

    use super::*;

    #[test]
    fn bytes_that_are_no_text_travel_whole() {
        let odd = OsString::from_vec(vec![0xff, b'x', 0xfe]);
        let workspace = Workspace {
            argv: vec!["sh".into(), odd.clone()],
            cwd: PathBuf::from(&odd),
            env: vec![("K".into(), odd)],
            own_tmux: true,
        };
        let mut pipe = Vec::new();
        send(&mut pipe, &workspace).expect("sends");
        assert_eq!(receive::<Workspace>(&mut pipe.as_slice()).expect("receives"), workspace);
    }

    #[test]
    fn what_is_not_of_the_protocol_is_an_error() {
        for bytes in [&b""[..], b"\0\0", b"\0\0\0\x05{}", b"\xff\xff\xff\xff", b"\0\0\0\x02{}", b"\0\0\0\x02[]"] {
            assert!(receive::<Hello>(&mut &bytes[..]).is_err(), "{bytes:?}");
        }
    }

    fn framed<T: Serialize>(message: &T) -> Vec<u8> {
        let mut pipe = Vec::new();
        send(&mut pipe, message).expect("sends");
        pipe
    }

    fn orders() -> Orders {
        let env = vec![("PATH".into(), "/bin".into())];
        let workspace = Workspace { argv: vec!["sh".into(), "-c".into()], cwd: "/".into(), env, own_tmux: false };
        let (session, state_dir) = ("serve-0123abcd".into(), "/tmp".into());
        Orders { session, state_dir, inspector: "procfs".into(), workspace, restart: false }
    }

    proptest! {
        #![proptest_config(cases(200))]

        /// A frame is a message, or a clean error.
        #[test]
        fn any_frame_is_a_message_or_an_error(
            noise in proptest::collection::vec(any::<u8>(), 0..60),
            hello in damaged(framed(&Hello { protocol: 1, warden: Pid::new(7).expect("positive"), workload: Pid::new(8).expect("positive") })),
            outcome in damaged(framed(&Outcome::Failed { errno: 2, what: "x".into() })),
            orders in damaged(framed(&orders())),
        ) {
            let errors = [
                receive::<Hello>(&mut noise.as_slice()).err(),
                receive::<Hello>(&mut hello.as_slice()).err(),
                receive::<Outcome>(&mut outcome.as_slice()).err(),
                receive::<Orders>(&mut orders.as_slice()).err(),
                receive::<Workspace>(&mut orders.as_slice()).err(),
            ];
            for error in errors.into_iter().flatten() {
                prop_assert!(matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData), "{:?}", error);
            }
        }

        #[test]
        fn half_a_frame_is_the_end(cut in 0_usize..200) {
            let whole = framed(&orders());
            prop_assume!(cut < whole.len());
            let error = receive::<Orders>(&mut &whole[..cut]).expect_err("a half");
            prop_assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
