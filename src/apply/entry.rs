//! What the dispatcher writes down, and what it reads again when an interrupted run goes on.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::StepOutcome;
use crate::design::NodeName;
use crate::identity::{self, Identity};
use crate::journal::{self, Journal};
use crate::plan::Plan;
use crate::record::Phase;
use crate::step::{StepId, StepKind, clean_step_of};

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
        step: Arc<str>,
    },
    /// A step ended; also steps that were skipped, and gates. Durable before what depends on it starts.
    Ended {
        /// Which step.
        step: Arc<str>,
        /// How.
        outcome: StepOutcome,
        /// Whether the world was asked for anything; a step that was refused before is no failure
        /// of its machine.
        attempted: bool,
        /// How long it took, in milliseconds.
        duration_ms: u64,
    },
    /// A step noted something for itself, to be found again after a crash. Durable before it goes on.
    Note {
        /// Which step.
        step: Arc<str>,
        /// What.
        text: Arc<str>,
    },
}

impl Entry {
    /// The id of the step that it is about.
    #[must_use]
    pub fn step(&self) -> Option<&Arc<str>> {
        match self {
            Self::Opened { .. } => None,
            Self::Intent { step } | Self::Ended { step, .. } | Self::Note { step, .. } => {
                Some(step)
            }
        }
    }
}

/// What a step did to the record of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOutcome {
    /// Which node.
    pub node: NodeName,
    /// The step; its kind says which digests and fields of the record it brings up to date.
    pub step: StepId,
    /// The phase of the node from now on; `None`: it stays what it was (labels, power, retired).
    pub phase: Option<Phase>,
    /// What failed, or why it is unknown; `None` after a success, which clears the last error.
    pub message: Option<Arc<str>>,
    /// The clean step at which it failed, by what the step noted.
    pub clean_step: Option<Arc<str>>,
    /// What its machine is known by, by what the step noted.
    pub identity: Option<Box<Identity>>,
}

/// Where entries become durable: the [`Journal`], or something else in tests.
pub trait Log {
    /// Adds an entry, which is durable after the next commit.
    ///
    /// # Errors
    ///
    /// Those of [`Journal::append`].
    fn append(&mut self, entry: &Entry) -> Result<(), journal::Error>;

    /// Makes all that was appended durable.
    ///
    /// # Errors
    ///
    /// Those of [`Journal::commit`].
    fn commit(&mut self) -> Result<(), journal::Error>;
}

impl Log for Journal {
    fn append(&mut self, entry: &Entry) -> Result<(), journal::Error> {
        Self::append(self, entry)
    }

    fn commit(&mut self) -> Result<(), journal::Error> {
        Self::commit(self)
    }
}

/// What somebody found out about a step that could not be told from outside (`--decide STEP=…`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// It is done.
    Done,
    /// It was not begun.
    NotBegun,
}

/// What is known of a run that was interrupted; empty for a new one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// The entries of its journal, in order.
    pub entries: Vec<Entry>,
    /// By step id, what somebody decided.
    pub decisions: BTreeMap<Arc<str>, Decision>,
    /// Every step that has not ended counts as possibly begun: another machine has, or had, a journal of its own.
    pub all_possibly_begun: bool,
}

impl Replay {
    /// What the steps that ended did to the records of their nodes, in the order in which they ended.
    #[must_use]
    pub fn node_outcomes(&self, plan: &Plan) -> Vec<NodeOutcome> {
        let positions = plan.positions();
        let mut notes: FxHashMap<&str, Vec<Arc<str>>> = FxHashMap::default();
        self.entries
            .iter()
            .filter_map(|entry| match entry {
                Entry::Ended {
                    step,
                    outcome,
                    attempted,
                    ..
                } => {
                    let notes = notes.remove(&**step).unwrap_or_default();
                    let step = &plan.steps[*positions.get(step.as_ref())?].id;
                    NodeOutcome::of(step, outcome, *attempted, &notes)
                }
                Entry::Note { step, text } => {
                    notes.entry(step).or_default().push(text.clone());
                    None
                }
                Entry::Opened { .. } | Entry::Intent { .. } => None,
            })
            .collect()
    }
}

impl NodeOutcome {
    /// What the end of a step does to the record of its node; `None` where that is nothing.
    ///
    /// A step that sets something to a level (labels, power, the retired flag) leaves the phase as it
    /// was even when it fails: the machine is what it was, and the next plan sets it again. So does a
    /// step that failed before anything was attempted. A step on the way out of a cluster or back that
    /// failed leaves a machine that is what it was, and has to be looked at. `notes`: what the step noted.
    #[must_use]
    pub fn of(
        step: &StepId,
        outcome: &StepOutcome,
        attempted: bool,
        notes: &[Arc<str>],
    ) -> Option<Self> {
        let node = step.node.clone()?;
        let (reached, sets_a_level) = match step.kind {
            StepKind::Destroy => (Some(Phase::NotStarted), false),
            StepKind::Prepare => (Some(Phase::Prepared), false),
            StepKind::Deploy | StepKind::Record | StepKind::Adopt => (Some(Phase::Deployed), false),
            StepKind::Drain
            | StepKind::ClearLabels
            | StepKind::RemoveEtcd
            | StepKind::CheckEtcd
            | StepKind::RemoveFromCluster
            | StepKind::AwaitReady
            | StepKind::Remediate => (None, false),
            _ => (None, true),
        };
        let otherwise = |phase| (attempted && !sets_a_level).then_some(phase);
        let (phase, message) = match outcome {
            StepOutcome::Succeeded => (reached, None),
            StepOutcome::Failed { message } => (otherwise(Phase::Failed), Some(message.clone())),
            StepOutcome::Unknown { message } => (otherwise(Phase::Unknown), Some(message.clone())),
            StepOutcome::Skipped { .. } | StepOutcome::NotNeeded => return None,
        };
        Some(Self {
            node,
            step: step.clone(),
            phase,
            message,
            clean_step: match outcome {
                StepOutcome::Failed { .. } => clean_step_of(notes).map(Arc::from),
                _ => None,
            },
            identity: identity::noted(notes).map(Box::new),
        })
    }
}
