//! The root of a tmux pane: it starts the warden and ends with the status of the workload.
//!
//! It is the leader of the pane's kernel session, so a hang-up of the pane reaches it first; its death
//! tells the warden that the host is gone.

use std::ffi::OsString;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use super::{NOT_LAUNCHED, WARDEN};
use crate::lifecycle::failpoint;
use crate::lifecycle::spawn::{End, Spec, start};
use crate::lifecycle::tree::WARDEN_NAME;

/// Arguments: `tmux` and the path of the gate.
pub(super) fn run(arguments: &[OsString]) -> u8 {
    let Ok((mut status, theirs)) = UnixStream::pair() else { return NOT_LAUNCHED };
    let mut spec = Spec::new(["/proc/self/exe", WARDEN]);
    spec.argv.extend(arguments.iter().cloned());
    spec.arg0 = Some(WARDEN_NAME.into());
    spec.env = failpoint::environment(failpoint::Stage::Warden);
    let started = start(&spec, End::Fd(OwnedFd::from(theirs)), End::Inherit, End::Inherit);
    if started.is_err() {
        return NOT_LAUNCHED;
    }
    drop(spec);
    let mut byte = [NOT_LAUNCHED];
    // EOF: the warden is gone without a word.
    match status.read(&mut byte) {
        Ok(1) => byte[0],
        Ok(_) | Err(_) => NOT_LAUNCHED,
    }
}
