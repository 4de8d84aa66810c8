//! What a launch comes to: a request with everything settled that it left open. Looks at the disk, makes nothing.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::environment::{Ingredients, build};
use super::launch::{io, tmux, usage};
use super::limits::{DAY_S, ceiling, grace};
use super::preflight::{Intent, check_venv};
use super::queue::Entry;
use super::session::Session;
use super::{Inner, not_found};
use crate::app::config::{Config, Escapees, Recipe, Restart, are_gpus, is_name};
use crate::app::contract::{CommandLine, HostKind, Kind, LaunchField, LaunchRequest};
use crate::app::error::{AppError, ErrorKind};
use crate::lifecycle::ceiling::RENEWED_S;
use crate::lifecycle::store::random_hex;
use crate::pty::screen::Size;
use crate::text::{self, MASK};
use crate::tmux::TmuxError;

/// A request with everything settled that it left open.
pub(super) struct Plan {
    pub(super) id: String,
    pub(super) marker: String,
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) host: HostKind,
    pub(super) argv: Vec<String>,
    pub(super) cwd: PathBuf,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) size: Size,
    pub(super) grace_s: f64,
    pub(super) ceiling_s: f64,
    pub(super) renew_s: Option<f64>,
    pub(super) stop_signal: Option<String>,
    pub(super) report_escapees: bool,
    pub(super) origin: Option<String>,
    pub(super) env_names: Vec<String>,
    /// What it chose in the place of its recipe's.
    pub(super) gpus: Option<String>,
    pub(super) venv: Option<String>,
    /// Its command is not its recipe's.
    pub(super) own_command: bool,
    pub(super) exclusive: Option<String>,
    pub(super) restart: bool,
    pub(super) notes: Vec<String>,
    /// Private tmux directory of an agent; to be made.
    pub(super) tmux_tmpdir: Option<PathBuf>,
}

impl Plan {
    pub(super) fn entry(&self) -> Entry<'_> {
        Entry {
            id: &self.id,
            name: &self.name,
            kind: self.kind,
            host: self.host,
            origin: self.origin.as_deref(),
            command: text::mask_argv(&self.argv).join(" "),
            cwd: self.cwd.to_string_lossy().into_owned(),
        }
    }
}

/// Where a launch runs, and on what.
struct Place {
    cwd: PathBuf,
    venv: Option<PathBuf>,
    gpus: Option<String>,
}

impl Inner {
    /// Settles a request. `replaced` are to be stopped before it is launched.
    pub(super) fn plan(&self, request: &LaunchRequest, replaced: &[Arc<Session>]) -> Result<Plan, AppError> {
        let config = self.config();
        let recipe = base(&config, request)?;
        if let Some(machine) = request.machine.as_deref().filter(|machine| *machine != "local") {
            return Err(usage(format!(
                "machine {machine:?} is another computer, and this version launches on this one only; leave it out or say \"local\""
            )));
        }
        if let Some((recipe, why)) = recipe.and_then(|recipe| Some((recipe, recipe.refused.as_deref()?))) {
            return Err(AppError::new(ErrorKind::Refused, format!("recipe {:?} is not launched: {why}", recipe.name))
                .at(LaunchField::Recipe));
        }
        let command = request.command.as_ref().or(recipe.map(|recipe| &recipe.command));
        let argv = command.map(CommandLine::argv).unwrap_or_default();
        check_command(command, request.command.is_some(), &argv)?;
        let kind = request.kind.or(recipe.map(|recipe| recipe.kind)).unwrap_or(Kind::Shell);
        let (host, mut notes) = self.choose_host(request, recipe, kind)?;
        let chosen = request.ceiling_s.or(recipe.and_then(|recipe| recipe.ceiling_s));
        let ceiling_s = ceiling(chosen.unwrap_or(match (host, kind) {
            (HostKind::Tmux, Kind::Agent | Kind::Shell) if self.attended => 2.0 * DAY_S,
            (HostKind::Tmux, Kind::Serve | Kind::Download) if self.attended => RENEWED_S,
            (HostKind::Pty | HostKind::Tmux, _) => DAY_S,
        }))?;
        let renew_s = Some(RENEWED_S).filter(|_| {
            let by_default = chosen.is_none() && self.attended && host == HostKind::Tmux;
            by_default && matches!(kind, Kind::Serve | Kind::Download)
        });
        let grace_s = grace(request.grace_s.or(recipe.and_then(|recipe| recipe.stop.grace_s)))?;
        let Place { cwd, venv, gpus } = self.settle_place(request, recipe)?;
        let id = self.fresh_id(kind);
        let marker = format!("{}{}", random_hex(), random_hex());
        let empty = BTreeMap::new();
        let tmux_tmpdir = (kind == Kind::Agent).then(|| self.paths.runtime_dir.join(format!("t-{id}")));
        let requested = request.env.as_ref().unwrap_or(&empty);
        check_variables(requested)?;
        let ingredients = Ingredients {
            session: &id,
            marker: &marker,
            kind,
            host,
            recipe: recipe.map_or(&empty, |recipe| &recipe.env),
            request: requested,
            gpus: gpus.as_deref(),
            venv: venv.as_deref(),
            tmux_tmpdir: tmux_tmpdir.as_deref(),
            state_dir: Some(self.paths.state_dir.as_path()).filter(|_| self.paths.own_state),
        };
        let env = build(std::env::vars_os(), &ingredients);
        if let Some(command) = command {
            notes.extend(self.preflight(&Intent { command, kind, cwd: &cwd, env: &env, replaced })?);
        }
        let typed = match command {
            Some(CommandLine::Line(line)) => first_program(line),
            Some(CommandLine::Argv(_)) | None => None,
        };
        let program = || {
            Path::new(&argv[0]).file_name().map_or_else(|| argv[0].clone(), |name| name.to_string_lossy().into_owned())
        };
        let name =
            request.name.clone().or_else(|| recipe.map(|recipe| recipe.name.clone())).or(typed).unwrap_or_else(program);
        let report = match recipe.map(|recipe| &recipe.escapees) {
            Some(Escapees::Report) => true,
            Some(Escapees::Sweep) => false,
            None => kind == Kind::Shell,
        };
        Ok(Plan {
            size: Size::clamped(request.rows.unwrap_or(24), request.cols.unwrap_or(80)),
            stop_signal: recipe.and_then(|recipe| recipe.stop.signal.clone()),
            report_escapees: report,
            origin: request.base().map(str::to_owned),
            own_command: request.like.is_some(),
            gpus: request.gpus.clone(),
            venv: request.venv.clone(),
            tmux_tmpdir,
            env_names: requested.keys().cloned().collect(),
            exclusive: recipe.and_then(|recipe| recipe.exclusive.clone()),
            restart: recipe.is_some_and(|recipe| recipe.restart == Restart::OnFailure),
            id,
            marker,
            name,
            kind,
            host,
            argv,
            cwd,
            env,
            grace_s,
            ceiling_s,
            renew_s,
            notes,
        })
    }

    /// Settles where it runs, and on what.
    fn settle_place(&self, request: &LaunchRequest, recipe: Option<&Recipe>) -> Result<Place, AppError> {
        let cwd = self.working_directory(request.cwd.as_deref(), recipe.and_then(|recipe| recipe.cwd.as_deref()))?;
        let venv = match request.venv.as_deref() {
            Some("") => None,
            Some(venv) => Some(self.at_home(venv).map(|venv| cwd.join(venv))?),
            None => recipe.and_then(|recipe| recipe.venv.clone()),
        };
        if let Some(venv) = &venv {
            check_venv(venv)?;
        }
        let gpus = match request.gpus.as_deref() {
            Some("") => None,
            Some(gpus) if !are_gpus(gpus) => {
                let message = format!("gpus: {gpus:?} must be device numbers such as `0,1`");
                return Err(usage(message).at(LaunchField::Gpus));
            }
            Some(gpus) => Some(gpus.to_owned()),
            None => recipe.and_then(|recipe| recipe.gpus.clone()),
        };
        Ok(Place { cwd, venv, gpus })
    }

    /// Returns the directory to run in.
    fn working_directory(&self, request: Option<&str>, recipe: Option<&Path>) -> Result<PathBuf, AppError> {
        let here = std::env::current_dir().map_err(io("failed to find the working directory"))?;
        let wanted = match request {
            Some(request) => self.at_home(request)?,
            None => recipe.map(Path::to_owned).unwrap_or_default(),
        };
        // Collected component by component: an empty path would leave a slash at the end.
        let cwd: PathBuf = here.join(wanted).components().collect();
        if cwd.is_dir() {
            return Ok(cwd);
        }
        Err(usage(format!("cwd: {} is not a directory", cwd.display())).at(LaunchField::Cwd))
    }

    /// Returns a path in which `~` stands for the home directory.
    pub(super) fn at_home(&self, path: &str) -> Result<PathBuf, AppError> {
        match path.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/')) {
            None => Ok(path.into()),
            Some(rest) => {
                let home = self.paths.home.as_deref();
                let home = home.ok_or_else(|| usage(format!("there is no home directory for {path:?}")))?;
                Ok(home.join(rest.trim_start_matches('/')))
            }
        }
    }

    fn choose_host(
        &self,
        request: &LaunchRequest,
        recipe: Option<&Recipe>,
        kind: Kind,
    ) -> Result<(HostKind, Vec<String>), AppError> {
        let by_kind = if kind == Kind::Shell { HostKind::Pty } else { HostKind::Tmux };
        let wanted = request.host.unwrap_or_else(|| recipe.map_or(by_kind, Recipe::usual_host));
        if wanted == HostKind::Pty {
            return Ok((HostKind::Pty, Vec::new()));
        }
        match self.server.known_version() {
            Ok(_) => Ok((HostKind::Tmux, Vec::new())),
            Err(error) if request.host == Some(HostKind::Tmux) => Err(tmux(&error).at(LaunchField::Host)),
            Err(error @ (TmuxError::NotInstalled { .. } | TmuxError::TooOld { .. })) => {
                Ok((HostKind::Pty, vec![format!("in a PTY, and not in tmux as usual: {error}")]))
            }
            Err(error) => Err(tmux(&error)),
        }
    }
}

/// Returns the recipe that a request is made from.
pub(super) fn base<'a>(config: &'a Config, request: &LaunchRequest) -> Result<Option<&'a Recipe>, AppError> {
    match (&request.recipe, &request.command, &request.like) {
        (Some(_), Some(_), None) => {
            Err(usage("give a recipe or a command, not both; `like` names a recipe for a command"))
        }
        (Some(_), _, Some(_)) => Err(usage("give `recipe`, or `like` with a command, not both")),
        (None, None, None) => {
            Err(usage("give a recipe or a command; `recipes` lists the recipes").at(LaunchField::Command))
        }
        (None, None, Some(_)) => {
            Err(usage("`like` needs a command: without one, it is `recipe`").at(LaunchField::Command))
        }
        (Some(name), None, None) | (None, Some(_), Some(name)) => recipe(config, name).map(Some),
        (None, Some(_), None) => Ok(None),
    }
}

/// Returns the recipe of a name.
pub(super) fn recipe<'a>(config: &'a Config, name: &str) -> Result<&'a Recipe, AppError> {
    config.recipe(name).ok_or_else(|| {
        let near = config.recipes.iter().map(|recipe| recipe.name.as_str());
        let best = near.max_by(|a, b| strsim::jaro_winkler(name, a).total_cmp(&strsim::jaro_winkler(name, b)));
        let hint = best.map(|best| format!("; the nearest is {best:?}")).unwrap_or_default();
        let untrusted = config.untrusted.as_ref().map(|untrusted| format!("; {}", untrusted.note()));
        let untrusted = untrusted.unwrap_or_default();
        not_found(format!("there is no recipe {name:?}{hint}; `recipes` lists them{untrusted}")).at(LaunchField::Recipe)
    })
}

/// Refuses a name that no recipe can have, either: others could not be told by it.
pub(super) fn check_name(name: &str) -> Result<(), AppError> {
    if is_name(name) {
        return Ok(());
    }
    let message = format!(
        "name: {:?} must be a name of 1 to 64 visible characters that does not begin with `-` or `$`",
        text::shorten(name, 60)
    );
    Err(usage(message).at(LaunchField::Name))
}

/// Refuses a command that is none, or that holds what stands for a secret.
fn check_command(command: Option<&CommandLine>, is_typed: bool, argv: &[String]) -> Result<(), AppError> {
    let blank = matches!(command, Some(CommandLine::Line(line)) if line.trim().is_empty());
    if blank || argv.first().is_none_or(String::is_empty) || argv.iter().any(|word| word.contains('\0')) {
        return Err(usage("command is empty, or holds a NUL").at(LaunchField::Command));
    }
    if is_typed && argv.iter().any(|word| word.contains(MASK)) {
        let message = format!("command holds {MASK}, which stands for a secret that was not kept: write it there");
        return Err(usage(message).at(LaunchField::Command));
    }
    Ok(())
}

fn check_variables(variables: &BTreeMap<String, String>) -> Result<(), AppError> {
    if let Some(bad) = variables.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
        return Err(usage(format!("env: {bad:?} is no name of a variable")).at(LaunchField::Env));
    }
    match variables.iter().find(|(_, value)| value.contains('\0')) {
        Some((name, _)) => {
            let message = format!("env: the value of {name} holds a NUL, which no environment can");
            Err(usage(message).at(LaunchField::Env))
        }
        None => Ok(()),
    }?;
    match variables.iter().find(|(_, value)| *value == MASK) {
        Some((name, _)) => {
            let message = format!("env: the value of {name} was not kept: write it in the place of {MASK}");
            Err(usage(message).at(LaunchField::Env))
        }
        None => Ok(()),
    }
}

/// Returns the name of the first program in a line for `sh -c`, where it is plain to see.
fn first_program(line: &str) -> Option<String> {
    let mut words =
        line.split_whitespace().skip_while(|word| word.contains('=') || ["exec", "env", "nohup"].contains(word));
    let name = words.next()?.rsplit('/').next()?;
    let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_.-+".contains(c));
    plain.then(|| name.to_owned())
}
