//! What can go wrong with tmux, told apart by what it says about the world.
//!
//! The classification of tmux's own words is pure. The words do not depend on the locale: tmux
//! translates nothing, and the text of an errno that may follow in parentheses is not looked at.

use std::io;
use std::path::PathBuf;

use crate::lifecycle::identity::Pid;

use super::ids::PaneId;
use super::keys::KeyError;
use super::version::Version;

/// An answer of tmux that is not in the form it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed {what} from tmux: {reason}: {row:?}")]
pub struct ParseError {
    what: &'static str,
    reason: String,
    /// The row as it came, lossy where it was not UTF-8.
    pub row: String,
}

impl ParseError {
    pub(super) fn new(what: &'static str, row: &[u8], reason: impl Into<String>) -> Self {
        Self { what, reason: reason.into(), row: String::from_utf8_lossy(row).into_owned() }
    }
}

/// Why tmux did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum TmuxError {
    /// There is no such program.
    #[error("tmux is not installed: there is no {program} on PATH")]
    NotInstalled {
        /// What was looked for.
        program: String,
    },
    /// The program could not be started or read.
    #[error("failed to run tmux")]
    Io(#[source] io::Error),
    /// Nobody listens on the socket. A server whose socket was deleted may still be alive, with all of its
    /// sessions: whoever knows a server's pid looks for that process before calling its sessions gone.
    #[error("no tmux server answers on {}", socket.display())]
    NoServer {
        /// The socket.
        socket: PathBuf,
    },
    /// The server went away while it was asked, as one does with its last session. Whether it did what it was
    /// asked is not known.
    #[error("the tmux server went away: {0}")]
    ServerLost(String),
    /// The server says that it has no such session.
    #[error("tmux {0}")]
    NoSession(String),
    /// The server says that it has no such window.
    #[error("tmux {0}")]
    NoWindow(String),
    /// The server says that it has no such pane.
    #[error("tmux {0}")]
    NoPane(String),
    /// The pane's program has ended, so that nothing can be typed into it.
    #[error("the program in tmux pane {0} has ended")]
    PaneDead(PaneId),
    /// The pane takes no input (`select-pane -d`).
    #[error("input to tmux pane {0} is switched off")]
    InputOff(PaneId),
    /// It did not answer in time. Whether it did what it was asked is not known, and a stopped server
    /// may still do it when it is continued.
    #[error("tmux did not answer within 2 s ({asked}); {}", continues(*stopped))]
    Timeout {
        /// What was asked: the name of the command.
        asked: String,
        /// The server, where it is seen to be stopped.
        stopped: Option<Pid>,
    },
    /// The socket cannot be used, so that nothing is known about what is behind it.
    #[error("the tmux server cannot be reached: {0}")]
    Unreadable(String),
    /// Another server answers than the one that was meant.
    #[error("tmux server {expected} was expected on the socket, found {found}")]
    ForeignServer {
        /// The pid that was expected.
        expected: Pid,
        /// What is there instead.
        found: String,
    },
    /// It answered with an error of another kind.
    #[error("tmux failed: {stderr}: {argv}")]
    Failed {
        /// What was asked, without its payload.
        argv: String,
        /// What it said.
        stderr: String,
    },
    /// Its answer could not be understood.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The key cannot be named to tmux.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The request cannot be put to tmux.
    #[error("{0}")]
    Invalid(String),
    /// It is older than 3.2.
    #[error("tmux {version} is too old, 3.2 or newer is needed")]
    TooOld {
        /// What is installed.
        version: Version,
    },
}

/// Returns the way out of a silence.
fn continues(stopped: Option<Pid>) -> String {
    stopped.map_or_else(
        || "`cookbook-tui doctor` tells more".to_owned(),
        |pid| format!("its server is stopped: `kill -CONT {pid}` lets it go on"),
    )
}

impl TmuxError {
    /// Tells whether a server answered that the target does not exist. Every other error says that
    /// nobody could look, which is not an absence.
    pub const fn is_absence(&self) -> bool {
        matches!(self, Self::NoSession(_) | Self::NoWindow(_) | Self::NoPane(_))
    }
}

/// What tmux's standard error amounts to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Complaint {
    /// Nobody could be connected to: why, the socket knows better than the text.
    Connect,
    /// The server went away in between.
    Lost,
    /// The server, or tmux's own checks, deny us.
    Denied,
    /// No such session.
    Session,
    /// No such window.
    Window,
    /// No such pane.
    Pane,
    /// Something else.
    Other,
}

/// Classifies what tmux said; also returns the line that decided. Names of others can stand inside such a
/// line, never at its start.
pub(super) fn classify(stderr: &str) -> (Complaint, &str) {
    const STARTS: [(&str, Complaint); 16] = [
        ("no server running on ", Complaint::Connect),
        ("error connecting to ", Complaint::Connect),
        ("server exited", Complaint::Lost),
        ("lost server", Complaint::Lost),
        ("access not allowed", Complaint::Denied),
        ("couldn't create directory ", Complaint::Denied),
        ("couldn't read directory ", Complaint::Denied),
        ("can't find session: ", Complaint::Session),
        ("can't find window: ", Complaint::Window),
        ("can't find pane: ", Complaint::Pane),
        // The words of set-option.
        ("no such session: ", Complaint::Session),
        ("no such window: ", Complaint::Window),
        ("no such pane: ", Complaint::Pane),
        // A server whose last session has just gone has no target to compare its pid on.
        ("no current target", Complaint::Session),
        ("protocol version mismatch ", Complaint::Denied),
        ("no suitable socket path", Complaint::Denied),
    ];
    for line in stderr.lines() {
        if let Some((_, complaint)) = STARTS.iter().find(|(start, _)| line.starts_with(start)) {
            return (complaint.clone(), line);
        }
        if line.starts_with("directory ") && line.ends_with(" has unsafe permissions")
            || line.ends_with(" is not a directory")
        {
            return (Complaint::Denied, line);
        }
    }
    (Complaint::Other, stderr.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_told_apart() {
        for (stderr, complaint) in [
            ("no server running on /tmp/tmux-0/x\n", Complaint::Connect),
            ("error connecting to /tmp/tmux-0/x (No such file or directory)", Complaint::Connect),
            ("error connecting to /tmp/tmux-0/x (Keine Berechtigung)", Complaint::Connect),
            ("server exited unexpectedly", Complaint::Lost),
            ("lost server", Complaint::Lost),
            ("directory /tmp/tmux-0 has unsafe permissions", Complaint::Denied),
            ("/tmp/tmux-0 is not a directory", Complaint::Denied),
            ("couldn't create directory /x (y)", Complaint::Denied),
            ("access not allowed", Complaint::Denied),
            // The words of set-option.
            ("no such session: ", Complaint::Session),
            ("no such window: ", Complaint::Window),
            ("no such pane: ", Complaint::Pane),
            ("protocol version mismatch (client 8, server 7)", Complaint::Denied),
            ("can't find session: $9", Complaint::Session),
            ("can't find window: @9", Complaint::Window),
            ("can't find pane: %99", Complaint::Pane),
            ("no such session: $9", Complaint::Session),
            ("no such window: @9", Complaint::Window),
            ("no such pane: %99", Complaint::Pane),
            ("no current target", Complaint::Session),
            ("something first\ncan't find pane: %99\n", Complaint::Pane),
            ("duplicate session: can't find session: x", Complaint::Other),
            ("unknown command: list-panes", Complaint::Other),
            ("", Complaint::Other),
        ] {
            assert_eq!(classify(stderr).0, complaint, "{stderr}");
        }
        assert_eq!(classify("x\ncan't find pane: %9\n").1, "can't find pane: %9");
    }

    #[test]
    fn only_an_answer_of_the_server_is_an_absence() {
        assert!(TmuxError::NoSession(String::new()).is_absence());
        assert!(TmuxError::NoWindow(String::new()).is_absence());
        assert!(TmuxError::NoPane(String::new()).is_absence());
        for error in [
            TmuxError::NotInstalled { program: String::new() },
            TmuxError::Io(io::ErrorKind::NotFound.into()),
            TmuxError::NoServer { socket: PathBuf::new() },
            TmuxError::ServerLost(String::new()),
            TmuxError::PaneDead(PaneId::new(0)),
            TmuxError::InputOff(PaneId::new(0)),
            TmuxError::Timeout { asked: String::new(), stopped: None },
            TmuxError::Unreadable(String::new()),
            TmuxError::Failed { argv: String::new(), stderr: String::new() },
            TmuxError::Invalid(String::new()),
            TmuxError::Parse(ParseError::new("row", b"", "")),
        ] {
            assert!(!error.is_absence(), "{error}");
        }
    }
}
