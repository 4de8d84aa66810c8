//! What can go wrong, as the contract names it, and the exit codes.

use serde::{Deserialize, Serialize};

use super::contract::LaunchField;

/// The kind of an error, as scripts tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The request itself is wrong.
    Usage,
    /// The configuration is wrong.
    Config,
    /// There is no such session or recipe.
    NotFound,
    /// It must not be done.
    Refused,
    /// It was tried and did not come true.
    Failed,
    /// Nobody can tell whether it may be done.
    Unverifiable,
    /// It took too long.
    Timeout,
    /// tmux did not do its part.
    Tmux,
    /// The pseudo-terminal did not do its part.
    Pty,
    /// The records on disk are not usable.
    State,
    /// The operating system refused something.
    Io,
    /// A fault of this program.
    Internal,
}

/// An error with its kind; the message names the thing, the place and the way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct AppError {
    /// Which kind.
    pub kind: ErrorKind,
    /// What a person reads.
    pub message: String,
    /// Which part of a launch is wrong, where one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<About>,
}

/// Which part of a launch an error is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The field of the request.
    pub field: LaunchField,
    /// The session of ours that is in the way: where it is replaced, the launch can come true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
}

impl AppError {
    /// Returns an error of a kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: without_numbers(message.into()), about: None }
    }

    /// Returns the same error, about a field of a launch.
    #[must_use]
    pub fn at(self, field: LaunchField) -> Self {
        Self { about: Some(About { field, holder: None }), ..self }
    }

    /// Returns the same error, because of a session that has what the field asks for.
    #[must_use]
    pub fn held(self, field: LaunchField, holder: Option<String>) -> Self {
        Self { about: Some(About { field, holder }), ..self }
    }

    /// Returns the exit code that the error alone leads to.
    pub fn exit(&self) -> Exit {
        match self.kind {
            ErrorKind::Usage | ErrorKind::Config => Exit::Usage,
            ErrorKind::NotFound => Exit::NotFound,
            ErrorKind::Refused | ErrorKind::Unverifiable => Exit::NotClean,
            ErrorKind::Internal => Exit::Internal,
            ErrorKind::Failed
            | ErrorKind::Timeout
            | ErrorKind::Tmux
            | ErrorKind::Pty
            | ErrorKind::State
            | ErrorKind::Io => Exit::Failed,
        }
    }
}

/// Takes the numbers of the operating system out that the standard library puts behind its words: `(os error 2)`.
pub(super) fn without_numbers(mut message: String) -> String {
    const BEFORE: &str = " (os error ";
    while let Some(begin) = message.find(BEFORE) {
        let digits = message[begin + BEFORE.len()..].bytes().take_while(u8::is_ascii_digit).count();
        let end = begin + BEFORE.len() + digits;
        if digits == 0 || !message[end..].starts_with(')') {
            break;
        }
        message.replace_range(begin..=end, "");
    }
    message
}

/// How the program ends. With several reasons the greatest in [`Exit::or`]'s order wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exit {
    /// All well.
    #[default]
    Ok,
    /// A command failed.
    Failed,
    /// No such session or recipe.
    NotFound,
    /// Something survived, stayed unverifiable, was refused or is still held.
    NotClean,
    /// Usage or configuration.
    Usage,
    /// A fault of this program.
    Internal,
}

impl Exit {
    /// Returns the status for exit(3).
    pub const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotClean => 3,
            Self::NotFound => 4,
            Self::Internal => 70,
        }
    }

    /// Returns the graver of the two: 70 > 2 > 3 > 4 > 1 > 0.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        if self as u8 >= other as u8 { self } else { other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_no_numbers_of_the_operating_system() {
        let check = |text: &str, expected| assert_eq!(AppError::new(ErrorKind::Io, text).message, expected);
        let error = std::io::Error::from_raw_os_error(2);
        check(&format!("x: {error}; y: {error}"), "x: No such file or directory; y: No such file or directory");
        for text in ["", "x (os error )", "x (os error 2", "(os error 2)", "x (os error two)"] {
            check(text, text);
        }
    }

    #[test]
    fn the_graver_exit_wins() {
        let order = [Exit::Ok, Exit::Failed, Exit::NotFound, Exit::NotClean, Exit::Internal];
        for (i, a) in order.iter().enumerate() {
            for (j, b) in order.iter().enumerate() {
                assert_eq!(a.or(*b), order[i.max(j)]);
            }
        }
        assert_eq!(order.map(Exit::code), [0, 1, 4, 3, 70]);
    }
}
