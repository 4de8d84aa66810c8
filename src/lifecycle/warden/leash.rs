//! A helper that must not outlive us, even where it hangs in a driver (`app/nvml.rs`).
//!
//! Before the exec the stage asks the kernel to end it with the thread that started it (prctl(2),
//! `PR_SET_PDEATHSIG`, which an exec keeps). So it is started by one thread that lives as long as
//! this program. The kernel means exactly this child of ours; no pid is involved.

use std::ffi::OsString;
use std::io;
use std::process::Child;
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

use super::{LEASH, NOT_LAUNCHED};
use crate::lifecycle::spawn::{End, Spec, start};

/// Something to start, and who waits for it.
struct Job {
    spec: Spec,
    started: Sender<io::Result<Child>>,
}

/// The way to the thread that starts them.
static HOLDER: OnceLock<Sender<Job>> = OnceLock::new();

/// Starts a program that is killed when this one ends, however it ends. It is talked to through pipes, and its
/// errors are not heard. The caller reaps the child.
///
/// Where there is no procfs it is started without a leash.
///
/// # Errors
/// When the system refuses a process or a thread. A program that is not found ends with a status of its own.
pub fn start_leashed(spec: &Spec) -> io::Result<Child> {
    let owner = getpid().as_raw_nonzero().to_string();
    let head = ["/proc/self/exe".into(), LEASH.into(), owner.into()];
    let leashed = Spec {
        argv: head.into_iter().chain(spec.argv.iter().cloned()).collect(),
        env: spec.env.clone(),
        env_remove: spec.env_remove.clone(),
        cwd: spec.cwd.clone(),
        arg0: None,
        ..*spec
    };
    let (started, answer) = channel();
    let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
    holder()?.send(Job { spec: leashed, started }).map_err(|_| gone())?;
    match answer.recv().map_err(|_| gone())? {
        Err(error) if error.kind() == io::ErrorKind::NotFound => start(spec, End::Pipe, End::Pipe, End::Null),
        result => result,
    }
}

fn holder() -> io::Result<&'static Sender<Job>> {
    if let Some(holder) = HOLDER.get() {
        return Ok(holder);
    }
    let (sender, jobs) = channel::<Job>();
    let hold = move || {
        for job in jobs {
            // Whoever waited is still there: it has nothing else to do.
            job.started.send(start(&job.spec, End::Pipe, End::Pipe, End::Null)).ok();
        }
    };
    std::thread::Builder::new().name("leash".into()).spawn(hold)?;
    // If another thread was faster, ours ends with its sender.
    Ok(HOLDER.get_or_init(|| sender))
}

/// Arguments: the pid of whoever holds the leash, then program and arguments.
pub(super) fn run(arguments: &[OsString]) -> u8 {
    let [owner, argv @ ..] = arguments else { return NOT_LAUNCHED };
    // Where the kernel refuses, the program runs without a leash.
    set_parent_process_death_signal(Some(Signal::KILL)).ok();
    let parent = getppid().map(|parent| parent.as_raw_nonzero().to_string());
    if parent.as_deref() != owner.to_str() {
        // It ended before the kernel was asked.
        return NOT_LAUNCHED;
    }
    let error = Spec::new(argv.iter().cloned()).exec();
    if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
}
