//! The launch form: what is typed, what it is made from, and what it asks for. Pure.

use std::collections::BTreeMap;

use super::super::seam::Ticket;
use super::field::Field;
use super::offer::{Known, Offers, Want, for_command, for_value};
use super::words::{join, split};
use crate::app::catalog::{Catalog, Listing};
use crate::app::config::RecipeRow;
use crate::app::contract::{CommandLine, HostKind, Kind, LaunchField, LaunchRequest};
use crate::app::draft::{Draft, SaveRequest};
use crate::app::error::AppError;
use crate::app::phase::{Suggestion, kind_of};
use crate::text::MASK;

/// A line of the form that can have the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slot {
    /// Name of a recipe, or nothing.
    #[default]
    Recipe,
    /// The command.
    Command,
    /// Name for people.
    Name,
    /// Kind of work.
    Kind,
    /// Where it lives.
    Host,
    /// Working directory.
    Cwd,
    /// Devices.
    Gpus,
    /// Virtual environment.
    Venv,
    /// A variable; the last one is empty.
    Env(usize),
    /// Launches it.
    Launch,
    /// Makes a recipe of it.
    Save,
    /// Launches it in the place of what is in its way.
    Replace,
}

impl Slot {
    /// Returns the label of the line.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Recipe => "recipe",
            Self::Command => "command",
            Self::Name => "name",
            Self::Kind => "kind",
            Self::Host => "host",
            Self::Cwd => "cwd",
            Self::Gpus => "gpus",
            Self::Venv => "venv",
            Self::Env(0) => "env",
            Self::Env(_) | Self::Launch | Self::Save | Self::Replace => "",
        }
    }

    const fn of(field: LaunchField) -> Self {
        match field {
            LaunchField::Recipe => Self::Recipe,
            LaunchField::Command => Self::Command,
            LaunchField::Name => Self::Name,
            LaunchField::Kind => Self::Kind,
            LaunchField::Host => Self::Host,
            LaunchField::Cwd => Self::Cwd,
            LaunchField::Gpus => Self::Gpus,
            LaunchField::Venv => Self::Venv,
            LaunchField::Env => Self::Env(0),
        }
    }
}

/// Why the last attempt came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// At which line it is shown.
    pub slot: Slot,
    /// In words.
    pub text: String,
    /// The session that is in the way, where it could be replaced.
    pub holder: Option<String>,
}

/// The session that the form was opened on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its id.
    pub session: String,
    /// Its name.
    pub name: String,
}

/// The launch form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Form {
    /// The line that has the keys.
    pub at: Slot,
    /// First line that is shown.
    pub top: usize,
    /// Name of the recipe.
    pub recipe: Field,
    /// The command.
    pub command: Field,
    /// Name for people.
    pub name: Field,
    /// Working directory.
    pub cwd: Field,
    /// Devices.
    pub gpus: Field,
    /// Virtual environment.
    pub venv: Field,
    /// Variables, `NAME=VALUE` each; the last one is empty.
    pub env: Vec<Field>,
    /// Kind of work; the recipe's, else `shell`.
    pub kind: Option<Kind>,
    /// Where it lives; by kind without it.
    pub host: Option<HostKind>,
    /// The recipe that it is made from.
    pub base: Option<RecipeRow>,
    /// The session that it stands for.
    pub origin: Option<Origin>,
    /// What one should know of what is filled in.
    pub notes: Vec<String>,
    /// Why the last attempt came to nothing.
    pub fault: Option<Fault>,
    /// What is offered at the cursor.
    pub offers: Offers,
    /// The command is under way.
    pub busy: Option<Ticket>,
    /// A second session of the same name is meant.
    pub second: bool,
    /// A recipe of the same name is to be replaced.
    pub overwrite: bool,
    /// What the command is as arguments, where no shell is asked for.
    argv: bool,
    /// What has no line.
    rest: LaunchRequest,
}

impl Form {
    /// Returns an empty form.
    pub fn new() -> Self {
        Self { env: vec![Field::default()], ..Self::default() }
    }

    /// Returns a form that is filled with a launch.
    pub fn of(launch: &LaunchRequest, recipes: &[RecipeRow]) -> Self {
        let mut form = Self { at: Slot::Command, ..Self::new() };
        if let Some(name) = launch.base() {
            form.recipe = Field::of(name);
            form.rebase(recipes);
        }
        if let Some(command) = &launch.command {
            form.set_command(command);
        }
        let set = |field: &mut Field, value: &Option<String>| {
            if let Some(value) = value {
                *field = Field::of(value);
            }
        };
        set(&mut form.name, &launch.name);
        set(&mut form.cwd, &launch.cwd);
        set(&mut form.gpus, &launch.gpus);
        set(&mut form.venv, &launch.venv);
        (form.kind, form.host) = (launch.kind.or(form.kind), launch.host.or(form.host));
        form.env = launch.env.iter().flatten().map(|(name, value)| Field::of(&format!("{name}={value}"))).collect();
        form.env.push(Field::default());
        let (grace_s, ceiling_s, machine) = (launch.grace_s, launch.ceiling_s, launch.machine.clone());
        form.rest = LaunchRequest { grace_s, ceiling_s, machine, ..LaunchRequest::default() };
        form
    }

    /// Returns a form that is filled with what a session was launched with, or with what is suggested in its place.
    pub fn of_draft(draft: &Draft, name: String, suggested: Option<&Suggestion>, recipes: &[RecipeRow]) -> Self {
        let mut launch = draft.launch.clone();
        let command = suggested.and_then(|suggested| suggested.command.clone());
        let mut notes: Vec<String> = suggested.map(|suggested| suggested.text.clone()).into_iter().collect();
        let origin = Some(Origin { session: draft.session.clone(), name });
        if let (Some(command), true) = (&command, suggested.is_some_and(|suggested| suggested.first)) {
            // It prepares the launch, and does not stand for it.
            let LaunchRequest { cwd, venv, .. } = launch;
            launch = LaunchRequest { command: Some(command.clone()), cwd, venv, ..LaunchRequest::default() };
            return Self { notes, ..Self::of(&launch, recipes) };
        }
        if let Some(command) = command {
            (launch.like, launch.recipe) = (launch.base().map(str::to_owned), None);
            if command.shown().contains(MASK) {
                notes.push(format!("write the secret in the place of {MASK}"));
            }
            launch.command = Some(command);
        }
        notes.extend(draft.notes.iter().cloned());
        Self { origin, notes, ..Self::of(&launch, recipes) }
    }

    /// Returns the lines that can have the keys, from the top.
    pub fn slots(&self) -> Vec<Slot> {
        use Slot::{Command, Cwd, Env, Gpus, Host, Kind, Launch, Name, Recipe, Replace, Save, Venv};
        let mut slots = vec![Recipe, Command, Name, Kind, Host, Cwd, Gpus, Venv];
        slots.extend((0..self.env.len()).map(Env));
        slots.extend([Launch, Save]);
        slots.extend(self.holder().map(|_| Replace));
        slots
    }

    /// Returns the session that is in the way.
    pub fn holder(&self) -> Option<&str> {
        self.fault.as_ref()?.holder.as_deref()
    }

    /// Moves to another line.
    pub fn step(&mut self, by: isize) {
        let slots = self.slots();
        let at = slots.iter().position(|slot| *slot == self.at).unwrap_or(0);
        self.at = slots[at.saturating_add_signed(by).min(slots.len() - 1)];
        self.offers = Offers::default();
    }

    /// Returns the text of a line.
    pub fn field(&self, slot: Slot) -> Option<&Field> {
        match slot {
            Slot::Recipe => Some(&self.recipe),
            Slot::Command => Some(&self.command),
            Slot::Name => Some(&self.name),
            Slot::Cwd => Some(&self.cwd),
            Slot::Gpus => Some(&self.gpus),
            Slot::Venv => Some(&self.venv),
            Slot::Env(index) => self.env.get(index),
            Slot::Kind | Slot::Host | Slot::Launch | Slot::Save | Slot::Replace => None,
        }
    }

    fn field_mut(&mut self) -> Option<&mut Field> {
        match self.at {
            Slot::Recipe => Some(&mut self.recipe),
            Slot::Command => Some(&mut self.command),
            Slot::Name => Some(&mut self.name),
            Slot::Cwd => Some(&mut self.cwd),
            Slot::Gpus => Some(&mut self.gpus),
            Slot::Venv => Some(&mut self.venv),
            Slot::Env(index) => self.env.get_mut(index),
            Slot::Kind | Slot::Host | Slot::Launch | Slot::Save | Slot::Replace => None,
        }
    }

    /// Edits the line that has the keys.
    pub fn edit(&mut self, change: impl FnOnce(&mut Field), recipes: &[RecipeRow]) {
        let Some(field) = self.field_mut() else { return };
        let before = field.text().to_owned();
        change(field);
        if field.text() == before {
            return;
        }
        self.offers.chosen = None;
        if self.fault.as_ref().is_some_and(|fault| fault.slot == self.at || fault.holder.is_some()) {
            self.fault = None;
        }
        if matches!(self.at, Slot::Recipe | Slot::Name) {
            (self.second, self.overwrite) = (false, false);
        }
        if self.at == Slot::Recipe {
            self.rebase(recipes);
        }
        self.even_out();
    }

    /// Takes in what is pasted: each line of variables becomes one.
    pub fn paste(&mut self, text: &str, recipes: &[RecipeRow]) {
        let Slot::Env(index) = self.at else {
            let command = self.at == Slot::Command;
            return self.edit(|field| if command { field.insert_lines(text) } else { field.insert(text) }, recipes);
        };
        let mut lines = text.split(['\r', '\n']).filter(|line| !line.trim().is_empty());
        let first = lines.next().unwrap_or_default();
        self.edit(|field| field.insert(first), recipes);
        let more: Vec<Field> = lines.map(Field::of).collect();
        let rest = self.env.split_off((index + 1).min(self.env.len()));
        self.env.extend(more.into_iter().chain(rest));
        self.even_out();
    }

    /// Keeps one empty line at the end of the variables.
    fn even_out(&mut self) {
        if self.env.last().is_none_or(|last| !last.text().is_empty()) {
            self.env.push(Field::default());
        }
    }

    /// Takes the next or the last choice of a line that has choices. Returns whether it has.
    pub fn turn(&mut self, by: isize) -> bool {
        match self.at {
            Slot::Kind => {
                let all: Vec<Option<Kind>> = Kind::ALL.into_iter().map(Some).collect();
                self.kind = next(&all, Some(self.kind()), by);
            }
            Slot::Host => {
                self.host = next(&[None, Some(HostKind::Pty), Some(HostKind::Tmux)], self.host, by);
            }
            Slot::Recipe
            | Slot::Command
            | Slot::Name
            | Slot::Cwd
            | Slot::Gpus
            | Slot::Venv
            | Slot::Env(_)
            | Slot::Launch
            | Slot::Save
            | Slot::Replace => return false,
        }
        true
    }

    /// Returns the kind of work: what was chosen, else that of the recipe, else what the command tells.
    pub fn kind(&self) -> Kind {
        let given = self.kind.or(self.base.as_ref().map(|base| base.kind));
        given.unwrap_or_else(|| kind_of(self.command.text()))
    }

    /// Moves along what is offered.
    pub fn choose(&mut self, by: isize) {
        let Some(last) = self.offers.list.len().checked_sub(1) else { return };
        self.offers.chosen = match self.offers.chosen {
            None if by > 0 => Some(0),
            None => None,
            Some(0) if by < 0 => None,
            Some(at) => Some(at.saturating_add_signed(by).min(last)),
        };
    }

    /// Takes what is offered. Returns whether anything is.
    pub fn take(&mut self, recipes: &[RecipeRow]) -> bool {
        let Some(offer) = self.offers.list.get(self.offers.chosen.unwrap_or(0)).cloned() else { return false };
        let start = self.offers.start;
        // A word of a command is done, a directory is not.
        let blank = if self.at == Slot::Command && !offer.text.ends_with(['/', '\'']) { " " } else { "" };
        self.edit(|field| field.complete(start, &format!("{}{blank}", offer.text)), recipes);
        self.offers = Offers::default();
        true
    }

    /// Finds what is offered at the cursor.
    pub(in super::super) fn look(
        &self,
        recipes: &[RecipeRow],
        catalog: Option<&Catalog>,
        listing: Option<&Listing>,
    ) -> Offers {
        let base = if self.at == Slot::Cwd { "" } else { self.cwd.text().trim() };
        let known = Known { recipes, catalog, listing, base };
        let typed = || self.field(self.at).map_or("", |field| field.split().0);
        let found = match self.at {
            Slot::Command => for_command(typed(), &known),
            Slot::Recipe => for_value(Want::Recipe, typed(), &known),
            Slot::Cwd | Slot::Venv => for_value(Want::Directory, typed(), &known),
            Slot::Name
            | Slot::Kind
            | Slot::Host
            | Slot::Gpus
            | Slot::Env(_)
            | Slot::Launch
            | Slot::Save
            | Slot::Replace => Offers::default(),
        };
        // In the middle of a word nothing is offered.
        let inside =
            self.field(self.at).is_some_and(|field| !field.split().1.is_empty() && !field.split().1.starts_with(' '));
        if inside {
            Offers::default()
        } else {
            Offers { chosen: self.offers.chosen.filter(|at| *at < found.list.len()), ..found }
        }
    }

    /// Fills the form from the recipe that is named; what was changed by hand stays.
    fn rebase(&mut self, recipes: &[RecipeRow]) {
        let named = recipes.iter().find(|row| row.name == self.recipe.text().trim());
        if named == self.base.as_ref() {
            return;
        }
        let (old, new) = (Filled::of(self.base.as_ref()), Filled::of(named));
        let fill = |field: &mut Field, old: &str, new: &str| {
            if field.text() == old {
                *field = Field::of(new);
            }
        };
        if self.command.text() == old.command {
            self.argv = named.is_some_and(|row| row.argv.is_some());
        }
        fill(&mut self.command, &old.command, &new.command);
        fill(&mut self.cwd, &old.cwd, &new.cwd);
        fill(&mut self.gpus, &old.gpus, &new.gpus);
        fill(&mut self.venv, &old.venv, &new.venv);
        self.base = named.cloned();
    }

    fn set_command(&mut self, command: &CommandLine) {
        (self.command, self.argv) = match command {
            CommandLine::Line(line) => (Field::of(line), false),
            CommandLine::Argv(argv) => (Field::of(&join(argv)), true),
        };
    }

    /// Returns the launch that the form asks for.
    ///
    /// # Errors
    /// Where a line is not even a variable.
    pub(in super::super) fn request(&self, (rows, cols): (u16, u16)) -> Result<LaunchRequest, Fault> {
        let filled = Filled::of(self.base.as_ref());
        let name = Some(self.recipe.text().trim().to_owned()).filter(|name| !name.is_empty());
        let typed = self.command.text().trim();
        let changed = typed != filled.command && !(name.is_some() && typed.is_empty());
        let argv = if self.argv { split(typed) } else { None };
        let command = argv.map_or_else(|| CommandLine::Line(typed.to_owned()), CommandLine::Argv);
        let command = Some(command).filter(|_| changed || name.is_none());
        let (recipe, like) = if command.is_some() { (None, name) } else { (name, None) };
        let differs = |field: &Field, filled: &str| {
            let text = field.text().trim();
            (text != filled).then(|| text.to_owned())
        };
        let own_name = Some(self.name.text().trim().to_owned()).filter(|name| !name.is_empty());
        Ok(LaunchRequest {
            recipe,
            like,
            command,
            name: own_name,
            kind: self.kind.or_else(|| self.base.is_none().then(|| self.kind())),
            host: self.host,
            cwd: differs(&self.cwd, &filled.cwd),
            gpus: differs(&self.gpus, &filled.gpus),
            venv: differs(&self.venv, &filled.venv),
            env: self.variables()?,
            rows: Some(rows),
            cols: Some(cols),
            ..self.rest.clone()
        })
    }

    fn variables(&self) -> Result<Option<BTreeMap<String, String>>, Fault> {
        let mut all = BTreeMap::new();
        for (index, field) in self.env.iter().enumerate().filter(|(_, field)| !field.text().trim().is_empty()) {
            let Some((name, value)) = field.text().split_once('=') else {
                let text = "a variable is NAME=VALUE".to_owned();
                return Err(Fault { slot: Slot::Env(index), text, holder: None });
            };
            all.insert(name.trim().to_owned(), value.to_owned());
        }
        Ok(Some(all).filter(|all| !all.is_empty()))
    }

    /// Returns what is to be saved: under the name that is typed, else that of the recipe.
    pub(in super::super) fn save(&self) -> Result<SaveRequest, Fault> {
        let own = self.name.text().trim();
        let name = if own.is_empty() { self.recipe.text().trim() } else { own }.to_owned();
        let mut launch = self.request((0, 0))?;
        (launch.rows, launch.cols, launch.name) = (None, None, None);
        Ok(SaveRequest { name, launch, overwrite: self.overwrite.then_some(true) })
    }

    /// Returns the name that the session will have, as far as it is settled.
    pub fn session_name(&self) -> Option<&str> {
        let names = [self.name.text().trim(), self.recipe.text().trim()];
        names.into_iter().find(|name| !name.is_empty())
    }

    /// Takes in that an attempt came to nothing.
    pub(in super::super) fn fail(&mut self, error: &AppError) {
        let slot = error.about.as_ref().map_or(Slot::Launch, |about| Slot::of(about.field));
        let holder = error.about.as_ref().and_then(|about| about.holder.clone());
        self.set_fault(Fault { slot, text: error.message.clone(), holder });
    }

    pub(in super::super) fn set_fault(&mut self, fault: Fault) {
        self.busy = None;
        // A way out that is one key away.
        self.at = if fault.holder.is_some() { Slot::Replace } else { fault.slot };
        self.fault = Some(fault);
        self.offers = Offers::default();
    }
}

fn next<T: Copy + PartialEq>(all: &[T], now: T, by: isize) -> T {
    let at = all.iter().position(|one| *one == now).unwrap_or(0);
    let count = isize::try_from(all.len()).unwrap_or(1);
    let next = (isize::try_from(at).unwrap_or(0) + by).rem_euclid(count);
    usize::try_from(next).ok().and_then(|next| all.get(next)).copied().unwrap_or(now)
}

/// What a recipe puts into the lines.
#[derive(Default)]
struct Filled {
    command: String,
    cwd: String,
    gpus: String,
    venv: String,
}

impl Filled {
    fn of(base: Option<&RecipeRow>) -> Self {
        let Some(base) = base else { return Self::default() };
        Self {
            command: base.argv.as_ref().map_or_else(|| base.command.clone(), |argv| join(argv)),
            cwd: base.cwd.clone().unwrap_or_default(),
            gpus: base.gpus.clone().unwrap_or_default(),
            venv: base.venv.clone().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests;
