//! The spawn funnel: every child process of ours starts here and nowhere else.
//!
//! Standard input, output and error are always named by the caller, so that no descriptor of ours is
//! inherited by chance. A child that must answer has a deadline ([`run`]); a child that outlives its
//! deadline is ended through the one exception of the kill funnel, `OwnChild`, because it is a direct
//! child that was not reaped yet and so cannot be anybody else.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{Access, access};

use super::failpoint::{Point, around};
use super::kill::OwnChild;
use super::regular;

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
    fn command(&self, found: Option<&Path>) -> io::Result<Command> {
        let program = self.argv.first().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "empty command"))?;
        let mut command = Command::new(found.unwrap_or(Path::new(program)));
        command.args(&self.argv[1..]).arg0(self.arg0.as_ref().unwrap_or(program));
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

    /// Looks a program that is no script up on a `PATH` that is the child's own, as execvp(3) would: left to the child,
    /// that takes a fork(2) of all of our memory instead of a vfork(2). What becomes of a script that cannot be run is
    /// known to the child.
    fn found(&self) -> Option<PathBuf> {
        let program = self.argv.first().filter(|name| !name.is_empty() && !name.as_bytes().contains(&b'/'))?;
        let (_, path) = self.env.iter().rev().find(|(name, _)| name == "PATH")?;
        let dirs = path.as_bytes().split(|byte| *byte == b':').map(|dir| Path::new(OsStr::from_bytes(dir)));
        // What is relative is so to the child's directory, and left to the child.
        let found =
            dirs.take_while(|dir| dir.is_absolute()).map(|dir| dir.join(program)).find(|file| is_executable(file));
        found.filter(|file| is_elf(file))
    }

    /// Replaces this process by the program; returns only on failure. For the trampoline and `attach`.
    #[expect(clippy::disallowed_methods, reason = "the spawn funnel")]
    pub fn exec(&self) -> io::Error {
        match self.command(None) {
            Ok(mut command) => command.exec(),
            Err(error) => error,
        }
    }
}

/// Tells whether a file can be executed by us.
pub fn is_executable(file: &Path) -> bool {
    file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

/// Tells whether a file is a program of this kind of system, and no script.
pub fn is_elf(file: &Path) -> bool {
    let mut magic = [0; 4];
    let read = regular::open(file).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && &magic == b"\x7fELF"
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
    let mut command = spec.command(spec.found().as_deref())?;
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_program_is_found_on_the_path_of_the_child() {
        let place = tempfile::tempdir().unwrap();
        let dirs = ["empty", "plain", "first", "second"].map(|name| place.path().join(name));
        for dir in &dirs {
            std::fs::create_dir(dir).unwrap();
        }
        let [_, plain, first, second] = &dirs;
        std::fs::write(plain.join("echo"), "not executable").unwrap();
        std::fs::create_dir(plain.join("true")).unwrap();
        for dir in [first, second] {
            let script = format!("#!/bin/sh\nprintf '%s %s' \"$1\" {}\n", dir.file_name().unwrap().to_string_lossy());
            std::fs::write(dir.join("echo"), script).unwrap();
            std::fs::set_permissions(dir.join("echo"), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        symlink("/bin/true", second.join("true")).unwrap();
        let path = |before: &str| format!("{before}{}", std::env::join_paths(&dirs).unwrap().to_string_lossy());
        let spec = |program: &str, before: &str| Spec {
            env: vec![("PATH".into(), path(before).into())],
            env_clear: true,
            ..Spec::new([program, "word"])
        };
        for (program, before, expected) in [
            ("true", "", Some(second.join("true"))),
            ("echo", "", None),
            ("no-such-program", "", None),
            ("", "", None),
            ("/bin/true", "", None),
            ("true", "bin:", None),
            ("true", ":", None),
        ] {
            assert_eq!(spec(program, before).found(), expected, "{program:?} on {before:?}");
        }
        assert_eq!(Spec::new(["echo"]).found(), None, "on our own path");
        let output = run(&spec("echo", ""), None, Duration::from_secs(10)).unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "word first");
        // As execvp(3): on to the next one where the interpreter is missing, to a shell where none is named.
        std::fs::write(first.join("echo"), "#!/no/such/interpreter\n").unwrap();
        let output = run(&spec("echo", ""), None, Duration::from_secs(10)).unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "word second");
        // What ps(1) shows is the name, wherever it was found.
        let words = ["sh", "-c", "printf '%s' \"$0\""];
        let named = Spec { env: vec![("PATH".into(), "/usr/bin:/bin".into())], ..Spec::new(words) };
        let output = run(&named, None, Duration::from_secs(10)).unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "sh");
        assert_eq!(
            run(&spec("no-such-program", ""), None, Duration::from_secs(10)).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
