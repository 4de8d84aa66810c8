//! `doctor` from the start on: what cannot be opened is a line like any other, and the rest is looked at all the same.

use std::borrow::Cow;

use super::{inputs, log_to, write_tmux_config};
use crate::app::args::Args;
use crate::app::cli;
use crate::app::command::{Answer, Check, CheckState};
use crate::app::config::Config;
use crate::app::configure::configure;
use crate::app::error::{ErrorKind, Exit};
use crate::app::paths::Paths;
use crate::app::runtime::doctor::{Host, fail, warn};
use crate::app::runtime::host_checks::{Place, directory};
use crate::app::runtime::{Runtime, Setup};
use crate::lifecycle::inspect::Inspector;
use crate::lifecycle::store::private_dir;
use crate::tmux::Server;

const CONFIG: &str = "configuration";

/// Looks at this host, prints what there is to say, and returns how that ends.
pub(super) fn run(args: &Args, as_json: bool) -> Exit {
    cli::finish(&Ok(Answer::Doctor(checks(args))), as_json)
}

fn checks(args: &Args) -> Vec<Check> {
    let mut found = Vec::new();
    let inspector = noted(&mut found, Inspector::open(args.inspector), |error| {
        fail("inspector", format!("it does not work on this host: {error}"), "choose another with --inspector")
    });
    let host = Host { inspector: inspector.as_ref(), server: None, paths: None, config: None, found: Vec::new() };
    let found_paths = Paths::find(args.state_dir.as_deref());
    let Some(paths) = noted(&mut found, found_paths, |error| {
        fail(
            Place::State.name(),
            format!("failed to find the directories: {error}"),
            "set HOME, and name a state directory by its whole path",
        )
    }) else {
        return Host { found, ..host }.checks();
    };
    let places = [(Place::State, &paths.state_dir), (Place::Runtime, &paths.runtime_dir)];
    let places = places.map(|(place, path)| match private_dir(path) {
        Ok(()) => directory(place, path),
        Err(error) => place.unusable(&error),
    });
    let state = places[0].state;
    found.extend(places);
    if state != CheckState::Fail {
        log_to(&paths.state_dir, args.log_level);
    }
    let inputs = inputs(args, &paths);
    let config = noted(&mut found, configure(&inputs, None), |error| fail(CONFIG, error.to_string(), "mend the file"));
    let server = server(args, &paths, config.as_ref(), state, &mut found);
    let host = Host { server: server.as_ref(), paths: Some(&paths), config: config.as_ref(), ..host };
    // Another inspector than the one that is looked with: a runtime has its own.
    let (Some(server), Ok(inspector)) = (&server, Inspector::open(args.inspector)) else {
        return Host { found, ..host }.checks();
    };
    let setup = Setup {
        paths: paths.clone(),
        config: config.clone().unwrap_or_default(),
        inputs,
        inspector,
        server: server.clone(),
        attended: true,
    };
    match Runtime::new(setup) {
        Ok(runtime) => runtime.doctor(found),
        Err(error) if error.kind == ErrorKind::Config => {
            found.push(fail(CONFIG, error.message, "mend the file"));
            Host { found, ..host }.checks()
        }
        Err(error) => {
            // Where the directory itself is at fault, its own line says so.
            if state != CheckState::Fail {
                found.push(fail("records", error.message, "look at the directory"));
            }
            Host { found, ..host }.checks()
        }
    }
}

/// Returns our tmux server, if it is known which one that is.
fn server(
    args: &Args,
    paths: &Paths,
    config: Option<&Config>,
    state: CheckState,
    found: &mut Vec<Check>,
) -> Option<Server> {
    const NAME: &str = "tmux server";
    if config.is_none() && args.tmux_socket.is_none() {
        let detail = "not looked at: the configuration names its socket";
        found.push(warn(NAME, detail, "mend the configuration, or name the socket with --tmux-socket"));
    }
    let config = config.map_or_else(Cow::default, Cow::Borrowed);
    let named = super::server(args, paths, &config);
    let (server, conf) = noted(found, named, |error| fail(NAME, error.message, "name another socket"))?;
    // Where the state directory takes no files its own line says so.
    if let (Some(conf), true) = (conf, state != CheckState::Fail) {
        noted(found, write_tmux_config(&conf), |error| fail(NAME, error.message, "move what is there away"));
    }
    Some(server)
}

/// Takes a result; an error becomes a line.
fn noted<T, E>(found: &mut Vec<Check>, result: Result<T, E>, line: impl FnOnce(E) -> Check) -> Option<T> {
    result.map_err(|error| found.push(line(error))).ok()
}
