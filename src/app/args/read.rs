//! Reads the command line; where there is nothing to be read, without the table of all options.

use std::ffi::OsString;

use clap::Parser as _;

use super::{Args, VARIABLES};

impl Args {
    /// Reads the arguments of the program, of which the first is its name.
    ///
    /// # Errors
    /// With what is wrong with them, or what was asked for, as the help.
    pub fn read(arguments: Vec<OsString>) -> Result<Self, clap::Error> {
        // Nothing to be parsed: the table of all options alone takes a millisecond to make.
        if arguments.len() <= 1 && VARIABLES.iter().all(|name| std::env::var_os(name).is_none()) {
            return Ok(Self::none());
        }
        Self::try_parse_from(arguments)
    }

    /// Returns what stands for no arguments at all.
    fn none() -> Self {
        Self {
            config: None,
            state_dir: None,
            tmux_socket: None,
            inspector: None,
            log_level: tracing::Level::WARN,
            no_color: false,
            batch: None,
            plain: false,
            fail_fast: false,
            action: None,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_what_the_parser_makes_of_nothing() {
        // Where one of the variables is set, it is the parser that reads it.
        let parsed = Args { config: None, state_dir: None, ..Args::try_parse_from(["cookbook-tui"]).unwrap() };
        assert_eq!(format!("{:?}", Args::none()), format!("{parsed:?}"));
    }
}
