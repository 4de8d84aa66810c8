//! GPU memory by NVIDIA's own word: NVML where its library can be found, else nvidia-smi.
//!
//! The library runs in a helper ([`crate::app::nvml`]), which is kept as long as somebody asks. Whatever the library
//! does, an answer is waited for [`PATIENCE`] at most; a helper that has not answered for [`GIVE_UP`] is ended. Both
//! tell pids of the host, so that nobody is asked in another pid namespace: a pid of theirs would be a stranger here.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::app::NVML;
use crate::app::config::find_program;
use crate::app::nvml::{LIBRARY, Usage, add, of_line};
use crate::lifecycle::identity::Pid;
use crate::lifecycle::inspect::own_program;
use crate::lifecycle::kill::OwnChild;
use crate::lifecycle::spawn::{Spec, run};
use crate::lifecycle::warden::start_leashed;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long one is still waited for each time, after it was late once.
const LATE: Duration = Duration::from_millis(100);
/// How long a helper may take before it is ended: some drivers need many seconds for their first answer.
const GIVE_UP: Duration = Duration::from_secs(30);
/// Time to the next question after one that was not answered.
const LATER: Duration = Duration::from_secs(30);
/// Time until a library is looked for again.
const MUCH_LATER: Duration = Duration::from_secs(300);

/// Who tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Teller {
    Nvml,
    Smi,
}

/// Why somebody does not tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    /// There is no such thing here.
    Absent(String),
    /// There is, and it failed.
    Failed(String),
}

impl Silence {
    pub(super) fn reason(&self) -> &str {
        match self {
            Self::Absent(reason) | Self::Failed(reason) => reason,
        }
    }
}

/// What was told, or why nothing was.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) usage: Result<(Teller, Usage), Silence>,
    /// Why it was not NVML.
    pub(super) nvml: Option<Silence>,
}

/// The way to both.
#[derive(Debug, Default)]
pub(super) struct Nvidia {
    helper: Option<Helper>,
    nvml: Pause,
    smi: Pause,
}

/// Why nothing is asked, and until when.
#[derive(Debug, Default)]
struct Pause(Option<(Instant, Silence)>);

impl Pause {
    fn now(&self) -> Option<Silence> {
        self.0.as_ref().filter(|(until, _)| Instant::now() < *until).map(|(_, silence)| silence.clone())
    }

    fn begin(&mut self, time: Duration, silence: Silence) -> Silence {
        self.0 = Some((Instant::now() + time, silence.clone()));
        silence
    }
}

/// Tells whether there is anybody to ask.
pub(super) fn is_here() -> bool {
    can_be_found() || find_program("nvidia-smi", std::env::var_os("PATH").as_deref()).is_some()
}

impl Nvidia {
    /// Asks NVML, and nvidia-smi where that does not answer.
    pub(super) fn ask(&mut self) -> Told {
        let nvml = match self.ask_nvml() {
            Ok(usage) => return Told { usage: Ok((Teller::Nvml, usage)), nvml: None },
            Err(silence) => silence,
        };
        let usage = self.ask_smi().map(|usage| (Teller::Smi, usage)).map_err(|smi| match (&nvml, smi) {
            (Silence::Failed(reason), _) => Silence::Failed(reason.clone()),
            (Silence::Absent(_), smi) => smi,
        });
        Told { usage, nvml: Some(nvml) }
    }

    /// Lets the library go, and with it the driver, which may then let the GPU sleep.
    pub(super) fn rest(&mut self) {
        self.helper = None;
    }

    fn ask_nvml(&mut self) -> Result<Usage, Silence> {
        if let Some(silence) = self.nvml.now() {
            return Err(silence);
        }
        if self.helper.is_none() && !can_be_found() {
            return Err(self.nvml.begin(MUCH_LATER, Silence::Absent(format!("{LIBRARY} is not here"))));
        }
        let helper = match self.helper.take().map_or_else(Helper::start, Ok) {
            Ok(helper) => self.helper.insert(helper),
            Err(error) => return Err(self.nvml.begin(LATER, Silence::Failed(error.to_string()))),
        };
        match helper.ask() {
            Heard::Usage(usage) => Ok(usage),
            Heard::Later => Err(Silence::Failed("NVML has not answered yet".into())),
            Heard::Failure(reason) => {
                self.helper = None;
                Err(self.nvml.begin(LATER, Silence::Failed(reason)))
            }
        }
    }

    fn ask_smi(&mut self) -> Result<Usage, Silence> {
        let Some(program) = find_program("nvidia-smi", std::env::var_os("PATH").as_deref()) else {
            return Err(Silence::Absent("nvidia-smi is not on PATH".into()));
        };
        if let Some(silence) = self.smi.now() {
            return Err(silence);
        }
        let what = ["--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"];
        let spec = Spec::new(std::iter::once(program.into_os_string()).chain(what.map(Into::into)));
        match run(&spec, None, PATIENCE) {
            Ok(output) if output.status.success() => Ok(parse(&String::from_utf8_lossy(&output.stdout))),
            Ok(output) => Err(self.smi.begin(LATER, Silence::Failed(format!("nvidia-smi failed ({})", output.status)))),
            Err(error) => Err(self.smi.begin(LATER, Silence::Failed(error.to_string()))),
        }
    }
}

/// The process that has the library.
#[derive(Debug)]
struct Helper {
    child: Option<Child>,
    questions: ChildStdin,
    answers: Receiver<Result<Usage, String>>,
    /// When the question was asked whose answer has not come yet.
    asked: Option<Instant>,
}

enum Heard {
    Usage(Usage),
    /// Not in time; it may come yet.
    Later,
    Failure(String),
}

impl Helper {
    fn start() -> std::io::Result<Self> {
        let program = own_program()?.into_os_string();
        // In a group of its own, keys of the terminal do not reach it.
        let spec = Spec { own_group: true, ..Spec::new([program, NVML.into()]) };
        let mut child = start_leashed(&spec)?;
        let (questions, answers) = (child.stdin.take(), child.stdout.take());
        let (Some(questions), Some(answers)) = (questions, answers) else {
            OwnChild::from(child).end();
            return Err(std::io::ErrorKind::BrokenPipe.into());
        };
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(answers).lines().map_while(Result::ok);
            for answer in lines.filter_map(|line| of_line(&line)) {
                if sender.send(answer).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child: Some(child), questions, answers: receiver, asked: None })
    }

    fn ask(&mut self) -> Heard {
        let mut left = PATIENCE;
        if let Some(asked) = self.asked {
            left = if asked.elapsed() < PATIENCE { PATIENCE } else { LATE };
            match self.hear(left) {
                // The answer to an earlier question is no news.
                Heard::Usage(_) => {}
                heard @ (Heard::Later | Heard::Failure(_)) => return heard,
            }
        }
        // One byte is taken by any pipe that is empty.
        if self.questions.write_all(b"\n").is_err() {
            return Heard::Failure("NVML's helper has ended".into());
        }
        self.asked = Some(Instant::now());
        self.hear(left)
    }

    fn hear(&mut self, patience: Duration) -> Heard {
        match self.answers.recv_timeout(patience) {
            Ok(answer) => {
                self.asked = None;
                answer.map_or_else(Heard::Failure, Heard::Usage)
            }
            Err(RecvTimeoutError::Disconnected) => Heard::Failure("NVML's helper has ended".into()),
            Err(RecvTimeoutError::Timeout) => {
                let gives_up = self.asked.is_some_and(|asked| asked.elapsed() >= GIVE_UP);
                let reason = || format!("NVML did not answer within {} s", GIVE_UP.as_secs());
                if gives_up { Heard::Failure(reason()) } else { Heard::Later }
            }
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            OwnChild::from(child).end();
        }
    }
}

/// Tells whether the dynamic loader may find the library (ld.so(8)), so that nothing is started where there is none.
fn can_be_found() -> bool {
    // The last one is where NixOS has drivers, which programs there know by themselves.
    const DIRECTORIES: [&str; 6] =
        ["/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib", "/run/opengl-driver/lib"];
    // Where it is not set, or empty, no directory is named, nor is the working directory.
    let named = std::env::var_os("LD_LIBRARY_PATH").filter(|named| !named.is_empty());
    let mut named = named.iter().flat_map(std::env::split_paths);
    let is_there = |directory: &Path| directory.join(LIBRARY).exists();
    named.any(|directory| is_there(&directory))
        || DIRECTORIES.iter().any(|directory| is_there(Path::new(directory)))
        || fs::read("/etc/ld.so.cache").is_ok_and(|cache| {
            let name = LIBRARY.as_bytes();
            cache.windows(name.len()).any(|window| window == name)
        })
}

/// Reads lines such as `4711, 5120` (MiB). A process on several GPUs has several; of some a driver tells nothing.
fn parse(text: &str) -> Usage {
    let mut usage = Usage::new();
    for line in text.lines() {
        let Some((pid, mib)) = line.split_once(',') else { continue };
        let bytes = mib.trim().parse::<u64>().ok().and_then(|mib| mib.checked_mul(1 << 20));
        if let Some(pid) = pid.trim().parse::<i32>().ok().and_then(Pid::new) {
            add(&mut usage, pid, bytes);
        }
    }
    usage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_nvidia_smi_is_read() {
        let check = |text: &str, expected: &[(i32, Option<u64>)]| {
            let found: Vec<_> = parse(text).into_iter().map(|(pid, bytes)| (pid.raw(), bytes)).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("4711, 5120\n4711, 1\n12, 3\n", &[(12, Some(3 << 20)), (4711, Some(5121 << 20))]);
        check("4711, [N/A]\n", &[(4711, None)]);
        check("4711, 5120\n4711, [N/A]\n", &[(4711, None)]);
        check("No running processes found\n\n-1, 4\n0, 4\n5, 99999999999999999\n", &[(5, None)]);
    }

    #[test]
    fn what_failed_is_not_asked_again_at_once() {
        let mut pause = Pause::default();
        assert_eq!(pause.now(), None);
        let silence = Silence::Failed("no".into());
        assert_eq!(pause.begin(LATER, silence.clone()), silence);
        assert_eq!(pause.now(), Some(silence.clone()));
        pause.begin(Duration::ZERO, silence);
        assert_eq!(pause.now(), None);
    }
}
