//! A socket in the file system that a server is to listen on, and what keeps it from that.

use super::suggest::Suggestion;
use crate::app::contract::CommandLine;

/// What is where the socket is to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Socket {
    /// Nobody has looked, or there is to be none.
    #[default]
    Unknown,
    /// Nothing that was there before the server was.
    Free,
    /// A socket that was there before the server was, and on which somebody listens.
    Served,
    /// A socket that was there before the server was, and on which nobody listens: its name is given to nobody else (unix(7)).
    Left,
    /// Another kind of file.
    OtherFile,
    /// Not even a folder.
    NoFolder,
}

impl Socket {
    /// Tells whether no server can listen there.
    pub(super) const fn is_in_the_way(self) -> bool {
        matches!(self, Self::Served | Self::Left | Self::OtherFile | Self::NoFolder)
    }

    /// Says why a server could not listen on the socket of this name.
    pub(super) fn fault(self, name: Option<&str>) -> (String, Suggestion) {
        let quoted = name.map(|name| format!(" {name:?}")).unwrap_or_default();
        let before = |text: &str, words: &[&str]| match name {
            Some(name) => Suggestion::before(
                text,
                CommandLine::Argv(words.iter().chain(&[name]).map(|word| (*word).to_owned()).collect()),
            ),
            None => Suggestion::words(text),
        };
        match self {
            Self::Served => {
                let detail = format!("its socket{quoted} is there already, and somebody listens on it");
                (detail, Suggestion::words("take another name for it"))
            }
            Self::Left => {
                let detail = format!(
                    "its socket{quoted} is there already, though nobody listens on it: a server that has ended leaves it"
                );
                (detail, before("remove it, then start the server again", &["rm", "--"]))
            }
            Self::OtherFile => {
                let detail = format!("where its socket{quoted} is to be there is another file");
                (detail, Suggestion::words("take another name for it"))
            }
            Self::NoFolder => {
                let detail = format!("the folder of its socket{quoted} is not there");
                (detail, Suggestion::words("make it, or take another name for the socket"))
            }
            Self::Unknown | Self::Free => {
                let detail = format!("it could not listen on its socket{quoted}");
                (detail, Suggestion::words("check whether it may be made there"))
            }
        }
    }
}
