//! What a session was launched with, to be changed and launched again; and a launch in the place of a session.

use std::sync::Arc;

use super::Inner;
use super::adopted::only_ours;
use super::exclusive::Claim;
use super::plan::base;
use super::session::Session;
use super::stopper::How;
use crate::app::command::{Answer, RestartRequest};
use crate::app::contract::{CommandLine, LaunchField, LaunchRequest};
use crate::app::draft::Draft;
use crate::app::error::{AppError, ErrorKind};
use crate::lifecycle::inspect::Facts;
use crate::lifecycle::tether::Tether;
use crate::text::MASK;

impl Inner {
    /// Stops a session and starts it again, or what is to be launched in its place.
    pub(super) fn restart(self: &Arc<Self>, asked: &RestartRequest, by: &[Facts]) -> Result<Answer, AppError> {
        if let (Some(queued), Some(launch)) = (self.only_coming(&asked.session), &asked.launch) {
            return self.replace_queued(&queued.id, launch, asked.dry_run == Some(true));
        }
        let session = self.find_to_end(&asked.session)?;
        let request = if let Some(launch) = &asked.launch {
            launch.clone()
        } else {
            only_ours(&session, "stop it, and start it again as it was started")?;
            self.request_of(&session)?
        };
        let dry_run = asked.dry_run == Some(true);
        // Nobody is stopped for a launch that cannot come true.
        self.check_launch(&request, Some(&session))?;
        let end_kept = asked.end_kept.as_deref().unwrap_or_default();
        let how = How { confirm: asked.confirm.as_deref(), asker: by, end_kept, dry_run, ..How::default() };
        let receipt = self.end(&session, how)?;
        if dry_run {
            return Ok(Answer::Receipt(Box::new(receipt)));
        }
        if !receipt.is_clean() || receipt.dead != Some(true) {
            let message = format!(
                "{} was not started again, because its stop did not end everything; see its receipt",
                session.id
            );
            return Err(AppError::new(ErrorKind::Failed, message));
        }
        let launched = self.launch(&request)?;
        // The new one stands for the old one, unless somebody was left alive on purpose: they must still be found.
        if session.state().settled && self.is_written(&session) {
            self.dismiss(&session);
        }
        Ok(Answer::Restarted { receipt: Box::new(receipt), launched })
    }

    /// Calls a launch off that waits, and launches something in its place.
    fn replace_queued(self: &Arc<Self>, id: &str, launch: &LaunchRequest, dry_run: bool) -> Result<Answer, AppError> {
        self.check_launch(launch, None)?;
        let stop = crate::app::command::StopRequest {
            session: id.to_owned(),
            dry_run: dry_run.then_some(true),
            ..Default::default()
        };
        let receipt = self.call_off(&stop).ok_or_else(|| {
            AppError::new(ErrorKind::Refused, format!("{id} waits no longer: look at it, and try again"))
        })?;
        if dry_run {
            return Ok(Answer::Receipt(Box::new(receipt)));
        }
        let launched = self.launch(launch)?;
        Ok(Answer::Restarted { receipt: Box::new(receipt), launched })
    }

    /// Looks whether a launch could come true, where `replaced` is stopped before.
    fn check_launch(&self, request: &LaunchRequest, replaced: Option<&Arc<Session>>) -> Result<(), AppError> {
        self.may_launch()?;
        let config = self.config();
        let mut gone: Vec<Arc<Session>> = replaced.cloned().into_iter().collect();
        if let Some(resource) = base(&config, request)?.and_then(|recipe| recipe.exclusive.as_deref()) {
            let claim =
                Claim { resource, replace: request.replace == Some(true), but: replaced.map(|s| s.id.as_str()) };
            gone.extend(self.check_exclusive(&claim)?);
        }
        self.plan(request, &gone).map(drop)
    }

    /// Returns what a session was launched with, to be changed and launched again.
    pub(super) fn draft(&self, reference: &str) -> Result<Draft, AppError> {
        if let Some(queued) = self.only_coming(reference) {
            return Ok(Draft { session: queued.id.clone(), launch: queued.request.clone(), notes: Vec::new() });
        }
        let session = self.find(reference)?;
        let mut notes = Vec::new();
        let launch = match &session.request {
            Some(request) => request.clone(),
            None => self.recalled(&session, &mut notes),
        };
        // Whoever launches it again has a terminal of another size.
        let launch = LaunchRequest { rows: None, cols: None, replace: None, ..launch };
        Ok(Draft { session: session.id.clone(), launch, notes })
    }

    /// Returns what the record tells of a launch; what it does not tell is said in `notes`.
    fn recalled(&self, session: &Session, notes: &mut Vec<String>) -> LaunchRequest {
        let tether = session.tether();
        let mut request = recorded(session, &tether);
        if tether.adoption.is_some() {
            notes.push(
                "it was not launched by cookbook-tui: its command is as it was seen, its environment is not known"
                    .into(),
            );
            let command = tether.argv.map_or(CommandLine::Line(tether.command), command_of);
            (request.cwd, request.command) = (None, Some(command));
            return request;
        }
        if !tether.env_names.is_empty() {
            let names = tether.env_names.join(", ");
            notes.push(format!(
                "the values of {names} were not recorded: write them in the place of {MASK}, or take them out"
            ));
            request.env = Some(tether.env_names.into_iter().map(|name| (name, MASK.to_owned())).collect());
        }
        let recipe = tether.origin.filter(|name| self.config().recipe(name).is_some());
        match (recipe, tether.argv) {
            (Some(recipe), _) if !tether.own_command => request.recipe = Some(recipe),
            (recipe, Some(argv)) => (request.like, request.command) = (recipe, Some(command_of(argv))),
            (recipe, None) => {
                notes.push(format!(
                    "its command holds a secret, which was not recorded: write it in the place of {MASK}"
                ));
                (request.like, request.command) = (recipe, Some(CommandLine::Line(tether.command)));
            }
        }
        request
    }

    /// Returns what a session was launched with, from this run or from its record.
    fn request_of(&self, session: &Arc<Session>) -> Result<LaunchRequest, AppError> {
        if let Some(request) = &session.request {
            return Ok(request.clone());
        }
        let tether = session.tether();
        if !tether.env_names.is_empty() {
            let names = tether.env_names.join(", ");
            let message = format!(
                "{} was launched by an earlier run with {names} in its environment, whose values were not recorded; stop it and launch it anew",
                session.id
            );
            return Err(AppError::new(ErrorKind::Refused, message).at(LaunchField::Env));
        }
        let mut request = recorded(session, &tether);
        let recipe = tether.origin.filter(|name| self.config().recipe(name).is_some());
        match (recipe, tether.argv) {
            (Some(recipe), _) if !tether.own_command => request.recipe = Some(recipe),
            (recipe, Some(argv)) => (request.like, request.command) = (recipe, Some(CommandLine::Argv(argv))),
            (_, None) => {
                let message = format!(
                    "{} was launched by an earlier run with a secret in its command, which was not recorded; stop it and launch it anew",
                    session.id
                );
                return Err(AppError::new(ErrorKind::Refused, message).at(LaunchField::Command));
            }
        }
        Ok(request)
    }
}

/// Returns what a record has of its launch besides the command.
fn recorded(session: &Session, tether: &Tether) -> LaunchRequest {
    LaunchRequest {
        // A default is one again.
        ceiling_s: tether.ceiling_s.filter(|_| tether.renew_s.is_none()),
        name: Some(tether.name.clone()),
        kind: Some(session.kind),
        host: Some(session.host),
        cwd: Some(tether.cwd.clone()),
        gpus: tether.gpus.clone(),
        venv: tether.venv.clone(),
        grace_s: Some(tether.grace_s),
        ..LaunchRequest::default()
    }
}

/// Returns arguments as they were asked for: a line for `sh -c` is one again.
fn command_of(argv: Vec<String>) -> CommandLine {
    match <[String; 3]>::try_from(argv) {
        Ok([sh, flag, line]) if sh == "sh" && flag == "-c" => CommandLine::Line(line),
        Ok(argv) => CommandLine::Argv(argv.into()),
        Err(argv) => CommandLine::Argv(argv),
    }
}
