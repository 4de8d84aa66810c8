//! The children of a process as the kernel lists them (`/proc/<pid>/task/<tid>/children`, proc(5); needs
//! `CONFIG_PROC_CHILDREN`).
//!
//! The list is exact only while nobody forks or dies, so it is read again until it stands still. An opened
//! list is read again without another look-up, and stays bound to its process.

use std::fs;
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};

use super::procfs::Procfs;
use crate::lifecycle::descriptors::Share;
use crate::lifecycle::identity::Pid;

/// The children of one process, to be read as often as wanted.
#[derive(Debug)]
pub struct Kin(Source);

#[derive(Debug)]
enum Source {
    /// The list of the only thread.
    Opened(Share),
    /// A process with several threads, each with children of its own, or no descriptor to spare.
    LookUp(Pid),
}

impl Procfs {
    pub(super) fn kin(&self, pid: Pid, threads: u32) -> Kin {
        if threads > 1 {
            return Kin(Source::LookUp(pid));
        }
        let path = format!("{pid}/task/{pid}/children");
        let opened = Share::claim(|| openat(self.dir(), path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()));
        Kin(opened.map_or(Source::LookUp(pid), Source::Opened))
    }

    /// Adds the children. A process that has vanished has none.
    pub(super) fn children(&self, kin: &Kin, into: &mut Vec<Pid>) {
        match &kin.0 {
            Source::Opened(list) => read_at(list, into),
            Source::LookUp(pid) => self.look_up(*pid, into),
        }
    }

    fn look_up(&self, pid: Pid, into: &mut Vec<Pid>) {
        let tasks = self.root().join(format!("{pid}/task"));
        let Ok(entries) = fs::read_dir(&tasks) else { return };
        for task in entries.flatten() {
            add_words(&fs::read(Path::new(&task.path()).join("children")).unwrap_or_default(), into);
        }
    }
}

fn read_at(list: &Share, into: &mut Vec<Pid>) {
    let mut buffer = [0_u8; 4096];
    let mut text: Vec<u8> = Vec::new();
    let mut offset = 0;
    while let Ok(length) = rustix::io::pread(list, &mut buffer, offset) {
        let part = buffer.get(..length).unwrap_or_default();
        // The kernel fills the buffer as far as whole numbers fit; only an empty read is the end, but a list
        // that leaves half of it free has nothing more.
        if offset == 0 && length < buffer.len() / 2 {
            return add_words(part, into);
        }
        if length == 0 {
            break;
        }
        text.extend_from_slice(part);
        offset += length as u64;
    }
    add_words(&text, into);
}

fn add_words(text: &[u8], into: &mut Vec<Pid>) {
    for word in text.split(|b| *b == b' ') {
        into.extend(std::str::from_utf8(word).ok().and_then(|word| word.parse().ok()).and_then(Pid::new));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::noise::{cases, damaged};

    fn read(text: &[u8]) -> Vec<i32> {
        let mut found = Vec::new();
        add_words(text, &mut found);
        found.into_iter().map(Pid::raw).collect()
    }

    proptest! {
        #![proptest_config(cases(200))]

        #[test]
        fn a_list_of_children_is_read_whole(pids in proptest::collection::vec(1..=i32::MAX, 0..40)) {
            let words: Vec<String> = pids.iter().map(i32::to_string).collect();
            prop_assert_eq!(read((words.join(" ") + " ").as_bytes()), pids);
        }

        /// Each of them is a word of the text: no number is made up.
        #[test]
        fn nobody_is_made_up(bytes in damaged(b"1 22 333 4444 ".to_vec())) {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            for pid in read(&bytes) {
                let word = |word: &str| word.parse() == Ok(pid);
                prop_assert!(pid > 0 && text.split(' ').any(word), "{} in {:?}", pid, text);
            }
        }
    }
}
