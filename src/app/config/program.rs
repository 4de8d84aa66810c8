//! Looks programs up as execvp(3) will find them.
//!
//! Called by `load` for recipes, by whoever asks for tmux or ssh. Reads nothing but the given
//! `PATH` and the files in it, and starts nothing.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::recipe::Recipe;
use crate::lifecycle::spawn::is_executable;

/// Returns the file that executing the program would run.
///
/// A name with a slash is a path, and is relative to the process's working directory. Relative and
/// empty entries of `PATH` are skipped: where a session will run is not known here, and a file in a
/// working directory is not to be offered as a program.
pub fn find_program(program: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|file| is_executable(file));
    }
    let path = path?;
    let dirs = path.as_bytes().split(|b| *b == b':').map(|dir| Path::new(OsStr::from_bytes(dir)));
    dirs.filter(|dir| dir.is_absolute() && !program.is_empty())
        .map(|dir| dir.join(program))
        .find(|file| is_executable(file))
}

/// Tells whether the program of a recipe exists: in its virtual environment, on its own `PATH`, on
/// the given one. `cwd` is where the launcher stands. A line for a shell always has a program.
pub(super) fn is_found(recipe: &Recipe, path: Option<&OsStr>, cwd: &Path) -> bool {
    let Some(program) = recipe.program() else {
        return true;
    };
    if program.contains('/') {
        return is_executable(&recipe.cwd.as_deref().unwrap_or(cwd).join(program));
    }
    let in_venv = recipe.venv.as_ref().is_some_and(|venv| is_executable(&venv.join("bin").join(program)));
    in_venv || find_program(program, recipe.env.get("PATH").map(OsStr::new).or(path)).is_some()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn program(dir: &Path, name: &str, mode: u32) -> PathBuf {
        fs::create_dir_all(dir).unwrap();
        let file = dir.join(name);
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        file
    }

    #[test]
    fn programs_are_found_on_the_given_path() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        let first = program(&a, "both", 0o755);
        program(&b, "both", 0o755);
        program(&a, "second", 0o644);
        let second = program(&b, "second", 0o755);
        fs::create_dir(a.join("folder")).unwrap();
        let path = format!("::relative:/nowhere:{}:{}", a.display(), b.display());
        let find = |name: &str| find_program(name, Some(OsStr::new(&path)));
        assert_eq!(find("both"), Some(first.clone()));
        assert_eq!(find("second"), Some(second), "a file that is not executable is passed over");
        assert_eq!(find("folder"), None);
        assert_eq!(find("missing"), None);
        assert_eq!(find(""), None);
        assert_eq!(find_program("both", None), None);
        assert_eq!(find_program(first.to_str().unwrap(), None), Some(first), "a path needs no PATH");
    }
}
