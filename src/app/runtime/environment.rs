//! The environment of a workload: the launcher's and the recipe's, without what is ours. Pure.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use crate::app::contract::{HostKind, Kind};
use crate::app::notify::SESSION;
use crate::lifecycle::rows::MARKER;

/// What the environment is made of.
pub(super) struct Ingredients<'a> {
    pub(super) session: &'a str,
    pub(super) marker: &'a str,
    pub(super) kind: Kind,
    pub(super) host: HostKind,
    pub(super) recipe: &'a BTreeMap<String, String>,
    pub(super) request: &'a BTreeMap<String, String>,
    pub(super) gpus: Option<&'a str>,
    pub(super) venv: Option<&'a Path>,
    /// Private tmux directory of an agent.
    pub(super) tmux_tmpdir: Option<&'a Path>,
    /// The state directory, where it is not the default one: `notify` has to find it.
    pub(super) state_dir: Option<&'a Path>,
}

/// Variables of the launcher that describe the launcher's terminal or our own doings.
const NOT_INHERITED: [&str; 9] =
    ["TMUX", "TMUX_PANE", "COLUMNS", "LINES", "TERMCAP", "WINDOWID", SESSION, MARKER, "COOKBOOK_TUI_LINK"];

/// Builds the environment of a workload from the launcher's.
pub(super) fn build(
    launcher: impl Iterator<Item = (OsString, OsString)>,
    of: &Ingredients<'_>,
) -> Vec<(OsString, OsString)> {
    let mut env: BTreeMap<OsString, OsString> =
        launcher.filter(|(name, _)| !NOT_INHERITED.iter().any(|ours| name == ours)).collect();
    let mut set = |name: &str, value: OsString| drop(env.insert(name.into(), value));
    if of.host == HostKind::Pty {
        set("TERM", "xterm-256color".into());
        set("COLORTERM", "truecolor".into());
    }
    if let Some(gpus) = of.gpus {
        set("CUDA_VISIBLE_DEVICES", gpus.into());
    }
    for (name, value) in of.recipe.iter().chain(of.request) {
        set(name, value.into());
    }
    set(SESSION, of.session.into());
    set(MARKER, of.marker.into());
    if let Some(dir) = of.state_dir {
        set("COOKBOOK_TUI_STATE_DIR", dir.into());
    }
    // A `kill-server` typed by an agent must not end the sessions of its neighbours.
    if let (Kind::Agent, Some(dir)) = (of.kind, of.tmux_tmpdir) {
        set("TMUX_TMPDIR", dir.into());
    }
    if let Some(venv) = of.venv {
        set("VIRTUAL_ENV", venv.into());
        let bin = venv.join("bin");
        let old = env.get(&OsString::from("PATH")).cloned().unwrap_or_default();
        let path = std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&old)));
        // A directory with a colon in its name cannot be on PATH at all.
        env.insert("PATH".into(), path.unwrap_or(old));
    }
    env.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(launcher: &[(&str, &str)], change: impl FnOnce(&mut Ingredients<'_>), name: &str, expected: Option<&str>) {
        let (none, request) = (BTreeMap::new(), BTreeMap::from([("A".to_owned(), "request".to_owned())]));
        let mut of = Ingredients {
            session: "agent-00000000",
            marker: "m",
            kind: Kind::Agent,
            host: HostKind::Pty,
            recipe: &none,
            request: &request,
            gpus: None,
            venv: None,
            tmux_tmpdir: None,
            state_dir: None,
        };
        change(&mut of);
        let env = build(launcher.iter().map(|(k, v)| ((*k).into(), (*v).into())), &of);
        let found = env.iter().find(|(known, _)| known == name).map(|(_, value)| value.to_string_lossy().into_owned());
        assert_eq!(found.as_deref(), expected, "{name}");
    }

    #[test]
    fn the_launcher_shines_through_except_for_its_terminal() {
        check(&[("HOME", "/h")], |_| {}, "HOME", Some("/h"));
        check(&[("TMUX", "/x,1,2")], |_| {}, "TMUX", None);
        check(&[("COOKBOOK_TUI_MARKER", "other")], |_| {}, "COOKBOOK_TUI_MARKER", Some("m"));
        check(&[("TERM", "linux")], |_| {}, "TERM", Some("xterm-256color"));
        check(&[("A", "launcher")], |_| {}, "A", Some("request"));
        check(&[], |_| {}, "COOKBOOK_TUI_SESSION", Some("agent-00000000"));
    }

    #[test]
    fn a_session_finds_the_records_that_name_it() {
        check(&[], |_| {}, "COOKBOOK_TUI_STATE_DIR", None);
        let other = |of: &mut Ingredients<'_>| of.state_dir = Some(Path::new("/s"));
        check(&[("COOKBOOK_TUI_STATE_DIR", "s")], other, "COOKBOOK_TUI_STATE_DIR", Some("/s"));
    }

    #[test]
    fn gpus_venv_and_private_tmux() {
        check(&[], |of| of.gpus = Some("0,1"), "CUDA_VISIBLE_DEVICES", Some("0,1"));
        check(&[("PATH", "/bin")], |of| of.venv = Some(Path::new("/v")), "PATH", Some("/v/bin:/bin"));
        check(&[], |of| of.venv = Some(Path::new("/v")), "VIRTUAL_ENV", Some("/v"));
        check(&[], |of| of.tmux_tmpdir = Some(Path::new("/t")), "TMUX_TMPDIR", Some("/t"));
        let shell = |of: &mut Ingredients<'_>| {
            of.kind = Kind::Shell;
            of.tmux_tmpdir = Some(Path::new("/t"));
        };
        check(&[], shell, "TMUX_TMPDIR", None);
    }
}
