//! Reads the command line; where there is nothing to be read, without the table of all options.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser as _;

use super::Args;

impl Args {
    /// Reads the arguments of the program, of which the first is its name.
    ///
    /// # Errors
    /// With what is wrong with them, or what was asked for, as the help.
    pub fn read(arguments: Vec<OsString>) -> Result<Self, clap::Error> {
        // Nothing to be parsed: the table of all options alone takes a millisecond to make.
        let read = if arguments.len() <= 1 { Self::none() } else { Self::try_parse_from(arguments)? };
        Ok(read.or_variables(|name| std::env::var_os(name)))
    }

    /// Takes what no option says from the variables that stand in for one. An empty one says nothing.
    fn or_variables(self, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let path = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Self {
            config: self.config.or_else(|| path("COOKBOOK_TUI_CONFIG")),
            state_dir: self.state_dir.or_else(|| path("COOKBOOK_TUI_STATE_DIR")),
            ..self
        }
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
        let parsed = Args::try_parse_from(["cookbook-tui"]).unwrap();
        assert_eq!(format!("{:?}", Args::none()), format!("{parsed:?}"));
    }

    #[test]
    fn a_variable_stands_in_for_an_option_that_is_not_there() {
        for (option, value, expected) in [
            (None, None, None),
            (None, Some(""), None),
            (None, Some("/v"), Some("/v")),
            (Some("/o"), Some("/v"), Some("/o")),
            (Some("/o"), Some(""), Some("/o")),
        ] {
            let given = Args { state_dir: option.map(PathBuf::from), ..Args::none() };
            let of = |name: &str| value.filter(|_| name == "COOKBOOK_TUI_STATE_DIR").map(OsString::from);
            let read = given.or_variables(of);
            assert_eq!((read.state_dir, read.config), (expected.map(PathBuf::from), None), "{option:?} {value:?}");
        }
    }
}
