//! Which git branch a directory is on, read off its files: no process is started.
//!
//! The files are not ours: they are opened without waiting, read up to a bound, and what they say is text to show.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::lifecycle::regular;

/// As many directories upward as are looked at.
const UPWARD: usize = 64;
/// As much of a file as is read.
const READ: u64 = 4096;

/// Returns the branch of the work tree that a directory is in; of a detached head `@` and the beginning of the commit.
pub(super) fn branch_of(dir: &Path) -> Option<String> {
    let git = dir.ancestors().take(UPWARD).map(|dir| dir.join(".git")).find(|git| git.symlink_metadata().is_ok())?;
    let home = if git.is_dir() { git } else { linked(&git)? };
    head(&read(&home.join("HEAD"))?)
}

/// Where the files of a linked work tree, or of a submodule, are.
fn linked(git: &Path) -> Option<PathBuf> {
    let text = read(git)?;
    let place = text.lines().next()?.strip_prefix("gitdir:")?.trim();
    Some(git.parent()?.join(place))
}

fn head(text: &str) -> Option<String> {
    let line = text.lines().next()?.trim();
    if let Some(name) = line.strip_prefix("ref:") {
        let name = name.trim();
        let branch = name.strip_prefix("refs/heads/").unwrap_or(name);
        return (!branch.is_empty()).then(|| branch.to_owned());
    }
    let is_commit = line.len() >= 40 && line.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_commit.then(|| format!("@{}", &line[..8]))
}

fn read(path: &Path) -> Option<String> {
    let mut text = Vec::new();
    regular::open(path).ok()?.take(READ).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::fs;

    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn the_head_is_read_upward() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("work/a/b");
        fs::create_dir_all(&deep).unwrap();
        write(&root.path().join("work/.git/HEAD"), "ref: refs/heads/feature/x\n");
        assert_eq!(branch_of(&deep).unwrap(), "feature/x");
        write(&root.path().join("work/.git/HEAD"), "0123456789abcdef0123456789abcdef01234567\n");
        assert_eq!(branch_of(&deep).unwrap(), "@01234567");
        for damaged in ["", "\n", "ref:", "ref: \n", "0123", "zzzz"] {
            write(&root.path().join("work/.git/HEAD"), damaged);
            assert_eq!(branch_of(&deep), None, "{damaged:?}");
        }
    }

    #[test]
    fn a_linked_work_tree_is_followed() {
        let root = tempfile::tempdir().unwrap();
        write(&root.path().join("main/.git/worktrees/side/HEAD"), "ref: refs/heads/side\n");
        for place in [
            "../main/.git/worktrees/side".to_owned(),
            root.path().join("main/.git/worktrees/side").display().to_string(),
        ] {
            write(&root.path().join("side/.git"), &format!("gitdir: {place}\n"));
            assert_eq!(branch_of(&root.path().join("side")).unwrap(), "side");
        }
        write(&root.path().join("side/.git"), "gitdir: /nowhere\n");
        assert_eq!(branch_of(&root.path().join("side")), None);
    }

    /// What is no regular file is not waited for, and a long one not read to its end.
    #[test]
    fn odd_files_are_no_branch() {
        let root = tempfile::tempdir().unwrap();
        let head = root.path().join(".git/HEAD");
        fs::create_dir_all(head.parent().unwrap()).unwrap();
        fifo(&head);
        assert_eq!(branch_of(root.path()), None);
        fs::remove_file(&head).unwrap();
        write(&head, &"x".repeat(1 << 20));
        assert_eq!(branch_of(root.path()), None);
    }

    fn fifo(path: &Path) {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }
}
