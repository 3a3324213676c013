//! The effect of an ended step on the record of its node.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::backend::NOT_BEGUN;
use crate::design::NodeName;
use crate::identity::{self, Identity};
use crate::journal::{Entry, Replay, StepOutcome};
use crate::plan::Plan;
use crate::record::Phase;
use crate::step::{DECIDED_DONE, Step, StepId, clean_step_of};

/// Whether an operator decided last that a step is done, by its notes.
pub(super) fn decided<'a>(notes: impl IntoIterator<Item = &'a Arc<str>>) -> bool {
    let decisions = notes.into_iter().filter_map(|note| decision(note));
    decisions.last() == Some(true)
}

/// The decision of an operator about a step, by a note: whether it is done.
fn decision(note: &str) -> Option<bool> {
    match note {
        DECIDED_DONE => Some(true),
        NOT_BEGUN => Some(false),
        _ => None,
    }
}

/// The effect of a step on the record of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOutcome {
    /// Which node.
    pub node: NodeName,
    /// The step; its kind decides which digests and fields of the record it brings up to date.
    pub step: StepId,
    /// The phase of the node from now on; `None`: it stays what it was (labels, power, retired).
    pub phase: Option<Phase>,
    /// The failure, or why it is unknown; `None` after a success, which clears the last error.
    pub message: Option<Arc<str>>,
    /// The clean step at which it failed, by what the step noted.
    pub clean_step: Option<Arc<str>>,
    /// The identity of its machine, by the notes of the step.
    pub identity: Option<Box<Identity>>,
    /// An operator decided that it is done.
    pub decided: bool,
}

impl NodeOutcome {
    /// Returns the effects of the end of a step on records: of its node, or of the nodes that a soak has watched.
    pub fn each(
        step: &Step,
        outcome: &StepOutcome,
        attempted: bool,
        notes: &[Arc<str>],
    ) -> impl Iterator<Item = Self> {
        let is_healthy = *outcome == StepOutcome::Succeeded;
        let soaked = step.soaked().filter(move |_| is_healthy);
        let soaked = soaked.map(|node| Self {
            node: node.clone(),
            step: step.id.clone(),
            phase: None,
            message: None,
            clean_step: None,
            identity: None,
            decided: false,
        });
        let own = Self::of(&step.id, outcome, attempted, notes);
        own.into_iter().chain(soaked)
    }

    /// Returns the effect of the end of a step on the record of its node; `None` for no effect.
    ///
    /// A step that sets something to a level (labels, power, the retired flag) leaves the phase as it
    /// was even when it fails: the machine is what it was, and the next plan sets it again. So does a
    /// step that failed before anything was attempted. A step on the way out of a cluster or back that
    /// failed leaves a machine that is what it was, and has to be checked. `notes`: the notes of the step.
    #[must_use]
    pub fn of(
        step: &StepId,
        outcome: &StepOutcome,
        attempted: bool,
        notes: &[Arc<str>],
    ) -> Option<Self> {
        let node = step.node.clone()?;
        let facts = step.kind.facts();
        let otherwise = |phase| (attempted && facts.leaves_doubt).then_some(phase);
        let (phase, message) = match outcome {
            StepOutcome::Succeeded => (facts.reaches, None),
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
            decided: decided(notes),
        })
    }

    /// Returns the effects of the ended steps on the records of their nodes, in the order in which they ended.
    #[must_use]
    pub fn all_of(replay: &Replay, plan: &Plan) -> Vec<Self> {
        let positions = plan.positions();
        let mut notes: FxHashMap<&StepId, Vec<Arc<str>>> = FxHashMap::default();
        replay
            .entries
            .iter()
            .flat_map(|entry| match entry {
                Entry::Ended {
                    step,
                    outcome,
                    attempted,
                    ..
                } => {
                    let notes = notes.remove(step).unwrap_or_default();
                    let step = positions.get(step).map(|position| &plan.steps[*position]);
                    let each = step.map(|step| Self::each(step, outcome, *attempted, &notes));
                    each.into_iter().flatten().collect()
                }
                Entry::Note { step, text } => {
                    notes.entry(step).or_default().push(text.clone());
                    Vec::new()
                }
                Entry::Opened { .. } | Entry::Intent { .. } => Vec::new(),
            })
            .collect()
    }
}
