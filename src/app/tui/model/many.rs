//! One act on all sessions that are marked, before it is done: each is named, with the plan of its own. Pure data.

use super::super::seam::Ticket;
use super::overlay::Act;
use crate::lifecycle::receipt::Receipt;

/// What is done to all that are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManyAct {
    /// A stop, a sweep or a restart of each.
    Act(Act),
    /// Each that is over is forgotten; its log stays.
    Dismiss,
}

impl ManyAct {
    /// Returns the verb.
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Act(act) => act.verb(),
            Self::Dismiss => "Dismiss",
        }
    }
}

/// One session of a preview of many.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Its id.
    pub session: String,
    /// Its name.
    pub name: String,
    /// The answer of its dry run, or why there is none; `None` while it is under way.
    pub plan: Option<Result<Box<Receipt>, String>>,
    /// The dry run.
    pub(in super::super) ticket: Option<Ticket>,
}

/// The preview of an act on all that are marked.
#[derive(Clone, Debug, PartialEq)]
pub struct Many {
    /// What is asked for.
    pub act: ManyAct,
    /// The sessions, in the order of the list.
    pub items: Vec<Item>,
    /// First line that is shown.
    pub scroll: usize,
    /// All of it has been on the screen: only then it can be confirmed.
    pub drawn: bool,
    /// Tells this preview from others.
    pub(in super::super) serial: Ticket,
}

impl Many {
    /// Tells whether every dry run was answered.
    pub fn is_planned(&self) -> bool {
        self.items.iter().all(|item| item.plan.is_some())
    }

    /// Takes in what came of a dry run. Returns whether it was one of these.
    pub(in super::super) fn planned(&mut self, ticket: Ticket, plan: Result<Box<Receipt>, String>) -> bool {
        let Some(item) = self.items.iter_mut().find(|item| item.ticket == Some(ticket)) else { return false };
        item.plan = Some(plan);
        self.drawn = false;
        true
    }
}
