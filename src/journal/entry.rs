//! The entries of a run's journal: what the dispatcher writes down, and reads again when an interrupted run is resumed.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Error, Journal};
use crate::step::StepId;

/// One entry of a run's journal. Steps go by their ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "kebab-case")]
pub enum Entry {
    /// The journal was opened by a process that begins or resumes the run. The first of all entries.
    Opened {
        /// The id of the journal, by which the records name it.
        journal: Arc<str>,
        /// The id that it had before: the records name that one until the resumed run has written its first.
        before: Option<Arc<str>>,
        /// Whether another process may have begun steps of which this journal tells nothing: those that
        /// have no end in it may have been begun.
        incomplete: bool,
    },
    /// A step that touches the world is about to act. Durable before it acts.
    Intent {
        /// Which step.
        step: StepId,
    },
    /// A step ended; also steps that were skipped, and gates. Durable before what depends on it starts.
    Ended {
        /// Which step.
        step: StepId,
        /// How.
        outcome: StepOutcome,
        /// Whether the world was asked for anything; a step that was refused before is no failure
        /// of its machine.
        attempted: bool,
        /// How long it took, in milliseconds.
        duration_ms: u64,
    },
    /// A step noted something for itself, to be found again after a crash. Durable before it continues.
    Note {
        /// Which step.
        step: StepId,
        /// The note.
        text: Arc<str>,
    },
}

impl Entry {
    /// The id of the step that it is about.
    #[must_use]
    pub fn step(&self) -> Option<&StepId> {
        match self {
            Self::Opened { .. } => None,
            Self::Intent { step } | Self::Ended { step, .. } | Self::Note { step, .. } => {
                Some(step)
            }
        }
    }
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum StepOutcome {
    /// Done.
    Succeeded,
    /// Failed; why.
    Failed {
        /// Why, one line.
        message: Arc<str>,
    },
    /// Not answered in time, or the answer was lost: the request may still be running.
    Unknown {
        /// Why, one line.
        message: Arc<str>,
    },
    /// Not attempted, because something that it needs failed.
    Skipped {
        /// The reason.
        reason: Arc<str>,
    },
    /// Not needed: the node was sent by an earlier group.
    NotNeeded,
}

impl StepOutcome {
    /// The name in metrics and traces.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed { .. } => "failed",
            Self::Unknown { .. } => "unknown",
            Self::Skipped { .. } => "skipped",
            Self::NotNeeded => "not-needed",
        }
    }
}

/// Where entries become durable: the [`Journal`], or something else in tests.
pub trait Log {
    /// Adds an entry, which is durable after the next commit.
    ///
    /// # Errors
    ///
    /// Those of [`Journal::append`].
    fn append(&mut self, entry: &Entry) -> Result<(), Error>;

    /// Makes all that was appended durable.
    ///
    /// # Errors
    ///
    /// Those of [`Journal::commit`].
    fn commit(&mut self) -> Result<(), Error>;
}

impl Log for Journal {
    fn append(&mut self, entry: &Entry) -> Result<(), Error> {
        Self::append(self, entry)
    }

    fn commit(&mut self) -> Result<(), Error> {
        Self::commit(self)
    }
}

/// A person's decision about a step whose state could not be observed (`--decide STEP=…`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// It is done.
    Done,
    /// It was not begun.
    NotBegun,
}

/// The known facts of a run that was interrupted; empty for a new one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// The entries of its journal, in order.
    pub entries: Vec<Entry>,
    /// By step id, a person's decision.
    pub decisions: BTreeMap<Arc<str>, Decision>,
    /// Every step that has not ended counts as possibly begun: another machine has, or had, a journal of its own.
    pub all_possibly_begun: bool,
}
