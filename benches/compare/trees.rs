//! Trees of sleeping processes, and the bare system calls that nobody can do without.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cookbook_tui::lifecycle::authority::{Pin, Pinned};
use cookbook_tui::lifecycle::identity::{Identity, Pid};
use cookbook_tui::lifecycle::inspect::Inspector;

use crate::ledger;

pub(crate) fn pid_of(child: &Child) -> Pid {
    Pid::new(i32::try_from(child.id()).unwrap()).unwrap()
}

/// A shell in a kernel session of its own with `size - 1` sleeping children.
pub(crate) struct Tree {
    shell: Child,
    pub(crate) root: Identity,
    pub(crate) size: usize,
}

impl Tree {
    pub(crate) fn plant(size: usize) -> Self {
        let script = format!("trap 'exit 0' TERM; for i in $(seq {}); do sleep 600 & done; echo up; wait", size - 1);
        let mut shell = Command::new("setsid")
            .args(["bash", "-c", &script])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut word = [0; 3];
        shell.stdout.as_mut().unwrap().read_exact(&mut word).unwrap();
        // Every child has become `sleep` and no `seq` is left.
        let pid = pid_of(&shell);
        while walk(pid).len() != size {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(50));
        let inspector = Inspector::open(None).unwrap();
        let Pin::Held(pinned) = Pinned::open(&inspector, pid) else { panic!("it lives") };
        Self { root: pinned.identity().clone(), shell, size }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let pidfds: Vec<OwnedFd> = walk(self.root.pid).keys().filter_map(|pid| pidfd(*pid)).collect();
        for pidfd in &pidfds {
            rustix::process::pidfd_send_signal(pidfd, rustix::process::Signal::KILL).ok();
        }
        self.shell.wait().unwrap();
        pidfds.iter().for_each(wait);
    }
}

/// Processes that have nothing to do with anybody.
pub(crate) struct Strangers(Vec<Tree>);

impl Strangers {
    pub(crate) fn call(count: usize) -> Self {
        Self((0..count.div_ceil(500)).map(|_| Tree::plant(count.min(500))).collect())
    }
}

impl Drop for Strangers {
    fn drop(&mut self) {
        self.0.clear();
    }
}

// The bare floor: what nobody can do without.

pub(crate) fn pidfd(pid: Pid) -> Option<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(pid.raw())?;
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

pub(crate) fn wait(pidfd: &OwnedFd) {
    use rustix::event::{PollFd, PollFlags, poll};
    poll(&mut [PollFd::new(pidfd, PollFlags::IN)], None).unwrap();
}

pub(crate) fn stat(pid: Pid) -> Option<(i32, u64)> {
    let mut buffer = [0_u8; 1200];
    let mut file = fs::File::open(format!("/proc/{pid}/stat")).ok()?;
    let length = file.read(&mut buffer).ok()?;
    ledger::stat(std::str::from_utf8(&buffer[..length]).ok()?)
}

/// Children by `/proc/<pid>/task/<pid>/children`, and their stat.
pub(crate) fn walk(root: Pid) -> HashMap<Pid, u64> {
    let mut found = HashMap::new();
    let mut queue = vec![root];
    while let Some(pid) = queue.pop() {
        let Some((_, start)) = stat(pid) else { continue };
        found.insert(pid, start);
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        queue.extend(children.split(' ').filter_map(|word| word.parse().ok()).filter_map(Pid::new));
    }
    found
}

pub(crate) fn table() -> HashMap<Pid, (i32, u64)> {
    let pid = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok().and_then(Pid::new);
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(pid);
    pids.filter_map(|pid| Some((pid, stat(pid)?))).collect()
}
