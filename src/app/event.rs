//! What happened, for whoever subscribed: the event lines of the batch and the event log of the
//! screen. Pure data; `runtime::hub` numbers and distributes it.

use serde::{Deserialize, Serialize};

use super::attention::Want;
use super::contract::{HostKind, Kind, Phase};
use crate::lifecycle::receipt::Receipt;
use crate::lifecycle::verdict::VerdictKind;

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A session was launched.
    Launched {
        /// Its id.
        session: String,
        /// Its name.
        name: String,
        /// Its kind.
        kind: Kind,
        /// Its host.
        host: HostKind,
        /// The workload's pid.
        pid: i32,
        /// Which restart in a row this is; `None` for the launch itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<u32>,
    },
    /// A session came to another phase.
    Phase {
        /// Which session.
        session: String,
        /// The new phase.
        phase: Phase,
        /// More, in words.
        detail: Option<String>,
    },
    /// The verdict of a process changed.
    Verdict {
        /// Which session.
        session: String,
        /// Which process.
        pid: i32,
        /// The new verdict.
        verdict: VerdictKind,
        /// Why.
        reason: String,
    },
    /// A process joined a session.
    ProcessNew {
        /// Which session.
        session: String,
        /// Which process.
        pid: i32,
        /// Its masked command line.
        command: String,
    },
    /// A process of a session is gone.
    ProcessGone {
        /// Which session.
        session: String,
        /// Which process.
        pid: i32,
        /// Its masked command line.
        command: String,
    },
    /// A process was signalled.
    Signal {
        /// Which session.
        session: String,
        /// Which process.
        pid: i32,
        /// For example `TERM`.
        signal: String,
    },
    /// A process outlived a stop.
    Survivor {
        /// Which session.
        session: String,
        /// Which process.
        pid: i32,
        /// What is known of it.
        reason: String,
    },
    /// The workload of a session has ended.
    Exited {
        /// Which session.
        session: String,
        /// Its exit status.
        exit_code: Option<i32>,
        /// The signal that ended it.
        signal: Option<String>,
        /// Which restart in a row follows; `None` where it stays ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<u32>,
    },
    /// A stop or a sweep has finished.
    Receipt {
        /// Which session.
        session: String,
        /// What was observed.
        receipt: Box<Receipt>,
    },
    /// A session wants to be looked at.
    Attention {
        /// Which session.
        session: String,
        /// Why.
        reason: String,
        /// What its agent says, or what is guessed; `None` where something else wants attention, a ceiling say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<Want>,
    },
    /// A session of an earlier run has ended, and that was not said yet.
    Ended {
        /// Which session.
        session: String,
        /// What became of it.
        text: String,
    },
    /// Cookbook's state file cannot be used any more, or can be used again.
    Cookbook {
        /// What is wrong with it and the way out; `None` where nothing is any more.
        problem: Option<String>,
    },
    /// A subscriber was too slow: this many events were dropped for it.
    Lagged {
        /// How many.
        missed: u64,
    },
}

impl Event {
    /// Returns the session that the event is about.
    pub fn session(&self) -> Option<&str> {
        match self {
            Self::Launched { session, .. }
            | Self::Phase { session, .. }
            | Self::Verdict { session, .. }
            | Self::ProcessNew { session, .. }
            | Self::ProcessGone { session, .. }
            | Self::Signal { session, .. }
            | Self::Survivor { session, .. }
            | Self::Exited { session, .. }
            | Self::Receipt { session, .. }
            | Self::Attention { session, .. }
            | Self::Ended { session, .. } => Some(session),
            Self::Cookbook { .. } | Self::Lagged { .. } => None,
        }
    }
}
