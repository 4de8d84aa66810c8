//! The child that waits at the gate and becomes the workload by exec.
//!
//! Exec keeps pid, start and pidfd inode, so the identity that is bound before is the workload's. All
//! that other programs do between fork and exec happens here, in safe code: the terminal, the kernel
//! session, the signal dispositions.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::sys::signal::SigSet;
use rustix::io::Errno;

use super::wire::{Outcome, Workspace, receive, send};
use super::{HostStage, NOT_LAUNCHED};
use crate::lifecycle::spawn::Spec;

/// Variables that the terminal of a tmux pane sets and the launcher cannot know.
const OF_THE_PANE: [&str; 5] = ["TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TMUX", "TMUX_PANE"];

/// Waits for the workspace on standard input, a socket; standard output is the terminal.
pub(super) fn run(arguments: &[OsString]) -> u8 {
    let Some(host) = arguments.first().and_then(HostStage::parse) else { return NOT_LAUNCHED };
    // The copy is closed by the exec, which is how the warden learns that it worked.
    let Ok(copy) = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3) else { return NOT_LAUNCHED };
    let mut gate = UnixStream::from(copy);
    let Ok(mut workspace) = receive::<Workspace>(&mut gate) else { return NOT_LAUNCHED };
    if let Err(errno) = prepare(host) {
        let outcome = Outcome::Failed { errno: errno.raw_os_error(), what: "the terminal".into() };
        send(&mut gate, &outcome).ok();
        return NOT_LAUNCHED;
    }
    if host == HostStage::Tmux {
        take_from_pane(&mut workspace.env, workspace.own_tmux);
    }
    let program = workspace.argv.first().cloned().unwrap_or_default();
    if let Err(error) = std::env::set_current_dir(&workspace.cwd) {
        return failed(&mut gate, &error, &workspace.cwd.display().to_string());
    }
    // The program is looked for on the workload's own PATH, not on ours.
    let found = find(&program, &workspace.env);
    let spec = Spec {
        arg0: Some(program.clone()),
        argv: std::iter::once(found).chain(workspace.argv.into_iter().skip(1)).collect(),
        env: workspace.env,
        env_clear: true,
        ..Spec::default()
    };
    let error = spec.exec();
    failed(&mut gate, &error, &program.to_string_lossy())
}

fn failed(gate: &mut UnixStream, error: &io::Error, what: &str) -> u8 {
    let errno = error.raw_os_error().unwrap_or_else(|| Errno::INVAL.raw_os_error());
    send(gate, &Outcome::Failed { errno, what: what.to_owned() }).ok();
    if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
}

fn prepare(host: HostStage) -> Result<(), Errno> {
    rustix::stdio::dup2_stdin(rustix::stdio::stdout())?;
    match host {
        HostStage::Pty => {
            rustix::process::setsid()?;
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
        }
        // The workload is the terminal's foreground group before it runs. From the background that is allowed to
        // whoever blocks TTOU (tcsetpgrp(3)), as we still do.
        HostStage::Tmux => rustix::termios::tcsetpgrp(rustix::stdio::stdin(), rustix::process::getpgrp())?,
    }
    // A caught signal is default after an exec; an inherited ignored one would stay ignored (signal(7)).
    // ILL, FPE and SEGV are not to be caught this way: where the manager ignores them, so will the workload.
    let flag = Arc::new(AtomicBool::new(false));
    for signal in 1..=64 {
        if ![4, 8, 9, 11, 19, 32, 33].contains(&signal) {
            signal_hook::flag::register(signal, Arc::clone(&flag)).ok();
        }
    }
    SigSet::empty().thread_set_mask().map_err(|error| Errno::from_raw_os_error(error as i32))
}

fn take_from_pane(env: &mut Vec<(OsString, OsString)>, own_tmux: bool) {
    for name in OF_THE_PANE {
        // An agent has a tmux of its own; it must not find the server that holds it.
        if own_tmux && name.starts_with("TMUX") {
            continue;
        }
        if let Some(value) = std::env::var_os(name) {
            env.retain(|(known, _)| known != name);
            env.push((name.into(), value));
        }
    }
}

fn find(program: &OsStr, env: &[(OsString, OsString)]) -> OsString {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;
    if program.as_bytes().contains(&b'/') {
        return program.to_owned();
    }
    let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let path = path.unwrap_or_else(|| OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    let executable = |candidate: &std::path::PathBuf| {
        std::fs::metadata(candidate).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(path)
        .map(|directory| directory.join(program))
        .find(executable)
        .map_or_else(|| program.to_owned(), std::path::PathBuf::into_os_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_agent_is_kept_from_the_tmux_that_holds_it() {
        // The variable of the launcher says nothing about whose tmux it is.
        for own_tmux in [false, true] {
            let mut env: Vec<(OsString, OsString)> = vec![("TMUX_TMPDIR".into(), "/x".into())];
            take_from_pane(&mut env, own_tmux);
            let expected = !own_tmux && std::env::var_os("TMUX").is_some();
            assert_eq!(env.iter().any(|(name, _)| name == "TMUX"), expected);
            assert!(env.iter().any(|(name, _)| name == "TMUX_TMPDIR"));
        }
    }
}
