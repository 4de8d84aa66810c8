//! An editor on our terminal, with a text in a file that is removed when it ends.
//!
//! Called by `run` once the screen has left the terminal; waits on a thread of its own.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::lifecycle::regular;
use crate::lifecycle::spawn::{End, Spec, start as spawn};

/// Statuses of a shell that found no such program, or may not execute it.
const NOT_STARTED: [Option<i32>; 2] = [Some(126), Some(127)];

/// Starts `$VISUAL`, else `$EDITOR`, else vi, and calls `ended` when it has ended, or could not begin. The errors say what
/// did not work.
pub(super) fn start(text: &str, ended: impl FnOnce(Result<(), String>) + Send + 'static) -> Result<(), String> {
    let editor = ["VISUAL", "EDITOR"].into_iter().filter_map(|name| std::env::var(name).ok());
    let editor = editor.into_iter().find(|editor| !editor.trim().is_empty()).unwrap_or_else(|| "vi".to_owned());
    start_as(&editor, text, ended)
}

fn start_as(editor: &str, text: &str, ended: impl FnOnce(Result<(), String>) + Send + 'static) -> Result<(), String> {
    let path = file(text).map_err(|error| format!("failed to write the text for the editor: {error}"))?;
    let editor = editor.to_owned();
    // The variable may hold arguments, in the shell's words.
    let line = format!("{editor} \"$1\"");
    let argv = ["sh".as_ref(), "-c".as_ref(), line.as_ref(), "sh".as_ref(), path.as_os_str()];
    let child = spawn(&Spec::new(argv), End::Inherit, End::Inherit, End::Inherit);
    match child {
        Ok(mut child) => {
            std::thread::spawn(move || {
                // However it ends, the terminal is ours again.
                let status = child.wait();
                remove(&path);
                let begun = !status.is_ok_and(|status| NOT_STARTED.contains(&status.code()));
                ended(if begun { Ok(()) } else { Err(format!("the editor {editor} was not found (set EDITOR)")) });
            });
            Ok(())
        }
        Err(error) => {
            remove(&path);
            Err(format!("failed to start {editor}: {error} (set EDITOR)"))
        }
    }
}

/// Writes a text to a new file that nobody else can read.
fn file(text: &str) -> std::io::Result<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("cookbook-tui-{}-{}.txt", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    let mut file = regular::private(OpenOptions::new().write(true).create_new(true), &path)?;
    file.write_all(text.as_bytes())?;
    Ok(path)
}

fn remove(path: &Path) {
    // It may be gone already: an editor may have removed it.
    fs::remove_file(path).ok();
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_editor_that_cannot_begin_is_told_from_one_that_fails() {
        let check = |editor: &str, expected: Result<(), &str>| {
            let (sender, ended) = channel();
            start_as(editor, "text", move |result| sender.send(result).unwrap()).unwrap();
            let result = ended.recv_timeout(Duration::from_secs(20)).unwrap();
            assert_eq!(result, expected.map_err(str::to_owned), "{editor}");
        };
        check("true", Ok(()));
        check("false", Ok(()));
        check("grep -q text", Ok(()));
        check("/dev/null", Err("the editor /dev/null was not found (set EDITOR)"));
        check("no-such-editor --x", Err("the editor no-such-editor --x was not found (set EDITOR)"));
    }
}
