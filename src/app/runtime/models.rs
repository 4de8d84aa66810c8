//! Looks for what a launch can name: programs, model files, directories. Bounded in depth, entries and time, and says
//! when it was cut short; called off the thread of the screen.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Access, access};

use super::{Inner, Runtime};
use crate::app::catalog::{Catalog, Listing, ModelFile, Roots, is_gguf, ollama_name, repo_of};

/// How deep it looks below a place where models lie about.
const DEPTH: u32 = 5;
/// How many entries it looks at in all.
const ENTRIES: usize = 50_000;
/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How many entries of one directory are listed.
const LISTED: usize = 2_000;

/// What is left of the bounds.
struct Budget {
    entries: usize,
    until: Instant,
    cut: Option<&'static str>,
}

impl Budget {
    /// Takes one entry; `false` where there is nothing left.
    fn take(&mut self) -> bool {
        if self.entries == 0 {
            self.cut = Some("there are too many files to look at all of them");
        } else if Instant::now() >= self.until {
            self.cut = Some("the disks are slow");
        } else {
            self.entries -= 1;
        }
        self.cut.is_none()
    }
}

impl Runtime {
    /// Looks for everything that a launch can name.
    pub fn catalog(&self) -> Catalog {
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let mut roots = Roots::of(self.inner.paths.home.as_deref(), variable);
        let config = self.inner.config();
        roots.gguf.extend(config.recipes.iter().filter_map(|recipe| recipe.cwd.clone()));
        roots.gguf.insert(0, self.inner.inputs.cwd.clone());
        let mut budget = Budget { entries: ENTRIES, until: Instant::now() + PATIENCE, cut: None };
        find(&roots, std::env::var_os("PATH").as_deref(), &mut budget)
    }

    /// Lists a directory as it was typed, below the working directory as it was typed.
    pub fn listing(&self, dir: &str, base: &str) -> Listing {
        let entries = self.inner.place(dir, base).map(|place| list(&place)).unwrap_or_default();
        let cut = entries.len() > LISTED;
        let entries = entries.into_iter().take(LISTED).collect();
        Listing { dir: dir.to_owned(), base: base.to_owned(), entries, cut }
    }
}

impl Inner {
    fn place(&self, dir: &str, base: &str) -> Option<PathBuf> {
        let base = self.inputs.cwd.join(self.at_home(base).ok()?);
        Some(base.join(self.at_home(dir).ok()?))
    }
}

fn find(roots: &Roots, path: Option<&std::ffi::OsStr>, budget: &mut Budget) -> Catalog {
    let mut files = BTreeSet::new();
    let mut catalog = Catalog { programs: programs(path, budget), ..Catalog::default() };
    if let Some(manifests) = &roots.ollama {
        ollama(manifests, budget, &mut catalog.ollama);
    }
    if let Some(hub) = &roots.hub {
        for (name, dir) in dirs(hub, budget) {
            let Some(repo) = repo_of(&name) else { continue };
            let snapshots = dirs(&dir.join("snapshots"), budget);
            if !snapshots.is_empty() {
                catalog.repos.push(repo);
            }
            for (_, snapshot) in snapshots {
                gguf(&snapshot, 2, budget, &mut files);
            }
        }
    }
    for root in &roots.gguf {
        gguf(root, DEPTH, budget, &mut files);
    }
    catalog.gguf = files.into_iter().collect();
    catalog.repos.sort();
    catalog.ollama.sort();
    catalog.cut = budget.cut.map(str::to_owned);
    catalog
}

/// Returns the programs on a `PATH`.
fn programs(path: Option<&std::ffi::OsStr>, budget: &mut Budget) -> Vec<String> {
    let dirs = path.map(std::env::split_paths).into_iter().flatten().filter(|dir| dir.is_absolute());
    let mut found = BTreeSet::new();
    for dir in dirs {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if !budget.take() {
                return found.into_iter().collect();
            }
            let path = entry.path();
            if path.is_file() && access(&path, Access::EXEC_OK).is_ok() {
                found.extend(entry.file_name().into_string());
            }
        }
    }
    found.into_iter().collect()
}

/// Returns the directories in a directory that are no links.
fn dirs(of: &Path, budget: &mut Budget) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(of).into_iter().flatten().flatten().take_while(|_| budget.take());
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path()))).collect()
}

/// Collects the GGUF files below a directory. A link to a file is one, as in the cache of the hub; a link to a
/// directory is not followed, and what is hidden is not looked into.
fn gguf(dir: &Path, depth: u32, budget: &mut Budget, files: &mut BTreeSet<ModelFile>) {
    let mut below = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if !budget.take() {
            return;
        }
        let (path, name) = (entry.path(), entry.file_name());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if !name.as_bytes().starts_with(b".") {
                below.push(path);
            }
        } else if name.to_str().is_some_and(is_gguf)
            && let Ok(metadata) = fs::metadata(&path)
            && metadata.is_file()
        {
            files.insert(ModelFile { path, bytes: metadata.len() });
        }
    }
    if depth > 0 {
        for dir in below {
            gguf(&dir, depth - 1, budget, files);
        }
    }
}

/// Collects the models that Ollama has manifests of.
fn ollama(manifests: &Path, budget: &mut Budget, names: &mut Vec<String>) {
    for (host, dir) in dirs(manifests, budget) {
        for (namespace, dir) in dirs(&dir, budget) {
            for (name, dir) in dirs(&dir, budget) {
                for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                    if !budget.take() {
                        return;
                    }
                    let tag = entry.file_name().into_string();
                    if let (Ok(tag), true) = (tag, entry.path().is_file()) {
                        names.push(ollama_name(&host, &namespace, &name, &tag));
                    }
                }
            }
        }
    }
}

/// Returns the names in a directory, sorted; one more than are listed where there are more.
fn list(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().take(LISTED + 1);
    let name = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        Some(if entry.path().is_dir() { name + "/" } else { name })
    };
    let mut names: Vec<String> = entries.filter_map(name).collect();
    names.sort();
    names
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn budget(entries: usize) -> Budget {
        Budget { entries, until: Instant::now() + Duration::from_secs(30), cut: None }
    }

    fn make(root: &Path, file: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "GGUF").unwrap();
    }

    #[test]
    fn models_are_found_where_they_lie() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for file in [
            "models/a.gguf",
            "models/deep/er/b-00001-of-00002.gguf",
            "models/deep/er/b-00002-of-00002.gguf",
            "models/.hidden/c.gguf",
            "models/readme.md",
            "models/1/2/3/4/5/6/too-deep.gguf",
            "hub/models--org--name/blobs/123",
            "hub/models--org--empty/refs/main",
            "hub/models--org--plain/snapshots/abc/config.json",
            "hub/datasets--x--y/snapshots/abc/d.gguf",
            "o/registry.ollama.ai/library/llama3.2/1b",
            "o/registry.ollama.ai/me/own/latest",
            "bin/tool",
            "bin/data",
        ] {
            make(root, file);
        }
        let snapshot = root.join("hub/models--org--name/snapshots/abc");
        fs::create_dir_all(&snapshot).unwrap();
        symlink("../../blobs/123", snapshot.join("m.gguf")).unwrap();
        symlink("../../blobs/gone", snapshot.join("gone.gguf")).unwrap();
        symlink(root.join("models"), root.join("models/loop")).unwrap();
        fs::set_permissions(root.join("bin/tool"), fs::Permissions::from_mode(0o755)).unwrap();
        let roots = Roots {
            gguf: vec![root.join("models"), root.join("nowhere")],
            hub: Some(root.join("hub")),
            ollama: Some(root.join("o")),
        };
        let path = root.join("bin").into_os_string();
        let found = find(&roots, Some(&path), &mut budget(1_000));
        let shown = |file: &ModelFile| file.path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        let files: Vec<String> = found.gguf.iter().map(shown).collect();
        let wanted =
            ["hub/models--org--name/snapshots/abc/m.gguf", "models/a.gguf", "models/deep/er/b-00001-of-00002.gguf"];
        assert_eq!(files, wanted);
        assert_eq!(found.gguf[0].bytes, 4);
        assert_eq!(found.repos, ["org/name", "org/plain"]);
        assert_eq!(found.ollama, ["llama3.2:1b", "me/own:latest"]);
        assert_eq!((found.programs, found.cut), (vec!["tool".to_owned()], None));
    }

    #[test]
    fn a_look_that_is_cut_short_says_so() {
        let dir = tempfile::tempdir().unwrap();
        (0..20).for_each(|n| make(dir.path(), &format!("{n}.gguf")));
        let roots = Roots { gguf: vec![dir.path().to_owned()], ..Roots::default() };
        let found = find(&roots, None, &mut budget(5));
        assert_eq!((found.gguf.len(), found.cut.is_some()), (5, true));
        let late = Budget { entries: 100, until: Instant::now(), cut: None };
        let found = find(&roots, None, &mut { late });
        assert_eq!((found.gguf.len(), found.cut.as_deref()), (0, Some("the disks are slow")));
    }

    #[test]
    fn a_directory_is_listed() {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path(), "b/x");
        make(dir.path(), "a");
        assert_eq!(list(dir.path()), ["a", "b/"]);
        assert_eq!(list(&dir.path().join("none")), [] as [&str; 0]);
    }
}
