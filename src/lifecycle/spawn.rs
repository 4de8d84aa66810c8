//! The spawn funnel: every child process of ours starts here and nowhere else.
//!
//! Standard input, output and error are always named by the caller, so that no descriptor of ours is
//! inherited by chance. A child that must answer has a deadline ([`run`]); a child that outlives its
//! deadline is ended through the one exception of the kill funnel, `OwnChild`, because it is a direct
//! child that was not reaped yet and so cannot be anybody else.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::failpoint::{Point, around};
use super::kill::OwnChild;

/// What to start.
#[derive(Debug, Default)]
pub struct Spec {
    /// Program (looked up on PATH unless it holds a slash) and arguments.
    pub argv: Vec<OsString>,
    /// Name shown by ps(1) in place of `argv[0]`.
    pub arg0: Option<OsString>,
    /// Environment variables that are set in addition to the inherited ones.
    pub env: Vec<(OsString, OsString)>,
    /// Environment variables that are not inherited.
    pub env_remove: Vec<OsString>,
    /// Nothing is inherited but `env`.
    pub env_clear: bool,
    /// Working directory; `None` inherits ours.
    pub cwd: Option<PathBuf>,
    /// Puts the child into a process group of its own.
    pub own_group: bool,
}

impl Spec {
    /// Returns a specification of a program with its arguments.
    pub fn new<S: Into<OsString>>(argv: impl IntoIterator<Item = S>) -> Self {
        Self { argv: argv.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    #[expect(clippy::disallowed_methods, reason = "the spawn funnel")]
    fn command(&self) -> io::Result<Command> {
        let program = self.argv.first().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "empty command"))?;
        let mut command = Command::new(program);
        command.args(&self.argv[1..]);
        if let Some(arg0) = &self.arg0 {
            command.arg0(arg0);
        }
        if self.env_clear {
            command.env_clear();
        }
        for name in &self.env_remove {
            command.env_remove(name);
        }
        command.envs(self.env.iter().map(|(k, v)| (k, v)));
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        if self.own_group {
            command.process_group(0);
        }
        Ok(command)
    }

    /// Replaces this process by the program; returns only on failure. For the trampoline and `attach`.
    #[expect(clippy::disallowed_methods, reason = "the spawn funnel")]
    pub fn exec(&self) -> io::Error {
        match self.command() {
            Ok(mut command) => command.exec(),
            Err(error) => error,
        }
    }
}

/// Where a descriptor of the child leads.
#[derive(Debug)]
pub enum End {
    /// `/dev/null`.
    Null,
    /// A pipe; read or written through the returned [`Child`].
    Pipe,
    /// The same as ours.
    Inherit,
    /// An open descriptor.
    Fd(OwnedFd),
}

impl From<End> for Stdio {
    fn from(end: End) -> Self {
        match end {
            End::Null => Self::null(),
            End::Pipe => Self::piped(),
            End::Inherit => Self::inherit(),
            End::Fd(fd) => Self::from(fd),
        }
    }
}

/// Starts a program and returns at once. The caller reaps the child.
pub fn start(spec: &Spec, stdin: End, stdout: End, stderr: End) -> io::Result<Child> {
    let mut command = spec.command()?;
    command.stdin(Stdio::from(stdin)).stdout(Stdio::from(stdout)).stderr(Stdio::from(stderr));
    around(Point::Spawn, || command.spawn())
}

/// What a program printed before it ended.
#[derive(Debug)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output, at most 16 MiB.
    pub stdout: Vec<u8>,
    /// Standard error, at most 16 MiB.
    pub stderr: Vec<u8>,
}

const OUTPUT_LIMIT: u64 = 16 << 20;

/// Runs a program to its end and collects what it prints.
///
/// # Errors
/// `TimedOut` after `deadline`: the child has been killed and reaped by then (a child in an
/// uninterruptible sleep is left behind). Any error of the start itself.
pub fn run(spec: &Spec, input: Option<&[u8]>, deadline: Duration) -> io::Result<Output> {
    let until = Instant::now() + deadline;
    let stdin = if input.is_some() { End::Pipe } else { End::Null };
    let mut child = start(spec, stdin, End::Pipe, End::Pipe)?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let input = input.map(<[u8]>::to_vec);
    std::thread::spawn(move || {
        if let (Some(mut pipe), Some(bytes)) = (stdin, input) {
            pipe.write_all(&bytes).ok();
        }
    });
    let (sender, results) = std::sync::mpsc::channel();
    drain(stdout, 0, &sender);
    drain(stderr, 1, &sender);
    drop(sender);
    let mut streams = [Vec::new(), Vec::new()];
    for _ in 0..2 {
        match results.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok((index, bytes)) => streams[index] = bytes,
            Err(_) => return Err(give_up(child, spec, deadline)),
        }
    }
    loop {
        if let Some(status) = child.try_wait()? {
            let [stdout, stderr] = streams;
            return Ok(Output { status, stdout, stderr });
        }
        if Instant::now() >= until {
            return Err(give_up(child, spec, deadline));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn drain(pipe: Option<impl Read + Send + 'static>, index: usize, sender: &std::sync::mpsc::Sender<(usize, Vec<u8>)>) {
    let sender = sender.clone();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            pipe.take(OUTPUT_LIMIT).read_to_end(&mut bytes).ok();
        }
        sender.send((index, bytes)).ok();
    });
}

fn give_up(child: Child, spec: &Spec, deadline: Duration) -> io::Error {
    OwnChild::from(child).end();
    let program = spec.argv.first().map(|p| p.to_string_lossy().into_owned()).unwrap_or_default();
    io::Error::new(io::ErrorKind::TimedOut, format!("{program} did not answer within {:.1} s", deadline.as_secs_f64()))
}
