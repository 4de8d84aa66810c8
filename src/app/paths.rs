//! Where things are: configuration, state, and the runtime directory of sockets.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

/// The directories of this run.
#[derive(Clone, Debug)]
pub struct Paths {
    /// Home of the user.
    pub home: Option<PathBuf>,
    /// Holds `cookbook-tui/config.toml`.
    pub config_home: PathBuf,
    /// Records, logs, trust.
    pub state_dir: PathBuf,
    /// Launch gates and private sockets; at most about 60 bytes long, because of unix(7).
    pub runtime_dir: PathBuf,
    /// The state directory is not the default one.
    pub own_state: bool,
}

impl Paths {
    /// Finds the directories; `state_dir` overrides the default. Makes none.
    ///
    /// # Errors
    /// When there is no home directory, or no working directory that a relative `state_dir` could be in.
    pub fn find(state_dir: Option<&Path>) -> io::Result<Self> {
        let strategy = etcetera::choose_base_strategy().map_err(io::Error::other)?;
        let default = strategy.state_dir().unwrap_or_else(|| strategy.home_dir().join(".local/state"));
        let default = default.join("cookbook-tui");
        let chosen = match state_dir {
            Some(path) => std::path::absolute(path)?,
            None => default.clone(),
        };
        Ok(Self {
            home: Some(strategy.home_dir().to_owned()),
            config_home: strategy.config_dir(),
            own_state: chosen != default,
            state_dir: chosen,
            runtime_dir: runtime_dir(),
        })
    }
}

/// `$XDG_RUNTIME_DIR/cookbook-tui`, else `/tmp/cookbook-tui-$UID`.
fn runtime_dir() -> PathBuf {
    let uid = rustix::process::getuid().as_raw();
    let usable = |dir: &OsString| {
        let path = Path::new(dir);
        // A path that leaves no room for a socket's name is of no use.
        path.is_absolute() && path.is_dir() && dir.len() <= 60
    };
    match std::env::var_os("XDG_RUNTIME_DIR").filter(usable) {
        Some(dir) => PathBuf::from(dir).join("cookbook-tui"),
        None => PathBuf::from(format!("/tmp/cookbook-tui-{uid}")),
    }
}
