//! Captures of a made-up process table that changes at chosen moments. The processes are real, so that they can be
//! held; what the table says of them is the test's.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

use crate::lifecycle::guard::Guard;
use crate::lifecycle::identity::{Identity, Pid};
use crate::lifecycle::inspect::{Inspector, Procfs};
use crate::lifecycle::tree::{Depth, Scope, capture};

/// Some processes, and the folder that tells of them.
struct Table {
    root: tempfile::TempDir,
    processes: Vec<Child>,
}

impl Table {
    fn new(count: usize, lists_children: bool) -> Self {
        let root = tempfile::tempdir().unwrap();
        let boot = root.path().join("sys/kernel/random");
        fs::create_dir_all(&boot).unwrap();
        fs::write(boot.join("boot_id"), "b00\n").unwrap();
        let me = std::process::id();
        if lists_children {
            fs::create_dir_all(root.path().join(format!("{me}/task/{me}"))).unwrap();
            fs::write(root.path().join(format!("{me}/task/{me}/children")), "").unwrap();
        }
        let start = || std::process::Command::new("sleep").arg("60").spawn().unwrap();
        Self { root, processes: (0..count).map(|_| start()).collect() }
    }

    fn pid(&self, index: usize) -> i32 {
        i32::try_from(self.processes[index].id()).unwrap()
    }

    fn stat(&self, index: usize, parent: Option<usize>) -> Vec<u8> {
        let (pid, above) = (self.pid(index), parent.map_or(1, |parent| self.pid(parent)));
        format!("{pid} (x) S {above} {pid} {pid} 0 0 0 0 0 0 0 1 2 0 0 20 0 1 0 5 0 3 0\n").into_bytes()
    }

    fn folder(&self, index: usize) -> PathBuf {
        self.root.path().join(self.pid(index).to_string())
    }

    /// Puts a process into the table, all at once.
    fn show(&self, index: usize, parent: Option<usize>, children: &[usize]) {
        let (pid, folder) = (self.pid(index), self.folder(index));
        let made = self.root.path().join(format!("new-{pid}"));
        fs::create_dir_all(made.join(format!("task/{pid}"))).unwrap();
        fs::write(made.join("stat"), self.stat(index, parent)).unwrap();
        fs::write(made.join(format!("task/{pid}/children")), self.list(children)).unwrap();
        fs::rename(made, folder).unwrap();
    }

    fn list(&self, children: &[usize]) -> String {
        let pids: Vec<String> = children.iter().map(|child| self.pid(*child).to_string()).collect();
        pids.join(" ")
    }

    /// Makes a pipe of the process's `stat`: a read of it waits until somebody writes.
    fn hold(&self, index: usize) -> fs::File {
        let stat = self.folder(index).join("stat");
        fs::remove_file(&stat).unwrap();
        mknodat(CWD, &stat, FileType::Fifo, Mode::RWXU, 0).unwrap();
        fs::File::from(rustix::fs::open(&stat, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap())
    }

    fn members(&self, depth: Depth) -> Vec<i32> {
        let inspector = Inspector::Procfs(Procfs::open(self.root.path()).unwrap());
        assert_eq!(inspector.lists_children(), depth == Depth::Trees || self.root.path().join("walked").exists());
        let guard = Guard::new(&Inspector::open(None).unwrap());
        let root =
            Identity { pid: Pid::new(self.pid(0)).unwrap(), token: "procfs:b00:5".parse().unwrap(), pidfd_inode: None };
        let scope = Scope { panes: vec![root], ..Scope::default() };
        let captured = capture(&scope, depth, &guard, &inspector);
        assert!(captured.complete, "it stands still in the end");
        captured.members.iter().map(|member| member.pinned.identity().pid.raw()).collect()
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        for process in &mut self.processes {
            process.kill().ok();
            process.wait().ok();
        }
    }
}

/// Answers the reads of a pipe with one text each, and does something after each of them.
struct Feeder(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Feeder {
    fn new(mut pipe: fs::File, text: Vec<u8>, mut after: impl FnMut(u32) + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ours = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            for read in 1.. {
                pipe.write_all(&text).unwrap();
                while rustix::io::ioctl_fionread(&pipe).unwrap() > 0 {
                    if ours.load(Ordering::SeqCst) {
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                after(read);
            }
        });
        Self(over, Some(thread))
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
        self.1.take().map(JoinHandle::join).transpose().unwrap();
    }
}

fn sorted(table: &Table, indices: &[usize]) -> Vec<i32> {
    let mut pids: Vec<i32> = indices.iter().map(|index| table.pid(*index)).collect();
    pids.sort_unstable();
    pids
}

/// A child that is born after the first read of the table is found by the second.
#[test]
fn a_table_is_read_until_two_reads_agree() {
    let table = Arc::new(Table::new(2, false));
    table.show(0, None, &[]);
    let (pipe, world) = (table.hold(0), Arc::clone(&table));
    // The first read verifies the root, the second is of the scan.
    let feeder = Feeder::new(pipe, table.stat(0, None), move |read| {
        if read == 2 {
            world.show(1, Some(0), &[]);
        }
    });
    assert_eq!(table.members(Depth::Host), sorted(&table, &[0, 1]));
    drop(feeder);
}

/// While the tree is walked, a parent whose list was read already has another child.
#[test]
fn lists_of_children_are_read_again_after_the_last_of_them_was_held() {
    let table = Arc::new(Table::new(4, true));
    table.show(0, None, &[1]);
    table.show(1, Some(0), &[2]);
    table.show(2, Some(1), &[]);
    table.show(3, Some(0), &[]);
    let (text, world) = (table.stat(2, Some(1)), Arc::clone(&table));
    let mut last = table.hold(2);
    let feeder = Feeder::new(table.hold(1), table.stat(1, Some(0)), move |_| {
        let children = world.folder(0).join(format!("task/{0}/children", world.pid(0)));
        fs::write(children, world.list(&[1, 3])).unwrap();
        last.write_all(&text).unwrap();
    });
    assert_eq!(table.members(Depth::Trees), sorted(&table, &[0, 1, 2, 3]));
    drop(feeder);
}

/// Whoever was walked through and has left the table before it was read was a member, and still is: it is held.
#[test]
fn who_was_held_on_the_walk_stays_a_member() {
    let table = Arc::new(Table::new(4, true));
    fs::write(table.root.path().join("walked"), "").unwrap();
    table.show(0, None, &[1]);
    table.show(1, Some(0), &[2]);
    table.show(2, Some(1), &[3]);
    table.show(3, Some(2), &[]);
    let (text, world) = (table.stat(3, Some(2)), Arc::clone(&table));
    let mut last = table.hold(3);
    let mut held = true;
    let feeder = Feeder::new(table.hold(2), table.stat(2, Some(1)), move |_| {
        if std::mem::take(&mut held) {
            fs::remove_dir_all(world.folder(1)).unwrap();
            // From now on it is a file like any other; whoever waits already is answered, too.
            let (new, stat) = (world.root.path().join("stat-new"), world.folder(3).join("stat"));
            fs::write(&new, &text).unwrap();
            fs::rename(new, stat).unwrap();
            last.write_all(&text).unwrap();
        }
    });
    let members = table.members(Depth::Host);
    assert!(members.contains(&table.pid(1)), "{members:?}");
    drop(feeder);
}
